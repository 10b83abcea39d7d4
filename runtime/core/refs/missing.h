/* SPDX-License-Identifier: Apache-2.0 */
/* Missing objects of ours. See missing.c; the core's lock covers all of it. */
#ifndef CRTI_CORE_MISSING_H
#define CRTI_CORE_MISSING_H

#include "runtime/core/refs/refs.h"

/* The content was known, and turned out not to be had: the ref fails. */
void crti_ref_lose(crt_ref_t *ref, crt_status_t status);
/* A borrower has found the bytes of one of ours, under that name, on none of the nodes that it was
 * told: the last copy was evicted, say. They are made again, if that can be. */
void crti_ref_missed_by_borrower(crt_ref_t *ref, uint64_t object);
/* Deaths of who owns it; of a node, which had a copy of one of ours perhaps. */
void crti_ref_owner_died(crt_ref_t *ref, const char *text);
void crti_ref_node_died(crt_ref_t *ref, crti_id_t node);
/* What an attempt of its call has stored there is freed, and the call is made again: until then it
 * is missing, if there is no other copy. */
void crti_ref_abandon(crt_ref_t *ref, crti_id_t node);
static inline bool crti_ref_is_missing(const crt_ref_t *ref)
{
    return ref->is_owned && ref->owned.state == CRTI_OWNED_MISSING;
}
void crti_missing_begin(crt_ref_t *ref);
/* Somebody waits for its content: if it is missing, that ends some time. */
static inline void crti_missing_wanted(crt_ref_t *ref)
{
    if (crti_ref_is_missing(ref) && !ref->is_locating)
        crti_missing_begin(ref);
}
/* Where are the copies of the target that a stored result is forwarded to? What is found becomes
 * known of `ref`, too. */
void crti_missing_ask_target(crt_ref_t *ref);
void crti_missing_tick(crti_core_t *core, uint64_t now_ns);
/* No tick will come: what is wanted is let go. */
void crti_missing_end(crti_core_t *core);

#endif
