/* SPDX-License-Identifier: Apache-2.0 */
/* crt-head: the process that decides for a cluster.
 *
 * Where it sits
 *     crt start --head -> [ control/head.c ] -> loop: listener, links, control, redis, crt-http
 * Threads
 *     One. It forks its children from here, so that they end with it.
 * Start
 *     arguments, ports, directories, lock, key, redis-server, its rows, control, crt-http,
 *     head.info, "ready ..." on --ready-fd. Whatever fails says "error TEXT" there, and what
 *     was made is undone. Connections wait in the kernel until control serves.
 * End
 *     SIGTERM, SIGINT, or end of file on the lifeline: the nodes are told, then crt-http,
 *     redis-server and the directories go; the tables too, a clean end is a fresh beginning.
 *     After SIGKILL the tables stay, and the next start on this port resumes; with --keep-tables
 *     after SIGTERM and SIGINT, too: nodes are told nothing.
 *     SIGUSR2: the start that this head is part of failed elsewhere. A head that has resumed goes
 *     as it came, tables and nodes stay for the next one; else it is a clean end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sodium.h>

#include "crt_config.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/control/autoscale/provider.h"
#include "runtime/control/control.h"
#include "runtime/control/head_identity.h"
#include "runtime/control/head_options.h"
#include "runtime/control/head_scaler.h"
#include "runtime/control/head_work.h"
#include "runtime/control/job_dirs.h"
#include "runtime/control/links/head_http.h"
#include "runtime/control/links/head_links.h"
#include "runtime/control/revoked.h"
#include "runtime/control/scale_file.h"
#include "runtime/control/store/redis.h"
#include "runtime/crt.h"
#include "runtime/daemon/lifeline.h"
#include "runtime/daemon/ready.h"
#include "runtime/net/key.h"
#include "runtime/net/stream.h"
#include "runtime/net/token.h"

#define STOP_NODES_NS (2 * CRTI_S) /* for the nodes to end their links */

typedef struct head {
    crti_head_options_t options;
    crti_head_paths_t paths;
    char address[96];
    int lock_fd;
    crti_loop_t *loop;
    crti_stream_context_t *context;
    crti_stream_listener_t *listener;
    crti_head_links_t *links;
    crti_redis_t *redis;
    bool is_identified;      /* paths.cluster says whose tables these are */
    crti_revoked_t *revoked; /* NULL: there was no room for it */
    crti_head_http_t *http;
    crti_control_t *control;
    crti_head_work_t *work;
    json_t *scale_file; /* NULL: no autoscaler */
    crti_node_type_t scale_types[CRTI_NODE_TYPES_MAX];
    crti_scale_config_t scale_config;
    crti_head_scaler_t *scaler;
    crti_timer_t settle; /* end of a turn: when must control look again? */
    crti_timer_t tick;
    crti_timer_t stop_timer;
    crti_lifeline_t lifeline;
    pid_t redis_pid;
    char warning[320]; /* the end of the ready line; "" none */
    bool serving, stopping, failed;
    bool has_resumed; /* there were tables of an earlier head */
    bool keeps_tables, is_taken_back;
    char problem[1200];
} head_t;

/* ---------------------------------------------------------------- telling the starter */

/* The start failed, or something that can't be lived without is lost. */
static void give_up(head_t *h, const char *text)
{
    if (h->failed)
        return;
    h->failed = true;
    snprintf(h->problem, sizeof(h->problem), "%s", text);
    crti_loop_stop(h->loop);
}

static void write_info(head_t *h)
{
    char pid[16], start[24], http_pid[16], redis_pid[16];
    char control_store[PATH_MAX + 16];
    uint64_t ticks = 0;
    crti_info_entry_t entries[] = {
        {"pid", pid},
        {"start", start},
        {"address", h->address},
        {"http", crti_head_http_address(h->http)},
        {"http_pid", http_pid},
        {"redis_pid", redis_pid},
        {"control_store", control_store},
        {"key_file", h->paths.key},
        {"state_dir", h->paths.state_dir},
        {"token_file", h->paths.token},
        {"private", h->options.private_dir ? "1" : "0"},
    };

    crti_process_start(getpid(), &ticks);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    snprintf(start, sizeof(start), "%llu", (unsigned long long)ticks);
    snprintf(http_pid, sizeof(http_pid), "%d", (int)crti_head_http_pid(h->http));
    snprintf(redis_pid, sizeof(redis_pid), "%d", (int)h->redis_pid);
    if (h->options.redis.address)
        snprintf(control_store, sizeof(control_store), "%s", h->options.redis.address);
    else
        snprintf(control_store, sizeof(control_store), "%s/redis.sock",
                 h->paths.head_dir);
    if (crti_info_write(h->paths.info, entries, sizeof(entries) / sizeof(entries[0])) !=
        CRT_OK)
        crti_log(CRTI_LOG_WARN, "head", "%s", crt_error_detail());
}

