/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its reply. See exchange.h. */
#include "runtime/http/exchange.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/json_escape.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/http/actor_call.h"
#include "runtime/http/filter.h"

#define CHUNK          ((size_t)16 << 10) /* of a reply's body */
#define DRAIN_MAX      (1u << 20) /* of a refused body that is read; a larger one breaks off */
#define PAUSE_US       (2 * LWS_US_PER_SEC)
#define PAUSE_MOST_US  (10 * LWS_US_PER_SEC)
#define PAUSE_APART_US (LWS_US_PER_SEC / 50) /* between the ends of two pauses */
#define LINGER_NS      CRTI_S /* for a client that still sends what was refused */

#define TO(state) (1u << CRTI_HTTP_EXCHANGE_##state)
static const struct {
    const char *name;
    unsigned next;
} states[CRTI_HTTP_EXCHANGE_STATES] = {
    [CRTI_HTTP_EXCHANGE_IDLE] = {"idle",
                                 TO(READING) | TO(ASKING) | TO(REPLYING) | TO(DRAINING)},
    [CRTI_HTTP_EXCHANGE_READING] = {"reading", TO(ASKING) | TO(REPLYING) | TO(DRAINING)},
    [CRTI_HTTP_EXCHANGE_DRAINING] = {"draining", TO(REPLYING)},
    [CRTI_HTTP_EXCHANGE_ASKING] = {"asking", TO(ASKING) | TO(REPLYING) | TO(LINGERING)},
    [CRTI_HTTP_EXCHANGE_REPLYING] = {"replying", TO(IDLE) | TO(ASKING) | TO(LINGERING)},
    [CRTI_HTTP_EXCHANGE_LINGERING] = {"lingering", 0},
};

static void set_state(crti_http_exchange_t *x, crti_http_exchange_state_t state)
{
    assert(states[x->state].next & (1u << state));
    crti_log(CRTI_LOG_DEBUG, "http", "exchange %p %s -> %s", (void *)x,
             states[x->state].name, states[state].name);
    x->state = state;
}

static void on_deadline(lws_sorted_usec_list_t *sul);

/* Replaces the deadline of the step before. (lws_set_timer_usecs can't be cancelled in all
 * versions: it fires at once instead.) */
static void set_deadline(crti_http_exchange_t *x, uint64_t ns)
{
    lws_sul_schedule(lws_get_context(x->wsi), 0, &x->deadline, on_deadline,
                     (lws_usec_t)(ns / CRTI_US));
}

/* ---------------------------------------------------------------- the reply */

/* Everything of the reply is set: what is left of the body goes first. */
static void reply_is_made(crti_http_exchange_t *x)
{
    crti_upload_free(CRTI_TAKE(x->upload));
    if (x->body_size > DRAIN_MAX || (x->body_size > 0 && x->access == CRTI_HTTP_STRANGER))
        x->closes = true;
    if (x->body_size > 0 && !x->closes) {
        set_state(x, CRTI_HTTP_EXCHANGE_DRAINING);
        return;
    }
    set_state(x, CRTI_HTTP_EXCHANGE_REPLYING);
    set_deadline(x, CRTI_LIMIT(http_send_timeout));
    lws_callback_on_writable(x->wsi);
}

static crt_status_t append(crti_buffer_t *to, const char *text)
{
    return crti_buffer_append(to, text, strlen(text));
}

/* As the clients of that route read it: those of the state API have a form of their own. */
static crt_status_t append_error(crti_http_exchange_t *x, const char *name,
                                 const char *text)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t clean = {0};
    bool is_state = crti_http_is_state(x->route);
    size_t used;
    crt_status_t status = crti_utf8_clean(crti_str(text), true, &clean, &used);

    if (status == CRT_OK && is_state)
        status = append(&x->reply, "{\"result\":false,\"msg\":\"");
    else if (status == CRT_OK)
        status = append(&x->reply, "{\"error\":{");
    if (status == CRT_OK && !is_state && name) {
        status = append(&x->reply, "\"status\":\"");
        status = status == CRT_OK ? append(&x->reply, name) : status;
        status = status == CRT_OK ? append(&x->reply, "\",") : status;
    }
    if (status == CRT_OK && !is_state)
        status = append(&x->reply, "\"message\":\"");
    if (status == CRT_OK)
        status = crti_json_escape(crti_span(clean.data, clean.size), &x->reply);
    if (status == CRT_OK)
        status = append(&x->reply, is_state ? "\",\"data\":{\"result\":null}}" : "\"}}");
    return status;
}

