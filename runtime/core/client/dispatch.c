/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch: which module hears of a record, of the end of a session, of the timer.
 *
 * Where it sits
 *     net, timer.c -> [ dispatch.c ] -> calls, execution, refs; deaths.c
 * Threads
 *     The core's lock.
 * Failure
 *     A record that can't be read ends its session.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/lineage.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/client/client.h"
#include "runtime/core/client/slow_waits.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/client/worker_lines.h"
#include "runtime/core/execution/deadlock.h"
#include "runtime/core/execution/result_wait.h"
#include "runtime/core/execution/yield.h"
#include "runtime/core/process/context.h"
#include "runtime/core/refs/borrowed.h"
#include "runtime/core/refs/borrowers.h"
#include "runtime/core/refs/copies.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/core/refs/locating.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/refs/peek.h"
#include "runtime/core/refs/rescue.h"
#include "runtime/core/refs/value_of.h"

/* Answers to one process outside of its window that it has not acknowledged. Of those that live,
 * and only read late, nobody comes near. */
#define UNACKNOWLEDGED_MAX (1 << 20)

/* ------------------------------------------------------------------ records of callers */

static crt_status_t from_caller(crti_core_t *core, crti_peer_t *peer, const void *data,
                                size_t size)
{
    crti_client_t *client = crti_client_of(core, peer);

    if (!client)
        return crt_raise(CRT_ERR_NO_MEMORY, "a caller");
    if (crti_record_is_call(data, size))
        return crti_incoming_call(client, data, size);
    if (crti_peer_unacknowledged(peer) >= UNACKNOWLEDGED_MAX)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "it asks on and has not acknowledged %llu answers",
                         (unsigned long long)crti_peer_unacknowledged(peer));
    switch (crti_record_kind(data, size)) {
    case CRTI_RECORD_LOCATE: return crti_locating_asked(client, data, size);
    case CRTI_RECORD_PEEK: return crti_peek_asked(client, data, size);
    case CRTI_RECORD_BORROW: return crti_borrowers_borrow(core, peer, data, size);
    case CRTI_RECORD_RELEASE: return crti_borrowers_release(core, peer, data, size);
    case CRTI_RECORD_TAKE_BACK: return crti_borrowers_take_back(core, peer, data, size);
    case CRTI_RECORD_COPY: return crti_copy_arrived(core, data, size);
    case CRTI_RECORD_COPY_QUERY: return crti_copy_query_arrived(core, peer, data, size);
    case CRTI_RECORD_COPY_REPLY: return crti_copy_query_answered(core, peer, data, size);
    case CRTI_RECORD_WAITING: crti_chain_arrived(client, data, size); return CRT_OK;
    case CRTI_RECORD_PROBE: return crti_probe_arrived(client, data, size);
    case CRTI_RECORD_CANCEL: return crti_cancel_arrived(client, data, size);
    case CRTI_RECORD_CONSUMED: return crti_consumed_arrived(client, data, size);
    case CRTI_RECORD_GIVE_BACK: crti_incoming_give_back(client); return CRT_OK;
    default: return crt_raise(CRT_ERR_PROTOCOL, "a record of no kind");
    }
}

/* ------------------------------------------------------------------ records of the called */

static crt_status_t on_reply(crti_core_t *core, crti_remote_t *remote, const void *data,
                             size_t size)
{
    crti_result_t result;
    uint64_t number;
    crt_status_t status = crti_get_result(data, size, &number, &result);
    unsigned index = crti_reply_index(number);
    crti_pending_t *p = NULL;

    if (status == CRT_OK)
        p = crti_pending_get(core, number & ~CRTI_EVERY_PART);
    crti_refs_taken_from(core, remote->address.process);
    if (p && p->remote == remote && index)
        crti_pending_part(p, index, &result);
    else if (p && p->remote == remote)
        crti_pending_answer(p, &result);
    else if (status == CRT_OK)
        crti_result_late(core, &result);
    crti_refs_taken_from(core, (crti_id_t){0, 0});
    return status;
}

static crt_status_t on_item(crti_core_t *core, crti_remote_t *remote, const void *data,
                            size_t size)
{
    crti_result_t result;
    uint64_t call, index;
    crt_status_t status = crti_get_item(data, size, &call, &index, &result);
    crti_pending_t *p;

    if (status != CRT_OK)
        return status;
    p = crti_pending_get(core, call);
    crti_refs_taken_from(core, remote->address.process);
    if (p && p->remote == remote && p->stream)
        status = crti_call_stream_arrived(p, index, &result);
    else
        crti_result_late(core, &result);
    crti_refs_taken_from(core, (crti_id_t){0, 0});
    if (status != CRT_OK && status != CRT_ERR_PROTOCOL)
        crti_pending_fail(p, status, crt_error_detail(), true);
    return status;
}

