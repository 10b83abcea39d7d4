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
#include <stdlib.h>

#include "runtime/base/log.h"
#include "runtime/core/core.h"

typedef struct request {
    crti_answer_handler_t *on_answer;
    void *user;
} request_t;

/* ------------------------------------------------------------------ sending */

static crt_status_t check_link(crti_core_t *core)
{
    if (core->broken != CRT_OK)
        return crt_raise(core->broken, "%s", core->broken_text ? core->broken_text : "");
    if (!core->channel)
        return crt_raise(CRT_ERR_CLOSED, "there is no link to the node daemon");
    return CRT_OK;
}

void crti_node_notice(crti_core_t *core, crti_message_kind_t kind, const void *body)
{
    crt_status_t status = check_link(core);

    if (status == CRT_OK)
        status = crti_channel_send(core->channel, kind, 0, body);
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
    number = crti_channel_next_request(core->channel);
    request = malloc(sizeof(*request));
    if (!request)
        return crt_raise(CRT_ERR_NO_MEMORY, "a request to the node");
    *request = (request_t){on_answer, user};
    status = crti_numbers_add(&core->requests, number, request);
    if (status == CRT_OK) {
        status = crti_channel_send(core->channel, kind, number, body);
        if (status == CRT_OK)
            return CRT_OK;
        crti_numbers_remove(&core->requests, number);
    }
    free(request);
    return status;
}

/* ------------------------------------------------------------------ answers */

void crti_node_answered(crti_core_t *core, const crti_message_t *message)
{
    request_t *request = crti_numbers_get(&core->requests, message->request);

    if (!request)
        return;
    crti_numbers_remove(&core->requests, message->request);
    request->on_answer(request->user, message);
    free(request);
}

void crti_node_requests_end(crti_core_t *core)
{
    crti_numbers_t requests = core->requests;
    size_t cursor = 0;
    request_t *request;

    core->requests = (crti_numbers_t){.slots = NULL};
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

    if (core->channel)
        crti_channel_process(core->channel, events);
}

crt_status_t crti_node_link_start(crti_core_t *core)
{
    core->channel_fd = crti_channel_fd(core->channel);
    return crti_net_add_fd(core->net, core->channel_fd,
                           crti_channel_events(core->channel), on_ready, core);
}

void crti_node_link_stop(crti_core_t *core)
{
    if (core->channel && core->channel_fd >= 0 && !crti_channel_is_closed(core->channel))
        crti_net_remove_fd(core->net, core->channel_fd);
    core->channel_fd = -1;
}
