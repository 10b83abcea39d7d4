/* SPDX-License-Identifier: Apache-2.0 */
/* Actors: names, placement, restarts, death. See actor_table.h. */
#include "runtime/control/tables/actor_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arrow.h"
#include "runtime/base/fault.h"
#include "runtime/base/fence.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#define TO(state) (1u << CRTI_ACTOR_##state)
static const crti_state_row_t states[CRTI_ACTOR_STATES] = {
    [CRTI_ACTOR_PENDING] = {"PENDING", TO(STARTING) | TO(DEAD)},
    [CRTI_ACTOR_STARTING] = {"STARTING",
                             TO(ALIVE) | TO(PENDING) | TO(RESTARTING) | TO(DEAD)},
    [CRTI_ACTOR_ALIVE] = {"ALIVE", TO(RESTARTING) | TO(DEAD)},
    [CRTI_ACTOR_RESTARTING] = {"RESTARTING", TO(STARTING) | TO(DEAD)},
    [CRTI_ACTOR_DEAD] = {"DEAD", 0},
};

const char *crti_actor_state_name(unsigned state)
{
    return state < CRTI_ACTOR_STATES ? states[state].name : "unknown";
}

bool crti_actor_entry_is_placed(const crti_actor_entry_t *actor)
{
    return actor->state == CRTI_ACTOR_STARTING || actor->state == CRTI_ACTOR_ALIVE;
}

static crti_list_t *list_of(crti_actor_table_t *table, unsigned state)
{
    switch (state) {
    case CRTI_ACTOR_PENDING:
    case CRTI_ACTOR_RESTARTING: return &table->waiting;
    case CRTI_ACTOR_STARTING:
    case CRTI_ACTOR_ALIVE: return &table->placed;
    default: return &table->dead;
    }
}

bool crti_actor_entry_has_ended_well(const crti_actor_entry_t *actor)
{
    return actor->state == CRTI_ACTOR_DEAD && actor->status == CRT_OK;
}

static void set_state(crti_actor_table_t *table, crti_actor_entry_t *actor,
                      unsigned state)
{
    unsigned before = actor->state;
    crti_list_t *list = list_of(table, state);
    char hex[CRTI_ID_HEX];

    assert(states[before].next & (1u << state));
    crti_log(CRTI_LOG_DEBUG, "control", "actor %s: %s -> %s", crti_id_hex(actor->id, hex),
             states[before].name, states[state].name);
    CRTI_ARROW("actor", states, before, state);
    table->counts[before]--;
    table->counts[state]++;
    actor->state = state;
    if (list_of(table, before) != list) {
        crti_list_remove(&actor->in_state);
        crti_list_append(list, &actor->in_state);
    }
    if (table->on_change)
        table->on_change(table->user, actor, before, true);
}

/* ---------------------------------------------------------------- the table */

void crti_actor_table_init(crti_actor_table_t *table, crti_actor_changed_t *on_change,
                           void *user)
{
    *table = (crti_actor_table_t){.on_change = on_change, .user = user};
    crti_map_init(&table->by_id, sizeof(crti_id_t));
    crti_map_init(&table->by_name, 0);
    crti_list_init(&table->waiting);
    crti_list_init(&table->placed);
    crti_list_init(&table->dead);
}

static void free_actor(crti_actor_entry_t *actor)
{
    if (actor->how != &crti_scheduling_default)
        free((void *)(uintptr_t)actor->how);
    free(actor->made);
    free(actor->full_name);
    free(actor->ipc);
    free(actor->tcp);
    free(actor->text);
    free(actor->watchers);
    crti_buffer_fini(&actor->saved);
    free(actor);
}

void crti_actor_table_fini(crti_actor_table_t *table)
{
    crti_list_t *lists[] = {&table->waiting, &table->placed, &table->dead};
    crti_list_t *item;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        while ((item = crti_list_pop(lists[i])))
            free_actor(CRTI_ACTOR_OF(item));
    crti_map_fini(&table->by_id);
    crti_map_fini(&table->by_name);
}

