/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input and bad luck: each gives a clear error in the right place and costs nobody else
 * anything. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ok.h"
#include "program.h"

#include <cmocka.h>

/* The call failed with this status and a text that holds `part`. */
static void check_failed(crt_ref_t *ref, crt_status_t status, const char *part)
{
    crt_status_t got = crt_get_for(ref, 20000, NULL);

    if (got != status || !strstr(crt_error_detail(), part))
        fail_msg("wanted %s with \"%s\", got %s: %s", crt_status_name(status), part,
                 crt_status_name(got), crt_error_detail());
    assert_int_equal(crt_ref_error(ref)->status, status);
    crt_ref_drop(&ref);
}

static crt_actor_t *new_counter(void)
{
    return crt_actor_new(&counter_class, NULL, 0);
}

static void end_counter(crt_actor_t *counter)
{
    crt_actor_kill(counter, NULL);
    crt_actor_drop(&counter);
}

static void wrong_arguments_are_named_at_the_caller(void **state)
{
    crt_actor_t *counter = new_counter();

    check_failed(crt_call(counter, &counter_add), CRT_ERR_INVALID,
                 "Counter.add takes 1 argument, 0 given");
    check_failed(crt_call(counter, &counter_add, "x"), CRT_ERR_INVALID,
                 "Counter.add: argument 1 is of kind string, int is wanted");
    check_failed(crt_submit(&t_add, NULL, 1, 2, 3), CRT_ERR_INVALID,
                 "add takes 2 arguments");
    check_failed(crt_call(counter, &counter_add, 2.5), CRT_ERR_INVALID,
                 "does not fit in int64");
    check_failed(crt_submit(&t_absent, NULL), CRT_ERR_INVALID,
                 "task absent is not in this program");
    check_failed(crt_call(NULL, &counter_add, 1), CRT_ERR_INVALID, "NULL");
    check_failed(crt_call(counter, &counter_add, UINT64_MAX), CRT_ERR_INVALID,
                 "Counter.add: argument 1 is 18446744073709551615: an int is at most "
                 "9223372036854775807");
    check_failed(crt_put(UINT64_MAX), CRT_ERR_INVALID,
                 "crt_put: 18446744073709551615 is too large");
    end_counter(counter);
}

static void the_kind_of_a_refs_value_is_checked_where_it_is_read(void **state)
{
    crt_ref_t *text = crt_put("text");

    check_failed(crt_submit(&t_add, NULL, text, 1), CRT_ERR_INVALID,
                 "add: argument 1 is of kind string, int64 is wanted");
    crt_ref_drop(&text);
}

static void a_failing_function_says_where_it_failed(void **state)
{
    crt_ref_t *ref = crt_submit(&t_fail, NULL);
    const crt_error_t *error;

    assert_int_equal(crt_get(ref, NULL), CRT_ERR_USER);
    error = crt_ref_error(ref);
    assert_string_equal(error->text, "on purpose, 42");
    assert_string_equal(error->method, "fail");
    assert_string_equal(error->node, crt_node_id());
    assert_true(error->pid > 0 && error->pid != getpid());
    assert_true(error->may_have_run);
    crt_ref_drop(&ref);
}

static void a_failed_argument_fails_the_call_with_its_error(void **state)
{
    crt_actor_t *counter = new_counter();
    crt_ref_t *failed = crt_submit(&t_fail, NULL);
    crt_ref_t *call = crt_call(counter, &counter_add, failed), *after;
    int64_t value;

    assert_int_equal(crt_get(call, NULL), CRT_ERR_USER);
    assert_string_equal(crt_ref_error(call)->method, "fail");
    assert_false(crt_ref_error(call)->may_have_run);
    after = crt_call(counter, &counter_add, 1);
    OK(crt_get(after, &value));
    assert_int_equal(value, 1);
    crt_refs_drop((crt_ref_t *[]){failed, call, after}, 3);
    end_counter(counter);
}

