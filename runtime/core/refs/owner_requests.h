/* SPDX-License-Identifier: Apache-2.0 */
/* Owner requests: what an owner has to hear exactly once about who holds its objects: registrations
 * (BORROW), their end (RELEASE), and those that were made for somebody who was never told
 * (TAKE_BACK).
 *
 * Where it sits
 *     refs.c, incoming.c -> [ owner_requests.c ] -> remotes.c -> net;  borrowers.c is the owner's
 *     side
 * Threads
 *     The core's lock.
 * Idea
 *     A session may be lost while both processes live, and then nobody knows which of the last
 *     records arrived. So each of these has a number, is kept until BORROWED answers it, and is
 *     sent again, in order, by the next session; the owner carries out each number of a process
 *     once.
 * Failure
 *     Whoever waits for the answer of an owner that two sessions on end have lost (a minute, as a
 *     rule) goes on without: a result with its ref becomes CRT_ERR_UNREACHABLE. The request itself
 *     stays.
 * Ownership
 *     A request holds a use of the owner's remote until it is answered or the owner dies, and its
 *     ref as long as somebody waits for the answer.
 */
#ifndef CRTI_CORE_OWNER_REQUESTS_H
#define CRTI_CORE_OWNER_REQUESTS_H

#include "runtime/core/refs/refs.h"

typedef struct crti_owner_request {
    crti_list_t link; /* remote->owner_requests, in the order of `request` */
    uint64_t request;
    bool was_lost;  /* a session with it was */
    crt_ref_t *ref; /* BORROW: held; NULL: nobody waits for the answer */
    /* BORROW on behalf of who gets our result: goes on when answered */
    crti_completion_t *ending;
    size_t size;
    unsigned char record[];
} crti_owner_request_t;

/* This process registers itself; the answer comes to crti_ref_owner_answered. */
void crti_owner_request_borrow(crt_ref_t *ref);
/* The process of `record` is registered. `ending` waits for the answer, if there will be one. */
crt_status_t crti_owner_request_lend(crt_ref_t *ref, const crti_borrow_record_t *process,
                                     crti_completion_t *ending);
/* That was in vain. */
void crti_owner_request_take_back(crt_ref_t *ref, const crti_borrow_record_t *process);
/* All tokens of a ref that ends. */
void crti_owner_request_release(crt_ref_t *ref);

crt_status_t crti_owner_requests_answered(crti_core_t *core, crti_remote_t *owner,
                                          const void *data, size_t size);
/* The session with the owner is lost; the owner is dead. */
void crti_owner_requests_lost(crti_core_t *core, crti_remote_t *remote,
                              crt_status_t status);
void crti_owner_requests_end(crti_core_t *core, crti_remote_t *remote);
void crti_owner_requests_tick(crti_core_t *core, uint64_t now_ns);
void crti_owner_requests_free(crti_remote_t *remote); /* at shutdown: only memory */

#endif
