/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels need of the GPU itself: what declares one, and float16. NVRTC has no headers
 * here, so no __half. Tests have their own, so that the kernels run on the host. */

#define KERNEL extern "C" __global__ void

#ifdef MIXED
static __device__ float widen(unsigned short half)
{
    float wide;

    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(half));
    return wide;
}

static __device__ unsigned short narrow(float x)
{
    unsigned short half;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}
#endif

