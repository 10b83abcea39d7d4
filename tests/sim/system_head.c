/* SPDX-License-Identifier: Apache-2.0 */
/* The head around control: its links are the real ones (head_links.c); its redis-server is a model
 * that does operations in order, late, twice when it was gone in between, or refuses them for a
 * while. What it said to have done is there when the head, or it, comes back. See system.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/control/control_drain.h"
#include "runtime/control/control_state.h"
#include "runtime/control/links/head_links.h"
#include "tests/sim/system.h"

#define KEY (CRTI_ID_HEX + 280)

typedef struct row {
    crti_list_t in_rows;
    crti_store_table_t table;
    char key[KEY]; /* with the table's number in front */
    crti_buffer_t value;
} row_t;

typedef struct operation {
    crti_list_t in_pending;
    uint64_t ticket, due;
    bool is_again;
    crti_store_verb_t verb;
    crti_store_table_t table;
    char key[KEY];
    crti_buffer_t value, expected;
    crti_store_swap_t swap;
} operation_t;

struct sys_head {
    sys_process_t *process; /* NULL: down */
    crti_control_t *control;
    crti_head_links_t *links;
    crti_timer_t tick, settle;
    /* redis, which outlives the head's processes */
    crti_list_t rows, pending;
    crti_map_t by_key;
    uint64_t due, stall_until, refuse_until;
    crti_map_t revoked; /* this too, */
    crti_map_t swaps;   /* and the ids of those that were carried out */
};

static sys_head_t *head(void)
{
    return sys->head;
}

/* ---------------------------------------------------------------- redis */

static void name_key(char key[KEY], crti_store_table_t table, crti_span_t from)
{
    snprintf(key, KEY, "%d/%.*s", (int)table, (int)from.size,
             from.size ? (const char *)from.data : "");
}

static row_t *add_row(const operation_t *o)
{
    row_t *row = calloc(1, sizeof(*row));

    if (!row)
        abort();
    row->table = o->table;
    memcpy(row->key, o->key, sizeof(row->key));
    crti_list_append(&head()->rows, &row->in_rows);
    if (crti_map_put(&head()->by_key, row->key, row) != CRT_OK)
        abort();
    return row;
}

static void remove_row(row_t *row)
{
    crti_map_remove(&head()->by_key, row->key);
    crti_list_remove(&row->in_rows);
}

