/* SPDX-License-Identifier: Apache-2.0 */
/* The whole library on a private cluster: calls, tasks, refs, values, waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ok.h"
#include "program.h"

#include <cmocka.h>

static int64_t get_int(crt_ref_t *ref)
{
    int64_t value = 0;

    OK(crt_get(ref, &value));
    crt_ref_drop(&ref);
    return value;
}

static void a_task_runs_and_returns(void **state)
{
    assert_int_equal(get_int(crt_submit(&t_add, NULL, 2, 3)), 5);
}

static void values_of_every_kind_go_there_and_back(void **state)
{
    char *large = malloc(200001);
    float numbers[6] = {1, 2, 3, 4, 5, 6};
    crt_tensor_t tensor = crt_tensor_floats(numbers, 6);
    const crt_tensor_t *back;
    const char *text;
    crt_bytes_t bytes;
    crt_ref_t *ref = crt_submit(&t_echo, NULL, "hello");
    double number;

    OK(crt_get(ref, &text));
    assert_string_equal(text, "hello");
    crt_ref_drop(&ref);
    ref = crt_submit(&t_echo, NULL, 2.5);
    OK(crt_get(ref, &number));
    assert_true(number == 2.5);
    crt_ref_drop(&ref);
    ref = crt_submit(&t_echo, NULL, &tensor);
    OK(crt_get(ref, &back));
    assert_memory_equal(back->data, numbers, sizeof(numbers));
    crt_ref_drop(&ref);
    memset(large, 'y', 200000);
    large[200000] = '\0';
    ref = crt_submit(&t_echo, NULL, (const char *)large);
    OK(crt_get(ref, &text));
    assert_string_equal(text, large);
    crt_ref_drop(&ref);
    ref = crt_submit(&t_echo, NULL, ((crt_bytes_t){large, 100000}));
    OK(crt_get(ref, &bytes));
    assert_int_equal(bytes.size, 100000);
    crt_ref_drop(&ref);
    free(large);
}

static void a_call_that_returns_nothing_gives_none(void **state)
{
    crt_actor_t *counter = crt_actor_new(&counter_class, NULL, 0);
    crt_ref_t *ref = crt_call(counter, &counter_append, 1);
    const crt_value_t *value;

    OK(crt_get(ref, &value));
    assert_int_equal(crt_value_kind(value), CRT_KIND_NONE);
    OK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
    OK(crt_actor_kill(counter, NULL));
    crt_actor_drop(&counter);
}

static void an_actor_keeps_its_state_and_the_order_of_calls(void **state)
{
    enum { CALLS = 500 };
    crt_actor_t *counter = crt_actor_new(&counter_class, NULL, 100);
    crt_ref_t *refs[CALLS], *text_ref;
    char expected[4096] = "";
    const char *text;

    for (int i = 0; i < CALLS; i++)
        refs[i] = crt_call(counter, &counter_add, 1);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(get_int(refs[i]), 101 + i);
    for (int i = 0; i < 300; i++) {
        refs[i] = crt_call(counter, &counter_append, i);
        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%d,",
                 i);
    }
    text_ref = crt_call(counter, &counter_text);
    OK(crt_get(text_ref, &text));
    assert_string_equal(text, expected);
    crt_refs_drop(refs, 300);
    crt_ref_drop(&text_ref);
    OK(crt_actor_kill(counter, NULL));
    crt_actor_drop(&counter);
}

static void calls_keep_their_order_when_an_argument_is_pending(void **state)
{
    crt_actor_t *counter = crt_actor_new(&counter_class, NULL, 0);
    crt_ref_t *slow = crt_submit(&t_sleep, NULL, 50);
    crt_ref_t *first = crt_call(counter, &counter_append, slow);
    crt_ref_t *second = crt_call(counter, &counter_append, 7);
    crt_ref_t *text_ref = crt_call(counter, &counter_text);
    const char *text;

    OK(crt_get(text_ref, &text));
    assert_string_equal(text, "50,7,");
    crt_refs_drop((crt_ref_t *[]){slow, first, second, text_ref}, 4);
    OK(crt_actor_kill(counter, NULL));
    crt_actor_drop(&counter);
}

static void large_results_pass_between_tasks_by_reference(void **state)
{
    crt_ref_t *parts[3], *sum_ref;
    double sum;

    for (int i = 0; i < 3; i++)
        parts[i] = crt_submit(&t_floats, NULL, 100000, (double)(i + 1));
    sum_ref = crt_submit(&t_sum, NULL, crt_arg_each(parts, 3));
    crt_refs_drop(parts, 3);
    OK(crt_get(sum_ref, &sum));
    assert_true(sum == 600000);
    crt_ref_drop(&sum_ref);
}

static void a_large_argument_by_value_goes_through_the_store(void **state)
{
    enum { COUNT = 100000 };
    float *numbers = malloc(COUNT * sizeof(float));
    crt_tensor_t tensor = crt_tensor_floats(numbers, COUNT);
    crt_ref_t *ref;
    double sum;

    for (int i = 0; i < COUNT; i++)
        numbers[i] = 0.5f;
    ref = crt_submit(&t_sum, NULL, &tensor, &tensor);
    free(numbers);
    OK(crt_get(ref, &sum));
    assert_true(sum == COUNT);
    crt_ref_drop(&ref);
}

static void put_and_get_of_small_and_large_values(void **state)
{
    enum { COUNT = 1 << 20 };
    float *numbers = calloc(COUNT, sizeof(float));
    crt_tensor_t tensor = crt_tensor_floats(numbers, COUNT);
    const crt_tensor_t *back;
    crt_ref_t *ref = crt_put(7);

    assert_int_equal(get_int(ref), 7);
    numbers[COUNT - 1] = 3;
    ref = crt_put(&tensor);
    OK(crt_get(ref, &back));
    assert_int_equal((uintptr_t)back->data % 64, 0);
    assert_memory_equal(back->data, numbers, COUNT * sizeof(float));
    crt_ref_drop(&ref);
    free(numbers);
}

static void objects_are_written_in_place_and_returned(void **state)
{
    crt_ref_t *ref = crt_submit(&t_object, NULL, 50000), *sealed;
    const crt_tensor_t *tensor;
    crt_object_t *object;
    crt_tensor_t view;
    int64_t shape = 10;

    OK(crt_get(ref, &tensor));
    for (int i = 0; i < 50000; i++)
        assert_int_equal(((const int32_t *)tensor->data)[i], i);
    crt_ref_drop(&ref);
    OK(crt_object_create(CRT_DTYPE_FLOAT32, 1, &shape, &object, &view));
    for (int i = 0; i < 10; i++)
        ((float *)view.data)[i] = 2;
    sealed = crt_object_seal(&object);
    assert_null(object);
    ref = crt_submit(&t_sum, NULL, sealed);
    crt_ref_drop(&sealed);
    assert_int_equal(get_int(ref), 20);
    OK(crt_object_create(CRT_DTYPE_FLOAT32, 1, &shape, &object, &view));
    crt_object_abort(&object);
    assert_null(object);
}

static void tasks_within_tasks_need_no_process_per_level(void **state)
{
    assert_int_equal(get_int(crt_submit(&t_recurse, NULL, 200)), 200);
}

static void refs_inside_values_are_borrowed(void **state)
{
    crt_ref_t *list_ref = crt_submit(&t_put_list, NULL, 50), *first, *sum;
    const crt_value_t *list;

    OK(crt_get(list_ref, &list));
    assert_int_equal(crt_value_count(list), 50);
    OK(crt_value_read(crt_value_at(list, 49), &first));
    first = crt_ref_keep(first);
    sum = crt_submit(&t_sum_refs, NULL, list_ref);
    crt_ref_drop(&list_ref);
    assert_int_equal(get_int(sum), 49 * 50 / 2);
    assert_int_equal(get_int(first), 49);
}

static void a_returned_ref_gives_its_value(void **state)
{
    crt_ref_t *value = crt_put(77), *ref;
    crt_arg_t items[] = {crt_arg_ref(value)};

    ref = crt_submit(&t_first_ref, NULL, crt_list(items, 1));
    crt_ref_drop(&value);
    assert_int_equal(get_int(ref), 77);
}

static void an_actor_may_keep_a_ref_beyond_the_call(void **state)
{
    crt_actor_t *counter = crt_actor_new(&counter_class, NULL, 0);
    crt_ref_t *floats = crt_submit(&t_floats, NULL, 50000, 4.5);
    crt_ref_t *kept = crt_call(counter, &counter_keep, floats);
    double value;

    OK(crt_get(kept, NULL));
    crt_ref_drop(&kept);
    crt_ref_drop(&floats);
    kept = crt_call(counter, &counter_kept);
    OK(crt_get(kept, &value));
    assert_true(value == 4.5);
    crt_ref_drop(&kept);
    OK(crt_actor_kill(counter, NULL));
    crt_actor_drop(&counter);
}

static void wait_gives_those_that_are_ready(void **state)
{
    crt_ref_t *refs[3] = {crt_submit(&t_sleep, NULL, 3000), crt_submit(&t_sleep, NULL, 1),
                          crt_put(1)};
    size_t ready[3], count = 0;

    assert_int_equal(crt_wait(refs, 3, 2, 2000, ready, &count), CRT_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ready[0], 1);
    assert_int_equal(ready[1], 2);
    assert_int_equal(crt_wait(refs, 3, 3, 1, ready, &count), CRT_ERR_TIMED_OUT);
    assert_int_equal(count, 2);
    assert_false(crt_ref_is_ready(refs[0]));
    assert_int_equal(crt_get_for(refs[0], 1, NULL), CRT_ERR_TIMED_OUT);
    crt_refs_drop(refs, 3);
}

static void a_ref_that_stands_twice_in_a_list_is_ready_at_both_places(void **state)
{
    crt_ref_t *a = crt_submit(&t_sleep, NULL, 100), *b = crt_submit(&t_sleep, NULL, 200);
    crt_ref_t *kept = crt_ref_keep(a), *list[5] = {a, b, kept, a, b};
    size_t ready[5], count = 0;

    OK(crt_wait(list, 5, 3, 20000, ready, &count));
    assert_int_equal(count, 3);
    assert_int_equal(ready[0], 0);
    assert_int_equal(ready[1], 2);
    assert_int_equal(ready[2], 3);
    OK(crt_wait(list, 5, 5, 20000, ready, &count));
    assert_int_equal(count, 5);
    crt_refs_drop((crt_ref_t *[]){a, b, kept}, 3);
}

static void a_ref_may_be_several_arguments_of_a_call(void **state)
{
    crt_ref_t *ref = crt_submit(&t_sleep, NULL, 50);

    assert_int_equal(get_int(crt_submit(&t_add, NULL, ref, ref)), 100);
    crt_ref_drop(&ref);
}

static void a_named_actor_is_found_and_killed(void **state)
{
    crt_actor_t *counter =
        crt_actor_new(&counter_class, CRT_ACTOR_OPTIONS(.name = "the counter"), 5);
    crt_actor_t *found = NULL, *second;
    crt_ref_t *ref;

    OK(crt_actor_ready(counter, 20000));
    OK(crt_actor_find("the counter", NULL, &counter_class, &found));
    assert_string_equal(crt_actor_id(found), crt_actor_id(counter));
    assert_int_equal(get_int(crt_call(found, &counter_add, 1)), 6);
    assert_int_equal(crt_actor_find("the counter", NULL, &broken_class, &second),
                     CRT_ERR_INVALID);
    second = crt_actor_new(&counter_class, CRT_ACTOR_OPTIONS(.name = "the counter"), 5);
    assert_int_equal(crt_actor_ready(second, 20000), CRT_ERR_EXISTS);
    crt_actor_drop(&second);
    OK(crt_actor_kill(found, NULL));
    ref = crt_call(counter, &counter_get);
    assert_int_equal(crt_get(ref, NULL), CRT_ERR_ACTOR_DIED);
    assert_false(crt_ref_error(ref)->may_have_run);
    crt_ref_drop(&ref);
    assert_int_equal(crt_actor_find("the counter", NULL, NULL, &second),
                     CRT_ERR_NOT_FOUND);
    crt_actor_drop(&found);
    crt_actor_drop(&counter);
}

static void tell_needs_no_ref(void **state)
{
    crt_actor_t *counter = crt_actor_new(&counter_class, NULL, 0);

    for (int i = 0; i < 10; i++)
        OK(crt_tell(counter, &counter_add, 1));
    assert_int_equal(get_int(crt_call(counter, &counter_get)), 10);
    OK(crt_actor_kill(counter, NULL));
    crt_actor_drop(&counter);
}

static void keys_and_values_are_kept_by_the_head(void **state)
{
    void *value;
    size_t size;
    char *json, pid[32];

    OK(crt_kv_put("a key", "value", 5, false));
    assert_int_equal(crt_kv_put("a key", "other", 5, false), CRT_ERR_EXISTS);
    OK(crt_kv_get("a key", &value, &size));
    assert_int_equal(size, 5);
    assert_memory_equal(value, "value", 5);
    crt_free(value);
    OK(crt_kv_delete("a key"));
    assert_int_equal(crt_kv_get("a key", &value, &size), CRT_ERR_NOT_FOUND);
    assert_int_equal(crt_kv_get("", &value, &size), CRT_ERR_INVALID);
    OK(crt_cluster_state("nodes", &json));
    assert_non_null(strstr(json, crt_node_id()));
    crt_free(json);
    /* The processes of this node too, which is the one that asks. */
    snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)getpid());
    OK(crt_cluster_state("workers", &json));
    assert_non_null(strstr(json, pid));
    crt_free(json);
}

