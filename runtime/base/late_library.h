/* SPDX-License-Identifier: Apache-2.0 */
/* Late library: a shared library that is opened when something of it is needed first, and its
 * functions in a table.
 *
 * Where it sits
 *     zmq library, openssl library, nvml; cli: curl, archive, zmq library -> [ late library ] ->
 *     dlopen
 * Why
 *     What most workers never use would cost each of them its mappings (docs/design/node.md), and
 *     what most commands never use would cost each of them the time to load.
 * Threads
 *     Any; a thread waits while another one opens it.
 * Invariants
 *     Never closed: libraries register what they do at exit.
 */
#ifndef CRTI_BASE_LATE_LIBRARY_H
#define CRTI_BASE_LATE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/crt_base.h"

typedef struct crti_late_symbol {
    const char *name;
    size_t offset; /* of its pointer in the table */
} crti_late_symbol_t;

typedef struct crti_late_library {
    const char *file;
    const char *loss; /* what can't be done without it, as an error begins */
    const crti_late_symbol_t *symbols;
    size_t count;
    void *table; /* filled */
    bool is_open;
} crti_late_library_t;

/* Fills the table unless it is filled. CRT_ERR_UNSUPPORTED says what is missing; the next call
 * tries again. */
crt_status_t crti_late_library_open(crti_late_library_t *library);

/* For a header: NAME_api, the table, with a pointer `symbol_` for each X(symbol) of SYMBOLS, and
 * NAME_library, which fills the table before its first use. CRT_ERR_UNSUPPORTED says what is
 * missing. Macros with the symbols' own names then lead to the table. */
#define CRTI_LATE_TABLE(name, SYMBOLS)                                                   \
    typedef struct name##_api {                                                          \
        SYMBOLS(CRTI_LATE_FIELD)                                                         \
    } name##_api_t;                                                                      \
    extern name##_api_t name##_api;                                                      \
    crt_status_t name##_library(void)
#define CRTI_LATE_FIELD(symbol) __typeof__(symbol) *symbol##_;

/* For one file: the table and the function of that header. */
#define CRTI_LATE_LIBRARY(name, SYMBOLS, file_name, lost)                                \
    name##_api_t name##_api;                                                             \
    crt_status_t name##_library(void)                                                    \
    {                                                                                    \
        typedef name##_api_t crti_late_api_t;                                            \
        static const crti_late_symbol_t symbols[] = {SYMBOLS(CRTI_LATE_ENTRY)};          \
        static crti_late_library_t library = {                                           \
            .file = file_name,                                                           \
            .loss = lost,                                                                \
            .symbols = symbols,                                                          \
            .count = sizeof(symbols) / sizeof(symbols[0]),                               \
            .table = &name##_api,                                                        \
        };                                                                               \
                                                                                         \
        return crti_late_library_open(&library);                                         \
    }
#define CRTI_LATE_ENTRY(symbol) {#symbol, offsetof(crti_late_api_t, symbol##_)},

#endif