static void reply_error(crti_http_exchange_t *x, unsigned code, const char *name,
                        const char *text)
{
    x->code = code;
    x->type = "application/json; charset=utf-8";
    x->reply.size = 0;
    if (append_error(x, name, text) != CRT_OK)
        x->reply.size = 0; /* out of memory: the code alone */
    reply_is_made(x);
}

void crti_http_exchange_text(crti_http_exchange_t *x, unsigned code, const char *format,
                             ...)
{
    char text[1200];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length >= (int)sizeof(text))
        length = sizeof(text) - 1;
    if (code >= 400) {
        reply_error(x, code, NULL, text);
        return;
    }
    x->code = code;
    x->type = "text/plain; charset=utf-8";
    x->reply.size = 0;
    if (length > 0 && crti_buffer_append(&x->reply, text, (size_t)length) != CRT_OK)
        x->code = 500;
    reply_is_made(x);
}

void crti_http_exchange_json(crti_http_exchange_t *x, unsigned code, json_t *json_take)
{
    char *text = json_take ? json_dumps(json_take, JSON_COMPACT) : NULL;

    json_decref(json_take);
    if (!text) {
        crti_http_exchange_text(x, 500, "the answer can't be written as JSON");
        return;
    }
    crti_buffer_fini(&x->reply);
    x->reply.data = (unsigned char *)text;
    x->reply.size = x->reply.capacity = strlen(text);
    x->code = code;
    x->type = "application/json; charset=utf-8";
    reply_is_made(x);
}

void crti_http_exchange_reply(crti_http_exchange_t *x, const char *type)
{
    x->code = 200;
    x->type = type;
    reply_is_made(x);
}

void crti_http_exchange_bytes(crti_http_exchange_t *x, const char *type,
                              crti_span_t constant)
{
    x->code = 200;
    x->type = type;
    x->constant = constant;
    reply_is_made(x);
}

void crti_http_exchange_stream(crti_http_exchange_t *x, const char *type, bool is_last,
                               void (*on_sent)(crti_http_exchange_t *x))
{
    x->code = 200;
    x->type = type;
    x->on_sent = on_sent;
    x->is_last = is_last;
    x->closes = x->closes || x->is_old;
    reply_is_made(x);
}

void crti_http_exchange_part(crti_http_exchange_t *x, bool is_last)
{
    x->is_last = is_last;
    reply_is_made(x);
}

void crti_http_exchange_break(crti_http_exchange_t *x)
{
    crti_log(CRTI_LOG_INFO, "http", "a reply breaks off: %s", crt_error_detail());
    set_state(x, CRTI_HTTP_EXCHANGE_LINGERING);
    lws_set_timeout(x->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
}

void crti_http_exchange_fail(crti_http_exchange_t *x, crt_status_t status)
{
    static const struct {
        crt_status_t status;
        unsigned code;
    } codes[] = {
        {CRT_ERR_INVALID, 400},    {CRT_ERR_CORRUPT, 400},
        {CRT_ERR_EXISTS, 400},     {CRT_ERR_NOT_FOUND, 404},
        {CRT_ERR_TOO_LARGE, 413},  {CRT_ERR_STORE_FULL, 507},
        {CRT_ERR_HEAD_LOST, 503},  {CRT_ERR_TIMED_OUT, 503},
        {CRT_ERR_UNREACHABLE, 503}}; /* a node: its link comes back, or it is dead soon */
    unsigned code = 500;

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].status == status)
            code = codes[i].code;
    reply_error(x, code, crt_status_name(status), crt_error_detail());
}

/* ---------------------------------------------------------------- questions to the head */

static void on_head_answer(void *user, crt_status_t status, const crti_message_t *message)
{
    crti_http_exchange_t *x = user;

    x->question = 0;
    x->on_answer(x, status, message);
}

void crti_http_exchange_ask(crti_http_exchange_t *x, crti_message_kind_t kind,
                            const void *body, uint64_t timeout_ms,
                            crti_http_exchange_answer_t *on_answer)
{
    crt_status_t status;

    set_state(x, CRTI_HTTP_EXCHANGE_ASKING);
    x->on_answer = on_answer;
    lws_set_timeout(x->wsi, NO_PENDING_TIMEOUT, 0);
    set_deadline(x, timeout_ms * CRTI_MS + x->patience_s * CRTI_S);
    status =
        crti_head_link_ask(x->http->link, kind, body, on_head_answer, x, &x->question);
    x->was_sent = status == CRT_OK;
    if (status != CRT_OK)
        on_answer(x, status, NULL);
}

