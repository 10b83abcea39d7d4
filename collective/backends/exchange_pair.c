/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two members, over links. See exchange.h.
 *
 * A send is offered at once. A small one comes with its bytes, as long as there is room for them at
 * the receiver, where they wait for their receive; the bytes of a large one follow when it is
 * taken, and it has ended when they are there. So a small send ends at once, and memory stays
 * bounded. All messages go on whenever the loop turns, whatever waits for it.
 *
 * Waiting
 *     A member that waits for one message only, and for longer than a moment, says so to the other
 *     (GROUP_WAITS). While two wait for their sends to be taken, each takes in what the other waits
 *     for, into memory of its own. Who waits for that member in an operation of the whole group, or
 *     to receive from it, would wait for ever: the calls of the two differ, which is said at once.
 * Read ahead
 *     Messages of an operation that has not begun here wait in the kernel: the stream is held, and
 *     memory is taken for none of them. But while messages between two are on their way, what these
 *     need may come behind: then they are read and kept here. That is what the sender had on its
 *     way, no more, since bytes and receipts of messages go before others there. Of a sender from
 *     which more comes the calls differ.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "collective/backends/exchange_int.h"

#define EAGER      ((size_t)32 << 10)
#define EAGER_ROOM ((size_t)1 << 20) /* of one member */
#define OFFERS     ((size_t)1 << 20) /* of one member, without bytes */
#define SOON_NS    ((uint64_t)50000) /* about what it takes to be woken */
#define SAY_NS     CRTI_MS
#define AHEAD                                                                            \
    ((size_t)32 << 20)         /* for one member: more than the kernel and streams take */
#define SETTLE_NS (1 * CRTI_S) /* for what was sent to be received before we leave */

static size_t bytes_of(const crti_msg_group_offer_t *m)
{
    size_t element = crt_dtype_size((crt_dtype_t)m->dtype);

    return element && m->count <= SIZE_MAX / element ? m->count * element : SIZE_MAX;
}

static void finish(crti_exchange_t *x, crti_pair_t *pair)
{
    crti_list_remove(&pair->link);
    if (x->group->linked.pending)
        x->group->linked.pending--;
    atomic_store_explicit(&pair->is_done, true, memory_order_release);
    crti_group_message_ended(x->group);
}

static crti_pair_t *first_of(crti_list_t *pairs)
{
    return crti_list_is_empty(pairs) ? NULL
                                     : CRTI_CONTAINER(pairs->next, crti_pair_t, link);
}

/* What the member called, for the text of an error. */
static crti_msg_group_data_t call_of(const crti_exchange_t *x,
                                     const crti_msg_group_offer_t *m)
{
    return (crti_msg_group_data_t){.kind = CRT_COLLECTIVE_SEND,
                                   .sequence = m->sequence,
                                   .dtype = m->dtype,
                                   .count = m->count,
                                   .peer = x->group->rank};
}

/* ---------------------------------------------------------------- sending */

static void look_at_unflushed(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    crti_stream_t *stream = crti_links_stream(x->links, peer->rank);

    while (stream && !crti_list_is_empty(&peer->unflushed) &&
           crti_stream_queued(stream) == 0)
        finish(x, first_of(&peer->unflushed));
}

static crt_status_t offer(crti_peer_queue_t *peer, crti_stream_t *stream,
                          crti_pair_t *pair, crti_offered_t *offered)
{
    crti_msg_group_offer_t m = {
        .sequence = pair->number, .dtype = pair->dtype, .count = pair->count};
    bool is_eager = pair->bytes <= EAGER && peer->eager_out + pair->bytes <= EAGER_ROOM;
    crt_status_t status;

    m.length = is_eager ? pair->bytes : 0;
    status =
        crti_stream_send_copy(stream, CRTI_MSG_GROUP_OFFER, 0, &m, pair->input, m.length);
    if (status != CRT_OK)
        return status;
    offered->number = pair->number;
    offered->eager = m.length;
    offered->pair = is_eager ? NULL : pair;
    peer->eager_out += m.length;
    crti_list_append(&peer->offered, &offered->link);
    crti_list_remove(&pair->link);
    crti_list_append(is_eager ? &peer->unflushed : &peer->placed, &pair->link);
    return CRT_OK;
}

