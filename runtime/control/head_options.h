/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of crt-head, and the directories that follow from them
 * (docs/design/processes.md). */
#ifndef CRTI_CONTROL_HEAD_OPTIONS_H
#define CRTI_CONTROL_HEAD_OPTIONS_H

#include <limits.h>

#include "runtime/base/address.h"
#include "runtime/control/store/redis_endpoint.h"

typedef struct crti_head_options {
    char ip[CRTI_ADDRESS];                             /* --node-ip-address */
    const char *dashboard_host;                        /* NULL: no dashboard */
    const char *dashboard_certificate, *dashboard_key; /* NULL: made at need */
    const char *private_dir; /* NULL: a cluster that others may join */
    uint16_t port, dashboard_port;
    int ready_fd, lifeline_fd; /* -1: none */
    int autoscaler_fd;         /* scale_file.h; -1: no autoscaler */
    uint64_t headless_timeout_ms;
    size_t max_jobs; /* --max-running-jobs, 0: any number */
    crti_redis_external_t redis;
    bool encrypt_streams, fail_if_infeasible, fresh, help;
    bool fail_youngest; /* --on-resource-deadlock fail-youngest */
    bool no_auth;       /* HTTP without a token */
} crti_head_options_t;

crt_status_t crti_head_options_parse(int argc, char **argv,
                                     crti_head_options_t *options_out);

/* Prints them. */
void crti_head_options_usage(void);

typedef struct crti_head_paths {
    char head_dir[PATH_MAX]; /* RUN/head-PORT */
    /* The first directories that were missing, "" none: made by this start, and its to take
     * back. */
    char made_state[PATH_MAX], made_run[PATH_MAX];
    char state_dir[PATH_MAX]; /* STATE/head-PORT */
    char info[PATH_MAX], socket[PATH_MAX], http_socket[PATH_MAX], key[PATH_MAX],
        token[PATH_MAX];
    /* the id of the cluster whose tables it has (head_identity.h) */
    char cluster[PATH_MAX];
    char data[PATH_MAX], revoked[PATH_MAX], log[PATH_MAX], http_log[PATH_MAX];
    char scaler_log[PATH_MAX];
} crti_head_paths_t;

/* Makes the directories. */
crt_status_t crti_head_paths_make(const crti_head_options_t *options, uint16_t port,
                                  crti_head_paths_t *paths_out);
/* Removes those that were not there before, with what is in them: the start failed. */
void crti_head_paths_unmake(const crti_head_paths_t *paths);

/* Removes what an earlier head has left of its cluster, but the key. */
void crti_head_paths_forget(const crti_head_paths_t *paths);

/* Removes a directory and what is in it, without following links; best effort. */
void crti_head_remove_tree(const char *path);

/* Ends and awaits what a killed head may have left: processes named in its info file that have
 * its directory in their environment. */
void crti_head_end_remains(const crti_head_paths_t *paths);

#endif
