/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a ref: asked of its owner, brought to this node, pinned, decoded.
 *
 * Where it sits
 *     wait.c (get), incoming.c (arguments) -> [ value_of.c ] -> LOCATE, PULL, store
 * Threads
 *     The core's lock. Pinning and decoding are short; nothing is copied.
 * Failure
 *     What can't be brought here fails the ref, with the reason; that is its content then. Before
 *     an object counts as lost its owner is asked again (value_retry.c).
 */
#include "runtime/core/refs/value_of.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/copies.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/peek.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/values/error.h"

#define EVICTIONS_MAX 20

void crti_value_locate(crt_ref_t *ref)
{
    crt_status_t status;
    bool is_first;

    if (ref->is_owned)
        crti_missing_wanted(ref);
    if (ref->is_owned || ref->is_locating || ref->content != CRTI_CONTENT_NONE)
        return;
    is_first = crti_peek_is_unasked(ref);
    crti_peek_ahead(ref);
    status = crti_ref_ask_owner(ref, 0);
    if (status != CRT_OK)
        crti_ref_fail(ref, status);
    else if (is_first)
        crti_peek_behind(ref->core, ref->owner, CRTI_PEEK_AHEAD);
}

/* ------------------------------------------------------------------ bytes of the store */

/* Of the daemon's copy, which may be evicted before this process pins it: then once more. */
static void pin_copy(crt_ref_t *ref)
{
    crt_status_t status =
        crti_store_get(ref->core->store, ref->more->object, &ref->more->view);

    if (status == CRT_OK)
        crti_ref_tell_copy(ref);
    else if (status == CRT_ERR_NOT_FOUND && ++ref->more->evictions < EVICTIONS_MAX)
        crti_ref_pull(ref);
    else if (status == CRT_ERR_NOT_FOUND)
        crti_ref_lose(ref,
                      crt_raise(CRT_ERR_OBJECT_LOST,
                                "it was pulled %d times and evicted before it was read",
                                EVICTIONS_MAX));
    else
        crti_ref_lose(ref, status);
}

/* Why the bytes can't be brought; of an object of ours also why it is not made again. */
static crt_status_t raise_pulled(const crt_ref_t *ref, const crti_msg_error_t *error)
{
    crt_status_t status = crti_channel_raise(error);
    char text[1000];

    if (status != CRT_ERR_OBJECT_LOST || !ref->is_owned || ref->more->forward)
        return status;
    snprintf(text, sizeof(text), "%s", crt_error_detail());
    return ref->core->refs->handlers.raise_lost(ref, text);
}

static void take_pulled(crt_ref_t *ref, const crti_message_t *message)
{
    crti_core_t *core = ref->core;

    ref->is_pulling = false;
    if (ref->content == CRTI_CONTENT_NONE && message && message->kind != CRTI_MSG_ERROR)
        crti_ref_tell_copy(
            ref); /* it came before the death of its last known node was told */
    if (ref->content == CRTI_CONTENT_STORED && message &&
        message->kind == CRTI_MSG_ERROR &&
        crti_ref_ask_again(ref, (crt_status_t)message->error.status))
        return;
    if (ref->content == CRTI_CONTENT_STORED) {
        if (!message)
            crti_ref_lose(ref, core->broken != CRT_OK
                                   ? crti_core_check(core)
                                   : crt_raise(CRT_ERR_CLOSED, "no answer to PULL"));
        else if (message->kind == CRTI_MSG_ERROR)
            crti_ref_lose(ref, raise_pulled(ref, &message->error));
        else if (!ref->more->view.data)
            pin_copy(ref);
    }
    if (ref->is_pulling || ref->content == CRTI_CONTENT_NONE)
        return;
    crti_ref_changed(ref);
    crti_net_wake(core->net);
}

/* Its owner may wait for the end of it, to know whether there is a copy. */
static void on_pulled(void *user, const crti_message_t *message)
{
    crt_ref_t *ref = user;
    crti_core_t *core = ref->core;

    take_pulled(ref, message);
    crti_copy_query_pull_ended(core);
    if (ref->content == CRTI_CONTENT_NONE)
        crti_core_wake_at(core, crti_now_ns()); /* missing.c */
    crti_ref_release(ref);
}

void crti_ref_pull(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t nodes = {0};
    const crti_id_t *ids = ref->is_owned ? ref->owned.nodes : ref->more->nodes;
    uint32_t count = ref->is_owned ? ref->owned.node_count : ref->more->node_count;
    crti_msg_pull_t body = {.object = ref->more->object, .size = ref->size};
    crt_status_t status;

    if (ref->is_owned)
        crti_owned_tell(&ref->owned);
    for (uint32_t i = 0; i < count; i++) {
        unsigned char id[16];

        crti_id_pack(ids[i], id);
        (void)crti_buffer_append(&nodes, id, sizeof(id));
    }
    body.nodes = crti_span(nodes.data, nodes.size);
    ref->is_pulling = true;
    crti_ref_hold(ref);
    status = crti_node_request(core, CRTI_MSG_PULL, &body, on_pulled, ref);
    if (status == CRT_OK)
        return;
    ref->is_pulling = false;
    crti_ref_lose(ref, status);
    crti_ref_release(ref);
}

