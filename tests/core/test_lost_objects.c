/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that no node has any more, although none that had them died: a node that is told that the
 * owner's host is dead drops what it kept for the owner, who may live on. What a task has made is
 * made again; whoever wants another value hears that it is lost, soon, and why it is not made
 * again. */
#include <crt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ok.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/refs/refs.h"

#include <cmocka.h>

#define LARGE_BYTES (256 << 10) /* lies in the store */
#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the worker */

static crt_status_t maker_make_run(void *self, crt_call_t *call)
{
    CRTI_AUTO(free) char *bytes = calloc(1, LARGE_BYTES);

    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    return crt_return(call, ((crt_bytes_t){bytes, LARGE_BYTES}));
}
static const crt_method_t maker_make =
    CRT_METHOD(.name = "make", .run = maker_make_run, .signature = "");

static crt_status_t maker_nothing_run(void *self, crt_call_t *call)
{
    return crt_return(call, 0);
}
static const crt_method_t maker_nothing =
    CRT_METHOD(.name = "nothing", .run = maker_nothing_run, .signature = "");

/* Of the ref in a list, which the runtime does not read ahead. */
static crt_status_t maker_read_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    return crt_return(call, (int64_t)crt_get_for(ref, PATIENCE_MS, NULL));
}
static const crt_method_t maker_read =
    CRT_METHOD(.name = "read", .run = maker_read_run, .signature = "list");

static const crt_actor_class_t maker_class =
    CRT_ACTOR_CLASS(.name = "Maker",
                    .methods = CRT_METHODS(&maker_make, &maker_nothing, &maker_read));

/* A large value, whose bytes are all the number of the attempt. */
static crt_status_t return_attempt(crt_call_t *call, size_t index)
{
    CRTI_AUTO(free) char *bytes = malloc(LARGE_BYTES);

    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    memset(bytes, (int)crt_call_attempt(call), LARGE_BYTES);
    return crt_return_at(call, index, ((crt_bytes_t){bytes, LARGE_BYTES}));
}

static crt_status_t attempt_run(crt_call_t *call)
{
    for (size_t i = 0; i < crt_return_count(call); i++)
        CRT_TRY(return_attempt(call, i));
    return CRT_OK;
}
static const crt_task_t attempt_task =
    CRT_TASK(.name = "attempt", .run = attempt_run, .signature = "");

/* One more than the first byte of its argument, in a large value. */
static crt_status_t next_run(crt_call_t *call)
{
    CRTI_AUTO(free) char *bytes = malloc(LARGE_BYTES);
    crt_bytes_t before;

    CRT_TRY(crt_args(call, &before));
    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    memset(bytes, *(const char *)before.data + 1, LARGE_BYTES);
    return crt_return(call, ((crt_bytes_t){bytes, LARGE_BYTES}));
}
static const crt_task_t next_task =
    CRT_TASK(.name = "next", .run = next_run, .signature = "bytes");

/* The same of the ref in a list, which it reads itself. */
static crt_status_t inside_run(crt_call_t *call)
{
    CRTI_AUTO(free) char *bytes = malloc(LARGE_BYTES);
    const crt_value_t *list;
    crt_bytes_t before;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    CRT_TRY(crt_get_for(ref, PATIENCE_MS, &before));
    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    memset(bytes, *(const char *)before.data + 1, LARGE_BYTES);
    return crt_return(call, ((crt_bytes_t){bytes, LARGE_BYTES}));
}
static const crt_task_t inside_task =
    CRT_TASK(.name = "inside", .run = inside_run, .signature = "list");

/* Large the first time, then not a value at all. */
static crt_status_t fickle_run(crt_call_t *call)
{
    if (crt_call_attempt(call) > 1)
        return crt_fail(call, CRT_ERR_USER, "not today");
    return return_attempt(call, 0);
}
static const crt_task_t fickle_task =
    CRT_TASK(.name = "fickle", .run = fickle_run, .signature = "");

/* Large the second time. */
static crt_status_t dies_first_run(crt_call_t *call)
{
    if (crt_call_attempt(call) == 1)
        _exit(0);
    return return_attempt(call, 0);
}
static const crt_task_t dies_first_task =
    CRT_TASK(.name = "dies_first", .run = dies_first_run, .signature = "");

/* Large the first time, then short. */
static crt_status_t shrinks_run(crt_call_t *call)
{
    if (crt_call_attempt(call) > 1)
        return crt_return(call, ((crt_bytes_t){"x", 1}));
    return return_attempt(call, 0);
}
static const crt_task_t shrinks_task =
    CRT_TASK(.name = "shrinks", .run = shrinks_run, .signature = "");

