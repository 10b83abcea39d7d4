/* SPDX-License-Identifier: Apache-2.0 */
/* Liveness: which of a set of processes are known to have ended, and a wait that another death
 * ends.
 *
 * Where it sits
 *     runtime/core/process/remotes.c (deaths) -> [ liveness ] -> group.c (fails the group),
 *     rendezvous.c
 * Threads
 *     A death notice comes in the thread that makes progress, under the core's lock, and takes
 *     `lock`. So nothing of the core is called with `lock` held.
 */
#ifndef CRTI_COLLECTIVE_LIVENESS_H
#define CRTI_COLLECTIVE_LIVENESS_H

#include <pthread.h>

#include "collective/group.h"
#include "runtime/core/types.h"

typedef struct crti_liveness crti_liveness_t;

#define CRTI_LIVENESS_TEXT 768 /* bytes of a reason */

typedef void crti_liveness_handler_t(void *user, crti_core_t *core, int index,
                                     crt_status_t status, const char *text);

/* `on_ended` (may be NULL) is called once for each process that ends, under the core's lock,
 * without `lock`. Caller owns the result and frees it with crti_liveness_free; after that no call
 * follows. */
crt_status_t crti_liveness_new(int size, crti_liveness_handler_t *on_ended, void *user,
                               crti_liveness_t **out);
void crti_liveness_free(crti_liveness_t *liveness);
CRTI_DEFINE_AUTO(crti_liveness_t *, crti_liveness_free)

/* Watches a member's process as `index`; a repeated call is fine. */
crt_status_t crti_liveness_watch(crti_liveness_t *liveness, int index,
                                 const crti_member_t *member);

/* True when it has ended; `text` (may be NULL) gets the reason. */
bool crti_liveness_has_ended(crti_liveness_t *liveness, int index,
                             crt_status_t *status_out, char *text, size_t text_bytes);

/* Waits until one more has ended, at most `ns`. */
void crti_liveness_wait(crti_liveness_t *liveness, uint64_t ns);

#endif
