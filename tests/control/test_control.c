/* SPDX-License-Identifier: Apache-2.0 */
/* What the head decides, without a head around it: durability before answers, lives of actors,
 * nodes and jobs, and what is left after a restart. */
#include "runtime/control/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/clock.h"
#include "tests/control/bed.h"

#define NODE_A 10 /* links */
#define NODE_B 11
#define ADMIN  20

static int set_up(void **state)
{
    bed_t *bed = bed_new();

    bed_join(bed, NODE_A, 1, 1, 4, NULL, NULL);
    bed_add_job(bed, NODE_A, 1, 5);
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    bed_forget(bed);
    *state = bed;
    return 0;
}

static int tear_down(void **state)
{
    bed_free(*state);
    return 0;
}

static crt_status_t error_of(const crti_message_t *m)
{
    assert_non_null(m);
    assert_int_equal(m->kind, CRTI_MSG_ERROR);
    return (crt_status_t)m->error.status;
}

static void create(bed_t *bed, uint64_t actor, const char *name)
{
    crti_msg_actor_create_t m = bed_actor(actor, 5, name);

    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, actor, &m);
}

static void watch(bed_t *bed, uint64_t link, uint64_t actor)
{
    crti_msg_actor_watch_t m = {.actor = bed_id(actor)};

    bed_say(bed, link, CRTI_MSG_ACTOR_WATCH, 1, &m);
}

/* The last ACTOR_STATE that was sent on the link. */
static crti_msg_actor_state_t state_of(bed_t *bed, uint64_t link)
{
    crti_msg_actor_state_t found = {.state = 77};
    const crti_message_t *m;

    while ((m = bed_next(bed, link, CRTI_MSG_ACTOR_STATE)))
        found = m->actor_state;
    return found;
}

static void expect_rest(bed_t *bed)
{
    crti_control_figures_t f = crti_control_figures(bed->control);

    assert_int_equal(f.outbox, 0);
    assert_int_equal(f.dirty, 0);
}

/* A living actor `actor` on node A in process actor + 100. */
static void make_alive(bed_t *bed, uint64_t actor, const char *name)
{
    create(bed, actor, name);
    assert_true(bed_start_actor(bed, NODE_A, actor + 100));
    bed_forget(bed);
}

/* ---------------------------------------------------------------- durability */

static void an_answer_waits_until_its_rows_are_durable(void **state)
{
    bed_t *bed = *state;

    bed->manual = true;
    create(bed, 50, "a");
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    assert_true(bed_store(bed) > 0);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    /* The node begins only when the row that says so is durable too. */
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ACTOR_START), 1);
    expect_rest(bed);
}

static void a_creation_that_can_not_be_stored_is_taken_back(void **state)
{
    bed_t *bed = *state;

    bed->failing = CRT_ERR_IO;
    create(bed, 50, "a");
    assert_int_equal(error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_IO);
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START));
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
    bed->failing = CRT_OK;
    bed_pass(bed, 3 * CRTI_S); /* what may have been written is deleted */
    assert_false(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(50)));
    expect_rest(bed);
    create(bed, 51, "a"); /* the name is free */
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
}

static void a_death_that_can_not_be_stored_is_told_and_stored_later(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_died_t died = {.actor = bed_id(50),
                                  .actor_incarnation = 1,
                                  .status = CRT_ERR_ACTOR_DIED,
                                  .text = crti_str("killed by signal 11"),
                                  .created = true};
    crti_msg_actor_state_t found;

    make_alive(bed, 50, "a");
    watch(bed, NODE_A, 50);
    bed->failing = CRT_ERR_IO;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
    found = state_of(bed, NODE_A);
    assert_int_equal(found.state, CRTI_ACTOR_DEAD);
    assert_true(crti_str_equal(found.text, "killed by signal 11"));
    assert_true(crti_control_figures(bed->control).dirty > 0);
    bed->failing = CRT_OK;
    bed_pass(bed, 5 * CRTI_S);
    expect_rest(bed);
    bed_restart(bed, true);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
}

