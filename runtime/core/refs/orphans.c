/* SPDX-License-Identifier: Apache-2.0 */
/* Orphans: refs of before a shutdown, which the program may still read and drop.
 *
 * Where it sits
 *     client/client.c (at a shutdown) -> [ orphans.c ] -> store (what stays mapped);  client/wait.c
 *     (keep, drop) -> [ orphans.c ]
 * Threads
 *     crti_refs_orphan while nobody is inside. Afterwards any: they have no lock of a runtime any
 *     more.
 * Ownership
 *     A value that was got has a handle of each ref in it, as long as it has one itself.
 */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/core/refs/borrowed.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/refs/peek.h"
#include "runtime/core/refs/refs_int.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ dropping */

static void free_orphan(crt_ref_t *ref)
{
    crti_ref_free_content(ref);
    if (ref->more != &crti_ref_no_more) {
        crti_kept_drop(ref->more->kept);
        free(ref->more->inner.refs);
        free(ref->more);
    }
    crti_borrowed_give_back_orphan(ref);
}

/* With the last handle it goes, and so do its handles of what is in it: one after the other, since
 * lists within lists may be deeper than any stack. */
static void let_go(crt_ref_t *ref)
{
    crti_list_t freed, *item;

    if (--ref->handles > 0 || ref == &crti_ref_out_of_memory)
        return;
    if (ref->more == CRTI_REF_NO_MORE) {
        free_orphan(ref);
        return;
    }
    crti_list_init(&freed);
    crti_list_append(&freed, &ref->more->turn);
    while ((item = crti_list_pop(&freed))) {
        const crti_ref_more_t *more = CRTI_CONTAINER(item, crti_ref_more_t, turn);

        for (uint32_t i = 0; i < more->inner.ref_count; i++) {
            crt_ref_t *inner = more->inner.refs[i];

            if (--inner->handles == 0 && inner->more != CRTI_REF_NO_MORE)
                crti_list_append(&freed, &inner->more->turn);
            else if (inner->handles == 0)
                free_orphan(inner);
        }
        free_orphan(more->ref);
    }
}

void crti_ref_count_orphan(crt_ref_t *ref, int delta)
{
    pthread_mutex_lock(&lock);
    if (delta > 0)
        ref->handles++;
    else
        let_go(ref);
    pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ shutdown */

/* The program may have pointers into its value. */
static bool was_got(const crt_ref_t *ref)
{
    return ref->handles > 0 && ref->is_decoded;
}

static void add_got(crt_ref_t *ref, void *list)
{
    if (was_got(ref) && ref->more->inner.ref_count)
        crti_list_append(list, &ref->more->turn);
}

/* What was got keeps the refs that are in it, and those have been got, too, perhaps. */
static void keep_inner(crti_core_t *core)
{
    crti_list_t got, *item;

    crti_list_init(&got);
    crti_refs_walk(core, add_got, &got);
    while ((item = crti_list_pop(&got))) {
        const crti_ref_more_t *more = CRTI_CONTAINER(item, crti_ref_more_t, turn);

        for (uint32_t i = 0; i < more->inner.ref_count; i++)
            if (more->inner.refs[i]->handles++ == 0)
                add_got(more->inner.refs[i], &got);
    }
}

/* The store is left next: nothing in it may be looked at any more, but for what is kept. */
static void orphan(crt_ref_t *ref, void *nothing)
{
    crti_ref_more_t *more = ref->more;

    if (more->view.data && was_got(ref))
        more->kept = crti_store_keep(ref->core->store, more->view.data, more->view.size);
    if (more->view.data && !more->kept)
        crti_store_release(ref->core->store, &more->view);
    crti_peek_may_not(ref);
    if (ref->is_owned)
        crti_owned_fini(&ref->owned);
    if (more != &crti_ref_no_more) {
        free(more->inner.actors);
        free(CRTI_TAKE(more->copies));
        if (!was_got(ref)) {
            free(more->inner.refs);
            more->inner = (crti_contained_t){0};
        }
    }
    __atomic_store_n(&ref->core, NULL, __ATOMIC_RELEASE); /* crti_ref_has_core */
    if (ref->handles == 0)
        free_orphan(ref);
}

static void free_requests(crti_core_t *core)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&core->remotes->table, &cursor, NULL, &value))
        crti_owner_requests_free(value);
}

void crti_refs_orphan(crti_core_t *core)
{
    while (crti_list_pop(&core->refs->to_notify))
        continue; /* nobody waits any more */
    keep_inner(core);
    crti_refs_walk(core, orphan, NULL);
    crti_refs_leave(core); /* other threads may drop what is left from now on */
    free_requests(core);
}
