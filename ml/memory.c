/* SPDX-License-Identifier: Apache-2.0 */
/* Memory where a model is: the host's, or its device's. See ml/device.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ml/matrix.h"
#include "ml/model.h"

int crt_model_gpu(const crt_model_t *model)
{
    return model->device ? model->device->number : -1;
}

void *crt_model_stream(const crt_model_t *model)
{
    return model->device ? model->device->ops->stream(model->device) : NULL;
}

float *crti_model_allocate(const crt_model_t *model, size_t floats)
{
    crti_device_t *device = model->device;

    floats = floats ? floats : 1;
    return device ? device->ops->allocate(device, floats) : calloc(floats, sizeof(float));
}

crt_status_t crti_model_no_memory(const crt_model_t *model, size_t floats,
                                  const char *format, ...)
{
    char what[200];
    va_list more;

    va_start(more, format);
    vsnprintf(what, sizeof(what), format, more);
    va_end(more);
    return model->device ? model->device->ops->no_memory(model->device, floats, what)
                         : crt_raise(CRT_ERR_NO_MEMORY, "%s", what);
}

void crti_model_release(const crt_model_t *model, float *memory)
{
    if (model->device)
        model->device->ops->release(model->device, memory);
    else
        free(memory);
}

void crti_model_enter(const crt_model_t *model)
{
    if (model->device)
        model->device->ops->enter(model->device);
}

void crti_model_zero(const crt_model_t *model, float *memory, size_t floats)
{
    if (model->device)
        model->device->ops->zero(model->device, memory, floats);
    else
        memset(memory, 0, floats * sizeof(float));
}

crt_status_t crti_model_copy(const crt_model_t *model, void *to, const void *from,
                             size_t bytes)
{
    if (model->device)
        return model->device->ops->copy(model->device, to, from, bytes);
    memmove(to, from, bytes);
    return CRT_OK;
}

crt_status_t crti_model_check_flat(const crt_model_t *model, const crt_tensor_t *tensor,
                                   const char *what)
{
    return crti_matrix_check_flat_at(tensor, crt_model_gpu(model), model->parameter_count,
                                     what);
}

static crt_status_t check_copy(const crt_model_t *model, const crt_tensor_t *from,
                               const crt_tensor_t *to)
{
    int gpu = crt_model_gpu(model);

    if (from->dtype != to->dtype || crt_tensor_count(from) != crt_tensor_count(to) ||
        !crt_tensor_is_dense(from) || !crt_tensor_is_dense(to))
        return crt_raise(CRT_ERR_INVALID,
                         "a copy of %zu dense numbers of %s to %zu of %s",
                         crt_tensor_count(from), crt_dtype_name(from->dtype),
                         crt_tensor_count(to), crt_dtype_name(to->dtype));
    if ((crt_tensor_gpu(from) != -1 && crt_tensor_gpu(from) != gpu) ||
        (crt_tensor_gpu(to) != -1 && crt_tensor_gpu(to) != gpu))
        return crt_raise(CRT_ERR_INVALID,
                         "a copy from GPU %d to GPU %d, the model is on GPU %d",
                         crt_tensor_gpu(from), crt_tensor_gpu(to), gpu);
    return CRT_OK;
}

crt_status_t crt_model_copy_tensor(crt_model_t *model, const crt_tensor_t *from,
                                   crt_tensor_t *to)
{
    crt_status_t status = check_copy(model, from, to);

    crti_model_enter(model);
    return status == CRT_OK
               ? crti_model_copy(model, to->data, from->data, crt_tensor_bytes(from))
               : status;
}
