/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that join, break, fall silent and come back, as the head decides them. */
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "tests/control/control_test.h"

static void a_broken_link_that_comes_back_in_time_changes_nothing(void **state)
{
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t actors = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
    crti_msg_actor_running_t running = {.actor = bed_id(50),
                                        .actor_incarnation = 1,
                                        .job = bed_id(5),
                                        .process = bed_id(150),
                                        .incarnation = 1,
                                        .node = bed_id(1)};
    crti_msg_job_add_t job = {
        .job = bed_id(5), .driver = bed_id(1005), .node = bed_id(1)};
    const crti_message_t *m;

    control_make_alive(bed, 50, "a");
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    bed_pass(bed, 500 * CRTI_MS);
    crti_message_encode(CRTI_MSG_ACTOR_RUNNING, 0, &running, &entry);
    crti_list_pack(&actors, entry.data, entry.size);
    entry.size = 0;
    crti_message_encode(CRTI_MSG_JOB_ADD, 0, &job, &entry);
    crti_list_pack(&jobs, entry.data, entry.size);
    bed_join(bed, 30, 1, 1, 4, &actors, &jobs);
    m = bed_next(bed, 30, CRTI_MSG_NODE_REGISTERED);
    assert_non_null(m);
    assert_int_equal(m->node_registered.actors_to_end.size, 0);
    assert_int_equal(m->node_registered.jobs_to_end.size, 0);
    bed_pass(bed, CRTI_S);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 0);
    control_watch(bed, NODE_B, 50);
    assert_int_equal(control_state_of(bed, NODE_B).state, CRTI_ACTOR_ALIVE);
}

/* ACTOR_STOP is not repeated: what was killed meanwhile must not start. */
static void
an_actor_that_starts_on_a_node_that_is_back_ends_if_it_was_killed_meanwhile(void **state)
{
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};
    crti_msg_job_add_t job = {
        .job = bed_id(5), .driver = bed_id(1005), .node = bed_id(1)};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t actors = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t job_entry = {0};
    bed_t *bed = *state;
    const crti_message_t *m;

    bed_join(bed, NODE_B, 2, 1, 0, NULL, NULL);
    for (uint64_t id = 50; id <= 51; id++) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
        crti_msg_actor_running_t starting = {
            .actor = bed_id(id), .actor_incarnation = 1, .job = bed_id(5)};

        control_create(bed, id, "");
        crti_message_encode(CRTI_MSG_ACTOR_RUNNING, 0, &starting, &entry);
        crti_list_pack(&actors, entry.data, entry.size);
    }
    crti_message_encode(CRTI_MSG_JOB_ADD, 0, &job, &job_entry);
    crti_list_pack(&jobs, job_entry.data, job_entry.size);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    bed_say(bed, NODE_B, CRTI_MSG_ACTOR_KILL, 3, &kill);
    bed_forget(bed);
    bed_join(bed, 30, 1, 1, 4, &actors, &jobs);
    m = bed_next(bed, 30, CRTI_MSG_NODE_REGISTERED);
    assert_non_null(m);
    assert_int_equal(m->node_registered.actors_to_end.size, 16);
    assert_true(crti_id_equal(
        crti_id_unpack((const unsigned char *)m->node_registered.actors_to_end.data),
        bed_id(50)));
    m = bed_next(bed, 30, CRTI_MSG_ACTOR_START); /* the other one is asked for again */
    assert_non_null(m);
    assert_true(crti_id_equal(m->actor_start.actor, bed_id(51)));
    assert_null(bed_next(bed, 30, CRTI_MSG_ACTOR_START));
}

/* The head was stopped, or its host slept: the nodes gave their links up, and make them anew when
 * it goes on. How soon one can do that is not the node's fault. */
