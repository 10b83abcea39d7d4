/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: who asks for workers, and what they hear. See lease.h. */
#include "runtime/node/leases/lease.h"

#include <string.h>

#include "runtime/base/environment.h"
#include "runtime/base/limit.h"
#include "runtime/node/leases/fair_share.h"
#include "runtime/node/leases/leases_int.h"
#include "runtime/node/leases/room.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/process/process.h"
#include "runtime/node/watches/watch.h"

#define MAX_WORKERS 64 /* of tasks, at least */

/* Who asked: a connection of this node, or a stream of another. */
typedef struct asker {
    uint64_t local;
    crti_stream_t *stream;
    uint64_t request;
    crti_environment_t *environment; /* that the worker is to have; owned */
} asker_t;

static void free_asker(asker_t *asker)
{
    if (asker)
        crti_environment_drop(asker->environment);
    free(asker);
}

crt_status_t crti_lease_init(crti_node_t *node, void (*carry_out)(crti_node_t *node))
{
    const crti_resources_t *resources = &node->options.resources;
    size_t cpus = (size_t)(crti_resources_get(resources, "CPU") / CRTI_RESOURCE_ONE);
    size_t workers = cpus * 8 > MAX_WORKERS ? cpus * 8 : MAX_WORKERS;
    crt_status_t status =
        crti_lease_table_new(node->id, resources, workers, &node->lease_table);

    node->leases->carry_out = carry_out;
    if (status == CRT_OK)
        crti_lease_table_labels(node->lease_table, node->options.labels);
    crti_map_init(&node->leases->askers, sizeof(crti_id_t));
    if (status == CRT_OK)
        status = crti_worker_table_new(cpus > 4 ? cpus * 2 : 8, &node->workers);
    return status;
}

void crti_lease_act(crti_node_t *node)
{
    if (node->leases->is_acting || node->is_ending)
        return;
    node->leases->is_acting = true;
    node->leases->carry_out(node);
    crti_fair_share_want_back(node->lease_table);
    node->leases->carry_out(node);
    node->leases->is_acting = false;
    if (crti_lease_table_waiting(node->lease_table)) /* others may have to yield */
        crti_node_schedule_tick(node, crti_node_now(node) + CRTI_LIMIT(share_turn));
}

/* ---------------------------------------------------------------- answers */

static void send_to(crti_node_t *node, const asker_t *asker, crti_message_kind_t kind,
                    uint64_t request, const void *body)
{
    crti_local_t *local = asker->local ? crti_local_get(node, asker->local) : NULL;

    if (asker->stream)
        crti_stream_send(asker->stream, kind, request, body);
    else if (local)
        crti_local_send(local->process, kind, request, body);
}

/* Takes the asker out and answers; a lease is answered once. */
static void answer(crti_node_t *node, crti_id_t lease, crti_message_kind_t kind,
                   const void *body)
{
    asker_t *asker = crti_map_remove(&node->leases->askers, &lease);

    if (asker == NULL)
        return;
    send_to(node, asker, kind, asker->request, body);
    free_asker(asker);
}

void crti_lease_answer_error(crti_node_t *node, crti_id_t lease, crt_status_t status,
                             const char *text)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(text)};

    answer(node, lease, CRTI_MSG_ERROR, &error);
}

static crti_msg_lease_granted_t granted_message(crti_node_t *node, crti_id_t lease,
                                                const crti_process_t *process)
{
    return (crti_msg_lease_granted_t){.lease = lease,
                                      .process = process->id,
                                      .incarnation = process->incarnation,
                                      .node = node->id,
                                      .ipc = crti_str(process->ipc),
                                      .tcp = crti_str(process->tcp)};
}

