/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for refs without a set: crt_wait in a loop, crt_refs_wait, crt_ref_on_ready. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"

#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

static crt_status_t echo_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number);
}
static const crt_task_t echo =
    CRT_TASK(.name = "echo", .run = echo_run, .signature = "int");

static crt_status_t nap_run(crt_call_t *call)
{
    int64_t most_ms;

    CRT_TRY(crt_args(call, &most_ms));
    for (int64_t ms = 0; ms < most_ms && !crt_cancelled(call); ms += 5)
        usleep(5000);
    return crt_return(call, most_ms);
}
static const crt_task_t nap = CRT_TASK(.name = "nap", .run = nap_run, .signature = "int");

static crt_status_t fail_run(crt_call_t *call)
{
    return crt_fail(call, CRT_ERR_USER, "on purpose");
}
static const crt_task_t fail = CRT_TASK(.name = "fail", .run = fail_run, .signature = "");

static crt_status_t die_run(crt_call_t *call)
{
    raise(SIGKILL);
    return CRT_OK;
}
static const crt_task_t die = CRT_TASK(.name = "die", .run = die_run, .signature = "");

/* Waits inside for all of `count` tasks of its own. */
static crt_status_t wait_inside_run(crt_call_t *call)
{
    crt_ref_t *refs[100];
    int64_t count, number, sum = 0;

    CRT_TRY(crt_args(call, &count));
    for (int64_t i = 0; i < count; i++)
        refs[i] = crt_submit(&echo, NULL, i);
    CRT_TRY(crt_refs_wait(refs, (size_t)count, NULL, PATIENCE_MS, NULL));
    for (int64_t i = 0; i < count; i++) {
        CRT_TRY(crt_get_for(refs[i], 0, &number));
        sum += number;
    }
    crt_refs_drop(refs, (size_t)count);
    return crt_return(call, sum);
}
static const crt_task_t wait_inside =
    CRT_TASK(.name = "wait_inside", .run = wait_inside_run, .signature = "int");

/* ---------------------------------------------------------------- crt_wait in a loop */

enum { LOOP = 2000 };

typedef struct list {
    crt_ref_t *refs[LOOP];
    size_t left;
    bool seen[LOOP];
} list_t;

static void list_begin(list_t *list)
{
    list->left = LOOP;
    for (int64_t i = 0; i < LOOP; i++) {
        list->refs[i] = i % 3 ? crt_submit(&echo, NULL, i) : crt_put(i);
        list->seen[i] = false;
    }
}

/* Takes one, or several at once. */
static void list_take(list_t *list, size_t want, bool moves_up)
{
    size_t ready[8], count, most = want < list->left ? want : list->left;

    OK(crt_wait(list->refs, list->left, most, PATIENCE_MS, ready, &count));
    assert_int_equal(count, most);
    for (size_t i = count; i-- > 0;) { /* from the last on, so that the others stay */
        int64_t number;

        assert_true(i == 0 || ready[i - 1] < ready[i]);
        OK(crt_get_for(list->refs[ready[i]], 0, &number));
        assert_false(list->seen[number]);
        list->seen[number] = true;
        crt_ref_drop(&list->refs[ready[i]]);
        list->left--;
        if (moves_up)
            memmove(&list->refs[ready[i]], &list->refs[ready[i] + 1],
                    (list->left - ready[i]) * sizeof(list->refs[0]));
        else
            list->refs[ready[i]] = list->refs[list->left];
    }
}

static void each_ref_of_a_list_comes_once_however_it_is_taken_out(void **state)
{
    static list_t list;

    for (int way = 0; way < 4; way++) {
        list_begin(&list);
        while (list.left)
            list_take(&list, way < 2 ? 1 : 5, way % 2);
    }
}

static void two_lists_may_be_waited_for_in_turn(void **state)
{
    static list_t one, other;

    list_begin(&one);
    list_begin(&other);
    while (one.left || other.left) {
        if (one.left)
            list_take(&one, 1, false);
        if (other.left)
            list_take(&other, 3, true);
    }
}

/* ---------------------------------------------------------------- all of a list */

static void all_are_there_after_one_wait_also_those_that_stand_twice(void **state)
{
    enum { COUNT = 500 };
    crt_ref_t *refs[COUNT + 2];
    size_t failed = 0;

    for (int64_t i = 0; i < COUNT; i++)
        refs[i] = crt_submit(&echo, NULL, i);
    refs[COUNT] = refs[7];
    refs[COUNT + 1] = refs[COUNT - 1];
    OK(crt_refs_wait(refs, COUNT + 2, NULL, PATIENCE_MS, &failed));
    assert_int_equal(failed, COUNT + 2);
    for (int64_t i = 0; i < COUNT; i++)
        OK(crt_get_for(refs[i], 0, NULL));
    OK(crt_refs_wait(refs, COUNT, NULL, 0, NULL));
    OK(crt_refs_wait(NULL, 0, NULL, -1, NULL));
    crt_refs_drop(refs, COUNT);
}

