/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that train one model on a real GPU: their gradients are averaged by NCCL where they
 * lie, and are the same bits on both, step after step. The two share device 0: NCCL believes that
 * they are on different hosts (NCCL_HOSTID). Exits with 77 where there is no GPU, or a library is
 * missing. */
#include "ml_test.h"

#include <crt.h>
#include <crt_collective.h>
#include <crt_ml_gpu.h>
#include <crt_networks.h>

#define SKIPPED 77
#define SIZE    2
#define STEPS   3
#define ROWS    16
/* Of the norm, beside the average of gradients of the host: the second for networks of which
 * float32 says no more, as weights moved by 1e-6 of themselves move the gradient by 1e-2. */
#define LIMIT       1e-5
#define DEEP_LIMIT  5e-2
#define PATIENCE_MS 300000

static crt_batch_t batch_of(const crt_model_t *model, int rank, int step, float *x,
                            uint8_t *labels)
{
    int inputs = crt_model_inputs(model);

    fill_wave(x, (size_t)ROWS * (size_t)inputs, 0.7 + 0.1 * rank + 0.01 * step, 1.0);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint8_t)((i * 3 + rank + step) % 10);
    return CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2,
                                               (int64_t[]){ROWS, inputs}, x),
                     .labels =
                         crt_tensor_view(CRT_DTYPE_UINT8, 1, (int64_t[]){ROWS}, labels));
}

static uint64_t mix(uint64_t hash, const float *numbers, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)numbers;

    for (size_t i = 0; i < count * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* How far the averaged gradient is from that of models on the host, as part of the norm. */
static crt_status_t difference(const char *network, const float *got,
                               const crt_tensor_t *weights, int step, float *x,
                               uint8_t *labels, double *off_out)
{
    crt_model_t *model;
    double off = 0, norm = 0;
    size_t count = crt_tensor_count(weights);

    CRT_TRY(crt_network_by_name(network, NULL, 10, 5, &model));
    for (int rank = 0; rank < SIZE; rank++) {
        crt_batch_t batch = batch_of(model, rank, step, x, labels);
        float *one = malloc(count * sizeof(float));
        crt_tensor_t gradient = crt_tensor_floats(one, count);

        CRT_TRY(crt_model_compute_gradients(model, weights, &batch, &gradient, NULL));
        CRT_TRY(crt_model_add_gradients(model, &gradient));
        free(one);
    }
    for (size_t i = 0; i < count; i++) {
        double expected =
            (double)((const float *)crt_model_gradients(model)->data)[i] / SIZE;

        off += ((double)got[i] - expected) * ((double)got[i] - expected);
        norm += expected * expected;
    }
    crt_model_drop(&model);
    *off_out = sqrt(off / norm);
    return CRT_OK;
}

typedef struct rank {
    char network[16];
    crt_group_t *group;
    crt_model_t *model;
    crt_optimizer_t *optimizer;
    float *gradient, *weights, *x;
    uint8_t *labels;
} rank_t;

static crt_status_t join_run(void *self, crt_call_t *call)
{
    rank_t *r = self;
    size_t count;
    char host[32];
    const char *network;
    int rank;

    CRT_TRY(crt_args(call, &rank, &network));
    snprintf(r->network, sizeof(r->network), "%s", network);
    snprintf(host, sizeof(host), "%d", (int)getpid());
    setenv("NCCL_HOSTID", host, 0);
    CRT_TRY(crt_network_by_name(network, NULL, 10, 5, &r->model));
    CRT_TRY(crt_model_to_gpu(r->model, 0, CRT_PRECISION_FLOAT32));
    CRT_TRY(crt_sgd_new(r->model, 0.01, 0.9, &r->optimizer));
    count = crt_model_parameters(r->model);
    r->gradient = calloc(count, sizeof(float));
    r->weights = calloc(count, sizeof(float));
    r->x = calloc((size_t)ROWS * (size_t)crt_model_inputs(r->model), sizeof(float));
    r->labels = calloc(ROWS, 1);
    if (!r->gradient || !r->weights || !r->x || !r->labels)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "a rank");
    return crt_group_join(SIZE, rank,
                          CRT_GROUP_OPTIONS(.name = "models", .backend = "nccl",
                                            .stream = crt_model_stream(r->model)),
                          &r->group);
}
static const crt_method_t rank_join =
    CRT_METHOD(.name = "join", .run = join_run, .signature = "int, string");

