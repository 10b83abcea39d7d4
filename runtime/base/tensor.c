/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor views: sizes and names of element types, dense views. */
#include "runtime/base/tensor_check.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [CRT_DTYPE_FLOAT32] = {"float32", 4}, [CRT_DTYPE_FLOAT64] = {"float64", 8},
    [CRT_DTYPE_FLOAT16] = {"float16", 2}, [CRT_DTYPE_BFLOAT16] = {"bfloat16", 2},
    [CRT_DTYPE_INT8] = {"int8", 1},       [CRT_DTYPE_INT16] = {"int16", 2},
    [CRT_DTYPE_INT32] = {"int32", 4},     [CRT_DTYPE_INT64] = {"int64", 8},
    [CRT_DTYPE_UINT8] = {"uint8", 1},     [CRT_DTYPE_BOOL] = {"bool", 1},
    [CRT_DTYPE_UINT16] = {"uint16", 2},   [CRT_DTYPE_UINT32] = {"uint32", 4},
    [CRT_DTYPE_UINT64] = {"uint64", 8},
};

static bool is_dtype(crt_dtype_t dtype)
{
    return (int)dtype >= CRT_DTYPE_FLOAT32 && (int)dtype <= CRTI_DTYPE_LAST;
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
    crt_tensor_t view = {.dtype = dtype, .rank = rank, .data = data};
    int64_t stride = 1;

    if (rank < 0 || rank > CRT_TENSOR_DIMS)
        return (crt_tensor_t){.rank = 0};
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

    return crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape, data);
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

crt_status_t crti_tensor_size(crt_dtype_t dtype, int rank, const int64_t *shape,
                              size_t most_rows, size_t *bytes_out)
{
    size_t size = crt_dtype_size(dtype), span = size;
    bool is_empty = false;

    if (!size)
        return crt_raise(CRT_ERR_INVALID, "%d is no dtype", (int)dtype);
    if (rank < 0 || rank > CRT_TENSOR_DIMS)
        return crt_raise(CRT_ERR_INVALID, "a tensor of rank %d: it is 0 to %d", rank,
                         CRT_TENSOR_DIMS);
    if (rank && !shape)
        return crt_raise(CRT_ERR_INVALID, "a tensor of rank %d: its shape is NULL", rank);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return crt_raise(CRT_ERR_INVALID,
                             "a tensor with %lld elements in dimension %d: a size is 0 "
                             "or more",
                             (long long)shape[i], i);
        is_empty = is_empty || shape[i] == 0;
        if (__builtin_mul_overflow(span, shape[i] ? (size_t)shape[i] : 1, &span) ||
            span > INT64_MAX / 2)
            return crt_raise(CRT_ERR_INVALID,
                             "a %s tensor of rank %d: its shape is too large for any "
                             "memory",
                             crt_dtype_name(dtype), rank);
    }
    if (is_empty && span / size > most_rows)
        return crt_raise(CRT_ERR_INVALID,
                         "a tensor without elements that has %zu rows; the limit is %zu",
                         span / size, most_rows);
    *bytes_out = is_empty ? 0 : span;
    return CRT_OK;
}

crt_status_t crti_tensor_check_known(const crt_tensor_t *tensor)
{
    if (tensor->flags)
        return crt_raise(CRT_ERR_UNSUPPORTED, "a tensor with the unknown flags 0x%x",
                         (unsigned)tensor->flags);
    if (tensor->device.type > CRT_DEVICE_GPU)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "a tensor on a device of the unknown type %u",
                         (unsigned)tensor->device.type);
    if (tensor->device.type == CRT_DEVICE_HOST && tensor->device.index != 0)
        return crt_raise(CRT_ERR_INVALID, "a tensor on host %u: the index is 0",
                         (unsigned)tensor->device.index);
    return CRT_OK;
}

crt_status_t crti_tensor_check_host(const crt_tensor_t *tensor, size_t *bytes_out)
{
    if (!tensor)
        return crt_raise(CRT_ERR_INVALID, "the tensor is NULL");
    CRT_TRY(crti_tensor_size(tensor->dtype, tensor->rank, tensor->shape,
                             CRTI_TENSOR_ROWS_ANY, bytes_out));
    CRT_TRY(crti_tensor_check_known(tensor));
    if (crt_tensor_gpu(tensor) >= 0)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "the tensor lies in the memory of a device");
    if (!tensor->data && *bytes_out)
        return crt_raise(CRT_ERR_INVALID, "the tensor has no data");
    return CRT_OK;
}

bool crti_tensor_are_bools(const void *data, size_t count)
{
    const unsigned char *at = data;
    unsigned char other = 0;

    for (size_t i = 0; i < count; i++)
        other |= at[i] & 0xfe;
    return other == 0;
}
