/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends the daemons of a private cluster. See private_cluster.h. */
#include "runtime/core/client/private_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/number_text.h"
#include "runtime/base/rundir.h"
#include "runtime/base/spawn_attributes.h"
#include "runtime/core/types.h"
#include "runtime/crt_tools.h"

#define START_DEADLINE (30 * CRTI_S)
#define STOP_DEADLINE  (10 * CRTI_S)
#define CRASH_MS       1000
#define ARGUMENTS_MAX  32
#define FD_READY       3 /* numbers in the daemon */
#define FD_LIFELINE    4

extern char **environ;

typedef struct command {
    const char *argv[ARGUMENTS_MAX];
    int count;
    char path[PATH_MAX];
} command_t;

/* `value` NULL: a flag. */
static void add(command_t *command, const char *option, const char *value)
{
    command->argv[command->count++] = option;
    if (value)
        command->argv[command->count++] = value;
    command->argv[command->count] = NULL;
}

/* Both ends are above the numbers they get in the daemon, so that no dup2 hits the other. */
static crt_status_t make_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) < 0)
        return crt_raise(CRT_ERR_IO, "private cluster: pipe: %s", strerror(errno));
    ends[0] = fcntl(low[0], F_DUPFD_CLOEXEC, FD_LIFELINE + 1);
    ends[1] = fcntl(low[1], F_DUPFD_CLOEXEC, FD_LIFELINE + 1);
    close(low[0]);
    close(low[1]);
    if (ends[0] >= 0 && ends[1] >= 0)
        return CRT_OK;
    crti_close_auto(&ends[0]);
    crti_close_auto(&ends[1]);
    return crt_raise(CRT_ERR_IO, "private cluster: pipe: %s", strerror(errno));
}

/* A daemon with default signals and no descriptor of ours but the two pipes. */
static int spawn_daemon(const command_t *command, int ready, int lifeline, pid_t *pid_out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed;

    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, 0);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ready, FD_READY);
    posix_spawn_file_actions_adddup2(&actions, lifeline, FD_LIFELINE);
    failed = posix_spawn(pid_out, command->path, &actions, &attributes,
                         (char *const *)(uintptr_t)command->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

/* It has closed its pipe, so it ends at once; whoever ends the cluster reaps it. */
static crt_status_t crashed(pid_t pid, const char *name)
{
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    siginfo_t how = {0};

    poll(&ended, 1, CRASH_MS);
    if (ended.fd >= 0)
        close(ended.fd);
    if (waitid(P_PID, (id_t)pid, &how, WEXITED | WNOWAIT | WNOHANG) == 0 &&
        (how.si_code == CLD_KILLED || how.si_code == CLD_DUMPED))
        return crt_raise(CRT_ERR_IO,
                         "%s ended before it served (killed by signal %d: %s)", name,
                         how.si_status, strsignal(how.si_status));
    return crt_raise(CRT_ERR_IO, "%s ended before it served", name);
}

/* Reads the one line that a daemon writes when it serves, or why it can't. */
static crt_status_t read_ready(int fd, pid_t pid, const char *name, char *line,
                               size_t size)
{
    uint64_t deadline = crti_now_ns() + START_DEADLINE;
    size_t used = 0;

    while (used < size - 1) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        uint64_t now = crti_now_ns();
        ssize_t n;

        if (now >= deadline)
            return crt_raise(CRT_ERR_TIMED_OUT, "%s does not serve after 30 s", name);
        if (poll(&waiting, 1, (int)((deadline - now) / CRTI_MS) + 1) < 0 &&
            errno == EINTR)
            continue;
        if (!waiting.revents)
            continue;
        n = read(fd, line + used, size - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    line[used] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "error ", 6) == 0)
        return crt_raise(CRT_ERR_IO, "%s", line + 6);
    if (strncmp(line, "ready", 5) != 0)
        return crashed(pid, name);
    return CRT_OK;
}

static crt_status_t start_daemon(command_t *command, const char *name, int lifeline,
                                 pid_t *pid_out, char *line, size_t size)
{
    int ready[2], failed;
    crt_status_t status = make_pipe(ready);

    if (status != CRT_OK)
        return status;
    failed = spawn_daemon(command, ready[1], lifeline, pid_out);
    close(ready[1]);
    if (failed) {
        *pid_out = 0;
        status = crt_raise(CRT_ERR_IO, "can't execute %s: %s", command->path,
                           strerror(failed));
    } else {
        status = read_ready(ready[0], *pid_out, name, line, size);
    }
    close(ready[0]);
    return status;
}

