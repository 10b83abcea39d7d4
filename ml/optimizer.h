/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer: from summed gradients to new weights.
 *
 * Where it sits
 *     gradients -> [ optimizer.c: sum, L2, norms -> update.c: clip -> adam.c, radam.c or sgd.c
 *                    -> update.c: look-ahead, averages ] -> weights
 * Invariants
 *     All norms are known, and finite, before the first weight changes: a bad gradient
 *     leaves model and optimizer as they were.
 * Failure
 *     A gradient that is not finite is refused and forgotten; the next step starts clean.
 */
#ifndef CRTI_ML_OPTIMIZER_H
#define CRTI_ML_OPTIMIZER_H

#include "ml/model.h"

/* One array's part of an update. `gradients` is zero afterwards. */
typedef struct crti_update {
    size_t count;
    float scale; /* of the gradient: the clip */
    float *weights, *gradients;
    float *state[2]; /* the rule's own numbers, zero at the start */
} crti_update_t;

typedef struct crti_optimizer_ops {
    const char *name;
    int states; /* of the rule: floats kept per parameter, at most 2 */

    /* `step` counts from 1. */
    void (*update)(const crt_optimizer_options_t *options, uint64_t step,
                   const crti_update_t *update);
} crti_optimizer_ops_t;

struct crt_optimizer {
    const crti_optimizer_ops_t *ops;
    crt_optimizer_options_t options;
    crt_model_t *model;
    uint64_t steps;
    int states;
    /* Of the rule, then the slow weights, then the averages: whichever there are. */
    float *state[CRT_OPTIMIZER_STATES_MAX];
    crt_tensor_t state_views[CRT_OPTIMIZER_STATES_MAX];
    float *slow;     /* one of the states, or NULL */
    int averages;    /* number of that state; -1: there are none */
    double *squares; /* of each array's gradient, in this step: their sum */
    void *own;       /* the device's */
};

extern const crti_optimizer_ops_t crti_optimizer_adam, crti_optimizer_adamw,
    crti_optimizer_radam, crti_optimizer_sgd;

/* How much the gradient is scaled as a whole, so that its norm is at most `clip` (0: as the options
 * say). CRT_ERR_INVALID, naming step and layer, when it is not finite or beyond the limit. */
crt_status_t crti_optimizer_scale(const crt_optimizer_t *optimizer, const double *squares,
                                  double clip, double *scale_out);

/* How much one array's gradient is scaled, of which the whole is scaled by `whole`. */
float crti_optimizer_array_scale(const crt_optimizer_t *optimizer, double square,
                                 double whole);

/* Step number `optimizer->steps` of `count` weights from `first` on. */
void crti_optimizer_update(const crt_optimizer_t *optimizer, crt_model_t *model,
                           size_t first, size_t count, float scale, float *gradients);

/* RAdam: the factor of the step after t - 1 others; `*rectified_out`: it is one with the second
 * moment. */
double crti_radam_step_size(const crt_optimizer_options_t *options, double t,
                            bool *rectified_out);

/* How far averages move to the weights in step `step`. */
float crti_optimizer_average_rate(uint64_t step);

/* CRT_ERR_INVALID for array `index` that `what`, such as "is not finite". */
crt_status_t crti_optimizer_bad(const crt_optimizer_t *optimizer, size_t index,
                                const char *what, double norm);

/* Square of the L2 norm. */
double crti_optimizer_square(const float *x, size_t count);

#endif