static void a_crash_is_reported_with_signal_and_method(void **state)
{
    crt_actor_t *counter = new_counter();
    crt_ref_t *ref = crt_call(counter, &counter_crash);
    const crt_task_options_t *once = CRT_TASK_OPTIONS(.max_attempts = 1);

    assert_int_equal(crt_get_for(ref, 20000, NULL), CRT_ERR_ACTOR_DIED);
    assert_non_null(strstr(crt_error_detail(), "signal 11"));
    assert_non_null(strstr(crt_error_detail(), "Counter.crash"));
    assert_true(crt_ref_error(ref)->may_have_run);
    crt_ref_drop(&ref);
    check_failed(crt_call(counter, &counter_get), CRT_ERR_ACTOR_DIED, "signal 11");
    crt_actor_drop(&counter);
    check_failed(crt_submit(&t_segv, once), CRT_ERR_WORKER_DIED, "signal 11");
}

static void an_exit_is_reported_with_its_status(void **state)
{
    crt_actor_t *counter = new_counter();
    crt_ref_t *task = crt_submit(&t_exit, CRT_TASK_OPTIONS(.max_attempts = 1));
    char pid[32];

    check_failed(crt_call(counter, &counter_exit), CRT_ERR_ACTOR_DIED,
                 "exited with status 3");
    crt_actor_drop(&counter);
    assert_int_equal(crt_get(task, NULL), CRT_ERR_WORKER_DIED);
    assert_non_null(strstr(crt_error_detail(), "exited with status 7"));
    snprintf(pid, sizeof(pid), "pid %lld)", (long long)crt_ref_error(task)->pid);
    assert_non_null(strstr(crt_error_detail(), pid));
    crt_ref_drop(&task);
}

static void a_function_that_returns_no_status_fails_its_call(void **state)
{
    crt_ref_t *fine = crt_submit(&t_number, NULL, 0);

    OK(crt_get_for(fine, 20000, NULL));
    crt_ref_drop(&fine);
    for (int number = 1; number <= 4; number++) {
        char text[40];

        snprintf(text, sizeof(text), "number returned %d: ", number);
        check_failed(crt_submit(&t_number, NULL, number), CRT_ERR_INVALID, text);
    }
    check_failed(crt_submit(&t_number, NULL, -40), (crt_status_t)-40,
                 "number returned -40: unknown status");
    check_failed(crt_submit(&t_number, NULL, CRT_ERR_IO), CRT_ERR_IO,
                 "input or output failed");
}

static void a_function_that_ends_its_thread_ends_the_worker_and_is_named(void **state)
{
    const crt_task_options_t *once = CRT_TASK_OPTIONS(.max_attempts = 1);
    crt_ref_t *sleep;

    check_failed(crt_submit(&t_end_thread, once), CRT_ERR_WORKER_DIED,
                 "end_thread ended its thread (pthread_exit");
    for (int threads = 1; threads <= 2; threads++) { /* the main one is busy, or not */
        crt_actor_t *counter = crt_actor_new(
            &counter_class, CRT_ACTOR_OPTIONS(.max_concurrency = threads), 0);

        sleep = threads == 2 ? crt_call(counter, &counter_sleep, 60000) : NULL;
        check_failed(crt_call(counter, &counter_end_thread), CRT_ERR_ACTOR_DIED,
                     "Counter.end_thread ended its thread (pthread_exit");
        crt_ref_drop(&sleep);
        crt_actor_drop(&counter);
    }
}

/* Both workers have printed. */
static void the_output_of_earlier_tasks_is_not_that_of_a_crash(void **state)
{
    const crt_task_options_t *once = CRT_TASK_OPTIONS(.max_attempts = 1);
    crt_ref_t *prints[4], *ref;

    for (int i = 0; i < 4; i++)
        prints[i] = crt_submit(&t_print, NULL, "of another task", 200);
    for (int i = 0; i < 4; i++)
        OK(crt_get_for(prints[i], 20000, NULL));
    crt_refs_drop(prints, 4);
    ref = crt_submit(&t_exit, once);
    assert_int_equal(crt_get_for(ref, 20000, NULL), CRT_ERR_WORKER_DIED);
    assert_null(strstr(crt_error_detail(), "of another task"));
    crt_ref_drop(&ref);
}

