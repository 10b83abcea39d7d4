/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a process. See metrics.h. */
#include "runtime/base/metrics.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/utf8.h"

/* ------------------------------------------------------------------ names */

static bool is_name(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!(isalpha((unsigned char)text[i]) || text[i] == '_' ||
              (i && isdigit((unsigned char)text[i]))))
            return false;
    return size > 0;
}

crt_status_t crti_metric_check_name(const char *name)
{
    if (!name || !is_name(name, strlen(name)) || strlen(name) >= CRTI_METRIC_NAME ||
        strncmp(name, "crt_", 4) == 0)
        return crt_raise(
            CRT_ERR_INVALID,
            "\"%s\" can't name a metric: letters, digits and _, not beginning "
            "with a digit or crt_, at most %d",
            name ? name : "", CRTI_METRIC_NAME - 1);
    return CRT_OK;
}

/* Names that are given by the library, or mean something to Prometheus. */
static bool is_taken(const char *name, size_t size)
{
    static const char *const taken[] = {"job_id",  "actor_id",  "class_name",
                                        "node_id", "worker_id", "le",
                                        "job",     "instance"};

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (strlen(taken[i]) == size && memcmp(taken[i], name, size) == 0)
            return true;
    return size >= 2 && memcmp(name, "__", 2) == 0;
}

/* UTF-8 without control characters: two values that differ stay so. */
static bool is_value(const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + size;

    while (at < end) {
        int length = crti_utf8_length(at, (size_t)(end - at));

        if (length <= 0 || *at < ' ' || *at == 127)
            return false;
        at += length;
    }
    return true;
}

/* Among a="b",c="d"; its size tells that it is whole. */
static bool has_label(const char *labels, const char *name, size_t size)
{
    while (*labels) {
        size_t length = strcspn(labels, "=");

        if (length == size && memcmp(labels, name, size) == 0)
            return true;
        for (labels += length + 2; *labels && *labels != '"'; labels++)
            labels += *labels == '\\' && labels[1];
        labels += *labels == '"';
        labels += *labels == ',';
    }
    return false;
}

/* Appends name="value"; false: there is no room. */
static bool put_label(char out[CRTI_METRIC_LABELS], const char *name, size_t name_size,
                      const char *value, size_t value_size)
{
    size_t at = strlen(out);

    if (at + name_size + 4 >= CRTI_METRIC_LABELS)
        return false;
    if (at)
        out[at++] = ',';
    memcpy(out + at, name, name_size);
    at += name_size;
    out[at++] = '=';
    out[at++] = '"';
    for (size_t i = 0; i < value_size; i++) {
        bool is_special = value[i] == '"' || value[i] == '\\';

        if (at + 3 >= CRTI_METRIC_LABELS)
            return false;
        if (is_special)
            out[at++] = '\\';
        out[at++] = value[i];
    }
    out[at] = '"';
    return true;
}

crt_status_t crti_metric_labels(const char *text, char out[CRTI_METRIC_LABELS])
{
    memset(out, 0, CRTI_METRIC_LABELS);
    while (text && *text) {
        size_t size = strcspn(text, ","), name = strcspn(text, "=,");

        if (name >= size || !is_name(text, name))
            return crt_raise(CRT_ERR_INVALID,
                             "\"%.*s\" is no label: they are written name=value,...",
                             (int)size, text);
        if (is_taken(text, name))
            return crt_raise(CRT_ERR_INVALID, "the label %.*s is not for programs",
                             (int)name, text);
        if (has_label(out, text, name))
            return crt_raise(CRT_ERR_INVALID, "the label %.*s is given twice", (int)name,
                             text);
        if (!is_value(text + name + 1, size - name - 1))
            return crt_raise(
                CRT_ERR_INVALID,
                "the value of the label %.*s is no UTF-8, or holds a control "
                "character",
                (int)name, text);
        if (!put_label(out, text, name, text + name + 1, size - name - 1))
            return crt_raise(CRT_ERR_INVALID, "labels of more than %d bytes",
                             CRTI_METRIC_LABELS - 1);
        text += size;
        text += *text == ',';
    }
    return CRT_OK;
}

