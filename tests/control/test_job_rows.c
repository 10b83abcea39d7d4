/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of jobs have a limit, whatever jobs have printed and users have said of them. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/control/control_state.h"
#include "runtime/control/outbox.h"
#include "runtime/control/rows/row_query.h"
#include "tests/control/control_test.h"

#define JOBS 900

static const crti_message_t *ask(bed_t *bed, const char *query)
{
    crti_msg_state_query_t m = {.what = crti_str("jobs"), .filter = crti_str(query)};

    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 8, &m);
    return bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER);
}

/* The answer. Caller owns it. */
static json_t *rows(bed_t *bed, const char *query)
{
    const crti_message_t *answer = ask(bed, query);
    json_t *json;

    assert_non_null(answer);
    assert_true(answer->state_answer.json.size < CRTI_MESSAGE_MAX);
    json = json_loadb(answer->state_answer.json.data, answer->state_answer.json.size, 0,
                      NULL);
    assert_non_null(json);
    return json;
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));

    assert_non_null(text);
    return text;
}

/* A job that failed after it had printed 20 kB. */
static void fail_job(bed_t *bed, unsigned number, const char *output)
{
    char name[16];
    crti_msg_job_submit_t m = {.entrypoint = crti_str("train"),
                               .argv = crti_str("argv"),
                               .metadata = crti_str("{\"k\":\"v\"}")};
    crti_job_entry_t *job;

    snprintf(name, sizeof(name), "job%u", number);
    m.submission = crti_str(name);
    assert_int_equal(
        crti_job_table_submit(&bed->control->jobs, &m, bed_id(7000 + number), 1, &job),
        CRT_OK);
    job->unsaved = false;
    crti_job_entry_runs(&bed->control->jobs, job, bed_id(1));
    crti_job_entry_exited(&bed->control->jobs, job, 1 << 8, output, 1, 2);
}

static void jobs_that_failed_after_printing_much_are_listed(void **state)
{
    bed_t *bed = *state;
    static char output[20001];
    json_t *list;

    memset(output, '\n', sizeof(output) - 1);
    for (unsigned i = 0; i < JOBS; i++)
        fail_job(bed, i, output);
    list = rows(bed, "");
    assert_int_equal(json_array_size(list), JOBS + 1); /* and a driver */
    assert_true(strlen(text_of(json_array_get(list, 0), "message")) < CRTI_LIST_TEXT);
    assert_non_null(strstr(text_of(json_array_get(list, 0), "message"), "..."));
    assert_string_equal(text_of(json_array_get(list, 0), "submission_id"), "job899");
    json_decref(list);
    list = rows(bed, "job899");
    assert_true(strlen(text_of(json_array_get(list, 0), "message")) > 20000);
    json_decref(list);
}

static void one_job_of_a_query_has_all_of_its_message(void **state)
{
    bed_t *bed = *state;
    static char output[20001];
    json_t *answer;

    memset(output, 'x', sizeof(output) - 1);
    fail_job(bed, 1, output);
    answer = rows(bed, "{\"filters\":[[\"submission_id\",false,[\"job1\"]]]}");
    assert_true(strlen(text_of(json_array_get(json_object_get(answer, "jobs"), 0),
                               "message")) > 20000);
    json_decref(answer);
}

static void jobs_come_in_pages(void **state)
{
    bed_t *bed = *state;
    json_t *page;

    for (unsigned i = 0; i < 5; i++)
        fail_job(bed, i, "");
    page = rows(bed, "{\"limit\":2,\"offset\":3}");
    assert_int_equal(json_integer_value(json_object_get(page, "matched")), 6);
    assert_int_equal(json_array_size(json_object_get(page, "jobs")), 2);
    assert_string_equal(
        text_of(json_array_get(json_object_get(page, "jobs"), 0), "submission_id"),
        "job1");
    json_decref(page);
}

static void large_metadata_is_shown_of_one_job_only(void **state)
{
    bed_t *bed = *state;
    static char metadata[1 << 20];
    crti_msg_job_submit_t m = {.entrypoint = crti_str("train"), .argv = crti_str("argv")};
    json_t *list, *one;
    char name[16];

    strcpy(metadata, "{\"m\":\"");
    memset(metadata + 6, 'x', sizeof(metadata) - 9);
    strcpy(metadata + sizeof(metadata) - 3, "\"}");
    m.metadata = crti_str(metadata);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "big%d", i);
        m.submission = crti_str(name);
        bed_say(bed, ADMIN, CRTI_MSG_JOB_SUBMIT, 1, &m);
    }
    list = rows(bed, "");
    assert_int_equal(json_array_size(list), 21);
    one = rows(bed, "big3");
    assert_true(strlen(text_of(json_object_get(json_array_get(one, 0), "metadata"),
                               "m")) > 1000000);
    json_decref(one);
    json_decref(list);
}

