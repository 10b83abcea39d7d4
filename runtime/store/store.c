/* SPDX-License-Identifier: Apache-2.0 */
/* Store: create, seal, get, release, free.
 *
 * Where it sits
 *     core, node -> [ store/store.c ] -> table.c -> slab.c, heap.c -> transaction.c
 * Threads
 *     Any. Each operation is one transaction under its process's mutex (copying the data is
 *     outside). Operations of different processes meet only in an object's bucket, in the slot a
 *     block came from, and in the heap.
 * Ownership
 *     A block belongs to its creator's slot until seal, a pin to the slot that got it.
 * Cost (hot path)
 *     1 KiB: put, get, release and free some 200 ns together, no system call, no malloc
 *     (tests/bench/store.c).
 * Failure
 *     Release and free have nobody to report to: what a stalled process keeps them from doing is
 *     remembered (`later`) and done with a later call.
 */
#include "runtime/store/store.h"

#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/store/reclaim.h"

#define CREATE_TRIES   8
#define LATER_PAUSE_NS (20 * CRTI_MS)

static crt_status_t release_pin(crti_store_t *store, uint64_t pin_ref)
{
    unsigned slot = 0;
    const crti_pin_t *pin;
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    pin = crti_slab_unit(store, pin_ref, CRTI_CLASS_PIN, &slot);
    if (!pin || slot != store->slot)
        return crti_tx_end(store,
                           crti_tx_damaged(store, "a released pin is none", pin_ref));
    status = crti_table_at(store, crti_read(&pin->entry), &found);
    if (status == CRT_OK && crti_state_pins(found.state) == 1) {
        crti_table_stamp(store, &found);
        store->freed = true; /* it can be evicted now, or saved */
    }
    if (status == CRT_OK)
        status = crti_table_unpin(store, &found);
    if (status == CRT_OK)
        status = crti_slab_free(store, pin_ref);
    return crti_tx_end(store, status);
}

static crt_status_t free_object(crti_store_t *store, crti_object_id_t id)
{
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_table_find(store, id, &found);
    if (status != CRT_OK || !found.entry)
        return crti_tx_end(store, status);
    switch (crti_state_of(found.state)) {
    case CRTI_ENTRY_WRITING:
        status = crti_table_move(store, &found, CRTI_ENTRY_UNWANTED,
                                 crti_state_flags(found.state) & CRTI_ENTRY_SAVED, 0);
        break;
    case CRTI_ENTRY_SEALED:
        if (crti_state_pins(found.state) == 0)
            status = crti_table_remove(store, &found);
        else
            status = crti_table_move(store, &found, CRTI_ENTRY_DOOMED,
                                     crti_state_flags(found.state) & CRTI_ENTRY_SAVED,
                                     crti_state_pins(found.state));
        break;
    case CRTI_ENTRY_SPILLED: status = crti_table_remove(store, &found); break;
    default: break; /* freed already */
    }
    return crti_tx_end(store, status);
}

/* The object that this process is writing. */
static crt_status_t find_mine(crti_store_t *store, crti_object_id_t id,
                              crti_found_t *found)
{
    char hex[CRTI_ID_HEX];
    crt_status_t status = crti_table_find(store, id, found);

    if (status != CRT_OK)
        return status;
    if (!found->entry || crti_state_slot(found->state) != store->slot ||
        (crti_state_of(found->state) != CRTI_ENTRY_WRITING &&
         crti_state_of(found->state) != CRTI_ENTRY_UNWANTED))
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "this process is not writing object %.12s:%llu",
                         crti_id_hex(id.owner, hex), (unsigned long long)id.number);
    return CRT_OK;
}

static crt_status_t abort_object(crti_store_t *store, crti_object_id_t id)
{
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    status = find_mine(store, id, &found);
    if (status == CRT_OK)
        status = crti_state_of(found.state) == CRTI_ENTRY_WRITING &&
                         crti_state_flags(found.state) & CRTI_ENTRY_SAVED
                     ? crti_table_spill(store, &found)
                     : crti_table_remove(store, &found);
    return crti_tx_end(store, status);
}

/* Outside transactions. What can't be remembered is given up: a pin or a block until this
 * process ends, an object until its owner does. */
static void put_off(crti_store_t *store, const crti_deferred_t *later)
{
    size_t count;

    pthread_mutex_lock(&store->mutex);
    count = atomic_load(&store->later_count);
    if (count == store->later_room) {
        size_t room = 2 * count + 16;
        crti_deferred_t *more = realloc(store->later, room * sizeof(*more));

        if (more) {
            store->later = more;
            store->later_room = room;
        }
    }
    if (count < store->later_room) {
        store->later[count] = *later;
        atomic_store(&store->later_count, count + 1);
    }
    store->later_tried_ns = crti_now_ns();
    pthread_mutex_unlock(&store->mutex);
}

