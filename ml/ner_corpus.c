/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/ner_corpus.h"
#include "ml/ner_letters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ml/file.h"
#include "ml/random.h"
#include "runtime/base/copy_struct.h"

#define STREAM_PART       7
#define STREAM_LOWER_CASE 12

crt_status_t crti_ner_grow(void **array, size_t *room, size_t count, size_t size)
{
    size_t more = *room + *room / 2 + 64;
    void *grown;

    if (count <= *room)
        return CRT_OK;
    more = more < count ? count : more;
    grown = more > SIZE_MAX / size ? NULL : realloc(*array, more * size);
    if (!grown)
        return crt_raise(CRT_ERR_NO_MEMORY, "a corpus: %zu times %zu bytes", more, size);
    *array = grown;
    *room = more;
    return CRT_OK;
}

/* The three arrays of words grow together. */
static crt_status_t grow_words(crt_ner_corpus_t *c)
{
    size_t room = c->words_room;
    crt_status_t status = crti_ner_grow((void **)&c->keys, &room, c->words + 1,
                                        CRTI_NER_KEYS * sizeof(*c->keys));

    room = c->words_room;
    if (status == CRT_OK)
        status = crti_ner_grow((void **)&c->tags, &room, c->words + 1, sizeof(*c->tags));
    room = c->words_room;
    if (status == CRT_OK)
        status =
            crti_ner_grow((void **)&c->word_at, &room, c->words + 1, sizeof(*c->word_at));
    if (status == CRT_OK)
        c->words_room = room;
    return status;
}

crt_status_t crti_ner_add_word(crt_ner_corpus_t *c, const char *word, size_t size,
                               crti_ner_tag_t tag)
{
    crt_status_t status = grow_words(c);

    if (status == CRT_OK)
        status =
            crti_ner_grow((void **)&c->text, &c->text_room, c->text_size + size + 1, 1);
    if (status == CRT_OK)
        status = crti_ner_features(word, size, c->keys + CRTI_NER_KEYS * c->words,
                                   &tag.is_space);
    if (status != CRT_OK)
        return status;
    c->tags[c->words] = tag;
    c->word_at[c->words++] = c->text_size;
    memcpy(c->text + c->text_size, word, size);
    c->text[c->text_size + size] = '\0';
    c->text_size += size + 1;
    return CRT_OK;
}

crt_status_t crti_ner_add_label(crt_ner_corpus_t *c, const char *name, size_t size,
                                uint8_t *label_out)
{
    for (size_t i = 0; i < c->label_count; i++)
        if (strncmp(c->labels[i].name, name, size) == 0 && !c->labels[i].name[size]) {
            *label_out = (uint8_t)i;
            return CRT_OK;
        }
    if (c->label_count == CRTI_NER_LABELS_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "more than %d labels", CRTI_NER_LABELS_MAX);
    c->labels[c->label_count].name = strndup(name, size);
    if (!c->labels[c->label_count].name)
        return crt_raise(CRT_ERR_NO_MEMORY, "a label");
    *label_out = (uint8_t)c->label_count++;
    return CRT_OK;
}

crt_status_t crti_ner_end_document(crt_ner_corpus_t *c)
{
    crt_status_t status;

    if (c->words == crti_ner_first(c, c->documents))
        return CRT_OK;
    status = crti_ner_grow((void **)&c->ends, &c->documents_room, c->documents + 1,
                           sizeof(*c->ends));
    if (status == CRT_OK)
        c->ends[c->documents++] = c->words;
    return status;
}

void crti_ner_count(crt_ner_corpus_t *c)
{
    for (size_t i = 0; i < c->words; i++) {
        const crti_ner_tag_t *tag = &c->tags[i];

        if (tag->label != CRTI_NER_NO_LABEL)
            c->labels[tag->label].words++;
        c->entities += tag->action == CRT_NER_BEGIN || tag->action == CRT_NER_UNIT;
    }
}

/* A word as it is, or in lower case. */
static crt_status_t copy_word(const crt_ner_corpus_t *from, size_t at, bool lower_case,
                              crt_ner_corpus_t *to)
{
    char lower[4 * CRTI_NER_WORD_MAX];
    const char *word = from->text + from->word_at[at];
    size_t size = strlen(word);
    crti_ner_tag_t tag = from->tags[at];
    crt_status_t status = CRT_OK;

    if (tag.label != CRTI_NER_NO_LABEL)
        status = crti_ner_add_label(to, from->labels[tag.label].name,
                                    strlen(from->labels[tag.label].name), &tag.label);
    if (lower_case) {
        size = crti_letters_lower(word, size, lower);
        word = lower;
    }
    return status == CRT_OK ? crti_ner_add_word(to, word, size, tag) : status;
}

