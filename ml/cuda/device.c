/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU: opening it, its memory, copies, launches. See ml/cuda/cuda.h. */
#include <stdlib.h>
#include <string.h>

#include "ml/cuda/cuda.h"
#include "ml/cuda/holders.h"
#include "ml/model.h"

#define BLOCKS_PER_SM 8 /* as many as run at once */
#define MIXED_SCALE   1024

/* ---------------------------------------------------------------- failures */

static crt_status_t failure(crti_device_t *device)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    crt_status_t status = c->failed;

    c->failed = CRT_OK;
    return status;
}

/* ---------------------------------------------------------------- memory */

static float *allocate(crti_device_t *device, size_t floats)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    void *memory = NULL;

    if (c->api->cudaMalloc(&memory, floats * sizeof(float)) != cudaSuccess) {
        (void)c->api->cudaGetLastError();
        return NULL;
    }
    crti_cuda_did(c,
                  c->api->cudaMemsetAsync(memory, 0, floats * sizeof(float), c->stream),
                  "setting memory to zero");
    return memory;
}

/* CUDA waits until nothing uses it any more. */
static void release(crti_device_t *device, float *memory)
{
    crti_cuda_t *c = (crti_cuda_t *)device;

    if (memory)
        (void)c->api->cudaFree(memory);
}

static void zero(crti_device_t *device, float *memory, size_t floats)
{
    crti_cuda_t *c = (crti_cuda_t *)device;

    crti_cuda_did(c,
                  c->api->cudaMemsetAsync(memory, 0, floats * sizeof(float), c->stream),
                  "setting memory to zero");
}

/* ---------------------------------------------------------------- copies */

static bool is_on_host(const crti_cuda_t *c, const void *memory)
{
    struct cudaPointerAttributes a = {.type = cudaMemoryTypeUnregistered};

    if (c->api->cudaPointerGetAttributes(&a, memory) != cudaSuccess)
        (void)c->api->cudaGetLastError();
    return a.type != cudaMemoryTypeDevice;
}

static crt_status_t copy(crti_device_t *device, void *to, const void *from, size_t bytes)
{
    crti_cuda_t *c = (crti_cuda_t *)device;

    crti_cuda_copy(c, to, from, bytes);
    if (is_on_host(c, to) || is_on_host(c, from))
        crti_cuda_did(c, c->api->cudaStreamSynchronize(c->stream), "waiting for a copy");
    return failure(device);
}

void crti_cuda_turn(crti_cuda_t *c, crti_cuda_kernel_t how, float *to, const float *from,
                    size_t rows, size_t a, size_t b, float factor)
{
    unsigned long long n = rows, first = a, second = b;
    bool is_copy = (a == 1 || b == 1) && (how == CRTI_KERNEL_turn || !c->mixed);

    if (is_copy)
        crti_cuda_copy(c, to, from, rows * a * b * crti_cuda_size(c));
    else
        crti_cuda_run(c, how, rows * a * b,
                      (void *[]){&to, &from, &n, &first, &second, &factor});
}

/* Numbers of the caller, in the device's memory: copied to `x`, when they can stay as they are, or
 * behind the scenes. */
static const float *bring(crti_cuda_t *c, float *x, const float *from, size_t bytes,
                          bool stays)
{
    if (!is_on_host(c, from))
        return from;
    if (!stays && !crti_cuda_reserve(c, &c->staged, &c->staged_bytes, bytes, "inputs"))
        return NULL;
    crti_cuda_upload(c, stays ? x : c->staged, from, bytes);
    return stays ? x : c->staged;
}

static void load(crti_device_t *device, float *x, const float *from, int rows,
                 crti_shape_t shape, bool is_gradient)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    size_t places = crti_shape_places(shape), channels = (size_t)shape.channels;
    bool turns = c->channels_first && places > 1 && channels > 1;

    from = bring(c, x, from, (size_t)rows * places * channels * sizeof(float),
                 !turns && !c->mixed);
    if (from)
        crti_cuda_turn(c, CRTI_KERNEL_load, x, from, (size_t)rows,
                       turns ? places : places * channels, turns ? channels : 1,
                       is_gradient ? c->scale : 1);
}

