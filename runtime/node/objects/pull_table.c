/* SPDX-License-Identifier: Apache-2.0 */
/* Pull table. See pull_table.h for the rules and states. */
#include "runtime/node/objects/pull_table.h"

#include <assert.h>
#include <stdio.h>

#include "runtime/base/arrow.h"
#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/node/objects/share_table.h"

#define ROOM_NS  (10 * CRTI_S)
#define RETRY_NS (50 * CRTI_MS)
#define LOOK_NS  CRTI_S /* for pulls that stall */
#define SOURCES  (2 * CRTI_PULL_SOURCES)

enum { PART_NEEDED, PART_UNDER_WAY, PART_DONE };

typedef struct part {
    uint8_t state, source; /* UNDER_WAY: an index of sources */
    uint32_t attempt;
} part_t;

typedef struct source {
    crti_id_t node;
    /* how often this node was sent on to get there; 0: a requester named it */
    uint64_t hops;
    bool failed;
    bool slow;  /* nothing came from it: the others go first */
    bool asked; /* and not told since that it is asked no more */
} source_t;

typedef struct pull {
    crti_object_id_t object;
    uint64_t size;
    crti_pull_state_t state;
    source_t sources[SOURCES];
    unsigned source_count;
    unsigned current; /* source that is asked */
    unsigned sent_on; /* so often */
    bool direct;      /* named sources send this node on no more */
    part_t *parts;
    uint64_t part_count;
    uint64_t next; /* no part below it is PART_NEEDED */
    uint64_t done;
    uint64_t seen_done,
        seen_ns;     /* when that many parts were first seen; room: last asked for */
    uint64_t serial; /* grows with each pull */
    unsigned under_way;
    uint64_t bytes; /* of the parts under way */
    bool hangs;     /* nothing comes from any source: its bytes are none of the table's */
    uint64_t room_until_ns;
    crti_buffer_t requesters; /* crti_pull_requester_t */
    char last_text[200];
    crti_list_t link;
    crti_list_t in_hungry; /* running, with parts to be asked for */
} pull_t;

struct crti_pull_table {
    crti_map_t pulls;  /* object -> pull_t */
    crti_list_t order; /* pull_t, oldest first */
    /* those of them that need a part, oldest first: the order of service */
    crti_list_t hungry;
    uint64_t serials;
    uint64_t bytes; /* under way of pulls that do not hang */
    crti_buffer_t actions;
    size_t action_done;
};

#define TO(state) (1u << CRTI_PULL_##state)
static const crti_state_row_t states[CRTI_PULL_STATES] = {
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
    crti_list_init(&table->hungry);
    *table_out = table;
    return CRT_OK;
}

static void free_pull(pull_t *p)
{
    free(p->parts);
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
    return crti_buffer_take(&table->actions, &table->action_done, action_out,
                            sizeof(*action_out));
}

size_t crti_pull_table_count(const crti_pull_table_t *table)
{
    return table->pulls.count;
}

