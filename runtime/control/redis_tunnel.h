/* SPDX-License-Identifier: Apache-2.0 */
/* Tunnel: TLS between hiredis, which knows none, and a redis-server of others (--redis-tls). The only
 * file of control that knows OpenSSL.
 *
 * Where it sits
 *     redis.c, redis_door.c -> hiredis <- a socket of this process -> [ control/redis_tunnel.c ]
 *         <- tcp with TLS -> redis-server
 * How
 *     crti_redis_tunnel_begin listens at the door's socket, hiredis connects to it, and
 *     crti_redis_tunnel_accept takes that connection and closes the listener: the socket is there for
 *     a moment, in the head's directory, which is ours alone, and only this process is let in.
 *     What comes on one side goes to the other, 16 KiB at a time.
 * Trust
 *     TLS 1.2 or later. The certificate must be signed by an authority in the door's file (or one that
 *     this host knows), and be made out to the host that the user named: its name, or its address.
 * Threads: the loop's; without a loop whoever calls crti_redis_tunnel_poll.
 * Failure
 *     `problem` says why, and the connection of hiredis ends.
 */
#ifndef CRTI_CONTROL_REDIS_TUNNEL_H
#define CRTI_CONTROL_REDIS_TUNNEL_H

#include <poll.h>

#include "runtime/control/redis_door.h"
#include "runtime/net/loop.h"

/*            accept            connected            shaken hands
 *  CLOSED -----------> CONNECTING ------> SHAKING -------------> OPEN
 *     ^                    |                 |                    |
 *     +--------------------+-----------------+--------------------+  close, or a problem
 */
typedef enum crti_tunnel_state {
    CRTI_TUNNEL_CLOSED,
    CRTI_TUNNEL_CONNECTING,
    CRTI_TUNNEL_SHAKING,
    CRTI_TUNNEL_OPEN,
    CRTI_TUNNEL_STATES
} crti_tunnel_state_t;

/* What waits to be written to one side. */
typedef struct crti_tunnel_bytes {
    unsigned char bytes[16384];
    size_t from, to;
} crti_tunnel_bytes_t;

typedef struct crti_redis_tunnel {
    crti_loop_t *loop; /* NULL: polled */
    crti_tunnel_state_t state;
    int listener, local, remote; /* -1: none */
    crti_watch_t local_watch, remote_watch;
    void *context, *ssl; /* of OpenSSL */
    bool wants_write;    /* TLS waits for room in the socket */
    crti_tunnel_bytes_t in, out;
    char problem[400]; /* why it ended; "" nothing did */
} crti_redis_tunnel_t;

/* Can the door's authorities be read? CRT_ERR_INVALID says what is wrong with its file. */
crt_status_t crti_redis_tunnel_check(const crti_redis_door_t *door);

void crti_redis_tunnel_init(crti_redis_tunnel_t *tunnel, crti_loop_t *loop);
/* Begins to connect, and listens at door->socket for hiredis. */
crt_status_t crti_redis_tunnel_begin(crti_redis_tunnel_t *tunnel,
                                     const crti_redis_door_t *door);
/* hiredis has connected. */
crt_status_t crti_redis_tunnel_accept(crti_redis_tunnel_t *tunnel,
                                      const crti_redis_door_t *door);
/* Ends what there is of it. May be called twice. */
void crti_redis_tunnel_close(crti_redis_tunnel_t *tunnel);

/* Without a loop: what it waits for, at most two entries; how many. */
nfds_t crti_redis_tunnel_waits(const crti_redis_tunnel_t *tunnel, struct pollfd waits[2]);
/* Carries on as far as that goes without waiting. */
void crti_redis_tunnel_work(crti_redis_tunnel_t *tunnel);

#endif
