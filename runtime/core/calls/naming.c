/* SPDX-License-Identifier: Apache-2.0 */
/* Naming: what refs, actors and objects among a program's values are called in their encoded form.
 *
 * Where it sits
 *     object.c, encode_call.c, call.c -> value_encode.c -> [ naming.c ] -> refs.c, actor_handle.c
 *     placement_group.c, client/watch.c -> [ naming.c ]: refs whose value this process makes itself
 */
#include "runtime/core/calls/actor.h"

static crt_status_t name_ref(void *core, crt_ref_t *ref, crti_ref_name_t *name_out)
{
    crt_status_t status = crti_ref_check(ref);

    if (status == CRT_OK)
        *name_out = crti_ref_name(ref);
    return status;
}

static crt_status_t name_actor(void *core, crt_actor_t *actor,
                               crti_actor_name_t *name_out)
{
    crt_status_t status = crti_actor_check(core, actor);

    if (status != CRT_OK)
        return status;
    *name_out = (crti_actor_name_t){.id = actor->id,
                                    .class_name = crti_str(actor->class_name),
                                    .terms = actor->terms,
                                    .lifetime = actor->lifetime};
    crti_actor_export_location(actor, name_out);
    return CRT_OK;
}

static const crt_tensor_t *tensor_of(const crt_object_t *object)
{
    return &object->view;
}

const crti_naming_t crti_core_naming = {name_ref, name_actor, tensor_of};

void crti_ref_set_made(crt_ref_t *ref, const crt_arg_t *value, const char *what)
{
    crti_core_t *core = ref->core;
    crti_encoder_t encoder = {.what = what, .user = core};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crt_status_t status = crti_encode(&encoder, &crti_core_naming, value);

    if (status == CRT_OK)
        status = crti_buffer_reserve(&bytes, crti_encoder_size(&encoder));
    if (status == CRT_OK) {
        crti_encoder_write(&encoder, bytes.data);
        crti_ref_set_inline(ref, bytes.data, crti_encoder_size(&encoder));
    } else {
        crti_ref_fail(ref, status);
    }
    crti_encoder_fini(&encoder);
    crti_refs_notify(core);
}
