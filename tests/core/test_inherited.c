/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker process has of what main did before crt_init, and what it has of its own: seeds,
 * the worker's start, threads of libraries. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"

enum { WORKERS = 4 };

static int argc_of_main;
static char **argv_of_main;
static pid_t before_init; /* who ran main */
static int64_t starts;    /* of this worker */

/* ------------------------------------------------------------------ the program */

static void draw_own(void)
{
    starts++;
    srand48((long)crt_random_seed());
}

static crt_status_t tell_run(crt_call_t *call)
{
    crt_arg_t told[] = {crt_arg_int(lrand48()), crt_arg_int(before_init),
                        crt_arg_int(getpid()), crt_arg_int(starts)};

    usleep(200000); /* so that another worker has the next one */
    return crt_return(call, crt_list(told, 4));
}
static const crt_task_t tell = CRT_TASK(.name = "tell", .run = tell_run, .signature = "");

static crt_status_t seed_run(crt_call_t *call)
{
    return crt_return(call, (int64_t)(crt_random_seed() >> 1));
}
static const crt_task_t seed = CRT_TASK(.name = "seed", .run = seed_run, .signature = "");

/* (path) -> the seed of a task that it makes; its worker dies once, when there is no file. */
static crt_status_t frail_seed_run(crt_call_t *call)
{
    const char *path;
    crt_ref_t *ref;
    int64_t value;
    crt_status_t status;
    int fd;

    CRT_TRY(crt_args(call, &path));
    (void)crt_random_seed();
    ref = crt_submit(&seed, NULL);
    status = crt_get(ref, &value);
    crt_ref_drop(&ref);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        _exit(1);
    return status == CRT_OK ? crt_return(call, value) : status;
}
static const crt_task_t frail_seed =
    CRT_TASK(.name = "frail_seed", .run = frail_seed_run, .signature = "string");

struct seeded {
    int64_t at_create;
};

static crt_status_t seeded_create(void *self, crt_call_t *call)
{
    ((struct seeded *)self)->at_create = (int64_t)(crt_random_seed() >> 1);
    return CRT_OK;
}

static crt_status_t seeded_get_run(void *self, crt_call_t *call)
{
    return crt_return(call, ((struct seeded *)self)->at_create ^
                                (int64_t)(crt_random_seed() >> 1));
}
static const crt_method_t seeded_get =
    CRT_METHOD(.name = "get", .run = seeded_get_run, .signature = "");
static const crt_actor_class_t seeded =
    CRT_ACTOR_CLASS(.name = "Seeded", .size = sizeof(struct seeded),
                    .create = seeded_create, .methods = CRT_METHODS(&seeded_get));

static crt_status_t threads_run(crt_call_t *call)
{
    return crt_return(call, (const char *)getenv("OMP_NUM_THREADS"));
}
static const crt_task_t threads =
    CRT_TASK(.name = "threads", .run = threads_run, .signature = "");

#define OPTIONS                                                                          \
    .struct_size = sizeof(crt_options_t), .classes = CRT_CLASSES(&seeded),               \
    .tasks = CRT_TASKS(&tell, &seed, &frail_seed, &threads), .num_cpus = WORKERS,        \
    .object_store_memory = 16 << 20
/* Workers run main, too, with the options of their driver: a variable says which. */
static const crt_options_t forked = {OPTIONS}, own = {OPTIONS, .worker_start = draw_own},
                           executed = {OPTIONS, .execute_workers = true},
                           repeated = {OPTIONS, .random_seed = 4711};

static const crt_options_t *chosen(void)
{
    const char *which = getenv("TEST_OPTIONS");

    return !which                           ? &forked
           : strcmp(which, "own") == 0      ? &own
           : strcmp(which, "executed") == 0 ? &executed
           : strcmp(which, "repeated") == 0 ? &repeated
                                            : &forked;
}

static void join_cluster(const char *which)
{
    setenv("TEST_OPTIONS", which, 1);
    OK(crt_init(argc_of_main, argv_of_main, chosen()));
}

/* ------------------------------------------------------------------ what they have */

typedef struct told {
    int64_t number, before, pid, starts;
} told_t;

static void ask_workers(told_t told[WORKERS])
{
    crt_ref_t *refs[WORKERS];
    const crt_value_t *list;

    for (int i = 0; i < WORKERS; i++)
        refs[i] = crt_submit(&tell, NULL);
    for (int i = 0; i < WORKERS; i++) {
        OK(crt_get(refs[i], &list));
        OK(crt_value_read(crt_value_at(list, 0), &told[i].number));
        OK(crt_value_read(crt_value_at(list, 1), &told[i].before));
        OK(crt_value_read(crt_value_at(list, 2), &told[i].pid));
        OK(crt_value_read(crt_value_at(list, 3), &told[i].starts));
    }
    crt_refs_drop(refs, WORKERS);
}

static void forked_workers_have_what_main_had_drawn(void **state)
{
    told_t told[WORKERS];

    join_cluster("forked");
    ask_workers(told);
    OK(crt_shutdown());
    for (int i = 0; i < WORKERS; i++) {
        assert_int_not_equal(told[i].before, told[i].pid);
        assert_int_equal(told[i].before, told[0].before);
    }
}

