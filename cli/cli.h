/* SPDX-License-Identifier: Apache-2.0 */
/* The crt command: its parts and what they share.
 *
 * Where it sits
 *     user -> cli/main.c -> one file per command -> libcrt (public headers only), crt-http by
 *     HTTP, crt-head and crt-node by exec
 * Exit status: 0 done; 1 failed, one sentence on stderr says why; 2 wrong use. `job submit` and
 * `job logs --follow` end with 1 when the job failed, `run` with the status of its program.
 */
#ifndef CRTI_CLI_CLI_H
#define CRTI_CLI_CLI_H

#include <crt.h>

#define CLI_FAILED 1
#define CLI_USAGE  2

int crti_cli_start(int argc, char **argv);
int crti_cli_run(int argc, char **argv);
int crti_cli_stop(int argc, char **argv);
int crti_cli_status(int argc, char **argv);
int crti_cli_logs(int argc, char **argv);
int crti_cli_job(int argc, char **argv);
int crti_cli_token(int argc, char **argv);
int crti_cli_version(int argc, char **argv);

/* Prints "crt COMMAND: text" on stderr and returns CLI_FAILED. */
int crti_cli_fail(const char *command, const char *format, ...) CRT_PRINTF(2, 3);

/* The detail of the last failure of libcrt, as crti_cli_fail prints it. */
int crti_cli_fail_detail(const char *command);

#endif
