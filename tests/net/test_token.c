/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of net/token.c: tokens, sessions and their generation. */
#include "runtime/net/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/crt-token-XXXXXX", key_file[64], path[96], token_file[64];
static const crti_key_t key = {{1}};

static int make_directory(void **state)
{
    snprintf(directory, sizeof(directory), "/tmp/crt-token-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(key_file, sizeof(key_file), "%s/cluster.key", directory);
    snprintf(path, sizeof(path), "%s.generation", key_file);
    snprintf(token_file, sizeof(token_file), "%s/token", directory);
    return 0;
}

static int remove_directory(void **state)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static void write_generation(const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_token_tells_its_generation_and_end_to_who_has_the_subkey(void **state)
{
    static const unsigned char subkey[CRTI_KEY_SIZE] = {1}, other[CRTI_KEY_SIZE] = {2};
    crti_token_t token = {.generation = 7, .end = 4000000000u}, read = {0};
    char text[CRTI_TOKEN_TEXT];

    crti_token_make(subkey, &token, text);
    assert_int_equal(strlen(text), 64);
    assert_int_equal(strspn(text, "0123456789abcdef"), 64);
    assert_true(crti_token_read(subkey, text, &read));
    assert_int_equal(read.generation, 7);
    assert_int_equal(read.end, 4000000000u);
    assert_false(crti_token_read(other, text, &read));
}

/* Another generation, a later end, another MAC: whatever digit is changed. */
static void no_digit_of_a_token_can_be_changed(void **state)
{
    static const unsigned char subkey[CRTI_KEY_SIZE] = {1};
    crti_token_t token = {.generation = 7, .end = 1000}, read;
    char text[CRTI_TOKEN_TEXT], changed[CRTI_TOKEN_TEXT + 1];

    crti_token_make(subkey, &token, text);
    for (size_t i = 0; i < 64; i++) {
        strcpy(changed, text);
        changed[i] = changed[i] == '0' ? '1' : '0';
        assert_false(crti_token_read(subkey, changed, &read));
    }
    strcpy(changed, text);
    changed[63] = '\0';
    assert_false(crti_token_read(subkey, changed, &read));
    snprintf(changed, sizeof(changed), "%s0", text);
    assert_false(crti_token_read(subkey, changed, &read));
    assert_false(crti_token_read(subkey, "", &read));
}

static void each_rotation_makes_the_generation_larger_and_keeps_it(void **state)
{
    uint32_t generation = 9, before = (uint32_t)time(NULL) - 1;
    struct stat st;

    assert_int_equal(crti_token_begin(&key, key_file, token_file), CRT_OK);
    assert_int_equal(crti_token_generation(key_file, &generation), CRT_OK);
    assert_int_equal(generation, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(crti_token_rotate(key_file, &generation), CRT_OK);
        assert_true(generation > before);
        before = generation;
        assert_int_equal(crti_token_generation(key_file, &generation), CRT_OK);
        assert_int_equal(generation, before);
    }
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(crti_token_begin(&key, key_file, token_file),
                     CRT_OK); /* it is there */
    assert_int_equal(crti_token_generation(key_file, &generation), CRT_OK);
    assert_int_equal(generation, before);
}

static void a_lost_file_makes_no_earlier_token_good_again(void **state)
{
    uint32_t generation = 9, before;

    assert_int_equal(crti_token_begin(&key, key_file, token_file), CRT_OK);
    assert_int_equal(crti_token_rotate(key_file, &before), CRT_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(crti_token_generation(key_file, &generation), CRT_ERR_NOT_FOUND);
    write_generation("17\n"); /* of a longer time ago */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(crti_token_begin(&key, key_file, token_file), CRT_OK);
    assert_int_equal(crti_token_generation(key_file, &generation), CRT_OK);
    assert_true(generation >= before);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(crti_token_rotate(key_file, &generation), CRT_OK);
    assert_true(generation >= before);
}

/* 0 would make the tokens of long ago good again. */
static void a_file_that_holds_no_number_is_an_error_and_not_0(void **state)
{
    static const char *const texts[] = {
        "", "\n", "x\n", "-1\n", "1 2\n", "1", "4294967296\n", "99999999999999\n"};
    uint32_t generation;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        write_generation(texts[i]);
        assert_int_equal(crti_token_generation(key_file, &generation), CRT_ERR_CORRUPT);
        assert_int_equal(crti_token_rotate(key_file, &generation), CRT_ERR_CORRUPT);
    }
    write_generation("4294967295\n");
    assert_int_equal(crti_token_generation(key_file, &generation), CRT_OK);
    assert_int_equal(crti_token_rotate(key_file, &generation), CRT_ERR_TOO_LARGE);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(crti_token_generation(key_file, &generation), CRT_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_tells_its_generation_and_end_to_who_has_the_subkey),
        cmocka_unit_test(no_digit_of_a_token_can_be_changed),
        cmocka_unit_test_setup_teardown(
            each_rotation_makes_the_generation_larger_and_keeps_it, make_directory,
            remove_directory),
        cmocka_unit_test_setup_teardown(a_lost_file_makes_no_earlier_token_good_again,
                                        make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(a_file_that_holds_no_number_is_an_error_and_not_0,
                                        make_directory, remove_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
