/* SPDX-License-Identifier: Apache-2.0 */
/* Fenced actors as the head decides them: neither they nor their names are placed anew while the
 * process that they had may take calls. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/fence.h"
#include "tests/control/control_test.h"

static void say_room(bed_t *bed, uint64_t link, const char *room)
{
    crti_msg_heartbeat_t m = {.sequence = 1};

    crti_resources_parse(room, &m.available);
    bed_say(bed, link, CRTI_MSG_HEARTBEAT, 0, &m);
}

static void beat(bed_t *bed, uint64_t link)
{
    say_room(bed, link, "CPU=4");
}

static void create(bed_t *bed, uint64_t actor, bool fenced, int64_t restarts)
{
    crti_msg_actor_create_t m = bed_actor(actor, 6, "name");

    m.owner_node = bed_id(2);
    m.max_restarts = restarts;
    m.fenced = fenced;
    m.detached = true;
    crti_resources_parse("CPU=1", &m.resources);
    bed_say(bed, NODE_B, CRTI_MSG_ACTOR_CREATE, actor, &m);
}

/* An actor "name" on node 1, made by a driver of node 2, which has room from now on. */
static void make(bed_t *bed, bool fenced, int64_t restarts)
{
    bed_join(bed, NODE_B, 2, 1, 4, NULL, NULL);
    bed_add_job(bed, NODE_B, 2, 6);
    say_room(bed, NODE_B, "CPU=0.5");
    bed_forget(bed);
    create(bed, 50, fenced, restarts);
    assert_true(bed_start_actor(bed, NODE_A, 150));
    beat(bed, NODE_B);
    bed_forget(bed);
}

/* Passes that time, in which the node on `link` is heard. */
static void pass(bed_t *bed, uint64_t ns, uint64_t link)
{
    for (uint64_t end = bed->now + ns; bed->now < end;) {
        uint64_t step = end - bed->now < 100 * CRTI_MS ? end - bed->now : 100 * CRTI_MS;

        bed_pass(bed, step);
        beat(bed, link);
    }
}

static size_t starts(const bed_t *bed, uint64_t link)
{
    return bed_count(bed, link, CRTI_MSG_ACTOR_START);
}

static void
a_broken_link_moves_it_only_five_seconds_after_its_node_was_heard(void **state)
{
    bed_t *bed = *state;

    make(bed, true, -1);
    bed_pass(bed, 100 * CRTI_MS);
    beat(bed, NODE_A); /* the last word */
    pass(bed, 500 * CRTI_MS, NODE_B);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    pass(bed, 1000 * CRTI_MS, NODE_B);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_NODE_DIED), 1); /* as ever */
    control_watch(bed, NODE_B, 50);
    assert_int_equal(control_state_of(bed, NODE_B).state, CRTI_ACTOR_RESTARTING);
    pass(bed, 3400 * CRTI_MS, NODE_B);
    assert_int_equal(starts(bed, NODE_B), 0);
    pass(bed, 200 * CRTI_MS, NODE_B);
    assert_int_equal(starts(bed, NODE_B), 1);
}

static void an_actor_without_a_fence_moves_with_the_death_of_its_node(void **state)
{
    bed_t *bed = *state;

    make(bed, false, -1);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    pass(bed, CRTI_S, NODE_B);
    assert_int_equal(starts(bed, NODE_B), 1);
}

static void its_process_that_is_known_to_have_died_holds_nothing_up(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_died_t died = {.actor = bed_id(50),
                                  .actor_incarnation = 1,
                                  .text = crti_str("signal 9"),
                                  .created = true};

    make(bed, true, -1);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_DIED, 0, &died);
    assert_int_equal(starts(bed, NODE_A) + starts(bed, NODE_B), 1);
}

