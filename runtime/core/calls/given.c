/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments as the program gives them: objects in writing are taken from it, and what is large goes
 * to the store, before the lock is held for the call itself.
 *
 * Where it sits
 *     crt_call, crt_submit, crt_actor_new -> [ given.c ] -> outgoing.c, encode_call.c
 * What becomes of an object
 *     a large argument   sealed; a ref stands for it
 *     any other          read like a tensor, and given up when the call has been made, or was
 *     refused
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/core/calls/object.h"
#include "runtime/core/process/context.h"
#include "runtime/core/refs/value_of.h"

/* A lower bound of the encoded size, enough to tell the large. */
static size_t weight(const crt_arg_t *arg, int depth)
{
    size_t sum = 0;

    switch (arg->kind) {
    case CRT_KIND_STRING: return arg->as.string ? strlen(arg->as.string) : 0;
    case CRT_KIND_BYTES: return arg->as.bytes.size;
    case CRT_KIND_OBJECT: return arg->as.object->size;
    case CRT_KIND_TENSOR:
        if (!arg->as.tensor || arg->as.tensor->rank < 0 ||
            arg->as.tensor->rank > CRT_TENSOR_DIMS)
            return 0; /* refused by the encoder */
        return crt_tensor_bytes(arg->as.tensor);
    case CRT_KIND_LIST:
    case CRT_KIND_MAP:
        for (size_t i = 0; arg->as.list.items && i < arg->as.list.count &&
                           depth < CRTI_VALUE_DEPTH && sum <= CRTI_LIMIT(inline_limit);
             i++)
            sum += 1 + weight(&arg->as.list.items[i], depth + 1);
        return sum;
    case CRT_KIND_VALUE:
        for (size_t i = 0; i < crti_value_items(arg->as.value) &&
                           depth < CRTI_VALUE_DEPTH && sum <= CRTI_LIMIT(inline_limit);
             i++) {
            crt_arg_t item = crt_arg_value(&arg->as.value->as.items[i]);

            sum += 1 + weight(&item, depth + 1);
        }
        return sum;
    default: return 9;
    }
}

static crt_status_t put_one(crti_core_t *core, crti_given_t *given, size_t index)
{
    const crt_arg_t *arg = &given->args[index];
    crt_ref_t *ref;

    if (!given->copy) {
        given->copy = malloc(given->count * sizeof(*given->copy));
        if (!given->copy)
            return crt_raise(CRT_ERR_NO_MEMORY, "%zu arguments", given->count);
        memcpy(given->copy, given->args, given->count * sizeof(*given->copy));
    }
    ref = arg->kind == CRT_KIND_OBJECT ? crti_object_ref(core, arg->as.object, 0)
                                       : crti_put(core, arg, 0);
    given->copy[index] = crt_arg_ref(ref);
    return ref->content == CRTI_CONTENT_FAILED ? crti_ref_raise(ref) : CRT_OK;
}

crt_status_t crti_given_take_any(crti_core_t *core, crti_given_t *given)
{
    const crt_arg_t *args = given->args;
    crt_status_t status =
        crti_objects_claim_inside(core, args, given->count, &given->objects);

    for (size_t i = 0; status == CRT_OK && args && i < given->count; i++)
        if (args[i].kind > CRT_KIND_FLOAT &&
            weight(&args[i], 0) > CRTI_LIMIT(inline_limit))
            status = put_one(core, given, i);
    return status;
}

void crti_given_give_up(crti_core_t *core, crti_given_t *given)
{
    crti_objects_end(core, &given->objects);
    if (!given->copy)
        return;
    crti_net_lock(core->net);
    for (size_t i = 0; i < given->count; i++)
        if (given->copy[i].kind == CRT_KIND_REF && given->args[i].kind != CRT_KIND_REF)
            crti_ref_release(given->copy[i].as.ref);
    crti_net_unlock(core->net);
    free(given->copy);
}
