/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: sent to leased workers. What to lease and where to send is decided in lease.c.
 *
 * Where it sits
 *     crt_submit, outgoing.c -> [ submit.c ] -> node daemon (leases), net (calls)
 * Threads
 *     The core's lock.
 * Ownership
 *     A pool keeps its leases; a lease uses its worker's remote. Pools live as long as the core.
 * Failure
 *     A worker that dies: tasks that were never handed over run elsewhere, so do those that may be
 *     made again (max_retries); the others fail with its report.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/call_events.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/locality.h"
#include "runtime/core/calls/placement_group.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"

#define TELL_AGAIN_NS (10000 * CRTI_MS) /* from one reason for waiting to the next */

static crti_task_lease_t *task_lease(crti_lease_t *lease)
{
    return CRTI_CONTAINER(lease, crti_task_lease_t, lease);
}

/* ------------------------------------------------------------------ pools */

static bool is_same(const crti_task_shape_t *a, const crti_task_shape_t *b)
{
    return a->if_infeasible == b->if_infeasible &&
           a->captures_children == b->captures_children &&
           crti_id_equal(a->prefer, b->prefer) && crti_id_equal(a->avoid, b->avoid) &&
           crti_scheduling_equal(a->how, b->how) &&
           crti_environment_equal(a->environment, b->environment) &&
           crti_resources_fit(&a->resources, &b->resources) &&
           crti_resources_fit(&b->resources, &a->resources);
}

crt_status_t crti_task_pool(crti_core_t *core, const crti_task_shape_t *shape,
                            crti_task_pool_t **pool_out)
{
    crti_task_pool_t *pool;

    CRTI_LIST_FOREACH (item, &core->calls->task_pools) {
        pool = CRTI_CONTAINER(item, crti_task_pool_t, link);
        if (is_same(&pool->shape, shape)) {
            *pool_out = pool;
            return CRT_OK;
        }
    }
    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return crt_raise(CRT_ERR_NO_MEMORY, "tasks of another shape");
    pool->core = core;
    pool->shape = *shape;
    if (shape->how != &crti_scheduling_default) {
        pool->how = *shape->how;
        pool->shape.how = &pool->how;
    }
    if (!crti_id_is_zero(pool->shape.how->group)) {
        pool->group = crti_placement_group_open(core, pool->shape.how->group);
        if (!pool->group) {
            free(pool);
            return crt_raise(CRT_ERR_NO_MEMORY, "tasks of a placement group");
        }
        crti_placement_group_follow(pool->group);
    }
    crti_environment_keep(pool->shape.environment);
    pool->base = pool;
    crti_lease_pool_init(&pool->leases);
    crti_list_init(&pool->queue);
    crti_backlog_init(&pool->backlog);
    crti_list_append(&core->calls->task_pools, &pool->link);
    *pool_out = pool;
    return CRT_OK;
}

static void free_pool(crti_task_pool_t *pool)
{
    crti_list_remove(&pool->link);
    if (pool->group)
        crti_placement_group_release(pool->group);
    crti_backlog_fini(&pool->backlog);
    crti_environment_drop(pool->shape.environment);
    free(pool);
}

/* Of a placement group that is no more: others are few, and come again. */
static bool is_over(const crti_task_pool_t *pool)
{
    return pool->group && pool->group->state == CRTI_PLACEMENT_GROUP_REMOVED &&
           pool->users == 0 && crti_list_is_empty(&pool->leases.leases);
}

/* ------------------------------------------------------------------ leases */

/* What a worker still has when it is given up: its answer, or its loss, finds no lease any more. */
static void forget_in_flight(const crti_task_lease_t *lease)
{
    CRTI_LIST_FOREACH (item, &lease->remote->in_flight) {
        crti_pending_t *p = CRTI_CONTAINER(item, crti_pending_t, link);

        if (p->lease == lease)
            p->lease = NULL;
    }
}

