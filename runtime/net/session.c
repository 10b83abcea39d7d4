/* SPDX-License-Identifier: Apache-2.0 */
/* Session: the state machine. See session.h.
 *
 * Hot path: one allocation per frame at most (batches are reused), no log above trace, no
 * clock: the caller passes a time that may be a few milliseconds old.
 */
#include "runtime/net/session.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arrow.h"
#include "runtime/base/fault.h"
#include "runtime/base/limit.h"
#include "runtime/base/number_text.h"
#include "runtime/net/protocol.h"
#include "runtime/net/session_int.h"

#define PARTS_MAX 14 /* more parts than this are gathered before they are sent */
#define SPARE_MAX 32 /* batches kept for reuse */

#define TO(state) (1u << CRTI_SESSION_##state)

static const crti_state_row_t states[CRTI_SESSION_STATES] = {
    [CRTI_SESSION_GREETING] = {"greeting", TO(OPEN) | TO(LEAVING) | TO(LOST)},
    [CRTI_SESSION_LEAVING] = {"leaving", TO(DRAINING) | TO(LOST)},
    [CRTI_SESSION_WELCOMED] = {"welcomed", TO(OPEN) | TO(LOST)},
    [CRTI_SESSION_OPEN] = {"open", TO(DRAINING) | TO(CLOSED) | TO(LOST)},
    [CRTI_SESSION_DRAINING] = {"draining", TO(CLOSED) | TO(LOST)},
    [CRTI_SESSION_CLOSED] = {"closed", 0},
    [CRTI_SESSION_LOST] = {"lost", 0},
};

const char *crti_session_state_name(crti_session_state_t state)
{
    return state < CRTI_SESSION_STATES ? states[state].name : "?";
}

bool crti_session_may_follow(crti_session_state_t from, crti_session_state_t to)
{
    return from < CRTI_SESSION_STATES && to < CRTI_SESSION_STATES &&
           (states[from].next & 1u << to) != 0;
}

void crti_session_set_state(crti_session_t *s, crti_session_state_t to)
{
    crti_session_state_t from = s->state;

    assert(crti_session_may_follow(from, to));
    CRTI_ARROW("session", states, from, to);
    s->state = to;
    if (s->config.ops->changed)
        s->config.ops->changed(s->config.user, from, to);
}

/* ---------------------------------------------------------------- frames out */

/* What was told once is never taken back: a record may be held after the frame that carried
 * the credit for it was made. */
static uint64_t credit_to_tell(crti_session_t *s)
{
    uint64_t credit = crti_session_consumed(s);

    if (credit > s->credit_told)
        s->credit_told = credit;
    return s->credit_told;
}

/* Every frame with an acknowledgement is made here: it makes a delayed ACK superfluous. */
static crti_frame_t frame_of(crti_session_t *s, crti_frame_type_t type)
{
    s->ack_at = CRTI_SESSION_NEVER;
    s->arrived = 0;
    return (crti_frame_t){
        .type = type, .session = s->id, .ack = s->received, .credit = credit_to_tell(s)};
}

void crti_session_transmit_frame(crti_session_t *s, const crti_frame_t *frame)
{
    unsigned char bytes[CRTI_FRAME_SMALL];

    s->config.ops->transmit_small(s->config.user, bytes, crti_frame_encode(frame, bytes));
}

void crti_session_transmit(crti_session_t *s, crti_frame_type_t type, uint64_t first)
{
    crti_frame_t frame = frame_of(s, type);

    frame.first = first;
    crti_session_transmit_frame(s, &frame);
}

void crti_session_greet(crti_session_t *s, crti_frame_type_t type)
{
    const crti_session_config_t *c = &s->config;
    crti_frame_t frame = {.type = type, .session = c->nonce};

    frame.greeting = (crti_greeting_t){
        .protocol = CRTI_PROTOCOL_VERSION,
        .window = c->window,
        .from = c->self,
        .from_node = c->self_node,
        .from_incarnation = c->self_incarnation,
        .to = c->peer,
        .to_incarnation = c->peer_incarnation,
        .session = s->id,
    };
    crti_session_transmit_frame(s, &frame);
}

