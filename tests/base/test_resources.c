/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/resources.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static crti_resources_t parsed(const char *text)
{
    crti_resources_t r = {0};

    assert_int_equal(crti_resources_parse(text, &r), CRT_OK);
    return r;
}

static void amounts_have_four_digits_behind_the_point(void **state)
{
    crti_resources_t r = parsed("CPU=2,gpu=0.5,disk=.25,net=0.0001,tape=7.");

    assert_int_equal(crti_resources_get(&r, "CPU"), 20000);
    assert_int_equal(crti_resources_get(&r, "GPU"), 5000);
    assert_int_equal(crti_resources_get(&r, "disk"), 2500);
    assert_int_equal(crti_resources_get(&r, "net"), 1);
    assert_int_equal(crti_resources_get(&r, "tape"), 70000);
    assert_int_equal(crti_resources_get(&r, "none"), 0);
}

static void an_option_holds_nothing_or_an_amount_in_reason(void **state)
{
    static const double wrong[] = {-3, -1, -0.5, 0.00001, 1.1e12, 1.0 / 0.0, 0.0 / 0.0};
    crti_resources_t r = {0};

    assert_int_equal(crti_resources_set_option(&r, "CPU", 0), CRT_OK);
    assert_int_equal(r.count, 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(crti_resources_set_option(&r, "CPU", wrong[i]), CRT_ERR_INVALID);
    assert_int_equal(r.count, 0);
    assert_int_equal(crti_resources_set_option(&r, "CPU", 0.5), CRT_OK);
    assert_int_equal(crti_resources_get(&r, "CPU"), CRTI_RESOURCE_ONE / 2);
}

static void amounts_reach_from_a_ten_thousandth_to_1e12_in_any_form(void **state)
{
    crti_resources_t r = parsed("a=4000000000,b=1000000000000,c=999999999999.9999,"
                                "d=1000000000000.0000,e=0000000000000000000000000000007");
    int64_t units;

    assert_int_equal(crti_resources_get(&r, "a"), INT64_C(40000000000000));
    assert_int_equal(crti_resources_get(&r, "b"), CRTI_RESOURCE_MAX);
    assert_int_equal(crti_resources_get(&r, "c"), CRTI_RESOURCE_MAX - 1);
    assert_int_equal(crti_resources_get(&r, "d"), CRTI_RESOURCE_MAX);
    assert_int_equal(crti_resources_get(&r, "e"), 70000);
    for (size_t i = 0; i < 3; i++) {
        static const char *const beyond[] = {"x=1000000000000.0001", "x=1000000000001",
                                             "x=99999999999999999999999999.9999"};

        assert_int_equal(crti_resources_parse(beyond[i], &r), CRT_ERR_INVALID);
        assert_non_null(strstr(crt_error_detail(), "at most 1e12"));
    }
    assert_true(crti_resources_amount(1e12, &units));
    assert_int_equal(units, CRTI_RESOURCE_MAX);
    assert_true(crti_resources_amount(4e9, &units));
    assert_int_equal(units, INT64_C(40000000000000));
    assert_false(crti_resources_amount(1.0001e12, &units));
    assert_int_equal(crti_resources_set_option(&r, "CPU", 4e9), CRT_OK);
}

static void what_is_not_name_and_amount_is_refused_with_its_text(void **state)
{
    const char *const wrong[] = {
        "CPU",
        "CPU=",
        "=1",
        "CPU=-1",
        "CPU=1.00001",
        "CPU=1e3",
        "CPU=nan",
        "CPU=1 ",
        "C PU=1",
        "CPU=.",
        "CPU=1.2.3",
        "CPU=9999999999999999999x",
        "a,b=1",
        "CPU==1",
        "a-name-that-is-much-too-long-for-the-name-of-a-resource=1",
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        crti_resources_t r = {0};

        assert_int_equal(crti_resources_parse(wrong[i], &r), CRT_ERR_INVALID);
        assert_string_not_equal(crt_error_detail(), "");
    }
}

static void a_name_that_comes_twice_is_refused(void **state)
{
    const char *const wrong[] = {"x=1,x=2", "x=1,y=1,x=1", "x=0,x=1", "x=1,x=0"};
    crti_resources_t r = parsed("xx=1,x=2,x.x=3");

    assert_int_equal(r.count, 3);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        r = (crti_resources_t){0};
        assert_int_equal(crti_resources_parse(wrong[i], &r), CRT_ERR_INVALID);
        assert_string_equal(crt_error_detail(), "resource \"x\" is given twice");
    }
    r = parsed("CPU=2");
    assert_int_equal(crti_resources_parse("CPU=1", &r), CRT_ERR_INVALID);
    assert_int_equal(crti_resources_set_option(&r, "CPU", 1), CRT_ERR_INVALID);
    assert_int_equal(crti_resources_set_option(&r, "CPU", -1), CRT_ERR_INVALID);
    assert_int_equal(crti_resources_set_option(&r, "CPU", 0), CRT_OK);
    assert_int_equal(crti_resources_get(&r, "CPU"), 20000);
}

