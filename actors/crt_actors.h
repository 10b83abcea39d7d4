/* SPDX-License-Identifier: Apache-2.0 */
/* Ready-made actors that train models: one parameter server, or several that share the weights,
 * with data workers; and trainers that sum their gradients among themselves.
 *
 *     crt_ref_t *weights = crt_call(server, crt_parameter_server_get_weights());
 *     crt_ref_t *grads[2];
 *
 *     for (int i = 0; i < 2; i++)
 *         grads[i] = crt_call(workers[i], crt_data_worker_compute_gradients(), weights);
 *     crt_ref_drop(&weights);
 *     weights = crt_call(server, crt_parameter_server_apply_gradients(),
 *                        crt_arg_each(grads, 2));
 *     crt_refs_drop(grads, 2);
 *
 * Weights and gradients are objects of the store: workers read the weights in place, and each
 * gradient is computed into the object that the server then reads. A program lists none of these
 * classes: the library defines them. Each class and each method is a function that returns its
 * descriptor. The classes are in a library of their own:
 *
 *     cc app.c $(pkg-config --cflags --libs crt_ml)
 */
#ifndef CRT_ACTORS_H
#define CRT_ACTORS_H

#include "crt.h"
#include "crt_checkpoint.h"
#include "crt_collective.h"
#include "crt_compression.h"
#include "crt_images.h"
#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model of an actor: a perceptron as crt_mlp_new makes it, a network by name, or layers of the
 * program's own. */
typedef struct crt_model_spec {
    /* Set by CRT_MODEL_SPEC. */
    size_t struct_size;
    /* Inputs, hidden widths, classes, 0. With `network`: height, width, channels, classes, 0. */
    const int *widths;
    /* Dropout rate of the perceptron. */
    double dropout;
    /* Seed of the model, below 2^63. */
    uint64_t seed;
    /* NULL, or a name of crt_networks.h; the network then has its own dropout. In the create
     * arguments of an actor the name stands before the list of widths. */
    const char *network;
    /* Instead of `widths`: `layer_count` layers for samples of `input`, see crt_model_new. */
    const crt_input_t *input;
    const crt_layer_t *layers;
    size_t layer_count;
} crt_model_spec_t;
#define CRT_MODEL_SPEC(...)                                                              \
    CRTI_VALUE(crt_model_spec_t, .struct_size = sizeof(crt_model_spec_t), __VA_ARGS__)

/* ---------------------------------------------------------------- ParameterServer */

/* The class ParameterServer: owns the weights of a model and its optimizer. Models of the
 * workers need the same widths; other options may differ. Create arguments: list of widths,
 * dropout, seed, and a map with "optimizer" ("adam", the default, or "sgd") and the options of
 * crt_optimizer_options_t by their names. */
CRT_API const crt_actor_class_t *crt_parameter_server_class(void);

/* () -> weights: a flat float32 tensor in the store. If the network has batch norms, their
 * statistics follow the weights in the same tensor, also in the new weights that other methods
 * of the server return. Workers accept both forms. */
CRT_API const crt_method_t *crt_parameter_server_get_weights(void);

/* (weights): replaces the weights, and the statistics of batch norms if they follow the
 * weights. The state of the optimizer stays. */
CRT_API const crt_method_t *crt_parameter_server_set_weights(void);

/* (gradient, gradient, ...) -> new weights. Sums any number of flat gradients, at least one,
 * and makes one update with the sum. If a gradient has the wrong size or contains numbers that
 * are not finite, the call fails and changes nothing. */
CRT_API const crt_method_t *crt_parameter_server_apply_gradients(void);

/* (step, encoded gradient, ...) -> new weights. Makes one update with the average of the
 * gradients. Each is a tensor of bytes from crt_compressor_encode, followed by the float32
 * statistics of batch norms, which are averaged too. `step` is the number of updates that the
 * caller knows of.
 *
 * Errors, which change nothing: CRT_ERR_INVALID, when the server has made more updates than
 * `step`, or a gradient is wrong; CRT_ERR_OBJECT_LOST, when the server has made fewer updates,
 * after a restart. */
CRT_API const crt_method_t *crt_parameter_server_apply_step(void);

