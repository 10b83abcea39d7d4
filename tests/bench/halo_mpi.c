/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of tests/bench/halo.c with Open MPI. Usage, by mpirun: halo_mpi ROUNDS BYTES... Prints
 * a line "bytes us" for each size. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void exchange(float *const *memory, int count, int rank, int size)
{
    MPI_Request requests[4];
    int n = 0;

    if (rank > 0) {
        MPI_Irecv(memory[2], count, MPI_FLOAT, rank - 1, 0, MPI_COMM_WORLD,
                  &requests[n++]);
        MPI_Isend(memory[0], count, MPI_FLOAT, rank - 1, 0, MPI_COMM_WORLD,
                  &requests[n++]);
    }
    if (rank + 1 < size) {
        MPI_Irecv(memory[3], count, MPI_FLOAT, rank + 1, 0, MPI_COMM_WORLD,
                  &requests[n++]);
        MPI_Isend(memory[1], count, MPI_FLOAT, rank + 1, 0, MPI_COMM_WORLD,
                  &requests[n++]);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

static double measure(size_t bytes, int rounds, int rank, int size)
{
    size_t count = bytes / sizeof(float);
    float *memory[4];
    double *us = calloc((size_t)rounds, sizeof(*us)), result;
    int row = bytes <= 4096 ? 200 : bytes <= 65536 ? 20 : 4;

    for (int i = 0; i < 4; i++) {
        memory[i] = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        memset(memory[i], 0, bytes);
    }
    for (int i = -2; i < rounds; i++) {
        double start;

        for (size_t k = 0; k < count; k++)
            memory[0][k] = memory[1][k] = (float)(rank * 1000 + i);
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int k = 0; k < row; k++)
            exchange(memory, (int)count, rank, size);
        if (i >= 0)
            us[i] = (MPI_Wtime() - start) * 1e6 / row;
    }
    qsort(us, (size_t)rounds, sizeof(*us), by_size);
    MPI_Reduce(&us[rounds / 2], &result, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    free(us);
    for (int i = 0; i < 4; i++)
        free(memory[i]);
    return result;
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 2; i < argc; i++) {
        size_t bytes = (size_t)atoll(argv[i]);
        double us = measure(bytes, atoi(argv[1]), rank, size);

        if (rank == 0)
            printf("%zu %.3f\n", bytes, us);
    }
    MPI_Finalize();
    return 0;
}
