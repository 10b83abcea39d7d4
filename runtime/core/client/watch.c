/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: what becomes of actors and nodes, told to refs and by calls of actors.
 *
 * Where it sits
 *     crt_watch.h -> [ watch.c ] -> waitset.c (a set of the library's own has the watches);
 *     the tick takes its events -> refs, outgoing.c
 * Threads
 *     The core's lock. What is told is told by the tick, never inside of what has happened.
 * Ownership
 *     A watch holds who hears weakly, its ref as a call would. It ends with the last notice, with
 *     who hears, when nobody else has its ref any more (looked for at times), at a shutdown.
 * Invariants
 *     One ref for each (actor or node, number of restarts) that is not ready.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/map.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/calls/object.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/crt_watch.h"

#define FIRST_SWEEP  1000
#define ONLY_THE_END UINT64_MAX /* nobody is restarted more often */

typedef struct key {
    crti_id_t of;
    uint64_t restarts; /* more are waited for, or the end */
} watch_key_t;

typedef struct watch {
    crti_list_t link; /* watches->all, or ->over */
    crti_core_t *core;
    watch_key_t key;
    crt_ref_t *ref;       /* held; NULL: calls hear, */
    crti_target_t target; /* these; its actor is held weakly */
    /* Of the actor that hears; with a ref: of the one that is watched, which the entry in the set
     * holds. */
    crt_actor_t *actor;
    crti_actor_watcher_t watcher;
} watch_t;

struct crti_notices {
    crt_waitset_t *set; /* `user` of an entry is its watch */
    crti_list_t all, over;
    crti_map_t refs; /* watch_key_t -> watch_t */
    size_t next_sweep;
};

/* ------------------------------------------------------------------ life of a watch */

static struct crti_notices *watches_of(crti_core_t *core)
{
    struct crti_notices *w = core->waits->watches;

    if (w)
        return w;
    w = calloc(1, sizeof(*w));
    if (!w) {
        crt_raise(CRT_ERR_NO_MEMORY, "watches");
        return NULL;
    }
    w->set = crti_waitset_new(core);
    if (!w->set) {
        free(w);
        return NULL;
    }
    w->set->is_ticked = true;
    crti_list_init(&w->all);
    crti_list_init(&w->over);
    crti_map_init(&w->refs, sizeof(watch_key_t));
    w->next_sweep = FIRST_SWEEP;
    core->waits->watches = w;
    return w;
}

/* Its entry in the set is gone, or goes with this. */
static void end_watch(watch_t *watch)
{
    struct crti_notices *w = watch->core->waits->watches;

    crti_list_remove(&watch->watcher.link);
    (void)crti_waitset_remove(w->set, watch);
    crti_list_remove(&watch->link);
    if (watch->ref) {
        crti_map_remove(&w->refs, &watch->key);
        crti_ref_release(watch->ref);
    } else {
        crti_actor_release_weakly(watch->target.actor);
    }
    free(watch);
}

static watch_t *new_watch(crti_core_t *core, watch_key_t key)
{
    struct crti_notices *w = watches_of(core);
    watch_t *watch = w ? calloc(1, sizeof(*watch)) : NULL;

    if (!watch) {
        if (w)
            crt_raise(CRT_ERR_NO_MEMORY, "a watch");
        return NULL;
    }
    watch->core = core;
    watch->key = key;
    crti_list_init(&watch->watcher.link);
    crti_list_append(&w->all, &watch->link);
    return watch;
}

void crti_watches_end(crti_core_t *core)
{
    struct crti_notices *w = CRTI_TAKE(core->waits->watches);
    crti_list_t *item;

    if (!w)
        return;
    crti_waitset_clear(core, w->set);
    crti_list_prepend_all(&w->all, &w->over);
    while ((item = crti_list_pop(&w->all))) {
        watch_t *watch = CRTI_CONTAINER(item, watch_t, link);

        crti_list_remove(&watch->watcher.link);
        free(watch); /* refs and actors count no holds from now on */
    }
    crti_map_fini(&w->refs);
    crti_waitset_release(w->set);
    free(w);
}

/* ------------------------------------------------------------------ what is told */

static void set_value(crt_ref_t *ref, const crt_notice_t *notice)
{
    crt_arg_t items[CRT_TYPE_ITEMS];
    crt_arg_t value = crt_list(items, crt_notice_pack(notice, items));

    crti_ref_set_made(ref, &value, "a notice");
}

static void call(watch_t *watch, const crt_notice_t *notice)
{
    crt_arg_t items[CRT_TYPE_ITEMS];
    crt_arg_t arg = crt_list(items, crt_notice_pack(notice, items));
    const crti_given_t given = {.args = &arg, .count = 1};
    crt_ref_t *ref;

    crti_call_out(watch->core, &watch->target, &given, &ref);
    crti_ref_release(ref);
}

static bool is_end(crt_event_kind_t kind)
{
    return kind == CRT_EVENT_ACTOR_END || kind == CRT_EVENT_NODE_END;
}

static void tell(watch_t *watch, const crt_event_t *event)
{
    crti_core_t *core = watch->core;
    const crt_notice_t notice = {.struct_size = sizeof(notice),
                                 .kind = event->kind,
                                 .status = event->status,
                                 .actor_id = event->actor ? event->actor->hex : "",
                                 .node_id = event->node_id,
                                 .text = event->text ? event->text : "",
                                 .count = event->count,
                                 .restarts = event->restarts};
    bool is_last = is_end(event->kind);

    if (!watch->ref && core->broken == CRT_OK && !core->is_closing) {
        call(watch, &notice);
    } else if (watch->ref) {
        is_last |= event->kind == CRT_EVENT_ACTOR_RESTART &&
                   event->restarts > watch->key.restarts;
        if (is_last && watch->ref->content == CRTI_CONTENT_NONE)
            set_value(watch->ref, &notice);
    }
    if (is_last)
        end_watch(watch);
}

/* Who hears has ended; or what the ref waits for had happened before. */
static void settle(watch_t *watch)
{
    const crt_actor_t *actor = watch->actor;
    const crt_notice_t notice = {.struct_size = sizeof(notice),
                                 .kind = CRT_EVENT_ACTOR_RESTART,
                                 .status = CRT_ERR_ACTOR_DIED,
                                 .actor_id = actor ? actor->hex : "",
                                 .text = "it was restarted before",
                                 .count =
                                     actor ? actor->restarts - watch->key.restarts : 0,
                                 .restarts = actor ? actor->restarts : 0};

    if (watch->ref && watch->ref->content == CRTI_CONTENT_NONE)
        set_value(watch->ref, &notice);
    end_watch(watch);
}

void crti_watches_tick(crti_core_t *core)
{
    struct crti_notices *w = core->waits->watches;
    crt_event_t event = CRT_EVENT_INIT;

    if (!w)
        return;
    while (!crti_list_is_empty(&w->over))
        settle(CRTI_CONTAINER(w->over.next, watch_t, link));
    while (crti_waitset_take(w->set, &event)) {
        crt_actor_t *actor = event.actor;

        tell(event.user, &event);
        if (actor) {
            actor->handles--;
            crti_actor_release(actor);
        }
        event.actor = NULL;
        crti_event_empty(core, &event);
    }
}

/* ------------------------------------------------------------------ refs */

static bool is_wanted(const crt_ref_t *ref)
{
    return ref->handles > 0 || ref->owned.local > 1 || ref->owned.pins > 0 ||
           ref->owned.borrower_count > 0;
}

/* Those that nobody else has. As many again are made before the next time. */
static void sweep(struct crti_notices *w)
{
    if (w->refs.count < w->next_sweep)
        return;
    CRTI_LIST_FOREACH_SAFE (item, &w->all) {
        watch_t *watch = CRTI_CONTAINER(item, watch_t, link);

        if (watch->ref && !is_wanted(watch->ref))
            end_watch(watch);
    }
    w->next_sweep =
        2 * w->refs.count > FIRST_SWEEP ? 2 * w->refs.count : (size_t)FIRST_SWEEP;
}

static crt_status_t add(watch_t *watch, crt_actor_t *actor)
{
    crt_waitset_t *set = watch->core->waits->watches->set;

    return actor ? crti_waitset_add_actor(set, actor, true, watch)
                 : crti_waitset_add_node(set, watch->key.of, true, watch);
}

/* Inside of what has happened: so later. */
static void settle_soon(watch_t *watch)
{
    crti_list_remove(&watch->link);
    crti_list_append(&watch->core->waits->watches->over, &watch->link);
    crti_core_wake_at(watch->core, crti_now_ns());
}

static void on_watched(crti_actor_watcher_t *watcher, crti_actor_news_t news,
                       uint64_t count)
{
    watch_t *watch = CRTI_CONTAINER(watcher, watch_t, watcher);

    if (news == CRTI_ACTOR_LEARNT && watch->actor->restarts > watch->key.restarts)
        settle_soon(watch);
}

static crt_status_t new_ref_watch(crti_core_t *core, watch_key_t key, crt_actor_t *actor,
                                  crt_ref_t **ref_out)
{
    watch_t *watch = new_watch(core, key);
    crt_status_t status = CRT_ERR_NO_MEMORY;

    if (!watch)
        return status;
    watch->ref = crti_ref_new(core);
    if (watch->ref)
        status = crti_map_put(&core->waits->watches->refs, &key, watch);
    else
        crt_raise(status, "a ref");
    if (status == CRT_OK)
        status = add(watch, actor);
    if (status == CRT_OK && actor) {
        watch->actor = actor;
        watch->watcher.on_news = on_watched;
        crti_actor_follow(actor, &watch->watcher);
    }
    if (status == CRT_OK) {
        crti_ref_keep_handle(watch->ref);
        *ref_out = watch->ref;
        sweep(core->waits->watches);
    } else if (watch->ref) {
        end_watch(watch);
    } else {
        crti_list_remove(&watch->link);
        free(watch);
    }
    return status;
}

/* `status`: what the caller has found to be wrong. The lock is given up. */
static crt_ref_t *ref_for(crti_core_t *core, crt_status_t status, watch_key_t key,
                          crt_actor_t *actor)
{
    const struct crti_notices *w = core->waits->watches;
    const watch_t *known = status == CRT_OK && w ? crti_map_get(&w->refs, &key) : NULL;
    crt_ref_t *ref = NULL;

    if (known) {
        ref = known->ref;
        crti_ref_keep_handle(ref);
    } else if (status == CRT_OK) {
        status = new_ref_watch(core, key, actor, &ref);
    }
    if (status != CRT_OK) {
        ref = crti_ref_failed(core, status);
        ref->handles++;
    }
    crti_leave(core);
    return ref;
}

crt_ref_t *crt_actor_restarted(crt_actor_t *actor, uint64_t restarts)
{
    crti_core_t *core = crti_enter();
    watch_key_t key = {.restarts = restarts};
    crt_status_t status;

    if (!core)
        return crti_given_refused(NULL, 0);
    status = crti_actor_check(core, actor);
    if (status == CRT_OK)
        key.of = actor->id;
    return ref_for(core, status, key, actor);
}

crt_ref_t *crt_actor_ended(crt_actor_t *actor)
{
    return crt_actor_restarted(actor, ONLY_THE_END);
}

static crt_status_t read_id(const char *text, crti_id_t *id)
{
    return text && crti_id_parse(text, id)
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID, "\"%.40s\" is no id of 32 hex digits",
                           text ? text : "");
}

