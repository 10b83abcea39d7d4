/* SPDX-License-Identifier: Apache-2.0 */
/* ShardServer: the actor that owns a range of the weights, and the optimizer's state for it.
 *
 * Where it sits
 *     DataWorker -> slices of gradients -> [ actors/shard_server.c ] -> slice of weights in the
 *     store
 * Ownership
 *     The actor's struct owns a model, of which it keeps its range only, and the optimizer.
 * Invariants
 *     Gradients are clipped by the norm of whole arrays, which no shard has: each measures its
 *     part, and all update with the sums of all. So the update is that of one ParameterServer.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/spec.h"
#include <crt_actors.h>

typedef struct server {
    crt_model_t *model;
    crt_optimizer_t *optimizer;
    crt_part_t part;
    float *gradients; /* flat, of which the range is used */
} server_t;

static crt_tensor_t flat(float *data, size_t count)
{
    int64_t shape = (int64_t)count;

    return crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape, data);
}

static float *weights_of(const server_t *s)
{
    return (float *)crt_model_weights(s->model)->data + s->part.first;
}

static crt_status_t create(void *self, crt_call_t *call)
{
    server_t *s = self;
    const crt_value_t *widths, *optimizer;
    double dropout;
    uint64_t seed, first, count;
    crt_optimizer_options_t options;
    crt_status_t status =
        crt_args(call, &widths, &dropout, &seed, &optimizer, &first, &count);

    if (status == CRT_OK)
        status = crti_spec_optimizer(optimizer, &options);
    if (status == CRT_OK)
        status = crti_spec_model(widths, dropout, seed, &s->model);
    if (status == CRT_OK)
        status = crt_optimizer_new(s->model, &options, &s->optimizer);
    if (status != CRT_OK)
        return status;
    if (count == 0 || first > crt_model_parameters(s->model) ||
        count > crt_model_parameters(s->model) - first)
        return crt_raise(CRT_ERR_INVALID,
                         "a shard of %llu weights from %llu on; the model has %zu",
                         (unsigned long long)count, (unsigned long long)first,
                         crt_model_parameters(s->model));
    s->part = (crt_part_t){(size_t)first, (size_t)count};
    s->gradients = calloc(crt_model_parameters(s->model), sizeof(float));
    return s->gradients ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "gradients");
}

static void destroy(void *self)
{
    server_t *s = self;

    free(s->gradients);
    crt_optimizer_drop(&s->optimizer);
    crt_model_drop(&s->model);
}

static crt_status_t check_slice(const server_t *s, const crt_tensor_t *slice,
                                const char *what)
{
    if (slice->dtype == CRT_DTYPE_FLOAT32 && crt_tensor_count(slice) == s->part.count)
        return CRT_OK;
    return crt_raise(CRT_ERR_INVALID, "%s of %zu elements; this shard has %zu float32",
                     what, crt_tensor_count(slice), s->part.count);
}

static crt_status_t get_weights(void *self, crt_call_t *call)
{
    server_t *s = self;
    crt_tensor_t weights = flat(weights_of(s), s->part.count);

    return crt_return(call, &weights);
}

static crt_status_t set_weights(void *self, crt_call_t *call)
{
    server_t *s = self;
    const crt_tensor_t *weights;
    crt_status_t status = crt_args(call, &weights);

    if (status == CRT_OK)
        status = check_slice(s, weights, "weights");
    if (status == CRT_OK)
        memcpy(weights_of(s), weights->data, s->part.count * sizeof(float));
    return status;
}

/* The sum of the call's gradients, in the range. */
static crt_status_t sum_gradients(server_t *s, crt_call_t *call)
{
    float *sum = s->gradients + s->part.first;

    memset(sum, 0, s->part.count * sizeof(float));
    for (size_t k = 0; k < crt_arg_count(call); k++) {
        const crt_tensor_t *gradient;
        const float *from;
        crt_status_t status = crt_arg_at(call, k, &gradient);

        if (status == CRT_OK)
            status = check_slice(s, gradient, "a gradient");
        if (status != CRT_OK)
            return status;
        from = gradient->data;
        for (size_t i = 0; i < s->part.count; i++)
            sum[i] += from[i];
    }
    return CRT_OK;
}

