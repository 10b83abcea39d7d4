/* SPDX-License-Identifier: Apache-2.0 */
/* Actors: made, placed, watched, killed, and started again. See control.h. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fence.h"
#include "runtime/base/log.h"
#include "runtime/control/control_actor.h"
#include "runtime/control/control_demand.h"
#include "runtime/control/control_grow.h"
#include "runtime/control/control_placement_group.h"
#include "runtime/control/control_request.h"
#include "runtime/control/control_revoke.h"
#include "runtime/control/control_save.h"
#include "runtime/control/control_state.h"
#include "runtime/control/control_views.h"
#include "runtime/control/control_watch.h"
#include "runtime/control/kv.h"
#include "runtime/control/outbox.h"

#define FENCE_TEXT                                                                       \
    "it is fenced: its process on a lost node may take calls until 5 s after the node "  \
    "was last heard of"

/* ---------------------------------------------------------------- counting */

/* How many living actors end with this process. */
static void count_owner(crti_control_t *c, const crti_actor_entry_t *actor, int change)
{
    intptr_t count = (intptr_t)crti_map_get(&c->owners, &actor->made->owner) + change;

    if (actor->made->detached)
        return;
    if (count > 0)
        crti_map_put(&c->owners, &actor->made->owner, (void *)count);
    else
        crti_map_remove(&c->owners, &actor->made->owner);
}

/* Detached actors keep the program of their job. */
static void count_job(crti_control_t *c, const crti_actor_entry_t *actor, int change)
{
    crti_job_entry_t *job =
        actor->made->detached ? crti_job_table_get(&c->jobs, actor->made->job) : NULL;

    if (job == NULL)
        return;
    job->actors += (size_t)change;
    crti_job_entry_release(job);
    if (change < 0)
        crti_control_clear_groups(c, job);
}

/* It is on its node, or not any more. */
static void count_on_node(crti_control_t *c, crti_actor_entry_t *actor, int change)
{
    crti_node_entry_t *node = crti_node_table_get(&c->nodes, actor->node);

    crti_list_remove(&actor->in_node);
    if (node == NULL)
        return;
    if (change > 0)
        crti_list_append(&node->actors, &actor->in_node);
    if (actor->made->resources.count)
        return;
    node->idle_actors += (unsigned)change;
    crti_node_table_offer(&c->nodes, node);
}

static crti_placement_group_entry_t *group_of(const crti_control_t *c,
                                              const crti_actor_entry_t *actor)
{
    return crti_id_is_zero(actor->how->group)
               ? NULL
               : crti_placement_group_table_get(&c->placement_groups, actor->how->group);
}

/* What it has of its node or bundle counts, or not any more. */
static void count_placed(crti_control_t *c, crti_actor_entry_t *actor, int change)
{
    crti_placement_group_entry_t *group = group_of(c, actor);

    count_on_node(c, actor, change);
    if (group)
        crti_placement_group_count(group, actor->bundle, &actor->made->resources,
                                   change > 0);
}

void crti_control_actor_found_node(crti_control_t *c, crti_actor_entry_t *actor)
{
    if (crti_list_is_empty(&actor->in_node))
        count_on_node(c, actor, 1);
}

void crti_control_actor_loaded(crti_control_t *c, crti_actor_entry_t *actor)
{
    if (actor->state == CRTI_ACTOR_DEAD)
        return;
    count_owner(c, actor, 1);
    count_job(c, actor, 1);
    actor->bundle = actor->how->bundle;
    if (crti_actor_entry_is_placed(actor))
        count_placed(c, actor, 1);
}

/* ---------------------------------------------------------------- changes */

static bool is_placed(unsigned state)
{
    return state == CRTI_ACTOR_STARTING || state == CRTI_ACTOR_ALIVE;
}

void crti_control_on_actor(void *user, crti_actor_entry_t *actor, unsigned before,
                           bool stored)
{
    crti_control_t *c = user;
    crti_msg_actor_state_t notice = crti_actor_entry_notice(actor);

    if (stored && before == CRTI_ACTOR_STARTING) {
        crti_control_cancel_request(c, actor->start_request);
        actor->start_request = 0;
    }
    if (stored && is_placed(before) != crti_actor_entry_is_placed(actor))
        count_placed(c, actor, is_placed(before) ? -1 : 1);
    if (stored && actor->state == CRTI_ACTOR_DEAD) {
        count_owner(c, actor, -1);
        count_job(c, actor, -1);
    }
    if (stored && !actor->unsaved)
        crti_control_put_actor_state(c, actor);
    for (size_t i = 0; i < actor->watcher_count; i++)
        if (c->tells_facts)
            crti_control_notify(c, actor->watchers[i], CRTI_MSG_ACTOR_STATE, &notice);
        else
            crti_control_answer(c, actor->watchers[i], CRTI_MSG_ACTOR_STATE, 0, &notice,
                                false);
}

