/* SPDX-License-Identifier: Apache-2.0 */
/* Nonblocking collectives, in memory that neighbours sum in place: crt run --ranks 4 --
 * ./mpi_overlap */
#include <stdio.h>

#include <crt_collective.h>

static int driver(int argc, char **argv)
{
    const size_t count = 100000;
    crt_operation_t *operation;
    crt_group_t *world;
    float *gradient, own = 0;
    crt_tensor_t view;

    CRT_CHECK(crt_group_world(&world));
    CRT_CHECK(crt_group_alloc(count * sizeof(float), (void **)&gradient));
    for (size_t i = 0; i < count; i++)
        gradient[i] = (float)crt_world_rank();
    view = crt_tensor_floats(gradient, count);
    CRT_CHECK(
        crt_group_post(world,
                       CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_ALLREDUCE, .input = &view,
                                      .output = &view, .reduction = CRT_REDUCE_AVERAGE),
                       &operation));
    for (int i = 0; i < 1000; i++) /* work beside it */
        own += 1;
    CRT_CHECK(crt_operation_wait(&operation));
    printf("rank %d: average %g, own work %g\n", crt_world_rank(),
           (double)gradient[count - 1], (double)own);
    crt_group_free(gradient);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, NULL, driver);
}
