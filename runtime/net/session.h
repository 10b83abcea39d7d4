/* SPDX-License-Identifier: Apache-2.0 */
/* Session: order and at-most-once between two processes, over a transport that may lose,
 * repeat, reorder, and reconnect silently. A pure state machine: frames, sends and the time
 * go in; messages to hand over, records to deliver and one end come out through `ops`.
 *
 * Where it sits
 *     net -> [ session ] -> frame -> zmq link;  tests/sim runs it over a simulated network
 * Threads
 *     None of its own, no lock, no clock, no socket. The caller (net, under its lock) never
 *     enters one session twice, except from inside ops->deliver, which may call everything
 *     here but crti_session_receive, _tick and _fini.
 * How it works
 *     Records are numbered 1, 2, 3, ... per direction and leave in batches, one DATA frame each.
 *     A batch stays in the resend list until the peer acknowledged its last record. Every frame
 *     carries the cumulative acknowledgement of the other direction; without traffic that way
 *     an ACK follows after 25 ms (a second where nothing is lost). A receiver that sees a gap drops
 *     what is behind it and sends NACK; a sender that waits for an acknowledgement sends PROBE, and
 *     resends what the answer shows to be missing (go back n: losses are rare, they are
 *     reconnects). The window counts bytes that the peer has not consumed yet (credit), which is
 *     later than acknowledged; control records are outside of it.
 * Handshake
 *     The initiator's HELLO names both processes, incarnations and a random nonce; the acceptor
 *     answers WELCOME with a random session id of its own. All other frames carry that id, so
 *     that a late copy of an old HELLO can't bring an old session back to life: the acceptor
 *     delivers nothing before a frame with the id shows that the initiator has read WELCOME.
 * Ownership
 *     `ops` and `counts` outlive the session. Batches and what ops->make put into them are the
 *     session's until ops->drop.
 * Invariants
 *     Records are delivered in order and exactly once. Bytes in flight that are not control
 *     records never exceed the window, except for one record that is larger than it. Nothing is
 *     sent but HELLO before WELCOME. ops->ended is called once; nothing is called after it.
 * Failure
 *     A malformed acknowledgement, a refusal, a RESET, session_timeout of silence while something
 *     is outstanding, or of frames that acknowledge nothing of it, or crti_session_fail end it.
 *     `acked` and `handed` then say what certainly was and what certainly was not delivered.
 */
#ifndef CRTI_NET_SESSION_H
#define CRTI_NET_SESSION_H

#include <sys/uio.h>

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/net/frame.h"

/* Bytes of a gathered frame, about: with our header and CURVE's it fits into the 8192 bytes that
 * libzmq sends and receives by one call of the system. */
#define CRTI_SESSION_GATHER 8064
/* Of one to a peer that is known to wait: it works on the first records while more are made. */
#define CRTI_SESSION_GATHER_IDLE 2048
/* An acknowledgement waits so long where nothing is lost; the first probe comes after
 * session_probe_max there. */
#define CRTI_SESSION_ACK_STEADY_NS (CRTI_LIMIT(session_probe_max) / 2)
/* Silence of a watched session before a probe. */
#define CRTI_SESSION_WATCH_NS (CRTI_LIMIT(session_timeout) / 3)
#define CRTI_SESSION_NEVER    UINT64_MAX
#define CRTI_SESSION_MESSAGE  64 /* bytes ops->make may use in a batch */

/*  initiator     WELCOME              close asked            all acknowledged
 *  GREETING --------------> OPEN -------------------> DRAINING --------------> CLOSED
 *      |                    ^  |                         ^
 *      | close asked        |  |                         |
 *      +---> LEAVING -------)--)--- WELCOME -------------+
 *                           |  |
 *  acceptor                 |  +--- the peer said BYE, nothing was open ----> CLOSED
 *  WELCOMED ----------------+       (from DRAINING as well)
 *        first frame with the id
 *
 *  Every state but CLOSED may go to LOST: refused, reset, BYE with records open, silence,
 *  malformed, death notice. Nothing follows CLOSED and LOST.
 */
