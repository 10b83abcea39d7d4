/* SPDX-License-Identifier: Apache-2.0 */
/* When the head looks for resource deadlocks, what it makes of the answers of nodes, and what it
 * does. Which jobs are stuck: test_resource_deadlock.c. */
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/control/tables/node_table.h"
#include "tests/control/control_test.h"

/* What the node says of a job when it is asked. */
typedef struct rest {
    uint64_t job;
    bool is_busy;
    uint64_t activity;
    int64_t held;
} rest_t;

static void pack_row(crti_buffer_t *rows, uint64_t node, const rest_t *rest)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_msg_job_rest_t m = {.job = bed_id(rest->job),
                             .node = bed_id(node),
                             .processes = 2,
                             .is_at_rest = !rest->is_busy,
                             .activity = rest->activity};

    crti_resources_set(&m.held, "CPU", rest->held * CRTI_RESOURCE_ONE);
    crti_message_encode(CRTI_MSG_JOB_REST, 0, &m, &bytes);
    crti_list_pack(rows, bytes.data, bytes.size);
}

/* The time until the next question, and the answer to it. False: none came. */
static bool answer_look(bed_t *bed, rest_t *rests, size_t count)
{
    const crti_message_t *m = NULL;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t rows = {0};
    crti_msg_state_answer_t answer;

    for (int i = 0; i < 200 && m == NULL; i++) {
        bed_pass(bed, CRTI_S / 100);
        m = bed_next(bed, NODE_A, CRTI_MSG_STATE_QUERY);
    }
    if (m == NULL)
        return false;
    assert_true(crti_str_equal(m->state_query.what, "rest"));
    for (size_t i = 0; i < count; i++)
        pack_row(&rows, 1, &rests[i]);
    answer.json = crti_span(rows.data, rows.size);
    bed_say(bed, NODE_A, CRTI_MSG_STATE_ANSWER, m->request, &answer);
    return true;
}

static void want_actor(bed_t *bed, uint64_t actor, uint64_t job)
{
    crti_msg_actor_create_t m = bed_actor(actor, job, "");

    crti_resources_set(&m.resources, "CPU", CRTI_RESOURCE_ONE);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
}

/* Nothing is free on the node, whoever has it. */
static void be_full(bed_t *bed)
{
    bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0,
            &(crti_msg_heartbeat_t){.sequence = 1, .available = {.count = 0}});
}

/* Jobs 5 and 6 hold two CPUs each, and want one more. */
static void two_jobs(bed_t *bed)
{
    bed_add_job(bed, NODE_A, 1, 6);
    be_full(bed);
    want_actor(bed, 50, 5);
    bed_pass(bed, CRTI_S / 100);
    want_actor(bed, 60, 6);
    bed_forget(bed);
}

static const rest_t stuck[2] = {{5, .activity = 7, .held = 2},
                                {6, .activity = 9, .held = 2}};

/* What the driver of a job was told; NULL: nothing. */
static const char *told(bed_t *bed, uint64_t job, char text[static 2048])
{
    const char *found = NULL;

    for (size_t i = 0; i < bed->sent_count; i++) {
        const crti_message_t *m = &bed->sent[i].message;

        if (m->kind == CRTI_MSG_LOG && crti_id_equal(m->log.job, bed_id(job)))
            found =
                crti_text(crti_span(m->log.lines.data, m->log.lines.size), text, 2048);
    }
    return found;
}

static char *state_of(bed_t *bed, const char *what)
{
    const crti_message_t *m;

    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 77,
            &(crti_msg_state_query_t){.what = crti_str(what)});
    while ((m = bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER)))
        if (m->request == 77)
            return crti_str_dup(m->state_answer.json);
    fail();
    return NULL;
}

static void expect_in(bed_t *bed, const char *what, const char *text)
{
    CRTI_AUTO(free) char *json = state_of(bed, what);

    assert_non_null(strstr(json, text));
}

static void nobody_is_asked_while_nothing_waits(void **state)
{
    bed_t *bed = *state;

    bed_pass(bed, 3 * CRTI_S);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_STATE_QUERY), 0);
    expect_in(bed, "cluster", "\"resource_deadlock\":null");
}

