/* SPDX-License-Identifier: Apache-2.0 */
/* NER corpus: how documents lie in memory, and how they come there.
 *
 * Where it sits
 *     files (ner_read.c), drawings (ner_synthetic.c) -> [ ner_corpus.c ] -> batches, model, scores
 * Ownership
 *     A corpus owns all it holds. While it is built its arrays grow; after that it is only read.
 */
#ifndef CRTI_ML_NER_CORPUS_H
#define CRTI_ML_NER_CORPUS_H

#include <crt_ner.h>

#define CRTI_NER_LABELS_MAX 255
#define CRTI_NER_WORD_MAX   1024 /* bytes of a word */
#define CRTI_NER_NO_LABEL   UINT8_MAX
#define CRTI_NER_KEYS                                                                    \
    5 /* that a corpus keeps: NORM to ORTH; the others cost less than their memory */

typedef struct crti_ner_tag {
    uint8_t action; /* crt_ner_action_t */
    uint8_t label;  /* CRTI_NER_NO_LABEL: none */
    bool is_space;
    bool starts_sentence;
} crti_ner_tag_t;

struct crt_ner_corpus {
    size_t words, words_room;
    uint64_t *keys; /* CRTI_NER_KEYS of each word */
    crti_ner_tag_t *tags;
    size_t *word_at; /* where each word is in `text` */

    char *text; /* all words, each with its zero byte */
    size_t text_size, text_room;

    size_t documents, documents_room;
    size_t *ends; /* behind the last word of each document */

    size_t label_count;
    struct {
        char *name;
        size_t words;
    } labels[CRTI_NER_LABELS_MAX];
    size_t entities;
};

static inline size_t crti_ner_first(const crt_ner_corpus_t *corpus, size_t document)
{
    return document == 0 ? 0 : corpus->ends[document - 1];
}

/* Adds a word to the document that is being built. `size` is at least 1. CRT_ERR_INVALID: not
 * UTF-8. */
crt_status_t crti_ner_add_word(crt_ner_corpus_t *corpus, const char *word, size_t size,
                               crti_ner_tag_t tag);

/* The number of a label, a new one when there was none. */
crt_status_t crti_ner_add_label(crt_ner_corpus_t *corpus, const char *name, size_t size,
                                uint8_t *label_out);

/* Ends the document that is being built, when it has words. */
crt_status_t crti_ner_end_document(crt_ner_corpus_t *corpus);

/* Counts labels and entities, when all documents are there. */
void crti_ner_count(crt_ner_corpus_t *corpus);

/* What crt_ner_corpus_write writes. Caller frees the text with free. */
crt_status_t crti_ner_text(const crt_ner_corpus_t *corpus, char **text_out,
                           size_t *size_out);

/* Makes room for `count` elements of `size` bytes. */
crt_status_t crti_ner_grow(void **array, size_t *room, size_t count, size_t size);

/* The CRTI_NER_KEYS keys of a word, and whether all of it is white space. CRT_ERR_INVALID: not
 * UTF-8. */
crt_status_t crti_ner_features(const char *word, size_t size, uint64_t *keys_out,
                               bool *is_space_out);

/* The key of any feature of a word whose kept keys are these. */
uint64_t crti_ner_key(const char *word, const uint64_t *keys, crt_ner_feature_t feature);

#endif
