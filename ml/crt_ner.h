/* SPDX-License-Identifier: Apache-2.0 */
/* Named entities, as in spaCy: corpora of tagged words, batches of documents, and a model that
 * finds the entities.
 *
 *     file -> crt_ner_corpus_read -> corpus -> crt_ner_batches_next -> documents of a batch
 *         -> crt_ner_compute_gradients -> (gradient tensor) -> crt_optimizer_apply
 *         -> crt_ner_evaluate
 *
 * A corpus is a sequence of documents, and a document is a sequence of words. Each word has a tag,
 * and features that a model reads as keys of hash embeddings: by default the word in lower case
 * (NORM), its first letter (PREFIX), its last three letters (SUFFIX), and its shape (SHAPE;
 * "Apple" has the shape "Xxxxx").
 *
 * Threads: one thread at a time uses an object; different threads may use different objects at the
 * same time. A corpus does not change after it was made and may be shared among threads.
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

/* The tag of a word, in one form for all tagging schemes of files. */
typedef enum crt_ner_action {
    /* "-": not known. */
    CRT_NER_MISSING = 0,
    /* First word of an entity of several words. */
    CRT_NER_BEGIN = 1,
    /* Word inside an entity, neither the first nor the last. */
    CRT_NER_IN = 2,
    /* Last word of an entity. */
    CRT_NER_LAST = 3,
    /* An entity of one word. */
    CRT_NER_UNIT = 4,
    /* Word of no entity. */
    CRT_NER_OUT = 5
} crt_ner_action_t;

/* A feature of a word that a model may read as a 64-bit key, with the names of the attributes
 * of spaCy. The key of a text is its crt_hash_string; the key of a condition is 1 or 0. */
typedef enum crt_ner_feature {
    /* The word in lower case; of 43 quotes, dashes, signs of currencies and the like a common one,
     * as in spaCy. */
    CRT_NER_NORM = 0,
    /* The first letter of the word. */
    CRT_NER_PREFIX = 1,
    /* The last three letters of the word. */
    CRT_NER_SUFFIX = 2,
    /* The shape of the word: "Apple" has the shape "Xxxxx". */
    CRT_NER_SHAPE = 3,
    /* The word itself. */
    CRT_NER_ORTH = 4,
    /* The word in lower case, whatever it is. */
    CRT_NER_LOWER = 5,
    /* The number of letters. */
    CRT_NER_LENGTH = 6,
    /* Whether all of the word is letters. */
    CRT_NER_IS_ALPHA = 7,
    /* Whether all of the word is ASCII. */
    CRT_NER_IS_ASCII = 8,
    /* Whether all of the word is digits. */
    CRT_NER_IS_DIGIT = 9,
    /* Whether the word is in lower case. */
    CRT_NER_IS_LOWER = 10,
    /* Whether the word is in upper case. */
    CRT_NER_IS_UPPER = 11,
    /* Whether the word is written like "Apple". */
    CRT_NER_IS_TITLE = 12,
    /* Whether all of the word is white space. */
    CRT_NER_IS_SPACE = 13,
    /* Always true: in files of words a space follows each word. */
    CRT_NER_SPACY = 14,
    /* The same key for every word, as for words without vectors in spaCy. */
    CRT_NER_ID = 15
} crt_ner_feature_t;

/* The number of features. */
#define CRT_NER_FEATURES 16

/* The name of a feature, such as "NORM". NULL when there is no feature of this number. Static
 * text. */
CRT_API const char *crt_ner_feature_name(crt_ner_feature_t feature);

