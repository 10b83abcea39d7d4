/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange: matching, queues and waits. See exchange.h; exchange_pair.c: send and receive.
 *
 * Invariants
 *     A payload is received only into memory that an incoming of the running operation names,
 *     and only the bytes that it still lacks.
 *     At most collective_window bytes of a member's sends are given to its stream, in pieces, so
 *     that an abort does not wait behind a large one.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "collective/backends/exchange_int.h"
#include "runtime/base/limit.h"

#define COPY      ((size_t)8 << 10) /* smaller pieces leave in one write with their message */
#define SOON      ((size_t)4 << 10) /* what is worth looking for a moment longer, */
#define SOON_NS   ((uint64_t)50000) /* and how long: about what it takes to be woken */
#define REPORT_NS (800 * CRTI_MS)
#define AWAY_NS   CRTI_MS /* between two operations: then one look more costs little */

/* ---------------------------------------------------------------- sending */

static void feed(crti_exchange_t *x, crti_peer_queue_t *peer);

static void forget_send(crti_exchange_t *x, crti_exchange_outgoing_t *out)
{
    crti_list_remove(&out->link);
    crti_list_append(&x->spare, &out->link);
}

/* The system has taken a piece, or the stream is gone. */
static void on_sent(void *user, crt_status_t status)
{
    crti_exchange_outgoing_t *out = user;
    crti_peer_queue_t *peer = out->peer;
    crti_exchange_t *x = peer->x;

    out->pieces--;
    if (out->at == out->size && out->pieces == 0 && out->pair) {
        crti_pair_t *pair = out->pair;

        forget_send(x, out);
        if (status >= 0)
            crti_exchange_pair_sent(x, pair);
    } else if (out->at == out->size && out->pieces == 0) {
        x->unsent--;
        peer->unsent--;
        if (out->unsent)
            --*out->unsent;
        forget_send(x, out);
    }
    if (status == CRT_OK)
        feed(x, peer);
}

/* Gives the next piece of `out` to the stream. */
static crt_status_t send_piece(crti_stream_t *stream, crti_exchange_outgoing_t *out)
{
    crti_msg_group_data_t m = out->pair ? crti_exchange_pair_header(out->pair)
                                        : crti_exchange_header(out->peer->x);
    size_t left = out->size - out->at,
           size = left < CRTI_EXCHANGE_PIECE ? left : CRTI_EXCHANGE_PIECE;
    const unsigned char *data = left ? out->data + out->at : NULL;
    crt_status_t status;

    m.round = out->round;
    m.length = size;
    out->at += size;
    out->pieces++;
    if (size > COPY)
        return crti_stream_send_payload(stream, CRTI_MSG_GROUP_DATA, 0, &m, data, on_sent,
                                        out);
    status = crti_stream_send_copy(stream, CRTI_MSG_GROUP_DATA, 0, &m, data, size);
    if (status == CRT_OK)
        on_sent(out, CRT_IN_PROGRESS);
    return status;
}

static void feed(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    crti_stream_t *stream = crti_links_stream(x->links, peer->rank);

    if (stream == NULL || peer->is_feeding)
        return;
    peer->is_feeding = true;
    while (!crti_list_is_empty(&peer->outgoing) &&
           crti_stream_queued(stream) < CRTI_LIMIT(collective_window)) {
        crti_exchange_outgoing_t *out =
            CRTI_CONTAINER(peer->outgoing.next, crti_exchange_outgoing_t, link);

        if (out->size - out->at <=
            CRTI_EXCHANGE_PIECE) { /* its last piece: it waits apart */
            crti_list_remove(&out->link);
            crti_list_append(&peer->leaving, &out->link);
        }
        if (send_piece(stream, out) != CRT_OK) {
            crti_group_fail(x->group, CRT_ERR_IO, peer->rank, "to rank %d: %s",
                            peer->rank, crt_error_detail());
            break;
        }
    }
    peer->is_feeding = false;
    crti_stream_push(stream);
}

