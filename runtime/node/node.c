/* SPDX-License-Identifier: Apache-2.0 */
/* Start and stop of the node daemon, and the ticks of its tables. See node.h.
 *
 * Start: directories and lock, key, store, local socket; then the head (connect, register); then
 * node.info and `ready`. Whatever fails before is told in one sentence, and everything that was
 * made is undone.
 * Another node's id (its first 48 bits): the head says so, everything is undone, and the process
 * begins again as a node with another id; who waits for `ready` hears of that one.
 * Stop: submitted jobs and workers are told to end, killed after KILL_NS; then the zygotes; when
 * the last is gone the loop stops and the directory is removed.
 */
#include "runtime/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define START_NS    (6 * CRTI_S) /* for the head to answer */
#define KILL_NS     (1 * CRTI_S)
#define GIVE_UP_NS  (4 * CRTI_S) /* of being killed; the kernel may hang */
#define FLUSH_NS    (200 * CRTI_MS)
#define MAX_WORKERS 64 /* of tasks, at least */
#define MAX_IDS     8  /* drawn in a row; that two clash has a chance of 2^-47 per node */

/* ---------------------------------------------------------------- directories */

static crt_status_t make_dirs(crti_node_t *node)
{
    char run[CRTI_NODE_PATH], logs[CRTI_NODE_PATH + 8];
    const char *private_dir = node->options.private_dir;
    crt_status_t status = CRT_OK;

    if (private_dir[0]) {
        snprintf(run, sizeof(run), "%s", private_dir);
        snprintf(node->state_dir, sizeof(node->state_dir), "%s", private_dir);
    } else {
        status = crti_run_dir(run, sizeof(run));
        if (status == CRT_OK)
            status = crti_state_dir(node->state_dir, sizeof(node->state_dir));
    }
    if (status != CRT_OK)
        return status;
    if (strlen(run) + 16 > sizeof(node->run_dir) ||
        strlen(node->state_dir) + 32 > sizeof(node->own_state))
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the path of the directory is too long; set "
                         "CRT_RUN_DIR and CRT_STATE_DIR to short ones");
    snprintf(node->run_dir, sizeof(node->run_dir), "%.200s/node-%.8s", run, node->hex);
    snprintf(node->own_state, sizeof(node->own_state), "%.200s/node-%.8s",
             node->state_dir, node->hex);
    crti_dir_first_missing(node->run_dir, node->made_run, sizeof(node->made_run));
    crti_dir_first_missing(node->own_state, node->made_state, sizeof(node->made_state));
    status = crti_dir_make(run);
    if (status == CRT_OK)
        crti_watchdog_sweep(run);
    if (status == CRT_OK)
        status = crti_dir_make(node->run_dir);
    if (status == CRT_OK)
        status = crti_dir_lock(node->run_dir, &node->lock_fd);
    snprintf(logs, sizeof(logs), "%s/logs", node->own_state);
    if (status == CRT_OK)
        status = crti_dir_make(logs);
    if (status != CRT_OK || private_dir[0])
        return status;
    if (crti_dir_lock(node->own_state, &node->state_lock_fd) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "node", "its logs are not locked: %s",
                 crt_error_detail());
    crti_old_logs_start(&node->old_logs, node->state_dir, node->own_state,
                        node->options.log_total);
    return CRT_OK;
}

static void unmake_dirs(const crti_node_t *node)
{
    if (node->made_state[0])
        crti_dir_remove(node->own_state);
    crti_dir_unmake(node->own_state, node->made_state);
    crti_dir_unmake(node->run_dir, node->made_run);
}

static void remove_own_dirs(crti_node_t *node)
{
    char lock[CRTI_NODE_PATH + 8];

    crti_dir_remove(node->run_dir);
    snprintf(lock, sizeof(lock), "%s/lock", node->own_state);
    unlink(lock);
    snprintf(lock, sizeof(lock), "%s/logs", node->own_state);
    rmdir(lock);
    rmdir(node->own_state); /* without a log nothing is left to keep */
    if (node->options.private_dir[0]) {
        crti_dir_remove(node->own_state);
        crti_dir_remove_private(node->options.private_dir);
    }
    close(node->lock_fd);
    node->lock_fd = -1;
    crti_close_auto(&node->state_lock_fd);
}

