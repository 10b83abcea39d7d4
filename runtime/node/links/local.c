/* SPDX-License-Identifier: Apache-2.0 */
/* Local link: connections on node.sock. See local.h. */
#include "runtime/node/links/local.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/node/links/links_int.h"
#include "runtime/node/process/process.h"

#define LOG_QUEUE                                                                        \
    ((size_t)4 << 20) /* lines that may wait for a driver that does not read */
#define PAUSE_NS (100 * CRTI_MS)

/* ---------------------------------------------------------------- sending */

crti_local_t *crti_local_get(crti_node_t *node, uint64_t number)
{
    return crti_map_get(&node->locals->by_number, &number);
}

void crti_local_tell_not_shown(crti_process_t *driver)
{
    char line[160];
    crti_msg_log_t log = {.prefix = crti_str("(crt)"), .is_stderr = true};

    if (driver->not_shown == 0 || driver->local == NULL)
        return;
    snprintf(
        line, sizeof(line),
        "warning: %llu bytes that workers printed are not shown, this driver did not "
        "take them in time; crt logs has them\n",
        (unsigned long long)driver->not_shown);
    driver->not_shown = 0;
    log.lines = crti_str(line);
    if (crti_channel_send(driver->local->channel, CRTI_MSG_LOG, 0, &log) == CRT_OK &&
        driver->board)
        atomic_fetch_add_explicit(&driver->board->logs, 1, memory_order_release);
}

void crti_local_send(crti_process_t *process, crti_message_kind_t kind, uint64_t request,
                     const void *body)
{
    crt_status_t status;

    if (process == NULL || process->local == NULL ||
        (process->local->attaching && kind != CRTI_MSG_HEAD_LINK))
        return;
    if (kind == CRTI_MSG_LOG &&
        crti_channel_queued(process->local->channel) > LOG_QUEUE) {
        process->not_shown += ((const crti_msg_log_t *)body)->lines.size;
        return; /* the log file has the lines */
    }
    if (kind == CRTI_MSG_LOG)
        crti_local_tell_not_shown(process);
    status = crti_channel_send(process->local->channel, kind, request, body);
    if (kind == CRTI_MSG_LOG && status == CRT_OK && process->board)
        atomic_fetch_add_explicit(&process->board->logs, 1, memory_order_release);
    if (status == CRT_OK || status == CRT_ERR_CLOSED)
        return;
    crti_log(CRTI_LOG_WARN, "local", "pid %d is cut off: %s", (int)process->pid,
             crt_error_detail());
    crti_process_cut(process, crt_error_detail());
}

bool crti_local_has_queued(const crti_node_t *node)
{
    CRTI_LIST_FOREACH (item, &node->locals->all) {
        const crti_local_t *local = CRTI_CONTAINER(item, crti_local_t, link);

        if (local->process && crti_channel_queued(local->channel) > 0)
            return true;
    }
    return false;
}

void crti_local_broadcast(crti_node_t *node, crti_message_kind_t kind, const void *body)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->locals->all) {
        crti_local_send(CRTI_CONTAINER(item, crti_local_t, link)->process, kind, 0, body);
    }
}

void crti_local_answer_error(crti_local_t *local, uint64_t request, crt_status_t status)
{
    if (request)
        crti_channel_send_error(local->channel, request, status);
}

/* ---------------------------------------------------------------- life of a connection */

void crti_local_bind(crti_local_t *local, crti_process_t *process)
{
    local->process = process;
    process->local = local;
}

void crti_local_close(crti_local_t *local)
{
    crti_node_t *node = local->node;

    if (local->process)
        local->process->local = NULL;
    crti_map_remove(&node->locals->by_number, &local->number);
    crti_list_remove(&local->link);
    node->locals->handlers->on_close(local);
    crti_channel_free(local->channel);
    free(local);
}

