/* SPDX-License-Identifier: Apache-2.0 */
/* crt_fit on a private cluster: each strategy, deaths, groups that grow, checkpoints, wrong input.
 *
 * Usage: test_fit [--kills N]: with it only the killed member, N times.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <crt_fit.h>

#include "../ml/ml_test.h"

#define CPUS    4
#define SAMPLES 480
#define BATCH   16
#define CLASSES 10
#define INPUTS  784
#define LAYERS  3

static const crt_layer_t layers[LAYERS] = {
    {.struct_size = sizeof(crt_layer_t), .kind = CRT_LAYER_DENSE, .width = 24},
    {.struct_size = sizeof(crt_layer_t), .kind = CRT_LAYER_RELU},
    {.struct_size = sizeof(crt_layer_t), .kind = CRT_LAYER_DENSE, .width = CLASSES}};
static crt_input_t input;
static crt_model_spec_t spec;
static crt_dataset_t *digits, *few, *other;
static crt_optimizer_options_t sgd;

static int setup(void **state)
{
    input = CRT_INPUT(.channels = INPUTS);
    spec = CRT_MODEL_SPEC(.input = &input, .layers = layers, .layer_count = LAYERS,
                          .seed = 5);
    sgd = crt_sgd_options(0.1, 0.9);
    assert_ok(crt_dataset_new_digits(SAMPLES, 5, &digits));
    assert_ok(crt_dataset_new_digits(100, 6, &few));
    assert_ok(crt_images_open(crt_image_format("cifar10"), "builtin", CRT_SPLIT_TRAIN, 20,
                              &other));
    return 0;
}

static int teardown(void **state)
{
    crt_dataset_drop(&digits);
    crt_dataset_drop(&few);
    crt_dataset_drop(&other);
    return 0;
}

/* What the next training does to its members, and what it told. */
static struct scene {
    uint64_t kill_at; /* a step behind which one is killed; 0: none */
    int kills;        /* how many of them */
    unsigned
        delay_us; /* how long behind that step: in the middle of a later one; 0: at once */
    pid_t victim;
    pthread_t killer;
    bool is_killing;
    int validations, events, devices_most;
    char events_text[4096];
} scene;

/* The processes of trainers and workers that live. */
static int find_members(pid_t *pids, int room)
{
    char *json, *at;
    int count = 0;

    assert_ok(crt_cluster_state("actors", &json));
    for (at = json; (at = strstr(at, "\"actor_id\"")) && count < room; at++) {
        char *end = strstr(at + 1, "\"actor_id\""), kept = 0;
        char *pid;

        if (end) {
            kept = *end;
            *end = 0;
        }
        pid = strstr(at, "\"pid\"");
        if ((strstr(at, "\"Trainer\"") || strstr(at, "\"ImageWorker\"")) &&
            strstr(at, "\"ALIVE\"") && pid) {
            long number = 0;

            sscanf(pid, "\"pid\" : %ld", &number);
            if (number > 1)
                pids[count++] = (pid_t)number;
        }
        if (end)
            *end = kept;
    }
    crt_free(json);
    return count;
}

static void *kill_later(void *context)
{
    struct scene *s = context;

    usleep(s->delay_us);
    kill(s->victim, SIGKILL); /* the training may have ended */
    return NULL;
}

static void kill_members(struct scene *s)
{
    pid_t pids[16];
    int count = find_members(pids, 16);

    assert_true(count > 0);
    s->kill_at = 0;
    if (s->delay_us > 0) {
        s->victim = pids[s->delay_us % (unsigned)count];
        s->is_killing = pthread_create(&s->killer, NULL, kill_later, s) == 0;
        assert_true(s->is_killing);
        return;
    }
    for (int i = 0; i < s->kills && i < count; i++)
        assert_int_equal(kill(pids[i], SIGKILL), 0);
}

static void watch(void *context, const crt_fit_progress_t *p)
{
    struct scene *s = context;

    s->validations += p->phase == CRT_FIT_VALIDATE;
    s->devices_most = p->devices > s->devices_most ? p->devices : s->devices_most;
    if (p->phase == CRT_FIT_EVENT) {
        size_t used = strlen(s->events_text);

        s->events++;
        snprintf(s->events_text + used, sizeof(s->events_text) - used, "%s\n", p->text);
    }
    if (p->phase == CRT_FIT_TRAIN && s->kill_at > 0 && p->step >= s->kill_at)
        kill_members(s);
}

