/* SPDX-License-Identifier: Apache-2.0 */
/* crt_cancel: what has not begun never runs, what runs ends, by itself or by force, with what it
 * has started. What ran is told by bytes of a file. */
#include <fcntl.h>
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
#define QUEUED      10000

static char directory[] = "/tmp/crt-cancel-XXXXXX";

/* ---------------------------------------------------------------- in the workers */

/* Computes until it is told to end. */
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

/* Never listens. */
static crt_status_t deaf_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    note(path, 'b');
    for (;;)
        pause();
}
static const crt_task_t deaf =
    CRT_TASK(.name = "deaf", .run = deaf_run, .signature = "string");

/* Its whole process stands still: not even the runtime in it answers. */
static crt_status_t stop_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    note(path, 's');
    raise(SIGSTOP);
    return crt_return(call, 1);
}
static const crt_task_t stop =
    CRT_TASK(.name = "stop", .run = stop_run, .signature = "string");

/* Its worker dies when it is told. */
static crt_status_t die_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    note(path, 's');
    while (!crt_cancelled(call))
        usleep(1000);
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_task_t die =
    CRT_TASK(.name = "die", .run = die_run, .signature = "string");

static crt_status_t note_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    note(path, 'n');
    return crt_return(call, notes_in(path));
}
static const crt_task_t note_task =
    CRT_TASK(.name = "note", .run = note_run, .signature = "string");

static crt_status_t count_run(crt_call_t *call)
{
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    return crt_return(call, count);
}
static const crt_task_t count_task =
    CRT_TASK(.name = "count", .run = count_run, .signature = "int");

/* A list with the ref of a call of its own. */
static crt_status_t lend_run(crt_call_t *call)
{
    crt_ref_t *ref = crt_submit(&count_task, NULL, 5);
    crt_arg_t item = crt_arg_ref(ref);
    crt_status_t status = crt_return(call, crt_list(&item, 1));

    crt_ref_drop(&ref);
    return status;
}
static const crt_task_t lend = CRT_TASK(.name = "lend", .run = lend_run, .signature = "");

/* Two results. */
static crt_status_t note_two_run(crt_call_t *call)
{
    CRT_TRY(note_run(call));
    return crt_return_at(call, 1, 2);
}
static const crt_task_t note_two =
    CRT_TASK(.name = "note_two", .run = note_two_run, .signature = "string");

/* Waits for a task that does not end; says what the wait came to. */
static crt_status_t parent_run(crt_call_t *call)
{
    const char *path, *said;
    char mine[300];
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &path, &said));
    note(path, 'p');
    ref = crt_submit(&spin, CRT_TASK_OPTIONS(.num_cpus = 0.1), path);
    status = crt_get(ref, NULL);
    snprintf(mine, sizeof(mine), "%s", said);
    note(mine, status == CRT_ERR_CANCELLED ? 'c' : '?');
    crt_ref_drop(&ref);
    return crt_return(call, 2);
}
static const crt_task_t parent =
    CRT_TASK(.name = "parent", .run = parent_run, .signature = "string, string");

static crt_status_t method_run(void *self, crt_call_t *call)
{
    return spin_run(call);
}
static crt_status_t quick_run(void *self, crt_call_t *call)
{
    return note_run(call);
}
static const crt_method_t slow =
    CRT_METHOD(.name = "slow", .run = method_run, .signature = "string");
static const crt_method_t quick =
    CRT_METHOD(.name = "quick", .run = quick_run, .signature = "string");
static const crt_actor_class_t patient =
    CRT_ACTOR_CLASS(.name = "Patient", .methods = CRT_METHODS(&slow, &quick));

/* ---------------------------------------------------------------- in the tests */

static const char *path_of(const char *name)
{
    static char paths[8][300];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, 300, "%s/%s", directory, name);
    return path;
}

static double ms_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void gets_cancelled(crt_ref_t **ref)
{
    crt_status_t status = crt_get_for(*ref, PATIENCE_MS, NULL);

    if (status != CRT_ERR_CANCELLED)
        print_error("%s: %s\n", crt_status_text(status), crt_error_detail());
    assert_int_equal(status, CRT_ERR_CANCELLED);
    crt_ref_drop(ref);
}

