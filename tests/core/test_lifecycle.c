/* SPDX-License-Identifier: Apache-2.0 */
/* Joining and leaving a cluster, again and again; and what can't be joined. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "runtime/core/client/private_cluster.h"

#include <cmocka.h>

#define ROUNDS 1000
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define HAS_SANITIZER                                                                \
        1 /* which has memory of its own; and looks for leaks better than this */
#else
#    define HAS_SANITIZER 0
#endif

static int argc_of_main;
static char **argv_of_main;
static crti_private_cluster_t cluster;

static const crt_options_t program = {.struct_size = sizeof(program),
                                      .classes = PROGRAM_CLASSES,
                                      .tasks = PROGRAM_TASKS,
                                      .num_cpus = 2,
                                      .object_store_memory = 32 << 20};

static int start_cluster(void **state)
{
    if (crti_private_cluster_start(&program, &cluster) != CRT_OK) {
        fprintf(stderr, "%s\n", crt_error_detail());
        return -1;
    }
    setenv("CRT_ADDRESS", cluster.address, 1);
    return 0;
}

static int stop_cluster(void **state)
{
    crti_private_cluster_stop(&cluster);
    return 0;
}

static unsigned count_entries(const char *path)
{
    DIR *dir = opendir(path);
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static long anonymous_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "re");

    assert_non_null(file);
    while (kib < 0 && fgets(line, sizeof(line), file))
        sscanf(line, "RssAnon: %ld", &kib);
    fclose(file);
    return kib;
}

static void join_and_leave(bool with_a_call)
{
    int64_t sum = 0;

    if (crt_init(argc_of_main, argv_of_main, &program) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    if (with_a_call) {
        crt_ref_t *ref = crt_submit(&t_add, NULL, 40, 2);

        if (crt_get(ref, &sum) != CRT_OK)
            fail_msg("%s", crt_error_detail());
        assert_int_equal(sum, 42);
        crt_ref_drop(&ref);
    }
    assert_int_equal(crt_shutdown(), CRT_OK);
}

static void a_thousand_lives_leave_nothing_behind(void **state)
{
    unsigned files = 0, threads = 0;
    long memory = 0;

    for (int i = 0; i < ROUNDS; i++) {
        join_and_leave(i % 100 == 0);
        if (i != ROUNDS / 10)
            continue;
        files = count_entries("/proc/self/fd");
        threads = count_entries("/proc/self/task");
        memory = anonymous_kib();
    }
    assert_int_equal(count_entries("/proc/self/fd"), files);
    assert_int_equal(count_entries("/proc/self/task"), threads);
    if (!HAS_SANITIZER && anonymous_kib() > memory + 1024)
        fail_msg("%ld KiB grew to %ld KiB", memory, anonymous_kib());
}

static void a_second_init_is_refused(void **state)
{
    assert_int_equal(crt_init(argc_of_main, argv_of_main, &program), CRT_OK);
    assert_int_equal(crt_init(argc_of_main, argv_of_main, &program), CRT_ERR_EXISTS);
    assert_int_equal(crt_shutdown(), CRT_OK);
    assert_int_equal(crt_shutdown(), CRT_ERR_NOT_INITIALIZED);
}

static void what_outlives_a_shutdown_can_only_be_dropped(void **state)
{
    crt_ref_t *small, *failed;
    crt_actor_t *actor;
    int64_t value;

    assert_int_equal(crt_init(argc_of_main, argv_of_main, &program), CRT_OK);
    small = crt_put(5);
    actor = crt_actor_new(&counter_class, NULL, 1);
    failed = crt_call(actor, &counter_sleep, 60000);
    assert_int_equal(crt_shutdown(), CRT_OK);
    assert_int_equal(crt_get(failed, &value), CRT_ERR_CLOSED);
    assert_int_equal(crt_get_for(small, 0, NULL) == CRT_OK ? CRT_ERR_CLOSED
                                                           : crt_get(small, &value),
                     CRT_ERR_CLOSED);
    crt_ref_drop(&small);
    crt_ref_drop(&failed);
    crt_actor_drop(&actor);
    small = crt_put(1);
    assert_int_equal(crt_get(small, &value), CRT_ERR_NOT_INITIALIZED);
    crt_ref_drop(&small);
    small = crt_submit(&t_add, NULL, 1, 2);
    assert_int_equal(crt_ref_error(small)->status, CRT_ERR_NOT_INITIALIZED);
    crt_ref_drop(&small);
}

static void no_cluster_at_an_address_is_one_clear_sentence(void **state)
{
    crt_options_t o = program;

    o.address = "127.0.0.1:1";
    assert_int_equal(crt_init(argc_of_main, argv_of_main, &o), CRT_ERR_NOT_FOUND);
    assert_non_null(strstr(crt_error_detail(), "127.0.0.1:1"));
}

static void a_wrong_program_is_refused(void **state)
{
    static const crt_task_t odd = CRT_TASK(.name = "odd", .signature = "integer");
    crt_options_t o = program;

    o.tasks = CRT_TASKS(&odd);
    assert_int_equal(crt_init(argc_of_main, argv_of_main, &o), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "integer"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_init_is_refused),
        cmocka_unit_test(what_outlives_a_shutdown_can_only_be_dropped),
        cmocka_unit_test(no_cluster_at_an_address_is_one_clear_sentence),
        cmocka_unit_test(a_wrong_program_is_refused),
        cmocka_unit_test(a_thousand_lives_leave_nothing_behind),
    };

    argc_of_main = argc;
    argv_of_main = argv;
    /* A worker of ours is this program, too: it stays in the first crt_init. */
    if (getenv("CRT_ZYGOTE_FD") || getenv("CRT_WORKER"))
        return crt_init(argc, argv, &program) != CRT_OK;
    return cmocka_run_group_tests(tests, start_cluster, stop_cluster);
}
