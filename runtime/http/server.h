/* SPDX-License-Identifier: Apache-2.0 */
/* Server: the loop of crt-http, its listening socket and its connections.
 *
 * Where it sits
 *     browser, command -> TCP -> [ http/server.c (libwebsockets) ] -> http/exchange.c
 * Threads: one, the loop.
 * Limits
 *     Connections, bytes of headers, seconds for headers, bodies and replies are bounded; what is
 *     above is refused or closed, and others go on.
 */
#ifndef CRTI_HTTP_SERVER_H
#define CRTI_HTTP_SERVER_H

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"

typedef struct crti_http_server crti_http_server_t;

typedef struct crti_http_options {
    const char *host; /* to bind to */
    unsigned port;    /* 0: any free one */
    const char *token;
    const char *head_socket;
    const char *programs; /* directory of the content cache */
} crti_http_options_t;

/* Binds, listens and connects to the head. Texts of `options` are borrowed as long as the server
 * lives. CRT_ERR_EXISTS: the port is taken. Caller owns the result and frees it with
 * crti_http_server_free. */
crt_status_t crti_http_server_new(const crti_http_options_t *options,
                                  crti_http_server_t **server_out);

/* "host:port" that it listens on, with the real port. Borrowed: valid until it is freed. */
const char *crti_http_server_address(const crti_http_server_t *server);

/* Serves until SIGTERM or SIGINT, which the caller has blocked. */
crt_status_t crti_http_server_run(crti_http_server_t *server);

void crti_http_server_free(crti_http_server_t *server);
CRTI_DEFINE_AUTO(crti_http_server_t *, crti_http_server_free)

#endif
