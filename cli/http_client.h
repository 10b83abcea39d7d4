/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests of the command to crt-http, by libcurl, with the cluster's token.
 *
 * Where it sits
 *     cli/job.c, cli/job_submit.c -> [ cli/http_client.c ] -> cli/http_target.c, crt-http
 */
#ifndef CRTI_CLI_HTTP_CLIENT_H
#define CRTI_CLI_HTTP_CLIENT_H

#include <stdio.h>

#include "cli/cli.h"

#include <jansson.h>

typedef struct http_client http_client_t;

/* To the server that crti_target_find names (cli/http_target.h). Caller owns the result and frees
 * it with crti_client_free. */
crt_status_t crti_client_new(const char *address, http_client_t **client_out);
void crti_client_free(http_client_t *client);

/* The server's URL; NULL: it is reached by a socket file. Borrowed as long as the client lives. */
const char *crti_client_url(const http_client_t *client);
/* The head of this host was ended, not killed: its socket file went with it. */
bool crti_client_is_ended(const http_client_t *client);

typedef struct http_reply {
    long code;
    char *text; /* of `size` bytes and a zero */
    size_t size;
} http_reply_t;

/* For CURLOPT_WRITEFUNCTION: `reply` is an http_reply_t that began as zeros. 0: it is larger than
 * 64 MiB, or there is no memory. */
size_t crti_reply_take(char *data, size_t one, size_t count, void *reply);

/* `body` may be NULL (POST: empty). CRT_ERR_IO: no answer. The reply is released by
 * crti_reply_fini, also after a failure. */
crt_status_t crti_client_send(http_client_t *client, const char *method, const char *path,
                              const char *body, http_reply_t *reply_out);

/* PUT of a whole file, read from its beginning. */
crt_status_t crti_client_upload(http_client_t *client, const char *path, FILE *file,
                                uint64_t size, http_reply_t *reply_out);

/* `id` as a part of a path. Caller frees it with crti_client_escape_free. */
char *crti_client_escape(const char *id);
void crti_client_escape_free(char *escaped);

/* Raises what the server says of a request that it did not carry out: a sentence, which is wrapped
 * in JSON. */
crt_status_t crti_client_refused(const http_client_t *client, const http_reply_t *reply);

void crti_reply_fini(http_reply_t *reply);

/* Sends and reads a JSON answer; NULL: the detail says why, `code_out` (may be NULL) is the
 * reply's code, 0 when none came, -1 when nothing was sent to who is there. Caller owns the
 * reference. */
json_t *crti_client_json(http_client_t *client, const char *method, const char *path,
                         const char *body, long *code_out);

#endif
