/* SPDX-License-Identifier: Apache-2.0 */
/* Client: how a process joins a cluster as driver or worker, and leaves it.
 *
 * Where it sits
 *     crt_init, crt_shutdown -> [ client.c ] -> node daemon (ATTACH), net, store
 * Threads
 *     One thread joins or leaves at a time; a mutex sees to it.
 * Failure
 *     Everything that was made is undone in reverse order; one clear sentence remains.
 */
#include "runtime/core/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/base/number_text.h"
#include "runtime/base/rundir.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/calls/lineage.h"
#include "runtime/core/client/context_start.h"
#include "runtime/core/client/job_quota.h"
#include "runtime/core/client/name_space.h"
#include "runtime/core/client/parts.h"
#include "runtime/core/client/private_cluster.h"
#include "runtime/core/client/slow_waits.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/client/worker_environment.h"
#include "runtime/core/client/worker_lines.h"
#include "runtime/core/client/zygote.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/kept_copies.h"

#define RUN_DIR_MAX sizeof(((crt_cluster_info_t *)NULL)->run_dir)
#define NODES_TRIED 8 /* that end while this driver joins them */
#define LEAVE_NS    (5 * CRTI_S)
#define SILENCE_NS  (1 * CRTI_S) /* a driver that waits longer says what for */

static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ who we are */

/* SHA-256 of the executable, remembered: a program may join and leave a thousand times. */
static crt_status_t hash_program(char hex[65])
{
    static char known[65]; /* covered by `joining` */
    unsigned char digest[crypto_hash_sha256_BYTES], block[65536];
    crypto_hash_sha256_state state;
    CRTI_AUTO(fclose) FILE *file = NULL;
    size_t got;

    if (!known[0]) {
        file = fopen("/proc/self/exe", "rbe");
        if (!file)
            return crt_raise(CRT_ERR_IO, "/proc/self/exe: %s", strerror(errno));
        crypto_hash_sha256_init(&state);
        while ((got = fread(block, 1, sizeof(block), file)) > 0)
            crypto_hash_sha256_update(&state, block, got);
        if (ferror(file))
            return crt_raise(CRT_ERR_IO, "/proc/self/exe can't be read");
        crypto_hash_sha256_final(&state, digest);
        sodium_bin2hex(known, sizeof(known), digest, sizeof(digest));
    }
    memcpy(hex, known, sizeof(known));
    return CRT_OK;
}

static crt_status_t pack_texts(char *const *texts, size_t count, crti_buffer_t *list)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; texts && i < count && texts[i] && status == CRT_OK; i++)
        status = crti_list_pack(list, texts[i], strlen(texts[i]));
    return status;
}

/* The command line as people read it. */
static crt_status_t join_texts(int argc, char **argv, crti_buffer_t *text)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; argv && i < argc && argv[i] && status == CRT_OK; i++) {
        if (i)
            status = crti_buffer_append(text, " ", 1);
        if (status == CRT_OK)
            status = crti_buffer_append(text, argv[i], strlen(argv[i]));
    }
    return status;
}

/* Everything that ATTACH of a driver points at. */
typedef struct identity {
    char path[PATH_MAX], directory[PATH_MAX], sha[65];
    crti_buffer_t argv, environment, entrypoint;
} identity_t;

static crt_status_t identify(int argc, char **argv, identity_t *id)
{
    ssize_t length = readlink("/proc/self/exe", id->path, sizeof(id->path) - 1);
    crt_status_t status;

    if (length < 0 || !getcwd(id->directory, sizeof(id->directory)))
        return crt_raise(CRT_ERR_IO, "the program's path or directory: %s",
                         strerror(errno));
    id->path[length] = '\0';
    status = hash_program(id->sha);
    if (status == CRT_OK)
        status = pack_texts(argv, (size_t)argc, &id->argv);
    if (status == CRT_OK && id->argv.size == 0)
        status = crti_list_pack(&id->argv, id->path, strlen(id->path));
    if (status == CRT_OK)
        status = pack_texts(environ, SIZE_MAX, &id->environment);
    return status == CRT_OK ? join_texts(argc, argv, &id->entrypoint) : status;
}

