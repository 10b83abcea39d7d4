/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the layers that no library has, and what all kernels are made of. NVRTC compiles them
 * for the GPU that is there, as one text: shapes.h, language.cuh, kernels.cu, tokens.cu, words.cu,
 * parser.cu, steps.cu. Sums have a fixed order, so that equal inputs give equal bits. */

typedef unsigned long long count_t;

#define THREAD  (blockIdx.x * (count_t)blockDim.x + threadIdx.x)
#define THREADS ((count_t)gridDim.x * blockDim.x)

#define EACH(i, count) for (count_t i = THREAD; i < (count); i += THREADS)

#define WARP 32
#define ALL  0xffffffffu

/* ---------------------------------------------------------------- numbers */

/* What outputs and their gradients consist of; all else is float. */
#ifdef MIXED
typedef struct number {
    unsigned short bits; /* float16 */
} number;

static __device__ float get(number x)
{
    return widen(x.bits);
}

static __device__ number put(float x)
{
    return {narrow(x)};
}
#else
typedef float number;

static __device__ float get(number x)
{
    return x;
}

static __device__ number put(float x)
{
    return x;
}
#endif

/* Memory of outputs is aligned, so 16 bytes go at once. */
#define PACK (16 / (int)sizeof(number))

typedef struct __align__(16) pack {
    number v[PACK];
} pack_t;

/* Those behind the last pack. */
#define EACH_OF_REST(i, count)                                                                     \
    for (count_t i = (count) / PACK * PACK + THREAD; i < (count); i += THREADS)

/* ---------------------------------------------------------------- one number at a time */

static __device__ number relu(number x)
{
    return put(get(x) > 0 ? get(x) : 0);
}

static __device__ number pass(number dy, number y)
{
    return get(y) > 0 ? dy : put(0);
}

static __device__ number sum(number a, number b)
{
    return put(get(a) + get(b));
}

KERNEL relu_forward(number *y, const number *x, count_t count)
{
    EACH(i, count / PACK) {
        pack_t p = ((const pack_t *)x)[i];

        for (int k = 0; k < PACK; k++)
            p.v[k] = relu(p.v[k]);
        ((pack_t *)y)[i] = p;
    }
    EACH_OF_REST(i, count)
        y[i] = relu(x[i]);
}

KERNEL relu_backward(number *dx, const number *dy, const number *y, count_t count)
{
    EACH(i, count / PACK) {
        pack_t d = ((const pack_t *)dy)[i], p = ((const pack_t *)y)[i];

        for (int k = 0; k < PACK; k++)
            d.v[k] = pass(d.v[k], p.v[k]);
        ((pack_t *)dx)[i] = d;
    }
    EACH_OF_REST(i, count)
        dx[i] = pass(dy[i], y[i]);
}

KERNEL add(number *to, const number *a, const number *b, count_t count)
{
    EACH(i, count / PACK) {
        pack_t p = ((const pack_t *)a)[i], q = ((const pack_t *)b)[i];

        for (int k = 0; k < PACK; k++)
            p.v[k] = sum(p.v[k], q.v[k]);
        ((pack_t *)to)[i] = p;
    }
    EACH_OF_REST(i, count)
        to[i] = sum(a[i], b[i]);
}

/* Memory of callers may lie anywhere. */
KERNEL accumulate(float *to, const float *from, count_t count)
{
    EACH(i, count)
        to[i] += from[i];
}

KERNEL multiply(number *to, const number *a, const float *mask, count_t count)
{
    EACH(i, count)
        to[i] = put(get(a[i]) * mask[i]);
}

/* A random number of 32 bits for each place of a counter (splitmix64 of Steele et al.). */
static __device__ unsigned random_at(count_t seed, count_t i)
{
    count_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ (z >> 31)) >> 32);
}

KERNEL dropout(number *y, const number *x, float *mask, count_t count, count_t seed, count_t limit,
               float keep)
{
    EACH(i, count) {
        mask[i] = random_at(seed, i) >= limit ? keep : 0;
        y[i] = put(get(x[i]) * mask[i]);
    }
}

/* Where number i of (rows, b, a) lies in (rows, a, b). */
static __device__ count_t turned(count_t i, count_t a, count_t b)
{
    count_t row = i / (a * b), rest = i % (a * b);

    return row * a * b + rest % a * b + rest / a;
}

KERNEL turn(number *to, const number *from, count_t rows, count_t a, count_t b)
{
    EACH(i, rows * a * b)
        to[i] = from[turned(i, a, b)];
}

