/* SPDX-License-Identifier: Apache-2.0 */
/* What crt_cluster_state("tasks") tells of calls: where each is, where it ran, why it failed; also
 * of workers that are dead. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>
#include <jansson.h>

#include <cmocka.h>

#include "ok.h"

#define PATIENCE_S 30

/* ---------------------------------------------------------------- in the workers */

static crt_status_t sleepy_run(crt_call_t *call)
{
    while (!crt_cancelled(call))
        usleep(1000);
    return CRT_OK;
}
static const crt_task_t sleepy =
    CRT_TASK(.name = "sleepy", .run = sleepy_run, .signature = "");

static crt_status_t small_run(crt_call_t *call)
{
    return crt_return(call, 1);
}
static const crt_task_t small = CRT_TASK(.name = "small", .run = small_run);

static crt_status_t wrong_run(crt_call_t *call)
{
    return crt_fail(call, CRT_ERR_USER, "the \"left\" side is\n%d", 3);
}
static const crt_task_t wrong =
    CRT_TASK(.name = "wrong", .run = wrong_run, .signature = "");

/* Calls another task. */
static crt_status_t outer_run(crt_call_t *call)
{
    crt_ref_t *ref = crt_submit(&small, NULL);
    crt_status_t status = crt_get(ref, NULL);

    crt_ref_drop(&ref);
    return status;
}
static const crt_task_t outer =
    CRT_TASK(.name = "outer", .run = outer_run, .signature = "");

static crt_status_t die_run(void *self, crt_call_t *call)
{
    raise(SIGKILL);
    return CRT_OK;
}
static crt_status_t add_run(void *self, crt_call_t *call)
{
    return crt_return(call, 1);
}
static const crt_method_t mortal_die =
    CRT_METHOD(.name = "die", .run = die_run, .signature = "");
static const crt_method_t mortal_add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "");
static const crt_actor_class_t mortal =
    CRT_ACTOR_CLASS(.name = "Mortal", .size = 8,
                    .methods = CRT_METHODS(&mortal_die, &mortal_add));

/* ---------------------------------------------------------------- what is told */

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));

    return text ? text : "";
}

static json_t *ask(void)
{
    char *text;
    json_t *all;

    OK(crt_cluster_state("tasks", &text));
    all = json_loads(text, 0, NULL);
    assert_non_null(all);
    free(text);
    return all;
}

/* The newest of that name; waits until it is in `state`. Caller drops it. */
static json_t *task_in(const char *name, const char *state)
{
    time_t end = time(NULL) + PATIENCE_S;
    json_t *row, *found;
    size_t i;

    for (;;) {
        json_t *all = ask();

        found = NULL;
        json_array_foreach(json_object_get(all, "tasks"), i, row)
        {
            if (strcmp(text_of(row, "name"), name) != 0)
                continue;
            found = json_incref(row);
            break;
        }
        json_decref(all);
        if (found && strcmp(text_of(found, "state"), state) == 0)
            return found;
        if (time(NULL) > end)
            fail_msg("%s is %s, not %s", name,
                     found ? text_of(found, "state") : "unknown", state);
        json_decref(found);
        usleep(10000);
    }
}

static double at(const json_t *row, const char *state)
{
    return json_number_value(json_object_get(json_object_get(row, "events"), state));
}

/* ---------------------------------------------------------------- tests */

static void a_task_is_followed_from_its_arguments_to_its_end(void **state)
{
    crt_ref_t *first = crt_submit(&sleepy, NULL);
    crt_ref_t *second = crt_submit(&small, NULL, first);
    json_t *row = task_in("sleepy", "RUNNING");

    assert_int_equal(strlen(text_of(row, "task_id")), 48);
    assert_int_equal(strlen(text_of(row, "worker_id")), 32);
    assert_int_equal(strlen(text_of(row, "node_id")), 32);
    assert_int_equal(strlen(text_of(row, "job_id")), 32);
    assert_string_equal(text_of(row, "type"), "NORMAL_TASK");
    assert_int_equal(
        kill((pid_t)json_integer_value(json_object_get(row, "worker_pid")), 0), 0);
    assert_true(at(row, "PENDING_ARGS_AVAIL") > 0);
    assert_true(at(row, "RUNNING") >= at(row, "PENDING_ARGS_AVAIL"));
    assert_true(json_is_null(json_object_get(row, "end_time")));
    json_decref(row);
    json_decref(task_in("small", "PENDING_ARGS_AVAIL"));
    OK(crt_cancel(first, NULL));
    row = task_in("sleepy", "FAILED");
    assert_string_equal(text_of(row, "error_type"), "CRT_ERR_CANCELLED");
    assert_true(json_number_value(json_object_get(row, "end_time")) >
                json_number_value(json_object_get(row, "start_time")));
    json_decref(row);
    row = task_in("small", "FAILED"); /* its argument did */
    assert_true(json_is_null(json_object_get(row, "start_time")));
    json_decref(row);
    crt_ref_drop(&first);
    crt_ref_drop(&second);
}

