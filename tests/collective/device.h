/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for the tests' tensors, from the same CUDA runtime that the library opens. */
#ifndef CRTI_TESTS_COLLECTIVE_DEVICE_H
#define CRTI_TESTS_COLLECTIVE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is a GPU, and NCCL: if not, `*why_out` says what is missing. */
bool device_is_there(const char **why_out);
/* A copy of host memory on device 0; NULL when that fails. */
void *device_copy_of(const void *host, size_t bytes);
/* Starts a copy on the default stream, and does not wait for it. */
bool device_fill_later(void *device, const void *host, size_t bytes);
/* Back to the host; frees it. False when that fails. */
bool device_take_back(void *host, void *device, size_t bytes);

#endif
