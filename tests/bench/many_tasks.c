/* SPDX-License-Identifier: Apache-2.0 */
/* Long queues: what many tasks, arguments, results and objects cost one driver.
 *
 *     many_tasks [--tasks N] [--rounds N] [--only NAME]
 *
 * The rows of Ray's single-node test, with its sizes:
 *     queue       N tasks (1,000,000) submitted while every processor is taken, then the processors
 *     are
 *                 let go and each result is fetched and dropped, one after the other; and what the
 *                 driver's memory grew by at most
 *     chain       10,000 tasks, each with the result of the one before as its argument
 *     arguments   one task with 10,000 refs to lists of 10,000 ints, which it reads
 *     returns     one task with 3,000 lists of 10,000 ints as its results, each fetched
 *     gets        10,000 lists of 10,000 ints, each put and fetched
 *     dropped     N tasks (1,000,000) submitted behind taken processors and dropped: none runs
 * The lists are tensors. Each row is the median of --rounds (3) rounds. Of `returns` and `gets` the
 * bare copying is told beside it: the same lists made, copied into memory that was touched before,
 * and summed up, in turns with the rounds; and the ratio of the least times.
 */
#include <crt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "own_cluster.h"
#include "timing.h"

#define ROUNDS_MAX 100
#define ITEMS      10000 /* ints of a list */
#define CHAIN      10000
#define ARGUMENTS  10000
#define RETURNS    3000
#define GETS       10000

static struct {
    int64_t tasks, rounds;
    const char *only;
} options = {1000000, 3, NULL};

/* ---------------------------------------------------------------- tasks */

static crt_status_t nothing_run(crt_call_t *call)
{
    return CRT_OK;
}
static const crt_task_t nothing =
    CRT_TASK(.name = "nothing", .run = nothing_run, .signature = "");

/* Until the file of that name is there. */
static crt_status_t wait_for_file_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    while (access(path, F_OK) != 0)
        usleep(200);
    return CRT_OK;
}
static const crt_task_t wait_for_file =
    CRT_TASK(.name = "wait_for_file", .run = wait_for_file_run, .signature = "string");

static crt_status_t next_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number + 1);
}
static const crt_task_t next =
    CRT_TASK(.name = "next", .run = next_run, .signature = "int");

static int64_t sum_of(const crt_tensor_t *list)
{
    const int64_t *items = list->data;
    int64_t sum = 0;

    for (int i = 0; i < ITEMS; i++)
        sum += items[i];
    return sum;
}

static crt_status_t sum_run(crt_call_t *call)
{
    int64_t sum = 0;

    for (size_t i = 0; i < crt_arg_count(call); i++) {
        const crt_tensor_t *list;

        CRT_TRY(crt_arg_at(call, i, &list));
        sum += sum_of(list);
    }
    return crt_return(call, sum);
}
static const crt_task_t sum =
    CRT_TASK(.name = "sum", .run = sum_run, .signature = "tensor...");

static int64_t list[ITEMS];

static crt_tensor_t new_list(int64_t last)
{
    static const int64_t count = ITEMS;

    for (int i = 0; i < ITEMS; i++)
        list[i] = i;
    list[ITEMS - 1] = last;
    return crt_tensor_view(CRT_DTYPE_INT64, 1, &count, list);
}

static crt_status_t lists_run(crt_call_t *call)
{
    for (unsigned i = 0; i < RETURNS; i++) {
        crt_tensor_t tensor = new_list(i);

        CRT_TRY(crt_return_at(call, i, &tensor));
    }
    return CRT_OK;
}
static const crt_task_t lists =
    CRT_TASK(.name = "lists", .run = lists_run, .signature = "");

/* ---------------------------------------------------------------- rows */

/* Bytes of this process that are in memory. */
static double resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f || fscanf(f, "%llu %llu", &size, &resident) != 2)
        fprintf(stderr, "many_tasks: /proc/self/statm can't be read\n");
    if (f)
        fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void check(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "many_tasks: %s\n", what);
    exit(1);
}