KERNEL load(number *to, const float *from, count_t rows, count_t a, count_t b, float factor)
{
    EACH(i, rows * a * b)
        to[i] = put(from[turned(i, a, b)] * factor);
}

KERNEL store(float *to, const number *from, count_t rows, count_t a, count_t b, float factor)
{
    EACH(i, rows * a * b)
        to[i] = get(from[turned(i, a, b)]) * factor;
}

/* ---------------------------------------------------------------- places */

typedef struct place {
    int row, i, j, channel;
} place_t;

static __device__ count_t size_of(const crti_cuda_grid_t &g)
{
    return (count_t)g.rows * g.height * g.width * g.channels;
}

static __device__ count_t index_of(const crti_cuda_grid_t &g, int row, int i, int j, int channel)
{
    return g.first ? (((count_t)row * g.channels + channel) * g.height + i) * g.width + j
                   : (((count_t)row * g.height + i) * g.width + j) * g.channels + channel;
}

static __device__ place_t place_at(const crti_cuda_grid_t &g, count_t index)
{
    place_t p;

    if (!g.first) {
        p.channel = index % g.channels;
        index /= g.channels;
    }
    p.j = index % g.width;
    p.i = index / g.width % g.height;
    index /= (count_t)g.width * g.height;
    if (g.first) {
        p.channel = index % g.channels;
        index /= g.channels;
    }
    p.row = index;
    return p;
}

KERNEL add_bias(number *y, const float *bias, crti_cuda_grid_t g)
{
    EACH(i, size_of(g))
        y[i] = put(get(y[i]) + bias[place_at(g, i).channel]);
}

/* Sums of the threads of a block, a power of two of them. */
static __device__ double sum_block(double own)
{
    __shared__ double sums[1024];

    sums[threadIdx.x] = own;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    return sums[0];
}

/* A block for each channel. */
KERNEL sum_channels(float *sums, const number *dy, crti_cuda_grid_t g, float factor)
{
    int places = g.height * g.width, channel = blockIdx.x;
    count_t count = (count_t)g.rows * places;
    double own = 0;

    for (count_t k = threadIdx.x; k < count; k += blockDim.x)
        own += get(dy[index_of(g, k / places, k % places / g.width, k % g.width, channel)]);
    own = sum_block(own);
    if (threadIdx.x == 0)
        sums[channel] = own * factor;
}

KERNEL subsample_forward(number *y, const number *x, crti_cuda_windows_t s)
{
    EACH(i, size_of(s.out)) {
        place_t p = place_at(s.out, i);

        y[i] = p.channel < s.in.channels
                   ? x[index_of(s.in, p.row, p.i * s.stride, p.j * s.stride, p.channel)]
                   : put(0);
    }
}

KERNEL subsample_backward(number *dx, const number *dy, crti_cuda_windows_t s)
{
    EACH(i, size_of(s.in)) {
        place_t p = place_at(s.in, i);

        dx[i] = p.i % s.stride == 0 && p.j % s.stride == 0
                    ? dy[index_of(s.out, p.row, p.i / s.stride, p.j / s.stride, p.channel)]
                    : put(0);
    }
}

/* ---------------------------------------------------------------- pools */

typedef struct range {
    int begin, end;
} range_t;

/* Places of window `o`, those beyond the sample left out. */
static __device__ range_t window_at(int o, int size, int stride, int padding, int places)
{
    int begin = o * stride - padding, end = begin + size;

    return {max(begin, 0), min(end, places)};
}

/* Windows that place `i` is in. */
static __device__ range_t windows_of(int i, int size, int stride, int padding, int windows)
{
    int first = i + padding - size + 1;

    return {first > 0 ? (first + stride - 1) / stride : 0,
            min((i + padding) / stride + 1, windows)};
}

KERNEL max_pool_forward(number *y, const number *x, crti_cuda_windows_t s)
{
    EACH(o, size_of(s.out)) {
        place_t p = place_at(s.out, o);
        range_t rows = window_at(p.i, s.height, s.stride, s.padding, s.in.height);
        range_t cols = window_at(p.j, s.width, s.stride, s.padding, s.in.width);
        float most = -__int_as_float(0x7f800000);

        for (int i = rows.begin; i < rows.end; i++)
            for (int j = cols.begin; j < cols.end; j++) {
                float v = get(x[index_of(s.in, p.row, i, j, p.channel)]);

                most = v > most || v != v ? v : most;
            }
        y[o] = put(most);
    }
}

