/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a group, checked by each member against a reference that it computes alone:
 * inputs are a function of rank and index, small whole numbers that every dtype holds, so that
 * results are exact but for averages of short floating point. */
#include "conform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "periodic.h"

#define LARGE_BYTES                                                                      \
    (256 << 10) /* a staging buffer of the shm backend; a chunk of the ring */

#define PERIOD 5 /* elements */

enum { SHARED, PRIVATE, MIXED, MODES };
static const char *const modes[] = {"shared (on the device)", "private", "mixed"};
static const char *const kinds[] = {"",          "allreduce",     "reduce",   "broadcast",
                                    "allgather", "reducescatter", "alltoall", "send",
                                    "recv",      "barrier"};

typedef struct trial {
    crt_group_t *group;
    crt_call_t *call;
    crt_collective_kind_t kind;
    crt_dtype_t dtype;
    crt_reduction_t reduction;
    size_t count; /* elements of the unit: of one part */
    int root, mode;
    bool in_place, is_nccl;
    unsigned seed;
    int size, rank;
} trial_t;

/* ---------------------------------------------------------------- numbers */

static double value_at(const trial_t *t, int rank, size_t i)
{
    int v = (int)((t->seed * 31 + (unsigned)rank * 7 + i * 13) % PERIOD);

    return t->dtype >= CRT_DTYPE_UINT8 ? v : v - 2;
}

