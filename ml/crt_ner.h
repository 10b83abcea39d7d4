/* SPDX-License-Identifier: Apache-2.0 */
/* Named entities: corpora of tagged words, batches of them, and a model that finds the entities, as
 * spaCy has them.
 *
 *     file -> crt_ner_corpus_read -> corpus -> crt_ner_batches_next -> documents of a batch
 *         -> crt_ner_compute_gradients -> (gradient tensor) -> crt_optimizer_apply -> crt_ner_evaluate
 *
 * A corpus is a row of documents; a document is a row of words, each with a tag and with features
 * that a model reads as keys of hash embeddings: by default the word in lower case (NORM), its
 * first letter (PREFIX), its last three (SUFFIX), and its SHAPE ("Apple" is "Xxxxx").
 *
 * Threads: an object is used by one thread at a time; different objects by different threads at
 * once. A corpus is read only after it was made and may be shared.
 */
#ifndef CRT_NER_H
#define CRT_NER_H

#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- corpora */

/* Documents of words with entities. */
typedef struct crt_ner_corpus crt_ner_corpus_t;

/* What a tag says of its word. Kept in this form whatever scheme a file has. */
typedef enum crt_ner_action {
    CRT_NER_MISSING = 0, /* "-": nobody knows */
    CRT_NER_BEGIN = 1,   /* first word of an entity of several */
    CRT_NER_IN = 2,      /* neither its first nor its last word */
    CRT_NER_LAST = 3,    /* its last word */
    CRT_NER_UNIT = 4,    /* an entity of one word */
    CRT_NER_OUT = 5      /* of no entity */
} crt_ner_action_t;

/* What of a word a model may read, each as a key of 64 bits: spaCy's attributes of these names.
 * A text is its crt_hash_string, what is true 1, else 0. */
typedef enum crt_ner_feature {
    CRT_NER_NORM = 0,     /* the word in lower case */
    CRT_NER_PREFIX = 1,   /* its first letter */
    CRT_NER_SUFFIX = 2,   /* its last three */
    CRT_NER_SHAPE = 3,    /* "Apple" is "Xxxxx" */
    CRT_NER_ORTH = 4,     /* the word itself */
    CRT_NER_LOWER = 5,    /* the same as NORM */
    CRT_NER_LENGTH = 6,   /* how many letters it has */
    CRT_NER_IS_ALPHA = 7, /* whether all of it is letters, */
    CRT_NER_IS_ASCII = 8,
    CRT_NER_IS_DIGIT = 9,  /* digits, */
    CRT_NER_IS_LOWER = 10, /* in lower case, */
    CRT_NER_IS_UPPER = 11, /* in upper case, */
    CRT_NER_IS_TITLE = 12, /* like "Apple", */
    CRT_NER_IS_SPACE = 13, /* white space */
    CRT_NER_SPACY = 14,    /* always true: in files of words each has a space behind it */
    CRT_NER_ID = 15 /* the same of every word, as of spaCy's words without vectors */
} crt_ner_feature_t;

#define CRT_NER_FEATURES 16 /* how many there are */

/* "NORM" and so on; NULL when there is none of this number. Static. */
CRT_API const char *crt_ner_feature_name(crt_ner_feature_t feature);

/* Reads a corpus from a file in UTF-8, plain or gzip. Two forms are told apart by the first
 * line:
 *
 *     Word TAB ... TAB tag       a word in each line (or with blanks for tabs), an empty line behind each
 *                                sentence, -DOCSTART- before a document
 *     Word|POS|tag Word|tag ...  a sentence in each line
 *
 * A file with tags "L-" or "U-" is read as BILUO, one with "E-" or "S-" as IOBES, which is the
 * same with other letters: there every entity must be whole; any other as IOB or IOB2, where an
 * entity begins at "B-" and wherever "I-" does not go on. Lines end as they do on any system,
 * and there may be a byte order mark. A document is `sentences` (at least 1) consecutive
 * sentences, or fewer at the end and before -DOCSTART-. CRT_ERR_NOT_FOUND: no such file;
 * CRT_ERR_CORRUPT: names file and line of what can't be. Caller owns the result and frees it
 * with crt_ner_corpus_free. */
CRT_API crt_status_t crt_ner_corpus_read(const char *path, int sentences,
                                         crt_ner_corpus_t **corpus_out);

/* The same of a text of `size` bytes; `name` stands for the file in errors.
 * Caller owns the result and frees it with crt_ner_corpus_free. */
