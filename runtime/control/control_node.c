/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that join, report, fall silent and die; processes that die on them. See control.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/control/control_actor.h"
#include "runtime/control/control_drain.h"
#include "runtime/control/control_job.h"
#include "runtime/control/control_load.h"
#include "runtime/control/control_node.h"
#include "runtime/control/control_placement_group.h"
#include "runtime/control/control_state.h"
#include "runtime/control/control_views.h"
#include "runtime/control/outbox.h"

#define DEMAND_MAX ((size_t)256 << 10) /* bytes of waiting lease requests kept per node */

static void put_node(crti_control_t *c, const crti_node_entry_t *node)
{
    crti_msg_row_node_t row = crti_node_row(node);

    crti_control_put(c, CRTI_STORE_NODES, node->id, CRTI_MSG_ROW_NODE, &row);
}

/* A node that is back may have missed them: words on a link that breaks are lost. It may come back
 * as a new one, when it was taken for dead itself. */
static void send_all_deaths(crti_control_t *c, const crti_node_entry_t *to)
{
    CRTI_LIST_FOREACH (item, &c->nodes.dead) {
        const crti_node_entry_t *node = CRTI_NODE_OF(item);
        crti_msg_node_died_t notice = {.node = node->id, .text = crti_str(node->text)};

        crti_control_send(c, to->link, CRTI_MSG_NODE_DIED, 0, &notice);
    }
}

/* ---------------------------------------------------------------- joining */

static void append_id(crti_buffer_t *list, crti_id_t id)
{
    unsigned char bytes[16];

    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(id.high >> (56 - 8 * i));
        bytes[8 + i] = (unsigned char)(id.low >> (56 - 8 * i));
    }
    crti_buffer_append(list, bytes, sizeof(bytes));
}

/* The node reported that incarnation of it. */
static bool was_reported(const crti_map_t *incarnations, const crti_actor_entry_t *actor)
{
    return crti_map_get(incarnations, &actor->id) ==
           (const void *)(uintptr_t)actor->incarnation;
}

/* Joins what the tables say with what the node reports (docs/design/recovery.md). */
static void join_actors(crti_control_t *c, const crti_node_entry_t *node,
                        crti_span_t reported, crti_buffer_t *to_end)
{
    crti_map_t incarnations;
    crti_span_t rest = reported, entry;
    bool is_whole = true;
    crti_message_t m;

    crti_map_init(&incarnations, sizeof(crti_id_t));
    while (crti_list_unpack(&rest, &entry) == CRT_OK) {
        if (crti_message_decode(entry.data, entry.size, &m) != CRT_OK ||
            m.kind != CRTI_MSG_ACTOR_RUNNING)
            continue;
        if (!crti_control_actor_running(c, node, &m.actor_running))
            append_id(to_end, m.actor_running.actor);
        is_whole &=
            crti_map_put(&incarnations, &m.actor_running.actor,
                         (void *)(uintptr_t)m.actor_running.actor_incarnation) == CRT_OK;
    }
    CRTI_LIST_FOREACH_SAFE (item, &node->actors) {
        crti_actor_entry_t *actor = CRTI_ACTOR_OF_NODE(item);

        if (was_reported(&incarnations, actor))
            continue;
        if (actor->state == CRTI_ACTOR_ALIVE &&
            is_whole) /* STARTING: asked again below */
            crti_actor_entry_died(
                &c->actors, actor, CRT_ERR_ACTOR_DIED,
                "its process ended while its node had no link to the head", true,
                c->now_ns, crti_control_wall(c));
    }
    crti_map_fini(&incarnations);
}

static void join_jobs(crti_control_t *c, const crti_node_entry_t *node,
                      crti_span_t reported, crti_buffer_t *to_end)
{
    crti_span_t rest = reported, entry;
    crti_message_t m;

    while (crti_list_unpack(&rest, &entry) == CRT_OK) {
        bool goes_on;

        if (crti_message_decode(entry.data, entry.size, &m) != CRT_OK ||
            m.kind != CRTI_MSG_JOB_ADD)
            continue;
        /* JOB_END may have been sent while the node had no link. */
        goes_on = crti_id_is_zero(m.job_add.driver)
                      ? crti_control_job_goes_on(c, m.job_add.job)
                      : crti_control_job_running(c, &m.job_add);
        if (!goes_on)
            append_id(to_end, m.job_add.job);
    }
    crti_control_jobs_missing(c, node, reported);
}

