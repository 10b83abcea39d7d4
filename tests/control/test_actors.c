/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of actors as the head decides them. */

#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/control/tables/actor_table.h"
#include "tests/control/control_test.h"

static void a_name_belongs_to_one_living_actor(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};

    control_make_alive(bed, 50, "a");
    control_create(bed, 51, "a");
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_EXISTS);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 3, &kill);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP));
    bed_forget(bed);
    control_create(bed, 52, "a");
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
}

static void names_of_several_namespaces_are_several(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "a");
    crti_msg_actor_find_t find = {.name = crti_str("a"), .name_space = crti_str("two")};

    m.name_space = crti_str("one");
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_FIND, 2, &find);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_NOT_FOUND);
    m.actor = bed_id(51);
    m.name_space = find.name_space;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 3, &m);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_FIND, 4, &find);
    assert_true(crti_id_equal(control_state_of(bed, NODE_A).actor, bed_id(51)));
    m.actor = bed_id(52);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 5, &m);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_EXISTS);
    m.name_space = crti_str("a/b");
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 6, &m);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_INVALID);
}

static void an_actor_is_started_again_while_it_has_restarts(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "");
    crti_msg_actor_died_t died = {
        .actor = bed_id(50), .text = crti_str("x"), .created = true};

    m.max_restarts = 2;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    control_watch(bed, NODE_A, 50);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_true(bed_start_actor(bed, NODE_A, 100 + i));
        bed_pass(bed, CRTI_LIMIT(actor_young));
        bed_forget(bed);
        died.actor_incarnation = i;
        bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
        bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died); /* told twice: counts once */
        bed->seen = 0;
    }
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START));
    bed->seen = 0;
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_DEAD);
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
    control_watch(bed, NODE_A, 50);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
    found = control_state_of(bed, NODE_A);
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

    control_create(bed, 50, "");
    control_watch(bed, NODE_A, 50);
    bed->seen = 0;
    start = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    bed_say(bed, NODE_A, CRTI_MSG_ERROR, start->request, &full);
    bed->seen = 0;
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_PENDING);
    bed_forget(bed);
    bed_pass(bed, CRTI_S);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100));
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_ALIVE);
}

/* A head that is kept from running looks at its clock after the moment at which it had to try
 * again. */
static void a_retry_that_came_due_while_the_head_was_busy_is_made(void **state)
{
    bed_t *bed = *state;
    crti_msg_error_t full = {.status = CRT_ERR_BACKPRESSURE,
                             .text = crti_str("needs 0.5 CPU")};
    const crti_message_t *start;
    uint64_t due;

    control_create(bed, 50, "");
    start = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    bed_say(bed, NODE_A, CRTI_MSG_ERROR, start->request, &full);
    due = bed->now + CRTI_LIMIT(actor_retry);
    bed_pass(bed, CRTI_LIMIT(actor_retry) - 1); /* all else is done */
    assert_int_equal(crti_control_deadline(bed->control), due);
    bed_forget(bed);
    bed->now = due + 5 * CRTI_MS; /* nothing ran meanwhile */
    assert_true(crti_control_deadline(bed->control) <= bed->now);
    bed_pass(bed, 0);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100));
    /* One that was looked at is due no more. */
    assert_true(crti_control_deadline(bed->control) > bed->now);
}

/* ---------------------------------------------------------------- processes that die young */

/* Time goes by; the node is heard. */
static void live(bed_t *bed, uint64_t ns)
{
    for (uint64_t end = bed->now + ns; bed->now < end;) {
        bed_pass(bed, end - bed->now < CRTI_S ? end - bed->now : CRTI_S);
        bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, NULL);
    }
}

static void create_restartable(bed_t *bed)
{
    crti_msg_actor_create_t m = bed_actor(50, 5, "");

    m.max_restarts = -1;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    control_watch(bed, NODE_A, 50);
    bed->seen = 0;
}

/* When the next ACTOR_START comes, after now; at most `limit`. */
static uint64_t time_to_start(bed_t *bed, uint64_t limit)
{
    uint64_t began = bed->now;

    while (bed->now < began + limit && !bed_count(bed, NODE_A, CRTI_MSG_ACTOR_START))
        live(bed, 100 * CRTI_MS);
    return bed->now - began;
}

