/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: the arithmetic of reductions, one set of loops per instruction set.
 *
 * Where it sits
 *     backends -> crti_kernel_* (backend.h) -> [ kernel.c ] -> a table of kernel_loops.c
 * The loops are one file, compiled once for each instruction set; kernel.c takes the best table
 * that this processor runs. All give the same bits: no fused or reordered arithmetic.
 */
#ifndef CRTI_COLLECTIVE_KERNEL_H
#define CRTI_COLLECTIVE_KERNEL_H

#include <stddef.h>

/* Slots of a table, in the order of crt_dtype_t from CRT_DTYPE_FLOAT32 to CRT_DTYPE_UINT64 (that of
 * CRT_DTYPE_BOOL is empty: nothing is computed with it), and of crt_reduction_t from CRT_REDUCE_SUM
 * to CRT_REDUCE_MAX (CRT_REDUCE_AVERAGE sums). */
#define CRTI_KERNEL_DTYPES     13
#define CRTI_KERNEL_REDUCTIONS 4

/* out[i] = a[i] (op) b[i]; out may be a or b. */
typedef void crti_kernel_pair_t(void *out, const void *a, const void *b, size_t count);
/* The same into two places; each may be a or b. */
typedef void crti_kernel_twice_t(void *out, void *too, const void *a, const void *b,
                                 size_t count);
/* Four joined in their order, into four places; each may be one of them. */
typedef void crti_kernel_four_t(void *const outs[4], const void *const from[4],
                                size_t count);
typedef void crti_kernel_scale_t(void *values, int divisor, size_t count);

typedef struct crti_kernels {
    const char *name;
    crti_kernel_pair_t *pair[CRTI_KERNEL_DTYPES][CRTI_KERNEL_REDUCTIONS];
    crti_kernel_twice_t *twice[CRTI_KERNEL_DTYPES][CRTI_KERNEL_REDUCTIONS];
    /* NULL for float16 and bfloat16, which are rounded once. */
    crti_kernel_four_t *four[CRTI_KERNEL_DTYPES][CRTI_KERNEL_REDUCTIONS];
    crti_kernel_scale_t *scale[CRTI_KERNEL_DTYPES];
    /* As memcpy, whose string instructions some processors carry out slowly when both sides have
     * the same place in a page. */
    void (*copy)(void *to, const void *from, size_t bytes);
    /* float16 and bfloat16 to float32 and back, rounded to nearest even. */
    void (*widen[2])(float *to, const void *from, size_t count);
    void (*narrow[2])(void *to, const float *from, size_t count);
} crti_kernels_t;

extern const crti_kernels_t crti_kernels_plain;
#if defined(__x86_64__)
extern const crti_kernels_t crti_kernels_avx2, crti_kernels_avx512;
#endif

/* The best tables first; those that this processor can't run are left out. For tests. */
int crti_kernel_tables(const crti_kernels_t *tables[3]);
/* What crti_kernel_* use; NULL: the best again. For tests. */
void crti_kernel_use(const crti_kernels_t *table);
void crti_kernel_copy(void *to, const void *from, size_t bytes);

#endif
