/* SPDX-License-Identifier: Apache-2.0 */
/* Ready-made actors that train models: a parameter server, or several that share the weights, and
 * data workers; and trainers that sum their gradients among themselves. Below them, for programs of any
 * kind: pools of actors, queues, and progress.
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
 * &crt_data_worker). They are in a library of their own:
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

/* A perceptron as crt_mlp_new makes it. */
typedef struct crt_mlp_spec {
    const int *widths; /* inputs, hidden widths, classes, 0 */
    double dropout;
    uint64_t seed; /* below 2^63 */
    /* NULL, or a name of crt_networks.h: `widths` are then height, width, channels, classes, 0, and the network has
     * a dropout of its own. Where an actor is created with a "list of widths", the name stands before them. */
    const char *network;
} crt_mlp_spec_t;

/* ---------------------------------------------------------------- ParameterServer */

/* Owns the weights of a model and its optimizer. Workers whose gradients are applied need
 * equal widths only. Create arguments: list of widths, dropout, seed, and a map with "optimizer"
 * ("adam", the default, or "sgd") and the options of crt_optimizer_options_t by their names. */
extern CRT_API const crt_actor_class_t crt_parameter_server;

/* () -> weights: a flat float32 tensor in the store, and behind them, if the network has batch norms, their
 * statistics, as in every answer with new weights below. Workers take both. */
extern CRT_API const crt_method_t crt_parameter_server_get_weights;

/* (weights): replaces the weights, and the statistics if they stand behind them; the optimizer's state stays. */
extern CRT_API const crt_method_t crt_parameter_server_set_weights;

/* (gradient, gradient, ...) -> new weights. Sums any number of flat gradients, at least
 * one, and makes one update of the sum. A gradient of the wrong size or with numbers that
 * are not finite fails the call and changes nothing. */
extern CRT_API const crt_method_t crt_parameter_server_apply_gradients;

/* (step, encoded gradient, ...) -> new weights. One update with the average of what arrived: tensors of bytes as
 * crt_compressor_encode makes them, with the float32 statistics of batch norms, which are averaged, too, behind them. `step` is how many updates the caller knows of. Nothing changes when there were
 * more (CRT_ERR_INVALID) or, after a restart of the server, fewer (CRT_ERR_OBJECT_LOST). */
extern CRT_API const crt_method_t crt_parameter_server_apply_step;

/* (step, worker, first, count, encoded floats): a piece of worker number `worker`'s gradient of `step`, behind which
 * lie the statistics; it is kept. Pieces of a worker come from the end to the beginning, while it still computes the
 * others. Those of a step that is over are dropped. CRT_ERR_OBJECT_LOST as above. */
extern CRT_API const crt_method_t crt_parameter_server_deposit;

/* (step, worker, ...) -> new weights. One update with the average of what these workers have deposited, as of
 * apply_step. CRT_ERR_OBJECT_LOST also when one of them is not there as a whole. */
extern CRT_API const crt_method_t crt_parameter_server_apply_deposits;

/* (folder, network, step, seed, is last, keep): writes a checkpoint, see crt_checkpoint_write; `step` as above. */
extern CRT_API const crt_method_t crt_parameter_server_save;

/* (path, network) -> step. Goes on from a checkpoint: weights, optimizer and steps are those of the file. */
extern CRT_API const crt_method_t crt_parameter_server_restore;

/* Makes a ParameterServer. Caller owns the handle and drops it with crt_actor_drop. Never
 * NULL. */
CRT_API crt_actor_t *crt_parameter_server_new(const crt_actor_options_t *options,
                                              const crt_mlp_spec_t *spec,
                                              const crt_optimizer_options_t *optimizer);

/* ---------------------------------------------------------------- ShardServer */

/* Owns a range of the weights of a model, and the optimizer's state for it: several of them, on
 * several nodes, are one ParameterServer whose bytes go by several links, and make the same updates.
 *
 *     for (int s = 0; s < shards; s++)
 *         squares[s] = crt_call(server[s], &crt_shard_server_measure, crt_spread(slices[s], workers));
 *     for (int s = 0; s < shards; s++)
 *         weights[s] = crt_call(server[s], &crt_shard_server_apply, crt_spread(squares, shards));
 *
 * Create arguments: those of ParameterServer, then the first weight and how many there are. */
