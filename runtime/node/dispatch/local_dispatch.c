/* SPDX-License-Identifier: Apache-2.0 */
/* What messages of local processes mean: each kind goes to the module that serves it.
 *
 * Where it sits
 *     local.c -> [ node/dispatch/local_dispatch.c ] -> attach.c, lease.c, actor.c, death.c,
 *     transfer.c, watch.c,
 *         logs.c, or on to the head (head.c)
 */
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/job_shares.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/links/head.h"
#include "runtime/node/logs/logs.h"
#include "runtime/node/objects/keep.h"
#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/transfer.h"
#include "runtime/node/watches/watch.h"

/* ---------------------------------------------------------------- what the head answers */

static void pass_answer(crti_node_t *node, crti_id_t id, uint64_t request,
                        const crti_message_t *answer)
{
    crti_local_t *local = crti_local_get(node, id.low);

    if (local && answer && request)
        crti_channel_send(local->channel, answer->kind, request, &answer->error);
    if (answer && answer->kind == CRTI_MSG_ACTOR_STATE &&
        answer->actor_state.state == CRTI_ACTOR_DEAD)
        crti_actor_state(node, &answer->actor_state); /* who else watched hears it, too */
}

/* The connection's number in an id's clothes: it is what the answer is found by. */
static crti_id_t asker(const crti_local_t *local)
{
    return (crti_id_t){.high = 0, .low = local->number};
}

static void forward(crti_local_t *local, const crti_message_t *message)
{
    crt_status_t status = crti_head_ask(local->node, message->kind, &message->error,
                                        pass_answer, asker(local), message->request);

    if (status != CRT_OK)
        crti_channel_send_error(local->channel, message->request, status);
}

static void drop_forwarded(const crti_local_t *local)
{
    crti_head_drop_asker(local->node, pass_answer, asker(local));
}

/* ---------------------------------------------------------------- messages */

static void on_ready(crti_process_t *p, const crti_msg_ready_t *ready)
{
    crti_process_ready(p, ready);
    if (p->worker &&
        crti_worker_table_ready(p->node->workers, p->worker, crti_node_now(p->node)))
        crti_lease_act(p->node);
}

static void on_blocked(crti_process_t *p, bool blocked)
{
    if (p->worker == NULL)
        return;
    crti_lease_table_blocked(p->node->lease_table, p->id, blocked,
                             crti_node_now(p->node));
    crti_lease_act(p->node);
}

static void watch_actor(crti_local_t *local, const crti_message_t *message)
{
    crt_status_t status = crti_actor_watch(local->process, message->actor_watch.actor);

    if (status == CRT_OK)
        forward(local, message);
    else
        crti_channel_send_error(local->channel, message->request, status);
}

/* What the head answers or must hear of. False: not such a message. */
static bool for_the_head(crti_local_t *local, const crti_message_t *message)
{
    switch (message->kind) {
    case CRTI_MSG_ACTOR_CREATE: local->process->has_made_actors = true; /* fallthrough */
    case CRTI_MSG_ACTOR_KILL:
    case CRTI_MSG_ACTOR_SAVE:
    case CRTI_MSG_ACTOR_FIND:
    case CRTI_MSG_PLACEMENT_GROUP_CREATE:
    case CRTI_MSG_PLACEMENT_GROUP_GET:
    case CRTI_MSG_PLACEMENT_GROUP_REMOVE:
    case CRTI_MSG_RESOURCE_REQUEST:
    case CRTI_MSG_KV_PUT:
    case CRTI_MSG_KV_GET:
    case CRTI_MSG_KV_DELETE:
    case CRTI_MSG_KV_SWAP:
    case CRTI_MSG_KV_KEYS:
    case CRTI_MSG_VIEW_QUERY:
    case CRTI_MSG_JOB_SUBMIT:
    case CRTI_MSG_JOB_STOP: forward(local, message); return true;
    case CRTI_MSG_ACTOR_WATCH: watch_actor(local, message); return true;
    case CRTI_MSG_ACTOR_UNWATCH:
        crti_actor_unwatch(local->node, local->process->id, message->actor_unwatch.actor);
        return true;
    default: return false;
    }
}

