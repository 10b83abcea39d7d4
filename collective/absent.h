/* SPDX-License-Identifier: Apache-2.0 */
/* Absent: the actors of a declared group that have not come yet, and who of them never will, because it
 * has died. Of who came attendance.h tells.
 *
 * Where it sits
 *     runtime/core/calls/actor.c (what the head says of an actor) -> [ absent ] -> rendezvous.c
 * Threads
 *     The caller's, which takes the core's lock for each question.
 * Cost
 *     A handle of an actor and a watch at the head for each: made by the first question, which is put
 *     only when somebody lets the others wait.
 */
#ifndef CRTI_COLLECTIVE_ABSENT_H
#define CRTI_COLLECTIVE_ABSENT_H

#include "collective/roster.h"

typedef struct crti_absent crti_absent_t;

/* Borrowed: `roster`, whose group is declared, as long as the result. Caller owns the result and frees it with
 * crti_absent_free. */
crt_status_t crti_absent_new(const crti_roster_t *roster, crti_absent_t **absent_out);
void crti_absent_free(crti_absent_t *absent);
CRTI_DEFINE_AUTO(crti_absent_t *, crti_absent_free)

/* True when the actor of that rank is dead for good (one that is made anew may still come): then `*status_out`
 * and `text` say why. */
bool crti_absent_has_died(crti_absent_t *absent, int rank, crt_status_t *status_out,
                          char *text, size_t size);

#endif
