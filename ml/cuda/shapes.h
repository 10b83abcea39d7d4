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

/* Patches of `side` x `side` places of an image; the image's size. */
typedef struct crti_cuda_patches {
    int width, channels, side;
} crti_cuda_patches_t;

/* An embedding: keys are those of a column. */
typedef struct crti_cuda_table {
    int rows, width, columns, column;
    unsigned seed;
} crti_cuda_table_t;

typedef struct crti_cuda_range {
    int first, end;
} crti_cuda_range_t;

/* The parser of named entities: a word's tag, crti_ner_tag_t. */
typedef struct crti_cuda_tag {
    unsigned char action, label, is_space, starts_sentence;
} crti_cuda_tag_t;

/* A state, and the steps that it takes: numbers [step, step + steps). */
typedef struct crti_cuda_state {
    int first, length; /* its document's words */
    int at, start, label;
    int step, steps;
} crti_cuda_state_t;

typedef struct crti_cuda_parser {
    int labels, moves, outs, pieces, units, features;
    int has_upper, trains, drops;
    float keep;
    unsigned long long seed, limit; /* of the dropout */
    unsigned long long bias_at, padding_at, upper_at,
        upper_bias_at; /* in the flat weights */
} crti_cuda_parser_t;

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
    int is_plain; /* Adam: a step without the second moment */
} crti_cuda_rule_t;

#endif
