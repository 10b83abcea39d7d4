/* SPDX-License-Identifier: Apache-2.0 */
/* ParameterServer and DataWorker: what they compute, and what they say to wrong
 * arguments. Runs on tests/actors/inline_runtime.c. */
#include <crt_actors.h>

#include "../ml/ml_test.h"

#define CLASSES 3
#define WIDTH   4
#define SAMPLES 60

static const int widths[] = {WIDTH, 6, CLASSES, 0};

typedef struct fixture {
    crt_ref_t *features, *labels;
    crt_dataset_t *set;
    float x[SAMPLES * WIDTH];
    uint8_t y[SAMPLES];
} fixture_t;

static int setup(void **state)
{
    fixture_t *f = calloc(1, sizeof(*f));
    int64_t shape[2] = {SAMPLES, WIDTH};
    crt_tensor_t x = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, f->x);
    crt_tensor_t y = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, f->y);

    fill_wave(f->x, SAMPLES * WIDTH, 1.9, 1.0);
    for (int i = 0; i < SAMPLES; i++)
        f->y[i] = (uint8_t)(f->x[i * WIDTH] > 0 ? 1 : f->x[i * WIDTH + 1] > 0 ? 2 : 0);
    f->features = crt_put(&x);
    f->labels = crt_put(&y);
    assert_ok(crt_dataset_new(&x, &y, CLASSES, &f->set));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_t *f = *state;

    crt_ref_drop(&f->features);
    crt_ref_drop(&f->labels);
    crt_dataset_drop(&f->set);
    free(f);
    return 0;
}

static crt_actor_t *new_server(double rate)
{
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = widths, .seed = 3);
    crt_optimizer_options_t adam = crt_adam_options(rate);

    return crt_parameter_server_new(NULL, &spec, &adam);
}

static crt_actor_t *new_worker(const fixture_t *f, int shard, int shards)
{
    crt_model_spec_t spec =
        CRT_MODEL_SPEC(.widths = widths, .dropout = 0.2, .seed = (uint64_t)shard + 10);
    crt_data_spec_t data =
        CRT_DATA_SPEC(.features = f->features, .labels = f->labels, .classes = CLASSES,
                      .shard = shard, .shards = shards, .batch_size = 8);

    return crt_data_worker_new(NULL, &spec, &data);
}

static const float *read_floats(crt_ref_t *ref)
{
    const crt_tensor_t *tensor = NULL;

    assert_ok(crt_get(ref, &tensor));
    return tensor->data;
}

static void assert_ref_fails(crt_ref_t *ref, crt_status_t status, const char *part)
{
    assert_fails(crt_get(ref, NULL), status, part);
    crt_ref_drop(&ref);
}

/* Two workers and the server against the same with models of ml/ alone. */
static void a_round_is_the_sum_of_the_workers_gradients_and_one_update(void **state)
{
    fixture_t *f = *state;
    crt_actor_t *server = new_server(0.01), *workers[2];
    crt_model_t *model, *twins[2];
    crt_optimizer_t *adam;
    crt_dataset_t *shards[2];
    crt_batches_t *batches[2];
    crt_ref_t *weights = crt_call(server, crt_parameter_server_get_weights()),
              *gradients[2];
    size_t size;

    assert_ok(crt_mlp_new(widths, 0, 3, &model));
    assert_ok(crt_adam_new(model, 0.01, &adam));
    size = crt_model_parameters(model) * sizeof(float);
    for (int k = 0; k < 2; k++) {
        workers[k] = new_worker(f, k, 2);
        assert_ok(crt_mlp_new(widths, 0.2, (uint64_t)k + 10, &twins[k]));
        assert_ok(crt_dataset_new_shard(f->set, k, 2, &shards[k]));
        assert_ok(crt_batches_new(shards[k], 8, (uint64_t)k + 10, &batches[k]));
    }
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 2; k++) {
            gradients[k] =
                crt_call(workers[k], crt_data_worker_compute_gradients(), weights);
            assert_ok(crt_model_compute_gradients(twins[k], crt_model_weights(model),
                                                  crt_batches_next(batches[k]), NULL,
                                                  NULL));
            assert_memory_equal(read_floats(gradients[k]),
                                crt_model_gradients(twins[k])->data, size);
        }
        crt_ref_drop(&weights);
        weights = crt_call(server, crt_parameter_server_apply_gradients(),
                           crt_arg_each(gradients, 2));
        crt_refs_drop(gradients, 2);
        for (int k = 0; k < 2; k++)
            assert_ok(crt_model_add_gradients(model, crt_model_gradients(twins[k])));
        assert_ok(crt_optimizer_step(adam, model));
        assert_memory_equal(read_floats(weights), crt_model_weights(model)->data, size);
    }
    crt_ref_drop(&weights);
    for (int k = 0; k < 2; k++) {
        crt_actor_drop(&workers[k]);
        crt_batches_drop(&batches[k]);
        crt_dataset_drop(&shards[k]);
        crt_model_drop(&twins[k]);
    }
    crt_actor_drop(&server);
    crt_optimizer_drop(&adam);
    crt_model_drop(&model);
}

