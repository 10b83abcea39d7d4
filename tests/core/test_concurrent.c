/* SPDX-License-Identifier: Apache-2.0 */
/* Actors that run several calls at a time: max_concurrency, concurrency groups, waits inside them,
 * their order, their end, cycles of waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define PATIENCE_MS 60000
#define MANY        8

static double ms_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ---------------------------------------------------------------- in the workers */

typedef struct worker {
    atomic_int inside, most, started, gate, destroyed_inside;
    crt_actor_t *self;
} worker_t;

static void enter(worker_t *w)
{
    int now = atomic_fetch_add(&w->inside, 1) + 1, most = atomic_load(&w->most);

    while (now > most && !atomic_compare_exchange_weak(&w->most, &most, now))
        continue;
}

/* Computes, without any wait of the runtime, until the gate is open. */
static crt_status_t compute_run(void *self, crt_call_t *call)
{
    worker_t *w = self;

    enter(w);
    while (!atomic_load(&w->gate) && !crt_cancelled(call))
        continue;
    atomic_fetch_sub(&w->inside, 1);
    return crt_return(call, 1);
}

static crt_status_t open_run(void *self, crt_call_t *call)
{
    atomic_store(&((worker_t *)self)->gate, 1);
    return crt_return(call, 1);
}

static crt_status_t most_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)atomic_load(&((worker_t *)self)->most));
}

static crt_status_t inside_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)atomic_load(&((worker_t *)self)->inside));
}

/* The order in which calls began. */
static crt_status_t started_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)atomic_fetch_add(&((worker_t *)self)->started, 1));
}

static crt_status_t nothing_run(void *self, crt_call_t *call)
{
    return CRT_OK;
}

static crt_status_t keep_run(void *self, crt_call_t *call)
{
    worker_t *w = self;
    crt_actor_t *actor;

    CRT_TRY(crt_args(call, &actor));
    w->self = crt_actor_keep(actor);
    return crt_return(call, 1);
}

static const crt_method_t nest, compute;

/* Calls its own actor `depth` times within each other. */
static crt_status_t nest_run(void *self, crt_call_t *call)
{
    worker_t *w = self;
    crt_ref_t *ref;
    int64_t depth, got = 0;
    crt_status_t status;

    CRT_TRY(crt_args(call, &depth));
    if (depth == 0)
        return crt_return(call, (int64_t)0);
    ref = crt_call(w->self, &nest, depth - 1);
    status = crt_get_for(ref, PATIENCE_MS, &got);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, got + 1) : status;
}

/* Asks another actor to ask this one. */
static const crt_method_t ask;
static crt_status_t ask_run(void *self, crt_call_t *call)
{
    worker_t *w = self;
    crt_actor_t *back;
    crt_ref_t *ref;
    int64_t got = 0, rounds;
    crt_status_t status;

    CRT_TRY(crt_args(call, &back, &rounds));
    if (rounds == 0)
        return crt_return(call, (int64_t)7);
    ref = crt_call(back, &ask, w->self, rounds - 1);
    status = crt_get_for(ref, PATIENCE_MS, &got);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, got) : status;
}

/* A list with a ref of this process's, whose call of another actor has not ended. */
static crt_status_t computing_run(void *self, crt_call_t *call)
{
    crt_actor_t *other;
    crt_arg_t item;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &other));
    ref = crt_call(other, &compute);
    item = crt_arg_ref(ref);
    status = crt_return(call, crt_list(&item, 1));
    crt_ref_drop(&ref);
    return status;
}

/* For so many microseconds. */
static crt_status_t spin_run(void *self, crt_call_t *call)
{
    double end;
    int64_t us;

    CRT_TRY(crt_args(call, &us));
    end = ms_now() + (double)us / 1e3;
    while (ms_now() < end)
        continue;
    return crt_return(call, us);
}

static crt_status_t die_run(void *self, crt_call_t *call)
{
    _exit(3);
}

static void destroy(void *self)
{
    worker_t *w = self;

    printf("destroyed with %d inside\n", atomic_load(&w->inside));
    crt_actor_drop(&w->self);
}

static const crt_method_t compute =
    CRT_METHOD(.name = "compute", .run = compute_run, .signature = "");
static const crt_method_t open_gate =
    CRT_METHOD(.name = "open", .run = open_run, .signature = "");