/* The hash of the averaged gradient and of the weights after the step. */
static crt_status_t step_run(void *self, crt_call_t *call)
{
    rank_t *r = self;
    size_t count = crt_model_parameters(r->model);
    crt_tensor_t weights = crt_tensor_floats(r->weights, count);
    crt_tensor_t gradient = crt_tensor_floats(r->gradient, count);
    crt_tensor_t shared = *crt_model_gradients(r->model);
    crt_batch_t batch;
    uint64_t hash = 0xcbf29ce484222325u;
    double off;
    int step;

    CRT_TRY(crt_args(call, &step));
    batch = batch_of(r->model, crt_group_rank(r->group), step, r->x, r->labels);
    CRT_TRY(crt_model_copy_tensor(r->model, crt_model_weights(r->model), &weights));
    CRT_TRY(crt_model_compute_gradients(r->model, NULL, &batch, NULL, NULL));
    CRT_TRY(crt_group_allreduce(r->group, &shared, &shared, CRT_REDUCE_AVERAGE));
    CRT_TRY(crt_model_copy_tensor(r->model, &shared, &gradient));
    CRT_TRY(difference(r->network, r->gradient, &weights, step, r->x, r->labels, &off));
    printf("    step %d: %.2e of the norm from the host's\n", step, off);
    if (!(off < (strcmp(r->network, "resnet20") == 0 ? DEEP_LIMIT : LIMIT)))
        return crt_fail(call, CRT_ERR_USER, "the average is off by %g", off);
    CRT_TRY(crt_optimizer_step(r->optimizer, r->model));
    CRT_TRY(crt_model_copy_tensor(r->model, crt_model_weights(r->model), &weights));
    hash = mix(mix(hash, r->gradient, count), r->weights, count);
    return crt_return(call, (int64_t)(hash >> 1));
}
static const crt_method_t rank_step =
    CRT_METHOD(.name = "step", .run = step_run, .signature = "int");

static crt_status_t leave_run(void *self, crt_call_t *call)
{
    rank_t *r = self;

    crt_group_drop(&r->group);
    crt_optimizer_drop(&r->optimizer);
    crt_model_drop(&r->model);
    free(r->gradient);
    free(r->weights);
    free(r->x);
    free(r->labels);
    *r = (rank_t){0};
    return CRT_OK;
}
static const crt_method_t rank_leave =
    CRT_METHOD(.name = "leave", .run = leave_run, .signature = "");

static const crt_actor_class_t rank_class =
    CRT_ACTOR_CLASS(.name = "ModelRank", .size = sizeof(rank_t),
                    .methods = CRT_METHODS(&rank_join, &rank_step, &rank_leave));

/* ---------------------------------------------------------------- in the driver */

static crt_actor_t *ranks[SIZE];

static int start_ranks(void **state)
{
    for (int i = 0; i < SIZE; i++)
        ranks[i] = crt_actor_new(&rank_class, CRT_ACTOR_OPTIONS(.num_cpus = 0));
    return 0;
}

static int stop_ranks(void **state)
{
    for (int i = 0; i < SIZE; i++) {
        assert_ok(crt_actor_kill(ranks[i], NULL));
        crt_actor_drop(&ranks[i]);
    }
    return 0;
}

static void await(crt_ref_t **refs, int64_t *values)
{
    for (int i = 0; i < SIZE; i++) {
        size_t ready;

        assert_ok(crt_wait(&refs[i], 1, 1, PATIENCE_MS, NULL, &ready));
        if (crt_ref_error(refs[i]))
            fail_msg("rank %d: %s", i, crt_ref_error(refs[i])->text);
        if (values)
            assert_ok(crt_get(refs[i], &values[i]));
        crt_ref_drop(&refs[i]);
    }
}

static void train(const char *network)
{
    crt_ref_t *refs[SIZE];
    int64_t hashes[SIZE], before = 0;

    for (int i = 0; i < SIZE; i++)
        refs[i] = crt_call(ranks[i], &rank_join, i, network);
    await(refs, NULL);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < SIZE; i++)
            refs[i] = crt_call(ranks[i], &rank_step, step);
        await(refs, hashes);
        printf("    step %d: %016llx and %016llx\n", step, (unsigned long long)hashes[0],
               (unsigned long long)hashes[1]);
        assert_true(hashes[0] == hashes[1]);
        assert_true(hashes[0] != before);
        before = hashes[0];
    }
    for (int i = 0; i < SIZE; i++)
        refs[i] = crt_call(ranks[i], &rank_leave);
    await(refs, NULL);
}

static void averaged_gradients_of_a_perceptron_are_equal_to_the_bit(void **state)
{
    train("mlp");
}

static void averaged_gradients_of_a_resnet_are_equal_to_the_bit(void **state)
{
    train("resnet20");
}

/* Asked in the driver; its processes find the same. */
static bool has_gpu(void)
{
    crt_model_t *model;
    bool is_there;

    if (crt_mlp_new((const int[]){4, 2, 0}, 0, 1, &model) != CRT_OK)
        return false;
    is_there = crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32) != CRT_ERR_UNSUPPORTED;
    crt_model_drop(&model);
    return is_there;
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averaged_gradients_of_a_perceptron_are_equal_to_the_bit),
        cmocka_unit_test(averaged_gradients_of_a_resnet_are_equal_to_the_bit),
    };

    if (!has_gpu()) {
        printf("skipped: %s\n", crt_error_detail());
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("gpu group", tests, start_ranks, stop_ranks);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&rank_class), .num_cpus = 2,
                                .object_store_memory = 64 << 20),
                    driver);
}
