/* SPDX-License-Identifier: Apache-2.0 */
/* The program that calls.py runs on its hosts: actor calls beside the bare ZeroMQ echo.
 *
 *     calls_program --serve IP
 *         two echo servers, plain and with CURVE; prints where they are as JSON and serves for ever
 *     calls_program --plain ENDPOINT --curve ENDPOINT --key KEY [--rounds N] [--calls N]
 *                   [--batches N] [--row NAME]
 *         a driver that calls an actor where the resource host0 is. Rounds take turns; prints a
 *         line of JSON for each row (or for those whose names begin with NAME): microseconds per
 *         call of each round, those of single calls, and the processor time of the whole machine
 *         per call.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#include "bare_echo.h"
#include "options.h"

#define ROUNDS_MAX  100
#define CALLS_MAX   20000
#define BATCHES_MAX 1000

static const char *serve;
static echo_place_t plain_place, curve_place;
static long rounds = 10, calls = 1000, batches = 20;
static const char *wanted = ""; /* how the names of the measured rows begin */

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* That all cores together were busy since the start of the machine. */
static double busy_us(void)
{
    unsigned long long t[7] = {0};
    FILE *f = fopen("/proc/stat", "re");

    ECHO_CHECK(f != NULL);
    ECHO_CHECK(fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2],
                      &t[3], &t[4], &t[5], &t[6]) == 7);
    fclose(f);
    return (double)(t[0] + t[1] + t[2] + t[5] + t[6]) * 1e6 /
           (double)sysconf(_SC_CLK_TCK);
}

/* ---------------------------------------------------------------- the bare server */

static void *serve_router(void *router)
{
    echo_serve(router);
    return NULL;
}

static int run_server(void)
{
    char endpoint[100];
    pthread_t thread;
    void *plain, *curve;

    snprintf(endpoint, sizeof(endpoint), "tcp://%s:*", serve);
    plain = echo_bind(zmq_ctx_new(), endpoint, false, &plain_place);
    curve = echo_bind(zmq_ctx_new(), endpoint, true, &curve_place);
    printf("{\"plain\": \"%s\", \"curve\": \"%s\", \"key\": \"%s\"}\n",
           plain_place.endpoint, curve_place.endpoint, curve_place.key);
    fflush(stdout);
    ECHO_CHECK(pthread_create(&thread, NULL, serve_router, plain) == 0);
    echo_serve(curve);
    return 0;
}

/* ---------------------------------------------------------------- the actor */

static crt_status_t echo_run(void *self, crt_call_t *call)
{
    int64_t value;

    CRT_TRY(crt_args(call, &value));
    return crt_return(call, value);
}

static const crt_method_t echo =
    CRT_METHOD(.name = "echo", .run = echo_run, .signature = "int");
static const crt_actor_class_t echoer =
    CRT_ACTOR_CLASS(.name = "Echoer", .methods = CRT_METHODS(&echo));

/* ---------------------------------------------------------------- three ways to call */

static void *plain, *curve; /* sockets */
static crt_actor_t *actor;

static void plain_calls(int count)
{
    echo_calls(plain, count);
}

static void curve_calls(int count)
{
    echo_calls(curve, count);
}

static void curve_batches(int count)
{
    echo_batches(curve, count);
}

static void get(crt_ref_t **ref, int64_t expected)
{
    int64_t value = 0;

    CRT_CHECK(crt_get(*ref, &value));
    ECHO_CHECK(value == expected);
    crt_ref_drop(ref);
}

static void actor_calls(int count)
{
    for (int i = 0; i < count; i++) {
        crt_ref_t *ref = crt_call(actor, &echo, i);

        get(&ref, i);
    }
}

static void actor_batches(int count)
{
    static crt_ref_t *refs[ECHO_BATCH];

    for (int done = 0; done < count; done += ECHO_BATCH) {
        for (int i = 0; i < ECHO_BATCH; i++)
            refs[i] = crt_call(actor, &echo, i);
        for (int i = 0; i < ECHO_BATCH; i++)
            get(&refs[i], i);
    }
}

/* ---------------------------------------------------------------- measuring */

