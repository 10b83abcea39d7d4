/* SPDX-License-Identifier: Apache-2.0 */
/* Net: how the progress thread and those who wait hand the token to each other, and what of it
 * costs nothing. They look into the net's struct: what is to be seen from outside is a few
 * microseconds. */
#include "net_fixture.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
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

/* ---------------------------------------------------------------- long waits beside short ones */

#define SLEEPERS 8

/* A thread that waits until it is told to end. */
typedef struct sleeper {
    crti_net_t *net;
    uint64_t deadline;
    bool is_over;
    crt_status_t status;
    pid_t id;
    pthread_t thread;
} sleeper_t;

static bool sleeper_is_over(void *user)
{
    return ((sleeper_t *)user)->is_over;
}

static void *sleeper_main(void *argument)
{
    sleeper_t *s = argument;

    crti_net_lock(s->net);
    s->id = (pid_t)syscall(SYS_gettid);
    s->status = crti_net_wait(s->net, sleeper_is_over, s, s->deadline);
    crti_net_unlock(s->net);
    return NULL;
}

static bool has_token_for_long(const crti_progress_t *p, const sleeper_t *s)
{
    const crti_progress_waiter_t *holder = p->token;

    return holder && holder->user == s && p->sleeping == holder &&
           crti_now_ns() > holder->slept_at + CRTI_MS;
}

/* With the lock held. It takes the token from those that came before. */
static void sleeper_start(sleeper_t *s, crti_net_t *net, uint64_t deadline)
{
    uint64_t end = DEADLINE;

    *s = (sleeper_t){.net = net, .deadline = deadline};
    assert_int_equal(pthread_create(&s->thread, NULL, sleeper_main, s), 0);
    while (!has_token_for_long(&net->progress, s) && crti_now_ns() < end) {
        crti_net_unlock(net);
        usleep(1000);
        crti_net_lock(net);
    }
    assert_true(has_token_for_long(&net->progress, s));
}

static void sleeper_join(sleeper_t *s, crt_status_t status)
{
    crti_net_unlock(s->net);
    pthread_join(s->thread, NULL);
    crti_net_lock(s->net);
    assert_int_equal(s->status, status);
}

static void sleeper_end(sleeper_t *s)
{
    s->is_over = true;
    crti_net_wake(s->net);
    sleeper_join(s, CRT_OK);
}

/* How often the thread has gone to sleep: as often it was woken. */
static long count_sleeps(const sleeper_t *s)
{
    char path[64], line[128];
    long count = -1;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/status", s->id);
    f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
            break;
    fclose(f);
    return count;
}

#define PATIENCE_NS (200 * CRTI_MS)

/* Calls for a thread that waits for the answers: each is made when that thread sleeps, since an
 * answer that comes before wakes whichever thread sleeps. On a busy machine that thread may have
 * tried in vain to take the token, and never sleeps with it. */
typedef struct caller {
    pair_t *pair;
    const sleeper_t *sleeper;
    int calls;
    pthread_t thread;
} caller_t;

static bool another_sleeps(const crti_progress_t *p, const sleeper_t *s)
{
    return p->token && p->token != &p->self && p->token->user != s &&
           p->sleeping == p->token && !p->spin.is_on;
}

static void *caller_main(void *argument)
{
    caller_t *c = argument;
    party_t *party = &c->pair->party;
    uint64_t end = DEADLINE + 60 * CRTI_S;

    crti_net_lock(party->net);
    for (int i = 0; i < c->calls; i++) {
        uint64_t tries_end = crti_now_ns() + PATIENCE_NS;
        size_t count = party->count;

        while (!another_sleeps(&party->net->progress, c->sleeper) &&
               crti_now_ns() < tries_end) {
            crti_net_unlock(party->net);
            usleep(500);
            crti_net_lock(party->net);
        }
        party_send(party, c->pair->peer, 'e', "x", 1);
        crti_net_flush(party->net);
        while (party->count == count && crti_now_ns() < end) {
            crti_net_unlock(party->net);
            usleep(500);
            crti_net_lock(party->net);
        }
    }
    crti_net_unlock(party->net);
    return NULL;
}

/* It was woken for each answer to wake the thread that waited for it. */
static void a_short_wait_beside_a_long_one_wakes_no_thread_but_its_own(void **state)
{
    enum { CALLS = 100, FEW = CALLS / 5 };
    pair_t s;
    sleeper_t sleeper;
    caller_t caller = {.pair = &s, .sleeper = &sleeper, .calls = CALLS};
    long sleeps;

    pair_open(&s, false, 0);
    sleeper_start(&sleeper, s.party.net, DEADLINE + 60 * CRTI_S);
    sleeps = count_sleeps(&sleeper);
    assert_int_equal(pthread_create(&caller.thread, NULL, caller_main, &caller), 0);
    for (size_t i = 1; i <= CALLS; i++)
        party_wait_count(&s.party, i);
    assert_in_range(count_sleeps(&sleeper) - sleeps, 0, FEW);
    crti_net_unlock(s.party.net);
    pthread_join(caller.thread, NULL);
    crti_net_lock(s.party.net);
    sleeper_end(&sleeper);
    pair_close(&s);
}