/* The owner hears of the worker's death without asking. */
static void watch_for_owner(crti_node_t *node, crti_id_t owner, crti_id_t owner_node,
                            const crti_msg_lease_granted_t *granted)
{
    crti_msg_watch_t watch = {.process = granted->process,
                              .incarnation = granted->incarnation,
                              .node = granted->node};
    crti_process_t *process = crti_process_get(node, owner);

    if (process)
        crti_watch_note(node, owner, &watch);
    else if (!crti_id_equal(owner_node, node->id))
        crti_watch_add_node(node, owner_node, &watch);
}

void crti_lease_fail(crti_node_t *node, crti_id_t lease, crt_status_t status,
                     const char *text)
{
    crti_lease_answer_error(node, lease, status, text);
    crti_lease_table_end(node->lease_table, lease, crti_node_now(node));
}

void crti_lease_refused(crti_node_t *node, const crti_msg_lease_refuse_t *refuse)
{
    const crti_lease_t *lease = crti_lease_table_get(node->lease_table, refuse->lease);
    char text[1024];

    if (lease == NULL || lease->state != CRTI_LEASE_WAITING)
        return;
    crti_lease_fail(node, refuse->lease, (crt_status_t)refuse->status,
                    crti_text(refuse->text, text, sizeof(text)));
    crti_lease_act(node);
}

void crti_lease_grant(crti_node_t *node, crti_id_t id, const crti_process_t *process)
{
    const crti_lease_t *lease = crti_lease_table_get(node->lease_table, id);
    crti_msg_lease_granted_t granted = granted_message(node, id, process);

    watch_for_owner(node, lease->owner, lease->owner_node, &granted);
    answer(node, id, CRTI_MSG_LEASE_GRANTED, &granted);
}

/* ---------------------------------------------------------------- requests */

static crt_status_t note_asker(crti_node_t *node, const crti_msg_lease_request_t *ask,
                               const asker_t *who)
{
    asker_t *asker = crti_map_get(&node->leases->askers, &ask->lease);
    crt_status_t status;

    if (asker) { /* asked again: after a reconnect */
        asker->local = who->local;
        asker->stream = who->stream;
        asker->request = who->request;
        return CRT_OK;
    }
    asker = malloc(sizeof(*asker));
    if (asker == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "lease");
    *asker = *who;
    status = crti_environment_read(ask->environment, &asker->environment);
    if (status == CRT_OK)
        status = crti_map_put(&node->leases->askers, &ask->lease, asker);
    if (status != CRT_OK)
        free_asker(asker);
    return status;
}

crti_environment_t *crti_lease_environment(const crti_node_t *node, crti_id_t id)
{
    const asker_t *asker = crti_map_get(&node->leases->askers, &id);

    return asker ? asker->environment : NULL;
}

static void grant_again(crti_node_t *node, const crti_lease_t *lease)
{
    crti_worker_t *worker = crti_worker_table_get(node->workers, lease->worker);
    crti_msg_lease_granted_t granted;

    if (worker == NULL || worker->io == NULL)
        return;
    granted = granted_message(node, lease->id, worker->io);
    answer(node, lease->id, CRTI_MSG_LEASE_GRANTED, &granted);
}

/* A node asks for what this one waits for itself: no node sends such a request. Taken in it would
 * wait for itself. */
static void refuse_circle(crti_stream_t *stream, uint64_t request)
{
    crti_node_answer_error(stream, request, CRT_ERR_BACKPRESSURE,
                           "the request is of this node");
}

static bool fails_if_infeasible(const crti_node_t *node,
                                const crti_msg_lease_request_t *ask)
{
    return !node->leases->may_grow && (ask->if_infeasible == CRTI_INFEASIBLE_FAILS ||
                                       (ask->if_infeasible != CRTI_INFEASIBLE_WAITS &&
                                        node->leases->fails_if_infeasible));
}

