/* SPDX-License-Identifier: Apache-2.0 */
/* Products by OpenBLAS, with the kernels that this processor has. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crt_ml.h"
#include "ml/matrix.h"

#include <cblas.h>

#define SIDE 192

static const char *program;

#if defined(__x86_64__)
/* Absent where OpenBLAS has the kernels of one processor only: there is nothing to choose. */
void gotoblas_dynamic_init(void) __attribute__((weak));

/* What the program says with `--core`, begun by env with these words. */
static void ask_for_core(const char *words, char line[64])
{
    char command[4200];
    FILE *child;

    snprintf(command, sizeof(command), "env %s '%s' --core", words, program);
    child = popen(command, "r");
    assert_non_null(child);
    assert_non_null(fgets(line, 64, child));
    assert_int_equal(pclose(child), 0);
}

static void a_processor_newer_than_openblas_gets_kernels_for_its_vectors(void **state)
{
    char line[64];

    __builtin_cpu_init();
    if (!gotoblas_dynamic_init || !__builtin_cpu_supports("avx2") ||
        !__builtin_cpu_supports("fma"))
        skip();
    ask_for_core("-u OPENBLAS_CORETYPE", line);
    assert_null(strstr(line, "Prescott"));
    assert_null(strstr(line, "by the environment"));
}

static void what_the_user_asks_for_is_obeyed(void **state)
{
    char line[64];

    if (!gotoblas_dynamic_init)
        skip();
    ask_for_core("OPENBLAS_CORETYPE=Prescott", line);
    assert_string_equal(line, "Prescott by the environment\n");
}
#endif

static void a_product_is_right_by_one_thread_and_by_two(void **state)
{
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    crti_matrix_view_t left = {.data = a, .stride = SIDE};
    crti_matrix_view_t right = {.data = b, .stride = SIDE, .is_turned = true};

    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = (float)(i % 7) - 3;
        b[i] = (float)(i % 5) - 2;
    }
    for (int threads = 1; threads <= 2; threads++) {
        crt_ml_set_threads(threads);
        memset(c, 0x7f, sizeof(c));
        crti_matrix_product(SIDE, SIDE, SIDE, 0.5f, left, right, c, SIDE);
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) {
                float sum = 0;

                for (int k = 0; k < SIDE; k++)
                    sum += a[i * SIDE + k] * b[j * SIDE + k];
                assert_true(fabsf(c[i * SIDE + j] - sum / 2) < 1e-3f);
            }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(a_processor_newer_than_openblas_gets_kernels_for_its_vectors),
        cmocka_unit_test(what_the_user_asks_for_is_obeyed),
#endif
        cmocka_unit_test(a_product_is_right_by_one_thread_and_by_two),
    };

    program = argv[0];
    if (argc == 2 && strcmp(argv[1], "--core") == 0)
        return printf("%s%s\n", openblas_get_corename(),
                      getenv("OPENBLAS_CORETYPE") ? " by the environment" : "") < 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
