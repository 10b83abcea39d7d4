/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/node/objects/share_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PART   ((uint64_t)1 << 20)
#define PARTS  10u
#define OBJECT ((crti_object_id_t){{8, 8}, 1})

typedef struct scene {
    crti_share_table_t *table;
    crti_share_action_t action;
    uint64_t requests;
} scene_t;

static int setup(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));

    assert_int_equal(crti_share_table_new(&s->table), CRT_OK);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scene_t *s = *state;

    crti_share_table_free(s->table);
    free(s);
    return 0;
}

static crti_id_t node(uint64_t n)
{
    return (crti_id_t){0, n};
}

/* Node `n` asks by link `n` for a part. */
static crti_share_question_t question(scene_t *s, uint64_t n, uint64_t part)
{
    return (crti_share_question_t){.object = OBJECT,
                                   .node = node(n),
                                   .link = n,
                                   .request = ++s->requests,
                                   .offset = part * PART,
                                   .length = PART};
}

static void ask(scene_t *s, crti_share_question_t q, crti_share_have_t have)
{
    crti_share_table_asked(s->table, &q, have, PARTS);
}

static void expect(scene_t *s, crti_share_verb_t verb, uint64_t n)
{
    assert_true(crti_share_table_action(s->table, &s->action));
    assert_int_equal(s->action.verb, verb);
    assert_true(crti_id_equal(s->action.question.node, node(n)));
}

static void expect_elsewhere(scene_t *s, uint64_t n, uint64_t parent)
{
    expect(s, CRTI_SHARE_ELSEWHERE, n);
    assert_true(crti_id_equal(s->action.node, node(parent)));
}

static void expect_nothing(scene_t *s)
{
    assert_false(crti_share_table_action(s->table, &s->action));
}

/* It asks, and is given the part. */
static void takes(scene_t *s, uint64_t n, uint64_t part)
{
    ask(s, question(s, n, part), CRTI_SHARE_HAS);
    expect(s, CRTI_SHARE_SEND, n);
    assert_int_equal(s->action.question.offset, part * PART);
    assert_int_equal(s->action.question.request, s->requests);
}

static void is_sent_on(scene_t *s, uint64_t n, uint64_t parent)
{
    ask(s, question(s, n, 0), CRTI_SHARE_HAS);
    expect_elsewhere(s, n, parent);
}

static void the_first_is_given_all_and_the_others_form_a_line(void **state)
{
    scene_t *s = *state;

    takes(s, 1, 0);
    takes(s, 1, 1);
    is_sent_on(s, 2, 1);
    is_sent_on(s, 3, 2);
    is_sent_on(s, 3, 2); /* for each part that it asked for meanwhile */
    is_sent_on(s, 4, 3);
    takes(s, 1, 2);
    expect_nothing(s);
}

static void a_line_longer_than_the_object_becomes_a_tree(void **state)
{
    scene_t *s = *state;
    uint64_t asked[100] = {0};

    takes(s, 1, 0);
    for (uint64_t n = 2; n < 100; n++) {
        uint64_t parent = n <= PARTS + 1 ? n - 1 : n - 1 - PARTS;

        is_sent_on(s, n, parent);
        asked[parent]++;
        assert_true(asked[parent] <= CRTI_SHARE_CHILDREN);
    }
}

static void small_objects_go_to_everybody(void **state)
{
    scene_t *s = *state;
    crti_share_question_t q;

    for (uint64_t n = 1; n <= 5; n++) {
        q = question(s, n, 0);
        crti_share_table_asked(s->table, &q, CRTI_SHARE_HAS, CRTI_SHARE_PARTS - 1);
        expect(s, CRTI_SHARE_SEND, n);
    }
    assert_int_equal(crti_share_table_count(s->table), 0);
}

static void what_is_not_here_is_refused(void **state)
{
    scene_t *s = *state;

    ask(s, question(s, 1, 0), CRTI_SHARE_LACKS);
    expect(s, CRTI_SHARE_REFUSE, 1);
    assert_non_null(strstr(s->action.text, "not on this node"));
    assert_int_equal(crti_share_table_count(s->table), 0);
}

static void a_question_for_a_part_on_its_way_waits_for_it(void **state)
{
    scene_t *s = *state;
    crti_share_question_t direct;

    ask(s, question(s, 1, 3), CRTI_SHARE_COMING);
    ask(s, question(s, 1, 4), CRTI_SHARE_COMING);
    expect_nothing(s);
    assert_int_equal(crti_share_table_waits(s->table), 2);
    crti_share_table_part(s->table, OBJECT, 4 * PART);
    expect(s, CRTI_SHARE_SEND, 1);
    assert_int_equal(s->action.question.offset, 4 * PART);
    expect_nothing(s);
    direct = question(s, 2, 5);
    direct.direct = true; /* it was sent on, and that went wrong: no waiting */
    ask(s, direct, CRTI_SHARE_COMING);
    expect(s, CRTI_SHARE_REFUSE, 2);
    crti_share_table_gone(s->table, OBJECT);
    expect(s, CRTI_SHARE_REFUSE, 1);
    expect_nothing(s);
    assert_int_equal(crti_share_table_waits(s->table), 0);
    assert_int_equal(crti_share_table_count(s->table), 0);
}