static void what_runs_at_the_start_of_each_worker_gives_it_its_own(void **state)
{
    told_t told[WORKERS];

    join_cluster("own");
    ask_workers(told);
    OK(crt_shutdown());
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(told[i].starts, 1);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(told[i].number, told[k].number);
    }
}

static void executed_workers_run_main_themselves(void **state)
{
    told_t told[WORKERS];

    join_cluster("executed");
    ask_workers(told);
    OK(crt_shutdown());
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(told[i].before, told[i].pid);
}

/* ------------------------------------------------------------------ seeds */

typedef struct drawn {
    int64_t driver, tasks[3], nested, actor;
} drawn_t;

static int64_t take(crt_ref_t *ref)
{
    int64_t value;

    OK(crt_get(ref, &value));
    crt_ref_drop(&ref);
    return value;
}

/* `path`: there already, or the worker of the nested one dies on its way. */
static drawn_t draw_all(const char *which, const char *path)
{
    crt_actor_t *actor;
    crt_ref_t *refs[4];
    drawn_t d = {0};

    join_cluster(which);
    d.driver = (int64_t)(crt_random_seed() >> 1);
    for (int i = 0; i < 3; i++)
        refs[i] = crt_submit(&seed, NULL);
    refs[3] = crt_submit(&frail_seed, NULL, path);
    actor = crt_actor_new(&seeded, NULL);
    d.actor = take(crt_call(actor, &seeded_get));
    for (int i = 0; i < 3; i++)
        d.tasks[i] = take(refs[i]);
    d.nested = take(refs[3]);
    crt_actor_drop(&actor);
    OK(crt_shutdown());
    return d;
}

static void seeds_are_new_ones_each_time(void **state)
{
    char path[] = "/tmp/crt_seeds_XXXXXX";
    drawn_t a, b;

    close(mkstemp(path));
    a = draw_all("forked", path);
    b = draw_all("forked", path);
    remove(path);
    assert_int_not_equal(a.driver, b.driver);
    assert_int_not_equal(a.nested, b.nested);
    assert_int_not_equal(a.actor, b.actor);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(a.tasks[i], b.tasks[i]);
        assert_int_not_equal(a.tasks[i], a.tasks[(i + 1) % 3]);
    }
}

static void
with_a_seed_they_are_the_same_in_each_run_also_when_a_worker_dies(void **state)
{
    char path[] = "/tmp/crt_seeds_XXXXXX";
    drawn_t a, b;

    close(mkstemp(path));
    a = draw_all("repeated", path);
    remove(path);
    b = draw_all("repeated", path); /* in which one dies */
    remove(path);
    assert_memory_equal(&a, &b, sizeof(a));
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(a.tasks[i], a.tasks[(i + 1) % 3]);
    assert_int_not_equal(a.nested, a.tasks[0]);
}

/* ------------------------------------------------------------------ threads */

static void libraries_use_as_many_threads_as_the_worker_has_cpus(void **state)
{
    const double cpus[] = {0.5, 1, 2, 3.5};
    const char *const wanted[] = {"1", "1", "2", "3"};
    const char *text;

    unsetenv("OMP_NUM_THREADS");
    join_cluster("forked");
    for (int i = 0; i < 4; i++) {
        crt_ref_t *ref = crt_submit(&threads, CRT_TASK_OPTIONS(.num_cpus = cpus[i]));

        OK(crt_get(ref, &text));
        assert_string_equal(text, wanted[i]);
        crt_ref_drop(&ref);
    }
    OK(crt_shutdown());
}

static void what_the_user_has_set_for_them_counts(void **state)
{
    crt_ref_t *ref;
    const char *text;

    setenv("OMP_NUM_THREADS", "7", 1);
    join_cluster("forked");
    ref = crt_submit(&threads, CRT_TASK_OPTIONS(.num_cpus = 2));
    OK(crt_get(ref, &text));
    assert_string_equal(text, "7");
    crt_ref_drop(&ref);
    OK(crt_shutdown());
    unsetenv("OMP_NUM_THREADS");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forked_workers_have_what_main_had_drawn),
        cmocka_unit_test(what_runs_at_the_start_of_each_worker_gives_it_its_own),
        cmocka_unit_test(executed_workers_run_main_themselves),
        cmocka_unit_test(seeds_are_new_ones_each_time),
        cmocka_unit_test(
            with_a_seed_they_are_the_same_in_each_run_also_when_a_worker_dies),
        cmocka_unit_test(libraries_use_as_many_threads_as_the_worker_has_cpus),
        cmocka_unit_test(what_the_user_has_set_for_them_counts),
    };

    argc_of_main = argc;
    argv_of_main = argv;
    before_init = getpid();
    /* A worker of ours is this program, too: it stays in the first crt_init. */
    if (getenv("CRT_ZYGOTE_FD") || getenv("CRT_WORKER"))
        return crt_init(argc, argv, chosen()) != CRT_OK;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
