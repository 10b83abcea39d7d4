/* SPDX-License-Identifier: Apache-2.0 */
/* JSON written straight into a buffer. See json_write.h. */
#include "runtime/base/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/json_escape.h"
#include "runtime/base/number_text.h"
#include "runtime/base/utf8.h"

static void put(crti_json_writer_t *w, const void *bytes, size_t size)
{
    if (w->status == CRT_OK)
        w->status = crti_buffer_append(w->out, bytes, size);
}

/* Of a value or a key: what was before it ends with a comma. */
static void begin(crti_json_writer_t *w)
{
    if (w->wants_comma)
        put(w, ",", 1);
    w->wants_comma = true;
}

void crti_json_open(crti_json_writer_t *w, char bracket)
{
    begin(w);
    put(w, &bracket, 1);
    w->wants_comma = false;
}

void crti_json_close(crti_json_writer_t *w, char bracket)
{
    put(w, &bracket, 1);
    w->wants_comma = true;
}

void crti_json_key(crti_json_writer_t *w, const char *key)
{
    begin(w);
    put(w, "\"", 1);
    put(w, key, strlen(key));
    put(w, "\":", 2);
    w->wants_comma = false;
}

/* ---------------------------------------------------------------- texts */

static bool is_utf8(crti_span_t text)
{
    const unsigned char *at = text.data, *end = at + text.size;

    while (at < end) {
        int length = crti_utf8_length(at, (size_t)(end - at));

        if (length <= 0)
            return false;
        at += length;
    }
    return true;
}

void crti_json_bytes(crti_json_writer_t *w, crti_span_t text)
{
    size_t from;
    bool is_plain = !is_utf8(text);

    begin(w);
    put(w, "\"", 1);
    from = w->out->size;
    if (w->status == CRT_OK && text.size)
        w->status = crti_json_escape(text, w->out);
    for (size_t i = from; is_plain && i < w->out->size; i++)
        if (w->out->data[i] >= 0x80)
            w->out->data[i] = '?';
    put(w, "\"", 1);
}

void crti_json_text(crti_json_writer_t *w, const char *text)
{
    crti_json_bytes(w, crti_span(text, text ? strlen(text) : 0));
}

/* ---------------------------------------------------------------- the others */

void crti_json_raw_bytes(crti_json_writer_t *w, crti_span_t json)
{
    begin(w);
    put(w, json.data, json.size);
}

void crti_json_raw(crti_json_writer_t *w, const char *json)
{
    crti_json_raw_bytes(w, crti_span(json, strlen(json)));
}

void crti_json_id(crti_json_writer_t *w, crti_id_t id)
{
    char hex[CRTI_ID_HEX];

    crti_json_raw(w, "\"");
    if (!crti_id_is_zero(id))
        put(w, crti_id_hex(id, hex), CRTI_ID_HEX - 1);
    put(w, "\"", 1);
}

void crti_json_object_id(crti_json_writer_t *w, crti_object_id_t id)
{
    char hex[CRTI_ID_HEX], number[17];

    crti_json_raw(w, "\"");
    if (id.number) {
        snprintf(number, sizeof(number), "%016" PRIx64, id.number);
        put(w, crti_id_hex(id.owner, hex), CRTI_ID_HEX - 1);
        put(w, number, 16);
    }
    put(w, "\"", 1);
}

void crti_json_integer(crti_json_writer_t *w, int64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, number);
    crti_json_raw(w, text);
}

/* 12 digits, and marked as no integer. */
void crti_json_real(crti_json_writer_t *w, double number)
{
    char text[40];

    crti_format(text, sizeof(text) - 2, "%.12g", number);
    if (!text[strcspn(text, ".e")])
        strcat(text, ".0");
    crti_json_raw(w, text);
}

void crti_json_ms(crti_json_writer_t *w, uint64_t ns)
{
    uint64_t us = ns / 1000;
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64 ".%03u", us / 1000, (unsigned)(us % 1000));
    crti_json_raw(w, text);
}

void crti_json_bool(crti_json_writer_t *w, bool yes)
{
    crti_json_raw(w, yes ? "true" : "false");
}

void crti_json_null(crti_json_writer_t *w)
{
    crti_json_raw(w, "null");
}

char *crti_json_take(crti_json_writer_t *w, crt_status_t status)
{
    char *text = NULL;

    if (status == CRT_OK)
        status = w->status;
    if (status == CRT_OK)
        status = crti_buffer_append(w->out, "", 1);
    if (status == CRT_OK) {
        text = (char *)w->out->data;
        *w->out = (crti_buffer_t){0};
    }
    crti_buffer_fini(w->out);
    return text;
}