/* Is (i, j) the first place of window (oi, oj) that holds its largest number? */
static __device__ bool is_largest(const number *x, float most, const crti_cuda_windows_t &s,
                                  const place_t &p, int oi, int oj)
{
    range_t rows = window_at(oi, s.height, s.stride, s.padding, s.in.height);
    range_t cols = window_at(oj, s.width, s.stride, s.padding, s.in.width);

    for (int i = rows.begin; i < rows.end; i++)
        for (int j = cols.begin; j < cols.end; j++)
            if (get(x[index_of(s.in, p.row, i, j, p.channel)]) == most)
                return i == p.i && j == p.j;
    return false;
}

KERNEL max_pool_backward(number *dx, const number *dy, const number *x, const number *y,
                         crti_cuda_windows_t s)
{
    EACH(at, size_of(s.in)) {
        place_t p = place_at(s.in, at);
        range_t rows = windows_of(p.i, s.height, s.stride, s.padding, s.out.height);
        range_t cols = windows_of(p.j, s.width, s.stride, s.padding, s.out.width);
        float sum = 0;

        for (int i = rows.begin; i < rows.end; i++)
            for (int j = cols.begin; j < cols.end; j++) {
                count_t o = index_of(s.out, p.row, i, j, p.channel);

                if (get(x[at]) == get(y[o]) && is_largest(x, get(y[o]), s, p, i, j))
                    sum += get(dy[o]);
            }
        dx[at] = put(sum);
    }
}

KERNEL average_pool_forward(number *y, const number *x, crti_cuda_windows_t s)
{
    float share = 1.0f / (float)(s.height * s.width);

    EACH(o, size_of(s.out)) {
        place_t p = place_at(s.out, o);
        range_t rows = window_at(p.i, s.height, s.stride, 0, s.in.height);
        range_t cols = window_at(p.j, s.width, s.stride, 0, s.in.width);
        float sum = 0;

        for (int i = rows.begin; i < rows.end; i++)
            for (int j = cols.begin; j < cols.end; j++)
                sum += get(x[index_of(s.in, p.row, i, j, p.channel)]);
        y[o] = put(sum * share);
    }
}

KERNEL average_pool_backward(number *dx, const number *dy, crti_cuda_windows_t s)
{
    float share = 1.0f / (float)(s.height * s.width);

    EACH(at, size_of(s.in)) {
        place_t p = place_at(s.in, at);
        range_t rows = windows_of(p.i, s.height, s.stride, 0, s.out.height);
        range_t cols = windows_of(p.j, s.width, s.stride, 0, s.out.width);
        float sum = 0;

        for (int i = rows.begin; i < rows.end; i++)
            for (int j = cols.begin; j < cols.end; j++)
                sum += get(dy[index_of(s.out, p.row, i, j, p.channel)]);
        dx[at] = put(sum * share);
    }
}

/* ---------------------------------------------------------------- batch norm */

/* Batch norms, channels last; cuDNN has those with channels first. Sums of all rows in two steps:
 * each block of threads sums some rows, then a block sums those of some channels. */
#define NORM_THREADS  256
#define NORM_CHANNELS 32 /* of a block in the second step */

/* A block: V channels for each thread, as many rows at once as there are threads left. Two sums of
 * each channel from `first` on. */
template <int V, typename Of>
static __device__ void sum_some(float *sums, const crti_cuda_norm_t &n, int from, Of of)
{
    __shared__ float all[2 * V * NORM_THREADS];
    int lanes = min(n.channels / V, NORM_THREADS), groups = NORM_THREADS / lanes;
    int lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
    int channel = from + lane * V;
    bool is_used = group < groups && channel < n.channels;
    float a[V] = {0}, b[V] = {0};

    if (is_used)
        for (int row = blockIdx.x * groups + group; row < n.rows; row += gridDim.x * groups)
            of((count_t)row * n.channels + channel, channel, a, b);
    for (int k = 0; k < V; k++) {
        all[k * NORM_THREADS + threadIdx.x] = a[k];
        all[(V + k) * NORM_THREADS + threadIdx.x] = b[k];
    }
    __syncthreads();
    if (!is_used || group > 0)
        return;
    for (int k = 0; k < V; k++) {
        float first = 0, second = 0;

        for (int g = 0; g < groups; g++) {
            first += all[k * NORM_THREADS + g * lanes + lane];
            second += all[(V + k) * NORM_THREADS + g * lanes + lane];
        }
        sums[(2 * blockIdx.x) * n.channels + channel + k] = first;
        sums[(2 * blockIdx.x + 1) * n.channels + channel + k] = second;
    }
}

