/* SPDX-License-Identifier: Apache-2.0 */
/* crt microbenchmark: Ray's rows by Ray's bodies and harness, each with its bare limit.
 *
 * Harness (ray_microbenchmark_helpers.py): call the body for 1 s to find a step, then four
 * rounds of at least 2 s; `value` and `sd` are their mean and population standard deviation.
 * `ratio` is the median of RATIO_ROUNDS interleaved rounds (ours, bare, ours, bare, ...), the
 * driver and the servers pinned to different cores. `cpu_us_per_op` is the time that all cores of
 * the machine were busy during Ray's rounds, per operation: spinning can't hide in it.
 */
#include "cli/microbenchmark.h"
#include "crt_tools.h"

#include "cli/bare_limits.h"
#include "cli/cli.h"
#include "cli/microbenchmark_program.h"
#include "cli/microbenchmark_ray.h"
#include "cli/microbenchmark_rows.h"
#include "cli/options.h"
#include "runtime/base/clock.h"
#include "runtime/base/whole_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME                "crt microbenchmark"
#define RATIO_ROUNDS        11
#define RATIO_ROUND_SECONDS 0.2

static struct {
    bool json, compare_ray;
    int ray_timeout_s;
    const char *filter;
    bool first_row_printed;
} settings = {.ray_timeout_s = 600};

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

/* ---------------------------------------------------------------- harness */

typedef struct result {
    double value, sd, limit, ratio, cpu_us_per_op;
    ray_row_t ray;
} result_t;

/* Operations per second of `body`, called `step` times between looks at the clock, for at least
 * `seconds`. */
static double rate(void (*body)(void), double multiplier, long step, double seconds)
{
    double start = crti_now_s(), elapsed;
    long count = 0;

    do {
        for (long i = 0; i < step; i++)
            body();
        count += step;
        elapsed = crti_now_s() - start;
    } while (elapsed < seconds);
    return multiplier * (double)count / elapsed;
}

