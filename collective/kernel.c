/* SPDX-License-Identifier: Apache-2.0 */
/* Which loops run, and sums of many in one pass. See kernel.h. */
#include "collective/kernel.h"

#include <assert.h>
#if defined(__x86_64__)
#    include <cpuid.h>
#endif
#include <stdatomic.h>
#include <string.h>

#include "collective/backend.h"

#define BLOCK_BYTES 4096 /* of one source: two of them stay in the first cache */
#define HALF_BLOCK  1024 /* elements of float16 and bfloat16, summed in float32 */

static _Atomic(const crti_kernels_t *) chosen;

#if defined(__x86_64__)
/* Not every compiler's __builtin_cpu_supports knows it. */
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;

    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

int crti_kernel_tables(const crti_kernels_t *tables[3])
{
    int count = 0;

#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        has_f16c())
        tables[count++] = &crti_kernels_avx512;
    if (__builtin_cpu_supports("avx2") && has_f16c())
        tables[count++] = &crti_kernels_avx2;
#endif
    tables[count++] = &crti_kernels_plain;
    return count;
}

void crti_kernel_use(const crti_kernels_t *table)
{
    const crti_kernels_t *tables[3];

    crti_kernel_tables(tables);
    atomic_store_explicit(&chosen, table ? table : tables[0], memory_order_relaxed);
}

static const crti_kernels_t *kernels(void)
{
    const crti_kernels_t *k = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (k)
        return k;
    crti_kernel_use(NULL);
    return atomic_load_explicit(&chosen, memory_order_relaxed);
}

void crti_kernel_copy(void *to, const void *from, size_t bytes)
{
    if (bytes && to != from)
        kernels()->copy(to, from, bytes);
}

static bool is_computed(crt_dtype_t dtype)
{
    return dtype >= CRT_DTYPE_FLOAT32 && dtype <= CRT_DTYPE_UINT64 &&
           dtype != CRT_DTYPE_BOOL;
}

static crti_kernel_pair_t *pair_of(crt_dtype_t dtype, crt_reduction_t reduction)
{
    assert(is_computed(dtype));
    return kernels()
        ->pair[dtype - 1][reduction == CRT_REDUCE_AVERAGE ? 0 : reduction - 1];
}

void crti_kernel_reduce(crt_dtype_t dtype, crt_reduction_t reduction, void *out,
                        const void *a, const void *b, size_t count)
{
    pair_of(dtype, reduction)(out, a, b, count);
}

void crti_kernel_scale(crt_dtype_t dtype, void *values, int divisor, size_t count)
{
    assert(is_computed(dtype));
    kernels()->scale[dtype - 1](values, divisor, count);
}

static bool is_half(crt_dtype_t dtype)
{
    return dtype == CRT_DTYPE_FLOAT16 || dtype == CRT_DTYPE_BFLOAT16;
}

/* A block of one result, which is hot, to where it belongs. */
static void spread(void *const *outs, int out_count, size_t offset, const void *block,
                   size_t bytes)
{
    for (int o = 0; o < out_count; o++)
        crti_kernel_copy((char *)outs[o] + offset, block, bytes);
}

/* Summed in float32, rounded once. */
static void reduce_halves(crt_dtype_t dtype, crt_reduction_t reduction, void *const *outs,
                          int out_count, const void *const *sources, int n, int divisor,
                          size_t count)
{
    const crti_kernels_t *k = kernels();
    crti_kernel_pair_t *pair = pair_of(CRT_DTYPE_FLOAT32, reduction);
    int which = dtype == CRT_DTYPE_BFLOAT16;
    float sum[HALF_BLOCK], next[HALF_BLOCK];
    uint16_t rounded[HALF_BLOCK];

    for (size_t i = 0; i < count; i += HALF_BLOCK) {
        size_t part = count - i < HALF_BLOCK ? count - i : HALF_BLOCK;

        k->widen[which](sum, (const uint16_t *)sources[0] + i, part);
        for (int s = 1; s < n; s++) {
            k->widen[which](next, (const uint16_t *)sources[s] + i, part);
            pair(sum, sum, next, part);
        }
        if (reduction == CRT_REDUCE_AVERAGE)
            k->scale[CRT_DTYPE_FLOAT32 - 1](sum, divisor, part);
        k->narrow[which](rounded, sum, part);
        spread(outs, out_count, i * 2, rounded, part * 2);
    }
}

/* A block at a time: an output may be any of the sources, so sums are gathered beside them. */
static void reduce_blocks(crt_dtype_t dtype, crt_reduction_t reduction, void *const *outs,
                          int out_count, const void *const *sources, int n, int divisor,
                          size_t count)
{
    crti_kernel_pair_t *pair = pair_of(dtype, reduction);
    size_t size = crt_dtype_size(dtype), step = BLOCK_BYTES / size;
    _Alignas(64) char sum[BLOCK_BYTES];

    for (size_t i = 0; i < count; i += step) {
        size_t part = count - i < step ? count - i : step;

        if (n == 1)
            memcpy(sum, (const char *)sources[0] + i * size, part * size);
        for (int s = 1; s < n; s++)
            pair(sum, s == 1 ? (const char *)sources[0] + i * size : sum,
                 (const char *)sources[s] + i * size, part);
        if (reduction == CRT_REDUCE_AVERAGE)
            kernels()->scale[dtype - 1](sum, divisor, part);
        spread(outs, out_count, i * size, sum, part * size);
    }
}

void crti_kernel_reduce_to(crt_dtype_t dtype, crt_reduction_t reduction,
                           void *const *outs, int out_count, const void *const *sources,
                           int n, int divisor, size_t count)
{
    bool is_average = reduction == CRT_REDUCE_AVERAGE;
    int row = is_average ? 0 : (int)reduction - 1;

    assert(is_computed(dtype));
    if (n == 1 && (!is_average || divisor == 1))
        spread(outs, out_count, 0, sources[0], count * crt_dtype_size(dtype));
    else if (n == 2 && !is_average && out_count == 1)
        kernels()->pair[dtype - 1][row](outs[0], sources[0], sources[1], count);
    else if (n == 2 && !is_average && out_count == 2)
        kernels()->twice[dtype - 1][row](outs[0], outs[1], sources[0], sources[1], count);
    else if (n == 4 && !is_average && out_count == 4 && !is_half(dtype))
        kernels()->four[dtype - 1][row](outs, sources, count);
    else if (is_half(dtype))
        reduce_halves(dtype, reduction, outs, out_count, sources, n, divisor, count);
    else
        reduce_blocks(dtype, reduction, outs, out_count, sources, n, divisor, count);
}

void crti_kernel_reduce_many(crt_dtype_t dtype, crt_reduction_t reduction, void *out,
                             const void *const *sources, int n, int divisor, size_t count)
{
    crti_kernel_reduce_to(dtype, reduction, &out, 1, sources, n, divisor, count);
}
