/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: frames and payloads over an authenticated connection: their lives, what arrives, events.
 * What leaves is in stream_send.c. See stream.h. */
#include "runtime/net/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/net/stream_int.h"

#define READ_SIZE     ((size_t)64 << 10) /* one read of messages */
#define KEPT_CAPACITY ((size_t)256 << 10)
#define LINGER_MS     1000
#define BUSY_LIMIT    5 /* times as long a busy host may take for a handshake */
#define BULK          ((size_t)16 << 10) /* a payload that is worth a read of its own */
#define BETWEEN       ((size_t)512)      /* and what is read before the next one */

#define TO(state) (1u << CRTI_STREAM_##state)
static const struct {
    const char *name;
    unsigned next;
} states[CRTI_STREAM_STATES] = {
    [CRTI_STREAM_CONNECTING] = {"connecting", TO(HANDSHAKE) | TO(CLOSED)},
    [CRTI_STREAM_HANDSHAKE] = {"handshake", TO(OPEN) | TO(CLOSED)},
    [CRTI_STREAM_OPEN] = {"open", TO(CLOSING) | TO(CLOSED)},
    [CRTI_STREAM_CLOSING] = {"closing", TO(LINGER) | TO(CLOSED)},
    [CRTI_STREAM_LINGER] = {"linger", TO(CLOSED)},
    [CRTI_STREAM_CLOSED] = {"closed", 0},
};

static void set_state(crti_stream_t *s, crti_stream_state_t state)
{
    assert(states[s->state].next & (1u << state));
    crti_log(CRTI_LOG_DEBUG, "stream", "%s: %s -> %s", s->address, states[s->state].name,
             states[state].name);
    s->state = state;
}

/* ---------------------------------------------------------------- the end */

/* Lets go of the socket and of everything queued; calls on_sent, but no handler. */
static void teardown(crti_stream_t *s, crt_status_t status)
{
    if (s->state != CRTI_STREAM_CLOSED)
        set_state(s, CRTI_STREAM_CLOSED);
    crti_loop_cancel(s->loop, &s->deadline);
    crti_loop_cancel(s->loop, &s->kick);
    crti_loop_remove(s->loop, &s->watch);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    crti_tls_free(s->tls);
    s->tls = NULL;
    s->payload = NULL;
    s->payload_left = 0;
    crti_stream_drop_queued(s, status);
}

static void release(crti_stream_t *s)
{
    crti_stream_free_spare(s);
    crti_buffer_fini(&s->in);
    free(s);
}

void crti_stream_free(crti_stream_t *stream)
{
    if (stream == NULL || stream->freed)
        return;
    stream->freed = true; /* on_sent may not free it again */
    if (stream->tls && stream->state == CRTI_STREAM_OPEN)
        crti_tls_shutdown(stream->tls);
    teardown(stream, CRT_ERR_CLOSED);
    if (stream->depth == 0)
        release(stream);
}

void crti_stream_drop(crti_stream_t *stream)
{
    stream->listener = NULL;
    crti_stream_free(stream);
}

/* Only from the loop: the connection is over. The raised detail is the reason. */
static void fail(crti_stream_t *s, crt_status_t status)
{
    crti_stream_listener_t *listener = s->listener;
    char text[512];

    if (s->state == CRTI_STREAM_CLOSED)
        return;
    snprintf(text, sizeof(text), "%s", crt_error_detail());
    teardown(s, status);
    if (listener) {
        crti_stream_listener_failed(listener, s, status, text);
        crti_stream_drop(s);
    } else if (!s->freed && s->handlers.on_closed) {
        s->handlers.on_closed(s->handlers.user, s, status, text);
    }
}

/* ---------------------------------------------------------------- receiving */

void crti_stream_receive(crti_stream_t *stream, void *buffer)
{
    assert(stream->payload_wanted);
    stream->payload = buffer;
}

void crti_stream_hold(crti_stream_t *stream)
{
    stream->held = true;
}

void crti_stream_resume(crti_stream_t *stream)
{
    if (!stream->held)
        return;
    stream->held = stream->payload_wanted = false;
    stream->more = true;
    crti_stream_kick(stream);
}

