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
#define TURNS 3

static const size_t all_sizes[] = {4,      64,      1024,    16384,    65536,
                                   262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
static int ranks = 2, rounds = 60;
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
    return crt_group_join(size, rank, CRT_GROUP_OPTIONS(.name = "bench"),
                          &((struct rank *)self)->group);
}
static const crt_method_t rank_join =
    CRT_METHOD(.name = "join", .run = join_run, .signature = "int, int");

static int in_a_row(int64_t bytes)
{
    return bytes <= 1024 ? 200 : bytes <= 65536 ? 20 : 1;
}

static crt_status_t measure_run(void *self, crt_call_t *call)
{
    crt_group_t *group = ((struct rank *)self)->group;
    int64_t bytes;
    int shared, times, row;
    void *memory = NULL;
    double *us;
    crt_tensor_t view;
    crt_status_t status = CRT_OK;
    double result;

    CRT_TRY(crt_args(call, &bytes, &shared, &times));
    if (shared)
        CRT_TRY(crt_group_alloc((size_t)bytes, &memory));
    else
        memory = aligned_alloc(4096, ((size_t)bytes + 4095) / 4096 * 4096);
    row = in_a_row(bytes);
    us = calloc((size_t)times, sizeof(*us));
    view = crt_tensor_floats(memory, (size_t)bytes / sizeof(float));
    for (int i = -2; i < times && status == CRT_OK; i++) {
        double start;

        for (size_t k = 0; k < (size_t)bytes / sizeof(float); k++)
            ((float *)memory)[k] = (float)i;
        status = crt_group_barrier(group);
        start = now_us();
        for (int k = 0; k < row && status == CRT_OK; k++)
            status = crt_group_allreduce(group, &view, &view, CRT_REDUCE_SUM);
        if (i >= 0)
            us[i] = (now_us() - start) / row;
    }
    result = median(us, times);
    free(us);
    if (shared)
        crt_group_free(memory);
    else
        free(memory);
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
             "--mca btl vader,self --mca pml ob1 '%s/collective_mpi' %d",
             ranks, ranks <= cores ? "--bind-to core" : "--oversubscribe --bind-to none",
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
    int times = bytes >= 16 << 20 ? rounds / 4 + 1 : rounds;

    for (int r = 0; r < ranks; r++)
        refs[r] = crt_call(actors[r], &rank_measure, (int64_t)bytes, (int)shared, times);
    for (int r = 0; r < ranks; r++) {
        double us;

        CRT_CHECK(crt_get(refs[r], &us));
        slowest = us > slowest ? us : slowest;
        crt_ref_drop(&refs[r]);
    }
    return slowest;
}

static void print_row(size_t bytes, bool shared, double us, double mpi_us, bool is_last)
{
    double bus = 2.0 * (ranks - 1) / ranks * (double)bytes / us / 1e3;

    if (as_json) {
        printf("  {\"op\": \"allreduce\", \"ranks\": %d, \"bytes\": %zu, \"buffers\": "
               "\"%s\", \"us\": %.3f, \"bus_gb_per_s\": %.3f, \"openmpi_us\": ",
               ranks, bytes, shared ? "shared" : "private", us, bus);
        if (mpi_us > 0)
            printf("%.3f}%s\n", mpi_us, is_last ? "" : ",");
        else
            printf("null}%s\n", is_last ? "" : ",");
    } else if (mpi_us > 0) {
        printf("%10zu  %-7s  %10.2f us  %8.2f GB/s  Open MPI %10.2f us  %6.2f x\n", bytes,
               shared ? "shared" : "private", us, bus, mpi_us, mpi_us / us);
    } else {
        printf("%10zu  %-7s  %10.2f us  %8.2f GB/s\n", bytes,
               shared ? "shared" : "private", us, bus);
    }
    fflush(stdout);
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
    for (int turn = 0; turn < TURNS; turn++) {
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
            print_row(sizes[i], shared, median(ours[shared][i], TURNS),
                      median(mpi[i], TURNS), i == size_count - 1 && !shared);
    if (as_json)
        printf("]\n");
    for (int r = 0; r < ranks; r++)
        crt_actor_drop(&actors[r]);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: collective [--json] [--ranks N] [--bytes B] [--rounds R]\n");
    return 2;
}

int main(int argc, char **argv)
{
    program = argv[0];
    for (int i = 1; i < argc; i++) {
        long long value = i + 1 < argc ? atoll(argv[i + 1]) : 0;

        if (strcmp(argv[i], "--json") == 0)
            as_json = true;
        else if (strcmp(argv[i], "--ranks") == 0 && value > 0 && value <= RANKS)
            ranks = (int)value, i++;
        else if (strcmp(argv[i], "--rounds") == 0 && value > 0)
            rounds = (int)value, i++;
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
