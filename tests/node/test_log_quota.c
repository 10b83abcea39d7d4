/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a log is kept, and how its reader knows what is gone. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/rundir.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/host/old_logs.h"

#define LIMIT ((uint64_t)16 << 10)

static char dir[64];

static int begin(void **state)
{
    strcpy(dir, "/tmp/crt-logs-XXXXXX");
    return mkdtemp(dir) ? 0 : 1;
}

static int end(void **state)
{
    return rmdir(dir); /* each test removes its files: a forgotten one is a failure */
}

static void begin_log(crti_log_file_t *log, uint64_t limit, const char *name)
{
    crti_log_file_init(log, limit);
    snprintf(log->path, sizeof(log->path), "%s/%s", dir, name);
}

static char *read_all(const char *path, size_t *size_out)
{
    FILE *file = fopen(path, "re");
    char *text = calloc(1, 1 << 20);

    assert_non_null(file);
    *size_out = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    return text;
}

static bool exists(const char *name)
{
    char path[128];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return lstat(path, &st) == 0;
}

/* Prints `count` lines "line N" from `from` on; the bytes. */
static uint64_t print_lines(crti_log_file_t *log, int from, int count)
{
    uint64_t bytes = 0;
    char line[32];

    for (int i = from; i < from + count; i++) {
        int length = snprintf(line, sizeof(line), "line %d\n", i);

        crti_log_file_write(log, line, (size_t)length);
        bytes += (uint64_t)length;
    }
    return bytes;
}

/* The file has the marker, whole lines, and the last of them. */
static void check_log(const crti_log_file_t *log, uint64_t printed, int lines)
{
    crti_log_place_t place = crti_log_find(log->fd);
    char first[64], last[32], *text;
    size_t size;

    text = read_all(log->path, &size);
    assert_true(size <= LIMIT);
    assert_int_equal(size, log->size);
    assert_true(place.removed > 0);
    assert_int_equal(place.removed + size - place.marker, printed);
    snprintf(first, sizeof(first), "--- %llu bytes (", (unsigned long long)place.removed);
    assert_memory_equal(text, first, strlen(first));
    assert_memory_equal(text + place.marker, "line ", 5);
    assert_int_equal(text[place.marker - 1], '\n');
    snprintf(last, sizeof(last), "\nline %d\n", lines - 1);
    assert_string_equal(text + size - strlen(last), last);
    free(text);
}

static void a_long_log_keeps_its_end_and_says_what_is_gone(void **state)
{
    crti_log_file_t log;
    uint64_t printed = 0;

    begin_log(&log, LIMIT, "a");
    printed += print_lines(&log, 0, 2000);
    check_log(&log, printed, 2000);
    printed += print_lines(&log, 2000, 48000); /* trimmed many times */
    check_log(&log, printed, 50000);
    crti_log_file_close(&log);
    assert_false(exists("a.new"));
    unlink(log.path);
}

static void a_short_log_is_left_alone(void **state)
{
    crti_log_file_t log;
    uint64_t printed;

    begin_log(&log, LIMIT, "a");
    printed = print_lines(&log, 0, 100);
    assert_int_equal(log.size, printed);
    assert_int_equal(crti_log_find(log.fd).marker, 0);
    crti_log_file_close(&log);
    unlink(log.path);
}

static void one_line_without_end_is_cut_in_the_middle(void **state)
{
    crti_log_file_t log;
    char bytes[1000];
    uint64_t printed = 0;

    memset(bytes, 'x', sizeof(bytes));
    begin_log(&log, LIMIT, "a");
    for (int i = 0; i < 100; i++, printed += sizeof(bytes))
        crti_log_file_write(&log, bytes, sizeof(bytes));
    assert_true(log.size <= LIMIT);
    assert_int_equal(
        crti_log_find(log.fd).removed + log.size - crti_log_find(log.fd).marker, printed);
    crti_log_file_close(&log);
    unlink(log.path);
}

static void a_log_goes_on_where_an_earlier_daemon_left_it(void **state)
{
    crti_log_file_t log;
    uint64_t printed;

    begin_log(&log, LIMIT, "a");
    printed = print_lines(&log, 0, 3000);
    crti_log_file_close(&log);
    begin_log(&log, LIMIT, "a");
    printed += print_lines(&log, 3000, 3000);
    check_log(&log, printed, 6000);
    crti_log_file_close(&log);
    unlink(log.path);
}

