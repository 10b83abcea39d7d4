/* SPDX-License-Identifier: Apache-2.0 */
/* Lending: what an owner answers those who have its refs: who is registered as a borrower of an
 * object. The rules are in ownership.h.
 *
 * Where it sits
 *     peers.c (BORROW, RELEASE, TAKE_BACK) -> [ lending.c ] -> ownership.c; BORROWED
 *     incoming.c (a result with refs of ours) -> [ lending.c ]
 * Threads
 *     The core's lock.
 * Failure
 *     A borrower's death ends what it has borrowed (peers.c): so its process is watched.
 */
#ifndef CRTI_CORE_LENDING_H
#define CRTI_CORE_LENDING_H

#include "runtime/core/core.h"

/* Registers a process as borrower of our object (NULL address fields as in the record). */
crt_status_t crti_lend(crti_core_t *core, crt_ref_t *ref,
                       const crti_borrow_record_t *borrow);
/* Records of borrowers. */
crt_status_t crti_lending_borrow(crti_core_t *core, crti_peer_t *peer, const void *data,
                                 size_t size);
crt_status_t crti_lending_take_back(crti_core_t *core, crti_peer_t *peer,
                                    const void *data, size_t size);
crt_status_t crti_lending_release(crti_core_t *core, crti_peer_t *peer, const void *data,
                                  size_t size);

#endif
