/* SPDX-License-Identifier: Apache-2.0 */
/* Send and receive between two members. See shm.h.
 *
 * A channel holds one message: its description, and the data when they are few. Then the sender
 * goes on at once; else it waits until the receiver has taken them, from the sender's segment or
 * piece by piece through the staging buffers.
 */
#include <string.h>

#include "collective/kernel.h"
#include "collective/shm_int.h"

static void store(crti_shm_t *team, _Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_seq_cst);
    crti_shm_wake(team, word);
}

/* What we are in, for those who wait for us in something else. */
static void enter(crti_shm_t *team, const crti_step_t *step, uint32_t number)
{
    atomic_store_explicit(&team->region->head->in_pair,
                          (uint64_t)step->kind << 48 |
                              (uint64_t)(team->peers[step->peer].rank + 1) << 32 | number,
                          memory_order_release);
}

static void leave(crti_shm_t *team)
{
    atomic_store_explicit(&team->region->head->in_pair, 0, memory_order_release);
}

static size_t piece_bytes(size_t bytes, size_t done)
{
    return bytes - done < CRTI_SHM_STAGE ? bytes - done : CRTI_SHM_STAGE;
}

static unsigned char *pair_stage(const unsigned char *stages, uint32_t piece)
{
    return (unsigned char *)(uintptr_t)stages +
           (CRTI_SHM_STAGE_PAIR + (piece & 1)) * CRTI_SHM_STAGE;
}

/* ---------------------------------------------------------------- sending */

static crt_status_t send_pieces(crti_shm_t *team, const crti_step_t *step, size_t bytes)
{
    crti_shm_channel_t *channel = &team->region->channels[team->peers[step->peer].rank];
    const crti_shm_channel_t *back =
        &team->peers[step->peer].channels[team->peers[team->rank].rank];
    uint32_t piece = atomic_load_explicit(&channel->staged, memory_order_relaxed);
    crt_status_t status = CRT_OK;

    for (size_t done = 0; done < bytes && status == CRT_OK; done += CRTI_SHM_STAGE) {
        status = crti_shm_wait_word(team, step->peer, &back->taken, piece - 1);
        if (status != CRT_OK)
            break;
        crti_kernel_copy(pair_stage(team->region->stages, piece),
                         (const char *)step->input + done, piece_bytes(bytes, done));
        store(team, &channel->staged, ++piece);
    }
    return status;
}

static crt_status_t send_one(crti_shm_t *team, const crti_step_t *step)
{
    const crti_shm_peer_t *peer = &team->peers[step->peer];
    crti_shm_channel_t *channel = &team->region->channels[peer->rank];
    const crti_shm_channel_t *back = &peer->channels[team->peers[team->rank].rank];
    uint32_t number = atomic_load_explicit(&channel->sent, memory_order_relaxed) + 1;
    size_t bytes = step->count * crt_dtype_size(step->dtype);
    crt_status_t status;

    enter(team, step, number);
    status = crti_shm_wait_word(team, step->peer, &back->received, number - 1);
    if (status != CRT_OK)
        return status;
    channel->slot.call = crti_operation_signature_of(step);
    channel->slot.input.nonce = 0;
    if (bytes <= CRTI_SHM_INLINE) {
        if (bytes)
            memcpy(channel->slot.data, step->input, bytes);
        store(team, &channel->sent, number);
        return CRT_OK;
    }
    crti_shm_offer(step, step->input, bytes, &channel->slot.input);
    store(team, &channel->sent, number);
    if (!channel->slot.input.nonce)
        status = send_pieces(team, step, bytes);
    if (status == CRT_OK)
        status = crti_shm_wait_word(team, step->peer, &back->received, number);
    return status;
}

crt_status_t crti_shm_send(crti_shm_t *team, const crti_step_t *step)
{
    crt_status_t status = send_one(team, step);

    leave(team);
    return status;
}

/* ---------------------------------------------------------------- receiving */

static crt_status_t receive_pieces(crti_shm_t *team, const crti_step_t *step,
                                   size_t bytes)
{
    const crti_shm_peer_t *peer = &team->peers[step->peer];
    const crti_shm_channel_t *channel = &peer->channels[team->peers[team->rank].rank];
    crti_shm_channel_t *back = &team->region->channels[peer->rank];
    uint32_t piece = atomic_load_explicit(&back->taken, memory_order_relaxed);
    crt_status_t status = CRT_OK;

    for (size_t done = 0; done < bytes && status == CRT_OK; done += CRTI_SHM_STAGE) {
        status = crti_shm_wait_word(team, step->peer, &channel->staged, piece + 1);
        if (status != CRT_OK)
            break;
        crti_kernel_copy((char *)step->output + done, pair_stage(peer->stages, piece),
                         piece_bytes(bytes, done));
        store(team, &back->taken, ++piece);
    }
    return status;
}

static crt_status_t take(crti_shm_t *team, const crti_step_t *step,
                         const crti_shm_channel_t *channel, size_t bytes)
{
    crti_memory_handle_t handle;
    void *from;
    crt_status_t status;

    if (bytes <= CRTI_SHM_INLINE) {
        if (bytes)
            memcpy(step->output, channel->slot.data, bytes);
        return CRT_OK;
    }
    memcpy(&handle, &channel->slot.input, sizeof(handle));
    if (!handle.nonce)
        return receive_pieces(team, step, bytes);
    handle.bytes = bytes;
    status = crti_shm_reach(team, step->peer, &handle, NULL, &from);
    if (status == CRT_OK)
        crti_kernel_copy(step->output, from, bytes);
    return status;
}

static crt_status_t receive_one(crti_shm_t *team, const crti_step_t *step)
{
    const crti_shm_peer_t *peer = &team->peers[step->peer];
    const crti_shm_channel_t *channel = &peer->channels[team->peers[team->rank].rank];
    crti_shm_channel_t *back = &team->region->channels[peer->rank];
    uint32_t number = atomic_load_explicit(&back->received, memory_order_relaxed) + 1;
    size_t bytes = step->count * crt_dtype_size(step->dtype);
    crti_operation_signature_t call;
    crt_status_t status;

    enter(team, step, number);
    status = crti_shm_wait_word(team, step->peer, &channel->sent, number);
    if (status != CRT_OK)
        return status;
    memcpy(&call, &channel->slot.call, sizeof(call));
    if (call.kind != CRT_COLLECTIVE_SEND || call.peer != team->rank ||
        call.dtype != (int)step->dtype || call.count != step->count)
        return crti_shm_mismatch(team, step->peer, &call);
    status = take(team, step, channel, bytes);
    if (status == CRT_OK)
        store(team, &back->received, number);
    return status;
}

crt_status_t crti_shm_receive(crti_shm_t *team, const crti_step_t *step)
{
    crt_status_t status = receive_one(team, step);

    leave(team);
    return status;
}
