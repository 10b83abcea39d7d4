/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two members. See shm.h; waiting for them: shm_team.c.
 *
 * A channel, one per direction, has a few cells: a message takes the next one that is free, with
 * its bytes when they are few, and then its send has ended. Of a larger one the cell says where the
 * bytes are, and the receiver copies them: from the sender's segment, or out of the sender's memory
 * by the kernel; where that is forbidden, piece by piece through the sender's staging buffers,
 * which serve one message at a time. What a buffer of the channel holds is put there by senders
 * that block, and by those that were asked for pieces once. Nobody waits in here: each call goes on
 * with all messages as far as that is possible. Only posts leave large ones for later
 * (is_for_later).
 *
 * Two members that wait for each other to receive, as all programs do that first send and then
 * receive, would wait for ever. So a member that waits for its send to be received takes in, whole,
 * what members have sent that wait likewise (absorb); the receive finds it here.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "collective/kernel.h"
#include "collective/shm_int.h"
#include "runtime/store/futex.h"

/* A message that came before its receive. */
typedef struct crti_shm_absorbed {
    crti_list_t link;
    crti_operation_signature_t call;
    crti_pair_t pair; /* that takes it in: has_come says that it is whole */
} crti_shm_absorbed_t;

static inline bool has_reached(uint32_t now, uint32_t wanted)
{
    return (int32_t)(now - wanted) >= 0;
}

/* What we show to a peer, and it to us. */
static crti_shm_channel_t *to(const crti_shm_t *team, const crti_shm_peer_t *peer)
{
    return &team->region->channels[peer->rank];
}

static const crti_shm_channel_t *from(const crti_shm_t *team, const crti_shm_peer_t *peer)
{
    return &peer->channels[team->peers[team->rank].rank];
}

/* A word of ours that the peer looks at. */
static void store(crti_shm_peer_t *peer, _Atomic uint32_t *word, uint32_t value)
{
    /* Sequentially consistent: either it sees the word, or we see that it sleeps. */
    atomic_store_explicit(word, value, memory_order_seq_cst);
    if (!atomic_load_explicit(&peer->head->listens, memory_order_seq_cst))
        return;
    atomic_fetch_add_explicit(&peer->common->bell, 1, memory_order_seq_cst);
    crti_futex_wake(&peer->common->bell, 1);
}

static void finish(crti_shm_t *team, crti_pair_t *pair)
{
    crti_list_remove(&pair->link);
    if (team->group->shared.pending)
        team->group->shared.pending--;
    atomic_store_explicit(&pair->is_done, true, memory_order_release);
    crti_group_message_ended(team->group);
}

static size_t piece_bytes(size_t bytes, size_t done)
{
    return bytes - done < CRTI_SHM_STAGE ? bytes - done : CRTI_SHM_STAGE;
}

static unsigned char *pair_stage(unsigned char *stages, uint32_t piece)
{
    return stages + (CRTI_SHM_STAGE_PAIR + (piece & 1)) * CRTI_SHM_STAGE;
}

/* ---------------------------------------------------------------- sending */

crti_operation_signature_t crti_shm_pair_signature(const crti_pair_t *pair)
{
    return (crti_operation_signature_t){.sequence = pair->number,
                                        .count = pair->count,
                                        .kind = pair->is_send ? CRT_COLLECTIVE_SEND
                                                              : CRT_COLLECTIVE_RECV,
                                        .dtype = (int32_t)pair->dtype,
                                        .peer = pair->peer};
}

/* The peer writes the word that is looked at here: not before there is need. */
static bool has_received(const crti_shm_t *team, crti_shm_peer_t *peer, uint32_t number)
{
    if (!has_reached(peer->received, number))
        peer->received =
            atomic_load_explicit(&from(team, peer)->received, memory_order_acquire);
    return has_reached(peer->received, number);
}

/* A buffer whose last message was received; -1: none. */
static int free_middle(const crti_shm_t *team, crti_shm_peer_t *peer)
{
    for (int i = 0; i < CRTI_SHM_MIDDLES; i++)
        if (has_received(team, peer, peer->middles[i]))
            return i;
    return -1;
}

/* Whether it goes through a buffer of ours, two copies instead of one: its send need not wait for
 * the receiver, which may have to get a core first. */
static bool ends_early(const crti_shm_t *team, const crti_shm_peer_t *peer,
                       const crti_pair_t *pair)
{
    bool has_core = team->most_spins || pair->bytes > CRTI_SHM_MIDDLE / 2;

    return pair->bytes <= CRTI_SHM_MIDDLE &&
           (peer->is_blind || pair->is_blocking || !has_core);
}