static crt_status_t on_located(crti_core_t *core, crti_remote_t *remote, const void *data,
                               size_t size)
{
    uint64_t number;
    crti_result_t result;
    crt_status_t status = crti_get_result(data, size, &number, &result);
    crt_ref_t *ref = status == CRT_OK ? crti_borrowed_get(remote, number) : NULL;

    if (ref && ref->is_locating && ref->content == CRTI_CONTENT_STORED)
        crti_ref_located_again(ref, &result);
    else if (ref && ref->is_locating)
        crti_ref_set_result(ref, &result, false);
    return status;
}

static crt_status_t from_called(crti_core_t *core, crti_peer_t *peer, const void *data,
                                size_t size)
{
    crti_remote_t *remote = crti_peer_user(peer);

    if (!remote)
        return CRT_OK; /* we are closing it */
    switch (crti_record_kind(data, size)) {
    case CRTI_RECORD_REPLY: return on_reply(core, remote, data, size);
    case CRTI_RECORD_ITEM: return on_item(core, remote, data, size);
    case CRTI_RECORD_LOCATED: return on_located(core, remote, data, size);
    case CRTI_RECORD_PEEKED: return crti_peek_answered(core, remote, data, size);
    case CRTI_RECORD_BORROWED:
        return crti_owner_requests_answered(core, remote, data, size);
    case CRTI_RECORD_COPY_QUERY: return crti_copy_query_arrived(core, peer, data, size);
    case CRTI_RECORD_COPY_REPLY: return crti_copy_query_answered(core, peer, data, size);
    case CRTI_RECORD_RETIRING: crti_tasks_worker_retires(core, remote); return CRT_OK;
    default: return crt_raise(CRT_ERR_PROTOCOL, "a record of no kind");
    }
}

static void on_record(void *user, crti_peer_t *peer, const void *data, size_t size)
{
    crti_core_t *core = user;
    crt_status_t status = crti_peer_is_initiator(peer)
                              ? from_called(core, peer, data, size)
                              : from_caller(core, peer, data, size);
    char hex[CRTI_ID_HEX];

    if (status != CRT_OK)
        crti_log(CRTI_LOG_WARN, "core", "process %s: %s",
                 crti_id_hex(crti_peer_process(peer), hex), crt_error_detail());
    if (status == CRT_ERR_PROTOCOL)
        crti_net_abort(core->net, peer, crt_error_detail());
    crti_refs_notify(core);
}

static void on_room(void *user, crti_peer_t *peer)
{
    crti_client_t *client = crti_peer_is_initiator(peer) ? NULL : crti_peer_user(peer);

    if (client)
        crti_locating_go_on(client);
}

/* ------------------------------------------------------------------ ends */

static void on_peer_lost(void *user, crti_peer_t *peer, const crti_net_loss_t *loss)
{
    crti_core_t *core = user;
    void *state = crti_peer_user(peer);

    crti_peer_set_user(peer, NULL);
    if (!state)
        return;
    if (crti_peer_is_initiator(peer))
        crti_remote_lost(core, state, loss);
    else
        crti_client_lost(state);
    crti_refs_notify(core);
}

/* Who waits for a worker would wait for ever: a child that it forked may hold its links open. Its
 * end is noticed. */
static void on_broken(void *user)
{
    static const char why[] = "the program closed the descriptors of the runtime (it "
                              "closes all: closefrom, close_range, daemon?)";
    crti_core_t *core = user;

    if (core->is_worker) {
        fprintf(stderr, "crt: worker: %s\n", why);
        _exit(1);
    }
    crti_core_break(core, CRT_ERR_CLOSED, why);
}

const crti_net_handlers_t crti_core_handlers = {.on_record = on_record,
                                                .on_peer_lost = on_peer_lost,
                                                .on_room = on_room,
                                                .on_broken = on_broken};

/* ------------------------------------------------------------------ the timer */

void crti_core_tick(crti_core_t *core, uint64_t now_ns)
{
    crti_object_flush_frees(core);
    crti_tasks_tick(core, now_ns);
    crti_second_runs_tick(core, now_ns);
    crti_lineage_tick(core, now_ns);
    crti_actor_tick(core, now_ns);
    crti_owner_requests_tick(core, now_ns);
    crti_kept_copies_tick(core, now_ns);
    crti_missing_tick(core, now_ns);
    crti_rescue_tick(core, now_ns);
    crti_value_retry_tick(core, now_ns);
    crti_result_waits_tick(core, now_ns);
    crti_cancel_expired(core, now_ns);
    crti_execution_tick(core, now_ns);
    crti_executors_tick(core, now_ns);
    crti_worker_lines_tick(core, now_ns);
    crti_slow_waits_tick(core, now_ns);
    crti_watches_tick(core);
    crti_refs_notify(core);
}
