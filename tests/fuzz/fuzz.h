/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target gives to tests/fuzz/driver.c. */
#ifndef CRTI_TESTS_FUZZ_H
#define CRTI_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Feeds one input to the decoder; must survive everything. libFuzzer's name, so that the
 * same file also links with `clang -fsanitize=fuzzer`. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Valid input number `index` into `out`; its size, 0 when there are no more. The driver
 * mutates these. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room);

/* The processor time of this thread: what takes too much of it loops. The clock on the wall would
 * also tell of a machine that is busy with other things, or paused. */
static inline uint64_t fuzz_processor_ns(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

#endif
