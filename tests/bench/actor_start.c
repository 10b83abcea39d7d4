/* SPDX-License-Identifier: Apache-2.0 */
/* How long a new actor takes until it answers its first call.
 *
 * Usage: actor_start [--actors N]
 *
 * One actor at a time: create, call, get, kill. Prints the median and the 99th percentile in
 * milliseconds of create-to-answer.
 */
#include <crt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options.h"
#include "own_cluster.h"

static crt_status_t answer_run(void *self, crt_call_t *call)
{
    return crt_return(call, 42);
}

static const crt_method_t answer =
    CRT_METHOD(.name = "answer", .run = answer_run, .signature = "");
static const crt_actor_class_t echo_class =
    CRT_ACTOR_CLASS(.name = "Echo", .size = 1, .methods = CRT_METHODS(&answer));

static int actors = 200;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int driver(int argc, char **argv)
{
    double *times = calloc((size_t)actors, sizeof(*times));

    if (times == NULL)
        return 1;
    for (int i = 0; i < actors; i++) {
        double start = now_ms();
        crt_actor_t *actor = crt_actor_new(&echo_class, NULL);
        crt_ref_t *ref = crt_call(actor, &answer);
        int64_t value = 0;

        CRT_CHECK(crt_get(ref, &value));
        times[i] = now_ms() - start;
        crt_ref_drop(&ref);
        CRT_CHECK(crt_actor_kill(actor, NULL));
        crt_actor_drop(&actor);
    }
    printf("first actor (starts the zygote) %.2f ms\n", times[0]);
    qsort(times, (size_t)actors, sizeof(*times), by_size);
    printf("new actor answers: p50 %.2f ms, p99 %.2f ms, %d actors\n", times[actors / 2],
           times[actors * 99 / 100], actors);
    free(times);
    return 0;
}

int main(int argc, char **argv)
{
    TAKE_OPTIONS(argc, argv, OPTION("actors", actors, 1, 1e6));
    use_own_cluster();
    return crt_main(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&echo_class)), driver);
}