/* Uneven shards, one array cut in two: the updates of one server with the same gradients. */
static void shards_together_make_the_update_of_one_server(void **state)
{
    enum { SHARDS = 4, WORKERS = 2 };
    fixture_t *f = *state;
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = widths, .seed = 3);
    crt_optimizer_options_t options = crt_adam_options(0.05);
    crt_actor_t *whole = new_server(0.05), *shards[SHARDS], *workers[WORKERS],
                *twins[WORKERS];
    crt_ref_t *weights = crt_call(whole, crt_parameter_server_get_weights());
    crt_ref_t *slices[SHARDS];
    const crt_tensor_t *first;
    size_t count;

    assert_ok(crt_get(weights, &first));
    count = crt_tensor_count(first);
    assert_int_not_equal(count % SHARDS, 0);
    for (int s = 0; s < SHARDS; s++) {
        shards[s] =
            crt_shard_server_new(NULL, &spec, &options, crt_shard_part(count, s, SHARDS));
        slices[s] = crt_call(shards[s], crt_shard_server_get_weights());
    }
    for (int k = 0; k < WORKERS; k++) {
        workers[k] = new_worker(f, k, WORKERS);
        twins[k] = new_worker(f, k, WORKERS);
    }
    for (int i = 0; i < 20; i++) {
        crt_ref_t *gradients[WORKERS], *lists[WORKERS], *squares[SHARDS];
        const float *expected;

        for (int k = 0; k < WORKERS; k++) {
            gradients[k] =
                crt_call(twins[k], crt_data_worker_compute_gradients(), weights);
            lists[k] = crt_call(workers[k], crt_data_worker_compute_slices(),
                                crt_arg_each(slices, SHARDS));
        }
        for (int s = 0; s < SHARDS; s++) {
            crt_ref_t *parts[WORKERS];

            for (int k = 0; k < WORKERS; k++) {
                const crt_value_t *list;

                assert_ok(crt_get(lists[k], &list));
                assert_int_equal(crt_value_count(list), SHARDS);
                assert_ok(crt_value_read(crt_value_at(list, (size_t)s), &parts[k]));
            }
            squares[s] = crt_call(shards[s], crt_shard_server_measure(),
                                  crt_arg_each(parts, WORKERS));
        }
        for (int s = 0; s < SHARDS; s++) {
            crt_ref_drop(&slices[s]);
            slices[s] = crt_call(shards[s], crt_shard_server_apply(),
                                 crt_arg_each(squares, SHARDS));
        }
        crt_ref_drop(&weights);
        weights = crt_call(whole, crt_parameter_server_apply_gradients(),
                           crt_arg_each(gradients, WORKERS));
        expected = read_floats(weights);
        for (int s = 0; s < SHARDS; s++) {
            crt_part_t part = crt_shard_part(count, s, SHARDS);
            const float *got = read_floats(slices[s]);

            for (size_t at = 0; at < part.count; at++)
                assert_float_equal(got[at], expected[part.first + at], 1e-5);
        }
        crt_refs_drop(squares, SHARDS);
        crt_refs_drop(lists, WORKERS);
        crt_refs_drop(gradients, WORKERS);
    }
    assert_ref_fails(crt_call(shards[0], crt_shard_server_measure(), slices[SHARDS - 1]),
                     CRT_ERR_INVALID, "a gradient of 12 elements; this shard has 13");
    crt_refs_drop(slices, SHARDS);
    crt_ref_drop(&weights);
    for (int s = 0; s < SHARDS; s++)
        crt_actor_drop(&shards[s]);
    for (int k = 0; k < WORKERS; k++) {
        crt_actor_drop(&workers[k]);
        crt_actor_drop(&twins[k]);
    }
    crt_actor_drop(&whole);
}