static void forget_identity(identity_t *id)
{
    crti_buffer_fini(&id->argv);
    crti_buffer_fini(&id->environment);
    crti_buffer_fini(&id->entrypoint);
}

/* ------------------------------------------------------------------ the parts of a core */

/* The answer to ATTACH: who we are here, the arena, the blackboard. */
static crt_status_t take_attached(crti_core_t *core, const crti_msg_attached_t *m,
                                  int *fds, int fd_count)
{
    struct stat board;
    crt_status_t status;
    void *page;

    if (fd_count != 2 || m->key.size != 32)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "ATTACHED with %d descriptors and a key of %zu bytes", fd_count,
                         m->key.size);
    status = crti_limits_take(m->limits.data, m->limits.size);
    if (status != CRT_OK)
        return status;
    core->node = m->node;
    core->job = m->job;
    core->cluster = m->cluster;
    core->cpus = m->cpus;
    core->gpus = crti_str_dup(m->gpus);
    if (!core->gpus)
        return crt_raise(CRT_ERR_NO_MEMORY, "the names of GPUs");
    status = crti_calls_in_environment(core->calls, m->environment);
    if (status != CRT_OK)
        return status;
    core->actor_id = m->actor;
    core->actor_incarnation = m->actor_incarnation;
    core->is_fenced = m->fenced;
    crti_id_hex(core->node, core->node_hex);
    crti_id_hex(core->job, core->job_hex);
    crti_id_hex(core->process, core->process_hex);
    crti_name_space_settle(core);
    crti_text(m->run_dir, core->run_dir, sizeof(core->run_dir));
    memcpy(core->streams.key.bytes, m->key.data, CRTI_KEY_SIZE);
    core->streams.encrypt = m->encrypt_streams;
    core->streams.port_low = (uint16_t)m->port_low;
    core->streams.port_high = (uint16_t)m->port_high;
    crti_text(m->ip, core->streams.ip, sizeof(core->streams.ip));
    core->slot = (unsigned)m->slot;
    core->arena_fd = crti_take_fd(&fds[0]);
    if (fstat(fds[1], &board) != 0 || board.st_size < CRTI_BLACKBOARD_BYTES)
        return crt_raise(CRT_ERR_PROTOCOL, "a blackboard of less than a page");
    core->board_bytes = (size_t)board.st_size;
    page = mmap(NULL, core->board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    if (page == MAP_FAILED)
        return crt_raise(CRT_ERR_IO, "blackboard: %s", strerror(errno));
    core->board = page;
    if (core->board_bytes > CRTI_BOARD_EVENTS)
        crti_task_writer_init(&core->task_events, crti_board_events(core->board),
                              core->board_bytes - CRTI_BOARD_EVENTS);
    core->blackboard = core->is_worker ? page : NULL;
    return core->is_worker ? crti_worker_environment(core->cpus, core->gpus)
                           : crti_core_join_store(core);
}

static crt_status_t start_net(crti_core_t *core, const crti_msg_attached_t *m)
{
    char ip[64];
    crti_net_config_t config = {.run_dir = core->run_dir,
                                .node = core->node,
                                .process = core->process,
                                .incarnation = core->incarnation,
                                .port_low = (uint16_t)m->port_low,
                                .port_high = (uint16_t)m->port_high,
                                .cluster_key = m->key.data,
                                .late_thread = core->is_worker,
                                .handlers = crti_core_handlers};
    crt_status_t status;

    crti_text(m->ip, ip, sizeof(ip));
    config.ip = ip[0] ? ip : NULL;
    config.handlers.user = core;
    status = crti_net_new(&config, &core->net);
    if (status == CRT_OK) {
        crti_net_lock(core->net);
        status = crti_node_link_start(core);
        crti_net_unlock(core->net);
    }
    return status;
}

