/* SPDX-License-Identifier: Apache-2.0 */
/* Files that say how a cluster grows and shrinks (docs/autoscaler.md), for crt start --autoscaler.
 *
 * Where it sits
 *     cli/start.c -> [ cli/autoscaler_file.c ] -> cli/start_keys.c, libyaml
 * What is read
 *     One JSON object, complete and checked: that of runtime/control/scale_file.h, without "crt".
 */
#ifndef CRTI_CLI_AUTOSCALER_FILE_H
#define CRTI_CLI_AUTOSCALER_FILE_H

#include <stddef.h>

#include <crt.h>
#include <jansson.h>

/* `*file_out` is released by json_decref. CRT_ERR_INVALID: the detail begins with
 * PATH:LINE:COLUMN. */
crt_status_t crti_autoscaler_file_read(const char *path, json_t **file_out);

/* The same of a text, that of a file at `path`, by which errors are told. */
crt_status_t crti_autoscaler_file_parse(const char *path, const char *text, size_t size,
                                        json_t **file_out);

#endif
