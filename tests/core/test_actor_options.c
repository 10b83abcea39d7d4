/* SPDX-License-Identifier: Apache-2.0 */
/* Options of actors that concern their callers: get_if_exists, max_pending_calls; and the end that
 * an actor makes itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define PATIENCE_MS 60000
#define AT_ONCE     8

/* ---------------------------------------------------------------- in the workers */

typedef struct counter {
    int64_t count;
} counter_t;

static crt_status_t create_run(void *self, crt_call_t *call)
{
    return crt_arg_at(call, 0, &((counter_t *)self)->count);
}

static crt_status_t add_run(void *self, crt_call_t *call)
{
    return crt_return(call, ++((counter_t *)self)->count);
}

/* Until it is cancelled. */
static crt_status_t hold_run(void *self, crt_call_t *call)
{
    while (!crt_cancelled(call))
        usleep(1000);
    return CRT_OK;
}

static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "");
static const crt_method_t hold =
    CRT_METHOD(.name = "hold", .run = hold_run, .signature = "");
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(counter_t), .create = create_run,
                    .signature = "int", .methods = CRT_METHODS(&add, &hold));
static const crt_actor_class_t other = CRT_ACTOR_CLASS(.name = "Other");

static crt_status_t leave_run(void *self, crt_call_t *call)
{
    CRT_TRY(crt_actor_exit(call));
    CRT_TRY(crt_actor_exit(call)); /* again */
    usleep(20000);                 /* the others queue behind it */
    return crt_return(call, 77);
}
static const crt_method_t leave =
    CRT_METHOD(.name = "leave", .run = leave_run, .signature = "");

static void leaver_destroy(void *self)
{
    printf("destroyed in order\n");
}
static const crt_actor_class_t leaver =
    CRT_ACTOR_CLASS(.name = "Leaver", .size = sizeof(counter_t),
                    .destroy = leaver_destroy, .methods = CRT_METHODS(&leave, &add));

static crt_status_t leave_task_run(crt_call_t *call)
{
    return crt_actor_exit(call);
}
static const crt_task_t leave_task =
    CRT_TASK(.name = "leave_task", .run = leave_task_run);

/* The id of the actor of that name, which many tasks ask for at once. */
static crt_status_t share_run(crt_call_t *call)
{
    crt_actor_t *actor;
    const char *name;
    crt_status_t status;

    CRT_TRY(crt_args(call, &name));
    actor = crt_actor_new(
        &counter,
        CRT_ACTOR_OPTIONS(.name = name, .detached = true, .get_if_exists = true), 0);
    status = crt_actor_ready(actor, PATIENCE_MS);
    if (status == CRT_OK)
        status = crt_return(call, crt_actor_id(actor));
    crt_actor_drop(&actor);
    return status;
}
static const crt_task_t share =
    CRT_TASK(.name = "share", .run = share_run, .signature = "string");

/* Makes calls by a handle that came as an argument: how many were made, and what became of one
 * more. */
static crt_status_t flood_run(crt_call_t *call)
{
    crt_ref_t *refs[3];
    crt_actor_t *actor;
    crt_status_t last;

    CRT_TRY(crt_args(call, &actor));
    for (int i = 0; i < 3; i++)
        refs[i] = crt_call(actor, &hold);
    last = crt_ref_error(refs[2]) ? crt_ref_error(refs[2])->status : CRT_OK;
    for (int i = 0; i < 3; i++) {
        crt_cancel(refs[i], NULL);
        crt_ref_drop(&refs[i]);
    }
    return crt_return(call, (int64_t)last);
}
static const crt_task_t flood =
    CRT_TASK(.name = "flood", .run = flood_run, .signature = "actor");

/* ---------------------------------------------------------------- in the tests */

