/* SPDX-License-Identifier: Apache-2.0 */
/* What a program still has when it has left the cluster: values that were got stay as they are
 * until their refs are dropped, whatever becomes of the store; all else is refused; and other
 * threads may be anywhere meanwhile. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"

#define LARGE   ((int64_t)3 << 20) /* bytes: they lie in the store */
#define NUMBERS 100                /* refs in a list */

static int argc_of_main;
static char **argv_of_main;

/* ------------------------------------------------------------------ the program */

/* (size, byte) -> a tensor of so many of them */
static crt_status_t fill_run(crt_call_t *call)
{
    int64_t size;
    int byte;
    crt_object_t *object;
    crt_tensor_t view;

    CRT_TRY(crt_args(call, &size, &byte));
    CRT_TRY(crt_object_create(CRT_DTYPE_UINT8, 1, &size, &object, &view));
    memset(view.data, byte, (size_t)size);
    return crt_return(call, object);
}
static const crt_task_t fill =
    CRT_TASK(.name = "fill", .run = fill_run, .signature = "int, int");

/* A list of so many refs of the worker, in a list. */
static crt_status_t numbers_run(crt_call_t *call)
{
    crt_arg_t items[NUMBERS], inner;
    crt_status_t status;

    for (int i = 0; i < NUMBERS; i++)
        items[i] = crt_arg_ref(crt_put(i));
    inner = crt_arg_ref(crt_put(crt_list(items, NUMBERS)));
    for (int i = 0; i < NUMBERS; i++)
        crt_ref_drop(&items[i].as.ref);
    status = crt_return(call, crt_list(&inner, 1));
    crt_ref_drop(&inner.as.ref);
    return status;
}
static const crt_task_t numbers =
    CRT_TASK(.name = "numbers", .run = numbers_run, .signature = "");

static crt_status_t add_run(void *self, crt_call_t *call)
{
    return crt_return(call, ++*(int64_t *)self);
}
static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "");
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(int64_t),
                    .methods = CRT_METHODS(&add));

static const crt_options_t program = {.struct_size = sizeof(program),
                                      .classes = CRT_CLASSES(&counter),
                                      .tasks = CRT_TASKS(&fill, &numbers),
                                      .num_cpus = 2,
                                      .no_log_to_driver = true,
                                      .object_store_memory = 64 << 20};

static void join_cluster(void)
{
    OK(crt_init(argc_of_main, argv_of_main, &program));
}

/* ------------------------------------------------------------------ values */

static bool is_all(const crt_tensor_t *tensor, int byte)
{
    for (size_t i = 0; i < crt_tensor_bytes(tensor); i++)
        if (((const unsigned char *)tensor->data)[i] != byte)
            return false;
    return true;
}

static void a_value_that_was_got_is_there_until_its_ref_is_dropped(void **state)
{
    const crt_tensor_t *large, *again, *small;
    crt_ref_t *refs[3], *kept;

    join_cluster();
    refs[0] = crt_submit(&fill, NULL, LARGE, 7);
    refs[1] = crt_submit(&fill, NULL, 100, 8);
    refs[2] = crt_submit(&fill, NULL, LARGE, 9); /* that nobody gets */
    OK(crt_get(refs[0], &large));
    OK(crt_get(refs[1], &small));
    OK(crt_get(refs[2], NULL));
    OK(crt_shutdown());
    assert_true(is_all(large, 7));
    assert_true(is_all(small, 8));
    OK(crt_get(refs[0], &again));
    assert_ptr_equal(again, large);
    join_cluster(); /* another store, perhaps at the same place */
    kept = crt_ref_keep(refs[0]);
    assert_true(is_all(large, 7));
    crt_refs_drop(refs, 3);
    assert_true(is_all(large, 7));
    OK(crt_shutdown());
    assert_true(is_all(large, 7));
    crt_ref_drop(&kept);
}