/* ---------------------------------------------------------------- control and time */

static void on_settle(void *user)
{
    head_t *h = user;
    uint64_t deadline = crti_control_deadline(h->control);

    if (deadline == UINT64_MAX)
        crti_loop_cancel(h->loop, &h->tick);
    else
        crti_loop_start(h->loop, &h->tick, deadline);
}

/* After every event: once per turn, control is asked when it wants to be called. */
static void settle(head_t *h)
{
    if (!crti_timer_is_started(&h->settle))
        crti_loop_start(h->loop, &h->settle, 0);
}

static void on_tick(void *user)
{
    head_t *h = user;

    crti_control_tick(h->control, crti_now_ns());
    settle(h);
}

static void on_link_opened(void *user, uint64_t link, bool is_admin)
{
    head_t *h = user;

    crti_control_opened(h->control, link, is_admin, crti_now_ns());
    settle(h);
}

static void on_link_message(void *user, uint64_t link, const crti_message_t *message)
{
    head_t *h = user;

    crti_control_message(h->control, link, message, crti_now_ns());
    settle(h);
}

static void on_link_closed(void *user, uint64_t link, const char *text)
{
    head_t *h = user;

    crti_control_closed(h->control, link, text, crti_now_ns());
    settle(h);
}

/* Also after links that the head itself ended, such as those of nodes that took their leave. */
static void on_alone(void *user)
{
    head_t *h = user;

    if (h->stopping)
        crti_loop_stop(h->loop);
}

static void on_accept(void *user, crti_stream_t *stream)
{
    crti_head_links_add_stream(((head_t *)user)->links, stream);
}

/* ---------------------------------------------------------------- the store */

static void do_store(void *user, const crti_store_operation_t *operation)
{
    crti_redis_store(((head_t *)user)->redis, operation);
}

static void do_send(void *user, uint64_t link, const void *message, size_t size)
{
    crti_head_links_send(((head_t *)user)->links, link, message, size);
}

static void do_drop(void *user, uint64_t link, const char *why)
{
    crti_head_links_drop(((head_t *)user)->links, link, why);
}

static size_t get_queued(void *user, uint64_t link)
{
    return crti_head_links_queued(((head_t *)user)->links, link);
}

static bool do_revoke(void *user, crti_id_t id, bool is_revoked)
{
    return crti_revoked_set(((head_t *)user)->revoked, id, is_revoked);
}

static bool is_leader(void *user)
{
    return crti_redis_holds_prefix(((head_t *)user)->redis);
}

static bool do_work(void *user, crti_control_work_t *work)
{
    return crti_head_work_add(((head_t *)user)->work, work);
}

static void do_scale(void *user, const crti_provider_order_t *order)
{
    crti_head_scaler_order(((head_t *)user)->scaler, order);
}

static void on_scaled(void *user, const crti_provider_answer_t *answer)
{
    head_t *h = user;

    crti_control_scaled(h->control, answer, crti_now_ns());
    settle(h);
}

static void forget_job(void *user, crti_id_t job)
{
    crti_job_dirs_remove(((head_t *)user)->paths.state_dir, job);
}

static void on_row(void *user, crti_store_table_t table, crti_span_t key,
                   crti_span_t value)
{
    head_t *h = user;

    h->has_resumed = true;
    crti_control_load(h->control, table, key, value, crti_now_ns());
}

static void on_redis_failed(void *user, const char *text)
{
    give_up(user, text);
}

static void on_redis_warning(void *user, const char *text)
{
    head_t *h = user;

    snprintf(h->warning, sizeof(h->warning), " warning %s", text);
}

static void on_redis_process(void *user, pid_t pid)
{
    head_t *h = user;

    h->redis_pid = pid;
    if (h->serving)
        write_info(h);
}

