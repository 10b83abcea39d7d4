/* SPDX-License-Identifier: Apache-2.0 */
/* Model: a stack of layers over one flat buffer of parameters and one of gradients.
 *
 * Where it sits
 *     crt_ml.h -> [ model.c builds, pass.c runs ] -> layers
 * Ownership
 *     The model owns both flat buffers and the scratch of its passes. Weights handed to a
 *     pass are only read.
 * Invariants
 *     Layers' parameters lie in order and without gaps, so that equal shapes mean equal
 *     layout. `arrays` cuts the flat buffers into the arrays that clipping, files and
 *     people speak of: W and b of each dense layer.
 */
#ifndef CRTI_ML_MODEL_H
#define CRTI_ML_MODEL_H

#include "ml/layer.h"

#define CRTI_MODEL_LAYERS_MAX     1024
#define CRTI_MODEL_WIDTH_MAX      (1 << 24)
#define CRTI_MODEL_PARAMETERS_MAX ((size_t)1 << 30)

/* Streams of a model's seed. */
enum { CRTI_STREAM_INIT = 1, CRTI_STREAM_DROPOUT = 2, CRTI_STREAM_BATCHES = 3 };

typedef struct crti_array {
    size_t at, count; /* in the flat buffers */
    int rows, cols;   /* biases: one row */
} crti_array_t;

struct crt_model {
    int inputs, outputs;
    size_t layer_count, array_count, parameter_count;
    crti_layer_t *layers;
    crti_array_t *arrays;
    float *weights, *gradients;
    crt_tensor_t weights_view, gradients_view;
    bool has_gradients; /* something was added since the last step */
    crti_random_t random;
    crt_gradients_seen_t *seen; /* may be NULL */
    void *seen_context;

    /* Scratch of a pass, for up to `rows` samples: pass.c */
    int rows;
    float **outputs_of; /* activations after each layer */
    float *deltas[2];   /* gradients of activations, taken in turns */
    float *scratch;     /* the memory of all of them and of the layers' masks */
};

/* The flat weights a pass reads: the model's own when `weights` is NULL. */
crt_status_t crti_model_weights(const crt_model_t *model, const crt_tensor_t *weights,
                                const float **weights_out);

#endif
