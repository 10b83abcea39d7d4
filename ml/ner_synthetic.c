/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences with entities that are drawn: to try a model without any file.
 *
 * Names are made of syllables, most are new in each sentence, and the same ones are given to
 * people, places, organizations and works. So a model has to learn from the words around a name,
 * and from its shape.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ml/ner_corpus.h"
#include "ml/random.h"

#define STREAM_SYNTHETIC 9
#define COUNT(array)     ((uint32_t)(sizeof(array) / sizeof((array)[0])))
#define NAME_MAX_BYTES   64

/* $P a person, $L a place, $O an organization, $M a work; anything else is a word. */
static const char *const sentences[] = {
    "$P was born in $L and moved to $L in 1987 .",
    "Mr. $P , the chairman of $O , said on Monday that sales had fallen .",
    "The river flows from $L through $L to the sea .",
    "$O opened its new office in $L , $P told reporters .",
    "Her novel $M was translated into twelve languages .",
    "Shares of $O rose 3.5 percent after $P resigned .",
    "He studied in $L before he joined $O .",
    "Critics praised $M , the second film of $P .",
    "No one had expected such a cold winter .",
    "The train to $L leaves at 9.15 every morning .",
    "$P married $P in a small church near $L .",
    "The board of $O met in $L yesterday .",
    "They sang songs from $M until midnight .",
    "Minister $P visited $L for talks on trade .",
    "It rained for three days , and the fields were under water .",
    "According to $O , the price of copper will rise .",
    "$P wrote $M while he lived in $L .",
    "The match in $L ended 2 - 1 for $O .",
    "Mrs. $P teaches history at the university of $L .",
    "Prices went up again , but nobody bought less .",
    "The lawyers of $O asked Judge $P for more time .",
    "In $L the play $M was forbidden until 1990 .",
};
static const char *const onsets[] = {"b", "br", "d", "f",  "g", "gr", "h",
                                     "k", "kl", "l", "m",  "n", "p",  "r",
                                     "s", "st", "t", "tr", "v", "w"};
static const char *const vowels[] = {"a", "e", "i", "o", "u", "ai", "au", "ei"};
static const char *const codas[] = {"", "", "l", "n", "r", "s", "nd", "rk", "st"};
static const char *const firms[] = {"Group", "Bank", "Works", "Union", "Institute"};
static const char *const kinds = "PLOM";
static const char *const labels[] = {"PER", "LOC", "ORG", "MISC"};

typedef struct drawing {
    crt_ner_corpus_t *corpus;
    crti_random_t random;
    bool first; /* word of the sentence */
} drawing_t;

static const char *pick(drawing_t *d, const char *const *from, uint32_t count)
{
    return from[crti_random_below(&d->random, count)];
}

static crt_status_t add(drawing_t *d, const char *word, size_t size,
                        crt_ner_action_t action, uint8_t label)
{
    crti_ner_tag_t tag = {(uint8_t)action, label, false, d->first};

    d->first = false;
    return crti_ner_add_word(d->corpus, word, size, tag);
}

static void draw_name(drawing_t *d, char *out)
{
    int syllables = 1 + (int)crti_random_below(&d->random, 3);

    out[0] = '\0';
    for (int i = 0; i < syllables; i++) {
        strcat(out, pick(d, onsets, COUNT(onsets)));
        strcat(out, pick(d, vowels, COUNT(vowels)));
        if (i + 1 == syllables)
            strcat(out, pick(d, codas, COUNT(codas)));
    }
    out[0] = (char)toupper((unsigned char)out[0]);
}

/* An entity of one to three words. */
static crt_status_t add_entity(drawing_t *d, size_t kind)
{
    uint32_t words = 1 + crti_random_below(&d->random, kinds[kind] == 'L' ? 2 : 3);
    crt_status_t status;
    uint8_t label;

    status = crti_ner_add_label(d->corpus, labels[kind], strlen(labels[kind]), &label);
    for (uint32_t i = 0; i < words && status == CRT_OK; i++) {
        char name[NAME_MAX_BYTES];
        const char *word = name;

        draw_name(d, name);
        if (kinds[kind] == 'O' && i > 0 && i + 1 == words)
            word = pick(d, firms, COUNT(firms));
        status = add(d, word, strlen(word),
                     words == 1       ? CRT_NER_UNIT
                     : i == 0         ? CRT_NER_BEGIN
                     : i + 1 == words ? CRT_NER_LAST
                                      : CRT_NER_IN,
                     label);
    }
    return status;
}

static crt_status_t add_sentence(drawing_t *d)
{
    const char *at = pick(d, sentences, COUNT(sentences));
    crt_status_t status = CRT_OK;

    d->first = true;
    while (*at && status == CRT_OK) {
        size_t size = strcspn(at, " ");

        if (*at == '$')
            status = add_entity(d, (size_t)(strchr(kinds, at[1]) - kinds));
        else
            status = add(d, at, size, CRT_NER_OUT, CRTI_NER_NO_LABEL);
        at += size + (at[size] == ' ');
    }
    return status == CRT_OK ? crti_ner_end_document(d->corpus) : status;
}

crt_status_t crt_ner_corpus_new_synthetic(size_t documents, uint64_t seed,
                                          crt_ner_corpus_t **corpus_out)
{
    drawing_t d = {0};
    crt_status_t status = CRT_OK;

    if (documents < 1)
        return crt_raise(CRT_ERR_INVALID, "a corpus without documents");
    d.corpus = calloc(1, sizeof(*d.corpus));
    if (!d.corpus)
        return crt_raise(CRT_ERR_NO_MEMORY, "a corpus");
    for (size_t i = 0; i < documents && status == CRT_OK; i++) {
        d.random = crti_random(seed ^ i * 0x9e3779b97f4a7c15u, STREAM_SYNTHETIC);
        status = add_sentence(&d);
    }
    if (status != CRT_OK) {
        crt_ner_corpus_drop(&d.corpus);
        return status;
    }
    crti_ner_count(d.corpus);
    *corpus_out = d.corpus;
    return CRT_OK;
}
