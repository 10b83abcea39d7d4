/* SPDX-License-Identifier: Apache-2.0 */
/* Records between processes. See record.h. */
#include "runtime/core/values/record_int.h"

#define CALL_NAME_AT (CRTI_CALL_NUMBER_AT + 8) /* behind the number of a CALL */

/* ------------------------------------------------------------------ shared parts */

crti_id_t crti_location_node(const crti_location_t *location, uint32_t index)
{
    crti_reader_t r = crti_reader((const char *)location->nodes + (size_t)index * 16, 16);

    return crti_read_id(&r);
}

uint64_t crti_number_at(const void *numbers, uint32_t index)
{
    uint64_t number;

    memcpy(&number, (const char *)numbers + (size_t)index * 8, sizeof(number));
    return number;
}

static size_t location_size(const crti_location_t *location)
{
    return 24 + 8 + 4 + (size_t)location->node_count * 16;
}

static unsigned char *put_location(unsigned char *to, const crti_location_t *location)
{
    to = crti_put_u64(crti_put_id(to, location->object.owner), location->object.number);
    to = crti_put_u32(crti_put_u64(to, location->size), location->node_count);
    return crti_put_bytes(to, location->nodes, (size_t)location->node_count * 16);
}

static crti_location_t read_location(crti_reader_t *r)
{
    crti_location_t location;

    location.object.owner = crti_read_id(r);
    location.object.number = crti_read_u64(r);
    location.size = crti_read_u64(r);
    location.node_count = crti_read_u32(r);
    location.nodes = crti_read_bytes(r, (size_t)location.node_count * 16);
    return location;
}

static size_t ref_size(const crti_ref_name_t *ref)
{
    return 24 + 8 + 16 + 2 + ref->tcp.size;
}

static unsigned char *put_ref(unsigned char *to, const crti_ref_name_t *ref)
{
    to = crti_put_u64(crti_put_id(to, ref->id.owner), ref->id.number);
    to = crti_put_id(crti_put_u64(to, ref->incarnation), ref->node);
    return crti_put_text(to, ref->tcp);
}

static crti_ref_name_t read_ref(crti_reader_t *r)
{
    crti_ref_name_t ref;

    ref.id.owner = crti_read_id(r);
    ref.id.number = crti_read_u64(r);
    ref.incarnation = crti_read_u64(r);
    ref.node = crti_read_id(r);
    ref.tcp = crti_read_text(r);
    if (ref.id.number == 0)
        r->bad = true;
    return ref;
}

/* Zeros up to the next multiple of 64 from the start of the record. */
static size_t padding(size_t offset)
{
    return -offset & (CRTI_VALUE_ALIGN - 1);
}

/* u32 size, zeros when it is aligned, and room for the value, which the caller fills. */
static crt_status_t put_value_room(crti_buffer_t *out, size_t start, uint8_t form,
                                   size_t size, bool is_aligned, unsigned char **room_out)
{
    size_t pad = is_aligned ? padding(out->size + 5 - start) : 0;
    crt_status_t status;
    unsigned char *to;

    if (size > UINT32_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "a value of %zu bytes in one record", size);
    status = crti_buffer_reserve(out, 5 + pad + size);
    if (status != CRT_OK)
        return status;
    to = crti_put_u32(crti_put_u8(tail(out), form), (uint32_t)size);
    memset(to, 0, pad);
    *room_out = to + pad;
    end_at(out, to + pad + size);
    return CRT_OK;
}

static crti_span_t read_value(crti_reader_t *r, const void *start, bool is_aligned)
{
    size_t size = crti_read_u32(r);
    const void *data;

    if (is_aligned)
        crti_read_bytes(r, padding((size_t)(r->at - (const unsigned char *)start)));
    data = crti_read_bytes(r, size);
    if (!data || size < 2)
        r->bad = true;
    return data ? crti_span(data, size) : crti_span("", 0);
}

/* ------------------------------------------------------------------ calls */