static void free_lease(crti_task_lease_t *lease)
{
    crti_core_t *core = lease->pool->core;

    if (lease->lease.state != CRTI_LEASE_ENDED)
        crti_lease_end(&lease->pool->leases, &lease->lease);
    if (lease->remote) {
        if (lease->lease.in_flight)
            forget_in_flight(lease);
        crti_remote_unuse(core, lease->remote);
    }
    free(lease);
}

/* `broken`: its worker is of no use, and must not be given out again. */
static void give_back(crti_task_lease_t *lease, bool broken)
{
    crti_node_notice(lease->pool->core, CRTI_MSG_LEASE_RETURN,
                     &(crti_msg_lease_return_t){.lease = lease->id,
                                                .node = lease->node,
                                                .broken = broken,
                                                .retires = lease->retires});
    free_lease(lease);
}

/* What the grant of a lease is about: the lease may have been cancelled meanwhile. */
typedef struct asked {
    crti_core_t *core;
    crti_id_t lease;
    crti_task_pool_t *pool;
} asked_t;

static crti_task_lease_t *find_lease(crti_task_pool_t *pool, crti_id_t id)
{
    CRTI_LIST_FOREACH (item, &pool->leases.leases) {
        crti_task_lease_t *lease = task_lease(CRTI_CONTAINER(item, crti_lease_t, link));

        if (crti_id_equal(lease->id, id))
            return lease;
    }
    return NULL;
}

/* The task whose turn it is; NULL: none. */
static crti_pending_t *first_queued(crti_task_pool_t *pool)
{
    crti_pending_t *p;

    if (!crti_list_is_empty(&pool->queue))
        return CRTI_CONTAINER(pool->queue.next, crti_pending_t, link);
    p = pool->backlog.count ? crti_backlog_next(&pool->backlog) : NULL;
    if (p)
        crti_list_append(&pool->queue, &p->link);
    return p;
}

static void fail_queue(crti_task_pool_t *pool, crt_status_t status, const char *text)
{
    crti_pending_t *p;

    while ((p = first_queued(pool)))
        crti_pending_fail(p, status, text, false);
}

static void take_grant(crti_task_lease_t *lease, const crti_msg_lease_granted_t *m)
{
    crti_core_t *core = lease->pool->core;
    crti_address_t address =
        crti_peer_address(m->process, m->incarnation, m->node, m->ipc, m->tcp);

    lease->node = m->node;
    if (crti_remote_use(core, &address, &lease->remote) != CRT_OK ||
        crti_remote_connect(core, lease->remote) != CRT_OK) {
        give_back(lease, true);
        return;
    }
    crti_lease_granted(&lease->pool->leases, &lease->lease, crti_now_ns());
    lease->pool->pause_ns = 0;
    lease->pool->reason[0] = '\0';
    lease->pool->lacks_worker_ns = 0;
    if (crti_list_is_empty(&lease->pool->queue)) /* tasks may come back for it */
        crti_core_wake_at(core, crti_now_ns());
}

/* The bundle is not where it was: the head says where it is, and by then the node may know, too. */
static void ask_later(crti_task_pool_t *pool)
{
    pool->pause_ns = pool->pause_ns ? pool->pause_ns * 2 : CRTI_LIMIT(bundle_pause);
    if (pool->pause_ns > CRTI_LIMIT(bundle_pause_max))
        pool->pause_ns = CRTI_LIMIT(bundle_pause_max);
    pool->retry_ns = crti_now_ns() + pool->pause_ns;
    pool->refused_version = pool->group->version;
    crti_core_wake_at(pool->core, pool->retry_ns);
    crti_placement_group_refresh(pool->group);
}

static void take_refusal(crti_task_pool_t *pool, const crti_msg_error_t *error)
{
    char text[512];

    if (pool->group && error->status == CRT_ERR_BACKPRESSURE) {
        ask_later(pool);
        return;
    }
    /* Not asked again: CRT_ERR_CANCELLED, say, is the answer at once and for ever when the job has
     * ended, of which this process may hear late. Who cancels itself has no lease here. */
    pool->leases.wants_one_more = false;
    crti_text(error->text, text, sizeof(text));
    fail_queue(pool, (crt_status_t)error->status, text);
}

