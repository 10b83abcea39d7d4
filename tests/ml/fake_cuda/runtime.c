/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime of the stand-in: devices, memory, streams, events, copies. See fake.h. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_memory.h"
#include "fake.h"

#if defined(__SANITIZE_ADDRESS__)
#    include <sanitizer/asan_interface.h>
#else
#    define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#    define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

#define MIB          ((size_t)1 << 20)
#define VERSION      12040 /* of the runtime */
#define FIRST_LETTER 0xff  /* of floats: NaN */

typedef struct item {
    struct item *next;
    fake_run_t run;
    void *work;
} item_t;

struct CUstream_st {
    struct CUstream_st *next;
    item_t *first, **last;
    uint64_t queued, done;
};

struct CUevent_st {
    cudaStream_t stream;
    uint64_t after; /* so many of the stream's */
};

static pthread_mutex_t lock; /* covers all that follows; taken again by what is run */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static device_block_t *blocks;
static cudaStream_t streams;
static size_t used;
static _Thread_local cudaError_t last_error;

static void make_lock(void)
{
    pthread_mutexattr_t a;

    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
}

static void enter(void)
{
    pthread_once(&once, make_lock);
    pthread_mutex_lock(&lock);
}

static cudaError_t leave(cudaError_t error)
{
    pthread_mutex_unlock(&lock);
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

static size_t number_of(const char *name, size_t usual)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : usual;
}

/* ---------------------------------------------------------------- devices */

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = (int)number_of("FAKE_CUDA_DRIVER", VERSION);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (number_of("FAKE_CUDA_DRIVER", VERSION) < VERSION / 1000 * 1000)
        return cudaErrorInsufficientDriver;
    *count = (int)number_of("FAKE_GPU_COUNT", 1);
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
    return device >= 0 && device < (int)number_of("FAKE_GPU_COUNT", 1)
               ? cudaSuccess
               : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = 9; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = 1; return cudaSuccess;
    default: return cudaErrorInvalidValue;
    }
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    enter();
    *total = number_of("FAKE_GPU_MIB", 2048) * MIB;
    *left = *total - number_of("FAKE_GPU_OTHERS_MIB", 0) * MIB - used;
    return leave(cudaSuccess);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int room, int device)
{
    snprintf(id, (size_t)room, "0000:%02x:00.0", device);
    return cudaSuccess;
}

/* ---------------------------------------------------------------- NVML */

/* As NVML declares them. */
typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} process_t;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                            process_t *processes);

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
    *device = NULL;
    return strcmp(id, "0000:00:00.0") == 0 ? 0 : 6; /* not found */
}

/* This process, and one that has what others hold. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                            process_t *processes)
{
    (void)device;
    processes[0] = (process_t){.pid = (unsigned)getpid(), .bytes = used};
    processes[1] =
        (process_t){.pid = 1, .bytes = number_of("FAKE_GPU_OTHERS_MIB", 0) * MIB};
    *count = 2;
    return 0;
}

/* ---------------------------------------------------------------- memory */

void *fake_memory(const void *device, size_t bytes)
{
    void *found;

    enter();
    found = device_block_memory(blocks, device, bytes);
    leave(cudaSuccess);
    return found;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    device_block_t *b;
    size_t left, total;

    enter();
    cudaMemGetInfo(&left, &total);
    if (bytes == 0)
        return leave(cudaErrorInvalidValue);
    b = bytes <= left ? device_block_new(&blocks, bytes) : NULL;
    if (!b)
        return leave(cudaErrorMemoryAllocation);
    memset(b->memory, FIRST_LETTER, bytes);
    ASAN_POISON_MEMORY_REGION(b->memory + bytes, b->mapped - bytes);
    used += bytes;
    *memory = b->device;
    return leave(cudaSuccess);
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    device_block_t *b = calloc(1, sizeof(*b));

    b->bytes = bytes;
    b->is_pinned = true;
    b->device = b->memory = malloc(bytes);
    memset(b->memory, FIRST_LETTER, bytes);
    enter();
    b->next = blocks;
    blocks = b;
    *memory = b->memory;
    return leave(cudaSuccess);
}

static void run_until(cudaStream_t s, uint64_t after)
{
    while (s->done < after && s->first) {
        item_t *item = s->first;

        s->first = item->next;
        if (!s->first)
            s->last = &s->first;
        s->done++;
        item->run(item->work);
        free(item);
    }
}

