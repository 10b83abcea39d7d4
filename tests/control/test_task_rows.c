/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes tell of calls becomes one row for each attempt, of which a query picks and counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "runtime/base/task_records.h"
#include "runtime/control/rows/state_rows.h"

#define OWNER_HEX "00000000000000010000000000000002"
#define TASK_HEX  OWNER_HEX "0000000000000005"
#define OTHER_HEX OWNER_HEX "0000000000000006"

typedef struct answers {
    crti_buffer_t list;
} answers_t;

static void answers_fini_auto(answers_t *answers)
{
    crti_buffer_fini(&answers->list);
}

/* An entry of attempt 9 of call 5. */
static crti_task_record_t entry(bool is_run, crti_task_state_t state, uint64_t at_ms)
{
    crti_task_record_t record = {
        .event = {.owner = {1, 2}, .number = 5, .attempt = 9, .is_run = is_run}};

    if (is_run) {
        record.event.worker = (crti_id_t){3, 4};
        record.event.pid = 9;
        record.event.number = 6; /* as who runs it knows it */
        crti_task_set_text(record.event.text, sizeof(record.event.text), "why", 3);
    } else {
        record.job = (crti_id_t){5, 6};
    }
    crti_task_set_text(record.event.name, sizeof(record.event.name), "f", 1);
    crti_task_set_state(&record.event, state, at_ms * CRTI_MS);
    return record;
}

/* One node's answer. */
static void say(answers_t *answers, const crti_task_record_t *records, size_t count,
                uint64_t dropped, const char *transfers)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t answer = {0};

    assert_int_equal(crti_task_records_begin(dropped, &bytes), CRT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(crti_task_records_add(&records[i], &bytes), CRT_OK);
    assert_int_equal(crti_list_pack(&answer, bytes.data, bytes.size), CRT_OK);
    assert_int_equal(crti_list_pack(&answer, transfers, strlen(transfers)), CRT_OK);
    assert_int_equal(crti_list_pack(&answers->list, answer.data, answer.size), CRT_OK);
}

