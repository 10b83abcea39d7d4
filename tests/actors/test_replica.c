/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets and replicas: sums, equal copies, and deaths at every operation. Each member is a thread
 * of tests/actors/inline_group.c. */
#include <pthread.h>

#include <crt_actors.h>

#include "../ml/ml_test.h"
#include "inline_group.h"

#define SAMPLES 60
#define WIDTH   4
#define CLASSES 3
#define BATCH   8

static const int widths[] = {WIDTH, 9, 7, CLASSES, 0};

typedef struct scene {
    int size, steps,
        start; /* `start`: an index into the batches, so that runs can differ */
    crt_replica_options_t options;
    int replace; /* 1: the dead one is replaced, 0: the others go on */
    uint64_t seed;
    bool norms; /* a network with batch norms */
} scene_t;

typedef struct member {
    const scene_t *scene;
    int rank; /* as it joins */
    pthread_t thread;
    bool died;
    int recoveries, size, operations;
    uint64_t steps, hash;
    float weights[256], statistics[32], loss;
    size_t parameters;
} member_t;

static crt_dataset_t *samples;

static int setup(void **state)
{
    static float x[SAMPLES * WIDTH];
    static uint8_t y[SAMPLES];
    int64_t shape[2] = {SAMPLES, WIDTH};
    crt_tensor_t features = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, x);
    crt_tensor_t labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, y);

    fill_wave(x, SAMPLES * WIDTH, 1.9, 1.0);
    for (int i = 0; i < SAMPLES; i++)
        y[i] = (uint8_t)(x[i * WIDTH] > 0 ? 1 : x[i * WIDTH + 1] > 0 ? 2 : 0);
    assert_ok(crt_dataset_new(&features, &labels, CLASSES, &samples));
    return 0;
}

static int teardown(void **state)
{
    crt_dataset_drop(&samples);
    return 0;
}

/* cmocka's assertions belong to the main thread. */
static void must(crt_status_t status)
{
    if (status != CRT_OK) {
        fprintf(stderr, "%s\n", crt_error_detail());
        abort();
    }
}

/* ---------------------------------------------------------------- members */

/* False when this member died. */
static bool recover(member_t *m, crt_group_t *group, crt_replica_t *replica)
{
    crt_status_t status = CRT_ERR_ACTOR_DIED;

    for (int i = 0; i < 8 && status != CRT_OK; i++) {
        if (inline_group_is_dead(group))
            return false;
        status = crt_replica_recover(replica, m->scene->replace ? m->scene->size : 0);
    }
    m->recoveries++;
    must(status);
    return true;
}

static bool train(member_t *m, crt_group_t *group, crt_replica_t *replica,
                  crt_batches_t *batches)
{
    double loss = 0;
    bool is_done = false;

    while (!is_done) {
        crt_status_t status;

        if (crt_replica_steps(replica) < (uint64_t)m->scene->steps) {
            status = crt_replica_step(replica, crt_batches_next(batches), &loss);
        } else {
            status = crt_replica_compare(replica);
            is_done = status == CRT_OK;
        }
        if (status != CRT_OK && !crt_group_last_error(group) &&
            !inline_group_is_dead(group))
            must(status);
        if (status != CRT_OK && !recover(m, group, replica))
            return false;
    }
    m->loss = (float)loss;
    return true;
}

static void make_model(const scene_t *s, uint64_t seed, crt_model_t **model_out)
{
    const crt_input_t input = CRT_INPUT(.channels = WIDTH);
    const crt_layer_t layers[] = {CRT_DENSE(6),      CRT_BATCH_NORM(), CRT_RELU(),
                                  CRT_DENSE(5),      CRT_BATCH_NORM(), CRT_RELU(),
                                  CRT_DENSE(CLASSES)};

    if (s->norms)
        must(crt_model_new(&input, layers, sizeof(layers) / sizeof(layers[0]), seed,
                           model_out));
    else
        must(crt_mlp_new(widths, 0.2, seed, model_out));
}

static void *run_member(void *argument)
{
    member_t *m = argument;
    const scene_t *s = m->scene;
    uint64_t seed = s->seed + (uint64_t)m->rank;
    crt_group_t *group;
    crt_model_t *model;
    crt_dataset_t *shard;
    crt_batches_t *batches;
    crt_replica_t *replica = NULL;

    make_model(s, seed + 7, &model);
    must(crt_dataset_new_shard(samples, m->rank < 0 ? 0 : m->rank, s->size, &shard));
    must(crt_batches_new(shard, BATCH, seed, &batches));
    must(crt_group_join(s->size, m->rank, NULL, &group));
    if (crt_replica_new(group, model, &s->options, &replica) == CRT_OK)
        m->died = !train(m, group, replica, batches);
    else
        m->died = true;
    if (!m->died) {
        m->steps = crt_replica_steps(replica);
        m->hash = crt_replica_hash(replica);
        m->size = crt_group_size(group);
        m->parameters = crt_model_parameters(model);
        memcpy(m->weights, crt_model_weights(model)->data, m->parameters * sizeof(float));
        memcpy(m->statistics, crt_model_statistics(model)->data,
               crt_tensor_count(crt_model_statistics(model)) * sizeof(float));
    }
    m->operations = inline_group_operations(group);
    crt_replica_drop(&replica);
    crt_group_drop(&group);
    crt_batches_drop(&batches);
    crt_dataset_drop(&shard);
    crt_model_drop(&model);
    return NULL;
}

