/* SPDX-License-Identifier: Apache-2.0 */
/* Stream: the connection between machines for everything but calls: node daemon to head, node
 * daemon to node daemon, ring collectives. TCP with TLS 1.3 and an external pre-shared key.
 *
 * Where it sits
 *     messages, object parts <-> [ net/stream.c ] <-> OpenSSL <-> TCP
 *                                net/loop.c calls it when the socket is ready
 * Security
 *     Both sides prove that they hold the cluster key before a byte of anything else is looked
 *     at; the cipher is AES-256-GCM. All that follows is authenticated, so that an attacker on the
 *     path can insert, change, repeat or drop nothing unseen. Messages are encrypted; payloads of
 *     objects and groups are, too, unless the listener's side says otherwise (an option of the
 *     cluster).
 * Frames
 *     32-bit little-endian length, then a message (net/message.h) of at most
 *     CRTI_MESSAGE_MAX bytes. OBJECT_DATA, PROGRAM_DATA, GROUP_DATA and GROUP_OFFER are
 *     followed by as many raw bytes as their `length` says: the payload. It is received straight
 *     into a buffer that the handler of the message gives with crti_stream_receive, or thrown away
 *     when it gives none.
 * Threads
 *     A stream belongs to the loop it was made on and is used in that thread only. Contexts
 *     are immutable once in use and may be shared.
 * Files
 *     stream.c frames and queues, stream_connect.c outgoing and stream_listener.c incoming
 *     connections, tls.c OpenSSL.
 * Ownership
 *     The creator of a stream frees it with crti_stream_free, inside a handler too, and no
 *     handler is called after that. Handlers never run inside crti_stream_connect or a send.
 *     on_closed is called at most once, and is the last handler that is called.
 * Failure
 *     A connection that breaks, is silent in the handshake, or sends what is no frame or no
 *     message ends with on_closed and the reason; nothing else is touched by it.
 */
#ifndef CRTI_NET_STREAM_H
#define CRTI_NET_STREAM_H

#include "runtime/base/address.h"
#include "runtime/base/cleanup.h"
#include "runtime/net/key.h"
#include "runtime/net/loop.h"
#include "runtime/net/message.h"

#define CRTI_STREAM_UNAUTHENTICATED 64 /* connections of a listener in their handshake */
#define CRTI_STREAM_PIECES          1024         /* of a stream with a reply limit */
#define CRTI_STREAM_ADDRESS         CRTI_ADDRESS /* bytes of "host:port" with the final zero */

typedef struct crti_stream crti_stream_t;
typedef struct crti_stream_context crti_stream_context_t;
typedef struct crti_stream_listener crti_stream_listener_t;

/* What a stream is made with: the key, and (for listeners) whether to encrypt payloads. Caller owns
 * the result and frees it with crti_stream_context_free; streams made with it keep it alive. */
crt_status_t crti_stream_context_new(const crti_key_t *key, bool encrypt,
                                     crti_stream_context_t **context_out);
void crti_stream_context_free(crti_stream_context_t *context);
CRTI_DEFINE_AUTO(crti_stream_context_t *, crti_stream_context_free)

/* For traffic in bursts with pauses between. BBR takes the pauses for the rate of the path and
 * paces the next burst by it. Where BBR is the system's default, both outgoing and incoming
 * connections get a loss-based congestion control from their first packet (pacing stays on where
 * BBR once was). Before the context's first use. */
void crti_stream_context_avoid_bbr(crti_stream_context_t *context);

