/* SPDX-License-Identifier: Apache-2.0 */
/* What benchmarks of collectives beside Open MPI share: options, ranks that join a group, turns of
 * ours and of the program NAME_mpi, which stands beside this one, and the table. The one that
 * includes this says how a rank measures (`measure_run`) and how a row is printed. */
#ifndef CRTI_TESTS_BENCH_BESIDE_MPI_H
#define CRTI_TESTS_BENCH_BESIDE_MPI_H

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

typedef struct benchmark {
    const char *name;    /* also of the group */
    const char *crowded; /* options of mpirun where ranks share cores */
    const size_t *sizes; /* where none are given */
    int size_count;
    int turns;                      /* 0: that many are not an option */
    int (*rounds_of)(size_t bytes); /* how often a size is measured */
    /* `us` and `mpi` have the figures of all turns, the least first. */
    void (*print_row)(size_t bytes, const char *buffers, double *us, double *mpi,
                      bool has_mpi, bool is_last);
} benchmark_t;

static const benchmark_t benchmark;
static int ranks = 2, rounds = 60, turns = 3;
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
    return crt_group_join(size, rank, CRT_GROUP_OPTIONS(.name = benchmark.name),
                          &((struct rank *)self)->group);
}
static const crt_method_t rank_join =
    CRT_METHOD(.name = "join", .run = join_run, .signature = "int, int");

/* (bytes, on shared memory, rounds) Microseconds, the median of the rounds. */
static crt_status_t measure_run(void *self, crt_call_t *call);
static const crt_method_t rank_measure =
    CRT_METHOD(.name = "measure", .run = measure_run, .signature = "int, int, int");

static void rank_destroy(void *self)
{
    crt_group_drop(&((struct rank *)self)->group);
}

static const crt_actor_class_t rank_class =
    CRT_ACTOR_CLASS(.name = "Rank", .size = sizeof(struct rank), .destroy = rank_destroy,
                    .methods = CRT_METHODS(&rank_join, &rank_measure));

/* Memory of crt_group_alloc, or of malloc, in whole pages. */
static inline crt_status_t take_memory(bool shared, size_t bytes, float **memory_out)
{
    if (shared)
        return crt_group_alloc(bytes, (void **)memory_out);
    *memory_out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return CRT_OK;
}

static inline void give_memory(bool shared, float *memory)
{
    if (shared)
        crt_group_free(memory);
    else
        free(memory);
}

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
             "--mca btl vader,self --mca pml ob1 '%s/%s_mpi' %d",
             ranks, ranks <= cores ? "--bind-to core" : benchmark.crowded, dirname(path),
             benchmark.name, rounds);
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
        refs[r] = crt_call(actors[r], &rank_measure, (int64_t)bytes, (int)shared,
                           benchmark.rounds_of(bytes));
    for (int r = 0; r < ranks; r++) {
        double us;

        CRT_CHECK(crt_get(refs[r], &us));
        slowest = us > slowest ? us : slowest;
        crt_ref_drop(&refs[r]);
    }
    return slowest;
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
            benchmark.print_row(sizes[i], shared ? "shared" : "private", ours[shared][i],
                                mpi[i], has_mpi, i == size_count - 1 && !shared);
    if (as_json)
        printf("]\n");
    for (int r = 0; r < ranks; r++)
        crt_actor_drop(&actors[r]);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: %s [--json] [--ranks N] [--bytes B] [--rounds R]%s\n",
            benchmark.name, benchmark.turns ? " [--turns T]" : "");
    return 2;
}

static int run_benchmark(int argc, char **argv)
{
    program = argv[0];
    turns = benchmark.turns ? benchmark.turns : turns;
    for (int i = 1; i < argc; i++) {
        long long value = i + 1 < argc ? atoll(argv[i + 1]) : 0;

        if (strcmp(argv[i], "--json") == 0)
            as_json = true;
        else if (strcmp(argv[i], "--ranks") == 0 && value > 1 && value <= RANKS)
            ranks = (int)value, i++;
        else if (strcmp(argv[i], "--rounds") == 0 && value > 0)
            rounds = (int)value, i++;
        else if (strcmp(argv[i], "--turns") == 0 && benchmark.turns && value > 0 &&
                 value <= TURNS)
            turns = (int)value, i++;
        else if (strcmp(argv[i], "--bytes") == 0 && value >= 4 && size_count < SIZES)
            sizes[size_count++] = (size_t)value, i++;
        else
            return usage();
    }
    if (size_count == 0) {
        size_count = benchmark.size_count;
        memcpy(sizes, benchmark.sizes, (size_t)size_count * sizeof(*sizes));
    }
    use_own_cluster();
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&rank_class), .object_store_memory = 64 << 20),
        driver);
}

#endif