void crti_exchange_pair_offer(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    crti_stream_t *stream = crti_links_stream(x->links, peer->rank);
    crt_status_t status = CRT_OK;

    if (stream == NULL || crti_list_is_empty(&peer->sends))
        return;
    while (status == CRT_OK && !crti_list_is_empty(&peer->sends)) {
        crti_offered_t *offered = calloc(1, sizeof(*offered));

        if (offered == NULL) {
            crti_group_fail(x->group, CRT_ERR_NO_MEMORY, x->group->rank,
                            "out of memory at rank %d", x->group->rank);
            return;
        }
        crti_list_init(&offered->link);
        status = offer(peer, stream, first_of(&peer->sends), offered);
        if (status != CRT_OK)
            free(offered);
    }
    if (status != CRT_OK && status != CRT_ERR_BACKPRESSURE && status != CRT_ERR_CLOSED)
        crti_group_fail(x->group, CRT_ERR_IO, peer->rank, "to rank %d: %s", peer->rank,
                        crt_error_detail());
    crti_stream_push(stream);
    look_at_unflushed(x, peer);
}

static crti_offered_t *find_offered(crti_peer_queue_t *peer, uint64_t number)
{
    CRTI_LIST_FOREACH (item, &peer->offered) {
        crti_offered_t *o = CRTI_CONTAINER(item, crti_offered_t, link);

        if (o->number == number)
            return o;
    }
    return NULL;
}

/* Of a small one, that it was received; of a large one, first that its bytes may come, then that
 * they have. */
static void on_taken(crti_exchange_t *x, crti_peer_queue_t *peer, uint64_t number)
{
    crti_offered_t *o = find_offered(peer, number);

    if (o == NULL) {
        crti_exchange_nonsense(x, peer->rank, "a receipt of nothing");
        return;
    }
    if (o->pair && !o->is_going) {
        o->is_going = true;
        crti_exchange_send_pair(x, peer, o->pair);
        return;
    }
    if (o->pair && !o->has_left) {
        crti_exchange_nonsense(x, peer->rank, "a receipt of what was not sent");
        return;
    }
    if (o->pair)
        finish(x, o->pair);
    peer->eager_out -= o->eager;
    crti_list_remove(&o->link);
    free(o);
}

void crti_exchange_pair_sent(crti_exchange_t *x, crti_pair_t *pair)
{
    crti_offered_t *o = find_offered(&x->peers[pair->rank], pair->number);

    if (o)
        o->has_left = true;
}

bool crti_exchange_pair_is_busy(const crti_peer_queue_t *peer)
{
    return !crti_list_is_empty(&peer->sends) || !crti_list_is_empty(&peer->unflushed) ||
           !crti_list_is_empty(&peer->placed) || !crti_list_is_empty(&peer->receives) ||
           !crti_list_is_empty(&peer->arriving);
}

/* ---------------------------------------------------------------- receiving */

static void free_offer(crti_peer_queue_t *peer, crti_offer_t *o)
{
    crti_list_remove(&o->link);
    peer->eager_in -= o->message.length;
    peer->offer_count--;
    free(o->data);
    free(o);
}

static crti_offer_t *first_offer(crti_peer_queue_t *peer)
{
    return crti_list_is_empty(&peer->offers)
               ? NULL
               : CRTI_CONTAINER(peer->offers.next, crti_offer_t, link);
}

static void say_taken(crti_exchange_t *x, crti_peer_queue_t *peer, uint64_t number)
{
    crti_msg_group_taken_t taken = {.sequence = number};
    crti_stream_t *stream = crti_links_stream(x->links, peer->rank);

    if (stream == NULL) /* it left, but its bytes may be here */
        return;
    if (crti_stream_send(stream, CRTI_MSG_GROUP_TAKEN, 0, &taken) != CRT_OK)
        crti_group_fail(x->group, CRT_ERR_IO, peer->rank, "to rank %d: %s", peer->rank,
                        crt_error_detail());
    crti_stream_push(stream);
}