typedef struct row {
    const char *name;
    void (*run)(int count);
    bool is_sync;
    double us[ROUNDS_MAX], busy;
    double *single_us; /* of a sync row: each call */
    long singles;
} row_t;

static row_t rows[] = {
    {.name = "sync_bare_plain", .run = plain_calls, .is_sync = true},
    {.name = "sync_bare_curve", .run = curve_calls, .is_sync = true},
    {.name = "sync_actor", .run = actor_calls, .is_sync = true},
    {.name = "async_bare_curve", .run = curve_batches},
    {.name = "async_actor", .run = actor_batches},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool is_wanted(const row_t *row)
{
    return strncmp(row->name, wanted, strlen(wanted)) == 0;
}

static void measure(row_t *row, long round)
{
    long count = row->is_sync ? calls : batches * ECHO_BATCH;
    double busy = busy_us(), begin = now_us(), before = begin;

    for (long i = 0; row->is_sync && i < count; i++) {
        double after;

        row->run(1);
        after = now_us();
        row->single_us[row->singles++] = after - before;
        before = after;
    }
    if (!row->is_sync)
        row->run((int)count);
    row->us[round] = (now_us() - begin) / (double)count;
    row->busy += (busy_us() - busy) / (double)count / (double)rounds;
}

static void print_numbers(const char *name, const double *values, long count)
{
    printf(", \"%s\": [", name);
    for (long i = 0; i < count; i++)
        printf("%s%.3f", i ? ", " : "", values[i]);
    printf("]");
}

static void print_row(const row_t *row)
{
    printf("{\"row\": \"%s\", \"busy_us\": %.3f", row->name, row->busy);
    print_numbers("us", row->us, rounds);
    print_numbers("single_us", row->single_us, row->singles);
    printf("}\n");
}

static int driver(int argc, char **argv)
{
    void *context = zmq_ctx_new();

    plain = echo_dial(context, &plain_place);
    curve = echo_dial(context, &curve_place);
    actor = crt_actor_new(&echoer, CRT_ACTOR_OPTIONS(.resources = "host0=1"));
    CRT_CHECK(crt_actor_ready(actor, -1));
    for (size_t i = 0; i < ROWS; i++) {
        rows[i].run(rows[i].is_sync ? 200 : 5 * ECHO_BATCH);
        rows[i].single_us = calloc((size_t)(rounds * calls), sizeof(double));
        ECHO_CHECK(rows[i].single_us != NULL);
    }
    for (long round = 0; round < rounds; round++)
        for (size_t i = 0; i < ROWS; i++)
            if (is_wanted(&rows[i]))
                measure(&rows[i], round);
    for (size_t i = 0; i < ROWS; i++) {
        if (is_wanted(&rows[i]))
            print_row(&rows[i]);
        free(rows[i].single_us);
    }
    crt_actor_drop(&actor);
    zmq_close(plain);
    zmq_close(curve);
    zmq_ctx_term(context);
    return 0;
}

/* False: it can't be run so. */
static bool read_options(int argc, char **argv)
{
    const char *plain_at = "", *curve_at = "", *key = "";

    TAKE_OPTIONS(argc, argv, OPTION("serve", serve, 0, 0),
                 OPTION("plain", plain_at, 0, 0), OPTION("curve", curve_at, 0, 0),
                 OPTION("key", key, 0, 0), OPTION("rounds", rounds, 1, ROUNDS_MAX),
                 OPTION("calls", calls, 1, CALLS_MAX),
                 OPTION("batches", batches, 1, BATCHES_MAX), OPTION("row", wanted, 0, 0));
    snprintf(plain_place.endpoint, sizeof(plain_place.endpoint), "%s", plain_at);
    snprintf(curve_place.endpoint, sizeof(curve_place.endpoint), "%s", curve_at);
    snprintf(curve_place.key, sizeof(curve_place.key), "%s", key);
    if (serve || (*plain_at && *curve_at))
        return true;
    fprintf(stderr, "calls: --serve IP, or the endpoints of a server\n");
    return false;
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv))
        return 2;
    if (serve)
        return run_server();
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&echoer)), driver);
}