template <int V, typename Of>
static __device__ void sum_rows(float *sums, const crti_cuda_norm_t &n, Of of)
{
    for (int from = 0; from < n.channels; from += V * NORM_THREADS) {
        __syncthreads(); /* nobody reads the sums of those before any more */
        sum_some<V>(sums, n, from, of);
    }
}

template <int V> struct __align__(sizeof(number) * V) numbers {
    number v[V];
};

template <int V>
static __device__ void measure(float *sums, const number *x, const crti_cuda_norm_t &n)
{
    sum_rows<V>(sums, n, [&](count_t at, int channel, float *a, float *b) {
        numbers<V> p = *(const numbers<V> *)(x + at);

        for (int k = 0; k < V; k++) {
            float v = get(p.v[k]) - get(x[channel + k]); /* of the first row: keeps squares small */

            a[k] += v;
            b[k] += v * v;
        }
    });
}

KERNEL norm_measure(float *sums, const number *x, crti_cuda_norm_t n)
{
    if (n.channels % PACK == 0)
        measure<PACK>(sums, x, n);
    else
        measure<1>(sums, x, n);
}

template <int V>
static __device__ void measure_back(float *sums, const number *dy, const number *x,
                                    const float *kept, const crti_cuda_norm_t &n)
{
    sum_rows<V>(sums, n, [&](count_t at, int channel, float *a, float *b) {
        numbers<V> d = *(const numbers<V> *)(dy + at), p = *(const numbers<V> *)(x + at);

        for (int k = 0; k < V; k++) {
            float g = get(d.v[k]);

            a[k] += g;
            b[k] += g * (get(p.v[k]) - kept[channel + k]) * kept[n.channels + channel + k];
        }
    });
}

KERNEL norm_measure_back(float *sums, const number *dy, const number *x, const float *kept,
                         crti_cuda_norm_t n)
{
    if (n.channels % PACK == 0)
        measure_back<PACK>(sums, dy, x, kept, n);
    else
        measure_back<1>(sums, dy, x, kept, n);
}

/* Both sums of a channel, from those of all blocks: in the first warp's threads. */
static __device__ bool sum_blocks(const float *sums, const crti_cuda_norm_t &n, int channel,
                                  double *first, double *second)
{
    __shared__ double all[2][NORM_THREADS];
    int group = threadIdx.x / NORM_CHANNELS, groups = NORM_THREADS / NORM_CHANNELS;
    double a = 0, b = 0;

    if (channel < n.channels)
        for (int k = group; k < n.blocks; k += groups) {
            a += sums[(2 * k) * n.channels + channel];
            b += sums[(2 * k + 1) * n.channels + channel];
        }
    all[0][threadIdx.x] = a;
    all[1][threadIdx.x] = b;
    __syncthreads();
    if (group > 0 || channel >= n.channels)
        return false;
    for (int g = 1; g < groups; g++) {
        a += all[0][g * NORM_CHANNELS + threadIdx.x];
        b += all[1][g * NORM_CHANNELS + threadIdx.x];
    }
    *first = a;
    *second = b;
    return true;
}

/* kept: means, then one over the deviations. */
KERNEL norm_keep(float *kept, float *statistics, const float *sums, const number *x,
                 crti_cuda_norm_t n)
{
    int channel = blockIdx.x * NORM_CHANNELS + threadIdx.x % NORM_CHANNELS;
    double sum, square;

    if (!sum_blocks(sums, n, channel, &sum, &square))
        return;
    sum /= n.rows;
    square = fmax(square / n.rows - sum * sum, 0.0);
    float mean = sum + get(x[channel]);
    float *running = statistics + channel, *variance = running + n.channels;
    float unbiased = n.rows > 1 ? square * n.rows / (n.rows - 1) : square;

    kept[channel] = mean;
    kept[n.channels + channel] = rsqrt(square + n.epsilon);
    *running += n.momentum * (mean - *running);
    *variance += n.momentum * (unbiased - *variance);
}

/* The gradients of gain and bias; of the sums the means are kept, for the inputs. */
KERNEL norm_gradients(float *dparams, float *means, const float *sums, crti_cuda_norm_t n)
{
    int channel = blockIdx.x * NORM_CHANNELS + threadIdx.x % NORM_CHANNELS;
    double sum, product;

    if (!sum_blocks(sums, n, channel, &sum, &product))
        return;
    dparams[channel] = product * n.factor;
    dparams[n.channels + channel] = sum * n.factor;
    means[channel] = sum / n.rows;
    means[n.channels + channel] = product / n.rows;
}

