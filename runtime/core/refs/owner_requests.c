/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to owners. See owner_requests.h. */
#include "runtime/core/refs/owner_requests.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/refs_int.h"

#define PAUSE_NS CRTI_S /* before a lost session is made again */

/* ------------------------------------------------------------------ sending */

static void send_entry(crti_core_t *core, crti_remote_t *owner,
                       const crti_owner_request_t *entry)
{
    struct iovec part = {(void *)entry->record, entry->size};

    /* If the session is lost already, it is sent again when that is told. */
    (void)crti_net_send(core->net, owner->peer, &part, 1, CRTI_SEND_CONTROL,
                        CRTI_NET_NO_DEADLINE, NULL);
}

/* Those before it that have to be sent again go first. */
static crt_status_t add(crti_core_t *core, crti_remote_t *owner, uint64_t request,
                        const crti_buffer_t *record, crti_owner_request_t **entry_out)
{
    crt_status_t status = owner->are_due ? CRT_OK : crti_remote_connect(core, owner);
    crti_owner_request_t *entry;

    if (status != CRT_OK)
        return status;
    entry = calloc(1, sizeof(*entry) + record->size);
    if (!entry)
        return crt_raise(CRT_ERR_NO_MEMORY, "word for an owner");
    entry->request = request;
    entry->size = record->size;
    memcpy(entry->record, record->data, record->size);
    owner->uses++;
    crti_list_append(&owner->owner_requests, &entry->link);
    if (!owner->are_due)
        send_entry(core, owner, entry);
    *entry_out = entry;
    return CRT_OK;
}

static crt_status_t borrow(crt_ref_t *ref, crti_record_kind_t kind,
                           const crti_borrow_record_t *process,
                           crti_owner_request_t **entry_out)
{
    crti_core_t *core = ref->core;
    crti_borrow_record_t record = {
        .request = core->refs->next_request++, .numbers = &ref->number, .count = 1};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
    crt_status_t status;

    if (process) {
        record.process = process->process;
        record.incarnation = process->incarnation;
        record.node = process->node;
    }
    status = crti_put_borrow(&out, kind, &record);
    return status == CRT_OK ? add(core, ref->owner, record.request, &out, entry_out)
                            : status;
}

void crti_owner_request_borrow(crt_ref_t *ref)
{
    crti_owner_request_t *entry;

    if (borrow(ref, CRTI_RECORD_BORROW, NULL, &entry) != CRT_OK) {
        crti_ref_owner_answered(ref, true);
        return;
    }
    entry->ref = ref;
    crti_ref_hold(ref);
}

crt_status_t crti_owner_request_lend(crt_ref_t *ref, const crti_borrow_record_t *process,
                                     crti_completion_t *ending)
{
    crti_owner_request_t *entry;
    crt_status_t status = borrow(ref, CRTI_RECORD_BORROW, process, &entry);

    if (status != CRT_OK)
        return status;
    entry->ref = ref;
    entry->ending = ending;
    ending->waits++;
    crti_ref_hold(ref);
    return CRT_OK;
}

void crti_owner_request_take_back(crt_ref_t *ref, const crti_borrow_record_t *process)
{
    crti_owner_request_t *entry;

    (void)borrow(ref, CRTI_RECORD_TAKE_BACK, process, &entry);
}

void crti_owner_request_release(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    uint64_t request = core->refs->next_request++;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
    crti_owner_request_t *entry;

    if (!core->is_closing &&
        crti_put_release(&out, request, ref->number, ref->borrow.tokens) == CRT_OK)
        (void)add(core, ref->owner, request, &out, &entry);
}

/* ------------------------------------------------------------------ the end of one */

static void end(crti_core_t *core, crti_remote_t *owner, crti_owner_request_t *entry,
                bool gone)
{
    crt_ref_t *ref = entry->ref;
    crti_completion_t *ending = entry->ending;

    crti_list_remove(&entry->link);
    free(entry);
    if (ending)
        crti_completion_done(ending);
    else if (ref)
        crti_ref_owner_answered(ref, gone);
    if (ref)
        crti_ref_release(ref);
    crti_remote_unuse(core, owner);
}

