/* SPDX-License-Identifier: Apache-2.0 */
/* Copy query: an owner that knows of no copy of an object any more asks every process it talks to.
 *
 * Where it sits
 *     missing.c (owner) -> [ copy_query.c ] -> COPY_QUERY;  COPY_REPLY -> [ copy_query.c ] ->
 *     missing.c
 *     dispatch.c (COPY_QUERY), value_of.c (a pull ended) -> [ copy_reply.c ] -> COPY of each that
 *     is here, COPY_REPLY
 * Threads
 *     The core's lock.
 * Idea
 *     Only who heard from the owner where an object was may have made a copy (a place that was only
 *     heard of elsewhere is confirmed before it is pulled from: value_of.c), and the word of a copy
 *     goes by the session of who made it. The answer goes by the same one, behind it. So when all
 *     have answered, every word has come. One round of questions is under way at a time; it is
 *     about many objects.
 * Failure
 *     A process that ends, or whose session is lost, has answered. A silent one is waited for up to
 *     the liveness timeout (missing.c).
 */
#ifndef CRTI_CORE_COPY_QUERY_H
#define CRTI_CORE_COPY_QUERY_H

#include "runtime/core/types.h"
#include "runtime/net/net.h"

/* Most objects of one round. */
#define CRTI_COPY_QUERY_MAX 512

/* The owner: begins a round about these objects of ours; core->refs->copy_query_open counts down to
 * 0. */
crt_status_t crti_copy_query_ask(crti_core_t *core, const uint64_t *numbers,
                                 uint32_t count);
crt_status_t crti_copy_query_answered(crti_core_t *core, crti_peer_t *peer,
                                      const void *data, size_t size);
/* No answer comes from there any more. */
void crti_copy_query_is_over(crti_core_t *core, uint64_t *copy_query);
void crti_copy_query_remote_freed(crti_core_t *core, crti_remote_t *remote);

/* The one who is asked: an answer may have to wait until a pull has ended. */
crt_status_t crti_copy_query_arrived(crti_core_t *core, crti_peer_t *peer,
                                     const void *data, size_t size);
void crti_copy_query_pull_ended(crti_core_t *core);
/* At shutdown: nothing is answered. */
void crti_copy_query_end(crti_core_t *core);

#endif
