/* SPDX-License-Identifier: Apache-2.0 */
/* Net between real processes: order, windows, waiting, ends. Strangers are in
 * test_net_hostile.c, waiting and start in test_net_wait.c. */
#include "net_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/limit.h"
#include "runtime/net/zmq_library.h"

static void echo_all_sizes(bool tcp)
{
    static const size_t sizes[] = {0, 1, 100, 4096, 8191, 8192, 70000, 5000000};
    pair_t s;
    char *data = calloc(1, 5000000);

    pair_open(&s, tcp, 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(data, (int)('0' + i), sizes[i]);
        party_send(&s.party, s.peer, 'e', data, sizes[i]);
        party_wait_count(&s.party, i + 1);
        assert_int_equal(s.party.last_size, sizes[i] + 1);
        assert_memory_equal(s.party.last + 1, data, sizes[i]);
    }
    pair_close(&s);
    free(data);
}

static void records_of_all_sizes_come_back_over_a_lane(void **state)
{
    echo_all_sizes(false);
}

static void records_of_all_sizes_come_back_over_tcp_with_curve(void **state)
{
    echo_all_sizes(true);
}

static void order_holds_under_load(void **state)
{
    pair_t s;

    pair_open(&s, false, 0);
    for (int round = 0; round < 20; round++)
        party_stream(&s.party, s.peer, 2000, (size_t)(round % 5) * 100);
    pair_close(&s);
}

/* One lost wake in all of these, and it hangs: each side spins, sleeps, rings and is rung. */
static void every_answer_wakes_whoever_waits_for_it(void **state)
{
    pair_t s;

    pair_open(&s, false, 0);
    for (size_t i = 1; i <= 100000; i++) {
        party_send(&s.party, s.peer, 'e', "x", 1);
        party_wait_count(&s.party, i);
    }
    pair_close(&s);
}

static void a_second_connect_finds_the_first_session(void **state)
{
    fixture_t f;
    child_t child;
    party_t party;
    crti_peer_t *a, *b;

    fixture_init(&f);
    child_start(&f, false, &child);
    party_start(&f, false, 0, &party);
    a = party_connect(&party, &child.address);
    b = party_connect(&party, &child.address);
    assert_ptr_equal(a, b);
    crti_peer_unref(a);
    crti_peer_unref(b);
    party_stop(&party);
    child_stop(&child);
    fixture_fini(&f);
}

static void close_delivers_everything_while_the_peer_computes(void **state)
{
    pair_t s;
    uint32_t ms = 3000;
    uint64_t begin;

    pair_open(&s, false, 0);
    party_send(&s.party, s.peer, 'b', &ms, sizeof(ms));
    for (int i = 0; i < 10; i++)
        party_send(&s.party, s.peer, 'c', "x", 1);
    begin = crti_now_ns();
    crti_net_close(s.party.net, s.peer);
    party_wait_lost(&s.party, 1);
    assert_true(crti_now_ns() - begin < ms * CRTI_MS); /* its progress thread answered */
    assert_int_equal(s.party.loss_status, CRT_OK);
    assert_int_equal(s.party.acked, 11);
    assert_true(crti_peer_is_lost(s.peer));
    child_kill(&s.child);
    pair_close(&s);
}

static void after_a_kill_the_notice_says_what_may_have_run(void **state)
{
    pair_t s;
    struct iovec part = {"c", 1};

    pair_open(&s, false, 0);
    party_send(&s.party, s.peer, 'e', "x", 1);
    party_wait_count(&s.party, 1);
    party_send(&s.party, s.peer, 'k', "", 0);
    child_stop(&s.child);
    crti_net_peer_died(s.party.net, s.child.address.process, 1, CRT_ERR_WORKER_DIED,
                       "killed");
    assert_int_equal(s.party.lost, 1);
    assert_int_equal(s.party.loss_status, CRT_ERR_WORKER_DIED);
    assert_string_equal(s.party.loss_detail, "killed");
    assert_true(s.party.acked >= 1);
    assert_int_equal(s.party.handed, 2);
    assert_int_equal(
        crti_net_send(s.party.net, s.peer, &part, 1, 0, CRTI_NET_NO_DEADLINE, NULL),
        CRT_ERR_WORKER_DIED);
    assert_string_equal(crt_error_detail(), "killed");
    pair_close(&s);
}

