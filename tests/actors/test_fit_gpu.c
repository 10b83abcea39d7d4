/* SPDX-License-Identifier: Apache-2.0 */
/* crt_fit on GPUs, of which there are none: fake_gpu.c and the stand-ins for CUDA and NCCL. The
 * gradients go through the backend "nccl"; all ends as on CPUs, to the bit. */
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <crt_collective.h>
#include <crt_fit.h>

#include "../ml/ml_test.h"

#define SAMPLES 320
#define BATCH   16
#define CLASSES 10
#define LAYERS  4
/* In which members come that find a GPU, also on a busy machine. */
#define LIMIT_MS 4000

static const crt_layer_t layers[LAYERS] = {
    {.struct_size = sizeof(crt_layer_t), .kind = CRT_LAYER_DENSE, .width = 24},
    {.struct_size = sizeof(crt_layer_t), .kind = CRT_LAYER_RELU},
    {.struct_size = sizeof(crt_layer_t), .kind = CRT_LAYER_DROPOUT, .rate = 0.1},
    {.struct_size = sizeof(crt_layer_t), .kind = CRT_LAYER_DENSE, .width = CLASSES}};
static crt_input_t input;
static crt_model_spec_t spec;
static crt_dataset_t *digits, *few;
static crt_optimizer_options_t sgd;

/* What the next training does to a member, and what it told. */
static struct scene {
    uint64_t kill_at; /* a step; 0: never */
    crt_actor_t *
        *taker; /* then this one is made first, and waits for the GPU; NULL: nobody */
    char events[4096];
} scene;

/* ---------------------------------------------------------------- others that want a GPU */

static crt_status_t pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int)getpid());
}
static const crt_method_t holder_pid =
    CRT_METHOD(.name = "pid", .run = pid_run, .signature = "");

/* Whether a process has given back all that it had: there is none, or only its number. */
static crt_status_t is_gone_run(void *self, crt_call_t *call)
{
    char path[32], state = 'Z';
    FILE *file;
    int pid;

    CRT_TRY(crt_args(call, &pid));
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file) {
        (void)!fscanf(file, "%*d %*s %c", &state);
        fclose(file);
    }
    return crt_return(call, state == 'Z' || state == 'X');
}
static const crt_method_t holder_is_gone =
    CRT_METHOD(.name = "is_gone", .run = is_gone_run, .signature = "int");

/* As with a GPU, whose driver takes its time. */
static void destroy_slowly(void *self)
{
    usleep(300000);
}

static const crt_actor_class_t holder =
    CRT_ACTOR_CLASS(.name = "Holder", .size = 1, .destroy = destroy_slowly,
                    .methods = CRT_METHODS(&holder_pid, &holder_is_gone));

static crt_actor_t *new_holder(double gpus)
{
    return crt_actor_new(&holder, CRT_ACTOR_OPTIONS(.num_cpus = 0, .num_gpus = gpus));
}

static void end_holder(crt_actor_t **actor)
{
    if (*actor)
        (void)crt_actor_kill(*actor, NULL);
    crt_actor_drop(actor);
}

