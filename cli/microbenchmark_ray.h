/* SPDX-License-Identifier: Apache-2.0 */
/* Ray's own microbenchmark, where it is installed: one of its rows at a time. */
#ifndef CRT_CLI_MICROBENCHMARK_RAY_H
#define CRT_CLI_MICROBENCHMARK_RAY_H

#include <stdbool.h>
#include <stddef.h>

/* What `ray --version` says. False: there is no such command in PATH, or it fails. */
bool ray_version(char *text, size_t size);

/* Runs the row of that name, which takes half a minute: mean and standard deviation of its rounds. False: it
 * gave no figure. */
bool ray_measure(const char *row, double *value_out, double *sd_out);

#endif
