/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server in shards: each actor holds a range of 100 MB of parameters. Workers fetch all
 * shards at once, and send an update to each.
 *
 *     ./sharded_server [CONFIG.cfg] [--section.key=value ...] [--cluster CLUSTER]
 *                      [--shards S] [--workers W] [--iterations I] [--elements N] [--csv FILE]
 *                      [--svg PREFIX]
 *
 * With --shards 1 it is one parameter server. CLUSTER is local:4, HOST:PORT, file:lab.yaml, slurm:4
 * or kubernetes (docs/clusters.md).
 *
 * CONFIG.cfg has shards and elements in [server], workers and iterations in [training], csv and svg
 * in [output].
 *
 * Every update adds 1 to every element: after one try and W x I iterations all of them must be
 * exactly 1 + W x I. An update carries how many updates its worker had seen when it asked for the
 * values: the shards count how late they come.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <crt_configuration.h>

#include "show.h"

#define LATE_MAX    65
#define SHARDS_MAX  64
#define WORKERS_MAX 64

/* ---------------------------------------------------------------- a shard */

struct shard {
    double *values;
    int64_t count, updates;
    /* updates that came so many after what their worker had seen; the last: and more */
    int64_t late[LATE_MAX];
    crt_histogram_t *staleness;
};

static crt_status_t shard_create(void *self, crt_call_t *call)
{
    struct shard *s = self;

    CRT_TRY(crt_args(call, &s->count));
    CRT_TRY(show_staleness(&s->staleness));
    s->values = calloc((size_t)s->count, sizeof(double));
    return s->values ? CRT_OK : crt_fail(call, CRT_ERR_NO_MEMORY, "shard");
}

static void shard_destroy(void *self)
{
    free(((struct shard *)self)->values);
}

static crt_status_t shard_get_run(void *self, crt_call_t *call)
{
    struct shard *s = self;
    crt_tensor_t values = crt_tensor_view(CRT_DTYPE_FLOAT64, 1, &s->count, s->values);

    return crt_return(call, &values); /* one copy into the store, where readers map it */
}

static crt_status_t shard_update_run(void *self, crt_call_t *call)
{
    struct shard *s = self;
    const crt_tensor_t *update;
    const double *amounts;
    int64_t seen, late;

    CRT_TRY(crt_args(call, &update, &seen));
    late = s->updates++ - seen;
    if (late < 0)
        return crt_fail(call, CRT_ERR_INVALID, "an update of the future");
    s->late[late < LATE_MAX ? late : LATE_MAX - 1]++;
    crt_histogram_observe(s->staleness, (double)late);
    if (update->dtype != CRT_DTYPE_FLOAT64 ||
        (int64_t)crt_tensor_count(update) != s->count)
        return crt_fail(call, CRT_ERR_INVALID, "an update has %lld float64 values",
                        (long long)s->count);
    amounts = update->data; /* in place: the worker wrote it into shared memory */
    for (int64_t i = 0; i < s->count; i++)
        s->values[i] += amounts[i];
    return CRT_OK;
}

static crt_status_t shard_count_run(void *self, crt_call_t *call)
{
    return crt_return(call, ((struct shard *)self)->updates);
}

static crt_status_t shard_late_run(void *self, crt_call_t *call)
{
    struct shard *s = self;
    crt_arg_t counts[LATE_MAX];

    for (int i = 0; i < LATE_MAX; i++)
        counts[i] = crt_arg_int(s->late[i]);
    return crt_return(call, crt_list(counts, LATE_MAX));
}

static const crt_method_t shard_get =
    CRT_METHOD(.name = "get", .run = shard_get_run, .signature = "");
static const crt_method_t shard_count =
    CRT_METHOD(.name = "count", .run = shard_count_run, .signature = "");
static const crt_method_t shard_late =
    CRT_METHOD(.name = "late", .run = shard_late_run, .signature = "");
static const crt_method_t shard_update =
    CRT_METHOD(.name = "update", .run = shard_update_run, .signature = "tensor, int");
static const crt_actor_class_t shard =
    CRT_ACTOR_CLASS(.name = "Shard", .size = sizeof(struct shard), .create = shard_create,
                    .signature = "int", .destroy = shard_destroy,
                    .methods = CRT_METHODS(&shard_get, &shard_count, &shard_late,
                                           &shard_update));

/* ---------------------------------------------------------------- a worker */

/* Ones, written in place into an object of the store. */
static crt_status_t make_update(int64_t count, crt_ref_t **update_out)
{
    crt_object_t *object;
    crt_tensor_t ones;

    CRT_TRY(crt_object_create(CRT_DTYPE_FLOAT64, 1, &count, &object, &ones));
    for (int64_t i = 0; i < count; i++)
        ((double *)ones.data)[i] = 1;
    *update_out = crt_object_seal(&object);
    return CRT_OK;
}

/* Fetches all shards at once, then sends each its update. A shard runs a worker's calls in their
 * order: its next answer comes after this update. */
