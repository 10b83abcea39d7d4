/* SPDX-License-Identifier: Apache-2.0 */
/* The head's connections under numbers. See head_links.h. */
#include "runtime/control/links/head_links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"

#define ADMIN_QUEUE ((size_t)128 << 20)
#define PAUSE_NS    (100 * CRTI_MS)

typedef struct head_link {
    crti_head_links_t *links;
    uint64_t number;
    crti_stream_t *stream; /* or */
    crti_channel_t *channel;
    bool is_known;       /* in the map: control may use it */
    char why[256];       /* it failed, and ends with this in the next turn */
    crti_list_t in_list; /* `list`, or `failed` */
} head_link_t;

struct crti_head_links {
    crti_loop_t *loop;
    crti_head_links_handlers_t handlers;
    crti_map_t by_number;
    crti_list_t list; /* known, and those that only wait until they are flushed */
    crti_list_t failed;
    uint64_t last;
    size_t stream_count;
    int listen_fd;
    crti_watch_t listen_watch;
    crti_timer_t pause;  /* of listening */
    crti_timer_t ending; /* ends links that failed, outside of control's events */
};

static void forget(head_link_t *link)
{
    crti_head_links_t *links = link->links;

    if (!link->is_known)
        return;
    crti_map_remove(&links->by_number, &link->number);
    link->is_known = false;
    links->stream_count -= link->stream != NULL;
}

static void destroy(head_link_t *link)
{
    forget(link);
    crti_list_remove(&link->in_list);
    crti_stream_free(link->stream);
    crti_channel_free(link->channel);
    free(link);
}

/* Control hears of the end, once, unless it ended the link itself. */
static void ended(head_link_t *link, const char *text)
{
    crti_head_links_t *links = link->links;
    bool tell = link->is_known;
    uint64_t number = link->number;

    destroy(link);
    if (tell)
        links->handlers.on_closed(links->handlers.user, number, text);
    if (links->stream_count == 0)
        links->handlers.on_alone(links->handlers.user);
}

/* One in a turn: what its end causes may end others. */
static void on_ending(void *user)
{
    crti_head_links_t *links = user;
    head_link_t *link;
    char why[sizeof(link->why)];

    if (crti_list_is_empty(&links->failed))
        return;
    link = CRTI_CONTAINER(links->failed.next, head_link_t, in_list);
    memcpy(why, link->why, sizeof(why));
    ended(link, why);
    if (!crti_list_is_empty(&links->failed))
        crti_loop_start(links->loop, &links->ending, 0);
}

static void fail(head_link_t *link, const char *why)
{
    crti_head_links_t *links = link->links;

    snprintf(link->why, sizeof(link->why), "%s", why);
    crti_list_remove(&link->in_list);
    crti_list_append(&links->failed, &link->in_list);
    crti_loop_start(links->loop, &links->ending, 0);
}

/* ---------------------------------------------------------------- handlers */

static void on_stream_message(void *user, crti_stream_t *stream,
                              const crti_message_t *message)
{
    head_link_t *link = user;

    if (link->is_known)
        link->links->handlers.on_message(link->links->handlers.user, link->number,
                                         message);
}

static void on_stream_closed(void *user, crti_stream_t *stream, crt_status_t status,
                             const char *text)
{
    ended(user, text);
}

static void on_channel_message(void *user, crti_channel_t *channel,
                               const crti_message_t *message, int *fds, int fd_count)
{
    head_link_t *link = user;

    if (link->is_known)
        link->links->handlers.on_message(link->links->handlers.user, link->number,
                                         message);
}

static void on_channel_closed(void *user, crti_channel_t *channel, crt_status_t status,
                              const char *detail)
{
    ended(user, detail);
}

/* ---------------------------------------------------------------- adding */

static head_link_t *add(crti_head_links_t *links)
{
    head_link_t *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return NULL;
    link->links = links;
    link->number = ++links->last;
    crti_list_init(&link->in_list);
    if (crti_map_put(&links->by_number, &link->number, link) != CRT_OK) {
        free(link);
        return NULL;
    }
    link->is_known = true;
    crti_list_append(&links->list, &link->in_list);
    return link;
}

void crti_head_links_add_stream(crti_head_links_t *links, crti_stream_t *stream)
{
    head_link_t *link = add(links);
    crti_stream_handlers_t handlers = {
        .user = link, .on_message = on_stream_message, .on_closed = on_stream_closed};

    if (link == NULL) {
        crti_stream_free(stream);
        return;
    }
    link->stream = stream;
    links->stream_count++;
    crti_stream_set_handlers(stream, &handlers);
    links->handlers.on_opened(links->handlers.user, link->number, false);
}

static void add_channel(crti_head_links_t *links, int fd)
{
    CRTI_AUTO(crti_close) int owned = fd;
    head_link_t *link = add(links);
    crti_channel_handlers_t handlers = {
        .user = link, .on_message = on_channel_message, .on_closed = on_channel_closed};

    if (link == NULL)
        return;
    if (crti_channel_new(&owned, &handlers, ADMIN_QUEUE, &link->channel) != CRT_OK ||
        crti_channel_attach(link->channel, links->loop) != CRT_OK) {
        crti_log(CRTI_LOG_WARN, "head", "admin link: %s", crt_error_detail());
        destroy(link);
        return;
    }
    links->handlers.on_opened(links->handlers.user, link->number, true);
}

