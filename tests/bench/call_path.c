/* SPDX-License-Identifier: Apache-2.0 */
/* What the call path of net costs beside a bare ZeroMQ echo over the same transport.
 *
 *     call_path [--transport ipc|curve] [--rounds N] [--calls N] [--idle N] [--free] [--json]
 *               [--busy N]
 *
 * Two servers (bare ROUTER, net) and one client. Rounds are interleaved: bare, ours, bare,
 * ours, ... Client on one core, server on another; --free pins nothing; --busy:
 * beside so many programs that only compute, one on each core in turn. Rows:
 *     sync        one call after the other, 8 bytes
 *     after_idle  first call after 100 ms without one
 *     async       1000 calls sent, 1000 answers received
 * Printed: median and spread (quartiles) of both, the ratio of the medians, the median of the
 * ratios of neighbouring rounds, processor time of client and server together per call. Last
 * line: processor time of an idle server in one second.
 *
 * The server of net works as a worker does: the handler queues a copy of the record, the main
 * thread takes it after the wait and sends the answer.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/net/net.h"

#include <zmq.h>

#define BATCH      1000
#define RECORD     8
#define ROUNDS_MAX 1000
#define BUSY_MAX   64
#define CHECK(x)                                                                         \
    do {                                                                                 \
        if (!(x)) {                                                                      \
            fprintf(stderr, "%s:%d: %s failed: %s %s\n", __FILE__, __LINE__, #x,         \
                    crt_error_detail(), zmq_strerror(errno));                            \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

static struct {
    bool curve, pinned, json;
    int rounds, calls, idle, busy;
} options = {.pinned = true, .rounds = 20, .calls = 2000, .idle = 50};

static char dir[64];
static const unsigned char key[32] = "not a secret: only for the bench";
static char server_public[41], server_secret[41], client_public[41], client_secret[41];

static void pin(int core)
{
    cpu_set_t set;

    if (!options.pinned)
        return;
    CPU_ZERO(&set);
    CPU_SET(core % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* ---------------------------------------------------------------- bare echo */

static void *bare_socket(void *context, int type)
{
    void *s = zmq_socket(context, type);
    int zero = 0, one = 1;

    CHECK(s);
    zmq_setsockopt(s, ZMQ_SNDHWM, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_RCVHWM, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    if (!options.curve)
        return s;
    if (type == ZMQ_ROUTER) {
        zmq_setsockopt(s, ZMQ_CURVE_SERVER, &one, sizeof(one));
        zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, server_secret, 41);
    } else {
        zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, server_public, 41);
        zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, client_public, 41);
        zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, client_secret, 41);
    }
    return s;
}

static void bare_server(int ready)
{
    void *context = zmq_ctx_new(), *s = bare_socket(context, ZMQ_ROUTER);
    char endpoint[128] = {0};
    size_t size = sizeof(endpoint);
    zmq_msg_t id, body;

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/bare", dir);
    CHECK(zmq_bind(s, options.curve ? "tcp://127.0.0.1:*" : endpoint) == 0);
    zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, endpoint, &size);
    CHECK(write(ready, endpoint, sizeof(endpoint)) > 0);
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    for (;;) {
        CHECK(zmq_msg_recv(&id, s, 0) >= 0);
        CHECK(zmq_msg_recv(&body, s, 0) >= 0);
        CHECK(zmq_msg_send(&id, s, ZMQ_SNDMORE) >= 0);
        CHECK(zmq_msg_send(&body, s, 0) >= 0);
    }
}

static void *bare;

static void bare_calls(int count)
{
    char data[RECORD] = {0};

    for (int i = 0; i < count; i++) {
        CHECK(zmq_send(bare, data, sizeof(data), 0) == sizeof(data));
        CHECK(zmq_recv(bare, data, sizeof(data), 0) == sizeof(data));
    }
}

static void bare_batch(int count)
{
    char data[RECORD] = {0};

    for (int done = 0; done < count; done += BATCH) {
        for (int i = 0; i < BATCH; i++)
            CHECK(zmq_send(bare, data, sizeof(data), 0) == sizeof(data));
        for (int i = 0; i < BATCH; i++)
            CHECK(zmq_recv(bare, data, sizeof(data), 0) == sizeof(data));
    }
}

/* ---------------------------------------------------------------- net */

typedef struct queued {
    crti_peer_t *peer;
    unsigned char data[RECORD];
} queued_t;

static crti_net_t *net;
static crti_peer_t *peer;
static queued_t queue[4 * BATCH];
static unsigned head, tail; /* of the queue */
static uint64_t answers, wanted;

static void on_call(void *user, crti_peer_t *from, const void *data, size_t size)
{
    queued_t *q = &queue[tail++ % (4 * BATCH)];

    q->peer = from;
    memcpy(q->data, data, RECORD);
}

static void on_answer(void *user, crti_peer_t *from, const void *data, size_t size)
{
    answers++;
}