static bool is_among(const crti_borrow_record_t *gone, uint64_t number)
{
    for (uint32_t i = 0; i < gone->count; i++)
        if (crti_number_at(gone->numbers, i) == number)
            return true;
    return false;
}

crt_status_t crti_owner_requests_answered(crti_core_t *core, crti_remote_t *owner,
                                          const void *data, size_t size)
{
    crti_borrow_record_t answer;
    crt_status_t status = crti_get_borrow(data, size, &answer);

    if (status != CRT_OK)
        return status;
    CRTI_LIST_FOREACH (item, &owner->owner_requests) {
        crti_owner_request_t *entry = CRTI_CONTAINER(item, crti_owner_request_t, link);

        if (entry->request != answer.request)
            continue;
        end(core, owner, entry, entry->ref && is_among(&answer, entry->ref->number));
        break;
    }
    return CRT_OK;
}

void crti_owner_requests_end(crti_core_t *core, crti_remote_t *owner)
{
    owner->uses++;
    while (!crti_list_is_empty(&owner->owner_requests))
        end(core, owner,
            CRTI_CONTAINER(owner->owner_requests.next, crti_owner_request_t, link), true);
    owner->are_due = false;
    crti_remote_unuse(core, owner);
}

void crti_owner_requests_free(crti_remote_t *owner)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&owner->owner_requests)))
        free(CRTI_CONTAINER(item, crti_owner_request_t, link));
}

/* ------------------------------------------------------------------ again */

static void wake(crti_core_t *core, uint64_t now_ns)
{
    core->refs->resend_ns = now_ns + PAUSE_NS;
    crti_core_wake_at(core, core->refs->resend_ns);
}

/* The result is given up, and what was registered for it is taken back. */
static void give_up_registration(crti_owner_request_t *entry)
{
    crt_ref_t *ref = CRTI_TAKE(entry->ref);
    crti_completion_t *ending = CRTI_TAKE(entry->ending);

    ending->status = CRT_ERR_UNREACHABLE;
    crti_completion_done(ending);
    crti_ref_release(ref);
}

static void stop_waiting(crti_remote_t *owner)
{
    CRTI_LIST_FOREACH_SAFE (item, &owner->owner_requests) {
        crti_owner_request_t *entry = CRTI_CONTAINER(item, crti_owner_request_t, link);

        if (entry->was_lost && entry->ending)
            give_up_registration(entry);
        else if (entry->was_lost && entry->ref)
            crti_ref_end_covers(entry->ref);
        entry->was_lost = true;
    }
}

void crti_owner_requests_lost(crti_core_t *core, crti_remote_t *owner,
                              crt_status_t status)
{
    if (crti_list_is_empty(&owner->owner_requests))
        return;
    if (owner->is_dead || status == CRT_ERR_PROTOCOL || core->is_closing ||
        core->broken != CRT_OK) {
        crti_owner_requests_end(core, owner);
        return;
    }
    owner->are_due = true;
    stop_waiting(owner);
    wake(core, crti_now_ns());
}

static void send_again(crti_core_t *core, crti_remote_t *owner)
{
    owner->are_due = false;
    CRTI_LIST_FOREACH (item, &owner->owner_requests) {
        send_entry(core, owner, CRTI_CONTAINER(item, crti_owner_request_t, link));
    }
}

void crti_owner_requests_tick(crti_core_t *core, uint64_t now_ns)
{
    size_t cursor = 0;
    bool is_left = false;
    void *value;

    if (core->refs->resend_ns == 0 || core->refs->resend_ns > now_ns)
        return;
    while (crti_map_next(&core->remotes->table, &cursor, NULL, &value)) {
        crti_remote_t *owner = value;

        if (!owner->are_due)
            continue;
        if (crti_remote_connect(core, owner) == CRT_OK)
            send_again(core, owner);
        else
            is_left = true;
    }
    core->refs->resend_ns = 0;
    if (is_left)
        wake(core, now_ns);
}
