/* SPDX-License-Identifier: Apache-2.0 */
/* train_ner: what its files share.
 *
 *     train_ner.c  commands -> driver.c  stretches, scores, files -> member.c  steps, exchange of
 *     parameters
 *                                                                 -> evaluator.c
 *     setup.c, setup_model.c, setup_rules.c: a configuration, and what it means, for all of them
 */
#ifndef TRAIN_NER_H
#define TRAIN_NER_H

#include <crt_actors.h>
#include <crt_configuration.h>
#include <crt_fit.h>
#include <crt_ner.h>
#include <stdio.h>

#define MEMBERS_MAX 256
#define LATE_MAX    16 /* updates that are told apart */

/* Who owns parameters, and so updates them. */
typedef enum mode {
    ALLREDUCE,        /* everybody all of them, with the average of all gradients */
    PEER,             /* each member some of them */
    SHARED_OPTIMIZER, /* an actor that does not train */
    HEAD_CHILD        /* member 0 */
} ner_mode_t;

/* A corpus: where it is, and what of it is used. */
typedef struct reading {
    char section[256]; /* of the configuration */
    const char *path;
    crt_ner_selection_t selection;
} reading_t;

/* What a configuration says. Texts are the configuration's. */
typedef struct setup {
    crt_configuration_t *configuration;
    crt_ner_options_t model;
    char upstream[256]; /* section of the component that it listens to; "": none */
    crt_ner_batching_t batching;
    crt_optimizer_options_t optimizer;
    crt_schedule_t learn_rate;
    reading_t train, dev;
    bool has_plain_logger;     /* spaCy's columns, not spacy-ray's */
    const char *absent_logger; /* the name of one that is not here; NULL: none */
    double weight_f, weight_p, weight_r; /* of a score */
    int64_t seed, patience, max_epochs, max_steps, eval_frequency;
    /* [distributed] */
    ner_mode_t mode;
    int64_t workers, quorum, staleness, restarts;
    crt_accelerator_t accelerator;
    double num_gpus, limit_s; /* of each member on a GPU; in which members must come */
} setup_t;

/* Gives a configuration, before options of the command line and before it is resolved, those keys
 * of spaCy's [paths] and [system] that it has not: others may refer to them. */
crt_status_t setup_add_defaults(crt_configuration_t *configuration);

/* Reads what `configuration`, which is resolved, says, and takes it in any case: setup_fini frees
 * it. */
crt_status_t setup_init(setup_t *setup, crt_configuration_t *configuration);
void setup_fini(setup_t *setup);

/* A file, or "builtin:COUNT" or "builtin:COUNT:SEED", as many sentences that are drawn; what of
 * it is used. NULL: all. */
crt_status_t open_corpus(const char *source, const crt_ner_selection_t *selection,
                         crt_ner_corpus_t **corpus_out);

/* The table of all settings of spaCy that are known, and what becomes of them. */
void print_settings(FILE *out);

/* The command. `words` end with NULL. */
int train(int count, char **words);

/* Before there are processes: how many processors the command `train` with these words needs. With
 * --gpu-id the process, and so its private cluster, sees that GPU alone from here on. */
crt_status_t train_prepare(int count, char **words, double *cpus_out);

extern const crt_actor_class_t ner_member, ner_evaluator;

/* ner_member. Create arguments: the configuration, rank, where the corpus is, on which GPU it
 * computes: a name as in CUDA_VISIBLE_DEVICES, "any" that it was given, or "": none.
 * begin (members, group, state, optimizer's steps, step): all actors of the training in the order
 * of ranks, a name
 *     for their group, what give_state of all owners gave put together (or none), and how many
 *     batches were made.
 * train (batches) -> map: trains until it has made that many batches in all.
 * give_state () -> map: "state": of all parameters that it owns the weights and the optimizer's
 * numbers;
 *     "steps" of the optimizer.
 * add_gradients (version, gradients): from another member, of all parameters that this one owns.
 * set_parameters (owner, version, weights): from their owner. */
extern const crt_method_t member_begin, member_train, member_give_state,
    member_add_gradients, member_set_parameters;

/* ner_evaluator. Create arguments: the configuration, where both corpora are. evaluate (weights) ->
 * list: {"label", "gold", "predicted", "correct"} of all entities (label "") and of each label. */
extern const crt_method_t evaluator_evaluate;

/* ---------------------------------------------------------------- who owns what (parts.c) */

/* The parameters of one owner: whole arrays. */
typedef struct owned {
    crt_part_t *parts;
    size_t count, floats;
} owned_t;

/* Divides the arrays of a model among `owners`, the largest first, each to who has least. The same
 * in every process. NULL: no memory. */
owned_t *divide(const crt_model_t *model, int owners);
void free_owned(owned_t *owned, int owners);

/* Between a flat buffer and the floats of an owner, one part behind the other. */
void pack(const owned_t *owned, const float *flat, float *packed);
void unpack(const owned_t *owned, const float *packed, float *flat);

/* How many owners there are in a mode. */
static inline int count_owners(ner_mode_t mode, int members)
{
    return mode == PEER ? members : 1;
}

#endif