static crti_exchange_outgoing_t *new_outgoing(crti_exchange_t *x)
{
    crti_list_t *spare = crti_list_pop(&x->spare);
    crti_exchange_outgoing_t *out;

    if (spare)
        return CRTI_CONTAINER(spare, crti_exchange_outgoing_t, link);
    out = malloc(sizeof(*out));
    if (out)
        crti_list_init(&out->link);
    return out;
}

static void lost(crti_exchange_t *x, int rank)
{
    if (x->lost < 0)
        x->lost = rank;
}

/* Something is to be done with that member. */
crti_peer_queue_t *crti_exchange_use(crti_exchange_t *x, int rank)
{
    crti_peer_queue_t *peer = &x->peers[rank];

    if (crti_links_lost(x->links, rank))
        lost(x, rank);
    else
        crti_links_want(x->links, rank);
    return peer;
}

/* Bytes of messages go before those of the operation that runs: who receives them may be needed
 * for the operation, and does not read that far ahead. */
static crti_list_t *first_of_operation(crti_peer_queue_t *peer)
{
    crti_list_t *at = peer->outgoing.next;

    while (at != &peer->outgoing &&
           CRTI_CONTAINER(at, crti_exchange_outgoing_t, link)->pair)
        at = at->next;
    return at;
}

void crti_exchange_queue(crti_exchange_t *x, int to, uint64_t round, const void *data,
                         size_t size, unsigned *unsent)
{
    crti_peer_queue_t *peer = crti_exchange_use(x, to);
    crti_exchange_outgoing_t *out = new_outgoing(x);

    if (out == NULL) {
        crti_group_fail(x->group, CRT_ERR_NO_MEMORY, x->group->rank,
                        "out of memory at rank %d", x->group->rank);
        return;
    }
    out->peer = peer;
    out->round = round;
    out->data = data;
    out->size = size;
    out->at = 0;
    out->pieces = 0;
    out->unsent = unsent;
    out->pair = NULL;
    if (unsent)
        ++*unsent;
    x->unsent++;
    peer->unsent++;
    crti_list_append(size ? &peer->outgoing : first_of_operation(peer), &out->link);
    feed(x, peer);
}

void crti_exchange_send_pair(crti_exchange_t *x, crti_peer_queue_t *peer,
                             crti_pair_t *pair)
{
    crti_exchange_outgoing_t *out = new_outgoing(x);

    if (out == NULL) {
        crti_group_fail(x->group, CRT_ERR_NO_MEMORY, x->group->rank,
                        "out of memory at rank %d", x->group->rank);
        return;
    }
    out->peer = peer;
    out->round = 0;
    out->data = pair->input;
    out->size = pair->bytes;
    out->at = 0;
    out->pieces = 0;
    out->unsent = NULL;
    out->pair = pair;
    crti_list_append(first_of_operation(peer), &out->link);
    feed(x, peer);
}

void crti_exchange_send(crti_exchange_t *x, int to, uint64_t round, const void *data,
                        size_t size, unsigned *unsent)
{
    if (size)
        crti_exchange_queue(x, to, round, data, size, unsent);
}

/* ---------------------------------------------------------------- receiving */

static bool is_same_call(const crti_msg_group_data_t *a, const crti_msg_group_data_t *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->reduction == b->reduction &&
           a->count == b->count && a->peer == b->peer && a->team == b->team;
}

/* Does this message belong to what runs here? WRONG: the group has failed. */
static crti_verdict_t judge_call(crti_exchange_t *x, int rank,
                                 const crti_msg_group_data_t *m)
{
    crti_msg_group_data_t mine = crti_exchange_header(x);

    if (!x->is_running || m->sequence > mine.sequence)
        return CRTI_LATER;
    if (m->sequence == mine.sequence && m->kind == mine.kind && m->phase > mine.phase)
        return CRTI_LATER;
    if (m->sequence == mine.sequence && m->phase == mine.phase && is_same_call(m, &mine))
        return CRTI_TAKE;
    crti_exchange_mismatch(x, rank, &mine, m);
    return CRTI_WRONG;
}

