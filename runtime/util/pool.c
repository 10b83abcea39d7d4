/* SPDX-License-Identifier: Apache-2.0 */
/* ActorPool: gives calls to whichever actor is free.
 *
 * Where it sits
 *     a program -> [ runtime/util/pool.c ] -> calls of its actors
 * States of a call
 *     waiting -> running (has an actor) -> ended (its actor is free again) -> taken by the program
 * Ownership
 *     The pool has a hold on each actor and on the result of each call that was not taken.
 * Invariants
 *     No call waits while an actor is idle. An actor runs one call of the pool at a time.
 * Failure
 *     An actor that has died, for good, leaves the pool; its call has the error. Without actors
 *     nothing is waited for.
 */
#include <stdlib.h>
#include <sys/queue.h>

#include "runtime/crt_util.h"
#include "runtime/util/deadline.h"

typedef struct entry {
    TAILQ_ENTRY(entry) link, ended_link; /* in `all`, and in `ended` */
    crt_pool_call_t call;
    void *user;
    crt_ref_t *ref;     /* NULL: it waits */
    crt_actor_t *actor; /* of one that runs */
} entry_t;

typedef TAILQ_HEAD(entries, entry) entries_t;

struct crt_pool {
    entries_t all, ended; /* as they were submitted; as they ended */
    entry_t *waiting;     /* the first one; those behind it wait, too */
    crt_actor_t **idle;   /* the longest idle one first */
    entry_t **running;
    size_t idle_count, running_count, room; /* of both lists */
    crt_ref_t **refs;
    size_t *ready;
};

/* ---------------------------------------------------------------- actors */

static crt_status_t make_room(crt_pool_t *p)
{
    size_t room = p->room ? 2 * p->room : 8;
    crt_actor_t **idle = realloc(p->idle, room * sizeof(crt_actor_t *));
    entry_t **running = realloc(p->running, room * sizeof(entry_t *));
    crt_ref_t **refs = realloc(p->refs, room * sizeof(crt_ref_t *));
    size_t *ready = realloc(p->ready, room * sizeof(*ready));

    p->idle = idle ? idle : p->idle;
    p->running = running ? running : p->running;
    p->refs = refs ? refs : p->refs;
    p->ready = ready ? ready : p->ready;
    if (!idle || !running || !refs || !ready)
        return crt_raise(CRT_ERR_NO_MEMORY, "a pool of %zu actors", room);
    p->room = room;
    return CRT_OK;
}

static crt_actor_t *take_idle(crt_pool_t *p)
{
    crt_actor_t *actor = p->idle[0];

    p->idle_count--;
    for (size_t i = 0; i < p->idle_count; i++)
        p->idle[i] = p->idle[i + 1];
    return actor;
}

static void start_waiting(crt_pool_t *p)
{
    while (p->idle_count && p->waiting) {
        entry_t *e = p->waiting;

        p->waiting = TAILQ_NEXT(e, link);
        e->actor = take_idle(p);
        e->ref = e->call(e->actor, e->user);
        p->running[p->running_count++] = e;
    }
}

/* One that is restarted takes calls again. */
static bool is_dead(crt_actor_t *actor, crt_ref_t *ref)
{
    crt_status_t status = crt_ref_error(ref) ? crt_actor_ready(actor, 0) : CRT_OK;

    return status != CRT_OK && status != CRT_ERR_TIMED_OUT &&
           status != CRT_ERR_INTERRUPTED;
}

static void end_call(crt_pool_t *p, entry_t *e)
{
    if (is_dead(e->actor, e->ref))
        crt_actor_drop(&e->actor);
    else
        p->idle[p->idle_count++] = e->actor;
    e->actor = NULL;
    TAILQ_INSERT_TAIL(&p->ended, e, ended_link);
}

/* ---------------------------------------------------------------- waiting */

/* Until one more has ended. */
static crt_status_t wait_running(crt_pool_t *p, int64_t deadline)
{
    size_t count, kept = 0, next = 0;

    if (!p->running_count)
        return crt_raise(CRT_ERR_ACTOR_DIED,
                         "the pool has no actor that lives: its calls "
                         "wait for crt_pool_push");
    for (size_t i = 0; i < p->running_count; i++)
        p->refs[i] = p->running[i]->ref;
    CRT_TRY(crt_wait(p->refs, p->running_count, 1, crti_deadline_left(deadline), p->ready,
                     &count));
    for (size_t i = 0; i < p->running_count; i++) {
        if (next < count && p->ready[next] == i) {
            next++;
            end_call(p, p->running[i]);
        } else {
            p->running[kept++] = p->running[i];
        }
    }
    p->running_count = kept;
    start_waiting(p);
    return CRT_OK;
}

static crt_ref_t *take(crt_pool_t *p, entry_t *e)
{
    crt_ref_t *ref = e->ref;

    TAILQ_REMOVE(&p->all, e, link);
    TAILQ_REMOVE(&p->ended, e, ended_link);
    free(e);
    return ref;
}

