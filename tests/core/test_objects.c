/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that are written in place and then given to a call, a task, an actor's creation, a put or
 * a result: they are taken, whatever comes of it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"

#define STORE ((size_t)64 << 20)
#define PART  ((int64_t)1 << 20) /* floats: 4 MiB */
#define MANY  40                 /* such objects are more than the store holds */

/* ------------------------------------------------------------------ the program */

static double sum_of(const crt_tensor_t *tensor)
{
    const float *data = tensor->data;
    double sum = 0;

    for (size_t i = 0; i < crt_tensor_count(tensor); i++)
        sum += data[i];
    return sum;
}

static crt_status_t sum_run(crt_call_t *call)
{
    const crt_tensor_t *tensor;

    CRT_TRY(crt_args(call, &tensor));
    return crt_return(call, sum_of(tensor));
}
static const crt_task_t sum =
    CRT_TASK(.name = "sum", .run = sum_run, .signature = "tensor");

/* (list of a text and a tensor) -> sum */
static crt_status_t sum_listed_run(crt_call_t *call)
{
    const crt_value_t *list;
    const crt_tensor_t *tensor;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 1), &tensor));
    return crt_return(call, sum_of(tensor));
}
static const crt_task_t sum_listed =
    CRT_TASK(.name = "sum_listed", .run = sum_listed_run, .signature = "list");

static crt_status_t wants_int_run(crt_call_t *call)
{
    return CRT_OK;
}
static const crt_task_t wants_int =
    CRT_TASK(.name = "wants_int", .run = wants_int_run, .signature = "int");
static const crt_task_t absent =
    CRT_TASK(.name = "absent", .run = wants_int_run, .signature = "tensor");

static crt_status_t new_object(int64_t count, float value, crt_object_t **object_out)
{
    crt_tensor_t view;

    CRT_TRY(crt_object_create(CRT_DTYPE_FLOAT32, 1, &count, object_out, &view));
    for (int64_t i = 0; i < count; i++)
        ((float *)view.data)[i] = value;
    return CRT_OK;
}

/* Gives an object that was made in this call to another task. */
static crt_status_t pass_on_run(crt_call_t *call)
{
    crt_object_t *object;
    crt_status_t status;
    double total;
    crt_ref_t *ref;

    CRT_TRY(new_object(PART, 2, &object));
    ref = crt_submit(&sum, NULL, object);
    status = crt_get(ref, &total);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, total) : status;
}
static const crt_task_t pass_on =
    CRT_TASK(.name = "pass_on", .run = pass_on_run, .signature = "");

/* A second result is refused, and what it brought is given up. */
static crt_status_t return_twice_run(crt_call_t *call)
{
    crt_object_t *object;

    CRT_TRY(crt_return(call, 1));
    for (int i = 0; i < MANY; i++) {
        CRT_TRY(new_object(PART, 1, &object));
        if (crt_return(call, object) != CRT_ERR_INVALID)
            return crt_fail(call, CRT_ERR_USER, "it is taken as a second result");
    }
    return CRT_OK;
}
static const crt_task_t return_twice =
    CRT_TASK(.name = "return_twice", .run = return_twice_run, .signature = "");

static crt_status_t return_listed_run(crt_call_t *call)
{
    crt_object_t *object;
    crt_arg_t items[2] = {crt_arg_string("x")};

    CRT_TRY(new_object(PART, 3, &object));
    items[1] = crt_arg_object(object);
    return crt_return(call, crt_list(items, 2));
}
static const crt_task_t return_listed =
    CRT_TASK(.name = "return_listed", .run = return_listed_run, .signature = "");

struct holder {
    double sum;
};

static crt_status_t holder_create(void *self, crt_call_t *call)
{
    const crt_tensor_t *tensor;

    CRT_TRY(crt_args(call, &tensor));
    ((struct holder *)self)->sum = sum_of(tensor);
    return CRT_OK;
}

static crt_status_t holder_add_run(void *self, crt_call_t *call)
{
    struct holder *holder = self;
    const crt_tensor_t *tensor;

    CRT_TRY(crt_args(call, &tensor));
    holder->sum += sum_of(tensor);
    return crt_return(call, holder->sum);
}
static const crt_method_t holder_add =
    CRT_METHOD(.name = "add", .run = holder_add_run, .signature = "tensor");

