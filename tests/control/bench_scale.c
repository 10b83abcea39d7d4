/* SPDX-License-Identifier: Apache-2.0 */
/* Small and many: simulated node daemons against one real head.
 *
 *     bench_control_scale CRT_HEAD [NODES] [ACTORS]
 *
 * Each node has a connection of its own, registers, sends heartbeats, and starts the actors that it is
 * told to, as far as the head can see. What is measured: the time until all are registered, what the
 * head costs at rest and in the first seconds, actors placed per second, how soon a silent node and
 * one whose connection broke are noticed while the head is loaded, whether any other node is taken
 * for dead meanwhile, and the start after kill -9 with 100,000 entries.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/control/head_bed.h"

#define BEAT_NS     CRTI_S
#define RETRY_NS    (200 * CRTI_MS) /* as node daemons do */
#define REST_NS     (10 * CRTI_S)
#define PATIENCE_NS (60 * CRTI_S)
#define WINDOW      128 /* of the load */
#define ENTRIES     100000
#define JOB         5

typedef struct node {
    struct scene *scene;
    crti_stream_t *stream;
    crti_id_t id;
    uint64_t last_request, beats;
    bool is_registered, is_silent;
    bool is_refused; /* the head takes so many strangers at once: tried again */
} node_t;

typedef struct scene {
    head_bed_t *bed;
    node_t *nodes;
    size_t count, registered, closed, started, answered, errors, died;
    crti_timer_t beat, retry;
    uint64_t put, put_until; /* the load: values put, and how many there shall be */
    crti_id_t last_died;
} scene_t;

static double seconds_since(uint64_t begin)
{
    return (double)(crti_now_ns() - begin) / 1e9;
}

/* CPU seconds of the head so far. */
static double head_cpu(const scene_t *s)
{
    char path[64];
    unsigned long user, kernel;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)s->bed->pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file,
                            "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u "
                            "%*u %lu %lu",
                            &user, &kernel),
                     2);
    fclose(file);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

/* Kilobytes of memory that the head holds. */
static long head_memory(const scene_t *s)
{
    char path[64], line[128];
    long kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)s->bed->pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "VmRSS: %ld", &kib);
    if (file)
        fclose(file);
    return kib;
}

/* ---------------------------------------------------------------- a node */

static void say(node_t *node, crti_message_kind_t kind, const void *body)
{
    assert_int_equal(crti_stream_send(node->stream, kind, ++node->last_request, body),
                     CRT_OK);
}

static void put_next(scene_t *s)
{
    char key[32];
    crti_msg_kv_put_t m = {.value = crti_str("0123456789abcdef0123456789abcdef"),
                           .overwrite = true};

    if (s->put >= s->put_until)
        return;
    snprintf(key, sizeof(key), "key-%llu", (unsigned long long)(s->put++ % ENTRIES));
    m.key = crti_str(key);
    say(&s->nodes[0], CRTI_MSG_KV_PUT, &m);
}

static void on_open(void *user, crti_stream_t *stream)
{
    node_t *node = user;
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION,
                                  .version = crti_str("test"),
                                  .node = node->id,
                                  .incarnation = 1,
                                  .ip = crti_str("127.0.0.1"),
                                  .hostname = crti_str("host"),
                                  .endpoint = crti_str("127.0.0.1:1"),
                                  .pid = getpid(),
                                  .is_head_host = true};

    node->stream = stream;
    crti_resources_set(&m.resources, "CPU", 64 * CRTI_RESOURCE_ONE);
    m.available = m.resources;
    say(node, CRTI_MSG_NODE_REGISTER, &m);
}

static void start_actor(node_t *node, const crti_message_t *m)
{
    crti_msg_actor_started_t started = {
        .actor = m->actor_start.actor,
        .actor_incarnation = m->actor_start.actor_incarnation,
        .process = an_id(m->actor_start.actor.low + 100000000),
        .incarnation = 1,
        .node = node->id,
        .ipc = crti_str("ipc:///p"),
        .tcp = crti_str("tcp://127.0.0.1:1")};

    node->scene->started++;
    crti_stream_send(node->stream, CRTI_MSG_ACTOR_STARTED, m->request, &started);
}

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    node_t *node = user;
    scene_t *s = node->scene;

    switch (m->kind) {
    case CRTI_MSG_NODE_REGISTERED:
        node->is_registered = true;
        s->registered++;
        break;
    case CRTI_MSG_ACTOR_START: start_actor(node, m); break;
    case CRTI_MSG_NODE_DIED:
        if (node == &s->nodes[0]) {
            s->died++;
            s->last_died = m->node_died.node;
        }
        break;
    case CRTI_MSG_ERROR: s->errors++; break;
    case CRTI_MSG_KV_VALUE:
    case CRTI_MSG_DONE:
    case CRTI_MSG_JOB_INFO:
        s->answered++;
        put_next(s);
        break;
    default: break;
    }
}

