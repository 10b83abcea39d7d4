/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: xoshiro256++ (Blackman and Vigna), started by splitmix64.
 *
 * One generator per user (model, batches, drawn digit): seeds alone decide every number,
 * on every machine and whatever other threads do.
 */
#ifndef CRTI_ML_RANDOM_H
#define CRTI_ML_RANDOM_H

#include <math.h>
#include <stdint.h>

typedef struct crti_random {
    uint64_t s[4];
} crti_random_t;

static inline uint64_t crti_random_mix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* `stream` keeps the uses of one seed apart. */
static inline crti_random_t crti_random(uint64_t seed, uint64_t stream)
{
    uint64_t state = seed;
    crti_random_t r;

    state = crti_random_mix(&state) ^ stream;
    for (int i = 0; i < 4; i++)
        r.s[i] = crti_random_mix(&state);
    return r;
}

static inline uint64_t crti_random_rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static inline uint64_t crti_random_next(crti_random_t *r)
{
    uint64_t result = crti_random_rotl(r->s[0] + r->s[3], 23) + r->s[0];
    uint64_t t = r->s[1] << 17;

    r->s[2] ^= r->s[0];
    r->s[3] ^= r->s[1];
    r->s[1] ^= r->s[2];
    r->s[0] ^= r->s[3];
    r->s[2] ^= t;
    r->s[3] = crti_random_rotl(r->s[3], 45);
    return result;
}

/* Uniform in [0, 1). */
static inline double crti_random_uniform(crti_random_t *r)
{
    return (double)(crti_random_next(r) >> 11) * 0x1p-53;
}

static inline float crti_random_between(crti_random_t *r, float low, float high)
{
    return low + (high - low) * (float)crti_random_uniform(r);
}

/* Uniform in 0..n-1, n < 2^32 (multiply and shift; the bias is below n / 2^32). */
static inline uint32_t crti_random_below(crti_random_t *r, uint32_t n)
{
    return (uint32_t)(((crti_random_next(r) >> 32) * n) >> 32);
}

/* Normal with mean 0 and deviation 1 (Box and Muller). */
static inline float crti_random_normal(crti_random_t *r)
{
    double u = 1 - crti_random_uniform(r), v = crti_random_uniform(r);

    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* Mean 0, deviation 1, by the sum of four 16-bit numbers: never beyond 3.47 deviations,
 * which is what a drawing wants, and five times as fast as an exact normal. */
static inline float crti_random_bell(crti_random_t *r)
{
    uint64_t x = crti_random_next(r);
    int32_t sum =
        (int32_t)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48)) -
        2 * 65535;

    return (float)sum * (1.7320508f / 65536.0f);
}

#endif
