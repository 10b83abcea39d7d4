/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the crt command in directories of its own. */
#ifndef TESTS_CLI_FIXTURE_H
#define TESTS_CLI_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Makes the directories and sets CRT_RUN_DIR, CRT_STATE_DIR; with `fakes` also CRT_LIBEXEC, with
 * daemons that obey FAKE_HEAD and FAKE_NODE. */
void cli_begin(bool fakes);
/* Checks that nothing of it runs, and removes the directories. */
void cli_end(void);

/* The same for each test of a group, with the real daemons. */
int cli_setup(void **state);
int cli_teardown(void **state);

/* Paths below the fixture's directory. */
const char *cli_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the last command printed, both streams together, and how it exited (128 + signal). */
extern char cli_output[1 << 17];

/* Runs `crt WORDS`, words separated by one blank. Returns the exit status. */
int cli_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, and checks the exit status and that the output has `text`. */
#define cli_expect(status, text, ...)                                                    \
    cli_check(cli_run(__VA_ARGS__), status, text, __LINE__)
void cli_check(int status, int expected, const char *text, int line);

/* Starts the command in the background with its output in a pipe. */
pid_t cli_spawn(int *output_fd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same on a terminal of its own, whose other end is `*terminal_fd`: closed, it hangs up. */
pid_t cli_spawn_on_terminal(int *terminal_fd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reads the pipe into cli_output until `text` appears or it ends; false: it ended. At most 30 s. */
bool cli_read_until(int fd, const char *text);
/* Waits, at most 30 s; the exit status. */
int cli_wait(pid_t pid);

/* The number behind `key` in an info file below the run directory whose directory begins with
 * `prefix`; 0 when it is not there. */
long cli_info(const char *prefix, const char *key);

/* True when the process with that number was executed with the fixture's run directory. */
bool cli_is_ours(const char *pid);

/* True when the run directory is empty and no process has it in its environment. */
bool cli_is_clean(void);

/* Waits until it is so; fails the test after 30 s. */
void cli_await_clean(void);

/* Waits until the process is gone; fails the test after 10 s. */
void cli_await_end(pid_t pid);

#endif