extern CRT_API const crt_actor_class_t crt_shard_server;

/* () -> its slice of the weights: a flat float32 tensor in the store. */
extern CRT_API const crt_method_t crt_shard_server_get_weights;

/* (slice): replaces its slice; the optimizer's state stays. */
extern CRT_API const crt_method_t crt_shard_server_set_weights;

/* (slice of a gradient, ...) -> squares. Sums slices of gradients, at least one, and gives for each array
 * of the model the sum of the squares in its range. A slice of the wrong size fails the call. */
extern CRT_API const crt_method_t crt_shard_server_measure;

/* (squares, ...) -> its slice of the new weights. With what all shards measured: makes one update of
 * the gradients that were measured last. Numbers that are not finite fail the call on all
 * shards and change nothing. */
extern CRT_API const crt_method_t crt_shard_server_apply;

/* Makes a ShardServer. Caller owns the handle and drops it with crt_actor_drop. Never NULL. */
CRT_API crt_actor_t *crt_shard_server_new(const crt_actor_options_t *options,
                                          const crt_mlp_spec_t *spec,
                                          const crt_optimizer_options_t *optimizer,
                                          crt_part_t part);

/* The range of shard number `shard` of `shards` when `count` weights are divided among them: sizes
 * differ by one at most. */
CRT_API crt_part_t crt_shard_part(size_t count, int shard, int shards);

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

/* (slice of the weights, ...) -> list of refs, of the gradient's slices: of the same sizes, each a flat
 * float32 tensor of its own in the store. Slices of other nodes come here all at once. */
extern CRT_API const crt_method_t crt_data_worker_compute_slices;

/* Makes a DataWorker. Caller owns the handle and drops it with crt_actor_drop. Never
 * NULL. */
CRT_API crt_actor_t *crt_data_worker_new(const crt_actor_options_t *options,
                                         const crt_mlp_spec_t *spec,
                                         const crt_data_spec_t *data);

/* ---------------------------------------------------------------- ImageWorker */

/* What one worker computes gradients of: refs of tensors as crt_dataset_new takes them, mapped as long as it
 * lives, and how it sends them. */
typedef struct crt_image_worker_spec {
    crt_ref_t *features, *labels;
    int classes;
    const char *format;      /* of crt_image_format */
    int shard, shards;       /* its part of the samples; 0 of 1: all of them */
    int batch, ahead;        /* as in crt_image_batches_options_t */
    int stride;              /* likewise: for workers that take turns with one order */
    const char *compression; /* of crt_compression_find */
    double keep;             /* of top_k; 0: its default */
    double
        slowdown; /* 1; 10: takes ten times as long, to try out what a straggler does */
    size_t piece; /* of send_step: least floats of a piece; 0: 65536 */
    /* "float32", "tf32" or "mixed": computes on the first GPU that the actor has (`num_gpus` of its options), with
     * compute_step only. NULL or "": on the CPU. */
    const char *precision;
} crt_image_worker_spec_t;

/* Computes gradients of numbered batches, so that a step that is made again gives the same. Create arguments: list of
 * widths, dropout, seed, ref of the features, ref of the labels, classes, a map with the rest of the spec by its names. */
extern CRT_API const crt_actor_class_t crt_image_worker;

/* (number, weights) -> two results (crt_call_returns): a list of loss, seconds for the batch, for the passes and for encoding,
 * bytes, and samples; and the encoded gradient of the mean loss of that batch, a tensor of bytes, the statistics that
 * batch norms have after it as float32 at its end. A call that is cancelled
 * before it encodes ends there. */
extern CRT_API const crt_method_t crt_image_worker_compute_step;

/* (number, weights, step, server, worker) -> the same list. The gradient of that batch goes to a ParameterServer, for that
 * step, as deposits of worker number `worker`, each as soon as its layers are final: while the others are computed.
 * CRT_ERR_OBJECT_LOST: the server died meanwhile. */