void crti_stream_limit_replies(crti_stream_t *stream, size_t bytes)
{
    stream->reply_limit = bytes;
}

/* Answers that were asked for wait for a peer that does not read them. */
static bool is_full(const crti_stream_t *s)
{
    return s->reply_limit &&
           (s->queued > s->reply_limit || s->pieces > CRTI_STREAM_PIECES);
}

static bool takes(const crti_stream_t *s)
{
    return s->state == CRTI_STREAM_OPEN && !s->held && !is_full(s);
}

static crt_status_t flush(crti_stream_t *s)
{
    bool was_full = is_full(s);
    crt_status_t status = crti_stream_flush(s);

    if (was_full && takes(s)) { /* what it asked meanwhile */
        s->more = true;
        crti_stream_kick(s);
    }
    return status;
}

void crti_stream_discard(crti_stream_t *stream)
{
    stream->payload = NULL;
}

static void payload_done(crti_stream_t *s)
{
    void *buffer = s->payload;

    s->payload = NULL;
    if (buffer && s->handlers.on_payload)
        s->handlers.on_payload(s->handlers.user, s, buffer, s->payload_size);
}

static crt_status_t deliver(crti_stream_t *s, const unsigned char *frame, size_t size)
{
    crti_message_t message;
    crt_status_t status = crti_message_decode(frame, size, &message);

    if (status != CRT_OK)
        return status;
    s->payload_left = crti_stream_payload_of(message.kind, &message.error);
    s->payload_size = s->payload_left;
    s->payload = NULL;
    s->payload_wanted = s->payload_left != 0;
    if (s->handlers.on_message)
        s->handlers.on_message(s->handlers.user, s, &message);
    if (!s->held)
        s->payload_wanted = false;
    return CRT_OK;
}

/* Moves received bytes of a payload to where they belong. */
static void take_payload(crti_stream_t *s)
{
    size_t have = s->in.size - s->in_at;
    size_t size = s->payload_left < have ? s->payload_left : have;

    if (s->payload)
        memcpy(s->payload + (s->payload_size - s->payload_left), s->in.data + s->in_at,
               size);
    s->in_at += size;
    s->payload_left -= size;
    if (s->payload_left == 0)
        payload_done(s);
}

/* Takes the next frame out of `in`; CRT_IN_PROGRESS when it is not complete. */
static crt_status_t take_frame(crti_stream_t *s)
{
    const unsigned char *at = s->in.data + s->in_at;
    size_t have = s->in.size - s->in_at, size;
    crt_status_t status;

    if (have < CRTI_STREAM_HEADER)
        return CRT_IN_PROGRESS;
    size = at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
    if (size == 0 || size > CRTI_MESSAGE_MAX)
        return crt_raise(CRT_ERR_PROTOCOL, "%s sent a frame of %zu bytes", s->address,
                         size);
    if (have - CRTI_STREAM_HEADER < size)
        return CRT_IN_PROGRESS;
    if (s->is_unheard && s->state == CRTI_STREAM_OPEN)
        crti_loop_cancel(s->loop, &s->deadline);
    s->is_unheard = false;
    status = deliver(s, at + CRTI_STREAM_HEADER, size);
    s->in_at += CRTI_STREAM_HEADER + size;
    return status;
}

/* Works off what was received. */
static crt_status_t parse(crti_stream_t *s)
{
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && takes(s) && s->in_at < s->in.size) {
        if (s->payload_left)
            take_payload(s);
        else
            status = take_frame(s);
    }
    if (s->in_at == s->in.size && s->in.capacity > KEPT_CAPACITY)
        crti_buffer_fini(&s->in);
    else if (s->in_at)
        crti_buffer_consume(&s->in, s->in_at);
    s->in_at = 0;
    return status == CRT_IN_PROGRESS ? CRT_OK : status;
}

