/* SPDX-License-Identifier: Apache-2.0 */
/* crt-scale: small and many, simulated node daemons against one real head.
 *
 * Where it sits
 *     crt microbenchmark --scale -> [ control/scale.c ] -> a private crt-head
 * What it does
 *     Each node has a connection of its own, registers, sends heartbeats, and starts the actors
 *     that it is told to, as far as the head can see. What is measured: the time until all are
 *     registered, what the head costs then and at rest, actors placed per second, how soon a silent
 *     node and one whose connection broke are noticed while the head is loaded, whether any other
 *     node is taken for dead meanwhile, and the start after kill -9.
 * Threads
 *     One: all nodes are on one loop.
 * Failure
 *     One sentence on standard error, exit status 1; the head ends with this process, however that
 *     ends.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/core/client/private_cluster.h"
#include "runtime/net/key.h"
#include "runtime/net/loop.h"
#include "runtime/net/stream.h"

#define BEAT_NS     CRTI_S
#define RETRY_NS    (200 * CRTI_MS) /* as node daemons do */
#define SETTLE_NS   (2 * CRTI_S)    /* for what registration left to do */
#define REST_NS     (5 * CRTI_S)
#define PATIENCE_NS (300 * CRTI_S)
#define OPENING     32 /* handshakes at a time: all of this side's are one process's work */
#define WINDOW      128 /* of the load */
#define ENTRIES     100000
#define NODES_MAX   100000
#define ACTORS      10000
#define OTHER_FILES 64 /* of this process, beside the nodes' */
#define NODE_CPUS   64 /* an actor takes one */

static const crti_id_t job_id = {0, 5}, driver_id = {0, 1005};

typedef struct node {
    struct scene *scene;
    crti_stream_t *stream;
    crti_id_t id;
    uint64_t last_request, beats;
    bool is_registered, is_silent;
    bool is_refused; /* the head takes so many strangers at once: tried again */
} node_t;

typedef struct scene {
    crti_private_cluster_t cluster;
    crti_loop_t *loop;
    crti_stream_context_t *context;
    node_t *nodes;
    size_t count, registered, closed, started, answered, errors, died;
    size_t opening, connected; /* now, and so far, of those that were not refused */
    crti_timer_t beat, retry;
    uint64_t put, put_until; /* the load: values put, and how many there shall be */
    crti_id_t last_died;
    bool json, row_printed;
} scene_t;

/* ---------------------------------------------------------------- figures */

static double seconds_since(uint64_t begin)
{
    return (double)(crti_now_ns() - begin) / 1e9;
}

static void report(scene_t *s, const char *name, double value, const char *unit)
{
    if (s->json)
        printf("%s\n  {\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}",
               s->row_printed ? "," : "[", name, value, unit);
    else
        printf("%-40s %12.*f %s\n", name, value == floor(value) ? 0 : 2, value, unit);
    s->row_printed = true;
    fflush(stdout);
}

static _Noreturn void give_up(scene_t *s, const char *why)
{
    fprintf(stderr, "crt microbenchmark --scale: %s\n", why);
    crti_private_cluster_stop(&s->cluster);
    exit(1);
}

static void check(scene_t *s, crt_status_t status)
{
    if (status != CRT_OK)
        give_up(s, crt_error_detail());
}

/* CPU seconds of the head so far. */
static double head_cpu(const scene_t *s)
{
    struct timespec used = {0};
    clockid_t clock;

    if (clock_getcpuclockid(s->cluster.head.pid, &clock) == 0)
        clock_gettime(clock, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* Of the memory that the head holds. */
static double head_mebibytes(const scene_t *s)
{
    char path[64], line[128];
    long kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)s->cluster.head.pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "VmRSS: %ld", &kib);
    if (file)
        fclose(file);
    return (double)kib / 1024;
}

/* ---------------------------------------------------------------- a node */