crti_actor_entry_t *crti_actor_table_get(const crti_actor_table_t *table, crti_id_t id)
{
    return crti_map_get(&table->by_id, &id);
}

char *crti_full_name(crti_span_t name_space, crti_span_t name)
{
    char *text = malloc(name_space.size + name.size + 2);

    if (text && name.size)
        snprintf(text, name_space.size + name.size + 2, "%.*s/%.*s", (int)name_space.size,
                 name_space.size ? (const char *)name_space.data : "", (int)name.size,
                 (const char *)name.data);
    else if (text)
        *text = '\0';
    return text;
}

crti_actor_entry_t *crti_actor_table_find(const crti_actor_table_t *table,
                                          crti_span_t name_space, crti_span_t name)
{
    CRTI_AUTO(free) char *text = crti_full_name(name_space, name);

    return text && *text ? crti_map_get(&table->by_name, text) : NULL;
}

crti_actor_entry_t *crti_actor_table_find_any(const crti_actor_table_t *table,
                                              const char *name)
{
    crti_actor_entry_t *last = NULL;

    CRTI_MAP_FOREACH (crti_actor_entry_t, actor, &table->by_name)
        if (crti_str_equal(actor->made->name, name))
            return actor;
    CRTI_LIST_FOREACH (item, &table->dead)
        if (crti_str_equal(CRTI_ACTOR_OF(item)->made->name, name))
            last = CRTI_ACTOR_OF(item);
    return last;
}

static crti_actor_entry_t *holder_of(const crti_actor_table_t *table,
                                     const crti_actor_entry_t *actor)
{
    return *actor->full_name ? crti_map_get(&table->by_name, actor->full_name) : NULL;
}

/* Few say where they run. Of a row that can't be read nothing holds. NULL: out of memory. */
static const crti_scheduling_t *make_how(const crti_msg_actor_create_t *m)
{
    crti_scheduling_t how, *copy;

    if (crti_scheduling_read(CRTI_SCHEDULING_SAID(m), m->selector.data, m->selector.size,
                             &how) != CRT_OK ||
        crti_scheduling_equal(&how, &crti_scheduling_default))
        return &crti_scheduling_default;
    copy = malloc(sizeof(*copy));
    if (copy)
        *copy = how;
    return copy;
}

/* An entry of its own, in no map yet. */
static crti_actor_entry_t *make(const crti_msg_actor_create_t *m)
{
    crti_actor_entry_t *actor = calloc(1, sizeof(*actor));

    if (actor == NULL)
        return NULL;
    crti_list_init(&actor->in_state);
    actor->id = m->actor;
    actor->made = crti_message_copy(CRTI_MSG_ACTOR_CREATE, m);
    actor->how = make_how(m);
    actor->full_name = crti_full_name(m->name_space, m->name);
    actor->ipc = crti_str_dup(crti_str(""));
    actor->tcp = crti_str_dup(crti_str(""));
    actor->text = crti_str_dup(crti_str(""));
    if (actor->made && actor->how && actor->full_name && actor->ipc && actor->tcp &&
        actor->text)
        return actor;
    free_actor(actor);
    return NULL;
}

/* Of a dead one; without memory it is kept. */
static void forget_creation(crti_actor_entry_t *actor)
{
    crti_msg_actor_create_t rest = *actor->made, *copy;

    rest.creation = rest.environment = crti_span(NULL, 0);
    copy = crti_message_copy(CRTI_MSG_ACTOR_CREATE, &rest);
    if (copy == NULL)
        return;
    free(actor->made);
    actor->made = copy;
}

/* An unsaved entry in PENDING, under no name yet. */
static crt_status_t insert(crti_actor_table_t *table,
                           const crti_msg_actor_create_t *message,
                           crti_actor_entry_t **actor_out)
{
    crti_actor_entry_t *actor = make(message);

    if (actor == NULL || crti_map_put(&table->by_id, &actor->id, actor) != CRT_OK) {
        if (actor)
            free_actor(actor);
        return crt_raise(CRT_ERR_NO_MEMORY, "actor entry");
    }
    actor->state = CRTI_ACTOR_PENDING;
    actor->unsaved = true;
    table->counts[CRTI_ACTOR_PENDING]++;
    crti_list_append(&table->waiting, &actor->in_state);
    crti_list_init(&actor->in_node);
    *actor_out = actor;
    return CRT_OK;
}

