/* SPDX-License-Identifier: Apache-2.0 */
/* Ring: what every algorithm needs: temporary memory, messages between members. See ring_int.h. */
#include <stdlib.h>

#include "collective/backends/ring_int.h"

void *crti_ring_scratch(crti_ring_t *ring, int which, size_t size)
{
    if (size <= ring->scratch_size[which])
        return ring->scratch[which];
    free(ring->scratch[which]);
    ring->scratch_size[which] = 0;
    size = (size + 4095) / 4096 * 4096;
    if (posix_memalign(&ring->scratch[which], 64, size) != 0) {
        ring->scratch[which] = NULL;
        crti_group_fail(ring->group, CRT_ERR_NO_MEMORY, ring->group->rank,
                        "rank %d: no %zu bytes for temporary values", ring->group->rank,
                        size);
        return NULL;
    }
    ring->scratch_size[which] = size;
    return ring->scratch[which];
}

void crti_ring_receive(crti_ring_t *ring, crti_incoming_t *incoming, int from,
                       uint64_t round, void *data, size_t size)
{
    crti_exchange_receive(ring->exchange, incoming, ring->ranks[from], round, data, size);
}

void crti_ring_send(crti_ring_t *ring, int to, uint64_t round, const void *data,
                    size_t size, unsigned *unsent)
{
    crti_exchange_send(ring->exchange, ring->ranks[to], round, data, size, unsent);
}
