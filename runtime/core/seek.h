/* SPDX-License-Identifier: Apache-2.0 */
/* Seeking copies: an owner that knows of no copy of an object any more asks every process it talks to.
 *
 * Where it sits
 *     missing.c (owner) -> [ seek.c ] -> SEEK;  SOUGHT -> [ seek.c ] -> missing.c
 *     peers.c (SEEK), value_of.c (a pull ended) -> [ seek.c ] -> COPY of each that is here, SOUGHT
 * Threads
 *     The core's lock.
 * Idea
 *     Only who heard from the owner where an object was may have made a copy (a place that was only
 *     heard of elsewhere is confirmed before it is pulled from: value_of.c), and the word of a copy goes
 *     by the session of who made it. The answer goes by the same one, behind it. So when all have
 *     answered, every word has come.
 *     One round of questions is under way at a time; it is about many objects.
 * Failure
 *     Who ends, or whose session is lost, has answered. Who does not answer is waited for by missing.c as
 *     long as a process that lives can be silent.
 */
#ifndef CRTI_CORE_SEEK_H
#define CRTI_CORE_SEEK_H

#include "runtime/core/core.h"

/* Most objects of one round. */
#define CRTI_SEEK_MAX 512

/* The owner: begins a round about these objects of ours; core->seek_open counts down to 0. */
crt_status_t crti_seek_ask(crti_core_t *core, const uint64_t *numbers, uint32_t count);
crt_status_t crti_seek_answered(crti_core_t *core, crti_peer_t *peer, const void *data,
                                size_t size);
/* No answer comes from there any more. */
void crti_seek_is_over(crti_core_t *core, uint64_t *sought);

/* The one who is asked: an answer may have to wait until a pull has ended. */
crt_status_t crti_seek_arrived(crti_core_t *core, crti_peer_t *peer, const void *data,
                               size_t size);
void crti_seek_pull_ended(crti_core_t *core);
/* At shutdown: nothing is answered. */
void crti_seek_end(crti_core_t *core);

#endif
