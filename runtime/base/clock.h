/* SPDX-License-Identifier: Apache-2.0 */
/* Time. State machines never call this: their loops read the clock once and hand it in. */
#ifndef CRTI_BASE_CLOCK_H
#define CRTI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CRTI_US 1000ull       /* nanoseconds of a microsecond */
#define CRTI_MS 1000000ull    /* nanoseconds of a millisecond */
#define CRTI_S  1000000000ull /* nanoseconds of a second */

/* Nanoseconds of the monotonic clock. */
static inline uint64_t crti_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * CRTI_S + (uint64_t)t.tv_nsec;
}

static inline int64_t crti_now_ms(void)
{
    return (int64_t)(crti_now_ns() / CRTI_MS);
}

static inline double crti_now_s(void)
{
    return (double)crti_now_ns() / (double)CRTI_S;
}

/* Nanoseconds since the host booted, also those in which it slept. */
static inline uint64_t crti_boot_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * CRTI_S + (uint64_t)t.tv_nsec;
}

/* Milliseconds since 1970, for what people read. */
static inline int64_t crti_wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#endif
