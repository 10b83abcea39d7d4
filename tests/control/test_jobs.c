/* SPDX-License-Identifier: Apache-2.0 */
/* Submissions and what is shown of the cluster, as the head decides them. */
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/control/tables/job_table.h"
#include "tests/control/control_test.h"

static char *query(bed_t *bed, const char *what, const char *filter)
{
    crti_msg_state_query_t m = {.what = crti_str(what), .filter = crti_str(filter)};
    const crti_message_t *answer;

    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 8, &m);
    answer = bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER);
    assert_non_null(answer);
    return crti_str_dup(answer->state_answer.json);
}

static void expect_json(bed_t *bed, const char *what, const char *filter,
                        const char *part)
{
    CRTI_AUTO(free) char *json = query(bed, what, filter);

    if (strstr(json, part) == NULL)
        fail_msg("%s is not in %s", part, json);
}

static void a_submission_runs_on_the_heads_host_and_ends_as_its_process_does(void **state)
{
    static const struct {
        int64_t wait_status;
        const char *name, *status, *message;
    } ends[] = {{0, "one", "\"SUCCEEDED\"", "Job finished successfully."},
                {3 << 8, "two", "\"FAILED\"", "exit code 3"},
                {9, "three", "\"FAILED\"", "signal 9"}};
    bed_t *bed = *state;

    for (int i = 0; i < 3; i++) {
        const char *name = ends[i].name;
        crti_msg_job_exited_t exited = {.wait_status = ends[i].wait_status,
                                        .text = crti_str("last lines")};
        const crti_message_t *start;

        control_submit(bed, name);
        assert_non_null(bed_next(bed, ADMIN, CRTI_MSG_DONE));
        bed->seen = 0;
        start = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
        assert_non_null(start);
        exited.job = start->job_start.job;
        bed_say(bed, NODE_A, CRTI_MSG_DONE, start->request, NULL);
        expect_json(bed, "jobs", name, "\"RUNNING\"");
        bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 7, &exited);
        assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
        expect_json(bed, "jobs", name, ends[i].status);
        expect_json(bed, "jobs", name, ends[i].message);
        bed_forget(bed);
    }
}

static void a_submission_waits_for_the_node_of_the_heads_host(void **state)
{
    bed_t *bed = *state;

    crti_control_closed(bed->control, NODE_A, "", bed->now);
    bed_pass(bed, 2 * CRTI_S);
    control_submit(bed, "later");
    expect_json(bed, "jobs", "later", "\"PENDING\"");
    expect_json(bed, "jobs", "later", "It waits for the node of the head's host.");
    bed_join(bed, 30, 1, 2, 4, NULL, NULL);
    assert_non_null(bed_next(bed, 30, CRTI_MSG_JOB_START));
}

/* The node died and came back, the store wrote its row and not yet the submission's, the head
 * died. */
static void
a_submission_of_a_node_that_died_does_not_run_in_the_next_heads_eyes(void **state)
{
    bed_t *bed = *state;
    const crti_message_t *start;

    control_submit(bed, "s");
    bed->seen = 0;
    start = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
    bed_say(bed, NODE_A, CRTI_MSG_DONE, start->request, NULL);
    expect_json(bed, "jobs", "s", "\"RUNNING\"");
    bed->failing = CRT_ERR_IO;
    bed_join(bed, 30, 1, 2, 4, NULL, NULL);
    expect_json(bed, "jobs", "s", "\"FAILED\"");
    bed->failing = CRT_OK;
    bed_pass(bed, CRTI_S + CRTI_MS); /* one row, then one every 10 ms */
    bed_restart(bed, false);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    expect_json(bed, "jobs", "s", "\"RUNNING\"");
    bed_join(bed, 31, 1, 2, 4, NULL, NULL);
    expect_json(bed, "jobs", "s", "\"FAILED\"");
    assert_int_equal(bed_count(bed, 31, CRTI_MSG_JOB_START), 0);
}