static uint16_t half_bits(double x, int mantissa, int bias)
{
    int exponent;
    double m = frexp(fabs(x), &exponent); /* 0.5 <= m < 1 */
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

static void put_number(crt_dtype_t dtype, void *data, size_t i, double x)
{
    switch (dtype) {
    case CRT_DTYPE_FLOAT32: ((float *)data)[i] = (float)x; break;
    case CRT_DTYPE_FLOAT64: ((double *)data)[i] = x; break;
    case CRT_DTYPE_FLOAT16: ((uint16_t *)data)[i] = half_bits(x, 10, 15); break;
    case CRT_DTYPE_BFLOAT16: ((uint16_t *)data)[i] = half_bits(x, 7, 127); break;
    case CRT_DTYPE_INT8: ((int8_t *)data)[i] = (int8_t)(int64_t)x; break;
    case CRT_DTYPE_INT16: ((int16_t *)data)[i] = (int16_t)x; break;
    case CRT_DTYPE_INT32: ((int32_t *)data)[i] = (int32_t)x; break;
    case CRT_DTYPE_INT64: ((int64_t *)data)[i] = (int64_t)x; break;
    case CRT_DTYPE_UINT16: ((uint16_t *)data)[i] = (uint16_t)(int64_t)x; break;
    case CRT_DTYPE_UINT32: ((uint32_t *)data)[i] = (uint32_t)(int64_t)x; break;
    case CRT_DTYPE_UINT64: ((uint64_t *)data)[i] = (uint64_t)x; break;
    default: ((uint8_t *)data)[i] = (uint8_t)(int64_t)x; break;
    }
}

static double get_number(crt_dtype_t dtype, const void *data, size_t i)
{
    switch (dtype) {
    case CRT_DTYPE_FLOAT32: return (double)((const float *)data)[i];
    case CRT_DTYPE_FLOAT64: return ((const double *)data)[i];
    case CRT_DTYPE_FLOAT16: return half_value(((const uint16_t *)data)[i], 10, 15);
    case CRT_DTYPE_BFLOAT16: return half_value(((const uint16_t *)data)[i], 7, 127);
    case CRT_DTYPE_INT8: return ((const int8_t *)data)[i];
    case CRT_DTYPE_INT16: return ((const int16_t *)data)[i];
    case CRT_DTYPE_INT32: return ((const int32_t *)data)[i];
    case CRT_DTYPE_INT64: return (double)((const int64_t *)data)[i];
    case CRT_DTYPE_UINT16: return ((const uint16_t *)data)[i];
    case CRT_DTYPE_UINT32: return ((const uint32_t *)data)[i];
    case CRT_DTYPE_UINT64: return (double)((const uint64_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
    }
}

/* What `rank` puts in. */
static void put_numbers(const trial_t *t, int rank, void *data, size_t count)
{
    size_t size = crt_dtype_size(t->dtype);

    for (size_t i = 0; i < first_period(count, PERIOD); i++)
        put_number(t->dtype, data, i, value_at(t, rank, i));
    repeat_period(data, PERIOD * size, count * size);
}

static bool is_floating(crt_dtype_t dtype)
{
    return dtype <= CRT_DTYPE_BFLOAT16;
}

static double reduced_at(const trial_t *t, size_t i)
{
    double x = value_at(t, 0, i);

    for (int r = 1; r < t->size; r++) {
        double y = value_at(t, r, i);

        switch (t->reduction) {
        case CRT_REDUCE_PRODUCT: x *= y; break;
        case CRT_REDUCE_MIN: x = y < x ? y : x; break;
        case CRT_REDUCE_MAX: x = y > x ? y : x; break;
        default: x += y;
        }
    }
    if (t->reduction == CRT_REDUCE_AVERAGE)
        x = is_floating(t->dtype) ? x / t->size : trunc(x / t->size);
    return x;
}

static bool is_right(const trial_t *t, double got, double wanted)
{
    double slack = 0;

    if (t->reduction == CRT_REDUCE_AVERAGE && is_floating(t->dtype))
        slack = fabs(wanted) * (t->dtype == CRT_DTYPE_BFLOAT16  ? 0x1p-8
                                : t->dtype == CRT_DTYPE_FLOAT16 ? 0x1p-11
                                                                : 0x1p-23);
    if (!is_floating(t->dtype)) { /* integers wrap */
        char a[8] = {0};

        put_number(t->dtype, a, 0, wanted);
        wanted = get_number(t->dtype, a, 0);
    }
    return fabs(got - wanted) <= slack;
}

/* ---------------------------------------------------------------- one trial */

static bool has_reduction(crt_collective_kind_t kind)
{
    return kind == CRT_COLLECTIVE_ALLREDUCE || kind == CRT_COLLECTIVE_REDUCE ||
           kind == CRT_COLLECTIVE_REDUCESCATTER;
}

static bool is_in_parts(crt_collective_kind_t kind)
{
    return kind == CRT_COLLECTIVE_REDUCESCATTER || kind == CRT_COLLECTIVE_ALLTOALL;
}

static size_t input_count(const trial_t *t)
{
    return is_in_parts(t->kind) ? t->count * (size_t)t->size : t->count;
}

static size_t output_count(const trial_t *t)
{
    return t->kind == CRT_COLLECTIVE_ALLGATHER || t->kind == CRT_COLLECTIVE_ALLTOALL
               ? t->count * (size_t)t->size
               : t->count;
}

static double wanted_at(const trial_t *t, size_t i)
{
    size_t n = t->count;

    switch (t->kind) {
    case CRT_COLLECTIVE_BROADCAST: return value_at(t, t->root, i);
    case CRT_COLLECTIVE_ALLGATHER: return value_at(t, (int)(i / n), i % n);
    case CRT_COLLECTIVE_ALLTOALL:
        return value_at(t, (int)(i / n), (size_t)t->rank * n + i % n);
    case CRT_COLLECTIVE_REDUCESCATTER: return reduced_at(t, (size_t)t->rank * n + i);
    default: return reduced_at(t, i);
    }
}

static bool is_shared(const trial_t *t)
{
    return t->mode == SHARED || (t->mode == MIXED && t->rank % 2 == 0);
}

/* 64 bytes off, so that tensors need not begin where the memory does. */
static void *get_memory(const trial_t *t, size_t bytes)
{
    char *memory = NULL;

    if (!is_shared(t))
        memory = malloc(bytes + 64);
    else if (crt_group_alloc(bytes + 64, (void **)&memory) != CRT_OK)
        return NULL;
    return memory ? memory + 64 : NULL;
}

static void give_memory(const trial_t *t, void *memory)
{
    if (is_shared(t))
        crt_group_free((char *)memory - 64);
    else
        free((char *)memory - 64);
}

/* On GPUs shared memory has no meaning: those tensors lie on the device. */
static bool is_on_device(const trial_t *t)
{
    return t->is_nccl && is_shared(t);
}

static crt_status_t run_kind(const trial_t *t, const crt_tensor_t *in,
                             const crt_tensor_t *out)
{
    switch (t->kind) {
    case CRT_COLLECTIVE_ALLREDUCE:
        return crt_group_allreduce(t->group, in, out, t->reduction);
    case CRT_COLLECTIVE_REDUCE:
        return crt_group_reduce(t->group, in, t->rank == t->root ? out : NULL, t->root,
                                t->reduction);
    case CRT_COLLECTIVE_BROADCAST: return crt_group_broadcast(t->group, in, t->root);
    case CRT_COLLECTIVE_ALLGATHER: return crt_group_allgather(t->group, in, out);
    case CRT_COLLECTIVE_REDUCESCATTER:
        return crt_group_reducescatter(t->group, in, out, t->reduction);
    case CRT_COLLECTIVE_ALLTOALL: return crt_group_alltoall(t->group, in, out);
    default: return crt_group_barrier(t->group);
    }
}

/* Tensors lie in `a` and `b`; the calls see them there, or copies on the device. */
static crt_status_t run_placed(const trial_t *t, const crt_tensor_t *in,
                               const crt_tensor_t *out, char *a, size_t a_bytes, char *b,
                               size_t b_bytes)
{
    crt_tensor_t there[2] = {*in, *out};
    char *copies[2];
    bool out_is_in_a = (char *)out->data >= a && (char *)out->data <= a + a_bytes;
    crt_status_t status;

    if (!is_on_device(t))
        return run_kind(t, in, out);
    copies[0] = device_copy_of(a - 64, a_bytes + 64);
    copies[1] = device_copy_of(b - 64, b_bytes + 64);
    if (!copies[0] || !copies[1])
        return crt_fail(t->call, CRT_ERR_USER, "no device memory for a trial");
    there[0].device = there[1].device = crt_device_gpu(0);
    there[0].data = copies[0] + 64 + ((char *)in->data - a);
    there[1].data = out_is_in_a ? copies[0] + 64 + ((char *)out->data - a)
                                : copies[1] + 64 + ((char *)out->data - b);
    status = run_kind(t, &there[0], &there[1]);
    if (!device_take_back(a - 64, copies[0], a_bytes + 64) ||
        !device_take_back(b - 64, copies[1], b_bytes + 64))
        return crt_fail(t->call, CRT_ERR_USER, "device memory can't be read");
    return status;
}

static crt_status_t compare_element(const trial_t *t, const void *data, size_t i)
{
    double got = get_number(t->dtype, data, i), wanted = wanted_at(t, i);

    if (is_right(t, got, wanted))
        return CRT_OK;
    return crt_fail(
        t->call, CRT_ERR_USER,
        "%s of %zu %s, reduction %d, root %d, %s, %s: element %zu of rank %d of %d is "
        "%g, not %g",
        kinds[t->kind], t->count, crt_dtype_name(t->dtype), (int)t->reduction, t->root,
        modes[t->mode], t->in_place ? "in place" : "out of place", i, t->rank, t->size,
        got, wanted);
}

/* Unit by unit: within one the wanted values repeat. */
static crt_status_t compare(const trial_t *t, const crt_tensor_t *out)
{
    size_t size = crt_dtype_size(t->dtype), all = crt_tensor_count(out), n = t->count;

    for (size_t begin = 0; begin < all; begin += n) {
        const char *unit = (const char *)out->data + begin * size;
        bool repeats = is_repeated(unit, PERIOD * size, n * size);

        for (size_t i = 0; i < (repeats ? first_period(n, PERIOD) : n); i++)
            CRT_TRY(compare_element(t, out->data, begin + i));
    }
    return CRT_OK;
}

/* In place means the same memory, or its place in the larger tensor. */
static void place(const trial_t *t, char *large, crt_tensor_t *in, crt_tensor_t *out)
{
    size_t offset = (size_t)t->rank * t->count * crt_dtype_size(t->dtype);

    in->data = out->data = large;
    if (t->kind == CRT_COLLECTIVE_ALLGATHER)
        in->data = large + offset;
    if (t->kind == CRT_COLLECTIVE_REDUCESCATTER)
        out->data = large + offset;
}

static crt_status_t run_trial(const trial_t *t)
{
    size_t size = crt_dtype_size(t->dtype), n = input_count(t), m = output_count(t);
    int64_t in_shape = (int64_t)n, out_shape = (int64_t)m;
    void *a = get_memory(t, (n > m ? n : m) * size), *b = get_memory(t, m * size);
    crt_tensor_t in = crt_tensor_view(t->dtype, 1, &in_shape, a);
    crt_tensor_t out = crt_tensor_view(t->dtype, 1, &out_shape, b);
    crt_status_t status;

    if (!a || !b)
        return crt_fail(t->call, CRT_ERR_NO_MEMORY, "no memory for a trial");
    memset(a, 0x55, (n > m ? n : m) * size);
    memset(b, 0x55, m * size);
    if (t->in_place || t->kind == CRT_COLLECTIVE_BROADCAST)
        place(t, a, &in, &out);
    if (t->kind != CRT_COLLECTIVE_BROADCAST || t->rank == t->root)
        put_numbers(t, t->rank, in.data, n);
    status = run_placed(t, &in, &out, a, (n > m ? n : m) * size, b, m * size);
    if (t->is_nccl && (t->dtype == CRT_DTYPE_INT16 || t->dtype == CRT_DTYPE_UINT16) &&
        has_reduction(t->kind) && status == CRT_ERR_UNSUPPORTED)
        status = CRT_OK;
    else if (status == CRT_OK && (t->kind != CRT_COLLECTIVE_REDUCE || t->rank == t->root))
        status = compare(t, &out);
    give_memory(t, a);
    give_memory(t, b);
    return status;
}

/* ---------------------------------------------------------------- all of them */

/* A trial in the mode whose turn it is. */
static crt_status_t run_in_turn(trial_t *t, size_t count)
{
    t->mode = (int)(t->seed % MODES);
    t->in_place = t->seed / MODES % 2 && t->kind != CRT_COLLECTIVE_ALLTOALL;
    t->count = count;
    t->root = (int)(t->seed++ % (unsigned)t->size);
    return run_trial(t);
}

static crt_status_t run_in_all_modes(trial_t *t, size_t count)
{
    for (t->mode = 0; t->mode < MODES; t->mode++)
        for (int in_place = 0; in_place < 2; in_place++) {
            t->in_place = in_place && t->kind != CRT_COLLECTIVE_ALLTOALL;
            t->count = count;
            t->root = (int)(t->seed++ % (unsigned)t->size);
            CRT_TRY(run_trial(t));
        }
    return CRT_OK;
}

/* Sums of float32 are tried in every mode, all else in the mode whose turn it is. */
static crt_status_t run_counts(trial_t *t, bool large)
{
    static const size_t counts[] = {0, 1, 7, 1009};
    bool is_common = t->dtype == CRT_DTYPE_FLOAT32 && t->reduction == CRT_REDUCE_SUM;
    size_t bytes = LARGE_BYTES / (is_in_parts(t->kind) ? (size_t)t->size : 1);

    for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++)
        CRT_TRY((is_common ? run_in_all_modes : run_in_turn)(t, counts[c]));
    if (!large || (t->reduction > CRT_REDUCE_SUM && t->reduction != CRT_REDUCE_AVERAGE))
        return CRT_OK;
    return run_in_turn(t, bytes / crt_dtype_size(t->dtype) + 1);
}

/* More pieces than there are staging buffers, the last one short: buffers are used again. */
static crt_status_t run_many_pieces(trial_t *t)
{
    t->dtype = CRT_DTYPE_FLOAT32;
    t->reduction = CRT_REDUCE_SUM;
    t->count = 5 * LARGE_BYTES / sizeof(float) + 3;
    for (int kind = CRT_COLLECTIVE_ALLREDUCE; kind <= CRT_COLLECTIVE_REDUCE; kind++)
        for (t->mode = 0; t->mode < MODES; t->mode++)
            for (int in_place = 0; in_place < 2; in_place++) {
                t->kind = (crt_collective_kind_t)kind;
                t->in_place = in_place;
                t->root = (int)(t->seed++ % (unsigned)t->size);
                CRT_TRY(run_trial(t));
            }
    return CRT_OK;
}

crt_status_t conform_all(crt_group_t *group, crt_call_t *call, bool large)
{
    trial_t t = {.group = group,
                 .call = call,
                 .size = crt_group_size(group),
                 .is_nccl = strcmp(crt_group_backend(group), "nccl") == 0,
                 .rank = crt_group_rank(group)};

    for (int kind = CRT_COLLECTIVE_ALLREDUCE; kind <= CRT_COLLECTIVE_ALLTOALL; kind++)
        for (int dtype = CRT_DTYPE_FLOAT32; dtype <= CRT_DTYPE_UINT64; dtype++)
            for (int reduction = CRT_REDUCE_SUM; reduction <= CRT_REDUCE_AVERAGE;
                 reduction++) {
                t.kind = (crt_collective_kind_t)kind;
                t.dtype = (crt_dtype_t)dtype;
                t.reduction = (crt_reduction_t)reduction;
                if (dtype == CRT_DTYPE_BOOL)
                    continue;
                if (!has_reduction(t.kind) && reduction > CRT_REDUCE_SUM)
                    continue;
                CRT_TRY(run_counts(&t, large));
            }
    if (large)
        CRT_TRY(run_many_pieces(&t));
    CRT_TRY(crt_group_barrier(group));
    return CRT_OK;
}

/* ---------------------------------------------------------------- pairs */

static crt_status_t exchange(const trial_t *t, int peer)
{
    size_t bytes = t->count * crt_dtype_size(t->dtype);
    int64_t shape = (int64_t)t->count;
    void *a = get_memory(t, bytes), *b = get_memory(t, bytes);
    crt_tensor_t mine = crt_tensor_view(t->dtype, 1, &shape, a);
    crt_tensor_t theirs = crt_tensor_view(t->dtype, 1, &shape, b);
    crt_status_t status = CRT_OK;
    size_t checked = t->count;

    if (!a || !b)
        return crt_fail(t->call, CRT_ERR_NO_MEMORY, "no memory for a trial");
    put_numbers(t, t->rank, a, t->count);
    for (int turn = 0; turn < 2 && status == CRT_OK; turn++)
        status = (t->rank < peer) == (turn == 0)
                     ? crt_group_send(t->group, &mine, peer)
                     : crt_group_recv(t->group, &theirs, peer);
    if (status == CRT_OK && is_repeated(b, PERIOD * crt_dtype_size(t->dtype), bytes))
        checked = first_period(t->count, PERIOD);
    for (size_t i = 0; i < checked && status == CRT_OK; i++)
        if (get_number(t->dtype, b, i) != value_at(t, peer, i))
            status = crt_fail(t->call, CRT_ERR_USER,
                              "element %zu of %zu from rank %d at rank %d is wrong", i,
                              t->count, peer, t->rank);
    give_memory(t, a);
    give_memory(t, b);
    return status;
}

crt_status_t conform_pairs(crt_group_t *group, crt_call_t *call, bool large)
{
    trial_t t = {.group = group,
                 .call = call,
                 .kind = CRT_COLLECTIVE_SEND,
                 .size = crt_group_size(group),
                 .is_nccl = strcmp(crt_group_backend(group), "nccl") == 0,
                 .rank = crt_group_rank(group)};
    size_t counts[] = {0, 1, 1009, 3 * LARGE_BYTES / 4 + 1};

    for (int dtype = CRT_DTYPE_FLOAT32; dtype <= CRT_DTYPE_UINT64; dtype++)
        for (size_t c = 0; c < (large ? 4 : 3); c++)
            for (t.mode = 0; t.mode < MODES && dtype != CRT_DTYPE_BOOL; t.mode++) {
                t.dtype = (crt_dtype_t)dtype;
                t.count = counts[c];
                t.seed++;
                /* Everybody with everybody, in an order that fits on both sides. */
                for (int i = 0; i < t.size; i++)
                    for (int j = i + 1; j < t.size; j++)
                        if (t.rank == i || t.rank == j)
                            CRT_TRY(exchange(&t, t.rank == i ? j : i));
            }
    return CRT_OK;
}

/* ---------------------------------------------------------------- posted operations */

#define POSTED 40

crt_status_t conform_posted(crt_group_t *group, crt_call_t *call)
{
    int size = crt_group_size(group), rank = crt_group_rank(group);
    crt_operation_t *operations[POSTED] = {0};
    static float data[POSTED][3000];
    float now = 1;
    crt_tensor_t view = crt_tensor_floats(&now, 1);
    crt_status_t status = CRT_OK;

    for (int k = 0; k < POSTED && status == CRT_OK; k++) {
        size_t count = (size_t)(k * 71 + 1);
        crt_tensor_t tensor = crt_tensor_floats(data[k], count);
        crt_collective_t what = {.struct_size = sizeof(what),
                                 .kind = CRT_COLLECTIVE_ALLREDUCE,
                                 .input = &tensor,
                                 .output = &tensor,
                                 .reduction = CRT_REDUCE_SUM};

        for (size_t i = 0; i < count; i++)
            data[k][i] = (float)(rank + k);
        status = crt_group_post(group, &what, &operations[k]);
    }
    /* A call queues behind what was posted. */
    if (status == CRT_OK)
        status = crt_group_allreduce(group, &view, &view, CRT_REDUCE_SUM);
    if (status == CRT_OK && now != (float)size)
        status = crt_fail(call, CRT_ERR_USER, "a call after posts gave %g", (double)now);
    for (int k = 0; k < POSTED && status == CRT_OK; k++)
        if (crt_operation_test(operations[k]) != CRT_OK)
            status =
                crt_fail(call, CRT_ERR_USER, "operation %d has not ended in order", k);
    for (int k = 0; k < POSTED; k++) {
        float wanted = (float)(size * (size - 1) / 2 + size * k);
        crt_status_t ended = operations[k] ? crt_operation_wait(&operations[k]) : CRT_OK;

        if (status == CRT_OK)
            status = ended;
        for (int i = 0; i <= k * 71 && status == CRT_OK; i++)
            if (data[k][i] != wanted)
                status = crt_fail(call, CRT_ERR_USER, "posted sum %d is %g, not %g", k,
                                  (double)data[k][i], (double)wanted);
    }
    return status;
}
