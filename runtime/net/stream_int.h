/* SPDX-License-Identifier: Apache-2.0 */
/* What stream.c, stream_send.c and stream_listener.c share. */
#ifndef CRTI_NET_STREAM_INT_H
#define CRTI_NET_STREAM_INT_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "runtime/base/list.h"
#include "runtime/net/stream.h"
#include "runtime/net/tls.h"

#define CRTI_STREAM_HEADER 4 /* bytes of a frame's length */
#define CRTI_STREAM_TURN                                                                 \
    ((size_t)4 << 20) /* bytes per turn: others of the loop get theirs */

/*              TCP up           both keys proved        close asked          all sent
 *  CONNECTING --------> HANDSHAKE -------------> OPEN ------------> CLOSING ----------> LINGER
 *
 *  LINGER waits (at most a second) for the peer's end of file, so that what was sent is not
 *  torn down with the socket. Every state may go to CLOSED; nothing follows CLOSED.
 */
typedef enum crti_stream_state {
    CRTI_STREAM_CONNECTING,
    CRTI_STREAM_HANDSHAKE,
    CRTI_STREAM_OPEN,
    CRTI_STREAM_CLOSING,
    CRTI_STREAM_LINGER,
    CRTI_STREAM_CLOSED,
    CRTI_STREAM_STATES
} crti_stream_state_t;

struct crti_stream_context {
    crti_tls_context_t *tls;
    bool is_bursty;
};

struct crti_stream {
    crti_list_t link;                 /* the listener's handshaking connections */
    crti_stream_listener_t *listener; /* NULL once accepted, or outgoing */
    uint64_t since_ns, since_idle;    /* when the listener took it; crti_loop_idle then */
    crti_loop_t *loop;
    crti_tls_t *tls;
    int fd;
    crti_stream_state_t state;
    crti_watch_t watch;
    crti_timer_t deadline; /* of connect, handshake and first message, or of LINGER */
    crti_timer_t kick;     /* flush what this turn queued; go on receiving */
    bool more;             /* the receive budget ended before the bytes did */
    bool freed;            /* inside a handler: the memory goes when it has returned */
    bool is_unheard;       /* a listener took it, and no message has come */
    int depth;             /* handlers on the stack */
    uint64_t timeout_ms;
    crti_stream_handlers_t handlers;
    char address[CRTI_STREAM_ADDRESS];

    crti_list_t out;       /* segments */
    size_t queued;         /* bytes in `out` */
    size_t queued_control; /* of them messages */
    size_t pieces;         /* segments of `out` */
    bool has_filled;       /* something was queued since on_drained */
    /* bytes in `out` beyond which nothing is taken from the peer; 0: any */
    size_t reply_limit;
    struct crti_stream_segment *spare;

    crti_buffer_t in;
    size_t in_at;          /* consumed bytes of `in` */
    uint64_t received;     /* bytes in all */
    uint64_t payload_left; /* raw bytes until the next frame */
    size_t payload_size;
    unsigned char *payload; /* NULL: they are thrown away */
    bool payload_wanted; /* on_message of a payload's message runs: receive is allowed */
    bool held;           /* nothing is taken from `in` and the socket */
};

/* A stream of a connected or connecting socket; takes the descriptor on CRT_OK. */
crt_status_t crti_stream_new(crti_loop_t *loop, crti_stream_context_t *context,
                             int *fd_take, bool is_server, uint64_t timeout_ms,
                             crti_stream_t **stream_out);

/* What is queued leaves at the end of this turn. */
void crti_stream_kick(crti_stream_t *s);
/* Writes what the socket takes. */
crt_status_t crti_stream_flush(crti_stream_t *s);
/* Nothing of what is queued leaves any more; on_sent hears `status`. */
void crti_stream_drop_queued(crti_stream_t *s, crt_status_t status);
void crti_stream_free_spare(crti_stream_t *s);
/* Raw bytes that follow a message of this kind. */
uint64_t crti_stream_payload_of(crti_message_kind_t kind, const void *body);

/* For listeners: ends a connection in its handshake, without a handler. */
void crti_stream_drop(crti_stream_t *stream);

/* Called by stream.c for a stream with a listener: its handshake succeeded (gives the stream
 * away) or failed (the listener forgets it; stream.c frees it). */
void crti_stream_listener_opened(crti_stream_listener_t *listener, crti_stream_t *stream);
void crti_stream_listener_failed(crti_stream_listener_t *listener, crti_stream_t *stream,
                                 crt_status_t status, const char *text);

/* Socket options that every stream has. */
void crti_stream_tune(int fd);

/* Options that have to be there before the handshake of TCP: on a socket that will connect, or
 * one that listens, from which accepted ones have them. */
void crti_stream_prepare(const crti_stream_context_t *context, int fd);

#endif