/* Reads a corpus from a file in UTF-8, plain or gzip. Two forms are told apart by the first
 * line:
 *
 *     Word TAB ... TAB tag       a word in each line (blanks may stand for tabs), an empty line
 *                                after each sentence, -DOCSTART- before a document
 *     Word|POS|tag Word|tag ...  a sentence in each line
 *
 * A text with tags "L-" or "U-" is read as BILUO, one with "E-" or "S-" as IOBES, which is
 * BILUO with other letters; every entity must be whole there. Any other text is read as IOB or
 * IOB2: an entity begins at "B-" and at every "I-" that does not continue an entity. Lines may
 * end as on any system, and there may be a byte order mark. A document has `sentences` (at
 * least 1) consecutive sentences, or fewer at the end and before -DOCSTART-. Caller owns the
 * result and drops it with crt_ner_corpus_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such file; CRT_ERR_CORRUPT, when a line is wrong
 * (the text names file and line) or there are no words; CRT_ERR_TOO_LARGE, when the file is
 * too large or has too many labels; CRT_ERR_INVALID, when `sentences` is below 1;
 * CRT_ERR_PERMISSION or CRT_ERR_IO, when the file cannot be read; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_corpus_read(const char *path, int sentences,
                                         crt_ner_corpus_t **corpus_out);

/* Reads a corpus from a text of `size` bytes in UTF-8; `name` stands for the file in errors.
 * Two forms are told apart by the first line:
 *
 *     Word TAB ... TAB tag       a word in each line (blanks may stand for tabs), an empty line
 *                                after each sentence, -DOCSTART- before a document
 *     Word|POS|tag Word|tag ...  a sentence in each line
 *
 * A text with tags "L-" or "U-" is read as BILUO, one with "E-" or "S-" as IOBES, which is
 * BILUO with other letters; every entity must be whole there. Any other text is read as IOB or
 * IOB2: an entity begins at "B-" and at every "I-" that does not continue an entity. Lines may
 * end as on any system, and there may be a byte order mark. A document has `sentences` (at
 * least 1) consecutive sentences, or fewer at the end and before -DOCSTART-. Caller owns the
 * result and drops it with crt_ner_corpus_drop.
 *
 * Errors: CRT_ERR_CORRUPT, when a line is wrong (the text names file and line) or there are no
 * words; CRT_ERR_TOO_LARGE, when the text is too large or has too many labels;
 * CRT_ERR_INVALID, when `sentences` is below 1; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_corpus_parse(const char *name, const char *text, size_t size,
                                          int sentences, crt_ner_corpus_t **corpus_out);

/* Makes a corpus of `documents` sentences about people, places, organizations and works that
 * do not exist (labels PER, LOC, ORG, MISC). Many names occur with every label, so that the
 * words around them decide. Document i of a seed does not depend on `documents`. Caller owns
 * the result and drops it with crt_ner_corpus_drop.
 *
 * Errors: CRT_ERR_INVALID, when `documents` is 0; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_corpus_new_synthetic(size_t documents, uint64_t seed,
                                                  crt_ner_corpus_t **corpus_out);

/* Makes a copy of the documents whose places, in an order drawn from `seed`, are in [first,
 * end) of 0..1: parts of a corpus to train and to test with. Caller owns the result and drops
 * it with crt_ner_corpus_drop.
 *
 * Errors: CRT_ERR_INVALID, when the range is wrong or contains no document; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_corpus_new_part(const crt_ner_corpus_t *corpus,
                                             uint64_t seed, double first, double end,
                                             crt_ner_corpus_t **part_out);

/* Which documents of a corpus are used: the settings of a corpus in spaCy. Zero is the default of
 * every member. */
typedef struct crt_ner_selection {
    /* Set by CRT_NER_SELECTION. */
    size_t struct_size;
    /* Only the first `limit` documents. 0: all. */
    size_t limit;
    /* Of these only documents of fewer words. 0: all. */
    size_t max_length;
    /* Part of these documents (0..1) whose words are all changed to lower case. */
    double lower_case;
    /* Determines which documents are in lower case. */
    uint64_t seed;
} crt_ner_selection_t;
#define CRT_NER_SELECTION(...)                                                           \
    CRTI_VALUE(crt_ner_selection_t, .struct_size = sizeof(crt_ner_selection_t),          \
               __VA_ARGS__)