static void a_restarted_head_waits_from_its_own_start(void **state)
{
    bed_t *bed = *state;

    make(bed, true, -1);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    pass(bed, 800 * CRTI_MS, NODE_B);
    bed_forget(bed);
    bed_restart(bed, true); /* what was RESTARTING may have been heard until just now */
    bed_join(bed, 31, 2, 1, 4, NULL, NULL);
    pass(bed, 4900 * CRTI_MS, 31);
    assert_int_equal(starts(bed, 31), 0);
    pass(bed, 200 * CRTI_MS, 31);
    assert_int_equal(starts(bed, 31), 1);
}

static void a_node_that_a_restarted_head_never_heard_of_holds_it_up_too(void **state)
{
    bed_t *bed = *state;

    make(bed, true, -1);
    bed_forget(bed);
    bed_restart(bed, true);
    bed_join(bed, 31, 2, 1, 4, NULL, NULL);
    /* Another incarnation of its node: the one before is dead, but who knows for how long. */
    bed_join(bed, 32, 1, 2, 4, NULL, NULL);
    pass(bed, 4900 * CRTI_MS, 31);
    assert_int_equal(starts(bed, 31) + starts(bed, 32), 0);
    pass(bed, 200 * CRTI_MS, 31);
    assert_int_equal(starts(bed, 31) + starts(bed, 32), 1);
}

static void its_name_is_free_but_who_takes_it_waits(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_state_t found;

    make(bed, true, 0);
    bed_pass(bed, 100 * CRTI_MS);
    beat(bed, NODE_A);
    beat(bed, NODE_B);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    pass(bed, CRTI_S, NODE_B);
    create(bed, 60, false, 0);
    assert_non_null(bed_next(bed, NODE_B, CRTI_MSG_DONE));
    control_watch(bed, NODE_B, 60);
    found = control_state_of(bed, NODE_B);
    assert_int_equal(found.state, CRTI_ACTOR_PENDING);
    assert_true(crti_str_equal(
        found.text, "the fenced actor that had its name may still take calls"));
    pass(bed, 3900 * CRTI_MS, NODE_B);
    assert_int_equal(starts(bed, NODE_B), 0);
    pass(bed, 200 * CRTI_MS, NODE_B);
    assert_int_equal(starts(bed, NODE_B), 1);
}

static void a_killed_one_gives_its_name_on_when_its_process_has_ended(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_kill_t kill = {.actor = bed_id(50), .no_restart = true};
    const crti_message_t *stop;

    make(bed, true, 0);
    bed_say(bed, NODE_B, CRTI_MSG_ACTOR_KILL, 9, &kill);
    stop = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STOP);
    assert_non_null(stop);
    bed->seen = 0;
    create(bed, 60, false, 0);
    assert_int_equal(starts(bed, NODE_A) + starts(bed, NODE_B), 0);
    bed_say(bed, NODE_A, CRTI_MSG_DONE, stop->request, NULL);
    assert_int_equal(starts(bed, NODE_A) + starts(bed, NODE_B), 1);
}

static void a_word_of_the_node_that_crosses_its_death_counts_as_heard(void **state)
{
    bed_t *bed = *state;

    make(bed, true, -1);
    for (int i = 0; i < 49; i++) { /* silent for nearly as long as can be */
        bed_pass(bed, 100 * CRTI_MS);
        beat(bed, NODE_B);
    }
    beat(bed, NODE_A);
    crti_control_closed(bed->control, NODE_A, "reset", bed->now);
    pass(bed, 4900 * CRTI_MS, NODE_B);
    assert_int_equal(starts(bed, NODE_B), 0);
    pass(bed, 200 * CRTI_MS, NODE_B);
    assert_int_equal(starts(bed, NODE_B), 1);
}

/* The sequence that the next acknowledgement on the link has. */
static uint64_t acknowledged(bed_t *bed, uint64_t link)
{
    bed_forget(bed);
    beat(bed, link);
    return bed_next(bed, link, CRTI_MSG_HEARTBEAT_ACK)->heartbeat_ack.sequence;
}

