/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of actors by HTTP. See actor_call.h. */
#include "runtime/http/actor_call.h"
#include "runtime/base/limit.h"
#include "runtime/base/tensor_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/http/json_value.h"

#define LARGE         ((size_t)32 << 10) /* a body whose arguments may go to the store */
#define TIMEOUT_MAX   (60u * 60 * 1000)
#define ARGS_MEMORY   ((size_t)4 << 30)  /* that arguments take while a call is made, */
#define ARGS_FAR      ((size_t)40 << 20) /* and a stranger's */
#define STRANGERS_MAX ((size_t)8 << 20)  /* bytes of bodies, of all strangers together */

struct crti_actor_call {
    crti_order_t order;
    crti_http_exchange_t *x;
    crti_http_t *http;
    size_t announced;           /* bytes of the body */
    size_t reserved;            /* of the strangers' bytes */
    crt_status_t refused;       /* told after a pause; CRT_OK: not refused */
    bool is_raw;                /* the body is a tensor or bytes, not JSON */
    bool wants_raw;             /* and so is the result, when it is one; */
    bool wants_text;            /* or a text */
    bool has_begun;             /* of a stream: its headers are sent, or about to be */
    bool is_at_item;            /* of a stream: the item that is sent is looked at */
    char dtype[32], shape[256]; /* of the body; "": it is bytes */
    crti_buffer_t body;         /* arguments borrow from it */
    crti_json_args_t json;
    crt_arg_t raw;
    crt_tensor_t tensor;
    /* The result as it is sent: of crti_order_write, in the helper. */
    const crt_value_t *value;
    bool is_written;
    crti_buffer_t text;
    crt_status_t text_status;
    char error[512];
};

/* Strangers get, and make others do, a bounded amount of work. */
static size_t result_max(const crti_actor_call_t *call)
{
    return call->order.has_token ? CRTI_LIMIT(http_result)
                                 : CRTI_LIMIT(http_result_stranger);
}

/* ---------------------------------------------------------------- failures */

/* What becomes of an actor, not what its methods say. */
static bool is_fate(crt_status_t status)
{
    switch (status) {
    case CRT_ERR_TIMED_OUT:
    case CRT_ERR_BACKPRESSURE:
    case CRT_ERR_STORE_FULL:
    case CRT_ERR_ACTOR_DIED:
    case CRT_ERR_WORKER_DIED:
    case CRT_ERR_UNREACHABLE:
    case CRT_ERR_NODE_LOST:
    case CRT_ERR_HEAD_LOST:
    case CRT_ERR_CANCELLED:
    case CRT_ERR_CLOSED:
    case CRT_ERR_PROTOCOL: return true;
    default: return false;
    }
}

/* Strangers learn nothing of what they may not call: neither that it is there, nor what becomes of
 * it. */
static bool is_hidden(const crti_actor_call_t *call, crt_status_t status,
                      bool may_have_run)
{
    if (call->order.has_token)
        return false;
    if (!may_have_run && (status == CRT_ERR_NOT_FOUND || status == CRT_ERR_PERMISSION))
        return true;
    /* Its worker has not said yet that they may: what was sent is not judged before. */
    return (is_fate(status) || call->order.state == CRTI_ORDER_FAILED) &&
           call->order.was_found && !crti_order_is_of_open_actor(&call->order);
}

/* Where it runs, what it is called and why it died is nobody's else. */
static const char *text_for(const crti_actor_call_t *call, crt_status_t status)
{
    return call->order.has_token || !is_fate(status) ? crt_error_detail()
           : status == CRT_ERR_TIMED_OUT             ? "the call took too long"
                                         : "the actor can't be called just now";
}

static unsigned code_of(crt_status_t status, bool may_have_run)
{
    switch (status) {
    case CRT_ERR_INVALID: return 400;
    case CRT_ERR_NOT_FOUND: return may_have_run ? 500 : 404;
    case CRT_ERR_TOO_LARGE: return may_have_run ? 500 : 413;
    case CRT_ERR_TIMED_OUT: return 504;
    case CRT_ERR_BACKPRESSURE:
    case CRT_ERR_STORE_FULL:
    case CRT_ERR_ACTOR_DIED:
    case CRT_ERR_WORKER_DIED:
    case CRT_ERR_UNREACHABLE:
    case CRT_ERR_NODE_LOST:
    case CRT_ERR_HEAD_LOST: return 503;
    default: return 500;
    }
}

