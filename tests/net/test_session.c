/* SPDX-License-Identifier: Apache-2.0 */
/* Session: each arrow of its picture, one frame at a time. What it promises between them is in
 * test_session_flow.c, whole runs under every fault in tests/sim/test_session.c.
 */
#include "session_rig.h"

/* ---------------------------------------------------------------- arrows */

static void nothing_follows_closed_and_lost(void **state)
{
    for (unsigned to = 0; to < CRTI_SESSION_STATES; to++) {
        assert_false(crti_session_may_follow(CRTI_SESSION_CLOSED, to));
        assert_false(crti_session_may_follow(CRTI_SESSION_LOST, to));
    }
}

static void every_state_but_the_last_two_may_be_lost(void **state)
{
    for (unsigned from = 0; from < CRTI_SESSION_CLOSED; from++)
        assert_true(crti_session_may_follow(from, CRTI_SESSION_LOST));
}

static void greeting_opens_with_welcome_and_sends_what_waited(void **state)
{
    rig_t r;

    start(&r);
    assert_int_equal(expect(&r, CRTI_FRAME_HELLO)->greeting.to_incarnation, 3);
    assert_int_equal(send_text(&r, "a"), CRT_OK);
    assert_int_equal(send_text(&r, "b"), CRT_OK);
    crti_session_flush(&r.s, r.now);
    expect_nothing(&r);
    give(&r, welcome(ID));
    assert_int_equal(r.s.state, CRTI_SESSION_OPEN);
    assert_int_equal(expect(&r, CRTI_FRAME_DATA)->count, 2);
    expect_nothing(&r);
    finish(&r);
}

static void what_waited_leaves_in_frames_of_moderate_size(void **state)
{
    uint64_t records = 0;
    rig_t r;

    start(&r);
    r.s.config.window = 1 << 20;
    for (int i = 0; i < 300; i++)
        assert_int_equal(send_size(&r, 100, false), CRT_OK);
    assert_int_equal(send_size(&r, 20000, false), CRT_OK);
    give(&r, welcome(ID));
    expect(&r, CRTI_FRAME_HELLO);
    while (r.out_read < r.out_count) {
        const crti_frame_t *f = expect(&r, CRTI_FRAME_DATA);

        assert_int_equal(f->first, records + 1);
        assert_int_equal(f->session, ID);
        assert_true(f->body.size <= CRTI_SESSION_GATHER || f->count == 1);
        records += f->count;
    }
    assert_int_equal(records, 301);
    finish(&r);
}

static void an_initiator_without_records_confirms_the_session(void **state)
{
    rig_t r;

    start(&r);
    give(&r, welcome(ID));
    expect(&r, CRTI_FRAME_HELLO);
    assert_int_equal(expect(&r, CRTI_FRAME_ACK)->session, ID);
    finish(&r);
}

static void greeting_is_lost_when_refused(void **state)
{
    crti_frame_t refused = {.type = CRTI_FRAME_REFUSED,
                            .session = NONCE,
                            .status = CRT_ERR_WORKER_DIED,
                            .body = {"incarnation 4", 13}};
    rig_t r;

    start(&r);
    send_text(&r, "a");
    give(&r, refused);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_WORKER_DIED);
    assert_non_null(strstr(r.s.detail, "incarnation 4"));
    assert_int_equal(r.s.handed, 0);
    assert_int_equal(send_text(&r, "b"), CRT_ERR_WORKER_DIED);
    finish(&r);
}

static void greeting_repeats_hello_and_is_lost_after_30_s(void **state)
{
    rig_t r;

    start(&r);
    pass(&r, 29 * CRTI_S);
    assert_true(r.out_count >= 10 && r.out_count <= 30);
    assert_int_equal(r.ends, 0);
    pass(&r, CRTI_S);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_UNREACHABLE);
    finish(&r);
}

static void a_welcome_of_another_process_or_version_is_malformed(void **state)
{
    for (int i = 0; i < 3; i++) {
        crti_frame_t w = welcome(ID);
        rig_t r;

        start(&r);
        w.greeting.protocol += i == 0;
        w.greeting.from.low += i == 1;
        w.greeting.from_incarnation += i == 2;
        assert_int_equal(give(&r, w), CRT_ERR_PROTOCOL);
        expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_PROTOCOL);
        finish(&r);
    }
}

