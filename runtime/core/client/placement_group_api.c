/* SPDX-License-Identifier: Apache-2.0 */
/* Placement groups: the functions of crt_placement_group.h.
 *
 * Where it sits
 *     crt_placement_group_new, _wait, ... -> [ placement_group_api.c ] -> calls/placement_group.c
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/copy_struct.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/calls/placement_group.h"
#include "runtime/core/calls/scheduling.h"
#include "runtime/core/client/bundles.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/values/handles.h"

static pthread_mutex_t orphans = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ making one */

/* They lie one behind the other as the program knows them. */
static const crt_bundle_t *bundle_at(const crt_bundle_t *bundles, size_t index)
{
    return (const void *)((const char *)bundles + index * bundles->struct_size);
}

static crt_status_t pack_bundle(const crt_bundle_t *given, size_t index,
                                crti_buffer_t *list)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
    crt_bundle_t mine, *bundle = &mine;
    crt_status_t status = CRTI_COPY_STRUCT(&mine, given, "CRT_BUNDLE");
    const char *selector = bundle->label_selector ? bundle->label_selector : "";
    crti_msg_bundle_t m = {.selector = crti_str(selector)};

    if (status == CRT_OK)
        status = crti_scheduling_resources(bundle->num_cpus, 0, bundle->num_gpus,
                                           bundle->resources, &m.resources);
    if (status == CRT_OK && m.resources.count == 0)
        status = crt_raise(CRT_ERR_INVALID, "it needs nothing");
    if (status == CRT_OK)
        status = crti_selector_check(selector);
    if (status != CRT_OK) {
        CRTI_AUTO(free) char *why = strdup(crt_error_detail());

        return crt_raise(status, "bundle %zu: %s", index, why ? why : "");
    }
    status = crti_message_encode(CRTI_MSG_BUNDLE, 0, &m, &entry);
    return status == CRT_OK ? crti_list_pack(list, entry.data, entry.size) : status;
}

crt_status_t crti_bundles_pack(const crt_bundle_t *bundles, size_t count,
                               crti_buffer_t *list)
{
    crt_status_t status = CRT_OK;

    if (!bundles && count)
        return crt_raise(CRT_ERR_INVALID, "the bundles are NULL");
    for (size_t i = 0; status == CRT_OK && i < count; i++)
        status = pack_bundle(bundle_at(bundles, i), i, list);
    return status;
}

/* What `m` borrows is the program's. */
static crt_status_t read_options(const crt_placement_group_options_t *options,
                                 crti_msg_placement_group_create_t *m)
{
    crt_placement_group_options_t mine, *o = &mine;
    crt_status_t status = CRTI_COPY_STRUCT(&mine, options, "CRT_PLACEMENT_GROUP_OPTIONS");

    if (status != CRT_OK)
        return status;
    if (o->strategy < CRT_PLACEMENT_PACK || o->strategy > CRT_PLACEMENT_STRICT_SPREAD)
        return crt_raise(CRT_ERR_INVALID, "there is no placement strategy %d",
                         (int)o->strategy);
    if (o->detached && (!o->name || !*o->name))
        return crt_raise(CRT_ERR_INVALID, "a detached placement group needs a name");
    if (o->name && strlen(o->name) > 255)
        return crt_raise(CRT_ERR_INVALID,
                         "a placement group's name has at most 255 bytes");
    m->strategy = (uint64_t)o->strategy;
    m->name = crti_str(o->name);
    if (o->name_space)
        m->name_space = crti_str(o->name_space);
    m->detached = o->detached;
    return crti_scheduling_infeasible(o->if_infeasible, &m->if_infeasible);
}

static void make(crti_core_t *core, crt_placement_group_t *group,
                 const crt_bundle_t *bundles, size_t count,
                 const crt_placement_group_options_t *options)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_msg_placement_group_create_t m = {
        .group = group->id, .job = core->job, .name_space = crti_str(core->name_space)};
    crt_status_t status = crti_core_check(core);

    if (status == CRT_OK)
        status = read_options(options, &m);
    if (status == CRT_OK && (count == 0 || count > CRTI_BUNDLES_MAX))
        status =
            crt_raise(CRT_ERR_INVALID, "a placement group has 1 to %d bundles, not %zu",
                      CRTI_BUNDLES_MAX, count);
    if (status == CRT_OK)
        status = crti_bundles_pack(bundles, count, &list);
    if (status != CRT_OK) {
        crti_placement_group_fail(group, status);
        return;
    }
    m.bundles = crti_span(list.data, list.size);
    crti_placement_group_create(group, &m);
}

