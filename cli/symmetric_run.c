/* SPDX-License-Identifier: Apache-2.0 */
/* crt symmetric-run: the same command on every host makes a cluster, runs a program on it, and ends
 * with it. For launchers that start one command everywhere: mpirun, pdsh, LSF, YARN.
 *
 * Where it sits
 *     mpirun --map-by node crt symmetric-run ... -> [ cli/symmetric_run.c ] -> cli/private.c
 *                                                                           -> cli/host_program.c
 * Which host is the head
 *     The one that has the address of --address. It waits for all, runs the program, drains the
 *     other nodes when that has ended, and waits until they are gone. The others join, and end with
 *     their node: drained, or, when the head's host has died, as the head told them to
 *     (--headless-timeout of crt-head).
 * The key
 *     A file that all can read: on a file system that they share it is made by the head's host and
 *     awaited by the others, elsewhere it is copied beforehand.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>
#include <sodium.h>

#include "cli/answer.h"
#include "cli/daemon.h"
#include "cli/host_program.h"
#include "cli/options.h"
#include "runtime/base/clock.h"
#include "runtime/base/secret_file.h"

#define NAME        "crt symmetric-run"
#define DEFAULT_MS  60000
#define LOOK_MS     100
#define LEAVE_MS    15000
#define KEY_DIGITS  64
#define HOST_MAX    256
#define TIMEOUT_MAX 86400

static struct {
    const char *address, *nodes, *key_file, *num_cpus, *num_gpus, *resources, *timeout,
        *store_bytes;
} given;

static host_program_t self = {.name = NAME, .end_fd = -1};
static int64_t patience_ms = DEFAULT_MS;
static char head_ip[64], port[8];

/* ---------------------------------------------------------------- which host is this */

/* The number of the address's host, and its port. */
static crt_status_t resolve(void)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char host[HOST_MAX];
    const char *colon = strrchr(given.address, ':');
    int length = (int)(colon - given.address), failed;
    struct addrinfo *found;
    bool has_brackets = *given.address == '[';

    snprintf(host, sizeof(host), "%.*s", has_brackets ? length - 2 : length,
             given.address + has_brackets);
    snprintf(port, sizeof(port), "%s", colon + 1);
    failed = getaddrinfo(host, port, &hints, &found);
    if (failed)
        return crt_raise(CRT_ERR_NOT_FOUND, "--address: %s: %s", host,
                         gai_strerror(failed));
    failed = getnameinfo(found->ai_addr, found->ai_addrlen, head_ip, sizeof(head_ip),
                         NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    return failed ? crt_raise(CRT_ERR_NOT_FOUND, "--address: %s", gai_strerror(failed))
                  : CRT_OK;
}

static bool is_here(void)
{
    struct ifaddrs *all;
    bool found = false;

    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        char ip[64];
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

        if ((family == AF_INET || family == AF_INET6) &&
            getnameinfo(i->ifa_addr,
                        family == AF_INET ? sizeof(struct sockaddr_in)
                                          : sizeof(struct sockaddr_in6),
                        ip, sizeof(ip), NULL, 0, NI_NUMERICHOST) == 0)
            found = strcmp(ip, head_ip) == 0;
    }
    freeifaddrs(all);
    return found;
}

/* ---------------------------------------------------------------- waiting for the others */

/* A moment, or until the command is to end. */
static crt_status_t pause_until(int64_t end, const char *what)
{
    struct pollfd fd = {.fd = self.signal_fd, .events = POLLIN};

    if (crti_now_ms() > end)
        return crt_raise(CRT_ERR_TIMED_OUT, "%s within %lld s", what,
                         (long long)patience_ms / 1000);
    return poll(&fd, 1, LOOK_MS) > 0 ? crt_raise(CRT_ERR_INTERRUPTED, "interrupted")
                                     : CRT_OK;
}

