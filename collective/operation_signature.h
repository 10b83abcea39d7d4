/* SPDX-License-Identifier: Apache-2.0 */
/* Operation signature: what all members of an operation must agree on. Backends compare it, and
 * messages describe it.
 *
 * Where it sits
 *     step (backend.h) -> [ operation_signature.c ] -> shared memory of shm, handshake of nccl,
 *     messages of all
 * Signatures come from other members, too: every field may have any value.
 */
#ifndef CRTI_COLLECTIVE_OPERATION_SIGNATURE_H
#define CRTI_COLLECTIVE_OPERATION_SIGNATURE_H

#include "collective/backend.h"

/* Of int64, which each member gathers when a group is split. */
#define CRTI_SPLIT_NUMBERS 3

typedef struct crti_operation_signature {
    uint64_t sequence, count;
    int32_t kind, dtype, reduction, peer;
} crti_operation_signature_t;

/* An inner step has the kind of the operation that it is part of. */
crti_operation_signature_t crti_operation_signature_of(const crti_step_t *step);

/* "allreduce"; NULL: no such kind. */
const char *crti_operation_kind_name(int32_t kind);

/* "broadcast of 9000 float32, root 1 (operation 3)"; returns `text`. */
const char *crti_operation_describe(const crti_operation_signature_t *signature,
                                    char *text, size_t size);

#endif
