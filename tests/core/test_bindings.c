/* SPDX-License-Identifier: Apache-2.0 */
/* What language bindings call: functions that take values by pointer, finished texts, the user
 * pointer of tasks and classes, unsigned element types, and tensors by DLPack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>
#include <crt_dlpack.h>

#include <cmocka.h>

#include "ok.h"

/* ---------------------------------------------------------------- in the workers */

static char first_name[] = "first", second_name[] = "second", class_name[] = "class";

static crt_status_t user_run(crt_call_t *call)
{
    return crt_return(call, (const char *)crt_call_user(call));
}
static const crt_task_t first = CRT_TASK(.name = "first", .run = user_run,
                                         .user = first_name),
                        second = CRT_TASK(.name = "second", .run = user_run,
                                          .user = second_name),
                        neither = CRT_TASK(.name = "neither", .run = user_run);

typedef struct holder {
    const char *user;
} holder_t;

static crt_status_t create_run(void *self, crt_call_t *call)
{
    ((holder_t *)self)->user = crt_call_user(call);
    return CRT_OK;
}

static crt_status_t method_run(void *self, crt_call_t *call)
{
    if (crt_call_user(call) != ((holder_t *)self)->user)
        return crt_fail(call, CRT_ERR_USER, "create has another one");
    return crt_return(call, (const char *)crt_call_user(call));
}
static const crt_method_t method =
    CRT_METHOD(.name = "user", .run = method_run, .signature = "");
static const crt_actor_class_t holder =
    CRT_ACTOR_CLASS(.name = "Holder", .size = sizeof(holder_t), .create = create_run,
                    .methods = CRT_METHODS(&method), .user = class_name);

static crt_status_t fail_run(crt_call_t *call)
{
    return crt_fail_text(call, CRT_ERR_NOT_FOUND, "100 %s of nothing");
}
static const crt_task_t fail = CRT_TASK(.name = "fail", .run = fail_run);

static crt_status_t null_run(crt_call_t *call)
{
    if (crt_return_v(call, NULL) != CRT_ERR_INVALID ||
        crt_return_at_v(call, 0, NULL) != CRT_ERR_INVALID ||
        crt_yield_v(call, NULL) != CRT_ERR_INVALID)
        return crt_fail(call, CRT_ERR_USER, "NULL is a value");
    return crt_return(call, crt_error_detail());
}
static const crt_task_t null_task = CRT_TASK(.name = "null", .run = null_run);

/* ---------------------------------------------------------------- in the driver */

static void expect_text(crt_ref_t *ref, const char *wanted)
{
    const char *text;

    OK(crt_get(ref, &text));
    assert_string_equal(text, wanted);
    crt_ref_drop(&ref);
}

static void a_task_and_a_class_learn_which_they_are(void **state)
{
    crt_ref_t *ref = crt_submit(&neither, NULL);
    crt_actor_t *actor = crt_actor_new(&holder, NULL);
    const char *text;

    expect_text(crt_submit(&first, NULL), "first");
    expect_text(crt_submit(&second, NULL), "second");
    expect_text(crt_call(actor, &method), "class");
    assert_int_not_equal(crt_get(ref, &text), CRT_OK); /* NULL is no text */
    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
}

static void a_finished_text_is_not_read_as_a_format(void **state)
{
    crt_ref_t *ref = crt_submit(&fail, NULL);

    assert_int_equal(crt_get(ref, NULL), CRT_ERR_NOT_FOUND);
    assert_non_null(strstr(crt_error_detail(), "100 %s of nothing"));
    assert_int_equal(crt_raise_text(CRT_ERR_IO, "%n%s"), CRT_ERR_IO);
    assert_string_equal(crt_error_detail(), "%n%s");
    assert_int_equal(crt_raise_text(CRT_ERR_IO, NULL), CRT_ERR_IO);
    assert_string_equal(crt_error_detail(), "");
    crt_ref_drop(&ref);
}