void crti_lease_asked(crti_node_t *node, uint64_t local, crti_stream_t *stream,
                      uint64_t request, const crti_msg_lease_request_t *ask)
{
    asker_t who = {.local = local, .stream = stream, .request = request};
    const crti_lease_t *known = crti_lease_table_get(node->lease_table, ask->lease);
    crti_lease_t lease = {.id = ask->lease,
                          .job = ask->job,
                          .owner = ask->owner,
                          .owner_node = ask->owner_node,
                          .prefer = ask->prefer,
                          .quota = {ask->weight, ask->max_share},
                          .resources = ask->resources,
                          .spillbacks = stream ? 1 : 0,
                          .awaits_turn = stream && ask->awaits_turn,
                          .fails_if_infeasible =
                              !stream && fails_if_infeasible(node, ask)};
    crt_status_t status;

    if (stream && known && known->state == CRTI_LEASE_SPILLBACK) {
        refuse_circle(stream, request);
        return;
    }
    status = crti_id_is_zero(ask->lease) /* it would name the workers that serve nobody */
                 ? crt_raise(CRT_ERR_PROTOCOL, "a lease without an id")
                 : note_asker(node, ask, &who);
    if (status == CRT_OK)
        status = crti_scheduling_read(CRTI_SCHEDULING_SAID(ask), ask->selector.data,
                                      ask->selector.size, &lease.how);
    crti_text(ask->function, lease.function, sizeof(lease.function));
    if (status == CRT_OK && known && known->state == CRTI_LEASE_GRANTED) {
        grant_again(node, known);
        return;
    }
    if (status == CRT_OK)
        status = crti_lease_table_request(node->lease_table, &lease, crti_node_now(node));
    if (status != CRT_OK) {
        crti_msg_error_t error = {.status = status, .text = crti_str(crt_error_detail())};

        free_asker(crti_map_remove(&node->leases->askers, &ask->lease));
        send_to(node, &who, CRTI_MSG_ERROR, request, &error);
    }
    crti_lease_act(node);
}

/* What becomes of the worker of a lease that ends. */
typedef enum worker_end {
    WORKER_GOES_ON, /* for others */
    WORKER_ENDS,
    WORKER_ENDS_AT_ONCE,
    WORKER_RETIRES
} worker_end_t;

/* Ends a lease of this node. */
static void end_lease(crti_node_t *node, crti_id_t id, worker_end_t end)
{
    const crti_lease_t *lease = crti_lease_table_get(node->lease_table, id);
    crti_worker_t *worker;
    uint64_t now = crti_node_now(node);

    if (lease == NULL)
        return;
    if (lease->state == CRTI_LEASE_SPILLBACK) {
        crti_msg_lease_cancel_t cancel = {.lease = id};

        crti_node_send_reliable(node, lease->node, CRTI_MSG_LEASE_CANCEL, &cancel);
    }
    worker = crti_worker_table_of(node->workers, id);
    crti_lease_table_end(node->lease_table, id, now);
    free_asker(crti_map_remove(&node->leases->askers, &id));
    if (worker && end == WORKER_ENDS_AT_ONCE)
        crti_worker_table_end(node->workers, worker, true, now);
    else if (worker && end == WORKER_RETIRES)
        crti_worker_table_retire(node->workers, worker, now);
    else if (worker && worker->state == CRTI_WORKER_LEASED)
        crti_worker_table_released(node->workers, worker, end == WORKER_ENDS, now);
    else
        crti_worker_table_unwanted(node->workers, id, now);
}

void crti_lease_returned(crti_node_t *node, const crti_msg_lease_return_t *back)
{
    if (!crti_id_is_zero(back->node) && !crti_id_equal(back->node, node->id)) {
        crti_node_send_reliable(node, back->node, CRTI_MSG_LEASE_RETURN, back);
        return;
    }
    end_lease(node, back->lease,
              back->broken    ? WORKER_ENDS_AT_ONCE
              : back->retires ? WORKER_RETIRES
                              : WORKER_GOES_ON);
    crti_lease_act(node);
}

void crti_lease_cancelled(crti_node_t *node, crti_id_t lease)
{
    crti_lease_answer_error(node, lease, CRT_ERR_CANCELLED,
                            "the lease was cancelled by its owner");
    end_lease(node, lease, WORKER_GOES_ON);
    crti_lease_act(node);
}

