/* SPDX-License-Identifier: Apache-2.0 */
/* DataWorker: the actor that turns weights and its own data into gradients.
 *
 * Where it sits
 *     weights in the store -> [ actors/data_worker.c ] -> gradient -> ParameterServer
 * Ownership
 *     The actor keeps refs of the features and labels, reads them in place and owns the
 *     model that it computes with; the weights are only borrowed for the call.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/feed.h"
#include "actors/spec.h"
#include <crt_actors.h>

#define SLICES_MAX 1024

typedef struct worker {
    crt_model_t *model;
    float *weights; /* put together from slices */
    crti_feed_t feed;
} worker_t;

static crt_status_t create(void *self, crt_call_t *call)
{
    worker_t *w = self;
    const crt_value_t *widths;
    crti_feed_spec_t data = {.shards = 1};
    double dropout;
    crt_status_t status =
        crt_args(call, &widths, &dropout, &data.seed, &data.features, &data.labels,
                 &data.classes, &data.shard, &data.shards, &data.batch);

    if (status == CRT_OK)
        status = crti_spec_model(widths, dropout, data.seed, &w->model);
    if (status == CRT_OK)
        status = crti_feed_init(&w->feed, &data, w->model);
    return status;
}

static void destroy(void *self)
{
    worker_t *w = self;

    crti_feed_fini(&w->feed);
    crt_model_drop(&w->model);
    free(w->weights);
}

static crt_status_t compute_gradients(void *self, crt_call_t *call)
{
    worker_t *w = self;
    const crt_tensor_t *weights;
    crt_object_t *object;
    crt_tensor_t gradients, view;
    crt_status_t status = crt_args(call, &weights);

    if (status == CRT_OK)
        status = crti_spec_weights(w->model, weights, &view);
    if (status == CRT_OK)
        status = crti_spec_object(w->model, &object, &gradients);
    if (status != CRT_OK)
        return status;
    status = crt_model_compute_gradients(
        w->model, &view, crt_batches_next(w->feed.batches), &gradients, NULL);
    if (status == CRT_OK)
        return crt_return(call, object);
    crt_object_abort(&object);
    return status;
}

/* The weights of the call's slices in one piece. */
static crt_status_t put_together(worker_t *w, crt_call_t *call)
{
    size_t count = crt_model_parameters(w->model), at = 0;

    if (!w->weights)
        w->weights = malloc(count * sizeof(float));
    if (!w->weights)
        return crt_raise(CRT_ERR_NO_MEMORY, "weights");
    for (size_t i = 0; i < crt_arg_count(call); i++) {
        const crt_tensor_t *slice;
        crt_status_t status = crt_arg_at(call, i, &slice);

        if (status != CRT_OK)
            return status;
        if (slice->dtype != CRT_DTYPE_FLOAT32 || crt_tensor_count(slice) > count - at)
            return crt_raise(CRT_ERR_INVALID,
                             "slice %zu of the weights is not float32, or there are more "
                             "than %zu in all",
                             i, count);
        memcpy(w->weights + at, slice->data, crt_tensor_count(slice) * sizeof(float));
        at += crt_tensor_count(slice);
    }
    return at == count ? CRT_OK
                       : crt_raise(CRT_ERR_INVALID,
                                   "slices of %zu weights; the model has %zu", at, count);
}

/* The model's gradient, cut as the weights of the call are. */
static crt_status_t return_slices(worker_t *w, crt_call_t *call)
{
    size_t count = crt_arg_count(call);
    crt_ref_t **refs = calloc(count, sizeof(crt_ref_t *));
    crt_arg_t *items = calloc(count, sizeof(*items));
    float *from = crt_model_gradients(w->model)->data;
    crt_status_t status = refs && items ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "slices");

    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        const crt_tensor_t *slice;
        crt_tensor_t part;
        int64_t shape;

        status = crt_arg_at(call, i, &slice);
        if (status != CRT_OK)
            break;
        shape = (int64_t)crt_tensor_count(slice);
        part = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape, from);
        from += shape;
        refs[i] = crt_put(&part);
        items[i] = crt_arg_ref(refs[i]);
    }
    if (status == CRT_OK)
        status = crt_return(call, crt_list(items, count));
    if (refs)
        crt_refs_drop(refs, count); /* the result keeps them */
    free(refs);
    free(items);
    return status;
}

static crt_status_t compute_slices(void *self, crt_call_t *call)
{
    worker_t *w = self;
    int64_t shape = (int64_t)crt_model_parameters(w->model);
    crt_tensor_t weights;
    crt_status_t status;

    if (crt_arg_count(call) == 0 || crt_arg_count(call) > SLICES_MAX)
        return crt_raise(CRT_ERR_INVALID, "%zu slices of weights; 1 to %d",
                         crt_arg_count(call), SLICES_MAX);
    status = put_together(w, call);
    if (status != CRT_OK)
        return status;
    weights = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape, w->weights);
    status = crt_model_compute_gradients(w->model, &weights,
                                         crt_batches_next(w->feed.batches), NULL, NULL);
    return status == CRT_OK ? return_slices(w, call) : status;
}

CRTI_SPEC_METHOD(crt_data_worker_compute_slices, .name = "compute_slices",
                 .run = compute_slices, .signature = "tensor...")
CRTI_SPEC_METHOD(crt_data_worker_compute_gradients, .name = "compute_gradients",
                 .run = compute_gradients, .signature = "tensor")

CRTI_SPEC_CLASS(crt_data_worker, .name = "DataWorker", .size = sizeof(worker_t),
                .create = create,
                .signature = "list, float, int, ref, ref, int, int, int, int",
                .destroy = destroy,
                .methods = CRT_METHODS(&crt_data_worker_compute_gradients_method,
                                       &crt_data_worker_compute_slices_method))

crt_actor_t *crt_data_worker_new(const crt_actor_options_t *options,
                                 const crt_model_spec_t *spec,
                                 const crt_data_spec_t *data)
{
    crt_arg_t room[CRTI_SPEC_ITEMS_MAX];
    crt_model_spec_t model;
    crt_data_spec_t mine;
    crt_status_t status = crti_spec_copy(&model, spec);

    if (status == CRT_OK)
        status = crti_spec_data(&mine, data);
    if (status != CRT_OK)
        return crti_spec_refuse(&crt_data_worker_descriptor, options, status);
    return crt_actor_new(&crt_data_worker_descriptor, options,
                         crti_spec_widths(&model, room), model.dropout, model.seed,
                         mine.features, mine.labels, mine.classes, mine.shard,
                         mine.shards, mine.batch_size);
}
