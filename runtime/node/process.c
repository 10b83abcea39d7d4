/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of this node: their records. See process.h. */
#include <errno.h>
#include <signal.h>
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

/* ------------------------------------------------------------------ slots of the store */

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

/* ------------------------------------------------------------------ its end */

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
