/* SPDX-License-Identifier: Apache-2.0 */
/* Transfer: object parts between the stores of two nodes, straight from and into shared memory.
 *
 * Where it sits
 *     local.c (PULL, FREE) -> [ node/transfer.c ] <-> pull_table.c, store, peer.c
 * Invariants
 *     A part is received only into an object that this daemon created and has not sealed; when a
 *     pull is given up, parts on their way are thrown away before the memory is given back.
 */
#include <string.h>

#include "runtime/node/node.h"

/* The memory of an object being pulled: object id -> place_t. */
typedef struct place {
    crti_object_id_t object;
    unsigned char *data;
    uint64_t size;
} place_t;

/* ---------------------------------------------------------------- actions */

static void make_room(crti_node_t *node, const crti_pull_action_t *action)
{
    place_t *place;
    void *data = NULL;
    crt_status_t status =
        crti_store_create(node->store, action->object, action->size, &data);

    /* Somebody here writes it: it will be sealed, or given up. */
    if (status == CRT_ERR_EXISTS && !crti_store_contains(node->store, action->object))
        status = CRT_ERR_STORE_FULL;
    place = status == CRT_OK ? malloc(sizeof(*place)) : NULL;
    if (place) {
        *place = (place_t){action->object, data, action->size};
        status = crti_map_put(&node->places, &action->object, place);
    } else if (status == CRT_OK) {
        status = crt_raise(CRT_ERR_NO_MEMORY, "pull");
    }
    if (status == CRT_OK) {
        crti_pull_table_room(node->pulls, action->object);
        return;
    }
    if (data)
        crti_store_abort(node->store, action->object);
    free(place);
    crti_pull_table_no_room(node->pulls, action->object, status, crt_error_detail(),
                            crti_node_now(node));
    if (status == CRT_ERR_STORE_FULL)
        crti_node_schedule_tick(node, crti_node_now(node) + 50 * CRTI_MS);
}

static void ask(crti_node_t *node, const crti_pull_action_t *action)
{
    crti_peer_ask_t question = {.kind = CRTI_MSG_OBJECT_GET,
                                .object = action->object,
                                .offset = action->offset,
                                .length = action->length};
    crti_msg_object_get_t get = {
        .object = action->object, .offset = action->offset, .length = action->length};
    crt_status_t status =
        crti_node_ask(node, action->node, CRTI_LANE_BULK, &question, &get);

    if (status != CRT_OK)
        crti_pull_table_refused(node->pulls, action->object, action->node,
                                crt_error_detail());
}

/* Takes the place out; parts on their way into it are thrown away. */
static void forget_place(crti_node_t *node, crti_object_id_t object)
{
    place_t *place = crti_map_remove(&node->places, &object);

    if (place)
        crti_node_discard(node, place->data, place->size ? place->size : 1);
    free(place);
}

static void answer(crti_node_t *node, const crti_pull_action_t *action)
{
    crti_process_t *process = crti_process_get(node, action->requester.process);
    crti_msg_error_t error = {.status = action->status, .text = crti_str(action->text)};

    if (action->status == CRT_OK)
        crti_local_send(process, CRTI_MSG_DONE, action->requester.request, NULL);
    else
        crti_local_send(process, CRTI_MSG_ERROR, action->requester.request, &error);
}

static void act(crti_node_t *node, const crti_pull_action_t *action)
{
    switch (action->verb) {
    case CRTI_PULL_MAKE_ROOM: make_room(node, action); break;
    case CRTI_PULL_ASK: ask(node, action); break;
    case CRTI_PULL_SEAL:
        forget_place(node, action->object);
        /* A copy: it may be evicted; the primary is where the object was made. */
        if (crti_store_seal(node->store, action->object, false) != CRT_OK)
            crti_log(CRTI_LOG_DEBUG, "transfer", "seal: %s", crt_error_detail());
        break;
    case CRTI_PULL_ABORT:
        forget_place(node, action->object);
        crti_store_abort(node->store, action->object);
        break;
    case CRTI_PULL_ANSWER: answer(node, action); break;
    }
}

void crti_pull_act(crti_node_t *node)
{
    crti_pull_action_t action;

    if (node->pulling)
        return;
    node->pulling = true;
    while (crti_pull_table_action(node->pulls, &action))
        act(node, &action);
    node->pulling = false;
}

/* ---------------------------------------------------------------- asked for here */

void crti_pull_asked(crti_node_t *node, uint64_t local, uint64_t request,
                     crti_id_t process, const crti_msg_pull_t *pull)
{
    crti_id_t nodes[CRTI_PULL_SOURCES];
    size_t count = 0;
    crti_pull_requester_t requester = {.process = process, .request = request};
    crt_status_t status;

    for (size_t at = 0; at + 16 <= pull->nodes.size && count < CRTI_PULL_SOURCES;
         at += 16) {
        nodes[count] = crti_id_unpack((const unsigned char *)pull->nodes.data + at);
        if (!crti_id_equal(nodes[count], node->id))
            count++;
    }
    if (crti_store_contains(node->store, pull->object)) {
        crti_local_send(crti_process_get(node, process), CRTI_MSG_DONE, request, NULL);
        return;
    }
    status = crti_pull_table_request(node->pulls, pull->object, pull->size, nodes, count,
                                     requester, crti_node_now(node));
    if (status != CRT_OK) {
        crti_local_t *link = crti_local_get(node, local);

        if (link)
            crti_channel_send_error(link->channel, request, status);
    }
    crti_pull_act(node);
}