typedef enum crti_session_state {
    CRTI_SESSION_GREETING,
    CRTI_SESSION_LEAVING,
    CRTI_SESSION_WELCOMED,
    CRTI_SESSION_OPEN,
    CRTI_SESSION_DRAINING,
    CRTI_SESSION_CLOSED,
    CRTI_SESSION_LOST,
    CRTI_SESSION_STATES
} crti_session_state_t;

const char *crti_session_state_name(crti_session_state_t state);

/* Whether the picture above has this arrow. */
bool crti_session_may_follow(crti_session_state_t from, crti_session_state_t to);

typedef struct crti_session_ops {
    /* Makes an immutable message of `size` bytes in the CRTI_SESSION_MESSAGE bytes of memory
     * at `message` (aligned to 16). False: no memory. */
    bool (*make)(void *user, const struct iovec *parts, int count, size_t size,
                 void *message);
    /* Hands the message over; it stays valid and may be handed over again. False: there is no
     * way to the peer at the moment, the message certainly did not leave. */
    bool (*transmit)(void *user, void *message);
    void (*drop)(void *user, void *message);
    /* Hands over a frame other than DATA; losing it does no harm. */
    void (*transmit_small)(void *user, const void *data, size_t size);
    /* May be NULL: whether the peer has taken all that was handed over. */
    bool (*peer_is_idle)(void *user);
    void (*deliver)(void *user, const void *data, size_t size);
    /* CRT_OK: closed by our side with everything delivered. */
    void (*ended)(void *user, crt_status_t status, const char *detail);
    /* May be NULL: each arrow as it is taken, for logs and coverage. */
    void (*changed)(void *user, crti_session_state_t from, crti_session_state_t to);
} crti_session_ops_t;

/* Summed over the sessions that share it. */
typedef struct crti_session_counts {
    uint64_t records_sent, records_received;
    uint64_t frames_resent, frames_duplicate, frames_missing, probes;
} crti_session_counts_t;

typedef struct crti_session_config {
    const crti_session_ops_t *ops;
    void *user;
    crti_session_counts_t *counts;
    crti_id_t self, self_node, peer; /* processes */
    uint64_t self_incarnation, peer_incarnation;
    uint64_t nonce;  /* random, not 0; the acceptor's is that of the HELLO */
    uint64_t id;     /* acceptor: random, not 0; initiator: 0 */
    uint64_t window; /* bytes */
    size_t record_max;
    /* The transport loses nothing while both processes live: what is asked for and told by timers
     * has time, and calls that come now and then find the timer running. */
    bool is_steady;
} crti_session_config_t;

typedef struct crti_batch crti_batch_t;

/* Members are read by net and by tests, written by session.c alone. */
typedef struct crti_session {
    crti_session_config_t config;
    crti_session_state_t state;
    bool initiator;
    uint64_t id;

    /* sending */
    uint64_t queued;  /* number of the last record taken by crti_session_send */
    uint64_t sealed;  /* of the last record in a batch */
    uint64_t handed;  /* of the last record that was handed over */
    uint64_t acked;   /* of the last record the peer acknowledged */
    uint64_t charged; /* bytes of all records sent within the window, ever */
    uint64_t credit;  /* of these, what the peer has consumed */
    crti_batch_t *oldest,
        **newest;        /* sealed, not acknowledged; newest: where to append */
    crti_batch_t *spare; /* for reuse */
    int spare_count;
    crti_buffer_t gather; /* records gathered for the next frame */
    /* The window was full for the last send: the frame that tells of credit may be lost, so it
     * is asked for. */
    bool is_blocked;
    uint64_t nacked, nack_until;

    /* receiving */
    uint64_t received; /* number of the last record delivered */
    uint64_t delivered_bytes, held_bytes, credit_told;
    uint64_t arrived; /* bytes of records since the last frame with an acknowledgement */
    uint64_t peer_window, gap_told, gap_until;

    /* time */
    uint64_t ack_at, probe_at;
    uint64_t silent_since, progress_at, probe_wait;
    uint64_t probe_number, probe_handed;
    /* Since when no frame has acknowledged an open record; 0: the last frame did. */
    uint64_t unacked_since;
    int watch;

    crt_status_t status; /* why it ended */
    char detail[480];    /* the report of a death fits */
} crti_session_t;