/* (step, worker, first, count, encoded floats): stores a piece of the gradient of worker
 * number `worker` for `step`, the floats [first, first + count); statistics of batch norms lie
 * behind the gradient. The pieces of a worker come from the end of the gradient to its
 * beginning, while the worker still computes the rest. Pieces of a step that is over are
 * dropped.
 *
 * Errors: CRT_ERR_OBJECT_LOST, when the server has made fewer updates than `step`, after a
 * restart. */
CRT_API const crt_method_t *crt_parameter_server_deposit(void);

/* (step, worker, ...) -> new weights. Makes one update with the average of the gradients that
 * these workers have deposited for `step`, the number of updates that the caller knows of.
 *
 * Errors, which change nothing: CRT_ERR_INVALID, when the server has made more updates than
 * `step`; CRT_ERR_OBJECT_LOST, when the server has made fewer updates, after a restart, or the
 * deposits of a worker are not complete. */
CRT_API const crt_method_t *crt_parameter_server_apply_deposits(void);

/* (folder, network, step, seed, is last, keep), and, if the caller counts them, batches and the
 * samples of each: writes a checkpoint, see crt_checkpoint_write. `step` is the number of updates
 * that the caller knows of.
 *
 * Errors: those of crt_checkpoint_write; CRT_ERR_INVALID or CRT_ERR_OBJECT_LOST, when the
 * server has made more or fewer updates than `step`. */
CRT_API const crt_method_t *crt_parameter_server_save(void);

/* (path, network) -> step. Continues from a checkpoint: weights, optimizer state and number of
 * steps become those of the file. Errors: those of crt_checkpoint_read. */
CRT_API const crt_method_t *crt_parameter_server_restore(void);

/* Makes a ParameterServer. `options` may be NULL; `optimizer` NULL: crt_adam_options(0.001). Caller
 * owns the handle and drops it with crt_actor_drop. Never NULL: an error of an argument or of the
 * actor is the error of its calls. */
CRT_API crt_actor_t *crt_parameter_server_new(const crt_actor_options_t *options,
                                              const crt_model_spec_t *spec,
                                              const crt_optimizer_options_t *optimizer);

/* ---------------------------------------------------------------- ShardServer */

/* The class ShardServer: owns a range of the weights of a model, and the optimizer state of that
 * range. Several shard servers on several nodes act as one ParameterServer: they make the same
 * updates, and their bytes use several links.
 *
 *     for (int s = 0; s < shards; s++)
 *         squares[s] = crt_call(server[s], crt_shard_server_measure(),
 *                               crt_arg_each(slices[s], workers));
 *     for (int s = 0; s < shards; s++)
 *         weights[s] = crt_call(server[s], crt_shard_server_apply(),
 *                               crt_arg_each(squares, shards));
 *
 * Create arguments: those of ParameterServer, then the index of the first weight and the number of
 * weights. */
CRT_API const crt_actor_class_t *crt_shard_server_class(void);

/* () -> the weights of this shard: a flat float32 tensor in the store. */
CRT_API const crt_method_t *crt_shard_server_get_weights(void);

/* (slice): replaces the weights of this shard; the state of the optimizer stays. Fails with
 * CRT_ERR_INVALID when the slice has the wrong size. */
CRT_API const crt_method_t *crt_shard_server_set_weights(void);

/* (slice of a gradient, ...) -> squares. Sums slices of gradients, at least one. Returns for
 * each array of the model the sum of the squares in the range of this shard. Fails with
 * CRT_ERR_INVALID when a slice has the wrong size. */
CRT_API const crt_method_t *crt_shard_server_measure(void);

/* (squares, ...) -> new weights of this shard. The arguments are the results of
 * crt_shard_server_measure of all shards. Makes one update with the gradients that were
 * measured last. Numbers that are not finite fail the call on all shards and change nothing. */
CRT_API const crt_method_t *crt_shard_server_apply(void);

/* Makes a ShardServer for the weights of `part`, see crt_shard_part. `options` may be NULL;
 * `optimizer` NULL: crt_adam_options(0.001). Caller owns the handle and drops it with
 * crt_actor_drop. Never NULL: an error of an argument or of the actor is the error of its calls. */
