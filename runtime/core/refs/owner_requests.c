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

static crti_owner_request_t *request_of(crti_list_t *item)
{
    return CRTI_CONTAINER(item, crti_owner_request_t, link);
}

static void send_entry(crti_core_t *core, crti_remote_t *owner,
                       const crti_owner_request_t *entry)
{
    struct iovec part = {entry->record.data, entry->record.size};

    /* If the session is lost already, it is sent again when that is told. */
    (void)crti_net_send(core->net, owner->peer, &part, 1, CRTI_SEND_CONTROL,
                        CRTI_NET_NO_DEADLINE, NULL);
}

/* The open ones leave; those before them that have to be sent again go first. */
static void close_open(crti_core_t *core, crti_remote_t *owner)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&owner->open_requests))) {
        crti_owner_request_t *entry = request_of(item);

        entry->request = core->refs->next_request++;
        crti_seal_owner_request(&entry->record, entry->request);
        crti_list_append(&owner->owner_requests, &entry->link);
        if (!owner->needs_resend)
            send_entry(core, owner, entry);
    }
}

void crti_owner_requests_gather(crti_core_t *core)
{
    core->refs->gathers++;
}

void crti_owner_requests_send(crti_core_t *core)
{
    crti_list_t *item;

    if (--core->refs->gathers > 0)
        return;
    while ((item = crti_list_pop(&core->refs->gathering)))
        close_open(core, CRTI_CONTAINER(item, crti_remote_t, gathers));
}

/* ------------------------------------------------------------------ gathering */

/* A BORROW is the first of those that are open. */
static crti_owner_request_t *open_one(crti_remote_t *owner, crti_record_kind_t kind)
{
    CRTI_LIST_FOREACH (item, &owner->open_requests) {
        crti_owner_request_t *entry = request_of(item);

        if (crti_record_kind(entry->record.data, entry->record.size) == kind)
            return entry;
    }
    return NULL;
}

static bool has_room(const crti_owner_request_t *entry, crti_id_t process,
                     const crti_completion_t *ending)
{
    return crti_id_equal(entry->process, process) && entry->ending == ending &&
           crti_owner_request_refs(&entry->record) < CRTI_REFS_OF_RECORD;
}

static crt_status_t begin_record(crti_buffer_t *out, crti_record_kind_t kind,
                                 const crti_borrow_record_t *process)
{
    crti_borrow_record_t record = {.count = 0};

    if (kind == CRTI_RECORD_RELEASE)
        return crti_put_release(out, 0, NULL, 0);
    if (process) {
        record.process = process->process;
        record.incarnation = process->incarnation;
        record.node = process->node;
    }
    return crti_put_borrow(out, kind, &record);
}

static crt_status_t open_new(crti_core_t *core, crti_remote_t *owner,
                             crti_record_kind_t kind, const crti_borrow_record_t *process,
                             crti_owner_request_t **entry_out)
{
    crt_status_t status = owner->needs_resend ? CRT_OK : crti_remote_connect(core, owner);
    crti_owner_request_t *entry;

    if (status != CRT_OK)
        return status;
    entry = calloc(1, sizeof(*entry));
    if (!entry)
        return crt_raise(CRT_ERR_NO_MEMORY, "word for an owner");
    status = begin_record(&entry->record, kind, process);
    if (status != CRT_OK) {
        crti_buffer_fini(&entry->record);
        free(entry);
        return status;
    }
    if (process)
        entry->process = process->process;
    owner->uses++;
    crti_list_append(kind == CRTI_RECORD_BORROW ? owner->open_requests.next
                                                : &owner->open_requests,
                     &entry->link);
    *entry_out = entry;
    return CRT_OK;
}

/* The open request of that kind, of that process and ending, made when there is none. */
static crt_status_t take_open(crti_core_t *core, crti_remote_t *owner,
                              crti_record_kind_t kind,
                              const crti_borrow_record_t *process,
                              crti_completion_t *ending, crti_owner_request_t **entry_out)
{
    crti_id_t id = process ? process->process : (crti_id_t){0, 0};
    crti_owner_request_t *entry = open_one(owner, kind);
    crt_status_t status;

    if (entry && !has_room(entry, id, ending)) {
        close_open(core, owner);
        entry = NULL;
    }
    if (!entry) {
        status = open_new(core, owner, kind, process, &entry);
        if (status != CRT_OK)
            return status;
        entry->ending = ending;
        if (ending)
            ending->waits++;
    }
    if (core->refs->gathers > 0 && crti_list_is_empty(&owner->gathers))
        crti_list_append(&core->refs->gathering, &owner->gathers);
    *entry_out = entry;
    return CRT_OK;
}

