/* SPDX-License-Identifier: Apache-2.0 */
/* Placement groups: resources of one or more nodes, reserved together, all or none, for tasks and
 * actors that belong together. Part of crt.h.
 *
 *     crt_bundle_t bundles[] = {CRT_BUNDLE(.num_cpus = 1), CRT_BUNDLE(.num_cpus = 1)};
 *     crt_placement_group_t *group = crt_placement_group_new(bundles, 2,
 *         CRT_PLACEMENT_GROUP_OPTIONS(.strategy = CRT_PLACEMENT_SPREAD));
 *     crt_actor_t *actor = crt_actor_new(&class, CRT_ACTOR_OPTIONS(.num_cpus = 1,
 *         CRT_IN_BUNDLE(group, 0)));
 *
 * Threads: every function here may be called from any thread.
 */
#ifndef CRT_PLACEMENT_GROUP_H
#define CRT_PLACEMENT_GROUP_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Resources that are reserved together on one node. A bundle needs at least one resource. Zero is
 * the default of every member. */
typedef struct crt_bundle {
    /* Set by CRT_BUNDLE. All bundles of an array have the same size. */
    size_t struct_size;
    /* Numbers of CPUs and GPUs. 0: the default, none. */
    double num_cpus, num_gpus;
    /* Other resources: "name=amount,name=amount", each name once. NULL: none. */
    const char *resources;
    /* Labels that the node must have, in the form of label_selector of crt_task_options_t. NULL:
     * any node. */
    const char *label_selector;
} crt_bundle_t;
#define CRT_BUNDLE(...)                                                                  \
    CRTI_VALUE(crt_bundle_t, .struct_size = sizeof(crt_bundle_t), __VA_ARGS__)

/* How the bundles are distributed over nodes. */
typedef enum crt_placement_strategy {
    /* On as few nodes as possible. */
    CRT_PLACEMENT_PACK,
    /* On as many nodes as possible. */
    CRT_PLACEMENT_SPREAD,
    /* All on one node. */
    CRT_PLACEMENT_STRICT_PACK,
    /* Each on a different node. */
    CRT_PLACEMENT_STRICT_SPREAD
} crt_placement_strategy_t;

/* Options of one placement group. Zero is the default of every member. */
typedef struct crt_placement_group_options {
    /* Set by CRT_PLACEMENT_GROUP_OPTIONS. */
    size_t struct_size;
    /* How the bundles are distributed over nodes. 0: CRT_PLACEMENT_PACK. */
    crt_placement_strategy_t strategy;
    /* The name for crt_placement_group_find, at most 255 bytes; unique in its namespace. NULL: no
     * name. */
    const char *name;
    /* The group outlives its job; crt_placement_group_remove ends the group. Needs a name. */
    bool detached;
    /* How the runtime treats the group when the nodes of the cluster could never hold all bundles,
     * even if every node were idle. */
    crt_infeasible_t if_infeasible;
    /* The namespace of the name. NULL: the namespace of the job. */
    const char *name_space;
} crt_placement_group_options_t;
#define CRT_PLACEMENT_GROUP_OPTIONS(...)                                                 \
    CRTI_CONSTANT(crt_placement_group_options_t,                                         \
                  .struct_size = sizeof(crt_placement_group_options_t), __VA_ARGS__)

/* Makes a placement group: asks the head to reserve `count` bundles, 1 to 1000. Returns at once.
 *
 * All bundles are reserved or none. While the cluster has no room, the group waits, and tasks and
 * actors of the group wait too. When a node dies, its bundles are reserved on other nodes; tasks
 * and actors that ran in these bundles fail or restart, as after any death of a node. The group
 * ends with its job. A detached group ends when crt_placement_group_remove removes the group.
 *
 * Returns a handle, also for a group that fails; NULL only if memory is out. The caller owns the
 * handle and drops the handle with crt_placement_group_drop. `bundles` and `options` may be freed
 * after the call. `options` may be NULL: the defaults.
 *
 * Errors are reported by crt_placement_group_wait, by the ref of crt_placement_group_ready, and by
 * tasks and actors made in the group: CRT_ERR_INVALID, when a bundle or option is invalid;
 * CRT_ERR_EXISTS, when the name is taken; CRT_ERR_UNSCHEDULABLE, when the cluster could never hold
 * the bundles (see if_infeasible) or the group was removed; CRT_ERR_NOT_INITIALIZED, before
 * crt_init; CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_placement_group_t *
crt_placement_group_new(const crt_bundle_t *bundles, size_t count,
                        const crt_placement_group_options_t *options);

/* Waits until all bundles of the group are reserved, at most `wait_ms` milliseconds. CRT_FOREVER:
 * without limit.
 *
 * Errors: CRT_ERR_TIMED_OUT, when the group still waits (crt_error_detail says for what; the
 * caller may call the function again); CRT_ERR_UNSCHEDULABLE, when the cluster could never hold
 * the bundles or the group was removed; CRT_ERR_INVALID, when the handle is NULL or was dropped,
 * or crt_placement_group_new got an invalid bundle or option; CRT_ERR_EXISTS, when the name of the
 * group is taken; CRT_ERR_CLOSED, when the handle is from before crt_shutdown;
 * CRT_ERR_INTERRUPTED, after crt_interrupt; CRT_ERR_CANCELLED, when the calling task was
 * cancelled; CRT_ERR_NODE_LOST, when the node of this process is gone; CRT_ERR_NOT_INITIALIZED,
 * before crt_init; CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_status_t crt_placement_group_wait(crt_placement_group_t *group,
                                              int64_t wait_ms);

/* Returns a ref that is ready when all bundles of the group are reserved. The value of the ref is
 * true. If the group fails or is removed first, the ref fails with the status that
 * crt_placement_group_wait returns. The caller owns the ref and drops the ref with crt_ref_drop. */