CRT_API crt_actor_t *crt_shard_server_new(const crt_actor_options_t *options,
                                          const crt_model_spec_t *spec,
                                          const crt_optimizer_options_t *optimizer,
                                          crt_part_t part);

/* The range of weights of shard number `shard` (0 to shards - 1) when `count` weights are
 * divided among `shards` shard servers. The sizes differ by one at most. */
CRT_API crt_part_t crt_shard_part(size_t count, int shard, int shards);

/* ---------------------------------------------------------------- DataWorker */

/* The data of one worker. `features` and `labels` are refs of tensors as crt_dataset_new takes
 * them; the worker maps the tensors and keeps them as long as the worker lives. */
typedef struct crt_data_spec {
    /* Set by CRT_DATA_SPEC. */
    size_t struct_size;
    crt_ref_t *features, *labels;
    int classes;
    /* Which part of the samples the worker reads (from 0), and the number of parts. 0 parts: the
     * default, one part with all samples. */
    int shard, shards;
    /* Samples of one batch. */
    int batch_size;
} crt_data_spec_t;
#define CRT_DATA_SPEC(...)                                                               \
    CRTI_VALUE(crt_data_spec_t, .struct_size = sizeof(crt_data_spec_t), __VA_ARGS__)

/* The class DataWorker: computes gradients on shuffled batches of its own, with dropout. The
 * seed of the model's spec determines the order of the batches and the dropout. Create
 * arguments: list of widths, dropout, seed, ref of the features, ref of the labels, classes,
 * shard, shards, batch. */
CRT_API const crt_actor_class_t *crt_data_worker_class(void);

/* (weights) -> gradient of the mean loss of the next batch: a flat float32 tensor in the
 * store. The gradient does not contain that of earlier batches. */
CRT_API const crt_method_t *crt_data_worker_compute_gradients(void);

/* (slice of the weights, ...) -> list of refs of the slices of the gradient. The slices have
 * the sizes of the arguments, and each is a separate flat float32 tensor in the store. Slices
 * of other nodes are fetched all at once. */
CRT_API const crt_method_t *crt_data_worker_compute_slices(void);

/* Makes a DataWorker. `options` may be NULL. Caller owns the handle and drops it with
 * crt_actor_drop. Never NULL: an error of an argument or of the actor is the error of
 * its calls. */
CRT_API crt_actor_t *crt_data_worker_new(const crt_actor_options_t *options,
                                         const crt_model_spec_t *spec,
                                         const crt_data_spec_t *data);

/* ---------------------------------------------------------------- ImageWorker */

/* The data of one ImageWorker, and how the worker sends its gradients. `features` and `labels`
 * are refs of tensors as crt_dataset_new takes them; the worker maps the tensors as long as
 * the worker lives. */
typedef struct crt_image_worker_spec {
    /* Set by CRT_IMAGE_WORKER_SPEC. */
    size_t struct_size;
    crt_ref_t *features, *labels;
    int classes;
    /* A name of crt_image_format. NULL: "mnist". "": samples of any kind, as they are. */
    const char *format;
    /* Which part of the samples the worker reads (from 0), and the number of parts. 0 parts: the
     * default, one part with all samples. */
    int shard, shards;
    /* Images of one batch, and batches that a thread makes ahead: see
     * crt_image_batches_options_t. */
    int batch_size, ahead;
    /* Distance from one batch number to the next, for workers that take turns with one order:
     * see crt_image_batches_options_t. 0: 1. */
    int stride;
    /* A name of crt_compression_parse. NULL: "none". */
    const char *compression;
    /* Part of the floats that the compression top_k sends. 0: its default. */
    double keep;
    /* How many times as long as usual the worker takes, for tests with a straggler. 0: 1. */
    double slowdown;
    /* For send_step: smallest number of floats of a piece. 0: 65536. */
    size_t piece_floats;
    /* "float32", "tf32" or "mixed": the worker computes on the first GPU of the actor
     * (`num_gpus` of its options), with compute_step only. NULL or "": on the CPU. */
    const char *precision;
} crt_image_worker_spec_t;
#define CRT_IMAGE_WORKER_SPEC(...)                                                       \
    CRTI_VALUE(crt_image_worker_spec_t, .struct_size = sizeof(crt_image_worker_spec_t),  \
               __VA_ARGS__)

