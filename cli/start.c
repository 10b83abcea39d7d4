/* SPDX-License-Identifier: Apache-2.0 */
/* crt start: a head and a node on this host, or a node that joins a cluster.
 *
 * Executes crt-head and crt-node, waits until each serves, and says what to type next. A failure
 * of one is told in one sentence and undoes the other. With --block it stays, and ends what it
 * started on Ctrl-C.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/answer.h"
#include "cli/autoscaler_file.h"
#include "cli/daemon.h"
#include "cli/dashboard.h"
#include "cli/shell_word.h"
#include "cli/start_options.h"
#include "cli/stop.h"
#include "crt_tools.h"
#include "runtime/base/clock.h"
#include "runtime/base/rundir.h"

#define NAME              "crt start"
#define START_TIMEOUT     30000
#define UNDO_TIMEOUT      5000
#define TAKE_BACK_SECONDS 10

static start_given_t *const given = &crti_start_given;

/* What is known once both serve. */
typedef struct started {
    crti_starter_t head, node;
    char address[128], http[300], key_file[PATH_MAX], head_dir[256];
    char node_id[64], run_dir[256];
    double seconds;
    bool took_back; /* the node lived on without its head */
} started_t;

/* ---------------------------------------------------------------- what was asked */

static int check_options(void)
{
    const option_spec_t *head_only = crti_start_given_for_head();

    if (given->log_format)
        setenv("CRT_LOG_FORMAT", given->log_format, 1); /* the daemons inherit it */
    if (given->head && given->address)
        return crti_cli_misused(NAME,
                                "--head starts a cluster and --address joins one: give "
                                "one of the two");
    if (!given->head && !given->address)
        return crti_cli_misused(
            NAME, "give --head to start a cluster, or --address to join one");
    if (given->address && head_only)
        return crti_cli_misused(NAME, "--%s belongs to the head: give it with --head",
                                head_only->name);
    if (given->autoscaler && given->fail_if_infeasible &&
        strcmp(given->fail_if_infeasible, "on") == 0)
        return crti_cli_misused(NAME,
                                "with --autoscaler what fits no node waits for one: "
                                "--fail-if-infeasible is off");
    if (!given->dashboard_cert != !given->dashboard_key)
        return crti_cli_misused(NAME, "--dashboard-cert and --dashboard-key go together");
    return 0;
}

