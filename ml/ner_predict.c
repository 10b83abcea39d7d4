/* SPDX-License-Identifier: Apache-2.0 */
/* Tags that a NER model finds, and how good they are. */
#include <stdlib.h>
#include <string.h>

#include "ml/ner_device.h"

#define WORDS_AT_ONCE 2048

/* The states of all gathered documents, at their first words. */
static void begin(crt_ner_model_t *m)
{
    crti_ner_scratch_t *s = &m->scratch;
    uint32_t first = 0;

    for (size_t i = 0; i < m->documents; i++) {
        s->states[i] = (crti_ner_state_t){.first = first,
                                          .length = (uint32_t)s->lengths[i],
                                          .start = -1,
                                          .label = CRTI_NER_NO_LABEL,
                                          .tags = s->tags + first};
        first += s->states[i].length;
    }
}

/* Follows the best moves of all gathered documents; the tags go to `found`. */
static void decode(crt_ner_model_t *m, const float *flat, crti_ner_tag_t *found)
{
    crti_ner_scratch_t *s = &m->scratch;

    for (size_t i = 0; i < m->documents; i++)
        s->active[i] = (uint32_t)i;
    for (size_t active = m->documents, left; active > 0; active = left) {
        left = 0;
        crti_ner_score(m, flat, 0, s->active, active, false);
        for (size_t i = 0; i < active; i++) {
            crti_ner_state_t *state = &s->states[s->active[i]];
            crti_ner_move_t move = crti_ner_best(m, state, s->scores + i * m->move_count);

            found[state->first + state->at].action = move.action;
            found[state->first + state->at].label = move.label;
            crti_ner_do(state, move);
            if (!crti_ner_is_final(state))
                s->active[left++] = s->active[i];
        }
    }
}

/* The same on a device. */
static crt_status_t decode_there(crt_ner_model_t *m, const float *flat,
                                 const float *vectors, crti_ner_tag_t *found)
{
    crti_device_t *device = m->network->device;
    crti_ner_job_t job = {.states = m->scratch.states,
                          .steps = (const uint32_t *)m->scratch.lengths,
                          .count = m->documents,
                          .flat = flat,
                          .vectors = vectors};
    uint16_t *moves = malloc(m->words * sizeof(*moves));
    crt_status_t status = moves ? device->ops->parser->tag(device, m, &job, moves)
                                : crt_raise(CRT_ERR_NO_MEMORY, "%zu moves", m->words);

    for (size_t i = 0; i < m->words && status == CRT_OK; i++) {
        found[i].action = m->moves[moves[i]].action;
        found[i].label = m->moves[moves[i]].label;
    }
    free(moves);
    return status;
}

/* The tags of documents [first, first + count), which are some thousand words. */
static crt_status_t tag_some(crt_ner_model_t *m, const crt_tensor_t *weights,
                             const crt_ner_corpus_t *corpus, const size_t *documents,
                             size_t count, crti_ner_tag_t *found)
{
    const float *flat, *vectors;
    crt_status_t status = crti_ner_gather(m, corpus, documents, count, false);

    if (status == CRT_OK)
        status = crti_ner_make_room(m, count, count);
    if (status == CRT_OK)
        status = crti_ner_run(m, weights, false, &flat, &vectors);
    if (status != CRT_OK)
        return status;
    begin(m);
    if (m->network->device)
        return decode_there(m, flat, vectors, found);
    decode(m, flat, found);
    return CRT_OK;
}

/* All tags of a corpus, with labels of the model; the caller frees them. */
static crt_status_t tag_all(crt_ner_model_t *m, const crt_tensor_t *weights,
                            const crt_ner_corpus_t *corpus, crti_ner_tag_t **tags_out)
{
    crti_ner_tag_t *tags = calloc(corpus->words, sizeof(*tags));
    size_t *documents = calloc(corpus->documents, sizeof(*documents));
    crt_status_t status = tags && documents
                              ? CRT_OK
                              : crt_raise(CRT_ERR_NO_MEMORY, "%zu tags", corpus->words);

    for (size_t i = 0, end; i < corpus->documents && status == CRT_OK; i = end) {
        size_t first = crti_ner_first(corpus, i);

        for (end = i; end < corpus->documents &&
                      (end == i || corpus->ends[end] - first <= WORDS_AT_ONCE);
             end++)
            documents[end] = end;
        status = tag_some(m, weights, corpus, documents + i, end - i, tags + first);
    }
    free(documents);
    if (status != CRT_OK) {
        free(tags);
        return status;
    }
    *tags_out = tags;
    return CRT_OK;
}

static crt_status_t copy_tagged(const crt_ner_model_t *m, const crt_ner_corpus_t *from,
                                const crti_ner_tag_t *tags, crt_ner_corpus_t *to)
{
    crt_status_t status = CRT_OK;
    uint8_t label;

    for (size_t i = 0; i < m->label_count && status == CRT_OK; i++)
        status = crti_ner_add_label(to, m->labels[i], strlen(m->labels[i]), &label);
    for (size_t i = 0, document = 0; i < from->words && status == CRT_OK; i++) {
        const char *word = from->text + from->word_at[i];
        crti_ner_tag_t tag = from->tags[i];

        tag.action = tags[i].action;
        tag.label = tags[i].label;
        status = crti_ner_add_word(to, word, strlen(word), tag);
        if (status == CRT_OK && i + 1 == from->ends[document]) {
            document++;
            status = crti_ner_end_document(to);
        }
    }
    return status;
}