static crt_status_t copy_document(const crt_ner_corpus_t *from, size_t document,
                                  bool lower_case, crt_ner_corpus_t *to)
{
    crt_status_t status = CRT_OK;

    for (size_t i = crti_ner_first(from, document);
         i < from->ends[document] && status == CRT_OK; i++)
        status = copy_word(from, i, lower_case, to);
    return status == CRT_OK ? crti_ner_end_document(to) : status;
}

static crt_status_t copy_labels(const crt_ner_corpus_t *from, crt_ner_corpus_t *to)
{
    crt_status_t status = CRT_OK;
    uint8_t label;

    for (size_t i = 0; i < from->label_count && status == CRT_OK; i++)
        status = crti_ner_add_label(to, from->labels[i].name,
                                    strlen(from->labels[i].name), &label);
    return status;
}

/* Which documents are in the part: a flag for each. */
static crt_status_t draw(size_t count, uint64_t seed, double first, double end,
                         bool **chosen_out)
{
    crti_random_t random = crti_random(seed, STREAM_PART);
    size_t *order = calloc(count, sizeof(*order));
    bool *chosen = calloc(count, sizeof(*chosen));

    if (!order || !chosen) {
        free(order);
        free(chosen);
        return crt_raise(CRT_ERR_NO_MEMORY, "the order of %zu documents", count);
    }
    for (size_t i = 0; i < count; i++) {
        size_t other = crti_random_below(&random, (uint32_t)i + 1);

        order[i] = order[other];
        order[other] = i;
    }
    for (size_t i = (size_t)(first * (double)count); i < (size_t)(end * (double)count);
         i++)
        chosen[order[i]] = true;
    free(order);
    *chosen_out = chosen;
    return CRT_OK;
}

crt_status_t crt_ner_corpus_new_part(const crt_ner_corpus_t *corpus, uint64_t seed,
                                     double first, double end,
                                     crt_ner_corpus_t **part_out)
{
    crt_ner_corpus_t *part;
    crt_status_t status;
    bool *chosen;

    if (!(first >= 0 && first < end && end <= 1))
        return crt_raise(CRT_ERR_INVALID, "the part of a corpus from %g to %g", first,
                         end);
    status = draw(corpus->documents, seed, first, end, &chosen);
    if (status != CRT_OK)
        return status;
    part = calloc(1, sizeof(*part));
    status = part ? copy_labels(corpus, part) : crt_raise(CRT_ERR_NO_MEMORY, "a corpus");
    for (size_t i = 0; i < corpus->documents && status == CRT_OK; i++)
        if (chosen[i])
            status = copy_document(corpus, i, false, part);
    free(chosen);
    if (status == CRT_OK && part->documents == 0)
        status = crt_raise(CRT_ERR_INVALID, "no document is between %g and %g of %zu",
                           first, end, corpus->documents);
    if (status != CRT_OK) {
        crt_ner_corpus_drop(&part);
        return status;
    }
    crti_ner_count(part);
    *part_out = part;
    return CRT_OK;
}

static crt_status_t select_documents(const crt_ner_corpus_t *corpus,
                                     const crt_ner_selection_t *s, crt_ner_corpus_t *to)
{
    size_t end =
        s->limit > 0 && s->limit < corpus->documents ? s->limit : corpus->documents;
    crti_random_t random = crti_random(s->seed, STREAM_LOWER_CASE);
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < end && status == CRT_OK; i++)
        if (s->max_length == 0 || crt_ner_corpus_length(corpus, i) < s->max_length)
            status = copy_document(
                corpus, i, crti_random_between(&random, 0, 1) < s->lower_case, to);
    if (status == CRT_OK && to->documents == 0)
        status = crt_raise(CRT_ERR_INVALID,
                           "none of the first %zu documents has fewer than %zu words",
                           end, s->max_length);
    return status;
}

crt_status_t crt_ner_corpus_new_selection(const crt_ner_corpus_t *corpus,
                                          const crt_ner_selection_t *selection,
                                          crt_ner_corpus_t **selected_out)
{
    crt_ner_corpus_t *selected;
    crt_ner_selection_t mine;
    crt_status_t status = CRTI_COPY_STRUCT(&mine, selection, "CRT_NER_SELECTION");

    if (status != CRT_OK)
        return status;
    if (!(mine.lower_case >= 0 && mine.lower_case <= 1))
        return crt_raise(CRT_ERR_INVALID, "%g of the documents in lower case",
                         mine.lower_case);
    selected = calloc(1, sizeof(*selected));
    status = selected ? select_documents(corpus, &mine, selected)
                      : crt_raise(CRT_ERR_NO_MEMORY, "a corpus");
    if (status != CRT_OK) {
        crt_ner_corpus_drop(&selected);
        return status;
    }
    crti_ner_count(selected);
    *selected_out = selected;
    return CRT_OK;
}