static void on_done(void *user, uint64_t ticket, crt_status_t status, const char *text,
                    bool found, crti_span_t value)
{
    head_t *h = user;

    if (status == CRT_OK && !h->is_identified)
        crti_head_identity_keep(h->paths.cluster, crti_control_cluster(h->control));
    h->is_identified = h->is_identified || status == CRT_OK;
    crti_control_stored(h->control, ticket, status, text, found, value, crti_now_ns());
    settle(h);
}

/* ---------------------------------------------------------------- serving */

/* crt-http serves, or there is none: the last step of the start, and after each restart. */
static void on_http(void *user, const char *problem)
{
    head_t *h = user;
    char line[8 * PATH_MAX] = "ready";
    const char *http = crti_head_http_address(h->http);
    size_t used;

    if (problem && !h->serving) {
        give_up(h, problem);
        return;
    }
    write_info(h);
    if (h->serving)
        return;
    h->serving = true;
    crti_ready_add(line, sizeof(line), "address", h->address);
    if (*http)
        crti_ready_add(line, sizeof(line), "http", http);
    crti_ready_add(line, sizeof(line), "key_file", h->paths.key);
    crti_ready_add(line, sizeof(line), "head_dir", h->paths.head_dir);
    used = strlen(line);
    snprintf(line + used, sizeof(line) - used, "%s\n", h->warning);
    crti_ready_tell(&h->options.ready_fd, line);
    crti_log(CRTI_LOG_INFO, "head", "serving at %s, dashboard at %s", h->address,
             *http ? http : "none");
}

static void on_loaded(void *user)
{
    head_t *h = user;
    crt_status_t status =
        crti_head_identity_check(h->paths.cluster, h->has_resumed,
                                 crti_control_cluster(h->control), &h->options.redis);

    if (status != CRT_OK) {
        give_up(h, crt_error_detail());
        return;
    }
    crti_control_loaded(h->control, crti_now_ns());
    crti_job_dirs_sweep(h->paths.state_dir, h->control);
    crti_stream_listener_pause(h->listener, false);
    status = crti_head_links_serve(h->links, h->paths.socket);
    if (status == CRT_OK)
        status = crti_head_http_start(h->http);
    settle(h);
    if (status != CRT_OK)
        give_up(h, crt_error_detail());
}

/* ---------------------------------------------------------------- the end */

static void on_stop_timer(void *user)
{
    head_t *h = user;

    crti_log(CRTI_LOG_WARN, "head", "some of %zu links of nodes did not end within %d s",
             crti_head_links_nodes(h->links), (int)(STOP_NODES_NS / CRTI_S));
    crti_loop_stop(h->loop);
}

static void begin_stop(head_t *h, const char *why)
{
    crti_msg_shutdown_t body = {.text = crti_str("the cluster was stopped")};

    if (h->stopping)
        return;
    crti_log(CRTI_LOG_INFO, "head", "stopping: %s", why);
    h->stopping = true;
    if (!h->serving || crti_head_links_nodes(h->links) == 0) {
        crti_loop_stop(h->loop);
        return;
    }
    crti_head_links_tell_nodes(h->links, CRTI_MSG_SHUTDOWN, &body);
    crti_loop_start(h->loop, &h->stop_timer, crti_now_ns() + STOP_NODES_NS);
}

/* Nodes take it for a head that was killed. */
static void leave_tables(head_t *h, const char *why)
{
    crti_log(CRTI_LOG_INFO, "head", "stopping: %s; the tables stay", why);
    h->keeps_tables = true;
    crti_loop_stop(h->loop);
}

static void on_signal(void *user, int signal_number)
{
    head_t *h = user;

    if (h->options.keep_tables && h->serving)
        leave_tables(h, strsignal(signal_number));
    else
        begin_stop(h, strsignal(signal_number));
}

static void on_undo(void *user, int signal_number)
{
    head_t *h = user;

    if (!h->has_resumed) {
        h->is_taken_back = true;
        begin_stop(h, "its start is undone");
        return;
    }
    leave_tables(h, "its start is undone");
}

static void on_lifeline_end(void *user)
{
    begin_stop(user, "the driver of this private cluster ended");
}

/* ---------------------------------------------------------------- the start */

