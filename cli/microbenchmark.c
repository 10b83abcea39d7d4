/* SPDX-License-Identifier: Apache-2.0 */
/* crt microbenchmark: Ray's rows by Ray's bodies and harness, each with its bare limit.
 *
 * Harness (ray_microbenchmark_helpers.py): call the body for 1 s to find a step, then four
 * rounds of at least 2 s; `value` and `sd` are their mean and population standard deviation.
 * `ratio` is the median of RATIO_ROUNDS interleaved rounds (ours, bare, ours, bare, ...), the
 * driver and the servers pinned to different cores. `cpu_us_per_op` is the time that all cores of the machine
 * were busy during Ray's rounds, per operation: spinning can't hide in it.
 */
#include "cli/microbenchmark.h"

#include "cli/bare_limits.h"
#include "cli/cli.h"
#include "cli/microbenchmark_program.h"
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME                "crt microbenchmark"
#define RATIO_ROUNDS        11
#define RATIO_ROUND_SECONDS 0.2
#define SERVERS_MAX         64
#define LARGE_BYTES         ((size_t)100 * 1024 * 1024 * 8)

static struct {
    bool json;
    const char *filter;
    bool first_row_printed;
} settings;

/* What the rows work with. */
static struct {
    bare_echo_t echo;
    int cores;
    int server_count; /* C of Ray's bodies: half the cores, at least one */
    crt_actor_t *servers[SERVERS_MAX];
    crt_ref_t *small; /* put(0) */
    crt_ref_t *list;  /* list of 10,000 refs */
    void *zeros;      /* LARGE_BYTES */
    crt_actor_t *clients[SERVERS_MAX];
    int client_count;
    crt_actor_t *client; /* knows all servers */
} bench;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds that all cores together were busy since the start of the machine. */
static double busy_seconds(void)
{
    unsigned long long user = 0, nice_time = 0, system = 0, idle = 0, wait = 0, irq = 0,
                       soft = 0;
    FILE *f = fopen("/proc/stat", "re");

    if (f == NULL)
        return 0;
    if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice_time, &system,
               &idle, &wait, &irq, &soft) != 7)
        user = nice_time = system = irq = soft = 0;
    fclose(f);
    return (double)(user + nice_time + system + irq + soft) /
           (double)sysconf(_SC_CLK_TCK);
}

/* ---------------------------------------------------------------- bodies */

static void submit_tasks(crt_ref_t **refs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        refs[i] = crt_submit(&small_value_task, NULL);
}

static void body_get_small(void)
{
    CRT_CHECK(crt_get(bench.small, NULL));
}

static void body_put_small(void)
{
    crt_ref_t *ref = crt_put(0);

    crt_ref_drop(&ref);
}

static void run_ten(const crt_task_t *task, int64_t count, int64_t bytes)
{
    crt_ref_t *refs[10];

    for (int i = 0; i < 10; i++)
        refs[i] =
            bytes ? crt_submit(task, NULL, count, bytes) : crt_submit(task, NULL, count);
    CRT_CHECK(get_all(refs, 10));
}

static void body_multi_put_small(void)
{
    run_ten(&put_small_task, 100, 0);
}

static void body_put_large(void)
{
    int64_t count = LARGE_BYTES / 8;
    crt_tensor_t zeros = crt_tensor_view(CRT_INT64, 1, &count, bench.zeros);
    crt_ref_t *ref = crt_put(&zeros);

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
}

static void body_multi_put_large(void)
{
    run_ten(&put_large_task, 10, (int64_t)LARGE_BYTES / 10);
}

static void body_tasks_batch(void)
{
    crt_ref_t *refs[1000];

    submit_tasks(refs, 1000);
    CRT_CHECK(get_all(refs, 1000));
}

static void body_get_many_refs(void)
{
    const crt_value_t *list;

    CRT_CHECK(crt_get(bench.list, &list));
    if (crt_value_count(list) != 10000)
        CRT_CHECK(
            crt_raise(CRT_ERR_CORRUPT, "the list has %zu refs", crt_value_count(list)));
}

