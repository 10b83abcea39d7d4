/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for GPUs in programs that have the libraries' inside: the host's layers on memory of
 * the stand-in for CUDA (tests/collective/fake_nccl), which the host can't touch. What reads or
 * writes a tensor of the model but through the device or NCCL dies. So whoever trains here gives
 * the bits of the host, by the way of a GPU. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "ml/model.h"
#include "ml/optimizer.h"

typedef struct fake_gpu {
    crti_device_t device;
    cudaStream_t stream;
    double loss;
} fake_gpu_t;

static struct {
    cudaError_t (*count)(int *count);
    cudaError_t (*allocate)(void **memory, size_t bytes);
    cudaError_t (*release)(void *memory);
    cudaError_t (*new_stream)(cudaStream_t *stream, unsigned flags);
    cudaError_t (*end_stream)(cudaStream_t stream);
    void *(*memory)(const void *device, size_t bytes);
} cuda;

static const crti_device_ops_t fake_ops;

/* What lies behind an address of the device; of the host: itself. */
static void *at(const void *address)
{
    void *memory = address ? cuda.memory(address, 1) : NULL;

    return memory ? memory : (void *)(uintptr_t)address;
}

/* ---------------------------------------------------------------- layers */

static crti_layer_pass_t behind(const crti_layer_pass_t *step)
{
    crti_layer_pass_t s = *step;

    for (int k = 0; k < CRTI_LAYER_INPUTS_MAX; k++) {
        s.x[k] = at(s.x[k]);
        s.dx[k] = at(s.dx[k]);
    }
    s.params = at(s.params);
    s.y = at(s.y);
    s.kept = at(s.kept);
    s.statistics = at(s.statistics);
    s.keys = at(s.keys);
    s.workspace = at(s.workspace);
    s.dy = at(s.dy);
    s.dparams = at(s.dparams);
    return s;
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *step)
{
    crti_layer_pass_t s = behind(step);

    crti_layer_ops_of(layer->spec.kind)->forward(layer, &s);
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *step)
{
    crti_layer_pass_t s = behind(step);

    crti_layer_ops_of(layer->spec.kind)->backward(layer, &s);
}

static const crti_layer_ops_t *layer_ops(const crti_device_t *device,
                                         const crti_layer_t *layer)
{
    static crti_layer_ops_t made[64]; /* by the number of the kind */
    crti_layer_ops_t *ops = &made[layer->spec.kind % 64];

    *ops = *crti_layer_ops_of(layer->spec.kind);
    ops->forward = forward;
    ops->backward = backward;
    return ops;
}

/* ---------------------------------------------------------------- memory and numbers */

static float *allocate(crti_device_t *device, size_t floats)
{
    void *memory;

    return cuda.allocate(&memory, floats * sizeof(float)) == cudaSuccess ? memory : NULL;
}

static crt_status_t no_memory(crti_device_t *device, size_t floats, const char *what)
{
    return crt_raise(CRT_ERR_NO_MEMORY, "%s: %zu floats", what, floats);
}

static void release(crti_device_t *device, float *memory)
{
    cuda.release(memory);
}

static void zero(crti_device_t *device, float *memory, size_t floats)
{
    memset(at(memory), 0, floats * sizeof(float));
}

static crt_status_t copy(crti_device_t *device, void *to, const void *from, size_t bytes)
{
    memcpy(at(to), at(from), bytes);
    return CRT_OK;
}

static void add(crti_device_t *device, float *to, const float *a, const float *b,
                size_t count)
{
    float *sum = at(to);
    const float *first = at(a), *second = at(b);

    for (size_t i = 0; i < count; i++)
        sum[i] = first[i] + second[i];
}

static void add_floats(crti_device_t *device, float *to, const float *from, size_t count)
{
    add(device, to, to, from, count);
}

static void load_keys(crti_device_t *device, void *to, const void *from, size_t bytes)
{
    memcpy(at(to), at(from), bytes);
}

static void load(crti_device_t *device, float *x, const float *from, int rows,
                 crti_shape_t shape, bool is_gradient)
{
    memcpy(at(x), at(from), (size_t)rows * crti_shape_size(shape) * sizeof(float));
}

static void store(crti_device_t *device, float *to, const float *y, int rows,
                  crti_shape_t shape, bool is_gradient)
{
    load(device, to, y, rows, shape, is_gradient);
}

static void softmax(crti_device_t *device, int rows, int classes, const float *y,
                    float *probabilities)
{
    memcpy(at(probabilities), at(y), (size_t)rows * (size_t)classes * sizeof(float));
    crti_softmax(rows, classes, at(probabilities));
}

