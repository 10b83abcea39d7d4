/* SPDX-License-Identifier: Apache-2.0 */
/* ImageWorker: computes gradients of numbered batches of images, and sends them in fewer bytes.
 *
 * Where it sits
 *     shared data, weights -> [ actors/image_worker.c ] -> encoded gradient -> ParameterServer
 * Invariants
 *     Images and dropout of a batch depend on its number and the worker's seed alone: one that is
 *     computed again, by this process or by another of that seed, gives the same gradient. (A
 *     compression that keeps an error remembers more.)
 */
#include <crt_ml_gpu.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "actors/evaluate.h"
#include "actors/image_worker.h"
#include "actors/piece_sender.h"
#include "actors/spec.h"
#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include <crt_actors.h>

#define PIECE_FLOATS 65536
#define SLOW_SLICE_S                                                                     \
    0.002 /* how soon a slowed worker notices that its call was cancelled */

typedef struct worker {
    crt_model_t *model;
    uint64_t seed;
    crt_ref_t *features, *labels; /* keep what `all` points into */
    crt_dataset_t *all, *shard;
    crt_image_batches_t *batches;
    const crt_image_format_t *format; /* NULL: samples as they are */
    /* Gradient and statistics of a model on a GPU, copied; NULL on the CPU. */
    float *host;
    crt_compressor_t *compressor;
    unsigned char *bytes;
    crt_compression_t method;
    double keep;
    uint64_t piece;              /* least floats of one */
    crti_piece_sender_t *sender; /* NULL before the first send_step */
    double
        slowdown; /* how often the time of a gradient it takes: to try out what stragglers do */
} worker_t;

/* ---------------------------------------------------------------- create */

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
    return status == CRT_OK ? crt_dataset_new(x, y, classes, &w->all) : status;
}

static crt_status_t open_batches(worker_t *w, const crt_value_t *map)
{
    crt_image_batches_options_t o = {.struct_size = sizeof(o), .training = true};
    const char *name = "mnist";
    int shard = 0, shards = 1;
    crt_status_t status = CRTI_SPEC_READ(map, "format", &name);

    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "shard", &shard);
    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "shards", &shards);
    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "batch_size", &o.batch_size);
    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "ahead", &o.ahead);
    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "stride", &o.stride);
    if (status != CRT_OK)
        return status;
    o.seed = w->seed;
    w->format = crt_image_format(name);
    if (!w->format && *name)
        return crt_raise(CRT_ERR_INVALID, "no format of images is called '%s'", name);
    status = crt_dataset_new_shard(w->all, shard, shards, &w->shard);
    return status == CRT_OK ? crt_image_batches_new(w->format, w->shard, &o, &w->batches)
                            : status;
}

static crt_status_t read_compression(worker_t *w, const crt_value_t *map)
{
    const char *name = "none";
    crt_status_t status = CRTI_SPEC_READ(map, "compression", &name);

    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "keep", &w->keep);
    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "piece_floats", &w->piece);
    w->piece = w->piece ? w->piece : PIECE_FLOATS;
    return status == CRT_OK ? crt_compression_parse(name, &w->method) : status;
}

/* To the first GPU that the actor has. */
static crt_status_t choose_device(worker_t *w, const crt_value_t *map)
{
    const char *name = "";
    size_t floats =
        crt_model_parameters(w->model) + crt_tensor_count(crt_model_statistics(w->model));
    crt_status_t status = CRTI_SPEC_READ(map, "precision", &name);
    crt_precision_t precision;

    if (status != CRT_OK || !*name)
        return status;
    status = crt_precision_parse(name, &precision);
    if (status == CRT_OK)
        status = crt_model_to_gpu(w->model, 0, precision);
    if (status != CRT_OK)
        return status;
    w->host = malloc(floats * sizeof(float));
    return w->host ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "gradient of a GPU");
}