void crti_control_actor_process_died(crti_control_t *c, crti_actor_entry_t *actor,
                                     crt_status_t status, const char *text, bool created)
{
    c->tells_facts = true;
    crti_actor_entry_died(&c->actors, actor, status, text, created, c->now_ns,
                          crti_control_wall(c));
    c->tells_facts = false;
}

/* ---------------------------------------------------------------- fences */

void crti_control_fence(crti_control_t *c, crti_actor_entry_t *actor)
{
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, actor->node);
    uint64_t heard = node ? node->heard_ns : c->now_ns;

    if (crti_actor_entry_is_placed(actor))
        crti_actor_entry_fence(&c->actors, actor, heard + CRTI_FENCE_OVER_NS);
}

/* The node says that this incarnation's process is gone. */
static void unfence(crti_control_t *c, crti_id_t id, uint64_t incarnation)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, id);

    if (actor)
        crti_actor_entry_unfence(&c->actors, actor, incarnation);
}

void crti_control_actor_stopped(crti_control_t *c, const crti_request_t *request)
{
    unfence(c, request->subject, request->incarnation);
    crti_control_place_all(c);
}

/* ---------------------------------------------------------------- placing */

size_t crti_control_placement_nodes(const crti_control_t *c, crti_buffer_t *nodes)
{
    const crti_placement_slot_t *slot = NULL;

    nodes->size = 0;
    while ((slot = crti_placement_index_next(&c->nodes.offers, slot)) != NULL)
        if (crti_buffer_append(nodes, &slot->node, sizeof(slot->node)) != CRT_OK)
            break; /* without memory those will do */
    return nodes->size / sizeof(crti_placement_node_t);
}

static void send_start(crti_control_t *c, crti_actor_entry_t *actor,
                       const crti_node_entry_t *node)
{
    crti_request_t *request =
        crti_control_new_request(c, node, CRTI_MSG_ACTOR_START, actor->id);
    crti_msg_actor_start_t body = {
        .actor = actor->id,
        .actor_incarnation = actor->incarnation,
        .job = actor->made->job,
        .class_name = actor->made->class_name,
        .name = actor->made->name,
        .resources = actor->made->resources,
        .fenced = actor->made->fenced,
        .creation = actor->made->creation,
        .saved = crti_span(actor->saved.data, actor->saved.size),
        .environment = actor->made->environment,
        .group = actor->how->group,
        .bundle = actor->bundle,
    };

    if (request == NULL)
        return;
    crti_control_cancel_request(c, actor->start_request);
    request->incarnation = actor->incarnation;
    actor->start_request = request->number;
    crti_control_send(c, node->link, CRTI_MSG_ACTOR_START, request->number, &body);
}

/* The row that says where the actor will run is durable: the node may begin. */
static void after_placed(crti_control_t *c, const crti_outgoing_t *out)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, out->id);
    const crti_node_entry_t *node;

    if (actor == NULL || actor->state != CRTI_ACTOR_STARTING ||
        actor->incarnation != out->number || actor->start_written)
        return;
    if (out->status != CRT_OK || actor->is_moved) {
        crti_actor_entry_refused(
            &c->actors, actor, out->text ? out->text : "its node is drained", c->now_ns);
        return;
    }
    actor->start_written = true;
    node = crti_node_table_get(&c->nodes, actor->node);
    if (node && node->link) /* else: sent when the node is back */
        send_start(c, actor, node);
}

void crti_control_start_again(crti_control_t *c, const crti_node_entry_t *node)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->actors) {
        crti_actor_entry_t *actor = CRTI_ACTOR_OF_NODE(item);

        if (actor->state != CRTI_ACTOR_STARTING || !actor->start_written)
            continue;
        if (actor->is_moved) /* it need not begin here */
            crti_actor_entry_refused(&c->actors, actor, "its node is drained", c->now_ns);
        else
            send_start(c, actor, node);
    }
}

