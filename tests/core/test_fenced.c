/* SPDX-License-Identifier: Apache-2.0 */
/* Fenced actors on a private cluster whose daemons are stopped and go on again: what their callers
 * see. What runs where during a cut: tests/cluster/test_fenced.py. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define PATIENCE_MS 60000
#define FENCE_S     4.0

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---------------------------------------------------------------- in the worker */

/* When it ran, so that a test knows what ran when. */
static crt_status_t ledger_add_run(void *self, crt_call_t *call)
{
    return crt_return(call, now_s());
}
static const crt_method_t ledger_add =
    CRT_METHOD(.name = "add", .run = ledger_add_run, .signature = "");

/* Runs until the other end of the pipe is closed. */
static crt_status_t ledger_linger_run(void *self, crt_call_t *call)
{
    const char *path;
    FILE *file;
    int byte;

    CRT_TRY(crt_args(call, &path));
    file = fopen(path, "re");
    byte = file ? fgetc(file) : 0;
    if (file)
        fclose(file);
    return byte == EOF ? CRT_OK : crt_fail(call, CRT_ERR_IO, "no pipe %s", path);
}
static const crt_method_t ledger_linger =
    CRT_METHOD(.name = "linger", .run = ledger_linger_run, .signature = "string");

static crt_status_t ledger_pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static const crt_method_t ledger_pid =
    CRT_METHOD(.name = "pid", .run = ledger_pid_run, .signature = "");

static const crt_actor_class_t ledger_class =
    CRT_ACTOR_CLASS(.name = "Ledger",
                    .methods = CRT_METHODS(&ledger_add, &ledger_linger, &ledger_pid));

/* ---------------------------------------------------------------- in the driver */

static pid_t pid_of(const char *daemon)
{
    crt_cluster_info_t infos[64];
    char path[160], line[256];
    size_t count;
    int pid = 0;
    FILE *file;

    OK(crt_cluster_list(infos, sizeof(infos[0]), 64, &count));
    for (size_t i = 0; i < count && i < 64; i++) {
        if (strcmp(infos[i].node, crt_node_id()) != 0)
            continue;
        if (strcmp(daemon, "node") == 0)
            return (pid_t)infos[i].pid;
        snprintf(path, sizeof(path), "%s/head.info", infos[i].head_dir);
        file = fopen(path, "re");
        assert_non_null(file);
        while (pid == 0 && fgets(line, sizeof(line), file))
            sscanf(line, "pid %d", &pid);
        fclose(file);
    }
    assert_true(pid > 0);
    return pid;
}

