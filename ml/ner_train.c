/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of a NER model, by a dynamic oracle.
 *
 * Where it sits
 *     documents -> [ states -> steps: scores, loss, the model's own best move -> back through all
 *     steps at once ]
 *         -> flat gradient
 * How
 *     A state follows the moves that the model finds best, and learns in each step which moves cost
 *     nothing from where it is. Weights don't change meanwhile, so the gradients of all steps go
 *     back in one product of matrices for each layer.
 */
#include <math.h>
#include <string.h>

#include "ml/matrix.h"
#include "ml/ner_device.h"
#include "runtime/base/copy_struct.h"

static bool is_known(const crti_ner_state_t *s, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (s->tags[i].action != CRT_NER_MISSING)
            return true;
    return false;
}

/* States of a document: one, or one for each `limit` moves of the way that the oracle would
 * take. */
static size_t add_states(crt_ner_model_t *m, crti_ner_state_t state, size_t count,
                         uint32_t limit)
{
    crti_ner_state_t *states = m->scratch.states;
    crti_ner_move_t move;

    if (limit == 0 || state.length < limit) {
        if (is_known(&state, 0, state.length))
            states[count++] = state;
        return count;
    }
    while (!crti_ner_is_final(&state)) {
        crti_ner_state_t start = state;

        for (uint32_t i = 0; i < limit && !crti_ner_is_final(&state); i++) {
            if (!crti_ner_oracle(m, &state, &move))
                return count;
            crti_ner_do(&state, move);
        }
        if (is_known(&start, start.at, state.at))
            states[count++] = start;
    }
    return count;
}

static crt_status_t make_states(crt_ner_model_t *m, uint32_t limit, size_t *count_out)
{
    crti_ner_scratch_t *s = &m->scratch;
    size_t most = m->documents + (limit ? m->words / limit : 0), count = 0;
    uint32_t first = 0;
    /* A state may go `limit` + 1 steps, one into what is the next one's. */
    crt_status_t status = crti_ner_make_room(m, most, m->words + most);

    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i < m->documents; i++) {
        crti_ner_state_t state = {.first = first,
                                  .length = (uint32_t)s->lengths[i],
                                  .start = -1,
                                  .label = CRTI_NER_NO_LABEL,
                                  .tags = s->tags + first};

        count = add_states(m, state, count, limit);
        first += state.length;
    }
    *count_out = count;
    return CRT_OK;
}

/* The gradient of a state's scores, over them; the sum of its squares. Of all moves that cost
 * least, the model may take any: P - G, P over all moves, G over those. */
static double loss_of(crt_ner_model_t *m, const crti_ner_state_t *state, float *scores)
{
    float *costs = m->scratch.costs, least = 1, most = scores[0], gold_most = -INFINITY;
    double z = 1e-10, gold_z = 1e-10, sum = 0;

    for (size_t i = 0; i < m->move_count; i++) {
        costs[i] = (float)crti_ner_cost(state, m->moves[i]);
        least = costs[i] < least ? costs[i] : least;
        most = scores[i] > most ? scores[i] : most;
    }
    for (size_t i = 0; i < m->move_count; i++)
        if (costs[i] <= least && scores[i] > gold_most)
            gold_most = scores[i];
    for (size_t i = 0; i < m->move_count; i++) {
        z += (double)expf(scores[i] - most);
        if (costs[i] <= least)
            gold_z += (double)expf(scores[i] - gold_most);
    }
    for (size_t i = 0; i < m->move_count; i++) {
        double d = (double)expf(scores[i] - most) / z;

        if (costs[i] <= least)
            d -= (double)expf(scores[i] - gold_most) / gold_z;
        scores[i] = (float)d;
        sum += d * d;
    }
    return sum;
}

