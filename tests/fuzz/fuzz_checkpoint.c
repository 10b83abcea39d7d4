/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the reader of checkpoints (ml/checkpoint.c). Each input is read as it is and once
 * more with its checksum made right, so that mutations reach what lies behind the check. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "ml/checkpoint.h"

#include <zlib.h>

static crt_model_t *model;
static crt_optimizer_t *adam;

static void make(void)
{
    static const int widths[] = {3, 4, 2, 0};

    if (!model && (crt_mlp_new(widths, 0, 1, &model) != CRT_OK ||
                   crt_adam_new(model, 0.1, &adam) != CRT_OK))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crt_checkpoint_t checkpoint;
    uint32_t checksum;
    uint8_t *mended;

    make();
    crti_checkpoint_decode("input", data, size, "mlp", model, adam, &checkpoint);
    if (size < 4 || !(mended = malloc(size)))
        return 0;
    memcpy(mended, data, size);
    checksum = (uint32_t)crc32(0, mended, (uInt)(size - 4));
    memcpy(mended + size - 4, &checksum, sizeof(checksum));
    crti_checkpoint_decode("input", mended, size, "mlp", model, adam, &checkpoint);
    free(mended);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    crt_checkpoint_t checkpoint = CRT_CHECKPOINT(.network = "mlp", .step = 5);
    unsigned char *data;
    size_t size;

    make();
    if (index > 0 ||
        crti_checkpoint_encode(&checkpoint, model, adam, &data, &size) != CRT_OK)
        return 0;
    if (size > room)
        abort();
    memcpy(out, data, size);
    free(data);
    return size;
}