static void output_that_looks_like_the_marker_is_output(void **state)
{
    static const char negative[] =
        "--- -1 bytes (0.0 MiB) removed by the log quota ---\n";
    const char *const lines[] = {"--- 12 bytes removed\n",
                                 "--- 12 bytes (0.0 MiB) removed by the log\n", negative};

    for (int i = 0; i < 3; i++) {
        crti_log_file_t log;

        begin_log(&log, LIMIT, "a");
        crti_log_file_write(&log, lines[i], strlen(lines[i]));
        assert_int_equal(crti_log_find(log.fd).marker, 0);
        crti_log_file_close(&log);
        unlink(log.path);
    }
}

static void a_log_that_can_not_be_copied_is_emptied(void **state)
{
    crti_log_file_t log;
    char path[128];
    uint64_t printed;

    snprintf(path, sizeof(path), "%s/a.new", dir);
    assert_int_equal(mkdir(path, 0700), 0); /* in the way of the copy */
    begin_log(&log, LIMIT, "a");
    printed = print_lines(&log, 0, 5000);
    assert_int_equal(log.lost, 0);
    assert_true(log.size <= LIMIT);
    assert_int_equal(
        crti_log_find(log.fd).removed + log.size - crti_log_find(log.fd).marker, printed);
    crti_log_file_close(&log);
    unlink(log.path);
    assert_int_equal(rmdir(path), 0);
}

/* A file of its own takes what room there is. */
static int fill(const char *path)
{
    static const char zeros[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    return fd;
}

/* In a mount namespace of the test, which ends with it. */
static void a_log_that_failed_for_a_full_disk_goes_on_when_there_is_room(void **state)
{
    static const char expected[] =
        "first\nha\n[18 bytes are missing here: No space left on device]\nlast\n";
    char path[128], *text;
    crti_log_file_t log;
    size_t size;
    int fd;

    assert_int_equal(unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS), 0);
    assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_int_equal(mount("none", dir, "tmpfs", 0, "size=64k"), 0);
    begin_log(&log, LIMIT << 10, "a");
    crti_log_file_write(&log, "first\n", 6);
    snprintf(path, sizeof(path), "%s/other", dir);
    fd = fill(path);
    assert_int_equal(ftruncate(log.fd, 4096 - 2), 0); /* two bytes of its page are left */
    lseek(log.fd, 0, SEEK_SET);
    log.size = 4096 - 2;
    crti_log_file_write(&log, "half a line\n", 12);
    assert_int_equal(log.lost, 10);
    crti_log_file_write(&log, "lost it\n", 8);
    assert_int_equal(log.lost, 18);
    assert_int_equal(log.size, 4096);
    assert_int_equal(ftruncate(fd, 0), 0);
    crti_log_file_write(&log, "last\n", 5);
    assert_int_equal(log.lost, 0);
    text = read_all(log.path, &size);
    assert_int_equal(size, log.size);
    assert_memory_equal(text, expected, 6);
    assert_string_equal(text + 4094, expected + 6);
    free(text);
    close(fd);
    crti_log_file_close(&log);
    assert_int_equal(umount2(dir, MNT_DETACH), 0);
}

static void a_log_that_could_not_be_made_says_so_when_it_is(void **state)
{
    static const char expected[] =
        "[6 bytes are missing here: No such file or directory]\n"
        "more\n";
    char path[128], *text;
    crti_log_file_t log;
    size_t size;

    snprintf(path, sizeof(path), "%s/b", dir);
    begin_log(&log, LIMIT, "b/a");
    crti_log_file_write(&log, "first\n", 6);
    assert_int_equal(log.lost, 6);
    assert_int_equal(mkdir(path, 0700), 0);
    crti_log_file_write(&log, "more\n", 5);
    crti_log_file_close(&log);
    text = read_all(log.path, &size);
    assert_string_equal(text, expected);
    free(text);
    unlink(log.path);
    assert_int_equal(rmdir(path), 0);
}

static void end_log(crti_log_quota_t *quota, const char *name, const char *link)
{
    crti_log_file_t log;
    char bytes[1000];

    memset(bytes, 'x', sizeof(bytes));
    begin_log(&log, LIMIT, name);
    if (link)
        snprintf(log.link, sizeof(log.link), "%s/%s", dir, link);
    crti_log_file_write(&log, bytes, sizeof(bytes));
    crti_log_quota_ended(quota, &log);
    assert_int_equal(log.fd, -1);
}