/* What its job may have is not for the process to say. */
static void ask_for_lease(crti_local_t *local, uint64_t request,
                          const crti_msg_lease_request_t *m)
{
    crti_job_quota_t quota = crti_job_quota(local->process->job);
    crti_msg_lease_request_t ask = *m;

    ask.weight = quota.weight;
    ask.max_share = quota.max_share;
    crti_lease_asked(local->node, local->number, NULL, request, &ask);
}

static bool for_the_node(crti_local_t *local, const crti_message_t *m)
{
    crti_process_t *p = local->process;
    crti_node_t *node = local->node;

    switch (m->kind) {
    case CRTI_MSG_READY: on_ready(p, &m->ready); return true;
    case CRTI_MSG_LEASE_REQUEST:
        ask_for_lease(local, m->request, &m->lease_request);
        return true;
    case CRTI_MSG_LEASE_RETURN: crti_lease_returned(node, &m->lease_return); return true;
    case CRTI_MSG_LEASE_CANCEL:
        crti_lease_cancelled(node, m->lease_cancel.lease);
        return true;
    case CRTI_MSG_SHUTDOWN:
        crti_death_driver_leaves(p, m->request, &m->shutdown);
        return true;
    case CRTI_MSG_BLOCKED: on_blocked(p, true); return true;
    case CRTI_MSG_UNBLOCKED: on_blocked(p, false); return true;
    case CRTI_MSG_WATCH: crti_watch_add(p, &m->watch); return true;
    case CRTI_MSG_UNWATCH: crti_watch_remove(p, m->unwatch.process); return true;
    case CRTI_MSG_PULL:
        crti_pull_asked(node, local->number, m->request, p->id, &m->pull);
        return true;
    case CRTI_MSG_COPY_MAKE: crti_keep_wanted(p, m->request, &m->copy_make); return true;
    case CRTI_MSG_FREE: crti_object_free(node, m->free.objects); return true;
    case CRTI_MSG_ACTOR_FAILED:
        crti_actor_create_failed(p, &m->actor_failed);
        return true;
    case CRTI_MSG_STATE_ANSWER:
        if (!crti_rest_said(p, m->state_answer.json))
            crti_question_said(p, m->state_answer.json);
        return true;
    case CRTI_MSG_LOG_FLUSH: crti_spawn_flush(p, m->request); return true;
    default: return false;
    }
}

static void on_message(crti_local_t *local, const crti_message_t *message)
{
    switch (message->kind) {
    case CRTI_MSG_STATE_QUERY:
        if (local->process && crti_str_equal(message->state_query.what, "transfer"))
            crti_pull_progress_asked(local->node, local->number, message->request,
                                     message->state_query.filter);
        else
            forward(local, message);
        return;
    case CRTI_MSG_NODE_DRAIN:
    case CRTI_MSG_RESOURCE_REQUEST: forward(local, message); return;
    case CRTI_MSG_LOG_READ:
        if (crti_logs_are_here(local->node, message->log_read.name))
            crti_logs_read(local->node, local->number, message->request,
                           &message->log_read);
        else
            forward(local, message);
        return;
    case CRTI_MSG_ATTACH:
        if (local->process == NULL) {
            crti_attach(local, message);
            return;
        }
        break;
    default:
        if (local->process && !local->attaching &&
            (for_the_node(local, message) || for_the_head(local, message)))
            return;
    }
    crt_raise(CRT_ERR_PROTOCOL, "unexpected message");
    crti_local_answer_error(local, message->request, CRT_ERR_PROTOCOL);
    crti_local_refuse(local, message);
}

static void on_close(crti_local_t *local)
{
    drop_forwarded(local);
    crti_lease_local_closed(local->node, local->number);
    crti_logs_local_closed(local->node, local->number);
}

const crti_local_handlers_t crti_local_dispatch = {.on_message = on_message,
                                                   .on_close = on_close};
