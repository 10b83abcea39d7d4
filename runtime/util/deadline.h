/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of waits that consist of several. */
#ifndef CRTI_UTIL_DEADLINE_H
#define CRTI_UTIL_DEADLINE_H

#include <stdint.h>

#include "runtime/base/clock.h"

/* When a wait of `timeout_ms` ends; < 0: never. */
static inline int64_t crti_deadline_after(int64_t timeout_ms)
{
    int64_t now = crti_now_ms();

    return timeout_ms < 0 || timeout_ms > INT64_MAX - now ? INT64_MAX : now + timeout_ms;
}

/* Milliseconds until then, at least 0; -1: there is no end. */
static inline int64_t crti_deadline_left(int64_t deadline)
{
    int64_t left = deadline - crti_now_ms();

    if (deadline == INT64_MAX)
        return -1;
    return left > 0 ? left : 0;
}

#endif