static json_t *describe(crt_status_t status, bool may_have_run, const char *text)
{
    json_t *message = json_string(text);

    return json_pack("{s:{s:s, s:o, s:b}}", "error", "status", crt_status_name(status),
                     "message",
                     message ? message : json_string("a text that is not UTF-8"),
                     "may_have_run", may_have_run);
}

static void give_back(crti_actor_call_t *call)
{
    call->http->stranger_bytes -= call->reserved;
    call->reserved = 0;
}

static void on_paused(crti_http_exchange_t *x, crt_status_t status,
                      const crti_message_t *message);

/* A stranger who asks again as soon as a large body is refused costs little then. */
static void refuse_later(crti_actor_call_t *call, crt_status_t status)
{
    call->refused = status;
    snprintf(call->error, sizeof(call->error), "%s", crt_error_detail());
    give_back(call);
    crti_http_exchange_pause(call->x, on_paused);
}

static void fail(crti_actor_call_t *call, crt_status_t status, bool may_have_run)
{
    crti_http_exchange_t *x = call->x;
    json_t *json;

    if (!call->order.has_token && !may_have_run && call->announced > LARGE &&
        call->refused == CRT_OK) {
        refuse_later(call, status);
        return;
    }
    if (is_hidden(call, status, may_have_run) && x->access == CRTI_HTTP_READER) {
        crti_http_exchange_text(x, 403, "%s", CRTI_HTTP_READ_ONLY);
        return;
    }
    if (is_hidden(call, status, may_have_run)) {
        x->closes = true;
        crti_http_exchange_text(x, 401, "Unauthorized: Missing authentication token");
        return;
    }
    json = describe(status, may_have_run, text_for(call, status));
    crti_http_exchange_json(x, code_of(status, may_have_run), json);
}

static void on_paused(crti_http_exchange_t *x, crt_status_t status,
                      const crti_message_t *message)
{
    (void)status, (void)message;
    fail(x->call, crt_raise(x->call->refused, "%s", x->call->error), false);
}

/* ---------------------------------------------------------------- one result */

static bool reply_raw(crti_actor_call_t *call, const crt_value_t *value)
{
    crti_http_exchange_t *x = call->x;
    const crt_tensor_t *tensor;
    crt_bytes_t bytes;

    if (crt_value_kind(value) == CRT_KIND_TENSOR &&
        crt_value_read(value, &tensor) == CRT_OK && crt_tensor_gpu(tensor) < 0) {
        bytes = (crt_bytes_t){tensor->data, crt_tensor_bytes(tensor)};
        snprintf(x->dtype, sizeof(x->dtype), "%s", crt_dtype_name(tensor->dtype));
        crti_shape_text(tensor, x->shape, sizeof(x->shape));
    } else if (crt_value_kind(value) != CRT_KIND_BYTES ||
               crt_value_read(value, &bytes) != CRT_OK) {
        return false;
    }
    if (bytes.size > result_max(call))
        return false;
    if (crti_buffer_append(&x->reply, bytes.data, bytes.size) != CRT_OK)
        fail(call, CRT_ERR_NO_MEMORY, true);
    else
        crti_http_exchange_reply(x, "application/octet-stream");
    return true;
}

static bool reply_text(crti_actor_call_t *call, const crt_value_t *value)
{
    crti_http_exchange_t *x = call->x;
    const char *text;

    if (crt_value_kind(value) != CRT_KIND_STRING ||
        crt_value_read(value, &text) != CRT_OK || strlen(text) > result_max(call))
        return false;
    if (crti_buffer_append(&x->reply, text, strlen(text)) != CRT_OK)
        fail(call, CRT_ERR_NO_MEMORY, true);
    else
        crti_http_exchange_reply(x, "text/plain; charset=utf-8");
    return true;
}

