/* SPDX-License-Identifier: Apache-2.0 */
/* Local link: connections on node.sock and what their messages mean.
 *
 * Where it sits
 *     core of a driver or worker, the command -> net/channel.c -> [ node/local.c ] -> lease.c,
 *     actor.c, death.c, transfer.c, or on to the head (head.c)
 * Trust
 *     The peer is a process of this user, but may be mad: a message that does not fit closes its
 *     connection with one line in the log; a worker is ended for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "runtime/node/node.h"

#define LOG_QUEUE                                                                        \
    ((size_t)4 << 20) /* lines that may wait for a driver that does not read */
#define PAUSE_NS (100 * CRTI_MS)

/* ---------------------------------------------------------------- sending */

crti_local_t *crti_local_get(crti_node_t *node, uint64_t number)
{
    return crti_map_get(&node->local_numbers, &number);
}

crti_process_t *crti_process_get(crti_node_t *node, crti_id_t id)
{
    return crti_map_get(&node->processes, &id);
}

void crti_local_send(crti_process_t *process, crti_message_kind_t kind, uint64_t request,
                     const void *body)
{
    crt_status_t status;

    if (process == NULL || process->local == NULL ||
        (process->local->attaching && kind != CRTI_MSG_HEAD_LINK))
        return;
    if (kind == CRTI_MSG_LOG && crti_channel_queued(process->local->channel) > LOG_QUEUE)
        return; /* the log file has the lines */
    status = crti_channel_send(process->local->channel, kind, request, body);
    if (kind == CRTI_MSG_LOG && status == CRT_OK && process->board)
        atomic_fetch_add_explicit(&process->board->logs, 1, memory_order_release);
    if (status == CRT_OK || status == CRT_ERR_CLOSED)
        return;
    crti_log(CRTI_LOG_WARN, "local", "pid %d is cut off: %s", (int)process->pid,
             crt_error_detail());
    crti_process_cut(process, crt_error_detail());
}

void crti_local_broadcast(crti_node_t *node, crti_message_kind_t kind, const void *body)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->locals) {
        crti_local_send(CRTI_CONTAINER(item, crti_local_t, link)->process, kind, 0, body);
    }
}

static void answer_error(crti_local_t *local, uint64_t request, crt_status_t status)
{
    if (request)
        crti_channel_send_error(local->channel, request, status);
}

/* ---------------------------------------------------------------- life of a connection */

void crti_local_close(crti_local_t *local)
{
    crti_node_t *node = local->node;

    if (local->process)
        local->process->local = NULL;
    crti_map_remove(&node->local_numbers, &local->number);
    crti_list_remove(&local->link);
    crti_head_local_closed(local);
    crti_lease_local_closed(node, local->number);
    crti_logs_local_closed(node, local->number);
    crti_channel_free(local->channel);
    free(local);
}

/* The peer misbehaved: the reason is raised already. */
static void refuse(crti_local_t *local, const crti_message_t *message)
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
        crti_death_driver_closed(process);
    else
        crti_process_cut(process, detail);
}

/* ---------------------------------------------------------------- attach */

static bool find_slot(crti_node_t *node, unsigned *slot_out)
{
    for (unsigned slot = node->slots_full + 1; slot < CRTI_NODE_SLOTS; slot++) {
        node->slots_full = slot;
        if (node->slots[slot] || !crti_store_slot_is_free(node->store, slot))
            continue;
        node->slots[slot] = 1;
        *slot_out = slot;
        return true;
    }
    return false;
}

crt_status_t crti_slot_take(crti_node_t *node, unsigned *slot_out)
{
    if (find_slot(node, slot_out))
        return CRT_OK;
    node->slots_full = 0;
    if (find_slot(node, slot_out))
        return CRT_OK;
    return crt_raise(CRT_ERR_BACKPRESSURE,
                     "the node has %d processes, which is all its store serves",
                     CRTI_NODE_SLOTS - 1);
}

void crti_slot_give(crti_process_t *process)
{
    crti_node_t *node = process->node;

    if (!process->slot)
        return;
    crti_store_reclaim(node->store, process->slot);
    node->slots[process->slot] = 0;
    if (process->slot <= node->slots_full)
        node->slots_full = process->slot - 1;
    process->slot = 0;
}

