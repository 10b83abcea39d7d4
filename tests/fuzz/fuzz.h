/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target gives to tests/fuzz/driver.c. */
#ifndef CRTI_TESTS_FUZZ_H
#define CRTI_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Feeds one input to the decoder; must survive everything. libFuzzer's name, so that the
 * same file also links with `clang -fsanitize=fuzzer`. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Valid input number `index` into `out`; its size, 0 when there are no more. The driver
 * mutates these. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room);

#endif