static crt_status_t measure(void *self, crt_call_t *call)
{
    server_t *s = self;
    crt_tensor_t gradients = flat(s->gradients, crt_model_parameters(s->model)), view;
    int64_t arrays = (int64_t)crt_model_arrays(s->model);
    crt_object_t *object;
    crt_status_t status;

    if (crt_arg_count(call) == 0)
        return crt_raise(CRT_ERR_INVALID, "no gradient");
    status = sum_gradients(s, call);
    if (status == CRT_OK)
        status = crt_object_create(CRT_DTYPE_FLOAT64, 1, &arrays, &object, &view);
    if (status != CRT_OK)
        return status;
    status =
        crt_optimizer_measure(s->optimizer, s->model, &gradients, &s->part, 1, view.data);
    if (status == CRT_OK)
        return crt_return(call, object);
    crt_object_abort(&object);
    return status;
}

/* Of whole arrays: what all shards measured, added up in the same order by everyone. */
static crt_status_t sum_squares(const server_t *s, crt_call_t *call, double *squares)
{
    size_t arrays = crt_model_arrays(s->model);

    for (size_t k = 0; k < crt_arg_count(call); k++) {
        const crt_tensor_t *part;
        crt_status_t status = crt_arg_at(call, k, &part);

        if (status != CRT_OK)
            return status;
        if (part->dtype != CRT_DTYPE_FLOAT64 || crt_tensor_count(part) != arrays)
            return crt_raise(CRT_ERR_INVALID,
                             "squares of %zu arrays; the model has %zu, float64",
                             crt_tensor_count(part), arrays);
        for (size_t i = 0; i < arrays; i++)
            squares[i] += ((const double *)part->data)[i];
    }
    return CRT_OK;
}

static crt_status_t apply(void *self, crt_call_t *call)
{
    server_t *s = self;
    crt_tensor_t gradients = flat(s->gradients, crt_model_parameters(s->model));
    double *squares = calloc(crt_model_arrays(s->model), sizeof(double));
    crt_status_t status = squares ? sum_squares(s, call, squares)
                                  : crt_raise(CRT_ERR_NO_MEMORY, "squares of arrays");

    if (status == CRT_OK)
        status = crt_optimizer_update(s->optimizer, s->model, &gradients, &s->part, 1,
                                      squares, 0);
    free(squares);
    return status == CRT_OK ? get_weights(self, call) : status;
}

CRTI_SPEC_METHOD(crt_shard_server_get_weights, .name = "get_weights", .run = get_weights,
                 .signature = "")
CRTI_SPEC_METHOD(crt_shard_server_set_weights, .name = "set_weights", .run = set_weights,
                 .signature = "tensor")
CRTI_SPEC_METHOD(crt_shard_server_measure, .name = "measure", .run = measure,
                 .signature = "tensor...")
CRTI_SPEC_METHOD(crt_shard_server_apply, .name = "apply", .run = apply,
                 .signature = "tensor...")

CRTI_SPEC_CLASS(crt_shard_server, .name = "ShardServer", .size = sizeof(server_t),
                .create = create, .signature = "list, float, int, map, int, int",
                .destroy = destroy,
                .methods = CRT_METHODS(&crt_shard_server_get_weights_method,
                                       &crt_shard_server_set_weights_method,
                                       &crt_shard_server_measure_method,
                                       &crt_shard_server_apply_method))

crt_actor_t *crt_shard_server_new(const crt_actor_options_t *options,
                                  const crt_model_spec_t *spec,
                                  const crt_optimizer_options_t *optimizer,
                                  crt_part_t part)
{
    crt_arg_t room[CRTI_SPEC_ITEMS_MAX], items[CRTI_SPEC_OPTIMIZER_ITEMS];
    crt_model_spec_t mine;
    crt_status_t status = crti_spec_copy(&mine, spec);

    if (status == CRT_OK)
        status = crti_spec_optimizer_items(optimizer, items);
    if (status != CRT_OK)
        return crti_spec_refuse(&crt_shard_server_descriptor, options, status);
    return crt_actor_new(&crt_shard_server_descriptor, options,
                         crti_spec_widths(&mine, room), mine.dropout, mine.seed,
                         crt_map(items, CRTI_SPEC_OPTIMIZER_ITEMS), part.first,
                         part.count);
}

crt_part_t crt_shard_part(size_t count, int shard, int shards)
{
    size_t n = (size_t)shards, at = (size_t)shard, whole = count / n, more = count % n;
    size_t first = whole * at + (at < more ? at : more);

    return (crt_part_t){first, whole + (at < more)};
}
