/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void appended_bytes_stay_in_order_while_it_grows(void **state)
{
    crti_buffer_t buffer = {0};

    for (unsigned i = 0; i < 10000; i++) {
        unsigned char byte = (unsigned char)(i * 7);

        assert_int_equal(crti_buffer_append(&buffer, &byte, 1), CRT_OK);
    }
    assert_int_equal(buffer.size, 10000);
    for (unsigned i = 0; i < 10000; i++)
        assert_int_equal(buffer.data[i], (unsigned char)(i * 7));
    crti_buffer_fini(&buffer);
}

static void consume_takes_bytes_off_the_front(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t buffer = {0};

    assert_int_equal(crti_buffer_append(&buffer, "abcdef", 6), CRT_OK);
    crti_buffer_consume(&buffer, 0);
    crti_buffer_consume(&buffer, 2);
    assert_int_equal(buffer.size, 4);
    assert_memory_equal(buffer.data, "cdef", 4);
    crti_buffer_consume(&buffer, 4);
    assert_int_equal(buffer.size, 0);
}

static void nothing_may_be_appended_to_an_empty_buffer(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t buffer = {0};

    assert_int_equal(crti_buffer_append(&buffer, NULL, 0), CRT_OK);
    assert_int_equal(buffer.size, 0);
    crti_buffer_consume(&buffer, 0);
}

static void a_size_no_machine_has_is_out_of_memory_and_changes_nothing(void **state)
{
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 2, SIZE_MAX / 2, SIZE_MAX / 4};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t buffer = {0};

    assert_int_equal(crti_buffer_append(&buffer, "abc", 3), CRT_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(crti_buffer_reserve(&buffer, sizes[i]), CRT_ERR_NO_MEMORY);
        assert_non_null(strstr(crt_error_detail(), "buffer of"));
        assert_int_equal(buffer.size, 3);
        assert_memory_equal(buffer.data, "abc", 3);
    }
}

static void a_reserve_gives_room_without_changing_the_size(void **state)
{
    crti_buffer_t buffer = {0};
    unsigned char *data;

    assert_int_equal(crti_buffer_reserve(&buffer, 1000), CRT_OK);
    assert_true(buffer.capacity >= 1000);
    assert_int_equal(buffer.size, 0);
    data = buffer.data;
    assert_int_equal(crti_buffer_reserve(&buffer, 1000), CRT_OK);
    assert_ptr_equal(buffer.data, data);
    crti_buffer_fini(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.capacity, 0);
}

static void items_are_taken_in_order_and_the_last_one_empties_the_buffer(void **state)
{
    crti_buffer_t buffer = {0};
    size_t done = 0;
    int item = 0;

    assert_false(crti_buffer_take(&buffer, &done, &item, sizeof(item)));
    for (int i = 1; i <= 3; i++)
        assert_int_equal(crti_buffer_append(&buffer, &i, sizeof(i)), CRT_OK);
    for (int i = 1; i <= 3; i++) {
        assert_true(crti_buffer_take(&buffer, &done, &item, sizeof(item)));
        assert_int_equal(item, i);
    }
    assert_false(crti_buffer_take(&buffer, &done, &item, sizeof(item)));
    assert_int_equal(done, 0);
    assert_int_equal(buffer.size, 0);
    crti_buffer_fini(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_bytes_stay_in_order_while_it_grows),
        cmocka_unit_test(consume_takes_bytes_off_the_front),
        cmocka_unit_test(nothing_may_be_appended_to_an_empty_buffer),
        cmocka_unit_test(a_size_no_machine_has_is_out_of_memory_and_changes_nothing),
        cmocka_unit_test(items_are_taken_in_order_and_the_last_one_empties_the_buffer),
        cmocka_unit_test(a_reserve_gives_room_without_changing_the_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