/* The key to join with: as given, or that of a node of the same cluster here. */
static int find_key(started_t *s)
{
    const char *key_file = given->key_file ? given->key_file : getenv("CRT_KEY_FILE");
    bool is_given = key_file && *key_file;
    crt_cluster_info_t here;
    crt_status_t status;
    char token[65];

    snprintf(s->key_file, sizeof(s->key_file), "%s", is_given ? key_file : "");
    if (is_given)
        setenv("CRT_KEY_FILE", s->key_file, 1);
    status = crt_cluster_find(given->address, sizeof(here), &here);
    unsetenv("CRT_KEY_FILE");         /* a path for this process alone */
    if (status == CRT_ERR_PERMISSION) /* the key of another cluster */
        return crti_cli_fail_detail(NAME);
    if (!is_given && status == CRT_OK)
        snprintf(s->key_file, sizeof(s->key_file), "%s", here.key_file);
    if (!s->key_file[0])
        return crti_cli_fail(
            NAME, "to join a cluster its key is needed: copy cluster.key from the "
                  "head's host and give it with --key-file or CRT_KEY_FILE");
    /* Read here too, so that a bad file is told before anything runs. */
    if (crti_cluster_token(s->key_file, token) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    memset(token, 0, sizeof(token));
    return 0;
}

/* A node that joins on the host of the head is its host's node, where submitted jobs run. */
static void find_local_head(started_t *s)
{
    run_dir_t *dirs = calloc(RUN_DIRS_MAX, sizeof(*dirs));
    size_t count = dirs ? crti_run_dirs_find(given->address, dirs) : 0;

    for (size_t i = 0; i < count; i++)
        if (dirs[i].is_head && dirs[i].is_living &&
            crt_cluster_same_address(dirs[i].address, given->address))
            snprintf(s->head_dir, sizeof(s->head_dir), "%s", dirs[i].dir);
    free(dirs);
}

/* ---------------------------------------------------------------- starting */

/* A daemon has another directory. */
static crt_status_t make_absolute(const char *option, const char **path, char *absolute)
{
    if (!*path)
        return CRT_OK;
    if (!realpath(*path, absolute))
        return crt_raise(CRT_ERR_NOT_FOUND, "%s %s: %s", option, *path, strerror(errno));
    *path = absolute;
    return CRT_OK;
}

/* The rules of the autoscaler as a file in memory, which the head inherits and nobody else sees;
 * -1 in `*fd_out`: there are none. */
static crt_status_t read_autoscaler(int *fd_out)
{
    json_t *file;
    char crt[PATH_MAX], *text;
    ssize_t size = readlink("/proc/self/exe", crt, sizeof(crt) - 1), written;
    int low, fd;

    *fd_out = -1;
    if (!given->autoscaler)
        return CRT_OK;
    CRT_TRY(crti_autoscaler_file_read(given->autoscaler, &file));
    crt[size > 0 ? size : 0] = '\0';
    json_object_set_new(file, "crt", json_string(crt));
    text = json_dumps(file, JSON_COMPACT);
    json_decref(file);
    low = memfd_create("crt-autoscaler", MFD_CLOEXEC);
    fd = fcntl(low, F_DUPFD, 10); /* behind those that a daemon has for other things */
    close(low);
    written = text && fd >= 0 ? write(fd, text, strlen(text)) : -1;
    if (written < 0 || (size_t)written != strlen(text)) {
        crt_raise(CRT_ERR_IO, "--autoscaler %s: %s", given->autoscaler, strerror(errno));
        if (fd >= 0)
            close(fd);
        free(text);
        return CRT_ERR_IO;
    }
    free(text);
    *fd_out = fd;
    return CRT_OK;
}

static void pass_on(crti_starter_t *daemon, bool is_head)
{
    const char *option, *value;
    size_t index = 0;

    while ((option = crti_start_pass_on(is_head, &index, &value))) {
        crti_starter_flag(daemon, option);
        if (value)
            crti_starter_flag(daemon, value);
    }
}

static crt_status_t start_head_with(started_t *s, int cancel_fd, int autoscaler_fd)
{
    static char certificate[PATH_MAX], key[PATH_MAX], cluster_key[PATH_MAX];
    char autoscaler[16];
    crti_starter_t *d = &s->head;
    const char *warning;
    crt_status_t status =
        make_absolute("--dashboard-cert", &given->dashboard_cert, certificate);

    if (status == CRT_OK)
        status = make_absolute("--dashboard-key", &given->dashboard_key, key);
    if (status == CRT_OK)
        status = make_absolute("--key-file", &given->key_file, cluster_key);
    if (status != CRT_OK)
        return status;

    crti_starter_init(d, "crt-head", -1);
    d->undo_signal = SIGUSR2; /* one that has resumed leaves its tables */
    pass_on(d, true);
    crti_starter_option(d, "--key-file", given->key_file);
    snprintf(autoscaler, sizeof(autoscaler), "%d", autoscaler_fd);
    crti_starter_option(d, "--autoscaler-fd", autoscaler_fd >= 0 ? autoscaler : NULL);
    status = crti_daemon_start(d, START_TIMEOUT, cancel_fd);
    if (status != CRT_OK)
        return status;
    crti_ready_get(d->ready, "address", s->address, sizeof(s->address));
    crti_ready_get(d->ready, "http", s->http, sizeof(s->http));
    crti_ready_get(d->ready, "key_file", s->key_file, sizeof(s->key_file));
    crti_ready_get(d->ready, "head_dir", s->head_dir, sizeof(s->head_dir));
    warning = strstr(d->ready, " warning "); /* the rest of the line */
    if (warning)
        crti_cli_fail(NAME, "warning: %s", warning + strlen(" warning "));
    return CRT_OK;
}

static crt_status_t start_head(started_t *s, int cancel_fd)
{
    crt_status_t status;
    int fd;

    CRT_TRY(read_autoscaler(&fd));
    status = start_head_with(s, cancel_fd, fd);
    if (fd >= 0)
        close(fd);
    return status;
}

static crt_status_t start_node(started_t *s, int cancel_fd)
{
    crti_starter_t *d = &s->node;
    char absolute[PATH_MAX];
    crt_status_t status;

    if (!realpath(s->key_file, absolute))
        return crt_raise(CRT_ERR_NOT_FOUND, "key file %s: %s", s->key_file,
                         strerror(errno));
    snprintf(s->key_file, sizeof(s->key_file), "%s", absolute);
    crti_starter_init(d, "crt-node", -1);
    crti_starter_option(d, "--address", s->address);
    crti_starter_option(d, "--key-file", s->key_file);
    pass_on(d, false);
    crti_starter_option(d, "--head-dir", s->head_dir[0] ? s->head_dir : NULL);
    status = crti_daemon_start(d, START_TIMEOUT, cancel_fd);
    if (status != CRT_OK)
        return status;
    crti_ready_get(d->ready, "node", s->node_id, sizeof(s->node_id));
    crti_ready_get(d->ready, "run_dir", s->run_dir, sizeof(s->run_dir));
    return CRT_OK;
}

/* A head that starts again after a crash takes its nodes back: the one that lives on this host is
 * this host's node, and no second one is started. False: there is none. */
static bool take_node_back(started_t *s)
{
    crt_cluster_info_t node;
    double deadline = crti_now_s() + TAKE_BACK_SECONDS;

    if (crt_cluster_find(s->address, sizeof(node), &node) != CRT_OK || !node.node[0] ||
        strcmp(node.head_dir, s->head_dir) != 0)
        return false;
    while (crti_answer_living_nodes(&node, node.node) == 0) {
        if (crti_now_s() > deadline)
            return false;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    snprintf(s->node_id, sizeof(s->node_id), "%s", node.node);
    snprintf(s->run_dir, sizeof(s->run_dir), "%s", node.run_dir);
    s->node.pid = (pid_t)node.pid;
    s->node.pidfd = (int)syscall(SYS_pidfd_open, s->node.pid, 0);
    s->took_back = true;
    return true;
}

/* ---------------------------------------------------------------- what to type next */

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]", 5) == 0;
}

