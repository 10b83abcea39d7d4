/* SPDX-License-Identifier: Apache-2.0 */
/* Node messages: what the node daemon says to this process, and which module hears it.
 *
 * Where it sits
 *     crt-node -> unix socket -> net/channel.c -> [ node_messages.c ] -> actor.c, submit.c,
 *     deaths.c
 * Threads
 *     The core's lock.
 * Failure
 *     The link closes: a worker exits at once, a driver goes on with errors (crti_core_break).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/client/worker_lines.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/core/refs/rescue.h"

static void on_shutdown(crti_core_t *core, const crti_msg_shutdown_t *m)
{
    char text[512];

    crti_text(m->text, text, sizeof(text));
    if (!core->is_worker) {
        crti_core_break(core, CRT_ERR_CANCELLED, text); /* its job was ended */
        return;
    }
    crti_log(CRTI_LOG_INFO, "core", "ends: %s", text);
    if (m->graceful)
        crti_execution_retire(core);
    else
        crti_execution_end(core);
}

/* It may be told twice, and before this process has joined. */
static void on_drain(crti_core_t *core, crti_id_t node)
{
    bool is_new = crti_remotes_drain(core, node);

    if (!core->net)
        return;
    crti_rescue_begin(core, node);
    crti_kept_copies_drain(core);
    if (is_new) {
        crti_actors_drained(core, node);
        crti_waits_node_drains(core, node);
    }
}

static void hear(crti_core_t *core, const crti_message_t *m)
{
    if (core->is_leaving && m->kind != CRTI_MSG_LOG)
        return;
    if (m->kind == CRTI_MSG_LEASE_WAITING) {
        crti_lease_message(core, m);
        return;
    }
    if (m->request) {
        crti_node_answered(core, m);
        return;
    }
    switch (m->kind) {
    case CRTI_MSG_LEASE_YIELD: crti_task_yield_lease(core, &m->lease_yield); break;
    case CRTI_MSG_ACTOR_STATE: crti_actor_state(core, &m->actor_state); break;
    case CRTI_MSG_PEER_DIED:
        if (core->net) /* who attaches knows nobody yet */
            crti_process_died(core, &m->peer_died);
        break;
    case CRTI_MSG_NODE_DIED:
        if (core->net)
            crti_node_died(core, &m->node_died);
        break;
    case CRTI_MSG_NODE_DRAIN: on_drain(core, m->node_drain.node); break;
    case CRTI_MSG_LOG: crti_worker_lines_came(core, &m->log); break;
    case CRTI_MSG_SHUTDOWN: on_shutdown(core, &m->shutdown); break;
    case CRTI_MSG_STATE_QUERY:
        if (core->net)
            crti_tell_state(core, &m->state_query);
        break;
    case CRTI_MSG_HEAD_LINK: crti_node_head_link(core, m->head_link.up); break;
    default:
        crti_log(CRTI_LOG_DEBUG, "core", "node daemon: unexpected %s",
                 crti_message_name(m->kind));
    }
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *m,
                       int *fds, int fd_count)
{
    crti_core_t *core = user;

    hear(core, m);
    crti_refs_notify(core);
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    crti_core_t *core = user;
    char text[512];

    /* Nobody would notice this worker any more: it must not live on. */
    if (core->is_worker)
        _exit(1);
    if (core->is_closing)
        return;
    snprintf(
        text, sizeof(text),
        "node %.8s (%s), by which this driver was in the cluster, has ended or closed "
        "the link: %s. What ran for it is lost. It joins another node of this host, "
        "where one lives, by crt_shutdown and crt_init, or when it is started again; "
        "else first: crt start",
        core->node_hex, core->streams.ip, detail);
    if (core->net) /* it has joined */
        crti_log(CRTI_LOG_ERROR, "core", "%s", text);
    if (core->net)
        crti_net_remove_fd(core->net, core->link->fd);
    crti_core_break(core, CRT_ERR_NODE_LOST, text);
}

static void on_events(void *user, crti_channel_t *channel, uint32_t events)
{
    crti_core_t *core = user;

    if (core->net && core->link->fd >= 0 && !crti_channel_is_closed(channel))
        crti_net_modify_fd(core->net, core->link->fd, events);
}

const crti_channel_handlers_t crti_node_link_handlers = {
    .on_message = on_message, .on_closed = on_closed, .on_events = on_events};
