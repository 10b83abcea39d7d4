/* SPDX-License-Identifier: Apache-2.0 */
/* Options of tasks, actors and calls. Part of crt.h, whose functions take them.
 *
 * A program makes each struct with the macro of the struct, for example CRT_TASK_OPTIONS(...). A
 * member that the program does not set is zero. Zero is the default of every member: the default of
 * the definition (`defaults` of crt_task_t, crt_method_t and crt_actor_class_t) if the definition
 * has one, else the default that is named at the member.
 */
#ifndef CRT_OPTIONS_H
#define CRT_OPTIONS_H

#include "crt_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct crt_placement_group crt_placement_group_t; /* crt_placement_group.h */

/* Selects the node on which a task or an actor runs. */
typedef enum crt_scheduling {
    /* A task with large arguments runs where the arguments are. Otherwise nodes are filled until
     * they are half full, the caller's node first. When all nodes are half full, the emptiest node
     * is taken. */
    CRT_SCHEDULE_DEFAULT,
    /* The nodes take turns. */
    CRT_SCHEDULE_SPREAD,
    /* The node `node_id`. If that node is gone, or could never run the task or actor, the task or
     * actor fails with CRT_ERR_UNSCHEDULABLE, unless node_is_soft is set. */
    CRT_SCHEDULE_NODE_AFFINITY
} crt_scheduling_t;

/* How the runtime treats a task, an actor or a placement group that the cluster could never run,
 * even if every node were idle. */
typedef enum crt_infeasible {
    /* Fails if the cluster was started with crt start --fail-if-infeasible; otherwise waits. */
    CRT_INFEASIBLE_DEFAULT = 0,
    /* Fails with CRT_ERR_UNSCHEDULABLE. This also happens later, when the last suitable node
     * dies. */
    CRT_INFEASIBLE_FAILS = 1,
    /* Waits until a suitable node joins the cluster. */
    CRT_INFEASIBLE_WAITS = 2
} crt_infeasible_t;