bool crti_pull_table_progress(const crti_pull_table_t *table, crti_object_id_t object,
                              crti_pull_progress_t *progress_out)
{
    const pull_t *p = crti_map_get(&table->pulls, &object);
    uint64_t came = p ? p->done * CRTI_PULL_PART : 0;

    if (!p)
        return false;
    *progress_out =
        (crti_pull_progress_t){.came = came < p->size ? came : p->size,
                               .needs_room = p->state == CRTI_PULL_NEEDS_ROOM};
    if (p->current < p->source_count)
        progress_out->from = p->sources[p->current].node;
    return true;
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

static void add_bytes(crti_pull_table_t *table, pull_t *p, uint64_t bytes)
{
    p->bytes += bytes;
    table->bytes += p->hangs ? 0 : bytes;
}

static void take_bytes(crti_pull_table_t *table, pull_t *p, uint64_t bytes)
{
    p->bytes -= bytes;
    table->bytes -= p->hangs ? 0 : bytes;
}

/* While it hangs it takes nothing of the window: sources that answer would have none for as long as
 * this one's disk does not. */
static void set_hangs(crti_pull_table_t *table, pull_t *p, bool hangs)
{
    uint64_t bytes = p->bytes;

    take_bytes(table, p, bytes);
    p->hangs = hangs;
    add_bytes(table, p, bytes);
}

/* From now on it is asked no more; it may be sending this node parts of the object. */
static void leave(crti_pull_table_t *table, const pull_t *p, source_t *source)
{
    if (source->asked && p->part_count >= CRTI_SHARE_PARTS)
        act(table, CRTI_PULL_LEAVE, p)->node = source->node;
    source->asked = false;
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
    for (unsigned i = 0; i < p->source_count; i++)
        leave(table, p, &p->sources[i]);
    for (size_t i = 0; i < p->requesters.size / sizeof(*r); i++) {
        crti_pull_action_t *action = act(table, CRTI_PULL_ANSWER, p);

        action->requester = r[i];
        action->status = status;
        snprintf(action->text, sizeof(action->text), "%s", text);
    }
    take_bytes(table, p, p->bytes);
    crti_list_remove(&p->link);
    crti_list_remove(&p->in_hungry);
    crti_map_remove(&table->pulls, &p->object);
    free_pull(p);
}

/* ---------------------------------------------------------------- asking for parts */

/* The present one if it will do, else the next; one that is slow only when all are. */
static bool find_source(pull_t *p)
{
    for (int slow = 0; slow <= 1; slow++)
        for (unsigned i = 0; i < p->source_count; i++) {
            unsigned at = (p->current + i) % p->source_count;

            if (!p->sources[at].failed && p->sources[at].slow == slow) {
                p->current = at;
                return true;
            }
        }
    return false;
}

static void ask_part(crti_pull_table_t *table, pull_t *p, uint64_t part)
{
    crti_pull_action_t *action = act(table, CRTI_PULL_ASK, p);
    source_t *source = &p->sources[p->current];

    p->parts[part].state = PART_UNDER_WAY;
    p->parts[part].source = (uint8_t)p->current;
    source->asked = true;
    action->node = source->node;
    action->hops = source->hops;
    action->direct = p->direct && source->hops == 0;
    action->attempt = ++p->parts[part].attempt;
    action->offset = part * CRTI_PULL_PART;
    action->length = part_length(p, part);
    p->under_way++;
    add_bytes(table, p, part_length(p, part));
}

static void ask(crti_pull_table_t *table, pull_t *p)
{
    while (p->under_way < CRTI_LIMIT(transfer_parts) && p->next < p->part_count) {
        uint64_t length = part_length(p, p->next);

        if (p->parts[p->next].state != PART_NEEDED) {
            p->next++;
            continue;
        }
        if (table->bytes && table->bytes + length > CRTI_LIMIT(transfer_window))
            return;
        ask_part(table, p, p->next++);
    }
}

/* Those behind it in the list are younger. */
static void become_hungry(crti_pull_table_t *table, pull_t *p)
{
    crti_list_t *at = table->hungry.prev;

    if (!crti_list_is_empty(&p->in_hungry))
        return;
    while (at != &table->hungry &&
           CRTI_CONTAINER(at, pull_t, in_hungry)->serial > p->serial)
        at = at->prev;
    crti_list_append(at->next, &p->in_hungry); /* before the first younger one */
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
    if (p->done == p->part_count) {
        finish(table, p, CRTI_PULL_DONE, CRT_OK, "");
        return;
    }
    if (!find_source(p)) {
        fail_lost(table, p);
        return;
    }
    ask(table, p);
    if (p->next < p->part_count)
        become_hungry(table, p);
    else
        crti_list_remove(&p->in_hungry);
}

/* Bytes under way became fewer: the oldest pulls go first. Thousands may wait for their turn, or
 * for answers. */
static void advance_all(crti_pull_table_t *table)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->hungry) {
        if (table->bytes + CRTI_PULL_PART > CRTI_LIMIT(transfer_window))
            return;
        advance(table, CRTI_CONTAINER(item, pull_t, in_hungry));
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
        else if (i < CRTI_PULL_SOURCES && p->source_count < SOURCES)
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
    p->seen_ns = now_ns;
    p->serial = ++table->serials;
    crti_list_init(&p->link);
    crti_list_init(&p->in_hungry);
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
    p->seen_ns = 0;
    /* Not before: now the store has said that the size is no fantasy. */
    p->part_count = p->size / CRTI_PULL_PART + (p->size % CRTI_PULL_PART != 0);
    p->parts = calloc(p->part_count + 1, sizeof(*p->parts));
    if (p->parts) {
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

/* It came, or is asked for anew, and then counts. */
static void no_longer_under_way(crti_pull_table_t *table, pull_t *p, uint64_t part)
{
    set_hangs(table, p, false);
    if (p->parts[part].state == PART_UNDER_WAY) {
        p->under_way--;
        take_bytes(table, p, part_length(p, part));
    }
}

void crti_pull_table_part(crti_pull_table_t *table, crti_object_id_t object,
                          uint64_t offset)
{
    pull_t *p = crti_map_get(&table->pulls, &object);
    uint64_t part = offset / CRTI_PULL_PART;

    if (p == NULL || p->state != CRTI_PULL_RUNNING || offset % CRTI_PULL_PART ||
        part >= p->part_count || p->parts[part].state == PART_DONE)
        return;
    no_longer_under_way(table, p, part);
    p->parts[part].state = PART_DONE;
    if (++p->done == p->part_count)
        advance(table, p);
    advance_all(table);
}

bool crti_pull_table_is_coming(const crti_pull_table_t *table, crti_object_id_t object)
{
    const pull_t *p = crti_map_get(&table->pulls, &object);

    return p && p->state == CRTI_PULL_RUNNING;
}

bool crti_pull_table_has(const crti_pull_table_t *table, crti_object_id_t object,
                         uint64_t offset)
{
    const pull_t *p = crti_map_get(&table->pulls, &object);
    uint64_t part = offset / CRTI_PULL_PART;

    return p && p->state == CRTI_PULL_RUNNING && part < p->part_count &&
           p->parts[part].state == PART_DONE;
}

/* The parts that the source has under way are needed again. */
static void take_back(crti_pull_table_t *table, pull_t *p, unsigned source)
{
    for (uint64_t i = 0; p->under_way && i < p->part_count; i++)
        if (p->parts[i].state == PART_UNDER_WAY && p->parts[i].source == source) {
            no_longer_under_way(table, p, i);
            p->parts[i].state = PART_NEEDED;
            p->next = i < p->next ? i : p->next;
        }
    if (p->state == CRTI_PULL_RUNNING)
        become_hungry(table, p);
}

/* It may be gone afterwards. */
static void fail_source(crti_pull_table_t *table, pull_t *p, unsigned source,
                        const char *text)
{
    source_t *s = &p->sources[source];

    s->failed = true;
    s->asked = false;
    p->direct |= s->hops > 0;
    snprintf(p->last_text, sizeof(p->last_text), "%s", text);
    take_back(table, p, source);
    if (p->state == CRTI_PULL_RUNNING && !find_source(p))
        fail_lost(table, p);
}

static int source_of(const pull_t *p, crti_id_t node)
{
    for (unsigned i = 0; i < p->source_count; i++)
        if (crti_id_equal(p->sources[i].node, node))
            return (int)i;
    return -1;
}

/* The pull that the attempt is of, and the source; NULL when the part was asked for anew. */
static pull_t *find_attempt(crti_pull_table_t *table, const crti_pull_attempt_t *a,
                            unsigned *source_out)
{
    pull_t *p = crti_map_get(&table->pulls, &a->object);
    uint64_t part = a->offset / CRTI_PULL_PART;
    int source = p ? source_of(p, a->node) : -1;

    if (source < 0 || p->state != CRTI_PULL_RUNNING || part >= p->part_count ||
        p->parts[part].state != PART_UNDER_WAY || p->parts[part].attempt != a->attempt ||
        p->parts[part].source != source)
        return NULL;
    *source_out = (unsigned)source;
    return p;
}

void crti_pull_table_refused(crti_pull_table_t *table, const crti_pull_attempt_t *attempt,
                             const char *text)
{
    unsigned source;
    pull_t *p = find_attempt(table, attempt, &source);

    if (p == NULL)
        return;
    leave(table, p, &p->sources[source]); /* it may have given parts before */
    fail_source(table, p, source, text);
    advance_all(table);
}

void crti_pull_table_failed(crti_pull_table_t *table, crti_object_id_t object,
                            crt_status_t status, const char *text)
{
    pull_t *p = crti_map_get(&table->pulls, &object);

    if (p == NULL || p->state != CRTI_PULL_RUNNING)
        return;
    finish(table, p, CRTI_PULL_FAILED, status, text);
    advance_all(table);
}

void crti_pull_table_node_lost(crti_pull_table_t *table, crti_id_t node, const char *text)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->order) {
        pull_t *p = CRTI_CONTAINER(item, pull_t, link);
        int source = source_of(p, node);

        if (source >= 0)
            fail_source(table, p, (unsigned)source, text);
    }
    advance_all(table);
}

