/* SPDX-License-Identifier: Apache-2.0 */
/* Ring: frames from one process to another through shared memory, one direction.
 *
 * Where it sits
 *     lane -> [ ring writer ] -> shared memory -> [ ring reader ] -> lane of the other process
 * Layout
 *     A control block, and CRTI_RING_BYTES that are a stream: u32 length, that many bytes, next
 *     frame. `written` and `read` count bytes from where both began, and never wrap. A frame may be
 *     longer than the ring: it goes in pieces, as the reader makes room.
 * Threads
 *     One writer and one reader, each under its own process's lock. Between them only the words
 *     of the control block, all atomic.
 * Waking
 *     Each side says in the control block when it is going to sleep, looks once more, and
 *     sleeps; the other side looks there after it moved its counter. One of the two sees the
 *     other: all four accesses are sequentially consistent. A doorbell may come late, when the
 *     frame was found without it; a side that is rung in vain must set its sleep mark again.
 * Trust
 *     The other process may be stopped, dead or malicious at any point. Its counter is checked
 *     against ours at each read. A frame is copied out before it is parsed. Our own state is
 *     never read back from shared memory.
 */
#ifndef CRTI_NET_LANE_RING_H
#define CRTI_NET_LANE_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/buffer.h"
#include "runtime/net/spin.h"

#define CRTI_RING_BYTES                                                                  \
    ((size_t)128 << 10)    /* a power of two; pages are used when written */
#define CRTI_RING_LENGTH 4 /* bytes before each frame */

/* In shared memory. Each word is written by the side in whose line it is. */
typedef struct crti_ring_control {
    _Alignas(64) uint64_t written; /* writer's */
    _Alignas(64) uint64_t read;    /* reader's */
    _Alignas(64) uint32_t
        reader_sleeps;     /* set by the reader, taken by the writer that rings */
    uint32_t writer_waits; /* set by the writer, taken by the reader that rings */
} crti_ring_control_t;

typedef struct crti_ring_writer {
    crti_ring_control_t *control;
    unsigned char *bytes;
    uint64_t written; /* put into the ring; published by crti_ring_publish */
    uint64_t read;    /* what the reader had read when we looked last */
    bool is_broken;   /* the reader's counter made no sense */
} crti_ring_writer_t;

typedef struct crti_ring_reader {
    crti_ring_control_t *control;
    const unsigned char *bytes;
    uint64_t read;
    size_t frame_max;
    crti_buffer_t frame; /* as far as it has arrived */
    size_t length;       /* of the frame that arrives; 0: its length did not arrive yet */
    uint64_t looked_at;  /* `read` when we looked last whether the writer waits */
} crti_ring_reader_t;

/* A control block of zeroes but for `written` and `read`, which are `start`, is an empty ring whose
 * reader does not sleep. */
void crti_ring_writer_init(crti_ring_writer_t *w, crti_ring_control_t *control,
                           unsigned char *bytes, uint64_t start);
void crti_ring_reader_init(crti_ring_reader_t *r, crti_ring_control_t *control,
                           const unsigned char *bytes, uint64_t start, size_t frame_max);
void crti_ring_reader_fini(crti_ring_reader_t *r);

/* ---------------------------------------------------------------- writing */

/* Whether so many bytes fit now. */
bool crti_ring_has_room(crti_ring_writer_t *w, size_t size);

/* Puts what fits of a frame that begins (`done` 0) or goes on (`done` bytes of it, its length
 * included, are in the ring) and returns the new `done`: CRTI_RING_LENGTH + size when all of it
 * is in. Nothing is seen by the reader before crti_ring_publish. */
size_t crti_ring_put(crti_ring_writer_t *w, const void *data, size_t size, size_t done);

/* Shows the reader what was put. True: it sleeps, and has to be rung. */
bool crti_ring_publish(crti_ring_writer_t *w);

/* Whether the reader has taken all that was published. */
bool crti_ring_is_empty(crti_ring_writer_t *w);

/* Marks that the writer waits for room, a quarter of the ring. False: there is room. */
bool crti_ring_await_room(crti_ring_writer_t *w);

/* ---------------------------------------------------------------- reading */

/* CRT_OK: a whole frame is in `r->frame`, valid until the next call. CRT_IN_PROGRESS: none yet.
 * CRT_ERR_PROTOCOL: the writer's counter or the frame's length makes no sense.
 * CRT_ERR_NO_MEMORY: the frame stays in the ring. */
crt_status_t crti_ring_take(crti_ring_reader_t *r);

/* After some takes: true when the writer waits for room and has to be rung. */
bool crti_ring_is_awaited(crti_ring_reader_t *r);

/* The word that changes with the next frame, or piece of one. */
crti_progress_word_t crti_ring_input_word(const crti_ring_reader_t *r);

/* Says that the reader is going to sleep. False: there is input, it stays awake. */
bool crti_ring_sleep(crti_ring_reader_t *r);

/* The reader polls from now on: the writer needs not ring. */
void crti_ring_awake(crti_ring_reader_t *r);

#endif
