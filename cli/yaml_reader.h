/* SPDX-License-Identifier: Apache-2.0 */
/* YAML files of people: every error has its line and column, an unknown key the nearest one that
 * there is.
 *
 * Where it sits
 *     cli/cluster_file.c, cli/autoscaler_file.c, cli/runtime_env.c -> [ cli/yaml_reader.c ]
 *     -> libyaml
 * Ownership
 *     A reader has its document until crti_yaml_close; nodes and their texts live as long.
 */
#ifndef CRTI_CLI_YAML_READER_H
#define CRTI_CLI_YAML_READER_H

#include <stdbool.h>
#include <stddef.h>

#include <crt.h>
#include <jansson.h>

#include "cli/yaml_library.h"

#define YAML_BYTES_MAX (1 << 20)
#define YAML_KEY_MAX   64

typedef struct yaml_reader {
    const char *path; /* borrowed, for errors */
    yaml_document_t document;
} yaml_reader_t;

/* The whole file as a text, released by free. CRT_ERR_PERMISSION: every user of the host can
 * write it, and these files say what is run as this one. */
crt_status_t crti_yaml_read_file(const char *path, char **text_out);

/* Reads the one document of the text. CRT_ERR_INVALID: the form is wrong. */
crt_status_t crti_yaml_open(yaml_reader_t *reader, const char *path, const char *text,
                            size_t size);
void crti_yaml_close(yaml_reader_t *reader);

/* CRT_ERR_INVALID with "PATH:LINE:COLUMN: " before the text. */
crt_status_t crti_yaml_wrong(const yaml_reader_t *reader, const yaml_node_t *node,
                             const char *format, ...) CRT_PRINTF(3, 4);

yaml_node_t *crti_yaml_root(yaml_reader_t *reader);
/* NULL: there is no such one. */
yaml_node_t *crti_yaml_item(yaml_reader_t *reader, const yaml_node_t *list, size_t index);
yaml_node_t *crti_yaml_key(yaml_reader_t *reader, const yaml_node_t *map, size_t index,
                           yaml_node_t **value_out);

/* The text of a scalar; `what` names it in errors: "num-cpus". */
crt_status_t crti_yaml_text(const yaml_reader_t *reader, const yaml_node_t *node,
                            const char *what, const char **text_out);

/* What is done with a key of a map, or with an item of a list (then `name` is NULL). `key` is where
 * errors are told. */
typedef crt_status_t (*yaml_take_t)(yaml_reader_t *reader, const char *name,
                                    const yaml_node_t *key, const yaml_node_t *value,
                                    void *to);

/* All items; a text alone is a list of one. */
crt_status_t crti_yaml_each_item(yaml_reader_t *reader, const yaml_node_t *list,
                                 const char *what, yaml_take_t take, void *to);

/* All keys as they are written; each may be there once. */
crt_status_t crti_yaml_each_key(yaml_reader_t *reader, const yaml_node_t *map,
                                const char *what, yaml_take_t take, void *to);

/* A node with all that is in it, its scalars as texts: JSON, which is YAML, too. */
crt_status_t crti_yaml_json(yaml_reader_t *reader, const yaml_node_t *node,
                            json_t **json_out);

/* The key in the form of the names of options: "num_cpus" is "num-cpus". */
void crti_yaml_name(const char *key, char name[YAML_KEY_MAX]);

/* "unknown key "X"; the nearest one is Y", of the names that `name_at` gives one by one, with NULL
 * behind the last. */
crt_status_t crti_yaml_unknown(const yaml_reader_t *reader, const yaml_node_t *key,
                               const char *name,
                               const char *(*name_at)(const void *user, size_t index));

#endif