static void *list_of(size_t count, size_t size)
{
    void *items = calloc(count, size);

    check(items != NULL, "out of memory");
    memset(items, 0, count * size); /* its pages are there before anything is measured */
    return items;
}

/* Processors that are taken until a file is made. */
typedef struct gate {
    char path[64];
    crt_ref_t *holders[64];
    int count;
} gate_t;

static void close_gate(gate_t *gate)
{
    snprintf(gate->path, sizeof(gate->path), "/tmp/crt-many-tasks-%d", getpid());
    unlink(gate->path);
    gate->count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (gate->count > 64)
        gate->count = 64;
    for (int i = 0; i < gate->count; i++)
        gate->holders[i] = crt_submit(&wait_for_file, NULL, (const char *)gate->path);
}

static void open_gate(gate_t *gate)
{
    FILE *f = fopen(gate->path, "we");

    check(f != NULL, gate->path);
    fclose(f);
}

static void end_gate(gate_t *gate)
{
    for (int i = 0; i < gate->count; i++)
        CRT_CHECK(crt_get(gate->holders[i], NULL));
    crt_refs_drop(gate->holders, (size_t)gate->count);
    unlink(gate->path);
}

static double grown_mb;

static double queue(void)
{
    size_t count = (size_t)options.tasks;
    crt_ref_t **refs = list_of(count, sizeof(crt_ref_t *));
    double bytes = resident_bytes(), start, us;
    gate_t gate;

    close_gate(&gate);
    start = now_us();
    for (size_t i = 0; i < count; i++)
        refs[i] = crt_submit(&nothing, NULL);
    bytes = (resident_bytes() - bytes) / 1e6;
    if (bytes > grown_mb) /* another round finds memory of the one before */
        grown_mb = bytes;
    open_gate(&gate);
    for (size_t i = 0; i < count; i++) {
        CRT_CHECK(crt_get(refs[i], NULL));
        crt_ref_drop(&refs[i]);
    }
    us = now_us() - start;
    end_gate(&gate);
    free(refs);
    return us;
}

static double dropped(void)
{
    gate_t gate;
    double start, us;

    close_gate(&gate);
    start = now_us();
    for (int64_t i = 0; i < options.tasks; i++) {
        crt_ref_t *ref = crt_submit(&nothing, NULL);

        crt_ref_drop(&ref);
    }
    us = now_us() - start;
    open_gate(&gate);
    end_gate(&gate);
    return us;
}

static double chain(void)
{
    double start = now_us(), us;
    crt_ref_t *ref = crt_submit(&next, NULL, 0);
    int64_t number;

    for (int i = 1; i < CHAIN; i++) {
        crt_ref_t *after = crt_submit(&next, NULL, ref);

        crt_ref_drop(&ref);
        ref = after;
    }
    CRT_CHECK(crt_get(ref, &number));
    us = now_us() - start;
    crt_ref_drop(&ref);
    check(number == CHAIN, "the chain's result is wrong");
    return us;
}

static void put_lists(crt_ref_t **refs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        crt_tensor_t tensor = new_list((int64_t)i);

        refs[i] = crt_put(&tensor);
    }
}

/* The sum of `count` lists of new_list. */
static int64_t sum_of_all(int64_t count)
{
    return count * ((int64_t)(ITEMS - 1) * (ITEMS - 2) / 2) + count * (count - 1) / 2;
}

static double arguments(void)
{
    crt_ref_t **refs = list_of(ARGUMENTS, sizeof(crt_ref_t *));
    crt_ref_t *result;
    int64_t total;
    double start, us;

    put_lists(refs, ARGUMENTS);
    start = now_us();
    result = crt_submit(&sum, NULL, crt_arg_each(refs, ARGUMENTS));
    CRT_CHECK(crt_get(result, &total));
    us = now_us() - start;
    check(total == sum_of_all(ARGUMENTS), "the sum of the arguments is wrong");
    crt_ref_drop(&result);
    crt_refs_drop(refs, ARGUMENTS);
    free(refs);
    return us;
}

