/* SPDX-License-Identifier: Apache-2.0 */
/* crt_actor_save and `restore`: what an actor kept is what its next process begins with;
 * crt_actor_kill lets it have a next process. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define PATIENCE_MS 60000
#define LARGEST     (1 << 20)

/* ---------------------------------------------------------------- in the workers */

typedef struct account {
    int64_t balance, restored; /* bytes that restore had */
} account_t;

static crt_status_t account_restore(void *self, const void *state, size_t size)
{
    account_t *account = self;

    if (size < sizeof(account->balance))
        return crt_raise(CRT_ERR_USER, "%zu bytes are no balance", size);
    memcpy(&account->balance, state, sizeof(account->balance));
    account->restored = (int64_t)size;
    return CRT_OK;
}

static crt_status_t add_run(void *self, crt_call_t *call)
{
    account_t *account = self;
    int64_t amount;

    CRT_TRY(crt_args(call, &amount));
    account->balance += amount;
    CRT_TRY(crt_actor_save(call, &account->balance, sizeof(account->balance)));
    return crt_return(call, account->balance);
}
static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "int");

static crt_status_t balance_run(void *self, crt_call_t *call)
{
    return crt_return(call, ((account_t *)self)->balance);
}
static const crt_method_t balance =
    CRT_METHOD(.name = "balance", .run = balance_run, .signature = "");

static crt_status_t restored_run(void *self, crt_call_t *call)
{
    return crt_return(call, ((account_t *)self)->restored);
}
static const crt_method_t restored =
    CRT_METHOD(.name = "restored", .run = restored_run, .signature = "");

static crt_status_t pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static const crt_method_t pid =
    CRT_METHOD(.name = "pid", .run = pid_run, .signature = "");

/* Saves so many bytes, whatever is in them. */
static crt_status_t bytes_run(void *self, crt_call_t *call)
{
    int64_t size;
    crt_status_t status;
    void *bytes;

    CRT_TRY(crt_args(call, &size));
    bytes = calloc(1, (size_t)size + 1);
    status = crt_actor_save(call, bytes, (size_t)size);
    free(bytes);
    return status;
}
static const crt_method_t bytes =
    CRT_METHOD(.name = "bytes", .run = bytes_run, .signature = "int");

static const crt_actor_class_t account =
    CRT_ACTOR_CLASS(.name = "Account", .size = sizeof(account_t),
                    .restore = account_restore,
                    .methods = CRT_METHODS(&add, &balance, &restored, &pid, &bytes));
static const crt_actor_class_t forgetful =
    CRT_ACTOR_CLASS(.name = "Forgetful", .size = sizeof(account_t),
                    .methods = CRT_METHODS(&add, &balance, &pid));

static crt_status_t task_run(crt_call_t *call)
{
    return crt_actor_save(call, "", 1);
}
static const crt_task_t task = CRT_TASK(.name = "saves", .run = task_run);

/* ---------------------------------------------------------------- in the driver */

static int64_t value_of(crt_ref_t *ref)
{
    int64_t value;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

static crt_status_t end_of(crt_ref_t *ref)
{
    crt_status_t status = crt_get_for(ref, PATIENCE_MS, NULL);

    crt_ref_drop(&ref);
    return status;
}

static crt_actor_t *new_account(const crt_actor_class_t *class_, int64_t restarts)
{
    return crt_actor_new(class_, CRT_ACTOR_OPTIONS(.max_restarts = restarts,
                                                   .max_task_retries = restarts));
}

/* By kill -9; the call that asks for it next waits for the next process. */
static void kill_process(crt_actor_t *actor)
{
    int64_t old = value_of(crt_call(actor, &pid));

    assert_int_equal(kill((pid_t)old, SIGKILL), 0);
    while (value_of(crt_call(actor, &pid)) == old)
        usleep(1000);
}

static void fails_with(crt_ref_t *ref, crt_status_t status, const char *text)
{
    assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), status);
    assert_non_null(strstr(crt_error_detail(), text));
    crt_ref_drop(&ref);
}

static void the_next_process_begins_with_what_was_saved_last(void **state)
{
    crt_actor_t *actor = new_account(&account, -1);

    assert_int_equal(value_of(crt_call(actor, &add, 5)), 5);
    assert_int_equal(value_of(crt_call(actor, &restored)), 0);
    for (int64_t i = 1; i <= 3; i++) {
        kill_process(actor);
        assert_int_equal(value_of(crt_call(actor, &restored)), sizeof(int64_t));
        assert_int_equal(value_of(crt_call(actor, &add, 2)), 5 + 2 * i);
    }
    crt_actor_drop(&actor);
}

