/* SPDX-License-Identifier: Apache-2.0 */
/* A node daemon for tests of the command: takes crt-node's options, has its directory, lock and
 * info file, and a "worker" that ends with it.
 *
 * FAKE_NODE in the environment: "error TEXT" is told as a failed start, "crash" exits with a word
 * on stderr only, "hang" makes the file node-hangs in the state directory and never becomes ready,
 * "stubborn" ignores SIGTERM, "litter" leaves a grandchild in a session of its own that ignores
 * SIGTERM, as user code may.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/id.h"
#include "runtime/base/rundir.h"
#include "runtime/daemon/daemon_options.h"
#include "runtime/node/options.h"

static struct {
    crti_node_given_t given;
    char run[256];
} node;

static void fail(const char *text)
{
    if (dprintf(node.given.ready_fd, "error %s\n", text) < 0)
        exit(3);
    exit(1);
}

static void parse(int argc, char **argv)
{
    crti_node_given_t *o = &node.given;
    const option_spec_t table[] = {CRTI_NODE_TABLE(CRTI_OPTION_ROW)};
    option_scan_t scan = {.options = table, .count = sizeof(table) / sizeof(table[0])};

    o->head_dir = "";
    if (crti_daemon_options(&scan, argc, argv) != CRT_OK)
        exit(2);
}

/* Executes a shell that waits; `stays` outlives the daemon, until somebody kills it. Comes back
 * when it was executed: before, nothing tells it from this process. */
static pid_t run_child(bool stays)
{
    pid_t pid, parent = getpid();
    int executed[2];
    char byte;

    if (pipe2(executed, O_CLOEXEC) != 0)
        fail("no pipe");
    pid = fork();
    if (pid == 0) {
        setenv("CRT_NODE_DIR", node.run, 1);
        if (stays)
            setsid();
        else
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!stays && getppid() != parent)
            _exit(1);
        execl("/bin/sh", "sh", "-c",
              stays ? "trap '' TERM; while :; do sleep 1000; done" : "exec sleep 1000",
              NULL);
        _exit(127);
    }
    close(executed[1]);
    while (read(executed[0], &byte, 1) > 0)
        continue;
    close(executed[0]);
    return pid;
}

static void write_info(const char *id)
{
    char path[300], pid[16], start[32], state[200], own_state[256];
    uint64_t ticks = 0;

    crti_process_start(getpid(), &ticks);
    if (crti_state_dir(state, sizeof(state)) != CRT_OK)
        fail(crt_error_detail());
    snprintf(own_state, sizeof(own_state), "%s/node-%.8s", state, id);
    snprintf(path, sizeof(path), "%s/node.info", node.run);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    snprintf(start, sizeof(start), "%llu", (unsigned long long)ticks);
    if (crti_info_write(path,
                        (crti_info_entry_t[]){{"pid", pid},
                                              {"start", start},
                                              {"node", id},
                                              {"address", node.given.address},
                                              {"node_ip", "127.0.0.1"},
                                              {"head_dir", node.given.head_dir},
                                              {"key_file", node.given.key_file},
                                              {"state_dir", own_state},
                                              {"private", "0"}},
                        9) != CRT_OK)
        fail(crt_error_detail());
}

static void hang(void)
{
    char state[200], path[256];
    int fd;

    if (crti_state_dir(state, sizeof(state)) != CRT_OK)
        fail(crt_error_detail());
    snprintf(path, sizeof(path), "%s/node-hangs", state);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        fail("no file in the state directory");
    for (;;)
        pause();
}

static volatile sig_atomic_t ends;

static void on_term(int signal_number)
{
    ends = 1;
}

static void serve(pid_t worker)
{
    sigset_t blocked, open;
    char command[300];

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &open);
    while (!ends)
        sigsuspend(&open);
    kill(worker, SIGKILL);
    waitpid(worker, NULL, 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", node.run);
    exit(system(command) != 0);
}

int main(int argc, char **argv)
{
    const char *mode = getenv("FAKE_NODE");
    char run[200], id[CRTI_ID_HEX];
    pid_t worker;
    int lock;

    mode = mode ? mode : "";
    parse(argc, argv);
    fcntl(node.given.ready_fd, F_SETFD, FD_CLOEXEC);
    if (strncmp(mode, "error ", 6) == 0)
        fail(mode + 6);
    if (strcmp(mode, "crash") == 0) {
        fprintf(stderr, "first line\nsomething broke\n");
        return 1;
    }
    if (strcmp(mode, "hang") == 0)
        hang();
    signal(SIGTERM, strcmp(mode, "stubborn") == 0 ? SIG_IGN : on_term);
    setsid();
    crti_id_hex(crti_id_random(), id);
    if (crti_run_dir(run, sizeof(run)) != CRT_OK)
        fail(crt_error_detail());
    snprintf(node.run, sizeof(node.run), "%s/node-%.8s", run, id);
    if (crti_dir_make(node.run) != CRT_OK || crti_dir_lock(node.run, &lock) != CRT_OK)
        fail(crt_error_detail());
    worker = run_child(false);
    if (strcmp(mode, "litter") == 0)
        run_child(true);
    write_info(id);
    if (dprintf(node.given.ready_fd, "ready node %s run_dir %s\n", id, node.run) < 0)
        return 1;
    close(node.given.ready_fd);
    serve(worker);
    return 0;
}
