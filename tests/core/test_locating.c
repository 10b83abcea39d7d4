/* SPDX-License-Identifier: Apache-2.0 */
/* What an owner answers processes that ask where its objects are, while they take no answers: in
 * any order. locating.h says the rules. */
#include <setjmp.h>
#include <stdarg.h>

#include "alone.h"

#include <cmocka.h>

#define UNKNOWN      (UINT64_C(1) << 40)
#define SOME_MORE    65536 /* questions than there are objects, */
#define TOO_MANY     (SOME_MORE + 10)
#define NEVER_LISTEN (1 << 20) /* answers that were not acknowledged */

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

/* The form, or with an error the status, of what was answered last to process `i`. */
static int answer(unsigned i, uint64_t *number_out)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_LOCATED);
    crti_result_t result;

    assert_non_null(record.data);
    assert_int_equal(crti_get_result(record.data, record.size, number_out, &result),
                     CRT_OK);
    return result.form == CRTI_RESULT_ERROR ? (int)result.failure.status
                                            : (int)result.form;
}

static void what_a_full_window_has_no_room_for_is_answered_once_when_it_has(void **state)
{
    crt_ref_t *ref[3];
    uint64_t number;

    alone_locate(1, UNKNOWN);
    alone_forget();
    alone_fill(1);
    for (unsigned i = 0; i < 3; i++)
        ref[i] = alone_stored(3);
    for (unsigned round = 0; round < 100; round++)
        for (unsigned i = 0; i < 3; i++)
            alone_locate(1, ref[i]->number);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_LOCATED), 0);
    alone_locate(2, ref[0]->number); /* nobody else waits for that */
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_LOCATED), 1);
    alone_make_room(1);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_LOCATED), 3);
    assert_int_equal(answer(1, &number), CRTI_RESULT_STORED);
    assert_int_equal(number, ref[2]->number);
    alone_locate(1, ref[0]->number);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_LOCATED), 4);
    for (unsigned i = 0; i < 3; i++)
        alone_drop(ref[i]);
}

static void a_pending_object_that_is_asked_for_again_is_answered_once(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *pending = alone_waiting(NULL);
    uint64_t number = pending->number;

    for (unsigned i = 0; i < 1000; i++)
        alone_locate(1, number);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_LOCATED), 0);
    crti_net_lock(core->net);
    crti_ref_fail(pending, crt_raise(CRT_ERR_USER, "it has failed"));
    crti_refs_notify(core);
    crti_net_unlock(core->net);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_LOCATED), 1);
    assert_int_equal(answer(1, &number), CRT_ERR_USER);
    crt_ref_drop(&pending);
}

static void a_value_that_comes_while_the_window_is_full_is_told_later(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *pending = alone_waiting(NULL);
    uint64_t number;

    alone_locate(1, pending->number);
    alone_fill(1);
    crti_net_lock(core->net);
    crti_ref_set_inline(pending, "\0\5", 2);
    crti_refs_notify(core);
    crti_net_unlock(core->net);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_LOCATED), 0);
    alone_make_room(1);
    assert_int_equal(answer(1, &number), CRTI_RESULT_VALUE);
    crt_ref_drop(&pending);
}

static void an_object_that_is_freed_before_there_is_room_is_said_to_be(void **state)
{
    crt_ref_t *ref = alone_stored(3);
    uint64_t number = ref->number, told;

    alone_locate(1, UNKNOWN);
    alone_fill(1);
    alone_locate(1, number);
    alone_drop(ref);
    alone_forget();
    alone_make_room(1);
    assert_int_equal(answer(1, &told), CRT_ERR_OBJECT_LOST);
    assert_int_equal(told, number);
}

/* Somebody else was told of it, and may have a copy: it is not lost yet. */
static void an_object_that_is_missing_before_there_is_room_is_waited_for(void **state)
{
    crt_ref_t *ref = alone_stored(3);
    uint64_t number;

    alone_locate(2, ref->number);
    alone_locate(1, UNKNOWN);
    alone_fill(1);
    alone_locate(1, ref->number);
    alone_node_dies(3);
    alone_forget();
    alone_make_room(1);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_LOCATED), 0);
    alone_copy(2, ref->number, ref->more->object.number, ALONE_NODE(2));
    assert_int_equal(answer(1, &number), CRTI_RESULT_STORED);
    alone_drop(ref);
}

