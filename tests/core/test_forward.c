/* SPDX-License-Identifier: Apache-2.0 */
/* Results that are other refs, and stored: where their bytes are when the nodes that had them
 * die. */
#include <setjmp.h>
#include <stdarg.h>

#include "alone.h"

#include <cmocka.h>

/* What a round of questions is answered with, by the session it was asked on. */
#define OURS(round)   ((round) << 1)
#define THEIRS(round) ((round) << 1 | 1)

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

/* A task's result is number 50 of process 2, whose bytes are at nodes 3 and, with 2, 4. */
static crt_ref_t *forwarded(unsigned nodes)
{
    crt_ref_t *ref = alone_submit(1);

    alone_forwarded(1, ref, 2, 50);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_LOCATE), 1);
    alone_located(2, 50, (crti_id_t[]){ALONE_NODE(3), ALONE_NODE(4)}, nodes);
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    alone_forget();
    return ref;
}

/* The one node where process `i` was told that the object is. */
static crti_id_t place_told(unsigned i)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_LOCATED);
    crti_result_t result;
    uint64_t number;

    assert_non_null(record.data);
    assert_int_equal(crti_get_result(record.data, record.size, &number, &result), CRT_OK);
    assert_int_equal(result.form, CRTI_RESULT_STORED);
    assert_int_equal(result.location.node_count, 1);
    return crti_location_node(&result.location, 0);
}

static void all_places_of_the_other_ref_are_known(void **state)
{
    crt_ref_t *ref = forwarded(2);

    alone_node_dies(3);
    alone_locate(5, ref->number);
    assert_true(crti_id_equal(place_told(5), ALONE_NODE(4)));
    crt_ref_drop(&ref);
}

static void when_they_are_gone_the_owner_of_the_other_ref_says_where_it_is(void **state)
{
    crt_ref_t *ref = forwarded(1);

    alone_node_dies(3);
    alone_locate(5, ref->number);
    assert_int_equal(alone_sent_count(5, CRTI_RECORD_LOCATED), 0);
    alone_tick(0);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_LOCATE), 1);
    alone_located(2, 50, &ALONE_NODE(6), 1);
    assert_true(crti_id_equal(place_told(5), ALONE_NODE(6)));
    assert_int_equal(alone_pulls(), 0); /* nobody wants to read it here */
    crt_ref_drop(&ref);
}

static void it_is_lost_when_that_owner_says_so(void **state)
{
    crt_ref_t *ref = forwarded(1);

    alone_node_dies(3);
    alone_locate(5, ref->number);
    alone_tick(0);
    alone_sought(5, THEIRS(1));
    alone_tick(0);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_located(2, 50, NULL, 0);
    alone_sought(1, OURS(1));
    alone_sought(2, OURS(1));
    alone_tick(0);
    assert_int_equal(ref->error->user.status, CRT_ERR_OBJECT_LOST);
    crt_ref_drop(&ref);
}

static void that_owner_hears_of_copies(void **state)
{
    crt_ref_t *ref = forwarded(1);
    uint64_t number, object;
    crti_span_t record;
    crti_id_t node;

    alone_copy(5, ref->number, 0, ALONE_NODE(5));
    record = alone_sent(2, CRTI_RECORD_COPY);
    assert_non_null(record.data);
    assert_int_equal(crti_get_copy(record.data, record.size, &number, &object, &node),
                     CRT_OK);
    assert_int_equal(number, 50);
    assert_int_equal(object, 50);
    assert_true(crti_id_equal(node, ALONE_NODE(5)));
    crt_ref_drop(&ref);
}

static void who_reads_it_in_vain_asks_that_owner_and_reads_it_there(void **state)
{
    crt_ref_t *ref = forwarded(1);

    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_TIMED_OUT);
    assert_int_equal(alone_pulls(), 1);
    alone_pulled(false);
    alone_tick(CRTI_S);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_LOCATE), 1);
    alone_pulled(false); /* it was tried at the old place beside that */
    alone_located(2, 50, &ALONE_NODE(6), 1);
    alone_tick(CRTI_S);
    assert_int_equal(alone_pulls(), 3);
    alone_pulled(true);
    assert_non_null(ref->more->view.data);
    crt_ref_drop(&ref);
}

static void who_reads_what_that_owner_has_lost_hears_it_at_once(void **state)
{
    crt_ref_t *ref = forwarded(1);

    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_TIMED_OUT);
    alone_pulled(false);
    alone_tick(CRTI_S);
    alone_located(2, 50, NULL, 0);
    alone_pulled(false);
    alone_tick(CRTI_S);
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_OBJECT_LOST);
    assert_int_equal(alone_pulls(), 2);
    crt_ref_drop(&ref);
}

/* The other ref is one of ours, with a second copy. */
static void a_result_that_is_a_ref_of_ours_goes_by_its_copies(void **state)
{
    crt_ref_t *ours = alone_stored(3), *ref = alone_submit(1);

    alone_forwarded(1, ref, 0, ours->number);
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    alone_copy(4, ours->number, ours->more->object.number, ALONE_NODE(4));
    alone_node_dies(3);
    alone_locate(5, ref->number);
    alone_tick(0);
    assert_true(crti_id_equal(place_told(5), ALONE_NODE(4)));
    crt_ref_drop(&ref);
    alone_drop(ours);
}

/* All that is known of either is gone: word of a copy of ours saves both. */
static void a_result_that_is_a_ref_of_ours_is_found_with_it(void **state)
{
    crt_ref_t *ours = alone_stored(3), *ref = alone_submit(1);

    alone_forwarded(1, ref, 0, ours->number);
    alone_locate(4, ours->number);
    alone_node_dies(3);
    alone_locate(5, ref->number);
    alone_tick(0);
    assert_int_equal(alone_sent_count(5, CRTI_RECORD_LOCATED), 0);
    alone_copy(4, ours->number, ours->more->object.number, ALONE_NODE(4));
    assert_true(crti_id_equal(place_told(5), ALONE_NODE(4)));
    crt_ref_drop(&ref);
    alone_drop(ours);
}

