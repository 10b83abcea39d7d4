/* SPDX-License-Identifier: Apache-2.0 */
/* Taking: what a member's output is made of, from inputs that it can read. See shm.h. */
#include <string.h>

#include "collective/kernel.h"
#include "collective/shm_int.h"

static const void *at(const void *base, size_t bytes)
{
    return (const char *)base + bytes;
}

/* `sources` begin with element `first` of each part; parts are `stride` elements apart. */
void crti_shm_pull(crti_shm_t *team, const void *const *sources, size_t stride,
                   size_t first, size_t count)
{
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype);
    size_t mine = (size_t)team->rank * stride * size;
    char *output = (char *)step->output + (step->output ? first * size : 0);

    switch (step->kind) {
    case CRT_COLLECTIVE_REDUCESCATTER:
        for (int i = 0; i < team->size; i++)
            team->targets[i] = (void *)(uintptr_t)at(sources[i], mine);
        sources = (const void *const *)team->targets;
        __attribute__((fallthrough));
    case CRT_COLLECTIVE_ALLREDUCE:
    case CRT_COLLECTIVE_REDUCE:
        crti_kernel_reduce_many(step->dtype, step->reduction, output, sources, team->size,
                                team->size, count);
        break;
    case CRT_COLLECTIVE_BROADCAST:
        crti_kernel_copy(output, sources[step->peer], count * size);
        break;
    case CRT_COLLECTIVE_ALLGATHER:
        for (int i = 0; i < team->size; i++)
            crti_kernel_copy(output + (size_t)i * step->count * size, sources[i],
                             count * size);
        break;
    case CRT_COLLECTIVE_ALLTOALL:
        for (int i = 0; i < team->size; i++)
            crti_kernel_copy(output + (size_t)i * step->count * size,
                             at(sources[i], mine), count * size);
        break;
    default: break;
    }
}
