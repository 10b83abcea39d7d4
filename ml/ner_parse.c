/* SPDX-License-Identifier: Apache-2.0 */
/* From words to scores of moves.
 *
 * Where it sits
 *     ner_train.c, ner_predict.c -> [ gather -> run -> score, again and again ] -> crt_network,
 *     ml/matrix.c
 * How
 *     A state is the sum of what its words give in their places, and a word gives the same in each
 *     place whatever the state. So that is computed for all words at once, in one product of
 *     matrices; a step of a state is then a few additions. The bias is in what the first word
 *     gives, which every state has.
 */
#include <stdlib.h>
#include <string.h>

#include "ml/dropout.h"
#include "ml/matrix.h"
#include "ml/ner_model.h"

void crti_ner_free_scratch(crti_ner_scratch_t *s)
{
    free(s->keys);
    free(s->tags);
    free(s->features);
    free(s->d_features);
    free(s->d_words);
    free(s->lengths);
    free(s->states);
    free(s->active);
    free(s->ids);
    free(s->vectors);
    free(s->mask);
    free(s->winners);
    free(s->scores);
    free(s->d_vectors);
    free(s->bias);
    free(s->d_bias);
    free(s->sum);
    free(s->costs);
}

static bool renew(void *array, size_t count, size_t size)
{
    void **place = array;

    free(*place);
    *place = calloc(count ? count : 1, size);
    return *place != NULL;
}

static crt_status_t make_documents(crti_ner_scratch_t *s, size_t documents)
{
    if (documents <= s->documents_room)
        return CRT_OK;
    s->documents_room = 0;
    if (!renew(&s->lengths, documents, sizeof(*s->lengths)))
        return crt_raise(CRT_ERR_NO_MEMORY, "lengths of %zu documents", documents);
    s->documents_room = documents;
    return CRT_OK;
}

/* Scratch of a number of words; what was in it is lost. */
static crt_status_t make_words(crt_ner_model_t *m, size_t words)
{
    crti_ner_scratch_t *s = &m->scratch;
    size_t row = (size_t)m->options.features * (size_t)m->units;

    if (words <= s->words_room)
        return CRT_OK;
    words += words / 4;
    s->words_room = 0;
    if (!renew(&s->keys, words, (size_t)m->options.table_count * sizeof(*s->keys)) ||
        !renew(&s->tags, words, sizeof(*s->tags)) ||
        !renew(&s->features, words, row * sizeof(float)) ||
        !renew(&s->d_features, words, row * sizeof(float)) ||
        !renew(&s->d_words, words, (size_t)m->options.hidden * sizeof(float)) ||
        !renew(&s->bias, row, sizeof(float)) || !renew(&s->d_bias, row, sizeof(float)) ||
        !renew(&s->sum, (size_t)m->units, sizeof(float)) ||
        !renew(&s->costs, m->move_count, sizeof(float)))
        return crt_raise(CRT_ERR_NO_MEMORY, "scratch of a parser for %zu words", words);
    s->words_room = words;
    return CRT_OK;
}

static crt_status_t make_steps(crt_ner_model_t *m, size_t steps)
{
    crti_ner_scratch_t *s = &m->scratch;
    size_t outs = (size_t)m->outs;

    if (steps <= s->steps_room)
        return CRT_OK;
    steps += steps / 4;
    s->steps_room = 0;
    if (!renew(&s->ids, steps, CRTI_NER_FEATURES_MAX * sizeof(*s->ids)) ||
        !renew(&s->vectors, steps, outs * sizeof(float)) ||
        !renew(&s->mask, steps, outs * sizeof(float)) ||
        !renew(&s->winners, steps, outs) ||
        !renew(&s->scores, steps, m->move_count * sizeof(float)) ||
        !renew(&s->d_vectors, steps, outs * sizeof(float)))
        return crt_raise(CRT_ERR_NO_MEMORY, "scratch of a parser for %zu steps", steps);
    s->steps_room = steps;
    return CRT_OK;
}

crt_status_t crti_ner_make_room(crt_ner_model_t *m, size_t states, size_t steps)
{
    crti_ner_scratch_t *s = &m->scratch;

    if (states > s->states_room) {
        states += states / 4;
        s->states_room = 0;
        if (!renew(&s->states, states, sizeof(*s->states)) ||
            !renew(&s->active, states, sizeof(*s->active)))
            return crt_raise(CRT_ERR_NO_MEMORY, "scratch of a parser for %zu states",
                             states);
        s->states_room = states;
    }
    return make_steps(m, steps);
}

/* The model's number of each label of the corpus. */
static crt_status_t translate(crt_ner_model_t *m, const crt_ner_corpus_t *corpus,
                              bool must_know)
{
    memset(m->label_of, CRTI_NER_NO_LABEL, sizeof(m->label_of));
    for (size_t i = 0; i < corpus->label_count; i++) {
        for (size_t k = 0; k < m->label_count; k++)
            if (strcmp(corpus->labels[i].name, m->labels[k]) == 0)
                m->label_of[i] = (uint8_t)k;
        if (must_know && m->label_of[i] == CRTI_NER_NO_LABEL &&
            corpus->labels[i].words > 0)
            return crt_raise(CRT_ERR_INVALID,
                             "the corpus has the label %s, the model not",
                             corpus->labels[i].name);
    }
    return CRT_OK;
}

/* The keys of words [first, first + length) of the corpus behind those that are there. */
static void gather_keys(crt_ner_model_t *m, const crt_ner_corpus_t *corpus, size_t first,
                        size_t length)
{
    int tables = m->options.table_count;
    uint64_t *to = m->scratch.keys + (size_t)tables * m->words;

    for (size_t i = first; i < first + length; i++)
        for (int k = 0; k < tables; k++)
            *to++ = crti_ner_key(corpus->text + corpus->word_at[i],
                                 corpus->keys + CRTI_NER_KEYS * i,
                                 m->options.tables[k].feature);
}

