/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target on random mutations of its valid inputs, as an ordinary test.
 *
 *     PROGRAM [ROUNDS [SEED]]
 *     PROGRAM --corpus DIRECTORY      writes the valid inputs there, for libFuzzer
 *
 * The same seed gives the same inputs. Each input lies at the end of a block of its exact
 * size, so that AddressSanitizer sees a read behind it.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS_MAX 128
#define ROOM      65536

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (uint32_t)(state >> 32) % below : 0;
}

static const uint32_t edges[] = {0,          1,          2,         0x7f,    0x80,
                                 0xff,       0x7fff,     0xffff,    0x10000, 0x7fffffff,
                                 0x80000000, 0xfffffffe, 0xffffffff};

/* Overwrites 1, 2 or 4 bytes with a number at an edge, in either byte order. */
static void put_edge(uint8_t *data, size_t size)
{
    uint32_t value = edges[draw(sizeof(edges) / sizeof(edges[0]))];
    size_t width = (size_t)1 << draw(3);
    size_t at;

    if (size < width)
        return;
    at = draw((uint32_t)(size - width + 1));
    if (draw(2))
        value = __builtin_bswap32(value) >> (32 - 8 * width);
    memcpy(data + at, &value, width);
}

/* Copies a part over another place; the input may grow. */
static size_t repeat(uint8_t *data, size_t size)
{
    size_t from = draw((uint32_t)size), to = draw((uint32_t)size);
    size_t length = 1 + draw((uint32_t)(size - from));

    if (to + length > ROOM)
        return size;
    memmove(data + to, data + from, length);
    return to + length > size ? to + length : size;
}

static size_t mutate(uint8_t *data, size_t size)
{
    for (uint32_t n = 1 + draw(4); n > 0 && size > 0; n--) {
        switch (draw(6)) {
        case 0: data[draw((uint32_t)size)] ^= (uint8_t)(1u << draw(8)); break;
        case 1: data[draw((uint32_t)size)] = (uint8_t)draw(256); break;
        case 2: put_edge(data, size); break;
        case 3: size = repeat(data, size); break;
        case 4: size = draw((uint32_t)size + 1); break;
        case 5:
            for (uint32_t i = draw(32); i > 0 && size < ROOM; i--)
                data[size++] = (uint8_t)draw(256);
            break;
        }
    }
    return size;
}

static void feed(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);

    if (!exact)
        abort();
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* For a start of libFuzzer, which has a main of its own. */
static int write_corpus(const char *directory)
{
    static uint8_t seed[ROOM];
    char path[4096];
    size_t size;

    for (unsigned i = 0; (size = fuzz_seed(i, seed, ROOM)) > 0; i++) {
        FILE *file;

        snprintf(path, sizeof(path), "%s/seed-%u", directory, i);
        file = fopen(path, "we");
        if (!file || fwrite(seed, 1, size, file) != size || fclose(file) != 0) {
            perror(path);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static uint8_t seeds[SEEDS_MAX][ROOM], input[ROOM];
    size_t sizes[SEEDS_MAX], size;
    uint32_t count = 0;

    if (argc == 3 && strcmp(argv[1], "--corpus") == 0)
        return write_corpus(argv[2]);
    printf("%lu rounds of seed %llu\n", rounds, (unsigned long long)seed);
    fflush(stdout);
    state = seed * 0x9e3779b97f4a7c15u | 1;
    while (count < SEEDS_MAX && (size = fuzz_seed(count, seeds[count], ROOM)) > 0) {
        sizes[count] = size;
        feed(seeds[count], size);
        count++;
    }
    feed(input, 0);
    for (unsigned long i = 0; i < rounds && count > 0; i++) {
        uint32_t pick = draw(count);

        memcpy(input, seeds[pick], sizes[pick]);
        feed(input, mutate(input, sizes[pick]));
    }
    return count > 0 ? 0 : 1;
}
