/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing: all inputs and outputs of a reduction lie in segments, so each member reduces its
 * share of the elements, from all inputs into all outputs. Two barriers, no copy. See shm.h. */
#include <string.h>

#include "collective/kernel.h"
#include "collective/shm_int.h"

#define BLOCK_BYTES                                                                      \
    ((size_t)16 << 10) /* copied to the other outputs while it is in the cache */

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

/* The pair that is most common goes through the kernel once, with both outputs hot. */
static void reduce_block(crti_shm_t *team, size_t offset, size_t count)
{
    const crti_step_t *step = team->step;
    const void *sources[CRTI_GROUP_SIZE];
    size_t bytes = count * crt_dtype_size(step->dtype);
    char *first = NULL;

    for (int i = 0; i < team->size; i++)
        sources[i] = (const char *)team->sources[i] + offset;
    for (int i = 0; i < team->size; i++) {
        char *target = team->targets[i] ? (char *)team->targets[i] + offset : NULL;

        if (!target)
            continue;
        if (first)
            crti_kernel_copy(target, first, bytes);
        else
            crti_kernel_reduce_many(step->dtype, step->reduction, target, sources,
                                    team->size, team->size, count);
        if (!first)
            first = target;
    }
}

crt_status_t crti_shm_share(crti_shm_t *team)
{
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype), first, length;
    crt_status_t status = reach_all(team);

    if (status != CRT_OK)
        return status;
    crti_shm_share_of(step->count, size, team->size, team->rank, &first, &length);
    for (size_t done = 0; done < length;) {
        size_t block = BLOCK_BYTES / size;

        if (block > length - done)
            block = length - done;
        reduce_block(team, (first + done) * size, block);
        done += block;
    }
    return crti_shm_barrier(team);
}