/* What a program gets without a runtime: a handle that says why. */
static crt_placement_group_t *make_none(void)
{
    crt_placement_group_t *group = calloc(1, sizeof(*group));

    if (!group)
        return NULL;
    *group = (crt_placement_group_t){.handles = 1,
                                     .holds = 1,
                                     .state = CRTI_PLACEMENT_GROUP_REMOVED,
                                     .status = crti_entry_status(),
                                     .text = strdup(crt_error_detail())};
    crti_list_init(&group->ready);
    crti_old_handle_add(group);
    return group;
}

crt_placement_group_t *
crt_placement_group_new(const crt_bundle_t *bundles, size_t count,
                        const crt_placement_group_options_t *options)
{
    crti_core_t *core = crti_enter();
    crt_placement_group_t *group;

    if (!core)
        return make_none();
    group = crti_placement_group_open(core, crti_id_random());
    if (group) {
        group->handles++;
        make(core, group, bundles, count, options);
    }
    crti_leave(core);
    return group;
}

/* ------------------------------------------------------------------ waiting */

static bool is_settled(void *user)
{
    const crt_placement_group_t *group = user;

    return group->state == CRTI_PLACEMENT_GROUP_CREATED ||
           group->state == CRTI_PLACEMENT_GROUP_REMOVED;
}

static void describe(void *user, char *text, size_t size)
{
    const crt_placement_group_t *group = user;

    snprintf(text, size, "%s",
             group->text && *group->text ? group->text : "the head has not answered");
}

static crt_status_t wait_for(crti_core_t *core, crt_placement_group_t *group,
                             int64_t timeout_ms)
{
    crt_status_t status = crti_wait_in_detail(core, is_settled, group, timeout_ms,
                                              &(crti_wait_detail_t){.describe = describe},
                                              "a placement group");

    if (status == CRT_OK && group->state == CRTI_PLACEMENT_GROUP_REMOVED)
        return crti_placement_group_raise(group);
    if (status == CRT_ERR_TIMED_OUT)
        return crt_raise(status, "placement group %s waits: %s", group->hex,
                         group->text && *group->text ? group->text
                                                     : "the head has not answered");
    return status;
}

crt_status_t crt_placement_group_wait(crt_placement_group_t *group, int64_t timeout_ms)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_placement_group_check(core, group);
    if (status == CRT_OK) {
        crti_placement_group_hold(group);
        status = wait_for(core, group, timeout_ms);
        crti_placement_group_release(group);
    }
    crti_leave(core);
    return status;
}

crt_ref_t *crt_placement_group_ready(crt_placement_group_t *group)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;
    crt_ref_t *ref;

    if (!core)
        return crti_given_refused(NULL, 0);
    status = crti_placement_group_check(core, group);
    ref = status == CRT_OK ? crti_ref_new(core) : NULL;
    if (!ref) {
        if (status == CRT_OK)
            status = crt_raise(CRT_ERR_NO_MEMORY, "a ref");
        ref = crti_ref_failed(core, status);
    } else {
        status = crti_placement_group_await(group, ref);
        if (status != CRT_OK)
            crti_ref_fail(ref, status);
    }
    ref->handles++;
    crti_leave(core);
    return ref;
}

/* ------------------------------------------------------------------ others' groups, and the end */

/* Asks the head and takes its answer in. */
static crt_status_t find(crti_core_t *core, const crti_msg_placement_group_get_t *m,
                         crt_placement_group_t **group_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_message_t answer;
    crt_status_t status =
        crti_node_ask(core, CRTI_MSG_PLACEMENT_GROUP_GET, m,
                      (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), &answer, &storage);

    if (status == CRT_OK && answer.kind != CRTI_MSG_PLACEMENT_GROUP_STATE)
        status = crt_raise(CRT_ERR_PROTOCOL, "an unexpected answer of the head");
    if (status == CRT_OK &&
        answer.placement_group_state.state == CRTI_PLACEMENT_GROUP_REMOVED)
        status = crt_raise(CRT_ERR_NOT_FOUND, "the placement group was removed");
    if (status != CRT_OK)
        return status;
    *group_out = crti_placement_group_open(core, answer.placement_group_state.group);
    if (!*group_out)
        return crt_raise(CRT_ERR_NO_MEMORY, "a placement group");
    (*group_out)->handles++;
    crti_placement_group_state(*group_out, &answer.placement_group_state);
    crti_placement_group_follow(*group_out);
    return CRT_OK;
}

