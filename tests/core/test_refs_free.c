/* SPDX-License-Identifier: Apache-2.0 */
/* crt_refs_free: values are freed while there are refs to them. What was got stays readable,
 * whoever comes later hears of it, and nobody makes it again. */
#include <crt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ok.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

#include <cmocka.h>

#define LARGE_BYTES (1 << 20) /* lies in the store */
#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

static crt_status_t make_run(crt_call_t *call)
{
    char *bytes = calloc(1, LARGE_BYTES);
    crt_status_t status;

    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    bytes[LARGE_BYTES - 1] = 7;
    status = crt_return(call, ((crt_bytes_t){bytes, LARGE_BYTES}));
    free(bytes);
    return status;
}
static const crt_task_t make = CRT_TASK(.name = "make", .run = make_run, .signature = "");

/* Of the ref in a list, which the runtime does not read ahead. */
static crt_status_t read_run(crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    return crt_return(call, (int64_t)crt_get_for(ref, PATIENCE_MS, NULL));
}
static const crt_task_t read_it =
    CRT_TASK(.name = "read_it", .run = read_run, .signature = "list");

static crt_status_t size_run(crt_call_t *call)
{
    crt_bytes_t bytes;

    CRT_TRY(crt_args(call, &bytes));
    return crt_return(call, (int64_t)bytes.size);
}
static const crt_task_t size_of_it =
    CRT_TASK(.name = "size_of_it", .run = size_run, .signature = "bytes");

static crt_status_t forward_run(crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    return crt_return(call, ref);
}
static const crt_task_t forward =
    CRT_TASK(.name = "forward", .run = forward_run, .signature = "list");

static crt_status_t nap_run(crt_call_t *call)
{
    while (!crt_cancelled(call))
        usleep(2000);
    return crt_return(call, 0);
}
static const crt_task_t nap = CRT_TASK(.name = "nap", .run = nap_run, .signature = "");

/* ---------------------------------------------------------------- in the driver */

static size_t used_bytes(void)
{
    crti_core_t *core = crti_enter();
    struct crti_store_stats stats = {0};

    assert_non_null(core);
    if (core->store)
        crti_store_stats(core->store, &stats);
    crti_leave(core);
    return stats.object_bytes;
}

static void wait_for_bytes(size_t at_most)
{
    for (int i = 0; i < PATIENCE_MS && used_bytes() > at_most; i++)
        usleep(1000);
    assert_true(used_bytes() <= at_most);
}

static crt_ref_t *put_large(void)
{
    static char bytes[LARGE_BYTES];
    crt_ref_t *ref = crt_put(((crt_bytes_t){bytes, LARGE_BYTES}));

    assert_null(crt_ref_error(ref));
    return ref;
}

static void expect_freed(crt_ref_t *ref)
{
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_OBJECT_LOST);
    assert_non_null(strstr(crt_error_detail(), "crt_refs_free"));
}

static void what_is_freed_takes_no_memory_although_there_are_refs(void **state)
{
    crt_ref_t *refs[4];
    size_t before = used_bytes();

    for (int i = 0; i < 4; i++)
        refs[i] = i % 2 ? put_large() : crt_submit(&make, NULL);
    OK(crt_refs_wait(refs, 4, NULL, PATIENCE_MS, NULL));
    assert_true(used_bytes() >= before + 4 * LARGE_BYTES);
    for (int i = 0; i < 4; i++) /* what was waited for is mapped here */
        crt_ref_drop(&refs[i]);
    wait_for_bytes(before);
    for (int i = 0; i < 4; i++)
        refs[i] = put_large();
    OK(crt_refs_free(refs, 4));
    wait_for_bytes(before);
    for (int i = 0; i < 4; i++)
        expect_freed(refs[i]);
    OK(crt_refs_free(refs, 4)); /* twice is once */
    crt_refs_drop(refs, 4);
}

static void a_value_that_was_got_stays_readable_until_its_ref_is_dropped(void **state)
{
    size_t before = used_bytes();
    crt_ref_t *ref = crt_submit(&make, NULL), *result;
    crt_arg_t items[1] = {crt_arg_ref(ref)};
    crt_bytes_t bytes;
    int64_t status;

    OK(crt_get_for(ref, PATIENCE_MS, &bytes));
    OK(crt_refs_free(&ref, 1));
    assert_int_equal(((const char *)bytes.data)[LARGE_BYTES - 1], 7);
    OK(crt_get_for(ref, PATIENCE_MS, &bytes));
    assert_int_equal(((const char *)bytes.data)[LARGE_BYTES - 1], 7);
    result = crt_submit(&read_it, NULL, crt_list(items, 1)); /* others have it no more */
    OK(crt_get_for(result, PATIENCE_MS, &status));
    assert_int_equal(status, CRT_ERR_OBJECT_LOST);
    crt_ref_drop(&result);
    crt_ref_drop(&ref);
    wait_for_bytes(before);
}

