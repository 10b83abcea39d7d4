/* SPDX-License-Identifier: Apache-2.0 */
/* Silent connections: those that have not sent their first TLS record whole.
 *
 * Where it sits
 *     stream_listener.c (accepted) -> [ stream_silent ] -> stream_listener.c (spoken: the handshake
 *     begins)
 * Why
 *     An honest peer sends only a ClientHello before our answer, in one segment, and it proves the
 *     cluster's key: a peer with another one is refused at once. So only a peer that sends nothing,
 *     or a part of it, can stay. Its connection costs a descriptor and no TLS state. A listener
 *     keeps CRTI_SILENT_MAX of them; the oldest is closed for the next one, so that any number of
 *     them delays no other peer.
 * Threads: the loop's.
 * Ownership: it owns the descriptors until they are given to on_spoken.
 */
#ifndef CRTI_NET_STREAM_SILENT_H
#define CRTI_NET_STREAM_SILENT_H

#include <sys/socket.h>

#include "runtime/base/list.h"
#include "runtime/net/loop.h"

#define CRTI_SILENT_MAX 64

typedef struct crti_silent {
    crti_loop_t *loop;
    uint64_t timeout_ns;
    void *user;
    /* Takes the descriptor. May free what holds this. */
    void (*on_spoken)(void *user, int fd, const struct sockaddr_storage *from);
    /* It was closed. */
    void (*on_refused)(void *user, const struct sockaddr_storage *from, const char *why);
    crti_list_t connections; /* oldest first */
    unsigned count;
    crti_timer_t timer; /* of the oldest */
} crti_silent_t;

/* The caller has set the public fields. */
void crti_silent_init(crti_silent_t *silent);
void crti_silent_fini(crti_silent_t *silent);

/* A connection that was accepted. Its first record may be there already, as that of most is: the
 * kernel gives us a connection when it has sent something (TCP_DEFER_ACCEPT). */
void crti_silent_add(crti_silent_t *silent, int fd, const struct sockaddr_storage *from);

#endif