/* The requests of two heads in a row begin alike. */
static void a_late_answer_to_the_head_before_answers_no_request_of_the_next(void **state)
{
    bed_t *bed = *state;
    crti_msg_error_t error = {.status = CRT_ERR_NOT_FOUND, .text = crti_str("late")};
    const crti_message_t *start;
    uint64_t first, second;

    control_submit(bed, "s");
    bed->seen = 0;
    start = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
    assert_non_null(start);
    first = start->request;
    bed_restart(bed, true);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    bed_join(bed, 31, 1, 1, 4, NULL, NULL);
    bed->seen = 0;
    start = bed_next(bed, 31, CRTI_MSG_JOB_START);
    assert_non_null(start);
    second = start->request;
    bed_say(bed, 31, CRTI_MSG_ERROR, first, &error);
    expect_json(bed, "jobs", "s", "\"PENDING\"");
    bed_say(bed, 31, CRTI_MSG_DONE, second, NULL);
    expect_json(bed, "jobs", "s", "\"RUNNING\"");
}

/* Starts submission "s", whose job id is the result. */
static crti_id_t run_submission(bed_t *bed, uint64_t node)
{
    const crti_message_t *start;
    crti_id_t job;

    control_submit(bed, "s");
    assert_non_null(bed_next(bed, ADMIN, CRTI_MSG_DONE));
    bed->seen = 0;
    start = bed_next(bed, node, CRTI_MSG_JOB_START);
    assert_non_null(start);
    job = start->job_start.job;
    bed_say(bed, node, CRTI_MSG_DONE, start->request, NULL);
    bed_forget(bed);
    return job;
}

/* A nightly job: deleted, or forgotten after a day, its id is free. What is late belongs to the
 * first. */
static void a_submission_id_that_is_used_again_is_another_job(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_delete_t delete = {.submission = crti_str("s")};
    crti_msg_job_stop_t stop = {.submission = crti_str("s")};
    crti_msg_log_read_t read = {.name = crti_str("job:s"), .limit = 100};
    crti_id_t first = run_submission(bed, NODE_A), second;
    char log[64] = "job:";

    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 7, &(crti_msg_job_exited_t){.job = first});
    expect_json(bed, "jobs", "s", "\"SUCCEEDED\"");
    bed_say(bed, ADMIN, CRTI_MSG_JOB_DELETE, 2, &delete);
    bed_forget(bed);
    second = run_submission(bed, NODE_A);
    assert_false(crti_id_equal(first, second));
    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 8,
            &(crti_msg_job_exited_t){.job = first, .wait_status = 9});
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    expect_json(bed, "jobs", "s", "\"RUNNING\"");
    bed_say(bed, ADMIN, CRTI_MSG_LOG_READ, 3, &read);
    crti_id_hex(second, log + 4);
    assert_true(
        crti_str_equal(bed_next(bed, NODE_A, CRTI_MSG_LOG_READ)->log_read.name, log));
    bed_say(bed, ADMIN, CRTI_MSG_JOB_STOP, 4, &stop);
    assert_true(
        crti_id_equal(bed_next(bed, NODE_A, CRTI_MSG_JOB_STOP)->job_stop.job, second));
    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 9, &(crti_msg_job_exited_t){.job = second});
    bed_pass(bed, CRTI_LIMIT(ended_jobs_time) + 2 * CRTI_S);
    bed_join(bed, 30, 1, 2, 4, NULL, NULL); /* it was silent for a day */
    bed_forget(bed);
    assert_false(crti_id_equal(run_submission(bed, 30), second));
    expect_json(bed, "jobs", "s", "\"RUNNING\"");
}

/* The link broke between the two; the row of the first time is still on its way. */
static void an_end_that_is_told_twice_is_heard_when_it_is_durable(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_exited_t exited = {.wait_status = 0};
    const crti_message_t *start;

    control_submit(bed, "s");
    bed->seen = 0;
    start = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
    exited.job = start->job_start.job;
    bed_say(bed, NODE_A, CRTI_MSG_DONE, start->request, NULL);
    bed_forget(bed);
    bed->manual = true;
    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 7, &exited);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 7, &exited);
    bed->failing = CRT_ERR_IO;
    bed_store(bed);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ERROR), 2);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_DONE), 0);
}

