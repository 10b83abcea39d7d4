/* SPDX-License-Identifier: Apache-2.0 */
/* Refs that were dropped, and actor handles that are none: whoever uses them is told so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <crt.h>

#include "ok.h"
#include "program.h"

static int argc_of_main;
static char **argv_of_main;
static const crt_options_t program = {.struct_size = sizeof(program),
                                      .classes = PROGRAM_CLASSES,
                                      .tasks = PROGRAM_TASKS,
                                      .num_cpus = 2,
                                      .object_store_memory = 64 << 20};

static int join(void **state)
{
    OK(crt_init(argc_of_main, argv_of_main, &program));
    return 0;
}

static int leave(void **state)
{
    return crt_shutdown();
}

static void told(crt_status_t status, crt_status_t wanted, const char *text)
{
    assert_int_equal(status, wanted);
    if (!strstr(crt_error_detail(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, crt_error_detail());
}

static void fails(crt_ref_t *ref, crt_status_t wanted, const char *text)
{
    told(crt_get(ref, NULL), wanted, text);
    crt_ref_drop(&ref);
}

/* ------------------------------------------------------------------ refs */

static crt_ref_t *dropped_ref(void)
{
    crt_ref_t *ref = crt_put(5), *stale = ref;

    crt_ref_drop(&ref);
    return stale;
}

static void a_ref_that_was_dropped_is_told_from_one_of_before_a_shutdown(void **state)
{
    crt_ref_t *stale = dropped_ref(), *refs[2] = {stale, stale}, *old;
    crt_arg_t item = crt_arg_ref(stale);
    size_t ready;

    told(crt_get(stale, NULL), CRT_ERR_INVALID, "the ref was dropped");
    told(crt_wait(refs, 1, 1, 0, NULL, &ready), CRT_ERR_INVALID,
         "ref 0: the ref was dropped");
    assert_true(crt_ref_is_ready(stale)); /* get does not wait */
    assert_null(crt_ref_error(stale));
    old = crt_put(7);
    OK(crt_shutdown());
    told(crt_get(old, NULL), CRT_ERR_CLOSED, "of before crt_shutdown");
    fails(crt_ref_keep(old), CRT_ERR_CLOSED, "of before crt_shutdown");
    join(state);
    fails(crt_submit(&t_echo, NULL, old), CRT_ERR_CLOSED,
          "argument 1: the ref is of before crt_shutdown");
    crt_ref_drop(&old);
    stale = dropped_ref();
    fails(crt_submit(&t_echo, NULL, stale), CRT_ERR_INVALID,
          "argument 1: the ref was dropped");
    stale = dropped_ref();
    refs[0] = refs[1] = stale;
    fails(crt_submit(&t_sum, NULL, crt_arg_each(refs, 2)), CRT_ERR_INVALID,
          "argument 1: the ref was dropped");
    item = crt_arg_ref(dropped_ref());
    fails(crt_put(crt_list(&item, 1)), CRT_ERR_INVALID, "the ref was dropped");
}

static void a_ref_that_was_dropped_can_not_be_kept_or_dropped_again(void **state)
{
    crt_ref_t *stale = dropped_ref(), *again = stale, *kept = crt_ref_keep(stale);
    crt_ref_t *fresh[100];
    int64_t value;

    assert_ptr_not_equal(kept, stale);
    fails(kept, CRT_ERR_INVALID, "the ref was dropped");
    stale = again = dropped_ref();
    crt_ref_drop(&again);
    assert_null(again);
    crt_ref_drop(&stale);
    for (int i = 0; i < 100; i++) /* each is another one */
        fresh[i] = crt_put(i);
    for (int i = 0; i < 100; i++) {
        OK(crt_get(fresh[i], &value));
        assert_int_equal(value, i);
    }
    crt_refs_drop(fresh, 100);
}

/* ------------------------------------------------------------------ actors */

