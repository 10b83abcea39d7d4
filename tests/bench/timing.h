/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks of collectives time with. */
#ifndef CRTI_TESTS_BENCH_TIMING_H
#define CRTI_TESTS_BENCH_TIMING_H

#include <stdlib.h>
#include <time.h>

static inline double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts `values`. */
static inline double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_size);
    return values[count / 2];
}

#endif
