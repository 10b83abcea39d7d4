/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with several results: all of them arrive, each by itself, or all fail; nothing of them is
 * left. */
#include <fcntl.h>
#include <setjmp.h>
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
#define LARGE       (1 << 20) /* bytes: a result that goes to the store */
#define MANY        3000

static char directory[] = "/tmp/crt-returns-XXXXXX";

static double ms_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ---------------------------------------------------------------- in the workers */

/* As many numbers as the caller wants, the last one first. */
static crt_status_t count_run(crt_call_t *call)
{
    for (size_t i = crt_return_count(call); i > 0; i--)
        CRT_TRY(crt_return_at(call, i - 1, (int64_t)i));
    return CRT_OK;
}
static const crt_task_t count_task =
    CRT_TASK(.name = "count", .run = count_run, .signature = "");

/* Results of every kind: small, large, written in place, a ref, a list with a ref. */
static crt_status_t mixed_run(crt_call_t *call)
{
    const int64_t shape = LARGE;
    unsigned char *bytes = malloc(LARGE);
    crt_ref_t *ref = crt_put(42);
    const crt_arg_t list[] = {CRT_ARG(7), CRT_ARG(ref)};
    crt_object_t *object;
    crt_tensor_t view;

    memset(bytes, 3, LARGE);
    CRT_TRY(crt_return(call, "first"));
    CRT_TRY(crt_return_at(call, 1, ((crt_bytes_t){bytes, LARGE})));
    CRT_TRY(crt_object_create(CRT_DTYPE_UINT8, 1, &shape, &object, &view));
    memset(view.data, 4, LARGE);
    CRT_TRY(crt_return_at(call, 2, object));
    CRT_TRY(crt_return_at(call, 3, ref));
    CRT_TRY(crt_return_at(call, 4, crt_list(list, 2)));
    crt_ref_drop(&ref);
    free(bytes);
    return CRT_OK;
}
static const crt_task_t mixed = CRT_TASK(.name = "mixed", .run = mixed_run);

/* Returns two, large ones, and then what it is told. */
static crt_status_t ends_run(crt_call_t *call)
{
    unsigned char *bytes = calloc(1, LARGE);
    const char *how;
    crt_status_t status = crt_args(call, &how);

    if (status == CRT_OK)
        status = crt_return_at(call, 0, ((crt_bytes_t){bytes, LARGE}));
    if (status == CRT_OK)
        status = crt_return_at(call, 1, ((crt_bytes_t){bytes, LARGE}));
    free(bytes);
    if (status != CRT_OK || strcmp(how, "few") == 0)
        return status;
    if (strcmp(how, "fail") == 0)
        return crt_fail(call, CRT_ERR_USER, "as it was told");
    if (strcmp(how, "twice") == 0)
        return crt_return_at(call, 1, 1);
    if (strcmp(how, "beyond") == 0)
        return crt_return_at(call, 3, 1);
    _exit(4);
}
static const crt_task_t ends =
    CRT_TASK(.name = "ends", .run = ends_run, .signature = "string");

/* Dies when it runs for the first time, with one result stored. */
static crt_status_t second_try_run(crt_call_t *call)
{
    unsigned char *bytes = calloc(1, LARGE);
    const char *path;
    bool is_first;
    int fd;

    CRT_TRY(crt_args(call, &path));
    fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);
    is_first = fd >= 0;
    if (is_first)
        close(fd);
    CRT_TRY(crt_return_at(call, 1, ((crt_bytes_t){bytes, LARGE})));
    if (is_first)
        _exit(5);
    free(bytes);
    return crt_return(call, 1);
}
static const crt_task_t second_try =
    CRT_TASK(.name = "second_try", .run = second_try_run, .signature = "string");

/* Splits a task's results again: it runs them inline. */
static crt_status_t outer_run(crt_call_t *call)
{
    crt_ref_t *refs[3];
    int64_t value, sum = 0;

    crt_submit_returns(refs, 3, &count_task, NULL);
    for (int i = 0; i < 3; i++) {
        CRT_TRY(crt_get(refs[i], &value));
        sum += value;
        crt_ref_drop(&refs[i]);
    }
    CRT_TRY(crt_return_at(call, 0, sum));
    return crt_return_at(call, 1, -sum);
}
static const crt_task_t outer = CRT_TASK(.name = "outer", .run = outer_run);

static crt_status_t spin_run(crt_call_t *call)
{
    CRT_TRY(crt_return_at(call, 1, 5));
    while (!crt_cancelled(call))
        usleep(1000);
    return crt_return(call, 5);
}
static const crt_task_t spin = CRT_TASK(.name = "spin", .run = spin_run);