static void a_head_that_was_away_gives_the_nodes_time_to_come_back(void **state)
{
    bed_t *bed = *state;
    crti_msg_heartbeat_t heartbeat = {.sequence = 1};

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    bed->now += 8 * CRTI_S;
    crti_control_tick(bed->control,
                      bed->now); /* before what was said meanwhile is read */
    crti_control_closed(bed->control, NODE_A, "closed", bed->now);
    bed_say(bed, NODE_B, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    bed_pass(bed, 4 * CRTI_S);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 0);
    bed_say(bed, NODE_B, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    bed_pass(bed, 4 * CRTI_S);
    bed_say(bed, NODE_B, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    bed_pass(bed, 3 * CRTI_S);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 1);
    bed_join(bed, 30, 3, 1, 4, NULL, NULL);
    bed_forget(bed);
    crti_control_closed(bed->control, NODE_B, "closed", bed->now);
    bed_pass(bed, CRTI_S); /* it was not away again: the usual time */
    assert_int_equal(bed_count(bed, 30, CRTI_MSG_NODE_DIED), 1);
}

/* JOB_END is not repeated: a node that had no link then hears of it when it is back. */
static void a_node_that_missed_the_end_of_a_job_is_told_when_it_registers(void **state)
{
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    const crti_msg_job_end_t end = {.job = bed_id(5)};
    const uint64_t listed[] = {5, 6, 77};
    const crti_message_t *m;

    control_make_alive(bed, 50, "a");
    bed_add_job(bed, NODE_A, 1, 6);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &end);
    for (size_t i = 0; i < 3; i++) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
        crti_msg_job_add_t job = {.job = bed_id(listed[i])};

        crti_message_encode(CRTI_MSG_JOB_ADD, 0, &job, &entry);
        crti_list_pack(&jobs, entry.data, entry.size);
    }
    bed_join(bed, NODE_B, 2, 1, 4, NULL, &jobs);
    m = bed_next(bed, NODE_B, CRTI_MSG_NODE_REGISTERED);
    assert_non_null(m);
    /* The one that ended and the unknown one; the second driver is still there. */
    assert_int_equal(m->node_registered.jobs_to_end.size, 32);
}

/* NODE_DIED is not repeated either. */
static void a_node_that_is_back_hears_which_nodes_died_meanwhile(void **state)
{
    bed_t *bed = *state;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    crti_control_closed(bed->control, NODE_B, "reset", bed->now);
    bed_pass(bed, CRTI_S);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    bed_join(bed, 30, 1, 1, 4, NULL, NULL);
    assert_non_null(bed_next(bed, 30, CRTI_MSG_NODE_REGISTERED));
    assert_true(
        crti_id_equal(bed_next(bed, 30, CRTI_MSG_NODE_DIED)->node_died.node, bed_id(2)));
    bed_join(bed, 31, 2, 2, 4, NULL, NULL); /* not its own death */
    assert_int_equal(bed_count(bed, 31, CRTI_MSG_NODE_DIED), 0);
}

static void a_node_whose_processes_would_be_taken_for_anothers_is_refused(void **state)
{
    bed_t *bed = *state;
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION,
                                  .node = {bed_id(1).high + 5, 77},
                                  .incarnation = 1};

    crti_control_opened(bed->control, 30, false, bed->now);
    bed_say(bed, 30, CRTI_MSG_NODE_REGISTER, 1, &m);
    assert_int_equal(control_error_of(bed_next(bed, 30, CRTI_MSG_ERROR)), CRT_ERR_EXISTS);
    assert_int_equal(crti_control_figures(bed->control).nodes_alive, 1);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    bed_pass(bed, CRTI_S); /* dead: its objects may be anywhere */
    bed_say(bed, 30, CRTI_MSG_NODE_REGISTER, 1, &m);
    assert_int_equal(control_error_of(bed_next(bed, 30, CRTI_MSG_ERROR)), CRT_ERR_EXISTS);
    m.node.high += UINT64_C(1) << 40;
    bed_say(bed, 30, CRTI_MSG_NODE_REGISTER, 1, &m);
    assert_non_null(bed_next(bed, 30, CRTI_MSG_NODE_REGISTERED));
}

static void a_node_that_registers_twice_on_one_link_keeps_it(void **state)
{
    bed_t *bed = *state;

    bed_join(bed, NODE_A, 1, 1, 4, NULL, NULL);
    bed_join(bed, NODE_A, 1, 1, 4, NULL, NULL);
    assert_false(bed_was_dropped(bed, NODE_A));
    assert_int_equal(crti_control_figures(bed->control).nodes_alive, 1);
}