static void on_lost(void *user, crti_peer_t *from, const crti_net_loss_t *loss)
{
    if (loss->status != CRT_ERR_CLOSED)
        fprintf(stderr, "call_path: %s\n", loss->detail);
}

static bool has_call(void *user)
{
    return head != tail;
}

static bool has_answers(void *user)
{
    return answers >= wanted;
}

static void make_net(crti_id_t node,
                     void (*on_record)(void *, crti_peer_t *, const void *, size_t))
{
    crti_net_config_t config = {.run_dir = dir,
                                .node = node,
                                .process = crti_id_random(),
                                .incarnation = 1,
                                .ip = options.curve ? "127.0.0.1" : NULL,
                                .cluster_key = key,
                                .handlers = {NULL, on_record, on_lost}};

    CHECK(crti_net_new(&config, &net) == CRT_OK);
    crti_net_lock(net);
}

static void net_server(int ready)
{
    make_net((crti_id_t){1, options.curve ? 2 : 1}, on_call);
    CHECK(write(ready, crti_net_address(net), sizeof(crti_address_t)) > 0);
    while (crti_net_wait(net, has_call, NULL, CRTI_NET_NO_DEADLINE) == CRT_OK) {
        queued_t *q = &queue[head++ % (4 * BATCH)];
        struct iovec part = {q->data, RECORD};

        crti_net_busy(net, true);
        crti_net_unlock(net); /* here the user's function runs */
        crti_net_lock(net);
        crti_net_busy(net, false);
        CHECK(crti_net_send(net, q->peer, &part, 1, 0, CRTI_NET_NO_DEADLINE, NULL) ==
              CRT_OK);
    }
}

static void net_send(void)
{
    char data[RECORD] = {0};
    struct iovec part = {data, sizeof(data)};

    CHECK(crti_net_send(net, peer, &part, 1, 0, CRTI_NET_NO_DEADLINE, NULL) == CRT_OK);
    wanted++;
}

static void net_calls(int count)
{
    for (int i = 0; i < count; i++) {
        net_send();
        CHECK(crti_net_wait(net, has_answers, NULL, CRTI_NET_NO_DEADLINE) == CRT_OK);
        crti_net_unlock(net);
        crti_net_lock(net);
    }
}

static void net_batch(int count)
{
    for (int done = 0; done < count; done += BATCH) {
        for (int i = 0; i < BATCH; i++)
            net_send();
        CHECK(crti_net_wait(net, has_answers, NULL, CRTI_NET_NO_DEADLINE) == CRT_OK);
    }
}

/* ---------------------------------------------------------------- measuring */

static pid_t pids[2];

static pid_t start_server(void (*run)(int), void *address, size_t size)
{
    int ready[2];
    pid_t pid;

    CHECK(pipe(ready) == 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(1);
        run(ready[1]);
        _exit(1);
    }
    close(ready[1]);
    CHECK(read(ready[0], address, size) == (ssize_t)size);
    close(ready[0]);
    return pid;
}