static void answers_keep_their_order_behind_slow_rows(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_find_t find = {.name = crti_str("a")};
    const crti_message_t *m;

    bed->manual = true;
    create(bed, 50, "a");
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_FIND, 2, &find);
    assert_int_equal(bed->sent_count, 0); /* nobody hears of what may still be lost */
    bed_store(bed);
    assert_int_equal(bed->sent[0].message.kind, CRTI_MSG_DONE);
    m = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STATE);
    assert_non_null(m);
    assert_int_equal(m->request, 2);
}

static void asking_for_the_same_actor_twice_makes_one(void **state)
{
    bed_t *bed = *state;

    bed->manual = true;
    create(bed, 50, "a");
    create(bed, 50, "a");
    bed_store(bed);
    create(bed, 50, "a");
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_DONE), 3);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ERROR), 0);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 1);
}

/* ---------------------------------------------------------------- actors */

static void a_name_belongs_to_one_living_actor(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};

    make_alive(bed, 50, "a");
    create(bed, 51, "a");
    assert_int_equal(error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_EXISTS);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 3, &kill);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP));
    bed_forget(bed);
    create(bed, 52, "a");
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
}

static void an_actor_is_started_again_while_it_has_restarts(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "");
    crti_msg_actor_died_t died = {
        .actor = bed_id(50), .text = crti_str("x"), .created = true};

    m.max_restarts = 2;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    watch(bed, NODE_A, 50);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_true(bed_start_actor(bed, NODE_A, 100 + i));
        bed_forget(bed);
        died.actor_incarnation = i;
        bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
        bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died); /* told twice: counts once */
        bed->seen = 0;
    }
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START));
    bed->seen = 0;
    assert_int_equal(state_of(bed, NODE_A).state, CRTI_ACTOR_DEAD);
}

static void a_failed_creation_is_not_started_again(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "");
    crti_msg_actor_died_t died = {.actor = bed_id(50),
                                  .actor_incarnation = 1,
                                  .status = CRT_ERR_USER,
                                  .text = crti_str("bad argument")};
    crti_msg_actor_state_t found;

    m.max_restarts = -1;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    watch(bed, NODE_A, 50);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
    found = state_of(bed, NODE_A);
    assert_int_equal(found.state, CRTI_ACTOR_DEAD);
    assert_int_equal(found.status, CRT_ERR_USER);
    assert_true(crti_str_equal(found.text, "bad argument"));
}

static void a_node_that_refuses_costs_no_restart(void **state)
{
    bed_t *bed = *state;
    crti_msg_error_t full = {.status = CRT_ERR_BACKPRESSURE,
                             .text = crti_str("too many pids")};
    const crti_message_t *start;

    create(bed, 50, "");
    watch(bed, NODE_A, 50);
    bed->seen = 0;
    start = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    bed_say(bed, NODE_A, CRTI_MSG_ERROR, start->request, &full);
    bed->seen = 0;
    assert_int_equal(state_of(bed, NODE_A).state, CRTI_ACTOR_PENDING);
    bed_forget(bed);
    bed_pass(bed, CRTI_S);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100));
    assert_int_equal(state_of(bed, NODE_A).state, CRTI_ACTOR_ALIVE);
}

static void an_actor_without_a_place_says_what_it_waits_for(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "");
    crti_msg_actor_state_t found;

    crti_resources_parse("CPU=5", &m.resources);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    watch(bed, NODE_A, 50);
    found = state_of(bed, NODE_A);
    assert_int_equal(found.state, CRTI_ACTOR_PENDING);
    assert_true(crti_str_equal(found.text, "needs 5 CPU, the cluster has 4"));
    bed_join(bed, NODE_B, 2, 1, 8, NULL, NULL);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_B, 100));
    assert_int_equal(state_of(bed, NODE_A).state, CRTI_ACTOR_ALIVE);
}

static void a_late_report_of_an_earlier_incarnation_ends_that_process(void **state)
{
    bed_t *bed = *state;
    const crti_message_t *start;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};
    crti_msg_actor_started_t started = {
        .actor = bed_id(50), .actor_incarnation = 1, .process = bed_id(100)};

    create(bed, 50, "");
    start = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 9, &kill);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_STARTED, start->request, &started);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP));
}