/* ------------------------------------------------------------------ families
 *
 * A name stands for one kind, and a family (what is shown under a name) for one name: counters end
 * in _total there, and histograms have names for their parts. */

static bool ends_with(const char *text, size_t size, const char *end)
{
    return size > strlen(end) && memcmp(text + size - strlen(end), end, strlen(end)) == 0;
}

/* The name without the ending that its kind is shown with. */
static size_t stem_size(const char *name, crti_metric_kind_t kind)
{
    size_t size = strlen(name);

    return kind == CRTI_METRIC_COUNTER && ends_with(name, size, "_total") ? size - 6
                                                                          : size;
}

/* Whether `name` of that kind is shown as `stem` with one of these endings. */
static bool is_shown_as(const char *name, crti_metric_kind_t kind, const char *stem,
                        size_t stem_length, const char *const *endings)
{
    size_t size = stem_size(name, kind);
    const char *own = kind == CRTI_METRIC_COUNTER ? "_total" : "";
    char shown[CRTI_METRIC_NAME + 16], other[CRTI_METRIC_NAME + 16];

    snprintf(shown, sizeof(shown), "%.*s%s", (int)size, name, own);
    for (; *endings; endings++) {
        snprintf(other, sizeof(other), "%.*s%s", (int)stem_length, stem, *endings);
        if (strcmp(shown, other) == 0)
            return true;
    }
    return false;
}

bool crti_metric_share_family(const char *a, crti_metric_kind_t a_kind, const char *b,
                              crti_metric_kind_t b_kind)
{
    static const char *const counter[] = {"_total", NULL}, *const gauge[] = {"", NULL};
    static const char *const histogram[] = {"", "_bucket", "_sum", "_count", NULL};
    const char *const *of_a = a_kind == CRTI_METRIC_COUNTER ? counter
                              : a_kind == CRTI_METRIC_GAUGE ? gauge
                                                            : histogram;
    const char *const *of_b = b_kind == CRTI_METRIC_COUNTER ? counter
                              : b_kind == CRTI_METRIC_GAUGE ? gauge
                                                            : histogram;

    return is_shown_as(b, b_kind, a, stem_size(a, a_kind), of_a) ||
           is_shown_as(a, a_kind, b, stem_size(b, b_kind), of_b);
}

/* ------------------------------------------------------------------ making one */

static bool has_same_buckets(const double *a, unsigned count, const double *b,
                             unsigned other)
{
    if (count != other)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!(a[i] == b[i]))
            return false;
    return true;
}

/* The same name is of one kind; another name is shown under another one. */
static crt_status_t check_family(const crti_metric_t *metric, const crti_metric_t *like,
                                 crti_metric_kind_t kind)
{
    bool is_same = strcmp(metric->id.name, like->id.name) == 0;

    if (is_same && metric->kind != kind)
        return crt_raise(CRT_ERR_INVALID, "there is a metric %s of another kind",
                         like->id.name);
    if (!is_same &&
        crti_metric_share_family(metric->id.name, metric->kind, like->id.name, kind))
        return crt_raise(CRT_ERR_INVALID,
                         "the metric %s would be shown under the name of %s",
                         like->id.name, metric->id.name);
    return CRT_OK;
}