static void a_null_call_is_invalid(void **state)
{
    char id[CRT_OBJECT_ID_SIZE];
    crt_actor_t *self = NULL;
    int64_t number;

    assert_int_equal(crt_arg_count(NULL), 0);
    assert_int_equal(crt_args(NULL, &number), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "crt_args: the call is NULL");
    assert_int_equal(crt_arg_at(NULL, 0, &number), CRT_ERR_INVALID);
    assert_int_equal(crt_return(NULL, 1), CRT_ERR_INVALID);
    assert_int_equal(crt_return_at(NULL, 1, 1), CRT_ERR_INVALID);
    assert_int_equal(crt_return_count(NULL), 0);
    assert_int_equal(crt_yield(NULL, 1), CRT_ERR_INVALID);
    assert_int_equal(crt_fail(NULL, CRT_ERR_IO, "%d", 1), CRT_ERR_IO);
    assert_int_equal(crt_fail_text(NULL, CRT_ERR_IO, "1"), CRT_ERR_IO);
    assert_int_equal(crt_actor_exit(NULL), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "crt_actor_exit: the call is NULL");
    assert_int_equal(crt_actor_save(NULL, "1", 1), CRT_ERR_INVALID);
    assert_int_equal(crt_actor_self(NULL, &self), CRT_ERR_INVALID);
    assert_int_equal(crt_task_id(NULL, id, sizeof(id)), CRT_ERR_INVALID);
    assert_int_equal(crt_call_attempt(NULL), 0);
    assert_string_equal(crt_call_name(NULL), "");
    assert_null(crt_call_user(NULL));
    assert_false(crt_cancelled(NULL));
}

static void a_killed_worker_is_an_error_within_a_second(void **state)
{
    crt_actor_t *counter = new_counter();
    crt_ref_t *pid_ref = crt_call(counter, &counter_pid), *ref;
    int pid;

    OK(crt_get(pid_ref, &pid));
    ref = crt_call(counter, &counter_sleep, 60000);
    kill(pid, SIGKILL);
    assert_int_equal(crt_get_for(ref, 1000, NULL), CRT_ERR_ACTOR_DIED);
    assert_non_null(strstr(crt_error_detail(), "signal 9"));
    assert_int_equal(crt_ref_error(ref)->pid, pid);
    assert_string_equal(crt_ref_error(ref)->node, crt_node_id());
    crt_refs_drop((crt_ref_t *[]){pid_ref, ref}, 2);
    crt_actor_drop(&counter);
}

/* The caller may have its answer still, and then the actor is dead; it never waits for nothing. */
static void a_worker_that_closes_all_files_fails_its_calls(void **state)
{
    /* At once; while its code runs on; and with other files in their places. */
    const int64_t after_ms[] = {0, 600000, 0}, pipes[] = {0, 0, 40};

    for (int i = 0; i < 3; i++) {
        crt_actor_t *counter = new_counter();
        crt_ref_t *ref = crt_call(counter, &counter_close_files, after_ms[i], pipes[i]);
        crt_status_t status;

        crt_get_for(ref, 20000, NULL);
        assert_true(crt_ref_is_ready(ref));
        crt_ref_drop(&ref);
        do { /* calls that it had received may be answered before it notices */
            crt_ref_t *next = crt_call(counter, &counter_get);

            status = crt_get_for(next, 20000, NULL);
            crt_ref_drop(&next);
        } while (status == CRT_OK);
        assert_int_equal(status, CRT_ERR_ACTOR_DIED);
        assert_non_null(
            strstr(crt_error_detail(), "closed the descriptors of the runtime"));
        crt_actor_drop(&counter);
    }
}

static void a_create_that_fails_is_every_callers_error(void **state)
{
    crt_actor_t *broken = crt_actor_new(&broken_class, NULL, "no such luck");

    check_failed(crt_call(broken, &broken_get), CRT_ERR_INVALID, "no such luck");
    check_failed(crt_call(broken, &broken_get), CRT_ERR_INVALID, "no such luck");
    crt_actor_drop(&broken);
}

