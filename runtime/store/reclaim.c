/* SPDX-License-Identifier: Apache-2.0 */
/* Reclaim: after the end of a process.
 *
 * Where it sits
 *     node daemon (a pidfd says that a process ended) -> [ store/reclaim.c ] -> table.c, slab.c
 * Rules
 *     1. Undo the transaction the process was in, open its locks (transaction.c).
 *     2. Each used unit of its pin slabs is a pin: take it from its entry.
 *     3. Each entry in its entry slabs that is being written, by it, goes with its block.
 *     4. Slabs without used units return to the heap. Slabs with sealed objects stay in the
 *        slot: its next process allocates from them, and they shrink as objects are freed.
 *     Every step is a transaction of the daemon's, so each may fail (another process stalls) and
 *     be repeated (store.c, `later`).
 * Trust
 *     The tables may hold anything. What makes no sense is left as it is and counted in the log.
 */
#include "runtime/store/reclaim.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"

/* All slabs of a slot's class: both lists; none after an error. */
static crt_status_t list_slabs(crti_store_t *store, crti_arena_slot_t *slot,
                               unsigned class, crti_buffer_t *slabs)
{
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_tx_lock(store, &slot->lock);
    if (status == CRT_OK)
        status = crti_space_slabs(store, &slot->slabs[class].partial,
                                  CRTI_ARENA_CHAIN_LINKS, slabs);
    if (status == CRT_OK)
        status = crti_space_slabs(store, &slot->slabs[class].full, CRTI_ARENA_CHAIN_LINKS,
                                  slabs);
    status = crti_tx_end(store, status);
    if (status != CRT_OK)
        slabs->size = 0;
    return status;
}

static crt_status_t take_pin(crti_store_t *store, uint64_t ref)
{
    const crti_pin_t *pin;
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    pin = crti_slab_unit(store, ref, CRTI_CLASS_PIN, NULL);
    if (!pin)
        return crti_tx_end(store, CRT_OK); /* the unit is free */
    status = crti_table_at(store, crti_read(&pin->entry), &found);
    if (status == CRT_OK) {
        crti_table_stamp(store, &found);
        store->freed = true;
        status = crti_table_unpin(store, &found);
    }
    if (status == CRT_OK)
        status = crti_slab_free(store, ref);
    return crti_tx_end(store, status);
}

static crt_status_t take_unsealed(crti_store_t *store, uint64_t ref, unsigned slot)
{
    const crti_entry_t *entry = crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);
    crti_found_t found;
    crt_status_t status;

    if (!entry || (crti_state_of(crti_read(&entry->state)) != CRTI_ENTRY_WRITING &&
                   crti_state_of(crti_read(&entry->state)) != CRTI_ENTRY_UNWANTED))
        return CRT_OK;
    crti_tx_begin(store);
    status = crti_table_find(store, crti_entry_id(entry), &found);
    if (status == CRT_OK && found.ref == ref && crti_state_slot(found.state) == slot &&
        (crti_state_of(found.state) == CRTI_ENTRY_WRITING ||
         crti_state_of(found.state) == CRTI_ENTRY_UNWANTED))
        status = crti_table_remove(store, &found);
    return crti_tx_end(store, status);
}

static crt_status_t drop_slab(crti_store_t *store, uint32_t page, unsigned slot,
                              unsigned class)
{
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_slab_drop(store, page, slot, class);
    return crti_tx_end(store, status);
}

