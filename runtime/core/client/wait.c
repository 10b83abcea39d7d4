/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: get, wait, and what else a program does with a ref.
 *
 * Where it sits
 *     crt_get, crt_wait -> [ wait.c ] -> blocking.c, value_of.c, execute.c
 * A worker's main thread that waits without a deadline runs its own task inline, if that has not
 * started; in a get also later, when its arguments have come, and, if the get has a deadline, when
 * the node has no worker for it.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/execution/deadlock.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/core/values/error.h"

/* ------------------------------------------------------------------ get */

static bool is_readable(void *user)
{
    return crti_ref_fetch(user);
}

/* A ref of ours that a thread waits for which runs a call. */
typedef struct one {
    crt_ref_t *ref;
    const crti_executor_t *executor;
    bool is_limited;
} one_t;

/* Its task may run here: its arguments have come, or no worker does while the limit passes. */
static bool may_run_here(const one_t *one)
{
    return crti_may_run_inline(one->executor, one->ref, one->is_limited);
}

static bool is_readable_or_runs_here(void *user)
{
    const one_t *one = user;

    return crti_ref_fetch(one->ref) || may_run_here(one);
}

static int64_t left_ms(int64_t timeout_ms, uint64_t since_ns)
{
    int64_t gone = timeout_ms < 0 ? 0 : (int64_t)((crti_now_ns() - since_ns) / CRTI_MS);

    return timeout_ms < 0 ? timeout_ms : timeout_ms > gone ? timeout_ms - gone : 0;
}

/* A call of ours may need this thread. */
static crt_status_t wait_or_run(crti_core_t *core, crt_ref_t *ref, int64_t timeout_ms)
{
    one_t one = {ref, crti_running()->executor, timeout_ms >= 0};
    uint64_t since = one.is_limited ? crti_now_ns() : 0;
    crt_status_t status = crti_check_self_wait(core, ref);
    bool is_first = true;

    for (; status == CRT_OK && !crti_ref_fetch(ref); is_first = false)
        if (may_run_here(&one))
            crti_run_inline(core, ref, &status);
        else
            status = crti_wait_for(core, is_readable_or_runs_here, &one,
                                   is_first ? timeout_ms : left_ms(timeout_ms, since),
                                   ref, "a ref");
    return status;
}

static crt_status_t get(crti_core_t *core, crt_ref_t *ref, int64_t timeout_ms,
                        crt_out_t out)
{
    crt_status_t status;

    if (!crti_ref_fetch(ref)) {
        if (ref->is_owned && crti_running())
            status = wait_or_run(core, ref, timeout_ms);
        else
            status = crti_wait_for(core, is_readable, ref, timeout_ms, ref, "a ref");
        if (status != CRT_OK && ref->content != CRTI_CONTENT_FAILED)
            return status;
    }
    crti_printed_show(core);
    return crti_ref_read(ref, out);
}

/* A ref of before a shutdown: a small value is still there, and one that was got. */
static crt_status_t get_orphan(crt_ref_t *ref, crt_out_t out)
{
    if (ref->content == CRTI_CONTENT_FAILED)
        return crti_ref_raise(ref);
    if (ref->content == CRTI_CONTENT_STORED && ref->more->kept && ref->is_decoded)
        return crti_ref_read(ref, out);
    if (ref->content == CRTI_CONTENT_INLINE &&
        (ref->is_decoded || (ref->is_read && crti_ref_is_flat(ref, out))))
        return crti_ref_read(ref, out);
    return crti_ref_check(ref);
}

crt_status_t crt_get_v(crt_ref_t *ref, int64_t timeout_ms, crt_out_t out)
{
    crti_core_t *core;
    crt_status_t status;

    if (!ref)
        return crt_raise(CRT_ERR_INVALID, "the ref is NULL");
    if (!crti_ref_has_core(ref))
        return get_orphan(ref, out);
    core = crti_enter_unlocked();
    if (!core)
        return crti_entry_status();
    if (ref->core && crti_printed_are_shown(core) &&
        crti_ref_read_number(ref, out, &status)) {
        crti_leave_unlocked(core);
        return status;
    }
    crti_net_lock(core->net);
    status = ref->core ? get(core, ref, timeout_ms, out) : get_orphan(ref, out);
    crti_leave(core);
    return status;
}

/* ------------------------------------------------------------------ wait */

#define WHAT "refs, by crt_wait"

/* A look goes through all refs once. There is no other one before so many refs have come that those
 * which lack may be among them, so that a list of thousands is not gone through for every message;
 * and what it finds beyond `want` is remembered for the next crt_wait (wait_memory.h). A ref may
 * stand in it several times. */
typedef struct many {
    crti_core_t *core;
    crt_ref_t *const *refs;
    size_t count, want;
    size_t repeated; /* so many entries may come together with another one */
    size_t *ready;   /* the user's, or NULL: indices of those that the last look found */
    size_t found;    /* so many, at most `want`, */
    size_t wrong;    /* and which it could not use; `count`: it could use all */
    crti_ref_changes_t changes; /* then */
} many_t;