void crti_http_exchange_wait(crti_http_exchange_t *x, uint64_t timeout_ms,
                             crti_http_exchange_answer_t *on_answer)
{
    set_state(x, CRTI_HTTP_EXCHANGE_ASKING);
    x->on_answer = on_answer;
    lws_set_timeout(x->wsi, NO_PENDING_TIMEOUT, 0);
    set_deadline(x, timeout_ms * CRTI_MS + x->patience_s * CRTI_S);
}

bool crti_http_exchange_is_served(const crti_http_exchange_t *x)
{
    return !x->is_paused && !x->body_size &&
           (x->state == CRTI_HTTP_EXCHANGE_ASKING ||
            x->state == CRTI_HTTP_EXCHANGE_REPLYING);
}

void crti_http_exchange_pause(crti_http_exchange_t *x,
                              crti_http_exchange_answer_t *on_answer)
{
    uint64_t now_us = (uint64_t)lws_now_usecs(), end_us = now_us + PAUSE_US;

    if (end_us < x->http->pause_end_us + PAUSE_APART_US)
        end_us = x->http->pause_end_us + PAUSE_APART_US;
    if (end_us > now_us + PAUSE_MOST_US)
        end_us = now_us + PAUSE_MOST_US;
    x->http->pause_end_us = end_us;
    set_state(x, CRTI_HTTP_EXCHANGE_ASKING);
    x->on_answer = on_answer;
    x->is_paused = true;
    lws_set_timeout(x->wsi, NO_PENDING_TIMEOUT, 0);
    lws_rx_flow_control(x->wsi, 0);
    lws_sul_schedule(lws_get_context(x->wsi), 0, &x->deadline, on_deadline,
                     (lws_usec_t)(end_us - now_us));
}

/* ---------------------------------------------------------------- the request */

static void begin_again(crti_http_exchange_t *x)
{
    crti_http_t *http = x->http;
    struct lws *wsi = x->wsi;

    crti_http_exchange_fini(x);
    *x = (crti_http_exchange_t){.http = http, .wsi = wsi};
}

static const char *access_name(const crti_http_exchange_t *x)
{
    if (x->http->policy.is_open)
        return "open";
    return x->access == CRTI_HTTP_OWNER ? "owner" : "read-only";
}

/* Calls of actors are work of programs: many, and none of the cluster's state is changed by
 * them. */
static bool is_audited(const crti_http_exchange_t *x, const crti_http_request_t *request,
                       unsigned refusal)
{
    return crti_http_changes_something(request) && x->access != CRTI_HTTP_STRANGER &&
           (refusal || x->route != CRTI_ROUTE_ACTOR_CALL);
}

void crti_http_exchange_refuse(crti_http_exchange_t *x,
                               const crti_http_request_t *request,
                               crti_http_access_t access,
                               const crti_http_refusal_t *refusal)
{
    x->access = access;
    if (is_audited(x, request, refusal->code))
        x->audit = crti_audit_begin(request, access_name(x), lws_get_socket_fd(x->wsi));
    crti_http_exchange_text(x, refusal->code, "%s", refusal->text);
}

/* A body has so long to come. */
static uint64_t body_time(uint64_t size)
{
    uint64_t most = CRTI_LIMIT(http_upload);

    return CRTI_LIMIT(http_body_timeout) +
           CRTI_S * ((size < most ? size : most) / CRTI_LIMIT(http_body_rate));
}

