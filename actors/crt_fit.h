/* SPDX-License-Identifier: Apache-2.0 */
/* Training in one call: a model of the program's own, or a network by name, on any number of
 * processes or GPUs of a cluster.
 *
 *     const crt_layer_t layers[] = {CRT_DENSE(256), CRT_RELU(), CRT_DENSE(10)};
 *     const crt_input_t input = CRT_INPUT(.channels = 784);
 *     crt_model_spec_t model =
 *         CRT_MODEL_SPEC(.input = &input, .layers = layers, .layer_count = 3);
 *     crt_fit_result_t result;
 *
 *     CRT_TRY(crt_dataset_open("data/mnist", CRT_SPLIT_TRAIN, &train));
 *     CRT_TRY(crt_fit(
 *         CRT_FIT(.model = &model, .train = train, .validation_part = 0.2, .devices = 2,
 *                 .epochs = 3, .batch_size = 64, .report = crt_fit_print),
 *         sizeof(result), &result));
 *
 * The call starts one actor for each device, trains, validates after each epoch, tests at the end,
 * and ends the actors. Batches are numbered, and all members take them from one order of the data:
 * no member's data end before those of the others, and a member that dies and is replaced computes
 * the batches of the dead one. With a fixed number of devices the weights at the end are the same
 * bit for bit, whichever members died; not so with CRT_FIT_SHARDED, where the optimizer state of
 * the dead one's part is lost. Part of libcrt_ml.
 */
#ifndef CRT_FIT_H
#define CRT_FIT_H

#include "crt_actors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where weights and gradients meet. */
typedef enum crt_fit_strategy {
    /* Each member has all weights; gradients are summed while they are computed. */
    CRT_FIT_ALLREDUCE = 0,
    /* The same, and each member keeps the optimizer state of its part of the weights only. */
    CRT_FIT_SHARDED = 1,
    /* A ParameterServer has the weights; members compute gradients of them. */
    CRT_FIT_SERVER = 2
} crt_fit_strategy_t;

/* Where members compute. */
typedef enum crt_accelerator {
    CRT_ACCELERATOR_CPU = 0,
    /* A GPU for each member; without enough of them the call fails. Gradients of CRT_FIT_ALLREDUCE
     * are summed there, by NCCL. With CRT_FIT_SHARDED, and with `gpus` below 1, passes are computed
     * there, and sums and updates by the host: in each step the weights go to the GPU and the
     * gradient comes back. */
    CRT_ACCELERATOR_GPU = 1,
    /* GPUs if the cluster has any, else CPUs; a report tells when there are none. */
    CRT_ACCELERATOR_AUTO = 2
} crt_accelerator_t;

/* Read the name of a strategy ("allreduce", "sharded", "server") or of an accelerator ("cpu",
 * "gpu", "auto"). Errors: CRT_ERR_INVALID, when there is none of that name. */
CRT_API crt_status_t crt_fit_strategy_parse(const char *name,
                                            crt_fit_strategy_t *strategy_out);
CRT_API crt_status_t crt_accelerator_parse(const char *name,
                                           crt_accelerator_t *accelerator_out);

/* What a report is about. */
typedef enum crt_fit_phase {
    /* Some steps were made: `loss` and `samples_per_s` are of them. */
    CRT_FIT_TRAIN = 1,
    /* An epoch has ended: `loss` and `accuracy` are of the validation data. */
    CRT_FIT_VALIDATE = 2,
    /* The training has ended: `loss` and `accuracy` are of the test data. */
    CRT_FIT_TEST = 3,
    /* `text` tells what happened: a member died, joined, a checkpoint was written. */
    CRT_FIT_EVENT = 4
} crt_fit_phase_t;

/* How far a training is. Numbers that a phase does not have are NaN. */
typedef struct crt_fit_progress {
    size_t struct_size;
    crt_fit_phase_t phase;
    /* Members that train now. */
    int devices;
    /* Steps that were made, and steps at the end, as far as that is known. */
    uint64_t step, steps;
    /* Passes over the training data: with a fraction, and at the end. */
    double epoch, epochs;
    double loss, accuracy, samples_per_s;
    /* Seconds since the first step, and, as far as that is known, until the last one. */
    double seconds, seconds_left;
    /* Borrowed: valid during the call. NULL, but for CRT_FIT_EVENT. */
    const char *text;
} crt_fit_progress_t;

/* A function that is told how far a training is, about once a second and at the end of each phase,
 * in the thread that called crt_fit. */
typedef void crt_fit_report_t(void *context, const crt_fit_progress_t *progress);

/* A crt_fit_report_t that prints to stdout: on a terminal a line of training that is replaced by
 * the next one, elsewhere a line for each report. `context` is not used. */
CRT_API void crt_fit_print(void *context, const crt_fit_progress_t *progress);

/* A training. Made with CRT_FIT. `model`, `train` and `batch_size` are needed; zero is the default
 * of every other member. All pointers are borrowed for the call. */