static bool fails_if_infeasible(const crti_control_t *c, const crti_actor_entry_t *actor)
{
    bool is_for_one =
        actor->how->strategy == CRTI_STRATEGY_AFFINITY && !actor->how->is_soft;

    return is_for_one || actor->made->if_infeasible == CRTI_INFEASIBLE_FAILS ||
           (actor->made->if_infeasible != CRTI_INFEASIBLE_WAITS &&
            c->config.fail_if_infeasible);
}

/* No node has what it needs, however idle, nor one that is expected back. */
static bool is_infeasible(const crti_control_t *c, const crti_actor_entry_t *actor)
{
    crti_scheduling_t how = *actor->how;

    if (how.is_soft)
        how.strategy = CRTI_STRATEGY_DEFAULT;
    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        const crti_node_entry_t *node = CRTI_NODE_OF(item);

        if (node->is_guess ||
            crti_scheduling_feasible(&node->resources, node->id, node->labels,
                                     &actor->made->resources, &how))
            return false;
    }
    return true;
}

static bool could_grow(const crti_control_t *c, const crti_actor_entry_t *actor)
{
    CRTI_AUTO(crti_demand_fini) crti_demand_t demand;

    crti_demand_init(&demand);
    crti_control_demand_actor(&demand, actor);
    return crti_control_could_grow(c, &demand);
}

/* It waits for room, or fails when there will be none. */
static void find_no_room(crti_control_t *c, crti_actor_entry_t *actor)
{
    char text[256];

    crti_placement_reason(&c->nodes.offers, &actor->made->resources, actor->how,
                          &c->resource_names, text, sizeof(text));
    if (fails_if_infeasible(c, actor) && is_infeasible(c, actor) && !could_grow(c, actor))
        crti_actor_entry_end(&c->actors, actor, CRT_ERR_UNSCHEDULABLE, text, c->now_ns,
                             crti_control_wall(c));
    else
        crti_actor_entry_waits(&c->actors, actor, text);
    if (actor->waits_ns == 0)
        actor->waits_ns = c->now_ns;
    crti_deadlocks_expect(&c->deadlocks, c->now_ns);
}

/* True when it has a node in its placement group. */
static bool place_in_group(crti_control_t *c, crti_actor_entry_t *actor)
{
    const crti_placement_group_entry_t *group = group_of(c, actor);
    crt_status_t status =
        group ? crti_placement_group_could_serve(group, &actor->made->resources,
                                                 actor->how->bundle)
              : crt_raise(CRT_ERR_UNSCHEDULABLE, "its placement group was removed");

    if (status != CRT_OK) {
        crti_actor_entry_end(&c->actors, actor, status, crt_error_detail(), c->now_ns,
                             crti_control_wall(c));
        return false;
    }
    /* A node that refused it has tasks in that bundle, of which the head does not know. */
    actor->bundle = actor->refusals && actor->how->bundle < 0 && actor->bundle >= 0
                        ? crti_placement_group_pick_next(group, &actor->made->resources,
                                                         actor->bundle)
                        : crti_placement_group_pick(group, &actor->made->resources,
                                                    actor->how->bundle);
    if (actor->bundle < 0) {
        crti_actor_entry_waits(&c->actors, actor,
                               group->state == CRTI_PLACEMENT_GROUP_CREATED
                                   ? "its bundles of the placement group are in use"
                                   : "its placement group waits for room");
        return false;
    }
    crti_actor_entry_placed(&c->actors, actor, group->bundles[actor->bundle].node);
    crti_control_after(c, after_placed, actor->id, actor->incarnation);
    return true;
}

/* True when it found a node. */
static bool place(crti_control_t *c, crti_actor_entry_t *actor)
{
    const crti_placement_node_t *best;
    crti_node_entry_t *node;

    if (!crti_id_is_zero(actor->how->group))
        return place_in_group(c, actor);
    best = crti_placement_pick(&c->nodes.offers, &actor->made->resources,
                               actor->made->owner_node, actor->how);
    if (best == NULL) {
        find_no_room(c, actor);
        return false;
    }
    node = crti_node_table_get(&c->nodes, best->node);
    crti_resources_take(&node->available, &actor->made->resources);
    crti_control_room_changed(c, node);
    crti_actor_entry_placed(&c->actors, actor, node->id);
    crti_control_after(c, after_placed, actor->id, actor->incarnation);
    return true;
}

