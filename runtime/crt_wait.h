/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for many things: wait sets, callbacks of refs, and all of a list of refs. Part of
 * crt.h.
 *
 *     crt_waitset_t *set;
 *     crt_event_t event = CRT_EVENT_INIT;
 *
 *     CRT_CHECK(crt_waitset_new(&set));
 *     for (int i = 0; i < 1000; i++) {
 *         crt_ref_t *ref = crt_submit(&square, NULL, i);
 *         CRT_CHECK(crt_waitset_add_ref(set, ref, &inputs[i]));
 *         crt_ref_drop(&ref);
 *     }
 *     while ((status = crt_waitset_next(set, CRT_FOREVER, &event)) == CRT_OK) {
 *         CRT_CHECK(crt_get(event.ref, &number));
 *         printf("%d: %lld\n", *(int *)event.user, (long long)number);
 *     }
 *     if (status != CRT_ERR_NOT_FOUND)
 *         puts(crt_error_detail());
 *     crt_waitset_drop(&set);
 *
 * An event loop of the program (epoll, libuv, GLib) watches the descriptor of a wait set:
 * crt_waitset_fd.
 *
 * Threads: every function may be called from any thread; several threads may wait for one set,
 * and each event is given to one of these threads.
 */
#ifndef CRT_WAIT_H
#define CRT_WAIT_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- wait sets */

/* A set of things that a program waits for, each with a pointer of the program's. */
typedef struct crt_waitset crt_waitset_t;

typedef enum crt_event_kind {
    CRT_EVENT_NONE = 0,
    /* A ref is ready: crt_get of `ref` does not wait. */
    CRT_EVENT_REF = 1,
    /* A stream has yielded `ref`, which was taken from the stream. */
    CRT_EVENT_ITEM = 2,
    /* A stream has no more items. */
    CRT_EVENT_STREAM_END = 3,
    /* An actor is dead for good. A restart is no end. */
    CRT_EVENT_ACTOR_END = 4,
    /* A node has left the cluster, or was never in the cluster. */
    CRT_EVENT_NODE_END = 5,
    /* The process of an actor has ended, and another one follows (max_restarts). */
    CRT_EVENT_ACTOR_RESTART = 6,
    /* The node where an actor lives is drained: an actor with max_restarts moves, another one ends
     * with the node. */
    CRT_EVENT_ACTOR_DRAIN = 7,
    /* A node is drained (crt drain): it takes no new work, and ends. */
    CRT_EVENT_NODE_DRAIN = 8
} crt_event_kind_t;

/* One event. The library owns the refs, handles and texts in the event: crt_waitset_next drops
 * those of the event before. A program that keeps `ref` or `actor` calls crt_ref_keep or
 * crt_actor_keep. */
typedef struct crt_event {
    /* Set by CRT_EVENT_INIT. */
    size_t struct_size;
    crt_event_kind_t kind;
    /* REF and ITEM: CRT_OK, or the error of the ref. STREAM_END: CRT_END_OF_STREAM, or the error
     * of the call. ACTOR_END, ACTOR_RESTART and NODE_END: the reason. */
    crt_status_t status;
    /* The pointer that the program gave when it added the thing. */
    void *user;
    /* REF and ITEM: never NULL. */
    crt_ref_t *ref;
    /* ITEM and STREAM_END: the program's handle, which the program drops. */
    crt_stream_t *stream;
    /* ACTOR_END, ACTOR_RESTART and ACTOR_DRAIN: a handle of the actor. */
    crt_actor_t *actor;
    /* STREAM_END with an error, and all of actors and nodes: the reason, in words. Otherwise
     * NULL. */
    const char *text;
    /* ACTOR_RESTART: how many restarts this event tells of: 1, or more when the program has not
     * taken the event before the next restart, or this process has heard late. */
    uint64_t count;
    /* ACTOR_END, ACTOR_RESTART and ACTOR_DRAIN: how often the actor was restarted in all. A move by
     * a drain is an event, but does not count here, as it does not for max_restarts. */
    uint64_t restarts;
    /* NODE_END and NODE_DRAIN: the node, 32 hex digits; ACTOR_DRAIN: the node that is drained.
     * Otherwise "". */
    char node_id[33];
} crt_event_t;
/* clang-format off */
#ifdef __cplusplus
#define CRT_EVENT_INIT CRTI_MADE(, crt_event_t, .struct_size = sizeof(crt_event_t))
#else
#define CRT_EVENT_INIT {.struct_size = sizeof(crt_event_t)}
#endif
/* clang-format on */

