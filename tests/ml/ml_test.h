/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of ml/ share. Include before cmocka.h. */
#ifndef CRTI_TESTS_ML_TEST_H
#define CRTI_TESTS_ML_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt_ml.h>

#include <cmocka.h>

/* The numbers that tests/ml/record.py calls wave(). */
static inline void fill_wave(float *out, size_t count, double step, double size)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(size * sin(step * (double)(i + 1)));
}

/* The largest difference, relative to `scale`, must be below `limit`; it is printed. */
static inline void assert_close(const char *what, const float *got,
                                const double *expected, size_t count, double limit)
{
    double worst = 0;
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - expected[i]);

        if (!(error <= worst)) {
            worst = error;
            at = i;
        }
    }
    printf("    %s: largest difference %.2e of %zu\n", what, worst, count);
    if (!(worst < limit))
        fail_msg("%s: number %zu is %.9g, not %.9g", what, at, (double)got[at],
                 expected[at]);
}

#define assert_ok(expression)                                                            \
    do {                                                                                 \
        crt_status_t ok_status = (expression);                                           \
        if (ok_status != CRT_OK)                                                         \
            fail_msg("%s: %s: %s", #expression, crt_status_name(ok_status),              \
                     crt_error_detail());                                                \
    } while (0)

/* It fails with this status and a text that contains `part`. */
#define assert_fails(expression, expected, part)                                         \
    do {                                                                                 \
        assert_int_equal(expression, expected);                                          \
        if (!strstr(crt_error_detail(), part))                                           \
            fail_msg("'%s' is not in '%s'", part, crt_error_detail());                   \
    } while (0)

/* A private folder; `path_in` names a file in it. */
static inline char *new_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *path = NULL;

    if (asprintf(&path, "%s/crt-test-XXXXXX", base ? base : "/tmp") < 0 || !mkdtemp(path))
        abort();
    return path;
}

static inline const char *path_in(const char *folder, const char *name)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static inline void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

#endif