CRT_API crt_status_t crt_ner_corpus_parse(const char *name, const char *text, size_t size,
                                          int sentences, crt_ner_corpus_t **corpus_out);

/* `documents` sentences about people, places, organizations and works that don't exist (PER, LOC, ORG,
 * MISC): many names are of every kind, so that the words around them decide. Document i of a seed is the
 * same whatever the count. Caller owns the result and frees it with crt_ner_corpus_free. */
CRT_API crt_status_t crt_ner_corpus_new_synthetic(size_t documents, uint64_t seed,
                                                  crt_ner_corpus_t **corpus_out);

/* A copy of the documents whose places in an order drawn from `seed` are in [first, end) of 0..1: parts of a
 * corpus to train and to test with. CRT_ERR_INVALID when there is no document in it.
 * Caller owns the result and frees it with crt_ner_corpus_free. */
CRT_API crt_status_t crt_ner_corpus_new_part(const crt_ner_corpus_t *corpus,
                                             uint64_t seed, double first, double end,
                                             crt_ner_corpus_t **part_out);

/* What of a corpus is used: spaCy's settings of a corpus. */
typedef struct crt_ner_selection {
    size_t size;       /* of this struct */
    size_t limit;      /* the first so many documents; 0: all */
    size_t max_length; /* of them those of fewer words; 0: all */
    double lower_case; /* of them so many, as a part of 1, with all words in lower case */
    uint64_t seed;     /* draws which */
} crt_ner_selection_t;

/* A copy of these documents, with the labels that they have. CRT_ERR_INVALID when there is none.
 * Caller owns the result and frees it with crt_ner_corpus_free. */
CRT_API crt_status_t crt_ner_corpus_new_selection(const crt_ner_corpus_t *corpus,
                                                  const crt_ner_selection_t *selection,
                                                  crt_ner_corpus_t **selected_out);

/* Writes a corpus to a file, whole or not at all: a word and its BILUO tag in each line, an empty line behind each sentence. */
CRT_API crt_status_t crt_ner_corpus_write(const crt_ner_corpus_t *corpus,
                                          const char *path);

/* How many documents, words, entities and labels there are. */
CRT_API size_t crt_ner_corpus_documents(const crt_ner_corpus_t *corpus);
CRT_API size_t crt_ner_corpus_words(const crt_ner_corpus_t *corpus);
CRT_API size_t crt_ner_corpus_entities(const crt_ner_corpus_t *corpus);
CRT_API size_t crt_ner_corpus_labels(const crt_ner_corpus_t *corpus);

/* Label `index`, in the order in which the file has them; NULL when there is none. Borrowed: valid until the
 * corpus is freed. `*words_out` (may be NULL) is how many words of the corpus have it. */
CRT_API const char *crt_ner_corpus_label(const crt_ner_corpus_t *corpus, size_t index,
                                         size_t *words_out);

/* Words of a document; 0 when there is no such document. */
CRT_API size_t crt_ner_corpus_length(const crt_ner_corpus_t *corpus, size_t document);

/* A word of a document; NULL when there is none. Borrowed: valid until the corpus is freed. */
CRT_API const char *crt_ner_corpus_word(const crt_ner_corpus_t *corpus, size_t document,
                                        size_t word);

/* The key of a feature of a word; 0 when there is no such word. */
CRT_API uint64_t crt_ner_corpus_key(const crt_ner_corpus_t *corpus, size_t document,
                                    size_t word, crt_ner_feature_t feature);

/* The tag of a word; `*label_out` (may be NULL) is its label, NULL when it has none. Borrowed: valid until the
 * corpus is freed. CRT_NER_MISSING when there is no such word. */
CRT_API crt_ner_action_t crt_ner_corpus_tag(const crt_ner_corpus_t *corpus,
                                            size_t document, size_t word,
                                            const char **label_out);

/* Frees a corpus; what borrows from it must be gone. NULL is fine. */
CRT_API void crt_ner_corpus_free(crt_ner_corpus_t *corpus);

/* The keys of a word of `size` bytes, in the order of the features. CRT_ERR_INVALID: not UTF-8. */
CRT_API crt_status_t crt_ner_word_keys(const char *word, size_t size,
                                       uint64_t keys_out[CRT_NER_FEATURES]);

/* ---------------------------------------------------------------- batches */

