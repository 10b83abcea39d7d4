/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a folder are left out: patterns as in .gitignore.
 *
 * Where it sits
 *     cli/folder.c -> [ cli/ignore.c ]
 * Rules
 *     The last pattern that matches decides; "!" takes back in; "/" at the end means directories;
 *     one with a "/" elsewhere is relative to where it was found, others match names at any depth;
 *     "**" stands for any directories. What is below a directory that is left out is not looked at.
 * Ownership: a list owns its patterns; crti_ignore_fini frees them. Threads: any.
 */
#ifndef CRTI_CLI_IGNORE_H
#define CRTI_CLI_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

#include "crt_base.h"

typedef struct ignore_rule {
    char *pattern, *base; /* base: "" or "dir/sub/", what paths begin with */
    bool is_negated, is_for_directories, is_anchored;
} ignore_rule_t;

/* Zero-initialised is empty. */
typedef struct ignore_list {
    ignore_rule_t *rules;
    size_t count;
} ignore_list_t;

/* One line. Empty ones and comments add nothing. CRT_ERR_NO_MEMORY. */
crt_status_t crti_ignore_add(ignore_list_t *list, const char *line, const char *base);

/* All lines of a file; one that is not there adds nothing. */
crt_status_t crti_ignore_add_file(ignore_list_t *list, const char *path,
                                  const char *base);

bool crti_ignore_matches(const ignore_list_t *list, const char *path, bool is_directory);

void crti_ignore_fini(ignore_list_t *list);

#endif
