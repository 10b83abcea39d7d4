/* SPDX-License-Identifier: Apache-2.0 */
/* What each host does of a command that runs a program on a private cluster of several hosts: wait
 * for the nodes, run the program, wait for what has a descriptor.
 *
 * Where it sits
 *     cli/slurm_node.c, cli/symmetric_run.c -> [ cli/host_program.c ] -> answer.c, PROGRAM
 * Ownership
 *     One of them in a process, and no threads: the caller fills in what is said below.
 */
#ifndef CRTI_CLI_HOST_PROGRAM_H
#define CRTI_CLI_HOST_PROGRAM_H

#include "cli/private.h"

typedef struct host_program {
    const char *name; /* of the command, in messages */
    crti_private_cluster_t cluster;
    int signal_fd; /* readable: the command is to end */
    int end_fd;    /* read until its end: then the command is to end; -1: none */
    bool is_asked_to_end;
} host_program_t;

/* Until the descriptor of a process can be read, or the command is to end: then the process (0: it
 * is not ended) is asked to end, and killed after a while. A pidfd of -1 is none. */
void crti_host_program_wait(host_program_t *self, int pidfd, pid_t pid);

/* Until `wanted` nodes live, this one of them; CRT_ERR_TIMED_OUT after `patience_ms` says how many
 * came. From then on this process and its children find the cluster by the environment. */
crt_status_t crti_host_program_gather(host_program_t *self, size_t wanted,
                                      int64_t patience_ms, crt_cluster_info_t *info_out);

/* Runs the program to its end, and returns its exit status as shells have it. Its standard input is
 * /dev/null. A failure was printed. */
int crti_host_program_run(host_program_t *self, char **argv);

/* The address by which this host reaches that IPv4 or IPv6 address (a number), in `ip`; "" when it
 * does not. */
void crti_host_program_own_ip(const char *other, char ip[64]);

#endif
