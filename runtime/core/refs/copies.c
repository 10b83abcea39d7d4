/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: an owner hears of each node that has the bytes of its object.
 *
 * Where it sits
 *     value_of.c (a pull ended), copy_reply.c -> [ copies.c ] -> COPY -> [ copies.c ] -> refs.c of
 *     the owner
 * Threads
 *     The core's lock.
 */
#include "runtime/core/refs/copies.h"

#include "runtime/base/clock.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/refs_int.h"

void crti_ref_add_copy(crt_ref_t *ref, crti_id_t node)
{
    if (!(crti_owned_copy(&ref->owned, node) & CRTI_OWNED_FOUND))
        return;
    crti_ref_find(ref);
    if (ref->is_locating)
        crti_core_wake_at(ref->core, crti_now_ns()); /* its record of missing.c ends */
    crti_net_wake(ref->core->net);
}

/* Also of those that are found no more: then the pull says so. */
void crti_ref_take_places(crt_ref_t *ref)
{
    const crt_ref_t *target = ref->more->forward;
    uint32_t count =
        target->is_owned ? target->owned.node_count : target->more->node_count;
    const crti_id_t *nodes = target->is_owned ? target->owned.nodes : target->more->nodes;

    ref->more->object = target->more->object; /* another one, when it was made again */
    ref->size = target->size;
    if (target->more->view.data)
        crti_ref_add_copy(ref, ref->core->node);
    for (uint32_t i = 0; i < count; i++)
        crti_ref_add_copy(ref, nodes[i]);
}

/* The node has a copy of `ref`, so of what it was forwarded to, too. */
static void tell_target(crt_ref_t *ref, crti_id_t node)
{
    crt_ref_t *target = ref->more->forward;
    bool is_its_own =
        crti_id_equal(target->more->object.owner, crti_ref_id(target).owner);
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};

    if (target->is_owned)
        crti_ref_add_copy(target, node);
    else if (crti_put_copy(&out, target->number,
                           is_its_own ? target->more->object.number : 0, node) == CRT_OK)
        crti_remote_send(ref->core, target->owner, &out);
}

void crti_ref_tell_copy(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    bool is_its_own = crti_id_equal(ref->more->object.owner, crti_ref_id(ref).owner);
    uint64_t object = is_its_own ? ref->more->object.number : 0;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};

    if (ref->is_owned && ref->more->forward)
        tell_target(ref, core->node);
    if (ref->is_owned)
        crti_ref_add_copy(ref, core->node);
    else if (crti_put_copy(&out, ref->number, object, core->node) == CRT_OK)
        crti_remote_send(core, ref->owner, &out);
}

/* The word of a copy and the end of the last borrower may come by different sessions: it is for
 * an object that was freed since, and so is the copy. A copy of what another ref was forwarded to
 * is not ours to free. */
crt_status_t crti_copy_arrived(crti_core_t *core, const void *data, size_t size)
{
    crti_object_id_t object = {.owner = core->process};
    uint64_t number;
    crti_id_t node;
    crt_status_t status = crti_get_copy(data, size, &number, &object.number, &node);
    crt_ref_t *ref = status == CRT_OK ? crti_ref_owned(core, number) : NULL;

    if (ref && object.number && !ref->more->forward &&
        object.number != ref->more->object.number) { /* of before it was made again */
        crti_object_unstore(core, object, &node, 1);
        return status;
    }
    if (ref && ref->more->forward)
        tell_target(ref, node);
    if (ref)
        crti_ref_add_copy(ref, node);
    else if (status == CRT_OK && object.number)
        crti_object_unstore(core, object, &node, 1);
    return status;
}
