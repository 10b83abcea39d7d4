/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing: all inputs and outputs of a reduction lie in segments, so each member reduces its
 * share of the elements, from all inputs into all outputs. Two barriers, no copy. See shm.h.
 *
 * Blocks are counted in words that all members write to. A member that begins a block and dies,
 * or writes nonsense there, leaves it unended: the others' looks and deadlines end the wait. */
#include <string.h>

#include "collective/kernel.h"
#include "collective/shm_int.h"

void crti_shm_share_of(size_t count, size_t size, int shares, int index, size_t *first,
                       size_t *length)
{
    size_t line = 64 / size, each = (count + (size_t)shares - 1) / (size_t)shares;
    size_t from;

    each = (each + line - 1) / line * line;
    from = each * (size_t)index < count ? each * (size_t)index : count;
    *first = from;
    *length = count - from < each ? count - from : each;
}

static crt_status_t reach_all(crti_shm_t *team)
{
    const crti_step_t *step = team->step;

    for (int i = 0; i < team->size; i++) {
        void *source = NULL, *target = NULL;
        crt_status_t status =
            crti_shm_reach(team, i, &team->slots[i].input, step->input, &source);

        if (status == CRT_OK && crti_shm_takes(step, i))
            status =
                crti_shm_reach(team, i, &team->slots[i].output, step->output, &target);
        if (status != CRT_OK)
            return status;
        team->sources[i] = source;
        team->targets[i] = target;
    }
    return CRT_OK;
}

/* Our share of all inputs, into all outputs. */
static void reduce(crti_shm_t *team, size_t offset, size_t count)
{
    const crti_step_t *step = team->step;
    const void *sources[CRTI_GROUP_SIZE];
    void *targets[CRTI_GROUP_SIZE];
    int target_count = 0;

    for (int i = 0; i < team->size; i++) {
        sources[i] = (const char *)team->sources[i] + offset;
        if (team->targets[i])
            targets[target_count++] = (char *)team->targets[i] + offset;
    }
    crti_kernel_reduce_to(step->dtype, step->reduction, targets, target_count, sources,
                          team->size, team->size, count);
}

/* ---------------------------------------------------------------- block by block */

#define BLOCKS      8 /* of an operation, when they are neither */
#define BLOCK_LEAST ((size_t)8 << 10)
#define BLOCK_MOST  ((size_t)256 << 10)

/* The next block that nobody has begun, from the end: what was written last is in the caches, if
 * not everything is. false: there is none. */
static bool begin(crti_shm_t *team, uint32_t first, uint32_t blocks, uint32_t *block)
{
    _Atomic uint32_t *begun = &team->peers[0].common->begun;
    uint32_t now = atomic_load_explicit(begun, memory_order_relaxed);

    while (now - first < blocks)
        if (atomic_compare_exchange_weak(begun, &now, now + 1)) {
            *block = blocks - 1 - (now - first);
            return true;
        }
    return false;
}

/* With fewer cores than members, whoever runs reduces the next block: nobody waits for a member
 * that has no core but for its arrival, which tells that its input is there. */
static crt_status_t share_blocks(crti_shm_t *team)
{
    const crti_step_t *step = team->step;
    _Atomic uint32_t *ended = &team->peers[0].common->ended;
    size_t size = crt_dtype_size(step->dtype), bytes = step->count * size / BLOCKS;
    size_t each = (bytes < BLOCK_LEAST  ? BLOCK_LEAST
                   : bytes > BLOCK_MOST ? BLOCK_MOST
                                        : bytes / 64 * 64) /
                  size;
    uint32_t first = team->blocks, blocks = (uint32_t)((step->count + each - 1) / each);
    uint32_t block;
    crt_status_t status;

    team->blocks += blocks;
    while (begin(team, first, blocks, &block)) {
        size_t at = block * each, left = step->count - at;

        reduce(team, at * size, left < each ? left : each);
        if (atomic_fetch_add(ended, 1) + 1 == team->blocks)
            crti_shm_wake(team, ended);
    }
    crti_shm_arrive(team);
    status = crti_shm_wait_word(team, -1, ended, team->blocks);
    if (status == CRT_OK)
        team->passed = team->phase;
    return status;
}

crt_status_t crti_shm_share(crti_shm_t *team)
{
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype), first, length;
    crt_status_t status = reach_all(team);

    if (status != CRT_OK)
        return status;
    if (!team->most_spins)
        return share_blocks(team);
    crti_shm_share_of(step->count, size, team->size, team->rank, &first, &length);
    reduce(team, first * size, length);
    return crti_shm_barrier(team);
}