static crt_status_t claim_name(crti_actor_table_t *table, crti_actor_entry_t *actor)
{
    const crti_actor_entry_t *holder = holder_of(table, actor);
    char hex[CRTI_ID_HEX];

    if (holder)
        return crt_raise(
            CRT_ERR_EXISTS, "the name \"%s\" belongs to actor %s (%s, %s)",
            crti_copied_text(holder->made->name), crti_id_hex(holder->id, hex),
            crti_copied_text(holder->made->class_name), states[holder->state].name);
    return actor->made->name.size ? crti_map_put(&table->by_name, actor->full_name, actor)
                                  : CRT_OK;
}

static void drop(crti_actor_table_t *table, crti_actor_entry_t *actor);

crt_status_t crti_actor_table_create(crti_actor_table_t *table,
                                     const crti_msg_actor_create_t *message,
                                     crti_actor_entry_t **actor_out)
{
    crt_status_t status = insert(table, message, actor_out);

    if (status == CRT_OK) {
        (*actor_out)->serial = ++table->last_serial;
        status = claim_name(table, *actor_out);
        if (status != CRT_OK)
            drop(table, *actor_out);
    }
    return status;
}

crt_status_t crti_actor_table_load_new(crti_actor_table_t *table,
                                       const crti_msg_actor_create_t *message)
{
    crti_actor_entry_t *actor;

    if (crti_actor_table_get(table, message->actor))
        return CRT_OK;
    return insert(table, message, &actor);
}

static void free_name(crti_actor_table_t *table, const crti_actor_entry_t *actor)
{
    if (holder_of(table, actor) == actor)
        crti_map_remove(&table->by_name, actor->full_name);
}

static void drop(crti_actor_table_t *table, crti_actor_entry_t *actor)
{
    free_name(table, actor);
    crti_map_remove(&table->by_id, &actor->id);
    crti_list_remove(&actor->in_state);
    crti_list_remove(&actor->in_node);
    table->counts[actor->state]--;
    free_actor(actor);
}

void crti_actor_table_undo(crti_actor_table_t *table, crti_actor_entry_t *actor)
{
    drop(table, actor);
}

static crt_status_t claim_loaded(crti_actor_table_t *table, crti_actor_entry_t *actor)
{
    crti_actor_entry_t *holder = holder_of(table, actor);

    if (holder == NULL)
        return claim_name(table, actor);
    if (holder == actor)
        return CRT_OK;
    if (holder->serial > actor->serial) {
        actor->superseded = true;
        return CRT_OK;
    }
    holder->superseded = true;
    return crti_map_put(&table->by_name, actor->full_name, actor);
}

crt_status_t crti_actor_table_load(crti_actor_table_t *table, crti_actor_entry_t *actor,
                                   const crti_msg_row_actor_t *row, uint64_t now_ns)
{
    if (row->state >= CRTI_ACTOR_STATES)
        return crt_raise(CRT_ERR_CORRUPT, "actor row with state %llu",
                         (unsigned long long)row->state);
    actor->unsaved = false;
    actor->incarnation = row->actor_incarnation;
    actor->restarts = row->restarts;
    actor->node = row->node;
    actor->process = row->process;
    actor->process_incarnation = row->incarnation;
    actor->status = (crt_status_t)row->status;
    actor->end_ms = row->end_ms;
    actor->start_written = row->state == CRTI_ACTOR_STARTING;
    actor->expires_ns = now_ns + CRTI_LIMIT(dead_actors_time);
    crti_str_replace(&actor->ipc, row->ipc);
    crti_str_replace(&actor->tcp, row->tcp);
    crti_str_replace(&actor->text, row->text);
    table->counts[actor->state]--;
    table->counts[row->state]++;
    actor->state = (unsigned)row->state;
    crti_list_remove(&actor->in_state);
    crti_list_append(list_of(table, actor->state), &actor->in_state);
    if (actor->made->fenced && !crti_actor_entry_is_placed(actor) && actor->incarnation) {
        /* When its node was last heard of, the head before knew. */
        crti_actor_entry_fence(table, actor, now_ns + CRTI_FENCE_OVER_NS);
        actor->retry_ns = actor->fence_ns;
    }
    actor->serial = row->serial;
    if (row->serial > table->last_serial)
        table->last_serial = row->serial;
    if (actor->state != CRTI_ACTOR_DEAD)
        return claim_loaded(table, actor);
    forget_creation(actor);
    return CRT_OK;
}

