/* SPDX-License-Identifier: Apache-2.0 */
/* Rectified Adam (Liu et al., 2019), as Thinc computes it: moments as in Adam, and a step without
 * the second one as long as there are too few gradients to know it.
 *
 *     r(t) = r_max - 2 t b2^t / (1 - b2^t)        r_max = 2 / (1 - b2) - 1
 *     r >= 5:  w -= rate sqrt((1 - b2^t) (r - 4) (r - 2) r_max / ((r_max - 4) (r_max - 2) r)) / (1
 *     - b1^t)
 *                   * m / (sqrt(v) + epsilon)
 *     else:    w -= rate / (1 - b1^t) * m
 *
 * Thinc's t is one more than the number of the step.
 */
#include <math.h>

#include "ml/optimizer.h"

double crti_radam_step_size(const crt_optimizer_options_t *o, double t,
                            bool *rectified_out)
{
    double power = pow(o->beta2, t), most = 2 / (1 - o->beta2) - 1;
    double length = most - 2 * t * power / (1 - power);
    double bias = 1 - pow(o->beta1, t);

    *rectified_out = length >= 5;
    if (!*rectified_out)
        return 1 / bias;
    return sqrt((1 - power) * (length - 4) / (most - 4) * (length - 2) / length * most /
                (most - 2)) /
           bias;
}

static void update(const crt_optimizer_options_t *o, uint64_t step,
                   const crti_update_t *u)
{
    bool rectified;
    float rate =
        (float)(o->learn_rate * crti_radam_step_size(o, (double)step + 1, &rectified));
    float epsilon = (float)o->epsilon, scale = u->scale;
    float keep1 = (float)o->beta1, keep2 = (float)o->beta2;
    float take1 = (float)(1 - o->beta1), take2 = (float)(1 - o->beta2);
    float decay = o->l2_is_weight_decay ? (float)(o->learn_rate * o->l2) : 0;
    float *restrict w = u->weights, *restrict g = u->gradients;
    float *restrict m = u->state[0], *restrict v = u->state[1];

    for (size_t i = 0; i < u->count; i++) {
        float gi = g[i] * scale, wi = w[i];

        v[i] = keep2 * v[i] + take2 * gi * gi;
        m[i] = keep1 * m[i] + take1 * gi;
        wi -= rate * (rectified ? m[i] / (sqrtf(v[i]) + epsilon) : m[i]);
        w[i] = wi - decay * wi;
        g[i] = 0;
    }
}

const crti_optimizer_ops_t crti_optimizer_radam = {
    .name = "radam", .states = 2, .update = update};
