/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent with momentum, as PyTorch computes it:
 *
 *     v = momentum v + g        w -= rate v        Nesterov: w -= rate (g + momentum v)
 */
#include "ml/optimizer.h"

static void update(const crt_optimizer_options_t *o, uint64_t step,
                   const crti_update_t *u)
{
    float rate = (float)o->learn_rate, keep = (float)o->momentum, scale = u->scale;
    float decay = o->l2_is_weight_decay ? (float)(o->learn_rate * o->l2) : 0;
    float *restrict w = u->weights, *restrict g = u->gradients, *restrict v = u->state[0];

    (void)step;
    for (size_t i = 0; i < u->count; i++) {
        float wi = w[i], gi = scale * g[i];

        v[i] = keep * v[i] + gi;
        wi -= rate * (o->nesterov ? gi + keep * v[i] : v[i]);
        w[i] = wi - decay * wi;
        g[i] = 0;
    }
}

const crti_optimizer_ops_t crti_optimizer_sgd = {
    .name = "sgd", .states = 1, .update = update};