static void the_first_error_ends_it_and_the_others_go_on(void **state)
{
    crt_ref_t *refs[3] = {crt_submit(&nap, NULL, PATIENCE_MS), crt_submit(&fail, NULL),
                          crt_submit(&echo, NULL, 1)};
    size_t failed;

    assert_int_equal(crt_refs_wait(refs, 3, NULL, -1, &failed), CRT_ERR_USER);
    assert_int_equal(failed, 1);
    assert_string_equal(crt_error_detail(), "ref 1: on purpose");
    assert_false(crt_ref_is_ready(refs[0]));
    assert_int_equal(
        crt_refs_wait(refs, 3, CRT_REFS_WAIT_OPTIONS(.past_errors = true), 20, &failed),
        CRT_ERR_TIMED_OUT);
    assert_int_equal(failed, 1);
    OK(crt_cancel(refs[0], NULL));
    assert_int_equal(
        crt_refs_wait(refs, 3, CRT_REFS_WAIT_OPTIONS(.past_errors = true), -1, &failed),
        CRT_ERR_CANCELLED);
    assert_int_equal(failed, 0);
    crt_refs_drop(refs, 3);
}

static void a_worker_that_dies_ends_it(void **state)
{
    crt_ref_t *refs[2] = {crt_submit(&nap, NULL, PATIENCE_MS),
                          crt_submit(&die, CRT_TASK_OPTIONS(.max_attempts = 1))};
    size_t failed;

    assert_int_equal(crt_refs_wait(refs, 2, NULL, -1, &failed), CRT_ERR_WORKER_DIED);
    assert_int_equal(failed, 1);
    OK(crt_cancel(refs[0], NULL));
    crt_refs_drop(refs, 2);
}

static void one_deadline_is_for_all_of_them(void **state)
{
    crt_ref_t *refs[3] = {crt_submit(&echo, NULL, 1), crt_submit(&nap, NULL, PATIENCE_MS),
                          crt_submit(&nap, NULL, PATIENCE_MS)};

    OK(crt_get(refs[0], NULL));
    assert_int_equal(crt_refs_wait(refs, 3, NULL, 30, NULL), CRT_ERR_TIMED_OUT);
    assert_string_equal(crt_error_detail(), "2 of 3 refs are not ready after 30 ms");
    assert_int_equal(crt_refs_wait(refs, 3, NULL, 0, NULL), CRT_ERR_TIMED_OUT);
    OK(crt_cancel(refs[1], NULL));
    OK(crt_cancel(refs[2], NULL));
    crt_refs_drop(refs, 3);
}

