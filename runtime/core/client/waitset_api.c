/* SPDX-License-Identifier: Apache-2.0 */
/* Wait sets in crt_wait.h. See waitset.h.
 *
 * Where it sits
 *     crt_waitset_*, crt_event_drop -> [ waitset_api.c ] -> waitset.c, blocking.c
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/values/handles.h"

static crt_status_t check(const crti_core_t *core, const crt_waitset_t *set)
{
    if (!set)
        return crt_raise(CRT_ERR_INVALID, "the wait set is NULL");
    if (crti_handles_have(&core->waits->sets, set))
        return CRT_OK;
    return crti_old_handle_is(set)
               ? crt_raise(CRT_ERR_CLOSED, "the wait set is " CRTI_BEFORE_SHUTDOWN)
               : crt_raise(CRT_ERR_INVALID,
                           "no such wait set: it was dropped, or never was one");
}

/* The runtime with its lock taken; NULL, with `*status_out`: the set can't be used. */
static crti_core_t *enter(const crt_waitset_t *set, crt_status_t *status_out)
{
    crti_core_t *core = crti_enter();

    *status_out = core ? check(core, set) : crti_entry_status();
    if (core && *status_out != CRT_OK)
        crti_leave(core);
    return *status_out == CRT_OK ? core : NULL;
}

/* ------------------------------------------------------------------ life of a set */

crt_status_t crt_waitset_new(crt_waitset_t **set_out)
{
    crti_core_t *core = set_out ? crti_enter() : NULL;
    crt_status_t status = CRT_OK;
    crt_waitset_t *set;

    if (!set_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the wait set");
    if (!core)
        return crti_entry_status();
    set = crti_waitset_new(core);
    status = set ? crti_handles_add(&core->waits->sets, set) : CRT_ERR_NO_MEMORY;
    if (status == CRT_OK)
        *set_out = set;
    else if (set)
        crti_waitset_release(set);
    crti_leave(core);
    return status;
}

void crt_waitset_drop(crt_waitset_t **slot)
{
    crt_waitset_t *set = slot ? *slot : NULL;
    crti_core_t *core;
    bool is_ours;

    if (!set)
        return;
    *slot = NULL;
    if (crti_is_forked())
        return; /* the parent's; this copy goes with the process */
    core = crti_enter_quiet();
    is_ours = core && crti_handles_take(&core->waits->sets, set);
    if (is_ours || crti_old_handle_take(set)) {
        set->is_dropped = true;
        crti_waitset_clear(core, set);
        if (is_ours)
            crti_net_wake(core->net);
        crti_waitset_release(set);
    } else {
        crti_log(CRTI_LOG_WARN, "core",
                 "crt_waitset_drop of what is no wait set: it was dropped before, or "
                 "never was one");
    }
    if (core)
        crti_leave(core);
}

/* ------------------------------------------------------------------ what is in it */

crt_status_t crti_wait_check_ref(const crt_ref_t *ref)
{
    if (ref && !crti_ref_has_core(ref) && !ref->is_free &&
        ref->content == CRTI_CONTENT_FAILED)
        return CRT_OK;
    return crti_ref_check(ref);
}

crt_status_t crt_waitset_add_ref(crt_waitset_t *set, crt_ref_t *ref, void *user)
{
    crt_status_t status;
    crti_core_t *core = enter(set, &status);

    if (!core)
        return status;
    status = crti_wait_check_ref(ref);
    if (status == CRT_OK)
        status = crti_waitset_add_ref(set, ref, user);
    crti_leave(core);
    return status;
}

crt_status_t crt_waitset_add_stream(crt_waitset_t *set, crt_stream_t *stream, void *user)
{
    crt_status_t status;
    crti_core_t *core = enter(set, &status);

    if (!core)
        return status;
    status = crti_stream_check(core, stream);
    if (status == CRT_OK)
        status = crti_waitset_add_stream(set, stream, user);
    crti_leave(core);
    return status;
}

static crt_status_t add_actor(crt_waitset_t *set, crt_actor_t *actor, bool wants_all,
                              void *user)
{
    crt_status_t status;
    crti_core_t *core = enter(set, &status);

    if (!core)
        return status;
    status = crti_actor_check(core, actor);
    if (status == CRT_OK)
        status = crti_waitset_add_actor(set, actor, wants_all, user);
    crti_leave(core);
    return status;
}

crt_status_t crt_waitset_add_actor_end(crt_waitset_t *set, crt_actor_t *actor, void *user)
{
    return add_actor(set, actor, false, user);
}

crt_status_t crt_waitset_add_actor_watch(crt_waitset_t *set, crt_actor_t *actor,
                                         void *user)
{
    return add_actor(set, actor, true, user);
}

static crt_status_t add_node(crt_waitset_t *set, const char *node_id, bool wants_all,
                             void *user)
{
    crt_status_t status;
    crti_core_t *core = enter(set, &status);
    crti_id_t node;

    if (!core)
        return status;
    if (!node_id || !crti_id_parse(node_id, &node))
        status = crt_raise(CRT_ERR_INVALID, "\"%s\" is no node id of 32 hex digits",
                           node_id ? node_id : "");
    else
        status = crti_core_check(core);
    if (status == CRT_OK)
        status = crti_waitset_add_node(set, node, wants_all, user);
    crti_leave(core);
    return status;
}

crt_status_t crt_waitset_add_node_end(crt_waitset_t *set, const char *node_id, void *user)
{
    return add_node(set, node_id, false, user);
}

crt_status_t crt_waitset_add_node_watch(crt_waitset_t *set, const char *node_id,
                                        void *user)
{
    return add_node(set, node_id, true, user);
}

crt_status_t crt_waitset_remove(crt_waitset_t *set, void *user)
{
    crt_status_t status;
    crti_core_t *core = enter(set, &status);

    if (!core)
        return status;
    if (!user)
        status = crt_raise(CRT_ERR_INVALID, "the pointer of what is removed is NULL");
    else if (!crti_waitset_remove(set, user))
        status = crt_raise(CRT_ERR_NOT_FOUND, "nothing in the wait set has this pointer");
    crti_leave(core);
    return status;
}

size_t crt_waitset_count(const crt_waitset_t *set)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    size_t count = 0;

    if (!core)
        return 0;
    if (crti_handles_have(&core->waits->sets, set))
        count = set->table.count;
    crti_leave(core);
    return count;
}

