/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks far back in a long queue, which wait without a pending call: they run with their arguments,
 * in their order, and can be cancelled, dropped and given on like any other. What ran is told by
 * bytes of a file. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "notes.h"
#include "ok.h"

#define QUEUED      20000
#define FAR_BACK    15000 /* one of them */
#define PATIENCE_MS 60000

static char directory[] = "/tmp/crt-backlog-XXXXXX";

/* ---------------------------------------------------------------- in the workers */

/* Holds its processor until the file is there. */
static crt_status_t hold_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    wait_for_notes(path, 1);
    return CRT_OK;
}
static const crt_task_t hold =
    CRT_TASK(.name = "hold", .run = hold_run, .signature = "string");

static crt_status_t add_run(crt_call_t *call)
{
    int64_t a, b;

    CRT_TRY(crt_args(call, &a, &b));
    return crt_return(call, a + b);
}
static const crt_task_t add =
    CRT_TASK(.name = "add", .run = add_run, .signature = "int, int");

static crt_status_t note_run(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    note(path, 'n');
    return CRT_OK;
}
static const crt_task_t note_task =
    CRT_TASK(.name = "note", .run = note_run, .signature = "string");

/* Makes more tasks than can run, since it holds a processor and the driver the other one; waits. */
static crt_status_t parent_run(crt_call_t *call)
{
    const crt_task_options_t *nowhere = CRT_TASK_OPTIONS(.resources = "gate=1");
    static crt_ref_t *refs[QUEUED];
    const char *path, *ready;
    crt_status_t status;

    CRT_TRY(crt_args(call, &path, &ready));
    for (int i = 0; i < QUEUED; i++)
        refs[i] = crt_submit(&note_task, nowhere, path);
    note(ready, 'r');
    status = crt_get(refs[FAR_BACK], NULL);
    crt_refs_drop(refs, QUEUED);
    return status;
}
static const crt_task_t parent =
    CRT_TASK(.name = "parent", .run = parent_run, .signature = "string, string");

/* ---------------------------------------------------------------- the gate */

static crt_ref_t *holder;
static char gate[300];

/* The one that there is of "gate" is taken. */
static void close_gate(const char *name)
{
    snprintf(gate, sizeof(gate), "%s/%s", directory, name);
    holder = crt_submit(&hold, CRT_TASK_OPTIONS(.resources = "gate=1", .num_cpus = 0),
                        (const char *)gate);
}

static void open_gate(void)
{
    note(gate, 'o');
    OK(crt_get_for(holder, PATIENCE_MS, NULL));
    crt_ref_drop(&holder);
}

static const crt_task_options_t *gated(void)
{
    static crt_task_options_t options;

    options = *CRT_TASK_OPTIONS(.resources = "gate=1");
    return &options;
}

/* ---------------------------------------------------------------- tests */

static void they_run_with_their_arguments(void **state)
{
    static crt_ref_t *refs[QUEUED];
    crt_ref_t *put = crt_put(1000000);
    int64_t sum;

    close_gate("arguments");
    for (int i = 0; i < QUEUED; i++)
        refs[i] = crt_submit(&add, gated(), i, put);
    crt_ref_drop(&put); /* they hold it */
    open_gate();
    for (int i = 0; i < QUEUED; i++) {
        OK(crt_get_for(refs[i], PATIENCE_MS, &sum));
        assert_int_equal(sum, 1000000 + i);
    }
    crt_refs_drop(refs, QUEUED);
}

static void one_that_is_cancelled_or_dropped_never_runs(void **state)
{
    static crt_ref_t *refs[QUEUED];
    char path[300];

    snprintf(path, sizeof(path), "%s/ran", directory);
    close_gate("cancelled");
    for (int i = 0; i < QUEUED; i++)
        refs[i] = crt_submit(&note_task, gated(), (const char *)path);
    OK(crt_cancel(refs[FAR_BACK], NULL));
    assert_int_equal(crt_get_for(refs[FAR_BACK], PATIENCE_MS, NULL), CRT_ERR_CANCELLED);
    assert_int_equal(crt_cancel(refs[FAR_BACK], NULL), CRT_ERR_NOT_FOUND);
    crt_ref_drop(&refs[FAR_BACK - 1]);
    crt_ref_drop(&refs[QUEUED - 1]);
    open_gate();
    for (int i = 0; i < QUEUED; i++)
        if (refs[i] && i != FAR_BACK)
            OK(crt_get_for(refs[i], PATIENCE_MS, NULL));
    assert_int_equal(notes_in(path), QUEUED - 3);
    for (int i = 0; i < QUEUED; i++)
        if (refs[i])
            crt_ref_drop(&refs[i]);
}

static void one_whose_result_another_task_needs_runs(void **state)
{
    static crt_ref_t *refs[QUEUED];
    crt_ref_t *after;
    int64_t sum;

    close_gate("needed");
    for (int i = 0; i < QUEUED; i++)
        refs[i] = crt_submit(&add, gated(), i, 0);
    after = crt_submit(&add, NULL, refs[FAR_BACK], 1);
    crt_refs_drop(refs, QUEUED); /* all others are let go */
    open_gate();
    OK(crt_get_for(after, PATIENCE_MS, &sum));
    assert_int_equal(sum, FAR_BACK + 1);
    crt_ref_drop(&after);
}

static void children_are_cancelled_with_their_parent(void **state)
{
    char path[300], ready[300];
    crt_ref_t *ref;

    snprintf(path, sizeof(path), "%s/children", directory);
    snprintf(ready, sizeof(ready), "%s/ready", directory);
    close_gate("parent");
    ref = crt_submit(&parent, NULL, (const char *)path, (const char *)ready);
    wait_for_notes(ready, 1);
    OK(crt_cancel(ref, NULL));
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_CANCELLED);
    crt_ref_drop(&ref);
    open_gate();
    ref = crt_submit(&add, gated(), 1, 2);
    OK(crt_get_for(ref, PATIENCE_MS, NULL));
    crt_ref_drop(&ref);
    assert_int_equal(notes_in(path), 0);
}

static void they_fail_when_the_program_ends_the_runtime(void **state)
{
    static crt_ref_t *refs[QUEUED];

    close_gate("end");
    for (int i = 0; i < QUEUED; i++)
        refs[i] = crt_submit(&add, gated(), i, 0);
    crt_shutdown();
    assert_int_not_equal(crt_get(refs[FAR_BACK], NULL), CRT_OK);
    assert_int_equal(crt_get(refs[FAR_BACK], NULL), crt_get(refs[0], NULL));
    crt_refs_drop(refs, QUEUED);
    crt_ref_drop(&holder);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_run_with_their_arguments),
        cmocka_unit_test(one_that_is_cancelled_or_dropped_never_runs),
        cmocka_unit_test(one_whose_result_another_task_needs_runs),
        cmocka_unit_test(children_are_cancelled_with_their_parent),
        cmocka_unit_test(they_fail_when_the_program_ends_the_runtime),
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
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&hold, &add, &note_task, &parent),
                                .num_cpus = 2, .resources = "gate=1"),
                    driver);
}