/* What a batch is filled up to, as spaCy's batchers have it. */
typedef enum crt_ner_batch_kind {
    CRT_NER_BY_WORDS = 0,     /* batch_by_words: so many words */
    CRT_NER_BY_DOCUMENTS = 1, /* batch_by_sequence: so many documents */
    CRT_NER_BY_PADDED =
        2 /* batch_by_padded: the longest document's words times the documents */
} crt_ner_batch_kind_t;

/* How documents become batches. */
typedef struct crt_ner_batching {
    size_t size; /* of this struct */
    crt_ner_batch_kind_t kind;
    /* How much goes into a batch: `start`, and `factor` times as much in each next one, up to
     * `stop`. */
    double start, stop, factor;
    /* By words: what a batch may have beyond that, as a part of it. */
    double tolerance;
    bool
        discard_oversize; /* a document that is longer is left out, not a batch of its own */
    int buffer;           /* padded: how many documents are sorted by length together */
    uint64_t seed;        /* of the order, which is drawn anew in each pass */
    int member, members; /* of a group: each takes every `members`th document */
} crt_ner_batching_t;

/* What spaCy's quick start has: 100 words, growing by 1.001 to 1000, tolerance 0.2; all documents. */
CRT_API crt_ner_batching_t crt_ner_batching(uint64_t seed);

/* Some documents of a corpus. */
typedef struct crt_ner_batch {
    const size_t *documents; /* their indices */
    size_t count, words;
} crt_ner_batch_t;

/* An endless row of batches. */
typedef struct crt_ner_batches crt_ner_batches_t;

/* Batches of `corpus`, which must outlive them. CRT_ERR_INVALID: sizes that can't be, or fewer documents than
 * members. Caller owns the result and frees it with crt_ner_batches_free. */
CRT_API crt_status_t crt_ner_batches_new(const crt_ner_corpus_t *corpus,
                                         const crt_ner_batching_t *batching,
                                         crt_ner_batches_t **batches_out);

/* The next batch. Borrowed: valid until the next call or crt_ner_batches_free. CRT_ERR_INVALID when a whole pass gave
 * none since all documents are oversize. */
CRT_API crt_status_t crt_ner_batches_next(crt_ner_batches_t *batches,
                                          const crt_ner_batch_t **batch_out);

/* Passes over the documents that are done: 0 in the first. */
CRT_API uint64_t crt_ner_batches_epoch(const crt_ner_batches_t *batches);

/* Frees batches; NULL is fine. */
CRT_API void crt_ner_batches_free(crt_ner_batches_t *batches);

/* ---------------------------------------------------------------- models */

/* Finds entities by moves from word to word (spaCy's TransitionBasedParser over HashEmbedCNN): each word becomes a
 * vector; a state of three or six of them becomes the scores of the moves "begin PER", "in PER", "last PER",
 * "unit PER", "out" and so on; the best one that is possible is taken. */
typedef struct crt_ner_model crt_ner_model_t;

/* A table of vectors for the keys of a feature. */
typedef struct crt_ner_table {
    crt_ner_feature_t feature;
    int rows;
} crt_ner_table_t;

#define CRT_NER_TABLES_MAX 8

/* Start from crt_ner_options. */
typedef struct crt_ner_options {
    size_t size; /* of this struct */
    int width;   /* of the vectors of words */
    int depth;   /* layers that look at neighbours */
    int window;  /* neighbours on each side that a layer looks at */
    int pieces;  /* of their maxout; 0: they are CRT_MISH instead */
    int table_count;
    crt_ner_table_t tables[CRT_NER_TABLES_MAX]; /* what a word's vector is made of */
    double dropout;                             /* while training */
    int features;                               /* words of a state: 3 or 6 */
    int hidden;                                 /* width of a state */
    int state_pieces;                           /* of its maxout; 1: ReLU */
    bool upper; /* a layer from states to scores; without it a state is the scores */
    /* While training, documents of more words than a number drawn around this are cut. 0: none. */
    int oracle_cut;
} crt_ner_options_t;

/* spaCy's defaults: width 96, depth 4, window 1, 3 pieces, tables of 2000 rows for NORM and of
 * 1000 for PREFIX, SUFFIX and SHAPE, dropout 0.1, 3 features, hidden 64, 2 pieces, an upper
 * layer, cut at 100. */
CRT_API crt_ner_options_t crt_ner_options(void);

/* A model of the labels of `corpus`. `seed` draws the first weights and starts the dropout. CRT_ERR_INVALID names an option
 * that can't be. Caller owns the result and frees it with crt_ner_model_free. */
