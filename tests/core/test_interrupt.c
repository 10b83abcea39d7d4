/* SPDX-License-Identifier: Apache-2.0 */
/* Signals: waits go on after a handler, and end by crt_interrupt. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"

/* ------------------------------------------------------------------ the program */

static crt_status_t nap_run(crt_call_t *call)
{
    int64_t most_ms;

    CRT_TRY(crt_args(call, &most_ms));
    for (int64_t ms = 0; ms < most_ms && !crt_cancelled(call); ms += 10)
        usleep(10000);
    return crt_return(call, most_ms);
}
static const crt_task_t nap = CRT_TASK(.name = "nap", .run = nap_run, .signature = "int");

static crt_status_t echo_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number);
}
static const crt_task_t echo =
    CRT_TASK(.name = "echo", .run = echo_run, .signature = "int");

static crt_status_t yields_run(crt_call_t *call)
{
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    for (int64_t i = 0; i < count; i++) {
        usleep(50000);
        CRT_TRY(crt_yield(call, i));
    }
    return CRT_OK;
}
static const crt_task_t yields =
    CRT_TASK(.name = "yields", .run = yields_run, .signature = "int");

static void on_signal(int number)
{
    crt_interrupt();
}

/* (ref) Its thread is interrupted while it waits for it. */
static crt_status_t interrupted_run(crt_call_t *call)
{
    struct itimerval soon = {.it_value = {0, 50000}};
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &ref));
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &soon, NULL);
    status = crt_get(ref, NULL);
    return crt_return(call, status == CRT_ERR_INTERRUPTED);
}
static const crt_task_t interrupted =
    CRT_TASK(.name = "interrupted", .run = interrupted_run, .signature = "ref");

/* ------------------------------------------------------------------ waits */

static void a_handler_ends_a_wait_and_the_driver_cancels(void **state)
{
    struct itimerval soon = {.it_value = {0, 50000}};
    crt_ref_t *ref = crt_submit(&nap, NULL, 60000);
    crt_status_t status;
    int interrupted_times = 0;

    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &soon, NULL);
    while ((status = crt_get(ref, NULL)) == CRT_ERR_INTERRUPTED) {
        interrupted_times++;
        OK(crt_cancel(ref, NULL));
    }
    assert_int_equal(status, CRT_ERR_CANCELLED);
    assert_int_equal(interrupted_times, 1);
    crt_ref_drop(&ref);
}

static void one_that_comes_before_the_wait_is_told_by_it_once(void **state)
{
    crt_ref_t *ref = crt_submit(&nap, NULL, 200), *here = crt_put(1);
    int64_t number;

    raise(SIGALRM);
    raise(SIGALRM);
    OK(crt_get(here, &number)); /* that is no wait */
    assert_int_equal(crt_get(ref, NULL), CRT_ERR_INTERRUPTED);
    assert_string_equal(crt_error_detail(), "crt_interrupt was called");
    OK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
    crt_ref_drop(&here);
}

typedef struct waiter {
    crt_ref_t *ref;
    atomic_int begun;
    crt_status_t status;
} waiter_t;

static void *wait_there(void *user)
{
    waiter_t *w = user;
    size_t ready;

    crt_interrupt(); /* of which this thread was told, then */
    (void)crt_get_for(w->ref, 1, NULL);
    atomic_store(&w->begun, 1);
    w->status = crt_wait(&w->ref, 1, 1, 60000, NULL, &ready);
    return NULL;
}

static void all_threads_that_wait_are_told(void **state)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    waiter_t waiters[THREADS];
    crt_ref_t *ref = crt_submit(&nap, NULL, 60000);

    for (int i = 0; i < THREADS; i++) {
        waiters[i] = (waiter_t){.ref = ref};
        pthread_create(&threads[i], NULL, wait_there, &waiters[i]);
        while (!atomic_load(&waiters[i].begun))
            usleep(1000);
    }
    crt_interrupt();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(waiters[i].status, CRT_ERR_INTERRUPTED);
    }
    OK(crt_cancel(ref, NULL));
    while (crt_get(ref, NULL) == CRT_ERR_INTERRUPTED)
        continue;
    crt_ref_drop(&ref);
}

static void a_wait_inside_a_task_is_told_too(void **state)
{
    crt_ref_t *slow = crt_submit(&nap, NULL, 60000);
    crt_ref_t *ref = crt_submit(&interrupted, NULL, slow);
    crt_status_t status;
    bool was;

    do /* what came before is told to this thread, perhaps */
        status = crt_get(ref, &was);
    while (status == CRT_ERR_INTERRUPTED);
    OK(status);
    assert_true(was);
    OK(crt_cancel(slow, NULL));
    crt_ref_drop(&slow);
    crt_ref_drop(&ref);
}

