/* SPDX-License-Identifier: Apache-2.0 */
/* Ray's own microbenchmark, where it is installed: one of its rows at a time. What it starts is
 * ended with it. */
#ifndef CRT_CLI_MICROBENCHMARK_RAY_H
#define CRT_CLI_MICROBENCHMARK_RAY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ray_row {
    double value, sd; /* mean and standard deviation of its rounds; or, with value 0, */
    char reason[256]; /* why there are none: printable, without quotes and backslashes */
} ray_row_t;

/* What `ray --version` says. False: there is no such command in PATH, or it fails, and *reason says
 * so. */
bool ray_version(char *text, size_t size, ray_row_t *failed);

/* Runs the row of that name, which takes from half a minute to four; it is killed after
 * `timeout_s`. */
void ray_measure(const char *row, int timeout_s, ray_row_t *row_out);

#endif