static const crt_method_t most =
    CRT_METHOD(.name = "most", .run = most_run, .signature = "");
static const crt_method_t inside_method =
    CRT_METHOD(.name = "inside", .run = inside_run, .signature = "");
static const crt_method_t started =
    CRT_METHOD(.name = "started", .run = started_run, .signature = "any");
static const crt_method_t nothing =
    CRT_METHOD(.name = "nothing", .run = nothing_run, .signature = "");
static const crt_method_t keep =
    CRT_METHOD(.name = "keep", .run = keep_run, .signature = "actor");
static const crt_method_t nest =
    CRT_METHOD(.name = "nest", .run = nest_run, .signature = "int");
static const crt_method_t ask =
    CRT_METHOD(.name = "ask", .run = ask_run, .signature = "actor, int");
static const crt_method_t computing =
    CRT_METHOD(.name = "computing", .run = computing_run, .signature = "actor");
static const crt_method_t spin =
    CRT_METHOD(.name = "spin", .run = spin_run, .signature = "int");
static const crt_method_t die =
    CRT_METHOD(.name = "die", .run = die_run, .signature = "");
static const crt_method_t io_compute =
    CRT_METHOD(.name = "io_compute", .run = compute_run, .signature = "");
static const crt_concurrency_group_t io =
    CRT_CONCURRENCY_GROUP(.name = "io", .max_concurrency = 2,
                          .methods = CRT_METHODS(&io_compute));
static const crt_concurrency_group_t aside =
    CRT_CONCURRENCY_GROUP(.name = "aside", .max_concurrency = 1,
                          .methods = CRT_METHODS(&inside_method));
static const crt_concurrency_group_t stranger =
    CRT_CONCURRENCY_GROUP(.name = "stranger", .max_concurrency = 1);
static const crt_concurrency_group_t far =
    CRT_CONCURRENCY_GROUP(.name = "io", .max_concurrency = 9);
static const crt_actor_class_t worker_class =
    CRT_ACTOR_CLASS(.name = "Worker", .size = sizeof(worker_t), .destroy = destroy,
                    .methods = CRT_METHODS(&compute, &open_gate, &most, &inside_method,
                                           &started, &nothing, &keep, &nest, &ask,
                                           &computing, &spin, &die, &io_compute),
                    .concurrency_groups = CRT_CONCURRENCY_GROUPS(&io, &aside));

static crt_status_t slowly_run(crt_call_t *call)
{
    usleep(50000);
    return crt_return(call, 1);
}
static const crt_task_t slowly = CRT_TASK(.name = "slowly", .run = slowly_run);

/* ---------------------------------------------------------------- in the tests */

static crt_actor_t *new_worker(int concurrency)
{
    crt_actor_t *actor =
        crt_actor_new(&worker_class, CRT_ACTOR_OPTIONS(.max_concurrency = concurrency));

    OK(crt_actor_ready(actor, PATIENCE_MS));
    return actor;
}