/* Hands over all batches behind record `after`; stops where the transport has no way. */
void crti_session_resend(crti_session_t *s, uint64_t after)
{
    for (crti_batch_t *b = s->oldest; b; b = b->next) {
        if (b->last <= after)
            continue;
        if (!s->config.ops->transmit(s->config.user, b->message))
            return;
        if (b->last <= s->handed)
            s->config.counts->frames_resent++;
        else
            s->handed = b->last;
    }
}

/* ---------------------------------------------------------------- end */

static void free_batches(crti_session_t *s)
{
    crti_batch_t *next;

    for (crti_batch_t *b = s->oldest; b; b = next) {
        next = b->next;
        s->config.ops->drop(s->config.user, b->message);
        free(b);
    }
    for (crti_batch_t *b = s->spare; b; b = next) {
        next = b->next;
        free(b);
    }
    s->oldest = s->spare = NULL;
    s->spare_count = 0;
    s->newest = &s->oldest;
    crti_buffer_fini(&s->gather);
}

void crti_session_end(crti_session_t *s, crti_session_state_t state, crt_status_t status,
                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    crti_vformat(s->detail, sizeof(s->detail), format, args);
    va_end(args);
    s->status = status;
    s->ack_at = s->probe_at = CRTI_SESSION_NEVER;
    free_batches(s);
    crti_session_set_state(s, state);
    s->config.ops->ended(s->config.user, status, s->detail);
}

static const char *peer_text(const crti_session_t *s, char text[CRTI_ID_HEX])
{
    return crti_id_hex(s->config.peer, text);
}

/* Our own decision to give up: the peer hears of it at once if it can. */
static crt_status_t give_up(crti_session_t *s, crt_status_t status, const char *why)
{
    char id[CRTI_ID_HEX];

    if (s->id != 0)
        crti_session_transmit(s, CRTI_FRAME_RESET, 0);
    crti_session_end(s, CRTI_SESSION_LOST, status, "process %s: %s", peer_text(s, id),
                     why);
    return status;
}

crt_status_t crti_session_malformed(crti_session_t *s, const char *why)
{
    return crt_raise(give_up(s, CRT_ERR_PROTOCOL, why), "%s", s->detail);
}

void crti_session_fail(crti_session_t *s, crt_status_t status, const char *detail)
{
    if (crti_session_has_ended(s))
        return;
    if (s->id != 0)
        crti_session_transmit(s, CRTI_FRAME_RESET, 0);
    crti_session_end(s, CRTI_SESSION_LOST, status, "%s", detail);
}

/* Everything was delivered and close was asked: leave. */
void crti_session_finish(crti_session_t *s)
{
    crti_session_transmit(s, CRTI_FRAME_BYE, 0);
    crti_session_end(s, CRTI_SESSION_CLOSED, CRT_OK, "closed");
}

/* ---------------------------------------------------------------- time */

bool crti_session_is_outstanding(const crti_session_t *s)
{
    return !crti_session_is_talking(s) || !crti_session_all_acked(s) || s->is_blocked ||
           s->watch > 0;
}

/* Starts the probe timer when something became outstanding. */
void crti_session_arm(crti_session_t *s, uint64_t now)
{
    if (s->probe_at != CRTI_SESSION_NEVER || crti_session_has_ended(s))
        return;
    s->silent_since = s->progress_at = now;
    s->probe_wait = crti_session_first_probe(s);
    s->probe_at = now + crti_session_first_probe(s);
}

void crti_session_disarm(crti_session_t *s)
{
    if (!crti_session_is_outstanding(s))
        s->probe_at = CRTI_SESSION_NEVER;
}

/* The next probe, but not later than the moment when silence has lasted too long. */
static void set_probe(crti_session_t *s, uint64_t at)
{
    uint64_t limit = s->silent_since + CRTI_LIMIT(session_timeout);

    s->probe_at = at < limit ? at : limit;
}

static void probe(crti_session_t *s, uint64_t now)
{
    if (crti_session_is_greeting(s)) {
        crti_session_greet(s, CRTI_FRAME_HELLO);
    } else if (crti_session_is_talking(s)) {
        s->probe_number++;
        s->probe_handed = s->handed;
        s->config.counts->probes++;
        crti_session_transmit(s, CRTI_FRAME_PROBE, s->probe_number);
    }
    s->probe_wait = s->probe_wait * 2 < CRTI_LIMIT(session_probe_max)
                        ? s->probe_wait * 2
                        : CRTI_LIMIT(session_probe_max);
    set_probe(s, now + s->probe_wait);
}

