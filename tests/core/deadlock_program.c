/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers that hold resources and want more (test_resource_deadlocks.py). Each says "holds" when it
 * has what it begins with, goes on behind a line of the standard input, and ends with "done" or
 * the name of the status that kept it from that.
 *     deadlock_program actors FIRST MORE     an actor of one CPU, after the other
 *     deadlock_program group FIRST BUNDLES   then a placement group of so many CPUs
 *     deadlock_program slow FIRST MS         then one of them computes so long, while one more is
 *                                            wanted
 *     deadlock_program steps FIRST MS        three times, one of them computes so long
 *     deadlock_program task                  a task with a token waits for one that wants it */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt_define.h>

#define ACTORS_MAX 16

static double ms_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

struct holder {
    int64_t calls;
};

CRT_DEFINE_ACTOR(holder, struct holder)
{
    self->calls = 0;
    return CRT_OK;
}

/* Uses its CPU so long. */
CRT_DEFINE_METHOD(holder, compute, (int64_t, ms))
{
    double until = ms_now() + (double)ms;

    while (ms_now() < until)
        continue;
    return crt_return(call, ++self->calls);
}

CRT_DEFINE_TASK(inner)
{
    return crt_return(call, (int64_t)1);
}

CRT_DEFINE_TASK(outer)
{
    crt_ref_t *ref =
        inner_submit(CRT_TASK_OPTIONS(.no_cpus = true, .resources = "token=1"));
    int64_t value;
    crt_status_t status = crt_get(ref, &value);

    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, value) : status;
}

/* ---------------------------------------------------------------- the drivers */

static crt_actor_t *actors[ACTORS_MAX];
static int count;

static crt_actor_t *add_actor(void)
{
    return actors[count++] = holder_new(CRT_ACTOR_OPTIONS(.num_cpus = 1));
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static void await_line(void)
{
    say("holds");
    while (getchar() != '\n')
        continue;
}

static crt_status_t add_and_call(int so_many)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < so_many && status == CRT_OK; i++) {
        crt_ref_t *ref = holder_compute_call(add_actor(), NULL, 0);
        int64_t calls;

        status = crt_get(ref, &calls);
        crt_ref_drop(&ref);
    }
    return status;
}

static crt_status_t want_group(int bundles)
{
    crt_bundle_t all[ACTORS_MAX];
    crt_placement_group_t *group;
    crt_status_t status;

    for (int i = 0; i < bundles; i++)
        all[i] = CRT_BUNDLE(.num_cpus = 1);
    group = crt_placement_group_new(all, (size_t)bundles, NULL);
    status = crt_placement_group_wait(group, CRT_FOREVER);
    crt_placement_group_drop(&group);
    return status;
}

/* Enough is the first of two: what its actor computes. */
static crt_status_t be_slow(int64_t ms)
{
    crt_ref_t *refs[2] = {holder_compute_call(actors[0], NULL, ms)};
    crt_status_t status;

    refs[1] = holder_compute_call(add_actor(), NULL, 0);
    status = crt_wait(refs, 2, 1, CRT_FOREVER, NULL, NULL);
    crt_refs_drop(refs, 2);
    return status;
}

static crt_status_t be_slow_again(int64_t ms)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < 3 && status == CRT_OK; i++) {
        crt_ref_t *ref = holder_compute_call(actors[0], NULL, ms);
        int64_t calls;

        status = crt_get(ref, &calls);
        crt_ref_drop(&ref);
    }
    return status;
}

static crt_status_t run_task(void)
{
    crt_ref_t *ref = outer_submit(CRT_TASK_OPTIONS(.resources = "token=1"));
    int64_t value;
    crt_status_t status = crt_get(ref, &value);

    crt_ref_drop(&ref);
    return status;
}

static int driver(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int more = argc > 3 ? atoi(argv[3]) : 0;
    crt_status_t status = add_and_call(argc > 3 ? atoi(argv[2]) : 0);

    if (status != CRT_OK)
        return 1;
    await_line();
    status = strcmp(what, "actors") == 0  ? add_and_call(more)
             : strcmp(what, "group") == 0 ? want_group(more)
             : strcmp(what, "slow") == 0  ? be_slow(more)
             : strcmp(what, "steps") == 0 ? be_slow_again(more)
                                          : run_task();
    say(status == CRT_OK ? "done" : crt_status_name(status));
    while (count > 0)
        crt_actor_drop(&actors[--count]);
    return 0;
}

CRT_MAIN(driver)
