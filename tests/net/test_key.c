/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster key's file and derivations. */
#include "runtime/net/key.h"

#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/net/https_key.h"

static char folder[] = "/tmp/crt-test-key-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/cluster.key", folder);
    return 0;
}

static int tear_down(void **state)
{
    unlink(path);
    return rmdir(folder); /* fails when a temporary file was left behind */
}

static void write_file(const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static const char digits[] =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

static void a_created_key_is_private_and_is_read_back(void **state)
{
    crti_key_t made, read;
    struct stat st;

    assert_int_equal(crti_key_create(path, &made), CRT_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 65);
    assert_int_equal(crti_key_load(path, &read), CRT_OK);
    assert_memory_equal(&made, &read, sizeof(made));
}

static void a_key_that_an_editor_saved_is_the_same(void **state)
{
    static const char *const around[][2] = {
        {"", "\r\n"}, {"\xef\xbb\xbf", "\r\n"}, {"\xef\xbb\xbf", ""}, {"", "\r"}};
    char text[80];
    crti_key_t key;

    for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++) {
        snprintf(text, sizeof(text), "%s%s%s", around[i][0], digits, around[i][1]);
        write_file(text, 0600);
        assert_int_equal(crti_key_load(path, &key), CRT_OK);
        assert_int_equal(key.bytes[31], 0x1f);
    }
}

static int files_synced, directories_synced;

/* In the place of the C library's. */
int fsync(int fd)
{
    struct stat st;

    if (fstat(fd, &st) == 0)
        (*(S_ISDIR(st.st_mode) ? &directories_synced : &files_synced))++;
    return (int)syscall(SYS_fsync, fd);
}

static void a_created_key_and_its_name_are_on_disk(void **state)
{
    crti_key_t made;

    files_synced = directories_synced = 0;
    assert_int_equal(crti_key_create(path, &made), CRT_OK);
    assert_int_equal(files_synced, 1);
    assert_int_equal(directories_synced, 1);
}

static void creating_never_replaces_a_key(void **state)
{
    crti_key_t first, second, read;

    assert_int_equal(crti_key_create(path, &first), CRT_OK);
    assert_int_equal(crti_key_create(path, &second), CRT_ERR_EXISTS);
    assert_int_equal(crti_key_load(path, &read), CRT_OK);
    assert_memory_equal(&first, &read, sizeof(first));
}

static void a_key_that_others_can_read_is_refused_with_the_cure(void **state)
{
    crti_key_t key;

    for (mode_t bit = 1; bit <= 040; bit <<= 1) {
        write_file(digits, 0600 | bit);
        assert_int_equal(crti_key_load(path, &key), CRT_ERR_PERMISSION);
        assert_non_null(strstr(crt_error_detail(), "chmod 600"));
    }
}

static void a_key_of_another_user_is_refused(void **state)
{
    crti_key_t key;

    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    write_file(digits, 0600);
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    assert_int_equal(crti_key_load(path, &key), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), "12345"));
}

/* In a process of that user: an identity that a test gave away would not come back. */
static int status_as_user(uid_t user, gid_t group)
{
    int wait_status;
    pid_t child = fork();

    if (child == 0) {
        crti_key_t key;

        if (setgroups(0, NULL) != 0 || setgid(group) != 0 || setuid(user) != 0)
            _exit(99);
        _exit(crti_key_load(path, &key) == CRT_OK               ? 0
              : strstr(crt_error_detail(), "belongs to user 0") ? 1
                                                                : 2);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_true(WIFEXITED(wait_status));
    return WEXITSTATUS(wait_status);
}

static void a_key_of_root_that_one_group_may_read_is_a_mounted_secret(void **state)
{
    static const struct {
        mode_t mode;
        int expected;
    } cases[] = {{0440, 0}, {0640, 0}, {0460, 1}, {0444, 1}, {0442, 1}, {0400, 2}};

    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    assert_int_equal(chmod(folder, 0755), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_file(digits, cases[i].mode);
        assert_int_equal(chown(path, 0, 12345), 0);
        assert_int_equal(status_as_user(54321, 12345), cases[i].expected);
    }
}

static void a_given_key_is_kept_and_replaces_none(void **state)
{
    crti_key_t given, read;

    memset(&given, 7, sizeof(given));
    assert_int_equal(crti_key_keep(path, &given), CRT_OK);
    assert_int_equal(crti_key_load(path, &read), CRT_OK);
    assert_memory_equal(&given, &read, sizeof(given));
    assert_int_equal(crti_key_keep(path, &given), CRT_ERR_EXISTS);
}

static void a_file_without_64_digits_is_refused(void **state)
{
    const char *bad[] = {
        "", "00", "hello",
        "zz0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f00"};
    crti_key_t key;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_file(bad[i], 0600);
        assert_int_equal(crti_key_load(path, &key), CRT_ERR_CORRUPT);
        assert_non_null(strstr(crt_error_detail(), path));
    }
}

