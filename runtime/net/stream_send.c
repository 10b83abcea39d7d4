/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of streams: messages gather in segments, payloads go from where they lie.
 *
 * Where it sits
 *     crti_stream_send* -> [ stream_send.c ] -> tls.c -> socket; stream.c says when to write
 * Invariants
 *     Segments leave in the order in which they were queued, several in one call. A segment is
 *     freed, and its on_sent called, exactly once.
 * Threads: the loop's.
 */
#include <stdlib.h>

#include "runtime/base/limit.h"
#include "runtime/net/stream_int.h"

#define SEGMENT_SIZE ((size_t)64 << 10) /* messages gathered in one segment */
#define SPARE_BYTES  ((size_t)4 << 10)  /* kept while idle: the head has thousands */
#define PIECES       16                 /* segments that leave in one call */

/* A run of bytes to send: gathered messages, or one payload. */
typedef struct crti_stream_segment {
    crti_list_t link;
    crti_buffer_t bytes;       /* messages */
    const unsigned char *data; /* or a payload, the caller's */
    size_t size, at;
    bool is_bulk;
    crti_stream_sent_t *on_sent;
    void *user;
} segment_t;

static void segment_free(crti_stream_t *s, segment_t *segment, crt_status_t status)
{
    crti_list_remove(&segment->link);
    s->pieces--;
    if (segment->on_sent)
        segment->on_sent(segment->user, status);
    if (s->spare == NULL && segment->data == NULL &&
        segment->bytes.capacity <= SPARE_BYTES) {
        segment->bytes.size = 0;
        segment->at = segment->size = 0;
        s->spare = segment;
        return;
    }
    crti_buffer_fini(&segment->bytes);
    free(segment);
}

void crti_stream_drop_queued(crti_stream_t *s, crt_status_t status)
{
    while (!crti_list_is_empty(&s->out))
        segment_free(s, CRTI_CONTAINER(s->out.next, segment_t, link), status);
    s->queued = s->queued_control = 0;
}

void crti_stream_free_spare(crti_stream_t *s)
{
    if (s->spare) {
        crti_buffer_fini(&s->spare->bytes);
        free(s->spare);
    }
}

void crti_stream_kick(crti_stream_t *s)
{
    /* Deadline 0: the end of this turn, so that what one turn makes leaves together. */
    if (!crti_timer_is_started(&s->kick))
        crti_loop_start(s->loop, &s->kick, 0);
}

/* The segment to which messages are appended. */
static segment_t *tail(crti_stream_t *s)
{
    segment_t *segment;

    if (!crti_list_is_empty(&s->out)) {
        segment = CRTI_CONTAINER(s->out.prev, segment_t, link);
        if (segment->data == NULL && segment->bytes.size < SEGMENT_SIZE)
            return segment;
    }
    segment = s->spare ? s->spare : calloc(1, sizeof(*segment));
    s->spare = NULL;
    if (segment == NULL) {
        crt_raise(CRT_ERR_NO_MEMORY, "stream segment");
        return NULL;
    }
    crti_list_append(&s->out, &segment->link);
    s->pieces++;
    return segment;
}

static crt_status_t check_sendable(const crti_stream_t *s)
{
    if (s->state > CRTI_STREAM_OPEN)
        return crt_raise(CRT_ERR_CLOSED, "stream to %s is closed", s->address);
    if (s->queued_control > CRTI_LIMIT(link_queue))
        return crt_raise(CRT_ERR_BACKPRESSURE, "%s does not read: %zu bytes wait",
                         s->address, s->queued_control);
    return CRT_OK;
}

static crt_status_t open_frame(crti_stream_t *s, segment_t **segment_out,
                               size_t *start_out)
{
    static const unsigned char header[CRTI_STREAM_HEADER];
    crt_status_t status = check_sendable(s);
    segment_t *segment = status == CRT_OK ? tail(s) : NULL;

    if (segment == NULL)
        return status == CRT_OK ? CRT_ERR_NO_MEMORY : status;
    *segment_out = segment;
    *start_out = segment->bytes.size;
    status = crti_buffer_append(&segment->bytes, header, sizeof(header));
    if (status != CRT_OK && segment->bytes.size == 0)
        segment_free(s, segment, CRT_OK);
    return status;
}

/* Writes the length in front of the frame behind `start`; `status` is how its making went. The
 * last `payload` bytes are not part of it. */
static crt_status_t close_frame(crti_stream_t *s, segment_t *segment, size_t start,
                                size_t payload, crt_status_t status)
{
    size_t added = segment->bytes.size - start,
           size = added - CRTI_STREAM_HEADER - payload;

    if (status == CRT_OK && size > CRTI_MESSAGE_MAX)
        status = crt_raise(CRT_ERR_TOO_LARGE, "message of %zu bytes, at most %u fit",
                           size, CRTI_MESSAGE_MAX);
    if (status != CRT_OK) {
        segment->bytes.size = start;
        if (start == 0)
            segment_free(s, segment, CRT_OK);
        return status;
    }
    for (int i = 0; i < CRTI_STREAM_HEADER; i++)
        segment->bytes.data[start + (size_t)i] = (unsigned char)(size >> 8 * i);
    segment->size = segment->bytes.size;
    s->queued += added;
    s->queued_control += added;
    s->has_filled = true;
    crti_stream_kick(s);
    return CRT_OK;
}

