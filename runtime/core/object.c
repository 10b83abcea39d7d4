/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: values put into the store, written in place, freed.
 *
 * Where it sits
 *     crt_put_v, crt_object_*, call.c (results) -> [ object.c ] -> store
 * Threads
 *     Writing happens in the caller's thread without the lock: it may wait for room, and copies
 *     of large values take long.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/fault.h"
#include "runtime/core/core.h"

/* ------------------------------------------------------------------ joining */

crt_status_t crti_core_join_store(crti_core_t *core)
{
    static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;
    crti_store_t *store;
    crt_status_t status = CRT_OK;

    if (__atomic_load_n(&core->store, __ATOMIC_ACQUIRE))
        return CRT_OK;
    pthread_mutex_lock(&joining);
    if (!core->store) {
        status = crti_store_attach(core->arena_fd, core->slot, core->process, &store);
        if (status == CRT_OK) {
            close(core->arena_fd);
            core->arena_fd = -1;
            __atomic_store_n(&core->store, store, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&joining);
    return status;
}

/* ------------------------------------------------------------------ writing */

crt_status_t crti_object_room(crti_core_t *core, crti_object_id_t id, size_t size,
                              void **data_out)
{
    uint64_t deadline = 0;
    crt_status_t status = crti_core_join_store(core);

    if (status != CRT_OK)
        return status;
    while ((status = crti_store_create(core->store, id, size, data_out)) ==
           CRT_ERR_STORE_FULL) {
        if (deadline == 0)
            deadline = crti_now_ns() + CRTI_STORE_WAIT;
        crti_net_lock(core->net);
        crti_object_flush_frees(core); /* what we let go of may be what lacks */
        crti_net_unlock(core->net);
        status = crti_store_wait_space(core->store, size, deadline);
        if (status != CRT_OK)
            return status;
    }
    return status;
}

crt_status_t crti_object_write(crti_core_t *core, crti_object_id_t id,
                               const crti_encoder_t *encoder)
{
    void *data;
    crt_status_t status = crti_object_room(core, id, crti_encoder_size(encoder), &data);

    if (status != CRT_OK)
        return status;
    crti_encoder_write(encoder, data);
    return crti_store_seal(core->store, id, !CRTI_FAULT(6));
}

/* ------------------------------------------------------------------ put */

/* The encoded bytes become the content of `ref`. Lock held; given up while the store is written. */
static crt_status_t put_stored(crti_core_t *core, crt_ref_t *ref,
                               const crti_encoder_t *encoder)
{
    unsigned char node[16];
    crti_location_t location = {ref->id, crti_encoder_size(encoder), node, 1};
    crti_span_t table = {"", 0};
    crt_status_t status;

    crti_put_id(node, core->node);
    crti_net_unlock(core->net);
    status = crti_object_write(core, ref->id, encoder);
    crti_net_lock(core->net);
    if (status == CRT_OK && encoder->ref_count + encoder->actor_count)
        status = crti_store_get(core->store, ref->id, &ref->view);
    if (status == CRT_OK && ref->view.data)
        status = crti_value_table(ref->view.data, ref->view.size, &table);
    if (status == CRT_OK)
        crti_ref_set_stored(ref, &location, table, false);
    return status;
}

static crt_status_t put_inline(crti_core_t *core, crt_ref_t *ref,
                               const crti_encoder_t *encoder)
{
    size_t size = crti_encoder_size(encoder);
    crti_buffer_t bytes = crti_scratch_take(core);
    crti_span_t table = {"", 0};
    crt_status_t status = crti_buffer_reserve(&bytes, size);

    if (status == CRT_OK) {
        crti_encoder_write(encoder, bytes.data);
        status = crti_value_table(bytes.data, size, &table);
    }
    if (status == CRT_OK && table.size)
        status = crti_inner_open(core, table, CRTI_INNER_HELD, false, &ref->inner);
    if (status == CRT_OK)
        crti_ref_set_inline(ref, bytes.data, size);
    crti_scratch_give(core, &bytes);
    return status;
}

crt_ref_t *crti_put(crti_core_t *core, const crt_arg_t *arg)
{
    crti_encoder_t encoder = {.what = "crt_put"};
    crt_status_t status;
    crt_ref_t *ref;

    crti_net_lock(core->net);
    status = crti_core_check(core);
    if (status == CRT_OK)
        status = crti_encode(&encoder, &crti_core_naming, arg);
    ref = status == CRT_OK ? crti_ref_new(core) : NULL;
    if (!ref) {
        if (status == CRT_OK)
            status = crt_raise(CRT_ERR_NO_MEMORY, "a ref");
        ref = crti_ref_failed(core, status);
    } else {
        status = crti_encoder_size(&encoder) <= CRTI_PUT_INLINE
                     ? put_inline(core, ref, &encoder)
                     : put_stored(core, ref, &encoder);
        if (status != CRT_OK)
            crti_ref_fail(ref, status);
    }
    crti_net_unlock(core->net);
    crti_encoder_fini(&encoder);
    return ref;
}

crt_ref_t *crt_put_v(crt_arg_t value)
{
    crti_core_t *core = crti_enter_unlocked();
    crt_ref_t *ref;

    if (!core) {
        ref = crti_ref_failed(NULL, crti_entry_status());
        ref->handles = 1;
        return ref;
    }
    ref = crti_put(core, &value);
    ref->handles++;
    crti_leave_unlocked(core);
    return ref;
}

/* ------------------------------------------------------------------ written in place */

/* Inside a call the object is made under the caller's name, so that it can be returned and then
 * outlives this worker; else, and when a call makes very many, under our own. */
static crti_object_id_t name_object(crti_core_t *core)
{
    crt_call_t *call = crti_running();
    crti_object_id_t id = {core->process, 0};

    if (call && call->client && !call->is_cancelled &&
        call->objects_made < CRTI_EVERY_PART >> CRTI_NUMBER_BITS >> 1) {
        id.owner = crti_peer_process(call->client->peer);
        id.number = call->number | (uint64_t)++call->objects_made << CRTI_NUMBER_BITS;
    } else {
        id.number = core->next_number++;
    }
    return id;
}

crt_status_t crt_object_create(crt_dtype_t dtype, int rank, const int64_t *shape,
                               crt_object_t **object_out, crt_tensor_t *view_out)
{
    crti_core_t *core = crti_enter_unlocked();
    size_t offset, bytes = crt_dtype_size(dtype);
    crt_object_t *object;
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    if (!bytes || rank < 0 || rank > CRT_TENSOR_DIMS || (rank && !shape))
        bytes = SIZE_MAX;
    for (int i = 0; bytes != SIZE_MAX && i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)shape[i], &bytes) ||
            bytes > INT64_MAX)
            bytes = SIZE_MAX;
    object = bytes == SIZE_MAX ? NULL : calloc(1, sizeof(*object));
    if (!object) {
        status = crt_raise(bytes == SIZE_MAX ? CRT_ERR_INVALID : CRT_ERR_NO_MEMORY,
                           "an object of %s, rank %d", crt_dtype_name(dtype), rank);
        crti_leave_unlocked(core);
        return status;
    }
    object->core = core;
    crti_net_lock(core->net);
    object->id = name_object(core);
    crti_net_unlock(core->net);
    object->size = crti_value_tensor_header(dtype, rank, shape, NULL, &offset);
    status = crti_object_room(core, object->id, object->size, &object->data);
    if (status == CRT_OK) {
        crti_value_tensor_header(dtype, rank, shape, object->data, &offset);
        *view_out = crt_tensor_view(dtype, rank, shape, (char *)object->data + offset);
        *object_out = object;
    } else {
        free(object);
    }
    crti_leave_unlocked(core);
    return status;
}

