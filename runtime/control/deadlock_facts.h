/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a look for resource deadlocks: which jobs wait for what, what they hold, and whether
 * something of them runs, from the head's tables and what nodes have answered. See
 * deadlock_facts.c. */
#ifndef CRTI_CONTROL_DEADLOCK_FACTS_H
#define CRTI_CONTROL_DEADLOCK_FACTS_H

#include "runtime/control/control_deadlock.h"
#include "runtime/control/resource_deadlock.h"

typedef enum crti_deadlock_want_kind {
    CRTI_WANT_ACTOR,
    CRTI_WANT_GROUP,
    CRTI_WANT_LEASE
} crti_deadlock_want_kind_t;

/* A request that waits; of several that are alike the youngest. */
typedef struct crti_deadlock_want {
    crti_deadlock_want_kind_t kind;
    crti_id_t id;
    crti_id_t node;             /* LEASE: where it waits */
    uint64_t since_ns;          /* LEASE: not known */
    char name[96];              /* "actor Counter" */
    crti_resources_t resources; /* of a group: of all its bundles */
    crti_scheduling_t how;
    crti_bundle_choice_t one, *bundles; /* `bundles` is `one`, or its own memory */
    size_t bundle_count;
    uint64_t strategy;
} crti_deadlock_want_t;

typedef struct crti_deadlock_facts crti_deadlock_facts_t;

/* The ids of the jobs with a request that waits, in hex with a space behind each; empty: none. */
crt_status_t crti_deadlock_jobs(const crti_control_t *control, crti_buffer_t *out);

/* `rows`: what each node has answered, lists of JOB_REST. `last`: what was seen in the look before,
 * which becomes what is seen now. Borrows from the tables of `control` until they change. Caller
 * owns the result and frees it with crti_deadlock_facts_free. */
crt_status_t crti_deadlock_facts_new(const crti_control_t *control, crti_span_t rows,
                                     crti_map_t *last, crti_deadlock_facts_t **facts_out);
void crti_deadlock_facts_free(crti_deadlock_facts_t *facts);
/* How many jobs are stuck. */
size_t crti_deadlock_facts_judge(crti_deadlock_facts_t *facts);
/* Those that are, the ones that hold something first, and 0 when none holds anything or memory
 * lacks. Caller frees the array. */
size_t crti_deadlock_facts_members(const crti_control_t *control,
                                   const crti_deadlock_facts_t *facts,
                                   crti_deadlock_member_t **members_out);
/* The youngest request of those that hold something; borrowed. */
const crti_deadlock_want_t *
crti_deadlock_facts_youngest(const crti_deadlock_facts_t *facts);

#endif
