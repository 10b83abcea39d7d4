/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of this node: their records. See process.h. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/node/node.h"

crt_status_t crti_process_new(crti_node_t *node, crti_id_t id, unsigned role,
                              crti_process_t **process_out)
{
    crti_process_t *p = calloc(1, sizeof(*p));
    crt_status_t status;

    if (p == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "process");
    p->node = node;
    p->id = id;
    p->role = role;
    p->pidfd = p->board_fd = -1;
    p->output[0].fd = p->output[1].fd = -1;
    crti_log_file_init(&p->log, node->options.log_limit);
    crti_list_init(&p->link);
    crti_list_init(&p->in_fenced);
    status = crti_map_put(&node->processes.by_id, &id, p);
    if (status != CRT_OK) {
        free(p);
        return status;
    }
    *process_out = p;
    return CRT_OK;
}

crti_process_t *crti_process_get(crti_node_t *node, crti_id_t id)
{
    return crti_map_get(&node->processes.by_id, &id);
}

void crti_process_init(crti_node_t *node, const crti_process_handlers_t *handlers)
{
    node->processes.handlers = handlers;
    crti_map_init(&node->processes.by_id, sizeof(crti_id_t));
    crti_map_init(&node->processes.by_pid, sizeof(pid_t));
}

void crti_process_release(crti_process_t *process)
{
    crti_node_t *node = process->node;

    crti_offload_take_out(&process->offloaded);
    node->processes.offloaded_count -= process->is_offloaded;
    for (int i = 0; i < 2; i++)
        crti_output_close(&process->output[i]);
    crti_log_quota_ended(&node->log_quota, &process->log);
    crti_loop_cancel(node->loop, &process->reap_timer);
    if (process->pidfd >= 0) {
        crti_loop_remove(node->loop, &process->pidfd_watch);
        close(process->pidfd);
    }
    crti_list_remove(&process->in_fenced);
    if (process->board)
        munmap(process->board, CRTI_BLACKBOARD_BYTES);
    crti_process_close_board(process);
    crti_slot_give(process);
    crti_list_remove(&process->link);
    if (crti_map_get(&node->processes.by_id, &process->id) == process)
        crti_map_remove(&node->processes.by_id, &process->id);
    if (crti_map_get(&node->processes.by_pid, &process->pid) == process)
        crti_map_remove(&node->processes.by_pid, &process->pid);
}

void crti_process_fini(crti_node_t *node)
{
    crti_offload_free(node->processes.offload);
    crti_map_fini(&node->processes.by_id);
    crti_map_fini(&node->processes.by_pid);
}

/* ---------------------------------------------------------------- what is learned of it */

void crti_process_give_worker(crti_process_t *process, crti_worker_t *worker,
                              crti_id_t actor)
{
    process->worker = worker;
    process->actor = actor;
}

crti_worker_t *crti_process_take_worker(crti_process_t *process)
{
    crti_worker_t *worker = process->worker;

    process->worker = NULL;
    return worker;
}

void crti_process_attached(crti_process_t *process, const crti_msg_attach_t *attach)
{
    process->incarnation = attach->incarnation;
    process->pid = (pid_t)attach->pid;
}

void crti_process_ready(crti_process_t *process, const crti_msg_ready_t *ready)
{
    crti_text(ready->ipc, process->ipc, sizeof(process->ipc));
    crti_text(ready->tcp, process->tcp, sizeof(process->tcp));
}

void crti_process_forked(crti_process_t *process, pid_t pid)
{
    const char *state = process->node->own_state;
    char hex[CRTI_ID_HEX];

    process->pid = pid;
    snprintf(process->log.path, sizeof(process->log.path), "%s/logs/worker-%.8s-%d.log",
             state, crti_id_hex(process->id, hex), (int)pid);
    if (!crti_id_is_zero(process->actor))
        snprintf(process->log.link, sizeof(process->log.link), "%s/logs/actor-%s.log",
                 state, crti_id_hex(process->actor, hex));
}

void crti_process_expect_end(crti_process_t *process)
{
    process->told_to_end = true;
}

void crti_process_explain(crti_process_t *process, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(process->end_text, sizeof(process->end_text), format, args);
    va_end(args);
}

/* ---------------------------------------------------------------- slots of the store */

static bool find_slot(crti_node_t *node, unsigned *slot_out)
{
    for (unsigned slot = node->processes.slots_full + 1; slot < CRTI_NODE_SLOTS; slot++) {
        node->processes.slots_full = slot;
        if (node->processes.slots[slot] || !crti_store_slot_is_free(node->store, slot))
            continue;
        node->processes.slots[slot] = 1;
        *slot_out = slot;
        return true;
    }
    return false;
}

crt_status_t crti_slot_take(crti_node_t *node, unsigned *slot_out)
{
    if (find_slot(node, slot_out))
        return CRT_OK;
    node->processes.slots_full = 0;
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
    node->processes.slots[process->slot] = 0;
    if (process->slot <= node->processes.slots_full)
        node->processes.slots_full = process->slot - 1;
    process->slot = 0;
}

crt_status_t crti_process_make_board(crti_process_t *process)
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

void crti_process_close_board(crti_process_t *process)
{
    crti_close_auto(&process->board_fd);
    process->board_fd = -1;
}

/* ---------------------------------------------------------------- its end */

void crti_process_kill(crti_process_t *process)
{
    if (process->pid <= 1 || process->role != CRTI_ROLE_WORKER)
        return;
    kill(-process->pid, SIGKILL);
    if (process->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0);
    crti_offload_kill(&process->offloaded);
}

void crti_process_ended(crti_process_t *process)
{
    process->node->processes.handlers->on_ended(process);
}

void crti_process_cut(crti_process_t *process, const char *why)
{
    process->node->processes.handlers->on_cut(process, why);
}