/* An object that was named for a caller and is kept here after all: copied under our own name,
 * since the caller's death would take it away. */
static crt_status_t rename_object(crti_core_t *core, crt_object_t *object,
                                  crti_object_id_t id)
{
    void *data;
    crt_status_t status = crti_object_room(core, id, object->size, &data);

    if (status != CRT_OK)
        return status;
    crti_store_copy(data, object->data, object->size);
    crti_store_abort(core->store, object->id);
    object->id = id;
    return CRT_OK;
}

static crt_status_t seal(crti_core_t *core, crt_object_t *object, crt_ref_t *ref)
{
    unsigned char node[16];
    crti_location_t location = {.size = object->size, .nodes = node, .node_count = 1};
    crt_status_t status = CRT_OK;

    crti_put_id(node, core->node);
    if (!crti_id_equal(object->id.owner, core->process))
        status = rename_object(core, object, ref->id);
    if (status == CRT_OK)
        status = crti_store_seal(core->store, object->id, true);
    if (status != CRT_OK)
        return status;
    location.object = object->id;
    crti_net_lock(core->net);
    crti_ref_set_stored(ref, &location, (crti_span_t){"", 0}, false);
    crti_net_unlock(core->net);
    return CRT_OK;
}

crt_ref_t *crt_object_seal(crt_object_t **object_take)
{
    crti_core_t *core = crti_enter_unlocked();
    crt_object_t *object = object_take ? *object_take : NULL;
    crt_status_t status = CRT_OK;
    crt_ref_t *ref;

    if (!core || !object || object->core != core) {
        status = core ? crt_raise(CRT_ERR_INVALID,
                                  "the object is NULL or of before crt_shutdown")
                      : crti_entry_status();
        ref = crti_ref_failed(NULL, status);
    } else {
        crti_net_lock(core->net);
        ref = crti_ref_new(core);
        if (!ref)
            ref = crti_ref_failed(core, crt_raise(CRT_ERR_NO_MEMORY, "a ref"));
        crti_net_unlock(core->net);
        if (ref->content == CRTI_CONTENT_NONE)
            status = seal(core, object, ref);
        if (status != CRT_OK) {
            crti_store_abort(core->store, object->id);
            crti_net_lock(core->net);
            crti_ref_fail(ref, status);
            crti_net_unlock(core->net);
        }
        free(object);
        *object_take = NULL;
    }
    ref->handles++;
    if (core)
        crti_leave_unlocked(core);
    return ref;
}