extern CRT_API const crt_method_t crt_image_worker_send_step;

/* Makes an ImageWorker. Caller owns the handle and drops it with crt_actor_drop. Never NULL. */
CRT_API crt_actor_t *crt_image_worker_new(const crt_actor_options_t *options,
                                          const crt_mlp_spec_t *spec,
                                          const crt_image_worker_spec_t *data);

/* ---------------------------------------------------------------- buckets */

/* Averages a flat gradient over a group while it is still being computed: floats become final from
 * the last to the first (crt_model_watch_gradients), and each bucket's sum starts as soon as all of
 * it is final. For any model; `crt_replica_t` below does it for models of crt_ml.h.
 *
 *     compute into crt_buckets_gradients, telling crt_buckets_seen -> crt_buckets_finish
 *
 * Every member makes the same calls with the same sizes. Used by one thread at a time. */
typedef struct crt_buckets crt_buckets_t;

typedef struct crt_buckets_options {
    size_t struct_size;
    /* Of float32 in one bucket; default 1 MiB, from 16 members on 64 KiB for each. */
    size_t bucket_bytes;
    bool at_end;   /* no sum starts before crt_buckets_finish: to compare with */
    bool bfloat16; /* gradients travel as bfloat16, half the bytes; summed in float32 */
    bool scatter;  /* each member gets the average of its own parts only */
} crt_buckets_options_t;
#define CRT_BUCKETS_OPTIONS(...)                                                         \
    CRTI_CONSTANT(crt_buckets_options_t, .struct_size = sizeof(crt_buckets_options_t),   \
                  __VA_ARGS__)

/* Buckets for gradients of `count` floats. `group` must outlive the buckets; after crt_collective_rebuild
 * new buckets are needed. `options` may be NULL. Caller owns the result and frees it with
 * crt_buckets_free. */
CRT_API crt_status_t crt_buckets_new(crt_group_t *group, size_t count,
                                     const crt_buckets_options_t *options,
                                     crt_buckets_t **buckets_out);

/* Where the gradient is computed into: flat, in memory that members on one node sum in place.
 * Borrowed: valid until the buckets are freed; not to be written between crt_buckets_seen and
 * crt_buckets_finish where it is final. */
CRT_API const crt_tensor_t *crt_buckets_gradients(crt_buckets_t *buckets);

/* All floats from `first` on are final. `buckets` is a crt_buckets_t: fits
 * crt_model_watch_gradients. crt_buckets_finish reports a failure. */
CRT_API void crt_buckets_seen(void *buckets, size_t first);

/* All floats are final: waits until every bucket is averaged. On failure (that of the group, as
 * crt_collective.h tells) the gradients are undefined, and nothing is under way any more. */
CRT_API crt_status_t crt_buckets_finish(crt_buckets_t *buckets);

/* The parts that this member has the average of: one part that is everything, or with `scatter` one
 * of each bucket. Borrowed: valid until the buckets are freed. */
CRT_API const crt_part_t *crt_buckets_parts(const crt_buckets_t *buckets,
                                            size_t *count_out);

/* With `scatter`: gives every member all parts of `values` (flat), of which each has its own.
 * Without: does nothing. On failure `values` is unchanged. */
CRT_API crt_status_t crt_buckets_gather(crt_buckets_t *buckets,
                                        const crt_tensor_t *values);

/* Frees buckets; NULL is fine. */
CRT_API void crt_buckets_free(crt_buckets_t *buckets);

/* ---------------------------------------------------------------- replicas */

/* One member's copy of a model that a group trains: each member computes gradients of its own
 * batches, all make the same update with their average, so that all copies stay bit-identical.
 * For use inside an actor; `crt_trainer` below is one. Used by one thread at a time. */
typedef struct crt_replica crt_replica_t;