static crt_status_t make_board(crti_process_t *process)
{
    int fd = memfd_create("crt-blackboard", MFD_CLOEXEC);
    void *page = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, CRTI_BLACKBOARD_BYTES) == 0)
        page =
            mmap(NULL, CRTI_BLACKBOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        crt_raise(CRT_ERR_IO, "blackboard: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return CRT_ERR_IO;
    }
    process->board = page;
    process->board_fd = fd;
    return CRT_OK;
}

static crt_status_t check_attach(crti_local_t *local, const crti_msg_attach_t *attach)
{
    struct ucred peer;
    crt_status_t status = crti_channel_peer(local->channel, &peer);

    if (status != CRT_OK)
        return status;
    if (attach->protocol != CRTI_PROTOCOL_VERSION)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "the program speaks protocol %llu, this node %d: build both "
                         "with the same version of crt",
                         (unsigned long long)attach->protocol, CRTI_PROTOCOL_VERSION);
    /* 0: a process of another pid namespace, which we could not watch. */
    if (peer.pid <= 0 || attach->pid != peer.pid)
        return crt_raise(CRT_ERR_PERMISSION, "pid %lld attaches as pid %lld",
                         (long long)peer.pid, (long long)attach->pid);
    if (crti_id_is_zero(attach->process) || attach->incarnation == 0)
        return crt_raise(CRT_ERR_PROTOCOL, "a process without an id");
    if (local->node->stopping)
        return crt_raise(CRT_ERR_CLOSED, "the node is stopping");
    return CRT_OK;
}

static void tell_of_head(crti_process_t *process)
{
    static const crti_msg_head_link_t away = {.up = false, .text = {"not connected", 13}};

    if (!process->node->head.open)
        crti_local_send(process, CRTI_MSG_HEAD_LINK, 0, &away);
}

static void send_attached(crti_local_t *local, uint64_t request)
{
    crti_node_t *node = local->node;
    crti_process_t *p = local->process;
    int fds[2] = {crti_store_fd(node->store), p->board_fd};
    crti_msg_attached_t attached = {.node = node->id,
                                    .cluster = node->cluster,
                                    .job = crti_job_id(p->job),
                                    .slot = p->slot,
                                    .key = crti_span(node->key.bytes, CRTI_KEY_SIZE),
                                    .run_dir = crti_str(node->run_dir),
                                    .ip = crti_str(node->ip),
                                    .port_low = node->options.port_low,
                                    .port_high = node->options.port_high,
                                    .head = crti_str(node->head_address),
                                    .encrypt_streams = node->encrypt};
    bool is_sent;

    if (p->worker) {
        attached.cpus = p->worker->cpus;
        if (!crti_id_is_zero(p->actor))
            crti_actor_fill(node, p->actor, &attached);
        if (attached.fenced && !p->told_to_end)
            crti_fence_add(p);
    }
    local->attaching = false;
    is_sent = crti_channel_send_fds(local->channel, CRTI_MSG_ATTACHED, request, &attached,
                                    fds, 2) == CRT_OK;
    close(p->board_fd); /* the page stays mapped; thousands of workers need their files */
    p->board_fd = -1;
    if (!is_sent)
        crti_process_cut(p, crt_error_detail());
    else
        tell_of_head(p);
}

/* The head recorded the driver's job, or why not. */
static void on_job_added(crti_node_t *node, crti_id_t process_id, uint64_t request,
                         const crti_message_t *answer)
{
    crti_process_t *process = crti_process_get(node, process_id);
    crti_local_t *local = process ? process->local : NULL;

    if (local == NULL || !local->attaching)
        return;
    if (answer && answer->kind != CRTI_MSG_ERROR) {
        send_attached(local, request);
        return;
    }
    local->attaching = false;
    answer_error(local, request,
                 answer ? crti_channel_raise(&answer->error)
                        : crt_raise(CRT_ERR_CLOSED, "the node is stopping"));
    crti_death_driver_closed(process);
}

