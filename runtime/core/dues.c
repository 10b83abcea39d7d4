/* SPDX-License-Identifier: Apache-2.0 */
/* Dues to owners. See dues.h. */
#include "runtime/core/dues.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"

#define PAUSE_NS CRTI_S /* before a lost session is made again */

/* ------------------------------------------------------------------ sending */

static void send_due(crti_core_t *core, crti_remote_t *owner, const crti_due_t *due)
{
    struct iovec part = {(void *)due->record, due->size};

    /* If the session is lost already, it is sent again when that is told. */
    (void)crti_net_send(core->net, owner->peer, &part, 1, CRTI_SEND_CONTROL,
                        CRTI_NET_NO_DEADLINE, NULL);
}

/* Those before it that have to be sent again go first. */
static crt_status_t add(crti_core_t *core, crti_remote_t *owner, uint64_t request,
                        const crti_buffer_t *record, crti_due_t **due_out)
{
    crt_status_t status = owner->are_due ? CRT_OK : crti_remote_connect(core, owner);
    crti_due_t *due;

    if (status != CRT_OK)
        return status;
    due = calloc(1, sizeof(*due) + record->size);
    if (!due)
        return crt_raise(CRT_ERR_NO_MEMORY, "word for an owner");
    due->request = request;
    due->size = record->size;
    memcpy(due->record, record->data, record->size);
    owner->uses++;
    crti_list_append(&owner->dues, &due->link);
    if (!owner->are_due)
        send_due(core, owner, due);
    *due_out = due;
    return CRT_OK;
}

static crt_status_t borrow(crt_ref_t *ref, crti_record_kind_t kind,
                           const crti_borrow_record_t *process, crti_due_t **due_out)
{
    crti_core_t *core = ref->core;
    crti_borrow_record_t record = {
        .request = core->next_request++, .numbers = &ref->id.number, .count = 1};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
    crt_status_t status;

    if (process) {
        record.process = process->process;
        record.incarnation = process->incarnation;
        record.node = process->node;
    }
    status = crti_put_borrow(&out, kind, &record);
    return status == CRT_OK ? add(core, ref->owner, record.request, &out, due_out)
                            : status;
}

void crti_due_borrow(crt_ref_t *ref)
{
    crti_due_t *due;

    if (borrow(ref, CRTI_RECORD_BORROW, NULL, &due) != CRT_OK) {
        crti_ref_owner_answered(ref, true);
        return;
    }
    due->ref = ref;
    crti_ref_hold(ref);
}

crt_status_t crti_due_lend(crt_ref_t *ref, const crti_borrow_record_t *process,
                           crti_ending_t *ending)
{
    crti_due_t *due;
    crt_status_t status = borrow(ref, CRTI_RECORD_BORROW, process, &due);

    if (status != CRT_OK)
        return status;
    due->ref = ref;
    due->ending = ending;
    ending->waits++;
    crti_ref_hold(ref);
    return CRT_OK;
}

void crti_due_take_back(crt_ref_t *ref, const crti_borrow_record_t *process)
{
    crti_due_t *due;

    (void)borrow(ref, CRTI_RECORD_TAKE_BACK, process, &due);
}

void crti_due_release(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    uint64_t request = core->next_request++;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
    crti_due_t *due;

    if (!core->is_closing &&
        crti_put_release(&out, request, ref->id.number, ref->borrow.tokens) == CRT_OK)
        (void)add(core, ref->owner, request, &out, &due);
}

/* ------------------------------------------------------------------ the end of one */

static void end(crti_core_t *core, crti_remote_t *owner, crti_due_t *due, bool gone)
{
    crt_ref_t *ref = due->ref;
    crti_ending_t *ending = due->ending;

    crti_list_remove(&due->link);
    free(due);
    if (ending)
        crti_ending_done(ending);
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

crt_status_t crti_dues_answered(crti_core_t *core, crti_remote_t *owner, const void *data,
                                size_t size)
{
    crti_borrow_record_t answer;
    crt_status_t status = crti_get_borrow(data, size, &answer);

    if (status != CRT_OK)
        return status;
    CRTI_LIST_FOREACH (item, &owner->dues) {
        crti_due_t *due = CRTI_CONTAINER(item, crti_due_t, link);

        if (due->request != answer.request)
            continue;
        end(core, owner, due, due->ref && is_among(&answer, due->ref->id.number));
        break;
    }
    return CRT_OK;
}

void crti_dues_end(crti_core_t *core, crti_remote_t *owner)
{
    owner->uses++;
    while (!crti_list_is_empty(&owner->dues))
        end(core, owner, CRTI_CONTAINER(owner->dues.next, crti_due_t, link), true);
    owner->are_due = false;
    crti_remote_unuse(core, owner);
}

void crti_dues_free(crti_remote_t *owner)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&owner->dues)))
        free(CRTI_CONTAINER(item, crti_due_t, link));
}

/* ------------------------------------------------------------------ again */

static void wake(crti_core_t *core, uint64_t now_ns)
{
    core->dues_ns = now_ns + PAUSE_NS;
    crti_core_wake_at(core, core->dues_ns);
}

/* The result is given up, and what was registered for it is taken back. */
static void give_up_lending(crti_due_t *due)
{
    crt_ref_t *ref = CRTI_TAKE(due->ref);
    crti_ending_t *ending = CRTI_TAKE(due->ending);

    ending->status = CRT_ERR_UNREACHABLE;
    crti_ending_done(ending);
    crti_ref_release(ref);
}

static void stop_waiting(crti_remote_t *owner)
{
    CRTI_LIST_FOREACH_SAFE (item, &owner->dues) {
        crti_due_t *due = CRTI_CONTAINER(item, crti_due_t, link);

        if (due->was_lost && due->ending)
            give_up_lending(due);
        else if (due->was_lost && due->ref)
            crti_ref_end_covers(due->ref);
        due->was_lost = true;
    }
}

void crti_dues_lost(crti_core_t *core, crti_remote_t *owner, crt_status_t status)
{
    if (crti_list_is_empty(&owner->dues))
        return;
    if (owner->is_dead || status == CRT_ERR_PROTOCOL || core->is_closing ||
        core->broken != CRT_OK) {
        crti_dues_end(core, owner);
        return;
    }
    owner->are_due = true;
    stop_waiting(owner);
    wake(core, crti_now_ns());
}

static void send_again(crti_core_t *core, crti_remote_t *owner)
{
    owner->are_due = false;
    CRTI_LIST_FOREACH (item, &owner->dues) {
        send_due(core, owner, CRTI_CONTAINER(item, crti_due_t, link));
    }
}

void crti_dues_tick(crti_core_t *core, uint64_t now_ns)
{
    size_t cursor = 0;
    bool is_left = false;
    void *value;

    if (core->dues_ns == 0 || core->dues_ns > now_ns)
        return;
    while (crti_map_next(&core->remotes, &cursor, NULL, &value)) {
        crti_remote_t *owner = value;

        if (!owner->are_due)
            continue;
        if (crti_remote_connect(core, owner) == CRT_OK)
            send_again(core, owner);
        else
            is_left = true;
    }
    core->dues_ns = 0;
    if (is_left)
        wake(core, now_ns);
}
