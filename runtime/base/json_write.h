/* SPDX-License-Identifier: Apache-2.0 */
/* JSON written straight into a buffer: for answers of thousands of rows, of which a library would
 * make a tree first.
 *
 * The writer puts the commas; brackets, keys and their values are the caller's. The first failure
 * stays in `status`, and nothing is written behind it.
 */
#ifndef CRTI_BASE_JSON_WRITE_H
#define CRTI_BASE_JSON_WRITE_H

#include "runtime/base/buffer.h"
#include "runtime/base/id.h"

typedef struct crti_json_writer {
    crti_buffer_t *out;
    crt_status_t status;
    bool wants_comma;
} crti_json_writer_t;

/* '{' or '[', and its end. */
void crti_json_open(crti_json_writer_t *w, char bracket);
void crti_json_close(crti_json_writer_t *w, char bracket);

/* `key` is plain: it needs no escape. Its value follows. */
void crti_json_key(crti_json_writer_t *w, const char *key);

/* Any text; NULL is "". Where it is no UTF-8 its bytes above 0x7f become '?'. */
void crti_json_text(crti_json_writer_t *w, const char *text);
void crti_json_bytes(crti_json_writer_t *w, crti_span_t text);
/* 32 hex digits; "" of zero. */
void crti_json_id(crti_json_writer_t *w, crti_id_t id);
/* The same with the 16 digits of the number; "" when that is zero. */
void crti_json_object_id(crti_json_writer_t *w, crti_object_id_t id);
void crti_json_integer(crti_json_writer_t *w, int64_t number);
void crti_json_real(crti_json_writer_t *w, double number);
/* Milliseconds, with three digits of a fraction. */
void crti_json_ms(crti_json_writer_t *w, uint64_t ns);
void crti_json_bool(crti_json_writer_t *w, bool yes);
void crti_json_null(crti_json_writer_t *w);

/* JSON that somebody else wrote, which the caller has checked. */
void crti_json_raw(crti_json_writer_t *w, const char *json);
void crti_json_raw_bytes(crti_json_writer_t *w, crti_span_t json);

/* The whole text: caller frees it. NULL: `status`, or the writer's own, is a failure. `w->out` is
 * empty afterwards. */
char *crti_json_take(crti_json_writer_t *w, crt_status_t status);

#endif
