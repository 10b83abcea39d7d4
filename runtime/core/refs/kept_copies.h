/* SPDX-License-Identifier: Apache-2.0 */
/* Kept copies: objects of ours of which several nodes have the bytes for as long as somebody holds
 * the object (option copies).
 *
 * Where it sits
 *     content.c (its bytes have come), refs.c (it ends), deaths.c (NODE_DIED), node_messages.c
 *     (NODE_DRAIN), the tick -> [ kept_copies.c ] -> COPY_MAKE to the node daemon, which has
 *     another node pull it
 * Threads
 *     The core's lock.
 * States of an object with the option
 *     its bytes have not come -> due -> asked -> settled; due again when a node of its copies dies
 *     or is drained, or the node that was asked can't have it
 * Failure
 *     Where no other node can have one, the object works with the copies that it has. It is told
 *     once, and tried again from time to time.
 */
#ifndef CRTI_CORE_KEPT_COPIES_H
#define CRTI_CORE_KEPT_COPIES_H

#include <stdlib.h>

#include "runtime/core/refs/refs.h"

#define CRTI_COPIES_MAX 4

/* Of one object. */
struct crti_kept_copies {
    crti_list_t link; /* core->refs->copies_due or copies_settled, or in none: is_asked */
    crt_ref_t *ref;
    bool is_asked;
    unsigned wanted, count;
    crti_id_t nodes[CRTI_COPIES_MAX];
    crti_id_t failed; /* the node that could not have it last; zero: none */
};

/* CRT_ERR_INVALID: not a number of copies. 0 is one. */
static inline crt_status_t crti_kept_copies_check(int64_t copies)
{
    return copies >= 0 && copies <= CRTI_COPIES_MAX
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID, "copies is %lld: 1 to %d, or 0 for one",
                           (long long)copies, CRTI_COPIES_MAX);
}
/* The job's default. What is no number of copies counts as one. */
void crti_kept_copies_default(crti_core_t *core, int64_t copies);
/* An object of ours shall have so many, with the first one; 0: the default. */
crt_status_t crti_kept_copies_want(crt_ref_t *ref, int64_t copies);
/* Its bytes have come, to that node; it is freed next. */
void crti_kept_copies_stored(crt_ref_t *ref, crti_id_t node);
static inline void crti_kept_copies_end(crt_ref_t *ref)
{
    crti_list_remove(&ref->more->copies->link);
    free(CRTI_TAKE(ref->more->copies));
}
/* A node has died that had one; the copy of one that is drained is at our node now. */
void crti_kept_copies_lost(crt_ref_t *ref, crti_id_t node);
void crti_kept_copies_moved(crt_ref_t *ref, crti_id_t node);
/* A node is drained: it does not count any more. */
void crti_kept_copies_drain(crti_core_t *core);
/* Whether another node is about to have it. */
bool crti_kept_copies_are_coming(const crt_ref_t *ref);
void crti_kept_copies_tick(crti_core_t *core, uint64_t now_ns);

#endif