bool crti_value_fetch(crt_ref_t *ref)
{
    crt_status_t status;

    crti_peek_read(ref);
    switch (ref->content) {
    case CRTI_CONTENT_NONE:
        if (!ref->is_owned || crti_ref_is_missing(ref)) /* else its call brings it */
            crti_value_locate(ref);
        break;
    case CRTI_CONTENT_INLINE:
    case CRTI_CONTENT_FAILED: return true;
    case CRTI_CONTENT_STORED:
        if (ref->more->view.data)
            return true;
        if (ref->is_pulling || (ref->is_locating && !ref->is_owned) ||
            (ref->more->again && crti_ref_is_asked_again(ref)))
            return false;
        status = crti_core_join_store(ref->core);
        if (status == CRT_OK)
            status =
                crti_store_get(ref->core->store, ref->more->object, &ref->more->view);
        if (status == CRT_OK)
            return true;
        if (status == CRT_ERR_NOT_FOUND && !ref->is_unconfirmed) {
            crti_ref_pull(ref);
            break;
        }
        /* The owner has to know who may make a copy (copy_query.h). */
        if (status == CRT_ERR_NOT_FOUND)
            status = crti_ref_ask_owner(ref, 0);
        if (status != CRT_OK)
            crti_ref_lose(ref, status);
        break;
    }
    /* Locating or pulling may have failed at once. */
    return ref->content == CRTI_CONTENT_FAILED;
}

void crti_value_await(crt_ref_t *ref, crti_waiting_t *waiting, bool local)
{
    bool is_ready;

    if (local) {
        is_ready = crti_value_fetch(ref);
    } else {
        crti_value_locate(ref);
        is_ready = ref->content != CRTI_CONTENT_NONE;
    }
    if (!is_ready && !crti_ref_more(ref)) {
        crti_ref_fail(ref, CRT_ERR_NO_MEMORY);
        is_ready = true;
    }
    if (is_ready) {
        crti_list_init(&waiting->link);
        waiting->on_ready(waiting, ref);
    } else {
        crti_list_append(local ? &ref->more->local_waiters : &ref->more->waiters,
                         &waiting->link);
    }
}

/* ------------------------------------------------------------------ decoding */

crt_status_t crti_ref_raise(const crt_ref_t *ref)
{
    const crt_error_t *error = ref->error ? &ref->error->user : NULL;

    if (!error)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    return crt_raise(error->status, "%s", error->text);
}

crt_status_t crti_ref_value(crt_ref_t *ref, const crt_value_t **value_out)
{
    bool is_inline = ref->content == CRTI_CONTENT_INLINE;
    const void *bytes = is_inline ? crti_ref_bytes(ref) : ref->more->view.data;
    size_t size =
        is_inline ? ref->size : ref->more->view.size; /* whatever its owner says */
    crti_ref_more_t *more;
    crti_span_t table;
    crti_handles_t handles;
    crt_status_t status;

    *value_out = &ref->more->value;
    if (ref->is_decoded)
        return CRT_OK;
    if (ref->content == CRTI_CONTENT_FAILED)
        return crti_ref_raise(ref);
    if (!bytes)
        return crt_raise(CRT_ERR_INVALID, "the value is not here");
    more = crti_ref_more(ref);
    if (!more)
        return CRT_ERR_NO_MEMORY;
    *value_out = &more->value;
    status = crti_value_table(bytes, size, &table);
    if (status == CRT_OK && table.size && !more->inner.refs)
        status = crti_contained_open(ref->core, table, CRTI_CONTAINED_COVERED, false,
                                     &more->inner);
    handles = crti_contained_handles(&more->inner);
    if (status == CRT_OK)
        status = crti_decode(bytes, size, &handles, &more->value, &more->memory);
    ref->is_decoded = status == CRT_OK;
    return status;
}

bool crti_ref_is_flat(const crt_ref_t *ref, crt_out_t out)
{
    return ref->content == CRTI_CONTENT_INLINE && ref->size >= 2 &&
           ref->size <= sizeof(ref->small) && ref->small[0] == CRTI_VALUE_FLAT &&
           out.kind <= CRT_OUT_BYTES;
}

/* After a shutdown it can still be read. */
static void set_read(crt_ref_t *ref)
{
    if (!atomic_load_explicit(&ref->is_read, memory_order_relaxed))
        atomic_store_explicit(&ref->is_read, true, memory_order_relaxed);
}

static crt_status_t read_flat(crt_ref_t *ref, crt_out_t out)
{
    const crti_handles_t none = {0};
    CRTI_AUTO(free) void *memory = NULL;
    crt_value_t value;
    crt_status_t status = crti_decode(ref->small, ref->size, &none, &value, &memory);

    if (status != CRT_OK)
        return status;
    set_read(ref);
    return crti_value_to(&value, out, NULL);
}

crt_status_t crti_ref_read(crt_ref_t *ref, crt_out_t out)
{
    const crt_value_t *value;
    crt_value_t number;
    crt_status_t status;

    if (ref->is_decoded || !crti_ref_is_flat(ref, out)) {
        status = crti_ref_value(ref, &value);
        return status == CRT_OK ? crti_value_to(value, out, NULL) : status;
    }
    if (!crti_decode_flat_number(ref->small, ref->size, &number))
        return read_flat(ref, out);
    set_read(ref);
    return crti_value_to(&number, out, NULL);
}

bool crti_ref_read_number(crt_ref_t *ref, crt_out_t out, crt_status_t *status_out)
{
    crt_value_t number;

    if (__atomic_load_n(&ref->content, __ATOMIC_ACQUIRE) != CRTI_CONTENT_INLINE ||
        crti_peek_is_mark(ref) || !crti_ref_is_flat(ref, out) ||
        !crti_decode_flat_number(ref->small, ref->size, &number))
        return false;
    set_read(ref);
    *status_out = crti_value_to(&number, out, NULL);
    return true;
}
