/* SPDX-License-Identifier: Apache-2.0 */
/* Objects whose last known copy is gone: who may have another one is asked, and what nobody has is
 * lost at once. runtime/core/refs/copy_query.h says why the answers are enough. */
#include <setjmp.h>
#include <stdarg.h>

#include "alone.h"

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

/* The last COPY_QUERY to process `i`: its request, and of how many objects. */
static uint64_t request_to(unsigned i, uint32_t *count_out)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_COPY_QUERY);
    crti_borrow_record_t seek;

    assert_non_null(record.data);
    assert_int_equal(crti_get_borrow(record.data, record.size, &seek), CRT_OK);
    *count_out = seek.count;
    return seek.request;
}

/* ---------------------------------------------------------------- the owner */

/* Process 2 was told where an object at node 1 is, node 1 died, and process 3 wants the object. */
static crt_ref_t *missing(void)
{
    crt_ref_t *ref = alone_stored(1);

    alone_locate(2, ref->number);
    alone_node_dies(1);
    alone_locate(3, ref->number);
    alone_tick(0);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_COPY_QUERY), 1);
    assert_int_equal(alone_sent_count(3, CRTI_RECORD_LOCATED), 0);
    return ref;
}

static void what_nobody_has_is_lost_when_all_have_answered(void **state)
{
    crt_ref_t *ref = missing();
    uint32_t count;
    uint64_t request = request_to(2, &count);

    assert_int_equal(count, 1);
    alone_sought(3, request);
    alone_tick(0);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_sought(2, request);
    alone_tick(0);
    assert_int_equal(ref->error->user.status, CRT_ERR_OBJECT_LOST);
    assert_int_equal(alone_sent_count(3, CRTI_RECORD_LOCATED), 1);
    alone_drop(ref);
}

static void word_of_a_copy_before_the_answer_saves_the_object(void **state)
{
    crt_ref_t *ref = missing();
    uint32_t count;
    uint64_t request = request_to(2, &count);

    alone_copy(2, ref->number, ref->more->object.number, ALONE_NODE(2));
    alone_sought(2, request);
    alone_sought(3, request);
    alone_tick(60 * CRTI_S);
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    assert_int_equal(alone_sent_count(3, CRTI_RECORD_LOCATED), 1);
    alone_drop(ref);
}

static void who_ends_and_whose_session_is_lost_has_answered(void **state)
{
    crt_ref_t *ref = missing();

    alone_lose(3);
    alone_tick(0);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_process_dies(2);
    alone_lose(2);
    alone_tick(0);
    assert_int_equal(ref->error->user.status, CRT_ERR_OBJECT_LOST);
    alone_drop(ref);
}

/* It may have been told of the places by either. */
static void a_process_with_two_sessions_answers_the_question_of_each(void **state)
{
    crt_ref_t *result = alone_submit(2), *ref = alone_stored(1);
    uint32_t count;
    uint64_t theirs;

    alone_locate(2, ref->number);
    alone_node_dies(1);
    alone_locate(3, ref->number);
    alone_tick(0);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_COPY_QUERY), 2);
    theirs = request_to(2, &count);
    alone_sought(3, request_to(3, &count));
    alone_sought(2, theirs - 1);
    alone_tick(0);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_sought(2, theirs);
    alone_tick(0);
    assert_int_equal(ref->content, CRTI_CONTENT_FAILED);
    alone_drop(ref);
    crt_ref_drop(&result);
}

static void an_answer_to_an_earlier_question_does_not_count(void **state)
{
    crt_ref_t *first = missing(), *second;
    uint32_t count;
    uint64_t request = request_to(2, &count);

    alone_sought(2, request);
    alone_sought(3, request);
    alone_tick(0);
    alone_drop(first);
    alone_forget();
    second = alone_stored(4);
    alone_locate(2, second->number);
    alone_node_dies(4);
    alone_locate(3, second->number);
    alone_tick(0);
    alone_sought(2, request);
    alone_sought(3, request);
    alone_tick(0);
    assert_int_equal(second->content, CRTI_CONTENT_NONE);
    alone_sought(2, request + 2);
    alone_sought(3, request + 2);
    alone_tick(0);
    assert_int_equal(second->content, CRTI_CONTENT_FAILED);
    alone_drop(second);
}