static void ready_is_the_error_of_a_create_that_fails(void **state)
{
    for (int i = 0; i < 5; i++) { /* before its process is gone, or after */
        crt_actor_t *broken = crt_actor_new(&broken_class, NULL, "no such luck");

        assert_int_equal(crt_actor_ready(broken, 20000), CRT_ERR_INVALID);
        assert_non_null(strstr(crt_error_detail(), "no such luck"));
        assert_int_equal(crt_actor_ready(broken, 20000), CRT_ERR_INVALID);
        assert_non_null(strstr(crt_error_detail(), "no such luck"));
        crt_actor_drop(&broken);
    }
}

static void ready_waits_for_create_and_not_for_calls(void **state)
{
    char dir[] = "/tmp/crt-gate-XXXXXX", path[64];
    crt_actor_t *gated;
    crt_ref_t *ref;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    gated = crt_actor_new(&gated_class, NULL, path);
    assert_int_equal(crt_actor_ready(gated, 200), CRT_ERR_TIMED_OUT);
    close(open(path, O_WRONLY | O_CLOEXEC));
    OK(crt_actor_ready(gated, 20000));
    ref = crt_call(gated, &gated_wait, path);
    OK(crt_actor_ready(gated, 20000)); /* it is busy, and has long been created */
    assert_false(crt_ref_is_ready(ref));
    close(open(path, O_WRONLY | O_CLOEXEC));
    OK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
    OK(crt_actor_kill(gated, NULL));
    assert_int_equal(crt_actor_ready(gated, 20000), CRT_ERR_ACTOR_DIED);
    crt_actor_drop(&gated);
    unlink(path);
    rmdir(dir);
}

