/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a wait set, and what crt_wait remembers of a list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/core/client/wait_memory.h"
#include "runtime/core/client/wait_table.h"

/* ------------------------------------------------------------------ the table */

enum { ENTRIES = 1000 };

static void what_becomes_ready_first_is_first(void **state)
{
    crti_wait_table_t t;
    crti_wait_entry_t e[3];

    crti_wait_table_init(&t);
    for (int i = 0; i < 3; i++)
        assert_int_equal(crti_wait_table_add(&t, &e[i], NULL), CRT_OK);
    assert_null(crti_wait_table_first(&t));
    crti_wait_table_ready(&t, &e[2]);
    crti_wait_table_ready(&t, &e[0]);
    crti_wait_table_ready(&t, &e[2]); /* it is already */
    assert_ptr_equal(crti_wait_table_first(&t), &e[2]);
    crti_wait_table_remove(&t, &e[2]);
    assert_ptr_equal(crti_wait_table_first(&t), &e[0]);
    crti_wait_table_idle(&t, &e[0]);
    assert_null(crti_wait_table_first(&t));
    assert_int_equal(t.count, 2);
    crti_wait_table_remove(&t, &e[0]);
    crti_wait_table_remove(&t, &e[1]);
    assert_null(crti_wait_table_any(&t));
    crti_wait_table_fini(&t);
}

static void those_that_take_turns_come_one_after_the_other(void **state)
{
    crti_wait_table_t t;
    crti_wait_entry_t e[3];

    crti_wait_table_init(&t);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(crti_wait_table_add(&t, &e[i], NULL), CRT_OK);
        crti_wait_table_ready(&t, &e[i]);
    }
    for (int turn = 0; turn < 9; turn++) {
        crti_wait_entry_t *first = crti_wait_table_first(&t);

        assert_ptr_equal(first, &e[turn % 3]);
        crti_wait_table_idle(&t, first);
        crti_wait_table_ready(&t, first);
    }
    for (int i = 0; i < 3; i++)
        crti_wait_table_remove(&t, &e[i]);
    crti_wait_table_fini(&t);
}

/* Any number may be a pointer of the program's. */
static void entries_are_found_by_any_pointer_but_null(void **state)
{
    const uintptr_t users[] = {1, 2, 0x10000, UINTPTR_MAX, UINTPTR_MAX - 1, 1ULL << 63};
    enum { USERS = sizeof(users) / sizeof(users[0]) };
    crti_wait_table_t t;
    crti_wait_entry_t e[USERS][3], none;

    crti_wait_table_init(&t);
    assert_int_equal(crti_wait_table_add(&t, &none, NULL), CRT_OK);
    assert_null(crti_wait_table_find(&t, NULL));
    for (int j = 0; j < 3; j++)
        for (size_t i = 0; i < USERS; i++)
            assert_int_equal(crti_wait_table_add(&t, &e[i][j], (void *)users[i]), CRT_OK);
    for (size_t i = 0; i < USERS; i++) {
        crti_wait_entry_t *found;
        int count = 0;

        while ((found = crti_wait_table_find(&t, (void *)users[i]))) {
            assert_ptr_equal(found->user, (void *)users[i]);
            crti_wait_table_remove(&t, found);
            count++;
        }
        assert_int_equal(count, 3);
    }
    assert_int_equal(t.count, 1);
    crti_wait_table_remove(&t, &none);
    assert_int_equal(t.users.count, 0);
    crti_wait_table_fini(&t);
}

