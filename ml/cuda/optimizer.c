/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an optimizer on the GPU: three or four kernels over chunks of all arrays.
 *
 *     squares of chunks -> judge_step: scales of arrays, or a verdict -> sgd, adam
 *         -> follow: look-ahead, averages
 *
 * The host does not wait for the verdict: a step that must not be made changes nothing on the GPU,
 * and the next call tells it.
 */
#include "ml/optimizer.h"

#include <math.h>
#include <stdlib.h>

#include "ml/cuda/cuda.h"

#define THREADS 256

typedef struct gpu_step {
    crti_cuda_chunk_t *chunks;
    size_t chunk_count;
    int *ends;              /* of the chunks of each array */
    double *sums, *squares; /* of chunks, of arrays */
    float *scales;
    crti_cuda_verdict_t *verdict, *verdict_on_host;
    cudaEvent_t is_judged;
    bool is_pending; /* a verdict that nobody has looked at */
} gpu_step_t;

static size_t chunks_of(const crti_array_t *array)
{
    return (array->count + CRTI_CUDA_CHUNK - 1) / CRTI_CUDA_CHUNK;
}

/* ---------------------------------------------------------------- opening */

static void fill(const crt_model_t *model, crti_cuda_chunk_t *chunks, int *ends)
{
    size_t at = 0;

    for (size_t i = 0; i < model->array_count; i++) {
        const crti_array_t *array = &model->arrays[i];

        for (size_t done = 0; done < array->count; done += CRTI_CUDA_CHUNK) {
            size_t left = array->count - done;

            chunks[at++] = (crti_cuda_chunk_t){
                array->at + done, left < CRTI_CUDA_CHUNK ? (int)left : CRTI_CUDA_CHUNK,
                (int)i};
        }
        ends[i] = (int)at;
    }
}

static crt_status_t copy_table(crti_cuda_t *c, gpu_step_t *own, const crt_model_t *model)
{
    size_t arrays = model->array_count;
    crti_cuda_chunk_t *chunks = calloc(own->chunk_count, sizeof(*chunks));
    int *ends = calloc(arrays, sizeof(*ends));
    crt_status_t status = CRT_OK;

    if (chunks && ends) {
        fill(model, chunks, ends);
        status = c->device.ops->copy(&c->device, own->chunks, chunks,
                                     own->chunk_count * sizeof(*chunks));
        if (status == CRT_OK)
            status =
                c->device.ops->copy(&c->device, own->ends, ends, arrays * sizeof(*ends));
    } else {
        status = crt_raise(CRT_ERR_NO_MEMORY, "optimizer");
    }
    free(chunks);
    free(ends);
    return status;
}

static void make_room(crti_cuda_t *c, void **memory, size_t bytes)
{
    size_t has = 0;

    (void)crti_cuda_reserve(c, memory, &has, bytes, "an optimizer");
}

static crt_status_t check(const crt_optimizer_t *o)
{
    return o->model->array_count > 0
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID, "an optimizer of a model without parameters");
}

crt_status_t crti_cuda_open_optimizer(crti_device_t *device, crt_optimizer_t *o)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    size_t arrays = o->model->array_count;
    gpu_step_t *own;
    crt_status_t status = check(o);

    if (status != CRT_OK)
        return status;
    o->own = own = calloc(1, sizeof(*own));
    if (!own)
        return crt_raise(CRT_ERR_NO_MEMORY, "optimizer");
    for (size_t i = 0; i < arrays; i++)
        own->chunk_count += chunks_of(&o->model->arrays[i]);
    make_room(c, (void **)&own->chunks, own->chunk_count * sizeof(*own->chunks));
    make_room(c, (void **)&own->sums, own->chunk_count * sizeof(double));
    make_room(c, (void **)&own->ends, arrays * sizeof(int));
    make_room(c, (void **)&own->squares, arrays * sizeof(double));
    make_room(c, (void **)&own->scales, arrays * sizeof(float));
    make_room(c, (void **)&own->verdict, sizeof(*own->verdict));
    crti_cuda_did(c,
                  c->api->cudaMallocHost((void **)&own->verdict_on_host,
                                         sizeof(*own->verdict_on_host)),
                  "host memory");
    crti_cuda_did(
        c, c->api->cudaEventCreateWithFlags(&own->is_judged, cudaEventDisableTiming),
        "an event");
    status = device->ops->failure(device);
    return status == CRT_OK ? copy_table(c, own, o->model) : status;
}

