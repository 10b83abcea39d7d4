/* SPDX-License-Identifier: Apache-2.0 */
/* Node link: what this process says to its node daemon, and the answers to its requests.
 *
 * Where it sits
 *     core -> [ node_link.c ] -> net/channel.c -> unix socket -> crt-node
 *     node_messages.c (all that comes from there) -> [ node_link.c ] -> who made the request
 * Threads
 *     The core's lock; the channel's descriptor is served by whoever makes progress.
 * Failure
 *     The link closes: every request is answered with NULL (crti_node_requests_end).
 */
#include "runtime/core/process/node_link.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "runtime/base/log.h"
#include "runtime/core/process/context.h"

typedef struct request {
    crti_answer_handler_t *on_answer;
    void *user;
} request_t;

void crti_node_link_init(crti_node_link_t *link)
{
    *link = (crti_node_link_t){.fd = -1};
}

void crti_node_link_fini(crti_node_link_t *link)
{
    crti_numbers_fini(&link->requests);
}

/* The node's crt-stack may read our stacks also where the kernel lets processes read their
 * children's only (Yama). */
static void let_be_read(crti_core_t *core)
{
    struct ucred node;
    socklen_t size = sizeof(node);

    if (getsockopt(crti_channel_fd(core->link->channel), SOL_SOCKET, SO_PEERCRED, &node,
                   &size) == 0)
        (void)prctl(PR_SET_PTRACER, (unsigned long)node.pid, 0, 0, 0);
}

void crti_node_link_opened(crti_core_t *core)
{
    struct stat st;

    let_be_read(core);
    if (fstat(crti_channel_fd(core->link->channel), &st) == 0)
        core->link->inode = st.st_ino;
}

void crti_node_head_link(crti_core_t *core, bool is_up)
{
    core->link->head_is_away = !is_up;
    crti_log(CRTI_LOG_INFO, "core", "head: %s", is_up ? "back" : "out of reach");
}

/* ------------------------------------------------------------------ sending */

static crt_status_t check_link(crti_core_t *core)
{
    if (core->broken != CRT_OK)
        return crt_raise(core->broken, "%s", core->broken_text ? core->broken_text : "");
    if (!core->link->channel)
        return crt_raise(CRT_ERR_CLOSED, "there is no link to the node daemon");
    return CRT_OK;
}

crt_status_t crti_node_loss(const crti_core_t *core)
{
    return core->broken != CRT_OK ? core->broken : CRT_ERR_NODE_LOST;
}

void crti_node_notice(crti_core_t *core, crti_message_kind_t kind, const void *body)
{
    crt_status_t status = check_link(core);

    if (status == CRT_OK)
        status = crti_channel_send(core->link->channel, kind, 0, body);
    if (status != CRT_OK)
        crti_log(CRTI_LOG_DEBUG, "core", "%s: %s", crti_message_name(kind),
                 crt_error_detail());
}

crt_status_t crti_node_request(crti_core_t *core, crti_message_kind_t kind,
                               const void *body, crti_answer_handler_t *on_answer,
                               void *user)
{
    crt_status_t status = check_link(core);
    request_t *request;
    uint64_t number;

    if (status != CRT_OK)
        return status;
    number = crti_channel_next_request(core->link->channel);
    request = malloc(sizeof(*request));
    if (!request)
        return crt_raise(CRT_ERR_NO_MEMORY, "a request to the node");
    *request = (request_t){on_answer, user};
    status = crti_numbers_add(&core->link->requests, number, request);
    if (status == CRT_OK) {
        status = crti_channel_send(core->link->channel, kind, number, body);
        if (status == CRT_OK)
            return CRT_OK;
        crti_numbers_remove(&core->link->requests, number);
    }
    free(request);
    return status;
}

/* ------------------------------------------------------------------ answers */

void crti_node_answered(crti_core_t *core, const crti_message_t *message)
{
    request_t *request = crti_numbers_get(&core->link->requests, message->request);

    if (!request)
        return;
    crti_numbers_remove(&core->link->requests, message->request);
    request->on_answer(request->user, message);
    free(request);
}

void crti_node_requests_end(crti_core_t *core)
{
    crti_numbers_t requests = core->link->requests;
    size_t cursor = 0;
    request_t *request;

    core->link->requests = (crti_numbers_t){.slots = NULL};
    while ((request = crti_numbers_next(&requests, &cursor))) {
        request->on_answer(request->user, NULL);
        free(request);
    }
    crti_numbers_fini(&requests);
}

/* ------------------------------------------------------------------ the net's epoll */

static void on_ready(void *user, int fd, uint32_t events)
{
    crti_core_t *core = user;

    if (core->link->channel)
        crti_channel_process(core->link->channel, events);
}

crt_status_t crti_node_link_start(crti_core_t *core)
{
    core->link->fd = crti_channel_fd(core->link->channel);
    return crti_net_add_fd(core->net, core->link->fd,
                           crti_channel_events(core->link->channel), on_ready, core);
}

void crti_node_link_stop(crti_core_t *core)
{
    if (core->link->channel && core->link->fd >= 0 &&
        !crti_channel_is_closed(core->link->channel))
        crti_net_remove_fd(core->net, core->link->fd);
    core->link->fd = -1;
}
