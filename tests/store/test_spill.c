/* SPDX-License-Identifier: Apache-2.0 */
/* What is saved gives its memory up when others need it, and stays known. The bytes are kept in the
 * tests' own memory here; tests/node has the files. */
#include "tests/store/store_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STORE_BYTES (16 * MIB)

static crti_store_t *spilling_store(void)
{
    crti_store_t *store = new_store(STORE_BYTES);

    crti_store_spill_set(store, CRTI_STORE_SPILL_ON, 0, 0);
    return store;
}

static bool save(crti_store_t *daemon, crti_object_id_t id)
{
    crti_store_view_t view;

    assert_ok(crti_store_get(daemon, id, &view));
    return crti_store_saved(daemon, &view);
}

static struct crti_store_stats stats_of(crti_store_t *store)
{
    struct crti_store_stats stats;

    crti_store_stats(store, &stats);
    return stats;
}

/* What the saver does when it was asked. */
static size_t save_chosen(crti_store_t *daemon, bool is_waited)
{
    crti_store_choice_t all = {NULL};
    crti_store_cold_t *cold;
    size_t count, saved = 0;

    assert_ok(crti_store_spill_choose(daemon, is_waited, &all, &cold, &count));
    for (size_t i = 0; i < count; i++)
        saved += save(daemon, cold[i].id);
    free(cold);
    return saved;
}

static crt_status_t restore(crti_store_t *daemon, crti_object_id_t id)
{
    void *data;
    size_t size;
    crt_status_t status = crti_store_restore(daemon, id, &data, &size);

    if (status != CRT_OK)
        return status;
    fill(data, id, size);
    return crti_store_seal(daemon, id, true);
}

static void fill_store(crti_store_t *store, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++)
        assert_ok(put(store, object(1, i), MIB, true));
}

/* With so many objects of 1 MiB no other of that size finds room. */
static uint64_t fill_all(crti_store_t *store)
{
    uint64_t count = 0;

    while (put(store, object(1, count + 1), MIB, true) == CRT_OK)
        count++;
    return count;
}

/* Memory is wanted, more than there is; then it is free again. */
static void press(crti_store_t *store)
{
    uint64_t i = 1;

    while (put(store, object(9, i), MIB, true) == CRT_OK)
        i++;
    while (put(store, object(9, i), 9000, true) == CRT_OK)
        i++;
    assert_int_equal(stats_of(store).spilled_objects, 1);
    while (i-- > 1)
        crti_store_free(store, object(9, i));
}

static void a_saved_object_gives_its_memory_to_others_and_comes_back(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    CRTI_AUTO(crti_store_detach) crti_store_t *user = join(daemon, 1);
    crti_store_view_t view;

    fill_store(user, 12);
    for (uint64_t i = 1; i <= 12; i++)
        assert_true(save(daemon, object(1, i)));
    assert_ok(put(user, object(2, 1), 10 * MIB, true));
    assert_true(stats_of(user).spilled_objects >= 6);
    assert_int_equal(crti_store_get(user, object(1, 1), &view), CRT_ERR_NOT_FOUND);
    assert_int_equal(put(user, object(1, 1), 5, true), CRT_ERR_EXISTS);
    assert_ok(crti_store_check(daemon));
    crti_store_free(user, object(2, 1));
    assert_ok(restore(daemon, object(1, 1)));
    assert_ok(crti_store_get(user, object(1, 1), &view));
    assert_int_equal(first_wrong(view.data, object(1, 1), view.size), MIB);
    crti_store_release(user, &view);
    assert_int_equal(restore(daemon, object(1, 1)), CRT_ERR_NOT_FOUND); /* it is here */
    assert_ok(crti_store_check(daemon));
}