/* The numbers in the last answer to a peek of process `i`, as bits. */
static unsigned peeked(unsigned i)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_PEEKED);
    crti_reader_t reader = crti_read_peeked(record.data, record.size);
    crti_result_t result;
    unsigned bits = 0;
    uint64_t number;
    bool is_there;

    for (;;) {
        assert_int_equal(crti_next_peeked(&reader, &is_there, &number, &result), CRT_OK);
        if (!is_there)
            return bits;
        bits |= 1u << number;
    }
}

static void a_peek_is_answered_with_what_is_known_now_and_fits(void **state)
{
    crt_ref_t *pending = alone_waiting(NULL), *one = crt_put(1), *two = alone_stored(3);
    uint64_t numbers[] = {pending->number, one->number, UNKNOWN, two->number};
    unsigned known;

    assert_true(two->number < 32);
    known = 1u << one->number | 1u << two->number;
    alone_peek(1, numbers, 4);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_PEEKED), 1);
    assert_int_equal(peeked(1), known);
    alone_fill(1);
    alone_peek(1, numbers, 4); /* nobody waits for it */
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_PEEKED), 1);
    alone_make_room(1);
    alone_peek(1, numbers, 1);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_PEEKED), 1);
    crt_ref_drop(&pending);
    crt_ref_drop(&one);
    alone_drop(two);
}

static void questions_end_with_the_session_that_they_came_by(void **state)
{
    crti_core_t *core = *state;
    crt_ref_t *pending = alone_waiting(NULL), *ref = alone_stored(3);

    alone_locate(1, pending->number);
    alone_fill(1);
    alone_locate(1, ref->number);
    alone_lose(1);
    assert_true(crti_list_is_empty(&core->remotes->clients));
    assert_true(crti_list_is_empty(&pending->more->waiters));
    alone_locate(1, pending->number); /* asked anew, and open at the end */
    crt_ref_drop(&pending);
    alone_drop(ref);
}

/* Each of them would be answered; but nobody holds so many objects of a process that has one. */
static void who_asks_for_more_objects_than_there_are_is_sent_away(void **state)
{
    const crti_core_t *core = *state;
    crt_ref_t *ref = alone_stored(3);
    uint64_t number = 0;

    alone_locate(1, UNKNOWN);
    alone_locate(2, ref->number);
    alone_fill(1);
    while (number < TOO_MANY && !crti_list_is_empty(&core->remotes->clients) &&
           core->remotes->clients.next != core->remotes->clients.prev)
        alone_locate(1, UNKNOWN + ++number);
    assert_int_equal(number, SOME_MORE + 2);
    assert_string_equal(alone_aborted(1), "65537 questions are open for objects of a "
                                          "process that has 1");
    alone_locate(2, ref->number); /* is served as before */
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_LOCATED), 2);
    alone_drop(ref);
}

static void who_acknowledges_no_answer_of_a_million_is_sent_away(void **state)
{
    crt_ref_t *ref = alone_stored(3);

    alone_release(1, 1, UNKNOWN, 1);
    alone_unacknowledged(1, NEVER_LISTEN - 1);
    alone_release(1, 2, UNKNOWN, 1);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_BORROWED), 2);
    assert_null(alone_aborted(1));
    alone_release(1, 3, UNKNOWN, 1);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_BORROWED), 2);
    assert_string_equal(alone_aborted(1),
                        "it asks on and has not acknowledged 1048576 answers");
    alone_drop(ref);
}

int main(void)
{
#define LOCATING_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        LOCATING_TEST(what_a_full_window_has_no_room_for_is_answered_once_when_it_has),
        LOCATING_TEST(a_pending_object_that_is_asked_for_again_is_answered_once),
        LOCATING_TEST(a_value_that_comes_while_the_window_is_full_is_told_later),
        LOCATING_TEST(an_object_that_is_freed_before_there_is_room_is_said_to_be),
        LOCATING_TEST(an_object_that_is_missing_before_there_is_room_is_waited_for),
        LOCATING_TEST(a_peek_is_answered_with_what_is_known_now_and_fits),
        LOCATING_TEST(questions_end_with_the_session_that_they_came_by),
        LOCATING_TEST(who_asks_for_more_objects_than_there_are_is_sent_away),
        LOCATING_TEST(who_acknowledges_no_answer_of_a_million_is_sent_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
