/* SPDX-License-Identifier: Apache-2.0 */
/* The store's model. See cluster.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cluster.h"

static void name_key(char key[CRTI_ID_HEX + 16], crti_store_table_t table,
                     crti_span_t from)
{
    snprintf(key, CRTI_ID_HEX + 16, "%d/%.*s", (int)table, (int)from.size,
             from.size ? (const char *)from.data : "");
}

static void free_operation(stored_t *o)
{
    crti_list_remove(&o->in_pending);
    crti_buffer_fini(&o->value);
    free(o);
}

static void free_row(scene_t *s, row_t *row)
{
    crti_map_remove(&s->row_by_key, row->key);
    crti_list_remove(&row->in_rows);
    crti_buffer_fini(&row->value);
    free(row);
}

static bool clear_rows(scene_t *s, const char *prefix)
{
    bool found = false;

    CRTI_LIST_FOREACH_SAFE (item, &s->rows) {
        row_t *row = CRTI_CONTAINER(item, row_t, in_rows);

        if (strncmp(row->key, prefix, strlen(prefix)) == 0) {
            free_row(s, row);
            found = true;
        }
    }
    return found;
}

/* Returns whether there was a value before. */
static bool apply(scene_t *s, const stored_t *o)
{
    row_t *row = crti_map_get(&s->row_by_key, o->key);
    bool found = row != NULL;

    if (o->verb == CRTI_STORE_CLEAR)
        return clear_rows(s, o->key);
    if (o->verb == CRTI_STORE_DELETE && row)
        free_row(s, row);
    /* The swaps here expect that there is nothing yet. */
    if (o->verb != CRTI_STORE_PUT &&
        !((o->verb == CRTI_STORE_PUT_NEW || o->verb == CRTI_STORE_SWAP) && !found))
        return found;
    if (row == NULL) {
        row = calloc(1, sizeof(*row));
        if (row == NULL)
            abort();
        row->table = o->table;
        memcpy(row->key, o->key, sizeof(row->key));
        crti_list_append(&s->rows, &row->in_rows);
        crti_map_put(&s->row_by_key, row->key, row);
    }
    row->value.size = 0;
    crti_buffer_append(&row->value, o->value.data, o->value.size);
    return found;
}

static void run_first(void *user, uint64_t life)
{
    scene_t *s = user;
    sim_world_t *w = s->world;
    bool fails = s->store_fail_until > w->now && !s->is_ending;
    const row_t *row;
    crti_span_t value = {0};
    stored_t *o;
    bool found;

    if (life != s->head_life || s->control == NULL)
        return;
    o = CRTI_CONTAINER(s->pending.next, stored_t, in_pending);
    if (o->due_ns > w->now) {
        sim_after(w, o->due_ns - w->now, run_first, s, life);
        return;
    }
    /* What is said to have failed may have been done. */
    found = fails && sim_chance(w, 8000) ? false : apply(s, o);
    row = crti_map_get(&s->row_by_key, o->key);
    if (o->verb == CRTI_STORE_GET && row)
        value = crti_span(row->value.data, row->value.size);
    crti_list_remove(&o->in_pending);
    crti_control_stored(s->control, o->ticket, fails ? CRT_ERR_IO : CRT_OK,
                        "the disk is full", found, value, w->now);
    free_operation(o);
    head_settle(s);
}

void store_add(scene_t *s, const crti_store_operation_t *from)
{
    sim_world_t *w = s->world;
    stored_t *o = calloc(1, sizeof(*o));
    uint64_t due = w->now + sim_between(w, 50000, 1500000);

    if (o == NULL)
        abort();
    if (s->store_stall_until > due && !s->is_ending)
        due = s->store_stall_until;
    if (due < s->store_due)
        due = s->store_due;
    s->store_due = due;
    o->ticket = from->ticket;
    o->due_ns = due;
    o->verb = from->verb;
    o->table = from->table;
    name_key(o->key, from->table, from->key);
    crti_buffer_append(&o->value, from->value.data, from->value.size);
    crti_list_append(&s->pending, &o->in_pending);
    sim_after(w, due - w->now, run_first, s, s->head_life);
}

void store_head_died(scene_t *s)
{
    while (!crti_list_is_empty(&s->pending) && sim_chance(s->world, 6000)) {
        stored_t *o = CRTI_CONTAINER(s->pending.next, stored_t, in_pending);

        apply(s, o);
        free_operation(o);
    }
    while (!crti_list_is_empty(&s->pending))
        free_operation(CRTI_CONTAINER(s->pending.next, stored_t, in_pending));
    s->store_due = 0;
}

void store_load(scene_t *s)
{
    for (int table = 0; table < CRTI_STORE_KV; table++)
        CRTI_LIST_FOREACH (item, &s->rows) {
            const row_t *row = CRTI_CONTAINER(item, row_t, in_rows);

            if ((int)row->table == table)
                crti_control_load(s->control, row->table, crti_str(row->key),
                                  crti_span(row->value.data, row->value.size),
                                  s->world->now);
        }
}

size_t store_count(const scene_t *s, crti_store_table_t table)
{
    size_t count = 0;

    CRTI_LIST_FOREACH (item, &s->rows)
        count += CRTI_CONTAINER(item, row_t, in_rows)->table == table;
    return count;
}

void store_free(scene_t *s)
{
    while (!crti_list_is_empty(&s->pending))
        free_operation(CRTI_CONTAINER(s->pending.next, stored_t, in_pending));
    while (!crti_list_is_empty(&s->rows))
        free_row(s, CRTI_CONTAINER(s->rows.next, row_t, in_rows));
    crti_map_fini(&s->row_by_key);
}