static crt_status_t open_port(head_t *h)
{
    const crti_head_options_t *o = &h->options;
    crti_key_t none = {
        {0}}; /* replaced before anything is accepted: the listener is paused */
    CRTI_AUTO(crti_stream_context_free) crti_stream_context_t *context = NULL;
    crt_status_t status = crti_stream_context_new(&none, o->encrypt_streams, &context);

    if (status == CRT_OK)
        status = crti_stream_listen(h->loop, context, o->ip, o->port, on_accept, h,
                                    &h->listener);
    if (status == CRT_ERR_EXISTS) {
        char run[PATH_MAX], dir[PATH_MAX + 32];

        if (crti_run_dir(run, sizeof(run)) == CRT_OK) {
            snprintf(dir, sizeof(dir), "%s/head-%u", run, o->port);
            if (crti_dir_is_locked(dir))
                return crt_raise(
                    status,
                    "a head of yours runs on port %u already; join it with: crt "
                    "start --address %s:%u, or end it with: crt stop",
                    o->port, o->ip, o->port);
        }
        return crt_raise(
            status, "port %u is taken by another program; choose another one", o->port);
    }
    if (status == CRT_OK)
        crti_stream_listener_pause(h->listener, true);
    return status;
}

/* The key that was given becomes that of the state directory, where all look for it. */
static crt_status_t take_given_key(head_t *h, crti_key_t *key)
{
    crti_key_t given;
    crt_status_t status = crti_key_load(h->options.key_file, &given);

    if (status != CRT_OK)
        return status;
    status = crti_key_load(h->paths.key, key);
    if (status == CRT_ERR_NOT_FOUND) {
        *key = given;
        status = crti_key_keep(h->paths.key, key);
    } else if (status == CRT_OK && sodium_memcmp(&given, key, sizeof(given)) != 0) {
        status =
            crt_raise(CRT_ERR_PERMISSION,
                      "--key-file %s is not the key of the cluster that was here, %s: "
                      "give that one, or set CRT_STATE_DIR to another directory",
                      h->options.key_file, h->paths.key);
    }
    crti_key_wipe(&given, sizeof(given));
    return status;
}

static crt_status_t take_key(head_t *h)
{
    crti_key_t key;
    crt_status_t status =
        h->options.key_file ? take_given_key(h, &key) : crti_key_load(h->paths.key, &key);

    if (status == CRT_ERR_NOT_FOUND && !h->options.key_file)
        status = crti_key_create(h->paths.key, &key);
    if (status == CRT_OK)
        status = crti_stream_context_new(&key, h->options.encrypt_streams, &h->context);
    if (status == CRT_OK)
        status = crti_token_begin(&key, h->paths.key, h->paths.token);
    if (status == CRT_OK)
        crti_stream_listener_rekey(h->listener, h->context);
    crti_key_wipe(&key, sizeof(key));
    return status;
}

static crt_status_t take_directories(head_t *h)
{
    uint16_t port = crti_stream_listener_port(h->listener);
    char run[PATH_MAX];
    crt_status_t status = crti_head_paths_make(&h->options, port, &h->paths);

    if (status == CRT_OK)
        status = crti_dir_lock(h->paths.head_dir, &h->lock_fd);
    if (status == CRT_ERR_EXISTS)
        return crt_raise(status, "a head of yours holds %s already", h->paths.head_dir);
    if (status != CRT_OK)
        return status;
    if (h->options.private_dir && crti_run_dir(run, sizeof(run)) == CRT_OK)
        crti_dir_sweep_private(run);
    crti_head_end_remains(&h->paths);
    unlink(h->paths.info);
    unlink(h->paths.socket);
    if (h->options.fresh)
        crti_head_paths_forget(&h->paths);
    snprintf(h->address, sizeof(h->address),
             strchr(h->options.ip, ':') ? "[%s]:%u" : "%s:%u", h->options.ip, port);
    return crti_dir_make(h->paths.data);
}