static void store(crti_device_t *device, float *to, const float *y, int rows,
                  crti_shape_t shape, bool is_gradient)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    size_t places = crti_shape_places(shape), channels = (size_t)shape.channels;
    bool turns = c->channels_first;

    crti_cuda_turn(c, CRTI_KERNEL_store, to, y, (size_t)rows,
                   turns ? channels : places * channels, turns ? places : 1,
                   is_gradient ? 1 / c->scale : 1);
}

/* ---------------------------------------------------------------- passes */

static void begin(crti_device_t *device)
{
    ((crti_cuda_t *)device)->has_sequences = false;
}

static void load_keys(crti_device_t *device, void *to, const void *from, size_t bytes)
{
    crti_cuda_t *c = (crti_cuda_t *)device;

    if (is_on_host(c, from))
        crti_cuda_upload(c, to, from, bytes);
    else
        crti_cuda_copy(c, to, from, bytes);
}

/* The sequence of each row, on its way to the GPU. */
static void fill_sequences(const crti_layer_pass_t *pass, crti_cuda_range_t *sequences)
{
    int first = 0;

    for (size_t k = 0; k < pass->sequences; k++) {
        crti_cuda_range_t own = {first, first + pass->lengths[k]};

        while (first < own.end)
            sequences[first++] = own;
    }
}

bool crti_cuda_sequences(crti_cuda_t *c, const crti_layer_pass_t *pass)
{
    size_t bytes = (size_t)pass->rows * sizeof(*c->sequences);
    void *memory = c->sequences;
    crti_cuda_range_t *sequences;
    bool is_there;

    if (c->has_sequences)
        return true;
    is_there = crti_cuda_reserve(c, &memory, &c->sequence_bytes, bytes, "sequences");
    c->sequences = memory;
    sequences = is_there ? crti_cuda_slot(c, bytes) : NULL;
    if (!sequences)
        return false;
    fill_sequences(pass, sequences);
    crti_cuda_send(c, c->sequences, bytes);
    c->has_sequences = true;
    return true;
}

/* ---------------------------------------------------------------- launches */

static void add(crti_device_t *device, float *to, const float *a, const float *b,
                size_t count)
{
    unsigned long long n = count;

    crti_cuda_run((crti_cuda_t *)device, CRTI_KERNEL_add, (count + 3) / 4,
                  (void *[]){&to, &a, &b, &n});
}

static void add_floats(crti_device_t *device, float *to, const float *from, size_t count)
{
    unsigned long long n = count;

    crti_cuda_run((crti_cuda_t *)device, CRTI_KERNEL_accumulate, count,
                  (void *[]){&to, &from, &n});
}

crti_cuda_grid_t crti_cuda_grid(const crti_cuda_t *c, int rows, crti_shape_t shape)
{
    return (crti_cuda_grid_t){rows, shape.height, shape.width, shape.channels,
                              c->channels_first};
}

cudnnTensorDescriptor_t crti_cuda_describe(crti_cuda_t *c, cudnnDataType_t type, int rows,
                                           crti_shape_t shape)
{
    cudnnTensorDescriptor_t made = NULL;

    if (crti_cuda_did_dnn(c, c->api->cudnnCreateTensorDescriptor(&made), "cuDNN"))
        crti_cuda_did_dnn(c,
                          c->api->cudnnSetTensor4dDescriptor(
                              made,
                              c->channels_first ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC,
                              type, rows, shape.channels, shape.height, shape.width),
                          "cuDNN, a tensor");
    return made;
}

/* ---------------------------------------------------------------- opening */

