/* SPDX-License-Identifier: Apache-2.0 */
/* Transfer. See transfer.h. */
#include "runtime/node/objects/transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/objects/objects_int.h"
#include "runtime/node/objects/spill.h"
#include "runtime/node/process/process.h"

#define FULL_NS (30 * CRTI_MS) /* less than between two tries of one pull */

/* The memory of an object being pulled: object id -> place_t. */
typedef struct place {
    crti_object_id_t object;
    unsigned char *data;
    uint64_t size;
    crti_list_t sendings;   /* parts that leave from it */
    bool has_ended;         /* the pull, and is kept for them only: */
    crti_store_view_t view; /* sealed; else it will be aborted */
} place_t;

/* A part on its way to another node. */
typedef struct sending {
    crti_node_t *node;
    crti_stream_t *stream;
    place_t *place;         /* NULL: it leaves from */
    crti_store_view_t view; /* a sealed object */
    crti_list_t link;
} sending_t;

static void act_on_shares(crti_node_t *node);

/* ---------------------------------------------------------------- answers of other nodes */

/* NULL when it is wanted no more, or is not what was expected. */
static void *place_of(crti_node_t *node, crti_peer_ask_t *question,
                      const crti_message_t *m)
{
    const place_t *place = crti_map_get(&node->pulls->places, &question->object);
    crt_status_t status;

    if (m->kind != CRTI_MSG_OBJECT_DATA ||
        !crti_object_id_equal(m->object_data.object, question->object) ||
        m->object_data.offset != question->offset ||
        m->object_data.length != question->length)
        return NULL;
    if (place == NULL || m->object_data.size != place->size ||
        question->offset > place->size ||
        question->length > place->size - question->offset)
        return NULL;
    /* Part by part: the host's memory for all of it would take this thread too long. */
    status =
        crti_store_prepare(node->store, place->data + question->offset, question->length);
    if (status == CRT_OK)
        return place->data + question->offset;
    crti_pull_table_failed(node->pull_table, question->object, status,
                           crt_error_detail());
    return NULL; /* what comes of the pull's end follows when this answer is worked off */
}

static crti_pull_attempt_t attempt_of(crti_id_t from, const crti_peer_ask_t *question)
{
    return (crti_pull_attempt_t){question->object, from, question->offset,
                                 question->attempt};
}

static void on_part(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *question,
                    const char *text)
{
    crti_pull_attempt_t attempt = attempt_of(from, question);

    if (text) {
        crti_pull_table_refused(node->pull_table, &attempt, text);
    } else {
        crti_pull_table_part(node->pull_table, question->object, question->offset);
        crti_share_table_part(node->share_table, question->object, question->offset);
        act_on_shares(node);
    }
    crti_pull_act(node);
}

static void on_elsewhere(crti_node_t *node, crti_id_t from,
                         const crti_peer_ask_t *question,
                         const crti_msg_object_elsewhere_t *elsewhere)
{
    crti_pull_attempt_t attempt = attempt_of(from, question);
    bool is_here = crti_id_equal(elsewhere->node, node->id);

    crti_pull_table_elsewhere(node->pull_table, &attempt,
                              is_here ? (crti_id_t){0} : elsewhere->node);
    crti_pull_act(node);
}

static void on_answer(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *question,
                      const crti_message_t *m, const char *text)
{
    if (m && m->kind == CRTI_MSG_OBJECT_ELSEWHERE)
        on_elsewhere(node, from, question, &m->object_elsewhere);
    else
        on_part(node, from, question, text);
}

static void on_unreachable(crti_node_t *node, crti_id_t from,
                           const crti_peer_ask_t *question)
{
    crti_pull_unreachable(node, question->object, from);
}

/* ---------------------------------------------------------------- actions */

/* A full store looks at all its objects to find that out, and thousands of pulls may wait for room:
 * what was said of one holds for those that need as much, for a while. */
static crt_status_t reserve(crti_node_t *node, const crti_pull_action_t *action,
                            void **data_out)
{
    crti_node_full_t *full = &node->pulls->full;
    crt_status_t status;

    if (action->size >= full->size && crti_node_now(node) < full->until_ns)
        return crt_raise(CRT_ERR_STORE_FULL, "%s", full->text);
    status = crti_store_reserve(node->store, action->object, action->size, data_out);
    if (status == CRT_ERR_STORE_FULL) {
        full->size = action->size;
        full->until_ns = crti_node_now(node) + FULL_NS;
        snprintf(full->text, sizeof(full->text), "%s", crt_error_detail());
    }
    return status;
}

