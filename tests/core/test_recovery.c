/* SPDX-License-Identifier: Apache-2.0 */
/* Restarts, full stores, too few resources, and the end of the node daemon. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ok.h"
#include "program.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"

#include <cmocka.h>

#define STORE_BYTES (32 << 20)

static int64_t get_int(crt_ref_t *ref)
{
    int64_t value = 0;

    OK(crt_get_for(ref, 20000, &value));
    crt_ref_drop(&ref);
    return value;
}

/* The value of a call that is made again while the actor restarts. */
static int64_t call_until_it_works(crt_actor_t *actor, const crt_method_t *method)
{
    int64_t value = -1;

    for (int i = 0; i < 100; i++) {
        crt_ref_t *ref = crt_call(actor, method);
        crt_status_t status = crt_get_for(ref, 20000, &value);

        crt_ref_drop(&ref);
        if (status == CRT_OK)
            return value;
    }
    fail_msg("%s", crt_error_detail());
    return value;
}

static void an_actor_is_restarted_as_often_as_it_may(void **state)
{
    crt_actor_t *counter =
        crt_actor_new(&counter_class, CRT_ACTOR_OPTIONS(.max_restarts = 1), 100);
    int64_t first, second;
    crt_ref_t *ref;

    assert_int_equal(get_int(crt_call(counter, &counter_add, 5)), 105);
    first = get_int(crt_call(counter, &counter_pid));
    ref = crt_call(counter, &counter_crash);
    assert_int_equal(crt_get_for(ref, 20000, NULL), CRT_ERR_ACTOR_DIED);
    assert_non_null(strstr(crt_error_detail(), "signal 11"));
    crt_ref_drop(&ref);
    second = call_until_it_works(counter, &counter_pid);
    assert_int_not_equal(first, second);
    assert_int_equal(get_int(crt_call(counter, &counter_get)), 100); /* created anew */
    ref = crt_call(counter, &counter_crash);
    assert_int_equal(crt_get_for(ref, 20000, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&ref);
    ref = crt_call(counter, &counter_get);
    assert_int_equal(crt_get_for(ref, 20000, NULL), CRT_ERR_ACTOR_DIED);
    assert_false(crt_ref_error(ref)->may_have_run);
    crt_ref_drop(&ref);
    crt_actor_drop(&counter);
}

static char logged[8192];

static void keep_line(void *user, int level, const char *line)
{
    size_t used = strlen(logged);

    snprintf(logged + used, sizeof(logged) - used, "%s\n", line);
}

/* They have names and no files: "@RUN_DIR/p-HEX.ipc". */
static size_t count_sockets(void)
{
    crt_cluster_info_t infos[64];
    size_t count, found = 0;

    OK(crt_cluster_list(infos, sizeof(infos[0]), 64, &count));
    for (size_t i = 0; i < count && i < 64; i++) {
        FILE *sockets = fopen("/proc/net/unix", "re");
        char line[512], name[160];

        assert_non_null(sockets);
        snprintf(name, sizeof(name), "@%s/p-", infos[i].run_dir);
        while (strcmp(infos[i].node, crt_node_id()) == 0 &&
               fgets(line, sizeof(line), sockets))
            /* Listening ones: what they accepted bears their name, too. */
            found += strstr(line, name) && strstr(line, " 00010000 ");
        fclose(sockets);
    }
    return found;
}

static void the_socket_of_a_killed_worker_goes_with_it(void **state)
{
    crt_actor_t *counter = crt_actor_new(&counter_class, NULL, 1);
    size_t before = 0;
    crt_ref_t *ref;

    assert_int_equal(get_int(crt_call(counter, &counter_get)), 1);
    before = count_sockets();
    assert_true(before >= 2); /* this driver's and the actor's */
    ref = crt_call(counter, &counter_crash);
    assert_int_equal(crt_get_for(ref, 20000, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&ref);
    /* The driver may hear it from the head; this answer comes behind the node's clearing up. */
    OK(crt_kv_put("after", "", 0, true));
    assert_int_equal(count_sockets(), before - 1);
    crt_actor_drop(&counter);
}

static void a_task_that_no_node_can_hold_says_why_it_waits(void **state)
{
    crt_ref_t *ref = crt_submit(&t_add, CRT_TASK_OPTIONS(.num_cpus = 3), 1, 2);

    logged[0] = '\0';
    crti_log_set_sink(keep_line, NULL);
    assert_int_equal(crt_get_for(ref, 2500, NULL), CRT_ERR_TIMED_OUT);
    crti_log_set_sink(NULL, NULL);
    if (!strstr(logged, "1 task waits: needs 3 CPU, the cluster has 2"))
        fail_msg("logged: %s", logged);
    crt_ref_drop(&ref);
}

static crt_ref_t *put_bytes(size_t size)
{
    char *bytes = calloc(1, size);
    crt_ref_t *ref = crt_put(((crt_bytes_t){bytes, size}));

    free(bytes);
    return ref;
}

static void a_full_store_makes_creators_wait_and_then_says_so(void **state)
{
    enum { MOST = 64 };
    crt_ref_t *refs[MOST], *again;
    size_t count = 0;

    while (count < MOST) { /* what was got stays in memory as long as its ref */
        refs[count] = put_bytes(1 << 20);
        if (crt_ref_error(refs[count++]))
            break;
        OK(crt_get(refs[count - 1], NULL));
    }
    assert_true(count > 8 && count < MOST);
    assert_int_equal(crt_ref_error(refs[count - 1])->status, CRT_ERR_STORE_FULL);
    assert_non_null(strstr(crt_ref_error(refs[count - 1])->text, "largest users"));
    crt_refs_drop(refs, count);
    again = put_bytes(8 << 20);
    OK(crt_get(again, NULL));
    crt_ref_drop(&again);
}

static void the_store_is_used_again_and_again(void **state)
{
    for (int i = 0; i < 200; i++) {
        crt_ref_t *ref = put_bytes(4 << 20), *floats, *sum;
        double total;

        OK(crt_get(ref, NULL));
        crt_ref_drop(&ref);
        floats = crt_submit(&t_floats, NULL, 1 << 19, 1.0);
        sum = crt_submit(&t_sum, NULL, floats);
        crt_ref_drop(&floats);
        OK(crt_get_for(sum, 20000, &total));
        assert_true(total == 1 << 19);
        crt_ref_drop(&sum);
    }
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

static pid_t pid_of_head(void)
{
    CRTI_AUTO(free) char *text = NULL;
    crt_cluster_info_t infos[64];
    char path[200];
    size_t count;

    OK(crt_cluster_list(infos, sizeof(infos[0]), 64, &count));
    for (size_t i = 0; i < count && i < 64; i++) {
        if (strcmp(infos[i].node, crt_node_id()) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/head.info", infos[i].head_dir);
        OK(crti_info_read(path, &text));
        return (pid_t)crti_info_int(text, "pid");
    }
    fail_msg("this node is not listed");
    return 0;
}

static void a_head_that_stays_away_is_named(void **state)
{
    pid_t head = pid_of_head();
    crt_status_t status;
    char said[300];

    assert_int_equal(kill(head, SIGSTOP), 0);
    status = crt_kv_put("k", "v", 1, true);
    snprintf(said, sizeof(said), "%s", crt_error_detail());
    kill(head, SIGCONT);
    assert_int_equal(status, CRT_ERR_HEAD_LOST);
    assert_non_null(strstr(said, "did not come back"));
    OK(crt_kv_put("k", "v", 1, true));
}

static void the_end_of_the_node_daemon_ends_every_wait(void **state)
{
    crt_actor_t *counter = crt_actor_new(&counter_class, NULL, 1);
    crt_ref_t *call, *task, *late;

    assert_int_equal(get_int(crt_call(counter, &counter_get)), 1);
    call = crt_call(counter, &counter_sleep, 60000);
    task = crt_submit(&t_sleep, NULL, 60000);
    kill((pid_t)pid_of_node(), SIGKILL);
    assert_int_equal(crt_get_for(call, 1000, NULL), CRT_ERR_NODE_LOST);
    assert_int_equal(crt_get_for(task, 1000, NULL), CRT_ERR_NODE_LOST);
    late = crt_submit(&t_add, NULL, 1, 2);
    assert_int_equal(crt_get(late, NULL), CRT_ERR_NODE_LOST);
    assert_int_equal(crt_kv_put("k", "v", 1, true), CRT_ERR_NODE_LOST);
    crt_refs_drop((crt_ref_t *[]){call, task, late}, 3);
    crt_actor_drop(&counter);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_actor_is_restarted_as_often_as_it_may),
        cmocka_unit_test(the_socket_of_a_killed_worker_goes_with_it),
        cmocka_unit_test(a_task_that_no_node_can_hold_says_why_it_waits),
        cmocka_unit_test(a_full_store_makes_creators_wait_and_then_says_so),
        cmocka_unit_test(the_store_is_used_again_and_again),
        cmocka_unit_test(a_head_that_stays_away_is_named),
        cmocka_unit_test(the_end_of_the_node_daemon_ends_every_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = PROGRAM_CLASSES, .tasks = PROGRAM_TASKS,
                                .num_cpus = 2, .object_store_memory = STORE_BYTES),
                    driver);
}