static void return_granted(crti_node_t *node, const crti_msg_lease_granted_t *granted)
{
    crti_msg_lease_return_t back = {.lease = granted->lease, .node = granted->node};

    crti_lease_returned(node, &back);
}

/* That node is to answer it. */
static bool is_asked_of(const crti_lease_t *lease, crti_id_t node)
{
    return lease && lease->state == CRTI_LEASE_SPILLBACK &&
           crti_id_equal(lease->node, node);
}

static void on_answer(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                      const crti_message_t *message, const char *text)
{
    crti_id_t id = ask->id;
    const crti_lease_t *lease = crti_lease_table_get(node->lease_table, id);
    crti_msg_lease_cancel_t cancel = {.lease = id};
    uint64_t now = crti_node_now(node);

    if (!is_asked_of(lease, from)) {
        /* Cancelled meanwhile, or taken back from a node that is dead, whose unanswered questions
         * fail only now: the request may be under way to the next one. Where the cancel went the
         * grant had passed already, when that node had sent the request on. */
        if (message && message->kind == CRTI_MSG_LEASE_GRANTED)
            return_granted(node, &message->lease_granted);
        return;
    }
    if (message == NULL) {
        crti_node_send_reliable(node, lease->node, CRTI_MSG_LEASE_CANCEL, &cancel);
        crti_lease_table_bounced(node->lease_table, id, now);
    } else if (message->kind == CRTI_MSG_ERROR &&
               message->error.status == CRT_ERR_BACKPRESSURE) {
        crti_lease_table_bounced(node->lease_table, id, now);
    } else {
        if (message->kind == CRTI_MSG_LEASE_GRANTED)
            watch_for_owner(node, lease->owner, lease->owner_node,
                            &message->lease_granted);
        answer(node, id, message->kind, &message->error);
        crti_lease_table_end(node->lease_table, id, now);
    }
    crti_lease_act(node);
}

void crti_lease_forward(crti_node_t *node, crti_id_t id, crti_id_t to)
{
    static const crti_peer_answers_t answers = {.kind = CRTI_MSG_LEASE_GRANTED,
                                                .on_answer = on_answer};
    const crti_lease_t *lease = crti_lease_table_get(node->lease_table, id);
    crti_peer_ask_t ask = {.kind = CRTI_MSG_LEASE_REQUEST, .id = id, .answers = &answers};
    crti_msg_lease_request_t body;

    if (!is_asked_of(lease, to))
        return; /* decided otherwise meanwhile: two nodes would grant it */
    body = (crti_msg_lease_request_t){
        .lease = id,
        .job = lease->job,
        .owner = lease->owner,
        .owner_node = lease->owner_node,
        .resources = lease->resources,
        .function = crti_str(lease->function),
        .prefer = lease->prefer,
        .spillbacks = lease->spillbacks + 1,
        .weight = lease->quota.weight,
        .max_share = lease->quota.max_share,
        .awaits_turn = lease->awaits_turn,
        .environment = crti_environment_bytes(crti_lease_environment(node, id)),
        CRTI_SCHEDULING_FIELDS(&lease->how)};
    if (crti_node_ask(node, to, CRTI_PRIORITY_CONTROL, &ask, &body) != CRT_OK)
        crti_lease_table_bounced(node->lease_table, id, crti_node_now(node));
}

void crti_lease_waiting(crti_node_t *node, const crti_msg_lease_waiting_t *waiting)
{
    const asker_t *asker = crti_map_get(&node->leases->askers, &waiting->lease);

    if (asker)
        send_to(node, asker, CRTI_MSG_LEASE_WAITING, 0, waiting);
}

void crti_lease_yield_here(crti_node_t *node, const crti_msg_lease_yield_t *yield)
{
    crti_process_t *owner = crti_process_get(node, yield->owner);

    if (owner)
        crti_local_send(owner, CRTI_MSG_LEASE_YIELD, 0, yield);
}

