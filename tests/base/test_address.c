/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void one_address_has_one_form_however_it_is_written(void **state)
{
    static const char *const forms[][2] = {{"127.0.0.1:80", "127.0.0.1:80"},
                                           {"127.1:0080", "127.0.0.1:80"},
                                           {"[::ffff:127.0.0.1]:80", "127.0.0.1:80"},
                                           {"[::FFFF:7F00:1]:80", "127.0.0.1:80"},
                                           {"[::1]:80", "[::1]:80"},
                                           {"[0:0::0:1]:80", "[::1]:80"},
                                           {"[FE80::1]:65535", "[fe80::1]:65535"}};
    char canonical[CRTI_ADDRESS], again[CRTI_ADDRESS];
    struct sockaddr_storage at;
    socklen_t size;

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        assert_int_equal(crti_address_resolve(forms[i][0], canonical), CRT_OK);
        assert_string_equal(canonical, forms[i][1]);
        assert_int_equal(crti_address_parse(forms[i][0], &at, &size), CRT_OK);
        crti_address_format(&at, again);
        assert_string_equal(again, canonical);
        assert_true(crti_address_equal(forms[i][0], canonical));
    }
}

static void names_are_looked_up_and_compared_as_what_they_mean(void **state)
{
    char canonical[CRTI_ADDRESS];

    assert_int_equal(crti_address_resolve("localhost:6380", canonical), CRT_OK);
    assert_true(crti_address_equal("LocalHost:6380", canonical));
    assert_true(crti_address_equal(canonical, "localhost:06380"));
    assert_false(crti_address_equal("localhost:6381", canonical));
    assert_false(crti_address_equal("127.0.0.2:6380", "127.0.0.1:6380"));
    assert_false(crti_address_equal("", "127.0.0.1:6380"));
    assert_false(crti_address_equal("no host at all:6380", "127.0.0.1:6380"));
}

static void what_is_no_address_is_refused_with_its_text(void **state)
{
    static const char *const wrong[] = {
        "",    "127.0.0.1",  ":80",     "::1:80", "[::1]",       "a:65536",
        "a:x", "0.0.0.0:80", "[::]:80", "0:80",   "224.0.0.1:80"};
    char canonical[CRTI_ADDRESS];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(crti_address_resolve(wrong[i], canonical), CRT_ERR_INVALID);
        assert_non_null(strstr(crt_error_detail(), wrong[i]));
    }
}

static void a_host_is_reached_by_an_address_of_its_own_only(void **state)
{
    static const char *const none[] = {
        "0.0.0.0",         "::", "0", "::ffff:0.0.0.0", "224.0.0.1",   "ff02::1",
        "255.255.255.255", "",   "x", "localhost",      "10.0.0.1:80", "[::1]"};
    char ip[CRTI_ADDRESS];

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_int_equal(crti_ip_check(none[i], ip), CRT_ERR_INVALID);
    assert_int_equal(crti_ip_check("::FFFF:10.0.0.1", ip), CRT_OK);
    assert_string_equal(ip, "10.0.0.1");
    assert_int_equal(crti_ip_check("2001:DB8::0:1", ip), CRT_OK);
    assert_string_equal(ip, "2001:db8::1");
    crti_ip_canonical("::ffff:10.0.0.1", ip, sizeof(ip));
    assert_string_equal(ip, "10.0.0.1");
    crti_ip_canonical("4711abcd", ip, sizeof(ip)); /* the id of a node */
    assert_string_equal(ip, "4711abcd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_address_has_one_form_however_it_is_written),
        cmocka_unit_test(names_are_looked_up_and_compared_as_what_they_mean),
        cmocka_unit_test(what_is_no_address_is_refused_with_its_text),
        cmocka_unit_test(a_host_is_reached_by_an_address_of_its_own_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
