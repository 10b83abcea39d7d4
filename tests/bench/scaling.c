/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and clock of the scaling benchmark. See scaling.h. */
#include "scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    WIDTH = 96,
    ROWS = 2000,
    PIECES = 3, /* of the maxout layers of tok2vec */
    WINDOW = 3, /* words that a layer sees */
    FEATURES = 6,
    HIDDEN = 64,
    STATE_PIECES = 2,
    MOVES = 18
};

static scaling_array_t arrays[SCALING_ARRAYS];

static void add(size_t *number, const char *name, size_t count)
{
    size_t at = *number ? arrays[*number - 1].at + arrays[*number - 1].count : 0;

    if (*number == SCALING_ARRAYS) {
        fprintf(stderr, "scaling: more than %d arrays\n", SCALING_ARRAYS);
        exit(1);
    }
    arrays[(*number)++] = (scaling_array_t){name, at, count};
}

static void add_maxout(size_t *number, size_t inputs)
{
    add(number, "maxout W", (size_t)WIDTH * PIECES * inputs);
    add(number, "maxout b", (size_t)WIDTH * PIECES);
    add(number, "norm G", WIDTH);
    add(number, "norm b", WIDTH);
}

const scaling_array_t *scaling_arrays(void)
{
    size_t n = 0, total;

    if (arrays[0].count)
        return arrays;
    add(&n, "embed NORM", (size_t)ROWS * WIDTH);
    add(&n, "embed PREFIX", (size_t)ROWS / 2 * WIDTH);
    add(&n, "embed SUFFIX", (size_t)ROWS / 2 * WIDTH);
    add(&n, "embed SHAPE", (size_t)ROWS / 2 * WIDTH);
    add_maxout(&n, 4 * (size_t)WIDTH);
    for (int i = 0; i < 4; i++)
        add_maxout(&n, WINDOW * (size_t)WIDTH);
    add(&n, "linear W", (size_t)HIDDEN * WIDTH);
    add(&n, "linear b", HIDDEN);
    add(&n, "lower W", (size_t)FEATURES * HIDDEN * STATE_PIECES * HIDDEN);
    add(&n, "lower b", (size_t)HIDDEN * STATE_PIECES);
    add(&n, "lower pad", (size_t)FEATURES * HIDDEN * STATE_PIECES);
    add(&n, "upper W", (size_t)MOVES * HIDDEN);
    add(&n, "upper b", MOVES);
    total = arrays[n - 1].at + arrays[n - 1].count;
    if (n != SCALING_ARRAYS || total != SCALING_FLOATS) {
        fprintf(stderr, "scaling: %zu arrays of %zu floats, not %d of %d\n", n, total,
                SCALING_ARRAYS, SCALING_FLOATS);
        exit(1);
    }
    return arrays;
}

int scaling_buckets(size_t bytes, scaling_bucket_t buckets[SCALING_ARRAYS])
{
    const scaling_array_t *all = scaling_arrays();
    size_t end = SCALING_FLOATS;
    int count = 0;

    for (int i = SCALING_ARRAYS - 1; i >= 0; i--) {
        size_t floats = end - all[i].at;

        if (i > 0 && (bytes == 0 || floats * sizeof(float) < bytes))
            continue;
        buckets[count++] = (scaling_bucket_t){all[i].at, floats};
        end = all[i].at;
    }
    return count;
}

uint64_t scaling_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

scaling_clock_t scaling_clock(double update_ms)
{
    uint64_t all = (uint64_t)(update_ms * 1e6);

    return (scaling_clock_t){.forward_ns = all / 3, .backward_ns = all - all / 3};
}

void scaling_clock_start(scaling_clock_t *clock)
{
    clock->start_ns = scaling_now_ns();
}

void scaling_clock_wait(const scaling_clock_t *clock, size_t at)
{
    double share = (double)(SCALING_FLOATS - at) / SCALING_FLOATS;
    uint64_t when = clock->start_ns + clock->forward_ns +
                    (uint64_t)(share * (double)clock->backward_ns);
    struct timespec until = {.tv_sec = (time_t)(when / 1000000000),
                             .tv_nsec = (long)(when % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
}

void scaling_clock_delay(scaling_clock_t *clock, uint64_t ns)
{
    clock->start_ns += ns;
}

float scaling_gradient(int rank, int64_t update)
{
    return (float)(rank + 1 + update % 7);
}

float scaling_weight(int workers, int64_t updates)
{
    int64_t sum = 0;

    for (int64_t u = 0; u < updates; u++)
        sum += u % 7;
    return (float)(updates * workers * (workers + 1) / 2 + workers * sum);
}

crt_status_t scaling_check(const float *floats, size_t count, float wanted,
                           const char *what)
{
    for (size_t i = 0; i<count; i += count> 1 ? count - 1 : 1)
        if (!(fabsf(floats[i] - wanted) < 0.5f)) /* a mean of 3 is not exact */
            return crt_raise(CRT_ERR_CORRUPT, "%s: float %zu of %zu is %g, not %g", what,
                             i, count, (double)floats[i], (double)wanted);
    return CRT_OK;
}
