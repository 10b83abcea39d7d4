/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: carries out what the lease table and the worker table decide, and tells them what
 * happens.
 *
 * Where it sits
 *     local.c, peer.c (requests) -> [ node/lease.c ] <-> lease_table.c, worker_table.c
 *         -> spawn.c, actor.c, answers to the owners
 * Invariants
 *     crti_lease_act is the one place where actions are carried out; what an action causes in
 *     the tables is carried out by the same loop, never by a nested one.
 */
#include <string.h>

#include "runtime/node/node.h"

#define DEMAND_MAX 100 /* waiting requests that the head is told of */

/* Who asked: a connection of this node, or a stream of another. */
typedef struct asker {
    uint64_t local;
    crti_stream_t *stream;
    uint64_t request;
} asker_t;

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
    asker_t *asker = crti_map_remove(&node->lease_askers, &lease);

    if (asker == NULL)
        return;
    send_to(node, asker, kind, asker->request, body);
    free(asker);
}

static void answer_error(crti_node_t *node, crti_id_t lease, crt_status_t status,
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

/* ---------------------------------------------------------------- actions */

static void find_worker(crti_node_t *node, crti_id_t id)
{
    const crti_lease_t *lease = crti_lease_table_get(node->leases, id);
    double cpus;
    crt_status_t status;

    if (lease == NULL || node->stopping)
        return; /* whoever asked from elsewhere sees the link break, and asks another node */
    cpus = (double)crti_resources_get(&lease->resources, "CPU") / CRTI_RESOURCE_ONE;
    status = crti_worker_table_want(node->workers, crti_id_of_node(node->id), lease->job,
                                    false, id, cpus, crti_node_now(node));
    if (status == CRT_OK)
        return;
    answer_error(node, id, status, crt_error_detail());
    crti_lease_table_end(node->leases, id, crti_node_now(node));
}

static void forward(crti_node_t *node, crti_id_t id, crti_id_t to)
{
    const crti_lease_t *lease = crti_lease_table_get(node->leases, id);
    crti_peer_ask_t ask = {.kind = CRTI_MSG_LEASE_REQUEST, .id = id};
    crti_msg_lease_request_t body;

    if (lease == NULL)
        return;
    body = (crti_msg_lease_request_t){.lease = id,
                                      .job = lease->job,
                                      .owner = lease->owner,
                                      .owner_node = lease->owner_node,
                                      .resources = lease->resources,
                                      .function = crti_str(lease->function),
                                      .prefer = lease->prefer,
                                      .spillbacks = lease->spillbacks + 1};
    if (crti_node_ask(node, to, CRTI_LANE_CONTROL, &ask, &body) != CRT_OK)
        crti_lease_table_bounced(node->leases, id, crti_node_now(node));
}

/* Not when it was asked for once more meanwhile. */
static void give_back(crti_node_t *node, crti_id_t id)
{
    if (crti_lease_table_get(node->leases, id) == NULL)
        answer_error(node, id, CRT_ERR_BACKPRESSURE, "another node has room");
}

static void tell(crti_node_t *node, const crti_lease_action_t *action)
{
    const asker_t *asker = crti_map_get(&node->lease_askers, &action->lease);
    crti_msg_lease_waiting_t waiting = {.lease = action->lease,
                                        .text = crti_str(action->text)};

    if (asker)
        send_to(node, asker, CRTI_MSG_LEASE_WAITING, 0, &waiting);
    crti_head_changed(node);
}

static void act_on_lease(crti_node_t *node, const crti_lease_action_t *action)
{
    switch (action->verb) {
    case CRTI_LEASE_FIND_WORKER: find_worker(node, action->lease); break;
    case CRTI_LEASE_FORWARD: forward(node, action->lease, action->node); break;
    case CRTI_LEASE_GIVE_BACK: give_back(node, action->lease); break;
    case CRTI_LEASE_TELL: tell(node, action); break;
    case CRTI_LEASE_CHANGED: crti_head_changed(node); break;
    }
}

static void assign(crti_node_t *node, crti_worker_t *worker, crti_id_t id)
{
    const crti_lease_t *lease;
    crti_process_t *process = worker->io;
    crti_msg_lease_granted_t granted;

    if (!crti_lease_table_granted(node->leases, id, worker->id)) {
        crti_worker_table_released(node->workers, worker, false, crti_node_now(node));
        return;
    }
    lease = crti_lease_table_get(node->leases, id);
    crti_memory_began(process);
    granted = granted_message(node, id, process);
    watch_for_owner(node, lease->owner, lease->owner_node, &granted);
    answer(node, id, CRTI_MSG_LEASE_GRANTED, &granted);
}

static void shut_down(crti_process_t *process)
{
    crti_msg_shutdown_t shutdown = {.text = crti_str(process->end_text)};

    process->told_to_end = true;
    crti_local_send(process, CRTI_MSG_SHUTDOWN, 0, &shutdown);
}

static void act_on_worker(crti_node_t *node, const crti_worker_action_t *action)
{
    crti_process_t *process = action->worker ? action->worker->io : NULL;

    switch (action->verb) {
    case CRTI_WORKER_SPAWN: crti_spawn_worker(node, action->worker); break;
    case CRTI_WORKER_ASSIGN:
        if (action->is_actor)
            crti_actor_assigned(node, action->worker);
        else
            assign(node, action->worker, action->purpose);
        break;
    case CRTI_WORKER_FAIL:
        if (action->is_actor) {
            crti_actor_failed(node, action->purpose, action->status, action->text);
            break;
        }
        if (node->stopping) /* see find_worker */
            break;
        answer_error(node, action->purpose, action->status, action->text);
        crti_lease_table_end(node->leases, action->purpose, crti_node_now(node));
        break;
    case CRTI_WORKER_SHUTDOWN:
        if (process)
            shut_down(process);
        break;
    case CRTI_WORKER_KILL:
        if (process) {
            process->told_to_end = true;
            crti_process_kill(process);
        }
        break;
    case CRTI_WORKER_DISCARD:
        crti_spawn_failed(process, CRT_ERR_CANCELLED, "it was ended before it began");
        break;
    }
}

void crti_lease_act(crti_node_t *node)
{
    crti_lease_action_t lease;
    crti_worker_action_t worker;
    bool more = true, any = false;

    if (node->acting)
        return;
    node->acting = true;
    for (; more; any |= more) {
        more = false;
        while (crti_lease_table_action(node->leases, &lease)) {
            act_on_lease(node, &lease);
            more = true;
        }
        while (crti_worker_table_action(node->workers, &worker)) {
            act_on_worker(node, &worker);
            more = true;
        }
    }
    node->acting = false;
    if (any) /* deadlines may have moved */
        crti_node_schedule_tick(node, crti_node_now(node));
}

/* ---------------------------------------------------------------- requests */

static crt_status_t note_asker(crti_node_t *node, crti_id_t lease, const asker_t *who)
{
    asker_t *asker = crti_map_get(&node->lease_askers, &lease);
    crt_status_t status;

    if (asker) {
        *asker = *who; /* asked again: after a reconnect */
        return CRT_OK;
    }
    asker = malloc(sizeof(*asker));
    if (asker == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "lease");
    *asker = *who;
    status = crti_map_put(&node->lease_askers, &lease, asker);
    if (status != CRT_OK)
        free(asker);
    return status;
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
    crti_msg_error_t error = {.status = CRT_ERR_BACKPRESSURE,
                              .text = crti_str("the request is of this node")};

    crti_stream_send(stream, CRTI_MSG_ERROR, request, &error);
}

void crti_lease_asked(crti_node_t *node, uint64_t local, crti_stream_t *stream,
                      uint64_t request, const crti_msg_lease_request_t *ask)
{
    asker_t who = {.local = local, .stream = stream, .request = request};
    const crti_lease_t *known = crti_lease_table_get(node->leases, ask->lease);
    crti_lease_t lease = {.id = ask->lease,
                          .job = ask->job,
                          .owner = ask->owner,
                          .owner_node = ask->owner_node,
                          .prefer = ask->prefer,
                          .resources = ask->resources,
                          .spillbacks = stream ? 1 : 0};
    crt_status_t status;

    if (stream && known && known->state == CRTI_LEASE_SPILLBACK) {
        refuse_circle(stream, request);
        return;
    }
    status = crti_id_is_zero(ask->lease) /* it would name the workers that serve nobody */
                 ? crt_raise(CRT_ERR_PROTOCOL, "a lease without an id")
                 : note_asker(node, ask->lease, &who);
    crti_text(ask->function, lease.function, sizeof(lease.function));
    if (status == CRT_OK && known && known->state == CRTI_LEASE_GRANTED) {
        grant_again(node, known);
        return;
    }
    if (status == CRT_OK)
        status = crti_lease_table_request(node->leases, &lease, crti_node_now(node));
    if (status != CRT_OK) {
        crti_msg_error_t error = {.status = status, .text = crti_str(crt_error_detail())};

        free(crti_map_remove(&node->lease_askers, &ask->lease));
        send_to(node, &who, CRTI_MSG_ERROR, request, &error);
    }
    crti_lease_act(node);
}

/* Ends a lease of this node; a worker that it had goes on to others, or ends. */
static void end_lease(crti_node_t *node, crti_id_t id, bool broken, bool at_once)
{
    const crti_lease_t *lease = crti_lease_table_get(node->leases, id);
    crti_worker_t *worker;
    uint64_t now = crti_node_now(node);

    if (lease == NULL)
        return;
    if (lease->state == CRTI_LEASE_SPILLBACK) {
        crti_msg_lease_cancel_t cancel = {.lease = id};

        crti_node_send_reliable(node, lease->node, CRTI_MSG_LEASE_CANCEL, &cancel);
    }
    worker = crti_worker_table_of(node->workers, id);
    crti_lease_table_end(node->leases, id, now);
    free(crti_map_remove(&node->lease_askers, &id));
    if (worker && at_once)
        crti_worker_table_end(node->workers, worker, true, now);
    else if (worker && worker->state == CRTI_WORKER_LEASED)
        crti_worker_table_released(node->workers, worker, broken, now);
    else
        crti_worker_table_unwanted(node->workers, id, now);
}

void crti_lease_returned(crti_node_t *node, const crti_msg_lease_return_t *back)
{
    if (!crti_id_is_zero(back->node) && !crti_id_equal(back->node, node->id)) {
        crti_node_send_reliable(node, back->node, CRTI_MSG_LEASE_RETURN, back);
        return;
    }
    end_lease(node, back->lease, back->broken, false);
    crti_lease_act(node);
}

void crti_lease_cancelled(crti_node_t *node, crti_id_t lease)
{
    answer_error(node, lease, CRT_ERR_CANCELLED, "the lease was cancelled by its owner");
    end_lease(node, lease, false, false);
    crti_lease_act(node);
}

static void return_granted(crti_node_t *node, const crti_msg_lease_granted_t *granted)
{
    crti_msg_lease_return_t back = {.lease = granted->lease, .node = granted->node};

    crti_lease_returned(node, &back);
}

void crti_lease_answered(crti_node_t *node, crti_id_t id, const crti_message_t *message)
{
    const crti_lease_t *lease = crti_lease_table_get(node->leases, id);
    crti_msg_lease_cancel_t cancel = {.lease = id};
    uint64_t now = crti_node_now(node);

    if (lease == NULL || lease->state != CRTI_LEASE_SPILLBACK) {
        /* Cancelled meanwhile. Where the cancel went the grant had passed already, when that
         * node had sent the request on. */
        if (message && message->kind == CRTI_MSG_LEASE_GRANTED)
            return_granted(node, &message->lease_granted);
        return;
    }
    if (message == NULL) {
        crti_node_send_reliable(node, lease->node, CRTI_MSG_LEASE_CANCEL, &cancel);
        crti_lease_table_bounced(node->leases, id, now);
    } else if (message->kind == CRTI_MSG_ERROR &&
               message->error.status == CRT_ERR_BACKPRESSURE) {
        crti_lease_table_bounced(node->leases, id, now);
    } else {
        if (message->kind == CRTI_MSG_LEASE_GRANTED)
            watch_for_owner(node, lease->owner, lease->owner_node,
                            &message->lease_granted);
        answer(node, id, message->kind, &message->error);
        crti_lease_table_end(node->leases, id, now);
    }
    crti_lease_act(node);
}

void crti_lease_waiting(crti_node_t *node, const crti_msg_lease_waiting_t *waiting)
{
    const asker_t *asker = crti_map_get(&node->lease_askers, &waiting->lease);

    if (asker)
        send_to(node, asker, CRTI_MSG_LEASE_WAITING, 0, waiting);
}

/* ---------------------------------------------------------------- ends of others */

/* Ends all leases that match; the ids are gathered first, because ending changes the table. */
static void end_matching(crti_node_t *node,
                         bool (*match)(crti_node_t *node, const crti_lease_t *lease,
                                       const void *what),
                         const void *what, bool at_once)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t ids = {0};
    const crti_lease_t *lease;
    size_t cursor = 0;

    while ((lease = crti_lease_table_next(node->leases, &cursor)) != NULL)
        if (match(node, lease, what))
            crti_buffer_append(&ids, &lease->id, sizeof(lease->id));
    for (size_t i = 0; i < ids.size; i += sizeof(crti_id_t)) {
        crti_id_t id;

        memcpy(&id, ids.data + i, sizeof(id));
        if (at_once) /* another node may have asked for its owner: its question must end */
            answer_error(node, id, CRT_ERR_CANCELLED, "the owner of the lease died");
        end_lease(node, id, true, at_once);
    }
    if (ids.size)
        crti_lease_act(node);
}

