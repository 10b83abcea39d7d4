/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of this node: their records. See process.h. */
#include "runtime/node/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/host/host.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/process/process_int.h"

#define FILES_PER_WORKER 4  /* link, pidfd, two pipes */
#define FILES_BESIDES    64 /* of the daemon itself */
#define OFFLOADS_FROM    8  /* this part of the files that it may open is not offloaded */

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
    crti_log_file_init(&p->log, CRTI_LIMIT(log_limit));
    crti_list_init(&p->link);
    crti_list_init(&p->in_fenced);
    status = crti_map_put(&node->processes->by_id, &id, p);
    if (status != CRT_OK) {
        free(p);
        return status;
    }
    *process_out = p;
    return CRT_OK;
}

crti_process_t *crti_process_get(crti_node_t *node, crti_id_t id)
{
    return crti_map_get(&node->processes->by_id, &id);
}

crti_process_t *crti_process_of_pid(const crti_node_t *node, pid_t pid)
{
    return crti_map_get(&node->processes->by_pid, &pid);
}

crti_process_t *crti_process_next(const crti_node_t *node, size_t *cursor)
{
    void *process = NULL;

    crti_map_next(&node->processes->by_id, cursor, NULL, &process);
    return process;
}

size_t crti_process_count(const crti_node_t *node)
{
    return node->processes->by_id.count;
}

void crti_process_init(crti_node_t *node, const crti_process_handlers_t *handlers)
{
    node->processes->handlers = handlers;
    crti_metric_totals_init(&node->processes->metrics);
    crti_map_init(&node->processes->by_id, sizeof(crti_id_t));
    crti_map_init(&node->processes->by_pid, sizeof(pid_t));
}

crt_status_t crti_process_await(crti_process_t *process, void (*on_late)(void *process),
                                uint64_t after_ns)
{
    crti_node_t *node = process->node;

    crti_loop_cancel(node->loop, &process->reap_timer);
    process->reap_timer = (crti_timer_t){.on_expired = on_late, .user = process};
    return crti_loop_start(node->loop, &process->reap_timer,
                           crti_node_now(node) + after_ns);
}

void crti_process_release(crti_process_t *process)
{
    crti_node_t *node = process->node;

    crti_offload_take_out(&process->offloaded);
    node->processes->offloaded_count -= process->is_offloaded;
    for (int i = 0; i < 2; i++)
        crti_output_close(&process->output[i]);
    process->log_flushed = crti_log_file_end(&process->log);
    crti_log_quota_ended(node->log_quota, &process->log);
    crti_loop_cancel(node->loop, &process->reap_timer);
    if (process->pidfd >= 0) {
        crti_loop_remove(node->loop, &process->pidfd_watch);
        close(process->pidfd);
    }
    crti_list_remove(&process->in_fenced);
    crti_task_archive_take(process);
    crti_metric_totals_take(process);
    if (process->board)
        munmap(process->board, process->board_bytes);
    crti_process_close_board(process);
    crti_slot_give(process);
    crti_list_remove(&process->link);
    if (crti_map_get(&node->processes->by_id, &process->id) == process)
        crti_map_remove(&node->processes->by_id, &process->id);
    if (crti_map_get(&node->processes->by_pid, &process->pid) == process)
        crti_map_remove(&node->processes->by_pid, &process->pid);
}