static int64_t result(crt_ref_t *ref)
{
    int64_t value = -1;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

static void wait_inside(crt_actor_t *actor, int64_t count)
{
    for (int i = 0; result(crt_call(actor, &inside_method)) != count; i++) {
        assert_true(i < PATIENCE_MS);
        usleep(1000);
    }
}

static void end(crt_actor_t *actor)
{
    OK(crt_actor_kill(actor, NULL));
    crt_actor_drop(&actor);
}

static void a_second_call_is_answered_while_the_first_computes(void **state)
{
    crt_actor_t *actor = new_worker(2);
    crt_ref_t *first = crt_call(actor, &compute);
    double times[101], start;

    wait_inside(actor, 1);
    result(crt_call(actor, &started, 0)); /* its thread begins */
    for (int i = 0; i < 101; i++) {
        start = ms_now();
        result(crt_call(actor, &started, 0));
        times[i] = ms_now() - start;
    }
    for (int i = 0; i < 101; i++) /* the median in the middle */
        for (int j = i + 1; j < 101; j++)
            if (times[j] < times[i]) {
                double swap = times[i];

                times[i] = times[j];
                times[j] = swap;
            }
    print_message("answered beside one that computes in %.3f ms (median)\n", times[50]);
    assert_false(crt_ref_is_ready(first));
    result(crt_call(actor, &open_gate));
    assert_int_equal(result(first), 1);
    end(actor);
}

static void so_many_run_at_a_time_and_no_more(void **state)
{
    crt_actor_t *actor = new_worker(3);
    crt_ref_t *refs[MANY], *opened;

    for (int i = 0; i < MANY; i++)
        refs[i] = crt_call(actor, &compute);
    wait_inside(actor, 3);
    /* A second group has its own. */
    opened = crt_call_with(actor, &open_gate, CRT_CALL_OPTIONS(.concurrency_group = &io));
    assert_int_equal(result(opened), 1);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(result(refs[i]), 1);
    assert_int_equal(result(crt_call(actor, &most)), 3);
    end(actor);
}

static void groups_run_beside_each_other_each_with_its_number(void **state)
{
    crt_actor_t *actor = new_worker(0);
    crt_ref_t *refs[MANY], *own;

    own = crt_call(actor, &compute);
    for (int i = 0; i < MANY; i++)
        refs[i] = crt_call(actor, &io_compute);
    wait_inside(actor, 3); /* one of none, two of "io" */
    /* By the call, not by the method: it would wait behind `own`. */
    result(
        crt_call_with(actor, &open_gate, CRT_CALL_OPTIONS(.concurrency_group = &aside)));
    assert_int_equal(result(own), 1);
    for (int i = 0; i < MANY; i++)
        result(refs[i]);
    assert_int_equal(result(crt_call(actor, &most)), 3);
    end(actor);
}

static void calls_of_one_caller_start_in_their_order(void **state)
{
    crt_actor_t *actor = new_worker(1);
    crt_ref_t *refs[MANY], *late = crt_submit(&slowly, NULL);

    refs[0] = crt_call(actor, &started, late); /* waits for its argument */
    for (int i = 1; i < MANY; i++)
        refs[i] = crt_call(actor, &started, i);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(result(refs[i]), i);
    crt_ref_drop(&late);
    end(actor);
}

/* Of one caller: `late` is not ready until `computes` was told to end. */
static void call_past(crt_actor_t *actor, crt_actor_t *computes, crt_ref_t *late)
{
    crt_ref_t *first = crt_call(actor, &started, late), *cancelled;

    cancelled = crt_call(actor, &started, late);
    for (int i = 1; i < MANY; i++)
        result(crt_call(actor, &most));
    assert_false(crt_ref_is_ready(first));
    OK(crt_cancel(cancelled, NULL));
    assert_int_equal(crt_get_for(cancelled, PATIENCE_MS, NULL), CRT_ERR_CANCELLED);
    crt_ref_drop(&cancelled);
    result(crt_call(computes, &open_gate));
    assert_int_equal(result(first), 0);
    end(computes);
}

static void out_of_order_a_call_does_not_wait_for_the_arguments_of_another(void **state)
{
    crt_actor_t *actor = crt_actor_new(
        &worker_class, CRT_ACTOR_OPTIONS(.allow_out_of_order_execution = true));
    crt_actor_t *computes = new_worker(2);
    crt_ref_t *late = crt_call(computes, &compute);

    call_past(actor, computes, late);
    crt_ref_drop(&late);
    end(actor);
}

static void so_it_is_when_its_process_waits_for_them(void **state)
{
    crt_actor_t *actor = crt_actor_new(
        &worker_class, CRT_ACTOR_OPTIONS(.allow_out_of_order_execution = true));
    crt_actor_t *computes = new_worker(2), *asks = new_worker(1);
    crt_ref_t *list = crt_call(asks, &computing, computes), *late;
    const crt_value_t *value;

    OK(crt_get_for(list, PATIENCE_MS, &value));
    OK(crt_value_read(crt_value_at(value, 0), &late));
    call_past(actor, computes, late);
    crt_ref_drop(&list);
    end(asks);
    end(actor);
}

/* What the state says of the queue of the only actor that is alive. */
static void get_queue(crt_actor_t *actor, long *length, double *wait_ms)
{
    const char *at;
    char *json;

    OK(crt_cluster_state("actors_detail", &json));
    at = strstr(json, crt_actor_id(actor));
    assert_non_null(at);
    at = strstr(at, "\"queue_length\":");
    assert_non_null(at);
    *length = atol(at + strlen("\"queue_length\":"));
    at = strstr(at, "\"queue_wait_ms\":");
    assert_non_null(at);
    *wait_ms = atof(at + strlen("\"queue_wait_ms\":"));
    crt_free(json);
}

static void the_state_tells_how_many_calls_wait_and_how_long(void **state)
{
    crt_actor_t *actor = new_worker(1);
    crt_ref_t *first = crt_call(actor, &compute), *refs[MANY];
    double began = ms_now(), wait_ms;
    long length;

    for (int i = 0; i < MANY; i++)
        refs[i] = crt_call(actor, &most);
    do {
        get_queue(actor, &length, &wait_ms);
        assert_true(ms_now() - began < PATIENCE_MS);
    } while (length < MANY || wait_ms < 20);
    assert_int_equal(length, MANY);
    assert_true(wait_ms <= ms_now() - began);
    OK(crt_cancel(first, NULL));
    crt_ref_drop(&first);
    for (int i = 0; i < MANY; i++)
        result(refs[i]);
    get_queue(actor, &length, &wait_ms);
    assert_int_equal(length, 0);
    assert_true(wait_ms == 0);
    end(actor);
}

static void a_wait_inside_blocks_its_thread_only(void **state)
{
    crt_actor_t *actor = new_worker(4);

    result(crt_call(actor, &keep, actor));
    assert_int_equal(result(crt_call(actor, &nest, 3)), 3); /* four at a time */
    end(actor);
}

static void an_actor_whose_calls_all_wait_for_its_own_says_so(void **state)
{
    crt_actor_t *actor = new_worker(4);
    crt_ref_t *ref;

    result(crt_call(actor, &keep, actor));
    ref = crt_call(actor, &nest, 4); /* the fifth can't begin */
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_DEADLOCK);
    assert_non_null(strstr(crt_error_detail(), "4 calls at a time"));
    crt_ref_drop(&ref);
    assert_int_equal(result(crt_call(actor, &nest, 3)), 3);
    end(actor);
}