static void on_leased(void *user, const crti_message_t *message)
{
    asked_t *asked = user;
    crti_task_pool_t *pool = asked->pool;
    crti_task_lease_t *lease = find_lease(pool, asked->lease);

    if (message && message->kind == CRTI_MSG_LEASE_GRANTED) {
        if (lease)
            take_grant(lease, &message->lease_granted);
        else /* it crossed our cancel */
            crti_node_notice(
                asked->core, CRTI_MSG_LEASE_RETURN,
                &(crti_msg_lease_return_t){.lease = asked->lease,
                                           .node = message->lease_granted.node});
    } else if (lease) {
        free_lease(lease);
        if (message && message->kind == CRTI_MSG_ERROR)
            take_refusal(pool, &message->error);
    }
    free(asked);
    pool->users--;
    crti_task_pump(pool);
    if (is_over(pool))
        crti_core_wake_at(pool->core, crti_now_ns());
}

static crt_status_t ask_for_lease(crti_task_pool_t *pool)
{
    crti_core_t *core = pool->core;
    const crti_pending_t *first = first_queued(pool);
    /* else for tasks that are in flight already */
    const char *function = first ? crti_call_name(first) : "";
    crti_task_lease_t *lease = calloc(1, sizeof(*lease));
    asked_t *asked = calloc(1, sizeof(*asked));
    crti_msg_lease_request_t m = {.job = core->job,
                                  .owner = core->process,
                                  .owner_node = core->node,
                                  .resources = pool->shape.resources,
                                  .if_infeasible = pool->shape.if_infeasible,
                                  .prefer = pool->shape.prefer,
                                  CRTI_SCHEDULING_FIELDS(pool->shape.how),
                                  .function = crti_str(function),
                                  .environment =
                                      crti_environment_bytes(pool->shape.environment)};
    crt_status_t status;

    if (!lease || !asked) {
        free(lease);
        free(asked);
        return crt_raise(CRT_ERR_NO_MEMORY, "a lease");
    }
    *lease = (crti_task_lease_t){.pool = pool, .id = crti_id_random()};
    *asked = (asked_t){core, lease->id, pool};
    m.lease = lease->id;
    if (pool->group) {
        m.strategy = CRTI_STRATEGY_AFFINITY;
        m.affinity = pool->bundle_node;
    }
    status = crti_node_request(core, CRTI_MSG_LEASE_REQUEST, &m, on_leased, asked);
    if (status != CRT_OK) {
        free(lease);
        free(asked);
        return status;
    }
    pool->users++;
    crti_lease_want(&pool->leases, &lease->lease);
    return CRT_OK;
}

/* Whether a lease in the placement group can be asked for, and on which node. A queue that can
 * never have one fails. */
static bool find_bundle(crti_task_pool_t *pool, uint64_t now_ns)
{
    crt_status_t status;

    if (pool->retry_ns > now_ns)
        return false;
    status = crti_placement_group_node(pool->group, pool->shape.how->bundle,
                                       &pool->shape.resources, pool->turn++,
                                       &pool->bundle_node);
    if (status == CRT_ERR_BACKPRESSURE)
        crti_placement_group_follow(pool->group);
    else if (status != CRT_OK)
        fail_queue(pool, status, crt_error_detail());
    return status == CRT_OK;
}

/* Any bundle will do, and the one that was asked for first is not free: the next one is asked for,
 * too. */
static bool wants_another(const crti_task_pool_t *pool)
{
    size_t bundles;

    if (!pool->group || pool->shape.how->bundle >= 0 || !pool->leases.queued ||
        pool->leases.held)
        return false;
    bundles = crti_placement_group_fitting(pool->group, &pool->shape.resources);
    return pool->leases.wanted < CRTI_LIMIT(lease_requests) &&
           pool->leases.wanted < bundles;
}

