/* SPDX-License-Identifier: Apache-2.0 */
/* crt_refs_wait: all of a list of refs, with one deadline. Each pending ref tells by itself that it
 * is ready, so that the list is gone through once.
 *
 * Where it sits
 *     crt_refs_wait -> [ refs_wait.c ] -> crti_ref_await, run_inline.c, blocking.c
 */
#include <stdlib.h>

#include "runtime/base/copy_struct.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/execution/deadlock.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/refs/value_of.h"

#define WHAT "refs, by crt_refs_wait"

typedef struct all {
    crti_core_t *core;
    crt_ref_t *const *refs;
    struct one {
        crti_waiting_t waiting;
        struct all *all;
    } * ones;
    size_t count, begun; /* of those `ones` that are set */
    size_t left;         /* not ready */
    size_t failed;       /* which; `count`: none */
    bool past_errors, no_fetch;
} all_t;

static bool is_over(void *user)
{
    const all_t *all = user;

    return all->left == 0 || (!all->past_errors && all->failed < all->count);
}

static void on_ready(crti_waiting_t *waiting, crt_ref_t *ref)
{
    struct one *one = CRTI_CONTAINER(waiting, struct one, waiting);
    all_t *all = one->all;
    size_t index = (size_t)(one - all->ones);

    all->left--;
    if (ref->content == CRTI_CONTENT_FAILED &&
        (all->past_errors ? index < all->failed : all->failed == all->count))
        all->failed = index;
    if (is_over(all))
        crti_net_wake(all->core->net);
}

/* What is not here may be a task of this worker that it runs itself. */
static crt_status_t run_here(all_t *all, crt_ref_t *ref)
{
    crt_status_t status = crti_check_self_wait(all->core, ref);

    while (status == CRT_OK && ref->content == CRTI_CONTENT_NONE &&
           crti_run_inline(all->core, ref, &status))
        continue;
    return status;
}

static crt_status_t begin(all_t *all, int64_t wait_ms)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < all->count && status == CRT_OK; i++) {
        status = crti_wait_check_ref(all->refs[i]);
        if (status != CRT_OK)
            return crt_raise(status, "ref %zu: %s", i, crt_error_detail());
        crti_ref_keep_handle(all->refs[i]);
        all->ones[i] = (struct one){.waiting.on_ready = on_ready, .all = all};
        crti_list_init(&all->ones[i].waiting.link);
        all->begun++;
    }
    for (size_t i = 0; i < all->count && !is_over(all); i++) {
        if (all->refs[i]->core)
            crti_ref_await(all->refs[i], &all->ones[i].waiting, !all->no_fetch);
        else
            on_ready(&all->ones[i].waiting, all->refs[i]);
    }
    for (size_t i = 0; crti_running() && wait_ms < 0 && i < all->count && !is_over(all);
         i++) {
        if (all->refs[i]->core)
            status = run_here(all, all->refs[i]);
        if (status != CRT_OK)
            return status;
    }
    return status;
}

static void end(all_t *all)
{
    for (size_t i = 0; i < all->begun; i++) {
        crti_list_remove(&all->ones[i].waiting.link);
        crti_ref_drop_handle(all->core, all->refs[i]);
    }
}

static crt_ref_t *next_missing(void *user, size_t *at)
{
    const all_t *all = user;

    while (*at < all->count) {
        crt_ref_t *ref = all->refs[(*at)++];

        if (ref->content == CRTI_CONTENT_NONE)
            return ref;
    }
    return NULL;
}

static crt_status_t wait_all(all_t *all, int64_t wait_ms)
{
    crt_status_t status = begin(all, wait_ms);

    if (status == CRT_OK && !is_over(all))
        status =
            all->count == 1
                ? crti_wait_for(all->core, is_over, all, wait_ms, all->refs[0], WHAT)
                : crti_wait_in_detail(all->core, is_over, all, wait_ms,
                                      &(crti_wait_detail_t){.pick = next_missing}, WHAT);
    if (all->failed < all->count && (status == CRT_OK || !all->past_errors)) {
        status = crti_ref_raise(all->refs[all->failed]);
        status = crt_raise(status, "ref %zu: %s", all->failed, crt_error_detail());
    } else if (status == CRT_ERR_TIMED_OUT) {
        status = crt_raise(status, "%zu of %zu refs are not ready after %lld ms",
                           all->left, all->count, (long long)wait_ms);
    }
    end(all);
    return status;
}

crt_status_t crt_refs_wait(crt_ref_t *const *refs, size_t count,
                           const crt_refs_wait_options_t *options, int64_t wait_ms,
                           size_t *failed_out)
{
    all_t all = {.refs = refs, .count = count, .left = count, .failed = count};
    crt_refs_wait_options_t o;
    crt_status_t status = CRTI_COPY_STRUCT(&o, options, "CRT_REFS_WAIT_OPTIONS");

    if (status != CRT_OK)
        return status;
    if (count && !refs)
        return crt_raise(CRT_ERR_INVALID, "crt_refs_wait for %zu refs at NULL", count);
    all.past_errors = o.past_errors;
    all.no_fetch = o.no_fetch;
    all.ones = calloc(count ? count : 1, sizeof(*all.ones));
    if (!all.ones)
        return crt_raise(CRT_ERR_NO_MEMORY, "a wait for %zu refs", count);
    all.core = crti_enter();
    if (!all.core) {
        free(all.ones);
        return crti_entry_status();
    }
    status = wait_all(&all, wait_ms);
    if (status == CRT_OK && count)
        crti_printed_show(all.core);
    crti_leave(all.core);
    free(all.ones);
    if (failed_out)
        *failed_out = all.failed;
    return status;
}