static unsigned char *put_start(unsigned char *to, const crti_stream_start_t *start)
{
    to = crti_put_u64(crti_put_u64(to, start->skip), start->limit);
    return crti_put_u64(to, start->first);
}

/* Names are numbers of 48 bits. */
static void check_names(crti_reader_t *r, uint64_t count, uint64_t first)
{
    if (first == 0 || first >> CRTI_NUMBER_BITS || count > CRTI_STREAM_OUT_MAX ||
        (first + count) >> CRTI_NUMBER_BITS)
        r->bad = true;
}

static crti_stream_start_t read_start(crti_reader_t *r)
{
    crti_stream_start_t start = {.skip = crti_read_u64(r)};

    start.limit = crti_read_u64(r);
    start.first = crti_read_u64(r);
    if (start.skip > start.limit)
        r->bad = true;
    check_names(r, start.limit - start.skip, start.first);
    return start;
}

crt_status_t crti_put_call(crti_buffer_t *out, const crti_call_head_t *head)
{
    crt_status_t status = crti_buffer_reserve(out, 20 + 24 + 21 + 8 + head->name.size +
                                                       head->given_name.size);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u8(tail(out), head->seed ? CRTI_RECORD_SEEDED_CALL : CRTI_RECORD_CALL);
    to = crti_put_u8(to, (uint8_t)head->flags);
    to = crti_put_u16(to, (uint16_t)head->index);
    to = crti_put_u16(to, (uint16_t)head->arg_count);
    to = crti_put_text(crti_put_u64(to, head->call), head->name);
    if (head->flags & CRTI_CALL_RETURNS)
        to = crti_put_u16(to, head->is_stream ? 0 : (uint16_t)head->returns);
    if (head->is_stream)
        to = put_start(to, &head->stream);
    if (CRTI_CALL_IS_PLACED(head->flags)) {
        to = crti_put_id(to, head->placement.group);
        to = crti_put_u32(to, (uint32_t)head->placement.bundle);
        to = crti_put_u8(to, head->placement.captures_children);
    }
    if (head->flags & CRTI_CALL_NAMED)
        to = crti_put_text(to, head->given_name);
    if (head->seed)
        to = crti_put_u64(to, head->seed);
    end_at(out, to);
    return CRT_OK;
}

void crti_restart_stream(crti_buffer_t *record, const crti_stream_start_t *start)
{
    crti_reader_t r =
        crti_reader(record->data + CALL_NAME_AT, record->size - CALL_NAME_AT);

    crti_read_text(&r);
    crti_read_u16(&r); /* the number of results */
    put_start(record->data + (r.at - record->data), start);
}

crt_status_t crti_put_arg_value(crti_buffer_t *out, size_t start,
                                const crti_encoder_t *value)
{
    bool is_aligned = crti_encoder_has_data(value);
    unsigned char *room;
    crt_status_t status =
        put_value_room(out, start, is_aligned ? CRTI_ARG_DATA : CRTI_ARG_VALUE,
                       crti_encoder_size(value), is_aligned, &room);

    if (status == CRT_OK)
        crti_encoder_write(value, room);
    return status;
}

crt_status_t crti_put_arg_bytes(crti_buffer_t *out, size_t start, crti_span_t value)
{
    bool is_aligned = crti_value_has_data(value.data, value.size);
    unsigned char *room;
    crt_status_t status =
        put_value_room(out, start, is_aligned ? CRTI_ARG_DATA : CRTI_ARG_VALUE,
                       value.size, is_aligned, &room);

    if (status == CRT_OK)
        memcpy(room, value.data, value.size);
    return status;
}

crt_status_t crti_put_arg_object(crti_buffer_t *out, const crti_ref_name_t *ref,
                                 const crti_location_t *location)
{
    crt_status_t status =
        crti_buffer_reserve(out, 1 + ref_size(ref) + location_size(location));
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = put_ref(crti_put_u8(tail(out), CRTI_ARG_OBJECT), ref);
    end_at(out, put_location(to, location));
    return CRT_OK;
}