static bool should_ask_another(const crti_task_pool_t *pool, uint64_t now_ns)
{
    return now_ns >= pool->asked_ns + CRTI_LEASE_STUCK_NS && wants_another(pool);
}

/* When time alone makes it ask again. What is due and was not asked waits for news of the group. */
static uint64_t next_ask_ns(const crti_task_pool_t *pool, uint64_t now_ns)
{
    uint64_t at = pool->asked_ns + CRTI_LEASE_STUCK_NS;

    if (pool->retry_ns > now_ns)
        return pool->retry_ns;
    return at > now_ns && wants_another(pool) ? at : UINT64_MAX;
}

static void ask_for_leases(crti_task_pool_t *pool, uint64_t now_ns)
{
    while (crti_lease_should_want(&pool->leases) || should_ask_another(pool, now_ns)) {
        if (pool->group && !find_bundle(pool, now_ns))
            return;
        if (ask_for_lease(pool) == CRT_OK) {
            pool->asked_ns = now_ns;
            if (pool->group)
                crti_core_wake_at(pool->core, now_ns + CRTI_LEASE_STUCK_NS);
            continue;
        }
        pool->leases.wants_one_more = false;
        fail_queue(pool, crti_node_loss(pool->core), crt_error_detail());
    }
}

/* More than there are tasks; of several bundles those that were asked for wait until the last task
 * is gone. */
static crti_lease_t *find_unwanted(const crti_task_pool_t *pool)
{
    bool is_any = pool->group && pool->shape.how->bundle < 0;

    return is_any && pool->leases.queued ? NULL : crti_lease_unwanted(&pool->leases);
}

void crti_tasks_of_placement_group(crti_core_t *core, crti_id_t group)
{
    CRTI_LIST_FOREACH (item, &core->calls->task_pools) {
        crti_task_pool_t *pool = CRTI_CONTAINER(item, crti_task_pool_t, link);

        if (!pool->group || !crti_id_equal(pool->group->id, group))
            continue;
        if (pool->group->version != pool->refused_version ||
            pool->group->state == CRTI_PLACEMENT_GROUP_REMOVED)
            pool->retry_ns = 0; /* else its bundles are where they were */
        crti_task_pump(pool);
    }
}

/* ------------------------------------------------------------------ sending */

/* The worker ends before it would come to that task. */
static bool would_come_back(const crti_pending_t *p, const crti_lease_t *lease)
{
    int most = p->spec.function->task->max_calls;

    return most > 0 && lease->in_flight >= (unsigned)most;
}

/* An argument that was known is missing: it waits for it here, not at a worker. */
static void wait_anew(crti_pending_t *p)
{
    crt_status_t status;

    crti_pending_unlink(p);
    status = crti_slot_record(p, crti_span(p->spec.record.data, p->spec.record.size));
    if (status == CRT_OK)
        crti_call_await_slots(p);
    else
        crti_pending_fail(p, status, crt_error_detail(), p->attempt.may_have_run);
}

/* Sends what can be sent; asks for what lacks; cancels what is too much. */
void crti_task_pump(crti_task_pool_t *pool)
{
    crti_lease_t *lease;
    crti_pending_t *p;
    uint64_t now = crti_now_ns();

    while ((p = first_queued(pool)) && (lease = crti_lease_pick(&pool->leases))) {
        crt_status_t status;

        if (p->spec.pin_count && crti_call_is_stale(p)) {
            wait_anew(p);
            continue;
        }
        if (would_come_back(p, lease))
            break;
        status = crti_pending_send(p, task_lease(lease)->remote, &p->spec.record);
        if (status == CRT_ERR_TOO_LARGE) {
            crti_pending_fail(p, status, crt_error_detail(), false);
            continue;
        }
        if (status != CRT_OK)
            break; /* no room, or lost: an answer or the loss comes back here */
        p->lease = task_lease(lease);
        crti_lease_sent(&pool->leases, lease, now);
        if (lease->in_flight == 2)
            crti_core_wake_at(pool->core, now + CRTI_LEASE_STUCK_NS);
    }
    ask_for_leases(pool, now);
    while ((lease = find_unwanted(pool))) {
        crti_node_notice(pool->core, CRTI_MSG_LEASE_CANCEL,
                         &(crti_msg_lease_cancel_t){task_lease(lease)->id, 0});
        free_lease(task_lease(lease));
    }
}