static bool may_place(const crti_control_t *c, const crti_actor_entry_t *actor)
{
    return !actor->unsaved && actor->retry_ns <= c->now_ns;
}

static void place_pass(crti_control_t *c)
{
    const crti_actor_entry_t *refused =
        NULL; /* that shape found no room: others like it neither */

    CRTI_LIST_FOREACH_SAFE (item, &c->actors.waiting) {
        crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

        if (actor->retry_ns > c->now_ns && actor->fence_ns > c->now_ns)
            crti_actor_entry_waits(&c->actors, actor, FENCE_TEXT);
        if (!may_place(c, actor))
            continue;
        if (refused && actor->text[0] && !fails_if_infeasible(c, actor) &&
            crti_resources_fit(&actor->made->resources, &refused->made->resources) &&
            crti_scheduling_equal(actor->how, refused->how))
            continue;
        if (!place(c, actor))
            refused = actor;
    }
}

void crti_control_place_all(crti_control_t *c)
{
    c->place_again = true;
    if (c->placing || !c->serving)
        return;
    c->placing = true;
    while (c->place_again) {
        c->place_again = false;
        crti_control_place_groups(c);
        place_pass(c);
    }
    c->placing = false;
}

/* The others were tried when what there is changed last: among thousands that come at once each
 * would look at all. */
static void place_new(crti_control_t *c, crti_actor_entry_t *actor)
{
    if (c->placing || c->place_again || !c->serving) {
        crti_control_place_all(c);
        return;
    }
    c->placing = true;
    if (actor->state == CRTI_ACTOR_PENDING && may_place(c, actor))
        place(c, actor);
    c->placing = false;
    if (c->place_again)
        crti_control_place_all(c);
}

/* ---------------------------------------------------------------- requests */

/* Its creation could not be stored; one of its rows may have arrived. */
static void take_back(crti_control_t *c, crti_actor_entry_t *actor,
                      const crti_outgoing_t *out)
{
    crti_msg_error_t error = {.status = CRT_ERR_IO};

    crti_control_revoke(c, out->id, out->text ? out->text : "");
    error.text = crti_str(crt_error_detail());
    crti_control_send(c, out->link, CRTI_MSG_ERROR, out->request, &error);
    /* Processes to which its owner passed the handle wait for it. */
    crti_actor_entry_end(&c->actors, actor, CRT_ERR_IO, crt_error_detail(), c->now_ns,
                         crti_control_wall(c));
    crti_control_delete_revoked_rows(c, out->id);
    crti_control_watches_forget(c, actor);
    crti_actor_table_undo(&c->actors, actor);
}

static void after_created(crti_control_t *c, const crti_outgoing_t *out)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, out->id);

    if (out->status != CRT_OK && actor && actor->unsaved) {
        take_back(c, actor, out);
        return;
    }
    crti_control_send(c, out->link, CRTI_MSG_DONE, out->request, NULL);
    if (actor == NULL || !actor->unsaved)
        return;
    actor->unsaved = false;
    if (actor->state == CRTI_ACTOR_DEAD) /* its job ended meanwhile */
        crti_control_put_actor_state(c, actor);
    else
        place_new(c, actor);
}

/* A creation that was asked for twice: the rows of the first time are durable, or it is gone. */
static void after_known(crti_control_t *c, const crti_outgoing_t *out)
{
    if (crti_actor_table_get(&c->actors, out->id)) {
        crti_control_answer(c, out->link, CRTI_MSG_DONE, out->request, NULL, false);
        return;
    }
    crt_raise(CRT_ERR_IO, "the control store could not write the actor's creation");
    crti_control_refuse(c, out->link, out->request, CRT_ERR_IO);
}

