/* SPDX-License-Identifier: Apache-2.0 */
/* The content of refs: set, described, given up.
 *
 * Where it sits
 *     puts, results (notify.c), forward.c -> [ content.c ] -> refs.c (it came), contained.c (refs
 *     inside)
 *     lineage -> [ content.c ] (its bytes are given up, it is made again)
 * Threads
 *     The core's lock.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/core/process/store_access.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/values/error.h"
#include "runtime/net/message.h"

/* ------------------------------------------------------------------ set */

void crti_ref_set_inline(crt_ref_t *ref, const void *bytes, size_t size)
{
    if (ref->content != CRTI_CONTENT_NONE)
        return;
    if (size > sizeof(ref->small) &&
        posix_memalign(&ref->long_bytes, crti_value_has_data(bytes, size) ? 64 : 16,
                       size) != 0) {
        crti_ref_fail(ref, crt_raise(CRT_ERR_NO_MEMORY, "a value of %zu bytes", size));
        return;
    }
    ref->size = size;
    memcpy(crti_ref_bytes(ref), bytes, size);
    crti_ref_came(ref, CRTI_CONTENT_INLINE, (crti_id_t){0, 0});
}

static crt_status_t keep_nodes(crt_ref_t *ref, const crti_location_t *location)
{
    crti_ref_more_t *more = ref->more;

    more->nodes = calloc(location->node_count, sizeof(*more->nodes));
    if (!more->nodes)
        return crt_raise(CRT_ERR_NO_MEMORY, "%u copies of an object",
                         location->node_count);
    for (uint32_t i = 0; i < location->node_count; i++)
        more->nodes[i] = crti_location_node(location, i);
    more->node_count = location->node_count;
    return CRT_OK;
}

crt_status_t crti_ref_move(crt_ref_t *ref, const crti_location_t *location)
{
    if (location->node_count == 0)
        return crt_raise(CRT_ERR_OBJECT_LOST, "no node has the object");
    free(ref->more->nodes);
    ref->more->node_count = 0;
    return keep_nodes(ref, location);
}

/* A result of ours that can't be used: its bytes are needed nowhere. */
static void unstore_result(crt_ref_t *ref, const crti_location_t *location)
{
    for (uint32_t i = 0; i < location->node_count; i++) {
        crti_id_t node = crti_location_node(location, i);

        crti_object_unstore(ref->core, location->object, &node, 1);
    }
}

static void came_to(crt_ref_t *ref, crti_id_t node, crti_object_id_t object, size_t size)
{
    ref->more->object = object;
    ref->size = size;
    if (ref->more->copies && ref->is_owned && !ref->more->forward)
        crti_kept_copies_stored(ref, node);
    crti_ref_came(ref, CRTI_CONTENT_STORED, node);
}

crt_status_t crti_ref_set_put(crt_ref_t *ref, crti_object_id_t object, size_t size,
                              crti_span_t table)
{
    if (ref->content != CRTI_CONTENT_NONE)
        return CRT_OK;
    if (!crti_ref_more(ref))
        return CRT_ERR_NO_MEMORY;
    if (table.size)
        CRT_TRY(crti_contained_open(ref->core, table, CRTI_CONTAINED_HELD, false,
                                    &ref->more->inner));
    came_to(ref, ref->core->node, object, size);
    return CRT_OK;
}

void crti_ref_set_stored(crt_ref_t *ref, const crti_location_t *location,
                         crti_span_t table, bool has_tokens)
{
    crt_status_t status = CRT_OK;
    crti_id_t first = {0, 0};

    if (ref->content != CRTI_CONTENT_NONE)
        return;
    if (location->node_count == 0)
        status = crt_raise(CRT_ERR_OBJECT_LOST, "no node has the object");
    else if (!crti_ref_more(ref))
        status = CRT_ERR_NO_MEMORY;
    else if (!ref->is_owned)
        status = keep_nodes(ref, location);
    if (status == CRT_OK && table.size && ref->is_owned)
        status = crti_contained_open(ref->core, table, CRTI_CONTAINED_HELD, has_tokens,
                                     &ref->more->inner);
    if (status != CRT_OK) {
        if (ref->is_owned && has_tokens)
            unstore_result(ref, location);
        crti_ref_fail(ref, status);
        return;
    }
    if (location->node_count)
        first = crti_location_node(location, 0);
    came_to(ref, first, location->object, location->size);
}

/* An inline value with refs inside: the refs are made first, so that they are held before
 * anybody is told. */
