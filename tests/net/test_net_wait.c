/* SPDX-License-Identifier: Apache-2.0 */
/* Net: who waits, who is woken, what idling costs; start, end, and too little of something. */
#include "net_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------------- waiting */

typedef struct caller {
    party_t *party;
    crti_peer_t *peer;
    size_t wants;
    crt_status_t status;
    pthread_t thread;
} caller_t;

static bool caller_is_done(void *user)
{
    const caller_t *c = user;

    return c->party->count >= c->wants;
}

static void *caller_main(void *argument)
{
    caller_t *c = argument;
    struct iovec part = {"e", 1};

    crti_net_lock(c->party->net);
    for (int i = 0; i < 200; i++) {
        c->status = crti_net_send(c->party->net, c->peer, &part, 1, 0, DEADLINE, NULL);
        c->wants = c->party->count + 1;
        if (c->status == CRT_OK)
            c->status = crti_net_wait(c->party->net, caller_is_done, c, DEADLINE);
        if (c->status != CRT_OK)
            break;
    }
    crti_net_unlock(c->party->net);
    return NULL;
}

static void many_threads_wait_and_each_gets_its_answer(void **state)
{
    fixture_t f;
    child_t child;
    party_t party;
    caller_t callers[8];
    crti_peer_t *peer;

    fixture_init(&f);
    child_start(&f, false, &child);
    party_start(&f, false, 0, &party);
    peer = party_connect(&party, &child.address);
    crti_net_unlock(party.net);
    for (int i = 0; i < 8; i++) {
        callers[i] = (caller_t){.party = &party, .peer = peer};
        pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].status, CRT_OK);
    }
    crti_net_lock(party.net);
    party_wait_count(&party, 8 * 200);
    crti_peer_unref(peer);
    party_stop(&party);
    child_stop(&child);
    fixture_fini(&f);
}

static bool never(void *user)
{
    return false;
}

static bool is_set(void *user)
{
    return *(bool *)user;
}

static void a_wait_without_an_answer_times_out(void **state)
{
    fixture_t f;
    party_t party;
    uint64_t begin = crti_now_ns();

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    assert_int_equal(crti_net_wait(party.net, never, NULL, begin + 30 * CRTI_MS),
                     CRT_ERR_TIMED_OUT);
    assert_true(crti_now_ns() - begin >= 30 * CRTI_MS);
    party_stop(&party);
    fixture_fini(&f);
}

typedef struct sleeper {
    crti_net_t *net;
    bool flag, is_in;
    crt_status_t status;
    pthread_t thread;
    pid_t id;
} sleeper_t;

static void *sleeper_main(void *argument)
{
    sleeper_t *s = argument;

    crti_net_lock(s->net);
    __atomic_store_n(&s->is_in, true,
                     __ATOMIC_RELEASE); /* pairs with the signaller's load */
    s->status = crti_net_wait(s->net, is_set, &s->flag, DEADLINE);
    __atomic_store_n(&s->is_in, false, __ATOMIC_RELEASE);
    crti_net_unlock(s->net);
    return NULL;
}

static void wake_reaches_the_token_holder_and_the_others(void **state)
{
    fixture_t f;
    party_t party;
    sleeper_t s[3];

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    for (int i = 0; i < 3; i++) {
        s[i] = (sleeper_t){.net = party.net};
        pthread_create(&s[i].thread, NULL, sleeper_main, &s[i]);
    }
    for (int i = 2; i >= 0; i--) {
        s[i].flag = true;
        crti_net_wake(party.net);
        crti_net_unlock(party.net);
        pthread_join(s[i].thread, NULL);
        assert_int_equal(s[i].status, CRT_OK);
        crti_net_lock(party.net);
    }
    party_stop(&party);
    fixture_fini(&f);
}

static void on_signal(int number)
{
}