static void the_daemon_hears_of_each_saved_object_that_is_gone_once(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    crti_store_t *user = join(daemon, 1);
    crti_object_id_t id;
    unsigned seen = 0;

    for (uint64_t i = 1; i <= 1000; i++)
        assert_ok(put(user, object(1, i), 100 + i, true));
    for (uint64_t i = 1; i <= 1000; i++)
        assert_true(save(daemon, object(1, i)));
    for (uint64_t i = 1; i <= 500; i++)
        crti_store_free(user, object(1, i));
    assert_ok(crti_store_check(daemon));
    crti_store_detach(user); /* its slot ends, entries of it are in the list */
    assert_int_equal(crti_store_drop_owner(daemon, (crti_id_t){1, ~1ull}), 500);
    while (crti_store_spill_gone(daemon, &id))
        seen++;
    assert_int_equal(seen, 1000);
    assert_ok(crti_store_check(daemon));
    assert_int_equal(stats_of(daemon).objects, 0);
}

static void what_was_not_saved_stays_in_memory(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    CRTI_AUTO(crti_store_detach) crti_store_t *user = join(daemon, 1);
    void *data;

    fill_store(user, 15);
    assert_int_equal(crti_store_create(user, object(2, 1), 4 * MIB, &data),
                     CRT_ERR_STORE_FULL);
    assert_int_equal(stats_of(user).objects, 15);
    assert_int_equal(stats_of(user).spilled_objects, 0);
}

static void an_object_that_is_read_is_saved_but_keeps_its_memory(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    CRTI_AUTO(crti_store_detach) crti_store_t *user = join(daemon, 1);
    crti_store_view_t view, saving;
    void *data;

    fill_all(user);
    assert_ok(crti_store_get(daemon, object(1, 1), &saving));
    assert_ok(crti_store_get(user, object(1, 1), &view));
    assert_true(crti_store_saved(daemon, &saving));
    assert_int_equal(crti_store_create(user, object(2, 1), MIB, &data),
                     CRT_ERR_STORE_FULL);
    assert_int_equal(first_wrong(view.data, object(1, 1), view.size), MIB);
    crti_store_release(user, &view);
    assert_ok(put(user, object(2, 1), MIB, true)); /* now it may go */
    assert_int_equal(stats_of(user).spilled_objects, 1);
}

static void an_object_freed_while_it_is_saved_is_not_saved(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    crti_store_view_t saving;
    crti_object_id_t id;

    fill_store(daemon, 1);
    assert_ok(crti_store_get(daemon, object(1, 1), &saving));
    crti_store_free(daemon, object(1, 1));
    assert_false(crti_store_saved(daemon, &saving));
    assert_false(crti_store_spill_gone(daemon, &id));
    assert_int_equal(stats_of(daemon).objects, 0);
    assert_ok(crti_store_check(daemon));
}

/* Small ones, whose memory is a unit of a slab: of the user's slot, then of the daemon's. */
static void an_object_freed_while_it_is_restored_is_gone_with_the_seal(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    CRTI_AUTO(crti_store_detach) crti_store_t *user = join(daemon, 1);
    crti_object_id_t id;
    void *data;
    size_t size;

    for (int way = 0; way < 3; way++) {
        assert_ok(put(user, object(1, 1), 1000, true));
        assert_true(save(daemon, object(1, 1)));
        press(user);
        assert_ok(crti_store_restore(daemon, object(1, 1), &data, &size));
        assert_int_equal(size, 1000);
        if (way == 2)
            crti_store_abort(daemon, object(1, 1)); /* spilled again */
        crti_store_free(user, object(1, 1));
        if (way == 0)
            assert_ok(crti_store_seal(daemon, object(1, 1), true));
        else if (way == 1)
            crti_store_abort(daemon, object(1, 1));
        assert_ok(crti_store_check(daemon));
        assert_true(crti_store_spill_gone(daemon, &id));
        assert_false(crti_store_spill_gone(daemon, &id));
        assert_int_equal(stats_of(daemon).objects + stats_of(daemon).spilled_objects, 0);
    }
}

static void a_lost_object_is_gone(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    crti_object_id_t id;
    void *data;
    size_t size;

    fill_all(daemon);
    assert_true(save(daemon, object(1, 1)));
    assert_ok(put(daemon, object(2, 1), MIB, true));
    assert_int_equal(crti_store_restore(daemon, object(1, 1), &data, &size),
                     CRT_ERR_STORE_FULL);
    crti_store_lose(daemon, object(1, 1));
    assert_int_equal(crti_store_restore(daemon, object(1, 1), &data, &size),
                     CRT_ERR_NOT_FOUND);
    assert_true(crti_store_spill_gone(daemon, &id));
    assert_true(crti_object_id_equal(id, object(1, 1)));
    assert_ok(crti_store_check(daemon));
}

