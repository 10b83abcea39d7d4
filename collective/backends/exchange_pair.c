/* SPDX-License-Identifier: Apache-2.0 */
/* Send and receive of the exchange. See exchange.h.
 *
 * A send is offered. A small one comes with its bytes, which wait in memory here until they are
 * received, at most EAGER_COUNT of one member; the bytes of a large one follow when its receive
 * has begun. So a small send returns at once, and memory stays bounded.
 *
 * Failure
 *     A member that waits for its large send to be taken does nothing else. Who gets such an
 *     offer while it needs that member for another operation would wait forever: the calls
 *     of the two differ, which is said at once.
 */
#include <stdlib.h>
#include <string.h>

#include "collective/backends/exchange_int.h"

#define EAGER       ((size_t)1 << 10)
#define EAGER_COUNT 16

static size_t bytes_of(const crti_msg_group_offer_t *m)
{
    size_t element = crt_dtype_size((crt_dtype_t)m->dtype);

    return element && m->count <= SIZE_MAX / element ? m->count * element : SIZE_MAX;
}

static void free_offer(crti_peer_queue_t *peer, crti_offer_t *offer)
{
    crti_list_remove(&offer->link);
    peer->offer_count--;
    free(offer->data);
    free(offer);
}

void crti_exchange_pair_forget(crti_peer_queue_t *peer)
{
    while (!crti_list_is_empty(&peer->offers))
        free_offer(peer, CRTI_CONTAINER(peer->offers.next, crti_offer_t, link));
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

/* The running send or receive needs this member to act first. */
static bool is_stuck(const crti_exchange_t *x, int rank)
{
    return x->can_go_on && x->call.peer == rank && !x->can_go_on(&x->peers[rank]);
}

void crti_exchange_pair_check(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    bool is_sending = x->is_pair && x->call.kind == CRT_COLLECTIVE_SEND;

    if (!x->is_running || (x->is_pair && !(is_sending && is_stuck(x, peer->rank))))
        return;
    CRTI_LIST_FOREACH (item, &peer->offers) {
        const crti_offer_t *offer = CRTI_CONTAINER(item, crti_offer_t, link);
        crti_msg_group_data_t theirs = call_of(x, &offer->message);

        if (bytes_of(&offer->message) > EAGER &&
            (x->is_pair || offer->message.done <= x->call.sequence)) {
            crti_exchange_mismatch(x, peer->rank, &theirs);
            return;
        }
    }
}

static void on_offer(crti_exchange_t *x, crti_peer_queue_t *peer, crti_stream_t *stream,
                     const crti_msg_group_offer_t *m)
{
    size_t bytes = bytes_of(m);
    crti_offer_t *offer;

    if (m->sequence != peer->offers_seen || bytes == SIZE_MAX ||
        m->length != (bytes > EAGER ? 0 : bytes) || peer->offer_count > EAGER_COUNT) {
        crti_exchange_nonsense(x, peer->rank, "an offer out of turn");
        return;
    }
    offer = calloc(1, sizeof(*offer));
    if (offer && m->length)
        offer->data = malloc(m->length);
    if (offer == NULL || (m->length && offer->data == NULL)) {
        free(offer);
        crti_group_fail(x->group, CRT_ERR_NO_MEMORY, x->group->rank,
                        "out of memory at rank %d", x->group->rank);
        return;
    }
    offer->message = *m;
    offer->is_here = m->length == 0;
    crti_list_append(&peer->offers, &offer->link);
    peer->offer_count++;
    peer->offers_seen++;
    if (m->length)
        crti_stream_receive(stream, offer->data);
    crti_exchange_pair_check(x, peer);
}

void crti_exchange_pair_message(crti_exchange_t *x, crti_peer_queue_t *peer,
                                crti_stream_t *stream, const crti_message_t *message)
{
    if (message->kind == CRTI_MSG_GROUP_OFFER)
        on_offer(x, peer, stream, &message->group_offer);
    else if (message->group_taken.sequence == peer->taken && peer->taken < peer->sends)
        peer->taken++;
    else
        crti_exchange_nonsense(x, peer->rank, "a receipt of nothing");
}

void crti_exchange_pair_payload(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    /* The last: nothing follows on a stream before a payload is complete. */
    if (!crti_list_is_empty(&peer->offers))
        CRTI_CONTAINER(peer->offers.prev, crti_offer_t, link)->is_here = true;
}

bool crti_exchange_is_of_pair(crti_exchange_t *x, int rank,
                              const crti_msg_group_data_t *m)
{
    const crti_exchange_call_t *c = &x->call;

    if (m->kind == CRT_COLLECTIVE_SEND) {
        if (x->is_pair && c->kind == CRT_COLLECTIVE_RECV && c->peer == rank &&
            m->sequence == c->sequence)
            return true;
        crti_exchange_nonsense(x, rank, "bytes of a send that was not taken");
        return false;
    }
    /* A receive whose offer has come waits for its bytes only. */
    if (is_stuck(x, rank) &&
        (c->kind == CRT_COLLECTIVE_SEND || crti_list_is_empty(&x->peers[rank].offers)))
        crti_exchange_mismatch(x, rank, m);
    return false;
}

/* Waits until the member has acted: an offer has come, or our sends were taken. */
static crt_status_t wait_blocked(crti_exchange_t *x, crti_peer_queue_t *peer,
                                 bool (*is_done)(const crti_peer_queue_t *peer))
{
    crt_status_t status = CRT_OK;

    if (is_done(peer))
        return CRT_OK;
    x->can_go_on = is_done;
    x->pair_waits = peer->rank;
    crti_exchange_pair_check(x, peer);
    crti_exchange_look_again(x);
    while (status == CRT_OK && !is_done(peer))
        status = crti_exchange_turn(x);
    x->can_go_on = NULL;
    x->pair_waits = -1;
    return status;
}

static bool has_room(const crti_peer_queue_t *peer)
{
    return peer->sends - peer->taken < EAGER_COUNT;
}

static bool all_taken(const crti_peer_queue_t *peer)
{
    return peer->sends == peer->taken;
}

static bool has_offer(const crti_peer_queue_t *peer)
{
    return !crti_list_is_empty(&peer->offers) &&
           CRTI_CONTAINER(peer->offers.next, crti_offer_t, link)->is_here;
}

static crt_status_t wait_linked(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    crt_status_t status = CRT_OK;

    x->pair_waits = peer->rank;
    while (status == CRT_OK && crti_links_stream(x->links, peer->rank) == NULL)
        status = crti_exchange_turn(x);
    x->pair_waits = -1;
    return status;
}

static crt_status_t offer(crti_exchange_t *x, crti_peer_queue_t *peer, const void *data,
                          size_t size)
{
    crti_msg_group_offer_t m = {.sequence = peer->sends,
                                .dtype = x->call.dtype,
                                .count = x->call.count,
                                .done = x->done,
                                .length = size > EAGER ? 0 : size};

    peer->sends++;
    return crti_stream_send_copy(crti_links_stream(x->links, peer->rank),
                                 CRTI_MSG_GROUP_OFFER, 0, &m, data, m.length);
}

crt_status_t crti_exchange_send_to(crti_exchange_t *x, const crti_exchange_call_t *call,
                                   const void *data, size_t size)
{
    crti_peer_queue_t *peer;
    unsigned unsent = 0;
    crt_status_t status;

    crti_exchange_begin(x, call);
    peer = crti_exchange_use(x, call->peer);
    x->call.sequence = peer->sends;
    status = wait_linked(x, peer);
    if (status == CRT_OK && size <= EAGER)
        status = wait_blocked(x, peer, has_room);
    if (status == CRT_OK)
        status = offer(x, peer, data, size);
    if (status == CRT_OK && size > EAGER) {
        status = wait_blocked(x, peer, all_taken);
        if (status == CRT_OK) {
            crti_exchange_send(x, call->peer, 0, data, size, &unsent);
            status = crti_exchange_wait_sent(x, &unsent);
        }
    }
    return crti_exchange_end(x, status);
}

/* Small bytes are here already; large ones are asked for. */
static crt_status_t take_offer(crti_exchange_t *x, crti_peer_queue_t *peer,
                               const crti_offer_t *first, void *data, size_t size)
{
    crti_msg_group_taken_t taken = {.sequence = first->message.sequence};
    crti_stream_t *stream = crti_links_stream(x->links, peer->rank);
    crti_incoming_t in = {0};
    crt_status_t status = CRT_OK;

    peer->receives++;
    if (first->message.length)
        memcpy(data, first->data, size);
    crti_list_init(&in.link);
    if (size > EAGER)
        crti_exchange_receive(x, &in, peer->rank, 0, data, size);
    if (stream) /* else it left, but its bytes are here */
        status = crti_stream_send(stream, CRTI_MSG_GROUP_TAKEN, 0, &taken);
    return status == CRT_OK ? crti_exchange_wait(x, &in)
                            : crti_exchange_give_up(x, status);
}

crt_status_t crti_exchange_receive_from(crti_exchange_t *x,
                                        const crti_exchange_call_t *call, void *data,
                                        size_t size)
{
    crti_peer_queue_t *peer = &x->peers[call->peer];
    crt_status_t status;
    crti_offer_t *first;

    crti_exchange_begin(x, call);
    x->call.sequence = peer->receives;
    if (!has_offer(peer))
        crti_exchange_use(x, call->peer);
    status = wait_blocked(x, peer, has_offer);
    if (status != CRT_OK)
        return crti_exchange_end(x, status);
    first = CRTI_CONTAINER(peer->offers.next, crti_offer_t, link);
    if (first->message.dtype != call->dtype || first->message.count != call->count) {
        crti_msg_group_data_t theirs = call_of(x, &first->message);

        return crti_exchange_end(x, crti_exchange_mismatch(x, peer->rank, &theirs));
    }
    status = take_offer(x, peer, first, data, size);
    free_offer(peer, first);
    return crti_exchange_end(x, status);
}