/* The class ImageWorker: computes gradients of numbered batches, so that a repeated step gives
 * the same gradient. Create arguments: list of widths, dropout, seed, ref of the features, ref
 * of the labels, classes, and a map with the rest of crt_image_worker_spec_t by the names of
 * its members. */
CRT_API const crt_actor_class_t *crt_image_worker_class(void);

/* (number, weights) -> two results (crt_call_returns). The first is a list of loss, seconds
 * for the batch, seconds for the passes, seconds for encoding, bytes, and samples. The second
 * is the encoded gradient of the mean loss of batch `number`: a tensor of bytes, followed by
 * the statistics of batch norms as float32. A call that is cancelled before it encodes the
 * gradient ends there. */
CRT_API const crt_method_t *crt_image_worker_compute_step(void);

/* (number, weights, step, server, worker) -> list of loss, seconds for the batch, seconds for
 * the passes, seconds for encoding, bytes, and samples. Sends the gradient of batch `number`
 * to the ParameterServer `server`, as deposits of worker number `worker` for `step`. Each
 * piece is sent as soon as its layers are final, while the worker computes the others. Fails
 * with CRT_ERR_OBJECT_LOST when the server died meanwhile. */
CRT_API const crt_method_t *crt_image_worker_send_step(void);

/* Makes an ImageWorker. `options` may be NULL. Caller owns the handle and drops it with
 * crt_actor_drop. Never NULL: an error of an argument or of the actor is the error of
 * its calls. */
CRT_API crt_actor_t *crt_image_worker_new(const crt_actor_options_t *options,
                                          const crt_model_spec_t *spec,
                                          const crt_image_worker_spec_t *data);

/* ---------------------------------------------------------------- buckets */

/* Averages a flat gradient over a group while the gradient is still being computed. Floats
 * become final from the last to the first (crt_model_watch_gradients), and the sum of each
 * bucket starts as soon as all of its floats are final. For any model; crt_replica_t does this
 * for models of crt_ml.h.
 *
 *     compute into crt_buckets_gradients, calling crt_buckets_seen -> crt_buckets_finish
 *
 * Every member makes the same calls with the same sizes. One thread at a time uses the
 * buckets. */
typedef struct crt_buckets crt_buckets_t;

/* Options of buckets. Zero is the default of every member. */
typedef struct crt_buckets_options {
    /* Set by CRT_BUCKETS_OPTIONS. */
    size_t struct_size;
    /* Bytes of float32 in one bucket. 0: 1 MiB, from 16 members on 64 KiB for each member. */
    size_t bucket_bytes;
    /* No sum starts before crt_buckets_finish; for comparisons. */
    bool at_end;
    /* Gradients are sent as bfloat16, half the bytes, and summed in float32. */
    bool bfloat16;
    /* Each member gets the average of its own parts only. */
    bool scatter;
} crt_buckets_options_t;
#define CRT_BUCKETS_OPTIONS(...)                                                         \
    CRTI_CONSTANT(crt_buckets_options_t, .struct_size = sizeof(crt_buckets_options_t),   \
                  __VA_ARGS__)

/* Makes buckets for gradients of `count` floats. `group` must outlive the buckets; after
 * crt_group_rebuild new buckets are needed. `options` may be NULL. Caller owns the result
 * and drops it with crt_buckets_drop.
 *
 * Errors: CRT_ERR_INVALID, when `count` is 0 or `options` was not made with
 * CRT_BUCKETS_OPTIONS; CRT_ERR_UNSUPPORTED, when the program sets an option that only a newer
 * version has; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_buckets_new(crt_group_t *group, size_t count,
                                     const crt_buckets_options_t *options,
                                     crt_buckets_t **buckets_out);

/* The flat tensor that the program computes the gradient into. Members on one node sum this
 * memory in place. Borrowed: valid until the buckets are freed. Between crt_buckets_seen and
 * crt_buckets_finish the program must not write to the floats that are final. */
CRT_API const crt_tensor_t *crt_buckets_gradients(crt_buckets_t *buckets);

/* Tells that all floats from index `first` on are final. `buckets` is a crt_buckets_t, so that
 * the function fits crt_model_watch_gradients. crt_buckets_finish reports a failure. */
