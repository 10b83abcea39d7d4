/* SPDX-License-Identifier: Apache-2.0 */
/* Attendance: which of some processes are known to have ended, and a wait that ends early when
 * another one does.
 *
 * Where it sits
 *     runtime/core/process/remotes.c (deaths) -> [ attendance ] -> group.c (fails the group), rendezvous.c
 * Threads
 *     Deaths come in whichever thread makes progress, under the core's lock; then `lock` is taken.
 *     So nothing of the core is called with `lock` held.
 */
#ifndef CRTI_COLLECTIVE_ATTENDANCE_H
#define CRTI_COLLECTIVE_ATTENDANCE_H

#include <pthread.h>

#include "collective/group.h"

typedef struct crti_attendance crti_attendance_t;

/* `on_ended` (may be NULL) is called once for each that ends, any thread, no lock of ours held.
 * Caller owns the result and frees it with crti_attendance_free; after that no call follows. */
crt_status_t crti_attendance_new(int size,
                                 void (*on_ended)(void *user, int index,
                                                  crt_status_t status, const char *text),
                                 void *user, crti_attendance_t **out);
void crti_attendance_free(crti_attendance_t *attendance);
CRTI_DEFINE_AUTO(crti_attendance_t *, crti_attendance_free)

/* Watches a member's process as `index`; again for the same one is fine. */
crt_status_t crti_attendance_watch(crti_attendance_t *attendance, int index,
                                   const crti_member_t *member);

/* True when it has ended; `text` (may be NULL) is filled with what the runtime said. */
bool crti_attendance_has_ended(crti_attendance_t *attendance, int index,
                               crt_status_t *status_out, char *text, size_t text_bytes);

/* Until one more has ended, at most `ns`. */
void crti_attendance_wait(crti_attendance_t *attendance, uint64_t ns);

#endif