/* One look in 20 ms: others work here too. */
static void breathe(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* Whatever became of the test: nothing stays stopped. */
static int wake_all(void **state)
{
    kill(pid_of("node"), SIGCONT);
    kill(pid_of("head"), SIGCONT);
    return 0;
}

static crt_actor_t *make(bool fenced)
{
    crt_actor_t *ledger =
        crt_actor_new(&ledger_class, CRT_ACTOR_OPTIONS(.fenced = fenced));

    OK(crt_actor_ready(ledger, PATIENCE_MS));
    return ledger;
}

static crt_status_t add(crt_actor_t *ledger, double *at)
{
    crt_ref_t *ref = crt_call(ledger, &ledger_add);
    crt_status_t status = crt_get_for(ref, PATIENCE_MS, at);

    if (status != CRT_OK) {
        assert_int_equal(status, CRT_ERR_HEAD_LOST);
        assert_false(crt_ref_error(ref)->may_have_run);
        assert_string_equal(crt_ref_error(ref)->method, "add");
        assert_non_null(strstr(crt_ref_error(ref)->text, "is fenced"));
        assert_non_null(strstr(crt_ref_error(ref)->text, "did not run"));
    }
    crt_ref_drop(&ref);
    return status;
}

/* Calls until one is refused: the last that ran began in time. */
static void is_refused_in_time(crt_actor_t *fenced, crt_actor_t *free_one, double stopped)
{
    double last = stopped, at;

    while (add(fenced, &at) == CRT_OK) {
        last = at;
        breathe();
    }
    assert_true(now_s() - stopped < 60);
    /* The last heartbeat that was answered was sent before. */
    assert_true(last - stopped < FENCE_S);
    OK(add(free_one, &at));
}

static void is_taken_again(crt_actor_t *fenced)
{
    double began = now_s(), at;

    while (add(fenced, &at) != CRT_OK) {
        assert_true(now_s() - began < 60);
        breathe();
    }
}

static void without_a_head_a_fenced_actor_takes_calls_for_four_seconds(void **state)
{
    crt_actor_t *fenced = make(true), *free_one = make(false);
    pid_t head = pid_of("head");
    double began, at;

    OK(add(fenced, &at));
    began = now_s();
    assert_int_equal(kill(head, SIGSTOP), 0);
    is_refused_in_time(fenced, free_one, began);
    assert_int_equal(kill(head, SIGCONT), 0);
    is_taken_again(fenced);
    crt_actor_drop(&fenced);
    crt_actor_drop(&free_one);
}

static void a_stopped_node_daemon_shuts_the_fence_of_its_workers(void **state)
{
    crt_actor_t *fenced = make(true), *free_one = make(false);
    pid_t node = pid_of("node");
    double began, at;

    OK(add(fenced, &at));
    OK(add(free_one,
           &at)); /* while its node daemon is stopped nobody is told where it lives */
    began = now_s();
    assert_int_equal(kill(node, SIGSTOP), 0);
    is_refused_in_time(fenced, free_one, began);
    assert_int_equal(kill(node, SIGCONT), 0);
    crt_actor_drop(&fenced);
    crt_actor_drop(&free_one);
}

static void calls_that_waited_in_the_mailbox_are_refused_too(void **state)
{
    crt_actor_t *fenced = make(true), *free_one = make(false);
    char path[] = "/tmp/crt-fenced-XXXXXX", fifo[64];
    pid_t head = pid_of("head");
    crt_ref_t *lingers, *waits;
    double began, at;
    FILE *end;

    assert_non_null(mkdtemp(path));
    snprintf(fifo, sizeof(fifo), "%s/fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    lingers = crt_call(fenced, &ledger_linger, fifo);
    waits = crt_call(fenced, &ledger_add);
    end = fopen(fifo, "we"); /* it runs now */
    assert_non_null(end);
    began = now_s();
    assert_int_equal(kill(head, SIGSTOP), 0);
    while (now_s() - began <= FENCE_S) {
        OK(add(free_one, &at));
        breathe();
    }
    fclose(end);
    OK(crt_get_for(lingers, PATIENCE_MS, NULL)); /* what has begun is not ended */
    assert_int_equal(crt_get_for(waits, PATIENCE_MS, &at), CRT_ERR_HEAD_LOST);
    assert_int_equal(kill(head, SIGCONT), 0);
    is_taken_again(fenced);
    crt_ref_drop(&lingers);
    crt_ref_drop(&waits);
    unlink(fifo);
    rmdir(path);
    crt_actor_drop(&fenced);
    crt_actor_drop(&free_one);
}

static void a_worker_that_was_stopped_looks_before_it_goes_on(void **state)
{
    crt_actor_t *fenced = make(true), *free_one = make(false);
    pid_t head = pid_of("head");
    crt_ref_t *ref, *waits[3];
    double began, at;
    int64_t pid;

    ref = crt_call(fenced, &ledger_pid);
    OK(crt_get_for(ref, PATIENCE_MS, &pid));
    crt_ref_drop(&ref);
    assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
    for (int i = 0; i < 3; i++)
        waits[i] = crt_call(fenced, &ledger_add);
    assert_int_equal(crt_get_for(waits[0], 10, &at), CRT_ERR_TIMED_OUT); /* they left */
    began = now_s();
    assert_int_equal(kill(head, SIGSTOP), 0);
    while (now_s() - began <= FENCE_S) {
        OK(add(free_one, &at));
        breathe();
    }
    assert_int_equal(kill((pid_t)pid, SIGCONT), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(crt_get_for(waits[i], PATIENCE_MS, &at), CRT_ERR_HEAD_LOST);
        crt_ref_drop(&waits[i]);
    }
    assert_int_equal(kill(head, SIGCONT), 0);
    is_taken_again(fenced);
    crt_actor_drop(&fenced);
    crt_actor_drop(&free_one);
}

static int driver(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_teardown(name, wake_all)
    const struct CMUnitTest tests[] = {
        TEST(without_a_head_a_fenced_actor_takes_calls_for_four_seconds),
        TEST(calls_that_waited_in_the_mailbox_are_refused_too),
        TEST(a_worker_that_was_stopped_looks_before_it_goes_on),
        TEST(a_stopped_node_daemon_shuts_the_fence_of_its_workers),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&ledger_class), .num_cpus = 2,
                                .object_store_memory = 32 << 20),
                    driver);
}