/* The timer is set lazily: it may fire before its time has come, or when nothing is
 * outstanding any more. */
static void probe_timer(crti_session_t *s, uint64_t now)
{
    uint64_t quiet;

    s->probe_at = CRTI_SESSION_NEVER;
    if (!crti_session_is_outstanding(s))
        return;
    if (now >= s->silent_since + CRTI_LIMIT(session_timeout)) {
        char why[64];

        snprintf(why, sizeof(why), "no sign for %s", CRTI_LIMIT_SAID(session_timeout));
        give_up(s, CRT_ERR_UNREACHABLE, why);
        return;
    }
    if (crti_session_is_talking(s)) {
        quiet = !crti_session_all_acked(s) ? s->progress_at + s->probe_wait
                : s->is_blocked ? s->silent_since + CRTI_LIMIT(session_probe_max)
                                : s->silent_since + CRTI_SESSION_WATCH_NS;
        if (now < quiet) {
            set_probe(s, quiet);
            return;
        }
    }
    probe(s, now);
}

void crti_session_tick(crti_session_t *s, uint64_t now)
{
    if (now >= s->ack_at) {
        crti_session_transmit(s, CRTI_FRAME_ACK, 0);
        crti_session_disarm(s);
    }
    if (now >= s->probe_at)
        probe_timer(s, now);
}

void crti_session_watch(crti_session_t *s, int delta, uint64_t now)
{
    s->watch += delta;
    if (s->watch > 0)
        crti_session_arm(s, now);
}

/* ---------------------------------------------------------------- sending */

static crti_batch_t *new_batch(crti_session_t *s)
{
    crti_batch_t *b = s->spare;

    if (!b)
        return malloc(sizeof(*b));
    s->spare = b->next;
    s->spare_count--;
    return b;
}

void crti_session_retire(crti_session_t *s)
{
    crti_batch_t *b = s->oldest;

    s->oldest = b->next;
    if (!s->oldest)
        s->newest = &s->oldest;
    s->config.ops->drop(s->config.user, b->message);
    if (s->spare_count == SPARE_MAX) {
        free(b);
        return;
    }
    b->next = s->spare;
    s->spare = b;
    s->spare_count++;
}

/* Makes a frame of the records in `parts` (parts[0] is left free for the header), appends it
 * to the resend list, and hands it over. The session talks. */
static crt_status_t seal(crti_session_t *s, struct iovec *parts, int count, size_t size,
                         uint64_t last, uint64_t now)
{
    unsigned char header[CRTI_FRAME_HEADER];
    crti_batch_t *b = new_batch(s);
    crti_frame_t frame = frame_of(s, CRTI_FRAME_DATA);

    frame.first = s->sealed + 1;
    frame.count = (uint32_t)(last - s->sealed);
    crti_frame_encode_header(&frame, header);
    parts[0] = (struct iovec){header, sizeof(header)};
    size += sizeof(header);
    if (!b || !s->config.ops->make(s->config.user, parts, count, size, b->message)) {
        free(b);
        return crt_raise(CRT_ERR_NO_MEMORY, "session: frame of %zu bytes", size);
    }
    b->next = NULL;
    b->last = last;
    b->charged = s->charged;
    *s->newest = b;
    s->newest = &b->next;
    s->sealed = last;
    if (s->config.ops->transmit(s->config.user, b->message))
        s->handed = last;
    crti_session_arm(s, now);
    return CRT_OK;
}

/* Of the records at `data`, how many make the next frame, and their bytes: one at least. */
static uint32_t cut(const unsigned char *data, size_t size, size_t *cut_out)
{
    crti_span_t body = {data, size}, record;
    uint32_t count = 0;
    bool control;

    for (*cut_out = 0; crti_frame_next_record(&body, &record, &control); count++) {
        if (count > 0 && size - body.size > CRTI_SESSION_GATHER)
            break;
        *cut_out = size - body.size;
    }
    return count;
}

/* What was gathered before the session opened may be many frames. Without memory the records
 * stay gathered, and the next time tries again. */
