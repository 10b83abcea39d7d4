/* SPDX-License-Identifier: Apache-2.0 */
/* Placement groups as this process knows them. See placement_group.h. */
#include "runtime/core/calls/placement_group.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/values/handles.h"

/* A ref that becomes ready with the group. */
typedef struct ready_ref {
    crti_list_t link;
    crt_ref_t *ref; /* held */
} ready_ref_t;

/* ------------------------------------------------------------------ life of a handle */

crt_placement_group_t *crti_placement_group_open(crti_core_t *core, crti_id_t id)
{
    crt_placement_group_t *group = crti_map_get(&core->calls->placement_groups, &id);

    if (group) {
        group->holds++;
        return group;
    }
    group = calloc(1, sizeof(*group));
    if (!group)
        return NULL;
    *group = (crt_placement_group_t){
        .core = core, .id = id, .holds = 1, .state = CRTI_PLACEMENT_GROUP_UNKNOWN};
    crti_id_hex(id, group->hex);
    crti_list_init(&group->ready);
    if (crti_handles_add(&core->calls->handles, group) != CRT_OK) {
        free(group);
        return NULL;
    }
    if (crti_map_put(&core->calls->placement_groups, &id, group) != CRT_OK) {
        crti_handles_take(&core->calls->handles, group);
        free(group);
        return NULL;
    }
    return group;
}

void crti_placement_group_hold(crt_placement_group_t *group)
{
    group->holds++;
}

static void free_group(crt_placement_group_t *group)
{
    free(group->bundles);
    free(group->text);
    free(group);
}

void crti_placement_group_release(crt_placement_group_t *group)
{
    if (--group->holds)
        return;
    crti_map_remove(&group->core->calls->placement_groups, &group->id);
    crti_handles_take(&group->core->calls->handles, group);
    free_group(group);
}

crt_status_t crti_placement_group_check(const crti_core_t *core,
                                        const crt_placement_group_t *group)
{
    if (!group)
        return crt_raise(CRT_ERR_INVALID, "the placement group is NULL");
    if (core && crti_handles_have(&core->calls->handles, group))
        return CRT_OK;
    return crti_old_handle_is(group)
               ? crt_raise(CRT_ERR_CLOSED, "the placement group is " CRTI_BEFORE_SHUTDOWN)
               : crt_raise(CRT_ERR_INVALID,
                           "the placement group is none: it was dropped, "
                           "or never was one");
}

static void drop_refs(crt_placement_group_t *group)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&group->ready)))
        free(CRTI_CONTAINER(item, ready_ref_t, link));
}

void crti_placement_groups_orphan(crti_core_t *core)
{
    CRTI_MAP_FOREACH (crt_placement_group_t, group, &core->calls->placement_groups) {
        drop_refs(group); /* the refs are orphans of their own */
        group->core = NULL;
        group->holds = group->handles;
        if (group->handles)
            crti_old_handle_add(group);
        else
            free_group(group);
    }
}

/* ------------------------------------------------------------------ what the head says */

crt_status_t crti_placement_group_raise(const crt_placement_group_t *group)
{
    return crt_raise(group->status != CRT_OK ? group->status : CRT_ERR_UNSCHEDULABLE,
                     "placement group %s: %s", group->hex,
                     group->text ? group->text : "");
}

static void settle_refs(crt_placement_group_t *group)
{
    bool is_created = group->state == CRTI_PLACEMENT_GROUP_CREATED;
    crt_arg_t is_placed = crt_arg_bool(true);
    crti_list_t *item;

    if (!is_created && group->state != CRTI_PLACEMENT_GROUP_REMOVED)
        return;
    while ((item = crti_list_pop(&group->ready))) {
        ready_ref_t *ready = CRTI_CONTAINER(item, ready_ref_t, link);
        crt_ref_t *ref = ready->ref;

        free(ready);
        if (is_created)
            crti_ref_set_made(ref, &is_placed, "a placement group");
        else
            crti_ref_fail(ref, crti_placement_group_raise(group));
        crti_ref_release(ref);
    }
    crti_refs_notify(group->core);
}

crt_status_t crti_placement_group_await(crt_placement_group_t *group, crt_ref_t *ref)
{
    ready_ref_t *ready = malloc(sizeof(*ready));

    if (!ready)
        return crt_raise(CRT_ERR_NO_MEMORY, "a ref of a placement group");
    ready->ref = ref;
    crti_ref_hold(ref);
    crti_list_append(&group->ready, &ready->link);
    settle_refs(group);
    return CRT_OK;
}

static void set_text(crt_placement_group_t *group, crti_span_t text)
{
    (void)crti_str_replace(&group->text, text);
}