/* More than all of it would draw to that node what belongs elsewhere. */
static crt_status_t check_available(const crti_resources_t *all,
                                    const crti_resources_t *available)
{
    char has[200], says[200];

    if (crti_resources_fit(all, available))
        return CRT_OK;
    return crt_raise(CRT_ERR_PROTOCOL, "the node says that %s is available, it has %s",
                     crti_resources_format(available, says, sizeof(says)),
                     crti_resources_format(all, has, sizeof(has)));
}

static crt_status_t check_register(const crti_msg_node_register_t *m)
{
    if (m->protocol != CRTI_PROTOCOL_VERSION)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "the node speaks protocol %llu, the head %d: install the same "
                         "version of crt on both",
                         (unsigned long long)m->protocol, CRTI_PROTOCOL_VERSION);
    if (crti_id_is_zero(m->node))
        return crt_raise(CRT_ERR_PROTOCOL, "the node has no id");
    return check_available(&m->resources, &m->available);
}

/* Old connections of the same node end; its new one counts. It may register twice on one. */
static void take_link(crti_control_t *c, crti_node_entry_t *node,
                      const crti_control_link_t *link)
{
    crti_control_link_t *old = node->link ? crti_control_link(c, node->link) : NULL;

    if (old == NULL || old == link)
        return;
    old->node = NULL;
    c->config.actions.drop(c->config.actions.user, old->number,
                           "a newer link replaced it");
    c->on_link_ended(c, old->number, "a newer link of the node replaced it", c->now_ns);
}

static void welcome(crti_control_t *c, crti_node_entry_t *node,
                    const crti_msg_node_register_t *m, uint64_t request)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t actors = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    crti_msg_node_registered_t answer = {
        .cluster = c->cluster,
        .head_incarnation = c->head_incarnation,
        .encrypt_streams = c->config.encrypt_streams,
        .headless_timeout_ms = c->config.headless_timeout_ms,
        .fail_if_infeasible = c->config.fail_if_infeasible,
        .may_grow = c->autoscaler != NULL,
        .http = crti_str(c->config.http ? c->config.http : ""),
        .http_pin = crti_str(c->config.http_pin ? c->config.http_pin : ""),
    };
    char limits[CRTI_LIMITS_PACKED];
    uint64_t link = node->link;

    crti_limits_pack(limits);
    answer.limits = crti_str(limits);
    put_node(c, node);
    node->link =
        0; /* what ends now is in the answer; orders before it would be ignored */
    join_jobs(c, node, m->jobs, &jobs);
    join_actors(c, node, m->actors, &actors);
    node->link = link;
    answer.actors_to_end = crti_span(actors.data, actors.size);
    answer.jobs_to_end = crti_span(jobs.data, jobs.size);
    /* At once: that the node is here is a fact, and what comes next on the link follows. */
    crti_control_send(c, node->link, CRTI_MSG_NODE_REGISTERED, request, &answer);
    crti_control_join_bundles(c, node, m->bundles);
    send_all_deaths(c, node);
    crti_control_joined(c);
    crti_control_views_join(c, node); /* before anything is placed on it */
    crti_control_start_again(c, node);
    crti_control_drain_told(c, node, m->drain_ms);
    crti_control_stop_again(c, node);
    crti_control_start_jobs(c);
    crti_control_place_all(c);
}

void crti_control_register(crti_control_t *c, crti_control_link_t *link,
                           const crti_msg_node_register_t *m, uint64_t request)
{
    crti_node_entry_t *node = crti_node_table_get(&c->nodes, m->node);
    crti_node_join_t join = crti_node_table_judge(&c->nodes, m->node, m->incarnation);
    crt_status_t status = check_register(m);
    char hex[CRTI_ID_HEX];

    if (status == CRT_OK && join == CRTI_NODE_JOIN_REFUSE)
        status = crt_raise(
            CRT_ERR_NODE_LOST, "node %s incarnation %llu was declared dead: %s",
            crti_id_hex(m->node, hex), (unsigned long long)m->incarnation, node->text);
    if (status == CRT_OK && join == CRTI_NODE_JOIN_CLASH)
        status = crt_raise(CRT_ERR_EXISTS,
                           "the first 48 bits of node %s are another node's, so that "
                           "their processes could "
                           "not be told apart: it has to draw another id",
                           crti_id_hex(m->node, hex));
    if (status != CRT_OK) {
        crti_control_refuse(c, link->number, request, status);
        return;
    }
    if (join == CRTI_NODE_JOIN_REPLACE)
        crti_control_node_died(c, node, "it started again with a new incarnation");
    if (join == CRTI_NODE_JOIN_BACK)
        take_link(c, node, link);
    status = crti_node_table_register(&c->nodes, m, link->number, c->now_ns,
                                      crti_control_wall(c), &node);
    if (status != CRT_OK) {
        crti_control_refuse(c, link->number, request, status);
        return;
    }
    link->node = node;
    crti_job_levels_forget(&c->job_levels, node->id, c->now_ns); /* it tells all anew */
    crti_resource_names_note(&c->resource_names, &node->resources);
    crti_log(CRTI_LOG_INFO, "control", "node %s (%s) %s", crti_id_hex(node->id, hex),
             node->hostname, join == CRTI_NODE_JOIN_BACK ? "is back" : "joined");
    welcome(c, node, m, request);
}