static void make_room(crti_node_t *node, const crti_pull_action_t *action)
{
    place_t *place;
    void *data = NULL;
    crt_status_t status = reserve(node, action, &data);

    /* Somebody here writes it: it will be sealed, or given up. */
    if (status == CRT_ERR_EXISTS && !crti_store_contains(node->store, action->object))
        status = CRT_ERR_STORE_FULL;
    place = status == CRT_OK ? malloc(sizeof(*place)) : NULL;
    if (place) {
        *place = (place_t){action->object, data, action->size};
        status = crti_map_put(&node->pulls->places, &action->object, place);
    } else if (status == CRT_OK) {
        status = crt_raise(CRT_ERR_NO_MEMORY, "pull");
    }
    if (status == CRT_OK) {
        crti_list_init(&place->sendings);
        crti_pull_table_room(node->pull_table, action->object);
        return;
    }
    if (data)
        crti_store_abort(node->store, action->object);
    free(place);
    crti_pull_table_no_room(node->pull_table, action->object, status, crt_error_detail(),
                            crti_node_now(node));
    if (status == CRT_ERR_STORE_FULL)
        crti_node_schedule_tick(node, crti_node_now(node) + 50 * CRTI_MS);
}

static void ask(crti_node_t *node, const crti_pull_action_t *action)
{
    static const crti_peer_answers_t answers = {.kind = CRTI_MSG_OBJECT_ELSEWHERE,
                                                .on_answer = on_answer,
                                                .place = place_of,
                                                .on_unreachable = on_unreachable};
    crti_peer_ask_t question = {.kind = CRTI_MSG_OBJECT_GET,
                                .answers = &answers,
                                .object = action->object,
                                .offset = action->offset,
                                .length = action->length,
                                .attempt = action->attempt};
    crti_msg_object_get_t get = {.object = action->object,
                                 .offset = action->offset,
                                 .length = action->length,
                                 .hops = action->hops,
                                 .direct = action->direct};
    crti_pull_attempt_t attempt = {action->object, action->node, action->offset,
                                   action->attempt};
    char text[256];
    crt_status_t status =
        crti_node_ask(node, action->node, CRTI_PRIORITY_BULK, &question, &get);

    if (status == CRT_OK)
        return;
    snprintf(text, sizeof(text), "%s", crt_error_detail());
    /* No question was put: that says nothing of what the node has. */
    crti_pull_unreachable(node, action->object, action->node);
    crti_pull_table_refused(node->pull_table, &attempt, text);
}

static void tell_left(crti_node_t *node, const crti_pull_action_t *action)
{
    crti_msg_object_leave_t leave = {.object = action->object};

    crti_node_send_ordered(node, action->node, CRTI_PRIORITY_BULK, CRTI_MSG_OBJECT_LEAVE,
                           &leave);
}

/* No part leaves from it any more, and the pull has ended. */
static void free_place(crti_node_t *node, place_t *place)
{
    if (place->view.pin)
        crti_store_release(node->store, &place->view);
    else
        crti_store_abort(node->store, place->object);
    free(place);
}

/* Takes the place out; parts on their way into it are thrown away. */
static place_t *take_place(crti_node_t *node, crti_object_id_t object)
{
    place_t *place = crti_map_remove(&node->pulls->places, &object);

    if (place)
        crti_node_discard(node, place->data, place->size ? place->size : 1);
    return place;
}

static void seal(crti_node_t *node, crti_object_id_t object)
{
    place_t *place = take_place(node, object);

    /* A copy: it may be evicted; the primary is where the object was made. */
    if (crti_store_seal(node->store, object, false) != CRT_OK)
        crti_log(CRTI_LOG_DEBUG, "transfer", "seal: %s", crt_error_detail());
    if (place == NULL)
        return;
    /* Its owner freed it meanwhile, and so the memory is gone: nothing more may leave from it. */
    if (!crti_list_is_empty(&place->sendings) &&
        crti_store_get(node->store, object, &place->view) != CRT_OK)
        while (!crti_list_is_empty(&place->sendings))
            crti_inbound_cut(
                node, CRTI_CONTAINER(place->sendings.next, sending_t, link)->stream);
    if (crti_list_is_empty(&place->sendings))
        free(place);
    else
        place->has_ended = true;
}

