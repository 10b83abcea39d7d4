/* SPDX-License-Identifier: Apache-2.0 */
/* Options of one call: its name, its timeout, errors for which it is made again, and workers that
 * end after so many calls. How often something ran is counted in the bytes of a file. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "notes.h"
#include "ok.h"

#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

/* Fails with `status` in its first `failures` runs; gives the number of the run. */
static crt_status_t fail_run(crt_call_t *call)
{
    const char *path;
    int64_t failures, status, run;

    CRT_TRY(crt_args(call, &path, &failures, &status));
    run = note(path, '+');
    if (run <= failures)
        return crt_fail(call, (crt_status_t)status, "failure %lld", (long long)run);
    return crt_return(call, run);
}
static const crt_task_t fail_task =
    CRT_TASK(.name = "fail", .run = fail_run, .signature = "string, int, int");

static crt_status_t die_run(crt_call_t *call)
{
    const char *path;
    int64_t deaths, run;

    CRT_TRY(crt_args(call, &path, &deaths));
    run = note(path, '+');
    if (run <= deaths)
        kill(getpid(), SIGKILL);
    return crt_return(call, run);
}
static const crt_task_t die_task =
    CRT_TASK(.name = "die", .run = die_run, .signature = "string, int");

/* Computes until it is told to end; says then that it was. */
static crt_status_t spin_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    note(path, 'b');
    while (!crt_cancelled(call))
        continue;
    note(path, 'e');
    return crt_return(call, 1);
}
static const crt_task_t spin =
    CRT_TASK(.name = "spin", .run = spin_run, .signature = "string");

/* Sleeps, and does not listen. */
static crt_status_t sleep_run(crt_call_t *call)
{
    int64_t ms;

    CRT_TRY(crt_args(call, &ms));
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    return crt_return(call, getpid());
}
static const crt_task_t sleep_task =
    CRT_TASK(.name = "sleep", .run = sleep_run, .signature = "int");

static const crt_task_t few_calls =
    CRT_TASK(.name = "few", .run = sleep_run, .signature = "int", .max_calls = 3);

/* The object is this worker's, which takes no other call. */
static crt_status_t own_run(crt_call_t *call)
{
    crt_ref_t *mine = crt_put(42);
    const crt_arg_t items[] = {CRT_ARG(mine), CRT_ARG(getpid())};
    crt_status_t status = crt_return(call, crt_list(items, 2));

    crt_ref_drop(&mine);
    return status;
}
static const crt_task_t own_once =
    CRT_TASK(.name = "own", .run = own_run, .signature = "", .max_calls = 1);

static crt_status_t method_fail_run(void *self, crt_call_t *call)
{
    return fail_run(call);
}
static crt_status_t method_die_run(void *self, crt_call_t *call)
{
    return die_run(call);
}
static crt_status_t method_spin_run(void *self, crt_call_t *call)
{
    return spin_run(call);
}
static const crt_method_t method_fail =
    CRT_METHOD(.name = "fail", .run = method_fail_run, .signature = "string, int, int");
static const crt_method_t method_die =
    CRT_METHOD(.name = "die", .run = method_die_run, .signature = "string, int");
static const crt_method_t method_spin =
    CRT_METHOD(.name = "spin", .run = method_spin_run, .signature = "string");
static const crt_actor_class_t fragile =
    CRT_ACTOR_CLASS(.name = "Fragile",
                    .methods = CRT_METHODS(&method_fail, &method_die, &method_spin));

/* ---------------------------------------------------------------- in the driver */

static double ms_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void gives(crt_ref_t *ref, int64_t wanted)
{
    int64_t value;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    assert_int_equal(value, wanted);
    crt_ref_drop(&ref);
}

