/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ml/file.h"

#include <zlib.h>

#define MAGIC     "crtmodel"
#define VERSION   1u
#define HEADER    24
#define PER_ARRAY 8
#define CHECKSUM  4

/* With statistics. */
#define ARRAYS_MAX (CRTI_LAYER_ARRAYS_MAX * CRTI_MODEL_LAYERS_MAX + 1)
#define FLOATS_MAX (2 * CRTI_MODEL_PARAMETERS_MAX)

/* The floats are copied as they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "weights files are little endian");

static void put32(unsigned char *at, uint32_t value)
{
    memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

/* zlib takes the length as 32 bits in its old call. */
static uint32_t checksum(const unsigned char *data, size_t size)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, size);
}

/* Arrays of a model's file, and the floats in them. */
static size_t arrays_of(const crt_model_t *model)
{
    return model->array_count + (model->statistics_count > 0);
}

static size_t floats_of(const crt_model_t *model)
{
    return model->parameter_count + model->statistics_count;
}

static void shape_of(const crt_model_t *model, size_t index, uint32_t *rows_out,
                     uint32_t *cols_out)
{
    bool is_array = index < model->array_count;

    *rows_out = is_array ? (uint32_t)model->arrays[index].rows : 1;
    *cols_out = is_array ? (uint32_t)model->arrays[index].cols
                         : (uint32_t)model->statistics_count;
}

static size_t file_size(size_t arrays, size_t floats)
{
    return HEADER + arrays * PER_ARRAY + floats * sizeof(float) + CHECKSUM;
}

crt_status_t crti_weights_encode(const crt_model_t *model, unsigned char **data_out,
                                 size_t *size_out)
{
    uint64_t floats = floats_of(model);
    size_t arrays = arrays_of(model), size = file_size(arrays, floats);
    size_t weights = model->parameter_count * sizeof(float);
    unsigned char *data = malloc(size), *at = data + HEADER;
    crt_status_t status;

    if (!data)
        return crt_raise(CRT_ERR_NO_MEMORY, "weights file of %zu bytes", size);
    memcpy(data, MAGIC, 8);
    put32(data + 8, VERSION);
    put32(data + 12, (uint32_t)arrays);
    memcpy(data + 16, &floats, sizeof(floats));
    for (size_t i = 0; i < arrays; i++, at += PER_ARRAY) {
        uint32_t rows, cols;

        shape_of(model, i, &rows, &cols);
        put32(at, rows);
        put32(at + 4, cols);
    }
    status = crti_model_copy(model, at, model->weights, weights);
    if (status == CRT_OK)
        status = crti_model_copy(model, at + weights, model->statistics,
                                 model->statistics_count * sizeof(float));
    if (status != CRT_OK) {
        free(data);
        return status;
    }
    put32(data + size - CHECKSUM, checksum(data, size - CHECKSUM));
    *data_out = data;
    *size_out = size;
    return CRT_OK;
}

/* Is it a whole file of this kind? Says nothing about the model. */
static crt_status_t check_file(const char *name, const unsigned char *data, size_t size)
{
    uint64_t floats;
    uint32_t arrays;
    size_t expected;

    if (size < HEADER + CHECKSUM || memcmp(data, MAGIC, 8) != 0)
        return crt_raise(CRT_ERR_CORRUPT, "%s: not a file of crt weights (%zu bytes)",
                         name, size);
    if (get32(data + 8) != VERSION)
        return crt_raise(CRT_ERR_CORRUPT,
                         "%s: weights of version %u, this build reads %u", name,
                         get32(data + 8), VERSION);
    arrays = get32(data + 12);
    memcpy(&floats, data + 16, sizeof(floats));
    if (arrays > ARRAYS_MAX || floats > FLOATS_MAX)
        return crt_raise(CRT_ERR_CORRUPT, "%s: damaged: %u arrays of %llu numbers", name,
                         arrays, (unsigned long long)floats);
    expected = file_size(arrays, floats);
    if (size != expected)
        return crt_raise(CRT_ERR_CORRUPT, "%s: %s: %zu of %zu bytes", name,
                         size < expected ? "cut short" : "too long", size, expected);
    if (get32(data + size - CHECKSUM) != checksum(data, size - CHECKSUM))
        return crt_raise(CRT_ERR_CORRUPT, "%s: damaged: the checksum is wrong", name);
    return CRT_OK;
}

static crt_status_t check_shapes(const crt_model_t *model, const char *name,
                                 const unsigned char *data)
{
    uint32_t arrays = get32(data + 12);
    uint64_t floats;

    if (arrays != arrays_of(model))
        return crt_raise(CRT_ERR_INVALID, "%s: %u arrays, the model has %zu", name,
                         arrays, arrays_of(model));
    for (size_t i = 0; i < arrays; i++) {
        const unsigned char *at = data + HEADER + i * PER_ARRAY;
        uint32_t rows, cols;

        shape_of(model, i, &rows, &cols);
        if (get32(at) != rows || get32(at + 4) != cols)
            return crt_raise(CRT_ERR_INVALID,
                             "%s: array %zu is %u x %u, the model's %u x %u", name, i,
                             get32(at), get32(at + 4), rows, cols);
    }
    memcpy(&floats, data + 16, sizeof(floats));
    if (floats != floats_of(model))
        return crt_raise(CRT_ERR_CORRUPT, "%s: damaged: %llu numbers in arrays of %zu",
                         name, (unsigned long long)floats, floats_of(model));
    return CRT_OK;
}

crt_status_t crti_weights_decode(crt_model_t *model, const char *name,
                                 const unsigned char *data, size_t size)
{
    crt_status_t status = check_file(name, data, size);
    const unsigned char *from;
    size_t weights = model->parameter_count * sizeof(float);

    if (status == CRT_OK)
        status = check_shapes(model, name, data);
    if (status != CRT_OK)
        return status;
    from = data + HEADER + arrays_of(model) * PER_ARRAY;
    status = crti_model_copy(model, model->weights, from, weights);
    return status == CRT_OK ? crti_model_copy(model, model->statistics, from + weights,
                                              model->statistics_count * sizeof(float))
                            : status;
}

crt_status_t crt_model_save(crt_model_t *model, const char *path)
{
    unsigned char *data;
    size_t size;
    crt_status_t status = crti_weights_encode(model, &data, &size);

    if (status != CRT_OK)
        return status;
    status = crti_file_write(path, data, size);
    free(data);
    return status;
}

crt_status_t crt_model_load(crt_model_t *model, const char *path)
{
    size_t size, limit = file_size(ARRAYS_MAX, FLOATS_MAX);
    unsigned char *data;
    crt_status_t status = crti_file_read(path, limit, &data, &size);

    if (status != CRT_OK)
        return status;
    status = crti_weights_decode(model, path, data, size);
    free(data);
    return status;
}
