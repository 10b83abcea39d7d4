/* SPDX-License-Identifier: Apache-2.0 */
/* Options of one call. See call_options.h. */
#include "runtime/core/calls/call_options.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/kept_copies.h"

#define NAME_MAX_BYTES 200
#define STATUS_LEAST   (-127)
#define TIMEOUT_MAX_MS                                                                   \
    (INT64_C(1) << 40) /* 34 years: nanoseconds of it can be added up */

crt_status_t crti_retries(int64_t max_attempts, int64_t otherwise, int64_t *retries_out)
{
    if (max_attempts < 0 && max_attempts != CRT_UNLIMITED)
        return crt_raise(CRT_ERR_INVALID,
                         "max_attempts is %lld: at least 1, CRT_UNLIMITED, or 0 for the "
                         "default",
                         (long long)max_attempts);
    *retries_out = max_attempts > 0 ? max_attempts - 1 : max_attempts ? -1 : otherwise;
    return CRT_OK;
}

static crt_status_t check_statuses(const crt_status_t *statuses)
{
    for (; statuses && *statuses != CRT_OK; statuses++)
        if ((*statuses > 0 && *statuses != CRT_ANY_ERROR) || *statuses < STATUS_LEAST)
            return crt_raise(CRT_ERR_INVALID,
                             "retry_exceptions has %d, which is no status of an error",
                             (int)*statuses);
    return CRT_OK;
}

crt_status_t crti_call_options_check(const crti_target_t *target)
{
    crt_status_t status = crti_kept_copies_check(target->copies);

    if (status != CRT_OK)
        return status;
    if (target->copies > 1 && target->stream)
        return crt_raise(CRT_ERR_INVALID,
                         "copies of a stream: what is yielded lies on one node");
    if (target->name && (!*target->name || strlen(target->name) > NAME_MAX_BYTES))
        return crt_raise(CRT_ERR_INVALID, "the name of a call has 1 to %d bytes",
                         NAME_MAX_BYTES);
    if (target->timeout_ms < 0 || target->timeout_ms > TIMEOUT_MAX_MS)
        return crt_raise(CRT_ERR_INVALID,
                         "limit_ms of a call is %lld, not 1 to %lld (34 years), or 0 "
                         "for no limit",
                         (long long)target->timeout_ms, (long long)TIMEOUT_MAX_MS);
    return check_statuses(target->retry_exceptions);
}

/* The deadline of a call that has one. */
static crt_status_t set_deadline(crti_pending_t *p, int64_t timeout_ms)
{
    crti_call_deadline_t *mine = calloc(1, sizeof(*mine));
    crt_status_t status;

    if (!mine)
        return crt_raise(CRT_ERR_NO_MEMORY, "the deadline of a call");
    p->deadline = mine;
    p->spec.options->timeout_ms = timeout_ms;
    mine->pending = p;
    status = crti_deadlines_set(&p->core->calls->deadlines, &mine->deadline,
                                crti_now_ns() + (uint64_t)timeout_ms * CRTI_MS);
    if (status == CRT_OK)
        crti_core_wake_at(p->core, mine->deadline.at);
    return status;
}

static void retry_for(crti_call_options_t *options, crt_status_t status)
{
    if (status == CRT_ANY_ERROR)
        memset(options->retried, 0xff, sizeof(options->retried));
    else
        options->retried[-status / 64] |= UINT64_C(1) << (-status % 64);
}

/* What the options of a pending call ask for beside them. */
static crt_status_t begin(crti_pending_t *p, int64_t timeout_ms)
{
    double factor = p->spec.options->backup_after;
    crt_status_t status = factor > 0 ? crti_backup_begin(p, factor) : CRT_OK;

    return status == CRT_OK && timeout_ms ? set_deadline(p, timeout_ms) : status;
}

/* Of each of its results. */
static crt_status_t keep_copies(crti_pending_t *p, int64_t asked)
{
    crt_status_t status = CRT_OK;

    for (unsigned i = 0; i < p->spec.returns && !p->stream && status == CRT_OK; i++)
        status = crti_kept_copies_want(i ? p->more[i - 1] : p->result, asked);
    return status;
}

crt_status_t crti_call_options_keep(crti_pending_t *p, const crti_target_t *target)
{
    crt_status_t status = keep_copies(p, target->copies);

    if (status != CRT_OK || !crti_call_keeps_options(target))
        return status;
    p->spec.options = calloc(1, sizeof(*p->spec.options));
    if (!p->spec.options)
        return crt_raise(CRT_ERR_NO_MEMORY, "options of a call");
    if (target->name) {
        p->spec.options->name = strdup(target->name);
        if (!p->spec.options->name)
            return crt_raise(CRT_ERR_NO_MEMORY, "options of a call");
    }
    for (const crt_status_t *s = target->retry_exceptions; s && *s != CRT_OK; s++)
        retry_for(p->spec.options, *s);
    p->spec.options->backup_after = target->backup_after;
    return begin(p, target->timeout_ms);
}

crti_call_options_t *crti_call_options_copy(const crti_call_options_t *options)
{
    crti_call_options_t *copy = malloc(sizeof(*copy));

    if (!copy)
        return NULL;
    *copy = *options;
    if (copy->name && !(copy->name = strdup(copy->name))) {
        free(copy);
        return NULL;
    }
    return copy;
}

crt_status_t crti_call_options_again(crti_pending_t *p,
                                     const crti_call_options_t *options,
                                     bool has_deadline)
{
    crti_call_options_t *mine = crti_call_options_copy(options);

    if (!mine)
        return crt_raise(CRT_ERR_NO_MEMORY, "options of a call");
    p->spec.options = mine;
    return begin(p, has_deadline ? mine->timeout_ms : 0);
}

void crti_call_options_free(crti_call_options_t *options)
{
    if (options)
        free(options->name);
    free(options);
}

void crti_call_deadline_end(crti_pending_t *p)
{
    if (!p->deadline)
        return;
    crti_deadlines_remove(&p->core->calls->deadlines, &p->deadline->deadline);
    free(p->deadline);
    p->deadline = NULL;
}

const char *crti_call_method(const crti_pending_t *p)
{
    return p->spec.options && p->spec.options->name ? p->spec.options->name
                                                    : p->spec.function->name;
}

bool crti_call_is_retried_for(const crti_pending_t *p, const crti_failure_t *f)
{
    return p->spec.options && f->may_have_run && f->status >= STATUS_LEAST &&
           p->spec.options->retried[-f->status / 64] >> (-f->status % 64) & 1;
}

crti_pending_t *crti_call_expired(crti_core_t *core, uint64_t now_ns)
{
    crti_deadlines_t *deadlines = &core->calls->deadlines;
    crti_deadline_t *first;

    if (crti_deadlines_first(deadlines) > now_ns) {
        if (deadlines->count)
            crti_core_wake_at(core, crti_deadlines_first(deadlines));
        return NULL;
    }
    first = deadlines->items[0];
    crti_deadlines_remove(deadlines, first);
    return CRTI_CONTAINER(first, crti_call_deadline_t, deadline)->pending;
}
