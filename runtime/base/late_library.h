/* SPDX-License-Identifier: Apache-2.0 */
/* Late library: a shared library that is opened when something of it is needed first, and its functions
 * in a table.
 *
 * Where it sits
 *     zmq library, openssl library -> [ late library ] -> dlopen
 * Why
 *     What most workers never use would cost each of them its mappings (docs/design/node.md).
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

/* Fills the table unless it is filled. CRT_ERR_UNSUPPORTED says what is missing; the next call tries
 * again. */
crt_status_t crti_late_library_open(crti_late_library_t *library);

#endif