/* Against ml/ alone; a shard of everything does the same. */
static void servers_take_every_option_of_the_optimizer(void **state)
{
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = widths, .seed = 3);
    crt_optimizer_options_t options[] = {crt_adam_options(0.05),
                                         crt_sgd_options(0.05, 0.7)};

    options[0].grad_clip = 0.2;
    options[0].beta1 = 0.6;
    options[0].beta2 = 0.7;
    options[0].epsilon = 0.3;
    options[0].l2 = options[1].l2 = 0.1;
    options[0].l2_is_weight_decay = true;
    for (int k = 0; k < 2; k++) {
        crt_model_t *model;
        crt_optimizer_t *optimizer;
        crt_actor_t *server = crt_parameter_server_new(NULL, &spec, &options[k]), *shard;

        assert_ok(crt_mlp_new(widths, 0, 3, &model));
        assert_ok(crt_optimizer_new(model, &options[k], &optimizer));
        shard = crt_shard_server_new(NULL, &spec, &options[k],
                                     (crt_part_t){0, crt_model_parameters(model)});
        for (int i = 0; i < 3; i++) {
            const crt_tensor_t *gradient = crt_model_weights(model);
            crt_ref_t *weights =
                crt_call(server, crt_parameter_server_apply_gradients(), gradient);
            crt_ref_t *squares = crt_call(shard, crt_shard_server_measure(), gradient);
            crt_ref_t *slice = crt_call(shard, crt_shard_server_apply(), squares);
            const float *got = read_floats(weights), *part = read_floats(slice);
            const float *expected;

            assert_ok(crt_model_add_gradients(model, gradient));
            assert_ok(crt_optimizer_step(optimizer, model));
            expected = crt_model_weights(model)->data;
            for (size_t at = 0; at < crt_model_parameters(model); at++) {
                assert_float_equal(got[at], expected[at], 1e-6);
                assert_float_equal(part[at], expected[at], 1e-6);
            }
            crt_ref_drop(&weights);
            crt_ref_drop(&squares);
            crt_ref_drop(&slice);
        }
        crt_actor_drop(&server);
        crt_actor_drop(&shard);
        crt_optimizer_drop(&optimizer);
        crt_model_drop(&model);
    }
}

static void training_learns(void **state)
{
    fixture_t *f = *state;
    crt_actor_t *server = new_server(0.01), *worker = new_worker(f, 0, 1);
    crt_ref_t *weights = crt_call(server, crt_parameter_server_get_weights()), *gradient;
    crt_model_t *model;
    const crt_tensor_t *w;
    double accuracy;

    for (int i = 0; i < 400; i++) {
        gradient = crt_call(worker, crt_data_worker_compute_gradients(), weights);
        crt_ref_drop(&weights);
        weights = crt_call(server, crt_parameter_server_apply_gradients(), gradient);
        crt_ref_drop(&gradient);
    }
    assert_ok(crt_get(weights, &w));
    assert_ok(crt_mlp_new(widths, 0, 0, &model));
    assert_ok(crt_model_accuracy(model, w, f->set, &accuracy));
    printf("    accuracy %.3f\n", accuracy);
    assert_true(accuracy >= 0.9);
    crt_model_drop(&model);
    crt_ref_drop(&weights);
    crt_actor_drop(&worker);
    crt_actor_drop(&server);
}

static void weights_that_were_set_are_the_ones_that_come_back(void **state)
{
    crt_actor_t *server = new_server(0.01);
    crt_model_t *model;
    crt_ref_t *done, *weights;

    assert_ok(crt_mlp_new(widths, 0, 77, &model));
    done = crt_call(server, crt_parameter_server_set_weights(), crt_model_weights(model));
    assert_ok(crt_get(done, NULL));
    weights = crt_call(server, crt_parameter_server_get_weights());
    assert_memory_equal(read_floats(weights), crt_model_weights(model)->data,
                        crt_model_parameters(model) * sizeof(float));
    crt_ref_drop(&done);
    crt_ref_drop(&weights);
    crt_actor_drop(&server);
    crt_model_drop(&model);
}