static void give_up(crti_node_t *node, crti_object_id_t object)
{
    place_t *place = take_place(node, object);

    crti_share_table_gone(node->share_table, object);
    act_on_shares(node);
    if (place && crti_list_is_empty(&place->sendings))
        free_place(node, place);
    else if (place)
        place->has_ended = true;
}

static void act(crti_node_t *node, crti_pull_action_t *action)
{
    switch (action->verb) {
    case CRTI_PULL_MAKE_ROOM: make_room(node, action); break;
    case CRTI_PULL_ASK: ask(node, action); break;
    case CRTI_PULL_LEAVE: tell_left(node, action); break;
    case CRTI_PULL_SEAL: seal(node, action->object); break;
    case CRTI_PULL_ABORT: give_up(node, action->object); break;
    case CRTI_PULL_ANSWER:
        if (!crti_pull_begins_again(node, action))
            crti_pull_tell(node, action->requester, action->status, action->text);
        break;
    }
}

void crti_pull_act(crti_node_t *node)
{
    crti_pull_action_t action;

    if (node->pulls->is_acting || node->is_ending)
        return;
    node->pulls->is_acting = true;
    while (crti_pull_table_action(node->pull_table, &action))
        act(node, &action);
    node->pulls->is_acting = false;
}

/* ---------------------------------------------------------------- asked for here */

/* Nodes that ask for the same object begin with different ones of those that have it. */
static void spread(const crti_node_t *node, crti_id_t *nodes, size_t count,
                   crti_object_id_t object)
{
    uint64_t mixed = (node->id.high ^ node->id.low ^ object.number) * 0x9e3779b97f4a7c15u;
    size_t first = count ? (size_t)((mixed >> 32) % count) : 0;
    crti_id_t one;

    if (first == 0)
        return;
    one = nodes[0];
    nodes[0] = nodes[first];
    nodes[first] = one;
}

size_t crti_pull_sources(const crti_node_t *node, crti_object_id_t object,
                         crti_span_t list, crti_id_t nodes[CRTI_PULL_SOURCES])
{
    size_t count = 0;

    for (size_t at = 0; at + 16 <= list.size && count < CRTI_PULL_SOURCES; at += 16) {
        nodes[count] = crti_id_unpack((const unsigned char *)list.data + at);
        if (!crti_id_equal(nodes[count], node->id))
            count++;
    }
    spread(node, nodes, count, object);
    return count;
}

static void note_begin(crti_node_t *node, crti_pull_requester_t requester,
                       const crti_msg_pull_t *pull, crti_id_t from)
{
    const crti_process_t *process = crti_process_get(node, requester.process);
    crti_transfer_t transfer = {.object = pull->object,
                                .size = pull->size,
                                .requester = requester,
                                .job = process ? process->job_id : (crti_id_t){0, 0},
                                .from = from,
                                .pid = process ? (int32_t)process->pid : 0,
                                .begun_ns = crti_node_now(node)};

    crti_transfer_begun(&node->pulls->log, &transfer);
}

void crti_pull_asked(crti_node_t *node, uint64_t local, uint64_t request,
                     crti_id_t process, const crti_msg_pull_t *pull)
{
    crti_id_t nodes[CRTI_PULL_SOURCES];
    size_t count = crti_pull_sources(node, pull->object, pull->nodes, nodes);
    crti_pull_requester_t requester = {.process = process, .request = request};
    crt_status_t status;

    if (crti_store_contains(node->store, pull->object)) {
        crti_local_send(crti_process_get(node, process), CRTI_MSG_DONE, request, NULL);
        return;
    }
    if (crti_spill_pull(node, pull->object, requester)) {
        note_begin(node, requester, pull, node->id);
        return;
    }
    if (count == 0 && crti_spill_lost(node, pull->object)) {
        crti_pull_tell(node, requester, CRT_ERR_OBJECT_LOST,
                       crti_spill_lost(node, pull->object));
        return;
    }
    status = crti_pull_table_request(node->pull_table, pull->object, pull->size, nodes,
                                     count, requester, crti_node_now(node));
    if (status == CRT_OK)
        note_begin(node, requester, pull, count ? nodes[0] : (crti_id_t){0, 0});
    if (status != CRT_OK) {
        crti_local_t *link = crti_local_get(node, local);

        if (link)
            crti_channel_send_error(link->channel, request, status);
    }
    crti_pull_act(node);
}

