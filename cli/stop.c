/* SPDX-License-Identifier: Apache-2.0 */
/* crt stop: ends this host's part of a cluster, exactly its processes, and checks that nothing is
 * left.
 *
 * Nodes first, so that their jobs and workers end in an orderly way and the head hears of it;
 * then the head; then what killed daemons left behind; then the directories. Each step asks by
 * SIGTERM, and at its deadline kills.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/run_dirs.h"
#include "cli/stop.h"
#include "runtime/base/clock.h"
#include "runtime/base/rundir.h"

#define NAME        "crt stop"
#define MEMBERS_MAX 65536
#define WATCHDOG_MS 6000

#define WAIT_AT_ONCE 512 /* descriptors; more processes are waited for in turns */
#define ROUNDS       5   /* without one process less */

/* One descriptor at a time, however many there are. */
static void signal_all(const member_t *members, size_t count, int signal_number)
{
    for (size_t i = 0; i < count; i++) {
        int fd = crti_member_open(&members[i]);

        if (fd < 0)
            continue;
        syscall(SYS_pidfd_send_signal, fd, signal_number, NULL, 0);
        close(fd);
    }
}

/* Opens what still lives of the next members, as far as room and the limit of open files allow, and
 * returns how many of them were looked at. */
static size_t open_some(const member_t *members, size_t count, struct pollfd *fds,
                        nfds_t *living)
{
    size_t seen = 0;

    for (*living = 0; seen < count && *living < WAIT_AT_ONCE; seen++) {
        int fd = crti_member_open(&members[seen]);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            break;
        if (fd >= 0)
            fds[(*living)++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return seen;
}

/* False: some still live at the deadline. */
static bool await_all(const member_t *members, size_t count, int64_t deadline)
{
    static struct pollfd fds[WAIT_AT_ONCE];
    bool in_time = true;
    nfds_t living;

    while (count > 0 && in_time) {
        size_t seen = open_some(members, count, fds, &living);

        for (nfds_t i = 0; i < living; i++) {
            int64_t left = deadline - crti_now_ms();

            while (in_time && poll(&fds[i], 1, left > 0 ? (int)left : 0) <= 0) {
                left = deadline - crti_now_ms();
                in_time = left > 0;
            }
            close(fds[i].fd);
        }
        if (seen == 0 &&
            (in_time = crti_now_ms() < deadline)) /* not one file may be opened */
            poll(NULL, 0, 10);
        members += seen;
        count -= seen;
    }
    return in_time;
}

/* SIGTERM to all, SIGKILL to those that live at the deadline; returns when all have ended, or 5 s
 * after the kill (a process in the kernel's hands). */
static void end_all(const member_t *members, size_t count, int64_t grace_ms)
{
    signal_all(members, count, SIGTERM);
    if (await_all(members, count, crti_now_ms() + grace_ms))
        return;
    signal_all(members, count, SIGKILL);
    await_all(members, count, crti_now_ms() + 5000);
}

/* The members that `wanted` chooses. */
static size_t choose(const run_dir_t *dirs, size_t count, member_t *members,
                     bool (*wanted)(const member_t *member))
{
    size_t all = crti_members_find(dirs, count, members, MEMBERS_MAX), kept = 0;

    for (size_t i = 0; i < all && i < MEMBERS_MAX; i++)
        if (wanted(&members[i]))
            members[kept++] = members[i];
    return kept;
}

static bool is_node(const member_t *member)
{
    return member->is_daemon && !member->of_head;
}

static bool is_head(const member_t *member)
{
    return member->is_daemon && member->of_head;
}

/* The lock of a node is free when its watchdog has ended too (runtime/node/host/watchdog.h). */
static void await_locks(const run_dir_t *dirs, size_t count)
{
    int64_t deadline = crti_now_ms() + WATCHDOG_MS;

    for (size_t i = 0; i < count; i++)
        crti_run_dir_await_end(dirs[i].dir, deadline - crti_now_ms());
}

static int remove_directories(const run_dir_t *dirs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!crti_run_dir_remove(dirs[i].dir))
            return crti_cli_fail(NAME, "can't remove %s: %s", dirs[i].dir,
                                 strerror(errno));
    crti_run_dirs_remove_root();
    return 0;
}

int crti_cli_end_run_dirs(const run_dir_t *dirs, size_t count, bool force)
{
    int64_t grace = force ? 1000 : 10000;
    member_t *members = calloc(MEMBERS_MAX, sizeof(*members));
    size_t left, before = SIZE_MAX;

    if (!members)
        return crti_cli_fail(NAME, "out of memory");
    end_all(members, choose(dirs, count, members, is_node), grace);
    end_all(members, choose(dirs, count, members, is_head), grace);
    /* What is left had a daemon that was killed. A process may fork while it is ended, and there
     * may be more than there is room for: look again until there is none, or they do not become
     * fewer. */
    for (int round = 0; round < ROUNDS; round++) {
        left = crti_members_find(dirs, count, members, MEMBERS_MAX);
        if (left == 0)
            break;
        if (left < before)
            round = 0;
        before = left;
        end_all(members, left < MEMBERS_MAX ? left : MEMBERS_MAX, force ? 500 : 2000);
    }
    if (left > 0)
        left = crti_members_find(dirs, count, members, MEMBERS_MAX);
    if (left > 0) {
        pid_t pid = members[0].pid;

        free(members);
        return crti_cli_fail(NAME, "%zu processes do not end, one of them has pid %d",
                             left, (int)pid);
    }
    free(members);
    await_locks(dirs, count);
    return remove_directories(dirs, count);
}

/* ---------------------------------------------------------------- which cluster */

/* The one living cluster's address in `address`; false: several live, which was printed. */
static bool choose_cluster(const run_dir_t *dirs, size_t count, char *address,
                           size_t size)
{
    char list[1024] = "";
    size_t found = 0, used = 0;

    for (size_t i = 0; i < count; i++) {
        bool is_new = dirs[i].is_living && dirs[i].address[0];

        for (size_t k = 0; k < i && is_new; k++)
            if (dirs[k].is_living && strcmp(dirs[k].address, dirs[i].address) == 0)
                is_new = false;
        if (!is_new)
            continue;
        found++;
        snprintf(address, size, "%s", dirs[i].address);
        if (used < sizeof(list))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
                                     used ? ", " : "", dirs[i].address);
    }
    if (found > 1)
        crti_cli_fail(
            NAME,
            "several clusters run here (%s): say which with --address or CRT_ADDRESS",
            list);
    return found <= 1;
}