/* ---------------------------------------------------------------- sent on, and stalled */

/* `to` as a source; -1: it can't be, it failed before, or this node was sent on too often. */
static int learn(pull_t *p, crti_id_t to, crti_id_t from, uint64_t hops)
{
    int at = source_of(p, to);

    if (p->direct || crti_id_is_zero(to) || crti_id_equal(to, from) ||
        ++p->sent_on > CRTI_SHARE_HOPS)
        return -1;
    if (at >= 0)
        return p->sources[at].failed || p->sources[at].slow ? -1 : at;
    if (p->source_count == SOURCES)
        return -1;
    p->sources[p->source_count] = (source_t){.node = to, .hops = hops};
    return (int)p->source_count++;
}

void crti_pull_table_elsewhere(crti_pull_table_t *table,
                               const crti_pull_attempt_t *attempt, crti_id_t to)
{
    unsigned source;
    pull_t *p = find_attempt(table, attempt, &source);
    int at;

    if (p == NULL)
        return;
    at = learn(p, to, attempt->node, p->sources[source].hops + 1);
    take_back(table, p, source);
    if (at >= 0) {
        p->current = (unsigned)at;
    } else { /* one that was asked directly must not send anybody on */
        p->sources[source].failed = p->direct || p->sources[source].hops > 0;
        p->direct = true;
    }
    advance_all(table);
}