/* The usual training, for the cases to change. */
static crt_fit_options_t usual(void)
{
    scene = (struct scene){.kills = 1};
    return (crt_fit_options_t){.struct_size = sizeof(crt_fit_options_t),
                               .model = &spec,
                               .train = digits,
                               .devices = 2,
                               .batch_size = BATCH,
                               .epochs = 2,
                               .optimizer = &sgd,
                               .report = watch,
                               .context = &scene};
}

static crt_fit_result_t run(const crt_fit_options_t *options)
{
    crt_fit_result_t result;

    if (crt_fit(options, sizeof(result), &result) != CRT_OK)
        fail_msg("%s\n%s", crt_error_detail(), scene.events_text);
    if (scene.is_killing)
        pthread_join(scene.killer, NULL);
    return result;
}

/* ---------------------------------------------------------------- without deaths */

static void each_strategy_trains_validates_and_tests(void **state)
{
    double losses[3];

    for (int i = 0; i < 3; i++) {
        crt_fit_options_t o = usual();
        crt_fit_result_t r;
        crt_model_t *model;
        double accuracy;

        assert_ok(crt_model_new(&input, layers, LAYERS, 9, &model));
        o.strategy = (crt_fit_strategy_t)i;
        o.validation_part = 0.2;
        o.test = few;
        o.epochs = 3;
        o.into = model;
        r = run(&o);
        assert_int_equal(r.steps, 36); /* of 24 batches in an epoch, two in a step */
        assert_int_equal(scene.validations, 3);
        assert_true(r.train_loss < 1.6 && r.test_loss < 2.0);
        assert_true(r.validation_accuracy > 0.3 && r.samples_per_s > 0);
        assert_ok(crt_model_accuracy(model, NULL, few, &accuracy));
        assert_true(fabs(accuracy - r.test_accuracy) < 1e-9);
        crt_model_drop(&model);
        losses[i] = r.train_loss;
    }
    assert_true(fabs(losses[0] - losses[1]) < 1e-3 && fabs(losses[0] - losses[2]) < 1e-3);
}

/* Its own two numbers for each weight, the slow weights of the look-ahead and the averages. */
static void an_optimizer_of_four_states_trains_in_each_strategy(void **state)
{
    crt_optimizer_options_t radam = crt_radam_options(0.01);
    double losses[3];

    radam.lookahead_steps = 6;
    radam.lookahead_rate = 0.5;
    for (int i = 0; i < 3; i++) {
        crt_fit_options_t o = usual();

        o.strategy = (crt_fit_strategy_t)i;
        o.optimizer = &radam;
        losses[i] = run(&o).train_loss;
    }
    assert_true(fabs(losses[0] - losses[1]) < 1e-3 && fabs(losses[0] - losses[2]) < 1e-3);
}

/* Two batches of one member are what one batch of two is. */
static void batches_that_are_accumulated_make_the_same_step(void **state)
{
    float *weights[2];
    size_t count = 0;

    for (int i = 0; i < 2; i++) {
        crt_fit_options_t o = usual();
        crt_model_t *model;

        assert_ok(crt_model_new(&input, layers, LAYERS, 9, &model));
        o.devices = i == 0 ? 2 : 1;
        o.accumulate = i == 0 ? 1 : 2;
        o.clip = 1;
        o.into = model;
        run(&o);
        count = crt_model_parameters(model);
        weights[i] = malloc(count * sizeof(float));
        memcpy(weights[i], crt_model_weights(model)->data, count * sizeof(float));
        crt_model_drop(&model);
    }
    for (size_t i = 0; i < count; i++)
        if (fabsf(weights[0][i] - weights[1][i]) > 1e-4f)
            fail_msg("weight %zu is %g and %g", i, (double)weights[0][i],
                     (double)weights[1][i]);
    free(weights[0]);
    free(weights[1]);
}

