/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: connections between hosts, in order; late while the hosts are cut off from each other,
 * broken when that lasts (runtime/net/stream_listener.c sets the same times), or when a router or a
 * process dies. See system.h and runtime/net/stream.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/system.h"

#define USER_TIMEOUT (10 * CRTI_S) /* of TCP: unacknowledged data, unanswered probes */

typedef struct packet {
    crti_list_t link;
    uint64_t due;
    bool is_end;
    crti_buffer_t bytes;
    unsigned char *payload;
    size_t size;
} packet_t;

struct crti_stream {
    sys_process_t *owner;
    crti_loop_t *loop;
    crti_stream_t *other;
    crti_stream_handlers_t handlers;
    unsigned host, peer_host;
    char address[CRTI_STREAM_ADDRESS];
    bool is_open, is_closed, is_over; /* closed here; over: on_closed was called */
    bool is_pumping;
    crti_list_t inbox; /* packet_t on their way to this end, in order */
    uint64_t arrival, deadline;
    crti_list_t unsent; /* before it is open */
    void *place;        /* of the payload in progress */
    uint64_t received;
};

struct crti_stream_listener {
    sys_process_t *owner;
    crti_loop_t *loop;
    char address[CRTI_STREAM_ADDRESS];
    uint16_t port;
    bool is_open;
    crti_stream_accept_t *on_accept;
    void *user;
};

static crti_stream_t **streams;
static size_t stream_count, stream_room;
static crti_stream_listener_t *listeners[SYS_PROCESSES * 2];
static unsigned listener_count;
static uint16_t last_port = 7000;

static void pump(void *user, uint64_t number);

/* ---------------------------------------------------------------- addresses */

static const char *ip_of(unsigned host, char text[64])
{
    snprintf(text, 64, "10.0.0.%u", host + 1);
    return text;
}

static unsigned host_of(const char *address)
{
    unsigned host = 0;

    sscanf(address, "10.0.0.%u", &host);
    return host - 1;
}

static bool is_cut(unsigned a, unsigned b)
{
    return a != b && sim_network_is_cut(&sys->net, a, b);
}

static uint64_t cut_end(unsigned a, unsigned b)
{
    return sys->net.cut_until[a < b ? a * SYS_PLACES + b : b * SYS_PLACES + a];
}

/* ---------------------------------------------------------------- ends */

static crti_stream_t *new_stream(sys_process_t *owner, crti_loop_t *loop, unsigned host,
                                 unsigned peer_host)
{
    crti_stream_t *s = calloc(1, sizeof(*s));

    if (!s)
        abort();
    if (stream_count == stream_room) {
        stream_room = stream_room ? stream_room * 2 : 256;
        streams = realloc(streams, stream_room * sizeof(crti_stream_t *));
        if (!streams)
            abort();
    }
    streams[stream_count++] = s;
    s->owner = owner;
    s->loop = loop;
    s->host = host;
    s->peer_host = peer_host;
    crti_list_init(&s->inbox);
    crti_list_init(&s->unsent);
    return s;
}

typedef struct ending {
    crti_stream_t *stream;
    crt_status_t status;
    const char *text;
} ending_t;

static void tell_end(void *user, uint64_t number)
{
    const ending_t *e = user;
    crti_stream_t *s = e->stream;

    if (s->is_over || (s->is_closed && e->status != CRT_OK))
        return;
    s->is_over = s->is_closed = true;
    s->handlers.on_closed(s->handlers.user, s,
                          e->status == CRT_OK ? CRT_ERR_CLOSED : e->status, e->text);
}

static void on_end(void *user, uint64_t number)
{
    sys_run(((ending_t *)user)->stream->owner, tell_end, user, 0);
}

/* The end hears of it, after a while. */
static void end_later(crti_stream_t *s, crt_status_t status, const char *text,
                      uint64_t delay)
{
    ending_t *e = calloc(1, sizeof(*e));

    if (!e)
        abort();
    *e = (ending_t){s, status, text};
    sim_after(sys->world, delay, on_end, e, 0);
}

/* Each end hears of it within so much time; it may have made the next connection by then. */
static void break_stream(crti_stream_t *s, const char *text, uint64_t here,
                         uint64_t there)
{
    crti_stream_t *other = s->other;

    crti_list_init(&s->inbox); /* what is under way is lost */
    crti_list_init(&other->inbox);
    s->other = other->other = NULL;
    if (!s->is_closed)
        end_later(s, CRT_ERR_IO, text, sim_below(sys->world, here));
    if (!other->is_closed)
        end_later(other, CRT_ERR_IO, text, sim_below(sys->world, there));
}

/* ---------------------------------------------------------------- packets */