void crti_cuda_close_optimizer(crti_device_t *device, crt_optimizer_t *o)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    gpu_step_t *own = o->own;

    if (!own)
        return;
    (void)c->api->cudaStreamSynchronize(c->stream);
    (void)c->api->cudaFree(own->chunks);
    (void)c->api->cudaFree(own->sums);
    (void)c->api->cudaFree(own->ends);
    (void)c->api->cudaFree(own->squares);
    (void)c->api->cudaFree(own->scales);
    (void)c->api->cudaFree(own->verdict);
    (void)c->api->cudaFreeHost(own->verdict_on_host);
    if (own->is_judged)
        (void)c->api->cudaEventDestroy(own->is_judged);
    free(own);
    o->own = NULL;
}

/* ---------------------------------------------------------------- a step */

/* What became of the step before: that one is taken back when it was not made. */
static crt_status_t look_back(crti_cuda_t *c, crt_optimizer_t *o)
{
    gpu_step_t *own = o->own;
    const crti_cuda_verdict_t *verdict = own->verdict_on_host;

    if (!own->is_pending)
        return CRT_OK;
    own->is_pending = false;
    if (!crti_cuda_did(c, c->api->cudaEventSynchronize(own->is_judged),
                       "waiting for a step"))
        return c->device.ops->failure(&c->device);
    if (verdict->array < 0)
        return CRT_OK;
    o->steps--;
    return crti_optimizer_bad(o, (size_t)verdict->array,
                              verdict->is_finite ? "has exploded" : "is not finite",
                              verdict->norm);
}

static void judge(crti_cuda_t *c, const crt_optimizer_t *o, const crt_model_t *model)
{
    gpu_step_t *own = o->own;
    float penalty = o->options.l2_is_weight_decay ? 0 : (float)o->options.l2;
    int arrays = (int)model->array_count;
    crti_cuda_limits_t limits = {o->options.grad_clip, o->options.global_clip,
                                 o->options.norm_limit};

    crti_cuda_run_blocks(c, CRTI_KERNEL_squares, own->chunk_count, THREADS,
                         (void *[]){&own->sums, &own->chunks, (void *)&model->gradients,
                                    (void *)&model->weights, &penalty});
    crti_cuda_run_blocks(c, CRTI_KERNEL_judge_step, 1, 1024,
                         (void *[]){&own->verdict, &own->scales, &own->squares,
                                    &own->sums, &own->ends, &arrays, &limits});
    crti_cuda_copy(c, own->verdict_on_host, own->verdict, sizeof(*own->verdict));
    crti_cuda_did(c, c->api->cudaEventRecord(own->is_judged, c->stream), "an event");
    own->is_pending = true;
}

static crti_cuda_rule_t sgd_rule(const crt_optimizer_options_t *o)
{
    float decay = o->l2_is_weight_decay ? (float)(o->learn_rate * o->l2) : 0;

    return (crti_cuda_rule_t){.rate = (float)o->learn_rate,
                              .decay_after = decay,
                              .keep1 = (float)o->momentum,
                              .nesterov = o->nesterov};
}

