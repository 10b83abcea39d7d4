/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of transformers: sums of columns, layer norm, GELU and Mish, attention, and what makes
 * tokens of an image. Outputs lie channels last. */

/* ---------------------------------------------------------------- sums of columns */

/* In two steps: each block sums some rows of a matrix, then a thread those of a column. */
#define STRIP_THREADS 256

/* N sums of each column in this block's rows; `of` adds what a place gives to them. */
template <int N, typename Of>
static __device__ void sum_strips(float *partial, int rows, int cols, Of of)
{
    __shared__ float all[N * STRIP_THREADS];
    int lanes = min(cols, STRIP_THREADS), groups = STRIP_THREADS / lanes;
    int lane = threadIdx.x % lanes, group = threadIdx.x / lanes;

    for (int from = 0; from < cols; from += lanes) {
        int col = from + lane;
        float own[N] = {0};

        if (group < groups && col < cols)
            for (int row = blockIdx.x * groups + group; row < rows; row += gridDim.x * groups)
                of(row, col, own);
        __syncthreads(); /* nobody reads the sums of those before any more */
        for (int k = 0; k < N; k++)
            all[k * STRIP_THREADS + threadIdx.x] = own[k];
        __syncthreads();
        for (int k = 0; k < N && group == 0 && col < cols; k++) {
            float sum = 0;

            for (int g = 0; g < groups; g++)
                sum += all[k * STRIP_THREADS + g * lanes + lane];
            partial[(count_t)(blockIdx.x * N + k) * cols + col] = sum;
        }
    }
}

/* Of columns [at, at + cols) of rows of `stride` numbers. */
KERNEL sum_columns(float *partial, const number *x, int rows, int cols, int stride, int at)
{
    sum_strips<1>(partial, rows, cols, [&](int row, int col, float *own) {
        *own += get(x[(count_t)row * stride + at + col]);
    });
}

KERNEL sum_float_columns(float *partial, const float *x, int rows, int cols, int stride, int at)
{
    sum_strips<1>(partial, rows, cols, [&](int row, int col, float *own) {
        *own += x[(count_t)row * stride + at + col];
    });
}

KERNEL sum_partials(float *sums, const float *partial, int blocks, int cols, float factor)
{
    EACH(col, cols) {
        double sum = 0;

        for (int b = 0; b < blocks; b++)
            sum += partial[(count_t)b * cols + col];
        sums[col] = sum * factor;
    }
}

/* ---------------------------------------------------------------- layer norm */

/* A warp for each row. */
#define EACH_ROW(row, rows)                                                                        \
    for (int row = THREAD / WARP, lane = threadIdx.x % WARP; row < (rows); row += THREADS / WARP)

/* kept: mean and one over the deviation of each row. */
KERNEL layer_norm_forward(number *y, float *kept, const number *x, const float *params, int rows,
                          int width, float epsilon)
{
    EACH_ROW(row, rows)
    {
        const number *from = x + (count_t)row * width;
        number *to = y + (count_t)row * width;
        float sum = 0, square = 0, scale;

        for (int j = lane; j < width; j += WARP)
            sum += get(from[j]);
        sum = sum_of_warp(sum) / width;
        for (int j = lane; j < width; j += WARP) {
            float off = get(from[j]) - sum;

            square += off * off;
        }
        scale = 1 / sqrtf(sum_of_warp(square) / width + epsilon);
        for (int j = lane; j < width; j += WARP)
            to[j] = put((get(from[j]) - sum) * scale * params[j] + params[width + j]);
        if (lane == 0) {
            kept[2 * row] = sum;
            kept[2 * row + 1] = scale;
        }
    }
}

/* Sums of the gradients of gain and bias. */
KERNEL layer_norm_sums(float *partial, const number *dy, const number *x, const float *kept,
                       int rows, int width)
{
    sum_strips<2>(partial, rows, width, [&](int row, int col, float *own) {
        count_t at = (count_t)row * width + col;
        float g = get(dy[at]);

        own[0] += g * (get(x[at]) - kept[2 * row]) * kept[2 * row + 1];
        own[1] += g;
    });
}

/* dx = scale * (g - mean(g) - xhat * mean(g * xhat)), g = dy * gain; dx may be dy. */
KERNEL layer_norm_backward(number *dx, const number *dy, const number *x, const float *params,
                           const float *kept, int rows, int width)
{
    EACH_ROW(row, rows)
    {
        count_t at = (count_t)row * width;
        float mean = kept[2 * row], scale = kept[2 * row + 1], sum = 0, dot = 0;

        for (int j = lane; j < width; j += WARP) {
            float g = get(dy[at + j]) * params[j];

            sum += g;
            dot += g * (get(x[at + j]) - mean);
        }
        sum = sum_of_warp(sum) / width;
        dot = sum_of_warp(dot) * scale * scale / width;
        for (int j = lane; j < width; j += WARP)
            dx[at + j] =
                put(scale * (get(dy[at + j]) * params[j] - sum - (get(x[at + j]) - mean) * dot));
    }
}

/* ---------------------------------------------------------------- GELU and Mish */

/* The part of the normal distribution below x. */
static __device__ float below(float x)
{
    return 0.5f * (1 + erff(x * 0.70710678f));
}

static __device__ float gelu(float x)
{
    return x * below(x);
}

static __device__ float gelu_slope(float x)
{
    return below(x) + x * 0.39894228f * expf(-0.5f * x * x);
}

#define MISH_THRESHOLD 20

static __device__ float mish(float x)
{
    return x < MISH_THRESHOLD ? x * tanhf(log1pf(expf(x))) : x;
}

