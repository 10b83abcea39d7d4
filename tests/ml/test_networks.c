/* SPDX-License-Identifier: Apache-2.0 */
/* Networks by name: as many parameters as the originals have, and they learn. */
#include <crt_networks.h>

#include "layer_test.h"

static const struct {
    const char *name;
    int classes;
    size_t parameters;
} counts[] = {
    {"mlp", 10, 118282},
    {"mlp-4096x4", 10, 53600266},
    {"convnet", 10, 1960},
    {"cnn", 10, 3274634},
    {"fcnn", 10, 73306},
    {"lenet", 10, 431080},
    {"vit", 10, 86698},
    {"vit-gelu", 10, 86698},
    {"resnet18", 10, 11173962},
    {"resnet18", 100, 11220132},
    {"resnet34", 10, 21282122},
    {"resnet34", 100, 21328292},
    {"resnet50", 10, 23520842},
    {"resnet50", 100, 23705252},
    {"resnet101", 10, 42512970},
    {"resnet152", 10, 58156618},
    {"resnet20", 10, 269722},
    {"resnet32", 10, 464154},
    {"resnet44", 10, 658586},
    {"resnet56", 10, 853018},
    {"resnet110", 10, 1727962},
    {"resnet32-projection", 10, 466906},
    {"resnet110-projection", 10, 1730714},
    {"vgg11", 10, 9750922},
    {"vgg13", 10, 9935434},
    {"vgg16", 10, 15245130},
    {"vgg19", 10, 20554826},
    {"vgg11-bn", 10, 9756426},
    {"vgg13-bn", 10, 9941322},
    {"vgg16-bn", 10, 15253578},
    {"vgg19-bn", 10, 20565834},
};

static void networks_have_as_many_parameters_as_the_originals(void **state)
{
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        crt_model_t *model;

        assert_ok(
            crt_network_by_name(counts[i].name, NULL, counts[i].classes, 1, &model));
        if (crt_model_parameters(model) != counts[i].parameters)
            fail_msg("%s has %zu parameters, not %zu", counts[i].name,
                     crt_model_parameters(model), counts[i].parameters);
        assert_int_equal(crt_model_outputs(model), counts[i].classes);
        crt_model_drop(&model);
    }
}

static double loss_of_step(crt_model_t *model, crt_optimizer_t *o,
                           const crt_batch_t *batch)
{
    crt_tensor_t gradients = *crt_model_gradients(model);
    double loss;

    assert_ok(crt_model_compute_gradients(model, NULL, batch, &gradients, &loss));
    model->has_gradients = true;
    assert_ok(crt_optimizer_step(o, model));
    return loss;
}

/* A few steps on one batch of waves, which any network can learn by heart. */
static void check_learns(const char *name, crt_input_t input, int steps)
{
    enum { ROWS = 8 };
    size_t size = (size_t)(input.height * input.width * input.channels);
    float *x = malloc(ROWS * size * sizeof(*x));
    uint8_t labels[ROWS] = {0, 1, 2, 3, 0, 1, 2, 3};
    int64_t shape[2] = {ROWS, (int64_t)size};
    crt_batch_t batch =
        CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, x),
                  .labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, labels));
    crt_model_t *model;
    crt_optimizer_t *o;
    double first, last = 0;

    for (size_t i = 0; i < ROWS * size; i++)
        x[i] = (float)sin((0.5 + 0.4 * labels[i / size]) * (double)(i + 1));
    assert_ok(crt_network_by_name(name, &input, 4, 1, &model));
    assert_ok(crt_adam_new(model, 0.002, &o));
    first = loss_of_step(model, o, &batch);
    for (int i = 0; i < steps; i++)
        last = loss_of_step(model, o, &batch);
    printf("    %s: %.3f to %.3f\n", name, first, last);
    assert_true(first > 0.5 && first < 6 && last < 0.6 * first);
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
    free(x);
}

static void networks_of_all_kinds_learn(void **state)
{
    check_learns("mlp", CRT_INPUT(.height = 8, .width = 8, .channels = 1), 25);
    check_learns("lenet", CRT_INPUT(.height = 16, .width = 16, .channels = 1), 25);
    check_learns("convnet", CRT_INPUT(.height = 28, .width = 28, .channels = 1), 25);
    check_learns("cnn", CRT_INPUT(.height = 8, .width = 8, .channels = 1), 25);
    check_learns("fcnn", CRT_INPUT(.height = 12, .width = 12, .channels = 1), 25);
    check_learns("vit", CRT_INPUT(.height = 12, .width = 8, .channels = 1), 25);
    check_learns("vit-gelu", CRT_INPUT(.height = 8, .width = 8, .channels = 3), 25);
    check_learns("resnet20", CRT_INPUT(.height = 8, .width = 8, .channels = 3), 6);
    check_learns("resnet20-projection", CRT_INPUT(.height = 8, .width = 8, .channels = 3),
                 6);
    check_learns("resnet18", CRT_INPUT(.height = 8, .width = 8, .channels = 3), 6);
}

static void names_that_are_none_are_refused(void **state)
{
    const crt_input_t small = CRT_INPUT(.height = 8, .width = 8, .channels = 3);
    crt_model_t *model = NULL;
    const char *name;
    size_t count = 0;

    while (crt_network_name(count))
        count++;
    assert_int_equal(count, 31);
    assert_ok(crt_network_parse("ResNet-18", &name));
    assert_string_equal(name, "resnet18");
    assert_ok(crt_network_parse("VGG11_BN", &name));
    assert_string_equal(name, "vgg11-bn");
    assert_fails(crt_network_by_name("resnet19", NULL, 10, 0, &model), CRT_ERR_NOT_FOUND,
                 "no network is called 'resnet19'; the nearest name is 'resnet1");
    assert_fails(crt_network_by_name("lenet", NULL, 1, 0, &model), CRT_ERR_INVALID,
                 "1 classes");
    assert_fails(crt_network_by_name("vgg11", &small, 10, 0, &model), CRT_ERR_INVALID,
                 "windows of 2");
    assert_null(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_as_many_parameters_as_the_originals),
        cmocka_unit_test(networks_of_all_kinds_learn),
        cmocka_unit_test(names_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
