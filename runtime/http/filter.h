/* SPDX-License-Identifier: Apache-2.0 */
/* Filter: which rows of the state API are wanted, and which arguments a path takes.
 *
 * Where it sits
 *     http/request.c -> [ http/filter.c ] -> http/endpoints.c, http/views.c
 * An unsupported request is refused, with a sentence that names it: a client that asks for
 * the actors of one job must not be shown those of all.
 * Threads: any; no state.
 */
#ifndef CRTI_HTTP_FILTER_H
#define CRTI_HTTP_FILTER_H

#include "runtime/http/request.h"

#include <jansson.h>

/* CRT_ERR_INVALID: an argument that this route does not take, or takes once. */
crt_status_t crti_http_check_args(const crti_http_request_t *request,
                                  crti_http_route_t route);

/* A yes or no, as Python and people write it; false: neither. */
bool crti_http_is_yes(const char *text, bool *yes_out);

/* filter_keys, filter_predicates and filter_values, which come in parallel. Caller owns
 * *filters_out, an array of [key, is_not, value]; NULL: none. CRT_ERR_INVALID: not as many of each,
 * or a predicate that is neither = nor !=. */
crt_status_t crti_http_filters(const crti_http_request_t *request, json_t **filters_out);

/* CRT_ERR_INVALID: a key that `row`, one with all columns, does not have, or whose values are lists
 * of things. `what` is for people: "actors". */
crt_status_t crti_filters_check(const json_t *filters, const json_t *row,
                                const char *what);

/* Texts are compared as Ray does, without looking at case; numbers and yes or no by their value.
 * A value that is not there equals nothing. */
bool crti_filters_match(const json_t *filters, const json_t *row);

#endif
