/* SPDX-License-Identifier: Apache-2.0 */
/* Who hears of an actor's changes. */
#ifndef CRTI_CONTROL_CONTROL_WATCH_H
#define CRTI_CONTROL_CONTROL_WATCH_H

#include "runtime/control/control_state.h"

void crti_control_actor_watch(crti_control_t *c, uint64_t link, uint64_t request,
                              crti_id_t id);
void crti_control_actor_unwatch(crti_control_t *c, uint64_t link, crti_id_t id);
void crti_control_actor_find(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_actor_find_t *m);
/* The actor was created: pending watches of it become watches. */
void crti_control_watches_created(crti_control_t *c, crti_actor_entry_t *actor);
void crti_control_watches_closed(crti_control_t *c, crti_control_link_t *link);
/* The actor is about to be forgotten. */
void crti_control_watches_forget(crti_control_t *c, const crti_actor_entry_t *actor);
void crti_control_watches_overdue(crti_control_t *c);
uint64_t crti_control_watches_deadline(const crti_control_t *c);
void crti_control_watches_free(crti_control_t *c);

#endif