/* Makes a copy of the selected documents, with the labels that they have. Caller owns the
 * result and drops it with crt_ner_corpus_drop.
 *
 * Errors: CRT_ERR_INVALID, when `selection` is wrong or selects no document; CRT_ERR_UNSUPPORTED,
 * when the program sets a member that only a newer version has; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_corpus_new_selection(const crt_ner_corpus_t *corpus,
                                                  const crt_ner_selection_t *selection,
                                                  crt_ner_corpus_t **selected_out);

/* Writes a corpus to a file, whole or not at all: a word and its BILUO tag in each line, an
 * empty line after each sentence.
 *
 * Errors: CRT_ERR_IO, CRT_ERR_NOT_FOUND or CRT_ERR_PERMISSION, when the file cannot be
 * written; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_corpus_write(const crt_ner_corpus_t *corpus,
                                          const char *path);

/* The number of documents, words, entities and labels of a corpus. */
CRT_API size_t crt_ner_corpus_documents(const crt_ner_corpus_t *corpus);
CRT_API size_t crt_ner_corpus_words(const crt_ner_corpus_t *corpus);
CRT_API size_t crt_ner_corpus_entities(const crt_ner_corpus_t *corpus);
CRT_API size_t crt_ner_corpus_labels(const crt_ner_corpus_t *corpus);

/* Label `index`, in the order of the file; NULL when there is none. *words_out (`words_out`
 * may be NULL) is the number of words that have the label. Borrowed: valid until the corpus is
 * freed. */
CRT_API const char *crt_ner_corpus_label(const crt_ner_corpus_t *corpus, size_t index,
                                         size_t *words_out);

/* The number of words of a document; 0 when there is no such document. */
CRT_API size_t crt_ner_corpus_length(const crt_ner_corpus_t *corpus, size_t document);

/* A word of a document; NULL when there is none. Borrowed: valid until the corpus is freed. */
CRT_API const char *crt_ner_corpus_word(const crt_ner_corpus_t *corpus, size_t document,
                                        size_t word);

/* The key of a feature of a word; 0 when there is no such word. */
CRT_API uint64_t crt_ner_corpus_key(const crt_ner_corpus_t *corpus, size_t document,
                                    size_t word, crt_ner_feature_t feature);

/* The tag of a word; CRT_NER_MISSING when there is no such word. *label_out (`label_out` may
 * be NULL) is the label, NULL when the word has none. Borrowed: valid until the corpus is
 * freed. */
CRT_API crt_ner_action_t crt_ner_corpus_tag(const crt_ner_corpus_t *corpus,
                                            size_t document, size_t word,
                                            const char **label_out);

/* Frees a corpus and sets the pointer to NULL. Objects that borrow from it must not be used any
 * more. NULL is allowed. */
CRT_API void crt_ner_corpus_drop(crt_ner_corpus_t **corpus);

/* The keys of a word of `size` bytes, in the order of crt_ner_feature_t.
 *
 * Errors: CRT_ERR_INVALID, when the word is not UTF-8, empty or too long; CRT_ERR_UNSUPPORTED,
 * when the C library has no locale C.UTF-8. */
CRT_API crt_status_t crt_ner_word_keys(const char *word, size_t size,
                                       uint64_t keys_out[CRT_NER_FEATURES]);

/* ---------------------------------------------------------------- batches */

/* How the size of a batch is measured, as in the batchers of spaCy. */
typedef enum crt_ner_batch_kind {
    /* batch_by_words: the number of words. */
    CRT_NER_BY_WORDS = 0,
    /* batch_by_sequence: the number of documents. */
    CRT_NER_BY_DOCUMENTS = 1,
    /* batch_by_padded: the words of the longest document times the number of documents. */
    CRT_NER_BY_PADDED = 2
} crt_ner_batch_kind_t;

