/* SPDX-License-Identifier: Apache-2.0 */
/* The actors as JSON: all, one, those that a query wants, or their numbers (docs/design/state.md,
 * "actors").
 *
 * Where it sits
 *     STATE_QUERY -> state_json.c, control_forward.c -> [ rows/actor_rows.c ] -> STATE_ANSWER
 * Of many thousand rows only those that are wanted are written.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/base/fence.h"
#include "runtime/control/control_state.h"
#include "runtime/control/rows/column_list.h"
#include "runtime/control/rows/row_query.h"
#include "runtime/control/rows/state_rows.h"

#define FENCE_TEXT 96

CRTI_COLUMN_IDS(CRTI_ACTOR_COLUMNS);
CRTI_COLUMN_KEYS(CRTI_ACTOR_COLUMNS);

/* What rows are read from. */
typedef struct view {
    const crti_control_t *c;
    bool is_detail;
    bool is_whole;            /* of one actor: no text is cut */
    json_t *queues;           /* {"<actor id>": what its node says of it} */
    char fence[FENCE_TEXT];   /* text of a cell */
    char cut[CRTI_LIST_TEXT]; /* another */
    /* of ACTOR_ID, JOB_ID, NODE_ID, WORKER_ID, PLACEMENT_GROUP_ID */
    char hex[5][CRTI_ID_HEX];
} view_t;

/* What it waits for, why it died, or why nobody can call it although it runs. */
static const char *whole_message_of(view_t *view, const crti_actor_entry_t *actor)
{
    const crti_control_t *c = view->c;
    const crti_node_entry_t *node;

    if (!actor->made->fenced || actor->state != CRTI_ACTOR_ALIVE)
        return actor->text;
    node = crti_node_table_get(&c->nodes, actor->node);
    if (node == NULL || c->now_ns - node->heard_ns < CRTI_FENCE_NS)
        return actor->text;
    snprintf(view->fence, sizeof(view->fence),
             "it takes no calls: nothing was heard of its node for %.1f s",
             (double)(c->now_ns - node->heard_ns) / CRTI_S);
    return view->fence;
}

static const char *message_of(view_t *view, const crti_actor_entry_t *actor)
{
    const char *text = whole_message_of(view, actor);

    return view->is_whole ? text : crti_list_text(text, view->cut);
}

static bool has_failed(const crti_actor_entry_t *actor)
{
    return actor->state == CRTI_ACTOR_DEAD && !crti_actor_entry_has_ended_well(actor);
}

static int64_t pid_of(const crti_actor_entry_t *actor)
{
    return actor->state == CRTI_ACTOR_ALIVE && actor->pid > 0 ? actor->pid : 0;
}

/* What its node says of its queue; NULL: nothing. */
static const json_t *queue_figure(const view_t *view, const crti_actor_entry_t *actor,
                                  size_t column)
{
    char hex[CRTI_ID_HEX];

    return json_object_get(json_object_get(view->queues, crti_id_hex(actor->id, hex)),
                           columns[column]);
}

/* ---------------------------------------------------------------- cells */

static crti_cell_t text_cell(const char *text)
{
    return crti_cell_text(text ? text : "");
}

static crti_cell_t actor_cell(void *user, const void *row, size_t column)
{
    const crti_actor_entry_t *actor = row;
    view_t *view = user;
    const json_t *figure;

    switch (column) {
    case ACTOR_ID: return crti_cell_id(actor->id, view->hex[0]);
    case CLASS_NAME: return text_cell(crti_copied_text(actor->made->class_name));
    case NAME: return text_cell(crti_copied_text(actor->made->name));
    case NAME_SPACE: return text_cell(crti_copied_text(actor->made->name_space));
    case STATE: return crti_cell_text(crti_actor_state_name(actor->state));
    case JOB_ID: return crti_cell_id(actor->made->job, view->hex[1]);
    case NODE_ID: return crti_cell_id(actor->node, view->hex[2]);
    case WORKER_ID: return crti_cell_id(actor->process, view->hex[3]);
    case PID:
        return pid_of(actor) ? crti_cell_number((double)pid_of(actor)) : (crti_cell_t){0};
    case NUM_RESTARTS: return crti_cell_number((double)actor->restarts);
    case IS_DETACHED: return crti_cell_bool(actor->made->detached);
    case IS_FENCED: return crti_cell_bool(actor->made->fenced);
    case HAS_FAILED: return crti_cell_bool(has_failed(actor));
    case MESSAGE: return text_cell(message_of(view, actor));
    case SAVED_BYTES: return crti_cell_number((double)actor->saved.size);
    case PLACEMENT_GROUP_ID: return crti_cell_id(actor->how->group, view->hex[4]);
    default:
        figure = queue_figure(view, actor, column);
        return json_is_number(figure) ? crti_cell_number(json_number_value(figure))
                                      : (crti_cell_t){0};
    }
}

static crti_row_table_t table_of(view_t *view)
{
    return (crti_row_table_t){
        .name = "actors", .columns = columns, .cell = actor_cell, .user = view};
}

/* ---------------------------------------------------------------- rows */

