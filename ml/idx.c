/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/idx.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ml/dataset.h"
#include "ml/file.h"
#include "ml/gzip.h"

#define TYPE_UINT8    0x08
#define DIGITS_TRAIN  60000
#define DIGITS_TEST   10000
#define EXPANSION_MAX 1032 /* deflate makes at most this of one byte */

/* The bytes of the array, wherever they come from. */
typedef struct source {
    const char *name;
    const unsigned char *bytes; /* plain: what is left */
    size_t size;
    crti_gzip_t *packed; /* NULL: plain */
} source_t;

static crt_status_t take_plain(source_t *s, unsigned char *out, size_t size)
{
    if (s->size < size)
        return crt_raise(CRT_ERR_CORRUPT, "%s: cut short: %zu of %zu bytes", s->name,
                         s->size, size);
    memcpy(out, s->bytes, size);
    s->bytes += size;
    s->size -= size;
    return CRT_OK;
}

static crt_status_t take_packed(source_t *s, unsigned char *out, size_t size)
{
    size_t done;
    crt_status_t status = crti_gzip_read(s->packed, out, size, &done);

    return status == CRT_OK && done < size
               ? crt_raise(CRT_ERR_CORRUPT, "%s: cut short: %zu of %zu bytes unpacked",
                           s->name, done, size)
               : status;
}

static crt_status_t take(source_t *s, unsigned char *out, size_t size)
{
    return s->packed ? take_packed(s, out, size) : take_plain(s, out, size);
}

/* Nothing may follow the array; a packed file's checksum stands behind its last byte. It is read to
 * there in any case: whether it is damaged is the better reason. */
static crt_status_t take_end(source_t *s)
{
    unsigned char rest[4096];
    size_t more = s->packed ? 0 : s->size, got = 1;
    crt_status_t status = CRT_OK;

    while (s->packed && status == CRT_OK && got > 0 && more < CRTI_IDX_BYTES_MAX) {
        status = crti_gzip_read(s->packed, rest, sizeof(rest), &got);
        more += got;
    }
    return status == CRT_OK && more > 0
               ? crt_raise(CRT_ERR_CORRUPT, "%s: %zu bytes behind the array", s->name,
                           more)
               : status;
}

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static crt_status_t take_header(source_t *s, crti_idx_t *idx)
{
    unsigned char magic[4], sizes[4 * CRTI_IDX_RANK_MAX];
    crt_status_t status = take(s, magic, sizeof(magic));

    if (status != CRT_OK)
        return status;
    if (magic[0] != 0 || magic[1] != 0)
        return crt_raise(CRT_ERR_CORRUPT, "%s: not an IDX file (starts with %08x)",
                         s->name, big_endian(magic));
    if (magic[2] != TYPE_UINT8)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "%s: numbers of type 0x%02x, not bytes (0x08)", s->name,
                         magic[2]);
    if (magic[3] < 1 || magic[3] > CRTI_IDX_RANK_MAX)
        return crt_raise(CRT_ERR_CORRUPT, "%s: %d dimensions, not 1..%d", s->name,
                         magic[3], CRTI_IDX_RANK_MAX);
    idx->rank = magic[3];
    status = take(s, sizes, 4 * (size_t)idx->rank);
    if (status != CRT_OK)
        return status;
    idx->size = 1;
    for (int i = 0; i < idx->rank; i++) {
        uint32_t n = big_endian(sizes + 4 * i);

        if (n == 0 || n > CRTI_IDX_BYTES_MAX / idx->size)
            return crt_raise(CRT_ERR_CORRUPT,
                             "%s: dimension %d is %u: none or beyond %zu bytes", s->name,
                             i, n, CRTI_IDX_BYTES_MAX);
        idx->shape[i] = n;
        idx->size *= n;
    }
    return CRT_OK;
}

static crt_status_t decode(source_t *s, size_t size, crti_idx_t *idx_out)
{
    crti_idx_t idx = {0};
    crt_status_t status = take_header(s, &idx);

    if (status != CRT_OK)
        return status;
    if (idx.size / (s->packed ? EXPANSION_MAX : 1) > size)
        return crt_raise(CRT_ERR_CORRUPT,
                         "%s: cut short: an array of %zu bytes in a file of %zu", s->name,
                         idx.size, size);
    idx.data = malloc(idx.size);
    if (!idx.data)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: %zu bytes", s->name, idx.size);
    status = take(s, idx.data, idx.size);
    if (status == CRT_OK)
        status = take_end(s);
    if (status != CRT_OK) {
        free(idx.data);
        return status;
    }
    *idx_out = idx;
    return CRT_OK;
}