crt_status_t crti_metric_make(crti_metrics_t *metrics, const crti_metric_t *like,
                              crti_metric_kind_t kind, crti_metric_t **metric_out)
{
    uint32_t count = atomic_load_explicit(&metrics->count, memory_order_relaxed);
    crt_status_t status = CRT_OK;
    crti_metric_t *made;

    for (uint32_t i = 0; i < count && status == CRT_OK; i++)
        status = check_family(&metrics->metric[i], like, kind);
    if (status != CRT_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        crti_metric_t *metric = &metrics->metric[i];

        if (memcmp(&metric->id, &like->id, sizeof(like->id)) != 0)
            continue;
        if (!has_same_buckets(metric->bounds, metric->bucket_count, like->bounds,
                              like->bucket_count))
            return crt_raise(CRT_ERR_INVALID, "there is a metric %s with other buckets",
                             like->id.name);
        *metric_out = metric;
        return CRT_OK;
    }
    if (count == CRTI_METRICS)
        return crt_raise(CRT_ERR_NO_MEMORY, "metric %s: a process has at most %d",
                         like->id.name, CRTI_METRICS);
    made = &metrics->metric[count];
    made->id = like->id;
    memcpy(made->help, like->help, sizeof(made->help));
    if (kind == CRTI_METRIC_HISTOGRAM) /* else they are something else */
        memcpy(made->bounds, like->bounds, sizeof(made->bounds));
    made->bucket_count = like->bucket_count;
    atomic_store_explicit(&made->kind, kind, memory_order_relaxed);
    atomic_store_explicit(&metrics->count, count + 1, memory_order_release);
    *metric_out = made;
    return CRT_OK;
}

/* ------------------------------------------------------------------ values */

static double as_double(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint64_t as_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

void crti_metric_add(crti_metric_t *metric, double amount)
{
    uint64_t old = atomic_load_explicit(&metric->value, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(
        &metric->value, &old, as_bits(as_double(old) + amount), memory_order_relaxed,
        memory_order_relaxed))
        continue;
}

void crti_metric_set(crti_metric_t *metric, double value, uint64_t now_ns)
{
    uint64_t number = atomic_fetch_add_explicit(&metric->sets, 1, memory_order_relaxed);
    crti_metric_slot_t *slot = &metric->recent[number % CRTI_METRIC_RECENT];

    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&slot->set_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->value, as_bits(value), memory_order_relaxed);
    atomic_store_explicit(&slot->set_ns, now_ns, memory_order_release);
    atomic_store_explicit(&metric->value, as_bits(value), memory_order_relaxed);
    atomic_store_explicit(&metric->set_ns, now_ns, memory_order_relaxed);
}

void crti_metric_observe(crti_metric_t *metric, double value)
{
    unsigned i = 0;

    while (i < metric->bucket_count && !(value <= metric->bounds[i]))
        i++;
    atomic_fetch_add_explicit(&metric->counts[i], 1, memory_order_relaxed);
    crti_metric_add(metric, value);
}

/* ------------------------------------------------------------------ reading */

static bool copy_text(char *to, const char *from, size_t room)
{
    memcpy(to, from, room);
    if (!memchr(to, '\0', room))
        return false;
    for (size_t i = strlen(to); i < room; i++)
        to[i] = '\0';
    return true;
}

/* What can't be shown becomes '?'. */
static void clean(char *text)
{
    while (*text) {
        int length = crti_utf8_length((unsigned char *)text, strlen(text));

        if (length <= 0 || (unsigned char)*text < ' ' || *text == 127)
            *text++ = '?';
        else
            text += length;
    }
}

/* a="b",c="d", and nothing else: it goes into the text as it is. */
static bool are_labels(const char *text)
{
    const char *whole = text;

    if (!is_value(text, strlen(text)))
        return false;
    while (*text) {
        size_t name = strcspn(text, "=");
        char before[CRTI_METRIC_LABELS];

        snprintf(before, sizeof(before), "%.*s", (int)(text - whole), whole);
        if (has_label(before, text, name))
            return false;
        if (!is_name(text, name) || is_taken(text, name) || text[name] != '=' ||
            text[name + 1] != '"')
            return false;
        for (text += name + 2; *text && *text != '"'; text++)
            if (*text == '\\' && *++text == '\0')
                return false;
        if (*text++ != '"')
            return false;
        if (*text == ',' && text[1])
            text++;
        else if (*text)
            return false;
    }
    return true;
}

static bool are_bounds(const double *bounds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!isfinite(bounds[i]) || (i && !(bounds[i] > bounds[i - 1])))
            return false;
    return true;
}

