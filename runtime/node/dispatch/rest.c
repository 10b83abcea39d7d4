/* SPDX-License-Identifier: Apache-2.0 */
/* Rest: for which jobs something goes on here, what they hold of this node, and what they wait for
 * here. The head asks it of jobs that wait for resources (control/control_deadlock.c); else nobody
 * does, and it costs nothing.
 *
 * Where it sits
 *     state.c -> [ node/dispatch/rest.c ] -> STATE_QUERY "rest" to processes ->
 *     core/client/told_rest.c -> JOB_REST -> STATE_ANSWER to the head: a list of JOB_REST
 * Rules
 *     A process that has not attached, or says nothing within PATIENCE_NS, runs; so does a job of
 *     which a lease begins or is on its way to another node, or of which an object is fetched.
 *     One look at a time: a later one takes the place of one that is not answered.
 * Trust
 *     What a process says counts for its own job only.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/bundle_table.h"
#include "runtime/node/leases/holdings.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/room.h"
#include "runtime/node/links/head.h"
#include "runtime/node/objects/pull_table.h"

#define PATIENCE_NS (800 * CRTI_MS) /* for what processes say, mostly at once */
#define AWAITS_MAX  (16 * 256)      /* bytes of ids for each job */
#define SHAPES_MAX  16              /* requests of each job */

typedef struct row {
    crti_id_t job;
    bool runs;
    uint64_t processes, activity;
    crti_buffer_t awaits; /* ids */
    crti_resources_t held;
    const crti_lease_t *requests[SHAPES_MAX]; /* while the answer is made */
    size_t request_count;
} row_t;

struct crti_rest_look {
    crti_node_t *node;
    uint64_t request, round;
    row_t *rows;
    size_t count, room;
    crti_map_t by_job;  /* -> row_t */
    crti_map_t missing; /* processes without an answer -> row_t of their job */
    crti_timer_t timer;
};

static void free_look(crti_rest_look_t *look)
{
    crti_loop_cancel(look->node->loop, &look->timer);
    for (size_t i = 0; i < look->count; i++)
        crti_buffer_fini(&look->rows[i].awaits);
    crti_map_fini(&look->by_job);
    crti_map_fini(&look->missing);
    free(look->rows);
    free(look);
}

/* ---------------------------------------------------------------- what is held and wanted */

/* Leases without the CPUs of those that wait. */
static void add_lease(row_t *row, const crti_lease_t *lease)
{
    crti_resources_t held = lease->resources;

    if (!crti_id_is_zero(lease->how.group))
        return;
    if (lease->is_blocked)
        crti_resources_set(&held, "CPU", 0);
    crti_resources_give(&row->held, &held);
}

static bool is_same_shape(const crti_lease_t *a, const crti_lease_t *b)
{
    return crti_resources_equal(&a->resources, &b->resources) &&
           crti_scheduling_equal(&a->how, &b->how);
}

/* One of each shape, the youngest. */
static void add_request(row_t *row, const crti_lease_t *lease)
{
    size_t at = 0;

    while (at < row->request_count && !is_same_shape(row->requests[at], lease))
        at++;
    if (at == SHAPES_MAX) {
        row->runs = true; /* too many to tell: as if it could go on */
    } else if (at == row->request_count) {
        row->requests[row->request_count++] = lease;
    } else if (row->requests[at]->since_ns < lease->since_ns) {
        row->requests[at] = lease;
    }
}

static void collect_leases(crti_rest_look_t *look)
{
    const crti_lease_t *lease;
    size_t cursor = 0;

    while ((lease = crti_lease_table_next(look->node->lease_table, &cursor))) {
        row_t *row = crti_map_get(&look->by_job, &lease->job);

        if (row == NULL)
            continue;
        if (lease->state == CRTI_LEASE_WAITING)
            add_request(row, lease);
        else if (lease->state == CRTI_LEASE_GRANTED)
            add_lease(row, lease);
        else
            row->runs = true; /* it begins, or is on its way to another node */
    }
}