/* Starts as initiator and says HELLO. The detail of a failure later names the peer. */
void crti_session_start(crti_session_t *s, const crti_session_config_t *config,
                        uint64_t now);

/* Starts as acceptor of a HELLO that crti_session_check_hello took, and answers WELCOME. */
void crti_session_accept(crti_session_t *s, const crti_session_config_t *config,
                         const crti_frame_t *hello, uint64_t now);

/* What a process answers to a HELLO. CRT_ERR_PROTOCOL: another version; CRT_ERR_WORKER_DIED:
 * meant for another process or incarnation. The detail belongs into REFUSED. */
crt_status_t crti_session_check_hello(const crti_frame_t *hello, crti_id_t self,
                                      uint64_t self_incarnation);

/* What a process does with a frame that came by the route `nonce`. `s` is the session of that
 * route, NULL when there is none. */
typedef enum crti_session_verdict {
    CRTI_SESSION_RECEIVE, /* crti_session_receive */
    CRTI_SESSION_ACCEPT,  /* a HELLO: crti_session_check_hello, then accept or REFUSED */
    CRTI_SESSION_RESET,   /* answer RESET with the frame's session: it is unknown here */
    CRTI_SESSION_IGNORE,
    CRTI_SESSION_MALFORMED, /* HELLO whose nonce is not that of its route */
} crti_session_verdict_t;
crti_session_verdict_t crti_session_judge(const crti_session_t *s,
                                          const crti_frame_t *frame, uint64_t nonce);

/* Frees everything without calling ended. */
void crti_session_fini(crti_session_t *s);

/* Queues one record, and sends it if nothing is in flight or the gathered frame is full.
 * CRT_ERR_BACKPRESSURE: the window is full; CRT_ERR_TOO_LARGE; CRT_ERR_CLOSED after close; the
 * status of its end after that. On failure nothing was queued. */
crt_status_t crti_session_send(crti_session_t *s, const struct iovec *parts, int count,
                               bool control, uint64_t now);

/* Whether a record of that size fits into the window now. */
bool crti_session_has_room(const crti_session_t *s, size_t size);

/* Whether the peer has taken all that was handed over; false where that can't be seen. */
bool crti_session_peer_is_idle(const crti_session_t *s);

/* Seals and hands over what was gathered. */
void crti_session_flush(crti_session_t *s, uint64_t now);

/* Whether crti_session_flush has something to do. */
static inline bool crti_session_is_gathering(const crti_session_t *s)
{
    return s->gather.size > 0;
}

/* A frame of this session (net matched nonce or id). CRT_ERR_PROTOCOL: it was malformed, and
 * the session is lost. */
crt_status_t crti_session_receive(crti_session_t *s, const crti_frame_t *frame,
                                  uint64_t now);

/* The earliest time at which crti_session_tick has work; CRTI_SESSION_NEVER for none. */
static inline uint64_t crti_session_deadline(const crti_session_t *s)
{
    return s->ack_at < s->probe_at ? s->ack_at : s->probe_at;
}

void crti_session_tick(crti_session_t *s, uint64_t now);

/* Bytes of the record being delivered that are not consumed when deliver returns, and their
 * return. */
void crti_session_hold(crti_session_t *s, size_t size);
void crti_session_release(crti_session_t *s, size_t size, uint64_t now);

/* While the sum is above 0, silence is probed. */
void crti_session_watch(crti_session_t *s, int delta, uint64_t now);

/* Closes after everything was delivered. */
void crti_session_close(crti_session_t *s, uint64_t now);

/* Ends it now: a death notice, or the process gives up. The peer is told by RESET when it
 * can be told. */
void crti_session_fail(crti_session_t *s, crt_status_t status, const char *detail);

static inline bool crti_session_has_ended(const crti_session_t *s)
{
    return s->state >= CRTI_SESSION_CLOSED;
}

#endif
