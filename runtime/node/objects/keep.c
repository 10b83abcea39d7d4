/* SPDX-License-Identifier: Apache-2.0 */
/* Kept copies. See keep.h. */
#include "runtime/node/objects/keep.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/node_views.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/objects/objects_int.h"
#include "runtime/node/objects/spill.h"
#include "runtime/node/process/process.h"

/* A copy that this node is to have, while it is pulled. */
typedef struct keep {
    uint64_t number; /* the request of its pull */
    crti_object_id_t object;
    crti_stream_t *stream; /* that asked; NULL: none any more, or */
    crti_id_t process;     /* of this node */
    uint64_t request;
} keep_t;

/* ---------------------------------------------------------------- answers */

static void tell_owner(crti_node_t *node, crti_id_t process, uint64_t request,
                       crti_id_t where, crt_status_t status, const char *text)
{
    crti_msg_copy_made_t made = {.node = where, .status = status, .text = crti_str(text)};

    crti_local_send(crti_process_get(node, process), CRTI_MSG_COPY_MADE, request, &made);
}

static void answer(crti_node_t *node, const keep_t *keep, crt_status_t status,
                   const char *text)
{
    if (!crti_id_is_zero(keep->process))
        tell_owner(node, keep->process, keep->request, node->id, status, text);
    else if (keep->stream && status == CRT_OK)
        crti_stream_send(keep->stream, CRTI_MSG_DONE, keep->request, NULL);
    else if (keep->stream)
        crti_node_answer_error(keep->stream, keep->request, status, text);
}

/* Whether anybody hears of the copy. Else it may be evicted like any other. */
static bool is_wanted(crti_node_t *node, const keep_t *keep)
{
    return keep->stream || crti_process_get(node, keep->process);
}

static void end(crti_node_t *node, keep_t *keep, crt_status_t status, const char *text)
{
    if (status == CRT_OK && is_wanted(node, keep) &&
        !crti_spill_holds(node, keep->object, &(uint64_t){0}))
        status = crti_store_make_primary(node->store, keep->object);
    answer(node, keep, status, status == CRT_OK ? "" : text ? text : crt_error_detail());
    free(keep);
}

static void on_pulled(crti_node_t *node, uint64_t number, crt_status_t status,
                      const char *text)
{
    keep_t *keep = crti_map_remove(&node->pulls->keeps, &number);

    if (keep)
        end(node, keep, status, status == CRT_OK ? NULL : text);
}

void crti_keep_init(crti_node_t *node)
{
    crti_map_init(&node->pulls->keeps, sizeof(uint64_t));
    node->pulls->on_keep_pulled = on_pulled;
}

void crti_keep_stream_closed(crti_node_t *node, const crti_stream_t *stream)
{
    CRTI_MAP_FOREACH (keep_t, keep, &node->pulls->keeps)
        if (keep->stream == stream)
            keep->stream = NULL;
}

void crti_keep_free(crti_node_t *node)
{
    CRTI_MAP_FOREACH (keep_t, keep, &node->pulls->keeps)
        free(keep);
    crti_map_fini(&node->pulls->keeps);
}

/* ---------------------------------------------------------------- here */

/* The copy comes here, if it is not here yet. */
static void keep_here(crti_node_t *node, const keep_t *asked,
                      const crti_msg_object_keep_t *m)
{
    keep_t *keep = malloc(sizeof(*keep));
    crti_id_t nodes[CRTI_PULL_SOURCES];
    size_t count;
    crt_status_t status;

    if (!keep) {
        answer(node, asked, CRT_ERR_NO_MEMORY, "a copy");
        return;
    }
    *keep = *asked;
    keep->number = ++node->pulls->last_keep;
    keep->object = m->object;
    if (crti_store_contains(node->store, m->object) ||
        crti_spill_holds(node, m->object, &(uint64_t){0})) {
        end(node, keep, CRT_OK, NULL);
        return;
    }
    count = crti_pull_sources(node, m->object, m->nodes, nodes);
    status = crti_map_put(&node->pulls->keeps, &keep->number, keep);
    if (status != CRT_OK) {
        end(node, keep, status, "a copy");
        return;
    }
    status = crti_pull_table_request(node->pull_table, m->object, m->size, nodes, count,
                                     (crti_pull_requester_t){.request = keep->number},
                                     crti_node_now(node));
    if (status != CRT_OK)
        on_pulled(node, keep->number, status, crt_error_detail());
    crti_pull_act(node);
}

