/* SPDX-License-Identifier: Apache-2.0 */
/* Silent connections: those that have not sent their first TLS record whole.
 *
 * Where it sits
 *     stream_listener.c (accepted) -> [ stream_silent ] -> stream_listener.c (spoken: the handshake begins)
 * Why
 *     A ClientHello is all that an honest peer sends before it hears from us, in one segment, and it
 *     proves the cluster's key: whoever sends another one is refused at once. So only who says nothing,
 *     or a part of it, can stay. A connection costs a descriptor here and no TLS; there are
 *     CRTI_SILENT_MAX of a listener, the oldest gives way at once to the next one, and so nobody waits behind
 *     any number of them.
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

/* The public fields are set before. */
void crti_silent_init(crti_silent_t *silent);
void crti_silent_fini(crti_silent_t *silent);

/* A connection that was accepted. Its first record may be there already, as that of most is: the kernel
 * gives us a connection when it has sent something (TCP_DEFER_ACCEPT). */
void crti_silent_add(crti_silent_t *silent, int fd, const struct sockaddr_storage *from);

#endif
