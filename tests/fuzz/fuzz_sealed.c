/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the records of a connection (net/records.c) from a peer that knows the keys.
 *
 * An input is a list of steps, of four bytes each: what (see `step`), two bytes of a size, one of
 * a detail (odd: in the clear). Records are sealed with the right key and number, so that what lies
 * behind the decryption is reached too; before the first damage everything must come out as it was
 * written, after it nothing. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"
#include "runtime/net/records.h"
#include "runtime/net/seal.h"

#define STEP 4
#define MOST ((size_t)1 << 18) /* bytes of one input's stream */

enum { SEAL, SEAL_DAMAGED, RAW, DELIVER, READ, CHECK, STEPS };

typedef struct bed {
    crti_records_pool_t *pool;
    crti_records_t *records;
    crti_seal_t *seal;
    crti_buffer_t stream; /* what the peer has made */
    size_t delivered;
    size_t said, good; /* bytes in all records; in those before the first damage or end */
    size_t heard;
    bool is_damaged, is_over; /* nothing good can follow; a read has failed */
    int fds[2];
} bed_t;

static uint8_t byte_at(size_t place)
{
    return (uint8_t)(place * 131 >> 3);
}

static void make(bed_t *bed)
{
    static const unsigned char in[CRTI_KEY_SIZE] = {1}, out[CRTI_KEY_SIZE] = {2};

    *bed = (bed_t){0};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bed->fds) ||
        crti_records_pool_new(&bed->pool) != CRT_OK ||
        crti_records_new(bed->pool, bed->fds[0], in, out, true, &bed->records) !=
            CRT_OK ||
        crti_seal_new(in, true, CRTI_SEAL_KEY_BYTES, &bed->seal) != CRT_OK)
        abort();
}

static void end(bed_t *bed)
{
    crti_records_free(bed->records);
    crti_records_pool_free(bed->pool);
    crti_seal_free(bed->seal);
    crti_buffer_fini(&bed->stream);
    close(bed->fds[0]);
    close(bed->fds[1]);
}

static void append(bed_t *bed, const uint8_t *data, size_t size)
{
    if (crti_buffer_append(&bed->stream, data, size) != CRT_OK)
        abort();
}

static void seal(bed_t *bed, size_t size, bool is_clear)
{
    uint8_t header[CRTI_SEAL_HEADER] = {(uint8_t)size, (uint8_t)(size >> 8),
                                        (uint8_t)(size >> 16), is_clear ? 0x80 : 0};
    CRTI_AUTO(free) uint8_t *text = malloc(2 * size + CRTI_SEAL_TAG);

    if (text == NULL)
        abort();
    for (size_t i = 0; i < size; i++)
        text[i] = byte_at(bed->said + i);
    if (is_clear)
        memcpy(text + size, text, size);
    if ((is_clear
             ? crti_seal_sign(bed->seal, header, text, size, text + 2 * size)
             : crti_seal_encrypt(bed->seal, header, text, size, text + size)) != CRT_OK)
        abort();
    append(bed, header, sizeof(header));
    append(bed, text + size, size + CRTI_SEAL_TAG);
    bed->said += size;
    bed->is_damaged |= size == 0 || size > ((size_t)32 << 10);
    if (!bed->is_damaged)
        bed->good = bed->said;
}

/* The record is one that the reader must refuse. */
static void seal_damaged(bed_t *bed, size_t size, uint8_t detail)
{
    size_t from = bed->stream.size, length;

    bed->is_damaged = true;
    seal(bed, size, detail & 1);
    length = bed->stream.size - from;
    ((uint8_t *)bed->stream.data)[from + (size + detail) % length] ^=
        (uint8_t)(1u << detail % 8);
}

/* Bytes without any seal; the detail's repeated. */
static void say_raw(bed_t *bed, size_t size, uint8_t detail)
{
    uint8_t bytes[64];

    size %= sizeof(bytes);
    memset(bytes, detail, sizeof(bytes));
    bed->is_damaged |= size > 0;
    append(bed, bytes, size);
}

