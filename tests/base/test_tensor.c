/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/tensor_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_dtype_has_a_size_and_a_name(void **state)
{
    const size_t sizes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 1, 2, 4, 8};

    for (int i = CRT_DTYPE_FLOAT32; i <= CRT_DTYPE_UINT64; i++) {
        assert_int_equal(crt_dtype_size((crt_dtype_t)i), sizes[i - 1]);
        assert_string_not_equal(crt_dtype_name((crt_dtype_t)i), "unknown");
    }
    assert_string_equal(crt_dtype_name(CRT_DTYPE_BFLOAT16), "bfloat16");
}

static void a_number_from_the_wire_that_is_no_dtype_has_size_0(void **state)
{
    const int wrong[] = {0, 14, -1, 1 << 20, -2147483647 - 1};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(crt_dtype_size((crt_dtype_t)wrong[i]), 0);
        assert_string_equal(crt_dtype_name((crt_dtype_t)wrong[i]), "unknown");
    }
}

static void a_view_is_dense_and_row_major(void **state)
{
    const int64_t shape[] = {2, 3, 4};
    double data[24];
    crt_tensor_t view = crt_tensor_view(CRT_DTYPE_FLOAT64, 3, shape, data);

    assert_int_equal(view.strides[0], 12);
    assert_int_equal(view.strides[1], 4);
    assert_int_equal(view.strides[2], 1);
    assert_int_equal(view.device.type, CRT_DEVICE_HOST);
    assert_ptr_equal(view.data, data);
    assert_int_equal(crt_tensor_count(&view), 24);
    assert_int_equal(crt_tensor_bytes(&view), 192);
    assert_true(crt_tensor_is_dense(&view));
}

static void rank_0_is_one_number(void **state)
{
    float number = 7;
    crt_tensor_t view = crt_tensor_view(CRT_DTYPE_FLOAT32, 0, NULL, &number);

    assert_int_equal(crt_tensor_count(&view), 1);
    assert_int_equal(crt_tensor_bytes(&view), 4);
    assert_true(crt_tensor_is_dense(&view));
}

static void the_largest_rank_fits_and_the_next_has_no_dtype(void **state)
{
    const int64_t shape[CRT_TENSOR_DIMS + 1] = {1, 1, 1, 1, 1, 1, 1, 2, 1};
    char data[2];
    crt_tensor_t view = crt_tensor_view(CRT_DTYPE_INT8, CRT_TENSOR_DIMS, shape, data);

    assert_int_equal(crt_tensor_count(&view), 2);
    view = crt_tensor_view(CRT_DTYPE_INT8, CRT_TENSOR_DIMS + 1, shape, data);
    assert_int_equal(crt_dtype_size(view.dtype), 0);
    assert_int_equal(view.rank, 0);
    view = crt_tensor_view(CRT_DTYPE_INT8, -1, shape, data);
    assert_int_equal(crt_dtype_size(view.dtype), 0);
}

static void a_slice_with_holes_is_not_dense(void **state)
{
    const int64_t shape[] = {4, 6};
    int32_t data[24];
    crt_tensor_t view = crt_tensor_view(CRT_DTYPE_INT32, 2, shape, data);

    view.shape[1] = 3; /* the left half of each row */
    assert_false(crt_tensor_is_dense(&view));
    view.shape[0] = 1; /* of one row only */
    assert_true(crt_tensor_is_dense(&view));
    view = crt_tensor_view(CRT_DTYPE_INT32, 2, shape, data);
    view.strides[0] = 1; /* transposed */
    view.strides[1] = 4;
    assert_false(crt_tensor_is_dense(&view));
}

static void a_tensor_without_strides_is_dense(void **state)
{
    int32_t data[24];
    crt_tensor_t tensor = {
        .dtype = CRT_DTYPE_INT32, .rank = 2, .shape = {4, 6}, .data = data};

    assert_true(crt_tensor_is_dense(&tensor));
    tensor.strides[1] = 1; /* one row, four times */
    assert_false(crt_tensor_is_dense(&tensor));
}

static void sizes_beyond_all_numbers_make_a_view_all_the_same(void **state)
{
    const int64_t shape[] = {0, INT64_MAX, INT64_MAX};
    crt_tensor_t view = crt_tensor_view(CRT_DTYPE_INT8, 3, shape, NULL);

    assert_int_equal(crt_tensor_count(&view), 0);
    assert_true(crt_tensor_is_dense(&view));
}

