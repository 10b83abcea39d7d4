/* SPDX-License-Identifier: Apache-2.0 */
/* Options of tasks, actors and calls. Part of crt.h, whose functions take them. Each struct is made with its macro; a member
 * that is not set is zero, and zero is the default.
 */
#ifndef CRT_OPTIONS_H
#define CRT_OPTIONS_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct crt_placement_group crt_placement_group_t; /* crt_placement_group.h */

/* On which node a task or an actor runs. */
typedef enum crt_scheduling {
    /* A task where its large arguments are; else nodes are filled until half full, the caller's first, then
     * the emptiest is taken. */
    CRT_SCHEDULING_DEFAULT,
    CRT_SPREAD, /* one node after the other */
    /* On the node `node_id`. When it is gone, or could never serve it, it fails with
     * CRT_ERR_UNSCHEDULABLE, unless node_is_soft. */
    CRT_NODE_AFFINITY
} crt_scheduling_t;

/* What happens to a task, an actor or a placement group that no node of the cluster could ever run, however
 * idle. */
typedef enum crt_infeasible {
    /* As the cluster was started: crt start --fail-if-infeasible. */
    CRT_INFEASIBLE_DEFAULT = 0,
    /* Fails with CRT_ERR_UNSCHEDULABLE, also later, when the last node dies that could have run it. */
    CRT_INFEASIBLE_FAILS = 1,
    CRT_INFEASIBLE_WAITS = 2 /* waits for a node that can run it */
} crt_infeasible_t;

typedef struct crt_task_options {
    size_t struct_size;
    double num_cpus; /* default 1 */
    bool no_cpus;    /* the task needs no CPU; then num_cpus is 0 */
    /* Default 0. Whole ones that no other process of the cluster has, or a part of one below 1, which
     * others share; crt_gpu_ids says which. The same as GPU=N among the resources. */
    double num_gpus;
    const char *resources; /* "name=amount,name=amount", each name once */
    bool try_only; /* CRT_ERR_BACKPRESSURE instead of waiting when too many tasks wait */
    /* How many times the task may begin. The task begins again when the process or node that ran the
     * task died, or when the task failed with one of retry_exceptions. 1: at most once, for work that must not
     * happen twice. 0: the default, 4, as in Ray. CRT_UNLIMITED: no limit. */
    int64_t max_attempts;
    /* What happens when no node of the cluster could ever run the task, however idle. */
    crt_infeasible_t if_infeasible;
    crt_scheduling_t scheduling; /* default CRT_SCHEDULING_DEFAULT */
    const char
        *node_id; /* of CRT_NODE_AFFINITY: 32 hex digits (crt_node_id, crt status) */
    bool
        node_is_soft; /* another node will do when that one is gone, or lacks what is needed */
    /* Which labels the node must have (crt start --labels): "zone=eu,gpu=in(a100,h100),rack=!7,os=!in(a,b)", all of
     * it; a node without a label differs from every value. When no such node has room the
     * fallback_selectors are tried in order, separated by ';'; "*" is any node. At most 511 bytes together. */
    const char *label_selector, *fallback_selectors;
    /* The task runs on resources that this group has reserved. NULL: no group. */
    crt_placement_group_t *placement_group;
    /* The index of the bundle plus one; set by CRT_IN_BUNDLE(group, index), together with the group. 0: any
     * bundle of the group that has room. */
    int bundle_plus_one;
    bool capture_child_tasks; /* what it makes itself is in the group, too */
    const char *
        name; /* of this call in the state, errors and logs, up to 200 bytes; default its task's */
    /* How long the call may take, in ms, from submission to its result: 1 to 2^40 (34 years). After that the
     * call fails with CRT_ERR_TIMED_OUT, and is cancelled as by crt_cancel. 0: no limit. */
    int64_t limit_ms;
    /* CRT_STATUSES(CRT_ERR_USER, CRT_ERR_IO), or CRT_RETRY_ALL: errors that the task returns for which it is run again,
     * within max_attempts, together with other reasons. Default: none. */
    const crt_status_t *retry_exceptions;
    /* Of a stream: how many results the call may be ahead of its caller. A call that has yielded that many
     * results which its caller has not taken waits. 1 to 100000; CRT_UNLIMITED: 100000; 0: the default, 1000. */
    int64_t generator_backpressure_num_objects;
} crt_task_options_t;
#define CRT_RETRY_ALL CRT_STATUSES(CRT_ANY_ERROR) /* whatever error the task returns */
/* Two options of a task or an actor in one: the group, and the bundle of that index in the group, from 0 on. */
#define CRT_IN_BUNDLE(group, index)                                                      \
    .placement_group = (group), .bundle_plus_one = (index) + 1
