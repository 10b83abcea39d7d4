/* SPDX-License-Identifier: Apache-2.0 */
/* Names of resources, and what is said of one that was never seen. */
#include "runtime/base/resource_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static crti_resource_names_t names_of(const char *text)
{
    crti_resource_names_t names = {0};
    crti_resources_t r = {0};

    assert_int_equal(crti_resources_parse(text, &r), CRT_OK);
    crti_resource_names_note(&names, &r);
    crti_resource_names_note(&names, &r); /* each counts once */
    assert_int_equal(names.count, r.count);
    return names;
}

static void the_nearest_name_is_the_one_with_the_fewest_edits(void **state)
{
    crti_resource_names_t names = names_of("CPU=1,GPU=1,fast-disk=1,memory=1");

    assert_string_equal(crti_resource_names_nearest(&names, "gup"), "GPU");
    assert_string_equal(crti_resource_names_nearest(&names, "GPUs"), "GPU");
    assert_string_equal(crti_resource_names_nearest(&names, "memroy"), "memory");
    assert_string_equal(crti_resource_names_nearest(&names, "fast_disk"), "fast-disk");
    assert_string_equal(crti_resource_names_nearest(&names, "cp"), "CPU");
    assert_null(crti_resource_names_nearest(&names, "quantum"));
    assert_null(crti_resource_names_nearest(&names, "abcdefghijklmnopqrstuvwxyz01234"));
}

static void only_a_name_that_was_never_seen_gets_a_hint(void **state)
{
    crti_resource_names_t names = names_of("CPU=1,GPU=1");
    char text[120];

    assert_string_equal(crti_resource_names_hint(&names, "GPU", text, sizeof(text)), "");
    assert_string_equal(crti_resource_names_hint(&names, "GUP", text, sizeof(text)),
                        ", which no node has ever had; the nearest name is GPU");
    assert_string_equal(crti_resource_names_hint(&names, "quantum", text, sizeof(text)),
                        ", which no node has ever had");
    assert_string_equal(crti_resource_names_hint(&names, "GUP", text, 10), ", which n");
    assert_string_equal(crti_resource_names_hint(&names, "node:1.2.3.4", text, 10), "");
}

static void when_there_are_too_many_names_nothing_is_said_of_others(void **state)
{
    crti_resource_names_t names = {0};
    char text[120];

    for (int i = 0; i < CRTI_RESOURCE_NAMES + 5; i++) {
        crti_resources_t r = {0};
        char name[CRTI_RESOURCE_NAME];

        snprintf(name, sizeof(name), "name%d", i);
        assert_int_equal(crti_resources_set(&r, name, 1), CRT_OK);
        crti_resource_names_note(&names, &r);
    }
    assert_int_equal(names.count, CRTI_RESOURCE_NAMES);
    assert_string_equal(crti_resource_names_hint(&names, "name66", text, sizeof(text)),
                        "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_name_is_the_one_with_the_fewest_edits),
        cmocka_unit_test(only_a_name_that_was_never_seen_gets_a_hint),
        cmocka_unit_test(when_there_are_too_many_names_nothing_is_said_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