void crti_http_exchange_begin(crti_http_exchange_t *x, const crti_http_request_t *request,
                              uint64_t body_size)
{
    crti_http_refusal_t refusal = crti_http_guard(&x->http->policy, request);

    begin_again(x);
    x->is_old = request->is_old;
    x->is_python = request->is_python;
    x->access = crti_http_access_of(&x->http->policy, request, &x->token);
    x->body_size = body_size;
    x->patience_s = CRTI_LIMIT(http_head_timeout) / CRTI_S;
    x->is_head = request->method == CRTI_HTTP_HEAD;
    if (!refusal.code)
        refusal = crti_http_find_route(request, &x->route, x->id);
    if (is_audited(x, request, refusal.code))
        x->audit = crti_audit_begin(request, access_name(x), lws_get_socket_fd(x->wsi));
    if (refusal.code == 0 && crti_http_check_args(request, x->route) != CRT_OK) {
        crti_http_exchange_text(x, 400, "%s", crt_error_detail());
        return;
    }
    if (refusal.code) {
        x->closes = x->access == CRTI_HTTP_STRANGER || request->is_upgrade;
        crti_http_exchange_text(x, refusal.code, "%s", refusal.text);
    } else {
        x->http->begin(x, request);
        if (x->state == CRTI_HTTP_EXCHANGE_IDLE)
            set_state(x, CRTI_HTTP_EXCHANGE_READING);
    }
    if (x->state == CRTI_HTTP_EXCHANGE_READING || x->state == CRTI_HTTP_EXCHANGE_DRAINING)
        set_deadline(x, body_time(body_size));
    if (x->state == CRTI_HTTP_EXCHANGE_READING && body_size == 0)
        x->http->body(x);
}

/* libwebsockets does not know where it ends, so that nothing can come after it. */
static void take_chunks(crti_http_exchange_t *x, const char *at, size_t size)
{
    crt_status_t status = CRT_OK;

    while (size && status == CRT_OK && x->chunks.state != CRTI_CHUNKS_DONE) {
        const void *data;
        size_t length, used;

        status = crti_chunks_next(&x->chunks, at, size, &data, &length, &used);
        if (status == CRT_OK && length)
            status = crti_upload_write(x->upload, data, length);
        at += used;
        size -= used;
    }
    x->closes = true;
    if (status != CRT_OK) {
        crti_http_exchange_fail(x, status);
    } else if (x->chunks.state == CRTI_CHUNKS_DONE) {
        x->body_size = 0;
        x->http->body(x);
    }
}

void crti_http_exchange_body(crti_http_exchange_t *x, const void *data, size_t size)
{
    crt_status_t status;

    if (x->body_size == CRTI_BODY_IN_CHUNKS) {
        if (x->state == CRTI_HTTP_EXCHANGE_READING)
            take_chunks(x, data, size);
        return;
    }
    x->body_size -= size < x->body_size ? size : x->body_size;
    if (x->state != CRTI_HTTP_EXCHANGE_READING)
        return;
    status = x->upload ? crti_upload_write(x->upload, data, size)
                       : crti_buffer_append(&x->body, data, size);
    if (status != CRT_OK)
        crti_http_exchange_fail(x, status);
}