static void a_stopped_submission_is_stopped_whatever_its_exit_status(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_stop_t stop = {.submission = crti_str("s")};
    crti_msg_job_delete_t delete = {.submission = crti_str("s")};
    crti_msg_job_exited_t exited = {.wait_status = 15};
    const crti_message_t *m;

    control_submit(bed, "s");
    bed->seen = 0;
    m = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
    exited.job = m->job_start.job;
    bed_say(bed, NODE_A, CRTI_MSG_DONE, m->request, NULL);
    bed_say(bed, ADMIN, CRTI_MSG_JOB_DELETE, 2, &delete);
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                     CRT_ERR_INVALID);
    bed_say(bed, ADMIN, CRTI_MSG_JOB_STOP, 3, &stop);
    m = bed_next(bed, NODE_A, CRTI_MSG_JOB_STOP);
    assert_non_null(m);
    bed_say(bed, NODE_A, CRTI_MSG_DONE, m->request, NULL);
    assert_non_null(bed_next(bed, ADMIN, CRTI_MSG_DONE));
    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 7, &exited);
    expect_json(bed, "jobs", "s", "\"STOPPED\"");
    bed_say(bed, ADMIN, CRTI_MSG_JOB_DELETE, 4, &delete);
    assert_non_null(bed_next(bed, ADMIN, CRTI_MSG_DONE));
    bed_say(bed, ADMIN, CRTI_MSG_JOB_STOP, 5, &stop);
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                     CRT_ERR_NOT_FOUND);
}

static void ask_to_stop(bed_t *bed, const char *name)
{
    crti_msg_job_stop_t stop = {.submission = crti_str(name)};

    bed_say(bed, ADMIN, CRTI_MSG_JOB_STOP, 3, &stop);
}

/* Its node has made the folder for minutes, say; the link broke. */
static void a_stop_that_its_node_did_not_hear_is_told_when_it_is_back(void **state)
{
    bed_t *bed = *state;
    crti_msg_error_t error = {.status = CRT_ERR_CANCELLED, .text = crti_str("stopped")};
    const crti_message_t *start;
    uint64_t request;

    control_submit(bed, "s");
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_JOB_START), 1);
    crti_control_closed(bed->control, NODE_A, "it broke", bed->now);
    ask_to_stop(bed, "s");
    assert_int_equal(bed_count(bed, ADMIN, CRTI_MSG_DONE), 2);
    bed_join(bed, NODE_B, 1, 1, 4, NULL, NULL);
    bed->seen = 0;
    start = bed_next(bed, NODE_B, CRTI_MSG_JOB_START);
    assert_non_null(start);
    request = start->request;
    assert_non_null(bed_next(bed, NODE_B, CRTI_MSG_JOB_STOP)); /* behind it */
    bed_say(bed, NODE_B, CRTI_MSG_ERROR, request, &error);
    expect_json(bed, "jobs", "s", "\"STOPPED\"");
}

static void a_running_job_without_a_link_is_stopped_when_its_node_is_back(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_exited_t exited = {.job = run_submission(bed, NODE_A),
                                    .wait_status = 15};

    crti_control_closed(bed->control, NODE_A, "it broke", bed->now);
    bed_forget(bed);
    ask_to_stop(bed, "s");
    assert_int_equal(bed_count(bed, ADMIN, CRTI_MSG_DONE), 1);
    bed_restart(bed, true);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    bed_join(bed, NODE_B, 1, 1, 4, NULL, NULL);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_JOB_STOP), 1);
    bed_say(bed, NODE_B, CRTI_MSG_JOB_EXITED, 7, &exited);
    expect_json(bed, "jobs", "s", "\"STOPPED\"");
}

static void a_job_that_is_stopped_before_it_was_sent_is_stopped_right_behind(void **state)
{
    bed_t *bed = *state;

    bed->manual = true;
    control_submit(bed, "s");
    bed_store_first(bed, bed->pending_count); /* that where it runs is not, yet */
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_JOB_START), 0);
    ask_to_stop(bed, "s");
    bed_store(bed);
    bed->seen = 0;
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_JOB_START));
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_JOB_STOP));
}