static crti_incoming_t *first_incoming(crti_peer_queue_t *peer)
{
    return crti_list_is_empty(&peer->incoming)
               ? NULL
               : CRTI_CONTAINER(peer->incoming.next, crti_incoming_t, link);
}

/* A message of the check; false: it is none of ours. */
static bool take_check(crti_exchange_t *x, int rank, uint64_t round)
{
    int to;

    if (!crti_exchange_check_arrived(x, rank, round))
        return false;
    while (crti_exchange_check_due(x, &to, &round))
        crti_exchange_queue(x, to, round, NULL, 0, NULL);
    return true;
}

/* CRTI_TAKE: of a message with bytes, the first that is expected takes them. */
crti_verdict_t crti_exchange_judge(crti_exchange_t *x, crti_peer_queue_t *peer,
                                   const crti_msg_group_data_t *m)
{
    crti_verdict_t verdict = judge_call(x, peer->rank, m);
    const crti_incoming_t *in = first_incoming(peer);

    if (verdict != CRTI_TAKE)
        return verdict;
    if (m->length ? !in : x->check.rounds == 0) /* it has not begun here */
        return CRTI_LATER;
    if (m->length ? m->round == in->round && m->length <= in->size - in->got
                  : m->round & CHECK_ROUND && take_check(x, peer->rank, m->round))
        return CRTI_TAKE;
    crti_exchange_nonsense(x, peer->rank,
                           m->length ? "a message out of turn"
                                     : "a message without bytes out of turn");
    return CRTI_WRONG;
}

/* True when the message was dealt with; false: it must wait. */
static bool consider(crti_exchange_t *x, crti_peer_queue_t *peer, crti_stream_t *stream,
                     const crti_msg_group_data_t *m)
{
    crti_verdict_t verdict = crti_exchange_judge(x, peer, m);
    crti_incoming_t *in = first_incoming(peer);

    if (verdict != CRTI_TAKE || !m->length)
        return verdict != CRTI_LATER;
    peer->current = in;
    peer->came_to = m->sequence + 1;
    crti_stream_receive(stream, in->data + in->got);
    return true;
}

static void on_message(void *user, int rank, crti_stream_t *stream,
                       const crti_message_t *message)
{
    crti_exchange_t *x = user;
    crti_peer_queue_t *peer = &x->peers[rank];
    const crti_msg_group_data_t *m = &message->group_data;

    if (message->kind != CRTI_MSG_GROUP_DATA)
        crti_exchange_pair_message(x, peer, stream, message);
    else if (m->kind == CRT_COLLECTIVE_SEND)
        crti_exchange_pair_data(x, peer, stream, m);
    else if (!crti_list_is_empty(&peer->ahead) || !consider(x, peer, stream, m))
        crti_exchange_set_aside(x, peer, stream, m);
}

static void look_at_held(crti_exchange_t *x, crti_peer_queue_t *peer)
{
    crti_stream_t *stream = crti_links_stream(x->links, peer->rank);

    crti_exchange_take_ahead(x, peer);
    if (!peer->is_held || stream == NULL || !crti_list_is_empty(&peer->ahead) ||
        !consider(x, peer, stream, &peer->held))
        return;
    peer->is_held = false;
    crti_stream_resume(stream);
}

void crti_exchange_look_again(crti_exchange_t *x)
{
    for (int i = 0; i < x->group->size; i++)
        look_at_held(x, &x->peers[i]);
}

static void on_payload(void *user, int rank, void *buffer, size_t size)
{
    crti_exchange_t *x = user;
    crti_peer_queue_t *peer = &x->peers[rank];
    crti_incoming_t *in = peer->current;

    peer->current = NULL;
    if (in == NULL) {
        if (!crti_exchange_ahead_payload(peer))
            crti_exchange_pair_payload(x, peer, size);
        else
            crti_exchange_take_ahead(x, peer);
        return;
    }
    in->got += size;
    if (in->got == in->size)
        crti_list_remove(&in->link);
}

