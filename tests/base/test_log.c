/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    int lines;
    int level;
    char last[4096];
} caught;

static void catch_line(void *user, int level, const char *line)
{
    assert_ptr_equal(user, &caught);
    caught.lines++;
    caught.level = level;
    snprintf(caught.last, sizeof(caught.last), "%s", line);
}

static int set_up(void **state)
{
    memset(&caught, 0, sizeof(caught));
    crti_log_set_sink(catch_line, &caught);
    return 0;
}

static int tear_down(void **state)
{
    crti_log_set_sink(NULL, NULL);
    return 0;
}

/* Runs `body` in a child with stderr on a pipe; what it wrote comes back in `text`. */
static void stderr_of(void (*body)(void), char *text, size_t size)
{
    size_t used = 0;
    ssize_t n;
    int pipe_ends[2], status;
    pid_t pid;

    assert_int_equal(pipe(pipe_ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        body();
        _exit(0);
    }
    close(pipe_ends[1]);
    while ((n = read(pipe_ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(pipe_ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void levels_below_the_selected_one_are_off(void **state)
{
    crti_log_select("info");
    assert_true(crti_log_is_on(CRTI_LOG_ERROR, "session"));
    assert_true(crti_log_is_on(CRTI_LOG_INFO, "session"));
    assert_false(crti_log_is_on(CRTI_LOG_DEBUG, "session"));
    crti_log_select(NULL);
    assert_true(crti_log_is_on(CRTI_LOG_WARN, "session"));
    assert_false(crti_log_is_on(CRTI_LOG_INFO, "session"));
}

static void a_module_has_its_own_level(void **state)
{
    crti_log_select("session=trace,,error,store=debug");
    assert_true(crti_log_is_on(CRTI_LOG_TRACE, "session"));
    assert_true(crti_log_is_on(CRTI_LOG_DEBUG, "store"));
    assert_false(crti_log_is_on(CRTI_LOG_TRACE, "store"));
    assert_false(crti_log_is_on(CRTI_LOG_WARN, "net"));
    crti_log_select("info");
    assert_false(crti_log_is_on(CRTI_LOG_TRACE, "session"));
}

static void select_nonsense(void)
{
    crti_log_select(
        "loud,session=very,a-module-with-a-name-that-is-too-long=info,=,info");
}

static void unknown_words_are_warned_of_and_the_rest_counts(void **state)
{
    char text[2048];

    stderr_of(select_nonsense, text, sizeof(text));
    assert_non_null(strstr(text, "\"loud\" is not a level"));
    assert_non_null(strstr(text, "\"session=very\""));
    assert_non_null(strstr(text, "\"a-module-with-a-name-that-is-too-long=info\""));
    assert_non_null(strstr(text, "\"=\""));
    assert_null(strstr(text, "\"info\""));
}

static void select_many(void)
{
    char selection[40 * 12] = "";

    for (int i = 0; i < 40; i++)
        sprintf(selection + strlen(selection), "m%d=info,", i);
    crti_log_select(selection);
}

static void modules_beyond_the_table_are_warned_of(void **state)
{
    char text[4096];

    stderr_of(select_many, text, sizeof(text));
    assert_null(strstr(text, "\"m15=info\""));
    assert_non_null(strstr(text, "\"m16=info\""));
}

static void a_line_has_time_level_module_pid_and_text(void **state)
{
    char expected[64];

    snprintf(expected, sizeof(expected), " info node %d lost 7 of 9", (int)getpid());
    crti_log_select("info");
    crti_log(CRTI_LOG_INFO, "node", "lost %d of %d", 7, 9);
    assert_int_equal(caught.lines, 1);
    assert_int_equal(caught.level, CRTI_LOG_INFO);
    assert_string_equal(strstr(caught.last, " info"), expected);
    assert_int_equal(strlen(caught.last),
                     strlen(expected) + strlen("2025-01-31 12:00:00.000"));
}

static int evaluated;

static int count_evaluation(void)
{
    return ++evaluated;
}

static void arguments_of_a_line_that_is_off_are_not_evaluated(void **state)
{
    evaluated = 0;
    crti_log_select("warn");
    crti_log(CRTI_LOG_DEBUG, "node", "%d", count_evaluation());
    assert_int_equal(evaluated, 0);
    assert_int_equal(caught.lines, 0);
    crti_log(CRTI_LOG_WARN, "node", "%d", count_evaluation());
    assert_int_equal(evaluated, 1);
}

static void a_text_longer_than_a_line_is_cut(void **state)
{
    char text[8000];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    crti_log_select("warn");
    crti_log(CRTI_LOG_WARN, "node", "%s", text);
    assert_int_equal(caught.lines, 1);
    assert_true(strlen(caught.last) < 2048);
    assert_non_null(strstr(caught.last, "xxxxxxxx"));
}

static void write_long_line(void)
{
    char text[8000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    crti_log_set_sink(NULL, NULL);
    crti_log(CRTI_LOG_ERROR, "node", "%s", text);
}

static void a_line_on_stderr_ends_with_one_newline_even_when_cut(void **state)
{
    char text[4096];

    stderr_of(write_long_line, text, sizeof(text));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void *ask(void *argument)
{
    *(bool *)argument = crti_log_is_on(CRTI_LOG_TRACE, "first");
    return NULL;
}

static void first_lines_of_many_threads(void)
{
    pthread_t threads[8];
    bool on[8];

    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, ask, &on[i]) != 0)
            _exit(1);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++)
        if (!on[i])
            _exit(2);
}

/* Must be the first test: nothing has selected a level yet in this process. */
static void the_environment_is_read_once_by_whichever_thread_is_first(void **state)
{
    char text[256];

    setenv("CRT_LOG", "error,first=trace", 1);
    stderr_of(first_lines_of_many_threads, text, sizeof(text));
    assert_string_equal(text, "");
    unsetenv("CRT_LOG");
}

static void complain_without_end(void)
{
    crti_log_set_sink(NULL, NULL);
    crti_log_select("debug");
    for (int i = 0; i < 2 * CRTI_LOG_BURST; i++)
        crti_log(CRTI_LOG_WARN, "node", "w");
    for (int i = 0; i < 2 * CRTI_LOG_BURST; i++)
        crti_log(CRTI_LOG_DEBUG, "node", "d");
}

static size_t count(const char *text, const char *part)
{
    size_t found = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        found++;
    return found;
}

static void a_process_that_complains_without_end_does_not_fill_the_disk(void **state)
{
    static char text[8 * CRTI_LOG_BURST * 64];
    const char *told;
    size_t warnings;

    stderr_of(complain_without_end, text, sizeof(text));
    warnings = count(text, " w\n");
    assert_in_range(warnings, CRTI_LOG_BURST, CRTI_LOG_BURST + CRTI_LOG_BURST / 2);
    told = strstr(text, "lines are missing here");
    assert_non_null(told);
    for (told -= 2; told[-1] != ' '; told--)
        continue;
    assert_int_equal(strtoull(told, NULL, 10), 2 * CRTI_LOG_BURST - warnings);
    assert_int_equal(count(text, " d\n"), 2 * CRTI_LOG_BURST);
}

/* ---------------------------------------------------------------- file */

/* Runs `body` in a child whose log is `path` in a new directory. */
static void child_with_file(void (*body)(const char *path), char *path, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    int status;
    pid_t pid;

    snprintf(path, size, "%s/crt-log-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
    strcat(path, "/daemon.log");
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        crti_log_set_sink(NULL, NULL);
        crti_log_select("trace");
        if (crti_log_to_file(path) != CRT_OK)
            _exit(1);
        body(path);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void remove_files(char *path)
{
    char old[512];

    snprintf(old, sizeof(old), "%s.1", path);
    unlink(old);
    unlink(path);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
}

static off_t size_of(const char *path, const char *suffix)
{
    char name[512];
    struct stat st;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &st) == 0 ? st.st_size : -1;
}

static void log_three_files_full(const char *path)
{
    char text[1000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 3 * (int)(CRTI_LIMIT(log_file) / 1000); i++)
        crti_log(CRTI_LOG_DEBUG, "node", "%s", text);
    crti_log(CRTI_LOG_ERROR, "node", "the end");
}

static void a_log_file_that_is_full_begins_anew_and_the_one_before_stays(void **state)
{
    char path[256];

    child_with_file(log_three_files_full, path, sizeof(path));
    assert_in_range(size_of(path, ""), 1, CRTI_LIMIT(log_file) + 2048);
    assert_in_range(size_of(path, ".1"), CRTI_LIMIT(log_file),
                    CRTI_LIMIT(log_file) + 2048);
    remove_files(path);
}

static void log_on_a_full_disk(const char *path)
{
    struct rlimit limit = {256, RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 100; i++)
        crti_log(CRTI_LOG_DEBUG, "node",
                 "a line of about a hundred bytes, all in all, %d", i);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    crti_log(CRTI_LOG_DEBUG, "node", "there is room again");
}

static void
a_log_goes_on_when_the_disk_has_room_again_and_says_how_many_lines_are_missing(
    void **state)
{
    char path[256], text[1024] = "";
    const char *told;
    FILE *file;

    child_with_file(log_on_a_full_disk, path, sizeof(path));
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    told = strstr(text, " lines are missing here");
    assert_non_null(told);
    assert_non_null(strstr(told, "there is room again"));
    assert_in_range(strtoul(told - 2, NULL, 10), 90, 99);
    remove_files(path);
}

static void a_log_file_that_cannot_be_opened_is_an_error_that_names_it(void **state)
{
    assert_int_equal(crti_log_to_file("/nonexistent/daemon.log"), CRT_ERR_IO);
    assert_non_null(strstr(crt_error_detail(), "/nonexistent/daemon.log: No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_is_read_once_by_whichever_thread_is_first),
        cmocka_unit_test_setup_teardown(levels_below_the_selected_one_are_off, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_module_has_its_own_level, set_up, tear_down),
        cmocka_unit_test(unknown_words_are_warned_of_and_the_rest_counts),
        cmocka_unit_test(modules_beyond_the_table_are_warned_of),
        cmocka_unit_test_setup_teardown(a_line_has_time_level_module_pid_and_text, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(arguments_of_a_line_that_is_off_are_not_evaluated,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_longer_than_a_line_is_cut, set_up,
                                        tear_down),
        cmocka_unit_test(a_line_on_stderr_ends_with_one_newline_even_when_cut),
        cmocka_unit_test(a_process_that_complains_without_end_does_not_fill_the_disk),
        cmocka_unit_test(a_log_file_that_is_full_begins_anew_and_the_one_before_stays),
        cmocka_unit_test(
            a_log_goes_on_when_the_disk_has_room_again_and_says_how_many_lines_are_missing),
        cmocka_unit_test(a_log_file_that_cannot_be_opened_is_an_error_that_names_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
