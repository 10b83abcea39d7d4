/* SPDX-License-Identifier: Apache-2.0 */
/* News of the other nodes: where they are, and what they have free.
 *
 * Where it sits
 *     NODE_VIEWS of the head, NODE_VIEW by which it answers NODE_FIND -> [
 *     node/dispatch/node_news.c ]
 *         -> links/peer.c (where), leases/lease_table.c (what is free)
 * Rules
 *     Behind a registration the head tells of all nodes. Until it has, what is known is as old as
 *     the last link: the lease table goes on as it does without the head, and nothing is called
 *     infeasible. Nodes that the head does not name died while there was no link.
 */
#include "runtime/base/log.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/transfer.h"

static void note_view(crti_node_t *node, const crti_msg_node_view_t *view)
{
    char labels[CRTI_LABELS_SIZE];

    if (!crti_peer_view(node, view))
        return;
    crti_owner_node_lives(node, view->node);
    crti_drain_other(node, view->node, view->is_drained);
    crti_text(view->labels, labels, sizeof(labels));
    crti_lease_table_view(node->lease_table, view->node, labels, &view->resources,
                          &view->available);
}

static void serve(crti_node_t *node)
{
    crti_lease_table_serve(node->lease_table, crti_node_now(node));
    crti_lease_act(node);
}

void crti_node_view(crti_node_t *node, const crti_msg_node_view_t *view)
{
    note_view(node, view);
    serve(node);
}

static void note_rows(crti_node_t *node, crti_span_t rows)
{
    crti_span_t row;
    crti_message_t m;

    while (crti_list_unpack(&rows, &row) == CRT_OK) {
        if (crti_message_decode(row.data, row.size, &m) != CRT_OK)
            continue;
        if (m.kind == CRTI_MSG_NODE_VIEW)
            note_view(node, &m.node_view);
        else if (m.kind == CRTI_MSG_NODE_ROOM)
            crti_lease_table_view_room(node->lease_table, m.node_room.node,
                                       &m.node_room.available);
    }
}

/* They died while this node had no link, and the head may not remember each. */
static void lose_unnamed(crti_node_t *node)
{
    crti_msg_node_died_t died = {
        .text = crti_str("it left the cluster while this node had no link to the head")};
    char hex[CRTI_ID_HEX];

    while (crti_peer_unnamed(node, &died.node)) {
        crti_log(CRTI_LOG_WARN, "head", "node %s is gone: the head does not name it",
                 crti_id_hex(died.node, hex));
        crti_node_died(node, &died);
    }
}

void crti_node_views(crti_node_t *node, const crti_msg_node_views_t *m)
{
    crti_registration_t *r = node->registration;

    if (m->begins) {
        r->hears_all = true;
        crti_peer_name_anew(node);
    }
    note_rows(node, m->rows);
    if (m->ends && r->hears_all) {
        r->hears_all = false;
        if (m->is_complete)
            lose_unnamed(node);
        crti_lease_table_head(node->lease_table, false, crti_node_now(node));
    }
    serve(node);
}
