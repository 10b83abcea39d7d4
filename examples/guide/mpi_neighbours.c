/* SPDX-License-Identifier: Apache-2.0 */
/* Heat in a bar that is cut into pieces: each rank exchanges the ends of its piece with its
 * neighbours. crt run --ranks 4 -- ./mpi_neighbours */
#include <stdio.h>
#include <string.h>

#include <crt_collective.h>

#define CELLS 25 /* of each rank; before and after them one of each neighbour */

/* The ends of our piece leave, those of the neighbours come; all four at once. */
static crt_status_t exchange(crt_group_t *world, float *bar)
{
    int rank = crt_world_rank(), last = crt_world_size() - 1;
    crt_tensor_t left = crt_tensor_floats(&bar[1], 1);
    crt_tensor_t right = crt_tensor_floats(&bar[CELLS], 1);
    crt_tensor_t from_left = crt_tensor_floats(&bar[0], 1);
    crt_tensor_t from_right = crt_tensor_floats(&bar[CELLS + 1], 1);
    crt_operation_t *posted[4] = {NULL}; /* the first and the last rank have two */

    if (rank > 0) {
        CRT_TRY(crt_group_irecv(world, &from_left, rank - 1, &posted[0]));
        CRT_TRY(crt_group_isend(world, &left, rank - 1, &posted[1]));
    }
    if (rank < last) {
        CRT_TRY(crt_group_irecv(world, &from_right, rank + 1, &posted[2]));
        CRT_TRY(crt_group_isend(world, &right, rank + 1, &posted[3]));
    }
    return crt_operation_wait_all(posted, 4);
}

static int driver(int argc, char **argv)
{
    int rank = crt_world_rank(), size = crt_world_size();
    float bar[CELLS + 2] = {0}, next[CELLS + 2] = {0}, mine = (float)rank, theirs;
    crt_tensor_t out = crt_tensor_floats(&mine, 1), in = crt_tensor_floats(&theirs, 1);
    crt_group_t *world;

    CRT_CHECK(crt_group_world(&world));
    if (rank == 0)
        bar[0] = next[0] = 100; /* the hot end */
    for (int step = 0; step < 1000; step++) {
        CRT_CHECK(exchange(world, bar));
        for (int i = 1; i <= CELLS; i++)
            next[i] = (bar[i - 1] + 2 * bar[i] + bar[i + 1]) / 4;
        memcpy(&bar[1], &next[1], CELLS * sizeof(float));
    }
    printf("rank %d: %.1f to %.1f degrees\n", rank, (double)bar[1], (double)bar[CELLS]);
    if (size == 1)
        return 0; /* a member sends nothing to itself */
    /* Around a ring, one call. */
    CRT_CHECK(crt_group_sendrecv(world, &out, (rank + 1) % size, &in,
                                 (rank + size - 1) % size));
    printf("rank %d: the one before is %.0f\n", rank, (double)theirs);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, NULL, driver);
}