/* Of a message that does not fit its cell: where its bytes are. True: in a buffer of ours. */
static bool place_bytes(crti_shm_t *team, crti_shm_peer_t *peer, crti_pair_t *pair,
                        crti_shm_cell_t *cell)
{
    cell->memory.nonce = 0;
    cell->middle = -1;
    if (crti_memory_find(pair->input, pair->bytes, &cell->memory))
        return false;
    cell->address = (uint64_t)(uintptr_t)pair->input;
    if (ends_early(team, peer, pair))
        cell->middle = free_middle(team, peer);
    if (cell->middle < 0)
        return false;
    peer->middles[cell->middle] = (uint32_t)pair->number;
    crti_kernel_copy(to(team, peer)->middles[cell->middle], pair->input, pair->bytes);
    return true;
}

/* The peer has read the lines of this cell. They come back one by one when they are written to, and
 * all at once when they are asked for. */
static void claim(crti_shm_channel_t *channel, uint64_t number, size_t bytes)
{
    char *cell = (char *)&channel->cells[number % CRTI_SHM_CELLS];

    for (size_t at = 0; at < offsetof(crti_shm_cell_t, data) + bytes; at += 64)
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0"
                         :
                         : "m"(cell[at])); /* a no-op where it is not known */
#else
        __builtin_prefetch(cell + at, 1);
#endif
}

static void place(crti_shm_t *team, crti_shm_peer_t *peer, crti_pair_t *pair)
{
    crti_shm_channel_t *channel = to(team, peer);
    uint64_t number = pair->number;
    crti_shm_cell_t *cell = &channel->cells[number % CRTI_SHM_CELLS];
    size_t eager = pair->bytes <= CRTI_SHM_EAGER ? pair->bytes : 0;

    claim(channel, number, eager);
    cell->call = crti_shm_pair_signature(pair);
    if (pair->bytes <= CRTI_SHM_EAGER) {
        if (pair->bytes)
            memcpy(cell->data, pair->input, pair->bytes);
        finish(team, pair); /* which its owner may free at once */
    } else if (place_bytes(team, peer, pair, cell)) {
        finish(team, pair);
    } else {
        crti_list_remove(&pair->link);
        crti_list_append(&peer->placed, &pair->link);
    }
    store(peer, &channel->sent, (uint32_t)number);
    claim(channel, number + 1, eager); /* the next is most often like this one */
}

/* Of the first that was placed: the peer wants it in pieces. */
static void stage_pieces(crti_shm_t *team, crti_shm_peer_t *peer, crti_pair_t *pair)
{
    crti_shm_channel_t *channel = to(team, peer);
    const crti_shm_channel_t *back = from(team, peer);
    uint32_t piece = atomic_load_explicit(&channel->staged, memory_order_relaxed);
    int who = (int)(peer - team->peers);

    if (atomic_load_explicit(&back->wanted, memory_order_acquire) !=
            (uint32_t)pair->number ||
        (team->stages_for >= 0 && team->stages_for != who))
        return;
    peer->is_blind = true;
    team->stages_for = who;
    while (pair->at < pair->bytes &&
           has_reached(atomic_load_explicit(&back->taken, memory_order_acquire),
                       piece - 1)) {
        size_t bytes = piece_bytes(pair->bytes, pair->at);

        crti_kernel_copy(pair_stage(team->region->stages, piece),
                         (const char *)pair->input + pair->at, bytes);
        pair->at += bytes;
        store(peer, &channel->staged, ++piece);
    }
}

static void go_on_sending(crti_shm_t *team, crti_shm_peer_t *peer)
{
    while (!crti_list_is_empty(&peer->placed)) {
        crti_pair_t *pair = CRTI_CONTAINER(peer->placed.next, crti_pair_t, link);

        if (!has_received(team, peer, (uint32_t)pair->number)) {
            stage_pieces(team, peer, pair);
            break;
        }
        if (pair->at)
            team->stages_for = -1;
        finish(team, pair);
    }
    while (!crti_list_is_empty(&peer->sends)) {
        crti_pair_t *pair = CRTI_CONTAINER(peer->sends.next, crti_pair_t, link);

        if (!has_received(team, peer, (uint32_t)pair->number - CRTI_SHM_CELLS))
            return;
        place(team, peer, pair);
    }
}

/* ---------------------------------------------------------------- receiving */

static bool is_alive(const crti_shm_peer_t *peer)
{
    struct pollfd end = {.fd = peer->pidfd, .events = POLLIN};

    return poll(&end, 1, 0) == 0;
}