/* Options of one task. Zero is the default of every member. */
typedef struct crt_task_options {
    /* Set by CRT_TASK_OPTIONS. */
    size_t struct_size;
    /* Number of CPUs that the task needs. 0: the default, 1 CPU, unless `resources` names CPU. */
    double num_cpus;
    /* The task needs no CPU. num_cpus must then be 0. */
    bool no_cpus;
    /* Number of GPUs that the task needs. 0: the default, no GPU. A whole number: these GPUs are
     * reserved for the task. A fraction below 1: the task shares one GPU with others. crt_gpu_ids
     * returns which GPUs. The same resource as GPU=N in `resources`. */
    double num_gpus;
    /* Other resources that the task needs: "name=amount,name=amount", each name once. NULL: the
     * default, none. */
    const char *resources;
    /* Fails with CRT_ERR_BACKPRESSURE, instead of blocking the caller, when too many tasks wait
     * for workers. */
    bool try_only;
    /* How many times the task may begin. The task begins again when the process or node that ran
     * the task died, when the task failed with one of retry_exceptions, or when a result in a
     * store is lost with its node and somebody waits for the result. Tasks that wait behind it in
     * its worker go elsewhere, and that does not count; results that were on their way are lost
     * with the worker. 1: at most once, for work that must not happen twice. 0: the default, 4, as
     * in Ray. CRT_UNLIMITED: no limit. */
    int64_t max_attempts;
    /* How the runtime treats the task when no node of the cluster could ever run the task, even if
     * every node were idle. */
    crt_infeasible_t if_infeasible;
    /* How the node is chosen. 0: CRT_SCHEDULE_DEFAULT. */
    crt_scheduling_t scheduling;
    /* The node of CRT_SCHEDULE_NODE_AFFINITY: 32 hex digits (from crt_node_id or crt status). */
    const char *node_id;
    /* With CRT_SCHEDULE_NODE_AFFINITY: the task may run on another node when `node_id` is gone or
     * lacks the resources. */
    bool node_is_soft;
    /* Labels that the node must have (crt start --labels), all of them:
     * "zone=eu,gpu=in(a100,h100),rack=!7,os=!in(a,b)". A node without a label differs from every
     * value. Every node has ray.io/node-id, its id in 32 hex digits. When no such node has room,
     * the fallback_selectors are tried in order; ';' separates them. "*" matches any node. At most
     * 511 bytes together. NULL: any node. */
    const char *label_selector, *fallback_selectors;
    /* The task runs on resources that this group has reserved. NULL: no group. */
    crt_placement_group_t *placement_group;
    /* The index of the bundle plus one; set by CRT_IN_BUNDLE(group, index), together with the
     * group. 0: any bundle of the group that has room. */
    int bundle_plus_one;
    /* Tasks and actors that this task makes run in the group too. Needs placement_group. */
    bool capture_child_tasks;
    /* The name of this call in the state API, errors and logs, 1 to 200 bytes. NULL: the name of
     * the task. */
    const char *name;
    /* How long the call may take, in ms, from submission to its result: 1 to 2^40 (34 years).
     * After that the call fails with CRT_ERR_TIMED_OUT, and the runtime cancels the call as
     * crt_cancel does. 0 (unless the definition has a default) or CRT_FOREVER: no limit. */
    int64_t limit_ms;
    /* Errors for which the task is run again: CRT_STATUSES(CRT_ERR_USER, CRT_ERR_IO), or
     * CRT_RETRY_ALL. max_attempts limits these runs together with those for other reasons. NULL:
     * the default, none. */
    const crt_status_t *retry_exceptions;
    /* Streams only: how many results the task may yield that the caller has not taken. At that
     * number crt_yield blocks. 1 to 100000. 0: the default, 1000. CRT_UNLIMITED: 100000. */
    int64_t generator_backpressure_num_objects;
    /* Runs the task a second time, elsewhere, when it takes longer than this factor times the
     * median of the running times of such tasks, and keeps the first value: 2.0 is twice the
     * median. 0: the default, never. At least 1. See "Backup tasks" in docs/design/recovery.md.
     *
     * The median is that of the last 127 tasks of the same function that this process submitted
     * with this option and that returned a value; 3 must have done so. The second run is on
     * another node if one has room, else in another worker process of the same node, and waits
     * like any task until there is room. Each run counts for max_attempts. The run that comes too
     * late is cancelled as by crt_cancel. A run that fails, or dies, leaves the call to the other
     * one. So both runs may have effects, and both may run to their end.
     * CRT_ERR_INVALID with max_attempts 1, and for streams. */
    double backup_after;
    /* How many nodes keep the bytes of each result that lies in a store, as long as somebody holds
     * the result: see crt_put_options_t. 0: the default of the job (crt_options_t), else 1.
     * CRT_ERR_INVALID for streams. */
    int64_t copies;
    /* Environment variables of the task, "NAME=VALUE", with NULL behind the last:
     * (const char *const[]){"MODE=fast", "OMP_NUM_THREADS=2", NULL}. They are added to those of the
     * job, or of the task or actor that submits this one, and replace those of the same name. The
     * task runs in a worker process that was executed with them, so that libraries that read them
     * at their start see them; tasks with the same environment share workers. Such a process takes
     * longer to start than others, which are forked. Names that begin with CRT_ are refused. At
     * most 64 KiB. NULL: the environment of the job. */
    const char *const *env_vars;
    /* The folder in which the task runs: a path from /, of a folder that the node has. The task
     * fails with CRT_ERR_WORKER_DIED, and a text that says why, if the folder can't be entered.
     * NULL: the folder of the job, or of the task or actor that submits this one. */
    const char *working_dir;
} crt_task_options_t;
/* For retry_exceptions: any error that the task or method returns. */
#define CRT_RETRY_ALL CRT_STATUSES(CRT_ANY_ERROR)
/* Sets two options of a task or an actor: the placement group, and the bundle with this index in
 * the group. The first bundle has index 0. */
#define CRT_IN_BUNDLE(group, index)                                                      \
    .placement_group = (group), .bundle_plus_one = (index) + 1
#define CRT_TASK_OPTIONS(...)                                                            \
    CRTI_CONSTANT(crt_task_options_t, .struct_size = sizeof(crt_task_options_t),         \
                  __VA_ARGS__)
/* For `defaults` of crt_task_t. */
#define CRT_TASK_DEFAULTS(...)                                                           \
    CRTI_DEFAULTS(crt_task_options_t, .struct_size = sizeof(crt_task_options_t),         \
                  __VA_ARGS__)