static void
jobs_that_are_at_rest_in_two_looks_are_told_once_with_who_holds_what(void **state)
{
    bed_t *bed = *state;
    rest_t rests[2] = {stuck[0], stuck[1]};
    uint64_t began;
    char text[2048];
    size_t logs;

    two_jobs(bed);
    began = bed->now;
    assert_true(answer_look(bed, rests, 2));
    assert_null(told(bed, 5, text));
    assert_true(answer_look(bed, rests, 2));
    assert_true(bed->now - began < 2 * CRTI_S);
    assert_non_null(told(bed, 6, text));
    assert_non_null(told(bed, 5, text));
    assert_non_null(strstr(text, "(pid 4711 on 10.0.0.1) holds 2 CPU and waits for 1 CPU "
                                 "(actor Counter)"));
    expect_in(bed, "cluster", "\"holds\":\"2 CPU\"");
    expect_in(bed, "events", "CLUSTER");
    logs = bed_count(bed, NODE_A, CRTI_MSG_LOG);
    assert_true(answer_look(bed, rests, 2));
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_LOG), logs);
    rests[1].is_busy = true;
    assert_true(answer_look(bed, rests, 2));
    expect_in(bed, "cluster", "\"resource_deadlock\":null");
    expect_in(bed, "events", "it has ended");
}

static void who_did_something_between_two_looks_is_not_stuck(void **state)
{
    bed_t *bed = *state;
    rest_t rests[2] = {stuck[0], stuck[1]};
    char text[2048];

    two_jobs(bed);
    for (int i = 0; i < 5; i++) {
        rests[1].activity++;
        assert_true(answer_look(bed, rests, 2));
    }
    assert_null(told(bed, 5, text));
}

static void a_job_of_which_nothing_is_known_is_not_stuck(void **state)
{
    bed_t *bed = *state;
    rest_t rests[1] = {stuck[0]};
    char text[2048];

    two_jobs(bed);
    for (int i = 0; i < 3; i++)
        assert_true(answer_look(bed, rests, 1));
    assert_null(told(bed, 5, text));
}

static void nothing_is_decided_while_a_node_does_not_answer(void **state)
{
    bed_t *bed = *state;
    rest_t rests[2] = {stuck[0], stuck[1]};
    char text[2048];

    bed_join(bed, NODE_B, 2, 1, 0.5, NULL, NULL); /* too small for any of them */
    bed_say(bed, NODE_B, CRTI_MSG_HEARTBEAT, 0,
            &(crti_msg_heartbeat_t){.sequence = 1, .available = {.count = 0}});
    two_jobs(bed);
    for (int i = 0; i < 3; i++)
        assert_true(answer_look(bed, rests, 2));
    assert_null(told(bed, 5, text));
    crti_control_closed(bed->control, NODE_B, "it broke", bed->now);
    bed_pass(bed, CRTI_LIMIT(node_suspect_timeout) + CRTI_S);
    be_full(bed);
    while (bed_next(bed, NODE_A, CRTI_MSG_STATE_QUERY))
        continue; /* it did not answer those */
    for (int i = 0; i < 3; i++)
        assert_true(answer_look(bed, rests, 2));
    assert_non_null(told(bed, 5, text));
}

static int begin_fail_youngest(void **state)
{
    bed_t *bed = bed_new();

    bed->fail_youngest = true;
    bed_restart(bed, true);
    bed_join(bed, NODE_A, 1, 1, 4, NULL, NULL);
    bed_add_job(bed, NODE_A, 1, 5);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    *state = bed;
    return 0;
}

static void the_youngest_request_fails_alone(void **state)
{
    bed_t *bed = *state;
    rest_t rests[2] = {stuck[0], stuck[1]};

    two_jobs(bed);
    control_watch(bed, NODE_A, 50);
    control_watch(bed, NODE_A, 60);
    assert_true(answer_look(bed, rests, 2));
    assert_true(answer_look(bed, rests, 2));
    expect_in(bed, "actors", "resource deadlock: ");
    bed_forget(bed);
    control_watch(bed, NODE_A, 60);
    assert_int_equal(control_state_of(bed, NODE_A).status, CRT_ERR_RESOURCE_DEADLOCK);
    control_watch(bed, NODE_A, 50);
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_PENDING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(nobody_is_asked_while_nothing_waits),
        CONTROL_TEST(
            jobs_that_are_at_rest_in_two_looks_are_told_once_with_who_holds_what),
        CONTROL_TEST(who_did_something_between_two_looks_is_not_stuck),
        CONTROL_TEST(a_job_of_which_nothing_is_known_is_not_stuck),
        CONTROL_TEST(nothing_is_decided_while_a_node_does_not_answer),
        cmocka_unit_test_setup_teardown(the_youngest_request_fails_alone,
                                        begin_fail_youngest, control_test_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