static void cross_entropy(crti_device_t *device, int rows, int classes, const float *y,
                          const uint8_t *labels, float *dy)
{
    softmax(device, rows, classes, y, dy);
    (void)crti_softmax_gradients(rows, classes, at(dy), labels,
                                 &((fake_gpu_t *)device)->loss);
}

static crt_status_t read_loss(crti_device_t *device, double *loss_out)
{
    *loss_out = ((fake_gpu_t *)device)->loss;
    return CRT_OK;
}

/* ---------------------------------------------------------------- optimizers */

static crt_status_t open_optimizer(crti_device_t *device, crt_optimizer_t *optimizer)
{
    return CRT_OK;
}

static void close_optimizer(crti_device_t *device, crt_optimizer_t *optimizer)
{
}

/* The host's step on what lies behind. */
static crt_status_t update(crti_device_t *device, crt_optimizer_t *o, crt_model_t *model)
{
    crt_optimizer_t kept = *o;
    float *weights = model->weights, *gradients = model->gradients;
    crt_status_t status;

    model->device = NULL;
    model->weights = at(weights);
    model->gradients = at(gradients);
    for (int i = 0; i < o->states; i++)
        o->state[i] = at(kept.state[i]);
    o->slow = at(kept.slow);
    status = crt_optimizer_step(o, model);
    memcpy(o->state, kept.state, sizeof(kept.state));
    o->slow = kept.slow;
    model->weights = weights;
    model->gradients = gradients;
    model->device = device;
    return status;
}

/* ---------------------------------------------------------------- opening */

static void enter(crti_device_t *device)
{
}

static crt_status_t failure(crti_device_t *device)
{
    return CRT_OK;
}

static void *stream_of(const crti_device_t *device)
{
    return ((const fake_gpu_t *)device)->stream;
}

static void close_gpu(crti_device_t *device)
{
    cuda.end_stream(((fake_gpu_t *)device)->stream);
    free(device);
}

static const crti_device_ops_t fake_ops = {.close = close_gpu,
                                           .layer = layer_ops,
                                           .enter = enter,
                                           .begin = enter,
                                           .failure = failure,
                                           .stream = stream_of,
                                           .allocate = allocate,
                                           .no_memory = no_memory,
                                           .release = release,
                                           .zero = zero,
                                           .copy = copy,
                                           .add = add,
                                           .add_floats = add_floats,
                                           .load = load,
                                           .load_keys = load_keys,
                                           .store = store,
                                           .softmax = softmax,
                                           .cross_entropy = cross_entropy,
                                           .read_loss = read_loss,
                                           .open_optimizer = open_optimizer,
                                           .update = update,
                                           .close_optimizer = close_optimizer};

static bool find(void *library, const char *name, void *place)
{
    void *found = dlsym(library, name);

    memcpy(place, &found, sizeof(found));
    return found != NULL;
}

static crt_status_t open_libraries(void)
{
    const char *file = getenv("CRT_CUDART_LIBRARY");
    void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!library || !find(library, "cudaGetDeviceCount", &cuda.count) ||
        !find(library, "cudaMalloc", &cuda.allocate) ||
        !find(library, "cudaFree", &cuda.release) ||
        !find(library, "cudaStreamCreateWithFlags", &cuda.new_stream) ||
        !find(library, "cudaStreamDestroy", &cuda.end_stream) ||
        !find(library, "fake_memory", &cuda.memory))
        return crt_raise(CRT_ERR_UNSUPPORTED, "CRT_CUDART_LIBRARY is no stand-in: %s",
                         dlerror());
    return CRT_OK;
}

static crt_status_t open_gpu(const crt_model_t *model, int number,
                             crt_precision_t precision, crti_device_t **device_out)
{
    fake_gpu_t *gpu;
    int count = 0;

    CRT_TRY(open_libraries());
    if (cuda.count(&count) != cudaSuccess || number >= count)
        return crt_raise(CRT_ERR_UNSUPPORTED, "no GPU %d of %d", number, count);
    gpu = calloc(1, sizeof(*gpu));
    if (!gpu)
        return crt_raise(CRT_ERR_NO_MEMORY, "a GPU");
    gpu->device = (crti_device_t){.ops = &fake_ops, .number = number};
    if (cuda.new_stream(&gpu->stream, cudaStreamNonBlocking) != cudaSuccess) {
        free(gpu);
        return crt_raise(CRT_ERR_IO, "a stream");
    }
    *device_out = &gpu->device;
    return CRT_OK;
}

/* In place of that of ml/cuda. */
const crti_device_kind_t crti_device_cuda = {.name = "fake", .open = open_gpu};