static void print_word(const crt_ner_corpus_t *c, size_t i, FILE *out)
{
    const crti_ner_tag_t *tag = &c->tags[i];

    fprintf(out, "%s%s\t%c", i > 0 && tag->starts_sentence ? "\n" : "",
            c->text + c->word_at[i], "-BILUO"[tag->action]);
    if (tag->label != CRTI_NER_NO_LABEL)
        fprintf(out, "-%s", c->labels[tag->label].name);
    fputc('\n', out);
}

crt_status_t crti_ner_text(const crt_ner_corpus_t *corpus, char **text_out,
                           size_t *size_out)
{
    FILE *out = open_memstream(text_out, size_out);

    if (!out)
        return crt_raise(CRT_ERR_NO_MEMORY, "the text of a corpus");
    for (size_t i = 0; i < corpus->words; i++)
        print_word(corpus, i, out);
    if (ferror(out) | fclose(out)) {
        free(*text_out);
        return crt_raise(CRT_ERR_NO_MEMORY, "the text of a corpus");
    }
    return CRT_OK;
}

crt_status_t crt_ner_corpus_write(const crt_ner_corpus_t *corpus, const char *path)
{
    char *text;
    size_t size;
    crt_status_t status = crti_ner_text(corpus, &text, &size);

    if (status != CRT_OK)
        return status;
    status = crti_file_write(path, text, size);
    free(text);
    return status;
}

size_t crt_ner_corpus_documents(const crt_ner_corpus_t *corpus)
{
    return corpus->documents;
}

size_t crt_ner_corpus_words(const crt_ner_corpus_t *corpus)
{
    return corpus->words;
}

size_t crt_ner_corpus_entities(const crt_ner_corpus_t *corpus)
{
    return corpus->entities;
}

size_t crt_ner_corpus_labels(const crt_ner_corpus_t *corpus)
{
    return corpus->label_count;
}

const char *crt_ner_corpus_label(const crt_ner_corpus_t *corpus, size_t index,
                                 size_t *words_out)
{
    if (index >= corpus->label_count)
        return NULL;
    if (words_out)
        *words_out = corpus->labels[index].words;
    return corpus->labels[index].name;
}

size_t crt_ner_corpus_length(const crt_ner_corpus_t *corpus, size_t document)
{
    return document < corpus->documents
               ? corpus->ends[document] - crti_ner_first(corpus, document)
               : 0;
}

/* The place of a word among all words. */
static bool find(const crt_ner_corpus_t *corpus, size_t document, size_t word,
                 size_t *at_out)
{
    if (word >= crt_ner_corpus_length(corpus, document))
        return false;
    *at_out = crti_ner_first(corpus, document) + word;
    return true;
}

const char *crt_ner_corpus_word(const crt_ner_corpus_t *corpus, size_t document,
                                size_t word)
{
    size_t at;

    return find(corpus, document, word, &at) ? corpus->text + corpus->word_at[at] : NULL;
}

uint64_t crt_ner_corpus_key(const crt_ner_corpus_t *corpus, size_t document, size_t word,
                            crt_ner_feature_t feature)
{
    size_t at;

    return find(corpus, document, word, &at)
               ? crti_ner_key(corpus->text + corpus->word_at[at],
                              corpus->keys + CRTI_NER_KEYS * at, feature)
               : 0;
}

crt_ner_action_t crt_ner_corpus_tag(const crt_ner_corpus_t *corpus, size_t document,
                                    size_t word, const char **label_out)
{
    bool found;
    size_t at;

    found = find(corpus, document, word, &at);
    if (label_out)
        *label_out = found && corpus->tags[at].label != CRTI_NER_NO_LABEL
                         ? corpus->labels[corpus->tags[at].label].name
                         : NULL;
    return found ? (crt_ner_action_t)corpus->tags[at].action : CRT_NER_MISSING;
}

void crt_ner_corpus_drop(crt_ner_corpus_t **dropped)
{
    crt_ner_corpus_t *corpus = *dropped;

    if (!corpus)
        return;
    for (size_t i = 0; i < corpus->label_count; i++)
        free(corpus->labels[i].name);
    free(corpus->keys);
    free(corpus->tags);
    free(corpus->word_at);
    free(corpus->text);
    free(corpus->ends);
    free(corpus);
    *dropped = NULL;
}