static void bad_gradients_fail_the_call_and_change_nothing(void **state)
{
    crt_actor_t *server = new_server(0.01);
    crt_ref_t *before = crt_call(server, crt_parameter_server_get_weights()), *after;
    const crt_tensor_t *w;
    float g[64] = {0};
    crt_tensor_t few = crt_tensor_floats(g, 7), bad;

    assert_ok(crt_get(before, &w));
    bad = crt_tensor_floats(g, crt_tensor_count(w));
    g[0] = INFINITY;
    assert_ref_fails(crt_call(server, crt_parameter_server_apply_gradients()),
                     CRT_ERR_INVALID, "no gradient");
    assert_ref_fails(crt_call(server, crt_parameter_server_apply_gradients(), &few),
                     CRT_ERR_INVALID, "7 numbers");
    assert_ref_fails(crt_call(server, crt_parameter_server_apply_gradients(), &bad),
                     CRT_ERR_INVALID, "not finite");
    assert_ref_fails(crt_call(server, crt_parameter_server_set_weights(), &few),
                     CRT_ERR_INVALID, "7 numbers");
    after = crt_call(server, crt_parameter_server_get_weights());
    assert_memory_equal(read_floats(before), read_floats(after), crt_tensor_bytes(w));
    crt_ref_drop(&before);
    crt_ref_drop(&after);
    crt_actor_drop(&server);
}

static void worker_refuses_weights_of_another_model(void **state)
{
    crt_actor_t *worker = new_worker(*state, 0, 1);
    float w[9] = {0};
    crt_tensor_t wrong = crt_tensor_floats(w, 9);

    assert_ref_fails(crt_call(worker, crt_data_worker_compute_gradients(), &wrong),
                     CRT_ERR_INVALID, "weights have 9 numbers");
    crt_actor_drop(&worker);
}

static void wrong_specs_are_named_by_the_first_call(void **state)
{
    fixture_t *f = *state;
    static const int negative[] = {4, -2, 3, 0}, narrow[] = {5, 3, 0};
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = negative);
    crt_optimizer_options_t options = crt_adam_options(0.01);
    crt_data_spec_t data = CRT_DATA_SPEC(.features = f->features, .labels = f->labels,
                                         .classes = CLASSES, .batch_size = 8);
    crt_actor_t *actor = crt_parameter_server_new(NULL, &spec, &options);

    assert_fails(crt_actor_ready(actor, -1), CRT_ERR_INVALID,
                 "width 1 of the model is -2");
    crt_actor_drop(&actor);
    spec.widths = widths;
    options.kind = (crt_optimizer_kind_t)9;
    actor = crt_parameter_server_new(NULL, &spec, &options);
    assert_fails(crt_actor_ready(actor, -1), CRT_ERR_INVALID,
                 "(adam, sgd, adamw, radam)");
    crt_actor_drop(&actor);
    data.shard = 5;
    actor = crt_data_worker_new(NULL, &spec, &data);
    assert_fails(crt_actor_ready(actor, -1), CRT_ERR_INVALID, "part 5 of 1");
    crt_actor_drop(&actor);
    data.shard = 0;
    spec.widths = narrow;
    actor = crt_data_worker_new(NULL, &spec, &data);
    assert_fails(crt_actor_ready(actor, -1), CRT_ERR_INVALID,
                 "4 features, the model has 5 inputs");
    crt_actor_drop(&actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_the_sum_of_the_workers_gradients_and_one_update),
        cmocka_unit_test(shards_together_make_the_update_of_one_server),
        cmocka_unit_test(servers_take_every_option_of_the_optimizer),
        cmocka_unit_test(training_learns),
        cmocka_unit_test(weights_that_were_set_are_the_ones_that_come_back),
        cmocka_unit_test(bad_gradients_fail_the_call_and_change_nothing),
        cmocka_unit_test(worker_refuses_weights_of_another_model),
        cmocka_unit_test(wrong_specs_are_named_by_the_first_call),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
