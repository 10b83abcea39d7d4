/* SPDX-License-Identifier: Apache-2.0 */
/* A private cluster: a head and nodes, or a node of a head elsewhere, that belong to one driver and
 * end with it.
 *
 * Where it sits
 *     crt_init without a cluster, core/client/context_start.c -> [ core/client/private_cluster.c ]
 *         -> daemon/private_start.c -> crt-head, crt-node
 * Threads
 *     One caller at a time; no state but the struct.
 * Ownership
 *     The struct owns the write end of a lifeline pipe: when the driver dies, however it dies,
 *     the kernel closes it and both daemons end (docs/design/processes.md).
 * Failure
 *     What a daemon says before it serves is the error; nothing is left running then.
 */
#ifndef CRTI_CORE_PRIVATE_CLUSTER_H
#define CRTI_CORE_PRIVATE_CLUSTER_H

#include "runtime/core/types.h"
#include "runtime/crt.h"
#include "runtime/daemon/private_start.h"

/* What a private cluster is to be. */
typedef struct crti_private_spec {
    unsigned nodes; /* 1 to CRTI_PRIVATE_NODES_MAX */
    /* Of each node: CPUs, 0: its share of this host, below 0: none; others as in crt_options_t. */
    double num_cpus;
    const char *resources;
    uint64_t store_bytes;
    bool has_dashboard; /* at a free port, for this host */
    /* Of a head elsewhere, which one node of this host joins; NULL: the head is private, too. */
    const char *address, *key_file;
} crti_private_spec_t;

/* Starts all and waits until each node serves (at most 30 s). On failure nothing is left.
 * CRT_ERR_IO, CRT_ERR_NOT_FOUND (no daemon, no redis-server), CRT_ERR_TIMED_OUT. */
crt_status_t crti_private_cluster_make(const crti_private_spec_t *spec,
                                       crti_private_cluster_t *cluster_out);

/* One node with what the options say of a private cluster. */
crt_status_t crti_private_cluster_start(const crt_options_t *options,
                                        crti_private_cluster_t *cluster_out);

/* Starts the head alone; `*cluster` is CRTI_PRIVATE_CLUSTER_NONE, or one whose head was killed:
 * that is started again on its port, with what it stored. Errors as above;
 * crti_private_cluster_stop follows in each case. */
crt_status_t crti_private_head_start(crti_private_cluster_t *cluster);

/* Ends all and waits; after 10 s they are killed. The directory is gone afterwards. */
void crti_private_cluster_stop(crti_private_cluster_t *cluster);

#endif