static void collect_others(crti_rest_look_t *look)
{
    const crti_room_t *room = crti_lease_table_room(look->node->lease_table);
    const crti_holding_t *holding;
    const crti_bundle_t *bundle;
    crti_list_t *at = NULL;
    size_t cursor = 0;
    row_t *row;

    while ((holding = crti_holdings_next(&room->holdings, &cursor)))
        if (holding->bundle == NULL &&
            (row = crti_map_get(&look->by_job, &holding->job)) != NULL)
            crti_resources_give(&row->held, &holding->resources);
    cursor = 0;
    while ((bundle = crti_bundle_table_next(&room->bundles, &cursor, &at)))
        if ((row = crti_map_get(&look->by_job, &bundle->job)) != NULL)
            crti_resources_give(&row->held, &bundle->resources);
}

/* Its process waits for an object that is being fetched. */
static void on_requester(void *user, crti_id_t process)
{
    crti_rest_look_t *look = user;
    const crti_process_t *p = crti_process_get(look->node, process);
    row_t *row = p ? crti_map_get(&look->by_job, &p->job_id) : NULL;

    if (row)
        row->runs = true;
}

/* ---------------------------------------------------------------- the answer */

static crt_status_t pack_requests(const row_t *row, crti_buffer_t *list)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < row->request_count && status == CRT_OK; i++) {
        const crti_lease_t *lease = row->requests[i];
        crti_msg_lease_request_t ask = {.lease = lease->id,
                                        .job = lease->job,
                                        .owner = lease->owner,
                                        .owner_node = lease->owner_node,
                                        .resources = lease->resources,
                                        .function = crti_str(lease->function),
                                        .spillbacks = lease->spillbacks,
                                        CRTI_SCHEDULING_FIELDS(&lease->how)};

        status = crti_head_pack(list, CRTI_MSG_LEASE_REQUEST, &ask);
    }
    return status;
}

static crt_status_t pack_row(const crti_rest_look_t *look, const row_t *row,
                             crti_buffer_t *rows)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t requests = {0};
    crt_status_t status = pack_requests(row, &requests);
    crti_msg_job_rest_t m = {
        .job = row->job,
        .node = look->node->id,
        .round = look->round,
        .processes = row->processes,
        .is_at_rest = !row->runs,
        .activity = row->activity,
        .awaits = crti_span(row->awaits.data, row->awaits.size),
        .held = row->held,
        .requests = crti_span(requests.data, requests.size),
    };

    return status == CRT_OK ? crti_head_pack(rows, CRTI_MSG_JOB_REST, &m) : status;
}

static void answer(crti_rest_look_t *look)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t rows = {0};
    crti_node_t *node = look->node;
    crti_msg_state_answer_t body;
    crt_status_t status = CRT_OK;

    CRTI_MAP_FOREACH (row_t, late, &look->missing)
        late->runs = true;
    collect_leases(look);
    collect_others(look);
    crti_pull_table_visit(node->pull_table, on_requester, look);
    for (size_t i = 0; i < look->count && status == CRT_OK; i++)
        status = pack_row(look, &look->rows[i], &rows);
    body = (crti_msg_state_answer_t){.json = crti_span(rows.data, rows.size)};
    if (status == CRT_OK)
        crti_head_send(node, CRTI_MSG_STATE_ANSWER, look->request, &body);
    else
        crti_head_send_error(node, look->request, status, crt_error_detail());
    node->rest->open = NULL;
    free_look(look);
}

/* All have answered, or some are too late. */
static void on_time(void *user)
{
    answer(user);
}

/* ---------------------------------------------------------------- asking */

static bool add_row(crti_rest_look_t *look, crti_id_t job)
{
    row_t *row = &look->rows[look->count];

    if (crti_map_get(&look->by_job, &job))
        return true;
    *row = (row_t){.job = job};
    if (crti_map_put(&look->by_job, &job, row) != CRT_OK)
        return false;
    look->count++;
    return true;
}

