/* SPDX-License-Identifier: Apache-2.0 */
/* Drains: nodes that are to end without loss. See control.h.
 *
 * Where it sits
 *     NODE_DRAIN of the command, the autoscaler -> [ control_drain.c ] -> NODE_DRAIN to the node
 *     (node/lifecycle/drain.c), NODE_VIEWS to the others
 * Rules
 *     Nothing is placed on the node. Actors that may restart are ended in an orderly way and placed
 *     elsewhere, which costs none of their restarts; those of processes on the node stay, as they
 *     would end with these. The node ends by itself. A head that comes back learns of it when the
 *     node registers.
 */
#include "runtime/control/control_drain.h"
#include "runtime/base/log.h"
#include "runtime/control/control_actor.h"
#include "runtime/control/control_state.h"
#include "runtime/control/control_views.h"
#include "runtime/control/outbox.h"

static void move_actors(crti_control_t *c, const crti_node_entry_t *node)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->actors) {
        crti_actor_entry_t *actor = CRTI_ACTOR_OF_NODE(item);
        bool is_owned_there =
            !actor->made->detached && crti_id_equal(actor->made->owner_node, node->id);

        if (actor->made->max_restarts != 0 && !is_owned_there && !actor->is_moved)
            crti_control_actor_move(c, actor, "its node is drained");
    }
}

static uint64_t left_ms(const crti_control_t *c, const crti_node_entry_t *node)
{
    return node->drain_ns > c->now_ns ? (node->drain_ns - c->now_ns) / CRTI_MS : 1;
}

static void drain(crti_control_t *c, crti_node_entry_t *node, uint64_t ms)
{
    node->drain_ns = c->now_ns + ms * CRTI_MS;
    crti_control_view_changed(c, node);
    move_actors(c, node);
}

void crti_control_drain_node(crti_control_t *c, crti_node_entry_t *node, uint64_t ms)
{
    crti_msg_node_drain_t order = {.node = node->id, .left_ms = ms};
    char hex[CRTI_ID_HEX];

    crti_log(CRTI_LOG_INFO, "control",
             "node %s is drained: it ends in %g s at the latest",
             crti_id_hex(node->id, hex), (double)ms / 1000);
    drain(c, node, ms);
    if (node->link)
        crti_control_send(c, node->link, CRTI_MSG_NODE_DRAIN, 0, &order);
}

void crti_control_drain_told(crti_control_t *c, crti_node_entry_t *node, uint64_t told_ms)
{
    crti_msg_node_drain_t order = {.node = node->id};

    if (told_ms && !node->drain_ns) { /* of the head before */
        drain(c, node, told_ms);
    } else if (node->drain_ns && !told_ms) { /* it has not heard yet */
        order.left_ms = left_ms(c, node);
        crti_control_send(c, node->link, CRTI_MSG_NODE_DRAIN, 0, &order);
    }
}

void crti_control_drain(crti_control_t *c, uint64_t link, uint64_t request,
                        const crti_msg_node_drain_t *m)
{
    crti_node_entry_t *node = crti_node_table_get(&c->nodes, m->node);
    char hex[CRTI_ID_HEX];

    crti_id_hex(m->node, hex);
    if (node == NULL || node->state == CRTI_NODE_DEAD || m->left_ms == 0 ||
        m->left_ms > CRTI_DRAIN_MAX_MS) {
        crt_status_t status =
            node == NULL || node->state == CRTI_NODE_DEAD
                ? crt_raise(CRT_ERR_NOT_FOUND, "node %s is not part of the cluster", hex)
                : crt_raise(CRT_ERR_INVALID, "a drain takes 1 ms to 30 days");

        crti_control_refuse(c, link, request, status);
        return;
    }
    crti_control_drain_node(c, node, m->left_ms);
    crti_control_send(c, link, CRTI_MSG_DONE, request, NULL);
    crti_control_place_all(c);
}