void crti_exchange_receive(crti_exchange_t *x, crti_incoming_t *incoming, int from,
                           uint64_t round, void *data, size_t size)
{
    crti_peer_queue_t *peer;

    *incoming = (crti_incoming_t){.round = round, .data = data, .size = size};
    crti_list_init(&incoming->link);
    if (size == 0)
        return;
    peer = crti_exchange_use(x, from);
    crti_list_append(&peer->incoming, &incoming->link);
    look_at_held(x, peer);
}

static void on_up(void *user, int rank)
{
    crti_exchange_t *x = user;

    crti_exchange_pair_offer(x, &x->peers[rank]);
    feed(x, &x->peers[rank]);
}

static bool depends_on(const crti_exchange_t *x, const crti_peer_queue_t *peer)
{
    return !crti_list_is_empty(&peer->incoming) || peer->unsent ||
           crti_exchange_check_waits_for(x, peer->rank) || x->connects_to == peer->rank ||
           crti_exchange_pair_needs(x, peer->rank);
}

static void on_lost(void *user, int rank, const char *text)
{
    crti_exchange_t *x = user;

    if ((x->is_running || x->is_awaiting) && depends_on(x, &x->peers[rank]))
        lost(x, rank);
}

/* ---------------------------------------------------------------- waits */

static bool has_come(const crti_exchange_t *x, int rank)
{
    return !x->is_awaiting && x->peers[rank].came_to == x->call.sequence + 1;
}

/* Whether those that we wait for may wait for another one: they name it, and the member behind it
 * knows for sure. */
static bool is_held_up_elsewhere(const crti_exchange_t *x)
{
    int before = x->call.before;

    return !x->is_awaiting && before >= 0 &&
           (has_come(x, before) || !depends_on(x, &x->peers[before]));
}

/* A member that we wait for; when there are some, one that has not come to the operation. */
static bool is_late(const crti_exchange_t *x, int rank, bool some_are_absent)
{
    return rank != x->group->rank && depends_on(x, &x->peers[rank]) &&
           !(some_are_absent && has_come(x, rank));
}

/* Until when we wait: past the deadline only for the word of somebody who knows better. */
static uint64_t last_moment(const crti_exchange_t *x)
{
    uint64_t deadline = x->call.deadline_ns;

    return crti_now_ns() >= deadline && is_held_up_elsewhere(x) ? deadline + REPORT_NS
                                                                : deadline;
}

/* Names those that have not done their part; the first of them, -1: none. */
static int name_late(const crti_exchange_t *x, char *who, size_t size)
{
    char one[160];
    bool some_are_absent = false;
    int first = -1, at = 0;

    who[0] = '\0';
    for (int i = 0; i < x->group->size; i++)
        some_are_absent = some_are_absent || (is_late(x, i, false) && !has_come(x, i));
    for (int i = 0; i < x->group->size && at < (int)size - 170; i++) {
        const char *doubt = crti_links_doubt(x->links, i);

        if (!is_late(x, i, some_are_absent))
            continue;
        at +=
            snprintf(who + at, size - (size_t)at, "%s%s%s%.60s%s", first < 0 ? "" : ", ",
                     crti_group_describe(x->group, i, one, sizeof(one)),
                     doubt[0] ? " [" : "", doubt, doubt[0] ? "]" : "");
        first = first < 0 ? i : first;
    }
    return first;
}

static crt_status_t too_late(crti_exchange_t *x)
{
    crti_msg_group_data_t mine = x->is_awaiting
                                     ? crti_exchange_pair_header(x->group->awaits[0])
                                     : crti_exchange_header(x);
    char who[400], what[200];
    int first = name_late(x, who, sizeof(who));

    return crti_group_fail(x->group, CRT_ERR_TIMED_OUT, first,
                           "%s: waited too long for %s",
                           crti_exchange_describe(&mine, what, sizeof(what)), who);
}

