/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL half of the stand-in: members are processes of one host, which share a file that the
 * maker of the unique id holds. See fake.h. */
#include <fcntl.h>
#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

#define MEMBERS       8
#define PARTS_MAX     (8 * MEMBERS) /* of one group of messages */
#define CHANNEL_BYTES ((uint64_t)32 << 10)

#ifdef FAKE_OLD
#    define VERSION 21805
#else
#    define VERSION 22809
#endif

typedef struct channel {
    _Atomic uint64_t written, read;
    unsigned char data[CHANNEL_BYTES];
} channel_t;

typedef struct shared {
    atomic_int joined[MEMBERS], finalized[MEMBERS];
    channel_t channels[MEMBERS][MEMBERS]; /* from, to */
} shared_t;

typedef struct secret {
    int pid, fd;
} secret_t;

struct ncclComm {
    secret_t secret;
    shared_t *shared;
    int rank, size;
    pthread_t thread; /* joins, finalizes */
    bool has_thread;
    atomic_int async, pending;
    atomic_bool is_aborted, is_revoked;
};

typedef struct part {
    int peer;
    unsigned char *data;
    size_t bytes, done;
} part_t;

typedef struct job {
    fake_task_t task;
    ncclComm_t comm;
    part_t sends[PARTS_MAX], receives[PARTS_MAX];
    int send_count, receive_count;
    /* what is done at the end */
    unsigned char *parts, *out; /* reduced into `out`; owned */
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
} job_t;

static _Thread_local int depth;
static _Thread_local job_t *grouped;
static _Thread_local cudaStream_t grouped_stream;

/* ---------------------------------------------------------------- numbers */

static size_t size_of(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 4;
    }
}

static uint16_t half_bits(double x, int mantissa, int bias)
{
    int exponent;
    double m = frexp(fabs(x), &exponent);
    unsigned sign = x < 0 ? 0x8000 : 0, rest;

    if (x == 0)
        return (uint16_t)sign;
    rest = (unsigned)lrint(ldexp(m, mantissa + 1)) - (1u << mantissa);
    return (uint16_t)(sign + ((unsigned)(exponent - 1 + bias) << mantissa) + rest);
}

static double half_value(uint16_t bits, int mantissa, int bias)
{
    int exponent = (bits & 0x7fff) >> mantissa;
    double m = bits & ((1 << mantissa) - 1);
    double x = exponent ? ldexp(m + (1 << mantissa), exponent - bias - mantissa)
                        : ldexp(m, 1 - bias - mantissa);

    return bits & 0x8000 ? -x : x;
}

static double get(ncclDataType_t type, const void *data, size_t i)
{
    switch (type) {
    case ncclInt8: return ((const int8_t *)data)[i];
    case ncclUint8: return ((const uint8_t *)data)[i];
    case ncclInt32: return ((const int32_t *)data)[i];
    case ncclInt64: return (double)((const int64_t *)data)[i];
    case ncclUint32: return ((const uint32_t *)data)[i];
    case ncclUint64: return (double)((const uint64_t *)data)[i];
    case ncclFloat16: return half_value(((const uint16_t *)data)[i], 10, 15);
    case ncclBfloat16: return half_value(((const uint16_t *)data)[i], 7, 127);
    case ncclFloat32: return (double)((const float *)data)[i];
    default: return ((const double *)data)[i];
    }
}

static void put(ncclDataType_t type, void *data, size_t i, double x)
{
    switch (type) {
    case ncclInt8: ((int8_t *)data)[i] = (int8_t)(int64_t)x; break;
    case ncclUint8: ((uint8_t *)data)[i] = (uint8_t)(int64_t)x; break;
    case ncclInt32: ((int32_t *)data)[i] = (int32_t)(int64_t)x; break;
    case ncclInt64: ((int64_t *)data)[i] = (int64_t)x; break;
    case ncclUint32: ((uint32_t *)data)[i] = (uint32_t)(int64_t)x; break;
    case ncclUint64: ((uint64_t *)data)[i] = (uint64_t)(int64_t)x; break;
    case ncclFloat16: ((uint16_t *)data)[i] = half_bits(x, 10, 15); break;
    case ncclBfloat16: ((uint16_t *)data)[i] = half_bits(x, 7, 127); break;
    case ncclFloat32: ((float *)data)[i] = (float)x; break;
    default: ((double *)data)[i] = x;
    }
}