static void an_empty_tensor_has_no_bytes_and_is_dense(void **state)
{
    const int64_t shape[] = {3, 0, 2};
    crt_tensor_t view = crt_tensor_view(CRT_DTYPE_INT64, 3, shape, NULL);

    assert_int_equal(crt_tensor_count(&view), 0);
    assert_int_equal(crt_tensor_bytes(&view), 0);
    view.strides[1] = 17;
    assert_true(crt_tensor_is_dense(&view));
}

static void floats_are_one_row(void **state)
{
    float data[5];
    crt_tensor_t view = crt_tensor_floats(data, 5);

    assert_int_equal(view.rank, 1);
    assert_int_equal(view.dtype, CRT_DTYPE_FLOAT32);
    assert_int_equal(crt_tensor_bytes(&view), sizeof(data));
}

static void expect_size(crt_status_t wanted, size_t most_rows, size_t bytes, int rank,
                        const int64_t *shape)
{
    size_t got = 0;

    assert_int_equal(crti_tensor_size(CRT_DTYPE_FLOAT32, rank, shape, most_rows, &got),
                     wanted);
    if (wanted == CRT_OK)
        assert_int_equal(got, bytes);
}

static void a_shape_that_can_not_be_counted_is_refused(void **state)
{
    const int64_t huge = INT64_C(1) << 40;

    expect_size(CRT_OK, CRTI_TENSOR_ROWS_FAR, 24, 2, (int64_t[]){2, 3});
    expect_size(CRT_OK, CRTI_TENSOR_ROWS_FAR, 4, 0, NULL);
    expect_size(CRT_ERR_INVALID, CRTI_TENSOR_ROWS_ANY, 0, 2, (int64_t[]){-5, 0});
    expect_size(CRT_ERR_INVALID, CRTI_TENSOR_ROWS_ANY, 0, 2, (int64_t[]){huge, huge});
    expect_size(CRT_ERR_INVALID, CRTI_TENSOR_ROWS_ANY, 0, 3, (int64_t[]){0, huge, huge});
    expect_size(CRT_ERR_INVALID, CRTI_TENSOR_ROWS_ANY, 0, 9, NULL);
    expect_size(CRT_ERR_INVALID, CRTI_TENSOR_ROWS_ANY, 0, 1, NULL);
    expect_size(CRT_ERR_INVALID, CRTI_TENSOR_ROWS_ANY, 0, 1, &(int64_t){INT64_MAX});
}

static void a_stranger_s_tensor_without_elements_has_few_rows(void **state)
{
    expect_size(CRT_OK, CRTI_TENSOR_ROWS_FAR, 0, 2, (int64_t[]){65536, 0});
    expect_size(CRT_ERR_INVALID, CRTI_TENSOR_ROWS_FAR, 0, 2, (int64_t[]){400000000, 0});
    expect_size(CRT_ERR_INVALID, CRTI_TENSOR_ROWS_FAR, 0, 3, (int64_t[]){300, 0, 300});
    expect_size(CRT_OK, CRTI_TENSOR_ROWS_ANY, 0, 2, (int64_t[]){400000000, 0});
}

static void a_bool_is_0_or_1(void **state)
{
    unsigned char bytes[100] = {0, 1, 1, 0};

    assert_true(crti_tensor_are_bools(bytes, sizeof(bytes)));
    bytes[77] = 2;
    assert_false(crti_tensor_are_bools(bytes, sizeof(bytes)));
    assert_true(crti_tensor_are_bools(bytes, 77));
    assert_true(crti_tensor_are_bools(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_that_can_not_be_counted_is_refused),
        cmocka_unit_test(a_stranger_s_tensor_without_elements_has_few_rows),
        cmocka_unit_test(a_bool_is_0_or_1),
        cmocka_unit_test(every_dtype_has_a_size_and_a_name),
        cmocka_unit_test(a_number_from_the_wire_that_is_no_dtype_has_size_0),
        cmocka_unit_test(a_view_is_dense_and_row_major),
        cmocka_unit_test(rank_0_is_one_number),
        cmocka_unit_test(the_largest_rank_fits_and_the_next_has_no_dtype),
        cmocka_unit_test(a_slice_with_holes_is_not_dense),
        cmocka_unit_test(a_tensor_without_strides_is_dense),
        cmocka_unit_test(sizes_beyond_all_numbers_make_a_view_all_the_same),
        cmocka_unit_test(an_empty_tensor_has_no_bytes_and_is_dense),
        cmocka_unit_test(floats_are_one_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
