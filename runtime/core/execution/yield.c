/* SPDX-License-Identifier: Apache-2.0 */
/* Streams at their producer: a call that gives its results one by one.
 *
 * Where it sits
 *     user code (crt_yield) -> [ yield.c ] -> ITEM; CONSUMED -> client/dispatch.c -> [ yield.c ]
 * Threads
 *     The thread that runs the call, without the lock; it is taken where an item leaves. A thread
 *     that yields more than its caller allows waits as in crt_get: others of its actor go on.
 * Ownership
 *     An item is its caller's from the moment that it was sent. What it refers to is registered
 *     before.
 * Failure
 *     The caller is gone, or wants no more: crt_yield returns CRT_ERR_CANCELLED.
 */
#include "runtime/core/execution/yield.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/calls/object.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/remotes.h"

/* ------------------------------------------------------------------ what the caller says */

crt_status_t crti_consumed_arrived(crti_client_t *client, const void *data, size_t size)
{
    crti_consumed_t more;
    crt_status_t status = crti_get_consumed(data, size, &more);

    if (status != CRT_OK)
        return status;
    CRTI_LIST_FOREACH (item, &client->calls) {
        crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);
        crti_yields_t *y = call->yields;

        if (call->number != more.call || !y)
            continue;
        if (more.limit < y->limit ||
            !crti_item_numbers_add(&y->numbers, more.first, more.limit - y->limit))
            return crt_raise(CRT_ERR_PROTOCOL, "malformed record: items that were taken");
        y->limit = more.limit;
        break;
    }
    return CRT_OK; /* or it has ended meanwhile */
}

/* ------------------------------------------------------------------ one item */

static bool may_go_on(void *user)
{
    const crt_call_t *call = user;

    return call->yields->next < call->yields->limit || crt_cancelled(call);
}

static crt_status_t check_wanted(const crt_call_t *call)
{
    return crt_cancelled(call)
               ? crt_raise(CRT_ERR_CANCELLED, "%s: nobody wants more of its results",
                           call->function->display)
               : CRT_OK;
}

static crt_status_t wait_for_room(crt_call_t *call)
{
    crt_status_t status = crti_wait_openly(call->core, may_go_on, call, -1, NULL,
                                           "the reader of its stream");

    return status == CRT_OK ? check_wanted(call) : status;
}

static void is_registered(crti_completion_t *ending)
{
    crti_net_wake(CRTI_CONTAINER(ending, crti_yields_t, ending)->call->core->net);
}

static bool has_registered(void *user)
{
    return ((crti_yields_t *)user)->ending.waits == 0;
}

/* Whom it refers to has to know of the caller before the item leaves. That is always answered, or
 * its owner's end is told. */
static crt_status_t register_refs(crt_call_t *call)
{
    crti_yields_t *y = call->yields;
    crt_status_t status = CRT_OK;

    if (y->item.ref_count == 0)
        return CRT_OK;
    y->call = call;
    y->ending = (crti_completion_t){.waits = 1, .on_end = is_registered};
    crti_result_register(call, &y->item, &y->ending);
    crti_completion_done(&y->ending);
    status = crti_net_wait(call->core->net, has_registered, y, CRTI_NET_NO_DEADLINE);
    y->is_broken = !has_registered(y);
    if (y->is_broken)
        return status; /* this process ends */
    if (y->ending.status < 0)
        return crt_raise(y->ending.status,
                         "%s: the owner of a ref in it can't be reached",
                         call->function->display);
    return CRT_OK;
}

static crt_status_t send_item(crt_call_t *call)
{
    crti_core_t *core = call->core;
    crti_buffer_t record = crti_scratch_take(core);
    unsigned char node[16];
    crti_result_t result;
    crt_status_t status;

    crti_result_describe(call, &call->yields->item, node, &result);
    status = crti_put_item(&record, call->number, call->yields->next, &result);
    if (status == CRT_OK)
        status = crti_peer_reply(core, call->client->peer, &record, CRTI_SEND_IF_IDLE);
    crti_scratch_give(core, &record);
    return status == CRT_ERR_CLOSED ? check_wanted(call) : status;
}

/* Lock held; it is given up while values are encoded and stored. */
static crt_status_t yield(crt_call_t *call, const crt_arg_t *value)
{
    crti_yields_t *y = call->yields;
    crti_core_t *core = call->core;
    crt_status_t status;

    y->item.scalar_size = (unsigned)crti_encode_scalar(value, y->item.scalar);
    if (y->item.scalar_size)
        return send_item(call);
    crti_net_unlock(core->net);
    status = crti_result_fill(call, &y->item, value);
    crti_net_lock(core->net);
    y->item.is_set = status == CRT_OK;
    if (status == CRT_OK)
        status = register_refs(call);
    if (status == CRT_OK)
        status = send_item(call);
    if (!y->is_broken)
        crti_result_end(call, &y->item, status == CRT_OK);
    return status;
}

static crt_status_t yield_next(crt_call_t *call, const crt_arg_t *value)
{
    crti_yields_t *y = call->yields;
    crt_status_t status = wait_for_room(call);

    if (status != CRT_OK)
        return status;
    if (y->is_broken)
        return crt_raise(CRT_ERR_CLOSED, "%s: an earlier result was not yielded",
                         call->function->display);
    if (y->next < y->skip) { /* it has arrived in an earlier try */
        y->next++;
        return CRT_OK;
    }
    y->number = crti_item_number(&y->numbers);
    status = yield(call, value);
    if (status == CRT_OK) {
        y->next++;
        crti_item_numbers_step(&y->numbers);
    }
    return status;
}

crt_status_t crt_yield_v(crt_call_t *call, const crt_arg_t *value)
{
    crti_core_t *core = call ? call->core : NULL;
    crt_object_t *objects;
    crt_status_t status;

    if (!call)
        return crti_no_call("crt_yield");
    if (!value)
        return crti_no_value(call);
    status = crti_objects_claim(core, value, 1, &objects);

    if (status != CRT_OK) {
        status = crt_raise(status, "%s: %s", call->function->display, crt_error_detail());
    } else if (!call->yields || !call->client) {
        status = crt_raise(CRT_ERR_INVALID,
                           "%s yields a result, and its caller asked for no stream",
                           call->function->display);
    } else {
        crti_net_lock(core->net);
        status = yield_next(call, value);
        crti_net_unlock(core->net);
    }
    crti_objects_end(core, &objects);
    return status;
}