static void actors_call_each_other(void **state)
{
    crt_actor_t *a = crt_actor_new(&counter_class, NULL, 1);
    crt_actor_t *b = crt_actor_new(&counter_class, NULL, 2);

    assert_int_equal(get_int(crt_call(a, &counter_call_other, b, 0, a)), 2);
    OK(crt_actor_kill(a, NULL));
    OK(crt_actor_kill(b, NULL));
    crt_actor_drop(&a);
    crt_actor_drop(&b);
}

static void short_tasks_do_not_wait_behind_a_long_one(void **state)
{
    enum { COUNT = 30 };
    crt_ref_t *refs[COUNT], *slow;
    size_t ready;

    /* So that tasks are known to be short, and are pipelined. */
    for (int i = 0; i < COUNT; i++)
        refs[i] = crt_submit(&t_add, NULL, i, 1);
    for (int i = 0; i < COUNT; i++)
        get_int(refs[i]);
    slow = crt_submit(&t_sleep, NULL, 8000);
    for (int i = 0; i < COUNT; i++)
        refs[i] = crt_submit(&t_add, NULL, i, 1);
    OK(crt_wait(refs, COUNT, COUNT, 4000, NULL, &ready));
    assert_false(crt_ref_is_ready(slow));
    crt_refs_drop(refs, COUNT);
    crt_ref_drop(&slow);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_runs_and_returns),
        cmocka_unit_test(values_of_every_kind_go_there_and_back),
        cmocka_unit_test(a_call_that_returns_nothing_gives_none),
        cmocka_unit_test(an_actor_keeps_its_state_and_the_order_of_calls),
        cmocka_unit_test(calls_keep_their_order_when_an_argument_is_pending),
        cmocka_unit_test(large_results_pass_between_tasks_by_reference),
        cmocka_unit_test(a_large_argument_by_value_goes_through_the_store),
        cmocka_unit_test(put_and_get_of_small_and_large_values),
        cmocka_unit_test(objects_are_written_in_place_and_returned),
        cmocka_unit_test(tasks_within_tasks_need_no_process_per_level),
        cmocka_unit_test(refs_inside_values_are_borrowed),
        cmocka_unit_test(a_returned_ref_gives_its_value),
        cmocka_unit_test(an_actor_may_keep_a_ref_beyond_the_call),
        cmocka_unit_test(wait_gives_those_that_are_ready),
        cmocka_unit_test(a_ref_that_stands_twice_in_a_list_is_ready_at_both_places),
        cmocka_unit_test(a_ref_may_be_several_arguments_of_a_call),
        cmocka_unit_test(a_named_actor_is_found_and_killed),
        cmocka_unit_test(tell_needs_no_ref),
        cmocka_unit_test(keys_and_values_are_kept_by_the_head),
        cmocka_unit_test(actors_call_each_other),
        cmocka_unit_test(short_tasks_do_not_wait_behind_a_long_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = PROGRAM_CLASSES, .tasks = PROGRAM_TASKS,
                                .num_cpus = 2, .object_store_memory = 64 << 20),
                    driver);
}
