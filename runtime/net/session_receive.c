/* SPDX-License-Identifier: Apache-2.0 */
/* Session: what a frame of the peer does to it. See session.h.
 *
 * Nothing here trusts the frame beyond what crti_frame_decode checked.
 */
#include "runtime/net/session.h"

#include <stdio.h>

#include "runtime/base/fault.h"
#include "runtime/base/limit.h"
#include "runtime/net/protocol.h"
#include "runtime/net/session_int.h"

/* The peer is heard and has acknowledged nothing since the last frame that did. */
static crt_status_t take_no_ack(crti_session_t *s, uint64_t now)
{
    char why[64];

    if (s->unacked_since == 0)
        s->unacked_since = now;
    if (now - s->unacked_since < CRTI_LIMIT(session_timeout))
        return CRT_OK;
    snprintf(why, sizeof(why), "sends for %s and acknowledges nothing",
             CRTI_LIMIT_SAID(session_timeout));
    return crti_session_malformed(s, why);
}

static void take_new_ack(crti_session_t *s, uint64_t ack, uint64_t now)
{
    s->acked = CRTI_FAULT(4) ? s->handed : ack;
    while (s->oldest && s->oldest->last <= s->acked)
        crti_session_retire(s);
    s->unacked_since = 0;
    s->progress_at = now;
    s->probe_wait = crti_session_first_probe(s);
}

/* Takes acknowledgement and credit of a frame. An old frame's are smaller and change
 * nothing. */
static crt_status_t take_ack(crti_session_t *s, const crti_frame_t *frame, uint64_t now)
{
    crt_status_t status = CRT_OK;

    if (crti_session_all_acked(s))
        s->probe_wait = crti_session_first_probe(s);
    if (frame->ack > s->handed)
        return crti_session_malformed(s, "acknowledges records that were not sent");
    if (frame->ack > s->acked)
        take_new_ack(s, frame->ack, now);
    else if (!crti_session_all_acked(s))
        status = take_no_ack(s, now);
    if (status != CRT_OK)
        return status;
    if (frame->credit > crti_session_consumable(s))
        return crti_session_malformed(s, "gives credit for what it did not acknowledge");
    if (frame->credit > s->credit)
        s->credit = frame->credit;
    if (s->credit == s->charged)
        s->is_blocked = false;
    return CRT_OK;
}

/* What the answer to a probe shows to be missing was lost: nothing of it is on its way, unless
 * the network reorders, and then it is a duplicate. */
static void take_probe_answer(crti_session_t *s, const crti_frame_t *frame)
{
    if (frame->first == s->probe_number && frame->first != 0 &&
        (frame->ack < s->probe_handed || s->handed < s->sealed))
        crti_session_resend(s, s->acked);
}

static void take_nack(crti_session_t *s, const crti_frame_t *frame, uint64_t now)
{
    if (frame->ack < s->acked || (frame->ack == s->nacked && now < s->nack_until))
        return;
    s->nacked = frame->ack;
    s->nack_until = now + CRTI_LIMIT(session_probe) / 4;
    crti_session_resend(s, s->acked);
}

static void report_gap(crti_session_t *s, uint64_t now)
{
    s->config.counts->frames_missing++;
    if (s->received == s->gap_told && now < s->gap_until)
        return;
    s->gap_told = s->received;
    s->gap_until = now + CRTI_LIMIT(session_probe) / 4;
    crti_session_transmit(s, CRTI_FRAME_NACK, 0);
}

static void deliver(crti_session_t *s, crti_span_t record, bool control)
{
    s->received++;
    s->arrived += record.size;
    s->config.counts->records_received++;
    if (control) {
        s->config.ops->deliver(s->config.user, record.data, record.size);
        return;
    }
    /* Consumed when deliver returns, less what it holds. */
    s->delivered_bytes += record.size;
    s->held_bytes += record.size;
    s->config.ops->deliver(s->config.user, record.data, record.size);
    s->held_bytes -= record.size;
}

static bool was_delivered(const crti_session_t *s, uint64_t number)
{
    if (CRTI_FAULT(1) && number == s->received && s->gap_told == number - 1)
        return false;
    return number <= s->received;
}

static crt_status_t take_data(crti_session_t *s, const crti_frame_t *frame, uint64_t now)
{
    uint64_t last = frame->first + (frame->count - 1);
    crti_span_t body = frame->body, record;
    bool control;

    if (last < frame->first)
        return crti_session_malformed(s, "record numbers overflow");
    if (frame->first > s->received + 1) {
        report_gap(s, now);
        return CRT_OK;
    }
    if (was_delivered(s, last)) {
        s->config.counts->frames_duplicate++;
        crti_session_want_ack(s, now);
        return CRT_OK;
    }
    crti_session_want_ack(s, now + crti_session_ack_wait(s));
    for (uint64_t number = frame->first; crti_frame_next_record(&body, &record, &control);
         number++) {
        if (record.size > s->config.record_max)
            return crti_session_malformed(s, "record above the largest size");
        if (was_delivered(s, number))
            continue;
        deliver(s, record, control);
        if (!crti_session_is_talking(s)) /* the handler ended it */
            return CRT_OK;
    }
    return CRT_OK;
}

/* What acknowledgements and deliveries made possible. */
static void advance(crti_session_t *s, uint64_t now)
{
    if (!crti_session_is_talking(s))
        return;
    if (s->gather.size > 0 && s->acked == s->sealed)
        crti_session_flush(s, now);
    if (s->state == CRTI_SESSION_DRAINING && crti_session_all_acked(s)) {
        crti_session_finish(s);
        return;
    }
    if (crti_session_owes_credit(s) || crti_session_owes_ack(s))
        crti_session_transmit(s, CRTI_FRAME_ACK, 0);
    if (crti_session_is_outstanding(s))
        crti_session_arm(s, now);
}

