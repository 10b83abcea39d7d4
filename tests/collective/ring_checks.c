/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a group made by hand, and what they must give. See ring_checks.h. */
#include "ring_checks.h"

#include <stdlib.h>

/* Value of element i at a member, small enough that sums are exact. */
float bed_value(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13) % 17) + (float)rank;
}

float bed_sum(int size, size_t i)
{
    float sum = 0;

    for (int r = 0; r < size; r++)
        sum += bed_value(r, i);
    return sum;
}

float *bed_values(int rank, size_t count, size_t from)
{
    float *memory = calloc(count + 1, sizeof(float));

    for (size_t i = 0; i < count; i++)
        memory[i] = bed_value(rank, from + i);
    return memory;
}

crti_step_t bed_step_of(crt_collective_kind_t kind, size_t count, const void *input,
                        void *output)
{
    return (crti_step_t){.kind = kind,
                         .dtype = CRT_DTYPE_FLOAT32,
                         .count = count,
                         .input = input,
                         .output = output,
                         .peer = -1};
}

void bed_check_allreduce(bed_t *bed, size_t n, bool in_place)
{
    float *in = bed_values(bed->rank, n, 0), *out = in_place ? in : calloc(n + 1, 4);
    crti_step_t step = bed_step_of(CRT_COLLECTIVE_ALLREDUCE, n, in, out);

    step.reduction = CRT_REDUCE_SUM;
    BED_CHECK(bed_step(bed, step) == CRT_OK);
    for (size_t i = 0; i < n; i++)
        BED_CHECK(out[i] == bed_sum(bed->size, i));
    if (!in_place)
        free(out);
    free(in);
}

void bed_check_reduce(bed_t *bed, size_t n, int root)
{
    float *in = bed_values(bed->rank, n, 0), *out = calloc(n + 1, 4);
    crti_step_t step =
        bed_step_of(CRT_COLLECTIVE_REDUCE, n, in, bed->rank == root ? out : NULL);

    step.reduction = CRT_REDUCE_SUM;
    step.peer = root;
    BED_CHECK(bed_step(bed, step) == CRT_OK);
    for (size_t i = 0; i < n && bed->rank == root; i++)
        BED_CHECK(out[i] == bed_sum(bed->size, i));
    free(in);
    free(out);
}

void bed_check_broadcast(bed_t *bed, size_t n, int root)
{
    float *x = bed_values(bed->rank, n, 0);
    crti_step_t step = bed_step_of(CRT_COLLECTIVE_BROADCAST, n, x, x);

    step.peer = root;
    BED_CHECK(bed_step(bed, step) == CRT_OK);
    for (size_t i = 0; i < n; i++)
        BED_CHECK(x[i] == bed_value(root, i));
    free(x);
}

void bed_check_allgather(bed_t *bed, size_t n, bool in_place)
{
    size_t all = n * (size_t)bed->size;
    float *in = bed_values(bed->rank, n, 0), *out = calloc(all + 1, 4);
    float *mine = out + n * (size_t)bed->rank;

    if (in_place && n)
        memcpy(mine, in, n * 4);
    BED_CHECK(bed_step(bed, bed_step_of(CRT_COLLECTIVE_ALLGATHER, n, in_place ? mine : in,
                                        out)) == CRT_OK);
    for (size_t i = 0; i < all; i++)
        BED_CHECK(out[i] == bed_value((int)(i / n), i % n));
    free(in);
    free(out);
}

void bed_check_reducescatter(bed_t *bed, size_t n, bool in_place)
{
    size_t all = n * (size_t)bed->size;
    float *in = bed_values(bed->rank, all, 0), *out = calloc(n + 1, 4);
    float *place = in_place ? in + n * (size_t)bed->rank : out;
    crti_step_t step = bed_step_of(CRT_COLLECTIVE_REDUCESCATTER, n, in, place);

    step.reduction = CRT_REDUCE_SUM;
    BED_CHECK(bed_step(bed, step) == CRT_OK);
    for (size_t i = 0; i < n; i++)
        BED_CHECK(place[i] == bed_sum(bed->size, n * (size_t)bed->rank + i));
    free(in);
    free(out);
}

void bed_check_alltoall(bed_t *bed, size_t n)
{
    size_t all = n * (size_t)bed->size;
    float *in = bed_values(bed->rank, all, 0), *out = calloc(all + 1, 4);

    BED_CHECK(bed_step(bed, bed_step_of(CRT_COLLECTIVE_ALLTOALL, n, in, out)) == CRT_OK);
    for (size_t i = 0; i < all; i++)
        BED_CHECK(out[i] == bed_value((int)(i / n), n * (size_t)bed->rank + i % n));
    free(in);
    free(out);
}

void bed_check(bed_t *bed, crt_collective_kind_t kind, size_t n, int root, bool in_place)
{
    crti_step_t barrier = bed_step_of(CRT_COLLECTIVE_BARRIER, 0, NULL, NULL);

    switch (kind) {
    case CRT_COLLECTIVE_ALLREDUCE: bed_check_allreduce(bed, n, in_place); break;
    case CRT_COLLECTIVE_REDUCE: bed_check_reduce(bed, n, root); break;
    case CRT_COLLECTIVE_BROADCAST: bed_check_broadcast(bed, n, root); break;
    case CRT_COLLECTIVE_ALLGATHER: bed_check_allgather(bed, n, in_place); break;
    case CRT_COLLECTIVE_REDUCESCATTER: bed_check_reducescatter(bed, n, in_place); break;
    case CRT_COLLECTIVE_ALLTOALL: bed_check_alltoall(bed, n); break;
    default: BED_CHECK(bed_step(bed, barrier) == CRT_OK);
    }
}
