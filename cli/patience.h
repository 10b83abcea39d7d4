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
    int64_t ended_ms; /* since when `is_ended`; 0: it is not */
    long pause_ms;    /* until it was asked again; 0: it has not failed */
    bool is_said;
} patience_t;

/* It failed, as crt_error_detail says: waits for a while, longer with each failure. Who has to wait
 * for long is told so once, on stderr. False, and the detail says that, too: it has failed for
 * follow_timeout, and is given up; or for 30 s it was so that `is_ended`: what was asked has been
 * ended, and nobody but a manager of services will start it again. */
bool crti_patience_wait(patience_t *patience, const char *command, bool is_ended);
/* It did not fail: who was told to wait is told so. */
void crti_patience_over(const patience_t *patience, const char *command);

#endif