static void of_the_logs_of_ended_processes_the_oldest_go(void **state)
{
    crti_log_quota_t quota;
    char path[128];

    crti_log_quota_init(&quota, 3500);
    end_log(&quota, "1", "actor-a");
    end_log(&quota, "2", "actor-b");
    end_log(&quota, "3", "actor-b"); /* the actor was started again */
    assert_true(exists("1") && exists("2") && exists("3"));
    end_log(&quota, "4", NULL);
    assert_true(!exists("1") && exists("2") && exists("3") && exists("4"));
    assert_false(exists("actor-a"));
    end_log(&quota, "5", NULL);
    assert_true(!exists("2") && exists("3"));
    assert_true(exists("actor-b")); /* it leads to 3 */
    assert_int_equal(quota.used, 3000);
    assert_int_equal(quota.files, 3);
    crti_log_quota_fini(&quota);
    for (int i = 3; i <= 5; i++) {
        snprintf(path, sizeof(path), "%s/%d", dir, i);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/actor-b", dir);
    unlink(path);
}

static void a_process_that_printed_nothing_counts_for_nothing(void **state)
{
    crti_log_quota_t quota;
    crti_log_file_t log;

    crti_log_quota_init(&quota, 1024);
    begin_log(&log, LIMIT, "a");
    crti_log_quota_ended(&quota, &log);
    assert_int_equal(quota.files, 0);
    crti_log_quota_fini(&quota);
}

/* ---------------------------------------------------------------- earlier nodes */

/* A directory of node `number`, whose log of 8 KiB was written `age_s` seconds ago. */
static void make_node(unsigned number, int age_s, char path[128])
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {0}};
    char bytes[8192], file[160];
    int fd;

    times[1] = times[0];
    memset(bytes, 'x', sizeof(bytes));
    snprintf(path, 128, "%s/node-%08x", dir, number);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(file, sizeof(file), "%s/node.log", path);
    fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void directories_of_earlier_nodes_go_the_oldest_first(void **state)
{
    atomic_bool stops = false;
    char old[5][128];
    int lock = -1;

    for (unsigned i = 0; i < 5; i++) /* 0 is the oldest */
        make_node(i, 1000 - 100 * (int)i, old[i]);
    assert_int_equal(crti_dir_lock(old[0], &lock), CRT_OK); /* it lives, elsewhere */
    assert_int_equal(crti_old_logs_trim(dir, old[1], 20000, &stops), 1);
    assert_true(is_there(old[0]));
    assert_true(is_there(old[1])); /* our own */
    assert_false(is_there(old[2]));
    assert_true(is_there(old[3]) && is_there(old[4])); /* 16 KiB */
    close(lock);
    assert_int_equal(crti_old_logs_trim(dir, "", 0, &stops), 4);
    for (unsigned i = 0; i < 5; i++)
        assert_false(is_there(old[i]));
}

static void no_more_than_a_hundred_earlier_nodes_are_kept(void **state)
{
    atomic_bool stops = false;
    char path[128], oldest[128];

    make_node(CRTI_OLD_NODES + 1, 5000, oldest);
    for (unsigned i = 0; i < CRTI_OLD_NODES; i++)
        make_node(i, (int)i, path);
    assert_int_equal(crti_old_logs_trim(dir, "", UINT64_MAX, &stops), 1);
    assert_false(is_there(oldest));
    assert_int_equal(crti_old_logs_trim(dir, "", 0, &stops), CRTI_OLD_NODES);
}

/* Only root can make something of another user. */
static void what_another_user_put_among_them_is_left_alone(void **state)
{
    atomic_bool stops = false;
    char other[128], ours[128];

    if (geteuid() != 0)
        return;
    make_node(1, 1000, ours);
    make_node(2, 2000, other);
    assert_int_equal(chown(other, 65534, 65534), 0);
    assert_int_equal(crti_old_logs_trim(dir, "", 0, &stops), 1);
    assert_false(is_there(ours));
    assert_true(is_there(other));
    assert_int_equal(chown(other, 0, 0), 0);
    assert_int_equal(crti_old_logs_trim(dir, "", 0, &stops), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_long_log_keeps_its_end_and_says_what_is_gone),
        TEST(a_short_log_is_left_alone),
        TEST(one_line_without_end_is_cut_in_the_middle),
        TEST(a_log_goes_on_where_an_earlier_daemon_left_it),
        TEST(output_that_looks_like_the_marker_is_output),
        TEST(a_log_that_can_not_be_copied_is_emptied),
        TEST(a_log_that_failed_for_a_full_disk_goes_on_when_there_is_room),
        TEST(a_log_that_could_not_be_made_says_so_when_it_is),
        TEST(of_the_logs_of_ended_processes_the_oldest_go),
        TEST(a_process_that_printed_nothing_counts_for_nothing),
        TEST(directories_of_earlier_nodes_go_the_oldest_first),
        TEST(no_more_than_a_hundred_earlier_nodes_are_kept),
        TEST(what_another_user_put_among_them_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