static crt_status_t start_head(crti_private_cluster_t *cluster, int lifeline,
                               bool has_dashboard, char *head_dir, size_t size)
{
    command_t command = {.argv = {"crt-head"}, .count = 1};
    const char *colon = strrchr(cluster->address, ':');
    char line[4096], port[8] = "0";
    crt_status_t status =
        crti_daemon_path("crt-head", command.path, sizeof(command.path));

    if (status != CRT_OK)
        return status;
    if (colon) /* of one that was killed */
        snprintf(port, sizeof(port), "%s", colon + 1);
    add(&command, "--port", port);
    add(&command, "--node-ip-address", "127.0.0.1");
    if (has_dashboard)
        add(&command, "--dashboard-port", "0");
    else
        add(&command, "--no-dashboard", NULL);
    add(&command, "--private", cluster->directory);
    add(&command, "--ready-fd", "3");
    add(&command, "--lifeline-fd", "4");
    status =
        start_daemon(&command, "crt-head", lifeline, &cluster->head, line, sizeof(line));
    if (status != CRT_OK)
        return status;
    crti_ready_get(line, "address", cluster->address, sizeof(cluster->address));
    crti_ready_get(line, "key_file", cluster->key_file, sizeof(cluster->key_file));
    crti_ready_get(line, "head_dir", head_dir, size);
    return CRT_OK;
}

static void add_resources(command_t *command, const crti_private_wish_t *wish,
                          char amounts[2][32])
{
    if (wish->num_cpus != 0) {
        crti_format(amounts[0], 32, "%.4f", wish->num_cpus > 0 ? wish->num_cpus : 0.0);
        add(command, "--num-cpus", amounts[0]);
    }
    if (wish->resources && wish->resources[0])
        add(command, "--resources", wish->resources);
    if (wish->store_bytes) {
        snprintf(amounts[1], 32, "%llu", (unsigned long long)wish->store_bytes);
        add(command, "--object-store-memory", amounts[1]);
    }
}

/* The address of one that joins a head elsewhere is the one by which it reaches that head. */
static crt_status_t start_node(crti_private_cluster_t *cluster, int lifeline,
                               const crti_private_wish_t *wish, const char *head_dir)
{
    command_t command = {.argv = {"crt-node"}, .count = 1};
    char line[4096], amounts[2][32], share[16];
    crt_status_t status =
        crti_daemon_path("crt-node", command.path, sizeof(command.path));

    if (status != CRT_OK)
        return status;
    snprintf(share, sizeof(share), "%u", wish->nodes);
    add(&command, "--address", cluster->address);
    add(&command, "--key-file", cluster->key_file);
    if (!wish->address) {
        add(&command, "--node-ip-address", "127.0.0.1");
        add(&command, "--head-dir", head_dir);
    }
    add(&command, "--private", cluster->directory);
    add(&command, "--ready-fd", "3");
    add(&command, "--lifeline-fd", "4");
    add(&command, "--share", share);
    add_resources(&command, wish, amounts);
    status = start_daemon(&command, "crt-node", lifeline, &cluster->nodes[cluster->count],
                          line, sizeof(line));
    cluster->count += cluster->nodes[cluster->count] != 0;
    if (status != CRT_OK)
        return status;
    if (cluster->count == 1)
        crti_ready_get(line, "run_dir", cluster->run_dir, sizeof(cluster->run_dir));
    return CRT_OK;
}

static crt_status_t make_directory(crti_private_cluster_t *cluster)
{
    char run[PATH_MAX];
    crt_status_t status = crti_run_dir(run, sizeof(run));

    if (status == CRT_OK)
        status = crti_dir_make(run);
    if (status != CRT_OK)
        return status;
    if (snprintf(cluster->directory, sizeof(cluster->directory), "%s/private-XXXXXX",
                 run) >= (int)sizeof(cluster->directory)) {
        cluster->directory[0] = '\0';
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "%s is too long for sockets below it: set CRT_RUN_DIR", run);
    }
    if (mkdtemp(cluster->directory) == NULL) {
        cluster->directory[0] = '\0';
        return crt_raise(CRT_ERR_IO, "private cluster: directory below %s: %s", run,
                         strerror(errno));
    }
    return CRT_OK;
}

