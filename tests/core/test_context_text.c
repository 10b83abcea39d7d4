/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/client/context_text.c, and of the option of a program. */
#include "runtime/core/client/context_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static crti_context_text_t understood(const char *text)
{
    crti_context_text_t read;

    if (crti_context_text_read(text, &read) != CRT_OK)
        fail_msg("%s: %s", text ? text : "no text", crt_error_detail());
    return read;
}

static void no_text_means_the_cluster_that_is_there(void **state)
{
    assert_int_equal(understood(NULL).mode, CRTI_CONTEXT_FOUND);
}

static void local_has_nodes_and_their_cpus(void **state)
{
    crti_context_text_t one = understood("local"), four = understood("local:4"),
                        sized = understood("local:64x3");

    assert_int_equal(one.mode, CRTI_CONTEXT_LOCAL);
    assert_int_equal(one.nodes, 1);
    assert_int_equal(one.num_cpus, 0);
    assert_int_equal(four.nodes, 4);
    assert_int_equal(four.num_cpus, 0);
    assert_int_equal(sized.nodes, 64);
    assert_int_equal(sized.num_cpus, 3);
}

static void an_address_is_a_host_and_its_port(void **state)
{
    const char *const addresses[] = {"10.0.0.1:6380", "head.example:1024", "local1:6380",
                                     "[::1]:65535"};

    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        crti_context_text_t read = understood(addresses[i]);

        assert_int_equal(read.mode, CRTI_CONTEXT_ADDRESS);
        assert_string_equal(read.where, addresses[i]);
    }
}

static void a_file_is_a_path_of_any_kind(void **state)
{
    assert_int_equal(understood("file:labs/a b.yaml").mode, CRTI_CONTEXT_FILE);
    assert_string_equal(understood("file:labs/a b.yaml").where, "labs/a b.yaml");
}

static void slurm_has_the_nodes_of_the_allocation_or_a_number(void **state)
{
    assert_int_equal(understood("slurm").mode, CRTI_CONTEXT_SLURM);
    assert_int_equal(understood("slurm").nodes, 0);
    assert_int_equal(understood("slurm:16").nodes, 16);
}

static void kubernetes_has_a_service_or_the_usual_one(void **state)
{
    assert_int_equal(understood("kubernetes").mode, CRTI_CONTEXT_KUBERNETES);
    assert_string_equal(understood("kubernetes").where, "");
    assert_string_equal(understood("kubernetes:head").where, "head");
    assert_string_equal(understood("kubernetes:my-head.lab-2").where, "my-head.lab-2");
    assert_int_equal(understood("kubernetes:6380").mode, CRTI_CONTEXT_ADDRESS);
}

static void other_texts_are_refused_with_what_there_is(void **state)
{
    static const char *const texts[] = {"",
                                        "here",
                                        "local:",
                                        "local:0",
                                        "local:65",
                                        "local:4x",
                                        "local:4x0",
                                        "local:-1",
                                        "local:4 ",
                                        "local:99999999999999999999",
                                        "slurm:",
                                        "slurm:0",
                                        "slurm:all",
                                        "file",
                                        "file:",
                                        "kubernetes:",
                                        "kubernetes:Head",
                                        "kubernetes:head.",
                                        "kubernetes:head.a.b",
                                        "kubernetes:../head",
                                        "yarn:4",
                                        "k8s:4",
                                        "host",
                                        "host:",
                                        ":6380",
                                        "host:0x1900",
                                        "host:65536",
                                        "host:1023",
                                        "a b:6380",
                                        "http://host:6380"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        crti_context_text_t read;

        if (crti_context_text_read(texts[i], &read) != CRT_ERR_INVALID)
            fail_msg("\"%s\" is understood", texts[i]);
        assert_non_null(strstr(crt_error_detail(), "local:NODES"));
        assert_non_null(strstr(crt_error_detail(), texts[i]));
    }
}

/* ---------------------------------------------------------------- the option */

static int count;
static char *words[8];

static const char *taken_from(const char *const *given)
{
    for (count = 0; given[count]; count++)
        words[count] = (char *)(uintptr_t)given[count];
    words[count] = NULL;
    return crt_context_option(&count, words, "--cluster");
}

static void the_option_is_taken_out_of_the_arguments(void **state)
{
    assert_string_equal(
        taken_from((const char *const[]){"p", "--a", "--cluster", "local", "b", NULL}),
        "local");
    assert_int_equal(count, 3);
    assert_string_equal(words[1], "--a");
    assert_string_equal(words[2], "b");
    assert_null(words[3]);
    assert_string_equal(taken_from((const char *const[]){"p", "--cluster=h:6380", NULL}),
                        "h:6380");
    assert_int_equal(count, 1);
}

static void the_last_of_several_options_counts(void **state)
{
    assert_string_equal(
        taken_from((const char *const[]){"p", "--cluster=a", "--cluster", "b", NULL}),
        "b");
    assert_int_equal(count, 1);
}

static void other_arguments_and_operands_are_left_alone(void **state)
{
    assert_null(taken_from((const char *const[]){"--cluster", "--clusters=a", "cluster",
                                                 "--", "--cluster", "local", NULL}));
    assert_int_equal(count, 6);
    assert_string_equal(words[4], "--cluster");
}

static void an_option_without_a_text_is_no_cluster(void **state)
{
    assert_string_equal(taken_from((const char *const[]){"p", "--cluster", NULL}), "");
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_text_means_the_cluster_that_is_there),
        cmocka_unit_test(local_has_nodes_and_their_cpus),
        cmocka_unit_test(an_address_is_a_host_and_its_port),
        cmocka_unit_test(a_file_is_a_path_of_any_kind),
        cmocka_unit_test(slurm_has_the_nodes_of_the_allocation_or_a_number),
        cmocka_unit_test(kubernetes_has_a_service_or_the_usual_one),
        cmocka_unit_test(other_texts_are_refused_with_what_there_is),
        cmocka_unit_test(the_option_is_taken_out_of_the_arguments),
        cmocka_unit_test(the_last_of_several_options_counts),
        cmocka_unit_test(other_arguments_and_operands_are_left_alone),
        cmocka_unit_test(an_option_without_a_text_is_no_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
