/* SPDX-License-Identifier: Apache-2.0 */
/* Trainer: what crt_fit uses of it beyond crt_actors.h: batches by numbers, stretches of a training
 * between which the group may grow, evaluation and checkpoints. */
#ifndef CRTI_ACTORS_TRAINER_H
#define CRTI_ACTORS_TRAINER_H

#include <crt_actors.h>

/* How a trainer by numbers takes its batches. All trainers of a group have the same. */
typedef struct crti_numbered {
    const char *format;    /* as of crti_feed_spec_t */
    int ahead, accumulate; /* batches made ahead; of each step, at least 1 */
    const char *precision; /* of a GPU; "": on the CPU */
    bool by_host;          /* with a GPU: it computes passes alone, see replica.c */
    int64_t limit_ms;      /* of joining and of each exchange; 0: 60 s */
} crti_numbered_t;

/* A trainer whose batches are numbered: number n and its dropout depend on the seed of `model` and
 * n alone, and rank r of a group takes every size-th one, from r on. So a training in which members
 * die and are replaced ends with the weights of one that nothing happened to. `shard` and `shards`
 * of `data` are not read. Never NULL, as crt_trainer_new. */
crt_actor_t *crti_trainer_new_numbered(const crt_actor_options_t *options,
                                       const crt_model_spec_t *model,
                                       const crt_data_spec_t *data,
                                       const crt_replica_options_t *replica,
                                       const crti_numbered_t *numbered);

/* (steps, on_death, size, least, compares) -> the map of crt_trainer_train, and "batches" that the
 * group has taken, "samples" and "taken", batches, of this trainer in this call. Trains until
 * `steps` are made in all; of a group of another size than `size` (0: as it is) after it has that
 * size. With CRT_DEATH_SHRINKS fewer than `least` members wait for others. `compares`: the weights
 * of all; else only their steps, which costs no pass over the weights. Call it on all trainers at
 * once, with the same arguments. */
const crt_method_t *crti_trainer_fit(void);

/* (features, labels, classes, part, parts) -> list, see crti_evaluate. */
const crt_method_t *crti_trainer_evaluate(void);

/* () -> nothing: the trainer is there. */
const crt_method_t *crti_trainer_hello(void);

/* () -> weights, and statistics of batch norms behind them: a flat float32 tensor in the store. */
const crt_method_t *crti_trainer_get_all(void);

/* (folder, network, seed, is last, keep, samples of a batch): see crt_replica_save. Call it on all
 * trainers at once. */
const crt_method_t *crti_trainer_save(void);

#endif
