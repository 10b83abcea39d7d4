/* SPDX-License-Identifier: Apache-2.0 */
/* Ready-made actors that train models: a parameter server and its data workers.
 *
 *     crt_ref_t *weights = crt_call(server, &crt_parameter_server_get_weights);
 *     crt_ref_t *grads[2];
 *
 *     for (int i = 0; i < 2; i++)
 *         grads[i] = crt_call(workers[i], &crt_data_worker_compute_gradients, weights);
 *     crt_ref_drop(&weights);
 *     weights = crt_call(server, &crt_parameter_server_apply_gradients,
 *                        crt_spread(grads, 2));
 *     crt_refs_drop(grads, 2);
 *
 * Weights and gradients are objects of the store: workers read the weights where they
 * lie, and each gradient is computed into the object that the server then reads. A
 * program that uses these classes lists them: CRT_CLASSES(&crt_parameter_server,
 * &crt_data_worker).
 */
#ifndef CRT_ACTORS_H
#define CRT_ACTORS_H

#include "crt.h"
#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A perceptron as crt_mlp_new makes it. */
typedef struct crt_mlp_spec {
    const int *widths; /* inputs, hidden widths, classes, 0 */
    double dropout;
    uint64_t seed; /* below 2^63 */
} crt_mlp_spec_t;

/* ---------------------------------------------------------------- ParameterServer */

/* Owns the weights of a model and its optimizer. Workers whose gradients are applied need
 * equal widths only. Create arguments: list of widths, dropout, seed, "adam" or "sgd",
 * learn rate, momentum (of "sgd"). */
extern CRT_API const crt_actor_class_t crt_parameter_server;

/* () -> weights: a flat float32 tensor in the store. */
extern CRT_API const crt_method_t crt_parameter_server_get_weights;

/* (weights): replaces the weights; the optimizer's state stays. */
extern CRT_API const crt_method_t crt_parameter_server_set_weights;

/* (gradient, gradient, ...) -> new weights. Sums any number of flat gradients, at least
 * one, and makes one update of the sum. A gradient of the wrong size or with numbers that
 * are not finite fails the call and changes nothing. */
extern CRT_API const crt_method_t crt_parameter_server_apply_gradients;

/* Makes a ParameterServer. Caller owns the handle and drops it with crt_actor_drop. Never
 * NULL. */
CRT_API crt_actor_t *crt_parameter_server_new(const crt_actor_options_t *options,
                                              const crt_mlp_spec_t *spec,
                                              const crt_optimizer_options_t *optimizer);

/* ---------------------------------------------------------------- DataWorker */

/* What one worker reads. `features` and `labels` are refs of tensors as crt_dataset_new
 * takes them; the worker maps them and keeps them as long as it lives. */
typedef struct crt_data_spec {
    crt_ref_t *features, *labels;
    int classes;
    int shard, shards; /* its part of the samples; 0 of 1: all of them */
    int batch;
} crt_data_spec_t;

/* Computes gradients on its own shuffled batches, dropout included; the seed of the
 * model's spec gives its order and its dropout. Create arguments: list of widths,
 * dropout, seed, ref of the features, ref of the labels, classes, shard, shards,
 * batch. */
extern CRT_API const crt_actor_class_t crt_data_worker;

/* (weights) -> gradient: of the mean loss of the next batch, a flat float32 tensor in the
 * store. Nothing of the batch before is left in it. */
extern CRT_API const crt_method_t crt_data_worker_compute_gradients;

/* Makes a DataWorker. Caller owns the handle and drops it with crt_actor_drop. Never
 * NULL. */
CRT_API crt_actor_t *crt_data_worker_new(const crt_actor_options_t *options,
                                         const crt_mlp_spec_t *spec,
                                         const crt_data_spec_t *data);

#ifdef __cplusplus
}
#endif

#endif