static void the_coldest_are_chosen_and_only_beyond_four_fifths(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    crti_store_choice_t all = {NULL};
    crti_store_cold_t *cold;
    crti_store_view_t view;
    size_t count;
    unsigned slot;

    fill_store(daemon, 12);
    assert_int_equal(save_chosen(daemon, false), 0);
    crti_store_stalled(daemon, &slot); /* the clock goes on */
    assert_ok(crti_store_get(daemon, object(1, 1), &view));
    crti_store_release(daemon, &view);
    for (uint64_t i = 13; i <= 15; i++)
        assert_ok(put(daemon, object(1, i), MIB, true));
    assert_ok(crti_store_spill_choose(daemon, false, &all, &cold, &count));
    assert_true(count >= 2 && count <= 4);
    for (size_t i = 0; i < count; i++)
        assert_true(cold[i].id.number > 1 && cold[i].id.number < 13);
    free(cold);
}

static bool is_other(void *user, uint16_t group, uint64_t size)
{
    return group != *(const uint16_t *)user;
}

static void objects_of_a_group_that_may_not_are_left_to_memory(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    CRTI_AUTO(crti_store_detach) crti_store_t *one = join(daemon, 1);
    CRTI_AUTO(crti_store_detach) crti_store_t *other = join(daemon, 2);
    uint16_t held = 0xabcd;
    crti_store_choice_t choice = {.may = is_other, .user = &held};
    crti_store_cold_t *cold;
    size_t count;

    crti_store_set_group(daemon, 1, held);
    crti_store_set_group(daemon, 2, 7);
    for (uint64_t i = 1; i <= 13; i++)
        assert_ok(put(one, object(1, i), MIB, true));
    assert_ok(crti_store_spill_choose(daemon, false, &choice, &cold, &count));
    assert_int_equal(count, 0);
    assert_true(choice.is_held && choice.held == held);
    assert_ok(put(other, object(2, 1), MIB, true));
    assert_ok(crti_store_spill_choose(daemon, false, &choice, &cold, &count));
    assert_int_equal(count, 1);
    assert_int_equal(cold[0].group, 7);
    assert_true(crti_object_id_equal(cold[0].id, object(2, 1)));
    free(cold);
    assert_ok(crti_store_check(daemon));
}

static void copies_go_before_what_is_saved(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();

    crti_store_free(daemon, object(1, fill_all(daemon)));
    assert_true(save(daemon, object(1, 1)));
    assert_ok(put(daemon, object(3, 1), MIB, false));
    assert_ok(put(daemon, object(2, 1), MIB, true));
    assert_true(crti_store_contains(daemon, object(1, 1)));
    assert_false(crti_store_contains(daemon, object(3, 1)));
    assert_ok(put(daemon, object(2, 2), MIB, true));
    assert_false(crti_store_contains(daemon, object(1, 1)));
}

static void count_seen(void *count, const crti_seen_t *seen)
{
    ++*(uint64_t *)count;
}

static uint64_t count_marks(const crti_store_t *store)
{
    uint64_t count = 0;

    for (uint64_t page = 1; page <= store->geometry.last_record; page++)
        count += atomic_load(crti_page_mark(store, page)) != 0;
    return count;
}

static void walks_for_memory_pass_by_what_is_on_disk(void **state)
{
    enum { COUNT = 6400 };
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    CRTI_AUTO(crti_store_detach) crti_store_t *user = join(daemon, 1);
    uint64_t seen = 0, i = 1, n;

    for (n = 1; n <= COUNT; n++)
        assert_ok(put(user, object(1, n), 1000, true));
    for (n = 1; n <= COUNT; n++)
        assert_true(save(daemon, object(1, n)));
    assert_true(count_marks(user) >= COUNT / 64);
    for (n = 1; stats_of(user).spilled_objects < COUNT / 2; n++)
        assert_ok(put(user, object(2, n), 10000, true));
    assert_ok(crti_space_walk_memory(user, count_seen, &seen));
    assert_int_equal(seen, stats_of(user).objects);
    assert_true(count_marks(user) <= stats_of(user).objects / 64 + 4);
    assert_ok(crti_store_check(daemon));
    while (n-- > 1)
        crti_store_free(user, object(2, n));
    while (restore(daemon, object(1, i)) == CRT_ERR_NOT_FOUND) /* it was not evicted */
        assert_true(i++ < COUNT);
    seen = 0;
    assert_ok(crti_space_walk_memory(user, count_seen, &seen));
    assert_int_equal(seen, stats_of(user).objects);
    assert_ok(crti_store_check(daemon));
}