crt_status_t crt_waitset_fd(crt_waitset_t *set, int *fd_out)
{
    crt_status_t status;
    crti_core_t *core = enter(set, &status);

    if (!core)
        return status;
    status = fd_out ? crti_waitset_open_fd(set)
                    : crt_raise(CRT_ERR_INVALID, "there is no place for the descriptor");
    if (status == CRT_OK)
        *fd_out = set->fd;
    crti_leave(core);
    return status;
}

/* ------------------------------------------------------------------ events */

/* Of version 0.2; a program of a later one has more. */
#define EVENT_FIRST (offsetof(crt_event_t, text) + sizeof(const char *))

/* Whatever version of the struct the program has. */
static void set_event(crt_event_t *event, crt_event_t *to)
{
    size_t size = event->struct_size < sizeof(*to) ? event->struct_size : sizeof(*to);

    to->struct_size = event->struct_size;
    memcpy(event, to, size);
}

void crti_event_empty(crti_core_t *core, crt_event_t *event)
{
    crt_event_t none = {.struct_size = 0};
    crt_ref_t *ref = event->ref;

    free((void *)(uintptr_t)event->text);
    set_event(event, &none);
    if (ref)
        crti_ref_drop_handle(core, ref);
}

void crt_event_drop(crt_event_t *event)
{
    crti_core_t *core;

    if (!event || crti_is_forked())
        return;
    crt_actor_drop(&event->actor);
    core = crti_enter_quiet();
    crti_event_empty(core, event);
    if (core)
        crti_leave(core);
}

static bool has_event(void *user)
{
    const crt_waitset_t *set = user;

    return crti_wait_table_first(&set->table) || set->table.count == 0 || set->is_dropped;
}

/* One is enough for who asks: who waits for a set is not said to rest. */
static crt_ref_t *pick(void *user, size_t *at)
{
    return (*at)++ ? NULL : crti_waitset_first_ref(user);
}

/* Nothing is ready. An event loop that has looked sleeps next: what it has called leaves before. */
static crt_status_t look_again_later(crti_core_t *core)
{
    crt_status_t status = crti_core_check(core);

    crti_net_flush(core->net);
    return status == CRT_OK ? crt_raise(CRT_ERR_TIMED_OUT, "nothing has happened")
                            : status;
}

static int64_t rest_ms(uint64_t start_ns, int64_t wait_ms)
{
    int64_t passed = (int64_t)((crti_now_ns() - start_ns) / CRTI_MS);

    return passed < wait_ms ? wait_ms - passed : 0;
}

static crt_status_t next(crti_core_t *core, crt_waitset_t *set, int64_t wait_ms,
                         crt_event_t *event)
{
    uint64_t start = wait_ms > 0 ? crti_now_ns() : 0;
    crt_event_t taken = CRT_EVENT_INIT;
    int64_t rest = wait_ms;

    while (set->is_dropped || !crti_waitset_take(set, &taken)) {
        crt_status_t status;

        if (set->is_dropped)
            return crt_raise(CRT_ERR_CLOSED, "the wait set was dropped meanwhile");
        if (set->table.count == 0)
            return crt_raise(CRT_ERR_NOT_FOUND, "the wait set is empty");
        if (wait_ms == 0)
            return look_again_later(core);
        status = crti_wait_openly(core, has_event, set, rest,
                                  &(crti_wait_detail_t){.pick = pick}, "a wait set");
        if (status != CRT_OK)
            return status;
        rest = wait_ms > 0 ? rest_ms(start, wait_ms) : wait_ms;
    }
    set_event(event, &taken);
    crti_printed_show(core);
    return CRT_OK;
}

crt_status_t crt_waitset_next(crt_waitset_t *set, int64_t wait_ms, crt_event_t *event)
{
    crti_core_t *core;
    crt_status_t status;

    if (!event || event->struct_size < EVENT_FIRST ||
        event->struct_size > CRTI_STRUCT_MAX)
        return crt_raise(CRT_ERR_INVALID, "make the event with CRT_EVENT_INIT");
    if (event->actor)
        crt_event_drop(event);
    core = crti_enter();
    if (!core) {
        status = crti_entry_status();
        crt_event_drop(event);
        return status;
    }
    crti_event_empty(core, event);
    status = check(core, set);
    if (status == CRT_OK) {
        set->holds++;
        status = next(core, set, wait_ms, event);
        crti_waitset_release(set);
    }
    crti_leave(core);
    return status;
}