/* By the loop, or the helper. */
static void write_text(crti_order_t *order)
{
    crti_actor_call_t *call = CRTI_CONTAINER(order, crti_actor_call_t, order);
    size_t most = result_max(call);
    crt_status_t status = CRT_OK;

    call->text.size = 0;
    if (order->is_stream)
        status = crti_buffer_append(&call->text, "data: ", 6);
    if (status == CRT_OK)
        status = crti_json_value_write(call->value, most, &call->text);
    if (status == CRT_OK && order->is_stream)
        status = crti_buffer_append(&call->text, "\n\n", 2);
    call->text_status = status;
    snprintf(call->error, sizeof(call->error), "%s",
             status == CRT_OK ? "" : crt_error_detail());
    call->is_written = true;
}

/* False: the helper writes it, and this is looked at again then. */
static bool has_text(crti_actor_call_t *call, const crt_value_t *value)
{
    if (call->is_written)
        return true;
    call->value = value;
    if (crti_json_value_is_large(value)) {
        crti_order_write(&call->order);
        return false;
    }
    write_text(&call->order);
    return true;
}

/* What was written becomes the reply. */
static crt_status_t take_text(crti_actor_call_t *call)
{
    crti_buffer_fini(&call->x->reply);
    call->is_written = false;
    if (call->text_status != CRT_OK) {
        crti_buffer_fini(&call->text);
        return crt_raise(call->text_status, "%s", call->error);
    }
    call->x->reply = call->text;
    call->text = (crti_buffer_t){0};
    return CRT_OK;
}

static void reply_value(crti_actor_call_t *call, const crt_value_t *value)
{
    crti_http_exchange_t *x = call->x;
    crt_status_t status;

    x->reply.size = 0;
    if ((call->wants_raw && reply_raw(call, value)) ||
        (call->wants_text && reply_text(call, value)) || !has_text(call, value))
        return;
    x->dtype[0] = '\0';
    status = take_text(call);
    if (status != CRT_OK)
        fail(call, status, true);
    else
        crti_http_exchange_reply(x, "application/json; charset=utf-8");
}

/* ---------------------------------------------------------------- many results */

static void send_next(crti_http_exchange_t *x);

static void send_event(crti_actor_call_t *call, crt_status_t status, bool is_last)
{
    crti_http_exchange_t *x = call->x;

    if (status != CRT_OK) {
        crti_http_exchange_break(x);
        return;
    }
    if (call->has_begun)
        crti_http_exchange_part(x, is_last);
    else
        crti_http_exchange_stream(x, "text/event-stream", is_last, send_next);
    call->has_begun = true;
}

static crt_status_t append(crti_buffer_t *out, const char *text)
{
    return crti_buffer_append(out, text, strlen(text));
}

static void send_item(crti_actor_call_t *call, const crt_value_t *value)
{
    if (!has_text(call, value))
        return;
    call->is_at_item = true;
    send_event(call, take_text(call), false);
}

/* What a program says of the end: what it returned is not told, as in Ray. */
static void send_end(crti_actor_call_t *call)
{
    call->x->reply.size = 0;
    send_event(call, append(&call->x->reply, "event: end\ndata: null\n\n"), true);
}

static void send_error(crti_actor_call_t *call, crt_status_t status, bool may_have_run)
{
    json_t *json = describe(status, may_have_run, text_for(call, status));
    char *text = json_dumps(json, JSON_COMPACT);
    crti_buffer_t *reply = &call->x->reply;

    json_decref(json);
    reply->size = 0;
    status = text ? append(reply, "event: error\ndata: ") : CRT_ERR_NO_MEMORY;
    if (status == CRT_OK)
        status = append(reply, text);
    if (status == CRT_OK)
        status = append(reply, "\n\n");
    free(text);
    send_event(call, status, true);
}

/* ---------------------------------------------------------------- waiting */