static void the_refs_in_a_list_that_was_got_live_as_long_as_it(void **state)
{
    crt_ref_t *parts[2], *list, *outer, *inner, *first;
    const crt_value_t *value;
    const crt_tensor_t *tensor;
    crt_arg_t items[2];

    join_cluster();
    for (int i = 0; i < 2; i++) {
        parts[i] = crt_submit(&fill, NULL, LARGE, i);
        items[i] = crt_arg_ref(parts[i]);
    }
    list = crt_put(crt_list(items, 2));
    items[0] = crt_arg_ref(list);
    outer = crt_put(crt_list(items, 1));
    crt_refs_drop(parts, 2);
    crt_ref_drop(&list);
    OK(crt_get(outer, &value));
    OK(crt_value_read(crt_value_at(value, 0), &inner));
    OK(crt_get(inner, &value));
    OK(crt_value_read(crt_value_at(value, 1), &first));
    OK(crt_get(first, &tensor));
    OK(crt_shutdown());
    assert_true(is_all(tensor, 1));
    OK(crt_get(inner, &value));
    OK(crt_get(first, &tensor));
    assert_true(is_all(tensor, 1));
    inner = crt_ref_keep(inner);
    crt_ref_drop(&outer);
    assert_true(is_all(tensor, 1));
    crt_ref_drop(&inner);
}

static void the_refs_of_a_long_list_of_somebody_else_end_in_any_order(void **state)
{
    crt_ref_t *outer, *inner, *ref, *kept[NUMBERS];
    const crt_value_t *value;
    int number;

    join_cluster();
    outer = crt_submit(&numbers, NULL);
    OK(crt_get(outer, &value));
    OK(crt_value_read(crt_value_at(value, 0), &inner));
    OK(crt_get(inner, &value));
    for (int i = 0; i < NUMBERS; i++) {
        OK(crt_value_read(crt_value_at(value, (size_t)i), &ref));
        if (i % 2)
            OK(crt_get(ref, &number));
        kept[i] = i % 5 ? NULL : crt_ref_keep(ref);
    }
    OK(crt_shutdown());
    for (int i = 0; i < NUMBERS; i++) {
        OK(crt_value_read(crt_value_at(value, (size_t)i), &ref));
        if (i % 2 == 0)
            continue;
        OK(crt_get(ref, &number));
        assert_int_equal(number, i);
    }
    crt_refs_drop(kept, NUMBERS / 2);
    crt_ref_drop(&outer);
    crt_refs_drop(kept + NUMBERS / 2, NUMBERS / 2);
}

/* ------------------------------------------------------------------ objects in writing */

typedef struct writer {
    crt_object_t *object;
    crt_tensor_t view;
    atomic_int rounds;
    atomic_bool is_over;
} writer_t;

static void *write_on(void *user)
{
    writer_t *w = user;

    while (!atomic_load(&w->is_over))
        memset(w->view.data, atomic_fetch_add(&w->rounds, 1), (size_t)LARGE);
    return NULL;
}

static void who_writes_an_object_meanwhile_writes_into_memory_of_his_own(void **state)
{
    writer_t w = {.rounds = 0};
    pthread_t thread;
    crt_ref_t *ref;
    int rounds;

    join_cluster();
    OK(crt_object_create(CRT_DTYPE_UINT8, 1, &(int64_t){LARGE}, &w.object, &w.view));
    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);
    while (atomic_load(&w.rounds) < 2)
        sched_yield();
    OK(crt_shutdown());
    rounds = atomic_load(&w.rounds);
    while (atomic_load(&w.rounds) < rounds + 2)
        sched_yield();
    atomic_store(&w.is_over, true);
    pthread_join(thread, NULL);
    ref = crt_object_seal(&w.object);
    assert_int_equal(crt_get(ref, NULL), CRT_ERR_NOT_INITIALIZED);
    crt_ref_drop(&ref);
}

/* ------------------------------------------------------------------ everything else */

static void each_function_is_refused_when_the_cluster_was_left(void **state)
{
    crt_actor_t *actor, *found = NULL;
    crt_ref_t *ref, *refs[2];
    crt_stream_t *stream;
    size_t ready;
    void *value;
    char *json;

    join_cluster();
    actor = crt_actor_new(&counter, NULL, 0);
    OK(crt_actor_ready(actor, 60000));
    ref = crt_call(actor, &add);
    stream = crt_submit_stream(&fill, NULL, 10, 1);
    OK(crt_get(ref, NULL));
    OK(crt_shutdown());
    assert_int_equal(crt_wait(&ref, 1, 1, -1, NULL, &ready), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_cancel(ref, NULL), CRT_ERR_CLOSED);
    assert_int_equal(crt_actor_ready(actor, -1), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_actor_kill(actor, NULL), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_actor_find("a", NULL, &counter, &found),
                     CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_tell(actor, &add), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_kv_put("a", "b", 1, true), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_kv_get("a", &value, &ready), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_cluster_state("nodes", &json), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_stream_next(stream, -1, &refs[0]), CRT_ERR_NOT_INITIALIZED);
    assert_string_equal(crt_node_id(), "");
    assert_string_equal(crt_gpu_ids(), "");
    assert_true(crt_ref_is_ready(ref));
    refs[0] = crt_call(actor, &add);
    refs[1] = crt_submit(&fill, NULL, ref, 1);
    assert_int_equal(crt_get(refs[0], NULL), CRT_ERR_NOT_INITIALIZED);
    assert_int_equal(crt_get(refs[1], NULL), CRT_ERR_NOT_INITIALIZED);
    crt_refs_drop(refs, 2);
    crt_ref_drop(&ref);
    crt_stream_drop(&stream);
    crt_actor_drop(&actor);
}

