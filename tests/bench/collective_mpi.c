/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of tests/bench/collective.c with Open MPI. Usage, by mpirun: collective_mpi ROUNDS
 * BYTES... Prints a line "bytes us" for each size. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double measure(size_t bytes, int rounds)
{
    size_t count = bytes / sizeof(float);
    float *data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    double *us = calloc((size_t)rounds, sizeof(*us)), result;
    int row = bytes <= 1024 ? 200 : bytes <= 65536 ? 20 : 1;

    for (int i = -2; i < rounds; i++) {
        double start;

        for (size_t k = 0; k < count; k++)
            data[k] = (float)i;
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int k = 0; k < row; k++)
            MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
        if (i >= 0)
            us[i] = (MPI_Wtime() - start) * 1e6 / row;
    }
    qsort(us, (size_t)rounds, sizeof(*us), by_size);
    MPI_Reduce(&us[rounds / 2], &result, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    free(us);
    free(data);
    return result;
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 2; i < argc; i++) {
        size_t bytes = (size_t)atoll(argv[i]);
        int rounds = atoi(argv[1]);
        double us = measure(bytes, bytes >= 16 << 20 ? rounds / 4 + 1 : rounds);

        if (rank == 0)
            printf("%zu %.3f\n", bytes, us);
    }
    MPI_Finalize();
    return 0;
}
