/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the job commands. */
#ifndef CRTI_CLI_JOB_H
#define CRTI_CLI_JOB_H

#include "cli/http_client.h"

int crti_cli_job_submit(int argc, char **argv);

/* Prints the log from its beginning until the job has ended, then how it ended. Exit status: 0
 * when it succeeded. */
int crti_cli_follow_job(http_client_t *client, const char *name, const char *id);

/* A member's text, "" when it is missing. */
const char *crti_job_text(const json_t *job, const char *key);

/* Opens the client of a command, or prints why not. */
http_client_t *crti_job_client(const char *command, const char *address);

#endif