/* Makes an empty set. The caller owns the set and drops it with crt_waitset_drop. A set lives
 * until crt_shutdown at the longest; after that crt_waitset_drop is the only function that takes
 * it. Errors: CRT_ERR_INVALID, set_out is NULL; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_waitset_new(crt_waitset_t **set_out);

/* Gives up a set and sets the pointer to NULL; NULL is fine. Refs, streams and calls that were
 * in the set go on. Threads that wait in crt_waitset_next return with CRT_ERR_CLOSED.
 * Descriptors of the set (crt_waitset_fd) are closed: an event loop forgets the descriptor
 * before. */
CRT_API void crt_waitset_drop(crt_waitset_t **set);

/* Adds a ref. The event CRT_EVENT_REF follows once, when crt_get would not wait, also when the
 * ref has failed or is ready now; then the ref leaves the set. A value in the store of another
 * node is brought to this node. The set has a hold of its own: the program may drop its ref at
 * any time. A ref may be in several sets, and several times in one set. Adding takes the same
 * time however large the set is. Errors: CRT_ERR_INVALID, no such set or ref; CRT_ERR_CLOSED, set
 * or ref are of before crt_shutdown; CRT_ERR_NO_MEMORY; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_waitset_add_ref(crt_waitset_t *set, crt_ref_t *ref, void *user);

/* Adds a stream. Each item is an event CRT_EVENT_ITEM, in order; streams that have items take
 * turns. After the last item comes CRT_EVENT_STREAM_END, and the stream leaves the set. The
 * producer is held back, as by crt_stream_next, when the program takes no events. The program
 * keeps the stream and drops it with crt_stream_drop, at the earliest when no more events are
 * wanted: a stream that is dropped leaves the set without an event.
 *
 * Errors: CRT_ERR_EXISTS, the stream is in a set already; CRT_ERR_INVALID, no such set or stream;
 * CRT_ERR_CLOSED, set or stream are of before crt_shutdown; CRT_ERR_NO_MEMORY;
 * CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_waitset_add_stream(crt_waitset_t *set, crt_stream_t *stream,
                                            void *user);

/* Adds the end of an actor: CRT_EVENT_ACTOR_END follows once, also when the actor is dead
 * already. The set does not keep the actor alive. A restart (max_restarts) is no end.
 *
 * Errors: CRT_ERR_INVALID, no such set or actor; CRT_ERR_CLOSED, set or actor are of before
 * crt_shutdown; CRT_ERR_NO_MEMORY; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_waitset_add_actor_end(crt_waitset_t *set, crt_actor_t *actor,
                                               void *user);

/* Adds the end of a node, 32 hex digits as crt_node_id and crt status give: CRT_EVENT_NODE_END
 * follows once. The status of the event is CRT_ERR_NODE_LOST, also for a node that had left the
 * cluster before; CRT_ERR_NOT_FOUND for a node that the cluster does not know. A node that is cut
 * off counts as lost after 5 s.
 *
 * Errors: CRT_ERR_INVALID, no such set, or node_id is no id; CRT_ERR_CLOSED, the set is of before
 * crt_shutdown; CRT_ERR_NO_MEMORY; CRT_ERR_NOT_INITIALIZED; CRT_ERR_FORKED. */
CRT_API crt_status_t crt_waitset_add_node_end(crt_waitset_t *set, const char *node_id,
                                              void *user);