static void a_node_that_leaves_gives_the_turn_of_its_job_to_the_next(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_submit_t m = {.submission = crti_str("large"),
                               .entrypoint = crti_str("train"),
                               .argv = crti_str("argv"),
                               .metadata = crti_str("{}")};

    bed->max_jobs = 1;
    bed_restart(bed, true);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    bed_join(bed, NODE_A, 1, 1, 4, NULL, NULL);
    bed_join(bed, NODE_B, 2, 1, 8, NULL, NULL);
    crti_resources_parse("CPU=6", &m.resources);
    bed_say(bed, ADMIN, CRTI_MSG_JOB_SUBMIT, 1, &m);
    control_submit(bed, "next");
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_JOB_START), 1);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_JOB_START), 0);
    bed_say(bed, NODE_B, CRTI_MSG_NODE_LEAVE, 0,
            &(crti_msg_node_leave_t){.text = crti_str("it ends")});
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_JOB_START), 1);
}

static void
a_retry_that_can_not_be_stored_runs_when_the_store_can_write_again(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_submit_t m = {.submission = crti_str("s"),
                               .entrypoint = crti_str("train"),
                               .argv = crti_str("argv"),
                               .metadata = crti_str("{}"),
                               .retries = 1};
    crti_msg_job_exited_t exited = {.wait_status = 3 << 8};
    const crti_message_t *start;

    bed_say(bed, ADMIN, CRTI_MSG_JOB_SUBMIT, 1, &m);
    bed->seen = 0;
    start = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
    assert_non_null(start);
    exited.job = start->job_start.job;
    bed_say(bed, NODE_A, CRTI_MSG_DONE, start->request, NULL);
    bed->failing = CRT_ERR_IO;
    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 7, &exited);
    expect_json(bed, "jobs", "s", "\"PENDING\"");
    bed->failing = CRT_OK;
    bed_forget(bed);
    bed_pass(bed, 5 * CRTI_S);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_JOB_START), 1);
    control_expect_rest(bed);
}

static void a_job_whose_detached_actors_live_is_not_deleted(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_delete_t delete = {.submission = crti_str("s")};
    crti_id_t job = run_submission(bed, NODE_A);
    crti_msg_job_exited_t exited = {.job = job};
    crti_msg_actor_create_t m = bed_actor(50, 5, "kept");
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};
    const crti_message_t *refusal;
    char text[512];

    m.job = job;
    m.detached = true;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 2, &m);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 7, &exited);
    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_JOB_DELETE, 4, &delete);
    refusal = bed_next(bed, ADMIN, CRTI_MSG_ERROR);
    assert_int_equal(control_error_of(refusal), CRT_ERR_INVALID);
    assert_non_null(
        strstr(crti_text(refusal->error.text, text, sizeof(text)), "1 detached actor"));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 9, &kill);
    bed_say(bed, ADMIN, CRTI_MSG_JOB_DELETE, 5, &delete);
    assert_non_null(bed_next(bed, ADMIN, CRTI_MSG_DONE));
}

static void a_submission_id_is_used_once(void **state)
{
    bed_t *bed = *state;

    control_submit(bed, "s");
    control_submit(bed, "s");
    assert_int_equal(bed_count(bed, ADMIN, CRTI_MSG_DONE), 1);
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                     CRT_ERR_EXISTS);
}

static void the_state_is_shown_as_json(void **state)
{
    bed_t *bed = *state;

    control_make_alive(bed, 50, "n\"ame");
    expect_json(bed, "cluster", "", "\"address\":\"127.0.0.1:6380\"");
    expect_json(bed, "cluster", "", "\"actors\":{\"ALIVE\":1}");
    expect_json(bed, "nodes", "", "\"resources_total\":{\"CPU\":4}");
    expect_json(bed, "nodes", "00000000000700000000000000000007", "[]");
    expect_json(bed, "actors", "00000000003200000000000000000032", "n\\\"ame");
    expect_json(bed, "jobs", "", "\"type\":\"DRIVER\"");
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 3,
            &(crti_msg_state_query_t){.what = crti_str("weather")});
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                     CRT_ERR_INVALID);
}

