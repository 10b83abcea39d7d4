/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of node/host/unpack.c and package_dir.c: zips of strangers, and the folders that they
 * become. */
#include "runtime/node/host/unpack.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>
#include <cmocka.h>

#include "runtime/node/host/package_dir.h"

static char folder[64];
static const crti_unpack_limits_t limits = {1 << 20, 100};

static int make_folder(void **state)
{
    char out[80];

    strcpy(folder, "/tmp/crt-unpack-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(out, sizeof(out), "%s/out", folder);
    return mkdir(out, 0700) || chdir(out);
}

static int remove_folder(void **state)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return chdir("/") || system(command);
}

typedef struct member {
    const char *name;
    unsigned type, mode;
    const char *bytes; /* of a file, or the target of a link */
    size_t size;       /* of zeros, where bytes is NULL */
} member_t;

/* A zip in memory. */
static int make_zip(const member_t *members, size_t count)
{
    int fd = memfd_create("zip", MFD_CLOEXEC);
    struct archive *zip = archive_write_new();
    static char zeros[4096];

    archive_write_set_format_zip(zip);
    archive_write_open_fd(zip, fd);
    for (size_t i = 0; i < count; i++) {
        const member_t *m = &members[i];
        struct archive_entry *entry = archive_entry_new();
        size_t left = m->bytes ? strlen(m->bytes) : m->size;

        archive_entry_set_pathname(entry, m->name);
        archive_entry_set_filetype(entry, m->type);
        archive_entry_set_perm(entry, m->mode);
        if (m->type == AE_IFREG)
            archive_entry_set_size(entry, (la_int64_t)left);
        if (m->type == AE_IFLNK)
            archive_entry_set_symlink(entry, m->bytes);
        archive_write_header(zip, entry);
        while (m->type == AE_IFREG && left) {
            size_t part = m->bytes ? left : left < sizeof(zeros) ? left : sizeof(zeros);

            archive_write_data(zip, m->bytes ? m->bytes : zeros, part);
            left -= part;
        }
        archive_entry_free(entry);
    }
    archive_write_free(zip);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static crt_status_t unpack(const member_t *members, size_t count)
{
    int fd = make_zip(members, count);
    uint64_t bytes;
    crt_status_t status = crti_unpack(fd, &limits, &bytes);

    close(fd);
    return status;
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void files_come_with_their_execute_bits_and_no_others(void **state)
{
    static const member_t members[] = {{"d", AE_IFDIR, 0777, "", 0},
                                       {"d/run", AE_IFREG, 06755, "#!/bin/sh\n", 0},
                                       {"d/data", AE_IFREG, 0666, "x", 0},
                                       {"link", AE_IFLNK, 0777, "d/data", 0},
                                       {"d/up", AE_IFLNK, 0777, "../link", 0},
                                       {"e/f/deep", AE_IFREG, 0, "y", 0}};

    umask(022);
    if (unpack(members, 6) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    assert_int_equal(mode_of("d/run"), 0755);
    assert_int_equal(mode_of("d/data"), 0644);
    assert_int_equal(mode_of("e/f/deep"), 0644);
    assert_int_equal(access("d/up", R_OK), 0);
}

static void names_and_links_that_lead_out_are_refused(void **state)
{
    static const member_t bad[] = {
        {"../x", AE_IFREG, 0644, "x", 0},
        {"a/../../x", AE_IFREG, 0644, "x", 0},
        {"/tmp/crt-x", AE_IFREG, 0644, "x", 0},
        {"..", AE_IFDIR, 0755, "", 0},
        {"l", AE_IFLNK, 0777, "/etc", 0},
        {"l", AE_IFLNK, 0777, "../x", 0},
        {"a/l", AE_IFLNK, 0777, "../../x", 0},
        {"a/l", AE_IFLNK, 0777, "b/../../..", 0},
        {"l", AE_IFLNK, 0777, "..", 0},
        /* what is called "." is no directory that one could leave */
        {"././././l", AE_IFLNK, 0777, "../x", 0},
        {"./a/./l", AE_IFLNK, 0777, "../../x", 0},
        {"./l", AE_IFLNK, 0777, "..", 0},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (unpack(&bad[i], 1) != CRT_ERR_INVALID)
            fail_msg("\"%s\" was taken", bad[i].name);
    assert_int_equal(access("../x", F_OK), -1);
    assert_int_equal(access("/tmp/crt-x", F_OK), -1);
}

static void parts_that_are_a_point_are_left_out_of_names(void **state)
{
    static const member_t members[] = {{"./", AE_IFDIR, 0755, "", 0},
                                       {"./a/./b", AE_IFREG, 0644, "x", 0},
                                       {"././l", AE_IFLNK, 0777, "a/b", 0},
                                       {"./back\\slash", AE_IFREG, 0644, "x", 0}};

    if (unpack(members, 4) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    assert_int_equal(access("a/b", R_OK), 0);
    assert_int_equal(access("l", R_OK), 0);
    assert_int_equal(access("back\\slash", R_OK), 0);
}

/* As Python and Ray pack them. The process has the locale "C". */
static void names_are_utf8_whatever_the_locale(void **state)
{
    static const unsigned char zip[] = {
        'P',  'K',  3,    4,    20,  0,   0,   8,    0,    0,    0,   0,    0x21, 0,
        0x83, 0x16, 0xdc, 0x8c, 1,   0,   0,   0,    1,    0,    0,   0,    6,    0,
        0,    0,    0xc3, 0xa9, '.', 't', 'x', 't',  'x',  'P',  'K', 1,    2,    20,
        3,    20,   0,    0,    8,   0,   0,   0,    0,    0x21, 0,   0x83, 0x16, 0xdc,
        0x8c, 1,    0,    0,    0,   1,   0,   0,    0,    6,    0,   0,    0,    0,
        0,    0,    0,    0,    0,   0,   0,   0xa4, 0x81, 0,    0,   0,    0,    0xc3,
        0xa9, '.',  't',  'x',  't', 'P', 'K', 5,    6,    0,    0,   0,    0,    1,
        0,    1,    0,    52,   0,   0,   0,   37,   0,    0,    0,   0,    0};
    int fd = memfd_create("zip", MFD_CLOEXEC);
    uint64_t bytes;

    assert_int_equal(write(fd, zip, sizeof(zip)), sizeof(zip));
    if (crti_unpack(fd, &limits, &bytes) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    assert_int_equal(access("\xc3\xa9.txt", R_OK), 0);
    close(fd);
}

static void a_zip_without_members_is_an_empty_folder(void **state)
{
    uint64_t bytes = 1;
    int fd = make_zip(NULL, 0);

    assert_int_equal(crti_unpack(fd, &limits, &bytes), CRT_OK);
    assert_int_equal(bytes, 0);
    close(fd);
}

static void directories_that_no_member_names_are_counted(void **state)
{
    static const member_t members[] = {
        {"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/f", AE_IFREG, 0644, "x", 0},
        {"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/g", AE_IFREG, 0644, "x", 0},
        {"a/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/f", AE_IFREG, 0644, "x", 0},
        {"b/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/f", AE_IFREG, 0644, "x", 0},
        {"c/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/f", AE_IFREG, 0644, "x", 0},
        {"d/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/f", AE_IFREG, 0644, "x", 0}};

    assert_int_equal(unpack(members, 4), CRT_OK);
    assert_int_equal(unpack(members + 3, 3), CRT_OK); /* a folder is there already */
    assert_int_equal(system("rm -r *"), 0);
    assert_int_equal(unpack(members, 6), CRT_ERR_TOO_LARGE); /* 106 of 100 */
}

/* Each link alone stays inside. */
static void nothing_is_written_through_a_link(void **state)
{
    static const member_t members[] = {{"d", AE_IFDIR, 0755, "", 0},
                                       {"l", AE_IFLNK, 0777, "d", 0},
                                       {"l/x", AE_IFREG, 0644, "x", 0}};

    assert_int_not_equal(unpack(members, 3), CRT_OK);
    assert_int_equal(access("d/x", F_OK), -1);
}

static void bombs_end_at_the_limits(void **state)
{
    static const member_t large = {"zeros", AE_IFREG, 0644, NULL, (1 << 20) + 1};
    member_t many[101];
    char names[101][8];

    assert_int_equal(unpack(&large, 1), CRT_ERR_TOO_LARGE);
    assert_non_null(strstr(crt_error_detail(), "larger than 1048576 bytes"));
    for (int i = 0; i < 101; i++) {
        snprintf(names[i], sizeof(names[i]), "%d", i);
        many[i] = (member_t){names[i], AE_IFREG, 0644, "", 0};
    }
    assert_int_equal(unpack(many, 101), CRT_ERR_TOO_LARGE);
    assert_non_null(strstr(crt_error_detail(), "more than 100 members"));
}

static void what_is_no_whole_zip_is_refused_at_every_cut(void **state)
{
    static const member_t members[] = {{"a", AE_IFREG, 0644, "some bytes", 0},
                                       {"b", AE_IFREG, 0644, "and more", 0}};
    int fd = make_zip(members, 2);
    off_t size = lseek(fd, 0, SEEK_END);
    uint64_t bytes;

    for (off_t cut = size - 1; cut >= 0; cut -= 7) {
        assert_int_equal(ftruncate(fd, cut), 0);
        lseek(fd, 0, SEEK_SET);
        assert_int_equal(crti_unpack(fd, &limits, &bytes), CRT_ERR_CORRUPT);
    }
    close(fd);
}

/* ---------------------------------------------------------------- package_dir.c */

static void a_folder_is_held_only_when_it_is_complete(void **state)
{
    char key[CRTI_PACKAGE_KEY], other[CRTI_PACKAGE_KEY];
    char sha[65];
    int lock, hold;

    memset(sha, 'a', 64);
    sha[64] = '\0';
    crti_package_key(sha, "", "", key);
    assert_string_equal(key, sha);
    crti_package_key(sha, "make", "conda", key);
    crti_package_key(sha, "make", "", other);
    assert_string_not_equal(key, other); /* what it is run with counts */
    crti_package_key(sha, "", "conda", key);
    assert_string_equal(key, sha);
    assert_int_equal(strncmp(other, sha, 64), 0);
    assert_int_equal(strlen(other), 64 + 1 + 16);
    assert_false(crti_package_hold(folder, key, &hold));
    assert_int_equal(crti_package_lock(folder, key, NULL, &lock), CRT_OK);
    assert_false(crti_package_is_complete(lock));
    assert_false(crti_package_hold(folder, key, &hold));
    assert_int_equal(crti_package_complete(lock, 5), CRT_OK);
    close(lock);
    assert_true(crti_package_hold(folder, key, &hold));
    close(hold);
}

/* A process that waited until another one had made it locks it to look, just when that one's node
 * wants to hold it. */
static void a_folder_is_held_while_another_process_looks_whether_it_is_made(void **state)
{
    char key[65];
    int lock, other, hold, second;

    memset(key, 'a', 64);
    key[64] = '\0';
    assert_int_equal(crti_package_lock(folder, key, NULL, &lock), CRT_OK);
    assert_int_equal(crti_package_complete(lock, 5), CRT_OK);
    close(lock);
    assert_int_equal(crti_package_lock(folder, key, NULL, &other), CRT_OK);
    assert_true(crti_package_is_complete(other));
    assert_true(crti_package_hold(folder, key, &hold));
    close(other);
    /* Nor does a user keep another one, or that process, from it. */
    assert_int_equal(crti_package_lock(folder, key, NULL, &other), CRT_OK);
    assert_true(crti_package_hold(folder, key, &second));
    close(second);
    close(other);
    close(hold);
}

/* A folder of so many bytes, last used so many seconds ago. */
static void put_package(char letter, uint64_t bytes, int64_t age_s)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - age_s},
                                {.tv_sec = time(NULL) - age_s}};
    char sha[65], path[200];
    int lock;

    memset(sha, letter, 64);
    sha[64] = '\0';
    snprintf(path, sizeof(path), "%s/%s", folder, sha);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(crti_package_lock(folder, sha, NULL, &lock), CRT_OK);
    assert_int_equal(crti_package_complete(lock, bytes), CRT_OK);
    assert_int_equal(futimens(lock, times), 0);
    close(lock);
}

static bool is_there(char letter)
{
    char sha[65], path[200];

    memset(sha, letter, 64);
    sha[64] = '\0';
    snprintf(path, sizeof(path), "%s/%s", folder, sha);
    return access(path, F_OK) == 0;
}

static void folders_that_nobody_uses_go_by_size_and_age(void **state)
{
    char held[65];
    int hold;

    put_package('a', 100, 5000); /* held */
    put_package('b', 100, 4000);
    put_package('c', 100, 3000);
    put_package('d', 100, 10); /* used just now */
    put_package('e', 1, 9000); /* too old */
    memset(held, 'a', 64);
    held[64] = '\0';
    assert_true(crti_package_hold(folder, held, &hold));
    put_package('f', 1, 1);
    crti_package_trim(folder, 350, 8000);
    assert_true(is_there('a') && is_there('c') && is_there('d') && is_there('f'));
    assert_false(is_there('b') || is_there('e'));
    crti_package_trim(folder, 1, 8000);
    assert_false(is_there('c'));
    assert_true(is_there('a') && is_there('d') && is_there('f'));
    close(hold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
        TEST(files_come_with_their_execute_bits_and_no_others),
        TEST(names_and_links_that_lead_out_are_refused),
        TEST(parts_that_are_a_point_are_left_out_of_names),
        TEST(names_are_utf8_whatever_the_locale),
        TEST(a_zip_without_members_is_an_empty_folder),
        TEST(directories_that_no_member_names_are_counted),
        TEST(nothing_is_written_through_a_link),
        TEST(bombs_end_at_the_limits),
        TEST(what_is_no_whole_zip_is_refused_at_every_cut),
        TEST(a_folder_is_held_only_when_it_is_complete),
        TEST(a_folder_is_held_while_another_process_looks_whether_it_is_made),
        TEST(folders_that_nobody_uses_go_by_size_and_age),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