static void seal_gathered(crti_session_t *s, uint64_t now)
{
    struct iovec parts[2];
    size_t from = 0, size;
    uint64_t last;

    while (from < s->gather.size) {
        size = s->gather.size - from;
        if (size > CRTI_SESSION_GATHER)
            last = s->sealed + cut(s->gather.data + from, size, &size);
        else
            last = s->queued;
        parts[1] = (struct iovec){s->gather.data + from, size};
        if (seal(s, parts, 2, size, last, now) != CRT_OK)
            break;
        from += size;
    }
    if (from < s->gather.size)
        crti_buffer_consume(&s->gather, from);
    else if (s->gather.capacity > 2 * CRTI_SESSION_GATHER)
        crti_buffer_fini(&s->gather);
    else
        s->gather.size = 0;
}

void crti_session_flush(crti_session_t *s, uint64_t now)
{
    if (crti_session_is_talking(
            s)) /* no frame can be made before the session has an id */
        seal_gathered(s, now);
}

static crt_status_t gather(crti_session_t *s, const struct iovec *parts, int count,
                           size_t size, bool control)
{
    crt_status_t status = crti_buffer_reserve(&s->gather, CRTI_FRAME_RECORD + size);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = s->gather.data + s->gather.size;
    crti_frame_encode_size((uint32_t)size, control, to);
    to += CRTI_FRAME_RECORD;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len)
            memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    s->gather.size += CRTI_FRAME_RECORD + size;
    s->queued++;
    return CRT_OK;
}

/* A frame of its own, without a copy into the gather buffer. */
static crt_status_t send_alone(crti_session_t *s, const struct iovec *parts, int count,
                               size_t size, bool control, uint64_t now)
{
    struct iovec all[PARTS_MAX + 2];
    unsigned char word[CRTI_FRAME_RECORD];
    crt_status_t status;

    crti_frame_encode_size((uint32_t)size, control, word);
    all[1] = (struct iovec){word, sizeof(word)};
    memcpy(all + 2, parts, (size_t)count * sizeof(*parts));
    status = seal(s, all, count + 2, sizeof(word) + size, s->queued + 1, now);
    if (status == CRT_OK)
        s->queued++;
    return status;
}

bool crti_session_peer_is_idle(const crti_session_t *s)
{
    const crti_session_ops_t *ops = s->config.ops;

    return ops->peer_is_idle && ops->peer_is_idle(s->config.user);
}

/* Whether what was gathered leaves before a record of `size` bytes joins it. */
static bool is_frame_full(const crti_session_t *s, size_t size)
{
    if (s->gather.size == 0 || s->gather.size + size <= CRTI_SESSION_GATHER_IDLE)
        return false;
    return s->gather.size + size > CRTI_SESSION_GATHER || crti_session_peer_is_idle(s);
}

bool crti_session_has_room(const crti_session_t *s, size_t size)
{
    uint64_t in_flight = s->charged - s->credit;

    /* A record above the window goes when nothing else is in flight. */
    return in_flight == 0 || in_flight + size <= s->config.window;
}

static crt_status_t may_send(const crti_session_t *s, size_t size, bool control)
{
    switch (s->state) {
    case CRTI_SESSION_GREETING:
    case CRTI_SESSION_WELCOMED:
    case CRTI_SESSION_OPEN: break;
    case CRTI_SESSION_LEAVING:
    case CRTI_SESSION_DRAINING: return crt_raise(CRT_ERR_CLOSED, "session is closing");
    default:
        return crt_raise(s->status != CRT_OK ? s->status : CRT_ERR_CLOSED, "%s",
                         s->detail);
    }
    if (size == 0 || size > s->config.record_max)
        return crt_raise(size ? CRT_ERR_TOO_LARGE : CRT_ERR_INVALID,
                         "a record of %zu bytes, allowed are 1 to %zu", size,
                         s->config.record_max);
    if (!control && !crti_session_has_room(s, size))
        return crt_raise(CRT_ERR_BACKPRESSURE, "%llu bytes are in flight",
                         (unsigned long long)(s->charged - s->credit));
    return CRT_OK;
}

