/* SPDX-License-Identifier: Apache-2.0 */
/* Layer: one step of a model, with explicit forward and backward passes.
 *
 * Where it sits
 *     ml/model.c -> [ dense.c, relu.c, dropout.c ] -> ml/matrix.c
 * Ownership
 *     A layer owns nothing. Parameters, gradients and activations are the model's (or lie
 *     in the object store) and are handed in; `mask` is scratch of the model.
 * Invariants
 *     backward is called after forward with training on, on the same x, y and parameters.
 *     It overwrites its gradients, it never adds.
 */
#ifndef CRTI_ML_LAYER_H
#define CRTI_ML_LAYER_H

#include "crt_ml.h"
#include "ml/random.h"

typedef struct crti_layer crti_layer_t;

typedef struct crti_layer_ops {
    const char *name;
    bool has_weights; /* weights (outputs, inputs), then biases (outputs) */
    bool has_mask;    /* wants rows * outputs floats of scratch between the passes */

    void (*init)(const crti_layer_t *layer, float *params, crti_random_t *random);

    /* y(rows, outputs) from x(rows, inputs); `random` is NULL when not training. */
    void (*forward)(const crti_layer_t *layer, const float *params, int rows,
                    const float *x, float *y, crti_random_t *random);

    /* dx and dparams from dy; dx is NULL when it is not needed (the first layer), or not yet;
     * then a second call has dparams NULL. */
    void (*backward)(const crti_layer_t *layer, const float *params, int rows,
                     const float *x, const float *y, const float *dy, float *dparams,
                     float *dx);
} crti_layer_ops_t;

struct crti_layer {
    const crti_layer_ops_t *ops;
    crt_layer_t spec;
    int inputs, outputs;
    size_t params_at; /* first parameter in the flat buffers */
    float *mask;      /* set by the model when the batch size is known */
};

extern const crti_layer_ops_t crti_layer_dense;
extern const crti_layer_ops_t crti_layer_relu;
extern const crti_layer_ops_t crti_layer_dropout;

/* Number of weights and of biases of a layer. */
static inline size_t crti_layer_weights(const crti_layer_t *layer)
{
    return layer->ops->has_weights ? (size_t)layer->outputs * (size_t)layer->inputs : 0;
}

static inline size_t crti_layer_biases(const crti_layer_t *layer)
{
    return layer->ops->has_weights ? (size_t)layer->outputs : 0;
}

/* Softmax of every row of logits(rows, classes), in place. */
void crti_softmax(int rows, int classes, float *logits);

/* From probabilities: their gradient (p - onehot) / rows, in place; returns the mean
 * cross-entropy. CRT_ERR_INVALID when a label is no class (checked before any change). */
crt_status_t crti_softmax_gradients(int rows, int classes, float *probabilities,
                                    const uint8_t *labels, double *loss_out);

#endif