static void cpu_gpu_and_memory_are_the_same_in_any_case(void **state)
{
    crti_resources_t r = parsed("cpu=2,Gpu=1,MEMORY=7,Disk=1,gpus=1");

    assert_int_equal(crti_resources_get(&r, "CPU"), 20000);
    assert_int_equal(crti_resources_get(&r, "GPU"), 10000);
    assert_int_equal(crti_resources_get(&r, "memory"), 70000);
    assert_int_equal(crti_resources_get(&r, "Disk"),
                     10000); /* others are as they are written */
    assert_int_equal(crti_resources_get(&r, "disk"), 0);
    r = (crti_resources_t){0};
    assert_int_equal(crti_resources_parse("gpu=0,GPU=1", &r), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "resource \"GPU\" is given twice");
}

static void gpus_are_a_part_of_one_or_whole(void **state)
{
    crti_resources_t r = parsed("gpu=0.3");

    assert_int_equal(crti_resources_check(&r), CRT_OK);
    r = parsed("gpu=3");
    assert_int_equal(crti_resources_check(&r), CRT_OK);
    r = parsed("gpu=1.0001");
    assert_int_equal(crti_resources_check(&r), CRT_ERR_INVALID);
}

static void more_names_than_fit_are_refused(void **state)
{
    char name[8];
    crti_resources_t r = {0};

    for (int i = 0; i < CRTI_RESOURCES_MAX; i++) {
        snprintf(name, sizeof(name), "r%d", i);
        assert_int_equal(crti_resources_set(&r, name, 1), CRT_OK);
    }
    assert_int_equal(crti_resources_set(&r, "more", 1), CRT_ERR_INVALID);
    assert_int_equal(crti_resources_set(&r, "r3", 0), CRT_OK);
    assert_int_equal(crti_resources_set(&r, "more", 1), CRT_OK);
    assert_int_equal(crti_resources_get(&r, "r3"), 0);
    assert_int_equal(crti_resources_get(&r, "r11"), 1);
}

static void it_fits_when_there_is_enough_of_every_name(void **state)
{
    crti_resources_t have = parsed("CPU=2,gpu=1"), need = parsed("CPU=2");

    assert_true(crti_resources_fit(&have, &need));
    need = parsed("CPU=2.0001");
    assert_false(crti_resources_fit(&have, &need));
    need = parsed("tape=0.1");
    assert_false(crti_resources_fit(&have, &need));
    need = (crti_resources_t){0};
    assert_true(crti_resources_fit(&have, &need));
}