void crti_local_refuse(crti_local_t *local, const crti_message_t *message)
{
    crti_process_t *process = local->process;
    char text[256];

    snprintf(text, sizeof(text), "%s in %s", crt_error_detail(),
             crti_message_name(message->kind));
    crti_log(CRTI_LOG_WARN, "local", "connection %llu closed: %s",
             (unsigned long long)local->number, text);
    if (process)
        crti_process_cut(process, text);
    else
        crti_local_close(local);
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    crti_local_t *local = user;
    crti_process_t *process = local->process;

    crti_local_close(local);
    if (process == NULL)
        return;
    /* An orderly close of a driver is its end, even if its process lives on and joins again
     * later; a worker never closes: it died, or is ended now. */
    if (process->role == CRTI_ROLE_DRIVER && status == CRT_ERR_CLOSED)
        crti_process_driver_closed(process);
    else
        crti_process_cut(process, detail);
}

void crti_local_hear(crti_local_t *local)
{
    if (local)
        crti_channel_process(local->channel, EPOLLIN);
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    crti_local_t *local = user;

    local->node->locals->handlers->on_message(local, message);
}

/* ---------------------------------------------------------------- listening */

static crt_status_t add_connection(crti_node_t *node, int *fd)
{
    crti_local_t *local = calloc(1, sizeof(*local));
    crti_channel_handlers_t handlers = {local, on_message, on_closed, NULL};
    crt_status_t status;

    if (local == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "connection");
    local->node = node;
    local->number = ++node->locals->last;
    crti_list_append(&node->locals->all, &local->link);
    status = crti_channel_new(fd, &handlers, 0, &local->channel);
    if (status == CRT_OK)
        status = crti_channel_attach(local->channel, node->loop);
    if (status == CRT_OK)
        status = crti_map_put(&node->locals->by_number, &local->number, local);
    if (status != CRT_OK)
        crti_local_close(local);
    return status;
}

static void on_pause_over(void *user)
{
    crti_node_t *node = user;

    crti_loop_modify(node->loop, &node->locals->listen_watch, EPOLLIN);
}

/* Whoever waits would wake this thread for ever, while no descriptor is left to take it by. */
static void pause_listening(crti_node_t *node)
{
    crti_loop_modify(node->loop, &node->locals->listen_watch, 0);
    crti_loop_start(node->loop, &node->locals->listen_pause,
                    crti_node_now(node) + PAUSE_NS);
}

static void on_connection(void *user, uint32_t events)
{
    crti_node_t *node = user;
    crt_status_t status;

    do {
        CRTI_AUTO(crti_close) int fd = -1;

        status = crti_channel_accept(node->locals->listen_fd, &fd);
        if (status == CRT_ERR_IO)
            pause_listening(node);
        if (status == CRT_OK)
            status = add_connection(node, &fd);
        if (status < 0)
            crti_log(CRTI_LOG_WARN, "local", "connection refused: %s",
                     crt_error_detail());
    } while (status == CRT_OK);
}

crt_status_t crti_local_listen(crti_node_t *node)
{
    char path[CRTI_NODE_PATH + 16];
    crt_status_t status;

    snprintf(path, sizeof(path), "%s/node.sock", node->run_dir);
    status = crti_channel_listen(path, &node->locals->listen_fd);
    if (status != CRT_OK)
        return status;
    node->locals->listen_watch = (crti_watch_t){.on_ready = on_connection, .user = node};
    node->locals->listen_pause =
        (crti_timer_t){.on_expired = on_pause_over, .user = node};
    return crti_loop_add(node->loop, &node->locals->listen_watch, node->locals->listen_fd,
                         EPOLLIN);
}

void crti_local_listen_no_more(crti_node_t *node)
{
    crti_loop_cancel(node->loop, &node->locals->listen_pause);
    crti_loop_remove(node->loop, &node->locals->listen_watch);
    if (node->locals->listen_fd >=
        0) /* a process that wants in hears at once that it is late */
        close(node->locals->listen_fd);
    node->locals->listen_fd = -1;
}

void crti_local_init(crti_node_t *node, const crti_local_handlers_t *handlers)
{
    node->locals->handlers = handlers;
    node->locals->listen_fd = -1;
    crti_list_init(&node->locals->all);
    crti_map_init(&node->locals->by_number, sizeof(uint64_t));
}

void crti_local_free_all(crti_node_t *node)
{
    while (!crti_list_is_empty(&node->locals->all))
        crti_local_close(CRTI_CONTAINER(node->locals->all.next, crti_local_t, link));
    crti_map_fini(&node->locals->by_number);
    if (node->locals->listen_fd >= 0)
        close(node->locals->listen_fd);
}
