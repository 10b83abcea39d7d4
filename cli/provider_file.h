/* SPDX-License-Identifier: Apache-2.0 */
/* The key `provider` of files of the autoscaler: where nodes come from (docs/autoscaler.md).
 *
 * Where it sits
 *     cli/autoscaler_file.c -> [ cli/provider_file.c ] -> cli/yaml_reader.c
 */
#ifndef CRTI_CLI_PROVIDER_FILE_H
#define CRTI_CLI_PROVIDER_FILE_H

#include <jansson.h>

#include "cli/yaml_reader.h"

/* Which providers there are, for errors. */
extern const char crti_provider_kinds[];

/* Sets "provider" of the object, and what that provider has beside it: the form of
 * runtime/control/scale_file.h. */
crt_status_t crti_provider_take(yaml_reader_t *reader, const yaml_node_t *value,
                                json_t *file);

/* A name of an object of Kubernetes: of DNS, and a part of paths. */
bool crti_is_kubernetes_name(const char *text);

#endif
