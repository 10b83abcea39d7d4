/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of deadlines. */
#ifndef CRTI_CLI_CLOCK_H
#define CRTI_CLI_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds of the monotonic clock. */
static inline int64_t crti_cli_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#endif
