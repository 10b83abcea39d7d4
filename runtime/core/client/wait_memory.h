/* SPDX-License-Identifier: Apache-2.0 */
/* Wait memory: which refs of a list were ready when crt_wait went through it, beyond those that it
 * gave. The next crt_wait of a program that handles one and waits again begins with these, so that
 * its list is gone through when they are used up and not for each of them.
 *
 * Where it sits
 *     wait.c -> [ wait_memory.c ]
 * Threads
 *     The core's lock. Threads that wait in turn for lists of their own forget each other's, and go
 *     through them.
 * Invariants
 *     It is a hint: a ref is only compared with what stands in the program's list, never followed.
 */
#ifndef CRTI_CORE_CLIENT_WAIT_MEMORY_H
#define CRTI_CORE_CLIENT_WAIT_MEMORY_H

#include "runtime/core/types.h"
#include "runtime/crt.h"

typedef struct crti_wait_memory {
    struct crti_wait_known {
        const crt_ref_t *ref;
        size_t index;
    } * known; /* by index */
    size_t count, room;
    size_t used;  /* of them, from the first on */
    size_t given; /* that the look found first, and gave */
    size_t gone;  /* given before the present crt_wait */
} crti_wait_memory_t;

void crti_wait_memory_fini(crti_wait_memory_t *memory);
/* Another list is gone through. */
void crti_wait_memory_begin(crti_wait_memory_t *memory);
/* Without memory it is forgotten. */
void crti_wait_memory_add(crti_wait_memory_t *memory, const crt_ref_t *ref, size_t index);
/* All of it was gone through; so many were given at once. */
void crti_wait_memory_end(crti_wait_memory_t *memory, size_t given);
/* Another crt_wait begins. */
void crti_wait_memory_again(crti_wait_memory_t *memory);
/* The next one that stands in the list still, at `least` or behind: where it stood, or as far in
 * front of that as others were given, and taken out, meanwhile. False: there is none. */
bool crti_wait_memory_next(crti_wait_memory_t *memory, crt_ref_t *const *refs,
                           size_t count, size_t least, size_t *index_out);

#endif