static bool of_stream(crti_node_t *node, const crti_lease_t *lease, const void *what)
{
    const asker_t *asker = crti_map_get(&node->lease_askers, &lease->id);

    return asker &&
           asker->stream == what; /* not answered yet: granted ones have no asker */
}

static bool of_local(crti_node_t *node, const crti_lease_t *lease, const void *what)
{
    const asker_t *asker = crti_map_get(&node->lease_askers, &lease->id);

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
    end_matching(node, of_stream, stream, false);
}

void crti_lease_local_closed(crti_node_t *node, uint64_t local)
{
    end_matching(node, of_local, &local, false);
}

void crti_lease_owner_died(crti_node_t *node, crti_id_t owner, crti_id_t owner_node)
{
    /* What a worker does for a dead owner is of no use to anybody. */
    if (crti_id_is_zero(owner))
        end_matching(node, of_owner_node, &owner_node, true);
    else
        end_matching(node, of_owner, &owner, true);
}

void crti_lease_worker_died(crti_process_t *process, crt_status_t status,
                            const char *text)
{
    crti_node_t *node = process->node;
    crti_worker_t *worker = process->worker;
    const crti_lease_t *lease;

    process->worker = NULL;
    if (worker == NULL)
        return;
    lease = worker->is_actor ? NULL : crti_lease_table_get(node->leases, worker->purpose);
    if (lease && lease->state == CRTI_LEASE_GRANTED)
        crti_lease_table_end(node->leases, lease->id, crti_node_now(node));
    crti_worker_table_died(node->workers, worker, status, text);
}

const char *crti_lease_function(crti_node_t *node, const crti_worker_t *worker)
{
    const crti_lease_t *lease = crti_lease_table_get(node->leases, worker->purpose);

    return lease ? lease->function : "";
}

crt_status_t crti_lease_demand(crti_node_t *node, crti_buffer_t *list)
{
    const crti_lease_t *lease;
    size_t cursor = 0, count = 0;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && count < DEMAND_MAX &&
           (lease = crti_lease_table_next(node->leases, &cursor)) != NULL) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
        crti_msg_lease_request_t ask = {.lease = lease->id,
                                        .job = lease->job,
                                        .owner = lease->owner,
                                        .owner_node = lease->owner_node,
                                        .resources = lease->resources,
                                        .function = crti_str(lease->function),
                                        .spillbacks = lease->spillbacks};

        if (lease->state != CRTI_LEASE_WAITING)
            continue;
        count++;
        status = crti_message_encode(CRTI_MSG_LEASE_REQUEST, 0, &ask, &bytes);
        if (status == CRT_OK)
            status = crti_list_pack(list, bytes.data, bytes.size);
    }
    return status;
}

void crti_lease_free(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->lease_askers, &cursor, NULL, &value))
        free(value);
    crti_map_fini(&node->lease_askers);
}
