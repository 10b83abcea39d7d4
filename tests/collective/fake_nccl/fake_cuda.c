/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA half of the stand-in. See fake.h. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../ml/fake_cuda/device_memory.h"
#include "fake.h"

struct CUstream_st {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    fake_task_t *first, **last;
    bool is_running, is_stopping;
};

struct CUevent_st {
    atomic_int pending;
};

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* covers blocks, default_stream */
static device_block_t *blocks;
static cudaStream_t default_stream;
static _Thread_local int device;

void fake_nap(void)
{
    const struct timespec t = {.tv_nsec = 30000};

    nanosleep(&t, NULL);
}

/* ---------------------------------------------------------------- devices and memory */

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *text = getenv("FAKE_GPU_COUNT");

    *count = text ? atoi(text) : 2;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDevice(int *now)
{
    *now = device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int now)
{
    int count;

    if (cudaGetDeviceCount(&count) != cudaSuccess || now < 0 || now >= count)
        return cudaErrorInvalidDevice;
    device = now;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    device_block_t *b;

    pthread_mutex_lock(&lock);
    b = device_block_new(&blocks, bytes);
    if (b)
        *memory = b->device;
    pthread_mutex_unlock(&lock);
    return b ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
    device_block_t *b;

    if (!memory)
        return cudaSuccess;
    pthread_mutex_lock(&lock);
    b = device_block_take(&blocks, memory);
    pthread_mutex_unlock(&lock);
    if (!b)
        return cudaErrorInvalidValue;
    device_block_free(b);
    return cudaSuccess;
}

void *fake_memory(const void *at, size_t bytes)
{
    void *found;

    pthread_mutex_lock(&lock);
    found = device_block_memory(blocks, at, bytes);
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---------------------------------------------------------------- streams */

static void *work(void *user)
{
    cudaStream_t s = user;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        fake_task_t *task = s->first;

        if (!task && s->is_stopping)
            break;
        if (!task) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->first = task->next;
        if (!s->first)
            s->last = &s->first;
        s->is_running = true;
        pthread_mutex_unlock(&s->lock);
        task->run(task);
        pthread_mutex_lock(&s->lock);
        s->is_running = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    cudaStream_t s = calloc(1, sizeof(*s));

    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->last = &s->first;
    pthread_create(&s->thread, NULL, work, s);
    *stream = s;
    return cudaSuccess;
}

static cudaStream_t real(cudaStream_t stream)
{
    if (stream)
        return stream;
    pthread_mutex_lock(&lock);
    if (!default_stream)
        cudaStreamCreateWithFlags(&default_stream, 0);
    pthread_mutex_unlock(&lock);
    return default_stream;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    pthread_mutex_lock(&s->lock);
    s->is_stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return cudaSuccess;
}

void fake_submit(cudaStream_t stream, fake_task_t *task)
{
    cudaStream_t s = real(stream);

    task->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->last = task;
    s->last = &task->next;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaStream_t s = real(stream);
    bool busy;

    pthread_mutex_lock(&s->lock);
    busy = s->first || s->is_running;
    pthread_mutex_unlock(&s->lock);
    return busy ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaStream_t s = real(stream);

    pthread_mutex_lock(&s->lock);
    while (s->first || s->is_running)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return cudaSuccess;
}

/* ---------------------------------------------------------------- events */

typedef struct event_task {
    fake_task_t task;
    cudaEvent_t event;
} event_task_t;

static void run_record(fake_task_t *task)
{
    atomic_fetch_sub(&((event_task_t *)task)->event->pending, 1);
    free(task);
}

static void run_wait(fake_task_t *task)
{
    while (atomic_load(&((event_task_t *)task)->event->pending) > 0)
        fake_nap();
    free(task);
}

static void submit_event(cudaStream_t stream, cudaEvent_t event,
                         void (*run)(fake_task_t *task))
{
    event_task_t *t = calloc(1, sizeof(*t));

    t->task.run = run;
    t->event = event;
    fake_submit(stream, &t->task);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = calloc(1, sizeof(**event));
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    atomic_fetch_add(&event->pending, 1);
    submit_event(stream, event, run_record);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return atomic_load(&event->pending) > 0 ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    submit_event(stream, event, run_wait);
    return cudaSuccess;
}

/* ---------------------------------------------------------------- copies */

typedef struct copy_task {
    fake_task_t task;
    void *to;
    size_t bytes;
    char data[];
} copy_task_t;

static void run_copy(fake_task_t *task)
{
    copy_task_t *t = (copy_task_t *)task;
    const char *text = getenv("FAKE_COPY_MS");
    const struct timespec slow = {.tv_nsec = text ? atol(text) * 1000000 : 0};

    nanosleep(&slow, NULL);
    memcpy(t->to, t->data, t->bytes);
    free(t);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    copy_task_t *t;

    if (kind == cudaMemcpyDeviceToHost) { /* waits, as with memory that is not pinned */
        const void *memory = fake_memory(from, bytes);

        if (!memory)
            return cudaErrorInvalidValue;
        cudaStreamSynchronize(stream);
        memcpy(to, memory, bytes);
        return cudaSuccess;
    }
    if (kind != cudaMemcpyHostToDevice || !fake_memory(to, bytes))
        return cudaErrorInvalidValue;
    t = malloc(sizeof(*t) + bytes);
    t->task.run = run_copy;
    t->to = fake_memory(to, bytes);
    t->bytes = bytes;
    memcpy(t->data, from, bytes);
    fake_submit(stream, &t->task);
    return cudaSuccess;
}

/* For the tests' own copies. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, NULL);

    return error == cudaSuccess ? cudaStreamSynchronize(NULL) : error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    default: return "an error";
    }
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}
