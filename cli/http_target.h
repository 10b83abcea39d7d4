/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP target: where the HTTP server of a cluster is, and how it proves that it is that one. A
 * token is as good as the cluster: it goes only to a peer that has proved it before.
 *
 * Where it sits
 *     CRT_HTTP, RUN/head-PORT, RUN/node-HEX8 -> [ cli/http_target.c ] -> cli/http_client.c
 * Proofs
 *     On the head's host: a unix socket at which this user, or root, listens (the kernel names the
 *     peer's user). Over a network: TLS with the certificate that follows from the cluster's key,
 *     where that is at hand, or with the one that the head sent to its nodes; else with one that
 *     the certificate authorities vouch for. Plain HTTP, which a URL may ask for, gets no token:
 *     that works with a server that wants none (crt start --no-auth). A URL of a head of this host
 *     means its socket.
 */
#ifndef CRTI_CLI_HTTP_TARGET_H
#define CRTI_CLI_HTTP_TARGET_H

#include <limits.h>

#include "cli/cli.h"

typedef struct http_target {
    char url[300];           /* without a final '/' */
    char socket[128];        /* path of the unix socket; "": over the network */
    char pin[53];            /* of the certificate; "": certificate authorities */
    char key_file[PATH_MAX]; /* tokens are made from it; "": `token` was given */
    char token[65];          /* "": none is sent */
} http_target_t;

/* `address` as OPTION_SERVER takes it; NULL: CRT_HTTP with CRT_TOKEN or the key file, else the
 * cluster that is meant. */
crt_status_t crti_target_find(const char *address, http_target_t *target_out);

/* Checks the listener of a connection to the unix socket, before anything is sent.
 * CRT_ERR_PERMISSION: another user. */
crt_status_t crti_target_check_peer(const http_target_t *target, int fd);

#endif