static void two_actors_may_ask_each_other_as_often_as_they_have_threads(void **state)
{
    crt_actor_t *one = new_worker(2), *other = new_worker(2), *narrow;
    crt_ref_t *ref;

    result(crt_call(one, &keep, one));
    result(crt_call(other, &keep, other));
    assert_int_equal(result(crt_call(one, &ask, other, 3)), 7);
    /* With one thread each it is a cycle, and told. */
    narrow = new_worker(1);
    result(crt_call(narrow, &keep, narrow));
    ref = crt_call(narrow, &ask, one, 2);
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_DEADLOCK);
    crt_ref_drop(&ref);
    end(one);
    end(other);
    end(narrow);
}

static void a_call_that_runs_beside_others_is_cancelled_alone(void **state)
{
    crt_actor_t *actor = new_worker(2);
    crt_ref_t *one = crt_call(actor, &compute), *other = crt_call(actor, &compute);

    wait_inside(actor, 2);
    OK(crt_cancel(one, NULL));
    assert_int_equal(crt_get_for(one, PATIENCE_MS, NULL), CRT_ERR_CANCELLED);
    wait_inside(actor, 1);
    assert_false(crt_ref_is_ready(other));
    result(crt_call(actor, &open_gate));
    assert_int_equal(result(other), 1);
    crt_ref_drop(&one);
    end(actor);
}

