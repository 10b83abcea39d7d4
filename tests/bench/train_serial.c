/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of `train_mnist --mode sync --workers 2` without a runtime: what the
 * loop of actors is compared with.
 *
 *     thread 0: gradient of its shard -> barrier -> sum and update -> barrier -> again
 *     thread 1: gradient of its shard -> barrier -------------------> barrier -> again
 *
 * Each thread uses BLAS with one thread. Same model, seeds, shards and batches as the
 * actors, so the final accuracy is the same number.
 *
 *     train_serial [--data DIR|builtin] [--iterations N] [--seed S] [--batch N]
 *                  [--hidden N]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <crt_ml.h>

#include "options.h"

#define WORKERS 2

typedef struct options {
    const char *data;
    int iterations, batch, hidden;
    uint64_t seed;
} options_t;

typedef struct training {
    options_t options;
    pthread_barrier_t barrier;
    crt_model_t *server;
    crt_optimizer_t *adam;
    crt_tensor_t gradients[WORKERS];
    const crt_dataset_t *train;
} training_t;

typedef struct worker {
    training_t *training;
    int rank;
    pthread_t thread;
    crt_model_t *model;
    crt_dataset_t *shard;
    crt_batches_t *batches;
} worker_t;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void new_model(const options_t *o, uint64_t seed, crt_model_t **model_out)
{
    int widths[] = {784, o->hidden, o->hidden, 10, 0};

    CRT_CHECK(crt_mlp_new(widths, 0.2, seed, model_out));
}

static void *work(void *arg)
{
    worker_t *w = arg;
    training_t *t = w->training;
    const crt_tensor_t *gradients[WORKERS];

    for (int i = 0; i < WORKERS; i++)
        gradients[i] = &t->gradients[i];
    for (int i = 0; i < t->options.iterations; i++) {
        CRT_CHECK(crt_model_compute_gradients(w->model, crt_model_weights(t->server),
                                              crt_batches_next(w->batches),
                                              &t->gradients[w->rank], NULL));
        pthread_barrier_wait(&t->barrier);
        if (w->rank == 0)
            CRT_CHECK(crt_optimizer_apply(t->adam, t->server, gradients, WORKERS, NULL));
        pthread_barrier_wait(&t->barrier);
    }
    return NULL;
}

/* The seeds of crt_data_worker: rank and seed make one number. */
static void start_worker(training_t *t, worker_t *w, int rank)
{
    uint64_t seed = t->options.seed * 1000 + (uint64_t)rank + 1;
    size_t count = crt_model_parameters(t->server);

    w->training = t;
    w->rank = rank;
    t->gradients[rank] = crt_tensor_floats(calloc(count, sizeof(float)), count);
    new_model(&t->options, seed, &w->model);
    CRT_CHECK(crt_dataset_new_shard(t->train, rank, WORKERS, &w->shard));
    CRT_CHECK(crt_batches_new(w->shard, t->options.batch, seed, &w->batches));
}

static double run(training_t *t, worker_t *workers)
{
    double start = now_s();

    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            abort();
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    return now_s() - start;
}

static options_t read_options(int argc, char **argv)
{
    options_t o = {.data = "builtin", .iterations = 200, .batch = 128, .hidden = 128};

    TAKE_OPTIONS(argc, argv, OPTION("data", o.data, 0, 0),
                 OPTION("iterations", o.iterations, 0, 1e9),
                 OPTION("seed", o.seed, 0, 1e15), OPTION("batch", o.batch, 1, 1e6),
                 OPTION("hidden", o.hidden, 1, 1e6));
    return o;
}

int main(int argc, char **argv)
{
    training_t t = {.options = read_options(argc, argv)};
    worker_t workers[WORKERS] = {0};
    crt_dataset_t *train = NULL, *test = NULL;
    double seconds, accuracy;

    crt_ml_set_threads(1);
    CRT_CHECK(crt_dataset_open(t.options.data, CRT_SPLIT_TRAIN, &train));
    CRT_CHECK(crt_dataset_open(t.options.data, CRT_SPLIT_TEST, &test));
    t.train = train;
    new_model(&t.options, t.options.seed, &t.server);
    CRT_CHECK(crt_adam_new(t.server, 0.001, &t.adam));
    pthread_barrier_init(&t.barrier, NULL, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        start_worker(&t, &workers[i], i);
    seconds = run(&t, workers);
    CRT_CHECK(crt_model_accuracy(t.server, NULL, test, &accuracy));
    printf("seconds in the loop: %.3f\nfinal accuracy: %.3f\n", seconds, accuracy);
    for (int i = 0; i < WORKERS; i++) {
        crt_batches_drop(&workers[i].batches);
        crt_dataset_drop(&workers[i].shard);
        crt_model_drop(&workers[i].model);
        free(t.gradients[i].data);
    }
    pthread_barrier_destroy(&t.barrier);
    crt_optimizer_drop(&t.adam);
    crt_model_drop(&t.server);
    crt_dataset_drop(&test);
    crt_dataset_drop(&train);
    return 0;
}
