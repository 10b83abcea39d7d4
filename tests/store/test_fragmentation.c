/* SPDX-License-Identifier: Apache-2.0 */
/* What is free can be had in one piece, whatever came and went before: nothing that lives for long
 * (tables of objects, views, slabs at hand, small objects) is left between what does not.
 *
 * CRT_TEST_ROUNDS=N: so many rounds of objects of all sizes, for hours if you like. */
#include "tests/store/store_test.h"

#include <stdlib.h>

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

static struct crti_store_stats stats_of(crti_store_t *store)
{
    struct crti_store_stats stats;

    crti_store_stats(store, &stats);
    return stats;
}

/* No byte of it is written: where it lies is all that counts here. */
static crt_status_t make(crti_store_t *store, crti_object_id_t id, size_t size,
                         bool primary)
{
    void *data;
    crt_status_t status = crti_store_create(store, id, size, &data);

    return status == CRT_OK ? crti_store_seal(store, id, primary) : status;
}

static bool save(crti_store_t *daemon, crti_object_id_t id)
{
    crti_store_view_t view;

    return crti_store_get(daemon, id, &view) == CRT_OK && crti_store_saved(daemon, &view);
}

/* Its bytes on the disk are dropped, as the daemon does. */
static void drop_gone(crti_store_t *daemon)
{
    crti_object_id_t id;

    while (crti_store_spill_gone(daemon, &id))
        ;
}

static void assert_can_have(crti_store_t *store, size_t size)
{
    void *data;

    assert_ok(crti_store_create(store, object(99, 1), size, &data));
    crti_store_abort(store, object(99, 1));
}

static void what_is_on_disk_splits_nothing_of_what_is_free(void **state)
{
    enum { COUNT = 200000 };
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(128 * MIB);
    CRTI_AUTO(crti_store_detach) crti_store_t *user = join(daemon, 1);

    for (uint64_t i = 1; i <= COUNT; i++) {
        assert_ok(make(user, object(1, i), 4160, true));
        assert_true(save(daemon, object(1, i)));
    }
    assert_true(stats_of(daemon).spilled_objects > COUNT / 2);
    assert_can_have(user, MIB / 2);
    assert_can_have(user, 100 * MIB); /* all but the table of objects, and some pages */
    assert_int_equal(stats_of(daemon).spilled_objects, COUNT);
    assert_ok(crti_store_check(daemon));
    assert_int_equal(crti_store_drop_owner(daemon, object(1, 0).owner), COUNT);
    drop_gone(daemon);
    assert_can_have(user, stats_of(user).capacity);
    assert_ok(crti_store_check(daemon));
}

/* No hole between large ones is too small for them, nor does one of them stay in it. */
static void small_objects_that_live_for_long_lie_together(void **state)
{
    enum { COUNT = 4000, LIVE = 200 };
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(64 * MIB);
    uint64_t random = 12345;

    for (uint64_t i = 1; i <= COUNT; i++) {
        assert_ok(
            make(daemon, object(1, i), 10000 + next_random(&random) % 100000, true));
        assert_ok(make(daemon, object(2, i), 1 + next_random(&random) % 1000, true));
        if (i > LIVE)
            crti_store_free(daemon, object(1, i - LIVE));
    }
    assert_ok(crti_store_check(daemon));
    (void)crti_store_drop_owner(daemon, object(1, 0).owner);
    assert_int_equal(stats_of(daemon).objects, COUNT);
    assert_can_have(daemon, 60 * MIB);
    assert_ok(crti_store_check(daemon));
}

static void slabs_that_processes_keep_at_hand_make_no_store_full(void **state)
{
    enum { PROCESSES = 40 };
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(8 * MIB);
    crti_store_t *users[PROCESSES];

    for (unsigned i = 0; i < PROCESSES; i++) {
        users[i] = join(daemon, i + 1);
        for (uint64_t size = 64; size <= CRTI_SMALL_BYTES; size += 64) {
            assert_ok(make(users[i], object(i + 1, size), size, true));
            crti_store_free(users[i], object(i + 1, size));
        }
    }
    assert_can_have(daemon, stats_of(daemon).capacity);
    assert_ok(crti_store_check(daemon));
    for (unsigned i = 0; i < PROCESSES; i++) {
        assert_ok(make(users[i], object(i + 1, 1), 100, true));
        crti_store_detach(users[i]);
    }
    assert_ok(crti_store_check(daemon));
}

/* ---------------------------------------------------------------- objects of all sizes */

#define SOAK_BYTES (64 * MIB)

struct soak {
    crti_store_t *daemon, *users[3];
    uint64_t random, number;
    size_t count;
    struct thing {
        crti_object_id_t id;
        crti_store_t *reader; /* NULL: nobody reads it */
        crti_store_view_t view;
    } things[300];
};

static void free_thing(struct soak *soak, size_t at)
{
    struct thing *thing = &soak->things[at];

    crti_store_free(soak->users[next_random(&soak->random) % 3], thing->id);
    if (thing->reader)
        crti_store_release(thing->reader, &thing->view);
    *thing = soak->things[--soak->count];
}