void crti_keep_asked(crti_node_t *node, crti_stream_t *stream, uint64_t request,
                     const crti_msg_object_keep_t *m)
{
    keep_here(node, &(keep_t){.stream = stream, .request = request}, m);
}

/* ---------------------------------------------------------------- on another node */

static bool is_in(crti_id_t id, crti_span_t list)
{
    const unsigned char *at = list.data;

    for (size_t i = 0; i + 16 <= list.size; i += 16)
        if (crti_id_equal(crti_id_unpack(at + i), id))
            return true;
    return false;
}

/* The owner's own node first: the object does not outlive it anyway, and is read there. Else the
 * others take turns. Zero: there is none. */
static crti_id_t choose(crti_node_t *node, crti_span_t avoid)
{
    const crti_node_views_t *views = crti_lease_table_views(node->lease_table);
    crti_id_t best = {0, 0};

    if (!is_in(node->id, avoid))
        return node->id;
    CRTI_MAP_FOREACH (const crti_node_view_t, view, &views->map)
        if (!is_in(view->id, avoid) &&
            (crti_id_is_zero(best) ||
             crti_node_is_sooner(view->id, best, node->pulls->keep_last)))
            best = view->id;
    if (!crti_id_is_zero(best))
        node->pulls->keep_last = best;
    return best;
}

static void pack_free(unsigned char entry[CRTI_FREE_ENTRY], crti_object_id_t object,
                      crti_id_t node)
{
    crti_id_pack(object.owner, entry);
    for (int byte = 0; byte < 8; byte++)
        entry[16 + byte] = (unsigned char)(object.number >> (56 - 8 * byte));
    crti_id_pack(node, entry + 24);
}

/* Whose question it was is in `ask`: id, offset. */
static void on_answer(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                      const crti_message_t *m, const char *text)
{
    unsigned char entry[CRTI_FREE_ENTRY];
    bool is_made = m && m->kind == CRTI_MSG_DONE;

    if (!m) { /* it may have it all the same: the answer was lost */
        pack_free(entry, ask->object, from);
        crti_node_send_reliable(
            node, from, CRTI_MSG_FREE,
            &(crti_msg_free_t){.objects = crti_span(entry, sizeof(entry))});
    }
    tell_owner(node, ask->id, ask->offset, from, is_made ? CRT_OK : CRT_ERR_NODE_LOST,
               is_made ? ""
               : text  ? text
                       : "no answer");
}

static void ask_node(crti_process_t *process, uint64_t request, crti_id_t to,
                     const crti_msg_object_keep_t *keep)
{
    static const crti_peer_answers_t answers = {.kind = CRTI_MSG_DONE,
                                                .on_answer = on_answer};
    crti_node_t *node = process->node;
    crti_peer_ask_t question = {.kind = CRTI_MSG_OBJECT_KEEP,
                                .answers = &answers,
                                .id = process->id,
                                .object = keep->object,
                                .offset = request};

    if (crti_node_ask(node, to, CRTI_PRIORITY_CONTROL, &question, keep) != CRT_OK)
        tell_owner(node, process->id, request, to, CRT_ERR_NODE_LOST, crt_error_detail());
}

void crti_keep_wanted(crti_process_t *process, uint64_t request,
                      const crti_msg_copy_make_t *make)
{
    crti_node_t *node = process->node;
    crti_msg_object_keep_t keep = {
        .object = make->object, .size = make->size, .nodes = make->nodes};
    crti_id_t to = choose(node, make->avoid);

    if (crti_id_is_zero(to))
        tell_owner(node, process->id, request, to, CRT_ERR_NOT_FOUND,
                   "no other node of the cluster can have one now");
    else if (crti_id_equal(to, node->id))
        keep_here(node, &(keep_t){.process = process->id, .request = request}, &keep);
    else
        ask_node(process, request, to, &keep);
}