static void fails(crt_ref_t *ref, crt_status_t status, const char *words)
{
    crt_status_t is = crt_get_for(ref, PATIENCE_MS, NULL);

    if (is != status || !strstr(crt_error_detail(), words))
        fail_msg("%s instead of %s: \"%s\" is not in \"%s\"", crt_status_name(is),
                 crt_status_name(status), words, crt_error_detail());
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- retries */

static void a_task_whose_worker_dies_is_run_three_times_more(void **state)
{
    gives(crt_submit(&die_task, NULL, notes, 3), 4);
    OK(truncate(notes, 0) == 0 ? CRT_OK : CRT_ERR_IO);
    fails(crt_submit(&die_task, NULL, notes, 100), CRT_ERR_WORKER_DIED,
          "the last of 4 tries");
}

static void without_retries_it_runs_once(void **state)
{
    fails(crt_submit(&die_task, CRT_TASK_OPTIONS(.max_attempts = 1), notes, 1),
          CRT_ERR_WORKER_DIED, "signal 9");
    assert_int_equal(notes_in(notes), 1);
}

static void an_error_that_was_named_makes_a_task_run_again(void **state)
{
    const crt_task_options_t *options =
        CRT_TASK_OPTIONS(.max_attempts = 6,
                         .retry_exceptions = CRT_STATUSES(CRT_ERR_IO, CRT_ERR_USER));

    gives(crt_submit(&fail_task, options, notes, 4, CRT_ERR_IO), 5);
    gives(crt_submit(&fail_task, NULL, notes, 0, CRT_ERR_IO), 6);
    fails(crt_submit(&fail_task, options, notes, 100, CRT_ERR_USER), CRT_ERR_USER,
          "failure 12");
    assert_int_equal(notes_in(notes), 12);
}

static void any_other_error_does_not(void **state)
{
    const crt_task_options_t *options =
        CRT_TASK_OPTIONS(.retry_exceptions = CRT_STATUSES(CRT_ERR_IO));

    fails(crt_submit(&fail_task, options, notes, 9, CRT_ERR_INVALID), CRT_ERR_INVALID,
          "failure 1");
    assert_int_equal(notes_in(notes), 1);
}

static void all_errors_do_when_that_is_asked_for(void **state)
{
    const crt_task_options_t *options =
        CRT_TASK_OPTIONS(.max_attempts = CRT_UNLIMITED,
                         .retry_exceptions = CRT_RETRY_ALL);
    crt_actor_t *actor = crt_actor_new(&fragile, NULL);
    crt_ref_t *ref;

    gives(crt_submit(&fail_task, options, notes, 2, CRT_ERR_IO), 3);
    gives(crt_submit(&fail_task, options, notes, 5, CRT_ERR_USER), 6);
    ref = crt_call_with(
        actor, &method_fail,
        CRT_CALL_OPTIONS(.max_attempts = 3, .retry_exceptions = CRT_RETRY_ALL), notes, 8,
        CRT_ERR_INVALID);
    gives(ref, 9);
    /* One that is cancelled has ended. */
    ref = crt_submit(&spin, options, notes);
    wait_for_notes(notes, 10);
    OK(crt_cancel(ref, NULL));
    fails(ref, CRT_ERR_CANCELLED, "");
    assert_int_equal(notes_in(notes), 11); /* its end is noted, too */
    crt_actor_drop(&actor);
}

static void an_argument_that_failed_with_it_is_no_reason(void **state)
{
    const crt_task_options_t *options =
        CRT_TASK_OPTIONS(.retry_exceptions = CRT_STATUSES(CRT_ERR_IO));
    crt_ref_t *bad = crt_submit(&fail_task, NULL, notes, 9, CRT_ERR_IO);

    fails(crt_submit(&sleep_task, options, bad), CRT_ERR_IO, "failure 1");
    crt_ref_drop(&bad);
}

static void a_method_is_made_again_for_errors_that_its_call_names(void **state)
{
    crt_actor_t *actor = crt_actor_new(&fragile, NULL);
    const crt_call_options_t *options =
        CRT_CALL_OPTIONS(.max_attempts = 3, .retry_exceptions = CRT_STATUSES(CRT_ERR_IO));
    crt_ref_t *ref = crt_call_with(actor, &method_fail, options, notes, 2, CRT_ERR_IO);

    gives(ref, 3);
    ref = crt_call_with(actor, &method_fail,
                        CRT_CALL_OPTIONS(.retry_exceptions = CRT_STATUSES(CRT_ERR_IO)),
                        notes, 9, CRT_ERR_IO); /* no retries: as its actor was made */
    fails(ref, CRT_ERR_IO, "failure 4");
    crt_actor_drop(&actor);
}

static void a_call_may_be_made_again_more_often_than_its_actor_says(void **state)
{
    crt_actor_t *actor = crt_actor_new(
        &fragile, CRT_ACTOR_OPTIONS(.max_restarts = -1, .max_task_retries = 1));

    OK(crt_actor_ready(actor, PATIENCE_MS));
    gives(
        crt_call_with(actor, &method_die, CRT_CALL_OPTIONS(.max_attempts = 4), notes, 3),
        4);
    OK(truncate(notes, 0) == 0 ? CRT_OK : CRT_ERR_IO);
    fails(
        crt_call_with(actor, &method_die, CRT_CALL_OPTIONS(.max_attempts = 1), notes, 1),
        CRT_ERR_ACTOR_DIED, "");
    assert_int_equal(notes_in(notes), 1);
    crt_actor_drop(&actor);
}

/* ---------------------------------------------------------------- timeouts */

static void a_task_that_takes_too_long_is_cancelled(void **state)
{
    double start = ms_now();

    fails(crt_submit(&spin,
                     CRT_TASK_OPTIONS(.limit_ms = 300, .max_attempts = CRT_UNLIMITED),
                     notes),
          CRT_ERR_TIMED_OUT, "spin had not ended after its timeout of 300 ms");
    assert_true(ms_now() - start >= 300);
    wait_for_notes(notes, 2); /* it was told */
}

static void its_caller_does_not_wait_for_one_that_does_not_listen(void **state)
{
    double start = ms_now();
    crt_ref_t *refs[2];

    crt_submit_returns(refs, 2, &sleep_task, CRT_TASK_OPTIONS(.limit_ms = 50), 2000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(crt_get_for(refs[i], PATIENCE_MS, NULL), CRT_ERR_TIMED_OUT);
        assert_int_equal(crt_ref_error(refs[i])->status, CRT_ERR_TIMED_OUT);
        crt_ref_drop(&refs[i]);
    }
    assert_true(ms_now() - start < 1500);
}

static void a_task_that_waits_for_too_long_never_runs(void **state)
{
    crt_ref_t *first = crt_submit(&spin, NULL, notes);
    const crt_task_options_t *options = CRT_TASK_OPTIONS(.limit_ms = 50);
    crt_ref_t *argument, *never;

    wait_for_notes(notes, 1);
    argument = crt_submit(&sleep_task, options, first);
    never = crt_submit(&sleep_task,
                       CRT_TASK_OPTIONS(.resources = "unicorn=1", .limit_ms = 50), 0);
    fails(argument, CRT_ERR_TIMED_OUT, "sleep had not ended");
    assert_false(crt_ref_error(never) && crt_ref_error(never)->may_have_run);
    fails(never, CRT_ERR_TIMED_OUT, "sleep had not ended");
    OK(crt_cancel(first, NULL));
    fails(first, CRT_ERR_CANCELLED, "");
}

static void one_that_is_in_time_is_left_alone(void **state)
{
    for (int i = 0; i < 200; i++) {
        crt_ref_t *ref =
            crt_submit(&sleep_task, CRT_TASK_OPTIONS(.limit_ms = 60000 + i % 7), 0);

        OK(crt_get_for(ref, PATIENCE_MS, NULL));
        crt_ref_drop(&ref);
    }
}

static void a_method_that_takes_too_long_is_cancelled_and_the_next_one_runs(void **state)
{
    crt_actor_t *actor = crt_actor_new(&fragile, NULL);
    crt_ref_t *ref;

    OK(crt_actor_ready(actor, PATIENCE_MS)); /* or the limit ends before it runs */
    ref = crt_call_with(actor, &method_spin,
                        CRT_CALL_OPTIONS(.limit_ms = 200, .name = "slow one"), notes);
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_TIMED_OUT);
    assert_string_equal(crt_ref_error(ref)->method, "slow one");
    crt_ref_drop(&ref);
    gives(crt_call(actor, &method_fail, notes, 0, 0), 3);
    crt_actor_drop(&actor);
}

