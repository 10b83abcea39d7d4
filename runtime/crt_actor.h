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

/* Finds a living actor by name, in the namespace of this job or in that of the options. `options`
 * may be NULL. Waits for the answer of the head, up to 30 s.
 *
 * `actor_class` must be the class of the actor. NULL accepts any class; the handle can then only
 * be used for crt_actor_kill.
 *
 * Stores a handle in `*actor_out`. The handle keeps the actor alive like any other handle. The
 * caller owns the handle and drops the handle with crt_actor_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when no living actor has this name; CRT_ERR_INVALID, when the name is
 * NULL or empty, the actor is of another class, actor_out is NULL, or the options were not made
 * with CRT_FIND_OPTIONS; CRT_ERR_UNSUPPORTED, when the program sets an option that only a newer
 * version of crt has; CRT_ERR_HEAD_LOST, when the head is away for 30 s; CRT_ERR_TIMED_OUT, when
 * the head does not answer within 30 s; CRT_ERR_INTERRUPTED, after crt_interrupt;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_status_t crt_actor_find(const char *name, const crt_find_options_t *options,
                                    const crt_actor_class_t *actor_class,
                                    crt_actor_t **actor_out);

/* Ends the actor, or with the option `restart` only the process of the actor. `options` may be
 * NULL. Pending calls of the actor fail with CRT_ERR_ACTOR_DIED; with `restart` they are made again
 * if max_task_retries allows. Without `restart` the actor is not restarted, whatever max_restarts
 * says. Waits until the head has confirmed, up to 30 s. Calls that are made directly after a
 * `restart` may still reach the old process. CRT_OK also when the actor has ended before.
 *
 * Errors: CRT_ERR_INVALID, when the handle is NULL, was dropped, or never was a handle, or the
 * options were not made with CRT_KILL_OPTIONS; CRT_ERR_UNSUPPORTED, when the program sets an option
 * that only a newer version of crt has; CRT_ERR_CLOSED, when the handle is from before
 * crt_shutdown; CRT_ERR_HEAD_LOST, when the head is away for 30 s; CRT_ERR_TIMED_OUT, when the
 * head does not answer within 30 s; CRT_ERR_INTERRUPTED, after crt_interrupt;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork. If the
 * actor could not be made, returns the status that calls of the actor return. */
CRT_API crt_status_t crt_actor_kill(crt_actor_t *actor,
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
 * serves the actor by now (nothing was saved); CRT_ERR_INVALID, when the call is a task or NULL, or
 * the class has no `restore`; CRT_ERR_HEAD_LOST, when the head is away for 30 s; CRT_ERR_TIMED_OUT,
 * when the head does not answer within 30 s; CRT_ERR_IO, when the head can't store it. After the
 * last three errors, the state may or may not have been saved. */
CRT_API crt_status_t crt_actor_save(crt_call_t *call, const void *state, size_t size);

#ifdef __cplusplus
}
#endif

#endif