static void say_ready(crti_core_t *core)
{
    const crti_address_t *address = crti_net_address(core->net);
    crti_msg_ready_t ready = {.ipc = crti_str(address->ipc),
                              .tcp = crti_str(address->tcp)};

    crti_node_notice(core, CRTI_MSG_READY, &ready);
}

static crt_status_t attach(crti_core_t *core, const char *socket_path,
                           const crti_msg_attach_t *body, const crti_channel_late_t *late,
                           crti_buffer_t *storage, crti_message_t *answer)
{
    uint64_t deadline = crti_now_ns() + CRTI_LIMIT(attach_timeout);
    crti_channel_handlers_t handlers = crti_node_link_handlers;
    int fds[CRTI_CHANNEL_FDS], fd_count = 0;
    crt_status_t status;

    handlers.user = core;
    status = crti_channel_connect(socket_path, deadline, &handlers, &core->link->channel);
    if (status != CRT_OK)
        return status;
    crti_node_link_opened(core);
    crti_channel_tell_late(core->link->channel, late);
    status = crti_channel_request(core->link->channel, CRTI_MSG_ATTACH, body, deadline,
                                  answer, storage, fds, &fd_count);
    if (status == CRT_OK && answer->kind != CRTI_MSG_ATTACHED)
        status = crt_raise(CRT_ERR_PROTOCOL, "ATTACH was answered with %s",
                           crti_message_name(answer->kind));
    if (status == CRT_OK)
        status = take_attached(core, &answer->attached, fds, fd_count);
    for (int i = 0; i < fd_count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return status == CRT_OK ? start_net(core, &answer->attached) : status;
}

/* The node tells what was printed for this driver, ends what ran for it, and says when it has: then
 * its resources are free. */
static void leave_node(crti_core_t *core, const int *exit_status)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_shutdown_t body = {.has_exit = exit_status != NULL};
    crti_message_t answer;

    if (exit_status)
        body.wait_status = (*exit_status & 255) << 8;
    core->is_leaving =
        true; /* there are no tables any more that a message could change */
    if (crti_channel_request(core->link->channel, CRTI_MSG_SHUTDOWN, &body,
                             crti_now_ns() + LEAVE_NS, &answer, &storage, NULL,
                             NULL) != CRT_OK)
        crti_log(CRTI_LOG_DEBUG, "core", "the node has not said that all has ended: %s",
                 crt_error_detail());
}

/* Also of one that is half made. */
static void free_core(crti_core_t *core, const int *exit_status)
{
    crti_net_free(core->net);
    crti_core_timer_fini(core->timer); /* no tick comes while the node is left */
    /* The store first: when the link closes the node gives its slot to the next process. */
    crti_store_detach(core->store);
    if (core->arena_fd >= 0)
        close(core->arena_fd);
    if (core->link->channel && !core->is_worker)
        leave_node(core, exit_status);
    crti_worker_lines_end(core);
    crti_channel_free(core->link->channel);
    core->task_events.ring = NULL;
    if (core->board && !core->has_metrics)
        munmap(core->board, core->board_bytes);
    if (core->private_cluster)
        crti_private_cluster_stop(core->private_cluster);
    free(core->private_cluster);
    crti_core_free(core);
}

/* Nobody can guess it, nor meet it by chance. Never 0; it fits a signed number. */
static uint64_t draw_incarnation(void)
{
    return crti_id_random().low >> 1 | 1;
}

static crt_status_t new_core(const crt_options_t *options, crti_core_t **core_out)
{
    crti_core_t *core = crti_core_new();
    crt_status_t status;

    if (!core)
        return crt_raise(CRT_ERR_NO_MEMORY, "the runtime");
    if (options && options->name_space)
        snprintf(core->name_space, sizeof(core->name_space), "%s", options->name_space);
    core->incarnation = draw_incarnation();
    crti_kept_copies_default(core, crti_job_copies(options));
    status = crti_program_init(core->program, options);
    if (status != CRT_OK) {
        crti_core_free(core);
        return status;
    }
    *core_out = core;
    return CRT_OK;
}

