/* SPDX-License-Identifier: Apache-2.0 */
/* crt slurm-node: what crt slurm runs on each node of a job. See slurm.c.
 *
 * Where it sits
 *     cli/slurm.c -> srun -> [ cli/slurm_node.c ] -> cli/private.c -> crt-head, crt-node
 * Resources
 *     CPUs and GPUs are those that Slurm gave: SLURM_CPUS_ON_NODE, CUDA_VISIBLE_DEVICES.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/daemon.h"
#include "cli/host_program.h"
#include "cli/options.h"
#include "cli/slurm.h"

#define NAME       "crt slurm"
#define JOIN_MS    60000
#define KEY_DIGITS 64

static host_program_t self = {.name = NAME, .end_fd = STDIN_FILENO};

static long number_of(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    char *end;
    long number = text ? strtol(text, &end, 10) : 0;

    return text && *text && !*end ? number : otherwise;
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

static int be_first(const char *public_key, crti_private_options_t *wanted, char **argv)
{
    crt_cluster_info_t info;
    int result = CLI_FAILED, ended;
    crt_status_t status;
    bool has_begun;

    wanted->dashboard_port = "0"; /* of this host, and for it alone */
    status = crti_private_begin(&self.cluster, wanted, NULL);
    has_begun = status == CRT_OK;

    if (status == CRT_OK)
        status = say_head(public_key);
    if (status == CRT_OK)
        status = crti_host_program_gather(
            &self,
            (size_t)number_of("SLURM_STEP_NUM_NODES", number_of("SLURM_NNODES", 1)),
            JOIN_MS, &info);
    if (status == CRT_OK)
        result = crti_host_program_run(&self, argv);
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
    char line[256] = "";
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
           crti_option_is_address(address) && strlen(key) == KEY_DIGITS;
}

static int be_other(crti_private_options_t *wanted)
{
    char address[128], key[KEY_DIGITS + 1];
    crt_status_t status;

    if (!read_head(address, key))
        return 0; /* the job has ended before it began */
    wanted->address = address;
    status = crti_private_begin(&self.cluster, wanted, key);
    explicit_bzero(key, sizeof(key));
    if (status == CRT_ERR_INTERRUPTED)
        return 0;
    if (status != CRT_OK)
        return crti_cli_fail_detail(NAME);
    crti_host_program_wait(&self, self.cluster.nodes[0].pidfd, 0);
    return crti_private_end(&self.cluster);
}

int crti_cli_slurm_node(int argc, char **argv)
{
    long cpus = number_of("SLURM_CPUS_ON_NODE", 0);
    const char *launcher = getenv("SLURM_LAUNCH_NODE_IPADDR");
    char amount[24], ip[64] = "";
    crti_private_options_t wanted = {
        .nodes = 1, .num_cpus = cpus > 0 ? amount : NULL, .ip = ip};

    if (argc < 3 || !getenv("SLURM_JOB_ID"))
        return crti_cli_misused(NAME, "crt slurm runs this on the nodes of a job");
    if (sodium_init() < 0)
        return crti_cli_fail(NAME, "libsodium can't be used");
    snprintf(amount, sizeof(amount), "%ld", cpus);
    crti_host_program_own_ip(launcher ? launcher : "", ip);
    if (!ip[0])
        snprintf(ip, sizeof(ip), "127.0.0.1");
    signal(SIGPIPE, SIG_IGN);
    self.signal_fd = crti_daemon_watch_ends();
    wanted.cancel_fd = self.signal_fd;
    return number_of("SLURM_NODEID", 0) == 0 ? be_first(argv[1], &wanted, argv + 2)
                                             : be_other(&wanted);
}
