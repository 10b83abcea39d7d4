/* SPDX-License-Identifier: Apache-2.0 */
/* Layer: one step of a model, with explicit forward and backward passes.
 *
 * Where it sits
 *     ml/graph.c builds, ml/forward.c and backward.c run -> [ dense.c, relu.c, ... ] -> ml/matrix.c
 * Shapes
 *     A sample is (height, width, channels), channels last, so that all numbers of one place lie
 *     together; without places it is (1, 1, channels).
 * Ownership
 *     A layer owns nothing but what its `prepare` made. Parameters, gradients and activations are
 *     the model's (or lie in the object store) and are handed in; `kept` is scratch of the model.
 * Invariants
 *     backward is called after forward with training on, on the same x, y and parameters.
 *     It overwrites its gradients, it never adds.
 */
#ifndef CRTI_ML_LAYER_H
#define CRTI_ML_LAYER_H

#include "ml/random.h"
#include <crt_ml.h>

#define CRTI_LAYER_INPUTS_MAX 8
#define CRTI_LAYER_ARRAYS_MAX 4

typedef struct crti_layer crti_layer_t;
struct crti_device;

typedef struct crti_shape {
    int height, width, channels;
} crti_shape_t;

static inline size_t crti_shape_places(crti_shape_t shape)
{
    return (size_t)shape.height * (size_t)shape.width;
}

static inline size_t crti_shape_size(crti_shape_t shape)
{
    return crti_shape_places(shape) * (size_t)shape.channels;
}

/* What a layer computes with in one pass. */
typedef struct crti_layer_pass {
    int rows;               /* samples */
    crti_random_t *random;  /* NULL when not training */
    const int32_t *lengths; /* of the sequences that the rows consist of */
    size_t sequences;
    const float *params;
    const float *x[CRTI_LAYER_INPUTS_MAX];
    const uint64_t *keys; /* x[0] of the layers that read keys */
    float *y;
    float *kept;              /* what forward leaves for backward */
    float *statistics;        /* of layers that have some */
    float *workspace;         /* what `prepare` asked for; all layers use the same */
    crt_status_t *failed;     /* gets the status of a layer that could not compute */
    crt_norm_sum_t *norm_sum; /* of batch norms: NULL, or adds up what others have */
    void *norm_context;

    const float *dy;
    float *dparams;                   /* NULL: made by an earlier call on the same step */
    float *dx[CRTI_LAYER_INPUTS_MAX]; /* NULL: not needed, or not yet */
} crti_layer_pass_t;

typedef struct crti_layer_ops {
    const char *name;
    bool reads_keys; /* its input is keys, int64 */
    bool is_view;    /* the outputs are the inputs, unchanged: neither pass is called */
    /* the gradient of each input is that of the output: backward isn't called */
    bool is_sum;
    bool in_place;    /* forward may write y over x[0] */
    bool dx_in_place; /* backward may write dx[0] over dy */
    bool needs_y;     /* backward reads y */
    bool splits;      /* backward may be called for dparams first and for dx after that */

    /* Fills in `out` and everything below it from `spec` and `in`; `index` is for the error
     * text. */
    crt_status_t (*shape)(crti_layer_t *layer, size_t index);

    void (*init)(const crti_layer_t *layer, float *params, crti_random_t *random);
    void (*init_statistics)(const crti_layer_t *layer, float *statistics);

    /* May be NULL. Before passes over `rows` samples; again when that or `training` changes. */
    crt_status_t (*prepare)(crti_layer_t *layer, int rows, bool training);
    void (*release)(crti_layer_t *layer); /* what it has made */
    void (*forward)(const crti_layer_t *layer, const crti_layer_pass_t *step);
    void (*backward)(const crti_layer_t *layer, const crti_layer_pass_t *step);
} crti_layer_ops_t;

struct crti_layer {
    const crti_layer_ops_t *ops;
    crt_layer_t spec;
    int input_count;
    /* layers whose outputs are read; -1: the model's input */
    int sources[CRTI_LAYER_INPUTS_MAX];
    crti_shape_t in[CRTI_LAYER_INPUTS_MAX];

    crti_shape_t out;
    int array_count;
    struct {
        int rows, cols;
    } arrays[CRTI_LAYER_ARRAYS_MAX];
    size_t kept_per_row, kept_fixed; /* floats */
    size_t statistics_count;
    size_t workspace;           /* floats; set by prepare */
    void *own;                  /* likewise */
    struct crti_device *device; /* that `ops` compute on; NULL: the host */

    size_t params_at;     /* first parameter in the flat buffers */
    size_t statistics_at; /* in the flat buffer of statistics */
    size_t params_count;
};

extern const crti_layer_ops_t crti_layer_dense, crti_layer_relu, crti_layer_dropout,
    crti_layer_hash_embed, crti_layer_maxout, crti_layer_expand_window, crti_layer_norm,
    crti_layer_add, crti_layer_concatenate, crti_layer_parameters, crti_layer_convolution,
    crti_layer_max_pool, crti_layer_average_pool, crti_layer_batch_norm,
    crti_layer_flatten, crti_layer_subsample, crti_layer_gelu, crti_layer_mish,
    crti_layer_attention, crti_layer_patches, crti_layer_token, crti_layer_positions;

/* The host's operations; NULL when no kind has that number. */
const crti_layer_ops_t *crti_layer_ops_of(crt_layer_kind_t kind);

/* Outputs as the first input. */
crt_status_t crti_layer_same_shape(crti_layer_t *layer, size_t index);

/* Adds an array of parameters. */
void crti_layer_add_array(crti_layer_t *layer, int rows, int cols);

/* W and b, as `init` of the spec says; W has `fan_in` inputs of each of its outputs. */
void crti_layer_draw(const crti_layer_t *layer, float *weights, size_t count,
                     size_t fan_in, size_t fan_out, float *biases, size_t bias_count,
                     crti_random_t *random);

/* Places of all samples of a step, seen as rows of a matrix of channels. */
static inline int crti_layer_rows(const crti_layer_t *layer,
                                  const crti_layer_pass_t *step)
{
    return step->rows * (int)crti_shape_places(layer->in[0]);
}

/* Softmax of every row of logits(rows, classes), in place. */
void crti_softmax(int rows, int classes, float *logits);

/* CRT_ERR_INVALID when a label is no class. */
crt_status_t crti_softmax_check(int rows, int classes, const uint8_t *labels);

/* From probabilities: their gradient (p - onehot) / rows, in place; returns the mean
 * cross-entropy. CRT_ERR_INVALID when a label is no class (checked before any change). */
crt_status_t crti_softmax_gradients(int rows, int classes, float *probabilities,
                                    const uint8_t *labels, double *loss_out);

#endif