/* Beside a plain list of the same: any order of steps. */
static void a_long_walk_keeps_it_sound(void **state)
{
    static crti_wait_entry_t e[ENTRIES];
    static bool in[ENTRIES], ready[ENTRIES];
    size_t count = 0, ready_count = 0;
    crti_wait_table_t t;

    srand(1);
    crti_wait_table_init(&t);
    for (int step = 0; step < 200000; step++) {
        int i = rand() % ENTRIES;

        if (!in[i]) {
            assert_int_equal(
                crti_wait_table_add(&t, &e[i], (void *)(uintptr_t)(rand() % 50)), CRT_OK);
            count++;
        } else if (rand() % 2) {
            crti_wait_table_ready(&t, &e[i]);
            ready_count += !ready[i];
            ready[i] = true;
            continue;
        } else {
            crti_wait_table_remove(&t, &e[i]);
            ready_count -= ready[i];
            count--;
        }
        in[i] = !in[i];
        ready[i] = false;
        assert_int_equal(t.count, count);
        assert_int_equal(crti_wait_table_first(&t) != NULL, ready_count > 0);
    }
    for (crti_wait_entry_t *one; (one = crti_wait_table_any(&t)); count--)
        crti_wait_table_remove(&t, one);
    assert_int_equal(count, 0);
    assert_int_equal(t.users.count, 0);
    crti_wait_table_fini(&t);
}

/* ------------------------------------------------------------------ the memory of a list */

static crt_ref_t *fake(size_t i) /* never followed */
{
    return (crt_ref_t *)(uintptr_t)(16 * (i + 1));
}

/* All are ready, and one look gives the first. Returns how many looks it takes when the program
 * takes one out after the other. */
static size_t looks_of_a_loop(size_t n, bool moves_up)
{
    crt_ref_t **list = malloc(n * sizeof(*list));
    bool *given = calloc(n, sizeof(*given));
    crti_wait_memory_t m = {0};
    size_t looks = 0;

    for (size_t i = 0; i < n; i++)
        list[i] = fake(i);
    for (size_t left = n; left > 0; left--) {
        size_t index, number;

        crti_wait_memory_again(&m);
        if (!crti_wait_memory_next(&m, list, left, 0, &index)) {
            crti_wait_memory_begin(&m);
            for (size_t i = 1; i < left; i++)
                crti_wait_memory_add(&m, list[i], i);
            crti_wait_memory_end(&m, 1);
            looks++;
            index = 0;
        }
        number = (uintptr_t)list[index] / 16 - 1;
        assert_true(index < left && !given[number]);
        given[number] = true;
        if (!moves_up)
            list[index] = list[left - 1];
        for (size_t i = index; moves_up && i + 1 < left; i++)
            list[i] = list[i + 1];
    }
    crti_wait_memory_fini(&m);
    free(list);
    free(given);
    return looks;
}

static void
a_list_is_gone_through_seldom_when_one_after_the_other_is_taken_out(void **state)
{
    assert_true(looks_of_a_loop(10000, false) <= 20);
    assert_int_equal(looks_of_a_loop(3000, true), 1);
}

static void what_stands_elsewhere_is_not_given_and_nothing_is_given_twice(void **state)
{
    crt_ref_t *list[] = {fake(9), fake(1), fake(2), fake(2), NULL};
    crti_wait_memory_t m = {0};
    size_t index;

    crti_wait_memory_begin(&m);
    for (size_t i = 1; i < 5; i++) /* 1, 2, 2 and one that is behind the end */
        crti_wait_memory_add(&m, fake(i < 3 ? i : 2), i);
    crti_wait_memory_end(&m, 1);
    crti_wait_memory_again(&m);
    assert_true(crti_wait_memory_next(&m, list, 5, 0, &index));
    assert_int_equal(index, 1);
    assert_true(crti_wait_memory_next(&m, list, 5, 2, &index));
    assert_int_equal(index, 2);
    assert_true(crti_wait_memory_next(&m, list, 5, 3, &index));
    assert_int_equal(index, 3);
    assert_false(crti_wait_memory_next(&m, list, 5, 4, &index));
    assert_false(crti_wait_memory_next(&m, list, 5, 0, &index));
    crti_wait_memory_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_becomes_ready_first_is_first),
        cmocka_unit_test(those_that_take_turns_come_one_after_the_other),
        cmocka_unit_test(entries_are_found_by_any_pointer_but_null),
        cmocka_unit_test(a_long_walk_keeps_it_sound),
        cmocka_unit_test(
            a_list_is_gone_through_seldom_when_one_after_the_other_is_taken_out),
        cmocka_unit_test(what_stands_elsewhere_is_not_given_and_nothing_is_given_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
