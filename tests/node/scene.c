/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_NS (20 * CRTI_S)

/* ---------------------------------------------------------------- what arrived */

void scene_keep(scene_t *s, int node, const crti_message_t *message)
{
    scene_message_t *m;

    if (s->quiet && message->kind != CRTI_MSG_ATTACHED)
        return;
    m = calloc(1, sizeof(*m));
    s->log = realloc(s->log, (size_t)(s->logged + 1) * sizeof(*s->log));
    assert_true(m && s->log);
    s->log[s->logged++] = m;
    m->node = node;
    assert_int_equal(
        crti_message_encode(message->kind, message->request, &message->error, &m->bytes),
        CRT_OK);
    assert_int_equal(crti_message_decode(m->bytes.data, m->bytes.size, &m->message),
                     CRT_OK);
}

static scene_message_t *find_new(scene_t *s, crti_message_kind_t kind)
{
    for (int i = 0; i < s->logged; i++)
        if (!s->log[i]->seen && s->log[i]->message.kind == kind)
            return s->log[i];
    return NULL;
}

void scene_turn(scene_t *s, uint64_t ms)
{
    assert_int_equal(crti_loop_turn(s->loop, crti_now_ns() + ms * CRTI_MS), CRT_OK);
}

bool scene_seen(scene_t *s, crti_message_kind_t kind)
{
    return find_new(s, kind) != NULL;
}

const crti_message_t *scene_wait(scene_t *s, crti_message_kind_t kind)
{
    uint64_t deadline = crti_now_ns() + WAIT_NS;
    scene_message_t *m;

    while ((m = find_new(s, kind)) == NULL) {
        if (crti_now_ns() > deadline) {
            for (int i = 0; i < s->logged; i++)
                print_message("  arrived: %s%s %.*s\n",
                              crti_message_name(s->log[i]->message.kind),
                              s->log[i]->seen ? " (seen)" : "",
                              s->log[i]->message.kind == CRTI_MSG_ERROR
                                  ? (int)s->log[i]->message.error.text.size
                                  : 0,
                              (const char *)s->log[i]->message.error.text.data);
            fail_msg("no %s arrived", crti_message_name(kind));
        }
        assert_int_equal(crti_loop_turn(s->loop, deadline), CRT_OK);
    }
    m->seen = true;
    return &m->message;
}

int scene_count(scene_t *s, crti_message_kind_t kind, uint64_t wait_ms, int count)
{
    uint64_t deadline = crti_now_ns() + wait_ms * CRTI_MS;
    int found = 0;
    scene_message_t *m;

    for (;;) {
        while (found < count && (m = find_new(s, kind)) != NULL) {
            m->seen = true;
            found++;
        }
        if (found == count || crti_now_ns() >= deadline)
            return found;
        crti_loop_turn(s->loop, deadline);
    }
}

/* ---------------------------------------------------------------- every message */

typedef struct mix {
    scene_t *s;
    uint64_t random;
} mix_t;

static uint64_t draw(mix_t *mix)
{
    mix->random = mix->random * 6364136223846793005ull + 1442695040888963407ull;
    return mix->random >> 33;
}

/* Ids that exist, or nearly. */
static crti_id_t some_id(mix_t *mix)
{
    scene_t *s = mix->s;

    switch (draw(mix) % 7) {
    case 0: return s->nodes[0].id;
    case 1: return s->drivers[0].process;
    case 2: return s->drivers[0].job;
    case 3: return (crti_id_t){4, draw(mix) % 4 + 1}; /* a lease */
    case 4: return (crti_id_t){6, draw(mix) % 3};     /* an actor */
    case 5: return (crti_id_t){0};
    default: return (crti_id_t){draw(mix), draw(mix)};
    }
}

static crti_span_t some_bytes(mix_t *mix)
{
    static const char bytes[64] = "job:0123456789abcdef\0\0\0\4text\1\0\0\0x";

    return crti_span(bytes, draw(mix) % sizeof(bytes));
}

static crti_resources_t some_resources(mix_t *mix)
{
    crti_resources_t r = {0};

    crti_resources_set(&r, "CPU", (int64_t)(draw(mix) % 3) * 5000);
    return r;
}

