/* SPDX-License-Identifier: Apache-2.0 */
/* Device: where a model computes, when that is not the host.
 *
 * Where it sits
 *     forward.c, backward.c, classify.c, optimizer.c, memory.c -> [ ml/device.h ] -> ml/cuda/
 * How
 *     A model on a device has its buffers in the device's memory and the device's operations in its
 *     layers. The order of the layers, which outputs share memory, and where parameters lie are
 *     decided by the same code for both.
 * Order
 *     Work is queued and done in the order of the calls. Who is given numbers on the host waits.
 * Outputs
 *     Memory of outputs and of their gradients is measured in floats, but what lies in it is the
 *     device's matter (type, scale, order of the places): `load` and `store` translate.
 * Failure
 *     Functions without a status leave the first failure in the device; `failure` takes it from
 *     there.
 */
#ifndef CRTI_ML_DEVICE_H
#define CRTI_ML_DEVICE_H

#include "ml/layer.h"
#include <crt_ml_gpu.h>

typedef struct crti_device crti_device_t;

typedef struct crti_device_ops {
    void (*close)(crti_device_t *device);

    /* Operations for a layer, with the name and the `shape` of the host's; NULL: there are none. */
    const crti_layer_ops_t *(*layer)(const crti_device_t *device,
                                     const crti_layer_t *layer);
    void (*enter)(crti_device_t *device); /* first in every call from outside */
    crt_status_t (*failure)(crti_device_t *device);
    void *(*stream)(const crti_device_t *device);

    /* Zeros; NULL when there is no room: `no_memory` raises it, with what else is in there. */
    float *(*allocate)(crti_device_t *device, size_t floats);
    crt_status_t (*no_memory)(crti_device_t *device, size_t floats, const char *what);
    void (*release)(crti_device_t *device, float *memory);
    void (*zero)(crti_device_t *device, float *memory, size_t floats);

    /* Either may lie on the host: waits then. */
    crt_status_t (*copy)(crti_device_t *device, void *to, const void *from, size_t bytes);

    /* to = a + b: of outputs, of parameters. */
    void (*add)(crti_device_t *device, float *to, const float *a, const float *b,
                size_t count);
    void (*add_floats)(crti_device_t *device, float *to, const float *from, size_t count);

    /* First in a forward pass. */
    void (*begin)(crti_device_t *device);

    /* Between float32, channels last, and what layers compute with: outputs, or their gradients.
     * `from` may lie on the host, and be changed when `load` has returned. */
    void (*load)(crti_device_t *device, float *x, const float *from, int rows,
                 crti_shape_t shape, bool is_gradient);
    void (*load_keys)(crti_device_t *device, void *to, const void *from, size_t bytes);
    void (*store)(crti_device_t *device, float *to, const float *y, int rows,
                  crti_shape_t shape, bool is_gradient);

    /* From outputs: float32 probabilities; the gradient of the mean cross-entropy, and that
     * mean. */
    void (*softmax)(crti_device_t *device, int rows, int classes, const float *y,
                    float *probabilities);
    void (*cross_entropy)(crti_device_t *device, int rows, int classes, const float *y,
                          const uint8_t *labels, float *dy);
    crt_status_t (*read_loss)(crti_device_t *device, double *loss_out);

    const struct crti_ner_device_ops *parser; /* ml/ner_device.h */

    /* Of optimizers: what the device adds to one is its `own`. `update` is a whole step on the
     * model's gradients. */
    crt_status_t (*open_optimizer)(crti_device_t *device, crt_optimizer_t *optimizer);
    crt_status_t (*update)(crti_device_t *device, crt_optimizer_t *optimizer,
                           crt_model_t *model);
    void (*close_optimizer)(crti_device_t *device, crt_optimizer_t *optimizer);
} crti_device_ops_t;

struct crti_device {
    const crti_device_ops_t *ops;
    int number;
};

typedef struct crti_device_kind {
    const char *name;

    /* Device `number`, for a model. CRT_ERR_UNSUPPORTED says what is missing. */
    crt_status_t (*open)(const crt_model_t *model, int number, crt_precision_t precision,
                         crti_device_t **device_out);
} crti_device_kind_t;

extern const crti_device_kind_t crti_device_cuda;

/* Memory where a model is: floats that are zero, or NULL. */
float *crti_model_allocate(const crt_model_t *model, size_t floats);
void crti_model_release(const crt_model_t *model, float *memory);

/* CRT_ERR_NO_MEMORY for so many floats where a model is; the text says what they are for. */
crt_status_t crti_model_no_memory(const crt_model_t *model, size_t floats,
                                  const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* First in every call from outside that uses what follows. */
void crti_model_enter(const crt_model_t *model);

void crti_model_zero(const crt_model_t *model, float *memory, size_t floats);

/* From or to memory where a model is; the other side may be the host. */
crt_status_t crti_model_copy(const crt_model_t *model, void *to, const void *from,
                             size_t bytes);

/* CRT_ERR_INVALID unless `tensor` is all of a model's parameters and lies where it is. */
crt_status_t crti_model_check_flat(const crt_model_t *model, const crt_tensor_t *tensor,
                                   const char *what);

#endif