static void a_second_welcome_with_another_id_is_reset(void **state)
{
    rig_t r;

    open_initiator(&r);
    give(&r, welcome(ID));
    expect_nothing(&r);
    give(&r, welcome(ID + 1));
    assert_int_equal(expect(&r, CRTI_FRAME_RESET)->session, ID + 1);
    assert_int_equal(r.s.state, CRTI_SESSION_OPEN);
    finish(&r);
}

static void closing_while_greeting_still_delivers(void **state)
{
    rig_t r;

    start(&r);
    send_text(&r, "a");
    crti_session_close(&r.s, r.now);
    assert_int_equal(r.s.state, CRTI_SESSION_LEAVING);
    assert_int_equal(send_text(&r, "b"), CRT_ERR_CLOSED);
    give(&r, welcome(ID));
    assert_int_equal(r.s.state, CRTI_SESSION_DRAINING);
    give(&r, plain(CRTI_FRAME_ACK, 1));
    expect_end(&r, CRTI_SESSION_CLOSED, CRT_OK);
    expect(&r, CRTI_FRAME_HELLO);
    expect(&r, CRTI_FRAME_DATA);
    expect(&r, CRTI_FRAME_BYE);
    finish(&r);
}

static void leaving_is_lost_after_30_s(void **state)
{
    rig_t r;

    start(&r);
    crti_session_close(&r.s, r.now);
    pass(&r, 31 * CRTI_S);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_UNREACHABLE);
    finish(&r);
}

static void welcomed_opens_with_the_first_frame_that_has_the_id(void **state)
{
    crti_frame_t stale = plain(CRTI_FRAME_ACK, 0);
    rig_t r;

    accept(&r);
    assert_int_equal(expect(&r, CRTI_FRAME_WELCOME)->greeting.session, ID);
    stale.session = ID + 1;
    give(&r, stale);
    assert_int_equal(r.s.state, CRTI_SESSION_WELCOMED);
    give_data(&r, 1, "a");
    assert_int_equal(r.s.state, CRTI_SESSION_OPEN);
    assert_int_equal(r.deliveries, 1);
    finish(&r);
}

static void a_repeated_hello_gets_the_same_welcome(void **state)
{
    crti_frame_t hello = {.type = CRTI_FRAME_HELLO, .session = NONCE};
    rig_t r;

    accept(&r);
    expect(&r, CRTI_FRAME_WELCOME);
    give(&r, hello); /* by somebody else */
    expect_nothing(&r);
    hello.greeting.from = (crti_id_t){2, 2};
    give(&r, hello);
    assert_int_equal(expect(&r, CRTI_FRAME_WELCOME)->greeting.session, ID);
    finish(&r);
}

static void welcomed_is_lost_without_confirmation(void **state)
{
    rig_t r;

    accept(&r);
    pass(&r, 31 * CRTI_S);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_UNREACHABLE);
    finish(&r);
    accept(&r);
    crti_session_close(&r.s, r.now);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_CLOSED);
    finish(&r);
}

static void open_drains_and_closes(void **state)
{
    rig_t r;

    open_initiator(&r);
    send_text(&r, "a");
    send_text(&r, "b"); /* gathered */
    crti_session_close(&r.s, r.now);
    assert_int_equal(r.s.state, CRTI_SESSION_DRAINING);
    expect(&r, CRTI_FRAME_DATA);
    expect(&r, CRTI_FRAME_DATA);
    give(&r, plain(CRTI_FRAME_ACK, 1));
    assert_int_equal(r.s.state, CRTI_SESSION_DRAINING);
    give(&r, plain(CRTI_FRAME_ACK, 2));
    expect(&r, CRTI_FRAME_BYE);
    expect_end(&r, CRTI_SESSION_CLOSED, CRT_OK);
    finish(&r);
}

static void bye_closes_when_nothing_is_open_and_loses_else(void **state)
{
    rig_t r;

    open_acceptor(&r);
    give(&r, plain(CRTI_FRAME_BYE, 0));
    expect_end(&r, CRTI_SESSION_CLOSED, CRT_ERR_CLOSED);
    finish(&r);
    open_acceptor(&r);
    send_text(&r, "a");
    give(&r, plain(CRTI_FRAME_BYE, 0));
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_CLOSED);
    finish(&r);
    open_acceptor(&r);
    send_text(&r, "a");
    crti_session_close(&r.s, r.now);
    give(&r, plain(CRTI_FRAME_BYE, 0));
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_CLOSED);
    finish(&r);
}