crt_status_t crti_put_arg_ref(crti_buffer_t *out, const crti_ref_name_t *ref)
{
    crt_status_t status = crti_buffer_reserve(out, 1 + ref_size(ref));

    if (status == CRT_OK)
        end_at(out, put_ref(crti_put_u8(tail(out), CRTI_ARG_REF), ref));
    return status;
}

crt_status_t crti_get_call(const void *data, size_t size, crti_call_head_t *head,
                           crti_reader_t *args)
{
    bool is_seeded;

    *args = crti_reader(data, size);
    is_seeded = crti_read_u8(args) == CRTI_RECORD_SEEDED_CALL;
    head->flags = crti_read_u8(args);
    head->index = crti_read_u16(args);
    head->arg_count = crti_read_u16(args);
    head->call = crti_read_u64(args);
    head->name = crti_read_text(args);
    head->returns = head->flags & CRTI_CALL_RETURNS ? crti_read_u16(args) : 1;
    head->is_stream = head->returns == 0;
    if (head->is_stream) {
        head->stream = read_start(args);
        head->returns = 1;
        args->bad |= head->call >> CRTI_NUMBER_BITS != 0;
    }
    head->placement = (crti_placement_t){.bundle = -1};
    if (CRTI_CALL_IS_PLACED(head->flags)) {
        head->placement.group = crti_read_id(args);
        head->placement.bundle = (int32_t)crti_read_u32(args);
        head->placement.captures_children = crti_read_u8(args) != 0;
    }
    head->given_name =
        head->flags & CRTI_CALL_NAMED ? crti_read_text(args) : crti_span("", 0);
    head->seed = is_seeded ? crti_read_u64(args) : 0;
    /* Every argument has at least its form and a byte. */
    if (args->bad || head->arg_count > crti_reader_left(args))
        return malformed("a call that is cut off");
    return CRT_OK;
}

crt_status_t crti_get_arg(crti_reader_t *args, const void *start, crti_call_arg_t *arg)
{
    *arg = (crti_call_arg_t){.form = (crti_arg_form_t)crti_read_u8(args)};
    switch (arg->form) {
    case CRTI_ARG_VALUE:
    case CRTI_ARG_DATA:
        arg->value = read_value(args, start, arg->form == CRTI_ARG_DATA);
        break;
    case CRTI_ARG_OBJECT:
        arg->ref = read_ref(args);
        arg->location = read_location(args);
        break;
    case CRTI_ARG_REF: arg->ref = read_ref(args); break;
    default: return malformed("an argument of no form");
    }
    return args->bad ? malformed("an argument that is cut off") : CRT_OK;
}

/* ------------------------------------------------------------------ results */

static size_t failure_size(const crti_failure_t *f)
{
    return 4 + 1 + 6 + f->text.size + f->class_name.size + f->method.size + 32 + 8;
}

static unsigned char *put_failure(unsigned char *to, const crti_failure_t *f)
{
    to = crti_put_u8(crti_put_u32(to, (uint32_t)f->status), f->may_have_run);
    to = crti_put_text(crti_put_text(crti_put_text(to, f->text), f->class_name),
                       f->method);
    to = crti_put_id(crti_put_id(to, f->actor), f->node);
    return crti_put_u64(to, (uint64_t)f->pid);
}

static crti_failure_t read_failure(crti_reader_t *r)
{
    crti_failure_t f;

    f.status = (crt_status_t)(int32_t)crti_read_u32(r);
    f.may_have_run = crti_read_u8(r) != 0;
    f.text = crti_read_text(r);
    f.class_name = crti_read_text(r);
    f.method = crti_read_text(r);
    f.actor = crti_read_id(r);
    f.node = crti_read_id(r);
    f.pid = (int64_t)crti_read_u64(r);
    if (f.status >= 0)
        r->bad = true;
    return f;
}

