/* SPDX-License-Identifier: Apache-2.0 */
/* Asked: what a member was asked for, as backends compare it and people read it.
 *
 * Where it sits
 *     step (backend.h) -> [ asked.c ] -> shared memory of shm, greeting of nccl, texts of all
 * It comes from other members too: every field may have any value.
 */
#ifndef CRTI_COLLECTIVE_ASKED_H
#define CRTI_COLLECTIVE_ASKED_H

#include "collective/backend.h"

typedef struct crti_asked {
    uint64_t sequence, count;
    int32_t kind, dtype, reduction, peer;
} crti_asked_t;

/* As the caller called: an inner step is named by what it is part of. */
crti_asked_t crti_asked_of(const crti_step_t *step);

/* "allreduce"; NULL: no such kind. */
const char *crti_asked_kind(int32_t kind);

/* "broadcast of 9000 float32, root 1 (operation 3)"; gives `text`. */
const char *crti_asked_describe(const crti_asked_t *asked, char *text, size_t size);

#endif
