/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Values are numbers dressed as pointers. */
static void *value(size_t number)
{
    return (void *)(uintptr_t)number;
}

static void an_empty_map_finds_and_removes_nothing(void **state)
{
    crti_map_t map;
    uint64_t key = 7;
    size_t cursor = 0;
    void *found;

    crti_map_init(&map, sizeof(key));
    assert_null(crti_map_get(&map, &key));
    assert_null(crti_map_remove(&map, &key));
    assert_false(crti_map_next(&map, &cursor, NULL, &found));
    crti_map_fini(&map);
}

static void a_second_put_replaces_the_value(void **state)
{
    crti_map_t map;
    uint64_t key = 7;

    crti_map_init(&map, sizeof(key));
    assert_int_equal(crti_map_put(&map, &key, value(1)), CRT_OK);
    assert_int_equal(crti_map_put(&map, &key, value(2)), CRT_OK);
    assert_int_equal(map.count, 1);
    assert_ptr_equal(crti_map_get(&map, &key), value(2));
    assert_ptr_equal(crti_map_remove(&map, &key), value(2));
    assert_null(crti_map_get(&map, &key));
    crti_map_fini(&map);
}

/* Random puts and removes beside a plain array that says what must be there. Few keys, so that
 * runs of neighbours form and removals shift them. */
static void it_holds_what_an_array_holds_after_any_puts_and_removes(void **state)
{
    enum { KEYS = 300, STEPS = 50000 };
    size_t expected[KEYS] = {0}, count = 0;
    crti_map_t map;

    crti_map_init(&map, sizeof(uint64_t));
    srand(1);
    for (size_t step = 1; step <= STEPS; step++) {
        uint64_t key = (uint64_t)rand() % KEYS;

        if (rand() % 2) {
            count += expected[key] == 0;
            assert_int_equal(crti_map_put(&map, &key, value(step)), CRT_OK);
            expected[key] = step;
        } else {
            count -= expected[key] != 0;
            assert_ptr_equal(crti_map_remove(&map, &key), value(expected[key]));
            expected[key] = 0;
        }
        assert_int_equal(map.count, count);
    }
    for (uint64_t key = 0; key < KEYS; key++)
        assert_ptr_equal(crti_map_get(&map, &key), value(expected[key]));
    crti_map_fini(&map);
}

static void a_walk_meets_every_entry_once(void **state)
{
    enum { KEYS = 1000 };
    bool seen[KEYS] = {false};
    size_t cursor = 0, met = 0;
    const void *key;
    void *found;
    crti_map_t map;

    crti_map_init(&map, sizeof(uint64_t));
    for (uint64_t i = 0; i < KEYS; i++)
        assert_int_equal(crti_map_put(&map, &i, value(i + 1)), CRT_OK);
    while (crti_map_next(&map, &cursor, &key, &found)) {
        uint64_t number;

        memcpy(&number, key, sizeof(number));
        assert_ptr_equal(found, value(number + 1));
        assert_false(seen[number]);
        seen[number] = true;
        met++;
    }
    assert_int_equal(met, KEYS);
    crti_map_fini(&map);
}

static void strings_are_copied_and_compared_by_their_text(void **state)
{
    char key[32];
    crti_map_t map;

    crti_map_init(&map, 0);
    for (size_t i = 0; i < 200; i++) {
        snprintf(key, sizeof(key), "name-%zu", i);
        assert_int_equal(crti_map_put(&map, key, value(i + 1)), CRT_OK);
    }
    memset(key, 0, sizeof(key));
    assert_ptr_equal(crti_map_get(&map, "name-17"), value(18));
    assert_null(crti_map_get(&map, "name-1"
                                   "x"));
    assert_null(crti_map_get(&map, ""));
    assert_int_equal(crti_map_put(&map, "", value(9)), CRT_OK);
    assert_ptr_equal(crti_map_remove(&map, ""), value(9));
    crti_map_fini(&map);
}

static void keys_longer_than_a_slot_are_copied(void **state)
{
    unsigned char key[64] = {1};
    crti_map_t map;

    crti_map_init(&map, sizeof(key));
    assert_int_equal(crti_map_put(&map, key, value(1)), CRT_OK);
    key[63] = 1;
    assert_null(crti_map_get(&map, key));
    assert_int_equal(crti_map_put(&map, key, value(2)), CRT_OK);
    key[63] = 0;
    assert_ptr_equal(crti_map_remove(&map, key), value(1));
    assert_int_equal(map.count, 1);
    crti_map_fini(&map);
}

static void memory_follows_the_number_of_entries(void **state)
{
    size_t peak;
    crti_map_t map;

    crti_map_init(&map, sizeof(uint64_t));
    for (uint64_t i = 0; i < 100000; i++)
        assert_int_equal(crti_map_put(&map, &i, value(1)), CRT_OK);
    peak = map.capacity;
    assert_true(peak < 4 * map.count);
    for (uint64_t i = 5; i < 100000; i++)
        assert_ptr_equal(crti_map_remove(&map, &i), value(1));
    assert_true(map.capacity <= 64);
    for (uint64_t i = 0; i < 5; i++)
        assert_ptr_equal(crti_map_get(&map, &i), value(1));
    crti_map_fini(&map);
}

static void a_finished_map_is_empty_and_usable_again(void **state)
{
    crti_map_t map;

    crti_map_init(&map, 0);
    assert_int_equal(crti_map_put(&map, "a", value(1)), CRT_OK);
    crti_map_fini(&map);
    assert_null(crti_map_get(&map, "a"));
    assert_int_equal(crti_map_put(&map, "b", value(2)), CRT_OK);
    assert_ptr_equal(crti_map_get(&map, "b"), value(2));
    crti_map_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_and_removes_nothing),
        cmocka_unit_test(a_second_put_replaces_the_value),
        cmocka_unit_test(it_holds_what_an_array_holds_after_any_puts_and_removes),
        cmocka_unit_test(a_walk_meets_every_entry_once),
        cmocka_unit_test(strings_are_copied_and_compared_by_their_text),
        cmocka_unit_test(keys_longer_than_a_slot_are_copied),
        cmocka_unit_test(memory_follows_the_number_of_entries),
        cmocka_unit_test(a_finished_map_is_empty_and_usable_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
