/* SPDX-License-Identifier: Apache-2.0 */
/* Help: work on many bytes by two threads while a core is free. See help.c. */
#ifndef CRTI_STORE_HELP_H
#define CRTI_STORE_HELP_H

#include <stdatomic.h>
#include <stddef.h>

/* Work on bytes 0 ... size - 1, in pieces. `work` is called with pieces that don't overlap, from
 * two threads at once. */
typedef struct crti_help {
    void (*work)(void *user, size_t from, size_t to);
    void *user;
    size_t size, piece;
    _Atomic size_t next; /* first byte that no thread has taken */
} crti_help_t;

/* Done when it returns, with a second thread if there is a core for it. */
void crti_help_run(crti_help_t *help);

#endif
