/* SPDX-License-Identifier: Apache-2.0 */
/* What rendezvous.c and rebuild.c share: the roster as it stands in the control store. */
#ifndef CRTI_COLLECTIVE_RENDEZVOUS_INT_H
#define CRTI_COLLECTIVE_RENDEZVOUS_INT_H

#include "collective/group_int.h"

/* A roster as it was read; `bytes` is what an exchange expects. */
typedef struct crti_stored {
    crti_roster_t roster;
    void *bytes;
    size_t size;
} crti_stored_t;

/* CRT_ERR_NOT_FOUND. Freed with crti_stored_fini, also after an error. */
crt_status_t crti_stored_read(const char *key, crti_stored_t *stored);
void crti_stored_fini(crti_stored_t *stored);
static inline void crti_stored_fini_auto(crti_stored_t *stored)
{
    crti_stored_fini(stored);
}

/* Puts `next` in the place of what was read (`from` NULL: of nothing). `*won_out` false: another
 * member was first. `next` NULL: deletes. */
crt_status_t crti_stored_swap(const char *key, const crti_stored_t *from,
                              const crti_roster_t *next, bool *won_out);

/* Decides an attempt with a failure. True when this was the decision; false: read again. */
crt_status_t crti_stored_fail(const char *key, const crti_stored_t *from,
                              uint64_t attempt, const crti_group_failure_t *failure,
                              bool *won_out);

/* KEY/TOKEN/ATTEMPT/RANK. */
void crti_arrival_key(const crt_group_t *group, uint64_t token, uint64_t attempt,
                      int rank, char *key, size_t size);
/* CRT_ERR_NOT_FOUND: it has not joined. */
crt_status_t crti_arrival_read(const char *key, crti_arrival_t *arrival);

/* The pause between two reads: 1 ms at first, 20 ms later; a death ends it. */
typedef struct crti_backoff {
    crti_liveness_t *liveness;
    uint64_t deadline_ns, next_ns;
} crti_backoff_t;
/* False when the deadline has passed. */
bool crti_backoff_wait(crti_backoff_t *backoff);

/* Adopts the agreed roster; `rank` is ours. */
crt_status_t crti_rendezvous_adopt(crt_group_t *group, const crti_roster_t *roster,
                                   int rank);

/* "actor 3f.. on node 9c.." */
const char *crti_member_describe(const crti_member_t *member, char *text, size_t size);

#endif