static int ask(crt_ref_t *ref)
{
    int answer = 0;

    if (crt_get_for(ref, 60000, &answer) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    crt_ref_drop(&ref);
    return answer;
}

/* ---------------------------------------------------------------- trainings */

static int setup(void **state)
{
    input = CRT_INPUT(.channels = 784);
    spec = CRT_MODEL_SPEC(.input = &input, .layers = layers, .layer_count = LAYERS,
                          .seed = 5);
    sgd = crt_sgd_options(0.1, 0.9);
    assert_ok(crt_dataset_new_digits(SAMPLES, 5, &digits));
    assert_ok(crt_dataset_new_digits(64, 6, &few));
    return 0;
}

static int teardown(void **state)
{
    crt_dataset_drop(&digits);
    crt_dataset_drop(&few);
    return 0;
}

static void kill_one(void)
{
    char *json, *at;
    long pid = 0;

    assert_ok(crt_cluster_state("actors", &json));
    for (at = json; (at = strstr(at, "\"actor_id\"")) && pid == 0; at++) {
        char *end = strstr(at + 1, "\"actor_id\""), kept = end ? *end : 0, *number;

        if (end)
            *end = 0;
        number = strstr(at, "\"pid\"");
        if ((strstr(at, "\"Trainer\"") || strstr(at, "\"ImageWorker\"")) &&
            strstr(at, "\"ALIVE\"") && number)
            sscanf(number, "\"pid\" : %ld", &pid);
        if (end)
            *end = kept;
    }
    if (pid <= 1)
        fail_msg("no living member in %s", json);
    crt_free(json);
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
}

static void watch(void *context, const crt_fit_progress_t *p)
{
    size_t used = strlen(scene.events);

    if (p->phase == CRT_FIT_EVENT)
        snprintf(scene.events + used, sizeof(scene.events) - used, "%s\n", p->text);
    if (p->phase == CRT_FIT_TRAIN && scene.kill_at > 0 && p->step >= scene.kill_at) {
        scene.kill_at = 0;
        if (scene.taker)
            *scene.taker = new_holder(1);
        kill_one();
    }
}

static crt_fit_options_t usual(crt_accelerator_t accelerator)
{
    scene = (struct scene){.kill_at = 0};
    return (crt_fit_options_t){.struct_size = sizeof(crt_fit_options_t),
                               .model = &spec,
                               .train = digits,
                               .accelerator = accelerator,
                               .devices = 2,
                               .batch_size = BATCH,
                               .epochs = 2,
                               .optimizer = &sgd,
                               .report = watch};
}

static crt_fit_result_t run(const crt_fit_options_t *options)
{
    crt_fit_result_t result;

    if (crt_fit(options, sizeof(result), &result) != CRT_OK)
        fail_msg("%s\n%s", crt_error_detail(), scene.events);
    return result;
}

/* On CPUs and on GPUs, `change`d alike. */
static void assert_alike(void (*change)(crt_fit_options_t *o))
{
    crt_fit_result_t results[2];

    for (int i = 0; i < 2; i++) {
        crt_fit_options_t o = usual(i ? CRT_ACCELERATOR_GPU : CRT_ACCELERATOR_CPU);

        change(&o);
        results[i] = run(&o);
    }
    assert_int_equal(results[0].steps, results[1].steps);
    assert_true(fabs(results[0].train_loss - results[1].train_loss) < 1e-9);
    if (results[0].hash != results[1].hash)
        fail_msg("weights %016llx on CPUs, %016llx on GPUs",
                 (unsigned long long)results[0].hash,
                 (unsigned long long)results[1].hash);
}

static void with_validation(crt_fit_options_t *o)
{
    o->validation_part = 0.2;
    o->test = few;
}

static void with_clip_and_accumulation(crt_fit_options_t *o)
{
    o->clip = 0.5;
    o->accumulate = 3;
}

static void members_on_gpus_end_with_the_weights_of_those_on_cpus(void **state)
{
    assert_alike(with_validation);
    assert_alike(with_clip_and_accumulation);
}

static void sharded(crt_fit_options_t *o)
{
    o->strategy = CRT_FIT_SHARDED;
    o->accumulate = 2;
    o->clip = 0.5;
    o->test = few;
    o->bfloat16 = true;
}

/* Four on two GPUs, where there are any. */
static void with_half_a_gpu(crt_fit_options_t *o)
{
    o->devices = 4;
    o->gpus = 0.5;
    o->validation_part = 0.2;
}

/* What NCCL can't sum goes by way of the host. */
static void members_on_gpus_shard_their_optimizer_or_share_gpus(void **state)
{
    assert_alike(sharded);
    assert_alike(with_half_a_gpu);
}

static crt_model_spec_t norms;

static void with_batch_norms(crt_fit_options_t *o)
{
    o->model = &norms;
    o->train = few;
    o->validation = few;
    o->format = "mnist";
    o->steps = 3;
}

static void with_sharded_batch_norms(crt_fit_options_t *o)
{
    with_batch_norms(o);
    o->strategy = CRT_FIT_SHARDED;
}

static void statistics_of_batch_norms_are_averaged_where_they_lie(void **state)
{
    static const int widths[] = {28, 28, 1, CLASSES, 0};

    norms = CRT_MODEL_SPEC(.widths = widths, .network = "fcnn", .seed = 2);
    assert_alike(with_batch_norms);
    assert_alike(with_sharded_batch_norms);
}

static void a_member_that_is_killed_is_replaced_on_its_gpu(void **state)
{
    for (int shares = 0; shares < 2; shares++) {
        crt_fit_options_t o = usual(CRT_ACCELERATOR_GPU);
        crt_fit_result_t whole, killed;

        o.gpus = shares ? 0.5 : 1;
        o.epochs = 6;
        whole = run(&o);
        scene.kill_at = 1;
        killed = run(&o);
        assert_int_equal(killed.deaths, 1);
        assert_int_equal(killed.devices, 2);
        assert_true(killed.hash == whole.hash);
    }
}

static void a_checkpoint_of_gpus_goes_on_there_and_on_cpus(void **state)
{
    char folder[] = "/tmp/crt-fit-XXXXXX", command[64];
    crt_fit_options_t o = usual(CRT_ACCELERATOR_GPU);
    crt_fit_result_t whole;

    assert_non_null(mkdtemp(folder));
    o.steps = 10;
    whole = run(&o);
    o.folder = folder;
    o.every = 4;
    o.steps = 4;
    run(&o);
    o.resume = true;
    for (int i = 0; i < 2; i++) {
        o.steps = 10;
        o.accelerator = i ? CRT_ACCELERATOR_CPU : CRT_ACCELERATOR_GPU;
        assert_true(run(&o).hash == whole.hash);
        for (int step = 8; step <= 10; step += 2) {
            char path[128];

            snprintf(path, sizeof(path), "%s/step-%012d.checkpoint", folder, step);
            assert_int_equal(unlink(path), 0);
        }
    }
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void a_server_on_the_host_has_its_members_on_gpus(void **state)
{
    crt_fit_options_t o = usual(CRT_ACCELERATOR_GPU);
    double loss;

    o.gpus = 0.5; /* four on two */
    o.devices = 4;
    o.strategy = CRT_FIT_SERVER;
    loss = run(&o).train_loss;
    o.accelerator = CRT_ACCELERATOR_CPU;
    assert_true(fabs(run(&o).train_loss - loss) < 1e-9);
}

static void assert_refused(crt_fit_options_t o, const char *words)
{
    assert_fails(crt_fit(&o, 0, NULL), CRT_ERR_UNSUPPORTED, words);
}

static void assert_times_out(crt_fit_options_t o, const char *words)
{
    o.limit_ms = LIMIT_MS;
    assert_fails(crt_fit(&o, 0, NULL), CRT_ERR_TIMED_OUT, words);
}

static void members_that_wait_for_a_gpu_do_so_to_a_deadline_and_say_so(void **state)
{
    crt_actor_t *other = new_holder(1);
    crt_fit_options_t o = usual(CRT_ACCELERATOR_GPU);
    int pid = ask(crt_call(other, &holder_pid));
    char held[64];

    assert_times_out(o,
                     "1 of 2 members were there within 4 s: each needs 1 CPU and 1 GPU, "
                     "and ");
    assert_non_null(strstr(crt_error_detail(), " CPU and 0 of 2 GPU are free: "));
    snprintf(held, sizeof(held), "Holder (pid %d) has 1", pid);
    assert_non_null(strstr(crt_error_detail(), held));
    assert_non_null(strstr(crt_error_detail(), "Trainer (pid "));
    o.strategy = CRT_FIT_SERVER;
    assert_times_out(o,
                     "member 2 of 2 did not come within 4 s: each needs 1 CPU and 1 GPU");
    assert_non_null(strstr(crt_error_detail(), held));
    end_holder(&other);
}

/* Another actor, which waited for a GPU before, has that of a member that died. */
static void a_member_that_died_waits_for_a_gpu_to_a_deadline(void **state)
{
    for (int strategy = 0; strategy < 3; strategy += 2) {
        crt_actor_t *other = NULL;
        crt_fit_options_t o = usual(CRT_ACCELERATOR_GPU);

        o.strategy = (crt_fit_strategy_t)strategy;
        o.epochs = 1000;
        scene.kill_at = 1;
        scene.taker = &other;
        assert_times_out(o, strategy
                                ? "died and was not started again within 4 s: each "
                                  "needs 1 CPU and 1 GPU"
                                : "nobody came in place of a member that died within 4 s:"
                                  " each needs 1 CPU and "
                                  "1 GPU, and ");
        end_holder(&other);
    }
}

/* Asked to end, or killed. */
static void a_gpu_is_given_again_when_the_process_that_had_it_is_gone(void **state)
{
    for (int way = 0; way < 2; way++) {
        crt_actor_t *first = new_holder(2), *second;
        int pid = ask(crt_call(first, &holder_pid));

        second = new_holder(2);
        if (way == 0)
            assert_ok(crt_actor_kill(first, NULL));
        else
            assert_int_equal(kill(pid, SIGKILL), 0);
        assert_true(ask(crt_call(second, &holder_is_gone, pid)));
        crt_actor_drop(&first);
        end_holder(&second);
    }
}

static void what_gpus_can_not_do_is_refused_before_anything_starts(void **state)
{
    crt_fit_options_t o = usual(CRT_ACCELERATOR_GPU);

    o.sync_norms = true;
    assert_refused(o, "batch norms over all members");
    o = usual(CRT_ACCELERATOR_GPU);
    o.bfloat16 = true;
    assert_refused(o, "as bfloat16");
    o = usual(CRT_ACCELERATOR_GPU);
    o.devices = 3;
    assert_refused(o, "3 devices of 1 GPU: the cluster has 2 GPU");
    assert_string_equal(scene.events, "");
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_on_gpus_end_with_the_weights_of_those_on_cpus),
        cmocka_unit_test(members_on_gpus_shard_their_optimizer_or_share_gpus),
        cmocka_unit_test(statistics_of_batch_norms_are_averaged_where_they_lie),
        cmocka_unit_test(a_member_that_is_killed_is_replaced_on_its_gpu),
        cmocka_unit_test(a_checkpoint_of_gpus_goes_on_there_and_on_cpus),
        cmocka_unit_test(a_server_on_the_host_has_its_members_on_gpus),
        cmocka_unit_test(members_that_wait_for_a_gpu_do_so_to_a_deadline_and_say_so),
        cmocka_unit_test(a_member_that_died_waits_for_a_gpu_to_a_deadline),
        cmocka_unit_test(a_gpu_is_given_again_when_the_process_that_had_it_is_gone),
        cmocka_unit_test(what_gpus_can_not_do_is_refused_before_anything_starts),
    };

    return cmocka_run_group_tests_name("fit on GPUs", tests, setup, teardown);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&holder), .num_cpus = 5, .resources = "GPU=2"),
        driver);
}
