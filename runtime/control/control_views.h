/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes hear of each other, see docs/design/control.md. */
#ifndef CRTI_CONTROL_CONTROL_VIEWS_H
#define CRTI_CONTROL_CONTROL_VIEWS_H

#include "runtime/control/control_state.h"

/* The others hear of it at once, or as soon as that has its share of the head's time; only of what
 * it has free: gathered at least view_delay. */
void crti_control_view_changed(crti_control_t *c, crti_node_entry_t *node);
void crti_control_room_changed(crti_control_t *c, crti_node_entry_t *node);
/* It has a new link, and hears of all, as they of it. */
void crti_control_views_join(crti_control_t *c, crti_node_entry_t *node);
/* It has no link now. */
void crti_control_views_leave(crti_control_t *c, crti_node_entry_t *node);
/* It is dead: nobody hears of it any more. */
void crti_control_views_forget(crti_control_t *c, crti_node_entry_t *node);
/* The slice that is due. */
void crti_control_send_views(crti_control_t *c);
crti_msg_node_view_t crti_control_view_of(const crti_node_entry_t *node);

#endif