static void cannot_start(bed_t *bed)
{
    crti_msg_error_t error = {.status = CRT_ERR_WORKER_DIED,
                              .text = crti_str("exited with status 3")};
    const crti_message_t *start;
    uint64_t request;

    bed->seen = 0;
    start = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    request = start->request;
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ERROR, request, &error);
}

/* It lives for `ns`, then its process dies. */
static void dies_after(bed_t *bed, uint64_t incarnation, uint64_t ns)
{
    crti_msg_actor_died_t died = {.actor = bed_id(50),
                                  .actor_incarnation = incarnation,
                                  .text = crti_str("killed by signal 11"),
                                  .created = true};

    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 100 + incarnation));
    live(bed, ns);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
}

static void an_actor_that_cannot_start_is_tried_less_and_less_often(void **state)
{
    static const uint64_t pauses_ms[] = {0, 100, 200, 400, 800, 1600, 3200, 6400, 12800};
    bed_t *bed = *state;

    create_restartable(bed);
    for (unsigned i = 0; i < 12; i++) {
        cannot_start(bed);
        assert_int_equal(time_to_start(bed, 20 * CRTI_S) / CRTI_MS,
                         pauses_ms[i < 8 ? i : 8]);
    }
    control_expect_rest(bed);
}

static void an_actor_that_waits_for_its_next_process_says_why(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_state_t found;

    create_restartable(bed);
    cannot_start(bed);
    cannot_start(bed);
    found = control_state_of(bed, NODE_A);
    assert_int_equal(found.state, CRTI_ACTOR_RESTARTING);
    assert_true(crti_str_equal(found.text,
                               "exited with status 3 (again within 1 s; the next process "
                               "comes in 0.1 s)"));
}

static void an_actor_that_dies_soon_after_its_start_waits_as_well(void **state)
{
    bed_t *bed = *state;

    create_restartable(bed);
    for (uint64_t i = 1; i <= 4; i++) {
        dies_after(bed, i, CRTI_LIMIT(actor_young) - CRTI_MS);
        assert_int_equal(time_to_start(bed, 20 * CRTI_S),
                         i == 1 ? 0 : CRTI_LIMIT(actor_restart_pause) << (i - 2));
    }
}

static void an_actor_that_lived_for_a_while_is_restarted_at_once(void **state)
{
    bed_t *bed = *state;

    create_restartable(bed);
    for (uint64_t i = 1; i <= 4; i++) {
        cannot_start(bed);
        time_to_start(bed, 20 * CRTI_S);
    }
    dies_after(bed, 5, CRTI_LIMIT(actor_young));
    assert_int_equal(time_to_start(bed, 20 * CRTI_S), 0);
    cannot_start(bed); /* counted anew */
    assert_int_equal(time_to_start(bed, 20 * CRTI_S), 0);
}

static void an_actor_that_its_user_kills_is_restarted_at_once(void **state)
{
    crti_msg_actor_kill_t kill = {.actor = bed_id(50)};
    crti_msg_actor_died_t died = {
        .actor = bed_id(50), .text = crti_str("killed"), .created = true};
    bed_t *bed = *state;

    create_restartable(bed);
    for (uint64_t i = 1; i <= 5; i++) {
        bed->seen = 0;
        assert_true(bed_start_actor(bed, NODE_A, 100 + i));
        bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 9, &kill);
        bed_forget(bed);
        died.actor_incarnation = i;
        bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
        assert_int_equal(time_to_start(bed, 20 * CRTI_S), 0);
    }
}

static const crti_message_t *save(bed_t *bed, uint64_t incarnation, const char *state)
{
    crti_msg_actor_save_t m = {
        .actor = bed_id(50), .actor_incarnation = incarnation, .state = crti_str(state)};

    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_SAVE, 9, &m);
    return bed->sent_count ? &bed->sent[0].message : NULL;
}

