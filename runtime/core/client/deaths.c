/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths: what the end of a session, a process, a node or the node daemon means to every module.
 *
 * Where it sits
 *     dispatch.c (a session is lost), node_messages.c (PEER_DIED, NODE_DIED, the link's end) ->
 *     [ deaths.c ] -> refs, calls, execution
 * Threads
 *     The core's lock.
 * Failure
 *     A lost session fails the calls in flight on it. That the process is dead is told by the node
 *     daemon only: borrowed refs and lent objects go by that.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/refs/rescue.h"
#include "runtime/core/refs/value_of.h"

/* ------------------------------------------------------------------ which refs */

static bool is_any(const crt_ref_t *ref, const void *nothing)
{
    return true;
}

static bool is_owned_by(const crt_ref_t *ref, const void *remote)
{
    return ref->owner == remote;
}

static bool is_asked_of(const crt_ref_t *ref, const void *remote)
{
    return ref->owner == remote && ref->is_locating;
}

static bool has_borrowers(const crt_ref_t *ref, const void *nothing)
{
    return ref->owned.borrower_count > 0;
}

static bool has_copies(const crt_ref_t *ref, const void *nothing)
{
    return ref->owned.node_count > 0;
}

/* ------------------------------------------------------------------ a session */

/* Questions to it will not be answered. */
static void fail_locating(crti_core_t *core, crti_remote_t *remote,
                          const crti_net_loss_t *loss)
{
    size_t count;
    crt_ref_t **refs = crti_refs_gather(core, true, is_asked_of, remote, &count);

    for (size_t i = 0; i < count; i++) {
        if (refs[i]->is_locating)
            crti_ref_unlocated(refs[i], loss);
        crti_ref_release(refs[i]);
    }
    free(refs);
}

/* The next of the calls that went by a lost session. Behind them are those that were sent since, by
 * a new one. */
static crti_pending_t *next_lost(const crti_remote_t *remote)
{
    crti_pending_t *first = CRTI_CONTAINER(remote->in_flight.next, crti_pending_t, link);

    return crti_list_is_empty(&remote->in_flight) ||
                   first->lost_sessions == remote->lost_sessions
               ? NULL
               : first;
}

void crti_remote_lost(crti_core_t *core, crti_remote_t *remote,
                      const crti_net_loss_t *loss)
{
    crti_pending_t *pending;

    remote->uses++;
    remote->lost_sessions++;
    crti_peer_unref(remote->peer);
    remote->peer = NULL;
    crti_owner_requests_pause(remote);
    crti_copy_query_is_over(core, &remote->copy_query);
    crti_leases_lost(core, remote); /* so that what never left is not sent there again */
    /* What the actor does with its calls depends on what is known of it: so it is told first. */
    crti_actors_lost(core, remote, loss);
    while ((pending = next_lost(remote)))
        crti_pending_lost(pending, loss);
    crti_owner_requests_lost(core, remote, loss->status);
    fail_locating(core, remote, loss);
    crti_remote_unuse(core, remote);
}

/* ------------------------------------------------------------------ a process, a node */

static void remote_died(crti_core_t *core, crti_remote_t *remote, crt_status_t status,
                        const char *text)
{
    crti_id_t process = remote->address.process;
    size_t count;
    crt_ref_t **refs;

    remote->uses++;
    crti_remote_ended(core, remote, status, text);
    if (remote->is_dead) {
        crti_remote_unuse(core, remote);
        return;
    }
    remote->is_dead = true;
    crti_copy_query_is_over(core, &remote->copy_query);
    crti_actor_process_died(core, remote, text);
    crti_leases_lost(core, remote);
    crti_owner_requests_end(core, remote);
    crti_owner_requests_gather(core);
    refs = crti_refs_gather(core, true, is_owned_by, remote, &count);
    for (size_t i = 0; i < count; i++) {
        crti_ref_owner_died(refs[i], text);
        crti_ref_release(refs[i]);
    }
    free(refs);
    if (remote->is_borrower) {
        refs = crti_refs_gather(core, false, has_borrowers, NULL, &count);
        for (size_t i = 0; i < count; i++) {
            crti_owned_apply(refs[i], crti_owned_process_died(&refs[i]->owned, process));
            crti_ref_release(refs[i]);
        }
        free(refs);
        remote->uses--;
    }
    crti_owner_requests_send(core);
    crti_remote_unuse(core, remote);
}

void crti_process_died(crti_core_t *core, const crti_msg_peer_died_t *m)
{
    crti_remote_t *remote = crti_map_get(&core->remotes->table, &m->process);
    char text[1024];

    crti_text(m->text, text, sizeof(text));
    if (remote && remote->address.incarnation == m->incarnation) {
        remote->pid = m->pid;
        remote->ran_no_call = remote->ran_no_call || m->ran_no_call;
        if (crti_id_equal(m->caller, core->process))
            remote->unbegun = m->unbegun;
    }
    crti_net_peer_died(core->net, m->process, m->incarnation,
                       m->status < 0 ? (crt_status_t)m->status : CRT_ERR_WORKER_DIED,
                       text);
    remote = crti_map_get(&core->remotes->table, &m->process);
    if (remote && remote->address.incarnation == m->incarnation)
        remote_died(core, remote, CRT_ERR_ACTOR_DIED, text);
}

static crti_remote_t *living_remote_of(crti_core_t *core, crti_id_t node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&core->remotes->table, &cursor, NULL, &value)) {
        crti_remote_t *remote = value;

        if (!remote->is_dead && crti_id_equal(remote->address.node, node))
            return remote;
    }
    return NULL;
}