static void a_head_that_may_not_be_the_only_one_promises_nothing(void **state)
{
    bed_t *bed = *state;

    assert_int_equal(acknowledged(bed, NODE_A), 1);
    bed->may_be_two = true;
    assert_int_equal(acknowledged(bed, NODE_A), 0);
    bed->may_be_two = false;
    assert_int_equal(acknowledged(bed, NODE_A), 1);
}

/* What is shown of `what`; to be freed. */
static char *show(bed_t *bed, const char *what)
{
    crti_msg_state_query_t m = {.what = crti_str(what)};

    bed_forget(bed);
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 8, &m);
    return crti_str_dup(bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER)->state_answer.json);
}

static void expect_shown(bed_t *bed, const char *what, const char *part, bool is_shown)
{
    CRTI_AUTO(free) char *json = show(bed, what);

    if ((strstr(json, part) != NULL) != is_shown)
        fail_msg("%s is %sin %s", part, is_shown ? "not " : "", json);
}

static void it_is_shown_that_it_is_fenced_and_when_it_takes_no_calls(void **state)
{
    bed_t *bed = *state;

    make(bed, true, -1);
    beat(bed, NODE_A); /* the last word */
    expect_shown(bed, "actors", "\"is_fenced\":true", true);
    pass(bed, 3900 * CRTI_MS, NODE_B);
    expect_shown(bed, "actors", "it takes no calls", false);
    pass(bed, 200 * CRTI_MS, NODE_B);
    expect_shown(bed, "actors",
                 "it takes no calls: nothing was heard of its node for 4.1 s", true);
    beat(bed, NODE_A);
    expect_shown(bed, "actors", "it takes no calls", false);
}

static void an_actor_without_a_fence_is_shown_as_ever(void **state)
{
    bed_t *bed = *state;

    make(bed, false, -1);
    beat(bed, NODE_A);
    pass(bed, 4500 * CRTI_MS, NODE_B);
    expect_shown(bed, "actors", "\"is_fenced\":false", true);
    expect_shown(bed, "actors", "it takes no calls", false);
}

static void it_is_shown_when_a_node_was_heard_of_last(void **state)
{
    bed_t *bed = *state;
    char heard[64];

    make(bed, false, 0);
    beat(bed, NODE_A);
    snprintf(heard, sizeof(heard), "\"heard_time\":%lld,",
             (long long)(bed->now / CRTI_MS));
    pass(bed, 3000 * CRTI_MS, NODE_B);
    expect_shown(bed, "nodes", heard, true);
    bed_restart(bed, true); /* the head before heard of them, this one did not */
    crti_control_opened(bed->control, ADMIN, true, bed->now);
    expect_shown(bed, "nodes", "\"heard_time\":null", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(a_broken_link_moves_it_only_five_seconds_after_its_node_was_heard),
        CONTROL_TEST(an_actor_without_a_fence_moves_with_the_death_of_its_node),
        CONTROL_TEST(its_process_that_is_known_to_have_died_holds_nothing_up),
        CONTROL_TEST(a_restarted_head_waits_from_its_own_start),
        CONTROL_TEST(a_node_that_a_restarted_head_never_heard_of_holds_it_up_too),
        CONTROL_TEST(its_name_is_free_but_who_takes_it_waits),
        CONTROL_TEST(a_killed_one_gives_its_name_on_when_its_process_has_ended),
        CONTROL_TEST(a_head_that_may_not_be_the_only_one_promises_nothing),
        CONTROL_TEST(it_is_shown_that_it_is_fenced_and_when_it_takes_no_calls),
        CONTROL_TEST(an_actor_without_a_fence_is_shown_as_ever),
        CONTROL_TEST(it_is_shown_when_a_node_was_heard_of_last),
        CONTROL_TEST(a_word_of_the_node_that_crosses_its_death_counts_as_heard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
