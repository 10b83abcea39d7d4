/* SPDX-License-Identifier: Apache-2.0 */
/* Placement groups: made, reserved, placed again when a node died, removed. See control.h.
 *
 * Where it sits
 *     control.c, control_forward.c (answers of nodes) -> [ control_placement_group.c ] ->
 *     placement_group_table.c, bundle_placement.c; BUNDLE_RESERVE and BUNDLE_RETURN to nodes
 * Invariants
 *     Nobody hears that a group is created before its row says where its bundles are, durably.
 *     A reservation that the table does not know is returned: at once, or when its node registers
 *     again.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/control/control_actor.h"
#include "runtime/control/control_demand.h"
#include "runtime/control/control_grow.h"
#include "runtime/control/control_placement_group.h"
#include "runtime/control/control_request.h"
#include "runtime/control/control_revoke.h"
#include "runtime/control/control_state.h"
#include "runtime/control/control_views.h"
#include "runtime/control/outbox.h"
#include "runtime/control/placement/bundle_placement.h"

#define REMOVED_TEXT "its placement group was removed"

/* ---------------------------------------------------------------- what is told and stored */

void crti_control_put_placement_group(crti_control_t *c,
                                      const crti_placement_group_entry_t *group)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bundles = {0};
    crti_msg_row_placement_group_t row = {.group = group->id,
                                          .job = group->job,
                                          .name = crti_str(group->name),
                                          .name_space = crti_str(group->name_space),
                                          .strategy = group->strategy,
                                          .detached = group->detached,
                                          .if_infeasible = group->if_infeasible,
                                          .serial = group->serial,
                                          .state = group->state,
                                          .incarnation = group->incarnation};

    if (crti_placement_group_pack(group, &bundles) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "control", "%s", crt_error_detail());
        return;
    }
    row.bundles = crti_span(bundles.data, bundles.size);
    crti_control_put(c, CRTI_STORE_PLACEMENT_GROUPS, group->id,
                     CRTI_MSG_ROW_PLACEMENT_GROUP, &row);
}

static void send_state(crti_control_t *c, const crti_placement_group_entry_t *group,
                       uint64_t link, uint64_t request)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bundles = {0};
    crti_msg_placement_group_state_t m = {.group = group->id,
                                          .version = group->version,
                                          .state = group->state,
                                          .name = crti_str(group->name),
                                          .status = group->status,
                                          .text = crti_str(group->text)};

    if (crti_placement_group_pack(group, &bundles) != CRT_OK) {
        crti_control_refuse(c, link, request, CRT_ERR_NO_MEMORY);
        return;
    }
    m.bundles = crti_span(bundles.data, bundles.size);
    crti_control_answer(c, link, CRTI_MSG_PLACEMENT_GROUP_STATE, request, &m, false);
}

/* The node gives up a reservation; one without a link hears of it when it registers. */
static void send_return(crti_control_t *c, crti_id_t node_id, crti_id_t group,
                        uint64_t index, uint64_t incarnation, const char *text)
{
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, node_id);
    crti_msg_bundle_return_t m = {.group = group,
                                  .bundle = index,
                                  .incarnation = incarnation,
                                  .text = crti_str(text)};

    if (node && node->link)
        crti_control_send(c, node->link, CRTI_MSG_BUNDLE_RETURN, 0, &m);
}

static void return_bundle(crti_control_t *c, const crti_placement_group_entry_t *group,
                          crti_bundle_entry_t *bundle, const char *text)
{
    if (bundle->state == CRTI_BUNDLE_RESERVING)
        crti_control_cancel_request(c, bundle->request);
    if (bundle->state != CRTI_BUNDLE_UNPLACED)
        send_return(c, bundle->node, group->id, (uint64_t)(bundle - group->bundles),
                    bundle->incarnation, text);
    crti_placement_group_unplaced(bundle);
}

static void return_all(crti_control_t *c, crti_placement_group_entry_t *group,
                       const char *text)
{
    for (size_t i = 0; i < group->bundle_count; i++)
        return_bundle(c, group, &group->bundles[i], text);
    group->reserving = 0;
}