static void networks_with_batch_norms_validate_alike_everywhere(void **state)
{
    static const int widths[] = {28, 28, 1, CLASSES, 0};
    crt_model_spec_t fcnn =
        CRT_MODEL_SPEC(.widths = widths, .network = "fcnn", .seed = 2);

    for (int i = 0; i < 2; i++) {
        crt_fit_options_t o = usual();

        o.model = &fcnn;
        o.train = few;
        o.format = "mnist";
        o.validation = few;
        o.steps = 3;
        o.sync_norms = i == 1;
        assert_true(isfinite(run(&o).train_loss));
    }
}

/* ---------------------------------------------------------------- deaths */

/* At a step of a training that goes on behind it. */
static crt_fit_result_t run_killing(crt_fit_options_t *o, uint64_t at, int kills)
{
    scene.kill_at = at;
    scene.kills = kills;
    return run(o);
}

static void
a_member_that_dies_is_replaced_and_the_weights_are_those_of_no_death(void **state)
{
    for (int strategy = 0; strategy < 2; strategy++) {
        crt_fit_options_t o = usual();
        crt_fit_result_t whole, killed;

        o.strategy = (crt_fit_strategy_t)strategy;
        o.epochs = 4;
        whole = run(&o);
        o.report = watch;
        killed = run_killing(&o, 1, 1);
        assert_int_equal(killed.steps, whole.steps);
        assert_int_equal(killed.deaths, 1);
        assert_int_equal(killed.devices, 2);
        if (strategy == 0)
            assert_true(killed.hash == whole.hash);
    }
}

/* Of the dead one's part the slow weights and the averages are lost, too: they begin anew as the
 * weights are, and do not pull these to zero. */
static void a_member_that_dies_takes_no_weights_with_it(void **state)
{
    crt_optimizer_options_t adam = crt_adam_options(0.003);
    crt_fit_options_t o = usual();
    crt_fit_result_t whole, killed;

    adam.lookahead_steps = 25;
    adam.lookahead_rate = 0.5;
    adam.use_averages = true;
    o.strategy = CRT_FIT_SHARDED;
    o.optimizer = &adam;
    o.epochs = 6;
    o.steps = 76; /* the last one is behind a look-ahead */
    whole = run(&o);
    killed = run_killing(&o, 60, 1);
    assert_int_equal(killed.deaths, 1);
    assert_true(fabs(killed.train_loss - whole.train_loss) < 0.2);
}

static void a_worker_of_a_server_that_dies_is_started_again(void **state)
{
    crt_fit_options_t o = usual();
    double loss;

    o.strategy = CRT_FIT_SERVER;
    o.every = 1;
    loss = run(&o).train_loss;
    scene.kill_at = 1;
    assert_true(fabs(run(&o).train_loss - loss) < 1e-9);
}

/* Nobody is left that has the weights: a new group begins, at the last checkpoint if there is
 * one. */
static void a_training_whose_members_all_die_begins_again(void **state)
{
    char folder[] = "/tmp/crt-fit-XXXXXX", command[64];

    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        crt_fit_options_t o = usual();
        crt_fit_result_t whole = run(&o), killed;

        o.folder = i == 1 ? folder : NULL;
        o.every = 4;
        o.keep = 2;
        killed = run_killing(&o, 8, 2);
        assert_true(killed.hash == whole.hash && killed.deaths >= 2);
        assert_non_null(strstr(scene.events_text, i == 1 ? "step-" : "its beginning"));
    }
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void a_group_goes_on_without_the_dead_and_takes_in_others(void **state)
{
    crt_fit_options_t o = usual();
    crt_fit_result_t r;

    o.devices = 1;
    o.devices_most = 3;
    o.epochs = 60;
    r = run_killing(&o, 1, 1);
    assert_int_equal(r.deaths, 1);
    assert_true(r.joined >= 1 && scene.devices_most == 3);
    assert_true(r.epochs >= 60 && r.epochs < 60.2);
}

/* ---------------------------------------------------------------- checkpoints */