static bool is_same(const crti_buffer_t *a, const crti_buffer_t *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* Returns what the verb calls `found`. */
static bool apply(const operation_t *o)
{
    row_t *row = crti_map_get(&head()->by_key, o->key);
    bool found = row != NULL;

    switch (o->verb) {
    case CRTI_STORE_DELETE:
        if (row)
            remove_row(row);
        return found;
    case CRTI_STORE_SWAP:
        if (crti_map_get(&head()->swaps, &o->swap.id))
            return true;
        if (o->swap.is_new ? row != NULL : !row || !is_same(&row->value, &o->expected))
            return false;
        if (crti_map_put(&head()->swaps, &o->swap.id, head()) != CRT_OK)
            abort();
        found = true;
        if (o->swap.is_deletion) {
            if (row)
                remove_row(row);
            return true;
        }
        break;
    case CRTI_STORE_PUT_NEW:
        if (row) /* again: its own value is a success */
            return !(o->is_again && is_same(&row->value, &o->value));
        break;
    case CRTI_STORE_PUT: break;
    default: return found;
    }
    if (!row)
        row = add_row(o);
    row->value.size = 0;
    crti_buffer_append(&row->value, o->value.data, o->value.size);
    return found;
}

static void run_first(void *user, uint64_t number);

static void schedule(void)
{
    const operation_t *o;
    sim_world_t *w = sys->world;

    if (crti_list_is_empty(&head()->pending))
        return;
    o = CRTI_CONTAINER(head()->pending.next, operation_t, in_pending);
    sim_after(w, o->due > w->now ? o->due - w->now : 0, run_first, NULL, o->ticket);
}

typedef struct outcome {
    const operation_t *operation;
    crt_status_t status;
    bool found;
    crti_span_t value;
} outcome_t;

static void settle(void);

static void tell_stored(void *user, uint64_t number)
{
    const outcome_t *out = user;

    crti_control_stored(head()->control, out->operation->ticket, out->status,
                        "the disk is full", out->found, out->value, sys->world->now);
    settle();
}

static void run_first(void *user, uint64_t ticket)
{
    sim_world_t *w = sys->world;
    operation_t *o;
    outcome_t out = {.status = CRT_OK};
    const row_t *row;

    if (!head()->process || crti_list_is_empty(&head()->pending))
        return;
    o = CRTI_CONTAINER(head()->pending.next, operation_t, in_pending);
    if (o->ticket != ticket)
        return;
    if (o->due > w->now || head()->stall_until > w->now) {
        /* Gone in the middle of it: what was done is not known, so it is sent again. */
        if (o->due <= w->now && !o->is_again && sim_chance(w, 3000)) {
            apply(o);
            o->is_again = true;
        }
        o->due = o->due > head()->stall_until ? o->due : head()->stall_until;
        schedule();
        return;
    }
    out.operation = o;
    if (head()->refuse_until > w->now && o->verb != CRTI_STORE_GET) {
        out.status = CRT_ERR_IO;
        if (sim_chance(w, 2000)) /* what is said to have failed may have been done */
            apply(o);
    } else {
        out.found = apply(o);
    }
    row = crti_map_get(&head()->by_key, o->key);
    if (o->verb == CRTI_STORE_GET && row)
        out.value = crti_span(row->value.data, row->value.size);
    crti_list_remove(&o->in_pending);
    sys_run(head()->process, tell_stored, &out, 0);
    schedule();
}

static void do_store(void *user, const crti_store_operation_t *from)
{
    sim_world_t *w = sys->world;
    operation_t *o = calloc(1, sizeof(*o));
    bool is_first = crti_list_is_empty(&head()->pending);

    if (!o)
        abort();
    o->due = w->now + sim_between(w, 50000, 1500000);
    o->due = o->due < head()->due ? head()->due : o->due;
    head()->due = o->due;
    o->ticket = from->ticket;
    o->verb = from->verb;
    o->table = from->table;
    name_key(o->key, from->table, from->key);
    crti_buffer_append(&o->value, from->value.data, from->value.size);
    crti_buffer_append(&o->expected, from->expected.data, from->expected.size);
    o->swap = from->swap;
    crti_list_append(&head()->pending, &o->in_pending);
    if (is_first)
        schedule();
}

void sys_redis_stall(uint64_t until)
{
    head()->stall_until = until;
}

void sys_redis_refuse(uint64_t until)
{
    head()->refuse_until = until;
}

size_t sys_redis_count(crti_store_table_t table)
{
    size_t count = 0;

    CRTI_LIST_FOREACH (item, &head()->rows)
        count += CRTI_CONTAINER(item, row_t, in_rows)->table == table;
    return count;
}

/* ---------------------------------------------------------------- control */

static void on_settle(void *user)
{
    uint64_t at = crti_control_deadline(head()->control);

    if (at == UINT64_MAX)
        crti_loop_cancel(head()->process->loop, &head()->tick);
    else
        crti_loop_start(head()->process->loop, &head()->tick, at);
}

static void settle(void)
{
    if (!crti_timer_is_started(&head()->settle))
        crti_loop_start(head()->process->loop, &head()->settle, 0);
}

static void on_tick(void *user)
{
    crti_control_tick(head()->control, sys->world->now);
    settle();
}

static void on_opened(void *user, uint64_t link, bool is_admin)
{
    crti_control_opened(head()->control, link, is_admin, sys->world->now);
    settle();
}

static void on_message(void *user, uint64_t link, const crti_message_t *m)
{
    crti_control_message(head()->control, link, m, sys->world->now);
    settle();
}

static void on_closed(void *user, uint64_t link, const char *text)
{
    crti_control_closed(head()->control, link, text, sys->world->now);
    settle();
}

static void on_alone(void *user)
{
}

static void on_accept(void *user, crti_stream_t *stream)
{
    crti_head_links_add_stream(head()->links, stream);
}

static void load_rows(void)
{
    for (int table = 0; table < CRTI_STORE_KV; table++)
        CRTI_LIST_FOREACH (item, &head()->rows) {
            const row_t *row = CRTI_CONTAINER(item, row_t, in_rows);

            if ((int)row->table == table)
                crti_control_load(
                    head()->control, row->table, crti_str(strchr(row->key, '/') + 1),
                    crti_span(row->value.data, row->value.size), sys->world->now);
        }
}

/* Sometimes there is no room for it: then the outcome is not known, and a kill must reach it. */
static bool do_revoke(void *user, crti_id_t id, bool is_revoked)
{
    if (!is_revoked)
        return crti_map_remove(&head()->revoked, &id) != NULL;
    return !sim_chance(sys->world, 3000) &&
           crti_map_put(&head()->revoked, &id, head()) == CRT_OK;
}

static void load_revoked(void)
{
    size_t cursor = 0;
    const void *key;
    void *value;

    while (crti_map_next(&head()->revoked, &cursor, &key, &value))
        crti_control_load_revoked(head()->control, *(const crti_id_t *)key);
}

bool sys_head_has_revoked(crti_id_t id)
{
    return crti_map_get(&head()->revoked, &id) != NULL;
}

size_t sys_head_revoked(void)
{
    return head()->revoked.count;
}

static void serve(sys_process_t *self)
{
    static const crti_head_links_handlers_t handlers = {.on_opened = on_opened,
                                                        .on_message = on_message,
                                                        .on_closed = on_closed,
                                                        .on_alone = on_alone};
    crti_stream_listener_t *listener;
    crti_control_config_t config = {.cluster = {1, 1},
                                    .address = "10.0.0.51:6380",
                                    .headless_timeout_ms = 600000,
                                    .seed = sim_random(sys->world)};

    head()->process = self;
    head()->tick = (crti_timer_t){.on_expired = on_tick};
    head()->settle = (crti_timer_t){.on_expired = on_settle};
    head()->due = 0;
    crti_loop_new(&self->loop);
    if (crti_head_links_new(self->loop, &handlers, &head()->links) != CRT_OK)
        abort();
    config.actions = (crti_control_actions_t){.user = head()->links,
                                              .send = crti_head_links_send,
                                              .drop = crti_head_links_drop,
                                              .queued = crti_head_links_queued,
                                              .store = do_store,
                                              .revoke = do_revoke};
    if (crti_control_new(&config, &head()->control) != CRT_OK)
        abort();
    load_revoked();
    load_rows();
    crti_control_loaded(head()->control, sys->world->now);
    if (crti_control_figures(head()->control).rows_unreadable)
        sim_fail(sys->world, "a row can't be read: %s", crt_error_detail());
    crti_stream_listen(self->loop, NULL, "10.0.0.51", 6380, on_accept, NULL, &listener);
    settle();
    sim_note(sys->world, "the head serves");
}

void sys_head_start(void)
{
    if (!sys->head) {
        sys->head = calloc(1, sizeof(*sys->head));
        if (!sys->head)
            abort();
        crti_list_init(&head()->rows);
        crti_list_init(&head()->pending);
        crti_map_init(&head()->by_key, 0);
        crti_map_init(&head()->revoked, sizeof(crti_id_t));
        crti_map_init(&head()->swaps, sizeof(crti_id_t));
    }
    if (!head()->process)
        head()->process = sys_process_new(SYS_HEAD, SYS_HEAD_HOST, NULL, serve);
}

void sys_head_kill(void)
{
    if (!head()->process || !head()->control)
        return;
    sim_note(sys->world, "the head is killed");
    sys_kill(head()->process, SIGKILL);
    head()->process = NULL;
    head()->control = NULL;
    /* Some of what was on its way to redis has arrived there. */
    while (!crti_list_is_empty(&head()->pending) && sim_chance(sys->world, 6000)) {
        operation_t *o = CRTI_CONTAINER(head()->pending.next, operation_t, in_pending);

        apply(o);
        crti_list_remove(&o->in_pending);
    }
    crti_list_init(&head()->pending);
}

static void drain(void *user, uint64_t left_ms)
{
    const crti_msg_node_drain_t m = {.node = *(const crti_id_t *)user,
                                     .left_ms = left_ms};

    crti_control_drain(head()->control, 0, 0, &m);
    settle();
}

void sys_head_drain(crti_id_t node, uint64_t left_ms)
{
    if (head()->process && head()->control)
        sys_run(head()->process, drain, &node, left_ms);
}

bool sys_head_is_up(void)
{
    return head()->process != NULL;
}

const crti_control_t *sys_head_control(void)
{
    return head()->control;
}

bool sys_head_has_actor(crti_id_t id, bool *alive_out, crti_id_t *process_out)
{
    const crti_actor_entry_t *actor =
        head()->control ? crti_actor_table_get(&head()->control->actors, id) : NULL;

    *alive_out = actor && actor->state == CRTI_ACTOR_ALIVE;
    *process_out = actor ? actor->process : (crti_id_t){0};
    return actor != NULL;
}
