/* SPDX-License-Identifier: Apache-2.0 */
/* Actors that the head places on a node, and drivers and jobs that end. */
#include "node_test.h"

#include <signal.h>
#include <stdlib.h>

static void an_actor_is_started_stopped_and_its_death_reported(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    const crti_msg_actor_started_t *started;
    const crti_msg_actor_died_t *died;
    crti_msg_actor_stop_t stop = {.actor_incarnation = 1, .text = crti_str("enough")};
    const crti_message_t *message;
    crti_msg_lease_granted_t granted;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_attach(s, 0, 0);
    start = node_test_actor_start(s, 1);
    crti_resources_set(&start.resources, "CPU", CRTI_RESOURCE_ONE);
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    message = scene_wait(s, CRTI_MSG_ACTOR_STARTED);
    assert_int_equal(message->request, 31);
    started = &message->actor_started;
    assert_true(
        node_test_contains(scene_wait(s, CRTI_MSG_LOG)->log.prefix, "(Counter pid="));
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 32, &start); /* again: the same answer */
    assert_int_equal(scene_wait(s, CRTI_MSG_ACTOR_STARTED)->request, 32);
    start.actor.low = 2; /* no room for another */
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 33, &start);
    message = scene_wait(s, CRTI_MSG_ERROR);
    assert_int_equal(message->request, 33);
    assert_int_equal(message->error.status, CRT_ERR_BACKPRESSURE);
    granted.ipc = started->ipc;
    kill(scene_pid(&granted), SIGKILL);
    died = &scene_wait(s, CRTI_MSG_ACTOR_DIED)->actor_died;
    assert_true(died->created);
    assert_int_equal(died->status, CRT_ERR_ACTOR_DIED);
    assert_true(node_test_contains(died->text, "(Counter, pid"));
    assert_true(node_test_contains(died->text, "in Counter.run"));
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 34, &start); /* its room is free again */
    scene_wait(s, CRTI_MSG_ACTOR_STARTED);
    stop.actor = start.actor;
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STOP, 35, &stop);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 35);
    died = &scene_wait(s, CRTI_MSG_ACTOR_DIED)->actor_died;
    assert_true(crti_str_equal(died->text, "enough"));
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STOP, 36, &stop); /* it is gone: done as well */
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 36);
}

static void a_driver_that_leaves_hears_when_what_ran_for_it_has_ended(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    crti_msg_actor_stop_t stop = {.actor_incarnation = 1, .text = crti_str("job ended")};
    crti_msg_error_t ended = {.status = CRT_ERR_NOT_FOUND, .text = crti_str("has ended")};
    crti_msg_lease_granted_t granted;
    const crti_message_t *get, *done;
    pid_t pids[3];

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pids[0] = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    for (int i = 1; i < 3; i++) { /* 1 is the driver's, 2 is detached */
        start = node_test_actor_start(s, (uint64_t)i);
        scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 30, &start);
        granted.ipc = scene_wait(s, CRTI_MSG_ACTOR_STARTED)->actor_started.ipc;
        pids[i] = scene_pid(&granted);
    }
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_SHUTDOWN, 77, NULL);
    scene_wait(s, CRTI_MSG_JOB_END);
    get = scene_wait(s, CRTI_MSG_JOB_GET);
    assert_false(scene_seen(s, CRTI_MSG_DONE));
    stop.actor = (crti_id_t){6, 1};
    scene_head_send(s, 0, CRTI_MSG_ACTOR_STOP, 35, &stop);
    scene_head_send(s, 0, CRTI_MSG_ERROR, get->request, &ended);
    do
        done = scene_wait(s, CRTI_MSG_DONE);
    while (done->request == 35);
    assert_int_equal(done->request, 77);
    assert_false(scene_is_alive(pids[0]));
    assert_false(scene_is_alive(pids[1]));
    assert_true(scene_is_alive(pids[2]));
}

static void without_a_head_a_driver_leaves_all_the_same(void **state)
{
    scene_t *s = *state;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    scene_head_down(s);
    assert_false(scene_wait(s, CRTI_MSG_HEAD_LINK)->head_link.up);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_SHUTDOWN, 78, NULL);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 78);
    assert_false(scene_is_alive(pid));
    scene_head_up(s);
}

static void a_job_that_the_head_ends_is_over_for_its_driver_too(void **state)
{
    scene_t *s = *state;
    crti_msg_job_end_t end = {.text = crti_str("deleted")};
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    end.job = s->drivers[0].job;
    scene_head_send(s, 0, CRTI_MSG_JOB_END, 0, &end);
    assert_true(
        crti_str_equal(scene_wait(s, CRTI_MSG_SHUTDOWN)->shutdown.text, "deleted"));
    scene_wait_gone(s, pid);
    scene_lease(s, 0, 1);
    assert_true(node_test_contains(scene_wait(s, CRTI_MSG_ERROR)->error.text,
                                   "the job has ended"));
}

static void
an_actor_of_an_unknown_job_asks_the_head_and_fails_with_its_answer(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    crti_msg_error_t error = {.status = CRT_ERR_NOT_FOUND,
                              .text = crti_str("no such job")};
    const crti_message_t *get;

    scene_start_node(s, 0, NULL);
    start = node_test_actor_start(s, 1);
    start.job = (crti_id_t){3, 3};
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    get = scene_wait(s, CRTI_MSG_JOB_GET);
    assert_true(crti_id_equal(get->job_get.job, start.job));
    scene_head_send(s, 0, CRTI_MSG_ERROR, get->request, &error);
    assert_true(
        node_test_contains(scene_wait(s, CRTI_MSG_ERROR)->error.text, "no such job"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(an_actor_is_started_stopped_and_its_death_reported),
        NODE_TEST(a_driver_that_leaves_hears_when_what_ran_for_it_has_ended),
        NODE_TEST(without_a_head_a_driver_leaves_all_the_same),
        NODE_TEST(a_job_that_the_head_ends_is_over_for_its_driver_too),
        NODE_TEST(an_actor_of_an_unknown_job_asks_the_head_and_fails_with_its_answer),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