/* The bytes of a large one may come now, into the memory of `pair`. */
static void let_come(crti_exchange_t *x, crti_peer_queue_t *peer, crti_pair_t *pair)
{
    crti_list_remove(&pair->link);
    crti_list_append(&peer->arriving, &pair->link);
    pair->at = 0;
    say_taken(x, peer, pair->number);
}

static bool is_large(const crti_offer_t *o)
{
    return o->message.length == 0 && bytes_of(&o->message) > 0;
}

/* The first offer and the first receive. False: it is not whole yet. */
static bool receive(crti_exchange_t *x, crti_peer_queue_t *peer, crti_pair_t *pair,
                    crti_offer_t *o)
{
    bool was_taken = o->is_taken;

    if (o->message.dtype != pair->dtype || o->message.count != pair->count) {
        crti_msg_group_data_t mine = crti_exchange_pair_header(pair),
                              theirs = call_of(x, &o->message);

        crti_exchange_mismatch(x, peer->rank, &mine, &theirs);
        return false;
    }
    if (was_taken ? !o->pair.is_done : !o->is_here)
        return false;
    if (is_large(o) && !was_taken) {
        free_offer(peer, o);
        let_come(x, peer, pair);
        return true;
    }
    if (pair->bytes)
        memcpy(pair->output, o->data, pair->bytes);
    free_offer(peer, o);
    if (!was_taken)
        say_taken(x, peer, pair->number);
    finish(x, pair);
    return true;
}

static void match(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    crti_pair_t *pair;
    crti_offer_t *o;

    while ((pair = first_of(&peer->receives)) && (o = first_offer(peer)) &&
           receive(x, peer, pair, o))
        continue;
}

static void on_offer(crti_exchange_t *x, crti_peer_queue_t *peer, crti_stream_t *stream,
                     const crti_msg_group_offer_t *m)
{
    size_t bytes = bytes_of(m);
    crti_offer_t *o;

    if (m->sequence != peer->offers_seen + 1 || bytes == SIZE_MAX ||
        (m->length && (m->length != bytes || bytes > EAGER)) ||
        peer->eager_in + m->length > EAGER_ROOM || peer->offer_count == OFFERS) {
        crti_exchange_nonsense(x, peer->rank, "an offer out of turn");
        return;
    }
    o = calloc(1, sizeof(*o));
    if (o && m->length)
        o->data = malloc(m->length);
    if (o == NULL || (m->length && o->data == NULL)) {
        free(o);
        crti_group_fail(x->group, CRT_ERR_NO_MEMORY, x->group->rank,
                        "out of memory at rank %d", x->group->rank);
        return;
    }
    o->message = *m;
    o->is_here = m->length == 0;
    crti_list_init(&o->pair.link);
    crti_list_append(&peer->offers, &o->link);
    peer->eager_in += m->length;
    peer->offer_count++;
    peer->offers_seen++;
    if (m->length)
        crti_stream_receive(stream, o->data);
    match(x, peer);
}

void crti_exchange_pair_data(crti_exchange_t *x, crti_peer_queue_t *peer,
                             crti_stream_t *stream, const crti_msg_group_data_t *m)
{
    crti_pair_t *pair = first_of(&peer->arriving);

    if (!pair || m->sequence != pair->number || m->length == 0 ||
        m->length > pair->bytes - pair->at) {
        crti_exchange_nonsense(x, peer->rank, "bytes of a send that was not taken");
        return;
    }
    peer->current_pair = pair;
    crti_stream_receive(stream, (char *)pair->output + pair->at);
}

void crti_exchange_pair_payload(crti_exchange_t *x, crti_peer_queue_t *peer, size_t size)
{
    crti_pair_t *pair = peer->current_pair;

    peer->current_pair = NULL;
    if (pair) {
        pair->at += size;
        if (pair->at == pair->bytes) {
            say_taken(x, peer, pair->number);
            finish(x, pair);
        }
    } else if (!crti_list_is_empty(&peer->offers)) {
        /* The last: nothing follows on a stream before a payload is complete. */
        CRTI_CONTAINER(peer->offers.prev, crti_offer_t, link)->is_here = true;
    }
    match(x, peer);
}