static void a_training_that_resumes_ends_with_the_same_weights(void **state)
{
    for (int strategy = 0; strategy < 3; strategy++) {
        char folder[] = "/tmp/crt-fit-XXXXXX", command[64];
        crt_fit_options_t o = usual();
        crt_fit_result_t whole, resumed;

        assert_non_null(mkdtemp(folder));
        o.strategy = (crt_fit_strategy_t)strategy;
        o.steps = 10;
        whole = run(&o);
        o.folder = folder;
        o.every = 3;
        o.steps = 6;
        run(&o);
        assert_fails(crt_fit(&o, 0, NULL), CRT_ERR_EXISTS, "has checkpoints");
        o.resume = true;
        o.steps = 10;
        resumed = run(&o);
        assert_int_equal(resumed.steps, 10);
        assert_true(resumed.hash == whole.hash);
        assert_true(fabs(resumed.epochs - whole.epochs) < 1e-9);
        o.name = "another";
        assert_fails(crt_fit(&o, 0, NULL), CRT_ERR_INVALID, "not 'another'");
        snprintf(command, sizeof(command), "rm -r %s", folder);
        assert_int_equal(system(command), 0);
    }
}

/* Batches count, not steps: 40 of 120 are taken when others go on. */
static void a_training_that_resumes_with_other_devices_ends_with_its_epochs(void **state)
{
    for (int strategy = 0; strategy < 3; strategy++)
        for (int devices = 1; devices < 5; devices += 3) {
            char folder[] = "/tmp/crt-fit-XXXXXX", command[64];
            crt_fit_options_t o = usual();
            crt_fit_result_t first, rest, nothing;

            assert_non_null(mkdtemp(folder));
            o.strategy = (crt_fit_strategy_t)strategy;
            o.folder = folder;
            o.epochs = 4;
            o.steps = 20;
            first = run(&o);
            o.resume = true;
            o.steps = 0;
            o.devices = devices;
            rest = run(&o);
            assert_int_equal(rest.steps, 20 + 80 / devices);
            assert_true(fabs(rest.epochs - 4) < 1e-9 && isfinite(rest.train_loss));
            assert_true(rest.hash != first.hash);
            nothing = run(&o);
            assert_int_equal(nothing.steps, rest.steps);
            assert_true(nothing.hash == rest.hash);
            snprintf(command, sizeof(command), "rm -r %s", folder);
            assert_int_equal(system(command), 0);
        }
}

static void a_training_of_another_seed_or_batch_size_does_not_resume(void **state)
{
    for (int strategy = 0; strategy < 3; strategy++) {
        char folder[] = "/tmp/crt-fit-XXXXXX", command[64];
        crt_model_spec_t reseeded = spec;
        crt_fit_options_t o = usual(), resized, same;

        assert_non_null(mkdtemp(folder));
        o.strategy = (crt_fit_strategy_t)strategy;
        o.folder = folder;
        o.steps = 2;
        run(&o);
        o.resume = true;
        same = resized = o;
        reseeded.seed = 6;
        o.model = &reseeded;
        assert_fails(crt_fit(&o, 0, NULL), CRT_ERR_INVALID, "with seed 5, not 6");
        resized.batch_size = 8;
        assert_fails(crt_fit(&resized, 0, NULL), CRT_ERR_INVALID,
                     "with batches of 16 samples, not 8");
        run(&same);
        snprintf(command, sizeof(command), "rm -r %s", folder);
        assert_int_equal(system(command), 0);
    }
}

/* ---------------------------------------------------------------- wrong input */

static void assert_refused(crt_fit_options_t o, crt_status_t status, const char *part)
{
    crt_fit_result_t result;

    assert_fails(crt_fit(&o, sizeof(result), &result), status, part);
}

