/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the reader of weights files (ml/weights.c). Each input is read as it is
 * and once more with its checksum made right, so that mutations reach what lies behind
 * the check. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "ml/weights.h"

#include <zlib.h>

static crt_model_t *small_model(void)
{
    static const int widths[] = {3, 4, 2, 0};
    static crt_model_t *model;

    if (!model && crt_mlp_new(widths, 0, 1, &model) != CRT_OK)
        abort();
    return model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t checksum;
    uint8_t *mended;

    crti_weights_decode(small_model(), "input", data, size);
    if (size < 4 || !(mended = malloc(size)))
        return 0;
    memcpy(mended, data, size);
    checksum = (uint32_t)crc32(0, mended, (uInt)(size - 4));
    memcpy(mended + size - 4, &checksum, sizeof(checksum));
    crti_weights_decode(small_model(), "input", mended, size);
    free(mended);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    unsigned char *data;
    size_t size;

    if (index > 0 || crti_weights_encode(small_model(), &data, &size) != CRT_OK)
        return 0;
    if (size > room)
        abort();
    memcpy(out, data, size);
    free(data);
    return size;
}