static void a_value_that_is_null_is_refused(void **state)
{
    crt_ref_t *ref = crt_put_v(NULL);

    assert_int_equal(crt_get(ref, NULL), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "NULL"));
    crt_ref_drop(&ref);
    expect_text(crt_submit(&null_task, NULL), "null: the value is NULL");
}

static void unsigned_elements_travel(void **state)
{
    const int64_t shape = 3;
    uint16_t small[] = {1, 2, 65535};
    uint32_t middle[] = {1, 2, 4294967295};
    uint64_t large[] = {1, 2, UINT64_MAX};
    const struct {
        crt_dtype_t dtype;
        void *data;
    } trials[] = {
        {CRT_DTYPE_UINT16, small}, {CRT_DTYPE_UINT32, middle}, {CRT_DTYPE_UINT64, large}};

    for (size_t i = 0; i < 3; i++) {
        crt_tensor_t tensor = crt_tensor_view(trials[i].dtype, 1, &shape, trials[i].data);
        crt_ref_t *ref = crt_put(&tensor);
        const crt_tensor_t *got;

        OK(crt_get(ref, &got));
        assert_int_equal(got->dtype, trials[i].dtype);
        assert_memory_equal(got->data, trials[i].data, crt_tensor_bytes(&tensor));
        crt_ref_drop(&ref);
    }
}

/* ---------------------------------------------------------------- DLPack */

#define LARGE 1000000

static crt_ref_t *put_floats(float first_value)
{
    const int64_t shape[] = {2, LARGE / 2};
    crt_object_t *object;
    crt_tensor_t view;

    OK(crt_object_create(CRT_DTYPE_FLOAT32, 2, shape, &object, &view));
    for (int i = 0; i < LARGE; i++)
        ((float *)view.data)[i] = first_value + (float)i;
    return crt_object_seal(&object);
}

static void what_is_given_by_dlpack_is_the_stores_own_memory(void **state)
{
    crt_ref_t *ref = put_floats(0);
    const crt_tensor_t *tensor;
    crt_dlpack_t *a, *b;

    OK(crt_get(ref, &tensor));
    OK(crt_ref_to_dlpack(ref, -1, &a));
    OK(crt_ref_to_dlpack(ref, 0, &b));
    assert_ptr_equal(a->view.data, tensor->data);
    assert_ptr_equal(b->view.data, tensor->data);
    assert_int_equal(a->version.major, 1);
    assert_int_equal(a->flags, CRT_DLPACK_READ_ONLY);
    assert_int_equal(a->view.rank, 2);
    assert_int_equal(a->view.shape[1], LARGE / 2);
    assert_int_equal(a->view.strides[0], LARGE / 2);
    assert_int_equal(a->view.dtype.code, 2);
    assert_int_equal(a->view.dtype.bits, 32);
    assert_int_equal(a->view.device.type, 1);
    crt_ref_drop(&ref); /* the others still hold it */
    a->deleter(a);
    assert_true(((float *)b->view.data)[LARGE - 1] == LARGE - 1);
    b->deleter(b);
}

