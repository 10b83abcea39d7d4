/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the IDX reader (ml/idx.c), plain and gzip. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "ml/idx.h"

#include <zlib.h>

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0,
                                 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 5, 1, 2, 3, 4, 5};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crti_idx_t idx;

    if (crti_idx_decode("input", data, size, &idx) == CRT_OK)
        free(idx.data);
    return 0;
}

static size_t pack(const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)data,
                  .avail_in = (uInt)size,
                  .next_out = out,
                  .avail_out = (uInt)room};

    if (deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return room - z.avail_out;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    switch (index) {
    case 0: memcpy(out, images, sizeof(images)); return sizeof(images);
    case 1: memcpy(out, labels, sizeof(labels)); return sizeof(labels);
    case 2: return pack(images, sizeof(images), out, room);
    case 3: return pack(labels, sizeof(labels), out, room);
    default: return 0;
    }
}
