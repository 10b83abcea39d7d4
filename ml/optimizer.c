/* SPDX-License-Identifier: Apache-2.0 */
/* What all optimizers share: options, sums, norms, the order of one step. */
#include "ml/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ml/matrix.h"
#include "runtime/base/copy_struct.h"

/* Sums and norms go through memory in pieces that stay in the first cache. */
#define PIECE 2048

void crt_optimizer_options_init(crt_optimizer_options_t *options, size_t size,
                                crt_optimizer_kind_t kind, double learn_rate)
{
    bool is_sgd = kind == CRT_OPTIMIZER_SGD, is_adamw = kind == CRT_OPTIMIZER_ADAMW;
    crt_optimizer_options_t mine = {.struct_size = size,
                                    .kind = kind,
                                    .learn_rate = learn_rate,
                                    .grad_clip = is_sgd || is_adamw ? 0 : 1.0,
                                    .l2 = is_adamw ? 0.01 : 0,
                                    .l2_is_weight_decay = true,
                                    .beta1 = is_sgd ? 0 : 0.9,
                                    .beta2 = is_sgd ? 0 : 0.999,
                                    .epsilon = is_sgd ? 0 : 1e-8,
                                    .use_averages = kind == CRT_OPTIMIZER_RADAM};

    crti_give_struct(options, size, &mine, sizeof(mine));
}

static const crti_optimizer_ops_t *ops_of(crt_optimizer_kind_t kind)
{
    switch (kind) {
    case CRT_OPTIMIZER_ADAM: return &crti_optimizer_adam;
    case CRT_OPTIMIZER_SGD: return &crti_optimizer_sgd;
    case CRT_OPTIMIZER_ADAMW: return &crti_optimizer_adamw;
    case CRT_OPTIMIZER_RADAM: return &crti_optimizer_radam;
    }
    return NULL;
}

static bool in(double value, double low, double high)
{
    return value >= low && value < high; /* false for NaN */
}

static crt_status_t check_rule(const crt_optimizer_options_t *o)
{
    if (o->kind != CRT_OPTIMIZER_SGD &&
        (!in(o->beta1, 0, 1) || !in(o->beta2, 0, 1) || !in(o->epsilon, 1e-30, INFINITY)))
        return crt_raise(CRT_ERR_INVALID, "Adam with betas %g and %g, epsilon %g",
                         o->beta1, o->beta2, o->epsilon);
    if (o->kind == CRT_OPTIMIZER_SGD && !in(o->momentum, 0, 1))
        return crt_raise(CRT_ERR_INVALID, "momentum %g is not in [0, 1)", o->momentum);
    if (o->lookahead_steps < 0 ||
        (o->lookahead_steps > 0 && !(o->lookahead_rate > 0 && o->lookahead_rate <= 1)))
        return crt_raise(CRT_ERR_INVALID, "look-ahead of %d steps with rate %g",
                         o->lookahead_steps, o->lookahead_rate);
    return CRT_OK;
}

static crt_status_t check_rate(double learn_rate)
{
    return in(learn_rate, 0, INFINITY)
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID, "learn rate %g", learn_rate);
}

static crt_status_t check(const crt_optimizer_options_t *o)
{
    crt_status_t status = CRT_OK;

    if (!ops_of(o->kind))
        return crt_raise(CRT_ERR_INVALID, "no optimizer has the number %d", (int)o->kind);
    status = check_rate(o->learn_rate);
    if (status != CRT_OK)
        return status;
    if (!in(o->grad_clip, 0, INFINITY) || !in(o->l2, 0, INFINITY))
        return crt_raise(CRT_ERR_INVALID, "clip %g, L2 %g", o->grad_clip, o->l2);
    if (!in(o->global_clip, 0, INFINITY) || !in(o->norm_limit, 0, INFINITY))
        return crt_raise(CRT_ERR_INVALID, "global clip %g, limit of the norm %g",
                         o->global_clip, o->norm_limit);
    return check_rule(o);
}

/* What the optimizer remembers: crti_optimizer_t says in which order. */
static crt_status_t make_states(crt_optimizer_t *o, size_t count)
{
    bool ok = true;
    int slow = o->options.lookahead_steps > 0 ? o->ops->states : -1;

    o->states = o->ops->states + (slow >= 0);
    o->averages = o->options.use_averages ? o->states++ : -1;
    for (int i = 0; i < o->states; i++) {
        o->state[i] = crti_model_allocate(o->model, count);
        o->state_views[i] = crt_tensor_floats(o->state[i], count);
        crti_place_at(&o->state_views[i], crt_model_gpu(o->model));
        ok = ok && o->state[i];
    }
    o->slow = slow >= 0 ? o->state[slow] : NULL;
    return ok ? CRT_OK
              : crti_model_no_memory(o->model, (size_t)o->states * count,
                                     "an optimizer of %zu parameters", count);
}

