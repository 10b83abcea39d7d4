/* SPDX-License-Identifier: Apache-2.0 */
/* JSON and values: what a client sends becomes arguments of a call, and what the call gives becomes
 * JSON again.
 *
 * Where it sits
 *     http/actor_call.c -> [ http/json_value.c ]
 * Threads: any; pure functions.
 * Trust
 *     The JSON is a stranger's: how deep it is, and what memory it takes, is known before it is
 *     parsed.
 * Form
 *     null, truths, numbers, texts, lists and objects are what they are called. A tensor is nested
 *     lists. Bytes are a text in base64. A number that JSON has not (NaN, infinities) is null. Refs
 *     and handles of actors can't be shown.
 */
#ifndef CRTI_HTTP_JSON_VALUE_H
#define CRTI_HTTP_JSON_VALUE_H

#include "runtime/base/buffer.h"
#include "runtime/crt.h"

#include <jansson.h>

#define CRTI_JSON_DEPTH 32 /* deepest nesting of what is taken */

/* Arguments that borrow from the JSON that they were made of. */
typedef struct crti_json_args {
    json_t *json;
    crt_arg_t *args; /* the first `count` are the arguments, the others parts of them */
    size_t count;
} crti_json_args_t;

/* A JSON array, one argument each. CRT_ERR_INVALID says what is wrong with it; CRT_ERR_TOO_LARGE:
 * it would take more than about `most` bytes of memory. */
crt_status_t crti_json_args_parse(const void *text, size_t size, size_t most,
                                  crti_json_args_t *args_out);
void crti_json_args_fini(crti_json_args_t *args);

/* Appends the value. CRT_ERR_UNSUPPORTED: it holds what can't be shown; CRT_ERR_TOO_LARGE: `out`
 * would have more than `most` bytes, and has at most so many. */
crt_status_t crti_json_value_write(const crt_value_t *value, size_t most,
                                   crti_buffer_t *out);
/* Writing it takes so long that others would wait. */
bool crti_json_value_is_large(const crt_value_t *value);

/* "float32" and so on; false: none of that name. */
bool crti_dtype_parse(const char *name, crt_dtype_t *dtype_out);

/* "2,3,4": at most CRT_TENSOR_DIMS sizes of at most 2^40, "" is rank 0. */
bool crti_shape_parse(const char *text, int64_t shape[CRT_TENSOR_DIMS], int *rank_out);
/* The tensor that a body is, whose bytes it borrows. `shape` "": of rank 1, as many as there are.
 * CRT_ERR_INVALID says what is wrong with it. */
crt_status_t crti_tensor_parse(const char *dtype, const char *shape, crti_span_t body,
                               crt_tensor_t *tensor_out);
void crti_shape_text(const crt_tensor_t *tensor, char *text, size_t size);

#endif
