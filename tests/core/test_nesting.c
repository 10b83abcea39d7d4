/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that wait for tasks that they have made, deep and wide, take few processes: a worker that
 * waits runs its own tasks, and a worker that was asked for in vain serves the next one. Workers
 * that idle stay for longer than a test takes, so that those that are there at its end are all that
 * were made. */
#include <ctype.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define MAX_PROCESSES 64 /* driver and zygote, too */
#define CPUS          2

static crt_status_t depth_run(crt_call_t *call);
static const crt_task_t depth =
    CRT_TASK(.name = "depth", .run = depth_run, .signature = "int");
static crt_status_t fib_run(crt_call_t *call);
static const crt_task_t fib = CRT_TASK(.name = "fib", .run = fib_run, .signature = "int");

static crt_status_t depth_run(crt_call_t *call)
{
    int64_t left, below = 0;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &left));
    if (left == 0)
        return crt_return(call, 0);
    ref = crt_submit(&depth, NULL, left - 1);
    status = crt_get(ref, &below);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, below + 1) : status;
}

static crt_status_t fib_run(crt_call_t *call)
{
    crt_ref_t *refs[2];
    int64_t n, a = 0, b = 0;
    crt_status_t status;

    CRT_TRY(crt_args(call, &n));
    if (n < 2)
        return crt_return(call, n);
    refs[0] = crt_submit(&fib, NULL, n - 1);
    refs[1] = crt_submit(&fib, NULL, n - 2);
    status = crt_get(refs[0], &a);
    if (status == CRT_OK)
        status = crt_get(refs[1], &b);
    crt_refs_drop(refs, 2);
    return status == CRT_OK ? crt_return(call, a + b) : status;
}

#define DEEPER 70 /* than the node has workers */

/* As depth_run, but its waits have a limit. */
static crt_status_t patient_run(crt_call_t *call);
static const crt_task_t patient =
    CRT_TASK(.name = "patient", .run = patient_run, .signature = "int");

static crt_status_t patient_run(crt_call_t *call)
{
    int64_t left, below = 0;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &left));
    if (left == 0)
        return crt_return(call, 0);
    ref = crt_submit(&patient, NULL, left - 1);
    status = crt_get_for(ref, 20000, &below);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, below + 1) : status;
}

#define LONG_MS 10000 /* a child takes so long, unless it is cancelled */
#define SOON_MS 100   /* its parent waits so long for it */

static crt_status_t sleeper_run(crt_call_t *call)
{
    int64_t left;

    CRT_TRY(crt_args(call, &left));
    for (; left > 0 && !crt_cancelled(call); left -= 5)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return crt_return(call, left);
}

static const crt_task_t sleeper =
    CRT_TASK(.name = "sleeper", .run = sleeper_run, .signature = "int");

static int64_t ms_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What is said of the wait for a task that was submitted just now. */
static crt_status_t wait_in_way(int64_t way, crt_ref_t **ref)
{
    size_t ready, ready_count;
    int64_t value;

    switch (way) {
    case 0: return crt_get_for(*ref, 0, &value);
    case 1: return crt_get_for(*ref, SOON_MS, &value);
    case 2: return crt_wait(ref, 1, 1, SOON_MS, &ready, &ready_count);
    case 3: return crt_refs_wait(ref, 1, NULL, SOON_MS, NULL);
    default: /* the task's own limit */ return crt_get(*ref, &value);
    }
}

#define WAYS 5

static crt_status_t parent_run(crt_call_t *call)
{
    int64_t way, begin;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &way));
    begin = ms_now();
    ref = crt_submit(
        &sleeper, CRT_TASK_OPTIONS(.limit_ms = way == WAYS - 1 ? SOON_MS : 0), LONG_MS);
    status = wait_in_way(way, &ref);
    begin = ms_now() - begin;
    crt_cancel(ref, NULL);
    crt_ref_drop(&ref);
    return status == CRT_ERR_TIMED_OUT ? crt_return(call, begin) : CRT_ERR_INVALID;
}

static const crt_task_t parent =
    CRT_TASK(.name = "parent", .run = parent_run, .signature = "int");

static crt_status_t plus_one_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number + 1);
}

static const crt_task_t plus_one =
    CRT_TASK(.name = "plus_one", .run = plus_one_run, .signature = "int");

#define BOTH CRT_TASK_OPTIONS(.num_cpus = CPUS) /* so that one runs at a time */

/* (ref) -> plus_one of its value: it waits for a task of its own with another one's ref. */
static crt_status_t waiter_run(crt_call_t *call)
{
    crt_ref_t *ref, *child;
    int64_t value;
    crt_status_t status;

    CRT_TRY(crt_args(call, &ref));
    child = crt_submit(&plus_one, BOTH, ref);
    status = crt_get(child, &value);
    crt_ref_drop(&child);
    return status == CRT_OK ? crt_return(call, value) : status;
}

static const crt_task_t waiter =
    CRT_TASK(.name = "waiter", .run = waiter_run, .signature = "ref");

/* -> a list with a ref of its own, whose value comes after SOON_MS. */
static crt_status_t maker_run(crt_call_t *call)
{
    crt_ref_t *gate = crt_submit(&sleeper, CRT_TASK_OPTIONS(.no_cpus = true), SOON_MS);
    crt_ref_t *made = crt_submit(&plus_one, BOTH, gate);
    const crt_arg_t items[] = {crt_arg_ref(made)};
    crt_status_t status = crt_return(call, crt_list(items, 1));

    crt_ref_drop(&gate);
    crt_ref_drop(&made);
    return status;
}