static void all_calls_that_run_fail_when_the_process_dies(void **state)
{
    crt_actor_t *actor = new_worker(3);
    crt_ref_t *refs[2] = {crt_call(actor, &compute), crt_call(actor, &compute)}, *last;

    wait_inside(actor, 2);
    last = crt_call(actor, &die);
    assert_int_equal(crt_get_for(last, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&last);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(crt_get_for(refs[i], PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
        crt_ref_drop(&refs[i]);
    }
    crt_actor_drop(&actor);
}

static void an_actor_that_ends_waits_for_the_calls_that_run(void **state)
{
    crt_actor_t *actor = new_worker(3);
    crt_ref_t *refs[2] = {crt_call(actor, &compute), crt_call(actor, &compute)};

    wait_inside(actor, 2);
    OK(crt_actor_kill(actor, NULL)); /* crt_cancelled tells them; destroy runs alone */
    for (int i = 0; i < 2; i++) {
        crt_status_t status = crt_get_for(refs[i], PATIENCE_MS, NULL);

        assert_true(status == CRT_OK || status == CRT_ERR_ACTOR_DIED);
        crt_ref_drop(&refs[i]);
    }
    crt_actor_drop(&actor);
}

static void a_thousand_calls_are_spread_over_hundred_threads(void **state)
{
    enum { CALLS = 1000, THREADS = 100 };
    crt_actor_t *actor = new_worker(THREADS);
    crt_ref_t **refs = calloc(CALLS, sizeof(*refs));

    for (int i = 0; i < CALLS; i++)
        refs[i] =
            i < THREADS - 1 ? crt_call(actor, &compute) : crt_call(actor, &started, i);
    for (int i = THREADS - 1; i < CALLS; i++)
        result(refs[i]);
    wait_inside(actor, THREADS - 1);
    result(crt_call(actor, &open_gate));
    for (int i = 0; i < THREADS - 1; i++)
        result(refs[i]);
    free(refs);
    end(actor);
}

/* Threads are woken as the length of the calls asks for. */
static void short_and_long_calls_all_end(void **state)
{
    enum { CALLS = 400, ROUNDS = 20 };
    static const int64_t lengths_us[] = {0, 0, 0, 10, 0, 60, 0, 0, 300, 0, 0, 0, 1000};
    crt_actor_t *actor = new_worker(4);
    crt_ref_t *refs[CALLS];

    for (int r = 0; r < ROUNDS; r++) {
        int count = 1 + r * (CALLS - 1) / (ROUNDS - 1);

        for (int i = 0; i < count; i++)
            refs[i] = crt_call(actor, &spin, lengths_us[(i * 7 + r) % 13]);
        for (int i = 0; i < count; i++)
            assert_int_equal(result(refs[i]), lengths_us[(i * 7 + r) % 13]);
    }
    end(actor);
}

static void refused(crt_actor_t *actor, const char *text)
{
    crt_ref_t *ref = crt_call(actor, &nothing);

    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_INVALID);
    if (!strstr(crt_error_detail(), text))
        fail_msg("\"%s\" has no \"%s\"", crt_error_detail(), text);
    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
}

static void what_is_not_declared_or_out_of_range_is_refused(void **state)
{
    crt_actor_t *actor = new_worker(1);
    crt_ref_t *ref;

    refused(crt_actor_new(&worker_class, CRT_ACTOR_OPTIONS(.max_concurrency = -1)),
            "max_concurrency is -1");
    refused(crt_actor_new(&worker_class, CRT_ACTOR_OPTIONS(.max_concurrency = 1001)),
            "max_concurrency is 1001");
    ref =
        crt_call_with(actor, &nothing, CRT_CALL_OPTIONS(.concurrency_group = &stranger));
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "no concurrency group stranger"));
    crt_ref_drop(&ref);
    /* Another description of the same name is that group. */
    result(
        crt_call_with(actor, &started, CRT_CALL_OPTIONS(.concurrency_group = &far), 0));
    end(actor);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_call_is_answered_while_the_first_computes),
        cmocka_unit_test(so_many_run_at_a_time_and_no_more),
        cmocka_unit_test(groups_run_beside_each_other_each_with_its_number),
        cmocka_unit_test(calls_of_one_caller_start_in_their_order),
        cmocka_unit_test(out_of_order_a_call_does_not_wait_for_the_arguments_of_another),
        cmocka_unit_test(so_it_is_when_its_process_waits_for_them),
        cmocka_unit_test(the_state_tells_how_many_calls_wait_and_how_long),
        cmocka_unit_test(a_wait_inside_blocks_its_thread_only),
        cmocka_unit_test(an_actor_whose_calls_all_wait_for_its_own_says_so),
        cmocka_unit_test(two_actors_may_ask_each_other_as_often_as_they_have_threads),
        cmocka_unit_test(a_call_that_runs_beside_others_is_cancelled_alone),
        cmocka_unit_test(all_calls_that_run_fail_when_the_process_dies),
        cmocka_unit_test(an_actor_that_ends_waits_for_the_calls_that_run),
        cmocka_unit_test(a_thousand_calls_are_spread_over_hundred_threads),
        cmocka_unit_test(short_and_long_calls_all_end),
        cmocka_unit_test(what_is_not_declared_or_out_of_range_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&worker_class),
                                .tasks = CRT_TASKS(&slowly), .num_cpus = 2,
                                .object_store_memory = 64 << 20),
                    driver);
}