static void look(crti_actor_call_t *call)
{
    const crt_value_t *value = NULL;
    bool may_have_run;
    crt_status_t status = crti_order_look(&call->order, &value, &may_have_run);

    if (status == CRT_IN_PROGRESS)
        return;
    if (status == CRT_OK && !call->order.is_stream)
        reply_value(call, value);
    else if (status == CRT_OK)
        send_item(call, value);
    else if (status == CRT_END_OF_STREAM)
        send_end(call);
    else if (call->has_begun)
        send_error(call, status, may_have_run);
    else
        fail(call, status, may_have_run);
}

static void on_change(crti_order_t *order)
{
    crti_actor_call_t *call = CRTI_CONTAINER(order, crti_actor_call_t, order);

    if (call->refused != CRT_OK)
        return;
    if (call->x->state == CRTI_HTTP_EXCHANGE_ASKING ||
        (call->x->state == CRTI_HTTP_EXCHANGE_READING &&
         order->state == CRTI_ORDER_FAILED))
        look(call);
}

/* The call's own time is over before: it is not answered at all. */
static void on_late(crti_http_exchange_t *x, crt_status_t status,
                    const crti_message_t *message)
{
    if (x->call->has_begun)
        send_error(x->call, CRT_ERR_TIMED_OUT, true);
    else
        fail(x->call, CRT_ERR_TIMED_OUT, true);
}

/* The client has taken what was sent: the next item of the stream. */
static void send_next(crti_http_exchange_t *x)
{
    crti_actor_call_t *call = x->call;

    if (call->is_at_item)
        crti_order_next(&call->order);
    call->is_at_item = false;
    crti_http_exchange_wait(x, (uint64_t)call->order.timeout_ms, on_late);
    look(call);
}

/* ---------------------------------------------------------------- the arguments */

/* By the loop, or the helper. */
static crt_status_t prepare(crti_order_t *order)
{
    crti_actor_call_t *call = CRTI_CONTAINER(order, crti_actor_call_t, order);
    crt_status_t status = CRT_OK;

    if (!call->is_raw) {
        status =
            crti_json_args_parse(call->body.data, call->body.size,
                                 order->has_token ? ARGS_MEMORY : ARGS_FAR, &call->json);
        order->args = call->json.args;
        order->count = call->json.count;
        return status;
    }
    if (call->dtype[0]) {
        status =
            crti_tensor_parse(call->dtype, call->shape,
                              crti_span(call->body.data, call->body.size), &call->tensor);
        call->raw = crt_arg_tensor(&call->tensor);
    } else {
        call->raw = crt_arg_bytes((crt_bytes_t){call->body.data, call->body.size});
    }
    order->args = &call->raw;
    order->count = 1;
    return status;
}

/* The call has them. */
static void release(crti_order_t *order)
{
    crti_actor_call_t *call = CRTI_CONTAINER(order, crti_actor_call_t, order);

    crti_json_args_fini(&call->json);
    crti_buffer_fini(&call->body);
}

/* ---------------------------------------------------------------- the request */

static bool has_word(const char *list, const char *word)
{
    return list && strcasestr(list, word) != NULL;
}