/* Values that are being written, or were overwritten meanwhile, are left out. */
static void copy_recent(const crti_metric_t *m, crti_metric_view_t *view)
{
    uint64_t sets = atomic_load_explicit(&m->sets, memory_order_acquire), after;
    uint64_t number = sets > CRTI_METRIC_RECENT ? sets - CRTI_METRIC_RECENT : 0;
    uint64_t last_ns = 0;
    unsigned count = 0, lost = 0;

    for (; number < sets; number++) {
        const crti_metric_slot_t *slot = &m->recent[number % CRTI_METRIC_RECENT];
        uint64_t set_ns = atomic_load_explicit(&slot->set_ns, memory_order_acquire);
        uint64_t bits = atomic_load_explicit(&slot->value, memory_order_relaxed);

        if (set_ns > last_ns) { /* else it is not written yet, and is an old one */
            last_ns = set_ns;
            view->recent[count++] =
                (crti_metric_record_t){number, set_ns, as_double(bits)};
        }
    }
    atomic_thread_fence(memory_order_acquire);
    after = atomic_load_explicit(&m->sets, memory_order_relaxed);
    while (lost < count && after - view->recent[lost].number > CRTI_METRIC_RECENT)
        lost++;
    view->recent_count = count - lost;
    memmove(view->recent, view->recent + lost,
            view->recent_count * sizeof(*view->recent));
}

static bool copy(const crti_metric_t *m, crti_metric_view_t *view)
{
    uint32_t kind = atomic_load_explicit(&m->kind, memory_order_relaxed);

    *view = (crti_metric_view_t){.bucket_count = m->bucket_count};
    if (kind == CRTI_METRIC_NONE || kind >= CRTI_METRIC_KINDS ||
        view->bucket_count > CRTI_METRIC_BUCKETS)
        return false;
    view->kind = (crti_metric_kind_t)kind;
    view->value = as_double(atomic_load_explicit(&m->value, memory_order_relaxed));
    view->set_ns = atomic_load_explicit(&m->set_ns, memory_order_relaxed);
    if (kind == CRTI_METRIC_GAUGE)
        copy_recent(m, view);
    if (kind == CRTI_METRIC_HISTOGRAM)
        memcpy(view->bounds, m->bounds, sizeof(view->bounds));
    for (unsigned i = 0; kind == CRTI_METRIC_HISTOGRAM && i <= view->bucket_count; i++)
        view->counts[i] = atomic_load_explicit(&m->counts[i], memory_order_relaxed);
    if ((kind == CRTI_METRIC_GAUGE && !view->set_ns) ||
        !copy_text(view->id.name, m->id.name, CRTI_METRIC_NAME) ||
        !copy_text(view->id.labels, m->id.labels, CRTI_METRIC_LABELS) ||
        !copy_text(view->help, m->help, CRTI_METRIC_HELP))
        return false;
    clean(view->help);
    return is_name(view->id.name, strlen(view->id.name)) && are_labels(view->id.labels) &&
           are_bounds(view->bounds, view->bucket_count);
}

bool crti_metric_read(const crti_metrics_t *metrics, size_t *cursor,
                      crti_metric_view_t *view_out)
{
    uint32_t count = atomic_load_explicit(&metrics->count, memory_order_acquire);

    while (*cursor < count && *cursor < CRTI_METRICS)
        if (copy(&metrics->metric[(*cursor)++], view_out))
            return true;
    return false;
}

bool crti_metric_merge(crti_metric_view_t *into, const crti_metric_view_t *from)
{
    if (into->kind != from->kind || !has_same_buckets(into->bounds, into->bucket_count,
                                                      from->bounds, from->bucket_count))
        return false;
    if (into->kind == CRTI_METRIC_GAUGE) {
        if (from->set_ns < into->set_ns)
            return true;
        into->set_ns = from->set_ns;
        into->value = from->value;
        into->recent_count = from->recent_count;
        memcpy(into->recent, from->recent, sizeof(into->recent));
        return true;
    }
    into->value += from->value;
    for (unsigned i = 0; i <= into->bucket_count; i++)
        into->counts[i] += from->counts[i];
    return true;
}