static void a_missing_file_and_a_folder_are_told_apart(void **state)
{
    crti_key_t key;

    assert_int_equal(crti_key_load(path, &key), CRT_ERR_NOT_FOUND);
    assert_int_equal(crti_key_load(folder, &key), CRT_ERR_INVALID);
}

static void a_fifo_in_the_keys_place_does_not_hang(void **state)
{
    crti_key_t key;

    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(crti_key_load(path, &key), CRT_ERR_INVALID);
}

static void line_ends_behind_the_digits_are_fine(void **state)
{
    char text[80];
    crti_key_t key;

    snprintf(text, sizeof(text), "%s\r\n", digits);
    write_file(text, 0400);
    assert_int_equal(crti_key_load(path, &key), CRT_OK);
    assert_int_equal(key.bytes[31], 31);
}

static void derived_secrets_differ_from_each_other_and_are_always_the_same(void **state)
{
    crti_key_pair_t server, client, again;
    unsigned char psk[CRTI_KEY_SIZE];
    unsigned char token[CRTI_KEY_SIZE], session[CRTI_KEY_SIZE], next[CRTI_KEY_SIZE];
    crti_key_t key;

    write_file(digits, 0600);
    assert_int_equal(crti_key_load(path, &key), CRT_OK);
    crti_key_curve(&key, CRTI_KEY_SERVER, &server);
    crti_key_curve(&key, CRTI_KEY_CLIENT, &client);
    crti_key_curve(&key, CRTI_KEY_CLIENT, &again);
    crti_key_stream(&key, psk);
    crti_key_token(&key, token);
    assert_memory_equal(&client, &again, sizeof(client));
    assert_memory_not_equal(server.secret_key, client.secret_key, 32);
    assert_memory_not_equal(server.public_key, client.public_key, 32);
    assert_memory_not_equal(psk, key.bytes, 32);
    assert_memory_not_equal(psk, server.secret_key, 32);
    crti_key_session(&key, "a", session);
    assert_memory_not_equal(token, session, sizeof(token));
    crti_key_session(&key, "b", next); /* of another head */
    assert_memory_not_equal(session, next, sizeof(next));
}

/* Computed by another program: who asks a server of another version has to know its key, too. */
static void the_key_of_the_certificate_follows_from_the_cluster_key(void **state)
{
    unsigned char der[CRTI_HTTPS_KEY_BYTES];
    crti_https_key_t https;
    char pin[CRTI_PIN_TEXT];
    crti_key_t key;

    write_file(digits, 0600);
    assert_int_equal(crti_key_load(path, &key), CRT_OK);
    assert_int_equal(crti_https_key_derive(&key, &https), CRT_OK);
    crti_https_key_pin(&https, pin);
    assert_string_equal(pin, "sha256//qesF04MbGpwududMqvexllylqBMPJzSPMSRRKtz2UIw=");
    crti_https_key_encode(&https, der);
    assert_memory_equal(der + 7, https.secret, 32);
    assert_memory_equal(der + CRTI_HTTPS_KEY_BYTES - 65, https.public_key, 65);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_created_key_is_private_and_is_read_back),
        TEST(a_key_that_an_editor_saved_is_the_same),
        TEST(a_created_key_and_its_name_are_on_disk),
        TEST(creating_never_replaces_a_key),
        TEST(a_key_that_others_can_read_is_refused_with_the_cure),
        TEST(a_key_of_another_user_is_refused),
        TEST(a_key_of_root_that_one_group_may_read_is_a_mounted_secret),
        TEST(a_given_key_is_kept_and_replaces_none),
        TEST(a_file_without_64_digits_is_refused),
        TEST(a_missing_file_and_a_folder_are_told_apart),
        TEST(a_fifo_in_the_keys_place_does_not_hang),
        TEST(line_ends_behind_the_digits_are_fine),
        TEST(derived_secrets_differ_from_each_other_and_are_always_the_same),
        TEST(the_key_of_the_certificate_follows_from_the_cluster_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