/* `m` without a namespace: in that of the job. */
static crt_status_t find_by(crti_msg_placement_group_get_t *m,
                            crt_placement_group_t **group_out)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = group_out ? crti_core_check(core)
                       : crt_raise(CRT_ERR_INVALID, "there is no place for the handle");
    if (!m->name_space.data)
        m->name_space = crti_str(core->name_space);
    if (status == CRT_OK)
        status = find(core, m, group_out);
    crti_leave(core);
    return status;
}

crt_status_t crt_placement_group_find(const char *name, const crt_find_options_t *options,
                                      crt_placement_group_t **group_out)
{
    crti_msg_placement_group_get_t m = {.name = crti_str(name),
                                        .version = CRTI_NO_VERSION};
    crt_find_options_t o;
    crt_status_t status = CRTI_COPY_STRUCT(&o, options, "CRT_FIND_OPTIONS");

    if (status != CRT_OK)
        return status;
    if (o.name_space)
        m.name_space = crti_str(o.name_space);
    if (!name || !*name)
        return crt_raise(CRT_ERR_INVALID, "a placement group is found by a name");
    return find_by(&m, group_out);
}

crt_status_t crt_placement_group_by_id(const char *id, crt_placement_group_t **group_out)
{
    crti_msg_placement_group_get_t m = {.version = CRTI_NO_VERSION};

    if (!id || !crti_id_parse(id, &m.group) || crti_id_is_zero(m.group))
        return crt_raise(CRT_ERR_INVALID,
                         "the id of a placement group has 32 hex digits, \"%s\" has not",
                         id ? id : "");
    return find_by(&m, group_out);
}

crt_placement_group_t *crt_placement_group_current(void)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    crt_placement_group_t *group = NULL;
    crti_placement_t mine;

    if (!core)
        return NULL;
    mine = core->placement_running(core);
    if (!crti_id_is_zero(mine.group))
        group = crti_placement_group_open(core, mine.group);
    if (group) {
        group->handles++;
        crti_placement_group_follow(group);
    }
    crti_leave(core);
    return group;
}

crt_status_t crt_placement_group_remove(crt_placement_group_t *group)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_placement_group_check(core, group);
    if (status == CRT_OK)
        status = crti_placement_group_remove(group);
    crti_leave(core);
    return status;
}

/* ------------------------------------------------------------------ handles */

static bool has(const crti_core_t *core, const crt_placement_group_t *group)
{
    return core && crti_calls_have_handle(core, group);
}

const char *crt_placement_group_id(crt_placement_group_t *group)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    const char *hex = has(core, group) || crti_old_handle_is(group) ? group->hex : "";

    if (core)
        crti_leave(core);
    return hex;
}

size_t crt_placement_group_count(crt_placement_group_t *group)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    size_t count = has(core, group) ? group->count : 0;

    if (core)
        crti_leave(core);
    return count;
}

/* True when it was one. */
static bool drop_old(crt_placement_group_t *group)
{
    bool is_old, is_last = false;

    pthread_mutex_lock(&orphans);
    is_old = crti_old_handle_is(group);
    if (is_old)
        is_last = --group->handles == 0;
    if (is_last)
        crti_old_handle_take(group);
    pthread_mutex_unlock(&orphans);
    if (is_last) {
        free(group->bundles);
        free(group->text);
        free(group);
    }
    return is_old;
}

void crt_placement_group_drop(crt_placement_group_t **slot)
{
    crt_placement_group_t *group = slot ? *slot : NULL;
    crti_core_t *core;
    bool is_dropped = true;

    if (!group)
        return;
    *slot = NULL;
    if (crti_is_forked())
        return;
    core = crti_enter_quiet();
    if (has(core, group)) {
        is_dropped = group->handles > 0;
        if (is_dropped) {
            group->handles--;
            crti_placement_group_release(group);
        }
    } else {
        is_dropped = drop_old(group);
    }
    if (core)
        crti_leave(core);
    if (!is_dropped)
        crti_log(CRTI_LOG_WARN, "core",
                 "crt_placement_group_drop of a handle that was dropped before, or never "
                 "was one");
}