static void say(node_t *node, crti_message_kind_t kind, const void *body)
{
    check(node->scene, crti_stream_send(node->stream, kind, ++node->last_request, body));
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
                                  .version = crti_str("simulated"),
                                  .node = node->id,
                                  .incarnation = 1,
                                  .ip = crti_str("127.0.0.1"),
                                  .hostname = crti_str("simulated"),
                                  .endpoint = crti_str("127.0.0.1:1"),
                                  .pid = getpid(),
                                  .is_head_host = true};

    node->stream = stream;
    crti_resources_set(&m.resources, "CPU", NODE_CPUS * CRTI_RESOURCE_ONE);
    m.available = m.resources;
    say(node, CRTI_MSG_NODE_REGISTER, &m);
}

static void start_actor(node_t *node, const crti_message_t *m)
{
    const crti_msg_actor_start_t *start = &m->actor_start;
    crti_msg_actor_started_t started = {.actor = start->actor,
                                        .actor_incarnation = start->actor_incarnation,
                                        .process = {1, start->actor.low},
                                        .incarnation = 1,
                                        .node = node->id,
                                        .ipc = crti_str("ipc:///p"),
                                        .tcp = crti_str("tcp://127.0.0.1:1")};

    node->scene->started++;
    check(node->scene,
          crti_stream_send(node->stream, CRTI_MSG_ACTOR_STARTED, m->request, &started));
}

static void on_error(node_t *node, const crti_message_t *m)
{
    char why[512];

    crti_text(m->error.text, why, sizeof(why));
    if (!node->is_registered)
        give_up(node->scene, why);
    node->scene->errors++;
}

static void connect_more(scene_t *s);

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    node_t *node = user;
    scene_t *s = node->scene;

    switch (m->kind) {
    case CRTI_MSG_NODE_REGISTERED:
        node->is_registered = true;
        s->registered++;
        s->opening--;
        connect_more(s);
        break;
    case CRTI_MSG_ACTOR_START: start_actor(node, m); break;
    case CRTI_MSG_NODE_DIED:
        if (node == &s->nodes[0]) {
            s->died++;
            s->last_died = m->node_died.node;
        }
        break;
    case CRTI_MSG_ERROR: on_error(node, m); break;
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
    if (!node->is_registered)
        node->scene->opening--;
}

static void connect_node(node_t *node)
{
    crti_stream_handlers_t handlers = {.user = node,
                                       .on_open = on_open,
                                       .on_message = on_message,
                                       .on_closed = on_closed};
    scene_t *s = node->scene;

    s->opening++;
    check(s, crti_stream_connect(s->loop, s->context, s->cluster.address, 30000,
                                 &handlers, &node->stream));
}

static void connect_more(scene_t *s)
{
    while (s->opening < OPENING && s->connected < s->count)
        connect_node(&s->nodes[s->connected++]);
}

/* ---------------------------------------------------------------- all of them */

static void on_beat(void *user)
{
    scene_t *s = user;
    crti_msg_heartbeat_t heartbeat = {.workers = 1};

    crti_resources_set(&heartbeat.available, "CPU", NODE_CPUS * CRTI_RESOURCE_ONE);
    for (size_t i = 0; i < s->count; i++) {
        heartbeat.sequence = ++s->nodes[i].beats;
        if (!s->nodes[i].is_silent && s->nodes[i].is_registered)
            check(s, crti_stream_send(s->nodes[i].stream, CRTI_MSG_HEARTBEAT, 0,
                                      &heartbeat));
    }
    crti_loop_start(s->loop, &s->beat, crti_now_ns() + BEAT_NS);
}

/* Turns until `*number` is at least `wanted`; gives the seconds. */
static double until(scene_t *s, const size_t *number, size_t wanted, const char *what)
{
    uint64_t begin = crti_now_ns();
    char why[128];

    while (*number < wanted) {
        if (crti_now_ns() > begin + PATIENCE_NS) {
            snprintf(why, sizeof(why), "%s: only %zu of %zu after 300 s", what, *number,
                     wanted);
            give_up(s, why);
        }
        crti_loop_turn(s->loop, crti_now_ns() + 10 * CRTI_MS);
    }
    return seconds_since(begin);
}

static void turn_for(scene_t *s, uint64_t ns)
{
    uint64_t end = crti_now_ns() + ns;

    while (crti_now_ns() < end)
        crti_loop_turn(s->loop, end);
}

