/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the ring of a lane (net/lane_ring.c), written by a process that has gone mad: the
 * first 8 bytes are its counter, the next 8 what it does to it later, the rest is in the ring. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/net/lane_ring.h"

#define FRAME_MAX 100000

/* Reads all bytes of each frame, so that AddressSanitizer sees one that is not all there. */
static void take_all(crti_ring_reader_t *r)
{
    volatile unsigned char sum = 0;
    crt_status_t status = CRT_OK;

    for (int i = 0; i < 1000 && status == CRT_OK; i++) {
        status = crti_ring_take(r);
        if (status != CRT_OK)
            break;
        if (r->frame.size == 0 || r->frame.size > FRAME_MAX)
            abort();
        for (size_t k = 0; k < r->frame.size; k++)
            sum ^= r->frame.data[k];
    }
    (void)sum;
}

/* The mad process reads as well: what it says it has read must not make us write too much. */
static void put_some(crti_ring_control_t *control, unsigned char *bytes, uint64_t read)
{
    static const unsigned char data[5000];
    crti_ring_writer_t w;

    crti_ring_writer_init(&w, control, bytes, 0);
    for (size_t i = 0, done = 0; i < 60; i++) {
        done = crti_ring_put(&w, data, sizeof(data), done);
        crti_ring_publish(&w);
        if (done == CRTI_RING_LENGTH + sizeof(data))
            done = 0;
        control->read = read * i;
        if (w.written - w.read > CRTI_RING_BYTES)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crti_ring_control_t *control = aligned_alloc(64, sizeof(*control));
    unsigned char *bytes = calloc(1, CRTI_RING_BYTES);
    crti_ring_reader_t reader;
    uint64_t words[2] = {0};

    memset(control, 0, sizeof(*control));
    memcpy(words, data, size < sizeof(words) ? size : sizeof(words));
    if (size > sizeof(words))
        memcpy(bytes, data + sizeof(words),
               size - sizeof(words) < CRTI_RING_BYTES ? size - sizeof(words)
                                                      : CRTI_RING_BYTES);
    crti_ring_reader_init(&reader, control, bytes, 0, FRAME_MAX);
    control->written = words[0];
    take_all(&reader);
    control->written = words[0] + words[1];
    take_all(&reader);
    crti_ring_reader_fini(&reader);
    memset(control, 0, sizeof(*control));
    put_some(control, bytes, words[1]);
    free(bytes);
    free(control);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    uint64_t words[2] = {9 + 2004, index * 100};
    uint32_t lengths[2] = {5, 2000};

    if (index >= 4)
        return 0;
    memset(out, 0, 16 + 9 + 2004);
    memcpy(out, words, sizeof(words));
    memcpy(out + 16, &lengths[0], 4);
    memcpy(out + 16 + 9, &lengths[1], 4);
    return 16 + 9 + 2004;
}
