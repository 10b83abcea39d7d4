/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness: the one line by which a daemon tells its starter that it serves, "ready KEY VALUE
 * ...", or why it can't, "error TEXT" (docs/design/processes.md).
 *
 * Where it sits
 *     head.c, lifecycle.c, http/main.c -> [ daemon/ready.c ] -> a pipe -> starter.c, head_http.c
 * Threads: any; no state.
 */
#ifndef CRTI_DAEMON_READY_H
#define CRTI_DAEMON_READY_H

#include <stddef.h>

/* Adds " KEY VALUE" to a line that begins with "ready". A blank, a percent sign and a control
 * character of the value are written as %HH; what does not fit is left out. */
void crti_ready_add(char *line, size_t size, const char *key, const char *value);

/* The value of `key` in such a line, as it was; "" when it is not there or does not fit. */
const char *crti_ready_get(const char *line, const char *key, char *value, size_t size);

/* Writes the line, which ends in a newline, and closes the descriptor: it is told once. Nothing
 * when `*fd` is -1. */
void crti_ready_tell(int *fd, const char *line);

/* Tells "error TEXT". */
void crti_ready_fail(int *fd, const char *text);

#endif