static crt_status_t check_creation(const crti_control_t *c,
                                   const crti_msg_actor_create_t *m)
{
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, m->job);
    crti_scheduling_t how;
    char hex[CRTI_ID_HEX];

    if (m->creation.size > CRTI_CREATION_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "creation arguments of %zu bytes, at most %u fit",
                         m->creation.size, CRTI_CREATION_MAX);
    if (crti_id_is_zero(m->actor))
        return crt_raise(CRT_ERR_PROTOCOL, "the actor has no id");
    if (m->name_space.size >= CRTI_NAMESPACE_SIZE ||
        (m->name_space.size && memchr(m->name_space.data, '/', m->name_space.size)))
        return crt_raise(CRT_ERR_INVALID, CRTI_NAMESPACE_RULE);
    if (crti_scheduling_read(CRTI_SCHEDULING_SAID(m), m->selector.data, m->selector.size,
                             &how) != CRT_OK)
        return CRT_ERR_INVALID;
    if (crti_control_is_revoked(c, m->actor))
        return crt_raise(CRT_ERR_IO,
                         "the actor's creation failed before, and the control "
                         "store can't forget it yet");
    if (m->detached && m->name.size == 0)
        return crt_raise(CRT_ERR_INVALID, "a detached actor needs a name");
    if (job == NULL || (crti_job_entry_is_ended(job) && !job->actors))
        return crt_raise(CRT_ERR_CANCELLED, "job %s has ended", crti_id_hex(m->job, hex));
    if (crti_map_get(&c->death_map, &m->owner) && !m->detached)
        return crt_raise(CRT_ERR_OWNER_DIED, "the process that asked for the actor died");
    return CRT_OK;
}

void crti_control_actor_create(crti_control_t *c, uint64_t link, uint64_t request,
                               const crti_msg_actor_create_t *m)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, m->actor);
    crt_status_t status;

    if (actor) { /* asked again, after a head or a link died */
        crti_control_after_for(c, after_known, m->actor, link, request);
        return;
    }
    status = check_creation(c, m);
    if (status == CRT_OK)
        status = crti_actor_table_create(&c->actors, m, &actor);
    if (status != CRT_OK) {
        crti_control_refuse(c, link, request, status);
        return;
    }
    crti_actor_entry_wait_for_name(&c->actors, actor, c->now_ns);
    count_owner(c, actor, 1);
    count_job(c, actor, 1);
    crti_control_put(c, CRTI_STORE_ACTORS, actor->id, CRTI_MSG_ACTOR_CREATE, m);
    crti_control_put_actor_state(c, actor);
    crti_control_after_for(c, after_created, actor->id, link, request);
    crti_control_watches_created(c, actor);
}

/* ---------------------------------------------------------------- ending */

/* Tells the node to end that incarnation. */
static void stop_process(crti_control_t *c, crti_id_t node_id, crti_id_t id,
                         uint64_t incarnation, bool graceful, const char *text)
{
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, node_id);
    crti_msg_actor_stop_t body = {.actor = id,
                                  .actor_incarnation = incarnation,
                                  .text = crti_str(text),
                                  .graceful = graceful};
    crti_request_t *request;

    if (node == NULL || node->link == 0)
        return; /* told when it registers again */
    request = crti_control_new_request(c, node, CRTI_MSG_ACTOR_STOP, id);
    if (request == NULL)
        return;
    request->incarnation = incarnation;
    crti_control_send(c, node->link, CRTI_MSG_ACTOR_STOP, request->number, &body);
}

static void end_actor(crti_control_t *c, crti_actor_entry_t *actor, crt_status_t status,
                      bool graceful, const char *text)
{
    bool was_placed = crti_actor_entry_is_placed(actor);

    crti_control_fence(c, actor);
    crti_actor_entry_end(&c->actors, actor, status, text, c->now_ns,
                         crti_control_wall(c));
    if (actor
            ->unsaved) /* its creation is on its way: the end that is told outlives the head */
        crti_control_put_actor_state(c, actor);
    if (was_placed)
        stop_process(c, actor->node, actor->id, actor->incarnation, graceful, text);
}

void crti_control_actor_end(crti_control_t *c, crti_actor_entry_t *actor,
                            crt_status_t status, const char *text)
{
    end_actor(c, actor, status, false, text);
}

void crti_control_actors_end_where(
    crti_control_t *c, bool (*is_meant)(const crti_actor_entry_t *, const void *),
    const void *subject, crt_status_t status, const char *text)
{
    crti_list_t *lists[] = {&c->actors.waiting, &c->actors.placed};

    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH_SAFE (item, lists[i]) {
            crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

            if (is_meant(actor, subject))
                end_actor(c, actor, status, false, text);
        }
}

void crti_control_actor_move(crti_control_t *c, crti_actor_entry_t *actor,
                             const char *text)
{
    actor->is_killed = actor->is_moved = true;
    stop_process(c, actor->node, actor->id, actor->incarnation, true, text);
}