/* No number is given to another process within a moment. */
static bool has_lived(crti_shm_peer_t *peer, uint64_t begun_ns)
{
    if (begun_ns - peer->alive_ns < CRTI_MS)
        return true;
    if (!is_alive(peer))
        return false;
    peer->alive_ns = begun_ns;
    return true;
}

/* By the kernel, out of the peer's memory. CRT_ERR_UNSUPPORTED, without a failure: it is
 * forbidden. */
static crt_status_t read_memory(crti_shm_t *team, crti_shm_peer_t *peer, uint64_t address,
                                void *output, size_t bytes)
{
    uint64_t begun = crti_now_ns();
    size_t done = 0;

    while (done < bytes) {
        struct iovec here = {(char *)output + done, bytes - done};
        struct iovec there = {(void *)(uintptr_t)(address + done), bytes - done};
        ssize_t n = process_vm_readv((pid_t)peer->pid, &here, 1, &there, 1, 0);

        if (n <= 0 && (errno == EPERM || errno == ENOSYS) && is_alive(peer))
            return CRT_ERR_UNSUPPORTED;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (!has_lived(peer, begun)) /* and its number may be another's */
        return crti_group_lost(team->group, peer->rank, crti_now_ns() + CRTI_S,
                               "its process has ended");
    return done == bytes ? CRT_OK : crti_shm_bad_place(team, (int)(peer - team->peers));
}

/* CRT_IN_PROGRESS: more pieces are to come. */
static crt_status_t take_pieces(crti_shm_t *team, crti_shm_peer_t *peer,
                                crti_pair_t *pair)
{
    const crti_shm_channel_t *channel = from(team, peer);
    crti_shm_channel_t *back = to(team, peer);
    uint32_t piece = atomic_load_explicit(&back->taken, memory_order_relaxed);

    if (atomic_load_explicit(&back->wanted, memory_order_relaxed) !=
        (uint32_t)pair->number)
        store(peer, &back->wanted, (uint32_t)pair->number);
    while (pair->at < pair->bytes &&
           has_reached(atomic_load_explicit(&channel->staged, memory_order_acquire),
                       piece + 1)) {
        size_t bytes = piece_bytes(pair->bytes, pair->at);

        crti_kernel_copy((char *)pair->output + pair->at, pair_stage(peer->stages, piece),
                         bytes);
        pair->at += bytes;
        store(peer, &back->taken, ++piece);
    }
    return pair->at < pair->bytes ? CRT_IN_PROGRESS : CRT_OK;
}

static crt_status_t take_large(crti_shm_t *team, crti_shm_peer_t *peer, crti_pair_t *pair,
                               const crti_shm_cell_t *cell)
{
    crti_memory_handle_t handle;
    uint64_t address;
    int32_t middle;
    void *at;
    crt_status_t status = CRT_ERR_UNSUPPORTED;

    memcpy(&handle, &cell->memory, sizeof(handle));
    memcpy(&address, &cell->address, sizeof(address));
    memcpy(&middle, &cell->middle, sizeof(middle));
    if (!handle.nonce && middle >= 0) {
        if (middle >= CRTI_SHM_MIDDLES || pair->bytes > CRTI_SHM_MIDDLE)
            return crti_shm_bad_place(team, (int)(peer - team->peers));
        crti_kernel_copy(pair->output, from(team, peer)->middles[middle], pair->bytes);
        return CRT_OK;
    }
    if (handle.nonce) {
        handle.bytes = pair->bytes; /* what we will touch, whatever it says */
        status = crti_shm_view(team, (int)(peer - team->peers), &handle, &at);
        if (status == CRT_OK)
            crti_kernel_copy(pair->output, at, pair->bytes);
        return status;
    }
    if (!peer->unreadable)
        status = read_memory(team, peer, address, pair->output, pair->bytes);
    if (status != CRT_ERR_UNSUPPORTED)
        return status;
    peer->unreadable = true;
    return take_pieces(team, peer, pair);
}

/* The next message, which has come, into the memory of `pair`. */
static crt_status_t take(crti_shm_t *team, crti_shm_peer_t *peer, crti_pair_t *pair)
{
    const crti_shm_cell_t *cell = &from(team, peer)->cells[pair->number % CRTI_SHM_CELLS];
    crt_status_t status = CRT_OK;

    if (pair->bytes > CRTI_SHM_EAGER)
        status = take_large(team, peer, pair, cell);
    else if (pair->bytes)
        memcpy(pair->output, cell->data, pair->bytes);
    if (status != CRT_OK)
        return status;
    store(peer, &to(team, peer)->received, (uint32_t)pair->number);
    finish(team, pair);
    return CRT_OK;
}

static bool is_what_was_sent(const crti_shm_t *team, const crti_pair_t *pair,
                             const crti_operation_signature_t *call)
{
    return call->kind == CRT_COLLECTIVE_SEND && call->peer == team->rank &&
           call->dtype == (int)pair->dtype && call->count == pair->count;
}

static crt_status_t mismatch(crti_shm_t *team, const crti_pair_t *pair,
                             const crti_operation_signature_t *call)
{
    const crti_operation_signature_t own = crti_shm_pair_signature(pair);

    return crti_shm_mismatch(team, pair->peer, &own, call);
}

static bool has_come(const crti_shm_t *team, const crti_shm_peer_t *peer, uint64_t number)
{
    return has_reached(
        atomic_load_explicit(&from(team, peer)->sent, memory_order_acquire),
        (uint32_t)number);
}

/* It was absorbed: true when it is here as a whole, or will never be. */
static bool take_absorbed(crti_shm_t *team, crti_shm_peer_t *peer, crti_pair_t *pair,
                          crt_status_t *status)
{
    crti_shm_absorbed_t *first =
        CRTI_CONTAINER(peer->absorbed.next, crti_shm_absorbed_t, link);

    if (!first->pair.is_done)
        return false;
    if (is_what_was_sent(team, pair, &first->call)) {
        if (pair->bytes)
            memcpy(pair->output, first->pair.output, pair->bytes);
        finish(team, pair);
    } else {
        *status = mismatch(team, pair, &first->call);
    }
    crti_list_remove(&first->link);
    free(first->pair.output);
    free(first);
    return true;
}

/* The last that was absorbed, while it needs more pieces; else NULL. */
static crti_shm_absorbed_t *half_absorbed(const crti_shm_peer_t *peer)
{
    crti_shm_absorbed_t *last =
        CRTI_CONTAINER(peer->absorbed.prev, crti_shm_absorbed_t, link);

    return crti_list_is_empty(&peer->absorbed) || last->pair.is_done ? NULL : last;
}

static crt_status_t go_on_absorbing(crti_shm_t *team, crti_shm_peer_t *peer)
{
    crti_shm_absorbed_t *half = half_absorbed(peer);

    return half ? take(team, peer, &half->pair) : CRT_OK;
}

/* Neighbours post receives before sends: a member that copies much in between keeps waiting a
 * neighbour that could copy at the same time. */
static bool is_for_later(const crti_shm_t *team, const crti_pair_t *pair)
{
    return team->is_posting && pair->bytes > CRTI_SHM_EAGER;
}

static crt_status_t go_on_receiving(crti_shm_t *team, crti_shm_peer_t *peer)
{
    crt_status_t status = go_on_absorbing(team, peer);

    while (status == CRT_OK && !crti_list_is_empty(&peer->receives)) {
        crti_pair_t *pair = CRTI_CONTAINER(peer->receives.next, crti_pair_t, link);
        crti_operation_signature_t call;

        if (!crti_list_is_empty(&peer->absorbed)) {
            if (!take_absorbed(team, peer, pair, &status))
                break;
            continue;
        }
        if (!has_come(team, peer, pair->number) || is_for_later(team, pair))
            break;
        memcpy(&call, &from(team, peer)->cells[pair->number % CRTI_SHM_CELLS].call,
               sizeof(call));
        status = is_what_was_sent(team, pair, &call) ? take(team, peer, pair)
                                                     : mismatch(team, pair, &call);
    }
    return status == CRT_IN_PROGRESS ? CRT_OK : status;
}

/* ---------------------------------------------------------------- absorbing */

/* The number of the send to us that a peer waits in; 0: it waits for something else. */
static uint32_t awaited_send(const crti_shm_t *team, const crti_shm_peer_t *peer)
{
    uint64_t what = atomic_load_explicit(&peer->head->in_pair, memory_order_acquire);
    uint64_t us = (uint64_t)team->peers[team->rank].rank + 1;

    return what >> 32 == ((uint64_t)CRT_COLLECTIVE_SEND << 16 | us) ? (uint32_t)what : 0;
}

static crt_status_t absorb_next(crti_shm_t *team, crti_shm_peer_t *peer, uint32_t number)
{
    crti_shm_absorbed_t *a = calloc(1, sizeof(*a));
    size_t size;
    char who[160];

    if (a) {
        memcpy(&a->call, &from(team, peer)->cells[number % CRTI_SHM_CELLS].call,
               sizeof(a->call));
        size = crt_dtype_size((crt_dtype_t)a->call.dtype);
        a->pair = (crti_pair_t){.peer = (int)(peer - team->peers),
                                .dtype = (crt_dtype_t)a->call.dtype,
                                .count = a->call.count,
                                .number = number};
        crti_list_init(&a->pair.link);
        if (size && a->call.count < SIZE_MAX / size)
            a->pair.bytes = a->call.count * size;
        a->pair.output = malloc(a->pair.bytes ? a->pair.bytes : 1);
    }
    if (!a || !a->pair.output) {
        free(a);
        return crti_group_fail(
            team->group, CRT_ERR_NO_MEMORY, team->group->rank,
            "no memory for a message of %s, which waits for it to be received",
            crti_group_describe(team->group, peer->rank, who, sizeof(who)));
    }
    crti_list_append(&peer->absorbed, &a->link);
    team->group->shared.pending++;
    return take(team, peer, &a->pair);
}

void crti_shm_pair_absorb(crti_shm_t *team)
{
    for (int i = 0; i < team->size; i++) {
        crti_shm_peer_t *peer = &team->peers[i];
        uint32_t wanted = i == team->rank ? 0 : awaited_send(team, peer);
        crt_status_t status = CRT_OK;

        while (wanted && status == CRT_OK && crti_list_is_empty(&peer->receives) &&
               !half_absorbed(peer)) {
            uint32_t next =
                atomic_load_explicit(&to(team, peer)->received, memory_order_relaxed) + 1;

            if (has_reached(next - 1, wanted) || !has_come(team, peer, next))
                break;
            status = absorb_next(team, peer, next);
        }
        if (wanted && !crti_list_is_empty(&peer->absorbed) &&
            crti_list_is_empty(&peer->active))
            crti_list_append(&team->active, &peer->active);
    }
}

/* ---------------------------------------------------------------- all messages */

static bool is_idle(const crti_shm_peer_t *peer)
{
    return crti_list_is_empty(&peer->sends) && crti_list_is_empty(&peer->placed) &&
           crti_list_is_empty(&peer->receives) && !half_absorbed(peer);
}

static crt_status_t go_on_with_all(crti_shm_t *team)
{
    crt_status_t status = CRT_OK;

    CRTI_LIST_FOREACH_SAFE (item, &team->active) {
        crti_shm_peer_t *peer = CRTI_CONTAINER(item, crti_shm_peer_t, active);

        go_on_sending(team, peer);
        status = go_on_receiving(team, peer);
        if (status != CRT_OK)
            return status;
        if (is_idle(peer))
            crti_list_remove(&peer->active);
    }
    return status;
}

/* Once more when our buffers have become free: a peer before that one may want them, and rings no
 * more. */
crt_status_t crti_shm_pair_progress(crti_shm_t *team)
{
    crt_status_t status;
    bool had_stages;

    do {
        had_stages = team->stages_for >= 0;
        status = go_on_with_all(team);
    } while (status == CRT_OK && had_stages && team->stages_for < 0);
    return status;
}

crt_status_t crti_shm_pair_post(crti_shm_t *team, crti_pair_t *pair)
{
    crti_shm_peer_t *peer = &team->peers[pair->peer];
    crt_status_t status;

    if (pair->is_send && atomic_load_explicit(&peer->head->state, memory_order_acquire) ==
                             CRTI_SHM_FAILED) /* it receives nothing any more */
        return crti_shm_take_failure(team, pair->peer);
    team->group->shared.pending++;
    pair->number = pair->is_send ? ++peer->sends_posted : ++peer->receives_posted;
    crti_list_append(pair->is_send ? &peer->sends : &peer->receives, &pair->link);
    if (crti_list_is_empty(&peer->active))
        crti_list_append(&team->active, &peer->active);
    team->is_posting = true;
    status = crti_shm_pair_progress(team);
    team->is_posting = false;
    return status;
}

static void drop(crti_list_t *pairs)
{
    while (crti_list_pop(pairs))
        continue;
}

void crti_shm_pair_drop(crti_shm_t *team)
{
    team->group->shared.pending = 0;
    for (int i = 0; i < team->size; i++) {
        crti_shm_peer_t *peer = &team->peers[i];
        crti_list_t *item;

        drop(&peer->sends);
        drop(&peer->placed);
        drop(&peer->receives);
        while ((item = crti_list_pop(&peer->absorbed))) {
            crti_shm_absorbed_t *a = CRTI_CONTAINER(item, crti_shm_absorbed_t, link);

            free(a->pair.output);
            free(a);
        }
        crti_list_remove(&peer->active);
    }
}
