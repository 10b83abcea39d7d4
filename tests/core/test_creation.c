/* SPDX-License-Identifier: Apache-2.0 */
/* What an actor is created with is there when its create runs, late or once more. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
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
static const crt_method_t holder_sum =
    CRT_METHOD(.name = "sum", .run = holder_sum_run, .signature = "");

static crt_status_t holder_exit_run(void *self, crt_call_t *call)
{
    _exit(3);
}
static const crt_method_t holder_exit =
    CRT_METHOD(.name = "exit", .run = holder_exit_run, .signature = "");

static const crt_actor_class_t holder_class =
    CRT_ACTOR_CLASS(.name = "Holder", .size = sizeof(struct holder),
                    .create = holder_create, .signature = "tensor",
                    .methods = CRT_METHODS(&holder_sum, &holder_exit));

static crt_ref_t *put_ones(void)
{
    crt_tensor_t view;
    crt_object_t *object;

    OK(crt_object_create(CRT_DTYPE_FLOAT32, 1, &(int64_t){COUNT}, &object, &view));
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
        OK(crt_actor_find("the holder", NULL, &holder_class, &found));
        crt_actor_drop(&made);
        check_sum(found);
        OK(crt_actor_kill(found, NULL));
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
    OK(crt_actor_find("the holder", NULL, &holder_class, &found));
    crt_actor_drop(&made);
    for (int i = 0; i < 2; i++) {
        ref = crt_call(found, &holder_exit);
        assert_int_equal(crt_get(ref, NULL), CRT_ERR_ACTOR_DIED);
        crt_ref_drop(&ref);
        check_sum(found);
    }
    OK(crt_actor_kill(found, NULL));
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
        OK(crt_actor_kill(holder, NULL));
        crt_actor_drop(&holder);
    }
}

/* ------------------------------------------------------------------ create dies */

static char directory[] = "/tmp/crt_creation_XXXXXX";

/* (path, how): notes its run in the file. The first process dies: 0 by a signal, 1 by an exit. */
struct frail {
    int64_t count;
};

static crt_status_t frail_create(void *self, crt_call_t *call)
{
    const char *path;
    int how;
    FILE *file;
    long runs;

    CRT_TRY(crt_args(call, &path, &how));
    file = fopen(path, "ae");
    if (!file || fputc('x', file) == EOF || fflush(file) != 0)
        return CRT_ERR_IO;
    runs = ftell(file);
    fclose(file);
    if (runs == 1 && how)
        _exit(1);
    if (runs == 1)
        raise(SIGKILL);
    return CRT_OK;
}

static crt_status_t frail_add_run(void *self, crt_call_t *call)
{
    return crt_return(call, ++((struct frail *)self)->count);
}
static const crt_method_t frail_add =
    CRT_METHOD(.name = "add", .run = frail_add_run, .signature = "");

static const crt_actor_class_t frail_class =
    CRT_ACTOR_CLASS(.name = "Frail", .size = sizeof(struct frail), .create = frail_create,
                    .signature = "string, int", .methods = CRT_METHODS(&frail_add));

/* (actor) -> what its next call gives, made by another process. */
static crt_status_t ask_run(crt_call_t *call)
{
    crt_actor_t *actor;
    crt_ref_t *ref;
    int64_t value;
    crt_status_t status;

    CRT_TRY(crt_args(call, &actor));
    ref = crt_call(actor, &frail_add);
    status = crt_get(ref, &value);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, value) : status;
}
static const crt_task_t ask =
    CRT_TASK(.name = "ask", .run = ask_run, .signature = "actor");

static crt_actor_t *new_frail(int number, int64_t max_restarts, char path[64])
{
    snprintf(path, 64, "%s/%d", directory, number);
    return crt_actor_new(&frail_class, CRT_ACTOR_OPTIONS(.max_restarts = max_restarts),
                         (const char *)path, number % 2);
}

static long runs_of(const char *path)
{
    FILE *file = fopen(path, "re");
    long runs = 0;

    while (file && fgetc(file) != EOF)
        runs++;
    if (file)
        fclose(file);
    remove(path);
    return runs;
}

static void calls_wait_for_the_process_after_one_that_died_in_its_create(void **state)
{
    char path[64];

    for (int i = 0; i < 20; i++) {
        crt_actor_t *actor = new_frail(i, 2, path);
        crt_ref_t *refs[5], *other;
        int64_t value;

        for (int k = 0; k < 5; k++)
            refs[k] = crt_call(actor, &frail_add);
        other = crt_submit(&ask, NULL, actor);
        for (int k = 0; k < 5; k++) {
            if (crt_get(refs[k], &value) != CRT_OK)
                fail_msg("actor %d, call %d: %s", i, k, crt_error_detail());
            if (k)
                assert_true(value > k);
        }
        if (crt_get(other, &value) != CRT_OK)
            fail_msg("actor %d, of another process: %s", i, crt_error_detail());
        assert_int_equal(runs_of(path), 2);
        crt_refs_drop(refs, 5);
        crt_ref_drop(&other);
        crt_actor_drop(&actor);
    }
}

static void an_actor_is_ready_when_its_second_process_has_run_create(void **state)
{
    char path[64];

    for (int i = 0; i < 20; i++) {
        crt_actor_t *actor = new_frail(i, 2, path);

        if (crt_actor_ready(actor, 60000) != CRT_OK)
            fail_msg("actor %d: %s", i, crt_error_detail());
        assert_int_equal(runs_of(path), 2);
        crt_actor_drop(&actor);
    }
}

static void
without_restarts_create_runs_once_and_the_error_says_what_happened(void **state)
{
    char path[64];

    for (int i = 0; i < 60; i++) {
        crt_actor_t *actor = new_frail(i, 0, path);
        crt_ref_t *ref = crt_call(actor, &frail_add);
        const crt_error_t *error;

        assert_int_equal(crt_get_for(ref, 60000, NULL), CRT_ERR_ACTOR_DIED);
        error = crt_ref_error(ref);
        assert_true(strlen(error->text) > 0);
        assert_false(error->may_have_run);
        assert_int_equal(crt_actor_ready(actor, 60000), CRT_ERR_ACTOR_DIED);
        assert_true(strlen(crt_error_detail()) > 0);
        assert_int_equal(runs_of(path), 1);
        crt_ref_drop(&ref);
        crt_actor_drop(&actor);
    }
}

static int make_directory(void **state)
{
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    return rmdir(directory);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_create_finds_what_its_creator_has_dropped),
        cmocka_unit_test(a_create_that_runs_again_finds_it_too),
        cmocka_unit_test(it_is_let_go_when_create_has_ended_or_the_actor),
        cmocka_unit_test(calls_wait_for_the_process_after_one_that_died_in_its_create),
        cmocka_unit_test(an_actor_is_ready_when_its_second_process_has_run_create),
        cmocka_unit_test(
            without_restarts_create_runs_once_and_the_error_says_what_happened),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&holder_class, &frail_class),
                                .tasks = CRT_TASKS(&ask), .num_cpus = 2,
                                .object_store_memory = 48 << 20),
                    driver);
}