static void wrong_input_is_refused_before_anything_starts(void **state)
{
    static const int wrong[] = {100, 16, CLASSES, 0},
                     short_of[] = {INPUTS, CLASSES - 1, 0};
    crt_model_spec_t small = CRT_MODEL_SPEC(.widths = wrong);
    crt_model_spec_t few_classes = CRT_MODEL_SPEC(.widths = short_of);
    crt_fit_options_t o = usual();

    assert_fails(crt_fit(&o, 8, &(crt_fit_result_t){.steps = 0}), CRT_ERR_INVALID,
                 "give sizeof of it");
    o.batch_size = 0;
    assert_refused(o, CRT_ERR_INVALID, "batches of 0 samples");
    o = usual();
    o.model = NULL;
    assert_refused(o, CRT_ERR_INVALID, "needs `model` and `train`");
    o = usual();
    o.model = &small;
    assert_refused(o, CRT_ERR_INVALID, "784 features, the model 100 inputs");
    o.model = &few_classes;
    assert_refused(o, CRT_ERR_INVALID, "data have 10 classes, the model 9 outputs");
    o = usual();
    o.validation = other;
    assert_refused(o, CRT_ERR_INVALID, "the validation data have samples of 3072 feat");
    o = usual();
    o.test = other;
    assert_refused(o, CRT_ERR_INVALID, "the test data have samples of 3072 features");
    o = usual();
    o.accelerator = CRT_ACCELERATOR_GPU;
    assert_refused(o, CRT_ERR_UNSUPPORTED, "no node of the cluster has a GPU");
    o = usual();
    o.devices = 5;
    assert_refused(o, CRT_ERR_UNSCHEDULABLE, "5 devices of 1 CPU: the cluster has 4 CPU");
    o = usual();
    o.train = few;
    o.batch_size = 60;
    o.devices = 3;
    assert_refused(o, CRT_ERR_INVALID, "3 devices, and 100 training samples are only 2");
    o.devices = 1;
    o.accumulate = 3;
    assert_refused(o, CRT_ERR_INVALID, "3 batches of 1 devices in each step, and 100");
    o = usual();
    o.validation_part = 0.001;
    assert_refused(o, CRT_ERR_INVALID, "0 of 480 samples, which leaves nothing to valid");
    o = usual();
    o.resume = true;
    assert_refused(o, CRT_ERR_INVALID, "needs `folder`");
    o.folder = "/nowhere/at/all";
    assert_refused(o, CRT_ERR_NOT_FOUND, "/nowhere/at/all: No such file");
    o.folder = "/proc/self/status";
    assert_refused(o, CRT_ERR_IO, "/proc/self/status: Not a directory");
    o = usual();
    o.strategy = CRT_FIT_SERVER;
    o.sync_norms = true;
    assert_refused(o, CRT_ERR_UNSUPPORTED, "batch norms over all members");
    assert_int_equal(scene.events, 0);
}

/* ReLU makes 0 of a NaN, so that outputs do not show it. */
static void a_feature_that_is_not_finite_is_refused_in_all_data(void **state)
{
    static const char *const names[] = {"training", "validation", "test"};
    float x[2 * INPUTS] = {[INPUTS + 3] = NAN};
    uint8_t y[2] = {0, 1};
    int64_t shape[] = {2, INPUTS};
    const crt_tensor_t features = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, x),
                       labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, y);
    crt_dataset_t *wrong;

    assert_ok(crt_dataset_new(&features, &labels, CLASSES, &wrong));
    for (int i = 0; i < 3; i++) {
        crt_fit_options_t o = usual();
        char text[64];

        o.train = i == 0 ? wrong : digits;
        o.validation = i == 1 ? wrong : NULL;
        o.test = i == 2 ? wrong : NULL;
        snprintf(text, sizeof(text), "feature 3 of sample 1 of the %s data is nan",
                 names[i]);
        assert_refused(o, CRT_ERR_INVALID, text);
    }
    crt_dataset_drop(&wrong);
}

static void without_a_gpu_auto_computes_on_cpus_and_says_so(void **state)
{
    crt_fit_options_t o = usual();

    o.accelerator = CRT_ACCELERATOR_AUTO;
    o.steps = 1;
    run(&o);
    assert_non_null(strstr(scene.events_text, "members compute on CPUs"));
}

/* 7 batches of which the last has 4 samples, for 3 members: numbers go on in the next pass. */
static void data_that_do_not_divide_end_for_all_at_once(void **state)
{
    crt_fit_options_t o = usual();
    crt_fit_result_t r;

    o.train = few;
    o.devices = 3;
    o.epochs = 2;
    r = run(&o);
    assert_int_equal(r.steps, 5); /* of 3 batches: the last has one of a third pass */
    assert_true(r.epochs >= 2);
}

