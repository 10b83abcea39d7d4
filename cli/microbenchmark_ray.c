/* SPDX-License-Identifier: Apache-2.0 */
/* Ray's microbenchmark, supervised. See microbenchmark_ray.h.
 *
 * Where it sits
 *     microbenchmark.c -> [ microbenchmark_ray.c ] -> the command ray, in a process group of its
 *     own
 * Failure
 *     It may hang, crash, or print anything: it ends with its deadline, and the reason is given.
 *     Its daemons are in its group and are killed with it; its workers notice that. When this
 *     process dies, the kernel kills it.
 */
#include "cli/microbenchmark_ray.h"
#include "runtime/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERSION_S 60
#define END_MS    10000 /* for it to stop its cluster, after its figure */

/* One execution of ray. */
typedef struct run {
    pid_t pid;
    int output, ended; /* its streams, both; a pidfd */
    char line[200];    /* so far; what is longer is cut */
    size_t size;
    char last[200]; /* the last line that was not empty */
    bool (*take)(struct run *run);
    const char *row; /* whose figure is looked for */
    ray_row_t *figure;
} run_t;

/* ------------------------------------------------------------------ its lines */

/* "NAME per second VALUE +- SD" */
static bool take_figure(run_t *run)
{
    size_t size = strlen(run->row);
    double value, sd;

    if (strncmp(run->line, run->row, size) != 0 ||
        sscanf(run->line + size, " per second %lf +- %lf", &value, &sd) != 2 ||
        !isfinite(value) || !isfinite(sd) || value <= 0)
        return false;
    run->figure->value = value;
    run->figure->sd = sd;
    return true;
}

static bool take_first(run_t *run)
{
    return run->last[0] != '\0';
}

static void add(run_t *run, char c)
{
    if (run->size == sizeof(run->line) - 1)
        return;
    if (c < ' ' || c > '~' || c == '"' || c == '\\')
        c = '?';
    run->line[run->size++] = c;
}

/* True: what was looked for has come. */
static bool take_bytes(run_t *run, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != '\n') {
            add(run, bytes[i]);
            continue;
        }
        run->line[run->size] = '\0';
        run->size = 0;
        if (run->line[0] != '\0')
            memcpy(run->last, run->line, sizeof(run->last));
        if (run->take(run))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ its process */

/* In the child: nothing but system calls before the other program. */
static void become_ray(const char *const argv[], int output, pid_t parent)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
        _exit(127);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool start(run_t *run, const char *const argv[])
{
    pid_t parent = getpid();
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    run->pid = fork();
    if (run->pid == 0)
        become_ray(argv, ends[1], parent);
    close(ends[1]);
    run->output = ends[0];
    run->ended = run->pid > 0 ? pidfd_open(run->pid, 0) : -1;
    if (run->pid > 0)
        setpgid(run->pid, run->pid); /* whoever of the two is first */
    return run->ended >= 0;
}

typedef enum outcome { FOUND, ENDED, TIMED_OUT } outcome_t;

/* Reads until what is looked for has come, ray has ended and all that it wrote is read, or the
 * deadline. */
static outcome_t follow(run_t *run, int64_t deadline_ms)
{
    struct pollfd fds[2] = {{.fd = run->output, .events = POLLIN},
                            {.fd = run->ended, .events = POLLIN}};
    char bytes[4096];

    for (;;) {
        int64_t left = deadline_ms - crti_now_ms();
        ssize_t count;

        if (left <= 0)
            return TIMED_OUT;
        if (poll(fds, 2, (int)left) <= 0)
            continue;
        if (fds[0].revents == 0) /* nothing is left in the pipe: it has ended */
            return take_bytes(run, "\n", 1) ? FOUND : ENDED;
        count = read(run->output, bytes, sizeof(bytes));
        if (count > 0 && take_bytes(run, bytes, (size_t)count))
            return FOUND;
        if (count <= 0)
            fds[0].fd = -1;
    }
}

/* With all of its group. Its wait status. */
static int end(run_t *run, outcome_t outcome)
{
    struct pollfd ended = {.fd = run->ended, .events = POLLIN};
    int status = 0;

    if (outcome == FOUND && kill(run->pid, SIGTERM) == 0)
        poll(&ended, 1, END_MS);
    if (run->pid > 0) {
        killpg(run->pid, SIGKILL);
        waitpid(run->pid, &status, 0);
    }
    if (run->ended >= 0)
        close(run->ended);
    close(run->output);
    return status;
}

static void explain(const run_t *run, outcome_t outcome, int status, int timeout_s)
{
    char *text = run->figure->reason;
    size_t size = sizeof(run->figure->reason);
    const char *last = run->last[0] ? run->last : "nothing";

    if (outcome == TIMED_OUT)
        snprintf(text, size, "no figure after %d s; it said last: %s", timeout_s, last);
    else if (WIFSIGNALED(status))
        snprintf(text, size, "ended by signal %d; it said last: %s", WTERMSIG(status),
                 last);
    else if (WEXITSTATUS(status) != 0)
        snprintf(text, size, "exit status %d; it said last: %s", WEXITSTATUS(status),
                 last);
    else
        snprintf(text, size, "it ended without a figure; it said last: %s", last);
}

static bool supervise(run_t *run, const char *const argv[], int timeout_s)
{
    outcome_t outcome;
    int status;

    if (!start(run, argv)) {
        snprintf(run->figure->reason, sizeof(run->figure->reason),
                 "it can't be started: %s", strerror(errno));
        return false;
    }
    outcome = follow(run, crti_now_ms() + (int64_t)timeout_s * 1000);
    status = end(run, outcome);
    if (outcome != FOUND)
        explain(run, outcome, status, timeout_s);
    return outcome == FOUND;
}

/* ------------------------------------------------------------------ what is asked of it */

bool ray_version(char *text, size_t size, ray_row_t *failed)
{
    static const char *const argv[] = {"ray", "--version", NULL};
    run_t run = {.take = take_first, .figure = failed};
    bool is_there = supervise(&run, argv, VERSION_S);

    snprintf(text, size, "%s", run.last);
    return is_there && strncmp(text, "ray, version", strlen("ray, version")) == 0;
}

void ray_measure(const char *row, int timeout_s, ray_row_t *row_out)
{
    static const char *const argv[] = {"ray", "microbenchmark", NULL};
    run_t run = {.take = take_figure, .row = row, .figure = row_out};

    *row_out = (ray_row_t){.value = 0};
    /* Ray looks for the text in the names of its rows; those through its proxy begin so. */
    setenv("TESTS_TO_RUN", row, 1);
    setenv("TESTS_TO_SKIP", "client:", 1);
    supervise(&run, argv, timeout_s);
    unsetenv("TESTS_TO_RUN");
    unsetenv("TESTS_TO_SKIP");
}