/* ------------------------------------------------------------------ worker */

static void fail_worker(void) __attribute__((noreturn));
static void fail_worker(void)
{
    fprintf(stderr, "crt: worker: %s\n", crt_error_detail());
    _exit(1);
}

/* What is the same for all of a zygote's workers, made before it forks them. */
static crti_core_t *new_worker(const crt_options_t *options)
{
    crti_core_t *core;

    if (new_core(options, &core) != CRT_OK)
        fail_worker();
    core->is_worker = true;
    return core;
}

/* Tasks compute: when one wakes up it does not preempt an actor, a driver or a daemon, for which
 * others wait. The threads that the process makes from now on inherit it; where it is not permitted
 * all goes on as it did. */
static void run_as_batch(void)
{
    const struct sched_param parameters = {0};

    if (sched_setscheduler(0, SCHED_BATCH, &parameters) != 0)
        crti_log(CRTI_LOG_DEBUG, "core", "sched_setscheduler: %s", strerror(errno));
}

static void worker_main(crti_core_t *core, const crti_worker_identity_t *identity,
                        void (*start)(void)) __attribute__((noreturn));
static void worker_main(crti_core_t *core, const crti_worker_identity_t *identity,
                        void (*start)(void))
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;
    crti_msg_attach_t body = {.protocol = CRTI_PROTOCOL_VERSION,
                              .role = CRTI_ROLE_WORKER,
                              .process = identity->process,
                              .pid = getpid()};

    crti_printed_count();
    core->incarnation = body.incarnation = draw_incarnation();
    core->process = identity->process;
    if (attach(core, identity->node_socket, &body, &(crti_channel_late_t){0}, &storage,
               &answer) != CRT_OK ||
        !crti_publish(core))
        fail_worker();
    if (crti_id_is_zero(core->actor_id))
        run_as_batch();
    if (start)
        start();
    /* One hold of the lock: no call may come in before the actor's class is known. */
    crti_net_lock(core->net);
    say_ready(core);
    crti_serve(core, answer.attached.creation, answer.attached.saved);
}

/* ------------------------------------------------------------------ driver */

/* A driver whose cluster is slow to let it in: its node records it with the head first, and waits
 * for one that is away. */
typedef struct patience {
    crti_core_t *core;
    char address[72];
    uint64_t start_ns;
    bool has_spoken, is_head;
} patience_t;

static void say_that_we_wait(void *user)
{
    patience_t *p = user;

    p->has_spoken = true;
    p->is_head = p->core->link->head_is_away;
    fprintf(stderr, "crt: %s %s; waiting for it, at most %d s\n",
            p->is_head ? "the head can't be reached: cluster" : "no answer from cluster",
            p->address, (int)(CRTI_LIMIT(attach_timeout) / CRTI_S));
}

/* What it came to. */
static crt_status_t say_the_end(const patience_t *p, crt_status_t status)
{
    const char *port = strrchr(p->address, ':');
    double waited = (double)(crti_now_ns() - p->start_ns) / (double)CRTI_S;
    char seconds[32];

    crti_format(seconds, sizeof(seconds), "%.1f", waited);
    if (p->has_spoken && status == CRT_OK)
        fprintf(stderr, "crt: %s %s after %s s\n",
                p->is_head ? "the head is back: cluster" : "an answer from cluster",
                p->address, seconds);
    if (status != CRT_ERR_TIMED_OUT)
        return status;
    if (!p->core->link->head_is_away)
        return crt_raise(status, "the cluster %s has not answered within %.0f s",
                         p->address, waited);
    return crt_raise(CRT_ERR_HEAD_LOST,
                     "the head of the cluster %s can't be reached, and did not come back "
                     "within %.0f s; if it has ended, start it again with: crt start "
                     "--head --port %s",
                     p->address, waited, port ? port + 1 : "PORT");
}

