/* SPDX-License-Identifier: Apache-2.0 */
/* What the store had when the head began. */
#ifndef CRTI_CONTROL_CONTROL_LOAD_H
#define CRTI_CONTROL_CONTROL_LOAD_H

#include "runtime/control/control_state.h"

/* After a node came or died: perhaps it was the last one that was expected. */
void crti_control_joined(crti_control_t *c);
/* The row of an entry as it is now, or its deletion. */
void crti_control_rewrite(crti_control_t *c, crti_store_table_t table, crti_id_t id);

#endif
