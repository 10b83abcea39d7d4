/* SPDX-License-Identifier: Apache-2.0 */
/* Results: what other processes say of a call or an object becomes the content of a ref, or is
 * given back when nobody takes it.
 *
 * Where it sits
 *     pending.c (REPLY), dispatch.c (LOCATED) -> [ results.c ] -> refs.c, forward.c
 * Threads
 *     The core's lock.
 */
#include "runtime/core/process/context.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/refs/forward.h"
#include "runtime/core/refs/refs.h"

void crti_ref_set_result(crt_ref_t *ref, const crti_result_t *result, bool has_tokens)
{
    if (ref->content != CRTI_CONTENT_NONE)
        return;
    if (result->form == CRTI_RESULT_FORWARD && ref->is_owned) {
        crti_forward_begin(ref, &result->ref, has_tokens);
        return;
    }
    switch (result->form) {
    case CRTI_RESULT_VALUE:
    case CRTI_RESULT_DATA: crti_ref_set_value(ref, result->value, has_tokens); break;
    case CRTI_RESULT_STORED:
        crti_ref_set_stored(ref, &result->location, result->table, has_tokens);
        break;
    case CRTI_RESULT_ERROR: crti_ref_set_failed(ref, &result->failure); break;
    default:
        crti_ref_fail(ref, crt_raise(CRT_ERR_PROTOCOL, "a result of unexpected form"));
        break;
    }
}

/* The refs in a result that nobody takes: each came with a token, which is given back. */
static void release_refs(crti_core_t *core, const crti_result_t *result)
{
    crti_span_t table = {"", 0};
    crti_contained_t inner;
    crt_ref_t *ref;

    if (result->form == CRTI_RESULT_FORWARD) {
        if (crti_ref_arrive(core, &result->ref, &ref) != CRT_OK)
            return;
        crti_ref_hold(ref);
        crti_ref_add_token(ref);
        crti_ref_release(ref);
        return;
    }
    if (result->form == CRTI_RESULT_STORED)
        table = result->table;
    else if (result->form == CRTI_RESULT_VALUE || result->form == CRTI_RESULT_DATA)
        (void)crti_value_table(result->value.data, result->value.size, &table);
    if (table.size &&
        crti_contained_open(core, table, CRTI_CONTAINED_HELD, true, &inner) == CRT_OK)
        crti_contained_close(&inner, NULL);
}

void crti_result_late(crti_core_t *core, const crti_result_t *result)
{
    const crti_location_t *location = &result->location;
    crti_id_t node;

    release_refs(core, result);
    if (result->form != CRTI_RESULT_STORED || location->node_count != 1 ||
        !crti_id_equal(location->object.owner, core->process))
        return;
    node = crti_location_node(location, 0);
    crti_object_unstore(core, location->object, &node, 1);
}