crt_ref_t *crt_node_ended(const char *node_id)
{
    crti_core_t *core = crti_enter();
    watch_key_t key = {.restarts = ONLY_THE_END};
    crt_status_t status;

    if (!core)
        return crti_given_refused(NULL, 0);
    status = read_id(node_id, &key.of);
    if (status == CRT_OK)
        status = crti_core_check(core);
    return ref_for(core, status, key, NULL);
}

/* ------------------------------------------------------------------ calls */

static void on_hearer(crti_actor_watcher_t *watcher, crti_actor_news_t news,
                      uint64_t count)
{
    if (news == CRTI_ACTOR_ENDED)
        settle_soon(CRTI_CONTAINER(watcher, watch_t, watcher));
}

static crt_status_t watch_by_calls(crti_core_t *core, crti_id_t of, crt_actor_t *actor,
                                   crt_actor_t *hearer, const crt_method_t *method)
{
    crti_target_t target = {
        .actor = hearer, .returns = 1, .is_tell = true, .past_limits = true};
    crt_status_t status = crti_call_target(core, method, NULL, &target);
    watch_t *watch;

    if (status != CRT_OK)
        return status;
    watch = new_watch(core, (watch_key_t){.of = of});
    if (!watch)
        return CRT_ERR_NO_MEMORY;
    watch->target = target;
    crti_actor_hold_weakly(hearer);
    watch->watcher.on_news = on_hearer;
    status = add(watch, actor);
    if (status != CRT_OK)
        end_watch(watch);
    else
        crti_actor_follow(hearer, &watch->watcher);
    return status;
}

