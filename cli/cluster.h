/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster file at work: its hosts, a call for each of them, and what a request always has.
 *
 * Where it sits
 *     cli/up.c, cli/cluster_exec.c, cli/cluster_reach.c, cli/pool.c -> [ cli/cluster.c ]
 *                                                        -> cli/cluster_file.c, cli/ssh.c
 * Ownership
 *     A cluster has its file and its calls until crti_cluster_close.
 */
#ifndef CRTI_CLI_CLUSTER_H
#define CRTI_CLI_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"
#include "cli/ssh.h"

#define CLUSTER_INTERRUPTED 130  /* exit status after Ctrl-C */
#define CLUSTER_REASON      1024 /* bytes of a sentence that says why a host failed */

typedef struct cluster {
    const char *command; /* "crt up" */
    json_t *file, *hosts;
    ssh_call_t *calls; /* one for each of the hosts, the head first */
    crt_archive_t
        archive; /* for hosts without crt; without bytes where the file says crt: PATH */
    hand_over_mode_t mode;
    size_t count, failed;
    int signal_fd;
    bool interrupted;
    char *address, *key; /* of the head, once it is known */
} cluster_t;

/* Reads the file and watches for signals. 0, or the exit status after a sentence; closed in any
 * case. */
int crti_cluster_open(cluster_t *c, const char *command, const char *path);
/* The same of what a file says: takes the reference of the object. */
int crti_cluster_open_object(cluster_t *c, const char *command, json_t *file);
void crti_cluster_close(cluster_t *c);

/* What every request has: the version, what is to be done, the cluster and the environment of that
 * host. */
json_t *crti_cluster_request(const cluster_t *c, size_t index, const char *what);

/* Makes the call of that host ready. Takes the reference of the request. */
crt_status_t crti_cluster_prepare(cluster_t *c, size_t index, json_t *request);

/* A run of these calls; the caller sets what else it is to have. */
ssh_run_t crti_cluster_run(const cluster_t *c);

/* The one operand, NULL: usage was printed. */
const char *crti_cluster_only_file(int argc, char **argv, int first, const char *command);

/* The same, behind the options of a command; NULL: the command ends with `*result_out`. */
const char *crti_cluster_parse(int argc, char **argv, const command_spec_t *spec,
                               int *result_out);

/* Runs an executable of crt itself on the head: "status", "--json" for example. Returns its exit
 * status. */
int crti_cluster_run_crt(const char *command, const char *path, char **argv, int argc);

/* A way from this host to the dashboard of the head, until Ctrl-C. Returns an exit status. */
int crti_cluster_dashboard(const char *command, const char *path);

#endif
