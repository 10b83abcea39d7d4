/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that no node has any more, although none that had them died: a node that is told that the
 * owner's host is dead drops what it kept for the owner, who may live on. Whoever wants the value
 * hears that it is lost, soon, and does not ask for it for ever. */
#include <crt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_hears_that_its_object_is_lost),
        cmocka_unit_test(a_borrower_hears_that_the_object_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&maker_class), .num_cpus = 2,
                                .object_store_memory = (uint64_t)32 << 20),
                    driver);
}