/* One that outlives its job; it runs on node A. */
static void create_saver(bed_t *bed)
{
    crti_msg_actor_create_t m = bed_actor(50, 5, "saver");

    m.max_restarts = -1;
    m.detached = true;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    assert_true(bed_start_actor(bed, NODE_A, 101));
}

/* The head dies, and node A with it; on node B the actor's next process begins with that. */
static void a_later_head_begins_it_with(bed_t *bed, const char *saved)
{
    const crti_message_t *start;

    bed_restart(bed, true);
    bed_join(bed, NODE_B, 1, 1, 4, NULL, NULL);
    start = bed_next(bed, NODE_B, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    assert_true(crti_str_equal(start->actor_start.saved, saved));
}

static void what_an_actor_saved_goes_to_its_next_process_and_with_it(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};
    const crti_message_t *start;

    create_saver(bed);
    assert_int_equal(save(bed, 1, "first")->kind, CRTI_MSG_DONE);
    assert_int_equal(save(bed, 1, "second")->kind, CRTI_MSG_DONE);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0,
            &(crti_msg_actor_died_t){
                .actor = bed_id(50), .actor_incarnation = 1, .created = true});
    start = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START);
    assert_non_null(start);
    assert_true(crti_str_equal(start->actor_start.saved, "second"));
    /* Its process of before says so too late. */
    assert_int_equal(control_error_of(save(bed, 1, "late")), CRT_ERR_ACTOR_DIED);
    a_later_head_begins_it_with(bed, "second");
    assert_true(bed_has_row(bed, CRTI_STORE_ACTOR_SAVES, bed_id(50)));
    bed_say(bed, NODE_B, CRTI_MSG_ACTOR_KILL, 3, &kill);
    assert_false(bed_has_row(bed, CRTI_STORE_ACTOR_SAVES, bed_id(50)));
}

static void each_process_of_an_actor_has_its_environment(void **state)
{
    static const char environment[] = "/folder\0MODE=1";
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "there");
    crti_span_t given;

    m.max_restarts = -1;
    m.detached = true;
    m.environment = crti_span(environment, sizeof(environment));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    for (int i = 0; i < 2; i++) {
        uint64_t link = i ? NODE_B : NODE_A;
        const crti_message_t *start = bed_next(bed, link, CRTI_MSG_ACTOR_START);

        assert_non_null(start);
        given = start->actor_start.environment;
        assert_int_equal(given.size, sizeof(environment));
        assert_memory_equal(given.data, environment, sizeof(environment));
        if (i)
            break;
        bed_restart(bed, true);
        bed_join(bed, NODE_B, 1, 2, 4, NULL, NULL);
    }
}

static void what_is_saved_has_a_limit_and_a_living_actor(void **state)
{
    static char large[CRTI_SAVED_MAX + 2];
    bed_t *bed = *state;

    create_restartable(bed);
    assert_true(bed_start_actor(bed, NODE_A, 101));
    memset(large, 'x', sizeof(large) - 1);
    assert_int_equal(control_error_of(save(bed, 1, large)), CRT_ERR_TOO_LARGE);
    assert_int_equal(control_error_of(save(bed, 2, "early")), CRT_ERR_ACTOR_DIED);
    assert_int_equal(save(bed, 1, "")->kind, CRTI_MSG_DONE);
    assert_false(bed_has_row(bed, CRTI_STORE_ACTOR_SAVES, bed_id(50)));
    bed->failing = CRT_ERR_IO;
    assert_int_equal(control_error_of(save(bed, 1, "x")), CRT_ERR_IO);
}