crt_status_t crti_stream_send(crti_stream_t *stream, crti_message_kind_t kind,
                              uint64_t request, const void *body)
{
    return crti_stream_send_copy(stream, kind, request, body, NULL, 0);
}

crt_status_t crti_stream_send_copy(crti_stream_t *stream, crti_message_kind_t kind,
                                   uint64_t request, const void *body, const void *data,
                                   size_t size)
{
    segment_t *segment;
    size_t start;
    crt_status_t status = open_frame(stream, &segment, &start);

    if (status != CRT_OK)
        return status;
    status = crti_message_encode(kind, request, body, &segment->bytes);
    if (status == CRT_OK && size)
        status = crti_buffer_append(&segment->bytes, data, size);
    return close_frame(stream, segment, start, status == CRT_OK ? size : 0, status);
}

crt_status_t crti_stream_send_bytes(crti_stream_t *stream, const void *data, size_t size)
{
    segment_t *segment;
    size_t start;
    crt_status_t status = open_frame(stream, &segment, &start);

    if (status != CRT_OK)
        return status;
    status = crti_buffer_append(&segment->bytes, data, size);
    return close_frame(stream, segment, start, 0, status);
}

crt_status_t crti_stream_send_error(crti_stream_t *stream, uint64_t request,
                                    crt_status_t status)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(crt_error_detail())};

    return crti_stream_send(stream, CRTI_MSG_ERROR, request, &error);
}

uint64_t crti_stream_payload_of(crti_message_kind_t kind, const void *body)
{
    switch (kind) {
    case CRTI_MSG_OBJECT_DATA: return ((const crti_msg_object_data_t *)body)->length;
    case CRTI_MSG_PROGRAM_DATA: return ((const crti_msg_program_data_t *)body)->length;
    case CRTI_MSG_GROUP_DATA: return ((const crti_msg_group_data_t *)body)->length;
    case CRTI_MSG_GROUP_OFFER: return ((const crti_msg_group_offer_t *)body)->length;
    default: return 0;
    }
}

crt_status_t crti_stream_send_payload(crti_stream_t *stream, crti_message_kind_t kind,
                                      uint64_t request, const void *body,
                                      const void *data, crti_stream_sent_t *on_sent,
                                      void *user)
{
    size_t size = crti_stream_payload_of(kind, body);
    segment_t *segment = calloc(1, sizeof(*segment));
    crt_status_t status;

    if (segment == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "stream segment");
    status = crti_stream_send(stream, kind, request, body);
    if (status != CRT_OK) {
        free(segment);
        return status;
    }
    *segment = (segment_t){.data = data ? data : (const unsigned char *)"",
                           .size = size,
                           .is_bulk = kind != CRTI_MSG_PROGRAM_DATA,
                           .on_sent = on_sent,
                           .user = user};
    crti_list_append(&stream->out, &segment->link);
    stream->pieces++;
    stream->queued += size;
    return CRT_OK;
}

/* The next bytes to send, of several segments, so that they leave in one call. */
static int gather(const crti_stream_t *s, size_t budget, crti_piece_t *pieces)
{
    int count = 0;

    CRTI_LIST_FOREACH (item, &s->out) {
        const segment_t *segment = CRTI_CONTAINER(item, segment_t, link);
        const unsigned char *data = segment->data ? segment->data : segment->bytes.data;
        size_t left = segment->size - segment->at;

        if (count == PIECES || budget == 0)
            break;
        if (left)
            pieces[count++] = (crti_piece_t){
                .data = data + segment->at, .size = left, .is_bulk = segment->is_bulk};
        budget -= left < budget ? left : budget;
    }
    return count;
}

/* `done` more bytes were taken. */
static void taken(crti_stream_t *s, size_t done)
{
    while (!crti_list_is_empty(&s->out)) {
        segment_t *segment = CRTI_CONTAINER(s->out.next, segment_t, link);
        size_t left = segment->size - segment->at, now = left < done ? left : done;

        segment->at += now;
        done -= now;
        s->queued -= now;
        if (segment->data == NULL)
            s->queued_control -= now;
        if (segment->at < segment->size)
            return;
        segment_free(s, segment, CRT_OK);
        if (s->freed)
            return;
    }
}

crt_status_t crti_stream_flush(crti_stream_t *s)
{
    crti_piece_t pieces[PIECES];
    size_t budget = CRTI_STREAM_TURN, done;
    crt_status_t status = crti_tls_flush(s->tls);

    while (status == CRT_OK && !crti_list_is_empty(&s->out) && budget) {
        int count = gather(s, budget, pieces);

        done = 0;
        if (count)
            status = crti_tls_writev(s->tls, pieces, count, &done);
        if (status != CRT_OK)
            break;
        budget -= done < budget ? done : budget;
        taken(s, done);
        if (s->freed || crti_tls_wants_write(s->tls))
            break;
    }
    return status == CRT_IN_PROGRESS ? CRT_OK : status;
}