CRT_API crt_status_t crt_ner_model_new(const crt_ner_options_t *options,
                                       const crt_ner_corpus_t *corpus, uint64_t seed,
                                       crt_ner_model_t **model_out);

/* The layers and parameters of a model, for optimizers and messages: its flat weights and gradients are all that a
 * process needs of another's. Not to be run by itself. Borrowed: valid until the model is freed. */
CRT_API crt_model_t *crt_ner_model_network(crt_ner_model_t *model);

/* Labels of a model, the most frequent first; NULL when there is none. Borrowed: valid until the model is freed. */
CRT_API size_t crt_ner_model_labels(const crt_ner_model_t *model);
CRT_API const char *crt_ner_model_label(const crt_ner_model_t *model, size_t index);

/* Restarts the random numbers of dropout and cuts. */
CRT_API void crt_ner_model_set_seed(crt_ner_model_t *model, uint64_t seed);

/* One forward and backward pass over a batch of `corpus`, with dropout: *overwrites* `gradients` (flat; NULL: those
 * of the network) with the gradient of the loss, summed over all states that the model itself comes through, and
 * stores spaCy's measure of the loss, the sum of the squares of the scores' gradients, in `*loss_out`
 * (may be NULL). `weights` (flat) are read in place; NULL: the model's own. CRT_ERR_INVALID when the corpus
 * has a label that the model has not. */
CRT_API crt_status_t crt_ner_compute_gradients(crt_ner_model_t *model,
                                               const crt_tensor_t *weights,
                                               const crt_ner_corpus_t *corpus,
                                               const crt_ner_batch_t *batch,
                                               crt_tensor_t *gradients, double *loss_out);

/* A copy of `corpus` with the tags that the model finds. `weights` as above.
 * Caller owns the result and frees it with crt_ner_corpus_free. */
CRT_API crt_status_t crt_ner_predict(crt_ner_model_t *model, const crt_tensor_t *weights,
                                     const crt_ner_corpus_t *corpus,
                                     crt_ner_corpus_t **tagged_out);

/* How many entities there are, were found, and were found exactly: same words, same label. */
typedef struct crt_ner_count {
    size_t gold, predicted, correct;
} crt_ner_count_t;

/* 0..1; 0 when there is nothing to divide by. */
CRT_API double crt_ner_precision(const crt_ner_count_t *count);
CRT_API double crt_ner_recall(const crt_ner_count_t *count);
CRT_API double crt_ner_f(const crt_ner_count_t *count);

/* Counts of all entities, and of each label. */
typedef struct crt_ner_scores {
    crt_ner_count_t all;
    size_t count;
    struct {
        const char *label; /* borrowed from the corpus or the model */
        crt_ner_count_t count;
    } labels[510];
} crt_ner_scores_t;

/* Scores of a model on `corpus`. `weights` as above; labels are borrowed: valid until corpus and model are freed. */
CRT_API crt_status_t crt_ner_evaluate(crt_ner_model_t *model, const crt_tensor_t *weights,
                                      const crt_ner_corpus_t *corpus,
                                      crt_ner_scores_t *scores_out);

/* Writes a model to a file, whole or not at all: labels, options, weights, and what training goes on from: the
 * state of `optimizer` (may be NULL), and `note_size` bytes of the caller's. */
CRT_API crt_status_t crt_ner_model_save(crt_ner_model_t *model,
                                        crt_optimizer_t *optimizer, const void *note,
                                        size_t note_size, const char *path);

/* Reads a model. CRT_ERR_NOT_FOUND: no such file; CRT_ERR_CORRUPT: not such a file, cut short or
 * damaged. Caller owns the result and frees it with crt_ner_model_free. */
CRT_API crt_status_t crt_ner_model_load(const char *path, crt_ner_model_t **model_out);

/* Reads weights, the optimizer's state and the note from a file that was saved with an optimizer of this kind
 * and a note of this size; nothing changes on failure. CRT_ERR_INVALID: the file is of another model,
 * optimizer or note; CRT_ERR_NOT_FOUND and CRT_ERR_CORRUPT as above. */
CRT_API crt_status_t crt_ner_model_restore(crt_ner_model_t *model,
                                           crt_optimizer_t *optimizer, void *note,
                                           size_t note_size, const char *path);

/* Frees a model; NULL is fine. */
CRT_API void crt_ner_model_free(crt_ner_model_t *model);

#ifdef __cplusplus
}
#endif

#endif