static crt_status_t make_control(head_t *h)
{
    crti_control_config_t config = {
        .cluster = crti_id_random(),
        .address = h->address,
        .headless_timeout_ms = h->options.headless_timeout * 1000,
        .max_jobs = (size_t)h->options.max_running_jobs,
        .fail_if_infeasible = h->options.fail_if_infeasible,
        .fail_youngest = strcmp(h->options.on_resource_deadlock, "tell") != 0,
        .encrypt_streams = h->options.encrypt_streams,
        .http = crti_head_http_far_url(h->http),
        .http_pin = crti_head_http_far_pin(h->http),
        .wall_offset_ms = crti_wall_ms() - (int64_t)(crti_now_ns() / CRTI_MS),
        .seed = crti_id_random().low,
        .autoscale = h->scale_file ? &h->scale_config : NULL,
        .actions = {.user = h,
                    .forget_job = forget_job,
                    .send = do_send,
                    .drop = do_drop,
                    .queued = get_queued,
                    .store = do_store,
                    .revoke = do_revoke,
                    .is_leader = is_leader,
                    .work = do_work,
                    .scale = do_scale},
    };
    crti_head_links_handlers_t handlers = {.user = h,
                                           .on_opened = on_link_opened,
                                           .on_message = on_link_message,
                                           .on_closed = on_link_closed,
                                           .on_alone = on_alone};
    crt_status_t status = crti_control_new(&config, &h->control);

    if (status == CRT_OK)
        status = crti_head_links_new(h->loop, &handlers, &h->links);
    if (status == CRT_OK)
        crti_revoked_load(h->paths.revoked, h->control, &h->revoked);
    return status == CRT_OK ? crti_head_work_new(h->loop, &h->control, &h->work) : status;
}

static crt_status_t make_redis(head_t *h)
{
    crti_redis_config_t config = {.loop = h->loop,
                                  .head_dir = h->paths.head_dir,
                                  .data_dir = h->paths.data,
                                  .fresh = h->options.fresh,
                                  .user = h,
                                  .on_row = on_row,
                                  .on_loaded = on_loaded,
                                  .on_warning = on_redis_warning,
                                  .on_failed = on_redis_failed,
                                  .on_process = on_redis_process,
                                  .on_done = on_done};
    crti_redis_endpoint_t endpoint;
    crt_status_t status = CRT_OK;

    if (h->options.redis.address == NULL) {
        status = crti_head_identity_check_files(h->paths.cluster, h->paths.data);
        return status == CRT_OK ? crti_redis_new(&config, &h->redis) : status;
    }
    status = crti_redis_endpoint_open(&h->options.redis, h->address, &endpoint);
    if (status == CRT_OK) {
        config.endpoint = &endpoint;
        status = crti_redis_new(&config, &h->redis);
    }
    sodium_memzero(endpoint.password, sizeof(endpoint.password));
    return status;
}

static crt_status_t make_http(head_t *h)
{
    crti_head_http_config_t http = {
        .loop = h->loop,
        .host = h->options.no_dashboard ? NULL : h->options.dashboard_host,
        .name = h->options.dashboard_name,
        .ip = h->options.ip,
        .port = h->options.dashboard_port,
        .certificate = h->options.dashboard_cert,
        .certificate_key = h->options.dashboard_key,
        .is_open = h->options.no_auth,
        .head_dir = h->paths.head_dir,
        .programs = h->paths.programs,
        .key_file = h->paths.key,
        .log = h->paths.http_log,
        .socket = h->paths.http_socket,
        .user = h,
        .on_change = on_http};

    return crti_head_http_new(&http, &h->http);
}

static crt_status_t make_scaler(head_t *h)
{
    crti_head_scaler_config_t config = {.loop = h->loop,
                                        .file = h->scale_file,
                                        .head_dir = h->paths.head_dir,
                                        .address = h->address,
                                        .key_file = h->paths.key,
                                        .log = h->paths.scaler_log,
                                        .user = h,
                                        .on_answer = on_scaled};
    crt_status_t status;

    if (!h->scale_file)
        return CRT_OK;
    status = crti_scale_file_rules(h->scale_file, h->scale_types, &h->scale_config);
    return status == CRT_OK ? crti_head_scaler_new(&config, &h->scaler) : status;
}

static crt_status_t watch_ends(head_t *h)
{
    crt_status_t status = crti_loop_signal(h->loop, SIGTERM, on_signal, h);

    if (status == CRT_OK)
        status = crti_loop_signal(h->loop, SIGINT, on_signal, h);
    if (status == CRT_OK)
        status = crti_loop_signal(h->loop, SIGUSR2, on_undo, h);
    return status == CRT_OK
               ? crti_lifeline_watch(&h->lifeline, h->loop, h->options.lifeline_fd,
                                     on_lifeline_end, h)
               : status;
}