static void remove_dirs(crti_node_t *node)
{
    crti_old_logs_fini(&node->old_logs);
    if (node->lock_fd >= 0)
        remove_own_dirs(node);
    if (!node->ready)
        unmake_dirs(node);
}

static crt_status_t write_info(crti_node_t *node)
{
    char pid[24], start[24], path[CRTI_NODE_PATH + 16];
    uint64_t started = 0;
    crt_status_t status = crti_process_start(getpid(), &started);

    if (status != CRT_OK)
        return status;
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    snprintf(start, sizeof(start), "%llu", (unsigned long long)started);
    snprintf(path, sizeof(path), "%s/node.info", node->run_dir);
    return crti_info_write(path,
                           (const crti_info_entry_t[]){
                               {"pid", pid},
                               {"start", start},
                               {"node", node->hex},
                               {"address", node->head_address},
                               {"node_ip", node->ip},
                               {"head_dir", node->options.head_dir},
                               {"http", node->http},
                               {"http_pin", node->http_pin},
                               {"key_file", node->options.key_file},
                               {"state_dir", node->own_state},
                               {"private", node->options.private_dir[0] ? "1" : "0"}},
                           11);
}

/* ---------------------------------------------------------------- telling the parent */

static void tell_parent(crti_node_t *node, const char *line)
{
    int fd = node->options.ready_fd;
    size_t size = strlen(line);

    node->options.ready_fd = -1;
    if (fd < 0)
        return;
    if (write(fd, line, size) != (ssize_t)size)
        crti_log(CRTI_LOG_WARN, "node", "the parent does not listen");
    close(fd);
}

/* True when it is another one. */
static bool take_text(char *text, size_t size, crti_span_t given)
{
    char before[288];

    snprintf(before, sizeof(before), "%s", text);
    snprintf(text, size, "%.*s", given.size < size ? (int)given.size : 0,
             given.size ? (const char *)given.data : "");
    return strcmp(before, text) != 0;
}

void crti_node_registered(crti_node_t *node, const crti_msg_node_registered_t *m)
{
    bool is_new = take_text(node->http, sizeof(node->http), m->http);
    char line[3 * CRTI_NODE_PATH + 128] = "ready";

    is_new = take_text(node->http_pin, sizeof(node->http_pin), m->http_pin) || is_new;
    if (node->ready) {
        if (is_new && write_info(node) != CRT_OK)
            crti_log(CRTI_LOG_WARN, "node", "%s", crt_error_detail());
        return;
    }
    crti_loop_cancel(node->loop, &node->start_timer);
    if (write_info(node) != CRT_OK) {
        crti_node_fail_start(node, crt_error_detail());
        return;
    }
    node->ready = true;
    crti_node_schedule_tick(node, crti_node_now(node));
    crti_ready_add(line, sizeof(line) - 1, "node", node->hex);
    crti_ready_add(line, sizeof(line) - 1, "run_dir", node->run_dir);
    strcat(line, "\n");
    tell_parent(node, line);
}

void crti_node_fail_start(crti_node_t *node, const char *text)
{
    if (node->exit_status)
        return;
    snprintf(node->start_error, sizeof(node->start_error), "%s", text);
    crti_log(CRTI_LOG_ERROR, "node", "%s", text);
    node->exit_status = 1;
    crti_loop_stop(node->loop);
}

static void on_start_late(void *user)
{
    crti_node_t *node = user;
    char text[512];

    snprintf(text, sizeof(text), "the head at %s can't be reached: %s",
             node->head_address,
             node->head.why[0] ? node->head.why : "it does not answer");
    crti_node_fail_start(node, text);
}

/* ---------------------------------------------------------------- the end */

/* Before what may end the last worker: with that the stop goes on, and sets the timer anew. */
static void set_stop_timer(crti_node_t *node, void (*on_expired)(void *user),
                           uint64_t deadline_ns)
{
    crti_loop_cancel(node->loop, &node->stop_timer);
    node->stop_timer = (crti_timer_t){.on_expired = on_expired, .user = node};
    crti_loop_start(node->loop, &node->stop_timer, deadline_ns);
}