#define FILL_U64(name)    m->name = draw(mix) % 3 ? draw(mix) % 5 : draw(mix) << 31;
#define FILL_I64(name)    m->name = (int64_t)draw(mix) - ((int64_t)1 << 30);
#define FILL_F64(name)    m->name = (double)(draw(mix) % 4);
#define FILL_BOOL(name)   m->name = draw(mix) & 1;
#define FILL_ID(name)     m->name = some_id(mix);
#define FILL_OBJECT(name) m->name = (crti_object_id_t){some_id(mix), draw(mix) % 4};
#define FILL_STR(name)    m->name = crti_str(draw(mix) & 1 ? "name" : "");
#define FILL_BIN(name)    m->name = some_bytes(mix);
#define FILL_RES(name)    m->name = some_resources(mix);
#define FILL_ROOM(name)   FILL_RES(name)
#define FILL(type, name)  FILL_##type(name)
#define FILLER(NAME, name, number)                                                       \
    static void fill_##name(mix_t *mix, crti_msg_##name##_t *m)                          \
    {                                                                                    \
        CRTI_FIELDS_##NAME(FILL)                                                         \
    }
CRTI_MESSAGE_MAP(FILLER)

void scene_every_message(scene_t *s, unsigned seed,
                         void (*send)(void *user, crti_message_kind_t kind,
                                      uint64_t request, const void *body),
                         void *user)
{
    mix_t mix = {s, seed};
    crti_message_t m;

    draw(&mix);
#define SEND(NAME, name, number)                                                         \
    memset(&m, 0, sizeof(m));                                                            \
    fill_##name(&mix, &m.name);                                                          \
    send(user, CRTI_MSG_##NAME, draw(&mix) % 3 ? 0 : 7, &m.name);
    CRTI_MESSAGE_MAP(SEND)
#undef SEND
}

/* ---------------------------------------------------------------- nodes */

static void run_node(scene_t *s, scene_node_t *node, const char *const *options,
                     int ready, int lifeline)
{
    const char *argv[40] = {CRTI_TEST_NODE,
                            "--address",
                            s->address,
                            "--key-file",
                            s->key_file,
                            "--ready-fd",
                            "3",
                            "--lifeline-fd",
                            "4",
                            "--node-ip-address",
                            "127.0.0.1",
                            "--object-store-memory",
                            "67108864"};
    int count = 13, log;

    for (; options && *options; options++)
        argv[count++] = *options;
    setenv("CRT_RUN_DIR", s->dir, 1);
    setenv("CRT_STATE_DIR", s->dir, 1);
    setenv("CRT_LOG", "debug", 1);
    log = open(node->stderr_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (s->file_limit)
        setrlimit(RLIMIT_NOFILE,
                  &(struct rlimit){(rlim_t)s->file_limit, (rlim_t)s->file_limit});
    ready = fcntl(ready, F_DUPFD_CLOEXEC, 10); /* out of the way of 3 and 4 */
    lifeline = fcntl(lifeline, F_DUPFD_CLOEXEC, 10);
    if (log < 0 || dup2(log, 2) < 0 || dup2(ready, 3) < 0 || dup2(lifeline, 4) < 0)
        _exit(99);
    execv(CRTI_TEST_NODE, (char *const *)(uintptr_t)argv);
    _exit(98);
}

/* Starts a daemon and reads its line while the head goes on in the loop. */
static void launch(scene_t *s, scene_node_t *node, const char *const *options, char *line,
                   size_t size)
{
    int ready[2], lifeline[2];
    uint64_t deadline = crti_now_ns() + WAIT_NS;
    size_t used = 0;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(lifeline, O_CLOEXEC), 0);
    node->scene = s;
    snprintf(node->stderr_path, sizeof(node->stderr_path), "%s/node%d.stderr", s->dir,
             node->number);
    node->pid = fork();
    if (node->pid == 0)
        run_node(s, node, options, ready[1], lifeline[0]);
    close(ready[1]);
    close(lifeline[0]);
    node->lifeline = lifeline[1];
    fcntl(ready[0], F_SETFL, O_NONBLOCK);
    for (;;) {
        ssize_t got = read(ready[0], line + used, size - 1 - used);

        assert_true(crti_now_ns() < deadline);
        if (got == 0)
            break;
        if (got > 0)
            used += (size_t)got;
        else
            scene_turn(s, 2);
    }
    line[used] = '\0';
    close(ready[0]);
}

void scene_start_node(scene_t *s, int n, const char *const *options)
{
    scene_node_t *node = &s->nodes[n];
    char line[400];

    *node = (scene_node_t){.number = n};
    launch(s, node, options, line, sizeof(line));
    if (sscanf(line, "ready node %32s run_dir %199s", node->hex, node->run_dir) != 2)
        fail_msg("crt-node said: %s", line);
    assert_true(crti_id_parse(node->hex, &node->id));
}

void scene_start_fails(scene_t *s, const char *const *options, char *line, size_t size)
{
    scene_node_t node = {.number = 9};
    int status;

    launch(s, &node, options, line, size);
    assert_int_equal(waitpid(node.pid, &status, 0), node.pid);
    close(node.lifeline);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

bool scene_is_alive(pid_t pid)
{
    char path[64], line[256] = "", *state;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    state = strrchr(line, ')');
    return state && state[2] != 'Z' && state[2] != 'X';
}

void scene_wait_gone(scene_t *s, pid_t pid)
{
    uint64_t deadline = crti_now_ns() + WAIT_NS;

    while (scene_is_alive(pid)) {
        assert_true(crti_now_ns() < deadline);
        scene_turn(s, 2);
    }
}

int scene_processes(scene_t *s, int n)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    char wanted[256];
    int count = 0;

    snprintf(wanted, sizeof(wanted), "CRT_NODE_DIR=%s", s->nodes[n].run_dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[300], *text;
        FILE *file;
        size_t size;

        if (atoi(entry->d_name) <= 0 || !scene_is_alive(atoi(entry->d_name)))
            continue;
        snprintf(path, sizeof(path), "/proc/%s/environ", entry->d_name);
        file = fopen(path, "re");
        if (file == NULL)
            continue;
        text = calloc(1, 1 << 20);
        size = fread(text, 1, (1 << 20) - 1, file);
        fclose(file);
        count += memmem(text, size, wanted, strlen(wanted)) != NULL;
        free(text);
    }
    closedir(dir);
    return count;
}

static void show_stderr(const scene_node_t *node)
{
    char line[500], path[300];

    snprintf(path, sizeof(path), "%s/node-%.8s/node.log", node->scene->dir, node->hex);
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(i ? path : node->stderr_path, "re");

        while (file && fgets(line, sizeof(line), file))
            print_message("  node: %s", line);
        if (file)
            fclose(file);
    }
}

