/* SPDX-License-Identifier: Apache-2.0 */
/* Ready-made actors for programs of any kind: pools of actors, queues, and progress. The actors
 * are part of libcrt; a program that uses them lists no class.
 *
 * Functions may be called from any thread, but the functions of one pool from one thread at a
 * time. */
#ifndef CRT_UTIL_H
#define CRT_UTIL_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- ActorPool */

/* A pool of actors: gives each call to an actor that is free. An actor runs one call of the pool at
 * a time; the other calls wait in the pool.
 *
 *     static crt_ref_t *square(crt_actor_t *actor, void *user)
 *     {
 *         return crt_call(actor, &calculator_square, *(int *)user);
 *     }
 *     ...
 *     for (int i = 0; i < 100; i++)
 *         CRT_CHECK(crt_pool_submit(pool, square, &numbers[i]));
 *     while (crt_pool_has_next(pool)) {
 *         CRT_CHECK(crt_pool_next(pool, -1, &ref));
 *         ...
 *         crt_ref_drop(&ref);
 *     }
 *
 * A call begins when the program submits it, or later, while the program waits for a result or adds
 * an actor. An actor that has died and is not restarted leaves the pool: the call that the
 * actor ran has the error, no other call has. One thread at a time uses a pool. */
typedef struct crt_pool crt_pool_t;

/* Makes one call of `actor` and returns its result, as crt_call does. */
typedef crt_ref_t *(*crt_pool_call_t)(crt_actor_t *actor, void *user);

/* Makes a pool of `count` actors. 0 is allowed: add actors with crt_pool_push. The pool keeps
 * a handle of each actor of its own. Caller owns the result and frees it with crt_pool_drop.
 *
 * Errors: CRT_ERR_INVALID, when an actor is not a handle or an argument is NULL;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_pool_new(crt_actor_t *const *actors, size_t count,
                                  crt_pool_t **pool_out);

/* Submits a call: the pool calls `call` with an actor that is free, at once or when an actor
 * becomes free. `user` must stay valid until then, at the latest until the result is taken.
 *
 * Errors: CRT_ERR_INVALID, when `pool` or `call` is NULL; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_pool_submit(crt_pool_t *pool, crt_pool_call_t call, void *user);

/* True when there are calls whose results were not taken. */
CRT_API bool crt_pool_has_next(const crt_pool_t *pool);

/* Waits for a result and takes it. crt_pool_next takes the result of the call that was
 * submitted first; crt_pool_next_ready takes the result of any call that has ended, in the
 * order in which the calls ended. A program may use both. `wait_ms` < 0 has no limit, 0 does
 * not wait. Caller owns the ref, which is ready (a value or an error), and drops it with
 * crt_ref_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when all results were taken; CRT_ERR_TIMED_OUT, when `wait_ms`
 * passed (the program may call again); CRT_ERR_ACTOR_DIED, when calls wait and no actor is left;
 * CRT_ERR_INTERRUPTED, when crt_interrupt was called; CRT_ERR_INVALID, when an argument is
 * NULL. */
CRT_API crt_status_t crt_pool_next(crt_pool_t *pool, int64_t wait_ms,
                                   crt_ref_t **result_out);
CRT_API crt_status_t crt_pool_next_ready(crt_pool_t *pool, int64_t wait_ms,
                                         crt_ref_t **result_out);

/* True when a submitted call would begin at once, according to the last wait. */
CRT_API bool crt_pool_has_free(const crt_pool_t *pool);

/* Adds an actor. The pool keeps a handle of its own. Errors: CRT_ERR_INVALID, when `pool` is
 * NULL or `actor` is not a handle; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_pool_push(crt_pool_t *pool, crt_actor_t *actor);
/* Takes an idle actor out of the pool. Caller owns the handle and drops it with
 * crt_actor_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when no actor is idle; CRT_ERR_INVALID, when an argument is NULL. */
CRT_API crt_status_t crt_pool_pop(crt_pool_t *pool, crt_actor_t **actor_out);

/* Drops a pool and sets the pointer to NULL: frees the results that were not taken, and drops the
 * pool's handles of its actors. NULL is allowed. */
CRT_API void crt_pool_drop(crt_pool_t **pool);

/* ---------------------------------------------------------------- Queue */

/* The class Queue: a queue of refs. Any process that has the handle of the actor may put items
 * and get items. Items are got in the order in which they were put, each item once. The values
 * stay where they are: if the owner of an item has ended, the item has that error.
 *
 * A caller that waits because the queue is full or empty asks again, at most every 20 ms, so
 * that waiting callers need no thread of the actor. The order among several waiting callers is
 * not kept.
 *
 * Timeouts: `wait_ms` 0 does not wait for the queue, < 0 has no limit. The timeout limits the
 * wait for room or for items; the actor has 1 s more to answer, because the answer may hold an
 * item. When the actor ends, all waits end with CRT_ERR_ACTOR_DIED. If a process gets items
 * and ends, those items are lost.
 *
 * Create argument: the number of items that the queue holds, 0 for no limit. */
