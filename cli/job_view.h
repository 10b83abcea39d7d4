/* SPDX-License-Identifier: Apache-2.0 */
/* One job, as crt-http tells of it: its state, its log followed to the end, how it ended.
 *
 * Where it sits
 *     job.c, job_submit.c -> [ job_view.c ] -> http_client.c
 */
#ifndef CRTI_CLI_JOB_VIEW_H
#define CRTI_CLI_JOB_VIEW_H

#include "cli/http_client.h"

/* Opens the client of a command, or prints why not. */
http_client_t *crti_cli_job_client(const char *command, const char *address);

/* "/api/jobs/ID" and the rest. */
void crti_cli_job_path(char *path, size_t size, const char *id, const char *rest);

/* The job's record; the caller owns it. NULL: printed why. */
json_t *crti_cli_job_get(http_client_t *client, const char *name, const char *id);

/* A member's text, "" when it is missing. */
const char *crti_cli_job_text(const json_t *job, const char *key);

bool crti_cli_job_has_ended(const json_t *job);

/* "status 42", "signal 11 (Segmentation fault)", or "" when it runs or is not known. */
const char *crti_cli_job_exit_text(const json_t *job, char *text, size_t size);

/* Prints the log from its beginning, or its last `tail` lines (NULL: all), until the job has ended,
 * then how it ended. Exit status: 0 when it succeeded. */
int crti_cli_follow_job(http_client_t *client, const char *name, const char *id,
                        const char *tail);

/* "Job 'ID' WHAT" between two lines. */
void crti_cli_job_print_box(const char *id, const char *what);

void crti_cli_job_sleep_ms(long ms);

#endif
