/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a call that come before the one that ends it, and what becomes of them when the call
 * is made again. */
#include <setjmp.h>
#include <stdarg.h>

#include "alone.h"
#include "runtime/core/refs/missing.h"

#include <cmocka.h>

static int start(void **state)
{
    *state = alone_start();
    return 0;
}

static int finish(void **state)
{
    alone_stop();
    return 0;
}

/* The second result of that attempt, which process `i` has stored on its node. */
static void part(crti_core_t *core, unsigned i, uint64_t call)
{
    uint64_t number = crti_reply_number(call, 1);
    unsigned char node[16];
    crti_result_t result = {.form = CRTI_RESULT_STORED,
                            .location = {{core->process, number}, 100000, node, 1}};
    crti_buffer_t record = {0};

    crti_put_id(node, ALONE_NODE(i));
    assert_int_equal(crti_put_result(&record, CRTI_RECORD_REPLY, number, &result, NULL),
                     CRT_OK);
    alone_answer(i, &record);
}

/* A task of two results, of which process 1 has brought the second. */
static uint64_t begin(crti_core_t *core, crt_ref_t *refs[2])
{
    uint64_t call;

    alone_task_of(refs, 2);
    assert_true(alone_grant(1));
    call = alone_called(1);
    part(core, 1, call);
    assert_int_equal(refs[1]->owned.state, CRTI_OWNED_STORED);
    return call;
}

static void expect_at(const crt_ref_t *ref, unsigned i, uint64_t call)
{
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    assert_int_equal(ref->owned.state, CRTI_OWNED_STORED);
    assert_int_equal(ref->owned.node_count, 1);
    assert_true(crti_id_equal(ref->owned.nodes[0], ALONE_NODE(i)));
    assert_int_equal(ref->more->object.number, crti_reply_number(call, 1));
}

/* The next attempt is at process 2, and has brought both. */
static void end_again(crti_core_t *core, crt_ref_t *refs[2])
{
    uint64_t call;

    assert_true(alone_grant(2));
    call = alone_called(2);
    part(core, 2, call);
    alone_returns(2, call, CRT_OK);
    assert_int_equal(refs[0]->content, CRTI_CONTENT_INLINE);
    expect_at(refs[1], 2, call);
    alone_tick(CRTI_MS);
    expect_at(refs[1], 2, call);
    crt_refs_drop(refs, 2);
}

/* While the task runs there. */
static void node_dies(unsigned i)
{
    alone_worker_dies(i);
    alone_node_dies(i);
}

static void a_part_that_is_lost_before_its_call_ends_comes_again(void **state)
{
    crt_ref_t *refs[2];

    begin(*state, refs);
    node_dies(1);
    assert_int_equal(refs[1]->content, CRTI_CONTENT_NONE);
    end_again(*state, refs);
}

/* With the process that stored it: its node frees whatever that attempt has made. */
static void a_part_of_an_attempt_that_was_given_up_comes_again(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *refs[2];
    uint64_t call = begin(core, refs);

    alone_worker_dies(1);
    assert_int_equal(refs[1]->content, CRTI_CONTENT_NONE);
    assert_int_equal(
        alone_freed((crti_object_id_t){core->process, call | CRTI_EVERY_PART},
                    ALONE_NODE(1)),
        1);
    end_again(core, refs);
}

static void who_waits_for_a_part_that_is_lost_gets_the_one_that_comes_again(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *refs[2];

    begin(core, refs);
    node_dies(1);
    assert_int_equal(crt_get_for(refs[1], 0, NULL), CRT_ERR_TIMED_OUT);
    alone_tick(2 * CRTI_S); /* it is not given up meanwhile */
    assert_true(crti_ref_is_missing(refs[1]));
    end_again(core, refs);
    assert_true(crti_list_is_empty(&core->refs->missing));
}

/* As its call does, and not as an object that is gone. */
static void a_part_that_does_not_come_again_fails_with_its_call(void **state)
{
    crt_ref_t *refs[2];

    begin(*state, refs);
    node_dies(1);
    assert_true(alone_grant(2));
    alone_returns(2, alone_called(2), CRT_ERR_USER);
    assert_int_equal(refs[1]->owned.state, CRTI_OWNED_FAILED);
    assert_int_equal(crt_get_for(refs[1], 0, NULL), CRT_ERR_USER);
    crt_refs_drop(refs, 2);
}

/* Another copy is known: that is its value. */
static void a_part_that_has_another_copy_stays_as_it_is(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *refs[2];
    uint64_t call = begin(core, refs), again;

    alone_copy(3, refs[1]->number, refs[1]->more->object.number, ALONE_NODE(3));
    node_dies(1);
    expect_at(refs[1], 3, call);
    assert_true(alone_grant(2));
    again = alone_called(2);
    part(core, 2, again);
    expect_at(refs[1], 3, call);
    assert_int_equal(
        alone_freed((crti_object_id_t){core->process, crti_reply_number(again, 1)},
                    ALONE_NODE(2)),
        1);
    alone_returns(2, again, CRT_OK);
    crt_refs_drop(refs, 2);
}

int main(void)
{
#define PARTS_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        PARTS_TEST(a_part_that_is_lost_before_its_call_ends_comes_again),
        PARTS_TEST(a_part_of_an_attempt_that_was_given_up_comes_again),
        PARTS_TEST(who_waits_for_a_part_that_is_lost_gets_the_one_that_comes_again),
        PARTS_TEST(a_part_that_does_not_come_again_fails_with_its_call),
        PARTS_TEST(a_part_that_has_another_copy_stays_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