static void only_a_tensor_is_given(void **state)
{
    crt_ref_t *ref = crt_put(5);
    crt_dlpack_t *given = NULL;

    assert_int_equal(crt_ref_to_dlpack(ref, -1, &given), CRT_ERR_INVALID);
    assert_null(given);
    assert_int_equal(crt_ref_to_dlpack(ref, -1, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_ref_to_dlpack(NULL, -1, &given), CRT_ERR_INVALID);
    crt_ref_drop(&ref);
}

static int deleted;

static void count_deleted(crt_dlpack_t *me)
{
    deleted++;
}

static crt_dlpack_t of_memory(void *data, int32_t rank, int64_t *shape, int64_t *strides)
{
    return (crt_dlpack_t){.version = {1, 3},
                          .deleter = count_deleted,
                          .view = {.data = data,
                                   .device = {1, 0},
                                   .rank = rank,
                                   .dtype = {1, 16, 1},
                                   .shape = shape,
                                   .strides = strides}};
}

static void what_comes_by_dlpack_is_put_with_its_strides(void **state)
{
    uint16_t memory[] = {9, 0, 1, 2, 3, 4, 5};
    int64_t shape[] = {3, 2}, strides[] = {1, 3}; /* columns */
    crt_dlpack_t given = of_memory(memory, 2, shape, strides);
    const uint16_t wanted[] = {0, 3, 1, 4, 2, 5};
    const crt_tensor_t *got;
    crt_ref_t *ref;

    deleted = 0;
    given.view.byte_offset = 2;
    ref = crt_put_dlpack(&given);
    assert_int_equal(deleted, 1);
    OK(crt_get(ref, &got));
    assert_int_equal(got->dtype, CRT_DTYPE_UINT16);
    assert_int_equal(got->shape[0], 3);
    assert_memory_equal(got->data, wanted, sizeof(wanted));
    crt_ref_drop(&ref);
}

static void refused(crt_dlpack_t *given, const char *wanted)
{
    int before = deleted;
    crt_ref_t *ref = crt_put_dlpack(given);

    assert_int_equal(crt_get(ref, NULL), CRT_ERR_UNSUPPORTED);
    assert_non_null(strstr(crt_error_detail(), wanted));
    assert_int_equal(deleted, before + 1); /* taken all the same */
    crt_ref_drop(&ref);
}

static void what_is_no_tensor_of_ours_is_refused_and_taken(void **state)
{
    uint16_t memory[4] = {0};
    int64_t shape[9] = {4, 1, 1, 1, 1, 1, 1, 1, 1}, none[1] = {0};
    crt_dlpack_t given = of_memory(memory, 1, shape, NULL);
    crt_ref_t *ref;

    given.version.major = 2;
    refused(&given, "DLPack 2.3");
    given = of_memory(memory, 1, shape, NULL);
    given.view.dtype.code = 5;
    refused(&given, "type 5");
    given = of_memory(memory, 1, shape, NULL);
    given.view.dtype.lanes = 4;
    refused(&given, "4 lanes");
    given = of_memory(memory, 9, shape, NULL);
    refused(&given, "9 dimensions");
    given = of_memory(memory, -1, shape, NULL);
    refused(&given, "-1 dimensions");
    given = of_memory(memory, 1, shape, none);
    refused(&given, "repeats one element");
    given = of_memory(memory, 1, shape, NULL);
    given.view.device.type = 10;
    refused(&given, "device type 10");
    ref = crt_put_dlpack(NULL);
    assert_int_equal(crt_get(ref, NULL), CRT_ERR_INVALID);
    crt_ref_drop(&ref);
}

/* The last test: it leaves the cluster. */
static void what_was_given_outlives_the_runtime(void **state)
{
    crt_ref_t *ref = put_floats(1);
    crt_dlpack_t *given;

    OK(crt_ref_to_dlpack(ref, -1, &given));
    crt_ref_drop(&ref);
    OK(crt_shutdown());
    assert_true(((float *)given->view.data)[LARGE - 1] == LARGE);
    given->deleter(given);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_and_a_class_learn_which_they_are),
        cmocka_unit_test(a_finished_text_is_not_read_as_a_format),
        cmocka_unit_test(a_value_that_is_null_is_refused),
        cmocka_unit_test(unsigned_elements_travel),
        cmocka_unit_test(what_is_given_by_dlpack_is_the_stores_own_memory),
        cmocka_unit_test(only_a_tensor_is_given),
        cmocka_unit_test(what_comes_by_dlpack_is_put_with_its_strides),
        cmocka_unit_test(what_is_no_tensor_of_ours_is_refused_and_taken),
        cmocka_unit_test(what_was_given_outlives_the_runtime),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&first, &second, &neither, &fail, &null_task),
                    .classes = CRT_CLASSES(&holder), .num_cpus = 2,
                    .object_store_memory = 32 << 20),
        driver);
}
