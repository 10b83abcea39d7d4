/* SPDX-License-Identifier: Apache-2.0 */
/* ZeroMQ link: the sockets under the sessions. The only file that calls libzmq, which is loaded
 * when the first of them is made (zmq_library.h).
 *
 * Where it sits
 *     net_zmq -> [ zmq link ] -> libzmq: a ROUTER on tcp with CURVE, one DEALER per session with
 *     another node that this process initiated, and the ZAP handler
 * Threads
 *     One caller at a time (net's lock). libzmq's I/O thread blocks all signals, its
 *     descriptors are CLOEXEC.
 * How
 *     No high-water mark (a ROUTER drops silently at it), mandatory routing (a message to a peer
 *     that is gone is an answer, not a silence), handover (a reconnected DEALER takes its
 *     routing id back). A DEALER's routing id is 'c' and the nonce of its session.
 *     CURVE without a ZAP handler accepts any client key; so ZAP is bound first, the domain is
 *     enforced, and only the client key derived from the cluster key is accepted. Handshakes
 *     are given 3 s, messages above `message_max` end their connection.
 * Waiting
 *     The descriptor of a socket is edge-triggered in effect: sending and receiving consume its
 *     signal. After either, call crti_zmq_receive until there is nothing, or look with
 *     crti_zmq_has_input, before sleeping.
 */
#ifndef CRTI_NET_ZMQ_LINK_H
#define CRTI_NET_ZMQ_LINK_H

#include <sys/uio.h>

#include "runtime/base/buffer.h"
#include "runtime/net/key.h"

#define CRTI_ZMQ_ROUTE   9  /* bytes of a routing id of ours */
#define CRTI_ZMQ_MESSAGE 64 /* bytes of a message handle, aligned to 16 */

typedef struct crti_zmq crti_zmq_t;
typedef struct crti_socket crti_socket_t;

/* One context with its I/O thread, for at most `sockets_max` sockets. `key` NULL: no CURVE, so
 * no tcp. CRT_ERR_IO with a text when the process may not open enough files: libzmq itself
 * would abort. */
crt_status_t crti_zmq_new(const crti_key_t *key, size_t message_max, int sockets_max,
                          crti_zmq_t **zmq_out);

/* All its sockets are closed before. Waits for what lingers. NULL is fine. */
void crti_zmq_free(crti_zmq_t *zmq);
CRTI_DEFINE_AUTO(crti_zmq_t *, crti_zmq_free)

/* Sockets are closed with crti_socket_close. Serves connections to a listening tcp socket; on
 * CRT_OK it is libzmq's and `*fd_take` is -1. ZAP must be served. */
crt_status_t crti_zmq_listen(crti_zmq_t *zmq, int *fd_take, crti_socket_t **socket_out);

/* A DEALER to the ROUTER at "ip:port". */
crt_status_t crti_zmq_dial(crti_zmq_t *zmq, const char *tcp,
                           const unsigned char route[CRTI_ZMQ_ROUTE],
                           crti_socket_t **socket_out);

crt_status_t crti_zmq_serve_zap(crti_zmq_t *zmq, crti_socket_t **socket_out);

/* Answers one waiting ZAP request. False: there was none. `*accepted_out` is set if true. */
bool crti_zmq_answer_zap(crti_socket_t *zap, bool *accepted_out);

/* Returns at once; what was sent is kept trying for `linger_ms`. NULL is fine. */
void crti_socket_close(crti_socket_t *socket, int linger_ms);
void crti_socket_drop(crti_socket_t *socket); /* closes without lingering */
CRTI_DEFINE_AUTO(crti_socket_t *, crti_socket_drop)

int crti_socket_fd(const crti_socket_t *socket);
bool crti_zmq_has_input(crti_socket_t *socket);

/* A received message; `route` is empty on a DEALER. Released with crti_zmq_release. */
typedef struct crti_zmq_input {
    _Alignas(16) unsigned char message[CRTI_ZMQ_MESSAGE];
    unsigned char route[CRTI_ZMQ_ROUTE];
    bool routed;    /* has a routing id of our form */
    bool is_single; /* exactly one part behind the routing id */
    const void *data;
    size_t size;
} crti_zmq_input_t;

/* False: nothing is waiting. */
bool crti_zmq_receive(crti_socket_t *socket, crti_zmq_input_t *input_out);
void crti_zmq_release(crti_zmq_input_t *input);

/* Messages that can be sent more than once. `message` is CRTI_ZMQ_MESSAGE bytes. */
bool crti_zmq_make(const struct iovec *parts, int count, size_t size, void *message);
void crti_zmq_drop(void *message);

/* `route` is NULL on a DEALER. False: no connection with that routing id. */
bool crti_zmq_send(crti_socket_t *socket, const unsigned char *route, void *message);
bool crti_zmq_send_bytes(crti_socket_t *socket, const unsigned char *route,
                         const void *data, size_t size);

#endif
