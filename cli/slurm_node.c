/* SPDX-License-Identifier: Apache-2.0 */
/* crt slurm-node: what crt slurm runs on each node of a job. See slurm.c.
 *
 * Where it sits
 *     cli/slurm.c -> srun -> [ cli/slurm_node.c ] -> cli/private.c -> crt-head, crt-node
 * Resources
 *     CPUs and GPUs are those that Slurm gave: SLURM_CPUS_ON_NODE, CUDA_VISIBLE_DEVICES.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>
#include <sodium.h>

#include "cli/clock.h"
#include "cli/options.h"
#include "cli/private.h"
#include "cli/slurm.h"
#include "runtime/base/spawn_attributes.h"

#define NAME        "crt slurm"
#define JOIN_MS     60000
#define LOOK_MS     50
#define GRACE_MS    10000
#define KEY_DIGITS  64
#define INTERRUPTED 130
#define CANNOT_RUN  126
#define NOT_FOUND   127

extern char **environ;

static struct {
    private_cluster_t cluster;
    int signal_fd;
    char ip[64];
    bool is_asked_to_end;
} self;

/* ---------------------------------------------------------------- where this node is */

/* The address by which this host reaches the one that srun runs on. */
static void find_ip(void)
{
    const char *launcher = getenv("SLURM_LAUNCH_NODE_IPADDR");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)}, own;
    socklen_t size = sizeof(own);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(self.ip, sizeof(self.ip), "127.0.0.1");
    if (fd >= 0 && launcher && inet_pton(AF_INET, launcher, &to.sin_addr) == 1 &&
        connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &size) == 0)
        inet_ntop(AF_INET, &own.sin_addr, self.ip, sizeof(self.ip));
    if (fd >= 0)
        close(fd);
}

static long number_of(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    char *end;
    long number = text ? strtol(text, &end, 10) : 0;

    return text && *text && !*end ? number : otherwise;
}

/* ---------------------------------------------------------------- waiting */

/* Standard input has nothing more but its end: the job is over. */
static void read_end(void)
{
    char ignored[256];
    ssize_t n = read(STDIN_FILENO, ignored, sizeof(ignored));

    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        self.is_asked_to_end = true;
}

/* Until the process ends, or the job: then it is asked to, and killed after a while. A descriptor
 * that is -1 is none. */
static void wait_for(int pidfd, pid_t pid)
{
    int64_t kill_at = 0;

    for (;;) {
        struct pollfd fds[3] = {
            {.fd = pidfd, .events = POLLIN},
            {.fd = self.is_asked_to_end ? -1 : STDIN_FILENO, .events = POLLIN},
            {.fd = self.is_asked_to_end ? -1 : self.signal_fd, .events = POLLIN}};
        int64_t left = kill_at - crti_cli_now_ms();
        int n = poll(fds, 3, kill_at ? (left > 0 ? (int)left : 0) : -1);

        if (n > 0 && fds[0].revents)
            return;
        if (n > 0 && fds[1].revents)
            read_end();
        if (n > 0 && fds[2].revents)
            self.is_asked_to_end = true;
        if (self.is_asked_to_end && !pid)
            return;
        if (self.is_asked_to_end && !kill_at) {
            kill(pid, SIGTERM);
            kill_at = crti_cli_now_ms() + GRACE_MS;
        } else if (n == 0) {
            kill(pid, SIGKILL);
            kill_at += GRACE_MS;
        }
    }
}

/* ---------------------------------------------------------------- the first node */

static crt_status_t say_head(const char *public_key)
{
    unsigned char key[crypto_box_PUBLICKEYBYTES];
    unsigned char sealed[KEY_DIGITS + crypto_box_SEALBYTES];
    char hex[2 * sizeof(sealed) + 1], text[KEY_DIGITS + 2] = "";
    FILE *file = fopen(self.cluster.key_file, "re");
    bool is_read = file && fgets(text, sizeof(text), file);

    if (file)
        fclose(file);
    text[strcspn(text, "\n")] = '\0';
    if (!is_read || strlen(text) != KEY_DIGITS ||
        sodium_hex2bin(key, sizeof(key), public_key, strlen(public_key), NULL, NULL,
                       NULL) != 0)
        return crt_raise(CRT_ERR_INVALID, "no key of this cluster");
    crypto_box_seal(sealed, (const unsigned char *)text, KEY_DIGITS, key);
    explicit_bzero(text, sizeof(text));
    sodium_bin2hex(hex, sizeof(hex), sealed, sizeof(sealed));
    printf(SLURM_HEAD "%s %s\n", self.cluster.address, hex);
    fflush(stdout);
    return CRT_OK;
}

static size_t count_alive(const crt_cluster_info_t *info)
{
    char *text = NULL;
    size_t count = 0;

    if (crt_cluster_query(info, "nodes", NULL, &text) != CRT_OK)
        return 0;
    for (const char *at = text; (at = strstr(at, "\"ALIVE\"")) != NULL; at++)
        count++;
    crt_free(text);
    return count;
}

