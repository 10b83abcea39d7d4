/* SPDX-License-Identifier: Apache-2.0 */
/* Drain. See drain.h. */
#include "runtime/node/lifecycle/drain.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/node/actors/actor.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/lifecycle/lifecycle_int.h"
#include "runtime/node/links/local.h"
#include "runtime/node/process/process.h"

#define LOOK_NS  (50 * CRTI_MS)
#define STALL_NS (3 * CRTI_S) /* owners look every 0.2 s, a pull may wait for room */

/* ---------------------------------------------------------------- this node */

static bool is_of_others(void *user, crti_id_t owner)
{
    const crti_node_t *node = ((void **)user)[0];
    bool *any = ((void **)user)[1];

    *any |= !crti_id_is_of_node(owner, node->id);
    return false;
}

static bool stores_for_others(crti_node_t *node)
{
    bool any = false;
    void *user[] = {node, &any};

    if (node->store)
        crti_store_drop_owners(node->store, is_of_others, user);
    return any;
}

static size_t count_drivers(const crti_node_t *node)
{
    size_t count = 0, cursor = 0;
    const crti_process_t *p;

    while ((p = crti_process_next(node, &cursor)) != NULL)
        count += p->role == CRTI_ROLE_DRIVER;
    return count;
}

/* What still runs, as text; "": nothing. */
static const char *rest(crti_node_t *node, char *text, size_t size)
{
    size_t tasks = crti_lease_count(node);
    size_t actors = crti_actor_count(node), drivers = count_drivers(node);
    size_t programs = crti_submission_count(node);

    *text = '\0';
    if (tasks || actors || drivers || programs)
        snprintf(text, size,
                 "%zu tasks, %zu actors, %zu drivers and %zu programs of submitted jobs",
                 tasks, actors, drivers, programs);
    return text;
}

bool crti_drain_is_busy(crti_node_t *node)
{
    char text[200];

    return *rest(node, text, sizeof(text)) != '\0';
}

void crti_drain_begin(crti_node_t *node, uint64_t left_ms)
{
    uint64_t now = crti_node_now(node);

    const bool is_first = node->drain->deadline_ns == 0;

    node->drain->deadline_ns = now + left_ms * CRTI_MS;
    if (is_first) {
        crti_log(CRTI_LOG_INFO, "node", "is drained: it ends in %g s at the latest",
                 (double)left_ms / 1000);
        crti_node_tell_leaving(node);
    }
    crti_lease_drain(node);
    crti_node_schedule_tick(node, now);
}

uint64_t crti_drain_left(const crti_node_t *node)
{
    uint64_t now = crti_node_now(node);

    if (node->drain->deadline_ns == 0)
        return 0;
    return node->drain->deadline_ns > now + CRTI_MS
               ? (node->drain->deadline_ns - now) / CRTI_MS
               : 1;
}

/* NULL: not yet. */
static const char *why_ended(crti_node_t *node, uint64_t now_ns, char *text, size_t size)
{
    crti_drain_t *drain = node->drain;
    char left[200];

    rest(node, left, sizeof(left));
    if (*left)
        drain->idle_ns = 0;
    else if (drain->idle_ns == 0)
        drain->idle_ns = now_ns;
    if (*left == '\0' &&
        (now_ns >= drain->idle_ns + STALL_NS || !stores_for_others(node)))
        snprintf(text, size, "it was drained");
    else if (now_ns >= drain->deadline_ns)
        snprintf(text, size, "it was drained, and its time was over%s%s",
                 *left ? ": it still had " : "", left);
    else
        return NULL;
    return text;
}

uint64_t crti_drain_tick(crti_node_t *node, uint64_t now_ns)
{
    char text[300];

    if (node->drain->deadline_ns == 0 || node->stopping)
        return UINT64_MAX;
    if (now_ns < node->drain->look_ns)
        return node->drain->look_ns;
    node->drain->look_ns = now_ns + LOOK_NS;
    if (why_ended(node, now_ns, text, sizeof(text)))
        crti_node_stop(node, text);
    else
        crti_lease_drain(node); /* new turns end, too */
    return node->drain->look_ns;
}

/* ---------------------------------------------------------------- others */

static size_t find(const crti_drain_t *drain, crti_id_t other)
{
    const crti_id_t *ids = (const crti_id_t *)(const void *)drain->others.data;
    size_t count = drain->others.size / sizeof(*ids), at = 0;

    while (at < count && !crti_id_equal(ids[at], other))
        at++;
    return at;
}

void crti_drain_other(crti_node_t *node, crti_id_t other, bool is_drained)
{
    crti_buffer_t *others = &node->drain->others;
    size_t at = find(node->drain, other) * sizeof(other);
    crti_msg_node_drain_t notice = {.node = other};

    if (is_drained == (at < others->size))
        return;
    if (!is_drained) {
        memmove(others->data + at, others->data + at + sizeof(other),
                others->size - at - sizeof(other));
        others->size -= sizeof(other);
    } else if (crti_buffer_append(others, &other, sizeof(other)) == CRT_OK) {
        crti_local_broadcast(node, CRTI_MSG_NODE_DRAIN, &notice);
    }
}

void crti_drain_tell(crti_process_t *process)
{
    const crti_buffer_t *others = &process->node->drain->others;
    crti_msg_node_drain_t notice;

    for (size_t at = 0; at < others->size; at += sizeof(notice.node)) {
        memcpy(&notice.node, others->data + at, sizeof(notice.node));
        crti_local_send(process, CRTI_MSG_NODE_DRAIN, 0, &notice);
    }
}

void crti_drain_fini(crti_node_t *node)
{
    crti_buffer_fini(&node->drain->others);
}
