/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of calls by HTTP have limits, which are looked at before the work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/core/values/value.h"
#include "runtime/http/json_value.h"

#define MIB ((size_t)1 << 20)

/* `unit` again and again within a list, 1 MiB in all. */
static char *repeat(const char *unit)
{
    size_t length = strlen(unit), used = 2;
    char *text = calloc(1, MIB + 16);

    strcpy(text, "[[");
    for (; used + length < MIB; used += length)
        memcpy(text + used, unit, length);
    strcpy(text + used - 1, "]]"); /* over the last comma */
    return text;
}

static void expect_parsed(const char *unit, crt_status_t wanted)
{
    char *text = repeat(unit);
    crti_json_args_t args;

    assert_int_equal(crti_json_args_parse(text, strlen(text), 40 * MIB, &args), wanted);
    if (wanted == CRT_OK)
        crti_json_args_fini(&args);
    free(text);
}

static void arguments_that_would_take_much_memory_are_not_parsed(void **state)
{
    expect_parsed("[],", CRT_ERR_TOO_LARGE);
    expect_parsed("{},", CRT_ERR_TOO_LARGE);
    expect_parsed("0,", CRT_ERR_TOO_LARGE);
    expect_parsed("0.12345,", CRT_OK);
    expect_parsed("255,", CRT_OK);
}

static void arguments_that_are_nested_deep_are_not_parsed(void **state)
{
    char text[200];
    crti_json_args_t args;

    for (int depth = 33; depth < 36; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        assert_int_equal(crti_json_args_parse(text, 2 * (size_t)depth, SIZE_MAX, &args),
                         depth == 33 ? CRT_OK : CRT_ERR_INVALID);
        if (depth == 33)
            crti_json_args_fini(&args);
    }
}

static void a_tensor_by_headers_is_what_a_stranger_may_send(void **state)
{
    static const unsigned char bools[] = {0, 1, 2};
    crt_tensor_t tensor;

    assert_int_equal(
        crti_tensor_parse("float32", "400000000,0", crti_span(NULL, 0), &tensor),
        CRT_ERR_INVALID);
    assert_int_equal(crti_tensor_parse("float32", "0,1099511627776,1099511627776",
                                       crti_span(NULL, 0), &tensor),
                     CRT_ERR_INVALID);
    assert_int_equal(crti_tensor_parse("float32", "4,0", crti_span(NULL, 0), &tensor),
                     CRT_OK);
    assert_int_equal(crti_tensor_parse("bool", "3", crti_span(bools, 3), &tensor),
                     CRT_ERR_INVALID);
    assert_int_equal(crti_tensor_parse("bool", "2", crti_span(bools, 2), &tensor),
                     CRT_OK);
}

static void a_result_is_not_written_beyond_its_limit(void **state)
{
    const int64_t shape[] = {400000000, 0};
    crt_tensor_t tensor = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, NULL);
    crt_value_t value = {.kind = CRT_KIND_TENSOR, .as.tensor = &tensor};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};

    assert_true(crti_json_value_is_large(&value));
    assert_int_equal(crti_json_value_write(&value, 64 << 10, &text), CRT_ERR_TOO_LARGE);
    assert_true(text.size <= 64 << 10);
}

static void what_is_small_is_written_at_once(void **state)
{
    float numbers[10] = {0};
    crt_tensor_t tensor = crt_tensor_floats(numbers, 10);
    crt_value_t value = {.kind = CRT_KIND_TENSOR, .as.tensor = &tensor};

    assert_false(crti_json_value_is_large(&value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_that_would_take_much_memory_are_not_parsed),
        cmocka_unit_test(arguments_that_are_nested_deep_are_not_parsed),
        cmocka_unit_test(a_tensor_by_headers_is_what_a_stranger_may_send),
        cmocka_unit_test(a_result_is_not_written_beyond_its_limit),
        cmocka_unit_test(what_is_small_is_written_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