/* Options of one actor. Zero is the default of every member. */
typedef struct crt_actor_options {
    /* Set by CRT_ACTOR_OPTIONS. */
    size_t struct_size;
    /* Number of CPUs that the actor holds while it lives. 0: the default, none. */
    double num_cpus;
    /* Number of GPUs that the actor holds while it lives. 0: the default, none. A whole number:
     * these GPUs are reserved for the actor. A fraction below 1: the actor shares one GPU with
     * others. */
    double num_gpus;
    /* Other resources that the actor holds: "name=amount,name=amount", each name once. NULL:
     * none. */
    const char *resources;
    /* The name for crt_actor_find, at most 255 bytes; unique among the living actors of the
     * namespace. NULL: no name. */
    const char *name;
    /* The actor outlives its driver and its handles; crt_actor_kill ends the actor. Needs a
     * name. */
    bool detached;
    /* How many times the runtime replaces the actor's process after a death. 0: the default,
     * never. CRT_UNLIMITED: no limit. The replacement starts at once. If processes die within 1 s
     * of their start, or do not start, each replacement is delayed twice as long as the one
     * before: 0.1 s to 12.8 s. Calls wait meanwhile; the state API says why and how long. */
    int64_t max_restarts;
    /* How many times each call, from any handle, is made again when the actor's process died
     * during the call and was restarted, or when a result in a store is lost with its node and
     * somebody waits for the result. 0: the default, the call runs at most once.
     * CRT_UNLIMITED: no limit. A repeated call runs before calls that were made later. Needs
     * max_restarts. */
    int64_t max_task_retries;
    /* Guarantees that at most one process executes calls of this actor, including during a network
     * partition. Without this option, the old process of an actor that was restarted on another
     * node, or whose name was given to another actor, may accept calls until its node hears from
     * the head again.
     *
     * Cost: after 4 s without contact to the head, the actor's process rejects new calls with
     * CRT_ERR_HEAD_LOST (these calls did not run); a head that is down for 4 s has the same
     * effect. The process accepts calls again when the head hears of the node, unless the head has
     * declared the node dead. The head starts a replacement, or an actor of the same name, 5 s
     * after the last contact, or as soon as the head knows that the old process has ended. A call
     * that started before the limit is not stopped, so keep non-repeatable work below 1 s. */
    bool fenced;
    /* How many calls of methods in no concurrency group run at the same time, each on its own
     * thread: 1 to 1000. 0: the default, 1. Calls of one caller start in the order in which they
     * were made, and may end in any order. Above 1, the class's functions must be thread-safe:
     * `self` is shared; `create` and `destroy` run alone. A wait inside one call blocks only the
     * thread of that call. */
    int max_concurrency;
    /* How many unanswered calls of this actor each process may have, from all handles together.
     * One more call fails with CRT_ERR_BACKPRESSURE and is not made. 0 (the default) or
     * CRT_UNLIMITED: no limit. */
    int64_t max_pending_calls;
    /* Returns a living actor of this name, as crt_actor_find does, and makes one only if there is
     * none. If two callers ask at once, both get the same actor. crt_actor_new waits for the head.
     * Needs a name. */
    bool get_if_exists;
    /* How the runtime treats the actor when no node of the cluster could ever run the actor, even
     * if every node were idle. An actor that fails for this reason at a restart is dead. */
    crt_infeasible_t if_infeasible;
    /* How the node is chosen. 0: CRT_SCHEDULE_DEFAULT. */
    crt_scheduling_t scheduling;
    /* The node of CRT_SCHEDULE_NODE_AFFINITY: 32 hex digits (from crt_node_id or crt status). */
    const char *node_id;
    /* With CRT_SCHEDULE_NODE_AFFINITY: the actor may run on another node when `node_id` is gone
     * or lacks the resources. */
    bool node_is_soft;
    /* Labels that the node must have, and alternatives: see label_selector of crt_task_options_t.
     * At most 511 bytes together. NULL: any node. */
    const char *label_selector, *fallback_selectors;
    /* The actor runs on resources that this group has reserved. NULL: no group. */
    crt_placement_group_t *placement_group;
    /* The index of the bundle plus one; set by CRT_IN_BUNDLE(group, index), together with the
     * group. 0: any bundle of the group that has room. */
    int bundle_plus_one;
    /* Tasks and actors that this actor makes run in the group too. Needs placement_group. */
    bool capture_child_tasks;
    /* The namespace of the name. NULL: the namespace of the job. */
    const char *name_space;
    /* A call begins as soon as its arguments are ready. A call whose argument is still being
     * computed does not delay calls that were made later, including calls of the same caller. */
    bool allow_out_of_order_execution;
    /* Keeps the place of padding, which older programs do not set to zero. */
    char crti_padding[7];
    /* Environment variables of the actor and the folder in which its process runs: see
     * crt_task_options_t. A process that replaces the actor's has them, too. */
    const char *const *env_vars;
    const char *working_dir;
} crt_actor_options_t;
#define CRT_ACTOR_OPTIONS(...)                                                           \
    CRTI_CONSTANT(crt_actor_options_t, .struct_size = sizeof(crt_actor_options_t),       \
                  __VA_ARGS__)
/* For `defaults` of crt_actor_class_t. */
#define CRT_ACTOR_DEFAULTS(...)                                                          \
    CRTI_DEFAULTS(crt_actor_options_t, .struct_size = sizeof(crt_actor_options_t),       \
                  __VA_ARGS__)