static void actors_end_with_their_job_but_detached_ones_live_on(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(51, 5, "kept");
    crti_msg_job_end_t end = {.job = bed_id(5)};
    crti_msg_job_get_t get = {.job = bed_id(5)};
    crti_msg_actor_kill_t kill = {.actor = bed_id(51), .no_restart = true};

    make_alive(bed, 50, "a");
    m.detached = true;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    assert_true(bed_start_actor(bed, NODE_A, 151));
    bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &end);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_JOB_END));
    assert_int_equal(crti_control_figures(bed->control).actors_living, 1);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_GET, 4, &get); /* it may have to be started again */
    /* Its node may not have known the job when that ended. */
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_JOB_END));
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_JOB_INFO));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 5, &kill);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_GET, 6, &get);
    assert_int_equal(error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_NOT_FOUND);
}

static void actors_end_with_the_process_that_made_them(void **state)
{
    bed_t *bed = *state;
    crti_msg_peer_died_t died = {.process = bed_id(1005),
                                 .incarnation = 1,
                                 .node = bed_id(1),
                                 .status = CRT_ERR_WORKER_DIED,
                                 .text = crti_str("killed")};

    make_alive(bed, 50, "a");
    bed_say(bed, NODE_A, CRTI_MSG_PEER_DIED, 0, &died);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP));
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
}

static void an_unknown_actor_is_waited_for_and_then_dead_to_those_who_watch(void **state)
{
    bed_t *bed = *state;

    watch(bed, NODE_A, 12345);
    watch(bed, NODE_A, 50);
    assert_int_equal(bed->sent_count, 0);
    create(bed, 50, "a"); /* slower than the handle */
    assert_true(bed_start_actor(bed, NODE_A, 100));
    bed->seen = 0;
    assert_int_equal(state_of(bed, NODE_A).state, CRTI_ACTOR_ALIVE);
    for (int i = 0; i < 4; i++) {
        bed_pass(bed, 3 * CRTI_S);
        bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, NULL);
    }
    assert_int_equal(state_of(bed, NODE_A).state, CRTI_ACTOR_DEAD);
}

static void dead_actors_are_capped_and_expire_with_their_rows(void **state)
{
    bed_t *bed = *state;

    for (uint64_t i = 0; i < 1100; i++) {
        crti_msg_actor_kill_t kill = {.actor = bed_id(10000 + i), .no_restart = true};

        create(bed, 10000 + i, "");
        bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 1, &kill);
        bed_forget(bed);
    }
    bed_pass(bed, CRTI_MS);
    bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, NULL);
    crti_control_tick(bed->control, bed->now);
    bed_store(bed);
    assert_int_equal(crti_control_figures(bed->control).actors_dead, 1000);
    assert_false(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(10000)));
    assert_false(bed_has_row(bed, CRTI_STORE_ACTOR_STATES, bed_id(10000)));
    assert_true(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(11099)));
    bed_pass(bed, 700 * CRTI_S);
    assert_int_equal(crti_control_figures(bed->control).actors_dead, 0);
    assert_false(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(11099)));
}

/* ---------------------------------------------------------------- nodes */

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

    make_alive(bed, 50, "a");
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
    watch(bed, NODE_B, 50);
    assert_int_equal(state_of(bed, NODE_B).state, CRTI_ACTOR_ALIVE);
}