/* ---------------------------------------------------------------- life */

static bool grew(const crti_resources_t *before, const crti_resources_t *after)
{
    for (unsigned i = 0; i < after->count; i++)
        if (after->item[i].amount > crti_resources_get(before, after->item[i].name))
            return true;
    return false;
}

static bool same(const crti_resources_t *a, const crti_resources_t *b)
{
    return crti_resources_fit(a, b) && crti_resources_fit(b, a);
}

/* What a node may take for a promise that its fenced actors are placed nowhere else
 * (base/fence.h). */
static uint64_t promise(const crti_control_t *c, uint64_t sequence)
{
    const crti_control_actions_t *actions = &c->config.actions;

    return actions->is_leader == NULL || actions->is_leader(actions->user) ? sequence : 0;
}

/* False: numbers that no use has. */
static bool read_use(const crti_msg_job_use_t *m, crti_job_use_t *use)
{
    *use = (crti_job_use_t){.job = m->job,
                            .weight = m->weight,
                            .spent = m->spent,
                            .level = m->level,
                            .held = m->held,
                            .is_alone = m->is_alone,
                            .is_here = m->is_here};
    return isfinite(m->spent) && isfinite(m->level) && m->held >= 0 &&
           m->held <= CRTI_RESOURCE_MAX;
}

/* What jobs use there, and how far they are on all nodes. */
static void note_uses(crti_control_t *c, const crti_node_entry_t *node, crti_span_t uses,
                      crti_buffer_t *levels)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
    crti_span_t one;
    crti_message_t m;

    while (crti_list_unpack(&uses, &one) == CRT_OK) {
        crti_job_use_t use;
        crti_job_level_t level;

        if (crti_message_decode(one.data, one.size, &m) != CRT_OK ||
            m.kind != CRTI_MSG_JOB_USE || !read_use(&m.job_use, &use))
            continue;
        entry.size = 0;
        if (crti_job_levels_note(&c->job_levels, node->id, &use, c->now_ns, &level) &&
            crti_message_encode(CRTI_MSG_JOB_LEVEL, 0,
                                &(crti_msg_job_level_t){.job = level.job,
                                                        .level = level.level,
                                                        .spent = level.spent,
                                                        .elsewhere = level.elsewhere},
                                &entry) == CRT_OK)
            (void)crti_list_pack(levels, entry.data, entry.size); /* else the next time */
    }
}

/* When it began stays, as an event. */
static void note_spill_trouble(const crti_control_t *c, crti_node_entry_t *node,
                               crti_span_t text)
{
    if (text.size && !*node->spill_trouble)
        node->spill_trouble_ms = crti_control_wall(c);
    snprintf(node->spill_trouble, sizeof(node->spill_trouble), "%.*s", (int)text.size,
             text.size ? (const char *)text.data : "");
}

