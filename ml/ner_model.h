/* SPDX-License-Identifier: Apache-2.0 */
/* NER model: a network that makes vectors of words, and a parser that moves from word to word.
 *
 * Where it sits
 *     crt_ner.h -> [ ner_model.c builds, ner_moves.c rules, ner_parse.c states and scores,
 *                    ner_train.c gradients, ner_predict.c tags ] -> crt_network (layers),
 *                    ml/matrix.c
 * Ownership
 *     The model owns its network and the scratch of a pass. The parser's arrays are parameters of
 *     the network (CRT_PARAMETERS), so that they are in the same flat buffers.
 * Invariants
 *     Labels are numbers of the model's list, most frequent first; tags of a corpus are translated
 *     when a batch is gathered. A move takes one word, so a state's steps are bounded by its words.
 */
#ifndef CRTI_ML_NER_MODEL_H
#define CRTI_ML_NER_MODEL_H

#include "ml/model.h"
#include "ml/ner_corpus.h"

#define CRTI_NER_FEATURES_MAX 6
#define CRTI_NER_COST_INVALID 9000

typedef struct crti_ner_move {
    uint8_t action; /* crt_ner_action_t */
    uint8_t label;  /* CRTI_NER_NO_LABEL: none */
} crti_ner_move_t;

/* How far the parser is in a document. */
typedef struct crti_ner_state {
    uint32_t first;             /* the document's first word in the batch */
    uint32_t length;            /* its words */
    uint32_t at;                /* the word whose move is next; length: none */
    int32_t start;              /* first word of the open entity; -1: none is open */
    uint8_t label;              /* of that */
    const crti_ner_tag_t *tags; /* of the document */
} crti_ner_state_t;

/* Where the parser's arrays begin in the flat buffers. */
typedef struct crti_ner_places {
    size_t lower, bias,
        padding;              /* (features x units, hidden), (units), (features, units) */
    size_t upper, upper_bias; /* (moves, hidden), (moves) */
} crti_ner_places_t;

/* The scratch of a pass. */
typedef struct crti_ner_scratch {
    size_t words_room, documents_room, states_room, steps_room;
    /* words */
    uint64_t *keys; /* (words, tables) */
    crti_ner_tag_t *tags;
    float *features, *d_features; /* (words, features, units) */
    float *d_words;               /* (words, hidden) */
    int32_t *lengths;             /* of documents */
    /* states */
    crti_ner_state_t *states;
    uint32_t *active;
    /* steps of all states: one behind the other */
    int32_t *ids;     /* words of the state, -1: none */
    float *vectors;   /* (steps, outs): of the states; then their gradients */
    float *mask;      /* dropout of these */
    uint8_t *winners; /* which piece is the largest; pieces: none is above zero */
    float *scores;    /* (steps, moves); then their gradients */
    float *d_vectors;
    /* fixed */
    float *bias; /* (features, units): b, then zeros */
    float *d_bias;
    float *sum;   /* (units) */
    float *costs; /* (moves) */
} crti_ner_scratch_t;

struct crt_ner_model {
    crt_ner_options_t options;
    size_t label_count;
    char *labels[CRTI_NER_LABELS_MAX];
    size_t move_count;
    crti_ner_move_t *moves;
    int outs;  /* of a state: hidden, or the moves */
    int units; /* outs x pieces */
    crt_model_t *network;
    crti_ner_places_t places;
    double state_dropout; /* 0.1 as in spaCy, which has no option for it; tests set 0 */
    crti_random_t random;
    crti_ner_scratch_t scratch;

    /* The batch that was gathered. */
    size_t words, documents;
    uint8_t label_of[CRTI_NER_LABELS_MAX + 1]; /* the model's for the corpus's */
};

/* A model of these labels, most frequent first, with these `weights` as they lie in a file; NULL:
 * the first ones of `seed`. */
crt_status_t crti_ner_model_of(const crt_ner_options_t *options,
                               const char *const *labels, size_t count, uint64_t seed,
                               const void *weights, crt_ner_model_t **model_out);

/* Parameters of such a model, before it is made. */
double crti_ner_parameters(const crt_ner_options_t *options, size_t labels);

/* ner_moves.c: the rules. */
static inline bool crti_ner_is_final(const crti_ner_state_t *state)
{
    return state->at == state->length;
}

bool crti_ner_is_valid(const crti_ner_state_t *state, crti_ner_move_t move);
int crti_ner_cost(const crti_ner_state_t *state, crti_ner_move_t move);
void crti_ner_do(crti_ner_state_t *state, crti_ner_move_t move);

/* The words of a state, as places in the batch: `count` of them, -1 where there is none. */
void crti_ner_context(const crti_ner_state_t *state, int count, int32_t *ids);

/* The first move that costs nothing; false when there is none. */
bool crti_ner_oracle(const crt_ner_model_t *model, const crti_ner_state_t *state,
                     crti_ner_move_t *move_out);

/* ner_parse.c */

/* Copies keys and tags of documents of a corpus, one behind the other. Labels that the model has
 * not are an error when `must_know`, else CRTI_NER_NO_LABEL. */
crt_status_t crti_ner_gather(crt_ner_model_t *model, const crt_ner_corpus_t *corpus,
                             const size_t *documents, size_t count, bool must_know);

void crti_ner_free_scratch(crti_ner_scratch_t *scratch);

/* Room for `states` states that take at most `steps` steps together. */
crt_status_t crti_ner_make_room(crt_ner_model_t *model, size_t states, size_t steps);

/* Vectors of the gathered words and what each word gives to a state in each place. */
crt_status_t crti_ner_run(crt_ner_model_t *model, const crt_tensor_t *weights,
                          bool training, const float **flat_out,
                          const float **vectors_out);

/* Scores of the moves of `count` states, which are steps [first, first + count). */
void crti_ner_score(crt_ner_model_t *model, const float *flat, size_t first,
                    const uint32_t *states, size_t count, bool training);

/* The valid move of the highest score; every state that is not final has one. */
crti_ner_move_t crti_ner_best(const crt_ner_model_t *model, const crti_ner_state_t *state,
                              const float *scores);

#endif