static __device__ float mish_slope(float x)
{
    float e = expf(x), t = tanhf(log1pf(e));

    return x < MISH_THRESHOLD ? t + x * (1 - t * t) * e / (1 + e) : 1;
}

template <typename Of> static __device__ void map(number *y, const number *x, count_t count, Of of)
{
    EACH(i, count / PACK) {
        pack_t p = ((const pack_t *)x)[i];

        for (int k = 0; k < PACK; k++)
            p.v[k] = put(of(get(p.v[k])));
        ((pack_t *)y)[i] = p;
    }
    EACH_OF_REST(i, count)
        y[i] = put(of(get(x[i])));
}

template <typename Of>
static __device__ void map_back(number *dx, const number *dy, const number *x, count_t count,
                                Of slope)
{
    EACH(i, count / PACK) {
        pack_t d = ((const pack_t *)dy)[i], p = ((const pack_t *)x)[i];

        for (int k = 0; k < PACK; k++)
            d.v[k] = put(get(d.v[k]) * slope(get(p.v[k])));
        ((pack_t *)dx)[i] = d;
    }
    EACH_OF_REST(i, count)
        dx[i] = put(get(dy[i]) * slope(get(x[i])));
}

KERNEL gelu_forward(number *y, const number *x, count_t count)
{
    map(y, x, count, [](float v) { return gelu(v); });
}

KERNEL gelu_backward(number *dx, const number *dy, const number *x, count_t count)
{
    map_back(dx, dy, x, count, [](float v) { return gelu_slope(v); });
}

KERNEL mish_forward(number *y, const number *x, count_t count)
{
    map(y, x, count, [](float v) { return mish(v); });
}

KERNEL mish_backward(number *dx, const number *dy, const number *x, count_t count)
{
    map_back(dx, dy, x, count, [](float v) { return mish_slope(v); });
}

/* ---------------------------------------------------------------- attention */

/* From q k' to probabilities, in place, of `count` rows of n; with a mask also what is left of
 * them, `left`. A warp for each row. */
KERNEL attention_softmax(number *p, number *left, float *mask, count_t count, int n, count_t seed,
                         count_t limit, float keep)
{
    int lane = threadIdx.x % WARP;

    for (count_t row = THREAD / WARP; row < count; row += THREADS / WARP) {
        number *own = p + row * n;
        float top = -__int_as_float(0x7f800000), sum = 0;

        for (int j = lane; j < n; j += WARP)
            top = fmaxf(top, get(own[j]));
        top = largest_of_warp(top);
        for (int j = lane; j < n; j += WARP)
            sum += expf(get(own[j]) - top);
        sum = sum_of_warp(sum);
        for (int j = lane; j < n; j += WARP) {
            count_t at = row * n + j;
            float v = expf(get(own[j]) - top) / sum;

            own[j] = put(v);
            if (mask) {
                mask[at] = random_at(seed, at) >= limit ? keep : 0;
                left[at] = put(v * mask[at]);
            }
        }
    }
}

/* From the gradient of what is left of the probabilities to that of q k', in place. */
KERNEL attention_softmax_back(number *d, const number *p, const float *mask, count_t count, int n)
{
    int lane = threadIdx.x % WARP;

    for (count_t row = THREAD / WARP; row < count; row += THREADS / WARP) {
        float sum = 0;

        for (int j = lane; j < n; j += WARP) {
            count_t at = row * n + j;

            sum += get(d[at]) * (mask ? mask[at] : 1) * get(p[at]);
        }
        sum = sum_of_warp(sum);
        for (int j = lane; j < n; j += WARP) {
            count_t at = row * n + j;

            d[at] = put(get(p[at]) * (get(d[at]) * (mask ? mask[at] : 1) - sum));
        }
    }
}

/* ---------------------------------------------------------------- tokens */

/* Where number i of the patches lies in the image. */
static __device__ count_t in_image(const crti_cuda_patches_t &s, count_t i)
{
    int run = s.side * s.channels, across = s.width / s.side;
    int rest = i % run, line = i / run % s.side;
    count_t patch = i / run / s.side, j = patch % across;
    count_t row = patch / across * s.side + line; /* of places, of all samples */

    return (row * s.width + j * s.side) * s.channels + rest;
}

KERNEL patches_forward(number *y, const number *x, count_t count, crti_cuda_patches_t s)
{
    EACH(i, count)
        y[i] = x[in_image(s, i)];
}

KERNEL patches_backward(number *dx, const number *dy, count_t count, crti_cuda_patches_t s)
{
    EACH(i, count)
        dx[in_image(s, i)] = dy[i];
}

/* Samples of `size` numbers, and `token` more behind each. */
KERNEL token_forward(number *y, const number *x, const float *params, count_t rows, count_t size,
                     count_t token)
{
    EACH(i, rows * (size + token)) {
        count_t row = i / (size + token), j = i % (size + token);

        y[i] = j < size ? x[row * size + j] : put(params[j - size]);
    }
}

KERNEL positions_forward(number *y, const number *x, const float *params, count_t rows,
                         count_t size)
{
    EACH(i, rows * size)
        y[i] = put(get(x[i]) + params[i % size]);
}

/* Columns [at, at + width) of rows of `stride`, from or to matrices that have others, too. */
KERNEL copy_columns(number *to, const number *from, count_t rows, count_t width, count_t to_stride,
                    count_t to_at, count_t from_stride, count_t from_at)
{
    EACH(i, rows * width) {
        count_t row = i / width, j = i % width;

        to[row * to_stride + to_at + j] = from[row * from_stride + from_at + j];
    }
}