/* The group's creation could not be stored. */
static void take_back(crti_control_t *c, crti_placement_group_entry_t *group,
                      const crti_outgoing_t *out)
{
    crti_placement_group_waiter_t *waiter;

    crti_control_revoke(c, group->id, out->text ? out->text : "");
    crti_control_refuse(c, out->link, out->request, CRT_ERR_IO);
    while ((waiter = crti_placement_group_next_waiter(group))) {
        crti_control_refuse(c, waiter->link, waiter->request, CRT_ERR_IO);
        free(waiter);
    }
    return_all(c, group, "the placement group could not be stored");
    crti_control_delete_revoked_rows(c, group->id);
    crti_placement_group_table_forget(&c->placement_groups, group);
}

/* The rows that an answer depends on are durable, or not. */
static void after_stored(crti_control_t *c, const crti_outgoing_t *out)
{
    crti_placement_group_entry_t *group =
        crti_placement_group_table_get(&c->placement_groups, out->id);

    if (group == NULL) {
        crt_raise(CRT_ERR_IO, "the placement group could not be stored");
        crti_control_refuse(c, out->link, out->request, CRT_ERR_IO);
        return;
    }
    if (out->status != CRT_OK && group->unsaved) {
        take_back(c, group, out);
        return;
    }
    group->unsaved = false;
    send_state(c, group, out->link, out->request);
}

/* All who wait hear of it when it is durable. */
static void tell_waiters(crti_control_t *c, crti_placement_group_entry_t *group)
{
    crti_placement_group_waiter_t *waiter;
    crti_id_t id = group->id;

    while ((group = crti_placement_group_table_get(&c->placement_groups, id)) &&
           (waiter = crti_placement_group_next_waiter(group))) {
        crti_control_after_for(c, after_stored, id, waiter->link, waiter->request);
        free(waiter);
    }
}

/* Its state, or what it waits for, is another one. */
static void changed(crti_control_t *c, crti_placement_group_entry_t *group)
{
    if (group->state != CRTI_PLACEMENT_GROUP_REMOVED) {
        group->is_stored = true;
        crti_control_put_placement_group(c, group);
    }
    tell_waiters(c, group);
}

/* ---------------------------------------------------------------- ending */

static bool is_of_group(const crti_actor_entry_t *actor, const void *group)
{
    return crti_id_equal(actor->how->group, *(const crti_id_t *)group);
}

static void remove_group(crti_control_t *c, crti_placement_group_entry_t *group,
                         crt_status_t status, const char *text)
{
    if (group->state == CRTI_PLACEMENT_GROUP_REMOVED)
        return;
    return_all(c, group, REMOVED_TEXT);
    crti_placement_group_removed(&c->placement_groups, group, status, text);
    if (group->is_stored)
        crti_control_delete(c, CRTI_STORE_PLACEMENT_GROUPS, group->id);
    crti_control_actors_end_where(c, is_of_group, &group->id, CRT_ERR_UNSCHEDULABLE,
                                  REMOVED_TEXT);
    tell_waiters(c, group);
    while ((group = crti_placement_group_table_expired(&c->placement_groups)))
        crti_placement_group_table_forget(&c->placement_groups, group);
}

void crti_control_placement_group_fail(crti_control_t *c, crti_id_t id,
                                       crt_status_t status, const char *text)
{
    crti_placement_group_entry_t *group =
        crti_placement_group_table_get(&c->placement_groups, id);

    if (group)
        remove_group(c, group, status, text);
}

/* A group that ends with its job, and that job has ended: any, or that one. With `unknown` also one
 * whose job nobody knows. NULL: none. */
static crti_placement_group_entry_t *find_orphan(const crti_control_t *c,
                                                 const crti_id_t *of, bool unknown)
{
    const crti_list_t *lists[] = {&c->placement_groups.waiting,
                                  &c->placement_groups.created};

    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH (item, lists[i]) {
            crti_placement_group_entry_t *group = CRTI_PLACEMENT_GROUP_OF(item);
            const crti_job_entry_t *job = crti_job_table_get(&c->jobs, group->job);

            if (!group->detached && (of ? crti_id_equal(group->job, *of)
                                        : (job ? crti_job_entry_is_ended(job) : unknown)))
                return group;
        }
    return NULL;
}

