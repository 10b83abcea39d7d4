/* SPDX-License-Identifier: Apache-2.0 */
/* What the head decides, without a head around it: durability before answers, values, and what is
 * left after a restart. */

#include <string.h>

#include "runtime/base/clock.h"
#include "tests/control/control_test.h"

/* ---------------------------------------------------------------- durability */

static void an_answer_waits_until_its_rows_are_durable(void **state)
{
    bed_t *bed = *state;

    bed->manual = true;
    control_create(bed, 50, "a");
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    assert_true(bed_store(bed) > 0);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    /* The node begins only when the row that says so is durable too. */
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ACTOR_START), 1);
    control_expect_rest(bed);
}

static void a_creation_that_can_not_be_stored_is_taken_back(void **state)
{
    bed_t *bed = *state;

    bed->failing = CRT_ERR_IO;
    control_create(bed, 50, "a");
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_IO);
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START));
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
    bed->failing = CRT_OK;
    bed_pass(bed, 3 * CRTI_S); /* what may have been written is deleted */
    assert_false(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(50)));
    control_expect_rest(bed);
    control_create(bed, 51, "a"); /* the name is free */
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
}

/* The driver has passed its handle on before it hears that there will be no actor. */
static void
a_watcher_of_an_actor_that_can_not_be_stored_hears_that_there_is_none(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_state_t told;

    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    control_watch(bed, NODE_A, 50); /* sooner than the creation */
    bed->manual = true;
    control_create(bed, 50, "a");
    control_watch(bed, NODE_B, 50);
    bed->failing = CRT_ERR_IO;
    bed_store(bed);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_IO);
    for (uint64_t link = NODE_A; link <= NODE_B; link++) {
        bed->seen = 0;
        told = control_state_of(bed, link);
        assert_int_equal(told.state, CRTI_ACTOR_DEAD);
        assert_int_equal(told.status, CRT_ERR_IO);
        assert_true(crti_str_equal(told.text, "the disk is full"));
    }
}

/* Its rows are there, and can't be deleted. */
static void fail_late(bed_t *bed, uint64_t actor)
{
    bed->failing = CRT_ERR_IO;
    bed->fails_late = true;
    control_create(bed, actor, "a");
    bed->fails_late = false;
    assert_true(bed_has_row(bed, CRTI_STORE_ACTOR_STATES, bed_id(actor)));
}

static size_t count_revoked(const bed_t *bed)
{
    size_t count = 0;

    for (size_t i = 0; i < 8; i++)
        count += !crti_id_is_zero(bed->revoked[i]);
    return count;
}

static void
an_actor_that_was_told_to_have_failed_stays_so_when_the_head_dies(void **state)
{
    bed_t *bed = *state;
    const crti_message_t *m;

    fail_late(bed, 50);
    m = bed_next(bed, NODE_A, CRTI_MSG_ERROR);
    assert_true(m && crti_str_equal(m->error.text, "the disk is full"));
    assert_int_equal(count_revoked(bed), 1);
    bed_restart(bed, false);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
    assert_false(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(50)));
    assert_false(bed_has_row(bed, CRTI_STORE_ACTOR_STATES, bed_id(50)));
    assert_int_equal(count_revoked(bed), 0);
    control_expect_rest(bed);
}

static void
a_submission_that_was_told_to_have_failed_stays_so_when_the_head_dies(void **state)
{
    bed_t *bed = *state;

    bed->failing = CRT_ERR_IO;
    bed->fails_late = true;
    control_submit(bed, "s");
    assert_int_equal(control_error_of(bed_next(bed, ADMIN, CRTI_MSG_ERROR)), CRT_ERR_IO);
    assert_int_equal(count_revoked(bed), 1);
    bed_restart(bed, false);
    bed_join(bed, 30, 1, 1, 4, NULL, NULL);
    assert_int_equal(bed_count(bed, 30, CRTI_MSG_JOB_START), 0);
    assert_int_equal(crti_control_figures(bed->control).jobs_running, 0);
    assert_int_equal(count_revoked(bed), 0);
}