static void a_call_that_gets_a_freed_value_fails_and_nothing_is_made_again(void **state)
{
    crt_ref_t *ref = crt_submit(&make, CRT_TASK_OPTIONS(.max_attempts = 5)), *result;

    OK(crt_wait(&ref, 1, 1, PATIENCE_MS, NULL, NULL));
    OK(crt_refs_free(&ref, 1));
    expect_freed(ref);
    result = crt_submit(&size_of_it, NULL, ref);
    assert_int_equal(crt_get_for(result, PATIENCE_MS, NULL), CRT_ERR_OBJECT_LOST);
    crt_ref_drop(&result);
    crt_ref_drop(&ref);
}

static void refs_inside_of_a_freed_value_are_let_go(void **state)
{
    static char filler[LARGE_BYTES];
    size_t before = used_bytes();
    crt_ref_t *inner = put_large(), *outer;
    crt_arg_t items[2] = {crt_arg_ref(inner),
                          crt_arg_bytes((crt_bytes_t){filler, LARGE_BYTES})};

    outer = crt_put(crt_list(items, 2));
    crt_ref_drop(&inner);
    assert_true(used_bytes() >= before + 2 * LARGE_BYTES);
    OK(crt_refs_free(&outer, 1));
    wait_for_bytes(before);
    crt_ref_drop(&outer);
}

static void a_result_that_is_another_ref_is_freed_with_it(void **state)
{
    size_t before = used_bytes();
    crt_ref_t *ref = put_large(), *result;
    crt_arg_t items[1] = {crt_arg_ref(ref)};

    result = crt_submit(&forward, NULL, crt_list(items, 1));
    OK(crt_wait(&result, 1, 1, PATIENCE_MS, NULL, NULL));
    OK(crt_refs_free(&result, 1));
    expect_freed(ref);
    expect_freed(result);
    wait_for_bytes(before);
    crt_ref_drop(&result);
    crt_ref_drop(&ref);
}

static void small_values_stay(void **state)
{
    crt_ref_t *ref = crt_put(5);
    int64_t number = 0;

    OK(crt_refs_free(&ref, 1));
    OK(crt_get_for(ref, PATIENCE_MS, &number));
    assert_int_equal(number, 5);
    crt_ref_drop(&ref);
}

static void what_cannot_be_freed_is_refused_and_the_rest_stays(void **state)
{
    crt_ref_t *pending = crt_submit(&nap, NULL), *refs[2] = {put_large(), pending};

    assert_int_equal(crt_refs_free(refs, 2), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "ref 1: it has no value yet"));
    OK(crt_get_for(refs[0], PATIENCE_MS, NULL));
    refs[1] = NULL;
    assert_int_equal(crt_refs_free(refs, 2), CRT_ERR_INVALID);
    assert_int_equal(crt_refs_free(NULL, 1), CRT_ERR_INVALID);
    OK(crt_refs_free(NULL, 0));
    OK(crt_cancel(pending, NULL));
    crt_get_for(pending, PATIENCE_MS, NULL);
    OK(crt_refs_free(&pending, 1)); /* it failed: there is nothing to free */
    crt_ref_drop(&pending);
    crt_ref_drop(&refs[0]);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_freed_takes_no_memory_although_there_are_refs),
        cmocka_unit_test(a_value_that_was_got_stays_readable_until_its_ref_is_dropped),
        cmocka_unit_test(a_call_that_gets_a_freed_value_fails_and_nothing_is_made_again),
        cmocka_unit_test(refs_inside_of_a_freed_value_are_let_go),
        cmocka_unit_test(a_result_that_is_another_ref_is_freed_with_it),
        cmocka_unit_test(small_values_stay),
        cmocka_unit_test(what_cannot_be_freed_is_refused_and_the_rest_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&make, &read_it, &size_of_it, &forward, &nap),
                    .num_cpus = 2, .object_store_memory = (uint64_t)64 << 20),
        driver);
}
