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
#include <crt.h>
#include <crt_collective.h>

#include <libgen.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "own_cluster.h"
#include "timing.h"

#define RANKS 64
#define SIZES 16
#define TURNS 31

static const size_t all_sizes[] = {1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20};
static int ranks = 2, rounds = 60, turns = 5;
static bool as_json;
static size_t sizes[SIZES];
static int size_count;
static const char *program;

/* ---------------------------------------------------------------- a rank */

struct rank {
    crt_group_t *group;
};

static crt_status_t join_run(void *self, crt_call_t *call)
{
    int size, rank, cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;

    CRT_TRY(crt_args(call, &size, &rank));
    if (size <= cores) {
        CPU_ZERO(&set);
        CPU_SET(rank, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    return crt_group_join(size, rank, CRT_GROUP_OPTIONS(.name = "halo"),
                          &((struct rank *)self)->group);
}
static const crt_method_t rank_join =
    CRT_METHOD(.name = "join", .run = join_run, .signature = "int, int");

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
        if (shared)
            CRT_TRY(crt_group_alloc((size_t)bytes, (void **)&memory[i]));
        else
            memory[i] = aligned_alloc(4096, ((size_t)bytes + 4095) / 4096 * 4096);
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
        if (shared)
            crt_group_free(memory[i]);
        else
            free(memory[i]);
    return status == CRT_OK ? crt_return(call, result) : status;
}
static const crt_method_t rank_measure =
    CRT_METHOD(.name = "measure", .run = measure_run, .signature = "int, int, int");

static void rank_destroy(void *self)
{
    crt_group_drop(&((struct rank *)self)->group);
}

static const crt_actor_class_t rank_class =
    CRT_ACTOR_CLASS(.name = "Rank", .size = sizeof(struct rank), .destroy = rank_destroy,
                    .methods = CRT_METHODS(&rank_join, &rank_measure));

/* ---------------------------------------------------------------- Open MPI */

/* Fills us[] by size; false: there is none. */
static bool run_mpi(double *us)
{
    char path[512], command[1400];
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned long long bytes;
    double figure;
    FILE *pipe;
    int found = 0;

    snprintf(path, sizeof(path), "%s", program);
    snprintf(command, sizeof(command),
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n %d %s "
             "--mca btl vader,self --mca pml ob1 '%s/halo_mpi' %d",
             ranks,
             ranks <= cores
                 ? "--bind-to core"
                 : "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1",
             dirname(path), rounds);
    for (int i = 0; i < size_count; i++)
        snprintf(command + strlen(command), sizeof(command) - strlen(command), " %zu",
                 sizes[i]);
    snprintf(command + strlen(command), sizeof(command) - strlen(command),
             " 2>/dev/null </dev/null");
    pipe = popen(command, "r");
    while (pipe && found < size_count && fscanf(pipe, "%llu %lf", &bytes, &figure) == 2)
        us[found++] = figure;
    return pipe && pclose(pipe) == 0 && found == size_count;
}

/* ---------------------------------------------------------------- the driver */

static double measure(crt_actor_t **actors, size_t bytes, bool shared)
{
    crt_ref_t *refs[RANKS];
    double slowest = 0;

    for (int r = 0; r < ranks; r++)
        refs[r] = crt_call(actors[r], &rank_measure, (int64_t)bytes, (int)shared, rounds);
    for (int r = 0; r < ranks; r++) {
        double us;

        CRT_CHECK(crt_get(refs[r], &us));
        slowest = us > slowest ? us : slowest;
        crt_ref_drop(&refs[r]);
    }
    return slowest;
}

/* `us` and `mpi` have the figures of all turns. */
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

static int driver(int argc, char **argv)
{
    static double ours[2][SIZES][TURNS], mpi[SIZES][TURNS];
    crt_actor_t *actors[RANKS];
    crt_ref_t *refs[RANKS];
    bool has_mpi = true;

    for (int r = 0; r < ranks; r++)
        actors[r] = crt_actor_new(&rank_class, NULL);
    for (int r = 0; r < ranks; r++)
        refs[r] = crt_call(actors[r], &rank_join, ranks, r);
    for (int r = 0; r < ranks; r++) {
        CRT_CHECK(crt_get(refs[r], NULL));
        crt_ref_drop(&refs[r]);
    }
    for (int turn = 0; turn < turns; turn++) {
        double us[SIZES];

        for (int i = 0; i < size_count; i++)
            for (int shared = 0; shared < 2; shared++)
                ours[shared][i][turn] = measure(actors, sizes[i], shared);
        has_mpi = has_mpi && run_mpi(us);
        for (int i = 0; i < size_count; i++)
            mpi[i][turn] = has_mpi ? us[i] : 0;
    }
    if (!has_mpi)
        fprintf(stderr, "Open MPI is not here: ./setup.sh --with-mpi and build again\n");
    if (as_json)
        printf("[\n");
    for (int i = 0; i < size_count; i++)
        for (int shared = 1; shared >= 0; shared--)
            print_row(sizes[i], shared ? "shared" : "private", ours[shared][i], mpi[i],
                      has_mpi, i == size_count - 1 && !shared);
    if (as_json)
        printf("]\n");
    for (int r = 0; r < ranks; r++)
        crt_actor_drop(&actors[r]);
    return 0;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: halo [--json] [--ranks N] [--bytes B] [--rounds R] [--turns T]\n");
    return 2;
}

int main(int argc, char **argv)
{
    program = argv[0];
    for (int i = 1; i < argc; i++) {
        long long value = i + 1 < argc ? atoll(argv[i + 1]) : 0;

        if (strcmp(argv[i], "--json") == 0)
            as_json = true;
        else if (strcmp(argv[i], "--ranks") == 0 && value > 1 && value <= RANKS)
            ranks = (int)value, i++;
        else if (strcmp(argv[i], "--rounds") == 0 && value > 0)
            rounds = (int)value, i++;
        else if (strcmp(argv[i], "--turns") == 0 && value > 0 && value <= TURNS)
            turns = (int)value, i++;
        else if (strcmp(argv[i], "--bytes") == 0 && value >= 4 && size_count < SIZES)
            sizes[size_count++] = (size_t)value, i++;
        else
            return usage();
    }
    if (size_count == 0) {
        size_count = sizeof(all_sizes) / sizeof(*all_sizes);
        memcpy(sizes, all_sizes, sizeof(all_sizes));
    }
    use_own_cluster();
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&rank_class), .object_store_memory = 64 << 20),
        driver);
}
