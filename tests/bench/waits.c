/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for many refs: what each costs, by the number of refs.
 *
 *     waits [--refs N]
 *
 * Rows, of microseconds for each ref, and how many of them the driver's thread computed (on a
 * machine that does other things, too, that is the figure):
 *     add     crt_waitset_add_ref of --refs (1,000,000) refs that are ready
 *     next    crt_waitset_next of them, which drops the ref of the event before
 *     fd      the same with a descriptor
 *     any     the loop of a guide, crt_wait for one of n, crt_get, the last takes its place: of n
 *     refs
 *             that are ready, and of tasks that were just submitted; n is 1,000, 4,000, 16,000,
 *             64,000
 *     set     the same tasks in a wait set
 *     order   the same tasks, crt_get of one after the other
 *     all     the same tasks, crt_refs_wait
 */
#include <crt.h>

#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "own_cluster.h"
#include "timing.h"

#define LOOPS_MAX 64000

static size_t count = 1000000;

static crt_status_t one_run(crt_call_t *call)
{
    return crt_return(call, 1);
}
static const crt_task_t one = CRT_TASK(.name = "one", .run = one_run, .signature = "");

typedef struct watch {
    double us, cpu_us;
} watch_t;

static watch_t watch_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (watch_t){now_us(), (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3};
}

static void row(const char *name, size_t n, watch_t start)
{
    watch_t end = watch_now();

    printf("%-22s %8zu refs  %8.3f us each, %7.3f of its thread\n", name, n,
           (end.us - start.us) / (double)n, (end.cpu_us - start.cpu_us) / (double)n);
    fflush(stdout);
}

/* ---------------------------------------------------------------- sets */

static void time_set(bool has_fd)
{
    crt_ref_t **refs = malloc(count * sizeof(*refs));
    crt_event_t event = CRT_EVENT_INIT;
    crt_waitset_t *set;
    size_t taken = 0;
    watch_t start;
    int fd;

    CRT_CHECK(crt_waitset_new(&set));
    if (has_fd)
        CRT_CHECK(crt_waitset_fd(set, &fd));
    for (size_t i = 0; i < count; i++)
        refs[i] = crt_put((int64_t)i);
    start = watch_now();
    for (size_t i = 0; i < count; i++)
        CRT_CHECK(crt_waitset_add_ref(set, refs[i], &refs[i]));
    row(has_fd ? "add, fd" : "add", count, start);
    crt_refs_drop(refs, count);
    start = watch_now();
    while (crt_waitset_next(set, 0, &event) == CRT_OK)
        taken++;
    row(has_fd ? "next, fd" : "next", count, start);
    if (taken != count)
        abort();
    crt_waitset_drop(&set);
    free(refs);
}

/* ---------------------------------------------------------------- loops */

static void submit(crt_ref_t **refs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        refs[i] = crt_submit(&one, NULL);
}

static void take(crt_ref_t **ref)
{
    int64_t number;

    CRT_CHECK(crt_get(*ref, &number));
    crt_ref_drop(ref);
}

static void any(crt_ref_t **refs, size_t n)
{
    size_t ready, found;

    for (size_t left = n; left > 0; left--) {
        CRT_CHECK(crt_wait(refs, left, 1, -1, &ready, &found));
        take(&refs[ready]);
        refs[ready] = refs[left - 1];
    }
}

static void by_set(crt_ref_t **refs, size_t n)
{
    crt_event_t event = CRT_EVENT_INIT;
    crt_waitset_t *set;

    CRT_CHECK(crt_waitset_new(&set));
    for (size_t i = 0; i < n; i++)
        CRT_CHECK(crt_waitset_add_ref(set, refs[i], NULL));
    crt_refs_drop(refs, n);
    while (crt_waitset_next(set, -1, &event) == CRT_OK)
        CRT_CHECK(crt_get(event.ref, NULL));
    crt_waitset_drop(&set);
}

static void in_order(crt_ref_t **refs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        take(&refs[i]);
}

static void all(crt_ref_t **refs, size_t n)
{
    CRT_CHECK(crt_refs_wait(refs, n, NULL, -1, NULL));
    in_order(refs, n);
}

static void time_loop(const char *name, void (*loop)(crt_ref_t **refs, size_t n),
                      size_t n, bool is_ready)
{
    crt_ref_t **refs = malloc(n * sizeof(*refs));
    watch_t start = watch_now();

    submit(refs, n);
    if (is_ready) {
        CRT_CHECK(crt_refs_wait(refs, n, NULL, -1, NULL));
        start = watch_now();
    }
    loop(refs, n);
    row(name, n, start);
    free(refs);
}

static int driver(int argc, char **argv)
{
    crt_ref_t *warm[1000];

    submit(warm, 1000);
    in_order(warm, 1000);
    time_set(false);
    time_set(true);
    for (size_t n = 1000; n <= LOOPS_MAX; n *= 4) {
        time_loop("any, ready", any, n, true);
        time_loop("any, submit and wait", any, n, false);
        time_loop("set, submit and wait", by_set, n, false);
        time_loop("order, submit and get", in_order, n, false);
        time_loop("all, submit and wait", all, n, false);
    }
    return 0;
}

int main(int argc, char **argv)
{
    TAKE_OPTIONS(argc, argv, OPTION("refs", count, 1, 1e9));
    use_own_cluster();
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&one), .object_store_memory = 256 << 20), driver);
}
