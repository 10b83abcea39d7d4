/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a call: what a method reads of its arguments and says of its result.
 *
 * Where it sits
 *     user code (worker's main thread) -> [ call.c ] -> value.h, object.c
 * Threads
 *     The thread that runs the call, without the lock; it is taken where refs are touched.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fault.h"
#include "runtime/base/limit.h"
#include "runtime/base/number_text.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/execution/yield.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/remotes.h"

crt_status_t crti_no_call(const char *function)
{
    return crt_raise(CRT_ERR_INVALID, "%s: the call is NULL", function);
}

/* ------------------------------------------------------------------ arguments */

size_t crt_arg_count(const crt_call_t *call)
{
    return call ? call->arg_count : 0;
}

crt_status_t crt_arg_at_v(crt_call_t *call, size_t index, crt_out_t out)
{
    crti_place_t place;

    if (!call)
        return crti_no_call("crt_arg_at");
    if (index >= call->arg_count)
        return crt_raise(CRT_ERR_INVALID, "%s has %u arguments, number %zu is asked for",
                         call->function->display, call->arg_count, index + 1);
    place = (crti_place_t){call->function->class_name, call->function->name, index};
    return crti_value_to(&call->args[index].value, out, &place);
}

crt_status_t crt_args_v(crt_call_t *call, const crt_out_t *outs, size_t count)
{
    if (!call)
        return crti_no_call("crt_args");
    if (count != call->arg_count)
        return crt_raise(CRT_ERR_INVALID, "%s takes %zu arguments, %u given",
                         call->function->display, count, call->arg_count);
    for (size_t i = 0; i < count; i++) {
        crt_status_t status = crt_arg_at_v(call, i, outs[i]);

        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

bool crt_cancelled(const crt_call_t *call)
{
    /* One byte that only ever goes from false to true: no lock. */
    return call && (__atomic_load_n(&call->is_cancel_requested, __ATOMIC_RELAXED) ||
                    __atomic_load_n(&call->is_cancelled, __ATOMIC_RELAXED) ||
                    __atomic_load_n(&call->core->execution->is_ending, __ATOMIC_RELAXED));
}

crt_status_t crt_fail(crt_call_t *call, crt_status_t status, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    crti_vformat(text, sizeof(text), format, args);
    va_end(args);
    return crt_raise(status < 0 ? status : CRT_ERR_USER, "%s", text);
}

crt_status_t crt_fail_text(crt_call_t *call, crt_status_t status, const char *text)
{
    return crt_fail(call, status, "%s", text ? text : "");
}

void *crt_call_user(const crt_call_t *call)
{
    if (!call)
        return NULL;
    return call->function->method ? call->core->execution->class_->create.data
                                  : call->function->data;
}

bool crti_call_name_object(crti_object_id_t *id_out)
{
    crt_call_t *call = crti_running();

    if (!call || !call->client || call->is_cancelled || call->yields ||
        call->objects_made >= CRTI_EVERY_PART >> CRTI_NUMBER_BITS >> 1)
        return false;
    id_out->owner = crti_peer_process(call->client->peer);
    id_out->number = call->number | (uint64_t)++call->objects_made << CRTI_NUMBER_BITS;
    return true;
}

crti_placement_t crti_call_placement(const crti_core_t *core)
{
    const crt_call_t *call = crti_running();

    if (call && call->flags & CRTI_CALL_TASK)
        return call->placement;
    return call ? core->placement : (crti_placement_t){.bundle = -1};
}

/* ------------------------------------------------------------------ results */

static crti_id_t recipient(const crt_call_t *call)
{
    return call->client ? crti_peer_process(call->client->peer) : call->core->process;
}

/* The refs inside the result are held until the answer has left. */
static crt_status_t hold_refs(crt_call_t *call, crti_call_result_t *result,
                              crt_ref_t *const *refs, size_t count)
{
    crti_core_t *core = call->core;

    if (count == 0)
        return CRT_OK;
    result->refs = malloc(count * sizeof(crt_ref_t *));
    result->is_lent = calloc(count, sizeof(bool));
    if (!result->refs || !result->is_lent)
        return crt_raise(CRT_ERR_NO_MEMORY, "a result with %zu refs", count);
    crti_net_lock(core->net);
    for (size_t i = 0; i < count; i++) {
        result->refs[i] = refs[i];
        crti_ref_hold(refs[i]);
    }
    crti_net_unlock(core->net);
    result->ref_count = count;
    return CRT_OK;
}

/* The first result bears the name of the call, the others that of a part of it; items of a stream
 * those that came with it, since what bears the call's goes when its process dies. */
static crti_object_id_t name_result(crt_call_t *call, const crti_call_result_t *result)
{
    crti_object_id_t id = {recipient(call), call->number};

    if (call->yields && result == &call->yields->item) {
        id.number = call->yields->number;
        return id;
    }
    if (result != &call->result)
        id.number |= (uint64_t)++call->objects_made << CRTI_NUMBER_BITS;
    return id;
}

static crt_status_t return_stored(crt_call_t *call, crti_call_result_t *result)
{
    crti_core_t *core = call->core;
    crti_object_id_t id = name_result(call, result);
    size_t size = crti_encoder_size(&call->encoder);
    crti_span_t table;
    void *data;
    crt_status_t status = crti_object_room(core, id, size, &data);

    if (status != CRT_OK)
        return status;
    crti_encoder_write(&call->encoder, data);
    status = crti_value_table(data, size, &table);
    if (status == CRT_OK)
        status = crti_buffer_append(&result->value, table.data, table.size);
    if (status == CRT_OK)
        status = crti_store_seal(core->store, id, !CRTI_FAULT(6));
    if (status != CRT_OK) {
        crti_store_abort(core->store, id);
        return status;
    }
    result->form = CRTI_RESULT_STORED;
    result->object = id;
    result->object_size = size;
    return CRT_OK;
}

/* What stands for something else is looked up. */
static crt_status_t encode(crt_call_t *call, const crt_arg_t *arg)
{
    crti_encoder_t *e = &call->encoder;
    crti_core_t *core = call->core;
    bool is_locked = arg->kind == CRT_KIND_ACTOR || arg->kind == CRT_KIND_LIST ||
                     arg->kind == CRT_KIND_MAP;
    crt_status_t status;

    e->what = call->function->display;
    e->user = core;
    if (is_locked)
        crti_net_lock(core->net);
    status = crti_encode(e, &crti_core_naming, arg);
    if (is_locked)
        crti_net_unlock(core->net);
    return status;
}

static crt_status_t return_value(crt_call_t *call, crti_call_result_t *result,
                                 const crt_arg_t *arg)
{
    crti_encoder_t *e = &call->encoder;
    crt_ref_t *const *refs;
    crt_status_t status;
    size_t size, count;

    result->scalar_size = (unsigned)crti_encode_scalar(arg, result->scalar);
    if (result->scalar_size) {
        result->form = CRTI_RESULT_VALUE;
        return CRT_OK;
    }
    status = encode(call, arg);
    if (status != CRT_OK)
        return status;
    refs = crti_encoder_refs(e, &count);
    size = crti_encoder_size(e);
    status = hold_refs(call, result, refs, count);
    if (status != CRT_OK)
        return status;
    if (size > CRTI_LIMIT(inline_limit))
        return return_stored(call, result);
    status = crti_buffer_reserve(&result->value, size);
    if (status != CRT_OK)
        return status;
    crti_encoder_write(e, result->value.data);
    result->value.size = size;
    result->form = CRTI_RESULT_VALUE;
    return CRT_OK;
}

/* An object that was made in this call bears the caller's name already; any other is copied
 * under it, so that it outlives this worker. */
static crt_status_t return_object(crt_call_t *call, crti_call_result_t *result,
                                  crt_object_t *object)
{
    crti_core_t *core = call->core;
    crti_object_id_t id = object->id;
    crt_status_t status = CRT_OK;
    void *data;

    if (!crti_id_equal(id.owner, recipient(call))) {
        id = name_result(call, result);
        status = crti_object_room(core, id, object->size, &data);
        if (status != CRT_OK)
            return status;
        crti_store_copy(data, object->data, object->size);
        crti_store_abort(core->store, object->id);
        object->id = id;
    }
    status = crti_store_seal(core->store, id, !CRTI_FAULT(6));
    if (status != CRT_OK)
        return status;
    object->is_sealed = true;
    result->form = CRTI_RESULT_STORED;
    result->object = id;
    result->object_size = object->size;
    return CRT_OK;
}

static crt_status_t return_ref(crt_call_t *call, crti_call_result_t *result,
                               crt_ref_t *ref)
{
    crt_status_t status = crti_ref_check(ref);

    if (status != CRT_OK)
        return crt_raise(status, "%s: %s", call->function->display, crt_error_detail());
    status = hold_refs(call, result, &ref, 1);
    if (status == CRT_OK)
        result->form = CRTI_RESULT_FORWARD;
    return status;
}

/* Where result `index` goes. */
static crt_status_t open_result(crt_call_t *call, size_t index,
                                crti_call_result_t **result_out)
{
    if (call->function->create && !call->pending && !call->client)
        return crt_raise(CRT_ERR_INVALID, "%s: create has no result",
                         call->function->display);
    if (index >= call->returns)
        return crt_raise(CRT_ERR_INVALID, "%s has %u result%s, number %zu is returned",
                         call->function->display, call->returns,
                         call->returns == 1 ? "" : "s", index + 1);
    if (index && !call->more)
        call->more = calloc(call->returns - 1, sizeof(*call->more));
    if (index && !call->more)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: %u results", call->function->display,
                         call->returns);
    *result_out = crti_call_result(call, (unsigned)index);
    if (!(*result_out)->is_set)
        return CRT_OK;
    if (call->returns == 1)
        return crt_raise(CRT_ERR_INVALID, "%s returns a second result",
                         call->function->display);
    return crt_raise(CRT_ERR_INVALID, "%s returns result %zu twice",
                     call->function->display, index + 1);
}

size_t crt_return_count(const crt_call_t *call)
{
    return call ? call->returns : 0;
}

crt_status_t crti_result_fill(crt_call_t *call, crti_call_result_t *result,
                              const crt_arg_t *value)
{
    if (value->kind == CRT_KIND_OBJECT)
        return return_object(call, result, value->as.object);
    if (value->kind == CRT_KIND_REF)
        return return_ref(call, result, value->as.ref);
    return return_value(call, result, value);
}

crt_status_t crti_no_value(const crt_call_t *call)
{
    return crt_raise(CRT_ERR_INVALID, "%s: the value is NULL", call->function->display);
}

crt_status_t crt_return_at_v(crt_call_t *call, size_t index, const crt_arg_t *value)
{
    crti_call_result_t *result = NULL;
    crt_object_t *objects;
    crt_status_t status;

    if (!call)
        return crti_no_call("crt_return");
    if (!value)
        return crti_no_value(call);
    status = crti_objects_claim(call->core, value, 1, &objects);
    if (status != CRT_OK)
        status = crt_raise(status, "%s: %s", call->function->display, crt_error_detail());
    else
        status = open_result(call, index, &result);
    if (status == CRT_OK)
        status = crti_result_fill(call, result, value);
    if (status == CRT_OK)
        result->is_set = true;
    crti_objects_end(call->core, &objects);
    return status;
}

crt_status_t crt_return_v(crt_call_t *call, const crt_arg_t *value)
{
    return crt_return_at_v(call, 0, value);
}