/* A daemon that was killed before it wrote whose it is. One that is about to take its lock has no
 * number there yet. */
static bool is_nameless_and_dead(const run_dir_t *run_dir)
{
    return !run_dir->address[0] && !run_dir->is_living && run_dir->pid > 0;
}

/* Keeps the directories of `address`, and what is left of daemons that did not get as far as to
 * have one. 0: none is of that address. */
static size_t keep(run_dir_t *dirs, size_t count, const char *address)
{
    size_t kept = 0;
    bool is_known = false;

    for (size_t i = 0; i < count; i++) {
        bool is_its =
            dirs[i].address[0] && crt_cluster_same_address(dirs[i].address, address);

        is_known = is_known || is_its;
        if (is_its || is_nameless_and_dead(&dirs[i]))
            dirs[kept++] = dirs[i];
    }
    return is_known ? kept : 0;
}

static bool has_id(const run_dir_t *dir, const char *wanted)
{
    return *wanted && strncmp(dir->node, wanted, strlen(wanted)) == 0;
}

static bool has_name(const run_dir_t *dir, const char *wanted)
{
    return *wanted && dir->is_living && strcmp(dir->name, wanted) == 0;
}

/* Keeps the nodes whose id begins so; when there is none, the living ones of that name. */
static size_t keep_node(run_dir_t *dirs, size_t count, const char *wanted)
{
    bool (*const kinds[])(const run_dir_t *dir, const char *wanted) = {has_id, has_name};
    size_t kept = 0;

    for (size_t k = 0; k < 2 && kept == 0; k++)
        for (size_t i = 0; i < count; i++)
            if (!dirs[i].is_head && kinds[k](&dirs[i], wanted))
                dirs[kept++] = dirs[i];
    return kept;
}

/* What shall not run does not: that is no failure. */
static int say_no_node(const char *node)
{
    printf("No node whose id begins with %s, or of that name, runs on this host.\n",
           node);
    return 0;
}

static void say_stopped(const run_dir_t *dirs, size_t count, const char *address)
{
    size_t nodes = 0, heads = 0;

    for (size_t i = 0; i < count; i++) {
        heads += dirs[i].is_head && dirs[i].is_living;
        nodes += !dirs[i].is_head && dirs[i].is_living;
    }
    if (!*address) /* it was ended before it wrote whose it is */
        address = "a cluster";
    if (heads + nodes == 0)
        printf("No daemon of %s ran here; removed what was left of it.\n", address);
    else
        printf("Stopped %zu node%s%s of %s.\n", nodes, nodes == 1 ? "" : "s",
               heads ? " and the head" : "", address);
}

