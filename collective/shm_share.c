/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing: all inputs and outputs of a reduction lie in segments, so each member reduces its
 * share of the elements, from all inputs into all outputs. Two barriers, no copy. See shm.h. */
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

crt_status_t crti_shm_share(crti_shm_t *team)
{
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype), first, length;
    crt_status_t status = reach_all(team);

    if (status != CRT_OK)
        return status;
    crti_shm_share_of(step->count, size, team->size, team->rank, &first, &length);
    reduce(team, first * size, length);
    return crti_shm_barrier(team);
}
