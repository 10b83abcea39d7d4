/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of actors on a private cluster: order, actors that die, and pools without one. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <crt_util.h>

#include <cmocka.h>

#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- what they call */

static crt_status_t echo_run(void *self, crt_call_t *call)
{
    int number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number);
}
static const crt_method_t echo =
    CRT_METHOD(.name = "echo", .run = echo_run, .signature = "int");

/* Waits for an item. */
static crt_status_t await_run(void *self, crt_call_t *call)
{
    crt_actor_t *gate;
    crt_ref_t *item;
    int number;

    CRT_TRY(crt_args(call, &gate, &number));
    CRT_TRY(crt_queue_get(gate, PATIENCE_MS, &item));
    crt_ref_drop(&item);
    return crt_return(call, number);
}
static const crt_method_t await =
    CRT_METHOD(.name = "await", .run = await_run, .signature = "actor, int");

static crt_status_t die_run(void *self, crt_call_t *call)
{
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_method_t die =
    CRT_METHOD(.name = "die", .run = die_run, .signature = "");

static crt_status_t fail_run(void *self, crt_call_t *call)
{
    return crt_fail(call, CRT_ERR_USER, "no");
}
static const crt_method_t fail_method =
    CRT_METHOD(.name = "fail", .run = fail_run, .signature = "");

static const crt_actor_class_t worker =
    CRT_ACTOR_CLASS(.name = "Worker",
                    .methods = CRT_METHODS(&echo, &await, &die, &fail_method));

static crt_actor_t *gate;

static crt_ref_t *call_echo(crt_actor_t *actor, void *user)
{
    return crt_call(actor, &echo, *(int *)user);
}

static crt_ref_t *call_await(crt_actor_t *actor, void *user)
{
    return crt_call(actor, &await, gate, *(int *)user);
}

static crt_ref_t *call_die(crt_actor_t *actor, void *user)
{
    return crt_call(actor, &die);
}

static crt_ref_t *call_fail(crt_actor_t *actor, void *user)
{
    return crt_call(actor, &fail_method);
}

/* ---------------------------------------------------------------- helpers */

static int numbers[100];

static crt_pool_t *new_pool(size_t count, const crt_actor_options_t *options)
{
    crt_actor_t *actors[8] = {NULL};
    crt_pool_t *pool;

    for (size_t i = 0; i < count; i++)
        actors[i] = crt_actor_new(&worker, options);
    assert_int_equal(crt_pool_new(actors, count, &pool), CRT_OK);
    for (size_t i = 0; i < count; i++)
        crt_actor_drop(&actors[i]); /* the pool has holds of its own */
    for (int i = 0; i < 100; i++)
        numbers[i] = i;
    return pool;
}

static void submit(crt_pool_t *pool, crt_pool_call_t call, int number)
{
    assert_int_equal(crt_pool_submit(pool, call, &numbers[number]), CRT_OK);
}

static void expect_number(crt_ref_t *ref, int wanted)
{
    int number = -1;

    assert_int_equal(crt_get(ref, &number), CRT_OK);
    assert_int_equal(number, wanted);
    crt_ref_drop(&ref);
}

static void expect_next(crt_pool_t *pool, int wanted)
{
    crt_ref_t *ref;

    assert_int_equal(crt_pool_next(pool, PATIENCE_MS, &ref), CRT_OK);
    expect_number(ref, wanted);
}

static void open_gate(void)
{
    crt_ref_t *item = crt_put(1);

    assert_int_equal(crt_queue_put(gate, item, PATIENCE_MS), CRT_OK);
    crt_ref_drop(&item);
}

/* ---------------------------------------------------------------- tests */

static void results_come_in_the_order_of_submission(void **state)
{
    crt_pool_t *pool = new_pool(2, NULL);
    crt_ref_t *ref;

    submit(pool, call_await, 0);
    for (int i = 1; i < 20; i++)
        submit(pool, call_echo, i);
    assert_int_equal(crt_pool_next(pool, 200, &ref), CRT_ERR_TIMED_OUT);
    open_gate();
    for (int i = 0; i < 20; i++)
        expect_next(pool, i);
    assert_false(crt_pool_has_next(pool));
    assert_true(crt_pool_has_free(pool));
    assert_int_equal(crt_pool_next(pool, 0, &ref), CRT_ERR_NOT_FOUND);
    crt_pool_drop(&pool);
}

static void who_is_ready_comes_first_when_asked_so(void **state)
{
    crt_pool_t *pool = new_pool(2, NULL);
    crt_ref_t *ref;

    submit(pool, call_await, 0);
    for (int i = 1; i < 20; i++)
        submit(pool, call_echo, i);
    for (int i = 1; i < 20; i++) {
        assert_int_equal(crt_pool_next_ready(pool, PATIENCE_MS, &ref), CRT_OK);
        expect_number(ref, i);
    }
    assert_int_equal(crt_pool_next_ready(pool, 50, &ref), CRT_ERR_TIMED_OUT);
    open_gate();
    assert_int_equal(crt_pool_next_ready(pool, PATIENCE_MS, &ref), CRT_OK);
    expect_number(ref, 0);
    crt_pool_drop(&pool);
}

static void an_actor_runs_one_call_at_a_time(void **state)
{
    crt_pool_t *pool = new_pool(1, NULL);
    crt_actor_t *actor;

    assert_true(crt_pool_has_free(pool));
    submit(pool, call_echo, 1);
    submit(pool, call_echo, 2);
    assert_false(crt_pool_has_free(pool));
    assert_int_equal(crt_pool_pop(pool, &actor), CRT_ERR_NOT_FOUND);
    expect_next(pool, 1);
    expect_next(pool, 2);
    assert_int_equal(crt_pool_pop(pool, &actor), CRT_OK);
    crt_actor_drop(&actor);
    crt_pool_drop(&pool);
}

static void a_call_that_fails_keeps_its_actor(void **state)
{
    crt_pool_t *pool = new_pool(1, NULL);
    crt_ref_t *ref;

    submit(pool, call_fail, 0);
    submit(pool, call_echo, 1);
    assert_int_equal(crt_pool_next(pool, PATIENCE_MS, &ref), CRT_OK);
    assert_int_equal(crt_ref_error(ref)->status, CRT_ERR_USER);
    crt_ref_drop(&ref);
    expect_next(pool, 1);
    crt_pool_drop(&pool);
}

static void an_actor_that_dies_costs_one_call(void **state)
{
    crt_pool_t *pool = new_pool(2, NULL);
    crt_ref_t *ref;

    for (int i = 0; i < 20; i++)
        submit(pool, i == 3 ? call_die : call_echo, i);
    for (int i = 0; i < 20; i++) {
        if (i != 3) {
            expect_next(pool, i);
            continue;
        }
        assert_int_equal(crt_pool_next(pool, PATIENCE_MS, &ref), CRT_OK);
        assert_int_equal(crt_ref_error(ref)->status, CRT_ERR_ACTOR_DIED);
        crt_ref_drop(&ref);
    }
    crt_pool_drop(&pool);
}

static void an_actor_that_is_restarted_stays(void **state)
{
    crt_pool_t *pool = new_pool(1, CRT_ACTOR_OPTIONS(.max_restarts = 1));
    crt_ref_t *ref;

    submit(pool, call_die, 0);
    submit(pool, call_echo, 1);
    assert_int_equal(crt_pool_next(pool, PATIENCE_MS, &ref), CRT_OK);
    crt_ref_drop(&ref);
    expect_next(pool, 1);
    crt_pool_drop(&pool);
}

static void without_actors_nothing_is_waited_for(void **state)
{
    crt_pool_t *pool = new_pool(1, NULL);
    crt_actor_t *actor = crt_actor_new(&worker, NULL);
    crt_ref_t *ref;

    submit(pool, call_die, 0);
    submit(pool, call_echo, 1);
    assert_int_equal(crt_pool_next(pool, PATIENCE_MS, &ref), CRT_OK);
    crt_ref_drop(&ref);
    assert_int_equal(crt_pool_next(pool, -1, &ref), CRT_ERR_ACTOR_DIED);
    assert_int_equal(crt_pool_next_ready(pool, -1, &ref), CRT_ERR_ACTOR_DIED);
    assert_true(crt_pool_has_next(pool));
    assert_int_equal(crt_pool_push(pool, actor), CRT_OK);
    crt_actor_drop(&actor);
    expect_next(pool, 1);
    crt_pool_drop(&pool);
}

static void what_is_no_pool_or_actor_is_refused(void **state)
{
    crt_pool_t *pool = new_pool(0, NULL);
    crt_actor_t *none = NULL;
    crt_ref_t *ref;

    assert_int_equal(crt_pool_new(&none, 1, &pool), CRT_ERR_INVALID);
    assert_int_equal(crt_pool_new(NULL, 1, &pool), CRT_ERR_INVALID);
    assert_int_equal(crt_pool_push(pool, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_pool_submit(pool, NULL, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_pool_submit(NULL, call_echo, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_pool_next(NULL, 0, &ref), CRT_ERR_INVALID);
    assert_int_equal(crt_pool_next_ready(pool, 0, NULL), CRT_ERR_INVALID);
    assert_false(crt_pool_has_next(NULL));
    assert_false(crt_pool_has_free(NULL));
    crt_pool_drop(NULL);
    crt_pool_drop(&pool);
}

/* Under a sanitizer: and all of it is freed. */
static void a_pool_may_be_freed_while_its_calls_run_and_wait(void **state)
{
    crt_pool_t *pool = new_pool(2, NULL);

    for (int i = 0; i < 10; i++)
        submit(pool, call_await, i);
    crt_pool_drop(&pool);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_come_in_the_order_of_submission),
        cmocka_unit_test(who_is_ready_comes_first_when_asked_so),
        cmocka_unit_test(an_actor_runs_one_call_at_a_time),
        cmocka_unit_test(a_call_that_fails_keeps_its_actor),
        cmocka_unit_test(an_actor_that_dies_costs_one_call),
        cmocka_unit_test(an_actor_that_is_restarted_stays),
        cmocka_unit_test(without_actors_nothing_is_waited_for),
        cmocka_unit_test(what_is_no_pool_or_actor_is_refused),
        cmocka_unit_test(a_pool_may_be_freed_while_its_calls_run_and_wait),
    };
    int result;

    gate = crt_queue_new(NULL, 0);
    result = cmocka_run_group_tests(tests, NULL, NULL);
    crt_actor_drop(&gate);
    return result;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&worker), .num_cpus = 2,
                                .object_store_memory = 64 << 20),
                    driver);
}
