/* SPDX-License-Identifier: Apache-2.0 */
/* More workers than the limit of open files has room for at four each: the node daemon parks
 * what it only waits for. Everything else is as ever. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "ok.h"
#include "program.h"

#include <cmocka.h>

#define FILES   600
#define ACTORS  40 /* the first 19 are served without parking */
#define WAIT_MS 60000

static crt_actor_t *actors[ACTORS];

static int64_t get_int(crt_ref_t *ref)
{
    int64_t value = 0;

    OK(crt_get_for(ref, WAIT_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

static int64_t pid_of_node(void)
{
    crt_cluster_info_t infos[64];
    size_t count;

    OK(crt_cluster_list(infos, sizeof(infos[0]), 64, &count));
    for (size_t i = 0; i < count && i < 64; i++)
        if (strcmp(infos[i].node, crt_node_id()) == 0)
            return infos[i].pid;
    fail_msg("this node is not listed");
    return 0;
}

static DIR *open_dir(int64_t pid, const char *name)
{
    char path[64];
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
    dir = opendir(path);
    assert_non_null(dir);
    return dir;
}

static int count_files(int64_t pid)
{
    DIR *dir = open_dir(pid, "fd");
    int count = 0;

    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Threads that keep what is offloaded. */
static int count_offload_threads(int64_t pid)
{
    DIR *dir = open_dir(pid, "task");
    int count = 0;

    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[96], name[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%lld/task/%.16s/comm", (long long)pid,
                 e->d_name);
        file = fopen(path, "re");
        if (file && fgets(name, sizeof(name), file))
            count += strcmp(name, "crt-offload\n") == 0;
        if (file)
            fclose(file);
    }
    closedir(dir);
    return count;
}

static void they_are_made_and_called(void **state)
{
    int64_t node = pid_of_node();
    int files = count_files(node);

    for (int i = 0; i < ACTORS; i++)
        actors[i] = crt_actor_new(&counter_class, NULL, i);
    for (int i = 0; i < ACTORS; i++)
        assert_int_equal(get_int(crt_call(actors[i], &counter_get)), i);
    assert_int_equal(count_offload_threads(node), 1);
    assert_in_range(count_files(node), files + ACTORS, files + 3 * ACTORS);
}

static void what_one_printed_is_in_the_report_of_its_death(void **state)
{
    crt_ref_t *ref = crt_call(actors[ACTORS - 1], &counter_crash);

    assert_int_equal(crt_get_for(ref, WAIT_MS, NULL), CRT_ERR_ACTOR_DIED);
    assert_non_null(strstr(crt_error_detail(), "going down"));
    assert_non_null(strstr(crt_error_detail(), "Counter.crash"));
    crt_ref_drop(&ref);
}

static void one_that_is_killed_is_missed_at_once(void **state)
{
    crt_actor_t *victim = actors[ACTORS - 2];
    pid_t pid = (pid_t)get_int(crt_call(victim, &counter_pid));
    crt_ref_t *ref = crt_call(victim, &counter_sleep, WAIT_MS);

    kill(pid, SIGKILL);
    assert_int_equal(crt_get_for(ref, WAIT_MS / 2, NULL), CRT_ERR_ACTOR_DIED);
    assert_non_null(strstr(crt_error_detail(), "signal 9"));
    crt_ref_drop(&ref);
}

static void places_of_those_that_ended_are_used_again(void **state)
{
    for (int round = 0; round < 3; round++) {
        for (int i = ACTORS / 2; i < ACTORS; i++) {
            OK(crt_actor_kill(actors[i], NULL));
            crt_actor_drop(&actors[i]);
            actors[i] = crt_actor_new(&counter_class, NULL, i);
        }
        for (int i = ACTORS / 2; i < ACTORS; i++)
            assert_int_equal(get_int(crt_call(actors[i], &counter_get)), i);
    }
    for (int i = 0; i < ACTORS; i++)
        crt_actor_drop(&actors[i]);
    assert_int_equal(count_offload_threads(pid_of_node()), 1);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_made_and_called),
        cmocka_unit_test(what_one_printed_is_in_the_report_of_its_death),
        cmocka_unit_test(one_that_is_killed_is_missed_at_once),
        cmocka_unit_test(places_of_those_that_ended_are_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    struct rlimit few = {FILES, FILES};

    if (setrlimit(RLIMIT_NOFILE, &few) != 0) {
        perror("setrlimit");
        return 1;
    }
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = PROGRAM_CLASSES, .tasks = PROGRAM_TASKS,
                                .num_cpus = 2, .object_store_memory = 32 << 20),
                    driver);
}
