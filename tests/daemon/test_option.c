/* SPDX-License-Identifier: Apache-2.0 */
/* Options of daemons: values, defaults, and what is told of wrong ones. */
#include "runtime/daemon/daemon_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/daemon/option_list.h"

#include <cmocka.h>

#define TABLE(O)                                                                         \
    CRTI_HEAD_OPTIONS(O)                                                                 \
    CRTI_NODE_OPTIONS(O)                                                                 \
    CRTI_STARTED_OPTIONS(O)

typedef struct given {
    TABLE(CRTI_OPTION_FIELD)
} given_t;

static crt_status_t parse_words(int argc, char **argv, given_t *o)
{
    const option_spec_t table[] = {TABLE(CRTI_OPTION_ROW)};
    option_scan_t scan = {.options = table, .count = sizeof(table) / sizeof(table[0])};

    *o = (given_t){0};
    return crti_daemon_options(&scan, argc, argv);
}

#define PARSE(o, ...)                                                                    \
    parse_words((int)(sizeof((char *[]){"crt-x", __VA_ARGS__}) / sizeof(char *)),        \
                (char *[]){"crt-x", __VA_ARGS__, NULL}, o)

static void options_that_are_not_given_have_their_defaults(void **state)
{
    given_t o;

    assert_int_equal(PARSE(&o, "--fresh"), CRT_OK);
    assert_true(o.fresh);
    assert_false(o.no_auth);
    assert_int_equal(o.port, 6380);
    assert_string_equal(o.dashboard_host, "127.0.0.1");
    assert_int_equal(o.headless_timeout, 600);
    assert_true(o.encrypt_streams);
    assert_false(o.fail_if_infeasible);
    assert_string_equal(o.on_resource_deadlock, "tell");
    assert_int_equal(o.ready_fd, -1);
    assert_null(o.redis_address);
    assert_int_equal(o.worker_port_range.low, 0);
}

static void values_have_the_type_of_their_kind(void **state)
{
    given_t o;

    assert_int_equal(PARSE(&o, "--port", "0", "--headless-timeout=5", "--encrypt-streams",
                           "off", "--object-store-memory", "2G", "--worker-port-range",
                           "20000-20999", "--ready-fd", "7", "--num-cpus", "1.5",
                           "--on-resource-deadlock", "fail-youngest"),
                     CRT_OK);
    assert_int_equal(o.port, 0);
    assert_int_equal(o.headless_timeout, 5);
    assert_false(o.encrypt_streams);
    assert_int_equal(o.object_store_memory, 2ULL << 30);
    assert_int_equal(o.worker_port_range.low, 20000);
    assert_int_equal(o.worker_port_range.high, 20999);
    assert_int_equal(o.ready_fd, 7);
    assert_string_equal(o.num_cpus, "1.5");
    assert_string_equal(o.on_resource_deadlock, "fail-youngest");
}

static void a_wrong_value_is_told_with_what_the_option_takes(void **state)
{
    static const struct {
        const char *option, *value, *expected;
    } wrong[] = {
        {"--port", "65536", "--port takes a port from 0 to 65535, not \"65536\""},
        {"--headless-timeout", "1.5", "takes a whole number of 0 to 1000000000, not"},
        {"--headless-timeout", "-1", "takes a whole number"},
        {"--headless-timeout", "1000000001", "takes a whole number"},
        {"--num-gpus", "65", "takes a whole number of 0 to 64"},
        {"--object-store-memory", "1025T", "--object-store-memory takes bytes"},
        {"--object-store-memory", "99999999999999999999", "takes bytes"},
        {"--worker-port-range", "0-9", "takes two ports"},
        {"--worker-port-range", "9-8", "takes two ports"},
        {"--encrypt-streams", "maybe", "takes on or off"},
        {"--on-resource-deadlock", "tel", "takes one of tell|fail-youngest, not \"tel\""},
        {"--on-resource-deadlock", "youngest", "takes one of"},
        {"--on-resource-deadlock", "tell|fail-youngest", "takes one of"},
        {"--on-resource-deadlock", "", "takes one of"},
        {"--redis-user", "", "takes a text that is not empty"},
        {"--ready-fd", "x", "takes the number of a descriptor"},
        {"--what", "x", "unknown option --what"},
        {"--fresh", "x", "unexpected argument x"},
        {"--fres", "x", "--fresh is written whole"},
    };
    given_t o;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(PARSE(&o, (char *)wrong[i].option, (char *)wrong[i].value),
                         CRT_ERR_INVALID);
        if (!strstr(crt_error_detail(), wrong[i].expected))
            fail_msg("\"%s\" has no \"%s\"", crt_error_detail(), wrong[i].expected);
    }
    assert_int_equal(PARSE(&o, "--port"), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "--port needs a value");
}

static void where_to_tell_it_is_known_also_when_an_option_before_is_wrong(void **state)
{
    given_t o;

    assert_int_equal(PARSE(&o, "--port", "x", "--ready-fd", "5"), CRT_ERR_INVALID);
    assert_int_equal(o.ready_fd, 5);
    assert_int_equal(PARSE(&o, "--what", "--ready-fd"), CRT_ERR_INVALID);
    assert_int_equal(o.ready_fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_are_not_given_have_their_defaults),
        cmocka_unit_test(values_have_the_type_of_their_kind),
        cmocka_unit_test(a_wrong_value_is_told_with_what_the_option_takes),
        cmocka_unit_test(where_to_tell_it_is_known_also_when_an_option_before_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