typedef struct crt_replica_options {
    size_t struct_size;
    const crt_optimizer_options_t *optimizer; /* default: Adam, 0.001 */
    double clip; /* norm that the averaged gradient as a whole is scaled to; 0: never */
    bool
        sharded; /* each member keeps the optimizer's state of its parts of the weights only */
    bool at_end;         /* gradients are summed after the backward pass, not during it */
    bool bfloat16;       /* gradients travel as bfloat16 */
    size_t bucket_bytes; /* as in crt_buckets_options_t */
    bool
        sync_norms; /* batch norms take mean and variance over the batches of all members */
} crt_replica_options_t;
#define CRT_REPLICA_OPTIONS(...)                                                         \
    CRTI_CONSTANT(crt_replica_options_t, .struct_size = sizeof(crt_replica_options_t),   \
                  __VA_ARGS__)

/* Collective. All members get weights and optimizer state of the one that has made most steps (of
 * several: the lowest rank), so that a newcomer starts where the others are. `group` and `model`
 * must outlive the replica. Caller owns the result and frees it with crt_replica_free. */
CRT_API crt_status_t crt_replica_new(crt_group_t *group, crt_model_t *model,
                                     const crt_replica_options_t *options,
                                     crt_replica_t **replica_out);

/* Collective. One update with the average of all members' gradients; `loss_out` (may be NULL) gets
 * this member's own loss. Fails as crt_collective.h tells when a member dies: then
 * crt_replica_recover, and the step may be made again. A gradient that is not finite fails on all
 * members with CRT_ERR_INVALID and changes nothing. */
CRT_API crt_status_t crt_replica_step(crt_replica_t *replica, const crt_batch_t *batch,
                                      double *loss_out);

/* Collective, after the group has failed: rebuilds it (`size` as in crt_collective_rebuild) and
 * gives all members the same weights again. At most the step that failed is lost. With `sharded`
 * the state of the parts that nobody living has begins anew. May be called again when it fails.
 * When a comparison failed here that succeeded on another member it may give CRT_OK at once: then
 * crt_replica_compare succeeds, too, and the next step fails, after which all recover. */
CRT_API crt_status_t crt_replica_recover(crt_replica_t *replica, int size);

/* Collective. CRT_ERR_CORRUPT, naming the ranks, when the members' weights are not the same to the
 * bit. When a member dies in it, it counts if it succeeded on any other: those on which it failed
 * recover and call it again. */
CRT_API crt_status_t crt_replica_compare(crt_replica_t *replica);

/* How many steps the weights have made. */
CRT_API uint64_t crt_replica_steps(const crt_replica_t *replica);
/* A hash of the weights: equal on members whose weights are the same to the bit. */
CRT_API uint64_t crt_replica_hash(const crt_replica_t *replica);
/* Whether gradients are summed after the backward pass from the next step on; the same on all
 * members. */
CRT_API void crt_replica_set_at_end(crt_replica_t *replica, bool at_end);

/* Frees a replica; group and model are the caller's. NULL is fine. */
CRT_API void crt_replica_free(crt_replica_t *replica);

/* ---------------------------------------------------------------- Trainer */

/* What becomes of a training of which a member dies. */
typedef enum crt_on_death {
    CRT_DEATH_FAILS = 0,   /* crt_trainer_train fails on all members */
    CRT_DEATH_SHRINKS = 1, /* the others go on without it */
    CRT_DEATH_REPLACES = 2 /* they wait for another one, see crt_trainer_join */
} crt_on_death_t;

/* A replica of a perceptron that trains on its own shard of the data. Create arguments: those of
 * DataWorker, then a map with what the optimizer of a ParameterServer is told by, "clip", "sharded",
 * "at_end", "bfloat16", "sync_norms" and "bucket_bytes". */
extern CRT_API const crt_actor_class_t crt_trainer;

/* (group name, size, rank) -> own rank. Called on all trainers at once; rank CRT_RANK_ANY takes the
 * place of a dead one. Waits for the others, at most 60 s. */
extern CRT_API const crt_method_t crt_trainer_join;

/* (steps, on_death, at_end) -> map. Trains until the replica has made that many steps in all, and
 * compares all replicas then. The map: "steps", "loss" (the mean of this call's own losses),
 * "seconds", "hash" of the weights (16 hex digits), "size" of the group, "recoveries". Called on all
 * trainers at once, with the same arguments. */
