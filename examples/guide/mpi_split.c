/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: even and odd ranks, the highest first: crt run --ranks 4 -- ./mpi_split */
#include <stdio.h>

#include <crt_collective.h>

static int driver(int argc, char **argv)
{
    crt_group_t *world, *half;
    float sum = (float)crt_world_rank();
    crt_tensor_t view = crt_tensor_floats(&sum, 1);

    CRT_CHECK(crt_group_world(&world));
    CRT_CHECK(crt_group_split(world, crt_world_rank() % 2, -crt_world_rank(), &half));
    CRT_CHECK(crt_group_allreduce(half, &view, &view, CRT_REDUCE_SUM));
    printf("rank %d is %d of %d, sum %g\n", crt_world_rank(), crt_group_rank(half),
           crt_group_size(half), (double)sum);
    crt_group_drop(&half);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, NULL, driver);
}