/* How documents become batches. Start from crt_ner_batching, which sets all members. */
typedef struct crt_ner_batching {
    /* Set by crt_ner_batching. */
    size_t struct_size;
    /* How the size of a batch is measured. */
    crt_ner_batch_kind_t kind;
    /* Size of a batch: `start` for the first one, then `factor` times as much for each next
     * one, up to `stop`. */
    double start, stop, factor;
    /* By words: the part of the size that a batch may have in addition. */
    double tolerance;
    /* A document that is longer than a batch is left out; otherwise it is a batch by itself. */
    bool discard_oversize;
    /* By padded: the number of documents that are sorted by length together. */
    int buffer;
    /* Determines the order, which is drawn anew in each pass. */
    uint64_t seed;
    /* For a group: member `member` (from 0) of `members` takes every `members`th document. */
    int member, members;
} crt_ner_batching_t;

/* Sets all members of `*batching`, which has `size` bytes (sizeof(*batching)), as crt_ner_batching
 * says. Programs call crt_ner_batching, which knows the size. */
CRT_API void crt_ner_batching_init(crt_ner_batching_t *batching, size_t size,
                                   uint64_t seed);

/* The options of the quick start of spaCy: batches of 100 words, growing by 1.001 to 1000,
 * tolerance 0.2; all documents. */
static inline crt_ner_batching_t crt_ner_batching(uint64_t seed)
{
    crt_ner_batching_t batching;

    crt_ner_batching_init(&batching, sizeof(batching), seed);
    return batching;
}

/* Some documents of a corpus. Made with CRT_NER_BATCH. */
typedef struct crt_ner_batch {
    /* Set by CRT_NER_BATCH. */
    size_t struct_size;
    /* Indices of the documents in the corpus. */
    const size_t *documents;
    size_t count;
    /* The number of words in these documents. */
    size_t words;
} crt_ner_batch_t;
#define CRT_NER_BATCH(...)                                                               \
    CRTI_VALUE(crt_ner_batch_t, .struct_size = sizeof(crt_ner_batch_t), __VA_ARGS__)

/* An endless sequence of batches. */
typedef struct crt_ner_batches crt_ner_batches_t;

/* Makes batches of `corpus`, which must outlive the batches. `batching` NULL: crt_ner_batching(0).
 * Caller owns the result and drops
 * it with crt_ner_batches_drop.
 *
 * Errors: CRT_ERR_INVALID, when an option is wrong or there are fewer documents than members;
 * CRT_ERR_UNSUPPORTED, when the program sets an option that only a newer version has;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_batches_new(const crt_ner_corpus_t *corpus,
                                         const crt_ner_batching_t *batching,
                                         crt_ner_batches_t **batches_out);

/* The next batch. Borrowed: valid until the next call or crt_ner_batches_drop.
 *
 * Errors: CRT_ERR_INVALID, when a whole pass gave no batch because all documents are oversize. */
CRT_API crt_status_t crt_ner_batches_next(crt_ner_batches_t *batches,
                                          const crt_ner_batch_t **batch_out);

/* The number of passes over the documents that are complete: 0 during the first pass. */
CRT_API uint64_t crt_ner_batches_epoch(const crt_ner_batches_t *batches);

/* Frees batches and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_ner_batches_drop(crt_ner_batches_t **batches);

/* ---------------------------------------------------------------- models */

/* Finds entities by moves from word to word (TransitionBasedParser over HashEmbedCNN of
 * spaCy). Each word becomes a vector. A state of three or six vectors gives the scores of the
 * moves "begin PER", "in PER", "last PER", "unit PER", "out" and so on, and the best possible
 * move is made. */
typedef struct crt_ner_model crt_ner_model_t;

/* A table of vectors for the keys of a feature. The struct never changes its size. */
typedef struct crt_ner_table {
    crt_ner_feature_t feature;
    int rows;
} crt_ner_table_t;

#define CRT_NER_TABLES_MAX 8