static void what_is_wanted_during_a_round_is_in_the_next(void **state)
{
    crt_ref_t *late = alone_stored(4), *first;
    uint64_t request;
    uint32_t count;

    alone_locate(2, late->number);
    first = missing();
    request = request_to(2, &count);
    alone_forget();
    alone_node_dies(4);
    alone_locate(3, late->number);
    alone_tick(0);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_COPY_QUERY), 0);
    alone_sought(2, request);
    alone_sought(3, request);
    alone_tick(0);
    assert_int_equal(first->content, CRTI_CONTENT_FAILED);
    assert_int_equal(late->content, CRTI_CONTENT_NONE);
    assert_int_equal(request_to(2, &count), request + 2);
    assert_int_equal(count, 1);
    alone_sought(2, request + 2);
    alone_sought(3, request + 2);
    alone_tick(0);
    assert_int_equal(late->content, CRTI_CONTENT_FAILED);
    alone_drop(first);
    alone_drop(late);
}

/* The copy that was found is lost before the tick that ends the search. */
static void what_is_missing_again_is_sought_again(void **state)
{
    crt_ref_t *ref = missing();
    uint32_t count;
    uint64_t first = request_to(2, &count);

    alone_sought(2, first);
    alone_copy(3, ref->number, ref->more->object.number, ALONE_NODE(6));
    alone_sought(3, first);
    alone_node_dies(6);
    alone_locate(4, ref->number);
    alone_tick(0);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    assert_int_equal(request_to(2, &count), first + 2);
    alone_sought(2, first + 2);
    alone_sought(3, first + 2);
    alone_sought(4, first + 2);
    alone_tick(0);
    assert_int_equal(ref->content, CRTI_CONTENT_FAILED);
    alone_drop(ref);
}

static void who_does_not_answer_is_not_waited_for_for_ever(void **state)
{
    crt_ref_t *ref = missing();

    alone_tick(6 * CRTI_S);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_tick(2 * CRTI_S);
    assert_int_equal(ref->error->user.status, CRT_ERR_OBJECT_LOST);
    alone_drop(ref);
}

/* A process that is stopped, of which nobody says that it has ended. */
static void who_does_not_answer_one_round_is_asked_in_the_next(void **state)
{
    crt_ref_t *first = missing(), *second;
    uint32_t count;
    uint64_t request = request_to(2, &count);

    alone_copy(3, first->number, first->more->object.number, ALONE_NODE(3));
    alone_sought(3, request);
    alone_tick(0);
    assert_int_equal(first->content, CRTI_CONTENT_STORED);
    alone_drop(first);
    alone_forget();
    second = alone_stored(4);
    alone_locate(3, second->number);
    alone_node_dies(4);
    alone_locate(3, second->number);
    alone_tick(0);
    assert_int_equal(request_to(2, &count), request + 2);
    alone_sought(3, request + 2);
    alone_tick(0);
    assert_int_equal(second->content, CRTI_CONTENT_NONE);
    alone_sought(2, request + 2);
    alone_tick(0);
    assert_int_equal(second->content, CRTI_CONTENT_FAILED);
    alone_drop(second);
}

/* Parts of it may come from others that pull it, too. */
static void a_pull_of_the_owner_itself_is_waited_for(void **state)
{
    crt_ref_t *ref = alone_stored(1);

    ref->handles++;
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_TIMED_OUT);
    assert_int_equal(alone_pulls(), 1);
    alone_node_dies(1);
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_TIMED_OUT);
    alone_tick(CRTI_S);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_pulled(false);
    alone_tick(0);
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_OBJECT_LOST);
    crt_ref_drop(&ref);
}

static void what_the_owner_itself_has_pulled_is_saved(void **state)
{
    crt_ref_t *ref = alone_stored(1);

    ref->handles++;
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_TIMED_OUT);
    alone_node_dies(1);
    assert_int_equal(crt_get_for(ref, 0, NULL), CRT_ERR_TIMED_OUT);
    alone_tick(CRTI_S);
    alone_pulled(true);
    alone_tick(60 * CRTI_S);
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    crt_ref_drop(&ref);
}

/* ---------------------------------------------------------------- who is asked */

