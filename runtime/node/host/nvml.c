/* SPDX-License-Identifier: Apache-2.0 */
/* NVML. See nvml.h. Declared here as its documentation says, so that no header of it is needed. */
#include "runtime/node/host/nvml.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/late_library.h"

#define LIBRARY "libnvidia-ml.so.1"
#define SUCCESS 0 /* nvmlReturn_t */

typedef struct nvmlDevice_st *device_t;

static struct api {
    int (*init)(void);
    int (*shut_down)(void);
    const char *(*error_text)(int code);
    int (*count)(unsigned *count_out);
    int (*device)(unsigned number, device_t *device_out);
    int (*name)(device_t device, char *text, unsigned size);
    int (*uuid)(device_t device, char *text, unsigned size);
    int (*mig_mode)(device_t device, unsigned *now_out, unsigned *after_reset_out);
} api;

static const crti_late_symbol_t symbols[] = {
    {"nvmlInit_v2", offsetof(struct api, init)},
    {"nvmlShutdown", offsetof(struct api, shut_down)},
    {"nvmlErrorString", offsetof(struct api, error_text)},
    {"nvmlDeviceGetCount_v2", offsetof(struct api, count)},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct api, device)},
    {"nvmlDeviceGetName", offsetof(struct api, name)},
    {"nvmlDeviceGetUUID", offsetof(struct api, uuid)},
    {"nvmlDeviceGetMigMode", offsetof(struct api, mig_mode)},
};

static crti_late_library_t library = {.loss = "NVML can't be asked for GPUs",
                                      .symbols = symbols,
                                      .count = sizeof(symbols) / sizeof(symbols[0]),
                                      .table = &api};

/* Left empty when the driver does not let us have it. */
static void read_gpu(unsigned number, crti_nvml_gpu_t *gpu)
{
    unsigned mode = 0, after_reset;
    device_t device;

    if (api.device(number, &device) != SUCCESS ||
        api.name(device, gpu->name, sizeof(gpu->name)) != SUCCESS ||
        api.uuid(device, gpu->uuid, sizeof(gpu->uuid)) != SUCCESS)
        *gpu = (crti_nvml_gpu_t){.is_divided = false};
    else /* most kinds of GPU know no MIG: an error, and no mode */
        gpu->is_divided = api.mig_mode(device, &mode, &after_reset) == SUCCESS && mode;
}

crt_status_t crti_nvml_read(crti_nvml_t *nvml_out)
{
    const char *chosen = getenv("CRT_NVML_LIBRARY");
    int code;

    *nvml_out = (crti_nvml_t){.count = 0};
    library.file = chosen && *chosen ? chosen : LIBRARY;
    CRT_TRY(crti_late_library_open(&library));
    code = api.init();
    if (code == SUCCESS) {
        code = api.count(&nvml_out->count);
        if (code != SUCCESS)
            nvml_out->count = 0;
        if (nvml_out->count > CRTI_NVML_GPUS)
            nvml_out->count = CRTI_NVML_GPUS;
        for (unsigned i = 0; i < nvml_out->count; i++)
            read_gpu(i, &nvml_out->gpu[i]);
        api.shut_down();
    }
    return code == SUCCESS ? CRT_OK
                           : crt_raise(CRT_ERR_UNSUPPORTED, "%s: %s", library.loss,
                                       api.error_text(code));
}