static void tell_late(crti_exchange_t *x)
{
    crti_msg_group_data_t mine = crti_exchange_header(x);
    char who[400], what[200];

    x->tell_at_ns = UINT64_MAX;
    if (x->is_running && name_late(x, who, sizeof(who)) >= 0)
        crti_group_tell_wait(x->group, x->group->tell_ns,
                             crti_exchange_describe(&mine, what, sizeof(what)), who);
}

/* After a failure: nothing of the caller's memory may be used any more. */
static void drop_all(crti_exchange_t *x)
{
    crti_links_abort(x->links);
    for (int i = 0; i < x->group->size; i++) {
        crti_peer_queue_t *peer = &x->peers[i];

        while (crti_list_pop(&peer->incoming))
            continue;
        while (!crti_list_is_empty(&peer->outgoing))
            forget_send(
                x, CRTI_CONTAINER(peer->outgoing.next, crti_exchange_outgoing_t, link));
        while (!crti_list_is_empty(&peer->leaving))
            forget_send(
                x, CRTI_CONTAINER(peer->leaving.next, crti_exchange_outgoing_t, link));
        peer->unsent = 0;
        peer->current = NULL;
        peer->is_held = false;
        crti_exchange_pair_forget(x, peer);
    }
    x->unsent = 0;
    x->group->linked.pending = 0;
}

crt_status_t crti_exchange_give_up(crti_exchange_t *x, crt_status_t status)
{
    crti_group_fail(x->group, status, -1, "%s", crt_error_detail());
    x->is_running = x->is_awaiting = false;
    drop_all(x);
    return crti_group_failed(x->group);
}

/* A member that is needed is gone. Why, the runtime or another member may tell soon. */
static crt_status_t fail_lost(crti_exchange_t *x)
{
    uint64_t deadline = crti_now_ns() + REPORT_NS;
    crt_status_t status = CRT_OK;
    char who[160];

    if (crti_links_has_left(x->links, x->lost))
        return crti_group_fail(x->group, CRT_ERR_CLOSED, x->lost, "%s has left the group",
                               crti_group_describe(x->group, x->lost, who, sizeof(who)));
    while (status == CRT_OK && crti_now_ns() < deadline)
        status = crti_links_turn(x->links, deadline);
    return status == CRT_OK ? crti_group_lost(x->group, x->lost, deadline,
                                              crti_links_lost(x->links, x->lost))
                            : status;
}

crt_status_t crti_exchange_turn_until(crti_exchange_t *x, uint64_t until_ns)
{
    const crti_way_t *other = &x->group->shared;
    crt_status_t status = crti_group_failed(x->group);
    uint64_t last = last_moment(x), until = until_ns < last ? until_ns : last;

    until = until < x->tell_at_ns ? until : x->tell_at_ns;
    if (status == CRT_OK && other->go_on &&
        (other->pending || crti_group_absorbs(x->group))) { /* which wakes nobody here */
        uint64_t soon = crti_now_ns() + CRTI_GROUP_OTHER_WAY_NS;

        until = soon < until ? soon : until;
        status = other->go_on(other->state);
    }
    if (status == CRT_OK && x->lost < 0)
        status = crti_links_turn(x->links, until);
    if (status == CRT_OK && x->lost >= 0)
        status = fail_lost(x);
    else if (status == CRT_OK && crti_now_ns() >= last_moment(x))
        status = too_late(x);
    else if (status == CRT_OK && x->tell_at_ns != UINT64_MAX &&
             crti_now_ns() >= x->tell_at_ns)
        tell_late(x);
    return status == CRT_OK ? CRT_OK : crti_exchange_give_up(x, status);
}

crt_status_t crti_exchange_turn(crti_exchange_t *x)
{
    return crti_exchange_turn_until(x, UINT64_MAX);
}

/* What is small comes soon, and to be woken takes longer than that: looks again for a moment, and
 * lets others have the processor meanwhile. */
