/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a page of metrics as a process may leave it, and labels as programs write them
 * (base/metrics.c). */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/metrics.h"

#define SHOWN 3 /* metrics of an input: a whole page is large */

static size_t page_bytes(void)
{
    return offsetof(crti_metrics_t, metric) + SHOWN * sizeof(crti_metric_t);
}

/* Nothing of it may end the line, or a label, of the text that it goes into. */
static void check(const crti_metric_view_t *view)
{
    bool is_quoted = false;

    for (const char *at = view->id.labels; *at; at++) {
        if (*at == '\n' || (!is_quoted && strchr("}{ ", *at)))
            abort();
        if (is_quoted && *at == '\\') {
            if (*++at == '\0')
                abort();
        } else if (*at == '"') {
            is_quoted = !is_quoted;
        }
    }
    if (is_quoted || view->bucket_count > CRTI_METRIC_BUCKETS ||
        strpbrk(view->help, "\n") || !*view->id.name)
        abort();
}

static void read_page(const uint8_t *data, size_t size)
{
    crti_metrics_t *page = aligned_alloc(64, (sizeof(*page) + 63) & ~(size_t)63);
    crti_metric_view_t view, sum;
    size_t cursor = 0, count = 0;

    if (!page)
        abort();
    memset(page, 0, sizeof(*page));
    memcpy(page, data, size < page_bytes() ? size : page_bytes());
    while (crti_metric_read(page, &cursor, &view)) {
        check(&view);
        if (count++ == 0)
            sum = view;
        crti_metric_merge(&sum, &view);
    }
    if (count > CRTI_METRICS)
        abort();
    free(page);
}

static void read_labels(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), out[CRTI_METRIC_LABELS];
    crti_metric_t like = {.id.name = "a"}, *metric;
    crti_metrics_t *page = aligned_alloc(64, (sizeof(*page) + 63) & ~(size_t)63);
    crti_metric_view_t view;
    size_t cursor = 0;

    if (!text || !page)
        abort();
    memset(page, 0, sizeof(*page));
    memcpy(text, data, size);
    text[size] = '\0';
    if (crti_metric_labels(text, out) == CRT_OK) {
        memcpy(like.id.labels, out, sizeof(out));
        if (crti_metric_make(page, &like, CRTI_METRIC_COUNTER, &metric) != CRT_OK ||
            !crti_metric_read(page, &cursor, &view)) /* what is written can be read */
            abort();
        check(&view);
    }
    free(text);
    free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_page(data, size);
    read_labels(data, size);
    return 0;
}

static size_t page_seed(uint8_t *out, size_t room)
{
    crti_metrics_t *page = aligned_alloc(64, (sizeof(*page) + 63) & ~(size_t)63);
    crti_metric_t like = {.id = {"steps_total", "set=\"train\",n=\"1\""},
                          .help = "Steps that were done."},
                  *metric;

    if (!page || page_bytes() > room)
        abort();
    memset(page, 0, sizeof(*page));
    if (crti_metric_make(page, &like, CRTI_METRIC_COUNTER, &metric) != CRT_OK)
        abort();
    crti_metric_add(metric, 2.5);
    strcpy(like.id.name, "seconds");
    like.bounds[0] = 1;
    like.bounds[1] = 2;
    like.bucket_count = 2;
    if (crti_metric_make(page, &like, CRTI_METRIC_HISTOGRAM, &metric) != CRT_OK)
        abort();
    crti_metric_observe(metric, 1.5);
    memcpy(out, page, page_bytes());
    free(page);
    return page_bytes();
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char *const labels[] = {"set=train,host=\"a\\b\",n=1", "a=1,a=2",
                                         "town=K\xc3\xb6ln,b=\"a=", "a=\xff,b=\xc3"};

    if (index == 0)
        return page_seed(out, room);
    if (index > sizeof(labels) / sizeof(labels[0]) || strlen(labels[index - 1]) > room)
        return 0;
    memcpy(out, labels[index - 1], strlen(labels[index - 1]));
    return strlen(labels[index - 1]);
}