static const crt_actor_class_t holder_class =
    CRT_ACTOR_CLASS(.name = "Holder", .size = sizeof(struct holder),
                    .create = holder_create, .signature = "tensor",
                    .methods = CRT_METHODS(&holder_add));

/* ------------------------------------------------------------------ tests */

static crt_object_t *filled(int64_t count, float value)
{
    crt_object_t *object;

    OK(new_object(count, value, &object));
    return object;
}

static void gives(crt_ref_t *ref, double wanted)
{
    double got;

    OK(crt_get(ref, &got));
    crt_ref_drop(&ref);
    assert_true(got == wanted);
}

static void fails(crt_ref_t *ref, crt_status_t status, const char *text)
{
    assert_int_equal(crt_get(ref, NULL), status);
    if (!strstr(crt_error_detail(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, crt_error_detail());
    crt_ref_drop(&ref);
}

static void the_receiver_of_an_object_sees_the_tensor(void **state)
{
    crt_actor_t *holder = crt_actor_new(&holder_class, NULL, filled(PART, 1));
    crt_object_t *small = filled(8, 1);

    gives(crt_call(holder, &holder_add, filled(PART, 2)), 3.0 * (double)PART);
    gives(crt_call(holder, &holder_add, small), 3.0 * (double)PART + 8);
    OK(crt_tell(holder, &holder_add, filled(PART, 1)));
    gives(crt_call(holder, &holder_add, filled(8, 0)), 4.0 * (double)PART + 8);
    gives(crt_submit(&sum, NULL, filled(PART, 2)), 2.0 * (double)PART);
    gives(crt_submit(&sum, NULL, filled(8, 2)), 16);
    gives(crt_submit(&pass_on, NULL), 2.0 * (double)PART);
    OK(crt_actor_kill(holder, NULL));
    crt_actor_drop(&holder);
}

static void a_put_takes_an_object(void **state)
{
    for (int i = 0; i < MANY; i++) {
        crt_ref_t *ref = crt_put(filled(i % 2 ? 4 : PART, 3));
        const crt_tensor_t *tensor;

        OK(crt_get(ref, &tensor));
        assert_true(((const float *)tensor->data)[3] == 3);
        crt_ref_drop(&ref);
    }
}

static void an_object_in_a_list_is_a_tensor_there(void **state)
{
    crt_ref_t *ref;
    const crt_value_t *list;
    const crt_tensor_t *tensor;

    for (int i = 0; i < MANY; i++) {
        crt_arg_t items[2] = {crt_arg_string("x"),
                              crt_arg_object(filled(i % 2 ? 4 : PART, 1))};

        gives(crt_submit(&sum_listed, NULL, crt_list(items, 2)),
              i % 2 ? 4 : (double)PART);
    }
    ref = crt_submit(&return_listed, NULL);
    OK(crt_get(ref, &list));
    OK(crt_value_read(crt_value_at(list, 1), &tensor));
    assert_true(sum_of(tensor) == 3.0 * (double)PART);
    crt_ref_drop(&ref);
}

static void a_call_that_fails_leaves_nothing_in_the_store(void **state)
{
    crt_arg_t items[1];

    for (int i = 0; i < MANY; i++)
        fails(crt_submit(&wants_int, NULL, filled(PART, 1)), CRT_ERR_INVALID,
              "wants_int: argument 1 is of kind tensor, int is wanted");
    for (int i = 0; i < MANY; i++)
        fails(crt_submit(&absent, NULL, filled(PART, 1)), CRT_ERR_INVALID,
              "task absent is not in this program");
    for (int i = 0; i < MANY; i++)
        fails(crt_call(NULL, &holder_add, filled(PART, 1)), CRT_ERR_INVALID, "NULL");
    for (int i = 0; i < MANY; i++)
        fails(crt_submit(&sum, NULL, filled(PART, 1), filled(PART, 1)), CRT_ERR_INVALID,
              "sum takes 1 argument");
    for (int i = 0; i < MANY; i++) {
        items[0] = crt_arg_object(filled(PART, 1));
        fails(crt_submit(&sum, NULL, crt_map(items, 1)), CRT_ERR_INVALID, "");
    }
    gives(crt_submit(&return_twice, NULL), 1);
}

/* Also when a ref was made of it by then. */
static void a_large_argument_of_the_wrong_kind_is_refused_at_the_caller(void **state)
{
    float *numbers = calloc((size_t)PART, sizeof(float));
    crt_tensor_t tensor = crt_tensor_floats(numbers, (size_t)PART);

    fails(crt_submit(&wants_int, NULL, &tensor), CRT_ERR_INVALID,
          "wants_int: argument 1 is of kind tensor, int is wanted");
    free(numbers);
}

static void an_object_can_be_given_once(void **state)
{
    crt_object_t *object = filled(PART, 1), *stale = object, *none = NULL;
    crt_ref_t *ref;

    fails(crt_submit(&sum, NULL, none), CRT_ERR_INVALID, "the object is NULL");
    gives(crt_submit(&sum, NULL, object), (double)PART);
    fails(crt_submit(&sum, NULL, object), CRT_ERR_INVALID, "was given away");
    fails(crt_put(object), CRT_ERR_INVALID, "was given away");
    ref = crt_object_seal(&stale);
    fails(ref, CRT_ERR_INVALID, "was given away");
    assert_null(stale);
    crt_object_abort(&object);
    assert_null(object);
    object = filled(PART, 1);
    fails(crt_submit(&sum, NULL, object, object), CRT_ERR_INVALID, "was given away");
}

static void what_was_got_can_be_copied_and_not_written(void **state)
{
    crt_ref_t *ref = crt_put(filled(PART, 3));
    const crt_tensor_t *tensor;
    float *mine = malloc((size_t)PART * sizeof(float));
    int status;
    pid_t child;

    OK(crt_get(ref, &tensor));
    assert_true(crt_tensor_is_dense(tensor));
    memcpy(mine, tensor->data, crt_tensor_bytes(tensor));
    mine[0] += 1;
    assert_true(mine[0] == 4 && *(const float *)tensor->data == 3);
    child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile float *)tensor->data = 5;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    free(mine);
    crt_ref_drop(&ref);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_receiver_of_an_object_sees_the_tensor),
        cmocka_unit_test(a_put_takes_an_object),
        cmocka_unit_test(an_object_in_a_list_is_a_tensor_there),
        cmocka_unit_test(a_call_that_fails_leaves_nothing_in_the_store),
        cmocka_unit_test(a_large_argument_of_the_wrong_kind_is_refused_at_the_caller),
        cmocka_unit_test(an_object_can_be_given_once),
        cmocka_unit_test(what_was_got_can_be_copied_and_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What was being written when the cluster was left is let go of afterwards. */
static int given_after_the_end(void)
{
    crt_object_t *first, *second, *third;
    crt_ref_t *ref;

    if (crt_init(0, NULL, NULL) != CRT_OK)
        return 1;
    if (new_object(PART, 1, &first) != CRT_OK || new_object(PART, 1, &second) != CRT_OK ||
        new_object(PART, 1, &third) != CRT_OK || crt_shutdown() != CRT_OK)
        return 1;
    crt_object_abort(&first);
    ref = crt_put(second);
    if (crt_get(ref, NULL) != CRT_ERR_NOT_INITIALIZED)
        return 1;
    crt_ref_drop(&ref);
    ref = crt_object_seal(&third);
    if (crt_get(ref, NULL) != CRT_ERR_NOT_INITIALIZED || third)
        return 1;
    crt_ref_drop(&ref);
    return 0;
}

int main(int argc, char **argv)
{
    int failures =
        crt_main(argc, argv,
                 CRT_OPTIONS(.classes = CRT_CLASSES(&holder_class),
                             .tasks = CRT_TASKS(&sum, &sum_listed, &wants_int, &pass_on,
                                                &return_twice, &return_listed),
                             .num_cpus = 2, .object_store_memory = STORE),
                 driver);

    return failures ? failures : given_after_the_end();
}
