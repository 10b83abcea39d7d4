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
static const crt_method_t read_method = {"read", run, ""},
                          write_method = {"write", run, ""}, other = {"other", run, ""};

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
    const crt_concurrency_group_t io = {"io", 2, CRT_METHODS(&write_method)},
                                  none = {"none", 1000};
    const crt_concurrency_group_t *const *groups = CRT_CONCURRENCY_GROUPS(&none, &io);
    crti_program_t program;
    unsigned group;

    assert_int_equal(declare(groups, &program), CRT_OK);
    assert_int_equal(program.classes[0].group_count, 2);
    assert_int_equal(program.classes[0].methods[0].group, 0);
    assert_int_equal(program.classes[0].methods[1].group, 2);
    assert_int_equal(crti_class_group(&program.classes[0], &none, &group), CRT_OK);
    assert_int_equal(group, 1);
    assert_int_equal(crti_class_group(&program.classes[0],
                                      &(crt_concurrency_group_t){NULL, 1}, &group),
                     CRT_ERR_INVALID);
    crti_program_fini(&program);
}

static void wrong_groups_are_refused_by_name(void **state)
{
    const crt_concurrency_group_t none = {NULL, 1}, zero = {"zero", 0},
                                  many = {"many", 1001},
                                  io = {"io", 1, CRT_METHODS(&read_method)},
                                  again = {"io", 2},
                                  both = {"both", 1,
                                          CRT_METHODS(&write_method, &read_method)},
                                  foreign = {"foreign", 1, CRT_METHODS(&other)};
    static const crt_concurrency_group_t sixteen[16] = {
        {"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}, {"h", 1},
        {"i", 1}, {"j", 1}, {"k", 1}, {"l", 1}, {"m", 1}, {"n", 1}, {"o", 1}, {"p", 1}};
    const crt_concurrency_group_t *list[17] = {NULL};

    for (int i = 0; i < 16; i++)
        list[i] = &sixteen[i];
    refused(CRT_CONCURRENCY_GROUPS(&none), "has no name");
    refused(CRT_CONCURRENCY_GROUPS(&zero), "zero is 0, not 1 to 1000");
    refused(CRT_CONCURRENCY_GROUPS(&many), "many is 1001, not 1 to 1000");
    refused(CRT_CONCURRENCY_GROUPS(&io, &again), "group io is there twice");
    refused(CRT_CONCURRENCY_GROUPS(&io, &both),
            "Files.read is in two concurrency groups");
    refused(CRT_CONCURRENCY_GROUPS(&foreign), "has no method other");
    refused(list, "more than 15");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_are_in_the_group_that_lists_them),
        cmocka_unit_test(wrong_groups_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