/* ---------------------------------------------------------------- events */

void crti_actor_entry_placed(crti_actor_table_t *table, crti_actor_entry_t *actor,
                             crti_id_t node)
{
    if (!(CRTI_FAULT(3) && actor->restarts)) /* planted for tests/sim */
        actor->incarnation++;
    actor->node = node;
    actor->process = (crti_id_t){0, 0};
    actor->pid = 0;
    actor->process_incarnation = 0;
    actor->start_written = false;
    actor->fence_ns = 0;
    actor->alive_ns = 0;
    actor->is_killed = actor->is_moved = false;
    crti_str_replace(&actor->ipc, crti_str(""));
    crti_str_replace(&actor->tcp, crti_str(""));
    crti_str_replace(&actor->text, crti_str(""));
    set_state(table, actor, CRTI_ACTOR_STARTING);
}

bool crti_actor_entry_started(crti_actor_table_t *table, crti_actor_entry_t *actor,
                              uint64_t incarnation, crti_id_t process,
                              uint64_t process_incarnation, crti_span_t ipc,
                              crti_span_t tcp, uint64_t now_ns)
{
    if (incarnation != actor->incarnation || !crti_actor_entry_is_placed(actor))
        return false;
    if (actor->state == CRTI_ACTOR_ALIVE) /* said twice: after a broken link */
        return crti_id_equal(actor->process, process);
    actor->process = process;
    actor->process_incarnation = process_incarnation;
    crti_str_replace(&actor->ipc, ipc);
    crti_str_replace(&actor->tcp, tcp);
    actor->refusals = 0;
    actor->ran_no_call = false;
    actor->alive_ns = now_ns;
    set_state(table, actor, CRTI_ACTOR_ALIVE);
    return true;
}

void crti_actor_entry_refused(crti_actor_table_t *table, crti_actor_entry_t *actor,
                              const char *text, uint64_t now_ns)
{
    actor->retry_ns = now_ns + (CRTI_LIMIT(actor_retry) << actor->refusals);
    if (actor->refusals < CRTI_ACTOR_BACKOFF)
        actor->refusals++;
    crti_str_replace(&actor->text, crti_str(text));
    set_state(table, actor, actor->restarts ? CRTI_ACTOR_RESTARTING : CRTI_ACTOR_PENDING);
}

/* How long until its next process. */
static uint64_t pause_of(crti_actor_entry_t *actor, crt_status_t status, uint64_t now_ns)
{
    if (status == CRT_ERR_NODE_LOST)
        return 0;
    if (actor->is_killed ||
        (actor->alive_ns && now_ns - actor->alive_ns >= CRTI_LIMIT(actor_young)))
        actor->deaths = 0;
    else if (actor->deaths <= CRTI_ACTOR_PAUSES)
        actor->deaths++;
    return actor->deaths < 2 ? 0 : CRTI_LIMIT(actor_restart_pause) << (actor->deaths - 2);
}

