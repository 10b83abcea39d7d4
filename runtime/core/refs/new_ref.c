/* SPDX-License-Identifier: Apache-2.0 */
/* Refs are made: of new objects of this process, and of objects of others whose names arrive.
 *
 * Where it sits
 *     outgoing, incoming, contained, refs.c -> [ new_ref.c ] -> tables of refs, remotes (owners)
 * Threads
 *     The core's lock.
 */
#include <string.h>

#include "runtime/core/process/entry.h"
#include "runtime/core/refs/borrowed.h"
#include "runtime/core/refs/peek.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/net/message.h"

#define EMPTY(list)                                                                      \
    {                                                                                    \
        (crti_list_t *)(uintptr_t) & (list), (crti_list_t *)(uintptr_t) & (list)         \
    }

const crti_ref_more_t crti_ref_no_more = {
    .forward_waiting.link = EMPTY(crti_ref_no_more.forward_waiting.link),
    .forwards = EMPTY(crti_ref_no_more.forwards),
    .waiters = EMPTY(crti_ref_no_more.waiters),
    .local_waiters = EMPTY(crti_ref_no_more.local_waiters),
    .uncovering = EMPTY(crti_ref_no_more.uncovering),
    .turn = EMPTY(crti_ref_no_more.turn),
    .awaited = EMPTY(crti_ref_no_more.awaited)};

/* Its memory is of any value. */
static void begin(crti_core_t *core, crt_ref_t *ref, uint64_t number, bool is_in_block)
{
    memset(ref, 0, sizeof(*ref));
    ref->core = core;
    ref->number = number;
    ref->is_in_block = is_in_block;
    ref->is_in_slab = !is_in_block;
    ref->more = CRTI_REF_NO_MORE;
}

crti_ref_more_t *crti_ref_more(crt_ref_t *ref)
{
    crti_ref_more_t *more = ref->more;

    if (more != &crti_ref_no_more)
        return more;
    more = crti_pool_get(&ref->core->refs->more_pool);
    if (!more) {
        (void)crt_raise(CRT_ERR_NO_MEMORY, "a ref");
        return NULL;
    }
    memset(more, 0, sizeof(*more));
    more->ref = ref;
    crti_list_init(&more->forward_waiting.link);
    crti_list_init(&more->forwards);
    crti_list_init(&more->waiters);
    crti_list_init(&more->local_waiters);
    crti_list_init(&more->uncovering);
    crti_list_init(&more->turn);
    crti_list_init(&more->awaited);
    ref->more = more;
    return more;
}

void crti_refs_taken_from(crti_core_t *core, crti_id_t process)
{
    core->refs->sender = process;
}

uint64_t crti_new_numbers(crti_core_t *core, uint64_t count)
{
    uint64_t first = core->refs->next_number;

    core->refs->next_number += count;
    return first;
}

crt_ref_t *crti_ref_new(crti_core_t *core)
{
    return crti_ref_new_numbered(core, crti_new_number(core));
}

crt_ref_t *crti_ref_new_numbered(crti_core_t *core, uint64_t number)
{
    crt_ref_t *ref = crti_slab_get(&core->refs->slabs);

    if (!ref)
        return NULL;
    begin(core, ref, number, false);
    ref->is_owned = true;
    crti_owned_init(&ref->owned);
    if (crti_numbers_add(&core->refs->owned, ref->number, ref) != CRT_OK) {
        crti_slab_put(ref);
        return NULL;
    }
    return ref;
}

/* The use of its owner. */
static crt_status_t use_owner(crti_core_t *core, const crti_ref_name_t *name,
                              crti_remote_t **owner_out)
{
    crti_remote_t *owner = crti_remote_find(core, name->id.owner);
    crti_address_t address = {.process = name->id.owner};

    if (owner && (owner->address.tcp[0] || name->tcp.size == 0)) {
        owner->uses++;
        *owner_out = owner;
        return CRT_OK;
    }
    address.incarnation = name->incarnation;
    address.node = name->node;
    crti_text(name->tcp, address.tcp, sizeof(address.tcp));
    return crti_remote_use(core, &address, owner_out);
}

static crt_status_t new_borrowed(crti_core_t *core, const crti_ref_name_t *name,
                                 crti_remote_t *owner, crt_ref_t **ref_out)
{
    bool is_new, is_in_block;
    crt_ref_t *ref =
        crti_borrowed_place(core, owner, name->id.number, &is_new, &is_in_block);

    if (!ref)
        return crt_raise(CRT_ERR_NO_MEMORY, "a ref");
    *ref_out = ref;
    if (!is_new)
        return CRT_OK;
    begin(core, ref, name->id.number, is_in_block);
    ref->owner = owner;
    owner->uses++;
    crti_borrow_init(&ref->borrow);
    core->refs->borrowed++;
    crti_remote_watch(core, owner);
    crti_peek_may(ref);
    return CRT_OK;
}

