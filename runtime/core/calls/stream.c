/* SPDX-License-Identifier: Apache-2.0 */
/* Streams at their caller. See stream.h and docs/design/streams.md. */
#include "runtime/core/calls/stream.h"

#include <stdlib.h>

#include "runtime/base/limit.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/values/handles.h"

/* ------------------------------------------------------------------ life of a stream */

crt_status_t crti_call_stream_window(int64_t wanted, uint64_t *window_out)
{
    if (wanted < -1 || wanted > CRTI_STREAM_OUT_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "generator_backpressure_num_objects is %lld: 1 to %d, -1 for as "
                         "many as can be, or 0 for %llu",
                         (long long)wanted, CRTI_STREAM_OUT_MAX,
                         (unsigned long long)CRTI_LIMIT(stream_window));
    *window_out = wanted < 0    ? CRTI_STREAM_OUT_MAX
                  : wanted == 0 ? CRTI_LIMIT(stream_window)
                                : (uint64_t)wanted;
    return CRT_OK;
}

crt_stream_t *crti_call_stream_new(crti_core_t *core)
{
    crt_stream_t *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->core = core;
    stream->holds = 1;
    stream->window = CRTI_LIMIT(stream_window);
    stream->is_ended = true; /* until its call is made */
    if (core && crti_handles_add(&core->calls->streams, stream) != CRT_OK) {
        free(stream);
        return NULL;
    }
    return stream;
}

crt_stream_t *crti_call_stream_unread(crti_core_t *core, uint64_t first)
{
    crt_stream_t *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->core = core;
    stream->window = CRTI_LIMIT(stream_window);
    stream->received = first;
    return stream;
}

crt_stream_t *crti_call_stream_refused(const crt_arg_t *args, size_t count)
{
    crt_ref_t *completed = crti_given_refused(args, count);
    crt_stream_t *stream = crti_call_stream_new(NULL);

    if (!stream) {
        crti_ref_count_orphan(completed, -1);
        return NULL;
    }
    stream->completed = completed;
    crti_old_handle_add(stream);
    return stream;
}

void crti_call_stream_release(crt_stream_t *stream)
{
    if (--stream->holds)
        return;
    free(stream->items);
    free(stream);
}

static crt_ref_t *pop(crt_stream_t *stream)
{
    crt_ref_t *ref;

    if (stream->count == 0)
        return NULL;
    ref = stream->items[stream->first];
    stream->first = (stream->first + 1) & (stream->room - 1);
    stream->count--;
    return ref;
}

static void tell_change(const crt_stream_t *stream)
{
    if (stream->on_change)
        stream->on_change(stream->on_change_user);
}

void crti_call_stream_drop(crt_stream_t *stream)
{
    crt_ref_t *ref;

    stream->is_dropped = true;
    tell_change(stream);
    crti_handles_take(&stream->core->calls->streams, stream);
    while ((ref = pop(stream)))
        crti_ref_release(ref);
    ref = stream->completed;
    stream->completed = NULL;
    if (ref)
        crti_ref_release(ref);
    crti_call_stream_release(stream);
}

void crti_call_streams_orphan(crti_core_t *core)
{
    size_t cursor = 0;
    crt_stream_t *stream;

    while ((stream = crti_numbers_next(&core->calls->streams, &cursor))) {
        stream->core = NULL;
        stream->count = 0; /* its refs are orphans of their own */
        stream->completed = NULL;
        crti_old_handle_add(stream);
    }
}

void crti_call_stream_ended(crt_stream_t *stream)
{
    if (stream->lineage)
        crti_lineage_stream_ended(stream);
    stream->call = NULL;
    stream->is_ended = true;
    tell_change(stream);
    crti_call_stream_release(stream);
}

/* ------------------------------------------------------------------ what may be produced */

static uint64_t taken(const crt_stream_t *stream)
{
    return stream->received - stream->count;
}

void crti_call_stream_begin(crt_stream_t *stream, crti_pending_t *p)
{
    p->stream = stream;
    stream->holds++;
    stream->call = p;
    stream->is_ended = false;
}

/* Numbers for all items that may be produced now and have not arrived. */
crti_stream_start_t crti_call_stream_start(crt_stream_t *stream)
{
    crti_stream_start_t start = {.skip = stream->received};

    stream->limit = taken(stream) + stream->window;
    start.limit = stream->limit;
    start.first = crti_new_numbers(stream->core, stream->limit - stream->received);
    stream->numbers = (crti_item_numbers_t){.used = 0};
    crti_item_numbers_add(&stream->numbers, start.first,
                          stream->limit - stream->received);
    return start;
}

