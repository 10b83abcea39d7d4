/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer: from summed gradients to new weights.
 *
 * Where it sits
 *     gradients -> [ optimizer.c: sum, L2, norms, clip -> adam.c or sgd.c ] -> weights
 * Invariants
 *     All norms are known, and finite, before the first weight changes: a bad gradient
 *     leaves model and optimizer as they were.
 * Failure
 *     A gradient that is not finite is refused and forgotten; the next step starts clean.
 */
#ifndef CRTI_ML_OPTIMIZER_H
#define CRTI_ML_OPTIMIZER_H

#include "ml/model.h"

/* One array's part of an update. `gradients` is zero afterwards; `copy` (may be NULL)
 * gets the new weights. */
typedef struct crti_update {
    size_t count;
    float scale; /* of the gradient: the clip */
    float *weights, *gradients, *copy;
    float *state[2]; /* the optimizer's own numbers, zero at the start */
} crti_update_t;

typedef struct crti_optimizer_ops {
    const char *name;
    int states; /* floats kept per parameter, at most 2 */

    /* `step` counts from 1. */
    void (*update)(const crt_optimizer_options_t *options, uint64_t step,
                   const crti_update_t *update);
} crti_optimizer_ops_t;

struct crt_optimizer {
    const crti_optimizer_ops_t *ops;
    crt_optimizer_options_t options;
    const crt_model_t *model;
    uint64_t steps;
    float *state[2];
    crt_tensor_t state_views[2];
    double *norms; /* of each array's gradient, in this step */
};

extern const crti_optimizer_ops_t crti_optimizer_adam;
extern const crti_optimizer_ops_t crti_optimizer_sgd;

/* Square of the L2 norm. */
double crti_optimizer_square(const float *x, size_t count);

#endif