/* Programs that want the cores, too. */
static void start_busy(pid_t *busy)
{
    for (int i = 0; i < options.busy; i++) {
        fflush(NULL);
        busy[i] = fork();
        if (busy[i] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(i);
        for (volatile uint64_t n = 0;; n++) {
        }
    }
}

static uint64_t cpu_ns(pid_t pid)
{
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
    struct timespec t = {0};

    if (pid)
        clock_getcpuclockid(pid, &clock);
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * CRTI_S + (uint64_t)t.tv_nsec;
}

typedef struct sample {
    double us, cpu_us; /* per call */
} sample_t;

static sample_t measure(int which, void (*run)(int), int count)
{
    uint64_t cpu = cpu_ns(0) + cpu_ns(pids[which]), begin = crti_now_ns(), end;

    run(count);
    end = crti_now_ns();
    cpu = cpu_ns(0) + cpu_ns(pids[which]) - cpu;
    return (sample_t){(double)(end - begin) / 1e3 / count, (double)cpu / 1e3 / count};
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double quantile(const double *values, int count, double q)
{
    double sorted[ROUNDS_MAX];

    memcpy(sorted, values, (size_t)count * sizeof(*values));
    qsort(sorted, (size_t)count, sizeof(*sorted), by_value);
    return sorted[(int)(q * (count - 1) + 0.5)];
}

static void report(const char *row, sample_t samples[2][ROUNDS_MAX], int rounds)
{
    double us[2][ROUNDS_MAX], cpu[2][ROUNDS_MAX], ratio[ROUNDS_MAX];

    for (int r = 0; r < rounds; r++) {
        for (int w = 0; w < 2; w++) {
            us[w][r] = samples[w][r].us;
            cpu[w][r] = samples[w][r].cpu_us;
        }
        ratio[r] = us[1][r] / us[0][r];
    }
    if (options.json)
        printf("{\"row\":\"%s\",\"bare_us\":%.3f,\"net_us\":%.3f,\"ratio\":%.3f,"
               "\"round_ratio\":%.3f,\"bare_cpu_us\":%.3f,\"net_cpu_us\":%.3f}\n",
               row, quantile(us[0], rounds, 0.5), quantile(us[1], rounds, 0.5),
               quantile(us[1], rounds, 0.5) / quantile(us[0], rounds, 0.5),
               quantile(ratio, rounds, 0.5), quantile(cpu[0], rounds, 0.5),
               quantile(cpu[1], rounds, 0.5));
    else
        printf(
            "%-11s bare %7.3f us (%.3f-%.3f)  net %7.3f us (%.3f-%.3f)  time ratio %.3f "
            "(rounds %.3f)  cpu %.2f / %.2f us\n",
            row, quantile(us[0], rounds, 0.5), quantile(us[0], rounds, 0.25),
            quantile(us[0], rounds, 0.75), quantile(us[1], rounds, 0.5),
            quantile(us[1], rounds, 0.25), quantile(us[1], rounds, 0.75),
            quantile(us[1], rounds, 0.5) / quantile(us[0], rounds, 0.5),
            quantile(ratio, rounds, 0.5), quantile(cpu[0], rounds, 0.5),
            quantile(cpu[1], rounds, 0.5));
    fflush(stdout);
}

/* Outside of net's waits the lock is free, as in a user's program. */
static void pause_ms(int ms)
{
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};

    crti_net_unlock(net);
    nanosleep(&t, NULL);
    crti_net_lock(net);
}

static void run_row(const char *row, void (*bare_run)(int), void (*net_run)(int),
                    int count, int rounds, int idle_ms)
{
    static sample_t samples[2][ROUNDS_MAX];

    for (int r = 0; r < rounds; r++) {
        if (idle_ms)
            pause_ms(idle_ms);
        samples[0][r] = measure(0, bare_run, count);
        if (idle_ms)
            pause_ms(idle_ms);
        samples[1][r] = measure(1, net_run, count);
    }
    report(row, samples, rounds);
}

static void run_all(void)
{
    uint64_t cpu;

    bare_calls(500);
    net_calls(500);
    run_row("sync", bare_calls, net_calls, options.calls, options.rounds, 0);
    run_row("after_idle", bare_calls, net_calls, 1, options.idle, 100);
    run_row("async", bare_batch, net_batch, 20 * BATCH, options.rounds, 0);
    pause_ms(500);
    cpu = cpu_ns(pids[1]);
    pause_ms(1000);
    printf("idle server: %.3f ms of processor time in 1 s\n",
           (double)(cpu_ns(pids[1]) - cpu) / 1e6);
}

static void parse(int argc, char **argv)
{
    static const struct option longs[] = {{"transport", required_argument, NULL, 't'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"calls", required_argument, NULL, 'c'},
                                          {"idle", required_argument, NULL, 'i'},
                                          {"free", no_argument, NULL, 'f'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"busy", required_argument, NULL, 'b'},
                                          {0}};
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
        switch (c) {
        case 't': options.curve = strcmp(optarg, "curve") == 0; break;
        case 'r': options.rounds = atoi(optarg); break;
        case 'c': options.calls = atoi(optarg); break;
        case 'i': options.idle = atoi(optarg); break;
        case 'f': options.pinned = false; break;
        case 'j': options.json = true; break;
        case 'b': options.busy = atoi(optarg); break;
        default: exit(2);
        }
    }
    CHECK(options.rounds > 0 && options.rounds <= ROUNDS_MAX && options.idle > 0 &&
          options.idle <= ROUNDS_MAX && options.calls > 0 && options.busy >= 0 &&
          options.busy <= BUSY_MAX);
}

int main(int argc, char **argv)
{
    char endpoint[128], command[100];
    crti_address_t address;
    pid_t busy[BUSY_MAX];
    void *context;

    parse(argc, argv);
    snprintf(dir, sizeof(dir), "/tmp/crt-bench-XXXXXX");
    CHECK(mkdtemp(dir));
    zmq_curve_keypair(server_public, server_secret);
    zmq_curve_keypair(client_public, client_secret);
    pids[0] = start_server(bare_server, endpoint, sizeof(endpoint));
    pids[1] = start_server(net_server, &address, sizeof(address));
    start_busy(busy);
    pin(0);
    context = zmq_ctx_new();
    bare = bare_socket(context, ZMQ_DEALER);
    CHECK(zmq_connect(bare, endpoint) == 0);
    make_net((crti_id_t){1, 1}, on_answer);
    CHECK(crti_net_connect(net, &address, &peer) == CRT_OK);
    run_all();
    crti_peer_unref(peer);
    crti_net_unlock(net);
    crti_net_free(net);
    zmq_close(bare);
    zmq_ctx_term(context);
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    for (int i = 0; i < options.busy; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) == 0 ? 0 : 1;
}