static crt_status_t put_value(crti_buffer_t *out, size_t start,
                              const crti_result_t *result, const crti_encoder_t *encoded)
{
    size_t size = encoded ? crti_encoder_size(encoded) : result->value.size;
    bool is_aligned = encoded ? crti_encoder_has_data(encoded)
                              : crti_value_has_data(result->value.data, size);
    unsigned char *room;
    crt_status_t status =
        put_value_room(out, start, is_aligned ? CRTI_RESULT_DATA : CRTI_RESULT_VALUE,
                       size, is_aligned, &room);

    if (status != CRT_OK)
        return status;
    if (encoded)
        crti_encoder_write(encoded, room);
    else
        memcpy(room, result->value.data, size);
    return CRT_OK;
}

static size_t result_size(const crti_result_t *result)
{
    switch (result->form) {
    case CRTI_RESULT_STORED:
        return 5 + location_size(&result->location) + result->table.size;
    case CRTI_RESULT_ERROR: return 1 + failure_size(&result->failure);
    case CRTI_RESULT_FORWARD: return 1 + ref_size(&result->ref);
    default: return 1;
    }
}

/* What a result is, behind the head of a record that began at `start`. The room for all but a value
 * is there. */
static crt_status_t put_result(crti_buffer_t *out, size_t start, unsigned char *to,
                               const crti_result_t *result, const crti_encoder_t *encoded)
{
    if (result->form <= CRTI_RESULT_DATA) {
        end_at(out, to);
        return put_value(out, start, result, encoded);
    }
    to = crti_put_u8(to, (uint8_t)result->form);
    if (result->form == CRTI_RESULT_STORED)
        to = crti_put_blob(put_location(to, &result->location), result->table);
    else if (result->form == CRTI_RESULT_ERROR)
        to = put_failure(to, &result->failure);
    else if (result->form == CRTI_RESULT_FORWARD)
        to = put_ref(to, &result->ref);
    end_at(out, to);
    return CRT_OK;
}

crt_status_t crti_put_result(crti_buffer_t *out, crti_record_kind_t kind, uint64_t number,
                             const crti_result_t *result, const crti_encoder_t *encoded)
{
    size_t start = out->size;
    crt_status_t status = crti_buffer_reserve(out, 9 + result_size(result));

    if (status != CRT_OK)
        return status;
    return put_result(out, start,
                      crti_put_u64(crti_put_u8(tail(out), (uint8_t)kind), number), result,
                      encoded);
}

static crt_status_t read_result(crti_reader_t *r, const void *start,
                                crti_result_t *result)
{
    *result = (crti_result_t){.form = (crti_result_form_t)crti_read_u8(r)};
    switch (result->form) {
    case CRTI_RESULT_VALUE:
    case CRTI_RESULT_DATA:
        result->value = read_value(r, start, result->form == CRTI_RESULT_DATA);
        break;
    case CRTI_RESULT_STORED:
        result->location = read_location(r);
        result->table = crti_read_blob(r);
        break;
    case CRTI_RESULT_ERROR: result->failure = read_failure(r); break;
    case CRTI_RESULT_FORWARD: result->ref = read_ref(r); break;
    case CRTI_RESULT_NOT_STARTED: break;
    default: return malformed("a result of no form");
    }
    if (r->bad || r->at != r->end)
        return malformed("a result whose parts do not fit");
    return CRT_OK;
}

crt_status_t crti_get_result(const void *data, size_t size, uint64_t *number_out,
                             crti_result_t *result)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    *number_out = crti_read_u64(&r);
    return read_result(&r, data, result);
}

/* ------------------------------------------------------------------ streams */

crt_status_t crti_put_item(crti_buffer_t *out, uint64_t call, uint64_t index,
                           const crti_result_t *result)
{
    size_t start = out->size;
    crt_status_t status = crti_buffer_reserve(out, 17 + result_size(result));
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u64(crti_put_u8(tail(out), CRTI_RECORD_ITEM), call);
    return put_result(out, start, crti_put_u64(to, index), result, NULL);
}

