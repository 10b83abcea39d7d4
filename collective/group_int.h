/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a group that its own files share; backends see group.h only. */
#ifndef CRTI_COLLECTIVE_GROUP_INT_H
#define CRTI_COLLECTIVE_GROUP_INT_H

#include <pthread.h>

#include "collective/liveness.h"
#include "collective/roster.h"
#include "collective/shm.h"
#include "runtime/base/list.h"

#define CRTI_GROUP_KEY 160 /* bytes of "collective/JOB/NAME" */

struct crti_group_private {
    /* as the caller wants it */
    int wanted_size, wanted_rank;
    char wanted_backend[16];
    int64_t timeout_ms;

    /* group.c */
    crt_group_t *group;
    crti_list_t link; /* all groups of this process */
    bool is_of_ranks; /* the world: who has ended will not come */
    bool has_left;

    /* rendezvous.c */
    char key[CRTI_GROUP_KEY];
    uint64_t token, attempt;
    uint64_t settled; /* of the roster's count, the settles that this member knows */
    crti_member_t me;
    crti_liveness_t *liveness; /* of the members, by rank */
    crt_group_t *parent; /* its failure ends the joining; NULL: not joined by a split */

    /* group_state.c */
    pthread_mutex_t lock; /* covers `failure` */
    crti_group_failure_t failure;
    crti_group_failure_t later; /* begins with the next operation; status CRT_OK: none */
    bool was_reported;          /* `failure`, by an operation of this member */
    crt_group_error_t error;
    char error_actor[CRTI_ID_HEX], error_node[CRTI_ID_HEX];

    /* group_open.c */
    const crti_backend_t *backend;
    void *state;           /* of the backend; NULL: not open */
    crti_region_t *region; /* this member's memory for the others of its node */
    atomic_bool is_open;   /* deaths fail the group */

    /* member_end.c */
    crti_list_t questions; /* under the core's lock */

    /* operation.c: numbers of operations */
    uint64_t sequence;
    struct crti_posting *posting; /* NULL: nothing was posted */
};

/* ------------------------------------------------------------------ group.c */

/* As crt_group_join; `is_of_ranks`: of all ranks of crt run. */
crt_status_t crti_group_join(int size, int rank, const crt_group_options_t *options,
                             bool is_of_ranks, crt_group_t **group_out);

/* ------------------------------------------------------------------ group_open.c */

/* Prepares a member's own entry: shared memory, address of its links. */
crt_status_t crti_group_prepare(crt_group_t *group, int size);
/* Backend for a roster that was agreed on; connects it. */
crt_status_t crti_group_open(crt_group_t *group, uint64_t deadline_ns);
/* The last part of it: the members open that backend. */
crt_status_t crti_group_open_by(crt_group_t *group, const crti_backend_t *backend,
                                uint64_t deadline_ns, void **state_out);
/* Ends the backend, forgets the members. */
void crti_group_close(crt_group_t *group);

/* ------------------------------------------------------------------ member_end.c */

/* A member's process has ended: fails the group while it is open, unless the member had left it
 * before, as the roster says. Under the core's lock. */
void crti_member_ended(crti_core_t *core, crt_group_t *group, int rank,
                       crt_status_t status, const char *text);
/* What the roster says from now on comes too late. Not under the core's lock. */
void crti_member_questions_forget(crt_group_t *group);

/* ------------------------------------------------------------------ rendezvous.c */

/* Fills key, identity. CRT_ERR_INVALID outside of an actor. */
crt_status_t crti_rendezvous_init(crt_group_t *group);
/* Agrees on the members with the other members. Sets incarnation, size, rank, members. */
crt_status_t crti_rendezvous_join(crt_group_t *group, uint64_t deadline_ns);
/* The same for a group that a driver declared: size, rank, backend come from there. */
crt_status_t crti_rendezvous_join_declared(crt_group_t *group);
/* In a driver: `group` has key and timeout only. CRT_ERR_EXISTS. */
crt_status_t crti_rendezvous_declare(crt_group_t *group, const crti_roster_t *roster);
/* The name is free when the last one leaves. */
void crti_rendezvous_leave(crt_group_t *group);
/* For crt_group_rebuild; `size` 0: the survivors. */
crt_status_t crti_rendezvous_rebuild(crt_group_t *group, int size, uint64_t deadline_ns);
/* Adds one to the settles of the roster, unless another member has done it. */
crt_status_t crti_rendezvous_settle(crt_group_t *group);
/* Joins as a spare: takes the rank of a dead member when the survivors rebuild. */
crt_status_t crti_rendezvous_join_spare(crt_group_t *group, uint64_t deadline_ns);
crt_status_t crti_group_key(const char *name, char key[CRTI_GROUP_KEY]);

/* ------------------------------------------------------------------ posting.c */

/* Waits until posted operations have ended (all of them: `cancel` makes them fail first). */
void crti_posting_drain(crt_group_t *group);
void crti_posting_free(crt_group_t *group);
/* True: posted operations are pending, queue behind them. False: run it here. */
bool crti_posting_is_busy(crt_group_t *group);

/* ------------------------------------------------------------------ operation.c */

/* Checks and runs an operation. One at a time. */
crt_status_t crti_operation_run(crt_group_t *group, const crt_collective_t *what);

/* ------------------------------------------------------------------ operation_check.c */

/* The first part of it: whether the group can be used, and the call is right in itself. */
crt_status_t crti_operation_check(crt_group_t *group, const crt_collective_t *what,
                                  crti_step_t *step);
/* The last: counts it. */
void crti_operation_ended(crt_group_t *group, const crti_step_t *step, uint64_t begun_ns,
                          crt_status_t status);
uint64_t crti_operation_deadline(const crt_group_t *group, const crt_collective_t *what,
                                 uint64_t begun_ns);

/* ------------------------------------------------------------------ message.c */

/* Between two members, not of all. */
static inline bool crti_is_message(crt_collective_kind_t kind)
{
    return kind == CRT_COLLECTIVE_SEND || kind == CRT_COLLECTIVE_RECV;
}

/* A send or receive from its begin to its end. */
crt_status_t crti_message_run(crt_group_t *group, const crt_collective_t *what);
/* Both at once. */
crt_status_t crti_message_run_both(crt_group_t *group, const crt_collective_t *send,
                                   const crt_collective_t *receive);
/* Begins one; after a failure the backend has forgotten it. */
crt_status_t crti_message_begin(crt_group_t *group, const crt_collective_t *what,
                                crti_pair_t *pair);
/* Until one of them has ended. */
crt_status_t crti_message_await(crt_group_t *group, crti_pair_t *const *pairs, int count,
                                uint64_t deadline_ns);
/* All go on, without waiting. */
crt_status_t crti_message_progress(crt_group_t *group);

#endif
