/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: a program hears of the end, of restarts and of the drain of actors and nodes, as refs
 * and as calls of an actor. A program that takes events in a loop has the same in wait sets:
 * crt_waitset_add_actor_watch and crt_waitset_add_node_watch of crt_wait.h. Not part of crt.h.
 *
 *     CRT_DEFINE_METHOD(keeper, hear, (crt_notice_t, notice, crt_notice_t_type))
 *     {
 *         if (notice.kind == CRT_EVENT_ACTOR_END)
 *             printf("%s has ended: %s\n", notice.actor_id, notice.text);
 *         return CRT_OK;
 *     }
 *     ...
 *     CRT_CHECK(crt_actor_watch(worker, keeper, &keeper_hear));
 *
 * What is promised:
 * - Nothing is missed. The head keeps how often an actor was restarted; a restart that this
 *   process hears of late, because its node had no link to the head or the head was started again,
 *   is in the number of the next notice. The end comes once, as the last notice.
 * - What is so already is told at once: an actor or node that has ended before, an actor that is
 *   restarted just now, a node that is drained.
 * - A watch is of the process that asked for it and ends with that process, as a monitor in Erlang
 *   does. An actor that watches others asks for its watches in `create`, so that its next process
 *   has them again; what has ended meanwhile is then told at once.
 * - A watch keeps nothing alive, neither the watched actor nor the watcher.
 * - A handle names the watched actor: a program watches the actors that it has made, was given, or
 *   has found by crt_actor_find, which looks in the namespace of the job unless given another one.
 *
 * Threads: every function here may be called from any thread. Costs: a watch takes a few hundred
 * bytes; making one, and what it is told, take the same time however many there are. A change of a
 * node is compared with each watch of a node. */
#ifndef CRT_WATCH_H
#define CRT_WATCH_H

#include "crt.h"
#include "crt_define.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a watch tells. The texts are never NULL. */
typedef struct crt_notice {
    /* Set by the function that fills in the struct. */
    size_t struct_size;
    /* CRT_EVENT_ACTOR_RESTART, CRT_EVENT_ACTOR_DRAIN, CRT_EVENT_ACTOR_END, CRT_EVENT_NODE_DRAIN
     * or CRT_EVENT_NODE_END. */
    crt_event_kind_t kind;
    /* Of an end and a restart: the reason, as an event of a wait set has it. CRT_OK: a drain. */
    crt_status_t status;
    /* The actor, as crt_actor_id gives it; "" of a node. */
    const char *actor_id;
    /* The node that has ended or is drained, or on which an actor lives that is drained; else
     * "". */
    const char *node_id;
    /* The reason, in words. */
    const char *text;
    /* ACTOR_RESTART: how many restarts this notice tells of, as a rule 1. */
    uint64_t count;
    /* ACTOR_RESTART and ACTOR_END: how often the actor was restarted in all. */
    uint64_t restarts;
} crt_notice_t;

/* Reads a notice from the argument of a call or the value of a ref. `size` is
 * sizeof(crt_notice_t). The texts are borrowed: they are valid as long as `value`. Errors:
 * CRT_ERR_INVALID, the value is NULL or no notice, `to` is NULL, or `size` is that of no version of
 * crt_notice_t. */
CRT_API crt_status_t crt_notice_read(const crt_value_t *value, size_t size,
                                     crt_notice_t *to);

/* Writes a notice as arguments, for a program that passes it on; `value` is a crt_notice_t, `items`
 * as in crt_type_t. */
CRT_API size_t crt_notice_pack(const void *value, crt_arg_t *items);

static inline crt_status_t crti_notice_unpack(const crt_value_t *items, void *to)
{
    return crt_notice_read(items, sizeof(crt_notice_t), (crt_notice_t *)to);
}

/* Returns a ref that is ready when the actor is dead for good; a restart is no end. The value is a
 * notice (crt_get_typed with crt_notice_t_type). The ref is one of this process like the result of
 * a call: it can be waited for, passed to calls, and given to crt_ref_on_ready. The caller owns
 * the ref and drops it with crt_ref_drop; while the actor lives, calls for the same actor return
 * the same ref. A ref whose last handle in the cluster is dropped is forgotten. A failure is a
 * failed ref, never NULL: CRT_ERR_INVALID, no such actor; CRT_ERR_CLOSED, the handle is of before
 * crt_shutdown; CRT_ERR_NO_MEMORY, CRT_ERR_NOT_INITIALIZED, CRT_ERR_FORKED. At crt_shutdown, or
 * when this process is in no cluster any more, the ref fails, unless the actor has ended. */
CRT_API crt_ref_t *crt_actor_ended(crt_actor_t *actor);

/* Returns a ref that is ready when the actor has been restarted more than `restarts` times in all,
 * or is dead for good. The value is a notice of either, whose `restarts` the program gives the next
 * time: so no restart is missed between two refs. Ownership and errors are those of
 * crt_actor_ended. */
CRT_API crt_ref_t *crt_actor_restarted(crt_actor_t *actor, uint64_t restarts);

/* Returns a ref that is ready when the node has left the cluster, or was never in it. `node_id` is
 * 32 hex digits. The value is a notice; its status is that of CRT_EVENT_NODE_END. Ownership and
 * errors are those of crt_actor_ended; CRT_ERR_INVALID, `node_id` is no id. */
CRT_API crt_ref_t *crt_node_ended(const char *node_id);

/* Watches an actor by calls of another one: for each restart and drain, and for the end, `watcher`
 * gets a call of `method` with a notice as its only argument. The calls come in order, from this
 * process, as those of crt_tell: their results are dropped, errors are logged. They are made
 * whatever max_pending_calls says. A call runs again only where max_task_retries of `watcher` says
 * so. The watch ends after the call for the end, with the end of `watcher`, by crt_unwatch, and
 * with this process. The same watch a second time is a watch of its own.
 *
 * Errors: CRT_ERR_INVALID, no such actor or watcher, or the watcher's class has no such method;
 * CRT_ERR_CLOSED, a handle is of before crt_shutdown; CRT_ERR_NO_MEMORY, CRT_ERR_NOT_INITIALIZED,
 * CRT_ERR_FORKED. */
CRT_API crt_status_t crt_actor_watch(crt_actor_t *actor, crt_actor_t *watcher,
                                     const crt_method_t *method);

/* Watches a node in the same way: for its drain and its end. Errors: those of crt_actor_watch;
 * CRT_ERR_INVALID, `node_id` is no id of 32 hex digits. */
CRT_API crt_status_t crt_node_watch(const char *node_id, crt_actor_t *watcher,
                                    const crt_method_t *method);

/* Ends all watches that this process has made for `watcher` with crt_actor_watch of the actor with
 * this id, or with crt_node_watch of the node. Calls that were made before still run. Goes through
 * the watches of this process. Errors: CRT_ERR_NOT_FOUND, there is none; CRT_ERR_INVALID, no such
 * watcher, or `id` is no id; CRT_ERR_CLOSED, CRT_ERR_NOT_INITIALIZED, CRT_ERR_FORKED. */
CRT_API crt_status_t crt_unwatch(const char *id, crt_actor_t *watcher);

#ifdef __cplusplus
}
#endif

/* Describes a notice as a parameter, and for crt_get_typed. */
#ifdef __cplusplus
[[maybe_unused]]
#else
__attribute__((unused))
#endif
static const crt_type_t crt_notice_t_type =
    CRT_TYPE(.name = "crt_notice_t", .size = sizeof(crt_notice_t),
             .pack = crt_notice_pack, .unpack = crti_notice_unpack);

#endif
