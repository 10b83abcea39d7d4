/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy. The loss is on its way to the host while the backward pass is queued:
 * who asks for it waits for the forward pass only. */
#include "ml/cuda/cuda.h"

#define WARP 32

void crti_cuda_softmax(crti_device_t *device, int rows, int classes, const float *y,
                       float *probabilities)
{
    crti_cuda_run_blocks((crti_cuda_t *)device, CRTI_KERNEL_softmax, (size_t)rows, WARP,
                         (void *[]){&probabilities, &y, &classes});
}

/* Room for so many labels and losses. */
static bool reserve(crti_cuda_t *c, int rows)
{
    size_t has = (size_t)c->loss_rows, wanted = (size_t)rows;
    size_t labels = has, losses = has * sizeof(float);
    void *label_memory = c->labels, *loss_memory = c->losses;
    bool is_there =
        crti_cuda_reserve(c, &label_memory, &labels, wanted, "labels") &&
        crti_cuda_reserve(c, &loss_memory, &losses, wanted * sizeof(float), "losses");

    c->labels = label_memory;
    c->losses = loss_memory;
    if (!is_there)
        c->loss_rows = 0;
    else if (rows > c->loss_rows)
        c->loss_rows = rows;
    return is_there;
}

void crti_cuda_cross_entropy(crti_device_t *device, int rows, int classes, const float *y,
                             const uint8_t *labels, float *dy)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    float factor = c->scale / (float)rows;

    if (!reserve(c, rows))
        return;
    crti_cuda_upload(c, c->labels, labels, (size_t)rows);
    crti_cuda_run_blocks(c, CRTI_KERNEL_cross_entropy, (size_t)rows, WARP,
                         (void *[]){&dy, &c->losses, &y, &c->labels, &classes, &factor});
    crti_cuda_run_blocks(c, CRTI_KERNEL_mean_loss, 1, 256,
                         (void *[]){&c->loss, &c->losses, &rows});
    crti_cuda_copy(c, c->loss_on_host, c->loss, sizeof(double));
    crti_cuda_did(c, c->api->cudaEventRecord(c->loss_is_there, c->stream), "an event");
}

crt_status_t crti_cuda_read_loss(crti_device_t *device, double *loss_out)
{
    crti_cuda_t *c = (crti_cuda_t *)device;

    crti_cuda_did(c, c->api->cudaEventSynchronize(c->loss_is_there),
                  "waiting for a loss");
    *loss_out = *c->loss_on_host;
    return device->ops->failure(device);
}
