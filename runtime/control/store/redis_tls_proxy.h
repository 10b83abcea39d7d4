/* SPDX-License-Identifier: Apache-2.0 */
/* TLS proxy: carries the connection of hiredis, which has no TLS, to an external redis-server by
 * TLS (--redis-tls). The only file of control that knows OpenSSL.
 *
 * Where it sits
 *     redis.c, redis_endpoint.c -> hiredis <- a socket of this process -> [
 *     control/store/redis_tls_proxy.c ]
 *         <- tcp with TLS -> redis-server
 * How
 *     crti_redis_tls_proxy_begin listens at the endpoint's socket, hiredis connects to it, and
 *     crti_redis_tls_proxy_accept takes that connection and no other. The socket is in the head's
 *     private directory, and exists until hiredis has sent something. The proxy
 *     copies the bytes of each side to the other, 16 KiB at a time.
 * Trust
 *     TLS 1.2 or later. The certificate must be signed by an authority in the endpoint's file (or
 *     one that this host knows), and must name the host that the user gave: its name, or its
 *     address.
 * Threads: the loop's; without a loop the caller of crti_redis_tls_proxy_work.
 * Failure
 *     `problem` says why, and the connection of hiredis ends.
 */
#ifndef CRTI_CONTROL_REDIS_TLS_PROXY_H
#define CRTI_CONTROL_REDIS_TLS_PROXY_H

#include <poll.h>

#include "runtime/control/store/redis_endpoint.h"
#include "runtime/net/loop.h"

/*            accept            connected            shaken hands
 *  CLOSED -----------> CONNECTING ------> SHAKING -------------> OPEN
 *     ^                    |                 |                    |
 *     +--------------------+-----------------+--------------------+  close, or a problem
 */
typedef enum crti_tls_proxy_state {
    CRTI_TLS_PROXY_CLOSED,
    CRTI_TLS_PROXY_CONNECTING,
    CRTI_TLS_PROXY_SHAKING,
    CRTI_TLS_PROXY_OPEN,
    CRTI_TLS_PROXY_STATES
} crti_tls_proxy_state_t;

/* Bytes to be written to one side. */
typedef struct crti_tls_proxy_bytes {
    unsigned char bytes[16384];
    size_t from, to;
} crti_tls_proxy_bytes_t;

typedef struct crti_redis_tls_proxy {
    crti_loop_t *loop; /* NULL: polled */
    crti_tls_proxy_state_t state;
    int listener, local, remote; /* -1: none */
    const char *path;            /* of the listener: the endpoint's socket */
    crti_watch_t local_watch, remote_watch;
    void *context, *ssl; /* of OpenSSL */
    bool wants_write;    /* TLS waits for room in the socket */
    crti_tls_proxy_bytes_t in, out;
    char problem[400]; /* why it ended; "": it did not */
} crti_redis_tls_proxy_t;

/* Checks the endpoint's file of authorities. CRT_ERR_INVALID says what is wrong with it. */
crt_status_t crti_redis_tls_proxy_check(const crti_redis_endpoint_t *endpoint);

void crti_redis_tls_proxy_init(crti_redis_tls_proxy_t *proxy, crti_loop_t *loop);
/* Begins to connect, and listens at endpoint->socket for hiredis. */
crt_status_t crti_redis_tls_proxy_begin(crti_redis_tls_proxy_t *proxy,
                                        const crti_redis_endpoint_t *endpoint);
/* hiredis has connected. */
crt_status_t crti_redis_tls_proxy_accept(crti_redis_tls_proxy_t *proxy,
                                         const crti_redis_endpoint_t *endpoint);
/* May be called twice. */
void crti_redis_tls_proxy_close(crti_redis_tls_proxy_t *proxy);

/* Without a loop: the descriptors to poll, at most two; their number. */
nfds_t crti_redis_tls_proxy_waits(const crti_redis_tls_proxy_t *proxy,
                                  struct pollfd waits[2]);
/* Copies what it can without waiting. */
void crti_redis_tls_proxy_work(crti_redis_tls_proxy_t *proxy);

#endif
