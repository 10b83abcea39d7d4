/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowers: who is registered at an owner as a borrower of an object, and what the owner answers
 * them. The rules are in ownership.h.
 *
 * Where it sits
 *     dispatch.c (BORROW, RELEASE, TAKE_BACK) -> [ borrowers.c ] -> ownership.c; BORROWED
 *     incoming.c (a result with refs of ours) -> [ borrowers.c ]
 * Threads
 *     The core's lock.
 * Failure
 *     A borrower's death ends what it has borrowed (deaths.c): so its process is watched.
 */
#ifndef CRTI_CORE_BORROWERS_H
#define CRTI_CORE_BORROWERS_H

#include "runtime/core/values/record.h"
#include "runtime/net/net.h"

/* A process that may be registered: its death will be told, or was. */
typedef struct crti_admitted {
    crti_id_t process;
    bool has_ended;
} crti_admitted_t;

/* Once for all that is registered for it now (NULL address fields as in the record). */
crt_status_t crti_owner_admit_borrower(crti_core_t *core,
                                       const crti_borrow_record_t *borrow,
                                       crti_admitted_t *admitted_out);
/* Registers it as borrower of our object. CRT_ERR_NOT_FOUND when that is freed. */
crt_status_t crti_owner_add_borrower(crt_ref_t *ref, const crti_admitted_t *borrower);
/* Records of borrowers. */
crt_status_t crti_borrowers_borrow(crti_core_t *core, crti_peer_t *peer, const void *data,
                                   size_t size);
crt_status_t crti_borrowers_take_back(crti_core_t *core, crti_peer_t *peer,
                                      const void *data, size_t size);
crt_status_t crti_borrowers_release(crti_core_t *core, crti_peer_t *peer,
                                    const void *data, size_t size);

#endif
