/* SPDX-License-Identifier: Apache-2.0 */
/* What actors keep for their next process. */
#ifndef CRTI_CONTROL_CONTROL_SAVE_H
#define CRTI_CONTROL_CONTROL_SAVE_H

#include "runtime/control/control_state.h"

/* control_save.c: what an actor keeps for its next process. */
void crti_control_actor_save(crti_control_t *c, crti_control_link_t *link,
                             uint64_t request, const crti_msg_actor_save_t *m);
/* The row of what it keeps, or its deletion: after a change, and again where that failed. */
void crti_control_put_save(crti_control_t *c, crti_id_t id);
crt_status_t crti_control_load_save(crti_control_t *c, const crti_msg_actor_save_t *row);
/* The row of its state; with that of its death, what it keeps goes. */
void crti_control_put_actor_state(crti_control_t *c, const crti_actor_entry_t *actor);
/* No head will have it again. */
void crti_control_forget_save(crti_control_t *c, crti_actor_entry_t *actor);

#endif