void crti_control_actor_kill(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_actor_kill_t *m)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, m->actor);
    char text[512];

    crti_text(m->text, text, sizeof(text));
    if (actor && actor->state == CRTI_ACTOR_DEAD) /* its row may still fail, or has */
        crti_control_put_actor_state(c, actor);
    else if (actor && m->no_restart)
        end_actor(c, actor, CRT_OK, m->graceful, *text ? text : "it was killed");
    else if (actor && crti_actor_entry_is_placed(actor) &&
             (m->actor_incarnation == 0 || m->actor_incarnation == actor->incarnation)) {
        actor->is_killed = true; /* a node that is not there hears it when it is back */
        stop_process(c, actor->node, actor->id, actor->incarnation, false, text);
    }
    if (crti_control_is_revoked(c, m->actor))
        crti_control_delete_revoked_rows(
            c, m->actor); /* the answer says whether that is so */
    if (request)
        crti_control_answer(c, link, CRTI_MSG_DONE, request, NULL, true);
    crti_control_place_all(c);
}

void crti_control_actor_died(crti_control_t *c, crti_control_link_t *link,
                             uint64_t request, const crti_msg_actor_died_t *m)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, m->actor);
    char text[2048];

    if (actor && actor->incarnation == m->actor_incarnation &&
        crti_id_equal(actor->node, link->node->id)) {
        actor->ran_no_call = m->ran_no_call;
        crti_control_actor_process_died(
            c, actor, m->status ? (crt_status_t)m->status : CRT_ERR_ACTOR_DIED,
            crti_text(m->text, text, sizeof(text)), m->created);
    }
    if (actor && crti_id_equal(actor->node, link->node->id))
        unfence(c, m->actor, m->actor_incarnation);
    if (request)
        crti_control_answer(c, link->number, CRTI_MSG_DONE, request, NULL, true);
    crti_control_place_all(c);
}

/* ---------------------------------------------------------------- what nodes say */

void crti_control_actor_started(crti_control_t *c, const crti_node_entry_t *node,
                                const crti_msg_actor_started_t *m)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, m->actor);

    if (actor == NULL || !crti_id_equal(actor->node, node->id) ||
        !crti_actor_entry_started(&c->actors, actor, m->actor_incarnation, m->process,
                                  m->incarnation, m->ipc, m->tcp, c->now_ns))
        stop_process(c, node->id, m->actor, m->actor_incarnation, false,
                     "the head does not expect it any more");
    else
        actor->pid = m->pid;
}

void crti_control_actor_answer(crti_control_t *c, const crti_request_t *request,
                               const crti_message_t *answer)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, request->subject);
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, request->node);
    char text[2048];

    if (answer->kind == CRTI_MSG_ACTOR_STARTED && node) {
        crti_control_actor_started(c, node, &answer->actor_started);
        return;
    }
    if (actor == NULL || actor->state != CRTI_ACTOR_STARTING ||
        actor->incarnation != request->incarnation || answer->kind != CRTI_MSG_ERROR)
        return;
    crti_text(answer->error.text, text, sizeof(text));
    switch (answer->error.status) {
    case CRT_ERR_UNSCHEDULABLE:
    case CRT_ERR_BACKPRESSURE:
        crti_actor_entry_refused(&c->actors, actor, text, c->now_ns);
        break;
    case CRT_ERR_WORKER_DIED:
    case CRT_ERR_CANCELLED: /* it was killed, or moved, before it had begun */
        crti_actor_entry_died(&c->actors, actor, CRT_ERR_ACTOR_DIED, text, true,
                              c->now_ns, crti_control_wall(c));
        break;
    default: /* the program is missing, or does not run there: trying again won't help */
        crti_actor_entry_died(&c->actors, actor, CRT_ERR_ACTOR_DIED, text, false,
                              c->now_ns, crti_control_wall(c));
    }
    crti_control_place_all(c);
}

bool crti_control_actor_running(crti_control_t *c, const crti_node_entry_t *node,
                                const crti_msg_actor_running_t *m)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, m->actor);

    if (!actor || !crti_id_equal(actor->node, node->id) ||
        (actor->is_killed && actor->incarnation == m->actor_incarnation))
        return false;
    if (crti_id_is_zero(m->process)) /* ACTOR_START is sent again */
        return actor->state == CRTI_ACTOR_STARTING &&
               actor->incarnation == m->actor_incarnation;
    if (!crti_actor_entry_started(&c->actors, actor, m->actor_incarnation, m->process,
                                  m->incarnation, m->ipc, m->tcp, c->now_ns))
        return false;
    actor->pid = m->pid;
    return true;
}
