/* SPDX-License-Identifier: Apache-2.0 */
/* What an actor is created with is there when its create runs, late or once more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"

#define COUNT ((int64_t)1 << 20) /* floats: 4 MiB, which lie in the store */

struct holder {
    double sum;
};

static crt_status_t holder_create(void *self, crt_call_t *call)
{
    struct holder *holder = self;
    const crt_tensor_t *tensor;

    CRT_TRY(crt_args(call, &tensor));
    for (size_t i = 0; i < crt_tensor_count(tensor); i++)
        holder->sum += ((const float *)tensor->data)[i];
    return CRT_OK;
}

static crt_status_t holder_sum_run(void *self, crt_call_t *call)
{
    return crt_return(call, ((struct holder *)self)->sum);
}
static const crt_method_t holder_sum = {"sum", holder_sum_run, ""};

static crt_status_t holder_exit_run(void *self, crt_call_t *call)
{
    _exit(3);
}
static const crt_method_t holder_exit = {"exit", holder_exit_run, ""};

static const crt_actor_class_t holder_class =
    CRT_ACTOR_CLASS(.name = "Holder", .size = sizeof(struct holder),
                    .create = holder_create, .signature = "tensor",
                    .methods = CRT_METHODS(&holder_sum, &holder_exit));

static crt_ref_t *put_ones(void)
{
    crt_tensor_t view;
    crt_object_t *object;

    OK(crt_object_create(CRT_FLOAT32, 1, &(int64_t){COUNT}, &object, &view));
    for (int64_t i = 0; i < COUNT; i++)
        ((float *)view.data)[i] = 1;
    return crt_object_seal(&object);
}

static void check_sum(crt_actor_t *holder)
{
    crt_ref_t *ref = crt_call(holder, &holder_sum);
    double sum;

    OK(crt_get(ref, &sum));
    crt_ref_drop(&ref);
    assert_true(sum == (double)COUNT);
}

static void a_create_finds_what_its_creator_has_dropped(void **state)
{
    for (int i = 0; i < 10; i++) {
        crt_ref_t *ones = put_ones();
        crt_actor_t *made = crt_actor_new(&holder_class,
                                          CRT_ACTOR_OPTIONS(.name = "the holder"), ones),
                    *found;

        crt_ref_drop(&ones);
        OK(crt_actor_find("the holder", &holder_class, &found));
        crt_actor_drop(&made);
        check_sum(found);
        OK(crt_actor_kill(found));
        crt_actor_drop(&found);
    }
}

static void a_create_that_runs_again_finds_it_too(void **state)
{
    crt_ref_t *ones = put_ones(), *ref;
    crt_actor_t *made = crt_actor_new(
                    &holder_class,
                    CRT_ACTOR_OPTIONS(.name = "the holder", .max_restarts = 2), ones),
                *found;

    crt_ref_drop(&ones);
    check_sum(made);
    OK(crt_actor_find("the holder", &holder_class, &found));
    crt_actor_drop(&made);
    for (int i = 0; i < 2; i++) {
        ref = crt_call(found, &holder_exit);
        assert_int_equal(crt_get(ref, NULL), CRT_ERR_ACTOR_DIED);
        crt_ref_drop(&ref);
        check_sum(found);
    }
    OK(crt_actor_kill(found));
    crt_actor_drop(&found);
}

/* More would not fit into the store otherwise. */
static void it_is_let_go_when_create_has_ended_or_the_actor(void **state)
{
    for (int i = 0; i < 24; i++) {
        crt_ref_t *ones = put_ones();
        crt_actor_t *holder =
            crt_actor_new(&holder_class, CRT_ACTOR_OPTIONS(.max_restarts = i % 2), ones);

        crt_ref_drop(&ones);
        check_sum(holder);
        OK(crt_actor_kill(holder));
        crt_actor_drop(&holder);
    }
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_create_finds_what_its_creator_has_dropped),
        cmocka_unit_test(a_create_that_runs_again_finds_it_too),
        cmocka_unit_test(it_is_let_go_when_create_has_ended_or_the_actor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&holder_class), .num_cpus = 2,
                                .object_store_memory = 48 << 20),
                    driver);
}