/* What ended an actor of job 5, whose owner is process 1005. */
static void expect_end(void **state, crti_message_kind_t kind, const void *body,
                       const char *has_failed, const char *counts)
{
    bed_t *bed = *state;
    crti_msg_actor_state_t told;

    control_make_alive(bed, 50, "a");
    control_watch(bed, NODE_A, 50);
    bed_forget(bed);
    bed_say(bed, NODE_A, kind, 0, body);
    told = control_state_of(bed, NODE_A);
    expect_json(bed, "actors", "", has_failed);
    expect_json(bed, "actors", "", "\"state\":\"DEAD\"");
    expect_json(bed, "cluster", "", counts);
    /* Who calls it learns the same in both cases. */
    assert_int_equal(told.state, CRTI_ACTOR_DEAD);
    assert_int_equal(told.status, CRT_ERR_ACTOR_DIED);
}

static void an_actor_of_a_job_that_ended_has_not_failed(void **state)
{
    expect_end(state, CRTI_MSG_JOB_END, &(crti_msg_job_end_t){.job = bed_id(5)},
               "\"has_failed\":false", "\"actors\":{\"ENDED\":1}");
}

static void an_actor_of_a_driver_that_died_has_failed(void **state)
{
    expect_end(state, CRTI_MSG_JOB_END,
               &(crti_msg_job_end_t){.job = bed_id(5), .text = crti_str("driver 7 died")},
               "\"has_failed\":true", "\"actors\":{\"DEAD\":1}");
}

static void an_actor_whose_maker_ended_well_has_not_failed(void **state)
{
    expect_end(state, CRTI_MSG_PEER_DIED,
               &(crti_msg_peer_died_t){.process = bed_id(1005),
                                       .incarnation = 1,
                                       .node = bed_id(1),
                                       .text = crti_str("driver 7 ended")},
               "the process that made it ended: driver 7 ended",
               "\"actors\":{\"ENDED\":1}");
}

static void an_actor_whose_maker_died_has_failed(void **state)
{
    expect_end(state, CRTI_MSG_PEER_DIED,
               &(crti_msg_peer_died_t){.process = bed_id(1005),
                                       .incarnation = 1,
                                       .node = bed_id(1),
                                       .status = CRT_ERR_WORKER_DIED,
                                       .text = crti_str("signal 9")},
               "the process that made it died: signal 9", "\"actors\":{\"DEAD\":1}");
}

static void an_actor_that_was_killed_by_its_user_has_not_failed(void **state)
{
    expect_end(state, CRTI_MSG_ACTOR_KILL,
               &(crti_msg_actor_kill_t){.actor = bed_id(50), .no_restart = true},
               "\"has_failed\":false", "\"actors\":{\"ENDED\":1}");
}

static void an_actor_whose_process_died_has_failed(void **state)
{
    expect_end(state, CRTI_MSG_ACTOR_DIED,
               &(crti_msg_actor_died_t){.actor = bed_id(50),
                                        .actor_incarnation = 1,
                                        .status = CRT_ERR_ACTOR_DIED,
                                        .text = crti_str("signal 9"),
                                        .created = true},
               "\"has_failed\":true", "\"actors\":{\"DEAD\":1}");
}

static void workers_are_asked_of_all_nodes(void **state)
{
    bed_t *bed = *state;
    crti_msg_state_query_t m = {.what = crti_str("workers")};
    crti_msg_state_answer_t rows = {.json = crti_str("[{\"worker_id\":\"a\"}]")};
    const crti_message_t *a, *b, *answer;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 8, &m);
    a = bed_next(bed, NODE_A, CRTI_MSG_STATE_QUERY);
    bed->seen = 0;
    b = bed_next(bed, NODE_B, CRTI_MSG_STATE_QUERY);
    assert_non_null(a);
    assert_non_null(b);
    bed_say(bed, NODE_A, CRTI_MSG_STATE_ANSWER, a->request, &rows);
    assert_null(bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER));
    bed_say(bed, NODE_B, CRTI_MSG_STATE_ANSWER, b->request, &rows);
    answer = bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER);
    assert_non_null(answer);
    assert_true(crti_str_equal(answer->state_answer.json,
                               "[{\"worker_id\":\"a\"},{\"worker_id\":\"a\"}]"));
}

