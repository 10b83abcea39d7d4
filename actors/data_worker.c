/* SPDX-License-Identifier: Apache-2.0 */
/* DataWorker: the actor that turns weights and its own data into gradients.
 *
 * Where it sits
 *     weights in the store -> [ actors/data_worker.c ] -> gradient -> ParameterServer
 * Ownership
 *     The actor keeps refs of the features and labels, reads them in place and owns the
 *     model that it computes with; the weights are only borrowed for the call.
 */
#include "actors/spec.h"
#include "crt_actors.h"

typedef struct worker {
    crt_model_t *model;
    crt_ref_t *features, *labels; /* keep what `all` points into */
    crt_dataset_t *all, *shard;
    crt_batches_t *batches;
} worker_t;

/* The whole data set, in place. */
static crt_status_t open_data(worker_t *w, crt_ref_t *features, crt_ref_t *labels,
                              int classes)
{
    const crt_tensor_t *x, *y;
    crt_status_t status;

    w->features = crt_ref_keep(features);
    w->labels = crt_ref_keep(labels);
    status = crt_get(w->features, &x);
    if (status == CRT_OK)
        status = crt_get(w->labels, &y);
    if (status == CRT_OK)
        status = crt_dataset_new(x, y, classes, &w->all);
    if (status != CRT_OK)
        return status;
    if (crt_dataset_width(w->all) != crt_model_inputs(w->model))
        return crt_raise(CRT_ERR_INVALID,
                         "samples of %d features, the model has %d inputs",
                         crt_dataset_width(w->all), crt_model_inputs(w->model));
    if (classes > crt_model_outputs(w->model))
        return crt_raise(CRT_ERR_INVALID, "%d classes, the model has %d outputs", classes,
                         crt_model_outputs(w->model));
    return CRT_OK;
}

static crt_status_t create(void *self, crt_call_t *call)
{
    worker_t *w = self;
    const crt_value_t *widths;
    crt_ref_t *features, *labels;
    double dropout;
    uint64_t seed;
    int classes, shard, shards, batch;
    crt_status_t status = crt_args(call, &widths, &dropout, &seed, &features, &labels,
                                   &classes, &shard, &shards, &batch);

    if (status == CRT_OK)
        status = crti_spec_model(widths, dropout, seed, &w->model);
    if (status == CRT_OK)
        status = open_data(w, features, labels, classes);
    if (status == CRT_OK)
        status = crt_dataset_new_shard(w->all, shard, shards, &w->shard);
    if (status == CRT_OK)
        status = crt_batches_new(w->shard, batch, seed, &w->batches);
    return status;
}

static void destroy(void *self)
{
    worker_t *w = self;

    crt_batches_free(w->batches);
    crt_dataset_free(w->shard);
    crt_dataset_free(w->all);
    crt_model_free(w->model);
    crt_ref_drop(&w->features);
    crt_ref_drop(&w->labels);
}

static crt_status_t compute_gradients(void *self, crt_call_t *call)
{
    worker_t *w = self;
    const crt_tensor_t *weights;
    crt_object_t *object;
    crt_tensor_t gradients;
    crt_status_t status = crt_args(call, &weights);

    if (status == CRT_OK)
        status = crti_spec_object(w->model, &object, &gradients);
    if (status != CRT_OK)
        return status;
    status = crt_model_compute_gradients(w->model, weights, crt_batches_next(w->batches),
                                         &gradients, NULL);
    if (status == CRT_OK)
        return crt_return(call, object);
    crt_object_abort(&object);
    return status;
}

const crt_method_t crt_data_worker_compute_gradients = {"compute_gradients",
                                                        compute_gradients, "tensor"};

const crt_actor_class_t crt_data_worker =
    CRT_ACTOR_CLASS(.name = "DataWorker", .size = sizeof(worker_t), .create = create,
                    .signature = "list, float, int, ref, ref, int, int, int, int",
                    .destroy = destroy,
                    .methods = CRT_METHODS(&crt_data_worker_compute_gradients));

crt_actor_t *crt_data_worker_new(const crt_actor_options_t *options,
                                 const crt_mlp_spec_t *spec, const crt_data_spec_t *data)
{
    crt_arg_t room[CRTI_SPEC_WIDTHS_MAX + 1];

    return crt_actor_new(&crt_data_worker, options, crti_spec_widths(spec->widths, room),
                         spec->dropout, spec->seed, data->features, data->labels,
                         data->classes, data->shard, data->shards, data->batch);
}