/* When the oldest process that waits for it has asked; 0: none is known. */
static uint64_t asked_since(const crti_node_t *node, crti_object_id_t object)
{
    const crti_transfer_t *t;
    uint64_t since = 0;

    for (size_t i = 0; (t = crti_transfer_at(&node->pulls->log, i)); i++)
        if (t->ended_ns == 0 && crti_object_id_equal(t->object, object))
            since = t->begun_ns;
    return since;
}

static void put_progress(crti_node_t *node, crti_object_id_t object, char *json,
                         size_t size)
{
    uint64_t since = asked_since(node, object), now = crti_node_now(node), bytes;
    crti_pull_progress_t progress;
    char hex[CRTI_ID_HEX] = "";

    if (crti_spill_holds(node, object, &bytes)) {
        snprintf(json, size, "{\"how\":\"disk\"}");
        return;
    }
    if (!since || !crti_pull_table_progress(node->pull_table, object, &progress)) {
        snprintf(json, size, "{}");
        return;
    }
    if (!crti_id_is_zero(progress.from))
        crti_id_hex(progress.from, hex);
    snprintf(json, size,
             "{\"how\":\"%s\",\"came\":%" PRIu64 ",\"for_ms\":%" PRIu64
             ",\"from\":\"%s\"}",
             progress.needs_room ? "room" : "node", progress.came,
             (uint64_t)((now - since) / CRTI_MS), hex);
}

void crti_pull_progress_asked(crti_node_t *node, uint64_t local, uint64_t request,
                              crti_span_t filter)
{
    crti_local_t *link = crti_local_get(node, local);
    char text[CRTI_ID_HEX + 20], json[200] = "{}", owner[CRTI_ID_HEX] = "";
    crti_msg_state_answer_t answer;
    crti_object_id_t object = {.number = 0};

    crti_text(filter, text, sizeof(text));
    snprintf(owner, sizeof(owner), "%.32s", text);
    if (strlen(text) == 48 && crti_id_parse(owner, &object.owner)) {
        object.number = strtoull(text + 32, NULL, 16);
        put_progress(node, object, json, sizeof(json));
    }
    answer = (crti_msg_state_answer_t){.json = crti_str(json)};
    if (link)
        (void)crti_channel_send(link->channel, CRTI_MSG_STATE_ANSWER, request, &answer);
}

/* ---------------------------------------------------------------- asked for by others */

static void part_sent(void *user, crt_status_t status)
{
    sending_t *sending = user;
    place_t *place = sending->place;

    crti_store_release(sending->node->store, &sending->view);
    crti_list_remove(&sending->link);
    if (place && place->has_ended && crti_list_is_empty(&place->sendings))
        free_place(sending->node, place);
    free(sending);
}

/* Where the bytes of the object are, and how many: here, or on their way here. NULL: neither. */
static const unsigned char *locate(crti_node_t *node, crti_object_id_t object,
                                   sending_t *sending, uint64_t *size_out)
{
    if (crti_store_get(node->store, object, &sending->view) == CRT_OK) {
        *size_out = sending->view.size;
        return sending->view.data;
    }
    sending->place = crti_map_get(&node->pulls->places, &object);
    *size_out = sending->place ? sending->place->size : 0;
    return sending->place ? sending->place->data : NULL;
}

static void send_part(crti_node_t *node, const crti_share_question_t *question)
{
    crti_stream_t *stream = (crti_stream_t *)(uintptr_t)question->link;
    crti_msg_object_data_t data = {.object = question->object,
                                   .offset = question->offset,
                                   .length = question->length};
    sending_t *sending = calloc(1, sizeof(*sending));
    const unsigned char *bytes;
    crt_status_t status;

    if (sending == NULL) {
        crti_node_answer_error(stream, question->request, CRT_ERR_NO_MEMORY,
                               "out of memory");
        return;
    }
    *sending = (sending_t){.node = node, .stream = stream};
    crti_list_init(&sending->link);
    bytes = locate(node, question->object, sending, &data.size);
    if (bytes == NULL) {
        free(sending);
        crti_spill_send(node, question);
        return;
    }
    if (sending->place)
        crti_list_append(&sending->place->sendings, &sending->link);
    status =
        crti_stream_send_payload(stream, CRTI_MSG_OBJECT_DATA, question->request, &data,
                                 bytes + question->offset, part_sent, sending);
    if (status != CRT_OK)
        part_sent(sending, status);
}

