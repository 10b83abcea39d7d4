/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that do not know which instance of the autoscaler they are. */
#ifndef CRTI_CONTROL_CONTROL_MACHINE_NAMES_H
#define CRTI_CONTROL_CONTROL_MACHINE_NAMES_H

#include "runtime/control/control_state.h"

struct crti_provider_answer;

/* What the provider has said: its "INSTANCE=MACHINE" are kept. */
void crti_control_machines_learn(crti_control_t *c,
                                 const struct crti_provider_answer *answer);
/* "INSTANCE=MACHINE" of a list is not known, and the machine has become a node: the instance is one
 * that runs, not one that should have ended. */
bool crti_control_machine_is_found(const crti_control_t *c, const char *said_name);
/* The instance has ended. */
void crti_control_machine_forget(crti_control_t *c, const char *instance);
/* "": it is not known. */
const char *crti_control_machine_of(const crti_control_t *c, const char *instance);
/* The labels of the node, and those of its instance. Borrowed: valid until the next call for it. */
const char *crti_control_machine_labels(crti_control_t *c, const crti_node_entry_t *node);
void crti_control_machines_free(crti_control_t *c);

#endif
