/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster that a program starts for itself: crt_context_start, crt_context_stop.
 *
 * Where it sits
 *     the program, crt_main, crt_init -> [ core/client/context_start.c ] -> private_cluster.c
 *                                          -> context_command.c (crt up, crt exec, crt slurm)
 *     crt_init (which node) -> crti_context_cluster
 * States
 *     none -> running (of ours: it is ended by stop or at exit; of others: it is left) -> none. A
 *     process that a cluster has started, a worker, a job, a program of crt run or crt slurm, is in
 *     that one: the option of its arguments then starts nothing.
 * Threads: any; one lock for all that is here.
 * Ownership
 *     A cluster of ours is a private cluster: its daemons end with this process, however that ends.
 *     The child of a fork owns nothing.
 */
#ifndef CRTI_CORE_CONTEXT_START_H
#define CRTI_CORE_CONTEXT_START_H

#include "runtime/crt_cluster.h"

/* crt_context_start with what the options say of a cluster. */
crt_status_t crti_context_of_options(int argc, char **argv, const crt_options_t *options);

/* What is left of crt_context_stop when the program has left its cluster. */
crt_status_t crti_context_end(void);

/* True when a context of this process runs. */
bool crti_context_runs(void);
/* The node of it to join. CRT_ERR_NOT_FOUND: that has ended. */
crt_status_t crti_context_cluster(crt_cluster_info_t *info_out);

#endif
