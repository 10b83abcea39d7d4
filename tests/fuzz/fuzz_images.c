/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the records of CIFAR and SVHN (ml/images.c). The first byte says with how many
 * labels. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "ml/images.h"

#define PLANES 3072

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crti_images_t images = {0};
    size_t labels = size > 0 && data[0] % 2 ? 2 : 1;
    const crt_image_format_t *format =
        crt_image_format(labels == 2 ? "cifar100" : "cifar10");

    if (size == 0)
        return 0;
    if (crti_images_decode(format, labels, "input", data + 1, size - 1, &images) ==
        CRT_OK)
        for (size_t i = 0; i < images.count; i++)
            if (images.labels[i] >= format->classes)
                abort();
    free(images.pixels);
    free(images.labels);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    size_t labels = index + 1, size = 1 + labels + PLANES;

    if (index > 1 || size > room)
        return 0;
    memset(out, 7, size);
    out[0] = (uint8_t)index;
    return size;
}