static void on_retry(void *user)
{
    scene_t *s = user;

    for (size_t i = 0; i < s->count; i++) {
        node_t *node = &s->nodes[i];

        if (!node->is_refused || s->opening >= OPENING)
            continue;
        crti_stream_free(node->stream);
        node->is_refused = node->is_silent = false;
        connect_node(node);
    }
    connect_more(s);
    if (s->registered < s->count)
        crti_loop_start(s->loop, &s->retry, crti_now_ns() + RETRY_NS);
}

static void register_all(scene_t *s)
{
    uint64_t begin = crti_now_ns();
    double cpu = head_cpu(s);

    on_beat(s); /* those that are registered are heard of */
    on_retry(s);
    until(s, &s->registered, s->count, "nodes registered");
    report(s, "nodes", (double)s->count, "");
    report(s, "all_nodes_registered", seconds_since(begin), "s");
    report(s, "head_cpu_registering", head_cpu(s) - cpu, "s");
    report(s, "head_memory_with_nodes", head_mebibytes(s), "MiB");
}

static void rest(scene_t *s)
{
    uint64_t begin;
    double cpu;

    turn_for(s, SETTLE_NS);
    begin = crti_now_ns();
    cpu = head_cpu(s);
    turn_for(s, REST_NS);
    report(s, "head_cpu_at_rest", 100 * (head_cpu(s) - cpu) / seconds_since(begin),
           "% of a core");
    report(s, "links_lost_at_rest", (double)s->closed, "");
}

static void create_actor(scene_t *s, uint64_t number)
{
    crti_msg_actor_create_t m = {.actor = {2, number},
                                 .job = job_id,
                                 .owner = driver_id,
                                 .owner_node = s->nodes[0].id,
                                 .class_name = crti_str("Counter"),
                                 .creation = crti_str("arguments")};

    crti_resources_set(&m.resources, "CPU", CRTI_RESOURCE_ONE);
    say(&s->nodes[0], CRTI_MSG_ACTOR_CREATE, &m);
}

/* Each takes a CPU of its node. */
static void place_actors(scene_t *s, size_t actors)
{
    crti_msg_job_add_t job = {.job = job_id,
                              .driver = driver_id,
                              .node = s->nodes[0].id,
                              .pid = getpid(),
                              .entrypoint = crti_str("./program"),
                              .program = crti_str("/bin/true"),
                              .sha = crti_str("ff")};
    double cpu = head_cpu(s), seconds;

    say(&s->nodes[0], CRTI_MSG_JOB_ADD, &job);
    for (size_t i = 0; i < actors; i++)
        create_actor(s, i);
    seconds = until(s, &s->started, actors, "actors placed");
    report(s, "actors", (double)actors, "");
    report(s, "actors_placed", (double)actors / seconds, "1/s");
    report(s, "head_cpu_placing", head_cpu(s) - cpu, "s");
    report(s, "head_memory_with_actors", head_mebibytes(s), "MiB");
}

/* While values are put as fast as they go. */
static void notice(scene_t *s, const node_t *victim, const char *row)
{
    size_t before = s->died, answered = s->answered;
    double cpu = head_cpu(s), seconds = 0;

    do
        seconds += until(s, &s->died, ++before, row);
    while (!crti_id_equal(s->last_died, victim->id));
    report(s, row, seconds, "s");
    report(s, "durable_changes_beside", (double)(s->answered - answered) / seconds,
           "1/s");
    report(s, "head_cpu_beside", 100 * (head_cpu(s) - cpu) / seconds, "% of a core");
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
    notice(s, broken, "broken_link_noticed");
    silent->is_silent = true;
    notice(s, silent, "silent_node_noticed");
    s->put_until = s->put;
    report(s, "living_nodes_taken_for_dead", (double)s->died - 2, "");
    report(s, "errors", (double)s->errors, "");
}

static void fill(scene_t *s)
{
    size_t wanted = s->answered + ENTRIES;

    s->put = 0;
    s->put_until = ENTRIES;
    for (int i = 0; i < WINDOW; i++)
        put_next(s);
    until(s, &s->answered, wanted, "values put");
}

