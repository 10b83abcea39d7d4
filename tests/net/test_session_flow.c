/* SPDX-License-Identifier: Apache-2.0 */
/* Session: order and exactly once, probes, when frames leave, the window. */
#include "session_rig.h"

/* ---------------------------------------------------------------- order, once */

static void a_repeated_frame_is_delivered_once_and_acknowledged_again(void **state)
{
    rig_t r;

    open_acceptor(&r);
    give_data(&r, 1, "ab");
    give_data(&r, 1, "ab");
    assert_memory_equal(r.delivered, "ab", 2);
    assert_int_equal(r.deliveries, 2);
    pass(&r, 1);
    assert_int_equal(expect(&r, CRTI_FRAME_ACK)->ack, 2);
    assert_int_equal(r.counts.frames_duplicate, 1);
    finish(&r);
}

static void an_overlapping_frame_delivers_its_new_part(void **state)
{
    rig_t r;

    open_acceptor(&r);
    give_data(&r, 1, "ab");
    give_data(&r, 2, "bcd");
    assert_int_equal(r.deliveries, 4);
    assert_memory_equal(r.delivered, "abcd", 4);
    finish(&r);
}

static void a_gap_is_reported_once_and_nothing_behind_it_is_delivered(void **state)
{
    rig_t r;

    open_acceptor(&r);
    give_data(&r, 1, "a");
    give_data(&r, 3, "c");
    give_data(&r, 4, "d");
    assert_int_equal(r.deliveries, 1);
    assert_int_equal(expect(&r, CRTI_FRAME_NACK)->ack, 1);
    expect_nothing(&r);
    give_data(&r, 2, "b");
    give_data(&r, 3, "c");
    assert_int_equal(r.deliveries, 3);
    finish(&r);
}

static void a_nack_sends_again_from_there(void **state)
{
    rig_t r;

    open_initiator(&r);
    for (int i = 0; i < 3; i++) {
        send_text(&r, "a");
        crti_session_flush(&r.s, r.now);
        assert_int_equal(expect(&r, CRTI_FRAME_DATA)->first, i + 1);
    }
    give(&r, plain(CRTI_FRAME_NACK, 1));
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->first, 2);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->first, 3);
    give(&r, plain(CRTI_FRAME_NACK,
                   1)); /* the same complaint, while the answer is on its way */
    expect_nothing(&r);
    assert_int_equal(r.counts.frames_resent, 2);
    finish(&r);
}

static void silence_is_probed_and_the_answer_shows_what_is_missing(void **state)
{
    crti_frame_t answer = plain(CRTI_FRAME_ACK, 0);
    rig_t r;

    open_initiator(&r);
    send_text(&r, "a");
    expect(&r, CRTI_FRAME_DATA);
    pass(&r, 250 * CRTI_MS);
    answer.first = expect(&r, CRTI_FRAME_PROBE)->first;
    expect_nothing(&r);
    give(&r, answer);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->first, 1);
    give(&r, plain(CRTI_FRAME_ACK, 1));
    pass(&r, 20 * CRTI_S);
    expect_nothing(&r);
    finish(&r);
}

static void a_probe_is_answered_with_its_number(void **state)
{
    crti_frame_t probe = plain(CRTI_FRAME_PROBE, 0);
    rig_t r;

    open_acceptor(&r);
    give_data(&r, 1, "a");
    probe.first = 7;
    give(&r, probe);
    assert_int_equal(r.out[r.out_read].frame.first, 7);
    assert_int_equal(expect(&r, CRTI_FRAME_ACK)->ack, 1);
    finish(&r);
}

static void unanswered_records_make_it_unreachable_after_30_s(void **state)
{
    rig_t r;

    open_initiator(&r);
    pass(&r, 100 * CRTI_S); /* nothing is outstanding: no limit */
    assert_int_equal(r.ends, 0);
    send_text(&r, "a");
    send_text(&r, "b");
    pass(&r, 29 * CRTI_S);
    assert_int_equal(r.ends, 0);
    pass(&r, 2 * CRTI_S);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_UNREACHABLE);
    assert_int_equal(r.s.acked, 0);
    assert_int_equal(r.s.handed, 1); /* the second was only gathered: it did not run */
    finish(&r);
}

static void a_watched_session_is_probed_and_lost_in_silence(void **state)
{
    rig_t r;

    open_initiator(&r);
    crti_session_watch(&r.s, 1, r.now);
    pass(&r, 9 * CRTI_S);
    expect_nothing(&r);
    pass(&r, 2 * CRTI_S);
    expect(&r, CRTI_FRAME_PROBE);
    pass(&r, 20 * CRTI_S);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_UNREACHABLE);
    finish(&r);
    open_initiator(&r);
    crti_session_watch(&r.s, 1, r.now);
    crti_session_watch(&r.s, -1, r.now);
    pass(&r, 100 * CRTI_S);
    expect_nothing(&r);
    finish(&r);
}

