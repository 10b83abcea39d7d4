/* SPDX-License-Identifier: Apache-2.0 */
/* Backups of slow tasks. See backup.h. */
#include "runtime/core/calls/backup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"

void crti_backups_fini(crti_backups_t *backups)
{
    if (!backups)
        return;
    CRTI_MAP_FOREACH (crti_task_times_t, times, &backups->times)
        free(times);
    crti_map_fini(&backups->times);
    free(backups);
}

static crti_backups_t *backups_of(crti_core_t *core)
{
    crti_backups_t *backups = core->calls->backups;

    if (backups)
        return backups;
    backups = calloc(1, sizeof(*backups));
    if (!backups)
        return NULL;
    crti_map_init(&backups->times, sizeof(crti_function_t *));
    crti_list_init(&backups->watched);
    core->calls->backups = backups;
    return backups;
}

/* ------------------------------------------------------------------ the option */

crt_status_t crti_backup_check(const crti_target_t *target)
{
    if (target->backup_after == 0)
        return CRT_OK;
    if (!isfinite(target->backup_after) || target->backup_after < 1)
        return crt_raise(
            CRT_ERR_INVALID,
            "backup_after is %g: a factor of at least 1 is needed, or 0 for no "
            "second run",
            target->backup_after);
    if (target->stream)
        return crt_raise(
            CRT_ERR_INVALID,
            "backup_after of a stream: what it has yielded can't be taken back, so "
            "it has no second run");
    if (target->max_retries == 0)
        return crt_raise(
            CRT_ERR_INVALID,
            "backup_after with max_attempts 1: a second run needs a task that may "
            "run twice");
    return CRT_OK;
}

static crti_task_times_t *times_of(crti_core_t *core, const crti_function_t *function)
{
    crti_backups_t *backups = backups_of(core);
    crti_task_times_t *times = backups ? crti_map_get(&backups->times, &function) : NULL;

    if (times || !backups)
        return times;
    times = calloc(1, sizeof(*times));
    if (times && crti_map_put(&backups->times, &function, times) != CRT_OK) {
        free(times);
        return NULL;
    }
    return times;
}

crt_status_t crti_backup_begin(crti_pending_t *p, double factor)
{
    crti_task_times_t *times = times_of(p->core, p->spec.function);

    p->backup = times ? calloc(1, sizeof(*p->backup)) : NULL;
    if (!p->backup)
        return crt_raise(CRT_ERR_NO_MEMORY, "the option backup_after of a call");
    *p->backup = (crti_backup_t){.pending = p, .times = times, .factor = factor};
    crti_list_init(&p->backup->link);
    return CRT_OK;
}

void crti_backup_end(crti_pending_t *p)
{
    free(p->backup);
    p->backup = NULL;
}

/* ------------------------------------------------------------------ what is slow */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* 0: too few have ended. */
static uint64_t median(crti_task_times_t *times)
{
    uint64_t sorted[CRTI_BACKUP_KNOWN];

    if (times->median_ns || times->count < CRTI_BACKUP_ENDED)
        return times->median_ns;
    memcpy(sorted, times->took_ns, times->count * sizeof(*sorted));
    qsort(sorted, times->count, sizeof(*sorted), compare);
    times->median_ns = sorted[times->count / 2];
    return times->median_ns;
}

static void add_time(crti_task_times_t *times, uint64_t took_ns)
{
    times->took_ns[times->next] = took_ns ? took_ns : 1;
    times->next = (times->next + 1) % CRTI_BACKUP_KNOWN;
    times->count += times->count < CRTI_BACKUP_KNOWN;
    times->median_ns = 0;
}

uint64_t crti_backup_running_since(const crti_pending_t *p)
{
    if (!p->lease)
        return 0;
    CRTI_LIST_FOREACH (item, &p->remote->in_flight) {
        const crti_pending_t *first = CRTI_CONTAINER(item, crti_pending_t, link);

        if (first->lease == p->lease)
            return first == p ? p->lease->lease.since_ns : 0;
    }
    return 0;
}