void crti_process_fini(crti_node_t *node)
{
    crti_offload_free(node->processes->offload);
    crti_task_archive_fini(&node->processes->tasks);
    crti_metric_totals_fini(&node->processes->metrics);
    crti_map_fini(&node->processes->by_id);
    crti_map_fini(&node->processes->by_pid);
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

void crti_process_ready(crti_process_t *process, const crti_msg_ready_t *ready)
{
    crti_text(ready->ipc, process->ipc, sizeof(process->ipc));
    crti_text(ready->tcp, process->tcp, sizeof(process->tcp));
}

static void name_log(crti_process_t *process)
{
    const char *state = process->node->own_state;
    char hex[CRTI_ID_HEX];

    snprintf(process->log.path, sizeof(process->log.path), "%s/logs/worker-%.8s-%d.log",
             state, crti_id_hex(process->id, hex), (int)process->pid);
    if (!crti_id_is_zero(process->actor))
        snprintf(process->log.link, sizeof(process->log.link), "%s/logs/actor-%s.log",
                 state, crti_id_hex(process->actor, hex));
}

void crti_process_forked(crti_process_t *process, pid_t pid)
{
    process->pid = pid;
    name_log(process);
}

/* It may say what it prints before the zygote has said that it was forked. */
void crti_process_attached(crti_process_t *process, const crti_msg_attach_t *attach)
{
    process->incarnation = attach->incarnation;
    process->pid = (pid_t)attach->pid;
    if (process->role == CRTI_ROLE_WORKER && process->log.path[0] == '\0')
        name_log(process);
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
    for (unsigned slot = node->processes->slots_full + 1; slot < CRTI_NODE_SLOTS;
         slot++) {
        node->processes->slots_full = slot;
        if (node->processes->slots[slot] || !crti_store_slot_is_free(node->store, slot))
            continue;
        node->processes->slots[slot] = 1;
        *slot_out = slot;
        return true;
    }
    return false;
}

crt_status_t crti_slot_take(crti_node_t *node, unsigned *slot_out)
{
    if (find_slot(node, slot_out))
        return CRT_OK;
    node->processes->slots_full = 0;
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
    node->processes->slots[process->slot] = 0;
    if (process->slot <= node->processes->slots_full)
        node->processes->slots_full = process->slot - 1;
    process->slot = 0;
}

crt_status_t crti_process_make_board(crti_process_t *process)
{
    size_t bytes = crti_board_bytes(crti_task_slots(process));
    int fd = memfd_create("crt-blackboard", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *page = MAP_FAILED;

    /* Who cut it would end the node. */
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        crt_raise(CRT_ERR_IO, "blackboard: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return CRT_ERR_IO;
    }
    process->board = page;
    process->board_bytes = bytes;
    process->board_fd = fd;
    return CRT_OK;
}

void crti_process_close_board(crti_process_t *process)
{
    crti_close_auto(&process->board_fd);
    process->board_fd = -1;
}

bool crti_process_ran_no_call(const crti_process_t *process)
{
    return !crti_id_is_zero(process->actor) && process->board &&
           atomic_load_explicit(&process->board->created, memory_order_relaxed) == 0;
}

uint64_t crti_process_unbegun(const crti_process_t *process, crti_id_t *caller_out)
{
    const crti_blackboard_t *board = process->board;
    uint64_t begun;

    *caller_out = (crti_id_t){0};
    if (!board || process->role != CRTI_ROLE_WORKER)
        return 0;
    begun = atomic_load_explicit(&board->begun, memory_order_relaxed);
    /* One that has begun none counts: what kills workers before they begin it would never end. */
    if (begun == CRTI_BLACKBOARD_ANY || begun == 0)
        return 0;
    caller_out->high = atomic_load_explicit(&board->caller[0], memory_order_relaxed);
    caller_out->low = atomic_load_explicit(&board->caller[1], memory_order_relaxed);
    return begun + 1;
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
    process->node->processes->handlers->on_ended(process);
}

void crti_process_reaped(crti_process_t *process, int wait_status)
{
    process->node->processes->handlers->on_reaped(process, wait_status);
}

void crti_process_zygote_gone(crti_process_t *process)
{
    process->node->processes->handlers->on_zygote_gone(process);
}

void crti_process_driver_closed(crti_process_t *driver)
{
    driver->node->processes->handlers->on_driver_closed(driver);
}

void crti_process_cut(crti_process_t *process, const char *why)
{
    process->node->processes->handlers->on_cut(process, why);
}

/* ---------------------------------------------------------------- the offload threads */

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
    size_t direct = node->processes->by_id.count - node->processes->offloaded_count;
    struct rlimit files;
    crt_status_t status = CRT_OK;

    if (node->processes->cannot_offload || getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        direct * FILES_PER_WORKER < files.rlim_cur / OFFLOADS_FROM)
        return false;
    if (node->processes->offload == NULL)
        status = crti_offload_new(node->loop, files.rlim_cur, &node->processes->offload);
    return status == CRT_OK;
}

void crti_process_plan_offload(crti_process_t *process)
{
    process->is_offloaded = wants_offload(process->node);
    process->node->processes->offloaded_count += process->is_offloaded;
}

/* Files that the workers have open here, and those of the ones that are being forked. */
static size_t count_files(const crti_node_t *node)
{
    size_t offloaded = node->processes->offloaded_count,
           direct = node->processes->by_id.count - offloaded;

    return direct * FILES_PER_WORKER + offloaded + FILES_BESIDES +
           (offloaded ? CRTI_JOB_FORKING_MAX * FILES_PER_WORKER : 0);
}

crt_status_t crti_process_check_host(crti_node_t *node)
{
    return crti_host_check(count_files(node), crti_node_now(node),
                           &node->processes->host_fresh_ns);
}

/* Those that are -1 stay here. Where nothing can be offloaded they all do. */
static void offload(crti_process_t *process, int fds[CRTI_OFFLOAD_FILES])
{
    crti_node_t *node = process->node;

    process->offloaded.on_bytes = on_offloaded_bytes;
    process->offloaded.on_end = on_offloaded_end;
    process->offloaded.user = process;
    if (!process->is_offloaded ||
        crti_offload_put(node->processes->offload, &process->offloaded, fds) == CRT_OK)
        return;
    crti_log(CRTI_LOG_WARN, "spawn", "%s: the limit of open files is that of %d a worker",
             crt_error_detail(), FILES_PER_WORKER);
    process->is_offloaded = false;
    node->processes->offloaded_count--;
    node->processes->cannot_offload = true;
}

/* Pipes that another thread reads are told in its turn. */
void crti_process_flush_job(crti_node_t *node, crti_id_t job)
{
    CRTI_MAP_FOREACH (crti_process_t, p, &node->processes->by_id) {
        if (p->role != CRTI_ROLE_WORKER || !p->job || !crti_id_equal(p->job_id, job))
            continue;
        for (int i = 0; i < 2; i++)
            crti_output_flush(&p->output[i]);
    }
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

/* ---------------------------------------------------------------- the pidfd */

static void on_pidfd(void *user, uint32_t events)
{
    crti_process_t *process = user;

    crti_loop_remove(process->node->loop, &process->pidfd_watch);
    crti_process_ended(process);
}

/* One that had the number before keeps its entry: what is told of it is still on its way. */
static void list_by_pid(crti_process_t *process)
{
    crti_map_t *by_pid = &process->node->processes->by_pid;

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