/* Applies the rules to one class. Damage is skipped, waiting in vain ends it. */
static crt_status_t reclaim_class(crti_store_t *store, unsigned index, unsigned class,
                                  unsigned *damage)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t slabs = {0};
    crt_status_t status = list_slabs(store, crti_arena_slot(store, index), class, &slabs);
    const uint32_t *pages = (const uint32_t *)(const void *)slabs.data;
    size_t count = slabs.size / sizeof(*pages);

    if (status == CRT_ERR_CORRUPT) {
        ++*damage;
        return CRT_OK;
    }
    for (size_t i = 0; i < count && status != CRT_ERR_TIMED_OUT; i++) {
        uint64_t ref = (uint64_t)pages[i] << 6;

        for (unsigned unit = 0; unit < 64 && class < CRTI_CLASS_DATA; unit++, ref++) {
            status = class == CRTI_CLASS_PIN ? take_pin(store, ref)
                                             : take_unsealed(store, ref, index);
            *damage += status == CRT_ERR_CORRUPT;
            if (status == CRT_ERR_TIMED_OUT)
                break;
        }
        if (status != CRT_ERR_TIMED_OUT)
            status = drop_slab(store, pages[i], index, class);
        *damage += status == CRT_ERR_CORRUPT;
    }
    return status == CRT_ERR_TIMED_OUT ? status : CRT_OK;
}

crt_status_t crti_reclaim_slot(crti_store_t *store, unsigned index)
{
    crti_arena_slot_t *slot = crti_arena_slot(store, index);
    unsigned damage = 0;
    crt_status_t status = CRT_OK;

    /* From now on whoever frees a last unit gives the slab back: none is missed below. */
    atomic_store(&slot->state, CRTI_SLOT_ENDING);
    /* Pins first, then entries, then data, whose last units may just have gone. */
    status = reclaim_class(store, index, CRTI_CLASS_PIN, &damage);
    for (unsigned class = 0; class < CRTI_CLASSES && status == CRT_OK; class ++)
        if (class != CRTI_CLASS_PIN)
            status = reclaim_class(store, index, class, &damage);
    if (damage > 0)
        crti_log(CRTI_LOG_DEBUG, "store", "slot %u left %u damaged records", index,
                 damage);
    if (status == CRT_ERR_TIMED_OUT)
        return status;
    crti_write(&slot->process_high, 0);
    crti_write(&slot->process_low, 0);
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->state, CRTI_SLOT_FREE);
    crti_tx_wake_creators(store);
    return CRT_OK;
}

crt_status_t crti_store_reclaim(crti_store_t *store, unsigned index)
{
    const crti_deferred_t reclaiming = {.what = CRTI_DEFERRED_RECLAIM, .slot = index};
    crti_arena_slot_t *slot = crti_arena_slot(store, index);

    if (index == 0 || !slot)
        return crt_raise(CRT_ERR_INVALID, "object store: slot %u of 1 ... %u", index,
                         store->geometry.slot_count - 1);
    crti_store_catch_up(store);
    pthread_mutex_lock(&store->mutex);
    crti_tx_undo(store, slot);
    atomic_store(&slot->state, CRTI_SLOT_ENDING);
    pthread_mutex_unlock(&store->mutex);
    return crti_store_do(store, &reclaiming);
}

void crti_store_set_group(crti_store_t *store, unsigned slot, uint16_t group)
{
    crti_arena_slot_t *its = crti_arena_slot(store, slot);

    if (its)
        atomic_store(&its->group, group);
}

bool crti_store_slot_is_free(const crti_store_t *store, unsigned slot)
{
    const crti_arena_slot_t *s = crti_arena_slot(store, slot);

    return s && atomic_load(&s->state) == CRTI_SLOT_FREE;
}

/* In a transaction, of its detach too. */
static bool is_inside(const crti_arena_slot_t *slot)
{
    uint64_t held = 0;

    for (unsigned i = 0; i < CRTI_TX_LOCKS; i++)
        held |= crti_read(&slot->held[i]);
    return held != 0 && atomic_load(&slot->state) != CRTI_SLOT_FREE;
}

