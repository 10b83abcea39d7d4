/* SPDX-License-Identifier: Apache-2.0 */
/* Pull table. See pull_table.h for the rules and states. */
#include "runtime/node/pull_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arrow.h"
#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"

#define ROOM_NS  (10 * CRTI_S)
#define RETRY_NS (50 * CRTI_MS)

enum { PART_NEEDED, PART_UNDER_WAY, PART_DONE };

typedef struct source {
    crti_id_t node;
    bool failed;
} source_t;

typedef struct pull {
    crti_object_id_t object;
    uint64_t size;
    crti_pull_state_t state;
    source_t sources[CRTI_PULL_SOURCES];
    unsigned source_count;
    unsigned current; /* source that is asked */
    unsigned char *parts;
    crti_id_t *asked; /* of each part: which source has it under way */
    uint64_t part_count;
    uint64_t next; /* no part below it is PART_NEEDED */
    uint64_t done;
    unsigned under_way;
    uint64_t room_until_ns;
    crti_buffer_t requesters; /* crti_pull_requester_t */
    char last_text[200];
    crti_list_t link;
} pull_t;

struct crti_pull_table {
    crti_map_t pulls;  /* object -> pull_t */
    crti_list_t order; /* pull_t, oldest first: they are served in this order */
    uint64_t bytes;
    crti_buffer_t actions;
    size_t action_done;
};

#define TO(state) (1u << CRTI_PULL_##state)
static const struct {
    const char *name;
    unsigned next;
} states[CRTI_PULL_STATES] = {
    [CRTI_PULL_NEEDS_ROOM] = {"needs room", TO(RUNNING) | TO(DONE) | TO(FAILED)},
    [CRTI_PULL_RUNNING] = {"running", TO(DONE) | TO(FAILED)},
    [CRTI_PULL_DONE] = {"done", 0},
    [CRTI_PULL_FAILED] = {"failed", 0},
};

static void set_state(pull_t *p, crti_pull_state_t state)
{
    assert(states[p->state].next & 1u << state);
    CRTI_ARROW("pull", states, p->state, state);
    crti_log(CRTI_LOG_DEBUG, "pull", "%016llx/%llu %s -> %s",
             (unsigned long long)p->object.owner.high,
             (unsigned long long)p->object.number, states[p->state].name,
             states[state].name);
    p->state = state;
}

/* ---------------------------------------------------------------- life and actions */

crt_status_t crti_pull_table_new(crti_pull_table_t **table_out)
{
    crti_pull_table_t *table = calloc(1, sizeof(*table));

    if (table == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "pull table");
    crti_map_init(&table->pulls, sizeof(crti_object_id_t));
    crti_list_init(&table->order);
    *table_out = table;
    return CRT_OK;
}

static void free_pull(pull_t *p)
{
    free(p->parts);
    free(p->asked);
    crti_buffer_fini(&p->requesters);
    free(p);
}

void crti_pull_table_free(crti_pull_table_t *table)
{
    crti_list_t *item;

    if (table == NULL)
        return;
    while ((item = crti_list_pop(&table->order)) != NULL)
        free_pull(CRTI_CONTAINER(item, pull_t, link));
    crti_map_fini(&table->pulls);
    crti_buffer_fini(&table->actions);
    free(table);
}

static crti_pull_action_t *act(crti_pull_table_t *table, crti_pull_verb_t verb,
                               const pull_t *p)
{
    static crti_pull_action_t lost; /* written when memory is out, never read */
    crti_pull_action_t *action;

    if (crti_buffer_reserve(&table->actions, sizeof(*action)) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "pull", "no memory for an action");
        return &lost;
    }
    action = (crti_pull_action_t *)(void *)(table->actions.data + table->actions.size);
    table->actions.size += sizeof(*action);
    *action = (crti_pull_action_t){.verb = verb, .object = p->object, .size = p->size};
    return action;
}

bool crti_pull_table_action(crti_pull_table_t *table, crti_pull_action_t *action_out)
{
    if (table->action_done == table->actions.size) {
        table->actions.size = table->action_done = 0;
        return false;
    }
    memcpy(action_out, table->actions.data + table->action_done, sizeof(*action_out));
    table->action_done += sizeof(*action_out);
    return true;
}

size_t crti_pull_table_count(const crti_pull_table_t *table)
{
    return table->pulls.count;
}

uint64_t crti_pull_table_bytes(const crti_pull_table_t *table)
{
    return table->bytes;
}

/* ---------------------------------------------------------------- the end of a pull */

static uint64_t part_length(const pull_t *p, uint64_t part)
{
    uint64_t offset = part * CRTI_PULL_PART;

    return p->size - offset < CRTI_PULL_PART ? p->size - offset : CRTI_PULL_PART;
}