crt_status_t crti_ner_gather(crt_ner_model_t *m, const crt_ner_corpus_t *corpus,
                             const size_t *documents, size_t count, bool must_know)
{
    crt_status_t status = translate(m, corpus, must_know);
    size_t words = 0;

    for (size_t i = 0; i < count; i++)
        words += crt_ner_corpus_length(corpus, documents[i]);
    if (status == CRT_OK && (words < 1 || words > INT32_MAX / 2))
        status = crt_raise(CRT_ERR_INVALID, "a batch of %zu words", words);
    if (status == CRT_OK)
        status = make_words(m, words);
    if (status == CRT_OK)
        status = make_documents(&m->scratch, count);
    if (status != CRT_OK)
        return status;
    m->words = 0;
    m->documents = count;
    for (size_t i = 0; i < count; i++) {
        size_t first = crti_ner_first(corpus, documents[i]);
        size_t length = crt_ner_corpus_length(corpus, documents[i]);

        gather_keys(m, corpus, first, length);
        for (size_t k = 0; k < length; k++) {
            crti_ner_tag_t *tag = &m->scratch.tags[m->words + k];

            *tag = corpus->tags[first + k];
            tag->label = m->label_of[tag->label];
        }
        m->scratch.lengths[i] = (int32_t)length;
        m->words += length;
    }
    return CRT_OK;
}

crt_status_t crti_ner_run(crt_ner_model_t *m, const crt_tensor_t *weights, bool training,
                          const float **flat_out, const float **vectors_out)
{
    crti_ner_scratch_t *s = &m->scratch;
    int64_t shape[2] = {(int64_t)m->words, m->options.table_count},
            count = (int64_t)m->documents;
    crt_tensor_t keys = crt_tensor_view(CRT_DTYPE_INT64, 2, shape, s->keys), vectors;
    crt_tensor_t lengths = crt_tensor_view(CRT_DTYPE_INT32, 1, &count, s->lengths);
    crt_status_t status = crti_model_weights(m->network, weights, flat_out);

    if (status == CRT_OK)
        status =
            crt_model_forward(m->network, weights, &keys, &lengths, training, &vectors);
    if (status != CRT_OK)
        return status;
    *vectors_out = vectors.data;
    if (m->network->device) /* which makes what words give itself */
        return CRT_OK;
    memcpy(s->bias, *flat_out + m->places.bias, (size_t)m->units * sizeof(float));
    crti_matrix_affine((int)m->words, m->options.features * m->units, m->options.hidden,
                       vectors.data, *flat_out + m->places.lower, s->bias, s->features);
    return CRT_OK;
}

static void sum_words(crt_ner_model_t *m, const float *flat, const int32_t *ids)
{
    size_t units = (size_t)m->units, row = (size_t)m->options.features * units;
    float *restrict sum = m->scratch.sum;

    memcpy(sum, m->scratch.features + (size_t)ids[0] * row, units * sizeof(float));
    for (int k = 1; k < m->options.features; k++) {
        const float *restrict from =
            (ids[k] < 0 ? flat + m->places.padding
                        : m->scratch.features + (size_t)ids[k] * row) +
            (size_t)k * units;

        for (size_t i = 0; i < units; i++)
            sum[i] += from[i];
    }
}

static void largest(const crt_ner_model_t *m, float *vector, uint8_t *winners)
{
    int pieces = m->options.state_pieces;
    const float *sum = m->scratch.sum;

    for (int o = 0; o < m->outs; o++, sum += pieces) {
        int best = 0;

        for (int p = 1; p < pieces; p++)
            best = sum[p] > sum[best] ? p : best;
        vector[o] = sum[best];
        winners[o] = (uint8_t)best;
        if (pieces == 1 && sum[0] < 0) {
            vector[o] = 0;
            winners[o] = 1;
        }
    }
}

void crti_ner_score(crt_ner_model_t *m, const float *flat, size_t first,
                    const uint32_t *states, size_t count, bool training)
{
    crti_ner_scratch_t *s = &m->scratch;
    size_t outs = (size_t)m->outs;
    float *vectors = s->vectors + first * outs, *mask = s->mask + first * outs;
    float *scores = s->scores + first * m->move_count;

    for (size_t i = 0; i < count; i++) {
        int32_t *ids = s->ids + (first + i) * CRTI_NER_FEATURES_MAX;

        crti_ner_context(&s->states[states[i]], m->options.features, ids);
        sum_words(m, flat, ids);
        largest(m, vectors + i * outs, s->winners + (first + i) * outs);
    }
    if (!m->options.upper) {
        memcpy(scores, vectors, count * outs * sizeof(float));
        return;
    }
    if (training) {
        crti_dropout_draw(mask, count * outs, m->state_dropout, &m->random);
        for (size_t i = 0; i < count * outs; i++)
            vectors[i] *= mask[i];
    }
    crti_matrix_affine((int)count, (int)m->move_count, m->outs, vectors,
                       flat + m->places.upper, flat + m->places.upper_bias, scores);
}

crti_ner_move_t crti_ner_best(const crt_ner_model_t *m, const crti_ner_state_t *state,
                              const float *scores)
{
    size_t best = m->move_count;

    for (size_t i = 0; i < m->move_count; i++)
        if (crti_ner_is_valid(state, m->moves[i]) &&
            (best == m->move_count || scores[i] > scores[best]))
            best = i;
    /* Outside of entities "out" is possible, inside "last". */
    return m->moves[best];
}