static void flush_and_stop(void *user)
{
    crti_node_t *node = user;
    uint64_t now = crti_node_now(node);

    if (node->head.stream && crti_stream_queued(node->head.stream) &&
        now < node->flush_until_ns)
        crti_loop_start(node->loop, &node->stop_timer, now + CRTI_MS);
    else
        crti_loop_stop(node->loop);
}

void crti_node_check_stopped(crti_node_t *node)
{
    if (!node->stopping || node->flush_until_ns)
        return;
    if (crti_worker_table_count(node->workers) || crti_submission_any(node))
        return;
    if (crti_job_any_zygote(node)) {
        crti_job_stop_all(node);
        return;
    }
    node->flush_until_ns = crti_node_now(node) + FLUSH_NS;
    set_stop_timer(node, flush_and_stop, 0);
}

static void on_give_up(void *user)
{
    crti_node_t *node = user;

    crti_log(CRTI_LOG_ERROR, "node", "%zu workers were killed and do not go",
             crti_worker_table_count(node->workers));
    crti_loop_stop(node->loop);
}

static void end_workers(crti_node_t *node, bool at_once)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->jobs, &cursor, NULL, &value))
        crti_worker_table_end_job(node->workers, crti_job_id(value), true, at_once,
                                  crti_node_now(node));
    crti_lease_act(node);
}

static void on_kill(void *user)
{
    crti_node_t *node = user;

    set_stop_timer(node, on_give_up, crti_node_now(node) + GIVE_UP_NS);
    crti_job_stop_all(node); /* a zygote's death ends its workers, attached or not */
    end_workers(node, true);
    crti_submission_kill_all(node);
    crti_node_check_stopped(node);
}

void crti_node_stop(crti_node_t *node, const char *why)
{
    node->is_clash = false;
    if (node->stopping)
        return;
    if (!node->ready) {
        crti_node_fail_start(node, why);
        return;
    }
    node->stopping = true;
    crti_log(CRTI_LOG_INFO, "node", "stops: %s", why);
    crti_head_leave(node, why);
    crti_local_listen_no_more(node);
    set_stop_timer(node, on_kill, crti_node_now(node) + KILL_NS);
    crti_submission_stop_all(node);
    end_workers(node, false);
    crti_node_check_stopped(node);
}

void crti_node_clash(crti_node_t *node, const char *why)
{
    if (!node->ready && node->options.ids_tried + 1 >= MAX_IDS) {
        crti_node_fail_start(node, why);
        return;
    }
    crti_log(CRTI_LOG_WARN, "node", "it begins anew with another id: %s", why);
    if (node->ready)
        crti_node_stop(node, "its id is another node's");
    else
        crti_loop_stop(node->loop);
    node->is_clash = true;
}

bool crti_node_begins_anew(const crti_node_t *node, crti_options_t *options_out)
{
    if (!node->is_clash || node->exit_status)
        return false;
    options_out->ready_fd = node->options.ready_fd;
    options_out->ids_tried = node->ready ? 0 : node->options.ids_tried + 1;
    return true;
}

static void on_signal(void *user, int number)
{
    crti_node_stop(user, number == SIGINT ? "interrupted" : "stopped by its user");
}

/* It was killed. Without one, what workers left behind would outlive a kill of this daemon. */
static void replace_watchdog(crti_node_t *node)
{
    pid_t old = node->watchdog.pid;

    crti_watchdog_end(&node->watchdog);
    if (crti_watchdog_start(&node->watchdog, node->run_dir, node->lock_fd) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "node", "crt-watchdog (pid %d) was killed: %s", (int)old,
                 crt_error_detail());
    else
        crti_log(CRTI_LOG_WARN, "node",
                 "crt-watchdog (pid %d) was killed; %d is the next", (int)old,
                 (int)node->watchdog.pid);
}

/* Orphans of user code become this daemon's children; whoever has a record is reaped by its
 * pidfd, the others here. A child with a record stands in the way of those behind it until it
 * is reaped: the tick looks again. */