static crt_status_t take_bye(crti_session_t *s)
{
    char id[CRTI_ID_HEX];
    crti_session_state_t state =
        crti_session_all_acked(s) ? CRTI_SESSION_CLOSED : CRTI_SESSION_LOST;

    crti_session_end(s, state, CRT_ERR_CLOSED, "process %s closed the session",
                     crti_id_hex(s->config.peer, id));
    return CRT_OK;
}

static crt_status_t take_frame(crti_session_t *s, const crti_frame_t *frame, uint64_t now)
{
    crt_status_t status = take_ack(s, frame, now);

    if (status != CRT_OK)
        return status;
    switch (frame->type) {
    case CRTI_FRAME_DATA: status = take_data(s, frame, now); break;
    case CRTI_FRAME_ACK:
        take_probe_answer(s, frame);
        crti_session_disarm(s);
        break;
    case CRTI_FRAME_NACK: take_nack(s, frame, now); break;
    case CRTI_FRAME_PROBE: crti_session_transmit(s, CRTI_FRAME_ACK, frame->first); break;
    case CRTI_FRAME_BYE: return take_bye(s);
    default: break;
    }
    if (status == CRT_OK)
        advance(s, now);
    return status;
}

static void open_session(crti_session_t *s, crti_session_state_t state, uint64_t now)
{
    crti_session_set_state(s, state);
    s->silent_since = s->progress_at = now;
    s->probe_wait = crti_session_first_probe(s);
    s->probe_at = CRTI_SESSION_NEVER;
    crti_session_flush(s, now);
}

static crt_status_t take_welcome(crti_session_t *s, const crti_frame_t *frame,
                                 uint64_t now)
{
    const crti_greeting_t *g = &frame->greeting;
    crti_frame_t reset = {.type = CRTI_FRAME_RESET, .session = g->session};
    crti_session_state_t next;

    if (!s->initiator || g->session == 0)
        return crti_session_malformed(s, "unexpected WELCOME");
    if (!crti_session_is_greeting(s)) {
        /* Made by a late copy of our HELLO: nobody will use it. */
        if (g->session != s->id)
            crti_session_transmit_frame(s, &reset);
        return CRT_OK;
    }
    if (!crti_id_equal(g->from, s->config.peer) ||
        g->from_incarnation != s->config.peer_incarnation ||
        g->protocol != CRTI_PROTOCOL_VERSION)
        return crti_session_malformed(s, "WELCOME by another process or version");
    s->id = g->session;
    s->peer_window = g->window;
    next = s->state == CRTI_SESSION_LEAVING ? CRTI_SESSION_DRAINING : CRTI_SESSION_OPEN;
    open_session(s, next, now);
    if (s->queued == 0) /* the acceptor waits for a first frame */
        crti_session_transmit(s, CRTI_FRAME_ACK, 0);
    advance(s, now);
    return CRT_OK;
}

static crt_status_t take_refusal(crti_session_t *s, const crti_frame_t *frame)
{
    char id[CRTI_ID_HEX];

    if (crti_session_is_greeting(s))
        crti_session_end(s, CRTI_SESSION_LOST,
                         frame->status < 0 ? frame->status : CRT_ERR_PROTOCOL,
                         "process %s refused: %.*s", crti_id_hex(s->config.peer, id),
                         (int)frame->body.size, (const char *)frame->body.data);
    return CRT_OK;
}

crti_session_verdict_t crti_session_judge(const crti_session_t *s,
                                          const crti_frame_t *frame, uint64_t nonce)
{
    bool is_handshake = frame->type <= CRTI_FRAME_REFUSED;

    if (s && (s->initiator || is_handshake || frame->session == s->id))
        return CRTI_SESSION_RECEIVE;
    switch (frame->type) {
    case CRTI_FRAME_HELLO:
        return frame->session == nonce ? CRTI_SESSION_ACCEPT : CRTI_SESSION_MALFORMED;
    case CRTI_FRAME_DATA:
    case CRTI_FRAME_ACK:
    case CRTI_FRAME_NACK:
    case CRTI_FRAME_PROBE: return CRTI_SESSION_RESET;
    default: return CRTI_SESSION_IGNORE;
    }
}

crt_status_t crti_session_receive(crti_session_t *s, const crti_frame_t *frame,
                                  uint64_t now)
{
    char id[CRTI_ID_HEX];

    if (crti_session_has_ended(s))
        return CRT_OK;
    switch (frame->type) {
    case CRTI_FRAME_WELCOME: return take_welcome(s, frame, now);
    case CRTI_FRAME_REFUSED: return take_refusal(s, frame);
    case CRTI_FRAME_HELLO:
        if (s->initiator)
            return crti_session_malformed(s, "HELLO by an acceptor");
        if (crti_id_equal(frame->greeting.from, s->config.peer))
            crti_session_greet(s, CRTI_FRAME_WELCOME);
        return CRT_OK;
    default: break;
    }
    if (frame->session != s->id || s->id == 0) /* of an earlier session */
        return CRT_OK;
    /* One of us stood still: its acknowledgement may be behind this. */
    if (now - s->silent_since >= CRTI_LIMIT(session_timeout) / 3)
        s->unacked_since = 0;
    s->silent_since = now;
    if (frame->type == CRTI_FRAME_RESET) {
        crti_session_end(s, CRTI_SESSION_LOST, CRT_ERR_CLOSED,
                         "process %s gave the session up",
                         crti_id_hex(s->config.peer, id));
        return CRT_OK;
    }
    if (s->state == CRTI_SESSION_WELCOMED)
        open_session(s, CRTI_SESSION_OPEN, now);
    return take_frame(s, frame, now);
}