/* Answers everybody and forgets the pull. */
static void finish(crti_pull_table_t *table, pull_t *p, crti_pull_state_t state,
                   crt_status_t status, const char *text)
{
    const crti_pull_requester_t *r =
        (const crti_pull_requester_t *)(const void *)p->requesters.data;
    bool had_room = p->state == CRTI_PULL_RUNNING;

    set_state(p, state);
    if (had_room)
        act(table, state == CRTI_PULL_DONE ? CRTI_PULL_SEAL : CRTI_PULL_ABORT, p);
    for (size_t i = 0; i < p->requesters.size / sizeof(*r); i++) {
        crti_pull_action_t *action = act(table, CRTI_PULL_ANSWER, p);

        action->requester = r[i];
        action->status = status;
        snprintf(action->text, sizeof(action->text), "%s", text);
    }
    for (uint64_t i = 0; i < p->part_count; i++)
        if (p->parts[i] == PART_UNDER_WAY)
            table->bytes -= part_length(p, i);
    crti_list_remove(&p->link);
    crti_map_remove(&table->pulls, &p->object);
    free_pull(p);
}

/* ---------------------------------------------------------------- asking for parts */

static bool find_source(pull_t *p)
{
    for (unsigned i = 0; i < p->source_count; i++) {
        unsigned at = (p->current + i) % p->source_count;

        if (!p->sources[at].failed) {
            p->current = at;
            return true;
        }
    }
    return false;
}

static void ask(crti_pull_table_t *table, pull_t *p)
{
    while (p->under_way < CRTI_PULL_OBJECT_PARTS && p->next < p->part_count) {
        uint64_t length = part_length(p, p->next);
        crti_pull_action_t *action;

        if (p->parts[p->next] != PART_NEEDED) {
            p->next++;
            continue;
        }
        if (table->bytes && table->bytes + length > CRTI_PULL_BYTES)
            return;
        action = act(table, CRTI_PULL_ASK, p);
        action->node = p->asked[p->next] = p->sources[p->current].node;
        action->offset = p->next * CRTI_PULL_PART;
        action->length = length;
        p->parts[p->next++] = PART_UNDER_WAY;
        p->under_way++;
        table->bytes += length;
    }
}

static void fail_lost(crti_pull_table_t *table, pull_t *p)
{
    char text[256];

    snprintf(text, sizeof(text), "no node has the object any more (%s)",
             p->last_text[0] ? p->last_text : "no node was named");
    finish(table, p, CRTI_PULL_FAILED, CRT_ERR_OBJECT_LOST, text);
}

/* Goes on with one pull; it may be gone afterwards. */
static void advance(crti_pull_table_t *table, pull_t *p)
{
    if (p->state != CRTI_PULL_RUNNING)
        return;
    if (p->done == p->part_count)
        finish(table, p, CRTI_PULL_DONE, CRT_OK, "");
    else if (!find_source(p))
        fail_lost(table, p);
    else
        ask(table, p);
}

/* Bytes under way became fewer: the oldest pulls go first. */
static void advance_all(crti_pull_table_t *table)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->order) {
        advance(table, CRTI_CONTAINER(item, pull_t, link));
    }
}

/* ---------------------------------------------------------------- requests */

static void add_sources(pull_t *p, const crti_id_t *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned at = 0;

        while (at < p->source_count && !crti_id_equal(p->sources[at].node, nodes[i]))
            at++;
        if (at < p->source_count)
            p->sources[at].failed = false; /* named anew: it may have it by now */
        else if (p->source_count < CRTI_PULL_SOURCES)
            p->sources[p->source_count++] = (source_t){.node = nodes[i]};
    }
}

static crt_status_t add_pull(crti_pull_table_t *table, crti_object_id_t object,
                             uint64_t size, uint64_t now_ns, pull_t **pull_out)
{
    pull_t *p = calloc(1, sizeof(*p));
    crt_status_t status;

    if (p == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "pull of an object");
    p->object = object;
    p->size = size;
    p->room_until_ns = now_ns + ROOM_NS;
    crti_list_init(&p->link);
    status = crti_map_put(&table->pulls, &object, p);
    if (status != CRT_OK) {
        free_pull(p);
        return status;
    }
    crti_list_append(&table->order, &p->link);
    act(table, CRTI_PULL_MAKE_ROOM, p);
    *pull_out = p;
    return CRT_OK;
}

crt_status_t crti_pull_table_request(crti_pull_table_t *table, crti_object_id_t object,
                                     uint64_t size, const crti_id_t *nodes,
                                     size_t node_count, crti_pull_requester_t requester,
                                     uint64_t now_ns)
{
    pull_t *p = crti_map_get(&table->pulls, &object);
    crt_status_t status = CRT_OK;

    if (p && p->size != size)
        return crt_raise(CRT_ERR_INVALID,
                         "the object is being brought here with %llu bytes, not %llu",
                         (unsigned long long)p->size, (unsigned long long)size);
    if (p == NULL)
        status = add_pull(table, object, size, now_ns, &p);
    if (status == CRT_OK)
        status = crti_buffer_append(&p->requesters, &requester, sizeof(requester));
    if (status != CRT_OK)
        return status;
    add_sources(p, nodes, node_count);
    advance(table, p);
    return CRT_OK;
}

