/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of users. */
#ifndef CRTI_CONTROL_KV_H
#define CRTI_CONTROL_KV_H

#include "runtime/control/control_state.h"

/* What the collective groups of a job agree on has keys that begin with this, the job's id and a
 * slash (collective/rendezvous.c): it ends with the job and its detached actors. */
#define CRTI_GROUPS "collective/"

/* KV_PUT, KV_GET, KV_DELETE, KV_KEYS: checked and handed to the store. */
void crti_control_kv(crti_control_t *c, uint64_t link, const crti_message_t *message);
/* When no process of an ended job is left: deletes the values of its groups. */
void crti_control_clear_groups(crti_control_t *c, const crti_job_entry_t *job);
void crti_control_clear_groups_of(crti_control_t *c, crti_id_t job);
void crti_control_kv_done(crti_control_t *c, const crti_inflight_t *operation,
                          crt_status_t status, const char *text, bool found,
                          crti_span_t value);

#endif