/* The head gives it to the actor's next process; so a later head must know it, too. */
static void what_could_not_be_saved_while_the_store_failed_is_stored_later(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};

    create_saver(bed);
    assert_int_equal(save(bed, 1, "first")->kind, CRTI_MSG_DONE);
    bed->failing = CRT_ERR_IO;
    assert_int_equal(control_error_of(save(bed, 1, "second")), CRT_ERR_IO);
    for (int i = 0; i < 2; i++)
        bed_pass(bed, CRTI_S); /* is tried again, in vain */
    bed->failing = CRT_OK;
    for (int i = 0; i < 2; i++)
        bed_pass(bed, CRTI_S);
    a_later_head_begins_it_with(bed, "second");
    /* Nor that it is gone. */
    bed->failing = CRT_ERR_IO;
    bed_say(bed, NODE_B, CRTI_MSG_ACTOR_KILL, 3, &kill);
    assert_true(bed_has_row(bed, CRTI_STORE_ACTOR_SAVES, bed_id(50)));
    bed->failing = CRT_OK;
    for (int i = 0; i < 3; i++)
        bed_pass(bed, CRTI_S);
    assert_false(bed_has_row(bed, CRTI_STORE_ACTOR_SAVES, bed_id(50)));
}

/* A later head has the actor again, for that it died is not stored. */
static void what_was_saved_stays_until_the_death_is_stored(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};

    create_saver(bed);
    assert_int_equal(save(bed, 1, "state")->kind, CRTI_MSG_DONE);
    bed->failing = CRT_ERR_IO;
    bed->may_delete = true;
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 3, &kill);
    assert_int_equal(control_error_of(&bed->sent[bed->sent_count - 1].message),
                     CRT_ERR_IO);
    for (int i = 0; i < 2; i++)
        bed_pass(bed, CRTI_S); /* is tried again, in vain */
    a_later_head_begins_it_with(bed, "state");
    /* Once it is, what was saved goes. */
    bed->failing = CRT_ERR_IO;
    bed->may_delete = true;
    bed_say(bed, NODE_B, CRTI_MSG_ACTOR_KILL, 4, &kill);
    assert_true(bed_has_row(bed, CRTI_STORE_ACTOR_SAVES, bed_id(50)));
    bed->failing = CRT_OK;
    for (int i = 0; i < 2; i++)
        bed_pass(bed, CRTI_S);
    assert_false(bed_has_row(bed, CRTI_STORE_ACTOR_SAVES, bed_id(50)));
}

static void a_kill_of_a_process_that_was_followed_by_another_does_nothing(void **state)
{
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .actor_incarnation = 1};
    bed_t *bed = *state;

    create_restartable(bed);
    dies_after(bed, 1, CRTI_S);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_A, 102));
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 9, &kill);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ACTOR_STOP), 0);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_DONE), 1);
    kill.actor_incarnation = 2;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 9, &kill);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ACTOR_STOP), 1);
}

static void an_actor_that_waits_for_its_next_process_can_be_ended(void **state)
{
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};
    bed_t *bed = *state;

    create_restartable(bed);
    cannot_start(bed);
    cannot_start(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 9, &kill);
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_DEAD);
    bed_forget(bed);
    assert_int_equal(time_to_start(bed, 20 * CRTI_S), 20 * CRTI_S);
}

static void an_actor_without_handles_ends_in_order_and_for_good(void **state)
{
    crti_msg_actor_kill_t kill = {.actor = bed_id(50),
                                  .no_restart = true,
                                  .graceful = true,
                                  .text = crti_str("nobody has it")};
    crti_msg_actor_died_t died = {
        .actor = bed_id(50), .actor_incarnation = 1, .created = true};
    crti_msg_actor_find_t find = {.name = crti_str("a")};
    bed_t *bed = *state;
    const crti_message_t *stop;

    control_make_alive(bed, 50, "a");
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_FIND, 7, &find);
    assert_int_equal(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STATE)->actor_state.lifetime,
                     50); /* who finds it can ask its owner */
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 9, &kill);
    stop = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP);
    assert_non_null(stop);
    assert_true(stop->actor_stop.graceful);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 10, &kill); /* told twice */
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    bed->seen = 0;
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP));
    bed->seen = 0;
    assert_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_START));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_FIND, 11, &find);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_NOT_FOUND);
}

