/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int number;
    crti_list_t link;
};

static int number_of(crti_list_t *link)
{
    return CRTI_CONTAINER(link, struct item, link)->number;
}

static void fill(crti_list_t *list, struct item *items, int count)
{
    crti_list_init(list);
    for (int i = 0; i < count; i++) {
        items[i].number = i;
        crti_list_append(list, &items[i].link);
    }
}

static void items_come_out_in_the_order_they_went_in(void **state)
{
    struct item items[5];
    crti_list_t list;

    fill(&list, items, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(number_of(crti_list_pop(&list)), i);
    assert_true(crti_list_is_empty(&list));
    assert_null(crti_list_pop(&list));
}

static void removing_twice_is_harmless(void **state)
{
    struct item items[3];
    crti_list_t list;
    int sum = 0;

    fill(&list, items, 3);
    crti_list_remove(&items[1].link);
    crti_list_remove(&items[1].link);
    CRTI_LIST_FOREACH (link, &list)
        sum = sum * 10 + number_of(link) + 1;
    assert_int_equal(sum, 13);
    assert_true(crti_list_is_empty(&items[1].link));
}

static void the_current_item_may_go_during_a_safe_walk(void **state)
{
    struct item items[6];
    crti_list_t list;
    int seen = 0;

    fill(&list, items, 6);
    CRTI_LIST_FOREACH_SAFE (link, &list) {
        seen++;
        if (number_of(link) % 2 == 0)
            crti_list_remove(link);
    }
    assert_int_equal(seen, 6);
    for (int i = 1; i < 6; i += 2)
        assert_int_equal(number_of(crti_list_pop(&list)), i);
    assert_true(crti_list_is_empty(&list));
}

static void all_items_of_a_list_go_before_those_of_another(void **state)
{
    struct item items[5];
    crti_list_t list, rest;

    fill(&list, items + 3, 2);
    fill(&rest, items, 3);
    items[3].number = 3;
    items[4].number = 4;
    crti_list_prepend_all(&list, &rest);
    assert_true(crti_list_is_empty(&rest));
    crti_list_prepend_all(&list, &rest);
    crti_list_prepend_all(&rest, &list);
    assert_true(crti_list_is_empty(&list));
    crti_list_remove(&items[2].link);
    for (int i = 0; i < 5; i++)
        if (i != 2)
            assert_int_equal(number_of(crti_list_pop(&rest)), i);
    assert_true(crti_list_is_empty(&rest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_the_order_they_went_in),
        cmocka_unit_test(removing_twice_is_harmless),
        cmocka_unit_test(the_current_item_may_go_during_a_safe_walk),
        cmocka_unit_test(all_items_of_a_list_go_before_those_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
