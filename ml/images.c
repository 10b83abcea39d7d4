/* SPDX-License-Identifier: Apache-2.0 */
/* Images: sets of images from files.
 *
 * Where it sits
 *     folder -> [ ml/images.c ] -> data set -> image_batches.c
 * Invariants
 *     Pixels of a set lie as (height, width, channels); files have one plane for each channel. A
 *     label is checked before its image is taken.
 */
#include "ml/images.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ml/dataset.h"
#include "ml/file.h"
#include "ml/gzip.h"
#include "runtime/base/copy_struct.h"

#define FILE_BYTES_MAX ((size_t)INT_MAX)
#define DRAWN_TRAIN    10000
#define DRAWN_TEST     2000
#define SIDE_MAX       4096 /* pixels */

#define THREE(a, b, c)                                                                   \
    {                                                                                    \
        (a), (b), (c)                                                                    \
    }
/* Small photographs of things, of so many classes. */
#define CIFAR(name_, classes_)                                                           \
    {                                                                                    \
        .struct_size = sizeof(crt_image_format_t), .name = (name_), .height = 32,        \
        .width = 32, .channels = 3, .classes = (classes_),                               \
        .mean = THREE(125.3f / 255, 123.0f / 255, 113.9f / 255),                         \
        .deviation = THREE(63.0f / 255, 62.1f / 255, 66.7f / 255), .padding = 4,         \
        .mirrors = true, .flips = true                                                   \
    }

static const crt_image_format_t formats[] = {
    {.struct_size = sizeof(crt_image_format_t),
     .name = "mnist",
     .height = 28,
     .width = 28,
     .channels = 1,
     .classes = 10,
     .mean = {0.1307f},
     .deviation = {0.3081f}},
    CIFAR("cifar10", 10),
    CIFAR("cifar100", 100),
    {.struct_size = sizeof(crt_image_format_t),
     .name = "svhn",
     .height = 32,
     .width = 32,
     .channels = 3,
     .classes = 10,
     .mean = {0.4914f, 0.4822f, 0.4465f},
     .deviation = {0.2023f, 0.1994f, 0.2010f},
     .padding = 4,
     .flips = true},
};

const crt_image_format_t *crt_image_format(const char *name)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

crt_status_t crti_images_format(crt_image_format_t *mine, const crt_image_format_t *given)
{
    crt_status_t status = CRTI_COPY_STRUCT(mine, given, "CRT_IMAGE_FORMAT");

    if (status != CRT_OK)
        return status;
    if (!mine->name || mine->height < 1 || mine->height > SIDE_MAX || mine->width < 1 ||
        mine->width > SIDE_MAX || mine->channels < 1 ||
        mine->channels > CRT_IMAGE_CHANNELS_MAX || mine->classes < 2 ||
        mine->classes > 256 || mine->padding < 0)
        return crt_raise(
            CRT_ERR_INVALID,
            "a format of images of %d x %d x %d, %d classes and a padding of "
            "%d, named '%s'",
            mine->height, mine->width, mine->channels, mine->classes, mine->padding,
            mine->name ? mine->name : "");
    for (int c = 0; c < mine->channels; c++)
        if (mine->deviation[c] == 0)
            mine->deviation[c] = 1;
    return CRT_OK;
}

static size_t pixels_of(const crt_image_format_t *format)
{
    return (size_t)format->height * (size_t)format->width * (size_t)format->channels;
}

/* ---------------------------------------------------------------- records */

static crt_status_t check_records(const crt_image_format_t *format, size_t label_bytes,
                                  const char *name, const unsigned char *bytes,
                                  size_t size)
{
    size_t record = label_bytes + pixels_of(format);

    if (size == 0 || size % record != 0)
        return crt_raise(
            CRT_ERR_CORRUPT,
            "%s: %zu bytes, not one or more records of %zu: cut short, or not images of "
            "%dx%d in %d channels with %zu label byte%s",
            name, size, record, format->width, format->height, format->channels,
            label_bytes, label_bytes == 1 ? "" : "s");
    for (size_t i = 0; i < size / record; i++)
        if (bytes[i * record + label_bytes - 1] >= format->classes)
            return crt_raise(CRT_ERR_CORRUPT,
                             "%s: the label of image %zu is %d, not below %d", name, i,
                             bytes[i * record + label_bytes - 1], format->classes);
    return CRT_OK;
}

static crt_status_t make_room(const crt_image_format_t *format, size_t more,
                              crti_images_t *images)
{
    uint8_t *pixels = realloc(images->pixels, (images->count + more) * pixels_of(format));
    uint8_t *labels;

    if (pixels)
        images->pixels = pixels;
    labels = realloc(images->labels, images->count + more);
    if (labels)
        images->labels = labels;
    return pixels && labels ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "%zu images", more);
}

/* From a plane for each channel. */
static void take_image(const crt_image_format_t *format, const unsigned char *planes,
                       uint8_t *pixels)
{
    size_t channels = (size_t)format->channels, places = pixels_of(format) / channels;

    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < places; i++)
            pixels[i * channels + c] = planes[c * places + i];
}