static void after_a_short_wait_the_long_one_goes_on_receiving(void **state)
{
    pair_t s;
    sleeper_t sleeper;

    pair_open(&s, false, 0);
    sleeper_start(&sleeper, s.party.net, DEADLINE);
    for (int i = 0; i < 50; i++) {
        party_send(&s.party, s.peer, 'e', "x", 1);
        party_wait_count(&s.party, s.party.count + 1);
        assert_int_equal(s.party.net->progress.displaced_count, 0);
        receive_outside(&s.party, s.peer);
    }
    sleeper_end(&sleeper);
    pair_close(&s);
}

/* All but the last have lost the token while they slept in epoll. On a busy machine one may lose it
 * before it is awake: then all begin anew. */
static void start_displaced(sleeper_t *s, int count, crti_net_t *net)
{
    for (uint64_t end = DEADLINE;;) {
        for (int i = 0; i < count; i++)
            sleeper_start(&s[i], net, end);
        if (net->progress.displaced_count == count - 1)
            return;
        for (int i = 0; i < count; i++)
            sleeper_end(&s[i]); /* fails behind the deadline */
    }
}

static void long_waits_whose_token_was_taken_end_in_any_order(void **state)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    fixture_t f;
    party_t party;
    sleeper_t s[3];

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        start_displaced(s, 3, party.net);
        for (int k = 0; k < 3; k++)
            sleeper_end(&s[orders[i][k]]);
        assert_int_equal(party.net->progress.displaced_count, 0);
    }
    party_stop(&party);
    fixture_fini(&f);
}

static void a_long_wait_whose_token_was_taken_times_out(void **state)
{
    fixture_t f;
    party_t party;
    sleeper_t first, second;

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    sleeper_start(&first, party.net, crti_now_ns() + CRTI_S);
    sleeper_start(&second, party.net, DEADLINE);
    sleeper_join(&first, CRT_ERR_TIMED_OUT);
    sleeper_end(&second);
    party_stop(&party);
    fixture_fini(&f);
}

/* More than may sleep in epoll at once, which end all together beside short waits. */
static void many_long_waits_beside_short_ones_all_end(void **state)
{
    pair_t s;
    sleeper_t sleepers[SLEEPERS];

    pair_open(&s, false, 0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < SLEEPERS; i++) {
            sleepers[i] =
                (sleeper_t){.net = s.party.net, .deadline = DEADLINE + 60 * CRTI_S};
            assert_int_equal(
                pthread_create(&sleepers[i].thread, NULL, sleeper_main, &sleepers[i]), 0);
            party_send(&s.party, s.peer, 'e', "x", 1);
            party_wait_count(&s.party, s.party.count + 1);
            receive_outside(&s.party, s.peer);
        }
        for (int i = 0; i < SLEEPERS; i++)
            sleepers[i].is_over = true;
        party_send(&s.party, s.peer, 'e', "x", 1);
        party_wait_count(&s.party, s.party.count + 1);
        crti_net_wake(s.party.net);
        for (int i = 0; i < SLEEPERS; i++)
            sleeper_join(&sleepers[i], CRT_OK);
        assert_int_equal(s.party.net->progress.displaced_count, 0);
    }
    pair_close(&s);
}

/* ---------------------------------------------------------------- input without end */

/* Lanes that have input at each look. */
typedef struct busy {
    crti_progress_t progress;
    crti_source_t source;
    int pumps, heard, expired;
} busy_t;

static void do_nothing(void *user)
{
}

static bool pump_busy(void *user)
{
    ((busy_t *)user)->pumps++;
    return true;
}

static void expire_busy(void *user)
{
    ((busy_t *)user)->expired++;
}

static uint64_t deadline_busy(void *user)
{
    return crti_now_ns();
}

static void hear_busy(crti_source_t *source, uint32_t events)
{
    CRTI_CONTAINER(source, busy_t, source)->heard++;
}

static bool has_heard_and_expired(void *user)
{
    const busy_t *busy = user;

    return busy->pumps > 100000 || (busy->heard > 0 && busy->expired > 0);
}