typedef struct crti_stream_handlers {
    void *user;
    /* Authenticated; sends made before are on their way. May be NULL. */
    void (*on_open)(void *user, crti_stream_t *stream);
    /* `message` and what it points at is borrowed until return. */
    void (*on_message)(void *user, crti_stream_t *stream, const crti_message_t *message);
    /* The payload that crti_stream_receive asked for is complete. May be NULL when none is
     * ever asked for. */
    void (*on_payload)(void *user, crti_stream_t *stream, void *buffer, size_t size);
    /* The system has taken all that was queued. May be NULL. */
    void (*on_drained)(void *user, crti_stream_t *stream);
    /* The end. CRT_ERR_CLOSED: the peer closed in an orderly way, which no attacker
     * can forge. A connect that failed: CRT_ERR_UNREACHABLE (refused, no route),
     * CRT_ERR_TIMED_OUT, CRT_ERR_PERMISSION (another key), CRT_ERR_PROTOCOL (not a crt process, or
     * malformed or changed bytes). CRT_ERR_IO: broke, or ended inside a message. */
    void (*on_closed)(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text);
} crti_stream_handlers_t;

/* Starts to connect to `address`, numeric ("10.0.0.1:6380", "[::1]:6380"), and returns at once;
 * on_open or on_closed tells the outcome within timeout_ms. CRT_ERR_INVALID: no address. */
crt_status_t crti_stream_connect(crti_loop_t *loop, crti_stream_context_t *context,
                                 const char *address, uint64_t timeout_ms,
                                 const crti_stream_handlers_t *handlers,
                                 crti_stream_t **stream_out);

/* Ends the connection at once and frees; what was queued may be lost. NULL is fine. */
void crti_stream_free(crti_stream_t *stream);
CRTI_DEFINE_AUTO(crti_stream_t *, crti_stream_free)

/* Ends the connection after everything queued was sent (or the peer is gone); on_closed follows
 * with CRT_ERR_CLOSED. No message is received any more. */
void crti_stream_close(crti_stream_t *stream);

/* Queues one message; all of one turn of the loop leave together. Sends before on_open are
 * kept. CRT_ERR_CLOSED on a closed stream; CRT_ERR_BACKPRESSURE: the peer does not read and
 * link_queue bytes wait (nothing was queued, the caller decides). */
crt_status_t crti_stream_send(crti_stream_t *stream, crti_message_kind_t kind,
                              uint64_t request, const void *body);

/* The answer ERROR with this thread's crt_error_detail(). */
crt_status_t crti_stream_send_error(crti_stream_t *stream, uint64_t request,
                                    crt_status_t status);

/* An encoded message, copied. */
crt_status_t crti_stream_send_bytes(crti_stream_t *stream, const void *data, size_t size);

/* The same with a payload, whose size the body's `length` gives. `data` stays the caller's and
 * unchanged until `on_sent` has been called: exactly once unless the send failed, with CRT_OK
 * when it is needed no more (crti_stream_queued tells what the system has not taken yet), else the
 * reason (also from crti_stream_free). */
typedef void crti_stream_sent_t(void *user, crt_status_t status);
crt_status_t crti_stream_send_payload(crti_stream_t *stream, crti_message_kind_t kind,
                                      uint64_t request, const void *body,
                                      const void *data, crti_stream_sent_t *on_sent,
                                      void *user);

/* The same with a small payload that is copied, so that it leaves in one write with its message;
 * the body's `length` is `size`. */
crt_status_t crti_stream_send_copy(crti_stream_t *stream, crti_message_kind_t kind,
                                   uint64_t request, const void *body, const void *data,
                                   size_t size);

/* Writes now what the socket takes of what was queued, instead of at the end of this turn of the
 * loop: for a message that the peer waits for. on_sent may be called inside, no handler is: a
 * failure is seen by the loop. */
void crti_stream_push(crti_stream_t *stream);

/* Only inside on_message of a message that has a payload, or while the stream is held there:
 * where to put it (`length` bytes). The buffer stays valid until on_payload,
 * crti_stream_discard, on_closed or free. */
void crti_stream_receive(crti_stream_t *stream, void *buffer);

/* Only inside on_message: nothing more is taken from this stream, the message's payload
 * neither, until crti_stream_resume. The peer's bytes wait in the kernel; that the connection
 * broke is noticed only by sending, or then. */
