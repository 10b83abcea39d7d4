/* SPDX-License-Identifier: Apache-2.0 */
/* Options of crt start as keys of YAML files: by their names, with values that are checked as on a
 * command line. Labels and resources may be a map.
 *
 * Where it sits
 *     cli/cluster_file.c, cli/autoscaler_file.c -> [ cli/start_keys.c ] -> cli/start_options.h
 */
#ifndef CRTI_CLI_START_KEYS_H
#define CRTI_CLI_START_KEYS_H

#include <jansson.h>

#include "cli/options.h"
#include "cli/yaml_reader.h"

/* The names of those that are keys, one by one, NULL behind the last. */
const char *crti_start_key_name(size_t index);

/* Adds the option to `options`, as arguments of crt start. */
crt_status_t crti_start_key_take(yaml_reader_t *reader, const option_spec_t *option,
                                 const yaml_node_t *key, const yaml_node_t *value,
                                 json_t *options);

#endif
