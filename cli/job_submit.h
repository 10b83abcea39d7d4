/* SPDX-License-Identifier: Apache-2.0 */
/* What crt job submit sends: the options, the runtime environment, the uploads.
 *
 * Where it sits
 *     cli/job_submit.c -> cli/job_body.c (JSON), cli/job_upload.c (program, folder) ->
 *     http_client.c; cli/runtime_env.c (files of users)
 */
#ifndef CRTI_CLI_JOB_SUBMIT_H
#define CRTI_CLI_JOB_SUBMIT_H

#include "cli/http_client.h"
#include "cli/options.h"

#define JOB_SUBMIT "crt job submit"

/* As they were given; NULL: not. */
typedef struct job_options {
    const char *submission, *priority, *max_share, *name_space, *copies;
    const char *working_dir, *runtime_env, *runtime_env_json, *metadata_json;
    const char *num_cpus, *num_gpus, *resources, *labels, *retries;
    uint64_t memory; /* bytes, 0: not given */
    const char *variables[OPTION_LIST_MAX];
} job_options_t;

/* ---- job_body.c */

/* The object of --runtime-env or --runtime-env-json with --working-dir and the variables in it.
 * NULL: it said why. */
json_t *crti_job_runtime_env(const job_options_t *options);

/* The body of POST /api/jobs/ (docs/design/http.md), which the caller owns. NULL: it said why. */
json_t *crti_job_body(const job_options_t *options, const json_t *runtime_env, int argc,
                      char **argv);

/* ---- job_upload.c: 0, or it said why and gives the exit status. */

/* Uploads the folder at runtime_env.working_dir, which becomes its URI. */
int crti_job_upload_folder(http_client_t *client, json_t *runtime_env);
/* Uploads the executable, as a shell would find it: runtime_env.program. */
int crti_job_upload_program(http_client_t *client, const char *name, json_t *runtime_env);

#endif