/* ---------------------------------------------------------------- read ahead */

static crti_ahead_t *first_ahead(crti_peer_queue_t *peer)
{
    return CRTI_CONTAINER(peer->ahead.next, crti_ahead_t, link);
}

static void keep(crti_exchange_t *x, crti_peer_queue_t *peer, crti_stream_t *stream,
                 const crti_msg_group_data_t *m)
{
    crti_ahead_t *a =
        m->length <= CRTI_EXCHANGE_PIECE ? malloc(sizeof(*a) + m->length) : NULL;

    if (!a) {
        crti_group_fail(x->group, CRT_ERR_NO_MEMORY, x->group->rank,
                        "rank %d: no memory for %llu bytes of rank %d", x->group->rank,
                        (unsigned long long)m->length, peer->rank);
        return;
    }
    peer->ahead_bytes += m->length;
    a->message = *m;
    a->is_here = m->length == 0;
    crti_list_init(&a->link);
    crti_list_append(&peer->ahead, &a->link);
    if (m->length)
        crti_stream_receive(stream, a->data);
}

void crti_exchange_set_aside(crti_exchange_t *x, crti_peer_queue_t *peer,
                             crti_stream_t *stream, const crti_msg_group_data_t *m)
{
    if (crti_exchange_pair_is_busy(peer) && peer->ahead_bytes <= AHEAD) {
        keep(x, peer, stream, m);
        return;
    }
    if (crti_exchange_pair_needs(x, peer->rank)) {
        crti_msg_group_data_t mine = crti_exchange_pair_header(x->group->awaits[0]);

        crti_exchange_mismatch(x, peer->rank, &mine, m);
        return;
    }
    peer->held = *m;
    peer->is_held = true;
    crti_stream_hold(stream);
}

void crti_exchange_read_ahead(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    crti_stream_t *stream = crti_links_stream(x->links, peer->rank);

    if (!peer->is_held || stream == NULL)
        return;
    peer->is_held = false;
    keep(x, peer, stream, &peer->held);
    crti_stream_resume(stream);
}

bool crti_exchange_ahead_payload(crti_peer_queue_t *peer)
{
    crti_ahead_t *last = CRTI_CONTAINER(peer->ahead.prev, crti_ahead_t, link);

    if (crti_list_is_empty(&peer->ahead) || last->is_here)
        return false;
    last->is_here = true;
    return true;
}

void crti_exchange_take_ahead(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    while (!crti_list_is_empty(&peer->ahead) && first_ahead(peer)->is_here) {
        crti_ahead_t *a = first_ahead(peer);
        crti_incoming_t *in;

        if (crti_exchange_judge(x, peer, &a->message) != CRTI_TAKE)
            return;
        if (a->message.length) {
            in = CRTI_CONTAINER(peer->incoming.next, crti_incoming_t, link);
            peer->came_to = a->message.sequence + 1;
            memcpy(in->data + in->got, a->data, a->message.length);
            in->got += a->message.length;
            if (in->got == in->size)
                crti_list_remove(&in->link);
        }
        peer->ahead_bytes -= a->message.length;
        crti_list_remove(&a->link);
        free(a);
    }
}

/* ---------------------------------------------------------------- who waits for whom */

/* Also when it goes by shared memory. */
static const crti_pair_t *only_awaited(const crti_exchange_t *x)
{
    return x->group->await_count == 1 ? x->group->awaits[0] : NULL;
}

static void absorb_one(crti_exchange_t *x, crti_peer_queue_t *peer, crti_offer_t *o)
{
    size_t bytes = bytes_of(&o->message);

    o->data = malloc(bytes);
    if (o->data == NULL) {
        crti_group_fail(x->group, CRT_ERR_NO_MEMORY, x->group->rank,
                        "rank %d: no memory for %zu bytes that rank %d sends and waits "
                        "for to be received",
                        x->group->rank, bytes, peer->rank);
        return;
    }
    o->is_taken = true;
    o->pair =
        (crti_pair_t){.output = o->data, .bytes = bytes, .number = o->message.sequence};
    crti_list_init(&o->pair.link);
    x->group->linked.pending++;
    let_come(x, peer, &o->pair);
}

