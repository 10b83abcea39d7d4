/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: how many results a second a producer can yield to its consumer, what they cost in
 * memory, and how soon a producer ends when its consumer wants no more.
 *
 *     streams [--items N] [--ahead N]
 *
 * N (1000000) integers of a task, then of a method, each taken, read and dropped; at most --ahead
 * of them (generator_backpressure_num_objects, 1000) are out. "grew" is what the driver's memory
 * was at its most during the second half of them, above what it was at the end of the first. Then
 * tensors of 1 MiB, which go through the store. At last streams without end are dropped after 1000
 * items: the time until their calls have ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt.h>

#include "options.h"
#include "own_cluster.h"
#include "timing.h"

#define TENSORS 1000
#define STOPS   200

static int64_t items = 1000000, ahead = 1000;

/* ---------------------------------------------------------------- in the workers */

static crt_status_t numbers(crt_call_t *call)
{
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    for (int64_t i = 0; i < count; i++)
        CRT_TRY(crt_yield(call, i));
    return CRT_OK;
}
static crt_status_t numbers_run(crt_call_t *call)
{
    return numbers(call);
}
static const crt_task_t numbers_task =
    CRT_TASK(.name = "numbers", .run = numbers_run, .signature = "int");

static crt_status_t method_run(void *self, crt_call_t *call)
{
    return numbers(call);
}
static const crt_method_t method =
    CRT_METHOD(.name = "numbers", .run = method_run, .signature = "int");
static const crt_actor_class_t producer =
    CRT_ACTOR_CLASS(.name = "Producer", .methods = CRT_METHODS(&method));

static crt_status_t tensors_run(crt_call_t *call)
{
    static float values[1 << 18];
    const crt_tensor_t view = crt_tensor_floats(values, 1 << 18);

    for (int i = 0; i < TENSORS; i++)
        CRT_TRY(crt_yield(call, &view));
    return CRT_OK;
}
static const crt_task_t tensors_task =
    CRT_TASK(.name = "tensors", .run = tensors_run, .signature = "");

/* ---------------------------------------------------------------- in the driver */

static double resident_mib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file && fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static int64_t take(crt_stream_t *stream)
{
    crt_ref_t *ref;
    int64_t value;

    CRT_CHECK(crt_stream_next(stream, -1, &ref));
    CRT_CHECK(crt_get(ref, &value));
    crt_ref_drop(&ref);
    return value;
}

static void expect_end(crt_stream_t **stream)
{
    crt_ref_t *ref;

    if (crt_stream_next(*stream, -1, &ref) != CRT_END_OF_STREAM) {
        fprintf(stderr, "streams: no end: %s\n", crt_error_detail());
        exit(1);
    }
    crt_stream_drop(stream);
}

static void small(const char *name, crt_stream_t *stream)
{
    double start = now_us(), middle = 0, most = 0, passed;

    for (int64_t i = 0; i < items; i++) {
        if (take(stream) != i)
            abort();
        if (i == items / 2)
            middle = resident_mib();
        if (i > items / 2 && i % 4096 == 0 && resident_mib() > most)
            most = resident_mib();
    }
    expect_end(&stream);
    passed = (now_us() - start) / 1e6;
    printf("%-28s %10.0f items/s   %5.2f s   grew %.1f MiB of %.1f MiB\n", name,
           (double)items / passed, passed, most > middle ? most - middle : 0, middle);
}

static void large(void)
{
    double start = now_us(), passed;
    crt_stream_t *stream = crt_submit_stream(
        &tensors_task, CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 16));
    const crt_tensor_t *tensor;
    crt_ref_t *ref;

    for (int i = 0; i < TENSORS; i++) {
        CRT_CHECK(crt_stream_next(stream, -1, &ref));
        CRT_CHECK(crt_get(ref, &tensor));
        crt_ref_drop(&ref);
    }
    expect_end(&stream);
    passed = (now_us() - start) / 1e6;
    printf("%-28s %10.0f items/s   %5.2f GB/s\n", "tensors of 1 MiB", TENSORS / passed,
           TENSORS * 1048576.0 / passed / 1e9);
}

static void stops(void)
{
    static double took[STOPS];
    double longest = 0;

    for (int i = 0; i < STOPS; i++) {
        crt_stream_t *stream = crt_submit_stream(&numbers_task, NULL, INT64_MAX);
        crt_ref_t *completed = crt_stream_completed(stream);
        double start;

        for (int j = 0; j < 1000; j++)
            take(stream);
        start = now_us();
        crt_stream_drop(&stream);
        if (crt_get(completed, NULL) != CRT_ERR_CANCELLED)
            abort();
        took[i] = (now_us() - start) / 1e3;
        if (took[i] > longest)
            longest = took[i];
        crt_ref_drop(&completed);
    }
    printf("%-28s %10.3f ms median   %.3f ms at most, of %d\n", "end of a producer",
           median(took, STOPS), longest, STOPS);
}

static int driver(int argc, char **argv)
{
    const crt_task_options_t *task =
        CRT_TASK_OPTIONS(.generator_backpressure_num_objects = ahead);
    const crt_call_options_t *call =
        CRT_CALL_OPTIONS(.generator_backpressure_num_objects = ahead);
    crt_actor_t *actor = crt_actor_new(&producer, NULL);

    small("integers of a task", crt_submit_stream(&numbers_task, task, items));
    small("integers of a method", crt_call_stream(actor, &method, call, items));
    large();
    stops();
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    TAKE_OPTIONS(argc, argv, OPTION("items", items, 1, 1e9),
                 OPTION("ahead", ahead, 0, 1e9));
    use_own_cluster();
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&producer),
                                .tasks = CRT_TASKS(&numbers_task, &tensors_task),
                                .num_cpus = 2),
                    driver);
}