static bool copy_name(char to[CRTI_CALLER_NAME], const char *from, size_t length)
{
    if (length == 0 || length >= CRTI_CALLER_NAME)
        return false;
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

/* /api/actors/NAMESPACE/NAME/METHOD; a name may have a '/' in it. */
static bool read_path(crti_order_t *order, const char *path)
{
    const char *space = path + strlen("/api/actors/"), *name = strchr(space, '/');
    const char *method = strrchr(path, '/');

    return name && method > name &&
           copy_name(order->name_space, space, (size_t)(name - space)) &&
           copy_name(order->actor, name + 1, (size_t)(method - name - 1)) &&
           copy_name(order->method, method + 1, strlen(method + 1));
}

static crt_status_t read_form(crti_actor_call_t *call, const crti_http_request_t *request)
{
    const char *type = request->content_type ? request->content_type : "";

    call->is_raw = strncasecmp(type, "application/octet-stream", 24) == 0;
    call->wants_raw = has_word(request->accept, "application/octet-stream");
    call->wants_text = has_word(request->accept, "text/plain");
    call->order.is_stream = has_word(request->accept, "text/event-stream");
    if (!call->is_raw)
        return CRT_OK;
    snprintf(call->dtype, sizeof(call->dtype), "%s",
             request->dtype ? request->dtype : "");
    snprintf(call->shape, sizeof(call->shape), "%s",
             request->shape ? request->shape : "");
    if (call->shape[0] && !call->dtype[0])
        return crt_raise(CRT_ERR_INVALID, "X-CRT-Shape without X-CRT-Dtype");
    return CRT_OK;
}

static void on_free(crti_order_t *order)
{
    crti_actor_call_t *call = CRTI_CONTAINER(order, crti_actor_call_t, order);

    give_back(call);
    crti_json_args_fini(&call->json);
    crti_buffer_fini(&call->body);
    crti_buffer_fini(&call->text);
    free(call);
}

static crt_status_t read_request(crti_actor_call_t *call,
                                 const crti_http_request_t *request, uint64_t body_size)
{
    uint64_t most =
        call->order.has_token ? CRTI_LIMIT(http_body) : CRTI_LIMIT(http_body_stranger);
    uint64_t timeout_ms;

    if (!read_path(&call->order, request->path))
        return crt_raise(CRT_ERR_INVALID,
                         "the path is /api/actors/NAMESPACE/NAME/METHOD, each of 1 to %d "
                         "bytes",
                         CRTI_CALLER_NAME - 1);
    if (!crti_http_arg_number(request, "timeout_ms", TIMEOUT_MAX,
                              CRTI_LIMIT(http_call_timeout) / CRTI_MS, &timeout_ms) ||
        timeout_ms == 0)
        return crt_raise(CRT_ERR_INVALID, "timeout_ms is a number from 1 to %u",
                         TIMEOUT_MAX);
    if (body_size > most)
        return crt_raise(CRT_ERR_TOO_LARGE, "arguments of %llu bytes; the limit is %llu",
                         (unsigned long long)body_size, (unsigned long long)most);
    call->order.timeout_ms = (int64_t)timeout_ms;
    return read_form(call, request);
}

/* One budget for all strangers: what they have sent lies in memory until they are answered. */
static bool reserve(crti_actor_call_t *call, uint64_t body_size)
{
    crti_http_t *http = call->http;

    if (call->order.has_token)
        return true;
    if (body_size > STRANGERS_MAX - http->stranger_bytes)
        return false;
    call->reserved = body_size;
    http->stranger_bytes += body_size;
    return true;
}

void crti_actor_call_begin(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    crti_actor_call_t *call = calloc(1, sizeof(*call));
    crt_status_t status;

    if (!call) {
        crti_http_exchange_text(x, 503, "out of memory");
        return;
    }
    call->x = x;
    call->http = x->http;
    call->order.has_token = x->access == CRTI_HTTP_OWNER;
    call->order.prepare = prepare;
    call->order.release = release;
    call->order.write = write_text;
    call->order.on_change = on_change;
    call->order.on_free = on_free;
    call->announced = x->body_size;
    x->call = call;
    status = read_request(call, request, x->body_size);
    if (status != CRT_OK)
        fail(call, status, false);
    else if (!reserve(call, x->body_size))
        refuse_later(call, crt_raise(CRT_ERR_BACKPRESSURE,
                                     "too much was sent without a token; try again"));
    else /* whether it is there is known before its arguments are read */
        crti_caller_order(x->http->caller, &call->order);
}

void crti_actor_call_body(crti_http_exchange_t *x)
{
    crti_actor_call_t *call = x->call;

    call->body = x->body;
    x->body = (crti_buffer_t){0};
    call->order.is_large = call->body.size > LARGE;
    crti_http_exchange_wait(x, (uint64_t)call->order.timeout_ms, on_late);
    crti_order_begin(&call->order);
}

void crti_actor_call_free(crti_actor_call_t *call)
{
    if (!call)
        return;
    call->x = NULL;
    if (call->order.caller)
        crti_order_end(&call->order);
    else
        on_free(&call->order);
}
