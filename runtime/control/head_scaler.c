/* SPDX-License-Identifier: Apache-2.0 */
/* Supervises crt-scaler. See head_scaler.h. */
#include "runtime/control/head_scaler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/control/store/child.h"
#include "runtime/crt_tools.h"

#define PAUSE_NS   (1 * CRTI_S)  /* before it is started again */
#define MORE_NS    (30 * CRTI_S) /* beside the time that a command has */
#define LINE_MAX_  (4u << 20)    /* a longer answer is none */
#define QUEUED_MAX (4u << 20)    /* that it has not read */

/* An order without an answer. */
typedef struct open_order {
    crti_list_t link;
    crti_provider_verb_t verb;
    char *instance;
    uint64_t due_ns;
} open_order_t;

struct crti_head_scaler {
    crti_head_scaler_config_t config;
    uint64_t patience_ns;
    crti_child_t child;
    int fd; /* to the child, -1: it does not run */
    crti_watch_t watch;
    crti_timer_t timer;   /* the first of `orders` is overdue */
    crti_timer_t failing; /* answers those of an end */
    crti_buffer_t in, out;
    crti_list_t orders; /* open_order_t, in the order they are due */
    uint64_t again_ns;  /* it is not started before */
    char problem[300];  /* why what is open fails; "": it does not */
};

/* ---------------------------------------------------------------- answers */

static void forget(open_order_t *order)
{
    crti_list_remove(&order->link);
    free(order->instance);
    free(order);
}

static void give(crti_head_scaler_t *s, open_order_t *order,
                 crti_provider_answer_t *answer)
{
    CRTI_AUTO(free) char *instance = order->instance;

    answer->verb = order->verb;
    answer->instance = instance ? instance : "";
    order->instance = NULL;
    forget(order);
    s->config.on_answer(s->config.user, answer);
}

static void on_failing(void *user)
{
    crti_head_scaler_t *s = user;
    crti_list_t mine;
    char text[sizeof(s->problem)];

    snprintf(text, sizeof(text), "%s", s->problem);
    s->problem[0] = '\0';
    crti_list_init(&mine);
    crti_list_prepend_all(&mine, &s->orders); /* what is ordered meanwhile stays there */
    while (!crti_list_is_empty(&mine))
        give(s, CRTI_CONTAINER(mine.next, open_order_t, link),
             &(crti_provider_answer_t){.is_done = false, .text = text});
}

/* In a turn of its own: an order is given inside of the control, which must not be called. */
static void fail_open(crti_head_scaler_t *s, const char *why)
{
    snprintf(s->problem, sizeof(s->problem), "%s", why);
    crti_loop_start(s->config.loop, &s->failing, crti_now_ns());
}

static open_order_t *find_order(const crti_head_scaler_t *s, const char *verb,
                                const char *instance)
{
    CRTI_LIST_FOREACH (item, &s->orders) {
        open_order_t *order = CRTI_CONTAINER(item, open_order_t, link);

        if (strcmp(crti_provider_verb_name(order->verb), verb) == 0 &&
            strcmp(order->instance, instance) == 0)
            return order;
    }
    return NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* {"verb", "instance", "done", "text", "names": [...]} */
static void take_line(crti_head_scaler_t *s, const char *line, size_t size)
{
    json_t *json = json_loadb(line, size, 0, NULL), *names;
    open_order_t *order =
        json ? find_order(s, text_of(json, "verb"), text_of(json, "instance")) : NULL;
    size_t count = json_array_size(json_object_get(json, "names"));
    CRTI_AUTO(free) const char **list = calloc(count + 1, sizeof(*list));

    names = json_object_get(json, "names");
    for (size_t i = 0; list && i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));

        list[i] = name ? name : "";
    }
    if (order && list)
        give(s, order,
             &(crti_provider_answer_t){.is_done =
                                           json_is_true(json_object_get(json, "done")),
                                       .text = text_of(json, "text"),
                                       .names = list,
                                       .count = count});
    json_decref(json);
}

/* ---------------------------------------------------------------- the child */

