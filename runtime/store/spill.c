/* SPDX-License-Identifier: Apache-2.0 */
/* Spill: which objects the daemon saves, and what becomes of them.
 *
 * Where it sits
 *     node/objects/spill_threads.c (saver, loaders) -> [ store/spill.c ] -> store.c, space.c,
 *     table.c
 * Threads
 *     All of it is the saver's, but for restore and lose, which any thread of the daemon calls.
 * Trust
 *     Where bytes are is nothing that the tables say: the daemon knows by the object's id alone.
 */
#include <stdlib.h>

#include "runtime/base/limit.h"
#include "runtime/store/space.h"

#define LEAST_SHARE 32 /* is chosen at least: a walk over all objects is long */

/* ---------------------------------------------------------------- what is saved */

typedef struct survey {
    crti_buffer_t cold; /* crti_seen_t */
    uint64_t evictable;
} survey_t;

static bool is_cold(uint64_t state)
{
    return crti_state_of(state) == CRTI_ENTRY_SEALED && crti_state_pins(state) == 0 &&
           crti_state_flags(state) == CRTI_ENTRY_PRIMARY;
}

static void look(void *user, const crti_seen_t *seen)
{
    survey_t *survey = user;

    if (crti_space_is_evictable(seen->state))
        survey->evictable += seen->size;
    else if (is_cold(seen->state)) /* without memory those found so far will do */
        (void)crti_buffer_append(&survey->cold, seen, sizeof(*seen));
}

static int by_stamp(const void *a, const void *b)
{
    const crti_seen_t *x = a, *y = b;

    return x->stamp < y->stamp ? -1 : x->stamp > y->stamp;
}

/* How much more is to be evictable. */
static uint64_t lacking(crti_store_t *store, const survey_t *survey, bool is_waited)
{
    uint64_t pages = store->geometry.page_count;
    uint64_t keep = pages * CRTI_LIMIT(spill_store_free) / 100 << CRTI_PAGE_SHIFT;
    uint64_t least = pages / LEAST_SHARE << CRTI_PAGE_SHIFT;
    uint64_t has = (crti_read(&store->header->heap.pages_free) << CRTI_PAGE_SHIFT) +
                   survey->evictable;
    uint64_t wanted = 0;

    /* What is evictable may lie in pieces: whoever waits gets more each time. */
    if (is_waited) {
        wanted = crti_read(&store->header->spill_size);
        crti_write(&store->header->spill_size, 0);
        wanted = wanted > least ? wanted : least;
    }
    if (has < keep && keep - has > wanted)
        wanted = keep - has > least ? keep - has : least;
    return wanted;
}

static bool may_be_saved(crti_store_choice_t *choice, const crti_seen_t *seen)
{
    uint16_t group = (uint16_t)crti_state_slot(seen->state);

    if (!choice->may || choice->may(choice->user, group, seen->size))
        return true;
    choice->is_held = true;
    choice->held = group;
    return false;
}

static crt_status_t choose(const survey_t *survey, uint64_t wanted,
                           crti_store_choice_t *choice, crti_store_cold_t **cold_out,
                           size_t *count_out)
{
    crti_seen_t *seen = (crti_seen_t *)(void *)survey->cold.data;
    size_t count = survey->cold.size / sizeof(*seen), chosen = 0;
    crti_store_cold_t *cold;

    qsort(seen, count, sizeof(*seen), by_stamp);
    for (uint64_t i = 0, bytes = 0; i < count && bytes < wanted; i++) {
        if (!may_be_saved(choice, &seen[i]))
            continue;
        bytes += seen[i].size;
        seen[chosen++] = seen[i];
    }
    if (chosen == 0)
        return CRT_OK;
    cold = malloc(chosen * sizeof(*cold));
    if (!cold)
        return crt_raise(CRT_ERR_NO_MEMORY, "object store: %zu objects to spill", chosen);
    for (size_t i = 0; i < chosen; i++)
        cold[i] = (crti_store_cold_t){seen[i].id, seen[i].size,
                                      (uint16_t)crti_state_slot(seen[i].state)};
    *cold_out = cold;
    *count_out = chosen;
    return CRT_OK;
}

