/* SPDX-License-Identifier: Apache-2.0 */
/* Data that repeats after a period. Tests make and check the first period element by element; the
 * rest is right when it is what lies one period before it, which memcpy and memcmp see faster. */
#ifndef CRT_TESTS_COLLECTIVE_PERIODIC_H
#define CRT_TESTS_COLLECTIVE_PERIODIC_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Of `count` elements those that are made or checked one by one. */
static inline size_t first_period(size_t count, size_t period)
{
    return count < period ? count : period;
}

/* Copies the first period of `data` (both in bytes) over the rest. */
static inline void repeat_period(void *data, size_t period, size_t size)
{
    for (size_t done = period, part; done < size; done += part) {
        part = done < size - done ? done : size - done;
        memcpy((char *)data + done, data, part);
    }
}

static inline bool is_repeated(const void *data, size_t period, size_t size)
{
    return size <= period ||
           memcmp((const char *)data + period, data, size - period) == 0;
}

#endif