static crt_status_t check_next(const crt_pool_t *pool, crt_ref_t **result_out)
{
    if (!pool || !result_out)
        return crt_raise(CRT_ERR_INVALID, "the pool or the place of the result is NULL");
    if (TAILQ_EMPTY(&pool->all))
        return crt_raise(CRT_ERR_NOT_FOUND, "the pool has no call whose result was not "
                                            "taken");
    return CRT_OK;
}

crt_status_t crt_pool_next(crt_pool_t *pool, int64_t timeout_ms, crt_ref_t **result_out)
{
    int64_t deadline = crti_deadline_after(timeout_ms);
    entry_t *first;

    CRT_TRY(check_next(pool, result_out));
    first = TAILQ_FIRST(&pool->all);
    while (!first->ref || first->actor)
        CRT_TRY(wait_running(pool, deadline));
    *result_out = take(pool, first);
    return CRT_OK;
}

crt_status_t crt_pool_next_ready(crt_pool_t *pool, int64_t timeout_ms,
                                 crt_ref_t **result_out)
{
    int64_t deadline = crti_deadline_after(timeout_ms);

    CRT_TRY(check_next(pool, result_out));
    while (TAILQ_EMPTY(&pool->ended))
        CRT_TRY(wait_running(pool, deadline));
    *result_out = take(pool, TAILQ_FIRST(&pool->ended));
    return CRT_OK;
}

/* ---------------------------------------------------------------- the pool */

crt_status_t crt_pool_push(crt_pool_t *pool, crt_actor_t *actor)
{
    crt_actor_t *kept = crt_actor_keep(actor);

    if (!pool || !kept)
        return crt_raise(CRT_ERR_INVALID, "the pool is NULL, or the actor is no handle");
    if (pool->idle_count + pool->running_count == pool->room) {
        crt_status_t status = make_room(pool);

        if (status != CRT_OK) {
            crt_actor_drop(&kept);
            return status;
        }
    }
    pool->idle[pool->idle_count++] = kept;
    start_waiting(pool);
    return CRT_OK;
}

crt_status_t crt_pool_pop(crt_pool_t *pool, crt_actor_t **actor_out)
{
    if (!pool || !actor_out)
        return crt_raise(CRT_ERR_INVALID, "the pool or the place of the actor is NULL");
    if (!pool->idle_count)
        return crt_raise(CRT_ERR_NOT_FOUND, "no actor of the pool is idle");
    *actor_out = take_idle(pool);
    return CRT_OK;
}

crt_status_t crt_pool_new(crt_actor_t *const *actors, size_t count, crt_pool_t **pool_out)
{
    crt_pool_t *p;
    crt_status_t status = CRT_OK;

    if (!pool_out || (count && !actors))
        return crt_raise(CRT_ERR_INVALID, "the actors or the place of the pool are NULL");
    p = calloc(1, sizeof(*p));
    if (!p)
        return crt_raise(CRT_ERR_NO_MEMORY, "a pool");
    TAILQ_INIT(&p->all);
    TAILQ_INIT(&p->ended);
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = crt_pool_push(p, actors[i]);
    if (status != CRT_OK)
        crt_pool_drop(&p);
    else
        *pool_out = p;
    return status;
}

void crt_pool_drop(crt_pool_t **pool_take)
{
    crt_pool_t *pool = pool_take ? *pool_take : NULL;
    entry_t *e;

    if (!pool)
        return;
    *pool_take = NULL;
    while ((e = TAILQ_FIRST(&pool->all)) != NULL) {
        TAILQ_REMOVE(&pool->all, e, link);
        crt_ref_drop(&e->ref);
        crt_actor_drop(&e->actor);
        free(e);
    }
    for (size_t i = 0; i < pool->idle_count; i++)
        crt_actor_drop(&pool->idle[i]);
    free(pool->idle);
    free(pool->running);
    free(pool->refs);
    free(pool->ready);
    free(pool);
}

crt_status_t crt_pool_submit(crt_pool_t *pool, crt_pool_call_t call, void *user)
{
    entry_t *e;

    if (!pool || !call)
        return crt_raise(CRT_ERR_INVALID, "the pool or the call is NULL");
    e = calloc(1, sizeof(*e));
    if (!e)
        return crt_raise(CRT_ERR_NO_MEMORY, "a call of a pool");
    e->call = call;
    e->user = user;
    TAILQ_INSERT_TAIL(&pool->all, e, link);
    if (!pool->waiting)
        pool->waiting = e;
    start_waiting(pool);
    return CRT_OK;
}

bool crt_pool_has_next(const crt_pool_t *pool)
{
    return pool && !TAILQ_EMPTY(&pool->all);
}

bool crt_pool_has_free(const crt_pool_t *pool)
{
    return pool && pool->idle_count > 0;
}
