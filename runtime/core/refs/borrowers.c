/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowers: answers to those who have our refs. See borrowers.h. */
#include "runtime/core/refs/borrowers.h"

#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/refs_int.h"

/* The process that will hold the object: its death must end its registration. */
static crt_status_t watch_borrower(crti_core_t *core, const crti_borrow_record_t *borrow)
{
    crti_address_t address = {.process = borrow->process,
                              .incarnation = borrow->incarnation,
                              .node = borrow->node};
    crti_remote_t *remote = crti_map_get(&core->remotes->table, &borrow->process);
    crt_status_t status;

    if (remote && (remote->is_borrower || remote->is_dead))
        return CRT_OK;
    if (crti_id_equal(borrow->process, core->process))
        return CRT_OK;
    status = crti_remote_use(core, &address, &remote);
    if (status != CRT_OK)
        return status;
    remote->is_borrower = true; /* keeps its use until it is dead */
    crti_remote_watch(core, remote);
    return CRT_OK;
}

/* Who has ended holds nothing, and nobody will tell of its end again: somebody lends to it who has
 * not heard of it yet. */
static bool has_ended(crti_core_t *core, crti_id_t process)
{
    const crti_remote_t *remote = crti_map_get(&core->remotes->table, &process);

    return remote && remote->is_dead;
}

crt_status_t crti_owner_admit_borrower(crti_core_t *core,
                                       const crti_borrow_record_t *borrow,
                                       crti_admitted_t *admitted_out)
{
    crt_status_t status = watch_borrower(core, borrow);

    *admitted_out = (crti_admitted_t){borrow->process, has_ended(core, borrow->process)};
    return status;
}

crt_status_t crti_owner_add_borrower(crt_ref_t *ref, const crti_admitted_t *borrower)
{
    return borrower->has_ended ? CRT_OK
                               : crti_owned_borrow(&ref->owned, borrower->process);
}

/* ----------------------------------------------------------- owner_requests (owner_requests.h) */

/* Who sends them, known until it is dead. NULL: it is, or there is no memory. */
static crti_remote_t *sender_of(crti_core_t *core, const crti_peer_t *peer)
{
    crti_borrow_record_t sender = {.process = crti_peer_process(peer),
                                   .incarnation = crti_peer_incarnation(peer),
                                   .node = crti_peer_node(peer)};
    crti_remote_t *remote;

    if (watch_borrower(core, &sender) != CRT_OK)
        return NULL;
    remote = crti_map_get(&core->remotes->table, &sender.process);
    return remote && !remote->is_dead ? remote : NULL;
}

/* Its requests come in order; one that was carried out comes again when a session was lost. */
static bool is_first(crti_remote_t *sender, uint64_t request)
{
    if (!sender || request <= sender->carried_out)
        return false;
    sender->carried_out = request;
    return true;
}

/* What is registered for us, by who is about to give us a result with it, is the giver's until that
 * arrives (crti_ref_add_token): so it ends with the giver, too. */
static crti_id_t holder_of(const crti_core_t *core, const crti_peer_t *sender,
                           crti_id_t process)
{
    return crti_id_equal(process, core->process) ? crti_peer_process(sender) : process;
}

static crt_status_t answer(crti_core_t *core, crti_peer_t *peer, uint64_t request,
                           const crti_buffer_t *gone)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};
    crti_borrow_record_t borrowed = {
        .request = request, .numbers = gone->data, .count = (uint32_t)(gone->size / 8)};
    crt_status_t status = crti_put_borrow(&record, CRTI_RECORD_BORROWED, &borrowed);

    if (status == CRT_OK)
        crti_peer_reply(core, peer, &record, CRTI_SEND_CONTROL);
    return status;
}

/* Appends the numbers of those that can't be borrowed. `first`: it is done now. */
static void register_all(crti_core_t *core, const crti_borrow_record_t *borrow,
                         const crti_admitted_t *borrower, bool first, crti_buffer_t *gone)
{
    for (uint32_t i = 0; i < borrow->count; i++) {
        uint64_t number = crti_number_at(borrow->numbers, i);
        crt_ref_t *ref = crti_numbers_get(&core->refs->owned, number);

        if (!ref || (first && crti_owner_add_borrower(ref, borrower) != CRT_OK))
            crti_buffer_append(gone, &number, sizeof(number));
    }
}

crt_status_t crti_borrowers_borrow(crti_core_t *core, crti_peer_t *peer, const void *data,
                                   size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t gone = {0};
    crti_borrow_record_t borrow;
    crt_status_t status = crti_get_borrow(data, size, &borrow);
    crti_remote_t *sender;
    crti_admitted_t borrower;

    if (status == CRT_OK && crti_id_is_zero(borrow.process)) {
        borrow.process = crti_peer_process(peer);
        borrow.incarnation = crti_peer_incarnation(peer);
        borrow.node = crti_peer_node(peer);
    }
    if (status == CRT_OK)
        status = watch_borrower(core, &borrow);
    if (status != CRT_OK)
        return status;
    sender = sender_of(core, peer);
    if (!sender)
        return answer(core, peer, borrow.request,
                      &(crti_buffer_t){.data = (void *)(uintptr_t)borrow.numbers,
                                       .size = (size_t)borrow.count * 8});
    borrower.process = holder_of(core, peer, borrow.process);
    borrower.has_ended = has_ended(core, borrower.process);
    register_all(core, &borrow, &borrower, is_first(sender, borrow.request), &gone);
    return answer(core, peer, borrow.request, &gone);
}

static void release(crti_core_t *core, uint64_t number, crti_id_t process,
                    uint64_t tokens)
{
    crt_ref_t *ref = crti_numbers_get(&core->refs->owned, number);

    if (ref)
        crti_owned_apply(ref, crti_owned_release(&ref->owned, process, tokens));
}

crt_status_t crti_borrowers_take_back(crti_core_t *core, crti_peer_t *peer,
                                      const void *data, size_t size)
{
    crti_borrow_record_t lent;
    crt_status_t status = crti_get_borrow(data, size, &lent);
    crti_id_t holder;

    if (status != CRT_OK)
        return status;
    holder = holder_of(core, peer, lent.process);
    crti_owner_requests_gather(core); /* what is freed may hold refs of others */
    if (is_first(sender_of(core, peer), lent.request))
        for (uint32_t i = 0; i < lent.count; i++)
            release(core, crti_number_at(lent.numbers, i), holder, 1);
    crti_owner_requests_send(core);
    return answer(core, peer, lent.request, &(crti_buffer_t){0});
}

crt_status_t crti_borrowers_release(crti_core_t *core, crti_peer_t *peer,
                                    const void *data, size_t size)
{
    crti_release_record_t record;
    crt_status_t status = crti_get_release(data, size, &record);

    if (status != CRT_OK)
        return status;
    crti_owner_requests_gather(core);
    if (is_first(sender_of(core, peer), record.request))
        for (uint32_t i = 0; i < record.count; i++) {
            crti_release_t given = crti_release_at(&record, i);

            release(core, given.number, crti_peer_process(peer), given.tokens);
        }
    crti_owner_requests_send(core);
    return answer(core, peer, record.request, &(crti_buffer_t){0});
}
