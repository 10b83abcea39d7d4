/* SPDX-License-Identifier: Apache-2.0 */
/* crt run: a private cluster for one program on this host, gone when the program ends; and programs
 * in several processes, on a private cluster or another one.
 *
 * Where it sits
 *     crt run -- PROG -> [ cli/run.c ] -> cli/private.c -> crt-head, crt-node ...
 *                                      -> PROG, with CRT_ADDRESS; CRT_RANKS (core/client/ranks.c)
 * Who ends whom
 *     PROG ends: its cluster is ended, and whatever PROG left behind: it has the first node's
 *     CRT_NODE_DIR in its environment, and so have its children.
 *     This process is killed: the kernel kills PROG (parent-death signal), the lifeline ends the
 *     daemons, the node's watchdog ends what PROG left behind.
 *     Signals: those that are typed reach PROG by themselves, others are passed on to it. PROG
 *     decides what an interrupt means; after SIGTERM or SIGHUP it is killed when it does not end.
 *     With --address there is no cluster to end: that of the address ends what ran for PROG.
 * Ranks
 *     A program that does not call crt_main would run once, and nobody would notice. So there is a
 *     file which crt_main removes when it takes CRT_RANKS; when it is still there at the end, that
 *     is said.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/daemon.h"
#include "cli/options.h"
#include "cli/private.h"
#include "runtime/base/clock.h"

#define NAME          "crt run"
#define GRACE_MS      10000
#define CANNOT_RUN    126 /* exit statuses as shells have them */
#define NOT_FOUND     127
#define KILLED_BY     128
#define INTERRUPTED   130
#define RANKS_MAX     1024
#define SIGNALS_COUNT (sizeof(passed_on) / sizeof(passed_on[0]))

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static struct {
    const char *nodes, *num_cpus, *num_gpus, *resources, *ranks, *address, *store_bytes;
    bool tag_output;
} given;

static const option_spec_t options[] = {
    {"nodes", 'n', "N", OPTION_COUNT, &given.nodes, "node daemons; default: 1"},
    {"num-cpus", 0, "N", OPTION_AMOUNT, &given.num_cpus,
     "CPUs of each node; default: those of the machine, divided"},
    {"num-gpus", 0, "N", OPTION_AMOUNT, &given.num_gpus,
     "GPUs of each node; default: those of the machine for one node, else none"},
    {"resources", 0, "K=V,...", OPTION_RESOURCES, &given.resources,
     "more resources of each node, for example tape=1,disk=2"},
    {"object-store-memory", 0, "BYTES", OPTION_BYTES, &given.store_bytes,
     "object store of each node; default: 30 % of memory, divided"},
    {"ranks", 0, "N", OPTION_COUNT, &given.ranks,
     "run the program's driver in N processes, a group; the first that fails ends all"},
    {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &given.address,
     "with --ranks: on the cluster whose head is there"},
    {"tag-output", 0, NULL, OPTION_FLAG, &given.tag_output,
     "with --ranks: [1,RANK]<stdout>: before each line"}};

static const command_spec_t spec = {
    .name = NAME,
    .operands = "[--] PROGRAM [ARGUMENTS]",
    .stops_at_operand = true,
    .summary =
        "Runs a program on a cluster of its own, on this host: a head and as many "
        "node daemons\nas asked for, gone when the program ends. The exit status "
        "is the program's.\nWith --ranks the program runs in as many processes, as "
        "by mpirun, also on a cluster of\nseveral hosts (--address).",
    .options = options,
    .count = sizeof(options) / sizeof(options[0])};

/* ---------------------------------------------------------------- the program */

static char ranks_mark[160]; /* removed by crt_main */

static bool make_mark(const char *dir)
{
    int fd;

    snprintf(ranks_mark, sizeof(ranks_mark), "%s/crt-ranks-XXXXXX", dir);
    fd = mkostemp(ranks_mark, O_CLOEXEC);
    if (fd < 0) {
        crti_cli_fail(NAME, "can't make a file in %s: %s", dir, strerror(errno));
        return false;
    }
    close(fd);
    return true;
}

/* After the end of the program. */
static int check_mark(const char *program, int result)
{
    if (!given.ranks || unlink(ranks_mark) != 0 || result != 0)
        return result;
    return crti_cli_fail(
        NAME,
        "%s has not called crt_main, which makes the ranks: it ran once, as "
        "itself. --ranks is for programs whose main calls crt_main",
        program);
}

static void set_ranks(void)
{
    if (given.ranks) {
        setenv("CRT_RANKS", given.ranks, 1);
        setenv("CRT_RANKS_MARK", ranks_mark, 1);
    }
    if (given.tag_output)
        setenv("CRT_TAG_OUTPUT", "1", 1);
}