static void a_failed_creation_may_be_asked_for_again_when_it_is_deleted(void **state)
{
    bed_t *bed = *state;

    bed->failing = CRT_ERR_IO;
    control_create(bed, 50, "a");
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_ERROR));
    bed->failing = CRT_OK; /* its rows are not deleted yet */
    control_create(bed, 50, "a");
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_IO);
    bed_pass(bed, 3 * CRTI_S);
    assert_int_equal(count_revoked(bed), 0);
    control_create(bed, 50, "a");
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    control_expect_rest(bed);
}

static void ask_to_kill(bed_t *bed, uint64_t link, uint64_t actor)
{
    crti_msg_actor_kill_t m = {.actor = bed_id(actor), .no_restart = true};

    bed_say(bed, link, CRTI_MSG_ACTOR_KILL, 9, &m);
}

static void a_kill_of_an_actor_whose_outcome_is_not_known_is_true(void **state)
{
    bed_t *bed = *state;
    const crti_message_t *m;
    char text[512];

    bed->forgets_revoked = true;
    fail_late(bed, 50);
    bed->fails_late = false;
    m = bed_next(bed, NODE_A, CRTI_MSG_ERROR);
    assert_int_equal(control_error_of(m), CRT_ERR_IO);
    assert_non_null(strstr(crti_text(m->error.text, text, sizeof(text)), "is not known"));
    ask_to_kill(bed, NODE_A,
                50); /* nothing can be promised while nothing can be written */
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_IO);
    bed_restart(bed, false);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 1);
    bed_join(bed, 30, 1, 1, 4, NULL, NULL);
    ask_to_kill(bed, 30, 50);
    assert_non_null(bed_next(bed, 30, CRTI_MSG_DONE));
    bed_restart(bed, false);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
}

static void a_kill_of_an_unsaved_actor_is_told_when_it_is_durable(void **state)
{
    bed_t *bed = *state;

    bed->manual = true;
    control_create(bed, 50, "a");
    ask_to_kill(bed, NODE_A, 50);
    bed_store_first(bed, 2);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_DONE), 1); /* of the creation */
    bed_store(bed);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_DONE), 2);
    bed_restart(bed, false);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
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

    control_make_alive(bed, 50, "a");
    control_watch(bed, NODE_A, 50);
    bed->failing = CRT_ERR_IO;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
    found = control_state_of(bed, NODE_A);
    assert_int_equal(found.state, CRTI_ACTOR_DEAD);
    assert_true(crti_str_equal(found.text, "killed by signal 11"));
    assert_true(crti_control_figures(bed->control).dirty > 0);
    bed->failing = CRT_OK;
    bed_pass(bed, 5 * CRTI_S);
    control_expect_rest(bed);
    bed_restart(bed, true);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
}

static void answers_keep_their_order_behind_slow_rows(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_find_t find = {.name = crti_str("a")};
    const crti_message_t *m;

    bed->manual = true;
    control_create(bed, 50, "a");
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
    control_create(bed, 50, "a");
    control_create(bed, 50, "a");
    bed_store(bed);
    control_create(bed, 50, "a");
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_DONE), 3);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ERROR), 0);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 1);
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

    control_make_alive(bed, 50, "a");
    control_submit(bed, "s");
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
    assert_int_equal(crti_control_figures(bed->control).rows_unreadable, 0);
}

/* A scan of a table that gets smaller meanwhile gives some rows twice. */
static void rows_that_are_loaded_twice_count_once(void **state)
{
    bed_t *bed = *state;

    bed->scans_twice = true;
    a_restarted_head_knows_names_jobs_and_nodes_and_takes_actors_back(state);
}

