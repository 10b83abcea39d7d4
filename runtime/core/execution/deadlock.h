/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlocks: before a thread waits, and while it does, the cycle it may be part of is looked for
 * (deadlock.c). Lock held. */
#ifndef CRTI_CORE_DEADLOCK_H
#define CRTI_CORE_DEADLOCK_H

#include "runtime/core/types.h"

/* The main thread of this worker has waited for `ref` for a while. */
void crti_chain_start(crti_core_t *core, crt_ref_t *ref);
/* WAITING arrived. */
void crti_chain_arrived(crti_client_t *client, const void *data, size_t size);
/* CRT_ERR_DEADLOCK when `ref` is made by a call that waits in this very process. */
crt_status_t crti_check_self_wait(crti_core_t *core, crt_ref_t *ref);

#endif