static void a_signal_ends_no_wait_of_its_thread(void **state)
{
    enum { SIGNALS = 200 };
    const int flags[] = {0, SA_RESTART};
    fixture_t f;
    party_t party;
    sleeper_t s[2];

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    crti_net_unlock(party.net);
    for (int i = 0; i < 2; i++) {
        s[i] = (sleeper_t){.net = party.net};
        pthread_create(&s[i].thread, NULL, sleeper_main, &s[i]);
        while (!__atomic_load_n(&s[i].is_in, __ATOMIC_ACQUIRE))
            sched_yield();
    }
    for (int i = 0; i < 2 * SIGNALS; i++) {
        struct sigaction action = {.sa_handler = on_signal,
                                   .sa_flags = flags[i / SIGNALS]};

        sigaction(SIGUSR1, &action, NULL);
        pthread_kill(s[i % 2].thread, SIGUSR1);
        sched_yield();
    }
    crti_net_lock(party.net);
    for (int i = 0; i < 2; i++) {
        assert_true(s[i].is_in);
        s[i].flag = true;
    }
    crti_net_wake(party.net);
    crti_net_unlock(party.net);
    for (int i = 0; i < 2; i++) {
        pthread_join(s[i].thread, NULL);
        assert_int_equal(s[i].status, CRT_OK);
    }
    signal(SIGUSR1, SIG_DFL);
    crti_net_lock(party.net);
    party_stop(&party);
    fixture_fini(&f);
}

/* Waits until /proc says that state of a thread of the process. */
static void await_state(pid_t process, pid_t thread, char state)
{
    char path[64], line[128], *end = NULL;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, thread);
    do {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, line, sizeof(line) - 1) : -1;

        if (n <= 0)
            _exit(1);
        close(fd);
        line[n] = 0;
        end = strrchr(line, ')');
    } while (!end || end[2] != state);
}

static pid_t stop_and_continue(pid_t thread)
{
    pid_t process = getpid(), child = fork();

    if (child != 0)
        return child;
    alarm(20);
    for (int i = 0; i < 3; i++) {
        await_state(process, thread, 'S');
        kill(process, SIGSTOP);
        await_state(process, thread, 'T');
        kill(process, SIGCONT);
    }
    _exit(0);
}

static void *told_sleeper_main(void *argument)
{
    sleeper_t *s = argument;

    s->id = (pid_t)syscall(SYS_gettid);
    return sleeper_main(s);
}

static void check_that_stops_end_no_wait(void)
{
    fixture_t f;
    party_t party;
    sleeper_t s;
    int status;
    pid_t child;

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    s = (sleeper_t){.net = party.net};
    crti_net_unlock(party.net);
    pthread_create(&s.thread, NULL, told_sleeper_main, &s);
    while (!__atomic_load_n(&s.is_in, __ATOMIC_ACQUIRE))
        sched_yield();
    child = stop_and_continue(s.id);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    crti_net_lock(party.net);
    s.flag = true;
    crti_net_wake(party.net);
    crti_net_unlock(party.net);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.status, CRT_OK);
    crti_net_lock(party.net);
    party_stop(&party);
    fixture_fini(&f);
}

static void a_process_that_was_stopped_waits_on(void **state)
{
    check_that_stops_end_no_wait();
}

static void one_that_handles_signals_waits_on_too(void **state)
{
    signal(SIGUSR1, on_signal);
    check_that_stops_end_no_wait();
    signal(SIGUSR1, SIG_DFL);
}

static void set_flag(void *user, int fd, uint32_t events)
{
    char c;

    assert_int_equal(read(fd, &c, 1), 1);
    *(bool *)user = true;
}

static void sleeper_start(sleeper_t *s, crti_net_t *net)
{
    *s = (sleeper_t){.net = net};
    pthread_create(&s->thread, NULL, sleeper_main, s);
    while (!__atomic_load_n(&s->is_in, __ATOMIC_ACQUIRE))
        sched_yield();
}

/* The one who makes progress and the one who is next in line may both be done at once; the third
 * must not be left without anybody who receives for it. */
static void when_two_leave_at_once_the_third_goes_on_receiving(void **state)
{
    enum { LEAVERS = 2, ROUNDS = 300 };
    fixture_t f;
    party_t party;
    sleeper_t leaver[LEAVERS], stays;
    int fds[2];

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(crti_net_add_fd(party.net, fds[0], EPOLLIN, set_flag, &stays.flag),
                     CRT_OK);
    crti_net_unlock(party.net);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LEAVERS; i++)
            sleeper_start(&leaver[i], party.net);
        sleeper_start(&stays, party.net);
        crti_net_lock(party.net);
        for (int i = 0; i < LEAVERS; i++)
            leaver[i].flag = true;
        crti_net_wake(party.net);
        crti_net_unlock(party.net);
        for (int i = 0; i < LEAVERS; i++)
            pthread_join(leaver[i].thread, NULL);
        assert_int_equal(write(fds[1], "x", 1), 1);
        pthread_join(stays.thread, NULL);
        assert_int_equal(stays.status, CRT_OK);
    }
    crti_net_lock(party.net);
    crti_net_remove_fd(party.net, fds[0]);
    party_stop(&party);
    close(fds[0]);
    close(fds[1]);
    fixture_fini(&f);
}