/* What it must know of its cluster, and must not know of others. */
static void set_environment(const crti_private_cluster_t *cluster)
{
    static const char *const others[] = {
        "CRT_HTTP",     "CRT_TOKEN",       "CRT_JOB",       "CRT_SUBMISSION",
        "CRT_HEAD_DIR", "CRT_NODE_SOCKET", "CRT_ZYGOTE_FD", "CRT_WORKER"};

    set_ranks();
    if (given.address) {
        setenv("CRT_ADDRESS", given.address, 1);
        return;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        unsetenv(others[i]);
    setenv("CRT_ADDRESS", cluster->address, 1);
    setenv("CRT_KEY_FILE", cluster->key_file, 1);
    setenv("CRT_NODE_DIR", cluster->nodes[0].run_dir, 1);
}

static int execute(char **argv)
{
    int error;

    execvp(argv[0], argv);
    error = errno;
    crti_cli_fail(NAME, "can't execute %s: %s", argv[0], strerror(error));
    return error == ENOENT ? NOT_FOUND : CANNOT_RUN;
}

/* In the child: with the signals that this process was started with. */
static _Noreturn void become(char **argv, const crti_private_cluster_t *cluster,
                             const sigset_t *mask, pid_t parent)
{
    set_environment(cluster);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(KILLED_BY + SIGKILL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    _exit(execute(argv));
}

/* ---------------------------------------------------------------- while it runs */

typedef struct running {
    const crti_private_cluster_t *cluster;
    pid_t pid;
    int pidfd;
    int signal_fd;
    int64_t kill_at_ms; /* 0: it may run as long as it likes */
} running_t;

/* The terminal sends its signals to the whole foreground group, the program has them. But one that
 * is closed tells only the leader of its session, and that may be this process. */
static void pass_on(running_t *r)
{
    struct signalfd_siginfo info;

    if (read(r->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (info.ssi_code != SI_KERNEL || info.ssi_signo == SIGHUP)
        kill(r->pid, (int)info.ssi_signo);
    if ((info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP) && !r->kill_at_ms)
        r->kill_at_ms = crti_now_ms() + GRACE_MS;
}

/* Says that a daemon ended, once: the program may go on without it. */
static void say_ended(struct pollfd *waiting, const char *name,
                      const crti_private_daemon_t *daemon)
{
    crti_cli_fail(NAME, "%s (pid %d) ended while the program runs", name,
                  (int)daemon->pid);
    waiting->fd = -1;
}

static int milliseconds_left(const running_t *r)
{
    int64_t left = r->kill_at_ms - crti_now_ms();

    if (r->kill_at_ms == 0)
        return -1;
    return left > 0 ? (int)left : 0;
}

/* Returns when the program has ended. */
static void attend(running_t *r)
{
    const crti_private_cluster_t *c = r->cluster;
    struct pollfd waiting[CRTI_PRIVATE_NODES_MAX + 3];
    nfds_t count = 3;

    waiting[0] = (struct pollfd){.fd = r->pidfd, .events = POLLIN};
    waiting[1] = (struct pollfd){.fd = r->signal_fd, .events = POLLIN};
    waiting[2] = (struct pollfd){.fd = c->head.pidfd, .events = POLLIN};
    for (unsigned i = 0; i < c->count; i++)
        waiting[count++] = (struct pollfd){.fd = c->nodes[i].pidfd, .events = POLLIN};
    for (;;) {
        int n = poll(waiting, count, milliseconds_left(r));

        if (n == 0) {
            kill(r->pid, SIGKILL);
            r->kill_at_ms += GRACE_MS; /* it may be in the kernel's hands */
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || waiting[0].revents)
            return;
        if (waiting[1].revents)
            pass_on(r);
        if (waiting[2].revents)
            say_ended(&waiting[2], "crt-head", &c->head);
        for (nfds_t i = 3; i < count; i++)
            if (waiting[i].revents)
                say_ended(&waiting[i], "crt-node", &c->nodes[i - 3]);
    }
}

static int run_program(const crti_private_cluster_t *cluster, char **argv, int signal_fd,
                       const sigset_t *mask)
{
    running_t r = {.cluster = cluster, .signal_fd = signal_fd};
    pid_t parent = getpid();
    int how = 0;

    r.pid = fork();
    if (r.pid == 0)
        become(argv, cluster, mask, parent);
    if (r.pid < 0)
        return crti_cli_fail(NAME, "fork: %s", strerror(errno));
    r.pidfd = (int)syscall(SYS_pidfd_open, r.pid, 0);
    if (r.pidfd < 0) {
        kill(r.pid, SIGKILL);
        crti_cli_fail(NAME, "pidfd_open: %s", strerror(errno));
    } else {
        attend(&r);
        close(r.pidfd);
    }
    while (waitpid(r.pid, &how, 0) < 0 && errno == EINTR)
        continue;
    return WIFSIGNALED(how) ? KILLED_BY + WTERMSIG(how) : WEXITSTATUS(how);
}

/* ---------------------------------------------------------------- the command */

static int run(crti_private_cluster_t *cluster, unsigned nodes, char **argv)
{
    crti_private_options_t wanted = {.nodes = nodes,
                                     .num_cpus = given.num_cpus,
                                     .num_gpus = given.num_gpus,
                                     .resources = given.resources,
                                     .store_bytes = given.store_bytes};
    sigset_t mask;
    int signal_fd, result, ended;
    crt_status_t status;

    signal_fd = crti_daemon_watch_signals(passed_on, SIGNALS_COUNT, &mask);
    if (signal_fd < 0)
        return crti_cli_fail(NAME, "signalfd: %s", strerror(errno));
    wanted.cancel_fd = signal_fd;
    status = crti_private_begin(cluster, &wanted, NULL);
    if (status == CRT_ERR_INTERRUPTED) {
        crti_cli_fail(NAME, "interrupted; nothing is left running");
        return INTERRUPTED;
    }
    if (status != CRT_OK)
        return crti_cli_fail_detail(NAME);
    result = !given.ranks || make_mark(cluster->directory)
                 ? check_mark(argv[0], run_program(cluster, argv, signal_fd, &mask))
                 : CANNOT_RUN;
    ended = crti_private_end(cluster);
    return result ? result : ended;
}

/* 0, or the exit status after one sentence. */
static int check_ranks(void)
{
    unsigned long ranks =
        given.ranks && !strchr(given.ranks, '.') ? strtoul(given.ranks, NULL, 10) : 0;

    if (given.ranks && (ranks < 1 || ranks > RANKS_MAX))
        return crti_cli_misused(NAME, "--ranks takes 1 to %d, not \"%s\"", RANKS_MAX,
                                given.ranks);
    if (!given.ranks && (given.address || given.tag_output))
        return crti_cli_misused(NAME, "%s belongs to --ranks",
                                given.address ? "--address" : "--tag-output");
    if (given.address && (given.nodes || given.num_cpus || given.num_gpus ||
                          given.resources || given.store_bytes))
        return crti_cli_misused(NAME, "--address names a cluster that has its nodes: "
                                      "--nodes, --num-cpus, --num-gpus, --resources and "
                                      "--object-store-memory are for one of its own");
    return 0;
}

/* The driver's end, however it comes, ends all ranks: nothing is to be done after it. */
static int run_there(crti_private_cluster_t *none, char **argv)
{
    const char *dir = getenv("TMPDIR");
    sigset_t mask;
    int signal_fd = crti_daemon_watch_signals(passed_on, SIGNALS_COUNT, &mask);

    if (signal_fd < 0)
        return crti_cli_fail(NAME, "signalfd: %s", strerror(errno));
    *none = (crti_private_cluster_t)CRTI_PRIVATE_CLUSTER_NONE;
    if (!make_mark(dir && *dir ? dir : "/tmp"))
        return CANNOT_RUN;
    return check_mark(argv[0], run_program(none, argv, signal_fd, &mask));
}

int crti_cli_run(int argc, char **argv)
{
    unsigned long nodes = 1;
    crti_private_cluster_t *cluster;
    int first = crti_cli_parse(argc, argv, &spec);
    int result;

    if (first <= 0)
        return -first;
    if (given.nodes)
        nodes = strchr(given.nodes, '.') ? 0 : strtoul(given.nodes, NULL, 10);
    if (nodes < 1 || nodes > CRTI_PRIVATE_NODES_MAX)
        return crti_cli_misused(NAME, "--nodes takes 1 to %d, not \"%s\"",
                                CRTI_PRIVATE_NODES_MAX, given.nodes);
    result = check_ranks();
    if (result)
        return result;
    if (first >= argc)
        return crti_cli_misused(NAME, "which program?");
    cluster = calloc(1, sizeof(*cluster));
    if (!cluster)
        return crti_cli_fail(NAME, "out of memory");
    result = given.address ? run_there(cluster, argv + first)
                           : run(cluster, (unsigned)nodes, argv + first);
    free(cluster);
    return result;
}