void crti_control_placement_groups_of_job(crti_control_t *c, crti_id_t job)
{
    crti_placement_group_entry_t *group;

    while ((group = find_orphan(c, &job, false)))
        remove_group(c, group, CRT_OK, "its job ended");
}

void crti_control_placement_group_orphans(crti_control_t *c, bool unknown)
{
    crti_placement_group_entry_t *group;

    while ((group = find_orphan(c, NULL, unknown)))
        remove_group(c, group, CRT_OK, "its job ended");
}

/* ---------------------------------------------------------------- placing */

static int index_of(const crti_placement_node_t *nodes, size_t count, crti_id_t id)
{
    for (size_t i = 0; i < count; i++)
        if (crti_id_equal(nodes[i].node, id))
            return (int)i;
    return -1;
}

/* What bundle_placement.h needs of the group; NULL: out of memory. */
static crti_bundle_choice_t *make_choices(const crti_placement_group_entry_t *group,
                                          const crti_placement_node_t *nodes,
                                          size_t count)
{
    crti_bundle_choice_t *choices = calloc(group->bundle_count, sizeof(*choices));

    for (size_t i = 0; choices && i < group->bundle_count; i++) {
        const crti_bundle_entry_t *bundle = &group->bundles[i];

        choices[i] = (crti_bundle_choice_t){
            .need = &bundle->resources, .how = &bundle->how, .node = -1};
        if (bundle->state == CRTI_BUNDLE_UNPLACED)
            continue;
        choices[i].is_fixed = true;
        choices[i].node = index_of(nodes, count, bundle->node);
    }
    return choices;
}

/* No nodes that are known, or expected back, could ever have it. */
static bool is_infeasible(const crti_control_t *c,
                          const crti_placement_group_entry_t *group,
                          const crti_placement_node_t *nodes, size_t count)
{
    CRTI_AUTO(free) crti_bundle_choice_t *choices = NULL;

    CRTI_LIST_FOREACH (item, &c->nodes.living)
        if (CRTI_NODE_OF(item)->state != CRTI_NODE_ALIVE)
            return false;
    choices = make_choices(group, nodes, count);
    return choices &&
           crti_bundle_placement(nodes, count, choices, group->bundle_count,
                                 group->strategy, true) == CRTI_BUNDLES_IMPOSSIBLE;
}

static bool could_grow(const crti_control_t *c, const crti_placement_group_entry_t *group)
{
    CRTI_AUTO(crti_demand_fini) crti_demand_t demand;

    crti_demand_init(&demand);
    crti_control_demand_group(&demand, group);
    return crti_control_could_grow(c, &demand);
}

static bool fails_if_infeasible(const crti_control_t *c,
                                const crti_placement_group_entry_t *group)
{
    return group->if_infeasible == CRTI_INFEASIBLE_FAILS ||
           (group->if_infeasible != CRTI_INFEASIBLE_WAITS &&
            c->config.fail_if_infeasible);
}

static void find_no_room(crti_control_t *c, crti_placement_group_entry_t *group,
                         const crti_placement_node_t *nodes, size_t count,
                         const crti_bundle_choice_t *choices)
{
    char text[300], whole[360];

    crti_bundle_placement_reason(&c->nodes.offers, choices, group->bundle_count,
                                 group->strategy, &c->resource_names, text, sizeof(text));
    if (is_infeasible(c, group, nodes, count) && !could_grow(c, group)) {
        snprintf(whole, sizeof(whole), "it can never be placed: %s", text);
        if (fails_if_infeasible(c, group)) {
            remove_group(c, group, CRT_ERR_UNSCHEDULABLE, whole);
            return;
        }
    } else {
        snprintf(whole, sizeof(whole), "no room now: %s", text);
    }
    if (group->waits_ns == 0)
        group->waits_ns = c->now_ns;
    crti_deadlocks_expect(&c->deadlocks, c->now_ns);
    if (crti_placement_group_waits(group, whole))
        changed(c, group);
}

