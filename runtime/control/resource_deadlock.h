/* SPDX-License-Identifier: Apache-2.0 */
/* Resource deadlock: which jobs hold resources and can't go on before another one of them gives
 * some back. Pure.
 *
 * Where it sits
 *     control/control_deadlock.c (the facts) -> [ control/resource_deadlock.c ] ->
 *     placement/bundle_placement.h
 * How
 *     All are taken to be stuck at first. Who may go on, is taken to end, and to give back what it
 *     holds; that is repeated until nobody is left who may. A job may go on when something of it
 *     runs, when it has no request, when there is room for one of its requests, or when a job that
 *     it awaits may. Every doubt counts as "may go on": what is left at the end can't.
 * Cost
 *     A round is linear in jobs and requests. There are as many as jobs that go on one after the
 *     other, each only after what the last one gave back.
 */
#ifndef CRTI_CONTROL_RESOURCE_DEADLOCK_H
#define CRTI_CONTROL_RESOURCE_DEADLOCK_H

#include <stdint.h>

#include "runtime/control/placement/bundle_placement.h"

/* What a job waits for: bundles that have to be placed together. */
typedef struct crti_stuck_request {
    crti_bundle_choice_t *bundles; /* `node` is written */
    size_t bundle_count;
    uint64_t strategy; /* bundle_placement.h */
} crti_stuck_request_t;

/* What it has of one node. */
typedef struct crti_stuck_part {
    size_t node;
    crti_resources_t held;
} crti_stuck_part_t;

typedef struct crti_stuck_job {
    bool may_go_on; /* something of it runs, or it is not known that nothing does */
    const crti_stuck_request_t *requests;
    size_t request_count;
    const crti_stuck_part_t *parts;
    size_t part_count;
    const size_t *awaits; /* jobs of which it waits for something else */
    size_t await_count;
    bool is_stuck; /* written: it can't go on */
} crti_stuck_job_t;

/* Sets `is_stuck` of each and returns how many are. `nodes` say what they have in all; `available`
 * (as many as nodes, pointed to by them) is written: what the stuck ones leave of it. */
size_t crti_resource_deadlock_find(const crti_placement_node_t *nodes,
                                   crti_resources_t *available, size_t node_count,
                                   crti_stuck_job_t *jobs, size_t job_count);

#endif
