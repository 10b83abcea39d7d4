/* SPDX-License-Identifier: Apache-2.0 */
/* A command: its options (daemon/option.h), operands and help; settings of files count as options
 * that are not given. */
#ifndef CRTI_CLI_OPTIONS_H
#define CRTI_CLI_OPTIONS_H

#include "cli/cli.h"
#include "runtime/daemon/option.h"

typedef struct command_spec {
    const char *name;      /* "crt start" */
    const char *operands;  /* as the help shows them; NULL: none are allowed */
    bool stops_at_operand; /* what follows belongs to the job's program: job submit */
    const char *summary;
    const option_spec_t *options;
    size_t count;
} command_spec_t;

/* Parses; the index of the first argument that is no option, 1 or more. 0: the help was printed, a
 * negated exit status: one sentence was; the command ends with that status. */
int crti_cli_parse(int argc, char **argv, const command_spec_t *command);

/* True when the option takes the text; false: `*expected` says what it takes. */
bool crti_cli_is_value(const option_spec_t *option, const char *text,
                       const char **expected);

/* Prints the environment variables that the command and the daemons read. */
void crti_cli_print_environment(void);

/* Prints "COMMAND: text; COMMAND --help shows how" and returns CLI_USAGE. */
int crti_cli_misused(const char *command, const char *format, ...) CRT_PRINTF(2, 3);

#endif
