/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of which two nodes shall keep the bytes: what the owner asks for, and what it makes of
 * the answers, of deaths and of its own end. */
#include <setjmp.h>
#include <stdarg.h>

#include "alone.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/kept_copies.h"

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

static unsigned wanted(void)
{
    alone_tick(CRTI_MS);
    return alone_copies();
}

static void a_second_copy_is_wanted_on_another_node(void **state)
{
    crt_ref_t *ref = alone_stored_twice(1);

    assert_int_equal(wanted(), 1);
    assert_true(alone_avoids(ALONE_NODE(1)));
    alone_copied(2, CRT_OK);
    assert_int_equal(wanted(), 1);
    assert_int_equal(ref->owned.node_count, 2);
    alone_drop(ref);
}

static void without_the_option_none_is_wanted(void **state)
{
    crt_ref_t *ref = alone_stored(1);

    assert_int_equal(wanted(), 0);
    alone_drop(ref);
}

static void both_are_freed_with_the_object(void **state)
{
    crt_ref_t *ref = alone_stored_twice(1);
    crti_object_id_t object = ref->more->object;

    assert_int_equal(wanted(), 1);
    alone_copied(2, CRT_OK);
    alone_drop(ref);
    assert_int_equal(alone_freed(object, ALONE_NODE(1)), 1);
    assert_int_equal(alone_freed(object, ALONE_NODE(2)), 1);
}

static void a_copy_that_comes_after_the_end_is_freed(void **state)
{
    crt_ref_t *ref = alone_stored_twice(1);
    crti_object_id_t object = ref->more->object;

    assert_int_equal(wanted(), 1);
    alone_drop(ref);
    assert_int_equal(alone_freed(object, ALONE_NODE(2)), 0);
    alone_copied(2, CRT_OK);
    assert_int_equal(alone_freed(object, ALONE_NODE(2)), 1);
}

static void another_one_is_made_when_a_node_dies(void **state)
{
    crt_ref_t *ref = alone_stored_twice(1);

    assert_int_equal(wanted(), 1);
    alone_copied(2, CRT_OK);
    for (unsigned i = 1; i < 6; i++) {
        alone_node_dies(i);
        assert_int_equal(wanted(), i + 1);
        assert_int_equal(ref->content, CRTI_CONTENT_STORED);
        assert_true(alone_avoids(ALONE_NODE(i + 1)));
        assert_false(alone_avoids(ALONE_NODE(i)));
        alone_copied(i + 2, CRT_OK);
    }
    assert_int_equal(ref->owned.node_count, 2);
    alone_drop(ref);
}

static void the_first_node_dies_while_the_copy_is_on_its_way(void **state)
{
    crt_ref_t *ref = alone_stored_twice(1);

    assert_int_equal(wanted(), 1);
    alone_locate(3, ref->number);
    alone_node_dies(1);
    alone_locate(4, ref->number); /* waits */
    alone_tick(60 * CRTI_S);      /* the node daemon answers, whatever becomes of it */
    assert_int_equal(ref->owned.state, CRTI_OWNED_MISSING);
    alone_copied(2, CRT_OK);
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    assert_int_equal(alone_sent_count(4, CRTI_RECORD_LOCATED), 1);
    alone_drop(ref);
}

static void it_is_lost_when_the_copy_did_not_come_either(void **state)
{
    crt_ref_t *ref = alone_stored_twice(1);

    assert_int_equal(wanted(), 1);
    alone_node_dies(1);
    alone_locate(4, ref->number);
    alone_copied(2, CRT_ERR_NODE_LOST);
    alone_tick(60 * CRTI_S);
    assert_int_equal(ref->content, CRTI_CONTENT_FAILED);
    alone_drop(ref);
}

static void a_node_that_can_not_have_it_is_not_asked_at_once_again(void **state)
{
    crt_ref_t *ref = alone_stored_twice(1);

    assert_int_equal(wanted(), 1);
    alone_copied(2, CRT_ERR_STORE_FULL);
    assert_int_equal(wanted(), 2);
    assert_true(alone_avoids(ALONE_NODE(2)));
    alone_copied(3, CRT_ERR_STORE_FULL);
    assert_int_equal(wanted(), 2); /* after a while */
    alone_tick(3 * CRTI_S);
    assert_int_equal(wanted(), 3);
    alone_copied(2, CRT_OK);
    assert_int_equal(ref->owned.node_count, 2);
    alone_drop(ref);
}