void crti_call_stream_restart(crti_pending_t *p)
{
    crti_stream_start_t start = crti_call_stream_start(p->stream);

    crti_restart_stream(&p->spec.record, &start);
}

/* Its producer may go on: half of what may be out was taken. */
static void allow_more(crt_stream_t *stream)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};
    crti_pending_t *p = stream->call;
    crti_consumed_t more;

    if (!p || stream->limit - taken(stream) > stream->window / 2)
        return;
    if (p->attempt.state != CRTI_ATTEMPT_SENT) {
        if (p->spec.record.size)
            crti_call_stream_restart(p);
        return;
    }
    more.call = p->number;
    more.limit = taken(stream) + stream->window;
    more.first = crti_new_numbers(stream->core, more.limit - stream->limit);
    crti_item_numbers_add(&stream->numbers, more.first, more.limit - stream->limit);
    stream->limit = more.limit;
    if (crti_put_consumed(&record, &more) == CRT_OK)
        crti_remote_send(stream->core, p->remote, &record);
}

crt_ref_t *crti_call_stream_take(crt_stream_t *stream)
{
    crt_ref_t *ref = pop(stream);

    if (ref)
        allow_more(stream);
    return ref;
}

/* ------------------------------------------------------------------ what arrives */

static crt_status_t push(crt_stream_t *stream, crt_ref_t *ref)
{
    size_t room = stream->room ? stream->room * 2 : 16;
    crt_ref_t **items;

    if (stream->count == stream->room) {
        items = malloc(room * sizeof(*items));
        if (!items)
            return crt_raise(CRT_ERR_NO_MEMORY, "%zu items of a stream", room);
        for (size_t i = 0; i < stream->count; i++)
            items[i] = stream->items[(stream->first + i) & (stream->room - 1)];
        free(stream->items);
        stream->items = items;
        stream->room = room;
        stream->first = 0;
    }
    stream->items[(stream->first + stream->count++) & (stream->room - 1)] = ref;
    return CRT_OK;
}

/* Bytes in a store bear the name that was handed out for this item. */
static bool is_sound(const crti_core_t *core, const crti_result_t *result,
                     uint64_t number)
{
    return result->form != CRTI_RESULT_STORED ||
           (crti_id_equal(result->location.object.owner, core->process) &&
            result->location.object.number == number && result->location.node_count == 1);
}

static crt_status_t keep_item(crti_pending_t *p, uint64_t number,
                              const crti_result_t *result)
{
    const crt_stream_t *stream = p->stream;
    crt_ref_t *ref = crti_ref_new_numbered(p->core, number);
    crt_status_t status =
        ref ? push(p->stream, ref) : crt_raise(CRT_ERR_NO_MEMORY, "a ref");

    if (status != CRT_OK) {
        if (ref)
            crti_ref_release(ref);
        return status;
    }
    ref->is_result = true;
    crti_ref_set_result(ref, result, true);
    crti_lineage_keep_item(p, stream->received - 1, ref);
    if (ref->more->forward)
        p->core->on_forwarded(ref, p->spec.function);
    return CRT_OK;
}

crt_status_t crti_call_stream_arrived(crti_pending_t *p, uint64_t index,
                                      const crti_result_t *result)
{
    crt_stream_t *stream = p->stream;
    uint64_t number = crti_item_number(&stream->numbers);
    crt_status_t status = CRT_OK;

    if (index != stream->received || number == 0 || !is_sound(p->core, result, number)) {
        crti_result_late(p->core, result);
        return crt_raise(CRT_ERR_PROTOCOL, "malformed record: item %llu of a stream",
                         (unsigned long long)index);
    }
    crti_item_numbers_step(&stream->numbers);
    stream->received++;
    if (p->lineage) {
        allow_more(stream);
        crti_lineage_item_again(p, index, result);
        return CRT_OK;
    }
    if (!stream->is_dropped && !p->attempt.is_expired)
        status = keep_item(p, number, result);
    else
        crti_result_late(p->core, result);
    if (status == CRT_OK)
        tell_change(stream);
    return status;
}

void crti_call_stream_abandon(const crti_pending_t *p)
{
    const crti_item_numbers_t *numbers = &p->stream->numbers;
    crti_object_id_t object = {.owner = p->core->process};

    for (unsigned i = 0; i < numbers->used; i++)
        for (uint64_t n = 0; n < numbers->range[i].count; n++) {
            object.number = numbers->range[i].first + n;
            crti_object_unstore(p->core, object, &p->remote->address.node, 1);
        }
}