static void the_node_that_asks_is_asked_for_its_workers_too(void **state)
{
    bed_t *bed = *state;
    crti_msg_state_query_t m = {.what = crti_str("workers")};
    crti_msg_state_answer_t own = {.json = crti_str("[{\"worker_id\":\"a\"}]")};
    crti_msg_state_answer_t other = {.json = crti_str("[{\"worker_id\":\"b\"}]")};
    const crti_message_t *question, *answer;
    uint64_t request;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_STATE_QUERY, 8, &m);
    question = bed_next(bed, NODE_A, CRTI_MSG_STATE_QUERY);
    assert_non_null(question);
    request = question->request;
    bed->seen = 0;
    question = bed_next(bed, NODE_B, CRTI_MSG_STATE_QUERY);
    assert_non_null(question);
    bed_say(bed, NODE_B, CRTI_MSG_STATE_ANSWER, question->request, &other);
    bed_say(bed, NODE_A, CRTI_MSG_STATE_ANSWER, request, &own);
    answer = bed_next(bed, NODE_A, CRTI_MSG_STATE_ANSWER);
    assert_non_null(answer);
    assert_int_equal(answer->request, 8);
    assert_true(crti_str_equal(answer->state_answer.json,
                               "[{\"worker_id\":\"b\"},{\"worker_id\":\"a\"}]"));
}

static void read_log(bed_t *bed, uint64_t request, uint64_t wait_ms)
{
    crti_msg_log_read_t m = {
        .name = crti_str("job:s"), .offset = 3, .limit = 100, .wait_ms = wait_ms};

    bed_say(bed, ADMIN, CRTI_MSG_LOG_READ, request, &m);
}

static void who_reads_the_log_of_a_job_that_has_not_begun_waits_for_it(void **state)
{
    bed_t *bed = *state;
    const crti_message_t *start, *passed;
    uint64_t request;

    control_submit(bed, "s");
    start = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
    assert_non_null(start);
    request = start->request;
    read_log(bed, 21,
             500); /* they wait at the head, not at the node, which has no log yet */
    read_log(bed, 22, 30000);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_LOG_READ), 0);
    bed_pass(bed, 600 * CRTI_MS); /* the first one for long enough */
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                     CRT_ERR_NOT_FOUND);
    assert_int_equal(bed_count(bed, ADMIN, CRTI_MSG_ERROR), 1);
    bed_say(bed, NODE_A, CRTI_MSG_DONE, request, NULL);
    passed = bed_next(bed, NODE_A, CRTI_MSG_LOG_READ);
    assert_non_null(passed);
    assert_int_equal(passed->log_read.offset, 3);
    assert_in_range(passed->log_read.wait_ms, 29000, 29500);
    bed_say(bed, NODE_A, CRTI_MSG_LOG_DATA, passed->request,
            &(crti_msg_log_data_t){.data = crti_str("text"), .next = 7});
    passed = bed_next(bed, ADMIN, CRTI_MSG_LOG_DATA);
    assert_non_null(passed);
    assert_int_equal(passed->request, 22);
    control_expect_rest(bed);
}

static void who_reads_the_log_of_a_job_that_is_set_up_sees_how_that_goes(void **state)
{
    static const char variable[] = "CRT_JOB_SETUP=make";
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t environment = {0};
    crti_msg_job_submit_t m = {.submission = crti_str("s"),
                               .entrypoint = crti_str("train"),
                               .argv = crti_str("argv")};
    bed_t *bed = *state;

    assert_int_equal(crti_list_pack(&environment, variable, strlen(variable)), CRT_OK);
    m.environment = crti_span(environment.data, environment.size);
    bed_say(bed, ADMIN, CRTI_MSG_JOB_SUBMIT, 1, &m);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_JOB_START));
    read_log(bed, 21, 30000); /* it is PENDING, and its node has a log */
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_LOG_READ));
}