static void on_closed(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text)
{
    node_t *node = user;

    node->scene->closed += node->is_registered;
    node->is_silent = true;
    node->is_refused = !node->is_registered;
}

static void connect_node(node_t *node)
{
    crti_stream_handlers_t handlers = {.user = node,
                                       .on_open = on_open,
                                       .on_message = on_message,
                                       .on_closed = on_closed};
    head_bed_t *bed = node->scene->bed;

    assert_int_equal(crti_stream_connect(bed->loop, bed->context, bed->address, 30000,
                                         &handlers, &node->stream),
                     CRT_OK);
}

/* ---------------------------------------------------------------- all of them */

static void on_beat(void *user)
{
    scene_t *s = user;
    crti_msg_heartbeat_t heartbeat = {.workers = 1};

    crti_resources_set(&heartbeat.available, "CPU", 64 * CRTI_RESOURCE_ONE);
    for (size_t i = 0; i < s->count; i++) {
        heartbeat.sequence = ++s->nodes[i].beats;
        if (!s->nodes[i].is_silent)
            crti_stream_send(s->nodes[i].stream, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    }
    crti_loop_start(s->bed->loop, &s->beat, crti_now_ns() + BEAT_NS);
}

/* Turns until `*number` is at least `wanted`; gives the seconds. */
static double until(scene_t *s, const size_t *number, size_t wanted, const char *what)
{
    uint64_t begin = crti_now_ns();

    while (*number < wanted) {
        if (crti_now_ns() > begin + PATIENCE_NS) {
            printf("%s: only %zu of %zu after 60 s\n", what, *number, wanted);
            exit(1);
        }
        crti_loop_turn(s->bed->loop, crti_now_ns() + 10 * CRTI_MS);
    }
    return seconds_since(begin);
}

static void on_retry(void *user)
{
    scene_t *s = user;

    for (size_t i = 0; i < s->count; i++) {
        node_t *node = &s->nodes[i];

        if (!node->is_refused)
            continue;
        crti_stream_free(node->stream);
        node->is_refused = node->is_silent = false;
        connect_node(node);
    }
    if (s->registered < s->count)
        crti_loop_start(s->bed->loop, &s->retry, crti_now_ns() + RETRY_NS);
}

static void register_all(scene_t *s)
{
    uint64_t begin = crti_now_ns();
    double cpu = head_cpu(s);

    for (size_t i = 0; i < s->count; i++)
        connect_node(&s->nodes[i]);
    on_retry(s);
    until(s, &s->registered, s->count, "registration");
    printf("%zu nodes registered in %.2f s, head: %.2f s of CPU, %ld KiB\n", s->count,
           seconds_since(begin), head_cpu(s) - cpu, head_memory(s));
}

static void rest(scene_t *s)
{
    uint64_t begin = crti_now_ns();
    double cpu;

    on_beat(s);
    while (crti_now_ns() < begin + 2 * CRTI_S) /* what registration left to do */
        crti_loop_turn(s->bed->loop, crti_now_ns() + 10 * CRTI_MS);
    begin = crti_now_ns();
    cpu = head_cpu(s);
    while (crti_now_ns() < begin + REST_NS)
        crti_loop_turn(s->bed->loop, crti_now_ns() + 10 * CRTI_MS);
    printf("at rest, a heartbeat of each a second: %.1f %% of a core, %zu links lost\n",
           100 * (head_cpu(s) - cpu) / seconds_since(begin), s->closed);
}

static void place_actors(scene_t *s, size_t actors)
{
    crti_msg_job_add_t job = {.job = an_id(JOB),
                              .driver = an_id(JOB + 1000),
                              .node = s->nodes[0].id,
                              .pid = getpid(),
                              .entrypoint = crti_str("./program"),
                              .program = crti_str("/bin/true"),
                              .sha = crti_str("ff")};
    double cpu = head_cpu(s), seconds;

    say(&s->nodes[0], CRTI_MSG_JOB_ADD, &job);
    for (size_t i = 0; i < actors; i++) {
        crti_msg_actor_create_t m = {.actor = an_id(100000 + i),
                                     .job = an_id(JOB),
                                     .owner = an_id(JOB + 1000),
                                     .owner_node = s->nodes[0].id,
                                     .class_name = crti_str("Counter"),
                                     .creation = crti_str("arguments")};

        crti_resources_set(&m.resources, "CPU", CRTI_RESOURCE_ONE);
        say(&s->nodes[0], CRTI_MSG_ACTOR_CREATE, &m);
    }
    seconds = until(s, &s->started, actors, "actors");
    printf("%zu actors of a CPU each placed in %.2f s: %.0f/s, head: %.2f s of CPU, %ld "
           "KiB\n",
           actors, seconds, (double)actors / seconds, head_cpu(s) - cpu, head_memory(s));
}

/* While values are put as fast as they go. */
static void notice(scene_t *s, node_t *victim, const char *how)
{
    size_t before = s->died, answered = s->answered;
    double cpu = head_cpu(s), seconds;

    seconds = until(s, &s->died, before + 1, how);
    printf("%s noticed after %.2f s, beside %.0f durable changes/s, head: %.0f %% of a "
           "core%s\n",
           how, seconds, (double)(s->answered - answered) / seconds,
           100 * (head_cpu(s) - cpu) / seconds,
           crti_id_equal(s->last_died, victim->id) ? "" : " (ANOTHER NODE)");
}

static void lose_nodes(scene_t *s)
{
    node_t *broken = &s->nodes[s->count - 1], *silent = &s->nodes[s->count - 2];

    s->put_until = UINT64_MAX;
    for (int i = 0; i < WINDOW; i++)
        put_next(s);
    broken->is_silent = true;
    crti_stream_free(broken->stream);
    broken->stream = NULL;
    notice(s, broken, "a broken connection");
    silent->is_silent = true;
    notice(s, silent, "a silent node");
    s->put_until = s->put;
    printf("other nodes taken for dead: %zu; errors: %zu\n", s->died - 2, s->errors);
}

static void fill(scene_t *s)
{
    size_t wanted;

    s->put = 0;
    s->put_until = ENTRIES;
    wanted = s->answered + ENTRIES;
    for (int i = 0; i < WINDOW; i++)
        put_next(s);
    until(s, &s->answered, wanted, "entries");
}

int main(int argc, char **argv)
{
    struct rlimit files;
    scene_t s = {.bed = head_bed_new()};
    size_t actors = argc > 3 ? (size_t)atol(argv[3]) : 10000;
    uint64_t begin;

    head_program = argc > 1 ? argv[1] : "crt-head";
    s.count = argc > 2 ? (size_t)atol(argv[2]) : 1000;
    if (s.count < 3 || s.count > 100000) {
        printf("bench_control_scale: 3 to 100000 nodes\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (!head_start(s.bed, "0", NULL)) {
        printf("%s\n", s.bed->line);
        return 1;
    }
    getrlimit(RLIMIT_NOFILE, &files); /* ours; the head has what it was started with */
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    s.nodes = calloc(s.count, sizeof(*s.nodes));
    assert_non_null(s.nodes);
    s.beat = (crti_timer_t){.on_expired = on_beat, .user = &s};
    s.retry = (crti_timer_t){.on_expired = on_retry, .user = &s};
    for (size_t i = 0; i < s.count; i++)
        s.nodes[i] = (node_t){.scene = &s, .id = an_id(i + 1)};
    register_all(&s);
    rest(&s);
    place_actors(&s, actors);
    lose_nodes(&s);
    fill(&s);
    begin = crti_now_ns();
    head_kill(s.bed);
    if (!head_start(s.bed, head_port(s.bed), NULL))
        return 1;
    printf("kill -9 until it serves again, %d values and %zu actors: %.2f s\n", ENTRIES,
           actors, seconds_since(begin));
    for (size_t i = 0; i < s.count; i++)
        crti_stream_free(s.nodes[i].stream);
    crti_loop_cancel(s.bed->loop, &s.beat);
    crti_loop_cancel(s.bed->loop, &s.retry);
    free(s.nodes);
    head_bed_free(s.bed);
    return 0;
}