/* Options of one call of a method. Zero is the default of every member. */
typedef struct crt_call_options {
    /* Set by CRT_CALL_OPTIONS. */
    size_t struct_size;
    /* Fails with CRT_ERR_BACKPRESSURE, instead of blocking the caller, when too many calls are in
     * flight. */
    bool try_only;
    /* The concurrency group in which the call runs. NULL: the group of the method. */
    const struct crt_concurrency_group *concurrency_group;
    /* The name of this call in the state API, errors and logs, 1 to 200 bytes. NULL: the name of
     * the method. */
    const char *name;
    /* How long the call may take, in ms, from submission to its result: 1 to 2^40 (34 years).
     * After that the call fails with CRT_ERR_TIMED_OUT, and the runtime cancels the call as
     * crt_cancel does. 0 (unless the definition has a default) or CRT_FOREVER: no limit. */
    int64_t limit_ms;
    /* How many times the call may begin. The call begins again when the actor's process died (if
     * the actor has max_restarts), or when the method failed with one of retry_exceptions. 1: at
     * most once. 0: the default, one more than the actor's max_task_retries. CRT_UNLIMITED: no
     * limit. A call that begins again for an error runs after the calls made meanwhile. */
    int64_t max_attempts;
    /* Errors for which the call is made again: CRT_STATUSES(CRT_ERR_USER, CRT_ERR_IO), or
     * CRT_RETRY_ALL. NULL: the default, none. */
    const crt_status_t *retry_exceptions;
    /* Streams only: how many results the method may yield that the caller has not taken. At that
     * number crt_yield blocks. 1 to 100000. 0: the default, 1000. CRT_UNLIMITED: 100000. */
    int64_t generator_backpressure_num_objects;
    /* As in crt_task_options_t. */
    int64_t copies;
} crt_call_options_t;
#define CRT_CALL_OPTIONS(...)                                                            \
    CRTI_CONSTANT(crt_call_options_t, .struct_size = sizeof(crt_call_options_t),         \
                  __VA_ARGS__)
/* For `defaults` of crt_method_t. */
#define CRT_CALL_DEFAULTS(...)                                                           \
    CRTI_DEFAULTS(crt_call_options_t, .struct_size = sizeof(crt_call_options_t),         \
                  __VA_ARGS__)

/* Options of crt_put_with. Zero is the default of every member. */
typedef struct crt_put_options {
    /* Set by CRT_PUT_OPTIONS. */
    size_t struct_size;
    /* How many nodes keep the bytes of the value: 1 to 4. 0: the default of the job
     * (crt_options_t), else 1. The copies are made after the call has returned, one transfer each,
     * on nodes that are not drained. While one is left the value is read from it, and when a node
     * dies or is drained another one is made. A copy takes part in spilling like the value itself,
     * and goes with it. Where no other node can have one, the log says so once, and the value works
     * with what there is. A small value, which lies in no store, and the owner of the ref have no
     * copy: the ref ends with its owner. */
    int64_t copies;
} crt_put_options_t;
#define CRT_PUT_OPTIONS(...)                                                             \
    CRTI_CONSTANT(crt_put_options_t, .struct_size = sizeof(crt_put_options_t),           \
                  __VA_ARGS__)

/* Options of crt_actor_find and crt_placement_group_find. Zero is the default of every member. */
typedef struct crt_find_options {
    /* Set by CRT_FIND_OPTIONS. */
    size_t struct_size;
    /* The namespace in which the name is searched. NULL: the namespace of the job. */
    const char *name_space;
} crt_find_options_t;
#define CRT_FIND_OPTIONS(...)                                                            \
    CRTI_CONSTANT(crt_find_options_t, .struct_size = sizeof(crt_find_options_t),         \
                  __VA_ARGS__)

/* Options of crt_actor_kill. Zero is the default of every member. */
typedef struct crt_kill_options {
    /* Set by CRT_KILL_OPTIONS. */
    size_t struct_size;
    /* Ends only the process of the actor. The runtime starts the actor again, as after any death
     * of the process: the restart counts as one of max_restarts; if none is left, the actor is
     * dead. Does nothing if the actor has no process at the moment. */
    bool restart;
} crt_kill_options_t;
#define CRT_KILL_OPTIONS(...)                                                            \
    CRTI_CONSTANT(crt_kill_options_t, .struct_size = sizeof(crt_kill_options_t),         \
                  __VA_ARGS__)

/* Options of crt_cancel. Zero is the default of every member. */
typedef struct crt_cancel_options {
    /* Set by CRT_CANCEL_OPTIONS. */
    size_t struct_size;
    /* If the task runs, its worker process ends at once. Other tasks of that worker run elsewhere.
     * Not for methods of actors. */
    bool force;
    /* Calls that the cancelled call has made go on. */
    bool not_recursive;
} crt_cancel_options_t;
#define CRT_CANCEL_OPTIONS(...)                                                          \
    CRTI_CONSTANT(crt_cancel_options_t, .struct_size = sizeof(crt_cancel_options_t),     \
                  __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