crt_status_t crt_actor_watch(crt_actor_t *actor, crt_actor_t *watcher,
                             const crt_method_t *method)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_actor_check(core, actor);
    if (status == CRT_OK)
        status = watch_by_calls(core, actor->id, actor, watcher, method);
    crti_leave(core);
    return status;
}

crt_status_t crt_node_watch(const char *node_id, crt_actor_t *watcher,
                            const crt_method_t *method)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;
    crti_id_t id;

    if (!core)
        return crti_entry_status();
    status = read_id(node_id, &id);
    if (status == CRT_OK)
        status = crti_core_check(core);
    if (status == CRT_OK)
        status = watch_by_calls(core, id, NULL, watcher, method);
    crti_leave(core);
    return status;
}

static bool end_watches(struct crti_notices *w, crti_id_t of, const crt_actor_t *hearer)
{
    bool is_any = false;

    CRTI_LIST_FOREACH_SAFE (item, &w->all) {
        watch_t *watch = CRTI_CONTAINER(item, watch_t, link);

        if (watch->ref || watch->target.actor != hearer ||
            !crti_id_equal(watch->key.of, of))
            continue;
        end_watch(watch);
        is_any = true;
    }
    return is_any;
}

crt_status_t crt_unwatch(const char *id, crt_actor_t *watcher)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;
    crti_id_t of;

    if (!core)
        return crti_entry_status();
    status = crti_actor_check(core, watcher);
    if (status == CRT_OK)
        status = read_id(id, &of);
    if (status == CRT_OK &&
        !(core->waits->watches && end_watches(core->waits->watches, of, watcher)))
        status =
            crt_raise(CRT_ERR_NOT_FOUND, "actor %s has no watch of %s", watcher->hex, id);
    crti_leave(core);
    return status;
}
