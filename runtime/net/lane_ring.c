/* SPDX-License-Identifier: Apache-2.0 */
/* Ring: see lane_ring.h. Hot path: one copy in, one copy out, no system call. */
#include "runtime/net/lane_ring.h"

#include <string.h>

#define MASK       (CRTI_RING_BYTES - 1)
#define KEEP_FRAME ((size_t)64 << 10) /* a larger buffer is given back after its frame */

_Static_assert((CRTI_RING_BYTES & MASK) == 0, "a power of two");

/* ---------------------------------------------------------------- writing */

void crti_ring_writer_init(crti_ring_writer_t *w, crti_ring_control_t *control,
                           unsigned char *bytes, uint64_t start)
{
    *w = (crti_ring_writer_t){
        .control = control, .bytes = bytes, .written = start, .read = start};
}

/* Room by what the reader says now. A counter that makes no sense gives no room, for ever. */
static size_t look_for_room(crti_ring_writer_t *w)
{
    uint64_t read = __atomic_load_n(&w->control->read, __ATOMIC_SEQ_CST);

    if (read < w->read || read > w->written)
        w->is_broken = true;
    else
        w->read = read;
    return w->is_broken ? 0 : CRTI_RING_BYTES - (size_t)(w->written - w->read);
}

static size_t room_for(crti_ring_writer_t *w, size_t size)
{
    size_t room = CRTI_RING_BYTES - (size_t)(w->written - w->read);

    return room >= size && !w->is_broken ? room : look_for_room(w);
}

bool crti_ring_has_room(crti_ring_writer_t *w, size_t size)
{
    return room_for(w, size) >= size;
}

static void copy_in(crti_ring_writer_t *w, const void *data, size_t size)
{
    size_t at = w->written & MASK, first = CRTI_RING_BYTES - at;

    if (first > size)
        first = size;
    memcpy(w->bytes + at, data, first);
    if (first < size)
        memcpy(w->bytes, (const unsigned char *)data + first, size - first);
    w->written += size;
}

size_t crti_ring_put(crti_ring_writer_t *w, const void *data, size_t size, size_t done)
{
    size_t room = room_for(w, CRTI_RING_LENGTH + size - done), part;
    uint32_t length = (uint32_t)size;

    if (done == 0) {
        if (room < sizeof(length))
            return 0;
        copy_in(w, &length, sizeof(length));
        room -= sizeof(length);
        done = sizeof(length);
    }
    part = CRTI_RING_LENGTH + size - done;
    if (part > room)
        part = room;
    copy_in(w, (const unsigned char *)data + (done - CRTI_RING_LENGTH), part);
    return done + part;
}

bool crti_ring_publish(crti_ring_writer_t *w)
{
    crti_ring_control_t *c = w->control;

    /* In one order with crti_ring_sleep, which stores and loads the other way round. */
    __atomic_store_n(&c->written, w->written, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&c->reader_sleeps, __ATOMIC_SEQ_CST) != 0 &&
           __atomic_exchange_n(&c->reader_sleeps, 0, __ATOMIC_SEQ_CST) != 0;
}

bool crti_ring_is_empty(crti_ring_writer_t *w)
{
    return look_for_room(w) == CRTI_RING_BYTES;
}

bool crti_ring_await_room(crti_ring_writer_t *w)
{
    /* In one order with crti_ring_is_awaited. */
    __atomic_store_n(&w->control->writer_waits, 1, __ATOMIC_SEQ_CST);
    if (look_for_room(w) < CRTI_RING_BYTES / 4)
        return true;
    __atomic_store_n(&w->control->writer_waits, 0, __ATOMIC_RELAXED);
    return false;
}

/* ---------------------------------------------------------------- reading */

void crti_ring_reader_init(crti_ring_reader_t *r, crti_ring_control_t *control,
                           const unsigned char *bytes, uint64_t start, size_t frame_max)
{
    *r = (crti_ring_reader_t){.control = control,
                              .bytes = bytes,
                              .read = start,
                              .frame_max = frame_max,
                              .looked_at = start};
}