/* The row of an actor's end could not be written, and the head died: the next one hears again. */
static void
the_death_of_a_maker_is_answered_when_its_actors_ends_are_durable(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "made");
    crti_msg_peer_died_t died = {.process = bed_id(700),
                                 .node = bed_id(1),
                                 .status = CRT_ERR_WORKER_DIED,
                                 .text = crti_str("killed")};

    m.owner = bed_id(700);
    m.owner_node = bed_id(1);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    bed_forget(bed);
    bed->failing = CRT_ERR_IO;
    bed_say(bed, NODE_A, CRTI_MSG_PEER_DIED, 9, &died);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_DONE), 0);
    bed->failing = CRT_OK;
    bed_pass(bed, 2 * CRTI_S); /* the row is written again */
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_DONE), 1);
    m.actor = bed_id(51);
    m.owner = died.process = bed_id(701);
    m.name = crti_str("made again");
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    bed->failing = CRT_ERR_IO;
    bed_say(bed, NODE_A, CRTI_MSG_PEER_DIED, 9, &died);
    bed_restart(bed, false);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 1);
    bed_join(bed, NODE_B, 1, 1, 4, NULL, NULL);
    bed_forget(bed);
    bed_say(bed, NODE_B, CRTI_MSG_PEER_DIED, 9, &died);
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_DONE), 1);
}

/* ---------------------------------------------------------------- drained nodes */

/* The next ACTOR_START of actor 50, which may restart, on node B alone; its request. */
static uint64_t begin_on_b(bed_t *bed)
{
    crti_msg_actor_create_t m = bed_actor(50, 5, "");
    const crti_message_t *start;
    uint64_t request = 0;

    crti_resources_parse("CPU=6", &m.resources);
    m.max_restarts = -1;
    bed_join(bed, NODE_B, 2, 1, 8, NULL, NULL);
    bed_forget(bed);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    bed->seen = 0;
    start = bed_next(bed, NODE_B, CRTI_MSG_ACTOR_START);
    if (start)
        request = start->request;
    return request;
}

static void drain_b(bed_t *bed)
{
    crti_msg_node_drain_t drain = {.node = bed_id(2), .left_ms = 60000};

    bed_say(bed, ADMIN, CRTI_MSG_NODE_DRAIN, 3, &drain);
    bed->seen = 0;
    assert_non_null(bed_next(bed, ADMIN, CRTI_MSG_DONE));
}

static void an_actor_that_is_moved_while_it_starts_begins_elsewhere(void **state)
{
    bed_t *bed = *state;
    crti_msg_error_t error = {.status = CRT_ERR_CANCELLED, .text = crti_str("stopped")};
    uint64_t request = begin_on_b(bed);

    assert_true(request);
    drain_b(bed);
    bed->seen = 0;
    assert_non_null(bed_next(bed, NODE_B, CRTI_MSG_ACTOR_STOP));
    bed_say(bed, NODE_B, CRTI_MSG_ERROR, request, &error);
    control_watch(bed, NODE_A, 50);
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_RESTARTING);
    bed_join(bed, 30, 3, 1, 8, NULL, NULL);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, 30, 100));
}

static void an_actor_that_was_not_begun_before_a_drain_is_placed_elsewhere(void **state)
{
    bed_t *bed = *state;
    uint64_t request;

    bed->manual = true;
    request = begin_on_b(bed); /* its rows are on their way */
    assert_int_equal(request, 0);
    bed_store_first(bed, bed->pending_count); /* that where it begins is, now */
    drain_b(bed);
    bed->manual = false;
    bed_store(bed);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_ACTOR_START), 0);
    bed_join(bed, 30, 3, 1, 8, NULL, NULL);
    bed_pass(bed, CRTI_S);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, 30, 100));
}

/* ---------------------------------------------------------------- places and reports */

static void an_actor_without_a_place_says_what_it_waits_for(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "");
    crti_msg_actor_state_t found;

    crti_resources_parse("CPU=5", &m.resources);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    control_watch(bed, NODE_A, 50);
    found = control_state_of(bed, NODE_A);
    assert_int_equal(found.state, CRTI_ACTOR_PENDING);
    assert_true(crti_str_equal(found.text, "needs 5 CPU, the cluster has 4"));
    bed_join(bed, NODE_B, 2, 1, 8, NULL, NULL);
    bed->seen = 0;
    assert_true(bed_start_actor(bed, NODE_B, 100));
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_ALIVE);
}

