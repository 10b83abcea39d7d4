/* SPDX-License-Identifier: Apache-2.0 */
/* Unjoined: the actors of a declared group that have not joined yet, and which of them have died
 * and never will. liveness.h covers members that have joined.
 *
 * Where it sits
 *     runtime/core/calls/actor.c (state of an actor) -> [ unjoined ] -> rendezvous.c
 * Threads
 *     The caller's; each query takes the core's lock.
 * Cost
 *     A handle of each actor and a watch at the head. The first query makes them, which is sent
 *     only when a member lets the others wait.
 */
#ifndef CRTI_COLLECTIVE_UNJOINED_H
#define CRTI_COLLECTIVE_UNJOINED_H

#include "collective/roster.h"

typedef struct crti_unjoined crti_unjoined_t;

/* Borrows `roster`, of a declared group, as long as the result lives. Caller owns the result and
 * frees it with crti_unjoined_free. */
crt_status_t crti_unjoined_new(const crti_roster_t *roster,
                               crti_unjoined_t **unjoined_out);
void crti_unjoined_free(crti_unjoined_t *unjoined);
CRTI_DEFINE_AUTO(crti_unjoined_t *, crti_unjoined_free)

/* True when the actor of that rank is dead for good (one that restarts may still join);
 * `*status_out` and `text` get the reason. */
bool crti_unjoined_has_died(crti_unjoined_t *unjoined, int rank, crt_status_t *status_out,
                            char *text, size_t size);

#endif