bool crti_control_heartbeat(crti_control_t *c, crti_control_link_t *link,
                            const crti_msg_heartbeat_t *m)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t levels = {0};
    crti_msg_heartbeat_ack_t ack = {.sequence = promise(c, m->sequence)};
    crti_node_entry_t *node = link->node;
    bool has_room = grew(&node->available, &m->available);
    char hex[CRTI_ID_HEX];

    if (check_available(&node->resources, &m->available) != CRT_OK) {
        crti_log(CRTI_LOG_WARN, "control", "node %s: %s", crti_id_hex(node->id, hex),
                 crt_error_detail());
        return false;
    }
    note_uses(c, node, m->uses, &levels);
    ack.levels = crti_span(levels.data, levels.size);
    ack.ahead = crti_job_levels_ahead(&c->job_levels, c->now_ns);
    ack.jobs = c->job_levels.present;
    crti_control_send(c, link->number, CRTI_MSG_HEARTBEAT_ACK, 0, &ack);
    if (!same(&node->available, &m->available)) {
        node->available = m->available;
        crti_control_room_changed(c, node);
    }
    node->store_used = m->store_used;
    node->workers = m->workers;
    node->memory_used = m->memory_used;
    node->memory_bytes = m->memory_bytes;
    node->memory_ended = m->memory_ended;
    node->spilled_objects = m->spilled_objects;
    node->spilled_bytes = m->spilled_bytes;
    node->lineage_bytes = m->lineage_bytes;
    node->lineage_limit = m->lineage_limit;
    node->lineage_forgotten = m->lineage_forgotten;
    note_spill_trouble(c, node, m->spill_trouble);
    node->is_busy = m->is_busy;
    node->demand.size = 0;
    if (m->demand.size <= DEMAND_MAX)
        crti_buffer_append(&node->demand, m->demand.data, m->demand.size);
    if (m->demand.size)
        crti_deadlocks_expect(&c->deadlocks, c->now_ns);
    if (has_room && crti_control_has_waiting(c)) {
        crti_control_place_all(c);
        crti_control_start_jobs(c);
    }
    return true;
}

void crti_control_node_lost(crti_control_t *c, crti_node_entry_t *node)
{
    char hex[CRTI_ID_HEX];

    crti_log(CRTI_LOG_WARN, "control", "the link to node %s (%s) broke",
             crti_id_hex(node->id, hex), node->hostname);
    crti_control_views_leave(c, node);
    crti_node_table_suspect(&c->nodes, node, c->now_ns, c->grace_until_ns);
}

void crti_control_node_died(crti_control_t *c, crti_node_entry_t *node, const char *text)
{
    crti_control_link_t *link = node->link ? crti_control_link(c, node->link) : NULL;
    char hex[CRTI_ID_HEX], whole[512];
    crti_msg_node_died_t notice = {.node = node->id};

    snprintf(whole, sizeof(whole), "node %s (%s) died: %s", crti_id_hex(node->id, hex),
             node->hostname ? node->hostname : "", text);
    crti_log(CRTI_LOG_WARN, "control", "%s", whole);
    crti_control_views_forget(c, node);
    crti_node_table_kill(&c->nodes, node, text, c->now_ns, crti_control_wall(c));
    crti_job_levels_forget(&c->job_levels, node->id, c->now_ns);
    if (link) {
        uint64_t number = link->number;

        link->node = NULL;
        c->config.actions.drop(c->config.actions.user, number, whole);
        c->on_link_ended(c, number, whole, c->now_ns);
    }
    put_node(c, node);
    notice.text = crti_str(whole);
    crti_control_broadcast(c, CRTI_MSG_NODE_DIED, &notice, 0);
    crti_control_jobs_of_node(c, node, whole);
    crti_control_actors_of_node(c, node, whole);
    crti_control_placement_groups_of_node(c, node, whole);
    crti_control_joined(c);
    crti_control_start_jobs(c);
    crti_control_place_all(c);
}

/* ---------------------------------------------------------------- deaths of processes */

static void forget_death(crti_control_t *c, crti_death_t *death)
{
    crti_list_remove(&death->in_deaths);
    crti_map_remove(&c->death_map, &death->process);
    free(death->text);
    free(death);
}

/* A PEER_DIED whose answer waits for rows that could not be stored at first. */
typedef struct unanswered_death {
    crti_list_t in_unanswered;
    uint64_t link, request;
} unanswered_death_t;

static void forget_unanswered(unanswered_death_t *death)
{
    crti_list_remove(&death->in_unanswered);
    free(death);
}

void crti_control_answer_deaths(crti_control_t *c)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->unanswered_deaths) {
        unanswered_death_t *death =
            CRTI_CONTAINER(item, unanswered_death_t, in_unanswered);

        crti_control_send(c, death->link, CRTI_MSG_DONE, death->request, NULL);
        forget_unanswered(death);
    }
}