/* Takes in what that member waits for to be received, while we wait likewise. */
static void absorb(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    const crti_pair_t *own = only_awaited(x);

    if (!own || !own->is_send || peer->waits.kind != CRT_COLLECTIVE_SEND ||
        !crti_list_is_empty(&peer->receives))
        return;
    CRTI_LIST_FOREACH (item, &peer->offers) {
        crti_offer_t *o = CRTI_CONTAINER(item, crti_offer_t, link);

        if (o->message.sequence <= peer->waits.sequence && is_large(o) && !o->is_taken)
            absorb_one(x, peer, o);
    }
}

void crti_exchange_pair_check(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    const crti_msg_group_waits_t *w = &peer->waits;
    const crti_pair_t *own = only_awaited(x);
    bool in_operation = x->is_running && x->group->running > w->done;
    bool receives = own && !own->is_send && own->rank == peer->rank &&
                    own->number > peer->offers_seen; /* else it is on its way */
    uint64_t called =
        w->kind == CRT_COLLECTIVE_SEND ? peer->receives_posted : peer->sends_posted;
    crti_msg_group_data_t mine,
        theirs = {.kind = w->kind, .sequence = w->sequence, .peer = x->group->rank};

    absorb(x, peer);
    if (w->kind == 0 || called >= w->sequence ||
        !(in_operation || (receives && w->kind == CRT_COLLECTIVE_RECV)))
        return;
    mine = own ? crti_exchange_pair_header(own) : crti_exchange_header(x);
    crti_exchange_mismatch(x, peer->rank, &mine, &theirs);
}

static void on_waits(crti_exchange_t *x, crti_peer_queue_t *peer,
                     const crti_msg_group_waits_t *m)
{
    if (m->kind != CRT_COLLECTIVE_SEND && m->kind != CRT_COLLECTIVE_RECV) {
        crti_exchange_nonsense(x, peer->rank, "a wait for nothing");
        return;
    }
    peer->waits = *m;
    crti_exchange_pair_check(x, peer);
}

static void say_waits(crti_exchange_t *x, const crti_pair_t *pair)
{
    crti_stream_t *stream = crti_links_stream(x->links, pair->rank);
    crti_msg_group_waits_t m = {.kind = pair->is_send ? CRT_COLLECTIVE_SEND
                                                      : CRT_COLLECTIVE_RECV,
                                .sequence = pair->number,
                                .done = x->group->done};

    if (stream && crti_stream_send(stream, CRTI_MSG_GROUP_WAITS, 0, &m) == CRT_OK)
        crti_stream_push(stream);
}

void crti_exchange_pair_message(crti_exchange_t *x, crti_peer_queue_t *peer,
                                crti_stream_t *stream, const crti_message_t *message)
{
    switch (message->kind) {
    case CRTI_MSG_GROUP_OFFER: on_offer(x, peer, stream, &message->group_offer); break;
    case CRTI_MSG_GROUP_WAITS: on_waits(x, peer, &message->group_waits); break;
    default: on_taken(x, peer, message->group_taken.sequence); break;
    }
}

/* ---------------------------------------------------------------- from post to end */

crt_status_t crti_exchange_post(crti_exchange_t *x, crti_pair_t *pair)
{
    crti_peer_queue_t *peer = &x->peers[pair->rank];

    pair->number = pair->is_send ? ++peer->sends_posted : ++peer->receives_posted;
    crti_list_append(pair->is_send ? &peer->sends : &peer->receives, &pair->link);
    x->group->linked.pending++;
    if (pair->is_send) {
        if (!crti_links_lost(x->links, pair->rank))
            crti_links_want(x->links, pair->rank);
        crti_exchange_pair_offer(x, peer);
    } else {
        match(x, peer);
    }
    if (!pair->is_done)
        crti_exchange_read_ahead(x, peer);
    return crti_group_failed(x->group) == CRT_OK
               ? CRT_OK
               : crti_exchange_give_up(x, crti_group_failed(x->group));
}