/* Options of a model. Start from crt_ner_options, which sets all members. */
typedef struct crt_ner_options {
    /* Set by crt_ner_options. */
    size_t struct_size;
    /* Width of the vectors of words. */
    int width;
    /* Number of layers that read neighbours. */
    int depth;
    /* Neighbours on each side that a layer reads. */
    int window;
    /* Pieces of the maxout of these layers. 0: the layers are CRT_MISH instead. */
    int pieces;
    /* Tables that the vector of a word is made of. */
    int table_count;
    crt_ner_table_t tables[CRT_NER_TABLES_MAX];
    /* Dropout rate during training. */
    double dropout;
    /* Words of a state: 3 or 6. */
    int features;
    /* Width of a state. */
    int hidden;
    /* Pieces of the maxout of a state. 1: ReLU. */
    int state_pieces;
    /* A layer from states to scores; without it a state is the scores. */
    bool upper;
    /* During training, documents of more words than a random number around this one are cut.
     * 0: no cut. */
    int oracle_cut;
} crt_ner_options_t;

/* Sets all members of `*options`, which has `size` bytes (sizeof(*options)), as crt_ner_options
 * says. Programs call crt_ner_options, which knows the size. */
CRT_API void crt_ner_options_init(crt_ner_options_t *options, size_t size);

/* The defaults of spaCy: width 96, depth 4, window 1, 3 pieces, tables of 2000 rows for NORM
 * and of 1000 for PREFIX, SUFFIX and SHAPE, dropout 0.1, 3 features, hidden 64, 2 pieces, an
 * upper layer, cut at 100. */
static inline crt_ner_options_t crt_ner_options(void)
{
    crt_ner_options_t options;

    crt_ner_options_init(&options, sizeof(options));
    return options;
}

/* Makes a model for the labels of `corpus`. `options` NULL: crt_ner_options(). `seed` determines
 * the first weights and the dropout. Caller owns the result and drops it with crt_ner_model_drop.
 *
 * Errors: CRT_ERR_INVALID, when an option or the number of labels is wrong (the text names the
 * option); CRT_ERR_UNSUPPORTED, when the program sets an option that only a newer version has;
 * CRT_ERR_TOO_LARGE, when the model has too many parameters; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_model_new(const crt_ner_options_t *options,
                                       const crt_ner_corpus_t *corpus, uint64_t seed,
                                       crt_ner_model_t **model_out);

/* The layers and parameters of a model, for optimizers and messages: the flat weights and
 * gradients are all that one process needs from another. crt_model_to_gpu moves it, and the parser
 * with it. The network must not be run by itself. Borrowed: valid until the model is freed. */
CRT_API crt_model_t *crt_ner_model_network(crt_ner_model_t *model);

/* The number of labels of a model, and label `index`, the most frequent first; NULL when there
 * is none. Borrowed: valid until the model is freed. */
CRT_API size_t crt_ner_model_labels(const crt_ner_model_t *model);
CRT_API const char *crt_ner_model_label(const crt_ner_model_t *model, size_t index);

/* Restarts the random numbers of dropout and cuts. */
CRT_API void crt_ner_model_set_seed(crt_ner_model_t *model, uint64_t seed);

/* Makes one forward and backward pass over a batch of `corpus`, with dropout. Overwrites
 * `gradients` (flat; NULL: those of the network) with the gradient of the loss, summed over
 * all states that the model itself reaches. Stores the loss as spaCy measures it, the sum of
 * the squares of the gradients of the scores, in *loss_out (`loss_out` may be NULL). `weights`
 * (flat) are read in place; NULL: those of the model.
 *
 * Errors: CRT_ERR_INVALID, when the corpus has a label that the model does not have, a tensor is
 * wrong, or `batch` was not made with CRT_NER_BATCH; CRT_ERR_UNSUPPORTED, when `batch` has a member
 * set that only a newer version has; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_compute_gradients(crt_ner_model_t *model,
                                               const crt_tensor_t *weights,
                                               const crt_ner_corpus_t *corpus,
                                               const crt_ner_batch_t *batch,
                                               crt_tensor_t *gradients, double *loss_out);

/* Makes a copy of `corpus` with the tags that the model finds. `weights` (flat) are read in
 * place; NULL: those of the model. Caller owns the result and drops it with
 * crt_ner_corpus_drop.
 *
 * Errors: CRT_ERR_INVALID, when `weights` is wrong; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_predict(crt_ner_model_t *model, const crt_tensor_t *weights,
                                     const crt_ner_corpus_t *corpus,
                                     crt_ner_corpus_t **tagged_out);

/* The number of entities in the corpus, of entities that were found, and of those found
 * exactly: the same words and the same label. The struct never changes its size. */
