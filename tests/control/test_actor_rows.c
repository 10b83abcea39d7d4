/* SPDX-License-Identifier: Apache-2.0 */
/* A query picks and counts actors where they are. */
#include <string.h>

#include <jansson.h>

#include "runtime/control/control_state.h"
#include "tests/control/control_test.h"

/* The answer, or NULL when it was refused. Caller owns it. */
static json_t *ask(bed_t *bed, const char *what, const char *query)
{
    crti_msg_state_query_t m = {.what = crti_str(what), .filter = crti_str(query)};
    const crti_message_t *question, *answer;
    crti_msg_state_answer_t queues = {
        .json = crti_str("[{\"actor_id\":\"00000000003200000000000000000032\","
                         "\"queue_length\":3,\"queue_wait_ms\":12.5}]")};
    json_t *json;

    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 8, &m);
    question = bed_next(bed, NODE_A, CRTI_MSG_STATE_QUERY);
    if (question)
        bed_say(bed, NODE_A, CRTI_MSG_STATE_ANSWER, question->request, &queues);
    bed->seen = 0;
    answer = bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER);
    if (!answer) {
        bed->seen = 0;
        assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                         CRT_ERR_INVALID);
        assert_null(question);
        return NULL;
    }
    json = json_loadb(answer->state_answer.json.data, answer->state_answer.json.size, 0,
                      NULL);
    assert_non_null(json);
    return json;
}

static json_int_t number_of(const json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

/* Living actors 50 "a" and 51 "b", and one that waits for a node that has room, 52 without a
 * name. */
static bed_t *three_actors(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(52, 5, "");

    control_make_alive(bed, 50, "a");
    control_make_alive(bed, 51, "b");
    m.resources.count = 1;
    strcpy(m.resources.item[0].name, "CPU");
    m.resources.item[0].amount = 100 * CRTI_RESOURCE_ONE + CRTI_RESOURCE_ONE / 2;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 2, &m);
    return bed;
}

static void expect_in(bed_t *bed, const char *what, const char *query, size_t shown,
                      json_int_t matched)
{
    json_t *answer = ask(bed, what, query);

    assert_non_null(answer);
    if (json_array_size(json_object_get(answer, "actors")) != shown ||
        number_of(answer, "matched") != matched)
        fail_msg("%s: %zu rows of %lld", query,
                 json_array_size(json_object_get(answer, "actors")),
                 (long long)number_of(answer, "matched"));
    assert_int_equal(number_of(answer, "all"), 3);
    json_decref(answer);
}

static void expect(bed_t *bed, const char *query, size_t shown, json_int_t matched)
{
    expect_in(bed, "actors", query, shown, matched);
}

static void actors_are_picked_by_all_filters(void **state)
{
    bed_t *bed = three_actors(state);

    expect(bed, "{}", 3, 3);
    expect(bed, "{\"limit\":1}", 1, 3);
    expect(bed, "{\"filters\":[[\"state\",false,[\"alive\"]]],\"limit\":1}", 1, 2);
    expect(bed, "{\"filters\":[[\"state\",true,[\"ALIVE\"]]]}", 1, 1);
    expect(bed, "{\"filters\":[[\"state\",false,[\"PENDING\",\"ALIVE\"]]]}", 3, 3);
    expect(bed, "{\"filters\":[[\"state\",false,[\"ALIVE\"]],[\"name\",false,[\"B\"]]]}",
           1, 1);
    expect(bed,
           "{\"filters\":[[\"actor_id\",false,[\"00000000003200000000000000000032\"]]]}",
           1, 1);
    expect(bed, "{\"filters\":[[\"is_detached\",false,[false]]]}", 3, 3);
    expect(bed, "{\"filters\":[[\"is_detached\",false,[\"false\"]]]}", 0, 0);
    expect(bed, "{\"filters\":[[\"num_restarts\",false,[0]]]}", 3, 3);
    expect(bed, "{\"filters\":[[\"name\",false,[\"\"]]]}", 1, 1);
    expect(bed, "{\"filters\":[[\"queue_length\",false,[3]]]}", 0, 0);
}