/* One read: straight into the payload's buffer when that is what comes next. */
static crt_status_t read_some(crti_stream_t *s, size_t *budget)
{
    size_t done = 0;
    crt_status_t status;

    if (s->payload_left && s->payload && s->in.size == 0) {
        size_t size = s->payload_left < *budget ? s->payload_left : *budget;

        status = crti_tls_read(s->tls, s->payload + (s->payload_size - s->payload_left),
                               size, &done);
        if (status != CRT_OK)
            return status;
        s->payload_left -= done;
        s->received += done;
        *budget -= done;
        if (s->payload_left == 0)
            payload_done(s);
        return CRT_OK;
    }
    status = crti_buffer_reserve(&s->in, READ_SIZE);
    if (status == CRT_OK)
        status = crti_tls_read(
            s->tls, s->in.data + s->in.size,
            s->payload_size < BULK ? s->in.capacity - s->in.size : BETWEEN, &done);
    if (status != CRT_OK)
        return status;
    s->in.size += done;
    s->received += done;
    *budget -= done < *budget ? done : *budget;
    return parse(s);
}

static crt_status_t receive(crti_stream_t *s)
{
    size_t budget = CRTI_STREAM_TURN;
    crt_status_t status = parse(s); /* what came before it was held */

    while (status == CRT_OK && budget && takes(s)) {
        status = read_some(s, &budget);
        if (status == CRT_OK && s->state == CRTI_STREAM_OPEN &&
            crti_tls_is_drained(s->tls))
            status = CRT_IN_PROGRESS;
    }
    s->more = status == CRT_OK && takes(s);
    if (s->more)
        crti_stream_kick(s);
    else if (s->in.size == 0)
        crti_buffer_fini(&s->in);
    if (status == CRT_ERR_CLOSED && (s->in.size || s->payload_left))
        return crt_raise(CRT_ERR_IO, "%s ended inside a message", s->address);
    return status == CRT_IN_PROGRESS ? CRT_OK : status;
}

/* After close: what still comes is thrown away, until the peer's end. */
static crt_status_t swallow(crti_stream_t *s)
{
    unsigned char scrap[4096];
    crt_status_t status = CRT_OK;
    size_t done;

    for (size_t total = 0; status == CRT_OK && total < CRTI_STREAM_TURN; total += done)
        status = crti_tls_read(s->tls, scrap, sizeof(scrap), &done);
    s->more = status == CRT_OK;
    if (s->more)
        crti_stream_kick(s);
    if (status == CRT_IN_PROGRESS)
        return CRT_OK;
    return status < 0 ? crt_raise(CRT_ERR_CLOSED, "closed") : status;
}

/* ---------------------------------------------------------------- events */

static void update_events(crti_stream_t *s)
{
    uint32_t events = EPOLLIN;

    if (s->state == CRTI_STREAM_CLOSED)
        return;
    if (s->state == CRTI_STREAM_CONNECTING)
        events = EPOLLOUT;
    else if (s->state == CRTI_STREAM_HANDSHAKE)
        events = crti_tls_wants_write(s->tls) ? EPOLLOUT : EPOLLIN;
    else if (!crti_list_is_empty(&s->out) || crti_tls_pending(s->tls))
        events |= EPOLLOUT;
    if (s->state == CRTI_STREAM_OPEN && !takes(s))
        events &= ~(uint32_t)EPOLLIN;
    if (events == 0) /* a broken connection would be reported again and again */
        crti_loop_remove(s->loop, &s->watch);
    else if (!s->watch.added)
        crti_loop_add(s->loop, &s->watch, s->fd, events);
    else if (s->watch.events != events)
        crti_loop_modify(s->loop, &s->watch, events);
}

static crt_status_t connected(crti_stream_t *s)
{
    socklen_t size = sizeof(int);
    int error = 0;

    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error == ECONNREFUSED)
        return crt_raise(CRT_ERR_UNREACHABLE, "nobody listens at %s", s->address);
    if (error == ETIMEDOUT)
        return crt_raise(CRT_ERR_TIMED_OUT, "no answer from %s", s->address);
    if (error)
        return crt_raise(CRT_ERR_UNREACHABLE, "%s can't be reached: %s", s->address,
                         strerror(error));
    set_state(s, CRTI_STREAM_HANDSHAKE);
    return CRT_OK;
}

/* Who connects speaks first. */
static void wait_for_first_message(crti_stream_t *s)
{
    s->is_unheard = true;
    s->since_ns = crti_loop_now(s->loop);
    s->since_idle = crti_loop_idle(s->loop);
    crti_loop_start(s->loop, &s->deadline, s->since_ns + s->timeout_ms * CRTI_MS);
}