/* Nothing more is coming now. */
static void added(crti_core_t *core, crti_remote_t *owner, crti_record_kind_t kind)
{
    bool may_stay =
        kind == CRTI_RECORD_RELEASE && !crti_list_is_empty(&owner->owner_requests);

    if (core->refs->gathers == 0 && !may_stay)
        close_open(core, owner);
}

/* One that is open and names no ref is still sent, and answered. */
static crt_status_t borrow(crt_ref_t *ref, crti_record_kind_t kind,
                           const crti_borrow_record_t *process, crti_completion_t *ending)
{
    crti_core_t *core = ref->core;
    crti_remote_t *owner = ref->owner;
    bool is_awaited = kind == CRTI_RECORD_BORROW;
    crti_owner_request_t *entry;
    crt_status_t status = take_open(core, owner, kind, process, ending, &entry);

    if (status != CRT_OK)
        return status;
    if (is_awaited)
        status = crti_buffer_append(&entry->refs, &ref, sizeof(ref));
    if (status == CRT_OK)
        status = crti_add_borrow(&entry->record, ref->number);
    else
        is_awaited = false;
    if (status != CRT_OK && is_awaited)
        entry->refs.size -= sizeof(ref);
    if (status == CRT_OK && is_awaited)
        crti_ref_hold(ref);
    added(core, owner, kind);
    return status;
}

void crti_owner_request_borrow(crt_ref_t *ref, crti_completion_t *ending)
{
    crti_core_t *core = ref->core;

    if (borrow(ref, CRTI_RECORD_BORROW, NULL, ending) == CRT_OK)
        return;
    crti_ref_owner_answered(ref, true);
    crti_core_wake_at(core, crti_now_ns()); /* who waits for it is notified then */
}

crt_status_t crti_owner_request_lend(crt_ref_t *ref, const crti_borrow_record_t *process,
                                     crti_completion_t *ending)
{
    return borrow(ref, CRTI_RECORD_BORROW, process, ending);
}

void crti_owner_request_take_back(crt_ref_t *ref, const crti_borrow_record_t *process)
{
    (void)borrow(ref, CRTI_RECORD_TAKE_BACK, process, NULL);
}

void crti_owner_request_release(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    crti_remote_t *owner = ref->owner;
    crti_owner_request_t *entry;

    if (core->is_closing ||
        take_open(core, owner, CRTI_RECORD_RELEASE, NULL, NULL, &entry) != CRT_OK)
        return;
    (void)crti_add_release(&entry->record, ref->number, ref->borrow.tokens);
    added(core, owner, CRTI_RECORD_RELEASE);
}

/* ------------------------------------------------------------------ the end of one */

static void free_entry(crti_owner_request_t *entry)
{
    crti_list_remove(&entry->link);
    crti_buffer_fini(&entry->refs);
    crti_buffer_fini(&entry->record);
    free(entry);
}

/* Whether the next of the numbers that are gone is this one: they come in the order of the
 * request. */
static bool is_next(const crti_borrow_record_t *gone, uint32_t *next, uint64_t number)
{
    if (*next == gone->count || crti_number_at(gone->numbers, *next) != number)
        return false;
    ++*next;
    return true;
}

/* `gone`: of its refs; NULL: all of them. */
static void end(crti_core_t *core, crti_remote_t *owner, crti_owner_request_t *entry,
                const crti_borrow_record_t *gone)
{
    crt_ref_t **refs = (void *)entry->refs.data;
    size_t count = entry->refs.size / sizeof(*refs);
    uint32_t next = 0;

    crti_list_remove(&entry->link);
    crti_owner_requests_gather(core);
    for (size_t i = 0; i < count; i++) {
        bool is_gone = !gone || is_next(gone, &next, refs[i]->number);

        if (crti_id_is_zero(entry->process))
            crti_ref_owner_answered(refs[i], is_gone);
        crti_ref_release(refs[i]);
    }
    if (entry->ending)
        crti_completion_done(entry->ending);
    crti_owner_requests_send(core);
    free_entry(entry);
    crti_remote_unuse(core, owner);
}