static void a_broken_link_that_stays_broken_is_a_death_within_a_second(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_state_t found;

    control_make_alive(bed, 50, "a");
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    control_watch(bed, NODE_B, 50);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    bed_pass(bed, 550 * CRTI_MS);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 0);
    bed_pass(bed, 300 * CRTI_MS);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 1);
    found = control_state_of(bed, NODE_B);
    assert_int_equal(found.state, CRTI_ACTOR_DEAD);
    bed_join(bed, 30, 1, 1, 4, NULL, NULL); /* too late */
    bed->seen = 0;
    assert_int_equal(control_error_of(bed_next(bed, 30, CRTI_MSG_ERROR)),
                     CRT_ERR_NODE_LOST);
    crti_control_closed(bed->control, 30, "", bed->now);
    bed_join(bed, 31, 1, 2, 4, NULL, NULL); /* as a new incarnation it may */
    assert_non_null(bed_next(bed, 31, CRTI_MSG_NODE_REGISTERED));
}

static void those_who_wait_hear_of_a_death_before_a_slow_disk_has_it(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_died_t died = {.actor = bed_id(52),
                                  .actor_incarnation = 1,
                                  .status = CRT_ERR_ACTOR_DIED,
                                  .created = true};

    bed_join(bed, NODE_B, 2, 1, 0, NULL, NULL);
    bed_add_job(bed, NODE_B, 2, 6);
    for (uint64_t actor = 50; actor < 53; actor++) {
        crti_msg_actor_create_t m = bed_actor(actor, 6, NULL);

        m.owner_node = bed_id(2);
        crti_resources_set(&m.resources, "CPU", CRTI_RESOURCE_ONE);
        bed_say(bed, NODE_B, CRTI_MSG_ACTOR_CREATE, actor, &m);
        assert_true(bed_start_actor(bed, NODE_A, actor + 100));
        control_watch(bed, NODE_B, actor);
    }
    bed_forget(bed);
    bed->manual = true;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_ACTOR_STATE), 1);
    bed_store(bed);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    bed_pass(bed, 700 * CRTI_MS);
    assert_true(bed->pending_count > 0);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_ACTOR_STATE), 3);
    bed_store(bed);
    control_expect_rest(bed);
}

static void a_silent_node_is_dead_after_five_seconds(void **state)
{
    bed_t *bed = *state;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    for (int i = 0; i < 49; i++) {
        bed_pass(bed, 100 * CRTI_MS);
        bed_say(bed, NODE_B, CRTI_MSG_HEARTBEAT, 0, NULL);
    }
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 0);
    bed_pass(bed, 200 * CRTI_MS);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 1);
    assert_true(bed_was_dropped(bed, NODE_A));
    assert_int_equal(crti_control_figures(bed->control).nodes_alive, 1);
}

static void a_newer_incarnation_replaces_the_old_one(void **state)
{
    bed_t *bed = *state;

    control_make_alive(bed, 50, "a");
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_join(bed, 30, 1, 2, 4, NULL, NULL);
    assert_non_null(bed_next(bed, NODE_B, CRTI_MSG_NODE_DIED));
    assert_true(bed_was_dropped(bed, NODE_A));
    assert_int_equal(crti_control_figures(bed->control).nodes_alive, 2);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
}

static void restartable_actors_move_to_another_node(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "a");

    bed_join(bed, NODE_B, 2, 1, 3, NULL, NULL);
    bed_add_job(bed, NODE_B, 2, 6); /* the owner lives on the other node */
    m.job = bed_id(6);
    m.owner = bed_id(1006);
    m.owner_node = bed_id(2);
    m.max_restarts = 1;
    crti_resources_parse("CPU=3", &m.resources);
    bed_say(bed, NODE_B, CRTI_MSG_ACTOR_CREATE, 1, &m);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100)); /* 3 of 4, not 3 of 3 */
    bed_forget(bed);
    crti_control_closed(bed->control, NODE_A, "", bed->now);
    bed_pass(bed, CRTI_S);
    assert_true(bed_start_actor(bed, NODE_B, 101));
    control_watch(bed, NODE_B, 50);
    assert_int_equal(control_state_of(bed, NODE_B).actor_incarnation, 2);
}

static void a_wrong_protocol_version_is_refused_with_both_numbers(void **state)
{
    bed_t *bed = *state;
    crti_msg_node_register_t m = {.protocol = 99, .node = bed_id(7)};
    const crti_message_t *answer;
    char text[256];

    crti_control_opened(bed->control, 40, false, bed->now);
    bed_say(bed, 40, CRTI_MSG_NODE_REGISTER, 1, &m);
    answer = bed_next(bed, 40, CRTI_MSG_ERROR);
    assert_int_equal(control_error_of(answer), CRT_ERR_PROTOCOL);
    assert_non_null(strstr(crti_text(answer->error.text, text, sizeof(text)), "99"));
}

