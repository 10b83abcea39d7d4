/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of other libraries, and for them, by DLPack 1.0 (crt_dlpack.h).
 *
 * Where it sits
 *     user code, language bindings -> [ core/client/dlpack.c ] -> crt_get, crt_put
 * Ownership
 *     What is given away holds the ref until the last user calls its deleter. What is taken is
 *     deleted here.
 * Threads
 *     Any.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/core/process/entry.h"
#include "runtime/core/refs/refs.h"
#include "runtime/crt_dlpack.h"

#define MAJOR 1
#define MINOR 0

enum { ON_HOST = 1, ON_CUDA = 2, ON_CUDA_HOST = 3 };

static const crt_dlpack_dtype_t dtypes[] = {
    [CRT_DTYPE_FLOAT32] = {2, 32, 1}, [CRT_DTYPE_FLOAT64] = {2, 64, 1},
    [CRT_DTYPE_FLOAT16] = {2, 16, 1}, [CRT_DTYPE_BFLOAT16] = {4, 16, 1},
    [CRT_DTYPE_INT8] = {0, 8, 1},     [CRT_DTYPE_INT16] = {0, 16, 1},
    [CRT_DTYPE_INT32] = {0, 32, 1},   [CRT_DTYPE_INT64] = {0, 64, 1},
    [CRT_DTYPE_UINT8] = {1, 8, 1},    [CRT_DTYPE_BOOL] = {6, 8, 1},
    [CRT_DTYPE_UINT16] = {1, 16, 1},  [CRT_DTYPE_UINT32] = {1, 32, 1},
    [CRT_DTYPE_UINT64] = {1, 64, 1},
};

/* ------------------------------------------------------------------ out */

/* What was given away, in one piece of memory. */
typedef struct given {
    crt_dlpack_t dlpack;
    crt_ref_t *ref;
    int64_t shape[CRT_TENSOR_DIMS], strides[CRT_TENSOR_DIMS];
} given_t;

static void drop_given(crt_dlpack_t *me)
{
    given_t *given = me->manager;

    crt_ref_drop(&given->ref);
    free(given);
}

static void describe(given_t *given, const crt_tensor_t *tensor)
{
    memcpy(given->shape, tensor->shape, sizeof(given->shape));
    memcpy(given->strides, tensor->strides, sizeof(given->strides));
    given->dlpack = (crt_dlpack_t){
        .version = {MAJOR, MINOR},
        .manager = given,
        .deleter = drop_given,
        .flags = CRT_DLPACK_READ_ONLY,
        .view = {.data = tensor->data,
                 .device = {tensor->device.type == CRT_DEVICE_GPU ? ON_CUDA : ON_HOST,
                            tensor->device.index},
                 .rank = tensor->rank,
                 .dtype = dtypes[tensor->dtype],
                 .shape = given->shape,
                 .strides = given->strides}};
}

crt_status_t crt_ref_to_dlpack(crt_ref_t *ref, int64_t wait_ms, crt_dlpack_t **tensor_out)
{
    const crt_tensor_t *tensor;
    given_t *given;
    crt_status_t status;

    if (!tensor_out)
        return crt_raise(CRT_ERR_INVALID, "there is no place for the tensor");
    status = crt_get_for(ref, wait_ms, &tensor);
    if (status != CRT_OK)
        return status;
    given = calloc(1, sizeof(*given));
    if (!given)
        return crt_raise(CRT_ERR_NO_MEMORY, "a DLPack tensor");
    given->ref = crt_ref_keep(ref);
    describe(given, tensor);
    *tensor_out = &given->dlpack;
    return CRT_OK;
}

/* ------------------------------------------------------------------ in */

static bool find_dtype(crt_dlpack_dtype_t from, crt_dtype_t *dtype_out)
{
    for (size_t d = CRT_DTYPE_FLOAT32; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
        if (dtypes[d].code == from.code && dtypes[d].bits == from.bits &&
            from.lanes == 1) {
            *dtype_out = (crt_dtype_t)d;
            return true;
        }
    return false;
}

/* Strides that are all zero are dense ones in a crt_tensor_t, and one element repeated in
 * DLPack. */
static crt_status_t take_strides(const crt_dlpack_view_t *from, crt_tensor_t *view)
{
    bool has_strides = false;

    if (!from->strides)
        return CRT_OK;
    memcpy(view->strides, from->strides, (size_t)from->rank * sizeof(int64_t));
    for (int i = 0; i < from->rank; i++)
        has_strides = has_strides || from->strides[i];
    return has_strides || crt_tensor_count(view) <= 1
               ? CRT_OK
               : crt_raise(CRT_ERR_UNSUPPORTED,
                           "a tensor that repeats one element (its strides are 0): copy "
                           "it first");
}

crt_status_t crt_dlpack_view_of(const crt_dlpack_t *tensor, crt_tensor_t *view_out)
{
    const crt_dlpack_view_t *from;
    crt_tensor_t view;
    crt_dtype_t dtype;
    crt_status_t status;

    if (!tensor || !view_out)
        return crt_raise(CRT_ERR_INVALID, "the DLPack tensor or its view is NULL");
    if (tensor->version.major != MAJOR)
        return crt_raise(CRT_ERR_UNSUPPORTED, "a tensor of DLPack %u.%u, this is %d.%d",
                         tensor->version.major, tensor->version.minor, MAJOR, MINOR);
    from = &tensor->view;
    if (!find_dtype(from->dtype, &dtype))
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "elements of DLPack's type %u with %u bits and %u lanes",
                         from->dtype.code, from->dtype.bits, from->dtype.lanes);
    if (from->rank < 0 || from->rank > CRT_TENSOR_DIMS || (from->rank && !from->shape))
        return crt_raise(CRT_ERR_UNSUPPORTED, "a tensor of %d dimensions, at most %d",
                         from->rank, CRT_TENSOR_DIMS);
    if (from->device.type < ON_HOST || from->device.type > ON_CUDA_HOST)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "a tensor in the memory of DLPack's device type %d",
                         from->device.type);
    view = crt_tensor_view(dtype, from->rank, from->shape,
                           from->data ? (char *)from->data + from->byte_offset : NULL);
    if (from->device.type == ON_CUDA)
        view.device = crt_device_gpu(from->device.id);
    status = take_strides(from, &view);
    if (status == CRT_OK)
        *view_out = view;
    return status;
}

static crt_ref_t *refused(crt_status_t status)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    crt_ref_t *ref = crti_ref_failed(core, status);

    ref->handles++;
    if (core)
        crti_leave(core);
    return ref;
}

crt_ref_t *crt_put_dlpack(crt_dlpack_t *tensor)
{
    crt_tensor_t view = {.data = NULL};
    crt_status_t status = crt_dlpack_view_of(tensor, &view);
    crt_ref_t *ref = status == CRT_OK ? crt_put(&view) : refused(status);

    if (tensor && tensor->deleter)
        tensor->deleter(tensor);
    return ref;
}