/* Its node reported it, which is a fact; that the cluster knows it is an answer. */
static void a_driver_hears_that_its_job_is_known_when_that_is_durable(void **state)
{
    bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
    crti_msg_job_add_t job = {
        .job = bed_id(6), .driver = bed_id(1006), .node = bed_id(2)};

    crti_message_encode(CRTI_MSG_JOB_ADD, 0, &job, &entry);
    crti_list_pack(&jobs, entry.data, entry.size);
    bed->failing = CRT_ERR_IO;
    bed_join(bed, NODE_B, 2, 1, 4, NULL, &jobs);
    bed_say(bed, NODE_B, CRTI_MSG_JOB_ADD, 3, &job);
    assert_int_equal(control_error_of(bed_next(bed, NODE_B, CRTI_MSG_ERROR)), CRT_ERR_IO);
    assert_false(bed_has_row(bed, CRTI_STORE_JOBS, bed_id(6)));
    bed->failing = CRT_OK;
    bed_say(bed, NODE_B, CRTI_MSG_JOB_ADD, 4, &job);
    assert_non_null(bed_next(bed, NODE_B, CRTI_MSG_JOB_INFO));
    assert_true(bed_has_row(bed, CRTI_STORE_JOBS, bed_id(6)));
    assert_true(bed_has_row(bed, CRTI_STORE_JOB_STATES, bed_id(6)));
}

static void a_node_that_does_not_come_back_after_a_restart_is_dead(void **state)
{
    bed_t *bed = *state;

    control_make_alive(bed, 50, "a");
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
    control_create(bed, 50, "a");
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

    control_make_alive(bed, 50, "a");
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
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_INVALID);
    bed->failing = CRT_ERR_IO;
    bed_say(bed, NODE_A, CRTI_MSG_KV_PUT, 4, &put);
    bed_store(bed);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)), CRT_ERR_IO);
}

/* What a group of job 5 agreed on, one of another job, and what users call alike. */
#define GROUP   "collective/00000000000500000000000000000005/g"
#define ANOTHER "collective/00000000000600000000000000000006/g"
#define UNKNOWN "collective/00000000000700000000000000000007/g"
#define LIKE    "collective/5/g"

static void put_groups(bed_t *bed)
{
    const char *keys[] = {GROUP, ANOTHER, LIKE};

    bed_add_job(bed, NODE_A, 1, 6);
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
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_CANCELLED);
    assert_false(bed_has_value(bed, GROUP));
    late.key = crti_str(UNKNOWN); /* asked again after the head died that knew it */
    bed_say(bed, NODE_A, CRTI_MSG_KV_PUT, 3, &late);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_CANCELLED);
    control_expect_rest(bed);
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
    control_expect_rest(bed);
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
    control_expect_rest(bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(an_answer_waits_until_its_rows_are_durable),
        CONTROL_TEST(a_creation_that_can_not_be_stored_is_taken_back),
        CONTROL_TEST(
            a_watcher_of_an_actor_that_can_not_be_stored_hears_that_there_is_none),
        CONTROL_TEST(an_actor_that_was_told_to_have_failed_stays_so_when_the_head_dies),
        CONTROL_TEST(
            a_submission_that_was_told_to_have_failed_stays_so_when_the_head_dies),
        CONTROL_TEST(a_failed_creation_may_be_asked_for_again_when_it_is_deleted),
        CONTROL_TEST(a_kill_of_an_actor_whose_outcome_is_not_known_is_true),
        CONTROL_TEST(a_kill_of_an_unsaved_actor_is_told_when_it_is_durable),
        CONTROL_TEST(a_death_that_can_not_be_stored_is_told_and_stored_later),
        CONTROL_TEST(answers_keep_their_order_behind_slow_rows),
        CONTROL_TEST(asking_for_the_same_actor_twice_makes_one),
        CONTROL_TEST(rows_that_are_loaded_twice_count_once),
        CONTROL_TEST(a_restarted_head_knows_names_jobs_and_nodes_and_takes_actors_back),
        CONTROL_TEST(a_driver_hears_that_its_job_is_known_when_that_is_durable),
        CONTROL_TEST(a_node_that_does_not_come_back_after_a_restart_is_dead),
        CONTROL_TEST(an_unanswered_creation_is_there_as_a_whole_or_not_at_all),
        CONTROL_TEST(rows_that_are_damaged_are_passed_over),
        CONTROL_TEST(values_are_answered_when_they_are_stored),
        CONTROL_TEST(what_groups_agreed_on_goes_with_their_job),
        CONTROL_TEST(what_groups_agreed_on_stays_while_a_detached_actor_lives),
        CONTROL_TEST(what_groups_agreed_on_goes_though_the_head_dies_before),
        CONTROL_TEST(what_groups_agreed_on_goes_when_the_store_can_write_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
