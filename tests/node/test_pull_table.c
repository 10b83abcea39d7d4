/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/node/objects/pull_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/node/objects/share_table.h"

#include <cmocka.h>

#define A    ((crti_id_t){0, 1})
#define B    ((crti_id_t){0, 2})
#define PART CRTI_PULL_PART

typedef struct scene {
    crti_pull_table_t *table;
    uint64_t now;
    crti_pull_action_t action;
} scene_t;

static int setup(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));

    s->now = 100 * CRTI_S;
    assert_int_equal(crti_pull_table_new(&s->table), CRT_OK);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scene_t *s = *state;

    crti_pull_table_free(s->table);
    free(s);
    return 0;
}

static crti_object_id_t object(uint64_t n)
{
    return (crti_object_id_t){{8, n / 100}, n};
}

static void pull_from(scene_t *s, uint64_t n, uint64_t size, uint64_t requester,
                      crti_id_t first, crti_id_t second)
{
    crti_id_t nodes[2] = {first, second};
    crti_pull_requester_t who = {.process = {1, requester}, .request = 1000 + requester};

    assert_int_equal(crti_pull_table_request(s->table, object(n), size, nodes,
                                             crti_id_is_zero(second) ? 1 : 2, who,
                                             s->now),
                     CRT_OK);
}

static void expect(scene_t *s, crti_pull_verb_t verb, uint64_t n)
{
    assert_true(crti_pull_table_action(s->table, &s->action));
    assert_int_equal(s->action.verb, verb);
    assert_true(crti_object_id_equal(s->action.object, object(n)));
}

static void expect_ask(scene_t *s, uint64_t n, crti_id_t node, uint64_t offset,
                       uint64_t length)
{
    expect(s, CRTI_PULL_ASK, n);
    assert_true(crti_id_equal(s->action.node, node));
    assert_int_equal(s->action.offset, offset);
    assert_int_equal(s->action.length, length);
}

/* What was asked last is answered. */
static crti_pull_attempt_t last_attempt(const scene_t *s, crti_id_t by)
{
    return (crti_pull_attempt_t){s->action.object, by, s->action.offset,
                                 s->action.attempt};
}

static void refuse(scene_t *s, crti_id_t by, const char *text)
{
    crti_pull_attempt_t attempt = last_attempt(s, by);

    crti_pull_table_refused(s->table, &attempt, text);
}

static void send_on(scene_t *s, crti_id_t by, crti_id_t to)
{
    crti_pull_attempt_t attempt = last_attempt(s, by);

    crti_pull_table_elsewhere(s->table, &attempt, to);
}

static void expect_answer(scene_t *s, uint64_t n, uint64_t requester, crt_status_t status)
{
    expect(s, CRTI_PULL_ANSWER, n);
    assert_int_equal(s->action.requester.process.low, requester);
    assert_int_equal(s->action.requester.request, 1000 + requester);
    assert_int_equal(s->action.status, status);
}

static void expect_nothing(scene_t *s)
{
    assert_false(crti_pull_table_action(s->table, &s->action));
}

