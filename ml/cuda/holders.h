/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds the memory of a GPU, for the text of an error.
 *
 * Where it sits
 *     device.c -> [ holders ] -> the CUDA runtime; NVML, where there is one
 */
#ifndef CRTI_ML_CUDA_HOLDERS_H
#define CRTI_ML_CUDA_HOLDERS_H

#include "ml/cuda/library.h"

/* Such as "12 of 81559 MiB are free; process 4711 (train) holds 70000 MiB; this process holds 500
 * MiB": of the current device, as far as CUDA and NVML know it. */
void crti_cuda_tell_memory(const crti_cuda_api_t *api, int device, char *text,
                           size_t room);

#endif