static int64_t result(crt_ref_t *ref)
{
    int64_t value = -1;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

static void end(crt_actor_t *actor)
{
    OK(crt_actor_kill(actor, NULL));
    crt_actor_drop(&actor);
}

static void fails(crt_ref_t *ref, crt_status_t status, const char *text)
{
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), status);
    if (!strstr(crt_error_detail(), text))
        fail_msg("\"%s\" has no \"%s\"", crt_error_detail(), text);
    crt_ref_drop(&ref);
}

static void the_actor_that_exists_is_given_with_its_state(void **state)
{
    const crt_actor_options_t *options =
        CRT_ACTOR_OPTIONS(.name = "one", .get_if_exists = true);
    crt_actor_t *first = crt_actor_new(&counter, options, 10), *second;

    assert_int_equal(result(crt_call(first, &add)), 11);
    second = crt_actor_new(&counter, options, 500);
    assert_string_equal(crt_actor_id(first), crt_actor_id(second));
    assert_int_equal(result(crt_call(second, &add)), 12);
    crt_actor_drop(&second);
    assert_int_equal(result(crt_call(first, &add)), 13);
    end(first);
    /* It has ended: another one is made. */
    second = crt_actor_new(&counter, options, 500);
    assert_int_equal(result(crt_call(second, &add)), 501);
    end(second);
}

static void of_many_that_ask_at_once_all_get_the_same(void **state)
{
    char ids[AT_ONCE][40];
    crt_ref_t *refs[AT_ONCE];
    crt_actor_t *actor;
    const char *id;

    for (int round = 0; round < 5; round++) {
        char name[20];

        snprintf(name, sizeof(name), "shared-%d", round);
        for (int i = 0; i < AT_ONCE; i++)
            refs[i] =
                crt_submit(&share, CRT_TASK_OPTIONS(.num_cpus = 0.1), (const char *)name);
        for (int i = 0; i < AT_ONCE; i++) {
            OK(crt_get_for(refs[i], PATIENCE_MS, &id));
            snprintf(ids[i], sizeof(ids[i]), "%s", id);
            assert_string_equal(ids[i], ids[0]);
            crt_ref_drop(&refs[i]);
        }
        OK(crt_actor_find(name, NULL, &counter, &actor));
        assert_string_equal(crt_actor_id(actor), ids[0]);
        end(actor);
    }
}

static void what_can_not_be_shared_is_refused(void **state)
{
    crt_actor_t *actor =
                    crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.get_if_exists = true), 0),
                *one;

    fails(crt_call(actor, &add), CRT_ERR_INVALID, "get_if_exists needs a name");
    crt_actor_drop(&actor);
    one = crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.name = "typed"), 0);
    OK(crt_actor_ready(one, PATIENCE_MS));
    actor =
        crt_actor_new(&other, CRT_ACTOR_OPTIONS(.name = "typed", .get_if_exists = true));
    assert_int_equal(crt_actor_ready(actor, PATIENCE_MS), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "is of class Counter, not Other"));
    crt_actor_drop(&actor);
    /* Without the option the name is taken, as before. */
    actor = crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.name = "typed"), 0);
    assert_int_equal(crt_actor_ready(actor, PATIENCE_MS), CRT_ERR_EXISTS);
    crt_actor_drop(&actor);
    end(one);
}

static void one_call_too_many_is_refused_and_not_made(void **state)
{
    crt_actor_t *actor =
        crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.max_pending_calls = 2), 0);
    crt_ref_t *first = crt_call(actor, &hold), *second = crt_call(actor, &add);

    fails(crt_call(actor, &add), CRT_ERR_BACKPRESSURE,
          "2 calls of this process that were not answered");
    assert_int_equal(crt_tell(actor, &add), CRT_ERR_BACKPRESSURE);
    OK(crt_actor_ready(actor, PATIENCE_MS)); /* that question is none of them */
    OK(crt_cancel(first, NULL));
    assert_int_equal(result(second), 1);
    assert_int_equal(result(crt_call(actor, &add)), 2); /* the refused ones did not run */
    crt_ref_drop(&first);
    for (int i = 0; i < 100; i++)
        assert_int_equal(result(crt_call(actor, &add)), 3 + i);
    end(actor);
}

