/* SPDX-License-Identifier: Apache-2.0 */
/* A private cluster: a head and nodes on this host, or nodes of a head elsewhere, that belong to
 * this process and end with it, however it ends.
 *
 * Where it sits
 *     cli/run.c, cli/slurm_node.c, cli/symmetric_run.c -> [ cli/private.c ] -> cli/daemon.c
 *                                                                       -> crt-head, crt-node
 * Ownership
 *     The struct holds the write end of a lifeline: when this process dies, by kill -9 too, the
 *     kernel closes it, and each daemon ends with its workers and its directory
 *     (docs/design/processes.md).
 */
#ifndef CRTI_CLI_PRIVATE_H
#define CRTI_CLI_PRIVATE_H

#include "cli/daemon.h"

#define PRIVATE_NODES_MAX 64

typedef struct private_options {
    unsigned nodes; /* 1 to PRIVATE_NODES_MAX */
    /* Of each node; NULL: its share of this host. */
    const char *num_cpus, *num_gpus, *resources, *store_bytes;
    const char *ip;      /* of this host for others; NULL: 127.0.0.1 */
    const char *address; /* of a head elsewhere; NULL: the head is here */
    const char *port;    /* of the head that is here; NULL: any that is free */
    /* The cluster's. NULL: the head that is here makes one; else that has a port. */
    const char *key;
} private_options_t;

typedef struct private_cluster {
    char dir[96]; /* RUN/private-XXXXXX; "" when there is none */
    int lifeline; /* -1: none */
    char address[128], key_file[256], head_dir[128];
    crti_starter_t head;
    crti_starter_t nodes[PRIVATE_NODES_MAX];
    char run_dirs[PRIVATE_NODES_MAX][128]; /* of the nodes */
    unsigned count;                        /* nodes that were started */
} private_cluster_t;

/* Starts all and waits until each serves. `cancel_fd` ends the wait when it can be read
 * (CRT_ERR_INTERRUPTED). On failure nothing is left. */
crt_status_t crti_private_start(private_cluster_t *cluster,
                                const private_options_t *options, int cancel_fd);

/* Ends everything that belongs to it, by force after 10 s, and removes the directory. Returns an
 * exit status; a failure was printed. */
int crti_private_end(private_cluster_t *cluster);

#endif
