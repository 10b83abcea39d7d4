/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command: one table that is parsed and that prints the help, so that the two can't
 * disagree. */
#ifndef CRTI_CLI_OPTIONS_H
#define CRTI_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"

typedef enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_TEXT,    /* const char *, not empty */
    OPTION_ADDRESS, /* const char *: HOST:PORT */
    OPTION_SERVER, /* const char *: HOST:PORT of a head, or http(s)://HOST:PORT of a dashboard */
    OPTION_PORT,    /* const char *: 0 to 65535 */
    OPTION_COUNT,   /* const char *: a decimal number >= 0 */
    OPTION_AMOUNT,  /* const char *: of a resource, 0 to 1e12 */
    OPTION_BYTES,   /* uint64_t: a number with an optional K, M, G, T (powers of 1024) */
    OPTION_SECONDS, /* uint64_t: a whole number with s, m, h or d, at least 1 s */
    OPTION_RANGE,   /* const char *: PORT-PORT */
    OPTION_ON_OFF,  /* const char *: on or off */
    OPTION_RESOURCES, /* const char *: name=amount,name=amount */
    OPTION_LIST       /* const char *[OPTION_LIST_MAX], ended by NULL: each one given */
} option_kind_t;

#define OPTION_LIST_MAX 64

typedef struct option_spec {
    const char *name;     /* without the dashes */
    char letter;          /* 0: none */
    const char *argument; /* as the help shows it; NULL for a flag */
    option_kind_t kind;
    void *to; /* left alone when the option is not given */
    const char *help;
} option_spec_t;

typedef struct command_spec {
    const char *name;      /* "crt start" */
    const char *operands;  /* as the help shows them; NULL: none are allowed */
    bool stops_at_operand; /* what follows belongs to the job's program: job submit */
    const char *summary;
    const option_spec_t *options;
    size_t count;
} command_spec_t;

#define OPTIONS_MAX 48

typedef enum parse_result { PARSE_OK, PARSE_DONE, PARSE_WRONG } parse_result_t;

/* Parses; `*first_operand` is the index of the first argument that is no option. PARSE_DONE: the
 * help was printed. PARSE_WRONG: one sentence was printed; exit with CLI_USAGE. */
parse_result_t crti_cli_parse(int argc, char **argv, const command_spec_t *command,
                              int *first_operand);

/* True when an option of that kind takes the text; false: `*expected` says what it takes. */
bool crti_cli_is_value(option_kind_t kind, const char *text, const char **expected);
/* A time such as 90s, 30m, 12h or 7d. */
bool crti_cli_read_seconds(const char *text, uint64_t *seconds);
/* HOST:PORT. */
bool crti_cli_is_address(const char *text);
/* http://HOST:PORT or https://HOST:PORT, perhaps with a slash behind it. */
bool crti_cli_is_url(const char *text);

/* Prints the environment variables that the command and the daemons read. */
void crti_cli_print_environment(void);

/* Prints "COMMAND: text; COMMAND --help shows how" and returns CLI_USAGE. */
int crti_cli_misused(const char *command, const char *format, ...) CRT_PRINTF(2, 3);

#endif