static crt_status_t wait_for_nodes(size_t wanted)
{
    int64_t until = crti_cli_now_ms() + JOIN_MS;
    crt_cluster_info_t info;
    size_t count = 0;

    setenv("CRT_ADDRESS", self.cluster.address, 1);
    setenv("CRT_KEY_FILE", self.cluster.key_file, 1);
    setenv("CRT_NODE_DIR", self.cluster.run_dirs[0], 1);
    CRT_TRY(crt_cluster_find(self.cluster.address, sizeof(info), &info));
    while ((count = count_alive(&info)) < wanted) {
        struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                {.fd = self.signal_fd, .events = POLLIN}};

        if (crti_cli_now_ms() > until)
            return crt_raise(CRT_ERR_TIMED_OUT,
                             "%zu of %zu nodes joined within %d s: do they reach %s?",
                             count, wanted, JOIN_MS / 1000, self.cluster.address);
        if (poll(fds, 2, LOOK_MS) > 0 && fds[0].revents)
            read_end();
        if (self.is_asked_to_end || fds[1].revents)
            return crt_raise(CRT_ERR_INTERRUPTED, "interrupted");
    }
    return CRT_OK;
}

static int run_program(char **argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed, pidfd, how = 0;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, 0);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    failed = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed) {
        crti_cli_fail(NAME, "can't execute %s: %s", argv[0], strerror(failed));
        return failed == ENOENT ? NOT_FOUND : CANNOT_RUN;
    }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    wait_for(pidfd, pid);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    close(pidfd);
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

static int be_first(const char *public_key, const private_options_t *wanted, char **argv)
{
    crt_status_t status = crti_private_start(&self.cluster, wanted, self.signal_fd);
    bool has_begun = status == CRT_OK;
    int result = CLI_FAILED, ended;

    if (status == CRT_OK)
        status = say_head(public_key);
    if (status == CRT_OK)
        status = wait_for_nodes(
            (size_t)number_of("SLURM_STEP_NUM_NODES", number_of("SLURM_NNODES", 1)));
    if (status == CRT_OK)
        result = run_program(argv);
    else
        crti_cli_fail_detail(NAME);
    printf(SLURM_DONE "\n");
    fflush(stdout);
    ended = has_begun ? crti_private_end(&self.cluster) : 0;
    return result ? result : ended;
}

/* ---------------------------------------------------------------- the others */

/* "ADDRESS KEY" by standard input. */
static bool read_head(char address[128], char key[KEY_DIGITS + 1])
{
    char line[256];
    size_t used = 0;

    while (used < sizeof(line) - 1 && !memchr(line, '\n', used)) {
        struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                {.fd = self.signal_fd, .events = POLLIN}};
        ssize_t n;

        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents)
            return false;
        n = read(STDIN_FILENO, line + used, sizeof(line) - 1 - used);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        used += n > 0 ? (size_t)n : 0;
    }
    line[used] = '\0';
    return sscanf(line, "%127s %64[0-9a-f]", address, key) == 2 &&
           crti_cli_is_address(address) && strlen(key) == KEY_DIGITS;
}

static int be_other(private_options_t *wanted)
{
    char address[128], key[KEY_DIGITS + 1];
    crt_status_t status;

    if (!read_head(address, key))
        return 0; /* the job has ended before it began */
    wanted->address = address;
    wanted->key = key;
    status = crti_private_start(&self.cluster, wanted, self.signal_fd);
    explicit_bzero(key, sizeof(key));
    if (status == CRT_ERR_INTERRUPTED)
        return 0;
    if (status != CRT_OK)
        return crti_cli_fail_detail(NAME);
    wait_for(self.cluster.nodes[0].pidfd, 0);
    return crti_private_end(&self.cluster);
}

int crti_cli_slurm_node(int argc, char **argv)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    long cpus = number_of("SLURM_CPUS_ON_NODE", 0);
    char amount[24];
    private_options_t wanted = {
        .nodes = 1, .num_cpus = cpus > 0 ? amount : NULL, .ip = self.ip};

    if (argc < 3 || !getenv("SLURM_JOB_ID"))
        return crti_cli_misused(NAME, "crt slurm runs this on the nodes of a job");
    if (sodium_init() < 0)
        return crti_cli_fail(NAME, "libsodium can't be used");
    snprintf(amount, sizeof(amount), "%ld", cpus);
    find_ip();
    signal(SIGPIPE, SIG_IGN);
    self.signal_fd =
        crti_daemon_watch_signals(signals, sizeof(signals) / sizeof(signals[0]), NULL);
    return number_of("SLURM_NODEID", 0) == 0 ? be_first(argv[1], &wanted, argv + 2)
                                             : be_other(&wanted);
}
