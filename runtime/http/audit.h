/* SPDX-License-Identifier: Apache-2.0 */
/* Audit: a line for every request that may change something, of whoever has a token or is let in
 * without one. Calls of actors that are served have none.
 *
 * Where it sits
 *     http/exchange.c -> [ http/audit.c ] -> STATE/head-PORT/audit.log
 * Format
 *     2026-11-25T16:30:01.123Z POST /api/jobs/ID/stop 200 owner 10.0.0.7:51234 ID
 *     time, method, path, code of the reply (000: the client left before it), who (owner,
 *     read-only; open: no token is wanted), from where (local:UID over the head's socket file), job
 *     or package ("-": none). Bytes that are no printable ASCII, and spaces, are written as %XX.
 *     Nothing of the body or the arguments.
 * The file is rotated like those of daemons (base/log.h). Strangers get no line: they could fill
 * the disk. Threads: the loop's.
 */
#ifndef CRTI_HTTP_AUDIT_H
#define CRTI_HTTP_AUDIT_H

#include "runtime/http/request.h"

typedef struct crti_audit crti_audit_t;

/* Appends to `path`. CRT_ERR_IO: it can't be opened. Caller owns the result and frees it with
 * crti_audit_free. */
crt_status_t crti_audit_new(const char *path, crti_audit_t **audit_out);
void crti_audit_free(crti_audit_t *audit);

/* What is known when the request begins; `fd`: its connection. NULL: no memory. Caller gives it to
 * crti_audit_end. */
char *crti_audit_begin(const crti_http_request_t *request, const char *who, int fd);

/* Writes the line and frees `begun_take`. `code` 0: there was no reply. */
void crti_audit_end(crti_audit_t *audit, char *begun_take, unsigned code,
                    const char *subject);

#endif
