/* SPDX-License-Identifier: Apache-2.0 */
/* Halo exchange between actors of one node, beside Open MPI in the same run: members in a row, each
 * sends to its neighbours and receives from them, posted and waited for together.
 *
 * Usage: halo [--json] [--ranks N] [--bytes B] [--rounds R] [--turns T]
 *
 * Each size is measured on memory of malloc ("private") and on memory of crt_group_alloc
 * ("shared"). A round writes what is sent, meets the others at a barrier, and times one exchange
 * (short ones: a few in a row). A rank's figure is the median of its rounds, a size's the slowest
 * rank's; ours and Open MPI's take turns, and the median of the turns is printed with the least and
 * the most.
 *
 * Open MPI runs by mpirun, with its ranks bound to cores, or giving their core to others where
 * there are not enough, from the program halo_mpi beside this one, which is built where mpicc is:
 * ./setup.sh --with-mpi.
 */
#include "beside_mpi.h"

static int in_a_row(int64_t bytes)
{
    return bytes <= 4096 ? 200 : bytes <= 65536 ? 20 : 4;
}

/* What is sent up and down, what comes from there. */
static crt_status_t exchange(crt_group_t *group, const crt_tensor_t tensors[4])
{
    int rank = crt_group_rank(group), size = crt_group_size(group);
    crt_operation_t *operations[4] = {0};

    if (rank > 0) {
        CRT_TRY(crt_group_irecv(group, &tensors[2], rank - 1, &operations[0]));
        CRT_TRY(crt_group_isend(group, &tensors[0], rank - 1, &operations[1]));
    }
    if (rank + 1 < size) {
        CRT_TRY(crt_group_irecv(group, &tensors[3], rank + 1, &operations[2]));
        CRT_TRY(crt_group_isend(group, &tensors[1], rank + 1, &operations[3]));
    }
    return crt_operation_wait_all(operations, 4);
}

/* Neighbours have sent what they wrote in this round. */
static bool is_right(crt_group_t *group, float *const *memory, size_t count, int round)
{
    int rank = crt_group_rank(group), size = crt_group_size(group);
    float up = (float)((rank - 1) * 1000 + round),
          down = (float)((rank + 1) * 1000 + round);

    return (rank == 0 || (memory[2][0] == up && memory[2][count - 1] == up)) &&
           (rank + 1 == size || (memory[3][0] == down && memory[3][count - 1] == down));
}

static crt_status_t measure_run(void *self, crt_call_t *call)
{
    crt_group_t *group = ((struct rank *)self)->group;
    crt_tensor_t tensors[4];
    float *memory[4];
    int64_t bytes;
    int shared, times, row, rank = crt_group_rank(group);
    double *us, result;
    crt_status_t status = CRT_OK;

    CRT_TRY(crt_args(call, &bytes, &shared, &times));
    for (int i = 0; i < 4; i++) {
        CRT_TRY(take_memory(shared, (size_t)bytes, &memory[i]));
        memset(memory[i], 0, (size_t)bytes);
        tensors[i] = crt_tensor_floats(memory[i], (size_t)bytes / sizeof(float));
    }
    row = in_a_row(bytes);
    us = calloc((size_t)times, sizeof(*us));
    for (int i = -2; i < times && status == CRT_OK; i++) {
        double start;

        for (size_t k = 0; k < (size_t)bytes / sizeof(float); k++)
            memory[0][k] = memory[1][k] = (float)(rank * 1000 + i);
        status = crt_group_barrier(group);
        start = now_us();
        for (int k = 0; k < row && status == CRT_OK; k++)
            status = exchange(group, tensors);
        if (i >= 0)
            us[i] = (now_us() - start) / row;
        if (status == CRT_OK &&
            !is_right(group, memory, (size_t)bytes / sizeof(float), i))
            status = crt_fail(call, CRT_ERR_USER, "wrong values");
    }
    result = median(us, times);
    free(us);
    for (int i = 0; i < 4; i++)
        give_memory(shared, memory[i]);
    return status == CRT_OK ? crt_return(call, result) : status;
}

static int rounds_of(size_t bytes)
{
    return rounds;
}

static void print_row(size_t bytes, const char *buffers, double *us, double *mpi,
                      bool has_mpi, bool is_last)
{
    double own = median(us, turns), other = median(mpi, turns);

    if (as_json) {
        printf("  {\"op\": \"halo\", \"ranks\": %d, \"bytes\": %zu, \"buffers\": \"%s\", "
               "\"us\": [%.3f, %.3f, %.3f], \"openmpi_us\": ",
               ranks, bytes, buffers, us[0], own, us[turns - 1]);
        if (has_mpi)
            printf("[%.3f, %.3f, %.3f]", mpi[0], other, mpi[turns - 1]);
        else
            printf("null");
        printf("}%s\n", is_last ? "" : ",");
        return;
    }
    printf("%9zu  %-7s  %9.2f us (%.2f - %.2f)", bytes, buffers, own, us[0],
           us[turns - 1]);
    if (has_mpi)
        printf("  Open MPI %9.2f us (%.2f - %.2f)  %5.2f x", other, mpi[0],
               mpi[turns - 1], other / own);
    printf("\n");
}

static const size_t all_sizes[] = {1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20};
static const benchmark_t benchmark = {
    .name = "halo",
    .crowded = "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1",
    .sizes = all_sizes,
    .size_count = 7,
    .turns = 5,
    .rounds_of = rounds_of,
    .print_row = print_row};

int main(int argc, char **argv)
{
    return run_benchmark(argc, argv);
}