CRT_API void crt_buckets_seen(void *buckets, size_t first);

/* Tells that all floats are final, and waits until every bucket is averaged. After a failure
 * the gradients are undefined, and no operation is pending.
 *
 * Errors: CRT_ERR_TIMED_OUT, when a member does not come within the limit of the group;
 * CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died; CRT_ERR_CLOSED,
 * when a member left the group; CRT_ERR_CANCELLED, when the group failed earlier and was not
 * rebuilt; CRT_ERR_INVALID, when the calls of the members differ. */
CRT_API crt_status_t crt_buckets_finish(crt_buckets_t *buckets);

/* The parts of the gradient that this member has the average of: one part with all floats, or
 * with `scatter` one part of each bucket. *count_out is the number of parts. Borrowed: valid
 * until the buckets are freed. */
CRT_API const crt_part_t *crt_buckets_parts(const crt_buckets_t *buckets,
                                            size_t *count_out);

/* With `scatter`: gives every member all parts of `values`, a flat tensor of which each member
 * has its own parts. Without `scatter` the call does nothing. On failure `values` is
 * unchanged.
 *
 * Errors: CRT_ERR_INVALID, when `values` has another number of floats than the buckets;
 * CRT_ERR_TIMED_OUT, when a member does not come within the limit of the group;
 * CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died; CRT_ERR_CLOSED,
 * when a member left the group; CRT_ERR_CANCELLED, when the group failed earlier and was not
 * rebuilt; CRT_ERR_INVALID, when the calls of the members differ. */
CRT_API crt_status_t crt_buckets_gather(crt_buckets_t *buckets,
                                        const crt_tensor_t *values);

/* Frees buckets and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_buckets_drop(crt_buckets_t **buckets);

/* ---------------------------------------------------------------- replicas */

/* One member's copy of a model that a group trains. Each member computes gradients of its own
 * batches, and all members make the same update with the average, so that all copies stay
 * identical bit for bit. For use inside an actor; crt_trainer is such an actor. One thread at
 * a time uses a replica.
 *
 * A model on a GPU needs a group of the backend "nccl", with the device of the model and
 * crt_model_stream. A gradient that is not finite is then reported by the step after it. */
typedef struct crt_replica crt_replica_t;

/* Options of a replica. Zero is the default of every member. */
typedef struct crt_replica_options {
    /* Set by CRT_REPLICA_OPTIONS. */
    size_t struct_size;
    /* NULL: Adam with a learn rate of 0.001. */
    const crt_optimizer_options_t *optimizer;
    /* The averaged gradient as a whole is scaled to at most this norm. 0: no scaling, except
     * by global_clip of `optimizer`. */
    double clip;
    /* Each member keeps the optimizer state of its own parts of the weights only. */
    bool sharded;
    /* Gradients are summed after the backward pass, not during it. */
    bool at_end;
    /* Gradients are sent as bfloat16. */
    bool bfloat16;
    /* Size of a bucket, see crt_buckets_options_t. */
    size_t bucket_bytes;
    /* Batch norms compute mean and variance over the batches of all members. */
    bool sync_norms;
    /* For one member of a group, or none: the path of a checkpoint that the group begins with, and
     * the name of its network, see crt_checkpoint_read. NULL: none. */
    const char *checkpoint;
    const char *network;
} crt_replica_options_t;
#define CRT_REPLICA_OPTIONS(...)                                                         \
    CRTI_CONSTANT(crt_replica_options_t, .struct_size = sizeof(crt_replica_options_t),   \
                  __VA_ARGS__)

/* Collective. Makes a replica of `model`. All members get the weights and the optimizer state
 * of the member that has made most steps (among equals: that of the lowest rank), so that a
 * new member starts where the others are. `group` and `model` must outlive the replica.
 * `options` may be NULL. Caller owns the result and drops it with crt_replica_drop.
 *
 * Errors: CRT_ERR_INVALID, when an option is wrong or the calls of the members differ;
 * CRT_ERR_UNSUPPORTED, when the program sets an option that only a newer version has, or, for a
 * model on a GPU, `sharded`, `bfloat16` or `sync_norms`; CRT_ERR_NO_MEMORY; and those of the
 * group: CRT_ERR_TIMED_OUT, CRT_ERR_ACTOR_DIED, CRT_ERR_NODE_LOST, CRT_ERR_CLOSED,
 * CRT_ERR_CANCELLED. */
