/* SPDX-License-Identifier: Apache-2.0 */
/* ParameterServer: the actor that owns the weights.
 *
 * Where it sits
 *     DataWorker -> gradients -> [ actors/parameter_server.c ] -> weights in the store
 * Ownership
 *     The actor's struct owns model and optimizer. Gradients are borrowed for the call;
 *     the new weights are written into an object that becomes the result.
 * Invariants
 *     One call is one update. A call that fails leaves weights and optimizer as they
 *     were.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/deposits.h"
#include "actors/spec.h"
#include <crt_actors.h>

typedef struct server {
    crt_model_t *model;
    crt_optimizer_t *optimizer;
    float *sum, *decoded; /* gradient, statistics; NULL before the first */
    crti_deposits_t deposits;
} server_t;

static crt_status_t create(void *self, crt_call_t *call)
{
    server_t *s = self;
    const crt_value_t *widths, *optimizer;
    double dropout;
    uint64_t seed;
    crt_optimizer_options_t options;
    crt_status_t status = crt_args(call, &widths, &dropout, &seed, &optimizer);

    if (status != CRT_OK)
        return status;
    status = crti_spec_optimizer(optimizer, &options);
    if (status != CRT_OK)
        return status;
    status = crti_spec_model(widths, dropout, seed, &s->model);
    return status == CRT_OK ? crt_optimizer_new(s->model, &options, &s->optimizer)
                            : status;
}

static void destroy(void *self)
{
    server_t *s = self;

    crt_optimizer_drop(&s->optimizer);
    crt_model_drop(&s->model);
    free(s->sum);
    free(s->decoded);
    crti_deposits_fini(&s->deposits);
}

static crt_status_t get_weights(void *self, crt_call_t *call)
{
    server_t *s = self;
    crt_object_t *object;
    crt_tensor_t weights;
    crt_status_t status = crti_spec_answer(s->model, &object, &weights);

    if (status != CRT_OK)
        return status;
    memcpy(weights.data, crt_model_weights(s->model)->data,
           crt_model_parameters(s->model) * sizeof(float));
    return crt_return(call, object);
}

static crt_status_t set_weights(void *self, crt_call_t *call)
{
    server_t *s = self;
    const crt_tensor_t *weights;
    crt_tensor_t view;
    crt_status_t status = crt_args(call, &weights);

    if (status == CRT_OK)
        status = crti_spec_weights(s->model, weights, &view);
    return status == CRT_OK ? crt_model_set_weights(s->model, &view) : status;
}

/* All gradients of the call; the caller frees the list. */
static crt_status_t read_gradients(crt_call_t *call, const crt_tensor_t ***gradients_out)
{
    size_t count = crt_arg_count(call);
    const crt_tensor_t **gradients = calloc(count ? count : 1, sizeof(*gradients));
    crt_status_t status = CRT_OK;

    if (!gradients)
        return crt_raise(CRT_ERR_NO_MEMORY, "list of %zu gradients", count);
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = crt_arg_at(call, i, &gradients[i]);
    if (status != CRT_OK) {
        free(gradients);
        return status;
    }
    *gradients_out = gradients;
    return CRT_OK;
}

static crt_status_t apply_gradients(void *self, crt_call_t *call)
{
    server_t *s = self;
    const crt_tensor_t **gradients;
    crt_object_t *object;
    crt_tensor_t weights;
    crt_status_t status = read_gradients(call, &gradients);

    if (status != CRT_OK)
        return status;
    status = crti_spec_answer(s->model, &object, &weights);
    if (status == CRT_OK) {
        status = crt_optimizer_apply(s->optimizer, s->model, gradients,
                                     crt_arg_count(call), &weights);
        if (status == CRT_OK)
            status = crt_return(call, object);
        else
            crt_object_abort(&object);
    }
    free(gradients);
    return status;
}

/* ---------------------------------------------------------------- steps */

static crt_status_t check_step(const server_t *s, uint64_t step)
{
    uint64_t made = crt_optimizer_steps(s->optimizer);

    if (step > made)
        return crt_raise(CRT_ERR_OBJECT_LOST,
                         "step %llu comes after updates that are lost; the server, "
                         "started again, has made %llu",
                         (unsigned long long)step, (unsigned long long)made);
    if (step < made)
        return crt_raise(CRT_ERR_INVALID, "step %llu is over; the server has made %llu",
                         (unsigned long long)step, (unsigned long long)made);
    return CRT_OK;
}

static size_t statistics_of(const server_t *s)
{
    return crt_tensor_count(crt_model_statistics(s->model));
}

