/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/rundir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char base[64]; /* a private directory, gone after each test */

static int set_up(void **state)
{
    snprintf(base, sizeof(base), "/tmp/crt-test-XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", base);
    return system(command);
}

static const char *below(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", base, name);
    return path;
}

static void write_text(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void names_come_from_the_environment_the_most_special_first(void **state)
{
    char path[256], expected[256];

    setenv("HOME", "/h", 1);
    setenv("CRT_RUN_DIR", "/r", 1);
    setenv("XDG_RUNTIME_DIR", "/x", 1);
    setenv("CRT_STATE_DIR", "/s", 1);
    setenv("XDG_STATE_HOME", "/xs", 1);
    assert_int_equal(crti_run_dir(path, sizeof(path)), CRT_OK);
    assert_string_equal(path, "/r");
    setenv("CRT_RUN_DIR", "r", 1);
    assert_int_equal(crti_run_dir(path, sizeof(path)), CRT_ERR_INVALID);
    setenv("CRT_RUN_DIR", "/r", 1);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_OK);
    assert_string_equal(path, "/s");
    setenv("CRT_RUN_DIR", "", 1); /* empty is unset */
    unsetenv("CRT_STATE_DIR");
    snprintf(expected, sizeof(expected), "/x/crt-%u", (unsigned)geteuid());
    assert_int_equal(crti_run_dir(path, sizeof(path)), CRT_OK);
    assert_string_equal(path, expected);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_OK);
    assert_string_equal(path, "/xs/crt");
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("XDG_STATE_HOME");
    snprintf(expected, sizeof(expected), "/tmp/crt-%u", (unsigned)geteuid());
    assert_int_equal(crti_run_dir(path, sizeof(path)), CRT_OK);
    assert_string_equal(path, expected);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_OK);
    assert_string_equal(path, "/h/.local/state/crt");
    unsetenv("HOME");
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_ERR_NOT_FOUND);
}

static void a_control_character_in_a_path_is_refused(void **state)
{
    char path[256];

    setenv("CRT_RUN_DIR", "/r\nun", 1);
    assert_int_equal(crti_run_dir(path, sizeof(path)), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "byte 10"));
    setenv("CRT_STATE_DIR", "/s\177", 1);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "set CRT_STATE_DIR"));
    unsetenv("CRT_STATE_DIR");
}

static void expect_refused_run_dir(const char *words)
{
    char path[256];

    assert_int_equal(crti_run_dir(path, sizeof(path)), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), words));
}

static void a_path_too_long_names_the_variable_that_cures_it(void **state)
{
    char path[8];

    setenv("CRT_RUN_DIR", "/far/too/long", 1);
    assert_int_equal(crti_run_dir(path, sizeof(path)), CRT_ERR_TOO_LARGE);
    assert_non_null(strstr(crt_error_detail(), "CRT_RUN_DIR"));
    unsetenv("CRT_RUN_DIR");
}

static void a_directory_is_made_with_its_parents_and_is_ours_alone(void **state)
{
    struct stat st;

    assert_int_equal(crti_dir_make(below("a/b/c")), CRT_OK);
    assert_int_equal(stat(below("a/b/c"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(crti_dir_make(below("a/b/c")), CRT_OK);
}

static void a_directory_open_to_others_is_refused_with_the_cure(void **state)
{
    assert_int_equal(mkdir(below("open"), 0700), 0);
    assert_int_equal(chmod(below("open"), 0755), 0);
    assert_int_equal(crti_dir_make(below("open")), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), "chmod 700"));
}

static void a_state_directory_that_everybody_may_write_to_is_refused(void **state)
{
    char path[256];

    setenv("CRT_STATE_DIR", below("state"), 1);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_OK); /* is not there yet */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0755), 0); /* who only read */
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_OK);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), "(mode 0777); run: chmod o-w /tmp/"));
    assert_int_equal(chmod(path, 01777), 0); /* as /tmp */
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_OK);
    unsetenv("CRT_STATE_DIR");
}