static void on_listen(void *user, uint32_t events)
{
    crti_head_links_t *links = user;
    crt_status_t status = CRT_OK;

    for (int i = 0; i < 32 && status != CRT_IN_PROGRESS; i++) {
        int fd = -1;

        status = crti_channel_accept(links->listen_fd, &fd);
        if (status == CRT_OK)
            add_channel(links, fd);
        else if (status < 0)
            crti_log(CRTI_LOG_WARN, "head", "admin socket: %s", crt_error_detail());
        if (status != CRT_ERR_IO)
            continue;
        /* Whoever waits would wake this thread for ever, while no descriptor is left for it. */
        crti_loop_modify(links->loop, &links->listen_watch, 0);
        crti_loop_start(links->loop, &links->pause,
                        crti_loop_now(links->loop) + PAUSE_NS);
        return;
    }
}

static void on_pause_over(void *user)
{
    crti_head_links_t *links = user;

    crti_loop_modify(links->loop, &links->listen_watch, EPOLLIN);
}

crt_status_t crti_head_links_serve(crti_head_links_t *links, const char *socket_path)
{
    crt_status_t status = crti_channel_listen(socket_path, &links->listen_fd);

    if (status != CRT_OK)
        return status;
    return crti_loop_add(links->loop, &links->listen_watch, links->listen_fd, EPOLLIN);
}

/* ---------------------------------------------------------------- actions */

static head_link_t *find(crti_head_links_t *links, uint64_t number)
{
    return crti_map_get(&links->by_number, &number);
}

static void send_bytes(head_link_t *link, const void *message, size_t size)
{
    crt_status_t status = link->stream
                              ? crti_stream_send_bytes(link->stream, message, size)
                              : crti_channel_send_bytes(link->channel, message, size);

    if (status == CRT_OK || link->why[0])
        return;
    fail(link, crt_error_detail());
    crti_log(CRTI_LOG_WARN, "head", "link %llu: %s", (unsigned long long)link->number,
             link->why);
}

void crti_head_links_send(void *user, uint64_t number, const void *message, size_t size)
{
    head_link_t *link = find(user, number);

    if (link)
        send_bytes(link, message, size);
}

void crti_head_links_drop(void *user, uint64_t number, const char *why)
{
    head_link_t *link = find(user, number);

    if (link == NULL)
        return;
    crti_log(CRTI_LOG_INFO, "head", "link %llu ends: %s", (unsigned long long)number,
             why);
    forget(link);
    if (link->stream)
        crti_stream_close(link->stream); /* what was said before still goes out */
    else if (link->why[0] == '\0')
        fail(link, why);
}

size_t crti_head_links_queued(void *user, uint64_t number)
{
    const head_link_t *link = find(user, number);

    if (link == NULL)
        return 0;
    return link->stream ? crti_stream_queued(link->stream)
                        : crti_channel_queued(link->channel);
}

void crti_head_links_tell_nodes(crti_head_links_t *links, crti_message_kind_t kind,
                                const void *body)
{
    CRTI_LIST_FOREACH (item, &links->list) {
        head_link_t *link = CRTI_CONTAINER(item, head_link_t, in_list);

        if (link->stream && link->is_known)
            crti_stream_send(link->stream, kind, 0, body);
    }
}

size_t crti_head_links_nodes(const crti_head_links_t *links)
{
    return links->stream_count;
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_head_links_new(crti_loop_t *loop,
                                 const crti_head_links_handlers_t *handlers,
                                 crti_head_links_t **links_out)
{
    crti_head_links_t *links = calloc(1, sizeof(*links));

    if (links == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "links");
    links->loop = loop;
    links->handlers = *handlers;
    links->listen_fd = -1;
    links->listen_watch = (crti_watch_t){.on_ready = on_listen, .user = links};
    links->pause = (crti_timer_t){.on_expired = on_pause_over, .user = links};
    links->ending = (crti_timer_t){.on_expired = on_ending, .user = links};
    crti_map_init(&links->by_number, sizeof(uint64_t));
    crti_list_init(&links->list);
    crti_list_init(&links->failed);
    *links_out = links;
    return CRT_OK;
}

void crti_head_links_free(crti_head_links_t *links)
{
    if (links == NULL)
        return;
    while (!crti_list_is_empty(&links->list))
        destroy(CRTI_CONTAINER(links->list.next, head_link_t, in_list));
    while (!crti_list_is_empty(&links->failed))
        destroy(CRTI_CONTAINER(links->failed.next, head_link_t, in_list));
    crti_loop_cancel(links->loop, &links->ending);
    crti_loop_cancel(links->loop, &links->pause);
    crti_loop_remove(links->loop, &links->listen_watch);
    if (links->listen_fd >= 0)
        close(links->listen_fd);
    crti_map_fini(&links->by_number);
    free(links);
}
