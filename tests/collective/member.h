/* SPDX-License-Identifier: Apache-2.0 */
/* The actors that the tests of groups are made of: each holds up to four memberships. */
#ifndef CRTI_TESTS_COLLECTIVE_MEMBER_H
#define CRTI_TESTS_COLLECTIVE_MEMBER_H

#include <crt.h>
#include <crt_collective.h>

#define MEMBER_GROUPS 4
#define MEMBERS       8

/* Member(). Methods answer when they are done; a failure is the call's. */
extern const crt_actor_class_t member_class;
extern const crt_method_t member_join, /* (slot, name, backend, size, rank, timeout_ms) */
    member_find,                       /* (slot, name) */
    member_leave,                      /* (slot) */
    member_split,                      /* (slot, color, key, slot of the new group) */
    member_rebuild,                    /* (slot, size) -> incarnation */
    member_ahead,      /* (slot): counts an operation that there was not */
    member_settle,     /* (slot) -> operations that are settled */
    member_state,      /* (slot) -> text "rank/size backend incarnation" */
    member_error,      /* (slot) -> text "rank text", "" when there is none */
    member_conform,    /* (slot, large): every operation, dtype, reduction and buffer */
    member_post,       /* (slot): many posted operations, in order */
    member_messages,   /* (slot, shared): messages beside each other */
    member_forbid,     /* (): reading the memory of other processes */
    member_later,      /* (slot, rounds) -> sums that failed for a call after them */
    member_two_groups, /* (slot, slot) */
    member_sum,        /* (slot, count, rounds) -> sum of the last round */
    /* (slot, kind, dtype, count, reduction, root, timeout_ms); a dtype above 100: on device 0 */
    member_operate,
    member_any,    /* (slot): operations of all kinds until one fails -> rank to blame */
    member_pid,    /* () -> pid */
    member_stream, /* (slot): a group of two, a tensor on the device that is still filled */
    member_setenv,    /* (name, value): of its process; "": removes it */
    member_errors_to, /* (path): what its process writes to the standard error goes there */
    member_fork, /* (slot): a child, which tries a barrier; beside one of the others */
    member_descriptors; /* () -> open descriptors */

/* Makes actors and waits for them. */
void members_start(crt_actor_t **members, int count);
void members_stop(crt_actor_t **members, int count);
/* All join `name` as ranks 0.. and wait for it. */
void members_join(crt_actor_t **members, int count, int slot, const char *name,
                  const char *backend);
void members_leave(crt_actor_t **members, int count, int slot);

/* Waits for `count` answers without value; fails the test with the first error. */
void expect_all_ok(crt_ref_t **refs, int count);
/* Waits for an answer that must be an error; drops the ref. Text is valid until the next call. */
crt_status_t failure_of(crt_ref_t **ref, const char **text);

#endif