CRT_API crt_ref_t *crt_placement_group_ready(crt_placement_group_t *group);

/* Removes the group and frees the resources of its bundles. Returns at once, as in Ray; requests
 * that this process makes afterwards are handled after the removal. Tasks and actors that run in
 * the group end. Tasks and actors that wait for the group fail with CRT_ERR_UNSCHEDULABLE. CRT_OK
 * also when the group was removed before.
 *
 * Errors: CRT_ERR_INVALID, when the handle is NULL or was dropped; CRT_ERR_CLOSED, when the handle
 * is from before crt_shutdown; CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a
 * child process after fork. */
CRT_API crt_status_t crt_placement_group_remove(crt_placement_group_t *group);

/* Find a placement group: crt_placement_group_find by its name, in the namespace of this job or in
 * that of the options (NULL: no options); crt_placement_group_by_id by its id, 32 hex digits, which
 * crt_placement_group_id returns and which may be passed to other processes. Both wait for the
 * answer of the head, up to 30 s, and store a handle in `*group_out`. The caller owns the handle
 * and drops the handle with crt_placement_group_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such group or the group was removed;
 * CRT_ERR_INVALID, when the name is NULL or empty, the id is not 32 hex digits, group_out is NULL,
 * or the options were not made with CRT_FIND_OPTIONS; CRT_ERR_UNSUPPORTED, when the program sets an
 * option that only a newer version of crt has; CRT_ERR_HEAD_LOST, when the head is away for 30 s;
 * CRT_ERR_TIMED_OUT, when the head does not answer within 30 s; CRT_ERR_NOT_INITIALIZED, before
 * crt_init; CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_status_t crt_placement_group_find(const char *name,
                                              const crt_find_options_t *options,
                                              crt_placement_group_t **group_out);
CRT_API crt_status_t crt_placement_group_by_id(const char *id,
                                               crt_placement_group_t **group_out);

/* Returns a handle of the placement group in which the calling task or actor runs. NULL: the
 * caller runs in no group. The caller owns the handle and drops the handle with
 * crt_placement_group_drop. */
CRT_API crt_placement_group_t *crt_placement_group_current(void);

/* Returns the id of the group, 32 hex digits; "" if `group` is not a valid handle. Borrowed: valid
 * as long as the handle. */
CRT_API const char *crt_placement_group_id(crt_placement_group_t *group);

/* Returns the number of bundles of the group; 0 if the group has failed or was removed, or `group`
 * is not a valid handle. */
CRT_API size_t crt_placement_group_count(crt_placement_group_t *group);

/* Asks the cluster to have room for these bundles, whether the room is in use or not: an
 * autoscaler starts the nodes that are missing, and keeps the nodes while the job runs. Nothing is
 * reserved. A call replaces what this job asked for before; `count` 0: nothing. At most 1000
 * bundles. Without an autoscaler the call has no effect. A head that is started again goes on with
 * the request. Waits for the answer of the head, up to 30 s.
 *
 * Errors: CRT_ERR_INVALID, when a bundle is invalid or there are too many; CRT_ERR_NO_MEMORY, when
 * memory is out, or too many jobs have asked; CRT_ERR_CLOSED, in an actor that has outlived its
 * job; CRT_ERR_IO, when the head can't write it down; CRT_ERR_HEAD_LOST, when the head is away for
 * 30 s; CRT_ERR_TIMED_OUT, when the head does not answer within 30 s; CRT_ERR_NOT_INITIALIZED,
 * before crt_init; CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_status_t crt_request_resources(const crt_bundle_t *bundles, size_t count);

/* Drops a handle and sets `*group` to NULL. Does nothing if `*group` is NULL. The group itself is
 * not removed. */
CRT_API void crt_placement_group_drop(crt_placement_group_t **group);

#ifdef __cplusplus
}
#endif

#endif