/* Memory of a gradient and statistics, made once. */
static crt_status_t make_room(const server_t *s, float **room)
{
    size_t size = (crt_model_parameters(s->model) + statistics_of(s)) * sizeof(float);

    *room = *room ? *room : malloc(size);
    return *room ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "the sum of gradients");
}

/* An encoded gradient and the statistics behind it, into `decoded`. */
static crt_status_t decode(server_t *s, crt_call_t *call, size_t index)
{
    size_t floats = crt_model_parameters(s->model), size;
    size_t more = statistics_of(s) * sizeof(float);
    const crt_tensor_t *bytes;
    crt_status_t status = crt_arg_at(call, index, &bytes);

    if (status == CRT_OK)
        status = make_room(s, &s->decoded);
    if (status != CRT_OK)
        return status;
    size = crt_tensor_count(bytes) * crt_dtype_size(bytes->dtype);
    if (size < more)
        return crt_raise(CRT_ERR_INVALID, "a gradient of %zu bytes, %zu of statistics",
                         size, more);
    memcpy(s->decoded + floats, (const char *)bytes->data + size - more, more);
    return crt_compression_decode(bytes->data, size - more, s->decoded, floats);
}

/* What argument `index` says of `step`: a gradient as it came, or whose deposits to take. */
static crt_status_t read_gradient(server_t *s, crt_call_t *call, uint64_t step,
                                  size_t index, bool deposited, const float **data_out)
{
    int worker;
    crt_status_t status;

    if (!deposited) {
        status = decode(s, call, index);
        *data_out = s->decoded;
        return status;
    }
    status = crt_arg_at(call, index, &worker);
    return status == CRT_OK ? crti_deposits_get(&s->deposits, step, worker, data_out)
                            : status;
}

/* The average of the call's gradients, which begin at argument 1, into `sum`. */
static crt_status_t average(server_t *s, crt_call_t *call, uint64_t step, bool deposited)
{
    size_t count = crt_arg_count(call) - 1;
    size_t floats = crt_model_parameters(s->model) + statistics_of(s);
    float share = 1 / (float)count;
    crt_status_t status = make_room(s, &s->sum);

    if (status != CRT_OK)
        return status;
    memset(s->sum, 0, floats * sizeof(float));
    for (size_t k = 1; k <= count; k++) {
        const float *data;

        status = read_gradient(s, call, step, k, deposited, &data);
        if (status != CRT_OK)
            return status;
        for (size_t i = 0; i < floats; i++)
            s->sum[i] += data[i];
    }
    for (size_t i = 0; i < floats; i++)
        s->sum[i] *= share;
    return CRT_OK;
}

/* The averaged statistics become the model's, and stand in the answer. */
static void take_statistics(server_t *s, float *out)
{
    const crt_tensor_t *statistics = crt_model_statistics(s->model);
    const float *averaged = s->sum + crt_model_parameters(s->model);
    size_t size = crt_tensor_count(statistics) * sizeof(float);

    memcpy(statistics->data, averaged, size);
    memcpy(out, averaged, size);
}

static crt_status_t update(server_t *s, crt_call_t *call, bool deposited)
{
    int64_t shape = (int64_t)crt_model_parameters(s->model);
    crt_tensor_t sum, weights;
    const crt_tensor_t *gradients = &sum;
    crt_object_t *object;
    uint64_t step;
    crt_status_t status = crt_arg_at(call, 0, &step);

    if (status == CRT_OK)
        status = check_step(s, step);
    if (status == CRT_OK && crt_arg_count(call) < 2)
        status = crt_raise(CRT_ERR_INVALID, "no gradient");
    if (status == CRT_OK)
        status = average(s, call, step, deposited);
    if (status == CRT_OK)
        status = crti_spec_answer(s->model, &object, &weights);
    if (status != CRT_OK)
        return status;
    sum = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape, s->sum);
    status = crt_optimizer_apply(s->optimizer, s->model, &gradients, 1, &weights);
    if (status != CRT_OK) {
        crt_object_abort(&object);
        return status;
    }
    take_statistics(s, (float *)weights.data + shape);
    return crt_return(call, object);
}

static crt_status_t apply_step(void *self, crt_call_t *call)
{
    return update(self, call, false);
}

static crt_status_t apply_deposits(void *self, crt_call_t *call)
{
    return update(self, call, true);
}