static void close_socket(crti_head_scaler_t *s)
{
    crti_loop_remove(s->config.loop, &s->watch);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->in.size = s->out.size = 0;
}

static void child_gone(crti_head_scaler_t *s, const char *why)
{
    crti_log(CRTI_LOG_WARN, "head", "%s; it is started again", why);
    close_socket(s);
    s->again_ns = crti_now_ns() + PAUSE_NS;
    fail_open(s, why);
}

static void on_exit_child(void *user, int wait_status)
{
    char text[100];

    snprintf(text, sizeof(text), "crt-scaler ended (%s %d)",
             WIFSIGNALED(wait_status) ? "signal" : "status",
             WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    child_gone(user, text);
}

static void send_more(crti_head_scaler_t *s)
{
    ssize_t n = 0;

    while (s->out.size && (n = send(s->fd, s->out.data, s->out.size, MSG_NOSIGNAL)) > 0)
        crti_buffer_consume(&s->out, (size_t)n);
    (void)crti_loop_modify(s->config.loop, &s->watch,
                           s->out.size ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void on_ready(void *user, uint32_t events)
{
    crti_head_scaler_t *s = user;
    char *end;
    ssize_t n;

    if (crti_buffer_reserve(&s->in, 4096) != CRT_OK)
        return;
    n = recv(s->fd, s->in.data + s->in.size, 4096, 0);
    if (n > 0)
        s->in.size += (size_t)n;
    while (s->in.size && (end = memchr(s->in.data, '\n', s->in.size))) {
        size_t size = (size_t)(end - (char *)s->in.data);

        take_line(s, (const char *)s->in.data, size);
        crti_buffer_consume(&s->in, size + 1);
    }
    if (n == 0 || s->in.size > LINE_MAX_) { /* its end is told by its process */
        crti_child_signal(&s->child, SIGKILL);
        crti_loop_remove(s->config.loop, &s->watch);
    } else if (events & EPOLLOUT) {
        send_more(s);
    }
}

static crt_status_t spawn(crti_head_scaler_t *s, int theirs)
{
    CRTI_AUTO(crti_close)
    int log =
        open(s->config.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    static const char *const argv[] = {"crt-scaler", NULL};
    char path[PATH_MAX];
    crti_child_command_t command = {.path = path,
                                    .argv = argv,
                                    .head_dir = s->config.head_dir,
                                    .stdin_fd = -1,
                                    .output_fd = log,
                                    .pass_fds = {theirs},
                                    .pass_count = 1};
    crt_status_t status = crti_daemon_path("crt-scaler", path, sizeof(path));

    if (status == CRT_OK && log < 0)
        status = crt_raise(CRT_ERR_IO, "%s: %s", s->config.log, strerror(errno));
    return status == CRT_OK ? crti_child_start(&s->child, s->config.loop, &command)
                            : status;
}

static void put_line(crti_head_scaler_t *s, json_t *line_take)
{
    CRTI_AUTO(free) char *text = json_dumps(line_take, JSON_COMPACT);

    json_decref(line_take);
    if (!text || crti_buffer_append(&s->out, text, strlen(text)) != CRT_OK ||
        crti_buffer_append(&s->out, "\n", 1) != CRT_OK || s->out.size > QUEUED_MAX)
        crti_child_signal(&s->child, SIGKILL);
}

static crt_status_t start_child(crti_head_scaler_t *s)
{
    CRTI_AUTO(crti_close) int theirs = -1;
    int ends[2];
    crt_status_t status;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return crt_raise(CRT_ERR_IO, "socketpair: %s", strerror(errno));
    theirs = ends[1];
    s->fd = ends[0];
    fcntl(s->fd, F_SETFL, O_NONBLOCK);
    status = spawn(s, theirs);
    if (status == CRT_OK)
        status = crti_loop_add(s->config.loop, &s->watch, s->fd, EPOLLIN);
    if (status != CRT_OK) {
        crti_child_kill(&s->child);
        close_socket(s);
        return status;
    }
    put_line(s, json_pack("{s:s, s:s, s:O}", "address", s->config.address, "key_file",
                          s->config.key_file, "file", s->config.file));
    return CRT_OK;
}

/* ---------------------------------------------------------------- orders */

static void watch_first(crti_head_scaler_t *s)
{
    if (crti_list_is_empty(&s->orders))
        crti_loop_cancel(s->config.loop, &s->timer);
    else
        crti_loop_start(s->config.loop, &s->timer,
                        CRTI_CONTAINER(s->orders.next, open_order_t, link)->due_ns);
}

static void on_overdue(void *user)
{
    crti_head_scaler_t *s = user;

    if (!crti_list_is_empty(&s->orders) &&
        crti_now_ns() >= CRTI_CONTAINER(s->orders.next, open_order_t, link)->due_ns) {
        if (s->child.pid)
            crti_child_signal(&s->child, SIGKILL);
        else
            fail_open(s, "crt-scaler does not run");
        return;
    }
    watch_first(s);
}

static open_order_t *open_order(crti_head_scaler_t *s, const crti_provider_order_t *order)
{
    open_order_t *mine = calloc(1, sizeof(*mine));

    if (mine)
        mine->instance = strdup(order->instance ? order->instance : "");
    if (!mine || !mine->instance) {
        free(mine);
        return NULL;
    }
    mine->verb = order->verb;
    mine->due_ns = crti_now_ns() + s->patience_ns;
    crti_list_append(&s->orders, &mine->link);
    watch_first(s);
    return mine;
}

void crti_head_scaler_order(crti_head_scaler_t *s, const crti_provider_order_t *order)
{
    char hex[CRTI_ID_HEX] = "";

    if (!open_order(s, order)) {
        crti_log(CRTI_LOG_ERROR, "head",
                 "out of memory: an order to the provider is lost");
        return;
    }
    if (!s->child.pid && crti_now_ns() < s->again_ns) {
        fail_open(s, "crt-scaler has just ended");
        return;
    }
    if (!s->child.pid && start_child(s) != CRT_OK) {
        s->again_ns = crti_now_ns() + PAUSE_NS;
        fail_open(s, crt_error_detail());
        return;
    }
    if (!crti_id_is_zero(order->node))
        crti_id_hex(order->node, hex);
    put_line(s, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "verb",
                          crti_provider_verb_name(order->verb), "instance",
                          order->instance ? order->instance : "", "type",
                          order->type ? order->type : "", "node", hex, "machine",
                          order->machine ? order->machine : "", "cluster",
                          order->cluster ? order->cluster : ""));
    send_more(s);
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_head_scaler_new(const crti_head_scaler_config_t *config,
                                  crti_head_scaler_t **scaler_out)
{
    crti_head_scaler_t *s = calloc(1, sizeof(*s));
    double seconds = json_number_value(json_object_get(config->file, "command_timeout"));

    if (!s)
        return crt_raise(CRT_ERR_NO_MEMORY, "autoscaler");
    s->config = *config;
    s->patience_ns = (uint64_t)(seconds * (double)CRTI_S) + MORE_NS;
    s->fd = -1;
    s->child = (crti_child_t){.on_exit = on_exit_child, .user = s};
    s->watch = (crti_watch_t){.on_ready = on_ready, .user = s};
    s->timer = (crti_timer_t){.on_expired = on_overdue, .user = s};
    s->failing = (crti_timer_t){.on_expired = on_failing, .user = s};
    crti_list_init(&s->orders);
    *scaler_out = s;
    return CRT_OK;
}

void crti_head_scaler_free(crti_head_scaler_t *s)
{
    if (!s)
        return;
    crti_loop_cancel(s->config.loop, &s->timer);
    crti_loop_cancel(s->config.loop, &s->failing);
    crti_child_kill(&s->child);
    close_socket(s);
    while (!crti_list_is_empty(&s->orders))
        forget(CRTI_CONTAINER(s->orders.next, open_order_t, link));
    crti_buffer_fini(&s->in);
    crti_buffer_fini(&s->out);
    free(s);
}
