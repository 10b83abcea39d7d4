/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as YAML, for people. */
#ifndef CRTI_CLI_YAML_PRINT_H
#define CRTI_CLI_YAML_PRINT_H

#include <stdio.h>

#include <jansson.h>

/* Texts are written as in JSON, which YAML reads. */
void crti_yaml_print(const json_t *value, FILE *to);

#endif
