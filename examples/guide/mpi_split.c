/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: even and odd ranks, the highest first: crt run --ranks 4 -- ./mpi_split */
#include <stdio.h>

#include <crt_collective.h>

static int driver(int argc, char **argv)
{
    crt_group_t *world, *half;
    float sum = (float)crt_rank();
    crt_tensor_t view = crt_tensor_floats(&sum, 1);

    CRT_CHECK(crt_collective_world(&world));
    CRT_CHECK(crt_collective_split(world, crt_rank() % 2, -crt_rank(), &half));
    CRT_CHECK(crt_collective_allreduce(half, &view, &view, CRT_SUM));
    printf("rank %d is %d of %d, sum %g\n", crt_rank(), crt_collective_rank(half),
           crt_collective_size(half), (double)sum);
    crt_collective_destroy_group(&half);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, NULL, driver);
}
