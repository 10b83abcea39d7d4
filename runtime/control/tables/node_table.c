/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: joining, liveness, death. See node_table.h. */
#include "runtime/control/tables/node_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arrow.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#define TO(state) (1u << CRTI_NODE_##state)
static const crti_state_row_t states[CRTI_NODE_STATES] = {
    [CRTI_NODE_EXPECTED] = {"EXPECTED", TO(ALIVE) | TO(DEAD)},
    [CRTI_NODE_ALIVE] = {"ALIVE", TO(SUSPECT) | TO(DEAD)},
    [CRTI_NODE_SUSPECT] = {"SUSPECT", TO(ALIVE) | TO(DEAD)},
    [CRTI_NODE_DEAD] = {"DEAD", 0},
};

static void set_state(crti_node_table_t *table, crti_node_entry_t *node,
                      crti_node_state_t state)
{
    char hex[CRTI_ID_HEX];

    if (node->state == state)
        return;
    assert(states[node->state].next & (1u << state));
    crti_log(CRTI_LOG_DEBUG, "control", "node %s: %s -> %s", crti_id_hex(node->id, hex),
             states[node->state].name, states[state].name);
    CRTI_ARROW("node", states, node->state, state);
    node->state = state;
}

void crti_node_table_init(crti_node_table_t *table)
{
    *table = (crti_node_table_t){0};
    crti_map_init(&table->by_id, sizeof(crti_id_t));
    crti_map_init(&table->prefixes, sizeof(uint64_t));
    crti_list_init(&table->living);
    crti_list_init(&table->dead);
}

static void free_entry(crti_node_entry_t *node)
{
    crti_list_remove(&node->actors); /* none is left but at the end of all */
    free(node->ip);
    free(node->hostname);
    free(node->endpoint);
    free(node->text);
    free(node->labels);
    crti_buffer_fini(&node->demand);
    crti_news_fini(&node->news);
    free(node);
}

void crti_node_table_fini(crti_node_table_t *table)
{
    crti_list_t *item;

    crti_deadlines_fini(&table->due);
    while ((item = crti_list_pop(&table->living)))
        free_entry(CRTI_NODE_OF(item));
    while ((item = crti_list_pop(&table->dead)))
        free_entry(CRTI_NODE_OF(item));
    crti_map_fini(&table->by_id);
    crti_map_fini(&table->prefixes);
}

crti_node_entry_t *crti_node_table_get(const crti_node_table_t *table, crti_id_t id)
{
    return crti_map_get(&table->by_id, &id);
}

crti_node_entry_t *crti_node_table_head_host(const crti_node_table_t *table)
{
    CRTI_LIST_FOREACH (item, &table->living) {
        crti_node_entry_t *node = CRTI_NODE_OF(item);

        if (node->is_head_host && node->state == CRTI_NODE_ALIVE)
            return node;
    }
    return NULL;
}

/* ---------------------------------------------------------------- entries */

static uint64_t prefix_of(crti_id_t id)
{
    return id.high >> 16; /* crti_id_nodes_clash */
}

/* A dead one's objects may still lie in stores. */
static bool has_clash(const crti_node_table_t *table, crti_id_t id)
{
    uint64_t prefix = prefix_of(id);

    return crti_map_get(&table->prefixes, &prefix) != NULL;
}

static crt_status_t count_prefix(crti_node_table_t *table, crti_id_t id, int change)
{
    uint64_t prefix = prefix_of(id);
    intptr_t count = (intptr_t)crti_map_get(&table->prefixes, &prefix) + change;

    if (count > 0)
        return crti_map_put(&table->prefixes, &prefix, (void *)count);
    crti_map_remove(&table->prefixes, &prefix);
    return CRT_OK;
}

void crti_node_table_offer(crti_node_table_t *table, crti_node_entry_t *node)
{
    if (node->state == CRTI_NODE_ALIVE && node->drain_ns == 0)
        crti_placement_index_set(
            &table->offers, &node->place,
            &(crti_placement_node_t){.node = node->id,
                                     .labels = node->labels,
                                     .total = &node->resources,
                                     .available = &node->available,
                                     .idle_actors = node->idle_actors});
    else
        crti_placement_index_remove(&table->offers, &node->place);
}

/* Living ones are in the heap: nothing is allocated. */
static void set_due(crti_node_table_t *table, crti_node_entry_t *node, uint64_t at_ns)
{
    (void)crti_deadlines_set(&table->due, &node->due, at_ns);
}

crti_node_join_t crti_node_table_judge(const crti_node_table_t *table, crti_id_t id,
                                       uint64_t incarnation)
{
    const crti_node_entry_t *node = crti_node_table_get(table, id);

    if (node == NULL)
        return has_clash(table, id) ? CRTI_NODE_JOIN_CLASH : CRTI_NODE_JOIN_NEW;
    if (node->is_guess && node->state == CRTI_NODE_EXPECTED)
        return CRTI_NODE_JOIN_BACK;
    if (incarnation < node->incarnation)
        return CRTI_NODE_JOIN_REFUSE;
    if (node->state == CRTI_NODE_DEAD)
        return incarnation > node->incarnation ? CRTI_NODE_JOIN_NEW
                                               : CRTI_NODE_JOIN_REFUSE;
    return incarnation > node->incarnation ? CRTI_NODE_JOIN_REPLACE : CRTI_NODE_JOIN_BACK;
}