/* The host of "host:port"; an address in brackets loses them, as scp wants it with. */
static void host_of(const char *address, char *host, size_t size)
{
    const char *colon = strrchr(address, ':');

    snprintf(host, size, "%.*s", colon ? (int)(colon - address) : (int)strlen(address),
             address);
}

static bool is_only_cluster(const char *address)
{
    run_dir_t *dirs = calloc(RUN_DIRS_MAX, sizeof(*dirs));
    bool is_only = true;
    size_t count = dirs ? crti_run_dirs_find(NULL, dirs) : 0;

    count = crti_run_dirs_keep_own(dirs, count);
    for (size_t i = 0; i < count; i++)
        if (dirs[i].is_living && !crt_cluster_same_address(dirs[i].address, address))
            is_only = false;
    free(dirs);
    return is_only;
}

static void say_next(const started_t *s)
{
    bool is_only = is_only_cluster(s->address);
    const char *option = is_only ? "" : " --address ", *value = is_only ? "" : s->address;
    char host[128], link[DASHBOARD_LINK], key_file[4 * PATH_MAX + 8];

    crti_shell_word(s->key_file, key_file, sizeof(key_file));
    host_of(s->address, host, sizeof(host));
    printf("The cluster %s runs%s: node %.8s, started in %.2f s.\n\n", s->address,
           s->took_back ? " again" : "", s->node_id, s->seconds);
    if (is_loopback(s->address))
        printf("Another node on this host joins with\n  crt start --address %s "
               "--key-file %s\n"
               "(for other hosts start the head with --node-ip-address IP)\n",
               s->address, key_file);
    else
        printf(
            "Another host joins with\n  scp %s:%s . && crt start --address %s --key-file "
            "cluster.key\n",
            host, key_file, s->address);
    printf("Run a program on it with\n  crt job submit%s%s -- ./program ARGUMENTS\n",
           option, value);
    printf("See what happens with\n  crt status%s%s\n", option, value);
    if (!s->http[0] || strcmp(s->http, "none") == 0)
        ;
    else if (given->no_auth)
        printf("or in a browser at\n  %s\n", s->http);
    else if (isatty(STDOUT_FILENO) &&
             crti_dashboard_link(s->address, true, link) == CRT_OK)
        printf("or in a browser at\n  %s\n(good once, for a minute; another one: crt "
               "dashboard%s%s)\n",
               link, option, value);
    else
        printf("or in a browser at\n  %s\n(crt dashboard%s%s prints a link that signs it "
               "in)\n",
               s->http, option, value);
    printf("End it with\n  crt stop%s%s\n", option, value);
}

static void say_joined(const started_t *s)
{
    bool is_only = is_only_cluster(s->address);

    printf("This host joined %s: node %.8s, started in %.2f s.\n\nSee what happens "
           "with\n  crt "
           "status%s%s\nEnd this host's part with\n  crt stop%s%s\n",
           s->address, s->node_id, s->seconds, is_only ? "" : " --address ",
           is_only ? "" : s->address, is_only ? "" : " --address ",
           is_only ? "" : s->address);
}

/* ---------------------------------------------------------------- --block */

