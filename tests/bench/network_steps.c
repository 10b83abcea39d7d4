/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a network by name: on batches that another program has written, so that both can be
 * compared (tests/bench/compare_torch.py), or on a data set, to see its accuracy.
 *
 *     network_steps --network NAME --weights FILE --batches FILE --rows N --steps N
 *     network_steps --network NAME --data DIR|builtin --rows N --epochs N
 *                   [--learn-rate R] [--momentum M] [--threads N] [--seed S]
 *                   [--gpu-id N|auto] [--precision float32|tf32|mixed]
 *
 * With --gpu-id on that GPU, counted as CUDA does: of what the runtime gave a worker, 0 is the
 * first. auto: on the first one, or on the host where there is none.
 *
 * Files are bare numbers: float32 weights as crt_model_weights has them; of each batch float32
 * inputs, channels last, then uint8 labels. On a data set the learn rate falls to zero along a
 * cosine. Prints step, loss and milliseconds of each step, or accuracy of each epoch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt_ml_gpu.h>
#include <crt_networks.h>

#include "options.h"

typedef struct options {
    const char *network, *weights, *batches, *data, *gpu, *precision;
    int rows, steps, epochs, threads;
    double learn_rate, momentum;
    uint64_t seed;
} options_t;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static options_t read_options(int argc, char **argv)
{
    options_t o = {.network = "lenet",
                   .data = "builtin",
                   .precision = "float32",
                   .rows = 64,
                   .steps = 1,
                   .epochs = 1,
                   .threads = 1,
                   .learn_rate = 0.01,
                   .momentum = 0.9};

    TAKE_OPTIONS(argc, argv, OPTION("network", o.network, 0, 0),
                 OPTION("weights", o.weights, 0, 0), OPTION("batches", o.batches, 0, 0),
                 OPTION("data", o.data, 0, 0), OPTION("rows", o.rows, 1, 1e9),
                 OPTION("steps", o.steps, 0, 1e9), OPTION("epochs", o.epochs, 0, 1e9),
                 OPTION("threads", o.threads, 0, 1024),
                 OPTION("learn-rate", o.learn_rate, 0, 1e9),
                 OPTION("momentum", o.momentum, 0, 1), OPTION("seed", o.seed, 0, 1e15),
                 OPTION("gpu-id", o.gpu, 0, 0), OPTION("precision", o.precision, 0, 0));
    return o;
}

static void read_file(FILE *file, void *data, size_t size, const char *name)
{
    if (fread(data, 1, size, file) != size) {
        fprintf(stderr, "%s is too short\n", name);
        exit(1);
    }
}

static FILE *open_file(const char *name)
{
    FILE *file = fopen(name, "rb");

    if (!file) {
        perror(name);
        exit(1);
    }
    return file;
}

static void read_weights(crt_model_t *model, const char *name)
{
    FILE *file = open_file(name);

    read_file(file, crt_model_weights(model)->data,
              crt_model_parameters(model) * sizeof(float), name);
    fclose(file);
}

static crt_precision_t precision_of(const char *name)
{
    crt_precision_t precision;

    if (crt_precision_parse(name, &precision) == CRT_OK)
        return precision;
    fprintf(stderr, "--precision %s: float32, tf32 or mixed\n", name);
    exit(2);
}

static void move(const options_t *o, crt_model_t *model)
{
    crt_precision_t precision = precision_of(o->precision);
    bool is_optional = o->gpu && strcmp(o->gpu, "auto") == 0;
    crt_status_t status;

    if (!o->gpu)
        return;
    status = crt_model_to_gpu(model, is_optional ? 0 : atoi(o->gpu), precision);
    if (!is_optional || status != CRT_ERR_UNSUPPORTED)
        CRT_CHECK(status);
}

static double step(crt_model_t *model, crt_optimizer_t *o, const crt_batch_t *batch)
{
    double loss;

    CRT_CHECK(crt_model_compute_gradients(model, NULL, batch, NULL, &loss));
    CRT_CHECK(crt_optimizer_step(o, model));
    return loss;
}

static void run_steps(const options_t *o, crt_model_t *model, crt_optimizer_t *optimizer)
{
    FILE *file = open_file(o->batches);
    int64_t shape[2] = {o->rows, crt_model_inputs(model)};
    size_t size = (size_t)(shape[0] * shape[1]) * sizeof(float);
    float *inputs = malloc(size);
    uint8_t *labels = malloc((size_t)o->rows);
    crt_batch_t batch =
        CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, inputs),
                  .labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, labels));

    if (!inputs || !labels)
        abort();
    for (int i = 0; i < o->steps; i++) {
        double begin, loss;

        read_file(file, inputs, size, o->batches);
        read_file(file, labels, (size_t)o->rows, o->batches);
        begin = now_ms();
        loss = step(model, optimizer, &batch);
        printf("step %d loss %.6f ms %.2f\n", i, loss, now_ms() - begin);
    }
    free(inputs);
    free(labels);
    fclose(file);
}

static void run_epochs(const options_t *o, crt_model_t *model, crt_optimizer_t *optimizer)
{
    crt_dataset_t *train, *test;
    crt_batches_t *batches;
    crt_schedule_t rate;
    double accuracy, learn_rate;
    size_t steps;

    CRT_CHECK(crt_dataset_open(o->data, CRT_SPLIT_TRAIN, &train));
    CRT_CHECK(crt_dataset_open(o->data, CRT_SPLIT_TEST, &test));
    CRT_CHECK(crt_batches_new(train, o->rows, o->seed, &batches));
    steps = (crt_dataset_count(train) + (size_t)o->rows - 1) / (size_t)o->rows;
    rate = crt_schedule_cosine(o->learn_rate, 0, steps * (size_t)o->epochs);
    for (int e = 0; e < o->epochs; e++) {
        double begin = now_ms();

        for (size_t i = 0; i < steps; i++) {
            CRT_CHECK(crt_schedule_at(&rate, (size_t)e * steps + i, &learn_rate));
            CRT_CHECK(crt_optimizer_set_learn_rate(optimizer, learn_rate));
            step(model, optimizer, crt_batches_next(batches));
        }
        CRT_CHECK(crt_model_accuracy(model, NULL, test, &accuracy));
        printf("epoch %d accuracy %.4f seconds %.1f\n", e + 1, accuracy,
               (now_ms() - begin) / 1e3);
        fflush(stdout);
    }
    crt_batches_drop(&batches);
    crt_dataset_drop(&test);
    crt_dataset_drop(&train);
}

/* The most memory that this process has had. */
static void print_memory(void)
{
    FILE *file = open_file("/proc/self/status");
    char line[256];

    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            printf("memory kB %ld\n", atol(line + 6));
    fclose(file);
}

int main(int argc, char **argv)
{
    options_t o = read_options(argc, argv);
    crt_model_t *model = NULL;
    crt_optimizer_t *optimizer = NULL;

    crt_ml_set_threads(o.threads);
    CRT_CHECK(crt_network_by_name(o.network, NULL, 10, o.seed, &model));
    if (o.weights)
        read_weights(model, o.weights);
    move(&o, model);
    CRT_CHECK(crt_sgd_new(model, o.learn_rate, o.momentum, &optimizer));
    if (o.batches)
        run_steps(&o, model, optimizer);
    else
        run_epochs(&o, model, optimizer);
    print_memory();
    crt_optimizer_drop(&optimizer);
    crt_model_drop(&model);
    return 0;
}