typedef struct race {
    pthread_barrier_t start;
    crt_ref_t *shared;
    crt_actor_t *actor;
    atomic_bool is_over;
    atomic_int wrong;
} race_t;

static void use_all(race_t *race)
{
    crt_ref_t *refs[5] = {crt_ref_keep(race->shared), crt_put(1),
                          crt_submit(&fill, NULL, LARGE, 3), crt_call(race->actor, &add),
                          NULL};
    crt_actor_t *actor = crt_actor_keep(race->actor);
    crt_object_t *object;
    crt_tensor_t view;
    const crt_tensor_t *tensor;
    size_t ready;

    refs[4] = crt_ref_keep(refs[2]);
    (void)crt_ref_is_ready(refs[3]);
    (void)crt_ref_error(refs[1]);
    (void)crt_wait(refs, 5, 5, 20, NULL, &ready);
    if (crt_get_for(refs[2], 20, &tensor) == CRT_OK)
        race->wrong += !is_all(tensor, 3);
    if (crt_get_for(refs[0], 20, &tensor) == CRT_OK)
        race->wrong += !is_all(tensor, 5);
    if (crt_object_create(CRT_DTYPE_UINT8, 1, &(int64_t){LARGE}, &object, &view) ==
        CRT_OK) {
        memset(view.data, 1, (size_t)LARGE);
        crt_object_abort(&object);
    }
    (void)crt_cancel(refs[2], NULL);
    crt_actor_drop(&actor);
    crt_refs_drop(refs, 5);
}

static void *race_on(void *user)
{
    race_t *race = user;

    pthread_barrier_wait(&race->start);
    while (!atomic_load(&race->is_over))
        use_all(race);
    return NULL;
}

static void other_threads_may_be_anywhere_when_the_cluster_is_left(void **state)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    const crt_tensor_t *tensor;

    for (int round = 0; round < 5; round++) {
        race_t race = {.is_over = false};

        pthread_barrier_init(&race.start, NULL, THREADS + 1);
        join_cluster();
        race.actor = crt_actor_new(&counter, NULL, 0);
        race.shared = crt_submit(&fill, NULL, LARGE, 5);
        OK(crt_get(race.shared, &tensor));
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, race_on, &race);
        pthread_barrier_wait(&race.start);
        usleep((useconds_t)(20000 + 7000 * round)); /* somewhere */
        OK(crt_shutdown());
        assert_true(is_all(tensor, 5));
        atomic_store(&race.is_over, true);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(race.wrong, 0);
        assert_true(is_all(tensor, 5));
        crt_ref_drop(&race.shared);
        crt_actor_drop(&race.actor);
        pthread_barrier_destroy(&race.start);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_that_was_got_is_there_until_its_ref_is_dropped),
        cmocka_unit_test(the_refs_in_a_list_that_was_got_live_as_long_as_it),
        cmocka_unit_test(the_refs_of_a_long_list_of_somebody_else_end_in_any_order),
        cmocka_unit_test(who_writes_an_object_meanwhile_writes_into_memory_of_his_own),
        cmocka_unit_test(each_function_is_refused_when_the_cluster_was_left),
        cmocka_unit_test(other_threads_may_be_anywhere_when_the_cluster_is_left),
    };

    argc_of_main = argc;
    argv_of_main = argv;
    /* A worker of ours is this program, too: it stays in the first crt_init. */
    if (getenv("CRT_ZYGOTE_FD") || getenv("CRT_WORKER"))
        return crt_init(argc, argv, &program) != CRT_OK;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