void crti_ref_set_value(crt_ref_t *ref, crti_span_t value, bool has_tokens)
{
    crti_span_t table = {"", 0};
    crt_status_t status = CRT_OK;

    if (!crti_value_is_flat(value.data, value.size))
        status = crti_value_table(value.data, value.size, &table);
    if (status == CRT_OK && table.size)
        status = crti_ref_more(ref)
                     ? crti_contained_open(ref->core, table,
                                           has_tokens ? CRTI_CONTAINED_HELD
                                                      : CRTI_CONTAINED_COVERED,
                                           has_tokens, &ref->more->inner)
                     : CRT_ERR_NO_MEMORY;
    if (status != CRT_OK)
        crti_ref_fail(ref, status);
    else
        crti_ref_set_inline(ref, value.data, value.size);
}

void crti_ref_take_result(crt_ref_t *ref, const crti_result_t *result, bool has_tokens)
{
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

void crti_ref_describe(crt_ref_t *ref, crti_result_t *result, crti_buffer_t *nodes)
{
    uint32_t count = ref->is_owned ? ref->owned.node_count : ref->more->node_count;
    const crti_id_t *ids = ref->is_owned ? ref->owned.nodes : ref->more->nodes;

    if (ref->is_owned)
        crti_owned_tell(&ref->owned);
    *result = (crti_result_t){.form = CRTI_RESULT_VALUE};
    if (ref->content == CRTI_CONTENT_INLINE) {
        result->value = crti_span(crti_ref_bytes(ref), ref->size);
        return;
    }
    if (ref->content == CRTI_CONTENT_FAILED) {
        result->form = CRTI_RESULT_ERROR;
        result->failure = crti_error_failure(ref->error);
        return;
    }
    result->form = CRTI_RESULT_STORED;
    for (uint32_t i = 0; i < count; i++) {
        unsigned char id[16];

        crti_put_id(id, ids[i]);
        if (crti_buffer_append(nodes, id, sizeof(id)) != CRT_OK)
            break;
    }
    result->location = (crti_location_t){ref->more->object, ref->size, nodes->data,
                                         (uint32_t)(nodes->size / 16)};
}

/* ------------------------------------------------------------------ not wanted */

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

/* ------------------------------------------------------------------ given up */

void crti_ref_vacate(crt_ref_t *ref)
{
    crti_ref_more_t *more = ref->more;

    if (!more->forward)
        crti_object_unstore(ref->core, more->object, ref->owned.nodes,
                            ref->owned.node_count);
    if (more->view.data)
        crti_store_release(ref->core->store, &more->view);
    more->view = (crti_store_view_t){0};
    free(more->memory);
    more->memory = NULL;
    more->value = (crt_value_t){0};
    ref->is_decoded = false;
    if (!more->forward)
        crti_contained_close(&more->inner, NULL);
    crti_owned_vacate(&ref->owned);
    more->missing_until_ns = 0;
    crti_ref_miss(ref);
}

void crti_ref_repeat(crt_ref_t *ref)
{
    if (ref->owned.state != CRTI_OWNED_PENDING)
        crti_owned_repeat(&ref->owned);
    ref->more->evictions = 0;
    crti_ref_end_forward(ref);
    crti_contained_close(&ref->more->inner, NULL);
}

void crti_ref_free_value(crt_ref_t *ref, const char *text)
{
    crti_ref_more_t *more = ref->more;

    if (ref->owned.state != CRTI_OWNED_STORED && ref->owned.state != CRTI_OWNED_MISSING)
        return;
    crti_owned_set_repeatable(&ref->owned, false);
    if (more->lineage || more->is_spared)
        ref->core->refs->handlers.forgotten(ref);
    more->is_spared = false;
    crti_ref_hold(ref); /* refs in its value may be the last that keep it */
    if (more->forward && more->forward->is_owned)
        crti_ref_free_value(more->forward, text);
    if (ref->owned.state == CRTI_OWNED_STORED && ref->is_decoded) {
        /* the program may have pointers into it */
        if (!more->forward)
            crti_object_unstore(ref->core, more->object, ref->owned.nodes,
                                ref->owned.node_count);
        crti_owned_vacate(&ref->owned);
        crti_ref_miss(ref);
    } else if (ref->owned.state == CRTI_OWNED_STORED) {
        crti_ref_vacate(ref);
    }
    if (ref->content == CRTI_CONTENT_NONE)
        crti_ref_fail(ref, crt_raise(CRT_ERR_OBJECT_LOST, "%s", text));
    if (!ref->is_decoded)
        crti_ref_end_forward(ref);
    crti_ref_release(ref);
}