static void look_soon(crti_exchange_t *x, const crti_incoming_t *incoming)
{
    uint64_t end = crti_now_ns() + SOON_NS;

    while (incoming->got < incoming->size && x->lost < 0 &&
           crti_links_turn(x->links, 0) == CRT_OK && crti_now_ns() < end)
        sched_yield();
}

crt_status_t crti_exchange_wait(crti_exchange_t *x, const crti_incoming_t *incoming)
{
    crt_status_t status = CRT_OK;

    if (incoming->got < incoming->size && incoming->size <= SOON)
        look_soon(x, incoming);
    while (status == CRT_OK && incoming->got < incoming->size)
        status = crti_exchange_turn(x);
    return status;
}

crt_status_t crti_exchange_wait_sent_all(crti_exchange_t *x)
{
    return crti_exchange_wait_sent(x, &x->unsent);
}

crt_status_t crti_exchange_wait_sent(crti_exchange_t *x, const unsigned *unsent)
{
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && *unsent)
        status = crti_exchange_turn(x);
    return status;
}

/* ---------------------------------------------------------------- operations */

void crti_exchange_begin(crti_exchange_t *x, const crti_exchange_call_t *call)
{
    uint64_t now = crti_now_ns();

    x->call = *call;
    x->is_running = true;
    x->tell_at_ns = x->group->tell_ns ? now + x->group->tell_ns : UINT64_MAX;
    x->was_away = now - x->ended_ns > AWAY_NS;
    x->check.rounds = 0;
    x->lost = -1;
    for (int i = 0; i < x->group->size; i++)
        crti_exchange_pair_check(x, &x->peers[i]);
    crti_exchange_look_again(x);
}

void crti_exchange_check(crti_exchange_t *x, const int *ranks, int size, int rank)
{
    int rounds = crti_exchange_check_begin(x, ranks, size, rank);

    if (rounds == 0)
        return;
    for (int i = 0; i < rounds; i++)
        crti_exchange_use(x, crti_exchange_check_from(x, i));
    crti_exchange_queue(x, crti_exchange_check_to(x, 0), CHECK_ROUND, NULL, 0, NULL);
    crti_exchange_look_again(x);
}

/* What others sent before they gave this operation up has sufficed for it here: that they did lies
 * behind it on their links. */
static crt_status_t hear_aborts(crti_exchange_t *x)
{
    crt_status_t status = crti_links_turn(x->links, 0);

    return crti_links_is_aborted(x->links) ? status : CRT_OK;
}

crt_status_t crti_exchange_end(crti_exchange_t *x, crt_status_t status)
{
    while (status == CRT_OK && (x->unsent || x->check.next < x->check.rounds ||
                                !crti_links_is_flushed(x->links)))
        status = crti_exchange_turn(x);
    if (status == CRT_OK && x->was_away)
        status = hear_aborts(x);
    if (status != CRT_OK)
        status = crti_exchange_give_up(x, status);
    x->is_running = false;
    x->ended_ns = crti_now_ns();
    x->tell_at_ns = UINT64_MAX;
    x->check.rounds = 0;
    return status;
}

void crti_exchange_report(crti_exchange_t *x)
{
    if (crti_group_failed(x->group) != CRT_OK)
        drop_all(x);
    crti_group_failed(x->group); /* the thread's text is that again */
}

/* ---------------------------------------------------------------- life */

static const crti_links_handlers_t handlers = {.on_message = on_message,
                                               .on_payload = on_payload,
                                               .on_up = on_up,
                                               .on_lost = on_lost};

/* While who waits does so elsewhere. */
static crt_status_t go_on(void *state)
{
    return crti_exchange_progress(state);
}

