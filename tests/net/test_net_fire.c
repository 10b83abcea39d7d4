/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions under fire, with real sockets and processes: connections are cut in the middle of
 * messages, held back, and go on with late bytes; processes are killed; endpoints go to others.
 * Each record has a number, the receiver writes down what it was given, and what the sender is told
 * (answered, did not run, may have run) is compared with that.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "forwarder.h"
#include "net_fixture.h"

#define RECORDS 1200
#define LONGEST 6000

typedef struct scene {
    fixture_t f;
    party_t party;
    journal_t *journal;
    child_t child;
    forwarder_t *forwarder;
    crti_peer_t *peer;
    uint64_t sent;
} scene_t;

static uint64_t random_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Numbered from 0; answered with a copy. */
static crt_status_t send_numbered(scene_t *s, size_t extra)
{
    static char data[9 + LONGEST] = {'j'};
    struct iovec part = {data, 9 + extra};
    uint64_t number = s->sent;
    crt_status_t status;

    memcpy(data + 1, &number, sizeof(number));
    status = crti_net_send(s->party.net, s->peer, &part, 1, 0, DEADLINE, NULL);
    if (status == CRT_OK)
        s->sent++;
    return status;
}

static void send_many(scene_t *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(send_numbered(s, 0), CRT_OK);
}

static void open_scene(scene_t *s, bool tcp)
{
    *s = (scene_t){0};
    fixture_init(&s->f);
    s->journal = journal_open(&s->f);
    party_start(&s->f, tcp, 0, &s->party);
    child_start(&s->f, tcp, &s->child);
}

/* The way there leads through the forwarder. */
static void forward(scene_t *s, const forwarder_faults_t *faults)
{
    crti_address_t address;

    s->forwarder = forwarder_start(&s->child.address, faults, &address);
    s->peer = party_connect(&s->party, &address);
}

static void close_scene(scene_t *s)
{
    crti_peer_unref(s->peer);
    party_stop(&s->party);
    if (s->forwarder)
        forwarder_stop(s->forwarder);
    journal_close(s->journal);
    fixture_fini(&s->f);
}

/* With its socket, as its node would: another one may take its place. */
static void kill_child(child_t *child)
{
    child_kill(child);
    unlink(child->address.ipc);
}

/* ---------------------------------------------------------------- what is true of all */

/* What the journal has is 0, 1, 2, ..., by that incarnation, and nothing else; how many. */
static uint64_t delivered(const scene_t *s, uint64_t incarnation)
{
    uint64_t count = atomic_load(&s->journal->count);

    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(s->journal->entry[i], incarnation << 32 | i);
    return count;
}

/* The session is lost; records and numbers: record 1 has number 0. */
static void claims_are_true(const scene_t *s, uint64_t incarnation)
{
    uint64_t ran = delivered(s, incarnation);

    assert_int_equal(s->party.lost, 1);
    assert_true(s->party.acked >=
                s->party.count);        /* an answer acknowledges its question */
    assert_true(ran >= s->party.acked); /* what was said to have been delivered */
    assert_true(ran <=
                s->party.handed); /* what was said never to have left did not run */
    assert_true(s->party.handed <= s->sent);
    assert_false(s->party.out_of_order);
}

/* ---------------------------------------------------------------- a bad network */

static void under_faults(const forwarder_faults_t *faults)
{
    uint64_t random = faults->seed;
    crti_net_stats_t stats;
    scene_t s;

    open_scene(&s, true);
    forward(&s, faults);
    for (unsigned i = 0; i < RECORDS; i++) {
        assert_int_equal(send_numbered(&s, random_of(&random) % LONGEST), CRT_OK);
        if (random_of(&random) % 8 == 0) /* sometimes alone, sometimes many in flight */
            party_wait_count(&s.party, s.sent - random_of(&random) % (s.sent / 4 + 1));
    }
    party_wait_count(&s.party, RECORDS);
    assert_false(s.party.out_of_order);
    assert_int_equal(s.party.count, RECORDS);
    assert_int_equal(s.party.lost, 0);
    assert_int_equal(delivered(&s, 1), RECORDS);
    crti_net_stats(s.party.net, &stats);
    print_message("seed %llu: %u cuts, %llu frames sent again\n",
                  (unsigned long long)faults->seed, forwarder_cuts(s.forwarder),
                  (unsigned long long)stats.frames_resent);
    assert_true(faults->cut_bytes == 0 || forwarder_cuts(s.forwarder) > 2);
    child_stop(&s.child);
    close_scene(&s);
}

static void cuts_in_the_middle_of_messages_lose_repeat_and_reorder_nothing(void **state)
{
    under_faults(&(forwarder_faults_t){.seed = 1, .cut_bytes = 600000});
    under_faults(&(forwarder_faults_t){.seed = 2, .cut_bytes = 600000});
}

