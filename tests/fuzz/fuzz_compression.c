/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: encoded gradients (actors/compression.c). The first byte says of how many floats
 * they should be. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "crt_compression.h"

#define COUNT_MAX 700

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count = size > 0 ? 1 + (size_t)data[0] * COUNT_MAX / 256 : 1;
    float *values = malloc(count * sizeof(float));
    volatile float read = 0;

    /* All of what was decoded is there to be read. */
    if (size > 0 && crt_compression_decode(data + 1, size - 1, values, count) == CRT_OK)
        for (size_t i = 0; i < count; i++)
            read = values[i];
    free(values);
    (void)read;
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const uint8_t firsts[] = {3, 200, 255};
    size_t count, size;
    float values[COUNT_MAX];
    crt_compressor_t *c;

    if (index >= 18)
        return 0;
    out[0] = firsts[index % 3];
    count = 1 + (size_t)out[0] * COUNT_MAX / 256;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i % 7) * 0.01f - 0.02f;
    if (crt_compressor_new((crt_compression_t)(index / 3), count, 0.1, &c) != CRT_OK)
        abort();
    size = room > crt_compressor_bound(c) ? crt_compressor_encode(c, values, out + 1) : 0;
    crt_compressor_drop(&c);
    return 1 + size;
}