crt_status_t crti_images_decode(const crt_image_format_t *format, size_t label_bytes,
                                const char *name, const unsigned char *bytes, size_t size,
                                crti_images_t *images)
{
    size_t pixels = pixels_of(format), record = label_bytes + pixels;
    crt_status_t status = check_records(format, label_bytes, name, bytes, size);

    if (status == CRT_OK)
        status = make_room(format, size / record, images);
    if (status != CRT_OK)
        return status;
    for (; size > 0; size -= record, bytes += record) {
        images->labels[images->count] = bytes[label_bytes - 1];
        take_image(format, bytes + label_bytes, images->pixels + images->count * pixels);
        images->count++;
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- files */

static bool is_there(const char *folder, const char *name, const char *ending)
{
    char whole[64], path[PATH_MAX];

    snprintf(whole, sizeof(whole), "%s%s", name, ending);
    return crti_file_find(folder, (const char *const[]){whole, NULL}, path) == CRT_OK;
}

static crt_status_t add_file(const crt_image_format_t *format, const char *folder,
                             const char *const *names, crti_images_t *images)
{
    size_t size, label_bytes = format->classes == 100 ? 2 : 1;
    unsigned char *bytes;
    char path[PATH_MAX];
    crt_status_t status = crti_file_find(folder, names, path);

    if (status == CRT_OK)
        status = crti_file_read(path, FILE_BYTES_MAX, &bytes, &size);
    if (status != CRT_OK)
        return status;
    if (crti_gzip_is_packed(bytes, size)) {
        unsigned char *packed = bytes;

        bytes = NULL;
        status = crti_gzip_unpack(path, packed, size, FILE_BYTES_MAX, &bytes, &size);
        free(packed);
    }
    if (status == CRT_OK)
        status = crti_images_decode(format, label_bytes, path, bytes, size, images);
    free(bytes);
    return status;
}

/* CIFAR is given out in three forms; a folder with one of the others is told which one is
 * wanted. */
static crt_status_t check_form(const crt_image_format_t *format, const char *folder,
                               crt_split_t split)
{
    static const char *const forms[][3] = {{"", "Python", "pickled objects"},
                                           {".mat", "Matlab", "matrices"}};
    bool test = split == CRT_SPLIT_TEST;
    const char *part = test ? "test" : "train", *name = part;

    if (format->classes == 10)
        name = test ? "test_batch" : "data_batch_1";
    if (strncmp(format->name, "cifar", 5) != 0 || is_there(folder, name, ".bin") ||
        is_there(folder, part, ".bin"))
        return CRT_OK;
    for (size_t i = 0; i < 2; i++)
        if (is_there(folder, name, forms[i][0]))
            return crt_raise(CRT_ERR_UNSUPPORTED,
                             "%s/%s%s: the %s version of CIFAR-%d, %s; download its "
                             "binary version, cifar-%d-binary.tar.gz, which has %s.bin",
                             folder, name, forms[i][0], forms[i][1], format->classes,
                             forms[i][2], format->classes, name);
    return CRT_OK;
}

static crt_status_t add_files(const crt_image_format_t *format, const char *folder,
                              crt_split_t split, crti_images_t *images)
{
    static const char *const test[] = {"test_batch.bin", "test.bin", NULL};
    static const char *const train[] = {"train.bin", NULL};
    crt_status_t status = check_form(format, folder, split);
    char name[32];

    if (status != CRT_OK)
        return status;
    if (split == CRT_SPLIT_TEST)
        return add_file(format, folder, test, images);
    if (!is_there(folder, "data_batch_1", ".bin"))
        return add_file(format, folder, train, images);
    for (int i = 1; i <= 5 && status == CRT_OK; i++) {
        snprintf(name, sizeof(name), "data_batch_%d.bin", i);
        status = add_file(format, folder, (const char *const[]){name, NULL}, images);
    }
    return status;
}

static crt_status_t read_folder(const crt_image_format_t *format, const char *folder,
                                crt_split_t split, crt_dataset_t **set_out)
{
    crti_images_t images = {0};
    crt_status_t status = add_files(format, folder, split, &images);
    int64_t shape[4] = {(int64_t)images.count, format->height, format->width,
                        format->channels};
    crt_tensor_t pixels = crt_tensor_view(CRT_DTYPE_UINT8, 4, shape, images.pixels);
    crt_tensor_t labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, images.labels);

    if (status == CRT_OK)
        status = crti_dataset_adopt(&pixels, &labels, format->classes, set_out);
    if (status != CRT_OK) {
        free(images.pixels);
        free(images.labels);
    }
    return status;
}

static crt_status_t draw(const crt_image_format_t *format, crt_split_t split,
                         size_t limit, crt_dataset_t **set_out)
{
    if (format->channels == 1 && limit == 0)
        return crt_dataset_open("builtin", split, set_out);
    if (format->channels == 1)
        return crt_dataset_new_digits(limit, split, set_out);
    if (limit == 0)
        limit = split == CRT_SPLIT_TEST ? DRAWN_TEST : DRAWN_TRAIN;
    return crti_images_draw(format, limit, split, set_out);
}

static crt_status_t check_size(const crt_image_format_t *format, const char *folder,
                               const crt_dataset_t *set)
{
    if ((size_t)crt_dataset_width(set) == pixels_of(format))
        return CRT_OK;
    return crt_raise(CRT_ERR_CORRUPT, "%s: images of %d pixels; those of %s have %dx%d",
                     folder, crt_dataset_width(set), format->name, format->width,
                     format->height);
}

crt_status_t crt_images_open(const crt_image_format_t *given, const char *source,
                             crt_split_t split, size_t limit, crt_dataset_t **set_out)
{
    crt_image_format_t mine, *format = &mine;
    crt_dataset_t *set;
    crt_status_t status = crti_images_format(format, given);

    if (status != CRT_OK)
        return status;
    if (strcmp(source, "builtin") == 0)
        return draw(format, split, limit, set_out);
    status = format->channels == 1 ? crt_dataset_open(source, split, &set)
                                   : read_folder(format, source, split, &set);
    if (status != CRT_OK)
        return status;
    status = check_size(format, source, set);
    if (status != CRT_OK) {
        crt_dataset_drop(&set);
        return status;
    }
    if (limit > 0)
        crti_dataset_shorten(set, limit);
    *set_out = set;
    return CRT_OK;
}