static void bytes_that_come_after_the_next_connection_run_nothing_twice(void **state)
{
    under_faults(&(forwarder_faults_t){.seed = 3, .cut_bytes = 600000, .late = true});
    under_faults(&(forwarder_faults_t){
        .seed = 4, .cut_bytes = 600000, .delay_ms = 15, .late = true});
}

static void a_slow_network_changes_nothing_but_time(void **state)
{
    under_faults(&(forwarder_faults_t){.seed = 5, .delay_ms = 30});
}

static void a_session_that_closes_under_fire_has_delivered_everything(void **state)
{
    scene_t s;

    open_scene(&s, true);
    forward(&s, &(forwarder_faults_t){.seed = 6, .cut_bytes = 300000, .late = true});
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(send_numbered(&s, LONGEST), CRT_OK);
    crti_net_close(s.party.net, s.peer);
    party_wait_lost(&s.party, 1);
    assert_int_equal(s.party.loss_status, CRT_OK);
    assert_int_equal(delivered(&s, 1), 300);
    child_stop(&s.child);
    close_scene(&s);
}

/* ---------------------------------------------------------------- endpoints of others */

/* The connection breaks, and behind the same port is somebody else from now on. */
static void taken_over(bool same_process, uint64_t incarnation, uint64_t by)
{
    scene_t s;
    child_t other;
    uint64_t ran;

    open_scene(&s, true);
    child_stop(&s.child);
    child_start_as(&s.f, true, crti_id_random(), incarnation, &s.child);
    forward(&s, &(forwarder_faults_t){.seed = 7});
    send_many(&s, 50);
    party_wait_count(&s.party, 50);
    kill_child(&s.child);
    child_start_as(&s.f, true, same_process ? s.child.address.process : crti_id_random(),
                   by, &other);
    forwarder_aim(s.forwarder, &other.address);
    forwarder_cut(s.forwarder);
    send_many(&s, 50);
    party_wait_lost(&s.party, 1);
    assert_int_equal(s.party.loss_status, CRT_ERR_CLOSED);
    ran = delivered(&s, incarnation); /* none by the other */
    assert_int_equal(ran, 50);
    claims_are_true(&s, incarnation);
    assert_int_not_equal(send_numbered(&s, 0), CRT_OK);
    child_stop(&other);
    close_scene(&s);
}

static void another_process_at_the_endpoint_gets_nothing_of_an_open_session(void **state)
{
    taken_over(false, 1, 1);
}

static void another_incarnation_at_the_endpoint_gets_nothing_of_it(void **state)
{
    taken_over(true, 1, 2);
    taken_over(true, 2, 1); /* nor an older one */
}

/* It was dialed, and before it answers another one has its place. */
static void what_waits_for_a_process_that_never_answered_did_not_run(void **state)
{
    crti_address_t address;
    scene_t s;
    child_t other;

    open_scene(&s, true);
    address = s.child.address;
    kill_child(&s.child);
    s.forwarder = forwarder_start(&address, &(forwarder_faults_t){.seed = 8}, &address);
    s.peer = party_connect(&s.party, &address);
    send_many(&s, 20); /* nobody is there */
    child_start_as(&s.f, true, s.child.address.process, 2, &other);
    forwarder_aim(s.forwarder, &other.address);
    party_wait_lost(&s.party, 1);
    assert_int_equal(s.party.loss_status, CRT_ERR_WORKER_DIED);
    assert_int_equal(s.party.handed, 0);
    assert_int_equal(delivered(&s, 2), 0);
    claims_are_true(&s, 2);
    child_stop(&other);
    close_scene(&s);
}

/* ---------------------------------------------------------------- processes that die */

/* Killed somewhere among the records, by a network or by a lane; then another incarnation is
 * there. */
static void killed_among_calls(bool tcp, uint64_t seed)
{
    uint64_t random = seed, until;
    child_t next;
    scene_t s;

    open_scene(&s, tcp);
    if (tcp)
        forward(&s, &(forwarder_faults_t){.seed = seed, .delay_ms = 2});
    else
        s.peer = party_connect(&s.party, &s.child.address);
    send_many(&s, 1);
    party_wait_count(&s.party, 1);
    until = 1 + random_of(&random) % 1500;
    for (unsigned i = 0; i < 2000; i++) {
        send_many(&s, 1);
        if (i == until) {
            party_wait_count(&s.party, random_of(&random) % i); /* it is at work */
            kill(s.child.pid, SIGKILL);
        }
    }
    kill_child(&s.child);
    child_start_as(&s.f, tcp, s.child.address.process, 2, &next);
    if (tcp) {
        forwarder_aim(s.forwarder, &next.address);
        forwarder_cut(s.forwarder);
    } else { /* the node daemon's word */
        send_many(&s, 20);
        crti_net_peer_died(s.party.net, s.child.address.process, 1, CRT_ERR_WORKER_DIED,
                           "killed");
    }
    party_wait_lost(&s.party, 1);
    claims_are_true(&s, 1);
    print_message("%s: %llu sent, %llu answered, %llu delivered for sure, %llu ran, %llu "
                  "may have run\n",
                  tcp ? "tcp" : "lane", (unsigned long long)s.sent,
                  (unsigned long long)s.party.count, (unsigned long long)s.party.acked,
                  (unsigned long long)atomic_load(&s.journal->count),
                  (unsigned long long)s.party.handed);
    child_stop(&next);
    close_scene(&s);
}