void crti_lease_ask_to_yield(crti_node_t *node, crti_id_t id, bool when_idle)
{
    const crti_lease_t *lease = crti_lease_table_get(node->lease_table, id);
    crti_msg_lease_yield_t yield;

    if (lease == NULL)
        return;
    yield = (crti_msg_lease_yield_t){.lease = id,
                                     .owner = lease->owner,
                                     .owner_node = lease->owner_node,
                                     .when_idle = when_idle};
    if (crti_id_equal(lease->owner_node, node->id))
        crti_lease_yield_here(node, &yield);
    else
        crti_node_send_reliable(node, lease->owner_node, CRTI_MSG_LEASE_YIELD, &yield);
}

/* ---------------------------------------------------------------- ends of others */

/* What becomes of leases, and what whoever asked for one hears; `text` NULL: nothing, and workers
 * end when they are idle. */
typedef struct end {
    crt_status_t status;
    const char *text;
} end_t;

static void end_one(crti_node_t *node, crti_id_t id, const end_t *end)
{
    crti_worker_t *worker = crti_worker_table_of(node->workers, id);

    if (end->text)
        crti_lease_answer_error(node, id, end->status, end->text);
    if (end->text && worker && worker->io)
        crti_process_explain(worker->io, "%s", end->text);
    end_lease(node, id, end->text ? WORKER_ENDS_AT_ONCE : WORKER_ENDS);
}

static const end_t unwanted = {.text = NULL};

/* Ends all leases that match; the ids are gathered first, because ending changes the table. */
static void end_matching(crti_node_t *node,
                         bool (*match)(crti_node_t *node, const crti_lease_t *lease,
                                       const void *what),
                         const void *what, const end_t *end)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t ids = {0};
    const crti_lease_t *lease;
    size_t cursor = 0;

    while ((lease = crti_lease_table_next(node->lease_table, &cursor)) != NULL)
        if (match(node, lease, what))
            crti_buffer_append(&ids, &lease->id, sizeof(lease->id));
    for (size_t i = 0; i < ids.size; i += sizeof(crti_id_t)) {
        crti_id_t id;

        memcpy(&id, ids.data + i, sizeof(id));
        end_one(node, id, end);
    }
    if (ids.size)
        crti_lease_act(node);
}

static bool of_stream(crti_node_t *node, const crti_lease_t *lease, const void *what)
{
    const asker_t *asker = crti_map_get(&node->leases->askers, &lease->id);

    return asker &&
           asker->stream == what; /* not answered yet: granted ones have no asker */
}

static bool of_local(crti_node_t *node, const crti_lease_t *lease, const void *what)
{
    const asker_t *asker = crti_map_get(&node->leases->askers, &lease->id);

    return asker && asker->local == *(const uint64_t *)what;
}

static bool of_owner(crti_node_t *node, const crti_lease_t *lease, const void *what)
{
    return crti_id_equal(lease->owner, *(const crti_id_t *)what);
}

static bool of_owner_node(crti_node_t *node, const crti_lease_t *lease, const void *what)
{
    return crti_id_equal(lease->owner_node, *(const crti_id_t *)what);
}

void crti_lease_stream_closed(crti_node_t *node, crti_stream_t *stream)
{
    end_matching(node, of_stream, stream, &unwanted);
}

void crti_lease_local_closed(crti_node_t *node, uint64_t local)
{
    end_matching(node, of_local, &local, &unwanted);
}

void crti_lease_owner_died(crti_node_t *node, crti_id_t owner, crti_id_t owner_node)
{
    /* What a worker does for a dead owner is of no use to anybody. Another node may have asked for
     * its owner: its question must end. */
    static const end_t end = {CRT_ERR_CANCELLED, "the owner of the lease died"};

    if (crti_id_is_zero(owner))
        end_matching(node, of_owner_node, &owner_node, &end);
    else
        end_matching(node, of_owner, &owner, &end);
}

