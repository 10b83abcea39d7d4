/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks, around a ring: crt run --ranks 4 -- ./mpi_messages */
#include <stdio.h>

#include <crt_collective.h>

static int driver(int argc, char **argv)
{
    int rank = crt_world_rank(), size = crt_world_size();
    crt_group_t *world;
    int64_t shape = 1;
    int32_t token = 100;
    crt_tensor_t message = crt_tensor_view(CRT_DTYPE_INT32, 1, &shape, &token);

    CRT_CHECK(crt_group_world(&world));
    if (rank > 0)
        CRT_CHECK(crt_group_recv(world, &message, rank - 1));
    token += rank;
    if (rank + 1 < size)
        CRT_CHECK(crt_group_send(world, &message, rank + 1));
    printf("rank %d has %d\n", rank, token);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, NULL, driver);
}