/* The notice comes from the node daemon and may be read before the lane is. */
static void what_a_process_had_answered_arrives_before_its_end(void **state)
{
    fixture_t f;
    child_t child;
    party_t party, other;
    crti_peer_t *peer, *of_other;

    fixture_init(&f);
    child_start(&f, false, &child);
    party_start(&f, false, 0, &party);
    peer = party_connect(&party, &child.address);
    party_send(&party, peer, 'e', "x", 1);
    party_wait_count(&party, 1);
    party_start(&f, false, 0, &other); /* its lock is always taken after the first's */
    of_other = party_connect(&other, &child.address);
    for (int i = 0; i < 100; i++)
        party_send(&party, peer, 'e', "x", 1);
    crti_net_flush(party.net);
    for (int i = 1; i <= 3; i++) { /* what is answered later comes later */
        party_send(&other, of_other, 'e', "x", 1);
        party_wait_count(&other, (size_t)i);
    }
    child_kill(&child); /* nothing of the first party is received meanwhile */
    crti_net_peer_died(party.net, child.address.process, 1, CRT_ERR_WORKER_DIED,
                       "killed");
    assert_int_equal(party.count, 101);
    assert_int_equal(party.lost, 1);
    crti_net_peer_died(other.net, child.address.process, 1, CRT_ERR_WORKER_DIED,
                       "killed");
    crti_peer_unref(peer);
    crti_peer_unref(of_other);
    party_stop(&other);
    party_stop(&party);
    fixture_fini(&f);
}

static void a_call_for_a_dead_process_never_runs_in_its_successor(void **state)
{
    fixture_t f;
    child_t old, new;
    party_t party;
    crti_peer_t *peer;
    uint64_t count;

    fixture_init(&f);
    child_start(&f, false, &old);
    child_kill(&old);
    child_start_as(&f, false, old.address.process, 2, &new); /* binds the same name */
    party_start(&f, false, 0, &party);
    peer = party_connect(&party, &old.address);
    party_send(&party, peer, 'c', "x", 1);
    party_wait_lost(&party, 1);
    assert_int_equal(party.loss_status, CRT_ERR_WORKER_DIED);
    assert_non_null(strstr(party.loss_detail, "another incarnation"));
    assert_int_equal(party.handed, 0);
    crti_peer_unref(peer);
    peer = party_connect(&party, &new.address);
    party_send(&party, peer, 'n', "", 0);
    party_wait_count(&party, 1);
    memcpy(&count, party.last, sizeof(count));
    assert_int_equal(count, 1);
    crti_peer_unref(peer);
    party_stop(&party);
    child_stop(&new);
    fixture_fini(&f);
}

static void a_peer_that_ends_cleanly_is_lost_at_once(void **state)
{
    pair_t s;

    pair_open(&s, false, 0);
    party_send(&s.party, s.peer, 'e', "x", 1);
    party_wait_count(&s.party, 1);
    crti_net_unlock(s.party.net);
    child_stop(&s.child);
    crti_net_lock(s.party.net);
    party_wait_lost(&s.party, 1);
    assert_int_equal(s.party.loss_status, CRT_ERR_CLOSED);
    pair_close(&s);
}

static void a_node_s_death_ends_all_its_sessions(void **state)
{
    fixture_t f;
    child_t child[2];
    party_t party;
    crti_peer_t *peer[2];

    fixture_init(&f);
    for (int i = 0; i < 2; i++)
        child_start(&f, true, &child[i]);
    party_start(&f, true, 0, &party);
    for (int i = 0; i < 2; i++) {
        peer[i] = party_connect(&party, &child[i].address);
        party_send(&party, peer[i], 'e', "x", 1);
    }
    party_wait_count(&party, 2);
    crti_net_node_died(party.net, f.here, CRT_ERR_NODE_LOST, "another node");
    assert_int_equal(party.lost, 0);
    crti_net_node_died(party.net, f.elsewhere, CRT_ERR_NODE_LOST, "node lost");
    assert_int_equal(party.lost, 2);
    for (int i = 0; i < 2; i++)
        crti_peer_unref(peer[i]);
    party_stop(&party);
    for (int i = 1; i >= 0; i--)
        child_stop(&child[i]);
    fixture_fini(&f);
}

static void a_full_window_refuses_or_waits_until_the_peer_consumes(void **state)
{
    pair_t s;
    char block[1001] = "h";
    struct iovec part = {block, sizeof(block) - 1};
    crt_status_t status = CRT_OK;
    int sent = 0;

    pair_open(&s, false, 10000);
    while (status == CRT_OK && sent < 100) {
        status = crti_net_send(s.party.net, s.peer, &part, 1, CRTI_SEND_TRY, 0, NULL);
        sent += status == CRT_OK;
    }
    assert_int_equal(status, CRT_ERR_BACKPRESSURE);
    assert_int_equal(sent, 10);
    assert_int_equal(crti_net_send(s.party.net, s.peer, &part, 1, 0,
                                   crti_now_ns() + 50 * CRTI_MS, NULL),
                     CRT_ERR_TIMED_OUT);
    party_send(&s.party, s.peer, 'r', "", 0); /* a control record passes */
    assert_int_equal(crti_net_send(s.party.net, s.peer, &part, 1, 0, DEADLINE, NULL),
                     CRT_OK);
    pair_close(&s);
}

