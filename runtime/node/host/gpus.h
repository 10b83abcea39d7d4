/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs: those that this process may use, under the names by which CUDA knows them. */
#ifndef CRTI_NODE_GPUS_H
#define CRTI_NODE_GPUS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/node/host/nvml.h"

#define CRTI_GPU_NAMES CRTI_NVML_GPUS
#define CRTI_GPU_NAME  CRTI_NVML_UUID /* bytes of one with its final zero */
#define CRTI_GPU_TEXT  (CRTI_GPU_NAMES * CRTI_GPU_NAME) /* of all, with commas */
#define CRTI_GPU_TYPE  64 /* of a type: it is the value of a label */

typedef struct crti_gpus {
    unsigned count;
    char name[CRTI_GPU_NAMES][CRTI_GPU_NAME];
} crti_gpus_t;

/* Those of `visible` (CUDA_VISIBLE_DEVICES; as in CUDA what follows an entry that is none does not
 * count), or when that is NULL "0", "1", ...: one for each GPU that NVML has, or where it can't be
 * asked (`nvml` is NULL), for each device file /dev/nvidiaN below `root`. GPUs that can't be used
 * whole, as MIG divides them, are none; the others then go by their UUIDs, as CUDA gives them other
 * numbers than NVML. */
void crti_gpus_find(const char *visible, const char *root, const crti_nvml_t *nvml,
                    crti_gpus_t *gpus_out);
/* What kind the first of them is, under Ray's names: "H100", "A10G"; kinds that Ray has no name
 * for, under their own: "GeForce-RTX-3090". `type` has CRTI_GPU_TYPE bytes; "" when NVML knows no
 * GPU. Returns `type`. */
const char *crti_gpus_type(const crti_gpus_t *gpus, const crti_nvml_t *nvml, char *type);
/* There are so many: more have the numbers that follow, fewer leave the last ones out. */
void crti_gpus_set_count(crti_gpus_t *gpus, unsigned count);
/* "0,2" for the set of bits, as in CUDA_VISIBLE_DEVICES; `text` has CRTI_GPU_TEXT bytes. Returns
 * `text`. */
const char *crti_gpus_format(const crti_gpus_t *gpus, uint64_t set, char *text);

#endif