/* What it asks for by control records is answered by such, which wait for no window. */
static void
a_peer_that_goes_on_asking_and_acknowledges_nothing_is_lost_after_30_s(void **state)
{
    crti_frame_t ask = plain(CRTI_FRAME_DATA, 0);
    unsigned char body[5];
    rig_t r;

    crti_frame_encode_size(1, true, body);
    body[4] = 'a';
    ask.count = 1;
    ask.body = crti_span(body, sizeof(body));
    open_acceptor(&r);
    for (ask.first = 1; ask.first < 60 && r.ends == 0; ask.first++) {
        if (give(&r, ask) == CRT_OK)
            assert_int_equal(send_size(&r, 100, true), CRT_OK);
        pass(&r, CRTI_S);
    }
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_PROTOCOL);
    assert_in_range(ask.first, 31, 33);
    finish(&r);
}

static void a_peer_that_acknowledges_late_but_something_stays(void **state)
{
    rig_t r;

    open_acceptor(&r);
    give_data(&r, 1, "a");
    for (uint64_t i = 1; i <= 4; i++) {
        send_text(&r, "b");
        send_text(&r, "c");
        crti_session_flush(&r.s, r.now);
        for (int s = 0; s < 20; s++) {
            give(&r, plain(CRTI_FRAME_PROBE, 2 * i - 2));
            pass(&r, CRTI_S);
        }
        give(&r, plain(CRTI_FRAME_ACK, 2 * i));
        pass(&r, 40 * CRTI_S); /* nothing is open */
    }
    assert_int_equal(r.ends, 0);
    finish(&r);
}

/* What came meanwhile was sent before the record arrived there. */
static void who_was_stopped_itself_takes_nobody_for_deaf(void **state)
{
    rig_t r;

    open_acceptor(&r);
    give_data(&r, 1, "a");
    send_text(&r, "b");
    crti_session_flush(&r.s, r.now);
    give(&r, plain(CRTI_FRAME_PROBE, 0));
    r.now += 40 * CRTI_S;
    give(&r, plain(CRTI_FRAME_PROBE, 0));
    assert_int_equal(r.ends, 0);
    give(&r, plain(CRTI_FRAME_ACK, 1));
    assert_int_equal(r.s.acked, 1);
    finish(&r);
}

static void without_a_way_nothing_is_handed_and_the_next_sign_sends_it(void **state)
{
    crti_frame_t answer = plain(CRTI_FRAME_ACK, 0);
    rig_t r;

    open_acceptor(&r);
    r.no_route = true;
    send_text(&r, "a");
    assert_int_equal(r.s.handed, 0);
    pass(&r, 250 * CRTI_MS);
    answer.first = expect(&r, CRTI_FRAME_PROBE)->first;
    r.no_route = false;
    give(&r, answer);
    expect(&r, CRTI_FRAME_DATA);
    assert_int_equal(r.s.handed, 1);
    finish(&r);
}

/* ---------------------------------------------------------------- when frames leave */

static void an_acknowledgement_waits_25_ms_for_company(void **state)
{
    rig_t r;

    open_acceptor(&r);
    give_data(&r, 1, "a");
    expect_nothing(&r);
    pass(&r, 24 * CRTI_MS);
    expect_nothing(&r);
    pass(&r, CRTI_MS);
    assert_int_equal(expect(&r, CRTI_FRAME_ACK)->ack, 1);
    give_data(&r, 2, "b");
    send_text(&r, "reply");
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->ack, 2);
    give(&r, plain(CRTI_FRAME_ACK, 1));
    pass(&r, CRTI_S);
    expect_nothing(&r);
    finish(&r);
}

static void the_first_record_leaves_at_once_and_the_others_gather(void **state)
{
    rig_t r;

    open_initiator(&r);
    send_text(&r, "a");
    expect(&r, CRTI_FRAME_DATA);
    send_text(&r, "b");
    send_text(&r, "c");
    expect_nothing(&r);
    give(&r, plain(CRTI_FRAME_ACK, 1));
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->count, 2);
    send_text(&r, "d");
    crti_session_flush(&r.s, r.now);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->first, 4);
    finish(&r);
}

static void a_full_frame_and_a_large_record_leave_at_once(void **state)
{
    rig_t r;

    open_initiator(&r);
    r.s.config.window = 1 << 20;
    send_text(&r, "a");
    expect(&r, CRTI_FRAME_DATA);
    for (int i = 0; i < 9; i++)
        send_size(&r, 1000, false);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->count, 8);
    expect_nothing(&r);
    send_size(&r, 10000, false);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->first, 10);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->first, 11);
    finish(&r);
}

