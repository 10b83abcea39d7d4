/* SPDX-License-Identifier: Apache-2.0 */
/* What other node daemons ask and say: each kind goes to the module that serves it.
 *
 * Where it sits
 *     inbound.c (their links), peer.c (ours) -> [ node/dispatch/peer_dispatch.c ] -> lease.c,
 *     watch.c, owner.c, transfer.c, program.c, death.c, job.c
 */
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/objects/keep.h"
#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/transfer.h"
#include "runtime/node/watches/watch.h"

static bool on_asks(crti_node_t *node, crti_id_t from, crti_stream_t *stream,
                    const crti_message_t *m)
{
    switch (m->kind) {
    case CRTI_MSG_LEASE_REQUEST:
        crti_lease_asked(node, 0, stream, m->request, &m->lease_request);
        return true;
    case CRTI_MSG_WATCH: crti_watch_add_node(node, from, &m->watch); return true;
    case CRTI_MSG_UNWATCH:
        crti_watch_remove_node(node, from, m->unwatch.process);
        return true;
    case CRTI_MSG_PEER_DIED:
        if (!crti_id_equal(m->peer_died.node, node->id)) /* of ours we know best */
            crti_process_died(node, &m->peer_died);
        return true;
    case CRTI_MSG_LOG:
        if (m->log.lines.size == 0)
            crti_job_drained(node, m->log.job);
        else
            crti_job_log(node, &m->log);
        return true;
    case CRTI_MSG_LOG_FLUSH: /* what came before it went to the driver */
        crti_stream_send(stream, CRTI_MSG_DONE, m->request, NULL);
        if (!crti_id_is_zero(m->log_flush.job))
            crti_spawn_drain(node, from, m->log_flush.job);
        return true;
    case CRTI_MSG_OBJECT_GET:
        crti_object_serve(node, from, stream, m->request, &m->object_get);
        return true;
    case CRTI_MSG_OBJECT_LEAVE:
        crti_object_left(node, from, &m->object_leave);
        return true;
    case CRTI_MSG_OBJECT_KEEP:
        crti_keep_asked(node, stream, m->request, &m->object_keep);
        return true;
    case CRTI_MSG_PROGRAM_GET:
        crti_program_serve(node, stream, m->request, &m->program_get);
        return true;
    default: return false;
    }
}

/* crti_node_send_reliable of the other side. */
static bool on_informs(crti_node_t *node, crti_stream_t *stream, const crti_message_t *m)
{
    if (m->kind != CRTI_MSG_LEASE_RETURN && m->kind != CRTI_MSG_LEASE_CANCEL &&
        m->kind != CRTI_MSG_LEASE_YIELD && m->kind != CRTI_MSG_FREE)
        return false;
    crti_stream_send(stream, CRTI_MSG_DONE, m->request, NULL);
    if (m->kind == CRTI_MSG_LEASE_RETURN)
        crti_lease_returned(node, &m->lease_return);
    else if (m->kind == CRTI_MSG_LEASE_CANCEL)
        crti_lease_cancelled(node, m->lease_cancel.lease);
    else if (m->kind == CRTI_MSG_LEASE_YIELD)
        crti_lease_yield_here(node, &m->lease_yield);
    else
        crti_object_free(node, m->free.objects);
    return true;
}

static bool on_message(crti_node_t *node, crti_id_t from, crti_stream_t *stream,
                       const crti_message_t *m)
{
    return on_asks(node, from, stream, m) || on_informs(node, stream, m);
}

static void on_closed(crti_node_t *node, crti_stream_t *stream)
{
    crti_lease_stream_closed(node, stream);
    crti_object_stream_closed(node, stream);
    crti_keep_stream_closed(node, stream);
}

static bool on_notice(crti_node_t *node, const crti_message_t *m)
{
    if (m->kind != CRTI_MSG_LEASE_WAITING)
        return false;
    crti_lease_waiting(node, &m->lease_waiting);
    return true;
}

static void on_unknown(crti_node_t *node, crti_id_t id, const char *text)
{
    crti_watch_no_node(node, id, text);
    crti_lease_act(node);
    crti_pull_act(node);
}

static void on_silent(crti_node_t *node, crti_id_t id)
{
    crti_pull_table_silent(node->pull_table, id);
}

const crti_peer_handlers_t crti_peer_dispatch = {.on_notice = on_notice,
                                                 .on_view = crti_node_view,
                                                 .on_unknown = on_unknown,
                                                 .on_retry = crti_watch_again,
                                                 .on_silent = on_silent,
                                                 .on_message = on_message,
                                                 .on_closed = on_closed};
