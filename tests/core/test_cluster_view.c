/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster as structs, keys by prefix and compare and swap, and jobs from a program. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define PATIENCE_MS 60000

static const crt_actor_class_t idle = CRT_ACTOR_CLASS(.name = "Idle");

/* ---------------------------------------------------------------- nodes and resources */

static void a_program_sees_its_node_and_what_is_free_of_it(void **state)
{
    crt_actor_t *actor =
        crt_actor_new(&idle, CRT_ACTOR_OPTIONS(.num_cpus = 0.5, .resources = "disk=1"));
    crt_node_info_t node;
    double total, unused;
    size_t count = 0;

    OK(crt_actor_ready(actor, PATIENCE_MS));
    OK(crt_nodes(&node, sizeof(node), 1, &count));
    assert_int_equal(count, 1);
    assert_string_equal(node.id, crt_node_id());
    assert_int_equal(node.state, CRT_NODE_ALIVE);
    assert_true(node.is_head_host);
    assert_true(node.cpus == 2);
    assert_true(node.ip[0] && node.hostname[0] && node.start_ms > 0 && !node.end_ms);
    assert_true(node.store_bytes > 0);
    do /* heartbeats tell the head what is free */
        OK(crt_resource_total("CPU", &total, &unused));
    while (unused != 1.5);
    assert_true(total == 2);
    do
        OK(crt_resource_total("disk", &total, &unused));
    while (unused != 2);
    assert_true(total == 3);
    OK(crt_resource_total("none", &total, NULL));
    assert_true(total == 0);
    assert_int_equal(crt_resource_total("", NULL, NULL), CRT_ERR_INVALID);
    crt_actor_drop(&actor);
}

static void resources_are_told_by_name_of_one_node_or_all(void **state)
{
    crt_resource_info_t all[20], own[20];
    size_t count = 0, of_node = 0, found = 0;

    OK(crt_resources(NULL, all, sizeof(all[0]), 20, &count));
    OK(crt_resources(crt_node_id(), own, sizeof(own[0]), 20, &of_node));
    assert_int_equal(count, of_node);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(all[i].name, own[i].name);
        assert_true(i == 0 || strcmp(all[i - 1].name, all[i].name) < 0);
        found += strcmp(all[i].name, "disk") == 0 && all[i].total == 3;
    }
    assert_int_equal(found, 1);
    assert_int_equal(crt_resources("00000000000000000000000000000000", all,
                                   sizeof(all[0]), 20, &count),
                     CRT_ERR_NOT_FOUND);
    assert_int_equal(crt_resources("xyz", all, sizeof(all[0]), 20, &count),
                     CRT_ERR_INVALID);
}

/* A program that was built with another version of the struct. */
static void elements_may_have_another_size_than_the_librarys(void **state)
{
    struct {
        crt_node_info_t known;
        char newer[40];
    } large[2];
    size_t count = 0;

    memset(large, 0x55, sizeof(large));
    OK(crt_nodes(&large[0].known, sizeof(large[0]), 2, &count));
    assert_int_equal(count, 1);
    assert_string_equal(large[0].known.id, crt_node_id());
    for (size_t i = 0; i < sizeof(large[0].newer); i++)
        assert_int_equal(large[0].newer[i], 0);
    assert_int_equal(large[1].newer[0], 0x55);
    count = 0;
    OK(crt_nodes(NULL, 0, 0, &count));
    assert_int_equal(count, 1);
    assert_int_equal(crt_nodes(&large[0].known, 8, 2, &count), CRT_ERR_INVALID);
    assert_int_equal(crt_nodes(NULL, sizeof(large[0]), 2, &count), CRT_ERR_INVALID);
    assert_int_equal(crt_nodes(&large[0].known, sizeof(large[0]), 2, NULL),
                     CRT_ERR_INVALID);
}

/* ---------------------------------------------------------------- actors */

static void named_actors_are_listed_by_name(void **state)
{
    crt_actor_t *b = crt_actor_new(&idle, CRT_ACTOR_OPTIONS(.name = "b"));
    crt_actor_t *a = crt_actor_new(&idle, CRT_ACTOR_OPTIONS(.name = "a"));
    crt_actor_t *other =
        crt_actor_new(&idle, CRT_ACTOR_OPTIONS(.name = "c", .name_space = "other"));
    crt_actor_t *nameless = crt_actor_new(&idle, NULL);
    crt_actor_info_t actors[4];
    size_t count = 0;

    OK(crt_actor_ready(a, PATIENCE_MS));
    OK(crt_actor_ready(b, PATIENCE_MS));
    OK(crt_actor_ready(other, PATIENCE_MS));
    OK(crt_actor_ready(nameless, PATIENCE_MS));
    OK(crt_actors_named(crt_namespace(), actors, sizeof(actors[0]), 4, &count));
    assert_int_equal(count, 2);
    assert_string_equal(actors[0].name, "a");
    assert_string_equal(actors[0].id, crt_actor_id(a));
    assert_string_equal(actors[1].name, "b");
    assert_string_equal(actors[1].class_name, "Idle");
    assert_string_equal(actors[1].job_id, crt_job_id());
    assert_string_equal(actors[1].node_id, crt_node_id());
    assert_string_equal(actors[1].name_space, crt_namespace());
    assert_int_equal(actors[1].state, CRT_ACTOR_ALIVE);
    assert_false(actors[1].is_detached);
    OK(crt_actors_named(NULL, actors, sizeof(actors[0]), 1, &count));
    assert_int_equal(count, 3); /* more than there is room for */
    OK(crt_actor_kill(a, NULL));
    OK(crt_actors_named(crt_namespace(), actors, sizeof(actors[0]), 4, &count));
    assert_int_equal(count, 1);
    crt_actor_drop(&a);
    crt_actor_drop(&b);
    crt_actor_drop(&other);
    crt_actor_drop(&nameless);
}