extern CRT_API const crt_method_t crt_trainer_train;

/* () -> weights: a flat float32 tensor in the store. */
extern CRT_API const crt_method_t crt_trainer_get_weights;

/* (weights): replaces the weights; to be called before crt_trainer_join. */
extern CRT_API const crt_method_t crt_trainer_set_weights;

/* Makes a Trainer. `model->seed` draws its batches and its dropout, the weights are those of rank 0.
 * Caller owns the handle and drops it with crt_actor_drop. Never NULL. */
CRT_API crt_actor_t *crt_trainer_new(const crt_actor_options_t *options,
                                     const crt_mlp_spec_t *model,
                                     const crt_data_spec_t *data,
                                     const crt_replica_options_t *replica);

/* ---------------------------------------------------------------- ActorPool */

/* Gives calls to whichever of its actors is free: each runs one at a time, the others wait in the pool.
 *
 *     static crt_ref_t *square(crt_actor_t *actor, void *user)
 *     {
 *         return crt_call(actor, &calculator_square, *(int *)user);
 *     }
 *     ...
 *     for (int i = 0; i < 100; i++)
 *         CRT_CHECK(crt_pool_submit(pool, square, &numbers[i]));
 *     while (crt_pool_has_next(pool)) {
 *         CRT_CHECK(crt_pool_next(pool, -1, &ref));
 *         ...
 *         crt_ref_drop(&ref);
 *     }
 *
 * Calls begin when they are submitted, or while another one's result is waited for. An actor that has
 * died for good leaves the pool: the call that it ran has the error, no other does. Used by one thread at
 * a time. */
typedef struct crt_pool crt_pool_t;

/* Makes the call and returns its result, as crt_call gives it. */
typedef crt_ref_t *(*crt_pool_call_t)(crt_actor_t *actor, void *user);

/* A pool of `count` actors; 0 is fine, see crt_pool_push. It has a hold on each of its own. Caller owns the
 * result and frees it with crt_pool_free. CRT_ERR_INVALID: an actor is no handle. */
CRT_API crt_status_t crt_pool_new(crt_actor_t *const *actors, size_t count,
                                  crt_pool_t **pool_out);

/* Has `call` made with an actor that is free: now, or when one becomes free. `user` is valid until
 * then, at the latest until the result was taken. */
CRT_API crt_status_t crt_pool_submit(crt_pool_t *pool, crt_pool_call_t call, void *user);

/* True when there are calls whose results were not taken. */
CRT_API bool crt_pool_has_next(const crt_pool_t *pool);

/* Waits for the result of the call that was submitted first, or for any one that is ready (then in the order in
 * which they ended), and takes it; both may be used in turns. Caller owns the ref, which is ready, with a
 * value or an error, and drops it with crt_ref_drop. `wait_ms` as for crt_get_v. CRT_ERR_NOT_FOUND: all
 * were taken; CRT_ERR_TIMED_OUT: it may be asked again; CRT_ERR_ACTOR_DIED: calls wait, and no actor is
 * left. */
CRT_API crt_status_t crt_pool_next(crt_pool_t *pool, int64_t wait_ms,
                                   crt_ref_t **result_out);
CRT_API crt_status_t crt_pool_next_ready(crt_pool_t *pool, int64_t wait_ms,
                                         crt_ref_t **result_out);

/* True when a call that is submitted begins at once, as far as was seen by the last wait. */
CRT_API bool crt_pool_has_free(const crt_pool_t *pool);

/* Adds an actor, of which the pool has a hold of its own. */
CRT_API crt_status_t crt_pool_push(crt_pool_t *pool, crt_actor_t *actor);
/* Takes an idle actor out. Caller owns the handle and drops it with crt_actor_drop. CRT_ERR_NOT_FOUND:
 * none is idle. */
CRT_API crt_status_t crt_pool_pop(crt_pool_t *pool, crt_actor_t **actor_out);

/* Frees a pool, with the results that were not taken; its actors live on. NULL is fine. */
CRT_API void crt_pool_free(crt_pool_t *pool);

