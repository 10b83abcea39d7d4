/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: values put into the store, written in place, freed.
 *
 * Where it sits
 *     crt_put, crt_object_*, call.c (results) -> [ object.c ] -> store
 * Threads
 *     Writing happens in the caller's thread without the lock: it may wait for room, and copies
 *     of large values take long.
 */
#include "runtime/core/calls/object.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include "runtime/base/fault.h"
#include "runtime/base/limit.h"
#include "runtime/base/tensor_check.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/core/values/handles.h"

/* ------------------------------------------------------------------ put */

/* The encoded bytes become the content of `ref`. Lock held; given up while the store is written. */
static crt_status_t put_stored(crti_core_t *core, crt_ref_t *ref,
                               const crti_encoder_t *encoder)
{
    crti_object_id_t id = crti_ref_id(ref);
    crti_span_t table = {"", 0};
    crt_status_t status;

    if (!crti_ref_more(ref))
        return CRT_ERR_NO_MEMORY;
    crti_net_unlock(core->net);
    status = crti_object_write(core, id, encoder);
    crti_net_lock(core->net);
    if (status == CRT_OK && encoder->ref_count + encoder->actor_count)
        status = crti_store_get(core->store, id, &ref->more->view);
    if (status == CRT_OK && ref->more->view.data)
        status = crti_value_table(ref->more->view.data, ref->more->view.size, &table);
    return status == CRT_OK ? crti_ref_set_put(ref, id, crti_encoder_size(encoder), table)
                            : status;
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
        status = crti_ref_more(ref)
                     ? crti_contained_open(core, table, CRTI_CONTAINED_HELD, false,
                                           &ref->more->inner)
                     : CRT_ERR_NO_MEMORY;
    if (status == CRT_OK)
        crti_ref_set_inline(ref, bytes.data, size);
    crti_scratch_give(core, &bytes);
    return status;
}

static crt_status_t put_encoded(crti_core_t *core, crt_ref_t *ref,
                                crti_encoder_t *encoder, int64_t copies)
{
    if (crti_encoder_size(encoder) <= CRTI_LIMIT(put_inline_limit))
        return put_inline(core, ref, encoder);
    if (copies || core->copies)
        CRT_TRY(crti_kept_copies_want(ref, copies));
    return put_stored(core, ref, encoder);
}

crt_ref_t *crti_put(crti_core_t *core, const crt_arg_t *arg, int64_t copies)
{
    crti_encoder_t encoder = {.what = "crt_put", .user = core};
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
        status = put_encoded(core, ref, &encoder, copies);
        if (status != CRT_OK)
            crti_ref_fail(ref, status);
    }
    crti_net_unlock(core->net);
    crti_encoder_fini(&encoder);
    return ref;
}

static crt_ref_t *refused(crti_core_t *core, crt_status_t status)
{
    crt_ref_t *ref;

    crti_net_lock(core->net);
    ref = crti_ref_failed(core, status);
    crti_net_unlock(core->net);
    return ref;
}

static crt_status_t copies_of(const crt_put_options_t *options, int64_t *copies_out)
{
    crt_put_options_t o;

    CRT_TRY(CRTI_COPY_STRUCT(&o, options, "CRT_PUT_OPTIONS"));
    *copies_out = o.copies;
    return crti_kept_copies_check(o.copies);
}

crt_ref_t *crt_put_v(const crt_arg_t *value)
{
    return crt_put_with_v(value, NULL);
}

crt_ref_t *crt_put_with_v(const crt_arg_t *value, const crt_put_options_t *options)
{
    crti_core_t *core = crti_enter_unlocked();
    crt_object_t *objects = NULL;
    int64_t copies = 0;
    crt_status_t status;
    crt_ref_t *ref;

    if (!core)
        return crti_given_refused(value, value != NULL);
    status = value ? crti_objects_claim(core, value, 1, &objects)
                   : crt_raise(CRT_ERR_INVALID, "crt_put: the value is NULL");
    if (status == CRT_OK && options)
        status = copies_of(options, &copies);
    if (status != CRT_OK)
        ref = refused(core, status);
    else if (value->kind == CRT_KIND_OBJECT)
        ref = crti_object_ref(core, value->as.object, copies);
    else
        ref = crti_put(core, value, copies);
    ref->handles++;
    crti_objects_end(core, &objects);
    crti_leave_unlocked(core);
    return ref;
}