static void refused(crt_actor_t *handle, const char *text)
{
    crt_actor_t *copy = handle;

    told(crt_actor_kill(handle, NULL), CRT_ERR_INVALID, text);
    told(crt_actor_ready(handle, 0), CRT_ERR_INVALID, text);
    told(crt_tell(handle, &counter_add, 1), CRT_ERR_INVALID, text);
    fails(crt_call(handle, &counter_add, 1), CRT_ERR_INVALID, text);
    fails(crt_submit(&t_echo, NULL, handle), CRT_ERR_INVALID, text);
    assert_string_equal(crt_actor_id(handle), "");
    assert_null(crt_actor_keep(handle));
    crt_actor_drop(&copy);
    assert_null(copy);
}

static void a_handle_that_is_none_is_refused(void **state)
{
    static long zeros[64];
    int64_t value;
    crt_actor_t *actor = crt_actor_new(&counter_class, NULL, 1), *stale = actor;
    crt_ref_t *ref;

    OK(crt_actor_ready(actor, 20000));
    refused(NULL, "the actor handle is NULL");
    refused((crt_actor_t *)zeros, "it was dropped, or never was one");
    refused((crt_actor_t *)(uintptr_t)0x1230, "it was dropped, or never was one");
    ref = crt_call(actor, &counter_add, 1);
    OK(crt_get(ref, &value));
    assert_int_equal(value, 2);
    crt_ref_drop(&ref);
    OK(crt_actor_kill(actor, NULL));
    OK(crt_actor_kill(actor, NULL)); /* it has ended: as was wanted */
    crt_actor_drop(&actor);
    refused(stale, "it was dropped, or never was one");
}

static void an_actor_that_could_not_be_made_can_not_be_killed(void **state)
{
    crt_actor_t *actor = crt_actor_new(&counter_class, NULL, "text");

    told(crt_actor_kill(actor, NULL), CRT_ERR_INVALID, "there is no actor to kill: ");
    told(crt_actor_kill(actor, NULL), CRT_ERR_INVALID, "argument 1 is of kind string");
    crt_actor_drop(&actor);
    actor = crt_actor_new(NULL, NULL);
    told(crt_actor_kill(actor, NULL), CRT_ERR_INVALID, "there is no actor to kill: ");
    crt_actor_drop(&actor);
}

static void a_handle_of_before_a_shutdown_says_so_and_can_be_dropped(void **state)
{
    crt_actor_t *actor = crt_actor_new(&counter_class, NULL, 1), *kept, *stale = actor;

    OK(crt_shutdown());
    fails(crt_call(actor, &counter_get), CRT_ERR_NOT_INITIALIZED, "");
    join(state);
    told(crt_actor_kill(actor, NULL), CRT_ERR_CLOSED, "of before crt_shutdown");
    told(crt_actor_ready(actor, 0), CRT_ERR_CLOSED, "of before crt_shutdown");
    fails(crt_call(actor, &counter_get), CRT_ERR_CLOSED, "of before crt_shutdown");
    fails(crt_submit(&t_echo, NULL, actor), CRT_ERR_CLOSED, "of before crt_shutdown");
    assert_int_equal(strlen(crt_actor_id(actor)), 32);
    kept = crt_actor_keep(actor);
    crt_actor_drop(&actor);
    told(crt_actor_kill(kept, NULL), CRT_ERR_CLOSED, "of before crt_shutdown");
    crt_actor_drop(&kept);
    refused(stale, "it was dropped, or never was one");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ref_that_was_dropped_is_told_from_one_of_before_a_shutdown),
        cmocka_unit_test(a_ref_that_was_dropped_can_not_be_kept_or_dropped_again),
        cmocka_unit_test(a_handle_that_is_none_is_refused),
        cmocka_unit_test(an_actor_that_could_not_be_made_can_not_be_killed),
        cmocka_unit_test(a_handle_of_before_a_shutdown_says_so_and_can_be_dropped),
    };

    argc_of_main = argc;
    argv_of_main = argv;
    /* A worker of ours is this program, too: it stays in the first crt_init. */
    if (getenv("CRT_ZYGOTE_FD") || getenv("CRT_WORKER"))
        return crt_init(argc, argv, &program) != CRT_OK;
    return cmocka_run_group_tests(tests, join, leave);
}