/* Only root can give them to others. */
static void a_state_directory_that_a_group_or_another_user_may_change_is_refused(void **s)
{
    char path[256];

    if (geteuid() != 0)
        skip();
    setenv("CRT_STATE_DIR", below("shared"), 1);
    assert_int_equal(mkdir(below("shared"), 0700), 0);
    assert_int_equal(chown(below("shared"), 0, 4711), 0);
    assert_int_equal(chmod(below("shared"), 0770), 0);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), "its group may replace what is in /tmp/"));
    assert_non_null(strstr(crt_error_detail(), "(mode 0770); run: chmod g-w /tmp/"));
    assert_int_equal(chmod(path, 01770), 0);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_OK);
    assert_int_equal(chown(path, 4711, 0), 0);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(crti_state_dir(path, sizeof(path)), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), "belongs to user 4711, who may replace"));
    unsetenv("CRT_STATE_DIR");
}

static void a_file_that_others_can_change_is_not_opened(void **state)
{
    int fd = -1;

    assert_int_equal(mkdir(below("cache"), 0700), 0);
    assert_int_equal(crti_own_open(below("cache/a"), &fd), CRT_ERR_NOT_FOUND);
    write_text(below("cache/a"), "", 0);
    assert_int_equal(chmod(below("cache/a"), 0744), 0);
    assert_int_equal(crti_own_open(below("cache/a"), &fd), CRT_OK);
    close(fd);
    assert_int_equal(chmod(below("cache/a"), 0764), 0);
    assert_int_equal(crti_own_open(below("cache/a"), &fd), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), "others can write to /tmp/"));
    assert_int_equal(chmod(below("cache/a"), 0700), 0);
    assert_int_equal(chmod(below("cache"), 0755), 0);
    assert_int_equal(crti_own_open(below("cache/a"), &fd), CRT_ERR_PERMISSION);
    assert_int_equal(chmod(below("cache"), 0700), 0);
    assert_int_equal(symlink("a", below("cache/b")), 0);
    assert_int_not_equal(crti_own_open(below("cache/b"), &fd), CRT_OK);
    if (geteuid() == 0) {
        assert_int_equal(chown(below("cache/a"), 4711, 0), 0);
        assert_int_equal(crti_own_open(below("cache/a"), &fd), CRT_ERR_PERMISSION);
        assert_non_null(strstr(crt_error_detail(), "belongs to user 4711, not to you"));
    }
}

static void a_link_or_a_file_is_no_directory_of_ours(void **state)
{
    assert_int_equal(symlink("/tmp", below("link")), 0);
    assert_int_equal(crti_dir_make(below("link")), CRT_ERR_PERMISSION);
    write_text(below("file"), "", 0);
    assert_int_equal(crti_dir_make(below("file")), CRT_ERR_PERMISSION);
    assert_int_not_equal(crti_dir_make(below("file/in")), CRT_OK);
    assert_int_not_equal(crti_dir_make(""), CRT_OK);
}