static void body_wait_refs(void)
{
    crt_ref_t *refs[1000], *waiting[1000];
    size_t left = 1000, ready[1000], ready_count;

    submit_tasks(refs, 1000);
    memcpy(waiting, refs, sizeof(refs));
    while (left > 0) {
        CRT_CHECK(crt_wait(waiting, left, 1, -1, ready, &ready_count));
        memmove(&waiting[ready[0]], &waiting[ready[0] + 1],
                (left - ready[0] - 1) * sizeof(waiting[0]));
        left--;
    }
    crt_refs_drop(refs, 1000);
}

static void body_task_sync(void)
{
    crt_ref_t *ref = crt_submit(&small_value_task, NULL);

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
}

static void body_multi_tasks(void)
{
    crt_ref_t *refs[4];

    for (int i = 0; i < 4; i++)
        refs[i] = crt_call(bench.clients[i], &client_tasks, 10000);
    CRT_CHECK(get_all(refs, 4));
}

static void body_call_sync(void)
{
    crt_ref_t *ref = crt_call(bench.servers[0], &server_small_value);

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
}

static void body_call_async(void)
{
    crt_ref_t *refs[1000];

    for (int i = 0; i < 1000; i++)
        refs[i] = crt_call(bench.servers[0], &server_small_value);
    CRT_CHECK(get_all(refs, 1000));
}

static void body_one_to_n(void)
{
    crt_ref_t *ref = crt_call(bench.client, &client_calls, 5000);

    CRT_CHECK(get_all(&ref, 1));
}

static void body_n_to_n(void)
{
    crt_arg_t args[SERVERS_MAX + 1] = {crt_arg_int(5000)};
    crt_ref_t *refs[4];

    for (int i = 0; i < bench.server_count; i++)
        args[i + 1] = crt_arg_actor(bench.servers[i]);
    for (int i = 0; i < 4; i++)
        refs[i] =
            crt_submit_v(&call_servers_task, NULL, args, (size_t)bench.server_count + 1);
    CRT_CHECK(get_all(refs, 4));
}

static void body_n_to_n_with_arg(void)
{
    crt_ref_t *refs[SERVERS_MAX];

    for (int i = 0; i < bench.server_count; i++)
        refs[i] = crt_call(bench.clients[i], &client_arg_calls, 1000);
    CRT_CHECK(get_all(refs, (size_t)bench.server_count));
}

/* ---------------------------------------------------------------- limits */

static void limit_copy_small(void)
{
    bare_copy(8);
}

static void limit_copy_large(void)
{
    bare_copy(LARGE_BYTES);
}

static void limit_echo_sync(void)
{
    bare_echo_sync(&bench.echo);
}

static void limit_echo_1000(void)
{
    bare_echo_pipelined(&bench.echo, 1000);
}

/* ---------------------------------------------------------------- rows */

static void make_clients(int count)
{
    for (; bench.client_count < count; bench.client_count++)
        bench.clients[bench.client_count] = crt_actor_new(
            &client_class, NULL, bench.servers[bench.client_count % bench.server_count]);
}

static void need_zeros(void)
{
    if (bench.zeros == NULL)
        bench.zeros = calloc(1, LARGE_BYTES);
    if (bench.zeros == NULL)
        CRT_CHECK(crt_raise(CRT_ERR_NO_MEMORY, "%zu bytes of zeros", LARGE_BYTES));
    memset(bench.zeros, 0,
           LARGE_BYTES); /* pages of their own, not the shared zero page */
}

static void need_small(void)
{
    if (bench.small == NULL)
        bench.small = crt_put(0);
}

static void need_list(void)
{
    if (bench.list == NULL)
        bench.list = crt_submit(&many_refs_task, NULL, 10000);
    CRT_CHECK(crt_get(bench.list, NULL));
}

static void need_four_clients(void)
{
    make_clients(4);
}

