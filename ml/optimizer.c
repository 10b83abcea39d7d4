/* SPDX-License-Identifier: Apache-2.0 */
/* What all optimizers share: options, sums, norms, the order of one step. */
#include "ml/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ml/matrix.h"

/* Sums and norms go through memory in pieces that stay in the first cache. */
#define PIECE 2048

crt_optimizer_options_t crt_adam_options(double learn_rate)
{
    return (crt_optimizer_options_t){.size = sizeof(crt_optimizer_options_t),
                                     .kind = CRT_ADAM,
                                     .learn_rate = learn_rate,
                                     .grad_clip = 1.0,
                                     .l2_is_weight_decay = true,
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .epsilon = 1e-8};
}

crt_optimizer_options_t crt_sgd_options(double learn_rate, double momentum)
{
    return (crt_optimizer_options_t){.size = sizeof(crt_optimizer_options_t),
                                     .kind = CRT_SGD,
                                     .learn_rate = learn_rate,
                                     .l2_is_weight_decay = true,
                                     .momentum = momentum};
}

static bool in(double value, double low, double high)
{
    return value >= low && value < high; /* false for NaN */
}

static crt_status_t check(const crt_optimizer_options_t *o)
{
    if (o->size != sizeof(*o))
        return crt_raise(CRT_ERR_INVALID, "optimizer options of %zu bytes, not %zu",
                         o->size, sizeof(*o));
    if (o->kind != CRT_ADAM && o->kind != CRT_SGD)
        return crt_raise(CRT_ERR_INVALID, "no optimizer has the number %d", (int)o->kind);
    if (!in(o->learn_rate, 0, INFINITY))
        return crt_raise(CRT_ERR_INVALID, "learn rate %g", o->learn_rate);
    if (!in(o->grad_clip, 0, INFINITY) || !in(o->l2, 0, INFINITY))
        return crt_raise(CRT_ERR_INVALID, "clip %g, L2 %g", o->grad_clip, o->l2);
    if (o->kind == CRT_ADAM &&
        (!in(o->beta1, 0, 1) || !in(o->beta2, 0, 1) || !in(o->epsilon, 1e-30, INFINITY)))
        return crt_raise(CRT_ERR_INVALID, "Adam with betas %g and %g, epsilon %g",
                         o->beta1, o->beta2, o->epsilon);
    if (o->kind == CRT_SGD && !in(o->momentum, 0, 1))
        return crt_raise(CRT_ERR_INVALID, "momentum %g is not in [0, 1)", o->momentum);
    return CRT_OK;
}

crt_status_t crt_optimizer_new(crt_model_t *model, const crt_optimizer_options_t *options,
                               crt_optimizer_t **optimizer_out)
{
    crt_status_t status = check(options);
    crt_optimizer_t *o;
    bool ok;

    if (status != CRT_OK)
        return status;
    o = calloc(1, sizeof(*o));
    if (!o)
        return crt_raise(CRT_ERR_NO_MEMORY, "optimizer");
    o->ops = options->kind == CRT_ADAM ? &crti_optimizer_adam : &crti_optimizer_sgd;
    o->options = *options;
    o->model = model;
    o->norms = calloc(model->array_count, sizeof(*o->norms));
    ok = o->norms != NULL;
    for (int i = 0; i < o->ops->states; i++) {
        o->state[i] = calloc(model->parameter_count, sizeof(float));
        o->state_views[i] = crt_tensor_floats(o->state[i], model->parameter_count);
        ok = ok && o->state[i];
    }
    if (!ok) {
        crt_optimizer_free(o);
        return crt_raise(CRT_ERR_NO_MEMORY, "optimizer of %zu parameters",
                         model->parameter_count);
    }
    *optimizer_out = o;
    return CRT_OK;
}

crt_status_t crt_adam_new(crt_model_t *model, double learn_rate,
                          crt_optimizer_t **optimizer_out)
{
    crt_optimizer_options_t options = crt_adam_options(learn_rate);

    return crt_optimizer_new(model, &options, optimizer_out);
}

crt_status_t crt_sgd_new(crt_model_t *model, double learn_rate, double momentum,
                         crt_optimizer_t **optimizer_out)
{
    crt_optimizer_options_t options = crt_sgd_options(learn_rate, momentum);

    return crt_optimizer_new(model, &options, optimizer_out);
}

