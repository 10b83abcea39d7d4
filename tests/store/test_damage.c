/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that a mad process has written over: the daemon's functions may fail, but they end, and
 * they touch nothing outside the arena. */
#include "tests/store/store_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORE_BYTES (8 * MIB)
#define ROUNDS      800u

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

struct field {
    size_t from, bytes;
};

/* How many pages of records there are. */
static uint64_t record_pages(const crti_store_t *store)
{
    return crti_read(&store->header->heap.record_water) + 1 -
           store->geometry.first_record;
}

/* The parts of the arena worth damaging: everything but objects' data. `records` pages of them are
 * in use, slabs begin after page `low`. */
static struct field pick_field(const crti_store_t *store, uint64_t low, uint64_t records,
                               uint64_t *random)
{
    const crti_geometry_t *g = &store->geometry;
    const struct field fields[] = {
        {offsetof(crti_header_t, space_sequence),
         sizeof(crti_header_t) - offsetof(crti_header_t, space_sequence)},
        {g->slots_offset, 4 * sizeof(crti_arena_slot_t)},
        {g->buckets_offset, g->bucket_count * sizeof(crti_bucket_t)},
        {g->pages_offset, 64 * sizeof(crti_page_t)},
        {g->pages_offset + low * sizeof(crti_page_t),
         (g->page_count + 2 - low) * sizeof(crti_page_t)},
        {g->pages_offset + (g->first_record - 1) * sizeof(crti_page_t),
         (records + 2) * sizeof(crti_page_t)},
        {g->marks_offset, (g->last_record + 2) & ~7ul},
        {crti_page_offset(store, g->first_record), records << CRTI_PAGE_SHIFT},
    };

    return fields[next_random(random) % (sizeof(fields) / sizeof(fields[0]))];
}

static uint64_t bad_value(const crti_store_t *store, uint64_t old, uint64_t *random)
{
    switch (next_random(random) % 6) {
    case 0: return next_random(random);
    case 1: return old ^ 1ull << next_random(random) % 64;
    case 2: return next_random(random) % (store->geometry.last_record + 3);
    case 3: return next_random(random) % store->geometry.last_record << 6;
    case 4:
        return crti_pack((uint32_t)(next_random(random) % 2100),
                         (uint32_t)(next_random(random) % 2100));
    default: return next_random(random) % 2 ? 0 : ~0ull;
    }
}

static void damage(crti_store_t *store, uint64_t low, uint64_t records, uint64_t *random)
{
    unsigned words = 1 + (unsigned)(next_random(random) % 40);

    while (words-- > 0) {
        struct field f = pick_field(store, low, records, random);
        uint8_t *at = store->base + f.from + next_random(random) % (f.bytes / 8) * 8;
        uint64_t value;

        memcpy(&value, at, 8);
        value = bad_value(store, value, random);
        memcpy(at, &value, 8);
    }
}

/* Everything the daemon does, on a damaged store. */
static void use(crti_store_t *store, uint64_t *random)
{
    struct crti_store_stats stats;
    crti_store_view_t views[8] = {{0}};
    unsigned slot;
    char text[600];

    for (unsigned i = 0; i < 8; i++) {
        crti_object_id_t id = object(1 + i % 2, 1 + next_random(random) % 40);

        if (crti_store_get(store, id, &views[i]) == CRT_OK) {
            assert_true((const uint8_t *)views[i].data >= store->view);
            assert_true((const uint8_t *)views[i].data + views[i].size <=
                        store->view + store->geometry.file_bytes);
        }
        (void)put(store, object(3, 1 + i), next_random(random) % 30000, i % 2);
        (void)crti_store_contains(store, id);
        crti_store_free(store, id);
    }
    (void)crti_store_stalled(store, &slot);
    (void)crti_store_wait_space(store, 4 * MIB, crti_now_ns());
    crti_space_describe(store, text, sizeof(text));
    for (unsigned i = 1; i < 4; i++)
        (void)crti_store_reclaim(store, i);
    for (unsigned i = 0; i < 8; i++)
        crti_store_release(store, &views[i]);
    (void)crti_store_drop_owner(store, object(1, 0).owner);
    crti_store_stats(store, &stats);
    (void)crti_store_check(store);
}

static void fill_store(crti_store_t *daemon, crti_store_t *a, crti_store_t *b)
{
    crti_store_view_t view;
    void *data;

    for (uint64_t i = 1; i <= 40; i++) {
        assert_ok(put(a, object(1, i), i * 100, i % 3 != 0));
        assert_ok(put(b, object(2, i), i * 2000, i % 3 != 0));
        assert_ok(crti_store_get(i % 2 ? a : daemon, object(2, i), &view));
    }
    assert_ok(crti_store_create(a, object(2, 100), 100, &data));
    for (uint64_t i = 1; i <= 40; i += 3)
        crti_store_free(b, object(i % 2 + 1, i));
}