/* ---------------------------------------------------------------- in the driver */

/* A result of the maker, stored and told of, which this process has not looked at. */
static crt_ref_t *make_object(crt_actor_t *maker)
{
    crt_ref_t *ref = crt_call(maker, &maker_make);
    crt_ref_t *later = crt_call(maker, &maker_nothing);

    OK(crt_get_for(later, PATIENCE_MS, NULL)); /* results of one actor come in order */
    crt_ref_drop(&later);
    return ref;
}

/* Behind its owner's back. */
static void take_from_store(const crt_ref_t *ref)
{
    crti_core_t *core = crti_enter();

    assert_non_null(core);
    assert_int_equal(ref->content, CRTI_CONTENT_STORED);
    OK(crti_core_join_store(core));
    crti_store_free(core->store, ref->more->object);
    crti_leave(core);
}

static void the_owner_hears_that_its_object_is_lost(void **state)
{
    crt_actor_t *maker = crt_actor_new(&maker_class, NULL);
    crt_ref_t *ref = make_object(maker);

    take_from_store(ref);
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_OBJECT_LOST);
    assert_non_null(strstr(crt_error_detail(), "no node has the object any more"));
    assert_non_null(strstr(crt_error_detail(), "Maker.make made it"));
    assert_non_null(strstr(crt_error_detail(), "max_task_retries"));
    crt_ref_drop(&ref);
    crt_actor_drop(&maker);
}

static void a_borrower_hears_that_the_object_is_lost(void **state)
{
    crt_actor_t *maker = crt_actor_new(&maker_class, NULL);
    crt_ref_t *ref = make_object(maker), *answer;
    crt_arg_t items[] = {CRT_ARG(ref)};
    int64_t status;

    take_from_store(ref);
    answer = crt_call(maker, &maker_read, crt_list(items, 1));
    OK(crt_get_for(answer, PATIENCE_MS, &status));
    assert_int_equal(status, CRT_ERR_OBJECT_LOST);
    crt_ref_drop(&answer);
    crt_ref_drop(&ref);
    crt_actor_drop(&maker);
}

/* Its result is here, and this process has not looked at the bytes. */
static void wait_until_stored(crt_ref_t *ref)
{
    crt_ref_t *after = crt_submit(&next_task, NULL, ref);

    OK(crt_get_for(after, PATIENCE_MS, NULL));
    crt_ref_drop(&after);
}

static crt_ref_t *made_by(const crt_task_t *task, const crt_task_options_t *options)
{
    crt_ref_t *ref = crt_submit(task, options);

    wait_until_stored(ref);
    return ref;
}

static void expect_byte(crt_ref_t *ref, int byte)
{
    crt_bytes_t bytes;

    OK(crt_get_for(ref, PATIENCE_MS, &bytes));
    assert_int_equal(bytes.size, LARGE_BYTES);
    assert_int_equal(((const char *)bytes.data)[LARGE_BYTES - 1], byte);
}

static void expect_lost(crt_ref_t *ref, const char *why)
{
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_OBJECT_LOST);
    if (!strstr(crt_error_detail(), why))
        fail_msg("%s", crt_error_detail());
}

static void what_a_task_has_made_is_made_again(void **state)
{
    crt_ref_t *ref = made_by(&attempt_task, NULL);

    take_from_store(ref);
    expect_byte(ref, 2);
    crt_ref_drop(&ref);
}

static void what_was_put_is_not_made_again(void **state)
{
    CRTI_AUTO(free) char *bytes = calloc(1, LARGE_BYTES);
    crt_ref_t *ref = crt_put(((crt_bytes_t){bytes, LARGE_BYTES}));

    take_from_store(ref);
    expect_lost(ref, "it was put");
    crt_ref_drop(&ref);
}

static void a_task_that_may_run_once_is_not_run_again(void **state)
{
    crt_ref_t *ref = made_by(&attempt_task, CRT_TASK_OPTIONS(.max_attempts = 1));

    take_from_store(ref);
    expect_lost(ref, "attempt made it, which may run once");
    crt_ref_drop(&ref);
}

static void a_task_is_run_as_often_as_it_may(void **state)
{
    crt_ref_t *ref = made_by(&dies_first_task, CRT_TASK_OPTIONS(.max_attempts = 2));

    take_from_store(ref);
    expect_lost(ref, "dies_first made it, which has run as often as it may");
    crt_ref_drop(&ref);
}