/* JOB_END is not repeated: a node that had no link then hears of it when it is back. */
static void a_node_that_missed_the_end_of_a_job_is_told_when_it_registers(void **state)
{
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    const crti_msg_job_end_t end = {.job = bed_id(5)};
    const uint64_t listed[] = {5, 6, 77};
    const crti_message_t *m;

    make_alive(bed, 50, "a");
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

    make_alive(bed, 50, "a");
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    watch(bed, NODE_B, 50);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    bed_pass(bed, 600 * CRTI_MS);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 0);
    bed_pass(bed, 300 * CRTI_MS);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 1);
    found = state_of(bed, NODE_B);
    assert_int_equal(found.state, CRTI_ACTOR_DEAD);
    bed_join(bed, 30, 1, 1, 4, NULL, NULL); /* too late */
    bed->seen = 0;
    assert_int_equal(error_of(bed_next(bed, 30, CRTI_MSG_ERROR)), CRT_ERR_NODE_LOST);
    crti_control_closed(bed->control, 30, "", bed->now);
    bed_join(bed, 31, 1, 2, 4, NULL, NULL); /* as a new incarnation it may */
    assert_non_null(bed_next(bed, 31, CRTI_MSG_NODE_REGISTERED));
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

    make_alive(bed, 50, "a");
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
    watch(bed, NODE_B, 50);
    assert_int_equal(state_of(bed, NODE_B).actor_incarnation, 2);
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
    assert_int_equal(error_of(answer), CRT_ERR_PROTOCOL);
    assert_non_null(strstr(crti_text(answer->error.text, text, sizeof(text)), "99"));
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
                                 .text = crti_str("gone")};
    crti_msg_watch_t watching = {
        .process = bed_id(77), .incarnation = 3, .node = bed_id(1)};

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_PEER_DIED, 0, &died);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_PEER_DIED), 0);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_PEER_DIED), 1);
    bed_say(bed, NODE_B, CRTI_MSG_WATCH, 0, &watching); /* asked too late: still told */
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_PEER_DIED), 2);
}

static void a_node_that_joins_is_told_to_all_before_anything_runs_on_it(void **state)
{
    bed_t *bed = *state;
    crti_msg_node_find_t find = {.node = bed_id(2)};
    const crti_message_t *m;

    bed_say(bed, NODE_A, CRTI_MSG_NODE_FIND, 7, &find);
    m = bed_next(bed, NODE_A, CRTI_MSG_ERROR);
    assert_int_equal(error_of(m), CRT_ERR_NODE_LOST);
    bed_forget(bed);
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_NODE_VIEW), 1); /* no time passed */
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
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_VIEW), 0);
    bed_pass(bed, 100 * CRTI_MS);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_VIEW), 1);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_NODE_VIEW), 0);
}

/* ---------------------------------------------------------------- jobs */

static void submit(bed_t *bed, const char *name)
{
    crti_msg_job_submit_t m = {.submission = crti_str(name),
                               .entrypoint = crti_str("train --x 1"),
                               .argv = crti_str("argv"),
                               .sha = crti_str("ff"),
                               .metadata = crti_str("{\"k\":\"v\"}")};

    bed_say(bed, ADMIN, CRTI_MSG_JOB_SUBMIT, 1, &m);
}

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
        crti_msg_job_exited_t exited = {.submission = crti_str(name),
                                        .wait_status = ends[i].wait_status,
                                        .text = crti_str("last lines")};
        const crti_message_t *start;

        submit(bed, name);
        assert_non_null(bed_next(bed, ADMIN, CRTI_MSG_DONE));
        bed->seen = 0;
        start = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
        assert_non_null(start);
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
    submit(bed, "later");
    expect_json(bed, "jobs", "later", "\"PENDING\"");
    expect_json(bed, "jobs", "later", "It waits for the node of the head's host.");
    bed_join(bed, 30, 1, 2, 4, NULL, NULL);
    assert_non_null(bed_next(bed, 30, CRTI_MSG_JOB_START));
}

static void a_stopped_submission_is_stopped_whatever_its_exit_status(void **state)
{
    bed_t *bed = *state;
    crti_msg_job_stop_t stop = {.submission = crti_str("s")};
    crti_msg_job_delete_t delete = {.submission = crti_str("s")};
    crti_msg_job_exited_t exited = {.submission = crti_str("s"), .wait_status = 15};
    const crti_message_t *m;

    submit(bed, "s");
    bed->seen = 0;
    m = bed_next(bed, NODE_A, CRTI_MSG_JOB_START);
    bed_say(bed, NODE_A, CRTI_MSG_DONE, m->request, NULL);
    bed_say(bed, ADMIN, CRTI_MSG_JOB_DELETE, 2, &delete);
    assert_int_equal(error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)), CRT_ERR_INVALID);
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
    assert_int_equal(error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)), CRT_ERR_NOT_FOUND);
}

