/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word of shared memory, and waking the sleepers. */
#ifndef CRTI_STORE_FUTEX_H
#define CRTI_STORE_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns when woken, when *word is not `value`, after `ns`, or on a signal. */
static inline void crti_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
                         .tv_nsec = (long)(ns % 1000000000u)};

    syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

static inline void crti_futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

#endif