static void enter(crti_device_t *device)
{
    crti_cuda_t *c = (crti_cuda_t *)device;

    crti_cuda_did(c, c->api->cudaSetDevice(device->number), "choosing the GPU");
}

static void *stream_of(const crti_device_t *device)
{
    return ((const crti_cuda_t *)device)->stream;
}

static const crti_layer_ops_t *layer_ops(const crti_device_t *device,
                                         const crti_layer_t *layer)
{
    const crti_cuda_t *c = (const crti_cuda_t *)device;
    bool has_places = c->channels_first && crti_shape_places(layer->in[0]) > 1;

    switch (layer->spec.kind) {
    case CRT_LAYER_DENSE: return &crti_cuda_dense;
    case CRT_LAYER_GELU: return &crti_cuda_gelu;
    case CRT_LAYER_MISH: return &crti_cuda_mish;
    case CRT_LAYER_LAYER_NORM: return &crti_cuda_layer_norm;
    case CRT_LAYER_ATTENTION: return &crti_cuda_attention;
    case CRT_LAYER_PATCHES: return &crti_cuda_patches;
    case CRT_LAYER_TOKEN: return &crti_cuda_token;
    case CRT_LAYER_POSITIONS: return &crti_cuda_positions;
    case CRT_LAYER_CONCATENATE: return &crti_cuda_concatenate;
    case CRT_LAYER_MAXOUT: return &crti_cuda_maxout;
    case CRT_LAYER_HASH_EMBED: return &crti_cuda_hash_embed;
    case CRT_LAYER_EXPAND_WINDOW: return &crti_cuda_expand_window;
    case CRT_LAYER_PARAMETERS: return layer->ops;
    case CRT_LAYER_RELU: return &crti_cuda_relu;
    case CRT_LAYER_DROPOUT: return &crti_cuda_dropout;
    case CRT_LAYER_ADD: return &crti_cuda_add;
    case CRT_LAYER_CONVOLUTION: return &crti_cuda_convolution;
    case CRT_LAYER_MAX_POOL: return &crti_cuda_max_pool;
    case CRT_LAYER_AVERAGE_POOL: return &crti_cuda_average_pool;
    case CRT_LAYER_BATCH_NORM: return &crti_cuda_batch_norm;
    case CRT_LAYER_SUBSAMPLE: return &crti_cuda_subsample;
    case CRT_LAYER_FLATTEN:
        return has_places && layer->in[0].channels > 1 ? &crti_cuda_flatten : layer->ops;
    }
    return NULL;
}

/* Does it compute along the channels of a place, or move places? */
static bool wants_channels_last(const crti_layer_t *layer)
{
    switch (layer->spec.kind) {
    case CRT_LAYER_DENSE:
    case CRT_LAYER_MAXOUT:
    case CRT_LAYER_LAYER_NORM:
    case CRT_LAYER_ATTENTION:
    case CRT_LAYER_PATCHES:
    case CRT_LAYER_TOKEN:
    case CRT_LAYER_POSITIONS:
    case CRT_LAYER_CONCATENATE:
        return crti_shape_places(layer->in[0]) > 1 || crti_shape_places(layer->out) > 1;
    default: return false;
    }
}

static bool has_channels_first(const crt_model_t *model, crt_precision_t precision)
{
    bool is_first = precision != CRT_PRECISION_MIXED;

    for (size_t i = 0; i < model->layer_count && is_first; i++)
        is_first = !wants_channels_last(&model->layers[i]);
    return is_first;
}

static void close_slots(crti_cuda_t *c)
{
    for (int i = 0; i < CRTI_CUDA_SLOTS; i++) {
        (void)c->api->cudaFreeHost(c->slots[i].memory);
        if (c->slots[i].copied)
            (void)c->api->cudaEventDestroy(c->slots[i].copied);
    }
}

