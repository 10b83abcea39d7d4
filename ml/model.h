/* SPDX-License-Identifier: Apache-2.0 */
/* Model: a graph of layers over one flat buffer of parameters and one of gradients.
 *
 * Where it sits
 *     crt_ml.h -> [ graph.c builds, forward.c and backward.c run, classify.c ] -> layers
 *     device.c moves it to another device and back
 * Ownership
 *     The model owns both flat buffers and the scratch of its passes, all where it computes, and
 *     its device. Weights handed to a pass are only read.
 * Invariants
 *     Layers stand in an order in which each reads only from those before it. Their
 *     parameters lie in that order and without gaps, so that equal layers mean equal layout.
 *     `arrays` cuts the flat buffers into the arrays that clipping, files and people speak of.
 */
#ifndef CRTI_ML_MODEL_H
#define CRTI_ML_MODEL_H

#include "ml/device.h"
#include "ml/layer.h"

#define CRTI_MODEL_LAYERS_MAX     1024
#define CRTI_MODEL_WIDTH_MAX      (1 << 24)
#define CRTI_MODEL_PARAMETERS_MAX ((size_t)1 << 30)

/* Streams of a model's seed. */
enum {
    CRTI_STREAM_INIT = 1,
    CRTI_STREAM_DROPOUT = 2,
    CRTI_STREAM_BATCHES = 3,
    CRTI_STREAM_CROPS = 4
};

typedef struct crti_array {
    size_t at, count; /* in the flat buffers */
    int rows, cols;   /* biases: one row */
    size_t layer;
} crti_array_t;

/* How a layer's output lies in memory: graph.c decides it once. */
typedef struct crti_activation {
    bool is_alias;  /* where its first input lies: a view, or written over it */
    bool is_shared; /* somebody else reads the same memory: not to be written over */
    bool is_needed; /* a backward pass reads it: not to be written over */
    int readers;
    float *y, *kept;
} crti_activation_t;

/* The gradient of some output while a backward pass runs. */
typedef struct crti_delta {
    float *data;
    size_t capacity; /* floats; 0: memory of the caller, only read */
    int uses;
} crti_delta_t;

struct crt_model {
    crti_device_t *device; /* NULL: the host */
    crt_dtype_t input_type;
    crti_shape_t input;
    int inputs, outputs;
    size_t layer_count, array_count, parameter_count;
    crti_layer_t *layers;
    crti_array_t *arrays;
    size_t statistics_count;
    float *weights, *gradients, *statistics;
    crt_tensor_t weights_view, gradients_view, statistics_view;
    int optimizers;     /* of it that there are */
    bool has_gradients; /* something was added since the last step */
    crti_random_t random;
    crt_gradients_seen_t *seen; /* may be NULL */
    void *seen_context;
    crt_norm_sum_t *norm_sum; /* may be NULL */
    void *norm_context;

    /* Scratch of a pass, for up to `rows` samples: forward.c */
    int rows;
    crti_activation_t *outputs_of;
    float *scratch;
    float *probabilities; /* rows x outputs: classify.c */
    float *x,
        *dy; /* on a device: what `load` made of inputs and of gradients of the outputs */

    /* What layers were prepared for, and what they asked for: forward.c */
    int prepared_rows;
    bool prepared_training;
    float *workspace;
    crt_status_t failed; /* of a layer in this pass */

    /* The last forward pass, when it was one of training. */
    /* rows, lengths and what the first layer reads; rows 0: there was none */
    crti_layer_pass_t pass;
    int32_t whole; /* the length of the only sequence */

    /* Gradients of outputs: backward.c */
    crti_delta_t *deltas;
    size_t delta_count;
    int *delta_of; /* of each layer's output, the model's input first; -1: none yet */
};

/* The flat weights a pass reads: the model's own when `weights` is NULL. */
crt_status_t crti_model_weights(const crt_model_t *model, const crt_tensor_t *weights,
                                const float **weights_out);

/* Rows x outputs numbers of a forward pass over `rows` samples at `inputs` (on a device: there or
 * on the host); `lengths` may be NULL. Outputs are as layers compute with them. Borrowed until the
 * next pass. */
crt_status_t crti_model_run(crt_model_t *model, const float *weights, const void *inputs,
                            int rows, const int32_t *lengths, size_t sequences,
                            bool training, const float **outputs_out);

/* Which outputs lie where others do: again when the operations of layers change. */
void crti_model_plan_outputs(crt_model_t *model);

void crti_model_release_workspace(crt_model_t *model);

/* How many samples at a time are evaluated. */
int crti_model_evaluation_rows(const crt_model_t *model);

/* From the gradient of the last run's outputs, as layers compute with it; `d_inputs` may be
 * NULL. */
crt_status_t crti_model_run_back(crt_model_t *model, const float *weights,
                                 const float *d_outputs, float *gradients,
                                 float *d_inputs);

#endif
