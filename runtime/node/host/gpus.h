/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs: those that this process may use, under the names by which CUDA knows them. */
#ifndef CRTI_NODE_GPUS_H
#define CRTI_NODE_GPUS_H

#include <stddef.h>
#include <stdint.h>

#define CRTI_GPU_NAMES 64
#define CRTI_GPU_NAME  48 /* bytes of one with its final zero: "GPU-" and a UUID fit */
#define CRTI_GPU_TEXT  (CRTI_GPU_NAMES * CRTI_GPU_NAME) /* of all, with commas */

typedef struct crti_gpus {
    unsigned count;
    char name[CRTI_GPU_NAMES][CRTI_GPU_NAME];
} crti_gpus_t;

/* Those of `visible` (CUDA_VISIBLE_DEVICES; as in CUDA what follows an entry that is none does not count),
 * or when that is NULL one for each device file /dev/nvidiaN below `root`: "0", "1", ... */
void crti_gpus_find(const char *visible, const char *root, crti_gpus_t *gpus_out);
/* There are so many: more have the numbers that follow, fewer leave the last ones out. */
void crti_gpus_set_count(crti_gpus_t *gpus, unsigned count);
/* "0,2" for the set of bits, as in CUDA_VISIBLE_DEVICES; `text` has CRTI_GPU_TEXT bytes. Returns `text`. */
const char *crti_gpus_format(const crti_gpus_t *gpus, uint64_t set, char *text);

#endif