crt_status_t crti_get_item(const void *data, size_t size, uint64_t *call_out,
                           uint64_t *index_out, crti_result_t *result)
{
    crti_reader_t r = crti_reader(data, size);
    crt_status_t status;

    crti_read_u8(&r);
    *call_out = crti_read_u64(&r);
    *index_out = crti_read_u64(&r);
    status = read_result(&r, data, result);
    if (status != CRT_OK)
        return status;
    return result->form == CRTI_RESULT_ERROR || result->form == CRTI_RESULT_NOT_STARTED ||
                   *call_out >> CRTI_NUMBER_BITS
               ? malformed("an item of a stream")
               : CRT_OK;
}

crt_status_t crti_put_consumed(crti_buffer_t *out, const crti_consumed_t *consumed)
{
    crt_status_t status = crti_buffer_reserve(out, 25);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u64(crti_put_u8(tail(out), CRTI_RECORD_CONSUMED), consumed->call);
    end_at(out, crti_put_u64(crti_put_u64(to, consumed->limit), consumed->first));
    return CRT_OK;
}

crt_status_t crti_get_consumed(const void *data, size_t size, crti_consumed_t *consumed)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    consumed->call = crti_read_u64(&r);
    consumed->limit = crti_read_u64(&r);
    consumed->first = crti_read_u64(&r);
    check_names(&r, 0, consumed->first);
    return r.bad || r.at != r.end ? malformed("items that were taken") : CRT_OK;
}

/* ------------------------------------------------------------------ references */

crt_status_t crti_put_locate(crti_buffer_t *out, uint64_t missed, uint64_t number)
{
    crt_status_t status = crti_buffer_reserve(out, 17);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u64(crti_put_u8(tail(out), CRTI_RECORD_LOCATE), missed);
    end_at(out, crti_put_u64(to, number));
    return CRT_OK;
}

crt_status_t crti_get_locate(const void *data, size_t size, uint64_t *missed_out,
                             uint64_t *number_out)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    *missed_out = crti_read_u64(&r);
    *number_out = crti_read_u64(&r);
    return r.bad || r.at != r.end ? malformed("a question for an object") : CRT_OK;
}

crt_status_t crti_put_peek(crti_buffer_t *out, const uint64_t *numbers, uint32_t count)
{
    crt_status_t status = crti_buffer_reserve(out, 5 + (size_t)count * 8);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u32(crti_put_u8(tail(out), CRTI_RECORD_PEEK), count);
    end_at(out, crti_put_bytes(to, numbers, (size_t)count * 8));
    return CRT_OK;
}

crt_status_t crti_get_peek(const void *data, size_t size, const void **numbers_out,
                           uint32_t *count_out)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    *count_out = crti_read_u32(&r);
    *numbers_out = crti_read_bytes(&r, (size_t)*count_out * 8);
    return r.bad || r.at != r.end ? malformed("a question for objects") : CRT_OK;
}

crt_status_t crti_begin_peeked(crti_buffer_t *out)
{
    return crti_buffer_append(out, &(uint8_t){CRTI_RECORD_PEEKED}, 1);
}

/* Behind its size. */
crt_status_t crti_put_peeked(crti_buffer_t *out, uint64_t number,
                             const crti_result_t *result)
{
    size_t at = out->size;
    uint32_t size = 0;
    crt_status_t status = crti_buffer_append(out, &size, sizeof(size));

    if (status == CRT_OK)
        status = crti_put_result(out, CRTI_RECORD_LOCATED, number, result, NULL);
    if (status != CRT_OK) {
        out->size = at;
        return status;
    }
    size = (uint32_t)(out->size - at - sizeof(size));
    memcpy(out->data + at, &size, sizeof(size));
    return CRT_OK;
}

/* In front of the value of an object that is one: size 32 of what follows | kind | number 64 |
 * form | size 32 */
#define PEEKED_HEAD 18u

crt_status_t crti_put_peeked_flat(crti_buffer_t *out, uint64_t number, const void *value,
                                  size_t size)
{
    crt_status_t status = crti_buffer_reserve(out, PEEKED_HEAD + size);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u32(tail(out), (uint32_t)(PEEKED_HEAD - sizeof(uint32_t) + size));
    to = crti_put_u64(crti_put_u8(to, CRTI_RECORD_LOCATED), number);
    to = crti_put_u32(crti_put_u8(to, CRTI_RESULT_VALUE), (uint32_t)size);
    end_at(out, crti_put_bytes(to, value, size));
    return CRT_OK;
}