/* Tasks whose arguments lie on another node ask for workers there. Without memory they run
 * anywhere. */
static void go_where_arguments_are(crti_pending_t *p)
{
    crti_task_pool_t *pool;
    crti_task_shape_t shape;
    crti_id_t node;

    if (!p->spec.pins || p->pool->group ||
        !crti_locality(p->core, p->spec.pins, p->spec.pin_count, &node) ||
        crti_id_equal(node, p->pool->shape.prefer))
        return;
    shape = p->pool->shape;
    shape.prefer = node;
    if (crti_task_pool(p->core, &shape, &pool) == CRT_OK) {
        pool->base = p->pool->base;
        p->pool->users--;
        p->pool = pool;
        pool->users++;
    }
}

static bool is_long(const crti_task_pool_t *pool)
{
    return pool->backlog.count > 0 || pool->leases.queued > CRTI_LIMIT(task_queue_front);
}

void crti_task_submit(crti_pending_t *p)
{
    crti_task_pool_t *pool;

    go_where_arguments_are(p);
    pool = p->pool;
    crti_pending_queue(p);
    crti_call_event_queued(p);
    p->lease = NULL;
    pool->leases.queued++;
    if (p->lineage) /* others wait for what it makes again */
        crti_list_append(pool->queue.next, &p->link);
    else if (!is_long(pool) || !crti_backlog_put(&pool->backlog, p))
        crti_list_append(&pool->queue, &p->link);
    crti_task_pump(pool);
}

void crti_task_close_lease(const crti_pending_t *p)
{
    uint64_t now = crti_now_ns();

    if (!p->lease)
        return;
    crti_lease_close(&p->lease->lease, true, now);
    crti_core_wake_at(p->core, now + CRTI_LEASE_CLOSING_NS);
}

static bool has_room(void *user)
{
    return ((crti_task_pool_t *)user)->queue_bytes <= CRTI_LIMIT(task_queue);
}

crt_status_t crti_task_room(crti_task_pool_t *pool, bool try_only)
{
    crt_status_t status;

    if (has_room(pool))
        return CRT_OK;
    if (try_only)
        return crt_raise(CRT_ERR_BACKPRESSURE, "%u tasks (%zu bytes) wait for workers",
                         pool->leases.queued, pool->queue_bytes);
    pool->users++; /* its group may be removed meanwhile */
    status =
        crti_wait_for(pool->core, has_room, pool, -1, NULL, "room in the queue of tasks");
    pool->users--;
    return status;
}

void crti_task_answered(crti_pending_t *p, bool given_back)
{
    crti_task_pool_t *pool = p->pool;
    crti_task_lease_t *lease = p->lease;
    uint64_t now = crti_now_ns();

    p->lease = NULL;
    if (lease && p->attempt.cancel == CRTI_ATTEMPT_FORCED)
        crti_lease_forced(&lease->lease);
    if (given_back) {
        crti_pending_unlink(p);
        crti_pending_queue(p);
        crti_call_event_queued(p);
        p->remote = NULL;
        crti_list_append(pool->queue.next, &p->link); /* first again */
        if (p->stream)
            crti_call_stream_restart(p);
        if (!lease)
            pool->leases.queued++;
    }
    if (lease) {
        crti_lease_answered(&pool->leases, &lease->lease, given_back, now);
        if (lease->lease.in_flight == 0)
            crti_core_wake_at(pool->core, lease->lease.state == CRTI_LEASE_CLOSING
                                              ? now
                                              : now + crti_lease_idle_ns(&lease->lease));
    }
    crti_task_pump(pool);
}

/* ------------------------------------------------------------------ events */

