/* SPDX-License-Identifier: Apache-2.0 */
/* Submission: the JSON body of POST /api/jobs/, checked field by field, as a JOB_SUBMIT.
 *
 * Where it sits
 *     http/server.c (body) -> [ http/submission.c ] -> http/endpoints.c -> JOB_SUBMIT to the head
 * What it takes: docs/design/http.md. Unknown keys are passed over, keys of the wrong type and
 * what this version can't do are refused with a sentence.
 * Ownership: a submission owns its texts; crti_submission_fini frees them.
 * Threads: any; no state.
 */
#ifndef CRTI_HTTP_SUBMISSION_H
#define CRTI_HTTP_SUBMISSION_H

#include "runtime/base/buffer.h"
#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"
#include "runtime/http/request.h"

#define CRTI_JOB_JSON_MAX ((size_t)1 << 20) /* bytes of a body */

/* Zero-initialised is empty. */
typedef struct crti_http_submission {
    char id[CRTI_HTTP_ID_MAX]; /* "": the client gave none */
    char sha[65];              /* "" when the entrypoint is a shell command */
    char *entrypoint;
    char package[CRTI_HTTP_ID_MAX]; /* the name of its folder's zip; "": none */
    char *metadata, *runtime_env;   /* JSON objects, as they were given */
    crti_buffer_t argv;             /* lists of text, as in net/message.h */
    crti_buffer_t environment;      /* "NAME=value" */
    crti_resources_t resources;     /* that its process holds */
    char selector[CRTI_LABELS_SIZE];
    uint64_t retries;
} crti_http_submission_t;

/* CRT_ERR_INVALID with the reason for the client; CRT_ERR_NO_MEMORY. */
crt_status_t crti_submission_parse(const void *json, size_t size,
                                   crti_http_submission_t *submission);

/* Chooses an id that no other job has: of the form that Ray's servers give, for its client, else of
 * ours. */
void crti_submission_choose_id(crti_http_submission_t *submission, bool is_rays);

/* One more variable of its environment. */
crt_status_t crti_submission_variable(crti_http_submission_t *submission,
                                      const char *name, const char *value);

void crti_submission_fini(crti_http_submission_t *submission);
static inline void crti_submission_fini_auto(crti_http_submission_t *submission)
{
    crti_submission_fini(submission);
}

#endif