static crt_status_t start(head_t *h)
{
    crt_status_t status = crti_loop_new(&h->loop);

    h->settle = (crti_timer_t){.on_expired = on_settle, .user = h};
    h->tick = (crti_timer_t){.on_expired = on_tick, .user = h};
    h->stop_timer = (crti_timer_t){.on_expired = on_stop_timer, .user = h};
    if (status == CRT_OK)
        status = watch_ends(h);
    if (status == CRT_OK)
        status = open_port(h);
    if (status == CRT_OK)
        status = take_directories(h);
    if (status != CRT_OK)
        return status;
    /* A terminal stays the log of a head that was started by hand. */
    if (h->options.ready_fd >= 0)
        crti_daemon_log_to(h->paths.log, "head");
    status = take_key(h);
    if (status == CRT_OK)
        status = make_http(h);
    if (status == CRT_OK)
        status = make_scaler(h);
    if (status == CRT_OK)
        status = make_control(h);
    if (status == CRT_OK)
        status = make_redis(h);
    return status;
}

/* ---------------------------------------------------------------- after the loop */

/* Removes what this process made; the tables only after a clean end. */
static void clean_up(head_t *h, bool is_clean)
{
    char parent[PATH_MAX + 8];

    crti_wake_with_parent(false);
    signal(SIGTERM, SIG_IGN); /* asked twice: the end has begun */
    signal(SIGINT, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    crti_head_work_free(h->work); /* what it has made is still sent */
    crti_head_scaler_free(h->scaler);
    json_decref(h->scale_file);
    crti_head_http_free(h->http);
    crti_redis_end(h->redis, is_clean);
    crti_redis_free(h->redis);
    crti_head_links_free(h->links);
    crti_stream_listener_free(h->listener);
    crti_stream_context_free(h->context);
    crti_control_free(h->control);
    crti_revoked_free(h->revoked);
    if (h->lock_fd >= 0) {
        unlink(h->paths.info);
        unlink(h->paths.socket);
        if (is_clean)
            crti_head_paths_forget(&h->paths);
        crti_head_remove_tree(h->paths.head_dir);
        close(h->lock_fd);
    }
    if (h->lock_fd >= 0 && h->options.private_dir) {
        crti_head_remove_tree(h->paths.state_dir);
        snprintf(parent, sizeof(parent), "%s/state", h->options.private_dir);
        rmdir(parent);
        crti_dir_remove_private(h->options.private_dir);
    }
    crti_loop_free(h->loop);
}

static int finish(head_t *h, crt_status_t status)
{
    bool was_serving = h->serving;

    if (status != CRT_OK && !h->failed) {
        h->failed = true;
        snprintf(h->problem, sizeof(h->problem), "%s", crt_error_detail());
    }
    /* A start that failed leaves the tables of an earlier head alone. */
    clean_up(h, was_serving && !h->failed && !h->keeps_tables);
    if (!was_serving || h->is_taken_back)
        crti_head_paths_unmake(&h->paths);
    if (!h->failed)
        return 0;
    crti_log(CRTI_LOG_ERROR, "head", "%s", h->problem);
    crti_ready_fail(&h->options.ready_fd, h->problem);
    return 1;
}

/* A link to each node costs a file; redis-server does the same for itself. */
static void raise_limits(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

int main(int argc, char **argv)
{
    static head_t h; /* large, and there is one */
    crt_status_t status;

    h.lock_fd = -1;
    umask(077);
    raise_limits();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    crti_daemon_log_select();
    status = crti_head_options_parse(argc, argv, &h.options);
    if (status == CRT_OK && h.options.autoscaler_fd >= 0)
        status = crti_scale_file_read(h.options.autoscaler_fd, &h.scale_file);
    if (h.options.ready_fd >= 0) {
        crti_close_inherited(h.options.ready_fd, h.options.lifeline_fd);
        setsid();
    }
    if (status == CRT_OK && sodium_init() < 0)
        status = crt_raise(CRT_ERR_IO, "libsodium has no source of random numbers");
    if (status == CRT_OK)
        status = start(&h);
    if (status == CRT_OK)
        status = crti_loop_run(h.loop);
    return finish(&h, status);
}