crti_reader_t crti_read_peeked(const void *data, size_t size)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    return r;
}

/* Most are values: for them nothing else of the result is set, which is long. False: it is
 * something else, or damaged. */
static bool get_peeked_value(crti_span_t located, uint64_t *number_out,
                             crti_result_t *result)
{
    const unsigned char *at = located.data;
    size_t head = PEEKED_HEAD - sizeof(uint32_t);
    uint32_t size;

    if (located.size < head + 2 || at[9] != CRTI_RESULT_VALUE)
        return false;
    memcpy(number_out, at + 1, sizeof(*number_out));
    memcpy(&size, at + 10, sizeof(size));
    result->form = CRTI_RESULT_VALUE;
    result->value = crti_span(at + head, size);
    return size == located.size - head;
}

crt_status_t crti_next_peeked(crti_reader_t *peeked, bool *is_there_out,
                              uint64_t *number_out, crti_result_t *result_out)
{
    crti_span_t located;

    *is_there_out = crti_reader_left(peeked) > 0;
    if (!*is_there_out)
        return CRT_OK;
    located = crti_read_blob(peeked);
    if (peeked->bad)
        return malformed("an answer about objects that is cut off");
    return get_peeked_value(located, number_out, result_out)
               ? CRT_OK
               : crti_get_result(located.data, located.size, number_out, result_out);
}

#define BORROW_HEAD   53 /* bytes before the numbers, */
#define RELEASE_HEAD  13 /* and before the releases; the count is the last part of both */
#define RELEASE_BYTES 16
#define REQUEST_AT    1 /* where the number of a request is, in all of them */

crt_status_t crti_put_borrow(crti_buffer_t *out, crti_record_kind_t kind,
                             const crti_borrow_record_t *record)
{
    crt_status_t status =
        crti_buffer_reserve(out, BORROW_HEAD + (size_t)record->count * 8);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u64(crti_put_u8(tail(out), (uint8_t)kind), record->request);
    to = crti_put_u64(crti_put_id(to, record->process), record->incarnation);
    to = crti_put_u32(crti_put_id(to, record->node), record->count);
    end_at(out, crti_put_bytes(to, record->numbers, (size_t)record->count * 8));
    return CRT_OK;
}

/* Questions for copies name all that a death made missing. */
static bool is_bounded(unsigned kind)
{
    return kind != CRTI_RECORD_COPY_QUERY && kind != CRTI_RECORD_COPY_REPLY;
}

crt_status_t crti_get_borrow(const void *data, size_t size, crti_borrow_record_t *record)
{
    crti_reader_t r = crti_reader(data, size);
    unsigned kind = crti_read_u8(&r);

    record->request = crti_read_u64(&r);
    record->process = crti_read_id(&r);
    record->incarnation = crti_read_u64(&r);
    record->node = crti_read_id(&r);
    record->count = crti_read_u32(&r);
    record->numbers = crti_read_bytes(&r, (size_t)record->count * 8);
    if (r.bad || r.at != r.end)
        return malformed("a list of refs");
    return is_bounded(kind) && record->count > CRTI_REFS_OF_RECORD
               ? malformed("more refs than one record may name")
               : CRT_OK;
}

crt_status_t crti_add_borrow(crti_buffer_t *record, uint64_t number)
{
    crt_status_t status = crti_buffer_reserve(record, 8);

    if (status == CRT_OK)
        end_at(record, crti_put_u64(tail(record), number));
    return status;
}

crt_status_t crti_put_release(crti_buffer_t *out, uint64_t request,
                              const crti_release_t *releases, uint32_t count)
{
    crt_status_t status =
        crti_buffer_reserve(out, RELEASE_HEAD + (size_t)count * RELEASE_BYTES);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u64(crti_put_u8(tail(out), CRTI_RECORD_RELEASE), request);
    to = crti_put_u32(to, count);
    for (uint32_t i = 0; i < count; i++)
        to = crti_put_u64(crti_put_u64(to, releases[i].number), releases[i].tokens);
    end_at(out, to);
    return CRT_OK;
}