/* ------------------------------------------------------------------ written in place */

/* Inside a call the object is made under the caller's name, so that it can be returned and then
 * outlives this worker; else, when a call makes very many, and in one that yields, under our
 * own. */
static crti_object_id_t name_object(crti_core_t *core)
{
    crti_object_id_t id = {core->process, 0};

    if (!core->name_object(&id))
        id.number = crti_new_number(core);
    return id;
}

crt_status_t crt_object_create(crt_dtype_t dtype, int rank, const int64_t *shape,
                               crt_object_t **object_out, crt_tensor_t *view_out)
{
    crti_core_t *core = crti_enter_unlocked();
    size_t offset, bytes;
    crt_object_t *object = NULL;
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_tensor_size(dtype, rank, shape, CRTI_TENSOR_ROWS_ANY, &bytes);
    if (status == CRT_OK && (!object_out || !view_out))
        status = crt_raise(CRT_ERR_INVALID,
                           "there is no place for the object or for its view");
    if (status == CRT_OK && !(object = calloc(1, sizeof(*object))))
        status = crt_raise(CRT_ERR_NO_MEMORY, "an object");
    if (status != CRT_OK) {
        crti_leave_unlocked(core);
        return status;
    }
    object->core = core;
    object->size = crti_value_tensor_header(dtype, rank, shape, NULL, &offset);
    crti_net_lock(core->net);
    object->id = name_object(core);
    status = crti_handles_add(&core->calls->objects, object);
    crti_net_unlock(core->net);
    if (status == CRT_OK)
        status = crti_object_room(core, object->id, object->size, &object->data);
    if (status == CRT_OK) {
        crti_value_tensor_header(dtype, rank, shape, object->data, &offset);
        object->view = crt_tensor_view(dtype, rank, shape, (char *)object->data + offset);
        *view_out = object->view;
        *object_out = object;
    } else {
        crti_net_lock(core->net);
        crti_handles_take(&core->calls->objects, object);
        crti_net_unlock(core->net);
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
    crt_status_t status = CRT_OK;

    if (!crti_id_equal(object->id.owner, core->process))
        status = rename_object(core, object, crti_ref_id(ref));
    if (status == CRT_OK)
        status = crti_store_seal(core->store, object->id, true);
    if (status != CRT_OK)
        return status;
    object->is_sealed = true;
    crti_net_lock(core->net);
    status = crti_ref_set_put(ref, object->id, object->size, (crti_span_t){"", 0});
    crti_net_unlock(core->net);
    return status;
}

crt_ref_t *crti_object_ref(crti_core_t *core, crt_object_t *object, int64_t copies)
{
    crt_status_t status;
    crt_ref_t *ref;

    crti_net_lock(core->net);
    ref = crti_ref_new(core);
    if (!ref)
        ref = crti_ref_failed(core, crt_raise(CRT_ERR_NO_MEMORY, "a ref"));
    else if (crti_kept_copies_want(ref, copies) != CRT_OK)
        crti_ref_fail(ref, CRT_ERR_NO_MEMORY);
    crti_net_unlock(core->net);
    if (ref->content != CRTI_CONTENT_NONE)
        return ref;
    status = seal(core, object, ref);
    if (status != CRT_OK) {
        crti_net_lock(core->net);
        crti_ref_fail(ref, status);
        crti_net_unlock(core->net);
    }
    return ref;
}

/* ------------------------------------------------------------------ taken from the program */

static bool holds_objects(const crt_arg_t *args, size_t count, int depth)
{
    for (size_t i = 0; args && i < count; i++) {
        if (args[i].kind == CRT_KIND_OBJECT)
            return true;
        if ((args[i].kind == CRT_KIND_LIST || args[i].kind == CRT_KIND_MAP) &&
            depth < CRTI_VALUE_DEPTH &&
            holds_objects(args[i].as.list.items, args[i].as.list.count, depth + 1))
            return true;
    }
    return false;
}

/* One of before a shutdown; any other address is fine. */
static void forget_old(crt_object_t *object)
{
    if (!crti_old_handle_take(object))
        return;
    crti_kept_drop(object->kept);
    free(object);
}

static crt_status_t claim_one(crti_core_t *core, crt_object_t *object,
                              crt_object_t **objects)
{
    if (crti_handles_take(&core->calls->objects, object)) {
        object->next = *objects;
        *objects = object;
        return CRT_OK;
    }
    forget_old(object);
    return crt_raise(
        CRT_ERR_INVALID,
        "the object is NULL, was given away before, or is " CRTI_BEFORE_SHUTDOWN);
}

/* All of them, also behind one that is none: the last one that is none is told. */
static crt_status_t claim(crti_core_t *core, const crt_arg_t *args, size_t count,
                          crt_object_t **objects, int depth)
{
    crt_status_t status = CRT_OK, one;

    for (size_t i = 0; args && i < count; i++) {
        if (args[i].kind == CRT_KIND_OBJECT)
            one = claim_one(core, args[i].as.object, objects);
        else if ((args[i].kind == CRT_KIND_LIST || args[i].kind == CRT_KIND_MAP) &&
                 depth < CRTI_VALUE_DEPTH)
            one = claim(core, args[i].as.list.items, args[i].as.list.count, objects,
                        depth + 1);
        else
            continue;
        if (one != CRT_OK)
            status = one;
    }
    return status;
}

crt_status_t crti_objects_claim_inside(crti_core_t *core, const crt_arg_t *args,
                                       size_t count, crt_object_t **objects_out)
{
    crt_status_t status;

    if (!holds_objects(args, count, 0))
        return CRT_OK;
    crti_net_lock(core->net);
    status = claim(core, args, count, objects_out, 0);
    crti_net_unlock(core->net);
    return status;
}

void crti_objects_give_up(crti_core_t *core, crt_object_t **objects)
{
    while (*objects) {
        crt_object_t *object = *objects;

        *objects = object->next;
        if (!object->is_sealed)
            crti_store_abort(core->store, object->id);
        free(object);
    }
}

void crti_objects_forget(const crt_arg_t *args, size_t count)
{
    for (size_t i = 0; args && i < count; i++) {
        if (args[i].kind == CRT_KIND_OBJECT)
            forget_old(args[i].as.object);
        else if (args[i].kind == CRT_KIND_LIST || args[i].kind == CRT_KIND_MAP)
            crti_objects_forget(args[i].as.list.items, args[i].as.list.count);
    }
}

void crti_objects_orphan(crti_core_t *core)
{
    size_t cursor = 0;
    crt_object_t *object;

    while ((object = crti_numbers_next(&core->calls->objects, &cursor))) {
        object->core = NULL;
        object->kept = crti_store_keep(core->store, object->data, object->size);
        crti_old_handle_add(object);
    }
}

crt_ref_t *(crt_object_seal)(crt_object_t **object_take)
{
    crt_arg_t value = crt_arg_object(object_take ? *object_take : NULL);

    if (object_take)
        *object_take = NULL;
    return crt_put_v(&value);
}

void crt_object_abort(crt_object_t **object_take)
{
    crt_arg_t value;
    crti_core_t *core;
    crt_object_t *objects;

    if (!object_take || !*object_take || crti_is_forked())
        return;
    value = crt_arg_object(*object_take);
    *object_take = NULL;
    core = crti_enter_unlocked();
    if (!core) {
        crti_objects_forget(&value, 1);
        return;
    }
    (void)crti_objects_claim(core, &value, 1, &objects);
    crti_objects_end(core, &objects);
    crti_leave_unlocked(core);
}

/* ------------------------------------------------------------------ freeing */

crt_ref_t *crti_given_refused(const crt_arg_t *args, size_t count)
{
    crt_status_t status = crti_entry_status();
    crt_ref_t *ref = crti_ref_failed(NULL, status);

    if (!crti_is_forked())
        crti_objects_forget(args, count);
    ref->handles = 1;
    return ref;
}