static bool has_another(const pull_t *p, unsigned than)
{
    for (unsigned i = 0; i < p->source_count; i++)
        if (i != than && !p->sources[i].failed)
            return true;
    return false;
}

/* Others are asked for what it was asked for. */
static void turn_from(crti_pull_table_t *table, pull_t *p, unsigned source)
{
    source_t *s = &p->sources[source];

    leave(table, p, s);
    s->slow = true;
    p->direct |= s->hops > 0;
    take_back(table, p, source);
    p->current = (source + 1) % p->source_count;
}

static bool is_asked(const pull_t *p, unsigned source)
{
    for (uint64_t i = 0; i < p->part_count; i++)
        if (p->parts[i].state == PART_UNDER_WAY && p->parts[i].source == source)
            return true;
    return false;
}

void crti_pull_table_silent(crti_pull_table_t *table, crti_id_t node)
{
    CRTI_LIST_FOREACH (item, &table->order) {
        pull_t *p = CRTI_CONTAINER(item, pull_t, link);
        int source = p->state == CRTI_PULL_RUNNING ? source_of(p, node) : -1;

        if (source >= 0 && has_another(p, (unsigned)source) &&
            is_asked(p, (unsigned)source))
            turn_from(table, p, (unsigned)source);
    }
    advance_all(table);
}

/* A source that owes parts; some are under way. The one whose turn it is may owe none: it was named
 * when all had been asked of others. */
static unsigned debtor(const pull_t *p)
{
    uint64_t part = 0;

    if (is_asked(p, p->current))
        return p->current;
    while (p->parts[part].state != PART_UNDER_WAY)
        part++;
    return p->parts[part].source;
}

static bool has_fresh(const pull_t *p)
{
    for (unsigned i = 0; i < p->source_count; i++)
        if (!p->sources[i].failed && !p->sources[i].slow)
            return true;
    return false;
}

/* Nothing of the object came for long. With one source that is asked directly it is up to that;
 * where all are slow, each is asked in turn. Others are not to wait for them. */
static void unstall(crti_pull_table_t *table, pull_t *p)
{
    unsigned source = debtor(p);

    if (has_another(p, source)) {
        turn_from(table, p, source);
        p->direct = true;
        set_hangs(table, p, !has_fresh(p));
    } else if (!p->direct) {
        p->direct = true;
        p->sources[source].hops = 0;
        take_back(table, p, source);
    } else {
        set_hangs(table, p, true);
    }
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

void crti_pull_table_visit(const crti_pull_table_t *table,
                           void (*on_requester)(void *user, crti_id_t process),
                           void *user)
{
    CRTI_LIST_FOREACH (item, &table->order) {
        const pull_t *p = CRTI_CONTAINER(item, pull_t, link);
        const crti_pull_requester_t *r =
            (const crti_pull_requester_t *)(const void *)p->requesters.data;

        for (size_t i = 0; i < p->requesters.size / sizeof(*r); i++)
            on_requester(user, r[i].process);
    }
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

static uint64_t look_at(crti_pull_table_t *table, pull_t *p, uint64_t now_ns)
{
    if (p->state == CRTI_PULL_NEEDS_ROOM) {
        if (now_ns - p->seen_ns < RETRY_NS)
            return p->seen_ns + RETRY_NS;
        p->seen_ns = now_ns;
        act(table, CRTI_PULL_MAKE_ROOM, p);
        return now_ns + RETRY_NS;
    }
    if (p->done != p->seen_done || p->under_way == 0 || p->seen_ns == 0) {
        p->seen_done = p->done;
        p->seen_ns = now_ns;
    } else if (now_ns - p->seen_ns >= CRTI_LIMIT(transfer_timeout)) {
        p->seen_ns = now_ns;
        unstall(table, p);
    }
    return now_ns + LOOK_NS;
}

uint64_t crti_pull_table_tick(crti_pull_table_t *table, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;

    CRTI_LIST_FOREACH (item, &table->order) {
        uint64_t due = look_at(table, CRTI_CONTAINER(item, pull_t, link), now_ns);

        next = due < next ? due : next;
    }
    advance_all(table);
    return next;
}
