/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an optimizer on a run of weights: what comes before and after the rule itself.
 *
 *     scale = clip of the whole gradient * clip of the array's
 *     rule (adam.c, radam.c, sgd.c): weights, gradients -> weights
 *     look-ahead, every k steps:     slow += rate * (w - slow); w = slow
 *     averages:                      a -= (1 - decay) * (a - w), decay = min((1 + t) / (10 + t),
 *     0.9999)
 */
#include <math.h>
#include <string.h>

#include "ml/optimizer.h"

#define AVERAGES_DECAY_MAX 0.9999

crt_status_t crti_optimizer_bad(const crt_optimizer_t *o, size_t index, const char *what,
                                double norm)
{
    const crti_array_t *array = &o->model->arrays[index];

    return crt_raise(CRT_ERR_INVALID,
                     "step %llu: the gradient of layer %zu (%s), array %zu (%d x %d) %s "
                     "(norm %g)",
                     (unsigned long long)o->steps + 1, array->layer,
                     o->model->layers[array->layer].ops->name, index, array->rows,
                     array->cols, what, norm);
}

crt_status_t crti_optimizer_scale(const crt_optimizer_t *o, const double *squares,
                                  double clip, double *scale_out)
{
    double sum = 0, norm, limit = o->options.norm_limit;
    size_t largest = 0;

    for (size_t i = 0; i < o->model->array_count; i++) {
        if (!isfinite(squares[i]))
            return crti_optimizer_bad(o, i, "is not finite", sqrt(squares[i]));
        if (squares[i] > squares[largest])
            largest = i;
        sum += squares[i];
    }
    norm = sqrt(sum);
    if (limit > 0 && norm > limit)
        return crti_optimizer_bad(o, largest, "has exploded", sqrt(squares[largest]));
    clip = clip > 0 ? clip : o->options.global_clip;
    *scale_out = clip > 0 && norm >= clip ? clip / norm : 1;
    return CRT_OK;
}

float crti_optimizer_array_scale(const crt_optimizer_t *o, double square, double whole)
{
    double norm = sqrt(square) * whole, limit = o->options.grad_clip;

    return (float)(limit > 0 && norm >= limit ? whole * limit / norm : whole);
}

static void look_ahead(float *restrict w, float *restrict slow, size_t count, float rate)
{
    for (size_t i = 0; i < count; i++)
        w[i] = slow[i] += rate * (w[i] - slow[i]);
}

float crti_optimizer_average_rate(uint64_t step)
{
    double t = (double)step, decay = (1 + t) / (10 + t);

    return (float)(1 - (decay < AVERAGES_DECAY_MAX ? decay : AVERAGES_DECAY_MAX));
}

static void average(float *restrict averages, const float *restrict w, size_t count,
                    uint64_t step)
{
    float rate = crti_optimizer_average_rate(step);

    for (size_t i = 0; i < count; i++)
        averages[i] -= rate * (averages[i] - w[i]);
}

void crti_optimizer_update(const crt_optimizer_t *o, crt_model_t *model, size_t first,
                           size_t count, float scale, float *gradients)
{
    const crt_optimizer_options_t *options = &o->options;
    float *w = model->weights + first;
    crti_update_t update = {
        .count = count, .scale = scale, .weights = w, .gradients = gradients + first};

    for (int i = 0; i < o->ops->states; i++)
        update.state[i] = o->state[i] + first;
    if (o->slow && o->steps == 1)
        memcpy(o->slow + first, w, count * sizeof(float));
    o->ops->update(options, o->steps, &update);
    if (o->slow && o->steps % (uint64_t)options->lookahead_steps == 0)
        look_ahead(w, o->slow + first, count, (float)options->lookahead_rate);
    if (o->averages >= 0)
        average(o->state[o->averages] + first, w, count, o->steps);
}
