/* SPDX-License-Identifier: Apache-2.0 */
/* crt slurm: a program on a cluster that lasts as long as it does, on the nodes of a Slurm job.
 *
 * Where it sits
 *     crt slurm [OPTIONS OF srun] -- PROG -> [ cli/slurm.c ] -> srun -> on each node
 *     crt slurm-node (cli/slurm_node.c) -> cli/private.c
 * How the nodes find each other
 *     The first one starts the head, at any free port, and says address and key by standard output;
 *     this process gives both to all of them by standard input. The key is sealed for this process
 *     on its first way (crypto_box_seal), so that no file of outputs can hold it.
 * Failure
 *     Standard input of the nodes stays open as long as the cluster is to run: when this process
 *     ends, by kill -9 or scancel too, all end. A node that dies is one that the cluster lost.
 */
#include <errno.h>
#include <fcntl.h>
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

#include <sodium.h>

#include "cli/daemon.h"
#include "cli/options.h"
#include "cli/slurm.h"
#include "runtime/base/clock.h"
#include "runtime/base/spawn_attributes.h"

#define NAME        "crt slurm"
#define ARGS_MAX    512
#define GRACE_MS    20000
#define INTERRUPTED 130
#define LINE_MOST   1024

extern char **environ;

static struct {
    pid_t pid;
    int pidfd, input, output, signal_fd;
    int64_t kill_at; /* 0: was not told to end */
    bool interrupted;
    unsigned char public_key[crypto_box_PUBLICKEYBYTES];
    unsigned char secret_key[crypto_box_SECRETKEYBYTES];
    char line[LINE_MOST];
    size_t used;
} job = {.input = -1, .output = -1};

/* ---------------------------------------------------------------- srun */

/* What a user says of output and input would take away what the nodes and this process tell each
 * other. */
static const char *refused(char **argv, int count)
{
    static const char *const names[] = {"-o",    "--output", "-i",     "--input",
                                        "--pty", "-l",       "--label"};

    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            size_t length = strlen(names[k]);
            bool is_long = names[k][1] == '-';

            if (strncmp(argv[i], names[k], length) == 0 &&
                (!is_long || !argv[i][length] || argv[i][length] == '='))
                return argv[i];
        }
    return NULL;
}