static void enqueue(crti_stream_t *from, packet_t *p)
{
    crti_stream_t *to = from->other;
    sim_world_t *w = sys->world;
    uint64_t at =
        w->now + (from->host == from->peer_host
                      ? sim_between(w, 10000, 60000)
                      : sys->net.law.delay + sim_below(w, sys->net.law.jitter + 1));

    if (!to)
        return;
    at += p->size / 2; /* 2 GB/s */
    if (at < to->arrival)
        at = to->arrival;
    to->arrival = p->due = at;
    crti_list_append(&to->inbox, &p->link);
    if (to->inbox.next == &p->link)
        sim_after(w, at - w->now, pump, to, 0);
}

static void take(void *user, uint64_t number)
{
    crti_stream_t *s = user;
    packet_t *p = CRTI_CONTAINER(crti_list_pop(&s->inbox), packet_t, link);
    crti_message_t m;

    if (s->is_closed)
        return;
    if (p->is_end) {
        ending_t e = {s, CRT_ERR_CLOSED, "the peer closed"};

        tell_end(&e, 0);
        return;
    }
    if (crti_message_decode(p->bytes.data, p->bytes.size, &m) != CRT_OK) {
        sim_fail(sys->world, "stream: %s", crt_error_detail());
        return;
    }
    sim_note(sys->world, "  pid %d on %u <- %u: %s %llu", (int)s->owner->pid, s->host,
             s->peer_host, crti_message_name(m.kind), (unsigned long long)m.request);
    s->place = NULL;
    s->received += p->bytes.size + p->size;
    if (s->handlers.on_message)
        s->handlers.on_message(s->handlers.user, s, &m);
    if (s->place && !s->is_closed) {
        void *place = s->place;

        s->place = NULL;
        memcpy(place, p->payload, p->size);
        s->handlers.on_payload(s->handlers.user, s, place, p->size);
    }
}

static void pump(void *user, uint64_t number)
{
    crti_stream_t *s = user;
    sim_world_t *w = sys->world;
    const packet_t *first;

    if (crti_list_is_empty(&s->inbox) || s->is_pumping)
        return;
    first = CRTI_CONTAINER(s->inbox.next, packet_t, link);
    if (is_cut(s->host, s->peer_host)) { /* TCP sends it again, later and later */
        sim_after(w,
                  cut_end(s->host, s->peer_host) - w->now + sim_below(w, 300 * CRTI_MS),
                  pump, s, 0);
        return;
    }
    if (first->due <= w->now) {
        s->is_pumping = true;
        if (s->owner->is_alive)
            sys_run(s->owner, take, s, 0);
        else
            crti_list_pop(&s->inbox);
        s->is_pumping = false;
    }
    if (!crti_list_is_empty(&s->inbox)) {
        first = CRTI_CONTAINER(s->inbox.next, packet_t, link);
        sim_after(w, first->due > w->now ? first->due - w->now : 0, pump, s, 0);
    }
}

static packet_t *new_packet(void)
{
    packet_t *p = calloc(1, sizeof(*p));

    if (!p)
        abort();
    return p;
}

static void close_end(crti_stream_t *s)
{
    packet_t *p;

    if (s->is_closed)
        return;
    s->is_closed = true;
    if (!s->other || s->other->is_closed)
        return;
    p = new_packet();
    p->is_end = true;
    enqueue(s, p);
    s->other = NULL;
}

/* ---------------------------------------------------------------- connecting */

static void opened(void *user, uint64_t number)
{
    crti_stream_t *s = user;
    crti_list_t *item;

    if (s->is_closed || !s->other)
        return;
    s->is_open = true;
    while ((item = crti_list_pop(&s->unsent)))
        enqueue(s, CRTI_CONTAINER(item, packet_t, link));
    if (s->handlers.on_open)
        s->handlers.on_open(s->handlers.user, s);
}

static void on_opened(void *user, uint64_t number)
{
    sys_run(((crti_stream_t *)user)->owner, opened, user, 0);
}

static void accepted(void *user, uint64_t number)
{
    crti_stream_listener_t *l = listeners[number];

    l->on_accept(l->user, user);
}

static crti_stream_listener_t *find_listener(const char *address, unsigned *index_out)
{
    for (unsigned i = listener_count; i-- > 0;)
        if (listeners[i]->is_open && listeners[i]->owner->is_alive &&
            strcmp(listeners[i]->address, address) == 0) {
            *index_out = i;
            return listeners[i];
        }
    return NULL;
}

