/* SPDX-License-Identifier: Apache-2.0 */
/* Missing objects of ours. See missing.c; the core's lock covers all of it. */
#ifndef CRTI_CORE_MISSING_H
#define CRTI_CORE_MISSING_H

#include "runtime/core/types.h"

/* No copy of it is known any more (CRTI_OWNED_MISSED); one is again (CRTI_OWNED_FOUND). */
void crti_missing_begin(crt_ref_t *ref);
void crti_missing_found(crt_ref_t *ref);
/* Somebody waits for its content: if it is missing, that ends some time. */
void crti_missing_wanted(crt_ref_t *ref);
void crti_missing_tick(crti_core_t *core, uint64_t now_ns);
/* No tick will come: what is wanted is let go. */
void crti_missing_end(crti_core_t *core);

#endif