static void close_device(crti_device_t *device)
{
    crti_cuda_t *c = (crti_cuda_t *)device;

    if (c->stream)
        (void)c->api->cudaStreamSynchronize(c->stream);
    close_slots(c);
    (void)c->api->cudaFree(c->staged);
    (void)c->api->cudaFree(c->sequences);
    (void)c->api->cudaFree(c->parser_memory);
    (void)c->api->cudaFree(c->labels);
    (void)c->api->cudaFree(c->losses);
    (void)c->api->cudaFree(c->loss);
    (void)c->api->cudaFreeHost(c->loss_on_host);
    if (c->loss_is_there)
        (void)c->api->cudaEventDestroy(c->loss_is_there);
    if (c->module)
        (void)c->api->cuModuleUnload(c->module);
    if (c->dnn)
        (void)c->api->cudnnDestroy(c->dnn);
    if (c->blas)
        (void)c->api->cublasDestroy_v2(c->blas);
    if (c->stream)
        (void)c->api->cudaStreamDestroy(c->stream);
    free(c);
}

static const crti_device_ops_t device_ops = {.close = close_device,
                                             .layer = layer_ops,
                                             .enter = enter,
                                             .failure = failure,
                                             .stream = stream_of,
                                             .allocate = allocate,
                                             .no_memory = crti_cuda_raise_memory,
                                             .release = release,
                                             .zero = zero,
                                             .copy = copy,
                                             .add = add,
                                             .add_floats = add_floats,
                                             .begin = begin,
                                             .load = load,
                                             .load_keys = load_keys,
                                             .store = store,
                                             .softmax = crti_cuda_softmax,
                                             .cross_entropy = crti_cuda_cross_entropy,
                                             .read_loss = crti_cuda_read_loss,
                                             .parser = &crti_cuda_parser,
                                             .open_optimizer = crti_cuda_open_optimizer,
                                             .update = crti_cuda_update,
                                             .close_optimizer =
                                                 crti_cuda_close_optimizer};

/* Why there is none. */
static crt_status_t refuse_all(const crti_cuda_api_t *api, cudaError_t error)
{
    int driver = 0, runtime = 0;

    if (error == cudaErrorInsufficientDriver &&
        api->cudaDriverGetVersion(&driver) == cudaSuccess &&
        api->cudaRuntimeGetVersion(&runtime) == cudaSuccess && driver > 0)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "no GPU can be used: its driver is made for CUDA %d.%d, and the "
                         "CUDA runtime is %d.%d; "
                         "update the driver, or set CRT_CUDART_LIBRARY to the file of a "
                         "libcudart.so.%d",
                         driver / 1000, driver % 1000 / 10, runtime / 1000,
                         runtime % 1000 / 10, driver / 1000);
    return crt_raise(CRT_ERR_UNSUPPORTED, "no GPU can be used: CUDA says: %s",
                     api->cudaGetErrorString(error));
}

static crt_status_t check_number(const crti_cuda_api_t *api, int number)
{
    int count = 0;
    cudaError_t error = api->cudaGetDeviceCount(&count);

    if (error == cudaSuccess && count == 0)
        error = cudaErrorNoDevice;
    if (error != cudaSuccess)
        return refuse_all(api, error);
    if (number < 0 || number >= count)
        return crt_raise(CRT_ERR_INVALID,
                         "there is no GPU %d among the %d of this process", number,
                         count);
    return CRT_OK;
}

/* The kernels for the GPU that is current. */
static crt_status_t open_kernels(crti_cuda_t *c)
{
    int major = 0, minor = 0, sms = 0, number = c->device.number;
    const void *code;
    crt_status_t status;

    crti_cuda_did(
        c,
        c->api->cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number),
        "its kind");
    crti_cuda_did(
        c,
        c->api->cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number),
        "its kind");
    crti_cuda_did(
        c, c->api->cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, number),
        "its kind");
    c->blocks = sms * BLOCKS_PER_SM;
    status = crti_cuda_compile(c->api, 10 * major + minor, c->mixed, &code);
    if (status != CRT_OK)
        return status;
    if (crti_cuda_did_driver(c, c->api->cuModuleLoadData(&c->module, code),
                             "loading the kernels"))
        for (int i = 0; i < CRTI_CUDA_KERNEL_COUNT; i++)
            crti_cuda_did_driver(
                c,
                c->api->cuModuleGetFunction(&c->kernels[i], c->module,
                                            crti_cuda_kernel_name((crti_cuda_kernel_t)i)),
                crti_cuda_kernel_name((crti_cuda_kernel_t)i));
    return failure(&c->device);
}