void crti_http_exchange_body_complete(crti_http_exchange_t *x)
{
    bool is_cut = x->body_size == CRTI_BODY_IN_CHUNKS;

    x->body_size = 0;
    if (is_cut && x->state == CRTI_HTTP_EXCHANGE_READING) {
        crti_http_exchange_text(
            x, 413, "413: a body in chunks that is larger than 100 MiB; give its length");
        return;
    }
    if (x->state == CRTI_HTTP_EXCHANGE_DRAINING)
        reply_is_made(x);
    else if (x->state == CRTI_HTTP_EXCHANGE_READING)
        x->http->body(x);
    else if (x->state == CRTI_HTTP_EXCHANGE_LINGERING)
        lws_set_timeout(x->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
}

static void on_deadline(lws_sorted_usec_list_t *sul)
{
    crti_http_exchange_t *x = lws_container_of(sul, crti_http_exchange_t, deadline);

    switch (x->state) {
    case CRTI_HTTP_EXCHANGE_READING:
    case CRTI_HTTP_EXCHANGE_DRAINING:
        x->body_size = 0; /* the rest is not read */
        x->closes = true;
        crti_http_exchange_text(x, 408, "408: the request's body did not arrive in time");
        break;
    case CRTI_HTTP_EXCHANGE_ASKING:
        if (x->is_paused)
            lws_rx_flow_control(x->wsi, 1);
        x->is_paused = false;
        if (x->question)
            crti_head_link_forget(x->http->link, x->question);
        x->question = 0;
        x->on_answer(x, crt_raise(CRT_ERR_TIMED_OUT, "the head does not answer"), NULL);
        break;
    case CRTI_HTTP_EXCHANGE_LINGERING:
    case CRTI_HTTP_EXCHANGE_REPLYING: /* a client that does not read */
        lws_set_timeout(x->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
        break;
    default: break;
    }
}

/* ---------------------------------------------------------------- writing */

static bool add_header(struct lws *wsi, const char *name, const char *value,
                       unsigned char **at, unsigned char *end)
{
    return lws_add_http_header_by_name(wsi, (const unsigned char *)name,
                                       (const unsigned char *)value, (int)strlen(value),
                                       at, end) == 0;
}

/* How the client knows where the body ends: by the end of the connection in HTTP/1.0. */
static bool add_length(crti_http_exchange_t *x, size_t size, unsigned char **at,
                       unsigned char *end)
{
    if (!x->on_sent)
        return lws_add_http_header_content_length(x->wsi, size, at, end) == 0;
    return x->is_old || add_header(x->wsi, "transfer-encoding:", "chunked", at, end);
}

static bool write_headers(crti_http_exchange_t *x, size_t size)
{
    static const char *const always[][2] = {
        {"cache-control:", "no-store"},
        {"x-content-type-options:", "nosniff"},
        {"x-frame-options:", "DENY"},
        {"referrer-policy:", "no-referrer"},
        {"cross-origin-resource-policy:", "same-origin"},
        {"content-security-policy:",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
         "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
         "'none'"},
    };
    unsigned char memory[LWS_PRE + 2048], *start = memory + LWS_PRE, *at = start;
    unsigned char *end = memory + sizeof(memory);

    if (lws_add_http_header_status(x->wsi, x->code, &at, end) ||
        !add_header(x->wsi, "content-type:", x->type, &at, end) ||
        !add_length(x, size, &at, end))
        return false;
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        if (!add_header(x->wsi, always[i][0], always[i][1], &at, end))
            return false;
    if (x->dtype[0] && (!add_header(x->wsi, "x-crt-dtype:", x->dtype, &at, end) ||
                        !add_header(x->wsi, "x-crt-shape:", x->shape, &at, end)))
        return false;
    if (x->closes && !add_header(x->wsi, "connection:", "close", &at, end))
        return false;
    if (lws_finalize_http_header(x->wsi, &at, end))
        return false;
    return lws_write(x->wsi, start, (size_t)(at - start), LWS_WRITE_HTTP_HEADERS) ==
           (int)(at - start);
}

/* libwebsockets refuses what is no request (a line without a path, an unknown method) before we
 * hear of it, with a page of its own, by this function of its, whose name ours takes: so those
 * errors are JSON too. */
__attribute__((visibility("default"))) int
lws_return_http_status(struct lws *wsi, unsigned int code, const char *html_body)
{
    static const char text[] =
        "{\"error\":{\"message\":\"400: this is no request of HTTP/1.1 with a known "
        "method and a path\"}}";
    unsigned char memory[LWS_PRE + 512], *start = memory + LWS_PRE, *at = start;
    unsigned char *end = memory + sizeof(memory);

    if (lws_add_http_header_status(wsi, 400, &at, end) ||
        !add_header(wsi, "content-type:", "application/json; charset=utf-8", &at, end) ||
        !add_header(wsi, "connection:", "close", &at, end) ||
        lws_add_http_header_content_length(wsi, strlen(text), &at, end) ||
        lws_finalize_http_header(wsi, &at, end) ||
        lws_write(wsi, start, (size_t)(at - start), LWS_WRITE_HTTP_HEADERS) !=
            (int)(at - start))
        return -1;
    memcpy(start, text, strlen(text));
    return lws_write(wsi, start, strlen(text), LWS_WRITE_HTTP_FINAL) == (int)strlen(text)
               ? 0
               : -1;
}

static bool finish(crti_http_exchange_t *x)
{
    bool closes = x->closes;

    /* A connection that ends before what was sent is read may take the answer with it. */
    if (closes && x->body_size > 0) {
        set_state(x, CRTI_HTTP_EXCHANGE_LINGERING);
        set_deadline(x, LINGER_NS);
        return true;
    }
    set_state(x, CRTI_HTTP_EXCHANGE_IDLE);
    begin_again(x);
    return lws_http_transaction_completed(x->wsi) == 0 && !closes;
}

/* A piece of the body, framed as a chunk where the reply comes in parts. */
static bool write_piece(crti_http_exchange_t *x, const char *bytes, size_t size,
                        bool is_last)
{
    unsigned char memory[LWS_PRE + 16 + CHUNK + 16], *start = memory + LWS_PRE;
    unsigned char *at = start;
    bool is_framed = x->on_sent && !x->is_old;
    int length;

    if (is_framed && size)
        at += sprintf((char *)at, "%zx\r\n", size);
    if (size)
        memcpy(at, bytes, size);
    at += size;
    if (is_framed && size)
        at += sprintf((char *)at, "\r\n");
    if (is_framed && is_last)
        at += sprintf((char *)at, "0\r\n\r\n");
    length = (int)(at - start);
    return length == 0 ||
           lws_write(x->wsi, start, (size_t)length,
                     is_last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) == length;
}

/* The next piece of the body. */
static bool write_body(crti_http_exchange_t *x, crti_span_t reply)
{
    size_t size = reply.size - x->sent < CHUNK ? reply.size - x->sent : CHUNK;
    bool is_sent = x->sent + size == reply.size;
    bool is_last = is_sent && (!x->on_sent || x->is_last);

    if (!write_piece(x, (const char *)reply.data + x->sent, size, is_last))
        return false;
    x->sent += size;
    if (is_last)
        return finish(x);
    if (is_sent) {
        x->reply.size = x->sent = 0;
        x->on_sent(x);
    } else {
        lws_callback_on_writable(x->wsi);
    }
    return true;
}

bool crti_http_exchange_write(crti_http_exchange_t *x)
{
    crti_span_t reply =
        x->constant.data ? x->constant : crti_span(x->reply.data, x->reply.size);

    if (x->state != CRTI_HTTP_EXCHANGE_REPLYING)
        return true;
    set_deadline(x, CRTI_LIMIT(http_send_timeout));
    lws_set_timeout(x->wsi, PENDING_TIMEOUT_HTTP_CONTENT,
                    (int)(CRTI_LIMIT(http_send_timeout) / CRTI_S));
    if (x->headers_sent)
        return write_body(x, reply);
    if (!write_headers(x, reply.size))
        return false;
    x->headers_sent = true;
    if (x->is_head || (reply.size == 0 && !x->on_sent))
        return finish(x);
    lws_callback_on_writable(x->wsi);
    return true;
}

void crti_http_exchange_fini(crti_http_exchange_t *x)
{
    if (x->audit)
        crti_audit_end(x->http->audit, CRTI_TAKE(x->audit), x->headers_sent ? x->code : 0,
                       x->id);
    if (x->question)
        crti_head_link_forget(x->http->link, x->question);
    x->question = 0;
    lws_sul_cancel(&x->deadline);
    crti_actor_call_free(CRTI_TAKE(x->call));
    crti_upload_free(CRTI_TAKE(x->upload));
    crti_buffer_fini(&x->body);
    crti_buffer_fini(&x->reply);
    json_decref(CRTI_TAKE(x->filters));
}

/* ---------------------------------------------------------------- the state of the head */

void crti_http_exchange_ask_state(crti_http_exchange_t *x, const char *what,
                                  const char *filter,
                                  crti_http_exchange_answer_t *on_answer)
{
    crti_msg_state_query_t query = {.what = crti_str(what), .filter = crti_str(filter)};

    crti_http_exchange_ask(x, CRTI_MSG_STATE_QUERY, &query, 0, on_answer);
}

json_t *crti_http_exchange_state(crti_http_exchange_t *x, crt_status_t status,
                                 const crti_message_t *message)
{
    json_t *json = NULL;

    if (status == CRT_OK && message->kind == CRTI_MSG_STATE_ANSWER)
        json = json_loadb(message->state_answer.json.data,
                          message->state_answer.json.size, JSON_DECODE_ANY, NULL);
    if (json)
        return json;
    if (status == CRT_OK)
        status =
            crt_raise(CRT_ERR_PROTOCOL, "the head's answer is not the JSON expected");
    if (crti_http_is_state(x->route)) /* its clients take a text for a lost connection */
        crti_http_exchange_text(x, 500, "%s", crt_error_detail());
    else
        crti_http_exchange_fail(x, status);
    return NULL;
}

const json_t *crti_http_exchange_job(crti_http_exchange_t *x, const json_t *jobs)
{
    const json_t *job = json_array_get(jobs, 0);

    if (!job)
        crti_http_exchange_text(x, 404, "Job %s does not exist", x->id);
    return job;
}