/* Tasks that go on with the workers they have are nothing to tell. */
static void tell_waiting(crti_task_pool_t *pool, uint64_t now_ns)
{
    if (pool->is_told || !pool->reason[0] || !pool->leases.queued || pool->leases.held ||
        !crti_id_is_zero(pool->shape.avoid)) /* the first run goes on */
        return;
    if (now_ns < pool->tell_ns) {
        crti_core_wake_at(pool->core, pool->tell_ns);
        return;
    }
    pool->is_told = true;
    pool->tell_ns = now_ns + TELL_AGAIN_NS;
    crti_log(CRTI_LOG_WARN, "core", "%u %s: %s", pool->leases.queued,
             pool->leases.queued == 1 ? "task waits" : "tasks wait", pool->reason);
}

void crti_lease_message(crti_core_t *core, const crti_message_t *message)
{
    const crti_msg_lease_waiting_t *m = &message->lease_waiting;

    CRTI_LIST_FOREACH (item, &core->calls->task_pools) {
        crti_task_pool_t *pool = CRTI_CONTAINER(item, crti_task_pool_t, link);
        char text[sizeof(pool->reason)];

        if (!find_lease(pool, m->lease))
            continue;
        crti_text(m->text, text, sizeof(text));
        if (strcmp(text, pool->reason) != 0)
            pool->is_told = false;
        memcpy(pool->reason, text, sizeof(text));
        if (strncmp(text, CRTI_LACKS_WORKER, strlen(CRTI_LACKS_WORKER)) == 0) {
            pool->lacks_worker_ns = crti_now_ns();
            crti_net_wake(core->net); /* who waits for such a task may run it */
        }
        tell_waiting(pool, crti_now_ns());
        return;
    }
}

static void yield(crti_task_lease_t *lease)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};
    crti_task_pool_t *pool = lease->pool;
    uint64_t now = crti_now_ns();

    if (lease->lease.state != CRTI_LEASE_HELD && lease->lease.state != CRTI_LEASE_STUCK)
        return;
    crti_lease_close(&lease->lease, false, now);
    if (lease->lease.in_flight == 0)
        give_back(lease, false);
    else if (crti_put_give_back(&record) == CRT_OK)
        crti_remote_send(pool->core, lease->remote, &record);
    crti_task_pump(pool); /* asks for another one, behind those that wait */
}

/* It goes back when it has been idle for a moment. */
static void want_back(crti_task_lease_t *lease)
{
    crti_lease_wanted_by_others(&lease->lease);
    if (lease->lease.in_flight == 0)
        crti_core_wake_at(lease->pool->core,
                          crti_now_ns() + crti_lease_idle_ns(&lease->lease));
}

void crti_task_yield_lease(crti_core_t *core, const crti_msg_lease_yield_t *message)
{
    CRTI_LIST_FOREACH (item, &core->calls->task_pools) {
        crti_task_lease_t *lease =
            find_lease(CRTI_CONTAINER(item, crti_task_pool_t, link), message->lease);

        if (lease && message->when_idle)
            want_back(lease);
        else if (lease)
            yield(lease);
        if (lease)
            return;
    }
}

void crti_tasks_worker_retires(crti_core_t *core, const crti_remote_t *remote)
{
    uint64_t now = crti_now_ns();

    CRTI_LIST_FOREACH (pool_item, &core->calls->task_pools) {
        crti_task_pool_t *pool = CRTI_CONTAINER(pool_item, crti_task_pool_t, link);

        CRTI_LIST_FOREACH (item, &pool->leases.leases) {
            crti_task_lease_t *lease =
                task_lease(CRTI_CONTAINER(item, crti_lease_t, link));

            if (lease->remote != remote)
                continue;
            lease->retires = true;
            crti_lease_close(&lease->lease, false, now);
            crti_core_wake_at(core, now);
        }
    }
}

