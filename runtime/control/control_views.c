/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes hear of each other. See views.h. */
#include "runtime/control/control_views.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/control/control_state.h"

#define SHARE      4              /* of the head's time at most 1 part */
#define BURST_NS   (20 * CRTI_MS) /* of that may be taken in advance */
#define SLICE_NS   (5 * CRTI_MS)  /* cost after which others have their turn */
#define MESSAGE_NS 15000          /* what a message costs, */
#define LOOK_NS    20             /* a look at what a node lacks, */
#define ROW_NS     100            /* a row that is put into one, */
#define BYTE_NS    1              /* and each byte that is sent */
#define BATCH_SIZE ((size_t)1 << 20)
#define QUEUE_MAX  ((size_t)4 << 20) /* that wait on a link: it is told later */

#define OF_CHANGE(item)   CRTI_CONTAINER(item, crti_node_entry_t, news.in_changes)
#define OF_LISTENER(item) CRTI_CONTAINER(item, crti_node_entry_t, news.in_listeners)

/* What those lack that have heard of everything up to `after`. */
typedef struct batch {
    bool is_made;
    uint64_t after, upto;
    size_t rows;
    const crti_node_entry_t *last; /* of the last row */
    crti_buffer_t message;
} batch_t;

void crti_views_init(crti_views_t *views)
{
    *views = (crti_views_t){.due_ns = UINT64_MAX};
    crti_list_init(&views->changes);
    crti_list_init(&views->listeners);
}

void crti_news_init(crti_news_t *news)
{
    *news = (crti_news_t){0};
    crti_list_init(&news->in_changes);
    crti_list_init(&news->in_listeners);
}

void crti_news_fini(crti_news_t *news)
{
    crti_buffer_fini(&news->row);
}

/* ---------------------------------------------------------------- rows */

crti_msg_node_view_t crti_control_view_of(const crti_node_entry_t *node)
{
    crti_msg_node_view_t view = {.node = node->id,
                                 .endpoint = crti_str(node->endpoint),
                                 .labels = crti_str(node->labels),
                                 .is_drained = node->drain_ns != 0};

    if (view.is_drained) /* it has nothing to offer */
        return view;
    view.resources = node->resources;
    view.available = node->available;
    return view;
}

static uint64_t latest(const crti_node_entry_t *node)
{
    return node->news.whole > node->news.room ? node->news.whole : node->news.room;
}

static crt_status_t append_view(crti_node_entry_t *node, crti_buffer_t *rows)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t message = {0};
    crti_buffer_t *row = &node->news.row;
    crt_status_t status = CRT_OK;

    if (row->size == 0) {
        crti_msg_node_view_t view = crti_control_view_of(node);

        status = crti_message_encode(CRTI_MSG_NODE_VIEW, 0, &view, &message);
        if (status == CRT_OK)
            status = crti_list_pack(row, message.data, message.size);
    }
    if (status != CRT_OK) {
        row->size = 0;
        return status;
    }
    return crti_buffer_append(rows, row->data, row->size);
}

static crt_status_t append_room(const crti_node_entry_t *node, crti_buffer_t *rows)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t message = {0};
    crti_msg_node_room_t room = {.node = node->id, .available = node->available};
    crt_status_t status = crti_message_encode(CRTI_MSG_NODE_ROOM, 0, &room, &message);

    return status == CRT_OK ? crti_list_pack(rows, message.data, message.size) : status;
}

/* The first change that those lack. */
static crti_list_t *first_change(crti_control_t *c, uint64_t after)
{
    crti_list_t *item = &c->views.changes;

    while (item->prev != &c->views.changes && latest(OF_CHANGE(item->prev)) > after)
        item = item->prev;
    return item;
}

static crt_status_t list_rows(crti_control_t *c, batch_t *batch, crti_buffer_t *rows)
{
    crti_list_t *item = first_change(c, batch->after);
    crt_status_t status = CRT_OK;

    for (; status == CRT_OK && item != &c->views.changes && rows->size < BATCH_SIZE;
         item = item->next) {
        crti_node_entry_t *node = OF_CHANGE(item);

        batch->last = node;
        batch->rows++;
        batch->upto = latest(node);
        status = node->news.whole > batch->after ? append_view(node, rows)
                                                 : append_room(node, rows);
    }
    if (item == &c->views.changes)
        batch->upto = c->views.version;
    return status;
}

static crt_status_t make_batch(crti_control_t *c, batch_t *batch, uint64_t after)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t rows = {0};
    crti_msg_node_views_t m = {.begins = after == 0, .is_complete = !c->joining};
    crt_status_t status;

    batch->is_made = true;
    batch->after = after;
    batch->rows = batch->message.size = 0;
    status = list_rows(c, batch, &rows);
    m.ends = batch->upto == c->views.version;
    m.rows = crti_span(rows.data, rows.size);
    if (status == CRT_OK)
        status = crti_message_encode(CRTI_MSG_NODE_VIEWS, 0, &m, &batch->message);
    if (status != CRT_OK) {
        batch->is_made = false;
        crti_log(CRTI_LOG_ERROR, "control", "views of nodes: %s", crt_error_detail());
    }
    return status;
}

