/* SPDX-License-Identifier: Apache-2.0 */
/* See cli_fixture.h. */
#include "cli_fixture.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WORDS_MAX 64

char cli_output[1 << 17];

static char directory[64];

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *cli_path(const char *format, ...)
{
    static char path[512];
    size_t used = (size_t)snprintf(path, sizeof(path), "%s/", directory);
    va_list args;

    va_start(args, format);
    vsnprintf(path + used, sizeof(path) - used, format, args);
    va_end(args);
    return path;
}

static void link_daemon(const char *name, const char *variable)
{
    assert_int_equal(symlink(getenv(variable), cli_path("lib/%s", name)), 0);
}

void cli_begin(bool fakes)
{
    strcpy(directory, "/tmp/crt-cli-XXXXXX");
    assert_non_null(mkdtemp(directory));
    unsetenv("CRT_ADDRESS");
    unsetenv("CRT_KEY_FILE");
    unsetenv("CRT_HTTP");
    unsetenv("FAKE_HEAD");
    unsetenv("FAKE_NODE");
    setenv("CRT_RUN_DIR", cli_path("r"), 1);
    setenv("CRT_STATE_DIR", cli_path("s"), 1);
    unsetenv("CRT_LIBEXEC");
    if (!fakes)
        return;
    assert_int_equal(mkdir(cli_path("lib"), 0700), 0);
    link_daemon("crt-head", "CRT_TEST_FAKE_HEAD");
    link_daemon("crt-node", "CRT_TEST_FAKE_NODE");
    link_daemon("crt-http", "CRT_TEST_HTTP");
    setenv("CRT_LIBEXEC", cli_path("lib"), 1);
}

void cli_end(void)
{
    char command[96];
    bool clean = cli_is_clean();

    if (!clean) { /* a failed test must not leave daemons to the others */
        unsetenv("CRT_ADDRESS");
        unsetenv("CRT_KEY_FILE");
        unsetenv("CRT_STATE_DIR");
        cli_run("stop --force");
        print_error("cleaned up: %s", cli_output);
    }
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
    assert_true(clean);
}

int cli_setup(void **state)
{
    cli_begin(false);
    return 0;
}

int cli_teardown(void **state)
{
    cli_end();
    return 0;
}

/* ---------------------------------------------------------------- running it */

/* In the child: words are separated by one blank, ~ in a word stands for a blank. What the test's
 * own starter ignores (nohup, a shell's background) the command must not. */
static void execute(char *text)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    char *words[WORDS_MAX] = {getenv("CRT_TEST_CRT")};
    int count = 1;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], SIG_DFL);
    for (char *word = strtok(text, " "); word && count < WORDS_MAX - 1;
         word = strtok(NULL, " ")) {
        for (char *at = word; *at; at++)
            if (*at == '~')
                *at = ' ';
        words[count++] = word;
    }
    execv(words[0], words);
    _exit(127);
}

static pid_t spawn_it(int *output_fd, char *text)
{
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execute(text);
    }
    close(ends[1]);
    *output_fd = ends[0];
    cli_output[0] = '\0';
    return pid;
}

pid_t cli_spawn(int *output_fd, const char *format, ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return spawn_it(output_fd, text);
}

pid_t cli_spawn_on_terminal(int *terminal_fd, const char *format, ...)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    char text[4096], name[64];
    va_list args;
    pid_t pid;

    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    assert_int_equal(ptsname_r(terminal, name, sizeof(name)), 0);
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        setsid();
        for (int fd = 0; fd < 3; fd++) {
            close(fd);
            open(name, O_RDWR); /* the first becomes the terminal of the session */
        }
        execute(text);
    }
    *terminal_fd = terminal;
    cli_output[0] = '\0';
    return pid;
}

bool cli_read_until(int fd, const char *text)
{
    int64_t deadline = now_ms() + 30000;
    size_t used = strlen(cli_output);

    while (!text || !strstr(cli_output, text)) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - now_ms();
        ssize_t n;

        if (left <= 0 || poll(&waiting, 1, (int)left) <= 0)
            fail_msg("nothing more after 30 s; so far \"%s\"", cli_output);
        n = read(fd, cli_output + used, sizeof(cli_output) - 1 - used);
        if (n <= 0)
            return false;
        used += (size_t)n;
        cli_output[used] = '\0';
    }
    return true;
}

int cli_wait(pid_t pid)
{
    int64_t deadline = now_ms() + 30000;
    int status;

    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (now_ms() > deadline)
            fail_msg("it does not end; so far \"%s\"", cli_output);
        usleep(2000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int cli_run(const char *format, ...)
{
    char text[4096];
    va_list args;
    pid_t pid;
    int fd;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pid = spawn_it(&fd, text);
    cli_read_until(fd, NULL);
    close(fd);
    return cli_wait(pid);
}

void cli_check(int status, int expected, const char *text, int line)
{
    if (status != expected || !strstr(cli_output, text))
        fail_msg("line %d: exit status %d, not %d, or no \"%s\" in:\n%s", line, status,
                 expected, text, cli_output);
}

/* ---------------------------------------------------------------- looking around */

long cli_info(const char *prefix, const char *key)
{
    DIR *dir = opendir(cli_path("r"));
    size_t key_length = strlen(key);
    struct dirent *entry;
    char line[512];
    long value = 0;

    while (dir && !value && (entry = readdir(dir))) {
        FILE *file;

        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        file = fopen(cli_path("r/%s/%.4s.info", entry->d_name, prefix), "re");
        while (file && fgets(line, sizeof(line), file))
            if (strncmp(line, key, key_length) == 0 && line[key_length] == ' ')
                value = atol(line + key_length + 1);
        if (file)
            fclose(file);
    }
    if (dir)
        closedir(dir);
    return value;
}

bool cli_is_ours(const char *pid)
{
    static char text[1 << 20];
    char path[64], wanted[96];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%.16s/environ", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text));
    close(fd);
    snprintf(wanted, sizeof(wanted), "CRT_RUN_DIR=%s", cli_path("r"));
    return n > 0 && memmem(text, (size_t)n, wanted, strlen(wanted));
}

static bool is_clean(bool say_what_is_not)
{
    DIR *dir = opendir(cli_path("r"));
    struct dirent *entry;
    bool clean = true;

    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            if (say_what_is_not)
                print_error("left behind: %s\n", entry->d_name);
            clean = false;
        }
    if (dir)
        closedir(dir);
    dir = opendir("/proc");
    while (dir && (entry = readdir(dir)))
        if (isdigit((unsigned char)entry->d_name[0]) && cli_is_ours(entry->d_name)) {
            if (say_what_is_not)
                print_error("still runs: %s\n", entry->d_name);
            clean = false;
        }
    if (dir)
        closedir(dir);
    return clean;
}

bool cli_is_clean(void)
{
    return is_clean(true);
}

void cli_await_clean(void)
{
    int64_t deadline = now_ms() + 30000;

    while (!is_clean(false)) {
        if (now_ms() > deadline)
            assert_true(cli_is_clean());
        usleep(5000);
    }
}

void cli_await_end(pid_t pid)
{
    /* One that nobody has reaped yet has ended, too. */
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

    if (ended.fd < 0)
        return;
    if (poll(&ended, 1, 10000) != 1)
        fail_msg("process %d does not end", (int)pid);
    close(ended.fd);
}