static void lose_copies(crti_core_t *core, crti_id_t node)
{
    size_t count;
    crt_ref_t **refs = crti_refs_gather(core, false, has_copies, NULL, &count);

    for (size_t i = 0; i < count; i++) {
        crti_ref_node_died(refs[i], node);
        if (refs[i]->more->copies)
            crti_kept_copies_lost(refs[i], node);
        crti_ref_release(refs[i]);
    }
    free(refs);
}

void crti_node_died(crti_core_t *core, const crti_msg_node_died_t *m)
{
    crti_remote_t *remote;
    char text[1024];

    crti_text(m->text, text, sizeof(text));
    crti_net_node_died(core->net, m->node, CRT_ERR_NODE_LOST, text);
    while ((remote = living_remote_of(core, m->node)))
        remote_died(core, remote, CRT_ERR_NODE_LOST, text);
    lose_copies(core, m->node);
    crti_rescue_end(core, m->node);
    crti_remotes_drain_end(core, m->node);
    crti_waits_node_gone(core, m->node, CRT_ERR_NODE_LOST, text);
}

/* ------------------------------------------------------------------ the node daemon */

/* What waits for the ref's content hears that none comes. */
static void break_ref(crt_ref_t *ref, crt_status_t status, const char *text)
{
    crt_status_t raised = crt_raise(status, "%s", text);

    crti_pending_t *call = crti_ref_call(ref);

    if (call)
        crti_pending_fail(call, status, text, true);
    else if (ref->content == CRTI_CONTENT_NONE)
        crti_ref_fail(ref, raised);
}

static void break_refs(crti_core_t *core, bool borrowed, crt_status_t status,
                       const char *text)
{
    size_t count;
    crt_ref_t **refs = crti_refs_gather(core, borrowed, is_any, NULL, &count);

    for (size_t i = 0; i < count; i++) {
        break_ref(refs[i], status, text);
        crti_ref_release(refs[i]);
    }
    free(refs);
}

void crti_core_break(crti_core_t *core, crt_status_t status, const char *text)
{
    if (core->broken != CRT_OK)
        return;
    core->broken = status;
    core->broken_text = strdup(text);
    crti_node_requests_end(core);
    crti_missing_end(core);
    crti_copy_query_end(core);
    crti_value_retry_end(core, status, text);
    crti_actors_end(core, status, text);
    crti_tasks_end(core);
    break_refs(core, false, status, text);
    break_refs(core, true, status, text);
    crti_waits_break(core, status, text);
    crti_refs_notify(core);
    if (core->net) /* it may be told while it attaches */
        crti_net_wake(core->net);
}