/* `jobs`: hex ids with a space behind each. */
static bool read_jobs(crti_rest_look_t *look, crti_span_t jobs)
{
    size_t count = jobs.size / CRTI_ID_HEX;

    look->rows = calloc(count + 1, sizeof(*look->rows));
    for (size_t i = 0; look->rows && i < count; i++) {
        char hex[CRTI_ID_HEX];
        crti_id_t id;

        memcpy(hex, (const char *)jobs.data + i * CRTI_ID_HEX, CRTI_ID_HEX - 1);
        hex[CRTI_ID_HEX - 1] = '\0';
        if (!crti_id_parse(hex, &id) || !add_row(look, id))
            return false;
    }
    return look->rows != NULL;
}

static void ask(crti_rest_look_t *look, crti_process_t *p, row_t *row)
{
    crti_msg_state_query_t query = {.what = crti_str("rest")};
    char filter[64];

    row->processes++;
    if (p->dying)
        return; /* of its end the head hears */
    if (p->local == NULL || crti_map_put(&look->missing, &p->id, row) != CRT_OK) {
        row->runs = true;
        return;
    }
    snprintf(filter, sizeof(filter), "%llu 0", (unsigned long long)look->round);
    query.filter = crti_str(filter);
    crti_local_send(p, CRTI_MSG_STATE_QUERY, 0, &query);
}

void crti_rest_asked(crti_node_t *node, uint64_t request, crti_span_t jobs)
{
    crti_rest_look_t *look = calloc(1, sizeof(*look));
    crti_process_t *p;
    size_t cursor = 0;

    if (node->rest->open)
        answer(node->rest->open);
    if (look == NULL) {
        crti_head_send_error(node, request, CRT_ERR_NO_MEMORY, "a look");
        return;
    }
    *look = (crti_rest_look_t){.node = node,
                               .request = request,
                               .round = ++node->rest->rounds,
                               .timer = {.on_expired = on_time, .user = look}};
    crti_map_init(&look->by_job, sizeof(crti_id_t));
    crti_map_init(&look->missing, sizeof(crti_id_t));
    if (!read_jobs(look, jobs)) {
        free_look(look);
        crti_head_send_error(node, request, CRT_ERR_INVALID, "ids of jobs");
        return;
    }
    node->rest->open = look;
    while ((p = crti_process_next(node, &cursor)) != NULL) {
        row_t *row = crti_map_get(&look->by_job, &p->job_id);

        if (row)
            ask(look, p, row);
    }
    crti_loop_start(node->loop, &look->timer,
                    crti_node_now(node) + (look->missing.count ? PATIENCE_NS : 0));
}

static void take(row_t *row, const crti_msg_job_rest_t *m)
{
    row->runs |= !m->is_at_rest;
    row->activity += m->activity;
    if (m->awaits.size % 16 || row->awaits.size + m->awaits.size > AWAITS_MAX ||
        crti_buffer_append(&row->awaits, m->awaits.data, m->awaits.size) != CRT_OK)
        row->runs = true;
}

bool crti_rest_said(crti_process_t *process, crti_span_t told)
{
    crti_rest_look_t *look = process->node->rest->open;
    crti_message_t m;
    row_t *row;

    if (crti_message_decode(told.data, told.size, &m) != CRT_OK ||
        m.kind != CRTI_MSG_JOB_REST)
        return false;
    if (look == NULL || m.job_rest.round != look->round)
        return true;
    row = crti_map_remove(&look->missing, &process->id);
    if (row)
        take(row, &m.job_rest);
    if (row && look->missing.count == 0) /* in a turn of its own: who said it is read */
        crti_loop_start(process->node->loop, &look->timer, 0);
    return true;
}

void crti_rest_free(crti_node_t *node)
{
    if (node->rest->open)
        free_look(node->rest->open);
    node->rest->open = NULL;
}