/* In no state yet, and living. */
static crt_status_t add_entry(crti_node_table_t *table, crti_id_t id, uint64_t due_ns,
                              crti_node_entry_t **entry_out)
{
    crti_node_entry_t *node = calloc(1, sizeof(*node));

    if (node == NULL || count_prefix(table, id, 1) != CRT_OK) {
        free(node);
        return crt_raise(CRT_ERR_NO_MEMORY, "node entry");
    }
    if (crti_deadlines_set(&table->due, &node->due, due_ns) != CRT_OK ||
        crti_map_put(&table->by_id, &id, node) != CRT_OK) {
        crti_deadlines_remove(&table->due, &node->due);
        count_prefix(table, id, -1);
        free(node);
        return crt_raise(CRT_ERR_NO_MEMORY, "node entry");
    }
    node->id = id;
    crti_news_init(&node->news);
    crti_list_init(&node->actors);
    crti_list_append(&table->living, &node->link_in_list);
    table->living_count++;
    *entry_out = node;
    return CRT_OK;
}

crt_status_t crti_node_table_register(crti_node_table_t *table,
                                      const crti_msg_node_register_t *message,
                                      uint64_t link, uint64_t now_ns, int64_t wall_ms,
                                      crti_node_entry_t **entry_out)
{
    crti_node_entry_t *node = crti_node_table_get(table, message->node);
    crt_status_t status = CRT_OK;

    if (node && node->state == CRTI_NODE_DEAD) {
        crti_node_table_forget(table, node);
        node = NULL;
    }
    if (node == NULL) {
        status = add_entry(table, message->node, now_ns + CRTI_LIMIT(heartbeat_timeout),
                           &node);
        if (status != CRT_OK)
            return status;
        node->incarnation = message->incarnation;
        node->start_ms = wall_ms;
        node->state = CRTI_NODE_ALIVE;
    }
    crti_placement_index_remove(&table->offers, &node->place); /* borrows what goes now */
    if (!crti_str_replace(&node->ip, message->ip) ||
        !crti_str_replace(&node->hostname, message->hostname) ||
        !crti_str_replace(&node->endpoint, message->endpoint) ||
        !crti_str_replace(&node->text, crti_str("")) ||
        !crti_str_replace(&node->labels, message->labels))
        return crt_raise(CRT_ERR_NO_MEMORY, "node entry");
    if (node->is_guess) {
        node->is_guess = false;
        node->incarnation = message->incarnation;
        node->start_ms = wall_ms;
    }
    set_state(table, node, CRTI_NODE_ALIVE);
    node->link = link;
    node->pid = message->pid;
    node->is_head_host = message->is_head_host;
    node->resources = message->resources;
    node->available = message->available;
    node->store_bytes = message->store_bytes;
    crti_node_heard(table, node, now_ns);
    crti_node_table_offer(table, node);
    *entry_out = node;
    return CRT_OK;
}

crt_status_t crti_node_table_load(crti_node_table_t *table,
                                  const crti_msg_row_node_t *row, uint64_t now_ns)
{
    crti_node_entry_t *node;
    crt_status_t status;

    if (crti_node_table_get(table, row->node))
        return CRT_OK;
    status = add_entry(table, row->node, now_ns + CRTI_NODE_EXPECTED_NS, &node);
    if (status != CRT_OK)
        return status;
    node->incarnation = row->incarnation;
    if (!crti_str_replace(&node->ip, row->ip) ||
        !crti_str_replace(&node->hostname, row->hostname) ||
        !crti_str_replace(&node->endpoint, row->endpoint) ||
        !crti_str_replace(&node->text, row->text) ||
        !crti_str_replace(&node->labels, row->labels))
        return crt_raise(CRT_ERR_NO_MEMORY, "node entry");
    node->pid = row->pid;
    node->is_head_host = row->is_head_host;
    node->resources = row->resources;
    node->store_bytes = row->store_bytes;
    node->start_ms = row->start_ms;
    node->end_ms = row->end_ms;
    node->state = CRTI_NODE_EXPECTED;
    node->heard_ns = now_ns; /* by the head before, who knows when */
    if (row->state == CRTI_NODE_DEAD)
        crti_node_table_kill(table, node, node->text, now_ns, row->end_ms);
    return CRT_OK;
}

void crti_node_table_expect(crti_node_table_t *table, crti_id_t id, uint64_t now_ns)
{
    crti_node_entry_t *node;

    if (crti_id_is_zero(id) || crti_node_table_get(table, id) ||
        add_entry(table, id, now_ns + CRTI_NODE_EXPECTED_NS, &node) != CRT_OK)
        return;
    node->is_guess = true;
    node->state = CRTI_NODE_EXPECTED;
    node->heard_ns = now_ns; /* by the head before, who knows when */
}