/* Nothing is sent: whether somebody listens there yet. */
static bool answers(void)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *to;
    struct pollfd fd = {.fd = -1, .events = POLLOUT};
    bool answered = false;

    if (getaddrinfo(head_ip, port, &hints, &to) != 0)
        return false;
    fd.fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd.fd >= 0) {
        int error = 0;
        socklen_t size = sizeof(error);

        answered =
            connect(fd.fd, to->ai_addr, to->ai_addrlen) == 0 ||
            (errno == EINPROGRESS && poll(&fd, 1, 1000) > 0 &&
             getsockopt(fd.fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
        close(fd.fd);
    }
    freeaddrinfo(to);
    return answered;
}

static crt_status_t await_head(void)
{
    int64_t end = crti_now_ms() + patience_ms;
    char what[160];

    snprintf(what, sizeof(what), "nobody answered at %s", given.address);
    while (!answers())
        CRT_TRY(pause_until(end, what));
    return CRT_OK;
}

/* ---------------------------------------------------------------- the key */

/* At most size - 1 bytes. */
static crt_status_t read_secret(int fd, char *text, size_t size)
{
    ssize_t n;

    CRT_TRY(crti_check_secret_file(fd, "key file", given.key_file));
    n = read(fd, text, size - 1);
    if (n < 0)
        return crt_raise(CRT_ERR_IO, "key file %s: %s", given.key_file, strerror(errno));
    text[n] = '\0';
    return CRT_OK;
}

/* CRT_ERR_NOT_FOUND: no such file. */
static crt_status_t read_key(char key[KEY_DIGITS + 1])
{
    char text[KEY_DIGITS + 2];
    int fd = open(given.key_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    crt_status_t status;

    if (fd < 0)
        return errno == ENOENT ? CRT_ERR_NOT_FOUND
                               : crt_raise(CRT_ERR_IO, "can't read %s: %s",
                                           given.key_file, strerror(errno));
    status = read_secret(fd, text, sizeof(text));
    close(fd);
    if (status != CRT_OK)
        return status;
    text[strcspn(text, "\n")] = '\0';
    if (strlen(text) != KEY_DIGITS || strspn(text, "0123456789abcdef") != KEY_DIGITS)
        return crt_raise(CRT_ERR_CORRUPT, "%s holds no key: %d digits of 0 to f",
                         given.key_file, KEY_DIGITS);
    snprintf(key, KEY_DIGITS + 1, "%s", text);
    explicit_bzero(text, sizeof(text));
    return CRT_OK;
}

/* All at once: no reader sees a part of it. */
static crt_status_t make_key(void)
{
    unsigned char bytes[KEY_DIGITS / 2];
    char text[KEY_DIGITS + 2], path[4096];
    int fd, failed = 0;

    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2hex(text, sizeof(text), bytes, sizeof(bytes));
    text[KEY_DIGITS] = '\n';
    snprintf(path, sizeof(path), "%s.XXXXXX", given.key_file);
    fd = mkostemp(path, O_CLOEXEC); /* mode 0600 */
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "can't make %s: %s", path, strerror(errno));
    if (write(fd, text, KEY_DIGITS + 1) != KEY_DIGITS + 1 || fsync(fd) != 0 ||
        link(path, given.key_file) != 0)
        failed = errno;
    close(fd);
    unlink(path);
    explicit_bzero(bytes, sizeof(bytes));
    explicit_bzero(text, sizeof(text));
    return failed && failed != EEXIST ? crt_raise(CRT_ERR_IO, "can't make %s: %s",
                                                  given.key_file, strerror(failed))
                                      : CRT_OK;
}

static crt_status_t take_key(bool is_head, char key[KEY_DIGITS + 1])
{
    int64_t end = crti_now_ms() + patience_ms;
    crt_status_t status = read_key(key);
    char what[4200];

    if (status == CRT_ERR_NOT_FOUND && is_head) {
        CRT_TRY(make_key());
        status = read_key(key);
    }
    snprintf(
        what, sizeof(what),
        "there was no %s (the head's host makes it; where the hosts share no files it "
        "is copied)",
        given.key_file);
    while (status == CRT_ERR_NOT_FOUND) {
        CRT_TRY(pause_until(end, what));
        status = read_key(key);
    }
    return status;
}

/* ---------------------------------------------------------------- the head's host */

/* All nodes but those of this host's address, which end with this process. */
static void drain_others(const crt_cluster_info_t *info, const char *own_ip)
{
    json_t *nodes = crti_answer_query(info, "nodes", NULL);

    for (size_t i = 0; nodes && i < json_array_size(nodes); i++) {
        json_t *node = json_array_get(nodes, i);

        if (strcmp(crti_answer_text(node, "state"), "ALIVE") == 0 &&
            strcmp(crti_answer_text(node, "node_ip"), own_ip) != 0)
            crt_cluster_drain(info, crti_answer_text(node, "node_id"), 1);
    }
    json_decref(nodes);
}

static void end_others(const crt_cluster_info_t *info)
{
    int64_t end = crti_now_ms() + LEAVE_MS;

    drain_others(info, head_ip);
    while (crti_answer_living_nodes(info, NULL) > 1 && crti_now_ms() < end)
        poll(NULL, 0, LOOK_MS);
}

static int be_head(crti_private_options_t *wanted, const char *key, char **program)
{
    size_t nodes = (size_t)strtoul(given.nodes, NULL, 10);
    crt_cluster_info_t info;
    crt_status_t status;
    int result = CLI_FAILED, ended;

    wanted->port = port;
    status = crti_private_begin(&self.cluster, wanted, key);
    if (status != CRT_OK)
        return crti_cli_fail_detail(NAME);
    status = crti_host_program_gather(&self, nodes, patience_ms, &info);
    if (status == CRT_OK)
        result = crti_host_program_run(&self, program);
    else
        crti_cli_fail_detail(NAME);
    if (status == CRT_OK || status == CRT_ERR_TIMED_OUT || status == CRT_ERR_INTERRUPTED)
        end_others(&info);
    ended = crti_private_end(&self.cluster);
    return result ? result : ended;
}

/* ---------------------------------------------------------------- the others */

/* 0: it was drained, or this command was told to end. */
static int how_node_ended(void)
{
    siginfo_t about = {0};

    if (self.is_asked_to_end)
        return 0;
    if (waitid(P_PIDFD, (id_t)self.cluster.nodes[0].pidfd, &about,
               WEXITED | WNOWAIT | WNOHANG) == 0 &&
        about.si_code == CLD_EXITED && about.si_status == 0)
        return 0;
    return crti_cli_fail(NAME,
                         "this host's node has ended before the cluster did: is the "
                         "head's host, %s, still there?",
                         given.address);
}

static int be_other(crti_private_options_t *wanted, const char *key)
{
    crt_status_t status = await_head();
    int result = 0, ended;

    if (status == CRT_OK) {
        wanted->address = given.address;
        status = crti_private_begin(&self.cluster, wanted, key);
    }
    if (status != CRT_OK)
        return crti_cli_fail_detail(NAME);
    crti_host_program_wait(&self, self.cluster.nodes[0].pidfd, 0);
    result = how_node_ended();
    ended = crti_private_end(&self.cluster);
    return result ? result : ended;
}

/* ---------------------------------------------------------------- the command */

static const option_spec_t options[] = {
    {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &given.address,
     "the head's, which is started on the host that has it"},
    {"nodes", 'n', "N", OPTION_COUNT, &given.nodes,
     "hosts that run this command; the program begins when all have joined"},
    {"key-file", 0, "FILE", OPTION_TEXT, &given.key_file,
     "the cluster's key, made on the head's host if it is not there; default: "
     "CRT_KEY_FILE"},
    {"timeout", 0, "SECONDS", OPTION_COUNT, &given.timeout,
     "for all to have joined; default: 60"},
    {"num-cpus", 0, "N", OPTION_AMOUNT, &given.num_cpus,
     "CPUs of this host's node; default: those of the machine"},
    {"num-gpus", 0, "N", OPTION_AMOUNT, &given.num_gpus,
     "GPUs of this host's node; default: those of the machine"},
    {"resources", 0, "K=V,...", OPTION_RESOURCES, &given.resources,
     "more resources of this host's node, for example tape=1,disk=2"},
    {"object-store-memory", 0, "BYTES", OPTION_BYTES, &given.store_bytes,
     "its object store; default: 30 % of memory"}};

static const command_spec_t spec = {
    .name = NAME,
    .operands = "[--] PROGRAM [ARGUMENTS]",
    .stops_at_operand = true,
    .summary =
        "Run on every host by a launcher such as mpirun or pdsh: makes a cluster of the "
        "hosts, whose\nhead is where --address says, and ends with the program, which "
        "runs "
        "there.",
    .options = options,
    .count = sizeof(options) / sizeof(options[0])};

static int check(int argc, int first)
{
    if (!given.key_file)
        given.key_file = getenv("CRT_KEY_FILE");
    if (!given.address)
        return crti_cli_misused(NAME, "--address says which host has the head");
    if (strcmp(strrchr(given.address, ':'), ":0") == 0)
        return crti_cli_misused(NAME, "--address: all hosts need to know the port");
    if (!given.nodes || strtoul(given.nodes, NULL, 10) < 1)
        return crti_cli_misused(NAME, "--nodes says how many hosts run this command");
    if (!given.key_file || !*given.key_file)
        return crti_cli_misused(NAME, "--key-file says where the cluster's key is");
    if (first >= argc)
        return crti_cli_misused(NAME, "which program? -- PROGRAM");
    if (given.timeout) {
        unsigned long seconds = strtoul(given.timeout, NULL, 10);

        if (seconds < 1 || seconds > TIMEOUT_MAX)
            return crti_cli_misused(NAME, "--timeout takes 1 to %d seconds", TIMEOUT_MAX);
        patience_ms = (int64_t)seconds * 1000;
    }
    return 0;
}

int crti_cli_symmetric_run(int argc, char **argv)
{
    char key[KEY_DIGITS + 1], ip[64];
    crti_private_options_t wanted = {.nodes = 1, .ip = ip};
    crt_status_t status;
    int first = crti_cli_parse(argc, argv, &spec);
    int result;
    bool is_head;

    if (first <= 0)
        return -first;
    result = check(argc, first);
    if (result)
        return result;
    if (sodium_init() < 0)
        return crti_cli_fail(NAME, "libsodium can't be used");
    wanted.num_cpus = given.num_cpus;
    wanted.num_gpus = given.num_gpus;
    wanted.resources = given.resources;
    wanted.store_bytes = given.store_bytes;
    self.signal_fd = crti_daemon_watch_ends();
    if (self.signal_fd < 0)
        return crti_cli_fail(NAME, "signalfd: %s", strerror(errno));
    wanted.cancel_fd = self.signal_fd;
    signal(SIGPIPE, SIG_IGN);
    status = resolve();
    is_head = status == CRT_OK && is_here();
    if (status == CRT_OK)
        status = take_key(is_head, key);
    if (status != CRT_OK)
        return crti_cli_fail_detail(NAME);
    crti_host_program_own_ip(head_ip, ip);
    if (is_head)
        snprintf(ip, sizeof(ip), "%s", head_ip);
    if (!ip[0])
        return crti_cli_fail(NAME, "this host has no way to %s", given.address);
    result = is_head ? be_head(&wanted, key, argv + first) : be_other(&wanted, key);
    explicit_bzero(key, sizeof(key));
    return result;
}