void *crti_pull_place(crti_node_t *node, const crti_peer_ask_t *question, uint64_t size)
{
    const place_t *place = crti_map_get(&node->places, &question->object);

    if (place == NULL || size != place->size || question->offset > place->size ||
        question->length > place->size - question->offset)
        return NULL;
    return place->data + question->offset;
}

void crti_pull_part(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *question,
                    const char *text)
{
    if (text)
        crti_pull_table_refused(node->pulls, question->object, from, text);
    else
        crti_pull_table_part(node->pulls, question->object, from, question->offset);
    crti_pull_act(node);
}

/* ---------------------------------------------------------------- asked for by others */

typedef struct sending {
    crti_store_t *store;
    crti_store_view_t view;
} sending_t;

static void part_sent(void *user, crt_status_t status)
{
    sending_t *sending = user;

    crti_store_release(sending->store, &sending->view);
    free(sending);
}

void crti_object_serve(crti_node_t *node, crti_stream_t *stream, uint64_t request,
                       const crti_msg_object_get_t *get)
{
    crti_msg_object_data_t data = {
        .object = get->object, .offset = get->offset, .length = get->length};
    sending_t *sending = calloc(1, sizeof(*sending));
    crt_status_t status;

    if (sending == NULL) {
        crti_node_answer_error(stream, request, CRT_ERR_NO_MEMORY, "out of memory");
        return;
    }
    sending->store = node->store;
    status = crti_store_get(node->store, get->object, &sending->view);
    if (status == CRT_OK && (get->offset > sending->view.size ||
                             get->length > sending->view.size - get->offset)) {
        crti_store_release(node->store, &sending->view);
        status =
            crt_raise(CRT_ERR_INVALID, "the object has %zu bytes", sending->view.size);
    }
    if (status != CRT_OK) {
        free(sending);
        crti_node_answer_error(stream, request, status, crt_error_detail());
        return;
    }
    data.size = sending->view.size;
    status = crti_stream_send_payload(
        stream, CRTI_MSG_OBJECT_DATA, request, &data,
        (const unsigned char *)sending->view.data + get->offset, part_sent, sending);
    if (status != CRT_OK)
        part_sent(sending, status);
}

/* ---------------------------------------------------------------- freed by their owners */

typedef struct freed {
    crti_object_id_t object;
    crti_id_t node;
} freed_t;

static bool next_freed(crti_span_t *list, freed_t *freed_out)
{
    const unsigned char *at = list->data;

    if (list->size < CRTI_FREE_ENTRY)
        return false;
    freed_out->object.owner = crti_id_unpack(at);
    freed_out->object.number = 0;
    for (int i = 16; i < 24; i++)
        freed_out->object.number = freed_out->object.number << 8 | at[i];
    freed_out->node = crti_id_unpack(at + 24);
    *list = crti_span(at + CRTI_FREE_ENTRY, list->size - CRTI_FREE_ENTRY);
    return true;
}

/* Those of one other node go there in one message; the walk is repeated per node, which are
 * few. */
static void pass_on(crti_node_t *node, crti_span_t objects, crti_id_t to)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_msg_free_t message;
    crti_span_t rest = objects;
    freed_t freed;

    while (rest.size >= CRTI_FREE_ENTRY) {
        const void *entry = rest.data;

        next_freed(&rest, &freed);
        if (crti_id_equal(freed.node, to) &&
            crti_buffer_append(&list, entry, CRTI_FREE_ENTRY) != CRT_OK)
            return; /* they stay until their owner ends */
    }
    message.objects = crti_span(list.data, list.size);
    crti_node_notify(node, to, CRTI_MSG_FREE, &message);
}

static void free_here(crti_node_t *node, crti_object_id_t object)
{
    if ((object.number & CRTI_EVERY_PART) == CRTI_EVERY_PART)
        crti_store_drop_numbers(node->store, object.owner, object.number,
                                ~CRTI_EVERY_PART);
    else
        crti_store_free(node->store, object);
}

void crti_object_free(crti_node_t *node, crti_span_t objects)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t told = {0};
    crti_span_t rest = objects;
    freed_t freed;

    while (next_freed(&rest, &freed)) {
        bool is_told = false;

        if (crti_id_is_zero(freed.node) || crti_id_equal(freed.node, node->id)) {
            free_here(node, freed.object);
            continue;
        }
        for (size_t i = 0; i < told.size; i += sizeof(crti_id_t))
            is_told |= memcmp(told.data + i, &freed.node, sizeof(crti_id_t)) == 0;
        if (is_told)
            continue;
        pass_on(node, objects, freed.node);
        crti_buffer_append(&told, &freed.node, sizeof(freed.node));
    }
}

void crti_pull_free(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->places, &cursor, NULL, &value))
        free(value);
    crti_map_fini(&node->places);
}