/* Of whole gradients, before the first one. */
static crt_status_t open_compressor(worker_t *w)
{
    crt_status_t status = CRT_OK;

    if (w->bytes)
        return CRT_OK;
    if (!w->compressor)
        status = crt_compressor_new(w->method, crt_model_parameters(w->model), w->keep,
                                    &w->compressor);
    if (status != CRT_OK)
        return status;
    w->bytes = malloc(crt_compressor_bound(w->compressor) +
                      crt_tensor_count(crt_model_statistics(w->model)) * sizeof(float));
    return w->bytes ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "encoded gradient");
}

static crt_status_t create(void *self, crt_call_t *call)
{
    worker_t *w = self;
    const crt_value_t *widths, *map;
    crt_ref_t *features, *labels;
    double dropout;
    int classes;
    crt_status_t status =
        crt_args(call, &widths, &dropout, &w->seed, &features, &labels, &classes, &map);

    w->slowdown = 1;
    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "slowdown", &w->slowdown);
    if (status == CRT_OK)
        status = crti_spec_model(widths, dropout, w->seed, &w->model);
    if (status == CRT_OK)
        status = open_data(w, features, labels, classes);
    if (status == CRT_OK && (crt_dataset_width(w->all) != crt_model_inputs(w->model) ||
                             classes > crt_model_outputs(w->model)))
        return crt_raise(CRT_ERR_INVALID,
                         "samples of %d features and %d classes; the model has %d inputs "
                         "and %d outputs",
                         crt_dataset_width(w->all), classes, crt_model_inputs(w->model),
                         crt_model_outputs(w->model));
    if (status == CRT_OK)
        status = open_batches(w, map);
    if (status == CRT_OK)
        status = read_compression(w, map);
    return status == CRT_OK ? choose_device(w, map) : status;
}

static void destroy(void *self)
{
    worker_t *w = self;

    crt_image_batches_drop(&w->batches);
    crt_dataset_drop(&w->shard);
    crt_dataset_drop(&w->all);
    crt_ref_drop(&w->features);
    crt_ref_drop(&w->labels);
    crt_compressor_drop(&w->compressor);
    crti_piece_sender_free(w->sender);
    free(w->bytes);
    free(w->host);
    crt_model_drop(&w->model);
}

/* ---------------------------------------------------------------- a step */

/* Takes so many seconds, or until the call is cancelled. */
static void dawdle(const crt_call_t *call, double seconds)
{
    double end = crti_now_s() + seconds;

    while (crti_now_s() < end && !crt_cancelled(call)) {
        double left = end - crti_now_s();
        struct timespec slice = {.tv_nsec = (long)(1e9 * SLOW_SLICE_S)};

        if (left < SLOW_SLICE_S)
            slice.tv_nsec = left > 0 ? (long)(1e9 * left) : 0;
        nanosleep(&slice, NULL);
    }
}

/* The gradient, encoded, and the statistics after it; returns the bytes of both. */
static size_t encode(worker_t *w)
{
    const crt_tensor_t *statistics = crt_model_statistics(w->model);
    const float *gradient = w->host ? w->host : crt_model_gradients(w->model)->data;
    const float *behind =
        w->host ? w->host + crt_model_parameters(w->model) : statistics->data;
    size_t more = crt_tensor_count(statistics) * sizeof(float);
    size_t size = crt_compressor_encode(w->compressor, gradient, w->bytes);

    memcpy(w->bytes + size, behind, more);
    return size + more;
}

/* The encoded gradient becomes result 1, a tensor of bytes. */
static crt_status_t return_bytes(worker_t *w, crt_call_t *call, size_t size)
{
    int64_t shape = (int64_t)size;
    crt_object_t *object;
    crt_tensor_t view;
    crt_status_t status = crt_object_create(CRT_DTYPE_UINT8, 1, &shape, &object, &view);

    if (status != CRT_OK)
        return status;
    memcpy(view.data, w->bytes, size);
    return crt_return_at(call, 1, object);
}

/* What is told of a step: times of its beginning, of its batch and of its passes. */
typedef struct told {
    double loss, began, batched, computed;
    int64_t samples;
} told_t;

/* Loss and gradient, and the statistics after it: of a model on a GPU they are copied to the
 * host. */
