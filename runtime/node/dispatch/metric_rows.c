/* SPDX-License-Identifier: Apache-2.0 */
/* What this node tells the head of its figures and of what its programs count: its part of
 * STATE_QUERY "metrics" (docs/design/state.md).
 *
 * Where it sits
 *     state.c -> [ node/dispatch/metric_rows.c ] -> process/metric_totals.c, store/figures.c
 * Threads: the loop.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/json_write.h"
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/objects/spill.h"
#include "runtime/node/process/metric_totals.h"

static crt_status_t put(crti_buffer_t *json, const char *text)
{
    return crti_buffer_append(json, text, strlen(text));
}

/* ,"key":"text"; the text is a program's, which may be any bytes */
static crt_status_t put_text(crti_buffer_t *json, const char *key, const char *text)
{
    crti_json_writer_t w = {.out = json, .status = put(json, key)};

    crti_json_text(&w, text);
    return w.status;
}

/* JSON has no word for what is not finite: infinities are texts, anything else is null. */
static crt_status_t put_number(crti_buffer_t *json, const char *before, double value)
{
    char text[96];

    if (isfinite(value))
        snprintf(text, sizeof(text), "%s%.17g", before, value);
    else
        snprintf(text, sizeof(text), "%s%s", before,
                 isnan(value) ? "null"
                 : value > 0  ? "\"+Inf\""
                              : "\"-Inf\"");
    return put(json, text);
}

static const char *id_text(crti_id_t id, char text[CRTI_ID_HEX])
{
    text[0] = '\0';
    return crti_id_is_zero(id) ? text : crti_id_hex(id, text);
}

/* ,"buckets":[[bound,count],...],"count":n with counts that add up, as Prometheus has them */
static crt_status_t put_buckets(crti_buffer_t *json, const crti_metric_view_t *view)
{
    crt_status_t status = put(json, ",\"buckets\":[");
    uint64_t sum = 0;
    char text[64];

    for (unsigned i = 0; i < view->bucket_count && status == CRT_OK; i++) {
        sum += view->counts[i];
        status = put_number(json, i ? ",[" : "[", view->bounds[i]);
        snprintf(text, sizeof(text), ",%" PRIu64 "]", sum);
        if (status == CRT_OK)
            status = put(json, text);
    }
    snprintf(text, sizeof(text), "],\"count\":%" PRIu64,
             sum + view->counts[view->bucket_count]);
    return status == CRT_OK ? put(json, text) : status;
}

/* ,"recent":[[number,ns,value],...]: what a gauge was set to last, by the clock of this host */
static crt_status_t put_recent(crti_buffer_t *json, const crti_metric_view_t *view)
{
    crt_status_t status = put(json, ",\"recent\":[");
    char text[64];

    for (unsigned i = 0; i < view->recent_count && status == CRT_OK; i++) {
        const crti_metric_record_t *r = &view->recent[i];

        snprintf(text, sizeof(text), "%s[%" PRIu64 ",%" PRIu64 ",", i ? "," : "",
                 r->number, r->set_ns);
        status = put_number(json, text, r->value);
        if (status == CRT_OK)
            status = put(json, "]");
    }
    return status == CRT_OK ? put(json, "]") : status;
}

static crt_status_t put_metric(crti_node_t *node, crti_buffer_t *json,
                               const crti_metric_total_t *total, bool with_recent)
{
    static const char *const kinds[] = {"", "counter", "gauge", "histogram"};
    const crti_metric_view_t *view = &total->view;
    char job[CRTI_ID_HEX], actor[CRTI_ID_HEX], class_name[96] = "", text[200];
    crt_status_t status;

    if (!crti_id_is_zero(total->key.actor))
        crti_actor_class(node, total->key.actor, class_name, sizeof(class_name));
    snprintf(text, sizeof(text), "{\"kind\":\"%s\",\"job_id\":\"%s\",\"actor_id\":\"%s\"",
             kinds[view->kind], id_text(total->key.job, job),
             id_text(total->key.actor, actor));
    status = put(json, text);
    if (status == CRT_OK && total->is_past)
        status = put(json, ",\"is_past\":true");
    if (status == CRT_OK)
        status = put_text(json, ",\"name\":", view->id.name);
    if (status == CRT_OK)
        status = put_text(json, ",\"help\":", view->help);
    if (status == CRT_OK)
        status = put_text(json, ",\"labels\":", view->id.labels);
    if (status == CRT_OK)
        status = put_text(json, ",\"class_name\":", class_name);
    if (status == CRT_OK)
        status = put_number(json, ",\"value\":", view->value);
    if (status == CRT_OK && view->kind == CRTI_METRIC_HISTOGRAM)
        status = put_buckets(json, view);
    if (status == CRT_OK && with_recent && view->kind == CRTI_METRIC_GAUGE)
        status = put_recent(json, view);
    return status == CRT_OK ? put(json, "}") : status;
}