static int spawn_srun(const char *const *argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int input[2], output[2], failed;

    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
        return errno;
    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0); /* Ctrl-C comes by this process */
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    failed = posix_spawnp(&job.pid, argv[0], &actions, &attributes,
                          (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(input[0]);
    close(output[1]);
    job.input = input[1];
    job.output = output[0];
    if (!failed)
        job.pidfd = (int)syscall(SYS_pidfd_open, job.pid, 0);
    return failed;
}

static int start(char **options, int count, char **program, int program_count)
{
    /* A node that is lost does not end the others; one task for each. */
    static const char *const own[] = {"srun",      "--ntasks-per-node=1",
                                      "--no-kill", "--kill-on-bad-exit=0",
                                      "--wait=0",  "--unbuffered"};
    char key[2 * sizeof(job.public_key) + 1];
    const char *argv[ARGS_MAX];
    static char self[PATH_MAX];
    size_t used = 0;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int failed;

    if (n <= 0 || count + program_count > ARGS_MAX - 16)
        return crti_cli_fail(NAME, "too many arguments");
    if (crypto_box_keypair(job.public_key, job.secret_key) != 0)
        return crti_cli_fail(NAME, "can't make a key");
    sodium_bin2hex(key, sizeof(key), job.public_key, sizeof(job.public_key));
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        argv[used++] = own[i];
    for (int i = 0; i < count; i++)
        argv[used++] = options[i];
    argv[used++] = self;
    argv[used++] = "slurm-node";
    argv[used++] = key;
    for (int i = 0; i < program_count; i++)
        argv[used++] = program[i];
    argv[used] = NULL;
    failed = spawn_srun(argv);
    return failed ? crti_cli_fail(NAME, "can't execute srun: %s%s", strerror(failed),
                                  failed == ENOENT ? " (is this a host of Slurm?)" : "")
                  : 0;
}

/* ---------------------------------------------------------------- what the nodes say */

static void close_input(void)
{
    if (job.input >= 0)
        close(job.input);
    job.input = -1;
}

static void ask_to_end(void)
{
    close_input();
    if (!job.kill_at)
        job.kill_at = crti_now_ms() + GRACE_MS;
}

/* "ADDRESS SEALED" of the head, to all nodes as "ADDRESS KEY". */
static void tell_all(const char *words)
{
    unsigned char sealed[64 + crypto_box_SEALBYTES];
    char address[128], hex[2 * sizeof(sealed) + 1], text[256];
    unsigned char key[65] = "";
    size_t size;
    int length;

    if (sscanf(words, "%127s %224s", address, hex) != 2 ||
        sodium_hex2bin(sealed, sizeof(sealed), hex, strlen(hex), NULL, &size, NULL) !=
            0 ||
        size != sizeof(sealed) || !crti_option_is_address(address) ||
        crypto_box_seal_open(key, sealed, size, job.public_key, job.secret_key) != 0) {
        crti_cli_fail(NAME, "what the first node says is not understood");
        ask_to_end();
        return;
    }
    length = snprintf(text, sizeof(text), "%s %s\n", address, (const char *)key);
    if (write(job.input, text, (size_t)length) != length)
        ask_to_end(); /* srun ends, and says why */
    explicit_bzero(key, sizeof(key));
    explicit_bzero(text, sizeof(text));
}

static void end_line(void)
{
    job.line[job.used] = '\0';
    if (strncmp(job.line, SLURM_HEAD, strlen(SLURM_HEAD)) == 0)
        tell_all(job.line + strlen(SLURM_HEAD));
    else if (strcmp(job.line, SLURM_DONE) == 0)
        close_input();
    job.used = 0;
}

/* Output of the program is passed on as it comes, without what the first node says. */
static void take(const char *bytes, size_t size)
{
    static const char mark[] = SLURM_MARK;

    for (size_t i = 0; i < size; i++) {
        size_t known = job.used < strlen(mark) ? job.used : strlen(mark);
        bool is_marked = job.used >= strlen(mark);

        if (is_marked && bytes[i] == '\n') {
            end_line();
            continue;
        }
        job.line[job.used++] = bytes[i];
        if (job.used < LINE_MOST - 1 && (is_marked || bytes[i] == mark[known]))
            continue;
        fwrite(job.line, 1, job.used, stdout);
        job.used = 0;
    }
    fflush(stdout);
}

/* ---------------------------------------------------------------- until it has ended */

static void read_output(struct pollfd *output)
{
    char bytes[16384];
    ssize_t n = read(job.output, bytes, sizeof(bytes));

    if (n > 0)
        take(bytes, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        output->fd = -1;
}

static void check_time(void)
{
    if (!job.kill_at || crti_now_ms() < job.kill_at)
        return;
    kill(job.pid, job.interrupted ? SIGTERM : SIGKILL);
    job.interrupted = false; /* the next time it is killed */
    job.kill_at += GRACE_MS;
}

static int attend(void)
{
    struct pollfd fds[3] = {{.fd = job.pidfd, .events = POLLIN},
                            {.fd = job.output, .events = POLLIN},
                            {.fd = job.signal_fd, .events = POLLIN}};
    bool was_interrupted = false;
    int how = 0;

    while (!fds[0].revents) {
        int64_t left = job.kill_at - crti_now_ms();

        fds[0].revents = fds[1].revents = fds[2].revents = 0;
        poll(fds, 3, job.kill_at ? (left > 0 ? (int)left : 0) : -1);
        if (fds[1].revents)
            read_output(&fds[1]);
        if (fds[2].revents) {
            fds[2].fd = -1;
            was_interrupted = job.interrupted = true;
            ask_to_end();
        }
        check_time();
    }
    fcntl(job.output, F_SETFL, O_NONBLOCK);
    while (fds[1].fd >= 0) {
        char bytes[16384];
        ssize_t n = read(job.output, bytes, sizeof(bytes));

        if (n <= 0)
            break;
        take(bytes, (size_t)n);
    }
    fwrite(job.line, 1, job.used, stdout);
    while (waitpid(job.pid, &how, 0) < 0 && errno == EINTR)
        continue;
    close_input();
    if (was_interrupted)
        return INTERRUPTED;
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

int crti_cli_slurm(int argc, char **argv)
{
    static const command_spec_t spec = {
        .name = NAME,
        .operands = "[OPTIONS OF srun] -- PROGRAM [ARGUMENTS]",
        .summary =
            "Runs a program on a cluster of the nodes of a Slurm job, which ends with "
            "it: inside of\nan allocation (sbatch, salloc), or in one that srun makes. "
            "The program runs on the first\nnode, when all have joined."};
    const char *wrong;
    int first = 1, result;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return -crti_cli_parse(argc, argv, &spec);
    while (first < argc && strcmp(argv[first], "--") != 0)
        first++;
    if (first + 1 >= argc)
        return crti_cli_misused(NAME, "which program? -- PROGRAM");
    wrong = refused(argv + 1, first - 1);
    if (wrong)
        return crti_cli_misused(NAME, "%s is what crt slurm sees to", wrong);
    if (sodium_init() < 0)
        return crti_cli_fail(NAME, "libsodium can't be used");
    job.signal_fd = crti_daemon_watch_ends();
    if (job.signal_fd < 0)
        return crti_cli_fail(NAME, "signalfd: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    result = start(argv + 1, first - 1, argv + first + 1, argc - first - 1);
    return result ? result : attend();
}