static crt_status_t take_head(crti_private_cluster_t *cluster,
                              const crti_private_wish_t *wish)
{
    char path[PATH_MAX];

    if (!realpath(wish->key_file, path))
        return crt_raise(CRT_ERR_NOT_FOUND, "the key file %s: %s", wish->key_file,
                         strerror(errno));
    if (snprintf(cluster->key_file, sizeof(cluster->key_file), "%s", path) >=
        (int)sizeof(cluster->key_file))
        return crt_raise(CRT_ERR_TOO_LARGE, "the path of the key file %s is too long",
                         path);
    snprintf(cluster->address, sizeof(cluster->address), "%s", wish->address);
    return CRT_OK;
}

crt_status_t crti_private_cluster_make(const crti_private_wish_t *wish,
                                       crti_private_cluster_t *cluster_out)
{
    crti_private_cluster_t cluster = {.lifeline = -1};
    char head_dir[96] = "";
    int lifeline[2] = {-1, -1};
    crt_status_t status = make_directory(&cluster);

    if (status == CRT_OK)
        status = make_pipe(lifeline);
    cluster.lifeline = lifeline[1];
    if (status == CRT_OK && wish->address)
        status = take_head(&cluster, wish);
    else if (status == CRT_OK)
        status = start_head(&cluster, lifeline[0], wish->has_dashboard, head_dir,
                            sizeof(head_dir));
    while (status == CRT_OK && cluster.count < wish->nodes)
        status = start_node(&cluster, lifeline[0], wish, head_dir);
    crti_close_auto(&lifeline[0]);
    if (status != CRT_OK) {
        crti_private_cluster_stop(&cluster); /* keeps the detail: it raises nothing */
        return status;
    }
    *cluster_out = cluster;
    return CRT_OK;
}

crt_status_t crti_private_cluster_start(const crt_options_t *options,
                                        crti_private_cluster_t *cluster_out)
{
    crti_private_wish_t wish = {.nodes = 1};

    if (options) {
        wish.num_cpus = options->num_cpus;
        wish.resources = options->resources;
        wish.store_bytes = options->object_store_memory;
    }
    return crti_private_cluster_make(&wish, cluster_out);
}

crt_status_t crti_private_head_start(crti_private_cluster_t *cluster)
{
    int lifeline[2] = {-1, -1};
    char head_dir[96];
    crt_status_t status = cluster->directory[0] ? CRT_OK : make_directory(cluster);

    if (status == CRT_OK)
        status = make_pipe(lifeline);
    crti_close_auto(&cluster->lifeline);
    cluster->lifeline = lifeline[1];
    if (status == CRT_OK)
        status = start_head(cluster, lifeline[0], false, head_dir, sizeof(head_dir));
    crti_close_auto(&lifeline[0]);
    return status;
}

/* Waits until the process ended and takes its status, whoever else waits for children. */
static void await_end(pid_t pid, uint64_t deadline)
{
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

    while (ended.fd >= 0) {
        uint64_t now = crti_now_ns();
        int left = now < deadline ? (int)((deadline - now) / CRTI_MS) + 1 : 0;
        int n = poll(&ended, 1, left);

        if (n > 0 || (n < 0 && errno != EINTR))
            break;
        if (n == 0)
            kill(pid, SIGKILL);
    }
    if (ended.fd >= 0)
        close(ended.fd);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static int remove_entry(const char *path, const struct stat *unused_stat, int type,
                        struct FTW *walk)
{
    remove(path); /* go on after a failure: what stays can be seen there */
    return 0;
}

void crti_private_cluster_stop(crti_private_cluster_t *cluster)
{
    uint64_t deadline = crti_now_ns() + STOP_DEADLINE;

    crti_close_auto(&cluster->lifeline);
    cluster->lifeline = -1;
    for (unsigned i = 0; i < cluster->count; i++)
        await_end(cluster->nodes[i], deadline);
    if (cluster->head)
        await_end(cluster->head, deadline);
    if (cluster->directory[0])
        nftw(cluster->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    *cluster = (crti_private_cluster_t){.lifeline = -1};
}
