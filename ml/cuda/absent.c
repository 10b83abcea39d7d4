/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the rest of this folder where the headers of CUDA, cuBLAS and cuDNN were not there,
 * or not wanted. */
#include "ml/device.h"

static crt_status_t open_nothing(const crt_model_t *model, int number,
                                 crt_precision_t precision, crti_device_t **device_out)
{
    return crt_raise(CRT_ERR_UNSUPPORTED,
                     "this build has no models on GPUs: it was made without the headers "
                     "of CUDA, cuBLAS, cuDNN and NVRTC (meson setup -Dcuda=enabled "
                     "-Dgpu_root=...)");
}

const crti_device_kind_t crti_device_cuda = {.name = "cuda", .open = open_nothing};