/* One step of all states that are on their way; how many of them go on. */
static size_t step(crt_ner_model_t *m, const float *flat, size_t first, size_t count,
                   double *loss)
{
    crti_ner_scratch_t *s = &m->scratch;
    size_t left = 0;

    crti_ner_score(m, flat, first, s->active, count, true);
    for (size_t i = 0; i < count; i++) {
        crti_ner_state_t *state = &s->states[s->active[i]];
        float *scores = s->scores + (first + i) * m->move_count;
        crti_ner_move_t move = crti_ner_best(m, state, scores);

        *loss += loss_of(m, state, scores);
        crti_ner_do(state, move);
        if (!crti_ner_is_final(state))
            s->active[left++] = s->active[i];
    }
    return left;
}

/* All steps of all states; gives how many they were. */
static size_t follow(crt_ner_model_t *m, const float *flat, size_t states, uint32_t limit,
                     double *loss)
{
    size_t steps = 0, active = states;

    for (size_t i = 0; i < states; i++)
        m->scratch.active[i] = (uint32_t)i;
    for (uint32_t round = 0; active > 0; round++) {
        size_t left = step(m, flat, steps, active, loss);

        steps += active;
        active = limit > 0 && round >= limit ? 0 : left;
    }
    return steps;
}

/* From the gradients of the states' vectors to those of what words gave to them. */
static void spread(crt_ner_model_t *m, size_t steps, float *gradients)
{
    crti_ner_scratch_t *s = &m->scratch;
    size_t outs = (size_t)m->outs, units = (size_t)m->units;
    size_t row = (size_t)m->options.features * units;
    int pieces = m->options.state_pieces;

    memset(s->d_features, 0, m->words * row * sizeof(float));
    memset(gradients + m->places.padding, 0, row * sizeof(float));
    for (size_t n = 0; n < steps; n++) {
        const int32_t *ids = s->ids + n * CRTI_NER_FEATURES_MAX;
        const uint8_t *winners = s->winners + n * outs;
        const float *d = s->d_vectors + n * outs;

        for (int k = 0; k < m->options.features; k++) {
            float *to = (ids[k] < 0 ? gradients + m->places.padding
                                    : s->d_features + (size_t)ids[k] * row) +
                        (size_t)k * units;

            for (size_t o = 0; o < outs; o++)
                if (winners[o] < pieces)
                    to[o * (size_t)pieces + winners[o]] += d[o];
        }
    }
}

static crt_status_t go_back(crt_ner_model_t *m, const crt_tensor_t *weights,
                            const float *flat, const float *vectors, size_t steps,
                            crt_tensor_t *gradients)
{
    crti_ner_scratch_t *s = &m->scratch;
    int features = m->options.features, hidden = m->options.hidden;
    int64_t shape[2] = {(int64_t)m->words, hidden};
    crt_tensor_t d_words = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, s->d_words);
    float *g = gradients->data;

    if (m->options.upper) {
        crti_matrix_affine_gradients((int)steps, (int)m->move_count, m->outs, s->vectors,
                                     s->scores, g + m->places.upper,
                                     g + m->places.upper_bias);
        crti_matrix_affine_inputs((int)steps, (int)m->move_count, m->outs, s->scores,
                                  flat + m->places.upper, s->d_vectors);
        for (size_t i = 0; i < steps * (size_t)m->outs; i++)
            s->d_vectors[i] *= s->mask[i];
    } else {
        memcpy(s->d_vectors, s->scores, steps * (size_t)m->outs * sizeof(float));
    }
    spread(m, steps, g);
    crti_matrix_affine_gradients((int)m->words, features * m->units, hidden, vectors,
                                 s->d_features, g + m->places.lower, s->d_bias);
    memcpy(g + m->places.bias, s->d_bias, (size_t)m->units * sizeof(float));
    crti_matrix_affine_inputs((int)m->words, features * m->units, hidden, s->d_features,
                              flat + m->places.lower, s->d_words);
    return crt_model_backward(m->network, weights, &d_words, gradients, NULL);
}

/* ---------------------------------------------------------------- on a device */