static crt_status_t shake(crti_stream_t *s)
{
    crti_stream_listener_t *listener = s->listener;
    crt_status_t status = crti_tls_handshake(s->tls);

    if (status == CRT_IN_PROGRESS)
        return CRT_OK;
    if (status != CRT_OK)
        return crt_raise(status, "%s: %s", s->address, crt_error_detail());
    crti_loop_cancel(s->loop, &s->deadline);
    set_state(s, CRTI_STREAM_OPEN);
    if (listener) {
        s->listener = NULL;
        wait_for_first_message(s);
        crti_stream_listener_opened(listener, s);
    } else if (s->handlers.on_open) {
        s->handlers.on_open(s->handlers.user, s);
    }
    return CRT_OK;
}

/* It can't be written to any more; what the peer said before that is here. */
static void last_words(crti_stream_t *s)
{
    char text[512];

    snprintf(text, sizeof(text), "%s", crt_error_detail());
    receive(s);
    crt_error_set_detail("%s", text);
}

static crt_status_t finish_closing(crti_stream_t *s)
{
    if (s->state == CRTI_STREAM_CLOSING && crti_list_is_empty(&s->out)) {
        crt_status_t status = crti_tls_shutdown(s->tls);

        if (status < 0)
            return status;
        if (status == CRT_OK) {
            set_state(s, CRTI_STREAM_LINGER);
            shutdown(s->fd, SHUT_WR);
            crti_loop_start(s->loop, &s->deadline,
                            crti_loop_now(s->loop) + LINGER_MS * CRTI_MS);
        }
    }
    return swallow(s);
}

static void tell_drained(crti_stream_t *s)
{
    if (!s->has_filled || s->state != CRTI_STREAM_OPEN || crti_stream_queued(s))
        return;
    s->has_filled = false;
    if (s->handlers.on_drained)
        s->handlers.on_drained(s->handlers.user, s);
}

/* Does whatever can be done now. */
static void work(crti_stream_t *s, bool readable)
{
    crt_status_t status = CRT_OK;

    s->depth++;
    if (s->state == CRTI_STREAM_CONNECTING)
        status = connected(s);
    if (status == CRT_OK && s->state == CRTI_STREAM_HANDSHAKE)
        status = shake(s);
    if (status == CRT_OK && s->state == CRTI_STREAM_OPEN && readable)
        status = receive(s);
    if (status == CRT_OK &&
        (s->state == CRTI_STREAM_OPEN || s->state == CRTI_STREAM_CLOSING)) {
        status = flush(s);
        if (status == CRT_ERR_IO && s->state == CRTI_STREAM_OPEN)
            last_words(s);
    }
    if (status == CRT_OK)
        tell_drained(s);
    if (status == CRT_OK &&
        (s->state == CRTI_STREAM_CLOSING || s->state == CRTI_STREAM_LINGER))
        status = finish_closing(s);
    if (status != CRT_OK)
        fail(s, status);
    update_events(s);
    if (--s->depth == 0 && s->freed)
        release(s);
}

void crti_stream_push(crti_stream_t *s)
{
    crt_status_t status;

    /* Inside a handler all of it leaves at its end. */
    if (s->state != CRTI_STREAM_OPEN || s->depth ||
        (s->watch.added && s->watch.events & EPOLLOUT))
        return;
    s->depth++;
    status = flush(s);
    if (status != CRT_OK)
        crti_stream_kick(s);
    else if (s->state == CRTI_STREAM_OPEN && !s->more && crti_list_is_empty(&s->out) &&
             !s->handlers.on_drained)
        crti_loop_cancel(s->loop, &s->kick);
    update_events(s);
    if (--s->depth == 0 && s->freed)
        release(s);
}

static void on_ready(void *user, uint32_t events)
{
    work(user, (events & ~(uint32_t)EPOLLOUT) != 0);
}

static void on_kick(void *user)
{
    crti_stream_t *s = user;

    if (s->state >= CRTI_STREAM_OPEN)
        work(s, s->more);
}

/* Of who came to a listener: the loop had other things to do in the meantime, and goes on
 * waiting. */