/* Takes one thing put off, not sooner than LATER_PAUSE_NS after the last failure. */
static bool take_later(crti_store_t *store, crti_deferred_t *later_out)
{
    bool taken = false;
    size_t count;

    pthread_mutex_lock(&store->mutex);
    count = atomic_load(&store->later_count);
    if (count > 0 && crti_now_ns() - store->later_tried_ns >= LATER_PAUSE_NS) {
        *later_out = store->later[count - 1];
        atomic_store(&store->later_count, count - 1);
        taken = true;
    }
    pthread_mutex_unlock(&store->mutex);
    return taken;
}

crt_status_t crti_store_do(crti_store_t *store, const crti_deferred_t *what)
{
    crt_status_t status = CRT_OK;

    switch (what->what) {
    case CRTI_DEFERRED_RELEASE: status = release_pin(store, what->pin); break;
    case CRTI_DEFERRED_FREE: status = free_object(store, what->id); break;
    case CRTI_DEFERRED_ABORT: status = abort_object(store, what->id); break;
    case CRTI_DEFERRED_RECLAIM:
        if (atomic_load(&crti_arena_slot(store, what->slot)->state) == CRTI_SLOT_ENDING)
            status = crti_reclaim_slot(store, what->slot);
        break;
    }
    if (status == CRT_ERR_TIMED_OUT)
        put_off(store, what);
    return status;
}

void crti_store_catch_up(crti_store_t *store)
{
    crti_deferred_t later;

    if (atomic_load_explicit(&store->later_count, memory_order_relaxed) == 0)
        return;
    while (take_later(store, &later))
        (void)crti_store_do(store, &later);
}

static crt_status_t create_once(crti_store_t *store, crti_object_id_t id, size_t size,
                                uint64_t *offset_out)
{
    char hex[CRTI_ID_HEX];
    crti_found_t found;
    uint64_t stored;
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_table_find(store, id, &found);
    if (status == CRT_OK && found.entry)
        status = crt_raise(
            CRT_ERR_EXISTS, "object %.12s:%llu is %s this node",
            crti_id_hex(id.owner, hex), (unsigned long long)id.number,
            crti_state_of(found.state) == CRTI_ENTRY_WRITING ? "being written on" : "on");
    if (status == CRT_OK)
        status = crti_table_add(store, id, size, &found);
    if (status == CRT_OK)
        status = crti_table_place(store, found.entry, offset_out, &stored);
    return crti_tx_end(store, status);
}

crt_status_t crti_store_reserve(crti_store_t *store, crti_object_id_t id, size_t size,
                                void **data_out)
{
    uint64_t offset = 0;
    crt_status_t status;
    char text[512];

    if (size > store->geometry.capacity)
        return crt_raise(CRT_ERR_TOO_LARGE, "an object of %zu bytes; the store holds %zu",
                         size, (size_t)store->geometry.capacity);
    crti_store_catch_up(store);
    for (unsigned tries = 0;; tries++) {
        bool room = false;

        status = create_once(store, id, size, &offset);
        if (status != CRT_ERR_STORE_FULL)
            break;
        status = crti_space_make(store, size, &room);
        if (status != CRT_OK)
            return status;
        if (!room || tries == CREATE_TRIES) { /* or others are faster each time */
            crti_spill_ask(store, CRTI_SPILL_WAITED, size);
            crti_space_describe(store, text, sizeof(text));
            return crt_raise(CRT_ERR_STORE_FULL, "no room for %zu bytes: %s", size, text);
        }
    }
    if (status != CRT_OK)
        return status;
    crti_prefault_notice(store);
    *data_out = store->base + offset;
    return CRT_OK;
}

crt_status_t crti_store_prepare(crti_store_t *store, void *data, size_t size)
{
    return size ? crti_prefault_block(store, data, size) : CRT_OK;
}

crt_status_t crti_store_create(crti_store_t *store, crti_object_id_t id, size_t size,
                               void **data_out)
{
    void *data = NULL;
    crt_status_t status = crti_store_reserve(store, id, size, &data);

    if (status != CRT_OK)
        return status;
    status = crti_store_prepare(store, data, size);
    if (status == CRT_OK)
        *data_out = data;
    else
        crti_store_abort(store, id);
    return status;
}

