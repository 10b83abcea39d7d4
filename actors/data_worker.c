/* SPDX-License-Identifier: Apache-2.0 */
/* DataWorker: the actor that turns weights and its own data into gradients.
 *
 * Where it sits
 *     weights in the store -> [ actors/data_worker.c ] -> gradient -> ParameterServer
 * Ownership
 *     The actor keeps refs of the features and labels, reads them in place and owns the
 *     model that it computes with; the weights are only borrowed for the call.
 */
#include "actors/feed.h"
#include "actors/spec.h"
#include "crt_actors.h"

typedef struct worker {
    crt_model_t *model;
    crti_feed_t feed;
} worker_t;

static crt_status_t create(void *self, crt_call_t *call)
{
    worker_t *w = self;
    const crt_value_t *widths;
    crti_feed_spec_t data;
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
    crt_model_free(w->model);
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
    status = crt_model_compute_gradients(
        w->model, weights, crt_batches_next(w->feed.batches), &gradients, NULL);
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