/* False: out of memory. */
static bool ask_node(crti_control_t *c, crti_placement_group_entry_t *group,
                     crti_bundle_entry_t *bundle, crti_node_entry_t *node)
{
    crti_request_t *request =
        crti_control_new_request(c, node, CRTI_MSG_BUNDLE_RESERVE, group->id);
    crti_msg_bundle_reserve_t m = {.group = group->id,
                                   .bundle = (uint64_t)(bundle - group->bundles),
                                   .job = group->job,
                                   .resources = bundle->resources};

    if (request == NULL)
        return false;
    crti_placement_group_reserving(group, bundle, node->id);
    request->incarnation = m.incarnation = bundle->incarnation;
    bundle->request = request->number;
    crti_resources_take(&node->available, &bundle->resources);
    crti_control_room_changed(c, node);
    crti_control_send(c, node->link, CRTI_MSG_BUNDLE_RESERVE, request->number, &m);
    return true;
}

static void place(crti_control_t *c, crti_placement_group_entry_t *group)
{
    size_t count = crti_control_placement_nodes(c, &c->placement_nodes);
    const crti_placement_node_t *nodes =
        (const crti_placement_node_t *)(const void *)c->placement_nodes.data;
    CRTI_AUTO(free) crti_bundle_choice_t *choices = make_choices(group, nodes, count);
    bool is_whole = true;

    if (choices == NULL)
        return; /* tried again with the next heartbeat */
    if (crti_bundle_placement(nodes, count, choices, group->bundle_count, group->strategy,
                              false) != CRTI_BUNDLES_FOUND) {
        find_no_room(c, group, nodes, count, choices);
        return;
    }
    for (size_t i = 0; i < group->bundle_count; i++)
        if (group->bundles[i].state == CRTI_BUNDLE_UNPLACED)
            is_whole &=
                ask_node(c, group, &group->bundles[i],
                         crti_node_table_get(&c->nodes, nodes[choices[i].node].node));
    group->is_refused |= !is_whole;
}

void crti_control_place_groups(crti_control_t *c)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->placement_groups.waiting) {
        crti_placement_group_entry_t *group = CRTI_PLACEMENT_GROUP_OF(item);

        if (!group->reserving && group->retry_ns <= c->now_ns)
            place(c, group);
    }
}

/* One of the attempt was refused: the others are given back. */
static void give_up(crti_control_t *c, crti_placement_group_entry_t *group,
                    const char *text)
{
    for (size_t i = 0; i < group->bundle_count; i++)
        if (group->bundles[i].is_new)
            return_bundle(c, group, &group->bundles[i],
                          "another bundle of its group found no room");
    crti_placement_group_refused(group, c->now_ns);
    if (crti_placement_group_waits(group, text))
        changed(c, group);
}

static crti_bundle_entry_t *find_reserving(crti_placement_group_entry_t *group,
                                           uint64_t request)
{
    for (size_t i = 0; i < group->bundle_count; i++)
        if (group->bundles[i].state == CRTI_BUNDLE_RESERVING &&
            group->bundles[i].request == request)
            return &group->bundles[i];
    return NULL;
}

void crti_control_bundle_answered(crti_control_t *c, const crti_request_t *request,
                                  bool is_reserved, const char *text)
{
    crti_placement_group_entry_t *group =
        crti_placement_group_table_get(&c->placement_groups, request->subject);
    crti_bundle_entry_t *bundle = group ? find_reserving(group, request->number) : NULL;
    char reason[600];

    if (bundle == NULL || !crti_placement_group_answered(group, bundle, is_reserved))
        return;
    if (group->is_refused) {
        if (is_reserved) /* an earlier answer, or no answer at all */
            snprintf(reason, sizeof(reason), "a node had no room, or was lost");
        else
            snprintf(reason, sizeof(reason), "a node had no room: %s", text);
        give_up(c, group, reason);
        return;
    }
    crti_placement_group_created(&c->placement_groups, group);
    changed(c, group);
    crti_control_place_all(c);
}

/* ---------------------------------------------------------------- requests */