static crt_status_t pass(worker_t *w, const crt_tensor_t *weights,
                         const crt_batch_t *batch, double *loss)
{
    size_t count = crt_model_parameters(w->model);
    const crt_tensor_t *statistics = crt_model_statistics(w->model);
    crt_tensor_t own = *crt_model_weights(w->model), gradient, behind;
    crt_status_t status;

    if (!w->host)
        return crt_model_compute_gradients(w->model, weights, batch, NULL, loss);
    gradient = crt_tensor_floats(w->host, count);
    behind = crt_tensor_floats(w->host + count, crt_tensor_count(statistics));
    status = crt_model_copy_tensor(w->model, weights, &own);
    if (status == CRT_OK)
        status = crt_model_compute_gradients(w->model, NULL, batch, NULL, loss);
    if (status == CRT_OK)
        status =
            crt_model_copy_tensor(w->model, crt_model_gradients(w->model), &gradient);
    if (status == CRT_OK && crt_tensor_count(statistics) > 0)
        status = crt_model_copy_tensor(w->model, statistics, &behind);
    return status;
}

static crt_status_t compute(worker_t *w, const crt_call_t *call, uint64_t number,
                            const crt_tensor_t *weights, told_t *told)
{
    crt_tensor_t view;
    const crt_batch_t *batch;
    crt_status_t status = crti_spec_weights(w->model, weights, &view);

    if (status != CRT_OK)
        return status;
    told->began = crti_now_s();
    crt_image_batches_seek(w->batches, number);
    batch = crt_image_batches_next(w->batches);
    told->samples = batch->labels.shape[0];
    told->batched = crti_now_s();
    crt_model_set_seed(w->model, w->seed + number * 0x9e3779b97f4a7c15u);
    status = pass(w, &view, batch, &told->loss);
    if (status != CRT_OK)
        return status;
    dawdle(call, (w->slowdown - 1) * (crti_now_s() - told->began));
    told->computed = crti_now_s();
    if (crt_cancelled(call))
        return crt_raise(CRT_ERR_CANCELLED, "batch %llu is no longer wanted",
                         (unsigned long long)number);
    return CRT_OK;
}

static crt_status_t tell(crt_call_t *call, const told_t *t, size_t bytes)
{
    return crt_return(
        call,
        crt_list((crt_arg_t[]){crt_arg_float(t->loss),
                               crt_arg_float(t->batched - t->began),
                               crt_arg_float(t->computed - t->batched),
                               crt_arg_float(crti_now_s() - t->computed),
                               crt_arg_int((int64_t)bytes), crt_arg_int(t->samples)},
                 6));
}

static crt_status_t compute_step(void *self, crt_call_t *call)
{
    worker_t *w = self;
    uint64_t batch;
    const crt_tensor_t *weights;
    told_t told;
    size_t size;
    crt_status_t status = crt_args(call, &batch, &weights);

    if (status == CRT_OK && crt_return_count(call) != 2)
        status = crt_raise(CRT_ERR_INVALID, "compute_step has two results, not %zu",
                           crt_return_count(call));
    if (status == CRT_OK)
        status = open_compressor(w);
    if (status == CRT_OK)
        status = compute(w, call, batch, weights, &told);
    if (status != CRT_OK)
        return status;
    size = encode(w);
    status = return_bytes(w, call, size);
    return status == CRT_OK ? tell(call, &told, size) : status;
}

static crt_status_t send_step(void *self, crt_call_t *call)
{
    worker_t *w = self;
    uint64_t batch, step;
    const crt_tensor_t *weights;
    crt_actor_t *server;
    told_t told;
    size_t size;
    int worker;
    crt_status_t sent, status = crt_args(call, &batch, &weights, &step, &server, &worker);

    if (status == CRT_OK && w->host)
        status = crt_raise(CRT_ERR_UNSUPPORTED,
                           "send_step of a model on a GPU: its gradient is sent whole");
    if (status == CRT_OK && !w->sender)
        status = crti_piece_sender_new(w->model, w->method, w->keep, (size_t)w->piece,
                                       &w->sender);
    if (status != CRT_OK)
        return status;
    crti_piece_sender_begin(w->sender, server, step, worker);
    crt_model_watch_gradients(w->model, crti_piece_sender_seen, w->sender);
    status = compute(w, call, batch, weights, &told);
    crt_model_watch_gradients(w->model, NULL, NULL);
    sent = crti_piece_sender_finish(w->sender, &size);
    if (status == CRT_OK)
        status = sent;
    return status == CRT_OK ? tell(call, &told, size) : status;
}