/* Adds all that becomes of an actor: CRT_EVENT_ACTOR_RESTART for restarts, CRT_EVENT_ACTOR_DRAIN
 * when the node is drained where the actor lives, and CRT_EVENT_ACTOR_END, with which the actor
 * leaves the set. No restart is missed: restarts that the program did not look at, or that this
 * process did not hear of at once, are in the `count` of the next event. What is so already is told
 * at once: an actor that is dead, is being restarted, or lives on a node that is drained. The set
 * does not keep the actor alive. Threads, errors and costs are those of crt_waitset_add_actor_end.
 * As refs and as calls of an actor: crt_watch.h. */
CRT_API crt_status_t crt_waitset_add_actor_watch(crt_waitset_t *set, crt_actor_t *actor,
                                                 void *user);

/* Adds all that becomes of a node: CRT_EVENT_NODE_DRAIN when the node is drained, also when it is
 * drained already, and CRT_EVENT_NODE_END, with which the node leaves the set. Errors are those of
 * crt_waitset_add_node_end. */
CRT_API crt_status_t crt_waitset_add_node_watch(crt_waitset_t *set, const char *node_id,
                                                void *user);

/* Takes out everything that was added with this pointer `user`, which is not NULL: no event with
 * that pointer is given to any later crt_waitset_next, so that the program may free what `user`
 * points to. Calls and streams go on. The time depends on the number of things with this pointer,
 * not on the size of the set. Errors: CRT_ERR_NOT_FOUND, nothing in the set has the pointer;
 * CRT_ERR_INVALID, `user` is NULL or no such set; CRT_ERR_CLOSED, CRT_ERR_NOT_INITIALIZED,
 * CRT_ERR_FORKED. */
CRT_API crt_status_t crt_waitset_remove(crt_waitset_t *set, void *user);

/* Returns the number of refs, streams and ends in the set, ready or not. Returns 0 when `set` is
 * no set. */
CRT_API size_t crt_waitset_count(const crt_waitset_t *set);

/* Waits for the next event and takes it, in the order in which events came. The contents of
 * `event` from the call before are dropped first, also when no event follows. The time of a call
 * does not depend on the size of the set. `wait_ms` is how long the caller waits: 0 asks without
 * waiting, CRT_FOREVER is without limit. Errors: CRT_ERR_TIMED_OUT, nothing has happened;
 * CRT_ERR_NOT_FOUND, the set is empty, so that nothing can happen; CRT_ERR_INTERRUPTED,
 * crt_interrupt was called; CRT_ERR_CANCELLED, the call that waits was cancelled; CRT_ERR_CLOSED,
 * the set was dropped meanwhile or is of before crt_shutdown; CRT_ERR_INVALID, no such set, or
 * `event` was not made with CRT_EVENT_INIT; CRT_ERR_NODE_LOST, this process is in no cluster any
 * more; CRT_ERR_NOT_INITIALIZED, CRT_ERR_FORKED. */
CRT_API crt_status_t crt_waitset_next(crt_waitset_t *set, int64_t wait_ms,
                                      crt_event_t *event);

/* Drops the contents of an event and sets its kind to CRT_EVENT_NONE. Needed only for the last
 * event, which is not given to crt_waitset_next again. */
CRT_API void crt_event_drop(crt_event_t *event);

/* Gives a descriptor that is readable (POLLIN, level-triggered) while the set has an event to
 * give. An event loop watches it and then calls crt_waitset_next with wait_ms 0 until
 * CRT_ERR_TIMED_OUT or CRT_ERR_NOT_FOUND. The set owns the descriptor: a program reads nothing
 * from it and does not close it. Each call returns the same descriptor. Errors: CRT_ERR_IO, the
 * process has no free descriptor; CRT_ERR_INVALID, no such set or fd_out is NULL; CRT_ERR_CLOSED,
 * CRT_ERR_NOT_INITIALIZED, CRT_ERR_FORKED. */