static crt_status_t iterate(crt_actor_t **shards, size_t count, crt_ref_t **updated)
{
    crt_ref_t *fetched[SHARDS_MAX], *counted[SHARDS_MAX];
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < count; i++) {
        counted[i] = crt_call(shards[i],
                              &shard_count); /* before what it counts: at most too few */
        fetched[i] = crt_call(shards[i], &shard_get);
    }
    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        const crt_tensor_t *parameters; /* read in place */
        crt_ref_t *update = NULL;
        int64_t seen = 0;

        status = crt_get(counted[i], &seen);
        if (status == CRT_OK)
            status = crt_get(fetched[i], &parameters);
        if (status == CRT_OK)
            status = make_update((int64_t)crt_tensor_count(parameters), &update);
        if (status == CRT_OK) {
            crt_ref_drop(&updated[i]);
            updated[i] = crt_call(shards[i], &shard_update, update, seen);
        }
        crt_ref_drop(&update); /* the call keeps it */
    }
    crt_refs_drop(fetched, count);
    crt_refs_drop(counted, count);
    return status;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Gives how long each iteration took. */
static crt_status_t work_run(crt_call_t *call)
{
    crt_actor_t *shards[SHARDS_MAX];
    crt_ref_t *updated[SHARDS_MAX] = {NULL};
    const crt_value_t *list;
    crt_status_t status = CRT_OK;
    int64_t iterations;
    double *seconds;
    size_t count;

    CRT_TRY(crt_args(call, &list, &iterations));
    count = crt_value_count(list);
    if (count > SHARDS_MAX)
        return crt_fail(call, CRT_ERR_TOO_LARGE, "at most %d shards", SHARDS_MAX);
    for (size_t i = 0; i < count; i++) /* handles travel inside lists, too */
        CRT_TRY(crt_value_read(crt_value_at(list, i), &shards[i]));
    seconds = calloc((size_t)iterations, sizeof(double));
    if (!seconds)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "worker");
    for (int64_t i = 0; i < iterations && status == CRT_OK; i++) {
        double began = now_s();

        status = iterate(shards, count, updated);
        seconds[i] = now_s() - began;
    }
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = crt_get(updated[i], NULL);
    crt_refs_drop(updated, count);
    if (status == CRT_OK) {
        crt_tensor_t times = crt_tensor_view(CRT_DTYPE_FLOAT64, 1, &iterations, seconds);

        status = crt_return(call, &times);
    }
    free(seconds);
    return status;
}
static const crt_task_t work =
    CRT_TASK(.name = "work", .run = work_run, .signature = "list, int");

/* ---------------------------------------------------------------- the driver */

static long shards = 2, workers = 4, iterations = 5, elements = 12500000;
static const char *csv, *svg;

/* Where shard number `i` begins: the sizes differ by one at most. */
static int64_t begin_of(long i)
{
    return (int64_t)elements * i / shards;
}

/* All workers at once, and waits for them; adds what each iteration took to `seconds`. They do not
 * take CPUs: they may be more than those. */
static void run_workers(crt_arg_t servers, long count, long each, double *seconds)
{
    crt_ref_t *done[WORKERS_MAX];
    double began = now_s();

    for (long i = 0; i < count; i++)
        done[i] = crt_submit(&work, CRT_TASK_OPTIONS(.no_cpus = true), servers, each);
    for (long i = 0; i < count; i++) {
        const crt_tensor_t *times;

        CRT_CHECK(crt_get(done[i], &times));
        for (long k = 0; k < each; k++)
            seconds[k] += ((const double *)times->data)[k];
        show_progress((double)(i + 1), (double)count, began);
    }
    crt_refs_drop(done, (size_t)count);
}

/* Throughput by iteration, as metrics, CSV and curve. `seconds` are the sums of all workers. */
static void report(const double *seconds)
{
    double bytes = 2.0 * 8 * (double)elements * (double)workers;
    FILE *file = csv ? fopen(csv, "we") : NULL;
    show_t show;

    CRT_CHECK(show_open(&show, "bytes"));
    if (csv && (!file || fprintf(file, "iteration,seconds,bytes_per_s\n") < 0)) {
        perror(csv);
        exit(1);
    }
    for (long i = 0; i < iterations; i++) {
        double mean = seconds[i] / (double)workers;

        CRT_CHECK(show_row(&show, (double)i, NAN, NAN, bytes / mean));
        if (file)
            fprintf(file, "%ld,%.6f,%.0f\n", i, mean, bytes / mean);
    }
    if (svg)
        CRT_CHECK(show_write(&show, svg));
    if (file && fclose(file) != 0) {
        perror(csv);
        exit(1);
    }
    show_close(&show);
}

/* How late the updates of all shards were. */
static void print_staleness(crt_actor_t *const *servers)
{
    int64_t late[LATE_MAX] = {0}, count;

    for (long i = 0; i < shards; i++) {
        crt_ref_t *ref = crt_call(servers[i], &shard_late);
        const crt_value_t *list;

        CRT_CHECK(crt_get(ref, &list));
        for (size_t k = 0; k < LATE_MAX; k++) {
            CRT_CHECK(crt_value_read(crt_value_at(list, k), &count));
            late[k] += count;
        }
        crt_ref_drop(&ref);
    }
    printf("updates late: updates\n");
    for (int k = 0; k < LATE_MAX; k++)
        if (late[k] > 0)
            printf("%12d%s %lld\n", k,
                   k < LATE_MAX - 1 ? ": " : "+:", (long long)late[k]);
}