static void need_bound_clients(void)
{
    make_clients(bench.server_count);
}

static void need_client(void)
{
    crt_arg_t args[SERVERS_MAX];

    for (int i = 0; i < bench.server_count; i++)
        args[i] = crt_arg_actor(bench.servers[i]);
    if (bench.client == NULL)
        bench.client =
            crt_actor_new_v(&client_class, NULL, args, (size_t)bench.server_count);
}

typedef struct row {
    const char *name;
    const char *unit;
    void (*prepare)(void);
    void (*body)(void);
    double multiplier; /* operations (or gigabytes, or batches) of one body */
    bool per_server;   /* multiplier counts per server */
    const char *limit_name;
    void (*limit)(void);
    double limit_multiplier;
} row_t;

static const row_t rows[] = {
    {"single_client_get_calls_Plasma_Store", "1/s", need_small, body_get_small, 1, false,
     "memcpy 8 B, warm pages", limit_copy_small, 1},
    {"single_client_put_calls_Plasma_Store", "1/s", NULL, body_put_small, 1, false,
     "memcpy 8 B, warm pages", limit_copy_small, 1},
    {"multi_client_put_calls_Plasma_Store", "1/s", NULL, body_multi_put_small, 1000,
     false, "memcpy 8 B, warm pages", limit_copy_small, 1},
    {"single_client_put_gigabytes", "GB/s", need_zeros, body_put_large, 0.8, false,
     "memcpy 800 MiB, warm pages", limit_copy_large, 0.8},
    {"single_client_tasks_and_get_batch", "1/s", NULL, body_tasks_batch, 1, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1},
    {"multi_client_put_gigabytes", "GB/s", NULL, body_multi_put_large, 8, false,
     "memcpy 800 MiB, warm pages", limit_copy_large, 0.8},
    {"single_client_get_object_containing_10k_refs", "1/s", need_list, body_get_many_refs,
     1, false, "memcpy 8 B, warm pages", limit_copy_small, 1},
    {"single_client_wait_1k_refs", "1/s", NULL, body_wait_refs, 1, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1},
    {"single_client_tasks_sync", "1/s", NULL, body_task_sync, 1, false, "zmq ipc echo",
     limit_echo_sync, 1},
    {"single_client_tasks_async", "1/s", NULL, body_tasks_batch, 1000, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"multi_client_tasks_async", "1/s", need_four_clients, body_multi_tasks, 40000, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"1_1_actor_calls_sync", "1/s", NULL, body_call_sync, 1, false, "zmq ipc echo",
     limit_echo_sync, 1},
    {"1_1_actor_calls_async", "1/s", NULL, body_call_async, 1000, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"1_n_actor_calls_async", "1/s", need_client, body_one_to_n, 5000, true,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"n_n_actor_calls_async", "1/s", NULL, body_n_to_n, 20000, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"n_n_actor_calls_with_arg_async", "1/s", need_bound_clients, body_n_to_n_with_arg,
     1000, true, "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
};

/* ---------------------------------------------------------------- harness */

typedef struct result {
    double value, sd, limit, ratio, cpu_us_per_op;
} result_t;

/* Operations per second of `body`, called `step` times between looks at the clock, for at least
 * `seconds`. */
static double rate(void (*body)(void), double multiplier, long step, double seconds)
{
    double start = now(), elapsed;
    long count = 0;

    do {
        for (long i = 0; i < step; i++)
            body();
        count += step;
        elapsed = now() - start;
    } while (elapsed < seconds);
    return multiplier * (double)count / elapsed;
}

static long find_step(void (*body)(void), double seconds)
{
    double start = now();
    long count = 0;

    do {
        body();
        count++;
    } while (now() - start < seconds);
    return count / 10 + 1;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The driver on core 0, servers and the echo partner on core 1, where there are two. */
static void pin_all(bool pinned)
{
    if (bench.cores < 2)
        return;
    pin_process(getpid(), pinned ? 0 : -1);
    pin_process(bench.echo.partner, pinned ? 1 : -1);
    for (int i = 0; i < bench.server_count; i++) {
        crt_ref_t *ref = crt_call(bench.servers[i], &server_pid);
        int64_t pid = 0;

        CRT_CHECK(crt_get(ref, &pid));
        pin_process((pid_t)pid, pinned ? 1 : -1);
        crt_ref_drop(&ref);
    }
}

static void measure_ratio(const row_t *row, double multiplier, result_t *result)
{
    double ratios[RATIO_ROUNDS], limits[RATIO_ROUNDS];
    long step, limit_step;

    pin_all(true);
    step = find_step(row->body, RATIO_ROUND_SECONDS);
    limit_step = find_step(row->limit, RATIO_ROUND_SECONDS);
    for (int i = 0; i < RATIO_ROUNDS; i++) {
        double ours = rate(row->body, multiplier, step, RATIO_ROUND_SECONDS);

        limits[i] =
            rate(row->limit, row->limit_multiplier, limit_step, RATIO_ROUND_SECONDS);
        ratios[i] = ours / limits[i];
    }
    pin_all(false);
    qsort(ratios, RATIO_ROUNDS, sizeof(double), by_size);
    qsort(limits, RATIO_ROUNDS, sizeof(double), by_size);
    result->ratio = ratios[RATIO_ROUNDS / 2];
    result->limit = limits[RATIO_ROUNDS / 2];
}

static void measure(const row_t *row, result_t *result)
{
    double multiplier = row->multiplier * (row->per_server ? bench.server_count : 1);
    double rates[4], sum = 0, squares = 0, operations = 0, busy;
    long step;

    if (row->prepare)
        row->prepare();
    step = find_step(row->body, 1.0);
    busy = busy_seconds();
    for (int i = 0; i < 4; i++) {
        double start = now();

        rates[i] = rate(row->body, multiplier, step, 2.0);
        operations += rates[i] * (now() - start);
        sum += rates[i];
    }
    result->cpu_us_per_op = (busy_seconds() - busy) * 1e6 / operations;
    result->value = sum / 4;
    for (int i = 0; i < 4; i++)
        squares += (rates[i] - result->value) * (rates[i] - result->value);
    result->sd = sqrt(squares / 4);
    measure_ratio(row, multiplier, result);
}

static void print_result(const row_t *row, const result_t *r)
{
    if (settings.json) {
        printf(
            "%s\n  {\"name\": \"%s\", \"value\": %.6g, \"sd\": %.4g, \"unit\": \"%s\", "
            "\"limit_name\": \"%s\", \"limit\": %.6g, \"ratio\": %.4g, "
            "\"cpu_us_per_op\": %.4g}",
            settings.first_row_printed ? "," : "", row->name, r->value, r->sd, row->unit,
            row->limit_name, r->limit, r->ratio, r->cpu_us_per_op);
    } else {
        printf("%-45s %12.1f +- %-10.1f %-5s %6.3f x %-28s (%.6g)  %.2f us CPU\n",
               row->name, r->value, r->sd, row->unit, r->ratio, row->limit_name, r->limit,
               r->cpu_us_per_op);
    }
    settings.first_row_printed = true;
    fflush(stdout);
}

static void start_servers(void)
{
    bench.cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    bench.server_count = bench.cores / 2 < 1 ? 1 : bench.cores / 2;
    if (bench.server_count > SERVERS_MAX)
        bench.server_count = SERVERS_MAX;
    for (int i = 0; i < bench.server_count; i++) {
        bench.servers[i] = crt_actor_new(&server_class, NULL);
        CRT_CHECK(crt_actor_ready(bench.servers[i], 60000));
    }
}

static void drop_all(void)
{
    for (int i = 0; i < bench.client_count; i++)
        crt_actor_drop(&bench.clients[i]);
    for (int i = 0; i < bench.server_count; i++)
        crt_actor_drop(&bench.servers[i]);
    crt_actor_drop(&bench.client);
    crt_ref_drop(&bench.small);
    crt_ref_drop(&bench.list);
    free(bench.zeros);
}

static int driver(int argc, char **argv)
{
    double busy, start;

    if (!bare_echo_start(&bench.echo)) {
        bare_echo_stop(&bench.echo);
        return 1;
    }
    start_servers();
    busy = busy_seconds();
    start = now();
    sleep(1); /* the thing measured is a second without work */
    if (!settings.json)
        printf("idle: the machine is busy %.1f %% of a core\n",
               100 * (busy_seconds() - busy) / (now() - start));
    if (settings.json)
        printf("[");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        result_t result;

        if (settings.filter && strstr(rows[i].name, settings.filter) == NULL)
            continue;
        measure(&rows[i], &result);
        print_result(&rows[i], &result);
    }
    if (settings.json)
        printf("\n]\n");
    drop_all();
    bare_echo_stop(&bench.echo);
    return 0;
}

static const char help[] =
    "Usage: crt microbenchmark [--json] [--filter TEXT]\n"
    "       crt microbenchmark --scale [--nodes N] [--actors N] [--json]\n"
    "\n"
    "Runs the rows of Ray's microbenchmark, each beside its bare limit (raw ZeroMQ, "
    "memcpy),\n"
    "on the cluster that is meant, or on a private one.\n"
    "\n"
    "  --json         an array of {name, value, sd, unit, limit_name, limit, ratio,\n"
    "                 cpu_us_per_op}\n"
    "  --filter TEXT  only rows whose name contains TEXT\n"
    "  --scale        instead: simulated node daemons against one real head of their "
    "own;\n"
    "                 with --json an array of {name, value, unit}\n"
    "  --nodes N      simulated nodes; default 1000\n"
    "  --actors N     actors placed on them, of one of their 64 CPUs each; default "
    "10000\n"
    "  --help         this text\n"
    "\n"
    "Environment: CRT_ADDRESS, CRT_RUN_DIR, CRT_LIBEXEC\n";

/* Becomes crt-scale. */
static int run_scale(const char *nodes, const char *actors)
{
    const char *args[8] = {"crt-scale"};
    char path[4096];
    int count = 1;

    if (settings.filter)
        return crti_cli_misused(NAME, "--scale has no rows to choose from");
    if (crt_daemon_path(args[0], path, sizeof(path)) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    if (settings.json)
        args[count++] = "--json";
    if (nodes) {
        args[count++] = "--nodes";
        args[count++] = nodes;
    }
    if (actors) {
        args[count++] = "--actors";
        args[count] = actors;
    }
    execv(path, (char *const *)(uintptr_t)args);
    return crti_cli_fail(NAME, "can't execute %s: %s", path, strerror(errno));
}

int crt_microbenchmark_main(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"filter", required_argument, NULL, 'f'},
                                            {"scale", no_argument, NULL, 's'},
                                            {"nodes", required_argument, NULL, 'n'},
                                            {"actors", required_argument, NULL, 'a'},
                                            {"bare-echo", required_argument, NULL, 'b'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *nodes = NULL, *actors = NULL;
    bool scale = false;
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'j': settings.json = true; break;
        case 'f': settings.filter = optarg; break;
        case 's': scale = true; break;
        case 'n': nodes = optarg; break;
        case 'a': actors = optarg; break;
        case 'b': return bare_echo_serve(optarg);
        case 'h': fputs(help, stdout); return 0;
        default: return 2;
        }
    }
    if (scale)
        return run_scale(nodes, actors);
    if (nodes || actors)
        return crti_cli_misused(NAME, "--nodes and --actors belong to --scale");
    /* Workers are started with the whole command line, "crt microbenchmark ...". */
    return crt_main(argc + 1, argv - 1,
                    CRT_OPTIONS(.classes = BENCHMARK_CLASSES, .tasks = BENCHMARK_TASKS,
                                .object_store_memory = (uint64_t)3 << 30),
                    driver);
}
