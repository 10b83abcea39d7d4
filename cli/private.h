/* SPDX-License-Identifier: Apache-2.0 */
/* A private cluster of a command: it has a key that may be given, and what its daemons leave when
 * they are killed is ended and removed.
 *
 * Where it sits
 *     cli/run.c, cli/slurm_node.c, cli/symmetric_run.c -> [ cli/private.c ]
 *         -> daemon/private_start.c -> crt-head, crt-node
 */
#ifndef CRTI_CLI_PRIVATE_H
#define CRTI_CLI_PRIVATE_H

#include "cli/cli.h"
#include "runtime/daemon/private_start.h"

/* Makes its directory and starts all; `options->start` is set here. `key`: the cluster's; NULL: the
 * head that is here makes one, else that has a port. CRT_ERR_INTERRUPTED: `cancel_fd` could be
 * read. On failure nothing is left. */
crt_status_t crti_private_begin(crti_private_cluster_t *cluster,
                                crti_private_options_t *options, const char *key);

/* Ends everything that belongs to it, by force after 10 s, and removes the directory. Returns an
 * exit status; a failure was printed. */
int crti_private_end(crti_private_cluster_t *cluster);

#endif
