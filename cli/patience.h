/* SPDX-License-Identifier: Apache-2.0 */
/* Patience: who can't be asked is asked again. A connection was cut, a daemon starts again, or a
 * node's link is broken; all of them are over soon, or somebody knows that they are not.
 *
 * Where it sits
 *     job_view.c, logs.c -> [ cli/patience.c ]
 */
#ifndef CRTI_CLI_PATIENCE_H
#define CRTI_CLI_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Begins as zeros, and again with each answer. */
typedef struct patience {
    int64_t since_ms; /* when it failed first */
    long pause_ms;    /* until it was asked again; 0: it has not failed */
    bool is_said;
} patience_t;

/* It failed, as crt_error_detail says: waits for a while, longer with each failure. Who has to wait
 * for long is told so once, on stderr. False, and the detail says that, too: it has failed for 30
 * s, and is given up. */
bool crti_patience_wait(patience_t *patience, const char *command);

#endif