static void read_bundles(crt_placement_group_t *group, crti_span_t list)
{
    crti_span_t rest = list, entry;
    crti_known_bundle_t *bundles;
    crti_message_t m;
    size_t count = 0;

    while (crti_list_unpack(&rest, &entry) == CRT_OK)
        count++;
    bundles = calloc(count + 1, sizeof(*bundles));
    if (!bundles)
        return; /* what was known before */
    count = 0;
    for (rest = list; crti_list_unpack(&rest, &entry) == CRT_OK;) {
        if (crti_message_decode(entry.data, entry.size, &m) != CRT_OK ||
            m.kind != CRTI_MSG_BUNDLE)
            break;
        bundles[count++] = (crti_known_bundle_t){m.bundle.resources, m.bundle.node};
    }
    free(group->bundles);
    group->bundles = bundles;
    group->count = count;
}

static void changed(crt_placement_group_t *group)
{
    crti_core_t *core = group->core;

    settle_refs(group);
    crti_net_wake(core->net);
    core->calls->on_placement_group(core, group->id);
}

static void end(crt_placement_group_t *group, crt_status_t status, crti_span_t text)
{
    group->state = CRTI_PLACEMENT_GROUP_REMOVED;
    group->status = status;
    set_text(group, text);
    group->count = 0;
    changed(group);
}

static void apply_state(crt_placement_group_t *group,
                        const crti_msg_placement_group_state_t *m)
{
    char text[400];

    if (group->state == CRTI_PLACEMENT_GROUP_REMOVED)
        return;
    if (m->state == CRTI_PLACEMENT_GROUP_REMOVED) {
        group->version = m->version;
        end(group, (crt_status_t)m->status, m->text);
        return;
    }
    if (m->text.size && m->version != group->version)
        crti_log(CRTI_LOG_WARN, "core", "placement group %s waits: %s", group->hex,
                 crti_text(m->text, text, sizeof(text)));
    group->state = (unsigned)m->state;
    group->version = m->version;
    set_text(group, m->text);
    read_bundles(group, m->bundles);
    changed(group);
}

static void take_error(crt_placement_group_t *group, const crti_message_t *message)
{
    const crti_core_t *core = group->core;

    if (message)
        end(group, (crt_status_t)message->error.status, message->error.text);
    else
        end(group, core->broken != CRT_OK ? core->broken : CRT_ERR_CLOSED,
            crti_str(core->broken_text ? core->broken_text : CRTI_SHUT_DOWN));
}

/* ------------------------------------------------------------------ questions */

static bool is_waiting(const crt_placement_group_t *group)
{
    return group->state != CRTI_PLACEMENT_GROUP_CREATED &&
           group->state != CRTI_PLACEMENT_GROUP_REMOVED;
}

static void on_answer(void *user, const crti_message_t *message)
{
    crt_placement_group_t *group = user;

    group->is_asking = false;
    if (message && message->kind == CRTI_MSG_PLACEMENT_GROUP_STATE)
        apply_state(group, &message->placement_group_state);
    else
        take_error(group, message);
    if (group->holds > 1)
        crti_placement_group_follow(group);
    crti_placement_group_release(group);
}

static void request(crt_placement_group_t *group, crti_message_kind_t kind,
                    const void *body)
{
    group->is_asking = true;
    crti_placement_group_hold(group);
    if (crti_node_request(group->core, kind, body, on_answer, group) == CRT_OK)
        return;
    group->is_asking = false;
    end(group, crti_node_loss(group->core), crti_str(crt_error_detail()));
    crti_placement_group_release(group);
}

void crti_placement_group_ask(crt_placement_group_t *group, uint64_t version)
{
    crti_msg_placement_group_get_t m = {.group = group->id, .version = version};

    if (!group->is_asking && group->state != CRTI_PLACEMENT_GROUP_REMOVED)
        request(group, CRTI_MSG_PLACEMENT_GROUP_GET, &m);
}

void crti_placement_group_follow(crt_placement_group_t *group)
{
    if (is_waiting(group))
        crti_placement_group_ask(group, group->version);
}

void crti_placement_group_refresh(crt_placement_group_t *group)
{
    if (group->state == CRTI_PLACEMENT_GROUP_CREATED)
        crti_placement_group_ask(group, CRTI_NO_VERSION);
}

void crti_placement_group_create(crt_placement_group_t *group,
                                 const crti_msg_placement_group_create_t *m)
{
    group->state = CRTI_PLACEMENT_GROUP_PENDING;
    read_bundles(group, m->bundles);
    request(group, CRTI_MSG_PLACEMENT_GROUP_CREATE, m);
}

/* The node asks the head until it has an answer: only the store can refuse. */
static void on_removed(void *user, const crti_message_t *message)
{
    crt_placement_group_t *group = user;
    char text[400];

    if (message && message->kind == CRTI_MSG_ERROR)
        crti_log(CRTI_LOG_WARN, "core", "placement group %s may not be removed: %s",
                 group->hex, crti_text(message->error.text, text, sizeof(text)));
    crti_placement_group_release(group);
}