static void *saver(void *arg)
{
    crti_store_t *daemon = arg;
    bool is_waited;

    while (
        !(is_waited = crti_store_spill_sleep(daemon, false, crti_now_ns() + 20 * CRTI_S)))
        save_chosen(daemon, false);
    save_chosen(daemon, is_waited);
    crti_store_spill_made_room(daemon, MIB);
    return NULL;
}

static void a_creator_that_waits_wakes_the_saver_and_gets_its_room(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = spilling_store();
    CRTI_AUTO(crti_store_detach) crti_store_t *user = join(daemon, 1);
    pthread_t thread;

    fill_all(user);
    assert_int_equal(pthread_create(&thread, NULL, saver, daemon), 0);
    assert_ok(crti_store_wait_space(user, MIB, crti_now_ns() + 20 * CRTI_S));
    assert_ok(put(user, object(2, 1), MIB, true));
    pthread_join(thread, NULL);
    assert_true(crti_store_saved_bytes(user) >= MIB);
}

static void a_full_store_says_why_nothing_is_spilled(void **state)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *daemon = new_store(STORE_BYTES);
    void *data;

    fill_store(daemon, 15);
    assert_int_equal(crti_store_create(daemon, object(2, 1), 4 * MIB, &data),
                     CRT_ERR_STORE_FULL);
    assert_non_null(strstr(crt_error_detail(), "nothing is spilled to disk"));
    crti_store_spill_set(daemon, CRTI_STORE_SPILL_FAILS, ENOSPC, 0);
    assert_int_equal(crti_store_create(daemon, object(2, 1), 4 * MIB, &data),
                     CRT_ERR_STORE_FULL);
    assert_non_null(strstr(crt_error_detail(), "No space left on device"));
    crti_store_spill_set(daemon, CRTI_STORE_SPILL_LIMIT, 0, 7 * MIB);
    assert_int_equal(crti_store_create(daemon, object(2, 1), 4 * MIB, &data),
                     CRT_ERR_STORE_FULL);
    assert_non_null(strstr(crt_error_detail(), "the 7 MiB that may be spilled"));
    crti_store_spill_set(daemon, CRTI_STORE_SPILL_SHARE, 0xf00d, 5 * MIB);
    assert_int_equal(crti_store_create(daemon, object(2, 1), 4 * MIB, &data),
                     CRT_ERR_STORE_FULL);
    assert_non_null(
        strstr(crt_error_detail(), "the job whose id ends with f00d has 5 MiB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_object_gives_its_memory_to_others_and_comes_back),
        cmocka_unit_test(the_daemon_hears_of_each_saved_object_that_is_gone_once),
        cmocka_unit_test(what_was_not_saved_stays_in_memory),
        cmocka_unit_test(an_object_that_is_read_is_saved_but_keeps_its_memory),
        cmocka_unit_test(an_object_freed_while_it_is_saved_is_not_saved),
        cmocka_unit_test(an_object_freed_while_it_is_restored_is_gone_with_the_seal),
        cmocka_unit_test(a_lost_object_is_gone),
        cmocka_unit_test(the_coldest_are_chosen_and_only_beyond_four_fifths),
        cmocka_unit_test(objects_of_a_group_that_may_not_are_left_to_memory),
        cmocka_unit_test(copies_go_before_what_is_saved),
        cmocka_unit_test(walks_for_memory_pass_by_what_is_on_disk),
        cmocka_unit_test(a_creator_that_waits_wakes_the_saver_and_gets_its_room),
        cmocka_unit_test(a_full_store_says_why_nothing_is_spilled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
