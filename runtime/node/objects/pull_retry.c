/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls begun again: a source that can't be reached is not one that lacks the object. While the
 * head does not say that its node is dead, it is asked again, for as long as a silent peer may be
 * silent anywhere in the cluster; then the requesters hear CRT_ERR_UNREACHABLE.
 *
 * Where it sits
 *     peer.c (the link broke under a question, or none could be made for it)
 *         -> transfer.c -> [ node/objects/pull_retry.c ]
 *         -> pull_table.c (the same request once more)
 * Ownership
 *     An entry lives from the first such failure until its pull was answered for good.
 */
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/objects/objects_int.h"
#include "runtime/node/process/process.h"

#define RETRY_NS  (200 * CRTI_MS)
#define NODES_MAX 16

typedef struct again {
    crti_node_t *node;
    crti_object_id_t object;
    uint64_t size, since_ns;
    crti_id_t nodes[NODES_MAX]; /* that could not be reached */
    size_t node_count;
    crti_buffer_t waiting; /* crti_pull_requester_t */
    crti_timer_t retry;
} retry_t;

static retry_t *find(crti_node_t *node, crti_object_id_t object)
{
    return crti_map_get(&node->pulls->again, &object);
}

static void forget(retry_t *a)
{
    crti_loop_cancel(a->node->loop, &a->retry);
    crti_map_remove(&a->node->pulls->again, &a->object);
    crti_buffer_fini(&a->waiting);
    free(a);
}

/* Nobody waits: it succeeded otherwise, or its requesters ended. Without a node that is left the
 * pull fails at once, and says so. */
static void on_retry(void *user)
{
    retry_t *a = user;
    crti_node_t *node = a->node;
    retry_t copy = *a;

    if (copy.waiting.size == 0) {
        forget(a);
        return;
    }
    a->waiting = (crti_buffer_t){0};
    a->node_count = 0;
    crti_loop_start(node->loop, &a->retry,
                    crti_node_now(node) + CRTI_LIMIT(transfer_retry_timeout));
    for (size_t at = 0; at < copy.waiting.size; at += sizeof(crti_pull_requester_t)) {
        crti_pull_requester_t r;

        memcpy(&r, copy.waiting.data + at, sizeof(r));
        if (!crti_id_is_zero(r.process) && crti_process_get(node, r.process) == NULL)
            continue; /* it ended between two tries */
        if (crti_pull_table_request(node->pull_table, copy.object, copy.size, copy.nodes,
                                    copy.node_count, r, crti_node_now(node)) != CRT_OK)
            crti_log(CRTI_LOG_ERROR, "transfer", "%s", crt_error_detail());
    }
    crti_buffer_fini(&copy.waiting);
    crti_pull_act(node);
}

static retry_t *make(crti_node_t *node, crti_object_id_t object)
{
    retry_t *a = find(node, object);

    if (a)
        return a;
    a = calloc(1, sizeof(*a));
    if (a == NULL || crti_map_put(&node->pulls->again, &object, a) != CRT_OK) {
        free(a);
        return NULL; /* then it fails now */
    }
    a->node = node;
    a->object = object;
    a->since_ns = crti_node_now(node);
    a->retry = (crti_timer_t){.on_expired = on_retry, .user = a};
    return a;
}

void crti_pull_unreachable(crti_node_t *node, crti_object_id_t object, crti_id_t from)
{
    retry_t *a = node->stopping ? NULL : make(node, object);

    if (a == NULL)
        return;
    if (a->waiting.size == 0)
        crti_loop_start(node->loop, &a->retry,
                        crti_node_now(node) + CRTI_LIMIT(transfer_retry_timeout));
    for (size_t i = 0; i < a->node_count; i++)
        if (crti_id_equal(a->nodes[i], from))
            return;
    if (a->node_count < NODES_MAX)
        a->nodes[a->node_count++] = from;
}

bool crti_pull_begins_again(crti_node_t *node, crti_pull_action_t *answer)
{
    retry_t *a = find(node, answer->object);
    uint64_t now = crti_node_now(node);

    if (a == NULL)
        return false;
    if (answer->status != CRT_ERR_OBJECT_LOST || a->node_count == 0) {
        if (a->waiting.size == 0)
            forget(a);
        return false;
    }
    if (now - a->since_ns > CRTI_LIMIT(transfer_retry_timeout)) {
        answer->status = CRT_ERR_UNREACHABLE;
        return false;
    }
    a->size = answer->size;
    if (crti_buffer_append(&a->waiting, &answer->requester, sizeof(answer->requester)) !=
        CRT_OK)
        return false;
    crti_loop_start(node->loop, &a->retry, now + RETRY_NS);
    return true;
}

void crti_pull_retry_node_died(crti_node_t *node, crti_id_t dead)
{
    CRTI_MAP_FOREACH (retry_t, a, &node->pulls->again) {
        size_t kept = 0;

        for (size_t i = 0; i < a->node_count; i++)
            if (!crti_id_equal(a->nodes[i], dead))
                a->nodes[kept++] = a->nodes[i];
        a->node_count = kept;
        if (kept == 0 && a->waiting.size) /* nothing to wait for */
            crti_loop_start(node->loop, &a->retry, crti_node_now(node));
    }
}

void crti_pull_retry_free(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->pulls->again, &cursor, NULL, &value)) {
        forget(value);
        cursor = 0;
    }
    crti_map_fini(&node->pulls->again);
}