void crti_pull_table_room(crti_pull_table_t *table, crti_object_id_t object)
{
    pull_t *p = crti_map_get(&table->pulls, &object);

    if (p == NULL || p->state != CRTI_PULL_NEEDS_ROOM)
        return;
    set_state(p, CRTI_PULL_RUNNING);
    /* Not before: now the store has said that the size is no fantasy. */
    p->part_count = p->size / CRTI_PULL_PART + (p->size % CRTI_PULL_PART != 0);
    p->parts = calloc(p->part_count + 1, 1);
    p->asked = calloc(p->part_count + 1, sizeof(*p->asked));
    if (p->parts && p->asked) {
        advance(table, p);
        return;
    }
    p->part_count = 0;
    finish(table, p, CRTI_PULL_FAILED, CRT_ERR_NO_MEMORY, "out of memory");
}

void crti_pull_table_no_room(crti_pull_table_t *table, crti_object_id_t object,
                             crt_status_t status, const char *text, uint64_t now_ns)
{
    pull_t *p = crti_map_get(&table->pulls, &object);

    if (p == NULL || p->state != CRTI_PULL_NEEDS_ROOM)
        return;
    if (status == CRT_ERR_EXISTS)
        finish(table, p, CRTI_PULL_DONE, CRT_OK, "");
    else if (status != CRT_ERR_STORE_FULL || now_ns >= p->room_until_ns)
        finish(table, p, CRTI_PULL_FAILED, status, text);
}

/* ---------------------------------------------------------------- parts and losses */

void crti_pull_table_part(crti_pull_table_t *table, crti_object_id_t object,
                          crti_id_t node, uint64_t offset)
{
    pull_t *p = crti_map_get(&table->pulls, &object);
    uint64_t part = offset / CRTI_PULL_PART;

    if (p == NULL || p->state != CRTI_PULL_RUNNING || offset % CRTI_PULL_PART ||
        part >= p->part_count || p->parts[part] != PART_UNDER_WAY ||
        !crti_id_equal(p->asked[part], node))
        return;
    p->parts[part] = PART_DONE;
    p->done++;
    p->under_way--;
    table->bytes -= part_length(p, part);
    advance_all(table);
}

/* The parts that the source has under way are needed again. */
static void leave_source(crti_pull_table_t *table, pull_t *p, crti_id_t node,
                         const char *text)
{
    for (unsigned i = 0; i < p->source_count; i++)
        if (crti_id_equal(p->sources[i].node, node)) {
            p->sources[i].failed = true;
            snprintf(p->last_text, sizeof(p->last_text), "%s", text);
        }
    for (uint64_t i = 0; p->under_way && i < p->part_count; i++)
        if (p->parts[i] == PART_UNDER_WAY && crti_id_equal(p->asked[i], node)) {
            p->parts[i] = PART_NEEDED;
            p->under_way--;
            table->bytes -= part_length(p, i);
            p->next = i < p->next ? i : p->next;
        }
}

void crti_pull_table_refused(crti_pull_table_t *table, crti_object_id_t object,
                             crti_id_t node, const char *text)
{
    pull_t *p = crti_map_get(&table->pulls, &object);

    if (p == NULL)
        return;
    leave_source(table, p, node, text);
    advance_all(table);
}

void crti_pull_table_node_lost(crti_pull_table_t *table, crti_id_t node, const char *text)
{
    CRTI_LIST_FOREACH (item, &table->order) {
        leave_source(table, CRTI_CONTAINER(item, pull_t, link), node, text);
    }
    advance_all(table);
}

void crti_pull_table_owner_died(crti_pull_table_t *table, crti_id_t owner)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->order) {
        pull_t *p = CRTI_CONTAINER(item, pull_t, link);

        if (crti_id_equal(p->object.owner, owner))
            finish(table, p, CRTI_PULL_FAILED, CRT_ERR_OWNER_DIED,
                   "the owner of the object died while it was brought here");
    }
    advance_all(table);
}

void crti_pull_table_requester_died(crti_pull_table_t *table, crti_id_t process)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->order) {
        pull_t *p = CRTI_CONTAINER(item, pull_t, link);
        crti_pull_requester_t *r = (crti_pull_requester_t *)(void *)p->requesters.data;
        size_t count = p->requesters.size / sizeof(*r), kept = 0;

        for (size_t i = 0; i < count; i++)
            if (!crti_id_equal(r[i].process, process))
                r[kept++] = r[i];
        p->requesters.size = kept * sizeof(*r);
        if (kept == 0)
            finish(table, p, CRTI_PULL_FAILED, CRT_ERR_CANCELLED, "");
    }
    advance_all(table);
}

uint64_t crti_pull_table_tick(crti_pull_table_t *table, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;

    CRTI_LIST_FOREACH (item, &table->order) {
        pull_t *p = CRTI_CONTAINER(item, pull_t, link);

        if (p->state != CRTI_PULL_NEEDS_ROOM)
            continue;
        act(table, CRTI_PULL_MAKE_ROOM, p);
        next = now_ns + RETRY_NS;
    }
    return next;
}