crt_status_t crti_store_spill_choose(crti_store_t *store, bool is_waited,
                                     crti_store_choice_t *choice,
                                     crti_store_cold_t **cold_out, size_t *count_out)
{
    survey_t survey = {0};
    crt_status_t status = crti_space_walk_memory(store, look, &survey);
    uint64_t wanted = lacking(store, &survey, is_waited);

    *cold_out = NULL;
    *count_out = 0;
    choice->is_held = false;
    if (status == CRT_OK && wanted > 0 && survey.cold.size > 0)
        status = choose(&survey, wanted, choice, cold_out, count_out);
    crti_buffer_fini(&survey.cold);
    return status;
}

/* ---------------------------------------------------------------- what becomes of it */

/* The release of the saver's pin: no use of the object, so its stamp stays. */
static crt_status_t end_save(crti_store_t *store, uint64_t pin_ref, bool *saved_out)
{
    const crti_pin_t *pin;
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    pin = crti_slab_unit(store, pin_ref, CRTI_CLASS_PIN, NULL);
    if (!pin)
        return crti_tx_end(store,
                           crti_tx_damaged(store, "a saver's pin is none", pin_ref));
    status = crti_table_at(store, crti_read(&pin->entry), &found);
    *saved_out = status == CRT_OK && crti_state_of(found.state) == CRTI_ENTRY_SEALED;
    if (*saved_out)
        status = crti_table_move(store, &found, CRTI_ENTRY_SEALED,
                                 crti_state_flags(found.state) | CRTI_ENTRY_SAVED,
                                 crti_state_pins(found.state));
    if (status == CRT_OK)
        status = crti_table_unpin(store, &found);
    if (status == CRT_OK)
        status = crti_slab_free(store, pin_ref);
    return crti_tx_end(store, status);
}

bool crti_store_saved(crti_store_t *store, crti_store_view_t *view)
{
    bool is_saved = false;

    if (end_save(store, view->pin, &is_saved) == CRT_OK) {
        *view = (crti_store_view_t){NULL, 0, 0};
        return is_saved;
    }
    crti_store_release(store, view); /* a process stalls: this is put off */
    return false;
}

void crti_store_spill_made_room(crti_store_t *store, uint64_t bytes)
{
    crti_write(&store->header->spill_saved,
               crti_read(&store->header->spill_saved) + bytes);
    crti_tx_wake_creators(store);
}

static crt_status_t restore(crti_store_t *store, crti_object_id_t id,
                            uint64_t *offset_out, uint64_t *size_out)
{
    char hex[CRTI_ID_HEX];
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_table_find(store, id, &found);
    if (status == CRT_OK &&
        (!found.entry || crti_state_of(found.state) != CRTI_ENTRY_SPILLED))
        status = crt_raise(CRT_ERR_NOT_FOUND, "object %.12s:%llu is not spilled",
                           crti_id_hex(id.owner, hex), (unsigned long long)id.number);
    if (status == CRT_OK)
        status = crti_tx_lock(store, &store->me->lock);
    if (status == CRT_OK)
        status = crti_table_restore(store, &found);
    if (status == CRT_OK)
        status = crti_table_place(store, found.entry, offset_out, size_out);
    return crti_tx_end(store, status);
}

crt_status_t crti_store_restore(crti_store_t *store, crti_object_id_t id, void **data_out,
                                size_t *size_out)
{
    uint64_t offset = 0, size = 0;
    crt_status_t status = restore(store, id, &offset, &size);

    if (status != CRT_OK)
        return status;
    crti_prefault_notice(store);
    *data_out = store->base + offset;
    *size_out = (size_t)size;
    return CRT_OK;
}

void crti_store_lose(crti_store_t *store, crti_object_id_t id)
{
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_table_find(store, id, &found);
    if (status == CRT_OK && found.entry &&
        crti_state_of(found.state) == CRTI_ENTRY_SPILLED)
        status = crti_table_remove(store, &found);
    (void)crti_tx_end(store, status);
}

bool crti_store_spill_gone(crti_store_t *store, crti_object_id_t *id_out)
{
    crt_status_t status;

    do { /* again when one went meanwhile */
        crti_tx_begin(store);
        status = crti_tx_end(store, crti_table_take_gone(store, id_out));
    } while (status == CRT_IN_PROGRESS);
    return status == CRT_OK;
}