CRT_API crt_status_t crt_replica_new(crt_group_t *group, crt_model_t *model,
                                     const crt_replica_options_t *options,
                                     crt_replica_t **replica_out);

/* Computes the gradient of a batch, and keeps it: the next crt_replica_step averages it with that
 * of its own batch. Any number of batches may be accumulated, the same on all members. The
 * gradients are discarded by that step, whatever its result, and by crt_replica_recover. *loss_out
 * (`loss_out` may be NULL) is the loss of the batch. Collective with `sync_norms`, else not.
 *
 * Errors: those of crt_model_compute_gradients: CRT_ERR_INVALID, when the batch does not fit the
 * model; CRT_ERR_NO_MEMORY; with `sync_norms` those of the group, as in crt_replica_step. */
CRT_API crt_status_t crt_replica_accumulate(crt_replica_t *replica,
                                            const crt_batch_t *batch, double *loss_out);

/* Collective. Makes one update with the average of the gradients of all members. *loss_out
 * (`loss_out` may be NULL) is the loss of this member. After a failure of the group call
 * crt_replica_recover; then the step may be repeated.
 *
 * Errors: CRT_ERR_INVALID on all members, when a gradient is not finite: nothing changes;
 * CRT_ERR_INVALID or CRT_ERR_UNSUPPORTED, when `batch` is one of another version; and
 * those of the group: CRT_ERR_TIMED_OUT, when a member does not come within the limit of the
 * group; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died;
 * CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED, when the group failed
 * earlier and was not rebuilt; CRT_ERR_INVALID, when the calls of the members differ. */
CRT_API crt_status_t crt_replica_step(crt_replica_t *replica, const crt_batch_t *batch,
                                      double *loss_out);

/* Collective, after the group has failed. Rebuilds the group (`size` as in
 * crt_group_rebuild) and gives all members the same weights again. At most the failed
 * step is lost. With `sharded` the optimizer state of parts that no living member has starts
 * anew. If the call fails, call it again.
 *
 * If crt_replica_compare failed here and succeeded on another member, the call may return
 * CRT_OK at once. Then crt_replica_compare succeeds too, the next step fails, and all members
 * recover.
 *
 * Errors: those of crt_group_rebuild: CRT_ERR_TIMED_OUT, when members did not come;
 * CRT_ERR_CLOSED, when the group was rebuilt without this member; CRT_ERR_INVALID, when `size`
 * is wrong; CRT_ERR_NO_MEMORY; and those of an operation of the group: CRT_ERR_ACTOR_DIED,
 * CRT_ERR_NODE_LOST. */
CRT_API crt_status_t crt_replica_recover(crt_replica_t *replica, int size);

/* Collective. Checks that the weights of all members are identical bit for bit. If a member
 * dies during the call, the comparison counts if it succeeded on any other member; members on
 * which it failed call crt_replica_recover and then this function again.
 *
 * Errors: CRT_ERR_CORRUPT, when the weights differ (the text names the ranks);
 * CRT_ERR_NO_MEMORY; and those of the group: CRT_ERR_TIMED_OUT, when a member does not come
 * within the limit of the group; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its
 * node died; CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED, when the group
 * failed earlier and was not rebuilt; CRT_ERR_INVALID, when the calls of the members differ. */
CRT_API crt_status_t crt_replica_compare(crt_replica_t *replica);

/* Collective, after crt_replica_compare. Rank 0 writes a checkpoint with crt_checkpoint_write: the
 * weights, the whole state of the optimizer, and the numbers of steps and batches. `step` and
 * `batches` of `checkpoint` are not read. On the other members the call only gives rank 0 their
 * parts of a sharded state.
 *
 * Errors: on rank 0 those of crt_checkpoint_write: CRT_ERR_IO, CRT_ERR_NOT_FOUND,
 * CRT_ERR_PERMISSION, CRT_ERR_INVALID, CRT_ERR_UNSUPPORTED, CRT_ERR_NO_MEMORY; with `sharded` those
 * of the group, as in crt_replica_step. */
