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

static crti_kernel_pair_t *pair_of(crt_dtype_t dtype, crt_reduction_t reduction)
{
    assert(dtype >= CRT_FLOAT32 && dtype <= CRT_UINT8);
    return kernels()->pair[dtype - 1][reduction == CRT_AVERAGE ? 0 : reduction - 1];
}

void crti_kernel_reduce(crt_dtype_t dtype, crt_reduction_t reduction, void *out,
                        const void *a, const void *b, size_t count)
{
    pair_of(dtype, reduction)(out, a, b, count);
}

void crti_kernel_scale(crt_dtype_t dtype, void *values, int divisor, size_t count)
{
    assert(dtype >= CRT_FLOAT32 && dtype <= CRT_UINT8);
    kernels()->scale[dtype - 1](values, divisor, count);
}

static bool is_half(crt_dtype_t dtype)
{
    return dtype == CRT_FLOAT16 || dtype == CRT_BFLOAT16;
}

/* Summed in float32, rounded once. */
static void reduce_halves(crt_dtype_t dtype, crt_reduction_t reduction, uint16_t *out,
                          const void *const *sources, int n, int divisor, size_t count)
{
    const crti_kernels_t *k = kernels();
    crti_kernel_pair_t *pair = pair_of(CRT_FLOAT32, reduction);
    int which = dtype == CRT_BFLOAT16;
    float sum[HALF_BLOCK], next[HALF_BLOCK];

    for (size_t i = 0; i < count; i += HALF_BLOCK) {
        size_t part = count - i < HALF_BLOCK ? count - i : HALF_BLOCK;

        k->widen[which](sum, (const uint16_t *)sources[0] + i, part);
        for (int s = 1; s < n; s++) {
            k->widen[which](next, (const uint16_t *)sources[s] + i, part);
            pair(sum, sum, next, part);
        }
        if (reduction == CRT_AVERAGE)
            k->scale[CRT_FLOAT32 - 1](sum, divisor, part);
        k->narrow[which](out + i, sum, part);
    }
}

/* A block at a time: `out` may be any of the sources, so sums of three and more are gathered
 * beside it. */
static void reduce_blocks(crt_dtype_t dtype, crt_reduction_t reduction, char *out,
                          const void *const *sources, int n, int divisor, size_t count)
{
    crti_kernel_pair_t *pair = pair_of(dtype, reduction);
    size_t size = crt_dtype_size(dtype), step = BLOCK_BYTES / size;
    _Alignas(64) char sum[BLOCK_BYTES];

    for (size_t i = 0; i < count; i += step) {
        size_t part = count - i < step ? count - i : step;
        char *to = n == 2 ? out + i * size : sum;

        pair(to, (const char *)sources[0] + i * size, (const char *)sources[1] + i * size,
             part);
        for (int s = 2; s < n; s++)
            pair(s == n - 1 ? out + i * size : sum, sum,
                 (const char *)sources[s] + i * size, part);
        if (reduction == CRT_AVERAGE)
            kernels()->scale[dtype - 1](out + i * size, divisor, part);
    }
}

void crti_kernel_reduce_many(crt_dtype_t dtype, crt_reduction_t reduction, void *out,
                             const void *const *sources, int n, int divisor, size_t count)
{
    size_t size = crt_dtype_size(dtype);

    if (n == 1 && !(reduction == CRT_AVERAGE && divisor != 1)) {
        if (count && out != sources[0])
            memmove(out, sources[0], count * size);
    } else if (is_half(dtype)) {
        reduce_halves(dtype, reduction, out, sources, n, divisor, count);
    } else if (n == 1) {
        if (count && out != sources[0])
            memmove(out, sources[0], count * size);
        crti_kernel_scale(dtype, out, divisor, count);
    } else if (n == 2 && reduction != CRT_AVERAGE) {
        pair_of(dtype, reduction)(out, sources[0], sources[1], count);
    } else {
        reduce_blocks(dtype, reduction, out, sources, n, divisor, count);
    }
}
