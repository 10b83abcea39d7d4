/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of images for training programs: MNIST, CIFAR-10, CIFAR-100 and SVHN from files or drawn,
 * random crops and flips, normalisation, and batches that a thread makes ahead.
 *
 *     format = crt_image_format("cifar10");
 *     crt_images_open(format, "data/cifar10", CRT_SPLIT_TRAIN, 0, &set)
 *         -> crt_dataset_new_shard -> crt_image_batches_new -> crt_image_batches_next -> a model
 *
 * Images have channels last, as the layers of crt_ml.h read them. Batch number n of a seed does
 * not depend on earlier calls: a training that continues at step n (crt_image_batches_seek) reads
 * the same batches as a training that was not interrupted.
 */
#ifndef CRT_IMAGES_H
#define CRT_IMAGES_H

#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CRT_IMAGE_CHANNELS_MAX 3

/* The form of the images of a set, and how they are prepared for a model. Made with
 * CRT_IMAGE_FORMAT: CRT_IMAGE_FORMAT(.name = "faces", .height = 64, .width = 64, .channels = 1,
 * .classes = 2, .mean[0] = 0.5f, .deviation[0] = 0.25f). */
typedef struct crt_image_format {
    /* Set by CRT_IMAGE_FORMAT. */
    size_t struct_size;
    const char *name;
    int height, width, channels, classes;
    /* Numbers of a model are (x / 255 - mean) / deviation, for each channel. A deviation of 0
     * stands for 1. */
    float mean[CRT_IMAGE_CHANNELS_MAX], deviation[CRT_IMAGE_CHANNELS_MAX];
    /* Training: the image gets that many pixels more on each side, and a part of the old size
     * is cut out at random. */
    int padding;
    /* During training: with `mirrors` the padding repeats the image mirrored, without it the
     * padding is black. With `flips` half of the images are turned left to right. */
    bool mirrors, flips;
} crt_image_format_t;
#define CRT_IMAGE_FORMAT(...)                                                            \
    CRTI_VALUE(crt_image_format_t, .struct_size = sizeof(crt_image_format_t), __VA_ARGS__)

/* The format of "mnist", "cifar10", "cifar100" or "svhn"; NULL when there is no such set.
 * Static: programs do not copy the struct, which is that of the library. */
CRT_API const crt_image_format_t *crt_image_format(const char *name);

/* Opens the training half or the test half of a set, at most `limit` images of it (0: all).
 * `source` "builtin" draws images of this format and number of classes: 60,000 or 10,000 for
 * MNIST, otherwise 10,000 or 2,000, or `limit`. Any other source is a folder with these files,
 * each plain or with .gz:
 *
 *     mnist           the four IDX files of crt_dataset_open
 *     cifar10, svhn   data_batch_1.bin to data_batch_5.bin, or train.bin, and test_batch.bin or
 *                     test.bin: records of a label and 3,072 bytes, red, green, blue
 *     cifar100        train.bin and test.bin: records of two labels, of which the second counts,
 *                     and 3,072 bytes
 *
 * Caller owns the result and drops it with crt_dataset_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when a file is missing; CRT_ERR_UNSUPPORTED, when the folder has the
 * Python or Matlab version of CIFAR; CRT_ERR_CORRUPT, when a file is cut short, damaged, has
 * images of another size, or a label that is no class; CRT_ERR_INVALID, when the format is NULL,
 * was not made with CRT_IMAGE_FORMAT, or has impossible numbers; CRT_ERR_TOO_LARGE; CRT_ERR_IO;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_images_open(const crt_image_format_t *format, const char *source,
                                     crt_split_t split, size_t limit,
                                     crt_dataset_t **set_out);

/* ---------------------------------------------------------------- batches */

/* Numbered batches of prepared images. */
typedef struct crt_image_batches crt_image_batches_t;

/* Options of image batches. */
typedef struct crt_image_batches_options {
    /* Set by CRT_IMAGE_BATCHES_OPTIONS. */
    size_t struct_size;
    /* Images of each batch; the last batch of a pass may have fewer. */
    int batch_size;
    /* Determines the order, and how images are cropped and flipped. */
    uint64_t seed;
    /* True: in random order, cropped and flipped. False: in order and whole. */
    bool training;
    /* Number of batches that a thread makes ahead, at most 64. 0: no thread. */
    int ahead;
    /* Distance from one batch number to the next, for several workers that take turns. 0: 1. */
    uint64_t stride;
} crt_image_batches_options_t;
#define CRT_IMAGE_BATCHES_OPTIONS(...)                                                   \
    CRTI_CONSTANT(crt_image_batches_options_t,                                           \
                  .struct_size = sizeof(crt_image_batches_options_t), __VA_ARGS__)

/* Makes batches of `set`, uint8 images of `format`. With `format` NULL the samples may be of any
 * kind, and are given as they are. The set must outlive the batches. One thread at a time uses the
 * batches. Caller owns the result and drops it with crt_image_batches_drop.
 *
 * Errors: CRT_ERR_INVALID, when an option or the format is wrong, or the images have another size
 * or more classes than `format`; CRT_ERR_UNSUPPORTED, when the program sets a member that only a
 * newer version of the library has; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_image_batches_new(const crt_image_format_t *format,
                                           const crt_dataset_t *set,
                                           const crt_image_batches_options_t *options,
                                           crt_image_batches_t **batches_out);

/* The next batch. The number of the batches then increases by the stride. Borrowed: valid
 * until the next call for these batches. */
CRT_API const crt_batch_t *crt_image_batches_next(crt_image_batches_t *batches);

/* Makes batch `number` the next one; the first batch has number 0. */
CRT_API void crt_image_batches_seek(crt_image_batches_t *batches, uint64_t number);

/* The number of the next batch, and the number of batches in a pass over the set. */
CRT_API uint64_t crt_image_batches_number(const crt_image_batches_t *batches);
CRT_API uint64_t crt_image_batches_per_pass(const crt_image_batches_t *batches);

/* Ends the thread and frees the batches and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_image_batches_drop(crt_image_batches_t **batches);

#ifdef __cplusplus
}
#endif

#endif
