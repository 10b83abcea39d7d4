/* SPDX-License-Identifier: Apache-2.0 */
/* Images: files and drawings of image sets, as crt_images.h gives them out. */
#ifndef CRTI_ML_IMAGES_H
#define CRTI_ML_IMAGES_H

#include <crt_images.h>

/* Many images of one format under construction: malloc'ed. */
typedef struct crti_images {
    size_t count;
    uint8_t *pixels, *labels;
} crti_images_t;

/* Adds the records of a file's bytes, of `label_bytes` labels each of which the last one counts.
 * Bytes are untrusted. `name` is for the error text; nothing is added on failure. */
crt_status_t crti_images_format(crt_image_format_t *mine,
                                const crt_image_format_t *given);

crt_status_t crti_images_decode(const crt_image_format_t *format, size_t label_bytes,
                                const char *name, const unsigned char *bytes, size_t size,
                                crti_images_t *images);

/* `count` coloured images that look different from class to class. Image i of a seed is the same
 * whatever the count. Caller owns the result and frees it with crt_dataset_drop. */
crt_status_t crti_images_draw(const crt_image_format_t *format, size_t count,
                              uint64_t seed, crt_dataset_t **set_out);

#endif