static crt_status_t join(crti_local_t *local, crti_process_t *process)
{
    crt_status_t status = crti_slot_take(local->node, &process->slot);

    if (status == CRT_OK)
        status = make_board(process);
    if (status == CRT_OK)
        status = crti_process_watch(process);
    if (status != CRT_OK)
        return status;
    local->process = process;
    process->local = local;
    return CRT_OK;
}

static crt_status_t attach_driver(crti_local_t *local, uint64_t request,
                                  const crti_msg_attach_t *attach)
{
    crti_node_t *node = local->node;
    crti_id_t job_id = crti_id_is_zero(attach->job) ? crti_id_random() : attach->job;
    crti_process_t *process;
    crti_job_t *job;
    crt_status_t status;

    if (crti_process_get(node, attach->process))
        return crt_raise(CRT_ERR_EXISTS, "a process with that id is attached");
    status = crti_process_new(node, attach->process, CRTI_ROLE_DRIVER, &process);
    if (status != CRT_OK)
        return status;
    process->incarnation = attach->incarnation;
    process->pid = (pid_t)attach->pid;
    job = crti_job_get(node, job_id);
    if (job)
        crti_job_join(job, process);
    status = job ? join(local, process) : CRT_ERR_NO_MEMORY;
    if (status == CRT_OK)
        status = crti_job_of_driver(process->job, process, attach);
    if (status == CRT_OK) {
        local->attaching = true;
        status = crti_job_announce(process->job, on_job_added, process->id, request);
    }
    if (status != CRT_OK) {
        answer_error(local, request, status);
        crti_death_driver_closed(process);
        return CRT_OK;
    }
    tell_of_head(process); /* it waits for the head, and tells its user */
    return CRT_OK;
}

static crt_status_t attach_worker(crti_local_t *local, uint64_t request,
                                  const crti_msg_attach_t *attach)
{
    crti_node_t *node = local->node;
    crti_process_t *process = crti_process_get(node, attach->process);
    crt_status_t status;

    if (process == NULL || process->worker == NULL)
        return crt_raise(CRT_ERR_NOT_FOUND, "no worker with that id is expected");
    if (process->pid && process->pid != attach->pid)
        return crt_raise(CRT_ERR_PERMISSION, "pid %lld attaches as the worker of pid %d",
                         (long long)attach->pid, (int)process->pid);
    if (!crti_worker_table_attached(node->workers, process->worker, crti_node_now(node)))
        return crt_raise(CRT_ERR_CANCELLED, "the worker is needed no more");
    process->incarnation = attach->incarnation;
    process->pid = (pid_t)attach->pid;
    status = join(local, process);
    if (status != CRT_OK)
        return status;
    send_attached(local, request);
    return CRT_OK;
}

static void on_attach(crti_local_t *local, const crti_message_t *message)
{
    const crti_msg_attach_t *attach = &message->attach;
    crt_status_t status = check_attach(local, attach);

    if (status == CRT_OK && attach->role == CRTI_ROLE_DRIVER)
        status = attach_driver(local, message->request, attach);
    else if (status == CRT_OK && attach->role == CRTI_ROLE_WORKER)
        status = attach_worker(local, message->request, attach);
    else if (status == CRT_OK)
        status =
            crt_raise(CRT_ERR_PROTOCOL, "role %llu", (unsigned long long)attach->role);
    if (status == CRT_OK)
        return;
    answer_error(local, message->request, status);
    if (attach->role == CRTI_ROLE_WORKER)
        crti_spawn_refused(local->node, attach, crt_error_detail());
}

/* ---------------------------------------------------------------- messages */

static void on_ready(crti_process_t *p, const crti_msg_ready_t *ready)
{
    crti_text(ready->ipc, p->ipc, sizeof(p->ipc));
    crti_text(ready->tcp, p->tcp, sizeof(p->tcp));
    if (p->worker &&
        crti_worker_table_ready(p->node->workers, p->worker, crti_node_now(p->node)))
        crti_lease_act(p->node);
}

static void on_blocked(crti_process_t *p, bool blocked)
{
    if (p->worker == NULL)
        return;
    crti_lease_table_blocked(p->node->leases, p->id, blocked, crti_node_now(p->node));
    crti_lease_act(p->node);
}

