/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduce of float32 between actors of one node, in place, beside Open MPI in the same run.
 *
 * Usage: collective [--json] [--ranks N] [--bytes B] [--rounds R]
 *
 * Each size is measured on memory of crt_group_alloc ("shared") and of malloc ("private").
 * A round writes the whole buffer, meets the others at a barrier, and times one operation (short
 * ones: a few in a row). A rank's figure is the median of its rounds, a size's the slowest rank's;
 * ours and Open MPI's take turns, and the median of three turns is printed. "bus" is what each
 * rank sends at least: 2 (n - 1) / n x bytes, by the time.
 *
 * Open MPI runs by mpirun with its ranks bound to cores (when there are enough), from the program
 * collective_mpi beside this one, which is built where mpicc is: ./setup.sh --with-mpi.
 */
#include "beside_mpi.h"

static int in_a_row(int64_t bytes)
{
    return bytes <= 1024 ? 200 : bytes <= 65536 ? 20 : 1;
}

static crt_status_t measure_run(void *self, crt_call_t *call)
{
    crt_group_t *group = ((struct rank *)self)->group;
    int64_t bytes;
    int shared, times, row;
    float *memory = NULL;
    double *us;
    crt_tensor_t view;
    crt_status_t status = CRT_OK;
    double result;

    CRT_TRY(crt_args(call, &bytes, &shared, &times));
    CRT_TRY(take_memory(shared, (size_t)bytes, &memory));
    row = in_a_row(bytes);
    us = calloc((size_t)times, sizeof(*us));
    view = crt_tensor_floats(memory, (size_t)bytes / sizeof(float));
    for (int i = -2; i < times && status == CRT_OK; i++) {
        double start;

        for (size_t k = 0; k < (size_t)bytes / sizeof(float); k++)
            memory[k] = (float)i;
        status = crt_group_barrier(group);
        start = now_us();
        for (int k = 0; k < row && status == CRT_OK; k++)
            status = crt_group_allreduce(group, &view, &view, CRT_REDUCE_SUM);
        if (i >= 0)
            us[i] = (now_us() - start) / row;
    }
    result = median(us, times);
    free(us);
    give_memory(shared, memory);
    return status == CRT_OK ? crt_return(call, result) : status;
}

static int rounds_of(size_t bytes)
{
    return bytes >= 16 << 20 ? rounds / 4 + 1 : rounds;
}

static void print_row(size_t bytes, const char *buffers, double *ours, double *mpi,
                      bool has_mpi, bool is_last)
{
    double us = median(ours, turns), mpi_us = median(mpi, turns);
    double bus = 2.0 * (ranks - 1) / ranks * (double)bytes / us / 1e3;

    if (as_json) {
        printf("  {\"op\": \"allreduce\", \"ranks\": %d, \"bytes\": %zu, \"buffers\": "
               "\"%s\", \"us\": %.3f, \"bus_gb_per_s\": %.3f, \"openmpi_us\": ",
               ranks, bytes, buffers, us, bus);
        if (has_mpi)
            printf("%.3f}%s\n", mpi_us, is_last ? "" : ",");
        else
            printf("null}%s\n", is_last ? "" : ",");
    } else if (has_mpi) {
        printf("%10zu  %-7s  %10.2f us  %8.2f GB/s  Open MPI %10.2f us  %6.2f x\n", bytes,
               buffers, us, bus, mpi_us, mpi_us / us);
    } else {
        printf("%10zu  %-7s  %10.2f us  %8.2f GB/s\n", bytes, buffers, us, bus);
    }
    fflush(stdout);
}

static const size_t all_sizes[] = {4,      64,      1024,    16384,    65536,
                                   262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
static const benchmark_t benchmark = {.name = "collective",
                                      .crowded = "--oversubscribe --bind-to none",
                                      .sizes = all_sizes,
                                      .size_count = 10,
                                      .rounds_of = rounds_of,
                                      .print_row = print_row};

int main(int argc, char **argv)
{
    return run_benchmark(argc, argv);
}
