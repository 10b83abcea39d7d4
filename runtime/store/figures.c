/* SPDX-License-Identifier: Apache-2.0 */
/* Figures: who uses the store's memory.
 *
 * Where it sits
 *     node daemon (metrics, status), creators that gave up -> [ store/figures.c ] -> space.c
 * Threads
 *     Any. A walk of hints: the sums of a busy store are near the truth, not a snapshot.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/map.h"
#include "runtime/store/space.h"

struct user {
    crti_id_t owner;
    uint64_t bytes, objects;
};

struct tally {
    struct crti_store_stats *stats;
    crti_map_t users; /* owner -> struct user */
};

static void count_user(struct tally *tally, const crti_seen_t *seen)
{
    struct user *user = crti_map_get(&tally->users, &seen->id.owner);

    if (!user) {
        user = calloc(1, sizeof(*user));
        if (!user || crti_map_put(&tally->users, &seen->id.owner, user) != CRT_OK) {
            free(user); /* no memory: this owner is not ranked */
            return;
        }
        user->owner = seen->id.owner;
    }
    user->bytes += seen->size;
    user->objects++;
}

static void count_object(void *arg, const crti_seen_t *seen)
{
    struct tally *tally = arg;
    struct crti_store_stats *stats = tally->stats;
    crti_entry_state_t state = crti_state_of(seen->state);

    if (state == CRTI_ENTRY_SPILLED) {
        stats->spilled_objects++;
        stats->spilled_bytes += seen->size;
        return;
    }
    stats->objects++;
    stats->object_bytes += seen->size;
    stats->pins += crti_state_pins(seen->state);
    if (state == CRTI_ENTRY_WRITING || state == CRTI_ENTRY_UNWANTED)
        stats->unsealed++;
    else if (crti_state_pins(seen->state) > 0)
        stats->pinned_bytes += seen->size;
    else if (crti_space_is_evictable(seen->state))
        stats->evictable_bytes += seen->size;
    count_user(tally, seen);
}

/* The process of this node with that id; 0 when none. */
static uint32_t pid_of(const crti_store_t *store, crti_id_t owner)
{
    for (unsigned i = 0; i < store->geometry.slot_count; i++) {
        const crti_arena_slot_t *slot = crti_arena_slot(store, i);

        if (crti_read(&slot->process_low) == owner.low &&
            crti_read(&slot->process_high) == owner.high &&
            atomic_load(&slot->state) == CRTI_SLOT_LIVE)
            return atomic_load(&slot->pid);
    }
    return 0;
}

/* Into the list of largest users, if it is one. */
static void rank_user(struct crti_store_stats *stats, const struct user *user)
{
    unsigned at = stats->user_count;

    while (at > 0 && stats->users[at - 1].bytes < user->bytes)
        at--;
    if (at == CRTI_STORE_USERS)
        return;
    if (stats->user_count < CRTI_STORE_USERS)
        stats->user_count++;
    memmove(&stats->users[at + 1], &stats->users[at],
            (stats->user_count - at - 1) * sizeof(stats->users[0]));
    stats->users[at].owner = user->owner;
    stats->users[at].bytes = user->bytes;
    stats->users[at].objects = user->objects;
}

/* The longest free run of a zone in pages, to within its bin. */
static uint32_t longest_run(const crti_store_t *store, crti_zone_kind_t kind)
{
    const crti_zone_t *zone = &store->header->heap.zones[kind];

    for (unsigned word = CRTI_HEAP_BINS / 64; word-- > 0;) {
        uint64_t map = crti_read(&zone->map[word]);
        const crti_page_t *page;
        unsigned bin;

        if (map == 0)
            continue;
        bin = word * 64 + 63u - (unsigned)__builtin_clzll(map);
        page = crti_page_at(store, crti_read(&zone->bins[bin].head));
        return page ? crti_run_length(crti_read(&page->run)) : 0;
    }
    return 0;
}

static size_t largest_free(const crti_store_t *store)
{
    uint64_t objects = longest_run(store, CRTI_ZONE_OBJECTS);
    uint64_t slabs = longest_run(store, CRTI_ZONE_SLABS);
    uint64_t run = objects > slabs ? objects : slabs;
    uint64_t all = crti_read(&store->header->heap.pages_free);

    return (size_t)(run < all ? run : all) << CRTI_PAGE_SHIFT;
}

void crti_store_stats(crti_store_t *store, struct crti_store_stats *stats_out)
{
    struct tally tally = {.stats = stats_out};
    const crti_heap_t *heap = &store->header->heap;
    uint64_t pages_free = crti_read(&heap->pages_free), touched;
    uint32_t pages = store->geometry.page_count;
    size_t cursor = 0;
    void *user;

    memset(stats_out, 0, sizeof(*stats_out));
    stats_out->capacity = store->geometry.capacity;
    stats_out->used =
        pages_free > pages ? 0 : (size_t)(pages - pages_free) << CRTI_PAGE_SHIFT;
    touched = crti_read(&heap->high_water) + pages + 1 - crti_read(&heap->low_water) +
              crti_read(&heap->record_water) - (store->geometry.first_record - 1);
    stats_out->high_water = (size_t)(touched < pages ? touched : pages)
                            << CRTI_PAGE_SHIFT;
    stats_out->largest_free = largest_free(store);
    stats_out->evictions = crti_read(&store->header->evictions);
    stats_out->huge_pages = store->geometry.huge_pages != 0;
    crti_map_init(&tally.users, sizeof(crti_id_t));
    (void)crti_space_walk(store, count_object, &tally); /* damaged: what could be seen */
    while (crti_map_next(&tally.users, &cursor, NULL, &user)) {
        rank_user(stats_out, user);
        free(user);
    }
    crti_map_fini(&tally.users);
    for (unsigned i = 0; i < stats_out->user_count; i++)
        stats_out->users[i].pid = pid_of(store, stats_out->users[i].owner);
}

void crti_space_describe(crti_store_t *store, char *text, size_t text_bytes)
{
    struct crti_store_stats stats;
    char hex[CRTI_ID_HEX], trouble[200];
    size_t n;

    crti_store_stats(store, &stats);
    n = (size_t)snprintf(
        text, text_bytes,
        "%zu of %zu KiB used by %" PRIu64 " objects (%zu KiB pinned, %" PRIu64
        " being written, longest hole %zu KiB)",
        stats.used >> 10, stats.capacity >> 10, stats.objects, stats.pinned_bytes >> 10,
        stats.unsealed, stats.largest_free >> 10);
    for (unsigned i = 0; i < stats.user_count && n < text_bytes; i++) {
        n += (size_t)snprintf(text + n, text_bytes - n, "%s process %.12s",
                              i == 0 ? "; largest users:" : ",",
                              crti_id_hex(stats.users[i].owner, hex));
        if (stats.users[i].pid != 0 && n < text_bytes)
            n += (size_t)snprintf(text + n, text_bytes - n, " (pid %u)",
                                  stats.users[i].pid);
        if (n < text_bytes)
            n += (size_t)snprintf(text + n, text_bytes - n, " %zu KiB in %" PRIu64,
                                  stats.users[i].bytes >> 10, stats.users[i].objects);
    }
    crti_store_spill_trouble(store, trouble, sizeof(trouble));
    if (n < text_bytes && *trouble)
        snprintf(text + n, text_bytes - n, "; %s", trouble);
}