static void what_nodes_tell_can_be_asked_for(void **state)
{
    bed_t *bed = three_actors(state);
    json_t *answer;
    const json_t *row;

    expect_in(bed, "actors_detail", "{\"filters\":[[\"queue_length\",false,[3]]]}", 1, 1);
    expect_in(bed, "actors_detail", "{\"filters\":[[\"queue_length\",true,[3]]]}", 2, 2);
    answer = ask(bed, "actors_detail", "{\"filters\":[[\"name\",false,[\"a\"]]]}");
    row = json_array_get(json_object_get(answer, "actors"), 0);
    assert_int_equal(number_of(row, "queue_length"), 3);
    assert_true(json_real_value(json_object_get(row, "queue_wait_ms")) == 12.5);
    json_decref(answer);
}

static void what_an_actor_saved_is_counted(void **state)
{
    bed_t *bed = three_actors(state);
    crti_msg_actor_save_t save = {
        .actor = bed_id(50), .actor_incarnation = 1, .state = crti_str("12 letters!!")};

    expect(bed, "{\"filters\":[[\"saved_bytes\",false,[0]]]}", 3, 3);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_SAVE, 9, &save);
    expect(bed, "{\"filters\":[[\"saved_bytes\",false,[12]]]}", 1, 1);
}

static void a_row_has_what_the_head_knows(void **state)
{
    static const char *const keys[] = {"actor_id",
                                       "class_name",
                                       "name",
                                       "namespace",
                                       "state",
                                       "job_id",
                                       "node_id",
                                       "worker_id",
                                       "pid",
                                       "num_restarts",
                                       "is_fenced",
                                       "has_failed",
                                       "is_detached",
                                       "message",
                                       "placement_group_id",
                                       "required_resources",
                                       "saved_bytes"};
    bed_t *bed = three_actors(state);
    json_t *answer = ask(bed, "actors", "{\"filters\":[[\"state\",true,[\"ALIVE\"]]]}");
    const json_t *row = json_array_get(json_object_get(answer, "actors"), 0);

    assert_int_equal(json_object_size(row), sizeof(keys) / sizeof(keys[0]));
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_non_null(json_object_get(row, keys[i]));
    assert_true(json_is_null(json_object_get(row, "pid")));
    assert_string_equal(json_string_value(json_object_get(row, "placement_group_id")),
                        "");
    assert_true(json_number_value(json_object_get(
                    json_object_get(row, "required_resources"), "CPU")) == 100.5);
    json_decref(answer);
}

static void actors_are_counted(void **state)
{
    bed_t *bed = three_actors(state);
    json_t *answer =
        ask(bed, "actors", "{\"count_by\":[\"state\"],\"filters\":[],\"limit\":0}");
    const json_t *groups = json_object_get(answer, "groups");
    const json_t *first = json_array_get(groups, 0);

    assert_int_equal(json_array_size(groups), 2);
    assert_string_equal(json_string_value(json_object_get(first, "state")), "ALIVE");
    assert_int_equal(number_of(first, "count"), 2);
    assert_int_equal(number_of(json_array_get(groups, 1), "count"), 1);
    assert_int_equal(json_array_size(json_object_get(answer, "actors")), 0);
    json_decref(answer);
}

static void a_query_that_is_none_asks_nobody(void **state)
{
    static const char *const bad[] = {"{", "{\"limit\":-1}",
                                      "{\"filters\":[[\"colour\",false,[\"red\"]]]}"};
    bed_t *bed = three_actors(state);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_null(ask(bed, "actors", bad[i]));
        assert_null(ask(bed, "actors_detail", bad[i]));
        assert_null(ask(bed, "tasks", bad[i]));
    }
}

static void an_id_is_one_actor_or_none(void **state)
{
    bed_t *bed = three_actors(state);
    json_t *one = ask(bed, "actors", "00000000003200000000000000000032"),
           *none = ask(bed, "actors", "00000000003200000000000000000033"),
           *wrong = ask(bed, "actors", "x");

    assert_int_equal(json_array_size(one), 1);
    assert_int_equal(json_array_size(none), 0);
    assert_int_equal(json_array_size(wrong), 0);
    json_decref(one);
    json_decref(none);
    json_decref(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(actors_are_picked_by_all_filters),
        CONTROL_TEST(what_nodes_tell_can_be_asked_for),
        CONTROL_TEST(what_an_actor_saved_is_counted),
        CONTROL_TEST(a_row_has_what_the_head_knows),
        CONTROL_TEST(actors_are_counted),
        CONTROL_TEST(a_query_that_is_none_asks_nobody),
        CONTROL_TEST(an_id_is_one_actor_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