/* All CPUs are free again: so many workers' worth of tasks run at once. */
static void all_is_well(void)
{
    crt_ref_t *refs[2];
    const char *path = path_of("well");
    int64_t before = notes_in(path), count;

    for (int i = 0; i < 2; i++)
        refs[i] = crt_submit(&note_task, NULL, path);
    for (int i = 0; i < 2; i++) {
        OK(crt_get_for(refs[i], PATIENCE_MS, &count));
        crt_ref_drop(&refs[i]);
    }
    assert_int_equal(notes_in(path), before + 2);
}

static void a_running_task_is_told_and_its_result_is_cancelled(void **state)
{
    const char *path = path_of("told");
    crt_ref_t *ref = crt_submit(&spin, NULL, path);

    wait_for_notes(path, 1);
    OK(crt_cancel(ref, NULL));
    OK(crt_cancel(ref, NULL)); /* again */
    gets_cancelled(&ref);
    assert_int_equal(notes_in(path), 2); /* it came to its end */
    all_is_well();
}

static void a_queued_task_never_runs(void **state)
{
    const char *path = path_of("queued"), *blocked = path_of("blockers");
    crt_ref_t *blockers[2], **refs = calloc(QUEUED, sizeof(crt_ref_t *));
    double start;

    for (int i = 0; i < 2; i++)
        blockers[i] = crt_submit(&spin, NULL, blocked);
    wait_for_notes(blocked, 2);
    for (int i = 0; i < QUEUED; i++)
        refs[i] = crt_submit(&note_task, NULL, path);
    start = ms_now();
    for (int i = 0; i < QUEUED; i++)
        OK(crt_cancel(refs[i], NULL));
    print_message("%d queued tasks cancelled in %.1f ms\n", QUEUED, ms_now() - start);
    for (int i = 0; i < QUEUED; i++)
        gets_cancelled(&refs[i]);
    for (int i = 0; i < 2; i++) {
        OK(crt_cancel(blockers[i], NULL));
        gets_cancelled(&blockers[i]);
    }
    all_is_well();
    assert_int_equal(notes_in(path), 0);
    free(refs);
}

static void a_task_that_waits_for_its_arguments_never_runs(void **state)
{
    const char *path = path_of("arguments"), *other = path_of("arguments-of");
    crt_ref_t *first = crt_submit(&spin, NULL, path);
    crt_ref_t *second = crt_submit(&note_task, NULL, first);

    wait_for_notes(path, 1);
    OK(crt_cancel(second, NULL));
    gets_cancelled(&second);
    second = crt_submit(&note_task, NULL, first); /* its argument's failure is its own */
    OK(crt_cancel(first, NULL));
    gets_cancelled(&first);
    gets_cancelled(&second);
    assert_int_equal(notes_in(other), 0);
}

/* Two CPUs that are taken until end_blockers. */
static void start_blockers(crt_ref_t **blockers, const char *path)
{
    for (int i = 0; i < 2; i++)
        blockers[i] = crt_submit(&spin, NULL, path);
    wait_for_notes(path, 2);
}

static void end_blockers(crt_ref_t **blockers)
{
    for (int i = 0; i < 2; i++) {
        OK(crt_cancel(blockers[i], NULL));
        gets_cancelled(&blockers[i]);
    }
}

static void a_queued_task_whose_only_ref_is_dropped_never_runs(void **state)
{
    const char *path = path_of("dropped");
    crt_ref_t *blockers[2], **refs = calloc(QUEUED, sizeof(crt_ref_t *)), *waiting;

    start_blockers(blockers, path_of("dropped-behind"));
    for (int i = 0; i < QUEUED; i++)
        refs[i] = crt_submit(&note_task, NULL, path);
    waiting = crt_submit(&note_task, NULL, blockers[0]); /* ... for its argument */
    crt_ref_drop(&waiting);
    crt_refs_drop(refs, QUEUED);
    end_blockers(blockers);
    all_is_well();
    assert_int_equal(notes_in(path), 0);
    free(refs);
}

static void a_queued_task_runs_while_anything_needs_one_of_its_results(void **state)
{
    const char *kept = path_of("kept"), *passed = path_of("passed"),
               *one = path_of("one");
    crt_ref_t *blockers[2], *ref, *again, *next, *both[2];
    int64_t count;

    start_blockers(blockers, path_of("needed-behind"));
    ref = crt_submit(&note_task, NULL, kept);
    again = crt_ref_keep(ref);
    crt_ref_drop(&ref); /* there is another handle */
    ref = crt_submit(&note_task, NULL, passed);
    next = crt_submit(&count_task, NULL, ref);
    crt_ref_drop(&ref); /* it is an argument */
    crt_submit_returns(both, 2, &note_two, NULL, one);
    crt_ref_drop(&both[0]); /* there is another result */
    end_blockers(blockers);
    OK(crt_get_for(again, PATIENCE_MS, &count));
    OK(crt_get_for(next, PATIENCE_MS, &count));
    assert_int_equal(count, 1);
    OK(crt_get_for(both[1], PATIENCE_MS, &count));
    crt_ref_drop(&again);
    crt_ref_drop(&next);
    crt_ref_drop(&both[1]);
    assert_int_equal(notes_in(kept) + notes_in(passed) + notes_in(one), 3);
}

