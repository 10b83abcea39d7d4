/* SPDX-License-Identifier: Apache-2.0 */
/* Node link: what this process says to its node daemon, and hears from it.
 *
 * Where it sits
 *     core -> [ node_link.c ] -> net/channel.c -> unix socket -> crt-node
 * Threads
 *     The core's lock; the channel's descriptor is served by whoever makes progress.
 * Failure
 *     The link closes: a worker exits at once, a driver goes on with errors (crti_core_break).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "runtime/base/clock.h"
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

/* ------------------------------------------------------------------ asking and waiting */

typedef struct asking {
    crti_message_t message;
    crti_buffer_t *storage;
    bool is_answered, is_broken, is_abandoned;
} asking_t;

/* The answer's spans point into the frame: everything is encoded again into the storage. */
static void keep_message(asking_t *asking, const crti_message_t *message)
{
    const void *body = &message->error; /* all bodies begin where the union does */

    if (crti_message_encode(message->kind, message->request, body, asking->storage) !=
            CRT_OK ||
        crti_message_decode(asking->storage->data, asking->storage->size,
                            &asking->message) != CRT_OK)
        asking->is_broken = true;
}

static void on_asked(void *user, const crti_message_t *message)
{
    asking_t *asking = user;

    if (asking->is_abandoned) {
        free(asking);
        return;
    }
    if (message)
        keep_message(asking, message);
    else
        asking->is_broken = true;
    asking->is_answered = true;
}

/* Questions wait for a head that is away; that it stayed away is another thing than that it is slow. */
static crt_status_t no_answer(const crti_core_t *core, crti_message_kind_t kind,
                              int64_t timeout_ms)
{
    if (core->head_is_away)
        return crt_raise(CRT_ERR_HEAD_LOST,
                         "%s: the head can't be reached, and did not come back within "
                         "%lld ms",
                         crti_message_name(kind), (long long)timeout_ms);
    return crt_raise(CRT_ERR_TIMED_OUT, "%s was not answered within %lld ms",
                     crti_message_name(kind), (long long)timeout_ms);
}

static bool is_asked(void *user)
{
    return ((asking_t *)user)->is_answered;
}

crt_status_t crti_node_ask(crti_core_t *core, crti_message_kind_t kind, const void *body,
                           int64_t timeout_ms, crti_message_t *answer_out,
                           crti_buffer_t *storage)
{
    asking_t *asking = calloc(1, sizeof(*asking));
    crt_status_t status;

    if (!asking)
        return crt_raise(CRT_ERR_NO_MEMORY, "a request to the node");
    asking->storage = storage;
    status = crti_node_request(core, kind, body, on_asked, asking);
    if (status != CRT_OK) {
        free(asking);
        return status;
    }
    status = crti_wait_for(core, is_asked, asking, timeout_ms, NULL);
    if (!asking->is_answered) {
        asking->is_abandoned =
            true; /* freed when the answer or the end of the link comes */
        return status == CRT_ERR_TIMED_OUT ? no_answer(core, kind, timeout_ms) : status;
    }
    *answer_out = asking->message;
    if (asking->is_broken)
        status = core->broken != CRT_OK ? crti_core_check(core)
                                        : crt_raise(CRT_ERR_CLOSED, "no answer to %s",
                                                    crti_message_name(kind));
    else if (asking->message.kind == CRTI_MSG_ERROR)
        status = crti_channel_raise(&asking->message.error);
    free(asking);
    return status;
}

/* ------------------------------------------------------------------ receiving */

static void on_log(crti_core_t *core, const crti_msg_log_t *m)
{
    const char *line = m->lines.data, *end = line + m->lines.size;

    core->printed.logs++;
    if (core->no_log_to_driver)
        return;
    /* The lines of workers are the one thing that a driver prints besides its log. */
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t size = stop ? (size_t)(stop - line) : (size_t)(end - line);

        fprintf(m->is_stderr ? stderr : stdout, "%.*s %.*s\n", (int)m->prefix.size,
                (const char *)m->prefix.data, (int)size, line);
        line += size + 1;
    }
    fflush(m->is_stderr ? stderr : stdout);
}

static void on_answer(crti_core_t *core, const crti_message_t *message)
{
    request_t *request = crti_numbers_get(&core->requests, message->request);

    if (!request)
        return;
    crti_numbers_remove(&core->requests, message->request);
    request->on_answer(request->user, message);
    free(request);
}

static void on_shutdown(crti_core_t *core, const crti_msg_shutdown_t *m)
{
    char text[512];

    crti_text(m->text, text, sizeof(text));
    if (!core->is_worker) {
        crti_core_break(core, CRT_ERR_CANCELLED, text); /* its job was ended */
        return;
    }
    core->is_ending = true; /* the main thread ends after the method that runs, if any */
    crti_log(CRTI_LOG_INFO, "core", "ends: %s", text);
    if (core->net) /* it may be told while it attaches */
        crti_net_wake(core->net);
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *m,
                       int *fds, int fd_count)
{
    crti_core_t *core = user;

    if (core->is_leaving && m->kind != CRTI_MSG_LOG)
        return;
    if (m->kind == CRTI_MSG_LEASE_WAITING) {
        crti_lease_message(core, m);
        return;
    }
    if (m->request) {
        on_answer(core, m);
        return;
    }
    switch (m->kind) {
    case CRTI_MSG_ACTOR_STATE: crti_actor_state(core, &m->actor_state); break;
    case CRTI_MSG_PEER_DIED:
        if (core->net) /* who attaches knows nobody yet */
            crti_process_died(core, &m->peer_died);
        break;
    case CRTI_MSG_NODE_DIED:
        if (core->net)
            crti_node_died(core, &m->node_died);
        break;
    case CRTI_MSG_LOG: on_log(core, &m->log); break;
    case CRTI_MSG_SHUTDOWN: on_shutdown(core, &m->shutdown); break;
    case CRTI_MSG_HEAD_LINK:
        core->head_is_away = !m->head_link.up;
        crti_log(CRTI_LOG_INFO, "core", "head: %s",
                 m->head_link.up ? "back" : "out of reach");
        break;
    default:
        crti_log(CRTI_LOG_DEBUG, "core", "node daemon: unexpected %s",
                 crti_message_name(m->kind));
    }
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    crti_core_t *core = user;
    char text[256];

    /* Nobody would notice this worker any more: it must not live on. */
    if (core->is_worker)
        _exit(1);
    if (core->is_closing)
        return;
    snprintf(text, sizeof(text), "the node daemon has ended or closed the link: %s",
             detail);
    if (core->net)
        crti_net_remove_fd(core->net, core->channel_fd);
    crti_core_break(core, CRT_ERR_NODE_LOST, text);
}

static void on_events(void *user, crti_channel_t *channel, uint32_t events)
{
    crti_core_t *core = user;

    if (core->net && core->channel_fd >= 0 && !crti_channel_is_closed(channel))
        crti_net_modify_fd(core->net, core->channel_fd, events);
}

const crti_channel_handlers_t crti_node_link_handlers = {
    .on_message = on_message, .on_closed = on_closed, .on_events = on_events};

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