/* ---------------------------------------------------------------- names */

static void a_call_fails_by_its_name(void **state)
{
    crt_ref_t *ref = crt_submit(&fail_task, CRT_TASK_OPTIONS(.name = "epoch 8"), notes,
                                99, CRT_ERR_USER);

    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_USER);
    assert_string_equal(crt_ref_error(ref)->method, "epoch 8");
    crt_ref_drop(&ref);
    fails(crt_submit(&die_task, CRT_TASK_OPTIONS(.name = "epoch 9", .max_attempts = 1),
                     notes, 99),
          CRT_ERR_WORKER_DIED, "in epoch 9");
}

/* ---------------------------------------------------------------- max_calls */

static void a_worker_ends_after_so_many_calls_and_nothing_is_lost(void **state)
{
    enum { CALLS = 30 };
    crt_ref_t *refs[CALLS];
    int64_t pids[CALLS], in_each = 0;

    for (int i = 0; i < CALLS; i++)
        refs[i] = crt_submit(&few_calls, CRT_TASK_OPTIONS(.max_attempts = 1), i % 3);
    for (int i = 0; i < CALLS; i++) {
        OK(crt_get_for(refs[i], PATIENCE_MS, &pids[i]));
        crt_ref_drop(&refs[i]);
    }
    for (int i = 0; i < CALLS; i++) {
        in_each = 0;
        for (int j = 0; j < CALLS; j++)
            in_each += pids[i] == pids[j];
        assert_in_range(in_each, 1, 3);
    }
}

