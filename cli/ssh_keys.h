/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of YAML files that say how ssh reaches hosts: user, port, options.
 *
 * Where it sits
 *     cli/cluster_file.c, cli/provider_file.c -> [ cli/ssh_keys.c ] -> cli/yaml_reader.c
 */
#ifndef CRTI_CLI_SSH_KEYS_H
#define CRTI_CLI_SSH_KEYS_H

#include <jansson.h>

#include "cli/yaml_reader.h"

/* The names, NULL behind the last. */
const char *crti_ssh_key_name(size_t index);

/* Adds what the key says to the array of arguments of ssh. */
crt_status_t crti_ssh_key_take(yaml_reader_t *reader, const char *name,
                               const yaml_node_t *value, json_t *arguments);

/* An item of a list of texts, which is added to the array `to`: a yaml_take_t. */
crt_status_t crti_ssh_text_take(yaml_reader_t *reader, const char *name,
                                const yaml_node_t *key, const yaml_node_t *value,
                                void *to);

#endif
