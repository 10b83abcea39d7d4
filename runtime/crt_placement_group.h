/* SPDX-License-Identifier: Apache-2.0 */
/* Placement groups: resources of several nodes reserved together, all or none, for tasks and actors that belong together.
 * Part of crt.h.
 *
 *     crt_bundle_t bundles[] = {CRT_BUNDLE(.num_cpus = 1), CRT_BUNDLE(.num_cpus = 1)};
 *     crt_placement_group_t *group = crt_placement_group_new(bundles, 2,
 *         CRT_PLACEMENT_GROUP_OPTIONS(.strategy = CRT_PLACEMENT_SPREAD));
 *     crt_actor_t *actor = crt_actor_new(&class, CRT_ACTOR_OPTIONS(.num_cpus = 1,
 *         CRT_IN_BUNDLE(group, 0)));
 *
 * Functions may be called from any thread.
 */
#ifndef CRT_PLACEMENT_GROUP_H
#define CRT_PLACEMENT_GROUP_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Resources that are reserved together on one node: at least one of them. */
typedef struct crt_bundle {
    size_t struct_size; /* set by CRT_BUNDLE; the same in all bundles of an array */
    double num_cpus, num_gpus;
    const char *resources;      /* "name=amount,name=amount" */
    const char *label_selector; /* labels of the node, as for tasks */
} crt_bundle_t;
#ifdef __cplusplus
#    define CRT_BUNDLE(...)                                                              \
        CRTI_MADE(&, crt_bundle_t, .struct_size = sizeof(crt_bundle_t), __VA_ARGS__)
#else
#    define CRT_BUNDLE(...)                                                              \
        ((crt_bundle_t){.struct_size = sizeof(crt_bundle_t), __VA_ARGS__})
#endif

/* On which nodes the bundles are. */
typedef enum crt_placement_strategy {
    CRT_PLACEMENT_PACK,         /* on few */
    CRT_PLACEMENT_SPREAD,       /* on many */
    CRT_PLACEMENT_STRICT_PACK,  /* on one */
    CRT_PLACEMENT_STRICT_SPREAD /* each on another one */
} crt_placement_strategy_t;

typedef struct crt_placement_group_options {
    size_t struct_size;
    crt_placement_strategy_t strategy; /* default CRT_PLACEMENT_PACK */
    const char *
        name; /* for crt_placement_group_find; unique in its namespace, at most 255 bytes */
    bool detached; /* outlives its job; needs a name */
    /* What happens when the nodes of the cluster could never have all bundles of the group, however idle. */
    crt_infeasible_t if_infeasible;
    const char *name_space; /* of the name; default: that of the job */
} crt_placement_group_options_t;
#define CRT_PLACEMENT_GROUP_OPTIONS(...)                                                 \
    CRTI_CONSTANT(crt_placement_group_options_t,                                         \
                  .struct_size = sizeof(crt_placement_group_options_t), __VA_ARGS__)

/* Reserves `count` bundles, 1 to 1000; returns at once. They are all there or none: else the group waits for room, and
 * what is made in it waits, too. When a node dies its bundles are reserved elsewhere, and what ran in them fails or
 * restarts as after any death of a node. The group ends with its job (detached: when it is removed). Errors reach
 * crt_placement_group_wait, _ready, and what is made in the group: CRT_ERR_INVALID, CRT_ERR_EXISTS (the name),
 * CRT_ERR_UNSCHEDULABLE. Caller owns the handle and drops it with crt_placement_group_drop. NULL only without
 * memory. */
CRT_API crt_placement_group_t *
crt_placement_group_new(const crt_bundle_t *bundles, size_t count,
                        const crt_placement_group_options_t *options);

/* Waits until all bundles are reserved: CRT_OK, or why they never will be. CRT_ERR_TIMED_OUT (the detail says what the group
 * waits for): the function may be called again. CRT_FOREVER waits without a limit. */
CRT_API crt_status_t crt_placement_group_wait(crt_placement_group_t *group,
                                              int64_t wait_ms);
/* The same as a ref whose value is true. Caller owns the ref. */
CRT_API crt_ref_t *crt_placement_group_ready(crt_placement_group_t *group);

/* Gives the bundles back; returns at once, as in Ray: what this process asks for next comes after it. What runs inside
 * ends, and what waits fails with CRT_ERR_UNSCHEDULABLE. CRT_OK also when it was removed before. */
CRT_API crt_status_t crt_placement_group_remove(crt_placement_group_t *group);

/* By its name in the namespace of this job, or in another one (NULL: that of this job); or by its id (32 hex digits),
 * which may be given to other processes. CRT_ERR_NOT_FOUND. Caller owns the handle. */
CRT_API crt_status_t crt_placement_group_find(const char *name,
                                              crt_placement_group_t **group_out);
CRT_API crt_status_t crt_placement_group_find_in(const char *name_space, const char *name,
                                                 crt_placement_group_t **group_out);
CRT_API crt_status_t crt_placement_group_get(const char *id,
                                             crt_placement_group_t **group_out);
/* That in which the calling task or actor runs; NULL: in none. Caller owns the handle. */
CRT_API crt_placement_group_t *crt_placement_group_current(void);

/* 32 hex digits, "" for what is no handle. Borrowed: valid as long as the handle. */
CRT_API const char *crt_placement_group_id(crt_placement_group_t *group);
/* How many bundles it has; 0 of a group that has failed or was removed. */
CRT_API size_t crt_placement_group_count(crt_placement_group_t *group);

/* Gives up a handle and sets it to NULL; NULL is fine. The group lives on. */
CRT_API void crt_placement_group_drop(crt_placement_group_t **group);

#ifdef __cplusplus
}
#endif

#endif