static void a_late_report_of_an_earlier_incarnation_ends_that_process(void **state)
{
    bed_t *bed = *state;
    const crti_message_t *start;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};
    crti_msg_actor_started_t started = {
        .actor = bed_id(50), .actor_incarnation = 1, .process = bed_id(100)};

    control_create(bed, 50, "");
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

    control_make_alive(bed, 50, "a");
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
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_NOT_FOUND);
}

static void a_restarted_head_keeps_the_program_of_detached_actors(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(51, 5, "kept");
    crti_msg_job_end_t end = {.job = bed_id(5)};
    crti_msg_job_get_t get = {.job = bed_id(5)};
    crti_msg_actor_kill_t kill = {.actor = bed_id(51), .no_restart = true};

    m.detached = true;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_END, 0, &end);
    bed_forget(bed);
    bed_restart(bed, true);
    bed_join(bed, NODE_A, 1, 1, 4, NULL, NULL);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_GET, 4, &get);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_JOB_INFO));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 5, &kill);
    bed_say(bed, NODE_A, CRTI_MSG_JOB_GET, 6, &get);
    assert_int_equal(control_error_of(bed_next(bed, NODE_A, CRTI_MSG_ERROR)),
                     CRT_ERR_NOT_FOUND);
}

static void actors_end_with_the_process_that_made_them(void **state)
{
    bed_t *bed = *state;
    crti_msg_peer_died_t died = {.process = bed_id(1005),
                                 .incarnation = 1,
                                 .node = bed_id(1),
                                 .status = CRT_ERR_WORKER_DIED,
                                 .text = crti_str("killed")};

    control_make_alive(bed, 50, "a");
    bed_say(bed, NODE_A, CRTI_MSG_PEER_DIED, 0, &died);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP));
    assert_int_equal(crti_control_figures(bed->control).actors_living, 0);
}

static void an_unknown_actor_is_waited_for_and_then_dead_to_those_who_watch(void **state)
{
    bed_t *bed = *state;

    control_watch(bed, NODE_A, 12345);
    control_watch(bed, NODE_A, 50);
    assert_int_equal(bed->sent_count, 0);
    control_create(bed, 50, "a"); /* slower than the handle */
    assert_true(bed_start_actor(bed, NODE_A, 100));
    bed->seen = 0;
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_ALIVE);
    for (int i = 0; i < 4; i++) {
        bed_pass(bed, 3 * CRTI_S);
        bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, NULL);
    }
    assert_int_equal(control_state_of(bed, NODE_A).state, CRTI_ACTOR_DEAD);
}

static void dead_actors_are_capped_and_expire_with_their_rows(void **state)
{
    bed_t *bed = *state;

    for (uint64_t i = 0; i < 1100; i++) {
        crti_msg_actor_kill_t kill = {.actor = bed_id(10000 + i), .no_restart = true};

        control_create(bed, 10000 + i, "");
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

static void a_row_is_not_deleted_behind_a_new_creation_of_its_actor(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};

    control_create(bed, 50, "a");
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_KILL, 1, &kill);
    bed->failing = CRT_ERR_IO;
    for (int i = 0; i < 240; i++) { /* it expires, and its rows can't be deleted */
        bed_pass(bed, 3 * CRTI_S);
        bed_say(bed, NODE_A, CRTI_MSG_HEARTBEAT, 0, NULL);
    }
    assert_int_equal(crti_control_figures(bed->control).actors_dead, 0);
    assert_true(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(50)));
    bed->failing = CRT_OK;
    bed->manual = true;
    bed_forget(bed);
    control_create(bed, 50, "a");
    bed_pass(bed, 2 * CRTI_S); /* the deletion would be tried again here */
    bed_store(bed);
    assert_non_null(bed_next(bed, NODE_A, CRTI_MSG_DONE));
    assert_true(bed_has_row(bed, CRTI_STORE_ACTORS, bed_id(50)));
    assert_true(bed_has_row(bed, CRTI_STORE_ACTOR_STATES, bed_id(50)));
}

