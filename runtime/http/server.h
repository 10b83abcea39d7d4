/* SPDX-License-Identifier: Apache-2.0 */
/* Server: the loop of crt-http, its listening sockets and its connections.
 *
 * Where it sits
 *     browser -> TCP ----------+
 *     command -> unix socket --+-> [ http/server.c (libwebsockets) ] -> http/exchange.c
 *     The head made both sockets and keeps them; a server that ends leaves them to the next one.
 * Threads: one, the loop.
 * Limits
 *     Connections, bytes of headers, seconds for headers, bodies and replies are bounded; what is
 *     above is refused or closed, and others go on.
 */
#ifndef CRTI_HTTP_SERVER_H
#define CRTI_HTTP_SERVER_H

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/net/key.h"

typedef struct crti_http_server crti_http_server_t;

typedef struct crti_http_options {
    const char *host;        /* that the first one was bound to, as it was given */
    const char *name;        /* by which others call it, too */
    int listen_fd, local_fd; /* borrowed: listening, non-blocking; TCP and unix */
    const char *certificate; /* PEM files; NULL: the TCP socket has no TLS */
    const char *certificate_key;
    const crti_key_t *key; /* for the call */
    /* of the head: sessions are good as long as it lives; for the call */
    const char *instance;
    const char *key_file; /* beside it lies the generation of tokens */
    const char *head_dir, *head_socket;
    const char *programs;  /* directory of the content cache */
    const char *audit_log; /* audit.h */
    bool is_open;          /* no token is wanted (--no-auth) */
} crti_http_options_t;

/* Serves at the sockets and connects to the head. Texts and descriptors of `options` are borrowed
 * as long as the server lives. Caller owns the result and frees it with crti_http_server_free. */
crt_status_t crti_http_server_new(const crti_http_options_t *options,
                                  crti_http_server_t **server_out);

/* "http://host:port" or "https://host:port" of the dashboard. Borrowed: valid until it is freed. */
const char *crti_http_server_url(const crti_http_server_t *server);

/* Serves until SIGTERM or SIGINT, which the caller has blocked. */
crt_status_t crti_http_server_run(crti_http_server_t *server);

void crti_http_server_free(crti_http_server_t *server);
CRTI_DEFINE_AUTO(crti_http_server_t *, crti_http_server_free)

#endif
