/* SPDX-License-Identifier: Apache-2.0 */
/* Pi from random points: many small tasks, a progress line while they run, one sum at the end.
 *
 *     ./monte_carlo_pi [--tasks N] [--samples N]
 *     crt run --nodes 4 -- ./monte_carlo_pi --tasks 1000
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

/* A random number from 0 to 1; splitmix64, so that each task has a sequence of its own. */
static double next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* How many of `samples` points of the unit square lie in the quarter of the unit circle. */
static crt_status_t sample_run(crt_call_t *call)
{
    int64_t samples, hits = 0;
    uint64_t seed;

    CRT_TRY(crt_args(call, &seed, &samples));
    for (int64_t i = 0; i < samples; i++) {
        double x = next_random(&seed), y = next_random(&seed);

        hits += x * x + y * y < 1;
    }
    return crt_return(call, hits);
}
static const crt_task_t sample =
    CRT_TASK(.name = "sample", .run = sample_run, .signature = "int, int");

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show_progress(size_t done, size_t tasks, double pi)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%zu of %zu tasks, pi is about %.6f%s", done, tasks, pi,
                done == tasks ? "\n" : "");
}

/* Adds up what the tasks return, in the order in which they end. */
static int64_t sum_hits(crt_ref_t **refs, size_t tasks, int64_t samples)
{
    size_t *ready = calloc(tasks, sizeof(*ready)), left = tasks, count;
    int64_t sum = 0, hits;

    while (left > 0) {
        CRT_CHECK(crt_wait(refs, left, 1, -1, ready, &count));
        while (count-- > 0) { /* from behind: what is taken away lies behind the others */
            size_t i = ready[count];

            CRT_CHECK(crt_get(refs[i], &hits));
            sum += hits;
            crt_ref_drop(&refs[i]);
            refs[i] = refs[--left];
        }
        show_progress(tasks - left, tasks,
                      4 * (double)sum / ((double)(tasks - left) * (double)samples));
    }
    free(ready);
    return sum;
}

static int driver(int argc, char **argv)
{
    static const struct option options[] = {{"tasks", required_argument, NULL, 't'},
                                            {"samples", required_argument, NULL, 's'},
                                            {0}};
    long tasks = 100, samples = 1000000;
    double begin = now_s(), pi;
    crt_ref_t **refs;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 't': tasks = atol(optarg); break;
        case 's': samples = atol(optarg); break;
        default: return 2;
        }
    if (tasks < 1 || samples < 1 || !(refs = calloc((size_t)tasks, sizeof(*refs)))) {
        fprintf(stderr, "monte_carlo_pi: give at least one task and one sample\n");
        return 2;
    }
    for (long i = 0; i < tasks; i++)
        refs[i] = crt_submit(&sample, NULL, i + 1, samples);
    pi = 4 * (double)sum_hits(refs, (size_t)tasks, samples) /
         ((double)tasks * (double)samples);
    printf("pi is about %.8f, off by %.1e: %ld tasks of %ld samples in %.2f s\n", pi,
           fabs(pi - M_PI), tasks, samples, now_s() - begin);
    free(refs);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&sample)), driver);
}