static void a_node_that_has_more_than_all_it_has_is_refused(void **state)
{
    bed_t *bed = *state;
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION, .node = bed_id(7)};
    crti_msg_heartbeat_t heartbeat = {.sequence = 1};
    const crti_message_t *answer;
    char text[256];

    crti_resources_set(&m.resources, "CPU", 2 * CRTI_RESOURCE_ONE);
    crti_resources_set(&m.available, "CPU", 3 * CRTI_RESOURCE_ONE);
    crti_control_opened(bed->control, 40, false, bed->now);
    bed_say(bed, 40, CRTI_MSG_NODE_REGISTER, 1, &m);
    answer = bed_next(bed, 40, CRTI_MSG_ERROR);
    assert_int_equal(control_error_of(answer), CRT_ERR_PROTOCOL);
    assert_non_null(strstr(crti_text(answer->error.text, text, sizeof(text)),
                           "3 CPU is available, it has 2 CPU"));
    crti_resources_set(&heartbeat.available, "CPU", -CRTI_RESOURCE_ONE); /* lent */
    bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_HEARTBEAT_ACK), 1);
    crti_resources_set(&heartbeat.available, "CPU", CRTI_RESOURCE_MAX);
    bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, &heartbeat);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_HEARTBEAT_ACK), 1);
    assert_true(bed_was_dropped(bed, NODE_A));
}

static void whoever_speaks_before_registering_is_dropped(void **state)
{
    bed_t *bed = *state;

    crti_control_opened(bed->control, 40, false, bed->now);
    bed_say(bed, 40, CRTI_MSG_HEARTBEAT, 0, NULL);
    assert_true(bed_was_dropped(bed, 40));
    assert_int_equal(crti_control_figures(bed->control).messages_refused, 1);
}

static void deaths_of_processes_are_told_to_all_other_nodes(void **state)
{
    bed_t *bed = *state;
    crti_msg_peer_died_t died = {.process = bed_id(77),
                                 .incarnation = 3,
                                 .node = bed_id(1),
                                 .status = CRT_ERR_WORKER_DIED,
                                 .pid = 4711,
                                 .text = crti_str("gone")};
    crti_msg_watch_t watching = {
        .process = bed_id(77), .incarnation = 3, .node = bed_id(1)};

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_PEER_DIED, 0, &died);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_PEER_DIED), 0);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_PEER_DIED), 1);
    bed_forget(bed);
    bed_say(bed, NODE_B, CRTI_MSG_WATCH, 0, &watching); /* asked too late: still told */
    assert_int_equal(bed_next(bed, NODE_B, CRTI_MSG_PEER_DIED)->peer_died.pid, 4711);
}

static void a_node_that_joins_is_told_to_all_before_anything_runs_on_it(void **state)
{
    bed_t *bed = *state;
    crti_msg_node_find_t find = {.node = bed_id(2)};
    const crti_message_t *m;

    bed_say(bed, NODE_A, CRTI_MSG_NODE_FIND, 7, &find);
    m = bed_next(bed, NODE_A, CRTI_MSG_ERROR);
    assert_int_equal(control_error_of(m), CRT_ERR_NODE_LOST);
    bed_forget(bed);
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_NODE_VIEWS), 1); /* no time passed */
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_NODE_FIND, 8, &find);
    m = bed_next(bed, NODE_A, CRTI_MSG_NODE_VIEW);
    assert_non_null(m);
    assert_int_equal(m->request, 8);
    assert_true(crti_id_equal(m->node_view.node, bed_id(2)));
}