static crt_status_t attach_patiently(crti_core_t *core, const char *run_dir,
                                     const char *address, const crti_msg_attach_t *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    patience_t patience = {.core = core, .start_ns = crti_now_ns()};
    crti_channel_late_t late = {patience.start_ns + SILENCE_NS, say_that_we_wait,
                                &patience};
    crti_message_t answer;
    char path[128];

    snprintf(patience.address, sizeof(patience.address), "%s", address);
    snprintf(path, sizeof(path), "%s/node.sock", run_dir);
    return say_the_end(&patience, attach(core, path, body, &late, &storage, &answer));
}

/* Who did not say which cluster, or in a variable of another day, learns where his work goes. The
 * job that was submitted to it, and who is alone on his own, know. */
static void say_which(const crt_cluster_info_t *info, bool is_option, bool is_variable)
{
    if (!info->is_private && !getenv("CRT_JOB"))
        crti_log(CRTI_LOG_NOTICE, "core", "joins the cluster %s (%s), node %.8s",
                 info->address,
                 is_option     ? "the address it was given"
                 : is_variable ? "CRT_ADDRESS"
                               : "the only one here",
                 info->node);
}

/* Starts a private cluster. */
static crt_status_t start_own(crti_core_t *core, const crt_options_t *options,
                              crt_cluster_info_t *info)
{
    crti_private_cluster_t *cluster = calloc(1, sizeof(*cluster));
    crt_status_t status = cluster ? crti_private_cluster_start(options, cluster)
                                  : crt_raise(CRT_ERR_NO_MEMORY, "a private cluster");

    if (status != CRT_OK) {
        free(cluster);
        return status;
    }
    core->private_cluster = cluster;
    snprintf(info->run_dir, sizeof(info->run_dir), "%s", cluster->nodes[0].run_dir);
    snprintf(info->address, sizeof(info->address), "%s", cluster->address);
    return CRT_OK;
}

/* The run directory and the cluster of the node to join; starts a private cluster when there is
 * none. */
static crt_status_t find_node(crti_core_t *core, const crt_options_t *options,
                              crt_cluster_info_t *info)
{
    const char *address = options ? options->address : NULL;
    const char *variable = getenv("CRT_ADDRESS");
    bool is_option = address && *address, is_variable = variable && *variable;
    crt_status_t status;

    if (!is_option && crti_context_runs())
        return crti_context_cluster(info);
    status = crt_cluster_find(address, sizeof(*info), info);
    if (status == CRT_OK && !info->run_dir[0])
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the cluster %s has no node on this host: crt start "
                         "--address=%s",
                         info->address, info->address);
    if (status == CRT_OK) {
        say_which(info, is_option, is_variable);
        return CRT_OK;
    }
    if (status != CRT_ERR_NOT_FOUND || is_option || is_variable)
        return status;
    return start_own(core, options, info);
}

/* The id of a driver at that node; any other one where the node can't be asked for its own. */
static crti_id_t make_id(const char *run_dir)
{
    CRTI_AUTO(free) char *text = NULL;
    char path[128], hex[CRTI_ID_HEX] = "";
    crti_id_t node;

    snprintf(path, sizeof(path), "%s/node.info", run_dir);
    if (crti_info_read(path, &text) == CRT_OK)
        crti_info_get(text, "node", hex, sizeof(hex));
    return crti_id_parse(hex, &node) ? crti_id_of_node(node) : crti_id_random();
}

