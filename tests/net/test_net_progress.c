/* SPDX-License-Identifier: Apache-2.0 */
/* Net: how the progress thread and those who wait hand the token to each other, and what of it
 * costs nothing. They look into the net's struct: what is to be seen from outside is a few
 * microseconds. */
#include "net_fixture.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "runtime/net/net_int.h"

static bool never(void *user)
{
    return false;
}

/* The thread sleeps and nobody waits: it gets the lock now and then. */
static void wait_for_state(party_t *party, crti_progress_state_t state)
{
    const crti_progress_t *p = &party->net->progress;
    uint64_t deadline = DEADLINE;

    while ((p->state != state || p->sleeping != &p->self) && crti_now_ns() < deadline) {
        crti_net_unlock(party->net);
        usleep(1000);
        crti_net_lock(party->net);
    }
    assert_int_equal(p->state, state);
}

/* A record that comes in some milliseconds, while this thread is outside of the net. */
static void receive_outside(party_t *party, crti_peer_t *peer)
{
    uint64_t deadline = DEADLINE;
    size_t wanted = party->count + 1;
    uint32_t ms = 5;

    party_send(party, peer, 'b', &ms, sizeof(ms));
    crti_net_flush(party->net);
    while (party->count < wanted && crti_now_ns() < deadline) {
        crti_net_unlock(party->net);
        usleep(1000);
        crti_net_lock(party->net);
    }
    assert_int_equal(party->count, wanted);
}

/* Such a call comes after a pause: nothing is woken for it, no timer is set, and the thread, which
 * sleeps on and knows of nothing, hears what comes next. */
static void
who_leaves_after_a_single_call_hands_the_token_back_without_a_word(void **state)
{
    pair_t s;
    uint64_t deadline = DEADLINE;
    int handed_back = 0;

    pair_open(&s, false, 0);
    /* On a busy machine the answer often comes so late that the thread has taken part. */
    while (handed_back < 5 && crti_now_ns() < deadline) {
        const crti_progress_t *p = &s.party.net->progress;
        uint64_t turnover;

        wait_for_state(&s.party, CRTI_PROGRESS_POLLING);
        crti_net_unlock(s.party.net);
        usleep(10000);
        crti_net_lock(s.party.net);
        turnover = p->turnover;
        party_send(&s.party, s.peer, 'e', "x", 1);
        party_wait_count(&s.party, s.party.count + 1);
        /* Once for taking it and once for leaving: else the thread was awake, and took part. */
        if (p->state == CRTI_PROGRESS_POLLING && p->turnover == turnover + 2 &&
            p->token == &p->self) {
            assert_ptr_equal(p->sleeping, &p->self);
            assert_true(crti_list_is_empty(&s.party.net->active));
            handed_back++;
        }
        receive_outside(&s.party, s.peer);
    }
    assert_int_equal(handed_back, 5);
    pair_close(&s);
}

/* A worker that is called now and then: a timer set by each call would cost it more than all else
 * that it does for the call. */
static void
a_late_thread_that_was_often_needed_is_told_nothing_after_a_pause(void **state)
{
    fixture_t f;
    party_t party;
    int fds[2];

    fixture_init(&f);
    party_start_late(&f, &party);
    party_watch(&party, fds);
    crti_net_busy(party.net, true);
    wait_for_state(&party, CRTI_PROGRESS_POLLING); /* code runs, and it does the rest */
    crti_net_busy(party.net, false);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(write(fds[1], "x", 1), 1);
        party_wait_count(&party, party.count + 1);
    }
    assert_int_equal(crti_net_wait(party.net, never, NULL, crti_now_ns() + 300 * CRTI_MS),
                     CRT_ERR_TIMED_OUT);
    assert_int_not_equal(party.net->progress.state, CRTI_PROGRESS_TICKING);
    party_unwatch(&party, fds);
    party_stop(&party);
    fixture_fini(&f);
}

/* What a wait saw of the thread when it had slept, with the lock that it needs to change that. */
typedef struct nap {
    party_t *party;
    size_t target;
    bool is_resting;
} nap_t;

static bool nap_has_ended(void *user)
{
    nap_t *nap = user;

    nap->is_resting |= nap->party->net->progress.state == CRTI_PROGRESS_RESTING;
    return nap->party->count >= nap->target;
}

/* How many of so many calls, each after a sleep with the token, made the thread rest. */
static int count_rests(party_t *party, const int fds[2], int calls)
{
    int rests = 0;

    for (int i = 0; i < calls; i++) {
        nap_t nap = {.party = party, .target = party->count + 1};

        assert_int_equal(write(fds[1], "x", 1), 1);
        assert_int_equal(crti_net_wait(party->net, nap_has_ended, &nap, DEADLINE),
                         CRT_OK);
        rests += nap.is_resting;
    }
    return rests;
}

/* Of thousands of workers that are called once no thread wakes for a tick. In a loop of calls that
 * would be two system calls in each. */
static void the_first_calls_of_a_worker_send_its_late_thread_to_rest(void **state)
{
    const int many = 100;
    fixture_t f;
    party_t party;
    int fds[2], rests;

    fixture_init(&f);
    party_start_late(&f, &party);
    party_watch(&party, fds);
    crti_net_busy(party.net, true); /* makes the thread, which ticks */
    crti_net_busy(party.net, false);
    assert_int_equal(party.net->progress.state, CRTI_PROGRESS_TICKING);
    assert_int_equal(count_rests(&party, fds, 3), 3);
    rests = count_rests(&party, fds, many);
    assert_true(rests > 0 && rests < many / 2);
    party_unwatch(&party, fds);
    party_stop(&party);
    fixture_fini(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            who_leaves_after_a_single_call_hands_the_token_back_without_a_word),
        cmocka_unit_test(
            a_late_thread_that_was_often_needed_is_told_nothing_after_a_pause),
        cmocka_unit_test(the_first_calls_of_a_worker_send_its_late_thread_to_rest),
    };

    return fixture_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