/* What the head answers or must hear of. False: not such a message. */
static bool for_the_head(crti_local_t *local, const crti_message_t *message)
{
    switch (message->kind) {
    case CRTI_MSG_ACTOR_CREATE:
    case CRTI_MSG_ACTOR_KILL:
    case CRTI_MSG_ACTOR_FIND:
    case CRTI_MSG_KV_PUT:
    case CRTI_MSG_KV_GET:
    case CRTI_MSG_KV_DELETE:
    case CRTI_MSG_KV_SWAP:
    case CRTI_MSG_KV_KEYS: crti_head_forward(local, message); return true;
    case CRTI_MSG_ACTOR_WATCH: crti_actor_watch(local, message); return true;
    case CRTI_MSG_ACTOR_UNWATCH:
        crti_actor_unwatch(local->node, local->process->id, message->actor_unwatch.actor);
        return true;
    default: return false;
    }
}

static bool for_the_node(crti_local_t *local, const crti_message_t *m)
{
    crti_process_t *p = local->process;
    crti_node_t *node = local->node;

    switch (m->kind) {
    case CRTI_MSG_READY: on_ready(p, &m->ready); return true;
    case CRTI_MSG_LEASE_REQUEST:
        crti_lease_asked(node, local->number, NULL, m->request, &m->lease_request);
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
    case CRTI_MSG_FREE: crti_object_free(node, m->free.objects); return true;
    case CRTI_MSG_ACTOR_FAILED:
        crti_actor_create_failed(p, &m->actor_failed);
        return true;
    case CRTI_MSG_LOG_FLUSH: crti_spawn_flush(p, m->request); return true;
    default: return false;
    }
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    crti_local_t *local = user;

    switch (message->kind) {
    case CRTI_MSG_STATE_QUERY: crti_head_forward(local, message); return;
    case CRTI_MSG_LOG_READ:
        if (crti_logs_are_here(local->node, message->log_read.name))
            crti_logs_read(local->node, local->number, message->request,
                           &message->log_read);
        else
            crti_head_forward(local, message);
        return;
    case CRTI_MSG_ATTACH:
        if (local->process == NULL) {
            on_attach(local, message);
            return;
        }
        break;
    default:
        if (local->process && !local->attaching &&
            (for_the_node(local, message) || for_the_head(local, message)))
            return;
    }
    crt_raise(CRT_ERR_PROTOCOL, "unexpected message");
    answer_error(local, message->request, CRT_ERR_PROTOCOL);
    refuse(local, message);
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
    local->number = ++node->last_local;
    crti_list_append(&node->locals, &local->link);
    status = crti_channel_new(fd, &handlers, 0, &local->channel);
    if (status == CRT_OK)
        status = crti_channel_attach(local->channel, node->loop);
    if (status == CRT_OK)
        status = crti_map_put(&node->local_numbers, &local->number, local);
    if (status != CRT_OK)
        crti_local_close(local);
    return status;
}

static void on_pause_over(void *user)
{
    crti_node_t *node = user;

    crti_loop_modify(node->loop, &node->listen_watch, EPOLLIN);
}

/* Whoever waits would wake this thread for ever, while no descriptor is left to take it by. */
static void pause_listening(crti_node_t *node)
{
    crti_loop_modify(node->loop, &node->listen_watch, 0);
    crti_loop_start(node->loop, &node->listen_pause, crti_node_now(node) + PAUSE_NS);
}

static void on_connection(void *user, uint32_t events)
{
    crti_node_t *node = user;
    crt_status_t status;

    do {
        CRTI_AUTO(crti_close) int fd = -1;

        status = crti_channel_accept(node->listen_fd, &fd);
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
    status = crti_channel_listen(path, &node->listen_fd);
    if (status != CRT_OK)
        return status;
    node->listen_watch = (crti_watch_t){.on_ready = on_connection, .user = node};
    node->listen_pause = (crti_timer_t){.on_expired = on_pause_over, .user = node};
    return crti_loop_add(node->loop, &node->listen_watch, node->listen_fd, EPOLLIN);
}

void crti_local_listen_no_more(crti_node_t *node)
{
    crti_loop_cancel(node->loop, &node->listen_pause);
    crti_loop_remove(node->loop, &node->listen_watch);
}