static crti_cuda_rule_t adam_rule(const crt_optimizer_options_t *o, uint64_t step)
{
    bool before = o->kind == CRT_OPTIMIZER_ADAMW;
    double t = (double)step, fix = sqrt(1 - pow(o->beta2, t));
    float decay = o->l2_is_weight_decay ? (float)(o->learn_rate * o->l2) : 0;

    return (crti_cuda_rule_t){.rate =
                                  (float)(o->learn_rate * fix / (1 - pow(o->beta1, t))),
                              .epsilon = (float)(o->epsilon * (before ? fix : 1)),
                              .keep1 = (float)o->beta1,
                              .take1 = (float)(1 - o->beta1),
                              .keep2 = (float)o->beta2,
                              .take2 = (float)(1 - o->beta2),
                              .decay_before = before ? decay : 0,
                              .decay_after = before ? 0 : decay};
}

static crti_cuda_rule_t radam_rule(const crt_optimizer_options_t *o, uint64_t step)
{
    bool is_rectified;
    double size = crti_radam_step_size(o, (double)step + 1, &is_rectified);
    float decay = o->l2_is_weight_decay ? (float)(o->learn_rate * o->l2) : 0;

    return (crti_cuda_rule_t){.rate = (float)(o->learn_rate * size),
                              .epsilon = (float)o->epsilon,
                              .keep1 = (float)o->beta1,
                              .take1 = (float)(1 - o->beta1),
                              .keep2 = (float)o->beta2,
                              .take2 = (float)(1 - o->beta2),
                              .decay_after = decay,
                              .is_plain = !is_rectified};
}

static crti_cuda_rule_t rule_of(const crt_optimizer_options_t *o, uint64_t step)
{
    switch (o->kind) {
    case CRT_OPTIMIZER_SGD: return sgd_rule(o);
    case CRT_OPTIMIZER_RADAM: return radam_rule(o, step);
    case CRT_OPTIMIZER_ADAM:
    case CRT_OPTIMIZER_ADAMW: break;
    }
    return adam_rule(o, step);
}

static void apply(crti_cuda_t *c, crt_optimizer_t *o, crt_model_t *model)
{
    gpu_step_t *own = o->own;
    crti_cuda_rule_t rule = rule_of(&o->options, o->steps);

    if (o->options.kind == CRT_OPTIMIZER_SGD)
        crti_cuda_run_blocks(c, CRTI_KERNEL_sgd, own->chunk_count, THREADS,
                             (void *[]){&model->weights, &model->gradients, &o->state[0],
                                        &own->chunks, &own->scales, &own->verdict,
                                        &rule});
    else
        crti_cuda_run_blocks(c, CRTI_KERNEL_adam, own->chunk_count, THREADS,
                             (void *[]){&model->weights, &model->gradients, &o->state[0],
                                        &o->state[1], &own->chunks, &own->scales,
                                        &own->verdict, &rule});
}

/* The first step copies the weights that the slow ones begin with; when it is not made, the next
 * one is the first again. */
static void follow(crti_cuda_t *c, crt_optimizer_t *o, crt_model_t *model)
{
    gpu_step_t *own = o->own;
    const crt_optimizer_options_t *options = &o->options;
    bool jumps = o->slow && o->steps % (uint64_t)options->lookahead_steps == 0;
    float *slow = jumps ? o->slow : NULL;
    float *averages = o->averages >= 0 ? o->state[o->averages] : NULL;
    float slow_rate = (float)options->lookahead_rate;
    float average_rate = crti_optimizer_average_rate(o->steps);

    if (slow || averages)
        crti_cuda_run_blocks(c, CRTI_KERNEL_follow, own->chunk_count, THREADS,
                             (void *[]){&model->weights, &slow, &averages, &own->chunks,
                                        &own->verdict, &slow_rate, &average_rate});
}

crt_status_t crti_cuda_update(crti_device_t *device, crt_optimizer_t *o,
                              crt_model_t *model)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    crt_status_t status = look_back(c, o);

    if (status != CRT_OK)
        return status;
    judge(c, o, model);
    o->steps++;
    if (o->slow && o->steps == 1)
        crti_cuda_copy(c, o->slow, model->weights,
                       model->parameter_count * sizeof(float));
    apply(c, o, model);
    follow(c, o, model);
    return device->ops->failure(device);
}
