/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/actors/NAMESPACE/NAME/METHOD: a method of a named actor, for who speaks HTTP.
 *
 * Where it sits
 *     http/endpoints.c -> [ http/actor_call.c ] -> http/caller.c -> the actor; http/json_value.c ->
 *     reply
 * Threads: the loop's.
 * Trust
 *     Who has no token may call what its class declares .http_public, and learns nothing else: not
 *     which actors there are.
 */
#ifndef CRTI_HTTP_ACTOR_CALL_H
#define CRTI_HTTP_ACTOR_CALL_H

#include "runtime/http/exchange.h"

typedef struct crti_actor_call crti_actor_call_t;

/* The headers: names, form of the arguments and of the result. */
void crti_actor_call_begin(crti_http_exchange_t *x, const crti_http_request_t *request);
/* Its body is complete. */
void crti_actor_call_body(crti_http_exchange_t *x);
/* One that runs is cancelled. NULL is fine. */
void crti_actor_call_free(crti_actor_call_t *call);

#endif