int scene_stop_node(scene_t *s, int n, int signal_number)
{
    scene_node_t *node = &s->nodes[n];
    uint64_t deadline = crti_now_ns() + WAIT_NS;
    int status = 0;

    kill(node->pid, signal_number);
    while (waitpid(node->pid, &status, WNOHANG) == 0) {
        if (crti_now_ns() > deadline) {
            show_stderr(node);
            fail_msg("node %d does not end", n);
        }
        scene_turn(s, 2);
    }
    node->pid = 0;
    close(node->lifeline);
    if (signal_number == SIGKILL)
        node->registrations = 0; /* its directory stays, of course */
    if (signal_number != SIGKILL && status != 0)
        show_stderr(node);
    return status;
}

/* ---------------------------------------------------------------- drivers */

static void on_driver_message(void *user, crti_channel_t *channel,
                              const crti_message_t *message, int *fds, int fd_count)
{
    scene_driver_t *d = user;

    scene_keep(d->scene, d->node, message);
    if (message->kind == CRTI_MSG_ATTACHED) {
        assert_int_equal(fd_count, 2);
        for (int i = 0; i < 2; i++)
            d->fds[i] = crti_take_fd(&fds[i]);
        d->job = message->attached.job;
        d->slot = (unsigned)message->attached.slot;
    }
}

static void on_driver_closed(void *user, crti_channel_t *channel, crt_status_t status,
                             const char *detail)
{
    ((scene_driver_t *)user)->closed = true;
}

char *scene_read_program(size_t *size_out)
{
    FILE *file = fopen("/proc/self/exe", "re");
    struct stat st;
    char *bytes;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    *size_out = (size_t)st.st_size;
    bytes = malloc(*size_out);
    assert_int_equal(fread(bytes, 1, *size_out, file), *size_out);
    fclose(file);
    return bytes;
}

void scene_sha(const void *bytes, size_t size, char text[65])
{
    unsigned char digest[32];

    crypto_hash_sha256(digest, bytes, size);
    sodium_bin2hex(text, 65, digest, sizeof(digest));
}

bool program_is_meant(void)
{
    return getenv("CRT_ZYGOTE_FD") || getenv("CRT_WORKER");
}

