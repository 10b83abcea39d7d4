/* SPDX-License-Identifier: Apache-2.0 */
/* State API: GET /api/v0/NAME, /api/v0/NAME/summarize, /api/v0/tasks/timeline and /api/v0/logs.
 *
 * Where it sits
 *     http/endpoints.c -> [ http/state.c ] -> the head; http/state_views.c -> reply
 * Threads: the loop's.
 */
#ifndef CRTI_HTTP_STATE_H
#define CRTI_HTTP_STATE_H

#include "runtime/http/exchange.h"

/* x->id is the name of a resource. */
void crti_state_begin_list(crti_http_exchange_t *x, const crti_http_request_t *request);
void crti_state_begin_summary(crti_http_exchange_t *x,
                              const crti_http_request_t *request);
void crti_state_begin_timeline(crti_http_exchange_t *x,
                               const crti_http_request_t *request);
/* Which logs there are. */
void crti_state_begin_logs(crti_http_exchange_t *x, const crti_http_request_t *request);

#endif