static bool has_room(void *user)
{
    return ((party_t *)user)->rooms > 0;
}

static void who_was_refused_by_a_full_window_is_told_once_when_it_has_room(void **state)
{
    pair_t s;
    char block[1000] = "h";
    struct iovec part = {block, sizeof(block)};

    pair_open(&s, false, 2000);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            crti_net_send(s.party.net, s.peer, &part, 1, CRTI_SEND_TRY, 0, NULL), CRT_OK);
    assert_int_equal(crti_net_send(s.party.net, s.peer, &part, 1, CRTI_SEND_TRY, 0, NULL),
                     CRT_ERR_BACKPRESSURE);
    assert_int_equal(
        crti_net_wait(s.party.net, has_room, &s.party, crti_now_ns() + 50 * CRTI_MS),
        CRT_ERR_TIMED_OUT);
    party_send(&s.party, s.peer, 'r', "", 0);
    assert_int_equal(crti_net_wait(s.party.net, has_room, &s.party, DEADLINE), CRT_OK);
    assert_int_equal(crti_net_send(s.party.net, s.peer, &part, 1, CRTI_SEND_TRY, 0, NULL),
                     CRT_OK);
    party_stream(&s.party, s.peer, 10, 0);
    assert_int_equal(s.party.rooms, 1);
    pair_close(&s);
}

static void an_aborted_session_ends_at_once_and_the_next_one_is_new(void **state)
{
    pair_t s;

    pair_open(&s, false, 0);
    party_stream(&s.party, s.peer, 10, 0);
    party_send(&s.party, s.peer, 'e', "x", 1);
    crti_net_abort(s.party.net, s.peer, "it is mad");
    assert_int_equal(s.party.lost, 1);
    assert_int_equal(s.party.loss_status, CRT_ERR_PROTOCOL);
    assert_string_equal(s.party.loss_detail, "it is mad");
    assert_true(crti_peer_is_lost(s.peer));
    crti_peer_unref(s.peer);
    s.peer = party_connect(&s.party, &s.child.address);
    party_stream(&s.party, s.peer, 10, 0);
    pair_close(&s);
}

