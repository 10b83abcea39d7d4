/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor views: sizes and names of element types, dense views. */
#include "runtime/base/crt_base.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [CRT_FLOAT32] = {"float32", 4}, [CRT_FLOAT64] = {"float64", 8},
    [CRT_FLOAT16] = {"float16", 2}, [CRT_BFLOAT16] = {"bfloat16", 2},
    [CRT_INT8] = {"int8", 1},       [CRT_INT16] = {"int16", 2},
    [CRT_INT32] = {"int32", 4},     [CRT_INT64] = {"int64", 8},
    [CRT_UINT8] = {"uint8", 1},     [CRT_BOOL] = {"bool", 1},
};

static bool is_dtype(crt_dtype_t dtype)
{
    return (int)dtype >= CRT_FLOAT32 && (int)dtype <= CRT_BOOL;
}

size_t crt_dtype_size(crt_dtype_t dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

const char *crt_dtype_name(crt_dtype_t dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "unknown";
}

crt_tensor_t crt_tensor_view(crt_dtype_t dtype, int rank, const int64_t *shape,
                             void *data)
{
    crt_tensor_t view = {.dtype = dtype, .device = -1, .rank = rank, .data = data};
    int64_t stride = 1;

    if (rank < 0 || rank > CRT_TENSOR_DIMS)
        return (crt_tensor_t){.device = -1};
    for (int i = rank - 1; i >= 0; i--) {
        view.shape[i] = shape[i];
        view.strides[i] = stride;
        stride = (int64_t)((uint64_t)stride * (uint64_t)shape[i]); /* one may be 0 */
    }
    return view;
}

crt_tensor_t crt_tensor_floats(float *data, size_t count)
{
    int64_t shape = (int64_t)count;

    return crt_tensor_view(CRT_FLOAT32, 1, &shape, data);
}

size_t crt_tensor_count(const crt_tensor_t *tensor)
{
    size_t count = 1;

    for (int i = 0; i < tensor->rank; i++)
        count *= (size_t)tensor->shape[i];
    return count;
}

size_t crt_tensor_bytes(const crt_tensor_t *tensor)
{
    return crt_tensor_count(tensor) * crt_dtype_size(tensor->dtype);
}

static bool has_strides(const crt_tensor_t *tensor)
{
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->strides[i] != 0)
            return true;
    return false;
}

bool crt_tensor_is_dense(const crt_tensor_t *tensor)
{
    int64_t stride = 1;

    if (crt_tensor_count(tensor) == 0 || !has_strides(tensor))
        return true;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
            return false;
        stride *= tensor->shape[i];
    }
    return true;
}