static void who_reads_the_log_of_a_job_and_leaves_is_forgotten(void **state)
{
    bed_t *bed = *state;
    const crti_message_t *start;

    control_submit(bed, "s");
    start = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
    assert_non_null(start);
    read_log(bed, 21, 30000);
    read_log(bed, 22, 0); /* no patience: the node is asked at once */
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_LOG_READ), 1);
    crti_control_closed(bed->control, ADMIN, "gone", bed->now);
    bed_say(bed, NODE_A, CRTI_MSG_DONE, start->request, NULL);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_LOG_READ), 1);
}

static crt_status_t log_refusal(bed_t *bed, const char *name)
{
    crti_msg_log_read_t read = {.name = crti_str(name), .limit = 100};

    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_LOG_READ, 31, &read);
    return control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR));
}

/* Who follows it asks again, instead of taking the log for an empty one. */
static void a_log_of_a_node_that_is_away_is_not_missing(void **state)
{
    static const char *const names[] = {"job:s", "0123456789abcdef"};
    bed_t *bed = *state;
    crti_msg_job_exited_t exited;

    exited = (crti_msg_job_exited_t){.job = run_submission(bed, NODE_A)};
    bed_say(bed, NODE_A, CRTI_MSG_JOB_EXITED, 7, &exited);
    crti_control_closed(bed->control, NODE_A, "its connection broke", bed->now);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(log_refusal(bed, names[i]), CRT_ERR_UNREACHABLE);
    bed_pass(bed, 2 * CRTI_S); /* it is dead */
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(log_refusal(bed, names[i]), CRT_ERR_NOT_FOUND);
}

/* One node does not have it; the other one, which may, is away. */
static void a_log_that_no_node_has_may_be_that_of_one_that_is_away(void **state)
{
    crti_msg_log_read_t read = {.name = crti_str("0123456789abcdef"), .limit = 100};
    const crti_msg_error_t unknown = {.status = CRT_ERR_NOT_FOUND};
    bed_t *bed = *state;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    crti_control_closed(bed->control, NODE_B, "its connection broke", bed->now);
    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_LOG_READ, 31, &read);
    bed_say(bed, NODE_A, CRTI_MSG_ERROR,
            bed_next(bed, NODE_A, CRTI_MSG_LOG_READ)->request, &unknown);
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)),
                     CRT_ERR_UNREACHABLE);
}

/* Its environment names the job: a driver that the first one starts on another host. */
static void a_second_driver_on_another_node_is_refused_and_ends_nothing(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_add_t second = {.job = bed_id(5),
                                 .driver = bed_id(1006),
                                 .node = bed_id(2),
                                 .argv = crti_str("argv"),
                                 .sha = crti_str("00ff")};
    const crti_msg_job_end_t end = {.job = bed_id(5)};

    control_make_alive(bed, 50, "a");
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    bed_say(bed, NODE_B, CRTI_MSG_JOB_ADD, 3, &second);
    assert_int_equal(control_error_of(bed_next(bed, NODE_B, CRTI_MSG_ERROR)),
                     CRT_ERR_EXISTS);
    bed_say(bed, NODE_B, CRTI_MSG_JOB_END, 0, &end);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_JOB_END), 0);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 1);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &end);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_JOB_END), 1);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
}

