/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/core/values/numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANGE = 50000 };

static void random_adds_and_removes_agree_with_an_array(void **state)
{
    static char here[RANGE];
    crti_numbers_t table = {0};
    size_t count = 0;

    srandom(7);
    for (int i = 0; i < 200000; i++) {
        /* close together and far apart, so that runs of slots wrap and shift */
        uint64_t number = 1 + (uint64_t)random() % RANGE;
        uint64_t key = number % 3 ? number : number << 20;

        assert_int_equal(crti_numbers_get(&table, key) != NULL, here[number - 1]);
        if (here[number - 1]) {
            crti_numbers_remove(&table, key);
            count--;
        } else {
            assert_int_equal(crti_numbers_add(&table, key, &here[number - 1]), CRT_OK);
            count++;
        }
        here[number - 1] ^= 1;
        assert_int_equal(table.count, count);
    }
    crti_numbers_fini(&table);
}

static void the_walk_sees_each_once_and_memory_shrinks(void **state)
{
    static int values[RANGE];
    crti_numbers_t table = {0};
    size_t cursor = 0, seen = 0;
    int *value;

    for (uint64_t i = 0; i < RANGE; i++)
        assert_int_equal(crti_numbers_add(&table, i + 1, &values[i]), CRT_OK);
    while ((value = crti_numbers_next(&table, &cursor))) {
        (*value)++;
        seen++;
    }
    assert_int_equal(seen, RANGE);
    for (uint64_t i = 0; i < RANGE; i++) {
        assert_int_equal(values[i], 1);
        crti_numbers_remove(&table, i + 1);
    }
    assert_true(table.capacity <= 32768);
    crti_numbers_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_adds_and_removes_agree_with_an_array),
        cmocka_unit_test(the_walk_sees_each_once_and_memory_shrinks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