crt_status_t crti_idx_decode(const char *name, const unsigned char *bytes, size_t size,
                             crti_idx_t *idx_out)
{
    source_t source = {.name = name, .bytes = bytes, .size = size};
    crt_status_t status;

    if (size > CRTI_IDX_BYTES_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: %zu bytes", name, size);
    if (!crti_gzip_is_packed(bytes, size))
        return decode(&source, size, idx_out);
    status = crti_gzip_open(name, bytes, size, &source.packed);
    if (status != CRT_OK)
        return status;
    status = decode(&source, size, idx_out);
    crti_gzip_close(source.packed);
    return status;
}

crt_status_t crti_idx_read(const char *path, crti_idx_t *idx_out)
{
    unsigned char *bytes;
    size_t size;
    crt_status_t status = crti_file_read(path, CRTI_IDX_BYTES_MAX, &bytes, &size);

    if (status != CRT_OK)
        return status;
    status = crti_idx_decode(path, bytes, size, idx_out);
    free(bytes);
    return status;
}

static crt_status_t join(const char *images_path, const char *labels_path, int classes,
                         const crti_idx_t *images, const crti_idx_t *labels,
                         crt_dataset_t **set_out)
{
    crt_tensor_t x, y;

    if (images->rank < 2)
        return crt_raise(CRT_ERR_CORRUPT, "%s: %d dimension, images have at least 2",
                         images_path, images->rank);
    if (labels->rank != 1)
        return crt_raise(CRT_ERR_CORRUPT, "%s: %d dimensions, labels have 1", labels_path,
                         labels->rank);
    if (images->shape[0] != labels->shape[0])
        return crt_raise(CRT_ERR_CORRUPT, "%s has %lld images, %s %lld labels",
                         images_path, (long long)images->shape[0], labels_path,
                         (long long)labels->shape[0]);
    for (size_t i = 0; i < labels->size; i++)
        if (labels->data[i] >= classes)
            return crt_raise(CRT_ERR_CORRUPT, "%s: label %zu is %d, not below %d",
                             labels_path, i, labels->data[i], classes);
    x = crt_tensor_view(CRT_DTYPE_UINT8, images->rank, images->shape, images->data);
    y = crt_tensor_view(CRT_DTYPE_UINT8, 1, labels->shape, labels->data);
    return crti_dataset_adopt(&x, &y, classes, set_out);
}

crt_status_t crt_dataset_read_idx(const char *images_path, const char *labels_path,
                                  int classes, crt_dataset_t **set_out)
{
    crti_idx_t images = {0}, labels = {0};
    crt_status_t status = crti_idx_read(images_path, &images);

    if (status == CRT_OK)
        status = crti_idx_read(labels_path, &labels);
    if (status == CRT_OK)
        status = join(images_path, labels_path, classes, &images, &labels, set_out);
    if (status != CRT_OK) {
        free(images.data);
        free(labels.data);
    }
    return status;
}

crt_status_t crt_dataset_open(const char *source, crt_split_t split,
                              crt_dataset_t **set_out)
{
    /* Each is about by two names. */
    static const char *const names[][3] = {
        {"train-images-idx3-ubyte", "train-images.idx3-ubyte", NULL},
        {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte", NULL},
        {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte", NULL},
        {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte", NULL}};
    bool test = split == CRT_SPLIT_TEST;
    char images[PATH_MAX], labels[PATH_MAX];
    crt_status_t status;

    if (strcmp(source, "builtin") == 0)
        return crt_dataset_new_digits(test ? DIGITS_TEST : DIGITS_TRAIN, split, set_out);
    status = crti_file_find(source, names[2 * test], images);
    if (status == CRT_OK)
        status = crti_file_find(source, names[2 * test + 1], labels);
    return status == CRT_OK ? crt_dataset_read_idx(images, labels, 10, set_out) : status;
}
