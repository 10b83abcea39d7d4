/* SPDX-License-Identifier: Apache-2.0 */
/* Chains that are longer than any stack is deep: tasks that wait for each other, lists in lists. */
#include <crt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ok.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/refs/refs_int.h"

#include <cmocka.h>

#define LONG        100000
#define PATIENCE_MS 120000

static crt_status_t add_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number + 1);
}
static const crt_task_t add = CRT_TASK(.name = "add", .run = add_run, .signature = "int");

static crt_status_t bad_run(crt_call_t *call)
{
    return crt_fail(call, CRT_ERR_USER, "no luck");
}
static const crt_task_t bad = CRT_TASK(.name = "bad", .run = bad_run, .signature = "");

/* Each takes the result of the one before. Takes `first`. */
static crt_ref_t *chain(crt_ref_t *first, int length)
{
    crt_ref_t *last = first;

    for (int i = 0; i < length; i++) {
        crt_ref_t *next = crt_submit(&add, NULL, last);

        crt_ref_drop(&last);
        last = next;
    }
    return last;
}

/* A list with a ref to a list with a ref to ... 0. */
static crt_ref_t *lists(int depth)
{
    crt_ref_t *outer = crt_put(0);

    for (int i = 0; i < depth; i++) {
        crt_arg_t items[] = {CRT_ARG(outer)};
        crt_ref_t *next = crt_put(crt_list(items, 1));

        crt_ref_drop(&outer);
        outer = next;
    }
    return outer;
}

/* How deep it is. Everything is read by the hold on the outermost one. */
static int64_t depth_of(crt_ref_t *outer)
{
    const crt_value_t *value;
    int64_t depth = 0;

    for (crt_ref_t *ref = outer;; depth++) {
        OK(crt_get_for(ref, PATIENCE_MS, &value));
        if (crt_value_count(value) == 0)
            return depth;
        OK(crt_value_read(crt_value_at(value, 0), &ref));
    }
}

/* A chain of its own tasks. */
static crt_status_t climb_run(crt_call_t *call)
{
    int64_t length, sum;
    crt_ref_t *last;
    crt_status_t status;

    CRT_TRY(crt_args(call, &length));
    last = chain(crt_put(0), (int)length);
    status = crt_get(last, &sum);
    crt_ref_drop(&last);
    return status == CRT_OK ? crt_return(call, sum) : status;
}
static const crt_task_t climb =
    CRT_TASK(.name = "climb", .run = climb_run, .signature = "int");

/* Reads a list of another process to its end. */
static crt_status_t read_run(crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    return crt_return(call, depth_of(ref));
}
static const crt_task_t read_all =
    CRT_TASK(.name = "read", .run = read_run, .signature = "list");

static size_t owned(void)
{
    crti_core_t *core = crti_enter();
    size_t count = core->refs->owned.count;

    crti_leave(core);
    return count;
}

/* ---------------------------------------------------------------- tests */

static void a_failure_goes_through_a_long_chain_of_tasks(void **state)
{
    crt_ref_t *last = chain(crt_submit(&bad, NULL), LONG);

    assert_int_equal(crt_get_for(last, PATIENCE_MS, NULL), CRT_ERR_USER);
    assert_string_equal(crt_error_detail(), "no luck");
    crt_ref_drop(&last);
}

static void a_task_waits_for_a_long_chain_of_its_own(void **state)
{
    int64_t length = LONG / 2, sum;
    crt_ref_t *result = crt_submit(&climb, NULL, length);

    OK(crt_get_for(result, PATIENCE_MS, &sum));
    assert_int_equal(sum, length);
    crt_ref_drop(&result);
}

static void lists_in_lists_are_freed_however_deep(void **state)
{
    size_t before = owned();
    crt_ref_t *outer = lists(LONG);

    assert_int_equal(owned(), before + LONG + 1);
    crt_ref_drop(&outer);
    assert_int_equal(owned(), before);
}

static void lists_in_lists_that_were_read_are_freed_however_deep(void **state)
{
    size_t before = owned();
    crt_ref_t *outer = lists(LONG);

    assert_int_equal(depth_of(outer), LONG);
    crt_ref_drop(&outer);
    assert_int_equal(owned(), before);
}

static void lists_in_lists_of_another_process_are_let_go_of_however_deep(void **state)
{
    crt_ref_t *outer = lists(LONG);
    crt_arg_t items[] = {CRT_ARG(outer)};
    crt_ref_t *result = crt_submit(&read_all, NULL, crt_list(items, 1));
    int64_t depth;

    OK(crt_get_for(result, PATIENCE_MS, &depth));
    assert_int_equal(depth, LONG);
    crt_ref_drop(&result);
    crt_ref_drop(&outer);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_goes_through_a_long_chain_of_tasks),
        cmocka_unit_test(a_task_waits_for_a_long_chain_of_its_own),
        cmocka_unit_test(lists_in_lists_are_freed_however_deep),
        cmocka_unit_test(lists_in_lists_that_were_read_are_freed_however_deep),
        cmocka_unit_test(lists_in_lists_of_another_process_are_let_go_of_however_deep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&add, &bad, &climb, &read_all)),
                    driver);
}
