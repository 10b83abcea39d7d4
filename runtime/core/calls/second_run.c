/* SPDX-License-Identifier: Apache-2.0 */
/* Second runs: a slow task begins once more beside its first run. See backup.h.
 *
 * Where it sits
 *     the timer -> [ second_run.c ] -> slots.c -> submit.c; which run counts is backup.c's
 * Threads
 *     The core's lock.
 */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/backup.h"
#include "runtime/core/calls/call_events.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"

/* The same shape, but on another node where one has room. Where the program has said which node, or
 * which bundle, it is there, by another worker. */
static crt_status_t other_place(const crti_pending_t *p, crti_task_pool_t **pool_out)
{
    crti_task_shape_t shape = p->pool->shape;
    crti_scheduling_t how = *shape.how;

    shape.avoid = p->remote->address.node;
    shape.prefer = (crti_id_t){0};
    if (how.strategy != CRTI_STRATEGY_AFFINITY && crti_id_is_zero(how.group) &&
        crti_scheduling_avoid(&how, shape.avoid))
        shape.how = &how;
    return crti_task_pool(p->core, &shape, pool_out);
}

static crt_status_t copy_spec(crti_pending_t *q, const crti_pending_t *p)
{
    crt_status_t status = crti_numbers_add(&q->core->calls->retried, q->number, q);

    if (status == CRT_OK)
        status = crti_call_options_again(q, p->spec.options, false);
    for (uint32_t i = 0; i < p->spec.pin_count && status == CRT_OK; i++)
        status = crti_call_spec_pin(&q->spec, p->spec.pins[i]);
    if (status == CRT_OK)
        status = crti_slot_record(q, crti_span(p->spec.record.data, p->spec.record.size));
    return status;
}

/* The number of the first attempt is that of its result, which may be the other one's soon. */
static crt_status_t register_number(crti_pending_t *p)
{
    crti_numbers_t *retried = &p->core->calls->retried;

    return crti_numbers_get(retried, p->number) ? CRT_OK
                                                : crti_numbers_add(retried, p->number, p);
}

static crti_pending_t *new_attempt(crti_pending_t *p, crti_task_pool_t *pool)
{
    crti_pending_t *q = crti_pending_blank(p->core);

    if (!q)
        return NULL;
    q->spec.function = p->spec.function;
    q->spec.returns = p->spec.returns;
    q->spec.max_retries = p->spec.max_retries;
    if (!crti_pending_make_results(q)) {
        crti_pending_free(q);
        return NULL;
    }
    q->pool = pool;
    pool->users++;
    q->parent = p->parent;
    q->number = crti_new_number(p->core);
    crti_attempt_follow(&q->attempt, p->attempt.retries);
    return q;
}

static void log_start(const crti_pending_t *p, uint64_t now_ns)
{
    char hex[CRTI_ID_HEX];

    crti_log(
        CRTI_LOG_INFO, "core",
        "%s runs for %.3g s on node %.8s, pid %d, and %g times the median of such tasks "
        "is %.3g s: it is run a second time",
        crti_call_name(p), (double)(now_ns - crti_backup_running_since(p)) / CRTI_S,
        crti_id_hex(p->remote->address.node, hex), (int)p->remote->pid, p->backup->factor,
        (double)crti_backup_slow_at(p, 0) / CRTI_S);
}

/* Without memory there is none. */
static void start(crti_pending_t *p, uint64_t now_ns)
{
    crti_task_pool_t *pool;
    crti_pending_t *q;
    crt_status_t status;

    p->backup->was_started = true;
    if (register_number(p) != CRT_OK || other_place(p, &pool) != CRT_OK)
        return;
    q = new_attempt(p, pool);
    if (!q)
        return;
    status = copy_spec(q, p);
    if (status != CRT_OK) {
        crti_pending_fail(q, status, crt_error_detail(), false);
        return;
    }
    log_start(p, now_ns);
    q->backup->lost = p->backup->lost;
    q->backup->first = p->result->number;
    q->backup->other = p;
    p->backup->other = q;
    crti_call_event_begun_again(q);
    crti_call_await_slots(q);
}

static bool may_start(const crti_pending_t *p)
{
    return !p->backup->other && !p->backup->was_started && p->spec.record.size > 0 &&
           !p->core->is_closing && p->core->broken == CRT_OK &&
           crti_attempt_may_repeat(&p->attempt, crti_pending_most(p));
}

void crti_second_runs_tick(crti_core_t *core, uint64_t now_ns)
{
    crti_backups_t *backups = core->calls->backups;
    uint64_t next = UINT64_MAX;

    if (!backups)
        return;
    CRTI_LIST_FOREACH_SAFE (item, &backups->watched) {
        crti_pending_t *p = CRTI_CONTAINER(item, crti_backup_t, link)->pending;
        uint64_t since = may_start(p) ? crti_backup_running_since(p) : 0;
        uint64_t at = since ? crti_backup_slow_at(p, since) : UINT64_MAX;

        if (at <= now_ns)
            start(p, now_ns);
        else if (at < next)
            next = at;
    }
    if (next != UINT64_MAX)
        crti_core_wake_at(core, next);
}