static void a_full_window_ends_with_the_peer(void **state)
{
    pair_t s;
    char block[1001] = "h";
    struct iovec part = {block, sizeof(block) - 1};

    pair_open(&s, false, 2000);
    party_send(&s.party, s.peer, 'e', "x", 1);
    party_wait_count(&s.party, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(crti_net_send(s.party.net, s.peer, &part, 1, 0, DEADLINE, NULL),
                         CRT_OK);
    close(s.child.lifeline); /* it leaves while we wait for room */
    s.child.lifeline = dup(0);
    assert_int_equal(crti_net_send(s.party.net, s.peer, &part, 1, 0, DEADLINE, NULL),
                     CRT_ERR_CLOSED);
    pair_close(&s);
}

static void a_record_above_the_limit_is_refused_at_the_sender(void **state)
{
    fixture_t f;
    party_t party;
    crti_peer_t *peer;
    static char byte;
    struct iovec part = {&byte, CRTI_LIMIT(record_limit) + 1};

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    peer = party_connect(&party, crti_net_address(party.net));
    assert_int_equal(crti_net_send(party.net, peer, &part, 1, 0, 0, NULL),
                     CRT_ERR_TOO_LARGE);
    part.iov_len = 0;
    assert_int_equal(crti_net_send(party.net, peer, &part, 1, 0, 0, NULL),
                     CRT_ERR_INVALID);
    crti_peer_unref(peer);
    party_stop(&party);
    fixture_fini(&f);
}

static void a_process_can_call_itself(void **state)
{
    fixture_t f;
    party_t party;
    crti_peer_t *peer;

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    peer = party_connect(&party, crti_net_address(party.net));
    party_send(&party, peer, 'c', "hello", 5);
    party_wait_count(&party, 1);
    assert_memory_equal(party.last, "chello", 6);
    crti_peer_unref(peer);
    party_stop(&party);
    fixture_fini(&f);
}

/* Each second call of libzmq is given up, as by a signal. */
static crti_zmq_api_t libzmq;

static bool gives_up(void)
{
    static unsigned calls;

    errno = EINTR;
    return ++calls % 2 != 0;
}

static int bind_to(void *socket, const char *endpoint)
{
    return gives_up() ? -1 : libzmq.bind_to(socket, endpoint);
}

static int connect_to(void *socket, const char *endpoint)
{
    return gives_up() ? -1 : libzmq.connect_to(socket, endpoint);
}

static int get(void *socket, int option, void *value, size_t *size)
{
    return option == ZMQ_EVENTS && gives_up() ? -1
                                              : libzmq.get(socket, option, value, size);
}

static int send_bytes(void *socket, const void *data, size_t size, int flags)
{
    return gives_up() ? -1 : libzmq.send_bytes(socket, data, size, flags);
}

static int msg_send(zmq_msg_t *message, void *socket, int flags)
{
    return gives_up() ? -1 : libzmq.msg_send(message, socket, flags);
}

static int msg_recv(zmq_msg_t *message, void *socket, int flags)
{
    return gives_up() ? -1 : libzmq.msg_recv(message, socket, flags);
}

static void signals_that_interrupt_libzmq_lose_nothing(void **state)
{
    fixture_t f;
    party_t party;
    crti_address_t self;
    crti_net_stats_t stats;
    crti_peer_t *peer;

    assert_int_equal(crti_zmq_library(), CRT_OK);
    libzmq = crti_zmq_api;
    crti_zmq_api.bind_to = bind_to;
    crti_zmq_api.connect_to = connect_to;
    crti_zmq_api.get = get;
    crti_zmq_api.send_bytes = send_bytes;
    crti_zmq_api.msg_send = msg_send;
    crti_zmq_api.msg_recv = msg_recv;
    fixture_init(&f);
    party_start(&f, true, 0, &party);
    self = *crti_net_address(party.net);
    self.node = f.elsewhere; /* by tcp */
    peer = party_connect(&party, &self);
    party_stream(&party, peer, 1000, 100);
    crti_net_stats(party.net, &stats);
    assert_int_equal(stats.frames_malformed, 0);
    assert_int_equal(stats.frames_resent, 0);
    crti_peer_unref(peer);
    party_stop(&party);
    fixture_fini(&f);
    crti_zmq_api = libzmq;
}

static void version_of_yesterday(int *major, int *minor, int *patch)
{
    *major = 4;
    *minor = 3;
    *patch = 2;
}

static void a_libzmq_with_known_holes_is_refused_by_its_version(void **state)
{
    assert_int_equal(crti_zmq_library(), CRT_OK);
    crti_zmq_api.version = version_of_yesterday;
    assert_int_equal(crti_zmq_library(), CRT_ERR_UNSUPPORTED);
    assert_non_null(strstr(crt_error_detail(), "libzmq 4.3.2 is installed"));
    crti_zmq_api.version = zmq_version;
    assert_int_equal(crti_zmq_library(), CRT_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_all_sizes_come_back_over_a_lane),
        cmocka_unit_test(records_of_all_sizes_come_back_over_tcp_with_curve),
        cmocka_unit_test(order_holds_under_load),
        cmocka_unit_test(every_answer_wakes_whoever_waits_for_it),
        cmocka_unit_test(a_second_connect_finds_the_first_session),
        cmocka_unit_test(close_delivers_everything_while_the_peer_computes),
        cmocka_unit_test(after_a_kill_the_notice_says_what_may_have_run),
        cmocka_unit_test(what_a_process_had_answered_arrives_before_its_end),
        cmocka_unit_test(a_call_for_a_dead_process_never_runs_in_its_successor),
        cmocka_unit_test(a_peer_that_ends_cleanly_is_lost_at_once),
        cmocka_unit_test(a_node_s_death_ends_all_its_sessions),
        cmocka_unit_test(a_full_window_refuses_or_waits_until_the_peer_consumes),
        cmocka_unit_test(who_was_refused_by_a_full_window_is_told_once_when_it_has_room),
        cmocka_unit_test(an_aborted_session_ends_at_once_and_the_next_one_is_new),
        cmocka_unit_test(a_full_window_ends_with_the_peer),
        cmocka_unit_test(a_record_above_the_limit_is_refused_at_the_sender),
        cmocka_unit_test(a_process_can_call_itself),
        cmocka_unit_test(signals_that_interrupt_libzmq_lose_nothing),
        cmocka_unit_test(a_libzmq_with_known_holes_is_refused_by_its_version),
    };

    return fixture_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