static bool of_returned(crti_node_t *node, const crti_lease_t *lease, const void *what)
{
    return lease->bundle && lease->bundle->is_returned;
}

void crti_lease_end_returned(crti_node_t *node, const char *text)
{
    end_matching(node, of_returned, NULL, &(end_t){CRT_ERR_BACKPRESSURE, text});
}

void crti_lease_worker_died(crti_process_t *process, crt_status_t status,
                            const char *text)
{
    crti_node_t *node = process->node;
    crti_worker_t *worker = crti_process_take_worker(process);
    const crti_lease_t *lease;

    if (worker == NULL)
        return;
    lease = worker->is_actor ? NULL
                             : crti_lease_table_get(node->lease_table, worker->purpose);
    if (lease && lease->state == CRTI_LEASE_GRANTED)
        crti_lease_table_end(node->lease_table, lease->id, crti_node_now(node));
    crti_lease_table_give(node->lease_table, worker->id, crti_node_now(node));
    crti_worker_table_died(node->workers, worker, status, text);
}

const char *crti_lease_function(crti_node_t *node, const crti_worker_t *worker)
{
    const crti_lease_t *lease = crti_lease_table_get(node->lease_table, worker->purpose);

    return lease ? lease->function : "";
}

void crti_lease_default(crti_node_t *node, bool fails_if_infeasible, bool may_grow)
{
    node->leases->may_grow = may_grow;
    node->leases->fails_if_infeasible = fails_if_infeasible;
}

static bool of_other_node(crti_node_t *node, const crti_lease_t *lease, const void *what)
{
    return lease->state == CRTI_LEASE_WAITING && lease->spillbacks &&
           crti_id_is_zero(lease->how.group);
}

void crti_lease_drain(crti_node_t *node)
{
    const crti_lease_t *lease;
    size_t cursor = 0;

    crti_lease_table_drain(node->lease_table, crti_node_now(node));
    end_matching(node, of_other_node, NULL,
                 &(end_t){CRT_ERR_BACKPRESSURE, "the node is drained"});
    while ((lease = crti_lease_table_next(node->lease_table, &cursor)) != NULL)
        if (lease->state == CRTI_LEASE_GRANTED && crti_id_is_zero(lease->how.group))
            crti_lease_table_yield(node->lease_table, lease->id, false);
    crti_lease_act(node);
}

size_t crti_lease_count(const crti_node_t *node)
{
    const crti_lease_t *lease;
    size_t cursor = 0, count = 0;

    while ((lease = crti_lease_table_next(node->lease_table, &cursor)) != NULL)
        count +=
            lease->state == CRTI_LEASE_GRANTED || lease->state == CRTI_LEASE_STARTING;
    return count;
}

void crti_lease_add_own(crti_node_t *node)
{
    crti_room_t *room = crti_lease_table_change_room(node->lease_table);
    uint64_t most = CRTI_RESOURCE_MAX / CRTI_RESOURCE_ONE;
    uint64_t memory = node->memory_bytes < most ? node->memory_bytes : most;
    char name[CRTI_RESOURCE_NAME];

    crti_room_add(room, CRTI_RESOURCE_MEMORY, (int64_t)memory * CRTI_RESOURCE_ONE);
    snprintf(name, sizeof(name), CRTI_RESOURCE_NODE "%.*s",
             (int)(sizeof(name) - sizeof(CRTI_RESOURCE_NODE)), node->ip);
    crti_room_add(room, name, CRTI_RESOURCE_ONE);
}

void crti_lease_free(crti_node_t *node)
{
    CRTI_MAP_FOREACH (asker_t, asker, &node->leases->askers)
        free_asker(asker);
    crti_map_fini(&node->leases->askers);
    crti_lease_table_free(node->lease_table);
    crti_worker_table_free(node->workers);
}
