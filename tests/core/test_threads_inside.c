/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/process/threads_inside.c: what is taken away is not freed under a thread. */
#include "runtime/core/process/threads_inside.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4
#define ROUNDS  100

/* Stands for the runtime: entry.c does the same with it. */
static _Atomic(int *) current;
static atomic_bool is_over;
static atomic_uint visits;

static int *enter(void)
{
    crti_inside_enter();
    return atomic_load_explicit(&current, memory_order_acquire);
}

static void leave(void)
{
    crti_inside_leave();
    if (!atomic_load_explicit(&current, memory_order_relaxed))
        crti_inside_wake();
}

static void *visit(void *unused)
{
    while (!atomic_load(&is_over)) {
        int *runtime = enter();

        if (runtime) { /* a use after free, if the wait is wrong */
            assert_int_equal(*(volatile int *)runtime, 1);
            enter();
            leave();
            assert_int_equal(*(volatile int *)runtime, 1);
            atomic_fetch_add_explicit(&visits, 1, memory_order_relaxed);
        }
        leave();
        if (!runtime)
            sched_yield();
    }
    return NULL;
}

static void is_not_freed_under_threads(void)
{
    pthread_t threads[THREADS];

    atomic_store(&is_over, false);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, visit, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int *runtime = malloc(sizeof(*runtime));
        unsigned before = atomic_load(&visits);

        assert_non_null(runtime);
        *runtime = 1;
        atomic_store(&current, runtime);
        while (atomic_load(&visits) - before < THREADS)
            sched_yield();
        atomic_store(&current, NULL);
        crti_inside_wait();
        *runtime = 0;
        free(runtime);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void what_is_taken_away_is_not_freed_under_threads(void **state)
{
    is_not_freed_under_threads();
}

static void threads_have_barriers_of_their_own_where_the_kernel_has_none(void **state)
{
    bool has = atomic_load(&crti_inside_has_barrier);

    atomic_store(&crti_inside_has_barrier, false);
    is_not_freed_under_threads();
    atomic_store(&crti_inside_has_barrier, has);
}

static void *enter_and_end(void *unused)
{
    enter();
    leave();
    return NULL;
}

/* Their memory is gone: the sanitizer would tell. */
static void threads_that_have_ended_are_not_looked_at(void **state)
{
    for (int i = 0; i < 100; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, enter_and_end, NULL), 0);
        pthread_join(thread, NULL);
        crti_inside_wait();
    }
}

static atomic_int is_inside, may_leave;

static void *stay(void *unused)
{
    enter();
    atomic_store(&is_inside, 1);
    while (!atomic_load(&may_leave))
        sched_yield();
    leave();
    return NULL;
}

static void a_child_does_not_wait_for_threads_of_its_parent(void **state)
{
    pthread_t thread;
    int status;
    pid_t child;

    enter();
    leave();
    assert_int_equal(pthread_create(&thread, NULL, stay, NULL), 0);
    while (!atomic_load(&is_inside))
        sched_yield();
    child = fork();
    if (child == 0) {
        alarm(20);
        crti_inside_forked();
        crti_inside_wait();
        enter();
        leave();
        crti_inside_wait();
        _exit(7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    atomic_store(&may_leave, 1);
    pthread_join(thread, NULL);
    crti_inside_wait();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_away_is_not_freed_under_threads),
        cmocka_unit_test(threads_have_barriers_of_their_own_where_the_kernel_has_none),
        cmocka_unit_test(threads_that_have_ended_are_not_looked_at),
        cmocka_unit_test(a_child_does_not_wait_for_threads_of_its_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