static void views_of_nodes_are_gathered(void **state)
{
    bed_t *bed = *state;
    crti_msg_heartbeat_t beat = {0};

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_pass(bed, 100 * CRTI_MS);
    bed_forget(bed);
    for (int i = 0; i < 10; i++) {
        crti_resources_set(&beat.available, "CPU", 1000 * (i + 1));
        bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, &beat);
    }
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_VIEWS), 0);
    bed_pass(bed, 100 * CRTI_MS);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_VIEWS), 1);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_NODE_VIEWS), 0);
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Each actor would be looked for in the whole report. */
static void a_node_with_thousands_of_actors_comes_back_soon(void **state)
{
    enum { ACTORS = 1500 };
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t actors = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t job_entry = {0};
    crti_msg_job_add_t job = {
        .job = bed_id(5), .driver = bed_id(1005), .node = bed_id(1)};
    const crti_message_t *m;
    double since;

    crti_message_encode(CRTI_MSG_JOB_ADD, 0, &job, &job_entry);
    crti_list_pack(&jobs, job_entry.data, job_entry.size);

    for (uint64_t i = 0; i < ACTORS; i++) {
        CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
        crti_msg_actor_running_t running = {.actor = bed_id(100 + i),
                                            .actor_incarnation = 1,
                                            .job = bed_id(5),
                                            .process = bed_id(10000 + i),
                                            .incarnation = 1,
                                            .node = bed_id(1)};

        control_create(bed, 100 + i, "");
        assert_true(bed_start_actor(bed, NODE_A, 10000 + i));
        bed_forget(bed);
        if (i == 7)
            continue; /* this one has ended meanwhile */
        crti_message_encode(CRTI_MSG_ACTOR_RUNNING, 0, &running, &entry);
        crti_list_pack(&actors, entry.data, entry.size);
    }
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    since = cpu_seconds();
    bed_join(bed, 30, 1, 1, 4, &actors, &jobs);
    m = bed_next(bed, 30, CRTI_MSG_NODE_REGISTERED);
    assert_non_null(m);
    assert_int_equal(m->node_registered.actors_to_end.size, 0);
    assert_int_equal(crti_control_figures(bed->control).actors_living, ACTORS - 1);
    assert_true(cpu_seconds() - since < 0.1);
}

/* Several may run on the head's host. */
static void one_node_is_the_heads(void **state)
{
    bed_t *bed = *state;
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION,
                                  .version = crti_str("test"),
                                  .node = bed_id(2),
                                  .incarnation = 1,
                                  .ip = crti_str("10.0.0.1"),
                                  .hostname = crti_str("host"),
                                  .endpoint = crti_str("10.0.0.1:7001"),
                                  .is_head_host = true};
    crti_msg_state_query_t query = {.what = crti_str("nodes"), .filter = crti_str("")};
    const crti_message_t *answer;
    const char *first;

    crti_control_opened(bed->control, NODE_B, false, bed->now);
    bed_say(bed, NODE_B, CRTI_MSG_NODE_REGISTER, 1, &m);
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 8, &query);
    answer = bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER);
    assert_non_null(answer);
    first = memmem(answer->state_answer.json.data, answer->state_answer.json.size,
                   "\"is_head_node\":true", 19);
    assert_non_null(first);
    assert_null(
        memmem(first + 1,
               answer->state_answer.json.size -
                   (size_t)(first + 1 - (const char *)answer->state_answer.json.data),
               "\"is_head_node\":true", 19));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(a_broken_link_that_comes_back_in_time_changes_nothing),
        CONTROL_TEST(a_head_that_was_away_gives_the_nodes_time_to_come_back),
        CONTROL_TEST(a_node_that_is_back_hears_which_nodes_died_meanwhile),
        CONTROL_TEST(a_node_whose_processes_would_be_taken_for_anothers_is_refused),
        CONTROL_TEST(a_node_that_registers_twice_on_one_link_keeps_it),
        CONTROL_TEST(a_broken_link_that_stays_broken_is_a_death_within_a_second),
        CONTROL_TEST(
            an_actor_that_starts_on_a_node_that_is_back_ends_if_it_was_killed_meanwhile),
        CONTROL_TEST(a_node_that_missed_the_end_of_a_job_is_told_when_it_registers),
        CONTROL_TEST(those_who_wait_hear_of_a_death_before_a_slow_disk_has_it),
        CONTROL_TEST(a_silent_node_is_dead_after_five_seconds),
        CONTROL_TEST(a_newer_incarnation_replaces_the_old_one),
        CONTROL_TEST(restartable_actors_move_to_another_node),
        CONTROL_TEST(a_wrong_protocol_version_is_refused_with_both_numbers),
        CONTROL_TEST(a_node_that_has_more_than_all_it_has_is_refused),
        CONTROL_TEST(whoever_speaks_before_registering_is_dropped),
        CONTROL_TEST(deaths_of_processes_are_told_to_all_other_nodes),
        CONTROL_TEST(a_node_that_joins_is_told_to_all_before_anything_runs_on_it),
        CONTROL_TEST(views_of_nodes_are_gathered),
        CONTROL_TEST(a_node_with_thousands_of_actors_comes_back_soon),
        CONTROL_TEST(one_node_is_the_heads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