static void by_force_a_worker_ends_and_nothing_else_with_it(void **state)
{
    enum { BEHIND = 20 };
    const char *path = path_of("force"), *behind = path_of("behind");
    crt_ref_t *refs[BEHIND], *ref = crt_submit(&deaf, NULL, path), *other;
    double start;
    int64_t count;

    wait_for_notes(path, 1);
    other = crt_submit(&deaf, NULL, path); /* the second CPU */
    for (int i = 0; i < BEHIND; i++)
        refs[i] = crt_submit(&note_task, NULL, behind);
    wait_for_notes(path, 2);
    start = ms_now();
    OK(crt_cancel(ref, CRT_CANCEL_OPTIONS(.force = true)));
    gets_cancelled(&ref);
    print_message("by force in %.1f ms\n", ms_now() - start);
    for (int i = 0; i < BEHIND; i++) {
        OK(crt_get_for(refs[i], PATIENCE_MS, &count));
        crt_ref_drop(&refs[i]);
    }
    assert_int_equal(notes_in(behind), BEHIND); /* each ran once */
    OK(crt_cancel(other, NULL));                /* in vain: it does not listen */
    OK(crt_cancel(other, CRT_CANCEL_OPTIONS(.force = true)));
    gets_cancelled(&other);
    all_is_well();
}

/* Short tasks go to a worker many at a time: those behind one that stands still are there with
 * it. */
static void by_force_a_stopped_worker_ends_and_what_is_behind_runs_elsewhere(void **state)
{
    enum { SHORT = 500, BEHIND = 200 };
    const char *path = path_of("stopped"), *behind = path_of("stopped-behind");
    crt_ref_t *refs[SHORT], *stopped;
    int64_t count;

    for (int i = 0; i < SHORT; i++)
        refs[i] = crt_submit(&count_task, NULL, i);
    for (int i = 0; i < SHORT; i++) {
        OK(crt_get_for(refs[i], PATIENCE_MS, &count));
        crt_ref_drop(&refs[i]);
    }
    stopped = crt_submit(&stop, NULL, path);
    for (int i = 0; i < BEHIND; i++)
        refs[i] = crt_submit(&note_task, NULL, behind);
    wait_for_notes(path, 1);
    OK(crt_cancel(stopped, CRT_CANCEL_OPTIONS(.force = true)));
    for (int i = 0; i < BEHIND; i++) {
        OK(crt_get_for(refs[i], PATIENCE_MS, &count));
        crt_ref_drop(&refs[i]);
    }
    gets_cancelled(&stopped);
    assert_int_equal(notes_in(behind), BEHIND); /* each ran once */
    all_is_well();
}

static void a_cancelled_task_whose_worker_dies_says_both(void **state)
{
    const char *path = path_of("dies");
    crt_ref_t *ref = crt_submit(&die, NULL, path);

    wait_for_notes(path, 1);
    OK(crt_cancel(ref, NULL));
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_CANCELLED);
    assert_non_null(strstr(crt_error_detail(), "it was cancelled; then: "));
    assert_non_null(strstr(crt_error_detail(), "killed by signal 9"));
    crt_ref_drop(&ref);
    all_is_well();
}

static void children_end_with_their_parent_and_waits_inside_return(void **state)
{
    const char *path = path_of("family"), *said = path_of("family-said");
    crt_ref_t *ref = crt_submit(&parent, CRT_TASK_OPTIONS(.num_cpus = 0.1), path, said);

    wait_for_notes(path, 2); /* parent and child have begun */
    OK(crt_cancel(ref, NULL));
    gets_cancelled(&ref);
    wait_for_notes(path, 3); /* the child ended */
    wait_for_notes(said, 1);
    all_is_well();
}