static void restart_later(crti_actor_entry_t *actor, uint64_t pause, uint64_t now_ns)
{
    char text[2200];

    if (pause == 0)
        return;
    if (now_ns + pause > actor->retry_ns)
        actor->retry_ns = now_ns + pause;
    snprintf(text, sizeof(text), "%s (again within %g s; the next process comes in %g s)",
             actor->text, (double)CRTI_LIMIT(actor_young) / CRTI_S,
             (double)pause / CRTI_S);
    crti_str_replace(&actor->text, crti_str(text));
}

void crti_actor_entry_died(crti_actor_table_t *table, crti_actor_entry_t *actor,
                           crt_status_t status, const char *text, bool may_restart,
                           uint64_t now_ns, int64_t wall_ms)
{
    if (!crti_actor_entry_is_placed(actor))
        return;
    if (!may_restart || (actor->made->max_restarts >= 0 && !actor->is_moved &&
                         actor->restarts >= (uint64_t)actor->made->max_restarts)) {
        crti_actor_entry_end(table, actor, status, text, now_ns, wall_ms);
        return;
    }
    actor->restarts += !actor->is_moved;
    actor->retry_ns = actor->fence_ns;
    actor->status = status;
    crti_str_replace(&actor->text, crti_str(text));
    restart_later(actor, pause_of(actor, status, now_ns), now_ns);
    set_state(table, actor, CRTI_ACTOR_RESTARTING);
}

void crti_actor_entry_end(crti_actor_table_t *table, crti_actor_entry_t *actor,
                          crt_status_t status, const char *text, uint64_t now_ns,
                          int64_t wall_ms)
{
    if (actor->state == CRTI_ACTOR_DEAD)
        return;
    actor->status = status;
    actor->end_ms = wall_ms;
    actor->expires_ns = now_ns + CRTI_LIMIT(dead_actors_time);
    crti_str_replace(&actor->text, crti_str(text));
    free_name(table, actor);
    forget_creation(actor);
    set_state(table, actor, CRTI_ACTOR_DEAD);
}

void crti_actor_entry_fence(crti_actor_table_t *table, crti_actor_entry_t *actor,
                            uint64_t until_ns)
{
    if (!actor->made->fenced || CRTI_FAULT(7)) /* planted for tests/sim */
        return;
    actor->fence_ns = until_ns;
    if (until_ns > table->fenced_until_ns)
        table->fenced_until_ns = until_ns;
}

void crti_actor_entry_unfence(crti_actor_table_t *table, crti_actor_entry_t *actor,
                              uint64_t incarnation)
{
    uint64_t fence = actor->fence_ns;

    if (fence == 0 || actor->incarnation != incarnation)
        return;
    actor->fence_ns = 0;
    if (actor->retry_ns == fence)
        actor->retry_ns = 0;
    CRTI_LIST_FOREACH (item, &table->waiting) {
        crti_actor_entry_t *other = CRTI_ACTOR_OF(item);

        if (other->retry_ns == fence && other->made->name.size &&
            strcmp(other->full_name, actor->full_name) == 0)
            other->retry_ns = 0;
    }
}

void crti_actor_entry_wait_for_name(const crti_actor_table_t *table,
                                    crti_actor_entry_t *actor, uint64_t now_ns)
{
    if (!actor->made->name.size || table->fenced_until_ns <= now_ns)
        return;
    CRTI_LIST_FOREACH (item, &table->dead) {
        const crti_actor_entry_t *dead = CRTI_ACTOR_OF(item);

        if (dead->fence_ns > now_ns && dead->fence_ns > actor->retry_ns &&
            strcmp(dead->full_name, actor->full_name) == 0) {
            actor->retry_ns = dead->fence_ns;
            crti_str_replace(
                &actor->text,
                crti_str("the fenced actor that had its name may still take calls"));
        }
    }
}

void crti_actor_entry_waits(crti_actor_table_t *table, crti_actor_entry_t *actor,
                            const char *text)
{
    if (strcmp(actor->text, text) == 0)
        return;
    crti_str_replace(&actor->text, crti_str(text));
    if (table->on_change)
        table->on_change(table->user, actor, actor->state, false);
}

/* ---------------------------------------------------------------- watchers */