/* ---------------------------------------------------------------- keys and values */

static void keys_are_listed_by_prefix_in_order(void **state)
{
    char *keys;
    size_t size;

    OK(crt_kv_put("run/2", "b", 1, false));
    OK(crt_kv_put("run/10", "a", 1, false));
    OK(crt_kv_put("run/1", "", 0, false));
    OK(crt_kv_put("rung", "c", 1, false));
    OK(crt_kv_keys("run/", &keys, &size));
    assert_int_equal(size, 6 + 7 + 6);
    assert_memory_equal(keys, "run/1\0run/10\0run/2\0", size);
    crt_free(keys);
    OK(crt_kv_keys("nothing", &keys, &size));
    assert_null(keys);
    assert_int_equal(size, 0);
    assert_int_equal(crt_kv_keys(NULL, &keys, &size), CRT_ERR_INVALID);
}

static void expect_stored(const char *key, const char *wanted)
{
    void *value;
    size_t size;

    OK(crt_kv_get(key, &value, &size));
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(value, wanted, size);
    crt_free(value);
}

static void a_value_is_swapped_only_for_what_was_expected(void **state)
{
    bool swapped = true;

    OK(crt_kv_swap("s", "one", 3, "two", 3, &swapped)); /* there is none */
    assert_false(swapped);
    OK(crt_kv_swap("s", "", 0, "two", 3, &swapped)); /* which is not an empty one */
    assert_false(swapped);
    OK(crt_kv_swap("s", NULL, 0, "one", 3, &swapped));
    assert_true(swapped);
    OK(crt_kv_swap("s", NULL, 0, "two", 3, &swapped));
    assert_false(swapped);
    OK(crt_kv_swap("s", "on", 2, "two", 3, &swapped));
    assert_false(swapped);
    expect_stored("s", "one");
    OK(crt_kv_swap("s", "one", 3, "", 0, &swapped)); /* an empty value is one */
    assert_true(swapped);
    expect_stored("s", "");
    OK(crt_kv_swap("s", "", 0, NULL, 0, &swapped));
    assert_true(swapped);
    assert_int_equal(crt_kv_delete("s"), CRT_ERR_NOT_FOUND);
    assert_int_equal(crt_kv_swap("", NULL, 0, "", 0, &swapped), CRT_ERR_INVALID);
    assert_int_equal(crt_kv_swap("s", NULL, 0, "", 0, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_kv_swap("s", NULL, 1, "", 0, &swapped), CRT_ERR_INVALID);
    OK(crt_kv_put("new", "1", 1, false));
    assert_int_equal(crt_kv_put("new", "1", 1, false), CRT_ERR_EXISTS);
}

static void a_null_place_or_value_is_named(void **state)
{
    char *json;
    size_t size;

    OK(crt_kv_put("there", "1", 1, true));
    assert_int_equal(crt_kv_get("there", NULL, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_kv_get("there", NULL, &size), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "there is no place for the answer");
    assert_int_equal(crt_kv_put("there", NULL, 1, true), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "the value is NULL, of 1 bytes");
    assert_int_equal(crt_kv_put("there", "", (1 << 20) + 1, true), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(),
                        "a value has up to 1 MiB, this one 1048577 bytes");
    assert_int_equal(crt_cluster_state(NULL, &json), CRT_ERR_INVALID);
    assert_int_equal(crt_cluster_state("nodes", NULL), CRT_ERR_INVALID);
}

#define THREADS 4
#define ROUNDS  25

static void *count_up(void *unused)
{
    for (int done = 0; done < ROUNDS;) {
        void *value;
        size_t size;
        char next[24];
        bool swapped;

        OK(crt_kv_get("count", &value, &size));
        snprintf(next, sizeof(next), "%d", atoi(value) + 1);
        OK(crt_kv_swap("count", value, size, next, strlen(next), &swapped));
        done += swapped;
        crt_free(value);
    }
    return NULL;
}

static void of_several_that_swap_at_once_one_wins(void **state)
{
    pthread_t threads[THREADS];
    char wanted[24];

    OK(crt_kv_put("count", "0", 1, true));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    snprintf(wanted, sizeof(wanted), "%d", THREADS * ROUNDS);
    expect_stored("count", wanted);
}

/* ---------------------------------------------------------------- jobs */

static void read_log(const char *id, char *text, size_t size)
{
    uint64_t next = 0;
    bool ended = false;
    size_t used = 0;

    while (!ended) {
        char *data;
        size_t count;

        OK(crt_job_logs(id, next, PATIENCE_MS, &data, &count, &next, &ended));
        assert_true(used + count < size);
        memcpy(text + used, data, count);
        used += count;
        crt_free(data);
    }
    text[used] = '\0';
}

static crt_job_info_t ended_job(const char *id)
{
    crt_job_info_t job;

    do
        OK(crt_job_status(id, &job, sizeof(job)));
    while (!job.end_ms);
    return job;
}

static void a_job_is_submitted_followed_and_found(void **state)
{
    const char *const variables[] = {"COLOUR=blue", NULL};
    crt_job_info_t jobs[8], job;
    char id[CRT_JOB_ID_SIZE], text[200];
    size_t count = 0, found = 0;

    OK(crt_job_submit("echo is $COLOUR; exit 3",
                      CRT_JOB_OPTIONS(.environment = variables), id, sizeof(id)));
    read_log(id, text, sizeof(text));
    assert_non_null(strstr(text, "is blue\n")); /* behind a line of the node's */
    job = ended_job(id);
    assert_int_equal(job.state, CRT_JOB_FAILED);
    assert_true(job.has_exit);
    assert_int_equal(job.exit_code, 3);
    assert_string_equal(job.id, id);
    assert_string_equal(job.command, "echo is $COLOUR; exit 3");
    assert_string_equal(job.node_id, crt_node_id());
    OK(crt_job_stop(id)); /* it has ended */
    OK(crt_jobs(jobs, sizeof(jobs[0]), 8, &count));
    assert_true(count >= 2 && count <= 8);
    for (size_t i = 0; i < count; i++)
        found += strcmp(jobs[i].job_id, crt_job_id()) == 0 || strcmp(jobs[i].id, id) == 0;
    assert_int_equal(found, 2); /* this program is one, too */
    assert_int_equal(crt_job_status("none", &job, sizeof(job)), CRT_ERR_NOT_FOUND);
    assert_int_equal(crt_job_status(id, &job, 8), CRT_ERR_INVALID);
}

static void a_job_is_stopped(void **state)
{
    char id[CRT_JOB_ID_SIZE], text[200];
    crt_job_info_t job;

    OK(crt_job_submit("echo begun; exec sleep 1000", CRT_JOB_OPTIONS(.id = "mine"), id,
                      sizeof(id)));
    assert_string_equal(id, "mine");
    do
        OK(crt_job_status(id, &job, sizeof(job)));
    while (job.state == CRT_JOB_PENDING);
    OK(crt_job_stop(id));
    job = ended_job(id);
    assert_int_equal(job.state, CRT_JOB_STOPPED);
    read_log(id, text, sizeof(text));
    assert_int_equal(
        crt_job_submit("true", CRT_JOB_OPTIONS(.id = "mine"), id, sizeof(id)),
        CRT_ERR_EXISTS);
    assert_int_equal(crt_job_stop("none"), CRT_ERR_NOT_FOUND);
    assert_int_equal(crt_job_stop(crt_job_id()), CRT_ERR_INVALID);
}

static void a_job_that_can_not_be_is_refused(void **state)
{
    const char *const wrong[] = {"=1", NULL};
    char id[CRT_JOB_ID_SIZE];

    assert_int_equal(crt_job_submit("", NULL, id, sizeof(id)), CRT_ERR_INVALID);
    assert_int_equal(crt_job_submit("true", NULL, id, 10), CRT_ERR_INVALID);
    assert_int_equal(crt_job_submit("true", CRT_JOB_OPTIONS(.id = "a b"), id, sizeof(id)),
                     CRT_ERR_INVALID);
    assert_int_equal(
        crt_job_submit("true", CRT_JOB_OPTIONS(.environment = wrong), id, sizeof(id)),
        CRT_ERR_INVALID);
    assert_int_equal(
        crt_job_submit("true", CRT_JOB_OPTIONS(.resources = "CPU"), id, sizeof(id)),
        CRT_ERR_INVALID);
    assert_int_equal(
        crt_job_submit("true", CRT_JOB_OPTIONS(.max_attempts = -1), id, sizeof(id)),
        CRT_ERR_INVALID);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_sees_its_node_and_what_is_free_of_it),
        cmocka_unit_test(resources_are_told_by_name_of_one_node_or_all),
        cmocka_unit_test(elements_may_have_another_size_than_the_librarys),
        cmocka_unit_test(named_actors_are_listed_by_name),
        cmocka_unit_test(keys_are_listed_by_prefix_in_order),
        cmocka_unit_test(a_value_is_swapped_only_for_what_was_expected),
        cmocka_unit_test(a_null_place_or_value_is_named),
        cmocka_unit_test(of_several_that_swap_at_once_one_wins),
        cmocka_unit_test(a_job_is_submitted_followed_and_found),
        cmocka_unit_test(a_job_is_stopped),
        cmocka_unit_test(a_job_that_can_not_be_is_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&idle), .num_cpus = 2,
                                .resources = "disk=3", .object_store_memory = 32 << 20),
                    driver);
}