static crt_status_t evaluate(void *self, crt_call_t *call)
{
    worker_t *w = self;
    crti_evaluation_t e = {.format = w->format ? w->format->name : ""};
    const crt_tensor_t *weights;
    crt_tensor_t view, own = *crt_model_weights(w->model);
    crt_status_t status =
        crt_args(call, &weights, &e.features, &e.labels, &e.classes, &e.part, &e.parts);

    if (status == CRT_OK)
        status = crti_spec_weights(w->model, weights, &view);
    if (status == CRT_OK && w->host) /* on a GPU weights are not read in place */
        status = crt_model_copy_tensor(w->model, &view, &own);
    return status == CRT_OK ? crti_evaluate(call, w->model, w->host ? NULL : &view, &e)
                            : status;
}

CRTI_SPEC_METHOD(crt_image_worker_compute_step, .name = "compute_step",
                 .run = compute_step, .signature = "int, tensor")
CRTI_SPEC_METHOD(crt_image_worker_send_step, .name = "send_step", .run = send_step,
                 .signature = "int, tensor, int, actor, int")

CRTI_SPEC_METHOD(crti_image_worker_evaluate, .name = "evaluate", .run = evaluate,
                 .signature = "tensor, ref, ref, int, int, int")

CRTI_SPEC_CLASS(crt_image_worker, .name = "ImageWorker", .size = sizeof(worker_t),
                .create = create, .signature = "list, float, int, ref, ref, int, map",
                .destroy = destroy,
                .methods = CRT_METHODS(&crt_image_worker_compute_step_method,
                                       &crt_image_worker_send_step_method,
                                       &crti_image_worker_evaluate_method))

static crt_actor_t *new_worker(const crt_actor_options_t *options,
                               const crt_model_spec_t *model,
                               const crt_image_worker_spec_t *s)
{
    crt_arg_t room[CRTI_SPEC_ITEMS_MAX];
    const crt_arg_t items[] = {crt_arg_string("format"),
                               crt_arg_string(s->format ? s->format : "mnist"),
                               crt_arg_string("shard"),
                               crt_arg_int(s->shard),
                               crt_arg_string("shards"),
                               crt_arg_int(s->shards ? s->shards : 1),
                               crt_arg_string("batch_size"),
                               crt_arg_int(s->batch_size),
                               crt_arg_string("ahead"),
                               crt_arg_int(s->ahead),
                               crt_arg_string("stride"),
                               crt_arg_int(s->stride),
                               crt_arg_string("compression"),
                               crt_arg_string(s->compression ? s->compression : "none"),
                               crt_arg_string("keep"),
                               crt_arg_float(s->keep),
                               crt_arg_string("slowdown"),
                               crt_arg_float(s->slowdown ? s->slowdown : 1),
                               crt_arg_string("piece_floats"),
                               crt_arg_int((int64_t)s->piece_floats),
                               crt_arg_string("precision"),
                               crt_arg_string(s->precision ? s->precision : "")};

    return crt_actor_new(&crt_image_worker_descriptor, options,
                         crti_spec_widths(model, room), model->dropout, model->seed,
                         s->features, s->labels, s->classes,
                         crt_map(items, sizeof(items) / sizeof(items[0])));
}

crt_actor_t *crt_image_worker_new(const crt_actor_options_t *options,
                                  const crt_model_spec_t *spec,
                                  const crt_image_worker_spec_t *data)
{
    crt_model_spec_t model;
    crt_image_worker_spec_t mine;
    crt_status_t status = crti_spec_copy(&model, spec);

    if (status == CRT_OK)
        status = CRTI_COPY_STRUCT(&mine, data, "CRT_IMAGE_WORKER_SPEC");
    return status == CRT_OK
               ? new_worker(options, &model, &mine)
               : crti_spec_refuse(&crt_image_worker_descriptor, options, status);
}
