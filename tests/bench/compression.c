/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a real gradient with each compression, and how long encoding and decoding take.
 *
 *     compression [STEPS]    of a perceptron of 982,282 floats that learns drawn digits, after so
 *     many steps (20)
 */
#include <crt_compression.h>
#include <crt_ml.h>
#include <stdio.h>
#include <stdlib.h>

#include "timing.h"

#define ROUNDS 21

static void check(crt_status_t status)
{
    if (status == CRT_OK)
        return;
    fprintf(stderr, "compression: %s\n", crt_error_detail());
    exit(1);
}

static void measure(crt_compression_t method, const crt_tensor_t *gradients)
{
    size_t count = crt_tensor_count(gradients), size = 0;
    double encoded[ROUNDS], decoded[ROUNDS];
    float *out = malloc(count * sizeof(float));
    crt_compressor_t *c;
    void *bytes;

    check(crt_compressor_new(method, count, 0, &c));
    bytes = malloc(crt_compressor_bound(c));
    for (int i = 0; i < ROUNDS; i++) {
        double start = now_us();

        size = crt_compressor_encode(c, gradients->data, bytes);
        encoded[i] = now_us() - start;
        start = now_us();
        check(crt_compression_decode(bytes, size, out, count));
        decoded[i] = now_us() - start;
    }
    printf("%-9s %9zu bytes (%6.2f %%)  encode %6.2f ms  decode %6.2f ms\n",
           crt_compression_name(method), size,
           100 * (double)size / (double)(count * sizeof(float)),
           median(encoded, ROUNDS) / 1e3, median(decoded, ROUNDS) / 1e3);
    crt_compressor_drop(&c);
    free(bytes);
    free(out);
}

int main(int argc, char **argv)
{
    const int widths[] = {784, 512, 1024, 54, 10, 0};
    int steps = argc > 1 ? atoi(argv[1]) : 20;
    crt_dataset_t *set;
    crt_batches_t *batches;
    crt_model_t *model;
    crt_optimizer_t *adam;

    check(crt_dataset_new_digits(5000, 1, &set));
    check(crt_batches_new(set, 128, 1, &batches));
    check(crt_mlp_new(widths, 0, 1, &model));
    check(crt_adam_new(model, 0.001, &adam));
    for (int i = 0; i < steps; i++) {
        check(crt_model_compute_gradients(model, NULL, crt_batches_next(batches), NULL,
                                          NULL));
        check(crt_optimizer_apply(adam, model, NULL, 0, NULL));
    }
    check(
        crt_model_compute_gradients(model, NULL, crt_batches_next(batches), NULL, NULL));
    printf("%zu floats\n", crt_model_parameters(model));
    for (int method = 0; crt_compression_name((crt_compression_t)method); method++)
        measure((crt_compression_t)method, crt_model_gradients(model));
    crt_optimizer_drop(&adam);
    crt_model_drop(&model);
    crt_batches_drop(&batches);
    crt_dataset_drop(&set);
    return 0;
}