static double join(ncclRedOp_t op, double x, double y)
{
    switch (op) {
    case ncclProd: return x * y;
    case ncclMin: return y < x ? y : x;
    case ncclMax: return y > x ? y : x;
    default: return x + y;
    }
}

static void reduce_parts(const job_t *job)
{
    size_t bytes = job->count * size_of(job->type);

    for (size_t i = 0; i < job->count; i++) {
        double x = get(job->type, job->parts, i);

        for (int r = 1; r < job->comm->size; r++)
            x = join(job->op, x, get(job->type, job->parts + (size_t)r * bytes, i));
        if (job->op == ncclAvg)
            x /= job->comm->size; /* put cuts integers toward zero */
        put(job->type, job->out, i, x);
    }
}

/* ---------------------------------------------------------------- moving bytes */

static bool move_out(channel_t *c, part_t *p)
{
    uint64_t written = atomic_load(&c->written), room = CHANNEL_BYTES - written;
    uint64_t at = written % CHANNEL_BYTES, n = p->bytes - p->done;

    room += atomic_load(&c->read);
    n = n < room ? n : room;
    n = n < CHANNEL_BYTES - at ? n : CHANNEL_BYTES - at;
    memcpy(c->data + at, p->data + p->done, n);
    p->done += n;
    atomic_store(&c->written, written + n);
    return n > 0;
}

static bool move_in(channel_t *c, part_t *p)
{
    uint64_t read = atomic_load(&c->read), there = atomic_load(&c->written) - read;
    uint64_t at = read % CHANNEL_BYTES, n = p->bytes - p->done;

    n = n < there ? n : there;
    n = n < CHANNEL_BYTES - at ? n : CHANNEL_BYTES - at;
    memcpy(p->data + p->done, c->data + at, n);
    p->done += n;
    atomic_store(&c->read, read + n);
    return n > 0;
}

/* What goes to one member, or comes from it, goes one after the other. */
static bool is_next(const part_t *parts, int i)
{
    if (parts[i].done == parts[i].bytes)
        return false;
    for (int j = 0; j < i; j++)
        if (parts[j].peer == parts[i].peer && parts[j].done < parts[j].bytes)
            return false;
    return true;
}

/* False: aborted. */
static bool move_all(job_t *job)
{
    ncclComm_t c = job->comm;

    while (!atomic_load(&c->is_aborted)) {
        bool moved = false, ended = true;

        for (int i = 0; i < job->send_count; i++) {
            part_t *p = &job->sends[i];

            moved |= is_next(job->sends, i) &&
                     move_out(&c->shared->channels[c->rank][p->peer], p);
            ended = ended && p->done == p->bytes;
        }
        for (int i = 0; i < job->receive_count; i++) {
            part_t *p = &job->receives[i];

            moved |= is_next(job->receives, i) &&
                     move_in(&c->shared->channels[p->peer][c->rank], p);
            ended = ended && p->done == p->bytes;
        }
        if (ended)
            return true;
        if (!moved)
            fake_nap();
    }
    return false;
}

static void run_job(fake_task_t *task)
{
    job_t *job = (job_t *)task;
    ncclComm_t c = job->comm;
    int taken = ncclInProgress;

    fake_nap();
    if (getenv("FAKE_NCCL_FAILS")) {
        atomic_store(&c->async, ncclInternalError);
        while (!atomic_load(&c->is_aborted)) /* it never ends by itself */
            fake_nap();
    } else if (!atomic_load(&c->is_revoked))
        atomic_compare_exchange_strong(&c->async, &taken, ncclSuccess);
    while (getenv("FAKE_NCCL_HANGS") && !atomic_load(&c->is_aborted) &&
           !atomic_load(&c->is_revoked))
        fake_nap();
    if (move_all(job) && job->parts)
        reduce_parts(job);
    free(job->parts);
    free(job);
    atomic_fetch_sub(&c->pending, 1);
}

/* ---------------------------------------------------------------- jobs */

static bool can_take(ncclComm_t c)
{
    return c && atomic_load(&c->async) == ncclSuccess && !atomic_load(&c->is_aborted);
}

static job_t *new_job(ncclComm_t c)
{
    job_t *job = calloc(1, sizeof(*job));

    job->task.run = run_job;
    job->comm = c;
    return job;
}

