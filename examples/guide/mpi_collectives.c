/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives of MPI: crt run --ranks 4 -- ./mpi_collectives */
#include <stdio.h>

#include <crt_collective.h>

static int driver(int argc, char **argv)
{
    int size = crt_world_size(), rank = crt_world_rank();
    crt_group_t *world;
    float mine = (float)(rank + 1), sum = 0, all[64] = {0}, first[2] = {0, 0};
    crt_tensor_t one = crt_tensor_floats(&mine, 1), total = crt_tensor_floats(&sum, 1);
    crt_tensor_t each = crt_tensor_floats(all, (size_t)size);
    crt_tensor_t pair = crt_tensor_floats(first, 2);

    CRT_CHECK(crt_group_world(&world));
    if (rank == 0)
        first[0] = 3, first[1] = 4;
    CRT_CHECK(crt_group_broadcast(world, &pair, 0));
    CRT_CHECK(crt_group_allreduce(world, &one, &total, CRT_REDUCE_SUM));
    CRT_CHECK(crt_group_allgather(world, &one, &each));
    CRT_CHECK(
        crt_group_reduce(world, &one, rank == 1 ? &total : NULL, 1, CRT_REDUCE_MAX));
    CRT_CHECK(crt_group_barrier(world));
    printf("rank %d: got %g and %g, the last has %g, %s %g\n", rank, (double)first[0],
           (double)first[1], (double)all[size - 1], rank == 1 ? "the greatest is" : "sum",
           (double)sum);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, NULL, driver);
}