static void further_descriptors_are_served_by_whoever_waits(void **state)
{
    fixture_t f;
    party_t party;
    int fds[2];

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    party_watch(&party, fds);
    assert_int_equal(write(fds[1], "x", 1), 1);
    party_wait_count(&party, 1);
    assert_int_equal(crti_net_modify_fd(party.net, fds[0], 0), CRT_OK);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(crti_net_wait(party.net, never, NULL, crti_now_ns() + 20 * CRTI_MS),
                     CRT_ERR_TIMED_OUT);
    assert_int_equal(party.count, 1);
    crti_net_remove_fd(party.net, fds[0]);
    assert_int_equal(crti_net_modify_fd(party.net, fds[0], EPOLLIN), CRT_ERR_NOT_FOUND);
    party_stop(&party);
    close(fds[0]);
    close(fds[1]);
    fixture_fini(&f);
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* While code runs that does not wait: a byte is received by somebody else. */
static void receive_while_busy(party_t *party, int fd)
{
    uint64_t deadline = DEADLINE;
    size_t before = party->count;
    bool came = false;

    crti_net_busy(party->net, true);
    crti_net_unlock(party->net);
    assert_int_equal(write(fd, "x", 1), 1);
    while (!came && crti_now_ns() < deadline) {
        crti_net_lock(party->net);
        came = party->count > before;
        crti_net_unlock(party->net);
        sched_yield();
    }
    crti_net_lock(party->net);
    crti_net_busy(party->net, false);
    assert_true(came);
}

/* How often the progress thread slept, -1 when there is none. */
static int count_sleeps(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int sleeps = -1;

    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[64], line[128];
        bool is_it = false;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", entry->d_name);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file)) {
            is_it |= strcmp(line, "Name:\tcrt-progress\n") == 0;
            if (is_it)
                sscanf(line, "voluntary_ctxt_switches: %d", &sleeps);
        }
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return sleeps;
}

typedef struct counter {
    crti_net_t *net;
    int threads; /* so many shall be left, with that which counts */
    int found;
    int sleeps; /* the most that were seen */
    bool is_done;
} counter_t;

static void *counter_main(void *argument)
{
    counter_t *c = argument;
    uint64_t deadline = DEADLINE;

    while ((c->found = count_threads()) != c->threads && crti_now_ns() < deadline) {
        int sleeps = count_sleeps();

        c->sleeps = sleeps > c->sleeps ? sleeps : c->sleeps;
        usleep(1000);
    }
    crti_net_lock(c->net);
    c->is_done = true;
    crti_net_wake(c->net);
    crti_net_unlock(c->net);
    return NULL;
}

/* Waits until the process has so many threads; whoever leaves a wait would make one. Returns how
 * often the progress thread slept. */
static int wait_threads(party_t *party, int count)
{
    counter_t c = {.net = party->net, .threads = count + 1, .sleeps = -1};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, counter_main, &c), 0);
    assert_int_equal(
        crti_net_wait(party->net, is_set, &c.is_done, DEADLINE + 20 * CRTI_S), CRT_OK);
    crti_net_unlock(party->net);
    pthread_join(thread, NULL);
    crti_net_lock(party->net);
    assert_int_equal(c.found, count + 1);
    return c.sleeps;
}

static void a_late_thread_comes_when_it_is_needed_and_goes_again(void **state)
{
    fixture_t f;
    party_t party;
    int fds[2], threads = count_threads(), sleeps;

    fixture_init(&f);
    party_start_late(&f, &party);
    party_watch(&party, fds);
    assert_int_equal(write(fds[1], "x", 1), 1);
    party_wait_count(&party, 1); /* whoever waits needs nobody else */
    assert_int_equal(count_threads(), threads);
    for (int round = 0; round < 2; round++) {
        receive_while_busy(&party, fds[1]);
        receive_while_busy(&party, fds[1]);
        assert_int_equal(count_threads(), threads + 1);
        wait_threads(&party, threads);
    }
    /* What ends at once needs nobody: the thread looks once, and ends a second later. */
    crti_net_busy(party.net, true);
    crti_net_busy(party.net, false);
    sleeps = wait_threads(&party, threads);
    assert_in_range(sleeps, 1, 6);
    /* Code that waited for long goes on: it needs the thread again. */
    crti_net_busy(party.net, true);
    wait_threads(&party, threads);
    receive_while_busy(&party, fds[1]);
    assert_int_equal(count_threads(), threads + 1);
    crti_net_busy(party.net, false);
    party_unwatch(&party, fds);
    party_stop(&party);
    fixture_fini(&f);
}