static void add(part_t *parts, int *count, int peer, void *data, size_t bytes)
{
    if (*count == PARTS_MAX)
        abort();
    parts[(*count)++] = (part_t){.peer = peer, .data = data, .bytes = bytes};
}

static ncclResult_t start(job_t *job, cudaStream_t stream)
{
    atomic_store(&job->comm->async, ncclInProgress);
    atomic_fetch_add(&job->comm->pending, 1);
    fake_submit(stream, &job->task);
    return ncclInProgress;
}

/* Everybody's `count` elements, to be reduced into `out`. */
static void expect_parts(job_t *job, void *out, size_t count, ncclDataType_t type,
                         ncclRedOp_t op)
{
    size_t bytes = count * size_of(type);

    job->parts = malloc(bytes * (size_t)job->comm->size + 1);
    job->out = out;
    job->count = count;
    job->type = type;
    job->op = op;
    for (int i = 0; i < job->comm->size; i++)
        add(job->receives, &job->receive_count, i, job->parts + (size_t)i * bytes, bytes);
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
    size_t bytes = count * size_of(type);
    void *from = fake_memory(in, bytes), *to = fake_memory(out, bytes);
    job_t *job;

    if (!can_take(c) || !from || !to)
        return ncclInvalidUsage;
    job = new_job(c);
    for (int i = 0; i < c->size; i++)
        add(job->sends, &job->send_count, i, from, bytes);
    expect_parts(job, to, count, type, op);
    return start(job, stream);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t stream)
{
    size_t bytes = count * size_of(type);
    void *from = fake_memory(in, bytes), *to = fake_memory(out, bytes);
    job_t *job;

    if (!can_take(c) || !from || (!to && c->rank == root))
        return ncclInvalidUsage;
    job = new_job(c);
    add(job->sends, &job->send_count, root, from, bytes);
    if (c->rank == root)
        expect_parts(job, to, count, type, op);
    return start(job, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t c,
                               cudaStream_t stream)
{
    size_t bytes = count * size_of(type);
    unsigned char *from = fake_memory(in, bytes * (size_t)c->size);
    void *to = fake_memory(out, bytes);
    job_t *job;

    if (!can_take(c) || !from || !to)
        return ncclInvalidUsage;
    job = new_job(c);
    for (int i = 0; i < c->size; i++)
        add(job->sends, &job->send_count, i, from + (size_t)i * bytes, bytes);
    expect_parts(job, to, count, type, op);
    return start(job, stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
                           int root, ncclComm_t c, cudaStream_t stream)
{
    size_t bytes = count * size_of(type);
    void *from = fake_memory(in, bytes), *to = fake_memory(out, bytes);
    job_t *job;

    if (!can_take(c) || !to || (!from && c->rank == root))
        return ncclInvalidUsage;
    job = new_job(c);
    for (int i = 0; i < c->size && c->rank == root; i++)
        if (i != root)
            add(job->sends, &job->send_count, i, from, bytes);
    if (c->rank != root)
        add(job->receives, &job->receive_count, root, to, bytes);
    return start(job, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t c, cudaStream_t stream)
{
    size_t bytes = count * size_of(type);
    void *from = fake_memory(in, bytes);
    unsigned char *to = fake_memory(out, bytes * (size_t)c->size);
    job_t *job;

    if (!can_take(c) || !from || !to)
        return ncclInvalidUsage;
    job = new_job(c);
    for (int i = 0; i < c->size; i++) {
        add(job->sends, &job->send_count, i, from, bytes);
        add(job->receives, &job->receive_count, i, to + (size_t)i * bytes, bytes);
    }
    return start(job, stream);
}

/* Their header declares them without arguments, as older C did. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    job_t *job = grouped;

    if (--depth > 0 || !job)
        return ncclSuccess;
    grouped = NULL;
    return start(job, grouped_stream);
}

static job_t *grouped_job(ncclComm_t c, cudaStream_t stream)
{
    if (depth == 0)
        return new_job(c);
    if (!grouped)
        grouped = new_job(c);
    grouped_stream = stream;
    return grouped;
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t c, cudaStream_t stream)
{
    void *from = fake_memory(in, count * size_of(type));
    job_t *job;

    if (!can_take(c) || !from)
        return ncclInvalidUsage;
    job = grouped_job(c, stream);
    add(job->sends, &job->send_count, peer, from, count * size_of(type));
    return depth ? ncclSuccess : start(job, stream);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t c, cudaStream_t stream)
{
    void *to = fake_memory(out, count * size_of(type));
    job_t *job;

    if (!can_take(c) || !to)
        return ncclInvalidUsage;
    job = grouped_job(c, stream);
    add(job->receives, &job->receive_count, peer, to, count * size_of(type));
    return depth ? ncclSuccess : start(job, stream);
}

/* ---------------------------------------------------------------- communicators */

ncclResult_t ncclGetVersion(int *version)
{
    const char *text = getenv("FAKE_NCCL_VERSION");

    *version = text ? atoi(text) : VERSION;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    secret_t secret = {getpid(), memfd_create("communicator", MFD_CLOEXEC)};

    if (secret.fd < 0 || ftruncate(secret.fd, sizeof(shared_t)) != 0)
        return ncclSystemError;
    memset(id, 0, sizeof(*id));
    memcpy(id, &secret, sizeof(secret));
    return ncclSuccess;
}

static bool all_have(const atomic_int *flags, int size)
{
    for (int i = 0; i < size; i++)
        if (!atomic_load(&flags[i]))
            return false;
    return true;
}

static void *join_others(void *user)
{
    ncclComm_t c = user;
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->secret.pid, c->secret.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    c->shared =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, sizeof(shared_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (c->shared == MAP_FAILED) {
        c->shared = NULL;
        atomic_store(&c->async, ncclSystemError);
        return NULL;
    }
    atomic_store(&c->shared->joined[c->rank], 1);
    while (!all_have(c->shared->joined, c->size) && !atomic_load(&c->is_aborted))
        fake_nap();
    atomic_store(&c->async, ncclSuccess);
    return NULL;
}

static void *wait_finalized(void *user)
{
    ncclComm_t c = user;

    atomic_store(&c->shared->finalized[c->rank], 1);
    while (!all_have(c->shared->finalized, c->size) && !atomic_load(&c->is_aborted))
        fake_nap();
    atomic_store(&c->async, ncclSuccess);
    return NULL;
}

static void start_thread(ncclComm_t c, void *(*run)(void *user))
{
    if (c->has_thread)
        pthread_join(c->thread, NULL);
    atomic_store(&c->async, ncclInProgress);
    c->has_thread = true;
    pthread_create(&c->thread, NULL, run, c);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    ncclComm_t c = calloc(1, sizeof(*c));

    if (config->magic != 0xcafebeef || config->blocking != 0 || size > MEMBERS) {
        free(c);
        return ncclInvalidArgument;
    }
    memcpy(&c->secret, &id, sizeof(c->secret));
    c->rank = rank;
    c->size = size;
    *comm = c;
    start_thread(c, join_others);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *result)
{
    if (atomic_load(&c->is_revoked) && atomic_load(&c->pending) == 0)
        atomic_store(&c->async, ncclSuccess);
    *result = (ncclResult_t)atomic_load(&c->async);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    if (!can_take(c))
        return ncclInvalidUsage;
    start_thread(c, wait_finalized);
    return ncclInProgress;
}

static void free_comm(ncclComm_t c)
{
    while (atomic_load(&c->pending))
        fake_nap();
    if (c->has_thread)
        pthread_join(c->thread, NULL);
    if (c->shared)
        munmap(c->shared, sizeof(shared_t));
    if (c->rank == 0)
        close(c->secret.fd);
    free(c);
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    free_comm(c);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    atomic_store(&c->is_aborted, true);
    free_comm(c);
    return ncclSuccess;
}

#ifndef FAKE_OLD
ncclResult_t ncclCommRevoke(ncclComm_t c, int flags)
{
    if (flags != 0 || atomic_load(&c->is_revoked))
        return ncclInvalidArgument;
    atomic_store(&c->is_revoked, true);
    atomic_store(&c->async, ncclInProgress);
    atomic_store(&c->is_aborted, true);
    return ncclInProgress;
}
#endif

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclInvalidUsage  ? "invalid usage"
           : result == ncclSystemError ? "unhandled system error"
                                       : "an error";
}

const char *ncclGetLastError(ncclComm_t c)
{
    return "";
}