static void a_submission_id_is_used_once(void **state)
{
    bed_t *bed = *state;

    submit(bed, "s");
    submit(bed, "s");
    assert_int_equal(bed_count(bed, ADMIN, CRTI_MSG_DONE), 1);
    assert_int_equal(error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)), CRT_ERR_EXISTS);
}

static void the_state_is_shown_as_json(void **state)
{
    bed_t *bed = *state;

    make_alive(bed, 50, "n\"ame");
    expect_json(bed, "cluster", "", "\"address\":\"127.0.0.1:6380\"");
    expect_json(bed, "cluster", "", "\"actors\":{\"ALIVE\":1}");
    expect_json(bed, "nodes", "", "\"resources_total\":{\"CPU\":4}");
    expect_json(bed, "nodes", "00000000000000000000000000000007", "[]");
    expect_json(bed, "actors", "00000000000000000000000000000032", "n\\\"ame");
    expect_json(bed, "jobs", "", "\"type\":\"DRIVER\"");
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 3,
            &(crti_msg_state_query_t){.what = crti_str("weather")});
    assert_int_equal(error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)), CRT_ERR_INVALID);
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

/* ---------------------------------------------------------------- recovery */

static void
a_restarted_head_knows_names_jobs_and_nodes_and_takes_actors_back(void **state)
{
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t actors = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
    crti_msg_actor_running_t running = {.actor = bed_id(50),
                                        .actor_incarnation = 1,
                                        .process = bed_id(150),
                                        .incarnation = 1,
                                        .node = bed_id(1)};
    crti_msg_job_add_t job = {
        .job = bed_id(5), .driver = bed_id(1005), .node = bed_id(1)};
    crti_msg_actor_find_t find = {.name = crti_str("a")};
    const crti_message_t *m;

    make_alive(bed, 50, "a");
    submit(bed, "s");
    bed_restart(bed, false);
    crti_message_encode(CRTI_MSG_ACTOR_RUNNING, 0, &running, &entry);
    crti_list_pack(&actors, entry.data, entry.size);
    running.actor = bed_id(666); /* runs, and nobody knows it */
    entry.size = 0;
    crti_message_encode(CRTI_MSG_ACTOR_RUNNING, 0, &running, &entry);
    crti_list_pack(&actors, entry.data, entry.size);
    entry.size = 0;
    crti_message_encode(CRTI_MSG_JOB_ADD, 0, &job, &entry);
    crti_list_pack(&jobs, entry.data, entry.size);
    bed_pass(bed, 5 * CRTI_S);
    bed_join(bed, 30, 1, 1, 4, &actors, &jobs);
    m = bed_next(bed, 30, CRTI_MSG_NODE_REGISTERED);
    assert_non_null(m);
    assert_true(crti_id_equal(m->node_registered.cluster, bed_id(99)));
    assert_int_equal(m->node_registered.head_incarnation, 2);
    assert_int_equal(m->node_registered.actors_to_end.size, 16);
    assert_int_equal(m->node_registered.jobs_to_end.size, 0);
    assert_int_equal(bed_count(bed, 30, CRTI_MSG_JOB_START),
                     1); /* "s" was not answered */
    bed_say(bed, 30, CRTI_MSG_ACTOR_FIND, 2, &find);
    m = bed_next(bed, 30, CRTI_MSG_ACTOR_STATE);
    assert_non_null(m);
    assert_int_equal(m->actor_state.state, CRTI_ACTOR_ALIVE);
    assert_true(crti_id_equal(m->actor_state.process, bed_id(150)));
    assert_int_equal(m->actor_state.restarts, 0);
}

static void a_node_that_does_not_come_back_after_a_restart_is_dead(void **state)
{
    bed_t *bed = *state;

    make_alive(bed, 50, "a");
    bed_restart(bed, false);
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_pass(bed, 4 * CRTI_S);
    bed_say(bed, NODE_B, CRTI_MSG_HEARTBEAT, 0, NULL);
    bed_pass(bed, 4 * CRTI_S);
    bed_say(bed, NODE_B, CRTI_MSG_HEARTBEAT, 0, NULL);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 1);
    bed_pass(bed, 3 * CRTI_S);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 1);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
    assert_int_equal(crti_control_figures(bed->control).jobs_running, 0);
}