static void a_peer_that_has_taken_all_gets_short_frames_to_work_on(void **state)
{
    enum {
        SIZE = 27 + CRTI_FRAME_RECORD,
        SHORT = CRTI_SESSION_GATHER_IDLE / SIZE,
        FULL = CRTI_SESSION_GATHER / SIZE
    };
    rig_t r;

    open_initiator(&r);
    r.s.config.window = 1 << 20;
    r.peer_is_idle = true;
    for (int i = 0; i < 1 + 2 * SHORT; i++)
        send_size(&r, SIZE - CRTI_FRAME_RECORD, false);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->count, 1);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->count, SHORT);
    expect_nothing(&r);
    r.peer_is_idle = false; /* it has still to do: one frame with all costs it less */
    for (int i = 0; i < FULL; i++)
        send_size(&r, SIZE - CRTI_FRAME_RECORD, false);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->count, FULL);
    expect_nothing(&r);
    r.peer_is_idle = true;
    send_size(&r, CRTI_SESSION_GATHER_IDLE, false);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->count, SHORT);
    expect_nothing(&r);
    finish(&r);
}

/* ---------------------------------------------------------------- window */

/* With what CURVE and ZMTP add they would else take two calls of the system on each side. */
static void
what_gathers_while_nothing_is_acknowledged_fills_libzmq_s_buffer_and_no_more(void **state)
{
    enum { BUFFER = 8192, ADDED = 42, RECORD = 27, LEFT = 200 };
    rig_t r;

    open_initiator(&r);
    r.s.config.window = 1 << 20;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(send_size(&r, RECORD, false), CRT_OK);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->count, 1);
    for (int i = 0; i < 3; i++) {
        size_t size = expect(&r, CRTI_FRAME_DATA)->body.size + CRTI_FRAME_HEADER + ADDED;

        assert_in_range(size, BUFFER - LEFT, BUFFER);
    }
    finish(&r);
}

static void the_window_refuses_until_the_peer_consumes(void **state)
{
    crti_frame_t ack = plain(CRTI_FRAME_ACK, 2);
    rig_t r;

    open_initiator(&r);
    assert_int_equal(send_size(&r, 600, false), CRT_OK);
    assert_int_equal(send_size(&r, 500, false), CRT_ERR_BACKPRESSURE);
    assert_int_equal(send_size(&r, 400, false), CRT_OK);
    assert_int_equal(send_size(&r, 5000, true), CRT_OK); /* control passes */
    crti_session_flush(&r.s, r.now);
    give(&r, ack); /* delivered, not consumed */
    assert_int_equal(send_size(&r, 1, false), CRT_ERR_BACKPRESSURE);
    ack.credit = 600;
    give(&r, ack);
    assert_int_equal(send_size(&r, 600, false), CRT_OK);
    finish(&r);
}

/* Else the window would bound nothing: what is not acknowledged is kept. */
static void credit_comes_with_the_acknowledgement_of_what_was_consumed(void **state)
{
    crti_frame_t ack = plain(CRTI_FRAME_ACK, 1);
    rig_t r;

    open_initiator(&r);
    assert_int_equal(send_size(&r, 600, false), CRT_OK);
    assert_int_equal(send_size(&r, 100, false), CRT_OK);
    crti_session_flush(&r.s, r.now);
    assert_int_equal(send_size(&r, 200, false), CRT_OK);
    ack.credit =
        700; /* half of a frame may have been delivered: so exactly nobody counts */
    assert_int_equal(give(&r, ack), CRT_OK);
    ack.credit = 701;
    assert_int_equal(give(&r, ack), CRT_ERR_PROTOCOL);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_PROTOCOL);
    finish(&r);
}

static void a_record_above_the_window_goes_alone(void **state)
{
    rig_t r;

    open_initiator(&r);
    assert_int_equal(send_size(&r, 5000, false), CRT_OK);
    assert_int_equal(send_size(&r, 1, false), CRT_ERR_BACKPRESSURE);
    assert_int_equal(send_size(&r, 20001, true), CRT_ERR_TOO_LARGE);
    assert_int_equal(send_size(&r, 0, true), CRT_ERR_INVALID);
    finish(&r);
}

static void what_is_held_gives_no_credit_before_its_release(void **state)
{
    rig_t r;

    open_acceptor(&r);
    r.hold = 1;
    give_data(&r, 1, "abc");
    pass(&r, 30 * CRTI_MS);
    assert_int_equal(expect(&r, CRTI_FRAME_ACK)->credit, 0);
    crti_session_release(&r.s, 1, r.now);
    crti_session_release(&r.s, 2, r.now);
    expect_nothing(&r);
    pass(&r, 30 * CRTI_MS);
    assert_int_equal(expect(&r, CRTI_FRAME_ACK)->credit, 3);
    finish(&r);
}

