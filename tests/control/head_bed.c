/* SPDX-License-Identifier: Apache-2.0 */
/* A real head and nodes that are the test itself. See head_bed.h. */
#include "tests/control/head_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/rundir.h"
#include "tests/net/loop_until.h"

const char *head_program;

/* ---------------------------------------------------------------- the head */

head_bed_t *head_bed_new(void)
{
    head_bed_t *bed = calloc(1, sizeof(*bed));
    char path[64];

    assert_non_null(bed);
    strcpy(bed->folder, "/tmp/crt-head-XXXXXX");
    assert_non_null(mkdtemp(bed->folder));
    snprintf(path, sizeof(path), "%s/state", bed->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    bed->lifeline = -1;
    assert_int_equal(crti_loop_new(&bed->loop), CRT_OK);
    return bed;
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *where)
{
    return remove(path);
}

void head_bed_free(head_bed_t *bed)
{
    if (bed->pid)
        head_kill(bed);
    crti_stream_context_free(bed->context);
    crti_loop_free(bed->loop);
    nftw(bed->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(bed);
}

int head_set_up(void **state)
{
    *state = head_bed_new();
    return 0;
}

int head_tear_down(void **state)
{
    head_bed_free(*state);
    return 0;
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

/* In the child: the state directory becomes a file system of its own, seen by nobody else. */
static void mount_state(const head_bed_t *bed)
{
    bool is_root = geteuid() == 0;
    char options[64], path[64], map[64];

    snprintf(path, sizeof(path), "%s/state", bed->folder);
    snprintf(options, sizeof(options), "size=%zu,nr_inodes=%u,mode=0700",
             bed->tmpfs_bytes, bed->tmpfs_files);
    snprintf(map, sizeof(map), "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    if (unshare(is_root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0)
        _exit(98);
    if (!is_root) {
        write_text("/proc/self/setgroups", "deny");
        write_text("/proc/self/uid_map", map);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", path, "tmpfs", 0, options) != 0)
        _exit(98);
}

static void run_head(const head_bed_t *bed, const char *port, const char *const *extra,
                     int ready, int lifeline)
{
    const char *argv[32] = {"crt-head", "--port",        port, "--ready-fd",
                            "3",        "--lifeline-fd", "4"};
    int count = 7;
    char path[64];

    for (; extra && *extra; extra++)
        argv[count++] = *extra;
    snprintf(path, sizeof(path), "%s/run", bed->folder);
    setenv("CRT_RUN_DIR", path, 1);
    snprintf(path, sizeof(path), "%s/state", bed->folder);
    setenv("CRT_STATE_DIR", path, 1);
    if (bed->path)
        setenv("PATH", bed->path, 1);
    if (bed->tmpfs_bytes)
        mount_state(bed);
    ready = fcntl(ready, F_DUPFD, 10);
    lifeline = fcntl(lifeline, F_DUPFD, 10);
    dup2(ready, 3);
    dup2(lifeline, 4);
    close(ready);
    close(lifeline);
    execv(head_program, (char *const *)(uintptr_t)argv);
    dprintf(3, "%s cannot be run (%s): give crt-head's path as the first argument\n",
            head_program, strerror(errno));
    _exit(97);
}

static bool read_line(head_bed_t *bed, int fd)
{
    uint64_t deadline = crti_now_ns() + HEAD_PATIENCE;
    size_t used = 0;

    for (;;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (crti_now_ns() > deadline || used == sizeof(bed->line) - 1)
            break;
        if (poll(&waiting, 1, 100) <= 0)
            continue;
        n = read(fd, bed->line + used, sizeof(bed->line) - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    bed->line[used] = '\0';
    bed->line[strcspn(bed->line, "\n")] = '\0';
    return strncmp(bed->line, "ready ", 6) == 0;
}

static void take_value(const head_bed_t *bed, const char *key, char *value, size_t size)
{
    char wanted[32];
    const char *at;

    snprintf(wanted, sizeof(wanted), " %s ", key);
    at = strstr(bed->line, wanted);
    assert_non_null(at);
    at += strlen(wanted);
    snprintf(value, size, "%.*s", (int)strcspn(at, " "), at);
}

void head_take_key(head_bed_t *bed)
{
    char path[320];
    crti_key_t key;

    /* Its own view of the files: the state directory may be in another mount namespace. */
    snprintf(path, sizeof(path), "/proc/%d/root%s", (int)bed->pid, bed->key_file);
    assert_int_equal(crti_key_load(path, &key), CRT_OK);
    crti_stream_context_free(bed->context);
    assert_int_equal(crti_stream_context_new(&key, true, &bed->context), CRT_OK);
}

bool head_start(head_bed_t *bed, const char *port, const char *const *extra)
{
    static const char *const none[] = {"--no-dashboard", NULL};
    int ready[2], lifeline[2];
    bool serves;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(lifeline, O_CLOEXEC), 0);
    bed->pid = fork();
    assert_true(bed->pid >= 0);
    if (bed->pid == 0)
        run_head(bed, port, extra ? extra : none, ready[1], lifeline[0]);
    close(ready[1]);
    close(lifeline[0]);
    bed->lifeline = lifeline[1];
    serves = read_line(bed, ready[0]);
    close(ready[0]);
    if (!serves) {
        waitpid(bed->pid, NULL, 0);
        bed->pid = 0;
        close(bed->lifeline);
        bed->lifeline = -1;
        return false;
    }
    take_value(bed, "address", bed->address, sizeof(bed->address));
    take_value(bed, "key_file", bed->key_file, sizeof(bed->key_file));
    take_value(bed, "head_dir", bed->head_dir, sizeof(bed->head_dir));
    head_take_key(bed);
    return true;
}

static int reap(head_bed_t *bed)
{
    int status = 0;

    assert_int_equal(waitpid(bed->pid, &status, 0), bed->pid);
    bed->pid = 0;
    if (bed->lifeline >= 0)
        close(bed->lifeline);
    bed->lifeline = -1;
    return status;
}

void head_kill(head_bed_t *bed)
{
    kill(bed->pid, SIGKILL);
    reap(bed);
}

int head_stop(head_bed_t *bed)
{
    kill(bed->pid, SIGTERM);
    return reap(bed);
}

pid_t head_redis_pid(const head_bed_t *bed)
{
    CRTI_AUTO(free) char *text = NULL;
    char path[300];

    snprintf(path, sizeof(path), "%s/head.info", bed->head_dir);
    assert_int_equal(crti_info_read(path, &text), CRT_OK);
    return (pid_t)crti_info_int(text, "redis_pid");
}

const char *head_port(const head_bed_t *bed)
{
    return strrchr(bed->address, ':') + 1;
}

/* ---------------------------------------------------------------- nodes */

static void on_open(void *user, crti_stream_t *stream)
{
    ((fake_node_t *)user)->opened = true;
}

static void answer_start(fake_node_t *node, const crti_message_t *m)
{
    crti_msg_actor_started_t started = {
        .actor = m->actor_start.actor,
        .actor_incarnation = m->actor_start.actor_incarnation,
        .process = an_id(m->actor_start.actor.low + 1000000),
        .incarnation = 1,
        .node = node->id,
        .ipc = crti_str("ipc:///p"),
        .tcp = crti_str("tcp://127.0.0.1:1"),
    };

    crti_stream_send(node->stream, CRTI_MSG_ACTOR_STARTED, m->request, &started);
}

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    fake_node_t *node = user;

    if (m->kind == CRTI_MSG_ACTOR_START && node->start_actors)
        answer_start(node, m);
    node->errors += m->kind == CRTI_MSG_ERROR;
    if (m->request && m->kind != CRTI_MSG_ACTOR_START && m->kind != CRTI_MSG_ACTOR_STOP) {
        node->answered++;
        if (node->acknowledged && m->kind != CRTI_MSG_ERROR)
            node->acknowledged[m->request] = 1;
    }
    if (node->count_only || node->count == NODE_MESSAGES)
        return;
    if (crti_message_encode(m->kind, m->request, &m->error,
                            &node->received[node->count++]) != CRT_OK)
        abort();
}

static void on_closed(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text)
{
    fake_node_t *node = user;

    node->closed = true;
    node->status = status;
    snprintf(node->text, sizeof(node->text), "%s", text);
}

fake_node_t *node_new(head_bed_t *bed, uint64_t id)
{
    fake_node_t *node = calloc(1, sizeof(*node));

    assert_non_null(node);
    node->bed = bed;
    node->id = an_id(id);
    node->incarnation = 1;
    node->start_actors = true;
    node->last_request = 100;
    return node;
}

static bool is_settled(void *user)
{
    const fake_node_t *node = user;

    return node->opened || node->closed;
}

void node_connect(fake_node_t *node)
{
    crti_stream_handlers_t handlers = {.user = node,
                                       .on_open = on_open,
                                       .on_message = on_message,
                                       .on_closed = on_closed};

    node_close(node);
    assert_int_equal(crti_stream_connect(node->bed->loop, node->bed->context,
                                         node->bed->address, 5000, &handlers,
                                         &node->stream),
                     CRT_OK);
    assert_true(head_until(node->bed, is_settled, node));
}

void node_join(fake_node_t *node)
{
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION,
                                  .version = crti_str("test"),
                                  .node = node->id,
                                  .incarnation = node->incarnation,
                                  .ip = crti_str("127.0.0.1"),
                                  .hostname = crti_str("host"),
                                  .endpoint = crti_str("127.0.0.1:1"),
                                  .pid = getpid(),
                                  .is_head_host = true,
                                  .jobs = node->jobs};

    crti_resources_set(&m.resources, "CPU", 4 * CRTI_RESOURCE_ONE);
    m.available = m.resources;
    node->count_only = false;
    node_connect(node);
    assert_true(node->opened);
    node_ask(node, CRTI_MSG_NODE_REGISTER, &m);
    node->registered = true;
}

static void send_beat(void *user)
{
    static const crti_msg_heartbeat_t heartbeat = {0};
    fake_node_t *node = user;

    crti_stream_send(node->stream, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    crti_loop_start(node->bed->loop, &node->beat, crti_now_ns() + CRTI_S);
}

void node_keep_alive(fake_node_t *node)
{
    node->beat = (crti_timer_t){.on_expired = send_beat, .user = node};
    send_beat(node);
}

void node_close(fake_node_t *node)
{
    crti_loop_cancel(node->bed->loop, &node->beat);
    crti_stream_free(node->stream);
    node->stream = NULL;
    node->opened = node->closed = node->registered = false;
}

void node_free(fake_node_t *node)
{
    node_close(node);
    for (size_t i = 0; i < node->count; i++)
        crti_buffer_fini(&node->received[i]);
    free(node->acknowledged);
    free(node);
}

uint64_t node_send(fake_node_t *node, crti_message_kind_t kind, const void *body)
{
    assert_int_equal(crti_stream_send(node->stream, kind, ++node->last_request, body),
                     CRT_OK);
    return node->last_request;
}

static bool has_news(void *user)
{
    const fake_node_t *node = user;

    return node->seen < node->count || node->closed;
}

crti_message_t node_next(fake_node_t *node, crti_message_kind_t kind, uint64_t request)
{
    crti_message_t m;

    while (head_until(node->bed, has_news, node)) {
        const crti_buffer_t *bytes = &node->received[node->seen];

        if (node->seen == node->count)
            fail_msg("the head closed the link: %s", node->text);
        node->seen++;
        assert_int_equal(crti_message_decode(bytes->data, bytes->size, &m), CRT_OK);
        if ((kind == 0 || m.kind == kind) && (request == 0 || m.request == request))
            return m;
    }
    fail_msg("no %s came", crti_message_name(kind));
    abort();
}

crti_message_t node_ask(fake_node_t *node, crti_message_kind_t kind, const void *body)
{
    uint64_t request = node_send(node, kind, body);

    return node_next(node, CRTI_MSG_NONE, request);
}

void node_add_job(fake_node_t *node, uint64_t job)
{
    crti_msg_job_add_t m = {.job = an_id(job),
                            .driver = an_id(job + 1000),
                            .node = node->id,
                            .pid = getpid(),
                            .entrypoint = crti_str("./program"),
                            .program = crti_str("/bin/true"),
                            .sha = crti_str("ff")};

    assert_int_equal(node_ask(node, CRTI_MSG_JOB_ADD, &m).kind, CRTI_MSG_JOB_INFO);
}

crti_msg_actor_create_t node_actor(const fake_node_t *node, uint64_t actor, uint64_t job,
                                   const char *name)
{
    return (crti_msg_actor_create_t){.actor = an_id(actor),
                                     .job = an_id(job),
                                     .owner = an_id(job + 1000),
                                     .owner_node = node->id,
                                     .class_name = crti_str("Counter"),
                                     .name = crti_str(name),
                                     .creation = crti_str("arguments")};
}

/* ---------------------------------------------------------------- waiting and asking */

bool head_until(head_bed_t *bed, bool (*done)(void *user), void *user)
{
    return loop_until(bed->loop, done, user, crti_now_ns() + HEAD_PATIENCE) == CRT_OK;
}

static void ignore_message(void *user, crti_channel_t *channel,
                           const crti_message_t *message, int *fds, int fd_count)
{
}

static void ignore_closed(void *user, crti_channel_t *channel, crt_status_t status,
                          const char *detail)
{
}

crt_status_t admin_ask(head_bed_t *bed, crti_message_kind_t kind, const void *body,
                       crti_message_t *answer_out, crti_buffer_t *storage)
{
    static const crti_channel_handlers_t handlers = {.on_message = ignore_message,
                                                     .on_closed = ignore_closed};
    CRTI_AUTO(crti_channel_free) crti_channel_t *channel = NULL;
    uint64_t deadline = crti_now_ns() + HEAD_PATIENCE;
    char path[300];
    crt_status_t status;

    snprintf(path, sizeof(path), "%s/head.sock", bed->head_dir);
    status = crti_channel_connect(path, deadline, &handlers, &channel);
    if (status != CRT_OK)
        return status;
    return crti_channel_request(channel, kind, body, deadline, answer_out, storage, NULL,
                                NULL);
}

char *admin_state(head_bed_t *bed, const char *what, const char *filter)
{
    crti_msg_state_query_t m = {.what = crti_str(what), .filter = crti_str(filter)};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;

    assert_int_equal(admin_ask(bed, CRTI_MSG_STATE_QUERY, &m, &answer, &storage), CRT_OK);
    assert_int_equal(answer.kind, CRTI_MSG_STATE_ANSWER);
    return crti_str_dup(answer.state_answer.json);
}

void node_put(fake_node_t *node, const char *key, const char *value)
{
    crti_msg_kv_put_t m = {
        .key = crti_str(key), .value = crti_str(value), .overwrite = true};

    assert_int_equal(node_ask(node, CRTI_MSG_KV_PUT, &m).kind, CRTI_MSG_KV_VALUE);
}

void node_expect_stored(fake_node_t *node, const char *key, const char *value)
{
    crti_msg_kv_get_t m = {.key = crti_str(key)};
    crti_message_t answer = node_ask(node, CRTI_MSG_KV_GET, &m);

    assert_int_equal(answer.kind, CRTI_MSG_KV_VALUE);
    assert_int_equal(answer.kv_value.found, value != NULL);
    if (value)
        assert_true(crti_str_equal(answer.kv_value.value, value));
}

void node_make_actor(fake_node_t *node, uint64_t id, const char *name)
{
    crti_msg_actor_create_t m = node_actor(node, id, 5, name);

    assert_int_equal(node_ask(node, CRTI_MSG_ACTOR_CREATE, &m).kind, CRTI_MSG_DONE);
}