/* `run_dir` becomes that of the node, when one was found. */
static crt_status_t join(crti_core_t *core, int argc, char **argv,
                         const crt_options_t *options, char run_dir[RUN_DIR_MAX])
{
    identity_t *id = calloc(1, sizeof(*id));
    const char *job = getenv("CRT_JOB");
    crt_cluster_info_t info;
    crti_msg_attach_t body = {.protocol = CRTI_PROTOCOL_VERSION,
                              .role = CRTI_ROLE_DRIVER,
                              .pid = getpid(),
                              .log_to_driver = !core->no_log_to_driver};
    crt_status_t status =
        id ? identify(argc, argv, id) : crt_raise(CRT_ERR_NO_MEMORY, "a driver");

    if (status == CRT_OK)
        status = crti_job_quota_pack(options, &id->environment);
    if (status == CRT_OK && options && options->execute_workers)
        status = pack_texts((char *[]){CRTI_EXECUTE_WORKERS "=1"}, 1, &id->environment);
    if (status == CRT_OK)
        status =
            crti_name_space_pack(options ? options->name_space : NULL, &id->environment);
    if (status == CRT_OK && job && !crti_id_parse(job, &body.job))
        status = crt_raise(CRT_ERR_INVALID, "CRT_JOB=%s is no job id", job);
    if (status == CRT_OK)
        status = find_node(core, options, &info);
    if (status == CRT_OK) {
        memcpy(run_dir, info.run_dir, RUN_DIR_MAX);
        core->process = body.process = make_id(info.run_dir);
        body.incarnation = core->incarnation;
        body.program = crti_str(id->path);
        body.sha = crti_str(id->sha);
        body.argv = crti_span(id->argv.data, id->argv.size);
        body.environment = crti_span(id->environment.data, id->environment.size);
        body.directory = crti_str(id->directory);
        body.entrypoint = crti_span(id->entrypoint.data, id->entrypoint.size);
        status = attach_patiently(core, info.run_dir, info.address, &body);
    }
    if (id)
        forget_identity(id);
    free(id);
    return status;
}

static crt_status_t start_at_node(int argc, char **argv, const crt_options_t *options,
                                  char run_dir[RUN_DIR_MAX])
{
    char why[1024];
    crti_core_t *core = NULL;
    crt_status_t status = new_core(options, &core);

    if (status != CRT_OK)
        return status;
    core->seeds->seed = options ? options->random_seed : 0;
    core->has_seeds = core->seeds->seed != 0;
    status = crti_worker_lines_begin(core, options);
    crti_slow_waits_begin(core);
    if (status == CRT_OK)
        status = join(core, argc, argv, options, run_dir);
    if (status == CRT_OK) {
        crti_net_lock(core->net);
        say_ready(core);
        crti_net_unlock(core->net);
        if (crti_publish(core))
            return CRT_OK;
        status = crt_raise(CRT_ERR_EXISTS, "crt_init was called already");
    }
    /* What fails when it leaves, because the node has closed its link, is not the reason. */
    snprintf(why, sizeof(why), "%s", crt_error_detail());
    free_core(core, NULL);
    return crt_raise(status, "%s", why);
}

/* Whether that node ended before it took this driver in, and another one of the cluster is here. */
static bool has_another_node(const crt_options_t *options, crt_status_t status,
                             const char *run_dir)
{
    char why[1024];
    crt_cluster_info_t info;
    bool is_another;

    if (!*run_dir || (status != CRT_ERR_NOT_FOUND && status != CRT_ERR_CLOSED))
        return false;
    snprintf(why, sizeof(why), "%s", crt_error_detail());
    is_another = crt_cluster_find(options ? options->address : NULL, sizeof(info),
                                  &info) == CRT_OK &&
                 info.run_dir[0] && strcmp(info.run_dir, run_dir) != 0;
    (void)crt_raise(status, "%s", why);
    return is_another;
}

static crt_status_t start_driver(int argc, char **argv, const crt_options_t *options)
{
    char run_dir[RUN_DIR_MAX];
    crt_status_t status;
    int tries = 0;

    do {
        *run_dir = '\0';
        status = start_at_node(argc, argv, options, run_dir);
    } while (status != CRT_OK && ++tries < NODES_TRIED &&
             has_another_node(options, status, run_dir));
    return status;
}

/* A program may be started without them. What is opened next would take their numbers, and text
 * that is printed would go there. */