static void give_undoes_take_below_zero_too(void **state)
{
    crti_resources_t have = parsed("CPU=1"), need = parsed("CPU=3,gpu=0.5");

    crti_resources_take(&have, &need);
    assert_int_equal(crti_resources_get(&have, "CPU"), -20000);
    assert_int_equal(crti_resources_get(&have, "GPU"), -5000);
    crti_resources_give(&have, &need);
    assert_int_equal(crti_resources_get(&have, "CPU"), 10000);
    assert_int_equal(crti_resources_get(&have, "GPU"), 0);
}

static void format_reads_like_a_sentence_and_never_overruns(void **state)
{
    crti_resources_t r = parsed("CPU=2,gpu=0.5"), none = {0};
    char text[64];

    assert_string_equal(crti_resources_format(&r, text, sizeof(text)), "2 CPU, 0.5 GPU");
    assert_string_equal(crti_resources_format(&none, text, sizeof(text)), "nothing");
    assert_string_equal(
        crti_resources_format_one("memory", INT64_C(1536) * 1048576 * CRTI_RESOURCE_ONE,
                                  text, sizeof(text)),
        "1536 MiB memory");
    for (size_t size = 1; size < 16; size++) {
        memset(text, '#', sizeof(text));
        crti_resources_format(&r, text, size);
        assert_true(strlen(text) < size);
        assert_int_equal(text[size], '#');
    }
}

static void no_sum_leaves_the_range_of_amounts(void **state)
{
    crti_resources_t most = {.count = 1, .item = {{"CPU", CRTI_RESOURCE_MAX}}};
    crti_resources_t have = most;

    assert_int_equal(crti_resources_set(&have, "CPU", CRTI_RESOURCE_MAX + 1),
                     CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "at most 1e12"));
    assert_int_equal(crti_resources_set(&have, "CPU", INT64_MIN), CRT_ERR_INVALID);
    for (int i = 0; i < 2000; i++)
        crti_resources_give(&have, &most);
    assert_int_equal(crti_resources_get(&have, "CPU"), CRTI_RESOURCE_MAX);
    for (int i = 0; i < 2000; i++)
        crti_resources_take(&have, &most);
    assert_int_equal(crti_resources_get(&have, "CPU"), -CRTI_RESOURCE_MAX);
}

static int64_t part_in_use(int64_t total, int64_t free, int64_t need, int64_t scale)
{
    crti_resources_t a = {0}, b = {0}, c = {0};

    crti_resources_set(&a, "CPU", total);
    crti_resources_set(&b, "CPU", free);
    crti_resources_set(&c, "CPU", need);
    return crti_resources_part_in_use(&a, &b, &c, "CPU", scale);
}

static void how_full_a_node_is_never_overflows(void **state)
{
    int64_t most = CRTI_RESOURCE_MAX;

    assert_int_equal(part_in_use(40000, 20000, 10000, 1000), 750);
    assert_int_equal(part_in_use(0, 0, 10000, 1000), 1000);
    assert_int_equal(part_in_use(most, 0, 0, 10000), 10000);
    assert_int_equal(part_in_use(1, -most, most, 10000), 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_have_four_digits_behind_the_point),
        cmocka_unit_test(an_option_holds_nothing_or_an_amount_in_reason),
        cmocka_unit_test(amounts_reach_from_a_ten_thousandth_to_1e12_in_any_form),
        cmocka_unit_test(what_is_not_name_and_amount_is_refused_with_its_text),
        cmocka_unit_test(a_name_that_comes_twice_is_refused),
        cmocka_unit_test(cpu_gpu_and_memory_are_the_same_in_any_case),
        cmocka_unit_test(gpus_are_a_part_of_one_or_whole),
        cmocka_unit_test(more_names_than_fit_are_refused),
        cmocka_unit_test(it_fits_when_there_is_enough_of_every_name),
        cmocka_unit_test(give_undoes_take_below_zero_too),
        cmocka_unit_test(no_sum_leaves_the_range_of_amounts),
        cmocka_unit_test(how_full_a_node_is_never_overflows),
        cmocka_unit_test(format_reads_like_a_sentence_and_never_overruns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
