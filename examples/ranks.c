/* SPDX-License-Identifier: Apache-2.0 */
/* The same program in several processes, as with MPI: each adds its share, all get the sum.
 *
 *     crt run --ranks 4 -- ./ranks
 */
#include <stdio.h>

#include <crt_collective.h>

/* Runs once in each rank. */
static int driver(int argc, char **argv)
{
    crt_group_t *world;
    float part = 0;
    crt_tensor_t view = crt_tensor_floats(&part, 1);

    if (crt_world_rank() < 0) {
        fprintf(stderr, "usage: crt run --ranks N -- %s\n", argv[0]);
        return 2;
    }
    CRT_CHECK(crt_group_world(&world));
    for (int i = crt_world_rank(); i < 1000; i += crt_world_size())
        part += (float)i;
    printf("rank %d of %d has %g\n", crt_world_rank(), crt_world_size(), (double)part);
    CRT_CHECK(crt_group_allreduce(world, &view, &view, CRT_REDUCE_SUM));
    if (crt_world_rank() == 0)
        printf("the sum of all is %g\n", (double)part);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, NULL, driver);
}