static crt_status_t deposit(void *self, crt_call_t *call)
{
    server_t *s = self;
    const crt_tensor_t *bytes;
    uint64_t step, first, count;
    int worker;
    crt_status_t status = crt_args(call, &step, &worker, &first, &count, &bytes);

    if (status != CRT_OK || step < crt_optimizer_steps(s->optimizer))
        return status;
    status = check_step(s, step);
    s->deposits.floats = crt_model_parameters(s->model) + statistics_of(s);
    return status == CRT_OK ? crti_deposits_add(&s->deposits, step, worker, (size_t)first,
                                                (size_t)count, bytes)
                            : status;
}

static crt_status_t save(void *self, crt_call_t *call)
{
    server_t *s = self;
    const char *folder, *network;
    crt_checkpoint_t checkpoint = CRT_CHECKPOINT(.step = 0);
    int keep;
    crt_status_t status = crt_arg_count(call) > 6
                              ? crt_args(call, &folder, &network, &checkpoint.step,
                                         &checkpoint.seed, &checkpoint.is_last, &keep,
                                         &checkpoint.batches, &checkpoint.batch_size)
                              : crt_args(call, &folder, &network, &checkpoint.step,
                                         &checkpoint.seed, &checkpoint.is_last, &keep);

    if (status == CRT_OK)
        status = check_step(s, checkpoint.step);
    if (status != CRT_OK)
        return status;
    checkpoint.network = network;
    return crt_checkpoint_write(folder, &checkpoint, s->model, s->optimizer, keep);
}

static crt_status_t restore(void *self, crt_call_t *call)
{
    server_t *s = self;
    const char *path, *network;
    crt_checkpoint_t checkpoint;
    crt_status_t status = crt_args(call, &path, &network);

    if (status == CRT_OK)
        status = crt_checkpoint_read(path, network, s->model, s->optimizer,
                                     sizeof(checkpoint), &checkpoint);
    return status == CRT_OK ? crt_return(call, checkpoint.step) : status;
}

CRTI_SPEC_METHOD(crt_parameter_server_apply_step, .name = "apply_step", .run = apply_step,
                 .signature = "int, tensor...")
CRTI_SPEC_METHOD(crt_parameter_server_deposit, .name = "deposit", .run = deposit,
                 .signature = "int, int, int, int, tensor")
CRTI_SPEC_METHOD(crt_parameter_server_apply_deposits, .name = "apply_deposits",
                 .run = apply_deposits, .signature = "int, int...")
CRTI_SPEC_METHOD(crt_parameter_server_save, .name = "save", .run = save,
                 .signature = "string, string, int, int, bool, int, int...")
CRTI_SPEC_METHOD(crt_parameter_server_restore, .name = "restore", .run = restore,
                 .signature = "string, string")
CRTI_SPEC_METHOD(crt_parameter_server_get_weights, .name = "get_weights",
                 .run = get_weights, .signature = "")
CRTI_SPEC_METHOD(crt_parameter_server_set_weights, .name = "set_weights",
                 .run = set_weights, .signature = "tensor")
CRTI_SPEC_METHOD(crt_parameter_server_apply_gradients, .name = "apply_gradients",
                 .run = apply_gradients, .signature = "tensor...")

CRTI_SPEC_CLASS(crt_parameter_server, .name = "ParameterServer", .size = sizeof(server_t),
                .create = create, .signature = "list, float, int, map",
                .destroy = destroy,
                .methods = CRT_METHODS(&crt_parameter_server_get_weights_method,
                                       &crt_parameter_server_set_weights_method,
                                       &crt_parameter_server_apply_gradients_method,
                                       &crt_parameter_server_apply_step_method,
                                       &crt_parameter_server_deposit_method,
                                       &crt_parameter_server_apply_deposits_method,
                                       &crt_parameter_server_save_method,
                                       &crt_parameter_server_restore_method))

crt_actor_t *crt_parameter_server_new(const crt_actor_options_t *options,
                                      const crt_model_spec_t *spec,
                                      const crt_optimizer_options_t *optimizer)
{
    crt_arg_t room[CRTI_SPEC_ITEMS_MAX], items[CRTI_SPEC_OPTIMIZER_ITEMS];
    crt_model_spec_t mine;
    crt_status_t status = crti_spec_copy(&mine, spec);

    if (status == CRT_OK)
        status = crti_spec_optimizer_items(optimizer, items);
    if (status != CRT_OK)
        return crti_spec_refuse(&crt_parameter_server_descriptor, options, status);
    return crt_actor_new(&crt_parameter_server_descriptor, options,
                         crti_spec_widths(&mine, room), mine.dropout, mine.seed,
                         crt_map(items, CRTI_SPEC_OPTIMIZER_ITEMS));
}
