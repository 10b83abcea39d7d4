/* SPDX-License-Identifier: Apache-2.0 */
/* Private start: starts the daemons of a private cluster, a head and nodes of this host, or nodes
 * of a head elsewhere, which end with this process (docs/design/processes.md).
 *
 * Where it sits
 *     core/client/private_cluster.c, cli/private.c -> [ daemon/private_start.c ] -> starter.c
 * Ownership
 *     The struct has the write end of a lifeline: when this process dies, by kill -9 too, the
 *     kernel closes it, and each daemon ends with its workers and its directory. Who made the
 *     directory and the file of the key ends and removes all.
 * Threads: one caller at a time; no state but the struct.
 */
#ifndef CRTI_DAEMON_PRIVATE_START_H
#define CRTI_DAEMON_PRIVATE_START_H

#include "runtime/daemon/starter.h"

#define CRTI_PRIVATE_NODES_MAX 64

/* What a private cluster is to be. Texts are borrowed; as options have them, NULL: none. */
typedef struct crti_private_options {
    unsigned nodes; /* 0 to CRTI_PRIVATE_NODES_MAX */
    /* Of each node; NULL: its share of this host. */
    const char *num_cpus, *num_gpus, *resources, *store_bytes;
    /* Of this host for others. NULL: 127.0.0.1, where the head is here, else the address by which
     * it reaches the head. */
    const char *ip;
    const char *address;        /* of a head elsewhere; NULL: the head is here */
    const char *port;           /* of the head that is here; NULL: any that is free */
    const char *dashboard_port; /* of the head that is here; NULL: it has none */
    int cancel_fd;              /* ends the wait when it can be read; -1: none */
    /* Executes a daemon and waits until it serves; after an error the process that is not gone is
     * in its struct. */
    crt_status_t (*start)(crti_starter_t *daemon, int64_t timeout_ms, int cancel_fd);
} crti_private_options_t;

typedef struct crti_private_daemon {
    pid_t pid; /* 0: not started, or elsewhere */
    int pidfd; /* -1: none */
    char run_dir[96];
} crti_private_daemon_t;

struct crti_private_cluster {
    char directory[96]; /* RUN/private-XXXXXX; "": there is none */
    int lifeline;       /* -1: none */
    char address[128];  /* of the head */
    char key_file[256];
    crti_private_daemon_t head;
    crti_private_daemon_t nodes[CRTI_PRIVATE_NODES_MAX];
    unsigned count; /* nodes that were started */
};

typedef struct crti_private_cluster crti_private_cluster_t;

#define CRTI_PRIVATE_CLUSTER_NONE                                                        \
    {                                                                                    \
        .lifeline = -1, .head = {.pidfd = -1 }                                           \
    }

/* Starts the head, unless it is elsewhere, and the nodes that lack, one after the other, and waits
 * until each serves, at most 30 s. `directory` is there, and `key_file` for a head elsewhere. A
 * lifeline and a head from before have ended. After an error some may run. */
crt_status_t crti_private_start(crti_private_cluster_t *cluster,
                                const crti_private_options_t *options);

/* Forgets a process that was waited for. */
void crti_private_daemon_forget(crti_private_daemon_t *daemon);

#endif
