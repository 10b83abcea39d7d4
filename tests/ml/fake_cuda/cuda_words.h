/* SPDX-License-Identifier: Apache-2.0 */
/* What NVRTC knows without a header and a C++ compiler of the host does not: the words of CUDA's
 * language that the kernels use. */
#ifndef CRTI_TESTS_CUDA_WORDS_H
#define CRTI_TESTS_CUDA_WORDS_H

#include <cmath>
#include <cstring>

#include "fake.h"
#include "runtime/base/half.h"

using std::isfinite;

#define KERNEL static void
#define __device__
#define __shared__   static /* of one block: they run one after the other */
#define __align__(n) alignas(n)

#define threadIdx fake_thread
#define blockIdx  fake_block
#define blockDim  fake_block_size
#define gridDim   fake_grid_size

static inline void __syncthreads()
{
    fake_barrier();
}

static inline void __syncwarp()
{
    fake_warp_barrier();
}

template <typename T> static inline T __shfl_sync(unsigned, T own, unsigned lane)
{
    T other = own;

    static_assert(sizeof(T) <= 8);
    fake_tell(&own, sizeof(own));
    fake_warp_barrier();
    if (const void *told = fake_told(lane % FAKE_WARP))
        memcpy(&other, told, sizeof(other));
    return other;
}

template <typename T> static inline T __shfl_xor_sync(unsigned all, T own, unsigned step)
{
    return __shfl_sync(all, own, threadIdx.x % FAKE_WARP ^ step);
}

static inline unsigned __ballot_sync(unsigned, int own)
{
    unsigned votes = 0;

    fake_tell(&own, sizeof(own));
    fake_warp_barrier();
    for (unsigned lane = 0; lane < FAKE_WARP; lane++)
        if (const void *told = fake_told(lane))
            votes |= (unsigned)(*(const int *)told != 0) << lane;
    return votes;
}

static inline int __ffs(unsigned x)
{
    return __builtin_ffs((int)x);
}

static inline float __int_as_float(int bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

static inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static inline int min(int a, int b)
{
    return a < b ? a : b;
}

static inline int max(int a, int b)
{
    return a > b ? a : b;
}

static inline float widen(unsigned short half)
{
    return crti_float16_value(half);
}

static inline unsigned short narrow(float x)
{
    return crti_float16(x);
}

#endif
