/* SPDX-License-Identifier: Apache-2.0 */
/* How a command fails: a sentence on stderr and an exit status. It calls no other part of the
 * command, so that every part may call it.
 *
 * Exit status: 0 done; 1 failed, one sentence on stderr says why; 2 wrong use. `job submit` and
 * `job logs --follow` end with 1 when the job failed, `run` with the status of its program.
 */
#ifndef CRTI_CLI_FAILURE_H
#define CRTI_CLI_FAILURE_H

#include <crt.h>

#define CLI_FAILED 1
#define CLI_USAGE  2

/* Prints "crt COMMAND: text" on stderr and returns CLI_FAILED. */
int crti_cli_fail(const char *command, const char *format, ...) CRT_PRINTF(2, 3);

/* The detail of the last failure of libcrt, as crti_cli_fail prints it. */
int crti_cli_fail_detail(const char *command);

#endif