static bool goes_on(crti_stream_t *s)
{
    uint64_t limit = s->timeout_ms * CRTI_MS, now = crti_loop_now(s->loop), idle;

    if (!s->is_unheard && (s->state != CRTI_STREAM_HANDSHAKE || !s->listener))
        return false;
    idle = crti_loop_idle(s->loop) - s->since_idle;
    return idle < limit && now < s->since_ns + BUSY_LIMIT * limit &&
           crti_loop_start(s->loop, &s->deadline, now + limit - idle + CRTI_MS) == CRT_OK;
}

static void on_deadline(void *user)
{
    crti_stream_t *s = user;
    crt_status_t status;

    if (goes_on(s))
        return;
    s->depth++;
    if (s->state == CRTI_STREAM_LINGER || s->timeout_ms == 0)
        status = crt_raise(CRT_ERR_CLOSED, "closed");
    else if (s->state == CRTI_STREAM_CONNECTING)
        status = crt_raise(CRT_ERR_TIMED_OUT, "no answer from %s within %llu ms",
                           s->address, (unsigned long long)s->timeout_ms);
    else
        status = crt_raise(CRT_ERR_TIMED_OUT, "%s did not %s within %llu ms", s->address,
                           s->state == CRTI_STREAM_HANDSHAKE ? "finish the handshake"
                                                             : "say who it is",
                           (unsigned long long)s->timeout_ms);
    fail(s, status);
    if (--s->depth == 0 && s->freed)
        release(s);
}

/* ---------------------------------------------------------------- making one */

crt_status_t crti_stream_new(crti_loop_t *loop, crti_stream_context_t *context,
                             int *fd_take, bool is_server, uint64_t timeout_ms,
                             crti_stream_t **stream_out)
{
    crti_stream_t *s = calloc(1, sizeof(*s));
    crt_status_t status;

    if (s == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "stream");
    crti_list_init(&s->link);
    crti_list_init(&s->out);
    s->loop = loop;
    s->fd = -1;
    s->timeout_ms = timeout_ms;
    s->state = is_server ? CRTI_STREAM_HANDSHAKE : CRTI_STREAM_CONNECTING;
    s->watch = (crti_watch_t){.on_ready = on_ready, .user = s};
    s->deadline = (crti_timer_t){.on_expired = on_deadline, .user = s};
    s->kick = (crti_timer_t){.on_expired = on_kick, .user = s};
    status = crti_tls_new(context->tls, *fd_take, is_server, &s->tls);
    if (status == CRT_OK)
        status = crti_loop_add(loop, &s->watch, *fd_take, is_server ? EPOLLIN : EPOLLOUT);
    if (status == CRT_OK)
        status =
            crti_loop_start(loop, &s->deadline, crti_now_ns() + timeout_ms * CRTI_MS);
    if (status != CRT_OK) {
        crti_stream_free(s);
        return status;
    }
    s->fd = crti_take_fd(fd_take);
    crti_stream_tune(s->fd);
    *stream_out = s;
    return CRT_OK;
}

void crti_stream_close(crti_stream_t *stream)
{
    switch (stream->state) {
    case CRTI_STREAM_OPEN:
        set_state(stream, CRTI_STREAM_CLOSING);
        if (stream->is_unheard)
            crti_loop_cancel(stream->loop, &stream->deadline);
        stream->is_unheard = false;
        stream->payload = NULL;
        crti_stream_kick(stream);
        break;
    case CRTI_STREAM_CONNECTING:
    case CRTI_STREAM_HANDSHAKE:
        stream->timeout_ms = 0;
        crti_loop_start(stream->loop, &stream->deadline, 0);
        break;
    default: break;
    }
}

uint64_t crti_stream_received(const crti_stream_t *stream)
{
    return stream->received;
}

size_t crti_stream_queued(const crti_stream_t *stream)
{
    return stream->queued + (stream->tls ? crti_tls_pending(stream->tls) : 0);
}

void crti_stream_set_handlers(crti_stream_t *stream,
                              const crti_stream_handlers_t *handlers)
{
    stream->handlers = *handlers;
}

const char *crti_stream_peer_address(const crti_stream_t *stream)
{
    return stream->address;
}