void crti_control_forget_deaths(crti_control_t *c)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->unanswered_deaths)
        forget_unanswered(CRTI_CONTAINER(item, unanswered_death_t, in_unanswered));
    while (!crti_list_is_empty(&c->deaths))
        forget_death(c, CRTI_CONTAINER(c->deaths.next, crti_death_t, in_deaths));
}

/* False: it is known. */
static bool remember_death(crti_control_t *c, const crti_msg_peer_died_t *m)
{
    crti_death_t *death = crti_map_get(&c->death_map, &m->process);

    if (death)
        return false;
    while (c->death_map.count >= CRTI_DEATHS_MAX)
        forget_death(c, CRTI_CONTAINER(c->deaths.next, crti_death_t, in_deaths));
    death = calloc(1, sizeof(*death));
    if (death == NULL || crti_map_put(&c->death_map, &m->process, death) != CRT_OK) {
        free(death);
        return true;
    }
    death->process = m->process;
    death->incarnation = m->incarnation;
    death->node = m->node;
    death->status = (crt_status_t)m->status;
    death->pid = m->pid;
    death->ran_no_call = m->ran_no_call;
    death->caller = m->caller;
    death->unbegun = m->unbegun;
    death->text = crti_str_dup(m->text);
    crti_list_append(&c->deaths, &death->in_deaths);
    return true;
}

/* The ends of the actors are durable. Where they are not, the node hears of it when they are: rows
 * are written again while this head lives, and the next one is told again. */
static void after_owner(crti_control_t *c, const crti_outgoing_t *out)
{
    unanswered_death_t *death;

    if (out->status == CRT_OK) {
        crti_control_send(c, out->link, CRTI_MSG_DONE, out->request, NULL);
        return;
    }
    death = calloc(1, sizeof(*death));
    if (death == NULL)
        return; /* it is told again by another link */
    death->link = out->link;
    death->request = out->request;
    crti_list_append(&c->unanswered_deaths, &death->in_unanswered);
}

void crti_control_peer_died(crti_control_t *c, crti_control_link_t *link,
                            uint64_t request, const crti_msg_peer_died_t *m)
{
    char text[512];

    if (remember_death(c, m))
        crti_control_broadcast(c, CRTI_MSG_PEER_DIED, m, link->number);
    crti_control_actors_of_owner(c, m->process, (crt_status_t)m->status,
                                 crti_text(m->text, text, sizeof(text)));
    if (request)
        crti_control_after_for(c, after_owner, m->process, link->number, request);
}

/* A word of another process can be faster than the view of the node that it is about. */
void crti_control_node_find(crti_control_t *c, uint64_t link, uint64_t request,
                            crti_id_t id)
{
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, id);
    crti_msg_node_view_t view;
    char hex[CRTI_ID_HEX];

    if (node == NULL || node->state == CRTI_NODE_DEAD) {
        crt_raise(CRT_ERR_NODE_LOST, "node %s is not part of the cluster%s%s",
                  crti_id_hex(id, hex), node ? ": " : "", node ? node->text : "");
        crti_control_refuse(c, link, request, CRT_ERR_NODE_LOST);
        return;
    }
    if (node->state == CRTI_NODE_EXPECTED)
        return; /* its view or its death is told to all */
    view = crti_control_view_of(node);
    crti_control_send(c, link, CRTI_MSG_NODE_VIEW, request, &view);
}

/* A node asks about a process of another node that it did not hear the end of. */
void crti_control_watch_peer(crti_control_t *c, crti_control_link_t *link,
                             const crti_msg_watch_t *m)
{
    const crti_death_t *death = crti_map_get(&c->death_map, &m->process);
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, m->node);
    crti_msg_peer_died_t answer = {
        .process = m->process, .incarnation = m->incarnation, .node = m->node};

    if (death) {
        answer.status = death->status;
        answer.pid = death->pid;
        answer.ran_no_call = death->ran_no_call;
        answer.caller = death->caller;
        answer.unbegun = death->unbegun;
        answer.text = crti_str(death->text);
        crti_control_send(c, link->number, CRTI_MSG_PEER_DIED, 0, &answer);
    } else if (node == NULL || node->state == CRTI_NODE_DEAD) {
        answer.status = CRT_ERR_NODE_LOST;
        answer.text = crti_str(node ? node->text : "its node is not in the cluster");
        crti_control_send(c, link->number, CRTI_MSG_PEER_DIED, 0, &answer);
    } else if (node->link && node->link != link->number) {
        crti_control_send(c, node->link, CRTI_MSG_WATCH, 0, m);
    }
}