static crt_status_t new_exchange(crt_group_t *group, crti_exchange_t **exchange_out)
{
    crti_exchange_t *x = calloc(1, sizeof(*x));

    if (x)
        x->peers = calloc((size_t)group->size, sizeof(*x->peers));
    if (x == NULL || x->peers == NULL) {
        free(x);
        return crt_raise(CRT_ERR_NO_MEMORY, "exchange of %d members", group->size);
    }
    x->group = group;
    x->links = group->links;
    group->linked = (crti_way_t){.go_on = go_on, .state = x};
    x->lost = x->connects_to = -1;
    x->tell_at_ns = UINT64_MAX;
    crti_list_init(&x->spare);
    for (int i = 0; i < group->size; i++) {
        crti_peer_queue_t *peer = &x->peers[i];

        peer->x = x;
        peer->rank = i;
        crti_list_init(&peer->incoming);
        crti_list_init(&peer->outgoing);
        crti_list_init(&peer->leaving);
        crti_list_init(&peer->ahead);
        crti_list_init(&peer->sends);
        crti_list_init(&peer->unflushed);
        crti_list_init(&peer->placed);
        crti_list_init(&peer->receives);
        crti_list_init(&peer->arriving);
        crti_list_init(&peer->offers);
        crti_list_init(&peer->offered);
    }
    *exchange_out = x;
    return CRT_OK;
}

static void free_exchange(crti_exchange_t *x)
{
    for (int i = 0; i < x->group->size; i++)
        crti_exchange_pair_forget(x, &x->peers[i]);
    while (!crti_list_is_empty(&x->spare))
        free(CRTI_CONTAINER(crti_list_pop(&x->spare), crti_exchange_outgoing_t, link));
    free(x->peers);
    free(x);
}

crt_status_t crti_exchange_open(crt_group_t *group, crti_exchange_t **exchange_out)
{
    crti_links_handlers_t mine = handlers;
    crti_exchange_t *x;
    crt_status_t status;

    if (group->links == NULL)
        return crt_raise(CRT_ERR_UNSUPPORTED, "this process has no links to other nodes");
    x = crti_links_user(group->links);
    if (x) {
        x->uses++;
        *exchange_out = x;
        return CRT_OK;
    }
    status = new_exchange(group, &x);
    if (status != CRT_OK)
        return status;
    mine.user = x;
    status = crti_links_attach(group->links, group, &mine);
    if (status != CRT_OK) {
        free_exchange(x);
        return status;
    }
    x->uses = 1;
    *exchange_out = x;
    return CRT_OK;
}

unsigned crti_exchange_uses(const crti_exchange_t *x)
{
    return x->uses;
}

void crti_exchange_close(crti_exchange_t *x)
{
    if (x == NULL || --x->uses)
        return;
    crti_exchange_pair_settle(x);
    x->group->linked = (crti_way_t){0};
    crti_links_detach(x->links);
    free_exchange(x);
}

/* It was there: one that has left since owes nothing to the opening. */
static bool is_connected(const crti_exchange_t *x, int rank)
{
    return rank == x->group->rank || crti_links_stream(x->links, rank) ||
           crti_links_has_left(x->links, rank);
}

crt_status_t crti_exchange_connect(crti_exchange_t *x, const int *ranks, int count,
                                   uint64_t deadline_ns)
{
    crt_status_t status = CRT_OK;

    x->call = (crti_exchange_call_t){.kind = CRT_COLLECTIVE_BARRIER,
                                     .peer = -1,
                                     .before = -1,
                                     .deadline_ns = deadline_ns};
    x->lost = -1;
    for (int i = 0; i < count; i++)
        if (ranks[i] != x->group->rank)
            crti_exchange_use(x, ranks[i]);
    for (int i = 0; i < count && status == CRT_OK; i++) {
        x->connects_to = ranks[i];
        while (status == CRT_OK && !is_connected(x, ranks[i])) {
            if (crti_links_lost(x->links, ranks[i]))
                lost(x, ranks[i]);
            status = crti_exchange_turn(x);
        }
    }
    while (status == CRT_OK && !crti_links_is_flushed(x->links))
        status = crti_exchange_turn(x);
    x->connects_to = -1;
    return status;
}
