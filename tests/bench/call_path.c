/* SPDX-License-Identifier: Apache-2.0 */
/* What the call path of net costs beside a bare ZeroMQ echo over the same transport.
 *
 *     call_path [--transport ipc|curve] [--rounds N] [--calls N] [--idle N] [--free | --one-core]
 *               [--busy N] [--pairs N] [--row NAME] [--json]
 *
 * Two servers (bare ROUTER, net) and one client. Rounds are interleaved: bare, ours, bare,
 * ours, ... Client on one core, server on another; --free pins nothing; --one-core: everything on
 * one; --busy: beside so many programs that only compute, one on each core in turn; --pairs: so
 * many clients with two servers each do the same at the same time; --row: that row alone. Rows:
 *     sync        one call after the other, 8 bytes
 *     after_idle  first call after 100 ms without one
 *     async       1000 calls sent, 1000 answers received
 * Printed: median and spread (quartiles) of both, the ratio of the medians, the median of the
 * ratios of neighbouring rounds, processor time of client and server together per call, and the
 * latency that 99 of 100 single calls stay below. Last line: processor time of an idle server in
 * one second.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bare_echo.h"
#include "call_path_net.h"
#include "options.h"
#include "runtime/base/clock.h"

#define ROUNDS_MAX 1000
#define BUSY_MAX   64
#define PAIRS_MAX  16
#define SINGLE     200 /* calls of a round that are timed one by one */
#define SINGLE_MAX ((size_t)ROUNDS_MAX * SINGLE)

typedef enum place { TWO_CORES, ONE_CORE, FREE } place_t;
typedef enum side { BARE, NET, SIDES } side_t;

static struct {
    bool curve, json;
    place_t place;
    int rounds, calls, idle, busy, pairs;
    const char *row; /* NULL: all */
} options = {.rounds = 20, .calls = 2000, .idle = 50, .pairs = 1};

typedef struct sample {
    double us, cpu_us; /* per call */
} sample_t;

/* What one client measured in one row. */
typedef struct figures {
    sample_t round[SIDES][ROUNDS_MAX];
    double single_us[SIDES][SINGLE_MAX];
    int rounds;
    size_t singles;
} figures_t;

/* Between all clients; the parent prints. */
static struct shared {
    pthread_barrier_t barrier;
    figures_t of[PAIRS_MAX];
} * shared;

static char dir[64];
static void *bare;          /* this client's socket */
static pid_t server[SIDES]; /* of this client */
static int pair;            /* its number */

