/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: recorded numbers, the clip, fused sum and update, bad gradients. */
#include "ml/optimizer.h"

#include "ml_test.h"
#include "recorded.h"

static crt_model_t *new_model(void)
{
    crt_model_t *model;
    float w[RECORDED_PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(w, RECORDED_PARAMETERS);

    assert_ok(crt_mlp_new(recorded_widths, 0, 0, &model));
    fill_wave(w, RECORDED_PARAMETERS, 0.7, 0.5);
    assert_ok(crt_model_set_weights(model, &view));
    return model;
}

/* Five steps with the gradients of tests/ml/record.py. */
static void check_steps(const crt_optimizer_options_t *options, double size,
                        const double *expected)
{
    crt_model_t *model = new_model();
    crt_optimizer_t *optimizer;
    float g[RECORDED_PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(g, RECORDED_PARAMETERS);

    assert_ok(crt_optimizer_new(model, options, &optimizer));
    for (int t = 1; t <= 5; t++) {
        fill_wave(g, RECORDED_PARAMETERS, 0.3 + 0.1 * t, size);
        assert_ok(crt_model_add_gradients(model, &view));
        assert_ok(crt_optimizer_step(optimizer, model));
    }
    assert_int_equal(crt_optimizer_steps(optimizer), 5);
    assert_close("weights", crt_model_weights(model)->data, expected, RECORDED_PARAMETERS,
                 1e-6);
    crt_optimizer_drop(&optimizer);
    crt_model_drop(&model);
}

static void adam_gives_the_recorded_weights(void **state)
{
    crt_optimizer_options_t options = crt_adam_options(0.01);

    check_steps(&options, 0.05, recorded_adam_small);
}

static void adam_clips_each_array_by_its_own_norm(void **state)
{
    crt_optimizer_options_t options = crt_adam_options(0.01);

    check_steps(&options, 3.0, recorded_adam_clipped);
}

static void adam_with_weight_decay_gives_the_recorded_weights(void **state)
{
    crt_optimizer_options_t options = crt_adam_options(0.01);

    options.l2 = 0.01;
    check_steps(&options, 0.4, recorded_adam_decay);
}

static void adam_with_l2_in_the_gradient_gives_the_recorded_weights(void **state)
{
    crt_optimizer_options_t options = crt_adam_options(0.01);

    options.l2 = 0.01;
    options.l2_is_weight_decay = false;
    check_steps(&options, 0.4, recorded_adam_l2);
}

static void sgd_with_momentum_gives_the_recorded_weights(void **state)
{
    crt_optimizer_options_t options = crt_sgd_options(0.05, 0.9);

    check_steps(&options, 0.3, recorded_sgd);
}

static void fused_sum_and_update_is_adding_and_stepping(void **state)
{
    crt_model_t *one = new_model(), *two = new_model();
    crt_optimizer_t *adam_one, *adam_two;
    float g[3][RECORDED_PARAMETERS], copy[RECORDED_PARAMETERS];
    crt_tensor_t views[3], out = crt_tensor_floats(copy, RECORDED_PARAMETERS);
    const crt_tensor_t *all[3];
    const float *sum = crt_model_gradients(two)->data;

    assert_ok(crt_adam_new(one, 0.01, &adam_one));
    assert_ok(crt_adam_new(two, 0.01, &adam_two));
    for (int k = 0; k < 3; k++) {
        fill_wave(g[k], RECORDED_PARAMETERS, 0.3 + 0.2 * k, 0.1);
        views[k] = crt_tensor_floats(g[k], RECORDED_PARAMETERS);
        all[k] = &views[k];
    }
    for (int t = 0; t < 4; t++) {
        for (int k = 0; k < 3; k++)
            assert_ok(crt_model_add_gradients(one, all[k]));
        assert_ok(crt_optimizer_step(adam_one, one));
        assert_ok(crt_optimizer_apply(adam_two, two, all, 3, &out));
        assert_memory_equal(copy, crt_model_weights(two)->data, sizeof(copy));
    }
    assert_memory_equal(copy, crt_model_weights(one)->data, sizeof(copy));
    for (int i = 0; i < RECORDED_PARAMETERS; i++)
        assert_true(sum[i] == 0);
    crt_optimizer_drop(&adam_one);
    crt_optimizer_drop(&adam_two);
    crt_model_drop(&one);
    crt_model_drop(&two);
}

static void gradient_that_is_not_finite_changes_nothing_and_is_forgotten(void **state)
{
    crt_model_t *model = new_model();
    crt_optimizer_t *adam;
    float g[RECORDED_PARAMETERS] = {0}, before[RECORDED_PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(g, RECORDED_PARAMETERS);
    const crt_tensor_t *one = &view;

    assert_ok(crt_adam_new(model, 0.01, &adam));
    memcpy(before, crt_model_weights(model)->data, sizeof(before));
    g[30] = NAN;
    assert_fails(crt_optimizer_apply(adam, model, &one, 1, NULL), CRT_ERR_INVALID,
                 "array 2 (3 x 4) is not finite");
    assert_memory_equal(before, crt_model_weights(model)->data, sizeof(before));
    assert_int_equal(crt_optimizer_steps(adam), 0);
    g[30] = 1e30f; /* finite, although its square is not */
    assert_ok(crt_optimizer_apply(adam, model, &one, 1, NULL));
    for (int i = 0; i < RECORDED_PARAMETERS; i++)
        assert_true(isfinite(((const float *)crt_model_weights(model)->data)[i]));
    crt_optimizer_drop(&adam);
    crt_model_drop(&model);
}

static void step_without_a_gradient_is_refused(void **state)
{
    crt_model_t *model = new_model(), *other = new_model();
    crt_optimizer_t *sgd;
    float g[RECORDED_PARAMETERS] = {0};
    crt_tensor_t view = crt_tensor_floats(g, RECORDED_PARAMETERS);

    assert_ok(crt_sgd_new(model, 0.1, 0, &sgd));
    assert_fails(crt_optimizer_step(sgd, model), CRT_ERR_INVALID, "no gradient");
    assert_ok(crt_model_add_gradients(model, &view));
    assert_ok(crt_optimizer_step(sgd, model));
    assert_fails(crt_optimizer_step(sgd, model), CRT_ERR_INVALID, "no gradient");
    assert_fails(crt_optimizer_step(sgd, other), CRT_ERR_INVALID, "another model");
    crt_optimizer_drop(&sgd);
    crt_model_drop(&other);
    crt_model_drop(&model);
}

static void options_out_of_range_are_refused(void **state)
{
    crt_model_t *model = new_model();
    crt_optimizer_t *optimizer = NULL;
    crt_optimizer_options_t options = crt_adam_options(-1);

    assert_fails(crt_optimizer_new(model, &options, &optimizer), CRT_ERR_INVALID,
                 "rate -1");
    assert_fails(crt_adam_new(model, NAN, &optimizer), CRT_ERR_INVALID, "rate");
    assert_fails(crt_sgd_new(model, 0.1, 1, &optimizer), CRT_ERR_INVALID, "momentum 1");
    options = crt_adam_options(0.1);
    options.beta2 = 1;
    assert_fails(crt_optimizer_new(model, &options, &optimizer), CRT_ERR_INVALID,
                 "betas");
    options.struct_size = 7;
    assert_fails(crt_optimizer_new(model, &options, &optimizer), CRT_ERR_INVALID,
                 "its size is 7");
    assert_null(optimizer);
    crt_model_drop(&model);
}

/* One step of a twin by parts, as two processes would make it. */
static void step_in_parts(crt_optimizer_t *o, crt_model_t *model, crt_tensor_t *gradients,
                          double clip)
{
    size_t n = crt_model_parameters(model);
    crt_part_t parts[2][2] = {{{0, 3}, {n - 5, 5}}, {{3, n - 8}, {0, 0}}};
    double squares[16], sum[16] = {0};

    assert_true(crt_model_arrays(model) <= 16);
    for (int k = 0; k < 2; k++) {
        assert_ok(crt_optimizer_measure(o, model, gradients, parts[k], 2, squares));
        for (size_t i = 0; i < crt_model_arrays(model); i++)
            sum[i] += squares[i];
    }
    for (int k = 0; k < 2; k++) {
        assert_ok(crt_optimizer_update(o, model, gradients, parts[k], 2, sum, clip));
        if (k == 0) /* the same step, in the other process */
            crt_optimizer_set_steps(o, crt_optimizer_steps(o) - 1);
    }
}

static void check_parts(crt_optimizer_options_t options, double size)
{
    crt_model_t *whole = new_model(), *parted = new_model();
    crt_optimizer_t *a, *b;
    float g[RECORDED_PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(g, RECORDED_PARAMETERS);

    assert_ok(crt_optimizer_new(whole, &options, &a));
    assert_ok(crt_optimizer_new(parted, &options, &b));
    for (int t = 1; t <= 5; t++) {
        const float *x = crt_model_weights(whole)->data;
        const float *y = crt_model_weights(parted)->data;

        fill_wave(g, RECORDED_PARAMETERS, 0.3 + 0.1 * t, size);
        assert_ok(crt_model_add_gradients(whole, &view));
        assert_ok(crt_optimizer_step(a, whole));
        step_in_parts(b, parted, &view, 0);
        for (size_t i = 0; i < RECORDED_PARAMETERS; i++)
            assert_true(fabsf(x[i] - y[i]) < 1e-6f);
    }
    assert_int_equal(crt_optimizer_steps(b), 5);
    crt_optimizer_drop(&a);
    crt_optimizer_drop(&b);
    crt_model_drop(&whole);
    crt_model_drop(&parted);
}

static void a_step_in_parts_is_the_step_as_a_whole(void **state)
{
    crt_optimizer_options_t options = crt_adam_options(0.01);

    check_parts(options, 0.05);
    check_parts(options, 3.0); /* clipped by the norms of whole arrays */
    options.l2 = 0.01;
    check_parts(options, 0.05);
    options.l2_is_weight_decay = false;
    check_parts(options, 0.05);
    check_parts(crt_sgd_options(0.1, 0.9), 0.05);
}

static void the_whole_gradient_is_clipped_to_one_norm(void **state)
{
    crt_optimizer_options_t options = crt_sgd_options(1.0, 0);
    crt_model_t *model = new_model(), *before = new_model();
    crt_optimizer_t *o;
    float g[RECORDED_PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(g, RECORDED_PARAMETERS);
    const float *x = crt_model_weights(before)->data, *y = crt_model_weights(model)->data;
    double moved = 0;

    fill_wave(g, RECORDED_PARAMETERS, 0.4, 5.0);
    assert_ok(crt_optimizer_new(model, &options, &o));
    step_in_parts(o, model, &view, 0.5);
    for (size_t i = 0; i < RECORDED_PARAMETERS; i++)
        moved += (double)(x[i] - y[i]) * (double)(x[i] - y[i]);
    assert_true(fabs(sqrt(moved) - 0.5) < 1e-5);
    crt_optimizer_drop(&o);
    crt_model_drop(&before);
    crt_model_drop(&model);
}

static void parts_beyond_the_model_and_bad_squares_are_refused(void **state)
{
    crt_model_t *model = new_model(), *before = new_model();
    crt_optimizer_t *o;
    float g[RECORDED_PARAMETERS] = {0};
    crt_tensor_t view = crt_tensor_floats(g, RECORDED_PARAMETERS);
    crt_part_t beyond = {RECORDED_PARAMETERS - 1, 2}, all = {0, RECORDED_PARAMETERS};
    double squares[16] = {0};

    assert_ok(crt_adam_new(model, 0.01, &o));
    assert_fails(crt_optimizer_measure(o, model, &view, &beyond, 1, squares),
                 CRT_ERR_INVALID, "beyond");
    squares[1] = NAN;
    assert_fails(crt_optimizer_update(o, model, &view, &all, 1, squares, 0),
                 CRT_ERR_INVALID, "array 1");
    assert_int_equal(crt_optimizer_steps(o), 0);
    assert_memory_equal(crt_model_weights(model)->data, crt_model_weights(before)->data,
                        sizeof(g));
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
    crt_model_drop(&before);
}

static void an_optimizer_goes_on_from_the_state_of_another(void **state)
{
    crt_model_t *models[2] = {new_model(), new_model()};
    crt_optimizer_t *o[2];
    float g[RECORDED_PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(g, RECORDED_PARAMETERS);

    fill_wave(g, RECORDED_PARAMETERS, 0.4, 0.05);
    for (int k = 0; k < 2; k++)
        assert_ok(crt_adam_new(models[k], 0.01, &o[k]));
    assert_ok(crt_model_add_gradients(models[0], &view));
    assert_ok(crt_optimizer_step(o[0], models[0]));
    assert_int_equal(crt_optimizer_states(o[0]), 2);
    for (int i = 0; i < 2; i++)
        memcpy(crt_optimizer_state(o[1], i)->data, crt_optimizer_state(o[0], i)->data,
               sizeof(g));
    crt_optimizer_set_steps(o[1], crt_optimizer_steps(o[0]));
    assert_ok(crt_model_set_weights(models[1], crt_model_weights(models[0])));
    for (int k = 0; k < 2; k++) {
        assert_ok(crt_model_add_gradients(models[k], &view));
        assert_ok(crt_optimizer_step(o[k], models[k]));
    }
    assert_memory_equal(crt_model_weights(models[0])->data,
                        crt_model_weights(models[1])->data, sizeof(g));
    for (int k = 0; k < 2; k++) {
        crt_optimizer_drop(&o[k]);
        crt_model_drop(&models[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_gives_the_recorded_weights),
        cmocka_unit_test(adam_clips_each_array_by_its_own_norm),
        cmocka_unit_test(adam_with_weight_decay_gives_the_recorded_weights),
        cmocka_unit_test(adam_with_l2_in_the_gradient_gives_the_recorded_weights),
        cmocka_unit_test(sgd_with_momentum_gives_the_recorded_weights),
        cmocka_unit_test(fused_sum_and_update_is_adding_and_stepping),
        cmocka_unit_test(gradient_that_is_not_finite_changes_nothing_and_is_forgotten),
        cmocka_unit_test(step_without_a_gradient_is_refused),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(a_step_in_parts_is_the_step_as_a_whole),
        cmocka_unit_test(the_whole_gradient_is_clipped_to_one_norm),
        cmocka_unit_test(parts_beyond_the_model_and_bad_squares_are_refused),
        cmocka_unit_test(an_optimizer_goes_on_from_the_state_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