void crti_node_heard(crti_node_table_t *table, crti_node_entry_t *node, uint64_t now_ns)
{
    node->heard_ns = now_ns;
    node->was_heard = true;
    if (node->state == CRTI_NODE_ALIVE)
        set_due(table, node, now_ns + CRTI_LIMIT(heartbeat_timeout));
}

void crti_node_table_suspect(crti_node_table_t *table, crti_node_entry_t *node,
                             uint64_t now_ns, uint64_t least_ns)
{
    set_state(table, node, CRTI_NODE_SUSPECT);
    node->link = 0;
    set_due(table, node,
            now_ns + CRTI_LIMIT(node_suspect_timeout) > least_ns
                ? now_ns + CRTI_LIMIT(node_suspect_timeout)
                : least_ns);
    crti_node_table_offer(table, node);
}

void crti_node_table_wait(crti_node_table_t *table, uint64_t until_ns)
{
    CRTI_LIST_FOREACH (item, &table->living) {
        crti_node_entry_t *node = CRTI_NODE_OF(item);

        if (node->due.at < until_ns)
            set_due(table, node, until_ns);
    }
}

void crti_node_table_kill(crti_node_table_t *table, crti_node_entry_t *node,
                          const char *text, uint64_t now_ns, int64_t wall_ms)
{
    crti_str_replace(&node->text, crti_str(text)); /* may be the entry's own */
    set_state(table, node, CRTI_NODE_DEAD);
    node->link = 0;
    node->end_ms = wall_ms;
    node->expires_ns = now_ns + CRTI_LIMIT(dead_nodes_time);
    crti_deadlines_remove(&table->due, &node->due);
    crti_node_table_offer(table, node);
    node->workers = 0;
    crti_buffer_fini(&node->demand);
    crti_list_remove(&node->link_in_list);
    crti_list_append(&table->dead, &node->link_in_list);
    table->living_count--;
    table->dead_count++;
}

crti_node_entry_t *crti_node_table_overdue(const crti_node_table_t *table,
                                           uint64_t now_ns, char why[CRTI_NODE_WHY])
{
    crti_node_entry_t *node;

    if (crti_deadlines_first(&table->due) > now_ns)
        return NULL;
    node = CRTI_CONTAINER(table->due.items[0], crti_node_entry_t, due);
    switch (node->state) {
    case CRTI_NODE_SUSPECT:
        snprintf(why, CRTI_NODE_WHY, "its connection broke and did not come back");
        break;
    case CRTI_NODE_EXPECTED:
        snprintf(why, CRTI_NODE_WHY,
                 "it did not come back after the head was started again");
        break;
    default:
        snprintf(why, CRTI_NODE_WHY, "nothing was heard of it for %s",
                 CRTI_LIMIT_SAID(heartbeat_timeout));
        break;
    }
    return node;
}

crti_node_entry_t *crti_node_table_expired(const crti_node_table_t *table,
                                           uint64_t now_ns)
{
    crti_node_entry_t *oldest;

    if (crti_list_is_empty(&table->dead))
        return NULL;
    oldest = CRTI_NODE_OF(table->dead.next);
    return table->dead_count > CRTI_LIMIT(dead_nodes) || oldest->expires_ns <= now_ns
               ? oldest
               : NULL;
}

void crti_node_table_forget(crti_node_table_t *table, crti_node_entry_t *node)
{
    assert(node->state == CRTI_NODE_DEAD);
    crti_list_remove(&node->link_in_list);
    crti_map_remove(&table->by_id, &node->id);
    count_prefix(table, node->id, -1);
    table->dead_count--;
    free_entry(node);
}

uint64_t crti_node_table_deadline(const crti_node_table_t *table)
{
    uint64_t earliest = crti_deadlines_first(&table->due), expires;

    if (crti_list_is_empty(&table->dead))
        return earliest;
    expires = CRTI_NODE_OF(table->dead.next)->expires_ns;
    return expires < earliest ? expires : earliest;
}

crti_msg_row_node_t crti_node_row(const crti_node_entry_t *node)
{
    return (crti_msg_row_node_t){
        .node = node->id,
        .incarnation = node->incarnation,
        .state = node->state == CRTI_NODE_DEAD ? CRTI_NODE_DEAD : CRTI_NODE_ALIVE,
        .ip = crti_str(node->ip),
        .hostname = crti_str(node->hostname),
        .endpoint = crti_str(node->endpoint),
        .pid = node->pid,
        .is_head_host = node->is_head_host,
        .resources = node->resources,
        .store_bytes = node->store_bytes,
        .start_ms = node->start_ms,
        .end_ms = node->end_ms,
        .text = crti_str(node->text),
        .labels = crti_str(node->labels),
    };
}