static crt_status_t add_run(crt_call_t *call)
{
    int64_t a, b;

    CRT_TRY(crt_args(call, &a, &b));
    return crt_return(call, a + b);
}
static const crt_task_t add =
    CRT_TASK(.name = "add", .run = add_run, .signature = "int, int");

static crt_status_t split_run(void *self, crt_call_t *call)
{
    return count_run(call);
}
static const crt_method_t split =
    CRT_METHOD(.name = "split", .run = split_run, .signature = "");
static const crt_actor_class_t splitter =
    CRT_ACTOR_CLASS(.name = "Splitter", .methods = CRT_METHODS(&split));

/* ---------------------------------------------------------------- in the tests */

static int64_t result(crt_ref_t *ref)
{
    int64_t value = -1;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

static int64_t store_used(void)
{
    const char *found;
    int64_t used;
    char *json;

    OK(crt_cluster_state("cluster", &json));
    found = strstr(json, "\"store_used\":");
    assert_non_null(found);
    used = strtoll(found + strlen("\"store_used\":"), NULL, 10);
    crt_free(json);
    return used;
}

static void all_results_arrive_each_in_its_place(void **state)
{
    crt_ref_t *refs[4];

    crt_submit_returns(refs, 4, &count_task, NULL);
    for (int i = 3; i >= 0; i--)
        assert_int_equal(result(refs[i]), i + 1);
}

static void one_result_is_what_submit_gives(void **state)
{
    crt_ref_t *ref;

    crt_submit_returns(&ref, 1, &count_task, NULL);
    assert_int_equal(result(ref), 1);
    assert_int_equal(result(crt_submit(&count_task, NULL)), 1);
}

static void results_may_be_of_any_kind(void **state)
{
    const crt_value_t *list;
    const crt_tensor_t *tensor;
    crt_ref_t *refs[5], *inner;
    crt_bytes_t bytes;
    const char *text;
    int64_t value;

    crt_submit_returns(refs, 5, &mixed, NULL);
    OK(crt_get_for(refs[0], PATIENCE_MS, &text));
    assert_string_equal(text, "first");
    OK(crt_get_for(refs[1], PATIENCE_MS, &bytes));
    assert_int_equal(bytes.size, LARGE);
    assert_int_equal(((const char *)bytes.data)[LARGE - 1], 3);
    OK(crt_get_for(refs[2], PATIENCE_MS, &tensor));
    assert_int_equal(((const char *)tensor->data)[LARGE - 1], 4);
    OK(crt_get_for(refs[3], PATIENCE_MS, &value));
    assert_int_equal(value, 42);
    OK(crt_get_for(refs[4], PATIENCE_MS, &list));
    OK(crt_value_read(crt_value_at(list, 1), &inner));
    OK(crt_get_for(inner, PATIENCE_MS, &value));
    assert_int_equal(value, 42);
    crt_refs_drop(refs, 5);
}

static void results_are_arguments_before_they_are_there(void **state)
{
    crt_ref_t *refs[2], *sum;

    crt_submit_returns(refs, 2, &count_task, NULL);
    sum = crt_submit(&add, NULL, refs[0], refs[1]);
    crt_refs_drop(refs, 2);
    assert_int_equal(result(sum), 3);
}

static void methods_return_several_too(void **state)
{
    crt_actor_t *actor = crt_actor_new(&splitter, NULL);
    crt_ref_t *refs[3];

    crt_call_returns(refs, 3, actor, &split, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(result(refs[i]), i + 1);
    OK(crt_actor_kill(actor, NULL));
    crt_actor_drop(&actor);
}

static void a_worker_that_waits_for_them_runs_the_task_itself(void **state)
{
    crt_ref_t *refs[2];

    crt_submit_returns(refs, 2, &outer, NULL);
    assert_int_equal(result(refs[0]), 6);
    assert_int_equal(result(refs[1]), -6);
}

static void all_fail(crt_ref_t **refs, size_t count, crt_status_t status,
                     const char *text)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(crt_get_for(refs[i], PATIENCE_MS, NULL), status);
        if (!strstr(crt_error_detail(), text))
            fail_msg("\"%s\" has no \"%s\"", crt_error_detail(), text);
        crt_ref_drop(&refs[i]);
    }
}