void scene_attach(scene_t *s, int number, int n)
{
    scene_driver_t *d = &s->drivers[number];
    crti_channel_handlers_t handlers = {d, on_driver_message, on_driver_closed, NULL};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t environment = {0};
    char sha[65], path[300], self[PATH_MAX], *bytes;
    size_t size;
    crti_msg_attach_t attach = {.protocol = CRTI_PROTOCOL_VERSION,
                                .role = CRTI_ROLE_DRIVER,
                                .incarnation = 1,
                                .pid = getpid(),
                                .directory = crti_str("/"),
                                .entrypoint = crti_str("program"),
                                .log_to_driver = true};

    *d = (scene_driver_t){.scene = s, .node = n, .fds = {-1, -1}};
    d->process = attach.process = crti_id_of_node(s->nodes[n].id);
    assert_non_null(realpath("/proc/self/exe", self));
    attach.program = crti_str(self);
    bytes = scene_read_program(&size);
    scene_sha(bytes, size, sha);
    free(bytes);
    attach.sha = crti_str(sha);
    crti_list_pack(&argv, self, strlen(self));
    crti_list_pack(&argv, s->mode, strlen(s->mode));
    crti_list_pack(&environment, "ASAN_OPTIONS=detect_leaks=0", 27);
    attach.argv = crti_span(argv.data, argv.size);
    attach.environment = crti_span(environment.data, environment.size);
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[n].run_dir);
    assert_int_equal(
        crti_channel_connect(path, crti_now_ns() + CRTI_S, &handlers, &d->channel),
        CRT_OK);
    assert_int_equal(crti_channel_attach(d->channel, s->loop), CRT_OK);
    assert_int_equal(crti_channel_send(d->channel, CRTI_MSG_ATTACH, 1, &attach), CRT_OK);
    scene_wait(s, CRTI_MSG_ATTACHED);
}

void scene_detach(scene_t *s, int number)
{
    scene_driver_t *d = &s->drivers[number];

    if (d->channel && !d->dies)
        crti_channel_send(d->channel, CRTI_MSG_SHUTDOWN, 0, NULL);
    crti_channel_free(d->channel);
    for (int i = 0; i < 2 && d->channel; i++)
        close(d->fds[i]);
    d->channel = NULL;
}

crti_id_t scene_lease(scene_t *s, int number, double cpus)
{
    scene_driver_t *d = &s->drivers[number];
    crti_msg_lease_request_t ask = {.lease = {4, ++s->lease_number},
                                    .job = d->job,
                                    .owner = d->process,
                                    .owner_node = s->nodes[d->node].id,
                                    .function = crti_str("work")};

    if (!crti_id_is_zero(s->foreign_owner)) {
        ask.owner = s->foreign_owner;
        ask.owner_node = (crti_id_t){8, 8};
    }
    crti_resources_set(&ask.resources, "CPU", (int64_t)(cpus * CRTI_RESOURCE_ONE));
    assert_int_equal(crti_channel_send(d->channel, CRTI_MSG_LEASE_REQUEST,
                                       100 + s->lease_number, &ask),
                     CRT_OK);
    return ask.lease;
}

pid_t scene_pid(const crti_msg_lease_granted_t *granted)
{
    char text[64];
    int pid = 0;

    crti_text(granted->ipc, text, sizeof(text));
    assert_int_equal(sscanf(text, "pid:%d", &pid), 1);
    return pid;
}

/* ---------------------------------------------------------------- begin and end */

void scene_begin(scene_t *s)
{
    *s = (scene_t){.mode = "fork", .headless_ms = 60000};
    strcpy(s->dir, "/tmp/crt-node-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->key_file, sizeof(s->key_file), "%s/key", s->dir);
    assert_int_equal(crti_key_create(s->key_file, &s->key), CRT_OK);
    assert_int_equal(crti_loop_new(&s->loop), CRT_OK);
    assert_int_equal(crti_stream_context_new(&s->key, true, &s->context), CRT_OK);
    scene_head_up(s);
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *walk)
{
    remove(path);
    return 0;
}

void scene_end(scene_t *s)
{
    for (int i = 0; i < 4; i++)
        scene_detach(s, i);
    for (int i = 0; i < SCENE_NODES; i++) {
        scene_node_t *node = &s->nodes[i];

        if (node->pid)
            assert_int_equal(scene_stop_node(s, i, SIGTERM), 0);
        if (node->hex[0]) {
            assert_int_equal(scene_processes(s, i), 0);
            if (node->registrations)
                assert_int_equal(access(node->run_dir, F_OK) == 0 ? EEXIST : 0, 0);
        }
    }
    scene_head_down(s);
    crti_stream_context_free(s->context);
    crti_loop_free(s->loop);
    for (int i = 0; i < s->logged; i++) {
        crti_buffer_fini(&s->log[i]->bytes);
        free(s->log[i]);
    }
    free(s->log);
    nftw(s->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