static void a_set_is_interrupted_like_any_wait(void **state)
{
    struct itimerval soon = {.it_value = {0, 50000}};
    crt_ref_t *ref = crt_submit(&nap, NULL, 60000);
    crt_event_t event = CRT_EVENT_INIT;
    crt_waitset_t *set;

    OK(crt_waitset_new(&set));
    OK(crt_waitset_add_ref(set, ref, NULL));
    setitimer(ITIMER_REAL, &soon, NULL);
    assert_int_equal(crt_waitset_next(set, -1, &event), CRT_ERR_INTERRUPTED);
    OK(crt_cancel(ref, NULL));
    OK(crt_waitset_next(set, -1, &event));
    assert_int_equal(event.status, CRT_ERR_CANCELLED);
    crt_event_drop(&event);
    crt_ref_drop(&ref);
    crt_waitset_drop(&set);
}

/* ------------------------------------------------------------------ without it */

static atomic_int handled;

static void on_timer(int number)
{
    atomic_fetch_add(&handled, 1);
}

/* Every wait of a program whose timer runs, as a profiler's does. */
static void wait_in_all_ways(void)
{
    crt_ref_t *refs[2] = {crt_submit(&nap, NULL, 100), crt_submit(&nap, NULL, 200)},
              *item;
    crt_stream_t *stream = crt_submit_stream(&yields, NULL, 3);
    crt_event_t event = CRT_EVENT_INIT;
    crt_waitset_t *set;
    size_t ready[2], count;
    crt_status_t status;
    int items = 0;

    OK(crt_waitset_new(&set));
    OK(crt_wait(refs, 2, 1, -1, ready, &count));
    OK(crt_refs_wait(refs, 2, NULL, -1, NULL));
    while ((status = crt_stream_next(stream, -1, &item)) == CRT_OK) {
        crt_ref_drop(&item);
        items++;
    }
    assert_int_equal(status, CRT_END_OF_STREAM);
    assert_int_equal(items, 3);
    crt_refs_drop(refs, 2);
    refs[0] = crt_submit(&nap, NULL, 100);
    OK(crt_waitset_add_ref(set, refs[0], NULL));
    OK(crt_waitset_next(set, -1, &event));
    crt_event_drop(&event);
    crt_ref_drop(&refs[0]);
    refs[0] = crt_submit(&nap, NULL, 100);
    OK(crt_get(refs[0], NULL));
    crt_ref_drop(&refs[0]);
    refs[0] = crt_submit(&nap, NULL, 300);
    assert_int_equal(crt_get_for(refs[0], 20, NULL), CRT_ERR_TIMED_OUT);
    OK(crt_get_for(refs[0], 60000, NULL));
    crt_ref_drop(&refs[0]);
    crt_stream_drop(&stream);
    crt_waitset_drop(&set);
}

static void *wait_as_the_second(void *user)
{
    wait_in_all_ways();
    return NULL;
}

static void waits_go_on_after_a_handler_of_the_program(void **state)
{
    struct itimerval often = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    const int flags[] = {0, SA_RESTART};

    for (int i = 0; i < 2; i++) {
        struct sigaction action = {.sa_handler = on_timer, .sa_flags = flags[i]};
        pthread_t other;

        atomic_store(&handled, 0);
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
        pthread_create(&other, NULL, wait_as_the_second, NULL);
        wait_in_all_ways();
        pthread_join(other, NULL);
        setitimer(ITIMER_REAL, &off, NULL);
        assert_true(atomic_load(&handled) > 20);
    }
}

/* ------------------------------------------------------------------ anywhere */

static void a_storm_of_signals_ends_no_call_and_hangs_none(void **state)
{
    struct itimerval often = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
    int64_t number;

    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int64_t i = 0; i < 5000; i++) {
        crt_ref_t *ref = crt_submit(&echo, NULL, i);
        crt_status_t status;

        while ((status = crt_get(ref, &number)) == CRT_ERR_INTERRUPTED)
            continue;
        if (status != CRT_OK || number != i)
            fail_msg("call %lld: %s", (long long)i, crt_error_detail());
        crt_ref_drop(&ref);
    }
    setitimer(ITIMER_REAL, &off, NULL);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_ends_a_wait_and_the_driver_cancels),
        cmocka_unit_test(one_that_comes_before_the_wait_is_told_by_it_once),
        cmocka_unit_test(all_threads_that_wait_are_told),
        cmocka_unit_test(a_wait_inside_a_task_is_told_too),
        cmocka_unit_test(a_set_is_interrupted_like_any_wait),
        cmocka_unit_test(waits_go_on_after_a_handler_of_the_program),
        cmocka_unit_test(a_storm_of_signals_ends_no_call_and_hangs_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&nap, &echo, &interrupted, &yields),
                                .num_cpus = 4, .object_store_memory = 16 << 20),
                    driver);
}