void crti_stream_hold(crti_stream_t *stream);
void crti_stream_resume(crti_stream_t *stream);

/* Backpressure for the replying side: no request is read from the peer while more than `bytes`, or
 * CRTI_STREAM_PIECES pieces, of replies wait to be sent. One side only: with it on both, each could
 * wait for the other. */
void crti_stream_limit_replies(crti_stream_t *stream, size_t bytes);

/* No user timeout: the connection may stall for as long as the peer answers keepalive probes, for a
 * live peer that reads late. The caller must learn of a dead host from elsewhere. */
void crti_stream_allow_stall(crti_stream_t *stream);

/* The buffer of the payload in progress is needed no more: the rest of it is thrown away, and
 * on_payload is not called for it. */
void crti_stream_discard(crti_stream_t *stream);

/* Bytes that came since it was made, messages and payloads. */
uint64_t crti_stream_received(const crti_stream_t *stream);

/* Bytes queued and not yet taken by the system, payloads included. */
size_t crti_stream_queued(const crti_stream_t *stream);

/* For accepted streams, and when a stream changes its user. */
void crti_stream_set_handlers(crti_stream_t *stream,
                              const crti_stream_handlers_t *handlers);

/* "10.0.0.1:41234". Borrowed: valid until the stream is freed. */
const char *crti_stream_peer_address(const crti_stream_t *stream);

/* This side's address of the connection, without the port: the address by which the peer's
 * network sees this host. */
crt_status_t crti_stream_local_ip(const crti_stream_t *stream, char *text, size_t size);

/* ---------------------------------------------------------------- listener */

/* A socket that listens on `ip` (numeric) and `port` (0: any), without blocking. CRT_ERR_EXISTS:
 * the port is taken. The caller owns the descriptor. */
crt_status_t crti_stream_bind(const char *ip, uint16_t port, int *fd_out,
                              uint16_t *port_out);

/* Listens on `ip` (numeric) and `port` (0: any). `on_accept` gets each authenticated stream with
 * the ownership of it, and sets its handlers before it returns. Connections in their handshake
 * are capped (the oldest gives way) and end after handshake_timeout in which the loop had
 * time; so does an accepted stream on which no message has come after as long. CRT_ERR_EXISTS: the
 * port is taken. Caller owns the result and frees it with crti_stream_listener_free, which leaves
 * accepted streams alone. */
typedef void crti_stream_accept_t(void *user, crti_stream_t *stream);
crt_status_t crti_stream_listen(crti_loop_t *loop, crti_stream_context_t *context,
                                const char *ip, uint16_t port,
                                crti_stream_accept_t *on_accept, void *user,
                                crti_stream_listener_t **listener_out);
void crti_stream_listener_free(crti_stream_listener_t *listener);
CRTI_DEFINE_AUTO(crti_stream_listener_t *, crti_stream_listener_free)

/* While paused, connections wait in the kernel. */
void crti_stream_listener_pause(crti_stream_listener_t *listener, bool pause);

/* Connections from now on prove this context's key. */
void crti_stream_listener_rekey(crti_stream_listener_t *listener,
                                crti_stream_context_t *context);

/* The port in use. */
uint16_t crti_stream_listener_port(const crti_stream_listener_t *listener);

/* Connections that ended in their handshake: wrong key, no TLS, too slow, too many. */
uint64_t crti_stream_listener_refused(const crti_stream_listener_t *listener);

/* ---------------------------------------------------------------- addresses */

/* Turns "host:port" into a numeric address, as crti_address_resolve does. It may block: for the
 * start of a process only. CRT_ERR_INVALID: no host:port; CRT_ERR_UNREACHABLE: unknown host. */
crt_status_t crti_stream_resolve(const char *address, char numeric[CRTI_STREAM_ADDRESS]);

#endif
