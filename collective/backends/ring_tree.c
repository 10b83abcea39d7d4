/* SPDX-License-Identifier: Apache-2.0 */
/* Few steps, for what is small: log2(n) of them where n - 1 messages of one member would cost more.
 */
#include <string.h>

#include "collective/backends/ring_int.h"

/* Bruck's allgather. Position i of `all` is the part of the member i steps back: after a step
 * twice as many are there. */
crt_status_t crti_ring_bruck(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    int n = ring->size;
    size_t bytes = job->count * job->element;
    unsigned char *all = crti_ring_scratch(ring, 0, (size_t)n * bytes);
    crt_status_t status = CRT_OK;

    if (all == NULL)
        return crti_group_failed(ring->group);
    memcpy(all, job->input, bytes);
    for (int have = 1, round = 0; have < n && status == CRT_OK; have *= 2, round++) {
        size_t more = (size_t)(have < n - have ? have : n - have);
        crti_incoming_t in;

        crti_ring_receive(ring, &in, crti_ring_member(ring, -have), (uint64_t)round,
                          all + (size_t)have * bytes, more * bytes);
        crti_ring_send(ring, crti_ring_member(ring, have), (uint64_t)round, all,
                       more * bytes, NULL);
        status = crti_exchange_wait(ring->exchange, &in);
    }
    for (int i = 0; i < n && status == CRT_OK; i++)
        memcpy(job->output + (size_t)crti_ring_member(ring, -i) * bytes,
               all + (size_t)i * bytes, bytes);
    return status;
}

/* Binomial tree: member p (steps from the root) gets it from p without its lowest bit. */
crt_status_t crti_ring_tree(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    int n = ring->size, p = crti_ring_member(ring, -job->root), bit = 1;
    size_t bytes = job->count * job->element;
    crt_status_t status = CRT_OK;

    while (bit < n && !(p & bit))
        bit *= 2;
    if (p) {
        crti_incoming_t in;

        crti_ring_receive(ring, &in, crti_ring_member(ring, -bit), 0, job->output, bytes);
        status = crti_exchange_wait(ring->exchange, &in);
    }
    for (bit /= 2; bit && status == CRT_OK; bit /= 2)
        if (p + bit < n)
            crti_ring_send(ring, crti_ring_member(ring, bit), 0,
                           p ? job->output : job->input, bytes, NULL);
    return status;
}

/* Allreduce: everybody's values, summed at each member in the order of the ranks. */
crt_status_t crti_ring_gathered(const crti_ring_job_t *job,
                                crt_status_t (*gather)(const crti_ring_job_t *))
{
    crti_ring_t *ring = job->ring;
    crti_ring_job_t all = *job;
    size_t n = (size_t)ring->size, bytes = job->count * job->element;
    size_t values = (n * bytes + 63) / 64 * 64;
    const void **sources;
    crt_status_t status;

    all.kind = CRT_COLLECTIVE_ALLGATHER;
    all.output = crti_ring_scratch(ring, 1, values + n * sizeof(*sources));
    if (all.output == NULL)
        return crti_group_failed(ring->group);
    status = gather(&all);
    if (status != CRT_OK)
        return status;
    sources = (void *)(all.output + values);
    for (size_t i = 0; i < n; i++)
        sources[i] = all.output + i * bytes;
    status = crti_exchange_wait_sent_all(ring->exchange); /* in place: input is sent */
    if (status == CRT_OK)
        crti_kernel_reduce_many(job->dtype, job->reduction, job->output, sources, (int)n,
                                job->divisor, job->count);
    return status;
}