static void its_objects_live_as_long_as_somebody_has_them(void **state)
{
    crt_ref_t *ref = crt_submit(&own_once, NULL), *inner, *slept;
    const crt_value_t *list;
    int64_t pid, value;

    OK(crt_get_for(ref, PATIENCE_MS, &list));
    OK(crt_value_read(crt_value_at(list, 0), &inner));
    OK(crt_value_read(crt_value_at(list, 1), &pid));
    slept = crt_submit(&sleep_task, NULL, 300);
    OK(crt_get_for(slept, PATIENCE_MS, NULL));
    crt_ref_drop(&slept);
    assert_int_equal(kill((pid_t)pid, 0), 0);
    OK(crt_get_for(inner, PATIENCE_MS, &value));
    assert_int_equal(value, 42);
    crt_ref_drop(&ref);
    for (int i = 0; kill((pid_t)pid, 0) == 0; i++) { /* and it ends with the last one */
        assert_true(i < 10000);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* ---------------------------------------------------------------- bad input */

static void bad_options_are_refused_by_name(void **state)
{
    static const crt_status_t ready[] = {CRT_IN_PROGRESS, CRT_OK};
    char name[300];

    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    fails(crt_submit(&spin, CRT_TASK_OPTIONS(.name = name), notes), CRT_ERR_INVALID,
          "1 to 200 bytes");
    fails(crt_submit(&spin, CRT_TASK_OPTIONS(.name = ""), notes), CRT_ERR_INVALID,
          "1 to 200 bytes");
    fails(crt_submit(&spin, CRT_TASK_OPTIONS(.limit_ms = -5), notes), CRT_ERR_INVALID,
          "limit_ms");
    fails(crt_submit(&spin, CRT_TASK_OPTIONS(.limit_ms = INT64_MAX), notes),
          CRT_ERR_INVALID, "not 1 to 1099511627776 (34 years), or 0 for no limit");
    fails(crt_submit(&spin, CRT_TASK_OPTIONS(.retry_exceptions = ready), notes),
          CRT_ERR_INVALID, "retry_exceptions has 1");
    fails(crt_submit(&spin, CRT_TASK_OPTIONS(.max_attempts = -3), notes), CRT_ERR_INVALID,
          "max_attempts is -3");
    assert_int_equal(notes_in(notes), 0);
}

static void amounts_that_can_not_be_are_refused(void **state)
{
    static const double wrong[] = {NAN, INFINITY, -INFINITY, -2, 1e300, 1e-9};
    crt_actor_t *actor;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fails(crt_submit(&spin, CRT_TASK_OPTIONS(.num_cpus = wrong[i]), notes),
              CRT_ERR_INVALID, "CPU");
        fails(crt_submit(&spin, CRT_TASK_OPTIONS(.num_gpus = wrong[i]), notes),
              CRT_ERR_INVALID, "GPU");
        actor = crt_actor_new(&fragile, CRT_ACTOR_OPTIONS(.num_cpus = wrong[i]));
        fails(crt_call(actor, &method_spin, notes), CRT_ERR_INVALID, "CPU");
        crt_actor_drop(&actor);
    }
    fails(crt_submit(&spin, CRT_TASK_OPTIONS(.num_gpus = 1.5), notes), CRT_ERR_INVALID,
          "GPU");
    fails(crt_submit(&spin, CRT_TASK_OPTIONS(.resources = "disk=1,disk=2"), notes),
          CRT_ERR_INVALID, "disk");
    assert_int_equal(notes_in(notes), 0);
}

static int driver(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, notes_begin, notes_end)
    const struct CMUnitTest tests[] = {
        TEST(a_task_whose_worker_dies_is_run_three_times_more),
        TEST(without_retries_it_runs_once),
        TEST(an_error_that_was_named_makes_a_task_run_again),
        TEST(any_other_error_does_not),
        TEST(all_errors_do_when_that_is_asked_for),
        TEST(an_argument_that_failed_with_it_is_no_reason),
        TEST(a_method_is_made_again_for_errors_that_its_call_names),
        TEST(a_call_may_be_made_again_more_often_than_its_actor_says),
        TEST(a_task_that_takes_too_long_is_cancelled),
        TEST(its_caller_does_not_wait_for_one_that_does_not_listen),
        TEST(a_task_that_waits_for_too_long_never_runs),
        TEST(one_that_is_in_time_is_left_alone),
        TEST(a_method_that_takes_too_long_is_cancelled_and_the_next_one_runs),
        TEST(a_call_fails_by_its_name),
        TEST(a_worker_ends_after_so_many_calls_and_nothing_is_lost),
        TEST(its_objects_live_as_long_as_somebody_has_them),
        TEST(bad_options_are_refused_by_name),
        TEST(amounts_that_can_not_be_are_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&fragile),
                                .tasks = CRT_TASKS(&fail_task, &die_task, &spin,
                                                   &sleep_task, &few_calls, &own_once),
                                .num_cpus = 2, .object_store_memory = 32 << 20),
                    driver);
}