/* All members to their ends; one more when the scene replaces the dead. */
static void play(const scene_t *scene, member_t members[9])
{
    int count = scene->size + (scene->replace ? 1 : 0);

    for (int i = 0; i < count; i++) {
        members[i] =
            (member_t){.scene = scene, .rank = i < scene->size ? i : CRT_RANK_ANY};
        if (i == scene->size) /* a place is free once somebody has died */
            for (int k = 0; k < scene->size; k++)
                if (members[k].thread && scene->replace == k + 1) {
                    pthread_join(members[k].thread, NULL);
                    members[k].thread = 0;
                }
        assert_int_equal(
            pthread_create(&members[i].thread, NULL, run_member, &members[i]), 0);
    }
    for (int i = 0; i < count; i++)
        if (members[i].thread)
            pthread_join(members[i].thread, NULL);
    inline_group_reset();
}

/* The survivors, of whom there are `living`, ended alike. */
static const member_t *assert_alike(const scene_t *scene, const member_t *members,
                                    int count, int living)
{
    const member_t *one = NULL;

    for (int i = 0; i < count; i++) {
        if (members[i].died)
            continue;
        one = one ? one : &members[i];
        assert_int_equal(members[i].steps, scene->steps);
        assert_true(members[i].hash == one->hash);
        assert_int_equal(members[i].size, living);
        assert_true(isfinite((double)members[i].loss));
    }
    assert_non_null(one);
    return one;
}

static scene_t new_scene(int size)
{
    return (scene_t){
        .size = size,
        .steps = 6,
        .seed = 3,
        .options = {.struct_size = sizeof(crt_replica_options_t), .bucket_bytes = 192}};
}

/* ---------------------------------------------------------------- without deaths */

/* The same with models of ml/ alone: the mean of the gradients, one update. */
static void train_serially(const scene_t *s, float *weights)
{
    crt_model_t *model, *twins[8];
    crt_optimizer_t *adam;
    crt_dataset_t *shards[8];
    crt_batches_t *batches[8];
    size_t n;

    assert_ok(crt_mlp_new(widths, 0.2, s->seed + 7, &model));
    assert_ok(crt_adam_new(model, 0.001, &adam));
    n = crt_model_parameters(model);
    for (int k = 0; k < s->size; k++) {
        assert_ok(crt_mlp_new(widths, 0.2, s->seed + (uint64_t)k + 7, &twins[k]));
        assert_ok(crt_dataset_new_shard(samples, k, s->size, &shards[k]));
        assert_ok(crt_batches_new(shards[k], BATCH, s->seed + (uint64_t)k, &batches[k]));
    }
    for (int i = 0; i < s->steps; i++) {
        float mean[256] = {0};
        crt_tensor_t view = crt_tensor_floats(mean, n);

        for (int k = 0; k < s->size; k++) {
            const float *g;

            assert_ok(crt_model_compute_gradients(twins[k], crt_model_weights(model),
                                                  crt_batches_next(batches[k]), NULL,
                                                  NULL));
            g = crt_model_gradients(twins[k])->data;
            for (size_t j = 0; j < n; j++)
                mean[j] += g[j] / (float)s->size;
        }
        assert_ok(crt_model_add_gradients(model, &view));
        assert_ok(crt_optimizer_step(adam, model));
    }
    memcpy(weights, crt_model_weights(model)->data, n * sizeof(float));
    for (int k = 0; k < s->size; k++) {
        crt_batches_drop(&batches[k]);
        crt_dataset_drop(&shards[k]);
        crt_model_drop(&twins[k]);
    }
    crt_optimizer_drop(&adam);
    crt_model_drop(&model);
}

static void check_against_serial(scene_t scene, double tolerance)
{
    member_t members[9];
    float expected[256];
    const member_t *one;

    train_serially(&scene, expected);
    play(&scene, members);
    one = assert_alike(&scene, members, scene.size, scene.size);
    for (size_t i = 0; i < one->parameters; i++)
        if (!(fabs((double)(one->weights[i] - expected[i])) <= tolerance))
            fail_msg("weight %zu is %g, not %g", i, (double)one->weights[i],
                     (double)expected[i]);
}

