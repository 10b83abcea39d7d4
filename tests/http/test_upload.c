/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/upload.c that a whole server does not show: a full disk, what a killed process
 * leaves. */
#include "runtime/base/limit.h"
#include "runtime/http/upload.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sodium.h>

#define SHA "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static char directory[64];

static int make_directory(void **state)
{
    strcpy(directory, "/tmp/crt-upload-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    return rmdir(directory); /* fails when a test left something */
}

static void a_disk_without_room_is_told_and_leaves_nothing(void **state)
{
    struct rlimit limit;
    crti_upload_t *upload;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, limit.rlim_max});
    assert_int_equal(crti_upload_new(directory, SHA, 1001, &upload), CRT_ERR_STORE_FULL);
    assert_non_null(strstr(crt_error_detail(), "no room for a program of 1001 bytes"));
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void more_bytes_than_announced_are_refused(void **state)
{
    CRTI_AUTO(crti_upload_free) crti_upload_t *upload = NULL;

    assert_int_equal(crti_upload_new(directory, SHA, 3, &upload), CRT_OK);
    assert_int_equal(crti_upload_write(upload, "abcd", 4), CRT_ERR_TOO_LARGE);
    assert_int_equal(crti_upload_write(upload, "ab", 2), CRT_OK);
    assert_int_equal(crti_upload_finish(upload), CRT_ERR_CORRUPT);
    assert_non_null(strstr(crt_error_detail(), "2 of 3 bytes"));
}

static void a_program_above_the_limit_is_refused(void **state)
{
    crti_upload_t *upload;

    assert_int_equal(
        crti_upload_new(directory, SHA, CRTI_LIMIT(http_upload) + 1, &upload),
        CRT_ERR_TOO_LARGE);
}

static void an_empty_program_has_its_hash_too(void **state)
{
    static const char sha[] =
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    CRTI_AUTO(crti_upload_free) crti_upload_t *upload = NULL;
    char path[200];

    assert_int_equal(crti_upload_new(directory, sha, 0, &upload), CRT_OK);
    assert_int_equal(crti_upload_finish(upload), CRT_OK);
    assert_true(crti_program_exists(directory, sha));
    snprintf(path, sizeof(path), "%s/%s", directory, sha);
    assert_int_equal(unlink(path), 0);
}

/* Another user has made the folder, and in it what is to be executed. */
static void
a_program_or_package_in_a_folder_that_is_not_the_users_alone_is_not_there(void **state)
{
    char path[200], link[200], sha[65];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, SHA);
    file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(link, sizeof(link), "%s/_ray_pkg_ab.zip", directory);
    assert_int_equal(symlink(SHA, link), 0);
    assert_true(crti_program_exists(directory, SHA));
    assert_true(crti_package_exists(directory, "_ray_pkg_ab.zip", sha));
    assert_int_equal(chmod(directory, 0755), 0);
    assert_false(crti_program_exists(directory, SHA));
    assert_false(crti_package_exists(directory, "_ray_pkg_ab.zip", sha));
    assert_int_equal(chmod(directory, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_false(crti_program_exists(directory, SHA));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(link), 0);
}

static void what_a_killed_process_left_goes_and_a_living_ones_stays(void **state)
{
    CRTI_AUTO(crti_upload_free) crti_upload_t *mine = NULL;
    crti_upload_t *lost;
    char command[128];
    pid_t child = fork();

    if (child == 0)
        _exit(crti_upload_new(directory, SHA, 10, &lost) != CRT_OK); /* never freed */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(crti_upload_new(directory, SHA, 10, &mine), CRT_OK);
    crti_upload_clean(directory);
    snprintf(command, sizeof(command), "test $(ls -A %s | wc -l) = 1", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_without_room_is_told_and_leaves_nothing),
        cmocka_unit_test(more_bytes_than_announced_are_refused),
        cmocka_unit_test(a_program_above_the_limit_is_refused),
        cmocka_unit_test(an_empty_program_has_its_hash_too),
        cmocka_unit_test(
            a_program_or_package_in_a_folder_that_is_not_the_users_alone_is_not_there),
        cmocka_unit_test(what_a_killed_process_left_goes_and_a_living_ones_stays),
    };

    if (sodium_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