/* ---------------------------------------------------------------- Queue */

/* A queue of refs that any process may put into and get from, by the actor's handle. Items are got in the
 * order in which they were put, each by one. The values stay where they are: an item whose owner has ended
 * before it was got has that error. A program that uses it lists it: CRT_CLASSES(&crt_queue).
 * Who waits because the queue is full or empty asks it again, at most every 20 ms, so that waiting needs no
 * thread of the actor; among several that wait the order is not kept.
 * Timeouts are as for crt_get_v: 0 does not wait for the queue, < 0 has no limit. They end the wait for
 * room or for items; the actor itself has 1 s more to answer, since the answer may hold an item. When the queue's actor ends, so do all waits, with
 * CRT_ERR_ACTOR_DIED. Items got by a process that ends then are gone.
 * Create argument: how many items it holds, 0 for no limit. */
extern CRT_API const crt_actor_class_t crt_queue;

/* Makes a queue. Caller owns the handle and drops it with crt_actor_drop. Never NULL. */
CRT_API crt_actor_t *crt_queue_new(const crt_actor_options_t *options, size_t capacity);

/* Puts an item, or up to 10000 at once: all of them or none. They stay the caller's, too. CRT_ERR_TIMED_OUT:
 * the queue was full; CRT_ERR_INVALID: more than it ever holds. */
CRT_API crt_status_t crt_queue_put(crt_actor_t *queue, crt_ref_t *item, int64_t wait_ms);
CRT_API crt_status_t crt_queue_put_batch(crt_actor_t *queue, crt_ref_t *const *items,
                                         size_t count, int64_t wait_ms);

/* Gets the first item, or waits for one and gets up to `most`, at most 10000, of those that are there. Caller owns the
 * refs and drops them with crt_ref_drop. CRT_ERR_TIMED_OUT: the queue was empty. */
CRT_API crt_status_t crt_queue_get(crt_actor_t *queue, int64_t wait_ms,
                                   crt_ref_t **item_out);
CRT_API crt_status_t crt_queue_get_batch(crt_actor_t *queue, size_t most, int64_t wait_ms,
                                         crt_ref_t **items_out, size_t *count_out);

/* How many items it held a moment ago. */
CRT_API crt_status_t crt_queue_size(crt_actor_t *queue, size_t *size_out);

/* ---------------------------------------------------------------- Progress */

/* Counts the steps of many workers, and draws them as one bar at the driver:
 *
 *     progress = crt_progress_new(NULL, "images", 1000);
 *     for (int i = 0; i < 10; i++)
 *         refs[i] = crt_submit(&resize, NULL, progress, i);    each calls crt_progress_add
 *     CRT_CHECK(crt_progress_wait(progress, refs, 10, -1));
 *
 * A program that uses it lists it: CRT_CLASSES(&crt_progress). Create arguments: a label of up to 80 bytes,
 * and how many steps there will be, 0 where that is not known. */
extern CRT_API const crt_actor_class_t crt_progress;

/* Makes a progress. Caller owns the handle and drops it with crt_actor_drop. Never NULL. */
CRT_API crt_actor_t *crt_progress_new(const crt_actor_options_t *options,
                                      const char *label, int64_t total);

/* So many steps more were made. Any process; waits for nothing. */
CRT_API crt_status_t crt_progress_add(crt_actor_t *progress, int64_t steps);

/* How many steps were made, of how many. */
CRT_API crt_status_t crt_progress_read(crt_actor_t *progress, int64_t *done_out,
                                       int64_t *total_out);

/* Waits until all refs are ready, values or errors, as crt_wait does, and draws meanwhile: a bar on stderr, ten
 * times a second, when that is a terminal, else a line for every 10 % and one at the end. If the progress
 * itself dies a line says so, and the wait goes on. CRT_ERR_TIMED_OUT. */
CRT_API crt_status_t crt_progress_wait(crt_actor_t *progress, crt_ref_t *const *refs,
                                       size_t count, int64_t wait_ms);

#ifdef __cplusplus
}
#endif

#endif