static void say_none(const run_dir_t *dirs, size_t count)
{
    size_t i = 0;

    while (i < count && !(dirs[i].is_living && dirs[i].address[0]))
        i++;
    if (i == count)
        printf("No cluster runs on this host.\n");
    else
        printf(
            "No cluster of CRT_STATE_DIR=%s runs on this host; the one of another state "
            "directory is %s.\n",
            getenv("CRT_STATE_DIR"), dirs[i].address);
}

/* Who says by CRT_KEY_FILE which cluster he means must mean this one, while it lives. */
static bool is_key_of(const char *address)
{
    const char *given = getenv("CRT_KEY_FILE");
    crt_cluster_info_t info;

    return !*address || !given || !*given ||
           crt_cluster_find(address, sizeof(info), &info) != CRT_ERR_PERMISSION;
}

/* A node that the autoscaler of a cluster file ends, if it has not ended by itself: crt down
 * removes its logs, by this list. */
static void note_ended(const char *node)
{
    const char *cluster = getenv("CRT_UP");
    char state[PATH_MAX], path[PATH_MAX + 300];
    FILE *file;

    if (!cluster || !*cluster || crti_state_dir(state, sizeof(state)) != CRT_OK ||
        snprintf(path, sizeof(path), "%s/up/%s/ended", state, cluster) >=
            (int)sizeof(path) ||
        !(file = fopen(path, "ae")))
        return;
    fprintf(file, "node-%.8s\n", node);
    fclose(file);
}

/* Of the cluster whose head is at `address` (NULL: the only one here), or one node of it. */
static int stop(run_dir_t *dirs, const char *address, const char *node, bool by_force)
{
    size_t count = crti_run_dirs_find(NULL, dirs), kept;
    char chosen[72] = "", run[PATH_MAX];
    int result;

    if (crti_run_dir(run, sizeof(run)) != CRT_OK) /* what runs there is not seen */
        return crti_cli_fail_detail(NAME);
    if (!address && (kept = crti_run_dirs_keep_own(dirs, count)) == 0) {
        say_none(dirs, count);
        return 0;
    }
    count = address ? count : kept;
    if (address)
        snprintf(chosen, sizeof(chosen), "%s", address);
    else if (!choose_cluster(dirs, count, chosen, sizeof(chosen)))
        return CLI_FAILED;
    if (!is_key_of(chosen))
        return crti_cli_fail_detail(NAME);
    if (*chosen) /* else all are dead, and all go */
        count = keep(dirs, count, chosen);
    if (count == 0)
        return crti_cli_fail(NAME, "no node or head of the cluster %s runs on this host",
                             address);
    if (node && (count = keep_node(dirs, count, node)) == 0)
        return say_no_node(node);
    if (node && count > 1)
        return crti_cli_fail(NAME,
                             "%zu nodes here have an id that begins with %s, or that "
                             "name; give the begin of an id",
                             count, node);
    result = crti_cli_end_run_dirs(dirs, count, by_force);
    if (result == 0)
        say_stopped(dirs, count, chosen);
    return result;
}

int crti_cli_stop(int argc, char **argv)
{
    static const char *address, *node;
    static bool force;
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"node", 0, "NODE", OPTION_TEXT, &node,
         "only the node whose id begins so, or of that name, and not the head"},
        {"force", 'f', NULL, OPTION_FLAG, &force,
         "kill after 1 s what does not end by itself (default 10 s)"}};
    static const command_spec_t spec = {
        .name = NAME,
        .summary =
            "Ends this host's nodes of a cluster, and its head if that is here: daemons, "
            "workers\nand jobs, sockets and directories. Checks that nothing is left.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    int first = crti_cli_parse(argc, argv, &spec), result;
    run_dir_t *dirs;

    if (first <= 0)
        return -first;
    if (!address)
        address = getenv("CRT_ADDRESS");
    if (address && !*address)
        address = NULL;
    if (address && !crti_option_is_address(address))
        return crti_cli_misused(NAME, "CRT_ADDRESS is HOST:PORT, not \"%s\"", address);
    if (node)
        note_ended(node);
    dirs = calloc(RUN_DIRS_MAX, sizeof(*dirs));
    if (!dirs)
        return crti_cli_fail(NAME, "no memory for the list of run directories");
    result = stop(dirs, address, node, force);
    free(dirs);
    return result;
}
