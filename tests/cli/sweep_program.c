/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a sweep, for test_sweep.py: sweep_program --lr X --model NAME [--steps N] [--ms N]
 * [--load MS] [--tasks N] [--actors N] [--group N] [--fail]. Makes the gauges loss and step, loads
 * its data for a time, waits for tasks, makes actors of a CPU each, one after the other, and a
 * placement group of so many CPUs, then reports: the loss falls towards a value that follows from
 * the arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt.h>

static const char *option(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return fallback;
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static crt_status_t work_run(crt_call_t *call)
{
    nap(100);
    return CRT_OK;
}
static const crt_task_t work = CRT_TASK(.name = "work", .run = work_run, .signature = "");

static void run_tasks(long count)
{
    for (long i = 0; i < count; i++) {
        crt_ref_t *ref = crt_submit(&work, NULL);

        CRT_CHECK(crt_get(ref, NULL));
        crt_ref_drop(&ref);
    }
}

static crt_status_t ping_run(void *self, crt_call_t *call)
{
    return crt_return(call, 1);
}
static const crt_method_t ping =
    CRT_METHOD(.name = "ping", .run = ping_run, .signature = "");
static const crt_actor_class_t holder =
    CRT_ACTOR_CLASS(.name = "Holder", .methods = CRT_METHODS(&ping));

/* They go with the program. */
static void make_actors(long count)
{
    for (long i = 0; i < count; i++) {
        crt_actor_t *actor = crt_actor_new(&holder, CRT_ACTOR_OPTIONS(.num_cpus = 1));
        crt_ref_t *ref = crt_call(actor, &ping);

        CRT_CHECK(crt_get(ref, NULL));
        crt_ref_drop(&ref);
    }
}

/* An actor in each of its bundles; it goes with the program, too. */
static void make_group(long count)
{
    crt_bundle_t bundles[8] = {{0}};
    crt_placement_group_t *group;

    for (long i = 0; i < count; i++)
        bundles[i] = CRT_BUNDLE(.num_cpus = 1);
    if (count == 0)
        return;
    group = crt_placement_group_new(bundles, (size_t)count, NULL);
    CRT_CHECK(crt_placement_group_wait(group, CRT_FOREVER));
    for (int i = 0; i < count; i++) {
        crt_actor_t *actor = crt_actor_new(
            &holder, CRT_ACTOR_OPTIONS(.num_cpus = 1, CRT_IN_BUNDLE(group, i)));
        crt_ref_t *ref = crt_call(actor, &ping);

        CRT_CHECK(crt_get(ref, NULL));
        crt_ref_drop(&ref);
    }
}

static int driver(int argc, char **argv)
{
    double lr = atof(option(argc, argv, "--lr", "0.1"));
    double worst = strcmp(option(argc, argv, "--model", "mlp"), "cnn") == 0 ? 1 : 2;
    long steps = atol(option(argc, argv, "--steps", "3"));
    long ms = atol(option(argc, argv, "--ms", "0"));
    crt_gauge_t *loss, *step;

    CRT_CHECK(crt_gauge("loss", "What is minimised.", NULL, &loss));
    CRT_CHECK(crt_gauge("step", "Steps that were done.", NULL, &step));
    nap(atol(option(argc, argv, "--load", "0")));
    run_tasks(atol(option(argc, argv, "--tasks", "0")));
    make_actors(atol(option(argc, argv, "--actors", "0")));
    make_group(atol(option(argc, argv, "--group", "0")));
    for (long i = 1; i <= steps; i++) {
        crt_gauge_set(loss, worst + lr + 1.0 / (double)i);
        crt_gauge_set(step, (double)i);
        nap(ms);
    }
    printf("lr %g model %s\n", lr, option(argc, argv, "--model", "mlp"));
    return strcmp(argv[argc - 1], "--fail") == 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&work), .classes = CRT_CLASSES(&holder)), driver);
}
