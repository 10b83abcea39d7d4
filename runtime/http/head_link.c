/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the head. See head_link.h. */
#include "runtime/http/head_link.h"

#include <sys/epoll.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/http/lws_file.h"
#include "runtime/net/channel.h"

#define RECONNECT_US    (200 * LWS_US_PER_MS)
#define CONNECT_TIMEOUT (200 * CRTI_MS)

struct crti_head_link {
    struct lws_context *context;
    struct lws_vhost *vhost;
    const char *path;
    crti_channel_t *channel; /* NULL: down */
    crti_lws_file_t file;
    lws_sorted_usec_list_t reconnect; /* scheduled while down */
    crti_map_t questions;             /* request -> question_t */
    char reason[256];                 /* why it is down */
    bool was_logged;
};

typedef struct question {
    crti_http_head_answer_t *on_answer;
    void *user;
} question_t;

static void try_connect(crti_head_link_t *link);

static void on_reconnect(lws_sorted_usec_list_t *sul)
{
    try_connect(lws_container_of(sul, crti_head_link_t, reconnect));
}

static void retry_later(crti_head_link_t *link)
{
    snprintf(link->reason, sizeof(link->reason), "%s", crt_error_detail());
    if (!link->was_logged)
        crti_log(CRTI_LOG_WARN, "http", "no link to the head: %s", link->reason);
    link->was_logged = true;
    lws_sul_schedule(link->context, 0, &link->reconnect, on_reconnect, RECONNECT_US);
}

/* ---------------------------------------------------------------- the channel */

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    crti_head_link_t *link = user;
    question_t *question = crti_map_remove(&link->questions, &message->request);

    if (!question) /* forgotten */
        return;
    if (message->kind == CRTI_MSG_ERROR)
        question->on_answer(question->user, crti_channel_raise(&message->error), NULL);
    else
        question->on_answer(question->user, CRT_OK, message);
    free(question);
}

/* Every open question fails. One at a time: an answer may ask or forget others. */
static void fail_questions(crti_head_link_t *link)
{
    const void *key;
    void *question;
    size_t cursor;

    for (;;) {
        question_t *taken;
        uint64_t request;

        cursor = 0;
        if (!crti_map_next(&link->questions, &cursor, &key, &question))
            return;
        request = *(const uint64_t *)key;
        taken = crti_map_remove(&link->questions, &request);
        taken->on_answer(
            taken->user,
            crt_raise(CRT_ERR_HEAD_LOST, "the link to the head broke before it answered"),
            NULL);
        free(taken);
    }
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    crti_head_link_t *link = user;

    crti_lws_file_remove(&link->file);
    crti_channel_free(CRTI_TAKE(link->channel));
    crt_raise(CRT_ERR_HEAD_LOST, "the link to the head broke: %s", detail);
    link->was_logged = false;
    retry_later(link);
    fail_questions(link);
}

static void on_events(void *user, crti_channel_t *channel, uint32_t events)
{
    crti_head_link_t *link = user;

    if (events & EPOLLOUT)
        crti_lws_file_want_write(&link->file);
}

static void on_ready(void *user, uint32_t events)
{
    crti_head_link_t *link = user;

    /* The loop gave its copy up (EPOLLHUP): reading tells the channel why. */
    if (link->channel)
        crti_channel_process(link->channel,
                             events == EPOLLHUP ? EPOLLIN | EPOLLHUP : events);
    if (!link->channel)
        return;
    if (events == EPOLLHUP)
        on_closed(link, link->channel, CRT_ERR_CLOSED, "closed");
    else if (crti_channel_events(link->channel) & EPOLLOUT)
        crti_lws_file_want_write(&link->file);
}

static void try_connect(crti_head_link_t *link)
{
    crti_channel_handlers_t handlers = {.user = link,
                                        .on_message = on_message,
                                        .on_closed = on_closed,
                                        .on_events = on_events};
    CRTI_AUTO(crti_channel_free) crti_channel_t *channel = NULL;
    crt_status_t status = crti_channel_connect(
        link->path, crti_now_ns() + CONNECT_TIMEOUT, &handlers, &channel);

    if (status == CRT_OK)
        status = crti_lws_file_add(link->vhost, &link->file, crti_channel_fd(channel));
    if (status != CRT_OK) {
        retry_later(link);
        return;
    }
    crti_log(CRTI_LOG_INFO, "http", "connected to the head at %s", link->path);
    link->was_logged = false;
    link->channel = CRTI_TAKE(channel);
}

/* ---------------------------------------------------------------- questions */

crt_status_t crti_head_link_new(struct lws_context *context, struct lws_vhost *vhost,
                                const char *socket_path, crti_head_link_t **link_out)
{
    crti_head_link_t *self = calloc(1, sizeof(*self));

    if (!self)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    self->context = context;
    self->vhost = vhost;
    self->path = socket_path;
    self->file.on_ready = on_ready;
    self->file.user = self;
    crti_map_init(&self->questions, sizeof(uint64_t));
    try_connect(self);
    *link_out = self;
    return CRT_OK;
}

void crti_head_link_detach(crti_head_link_t *link)
{
    if (!link)
        return;
    lws_sul_cancel(&link->reconnect);
    crti_lws_file_remove(&link->file);
}

void crti_head_link_free(crti_head_link_t *link)
{
    void *question;
    size_t cursor = 0;

    if (!link)
        return;
    crti_channel_free(link->channel);
    while (crti_map_next(&link->questions, &cursor, NULL, &question))
        free(question);
    crti_map_fini(&link->questions);
    free(link);
}

bool crti_head_link_is_up(const crti_head_link_t *link)
{
    return link->channel != NULL;
}

crt_status_t crti_head_link_ask(crti_head_link_t *link, crti_message_kind_t kind,
                                const void *body, crti_http_head_answer_t *on_answer,
                                void *user, uint64_t *request_out)
{
    CRTI_AUTO(free) question_t *question = malloc(sizeof(*question));
    crt_status_t status;
    uint64_t request;

    if (!question)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    if (!link->channel)
        return crt_raise(CRT_ERR_HEAD_LOST, "the head can't be reached: %s",
                         link->reason);
    request = crti_channel_next_request(link->channel);
    *question = (question_t){.on_answer = on_answer, .user = user};
    status = crti_map_put(&link->questions, &request, question);
    if (status != CRT_OK)
        return status;
    status = crti_channel_send(link->channel, kind, request, body);
    if (status != CRT_OK) {
        crti_map_remove(&link->questions, &request);
        return status;
    }
    *request_out = request;
    CRTI_TAKE(question);
    return CRT_OK;
}

crt_status_t crti_head_link_ask_now(crti_head_link_t *link, crti_message_kind_t kind,
                                    const void *body, uint64_t timeout_ns,
                                    crti_message_t *message_out, crti_buffer_t *storage)
{
    if (!link->channel)
        return crt_raise(CRT_ERR_HEAD_LOST, "the head can't be reached: %s",
                         link->reason);
    /* Where the link breaks meanwhile the loop hears it, too. */
    return crti_channel_request(link->channel, kind, body, crti_now_ns() + timeout_ns,
                                message_out, storage, NULL, NULL);
}

void crti_head_link_forget(crti_head_link_t *link, uint64_t request)
{
    free(crti_map_remove(&link->questions, &request));
}
