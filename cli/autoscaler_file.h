/* SPDX-License-Identifier: Apache-2.0 */
/* Files that say how a cluster grows and shrinks (docs/autoscaler.md), for crt start --autoscaler.
 *
 * Where it sits
 *     cli/start.c, cli/cluster_file.c -> [ cli/autoscaler_file.c ] -> cli/provider_file.c,
 *     cli/start_keys.c, libyaml
 * What is read
 *     One JSON object, complete and checked: that of runtime/control/scale_file.h, without "crt".
 */
#ifndef CRTI_CLI_AUTOSCALER_FILE_H
#define CRTI_CLI_AUTOSCALER_FILE_H

#include <stddef.h>

#include <crt.h>
#include <jansson.h>

#include "cli/yaml_reader.h"

/* `*file_out` is released by json_decref. CRT_ERR_INVALID: the detail begins with
 * PATH:LINE:COLUMN. */
crt_status_t crti_autoscaler_file_read(const char *path, json_t **file_out);

/* The same of a part of a file that is being read, such as the section of a cluster file. */
crt_status_t crti_autoscaler_read_node(yaml_reader_t *reader, const yaml_node_t *node,
                                       json_t **rules_out);

/* The same of a text, that of a file at `path`, by which errors are told. */
crt_status_t crti_autoscaler_file_parse(const char *path, const char *text, size_t size,
                                        json_t **file_out);

#endif
