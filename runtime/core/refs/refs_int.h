/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of refs/, which its own files see. */
#ifndef CRTI_CORE_REFS_REFS_INT_H
#define CRTI_CORE_REFS_REFS_INT_H

#include "runtime/core/process/context.h"
#include "runtime/core/refs/refs.h"
#include "runtime/core/values/numbers.h"
#include "runtime/core/values/pool.h"

struct crti_refs {
    crti_numbers_t owned; /* number -> crt_ref_t */
    size_t borrowed;      /* those of others: in crti_remote_t.borrowed */
    crti_ref_changes_t changes;
    crti_slabs_t slabs;     /* of crt_ref_t */
    crti_pool_t block_pool; /* crti_ref_block_t */
    crti_pool_t more_pool;
    uint64_t next_number;  /* of an object of ours, or of another try of a call */
    crti_id_t sender;      /* whose result is being taken; zero: our own */
    crti_list_t to_notify; /* crti_ref_more_t.turn, of refs that are held: notify.c */
    crti_list_t to_close;  /* of refs.c, while others are closed */
    bool is_notifying, is_closing_contained;
    uint64_t next_request;      /* owner_requests.c; */
    unsigned gathers;           /* so many wait until all was requested, */
    crti_list_t gathering;      /* crti_remote_t.gathers: of these; */
    uint64_t resend_ns;         /* when those that were lost are sent again; 0: none */
    crti_list_t missing;        /* missing.c: of ours that are wanted */
    uint64_t copy_query_round;  /* copy_query.c: the last one, */
    size_t copy_query_open;     /* of whose questions so many were not answered */
    crti_list_t copy_queries;   /* copy_reply.c: of others, not answered */
    crti_buffer_t drained;      /* rescue.c: ids of nodes */
    uint64_t rescue_ns;         /* when their objects are looked for next */
    crti_list_t copies_due;     /* kept_copies.c: objects that lack copies; */
    crti_list_t copies_settled; /* that have them; */
    size_t copies_asked;        /* so many of others are on their way */
    uint64_t copies_retry_ns;   /* no node could have one; 0: none was refused */
    uint64_t copies_told_ns;    /* when that was told last; 0: never */
    crti_list_t retries;        /* value_retry.c: refs whose pull is repeated */
    crti_ref_handlers_t handlers;
};

/* ------------------------------------------------------------------ refs.c */

/* Its content, or the places of its copies, changed: who waits hears of it at crti_refs_notify. */
void crti_ref_changed(crt_ref_t *ref);
/* What content.c has put there is its content. */
void crti_ref_came(crt_ref_t *ref, crti_content_t content, crti_id_t node);
/* The last known copy of a stored one is gone; and one is known again. */
void crti_ref_miss(crt_ref_t *ref);
void crti_ref_find(crt_ref_t *ref);
void crti_borrowed_apply(crt_ref_t *ref, unsigned bits);
/* It is the value of another one no longer. */
void crti_ref_end_forward(crt_ref_t *ref);
/* LOCATE to the owner of a borrowed ref; the answer moves it (dispatch.c). `missed`: the name of
 * the object that was not where its owner said for so long that the owner has to know, or 0. */
crt_status_t crti_ref_ask_owner(crt_ref_t *ref, uint64_t missed);

/* ------------------------------------------------------------------ content.c */

/* What another process says of it, which is no other ref. */
void crti_ref_take_result(crt_ref_t *ref, const crti_result_t *result, bool has_tokens);
/* Where the copies of a stored one are now. */
crt_status_t crti_ref_move(crt_ref_t *ref, const crti_location_t *location);

#endif