static void without_another_node_it_is_tried_again_from_time_to_time(void **state)
{
    crt_ref_t *refs[3];

    for (unsigned i = 0; i < 3; i++)
        refs[i] = alone_stored_twice(1);
    assert_int_equal(wanted(), 3);
    alone_copied(0, CRT_ERR_NOT_FOUND);
    assert_int_equal(wanted(), 3);
    alone_tick(3 * CRTI_S);
    assert_int_equal(wanted(), 4);
    alone_copied(2, CRT_OK);
    for (unsigned i = 0; i < 3; i++)
        alone_drop(refs[i]);
}

static void a_question_that_could_not_be_sent_is_asked_later(void **state)
{
    crti_core_t *core = *state;
    crti_channel_t *channel = CRTI_TAKE(core->link->channel);
    crt_ref_t *ref = alone_stored_twice(1);

    alone_tick(CRTI_MS);
    core->link->channel = channel;
    assert_int_equal(alone_copies(), 0);
    assert_true(core->refs->copies_retry_ns > 0);
    assert_true(core->timer->at_ns <= core->refs->copies_retry_ns);
    alone_tick(3 * CRTI_S);
    assert_int_equal(alone_copies(), 1);
    alone_drop(ref);
}

static void a_copy_that_a_reader_made_does_not_count(void **state)
{
    crt_ref_t *ref = alone_stored_twice(1);

    alone_copy(3, ref->number, ref->more->object.number, ALONE_NODE(3));
    assert_int_equal(wanted(), 1);
    assert_false(alone_avoids(ALONE_NODE(3)));
    alone_copied(3, CRT_OK); /* it may stay there, and is kept now */
    assert_int_equal(wanted(), 1);
    assert_int_equal(ref->owned.node_count, 2);
    alone_drop(ref);
}

static void drain(crti_core_t *core, unsigned node)
{
    crti_net_lock(core->net);
    crti_remotes_drain(core, ALONE_NODE(node));
    crti_kept_copies_drain(core);
    crti_net_unlock(core->net);
}

static void
objects_on_a_node_that_is_drained_get_another_copy_and_others_do_not(void **state)
{
    crt_ref_t *refs[2];

    for (unsigned i = 0; i < 2; i++) {
        refs[i] = alone_stored_twice(1);
        assert_int_equal(wanted(), i + 1);
        alone_copied(2, CRT_OK);
    }
    drain(*state, 3);
    assert_int_equal(wanted(), 2);
    drain(*state, 2);
    assert_int_equal(wanted(), 4);
    for (unsigned i = 0; i < 2; i++)
        alone_drop(refs[i]);
}

static void numbers_of_copies_that_are_none_are_refused(void **state)
{
    static const int64_t wrong[] = {-1, 5, INT64_MAX};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        crt_ref_t *put = crt_put_with((int64_t)5, CRT_PUT_OPTIONS(.copies = wrong[i]));
        crt_ref_t *made = alone_task(CRT_TASK_OPTIONS(.copies = wrong[i]));

        assert_int_equal(put->error->user.status, CRT_ERR_INVALID);
        assert_int_equal(made->error->user.status, CRT_ERR_INVALID);
        crt_ref_drop(&put);
        crt_ref_drop(&made);
    }
}

int main(void)
{
#define COPIES_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        COPIES_TEST(a_second_copy_is_wanted_on_another_node),
        COPIES_TEST(without_the_option_none_is_wanted),
        COPIES_TEST(both_are_freed_with_the_object),
        COPIES_TEST(a_copy_that_comes_after_the_end_is_freed),
        COPIES_TEST(another_one_is_made_when_a_node_dies),
        COPIES_TEST(the_first_node_dies_while_the_copy_is_on_its_way),
        COPIES_TEST(it_is_lost_when_the_copy_did_not_come_either),
        COPIES_TEST(a_node_that_can_not_have_it_is_not_asked_at_once_again),
        COPIES_TEST(without_another_node_it_is_tried_again_from_time_to_time),
        COPIES_TEST(a_question_that_could_not_be_sent_is_asked_later),
        COPIES_TEST(a_copy_that_a_reader_made_does_not_count),
        COPIES_TEST(objects_on_a_node_that_is_drained_get_another_copy_and_others_do_not),
        COPIES_TEST(numbers_of_copies_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