double crti_optimizer_square(const float *x, size_t count)
{
    float parts[16] = {0}; /* independent sums, so that the compiler may use vectors */
    double sum = 0;
    size_t i = 0;

    for (; i + 16 <= count; i += 16)
        for (size_t j = 0; j < 16; j++)
            parts[j] += x[i + j] * x[i + j];
    for (; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    for (size_t j = 0; j < 16; j++)
        sum += (double)parts[j];
    if (isfinite(sum))
        return sum;
    for (sum = 0, i = 0; i < count;
         i++) /* squares beyond float: numbers may still be fine */
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* Adds to `sum` what each gradient has at `at`. */
static void add_piece(float *restrict sum, const crt_tensor_t *const *gradients,
                      size_t count, size_t at, size_t size)
{
    for (size_t k = 0; k < count; k++) {
        const float *restrict from = (const float *)gradients[k]->data + at;

        for (size_t i = 0; i < size; i++)
            sum[i] += from[i];
    }
}

/* The norm of one array's summed gradient, L2 penalty included. */
static double sum_array(const crt_optimizer_t *o, crt_model_t *model,
                        const crt_tensor_t *const *gradients, size_t count,
                        const crti_array_t *array)
{
    float penalty = o->options.l2_is_weight_decay ? 0 : (float)o->options.l2;
    double square = 0;

    for (size_t done = 0; done < array->count; done += PIECE) {
        size_t at = array->at + done;
        size_t size = array->count - done < PIECE ? array->count - done : PIECE;
        float *sum = model->gradients + at;

        add_piece(sum, gradients, count, at, size);
        if (penalty > 0)
            for (size_t i = 0; i < size; i++)
                sum[i] += penalty * model->weights[at + i];
        square += crti_optimizer_square(sum, size);
    }
    return sqrt(square);
}

static crt_status_t sum_all(crt_optimizer_t *o, crt_model_t *model,
                            const crt_tensor_t *const *gradients, size_t count)
{
    for (size_t i = 0; i < model->array_count; i++) {
        o->norms[i] = sum_array(o, model, gradients, count, &model->arrays[i]);
        if (isfinite(o->norms[i]))
            continue;
        crt_model_zero_gradients(model);
        return crt_raise(CRT_ERR_INVALID,
                         "the gradient of array %zu (%d x %d) is not finite", i,
                         model->arrays[i].rows, model->arrays[i].cols);
    }
    return CRT_OK;
}

/* Piece by piece, so that the copy reads what the update left in the cache. */
static void update_array(const crt_optimizer_t *o, crt_model_t *model,
                         const crti_array_t *array, double norm, float *copy)
{
    double clip = o->options.grad_clip;
    float scale = clip > 0 && norm >= clip ? (float)(clip / norm) : 1.0f;

    for (size_t done = 0; done < array->count; done += PIECE) {
        size_t at = array->at + done;
        crti_update_t update = {
            .count = array->count - done < PIECE ? array->count - done : PIECE,
            .scale = scale,
            .weights = model->weights + at,
            .gradients = model->gradients + at,
            .state = {o->state[0] + at, o->state[1] ? o->state[1] + at : NULL},
        };

        o->ops->update(&o->options, o->steps, &update);
        if (copy)
            memcpy(copy + at, update.weights, update.count * sizeof(float));
    }
}

static crt_status_t check_apply(const crt_optimizer_t *o, const crt_model_t *model,
                                const crt_tensor_t *const *gradients, size_t count,
                                const crt_tensor_t *weights_out)
{
    crt_status_t status = CRT_OK;

    if (o->model != model)
        return crt_raise(CRT_ERR_INVALID, "the optimizer belongs to another model");
    if (count == 0 && !model->has_gradients)
        return crt_raise(CRT_ERR_INVALID, "no gradient since the last step");
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status =
            crti_matrix_check_flat(gradients[i], model->parameter_count, "gradients");
    if (status == CRT_OK && weights_out)
        status = crti_matrix_check_flat(weights_out, model->parameter_count, "weights");
    return status;
}

crt_status_t crt_optimizer_apply(crt_optimizer_t *o, crt_model_t *model,
                                 const crt_tensor_t *const *gradients, size_t count,
                                 crt_tensor_t *weights_out)
{
    crt_status_t status = check_apply(o, model, gradients, count, weights_out);

    if (status == CRT_OK)
        status = sum_all(o, model, gradients, count);
    if (status != CRT_OK)
        return status;
    o->steps++;
    for (size_t i = 0; i < model->array_count; i++)
        update_array(o, model, &model->arrays[i], o->norms[i],
                     weights_out ? weights_out->data : NULL);
    model->has_gradients = false;
    return CRT_OK;
}

crt_status_t crt_optimizer_step(crt_optimizer_t *o, crt_model_t *model)
{
    return crt_optimizer_apply(o, model, NULL, 0, NULL);
}

uint64_t crt_optimizer_steps(const crt_optimizer_t *o)
{
    return o->steps;
}

int crt_optimizer_states(const crt_optimizer_t *o)
{
    return o->ops->states;
}

const crt_tensor_t *crt_optimizer_state(crt_optimizer_t *o, int index)
{
    return &o->state_views[index];
}

void crt_optimizer_set_steps(crt_optimizer_t *o, uint64_t steps)
{
    o->steps = steps;
}

void crt_optimizer_free(crt_optimizer_t *o)
{
    if (!o)
        return;
    free(o->state[0]);
    free(o->state[1]);
    free(o->norms);
    free(o);
}
