/* SPDX-License-Identifier: Apache-2.0 */
/* libyaml: the functions that are called here, found when the first of them is needed.
 *
 * Where it sits
 *     yaml_reader.c -> [ yaml library ] -> libyaml (dlopen)
 * Why
 *     Only the commands that take a YAML file read YAML.
 * How
 *     A file that includes this header writes the library's own names. They lead through a table;
 *     the linker finds those that the table lacks.
 */
#ifndef CRTI_CLI_YAML_LIBRARY_H
#define CRTI_CLI_YAML_LIBRARY_H

#include <yaml.h>

#include "runtime/base/late_library.h"

#define CRTI_YAML_SYMBOLS(X)                                                             \
    X(yaml_document_delete)                                                              \
    X(yaml_document_get_node)                                                            \
    X(yaml_document_get_root_node)                                                       \
    X(yaml_parser_delete)                                                                \
    X(yaml_parser_initialize)                                                            \
    X(yaml_parser_load)                                                                  \
    X(yaml_parser_set_input_string)

CRTI_LATE_TABLE(crti_yaml, CRTI_YAML_SYMBOLS);

#define yaml_document_delete         crti_yaml_api.yaml_document_delete_
#define yaml_document_get_node       crti_yaml_api.yaml_document_get_node_
#define yaml_document_get_root_node  crti_yaml_api.yaml_document_get_root_node_
#define yaml_parser_delete           crti_yaml_api.yaml_parser_delete_
#define yaml_parser_initialize       crti_yaml_api.yaml_parser_initialize_
#define yaml_parser_load             crti_yaml_api.yaml_parser_load_
#define yaml_parser_set_input_string crti_yaml_api.yaml_parser_set_input_string_

#endif