crt_status_t crti_actor_entry_watch(crti_actor_entry_t *actor, uint64_t link)
{
    uint64_t *watchers;

    for (size_t i = 0; i < actor->watcher_count; i++)
        if (actor->watchers[i] == link)
            return CRT_OK;
    watchers = realloc(actor->watchers, (actor->watcher_count + 1) * sizeof(*watchers));
    if (watchers == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "watcher");
    actor->watchers = watchers;
    actor->watchers[actor->watcher_count++] = link;
    return CRT_OK;
}

void crti_actor_entry_unwatch(crti_actor_entry_t *actor, uint64_t link)
{
    for (size_t i = 0; i < actor->watcher_count; i++)
        if (actor->watchers[i] == link) {
            actor->watchers[i] = actor->watchers[--actor->watcher_count];
            return;
        }
}

/* ---------------------------------------------------------------- expiry */

crti_actor_entry_t *crti_actor_table_expired(const crti_actor_table_t *table,
                                             uint64_t now_ns)
{
    crti_actor_entry_t *oldest;

    if (crti_list_is_empty(&table->dead))
        return NULL;
    oldest = CRTI_ACTOR_OF(table->dead.next);
    if (oldest->fence_ns > now_ns)
        return NULL;
    if (table->counts[CRTI_ACTOR_DEAD] > CRTI_LIMIT(dead_actors) ||
        oldest->expires_ns <= now_ns)
        return oldest;
    return NULL;
}

void crti_actor_table_forget(crti_actor_table_t *table, crti_actor_entry_t *actor)
{
    assert(actor->state == CRTI_ACTOR_DEAD);
    drop(table, actor);
}

uint64_t crti_actor_table_deadline(const crti_actor_table_t *table, uint64_t done_ns)
{
    uint64_t earliest = UINT64_MAX;

    if (!crti_list_is_empty(&table->dead))
        earliest = CRTI_ACTOR_OF(table->dead.next)->expires_ns;
    CRTI_LIST_FOREACH (item, &table->waiting) {
        const crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

        if (actor->retry_ns > done_ns && actor->retry_ns < earliest)
            earliest = actor->retry_ns;
    }
    return earliest;
}

/* ---------------------------------------------------------------- messages */

crti_msg_row_actor_t crti_actor_entry_row(const crti_actor_entry_t *actor)
{
    return (crti_msg_row_actor_t){
        .actor = actor->id,
        .serial = actor->serial,
        .actor_incarnation = actor->incarnation,
        .state = actor->state,
        .restarts = actor->restarts,
        .status = actor->status,
        .text = crti_str(actor->text),
        .end_ms = actor->end_ms,
        .process = actor->process,
        .incarnation = actor->process_incarnation,
        .node = actor->node,
        .ipc = crti_str(actor->ipc),
        .tcp = crti_str(actor->tcp),
    };
}

crti_msg_actor_state_t crti_actor_entry_notice(const crti_actor_entry_t *actor)
{
    /* To those who call it a dead one is a failure, whatever the reason. */
    crt_status_t status =
        crti_actor_entry_has_ended_well(actor) ? CRT_ERR_ACTOR_DIED : actor->status;
    crti_msg_actor_state_t notice = {
        .actor = actor->id,
        .actor_incarnation = actor->incarnation,
        .state = actor->state,
        .class_name = actor->made->class_name,
        .name = actor->made->name,
        .restarts = actor->restarts,
        .status = status,
        .text = crti_str(actor->text),
        .process = actor->process,
        .incarnation = actor->process_incarnation,
        .node = actor->node,
        .ipc = crti_str(actor->ipc),
        .tcp = crti_str(actor->tcp),
        .owner = actor->made->owner,
        .owner_node = actor->made->owner_node,
        .owner_incarnation = actor->made->owner_incarnation,
        .owner_tcp = actor->made->owner_tcp,
        .lifetime = actor->made->lifetime,
        .ran_no_call = actor->ran_no_call,
    };

    CRTI_TERMS_COPY(&notice, actor->made);
    return notice;
}