static void a_quarter_of_the_window_is_told_at_once(void **state)
{
    rig_t r;

    open_acceptor(&r);
    r.s.peer_window = 8;
    give_data(&r, 1, "abc");
    assert_int_equal(expect(&r, CRTI_FRAME_ACK)->credit, 3);
    finish(&r);
}

/* Control records give no credit, and their sender keeps them until they are acknowledged. */
static void a_quarter_of_a_window_of_control_records_is_acknowledged_at_once(void **state)
{
    crti_frame_t frame = plain(CRTI_FRAME_DATA, 0);
    unsigned char body[4 + WINDOW / 4] = {0};
    rig_t r;

    crti_frame_encode_size(sizeof(body) - 4, true, body);
    frame.first = frame.count = 1;
    frame.body = crti_span(body, sizeof(body));
    open_acceptor(&r);
    r.s.config.is_steady = true; /* else it would wait for a second */
    give(&r, frame);
    expect_nothing(&r); /* just that quarter */
    frame.first = 2;
    give(&r, frame);
    assert_int_equal(expect(&r, CRTI_FRAME_ACK)->ack, 2);
    frame.first = 3;
    give(&r, frame);
    expect_nothing(&r);
    finish(&r);
}

static void a_full_window_is_asked_about_since_credit_may_have_been_lost(void **state)
{
    crti_frame_t answer = plain(CRTI_FRAME_ACK, 1);
    rig_t r;

    open_initiator(&r);
    assert_int_equal(send_size(&r, 1000, false), CRT_OK);
    expect(&r, CRTI_FRAME_DATA);
    give(&r, answer); /* delivered, not consumed */
    pass(&r, 5 * CRTI_S);
    expect_nothing(&r); /* nobody wanted to send */
    assert_int_equal(send_size(&r, 1, false), CRT_ERR_BACKPRESSURE);
    for (int i = 0; i < 30; i++) { /* a slow consumer, who answers */
        pass(&r, 2 * CRTI_S + 300 * CRTI_MS);
        answer.first = expect(&r, CRTI_FRAME_PROBE)->first;
        give(&r, answer);
    }
    assert_int_equal(r.ends, 0);
    assert_true(r.out_count < 40);
    answer.credit = 1000;
    give(&r, answer);
    pass(&r, 100 * CRTI_S);
    assert_true(r.out_count < 40);
    assert_int_equal(send_size(&r, 1, false), CRT_OK);
    finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeated_frame_is_delivered_once_and_acknowledged_again),
        cmocka_unit_test(an_overlapping_frame_delivers_its_new_part),
        cmocka_unit_test(a_gap_is_reported_once_and_nothing_behind_it_is_delivered),
        cmocka_unit_test(a_nack_sends_again_from_there),
        cmocka_unit_test(silence_is_probed_and_the_answer_shows_what_is_missing),
        cmocka_unit_test(a_probe_is_answered_with_its_number),
        cmocka_unit_test(unanswered_records_make_it_unreachable_after_30_s),
        cmocka_unit_test(a_watched_session_is_probed_and_lost_in_silence),
        cmocka_unit_test(
            a_peer_that_goes_on_asking_and_acknowledges_nothing_is_lost_after_30_s),
        cmocka_unit_test(who_was_stopped_itself_takes_nobody_for_deaf),
        cmocka_unit_test(a_peer_that_acknowledges_late_but_something_stays),
        cmocka_unit_test(without_a_way_nothing_is_handed_and_the_next_sign_sends_it),
        cmocka_unit_test(an_acknowledgement_waits_25_ms_for_company),
        cmocka_unit_test(the_first_record_leaves_at_once_and_the_others_gather),
        cmocka_unit_test(a_full_frame_and_a_large_record_leave_at_once),
        cmocka_unit_test(a_peer_that_has_taken_all_gets_short_frames_to_work_on),
        cmocka_unit_test(
            what_gathers_while_nothing_is_acknowledged_fills_libzmq_s_buffer_and_no_more),
        cmocka_unit_test(the_window_refuses_until_the_peer_consumes),
        cmocka_unit_test(credit_comes_with_the_acknowledgement_of_what_was_consumed),
        cmocka_unit_test(a_record_above_the_window_goes_alone),
        cmocka_unit_test(what_is_held_gives_no_credit_before_its_release),
        cmocka_unit_test(a_quarter_of_the_window_is_told_at_once),
        cmocka_unit_test(
            a_quarter_of_a_window_of_control_records_is_acknowledged_at_once),
        cmocka_unit_test(a_full_window_is_asked_about_since_credit_may_have_been_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