crt_status_t crti_placement_group_remove(crt_placement_group_t *group)
{
    crti_msg_placement_group_remove_t m = {.group = group->id};
    crt_status_t status;

    if (group->state == CRTI_PLACEMENT_GROUP_REMOVED)
        return CRT_OK;
    crti_placement_group_hold(group);
    status = crti_node_request(group->core, CRTI_MSG_PLACEMENT_GROUP_REMOVE, &m,
                               on_removed, group);
    if (status == CRT_OK)
        end(group, CRT_ERR_UNSCHEDULABLE, crti_str("it was removed"));
    else
        crti_placement_group_release(group);
    return status;
}

void crti_placement_group_fail(crt_placement_group_t *group, crt_status_t status)
{
    end(group, status, crti_str(crt_error_detail()));
}

void crti_placement_group_state(crt_placement_group_t *group,
                                const crti_msg_placement_group_state_t *m)
{
    apply_state(group, m);
}

/* ------------------------------------------------------------------ where its bundles are */

static bool could_have(const crt_placement_group_t *group, size_t at,
                       const crti_resources_t *resources)
{
    return crti_resources_fit(&group->bundles[at].resources, resources);
}

size_t crti_placement_group_fitting(const crt_placement_group_t *group,
                                    const crti_resources_t *resources)
{
    size_t count = 0;

    for (size_t i = 0; i < group->count; i++)
        count += could_have(group, i, resources);
    return count;
}

static crt_status_t find_any(const crt_placement_group_t *group,
                             const crti_resources_t *resources, unsigned turn,
                             crti_id_t *node_out)
{
    size_t fitting = crti_placement_group_fitting(group, resources), nth;
    char need[200];

    if (fitting == 0)
        return crt_raise(CRT_ERR_UNSCHEDULABLE, "no bundle of placement group %s has %s",
                         group->hex,
                         crti_resources_format(resources, need, sizeof(need)));
    nth = turn % fitting;
    for (size_t i = 0; i < 2 * group->count;
         i++) { /* from there on, one that has a node */
        size_t at = i % group->count;

        if (!could_have(group, at, resources) || (nth && nth--))
            continue;
        *node_out = group->bundles[at].node;
        if (!crti_id_is_zero(*node_out))
            return CRT_OK;
    }
    return crt_raise(CRT_ERR_BACKPRESSURE, "the bundles are on no node now");
}

crt_status_t crti_placement_group_node(const crt_placement_group_t *group, int64_t index,
                                       const crti_resources_t *resources, unsigned turn,
                                       crti_id_t *node_out)
{
    char need[200];

    if (group->state == CRTI_PLACEMENT_GROUP_REMOVED)
        return crti_placement_group_raise(group);
    if (group->count == 0)
        return crt_raise(CRT_ERR_BACKPRESSURE, "nothing is known of the group yet");
    if (index >= (int64_t)group->count)
        return crt_raise(CRT_ERR_INVALID,
                         "there is no bundle %lld: placement group %s has %zu",
                         (long long)index, group->hex, group->count);
    if (index < 0)
        return find_any(group, resources, turn, node_out);
    if (!could_have(group, (size_t)index, resources))
        return crt_raise(CRT_ERR_UNSCHEDULABLE,
                         "bundle %lld of placement group %s has not %s", (long long)index,
                         group->hex,
                         crti_resources_format(resources, need, sizeof(need)));
    *node_out = group->bundles[index].node;
    return crti_id_is_zero(*node_out)
               ? crt_raise(CRT_ERR_BACKPRESSURE, "the bundle is on no node now")
               : CRT_OK;
}

/* ------------------------------------------------------------------ options */

/* What the call that runs says to what it makes. */
static void inherit(const crti_core_t *core, crti_scheduling_t *how,
                    bool *captures_children_out)
{
    crti_placement_t mine = core->placement_running(core);

    if (!mine.captures_children)
        return;
    *captures_children_out = true;
    how->group = mine.group;
    how->bundle = -1;
}

crt_status_t crti_placement_group_option(crti_core_t *core, crt_placement_group_t *group,
                                         int bundle, bool captures_children,
                                         crti_scheduling_t *how, bool said,
                                         bool *captures_children_out)
{
    crt_status_t status;

    *captures_children_out = captures_children;
    if (!group) {
        if (bundle || captures_children)
            return crt_raise(CRT_ERR_INVALID, "a bundle and capture_child_tasks need a "
                                              "placement_group");
        if (!said)
            inherit(core, how, captures_children_out);
        return CRT_OK;
    }
    status = crti_placement_group_check(core, group);
    if (status != CRT_OK)
        return status;
    if (said)
        return crt_raise(CRT_ERR_INVALID, "a placement group says where it runs: no "
                                          "scheduling and no label_selector besides");
    if (bundle < 0)
        return crt_raise(CRT_ERR_INVALID, "there is no bundle %d", bundle - 1);
    how->group = group->id;
    how->bundle = bundle - 1;
    return CRT_OK;
}
