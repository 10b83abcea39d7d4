/* SPDX-License-Identifier: Apache-2.0 */
/* Refs inside refs inside refs: who keeps the innermost one and lets go of the outermost has
 * registered at its owner first, although that owner has stopped. Each of the three belongs to
 * another process. */
#include <crt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ok.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/refs/refs_int.h"

#include <cmocka.h>

#define LARGE_BYTES (256 << 10)
#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

static crt_status_t owner_pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}
static const crt_method_t owner_pid =
    CRT_METHOD(.name = "pid", .run = owner_pid_run, .signature = "");

static crt_status_t return_in_list(crt_call_t *call, crt_ref_t *ref)
{
    crt_arg_t items[] = {CRT_ARG(ref)};
    crt_status_t status = crt_return(call, crt_list(items, 1));

    crt_ref_drop(&ref);
    return status;
}

static crt_status_t owner_put_run(void *self, crt_call_t *call)
{
    static char bytes[LARGE_BYTES];

    return return_in_list(call, crt_put(((crt_bytes_t){bytes, LARGE_BYTES})));
}
static const crt_method_t owner_put =
    CRT_METHOD(.name = "put", .run = owner_put_run, .signature = "");

/* [ref] becomes the value of an object of this process. */
static crt_status_t owner_wrap_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;
    crt_arg_t items[1];

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    items[0] = CRT_ARG(ref);
    return return_in_list(call, crt_put(crt_list(items, 1)));
}
static const crt_method_t owner_wrap =
    CRT_METHOD(.name = "wrap", .run = owner_wrap_run, .signature = "list");

/* How many objects this process owns. */
static crt_status_t owner_count_run(void *self, crt_call_t *call)
{
    crti_core_t *core = crti_enter();
    int64_t count = (int64_t)core->refs->owned.count;

    crti_leave(core);
    return crt_return(call, count);
}
static const crt_method_t owner_count =
    CRT_METHOD(.name = "count", .run = owner_count_run, .signature = "");

static const crt_actor_class_t owner_class =
    CRT_ACTOR_CLASS(.name = "Owner", .methods = CRT_METHODS(&owner_pid, &owner_put,
                                                            &owner_wrap, &owner_count));

/* ---------------------------------------------------------------- in the driver */

enum { INNER, MIDDLE, OUTER, OWNERS };

/* The only ref in a list. Borrowed. */
static crt_ref_t *only(crt_ref_t *list)
{
    const crt_value_t *value;
    crt_ref_t *ref;

    OK(crt_get_for(list, PATIENCE_MS, &value));
    OK(crt_value_read(crt_value_at(value, 0), &ref));
    return ref;
}

/* What `owner` makes of the ref in `list`, which is dropped. */
static crt_ref_t *wrap(crt_actor_t *owner, crt_ref_t *list)
{
    crt_arg_t items[] = {CRT_ARG(only(list))};
    crt_ref_t *result = crt_call(owner, &owner_wrap, crt_list(items, 1));

    OK(crt_get_for(result, PATIENCE_MS, NULL));
    crt_ref_drop(&list);
    return result;
}

static int64_t ask(crt_actor_t *owner, const crt_method_t *method)
{
    crt_ref_t *answer = crt_call(owner, method);
    int64_t number;

    OK(crt_get_for(answer, PATIENCE_MS, &number));
    crt_ref_drop(&answer);
    return number;
}

static void the_outermost_ref_lasts_until_the_innermost_is_registered(void **state)
{
    crt_actor_t *owners[OWNERS];
    crt_ref_t *list, *inner;
    int64_t before;
    pid_t stopped;

    for (int i = 0; i < OWNERS; i++)
        owners[i] = crt_actor_new(&owner_class, NULL);
    list = crt_call(owners[INNER], &owner_put);
    list = wrap(owners[MIDDLE], list);
    list = wrap(owners[OUTER], list);
    inner = crt_ref_keep(only(only(only(list))));
    before = ask(owners[OUTER], &owner_count);
    stopped = (pid_t)ask(owners[INNER], &owner_pid);

    kill(stopped, SIGSTOP);
    crt_ref_drop(&list); /* the inner one is still here */
    /* What was let go of would be told before this question. */
    assert_int_equal(ask(owners[OUTER], &owner_count), before);
    kill(stopped, SIGCONT);

    OK(crt_get_for(inner, PATIENCE_MS, NULL));
    crt_ref_drop(&inner);
    for (int i = 0; i < OWNERS; i++)
        crt_actor_drop(&owners[i]);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_outermost_ref_lasts_until_the_innermost_is_registered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&owner_class), .num_cpus = 4,
                                .object_store_memory = (uint64_t)32 << 20),
                    driver);
}