/* In half a second. ThreadSanitizer has a thread of its own that is not idle. */
#ifdef __has_feature
#    if __has_feature(thread_sanitizer)
#        define __SANITIZE_THREAD__ 1
#    endif
#endif
#ifdef __SANITIZE_THREAD__
#    define IDLE_NS (20 * CRTI_MS)
#else
#    define IDLE_NS 5000
#endif

static uint64_t cpu_of(const child_t *child)
{
    struct timespec t;
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(child->pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &t), 0);
    return (uint64_t)t.tv_sec * CRTI_S + (uint64_t)t.tv_nsec;
}

/* Its thread that idles took part in nothing for a while, then an answer was found without any
 * sleep: lanes are awake, and only that thread is left to look at them. */
static void an_answer_arrives_while_nobody_waits(void **state)
{
    pair_t s;
    uint32_t ms = 5;
    uint64_t deadline;

    pair_open(&s, false, 0);
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 1; i <= 9; i++) {
            party_send(&s.party, s.peer, 'e', "x", 1);
            party_wait_count(&s.party, round * 10 + i);
        }
        party_send(&s.party, s.peer, 'b', &ms, sizeof(ms));
        crti_net_flush(s.party.net);
        deadline = DEADLINE;
        while (s.party.count < (round + 1) * 10 && crti_now_ns() < deadline) {
            crti_net_unlock(s.party.net);
            usleep(1000);
            crti_net_lock(s.party.net);
        }
        assert_int_equal(s.party.count, (round + 1) * 10);
    }
    pair_close(&s);
}

/* The other one may be bound to another core. */
static void a_process_that_is_bound_to_one_core_of_several_spins(void **state)
{
    fixture_t f;
    child_t child;
    party_t party;
    crti_peer_t *peer;
    crti_net_stats_t stats;
    cpu_set_t before, one;

    if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
        skip();
    fixture_init(&f);
    child_start(&f, false, &child);
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &before))
            CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    party_start(&f, false, 0, &party);
    peer = party_connect(&party, &child.address);
    for (size_t i = 1; i <= 10; i++) {
        party_send(&party, peer, 'e', "x", 1);
        party_wait_count(&party, i);
    }
    crti_net_stats(party.net, &stats);
    assert_true(stats.spins > 0);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    crti_peer_unref(peer);
    party_stop(&party);
    child_stop(&child);
    fixture_fini(&f);
}

/* A thousand of them may use 1 % of a core: 10 us a second each. What the first moments after
 * the last call cost is not counted. */
static void an_idle_process_with_sessions_uses_no_processor_time(void **state)
{
    uint64_t deadline = DEADLINE, before, used;
    pair_t s;

    pair_open(&s, false, 0);
    party_stream(&s.party, s.peer, 100, 0);
    do {
        before = cpu_of(&s.child);
        crti_net_wait(s.party.net, never, NULL, crti_now_ns() + 500 * CRTI_MS);
        used = cpu_of(&s.child) - before;
    } while (used > IDLE_NS && crti_now_ns() < deadline);
    assert_true(used <= IDLE_NS);
    pair_close(&s);
}

/* ---------------------------------------------------------------- start and end */

static void the_same_process_id_twice_is_refused(void **state)
{
    fixture_t f;
    party_t party;
    crti_net_t *net = NULL;
    crti_net_config_t config = {.incarnation = 1};

    fixture_init(&f);
    party_start(&f, false, 0, &party);
    config.run_dir = f.dir;
    config.process = crti_net_address(party.net)->process;
    assert_int_equal(crti_net_new(&config, &net), CRT_ERR_EXISTS);
    assert_null(net);
    party_stop(&party);
    fixture_fini(&f);
}

static void a_run_directory_that_is_too_long_is_named(void **state)
{
    char dir[200];
    crti_net_t *net = NULL;
    crti_net_config_t config = {.run_dir = dir, .incarnation = 1};

    memset(dir, 'x', sizeof(dir) - 1);
    dir[0] = '/';
    dir[sizeof(dir) - 1] = '\0';
    assert_int_equal(crti_net_new(&config, &net), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "CRT_RUN_DIR"));
}