void crti_ring_reader_fini(crti_ring_reader_t *r)
{
    crti_buffer_fini(&r->frame);
}

static void copy_out(crti_ring_reader_t *r, void *out, size_t size)
{
    size_t at = r->read & MASK, first = CRTI_RING_BYTES - at;

    if (first > size)
        first = size;
    memcpy(out, r->bytes + at, first);
    if (first < size)
        memcpy((unsigned char *)out + first, r->bytes, size - first);
    r->read += size;
}

/* The length is read once: the writer could change it under our hands. */
static crt_status_t begin_frame(crti_ring_reader_t *r)
{
    uint32_t length;
    crt_status_t status;

    copy_out(r, &length, sizeof(length));
    if (length == 0 || length > r->frame_max)
        return crt_raise(CRT_ERR_PROTOCOL, "malformed lane: a frame of %u bytes", length);
    if (r->frame.capacity > KEEP_FRAME)
        crti_buffer_fini(&r->frame);
    r->frame.size = 0;
    status = crti_buffer_reserve(&r->frame, length);
    if (status != CRT_OK) {
        r->read -= sizeof(length);
        return status;
    }
    r->length = length;
    return CRT_OK;
}

crt_status_t crti_ring_take(crti_ring_reader_t *r)
{
    uint64_t written = __atomic_load_n(&r->control->written, __ATOMIC_ACQUIRE);
    uint64_t there = written - r->read;
    size_t part;
    crt_status_t status;

    if (there > CRTI_RING_BYTES)
        return crt_raise(CRT_ERR_PROTOCOL, "malformed lane: %llu bytes in a ring of %zu",
                         (unsigned long long)there, CRTI_RING_BYTES);
    if (r->length == 0) {
        if (there == 0)
            return CRT_IN_PROGRESS;
        if (there < CRTI_RING_LENGTH) /* an honest writer shows a length as a whole */
            return crt_raise(CRT_ERR_PROTOCOL, "malformed lane: half a length");
        status = begin_frame(r);
        if (status != CRT_OK)
            return status;
        there -= CRTI_RING_LENGTH;
    }
    part = r->length - r->frame.size;
    if (part > there)
        part = (size_t)there;
    copy_out(r, r->frame.data + r->frame.size, part);
    r->frame.size += part;
    __atomic_store_n(&r->control->read, r->read, __ATOMIC_RELEASE);
    if (r->frame.size < r->length)
        return CRT_IN_PROGRESS;
    r->length = 0;
    return CRT_OK;
}

/* A look costs a fence, and most frames are short. A writer that waits has three quarters of the
 * ring between `written` and a `read` which is not older than our last look, as that did not see it
 * wait: before we find the ring empty we look again. */
bool crti_ring_is_awaited(crti_ring_reader_t *r)
{
    crti_ring_control_t *c = r->control;

    if (r->read - r->looked_at < CRTI_RING_BYTES / 4)
        return false;
    r->looked_at = r->read;
    /* In one order with crti_ring_await_room: what was told of by single takes, once more. */
    __atomic_store_n(&c->read, r->read, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&c->writer_waits, __ATOMIC_SEQ_CST) != 0 &&
           __atomic_exchange_n(&c->writer_waits, 0, __ATOMIC_SEQ_CST) != 0;
}

crti_progress_word_t crti_ring_input_word(const crti_ring_reader_t *r)
{
    return (crti_progress_word_t){.word = &r->control->written,
                                  .seen = r->read,
                                  .input = r->bytes + (r->read & MASK)};
}

bool crti_ring_sleep(crti_ring_reader_t *r)
{
    /* In one order with crti_ring_publish. */
    __atomic_store_n(&r->control->reader_sleeps, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&r->control->written, __ATOMIC_SEQ_CST) == r->read)
        return true;
    crti_ring_awake(r);
    return false;
}

void crti_ring_awake(crti_ring_reader_t *r)
{
    __atomic_store_n(&r->control->reader_sleeps, 0, __ATOMIC_RELAXED);
}