crt_status_t crti_store_seal(crti_store_t *store, crti_object_id_t id, bool primary)
{
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    status = find_mine(store, id, &found);
    if (status != CRT_OK)
        return crti_tx_end(store, status);
    if (crti_state_of(found.state) == CRTI_ENTRY_UNWANTED)
        return crti_tx_end(store, crti_table_remove(store, &found));
    found.state = crti_state_word(
        crti_state_of(found.state), crti_state_flags(found.state),
        atomic_load_explicit(&store->me->group, memory_order_relaxed) & 0xffff, 0);
    status = crti_table_move(store, &found, CRTI_ENTRY_SEALED,
                             (primary ? CRTI_ENTRY_PRIMARY : 0) |
                                 (crti_state_flags(found.state) & CRTI_ENTRY_SAVED),
                             0);
    crti_table_stamp(store, &found);
    if (!primary)
        store->freed = true; /* it can be evicted */
    return crti_tx_end(store, status);
}

crt_status_t crti_store_make_primary(crti_store_t *store, crti_object_id_t id)
{
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_table_find(store, id, &found);
    if (status == CRT_OK &&
        (!found.entry || crti_state_of(found.state) != CRTI_ENTRY_SEALED))
        status = crt_raise(CRT_ERR_NOT_FOUND, "the copy is not here any more");
    if (status == CRT_OK)
        status = crti_table_move(store, &found, CRTI_ENTRY_SEALED,
                                 crti_state_flags(found.state) | CRTI_ENTRY_PRIMARY,
                                 crti_state_pins(found.state));
    return crti_tx_end(store, status);
}

void crti_store_abort(crti_store_t *store, crti_object_id_t id)
{
    const crti_deferred_t aborting = {.what = CRTI_DEFERRED_ABORT, .id = id};

    crti_store_catch_up(store);
    (void)crti_store_do(store, &aborting);
}

/* What a get will write, of this process and of the bucket: fetched side by side, where the steps
 * of the transaction would wait for one after the other. */
static void fetch_ahead(const crti_store_t *store, crti_object_id_t id)
{
    const crti_arena_slot_t *me = store->me;

    __builtin_prefetch(crti_table_bucket(store, id), 1);
    __builtin_prefetch(&me->slabs[CRTI_CLASS_PIN], 1);
    __builtin_prefetch(&me->log_count, 1);
    __builtin_prefetch(&me->log[2], 1);
}

CRTI_HOT crt_status_t crti_store_get(crti_store_t *store, crti_object_id_t id,
                                     crti_store_view_t *view_out)
{
    char hex[CRTI_ID_HEX];
    uint64_t pin_ref = 0, offset = 0, size = 0;
    crti_found_t found;
    crti_pin_t *pin;
    crt_status_t status;

    fetch_ahead(store, id);
    crti_tx_begin(store);
    crti_slab_fetch_ahead(store, CRTI_CLASS_PIN);
    status = crti_table_find(store, id, &found);
    if (status == CRT_OK &&
        (!found.entry || crti_state_of(found.state) != CRTI_ENTRY_SEALED))
        status = crt_raise(CRT_ERR_NOT_FOUND, "object %.12s:%llu is not on this node",
                           crti_id_hex(id.owner, hex), (unsigned long long)id.number);
    if (status == CRT_OK)
        status = crti_table_span(store, found.entry, &offset, &size);
    if (status == CRT_OK)
        status = crti_slab_alloc(store, CRTI_CLASS_PIN, &pin_ref);
    if (status == CRT_ERR_STORE_FULL)
        status = crt_raise(status, "no room for one more view of an object");
    if (status != CRT_OK)
        return crti_tx_end(store, status);
    pin = crti_slab_unit(store, pin_ref, CRTI_CLASS_PIN, NULL);
    if (!pin)
        return crti_tx_end(store, crti_tx_damaged(store, "a new pin is none", pin_ref));
    crti_write(&pin->entry, found.ref); /* means something only with the unit taken */
    status =
        crti_table_move(store, &found, CRTI_ENTRY_SEALED, crti_state_flags(found.state),
                        crti_state_pins(found.state) + 1);
    status = crti_tx_end(store, status);
    if (status == CRT_OK)
        *view_out = (crti_store_view_t){store->view + offset, size, pin_ref};
    return status;
}

void crti_store_release(crti_store_t *store, crti_store_view_t *view)
{
    const crti_deferred_t releasing = {.what = CRTI_DEFERRED_RELEASE, .pin = view->pin};

    crti_store_catch_up(store);
    *view = (crti_store_view_t){NULL, 0, 0};
    if (releasing.pin != 0)
        (void)crti_store_do(store, &releasing);
}

void crti_store_free(crti_store_t *store, crti_object_id_t id)
{
    const crti_deferred_t freeing = {.what = CRTI_DEFERRED_FREE, .id = id};

    crti_store_catch_up(store);
    (void)crti_store_do(store, &freeing);
}

bool crti_store_contains(crti_store_t *store, crti_object_id_t id)
{
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_table_find(store, id, &found);
    return crti_tx_end(store, status) == CRT_OK && found.entry &&
           crti_state_of(found.state) == CRTI_ENTRY_SEALED;
}
