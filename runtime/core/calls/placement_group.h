/* SPDX-License-Identifier: Apache-2.0 */
/* Placement groups as this process knows them: their bundles, and where these are.
 *
 * Where it sits
 *     crt_placement_group.h, submit.c (where a lease is asked for) -> [ placement_group.c ] -> node
 *     daemon -> head
 * Threads
 *     The core's lock.
 * States
 *     UNKNOWN (of a group that was found) and those of net/protocol.h: PENDING -> CREATED <->
 *     RESCHEDULING -> REMOVED. REMOVED is also one that could not be made: `status` says why.
 * Invariants
 *     While somebody holds a group that waits, one question about it is on its way: the head
 *     answers when the group has changed. The node daemon asks again when the head was away.
 */
#ifndef CRTI_CORE_PLACEMENT_GROUP_H
#define CRTI_CORE_PLACEMENT_GROUP_H

#include "runtime/base/list.h"
#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"
#include "runtime/core/types.h"
#include "runtime/net/message.h"

#define CRTI_PLACEMENT_GROUP_UNKNOWN 100 /* a state: nothing was heard of it */
#define CRTI_NO_VERSION              UINT64_MAX
#define CRTI_BUNDLES_MAX             1000

typedef struct crti_known_bundle {
    crti_resources_t resources;
    crti_id_t node; /* zero: it is on none */
} crti_known_bundle_t;

struct crt_placement_group {
    crti_core_t *core; /* NULL: of before a shutdown */
    crti_id_t id;
    char hex[CRTI_ID_HEX];
    unsigned holds, handles; /* of the user: these are holds, too */
    unsigned state;
    uint64_t version;
    crt_status_t status;
    char *text;
    size_t count;
    crti_known_bundle_t *bundles;
    bool is_asking;
    crti_list_t ready; /* refs that wait for CREATED */
};

/* The one of that id, found or made, held; NULL: out of memory. */
crt_placement_group_t *crti_placement_group_open(crti_core_t *core, crti_id_t id);
void crti_placement_group_hold(crt_placement_group_t *group);
void crti_placement_group_release(crt_placement_group_t *group);
/* CRT_OK, or why what the program gives is no handle of a group. */
crt_status_t crti_placement_group_check(const crti_core_t *core,
                                        const crt_placement_group_t *group);

/* The detail is why the group is no more. */
crt_status_t crti_placement_group_raise(const crt_placement_group_t *group);
/* The ref becomes true when the group is created, or fails. */
crt_status_t crti_placement_group_await(crt_placement_group_t *group, crt_ref_t *ref);

/* The head is asked to make it. */
void crti_placement_group_create(crt_placement_group_t *group,
                                 const crti_msg_placement_group_create_t *m);
/* The head is asked to end it; from now on it is removed here. */
crt_status_t crti_placement_group_remove(crt_placement_group_t *group);
/* It could not even be asked for; this thread's detail is why. */
void crti_placement_group_fail(crt_placement_group_t *group, crt_status_t status);
/* The head's word of it. */
void crti_placement_group_state(crt_placement_group_t *group,
                                const crti_msg_placement_group_state_t *m);
/* Asks for a state of another version (CRTI_NO_VERSION: at once), unless a question is on its
 * way. */
void crti_placement_group_ask(crt_placement_group_t *group, uint64_t version);
/* The same for the next state of one that waits. */
void crti_placement_group_follow(crt_placement_group_t *group);

/* Where to ask for a lease in the group: on the node of bundle `index`, or of the `turn`-th one
 * that could have so much (-1). CRT_ERR_BACKPRESSURE: it is on none now, CRT_ERR_UNSCHEDULABLE,
 * CRT_ERR_INVALID: it never will. */
crt_status_t crti_placement_group_node(const crt_placement_group_t *group, int64_t index,
                                       const crti_resources_t *resources, unsigned turn,
                                       crti_id_t *node_out);
/* Of how many bundles that may be one. */
size_t crti_placement_group_fitting(const crt_placement_group_t *group,
                                    const crti_resources_t *resources);
/* A node did not know the bundle: the head is asked. */
void crti_placement_group_refresh(crt_placement_group_t *group);

/* What the options of a task or an actor say of groups, or else the running call to its children,
 * into `how` and `captures_children_out`. `said` is whether the options say where else it goes. */
crt_status_t crti_placement_group_option(crti_core_t *core, crt_placement_group_t *group,
                                         int bundle, bool captures_children,
                                         crti_scheduling_t *how, bool said,
                                         bool *captures_children_out);

void crti_placement_groups_orphan(crti_core_t *core);

#endif
