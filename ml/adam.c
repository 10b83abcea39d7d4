/* SPDX-License-Identifier: Apache-2.0 */
/* Adam, as Thinc computes it:
 *
 *     m = b1 m + (1 - b1) g          v = b2 v + (1 - b2) g^2
 *     w -= rate sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon)
 *
 * The bias corrections are in the rate, so epsilon is not corrected (Kingma and Ba, end
 * of section 2). AdamW, as PyTorch computes it, corrects it, and decays the weights before:
 *
 *     w -= rate l2 w                 w -= rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon)
 *
 * which is the same step with epsilon * sqrt(1 - b2^t).
 */
#include "ml/optimizer.h"

#include <math.h>

static void update(const crt_optimizer_options_t *o, uint64_t step,
                   const crti_update_t *u)
{
    bool before = o->kind == CRT_OPTIMIZER_ADAMW;
    double t = (double)step, fix = sqrt(1 - pow(o->beta2, t));
    float rate = (float)(o->learn_rate * fix / (1 - pow(o->beta1, t)));
    float epsilon = (float)(o->epsilon * (before ? fix : 1)), scale = u->scale;
    float keep1 = (float)o->beta1, keep2 = (float)o->beta2;
    float take1 = (float)(1 - o->beta1), take2 = (float)(1 - o->beta2);
    float decay = o->l2_is_weight_decay ? (float)(o->learn_rate * o->l2) : 0;
    float decay_before = before ? decay : 0, decay_after = before ? 0 : decay;
    float *restrict w = u->weights, *restrict g = u->gradients;
    float *restrict m = u->state[0], *restrict v = u->state[1];

    for (size_t i = 0; i < u->count; i++) {
        float gi = g[i] * scale, wi = w[i] - decay_before * w[i];

        m[i] = keep1 * m[i] + take1 * gi;
        v[i] = keep2 * v[i] + take2 * gi * gi;
        wi -= rate * m[i] / (sqrtf(v[i]) + epsilon);
        w[i] = wi - decay_after * wi;
        g[i] = 0;
    }
}

const crti_optimizer_ops_t crti_optimizer_adam = {
    .name = "adam", .states = 2, .update = update};
const crti_optimizer_ops_t crti_optimizer_adamw = {
    .name = "adamw", .states = 2, .update = update};
