/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of what makes vectors of words: embeddings by hashing, windows, maxout. */

/* ---------------------------------------------------------------- embeddings */

#define HASHES 4

static __device__ count_t mix(count_t h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

/* crt_hash_key of ml/hash.c: the rows of the table. */
static __device__ void hash_key(count_t key, const crti_cuda_table_t &t, int *places)
{
    count_t h1 = key * 0x87c37b91114253d5u, h2 = (count_t)t.seed ^ 8;

    h1 = h1 << 31 | h1 >> 33;
    h1 *= 0x4cf5ad432745937fu;
    h1 ^= t.seed;
    h1 ^= 8;
    h1 += h2;
    h2 += h1;
    h1 = mix(h1);
    h2 = mix(h2);
    h1 += h2;
    h2 += h1;
    places[0] = (unsigned)h1 % (unsigned)t.rows;
    places[1] = (unsigned)(h1 >> 32) % (unsigned)t.rows;
    places[2] = (unsigned)h2 % (unsigned)t.rows;
    places[3] = (unsigned)(h2 >> 32) % (unsigned)t.rows;
}

/* A warp for each word. The mask, the same for all words, may be NULL. */
KERNEL embed_forward(number *y, float *mask, const float *table, const count_t *keys, int words,
                     crti_cuda_table_t t, count_t seed, count_t limit, float keep)
{
    EACH_ROW(word, words)
    {
        int at[HASHES];

        hash_key(keys[(count_t)word * t.columns + t.column], t, at);
        for (int j = lane; j < t.width; j += WARP) {
            float left = !mask || random_at(seed, j) >= limit ? keep : 0, sum = 0;

            for (int k = 0; k < HASHES; k++)
                sum += table[(count_t)at[k] * t.width + j];
            y[(count_t)word * t.width + j] = put(sum * left);
            if (mask && word == 0)
                mask[j] = left;
        }
    }
}

KERNEL embed_places(int *places, const count_t *keys, int words, crti_cuda_table_t t)
{
    EACH(word, words)
        hash_key(keys[word * t.columns + t.column], t, places + word * HASHES);
}

/* A block for each row of the table: the sum of what its words give, in their order. All warps
 * look for the row in the places, 32 of them at a time. */
KERNEL embed_gradients(float *dtable, const number *dy, const float *mask, const int *places,
                       int words, crti_cuda_table_t t, float factor)
{
    int row = blockIdx.x, lane = threadIdx.x % WARP, entries = words * HASHES;

    for (int from = 0; from < t.width; from += blockDim.x) {
        int j = from + threadIdx.x;
        float sum = 0;

        for (int e = 0; e < entries; e += WARP) {
            bool is_here = e + lane < entries && places[e + lane] == row;

            for (unsigned found = __ballot_sync(ALL, is_here); found; found &= found - 1) {
                int word = (e + __ffs(found) - 1) / HASHES;

                if (j < t.width)
                    sum += get(dy[(count_t)word * t.width + j]);
            }
        }
        if (j < t.width)
            dtable[(count_t)row * t.width + j] = sum * (mask ? mask[j] : 1) * factor;
    }
}

/* ---------------------------------------------------------------- windows */

/* Rows [first, end) are the sequence of each row. */
KERNEL window_forward(number *y, const number *x, const crti_cuda_range_t *sequences, int rows,
                      int width, int window)
{
    int span = (2 * window + 1) * width;

    EACH(i, (count_t)rows * span) {
        int row = i / span, k = i % span / width, from = row + k - window;
        crti_cuda_range_t own = sequences[row];

        y[i] = from >= own.first && from < own.end ? x[(count_t)from * width + i % span % width]
                                                   : put(0);
    }
}

KERNEL window_backward(number *dx, const number *dy, const crti_cuda_range_t *sequences, int rows,
                       int width, int window)
{
    int span = (2 * window + 1) * width;

    EACH(i, (count_t)rows * width) {
        int row = i / width, j = i % width;
        crti_cuda_range_t own = sequences[row];
        float sum = 0;

        for (int at = max(row - window, own.first); at <= min(row + window, own.end - 1); at++)
            sum += get(dy[(count_t)at * span + (row - at + window) * width + j]);
        dx[i] = put(sum);
    }
}

/* ---------------------------------------------------------------- maxout */

/* The first of the largest pieces, with their biases. */
static __device__ int largest_piece(const number *piece, const float *bias, int pieces,
                                    float *most_out)
{
    int best = 0;

    *most_out = get(piece[0]) + bias[0];
    for (int p = 1; p < pieces; p++) {
        float v = get(piece[p]) + bias[p];

        if (v > *most_out) {
            *most_out = v;
            best = p;
        }
    }
    return best;
}

KERNEL maxout_forward(number *y, const number *piece, const float *bias, count_t count, int outs,
                      int pieces)
{
    EACH(i, count) {
        float most;

        largest_piece(piece + i * pieces, bias + i % outs * pieces, pieces, &most);
        y[i] = put(most);
    }
}

/* The gradients of pieces over them. */
KERNEL maxout_backward(number *piece, const number *dy, const float *bias, count_t count, int outs,
                       int pieces)
{
    EACH(i, count) {
        float most;
        int best = largest_piece(piece + i * pieces, bias + i % outs * pieces, pieces, &most);

        for (int p = 0; p < pieces; p++)
            piece[i * pieces + p] = p == best ? dy[i] : put(0);
    }
}