crt_status_t crti_owner_requests_answered(crti_core_t *core, crti_remote_t *owner,
                                          const void *data, size_t size)
{
    crti_borrow_record_t answer;
    crt_status_t status = crti_get_borrow(data, size, &answer);

    if (status != CRT_OK)
        return status;
    owner->uses++;
    CRTI_LIST_FOREACH (item, &owner->owner_requests) {
        if (request_of(item)->request != answer.request)
            continue;
        end(core, owner, request_of(item), &answer);
        break;
    }
    if (crti_list_is_empty(&owner->owner_requests))
        close_open(core, owner); /* releases that waited for that */
    crti_remote_unuse(core, owner);
    return CRT_OK;
}

void crti_owner_requests_end(crti_core_t *core, crti_remote_t *owner)
{
    owner->uses++;
    owner->needs_resend = true; /* nothing of it is sent */
    crti_list_remove(&owner->gathers);
    do {
        close_open(core, owner);
        while (!crti_list_is_empty(&owner->owner_requests))
            end(core, owner, request_of(owner->owner_requests.next), NULL);
    } while (!crti_list_is_empty(&owner->open_requests));
    owner->needs_resend = false;
    crti_remote_unuse(core, owner);
}

void crti_owner_requests_free(crti_remote_t *owner)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&owner->open_requests)))
        free_entry(request_of(item));
    while ((item = crti_list_pop(&owner->owner_requests)))
        free_entry(request_of(item));
}

/* ------------------------------------------------------------------ again */

/* Who waits already does not wait longer because another session was lost. */
static void wake(crti_core_t *core, uint64_t now_ns)
{
    if (core->refs->resend_ns == 0)
        core->refs->resend_ns = now_ns + PAUSE_NS;
    crti_core_wake_at(core, core->refs->resend_ns);
}

/* Nobody waits for the answer any more. What was registered for a result is taken back: the result
 * is given up. Refs of our own may still be registered, but their covers end. */
static void stop_waiting_for(crti_owner_request_t *entry)
{
    crti_completion_t *ending = CRTI_TAKE(entry->ending);
    crt_ref_t **refs = (void *)entry->refs.data;
    size_t count = entry->refs.size / sizeof(*refs);
    bool is_result = !crti_id_is_zero(entry->process);

    if (is_result) {
        if (ending)
            ending->status = CRT_ERR_UNREACHABLE;
        entry->refs = (crti_buffer_t){.data = NULL};
    }
    for (size_t i = 0; !is_result && i < count; i++)
        crti_ref_end_covers(refs[i]);
    if (ending)
        crti_completion_done(ending);
    if (!is_result)
        return;
    for (size_t i = 0; i < count; i++)
        crti_ref_release(refs[i]);
    free(refs);
}

static void stop_waiting(crti_remote_t *owner)
{
    CRTI_LIST_FOREACH_SAFE (item, &owner->owner_requests) {
        crti_owner_request_t *entry = request_of(item);

        if (entry->was_lost && entry->refs.size)
            stop_waiting_for(entry);
        entry->was_lost = true;
    }
}

void crti_owner_requests_pause(crti_remote_t *owner)
{
    owner->needs_resend = !crti_list_is_empty(&owner->owner_requests);
}

void crti_owner_requests_lost(crti_core_t *core, crti_remote_t *owner,
                              crt_status_t status)
{
    owner->needs_resend = true;
    close_open(core, owner);
    if (crti_list_is_empty(&owner->owner_requests)) {
        owner->needs_resend = false;
        return;
    }
    if (owner->is_dead || status == CRT_ERR_PROTOCOL || core->is_closing ||
        core->broken != CRT_OK) {
        crti_owner_requests_end(core, owner);
        return;
    }
    crti_owner_requests_gather(core);
    stop_waiting(owner);
    crti_owner_requests_send(core);
    wake(core, crti_now_ns());
}

static void send_again(crti_core_t *core, crti_remote_t *owner)
{
    owner->needs_resend = false;
    CRTI_LIST_FOREACH (item, &owner->owner_requests) {
        send_entry(core, owner, request_of(item));
    }
}

void crti_owner_requests_tick(crti_core_t *core, uint64_t now_ns)
{
    size_t cursor = 0;
    bool is_left = false;
    void *value;

    if (core->refs->resend_ns == 0)
        return;
    if (core->refs->resend_ns > now_ns) {
        crti_core_wake_at(core, core->refs->resend_ns);
        return;
    }
    while (crti_map_next(&core->remotes->table, &cursor, NULL, &value)) {
        crti_remote_t *owner = value;

        if (!owner->needs_resend)
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