static void open_events(crti_cuda_t *c)
{
    size_t has = 0;

    for (int i = 0; i < CRTI_CUDA_SLOTS; i++)
        crti_cuda_did(
            c,
            c->api->cudaEventCreateWithFlags(&c->slots[i].copied, cudaEventDisableTiming),
            "an event");
    crti_cuda_did(
        c, c->api->cudaEventCreateWithFlags(&c->loss_is_there, cudaEventDisableTiming),
        "an event");
    (void)crti_cuda_reserve(c, (void **)&c->loss, &has, sizeof(double), "a loss");
    crti_cuda_did(c, c->api->cudaMallocHost((void **)&c->loss_on_host, sizeof(double)),
                  "host memory");
}

static void open_libraries(crti_cuda_t *c)
{
    cublasMath_t math = c->precision == CRT_PRECISION_TF32 ? CUBLAS_TF32_TENSOR_OP_MATH
                                                           : CUBLAS_DEFAULT_MATH;

    if (crti_cuda_did_blas(c, c->api->cublasCreate_v2(&c->blas), "opening cuBLAS")) {
        crti_cuda_did_blas(c, c->api->cublasSetStream_v2(c->blas, c->stream), "cuBLAS");
        crti_cuda_did_blas(c, c->api->cublasSetMathMode(c->blas, math), "cuBLAS");
    }
    if (crti_cuda_did_dnn(c, c->api->cudnnCreate(&c->dnn), "opening cuDNN"))
        crti_cuda_did_dnn(c, c->api->cudnnSetStream(c->dnn, c->stream), "cuDNN");
}

static crt_status_t open_device(crti_cuda_t *c)
{
    enter(&c->device);
    if (!crti_cuda_did(
            c, c->api->cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking),
            "a stream"))
        return failure(&c->device);
    open_events(c);
    open_libraries(c);
    return c->failed == CRT_OK ? open_kernels(c) : failure(&c->device);
}

static crt_status_t open_any(const crt_model_t *model, int number,
                             crt_precision_t precision, crti_device_t **device_out)
{
    const crti_cuda_api_t *api;
    crt_status_t status = crti_cuda_library(&api);
    crti_cuda_t *c;

    if (status == CRT_OK)
        status = check_number(api, number);
    if (status == CRT_OK && precision != CRT_PRECISION_FLOAT32 &&
        precision != CRT_PRECISION_TF32 && precision != CRT_PRECISION_MIXED)
        status =
            crt_raise(CRT_ERR_INVALID, "no precision has the number %d", (int)precision);
    if (status != CRT_OK)
        return status;
    c = calloc(1, sizeof(*c));
    if (!c)
        return crt_raise(CRT_ERR_NO_MEMORY, "a GPU");
    *c = (crti_cuda_t){.device = {&device_ops, number},
                       .api = api,
                       .precision = precision,
                       .mixed = precision == CRT_PRECISION_MIXED,
                       .scale = precision == CRT_PRECISION_MIXED ? MIXED_SCALE : 1,
                       .channels_first = has_channels_first(model, precision)};
    status = open_device(c);
    if (status != CRT_OK) {
        close_device(&c->device);
        return status;
    }
    *device_out = &c->device;
    return CRT_OK;
}

const crti_device_kind_t crti_device_cuda = {.name = "cuda", .open = open_any};