static void deliver(bed_t *bed, size_t size)
{
    size_t left = bed->stream.size - bed->delivered;
    ssize_t n;

    if (left == 0)
        return;
    n = send(bed->fds[1], (uint8_t *)bed->stream.data + bed->delivered,
             size < left ? size : left, MSG_NOSIGNAL);
    bed->delivered += n > 0 ? (size_t)n : 0;
}

/* As the stream does it: no read after one that failed. */
static crt_status_t hear(bed_t *bed, size_t size)
{
    CRTI_AUTO(free) uint8_t *to = malloc(size);
    crt_status_t status;
    size_t done = 0;

    if (to == NULL)
        abort();
    if (bed->is_over)
        return CRT_ERR_CLOSED;
    status = crti_records_read(bed->records, to, size, &done);
    bed->is_over = status < 0;
    if (status != CRT_OK)
        return status;
    if (done == 0 || done > size || bed->heard + done > bed->good)
        abort(); /* more than was said, or out of a record that was damaged */
    for (size_t i = 0; i < done; i++)
        if (to[i] != byte_at(bed->heard + i))
            abort();
    bed->heard += done;
    return status;
}

static void step(bed_t *bed, const uint8_t *data)
{
    size_t size = data[1] | (size_t)data[2] << 8;

    switch (data[0] % STEPS) {
    case SEAL: seal(bed, size, data[3] & 1); break;
    case SEAL_DAMAGED: seal_damaged(bed, size, data[3]); break;
    case RAW: say_raw(bed, size, data[3]); break;
    case DELIVER: deliver(bed, size + 1); break;
    case READ: hear(bed, size + 1); break;
    case CHECK:
        if (crti_records_is_drained(bed->records) &&
            crti_records_unread(bed->records) > (32u << 10) + 20)
            abort(); /* a whole record would never be looked at */
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bed_t bed;

    make(&bed);
    for (; size >= STEP && bed.stream.size < MOST; data += STEP, size -= STEP)
        step(&bed, data);
    while (bed.delivered < bed.stream.size && !bed.is_over) {
        deliver(&bed, MOST);
        while (hear(&bed, 5000) == CRT_OK)
            ;
    }
    shutdown(bed.fds[1], SHUT_WR);
    while (hear(&bed, 5000) == CRT_OK)
        ;
    if (!bed.is_damaged && bed.heard != bed.good)
        abort(); /* something was lost */
    end(&bed);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const uint8_t talks[][6 * STEP] = {
        {SEAL, 100, 0, 0, SEAL, 0, 128, 1, DELIVER, 50, 0, 0, READ, 9, 0, 0, SEAL, 1},
        {SEAL, 16,    39, 0, DELIVER, 255,  255, 0,   READ, 255,  0,
         0,    CHECK, 0,  0, 0,       READ, 255, 255, 0,    SEAL, 0},
        {SEAL,         0, 4, 0, DELIVER, 0, 1, 0, READ,    0,  1, 0,
         SEAL_DAMAGED, 3, 0, 7, SEAL,    5, 0, 0, DELIVER, 255},
        {SEAL, 2, 0,   0, SEAL, 0, 128, 1, SEAL, 0, 128, 0,
         SEAL, 0, 128, 1, SEAL, 0, 128, 1, SEAL, 0, 128},
        {SEAL, 2,    0,   0, RAW, 8,    0, 1,   DELIVER, 40,   0,
         0,    READ, 100, 0, 0,   SEAL, 1, 128, 0,       READ, 1},
    };

    if (index >= sizeof(talks) / sizeof(talks[0]) || room < sizeof(talks[0]))
        return 0;
    memcpy(out, talks[index], sizeof(talks[0]));
    return sizeof(talks[0]);
}
