/* SPDX-License-Identifier: Apache-2.0 */
/* Reclaim: what a process leaves behind comes back. */
#ifndef CRTI_STORE_RECLAIM_H
#define CRTI_STORE_RECLAIM_H

#include "runtime/store/space.h"

/* Gives back pins, unsealed blocks and empty slabs of a slot, and the slot: of a dead process
 * (undone before, by the daemon) or of the own, at detach. CRT_ERR_TIMED_OUT when another
 * process stalls: call again. */
crt_status_t crti_reclaim_slot(crti_store_t *store, unsigned slot);

#endif