static void try_connect(void *user, uint64_t number)
{
    crti_stream_t *s = user, *other;
    sim_world_t *w = sys->world;
    crti_stream_listener_t *l;
    unsigned index;

    if (s->is_closed || !s->owner->is_alive)
        return;
    if (w->now >= s->deadline) {
        end_later(s, CRT_ERR_TIMED_OUT, "the connection timed out", 0);
        return;
    }
    if (is_cut(s->host, s->peer_host)) {
        uint64_t again = cut_end(s->host, s->peer_host) - w->now + sim_below(w, CRTI_S);
        uint64_t rest = s->deadline - w->now;

        sim_after(w, again < rest ? again : rest, try_connect, s, 0);
        return;
    }
    l = find_listener(s->address, &index);
    if (!l) {
        end_later(s, CRT_ERR_UNREACHABLE, "connection refused", 0);
        return;
    }
    other = new_stream(l->owner, l->loop, s->peer_host, s->host);
    other->is_open = true;
    snprintf(other->address, sizeof(other->address), "10.0.0.%u:1", s->host + 1);
    s->other = other;
    other->other = s;
    sys_run(l->owner, accepted, other, index);
    sim_after(w, sys->net.law.delay, on_opened, s, 0);
}

crt_status_t crti_stream_connect(crti_loop_t *loop, crti_stream_context_t *context,
                                 const char *address, uint64_t timeout_ms,
                                 const crti_stream_handlers_t *handlers,
                                 crti_stream_t **stream_out)
{
    crti_stream_t *s = new_stream(sys->self, loop, sys->self->host, host_of(address));

    s->handlers = *handlers;
    snprintf(s->address, sizeof(s->address), "%s", address);
    s->deadline = sys->world->now + timeout_ms * CRTI_MS;
    *stream_out = s;
    sim_after(sys->world, sim_between(sys->world, 50000, 2 * CRTI_MS), try_connect, s, 0);
    return CRT_OK;
}

/* ---------------------------------------------------------------- what befalls them */

void sys_streams_break(unsigned a, unsigned b)
{
    uint64_t late = sim_chance(sys->world, 3000) ? 3 * CRTI_S : 5 * CRTI_MS;

    for (size_t i = 0; i < stream_count; i++) {
        crti_stream_t *s = streams[i];

        if (s->other && s->host == a && s->peer_host == b)
            break_stream(s, "the connection was reset", 5 * CRTI_MS, late);
    }
}

static void on_long_cut(void *user, uint64_t number)
{
    unsigned a = (unsigned)(number >> 8 & 255), b = (unsigned)(number & 255);

    if (!is_cut(a, b))
        return;
    for (size_t i = 0; i < stream_count; i++) {
        crti_stream_t *s = streams[i];

        if (s->other &&
            ((s->host == a && s->peer_host == b) || (s->host == b && s->peer_host == a)))
            break_stream(s, "the connection timed out", 2 * CRTI_S, 2 * CRTI_S);
    }
}

void sys_cut(unsigned a, unsigned b, uint64_t time)
{
    sim_network_cut(&sys->net, a, b, time);
    if (time > USER_TIMEOUT && a != b)
        sim_after(sys->world, USER_TIMEOUT, on_long_cut, NULL, a << 8 | b);
}

void sys_stream_owner_died(const sys_process_t *owner)
{
    for (unsigned i = 0; i < listener_count; i++)
        if (listeners[i]->owner == owner)
            listeners[i]->is_open = false;
    for (size_t i = 0; i < stream_count; i++)
        if (streams[i]->owner == owner)
            close_end(streams[i]);
}

/* ---------------------------------------------------------------- stream.h */

void crti_stream_free(crti_stream_t *s)
{
    if (s == NULL)
        return;
    close_end(s);
    s->is_over = true;
}

void crti_stream_close(crti_stream_t *s)
{
    if (s->is_closed)
        return;
    close_end(s);
    end_later(s, CRT_OK, "closed", 100000);
}

static crt_status_t send_packet(crti_stream_t *s, packet_t *p)
{
    if (s->is_closed)
        return crt_raise(CRT_ERR_CLOSED, "the stream is closed");
    if (s->is_open)
        enqueue(s, p);
    else
        crti_list_append(&s->unsent, &p->link);
    return CRT_OK;
}

crt_status_t crti_stream_send(crti_stream_t *s, crti_message_kind_t kind,
                              uint64_t request, const void *body)
{
    packet_t *p = new_packet();
    crt_status_t status = crti_message_encode(kind, request, body, &p->bytes);

    return status == CRT_OK ? send_packet(s, p) : status;
}

crt_status_t crti_stream_send_error(crti_stream_t *s, uint64_t request,
                                    crt_status_t status)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(crt_error_detail())};

    return crti_stream_send(s, CRTI_MSG_ERROR, request, &error);
}

