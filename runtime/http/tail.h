/* SPDX-License-Identifier: Apache-2.0 */
/* Tail: the log of a job over a WebSocket, from its first line, or the byte that is asked for,
 * until the job has ended, as Ray's clients follow it.
 *
 * Where it sits
 *     http/server.c (WebSocket) -> [ http/tail.c ] -> http/head_link.c -> the node that has the log
 * Rules
 *     One part of the log is in memory, the next one is asked for when the client has taken it. The
 *     connection is closed with 1000 when the job has ended and all was sent, so that a client that
 *     asks for the job's state then gets the last one. It breaks off (1006) where the log can't be
 *     read for PATIENCE, the job goes, or a client does not read.
 * Ownership: each connection has one, from its handshake to its end. Threads: the loop's.
 */
#ifndef CRTI_HTTP_TAIL_H
#define CRTI_HTTP_TAIL_H

#include "runtime/http/exchange.h"

typedef struct crti_tail crti_tail_t;

/* From byte `offset` of the log on: of a client whose connection was cut, how much it has. NULL:
 * out of memory. Caller frees it with crti_tail_free when the connection ends. */
crti_tail_t *crti_tail_new(crti_http_t *http, struct lws *wsi, const char *id,
                           uint64_t offset);

/* The connection can be written. False: it ends now. */
bool crti_tail_write(crti_tail_t *tail);

/* NULL is fine. */
void crti_tail_free(crti_tail_t *tail);

#endif