static void count_processes(const crti_node_t *node, unsigned *drivers, unsigned *actors,
                            unsigned *busy, unsigned *idle)
{
    size_t cursor = 0;
    const crti_process_t *p;

    while ((p = crti_process_next(node, &cursor)) != NULL) {
        bool is_running = p->board && atomic_load_explicit(&p->board->running,
                                                           memory_order_relaxed) == 1;

        if (p->role == CRTI_ROLE_DRIVER)
            ++*drivers;
        else if (!crti_id_is_zero(p->actor))
            ++*actors;
        else
            ++*(is_running ? busy : idle);
    }
}

static crt_status_t put_figures(const crti_node_t *node, crti_buffer_t *json,
                                const crti_metric_totals_t *totals)
{
    unsigned drivers = 0, actors = 0, busy = 0, idle = 0;
    struct crti_store_stats store;
    crti_spill_figures_t spill = crti_spill_figures(node);
    char hex[CRTI_ID_HEX], text[1600];

    count_processes(node, &drivers, &actors, &busy, &idle);
    crti_store_stats(node->store, &store);
    snprintf(
        text, sizeof(text),
        "{\"node_id\":\"%s\",\"processes\":{\"driver\":%u,\"actor\":%u,\"task_busy\":%u,"
        "\"task_idle\":%u},\"processes_died\":%" PRIu64 ",\"metrics_refused\":%" PRIu64
        ",\"calls\":{\"made\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"run\":%" PRIu64
        ",\"unrecorded\":%" PRIu64 "},\"store\":{\"bytes\":%zu,\"used\":%zu,"
        "\"object_bytes\":%zu,\"pinned_bytes\":%zu,\"evictable_bytes\":%zu,"
        "\"objects\":%" PRIu64 ",\"unsealed\":%" PRIu64 ",\"evictions\":%" PRIu64
        ",\"spilled_objects\":%" PRIu64 ",\"spilled_bytes\":%" PRIu64
        ",\"spill_disk_bytes\":%" PRIu64 ",\"spill_written\":%" PRIu64
        ",\"spill_read\":%" PRIu64 "},\"lineage\":{\"bytes\":%" PRIu64
        ",\"limit\":%" PRIu64 ",\"forgotten\":%" PRIu64 "}",
        crti_id_hex(node->id, hex), drivers, actors, busy, idle, totals->processes_died,
        totals->refused, totals->dead.made, totals->dead.failed, totals->dead.run,
        totals->dead.unrecorded, store.capacity, store.used, store.object_bytes,
        store.pinned_bytes, store.evictable_bytes, store.objects, store.unsealed,
        store.evictions, store.spilled_objects, store.spilled_bytes, spill.disk_bytes,
        spill.written, spill.read, totals->lineage.bytes, totals->lineage.limit,
        totals->lineage.forgotten);
    return put(json, text);
}

crt_status_t crti_metric_rows(crti_node_t *node, bool with_recent, crti_buffer_t *json)
{
    crti_metric_totals_t totals;
    crt_status_t status = crti_metric_totals_all(node, &totals);
    const char *before = "";

    if (status == CRT_OK)
        status = put_figures(node, json, &totals);
    if (status == CRT_OK)
        status = put(json, ",\"user\":[");
    CRTI_MAP_FOREACH (const crti_metric_total_t, total, &totals.by_key) {
        if (status == CRT_OK)
            status = put(json, before);
        before = ",";
        if (status == CRT_OK)
            status = put_metric(node, json, total, with_recent);
    }
    crti_metric_totals_fini(&totals);
    return status == CRT_OK ? put(json, "]}") : status;
}
