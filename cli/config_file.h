/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration files of the command: values of options that are not given, and of environment
 * variables that are not set.
 *
 * Where it sits
 *     main.c -> [ config_file.c ] -> options.c (each command), config.c (crt config)
 * Files
 *     /etc/crt/crt.conf, then ${XDG_CONFIG_HOME:-~/.config}/crt/crt.conf, or those that CRT_CONFIG
 *     names instead, separated by ':'. What a later file says of a setting replaces what an earlier
 *     one said. See FILES in crt(1).
 */
#ifndef CRTI_CLI_CONFIG_FILE_H
#define CRTI_CLI_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/failure.h"

typedef struct config_setting {
    const char *section; /* a command, "start" or "job submit"; "environment", "limits" */
    const char *name, *value;
    const char *file;
    unsigned line;
    bool is_replaced; /* by a later file */
} config_setting_t;

/* Reads the files, and sets the variables of [environment] and [limits] that are not set.
 * `is_section` knows the other sections. A file that is not there is none. Errors: CRT_ERR_INVALID,
 * a line that says nothing, or a limit that is none, with file and line; CRT_ERR_PERMISSION, a file
 * that can't be read, or that others than its owner may write; CRT_ERR_IO; CRT_ERR_NO_MEMORY. */
crt_status_t crti_config_read(bool (*is_section)(const char *name));

/* Setting `index` of all, in the order of files and lines; NULL: there are no more. */
const config_setting_t *crti_config_at(size_t index);

/* Whether the setting is a variable of the environment, or a limit, which is one, too; `name` is
 * the variable then. */
bool crti_config_sets_variable(const config_setting_t *setting, char *name, size_t size);

/* The variable of the environment that says the same as an option, when it is set; else NULL. */
const char *crti_config_variable(const char *option);

#endif