/* Who is at the end of the line: a holder may itself wait for another. NULL: nobody. */
static const crti_arena_slot_t *find_culprit(const crti_store_t *store, unsigned *index)
{
    const crti_arena_slot_t *slot = crti_arena_slot(store, *index);

    if (!slot || !is_inside(slot))
        return NULL;
    for (unsigned steps = 0; steps < CRTI_TX_LOCKS; steps++) {
        unsigned ahead = atomic_load(&slot->waits_for) - 1;
        const crti_arena_slot_t *other = crti_arena_slot(store, ahead);

        if (!other || !is_inside(other))
            break;
        slot = other;
        *index = ahead;
    }
    return *index == store->slot ? NULL : slot;
}

unsigned crti_store_stalled(crti_store_t *store, unsigned *slot_out)
{
    unsigned index = atomic_load(&store->header->complaint) - 1;
    const crti_arena_slot_t *slot = find_culprit(store, &index);

    crti_store_catch_up(store);
    crti_write(&store->header->clock_ns, crti_now_ns());
    if (!slot) {
        store->watched = 0;
        atomic_store(&store->header->complaint, 0);
        return 0;
    }
    if (store->watched != index + 1 ||
        store->watched_sequence != crti_read(&slot->sequence)) {
        store->watched = index + 1;
        store->watched_sequence = crti_read(&slot->sequence);
        store->looks = 0;
    }
    *slot_out = index;
    return ++store->looks;
}

static bool is_there(const crti_seen_t *seen)
{
    return crti_state_of(seen->state) == CRTI_ENTRY_WRITING ||
           crti_state_of(seen->state) == CRTI_ENTRY_SEALED ||
           crti_state_of(seen->state) == CRTI_ENTRY_SPILLED;
}

typedef struct wanted {
    crti_id_t owner;
    uint64_t number, mask;
} wanted_t;

static bool is_wanted(void *user, const crti_seen_t *seen)
{
    const wanted_t *wanted = user;

    return crti_id_equal(seen->id.owner, wanted->owner) &&
           ((seen->id.number ^ wanted->number) & wanted->mask) == 0 && is_there(seen);
}

/* Frees what was gathered; the number of objects. */
static size_t free_all(crti_store_t *store, crti_buffer_t *gathered)
{
    const crti_seen_t *seen = (const crti_seen_t *)(const void *)gathered->data;
    size_t count = gathered->size / sizeof(*seen);

    for (size_t i = 0; i < count; i++)
        crti_store_free(store, seen[i].id);
    crti_buffer_fini(gathered);
    return count;
}

size_t crti_store_drop_owner(crti_store_t *store, crti_id_t owner)
{
    return crti_store_drop_numbers(store, owner, 0, 0);
}

size_t crti_store_drop_numbers(crti_store_t *store, crti_id_t owner, uint64_t number,
                               uint64_t mask)
{
    wanted_t wanted = {owner, number, mask};
    crti_buffer_t orphans = {0};

    crti_space_gather(store, is_wanted, &wanted, &orphans);
    return free_all(store, &orphans);
}

typedef struct judgement {
    bool (*is_dead)(void *user, crti_id_t owner);
    void *user;
    crti_map_t known; /* owner -> whether it is dead */
} judgement_t;

static bool is_of_the_dead(void *user, const crti_seen_t *seen)
{
    static char dead, alive;
    judgement_t *j = user;
    const char *known;

    if (!is_there(seen))
        return false;
    known = crti_map_get(&j->known, &seen->id.owner);
    if (!known) {
        known = j->is_dead(j->user, seen->id.owner) ? &dead : &alive;
        crti_map_put(&j->known, &seen->id.owner, (void *)known);
    }
    return known == &dead;
}

size_t crti_store_drop_owners(crti_store_t *store,
                              bool (*is_dead)(void *user, crti_id_t owner), void *user)
{
    judgement_t judgement = {.is_dead = is_dead, .user = user};
    crti_buffer_t orphans = {0};

    crti_map_init(&judgement.known, sizeof(crti_id_t));
    crti_space_gather(store, is_of_the_dead, &judgement, &orphans);
    crti_map_fini(&judgement.known);
    return free_all(store, &orphans);
}
