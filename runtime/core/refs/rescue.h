/* SPDX-License-Identifier: Apache-2.0 */
/* Rescue: of our objects that are stored on a node which is drained, copies are made here. See
 * rescue.c. */
#ifndef CRTI_CORE_RESCUE_H
#define CRTI_CORE_RESCUE_H

#include "runtime/base/id.h"
#include "runtime/core/types.h"

void crti_rescue_begin(crti_core_t *core, crti_id_t node);
/* It is gone. */
void crti_rescue_end(crti_core_t *core, crti_id_t node);
void crti_rescue_tick(crti_core_t *core, uint64_t now_ns);

#endif