static void replicas_make_the_update_of_the_mean_gradient(void **state)
{
    for (int size = 1; size <= 4; size++)
        check_against_serial(new_scene(size), 2e-5);
}

static void a_sharded_optimizer_makes_the_same_updates(void **state)
{
    for (int size = 1; size <= 5; size++) {
        scene_t scene = new_scene(size);

        scene.options.sharded = true;
        check_against_serial(scene, 2e-5);
    }
}

static void sums_at_the_end_give_the_same_bits(void **state)
{
    member_t members[2][9];
    scene_t scene = new_scene(3);

    play(&scene, members[0]);
    scene.options.at_end = true;
    play(&scene, members[1]);
    assert_true(members[0][0].hash == members[1][2].hash);
}

static void batch_norms_are_of_the_batches_of_all(void **state)
{
    member_t members[9];
    scene_t scene = new_scene(3);

    scene.norms = true;
    play(&scene, members);
    assert_alike(&scene, members, 3, 3);
    assert_memory_not_equal(members[0].statistics, members[1].statistics,
                            sizeof(members[0].statistics));
    scene.options.sync_norms = true;
    play(&scene, members);
    assert_alike(&scene, members, 3, 3);
    for (int i = 1; i < 3; i++)
        assert_memory_equal(members[0].statistics, members[i].statistics,
                            sizeof(members[0].statistics));
}

static void bfloat16_gradients_train_nearly_the_same(void **state)
{
    scene_t scene = new_scene(3);

    scene.options.bfloat16 = true;
    check_against_serial(scene, 5e-3);
    scene.options.sharded = true;
    check_against_serial(scene, 5e-3);
}

static void clipping_by_the_whole_norm_is_the_same_sharded_or_not(void **state)
{
    crt_optimizer_options_t sgd = crt_sgd_options(0.5, 0.9);
    member_t members[2][9];
    scene_t scene = new_scene(3);

    scene.options.optimizer = &sgd;
    scene.options.clip = 0.05;
    play(&scene, members[0]);
    scene.options.sharded = true;
    play(&scene, members[1]);
    for (size_t i = 0; i < members[0][0].parameters; i++)
        assert_true(fabsf(members[0][0].weights[i] - members[1][0].weights[i]) < 1e-5f);
}

/* ---------------------------------------------------------------- with deaths */

/* Rank `victim` dies at each of its operations in turn. */
static void die_everywhere(scene_t scene, int victim, bool replace, bool torn)
{
    member_t members[9];
    int joining, training;

    scene.steps = 0;
    play(&scene, members);
    joining = members[victim].operations - 1;
    scene.steps = 3;
    play(&scene, members);
    training = members[victim].operations;
    assert_true(training - joining >= 10);
    /* Torn at the very end the comparison counts, and nobody waits for a newcomer. */
    for (int at = joining; at < training - (torn && replace ? 1 : 0); at++) {
        int count = scene.size + (replace ? 1 : 0);
        bool counts = torn && at == training - 1;

        scene.replace = replace ? victim + 1 : 0;
        inline_group_kill(victim, at, torn);
        play(&scene, members);
        assert_true(members[victim].died);
        assert_alike(&scene, members, count,
                     replace || counts ? scene.size : scene.size - 1);
    }
}

static void survivors_of_a_death_at_any_operation_go_on_alike(void **state)
{
    scene_t scene = new_scene(3);

    die_everywhere(scene, 0, false, false);
    die_everywhere(scene, 2, false, false);
    scene.options.sharded = true;
    die_everywhere(scene, 1, false, false);
}

static void a_replacement_starts_where_the_others_are(void **state)
{
    scene_t scene = new_scene(3);

    die_everywhere(scene, 0, true, false);
    scene.options.sharded = true;
    die_everywhere(scene, 2, true, false);
}

/* The others are a step apart when they meet. */
static void survivors_of_whom_some_saw_the_step_done_agree(void **state)
{
    scene_t scene = new_scene(4);

    die_everywhere(scene, 1, false, true);
    die_everywhere(scene, 0, true, true);
    scene.options.sharded = true;
    die_everywhere(scene, 2, false, true);
    die_everywhere(scene, 3, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_make_the_update_of_the_mean_gradient),
        cmocka_unit_test(a_sharded_optimizer_makes_the_same_updates),
        cmocka_unit_test(sums_at_the_end_give_the_same_bits),
        cmocka_unit_test(batch_norms_are_of_the_batches_of_all),
        cmocka_unit_test(bfloat16_gradients_train_nearly_the_same),
        cmocka_unit_test(clipping_by_the_whole_norm_is_the_same_sharded_or_not),
        cmocka_unit_test(survivors_of_a_death_at_any_operation_go_on_alike),
        cmocka_unit_test(a_replacement_starts_where_the_others_are),
        cmocka_unit_test(survivors_of_whom_some_saw_the_step_done_agree),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