/* How many elements are not exactly `expected`. */
static int64_t count_wrong(crt_actor_t *server, double expected)
{
    crt_ref_t *ref = crt_call(server, &shard_get);
    const crt_tensor_t *values;
    int64_t wrong = 0;

    CRT_CHECK(crt_get(ref, &values));
    for (size_t i = 0; i < crt_tensor_count(values); i++)
        wrong += ((const double *)values->data)[i] != expected;
    crt_ref_drop(&ref);
    return wrong;
}

/* Texts of the options lie in it: it stays. */
static crt_configuration_t *configuration;

static crt_status_t read_configuration(int *argc, char **argv)
{
    const struct {
        const char *key;
        long high, *value;
    } numbers[] = {{"server.shards", SHARDS_MAX, &shards},
                   {"server.elements", INT32_MAX, &elements},
                   {"training.workers", WORKERS_MAX, &workers},
                   {"training.iterations", INT32_MAX, &iterations}};

    CRT_TRY(crt_configuration_arguments(argc, argv, &configuration));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        int64_t value = *numbers[i].value;

        CRT_TRY(crt_configuration_int(configuration, numbers[i].key, 1, numbers[i].high,
                                      &value));
        *numbers[i].value = (long)value;
    }
    CRT_TRY(crt_configuration_string(configuration, "output.csv", &csv));
    CRT_TRY(crt_configuration_string(configuration, "output.svg", &svg));
    return crt_configuration_finish(configuration);
}

/* A whole number and nothing else; 0, which is refused, when it is none. */
static long number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    return end == text || *end ? 0 : value;
}

static bool read_options(int argc, char **argv)
{
    static const struct option options[] = {{"shards", required_argument, NULL, 's'},
                                            {"workers", required_argument, NULL, 'w'},
                                            {"iterations", required_argument, NULL, 'i'},
                                            {"elements", required_argument, NULL, 'e'},
                                            {"csv", required_argument, NULL, 'c'},
                                            {"svg", required_argument, NULL, 'g'},
                                            {0}};
    int option;

    if (read_configuration(&argc, argv) != CRT_OK) {
        fprintf(stderr, "sharded_server: %s\n", crt_error_detail());
        return false;
    }
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 's': shards = number(optarg); break;
        case 'w': workers = number(optarg); break;
        case 'i': iterations = number(optarg); break;
        case 'e': elements = number(optarg); break;
        case 'c': csv = optarg; break;
        case 'g': svg = optarg; break;
        default: return false;
        }
    if (optind == argc && shards >= 1 && shards <= SHARDS_MAX && workers >= 1 &&
        workers <= WORKERS_MAX && iterations >= 1 && elements >= shards)
        return true;
    fprintf(stderr,
            "sharded_server: 1 to %d shards, 1 to %d workers, an iteration, and an "
            "element for each shard; no other words\n",
            SHARDS_MAX, WORKERS_MAX);
    return false;
}

static int driver(int argc, char **argv)
{
    crt_actor_t *servers[SHARDS_MAX];
    crt_arg_t handles[SHARDS_MAX];
    int64_t wrong = 0;
    double begin, seconds, bytes, first = 0, *each;

    if (!read_options(argc, argv))
        return 2;
    each = calloc((size_t)iterations, sizeof(double));
    if (!each) {
        perror("sharded_server");
        return 1;
    }
    for (long i = 0; i < shards; i++) {
        servers[i] = crt_actor_new(&shard, NULL, begin_of(i + 1) - begin_of(i));
        handles[i] = crt_arg_actor(servers[i]);
    }
    run_workers(crt_list(handles, (size_t)shards), 1, 1, &first); /* a first try */
    begin = now_s();
    run_workers(crt_list(handles, (size_t)shards), workers, iterations, each);
    seconds = now_s() - begin;
    bytes = 2.0 * 8 * (double)elements * (double)workers * (double)iterations;
    printf("%ld workers x %ld iterations on %ld shards: %.3f s, %.2f GB/s\n", workers,
           iterations, shards, seconds, bytes / seconds / 1e9);
    report(each);
    free(each);
    for (long i = 0; i < shards; i++)
        wrong += count_wrong(servers[i], 1 + (double)workers * (double)iterations);
    printf("%lld of %ld elements are not exactly %.1f\n", (long long)wrong, elements,
           1 + (double)workers * (double)iterations);
    print_staleness(servers);
    for (long i = 0; i < shards; i++)
        crt_actor_drop(&servers[i]);
    crt_configuration_drop(&configuration);
    return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
    const char *cluster = crt_context_option(&argc, argv, "--cluster");

    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&shard), .tasks = CRT_TASKS(&work),
                                .cluster = cluster),
                    driver);
}