/* How many steps a state takes: `limit` + 1 at most, or all its words. */
static void count_steps(crt_ner_model_t *m, size_t states, uint32_t limit)
{
    const crti_ner_state_t *s = m->scratch.states;

    for (size_t i = 0; i < states; i++) {
        uint32_t left = s[i].length - s[i].at;

        m->scratch.active[i] = limit > 0 && left > limit + 1 ? limit + 1 : left;
    }
}

static crt_status_t train_there(crt_ner_model_t *m, const crt_tensor_t *weights,
                                const float *flat, const float *vectors, size_t states,
                                uint32_t limit, crt_tensor_t *gradients, double *loss_out)
{
    crti_device_t *device = m->network->device;
    crti_ner_job_t job = {.states = m->scratch.states,
                          .steps = m->scratch.active,
                          .count = states,
                          .flat = flat,
                          .vectors = vectors,
                          .seed = crti_random_next(&m->random)};
    int64_t shape[2] = {(int64_t)m->words, m->options.hidden};
    float *d_words;
    crt_tensor_t back;
    crt_status_t status;

    count_steps(m, states, limit);
    status = device->ops->parser->train(device, m, &job, gradients->data, &d_words);
    if (status != CRT_OK)
        return status;
    back = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, d_words);
    crti_place_at(&back, device->number);
    status = crt_model_backward(m->network, weights, &back, gradients, NULL);
    return status == CRT_OK && loss_out ? device->ops->parser->read_loss(device, loss_out)
                                        : status;
}

/* ---------------------------------------------------------------- a batch */

/* spaCy draws the limit anew for each batch, from a whole half on. */
static uint32_t draw_limit(crt_ner_model_t *m)
{
    int cut = m->options.oracle_cut, half = cut / 2;
    uint32_t limit =
        cut == 0 ? 0
                 : (uint32_t)crti_random_between(&m->random, (float)half, (float)cut * 2);

    return cut > 0 && limit == 0 ? 1 : limit;
}

/* The gradients of what was gathered, whose states have begun. */
static crt_status_t learn(crt_ner_model_t *m, const crt_tensor_t *weights, size_t states,
                          uint32_t limit, crt_tensor_t *gradients, double *loss_out)
{
    const float *flat, *vectors;
    crt_status_t status = crti_ner_run(m, weights, true, &flat, &vectors);
    double loss = 0;

    if (status != CRT_OK)
        return status;
    if (states > 0 && m->network->device)
        return train_there(m, weights, flat, vectors, states, limit, gradients, loss_out);
    if (states > 0)
        status = go_back(m, weights, flat, vectors, follow(m, flat, states, limit, &loss),
                         gradients);
    else
        crti_model_zero(m->network, gradients->data, m->network->parameter_count);
    if (loss_out)
        *loss_out = loss;
    return status;
}

crt_status_t crt_ner_compute_gradients(crt_ner_model_t *m, const crt_tensor_t *weights,
                                       const crt_ner_corpus_t *corpus,
                                       const crt_ner_batch_t *batch,
                                       crt_tensor_t *gradients, double *loss_out)
{
    crt_status_t status;
    uint32_t limit = draw_limit(m);
    size_t states;
    crt_ner_batch_t mine;

    if (!gradients)
        gradients = &m->network->gradients_view;
    status = CRTI_COPY_STRUCT(&mine, batch, "CRT_NER_BATCH");
    if (status == CRT_OK)
        status = crti_model_check_flat(m->network, gradients, "gradients");
    if (status == CRT_OK)
        status = crti_ner_gather(m, corpus, mine.documents, mine.count, true);
    if (status == CRT_OK)
        status = make_states(m, limit, &states);
    if (status == CRT_OK)
        status = learn(m, weights, states, limit, gradients, loss_out);
    if (status == CRT_OK && gradients == &m->network->gradients_view)
        m->network->has_gradients = true;
    return status;
}