/* `scales`: one over the deviations, or the variances. */
template <int V>
static __device__ void normalize(number *y, const number *x, const float *params,
                                 const float *means, const float *scales, bool is_variance,
                                 const crti_cuda_norm_t &n)
{
    EACH(i, (count_t)n.rows * (n.channels / V)) {
        numbers<V> p = ((const numbers<V> *)x)[i];
        int channel = i % (n.channels / V) * V;

        for (int k = 0; k < V; k++) {
            int c = channel + k;
            float scale = is_variance ? rsqrtf(scales[c] + n.epsilon) : scales[c];

            p.v[k] = put((get(p.v[k]) - means[c]) * scale * params[c] + params[n.channels + c]);
        }
        ((numbers<V> *)y)[i] = p;
    }
}

KERNEL norm_forward(number *y, const number *x, const float *params, const float *means,
                    const float *scales, int is_variance, crti_cuda_norm_t n)
{
    if (n.channels % PACK == 0)
        normalize<PACK>(y, x, params, means, scales, is_variance, n);
    else
        normalize<1>(y, x, params, means, scales, is_variance, n);
}

template <int V>
static __device__ void normalize_back(number *dx, const number *dy, const number *x,
                                      const float *params, const float *kept, const float *means,
                                      const crti_cuda_norm_t &n)
{
    EACH(i, (count_t)n.rows * (n.channels / V)) {
        numbers<V> d = ((const numbers<V> *)dy)[i], p = ((const numbers<V> *)x)[i];
        int channel = i % (n.channels / V) * V;

        for (int k = 0; k < V; k++) {
            int c = channel + k;
            float scale = kept[n.channels + c], hat = (get(p.v[k]) - kept[c]) * scale;

            d.v[k] =
                put(params[c] * scale * (get(d.v[k]) - means[c] - hat * means[n.channels + c]));
        }
        ((numbers<V> *)dx)[i] = d;
    }
}

KERNEL norm_backward(number *dx, const number *dy, const number *x, const float *params,
                     const float *kept, const float *means, crti_cuda_norm_t n)
{
    if (n.channels % PACK == 0)
        normalize_back<PACK>(dx, dy, x, params, kept, means, n);
    else
        normalize_back<1>(dx, dy, x, params, kept, means, n);
}

/* ---------------------------------------------------------------- softmax */

static __device__ float largest_of_warp(float own)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        own = fmaxf(own, __shfl_xor_sync(ALL, own, step));
    return own;
}

template <typename T> static __device__ T sum_of_warp(T own)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        own += __shfl_xor_sync(ALL, own, step);
    return own;
}

/* What softmax takes off the numbers of a row, which a warp has, and what it divides by. */
typedef struct level {
    float top, sum;
} level_t;

static __device__ level_t level_of(const number *y, int classes)
{
    level_t l = {-__int_as_float(0x7f800000), 0};

    for (int j = threadIdx.x; j < classes; j += WARP)
        l.top = fmaxf(l.top, get(y[j]));
    l.top = largest_of_warp(l.top);
    for (int j = threadIdx.x; j < classes; j += WARP)
        l.sum += expf(get(y[j]) - l.top);
    l.sum = sum_of_warp(l.sum);
    return l;
}

KERNEL softmax(float *p, const number *y, int classes)
{
    count_t at = blockIdx.x * (count_t)classes;
    level_t l = level_of(y + at, classes);

    for (int j = threadIdx.x; j < classes; j += WARP)
        p[at + j] = expf(get(y[at + j]) - l.top) / l.sum;
}

KERNEL cross_entropy(number *dy, float *losses, const number *y, const unsigned char *labels,
                     int classes, float factor)
{
    count_t at = blockIdx.x * (count_t)classes;
    level_t l = level_of(y + at, classes);
    int label = labels[blockIdx.x];

    for (int j = threadIdx.x; j < classes; j += WARP) {
        float p = expf(get(y[at + j]) - l.top) / l.sum;

        /* A NaN stays one. */
        if (j == label)
            losses[blockIdx.x] = -logf(p < 1.17549435e-38f ? 1.17549435e-38f : p);
        dy[at + j] = put((p - (j == label)) * factor);
    }
}

/* One block. */
KERNEL mean_loss(double *mean, const float *losses, int rows)
{
    double own = 0;

    for (int i = threadIdx.x; i < rows; i += blockDim.x)
        own += losses[i];
    own = sum_block(own);
    if (threadIdx.x == 0)
        *mean = own / rows;
}