/* A gradient that is not finite ends the training of all with its reason. */
static void a_training_that_diverges_says_so(void **state)
{
    crt_optimizer_options_t wild = crt_sgd_options(1e30, 0);
    crt_fit_options_t o = usual();

    o.optimizer = &wild;
    assert_refused(o, CRT_ERR_INVALID, "not finite");
}

/* ---------------------------------------------------------------- many kills */

static int kills_wanted;

/* With a fixed number of members: at whatever instruction. 0: it came too late. */
static int kill_one(int number, unsigned *seed, const crt_fit_result_t *whole)
{
    crt_fit_options_t o = usual();
    crt_fit_result_t r;

    o.epochs = 20;
    o.strategy = number % 2 ? CRT_FIT_SHARDED : CRT_FIT_ALLREDUCE;
    scene.kill_at = 1 + (uint64_t)rand_r(seed) % (whole->steps / 4);
    scene.delay_us = 1 + (unsigned)rand_r(seed) % 60000;
    r = run(&o);
    printf(
        "%s    kill %d, %s, %u us behind a step: %llu steps, %d deaths, hash %016llx\n",
        r.deaths ? scene.events_text : "", number + 1,
        number % 2 ? "sharded" : "allreduce", scene.delay_us, (unsigned long long)r.steps,
        r.deaths, (unsigned long long)r.hash);
    fflush(stdout);
    assert_int_equal(r.steps, whole->steps);
    assert_int_equal(r.devices, 2);
    assert_true(r.deaths <= 1);
    if (number % 2 == 0) /* sharded: the state of the dead one is lost */
        assert_true(r.hash == whole->hash);
    return r.deaths;
}

static void killed_at_a_random_moment_all_end_alike(void **state)
{
    unsigned seed = (unsigned)time(NULL);
    crt_fit_options_t o = usual();
    crt_fit_result_t whole;
    int deaths = 0, wanted = kills_wanted > 0 ? kills_wanted : 2;

    o.epochs = 20;
    whole = run(&o);
    for (int i = 0; i < 4 * wanted && deaths < wanted; i++)
        deaths += kill_one(i, &seed, &whole);
    assert_int_equal(deaths, wanted);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_strategy_trains_validates_and_tests),
        cmocka_unit_test(an_optimizer_of_four_states_trains_in_each_strategy),
        cmocka_unit_test(batches_that_are_accumulated_make_the_same_step),
        cmocka_unit_test(networks_with_batch_norms_validate_alike_everywhere),
        cmocka_unit_test(
            a_member_that_dies_is_replaced_and_the_weights_are_those_of_no_death),
        cmocka_unit_test(a_member_that_dies_takes_no_weights_with_it),
        cmocka_unit_test(killed_at_a_random_moment_all_end_alike),
        cmocka_unit_test(a_worker_of_a_server_that_dies_is_started_again),
        cmocka_unit_test(a_training_whose_members_all_die_begins_again),
        cmocka_unit_test(a_group_goes_on_without_the_dead_and_takes_in_others),
        cmocka_unit_test(a_training_that_resumes_ends_with_the_same_weights),
        cmocka_unit_test(a_training_that_resumes_with_other_devices_ends_with_its_epochs),
        cmocka_unit_test(a_training_of_another_seed_or_batch_size_does_not_resume),
        cmocka_unit_test(wrong_input_is_refused_before_anything_starts),
        cmocka_unit_test(a_feature_that_is_not_finite_is_refused_in_all_data),
        cmocka_unit_test(without_a_gpu_auto_computes_on_cpus_and_says_so),
        cmocka_unit_test(data_that_do_not_divide_end_for_all_at_once),
        cmocka_unit_test(a_training_that_diverges_says_so),
    };
    const struct CMUnitTest kills[] = {
        cmocka_unit_test(killed_at_a_random_moment_all_end_alike)};

    if (kills_wanted > 0)
        return cmocka_run_group_tests(kills, setup, teardown);
    return cmocka_run_group_tests(tests, setup, teardown);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--kills") == 0)
        kills_wanted = atoi(argv[2]);
    return crt_main(argc, argv, CRT_OPTIONS(.num_cpus = CPUS), driver);
}