static void an_unanswered_creation_is_there_as_a_whole_or_not_at_all(void **state)
{
    bed_t *bed = *state;

    bed->manual = true;
    create(bed, 50, "a");
    assert_true(bed->pending_count >= 2);
    /* Only the first row reaches the store. */
    for (size_t i = 1; i < bed->pending_count; i++)
        crti_buffer_fini(&bed->pending[i].value);
    bed->pending_count = 1;
    bed_restart(bed, true);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
    assert_false(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(50)));
    bed_join(bed, 30, 1, 1, 4, NULL, NULL);
}

static void rows_that_are_damaged_are_passed_over(void **state)
{
    bed_t *bed = *state;

    make_alive(bed, 50, "a");
    for (size_t i = 0; i < bed->row_count; i++)
        if (bed->rows[i].table == CRTI_STORE_ACTOR_STATES)
            bed->rows[i].value.size /= 2;
    bed_restart(bed, false);
    assert_int_equal(crti_control_figures(bed->control).rows_unreadable, 1);
}

/* ---------------------------------------------------------------- key-value */

static void values_are_answered_when_they_are_stored(void **state)
{
    bed_t *bed = *state;
    crti_msg_kv_put_t put = {.key = crti_str("k"), .value = crti_str("v")};
    crti_msg_kv_put_t empty = {.value = crti_str("v")};
    const crti_message_t *m;

    bed->manual = true;
    bed_say(bed, NODE_A, CRTI_MSG_KV_PUT, 1, &put);
    bed_say(bed, NODE_A, CRTI_MSG_KV_PUT, 2, &put); /* not overwritten */
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_KV_VALUE));
    bed_store(bed);
    m = bed_next(bed, NODE_A, CRTI_MSG_KV_VALUE);
    assert_false(m->kv_value.found);
    m = bed_next(bed, NODE_A, CRTI_MSG_KV_VALUE);
    assert_true(m->kv_value.found);
    bed_say(bed, NODE_A, CRTI_MSG_KV_PUT, 3, &empty);
    assert_int_equal(error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_INVALID);
    bed->failing = CRT_ERR_IO;
    bed_say(bed, NODE_A, CRTI_MSG_KV_PUT, 4, &put);
    bed_store(bed);
    assert_int_equal(error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_IO);
}

/* What a group of job 5 agreed on, one of another job, and what users call alike. */
#define GROUP   "collective/00000000000000000000000000000005/g"
#define ANOTHER "collective/00000000000000000000000000000006/g"
#define LIKE    "collective/5/g"

static void put_groups(bed_t *bed)
{
    const char *keys[] = {GROUP, ANOTHER, LIKE};

    for (size_t i = 0; i < 3; i++) {
        crti_msg_kv_put_t put = {.key = crti_str(keys[i]), .value = crti_str("roster")};

        bed_say(bed, NODE_A, CRTI_MSG_KV_PUT, 1, &put);
        assert_true(bed_has_value(bed, keys[i]));
    }
}

static void end_job(bed_t *bed)
{
    bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &(crti_msg_job_end_t){.job = bed_id(5)});
}

static void what_groups_agreed_on_goes_with_their_job(void **state)
{
    bed_t *bed = *state;
    crti_msg_kv_put_t late = {.key = crti_str(GROUP), .value = crti_str("late")};

    put_groups(bed);
    end_job(bed);
    assert_false(bed_has_value(bed, GROUP));
    assert_true(bed_has_value(bed, ANOTHER));
    assert_true(bed_has_value(bed, LIKE));
    bed_forget(bed); /* a member that still runs */
    bed_say(bed, NODE_A, CRTI_MSG_KV_PUT, 2, &late);
    assert_int_equal(error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_CLOSED);
    assert_false(bed_has_value(bed, GROUP));
    expect_rest(bed);
}

static void what_groups_agreed_on_stays_while_a_detached_actor_lives(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "a");
    crti_msg_actor_died_t died = {.actor = bed_id(50),
                                  .actor_incarnation = 1,
                                  .status = CRT_ERR_ACTOR_DIED,
                                  .created = true};

    m.detached = true;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    assert_true(bed_start_actor(bed, NODE_A, 150));
    end_job(bed);
    put_groups(bed);
    assert_true(bed_has_value(bed, GROUP));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
    assert_false(bed_has_value(bed, GROUP));
    expect_rest(bed);
}