static void an_object_comes_in_parts_and_is_sealed_and_answered(void **state)
{
    scene_t *s = *state;

    pull_from(s, 1, 2 * PART + 5, 1, A, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    assert_int_equal(s->action.size, 2 * PART + 5);
    expect_nothing(s);
    crti_pull_table_room(s->table, object(1));
    expect_ask(s, 1, A, 0, PART);
    expect_ask(s, 1, A, PART, PART);
    expect_ask(s, 1, A, 2 * PART, 5);
    assert_int_equal(crti_pull_table_bytes(s->table), 2 * PART + 5);
    crti_pull_table_part(s->table, object(1), PART);
    crti_pull_table_part(s->table, object(1), PART); /* twice counts once */
    crti_pull_table_part(s->table, object(1), 0);
    expect_nothing(s);
    crti_pull_table_part(s->table, object(1), 2 * PART);
    expect(s, CRTI_PULL_SEAL, 1);
    expect_answer(s, 1, 1, CRT_OK);
    assert_int_equal(crti_pull_table_count(s->table), 0);
    assert_int_equal(crti_pull_table_bytes(s->table), 0);
}

static void how_far_a_pull_is_can_be_asked(void **state)
{
    scene_t *s = *state;
    crti_pull_progress_t p;

    assert_false(crti_pull_table_progress(s->table, object(1), &p));
    pull_from(s, 1, 2 * PART + 10, 1, A, (crti_id_t){0});
    assert_true(crti_pull_table_progress(s->table, object(1), &p));
    assert_true(p.needs_room);
    assert_int_equal(p.came, 0);
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_room(s->table, object(1));
    crti_pull_table_part(s->table, object(1), PART);
    assert_true(crti_pull_table_progress(s->table, object(1), &p));
    assert_false(p.needs_room);
    assert_int_equal(p.came, PART);
    assert_true(crti_id_equal(p.from, A));
    crti_pull_table_part(s->table, object(1), 0);
    crti_pull_table_part(s->table, object(1), 2 * PART);
    assert_false(crti_pull_table_progress(s->table, object(1), &p));
}

static void an_empty_object_needs_no_part(void **state)
{
    scene_t *s = *state;

    pull_from(s, 1, 0, 1, A, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_room(s->table, object(1));
    expect(s, CRTI_PULL_SEAL, 1);
    expect_answer(s, 1, 1, CRT_OK);
}

static void one_pull_serves_everybody_who_asks(void **state)
{
    scene_t *s = *state;
    crti_pull_requester_t who = {.process = {1, 9}};

    pull_from(s, 1, 10, 1, A, (crti_id_t){0});
    pull_from(s, 1, 10, 2, B, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_room(s->table, object(1));
    expect_ask(s, 1, A, 0, 10);
    expect_nothing(s);
    assert_int_equal(
        crti_pull_table_request(s->table, object(1), 11, NULL, 0, who, s->now),
        CRT_ERR_INVALID);
    crti_pull_table_part(s->table, object(1), 0);
    expect(s, CRTI_PULL_SEAL, 1);
    expect_answer(s, 1, 1, CRT_OK);
    expect_answer(s, 1, 2, CRT_OK);
}

static void the_next_source_takes_over_where_the_first_stopped(void **state)
{
    scene_t *s = *state;

    pull_from(s, 1, 3 * PART, 1, A, B);
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_room(s->table, object(1));
    for (uint64_t i = 0; i < 3; i++)
        expect_ask(s, 1, A, i * PART, PART);
    crti_pull_table_part(s->table, object(1), PART);
    crti_pull_table_node_lost(s->table, A, "link broke");
    expect_ask(s, 1, B, 0, PART);
    expect_ask(s, 1, B, 2 * PART, PART);
    expect_nothing(s);
    crti_pull_table_part(s->table, object(1), 0);
    crti_pull_table_part(s->table, object(1), 0); /* twice counts once */
    crti_pull_table_part(s->table, object(1), 2 * PART);
    expect(s, CRTI_PULL_SEAL, 1);
    expect_answer(s, 1, 1, CRT_OK);
}

#define C ((crti_id_t){0, 3})
#define MANY                                                                             \
    CRTI_SHARE_PARTS /* parts of an object whose sources are told when they are left */

static void expect_leave(scene_t *s, uint64_t n, crti_id_t node)
{
    expect(s, CRTI_PULL_LEAVE, n);
    assert_true(crti_id_equal(s->action.node, node));
}

static void expect_asks(scene_t *s, uint64_t n, crti_id_t node, uint64_t hops,
                        bool direct)
{
    for (uint64_t i = 0; i < MANY; i++) {
        expect_ask(s, n, node, i * PART, PART);
        assert_int_equal(s->action.hops, hops);
        assert_int_equal(s->action.direct, direct);
    }
    expect_nothing(s);
}

static void start(scene_t *s, uint64_t n, crti_id_t first, crti_id_t second)
{
    pull_from(s, n, MANY * PART, 1, first, second);
    expect(s, CRTI_PULL_MAKE_ROOM, n);
    crti_pull_table_room(s->table, object(n));
    expect_asks(s, n, first, 0, false);
}

static void who_is_sent_on_asks_there_and_tells_it_at_the_end(void **state)
{
    scene_t *s = *state;
    crti_pull_attempt_t stale;

    start(s, 1, A, (crti_id_t){0});
    stale = last_attempt(s, A);
    send_on(s, A, B);
    expect_asks(s, 1, B, 1, false);
    crti_pull_table_elsewhere(s->table, &stale, C); /* to what was asked anew meanwhile */
    expect_nothing(s);
    send_on(s, B, C);
    expect_asks(s, 1, C, 2, false);
    for (uint64_t i = 0; i < MANY; i++)
        crti_pull_table_part(s->table, object(1), i * PART);
    expect(s, CRTI_PULL_SEAL, 1);
    expect_leave(s, 1,
                 A); /* which may have given parts, after what it was asked further */
    expect_leave(s, 1, B);
    expect_leave(s, 1, C);
    expect_answer(s, 1, 1, CRT_OK);
    expect_nothing(s);
    assert_int_equal(crti_pull_table_bytes(s->table), 0);
}

static void
when_the_node_that_it_was_sent_to_fails_the_first_is_asked_directly(void **state)
{
    scene_t *s = *state;

    start(s, 1, A, (crti_id_t){0});
    send_on(s, A, B);
    expect_asks(s, 1, B, 1, false);
    crti_pull_table_part(s->table, object(1), 0);
    crti_pull_table_node_lost(s->table, B, "it died");
    for (uint64_t i = 1; i < MANY; i++) {
        expect_ask(s, 1, A, i * PART, PART);
        assert_true(s->action.direct);
    }
    expect_nothing(s);
    send_on(s, A, C); /* which it must not do now */
    expect(s, CRTI_PULL_ABORT, 1);
    expect_leave(s, 1, A);
    expect_answer(s, 1, 1, CRT_ERR_OBJECT_LOST);
}

static void nodes_that_send_it_in_circles_are_not_followed_for_ever(void **state)
{
    scene_t *s = *state;
    unsigned hops = 0;

    start(s, 1, A, (crti_id_t){0});
    for (;;) {
        bool at_b = crti_id_equal(s->action.node, B);

        assert_true(hops++ <= CRTI_SHARE_HOPS + 1);
        send_on(s, s->action.node, at_b ? C : B);
        assert_true(crti_pull_table_action(s->table, &s->action));
        if (s->action.direct)
            break;
        while (crti_pull_table_action(s->table, &s->action))
            continue;
    }
    assert_true(crti_id_equal(s->action.node, A));
}

static void a_silent_source_gives_way_to_another_and_is_asked_last(void **state)
{
    scene_t *s = *state;

    start(s, 1, A, B);
    crti_pull_table_silent(s->table, B); /* was not asked */
    expect_nothing(s);
    crti_pull_table_silent(s->table, A);
    expect_leave(s, 1, A);
    expect_asks(s, 1, B, 0, false);
    crti_pull_table_part(s->table, object(1), 0); /* A was only slow: that is taken */
    refuse(s, B, "evicted");
    expect_leave(s, 1, B);
    for (uint64_t i = 1; i < MANY; i++)
        expect_ask(s, 1, A, i * PART, PART);
    expect_nothing(s);
    crti_pull_table_silent(s->table, A); /* there is no other */
    expect_nothing(s);
    assert_int_equal(crti_pull_table_bytes(s->table), (MANY - 1) * PART);
}

static void a_pull_that_does_not_come_forward_goes_elsewhere(void **state)
{
    scene_t *s = *state;
    uint64_t due;

    start(s, 1, A, (crti_id_t){0});
    send_on(s, A, B);
    expect_asks(s, 1, B, 1, false);
    for (uint64_t end = s->now + 2 * CRTI_LIMIT(transfer_timeout); s->now < end;
         s->now = due) {
        crti_pull_table_part(s->table, object(1), 0); /* once is not forward */
        due = crti_pull_table_tick(s->table, s->now);
        assert_true(due > s->now && due <= s->now + CRTI_S);
        if (crti_pull_table_action(s->table, &s->action))
            break;
    }
    assert_int_equal(s->action.verb, CRTI_PULL_LEAVE);
    for (uint64_t i = 1; i < MANY; i++) {
        expect_ask(s, 1, A, i * PART, PART);
        assert_true(s->action.direct);
    }
    /* There is no other but B, which is asked when this does not help, and so on. */
    for (uint64_t end = s->now + 2 * CRTI_LIMIT(transfer_timeout); s->now < end;
         s->now = due)
        due = crti_pull_table_tick(s->table, s->now);
    expect_leave(s, 1, A);
    expect_ask(s, 1, B, PART, PART);
}

static void two_that_wait_for_each_other_find_out(void **state)
{
    scene_t *s = *state;
    uint64_t due;

    start(s, 1, A, (crti_id_t){0});
    for (uint64_t end = s->now + 2 * CRTI_LIMIT(transfer_timeout); s->now < end;
         s->now = due)
        due = crti_pull_table_tick(s->table, s->now);
    expect_asks(s, 1, A, 0, true); /* says now that it has nothing yet */
    refuse(s, A, "not yet");
    expect_leave(s, 1, A);
    expect(s, CRTI_PULL_ABORT, 1);
    expect_answer(s, 1, 1, CRT_ERR_OBJECT_LOST);
}

static void a_source_that_is_named_late_is_asked_when_the_slow_one_stalls(void **state)
{
    scene_t *s = *state;
    uint64_t due;

    start(s, 1, A, B);
    crti_pull_table_silent(s->table, A);
    expect_leave(s, 1, A);
    expect_asks(s, 1, B, 0, false);
    refuse(s, B, "evicted");
    expect_leave(s, 1, B);
    expect_asks(s, 1, A, 0, false);
    pull_from(s, 1, MANY * PART, 2, C, (crti_id_t){0});
    expect_nothing(s); /* all is asked of A, which is slow */
    for (uint64_t end = s->now + 2 * CRTI_LIMIT(transfer_timeout); s->now < end;
         s->now = due)
        due = crti_pull_table_tick(s->table, s->now);
    expect_leave(s, 1, A);
    expect_asks(s, 1, C, 0, true);
    assert_int_equal(crti_pull_table_bytes(s->table), MANY * PART);
}

static void with_no_source_left_the_object_is_lost_and_the_last_reason_told(void **state)
{
    scene_t *s = *state;

    pull_from(s, 1, PART, 1, A, B);
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_room(s->table, object(1));
    expect_ask(s, 1, A, 0, PART);
    refuse(s, A, "evicted");
    expect_ask(s, 1, B, 0, PART);
    refuse(s, B, "not sealed on this node");
    expect(s, CRTI_PULL_ABORT, 1);
    expect_answer(s, 1, 1, CRT_ERR_OBJECT_LOST);
    assert_non_null(strstr(s->action.text, "not sealed on this node"));
    assert_int_equal(crti_pull_table_bytes(s->table), 0);
}

static void a_source_named_again_is_tried_again(void **state)
{
    scene_t *s = *state;

    pull_from(s, 1, PART, 1, A, B);
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_room(s->table, object(1));
    expect_ask(s, 1, A, 0, PART);
    refuse(s, A, "not yet");
    expect_ask(s, 1, B, 0, PART);
    pull_from(s, 1, PART, 2, A, (crti_id_t){0});
    refuse(s, B, "gone");
    expect_ask(s, 1, A, 0, PART);
}

static void an_object_that_nobody_has_is_lost_at_once(void **state)
{
    scene_t *s = *state;
    crti_pull_requester_t who = {.process = {1, 1}, .request = 1001};

    assert_int_equal(
        crti_pull_table_request(s->table, object(1), 10, NULL, 0, who, s->now), CRT_OK);
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_room(s->table, object(1));
    expect(s, CRTI_PULL_ABORT, 1);
    expect_answer(s, 1, 1, CRT_ERR_OBJECT_LOST);
}

static void parts_under_way_are_bounded_for_an_object_and_for_all(void **state)
{
    scene_t *s = *state;
    uint64_t asked = 0;

    for (uint64_t n = 1; n <= 20; n++) {
        pull_from(s, n, 100 * PART, n, A, (crti_id_t){0});
        expect(s, CRTI_PULL_MAKE_ROOM, n);
        crti_pull_table_room(s->table, object(n));
        for (uint64_t mine = 0; crti_pull_table_action(s->table, &s->action); mine++) {
            assert_int_equal(s->action.verb, CRTI_PULL_ASK);
            assert_true(mine < CRTI_LIMIT(transfer_parts));
            asked++;
        }
    }
    assert_int_equal(asked, CRTI_LIMIT(transfer_window) / PART);
    assert_int_equal(crti_pull_table_bytes(s->table), CRTI_LIMIT(transfer_window));
    crti_pull_table_part(s->table, object(1), 0);
    expect_ask(s, 1, A, 8 * PART, PART); /* the oldest first */
    expect_nothing(s);
}

static void a_full_store_is_asked_again_until_the_time_is_up(void **state)
{
    scene_t *s = *state;
    uint64_t due;

    pull_from(s, 1, 10, 1, A, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_no_room(s->table, object(1), CRT_ERR_STORE_FULL, "full", s->now);
    expect_nothing(s);
    due = crti_pull_table_tick(s->table, s->now); /* others have ticks, too */
    assert_true(due > s->now && due <= s->now + CRTI_S);
    expect_nothing(s);
    s->now = due;
    assert_true(crti_pull_table_tick(s->table, s->now) > s->now);
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    s->now += 11 * CRTI_S;
    crti_pull_table_no_room(s->table, object(1), CRT_ERR_STORE_FULL, "full: x has 9",
                            s->now);
    expect_answer(s, 1, 1, CRT_ERR_STORE_FULL);
    assert_string_equal(s->action.text, "full: x has 9");
    assert_int_equal(crti_pull_table_tick(s->table, s->now), UINT64_MAX);
}

static void other_failures_of_the_store_end_the_pull_at_once(void **state)
{
    scene_t *s = *state;

    pull_from(s, 1, 10, 1, A, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    crti_pull_table_no_room(s->table, object(1), CRT_ERR_TOO_LARGE, "never", s->now);
    expect_answer(s, 1, 1, CRT_ERR_TOO_LARGE);
    pull_from(s, 2, 10, 1, A, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, 2);
    crti_pull_table_no_room(s->table, object(2), CRT_ERR_EXISTS, "", s->now);
    expect_answer(s, 2, 1, CRT_OK); /* it came another way */
}

static void a_host_without_memory_fails_the_pull_as_that(void **state)
{
    scene_t *s = *state;

    start(s, 1, A, B);
    crti_pull_table_failed(s->table, object(1), CRT_ERR_NO_MEMORY, "no memory");
    expect(s, CRTI_PULL_ABORT, 1);
    expect_leave(s, 1, A);
    expect_answer(s, 1, 1, CRT_ERR_NO_MEMORY);
    assert_int_equal(crti_pull_table_bytes(s->table), 0);
}

static void a_dead_owners_pulls_fail_and_others_go_on(void **state)
{
    scene_t *s = *state;

    pull_from(s, 1, PART, 1, A, (crti_id_t){0});
    pull_from(s, 101, PART, 2, A, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    expect(s, CRTI_PULL_MAKE_ROOM, 101);
    crti_pull_table_room(s->table, object(1));
    crti_pull_table_room(s->table, object(101));
    expect_ask(s, 1, A, 0, PART);
    expect_ask(s, 101, A, 0, PART);
    crti_pull_table_owner_died(s->table, object(1).owner);
    expect(s, CRTI_PULL_ABORT, 1);
    expect_answer(s, 1, 1, CRT_ERR_OWNER_DIED);
    crti_pull_table_part(s->table, object(101), 0);
    expect(s, CRTI_PULL_SEAL, 101);
    expect_answer(s, 101, 2, CRT_OK);
}

static void a_pull_that_only_a_dead_process_wanted_is_given_up(void **state)
{
    scene_t *s = *state;

    pull_from(s, 1, PART, 1, A, (crti_id_t){0});
    pull_from(s, 2, PART, 1, A, (crti_id_t){0});
    pull_from(s, 2, PART, 2, A, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, 1);
    expect(s, CRTI_PULL_MAKE_ROOM, 2);
    crti_pull_table_room(s->table, object(1));
    crti_pull_table_room(s->table, object(2));
    expect_ask(s, 1, A, 0, PART);
    expect_ask(s, 2, A, 0, PART);
    crti_pull_table_requester_died(s->table, (crti_id_t){1, 1});
    expect(s, CRTI_PULL_ABORT, 1);
    expect_nothing(s);
    crti_pull_table_part(s->table, object(2), 0);
    expect(s, CRTI_PULL_SEAL, 2);
    expect_answer(s, 2, 2, CRT_OK);
}

static void
whatever_happens_every_requester_gets_one_answer_and_bytes_add_up(void **state)
{
    enum { OBJECTS = 8, ROUNDS = 200 };
    scene_t *s = *state;
    unsigned random = 3;
    uint64_t asked = 0, answered = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t n = 0; n < OBJECTS; n++) {
            pull_from(s, n, (n % 3) * PART + n, n + 1, A, B);
            asked++;
        }
        for (int step = 0; step < 4000 && crti_pull_table_count(s->table); step++) {
            if (!crti_pull_table_action(s->table, &s->action)) {
                crti_pull_table_tick(s->table, s->now);
                s->now += 50 * CRTI_MS;
                continue;
            }
            random = random * 1103515245 + 12345;
            answered += s->action.verb == CRTI_PULL_ANSWER;
            if (s->action.verb == CRTI_PULL_MAKE_ROOM && random >> 24 & 1)
                crti_pull_table_room(s->table, s->action.object);
            else if (s->action.verb == CRTI_PULL_MAKE_ROOM)
                crti_pull_table_no_room(s->table, s->action.object, CRT_ERR_STORE_FULL,
                                        "full", s->now);
            else if (s->action.verb == CRTI_PULL_ASK && random >> 24 & 3)
                crti_pull_table_part(s->table, s->action.object, s->action.offset);
            else if (s->action.verb == CRTI_PULL_ASK && random >> 26 & 1)
                send_on(s, s->action.node, (crti_id_t){0, 1 + (random >> 27 & 7)});
            else if (s->action.verb == CRTI_PULL_ASK)
                crti_pull_table_refused(
                    s->table,
                    &(crti_pull_attempt_t){s->action.object, s->action.node,
                                           s->action.offset, s->action.attempt},
                    "no");
        }
        while (crti_pull_table_action(s->table, &s->action))
            answered += s->action.verb == CRTI_PULL_ANSWER;
        assert_int_equal(crti_pull_table_count(s->table), 0);
        assert_int_equal(crti_pull_table_bytes(s->table), 0);
        assert_int_equal(answered, asked);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Each answer would be a walk over all that wait for theirs. */
static void thousands_of_small_objects_come_at_once(void **state)
{
    enum { COUNT = 20000 };
    scene_t *s = *state;
    clock_t since = clock();
    size_t asked = 0, answered = 0;

    for (uint64_t i = 0; i < COUNT; i++) {
        pull_from(s, i, 10, 1, A, (crti_id_t){0});
        expect(s, CRTI_PULL_MAKE_ROOM, i);
        crti_pull_table_room(s->table, object(i));
        asked += crti_pull_table_action(s->table, &s->action);
    }
    assert_int_equal(asked, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        crti_pull_table_part(s->table, object(COUNT - 1 - i), 0);
        while (crti_pull_table_action(s->table, &s->action))
            answered += s->action.verb == CRTI_PULL_ANSWER;
    }
    assert_int_equal(answered, COUNT);
    assert_true((double)(clock() - since) / CLOCKS_PER_SEC < 1);
}

static void those_that_wait_for_their_turn_are_served_oldest_first(void **state)
{
    scene_t *s = *state;
    uint64_t parts = CRTI_LIMIT(transfer_window) / PART;

    for (uint64_t i = 0; i < parts + 3; i++) {
        pull_from(s, i, PART, 1, A, B);
        expect(s, CRTI_PULL_MAKE_ROOM, i);
        crti_pull_table_room(s->table, object(i));
        if (i < parts)
            expect_ask(s, i, A, 0, PART);
        expect_nothing(s);
    }
    crti_pull_table_part(s->table, object(9), 0);
    expect(s, CRTI_PULL_SEAL, 9);
    expect_answer(s, 9, 1, CRT_OK);
    expect_ask(s, parts, A, 0, PART);
    expect_nothing(s);
    crti_pull_table_node_lost(s->table, A, "gone"); /* all are to be asked for again */
    for (uint64_t i = 0; i <= parts; i++)
        if (i != 9)
            expect_ask(s, i, B, 0, PART);
    expect_nothing(s);
}

enum { SILENT = 8, SILENT_PARTS = 8 };

/* Pulls 1 to SILENT, which fill the window, and one of C. */
static void fill_the_window(scene_t *s, crti_id_t first, crti_id_t second)
{
    for (uint64_t n = 1; n <= SILENT; n++) {
        pull_from(s, n, SILENT_PARTS * PART, n, first, second);
        expect(s, CRTI_PULL_MAKE_ROOM, n);
        crti_pull_table_room(s->table, object(n));
        for (uint64_t i = 0; i < SILENT_PARTS; i++)
            expect_ask(s, n, first, i * PART, PART);
    }
    assert_int_equal(crti_pull_table_bytes(s->table), CRTI_LIMIT(transfer_window));
    pull_from(s, SILENT + 1, PART, SILENT + 1, C, (crti_id_t){0});
    expect(s, CRTI_PULL_MAKE_ROOM, SILENT + 1);
    crti_pull_table_room(s->table, object(SILENT + 1));
    expect_nothing(s);
}

/* Until C is asked; nothing comes meanwhile. */
static void await_the_other(scene_t *s)
{
    uint64_t end = s->now + 3 * CRTI_LIMIT(transfer_timeout);

    do {
        assert_true(s->now < end);
        while (crti_pull_table_action(s->table, &s->action))
            if (crti_id_equal(s->action.node, C))
                break;
        s->now = crti_pull_table_tick(s->table, s->now);
    } while (!crti_id_equal(s->action.node, C));
    assert_int_equal(s->action.verb, CRTI_PULL_ASK);
    expect_nothing(s);
    assert_int_equal(crti_pull_table_bytes(s->table), PART);
    crti_pull_table_part(s->table, object(SILENT + 1), 0);
    expect(s, CRTI_PULL_SEAL, SILENT + 1);
    expect_answer(s, SILENT + 1, SILENT + 1, CRT_OK);
    assert_int_equal(crti_pull_table_bytes(s->table), 0);
}

static void pulls_whose_only_source_is_silent_leave_the_window_to_others(void **state)
{
    scene_t *s = *state;

    fill_the_window(s, A, (crti_id_t){0});
    await_the_other(s);
    for (uint64_t i = 0; i < SILENT_PARTS; i++) { /* it speaks: these count again */
        crti_pull_table_part(s->table, object(1), i * PART);
        assert_int_equal(crti_pull_table_bytes(s->table), (SILENT_PARTS - 1 - i) * PART);
    }
    crti_pull_table_part(s->table, object(2), 0);
    assert_int_equal(crti_pull_table_bytes(s->table), (SILENT_PARTS - 1) * PART);
    crti_pull_table_failed(s->table, object(2), CRT_ERR_NO_MEMORY, "no memory");
    crti_pull_table_requester_died(s->table, (crti_id_t){1, 3});
    assert_int_equal(crti_pull_table_bytes(s->table), 0);
    pull_from(s, 4, SILENT_PARTS * PART, 4, B, (crti_id_t){0});
    crti_pull_table_node_lost(s->table, A, "gone");
    assert_int_equal(crti_pull_table_count(s->table), 1);
    assert_int_equal(crti_pull_table_bytes(s->table), SILENT_PARTS * PART); /* of B */
    crti_pull_table_node_lost(s->table, B, "gone");
    assert_int_equal(crti_pull_table_count(s->table), 0);
    assert_int_equal(crti_pull_table_bytes(s->table), 0);
}

static void pulls_whose_sources_are_all_silent_leave_the_window_to_others(void **state)
{
    scene_t *s = *state;

    fill_the_window(s, A, B);
    await_the_other(s);
    for (uint64_t n = 1; n <= SILENT; n++)
        crti_pull_table_part(s->table, object(n), PART);
    assert_int_equal(crti_pull_table_bytes(s->table), SILENT * (SILENT_PARTS - 1) * PART);
    crti_pull_table_node_lost(s->table, A, "gone");
    crti_pull_table_node_lost(s->table, B, "gone");
    assert_int_equal(crti_pull_table_count(s->table), 0);
    assert_int_equal(crti_pull_table_bytes(s->table), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_object_comes_in_parts_and_is_sealed_and_answered),
        TEST(how_far_a_pull_is_can_be_asked),
        TEST(an_empty_object_needs_no_part),
        TEST(one_pull_serves_everybody_who_asks),
        TEST(the_next_source_takes_over_where_the_first_stopped),
        TEST(who_is_sent_on_asks_there_and_tells_it_at_the_end),
        TEST(when_the_node_that_it_was_sent_to_fails_the_first_is_asked_directly),
        TEST(nodes_that_send_it_in_circles_are_not_followed_for_ever),
        TEST(a_silent_source_gives_way_to_another_and_is_asked_last),
        TEST(a_pull_that_does_not_come_forward_goes_elsewhere),
        TEST(two_that_wait_for_each_other_find_out),
        TEST(a_source_that_is_named_late_is_asked_when_the_slow_one_stalls),
        TEST(with_no_source_left_the_object_is_lost_and_the_last_reason_told),
        TEST(a_source_named_again_is_tried_again),
        TEST(an_object_that_nobody_has_is_lost_at_once),
        TEST(parts_under_way_are_bounded_for_an_object_and_for_all),
        TEST(a_full_store_is_asked_again_until_the_time_is_up),
        TEST(other_failures_of_the_store_end_the_pull_at_once),
        TEST(a_host_without_memory_fails_the_pull_as_that),
        TEST(a_dead_owners_pulls_fail_and_others_go_on),
        TEST(a_pull_that_only_a_dead_process_wanted_is_given_up),
        TEST(thousands_of_small_objects_come_at_once),
        TEST(those_that_wait_for_their_turn_are_served_oldest_first),
        TEST(pulls_whose_only_source_is_silent_leave_the_window_to_others),
        TEST(pulls_whose_sources_are_all_silent_leave_the_window_to_others),
        TEST(whatever_happens_every_requester_gets_one_answer_and_bytes_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
