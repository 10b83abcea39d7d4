/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that need chips which crt does not know, by a resource that nodes are told to have:
 *
 *     crt start --head --resources TPU=4
 *     crt job submit -- chip_tasks [TASKS [SIZE]]
 *
 * Each takes all 4 of a node, as a program does that computes on them, and multiplies two random
 * matrices. */
#include <stdio.h>
#include <stdlib.h>

#include <crt_define.h>

/* Uniform from -1 to 1, by the algorithm of Vigna's splitmix64. */
static float draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((double)(x >> 11) * 0x1p-52 - 1);
}

static double multiply(size_t size, const float *a, const float *b, float *row)
{
    double sum = 0;

    for (size_t i = 0; i < size; i++) {
        for (size_t j = 0; j < size; j++)
            row[j] = 0;
        for (size_t k = 0; k < size; k++)
            for (size_t j = 0; j < size; j++)
                row[j] += a[i * size + k] * b[k * size + j];
        for (size_t j = 0; j < size; j++)
            sum += (double)row[j];
    }
    return sum;
}

/* The sum over the product of two matrices that are drawn from `seed`. */
CRT_DEFINE_TASK(product, (int64_t, seed), (int64_t, size))
{
    size_t n = (size_t)size;
    float *room = malloc((2 * n * n + n) * sizeof(float));
    uint64_t state = (uint64_t)seed;
    double sum;

    if (!room)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "matrices of %zu", n);
    for (size_t i = 0; i < 2 * n * n; i++)
        room[i] = draw(&state);
    sum = multiply(n, room, room + n * n, room + 2 * n * n);
    free(room);
    return crt_return(call, sum);
}

static int driver(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 10, size = argc > 2 ? atoi(argv[2]) : 1000;
    crt_ref_t **refs;
    double sum = 0, one;

    if (count < 1 || size < 1 || size > 10000) {
        fprintf(stderr, "usage: chip_tasks [TASKS [SIZE]]\n");
        return 2;
    }
    refs = calloc((size_t)count, sizeof(crt_ref_t *));
    if (!refs)
        return 1;
    for (int i = 0; i < count; i++)
        refs[i] = product_submit(
            CRT_TASK_OPTIONS(.resources = "TPU=4", .if_infeasible = CRT_INFEASIBLE_FAILS),
            i, size);
    for (int i = 0; i < count; i++) {
        CRT_CHECK(crt_get(refs[i], &one));
        sum += one;
    }
    printf("%d products of %d x %d, the sum of all is %.2f\n", count, size, size, sum);
    crt_refs_drop(refs, (size_t)count);
    free(refs);
    return 0;
}

CRT_MAIN(driver)