static void go_on(crti_exchange_t *x)
{
    for (int i = 0; i < x->group->size; i++) {
        crti_exchange_pair_offer(x, &x->peers[i]);
        look_at_unflushed(x, &x->peers[i]);
    }
}

crt_status_t crti_exchange_progress(crti_exchange_t *x)
{
    crt_status_t status = crti_links_turn(x->links, 0);

    go_on(x);
    return status == CRT_OK ? CRT_OK : crti_exchange_give_up(x, status);
}

bool crti_exchange_pair_has_come(const crti_exchange_t *x)
{
    for (int i = 0; i < x->group->await_count; i++)
        if (x->group->awaits[i]->is_done)
            return true;
    return false;
}

bool crti_exchange_pair_needs(const crti_exchange_t *x, int rank)
{
    for (int i = 0; i < x->group->await_count; i++)
        if (x->is_awaiting && x->group->awaits[i]->rank == rank &&
            !x->group->awaits[i]->is_done)
            return true;
    return false;
}

/* What is small comes soon. */
static crt_status_t look_soon(crti_exchange_t *x)
{
    uint64_t end = crti_now_ns() + SOON_NS;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && x->lost < 0 && !crti_exchange_pair_has_come(x) &&
           crti_now_ns() < end) {
        status = crti_exchange_turn_until(x, 0);
        go_on(x);
        if (status == CRT_OK && !crti_exchange_pair_has_come(x))
            sched_yield();
    }
    return status;
}

static void begin_await(crti_exchange_t *x, uint64_t deadline_ns)
{
    x->call = (crti_exchange_call_t){.deadline_ns = deadline_ns};
    x->is_awaiting = true;
    x->tell_at_ns = UINT64_MAX; /* who serves others may wait for days */
    x->lost = -1;
    for (int i = 0; i < x->group->await_count; i++)
        if (!x->group->awaits[i]->is_done && x->peers[x->group->awaits[i]->rank].x)
            crti_exchange_use(x, x->group->awaits[i]->rank);
    for (int i = 0; i < x->group->size; i++)
        crti_exchange_pair_check(x, &x->peers[i]);
}

crt_status_t crti_exchange_await(crti_exchange_t *x, uint64_t deadline_ns)
{
    uint64_t say_ns = crti_now_ns() + SAY_NS;
    bool has_said = false;
    crt_status_t status;

    begin_await(x, deadline_ns);
    status = look_soon(x);
    while (status == CRT_OK && !crti_exchange_pair_has_come(x)) {
        const crti_pair_t *only = only_awaited(x);

        if (only && !has_said && crti_now_ns() >= say_ns) {
            has_said = true;
            say_waits(x, only);
        }
        status = crti_exchange_turn_until(x, has_said || !only ? UINT64_MAX : say_ns);
        go_on(x);
    }
    x->is_awaiting = false;
    return status;
}

/* ---------------------------------------------------------------- the end */

static void drop(crti_list_t *pairs)
{
    while (crti_list_pop(pairs))
        continue;
}

void crti_exchange_pair_forget(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    crti_list_t *item;

    drop(&peer->sends);
    drop(&peer->unflushed);
    drop(&peer->placed);
    drop(&peer->receives);
    drop(&peer->arriving);
    peer->current_pair = NULL;
    peer->ahead_bytes = 0;
    while ((item = crti_list_pop(&peer->offered)))
        free(CRTI_CONTAINER(item, crti_offered_t, link));
    while ((item = crti_list_pop(&peer->ahead)))
        free(CRTI_CONTAINER(item, crti_ahead_t, link));
    while (!crti_list_is_empty(&peer->offers))
        free_offer(peer, first_offer(peer));
}

void crti_exchange_pair_settle(crti_exchange_t *x)
{
    uint64_t until = crti_now_ns() + SETTLE_NS;
    crt_status_t status = crti_group_failed(x->group);

    for (int i = 0; i < x->group->size; i++)
        while (status == CRT_OK && !crti_list_is_empty(&x->peers[i].offered) &&
               !crti_links_lost(x->links, i) && crti_now_ns() < until)
            status = crti_links_turn(x->links, until);
}
