/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: what its files share. See crt_configuration.h for what it does.
 *
 *     text -> configuration_parse.c -> entries -> configuration_resolve.c -> configuration.c
 *     (asked)
 *                                                                         -> configuration_text.c
 * Ownership
 *     A configuration owns its entries; an entry its path, value and text. Names of files are owned
 *     by the configuration and live as long.
 * Invariants
 *     Paths are unique. The path of an entry is that of its section, a dot, and its key, in which
 *     there is no dot. Before it is resolved a value may hold references: `raw` is then the text as
 *     it stood.
 */
#ifndef CRTI_ML_CONFIGURATION_H
#define CRTI_ML_CONFIGURATION_H

#include <crt_configuration.h>

#include <jansson.h>

#define CRTI_CONFIGURATION_BYTES_MAX   ((size_t)1 << 20)
#define CRTI_CONFIGURATION_ENTRIES_MAX 4096
#define CRTI_CONFIGURATION_PATH_MAX    256
#define CRTI_CONFIGURATION_DEPTH_MAX   16

typedef enum crti_setting_state {
    CRTI_SETTING_OPEN = 0,  /* may hold references */
    CRTI_SETTING_BUSY = 1,  /* its references are being replaced */
    CRTI_SETTING_READY = 2, /* its value holds none */
} crti_setting_state_t;

typedef struct crti_setting {
    char *path;       /* section.key */
    size_t section;   /* length of the section's name in it */
    json_t *value;    /* NULL when only `raw` is known */
    char *raw;        /* text that is not quoted and holds references, or NULL */
    const char *file; /* NULL: a default of the program */
    int line;         /* 0: the command line */
    bool asked;
    crti_setting_state_t state;
} crti_setting_t;

struct crt_configuration {
    char *name;   /* of the file */
    char **files; /* all names that entries point to */
    size_t file_count;
    crti_setting_t *entries;
    size_t count, room;
    char **sections; /* all that were opened, also empty ones, in that order */
    int *section_lines;
    size_t section_count;
    char **overrides; /* as on the command line */
    size_t override_count;
};

/* The entry of that path, or NULL. */
crti_setting_t *crti_configuration_find(const crt_configuration_t *c, const char *path);

/* True when a section of this name was opened, or one below it. */
bool crti_configuration_has_section(const crt_configuration_t *c, const char *section);

/* Adds an empty section when there is none of this name. */
crt_status_t crti_configuration_open_section(crt_configuration_t *c, const char *section,
                                             int line);

/* Adds an entry; takes `value` and `raw` in any case. `path_out` (may be NULL) is borrowed.
 * CRT_ERR_EXISTS. */
crt_status_t crti_configuration_add(crt_configuration_t *c, const char *section,
                                    const char *key, json_t *value, char *raw,
                                    const char *file, int line);

/* Keeps a copy of the name of a file. */
crt_status_t crti_configuration_keep_file(crt_configuration_t *c, const char *name,
                                          const char **kept_out);

/* Adds what a text says. Keys in front of the first section belong to `under`, and all sections lie
 * in it (NULL: they stand for themselves, and there must be no such keys). What is there already
 * stays when `weak`, else it is an error. */
crt_status_t crti_configuration_read_text(crt_configuration_t *c, const char *file,
                                          const char *text, size_t size,
                                          const char *under, bool weak);

/* The value that a text is: JSON, or a string. `raw_out` instead when it holds references that are
 * not quoted. */
crt_status_t crti_configuration_value(const char *file, int line, const char *text,
                                      json_t **value_out, char **raw_out);

/* Replaces the value of a key or adds it. */
crt_status_t crti_configuration_set(crt_configuration_t *c, const char *path,
                                    const char *text);

/* How many letters must be changed, added or left out to make one of the other; at most 64. */
int crti_configuration_distance(const char *a, const char *b);

/* CRT_ERR_INVALID unless `path` is made of names with dots between them. */
crt_status_t crti_configuration_check_path(const char *file, int line, const char *path);

/* The text of a value as a file would have it; caller frees it. NULL: no memory. */
char *crti_configuration_dump(const json_t *value);

#endif