#define CRT_TASK_OPTIONS(...)                                                            \
    CRTI_CONSTANT(crt_task_options_t, .struct_size = sizeof(crt_task_options_t),         \
                  __VA_ARGS__)

typedef struct crt_actor_options {
    size_t struct_size;
    double num_cpus; /* default 0 */
    double num_gpus; /* as of tasks */
    const char *resources;
    const char
        *name;     /* for crt_actor_find; unique among living actors of its namespace */
    bool detached; /* outlives its driver, and its handles; needs a name */
    /* How often its process is replaced when it died; default 0; CRT_UNLIMITED. At once, but while
     * processes die within 1 s of their start, or don't get that far, each waits twice as long as the
     * one before: 0.1 s to 12.8 s. Meanwhile calls wait; the state API says why and how long. */
    int64_t max_restarts;
    /* How often each call, by whatever handle, is made again when the actor's process died in
     * the middle of it and was restarted; CRT_UNLIMITED. Default 0: the call runs at most once. Such a call
     * runs before the calls that were made after it; needs max_restarts. */
    int64_t max_task_retries;
    /* Never served by two processes at once, also while its node is cut off. Without it the old
     * process of an actor that was placed anew (or whose name was given to another one) may
     * take calls until its node hears from the head again. With it, it starts none from 4 s
     * after its node was last heard by the head: they fail with CRT_ERR_HEAD_LOST and did not run. They
     * are taken again when the head hears of the node, if it has not been declared dead. The
     * head places such an actor anew, and one that is given its name, only 5 s after it last
     * heard of the node, or when it knows that the old process has ended. A head that is away
     * for 4 s has the same effect. A call that began in time is not ended: what must not happen
     * twice should not take longer than a second. */
    bool fenced;
    /* So many calls (of methods in no concurrency group) run at a time, each on a thread of its own;
     * default 1, at most 1000. Those of one caller start in the order in which they were made, and
     * end as they end. The class's functions must then be ready for it: `self` is shared, `create` and
     * `destroy` run alone. A wait inside one blocks its thread only. */
    int max_concurrency;
    /* How many calls each process may have made of it, by whatever handle, that were not answered: one more
     * fails with CRT_ERR_BACKPRESSURE, and is not made. 0 or CRT_UNLIMITED: no limit. */
    int64_t max_pending_calls;
    /* A living actor of this name is given, as crt_actor_find does, and only when there is none one is made. Of two
     * that ask at once both get the same. crt_actor_new waits for the head then. */
    bool get_if_exists;
    /* As for tasks; an actor that is to be restarted is dead then. */
    crt_infeasible_t if_infeasible;
    crt_scheduling_t scheduling; /* this and the following as of tasks */
    const char *node_id;
    bool node_is_soft;
    const char *label_selector, *fallback_selectors;
    crt_placement_group_t *placement_group; /* with bundle_plus_one: CRT_IN_BUNDLE */
    int bundle_plus_one;
    bool capture_child_tasks;
    const char *name_space; /* of the name; default: that of the job */
    /* Calls begin as soon as their arguments are there: one whose argument is still being computed does not hold up those
     * that were made after it, of the same caller too. */
    bool allow_out_of_order_execution;
} crt_actor_options_t;
#define CRT_ACTOR_OPTIONS(...)                                                           \
    CRTI_CONSTANT(crt_actor_options_t, .struct_size = sizeof(crt_actor_options_t),       \
                  __VA_ARGS__)

typedef struct crt_call_options {
    size_t struct_size;
    bool try_only; /* CRT_ERR_BACKPRESSURE instead of waiting when too much is out */
    const struct crt_concurrency_group *concurrency_group; /* instead of the method's */
    const char *name;                                      /* as of tasks, likewise */
    int64_t limit_ms;
    /* How many times the call may begin: the call begins again when the actor's process died (if the actor has
     * max_restarts), or for retry_exceptions. 1: at most once. 0: one more than the actor's max_task_retries.
     * CRT_UNLIMITED: no limit. A call that begins again for an error runs after calls made meanwhile. */
    int64_t max_attempts;
    const crt_status_t *retry_exceptions;
    int64_t generator_backpressure_num_objects; /* as of tasks */
} crt_call_options_t;
#define CRT_CALL_OPTIONS(...)                                                            \
    CRTI_CONSTANT(crt_call_options_t, .struct_size = sizeof(crt_call_options_t),         \
                  __VA_ARGS__)

typedef struct crt_cancel_options {
    size_t struct_size;
    bool
        force; /* a task that runs: its worker ends at once; other tasks there run elsewhere */
    bool not_recursive; /* the calls that it has made go on */
} crt_cancel_options_t;
#define CRT_CANCEL_OPTIONS(...)                                                          \
    CRTI_CONSTANT(crt_cancel_options_t, .struct_size = sizeof(crt_cancel_options_t),     \
                  __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