static void when_it_fails_all_of_them_do(void **state)
{
    static const struct {
        const char *how, *text;
        crt_status_t status;
    } ways[] = {{"fail", "as it was told", CRT_ERR_USER},
                {"few", "returned 2 of the 3 results", CRT_ERR_INVALID},
                {"twice", "returns result 2 twice", CRT_ERR_INVALID},
                {"beyond", "has 3 results, number 4 is returned", CRT_ERR_INVALID},
                {"die", "exit", CRT_ERR_WORKER_DIED}};
    crt_ref_t *refs[3];

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        crt_submit_returns(refs, 3, &ends, NULL, ways[i].how);
        all_fail(refs, 3, ways[i].status, ways[i].text);
    }
}

static void a_task_that_died_is_run_again_for_all_of_them(void **state)
{
    char path[300];
    crt_ref_t *refs[2];
    crt_bytes_t bytes;

    snprintf(path, sizeof(path), "%s/tried", directory);
    crt_submit_returns(refs, 2, &second_try, CRT_TASK_OPTIONS(.max_attempts = 2),
                       (const char *)path);
    OK(crt_get_for(refs[1], PATIENCE_MS, &bytes));
    assert_int_equal(bytes.size, LARGE);
    assert_int_equal(result(refs[0]), 1);
    crt_ref_drop(&refs[1]);
}

static void a_cancelled_one_has_no_result_at_all(void **state)
{
    crt_ref_t *refs[2];

    crt_submit_returns(refs, 2, &spin, NULL);
    usleep(20000);
    OK(crt_cancel(refs[1], NULL)); /* by any of them */
    all_fail(refs, 2, CRT_ERR_CANCELLED, "cancelled");
}

static void drop_many(int rounds)
{
    crt_ref_t *refs[5];

    for (int i = 0; i < rounds; i++) {
        crt_submit_returns(refs, 5, &mixed, NULL);
        if (i % 2)
            OK(crt_wait(refs, 5, i % 5, PATIENCE_MS, NULL, NULL));
        crt_refs_drop(refs, 5);
        crt_submit_returns(refs, 3, &ends, NULL, i % 2 ? "few" : "fail");
        crt_refs_drop(refs, 3);
    }
}

static void refs_that_nobody_holds_keep_nothing(void **state)
{
    drop_many(40);
    for (int i = 0; store_used() >= LARGE; i++) { /* less than one of them */
        if (i == 100)
            fail_msg("%lld bytes are left in the store", (long long)store_used());
        usleep(100000);
    }
}

static void three_thousand_results_come_quickly(void **state)
{
    crt_ref_t **refs = calloc(MANY, sizeof(*refs));
    double start;

    assert_int_equal(result(crt_submit(&count_task, NULL)), 1);
    start = ms_now();
    crt_submit_returns(refs, MANY, &count_task, NULL);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(result(refs[i]), i + 1);
    print_message("%d results in %.1f ms\n", MANY, ms_now() - start);
    free(refs);
}

static void more_than_can_be_are_refused(void **state)
{
    enum { TOO_MANY = 65536 };
    crt_ref_t **refs = calloc(TOO_MANY, sizeof(*refs));

    crt_submit_returns(refs, TOO_MANY, &count_task, NULL);
    all_fail(refs, TOO_MANY, CRT_ERR_INVALID, "1 to 65535 results, not 65536");
    crt_submit_returns(NULL, 0, &count_task, NULL);
    free(refs);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_results_arrive_each_in_its_place),
        cmocka_unit_test(one_result_is_what_submit_gives),
        cmocka_unit_test(results_may_be_of_any_kind),
        cmocka_unit_test(results_are_arguments_before_they_are_there),
        cmocka_unit_test(methods_return_several_too),
        cmocka_unit_test(a_worker_that_waits_for_them_runs_the_task_itself),
        cmocka_unit_test(when_it_fails_all_of_them_do),
        cmocka_unit_test(a_task_that_died_is_run_again_for_all_of_them),
        cmocka_unit_test(a_cancelled_one_has_no_result_at_all),
        cmocka_unit_test(refs_that_nobody_holds_keep_nothing),
        cmocka_unit_test(three_thousand_results_come_quickly),
        cmocka_unit_test(more_than_can_be_are_refused),
    };
    char command[100];
    int failed;

    if (!mkdtemp(directory))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof(command), "rm -r %s", directory);
    return failed + (system(command) != 0);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&count_task, &mixed, &ends,
                                                   &second_try, &outer, &spin, &add),
                                .classes = CRT_CLASSES(&splitter), .num_cpus = 2,
                                .object_store_memory = 256 << 20),
                    driver);
}
