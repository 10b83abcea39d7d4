/* SPDX-License-Identifier: Apache-2.0 */
/* What session.c and session_receive.c share; private to them. */
#ifndef CRTI_NET_SESSION_INT_H
#define CRTI_NET_SESSION_INT_H

#include "runtime/base/limit.h"
#include "runtime/net/session.h"

/* One sealed frame. */
struct crti_batch {
    _Alignas(16) unsigned char message[CRTI_SESSION_MESSAGE];
    crti_batch_t *next;
    uint64_t last;    /* number of its last record */
    uint64_t charged; /* crti_session_t.charged up to there, at least */
};

static inline bool crti_session_is_talking(const crti_session_t *s)
{
    return s->state == CRTI_SESSION_OPEN || s->state == CRTI_SESSION_DRAINING;
}

static inline bool crti_session_is_greeting(const crti_session_t *s)
{
    return s->state == CRTI_SESSION_GREETING || s->state == CRTI_SESSION_LEAVING;
}

static inline bool crti_session_all_acked(const crti_session_t *s)
{
    return s->acked == s->queued;
}

/* Bytes of the other direction that were consumed. */
static inline uint64_t crti_session_consumed(const crti_session_t *s)
{
    return s->delivered_bytes > s->held_bytes ? s->delivered_bytes - s->held_bytes : 0;
}

/* What the peer may have consumed: it acknowledges that in the same frame, but for a part of the
 * oldest batch. */
static inline uint64_t crti_session_consumable(const crti_session_t *s)
{
    return s->oldest ? s->oldest->charged : s->charged;
}

/* A quarter of the window was consumed and not told: the sender may be waiting for it. */
static inline bool crti_session_owes_credit(const crti_session_t *s)
{
    return crti_session_consumed(s) > s->credit_told + s->peer_window / 4;
}

/* So much came, also by control records, that the sender has to keep a quarter of a window for
 * us. */
static inline bool crti_session_owes_ack(const crti_session_t *s)
{
    return s->arrived > s->peer_window / 4;
}

static inline uint64_t crti_session_ack_wait(const crti_session_t *s)
{
    return s->config.is_steady ? CRTI_SESSION_ACK_STEADY_NS
                               : CRTI_LIMIT(session_ack_delay);
}

static inline uint64_t crti_session_first_probe(const crti_session_t *s)
{
    return s->config.is_steady ? CRTI_LIMIT(session_probe_max)
                               : CRTI_LIMIT(session_probe);
}

static inline void crti_session_want_ack(crti_session_t *s, uint64_t at)
{
    if (at < s->ack_at)
        s->ack_at = at;
}

/* The only place where the state changes. */
void crti_session_set_state(crti_session_t *s, crti_session_state_t to);

void crti_session_transmit_frame(crti_session_t *s, const crti_frame_t *frame);

/* A frame without a body, with acknowledgement and credit. */
void crti_session_transmit(crti_session_t *s, crti_frame_type_t type, uint64_t first);

void crti_session_greet(crti_session_t *s, crti_frame_type_t type);

/* Hands over all batches behind record `after`. */
void crti_session_resend(crti_session_t *s, uint64_t after);

/* Takes a batch, the oldest, off the resend list. */
void crti_session_retire(crti_session_t *s);

/* Something is awaited from the peer, so silence means something. */
bool crti_session_is_outstanding(const crti_session_t *s);

/* Starts the probe timer when something became outstanding. */
void crti_session_arm(crti_session_t *s, uint64_t now);

/* Stops it when nothing is, in a quiet moment: while calls follow each other it is left to find out
 * itself. */
void crti_session_disarm(crti_session_t *s);

void crti_session_end(crti_session_t *s, crti_session_state_t state, crt_status_t status,
                      const char *format, ...) CRT_PRINTF(4, 5);

/* The peer broke the protocol: RESET, lost, and the status for the caller. */
crt_status_t crti_session_malformed(crti_session_t *s, const char *why);

/* Close was asked and everything is acknowledged: BYE. */
void crti_session_finish(crti_session_t *s);

#endif
