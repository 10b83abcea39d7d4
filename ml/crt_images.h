/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of images and what training programs do with them: MNIST, CIFAR-10, CIFAR-100 and SVHN from
 * files or drawn, random crops and flips, normalisation, and batches that a thread makes ahead.
 *
 *     format = crt_image_format("cifar10");
 *     crt_images_open(format, "data/cifar10", CRT_SPLIT_TRAIN, 0, &set)
 *         -> crt_dataset_new_shard -> crt_image_batches_new -> crt_image_batches_next -> a model
 *
 * Images lie with channels last, as the layers of crt_ml.h read them. Batch number n of a seed is always the
 * same, whatever came before: a training that goes on at step n (crt_image_batches_seek) sees what it would
 * have seen.
 */
#ifndef CRT_IMAGES_H
#define CRT_IMAGES_H

#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CRT_IMAGE_CHANNELS_MAX 3

/* What the images of a set look like, and how they are prepared for a model. */
typedef struct crt_image_format {
    const char *name;
    int height, width, channels, classes;
    /* (x / 255 - mean) / deviation, for each channel. */
    float mean[CRT_IMAGE_CHANNELS_MAX], deviation[CRT_IMAGE_CHANNELS_MAX];
    /* While training: a part of the old size is cut from the image with that many pixels more on each
     * side, mirrored ones or black ones, and half of the images are turned left to right. */
    int padding;
    bool mirrors, flips;
} crt_image_format_t;

/* "mnist", "cifar10", "cifar100" or "svhn"; NULL when there is no such set. Static. */
CRT_API const crt_image_format_t *crt_image_format(const char *name);

/* One half of a set, at most `limit` images of it (0: all). `source` is "builtin" or a folder.
 * "builtin" draws images of this format and as many classes, 60,000 or 10,000 for MNIST, else
 * 10,000 or 2,000, or `limit`. A folder holds, each plain or with .gz:
 *
 *     mnist           the four IDX files of crt_dataset_open
 *     cifar10, svhn   data_batch_1.bin to data_batch_5.bin, or train.bin, and test_batch.bin or test.bin:
 *                     records of a label and 3,072 bytes, red, green, blue
 *     cifar100        train.bin and test.bin: records of two labels, of which the second counts, and 3,072 bytes
 *
 * CRT_ERR_NOT_FOUND when a file is missing; CRT_ERR_UNSUPPORTED: the Python or Matlab version of
 * CIFAR; CRT_ERR_CORRUPT when one is cut short, damaged, of images of another size, or has a
 * label that is no class. Caller owns the result and frees it with crt_dataset_free. */
CRT_API crt_status_t crt_images_open(const crt_image_format_t *format, const char *source,
                                     crt_split_t split, size_t limit,
                                     crt_dataset_t **set_out);

/* ---------------------------------------------------------------- batches */

/* Numbered batches of prepared images. */
typedef struct crt_image_batches crt_image_batches_t;

typedef struct crt_image_batches_options {
    size_t struct_size;
    int batch; /* images of each; the last one of a pass may have fewer */
    uint64_t seed;
    bool training;   /* in random order, cropped and flipped; else in order and whole */
    int ahead;       /* batches that a thread makes ahead, at most 64; 0: no thread */
    uint64_t stride; /* from one number to the next, where several take turns; 0: 1 */
} crt_image_batches_options_t;
#define CRT_IMAGE_BATCHES_OPTIONS(...)                                                   \
    CRTI_CONSTANT(crt_image_batches_options_t,                                           \
                  .struct_size = sizeof(crt_image_batches_options_t), __VA_ARGS__)

/* Batches of `set`, uint8 images of `format`; both must outlive them. CRT_ERR_INVALID when the images are of
 * another size or have more classes. Used by one thread at a time.
 * Caller owns the result and frees it with crt_image_batches_free. */
CRT_API crt_status_t crt_image_batches_new(const crt_image_format_t *format,
                                           const crt_dataset_t *set,
                                           const crt_image_batches_options_t *options,
                                           crt_image_batches_t **batches_out);

/* The next batch, and its number goes up by the stride. Borrowed: valid until the next call for these batches. */
CRT_API const crt_batch_t *crt_image_batches_next(crt_image_batches_t *batches);

/* The next batch will be number `number`, counted from 0. */
CRT_API void crt_image_batches_seek(crt_image_batches_t *batches, uint64_t number);

/* Number of the next batch, and how many batches there are in a pass over the set. */
CRT_API uint64_t crt_image_batches_number(const crt_image_batches_t *batches);
CRT_API uint64_t crt_image_batches_per_pass(const crt_image_batches_t *batches);

/* Ends the thread and frees batches; NULL is fine. */
CRT_API void crt_image_batches_free(crt_image_batches_t *batches);

#ifdef __cplusplus
}
#endif

#endif
