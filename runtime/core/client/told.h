/* SPDX-License-Identifier: Apache-2.0 */
/* What this process says of itself: told_state.c (the answer, what threads wait for),
 * told_refs.c and told_rest.c.
 *
 * Waits are JSON, put piece by piece into a buffer; without memory it ends somewhere, and whoever
 * decodes it says so.
 */
#ifndef CRTI_CORE_CLIENT_TOLD_H
#define CRTI_CORE_CLIENT_TOLD_H

#include "runtime/base/buffer.h"
#include "runtime/core/types.h"

struct crti_shown_wait; /* process/blocking.h */

void crti_told_put(crti_buffer_t *json, const char *text);
/* ,"key":"text" */
void crti_told_text(crti_buffer_t *json, const char *key, const char *text);
void crti_told_object(crti_buffer_t *json, crti_object_id_t id);

/* What the thread waits for: of several refs one after the other, `*at` is 0 first; NULL: none, no
 * more, or not known. One may have been freed by another thread. */
const crt_ref_t *crti_told_ref(const struct crti_shown_wait *wait, size_t *at);
/* The largest `limit` of them, and how many there are of how many bytes in all
 * (base/object_records.h). Lock held. */
void crti_told_refs(crti_core_t *core, uint64_t round, size_t limit, crti_buffer_t *out);

/* Whether it can go on by itself, as JOB_REST. Lock held. */
void crti_told_rest(crti_core_t *core, uint64_t round, crti_buffer_t *out);

#endif