static void pin(int core)
{
    cpu_set_t set;

    if (options.place == FREE)
        return;
    if (options.place == ONE_CORE)
        core = 0;
    CPU_ZERO(&set);
    CPU_SET(core % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* ---------------------------------------------------------------- servers */

static void serve_bare(int ready)
{
    echo_place_t place;
    char endpoint[100];
    void *socket;

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/bare%d", dir, pair);
    socket = echo_bind(zmq_ctx_new(), options.curve ? "tcp://127.0.0.1:*" : endpoint,
                       options.curve, &place);
    ECHO_CHECK(write(ready, &place, sizeof(place)) > 0);
    echo_serve(socket);
}

static void serve_net(int ready)
{
    net_serve(dir, options.curve, ready);
}

static pid_t start_server(void (*run)(int), void *address, size_t size)
{
    int ready[2];
    pid_t pid;

    ECHO_CHECK(pipe(ready) == 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(pair + 1);
        run(ready[1]);
        _exit(1);
    }
    close(ready[1]);
    ECHO_CHECK(read(ready[0], address, size) == (ssize_t)size);
    close(ready[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---------------------------------------------------------------- measuring */

static uint64_t cpu_ns(pid_t pid)
{
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
    struct timespec t = {0};

    if (pid)
        clock_getcpuclockid(pid, &clock);
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * CRTI_S + (uint64_t)t.tv_nsec;
}

static sample_t measure(side_t side, void (*run)(int), int count)
{
    uint64_t cpu, begin, last;

    pthread_barrier_wait(&shared->barrier);
    cpu = cpu_ns(0) + cpu_ns(server[side]);
    begin = crti_now_ns();
    run(count);
    last = crti_now_ns();
    cpu = cpu_ns(0) + cpu_ns(server[side]) - cpu;
    return (sample_t){(double)(last - begin) / 1e3 / count, (double)cpu / 1e3 / count};
}

typedef struct row {
    const char *name;
    void (*run[SIDES])(int);
    int count, rounds, idle_ms;
    int singles; /* per round; 0: what is measured is one call, or none */
} row_t;

static void bare_calls(int count)
{
    echo_calls(bare, count);
}

static void bare_batches(int count)
{
    echo_batches(bare, count);
}

static void time_singles(figures_t *f, side_t side, const row_t *row)
{
    for (int i = 0; i < row->singles; i++) {
        uint64_t begin = crti_now_ns();

        row->run[side](1);
        f->single_us[side][f->singles + (size_t)i] =
            (double)(crti_now_ns() - begin) / 1e3;
    }
}

static void run_row(const row_t *row)
{
    figures_t *f = &shared->of[pair];

    f->singles = 0;
    f->rounds = row->rounds;
    for (int r = 0; r < row->rounds; r++) {
        for (side_t side = BARE; side < SIDES; side++) {
            if (row->idle_ms)
                net_pause_ms(row->idle_ms);
            f->round[side][r] = measure(side, row->run[side], row->count);
            time_singles(f, side, row);
            if (row->count == 1)
                f->single_us[side][f->singles] = f->round[side][r].us;
        }
        f->singles += (size_t)(row->count == 1 ? 1 : row->singles);
    }
}

/* ---------------------------------------------------------------- the report */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Sorts `values`. */
static double quantile(double *values, size_t count, double q)
{
    qsort(values, count, sizeof(*values), by_value);
    return count ? values[(size_t)(q * (double)(count - 1) + 0.5)] : 0;
}

typedef struct summary {
    double low, median, high, cpu, p99;
} summary_t;

static summary_t summarize(side_t side)
{
    static double us[PAIRS_MAX * ROUNDS_MAX], cpu[PAIRS_MAX * ROUNDS_MAX];
    static double single[PAIRS_MAX * SINGLE_MAX];
    size_t count = 0, singles = 0;

    for (int p = 0; p < options.pairs; p++) {
        const figures_t *f = &shared->of[p];

        for (int r = 0; r < f->rounds; r++, count++) {
            us[count] = f->round[side][r].us;
            cpu[count] = f->round[side][r].cpu_us;
        }
        memcpy(single + singles, f->single_us[side], f->singles * sizeof(*single));
        singles += f->singles;
    }
    return (summary_t){quantile(us, count, 0.25), quantile(us, count, 0.5),
                       quantile(us, count, 0.75), quantile(cpu, count, 0.5),
                       quantile(single, singles, 0.99)};
}

static double ratio_of_rounds(void)
{
    static double ratio[PAIRS_MAX * ROUNDS_MAX];
    size_t count = 0;

    for (int p = 0; p < options.pairs; p++)
        for (int r = 0; r < shared->of[p].rounds; r++)
            ratio[count++] =
                shared->of[p].round[NET][r].us / shared->of[p].round[BARE][r].us;
    return quantile(ratio, count, 0.5);
}

static void report(const char *row)
{
    summary_t b = summarize(BARE), n = summarize(NET);

    if (options.json)
        printf("{\"row\":\"%s\",\"pairs\":%d,\"bare_us\":%.3f,\"net_us\":%.3f,"
               "\"ratio\":%.3f,\"round_ratio\":%.3f,\"bare_cpu_us\":%.3f,"
               "\"net_cpu_us\":%.3f,\"bare_p99_us\":%.3f,\"net_p99_us\":%.3f}\n",
               row, options.pairs, b.median, n.median, n.median / b.median,
               ratio_of_rounds(), b.cpu, n.cpu, b.p99, n.p99);
    else
        printf("%-11s bare %7.3f us (%.3f-%.3f)  net %7.3f us (%.3f-%.3f)  time ratio "
               "%.3f (rounds %.3f)  cpu %.2f / %.2f us  p99 %.1f / %.1f us\n",
               row, b.median, b.low, b.high, n.median, n.low, n.high, n.median / b.median,
               ratio_of_rounds(), b.cpu, n.cpu, b.p99, n.p99);
    fflush(stdout);
}

/* ---------------------------------------------------------------- all rows */

/* Everybody waits here for everybody; the first client speaks meanwhile. */
static void together(void (*speak)(const char *), const char *what)
{
    pthread_barrier_wait(&shared->barrier);
    if (pair == 0)
        speak(what);
    pthread_barrier_wait(&shared->barrier);
}

static void tell_idle(const char *row)
{
    uint64_t cpu;

    net_pause_ms(500);
    cpu = cpu_ns(server[NET]);
    net_pause_ms(1000);
    printf("%s: %.3f ms of processor time in 1 s\n", row,
           (double)(cpu_ns(server[NET]) - cpu) / 1e6);
}

static void run_all(void)
{
    const row_t rows[] = {
        {"sync", {bare_calls, net_calls}, options.calls, options.rounds, 0, SINGLE},
        {"after_idle", {bare_calls, net_calls}, 1, options.idle, 100, 0},
        {"async", {bare_batches, net_batches}, 20 * ECHO_BATCH, options.rounds, 0, 0},
    };

    bare_calls(500);
    net_calls(500);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (options.row && strcmp(options.row, rows[i].name) != 0)
            continue;
        run_row(&rows[i]);
        together(report, rows[i].name);
    }
    together(tell_idle, "idle server");
}

static void run_client(int number)
{
    echo_place_t place;
    crti_address_t address;
    void *context;

    pair = number;
    server[BARE] = start_server(serve_bare, &place, sizeof(place));
    server[NET] = start_server(serve_net, &address, sizeof(address));
    pin(pair);
    context = zmq_ctx_new();
    bare = echo_dial(context, &place);
    net_dial(dir, &address);
    run_all();
    net_hang_up();
    zmq_close(bare);
    zmq_ctx_term(context);
    for (side_t side = BARE; side < SIDES; side++)
        end(server[side]);
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
        for (;;)
            __asm__ volatile("");
    }
}

static bool run_clients(void)
{
    pid_t clients[PAIRS_MAX];
    bool ok = true;

    for (int i = 0; i < options.pairs; i++) {
        fflush(NULL);
        clients[i] = fork();
        if (clients[i] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_client(i);
        exit(0);
    }
    for (int i = 0; i < options.pairs; i++) {
        int status;

        ok &= wait(&status) > 0 && status == 0;
        if (!ok) /* the others would wait for it */
            break;
    }
    for (int i = 0; !ok && i < options.pairs; i++)
        kill(clients[i], SIGKILL);
    return ok;
}

static void share_memory(void)
{
    pthread_barrierattr_t attr;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ECHO_CHECK(shared != MAP_FAILED);
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attr, (unsigned)options.pairs);
}

static void parse(int argc, char **argv)
{
    const char *transport = "";
    bool is_free = false, is_one_core = false;

    TAKE_OPTIONS(
        argc, argv, OPTION("transport", transport, 0, 0),
        OPTION("rounds", options.rounds, 1, ROUNDS_MAX),
        OPTION("calls", options.calls, 1, 1e9),
        OPTION("idle", options.idle, 1, ROUNDS_MAX), OPTION("free", is_free, 0, 0),
        OPTION("one-core", is_one_core, 0, 0), OPTION("json", options.json, 0, 0),
        OPTION("busy", options.busy, 0, BUSY_MAX),
        OPTION("pairs", options.pairs, 1, PAIRS_MAX), OPTION("row", options.row, 0, 0));
    options.curve = strcmp(transport, "curve") == 0;
    if (is_free || is_one_core)
        options.place = is_one_core ? ONE_CORE : FREE;
}

int main(int argc, char **argv)
{
    pid_t busy[BUSY_MAX];
    char command[100];
    bool ok;

    parse(argc, argv);
    snprintf(dir, sizeof(dir), "/tmp/crt-bench-XXXXXX");
    ECHO_CHECK(mkdtemp(dir));
    share_memory();
    start_busy(busy);
    ok = run_clients();
    for (int i = 0; i < options.busy; i++)
        end(busy[i]);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) == 0 && ok ? 0 : 1;
}
