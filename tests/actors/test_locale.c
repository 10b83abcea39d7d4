/* SPDX-License-Identifier: Apache-2.0 */
/* A program in a locale with a decimal comma: its cluster, its metrics and its training read and
 * write the same numbers as everywhere. The locale is made for the test, so that no host has to
 * have it. */
#include <ftw.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <crt.h>
#include <crt_configuration.h>

#define LOCALE "de_DE.UTF-8"

#define OK(expression)                                                                   \
    do {                                                                                 \
        crt_status_t status_ = (expression);                                             \
        if (status_ != CRT_OK)                                                           \
            fail_msg("%s: %s", #expression, crt_error_detail());                         \
    } while (0)

static crt_status_t half_run(crt_call_t *call)
{
    char text[16];

    snprintf(text, sizeof(text), "%.1f",
             0.5); /* in the locale of the program, here too */
    return crt_return(call, text);
}
static const crt_task_t half = CRT_TASK(.name = "half", .run = half_run, .signature = "");

static void a_private_cluster_starts_and_its_workers_have_the_locale(void **state)
{
    crt_ref_t *ref =
        crt_submit(&half, CRT_TASK_OPTIONS(.num_cpus = 0.25, .resources = "disk=0.5"));
    const char *text;

    OK(crt_get(ref, &text));
    assert_string_equal(text, "0,5");
    crt_ref_drop(&ref);
}

static void what_is_told_of_the_cluster_is_json(void **state)
{
    char *json;

    OK(crt_cluster_state("nodes", &json));
    assert_non_null(strstr(json, "1.5"));
    assert_null(strstr(json, "1,5"));
    crt_free(json);
}

static void errors_have_a_decimal_point(void **state)
{
    crt_ref_t *ref = crt_submit(
        &half, CRT_TASK_OPTIONS(.num_cpus = 2.5, .if_infeasible = CRT_INFEASIBLE_FAILS));

    assert_int_equal(crt_get(ref, NULL), CRT_ERR_UNSCHEDULABLE);
    assert_non_null(strstr(crt_error_detail(), "2.5"));
    crt_ref_drop(&ref);
    crt_raise(CRT_ERR_INVALID, "%.2f", 0.25);
    assert_string_equal(crt_error_detail(), "0.25");
}

static void metrics_take_their_bounds_and_values(void **state)
{
    crt_histogram_t *histogram;
    crt_gauge_t *gauge;

    OK(crt_gauge("test_part", "of a whole", NULL, &gauge));
    crt_gauge_set(gauge, 0.25);
    OK(crt_histogram("test_time", "in s", NULL, (const double[]){0.25, 0.5}, 2,
                     &histogram));
    crt_histogram_observe(histogram, 0.3);
}

static void a_training_is_configured_as_everywhere(void **state)
{
    static const char text[] = "[training]\nlearn_rate = 0.0625\ndropout = 1.5\n";
    crt_configuration_t *c;
    double rate = 0, decay = 0.125, dropout = 0;
    char *all;

    OK(crt_configuration_parse("spec.cfg", text, strlen(text), &c));
    OK(crt_configuration_override(c, "--training.beta=0.75"));
    OK(crt_configuration_resolve(c));
    OK(crt_configuration_float(c, "training.learn_rate", 0, 1, &rate));
    assert_true(rate == 0.0625);
    OK(crt_configuration_float(c, "training.beta", 0, 1, &rate));
    assert_true(rate == 0.75);
    OK(crt_configuration_float(c, "training.decay", 0, 1, &decay));
    assert_int_equal(crt_configuration_float(c, "training.dropout", 0, 0.5, &dropout),
                     CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "1.5, not a number in 0..0.5"));
    OK(crt_configuration_text(c, &all));
    assert_non_null(strstr(all, "0.0625"));
    assert_non_null(strstr(all, "0.125"));
    crt_free(all);
    crt_configuration_drop(&c);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_private_cluster_starts_and_its_workers_have_the_locale),
        cmocka_unit_test(what_is_told_of_the_cluster_is_json),
        cmocka_unit_test(errors_have_a_decimal_point),
        cmocka_unit_test(metrics_take_their_bounds_and_values),
        cmocka_unit_test(a_training_is_configured_as_everywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *walk)
{
    return remove(path);
}

/* Workers find it in their environment. */
static int make_locale(char *directory)
{
    char command[200];

    if (!mkdtemp(directory))
        return -1;
    snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s/" LOCALE,
             directory);
    if (system(command) != 0) {
        fprintf(stderr, "no locale can be made (package locales): %s\n", command);
        return -1;
    }
    return setenv("LOCPATH", directory, 1) || setenv("LC_ALL", LOCALE, 1);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/crt_locale_XXXXXX";
    const char *known = getenv("LOCPATH");
    int result;

    if (!known && make_locale(directory) != 0)
        return 1;
    if (!setlocale(LC_ALL, "") || strcmp(localeconv()->decimal_point, ",") != 0) {
        fprintf(stderr, "the locale has no decimal comma\n");
        return 1;
    }
    result = crt_main(argc, argv,
                      CRT_OPTIONS(.tasks = CRT_TASKS(&half), .num_cpus = 1.5,
                                  .resources = "disk=1.5", .max_share = 0.75,
                                  .object_store_memory = 16 << 20),
                      driver);
    if (!known)
        nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return result;
}