static void no_damage_makes_the_daemon_crash_or_hang(void **state)
{
    crti_store_t *daemon = new_store(STORE_BYTES), *a = join(daemon, 1),
                 *b = join(daemon, 2);
    uint64_t random = 88172645463325252ull, low, records;
    uint8_t *good;
    size_t bytes;

    crti_store_stop_threads(daemon);
    fill_store(daemon, a, b);
    low = crti_read(&daemon->header->heap.low_water) - 1;
    records = record_pages(daemon);
    bytes = crti_page_offset(daemon, daemon->geometry.first_record + records);
    good = malloc(bytes);
    assert_non_null(good);
    memcpy(good, daemon->base, bytes);
    daemon->patience_ns = 20000; /* locks may be held by nobody */
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t start = crti_now_ns(), seed = random;

        memcpy(daemon->base, good, bytes);
        damage(daemon, low, records, &random);
        use(daemon, &random);
        /* What was put off belongs to the round. */
        atomic_store(&daemon->later_count, 0);
        if (crti_now_ns() - start > 5 * CRTI_S)
            fail_msg("round %u (seed %llu) took too long", round,
                     (unsigned long long)seed);
    }
    memcpy(daemon->base, good, bytes);
    assert_ok(crti_store_check(daemon));
    crti_store_detach(a);
    crti_store_detach(b);
    assert_ok(crti_store_check(daemon));
    free(good);
    crti_store_detach(daemon);
}

static void a_log_full_of_nonsense_is_undone_without_harm_outside(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    crti_arena_slot_t *slot = crti_arena_slot(daemon, 3);
    uint64_t random = 1;

    assert_ok(put(daemon, object(1, 1), 100, true));
    for (unsigned round = 0; round < 2000; round++) {
        crti_write(&slot->log_count, next_random(&random));
        for (unsigned i = 0; i < CRTI_LOG_WORDS; i++) {
            /* Outside, crooked, or in the guard between tables and data. */
            crti_write(&slot->log[i].offset,
                       i % 3 == 0   ? next_random(&random) | 1ull << 40
                       : i % 3 == 1 ? next_random(&random) | 1
                                    : daemon->geometry.data_offset - 8);
            crti_write(&slot->log[i].old, next_random(&random));
        }
        for (unsigned i = 0; i < CRTI_TX_LOCKS; i++)
            crti_write(&slot->held[i], next_random(&random));
        assert_ok(crti_store_reclaim(daemon, 3));
        assert_int_equal(crti_read(&slot->log_count), 0);
    }
    assert_ok(crti_store_check(daemon));
    assert_true(crti_store_contains(daemon, object(1, 1)));
}

/* The checker is worth its tests only if it finds what is wrong. */
static void the_check_finds_damage_in_every_table(void **state)
{
    crti_store_t *daemon = new_store(STORE_BYTES), *a = join(daemon, 1);
    crti_store_view_t view;
    crti_found_t found;
    crti_page_t *slab;
    crti_word_t *words[8];
    size_t count = 0;

    assert_ok(put(a, object(1, 1), 100, true));
    assert_ok(put(a, object(1, 2), 20000, true));
    assert_ok(crti_store_get(a, object(1, 1), &view));
    crti_tx_begin(daemon);
    assert_ok(crti_table_find(daemon, object(1, 1), &found));
    assert_ok(crti_tx_end(daemon, CRT_OK));
    slab = crti_page(daemon, found.ref >> 6);
    words[count++] = &found.bucket->head;
    words[count++] = &found.entry->state;
    words[count++] = &found.entry->place;
    words[count++] = &slab->bits;
    words[count++] = &slab->run;
    words[count++] = &daemon->header->heap.pages_free;
    words[count++] = &daemon->header->heap.entry_list.head;
    words[count++] = &a->me->slabs[CRTI_CLASS_PIN].partial.head;
    assert_ok(crti_store_check(daemon));
    for (size_t i = 0; i < count; i++) {
        uint64_t good = crti_read(words[i]);

        crti_write(words[i], good ^ 4);
        if (crti_store_check(daemon) != CRT_ERR_CORRUPT)
            fail_msg("damage %zu was not found", i);
        crti_write(words[i], good);
        assert_ok(crti_store_check(daemon));
    }
    crti_store_detach(a);
    crti_store_detach(daemon);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_damage_makes_the_daemon_crash_or_hang),
        cmocka_unit_test(a_log_full_of_nonsense_is_undone_without_harm_outside),
        cmocka_unit_test(the_check_finds_damage_in_every_table),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