/* Of any length: they are told in turn, not one inside the other. */
static void a_chain_of_results_is_found_with_the_last(void **state)
{
    crt_ref_t *ours = alone_stored(3), *chain[8], *before = ours;

    for (unsigned i = 0; i < 8; i++, alone_forget()) {
        chain[i] = alone_submit(1);
        alone_forwarded(1, chain[i], 0, before->number);
        before = chain[i];
    }
    alone_locate(4, ours->number);
    alone_node_dies(3);
    alone_locate(5, before->number);
    for (unsigned i = 0; i <= 8; i++) {
        alone_tick(0);
        alone_sought(1, OURS(i + 1));
        alone_sought(4, THEIRS(i + 1));
        alone_sought(5, THEIRS(i + 1));
    }
    assert_int_equal(alone_sent_count(5, CRTI_RECORD_LOCATED), 0);
    alone_copy(4, ours->number, ours->more->object.number, ALONE_NODE(4));
    assert_true(crti_id_equal(place_told(5), ALONE_NODE(4)));
    for (unsigned i = 0; i < 8; i++)
        crt_ref_drop(&chain[i]);
    alone_drop(ours);
}

static void a_result_that_is_a_ref_of_ours_is_lost_with_it(void **state)
{
    crt_ref_t *ours = alone_stored(3), *ref = alone_submit(1);

    alone_forwarded(1, ref, 0, ours->number);
    alone_locate(4, ours->number);
    alone_node_dies(3);
    alone_locate(5, ref->number);
    alone_tick(60 * CRTI_S);
    alone_tick(0);
    assert_int_equal(ours->error->user.status, CRT_ERR_OBJECT_LOST);
    assert_int_equal(ref->error->user.status, CRT_ERR_OBJECT_LOST);
    crt_ref_drop(&ref);
    alone_drop(ours);
}

static void check_deadlock(const crt_ref_t *ref)
{
    assert_int_equal(ref->content, CRTI_CONTENT_FAILED);
    assert_int_equal(ref->error->user.status, CRT_ERR_DEADLOCK);
}

static void a_result_that_is_itself_fails(void **state)
{
    crt_ref_t *ref = alone_submit(1);

    alone_forwarded(1, ref, 0, ref->number);
    check_deadlock(ref);
    crt_ref_drop(&ref);
}

static void a_result_that_is_that_of_a_call_that_waits_for_it_fails(void **state)
{
    crt_ref_t *ref = alone_submit(1), *middle = alone_waiting(ref),
              *last = alone_waiting(middle);

    alone_forwarded(1, ref, 0, last->number);
    check_deadlock(ref);
    check_deadlock(last); /* as the call before it, by its argument */
    crt_ref_drop(&ref);
    crt_ref_drop(&middle);
    crt_ref_drop(&last);
}

static void
a_result_that_is_that_of_a_call_behind_one_that_waits_for_it_fails(void **state)
{
    crt_ref_t *ref = alone_submit(1);
    crt_actor_t *actor = alone_actor();
    crt_ref_t *before = alone_queued(actor, ref), *last = alone_queued(actor, NULL);

    alone_forwarded(1, ref, 0, last->number);
    check_deadlock(ref);
    check_deadlock(before);
    assert_int_equal(last->content, CRTI_CONTENT_NONE);
    crt_ref_drop(&ref);
    crt_ref_drop(&before);
    crt_ref_drop(&last);
    crt_actor_drop(&actor);
}

static void a_result_that_is_that_of_a_call_that_waits_for_others_waits(void **state)
{
    crt_ref_t *ref = alone_submit(1);
    crt_actor_t *actor = alone_actor();
    crt_ref_t *other = alone_queued(actor, NULL), *last = alone_waiting(other),
              *behind = alone_queued(actor, ref);

    alone_forwarded(1, ref, 0, last->number);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    assert_ptr_equal(ref->more->forward, last);
    crt_ref_drop(&ref);
    crt_ref_drop(&other);
    crt_ref_drop(&last);
    crt_ref_drop(&behind);
    crt_actor_drop(&actor);
}

int main(void)
{
#define FORWARD_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        FORWARD_TEST(all_places_of_the_other_ref_are_known),
        FORWARD_TEST(when_they_are_gone_the_owner_of_the_other_ref_says_where_it_is),
        FORWARD_TEST(it_is_lost_when_that_owner_says_so),
        FORWARD_TEST(that_owner_hears_of_copies),
        FORWARD_TEST(who_reads_it_in_vain_asks_that_owner_and_reads_it_there),
        FORWARD_TEST(who_reads_what_that_owner_has_lost_hears_it_at_once),
        FORWARD_TEST(a_result_that_is_a_ref_of_ours_goes_by_its_copies),
        FORWARD_TEST(a_result_that_is_a_ref_of_ours_is_found_with_it),
        FORWARD_TEST(a_chain_of_results_is_found_with_the_last),
        FORWARD_TEST(a_result_that_is_a_ref_of_ours_is_lost_with_it),
        FORWARD_TEST(a_result_that_is_itself_fails),
        FORWARD_TEST(a_result_that_is_that_of_a_call_that_waits_for_it_fails),
        FORWARD_TEST(a_result_that_is_that_of_a_call_behind_one_that_waits_for_it_fails),
        FORWARD_TEST(a_result_that_is_that_of_a_call_that_waits_for_others_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