typedef struct crt_fit_options {
    /* Set by CRT_FIT. */
    size_t struct_size;
    /* The model; its seed also determines the order of the data. */
    const crt_model_spec_t *model;
    /* Samples to train with. */
    const crt_dataset_t *train;
    /* Samples to validate with after each epoch. NULL: `validation_part` of `train`. */
    const crt_dataset_t *validation;
    /* Samples to test with at the end. NULL: no test. */
    const crt_dataset_t *test;
    /* The part of `train` that is only validated with, drawn by the seed: 0.2 is one in five. 0:
     * none. */
    double validation_part;
    /* A name of crt_image_format: images are normalised, and cropped and flipped during training.
     * NULL: samples as they are. */
    const char *format;
    crt_fit_strategy_t strategy;
    crt_accelerator_t accelerator;
    /* "float32", "tf32" or "mixed": what GPUs compute in. NULL: "float32", as CPUs do. */
    const char *precision;
    /* Members of the group. 0: one for each free device of the cluster. */
    int devices;
    /* With `devices_most` > `devices`: the training begins when `devices` members are there, takes
     * in others as the cluster has room, up to this number, and goes on without those that die. 0:
     * the number of members is fixed, and a dead one is replaced. */
    int devices_most;
    /* CPUs of each member. 0: 1. */
    double cpus;
    /* The part of a GPU that each member has, with `accelerator` GPU; those of less than 1 share
     * one. 0: 1. */
    double gpus;
    /* Samples of one batch of one member. */
    int batch_size;
    /* Batches of one member in each step. 0: 1. */
    int accumulate;
    /* Batches that a thread of each member makes ahead. */
    int ahead;
    /* Passes over the training data. 0: 1, unless `steps` is given. */
    int epochs;
    /* Steps, if they end the training before `epochs` do. 0: no limit. */
    uint64_t steps;
    /* NULL: Adam with a learn rate of 0.001. */
    const crt_optimizer_options_t *optimizer;
    /* The gradient of a step, averaged over all members, is scaled to at most this norm. 0: no
     * scaling, except by the options of `optimizer`. */
    double clip;
    /* Batch norms take mean and variance over the batches of all members. */
    bool sync_norms;
    /* Gradients are sent as bfloat16. */
    bool bfloat16;
    /* A folder for checkpoints, which members on all nodes can reach. NULL: none are written. */
    const char *folder;
    /* Steps between two checkpoints. 0: only after each epoch. */
    uint64_t every;
    /* The number of checkpoints that are kept. 0: all. */
    int keep;
    /* The training goes on from the newest checkpoint of `folder`, which is one of a training with
     * the same seed and `batch_size`; the number of devices may be another. */
    bool resume;
    /* The name of the model in checkpoints. NULL: the network of `model`, or "model". */
    const char *name;
    /* Is told how far the training is. NULL: nobody. */
    crt_fit_report_t *report;
    void *context;
    /* A model of the same layers, which gets the weights and statistics at the end. NULL: none. */
    crt_model_t *into;
    /* Milliseconds in which members must come: at the start, when the cluster has no free CPU or
     * GPU for them, and in place of one that died. Also the limit of each of their exchanges. 0:
     * 60000. */
    int64_t limit_ms;
} crt_fit_options_t;
#define CRT_FIT(...)                                                                     \
    CRTI_CONSTANT(crt_fit_options_t, .struct_size = sizeof(crt_fit_options_t),           \
                  __VA_ARGS__)

/* What came of a training. Numbers of phases that there were not are NaN. Filled by crt_fit, which
 * takes the size of the struct. */
typedef struct crt_fit_result {
    size_t struct_size;
    uint64_t steps;
    double epochs;
    /* Mean of the losses of the last epoch, or of its part that was trained. */
    double train_loss;
    double validation_loss, validation_accuracy;
    double test_loss, test_accuracy;
    /* Of the training without its validations and its start. */
    double seconds, samples_per_s;
    /* Members at the end; members that died; members that joined later. */
    int devices, deaths, joined;
    /* A hash of the weights, which was the same on all members. */
    uint64_t hash;
} crt_fit_result_t;

/* Trains. Call it in a driver, or in an actor or task that may wait.
 *
 * Errors, before anything is started: CRT_ERR_INVALID, when an option is missing or wrong, the
 * model does not fit the data, a feature is not finite, the validation data would be empty, the
 * training data have fewer batches than a step of all devices takes, or the checkpoint to go on
 * from is of another seed or batch size; CRT_ERR_UNSUPPORTED, when there is no GPU, fewer than
 * were asked for, or GPUs do not have what an option asks for; CRT_ERR_UNSCHEDULABLE, when the
 * cluster has fewer CPUs than all members need; CRT_ERR_NOT_FOUND, when there is no checkpoint to
 * go on from, or no such network; CRT_ERR_EXISTS, when `folder` has checkpoints and `resume` is
 * not set; those of crt_checkpoint_read and crt_model_new. Later: CRT_ERR_INVALID, when a gradient
 * is not finite; CRT_ERR_ACTOR_DIED, when members die again and again before a step is made;
 * CRT_ERR_IO, when a checkpoint cannot be written; CRT_ERR_TIMED_OUT, when fewer members than
 * `devices` come within `limit_ms` (the text says what they wait for), or an exchange takes
 * longer; CRT_ERR_NO_MEMORY; CRT_ERR_NOT_INITIALIZED; CRT_ERR_INTERRUPTED, after crt_interrupt.
 * All actors of the training have ended when the call returns. */
CRT_API crt_status_t crt_fit(const crt_fit_options_t *options, size_t result_size,
                             crt_fit_result_t *result_out);

#ifdef __cplusplus
}
#endif

#endif
