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
 *     What is asked of one owner at a time goes in one record, up to CRTI_REFS_OF_RECORD refs:
 *     between crti_owner_requests_gather and crti_owner_requests_send requests are gathered, one
 *     open request for each kind; else each leaves at once. Only a RELEASE, which nobody waits for,
 *     is kept open while an earlier request was not answered, so that a program that drops refs one
 *     by one sends a record for each answer and not for each ref. Of the open ones BORROW leaves
 *     first: what is registered then is not freed by a release of what was registered before.
 * Failure
 *     Whoever waits for the answer of an owner that two sessions on end have lost (a minute, as a
 *     rule) goes on without: a result with its ref becomes CRT_ERR_UNREACHABLE. The request itself
 *     stays.
 * Ownership
 *     A request holds a use of the owner's remote until it is answered or the owner dies, and its
 *     refs as long as somebody waits for the answer.
 */
#ifndef CRTI_CORE_OWNER_REQUESTS_H
#define CRTI_CORE_OWNER_REQUESTS_H

#include "runtime/core/refs/refs.h"

typedef struct crti_owner_request {
    /* remote->owner_requests, in the order of `request`; while it is open remote->open_requests */
    crti_list_t link;
    uint64_t request;
    crti_id_t process; /* whom it registers; zero: this process, or nobody */
    bool was_lost;     /* a session with it was */
    /* BORROW: those that ended, or wait, with it: covers of its refs, or who gets our result; goes
     * on when it is answered; may be NULL */
    crti_completion_t *ending;
    crti_buffer_t
        refs; /* BORROW: crt_ref_t *, held; empty: nobody waits for the answer */
    crti_buffer_t record;
} crti_owner_request_t;

/* This process registers itself; the answer comes to crti_ref_owner_answered. `ending` (may be
 * NULL) waits for it. */
void crti_owner_request_borrow(crt_ref_t *ref, crti_completion_t *ending);
/* The process of `record` is registered. `ending` waits for the answer, if there will be one. */
crt_status_t crti_owner_request_lend(crt_ref_t *ref, const crti_borrow_record_t *process,
                                     crti_completion_t *ending);
/* That was in vain. */
void crti_owner_request_take_back(crt_ref_t *ref, const crti_borrow_record_t *process);
/* All tokens of a ref that ends. */
void crti_owner_request_release(crt_ref_t *ref);

crt_status_t crti_owner_requests_answered(crti_core_t *core, crti_remote_t *owner,
                                          const void *data, size_t size);
/* The session with the owner is lost: what is requested from now on goes behind what has to be sent
 * again; then, when the calls of that session were told, what that means. And the owner is dead. */
void crti_owner_requests_pause(crti_remote_t *remote);
void crti_owner_requests_lost(crti_core_t *core, crti_remote_t *remote,
                              crt_status_t status);
void crti_owner_requests_end(crti_core_t *core, crti_remote_t *remote);
void crti_owner_requests_tick(crti_core_t *core, uint64_t now_ns);
void crti_owner_requests_free(crti_remote_t *remote); /* at shutdown: only memory */

#endif