uint64_t crti_backup_slow_at(const crti_pending_t *p, uint64_t since_ns)
{
    double wait = p->backup->factor * (double)median(p->backup->times);

    return wait > 0 && wait < (double)INT64_MAX ? since_ns + (uint64_t)wait : UINT64_MAX;
}

static void wake_for(const crti_pending_t *p, uint64_t since_ns)
{
    uint64_t at = crti_backup_slow_at(p, since_ns);

    if (at != UINT64_MAX)
        crti_core_wake_at(p->core, at);
}

void crti_backup_sent(crti_pending_t *p)
{
    p->backup->was_started = false;
    crti_list_append(&p->core->calls->backups->watched, &p->backup->link);
    wake_for(p, crti_now_ns());
}

void crti_backup_taken_out(crti_pending_t *p)
{
    crti_list_remove(&p->backup->link);
}

/* ------------------------------------------------------------------ which one counts */

static void take_results(crti_pending_t *p, crt_ref_t *result, crt_ref_t **more)
{
    p->result = result;
    p->more = more;
    for (unsigned i = 0; i < p->spec.returns; i++)
        (i ? more[i - 1] : result)->call = p;
}

/* What the program has of the call is now of the other one. */
static void swap_results(crti_pending_t *p, crti_pending_t *q)
{
    crt_ref_t *result = p->result, **more = p->more;
    crti_lineage_t *lineage = p->lineage;
    crti_call_deadline_t *deadline = p->deadline;

    take_results(p, q->result, q->more);
    take_results(q, result, more);
    p->lineage = q->lineage;
    q->lineage = lineage;
    p->deadline = q->deadline;
    q->deadline = deadline;
    if (q->deadline)
        q->deadline->pending = q;
    if (p->deadline)
        p->deadline->pending = p;
}

/* No pair any more: `loser` has results that nobody wants, and ends. */
static void part(crti_pending_t *winner, crti_pending_t *loser)
{
    winner->backup->other = loser->backup->other = NULL;
    if (winner->backup->first) { /* its own attempt is in attempt.retries */
        swap_results(winner, loser);
        loser->backup->first = winner->backup->first;
        winner->backup->first = 0;
    } else {
        winner->backup->lost += loser->remote != NULL;
    }
    crti_attempt_give_up(&loser->attempt);
}

void crti_backup_leave(crti_pending_t *p)
{
    crti_pending_t *other = p->backup->other;

    if (!other)
        return;
    if (p->core->broken == CRT_OK) {
        part(other, p);
        return;
    }
    p->backup->other = other->backup->other = NULL; /* both fail */
}

crti_pending_t *crti_backup_part(crti_pending_t *p)
{
    crti_pending_t *other = p->backup ? p->backup->other : NULL;

    if (!other)
        return NULL;
    part(p, other);
    return other;
}

void crti_backup_drop(crti_pending_t *p)
{
    crti_pending_t *other = crti_backup_part(p);

    if (other)
        p->core->cancel_call(other);
}

/* The worker goes on with the next one. */
static void watch_next(const crti_pending_t *p, uint64_t now_ns)
{
    for (crti_list_t *item = p->link.next; item != &p->remote->in_flight;
         item = item->next) {
        const crti_pending_t *next = CRTI_CONTAINER(item, crti_pending_t, link);

        if (next->lease != p->lease)
            continue;
        if (next->backup)
            wake_for(next, now_ns);
        return;
    }
}

void crti_backup_answered(crti_pending_t *p, const crti_result_t *result)
{
    uint64_t since = crti_backup_running_since(p), now = crti_now_ns();

    if (result->form == CRTI_RESULT_NOT_STARTED)
        return;
    if (p->lease)
        watch_next(p, now);
    if (result->form == CRTI_RESULT_ERROR) {
        crti_backup_leave(p);
        return;
    }
    if (since && !crti_attempt_is_given_up(&p->attempt))
        add_time(p->backup->times, now - since);
    crti_backup_drop(p);
}
