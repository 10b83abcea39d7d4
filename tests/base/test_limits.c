/* SPDX-License-Identifier: Apache-2.0 */
/* Limits: what is read, shown, refused and handed down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#include <cmocka.h>

static int clear(void **state)
{
    const crti_limit_t *limit;

    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++) {
        char variable[CRTI_LIMIT_VARIABLE];

        crti_limit_variable(limit, variable);
        unsetenv(variable);
    }
    unsetenv("CRT_HEARTBEAT_TIMEOUTS");
    assert_int_equal(crti_limits_load(), CRT_OK);
    return 0;
}

static uint64_t value_of(const char *name, const char *text)
{
    uint64_t value = UINT64_MAX;

    assert_int_equal(crti_limit_read(crti_limit_find(name), name, text, &value), CRT_OK);
    return value;
}

static void refused(const char *name, const char *text, const char *part)
{
    uint64_t value = 4711;

    assert_int_equal(crti_limit_read(crti_limit_find(name), name, text, &value),
                     CRT_ERR_INVALID);
    assert_int_equal(value, 4711);
    if (!strstr(crt_error_detail(), part))
        fail_msg("\"%s\" has no \"%s\"", crt_error_detail(), part);
}

/* ---------------------------------------------------------------- the list */

static void every_default_is_in_its_range_and_they_go_together(void **state)
{
    const crti_limit_t *limit;
    crti_limits_t limits;

    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++) {
        assert_true(limit->least <= limit->standard && limit->standard <= limit->most);
        assert_true(limit->unit != CRTI_LIMIT_PERCENT || limit->most <= 100);
        assert_true(crti_limit_find(limit->name) == limit);
        assert_true(strlen(limit->name) + sizeof("CRT_") <= CRTI_LIMIT_VARIABLE);
    }
    crti_limits_defaults(&limits);
    assert_int_equal(crti_limits_check(&limits), CRT_OK);
    assert_memory_equal(&limits, &crti_limits_here, sizeof(limits));
}

static void what_is_shown_is_read_as_the_same_value(void **state)
{
    const crti_limit_t *limit;

    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++) {
        const uint64_t values[] = {limit->least, limit->standard, limit->most};

        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            char text[CRTI_LIMIT_TEXT];

            crti_limit_write(limit->unit, values[k], text);
            assert_int_equal(value_of(limit->name, text), values[k]);
        }
    }
}

static void a_variable_is_never_nearly_that_of_another_limit(void **state)
{
    const crti_limit_t *limit;

    for (size_t i = 0; (limit = crti_limit_at(i)) != NULL; i++) {
        char variable[CRTI_LIMIT_VARIABLE], text[CRTI_LIMIT_TEXT];

        crti_limit_variable(limit, variable);
        crti_limit_write(limit->unit, limit->standard, text);
        setenv(variable, text, 1);
    }
    assert_int_equal(crti_limits_load(), CRT_OK);
}

/* ---------------------------------------------------------------- values */

static void a_time_has_a_unit_or_is_in_seconds(void **state)
{
    assert_int_equal(value_of("heartbeat_timeout", "7"), 7 * CRTI_S);
    assert_int_equal(value_of("heartbeat_timeout", "7.25"), 7250 * CRTI_MS);
    assert_int_equal(value_of("heartbeat_timeout", "1500ms"), 1500 * CRTI_MS);
    assert_int_equal(value_of("heartbeat_timeout", "0.5m"), 30 * CRTI_S);
    assert_int_equal(value_of("wait_spin", "20us"), 20 * CRTI_US);
    assert_int_equal(value_of("wait_spin", "1234ns"), 1234);
    assert_int_equal(value_of("ended_jobs_time", "2d"), 2 * CRTI_DAY);
}

static void a_size_is_in_bytes_or_powers_of_1024(void **state)
{
    assert_int_equal(value_of("lineage_limit", "1000"), 1000);
    assert_int_equal(value_of("lineage_limit", "64K"), 64 * CRTI_KIB);
    assert_int_equal(value_of("lineage_limit", "1.5G"), 1536 * CRTI_MIB);
    assert_int_equal(value_of("lineage_limit", "0"), 0);
}

static void what_is_no_value_is_refused_with_the_range(void **state)
{
    const char *const none[] = {"",
                                " 5",
                                "5 ",
                                "-5",
                                "+5",
                                "soon",
                                "5x",
                                "0x10",
                                "1e3",
                                ".5",
                                "5s5",
                                "99999999999999999999",
                                "18446744073709551615"};

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        refused("heartbeat_timeout", none[i], "a time from 1s to 1h");
        refused("lineage_limit", none[i], "a number of bytes from 0 to 1024T");
        refused("ended_jobs", none[i], "a whole number from 1 to 1000000");
    }
    refused("heartbeat_timeout", "999ms",
            "heartbeat_timeout=999ms: a time from 1s to 1h");
    refused("heartbeat_timeout", "3601", "from 1s to 1h");
    refused("ended_jobs", "5.5", "a whole number");
    refused("memory_limit", "101", "percent from 0 to 100");
}

/* ---------------------------------------------------------------- the environment */

static void the_environment_sets_a_limit_and_an_empty_text_does_not(void **state)
{
    setenv("CRT_SESSION_TIMEOUT", "90", 1);
    setenv("CRT_HEARTBEAT_TIMEOUT", "", 1);
    assert_int_equal(crti_limits_load(), CRT_OK);
    assert_int_equal(CRTI_LIMIT(session_timeout), 90 * CRTI_S);
    assert_int_equal(CRTI_LIMIT(heartbeat_timeout), 5 * CRTI_S);
    assert_string_equal(CRTI_LIMIT_SAID(session_timeout), "90s");
}

