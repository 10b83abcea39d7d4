/* SPDX-License-Identifier: Apache-2.0 */
/* Watched processes: the pidfd that tells of the end of each, and the threads that hold pidfds and
 * pipes when files get scarce.
 *
 * Where it sits
 *     spawn.c (workers), attach.c (drivers) -> [ node/process/process_watch.c ] -> net/loop.c, offload.c
 *         -> process.h (its end)
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/node/node.h"

#define FILES_PER_WORKER 4  /* link, pidfd, two pipes */
#define FILES_BESIDES    64 /* of the daemon itself */
#define OFFLOADS_FROM    8  /* this part of the files that it may open is not offloaded */

/* ------------------------------------------------------------------ the offload threads */

static void on_offloaded_bytes(void *user, unsigned which, const char *data, size_t size)
{
    crti_process_t *process = user;

    crti_output_take(&process->output[which], data, size);
}

static void on_offloaded_end(void *user, bool lost)
{
    crti_process_t *process = user;

    if (lost)
        crti_process_cut(process, "the node daemon has no file left to watch it by");
    else
        crti_process_ended(process);
}

/* Those that come when files get scarce. */
static bool wants_offload(crti_node_t *node)
{
    size_t direct = node->processes.by_id.count - node->processes.offloaded_count;
    struct rlimit files;
    crt_status_t status = CRT_OK;

    if (node->processes.cannot_offload || getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        direct * FILES_PER_WORKER < files.rlim_cur / OFFLOADS_FROM)
        return false;
    if (node->processes.offload == NULL)
        status = crti_offload_new(node->loop, files.rlim_cur, &node->processes.offload);
    return status == CRT_OK;
}

void crti_process_plan_offload(crti_process_t *process)
{
    process->is_offloaded = wants_offload(process->node);
    process->node->processes.offloaded_count += process->is_offloaded;
}

/* Files that the workers have open here, and those of the ones that are being forked. */
static size_t count_files(const crti_node_t *node)
{
    size_t offloaded = node->processes.offloaded_count,
           direct = node->processes.by_id.count - offloaded;

    return direct * FILES_PER_WORKER + offloaded + FILES_BESIDES +
           (offloaded ? CRTI_JOB_FORKING_MAX * FILES_PER_WORKER : 0);
}

crt_status_t crti_process_check_host(crti_node_t *node)
{
    return crti_host_check(count_files(node), crti_node_now(node),
                           &node->processes.host_fresh_ns);
}

/* Those that are -1 stay here. Where nothing can be offloaded they all do. */
static void offload(crti_process_t *process, int fds[CRTI_OFFLOAD_FILES])
{
    crti_node_t *node = process->node;

    process->offloaded.on_bytes = on_offloaded_bytes;
    process->offloaded.on_end = on_offloaded_end;
    process->offloaded.user = process;
    if (!process->is_offloaded ||
        crti_offload_put(node->processes.offload, &process->offloaded, fds) == CRT_OK)
        return;
    crti_log(CRTI_LOG_WARN, "spawn", "%s: the limit of open files is that of %d a worker",
             crt_error_detail(), FILES_PER_WORKER);
    process->is_offloaded = false;
    node->processes.offloaded_count--;
    node->processes.cannot_offload = true;
}

crt_status_t crti_process_read_outputs(crti_process_t *process)
{
    int fds[CRTI_OFFLOAD_FILES] = {process->output[0].fd, process->output[1].fd, -1};
    crt_status_t status = CRT_OK;

    offload(process, fds);
    for (int i = 0; i < CRTI_OFFLOAD_PIPES && status == CRT_OK; i++) {
        process->output[i].fd = fds[i];
        if (fds[i] >= 0)
            status = crti_output_start(&process->output[i], process->node->loop);
    }
    return status;
}

/* ------------------------------------------------------------------ the pidfd */

static void on_pidfd(void *user, uint32_t events)
{
    crti_process_t *process = user;

    crti_loop_remove(process->node->loop, &process->pidfd_watch);
    crti_process_ended(process);
}

/* One that had the number before keeps its entry: what is told of it is still on its way. */
static void list_by_pid(crti_process_t *process)
{
    crti_map_t *by_pid = &process->node->processes.by_pid;

    if (process->role == CRTI_ROLE_WORKER &&
        crti_map_get(by_pid, &process->pid) == NULL &&
        crti_map_put(by_pid, &process->pid, process) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "spawn", "the end of pid %d will be told without how: %s",
                 (int)process->pid, crt_error_detail());
}

crt_status_t crti_process_watch(crti_process_t *process)
{
    int fds[CRTI_OFFLOAD_FILES] = {-1, -1, -1};

    list_by_pid(process);
    if (process->is_watched)
        return CRT_OK;
    process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (process->pidfd < 0)
        return crt_raise(errno == ESRCH ? CRT_ERR_WORKER_DIED : CRT_ERR_IO,
                         "pid %d can't be watched: %s", (int)process->pid,
                         strerror(errno));
    process->is_watched = true;
    fds[CRTI_OFFLOAD_PIPES] = process->pidfd;
    offload(process, fds);
    process->pidfd = fds[CRTI_OFFLOAD_PIPES];
    if (process->pidfd < 0)
        return CRT_OK;
    process->pidfd_watch = (crti_watch_t){.on_ready = on_pidfd, .user = process};
    return crti_loop_add(process->node->loop, &process->pidfd_watch, process->pidfd,
                         EPOLLIN);
}