static void a_lock_lasts_as_long_as_its_process(void **state)
{
    int ends[2], status, fd = -1;
    pid_t pid;
    char byte;

    assert_false(crti_dir_is_locked(base));
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (crti_dir_lock(base, &fd) != CRT_OK || write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_true(crti_dir_is_locked(base));
    assert_int_equal(crti_dir_lock(base, &fd), CRT_ERR_EXISTS);
    assert_int_equal(fd, -1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(crti_dir_is_locked(base));
    assert_int_equal(crti_dir_lock(base, &fd), CRT_OK);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

/* As `crt status` and every driver do while a head that was killed is started again. */
static void who_only_looks_at_a_lock_is_not_its_holder(void **state)
{
    pid_t lookers[2];

    for (int i = 0; i < 2; i++) {
        lookers[i] = fork();
        assert_true(lookers[i] >= 0);
        if (lookers[i] == 0)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (lookers[i] == 0)
            crti_dir_is_locked(base);
    }
    for (int i = 0; i < 3000; i++) {
        int fd;

        assert_int_equal(crti_dir_lock(base, &fd), CRT_OK);
        close(fd);
    }
    for (int i = 0; i < 2; i++) {
        kill(lookers[i], SIGKILL);
        waitpid(lookers[i], NULL, 0);
    }
}

static void a_fifo_in_the_place_of_a_lock_keeps_nobody(void **state)
{
    assert_int_equal(mkfifo(below("lock"), 0600), 0);
    assert_false(crti_dir_is_locked(base));
    assert_false(crti_dir_is_left(base));
}

/* Only root can make something of another user. */
static void what_another_user_put_there_is_not_ours(void **state)
{
    int fd;

    if (geteuid() != 0)
        return;
    setenv("CRT_RUN_DIR", base, 1);
    assert_int_equal(crti_dir_lock(base, &fd), CRT_OK);
    assert_true(crti_dir_is_locked(base));
    assert_int_equal(chown(below("lock"), 65534, 65534), 0);
    assert_false(crti_dir_is_locked(base));
    assert_false(crti_dir_is_left(base));
    close(fd);
    assert_int_equal(chown(base, 65534, 65534), 0);
    expect_refused_run_dir("belongs to user 65534");
    assert_int_equal(chown(base, 0, 0), 0);
    unsetenv("CRT_RUN_DIR");
}

/* In /tmp anybody can be the first to make a directory of our name. */
static void a_run_directory_that_others_can_use_is_refused(void **state)
{
    setenv("CRT_RUN_DIR", base, 1);
    assert_int_equal(chmod(base, 0755), 0);
    expect_refused_run_dir("run: chmod 700");
    assert_int_equal(chmod(base, 0700), 0);
    setenv("CRT_RUN_DIR", below("link"), 1);
    assert_int_equal(symlink("/tmp", below("link")), 0);
    expect_refused_run_dir("is not a directory");
    unsetenv("CRT_RUN_DIR");
}

static void a_lock_that_can_not_be_written_leaves_nothing(void **state)
{
    struct rlimit none = {0, RLIM_INFINITY}, before;
    int fd;

    assert_int_equal(crti_dir_make(below("node-1")), CRT_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0); /* as on a full disk */
    assert_int_equal(crti_dir_lock(below("node-1"), &fd), CRT_ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(crt_error_detail(), "/node-1/lock: "));
    assert_int_equal(access(below("node-1"), F_OK), -1);
}

static void entries_are_read_as_they_were_written(void **state)
{
    const crti_info_entry_t entries[] = {{"pid", "17"},
                                         {"address", "10.0.0.1:6380"},
                                         {"empty", ""},
                                         {"text", "two words"}};
    CRTI_AUTO(free) char *text = NULL;
    char value[32];
    struct stat st;

    assert_int_equal(crti_info_write(below("info"), entries, 4), CRT_OK);
    assert_int_equal(stat(below("info"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(crti_info_read(below("info"), &text), CRT_OK);
    assert_int_equal(crti_info_int(text, "pid"), 17);
    assert_string_equal(crti_info_get(text, "text", value, sizeof(value)), "two words");
    assert_string_equal(crti_info_get(text, "empty", value, sizeof(value)), "");
    assert_string_equal(crti_info_get(text, "addr", value, sizeof(value)), "");
    assert_string_equal(crti_info_get(text, "address", value, 8), ""); /* does not fit */
    assert_int_equal(crti_info_int(text, "none"), 0);
}

static void an_entry_with_a_newline_is_refused_and_the_old_file_stays(void **state)
{
    const crti_info_entry_t good = {"a", "1"}, bad = {"a", "2\nb 3"};
    CRTI_AUTO(free) char *text = NULL;

    assert_int_equal(crti_info_write(below("info"), &good, 1), CRT_OK);
    assert_int_equal(crti_info_write(below("info"), &bad, 1), CRT_ERR_INVALID);
    assert_int_equal(crti_info_read(below("info"), &text), CRT_OK);
    assert_string_equal(text, "a 1\n");
    assert_int_equal(access(below("info.new"), F_OK), -1);
}

static void a_file_that_is_missing_too_large_or_a_link_is_not_read(void **state)
{
    static char large[20000];
    char *text = NULL;

    assert_int_equal(crti_info_read(below("none"), &text), CRT_ERR_NOT_FOUND);
    memset(large, 'x', sizeof(large));
    write_text(below("large"), large, sizeof(large));
    assert_int_equal(crti_info_read(below("large"), &text), CRT_ERR_CORRUPT);
    assert_int_equal(symlink("large", below("link")), 0);
    assert_int_equal(crti_info_read(below("link"), &text), CRT_ERR_IO);
    assert_null(text);
}

static void a_damaged_file_gives_empty_values(void **state)
{
    const char *const texts[] = {"",      "\n\n\n", "pid",      "pid\n",
                                 " 17\n", "pidx 1", "=\0pid 17"};
    char value[16];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_string_equal(crti_info_get(texts[i], "pid", value, sizeof(value)), "");
    assert_string_equal(crti_info_get("pid 17", "pid", value, sizeof(value)), "17");
}

static void pid_and_start_name_one_process(void **state)
{
    uint64_t mine = 0, again = 0, other = 0;

    assert_int_equal(crti_process_start(getpid(), &mine), CRT_OK);
    assert_int_equal(crti_process_start(getpid(), &again), CRT_OK);
    assert_int_equal(mine, again);
    assert_int_equal(crti_process_start(1, &other), CRT_OK);
    assert_true(other < mine);
    assert_int_equal(crti_process_start(0x7ffffff0, &other), CRT_ERR_NOT_FOUND);
}

static void a_process_is_ending_when_it_has_ended_too(void **state)
{
    pid_t pid = fork();
    siginfo_t info;

    assert_true(pid >= 0);
    if (pid == 0)
        for (;;)
            pause();
    assert_false(crti_process_is_ending(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(crti_process_is_ending(pid)); /* a zombie */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(crti_process_is_ending(pid));
}

static void a_private_cluster_gets_a_directory_of_its_own_or_a_sentence(void **state)
{
    char first[128], second[128], small[32];
    struct stat st;

    setenv("CRT_RUN_DIR", below("a/run"), 1);
    assert_int_equal(crti_dir_make_private(first, sizeof(first)), CRT_OK);
    assert_int_equal(crti_dir_make_private(second, sizeof(second)), CRT_OK);
    assert_string_not_equal(first, second);
    assert_int_equal(stat(first, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(crti_dir_make_private(small, sizeof(small)), CRT_ERR_TOO_LARGE);
    assert_string_equal(small, "");
    assert_int_equal(chmod(below("a/run"), 0755), 0);
    assert_int_equal(crti_dir_make_private(first, sizeof(first)), CRT_ERR_PERMISSION);
    setenv("CRT_RUN_DIR", "r", 1);
    assert_int_equal(crti_dir_make_private(first, sizeof(first)), CRT_ERR_INVALID);
}

static void
the_directory_of_a_private_cluster_lives_as_long_as_one_of_its_locks(void **state)
{
    char dir[128], head[160], node[160];
    int head_fd, node_fd;

    snprintf(dir, sizeof(dir), "%s", below("private-x"));
    snprintf(head, sizeof(head), "%s/head-1", dir);
    snprintf(node, sizeof(node), "%s/node-2", dir);
    assert_int_equal(crti_dir_make(head), CRT_OK);
    assert_int_equal(crti_dir_make(node), CRT_OK);
    assert_int_equal(crti_dir_lock(head, &head_fd), CRT_OK);
    assert_int_equal(crti_dir_lock(node, &node_fd), CRT_OK);
    close(node_fd);
    crti_dir_remove_private(dir);
    assert_int_equal(access(node, F_OK), 0);
    close(head_fd);
    crti_dir_remove_private(dir);
    assert_int_equal(access(dir, F_OK), -1);
}

static void old_directories_of_dead_private_clusters_are_swept(void **state)
{
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    static const char *const names[] = {"private-old", "private-young", "private-used",
                                        "node-old"};
    char dir[128];
    int fd;

    for (size_t i = 0; i < 4; i++) {
        snprintf(dir, sizeof(dir), "%s/%s/node-1", base, names[i]);
        assert_int_equal(crti_dir_make(dir), CRT_OK);
        if (i == 2)
            assert_int_equal(crti_dir_lock(dir, &fd), CRT_OK);
        if (i != 1)
            assert_int_equal(utimensat(AT_FDCWD, below(names[i]), old, 0), 0);
    }
    crti_dir_sweep_private(base);
    assert_int_equal(access(below("private-old"), F_OK), -1);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(access(below(names[i]), F_OK), 0);
    close(fd);
}

/* A process whose parent ends while it is stopped: whether it is still stopped then. The signal is
 * sent before the parent can be waited for. */
static bool stays_stopped(bool wakes_with_parent)
{
    int ends[2];
    pid_t parent, child;
    char path[64], text[512] = "";
    FILE *file;

    assert_int_equal(pipe(ends), 0);
    parent = fork();
    if (parent == 0) {
        child = fork();
        if (child == 0) {
            crti_wake_with_parent(true);
            crti_wake_with_parent(wakes_with_parent);
            raise(SIGSTOP);
            pause();
        }
        waitpid(child, NULL, WUNTRACED);
        _exit(write(ends[1], &child, sizeof(child)) != sizeof(child));
    }
    assert_int_equal(read(ends[0], &child, sizeof(child)), sizeof(child));
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    kill(child, SIGKILL);
    close(ends[0]);
    close(ends[1]);
    return strstr(text, ") T ") != NULL;
}

static void
a_process_is_continued_by_the_end_of_its_parent_until_it_begins_to_end(void **state)
{
    assert_false(stays_stopped(true));
    assert_true(stays_stopped(false));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_come_from_the_environment_the_most_special_first),
        TEST(a_control_character_in_a_path_is_refused),
        TEST(a_path_too_long_names_the_variable_that_cures_it),
        TEST(a_directory_is_made_with_its_parents_and_is_ours_alone),
        TEST(a_directory_open_to_others_is_refused_with_the_cure),
        TEST(a_state_directory_that_everybody_may_write_to_is_refused),
        TEST(a_state_directory_that_a_group_or_another_user_may_change_is_refused),
        TEST(a_file_that_others_can_change_is_not_opened),
        TEST(a_link_or_a_file_is_no_directory_of_ours),
        TEST(a_lock_lasts_as_long_as_its_process),
        TEST(who_only_looks_at_a_lock_is_not_its_holder),
        TEST(a_fifo_in_the_place_of_a_lock_keeps_nobody),
        TEST(what_another_user_put_there_is_not_ours),
        TEST(a_run_directory_that_others_can_use_is_refused),
        TEST(a_lock_that_can_not_be_written_leaves_nothing),
        TEST(entries_are_read_as_they_were_written),
        TEST(an_entry_with_a_newline_is_refused_and_the_old_file_stays),
        TEST(a_file_that_is_missing_too_large_or_a_link_is_not_read),
        TEST(a_damaged_file_gives_empty_values),
        TEST(pid_and_start_name_one_process),
        TEST(a_process_is_ending_when_it_has_ended_too),
        TEST(a_private_cluster_gets_a_directory_of_its_own_or_a_sentence),
        TEST(the_directory_of_a_private_cluster_lives_as_long_as_one_of_its_locks),
        TEST(old_directories_of_dead_private_clusters_are_swept),
        TEST(a_process_is_continued_by_the_end_of_its_parent_until_it_begins_to_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