crt_ref_t *crti_ref_borrowed(crti_core_t *core, crti_id_t owner, uint64_t number)
{
    crti_remote_t *remote = crti_remote_find(core, owner);

    return remote ? crti_borrowed_get(remote, number) : NULL;
}

static crt_status_t find_own(crti_core_t *core, uint64_t number, crt_ref_t **ref_out)
{
    *ref_out = crti_numbers_get(&core->refs->owned, number);
    return *ref_out
               ? CRT_OK
               : crt_raise(CRT_ERR_OBJECT_LOST, "ref %llu came back after it was freed",
                           (unsigned long long)number);
}

static crt_status_t find_owner(crti_core_t *core, const crti_ref_name_t *name,
                               crti_arrivals_t *arrivals)
{
    crt_status_t status;

    if (name == arrivals->name)
        return CRT_OK;
    *arrivals = (crti_arrivals_t){
        .name = name, .is_ours = crti_id_equal(name->id.owner, core->process)};
    status = arrivals->is_ours ? CRT_OK : use_owner(core, name, &arrivals->owner);
    if (status != CRT_OK) {
        arrivals->name = NULL;
        return status;
    }
    if (arrivals->owner)
        arrivals->owner->uses--; /* it stays until others are made */
    return CRT_OK;
}

bool crti_ref_arrive_block(crti_core_t *core, const crti_ref_name_t *first,
                           crti_arrivals_t *arrivals, crti_borrow_t borrow,
                           crt_ref_t **refs_out)
{
    crti_remote_t *owner;
    crti_ref_block_t *block;
    crt_ref_t *ref;

    if (find_owner(core, first, arrivals) != CRT_OK || arrivals->is_ours)
        return false;
    owner = arrivals->owner;
    block = crti_borrowed_new_block(core, owner, first->id.number);
    if (!block)
        return false;
    for (unsigned i = 0; i < CRTI_REF_BLOCK; i++) {
        ref = refs_out[i] = &block->refs[i];
        begin(core, ref, first->id.number + i, true);
        ref->owner = owner;
        ref->borrow = borrow;
    }
    crti_peek_may_all(owner, block);
    owner->uses += CRTI_REF_BLOCK;
    core->refs->borrowed += CRTI_REF_BLOCK;
    crti_remote_watch(core, owner);
    return true;
}

crt_status_t crti_ref_arrive_among(crti_core_t *core, const crti_ref_name_t *name,
                                   crti_arrivals_t *arrivals, crt_ref_t **ref_out)
{
    crt_status_t status;

    if (name->id.number == 0)
        return crt_raise(CRT_ERR_PROTOCOL, "a ref without a number");
    status = find_owner(core, name, arrivals);
    if (status != CRT_OK)
        return status;
    return arrivals->is_ours ? find_own(core, name->id.number, ref_out)
                             : new_borrowed(core, name, arrivals->owner, ref_out);
}

crt_status_t crti_ref_arrive(crti_core_t *core, const crti_ref_name_t *name,
                             crt_ref_t **ref_out)
{
    crti_arrivals_t one = {.name = NULL};

    return crti_ref_arrive_among(core, name, &one, ref_out);
}

crti_ref_name_t crti_ref_name(const crt_ref_t *ref)
{
    const crti_address_t *owner =
        ref->is_owned ? crti_net_address(ref->core->net) : &ref->owner->address;

    return (crti_ref_name_t){.id = {owner->process, ref->number},
                             .incarnation = owner->incarnation,
                             .node = owner->node,
                             .tcp = crti_str(owner->tcp)};
}

crti_object_id_t crti_ref_id(const crt_ref_t *ref)
{
    return (crti_object_id_t){
        ref->is_owned ? ref->core->process : ref->owner->address.process, ref->number};
}

crt_status_t crti_ref_check(const crt_ref_t *ref)
{
    if (!ref)
        return crt_raise(CRT_ERR_INVALID, "the ref is NULL");
    if (crti_ref_has_core(ref))
        return CRT_OK;
    if (ref->is_free)
        return crt_raise(CRT_ERR_INVALID, "the ref was dropped before");
    return crt_raise(CRT_ERR_CLOSED, "the ref is " CRTI_BEFORE_SHUTDOWN);
}
