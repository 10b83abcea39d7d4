/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the optimizers: see optimizer.c. */

/* A block for each chunk: its gradient's square; adds a penalty on the weights first. */
KERNEL squares(double *sums, const crti_cuda_chunk_t *chunks, float *gradients,
               const float *weights, float penalty)
{
    crti_cuda_chunk_t c = chunks[blockIdx.x];
    double own = 0;

    for (int i = threadIdx.x; i < c.count; i += blockDim.x) {
        float g = gradients[c.first + i];

        if (penalty > 0)
            gradients[c.first + i] = g += penalty * weights[c.first + i];
        own += (double)g * (double)g;
    }
    own = sum_block(own);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = own;
}

static __device__ crti_cuda_verdict_t judge(const double *square, int arrays,
                                            const crti_cuda_limits_t &limits, double *whole)
{
    double sum = 0, norm;
    int largest = 0;

    for (int a = 0; a < arrays; a++) {
        if (!isfinite(square[a]))
            return {a, 0, sqrt(square[a])};
        largest = square[a] > square[largest] ? a : largest;
        sum += square[a];
    }
    norm = sqrt(sum);
    *whole = limits.global_clip > 0 && norm >= limits.global_clip ? limits.global_clip / norm : 1;
    if (limits.norm_limit > 0 && norm > limits.norm_limit)
        return {largest, 1, sqrt(square[largest])};
    return {-1, 1, norm};
}

/* One block: from the squares of chunks to the scale of each array; chunks of array a end at
 * ends[a]. */
KERNEL judge_step(crti_cuda_verdict_t *verdict, float *scales, double *square, const double *sums,
                  const int *ends, int arrays, crti_cuda_limits_t limits)
{
    __shared__ double whole;
    int lane = threadIdx.x % WARP;

    for (int a = threadIdx.x / WARP; a < arrays; a += blockDim.x / WARP) {
        double own = 0;

        for (int k = (a ? ends[a - 1] : 0) + lane; k < ends[a]; k += WARP)
            own += sums[k];
        own = sum_of_warp(own);
        if (lane == 0)
            square[a] = own;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        *verdict = judge(square, arrays, limits, &whole);
    __syncthreads();
    for (int a = threadIdx.x; a < arrays; a += blockDim.x) {
        double norm = sqrt(square[a]) * whole;

        scales[a] = limits.clip > 0 && norm >= limits.clip ? whole * limits.clip / norm : whole;
    }
}

/* A block for each chunk. A step that is not made forgets its gradient, too. */
#define EACH_OF_CHUNK(i)                                                                           \
    crti_cuda_chunk_t c = chunks[blockIdx.x];                                                      \
    bool is_made = verdict->array < 0;                                                             \
    float scale = scales[c.array];                                                                 \
    for (count_t i = c.first + threadIdx.x; i < c.first + c.count; i += blockDim.x)

KERNEL sgd(float *w, float *g, float *v, const crti_cuda_chunk_t *chunks, const float *scales,
           const crti_cuda_verdict_t *verdict, crti_cuda_rule_t r)
{
    EACH_OF_CHUNK(i) {
        float gi = scale * g[i], vi = r.keep1 * v[i] + gi;

        g[i] = 0;
        if (is_made) {
            float wi = w[i] - r.rate * (r.nesterov ? gi + r.keep1 * vi : vi);

            v[i] = vi;
            w[i] = wi - r.decay_after * wi;
        }
    }
}

KERNEL adam(float *w, float *g, float *m, float *v, const crti_cuda_chunk_t *chunks,
            const float *scales, const crti_cuda_verdict_t *verdict, crti_cuda_rule_t r)
{
    EACH_OF_CHUNK(i) {
        float gi = scale * g[i], wi = w[i] - r.decay_before * w[i];
        float mi = r.keep1 * m[i] + r.take1 * gi, vi = r.keep2 * v[i] + r.take2 * gi * gi;

        g[i] = 0;
        if (is_made) {
            m[i] = mi;
            v[i] = vi;
            wi -= r.is_plain ? r.rate * mi : r.rate * mi / (sqrtf(vi) + r.epsilon);
            w[i] = wi - r.decay_after * wi;
        }
    }
}

/* What comes behind the rule: slow weights that w jumps to, and averages. Either may be NULL. */
KERNEL follow(float *w, float *slow, float *averages, const crti_cuda_chunk_t *chunks,
              const crti_cuda_verdict_t *verdict, float slow_rate, float average_rate)
{
    crti_cuda_chunk_t c = chunks[blockIdx.x];

    if (verdict->array >= 0)
        return;
    for (count_t i = c.first + threadIdx.x; i < c.first + c.count; i += blockDim.x) {
        float wi = w[i];

        if (slow) {
            wi = slow[i] + slow_rate * (wi - slow[i]);
            slow[i] = w[i] = wi;
        }
        if (averages)
            averages[i] -= average_rate * (averages[i] - wi);
    }
}
