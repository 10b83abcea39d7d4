/* SPDX-License-Identifier: Apache-2.0 */
/* Placement groups: reserved on nodes, and placed again. */
#ifndef CRTI_CONTROL_CONTROL_PLACEMENT_GROUP_H
#define CRTI_CONTROL_CONTROL_PLACEMENT_GROUP_H

#include "runtime/control/control_state.h"

void crti_control_placement_group_create(crti_control_t *c, uint64_t link,
                                         uint64_t request,
                                         const crti_msg_placement_group_create_t *m);
void crti_control_placement_group_get(crti_control_t *c, uint64_t link, uint64_t request,
                                      const crti_msg_placement_group_get_t *m);
void crti_control_placement_group_remove(crti_control_t *c, uint64_t link,
                                         uint64_t request, crti_id_t id);
/* It fails: who waits for it hears the status and why. */
void crti_control_placement_group_fail(crti_control_t *c, crti_id_t id,
                                       crt_status_t status, const char *text);
/* Looks for room for those that wait. */
void crti_control_place_groups(crti_control_t *c);
/* The answer to BUNDLE_RESERVE, or its end without one. */
void crti_control_bundle_answered(crti_control_t *c, const crti_request_t *request,
                                  bool is_reserved, const char *text);
/* What a node reports to hold: what is not wanted is returned, what is missing is placed again. */
void crti_control_join_bundles(crti_control_t *c, const crti_node_entry_t *node,
                               crti_span_t reported);
void crti_control_placement_groups_of_node(crti_control_t *c,
                                           const crti_node_entry_t *node,
                                           const char *text);
void crti_control_placement_groups_of_job(crti_control_t *c, crti_id_t job);
/* After a restart: those whose job has ended; with `unknown` also those whose job nobody knows. */
void crti_control_placement_group_orphans(crti_control_t *c, bool unknown);
/* Who has waited for long is answered. */
void crti_control_placement_groups_overdue(crti_control_t *c);
void crti_control_put_placement_group(crti_control_t *c,
                                      const crti_placement_group_entry_t *group);

#endif
