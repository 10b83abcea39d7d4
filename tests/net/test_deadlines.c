/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: the earliest is always first, whatever was set, moved and removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "runtime/net/deadlines.h"

#include <cmocka.h>

#define ITEMS 200

static uint64_t earliest(const crti_deadline_t *items)
{
    uint64_t first = UINT64_MAX;

    for (int i = 0; i < ITEMS; i++)
        if (items[i].place != 0 && items[i].at < first)
            first = items[i].at;
    return first;
}

static void the_first_is_the_earliest_after_every_change(void **state)
{
    static crti_deadline_t items[ITEMS];
    crti_deadlines_t heap = {0};
    uint32_t random = 1;

    for (int step = 0; step < 20000; step++) {
        crti_deadline_t *item;

        random = random * 1664525 + 1013904223;
        item = &items[(random >> 8) % ITEMS];
        if (random >> 30 == 0)
            crti_deadlines_remove(&heap, item);
        else
            assert_int_equal(crti_deadlines_set(&heap, item, random >> 12), CRT_OK);
        assert_int_equal(crti_deadlines_first(&heap), earliest(items));
    }
    crti_deadlines_fini(&heap);
}

static void they_come_out_in_order(void **state)
{
    crti_deadline_t items[50] = {{0}};
    crti_deadlines_t heap = {0};
    uint64_t last = 0;

    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(crti_deadlines_set(&heap, &items[i], (i * 37) % 50), CRT_OK);
    while (heap.count > 0) {
        assert_true(heap.items[0]->at >= last);
        last = heap.items[0]->at;
        crti_deadlines_remove(&heap, heap.items[0]);
    }
    assert_int_equal(crti_deadlines_first(&heap), UINT64_MAX);
    crti_deadlines_remove(&heap, &items[0]); /* not in it: nothing happens */
    crti_deadlines_fini(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_the_earliest_after_every_change),
        cmocka_unit_test(they_come_out_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
