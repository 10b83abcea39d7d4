/* SPDX-License-Identifier: Apache-2.0 */
/* Concurrency groups as a class declares them: which group a method is in, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "runtime/core/process/program.h"

#include <cmocka.h>

static crt_status_t run(void *self, crt_call_t *call)
{
    return CRT_OK;
}
static const crt_method_t read_method =
    CRT_METHOD(.name = "read", .run = run, .signature = "");
static const crt_method_t write_method =
    CRT_METHOD(.name = "write", .run = run, .signature = "");
static const crt_method_t other =
    CRT_METHOD(.name = "other", .run = run, .signature = "");

/* What the program says of a class with these groups. */
static crt_status_t declare(const crt_concurrency_group_t *const *groups,
                            crti_program_t *program)
{
    const crt_actor_class_t files =
        CRT_ACTOR_CLASS(.name = "Files",
                        .methods = CRT_METHODS(&read_method, &write_method),
                        .concurrency_groups = groups);
    const crt_options_t options = {.struct_size = sizeof(options),
                                   .classes = CRT_CLASSES(&files)};
    static crt_actor_class_t kept;
    crt_status_t status = crti_program_init(program, &options);

    kept = files;
    if (status == CRT_OK)
        program->classes[0].user = &kept;
    return status;
}

static void refused(const crt_concurrency_group_t *const *groups, const char *text)
{
    crti_program_t program;

    assert_int_equal(declare(groups, &program), CRT_ERR_INVALID);
    if (!strstr(crt_error_detail(), text))
        fail_msg("\"%s\" has no \"%s\"", crt_error_detail(), text);
}

static void methods_are_in_the_group_that_lists_them(void **state)
{
    const crt_concurrency_group_t io =
        CRT_CONCURRENCY_GROUP(.name = "io", .max_concurrency = 2,
                              .methods = CRT_METHODS(&write_method));
    const crt_concurrency_group_t none =
        CRT_CONCURRENCY_GROUP(.name = "none", .max_concurrency = 1000);
    const crt_concurrency_group_t nameless = CRT_CONCURRENCY_GROUP(.max_concurrency = 1);
    const crt_concurrency_group_t *const *groups = CRT_CONCURRENCY_GROUPS(&none, &io);
    crti_program_t program;
    unsigned group;

    assert_int_equal(declare(groups, &program), CRT_OK);
    assert_int_equal(program.classes[0].group_count, 2);
    assert_int_equal(program.classes[0].methods[0].group, 0);
    assert_int_equal(program.classes[0].methods[1].group, 2);
    assert_int_equal(crti_class_group(&program.classes[0], &none, &group), CRT_OK);
    assert_int_equal(group, 1);
    assert_int_equal(crti_class_group(&program.classes[0], &nameless, &group),
                     CRT_ERR_INVALID);
    crti_program_fini(&program);
}

static void wrong_groups_are_refused_by_name(void **state)
{
    const crt_concurrency_group_t none =
        CRT_CONCURRENCY_GROUP(.name = NULL, .max_concurrency = 1);
    const crt_concurrency_group_t zero =
        CRT_CONCURRENCY_GROUP(.name = "zero", .max_concurrency = 0);
    const crt_concurrency_group_t many =
        CRT_CONCURRENCY_GROUP(.name = "many", .max_concurrency = 1001);
    const crt_concurrency_group_t io =
        CRT_CONCURRENCY_GROUP(.name = "io", .max_concurrency = 1,
                              .methods = CRT_METHODS(&read_method));
    const crt_concurrency_group_t again =
        CRT_CONCURRENCY_GROUP(.name = "io", .max_concurrency = 2);
    const crt_concurrency_group_t both =
        CRT_CONCURRENCY_GROUP(.name = "both", .max_concurrency = 1,
                              .methods = CRT_METHODS(&write_method, &read_method));
    const crt_concurrency_group_t foreign =
        CRT_CONCURRENCY_GROUP(.name = "foreign", .max_concurrency = 1,
                              .methods = CRT_METHODS(&other));
    const crt_concurrency_group_t bare = {.name = "bare", .max_concurrency = 1};
    crt_concurrency_group_t sixteen[16];
    const crt_concurrency_group_t *list[17] = {NULL};
    char names[16][2] = {""};

    for (int i = 0; i < 16; i++) {
        names[i][0] = (char)('a' + i);
        sixteen[i] = (crt_concurrency_group_t)CRT_CONCURRENCY_GROUP(.name = names[i],
                                                                    .max_concurrency = 1);
        list[i] = &sixteen[i];
    }
    refused(CRT_CONCURRENCY_GROUPS(&bare), "CRT_CONCURRENCY_GROUP");
    refused(CRT_CONCURRENCY_GROUPS(&none), "has no name");
    refused(CRT_CONCURRENCY_GROUPS(&zero), "zero is 0, not 1 to 1000");
    refused(CRT_CONCURRENCY_GROUPS(&many), "many is 1001, not 1 to 1000");
    refused(CRT_CONCURRENCY_GROUPS(&io, &again), "group io is there twice");
    refused(CRT_CONCURRENCY_GROUPS(&io, &both),
            "Files.read is in two concurrency groups");
    refused(CRT_CONCURRENCY_GROUPS(&foreign), "has no method other");
    refused(list, "more than 15");
}

static void methods_without_their_macro_are_refused(void **state)
{
    const crt_method_t bare = {.name = "bare", .run = run};
    /* As {"bare", run} was read before the struct began with its size. */
    const crt_method_t positional = {(size_t)(uintptr_t) "bare",
                                     (const char *)(uintptr_t)run};
    const crt_method_t *methods[] = {&bare, &positional};

    for (size_t i = 0; i < 2; i++) {
        const crt_actor_class_t files =
            CRT_ACTOR_CLASS(.name = "Files", .methods = CRT_METHODS(methods[i]));
        crti_program_t program;

        assert_int_equal(
            crti_program_init(&program, CRT_OPTIONS(.classes = CRT_CLASSES(&files))),
            CRT_ERR_INVALID);
        assert_non_null(strstr(crt_error_detail(), "CRT_METHOD"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_are_in_the_group_that_lists_them),
        cmocka_unit_test(wrong_groups_are_refused_by_name),
        cmocka_unit_test(methods_without_their_macro_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