static void run_all(void)
{
    for (cudaStream_t s = streams; s; s = s->next)
        run_until(s, s->queued);
}

/* As CUDA does: all work that may use it ends first. */
static cudaError_t release(void *memory, bool is_pinned)
{
    device_block_t *b;

    if (!memory)
        return cudaSuccess;
    enter();
    run_all();
    b = device_block_find(blocks, memory, 1);
    if (!b || b->device != memory || b->is_pinned != is_pinned)
        return leave(cudaErrorInvalidValue);
    (void)device_block_take(&blocks, memory);
    if (is_pinned) {
        free(b->memory);
        free(b);
    } else {
        used -= b->bytes;
        ASAN_UNPOISON_MEMORY_REGION(b->memory, b->mapped);
        device_block_free(b);
    }
    return leave(cudaSuccess);
}

cudaError_t cudaFree(void *memory)
{
    return release(memory, false);
}

cudaError_t cudaFreeHost(void *memory)
{
    return release(memory, true);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *memory)
{
    const device_block_t *b;

    enter();
    b = device_block_find(blocks, memory, 1);
    *a = (struct cudaPointerAttributes){.type = !b ? cudaMemoryTypeUnregistered
                                                : b->is_pinned ? cudaMemoryTypeHost
                                                               : cudaMemoryTypeDevice};
    return leave(cudaSuccess);
}

/* ---------------------------------------------------------------- streams and events */

void fake_queue(struct CUstream_st *s, fake_run_t run, void *work)
{
    item_t *item = calloc(1, sizeof(*item));

    *item = (item_t){.run = run, .work = work};
    enter();
    *s->last = item;
    s->last = &item->next;
    s->queued++;
    leave(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    cudaStream_t s = calloc(1, sizeof(*s));

    (void)flags;
    s->last = &s->first;
    enter();
    s->next = streams;
    streams = s;
    *stream = s;
    return leave(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    enter();
    run_until(s, s->queued);
    return leave(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaStream_t *at = &streams;

    enter();
    run_until(s, s->queued);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s);
    return leave(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s)
{
    enter();
    event->stream = s;
    event->after = s->queued;
    return leave(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    enter();
    if (event->stream)
        run_until(event->stream, event->after);
    return leave(cudaSuccess);
}

/* ---------------------------------------------------------------- copies */

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    int letter;
    char staged[];
} copy_t;

static void run_copy(void *work)
{
    copy_t *c = work;

    memcpy(c->to, c->from, c->bytes);
    free(c);
}

static void run_set(void *work)
{
    copy_t *c = work;

    memset(c->to, c->letter, c->bytes);
    free(c);
}

/* The memory behind it; *is_pageable_out: it is the host's, and CUDA does not know it. */
static void *resolve(const void *at, size_t bytes, bool *is_pageable_out)
{
    const device_block_t *b = device_block_find(blocks, at, bytes);

    *is_pageable_out = !b;
    if (!b && device_block_find(blocks, at, 1))
        fake_die("a copy of %zu bytes reaches beyond the end of its memory", bytes);
    return b ? b->memory + ((const char *)at - b->device) : (void *)(uintptr_t)at;
}

/* Memory that is not pinned is read before the call returns, and written before, too. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t s)
{
    copy_t *c;
    bool stage, waits;

    if (kind != cudaMemcpyDefault)
        return cudaErrorInvalidValue;
    enter();
    from = resolve(from, bytes, &stage);
    to = resolve(to, bytes, &waits);
    c = malloc(sizeof(*c) + (stage ? bytes : 0));
    *c = (copy_t){.to = to, .from = from, .bytes = bytes};
    if (stage) {
        memcpy(c->staged, from, bytes);
        c->from = c->staged;
    }
    fake_queue(s, run_copy, c);
    if (waits)
        run_until(s, s->queued);
    return leave(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void *memory, int letter, size_t bytes, cudaStream_t s)
{
    copy_t *c = calloc(1, sizeof(*c));

    *c = (copy_t){.to = fake_memory(memory, bytes), .bytes = bytes, .letter = letter};
    if (!c->to) {
        free(c);
        return cudaErrorInvalidValue;
    }
    fake_queue(s, run_set, c);
    return cudaSuccess;
}

/* ---------------------------------------------------------------- errors */

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    default: return "an error";
    }
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}