/* As many of one byte as of a third of the store. */
static size_t draw_size(struct soak *soak)
{
    uint64_t least = 1ull << next_random(&soak->random) % 25;
    uint64_t size = least + next_random(&soak->random) % least;

    return size < SOAK_BYTES / 3 ? size : SOAK_BYTES / 3;
}

/* One more object: primary, on disk too, or a copy; some are read by somebody from now on. */
static void make_thing(struct soak *soak)
{
    crti_object_id_t id = object(1, ++soak->number);
    crti_store_t *maker = soak->users[next_random(&soak->random) % 3];
    crti_store_t *reader = soak->users[next_random(&soak->random) % 3];
    uint64_t kind = next_random(&soak->random) % 4;
    struct thing *thing;
    size_t size = draw_size(soak);
    crt_status_t status;

    while ((status = make(maker, id, size, kind < 3)) == CRT_ERR_STORE_FULL &&
           soak->count > 0)
        free_thing(soak, next_random(&soak->random) % soak->count);
    assert_ok(status);
    if (kind < 2)
        assert_true(save(soak->daemon, id));
    thing = &soak->things[soak->count++];
    *thing = (struct thing){.id = id};
    if (next_random(&soak->random) % 4 == 0 &&
        crti_store_get(reader, id, &thing->view) == CRT_OK)
        thing->reader = reader;
    if (soak->count == sizeof(soak->things) / sizeof(soak->things[0]))
        free_thing(soak, next_random(&soak->random) % soak->count);
}

static void all_of_the_store_can_be_had_after_objects_of_all_sizes(void **state)
{
    CRTI_AUTO(free) struct soak *soak = calloc(1, sizeof(*soak));
    const char *text = getenv("CRT_TEST_ROUNDS");
    unsigned rounds = text ? (unsigned)atoi(text) : 20;

    assert_non_null(soak);
    soak->daemon = new_store(SOAK_BYTES);
    soak->random = 88172645463325252ull;
    for (unsigned i = 0; i < 3; i++)
        soak->users[i] = join(soak->daemon, i + 1);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < 2000; i++)
            make_thing(soak);
        assert_ok(crti_store_check(soak->daemon));
        while (soak->count > 0)
            free_thing(soak, soak->count - 1);
        drop_gone(soak->daemon);
        assert_int_equal(stats_of(soak->daemon).objects, 0);
        assert_int_equal(stats_of(soak->daemon).spilled_objects, 0);
        assert_can_have(soak->users[round % 3], stats_of(soak->daemon).capacity);
        assert_ok(crti_store_check(soak->daemon));
    }
    for (unsigned i = 0; i < 3; i++)
        crti_store_detach(soak->users[i]);
    crti_store_detach(soak->daemon);
}

/* Pairs of descriptors in one cache line that slabs of two slots have. */
static unsigned shared_lines(const crti_store_t *store, unsigned *slabs_out)
{
    const crti_geometry_t *g = &store->geometry;
    unsigned shared = 0;

    *slabs_out = 0;
    for (uint32_t page = g->first_record; page < g->last_record; page++) {
        uint64_t run = crti_read(&crti_page_at(store, page)->run);
        uint64_t next = crti_read(&crti_page_at(store, page + 1)->run);

        if (crti_run_kind(run) != CRTI_PAGE_SLAB)
            continue;
        ++*slabs_out;
        shared += page % 2 == 0 && crti_run_kind(next) == CRTI_PAGE_SLAB &&
                  crti_run_slot(next) != crti_run_slot(run);
    }
    return shared;
}

/* Processes that make, read and free objects at once do not write each other's cache lines. */
static void
slabs_of_two_processes_have_their_descriptors_in_lines_of_their_own(void **state)
{
    enum { USERS = 5, COUNT = 1000 };
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(64 * MIB);
    crti_store_t *users[USERS];
    static crti_store_view_t views[USERS][COUNT];
    unsigned slabs;

    for (unsigned i = 0; i < USERS; i++)
        users[i] = join(daemon, i + 1);
    for (uint64_t number = 1; number <= COUNT; number++)
        for (unsigned i = 0; i < USERS; i++) {
            assert_ok(make(users[i], object(i + 1, number), 64, true));
            if ((number + i) % 3) /* so that some have more of views, or fewer */
                assert_ok(crti_store_get(users[i], object(i + 1, number),
                                         &views[i][number - 1]));
        }
    assert_int_equal(shared_lines(daemon, &slabs), 0);
    assert_true(slabs >= USERS * COUNT / 64);
    for (unsigned i = 0; i < USERS; i++) {
        for (unsigned j = 0; j < COUNT; j++)
            if (views[i][j].data)
                crti_store_release(users[i], &views[i][j]);
        crti_store_drop_owner(daemon, object(i + 1, 0).owner);
    }
    assert_ok(crti_store_check(daemon));
    for (unsigned i = 0; i < USERS; i++)
        crti_store_detach(users[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_on_disk_splits_nothing_of_what_is_free),
        cmocka_unit_test(small_objects_that_live_for_long_lie_together),
        cmocka_unit_test(slabs_that_processes_keep_at_hand_make_no_store_full),
        cmocka_unit_test(all_of_the_store_can_be_had_after_objects_of_all_sizes),
        cmocka_unit_test(
            slabs_of_two_processes_have_their_descriptors_in_lines_of_their_own),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
