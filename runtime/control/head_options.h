/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of crt-head, and the directories that follow from them
 * (docs/design/processes.md). */
#ifndef CRTI_CONTROL_HEAD_OPTIONS_H
#define CRTI_CONTROL_HEAD_OPTIONS_H

#include <limits.h>

#include "runtime/base/address.h"
#include "runtime/control/store/redis_endpoint.h"
#include "runtime/daemon/option.h"
#include "runtime/daemon/option_list.h"

#define CRTI_HEAD_TABLE(O)                                                               \
    CRTI_HEAD_AND_NODE_OPTIONS(O)                                                        \
    CRTI_HEAD_OPTIONS(O)                                                                 \
    CRTI_STARTED_OPTIONS(O)                                                              \
    CRTI_PRIVATE_OPTIONS(O)                                                              \
    CRTI_HEAD_OWN_OPTIONS(O)

/* As they were given: texts are NULL, descriptors -1 and numbers 0 where the list has no
 * default. */
typedef struct crti_head_options {
    CRTI_HEAD_TABLE(CRTI_OPTION_FIELD)
    char ip[CRTI_ADDRESS];       /* of node_ip_address */
    crti_redis_external_t redis; /* of redis_... */
} crti_head_options_t;

/* CRT_ERR_INVALID names the option and the cure; `ready_fd` is set also then. */
crt_status_t crti_head_options_parse(int argc, char **argv,
                                     crti_head_options_t *options_out);

typedef struct crti_head_paths {
    char head_dir[PATH_MAX]; /* RUN/head-PORT */
    /* The first directories that were missing, "" none: made by this start, and its to take
     * back. */
    char made_state[PATH_MAX], made_run[PATH_MAX];
    char state_dir[PATH_MAX]; /* STATE/head-PORT */
    char programs[PATH_MAX];  /* what is uploaded; the node of this host has it there */
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