static long find_step(void (*body)(void), double seconds)
{
    double start = crti_now_s();
    long count = 0;

    do {
        body();
        count++;
    } while (crti_now_s() - start < seconds);
    return count / 10 + 1;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure_ratio(const row_t *row, double multiplier, result_t *result)
{
    double ratios[RATIO_ROUNDS], limits[RATIO_ROUNDS];
    long step, limit_step;

    bench_pin(true);
    step = find_step(row->body, RATIO_ROUND_SECONDS);
    limit_step = find_step(row->limit, RATIO_ROUND_SECONDS);
    for (int i = 0; i < RATIO_ROUNDS; i++) {
        double ours = rate(row->body, multiplier, step, RATIO_ROUND_SECONDS);

        limits[i] =
            rate(row->limit, row->limit_multiplier, limit_step, RATIO_ROUND_SECONDS);
        ratios[i] = ours / limits[i];
    }
    bench_pin(false);
    qsort(ratios, RATIO_ROUNDS, sizeof(double), by_size);
    qsort(limits, RATIO_ROUNDS, sizeof(double), by_size);
    result->ratio = ratios[RATIO_ROUNDS / 2];
    result->limit = limits[RATIO_ROUNDS / 2];
}

static void measure(const row_t *row, result_t *result)
{
    double multiplier = row->multiplier * (row->per_server ? bench_server_count() : 1);
    double rates[4], sum = 0, squares = 0, operations = 0, busy;
    long step;

    if (row->prepare)
        row->prepare();
    step = find_step(row->body, 1.0);
    busy = busy_seconds();
    for (int i = 0; i < 4; i++) {
        double start = crti_now_s();

        rates[i] = rate(row->body, multiplier, step, 2.0);
        operations += rates[i] * (crti_now_s() - start);
        sum += rates[i];
    }
    result->cpu_us_per_op = (busy_seconds() - busy) * 1e6 / operations;
    result->value = sum / 4;
    for (int i = 0; i < 4; i++)
        squares += (rates[i] - result->value) * (rates[i] - result->value);
    result->sd = sqrt(squares / 4);
    measure_ratio(row, multiplier, result);
}

/* What is printed behind a row: with --compare-ray Ray's figure and how many times it is ours, or
 * why it gave none. */
static void describe_ray(const row_t *row, const result_t *r, char *text, size_t size)
{
    const ray_row_t *ray = &r->ray;

    text[0] = '\0';
    if (!settings.compare_ray || !row->ray)
        return;
    if (settings.json && ray->value > 0)
        snprintf(text, size,
                 ", \"ray\": %.6g, \"ray_sd\": %.4g, \"factor\": %.4g, "
                 "\"ray_error\": null",
                 ray->value, ray->sd, r->value / ray->value);
    else if (settings.json)
        snprintf(text, size,
                 ", \"ray\": null, \"ray_sd\": null, \"factor\": null, "
                 "\"ray_error\": \"%s\"",
                 ray->reason);
    else if (ray->value > 0)
        snprintf(text, size, "  Ray %.2f +- %.2f: %.4g x", ray->value, ray->sd,
                 r->value / ray->value);
    else
        snprintf(text, size, "  Ray gave no figure: %s", ray->reason);
}

static void print_result(const row_t *row, const result_t *r)
{
    char ray[400];

    describe_ray(row, r, ray, sizeof(ray));
    if (settings.json) {
        printf(
            "%s\n  {\"name\": \"%s\", \"value\": %.6g, \"sd\": %.4g, \"unit\": \"%s\", "
            "\"limit_name\": \"%s\", \"limit\": %.6g, \"ratio\": %.4g, "
            "\"cpu_us_per_op\": %.4g%s}",
            settings.first_row_printed ? "," : "", row->name, r->value, r->sd, row->unit,
            row->limit_name, r->limit, r->ratio, r->cpu_us_per_op, ray);
    } else {
        printf("%-45s %12.1f +- %-10.1f %-5s %6.3f x %-28s (%.6g)  %.2f us CPU%s\n",
               row->name, r->value, r->sd, row->unit, r->ratio, row->limit_name, r->limit,
               r->cpu_us_per_op, ray);
    }
    settings.first_row_printed = true;
    fflush(stdout);
}

/* Says which. */
static bool is_ray_there(void)
{
    char version[200];
    ray_row_t failed;

    if (!ray_version(version, sizeof(version), &failed)) {
        crti_cli_fail(NAME, "--compare-ray needs the command ray in PATH: %s",
                      failed.reason[0] ? failed.reason : version);
        return false;
    }
    fprintf(stderr, "crt microbenchmark: beside %s\n", version);
    return true;
}

static int driver(int argc, char **argv)
{
    double busy, start;

    if (settings.compare_ray && !is_ray_there())
        return 1;
    if (!bench_start())
        return 1;
    busy = busy_seconds();
    start = crti_now_s();
    sleep(1); /* the thing measured is a second without work */
    if (!settings.json)
        printf("idle: the machine is busy %.1f %% of a core\n",
               100 * (busy_seconds() - busy) / (crti_now_s() - start));
    if (settings.json)
        printf("[");
    for (size_t i = 0; i < row_count; i++) {
        result_t result = {.value = 0};

        if (settings.filter && strstr(rows[i].name, settings.filter) == NULL)
            continue;
        measure(&rows[i], &result);
        if (settings.compare_ray && rows[i].ray)
            ray_measure(rows[i].ray, settings.ray_timeout_s, &result.ray);
        print_result(&rows[i], &result);
    }
    if (settings.json)
        printf("\n]\n");
    bench_end();
    return 0;
}

static const char help[] =
    "Usage: crt microbenchmark [--json] [--filter TEXT]\n"
    "                          [--compare-ray [--ray-timeout SECONDS]]\n"
    "       crt microbenchmark --scale [--nodes N] [--actors N] [--json]\n"
    "\n"
    "Runs the rows of Ray's microbenchmark, each beside its bare limit (raw ZeroMQ, "
    "memcpy),\n"
    "on the cluster that is meant, or on a private one.\n"
    "\n"
    "  --json         an array of {name, value, sd, unit, limit_name, limit, ratio,\n"
    "                 cpu_us_per_op}\n"
    "  --filter TEXT  only rows whose name contains TEXT\n"
    "  --compare-ray  after each row that Ray has, too, the same of `ray "
    "microbenchmark`, which must be\n"
    "                 in PATH (half a minute each, or more): its figure, and the factor "
    "between\n"
    "                 them\n"
    "  --ray-timeout SECONDS\n"
    "                 so long after its start a row of Ray is killed, and why it gave no "
    "figure is\n"
    "                 printed in its place; default 600, since its slowest, five rounds "
    "of "
    "40,000\n"
    "                 tasks, takes four minutes on two cores\n"
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
    if (crti_daemon_path(args[0], path, sizeof(path)) != CRT_OK)
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

static bool read_timeout(const char *text)
{
    char *end;
    long seconds = strtol(text, &end, 10);

    if (*end != '\0' || end == text || seconds < 1 || seconds > 86400)
        return false;
    settings.ray_timeout_s = (int)seconds;
    return true;
}

int crt_microbenchmark_main(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"filter", required_argument, NULL, 'f'},
                                            {"compare-ray", no_argument, NULL, 'r'},
                                            {"ray-timeout", required_argument, NULL, 't'},
                                            {"scale", no_argument, NULL, 's'},
                                            {"nodes", required_argument, NULL, 'n'},
                                            {"actors", required_argument, NULL, 'a'},
                                            {"bare-echo", required_argument, NULL, 'b'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *nodes = NULL, *actors = NULL, *timeout = NULL;
    bool scale = false;
    int option, index;

    optind = 1;
    while ((option = crti_whole_option(argc, argv, "", options, &index)) != -1) {
        switch (option) {
        case 'j': settings.json = true; break;
        case 'f': settings.filter = optarg; break;
        case 'r': settings.compare_ray = true; break;
        case 't': timeout = optarg; break;
        case 's': scale = true; break;
        case 'n': nodes = optarg; break;
        case 'a': actors = optarg; break;
        case 'b': return bare_echo_serve(optarg);
        case 'h': fputs(help, stdout); return 0;
        default:
            return index < 0 ? 2
                             : crti_cli_misused(NAME, "--%s is written whole",
                                                options[index].name);
        }
    }
    if (optind < argc)
        return crti_cli_misused(NAME, "unexpected argument %s", argv[optind]);
    if (scale)
        return run_scale(nodes, actors);
    if (timeout && !settings.compare_ray)
        return crti_cli_misused(NAME, "--ray-timeout belongs to --compare-ray");
    if (timeout && !read_timeout(timeout))
        return crti_cli_misused(NAME, "--ray-timeout is a number of seconds, 1 to 86400");
    if (nodes || actors)
        return crti_cli_misused(NAME, "--nodes and --actors belong to --scale");
    /* Workers are started with the whole command line, "crt microbenchmark ...". */
    return crt_main(argc + 1, argv - 1,
                    CRT_OPTIONS(.classes = BENCHMARK_CLASSES, .tasks = BENCHMARK_TASKS,
                                .object_store_memory = (uint64_t)3 << 30,
                                .resources = "custom=100"),
                    driver);
}