void crti_node_reap_orphans(crti_node_t *node)
{
    siginfo_t info = {0};
    bool more = true;

    while (more && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid) {
        more = !crti_node_has_child(node, info.si_pid);
        if (info.si_pid == node->watchdog.pid)
            replace_watchdog(node);
        else if (more)
            waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}

static void on_child(void *user, int number)
{
    crti_node_reap_orphans(user);
}

static void on_lifeline(void *user, uint32_t events)
{
    crti_node_t *node = user;
    char byte;

    if (read(node->options.lifeline_fd, &byte, 1) > 0)
        return;
    crti_loop_remove(node->loop, &node->lifeline_watch);
    crti_node_stop(node, "its driver has ended");
}

/* ---------------------------------------------------------------- life */

static crt_status_t make_store(crti_node_t *node)
{
    uint64_t total = crti_host_memory() / node->options.share;
    uint64_t available = crti_host_available() / node->options.share;

    node->store_bytes = node->options.store_bytes;
    if (node->store_bytes == 0) {
        node->store_bytes = total / 10 * 3;
        if (node->store_bytes > available / 2)
            node->store_bytes = available / 2;
    }
    node->slots = calloc(CRTI_NODE_SLOTS, 1);
    if (node->slots == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "slots");
    return crti_store_new(node->store_bytes, CRTI_NODE_SLOTS, &node->store);
}

static crt_status_t make_tables(crti_node_t *node)
{
    int64_t cpus =
        crti_resources_get(&node->options.resources, "CPU") / CRTI_RESOURCE_ONE;
    size_t workers = (size_t)cpus * 8 > MAX_WORKERS ? (size_t)cpus * 8 : MAX_WORKERS;
    crt_status_t status =
        crti_lease_table_new(node->id, &node->options.resources, workers, &node->leases);

    if (status == CRT_OK)
        status = crti_worker_table_new(cpus > 4 ? (size_t)cpus * 2 : 8, &node->workers);
    if (status == CRT_OK)
        status = crti_pull_table_new(&node->pulls);
    if (status == CRT_OK)
        status = crti_share_table_new(&node->shares);
    return status;
}

static void init_maps(crti_node_t *node)
{
    crti_map_t *by_id[] = {&node->processes,    &node->jobs,        &node->actors,
                           &node->peers,        &node->watches,     &node->actor_watches,
                           &node->lease_askers, &node->ended_actors};

    for (size_t i = 0; i < sizeof(by_id) / sizeof(by_id[0]); i++)
        crti_map_init(by_id[i], sizeof(crti_id_t));
    crti_map_init(&node->by_pid, sizeof(pid_t));
    crti_map_init(&node->local_numbers, sizeof(uint64_t));
    crti_map_init(&node->submissions, sizeof(crti_id_t));
    crti_map_init(&node->places, sizeof(crti_object_id_t));
    crti_list_init(&node->looks);
    crti_list_init(&node->locals);
    crti_list_init(&node->ended_order);
    crti_list_init(&node->inbound_links);
    crti_list_init(&node->log_readers);
    crti_log_quota_init(&node->log_quota, node->options.log_total);
    crti_head_init(node);
}

/* Before anything is made: from now on a signal does not end the process, it is read. */
static crt_status_t make_loop(crti_node_t *node)
{
    crt_status_t status = crti_loop_new(&node->loop);

    signal(SIGPIPE, SIG_IGN); /* of a parent that does not wait for `ready` any more */
    if (status == CRT_OK)
        status = crti_loop_signal(node->loop, SIGTERM, on_signal, node);
    if (status == CRT_OK)
        status = crti_loop_signal(node->loop, SIGINT, on_signal, node);
    if (status == CRT_OK)
        status = crti_loop_signal(node->loop, SIGCHLD, on_child, node);
    return status;
}

static crt_status_t start_loop(crti_node_t *node)
{
    crt_status_t status = CRT_OK;

    crti_node_start_ticks(node);
    node->start_timer = (crti_timer_t){.on_expired = on_start_late, .user = node};
    if (node->options.lifeline_fd >= 0) {
        crti_wake_with_parent();
        fcntl(node->options.lifeline_fd, F_SETFD, FD_CLOEXEC);
        node->lifeline_watch = (crti_watch_t){.on_ready = on_lifeline, .user = node};
        status = crti_loop_add(node->loop, &node->lifeline_watch,
                               node->options.lifeline_fd, EPOLLIN);
    }
    if (status == CRT_OK)
        status = crti_loop_start(node->loop, &node->start_timer,
                                 crti_node_now(node) + START_NS);
    if (status == CRT_OK)
        status = crti_stall_start(node);
    if (status == CRT_OK)
        status = crti_memory_start(node);
    return status;
}

static crt_status_t start(crti_node_t *node)
{
    crt_status_t status = crti_stream_resolve(node->options.address, node->head_address);

    if (status == CRT_OK)
        status = crti_key_load(node->options.key_file, &node->key);
    if (status == CRT_OK)
        status = make_loop(node);
    if (status == CRT_OK)
        status = make_dirs(node);
    if (status == CRT_OK)
        status = crti_watchdog_start(&node->watchdog, node->run_dir, node->lock_fd);
    if (status == CRT_OK)
        status = make_store(node);
    if (status == CRT_OK)
        status = make_tables(node);
    if (status == CRT_OK)
        status = crti_stream_context_new(&node->key, node->encrypt, &node->context);
    if (status == CRT_OK)
        status = crti_local_listen(node);
    if (status == CRT_OK)
        status = start_loop(node);
    return status;
}

crt_status_t crti_node_new(const crti_options_t *options, crti_node_t **node_out)
{
    crti_node_t *node = calloc(1, sizeof(*node));
    crt_status_t status;

    if (node == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "node");
    node->options = *options;
    node->lock_fd = node->state_lock_fd = node->listen_fd = node->watchdog.fd = -1;
    node->encrypt = true; /* until the head says otherwise */
    node->id = crti_id_random();
    node->incarnation = (uint64_t)crti_wall_ms();
    crti_id_hex(node->id, node->hex);
    if (options->node_ip)
        snprintf(node->ip, sizeof(node->ip), "%s", options->node_ip);
    gethostname(node->hostname, sizeof(node->hostname) - 1);
    init_maps(node);
    crti_host_raise_limits();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    status = start(node);
    if (status == CRT_OK) {
        *node_out = node;
        return CRT_OK;
    }
    snprintf(node->start_error, sizeof(node->start_error), "%s", crt_error_detail());
    node->exit_status = 1;
    crti_node_free(node);
    return status;
}

int crti_node_run(crti_node_t *node)
{
    crti_head_connect(node);
    if (crti_loop_run(node->loop) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "node", "%s", crt_error_detail());
        node->exit_status = 1;
    }
    return node->exit_status;
}

