/* SPDX-License-Identifier: Apache-2.0 */
/* A network of one's own, trained on as many devices as the first argument says; the second one is
 * the number of epochs. */
#include <stdio.h>
#include <stdlib.h>

#include <crt_fit.h>

static int driver(int argc, char **argv)
{
    const crt_input_t input = CRT_INPUT(.height = 28, .width = 28, .channels = 1);
    const crt_layer_t layers[] = {CRT_CONVOLUTION(8, 5, 2, 2),
                                  CRT_GELU(),
                                  CRT_FLATTEN(),
                                  CRT_DENSE(64),
                                  CRT_RELU(),
                                  CRT_DENSE(10)};
    const crt_model_spec_t model =
        CRT_MODEL_SPEC(.input = &input, .layers = layers, .layer_count = 6, .seed = 1);
    crt_dataset_t *digits;
    crt_fit_result_t result;

    CRT_CHECK(crt_dataset_new_digits(1500, 3, &digits));
    CRT_CHECK(
        crt_fit(CRT_FIT(.model = &model, .train = digits, .validation_part = 0.2,
                        .devices = argc > 1 ? atoi(argv[1]) : 2, .batch_size = 30,
                        .epochs = argc > 2 ? atoi(argv[2]) : 3, .report = crt_fit_print),
                sizeof(result), &result));
    crt_dataset_drop(&digits);
    printf("%d devices, %llu steps: %.1f %% of the validation data are told right, %.0f "
           "images/s\n",
           result.devices, (unsigned long long)result.steps,
           100 * result.validation_accuracy, result.samples_per_s);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.num_cpus = 4), driver);
}
