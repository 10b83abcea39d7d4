/* SPDX-License-Identifier: Apache-2.0 */
/* Actors: finding an actor by name, ending an actor, and saving state for the next process of an
 * actor. Part of crt.h, which has the functions that make actors and call methods.
 *
 * Threads: every function here may be called from any thread.
 */
#ifndef CRT_ACTOR_H
#define CRT_ACTOR_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Finds a living actor by name. crt_actor_find searches in the namespace of this job;
 * crt_actor_find_in searches in `name_space` (NULL: the namespace of this job). Waits for the
 * answer of the head, up to 30 s.
 *
 * `actor_class` must be the class of the actor. NULL accepts any class; the handle can then only
 * be used for crt_actor_kill.
 *
 * Stores a handle in `*actor_out`. The handle keeps the actor alive like any other handle. The
 * caller owns the handle and drops the handle with crt_actor_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when no living actor has this name; CRT_ERR_INVALID, when the name is
 * NULL or empty, the actor is of another class, or actor_out is NULL; CRT_ERR_HEAD_LOST, when the
 * head is away for 30 s; CRT_ERR_TIMED_OUT, when the head does not answer within 30 s;
 * CRT_ERR_INTERRUPTED, after crt_interrupt; CRT_ERR_NOT_INITIALIZED, before crt_init;
 * CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_status_t crt_actor_find(const char *name,
                                    const crt_actor_class_t *actor_class,
                                    crt_actor_t **actor_out);
CRT_API crt_status_t crt_actor_find_in(const char *name_space, const char *name,
                                       const crt_actor_class_t *actor_class,
                                       crt_actor_t **actor_out);

/* Ends the actor. Pending calls of the actor fail with CRT_ERR_ACTOR_DIED. The actor is not
 * restarted. Waits until the head has confirmed, up to 30 s. CRT_OK also when the actor has ended
 * before.
 *
 * Errors: CRT_ERR_INVALID, when the handle is NULL, was dropped, or never was a handle;
 * CRT_ERR_CLOSED, when the handle is from before crt_shutdown; CRT_ERR_HEAD_LOST, when the head is
 * away for 30 s; CRT_ERR_TIMED_OUT, when the head does not answer within 30 s;
 * CRT_ERR_INTERRUPTED, after crt_interrupt; CRT_ERR_NOT_INITIALIZED, before crt_init;
 * CRT_ERR_FORKED, in a child process after fork. If the actor could not be made, returns the
 * status that calls of the actor return. */
CRT_API crt_status_t crt_actor_kill(crt_actor_t *actor);

/* Options of crt_actor_kill_with. Zero is the default of every member. */
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

/* Ends the actor, or with `restart` only the process of the actor. `options` may be NULL: then the
 * function is crt_actor_kill.
 *
 * With `restart`, pending calls of the process fail with CRT_ERR_ACTOR_DIED, or are made again if
 * max_task_retries allows. The function returns when the head has confirmed, after 30 s at most.
 * Calls made directly afterwards may still reach the old process.
 *
 * Errors: CRT_ERR_INVALID, when the handle is NULL, was dropped, or never was a handle, or the
 * struct was not made with CRT_KILL_OPTIONS; CRT_ERR_UNSUPPORTED, when the program sets an option
 * that only a newer version of crt has; CRT_ERR_CLOSED, when the handle is from before
 * crt_shutdown; CRT_ERR_HEAD_LOST, when the head is away for 30 s; CRT_ERR_TIMED_OUT, when the
 * head does not answer within 30 s; CRT_ERR_INTERRUPTED, after crt_interrupt;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork. If the
 * actor could not be made, returns the status that calls of the actor return. */
CRT_API crt_status_t crt_actor_kill_with(crt_actor_t *actor,
                                         const crt_kill_options_t *options);

/* Ends the actor in an orderly way, from outside: calls that this process made before are carried
 * out first, then no other call begins, those that run are answered, `destroy` runs, and the
 * actor is dead for good (max_restarts does not count). Calls of other processes that wait then
 * fail with CRT_ERR_ACTOR_DIED. Returns when no other call begins. `limit_ms`: how long it may
 * take until then, 0: without limit; afterwards the actor is killed as by crt_actor_kill and
 * CRT_ERR_TIMED_OUT returned. CRT_OK also when it had ended before. CRT_ERR_INVALID: no handle,
 * or a limit below 0; CRT_ERR_DEADLOCK: the actor asks for its own end, which crt_actor_exit is
 * for; CRT_ERR_INTERRUPTED: the wait was, the end comes. */
CRT_API crt_status_t crt_actor_stop(crt_actor_t *actor, int64_t limit_ms);

/* Saves `size` bytes, at most 1 MiB, for the next process of the actor. Use crt_actor_save inside
 * `create` or a method of an actor. When the actor is restarted, the runtime passes the bytes to
 * `restore` of the class. The bytes replace the bytes that were saved before; size 0 removes the
 * saved bytes. When the function returns CRT_OK, the state is durable. The state is deleted when
 * the actor ends.
 *
 * The caller keeps the ownership of `state`. Waits for the head, up to 30 s.
 *
 * Errors: CRT_ERR_TOO_LARGE, when `size` is above 1 MiB; CRT_ERR_ACTOR_DIED, when another process
 * serves the actor by now (nothing was saved); CRT_ERR_INVALID, when the call is a task or the
 * class has no `restore`; CRT_ERR_HEAD_LOST, when the head is away for 30 s; CRT_ERR_TIMED_OUT,
 * when the head does not answer within 30 s. After the last two errors, the state may or may not
 * have been saved. */
CRT_API crt_status_t crt_actor_save(crt_call_t *call, const void *state, size_t size);

#ifdef __cplusplus
}
#endif

#endif