static bool has_content(const crt_ref_t *ref)
{
    return ref->content != CRTI_CONTENT_NONE || !ref->core;
}

/* What is not there is wanted now: of others it is asked for, of ours it may be missing. */
static bool is_there(crt_ref_t *ref)
{
    if (!has_content(ref) && (!ref->is_owned || ref->owned.state == CRTI_OWNED_MISSING))
        crti_ref_locate(ref);
    return has_content(ref);
}

static void look(many_t *many)
{
    crti_wait_memory_t *memory = &many->core->waits->memory;
    size_t *ready = many->ready, found = 0;

    crti_wait_memory_begin(memory);
    many->changes = crti_ref_changes(many->core);
    for (size_t i = 0; i < many->count; i++) {
        crt_ref_t *ref = many->refs[i];

        if (!ref || ref->is_free) {
            many->wrong = i;
            return;
        }
        if (!is_there(ref))
            continue;
        if (found == many->want) {
            crti_wait_memory_add(memory, ref, i);
            continue;
        }
        if (ready)
            ready[found] = i;
        found++;
    }
    crti_wait_memory_end(memory, found);
    many->found = found;
}

/* Those that an earlier look found, as far as they are enough: the list need not be gone
 * through. */
static bool look_where_they_were(many_t *many)
{
    crti_wait_memory_t *memory = &many->core->waits->memory;
    size_t found = 0, least = 0, index;

    crti_wait_memory_again(memory);
    while (found < many->want && many->ready &&
           crti_wait_memory_next(memory, many->refs, many->count, least, &index)) {
        if (many->refs[index]->is_free || !is_there(many->refs[index]))
            continue;
        many->ready[found++] = index;
        least = index + 1;
    }
    many->found = found;
    return found && found == many->want;
}

/* How many entries are of a ref that stands before them and is waited for, too. */
static size_t count_repeated(const many_t *many)
{
    size_t repeated = 0;

    for (size_t i = 0; i < many->count; i++) {
        crt_ref_t *ref = many->refs[i];

        if (has_content(ref))
            continue;
        repeated += ref->is_counted;
        ref->is_counted = true;
    }
    for (size_t i = 0; i < many->count; i++)
        if (!has_content(many->refs[i]))
            many->refs[i]->is_counted = false;
    return repeated;
}

static bool are_enough(void *user)
{
    many_t *many = user;
    const crti_ref_changes_t now = crti_ref_changes(many->core);
    uint64_t came = now.came - many->changes.came;

    if (now.went != many->changes.went ||
        (many->found < many->want && came &&
         came + many->repeated >= many->want - many->found))
        look(many);
    return many->found >= many->want || many->wrong < many->count;
}

/* One that has not come, for who asks what is waited for. */
static crt_ref_t *next_missing(void *user, size_t *at)
{
    const many_t *many = user;

    while (*at < many->count) {
        crt_ref_t *ref = many->refs[(*at)++];

        if (ref && !ref->is_free && !has_content(ref))
            return ref;
    }
    return NULL;
}

static crt_status_t wait_many(many_t *many, int64_t timeout_ms)
{
    bool wants_all = many->want == many->count;
    crt_status_t status = CRT_OK;

    if (look_where_they_were(many))
        return CRT_OK;
    look(many);
    if (many->wrong < many->count)
        return CRT_OK;
    /* All of them are waited for: one after the other may run here. */
    for (size_t i = 0; crti_running() && wants_all && timeout_ms < 0 && i < many->count;
         i++)
        while (status == CRT_OK && !has_content(many->refs[i]) &&
               crti_run_inline(many->core, many->refs[i], &status))
            continue;
    if (status != CRT_OK)
        return status;
    if (many->found + 1 < many->want) /* what comes first is enough for one */
        many->repeated = count_repeated(many);
    status =
        many->count == 1
            ? crti_wait_for(many->core, are_enough, many, timeout_ms, many->refs[0], WHAT)
            : crti_wait_in_detail(many->core, are_enough, many, timeout_ms,
                                  &(crti_wait_detail_t){.pick = next_missing}, WHAT);
    if (crti_ref_changes(many->core).came !=
        many->changes.came) /* some that were not enough */
        look(many);
    return status;
}

crt_status_t crt_wait(crt_ref_t *const *refs, size_t count, size_t want,
                      int64_t timeout_ms, size_t *ready, size_t *ready_count)
{
    many_t many = {
        .refs = refs, .count = count, .want = want, .ready = ready, .wrong = count};
    crt_status_t status;

    if (want > count || (count && !refs))
        return crt_raise(CRT_ERR_INVALID, "crt_wait for %zu of %zu refs", want, count);
    many.core = crti_enter();
    if (!many.core)
        return crti_entry_status();
    status = wait_many(&many, timeout_ms);
    if (many.wrong < count) {
        status = crti_ref_check(refs[many.wrong]);
        status =
            crt_raise(status, "crt_wait: ref %zu: %s", many.wrong, crt_error_detail());
    } else if (ready_count) {
        *ready_count = many.found;
    }
    if (status == CRT_OK && many.found)
        crti_printed_show(many.core);
    crti_leave(many.core);
    return status;
}