static void calls_of_actors_are_cancelled_like_tasks_but_not_by_force(void **state)
{
    const char *path = path_of("actor"), *after = path_of("actor-after");
    crt_actor_t *actor = crt_actor_new(&patient, NULL);
    crt_ref_t *running = crt_call(actor, &slow, path);
    crt_ref_t *waiting = crt_call(actor, &quick, after);
    crt_ref_t *last = crt_call(actor, &quick, after);
    int64_t count = 0;

    wait_for_notes(path, 1);
    assert_int_equal(crt_cancel(running, CRT_CANCEL_OPTIONS(.force = true)),
                     CRT_ERR_INVALID);
    OK(crt_cancel(waiting, NULL));
    gets_cancelled(&waiting);
    OK(crt_cancel(running, NULL));
    gets_cancelled(&running);
    OK(crt_get_for(last, PATIENCE_MS, &count));
    assert_int_equal(count, 1); /* the one between has not run */
    crt_ref_drop(&last);
    OK(crt_actor_kill(actor, NULL));
    crt_actor_drop(&actor);
}

static void calls_to_an_actor_that_is_not_there_yet_are_cancelled(void **state)
{
    crt_actor_t *actor =
        crt_actor_new(&patient, CRT_ACTOR_OPTIONS(.resources = "never=1"));
    crt_ref_t *ref = crt_call(actor, &quick, path_of("nowhere"));

    OK(crt_cancel(ref, NULL));
    gets_cancelled(&ref);
    OK(crt_actor_kill(actor, NULL));
    crt_actor_drop(&actor);
}

static void what_can_not_be_cancelled_is_refused(void **state)
{
    const char *path = path_of("ended");
    crt_ref_t *ref = crt_submit(&note_task, NULL, path), *put = crt_put(7), *none = NULL;
    int64_t value;

    OK(crt_get(ref, &value));
    assert_int_equal(crt_cancel(ref, NULL), CRT_ERR_NOT_FOUND);
    OK(crt_get(ref, &value)); /* it has its result */
    assert_int_equal(crt_cancel(put, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_cancel(none, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_cancel(ref, &(crt_cancel_options_t){.force = true}),
                     CRT_ERR_INVALID);
    crt_ref_drop(&ref);
    crt_ref_drop(&put);
}

static void a_call_that_was_refused_has_ended(void **state)
{
    crt_ref_t *ref = crt_submit(&note_task, NULL, 7); /* it takes a text */

    assert_int_equal(crt_cancel(ref, NULL), CRT_ERR_NOT_FOUND);
    crt_ref_drop(&ref);
}

static void a_call_of_another_process_is_not_cancelled(void **state)
{
    crt_ref_t *list = crt_submit(&lend, NULL), *theirs;
    const crt_value_t *value;
    int64_t count;

    OK(crt_get(list, &value));
    OK(crt_value_read(crt_value_at(value, 0), &theirs));
    assert_int_equal(crt_cancel(theirs, NULL), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "another process made"));
    OK(crt_get(theirs, &count));
    assert_int_equal(count, 5);
    crt_ref_drop(&list);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_task_is_told_and_its_result_is_cancelled),
        cmocka_unit_test(a_queued_task_never_runs),
        cmocka_unit_test(a_queued_task_whose_only_ref_is_dropped_never_runs),
        cmocka_unit_test(a_queued_task_runs_while_anything_needs_one_of_its_results),
        cmocka_unit_test(a_task_that_waits_for_its_arguments_never_runs),
        cmocka_unit_test(by_force_a_worker_ends_and_nothing_else_with_it),
        cmocka_unit_test(
            by_force_a_stopped_worker_ends_and_what_is_behind_runs_elsewhere),
        cmocka_unit_test(a_cancelled_task_whose_worker_dies_says_both),
        cmocka_unit_test(children_end_with_their_parent_and_waits_inside_return),
        cmocka_unit_test(calls_of_actors_are_cancelled_like_tasks_but_not_by_force),
        cmocka_unit_test(calls_to_an_actor_that_is_not_there_yet_are_cancelled),
        cmocka_unit_test(what_can_not_be_cancelled_is_refused),
        cmocka_unit_test(a_call_that_was_refused_has_ended),
        cmocka_unit_test(a_call_of_another_process_is_not_cancelled),
    };
    char command[100];
    int failed;

    if (!mkdtemp(directory))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof(command), "rm -r %s", directory);
    return failed + (system(command) != 0);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&spin, &deaf, &stop, &die, &note_task, &parent,
                                       &lend, &count_task, &note_two),
                    .classes = CRT_CLASSES(&patient), .num_cpus = 2),
        driver);
}