static bool has_task_with(const crti_task_lease_t *lease, const crt_ref_t *ref)
{
    if (!lease->remote || !lease->lease.in_flight)
        return false;
    CRTI_LIST_FOREACH (item, &lease->remote->in_flight) {
        const crti_pending_t *p = CRTI_CONTAINER(item, crti_pending_t, link);

        for (uint32_t i = 0; i < p->spec.pin_count; i++)
            if (p->spec.pins[i] == ref)
                return true;
    }
    return false;
}

void crti_tasks_give_back(crti_core_t *core, const crt_ref_t *ref)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};

    if (crti_put_give_back(&record) != CRT_OK)
        return;
    CRTI_LIST_FOREACH (pool_item, &core->calls->task_pools) {
        crti_task_pool_t *pool = CRTI_CONTAINER(pool_item, crti_task_pool_t, link);

        CRTI_LIST_FOREACH (item, &pool->leases.leases) {
            crti_task_lease_t *lease =
                task_lease(CRTI_CONTAINER(item, crti_lease_t, link));

            if (has_task_with(lease, ref))
                crti_remote_send(core, lease->remote, &record);
        }
    }
}

void crti_leases_lost(crti_core_t *core, crti_remote_t *remote)
{
    CRTI_LIST_FOREACH (pool_item, &core->calls->task_pools) {
        crti_task_pool_t *pool = CRTI_CONTAINER(pool_item, crti_task_pool_t, link);
        bool is_lost = false;

        CRTI_LIST_FOREACH_SAFE (item, &pool->leases.leases) {
            crti_task_lease_t *lease =
                task_lease(CRTI_CONTAINER(item, crti_lease_t, link));

            if (lease->remote != remote)
                continue;
            give_back(lease, true);
            is_lost = true;
        }
        if (is_lost)
            crti_task_pump(pool);
    }
}

static void tick_pool(crti_task_pool_t *pool, uint64_t now_ns)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};
    uint64_t next = UINT64_MAX;
    crti_lease_t *lease;
    crti_lease_due_t due;

    if (crti_put_give_back(&record) != CRT_OK)
        return;
    while ((due = crti_lease_due(&pool->leases, now_ns, &lease, &next)) !=
           CRTI_LEASE_DUE_NOTHING) {
        if (due == CRTI_LEASE_DUE_RETURN || due == CRTI_LEASE_DUE_KILL)
            give_back(task_lease(lease), due == CRTI_LEASE_DUE_KILL);
        else
            crti_remote_send(pool->core, task_lease(lease)->remote, &record);
    }
    crti_task_pump(pool);
    tell_waiting(pool, now_ns);
    crti_core_wake_at(pool->core, next);
    crti_core_wake_at(pool->core, next_ask_ns(pool, now_ns));
}

void crti_tasks_tick(crti_core_t *core, uint64_t now_ns)
{
    CRTI_LIST_FOREACH_SAFE (item, &core->calls->task_pools) {
        crti_task_pool_t *pool = CRTI_CONTAINER(item, crti_task_pool_t, link);

        tick_pool(pool, now_ns);
        if (is_over(pool))
            free_pool(pool);
    }
}

void crti_tasks_end(crti_core_t *core)
{
    CRTI_LIST_FOREACH (item, &core->calls->task_pools) {
        crti_task_pool_t *pool = CRTI_CONTAINER(item, crti_task_pool_t, link);

        fail_queue(pool, core->broken != CRT_OK ? core->broken : CRT_ERR_CLOSED,
                   core->broken_text ? core->broken_text : CRTI_SHUT_DOWN);
    }
}

void crti_tasks_fini(crti_core_t *core)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&core->calls->task_pools))) {
        crti_task_pool_t *pool = CRTI_CONTAINER(item, crti_task_pool_t, link);

        while (!crti_list_is_empty(&pool->leases.leases))
            free_lease(
                task_lease(CRTI_CONTAINER(pool->leases.leases.next, crti_lease_t, link)));
        crti_backlog_fini(&pool->backlog);
        crti_environment_drop(pool->shape.environment);
        free(pool); /* its group is an orphan by now */
    }
}
