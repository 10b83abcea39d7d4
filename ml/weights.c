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

static size_t file_size(size_t arrays, size_t floats)
{
    return HEADER + arrays * PER_ARRAY + floats * sizeof(float) + CHECKSUM;
}

crt_status_t crti_weights_encode(const crt_model_t *model, unsigned char **data_out,
                                 size_t *size_out)
{
    uint64_t floats = model->parameter_count;
    size_t size = file_size(model->array_count, model->parameter_count);
    unsigned char *data = malloc(size), *at = data + HEADER;

    if (!data)
        return crt_raise(CRT_ERR_NO_MEMORY, "weights file of %zu bytes", size);
    memcpy(data, MAGIC, 8);
    put32(data + 8, VERSION);
    put32(data + 12, (uint32_t)model->array_count);
    memcpy(data + 16, &floats, sizeof(floats));
    for (size_t i = 0; i < model->array_count; i++, at += PER_ARRAY) {
        put32(at, (uint32_t)model->arrays[i].rows);
        put32(at + 4, (uint32_t)model->arrays[i].cols);
    }
    memcpy(at, model->weights, model->parameter_count * sizeof(float));
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
    if (arrays > 2 * CRTI_MODEL_LAYERS_MAX || floats > CRTI_MODEL_PARAMETERS_MAX)
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

    if (arrays != model->array_count)
        return crt_raise(CRT_ERR_INVALID, "%s: %u arrays, the model has %zu", name,
                         arrays, model->array_count);
    for (size_t i = 0; i < arrays; i++) {
        const unsigned char *at = data + HEADER + i * PER_ARRAY;
        const crti_array_t *array = &model->arrays[i];

        if (get32(at) != (uint32_t)array->rows || get32(at + 4) != (uint32_t)array->cols)
            return crt_raise(CRT_ERR_INVALID,
                             "%s: array %zu is %u x %u, the model's %d x %d", name, i,
                             get32(at), get32(at + 4), array->rows, array->cols);
    }
    memcpy(&floats, data + 16, sizeof(floats));
    if (floats != model->parameter_count)
        return crt_raise(CRT_ERR_CORRUPT, "%s: damaged: %llu numbers in arrays of %zu",
                         name, (unsigned long long)floats, model->parameter_count);
    return CRT_OK;
}

crt_status_t crti_weights_decode(crt_model_t *model, const char *name,
                                 const unsigned char *data, size_t size)
{
    crt_status_t status = check_file(name, data, size);

    if (status == CRT_OK)
        status = check_shapes(model, name, data);
    if (status == CRT_OK)
        memcpy(model->weights, data + HEADER + model->array_count * PER_ARRAY,
               model->parameter_count * sizeof(float));
    return status;
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
    size_t size, limit = file_size(2 * CRTI_MODEL_LAYERS_MAX, CRTI_MODEL_PARAMETERS_MAX);
    unsigned char *data;
    crt_status_t status = crti_file_read(path, limit, &data, &size);

    if (status != CRT_OK)
        return status;
    status = crti_weights_decode(model, path, data, size);
    free(data);
    return status;
}