static crt_status_t check_creation(const crti_control_t *c,
                                   const crti_msg_placement_group_create_t *m)
{
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, m->job);
    char hex[CRTI_ID_HEX];

    if (crti_id_is_zero(m->group))
        return crt_raise(CRT_ERR_PROTOCOL, "the placement group has no id");
    if (crti_control_is_revoked(c, m->group))
        return crt_raise(CRT_ERR_IO,
                         "the placement group's creation failed before, and the control "
                         "store can't forget it yet");
    if (m->name_space.size >= CRTI_NAMESPACE_SIZE ||
        (m->name_space.size && memchr(m->name_space.data, '/', m->name_space.size)))
        return crt_raise(CRT_ERR_INVALID,
                         "a namespace has at most %d bytes, and no '/' among them",
                         CRTI_NAMESPACE_SIZE - 1);
    if (m->detached && m->name.size == 0)
        return crt_raise(CRT_ERR_INVALID, "a detached placement group needs a name");
    if (job == NULL || (crti_job_entry_is_ended(job) && !job->actors))
        return crt_raise(CRT_ERR_CANCELLED, "job %s has ended", crti_id_hex(m->job, hex));
    if (crti_job_entry_is_ended(job) && !m->detached)
        return crt_raise(CRT_ERR_INVALID,
                         "job %s has ended: what its detached actors make is detached",
                         crti_id_hex(m->job, hex));
    return CRT_OK;
}

/* Answers as soon as the group has another version than the asker knows. */
static void answer_later(crti_control_t *c, crti_placement_group_entry_t *group,
                         uint64_t link, uint64_t request, uint64_t version)
{
    crt_status_t status;

    if (group->version != version) {
        crti_control_after_for(c, after_stored, group->id, link, request);
        return;
    }
    status = crti_placement_group_wait(&c->placement_groups, group, link, request,
                                       version, c->now_ns);
    if (status != CRT_OK)
        crti_control_refuse(c, link, request, status);
}

void crti_control_placement_group_create(crti_control_t *c, uint64_t link,
                                         uint64_t request,
                                         const crti_msg_placement_group_create_t *m)
{
    crti_placement_group_entry_t *group =
        crti_placement_group_table_get(&c->placement_groups, m->group);
    crt_status_t status;

    if (group) { /* asked again, after a head or a link died */
        answer_later(c, group, link, request, 0);
        return;
    }
    status = check_creation(c, m);
    if (status == CRT_OK)
        status = crti_placement_group_table_create(&c->placement_groups, m, &group);
    if (status != CRT_OK) {
        crti_control_refuse(c, link, request, status);
        return;
    }
    answer_later(c, group, link, request, 0);
    if (c->serving && !c->placing)
        place(c, group);
    else
        crti_control_place_all(c);
}

void crti_control_placement_group_get(crti_control_t *c, uint64_t link, uint64_t request,
                                      const crti_msg_placement_group_get_t *m)
{
    crti_placement_group_entry_t *group =
        crti_id_is_zero(m->group)
            ? crti_placement_group_table_find(&c->placement_groups, m->name_space,
                                              m->name)
            : crti_placement_group_table_get(&c->placement_groups, m->group);
    char hex[CRTI_ID_HEX];

    if (group) {
        answer_later(c, group, link, request, m->version);
        return;
    }
    if (crti_id_is_zero(m->group))
        crt_raise(CRT_ERR_NOT_FOUND, "there is no placement group \"%.*s\"",
                  (int)m->name.size, m->name.size ? (const char *)m->name.data : "");
    else
        crt_raise(CRT_ERR_NOT_FOUND, "there is no placement group %s",
                  crti_id_hex(m->group, hex));
    crti_control_refuse(c, link, request, CRT_ERR_NOT_FOUND);
}

void crti_control_placement_group_remove(crti_control_t *c, uint64_t link,
                                         uint64_t request, crti_id_t id)
{
    crti_placement_group_entry_t *group =
        crti_placement_group_table_get(&c->placement_groups, id);

    if (group && group->state == CRTI_PLACEMENT_GROUP_REMOVED && group->is_stored)
        crti_control_delete(c, CRTI_STORE_PLACEMENT_GROUPS, id); /* it may have failed */
    else if (group)
        remove_group(c, group, CRT_OK, "it was removed");
    if (crti_control_is_revoked(c, id))
        crti_control_delete_revoked_rows(c, id);
    if (request)
        crti_control_answer(c, link, CRTI_MSG_DONE, request, NULL, true);
    crti_control_place_all(c);
}

