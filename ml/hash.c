/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of strings and keys, as spaCy and Thinc compute them. */
#include <crt_ml.h>

#include <string.h>

/* MurmurHash64A (Appleby), little endian. */
uint64_t crt_hash_string(const char *text, size_t size)
{
    const uint64_t m = 0xc6a4a7935bd1e995u;
    uint64_t h = 1 ^ (size * m), k;
    size_t i;

    if (size == 0)
        return 0;
    for (i = 0; i + 8 <= size; i += 8) {
        memcpy(&k, text + i, sizeof(k));
        k *= m;
        k ^= k >> 47;
        k *= m;
        h ^= k;
        h *= m;
    }
    if (i < size) {
        for (k = 0; size > i; size--)
            k = k << 8 | (unsigned char)text[size - 1];
        h ^= k;
        h *= m;
    }
    h ^= h >> 47;
    h *= m;
    return h ^ h >> 47;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

/* Thinc's variant of MurmurHash3 x64 128: not the textbook's tail and length. */
void crt_hash_key(uint64_t key, uint32_t seed, uint32_t rows_out[4])
{
    uint64_t h1 = key * 0x87c37b91114253d5u, h2 = (uint64_t)seed ^ 8;

    h1 = h1 << 31 | h1 >> 33;
    h1 *= 0x4cf5ad432745937fu;
    h1 ^= seed;
    h1 ^= 8;
    h1 += h2;
    h2 += h1;
    h1 = mix(h1);
    h2 = mix(h2);
    h1 += h2;
    h2 += h1;
    rows_out[0] = (uint32_t)h1;
    rows_out[1] = (uint32_t)(h1 >> 32);
    rows_out[2] = (uint32_t)h2;
    rows_out[3] = (uint32_t)(h2 >> 32);
}