/* ---------------------------------------------------------------- slices */

/* False: it reads slowly, and hears of it later. */
static bool is_ready(const crti_control_t *c, const crti_node_entry_t *node)
{
    return c->config.actions.queued(c->config.actions.user, node->link) <= QUEUE_MAX;
}

/* Nothing but what it has said itself. */
static bool is_own(const batch_t *batch, const crti_node_entry_t *node)
{
    return batch->after &&
           (batch->rows == 0 || (batch->rows == 1 && batch->last == node));
}

/* `batch` is made anew where it is not what this node lacks. Returns the cost. */
static uint64_t tell(crti_control_t *c, crti_node_entry_t *node, batch_t *batch)
{
    uint64_t cost = 0;

    if (!batch->is_made || batch->after != node->news.told) {
        if (make_batch(c, batch, node->news.told) != CRT_OK)
            return SLICE_NS; /* without memory: later */
        cost += ROW_NS * batch->rows;
    }
    node->news.told = batch->upto;
    if (is_own(batch, node))
        return cost;
    c->config.actions.send(c->config.actions.user, node->link, batch->message.data,
                           batch->message.size);
    return cost + MESSAGE_NS + BYTE_NS * batch->message.size;
}

static void plan(crti_control_t *c, uint64_t at_ns)
{
    uint64_t may_ns = c->views.paid_ns > BURST_NS ? c->views.paid_ns - BURST_NS : 0;

    at_ns = at_ns > may_ns ? at_ns : may_ns;
    if (at_ns < c->views.due_ns)
        c->views.due_ns = at_ns;
}

void crti_control_send_views(crti_control_t *c)
{
    crti_views_t *views = &c->views;
    batch_t batch = {.is_made = false};
    size_t left = views->listener_count;
    uint64_t cost = 0;
    bool is_behind = false;

    views->due_ns = UINT64_MAX;
    for (; left && cost < SLICE_NS; left--) {
        crti_list_t *item = crti_list_pop(&views->listeners);
        crti_node_entry_t *node = OF_LISTENER(item);

        crti_list_append(&views->listeners, item);
        cost += LOOK_NS;
        if (node->news.told < views->version && is_ready(c, node))
            cost += tell(c, node, &batch);
        is_behind |= node->news.told < views->version;
    }
    crti_buffer_fini(&batch.message);
    if (views->paid_ns < c->now_ns)
        views->paid_ns = c->now_ns;
    views->paid_ns += SHARE * cost;
    if (left)
        plan(c, c->now_ns);
    else if (is_behind)
        plan(c, c->now_ns + CRTI_LIMIT(view_delay));
}

static void tell_now(crti_control_t *c)
{
    plan(c, c->now_ns);
    if (c->views.due_ns <= c->now_ns)
        crti_control_send_views(c);
}

/* ---------------------------------------------------------------- changes */

static void note(crti_control_t *c, crti_node_entry_t *node, uint64_t *version)
{
    *version = ++c->views.version;
    node->news.row.size = 0;
    crti_list_remove(&node->news.in_changes);
    crti_list_append(&c->views.changes, &node->news.in_changes);
}

void crti_control_view_changed(crti_control_t *c, crti_node_entry_t *node)
{
    crti_node_table_offer(&c->nodes, node);
    if (node->state == CRTI_NODE_EXPECTED)
        return; /* the others hear of it when it is back */
    note(c, node, &node->news.whole);
    tell_now(c);
}

void crti_control_room_changed(crti_control_t *c, crti_node_entry_t *node)
{
    crti_node_table_offer(&c->nodes, node);
    if (node->drain_ns)
        return;
    note(c, node, &node->news.room);
    plan(c, c->now_ns + CRTI_LIMIT(view_delay));
}

void crti_control_views_join(crti_control_t *c, crti_node_entry_t *node)
{
    crti_control_views_leave(c, node);
    c->views.listener_count++;
    crti_list_append(c->views.listeners.next, &node->news.in_listeners);
    node->news.told = 0;
    crti_control_view_changed(c, node);
}

void crti_control_views_leave(crti_control_t *c, crti_node_entry_t *node)
{
    if (crti_list_is_empty(&node->news.in_listeners))
        return;
    c->views.listener_count--;
    crti_list_remove(&node->news.in_listeners);
}

void crti_control_views_forget(crti_control_t *c, crti_node_entry_t *node)
{
    crti_control_views_leave(c, node);
    crti_list_remove(&node->news.in_changes);
}