void crti_control_placement_groups_overdue(crti_control_t *c)
{
    crti_placement_group_waiter_t *waiter;

    while ((waiter = crti_placement_group_overdue(&c->placement_groups, c->now_ns))) {
        if (waiter->group->version)
            send_state(c, waiter->group, waiter->link, waiter->request);
        else /* nobody may hear of it before it is stored */
            crti_control_after_for(c, after_stored, waiter->group->id, waiter->link,
                                   waiter->request);
        free(waiter);
    }
}

/* ---------------------------------------------------------------- nodes */

static void lose_bundle(crti_control_t *c, crti_placement_group_entry_t *group,
                        crti_bundle_entry_t *bundle, const char *text)
{
    bool was_created = group->state == CRTI_PLACEMENT_GROUP_CREATED;

    if (bundle->state == CRTI_BUNDLE_RESERVING)
        return; /* the end of the link fails its request */
    /* All or none: an attempt that goes on without it is refused, the next one is for it, too. */
    group->is_refused |= group->reserving > 0;
    crti_placement_group_unplaced(bundle);
    if (!was_created)
        return;
    crti_placement_group_reschedules(&c->placement_groups, group, text);
    changed(c, group);
}

/* Bundles that are said to be on the node, but those that it has just reported. */
static void lose_bundles(crti_control_t *c, crti_id_t node, const crti_map_t *reported,
                         const char *text)
{
    crti_list_t *lists[] = {&c->placement_groups.waiting, &c->placement_groups.created};

    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH_SAFE (item, lists[i]) {
            crti_placement_group_entry_t *group = CRTI_PLACEMENT_GROUP_OF(item);

            for (size_t j = 0; j < group->bundle_count; j++) {
                crti_bundle_entry_t *bundle = &group->bundles[j];

                if (bundle->state != CRTI_BUNDLE_UNPLACED &&
                    crti_id_equal(bundle->node, node) &&
                    !(reported && crti_map_get(reported, &bundle)))
                    lose_bundle(c, group, bundle, text);
            }
        }
}

void crti_control_placement_groups_of_node(crti_control_t *c,
                                           const crti_node_entry_t *node,
                                           const char *text)
{
    lose_bundles(c, node->id, NULL, text);
}

static crti_bundle_entry_t *find_held(const crti_control_t *c, crti_id_t node,
                                      const crti_msg_bundle_held_t *m)
{
    crti_placement_group_entry_t *group =
        crti_placement_group_table_get(&c->placement_groups, m->group);
    crti_bundle_entry_t *bundle =
        group && m->bundle < group->bundle_count ? &group->bundles[m->bundle] : NULL;

    return bundle && bundle->state == CRTI_BUNDLE_RESERVED &&
                   crti_id_equal(bundle->node, node) &&
                   bundle->incarnation == m->incarnation
               ? bundle
               : NULL;
}

void crti_control_join_bundles(crti_control_t *c, const crti_node_entry_t *node,
                               crti_span_t reported)
{
    crti_span_t rest = reported, entry;
    bool is_whole = true;
    crti_message_t m;
    crti_map_t held;

    crti_map_init(&held, sizeof(crti_bundle_entry_t *));
    while (crti_list_unpack(&rest, &entry) == CRT_OK) {
        crti_bundle_entry_t *bundle;

        if (crti_message_decode(entry.data, entry.size, &m) != CRT_OK ||
            m.kind != CRTI_MSG_BUNDLE_HELD)
            continue;
        bundle = find_held(c, node->id, &m.bundle_held);
        if (bundle)
            is_whole &= crti_map_put(&held, &bundle, bundle) == CRT_OK;
        else
            send_return(c, node->id, m.bundle_held.group, m.bundle_held.bundle,
                        m.bundle_held.incarnation,
                        "the head does not expect it any more");
    }
    if (is_whole)
        lose_bundles(c, node->id, &held,
                     "its node gave it up while it had no link to the head");
    crti_map_fini(&held);
}