static void open_missing_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", O_RDWR); /* the lowest number: this one */
}

crt_status_t crt_init(int argc, char **argv, const crt_options_t *options)
{
    crt_options_t o;
    crti_worker_identity_t identity;
    crti_core_t *core;
    crt_status_t status;
    int zygote_fd;

    if (crti_is_forked())
        return crt_raise(CRT_ERR_FORKED, "%s", CRTI_FORKED);
    if (crti_is_callback_thread())
        return crt_raise(CRT_ERR_INVALID, "crt_init inside of a callback of a ref");
    status = CRTI_COPY_STRUCT(&o, options, "CRT_OPTIONS");
    if (status != CRT_OK)
        return status;
    if (sodium_init() < 0)
        return crt_raise(CRT_ERR_IO, "libsodium can't be initialized");
    core = crti_enter_quiet();
    if (core) {
        crti_leave(core);
        return crt_raise(CRT_ERR_EXISTS, "crt_init was called already");
    }
    open_missing_streams();
    status = crti_limits_load();
    if (status != CRT_OK)
        return status;
    switch (crti_process_role(&identity, &zygote_fd)) {
    case CRTI_PROCESS_ZYGOTE:
        core = new_worker(&o);
        crti_zygote_serve(zygote_fd, &identity);
        worker_main(core, &identity, o.worker_start);
    case CRTI_PROCESS_WORKER:
        crti_print_by_lines();
        worker_main(new_worker(&o), &identity, o.worker_start);
    case CRTI_PROCESS_DRIVER: break;
    }
    if (getenv("CRT_RANKS")) /* crt_main takes it */
        return crt_raise(CRT_ERR_INVALID, "crt run --ranks runs programs whose main "
                                          "calls crt_main, not crt_init");
    if (o.cluster)
        CRT_TRY(crti_context_of_options(argc, argv, &o));
    pthread_mutex_lock(&joining);
    status = start_driver(argc, argv, &o);
    pthread_mutex_unlock(&joining);
    return status;
}

/* ------------------------------------------------------------------ shutdown */

crt_status_t crti_shutdown(const int *exit_status)
{
    crti_core_t *core;

    if (crti_is_forked())
        return crt_raise(CRT_ERR_FORKED, "%s", CRTI_FORKED);
    if (crti_is_callback_thread()) /* it would wait for itself */
        return crt_raise(CRT_ERR_INVALID, "crt_shutdown inside of a callback of a ref");
    pthread_mutex_lock(&joining);
    core = crti_enter_unlocked();
    if (!core || core->is_worker) {
        crt_status_t status = core
                                  ? crt_raise(CRT_ERR_INVALID, "a worker can't shut down")
                                  : crti_entry_status();

        if (core)
            crti_leave_unlocked(core);
        pthread_mutex_unlock(&joining);
        return status;
    }
    crti_leave_unlocked(core);
    crti_unpublish(core);
    crti_net_lock(core->net);
    crti_core_break(core, CRT_ERR_CLOSED, CRTI_SHUT_DOWN);
    crti_node_link_stop(core);
    crti_net_unlock(core->net);
    crti_net_free(core->net);
    core->net = NULL;
    crti_core_orphan(core);
    crti_left();
    crti_callbacks_end(CRTI_TAKE(core->waits->callbacks));
    free_core(core, exit_status);
    pthread_mutex_unlock(&joining);
    return CRT_OK;
}

crt_status_t crt_shutdown(void)
{
    return crti_shutdown(NULL);
}

/* ------------------------------------------------------------------ where we are */

const char *crt_node_id(void)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    const char *id = core ? core->node_hex : "";

    if (core)
        crti_leave(core);
    return id;
}

const char *crt_job_id(void)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    const char *id = core ? core->job_hex : "";

    if (core)
        crti_leave(core);
    return id;
}

const char *crt_gpu_ids(void)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    const char *gpus = core && core->gpus ? core->gpus : "";

    if (core)
        crti_leave(core);
    return gpus;
}
