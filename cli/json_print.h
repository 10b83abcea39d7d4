/* SPDX-License-Identifier: Apache-2.0 */
/* What commands print of JSON: as it is, for programs, or as YAML, for people. Numbers have 15
 * digits: 0.1 stays 0.1. */
#ifndef CRTI_CLI_JSON_PRINT_H
#define CRTI_CLI_JSON_PRINT_H

#include <stdio.h>

#include <jansson.h>

#define CRTI_JSON_DIGITS JSON_REAL_PRECISION(15)

/* With a line break at its end. */
void crti_json_print(const json_t *value, FILE *to);
/* Texts are written as in JSON, which YAML reads. */
void crti_yaml_print(const json_t *value, FILE *to);

#endif