static void of_several_results_the_lost_one_is_replaced(void **state)
{
    crt_ref_t *refs[3];

    crt_submit_returns(refs, 3, &attempt_task, NULL);
    for (int i = 0; i < 3; i++)
        wait_until_stored(refs[i]);
    take_from_store(refs[1]);
    expect_byte(refs[1], 2);
    expect_byte(refs[0], 1);
    crt_ref_drop(&refs[0]);
    take_from_store(refs[2]);
    expect_byte(refs[2], 3);
    expect_byte(refs[1], 2);
    crt_ref_drop(&refs[1]);
    crt_ref_drop(&refs[2]);
}

/* What is dropped has no bytes any more, and comes back for those that need it. */
static void a_chain_is_made_again_from_its_beginning(void **state)
{
    crt_ref_t *last = crt_submit(&attempt_task, NULL);

    for (int i = 0; i < 20; i++) {
        crt_ref_t *before = last;

        last = crt_submit(&next_task, NULL, before);
        crt_ref_drop(&before);
    }
    wait_until_stored(last);
    take_from_store(last);
    expect_byte(last, 22);
    crt_ref_drop(&last);
}

static void a_ref_inside_an_argument_is_made_again(void **state)
{
    crt_ref_t *inner = made_by(&attempt_task, NULL), *outer;
    crt_arg_t items[] = {CRT_ARG(inner)};

    outer = crt_submit(&inside_task, NULL, crt_list(items, 1));
    wait_until_stored(outer);
    crt_ref_drop(&inner);
    take_from_store(outer);
    expect_byte(outer, 3);
    crt_ref_drop(&outer);
}

static void a_put_that_others_were_made_from_is_kept_for_them(void **state)
{
    CRTI_AUTO(free) char *bytes = calloc(1, LARGE_BYTES);
    crt_ref_t *put = crt_put(((crt_bytes_t){bytes, LARGE_BYTES}));
    crt_ref_t *ref = crt_submit(&next_task, NULL, put);

    wait_until_stored(ref);
    crt_ref_drop(&put);
    take_from_store(ref);
    expect_byte(ref, 1);
    crt_ref_drop(&ref);
}

static void a_task_that_fails_when_it_is_run_again_fails_its_result(void **state)
{
    crt_ref_t *ref = made_by(&fickle_task, NULL);

    take_from_store(ref);
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_USER);
    assert_non_null(strstr(crt_error_detail(), "not today"));
    crt_ref_drop(&ref);
}

static void a_task_may_return_another_value_when_it_is_run_again(void **state)
{
    crt_ref_t *ref = made_by(&shrinks_task, NULL);
    crt_bytes_t bytes;

    take_from_store(ref);
    OK(crt_get_for(ref, PATIENCE_MS, &bytes));
    assert_int_equal(bytes.size, 1);
    crt_ref_drop(&ref);
}

static void a_method_that_may_run_again_makes_its_result_again(void **state)
{
    crt_actor_t *maker = crt_actor_new(
        &maker_class, CRT_ACTOR_OPTIONS(.max_restarts = 1, .max_task_retries = 1));
    crt_ref_t *ref = make_object(maker);

    take_from_store(ref);
    expect_byte(ref, 0);
    crt_ref_drop(&ref);
    ref = make_object(maker);
    crt_actor_drop(&maker); /* the ref does not keep it alive */
    crt_ref_drop(&ref);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_task_has_made_is_made_again),
        cmocka_unit_test(what_was_put_is_not_made_again),
        cmocka_unit_test(a_task_that_may_run_once_is_not_run_again),
        cmocka_unit_test(a_task_is_run_as_often_as_it_may),
        cmocka_unit_test(of_several_results_the_lost_one_is_replaced),
        cmocka_unit_test(a_chain_is_made_again_from_its_beginning),
        cmocka_unit_test(a_ref_inside_an_argument_is_made_again),
        cmocka_unit_test(a_put_that_others_were_made_from_is_kept_for_them),
        cmocka_unit_test(a_task_that_fails_when_it_is_run_again_fails_its_result),
        cmocka_unit_test(a_task_may_return_another_value_when_it_is_run_again),
        cmocka_unit_test(a_method_that_may_run_again_makes_its_result_again),
        cmocka_unit_test(the_owner_hears_that_its_object_is_lost),
        cmocka_unit_test(a_borrower_hears_that_the_object_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&maker_class),
                    .tasks = CRT_TASKS(&attempt_task, &next_task, &inside_task,
                                       &fickle_task, &shrinks_task, &dies_first_task),
                    .num_cpus = 2, .object_store_memory = (uint64_t)32 << 20),
        driver);
}
