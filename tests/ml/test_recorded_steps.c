/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers and schedules give the numbers that PyTorch and Thinc give (tests/ml/record_torch.py
 * and record_thinc.py). */
#include "ml_test.h"
#include "recorded_thinc.h"
#include "recorded_torch.h"

#define PARAMETERS 23

/* An array of 20 numbers and one of 3. */
static crt_model_t *new_model(void)
{
    const crt_layer_t layers[] = {CRT_PARAMETERS(4, 5), CRT_PARAMETERS(1, 3)};
    const crt_input_t input = CRT_INPUT(.channels = 1);
    float w[PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(w, PARAMETERS);
    crt_model_t *model;

    assert_ok(crt_model_new(&input, layers, 2, 0, &model));
    fill_wave(w, PARAMETERS, 0.7, 0.5);
    fill_wave(w + 20, 3, 0.2, 0.5);
    assert_ok(crt_model_set_weights(model, &view));
    return model;
}

static void step(crt_optimizer_t *o, crt_model_t *model, int count, double size)
{
    float g[PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(g, PARAMETERS);

    for (int t = 1; t <= count; t++) {
        fill_wave(g, PARAMETERS, 0.3 + 0.1 * t, size);
        assert_ok(crt_model_add_gradients(model, &view));
        assert_ok(crt_optimizer_step(o, model));
    }
}

/* Eight steps from the weights of record_torch.py. */
static void check_steps(const crt_optimizer_options_t *options, const double *expected)
{
    crt_model_t *model = new_model();
    crt_optimizer_t *o;
    float w[PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(w, PARAMETERS);

    fill_wave(w, PARAMETERS, 0.7, 0.5);
    assert_ok(crt_model_set_weights(model, &view));
    assert_ok(crt_optimizer_new(model, options, &o));
    step(o, model, 8, 0.4);
    assert_close("weights", crt_model_weights(model)->data, expected, PARAMETERS, 1e-6);
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
}

static void sgd_is_that_of_pytorch(void **state)
{
    crt_optimizer_options_t o = crt_sgd_options(0.05, 0.9);

    o.l2 = 0.1;
    o.l2_is_weight_decay = false;
    check_steps(&o, torch_sgd);
    o.l2 = 0;
    o.nesterov = true;
    check_steps(&o, torch_nesterov);
}

static void the_clip_of_the_whole_gradient_is_that_of_pytorch(void **state)
{
    crt_optimizer_options_t o = crt_sgd_options(0.05, 0.9);

    o.global_clip = 0.5;
    check_steps(&o, torch_clipped);
}

static void adamw_and_adam_are_those_of_pytorch(void **state)
{
    crt_optimizer_options_t o = crt_adamw_options(0.01);

    o.l2 = 0.1;
    o.epsilon = 1e-2; /* large enough to be seen */
    check_steps(&o, torch_adamw);
    o.l2 = 0;
    check_steps(&o, torch_adam);
}

static void radam_with_averages_is_that_of_thinc(void **state)
{
    crt_model_t *model = new_model();
    crt_optimizer_options_t options = crt_radam_options(0.01);
    crt_optimizer_t *o;

    options.l2 = 0.01;
    options.beta2 = 0.9;
    assert_ok(crt_optimizer_new(model, &options, &o));
    assert_null(crt_optimizer_averages(o));
    step(o, model, 12, 0.4);
    assert_close("weights", crt_model_weights(model)->data, thinc_radam_weights,
                 PARAMETERS, 1e-6);
    assert_close("averages", crt_optimizer_averages(o)->data, thinc_radam_averages,
                 PARAMETERS, 1e-6);
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
}

static void averages_and_slow_weights_go_on_in_another_optimizer(void **state)
{
    crt_model_t *models[2] = {new_model(), new_model()};
    crt_optimizer_options_t options = crt_radam_options(0.01);
    crt_optimizer_t *o[2];

    options.lookahead_steps = 3;
    options.lookahead_rate = 0.5;
    for (int k = 0; k < 2; k++)
        assert_ok(crt_optimizer_new(models[k], &options, &o[k]));
    step(o[0], models[0], 4, 0.4);
    assert_int_equal(crt_optimizer_states(o[0]), 4);
    for (int i = 0; i < 4; i++)
        memcpy(crt_optimizer_state(o[1], i)->data, crt_optimizer_state(o[0], i)->data,
               PARAMETERS * sizeof(float));
    crt_optimizer_set_steps(o[1], 4);
    assert_ok(crt_model_set_weights(models[1], crt_model_weights(models[0])));
    for (int k = 0; k < 2; k++)
        step(o[k], models[k], 2, 0.4);
    assert_memory_equal(crt_model_weights(models[0])->data,
                        crt_model_weights(models[1])->data, PARAMETERS * sizeof(float));
    assert_memory_equal(crt_optimizer_averages(o[0])->data,
                        crt_optimizer_averages(o[1])->data, PARAMETERS * sizeof(float));
    for (int k = 0; k < 2; k++) {
        crt_optimizer_drop(&o[k]);
        crt_model_drop(&models[k]);
    }
}

static void look_ahead_goes_back_part_of_the_way(void **state)
{
    crt_model_t *model = new_model(), *plain = new_model(), *first = new_model();
    crt_optimizer_options_t options = crt_sgd_options(0.1, 0);
    crt_optimizer_t *o, *sgd;
    const float *w = crt_model_weights(model)->data, *p = crt_model_weights(plain)->data;
    const float *begin = crt_model_weights(first)->data;

    assert_ok(crt_optimizer_new(plain, &options, &sgd));
    options.lookahead_steps = 3;
    options.lookahead_rate = 0.25;
    assert_ok(crt_optimizer_new(model, &options, &o));
    step(o, model, 2, 0.4);
    step(sgd, plain, 2, 0.4);
    assert_memory_equal(w, p, PARAMETERS * sizeof(float));
    step(o, model, 1, 0.4);
    step(sgd, plain, 1, 0.4);
    for (int i = 0; i < PARAMETERS; i++)
        assert_true(fabsf(w[i] - (begin[i] + 0.25f * (p[i] - begin[i]))) < 1e-6f);
    crt_optimizer_drop(&o);
    crt_optimizer_drop(&sgd);
    crt_model_drop(&model);
    crt_model_drop(&plain);
    crt_model_drop(&first);
}

static void an_exploding_gradient_names_step_and_layer(void **state)
{
    crt_model_t *model = new_model(), *before = new_model();
    crt_optimizer_options_t options = crt_sgd_options(0.1, 0.9);
    crt_optimizer_t *o;
    float g[PARAMETERS] = {0};
    crt_tensor_t view = crt_tensor_floats(g, PARAMETERS);

    options.norm_limit = 100;
    assert_ok(crt_optimizer_new(model, &options, &o));
    g[21] = 101;
    assert_ok(crt_model_add_gradients(model, &view));
    assert_fails(crt_optimizer_step(o, model), CRT_ERR_INVALID,
                 "step 1: the gradient of layer 1 (parameters), array 1 (1 x 3) has "
                 "exploded (norm 101)");
    g[21] = 0;
    g[3] = NAN;
    assert_ok(crt_model_add_gradients(model, &view));
    assert_fails(
        crt_optimizer_step(o, model), CRT_ERR_INVALID,
        "step 1: the gradient of layer 0 (parameters), array 0 (4 x 5) is not finite");
    assert_memory_equal(crt_model_weights(model)->data, crt_model_weights(before)->data,
                        sizeof(g));
    step(o, model, 1, 0.4);
    assert_int_equal(crt_optimizer_steps(o), 1);
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
    crt_model_drop(&before);
}

static void the_learn_rate_may_change_and_must_be_a_number(void **state)
{
    crt_model_t *model = new_model(), *before = new_model();
    crt_optimizer_t *o;

    assert_ok(crt_sgd_new(model, 0.1, 0, &o));
    assert_fails(crt_optimizer_set_learn_rate(o, NAN), CRT_ERR_INVALID, "learn rate");
    assert_fails(crt_optimizer_set_learn_rate(o, -1), CRT_ERR_INVALID, "learn rate -1");
    assert_ok(crt_optimizer_set_learn_rate(o, 0));
    step(o, model, 1, 0.4);
    assert_memory_equal(crt_model_weights(model)->data, crt_model_weights(before)->data,
                        PARAMETERS * sizeof(float));
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
    crt_model_drop(&before);
}

static void options_of_look_ahead_and_limits_are_checked(void **state)
{
    crt_model_t *model = new_model();
    crt_optimizer_options_t options = crt_radam_options(0.01);
    crt_optimizer_t *o = NULL;

    options.lookahead_steps = 5;
    assert_fails(crt_optimizer_new(model, &options, &o), CRT_ERR_INVALID, "rate 0");
    options.lookahead_steps = -1;
    assert_fails(crt_optimizer_new(model, &options, &o), CRT_ERR_INVALID, "-1 steps");
    options.lookahead_steps = 0;
    options.norm_limit = NAN;
    assert_fails(crt_optimizer_new(model, &options, &o), CRT_ERR_INVALID, "limit");
    assert_null(o);
    crt_model_drop(&model);
}

static double at(const crt_schedule_t *schedule, uint64_t step)
{
    double value = NAN;

    assert_ok(crt_schedule_at(schedule, step, &value));
    return value;
}

static void check_schedule(crt_schedule_t schedule, const double *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(at(&schedule, i) - expected[i]) < 1e-8);
}

static void schedules_are_those_of_thinc_and_pytorch(void **state)
{
    crt_schedule_t constant = crt_schedule_constant(0.5);

    assert_true(at(&constant, 0) == 0.5);
    assert_true(at(&constant, UINT64_MAX) == 0.5);
    check_schedule(crt_schedule_compounding(1, 10, 1.5), thinc_compounding, 12);
    check_schedule(crt_schedule_warmup_linear(0.1, 4, 10), thinc_warmup_linear, 12);
    check_schedule(crt_schedule_cosine(0.2, 0.05, 9), torch_cosine, 10);
    check_schedule(crt_schedule_step(0.2, 0.5, 3), torch_step, 10);
}

static void schedules_end_where_they_say(void **state)
{
    crt_schedule_t falling = crt_schedule_compounding(8, 1, 0.5);
    crt_schedule_t cosine = crt_schedule_cosine(0.2, 0.05, 9);
    crt_schedule_t warmup = crt_schedule_warmup_linear(1, 5, 5);
    crt_schedule_t step = crt_schedule_step(4, 0.5, 0);

    assert_true(at(&falling, 2) == 2 && at(&falling, 99) == 1);
    assert_true(at(&cosine, 1000) == 0.05);
    assert_true(at(&warmup, 5) == 0);
    assert_true(at(&step, 1) == 2);
}

static void schedules_of_another_version_are_refused(void **state)
{
    struct {
        crt_schedule_t schedule;
        uint64_t newer;
    } newer = {.schedule = crt_schedule_constant(0.5)};
    crt_schedule_t unmade = {.kind = CRT_SCHEDULE_KIND_CONSTANT};
    double value;

    assert_fails(crt_schedule_at(&unmade, 0, &value), CRT_ERR_INVALID, "its size is 0");
    newer.schedule.struct_size = sizeof(newer);
    assert_true(at(&newer.schedule, 0) == 0.5);
    newer.newer = 1;
    assert_fails(crt_schedule_at(&newer.schedule, 0, &value), CRT_ERR_UNSUPPORTED,
                 "a member at byte");
    unmade = crt_schedule_constant(0.5);
    unmade.kind = (crt_schedule_kind_t)99;
    assert_fails(crt_schedule_at(&unmade, 0, &value), CRT_ERR_UNSUPPORTED,
                 "no schedule has the number 99");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_that_of_pytorch),
        cmocka_unit_test(the_clip_of_the_whole_gradient_is_that_of_pytorch),
        cmocka_unit_test(adamw_and_adam_are_those_of_pytorch),
        cmocka_unit_test(radam_with_averages_is_that_of_thinc),
        cmocka_unit_test(averages_and_slow_weights_go_on_in_another_optimizer),
        cmocka_unit_test(look_ahead_goes_back_part_of_the_way),
        cmocka_unit_test(an_exploding_gradient_names_step_and_layer),
        cmocka_unit_test(the_learn_rate_may_change_and_must_be_a_number),
        cmocka_unit_test(options_of_look_ahead_and_limits_are_checked),
        cmocka_unit_test(schedules_are_those_of_thinc_and_pytorch),
        cmocka_unit_test(schedules_end_where_they_say),
        cmocka_unit_test(schedules_of_another_version_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