/* Ends exactly what this command started: not the head that it found on this host. */
static int end_started(started_t *s)
{
    run_dir_t dirs[2] = {0};
    size_t count = 0;

    if (s->run_dir[0])
        snprintf(dirs[count++].dir, sizeof(dirs[0].dir), "%.107s", s->run_dir);
    dirs[0].pid = s->node.pid;
    if (s->head.pid) {
        dirs[count].is_head = true;
        dirs[count].pid = s->head.pid;
        snprintf(dirs[count++].dir, sizeof(dirs[0].dir), "%.107s", s->head_dir);
    }
    for (size_t i = 0; i < count; i++)
        dirs[i].is_living = crti_dir_is_locked(dirs[i].dir);
    return crti_cli_end_run_dirs(dirs, count, false);
}

/* It was drained, or stopped by another command: what it was told to do. */
static bool has_ended_well(int pidfd)
{
    siginfo_t about = {0};

    return waitid(P_PIDFD, (id_t)pidfd, &about, WEXITED | WNOWAIT | WNOHANG) == 0 &&
           about.si_code == CLD_EXITED && about.si_status == 0;
}

static int stay(started_t *s, int signal_fd)
{
    struct pollfd fds[3] = {{.fd = signal_fd, .events = POLLIN},
                            {.fd = s->node.pidfd, .events = POLLIN},
                            {.fd = s->head.pidfd, .events = POLLIN}};
    const char *ended = NULL;
    int result;

    printf("\nStays in the foreground; Ctrl-C ends it.\n");
    fflush(stdout);
    while (poll(fds, 3, -1) < 0 && errno == EINTR)
        continue;
    if (!fds[0].revents && !has_ended_well(fds[fds[1].revents ? 1 : 2].fd))
        ended = fds[1].revents ? "crt-node" : "crt-head";
    /* A killed daemon is a child of this process: reaped, so that it counts as gone. */
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    result = end_started(s);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    if (ended)
        return crti_cli_fail(NAME,
                             "%s ended by itself; the rest was stopped (its log is in "
                             "the state directory)",
                             ended);
    if (result == 0)
        printf("Stopped.\n");
    return result;
}

/* ---------------------------------------------------------------- the command */

static int fail_start(crt_status_t status)
{
    if (status == CRT_ERR_INTERRUPTED) {
        crti_cli_fail(NAME, "interrupted; nothing is left running");
        return 130;
    }
    return crti_cli_fail_detail(NAME);
}

/* What to type next is what the command is for: who can't be told is left with nothing. Neither the
 * node nor the head that this start found is ended. */
static int fail_unheard(started_t *s)
{
    int error = errno;

    if (!s->took_back)
        crti_daemon_undo(&s->node, UNDO_TIMEOUT);
    crti_daemon_undo(&s->head, UNDO_TIMEOUT);
    crti_run_dirs_remove_root();
    clearerr(stdout);
    return crti_cli_fail(NAME, "standard output: %s; nothing is left running",
                         strerror(error));
}

static int run(started_t *s, int signal_fd)
{
    double begin = crti_now_s();
    crt_status_t status = CRT_OK;
    int result;

    if (given->head) {
        unsetenv("CRT_KEY_FILE"); /* that of a cluster to join */
        status = start_head(s, signal_fd);
    } else {
        snprintf(s->address, sizeof(s->address), "%s", given->address);
        result = find_key(s);
        if (result != 0)
            return result;
        find_local_head(s);
    }
    if (status == CRT_OK && !(given->head && take_node_back(s))) {
        status = start_node(s, signal_fd);
    }
    if (status != CRT_OK) {
        crti_daemon_undo(&s->head, UNDO_TIMEOUT);
        crti_run_dirs_remove_root();
        return fail_start(status);
    }
    s->seconds = crti_now_s() - begin;
    if (given->head)
        say_next(s);
    else
        say_joined(s);
    if (fflush(stdout) != 0)
        return fail_unheard(s);
    if (given->block)
        return stay(s, signal_fd);
    return 0;
}

int crti_cli_start(int argc, char **argv)
{
    started_t *s;
    int first = crti_cli_parse(argc, argv, &crti_start_spec);
    int result, signal_fd;

    if (first <= 0)
        return -first;
    result = check_options();
    if (result != 0)
        return result;
    signal_fd = crti_daemon_watch_ends();
    s = calloc(1, sizeof(*s));
    if (signal_fd < 0 || !s) {
        free(s);
        return crti_cli_fail(NAME, "can't watch for Ctrl-C: %s", strerror(errno));
    }
    s->head.pidfd = s->node.pidfd = -1;
    signal(SIGPIPE, SIG_IGN); /* a reader that is gone is told like a full disk */
    result = run(s, signal_fd);
    crti_starter_release(&s->head);
    crti_starter_release(&s->node);
    free(s);
    close(signal_fd);
    return result;
}