static const crt_task_t maker =
    CRT_TASK(.name = "maker", .run = maker_run, .signature = "");

/* ---------------------------------------------------------------- in the driver */

/* Processes of this program: the driver, zygotes, workers. */
static int count_processes(void)
{
    struct stat own, other;
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    char path[300];
    int count = 0;

    assert_non_null(proc);
    assert_int_equal(stat("/proc/self/exe", &own), 0);
    while ((entry = readdir(proc))) {
        snprintf(path, sizeof(path), "/proc/%s/exe", entry->d_name);
        count += isdigit((unsigned char)entry->d_name[0]) && stat(path, &other) == 0 &&
                 other.st_ino == own.st_ino && other.st_dev == own.st_dev;
    }
    closedir(proc);
    return count;
}

static int64_t run(const crt_task_t *task, int64_t argument)
{
    struct timespec begin, end;
    crt_ref_t *ref;
    int64_t result;
    int processes;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    ref = crt_submit(task, NULL, argument);
    OK(crt_get(ref, &result));
    clock_gettime(CLOCK_MONOTONIC, &end);
    crt_ref_drop(&ref);
    processes = count_processes();
    print_message("%s(%lld): %.3f s, %d processes\n", task->name, (long long)argument,
                  (double)(end.tv_sec - begin.tv_sec) +
                      (double)(end.tv_nsec - begin.tv_nsec) * 1e-9,
                  processes);
    assert_in_range(processes, 2, MAX_PROCESSES);
    return result;
}

static void a_thousand_tasks_within_each_other_take_few_processes(void **state)
{
    assert_int_equal(run(&depth, 1000), 1000);
}

static void a_tree_of_tasks_takes_few_processes(void **state)
{
    assert_int_equal(run(&fib, 10), 55);
    assert_int_equal(run(&fib, 20), 6765);
}

static void a_limit_of_a_wait_holds_for_a_task_that_nobody_has_begun(void **state)
{
    for (int64_t way = 0; way < WAYS; way++)
        assert_in_range(run(&parent, way), 0, LONG_MS / 2);
}

static void
a_cancelled_task_does_not_wait_for_the_arguments_of_one_it_runs_itself(void **state)
{
    crt_ref_t *slow =
        crt_submit(&sleeper, CRT_TASK_OPTIONS(.no_cpus = true), 2 * LONG_MS);
    crt_ref_t *ref = crt_submit(&waiter, BOTH, slow);

    assert_int_equal(crt_get_for(ref, SOON_MS, NULL), CRT_ERR_TIMED_OUT);
    OK(crt_cancel(ref, NULL));
    assert_int_equal(crt_get_for(ref, LONG_MS / 2, NULL), CRT_ERR_CANCELLED);
    OK(crt_cancel(slow, NULL));
    crt_ref_drop(&slow);
    crt_ref_drop(&ref);
}

static void
a_task_lends_its_cpu_while_one_it_runs_itself_waits_for_arguments(void **state)
{
    crt_ref_t *gate = crt_submit(&sleeper, CRT_TASK_OPTIONS(.no_cpus = true), SOON_MS);
    crt_ref_t *made = crt_submit(&plus_one, BOTH, gate);
    crt_ref_t *ref = crt_submit(&waiter, BOTH, made);
    int64_t value;

    OK(crt_get_for(ref, LONG_MS, &value));
    assert_int_equal(value, 2);
    crt_ref_drop(&gate);
    crt_ref_drop(&made);
    crt_ref_drop(&ref);
}

static void a_task_waits_for_another_ones_ref_without_a_cpu(void **state)
{
    crt_ref_t *list = crt_submit(&maker, NULL), *made, *ref;
    const crt_value_t *items;
    int64_t value;

    OK(crt_get(list, &items));
    OK(crt_value_read(crt_value_at(items, 0), &made));
    ref = crt_submit(&plus_one, BOTH, made);
    OK(crt_get_for(ref, LONG_MS, &value));
    assert_int_equal(value, 2);
    crt_ref_drop(&ref);
    crt_ref_drop(&list);
}

static void tasks_deeper_than_there_are_workers_end_also_with_limits(void **state)
{
    crt_ref_t *ref = crt_submit(&patient, NULL, DEEPER);
    int64_t value;

    OK(crt_get_for(ref, 30000, &value));
    assert_int_equal(value, DEEPER);
    crt_ref_drop(&ref);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_tasks_within_each_other_take_few_processes),
        cmocka_unit_test(a_tree_of_tasks_takes_few_processes),
        cmocka_unit_test(a_limit_of_a_wait_holds_for_a_task_that_nobody_has_begun),
        cmocka_unit_test(
            a_cancelled_task_does_not_wait_for_the_arguments_of_one_it_runs_itself),
        cmocka_unit_test(
            a_task_lends_its_cpu_while_one_it_runs_itself_waits_for_arguments),
        cmocka_unit_test(a_task_waits_for_another_ones_ref_without_a_cpu),
        cmocka_unit_test(tasks_deeper_than_there_are_workers_end_also_with_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&depth, &patient, &fib, &sleeper,
                                                   &parent, &plus_one, &waiter, &maker),
                                .num_cpus = CPUS),
                    driver);
}