CRT_API crt_status_t crt_waitset_fd(crt_waitset_t *set, int *fd_out);

/* ---------------------------------------------------------------- callbacks */

/* A function of the program that gets a ref when the ref is ready. */
typedef void crt_ref_callback_t(crt_ref_t *ref, void *user);

/* Calls `callback` once, when crt_get of the ref would not wait: with a value, or with an error
 * (crt_ref_error). Threads: callbacks run on one thread of the library, one after the other, in
 * the order in which their refs became ready, never inside of crt_ref_on_ready. Signals are
 * blocked on that thread. A callback may call every function of crt but crt_init and
 * crt_shutdown. Later callbacks wait until this callback returns. A callback should not wait, and
 * must never wait for a ref that another callback makes ready. The registration has a hold of its
 * own: the callback runs also when the program has dropped its ref. `ref` is borrowed until the
 * callback returns; a callback that keeps the ref calls crt_ref_keep. A ref may have several
 * callbacks. At crt_shutdown refs that are not ready fail with CRT_ERR_CLOSED, and their
 * callbacks run before crt_shutdown returns. A process that ends without crt_shutdown does not
 * run these callbacks. Errors: CRT_ERR_INVALID, no such ref or callback is NULL; CRT_ERR_CLOSED,
 * the ref is of before crt_shutdown; CRT_ERR_NO_MEMORY, or CRT_ERR_IO: the thread can't be made;
 * CRT_ERR_NOT_INITIALIZED, CRT_ERR_FORKED. On an error the callback never runs. */
CRT_API crt_status_t crt_ref_on_ready(crt_ref_t *ref, crt_ref_callback_t *callback,
                                      void *user);

/* ---------------------------------------------------------------- all of a list */

typedef struct crt_refs_wait_options {
    /* Set by CRT_REFS_WAIT_OPTIONS. */
    size_t struct_size;
    /* The wait goes on after a ref has failed, until all refs are ready. Default: the wait ends
     * with the first error. */
    bool past_errors;
    /* Was padding, and has no zeros in programs of version 0.2 (docs/abi.md). Not used. */
    char crti_padding[7];
    /* Values stay where they are: the wait ends when each ref has a value or an error, and crt_get
     * brings the value. Default: values are brought to this node. */
    bool no_fetch;
} crt_refs_wait_options_t;
#define CRT_REFS_WAIT_OPTIONS(...)                                                       \
    CRTI_CONSTANT(crt_refs_wait_options_t,                                               \
                  .struct_size = sizeof(crt_refs_wait_options_t), __VA_ARGS__)

/* Waits until crt_get of none of the refs would wait, with one deadline for all: values are
 * brought to this node side by side, unless no_fetch is set. `options` may be NULL. `wait_ms` is
 * how long the caller waits: 0 asks without waiting, CRT_FOREVER is without limit. A ref may stand
 * in the list several times. The first ref that fails ends the wait: the status is that of the
 * ref, its index goes to `*failed_out`, and the other calls go on. With past_errors the status is
 * that of the failed ref with the lowest index. `failed_out` may be NULL. `*failed_out` is `count`
 * when no ref failed. Errors: those of the refs; CRT_ERR_TIMED_OUT, some are not ready;
 * CRT_ERR_INTERRUPTED, crt_interrupt was called; CRT_ERR_CANCELLED, the call that waits was
 * cancelled; CRT_ERR_DEADLOCK, the call waits for itself; CRT_ERR_INVALID, a ref is NULL or was
 * dropped, the detail says which; CRT_ERR_NO_MEMORY, CRT_ERR_CLOSED, CRT_ERR_NOT_INITIALIZED,
 * CRT_ERR_FORKED. */
CRT_API crt_status_t crt_refs_wait(crt_ref_t *const *refs, size_t count,
                                   const crt_refs_wait_options_t *options,
                                   int64_t wait_ms, size_t *failed_out);

#ifdef __cplusplus
}
#endif

#endif