static void a_thread_that_always_has_input_looks_at_descriptors_and_the_time(void **state)
{
    static const crti_progress_ops_t ops = {.flush = do_nothing,
                                            .pump = pump_busy,
                                            .rescan = do_nothing,
                                            .expire = expire_busy,
                                            .deadline = deadline_busy,
                                            .broken = do_nothing};
    busy_t busy = {.source = {.on_ready = hear_busy}};
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(crti_progress_init(&busy.progress, &ops, &busy), CRT_OK);
    busy.source.fd = fds[0];
    assert_int_equal(crti_progress_add(&busy.progress, &busy.source, EPOLLIN), CRT_OK);
    pthread_mutex_lock(&busy.progress.lock);
    assert_int_equal(
        crti_progress_wait(&busy.progress, has_heard_and_expired, &busy, DEADLINE),
        CRT_OK);
    pthread_mutex_unlock(&busy.progress.lock);
    assert_true(busy.heard > 0 && busy.expired > 0);
    crti_progress_stop(&busy.progress);
    crti_progress_fini(&busy.progress);
    close(fds[0]);
    close(fds[1]);
}

/* ---------------------------------------------------------------- the time of what a spin saw */

typedef struct spinner {
    crti_progress_t progress;
    uint64_t word, flushed_ns, began_ns, first_ns, second_ns;
    int pumps;
} spinner_t;

/* The turn that follows a spin begins so much later. */
static void flush_slowly(void *user)
{
    spinner_t *s = user;
    uint64_t end = crti_now_ns() + CRTI_MS;

    while ((s->flushed_ns = crti_now_ns()) < end) {
    }
}

static bool pump_spinner(void *user)
{
    spinner_t *s = user;

    if (s->pumps++ != 1)
        return s->pumps > 1; /* the first finds nothing, and it spins */
    s->began_ns = s->flushed_ns;
    s->first_ns = crti_progress_now(&s->progress);
    s->second_ns = crti_progress_now(&s->progress);
    return true;
}

static size_t changed_word(void *user, crti_progress_word_t *words, size_t max)
{
    spinner_t *s = user;

    words[0] = (crti_progress_word_t){.word = &s->word, .seen = s->word + 1};
    return 1;
}

static bool has_read_time(void *user)
{
    return ((spinner_t *)user)->second_ns > 0;
}

static void what_a_spin_saw_has_the_time_of_that_look_once(void **state)
{
    static const crti_progress_ops_t ops = {.flush = flush_slowly,
                                            .pump = pump_spinner,
                                            .words = changed_word,
                                            .rescan = do_nothing,
                                            .expire = do_nothing,
                                            .deadline = deadline_busy,
                                            .broken = do_nothing};
    spinner_t s = {.word = 1};
    uint64_t began = crti_now_ns();

    if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
        skip(); /* nobody spins */
    assert_int_equal(crti_progress_init(&s.progress, &ops, &s), CRT_OK);
    pthread_mutex_lock(&s.progress.lock);
    assert_int_equal(crti_progress_wait(&s.progress, has_read_time, &s, DEADLINE),
                     CRT_OK);
    pthread_mutex_unlock(&s.progress.lock);
    assert_true(s.first_ns >= began && s.first_ns < s.began_ns);
    assert_true(s.second_ns >= s.began_ns);
    crti_progress_stop(&s.progress);
    crti_progress_fini(&s.progress);
}

/* ---------------------------------------------------------------- many ports */

/* A port with an answer for a waiter at each look. */
typedef struct talker {
    crti_port_t port;
    int looks;
} talker_t;

static int looks_wanted, looks_had;

static bool drain_talker(crti_port_t *port)
{
    CRTI_CONTAINER(port, talker_t, port)->looks++;
    looks_had++;
    return true;
}

static bool had_a_look(void *user)
{
    return looks_had >= looks_wanted;
}

static void waits_that_one_port_ends_at_once_do_not_starve_the_others(void **state)
{
    static const crti_transport_t transport = {.drain = drain_talker};
    talker_t talkers[3];
    fixture_t f;
    party_t party;

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    for (int i = 0; i < 3; i++) {
        talkers[i] = (talker_t){.port = {.net = party.net, .transport = &transport}};
        crti_list_append(&party.net->active, &talkers[i].port.active);
    }
    for (int i = 0; i < 30; i++) {
        looks_wanted = looks_had + 1;
        assert_int_equal(crti_net_wait(party.net, had_a_look, NULL, DEADLINE), CRT_OK);
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(talkers[i].looks, looks_had / 3, looks_had / 3 + 1);
        crti_list_remove(&talkers[i].port.active);
    }
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
        cmocka_unit_test(a_short_wait_beside_a_long_one_wakes_no_thread_but_its_own),
        cmocka_unit_test(after_a_short_wait_the_long_one_goes_on_receiving),
        cmocka_unit_test(long_waits_whose_token_was_taken_end_in_any_order),
        cmocka_unit_test(a_long_wait_whose_token_was_taken_times_out),
        cmocka_unit_test(many_long_waits_beside_short_ones_all_end),
        cmocka_unit_test(
            a_thread_that_always_has_input_looks_at_descriptors_and_the_time),
        cmocka_unit_test(what_a_spin_saw_has_the_time_of_that_look_once),
        cmocka_unit_test(waits_that_one_port_ends_at_once_do_not_starve_the_others),
    };

    return fixture_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