static void what_is_nested_deep_is_refused_at_submission(void **state)
{
    bed_t *bed = *state;
    static const char *const bad[] = {
        "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
        "{\"a\":\"b\\u0000c\"}"};

    for (size_t i = 0; i < 2; i++) {
        crti_msg_job_submit_t m = {.submission = crti_str("deep"),
                                   .entrypoint = crti_str("train"),
                                   .argv = crti_str("argv"),
                                   .runtime_env = crti_str(bad[i])};

        bed_forget(bed);
        bed_say(bed, ADMIN, CRTI_MSG_JOB_SUBMIT, 1, &m);
        assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                         CRT_ERR_INVALID);
        bed_forget(bed);
        m.runtime_env = crti_str("{}");
        m.metadata = crti_str(bad[i]);
        bed_say(bed, ADMIN, CRTI_MSG_JOB_SUBMIT, 1, &m);
        assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                         CRT_ERR_INVALID);
    }
}

/* In the store since before it was refused. */
static void a_row_that_no_parser_takes_does_not_end_the_list(void **state)
{
    bed_t *bed = *state;
    char deep[4200] = "{\"a\":";
    crti_msg_job_submit_t m = {.submission = crti_str("deep"),
                               .entrypoint = crti_str("train"),
                               .argv = crti_str("argv"),
                               .metadata = crti_str("[not JSON"),
                               .runtime_env = crti_str(deep)};
    crti_job_entry_t *job;
    json_t *list;

    memset(deep + 5, '[', 2046);
    memset(deep + 5 + 2046, ']', 2046);
    strcpy(deep + 5 + 2 * 2046, "}");
    assert_int_equal(
        crti_job_table_submit(&bed->control->jobs, &m, bed_id(7000), 1, &job), CRT_OK);
    list = rows(bed, "");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(
        json_object_size(json_object_get(json_array_get(list, 0), "metadata")), 0);
    assert_int_equal(
        json_object_size(json_object_get(json_array_get(list, 0), "runtime_env")), 0);
    json_decref(list);
}

static void
an_answer_that_is_too_large_is_an_error_and_not_the_end_of_the_link(void **state)
{
    bed_t *bed = *state;
    size_t size = CRTI_MESSAGE_MAX;
    char *text = calloc(1, size);
    crti_msg_state_answer_t answer = {.json = crti_span(text, size)};

    bed_forget(bed);
    crti_control_reply(bed->control, ADMIN, CRTI_MSG_STATE_ANSWER, 9, &answer);
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                     CRT_ERR_TOO_LARGE);
    crti_control_answer(bed->control, ADMIN, CRTI_MSG_STATE_ANSWER, 9, &answer, true);
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                     CRT_ERR_TOO_LARGE);
    assert_false(bed_was_dropped(bed, ADMIN));
    free(text);
}

static void a_text_is_cut_between_characters(void **state)
{
    char text[CRTI_LIST_TEXT + 8], cut[CRTI_LIST_TEXT];

    assert_string_equal(crti_list_text("short", cut), "short");
    assert_string_equal(crti_list_text(NULL, cut), "");
    for (size_t before = 0; before < 4; before++) {
        memset(text, 'x', sizeof(text));
        for (size_t i = before; i + 2 < sizeof(text); i += 2)
            memcpy(text + i, "\xc3\xa4", 2);
        text[sizeof(text) - 1] = '\0';
        crti_list_text(text, cut);
        assert_true(strlen(cut) < CRTI_LIST_TEXT);
        assert_string_equal(cut + strlen(cut) - 3, "...");
        assert_true((strlen(cut) - 3 - before) % 2 == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(jobs_that_failed_after_printing_much_are_listed),
        CONTROL_TEST(one_job_of_a_query_has_all_of_its_message),
        CONTROL_TEST(jobs_come_in_pages),
        CONTROL_TEST(large_metadata_is_shown_of_one_job_only),
        CONTROL_TEST(what_is_nested_deep_is_refused_at_submission),
        CONTROL_TEST(a_row_that_no_parser_takes_does_not_end_the_list),
        CONTROL_TEST(an_answer_that_is_too_large_is_an_error_and_not_the_end_of_the_link),
        cmocka_unit_test(a_text_is_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