/* Makes a queue that holds `capacity` items (0: no limit). `options` may be NULL. Caller owns
 * the handle and drops it with crt_actor_drop. Never NULL: an error shows in the calls of the
 * actor. */
CRT_API crt_actor_t *crt_queue_new(const crt_actor_options_t *options, size_t capacity);

/* Puts one item, or `count` items (1 to 10000) at once: all of them or none. The caller keeps
 * its own refs. `wait_ms` 0 does not wait for room, < 0 has no limit.
 *
 * Errors: CRT_ERR_TIMED_OUT, when the queue stayed full or did not answer; CRT_ERR_INVALID,
 * when `count` is wrong or larger than the queue's capacity; CRT_ERR_ACTOR_DIED, when the
 * queue's actor has ended; CRT_ERR_INTERRUPTED, when crt_interrupt was called while the queue
 * was full. */
CRT_API crt_status_t crt_queue_put(crt_actor_t *queue, crt_ref_t *item, int64_t wait_ms);
CRT_API crt_status_t crt_queue_put_batch(crt_actor_t *queue, crt_ref_t *const *items,
                                         size_t count, int64_t wait_ms);

/* crt_queue_get takes the first item. crt_queue_get_batch waits for one item and takes up to
 * `most` items (1 to 10000) that are there; *count_out is their number. `wait_ms` 0 does not
 * wait for items, < 0 has no limit. Caller owns the refs and drops them with crt_ref_drop.
 *
 * Errors: CRT_ERR_TIMED_OUT, when the queue stayed empty or did not answer; CRT_ERR_INVALID,
 * when an argument is wrong; CRT_ERR_ACTOR_DIED, when the queue's actor has ended;
 * CRT_ERR_INTERRUPTED, when crt_interrupt was called while the queue was empty. */
CRT_API crt_status_t crt_queue_get(crt_actor_t *queue, int64_t wait_ms,
                                   crt_ref_t **item_out);
CRT_API crt_status_t crt_queue_get_batch(crt_actor_t *queue, size_t most, int64_t wait_ms,
                                         crt_ref_t **items_out, size_t *count_out);

/* The number of items that the queue held when the actor answered. Waits for the answer
 * without a limit. Errors: CRT_ERR_ACTOR_DIED, when the queue's actor has ended. */
CRT_API crt_status_t crt_queue_size(crt_actor_t *queue, size_t *size_out);

/* ---------------------------------------------------------------- Progress */

/* The class Progress: counts the steps of many workers, and draws them as one bar at the driver.
 *
 *     progress = crt_progress_new(NULL, "images", 1000);
 *     for (int i = 0; i < 10; i++)
 *         refs[i] = crt_submit(&resize, NULL, progress, i);    each calls crt_progress_add
 *     CRT_CHECK(crt_progress_wait(progress, refs, 10, -1));
 *
 * Create arguments: a label of up to 80 bytes, and the total number of steps, 0 if the number is
 * not known. */
/* Makes a progress with a label of up to 80 bytes and `total` steps (0: not known). `options`
 * may be NULL. Caller owns the handle and drops it with crt_actor_drop. Never NULL: an error
 * shows in the calls of the actor. */
CRT_API crt_actor_t *crt_progress_new(const crt_actor_options_t *options,
                                      const char *label, int64_t total);

/* Adds `steps` to the number of steps that were made. Any process that has the handle may
 * call. The call does not wait for the actor. Errors: those of crt_tell, such as
 * CRT_ERR_INVALID, when `progress` is not a handle. */
CRT_API crt_status_t crt_progress_add(crt_actor_t *progress, int64_t steps);

/* Reads the number of steps that were made, and the total number. Waits for the answer of the
 * actor. Errors: CRT_ERR_ACTOR_DIED, when the progress has died; CRT_ERR_INTERRUPTED, when
 * crt_interrupt was called. */
CRT_API crt_status_t crt_progress_read(crt_actor_t *progress, int64_t *done_out,
                                       int64_t *total_out);

/* Waits until all refs are ready, values or errors, as crt_wait does, and draws the progress
 * on stderr meanwhile: on a terminal a bar, ten times a second, otherwise a line for every 10
 * % and one at the end. If the progress actor dies, a line on stderr says so, and the wait
 * continues. `wait_ms` < 0 has no limit.
 *
 * Errors: CRT_ERR_TIMED_OUT, when `wait_ms` passed before all refs were ready; other errors of
 * crt_wait, such as CRT_ERR_INTERRUPTED. */
CRT_API crt_status_t crt_progress_wait(crt_actor_t *progress, crt_ref_t *const *refs,
                                       size_t count, int64_t wait_ms);

#ifdef __cplusplus
}
#endif

#endif
