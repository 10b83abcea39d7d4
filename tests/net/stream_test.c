/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of streams share. See stream_test.h. */
#include "stream_test.h"

#include <stdio.h>

const crti_key_t world_key = {{1, 2, 3}}, world_other_key = {{3, 2, 1}};

static void on_open(void *user, crti_stream_t *stream)
{
    ((end_t *)user)->opened++;
}

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *message)
{
    end_t *end = user;

    end->messages++;
    end->in_order = end->messages == 1 || message->request == end->last_request + 1;
    end->last_request = message->request;
    if (message->kind == CRTI_MSG_KV_VALUE)
        end->last_size = message->kv_value.value.size;
    if (message->kind == CRTI_MSG_OBJECT_DATA && end->buffer)
        crti_stream_receive(stream, end->buffer);
    if (message->kind == CRTI_MSG_GROUP_DATA && end->take_group_data)
        crti_stream_receive(stream, end->buffer);
    if (message->kind == CRTI_MSG_OBJECT_DATA && end->discard)
        crti_stream_discard(stream);
    if (end->hold)
        crti_stream_hold(stream);
    if (end->free_in_message) {
        crti_stream_free(stream);
        end->stream = NULL;
    }
}

static void on_payload(void *user, crti_stream_t *stream, void *buffer, size_t size)
{
    end_t *end = user;

    assert_ptr_equal(buffer, end->buffer);
    end->payloads++;
    end->last_size = size;
    if (end->free_in_payload) {
        crti_stream_free(stream);
        end->stream = NULL;
    }
}

static void on_drained(void *user, crti_stream_t *stream)
{
    assert_int_equal(crti_stream_queued(stream), 0);
    ((end_t *)user)->drained++;
}

static void on_closed(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text)
{
    end_t *end = user;

    assert_int_equal(end->closed, 0);
    end->closed++;
    end->status = status;
    snprintf(end->text, sizeof(end->text), "%s", text);
    if (end->free_in_closed) {
        crti_stream_free(stream);
        end->stream = NULL;
    }
}

crti_stream_handlers_t end_handlers(end_t *end)
{
    return (crti_stream_handlers_t){.user = end,
                                    .on_open = on_open,
                                    .on_message = on_message,
                                    .on_payload = on_payload,
                                    .on_drained = on_drained,
                                    .on_closed = on_closed};
}

void world_accept(void *user, crti_stream_t *stream)
{
    world_t *w = user;
    crti_stream_handlers_t handlers = end_handlers(&w->server);

    assert_null(w->server.stream);
    w->server.stream = stream;
    w->server.opened++;
    crti_stream_set_handlers(stream, &handlers);
}

void world_listen(world_t *w)
{
    assert_int_equal(crti_stream_listen(w->loop, w->context, "127.0.0.1", 0, world_accept,
                                        w, &w->listener),
                     CRT_OK);
    snprintf(w->address, sizeof(w->address), "127.0.0.1:%u",
             crti_stream_listener_port(w->listener));
}

void world_start(world_t *w, bool encrypt)
{
    *w = (world_t){0};
    assert_int_equal(crti_loop_new(&w->loop), CRT_OK);
    assert_int_equal(crti_stream_context_new(&world_key, encrypt, &w->context), CRT_OK);
    world_listen(w);
}

void world_stop(world_t *w)
{
    crti_stream_free(w->client.stream);
    crti_stream_free(w->server.stream);
    crti_stream_listener_free(w->listener);
    crti_stream_context_free(w->context);
    crti_loop_free(w->loop);
}

void world_connect(world_t *w, crti_stream_context_t *context, uint64_t timeout_ms)
{
    crti_stream_handlers_t handlers = end_handlers(&w->client);

    assert_int_equal(crti_stream_connect(w->loop, context, w->address, timeout_ms,
                                         &handlers, &w->client.stream),
                     CRT_OK);
}

void world_join(world_t *w)
{
    world_connect(w, w->context, 5000);
    UNTIL(w, w->client.opened && w->server.opened);
}