static void free_processes(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    node->acting = node->pulling = true; /* nothing more is carried out */
    /* What goes may move another one to a place that was passed: the next round finds it. */
    for (; node->processes.count > 0; cursor = 0)
        while (crti_map_next(&node->processes, &cursor, NULL, &value)) {
            crti_process_kill(value);
            crti_process_free(value);
        }
    while (!crti_list_is_empty(&node->locals))
        crti_local_close(CRTI_CONTAINER(node->locals.next, crti_local_t, link));
}

void crti_node_free(crti_node_t *node)
{
    char line[600];

    node->stopping = true;
    if (node->loop) {
        free_processes(node);
        crti_logs_free(node);
        crti_submission_free_all(node);
        crti_job_free_all(node);
        crti_peer_free_all(node);
        crti_inbound_free_all(node);
        crti_head_free(node);
    }
    crti_offload_free(node->offload);
    crti_actor_free_all(node);
    crti_watch_free(node);
    crti_owner_free(node);
    crti_actor_watch_free(node);
    crti_lease_free(node);
    crti_pull_free(node);
    crti_log_quota_fini(&node->log_quota);
    crti_map_fini(&node->processes);
    crti_map_fini(&node->by_pid);
    crti_map_fini(&node->local_numbers);
    crti_lease_table_free(node->leases);
    crti_worker_table_free(node->workers);
    crti_pull_table_free(node->pulls);
    crti_share_table_free(node->shares);
    crti_stream_context_free(node->context);
    crti_store_detach(node->store);
    free(node->slots);
    if (node->listen_fd >= 0)
        close(node->listen_fd);
    crti_loop_free(node->loop);
    crti_watchdog_end(&node->watchdog);
    remove_dirs(node);
    crti_key_wipe(&node->key, sizeof(node->key));
    snprintf(line, sizeof(line), "error %s\n", node->start_error);
    if (node->exit_status) /* after everything was undone */
        tell_parent(node, line);
    free(node);
}