crt_status_t crti_get_release(const void *data, size_t size,
                              crti_release_record_t *record)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    record->request = crti_read_u64(&r);
    record->count = crti_read_u32(&r);
    record->releases = crti_read_bytes(&r, (size_t)record->count * RELEASE_BYTES);
    return r.bad || r.at != r.end || record->count > CRTI_REFS_OF_RECORD
               ? malformed("a release")
               : CRT_OK;
}

crti_release_t crti_release_at(const crti_release_record_t *record, uint32_t index)
{
    const char *at = (const char *)record->releases + (size_t)index * RELEASE_BYTES;

    return (crti_release_t){crti_number_at(at, 0), crti_number_at(at, 1)};
}

crt_status_t crti_add_release(crti_buffer_t *record, uint64_t number, uint64_t tokens)
{
    crt_status_t status = crti_buffer_reserve(record, RELEASE_BYTES);

    if (status == CRT_OK)
        end_at(record, crti_put_u64(crti_put_u64(tail(record), number), tokens));
    return status;
}

uint32_t crti_owner_request_refs(const crti_buffer_t *record)
{
    return crti_record_kind(record->data, record->size) == CRTI_RECORD_RELEASE
               ? (uint32_t)((record->size - RELEASE_HEAD) / RELEASE_BYTES)
               : (uint32_t)((record->size - BORROW_HEAD) / 8);
}

void crti_seal_owner_request(crti_buffer_t *record, uint64_t request)
{
    bool is_release = crti_record_kind(record->data, record->size) == CRTI_RECORD_RELEASE;

    crti_put_u64(record->data + REQUEST_AT, request);
    crti_put_u32(record->data + (is_release ? RELEASE_HEAD : BORROW_HEAD) - 4,
                 crti_owner_request_refs(record));
}

crt_status_t crti_put_copy(crti_buffer_t *out, uint64_t number, uint64_t object,
                           crti_id_t node)
{
    crt_status_t status = crti_buffer_reserve(out, 33);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u64(crti_put_u8(tail(out), CRTI_RECORD_COPY), number);
    end_at(out, crti_put_id(crti_put_u64(to, object), node));
    return CRT_OK;
}

crt_status_t crti_get_copy(const void *data, size_t size, uint64_t *number_out,
                           uint64_t *object_out, crti_id_t *node_out)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    *number_out = crti_read_u64(&r);
    *object_out = crti_read_u64(&r);
    *node_out = crti_read_id(&r);
    return r.bad || r.at != r.end ? malformed("a copy of an object") : CRT_OK;
}

crt_status_t crti_put_give_back(crti_buffer_t *out)
{
    return crti_buffer_append(out, &(unsigned char){CRTI_RECORD_GIVE_BACK}, 1);
}

crt_status_t crti_put_retiring(crti_buffer_t *out)
{
    return crti_buffer_append(out, &(unsigned char){CRTI_RECORD_RETIRING}, 1);
}

crt_status_t crti_put_cancel(crti_buffer_t *out, uint64_t call, unsigned flags)
{
    crt_status_t status = crti_buffer_reserve(out, 10);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = crti_put_u8(crti_put_u8(tail(out), CRTI_RECORD_CANCEL), (uint8_t)flags);
    end_at(out, crti_put_u64(to, call));
    return CRT_OK;
}

crt_status_t crti_get_cancel(const void *data, size_t size, uint64_t *call_out,
                             unsigned *flags_out)
{
    crti_reader_t r = crti_reader(data, size);

    crti_read_u8(&r);
    *flags_out = crti_read_u8(&r);
    *call_out = crti_read_u64(&r);
    return r.bad || r.at != r.end ||
                   *flags_out > (CRTI_CANCEL_FORCE | CRTI_CANCEL_RECURSIVE)
               ? malformed("a cancellation")
               : CRT_OK;
}