static void what_is_no_ref_is_named(void **state)
{
    crt_ref_t *refs[3] = {crt_put(1), NULL, crt_put(2)}, *dropped = refs[2];
    crt_refs_wait_options_t none = {.struct_size = 3};

    assert_int_equal(crt_refs_wait(refs, 3, NULL, 0, NULL), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "ref 1: the ref is NULL");
    crt_ref_drop(&refs[2]);
    refs[1] = dropped;
    assert_int_equal(crt_refs_wait(refs, 2, NULL, 0, NULL), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "ref 1: the ref was dropped before");
    assert_int_equal(crt_refs_wait(refs, 1, &none, 0, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_refs_wait(NULL, 1, NULL, 0, NULL), CRT_ERR_INVALID);
    crt_ref_drop(&refs[0]);
}

static void a_task_waits_for_all_of_its_own(void **state)
{
    crt_ref_t *ref = crt_submit(&wait_inside, NULL, 100);
    int64_t sum = 0;

    OK(crt_get_for(ref, PATIENCE_MS, &sum));
    assert_int_equal(sum, 4950);
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- callbacks */

typedef struct told {
    atomic_int times, ended;
    atomic_long sum;
    pthread_t thread; /* that ran the last one */
} told_t;

static void on_ready(crt_ref_t *ref, void *user)
{
    told_t *told = user;
    int64_t number = 0;

    if (crt_get_for(ref, 0, &number) == CRT_OK)
        atomic_fetch_add(&told->sum, number);
    told->thread = pthread_self();
    atomic_fetch_add(&told->times, 1);
}

static void await_times(const told_t *told, int times)
{
    for (int ms = 0; atomic_load(&told->times) < times; ms++) {
        assert_true(ms < PATIENCE_MS);
        usleep(1000);
    }
    assert_int_equal(atomic_load(&told->times), times);
}

static void a_callback_runs_once_in_a_thread_of_the_library(void **state)
{
    crt_ref_t *ready = crt_put(5), *slow = crt_submit(&nap, NULL, 30),
              *failed = crt_submit(&fail, NULL), *kept;
    told_t told = {0}, second = {0};

    OK(crt_ref_on_ready(ready, on_ready, &told));
    OK(crt_ref_on_ready(slow, on_ready, &told));
    OK(crt_ref_on_ready(slow, on_ready, &second));
    OK(crt_ref_on_ready(failed, on_ready, &told));
    kept = crt_ref_keep(slow);
    crt_ref_drop(&ready); /* the registration holds them */
    crt_ref_drop(&slow);
    crt_ref_drop(&failed);
    await_times(&told, 3);
    await_times(&second, 1);
    assert_int_equal(atomic_load(&told.sum), 35);
    assert_false(pthread_equal(told.thread, pthread_self()));
    assert_true(pthread_equal(told.thread, second.thread));
    OK(crt_get_for(kept, 0, NULL));
    crt_ref_drop(&kept);
    assert_int_equal(crt_ref_on_ready(NULL, on_ready, &told), CRT_ERR_INVALID);
    kept = crt_put(1);
    assert_int_equal(crt_ref_on_ready(kept, NULL, &told), CRT_ERR_INVALID);
    crt_ref_drop(&kept);
}

/* Makes a call, keeps its ref by a callback of its own, and ends after CHAIN of them. */
enum { CHAIN = 500 };

static void call_on(crt_ref_t *ref, void *user)
{
    told_t *told = user;
    int64_t number = -1;
    crt_ref_t *next;

    if (crt_get_for(ref, 0, &number) != CRT_OK)
        number = CHAIN * 2;
    atomic_fetch_add(&told->times, 1);
    if (number >= CHAIN) {
        atomic_store(&told->ended, number == CHAIN);
        return;
    }
    next = crt_submit(&echo, NULL, number + 1);
    (void)crt_ref_on_ready(next, call_on, told);
    crt_ref_drop(&next);
}

static void a_callback_calls_and_registers_the_next_one(void **state)
{
    crt_ref_t *ref = crt_submit(&echo, NULL, 0);
    told_t told = {0};

    OK(crt_ref_on_ready(ref, call_on, &told));
    crt_ref_drop(&ref);
    await_times(&told, CHAIN + 1);
    assert_true(atomic_load(&told.ended));
}

static void wait_inside_of_it(crt_ref_t *ref, void *user)
{
    told_t *told = user;
    crt_ref_t *other = crt_submit(&nap, NULL, 20);

    atomic_store(&told->ended, crt_get(other, NULL) == CRT_OK &&
                                   crt_init(0, NULL, NULL) == CRT_ERR_INVALID &&
                                   crt_shutdown() == CRT_ERR_INVALID);
    crt_ref_drop(&other);
    atomic_fetch_add(&told->times, 1);
}

static void a_callback_may_wait_but_neither_join_nor_leave_the_cluster(void **state)
{
    crt_ref_t *ref = crt_put(1);
    told_t told = {0};

    OK(crt_ref_on_ready(ref, wait_inside_of_it, &told));
    crt_ref_drop(&ref);
    await_times(&told, 1);
    assert_true(atomic_load(&told.ended));
}

enum { THREADS = 4, EACH = 1000 };

static void *register_many(void *user)
{
    for (int64_t i = 0; i < EACH; i++) {
        crt_ref_t *ref = i % 2 ? crt_submit(&echo, NULL, i) : crt_put(i);

        OK(crt_ref_on_ready(ref, on_ready, user));
        crt_ref_drop(&ref);
    }
    return NULL;
}

static void many_threads_register_callbacks_and_each_runs_once(void **state)
{
    pthread_t threads[THREADS];
    told_t told = {0};

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, register_many, &told);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    await_times(&told, THREADS * EACH);
    assert_int_equal(atomic_load(&told.sum), (long)THREADS * EACH * (EACH - 1) / 2);
}

/* The last one. */
static void
at_a_shutdown_callbacks_of_what_is_pending_hear_that_it_is_closed(void **state)
{
    crt_ref_t *ref = crt_submit(&nap, NULL, PATIENCE_MS), *here = crt_put(7);
    told_t told = {0};

    OK(crt_ref_on_ready(ref, on_ready, &told));
    crt_ref_drop(&ref);
    OK(crt_shutdown());
    assert_int_equal(atomic_load(&told.times), 1);
    assert_int_equal(atomic_load(&told.sum), 0);
    assert_int_equal(crt_ref_on_ready(here, on_ready, &told), CRT_ERR_NOT_INITIALIZED);
    crt_ref_drop(&here);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ref_of_a_list_comes_once_however_it_is_taken_out),
        cmocka_unit_test(two_lists_may_be_waited_for_in_turn),
        cmocka_unit_test(all_are_there_after_one_wait_also_those_that_stand_twice),
        cmocka_unit_test(the_first_error_ends_it_and_the_others_go_on),
        cmocka_unit_test(a_worker_that_dies_ends_it),
        cmocka_unit_test(one_deadline_is_for_all_of_them),
        cmocka_unit_test(what_is_no_ref_is_named),
        cmocka_unit_test(a_task_waits_for_all_of_its_own),
        cmocka_unit_test(a_callback_runs_once_in_a_thread_of_the_library),
        cmocka_unit_test(a_callback_calls_and_registers_the_next_one),
        cmocka_unit_test(a_callback_may_wait_but_neither_join_nor_leave_the_cluster),
        cmocka_unit_test(many_threads_register_callbacks_and_each_runs_once),
        cmocka_unit_test(
            at_a_shutdown_callbacks_of_what_is_pending_hear_that_it_is_closed),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&echo, &nap, &fail, &die, &wait_inside),
                    .num_cpus = 4, .object_store_memory = 48 << 20),
        driver);
}