static void a_reset_loses_the_session_it_names(void **state)
{
    crti_frame_t other = plain(CRTI_FRAME_RESET, 0);
    rig_t r;

    open_initiator(&r);
    other.session = ID + 1;
    give(&r, other);
    assert_int_equal(r.ends, 0);
    give(&r, plain(CRTI_FRAME_RESET, 0));
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_CLOSED);
    finish(&r);
}

static void a_death_notice_tells_the_peer_in_case_it_lives(void **state)
{
    rig_t r;

    open_initiator(&r);
    crti_session_fail(&r.s, CRT_ERR_WORKER_DIED, "killed");
    expect(&r, CRTI_FRAME_RESET);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_WORKER_DIED);
    assert_string_equal(r.s.detail, "killed");
    crti_session_fail(&r.s, CRT_ERR_NODE_LOST, "again");
    assert_int_equal(r.ends, 1);
    finish(&r);
}

static void impossible_acknowledgements_and_credits_are_malformed(void **state)
{
    crti_frame_t credit = plain(CRTI_FRAME_ACK, 1);
    rig_t r;

    open_initiator(&r);
    send_text(&r, "a");
    assert_int_equal(give(&r, plain(CRTI_FRAME_ACK, 2)), CRT_ERR_PROTOCOL);
    expect_end(&r, CRTI_SESSION_LOST, CRT_ERR_PROTOCOL);
    finish(&r);
    open_initiator(&r);
    send_text(&r, "a");
    credit.credit = 2;
    assert_int_equal(give(&r, credit), CRT_ERR_PROTOCOL);
    finish(&r);
}

static void a_hello_for_another_incarnation_or_version_is_refused(void **state)
{
    crti_frame_t hello = {.type = CRTI_FRAME_HELLO};

    hello.greeting = (crti_greeting_t){
        .protocol = CRTI_PROTOCOL_VERSION, .to = {1, 1}, .to_incarnation = 4};
    assert_int_equal(crti_session_check_hello(&hello, (crti_id_t){1, 1}, 4), CRT_OK);
    assert_int_equal(crti_session_check_hello(&hello, (crti_id_t){1, 1}, 5),
                     CRT_ERR_WORKER_DIED);
    assert_int_equal(crti_session_check_hello(&hello, (crti_id_t){1, 2}, 4),
                     CRT_ERR_WORKER_DIED);
    hello.greeting.protocol++;
    assert_int_equal(crti_session_check_hello(&hello, (crti_id_t){1, 1}, 4),
                     CRT_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_follows_closed_and_lost),
        cmocka_unit_test(every_state_but_the_last_two_may_be_lost),
        cmocka_unit_test(greeting_opens_with_welcome_and_sends_what_waited),
        cmocka_unit_test(what_waited_leaves_in_frames_of_moderate_size),
        cmocka_unit_test(an_initiator_without_records_confirms_the_session),
        cmocka_unit_test(greeting_is_lost_when_refused),
        cmocka_unit_test(greeting_repeats_hello_and_is_lost_after_30_s),
        cmocka_unit_test(a_welcome_of_another_process_or_version_is_malformed),
        cmocka_unit_test(a_second_welcome_with_another_id_is_reset),
        cmocka_unit_test(closing_while_greeting_still_delivers),
        cmocka_unit_test(leaving_is_lost_after_30_s),
        cmocka_unit_test(welcomed_opens_with_the_first_frame_that_has_the_id),
        cmocka_unit_test(a_repeated_hello_gets_the_same_welcome),
        cmocka_unit_test(welcomed_is_lost_without_confirmation),
        cmocka_unit_test(open_drains_and_closes),
        cmocka_unit_test(bye_closes_when_nothing_is_open_and_loses_else),
        cmocka_unit_test(a_reset_loses_the_session_it_names),
        cmocka_unit_test(a_death_notice_tells_the_peer_in_case_it_lives),
        cmocka_unit_test(impossible_acknowledgements_and_credits_are_malformed),
        cmocka_unit_test(a_hello_for_another_incarnation_or_version_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
