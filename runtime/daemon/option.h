/* SPDX-License-Identifier: Apache-2.0 */
/* Options of commands and daemons: one table is parsed and prints the help, so that the two can't
 * disagree.
 *
 * Where it sits
 *     cli/options.c (commands), head_options.c, node/options.c, http/main.c (daemons)
 *         -> [ daemon/option.c ] -> getopt
 * Values
 *     A command passes most of them on, to a daemon or in a request: its tables have them as texts,
 *     which are checked. A daemon works with them: its tables (`is_value`) have them in the type
 *     of OPTION_TYPE_kind, beginning with the default.
 * Threads: one, at the start of a process. Texts are those of argv.
 */
#ifndef CRTI_DAEMON_OPTION_H
#define CRTI_DAEMON_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

/* const char * in a table without `is_value`, but for those that say so. */
typedef enum option_kind {
    OPTION_FLAG,    /* bool, in each table */
    OPTION_TEXT,    /* not empty */
    OPTION_ADDRESS, /* HOST:PORT */
    OPTION_SERVER,  /* HOST:PORT of a head, or http(s)://HOST:PORT of a dashboard */
    OPTION_PORT,    /* 0 to 65535 */
    OPTION_COUNT,   /* a decimal number >= 0 */
    OPTION_WHOLE,   /* a whole number, `least` to `most` */
    OPTION_AMOUNT,  /* of a resource, 0 to 1e12 */
    OPTION_BYTES, /* a number with an optional K, M, G, T (powers of 1024), up to `most` */
    OPTION_SECONDS, /* uint64_t, in each table: a whole number with s, m, h or d, at least 1 s */
    OPTION_RANGE,      /* PORT-PORT */
    OPTION_ON_OFF,     /* on or off */
    OPTION_CHOICE,     /* one of the words in `argument`, which | separates */
    OPTION_RESOURCES,  /* name=amount,name=amount */
    OPTION_DESCRIPTOR, /* an inherited one */
    OPTION_LIST /* const char *[OPTION_LIST_MAX], in each table, ended by NULL: each one given */
} option_kind_t;

typedef struct option_ports {
    uint16_t low, high; /* 0: none were given */
} option_ports_t;

#define OPTION_TYPE_FLAG       bool
#define OPTION_TYPE_TEXT       const char *
#define OPTION_TYPE_ADDRESS    const char *
#define OPTION_TYPE_PORT       uint16_t
#define OPTION_TYPE_WHOLE      uint64_t
#define OPTION_TYPE_AMOUNT     const char *
#define OPTION_TYPE_BYTES      uint64_t
#define OPTION_TYPE_RANGE      option_ports_t
#define OPTION_TYPE_ON_OFF     bool
#define OPTION_TYPE_CHOICE     const char *
#define OPTION_TYPE_RESOURCES  const char *
#define OPTION_TYPE_DESCRIPTOR int

/* In a table of texts. */
#define OPTION_GIVEN_FLAG      bool
#define OPTION_GIVEN_TEXT      const char *
#define OPTION_GIVEN_ADDRESS   const char *
#define OPTION_GIVEN_PORT      const char *
#define OPTION_GIVEN_WHOLE     const char *
#define OPTION_GIVEN_AMOUNT    const char *
#define OPTION_GIVEN_BYTES     const char *
#define OPTION_GIVEN_RANGE     const char *
#define OPTION_GIVEN_ON_OFF    const char *
#define OPTION_GIVEN_CHOICE    const char *
#define OPTION_GIVEN_RESOURCES const char *

#define OPTION_LIST_MAX 64
#define OPTIONS_MAX     48

typedef struct option_spec {
    const char *name;     /* without the dashes */
    char letter;          /* 0: none */
    const char *argument; /* as the help shows it; NULL for a flag */
    option_kind_t kind;
    void *to; /* left alone when the option is not given and has no default */
    const char *help;
    const char *standard; /* the default; NULL: none, or `help` tells it */
    uint64_t least, most; /* most 0: no limit */
    bool is_value;
} option_spec_t;

typedef struct option_scan {
    const option_spec_t *options;
    size_t count;            /* up to OPTIONS_MAX */
    bool stops_at_operand;   /* what follows it belongs to another program */
    bool wants_help;         /* out: --help was there, and nothing behind it was taken */
    int first_operand;       /* out: the first argument that is no option */
    bool given[OPTIONS_MAX]; /* out */
} option_scan_t;

/* Takes the options of `argv`. CRT_ERR_INVALID: the detail says which one is wrong and what it
 * takes. */
crt_status_t crti_options_scan(option_scan_t *scan, int argc, char **argv);

/* True when the option of that name was there. */
bool crti_option_is_given(const option_scan_t *scan, const char *name);

/* Takes the text as the option's value. False: `*expected` says what it takes; it is valid until
 * the next call. */
bool crti_option_take(const option_spec_t *option, const char *text,
                      const char **expected);

/* Prints the lines of the options, --help among them. */
void crti_options_print(const option_spec_t *options, size_t count);

/* A number of bytes such as 500000000 or 2G. */
bool crti_option_bytes(const char *text, uint64_t *bytes);
/* A time such as 90s, 30m, 12h or 7d. */
bool crti_option_seconds(const char *text, uint64_t *seconds);
/* HOST:PORT. */
bool crti_option_is_address(const char *text);
/* http://HOST:PORT or https://HOST:PORT, perhaps with a slash behind it. */
bool crti_option_is_url(const char *text);

#endif