static void send_elsewhere(const crti_share_action_t *action)
{
    crti_msg_object_elsewhere_t elsewhere = {.object = action->question.object,
                                             .node = action->node};

    crti_stream_send((crti_stream_t *)(uintptr_t)action->question.link,
                     CRTI_MSG_OBJECT_ELSEWHERE, action->question.request, &elsewhere);
}

static void act_on_shares(crti_node_t *node)
{
    crti_share_action_t action;

    while (crti_share_table_action(node->share_table, &action))
        switch (action.verb) {
        case CRTI_SHARE_SEND: send_part(node, &action.question); break;
        case CRTI_SHARE_ELSEWHERE: send_elsewhere(&action); break;
        case CRTI_SHARE_REFUSE:
            crti_node_answer_error((crti_stream_t *)(uintptr_t)action.question.link,
                                   action.question.request, CRT_ERR_NOT_FOUND,
                                   action.text);
            break;
        }
}

/* Parts that others pull are those that this node pulls. */
static bool is_part(uint64_t size, const crti_msg_object_get_t *get)
{
    uint64_t left = size - get->offset;

    return get->offset % CRTI_PULL_PART == 0 &&
           get->length == (left < CRTI_PULL_PART ? left : CRTI_PULL_PART);
}

void crti_object_serve(crti_node_t *node, crti_id_t from, crti_stream_t *stream,
                       uint64_t request, const crti_msg_object_get_t *get)
{
    crti_share_question_t question = {.object = get->object,
                                      .node = from,
                                      .link = (uintptr_t)stream,
                                      .request = request,
                                      .offset = get->offset,
                                      .length = get->length,
                                      .hops = get->hops,
                                      .direct = get->direct};
    sending_t found = {0};
    uint64_t size;
    bool is_in_memory = locate(node, get->object, &found, &size) != NULL;
    bool is_known = is_in_memory || crti_spill_holds(node, get->object, &size);
    crti_share_have_t have = is_known ? CRTI_SHARE_HAS : CRTI_SHARE_LACKS;

    crti_store_release(node->store, &found.view);
    if (is_known && (get->offset > size || get->length > size - get->offset ||
                     ((found.place || !is_in_memory) && !is_part(size, get)))) {
        crt_raise(CRT_ERR_INVALID, "the object has %llu bytes", (unsigned long long)size);
        crti_node_answer_error(stream, request, CRT_ERR_INVALID, crt_error_detail());
        return;
    }
    if (found.place && !crti_pull_table_has(node->pull_table, get->object, get->offset))
        have = CRTI_SHARE_COMING;
    crti_share_table_asked(node->share_table, &question, have,
                           (size + CRTI_PULL_PART - 1) / CRTI_PULL_PART);
    act_on_shares(node);
}

void crti_object_left(crti_node_t *node, crti_id_t from,
                      const crti_msg_object_leave_t *left)
{
    crti_share_table_left(node->share_table, left->object, from);
    act_on_shares(node);
}

void crti_object_stream_closed(crti_node_t *node, crti_stream_t *stream)
{
    crti_share_table_link_closed(node->share_table, (uintptr_t)stream);
    crti_spill_stream_closed(node, stream);
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
    crti_node_send_reliable(node, to, CRTI_MSG_FREE, &message);
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

crt_status_t crti_pull_init(crti_node_t *node)
{
    crt_status_t status;

    crti_map_init(&node->pulls->places, sizeof(crti_object_id_t));
    crti_map_init(&node->pulls->again, sizeof(crti_object_id_t));
    crti_spill_init(node);
    status = crti_pull_table_new(&node->pull_table);
    return status == CRT_OK ? crti_share_table_new(&node->share_table) : status;
}

const crti_transfer_t *crti_pull_logged(const crti_node_t *node, size_t index)
{
    return crti_transfer_at(&node->pulls->log, index);
}

void crti_pull_free(crti_node_t *node)
{
    CRTI_MAP_FOREACH (void, value, &node->pulls->places)
        free(value);
    crti_map_fini(&node->pulls->places);
    crti_pull_retry_free(node);
    crti_pull_table_free(node->pull_table);
    crti_share_table_free(node->share_table);
    crti_transfer_log_fini(&node->pulls->log);
}