static void no_change(void *user, crti_actor_entry_t *actor, unsigned before, bool stored)
{
}

static void an_actor_is_written_again_as_it_was_made(void **state)
{
    crti_msg_actor_create_t m = bed_actor(50, 5, "a");
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t first = {0}, second = {0};
    crti_actor_entry_t *actor;
    crti_actor_table_t table;

    m.detached = m.fenced = m.is_soft = true;
    m.max_restarts = 3;
    m.max_task_retries = 4;
    m.max_pending_calls = 5;
    m.is_unordered = true;
    m.if_infeasible = CRTI_INFEASIBLE_FAILS;
    m.strategy = CRTI_STRATEGY_AFFINITY;
    m.affinity = bed_id(7);
    m.selector = crti_str("zone=eu");
    assert_int_equal(crti_resources_parse("GPU=1,disk=2", &m.resources), CRT_OK);
    crti_actor_table_init(&table, no_change, NULL);
    assert_int_equal(crti_actor_table_create(&table, &m, &actor), CRT_OK);
    assert_int_equal(crti_message_encode(CRTI_MSG_ACTOR_CREATE, 0, &m, &first), CRT_OK);
    assert_int_equal(crti_message_encode(CRTI_MSG_ACTOR_CREATE, 0, actor->made, &second),
                     CRT_OK);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    crti_actor_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(a_name_belongs_to_one_living_actor),
        CONTROL_TEST(names_of_several_namespaces_are_several),
        CONTROL_TEST(an_actor_is_started_again_while_it_has_restarts),
        CONTROL_TEST(a_failed_creation_is_not_started_again),
        CONTROL_TEST(a_node_that_refuses_costs_no_restart),
        CONTROL_TEST(a_retry_that_came_due_while_the_head_was_busy_is_made),
        CONTROL_TEST(an_actor_that_cannot_start_is_tried_less_and_less_often),
        CONTROL_TEST(an_actor_that_waits_for_its_next_process_says_why),
        CONTROL_TEST(an_actor_that_dies_soon_after_its_start_waits_as_well),
        CONTROL_TEST(an_actor_that_lived_for_a_while_is_restarted_at_once),
        CONTROL_TEST(an_actor_that_its_user_kills_is_restarted_at_once),
        CONTROL_TEST(what_an_actor_saved_goes_to_its_next_process_and_with_it),
        CONTROL_TEST(each_process_of_an_actor_has_its_environment),
        CONTROL_TEST(what_could_not_be_saved_while_the_store_failed_is_stored_later),
        CONTROL_TEST(what_was_saved_stays_until_the_death_is_stored),
        CONTROL_TEST(what_is_saved_has_a_limit_and_a_living_actor),
        CONTROL_TEST(a_kill_of_a_process_that_was_followed_by_another_does_nothing),
        CONTROL_TEST(an_actor_that_waits_for_its_next_process_can_be_ended),
        CONTROL_TEST(an_actor_without_handles_ends_in_order_and_for_good),
        CONTROL_TEST(an_actor_without_a_place_says_what_it_waits_for),
        CONTROL_TEST(a_late_report_of_an_earlier_incarnation_ends_that_process),
        CONTROL_TEST(actors_end_with_their_job_but_detached_ones_live_on),
        CONTROL_TEST(a_restarted_head_keeps_the_program_of_detached_actors),
        CONTROL_TEST(actors_end_with_the_process_that_made_them),
        CONTROL_TEST(the_death_of_a_maker_is_answered_when_its_actors_ends_are_durable),
        CONTROL_TEST(an_actor_that_is_moved_while_it_starts_begins_elsewhere),
        CONTROL_TEST(an_actor_that_was_not_begun_before_a_drain_is_placed_elsewhere),
        CONTROL_TEST(an_unknown_actor_is_waited_for_and_then_dead_to_those_who_watch),
        CONTROL_TEST(dead_actors_are_capped_and_expire_with_their_rows),
        CONTROL_TEST(a_row_is_not_deleted_behind_a_new_creation_of_its_actor),
        cmocka_unit_test(an_actor_is_written_again_as_it_was_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