crt_status_t crt_ner_predict(crt_ner_model_t *model, const crt_tensor_t *weights,
                             const crt_ner_corpus_t *corpus,
                             crt_ner_corpus_t **tagged_out)
{
    crti_ner_tag_t *tags;
    crt_ner_corpus_t *tagged;
    crt_status_t status = tag_all(model, weights, corpus, &tags);

    if (status != CRT_OK)
        return status;
    tagged = calloc(1, sizeof(*tagged));
    status = tagged ? copy_tagged(model, corpus, tags, tagged)
                    : crt_raise(CRT_ERR_NO_MEMORY, "a corpus");
    free(tags);
    if (status != CRT_OK) {
        crt_ner_corpus_drop(&tagged);
        return status;
    }
    crti_ner_count(tagged);
    *tagged_out = tagged;
    return CRT_OK;
}

/* ---------------------------------------------------------------- scores */

struct crt_ner_scores {
    crt_ner_count_t all;
    size_t count;
    struct {
        const char *label; /* borrowed from the corpus or the model */
        crt_ner_count_t count;
    } labels[2 * CRTI_NER_LABELS_MAX];
};

double crt_ner_precision(const crt_ner_count_t *c)
{
    return c->predicted ? (double)c->correct / (double)c->predicted : 0;
}

double crt_ner_recall(const crt_ner_count_t *c)
{
    return c->gold ? (double)c->correct / (double)c->gold : 0;
}

double crt_ner_f(const crt_ner_count_t *c)
{
    return c->gold + c->predicted
               ? 2 * (double)c->correct / (double)(c->gold + c->predicted)
               : 0;
}

/* The end of the entity that begins at a word; 0 when none does. */
static size_t end_of(const crti_ner_tag_t *tags, size_t at)
{
    if (tags[at].action != CRT_NER_BEGIN && tags[at].action != CRT_NER_UNIT)
        return 0;
    while (tags[at].action != CRT_NER_LAST && tags[at].action != CRT_NER_UNIT)
        at++;
    return at + 1;
}

/* Labels of the model, and behind them those that the corpus alone has. */
static void name_labels(const crt_ner_model_t *m, const crt_ner_corpus_t *corpus,
                        crt_ner_scores_t *scores, size_t *place_of)
{
    for (size_t i = 0; i < m->label_count; i++)
        scores->labels[scores->count++].label = m->labels[i];
    for (size_t i = 0; i < corpus->label_count; i++) {
        place_of[i] = 0;
        while (place_of[i] < m->label_count &&
               strcmp(m->labels[place_of[i]], corpus->labels[i].name) != 0)
            place_of[i]++;
        if (place_of[i] < m->label_count)
            continue;
        place_of[i] = scores->count;
        scores->labels[scores->count++].label = corpus->labels[i].name;
    }
}

static void compare(const crt_ner_corpus_t *corpus, const crti_ner_tag_t *found,
                    const size_t *place_of, crt_ner_scores_t *scores)
{
    for (size_t i = 0; i < corpus->words; i++) {
        size_t gold = end_of(corpus->tags, i), predicted = end_of(found, i);

        if (gold)
            scores->labels[place_of[corpus->tags[i].label]].count.gold++;
        if (predicted)
            scores->labels[found[i].label].count.predicted++;
        if (gold && gold == predicted &&
            place_of[corpus->tags[i].label] == found[i].label)
            scores->labels[found[i].label].count.correct++;
    }
    for (size_t i = 0; i < scores->count; i++) {
        scores->all.gold += scores->labels[i].count.gold;
        scores->all.predicted += scores->labels[i].count.predicted;
        scores->all.correct += scores->labels[i].count.correct;
    }
}

crt_status_t crt_ner_evaluate(crt_ner_model_t *model, const crt_tensor_t *weights,
                              const crt_ner_corpus_t *corpus,
                              crt_ner_scores_t **scores_out)
{
    size_t place_of[CRTI_NER_LABELS_MAX];
    crti_ner_tag_t *found;
    crt_ner_scores_t *scores = calloc(1, sizeof(*scores));
    crt_status_t status = scores ? tag_all(model, weights, corpus, &found)
                                 : crt_raise(CRT_ERR_NO_MEMORY, "scores");

    if (status != CRT_OK) {
        free(scores);
        return status;
    }
    name_labels(model, corpus, scores, place_of);
    compare(corpus, found, place_of, scores);
    free(found);
    *scores_out = scores;
    return CRT_OK;
}

crt_ner_count_t crt_ner_scores_all(const crt_ner_scores_t *scores)
{
    return scores->all;
}

size_t crt_ner_scores_labels(const crt_ner_scores_t *scores)
{
    return scores->count;
}

const char *crt_ner_scores_label(const crt_ner_scores_t *scores, size_t index,
                                 crt_ner_count_t *count_out)
{
    if (index >= scores->count)
        return NULL;
    if (count_out)
        *count_out = scores->labels[index].count;
    return scores->labels[index].label;
}

void crt_ner_scores_drop(crt_ner_scores_t **dropped)
{
    free(*dropped);
    *dropped = NULL;
}