static void write_resources(crti_json_writer_t *w, const crti_resources_t *r)
{
    crti_json_open(w, '{');
    for (unsigned i = 0; i < r->count; i++) {
        int64_t amount = r->item[i].amount;

        crti_json_key(w, r->item[i].name);
        if (amount % CRTI_RESOURCE_ONE == 0)
            crti_json_integer(w, amount / CRTI_RESOURCE_ONE);
        else
            crti_json_real(w, (double)amount / CRTI_RESOURCE_ONE);
    }
    crti_json_close(w, '}');
}

static void write_figures(crti_json_writer_t *w, const view_t *view,
                          const crti_actor_entry_t *actor)
{
    for (size_t column = QUEUE_LENGTH; column <= QUEUE_WAIT_MS; column++) {
        const json_t *figure = queue_figure(view, actor, column);

        crti_json_key(w, columns[column]);
        if (json_is_integer(figure))
            crti_json_integer(w, json_integer_value(figure));
        else if (json_is_real(figure))
            crti_json_real(w, json_real_value(figure));
        else
            crti_json_null(w);
    }
}

static void write_actor(crti_json_writer_t *w, view_t *view,
                        const crti_actor_entry_t *actor)
{
    const crti_row_table_t table = table_of(view);

    crti_json_open(w, '{');
    crti_row_columns_write(w, &table, actor, QUEUE_LENGTH);
    crti_json_key(w, "required_resources");
    write_resources(w, &actor->made->resources);
    if (view->is_detail)
        write_figures(w, view, actor);
    crti_json_close(w, '}');
}

/* ---------------------------------------------------------------- answers */

static void write_one(void *user, crti_json_writer_t *w, const void *row)
{
    write_actor(w, user, row);
}

/* The dead ones last, the newest of them first. */
static void offer(const view_t *view, crti_row_picker_t *picker)
{
    const crti_actor_table_t *actors = &view->c->actors;

    CRTI_LIST_FOREACH (item, &actors->placed)
        crti_row_picker_offer(picker, CRTI_ACTOR_OF(item));
    CRTI_LIST_FOREACH (item, &actors->waiting)
        crti_row_picker_offer(picker, CRTI_ACTOR_OF(item));
    for (const crti_list_t *at = actors->dead.prev; at != &actors->dead; at = at->prev)
        crti_row_picker_offer(picker, CRTI_ACTOR_OF(at));
}

/* By id, or all. */
static void write_list(crti_json_writer_t *w, view_t *view, const char *filter)
{
    crti_row_table_t table = table_of(view);
    crti_row_picker_t picker = {.table = &table, .write = write_one, .w = w};
    const crti_actor_entry_t *actor;
    crti_id_t id;

    view->is_whole = *filter != '\0';
    crti_json_open(w, '[');
    if (view->is_whole) {
        actor = crti_id_parse(filter, &id) ? crti_actor_table_get(&view->c->actors, id)
                                           : NULL;
        if (actor)
            write_actor(w, view, actor);
    } else {
        offer(view, &picker);
    }
    crti_json_close(w, ']');
}

static void write_picked(crti_json_writer_t *w, view_t *view, const crti_row_query_t *q)
{
    crti_row_table_t table = table_of(view);
    crti_row_picker_t picker = {.table = &table, .query = q, .write = write_one, .w = w};

    view->is_whole = crti_row_query_is_of_one(q, ACTOR_ID);
    crti_json_open(w, '{');
    crti_row_picker_begin(&picker);
    offer(view, &picker);
    crti_row_picker_end(&picker);
    crti_json_close(w, '}');
}

crt_status_t crti_actor_rows_check(crti_span_t filter)
{
    view_t view = {.c = NULL};
    crti_row_table_t table = table_of(&view);

    return crti_row_query_check(filter, &table);
}

static crt_status_t write_answer(crti_json_writer_t *w, view_t *view, crti_span_t filter)
{
    crti_row_table_t table = table_of(view);
    crti_row_query_t query;
    char id[CRTI_ID_HEX + 1];
    crt_status_t status;

    if (!crti_row_query_is(filter)) {
        write_list(w, view, crti_text(filter, id, sizeof(id)));
        return w->status;
    }
    status = crti_row_query_parse(filter, &table, &query);
    if (status != CRT_OK)
        return status;
    write_picked(w, view, &query);
    crti_row_query_fini(&query);
    return w->status;
}

static char *answer(view_t *view, crti_span_t filter)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    crt_status_t status = write_answer(&w, view, filter);

    return crti_json_take(&w, status);
}

char *crti_actor_rows(const crti_control_t *c, crti_span_t filter)
{
    view_t view = {.c = c};

    return answer(&view, filter);
}

static json_t *queues_of(crti_span_t answers)
{
    json_t *queues = json_object(), *one, *row;
    crti_span_t entry;
    size_t i;

    while (crti_list_unpack(&answers, &entry) == CRT_OK) {
        one = json_loadb(entry.data, entry.size, 0, NULL);
        json_array_foreach(one, i, row)
        {
            const char *id = json_string_value(json_object_get(row, "actor_id"));

            if (id)
                json_object_set(queues, id, row);
        }
        json_decref(one);
    }
    return queues;
}

char *crti_actor_rows_join(const crti_control_t *c, crti_span_t answers,
                           crti_span_t filter)
{
    view_t view = {.c = c, .is_detail = true, .queues = queues_of(answers)};
    char *text = answer(&view, filter);

    json_decref(view.queues);
    return text;
}