static json_t *join(const answers_t *answers, const char *filter)
{
    CRTI_AUTO(free)
    char *text = crti_task_rows_join(crti_span(answers->list.data, answers->list.size),
                                     crti_str(filter), 1);
    json_t *json;

    assert_non_null(text);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    return json;
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static size_t rows_of(const json_t *all)
{
    return json_array_size(json_object_get(all, "tasks"));
}

static json_int_t number_of(const json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

static void expect_joined(crti_task_state_t called, crti_task_state_t ran,
                          const char *state)
{
    for (size_t i = 0; i < 2; i++) {
        CRTI_AUTO(answers_fini) answers_t answers = {0};
        crti_task_record_t caller = entry(false, CRTI_TASK_ARGUMENTS, 1),
                           worker = entry(true, CRTI_TASK_RUNNING, 3);
        json_t *all, *row;

        crti_task_set_state(&caller.event, called, 2 * CRTI_MS);
        if (ran != CRTI_TASK_RUNNING)
            crti_task_set_state(&worker.event, ran, 4 * CRTI_MS);
        say(&answers, i ? &caller : &worker, 1, i ? 5 : 1, "[]");
        say(&answers, i ? &worker : &caller, 1, i ? 1 : 5, "[]");
        all = join(&answers, "");
        assert_int_equal(rows_of(all), 1);
        row = json_array_get(json_object_get(all, "tasks"), 0);
        assert_string_equal(text_of(row, "task_id"), TASK_HEX);
        assert_string_equal(text_of(row, "state"), state);
        assert_string_equal(text_of(row, "worker_id"),
                            "00000000000000030000000000000004");
        assert_string_equal(text_of(row, "job_id"), "00000000000000050000000000000006");
        assert_int_equal(number_of(row, "worker_pid"), 9);
        assert_true(json_number_value(json_object_get(row, "creation_time")) == 1.0);
        assert_true(json_number_value(json_object_get(row, "start_time")) == 3.0);
        assert_int_equal(number_of(all, "dropped"), 6);
        assert_int_equal(number_of(all, "silent_nodes"), 1);
        json_decref(all);
    }
}

static void both_sides_of_an_attempt_are_one_row_in_any_order(void **state)
{
    expect_joined(CRTI_TASK_SENT, CRTI_TASK_RUNNING, "RUNNING");
    expect_joined(CRTI_TASK_SENT, CRTI_TASK_FINISHED, "FINISHED");
}

static void the_end_is_the_callers_to_tell(void **state)
{
    expect_joined(CRTI_TASK_FAILED, CRTI_TASK_RUNNING, "FAILED");
    expect_joined(CRTI_TASK_FINISHED, CRTI_TASK_FAILED, "FINISHED");
}

static void collectives_and_transfers_are_no_calls(void **state)
{
    CRTI_AUTO(answers_fini) answers_t answers = {0};
    crti_task_record_t collective = entry(true, CRTI_TASK_RUNNING, 3);
    const json_t *one;
    json_t *all;

    collective.event.kind = CRTI_TASK_COLLECTIVE;
    crti_task_set_state(&collective.event, CRTI_TASK_FINISHED, 5 * CRTI_MS);
    say(&answers, &collective, 1, 0, "[{\"object_id\":\"o\"}]");
    say(&answers, NULL, 0, 0, "[{\"object_id\":\"p\"}]");
    all = join(&answers, "");
    one = json_array_get(json_object_get(all, "collectives"), 0);
    assert_int_equal(rows_of(all), 0);
    assert_true(json_number_value(json_object_get(one, "start_time")) == 3.0);
    assert_true(json_number_value(json_object_get(one, "end_time")) == 5.0);
    assert_int_equal(json_array_size(json_object_get(all, "transfers")), 2);
    json_decref(all);
}

static void a_worker_alone_is_believed(void **state)
{
    CRTI_AUTO(answers_fini) answers_t answers = {0};
    crti_task_record_t worker = entry(true, CRTI_TASK_FAILED, 4);
    const json_t *row;
    json_t *all;

    worker.event.status = CRT_ERR_USER;
    say(&answers, &worker, 1, 0, "[]");
    all = join(&answers, OTHER_HEX);
    row = json_array_get(json_object_get(all, "tasks"), 0);
    assert_string_equal(text_of(row, "task_id"), OTHER_HEX);
    assert_string_equal(text_of(row, "error_type"), "CRT_ERR_USER");
    assert_string_equal(text_of(row, "error_message"), "why");
    assert_true(json_number_value(json_object_get(row, "end_time")) == 4.0);
    json_decref(all);
}

static void a_filter_may_be_the_id_of_a_task(void **state)
{
    CRTI_AUTO(answers_fini) answers_t answers = {0};
    crti_task_record_t caller = entry(false, CRTI_TASK_FAILED, 1);
    json_t *none, *one;

    say(&answers, &caller, 1, 0, "[]");
    none = join(&answers, OTHER_HEX);
    one = join(&answers, TASK_HEX);
    assert_int_equal(rows_of(none), 0);
    assert_int_equal(rows_of(one), 1);
    json_decref(none);
    json_decref(one);
}

/* 6 calls of "f" and 4 of "g", which begin one after the other; every third has failed. */
static void say_ten(answers_t *answers)
{
    crti_task_record_t records[10];

    for (size_t i = 0; i < 10; i++) {
        records[i] = entry(false, CRTI_TASK_ARGUMENTS, 10 + i);
        records[i].event.attempt = records[i].event.number = 1 + i;
        records[i].event.name[0] = i < 6 ? 'f' : 'g';
        crti_task_set_state(&records[i].event,
                            i % 3 ? CRTI_TASK_FINISHED : CRTI_TASK_FAILED, 30 * CRTI_MS);
        records[i].event.status = i % 3 ? CRT_OK : CRT_ERR_USER;
    }
    say(answers, records, 5, 0, "[]");
    say(answers, records + 5, 5, 0, "[]");
}

static void expect_picked(const char *query, size_t shown, json_int_t matched)
{
    CRTI_AUTO(answers_fini) answers_t answers = {0};
    json_t *all;

    say_ten(&answers);
    all = join(&answers, query);
    if (rows_of(all) != shown || number_of(all, "matched") != matched)
        fail_msg("%s: %zu rows of %lld", query, rows_of(all),
                 (long long)number_of(all, "matched"));
    assert_int_equal(number_of(all, "all"), 10);
    json_decref(all);
}

static void a_query_picks_rows_by_all_its_filters(void **state)
{
    expect_picked("{}", 10, 10);
    expect_picked("{\"limit\":3}", 3, 10);
    expect_picked("{\"limit\":0}", 0, 10);
    expect_picked("{\"filters\":[[\"name\",false,[\"G\"]]]}", 4, 4);
    expect_picked("{\"filters\":[[\"name\",true,[\"g\"]]],\"limit\":5}", 5, 6);
    expect_picked("{\"filters\":[[\"state\",false,[\"FAILED\"]],"
                  "[\"name\",false,[\"f\"]]]}",
                  2, 2);
    expect_picked("{\"filters\":[[\"name\",false,[\"f\",\"g\"]]]}", 10, 10);
    expect_picked("{\"filters\":[[\"name\",false,[]]]}", 0, 0);
    expect_picked("{\"filters\":[[\"name\",true,[]]]}", 10, 10);
    expect_picked("{\"filters\":[[\"error_type\",false,[\"crt_err_user\"]]]}", 4, 4);
    expect_picked("{\"filters\":[[\"creation_time\",false,[12]]]}", 1, 1);
    expect_picked("{\"filters\":[[\"start_time\",false,[12]]]}", 0, 0);
    expect_picked("{\"filters\":[[\"worker_pid\",false,[0]]]}", 10, 10);
    expect_picked("{\"filters\":[[\"worker_pid\",false,[\"0\"]]]}", 0, 0);
}

static void the_newest_are_picked_first(void **state)
{
    CRTI_AUTO(answers_fini) answers_t answers = {0};
    const json_t *row;
    json_t *all;

    say_ten(&answers);
    all = join(&answers, "{\"limit\":1,\"filters\":[[\"name\",false,[\"f\"]]]}");
    row = json_array_get(json_object_get(all, "tasks"), 0);
    assert_string_equal(text_of(row, "task_id"), OTHER_HEX);
    json_decref(all);
}

static void a_query_counts_rows_by_their_texts(void **state)
{
    CRTI_AUTO(answers_fini) answers_t answers = {0};
    const json_t *groups, *group;
    json_int_t sum = 0;
    json_t *all;
    size_t i;

    say_ten(&answers);
    all = join(&answers, "{\"count_by\":[\"name\",\"state\"],\"limit\":0,"
                         "\"filters\":[[\"state\",true,[\"RUNNING\"]]]}");
    groups = json_object_get(all, "groups");
    assert_int_equal(json_array_size(groups), 4);
    json_array_foreach((json_t *)groups, i, group)
    {
        bool is_f = strcmp(text_of(group, "name"), "f") == 0,
             failed = strcmp(text_of(group, "state"), "FAILED") == 0;

        assert_int_equal(number_of(group, "count"), is_f && !failed ? 4 : 2);
        sum += number_of(group, "count");
    }
    assert_int_equal(sum, 10);
    assert_int_equal(rows_of(all), 0);
    json_decref(all);
}

static void a_query_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "{",
        "{\"limit\":-1}",
        "{\"limit\":\"1\"}",
        "{\"count_by\":[\"colour\"]}",
        "{\"filters\":[[\"colour\",false,[\"red\"]]]}",
        "{\"filters\":[1]}",
        "{\"filters\":[[\"name\",false]]}",
        "{\"filters\":[[\"name\",false,[null]]]}",
        "{\"filters\":[[\"name\",false,[1,2,3,4,5]]]}",
        "{\"count_by\":[\"name\",\"name\",\"name\",\"name\",\"name\",\"name\"]}"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (crti_task_rows_check(crti_str(bad[i])) != CRT_ERR_INVALID)
            fail_msg("%s was not refused", bad[i]);
        assert_null(crti_task_rows_join(crti_span(NULL, 0), crti_str(bad[i]), 0));
    }
    assert_int_equal(crti_task_rows_check(crti_str("{\"limit\":1}")), CRT_OK);
    assert_int_equal(crti_task_rows_check(crti_str(TASK_HEX)), CRT_OK);
}

static void what_is_no_answer_is_left_out(void **state)
{
    static const char odd[][8] = {"", "{", "\4\0\0\0abc", "\x7f\0\0\0"};
    CRTI_AUTO(answers_fini) answers_t answers = {0};
    crti_task_record_t caller = entry(false, CRTI_TASK_FAILED, 1);
    json_t *all;

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        assert_int_equal(crti_list_pack(&answers.list, odd[i], sizeof(odd[i])), CRT_OK);
    say(&answers, &caller, 1, 0, "{");
    all = join(&answers, "");
    assert_int_equal(rows_of(all), 1);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_of_an_attempt_are_one_row_in_any_order),
        cmocka_unit_test(the_end_is_the_callers_to_tell),
        cmocka_unit_test(collectives_and_transfers_are_no_calls),
        cmocka_unit_test(a_worker_alone_is_believed),
        cmocka_unit_test(a_filter_may_be_the_id_of_a_task),
        cmocka_unit_test(a_query_picks_rows_by_all_its_filters),
        cmocka_unit_test(the_newest_are_picked_first),
        cmocka_unit_test(a_query_counts_rows_by_their_texts),
        cmocka_unit_test(a_query_that_is_none_is_refused),
        cmocka_unit_test(what_is_no_answer_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