static void kill_head(scene_t *s)
{
    uint64_t begin = crti_now_ns();

    kill(s->cluster.head.pid, SIGKILL);
    crti_starter_await_end(s->cluster.head.pid, s->cluster.head.pidfd,
                           begin + 60 * CRTI_S);
    crti_private_daemon_forget(&s->cluster.head);
    check(s, crti_private_head_start(&s->cluster));
    report(s, "values", ENTRIES, "");
    report(s, "head_serves_again_after_kill", seconds_since(begin), "s");
}

/* ---------------------------------------------------------------- start and end */

static void raise_file_limit(scene_t *s)
{
    struct rlimit files;
    char why[160];

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (s->count + OTHER_FILES <= files.rlim_max)
        return;
    snprintf(why, sizeof(why),
             "%zu nodes need as many open files, the limit is %llu (ulimit -Hn)",
             s->count, (unsigned long long)files.rlim_max);
    give_up(s, why);
}

static void start(scene_t *s)
{
    crti_key_t key;

    raise_file_limit(s);
    check(s, crti_private_head_start(&s->cluster));
    check(s, crti_key_load(s->cluster.key_file, &key));
    check(s, crti_stream_context_new(&key, true, &s->context));
    check(s, crti_loop_new(&s->loop));
    s->nodes = calloc(s->count, sizeof(*s->nodes));
    if (!s->nodes)
        give_up(s, "out of memory");
    s->beat = (crti_timer_t){.on_expired = on_beat, .user = s};
    s->retry = (crti_timer_t){.on_expired = on_retry, .user = s};
    for (size_t i = 0; i < s->count; i++)
        s->nodes[i] = (node_t){.scene = s, .id = {(i + 1) << 16, 0}};
}

static void end(scene_t *s)
{
    for (size_t i = 0; i < s->count; i++)
        crti_stream_free(s->nodes[i].stream);
    crti_loop_cancel(s->loop, &s->beat);
    crti_loop_cancel(s->loop, &s->retry);
    free(s->nodes);
    crti_loop_free(s->loop);
    crti_stream_context_free(s->context);
    crti_private_cluster_stop(&s->cluster);
}

/* False: it was said why not. */
static bool take_number(const char *name, const char *text, size_t least, size_t most,
                        size_t *number_out)
{
    char *rest;

    errno = 0;
    *number_out = strtoull(text, &rest, 10);
    if (!errno && rest != text && !*rest && *number_out >= least && *number_out <= most)
        return true;
    fprintf(stderr, "crt microbenchmark: --%s takes %zu to %zu, not \"%s\"\n", name,
            least, most, text);
    return false;
}

/* Two nodes are lost later. */
static size_t room_for_actors(const scene_t *s)
{
    return NODE_CPUS * (s->count - 2);
}

static bool take_options(scene_t *s, int argc, char **argv, size_t *actors_out)
{
    static const struct option options[] = {{"nodes", required_argument, NULL, 'n'},
                                            {"actors", required_argument, NULL, 'a'},
                                            {"json", no_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    const char *nodes = "1000", *actors = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n': nodes = optarg; break;
        case 'a': actors = optarg; break;
        case 'j': s->json = true; break;
        default: return false;
        }
    }
    if (!take_number("nodes", nodes, 3, NODES_MAX, &s->count))
        return false;
    *actors_out = room_for_actors(s) < ACTORS ? room_for_actors(s) : ACTORS;
    return !actors || take_number("actors", actors, 1, room_for_actors(s), actors_out);
}

int main(int argc, char **argv)
{
    scene_t s = {.cluster = CRTI_PRIVATE_CLUSTER_NONE};
    size_t actors;

    if (!take_options(&s, argc, argv, &actors))
        return 2;
    signal(SIGPIPE, SIG_IGN);
    start(&s);
    register_all(&s);
    rest(&s);
    place_actors(&s, actors);
    lose_nodes(&s);
    fill(&s);
    kill_head(&s);
    if (s.json)
        printf("\n]\n");
    end(&s);
    return 0;
}