static void a_failure_is_told_with_its_reason(void **state)
{
    crt_ref_t *ref = crt_submit(&wrong, NULL);
    json_t *row;

    assert_int_equal(crt_get(ref, NULL), CRT_ERR_USER);
    row = task_in("wrong", "FAILED");
    assert_string_equal(text_of(row, "error_type"), "CRT_ERR_USER");
    assert_non_null(strstr(text_of(row, "error_message"), "the \"left\" side is?3"));
    json_decref(row);
    crt_ref_drop(&ref);
}

static void a_call_made_by_a_task_names_it(void **state)
{
    crt_ref_t *ref = crt_submit(&outer, NULL);
    json_t *row, *inner;

    OK(crt_get(ref, NULL));
    row = task_in("outer", "FINISHED");
    inner = task_in("small", "FINISHED");
    assert_string_equal(text_of(inner, "parent_task_id"), text_of(row, "task_id"));
    json_decref(row);
    json_decref(inner);
    crt_ref_drop(&ref);
}

static void what_a_dead_worker_did_is_still_told(void **state)
{
    crt_actor_t *actor = crt_actor_new(&mortal, NULL);
    crt_ref_t *added = crt_call(actor, &mortal_add), *died;
    json_t *row;

    OK(crt_get(added, NULL));
    died = crt_call(actor, &mortal_die);
    assert_int_equal(crt_get(died, NULL), CRT_ERR_ACTOR_DIED);
    row = task_in("Mortal.die", "FAILED");
    assert_string_equal(text_of(row, "error_type"), "CRT_ERR_ACTOR_DIED");
    assert_true(at(row, "RUNNING") > 0); /* only the worker knew that */
    json_decref(row);
    row = task_in("Mortal.create", "FINISHED"); /* of which nobody else knew */
    assert_string_equal(text_of(row, "type"), "ACTOR_CREATION_TASK");
    json_decref(row);
    row = task_in("Mortal.add", "FINISHED");
    assert_string_equal(text_of(row, "type"), "ACTOR_TASK");
    assert_int_equal(strlen(text_of(row, "actor_id")), 32);
    json_decref(row);
    crt_ref_drop(&added);
    crt_ref_drop(&died);
    crt_actor_drop(&actor);
}

static void attempts_are_told_one_by_one(void **state)
{
    crt_actor_t *actor = crt_actor_new(
        &mortal, CRT_ACTOR_OPTIONS(.max_restarts = 1, .max_task_retries = 1));
    crt_ref_t *died;
    json_t *all, *row;
    size_t i;
    unsigned attempts = 0;

    OK(crt_actor_ready(actor, -1));
    died = crt_call(actor, &mortal_die);
    assert_int_equal(crt_get(died, NULL), CRT_ERR_ACTOR_DIED);
    json_decref(task_in("Mortal.die", "FAILED"));
    all = ask();
    json_array_foreach(json_object_get(all, "tasks"), i, row)
    {
        int64_t attempt = json_integer_value(json_object_get(row, "attempt_number"));

        if (strcmp(text_of(row, "name"), "Mortal.die") == 0 && attempt < 2)
            attempts |= 1u << attempt;
    }
    assert_int_equal(attempts, 3);
    json_decref(all);
    crt_ref_drop(&died);
    crt_actor_drop(&actor);
}

static void more_calls_than_are_kept_are_counted(void **state)
{
    crt_ref_t *refs[500];
    json_t *all;

    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 500; i++)
            refs[i] = crt_submit(&small, NULL);
        for (int i = 0; i < 500; i++)
            OK(crt_get(refs[i], NULL));
        crt_refs_drop(refs, 500);
    }
    all = ask();
    assert_in_range(json_array_size(json_object_get(all, "tasks")), 1000, 10000);
    assert_true(json_integer_value(json_object_get(all, "dropped")) > 1000);
    assert_int_equal(json_integer_value(json_object_get(all, "silent_nodes")), 0);
    json_decref(all);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_followed_from_its_arguments_to_its_end),
        cmocka_unit_test(a_failure_is_told_with_its_reason),
        cmocka_unit_test(a_call_made_by_a_task_names_it),
        cmocka_unit_test(what_a_dead_worker_did_is_still_told),
        cmocka_unit_test(attempts_are_told_one_by_one),
        cmocka_unit_test(more_calls_than_are_kept_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&sleepy, &small, &wrong, &outer),
                                .classes = CRT_CLASSES(&mortal), .num_cpus = 2),
                    driver);
}
