/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes: arguments of kernels, for both sides. NVRTC gets this file in front of kernels.cu, so it
 * includes nothing. */
#ifndef CRTI_ML_CUDA_SHAPES_H
#define CRTI_ML_CUDA_SHAPES_H

/* Outputs of a layer: rows of height x width places, channels first or last. */
typedef struct crti_cuda_grid {
    int rows, height, width, channels, first;
} crti_cuda_grid_t;

/* Windows over `in`, each a place of `out`. */
typedef struct crti_cuda_windows {
    crti_cuda_grid_t in, out;
    int height, width, stride, padding; /* of a window */
} crti_cuda_windows_t;

/* A batch norm over `rows` places, channels last; `blocks` sum them in the first step. */
typedef struct crti_cuda_norm {
    int rows, channels, blocks;
    float epsilon, momentum, factor; /* factor: of the gradients of parameters */
} crti_cuda_norm_t;

#define CRTI_CUDA_CHUNK 16384 /* floats */

/* Floats of an array that a block of threads works on. */
typedef struct crti_cuda_chunk {
    unsigned long long first;
    int count, array;
} crti_cuda_chunk_t;

/* Of an optimizer's step: how much the gradients are scaled, or why the step is not made. */
typedef struct crti_cuda_verdict {
    int array; /* that is to blame; -1: none */
    int is_finite;
    double norm; /* its */
} crti_cuda_verdict_t;

typedef struct crti_cuda_limits {
    double clip, global_clip, norm_limit; /* 0: none */
} crti_cuda_limits_t;

/* Factors of a step: see ml/sgd.c and ml/adam.c. */
typedef struct crti_cuda_rule {
    float rate, decay_before, decay_after;
    float keep1, take1, keep2, take2, epsilon; /* Adam; SGD: keep1 is the momentum */
    int nesterov;
} crti_cuda_rule_t;

#endif
