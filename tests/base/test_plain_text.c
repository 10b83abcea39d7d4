/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/plain_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static void expect(const char *text, size_t size, const char *expected)
{
    char copy[64];

    memcpy(copy, text, size);
    copy[size] = 'x';
    assert_int_equal(crti_plain_text(copy, size), strlen(expected));
    assert_string_equal(copy, expected);
}

static void marks_and_line_ends_of_any_system_are_one_form(void **state)
{
    expect("", 0, "");
    expect("a\nb\n", 4, "a\nb\n");
    expect("a\r\nb\r\n", 6, "a\nb\n");
    expect("a\rb\r", 4, "a\nb\n");
    expect("\r\r\n\n", 4, "\n\n\n");
    expect("\xef\xbb\xbf", 3, "");
    expect("\xef\xbb\xbf"
           "a\r",
           5, "a\n");
    expect("a\xef\xbb\xbf", 4, "a\xef\xbb\xbf"); /* only at the start */
    expect("\xef\xbb", 2, "\xef\xbb");
}

static const char *written(const char *text, size_t size)
{
    static char path[] = "plain-text-XXXXXX";
    int fd;

    strcpy(path, "plain-text-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
    return path;
}

static void a_file_is_read_whole_or_refused(void **state)
{
    const char *path = written("\xef\xbb\xbf"
                               "one\r\ntwo",
                               11);
    char *text = crti_plain_text_read(path, 12);

    assert_string_equal(text, "one\ntwo");
    free(text);
    assert_null(crti_plain_text_read(path, 11));
    assert_int_equal(errno, EFBIG);
    unlink(path);
    assert_null(crti_plain_text_read(path, 11));
    assert_int_equal(errno, ENOENT);
    path = written("\xff\xfe"
                   "a\0",
                   4);
    assert_null(crti_plain_text_read(path, 11));
    assert_int_equal(errno, EILSEQ);
    unlink(path);
    assert_null(crti_plain_text_read(".", 11));
    assert_int_equal(errno, EISDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_and_line_ends_of_any_system_are_one_form),
        cmocka_unit_test(a_file_is_read_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