static void the_exit_status_of_a_driver_decides_how_its_job_ended(void **state)
{
    static const struct {
        const char *text;
        bool has_exit;
        int64_t wait_status;
        const char *state, *code, *message;
    } ends[] = {
        {"", false, 0, "\"SUCCEEDED\"", "null", "Job finished"},
        {"", true, 0, "\"SUCCEEDED\"", "0", "Job finished"},
        {"", true, 42 << 8, "\"FAILED\"", "42", "driver exited with status 42"},
        {"driver died", false, 0, "\"FAILED\"", "null", "driver died"},
        {"killed by signal 11", true, 11 | 128, "\"FAILED\"", "-11",
         "killed by signal 11"},
        {"exited with status 0", true, 0, "\"SUCCEEDED\"", "0", "Job finished"},
    };
    bed_t *bed = *state;

    bed_join(bed, NODE_A, 1, 1, 4, NULL, NULL);
    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        const crti_msg_job_add_t add = {.job = bed_id(500 + i),
                                        .driver = bed_id(1500 + i),
                                        .node = bed_id(1),
                                        .argv = crti_str("argv"),
                                        .sha = crti_str("00ff")};
        const crti_msg_job_end_t end = {.job = add.job,
                                        .text = crti_str(ends[i].text),
                                        .has_exit = ends[i].has_exit,
                                        .wait_status = ends[i].wait_status};
        char hex[CRTI_ID_HEX], code[64];

        snprintf(code, sizeof(code), "\"driver_exit_code\":%s", ends[i].code);
        crti_id_hex(add.job, hex);
        bed_say(bed, NODE_A, CRTI_MSG_JOB_ADD, 3, &add);
        for (int twice = 0; twice < 2; twice++) {
            bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &end);
            expect_json(bed, "jobs", hex, ends[i].state);
            expect_json(bed, "jobs", hex, code);
            expect_json(bed, "jobs", hex, ends[i].message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(who_reads_the_log_of_a_job_that_has_not_begun_waits_for_it),
        CONTROL_TEST(who_reads_the_log_of_a_job_that_is_set_up_sees_how_that_goes),
        CONTROL_TEST(who_reads_the_log_of_a_job_and_leaves_is_forgotten),
        CONTROL_TEST(the_exit_status_of_a_driver_decides_how_its_job_ended),
        CONTROL_TEST(a_log_of_a_node_that_is_away_is_not_missing),
        CONTROL_TEST(a_log_that_no_node_has_may_be_that_of_one_that_is_away),
        CONTROL_TEST(a_second_driver_on_another_node_is_refused_and_ends_nothing),
        CONTROL_TEST(a_submission_runs_on_the_heads_host_and_ends_as_its_process_does),
        CONTROL_TEST(a_submission_waits_for_the_node_of_the_heads_host),
        CONTROL_TEST(a_late_answer_to_the_head_before_answers_no_request_of_the_next),
        CONTROL_TEST(an_end_that_is_told_twice_is_heard_when_it_is_durable),
        CONTROL_TEST(a_submission_id_that_is_used_again_is_another_job),
        CONTROL_TEST(
            a_submission_of_a_node_that_died_does_not_run_in_the_next_heads_eyes),
        CONTROL_TEST(a_stopped_submission_is_stopped_whatever_its_exit_status),
        CONTROL_TEST(a_submission_id_is_used_once),
        CONTROL_TEST(a_stop_that_its_node_did_not_hear_is_told_when_it_is_back),
        CONTROL_TEST(a_running_job_without_a_link_is_stopped_when_its_node_is_back),
        CONTROL_TEST(a_job_that_is_stopped_before_it_was_sent_is_stopped_right_behind),
        CONTROL_TEST(a_node_that_leaves_gives_the_turn_of_its_job_to_the_next),
        CONTROL_TEST(a_retry_that_can_not_be_stored_runs_when_the_store_can_write_again),
        CONTROL_TEST(a_job_whose_detached_actors_live_is_not_deleted),
        CONTROL_TEST(the_state_is_shown_as_json),
        CONTROL_TEST(an_actor_of_a_job_that_ended_has_not_failed),
        CONTROL_TEST(an_actor_of_a_driver_that_died_has_failed),
        CONTROL_TEST(an_actor_whose_maker_ended_well_has_not_failed),
        CONTROL_TEST(an_actor_whose_maker_died_has_failed),
        CONTROL_TEST(an_actor_that_was_killed_by_its_user_has_not_failed),
        CONTROL_TEST(an_actor_whose_process_died_has_failed),
        CONTROL_TEST(workers_are_asked_of_all_nodes),
        CONTROL_TEST(the_node_that_asks_is_asked_for_its_workers_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
