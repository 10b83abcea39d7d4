/* SPDX-License-Identifier: Apache-2.0 */
/* Roster: the value of a group in the control store. It is changed by compare-and-swap only, so
 * that every step has one winner.
 *
 *     collective/JOB/NAME                      the roster
 *     collective/JOB/NAME/TOKEN/ATTEMPT/RANK   a member that wants to join; deletes it once
 *                                              the attempt is decided
 *     collective/JOB/NAME/TOKEN/any/NONCE      a spare, which takes any free rank
 *
 * Threads
 *     None of its own; values.
 * Failure
 *     Bytes are checked completely when they are decoded: other processes wrote them.
 */
#ifndef CRTI_COLLECTIVE_ROSTER_H
#define CRTI_COLLECTIVE_ROSTER_H

#include "collective/group.h"
#include "runtime/base/buffer.h"

/*   DECLARED ------> FORMING ------> FORMED ------> (deleted)
 *                       |              ^  |
 *                       v              +--+  rebuilt, or tried to
 *                     FAILED
 *  FAILED, and those of which no member lives, are replaced by the next group of that name.
 */
typedef enum crti_roster_state {
    CRTI_ROSTER_DECLARED = 1,
    CRTI_ROSTER_FORMING = 2,
    CRTI_ROSTER_FORMED = 3,
    CRTI_ROSTER_FAILED = 4
} crti_roster_state_t;

typedef struct crti_roster {
    uint64_t token; /* of this group, from its beginning to its end */
    crti_roster_state_t state;
    int size;
    uint64_t incarnation;
    uint64_t attempt; /* the last one that was decided: joining is 1, rebuilds follow */
    uint64_t settled; /* how often members have settled (crt_group_settle) */
    int64_t timeout_ms;
    char backend[16];
    crti_member_t leader;         /* FORMING: gathers the members */
    crti_id_t *declared;          /* of `size`: actors by rank; or NULL */
    crti_member_t *members;       /* of `size`: FORMED; or NULL */
    unsigned char *left;          /* of `size`: members that left; with members */
    crti_group_failure_t failure; /* of the last attempt; status CRT_OK: none */
    uint64_t previous;            /* token of the group before, which had failed */
    crti_group_failure_t previous_failure;
} crti_roster_t;

crt_status_t crti_roster_encode(const crti_roster_t *roster, crti_buffer_t *bytes);
/* CRT_ERR_CORRUPT. `*roster` is to be freed with crti_roster_fini, also after an error. */
crt_status_t crti_roster_decode(const void *bytes, size_t size, crti_roster_t *roster);
void crti_roster_fini(crti_roster_t *roster);

static inline void crti_roster_fini_auto(crti_roster_t *roster)
{
    crti_roster_fini(roster);
}

/* A member that wants to join. */
typedef struct crti_arrival {
    crti_member_t member;
    int size; /* of the group that it wants */
    int rank; /* CRT_RANK_ANY: any */
    uint64_t
        done; /* of a rebuild: operations that have succeeded there since the last one */
} crti_arrival_t;

crt_status_t crti_arrival_encode(const crti_arrival_t *arrival, crti_buffer_t *bytes);
crt_status_t crti_arrival_decode(const void *bytes, size_t size, crti_arrival_t *arrival);

#endif