static void what_is_said_of_calls_to_a_killed_process_is_true_over_a_lane(void **state)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        killed_among_calls(false, seed);
}

static void what_is_said_of_calls_to_a_killed_process_is_true_over_tcp(void **state)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        killed_among_calls(true, seed);
}

/* ---------------------------------------------------------------- two transports */

/* A session has one transport for life. A process that is called by a lane first and over tcp then
 * (or the other way) sees the records of the second after all of the first. */
static void another_transport_is_taken_when_the_first_has_drained(void **state)
{
    crti_address_t by_lane, by_tcp;
    scene_t s;

    open_scene(&s, true);
    by_lane = by_tcp = s.child.address;
    by_lane.node = s.f.here;
    for (int turn = 0; turn < 6; turn++) {
        s.peer = party_connect(&s.party, turn % 2 ? &by_tcp : &by_lane);
        send_many(&s, 400);
        crti_net_close(s.party.net, s.peer);
        party_wait_lost(&s.party, turn + 1);
        assert_int_equal(s.party.loss_status, CRT_OK);
        assert_int_equal(delivered(&s, 1), s.sent);
        crti_peer_unref(s.peer);
    }
    s.peer = NULL;
    child_stop(&s.child);
    close_scene(&s);
}

static void every_record_comes_once_and_in_order_across_reconnects(void **state)
{
    crti_net_stats_t stats;
    crti_address_t address;
    crti_peer_t *peer;
    forwarder_faults_t faults = {0};
    forwarder_t *forwarder;
    fixture_t f;
    child_t child;
    party_t party;
    char data[8 + 200] = {0};
    uint64_t count;

    fixture_init(&f);
    child_start(&f, true, &child);
    forwarder = forwarder_start(&child.address, &faults, &address);
    party_start(&f, true, 0, &party);
    peer = party_connect(&party, &address);
    party_stream(&party, peer, 10, 0);
    party.next_number = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        memcpy(data, &i, sizeof(i));
        party_send(&party, peer, 'e', data, sizeof(data));
        if (i % 5000 == 2500) {
            party_wait_count(&party,
                             10 + i - 2000); /* something is on its way both ways */
            forwarder_cut(forwarder);
        }
    }
    party_wait_count(&party, 10 + 20000);
    assert_false(party.out_of_order);
    assert_int_equal(party.count, 10 + 20000);
    party_send(&party, peer, 'n', "", 0);
    party_wait_count(&party, 10 + 20000 + 1);
    memcpy(&count, party.last, sizeof(count));
    assert_int_equal(count, 10 + 20000 + 1); /* each ran once */
    assert_int_equal(party.lost, 0);
    crti_net_stats(party.net, &stats);
    print_message("%llu frames sent again\n", (unsigned long long)stats.frames_resent);
    crti_peer_unref(peer);
    party_stop(&party);
    forwarder_stop(forwarder);
    child_stop(&child);
    fixture_fini(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_comes_once_and_in_order_across_reconnects),
        cmocka_unit_test(cuts_in_the_middle_of_messages_lose_repeat_and_reorder_nothing),
        cmocka_unit_test(bytes_that_come_after_the_next_connection_run_nothing_twice),
        cmocka_unit_test(a_slow_network_changes_nothing_but_time),
        cmocka_unit_test(a_session_that_closes_under_fire_has_delivered_everything),
        cmocka_unit_test(another_process_at_the_endpoint_gets_nothing_of_an_open_session),
        cmocka_unit_test(another_incarnation_at_the_endpoint_gets_nothing_of_it),
        cmocka_unit_test(what_waits_for_a_process_that_never_answered_did_not_run),
        cmocka_unit_test(what_is_said_of_calls_to_a_killed_process_is_true_over_a_lane),
        cmocka_unit_test(what_is_said_of_calls_to_a_killed_process_is_true_over_tcp),
        cmocka_unit_test(another_transport_is_taken_when_the_first_has_drained),
    };

    return fixture_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