crt_status_t crti_session_send(crti_session_t *s, const struct iovec *parts, int count,
                               bool control, uint64_t now)
{
    crt_status_t status;
    size_t size = 0, charge;
    bool alone, idle, talking;

    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    status = may_send(s, size, control);
    if (status == CRT_ERR_BACKPRESSURE) {
        s->is_blocked = true;
        crti_session_arm(s, now);
    }
    if (status != CRT_OK)
        return status;
    if (is_frame_full(s, size))
        crti_session_flush(s, now);
    /* Nothing in flight: it would gain nothing by waiting. Large: nothing would fit beside. */
    charge = control ? 0 : size;
    talking = crti_session_is_talking(s);
    idle = talking && crti_session_all_acked(s);
    alone = talking && s->gather.size == 0 && count <= PARTS_MAX &&
            (idle || size >= CRTI_SESSION_GATHER / 2);
    s->charged += charge; /* the batch that it goes in says so */
    status = alone ? send_alone(s, parts, count, size, control, now)
                   : gather(s, parts, count, size, control);
    if (status != CRT_OK) {
        s->charged -= charge;
        return status;
    }
    if (idle)
        crti_session_flush(s, now);
    if (!control)
        s->is_blocked = false;
    s->config.counts->records_sent++;
    return CRT_OK;
}

void crti_session_hold(crti_session_t *s, size_t size)
{
    s->held_bytes += size;
}

void crti_session_release(crti_session_t *s, size_t size, uint64_t now)
{
    assert(size <= s->held_bytes);
    s->held_bytes -= size;
    if (!crti_session_is_talking(s))
        return;
    if (crti_session_owes_credit(s))
        crti_session_transmit(s, CRTI_FRAME_ACK, 0);
    else
        crti_session_want_ack(s, now + crti_session_ack_wait(s));
}

void crti_session_close(crti_session_t *s, uint64_t now)
{
    switch (s->state) {
    case CRTI_SESSION_GREETING: crti_session_set_state(s, CRTI_SESSION_LEAVING); break;
    case CRTI_SESSION_OPEN:
        crti_session_flush(s, now);
        crti_session_set_state(s, CRTI_SESSION_DRAINING);
        if (crti_session_all_acked(s))
            crti_session_finish(s);
        else if (s->config.is_steady)
            probe(s, now); /* the acknowledgement would take its time */
        break;
    case CRTI_SESSION_WELCOMED:
        give_up(s, CRT_ERR_CLOSED, "closed before it opened");
        break;
    default: break;
    }
}

/* ---------------------------------------------------------------- start and end */

static void init(crti_session_t *s, const crti_session_config_t *config, uint64_t now)
{
    *s = (crti_session_t){.config = *config, .ack_at = CRTI_SESSION_NEVER};
    s->newest = &s->oldest;
    s->gap_told = s->nacked = UINT64_MAX;
    s->silent_since = s->progress_at = now;
    s->probe_wait = CRTI_LIMIT(session_probe);
    s->probe_at = now + CRTI_LIMIT(session_probe);
}

void crti_session_start(crti_session_t *s, const crti_session_config_t *config,
                        uint64_t now)
{
    init(s, config, now);
    s->state = CRTI_SESSION_GREETING;
    s->initiator = true;
    crti_session_greet(s, CRTI_FRAME_HELLO);
}

void crti_session_accept(crti_session_t *s, const crti_session_config_t *config,
                         const crti_frame_t *hello, uint64_t now)
{
    init(s, config, now);
    s->state = CRTI_SESSION_WELCOMED;
    s->id = config->id;
    s->peer_window = hello->greeting.window;
    crti_session_greet(s, CRTI_FRAME_WELCOME);
}

crt_status_t crti_session_check_hello(const crti_frame_t *hello, crti_id_t self,
                                      uint64_t self_incarnation)
{
    const crti_greeting_t *g = &hello->greeting;

    if (g->protocol != CRTI_PROTOCOL_VERSION)
        return crt_raise(CRT_ERR_PROTOCOL, "protocol version %u, this process speaks %d",
                         g->protocol, CRTI_PROTOCOL_VERSION);
    if ((!crti_id_equal(g->to, self) || g->to_incarnation != self_incarnation) &&
        !CRTI_FAULT(5))
        return crt_raise(CRT_ERR_WORKER_DIED,
                         "this is another incarnation of the process");
    return CRT_OK;
}

void crti_session_fini(crti_session_t *s)
{
    free_batches(s);
}