CRT_API crt_status_t crt_replica_save(crt_replica_t *replica, const char *folder,
                                      const crt_checkpoint_t *checkpoint, int keep);

/* The number of steps that the weights have made. */
CRT_API uint64_t crt_replica_steps(const crt_replica_t *replica);
/* The number of batches that all members together have taken in these steps, also those that were
 * accumulated. With numbered batches (crt_images.h) rank r of n takes number batches + r in a step,
 * and a group that shrinks or grows goes on in the same order. */
CRT_API uint64_t crt_replica_batches(const crt_replica_t *replica);
/* A hash of the weights: equal on members whose weights are identical bit for bit. */
CRT_API uint64_t crt_replica_hash(const crt_replica_t *replica);
/* Sets whether gradients are summed after the backward pass (true) or during it (false), from
 * the next step on. All members set the same value. */
CRT_API void crt_replica_set_at_end(crt_replica_t *replica, bool at_end);

/* Frees a replica and sets the pointer to NULL. The caller still owns the group and the model.
 * NULL is allowed. */
CRT_API void crt_replica_drop(crt_replica_t **replica);

/* ---------------------------------------------------------------- Trainer */

/* The effect of the death of a member on a training. */
typedef enum crt_on_death {
    /* crt_trainer_train fails on all members. */
    CRT_DEATH_FAILS = 0,
    /* The other members continue without the dead member. */
    CRT_DEATH_SHRINKS = 1,
    /* The other members wait for a replacement, see crt_trainer_join. */
    CRT_DEATH_REPLACES = 2
} crt_on_death_t;

/* The class Trainer: a replica of a model that trains on its own shard of the data. Create
 * arguments: those of DataWorker, then a map with the optimizer options of a ParameterServer
 * and "clip", "sharded", "at_end", "bfloat16", "sync_norms" and "bucket_bytes". */
CRT_API const crt_actor_class_t *crt_trainer_class(void);

/* (group name, size, rank) -> own rank. Joins the group; call it on all trainers at once. With
 * rank CRT_RANK_ANY the trainer takes the place of a dead one. Waits for the other trainers,
 * at most 60 s. */
CRT_API const crt_method_t *crt_trainer_join(void);

/* (steps, on_death, at_end) -> map. Trains until the replica has made `steps` steps in all,
 * and then compares all replicas. The map has "steps", "loss" (mean of the losses of this
 * trainer in this call), "seconds", "hash" of the weights (16 hexadecimal digits), "size" of
 * the group, and "recoveries". Call it on all trainers at once, with the same arguments. */
CRT_API const crt_method_t *crt_trainer_train(void);

/* () -> weights: a flat float32 tensor in the store. */
CRT_API const crt_method_t *crt_trainer_get_weights(void);

/* (weights): replaces the weights. Call it before crt_trainer_join. */
CRT_API const crt_method_t *crt_trainer_set_weights(void);

/* Makes a Trainer. `model->seed` determines its batches and its dropout; the first weights are
 * those of rank 0. `options` may be NULL. Caller owns the handle and drops it with
 * crt_actor_drop. Never NULL: an error of an argument or of the actor is the error of
 * its calls. */
CRT_API crt_actor_t *crt_trainer_new(const crt_actor_options_t *options,
                                     const crt_model_spec_t *model,
                                     const crt_data_spec_t *data,
                                     const crt_replica_options_t *replica);

/* ---------------------------------------------------------------- waiting for members */

/* Waits until the `create` of each of `count` actors has ended, all of them within `limit_ms`
 * milliseconds: for programs whose actors need CPUs or GPUs that others may have. `cpus` and `gpus`
 * are what each actor was made with, for the text of an error. Any thread may call.
 *
 * Errors: CRT_ERR_TIMED_OUT, when one has not come (the text says which one, what each needs, what
 * of it is free in the cluster, and which actors have the GPUs); else the error of `create`, or of
 * an actor that is dead or was not made; those of crt_actor_ready. */
CRT_API crt_status_t crt_members_ready(crt_actor_t *const *members, int count,
                                       double cpus, double gpus, int64_t limit_ms);

#ifdef __cplusplus
}
#endif

#endif