/* crt_object_create of that, and a put of such a tensor. */
static void tensor_refused(crt_dtype_t dtype, int rank, const int64_t *shape,
                           const char *text)
{
    crt_object_t *object;
    crt_tensor_t tensor = {.dtype = dtype, .rank = rank, .data = &tensor};

    assert_int_equal(crt_object_create(dtype, rank, shape, &object, &tensor),
                     CRT_ERR_INVALID);
    if (!strstr(crt_error_detail(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, crt_error_detail());
    for (int i = 0; shape && i < rank && i < CRT_TENSOR_DIMS; i++)
        tensor.shape[i] = shape[i];
    if (rank == 0 || shape)
        check_failed(crt_put(&tensor), CRT_ERR_INVALID, text);
}

static void a_tensor_that_is_none_says_what_is_wrong_with_it(void **state)
{
    static const int64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, negative[2] = {2, -5},
                         huge[2] = {INT64_MAX, 8};
    crt_object_t *object;

    tensor_refused(CRT_DTYPE_FLOAT32, 2, negative, "with -5 elements in dimension 1");
    tensor_refused(CRT_DTYPE_FLOAT32, 9, ones, "a tensor of rank 9: it is 0 to 8");
    tensor_refused(CRT_DTYPE_FLOAT32, -1, ones, "a tensor of rank -1: it is 0 to 8");
    tensor_refused((crt_dtype_t)77, 1, ones, "77 is no dtype");
    tensor_refused(CRT_DTYPE_FLOAT32, 2, huge, "too large for any memory");
    tensor_refused(CRT_DTYPE_FLOAT32, 2, NULL, "its shape is NULL");
    assert_int_equal(crt_object_create(CRT_DTYPE_FLOAT32, 1, ones, &object, NULL),
                     CRT_ERR_INVALID);
}

static void a_resource_that_is_named_twice_is_refused(void **state)
{
    crt_actor_t *counter =
        crt_actor_new(&counter_class, CRT_ACTOR_OPTIONS(.resources = "x=1,x=2"), 1);

    check_failed(crt_call(counter, &counter_get), CRT_ERR_INVALID,
                 "resource \"x\" is given twice");
    crt_actor_drop(&counter);
    counter = crt_actor_new(&counter_class,
                            CRT_ACTOR_OPTIONS(.num_cpus = 1, .resources = "CPU=1"), 1);
    check_failed(crt_call(counter, &counter_get), CRT_ERR_INVALID,
                 "resource \"CPU\" is given twice");
    crt_actor_drop(&counter);
    check_failed(crt_submit(&t_add, CRT_TASK_OPTIONS(.resources = "x=1,x=2"), 1, 2),
                 CRT_ERR_INVALID, "resource \"x\" is given twice");
}

static void a_value_larger_than_the_store_is_refused(void **state)
{
    int64_t shape = (int64_t)1 << 32;
    crt_object_t *object;
    crt_tensor_t view;

    assert_int_equal(crt_object_create(CRT_DTYPE_UINT8, 1, &shape, &object, &view),
                     CRT_ERR_TOO_LARGE);
    check_failed(crt_submit(&t_big_object, NULL, shape), CRT_ERR_TOO_LARGE, "");
}

static void a_get_times_out_and_can_be_tried_again(void **state)
{
    crt_ref_t *ref = crt_submit(&t_sleep, NULL, 100);

    assert_int_equal(crt_get_for(ref, 10, NULL), CRT_ERR_TIMED_OUT);
    OK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
}

static void too_much_in_flight_is_backpressure_and_the_rest_arrives(void **state)
{
    enum { MOST = 2000 };
    static char bytes[60000];
    crt_actor_t *counter = new_counter();
    crt_ref_t *slow = crt_call(counter, &counter_sleep, 3000), *refs[MOST];
    size_t count = 0, ready;

    do {
        refs[count] =
            crt_call_with(counter, &counter_swallow, CRT_CALL_OPTIONS(.try_only = true),
                          ((crt_bytes_t){bytes, sizeof(bytes)}));
        if (crt_ref_error(refs[count++]))
            break;
    } while (count < MOST);
    assert_true(count > 100 && count < MOST);
    check_failed(refs[--count], CRT_ERR_BACKPRESSURE, "wait for actor");
    /* Without try_only the caller waits for room. */
    refs[count++] = crt_call(counter, &counter_swallow, ((crt_bytes_t){bytes, 100}));
    OK(crt_wait(refs, count, count, 20000, NULL, &ready));
    for (size_t i = 0; i < count; i++)
        OK(crt_get(refs[i], NULL));
    crt_refs_drop(refs, count);
    crt_ref_drop(&slow);
    end_counter(counter);
}

static void too_many_waiting_tasks_are_backpressure_and_the_rest_arrives(void **state)
{
    enum { MOST = 5000 };
    static char bytes[60000];
    char dir[] = "/tmp/crt-gate-XXXXXX", path[64];
    crt_ref_t **refs = calloc(MOST, sizeof(*refs)), *gate;
    size_t count = 0, ready;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    /* One at a time takes the whole cluster. */
    gate = crt_submit(&t_gate, CRT_TASK_OPTIONS(.num_cpus = 2), path);
    do {
        refs[count] =
            crt_submit(&t_swallow, CRT_TASK_OPTIONS(.num_cpus = 2, .try_only = true),
                       ((crt_bytes_t){bytes, sizeof(bytes)}));
        if (crt_ref_error(refs[count++]))
            break;
    } while (count < MOST);
    assert_true(count > 2000 && count < MOST);
    check_failed(refs[--count], CRT_ERR_BACKPRESSURE, "wait for workers");
    close(open(path, O_WRONLY | O_CLOEXEC)); /* waits until the task reads */
    /* Without try_only the caller waits for room; another shape has a queue of its own. */
    refs[count++] = crt_submit(&t_swallow, CRT_TASK_OPTIONS(.num_cpus = 2),
                               ((crt_bytes_t){bytes, 100}));
    refs[count++] = crt_submit(&t_swallow, CRT_TASK_OPTIONS(.try_only = true),
                               ((crt_bytes_t){bytes, 100}));
    OK(crt_wait(refs, count, count, 60000, NULL, &ready));
    for (size_t i = 0; i < count; i++)
        OK(crt_get(refs[i], NULL));
    crt_refs_drop(refs, count);
    free(refs);
    OK(crt_get(gate, NULL));
    crt_ref_drop(&gate);
    unlink(path);
    rmdir(dir);
}

static void a_call_to_oneself_is_a_deadlock(void **state)
{
    crt_actor_t *counter = new_counter();

    check_failed(crt_call(counter, &counter_call_self, counter), CRT_ERR_DEADLOCK,
                 "Counter.get of its own actor");
    end_counter(counter);
}

static void a_cycle_of_waiting_actors_is_a_deadlock(void **state)
{
    crt_actor_t *a = new_counter(), *b = new_counter();

    check_failed(crt_call(a, &counter_call_other, b, 1, a), CRT_ERR_DEADLOCK,
                 "Counter.call_other -> Counter.call_other");
    end_counter(a);
    end_counter(b);
}

static void a_forked_child_is_refused_and_ends_nothing(void **state)
{
    crt_ref_t *ref = crt_put(3);
    int64_t value;
    int status;
    pid_t child = fork();

    if (child == 0) {
        crt_ref_t *made = crt_put(1);
        int wrong = crt_get(ref, &value) != CRT_ERR_FORKED;

        wrong |= crt_get(made, NULL) != CRT_ERR_FORKED;
        wrong |= crt_shutdown() != CRT_ERR_FORKED;
        crt_ref_drop(&ref);
        _exit(wrong);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    OK(crt_get(ref, &value));
    assert_int_equal(value, 3);
    crt_ref_drop(&ref);
}

static void an_owner_that_died_is_named(void **state)
{
    crt_ref_t *list_ref = crt_submit(&t_put_list, NULL, 3), *inner, *pid_ref;
    const crt_value_t *list;

    OK(crt_get(list_ref, &list));
    OK(crt_value_read(crt_value_at(list, 0), &inner));
    inner = crt_ref_keep(inner);
    crt_ref_drop(&list_ref);
    /* The worker that put it owns it; tasks that crash take it down. */
    for (int i = 0; i < 4; i++) {
        pid_ref = crt_submit(&t_segv, NULL);
        crt_get(pid_ref, NULL);
        crt_ref_drop(&pid_ref);
    }
    assert_int_equal(crt_get_for(inner, 20000, NULL), CRT_ERR_OWNER_DIED);
    crt_ref_drop(&inner);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_arguments_are_named_at_the_caller),
        cmocka_unit_test(the_kind_of_a_refs_value_is_checked_where_it_is_read),
        cmocka_unit_test(a_failing_function_says_where_it_failed),
        cmocka_unit_test(a_failed_argument_fails_the_call_with_its_error),
        cmocka_unit_test(a_crash_is_reported_with_signal_and_method),
        cmocka_unit_test(an_exit_is_reported_with_its_status),
        cmocka_unit_test(a_function_that_returns_no_status_fails_its_call),
        cmocka_unit_test(a_function_that_ends_its_thread_ends_the_worker_and_is_named),
        cmocka_unit_test(the_output_of_earlier_tasks_is_not_that_of_a_crash),
        cmocka_unit_test(a_null_call_is_invalid),
        cmocka_unit_test(a_killed_worker_is_an_error_within_a_second),
        cmocka_unit_test(a_worker_that_closes_all_files_fails_its_calls),
        cmocka_unit_test(a_create_that_fails_is_every_callers_error),
        cmocka_unit_test(ready_is_the_error_of_a_create_that_fails),
        cmocka_unit_test(ready_waits_for_create_and_not_for_calls),
        cmocka_unit_test(a_tensor_that_is_none_says_what_is_wrong_with_it),
        cmocka_unit_test(a_resource_that_is_named_twice_is_refused),
        cmocka_unit_test(a_value_larger_than_the_store_is_refused),
        cmocka_unit_test(a_get_times_out_and_can_be_tried_again),
        cmocka_unit_test(too_much_in_flight_is_backpressure_and_the_rest_arrives),
        cmocka_unit_test(too_many_waiting_tasks_are_backpressure_and_the_rest_arrives),
        cmocka_unit_test(a_call_to_oneself_is_a_deadlock),
        cmocka_unit_test(a_cycle_of_waiting_actors_is_a_deadlock),
        cmocka_unit_test(a_forked_child_is_refused_and_ends_nothing),
        cmocka_unit_test(an_owner_that_died_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = PROGRAM_CLASSES, .tasks = PROGRAM_TASKS,
                                .num_cpus = 2, .object_store_memory = 64 << 20),
                    driver);
}
