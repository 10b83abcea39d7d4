/* SPDX-License-Identifier: Apache-2.0 */
/* Locating: what an owner answers those who ask where its objects are.
 *
 * Where it sits
 *     dispatch.c (LOCATE, room in a window) -> [ locating.c ] -> LOCATED
 * Threads
 *     The core's lock.
 * Idea
 *     An answer may be a thousand times as long as the question, so it is sent within the window of
 *     the process that asks. Of what does not fit, and of questions for objects that have no
 *     content yet, only the question is kept, once for each object however often it was asked; it
 *     is answered when there is room, by what is known of the object then.
 * Failure
 *     Who has more questions open than there are objects (and a number of such as have been freed)
 *     is not asking for what it holds: CRT_ERR_PROTOCOL ends its session.
 */
#ifndef CRTI_CORE_LOCATING_H
#define CRTI_CORE_LOCATING_H

#include "runtime/core/types.h"

crt_status_t crti_locating_asked(crti_client_t *client, const void *data, size_t size);
/* Its window has room again. */
void crti_locating_go_on(crti_client_t *client);
/* Nobody waits for its answers any more. */
void crti_locating_end(crti_client_t *client);

#endif