static void who_knows_nothing_of_the_object_answers_at_once(void **state)
{
    alone_seek(1, 5, 8);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY), 0);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY_REPLY), 1);
}

/* Process 1 calls us with its object at node 3, which we begin to pull; then it seeks the
 * object. */
static void pull_and_seek(void)
{
    alone_gives(NULL, NULL);
    alone_call_with(1, 77, 1, 8, ALONE_NODE(3));
    assert_int_equal(alone_pulls(), 1);
    alone_seek(1, 5, 8);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY_REPLY), 0);
}

static void who_pulls_the_object_tells_of_the_copy_and_then_answers(void **state)
{
    pull_and_seek();
    alone_pulled(true);
    assert_true(alone_sent_before(1, CRTI_RECORD_COPY, CRTI_RECORD_COPY_REPLY));
    alone_forget();
    alone_seek(1, 6, 8); /* that word may have been lost with a session */
    assert_true(alone_sent_before(1, CRTI_RECORD_COPY, CRTI_RECORD_COPY_REPLY));
}

static void who_pulls_the_object_in_vain_answers(void **state)
{
    pull_and_seek();
    alone_pulled(false);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY), 0);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY_REPLY), 1);
}

static void a_question_that_waits_is_forgotten_with_the_next_one(void **state)
{
    pull_and_seek();
    alone_seek(1, 6, 9);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY_REPLY), 1);
    alone_pulled(false);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY_REPLY), 1);
}

static void an_owner_that_has_ended_is_not_answered(void **state)
{
    pull_and_seek();
    alone_process_dies(1);
    alone_lose(1);
    alone_pulled(false);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY_REPLY), 0);
}

/* The owner has to know of everybody who may make a copy. */
static void
a_place_that_another_one_told_is_confirmed_by_the_owner_before_it_is_pulled_from(
    void **state)
{
    alone_gives(NULL, NULL);
    alone_call_with(2, 77, 1, 8, ALONE_NODE(3));
    assert_int_equal(alone_pulls(), 0);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_LOCATE), 1);
    alone_located(1, 8, &ALONE_NODE(4), 1);
    assert_int_equal(alone_pulls(), 1);
    alone_pulled(true);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_COPY), 1);
}

static void who_asks_an_owner_that_ends_for_the_place_hears_of_its_end(void **state)
{
    crt_ref_t *ref;

    alone_gives(NULL, NULL);
    alone_call_with(2, 77, 1, 8, ALONE_NODE(3));
    ref = alone_arrived(1, 8);
    alone_process_dies(1);
    assert_int_equal(ref->error->user.status, CRT_ERR_OWNER_DIED);
}

int main(void)
{
#define SEEK_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        SEEK_TEST(what_nobody_has_is_lost_when_all_have_answered),
        SEEK_TEST(word_of_a_copy_before_the_answer_saves_the_object),
        SEEK_TEST(who_ends_and_whose_session_is_lost_has_answered),
        SEEK_TEST(a_process_with_two_sessions_answers_the_question_of_each),
        SEEK_TEST(an_answer_to_an_earlier_question_does_not_count),
        SEEK_TEST(what_is_wanted_during_a_round_is_in_the_next),
        SEEK_TEST(what_is_missing_again_is_sought_again),
        SEEK_TEST(who_does_not_answer_is_not_waited_for_for_ever),
        SEEK_TEST(who_does_not_answer_one_round_is_asked_in_the_next),
        SEEK_TEST(a_pull_of_the_owner_itself_is_waited_for),
        SEEK_TEST(what_the_owner_itself_has_pulled_is_saved),
        SEEK_TEST(who_knows_nothing_of_the_object_answers_at_once),
        SEEK_TEST(who_pulls_the_object_tells_of_the_copy_and_then_answers),
        SEEK_TEST(who_pulls_the_object_in_vain_answers),
        SEEK_TEST(a_question_that_waits_is_forgotten_with_the_next_one),
        SEEK_TEST(an_owner_that_has_ended_is_not_answered),
        SEEK_TEST(
            a_place_that_another_one_told_is_confirmed_by_the_owner_before_it_is_pulled_from),
        SEEK_TEST(who_asks_an_owner_that_ends_for_the_place_hears_of_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