/* ------------------------------------------------------------------ one ref */

bool crt_ref_is_ready(crt_ref_t *ref)
{
    crti_core_t *core;
    bool is_ready;

    if (!ref || !crti_ref_has_core(ref))
        return true; /* get answers at once */
    core = crti_enter();
    if (!core)
        return true;
    is_ready = !ref->core || crti_ref_fetch(ref);
    crti_leave(core);
    return is_ready;
}

const crt_error_t *crt_ref_error(crt_ref_t *ref)
{
    crti_core_t *core;
    const crt_error_t *error;

    if (!ref)
        return NULL;
    if (!crti_ref_has_core(ref))
        return crti_ref_has_error(ref) ? &ref->error->user : NULL;
    core = crti_enter();
    if (!core)
        return NULL;
    error = crti_ref_has_error(ref) ? &ref->error->user : NULL;
    crti_leave(core);
    return error;
}

crt_ref_t *crt_ref_at(crt_ref_t *ref, const char *place)
{
    if (ref)
        atomic_store_explicit(&ref->place, place, memory_order_relaxed);
    return ref;
}

void crti_ref_keep_handle(crt_ref_t *ref)
{
    if (ref->core) {
        ref->handles++;
        crti_ref_hold(ref);
    } else {
        crti_ref_count_orphan(ref, 1);
    }
}

crt_ref_t *crt_ref_keep(crt_ref_t *ref)
{
    crti_core_t *core;

    if (!ref || crti_is_forked())
        return ref;
    if (ref->is_free) {
        ref = crti_ref_failed(NULL, crti_ref_check(ref));
        ref->handles = 1;
        return ref;
    }
    core = crti_enter_quiet();
    crti_ref_keep_handle(ref);
    if (core)
        crti_leave(core);
    return ref;
}

/* While its call has not ended, that holds it, too. */
static void let_go(crt_ref_t *ref)
{
    bool has_call = ref->is_owned && crti_ref_has_call(ref);

    crti_ref_release(ref);
    if (has_call)
        crti_task_forsaken(ref);
}

bool crti_ref_drop_handle(crti_core_t *core, crt_ref_t *ref)
{
    if (ref->core ? ref->handles == 0 : ref->is_free)
        return false;
    if (!ref->core) {
        crti_ref_count_orphan(ref, -1);
    } else if (core) {
        ref->handles--;
        let_go(ref);
    }
    return true;
}

/* Why its value can't be freed by the program. */
static crt_status_t check_free(const crt_ref_t *ref)
{
    crt_status_t status = crti_ref_check(ref);

    if (status != CRT_OK)
        return status;
    if (!ref->is_owned)
        return crt_raise(
            CRT_ERR_INVALID,
            "its value is another process's: only the process that has put it "
            "or made the call frees it");
    return ref->owned.state == CRTI_OWNED_PENDING
               ? crt_raise(CRT_ERR_INVALID,
                           "it has no value yet: wait for it, or crt_cancel its call")
               : CRT_OK;
}

crt_status_t crt_refs_free(crt_ref_t *const *refs, size_t count)
{
    crti_core_t *core;
    crt_status_t status = CRT_OK;

    if (count && !refs)
        return crt_raise(CRT_ERR_INVALID, "crt_refs_free of %zu refs at NULL", count);
    core = crti_enter();
    if (!core)
        return crti_entry_status();
    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        status = check_free(refs[i]);
        if (status != CRT_OK)
            status = crt_raise(status, "ref %zu: %s", i, crt_error_detail());
    }
    crti_owner_requests_gather(core); /* values may hold refs of others */
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        crti_ref_free_value(refs[i], "its value was freed by crt_refs_free");
    crti_owner_requests_send(core);
    crti_refs_notify(core);
    crti_object_flush_frees(core);
    crti_leave(core);
    return status;
}

void crt_ref_drop(crt_ref_t **slot)
{
    crt_refs_drop(slot, slot ? 1 : 0);
}

void crt_refs_drop(crt_ref_t **refs, size_t count)
{
    bool is_forked = crti_is_forked(); /* its refs are the parent's */
    crti_core_t *core = is_forked ? NULL : crti_enter_quiet();
    size_t wrong = 0;

    if (core && count > 1)
        crti_owner_requests_gather(core);
    for (size_t i = 0; i < count; i++) {
        crt_ref_t *ref = refs[i];

        refs[i] = NULL;
        if (ref && !is_forked)
            wrong += !crti_ref_drop_handle(core, ref);
    }
    if (core && count > 1)
        crti_owner_requests_send(core);
    if (core)
        crti_leave(core);
    if (wrong)
        crti_log(
            CRTI_LOG_WARN, "core",
            "crt_ref_drop of %zu refs that are not the caller's: they are borrowed, or "
            "were dropped before",
            wrong);
}