void crt_object_abort(crt_object_t **object_take)
{
    crt_object_t *object = object_take ? *object_take : NULL;
    crti_core_t *core = object ? crti_enter_unlocked() : NULL;

    if (!object)
        return;
    if (core && object->core == core)
        crti_store_abort(core->store, object->id);
    free(object);
    *object_take = NULL;
    if (core)
        crti_leave_unlocked(core);
}

/* ------------------------------------------------------------------ freeing */

void crti_object_flush_frees(crti_core_t *core)
{
    crti_msg_free_t body = {.objects = crti_span(core->frees.data, core->frees.size)};

    if (core->frees.size == 0)
        return;
    crti_node_notice(core, CRTI_MSG_FREE, &body);
    core->frees.size = 0;
}

static void tell_free(crti_core_t *core, crti_object_id_t object, crti_id_t node)
{
    unsigned char entry[40];

    crti_id_pack(object.owner, entry);
    for (int byte = 0; byte < 8; byte++)
        entry[16 + byte] = (unsigned char)(object.number >> (56 - 8 * byte));
    crti_id_pack(node, entry + 24);
    (void)crti_buffer_append(&core->frees, entry, sizeof(entry));
    if (core->frees.size >= 4096)
        crti_object_flush_frees(core);
    else
        crti_core_wake_at(core, crti_now_ns() + 10 * CRTI_MS);
}

void crti_object_unstore(crti_core_t *core, crti_object_id_t object,
                         const crti_id_t *nodes, uint32_t count)
{
    if (core->is_closing)
        return; /* the node drops what a process that ended owned */
    for (uint32_t i = 0; i < count; i++) {
        if (__atomic_load_n(&core->store, __ATOMIC_ACQUIRE) &&
            crti_id_equal(nodes[i], core->node))
            crti_store_free(core->store, object);
        else
            tell_free(core, object, nodes[i]);
    }
}

void crti_object_abandon(crti_core_t *core, uint64_t call, crti_id_t node)
{
    crti_object_id_t parts = {core->process, call | CRTI_EVERY_PART};

    if (!core->is_closing)
        tell_free(core, parts, node);
}