static void what_groups_agreed_on_goes_though_the_head_dies_before(void **state)
{
    bed_t *bed = *state;

    put_groups(bed);
    bed->manual = true;
    end_job(bed);
    bed->pending_count = 1; /* the row that the job has ended arrives in the store */
    bed_restart(bed, true);
    assert_false(bed_has_value(bed, GROUP));
    assert_true(bed_has_value(bed, ANOTHER));
}

static void what_groups_agreed_on_goes_when_the_store_can_write_again(void **state)
{
    bed_t *bed = *state;

    put_groups(bed);
    bed->failing = CRT_ERR_IO;
    end_job(bed);
    assert_true(bed_has_value(bed, GROUP));
    bed->failing = CRT_OK;
    bed_pass(bed, 3 * CRTI_S);
    assert_false(bed_has_value(bed, GROUP));
    expect_rest(bed);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_waits_until_its_rows_are_durable),
        TEST(a_creation_that_can_not_be_stored_is_taken_back),
        TEST(a_death_that_can_not_be_stored_is_told_and_stored_later),
        TEST(answers_keep_their_order_behind_slow_rows),
        TEST(asking_for_the_same_actor_twice_makes_one),
        TEST(a_name_belongs_to_one_living_actor),
        TEST(an_actor_is_started_again_while_it_has_restarts),
        TEST(a_failed_creation_is_not_started_again),
        TEST(a_node_that_refuses_costs_no_restart),
        TEST(an_actor_without_a_place_says_what_it_waits_for),
        TEST(a_late_report_of_an_earlier_incarnation_ends_that_process),
        TEST(actors_end_with_their_job_but_detached_ones_live_on),
        TEST(actors_end_with_the_process_that_made_them),
        TEST(an_unknown_actor_is_waited_for_and_then_dead_to_those_who_watch),
        TEST(dead_actors_are_capped_and_expire_with_their_rows),
        TEST(a_broken_link_that_comes_back_in_time_changes_nothing),
        TEST(a_node_that_is_back_hears_which_nodes_died_meanwhile),
        TEST(a_node_that_registers_twice_on_one_link_keeps_it),
        TEST(a_broken_link_that_stays_broken_is_a_death_within_a_second),
        TEST(a_node_that_missed_the_end_of_a_job_is_told_when_it_registers),
        TEST(a_silent_node_is_dead_after_five_seconds),
        TEST(a_newer_incarnation_replaces_the_old_one),
        TEST(restartable_actors_move_to_another_node),
        TEST(a_wrong_protocol_version_is_refused_with_both_numbers),
        TEST(whoever_speaks_before_registering_is_dropped),
        TEST(deaths_of_processes_are_told_to_all_other_nodes),
        TEST(a_node_that_joins_is_told_to_all_before_anything_runs_on_it),
        TEST(views_of_nodes_are_gathered),
        TEST(a_submission_runs_on_the_heads_host_and_ends_as_its_process_does),
        TEST(a_submission_waits_for_the_node_of_the_heads_host),
        TEST(a_stopped_submission_is_stopped_whatever_its_exit_status),
        TEST(a_submission_id_is_used_once),
        TEST(the_state_is_shown_as_json),
        TEST(workers_are_asked_of_all_nodes),
        TEST(a_restarted_head_knows_names_jobs_and_nodes_and_takes_actors_back),
        TEST(a_node_that_does_not_come_back_after_a_restart_is_dead),
        TEST(an_unanswered_creation_is_there_as_a_whole_or_not_at_all),
        TEST(rows_that_are_damaged_are_passed_over),
        TEST(values_are_answered_when_they_are_stored),
        TEST(what_groups_agreed_on_goes_with_their_job),
        TEST(what_groups_agreed_on_stays_while_a_detached_actor_lives),
        TEST(what_groups_agreed_on_goes_though_the_head_dies_before),
        TEST(what_groups_agreed_on_goes_when_the_store_can_write_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