static void a_wrong_value_leaves_all_with_their_defaults(void **state)
{
    setenv("CRT_SESSION_TIMEOUT", "90", 1);
    setenv("CRT_ENDED_JOBS", "many", 1);
    assert_int_equal(crti_limits_load(), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "CRT_ENDED_JOBS=many"));
    assert_int_equal(CRTI_LIMIT(session_timeout), 30 * CRTI_S);
}

static void limits_that_do_not_go_together_are_refused(void **state)
{
    setenv("CRT_HEARTBEAT_INTERVAL", "900ms", 1);
    setenv("CRT_HEARTBEAT_TIMEOUT", "1", 1);
    assert_int_equal(crti_limits_load(), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(),
                        "CRT_HEARTBEAT_TIMEOUT=1s is less than 2 times "
                        "CRT_HEARTBEAT_INTERVAL, which is 900ms");
    setenv("CRT_HEARTBEAT_TIMEOUT", "1.8", 1);
    assert_int_equal(crti_limits_load(), CRT_OK);
}

static void a_variable_with_a_slip_of_the_pen_is_refused(void **state)
{
    setenv("CRT_HEARTBEAT_TIMEOUTS", "9", 1);
    assert_int_equal(crti_limits_load(), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "CRT_HEARTBEAT_TIMEOUTS is no variable"));
    assert_non_null(strstr(crt_error_detail(), "CRT_HEARTBEAT_TIMEOUT was meant?"));
    assert_string_equal(crti_limit_nearest("heartbeet_timeout"), "heartbeat_timeout");
}

/* ---------------------------------------------------------------- handed down */

static char said[1000];

static void take_line(void *user, int level, const char *line)
{
    strncat(said, line, sizeof(said) - strlen(said) - 1);
}

static void those_of_the_cluster_are_handed_down_and_no_others(void **state)
{
    char text[CRTI_LIMITS_PACKED];

    setenv("CRT_HEARTBEAT_TIMEOUT", "20", 1);
    setenv("CRT_ENDED_JOBS", "7", 1);
    assert_int_equal(crti_limits_load(), CRT_OK);
    crti_limits_pack(text);
    clear(state);
    assert_int_equal(CRTI_LIMIT(heartbeat_timeout), 5 * CRTI_S);
    assert_int_equal(crti_limits_take(text, strlen(text)), CRT_OK);
    assert_int_equal(CRTI_LIMIT(heartbeat_timeout), 20 * CRTI_S);
    assert_int_equal(CRTI_LIMIT(ended_jobs), 1000);
}

static void what_the_cluster_has_counts_and_that_is_told_once(void **state)
{
    char text[CRTI_LIMITS_PACKED];

    crti_limits_pack(text);
    setenv("CRT_HEARTBEAT_TIMEOUT", "20", 1);
    assert_int_equal(crti_limits_load(), CRT_OK);
    crti_log_select("notice");
    crti_log_set_sink(take_line, NULL);
    assert_int_equal(crti_limits_take(text, strlen(text)), CRT_OK);
    assert_non_null(strstr(said, "CRT_HEARTBEAT_TIMEOUT=20s does not count: the cluster "
                                 "was started with 5s"));
    said[0] = '\0';
    assert_int_equal(crti_limits_take(text, strlen(text)), CRT_OK);
    crti_log_set_sink(NULL, NULL);
    assert_string_equal(said, "");
    assert_int_equal(CRTI_LIMIT(heartbeat_timeout), 5 * CRTI_S);
}

static void what_is_no_text_of_a_cluster_changes_nothing(void **state)
{
    static const char *const wrong[] = {
        "heartbeat_timeout=20000000000\nnonsense",
        "heartbeat_timeout=20000000000\nended_jobs=5", /* not of the cluster */
        "heartbeat_timeout=20000000000x",
        "heartbeat_timeout=1",
        "heartbeat_timeout=-20000000000",
        "heartbeat_timeout=99999999999999999999999999",
        "no_such_limit=5",
        "heartbeat_interval=1000000000\nheartbeat_timeout=1000000000"};
    static char large[2 * CRTI_LIMITS_PACKED];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_not_equal(crti_limits_take(wrong[i], strlen(wrong[i])), CRT_OK);
        assert_int_equal(CRTI_LIMIT(heartbeat_timeout), 5 * CRTI_S);
    }
    memset(large, '\n', sizeof(large));
    assert_int_equal(crti_limits_take(large, sizeof(large)), CRT_ERR_PROTOCOL);
    assert_int_equal(crti_limits_take(NULL, 0), CRT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_default_is_in_its_range_and_they_go_together, clear),
        cmocka_unit_test_setup(what_is_shown_is_read_as_the_same_value, clear),
        cmocka_unit_test_setup(a_variable_is_never_nearly_that_of_another_limit, clear),
        cmocka_unit_test_setup(a_time_has_a_unit_or_is_in_seconds, clear),
        cmocka_unit_test_setup(a_size_is_in_bytes_or_powers_of_1024, clear),
        cmocka_unit_test_setup(what_is_no_value_is_refused_with_the_range, clear),
        cmocka_unit_test_setup(the_environment_sets_a_limit_and_an_empty_text_does_not,
                               clear),
        cmocka_unit_test_setup(a_wrong_value_leaves_all_with_their_defaults, clear),
        cmocka_unit_test_setup(limits_that_do_not_go_together_are_refused, clear),
        cmocka_unit_test_setup(a_variable_with_a_slip_of_the_pen_is_refused, clear),
        cmocka_unit_test_setup(those_of_the_cluster_are_handed_down_and_no_others, clear),
        cmocka_unit_test_setup(what_the_cluster_has_counts_and_that_is_told_once, clear),
        cmocka_unit_test_setup(what_is_no_text_of_a_cluster_changes_nothing, clear),
    };

    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
