/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device that is none: the same pages are mapped twice, for the host without rights, so
 * that nobody touches them but through the stand-ins (fake_cuda/, collective/fake_nccl/). Callers
 * have the lock of their list. */
#ifndef CRTI_TESTS_DEVICE_MEMORY_H
#define CRTI_TESTS_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct device_block {
    struct device_block *next;
    char *device, *memory; /* the same pages: without rights, and with */
    size_t bytes, mapped;  /* there is at least a byte behind the end */
    bool is_pinned;        /* memory of the host, and its caller's: device == memory */
} device_block_t;

/* First in the list, with zeros; NULL: the system has no memory for it. */
device_block_t *device_block_new(device_block_t **list, size_t bytes);

/* The block that has `bytes` from `at` on; NULL: none. */
device_block_t *device_block_find(device_block_t *list, const void *at, size_t bytes);

/* Out of the list, for device_block_free; NULL: no block begins there. */
device_block_t *device_block_take(device_block_t **list, const void *device);
void device_block_free(device_block_t *block);

/* What lies behind `bytes` of the device's memory; NULL: they are none, or are pinned. */
void *device_block_memory(device_block_t *list, const void *device, size_t bytes);

#endif
