/* SPDX-License-Identifier: Apache-2.0 */
/* Four threads of a driver do everything at once while workers are killed: every wait ends, with a
 * value that is right or an error that fits. The seed is the first argument. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program.h"

#include <cmocka.h>

#define THREADS     4
#define SECONDS     5
#define PATIENCE_MS 30000

static unsigned first_seed = 1;
static atomic_int wrong; /* threads don't assert: cmocka jumps */
static atomic_long done, failed;

static bool is_time_left(void)
{
    static atomic_long end;
    struct timespec now;
    long zero = 0;

    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_compare_exchange_strong(&end, &zero, now.tv_sec + SECONDS);
    return now.tv_sec < atomic_load(&end);
}

/* A death is fine; anything else must be a value. */
static bool is_value(crt_status_t status, const char *what)
{
    if (status == CRT_OK) {
        atomic_fetch_add(&done, 1);
        return true;
    }
    /* Workers die by our kills alone; a sanitizer's report ends one with a status. */
    if ((status == CRT_ERR_WORKER_DIED || status == CRT_ERR_ACTOR_DIED ||
         status == CRT_ERR_OWNER_DIED || status == CRT_ERR_OBJECT_LOST) &&
        !strstr(crt_error_detail(), "exited with status")) {
        atomic_fetch_add(&failed, 1);
        return false;
    }
    fprintf(stderr, "%s: %s: %s\n", what, crt_status_name(status), crt_error_detail());
    atomic_store(&wrong, 1);
    return false;
}

static void check_int(crt_ref_t *ref, int64_t expected, const char *what)
{
    int64_t value = 0;

    if (is_value(crt_get_for(ref, PATIENCE_MS, &value), what) && value != expected) {
        fprintf(stderr, "%s: %lld instead of %lld\n", what, (long long)value,
                (long long)expected);
        atomic_store(&wrong, 1);
    }
    crt_ref_drop(&ref);
}

static void many_tasks(unsigned *seed)
{
    enum { COUNT = 40 };
    crt_ref_t *refs[COUNT];

    for (int i = 0; i < COUNT; i++)
        refs[i] = crt_submit(&t_add, NULL, i, 1);
    for (int i = 0; i < COUNT; i++)
        check_int(refs[i], i + 1, "add");
}

static void chain_of_large_values(unsigned *seed)
{
    int64_t count = 20000 + rand_r(seed) % 50000;
    crt_ref_t *floats = crt_submit(&t_floats, NULL, count, 1.0);
    crt_ref_t *copy = crt_submit(&t_echo, NULL, floats);
    crt_ref_t *sum = crt_submit(&t_sum, NULL, floats, copy);

    crt_ref_drop(&floats);
    if (rand_r(seed) % 2)
        crt_ref_drop(&copy);
    check_int(sum, 2 * count, "sum");
    crt_ref_drop(&copy);
}

static void lists_of_refs(unsigned *seed)
{
    int64_t count = 1 + rand_r(seed) % 40;
    crt_ref_t *list = crt_submit(&t_put_list, NULL, count), *inner = NULL;
    const crt_value_t *value;

    if (is_value(crt_get_for(list, PATIENCE_MS, &value), "list") &&
        crt_value_read(crt_value_at(value, (size_t)count - 1), &inner) == CRT_OK) {
        inner = crt_ref_keep(inner);
        check_int(crt_submit(&t_sum_refs, NULL, list), count * (count - 1) / 2, "refs");
    }
    crt_ref_drop(&list);
    if (inner)
        check_int(inner, count - 1, "inner");
}

static void an_actor(unsigned *seed)
{
    crt_actor_t *counter = crt_actor_new(&counter_class, NULL, 10);
    crt_ref_t *floats = crt_submit(&t_floats, NULL, 30000, 2.0), *kept, *pid_ref;
    int pid;

    for (int i = 0; i < 20; i++)
        crt_tell(counter, &counter_add, 1);
    kept = crt_call(counter, &counter_keep, floats);
    crt_ref_drop(&floats);
    check_int(crt_call(counter, &counter_get), 30, "counter");
    is_value(crt_get_for(kept, PATIENCE_MS, NULL), "keep");
    crt_ref_drop(&kept);
    pid_ref = crt_call(counter, &counter_pid);
    if (rand_r(seed) % 2 && crt_get_for(pid_ref, PATIENCE_MS, &pid) == CRT_OK)
        kill(pid, SIGKILL);
    crt_ref_drop(&pid_ref);
    kept = crt_call(counter, &counter_kept);
    is_value(crt_get_for(kept, PATIENCE_MS, NULL), "kept");
    crt_ref_drop(&kept);
    crt_actor_kill(counter, NULL);
    crt_actor_drop(&counter);
}

static void a_kill(unsigned *seed)
{
    crt_ref_t *ref = crt_submit(&t_pid, NULL);
    int pid;

    if (rand_r(seed) % 4 == 0 && is_value(crt_get_for(ref, PATIENCE_MS, &pid), "pid"))
        kill(pid, SIGKILL);
    crt_ref_drop(&ref);
}

static void recursion(unsigned *seed)
{
    int64_t depth = rand_r(seed) % 30;

    check_int(crt_submit(&t_recurse, NULL, depth), depth, "recurse");
}

static void *run(void *argument)
{
    static void (*const steps[])(unsigned *seed) = {
        many_tasks, chain_of_large_values, lists_of_refs, an_actor, a_kill, recursion};
    unsigned seed = first_seed * 100 + (unsigned)(uintptr_t)argument;

    while (is_time_left() && !atomic_load(&wrong))
        steps[(unsigned)rand_r(&seed) % (sizeof(steps) / sizeof(steps[0]))](&seed);
    return NULL;
}

static void every_wait_ends_with_a_right_value_or_a_fitting_error(void **state)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    print_message("%ld values, %ld deaths\n", atomic_load(&done), atomic_load(&failed));
    assert_false(atomic_load(&wrong));
    assert_true(atomic_load(&done) > 0);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wait_ends_with_a_right_value_or_a_fitting_error),
    };

    if (argc > 1)
        first_seed = (unsigned)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = PROGRAM_CLASSES, .tasks = PROGRAM_TASKS,
                                .num_cpus = 4, .object_store_memory = 128 << 20,
                                .no_log_to_driver = true),
                    driver);
}