crt_status_t crti_stream_send_bytes(crti_stream_t *s, const void *data, size_t size)
{
    packet_t *p = new_packet();

    crti_buffer_append(&p->bytes, data, size);
    return send_packet(s, p);
}

typedef struct sent {
    crti_stream_t *stream;
    crti_stream_sent_t *on_sent;
    void *user;
} sent_t;

static void tell_sent(void *user, uint64_t number)
{
    const sent_t *sent = user;

    sent->on_sent(sent->user, CRT_OK);
}

static void on_sent_later(void *user, uint64_t number)
{
    sys_run(((sent_t *)user)->stream->owner, tell_sent, user, 0);
}

crt_status_t crti_stream_send_payload(crti_stream_t *s, crti_message_kind_t kind,
                                      uint64_t request, const void *body,
                                      const void *data, crti_stream_sent_t *on_sent,
                                      void *user)
{
    packet_t *p = new_packet();
    sent_t *sent = calloc(1, sizeof(*sent));
    crt_status_t status = crti_message_encode(kind, request, body, &p->bytes);
    crti_message_t m;

    if (status != CRT_OK || !sent)
        return status;
    *sent = (sent_t){s, on_sent, user};
    crti_message_decode(p->bytes.data, p->bytes.size, &m);
    p->size = kind == CRTI_MSG_OBJECT_DATA ? m.object_data.length : 0;
    p->payload = malloc(p->size + 1);
    if (!p->payload)
        abort();
    memcpy(p->payload, data, p->size);
    status = send_packet(s, p);
    if (status == CRT_OK)
        sim_after(sys->world, 50000, on_sent_later, sent, 0);
    return status;
}

crt_status_t crti_stream_send_copy(crti_stream_t *s, crti_message_kind_t kind,
                                   uint64_t request, const void *body, const void *data,
                                   size_t size)
{
    return crti_stream_send(s, kind, request, body);
}

void crti_stream_push(crti_stream_t *s)
{
}

void crti_stream_receive(crti_stream_t *s, void *buffer)
{
    s->place = buffer;
}

void crti_stream_limit_replies(crti_stream_t *s, size_t bytes)
{
}

void crti_stream_discard(crti_stream_t *s)
{
    s->place = NULL;
}

void crti_stream_hold(crti_stream_t *s)
{
}

void crti_stream_resume(crti_stream_t *s)
{
}

size_t crti_stream_queued(const crti_stream_t *s)
{
    return 0;
}

void crti_stream_set_handlers(crti_stream_t *s, const crti_stream_handlers_t *handlers)
{
    s->handlers = *handlers;
}

const char *crti_stream_peer_address(const crti_stream_t *s)
{
    return s->address;
}

crt_status_t crti_stream_local_ip(const crti_stream_t *s, char *text, size_t size)
{
    char ip[64];

    snprintf(text, size, "%s", ip_of(s->host, ip));
    return CRT_OK;
}

crt_status_t crti_stream_resolve(const char *text, char address[CRTI_STREAM_ADDRESS])
{
    snprintf(address, CRTI_STREAM_ADDRESS, "%s", text);
    return CRT_OK;
}

crt_status_t crti_stream_context_new(const crti_key_t *key, bool encrypt,
                                     crti_stream_context_t **context_out)
{
    *context_out = NULL;
    return CRT_OK;
}

void crti_stream_context_free(crti_stream_context_t *context)
{
}

void crti_stream_context_avoid_bbr(crti_stream_context_t *context)
{
}

crt_status_t crti_stream_listen(crti_loop_t *loop, crti_stream_context_t *context,
                                const char *ip, uint16_t port,
                                crti_stream_accept_t *on_accept, void *user,
                                crti_stream_listener_t **listener_out)
{
    crti_stream_listener_t *l = calloc(1, sizeof(*l));

    if (!l)
        abort();
    l->owner = sys->self;
    l->loop = loop;
    l->port = port ? port : ++last_port;
    snprintf(l->address, sizeof(l->address), "%s:%u", ip, (unsigned)l->port);
    l->is_open = true;
    l->on_accept = on_accept;
    l->user = user;
    if (listener_count == sizeof(listeners) / sizeof(listeners[0]))
        abort();
    listeners[listener_count++] = l;
    *listener_out = l;
    return CRT_OK;
}

void crti_stream_listener_free(crti_stream_listener_t *l)
{
    if (l)
        l->is_open = false;
}

uint16_t crti_stream_listener_port(const crti_stream_listener_t *l)
{
    return l->port;
}

uint64_t crti_stream_received(const crti_stream_t *s)
{
    return s->received;
}