static void the_limit_is_each_callers_own_whatever_its_handle(void **state)
{
    crt_actor_t *actor = crt_actor_new(
                    &counter,
                    CRT_ACTOR_OPTIONS(.max_pending_calls = 2, .name = "limited"), 0),
                *found;
    crt_ref_t *mine = crt_call(actor, &hold);

    OK(crt_actor_ready(actor, PATIENCE_MS));
    assert_int_equal(result(crt_submit(&flood, NULL, actor)), CRT_ERR_BACKPRESSURE);
    OK(crt_actor_find("limited", NULL, &counter, &found)); /* the same handle */
    crt_ref_t *second = crt_call(found, &add);
    fails(crt_call(found, &add), CRT_ERR_BACKPRESSURE, "max_pending_calls");
    OK(crt_cancel(mine, NULL));
    assert_int_equal(result(second), 1);
    crt_ref_drop(&mine);
    crt_actor_drop(&found);
    end(actor);
}

static void the_limit_holds_before_the_actor_is_anywhere(void **state)
{
    crt_actor_t *actor = crt_actor_new(
        &counter,
        CRT_ACTOR_OPTIONS(.max_pending_calls = 2, .resources = "nobody-has-this=1"), 0);

    assert_int_equal(result(crt_submit(&flood, NULL, actor)), CRT_ERR_BACKPRESSURE);
    end(actor);
}

static void the_limit_may_be_none(void **state)
{
    crt_actor_t *actor =
        crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.max_pending_calls = -1), 0);
    crt_ref_t *refs[100];

    for (int i = 0; i < 100; i++)
        refs[i] = crt_call(actor, &add);
    for (int i = 0; i < 100; i++)
        assert_int_equal(result(refs[i]), i + 1);
    end(actor);
    actor = crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.max_pending_calls = -2), 0);
    fails(crt_call(actor, &add), CRT_ERR_INVALID, "max_pending_calls is -1 or 0");
    crt_actor_drop(&actor);
}

static void an_actor_may_end_itself_after_its_answer(void **state)
{
    for (int i = 0; i < 10; i++) {
        crt_actor_t *actor = crt_actor_new(
            &leaver, CRT_ACTOR_OPTIONS(.max_restarts = -1, .name = "leaver"));
        crt_ref_t *first = crt_call(actor, &leave), *second = crt_call(actor, &add);

        assert_int_equal(result(first), 77);
        fails(second, CRT_ERR_ACTOR_DIED, "it ended itself by crt_actor_exit");
        fails(crt_call(actor, &add), CRT_ERR_ACTOR_DIED, "crt_actor_exit");
        crt_actor_drop(&actor); /* its name is free again */
    }
}

static void a_task_is_no_actor_that_could_end(void **state)
{
    fails(crt_submit(&leave_task, NULL), CRT_ERR_INVALID, "leave_task is no method");
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_actor_that_exists_is_given_with_its_state),
        cmocka_unit_test(of_many_that_ask_at_once_all_get_the_same),
        cmocka_unit_test(what_can_not_be_shared_is_refused),
        cmocka_unit_test(one_call_too_many_is_refused_and_not_made),
        cmocka_unit_test(the_limit_is_each_callers_own_whatever_its_handle),
        cmocka_unit_test(the_limit_holds_before_the_actor_is_anywhere),
        cmocka_unit_test(the_limit_may_be_none),
        cmocka_unit_test(an_actor_may_end_itself_after_its_answer),
        cmocka_unit_test(a_task_is_no_actor_that_could_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&share, &flood, &leave_task),
                                .classes = CRT_CLASSES(&counter, &other, &leaver),
                                .num_cpus = 2, .object_store_memory = 64 << 20),
                    driver);
}