static void a_port_range_without_a_free_port_is_named(void **state)
{
    fixture_t f;
    party_t party;
    crti_net_t *net = NULL;
    crti_net_config_t config = {.process = {1, 1}, .ip = "127.0.0.1"};
    unsigned port;

    fixture_init(&f);
    party_start(&f, true, 0, &party);
    port = (unsigned)atoi(strchr(crti_net_address(party.net)->tcp, ':') + 1);
    config.run_dir = f.dir;
    config.cluster_key = f.key;
    config.port_low = config.port_high = (uint16_t)port;
    assert_int_equal(crti_net_new(&config, &net), CRT_ERR_IO);
    assert_non_null(strstr(crt_error_detail(), "no free port"));
    party_stop(&party);
    fixture_fini(&f);
}

/* libzmq would abort the process: neither a start nor its late start for another node may. */
static void too_few_files_are_an_error_that_says_so(void **state)
{
    crti_net_config_t config = {.process = {1, 1}, .ip = "127.0.0.1"};
    struct rlimit before, few;
    crti_net_t *net = NULL;
    crti_peer_t *peer;
    crti_address_t far;
    crt_status_t status = CRT_ERR_IO;
    fixture_t f;
    int refused = 0;

    fixture_init(&f);
    config.run_dir = f.dir;
    config.cluster_key = f.key;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    for (few.rlim_cur = 3; status != CRT_OK; few.rlim_cur++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        status = crti_net_new(&config, &net);
        assert_true(status == CRT_OK || status == CRT_ERR_IO);
        refused += status == CRT_ERR_IO;
    }
    assert_true(refused > 5);
    far = *crti_net_address(net);
    far.node = f.elsewhere;
    crti_net_lock(net);
    assert_int_equal(crti_net_connect(net, &far, &peer), CRT_ERR_IO);
    assert_non_null(strstr(crt_error_detail(), "too many open files"));
    crti_net_unlock(net);
    crti_net_free(net);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    fixture_fini(&f);
}

static void a_hundred_starts_leave_nothing_behind(void **state)
{
    fixture_t f;
    party_t party;
    int before = 0;

    fixture_init(&f);
    for (int i = 0; i < 100; i++) {
        party_start(&f, i % 2 == 0, 0, &party);
        party_stop(&party);
        if (i == 0)
            before = open_files();
    }
    assert_int_equal(open_files(), before);
    fixture_fini(&f);
}

static void a_forked_child_s_end_costs_the_parent_nothing(void **state)
{
    pair_t s;
    pid_t pid;

    pair_open(&s, false, 0);
    party_send(&s.party, s.peer, 'e', "x", 1);
    party_wait_count(&s.party, 1);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        crti_net_free(s.party.net);
        _exit(0);
    }
    child_stop(&(child_t){.pid = pid, .lifeline = dup(0)});
    party_send(&s.party, s.peer, 'e', "x", 1);
    party_wait_count(&s.party, 2);
    pair_close(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_wait_and_each_gets_its_answer),
        cmocka_unit_test(a_wait_without_an_answer_times_out),
        cmocka_unit_test(wake_reaches_the_token_holder_and_the_others),
        cmocka_unit_test(a_signal_ends_no_wait_of_its_thread),
        cmocka_unit_test(a_process_that_was_stopped_waits_on),
        cmocka_unit_test(one_that_handles_signals_waits_on_too),
        cmocka_unit_test(further_descriptors_are_served_by_whoever_waits),
        cmocka_unit_test(a_late_thread_comes_when_it_is_needed_and_goes_again),
        cmocka_unit_test(when_two_leave_at_once_the_third_goes_on_receiving),
        cmocka_unit_test(an_answer_arrives_while_nobody_waits),
        cmocka_unit_test(a_process_that_is_bound_to_one_core_of_several_spins),
        cmocka_unit_test(an_idle_process_with_sessions_uses_no_processor_time),
        cmocka_unit_test(the_same_process_id_twice_is_refused),
        cmocka_unit_test(a_run_directory_that_is_too_long_is_named),
        cmocka_unit_test(a_port_range_without_a_free_port_is_named),
        cmocka_unit_test(too_few_files_are_an_error_that_says_so),
        cmocka_unit_test(a_hundred_starts_leave_nothing_behind),
        cmocka_unit_test(a_forked_child_s_end_costs_the_parent_nothing),
    };

    return fixture_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