static int64_t get_lists(crt_ref_t **refs, size_t count)
{
    int64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        const crt_tensor_t *tensor;

        CRT_CHECK(crt_get(refs[i], &tensor));
        total += sum_of(tensor);
    }
    return total;
}

static double returns(void)
{
    crt_ref_t **refs = list_of(RETURNS, sizeof(crt_ref_t *));
    double start = now_us(), us;
    int64_t total;

    crt_submit_returns_v(refs, RETURNS, &lists, NULL, NULL, 0);
    total = get_lists(refs, RETURNS);
    us = now_us() - start;
    check(total == sum_of_all(RETURNS), "the sum of the results is wrong");
    crt_refs_drop(refs, RETURNS);
    free(refs);
    return us;
}

/* `count` lists without any of crt. */
static double bare(size_t count)
{
    static char *memory; /* of GETS lists */
    double start, us;
    int64_t total = 0;

    if (!memory)
        memory = list_of(GETS, sizeof(list));
    start = now_us();
    for (size_t i = 0; i < count; i++) {
        crt_tensor_t tensor = new_list((int64_t)i);

        memcpy(memory + i * sizeof(list), tensor.data, sizeof(list));
    }
    for (size_t i = 0; i < count; i++) {
        crt_tensor_t tensor = crt_tensor_view(CRT_DTYPE_INT64, 1, &(int64_t){ITEMS},
                                              memory + i * sizeof(list));

        total += sum_of(&tensor);
    }
    us = now_us() - start;
    check(total == sum_of_all((int64_t)count), "the sum of what was copied is wrong");
    return us;
}

static double gets(void)
{
    crt_ref_t **refs = list_of(GETS, sizeof(crt_ref_t *));
    double start = now_us(), us;
    int64_t total;

    put_lists(refs, GETS);
    total = get_lists(refs, GETS);
    us = now_us() - start;
    check(total == sum_of_all(GETS), "the sum of the objects is wrong");
    crt_refs_drop(refs, GETS);
    free(refs);
    return us;
}

/* ---------------------------------------------------------------- driver */

static bool is_wanted(const char *name)
{
    return !options.only || strcmp(options.only, name) == 0;
}

static void measure(const char *name, int64_t count, const char *what,
                    double (*body)(void))
{
    bool is_copying = body == returns || body == gets;
    double us[ROUNDS_MAX], bare_us[ROUNDS_MAX], least, most;

    if (!is_wanted(name))
        return;
    for (int i = 0; i < options.rounds; i++) {
        us[i] = body();
        bare_us[i] = is_copying ? bare((size_t)count) : 0;
    }
    (void)median(us, (int)options.rounds);
    least = us[0], most = us[options.rounds - 1];
    printf("%-10s %8lld %-10s %9.2f ms (%.2f to %.2f), %.3f us each", name,
           (long long)count, what, us[options.rounds / 2] / 1e3, least / 1e3, most / 1e3,
           us[options.rounds / 2] / (double)count);
    if (body == queue)
        printf(", the driver grew by %.1f MB", grown_mb);
    if (is_copying) {
        (void)median(bare_us, (int)options.rounds);
        printf(", bare copying %.2f ms, ratio %.2f", bare_us[0] / 1e3,
               least / bare_us[0]);
    }
    printf("\n");
    fflush(stdout);
}

static int driver(int argc, char **argv)
{
    measure("queue", options.tasks, "tasks", queue);
    measure("dropped", options.tasks, "tasks", dropped);
    measure("chain", CHAIN, "tasks", chain);
    measure("arguments", ARGUMENTS, "lists", arguments);
    measure("returns", RETURNS, "lists", returns);
    measure("gets", GETS, "lists", gets);
    return 0;
}

int main(int argc, char **argv)
{
    use_own_cluster();
    TAKE_OPTIONS(argc, argv, OPTION("tasks", options.tasks, 1, 1e9),
                 OPTION("rounds", options.rounds, 1, ROUNDS_MAX),
                 OPTION("only", options.only, 0, 0));
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&nothing, &wait_for_file, &next, &sum, &lists)),
        driver);
}
