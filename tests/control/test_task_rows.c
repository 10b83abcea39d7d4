/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes tell of calls becomes one row for each attempt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "runtime/control/control_int.h"

static json_t *join(const char *const *answers, size_t count, const char *filter)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    CRTI_AUTO(free) char *text = NULL;
    json_t *json;

    for (size_t i = 0; i < count; i++)
        assert_int_equal(crti_list_pack(&list, answers[i], strlen(answers[i])), CRT_OK);
    text = crti_task_rows_join(crti_span(list.data, list.size), filter, 1);
    assert_non_null(text);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    return json;
}

#define CALLER(state)                                                                    \
    "{\"tasks\":[{\"task_id\":\"t\",\"attempt_id\":\"a\",\"is_run\":false,\"state\":"    \
    "\"" state "\",\"name\":\"f\",\"worker_id\":\"\",\"worker_pid\":0,\"events\":"       \
    "{\"PENDING_ARGS_AVAIL\":1.0,\"SUBMITTED_TO_WORKER\":2.0}}],\"dropped\":5}"
#define WORKER(state)                                                                    \
    "{\"tasks\":[{\"task_id\":\"a\",\"attempt_id\":\"a\",\"is_run\":true,\"state\":"     \
    "\"" state                                                                           \
    "\",\"name\":\"f\",\"worker_id\":\"w\",\"worker_pid\":9,\"node_id\":\"n\","          \
    "\"error_message\":\"why\",\"events\":{\"" state "\":4.0,\"RUNNING\":3.0}}],"        \
    "\"dropped\":1}"

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static void expect_joined(const char *caller, const char *worker, const char *state)
{
    const char *const orders[2][2] = {{caller, worker}, {worker, caller}};

    for (size_t i = 0; i < 2; i++) {
        json_t *all = join(orders[i], 2, ""), *row;

        assert_int_equal(json_array_size(json_object_get(all, "tasks")), 1);
        row = json_array_get(json_object_get(all, "tasks"), 0);
        assert_string_equal(text_of(row, "task_id"), "t");
        assert_string_equal(text_of(row, "state"), state);
        assert_string_equal(text_of(row, "worker_id"), "w");
        assert_int_equal(json_integer_value(json_object_get(row, "worker_pid")), 9);
        assert_true(json_number_value(json_object_get(row, "creation_time")) == 1.0);
        assert_true(json_number_value(json_object_get(row, "start_time")) == 3.0);
        assert_null(json_object_get(row, "attempt_id"));
        assert_int_equal(json_integer_value(json_object_get(all, "dropped")), 6);
        assert_int_equal(json_integer_value(json_object_get(all, "silent_nodes")), 1);
        json_decref(all);
    }
}

static void both_sides_of_an_attempt_are_one_row_in_any_order(void **state)
{
    expect_joined(CALLER("SUBMITTED_TO_WORKER"), WORKER("RUNNING"), "RUNNING");
    expect_joined(CALLER("SUBMITTED_TO_WORKER"), WORKER("FINISHED"), "FINISHED");
}

static void the_end_is_the_callers_to_tell(void **state)
{
    expect_joined(CALLER("FAILED"), WORKER("RUNNING"), "FAILED");
    expect_joined(CALLER("FINISHED"), WORKER("FAILED"), "FINISHED");
}

static void collectives_and_transfers_are_no_calls(void **state)
{
    static const char *const answers[] = {
        "{\"tasks\":[{\"task_id\":\"t\",\"attempt_id\":\"a\",\"is_run\":true,\"type\":"
        "\"COLLECTIVE\",\"state\":\"FINISHED\",\"events\":{\"RUNNING\":3.0,"
        "\"FINISHED\":5.0}},{\"type\":\"COLLECTIVE\"}],"
        "\"transfers\":[{\"object_id\":\"o\"}]}",
        "{\"tasks\":[],\"transfers\":[{\"object_id\":\"p\"}]}"};
    json_t *all = join(answers, 2, "");
    const json_t *collectives = json_object_get(all, "collectives");
    const json_t *one = json_array_get(collectives, 0);

    assert_int_equal(json_array_size(json_object_get(all, "tasks")), 0);
    assert_int_equal(json_array_size(collectives), 1);
    assert_true(json_number_value(json_object_get(one, "start_time")) == 3.0);
    assert_true(json_number_value(json_object_get(one, "end_time")) == 5.0);
    assert_int_equal(json_array_size(json_object_get(all, "transfers")), 2);
    json_decref(all);
}

static void a_worker_alone_is_believed(void **state)
{
    static const char *const answers[] = {WORKER("FAILED")};
    json_t *all = join(answers, 1, "a"),
           *row = json_array_get(json_object_get(all, "tasks"), 0);

    assert_string_equal(text_of(row, "task_id"), "a");
    assert_string_equal(text_of(row, "error_message"), "why");
    assert_true(json_number_value(json_object_get(row, "end_time")) == 4.0);
    json_decref(all);
}

static void a_filter_is_the_id_of_a_task(void **state)
{
    static const char *const answers[] = {CALLER("FAILED"), WORKER("FAILED")};
    json_t *none = join(answers, 2, "a"), *one = join(answers, 2, "t");

    assert_int_equal(json_array_size(json_object_get(none, "tasks")), 0);
    assert_int_equal(json_array_size(json_object_get(one, "tasks")), 1);
    json_decref(none);
    json_decref(one);
}

static void what_is_no_answer_is_left_out(void **state)
{
    static const char *const answers[] = {"{", "[]", "{\"tasks\":[3,{}]}",
                                          "{\"tasks\":[{\"attempt_id\":\"x\"}]}"};
    json_t *all = join(answers, 4, "");

    assert_int_equal(json_array_size(json_object_get(all, "tasks")), 0);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_of_an_attempt_are_one_row_in_any_order),
        cmocka_unit_test(the_end_is_the_callers_to_tell),
        cmocka_unit_test(collectives_and_transfers_are_no_calls),
        cmocka_unit_test(a_worker_alone_is_believed),
        cmocka_unit_test(a_filter_is_the_id_of_a_task),
        cmocka_unit_test(what_is_no_answer_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