crt_status_t crt_optimizer_new(crt_model_t *model, const crt_optimizer_options_t *options,
                               crt_optimizer_t **optimizer_out)
{
    crt_optimizer_options_t mine = crt_adam_options(0.001);
    crt_status_t status =
        options ? CRTI_COPY_STRUCT(&mine, options, "crt_adam_options and its like")
                : CRT_OK;
    crt_optimizer_t *o;

    if (status == CRT_OK)
        status = check(&mine);
    if (status != CRT_OK)
        return status;
    o = calloc(1, sizeof(*o));
    if (!o)
        return crt_raise(CRT_ERR_NO_MEMORY, "optimizer");
    o->ops = ops_of(mine.kind);
    o->options = mine;
    o->model = model;
    model->optimizers++;
    if (model->device)
        model->device->ops->enter(model->device);
    o->squares = calloc(model->array_count + 1, sizeof(*o->squares));
    status = o->squares ? make_states(o, model->parameter_count)
                        : crt_raise(CRT_ERR_NO_MEMORY, "optimizer");
    if (status == CRT_OK && model->device)
        status = model->device->ops->open_optimizer(model->device, o);
    if (status != CRT_OK) {
        crt_optimizer_drop(&o);
        return status;
    }
    *optimizer_out = o;
    return CRT_OK;
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

/* The square of the norm of one array's summed gradient, L2 penalty included. */
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
    return square;
}

/* Piece by piece, so that the copy reads what the update left in the cache. */
static void update_array(const crt_optimizer_t *o, crt_model_t *model,
                         const crti_array_t *array, float scale, float *copy)
{
    for (size_t done = 0; done < array->count; done += PIECE) {
        size_t at = array->at + done;
        size_t size = array->count - done < PIECE ? array->count - done : PIECE;

        crti_optimizer_update(o, model, at, size, scale, model->gradients);
        if (copy)
            memcpy(copy + at, model->weights + at, size * sizeof(float));
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
        status = crti_model_check_flat(model, gradients[i], "gradients");
    if (status == CRT_OK && weights_out)
        status = crti_model_check_flat(model, weights_out, "weights");
    return status;
}

static crt_status_t apply_there(crt_optimizer_t *o, crt_model_t *model,
                                const crt_tensor_t *const *gradients, size_t count,
                                crt_tensor_t *weights_out)
{
    crti_device_t *device = model->device;
    crt_status_t status;

    device->ops->enter(device);
    for (size_t i = 0; i < count; i++)
        device->ops->add_floats(device, model->gradients, gradients[i]->data,
                                model->parameter_count);
    status = device->ops->update(device, o, model);
    if (status != CRT_OK) {
        crt_model_zero_gradients(model);
        return status;
    }
    model->has_gradients = false;
    return weights_out ? crt_model_copy_tensor(model, &model->weights_view, weights_out)
                       : CRT_OK;
}

crt_status_t crt_optimizer_apply(crt_optimizer_t *o, crt_model_t *model,
                                 const crt_tensor_t *const *gradients, size_t count,
                                 crt_tensor_t *weights_out)
{
    crt_status_t status = check_apply(o, model, gradients, count, weights_out);
    double whole;

    if (status != CRT_OK)
        return status;
    if (model->device)
        return apply_there(o, model, gradients, count, weights_out);
    for (size_t i = 0; i < model->array_count; i++)
        o->squares[i] = sum_array(o, model, gradients, count, &model->arrays[i]);
    status = crti_optimizer_scale(o, o->squares, 0, &whole);
    if (status != CRT_OK) {
        crt_model_zero_gradients(model);
        return status;
    }
    o->steps++;
    for (size_t i = 0; i < model->array_count; i++)
        update_array(o, model, &model->arrays[i],
                     crti_optimizer_array_scale(o, o->squares[i], whole),
                     weights_out ? weights_out->data : NULL);
    model->has_gradients = false;
    return CRT_OK;
}

crt_status_t crt_optimizer_step(crt_optimizer_t *o, crt_model_t *model)
{
    return crt_optimizer_apply(o, model, NULL, 0, NULL);
}

crt_status_t crt_optimizer_set_learn_rate(crt_optimizer_t *o, double learn_rate)
{
    crt_status_t status = check_rate(learn_rate);

    if (status == CRT_OK)
        o->options.learn_rate = learn_rate;
    return status;
}

const crt_tensor_t *crt_optimizer_averages(const crt_optimizer_t *o)
{
    return o->averages >= 0 && o->steps > 0 ? &o->state_views[o->averages] : NULL;
}

uint64_t crt_optimizer_steps(const crt_optimizer_t *o)
{
    return o->steps;
}

int crt_optimizer_states(const crt_optimizer_t *o)
{
    return o->states;
}

const crt_tensor_t *crt_optimizer_state(crt_optimizer_t *o, int index)
{
    return &o->state_views[index];
}

void crt_optimizer_set_steps(crt_optimizer_t *o, uint64_t steps)
{
    o->steps = steps;
}

void crt_optimizer_drop(crt_optimizer_t **dropped)
{
    crt_optimizer_t *o = *dropped;

    if (!o)
        return;
    if (o->model->device) {
        o->model->device->ops->enter(o->model->device);
        o->model->device->ops->close_optimizer(o->model->device, o);
    }
    for (int i = 0; i < o->states; i++)
        crti_model_release(o->model, o->state[i]);
    o->model->optimizers--;
    free(o->squares);
    free(o);
    *dropped = NULL;
}