static void nothing_is_restored_when_nothing_was_saved_or_that_was_forgotten(void **state)
{
    crt_actor_t *actor = new_account(&account, -1);

    kill_process(actor);
    assert_int_equal(value_of(crt_call(actor, &restored)), 0);
    assert_int_equal(value_of(crt_call(actor, &add, 5)), 5);
    OK(end_of(crt_call(actor, &bytes, 0)));
    kill_process(actor);
    assert_int_equal(value_of(crt_call(actor, &balance)), 0);
    crt_actor_drop(&actor);
}

static void as_much_as_a_mebibyte_is_saved(void **state)
{
    crt_actor_t *actor = new_account(&account, -1);

    OK(end_of(crt_call(actor, &bytes, LARGEST)));
    fails_with(crt_call(actor, &bytes, LARGEST + 1), CRT_ERR_TOO_LARGE,
               "a state of 1048577 bytes, at most 1048576 are saved");
    kill_process(actor);
    assert_int_equal(value_of(crt_call(actor, &restored)), LARGEST);
    crt_actor_drop(&actor);
}

static void what_can_not_be_saved_is_refused(void **state)
{
    crt_actor_t *actor = new_account(&forgetful, 0);

    fails_with(crt_call(actor, &add, 1), CRT_ERR_INVALID,
               "the class Forgetful has no .restore");
    fails_with(crt_submit(&task, NULL), CRT_ERR_INVALID, "saves is no method");
    crt_actor_drop(&actor);
}

static void an_actor_that_can_not_be_restored_is_dead_and_says_why(void **state)
{
    crt_actor_t *actor = new_account(&account, 3);

    OK(end_of(crt_call(actor, &bytes, 3)));
    OK(crt_actor_kill(actor, CRT_KILL_OPTIONS(.restart = true)));
    while (end_of(crt_call(actor, &balance)) == CRT_OK)
        usleep(1000);
    fails_with(crt_call(actor, &balance), CRT_ERR_USER,
               "Account.restore of 3 bytes: 3 bytes are no balance");
    crt_actor_drop(&actor);
}

static void a_kill_with_restart_uses_up_restarts_and_then_ends_the_actor(void **state)
{
    crt_actor_t *actor = crt_actor_new(
        &account, CRT_ACTOR_OPTIONS(.max_restarts = 1, .max_task_retries = 1));
    int64_t old = value_of(crt_call(actor, &pid));

    assert_int_equal(value_of(crt_call(actor, &add, 7)), 7);
    OK(crt_actor_kill(actor, CRT_KILL_OPTIONS(.restart = true)));
    while (value_of(crt_call(actor, &pid)) == old)
        usleep(1000);
    assert_int_equal(value_of(crt_call(actor, &balance)), 7);
    OK(crt_actor_kill(actor, CRT_KILL_OPTIONS(.restart = true)));
    while (end_of(crt_call(actor, &balance)) == CRT_OK)
        usleep(1000);
    fails_with(crt_call(actor, &balance), CRT_ERR_ACTOR_DIED, "killed by crt_actor_kill");
    OK(crt_actor_kill(actor, CRT_KILL_OPTIONS(.restart = true))); /* it is dead */
    assert_int_equal(crt_actor_kill(actor, &(crt_kill_options_t){0}), CRT_ERR_INVALID);
    OK(crt_actor_kill(actor, NULL));
    crt_actor_drop(&actor);
    assert_int_equal(crt_actor_kill(NULL, NULL), CRT_ERR_INVALID);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_process_begins_with_what_was_saved_last),
        cmocka_unit_test(
            nothing_is_restored_when_nothing_was_saved_or_that_was_forgotten),
        cmocka_unit_test(as_much_as_a_mebibyte_is_saved),
        cmocka_unit_test(what_can_not_be_saved_is_refused),
        cmocka_unit_test(an_actor_that_can_not_be_restored_is_dead_and_says_why),
        cmocka_unit_test(a_kill_with_restart_uses_up_restarts_and_then_ends_the_actor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&task),
                                .classes = CRT_CLASSES(&account, &forgetful),
                                .num_cpus = 2),
                    driver);
}