static void who_was_sent_here_is_taken_until_there_are_two(void **state)
{
    scene_t *s = *state;

    for (uint64_t n = 1; n <= 4; n++) {
        crti_share_question_t q = question(s, n, 0);

        q.hops = 1;
        ask(s, q, CRTI_SHARE_HAS);
        if (n <= CRTI_SHARE_CHILDREN)
            expect(s, CRTI_SHARE_SEND, n);
        else
            expect_elsewhere(s, n, CRTI_SHARE_CHILDREN);
    }
}

static void who_was_sent_on_too_often_is_taken(void **state)
{
    scene_t *s = *state;
    crti_share_question_t q = question(s, 9, 0);

    takes(s, 1, 0);
    q.hops = CRTI_SHARE_HOPS;
    ask(s, q, CRTI_SHARE_HAS);
    expect(s, CRTI_SHARE_SEND, 9);
}

static void
who_comes_back_is_taken_and_nobody_sent_to_the_one_that_failed_it(void **state)
{
    scene_t *s = *state;
    crti_share_question_t q;

    takes(s, 1, 0);
    is_sent_on(s, 2, 1);
    is_sent_on(s, 3, 2);
    q = question(s, 3, 0); /* 2 is gone */
    q.direct = true;
    ask(s, q, CRTI_SHARE_HAS);
    expect(s, CRTI_SHARE_SEND, 3);
    is_sent_on(s, 4, 3);
    takes(s, 3, 1);
}

static void when_the_last_that_was_given_it_leaves_the_line_is_forgotten(void **state)
{
    scene_t *s = *state;

    takes(s, 1, 0);
    is_sent_on(s, 2, 1);
    crti_share_table_left(s->table, OBJECT, node(2)); /* says nothing: not a child */
    assert_int_equal(crti_share_table_count(s->table), 1);
    crti_share_table_left(s->table, OBJECT, node(1));
    assert_int_equal(crti_share_table_count(s->table), 0);
    takes(s, 3, 0);
}

static void links_and_nodes_that_end_leave_nothing_behind(void **state)
{
    scene_t *s = *state;

    ask(s, question(s, 1, 3), CRTI_SHARE_COMING);
    ask(s, question(s, 1, 4), CRTI_SHARE_COMING);
    crti_share_table_link_closed(s->table, 1);
    expect_nothing(s); /* there is nobody to answer */
    assert_int_equal(crti_share_table_waits(s->table), 0);
    assert_int_equal(crti_share_table_count(s->table), 0);
    ask(s, question(s, 2, 3), CRTI_SHARE_COMING);
    is_sent_on(s, 3, 2);
    crti_share_table_node_lost(s->table, node(3));
    is_sent_on(s, 4, 2);
    crti_share_table_node_lost(s->table, node(2));
    assert_int_equal(crti_share_table_waits(s->table), 0);
    assert_int_equal(crti_share_table_count(s->table), 0);
}

static void questions_that_wait_are_bounded(void **state)
{
    scene_t *s = *state;

    for (unsigned i = 0; i < CRTI_SHARE_WAITS; i++)
        ask(s, question(s, 1, 3), CRTI_SHARE_COMING);
    expect_nothing(s);
    ask(s, question(s, 1, 3), CRTI_SHARE_COMING);
    expect(s, CRTI_SHARE_REFUSE, 1);
    crti_share_table_part(s->table, OBJECT, 3 * PART);
    for (unsigned i = 0; i < CRTI_SHARE_WAITS; i++)
        expect(s, CRTI_SHARE_SEND, 1);
    expect_nothing(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_is_given_all_and_the_others_form_a_line),
        TEST(a_line_longer_than_the_object_becomes_a_tree),
        TEST(small_objects_go_to_everybody),
        TEST(what_is_not_here_is_refused),
        TEST(a_question_for_a_part_on_its_way_waits_for_it),
        TEST(who_was_sent_here_is_taken_until_there_are_two),
        TEST(who_was_sent_on_too_often_is_taken),
        TEST(who_comes_back_is_taken_and_nobody_sent_to_the_one_that_failed_it),
        TEST(when_the_last_that_was_given_it_leaves_the_line_is_forgotten),
        TEST(links_and_nodes_that_end_leave_nothing_behind),
        TEST(questions_that_wait_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