typedef struct crt_ner_count {
    size_t gold, predicted, correct;
} crt_ner_count_t;

/* Precision, recall and F score of a count, 0..1; 0 when the divisor is 0. */
CRT_API double crt_ner_precision(const crt_ner_count_t *count);
CRT_API double crt_ner_recall(const crt_ner_count_t *count);
CRT_API double crt_ner_f(const crt_ner_count_t *count);

/* Counts of all entities, and of the entities of each label. */
typedef struct crt_ner_scores crt_ner_scores_t;

/* Counts the entities that a model finds in `corpus`. `weights` (flat) are read in place;
 * NULL: those of the model. Caller owns the result and drops it with crt_ner_scores_drop.
 *
 * Errors: CRT_ERR_INVALID, when `weights` is wrong; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_evaluate(crt_ner_model_t *model, const crt_tensor_t *weights,
                                      const crt_ner_corpus_t *corpus,
                                      crt_ner_scores_t **scores_out);

/* The counts of all entities. */
CRT_API crt_ner_count_t crt_ner_scores_all(const crt_ner_scores_t *scores);

/* The number of labels: those of the model, and behind them those that only the corpus has. */
CRT_API size_t crt_ner_scores_labels(const crt_ner_scores_t *scores);

/* The text of label `index`, from 0; NULL when there is none. *count_out (`count_out` may be NULL)
 * are the counts of its entities. Borrowed: valid until model, corpus or scores are dropped. */
CRT_API const char *crt_ner_scores_label(const crt_ner_scores_t *scores, size_t index,
                                         crt_ner_count_t *count_out);

/* Frees scores and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_ner_scores_drop(crt_ner_scores_t **scores);

/* Writes a model to a file, whole or not at all: labels, options, weights, the state of
 * `optimizer` (may be NULL), and `note_size` bytes (at most 1 MiB) of the caller, so that a
 * training can continue.
 *
 * Errors: CRT_ERR_IO, CRT_ERR_NOT_FOUND or CRT_ERR_PERMISSION, when the file cannot be
 * written; CRT_ERR_TOO_LARGE, when the note is too large; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_model_save(crt_ner_model_t *model,
                                        crt_optimizer_t *optimizer, const void *note,
                                        size_t note_size, const char *path);

/* Reads a model. Caller owns the result and drops it with crt_ner_model_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such file; CRT_ERR_CORRUPT, when the file is not
 * a model, is cut short or damaged; CRT_ERR_TOO_LARGE; CRT_ERR_PERMISSION or CRT_ERR_IO, when
 * the file cannot be read; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_model_load(const char *path, crt_ner_model_t **model_out);

/* Reads weights, the state of `optimizer` and the note from a file of crt_ner_model_save. The
 * file must have an optimizer of this kind and a note of `note_size` bytes. Nothing changes on
 * failure.
 *
 * Errors: CRT_ERR_INVALID, when the file is of another model, optimizer or note;
 * CRT_ERR_NOT_FOUND, when there is no such file; CRT_ERR_CORRUPT, when the file is not a
 * model, is cut short or damaged; CRT_ERR_TOO_LARGE; CRT_ERR_PERMISSION or CRT_ERR_IO, when
 * the file cannot be read; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_ner_model_restore(crt_ner_model_t *model,
                                           crt_optimizer_t *optimizer, void *note,
                                           size_t note_size, const char *path);

/* Frees a model and sets the pointer to NULL. NULL is allowed. */
CRT_API void crt_ner_model_drop(crt_ner_model_t **model);

#ifdef __cplusplus
}
#endif

#endif
