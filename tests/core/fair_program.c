/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers that want all of a cluster (test_fair.py).
 *     fair_program greedy TASK_MS COUNT [ARGUMENT...]
 *         keeps ten tasks in flight until COUNT have ended, or the program with these arguments
 *         has, which begins after the first one
 *     fair_program between TASK_MS MS [PRIORITY [SHARE]]
 *         the same, but prints "begun" when some tasks have ended, and then how many tasks ended
 *         within MS from the time on that the standard input tells: milliseconds of
 *         CLOCK_MONOTONIC, so that drivers side by side count in the same time
 *     fair_program short COUNT [PAUSE_MS]
 *         one task of 10 ms after the other, so long after it */
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#define IN_FLIGHT 10
#define SETTLED   50 /* tasks, after which drivers side by side have their turns */
#define PLENTY    60 /* more than the workers of a few nodes are given at once */

static crt_status_t nap_run(crt_call_t *call)
{
    int64_t ms;

    CRT_TRY(crt_args(call, &ms));
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    return CRT_OK;
}
static const crt_task_t nap = CRT_TASK(.name = "nap", .run = nap_run, .signature = "int");

static double ms_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void check(crt_status_t status)
{
    if (status == CRT_OK)
        return;
    fprintf(stderr, "%s\n", crt_error_detail());
    exit(1);
}

static pid_t start(char **argv)
{
    pid_t pid;
    int error = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);

    if (error) {
        fprintf(stderr, "posix_spawn: %s\n", strerror(error));
        exit(1);
    }
    return pid;
}

static int greedy(int argc, char **argv)
{
    int64_t task_ms = atoll(argv[2]);
    int count = atoi(argv[3]), ended = 0, status = 0;
    crt_ref_t *refs[IN_FLIGHT];
    double began = ms_now();
    pid_t other = 0;

    argv[3] = argv[0];
    for (int i = 0; i < IN_FLIGHT; i++)
        refs[i] = crt_submit(&nap, NULL, task_ms);
    while (count ? ended < count : !other || waitpid(other, &status, WNOHANG) == 0) {
        size_t ready[IN_FLIGHT], found;

        check(crt_wait(refs, IN_FLIGHT, 1, -1, ready, &found));
        check(crt_get(refs[ready[0]], NULL));
        crt_ref_drop(&refs[ready[0]]);
        refs[ready[0]] = crt_submit(&nap, NULL, task_ms);
        if (ended++ == 0 && argc > 4)
            other = start(argv + 3);
    }
    printf("greedy %d %.0f\n", ended, ms_now() - began);
    for (int i = 0; i < IN_FLIGHT; i++) {
        (void)crt_cancel(refs[i], NULL);
        crt_ref_drop(&refs[i]);
    }
    if (count && other)
        waitpid(other, &status, 0);
    return status != 0;
}

/* What the standard input tells; without end, as long as it has not. */
static double told_begin(void)
{
    struct pollfd waiting = {.fd = STDIN_FILENO, .events = POLLIN};
    double begin;

    return poll(&waiting, 1, 0) == 1 && scanf("%lf", &begin) == 1 ? begin : HUGE_VAL;
}

static int between(int64_t task_ms, double ms)
{
    crt_ref_t *refs[PLENTY];
    double begin = HUGE_VAL;
    int ended = 0, before = 0;

    for (int i = 0; i < PLENTY; i++)
        refs[i] = crt_submit(&nap, NULL, task_ms);
    while (ms_now() < begin + ms) {
        size_t ready[PLENTY], found;
        double now;

        check(crt_wait(refs, PLENTY, 1, -1, ready, &found));
        check(crt_get(refs[ready[0]], NULL));
        crt_ref_drop(&refs[ready[0]]);
        refs[ready[0]] = crt_submit(&nap, NULL, task_ms);
        if (++before == SETTLED)
            puts("begun");
        if (begin == HUGE_VAL)
            begin = told_begin();
        now = ms_now();
        ended += now >= begin && now < begin + ms;
    }
    printf("between %d\n", ended);
    for (int i = 0; i < PLENTY; i++) {
        (void)crt_cancel(refs[i], NULL);
        crt_ref_drop(&refs[i]);
    }
    return 0;
}

static int short_ones(int count, int pause_ms)
{
    for (int i = 0; i < count; i++) {
        double began = ms_now();
        crt_ref_t *ref = crt_submit(&nap, NULL, 10);

        check(crt_get(ref, NULL));
        crt_ref_drop(&ref);
        printf("short %.1f\n", ms_now() - began);
        nanosleep(&(struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000}, NULL);
    }
    return 0;
}

static int driver(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3 && strcmp(argv[1], "greedy") == 0)
        return greedy(argc, argv);
    if (argc > 3 && strcmp(argv[1], "between") == 0)
        return between(atoll(argv[2]), atof(argv[3]));
    return argc >= 3 ? short_ones(atoi(argv[2]), argc > 3 ? atoi(argv[3]) : 0) : 2;
}

int main(int argc, char **argv)
{
    bool is_between = argc > 3 && strcmp(argv[1], "between") == 0;
    int priority = is_between && argc > 4 ? atoi(argv[4]) : 0;
    double max_share = is_between && argc > 5 ? atof(argv[5]) : 0;

    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&nap), .priority = priority,
                                .max_share = max_share),
                    driver);
}
