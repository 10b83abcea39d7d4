/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/dataset.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ml/file.h"
#include "ml/matrix.h"
#include "ml/model.h"

static crt_status_t check_labels(const uint8_t *labels, size_t count, int classes)
{
    for (size_t i = 0; i < count; i++)
        if (labels[i] >= classes)
            return crt_raise(CRT_ERR_INVALID, "label %d of sample %zu is not below %d",
                             labels[i], i, classes);
    return CRT_OK;
}

static crt_status_t check(const crt_tensor_t *features, const crt_tensor_t *labels,
                          int classes)
{
    size_t count, width;
    crt_status_t status;

    if (features->dtype != CRT_DTYPE_UINT8 && features->dtype != CRT_DTYPE_FLOAT32)
        return crt_raise(CRT_ERR_INVALID, "features are %s, not uint8 or float32",
                         crt_dtype_name(features->dtype));
    if (features->rank < 1 || features->shape[0] < 1)
        return crt_raise(CRT_ERR_INVALID, "a data set without samples");
    if (classes < 2 || classes > 256)
        return crt_raise(CRT_ERR_INVALID, "%d classes, not 2..256", classes);
    count = (size_t)features->shape[0];
    width = crt_tensor_count(features) / count;
    if (width < 1 || width > CRTI_MODEL_WIDTH_MAX)
        return crt_raise(CRT_ERR_INVALID, "%zu features of a sample, not 1..%d", width,
                         CRTI_MODEL_WIDTH_MAX);
    status = crti_matrix_check_rows(features, features->dtype, width, "features");
    if (status == CRT_OK)
        status = crti_matrix_check_rows(labels, CRT_DTYPE_UINT8, 1, "labels");
    if (status == CRT_OK && (size_t)labels->shape[0] != count)
        return crt_raise(CRT_ERR_INVALID, "%zu samples with %lld labels", count,
                         (long long)labels->shape[0]);
    return status == CRT_OK ? check_labels(labels->data, count, classes) : status;
}

crt_status_t crt_dataset_new(const crt_tensor_t *features, const crt_tensor_t *labels,
                             int classes, crt_dataset_t **set_out)
{
    crt_status_t status = check(features, labels, classes);
    crt_dataset_t *set;
    int64_t shape[2];

    if (status != CRT_OK)
        return status;
    set = calloc(1, sizeof(*set));
    if (!set)
        return crt_raise(CRT_ERR_NO_MEMORY, "data set");
    set->count = (size_t)features->shape[0];
    set->width = (int)(crt_tensor_count(features) / set->count);
    set->classes = classes;
    shape[0] = features->shape[0];
    shape[1] = set->width;
    set->features = crt_tensor_view(features->dtype, 2, shape, features->data);
    set->labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, labels->data);
    *set_out = set;
    return CRT_OK;
}

crt_status_t crti_dataset_adopt(const crt_tensor_t *features, const crt_tensor_t *labels,
                                int classes, crt_dataset_t **set_out)
{
    crt_status_t status = crt_dataset_new(features, labels, classes, set_out);

    if (status == CRT_OK) {
        (*set_out)->memory[0] = features->data;
        (*set_out)->memory[1] = labels->data;
    }
    return status;
}

crt_status_t crt_dataset_new_shard(const crt_dataset_t *set, int index, int parts,
                                   crt_dataset_t **shard_out)
{
    size_t first, end;
    int64_t shape[2];
    crt_tensor_t features, labels;

    if (parts < 1 || index < 0 || index >= parts || (size_t)parts > set->count)
        return crt_raise(CRT_ERR_INVALID, "part %d of %d of %zu samples", index, parts,
                         set->count);
    first = set->count * (size_t)index / (size_t)parts;
    end = set->count * ((size_t)index + 1) / (size_t)parts;
    shape[0] = (int64_t)(end - first);
    shape[1] = set->width;
    features = crt_tensor_view(set->features.dtype, 2, shape,
                               (char *)set->features.data +
                                   first * (size_t)set->width *
                                       crt_dtype_size(set->features.dtype));
    labels =
        crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, (uint8_t *)set->labels.data + first);
    return crt_dataset_new(&features, &labels, set->classes, shard_out);
}

void crti_dataset_gather(const crt_dataset_t *set, size_t first, size_t rows, float *out)
{
    size_t width = (size_t)set->width, count = rows * width;
    const uint8_t *bytes = (const uint8_t *)set->features.data + first * width;

    if (set->features.dtype == CRT_DTYPE_FLOAT32) {
        memcpy(out, (const float *)set->features.data + first * width,
               count * sizeof(float));
        return;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = (float)bytes[i] * (1.0f / 255.0f);
}

void crti_dataset_shorten(crt_dataset_t *set, size_t count)
{
    if (count >= set->count)
        return;
    set->count = count;
    set->features.shape[0] = set->labels.shape[0] = (int64_t)count;
}

size_t crt_dataset_count(const crt_dataset_t *set)
{
    return set->count;
}

int crt_dataset_width(const crt_dataset_t *set)
{
    return set->width;
}

int crt_dataset_classes(const crt_dataset_t *set)
{
    return set->classes;
}

const crt_tensor_t *crt_dataset_features(const crt_dataset_t *set)
{
    return &set->features;
}

const crt_tensor_t *crt_dataset_labels(const crt_dataset_t *set)
{
    return &set->labels;
}

void crt_dataset_drop(crt_dataset_t **dropped)
{
    crt_dataset_t *set = *dropped;

    if (!set)
        return;
    free(set->memory[0]);
    free(set->memory[1]);
    free(set);
    *dropped = NULL;
}
