/* SPDX-License-Identifier: Apache-2.0 */
/* Slow waits: a driver says once what a wait of 10 s waits for. See slow_waits.c. */
#ifndef CRTI_CORE_CLIENT_SLOW_WAITS_H
#define CRTI_CORE_CLIENT_SLOW_WAITS_H

#include "runtime/core/types.h"

/* Of a driver, before its first wait. */
void crti_slow_waits_begin(crti_core_t *core);
/* Of one that from now on waits for ranks, which last as long as the program. Lock held. */
void crti_slow_waits_end(crti_core_t *core);
/* Lock held. */
void crti_slow_waits_tick(crti_core_t *core, uint64_t now_ns);

#endif
