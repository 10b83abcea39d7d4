/* SPDX-License-Identifier: Apache-2.0 */
/* Building a NER model: labels, moves, layers, first weights. */
#include "ml/ner_model.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ml/matrix.h"
#include "runtime/base/copy_struct.h"

#define STREAM_PARSER   10
#define STREAM_FOLLOW   11
#define DEPTH_MAX       64
#define LAYERS_OF_BLOCK 6
#define LAYERS_MAX      (16 + LAYERS_OF_BLOCK * DEPTH_MAX)
#define FIRST_SEED      8 /* of the tables: 8, 9, 10 and so on */

void crt_ner_options_init(crt_ner_options_t *options, size_t size)
{
    crt_ner_options_t mine = {.struct_size = size,
                              .width = 96,
                              .depth = 4,
                              .window = 1,
                              .pieces = 3,
                              .table_count = 4,
                              .tables = {{CRT_NER_NORM, 2000},
                                         {CRT_NER_PREFIX, 1000},
                                         {CRT_NER_SUFFIX, 1000},
                                         {CRT_NER_SHAPE, 1000}},
                              .dropout = 0.1,
                              .features = 3,
                              .hidden = 64,
                              .state_pieces = 2,
                              .upper = true,
                              .oracle_cut = 100};

    crti_give_struct(options, size, &mine, sizeof(mine));
}

static crt_status_t check_tables(const crt_ner_options_t *o)
{
    if (o->table_count < 1 || o->table_count > CRT_NER_TABLES_MAX)
        return crt_raise(CRT_ERR_INVALID, "%d tables of features, not 1..%d",
                         o->table_count, CRT_NER_TABLES_MAX);
    for (int k = 0; k < o->table_count; k++) {
        if (!crt_ner_feature_name(o->tables[k].feature))
            return crt_raise(CRT_ERR_INVALID, "a table of feature %d, not 0..%d",
                             (int)o->tables[k].feature, CRT_NER_FEATURES - 1);
        if (o->tables[k].rows < 1)
            return crt_raise(CRT_ERR_INVALID, "a table of %d rows", o->tables[k].rows);
    }
    return CRT_OK;
}

static crt_status_t check(const crt_ner_options_t *o)
{
    crt_status_t status;

    if (o->depth < 0 || o->depth > DEPTH_MAX)
        return crt_raise(CRT_ERR_INVALID, "a depth of %d, not 0..%d", o->depth,
                         DEPTH_MAX);
    if (o->features != 3 && o->features != 6)
        return crt_raise(CRT_ERR_INVALID, "a state of %d words, not 3 or 6", o->features);
    if (o->hidden < 1 || o->hidden > 1 << 14 || o->state_pieces < 1 ||
        o->state_pieces > 64)
        return crt_raise(CRT_ERR_INVALID, "states of %d numbers of %d pieces", o->hidden,
                         o->state_pieces);
    status = check_tables(o);
    if (status != CRT_OK)
        return status;
    if (o->oracle_cut < 0 || o->oracle_cut > 1 << 20)
        return crt_raise(CRT_ERR_INVALID, "documents cut at %d words", o->oracle_cut);
    return CRT_OK;
}

/* B, I, L, U of each label; U of none, which is never possible and stands for spaCy's; O. */
static crt_status_t make_moves(crt_ner_model_t *m)
{
    size_t n = 0;

    m->move_count = 4 * m->label_count + 2;
    m->moves = calloc(m->move_count, sizeof(*m->moves));
    if (!m->moves)
        return crt_raise(CRT_ERR_NO_MEMORY, "moves");
    for (unsigned action = CRT_NER_BEGIN; action <= CRT_NER_UNIT; action++)
        for (size_t label = 0; label < m->label_count; label++)
            m->moves[n++] = (crti_ner_move_t){(uint8_t)action, (uint8_t)label};
    m->moves[n++] = (crti_ner_move_t){CRT_NER_UNIT, CRTI_NER_NO_LABEL};
    m->moves[n++] = (crti_ner_move_t){CRT_NER_OUT, CRTI_NER_NO_LABEL};
    return CRT_OK;
}

static size_t add_embeddings(const crt_ner_options_t *o, crt_layer_t *layers)
{
    size_t n = 0;

    for (int k = 0; k < o->table_count; k++) {
        layers[n] = CRT_HASH_EMBED(o->width, o->tables[k].rows,
                                   (uint32_t)(FIRST_SEED + k), k, k + 1);
        layers[n++].rate = o->dropout;
    }
    layers[n++] = CRT_CONCATENATE(o->table_count);
    layers[n++] = CRT_MAXOUT(o->width, 3);
    layers[n++] = CRT_LAYER_NORM();
    if (o->dropout > 0)
        layers[n++] = CRT_DROPOUT(o->dropout);
    return n;
}

static size_t add_blocks(const crt_ner_options_t *o, crt_layer_t *layers)
{
    size_t n = 0;

    for (int i = 0; i < o->depth; i++) {
        size_t first = n;

        layers[n++] = CRT_EXPAND_WINDOW(o->window);
        if (o->pieces == 0) {
            layers[n++] = CRT_DENSE(o->width);
            layers[n++] = CRT_MISH();
        } else {
            layers[n++] = CRT_MAXOUT(o->width, o->pieces);
        }
        layers[n++] = CRT_LAYER_NORM();
        if (o->dropout > 0)
            layers[n++] = CRT_DROPOUT(o->dropout);
        layers[n] = CRT_ADD((int)(n - first) + 1);
        n++;
    }
    return n;
}

double crti_ner_parameters(const crt_ner_options_t *o, size_t labels)
{
    double width = o->width, tables = o->table_count, pieces = o->pieces ? o->pieces : 1;
    double hidden = o->hidden, features = o->features, moves = 4 * (double)labels + 2;
    double units = (o->upper ? hidden : moves) * o->state_pieces;
    double embedding = 3 * width * (tables * width + 1) + 2 * width;
    double block = pieces * width * ((2.0 * o->window + 1) * width + 1) + 2 * width;

    for (int k = 0; k < o->table_count; k++)
        embedding += o->tables[k].rows * width;

    return embedding + o->depth * block + hidden * (width + 1) +
           features * units * hidden + units + features * units +
           (o->upper ? moves * (hidden + 1) : 0);
}

static crt_status_t make_network(crt_ner_model_t *m, uint64_t seed)
{
    const crt_ner_options_t *o = &m->options;
    crt_input_t input = CRT_INPUT(.dtype = CRT_DTYPE_INT64, .channels = o->table_count);
    crt_layer_t layers[LAYERS_MAX];
    size_t n = add_embeddings(o, layers);

    n += add_blocks(o, layers + n);
    layers[n++] = CRT_DENSE(o->hidden);
    layers[n++] = CRT_PARAMETERS(o->features * m->units, o->hidden);
    layers[n++] = CRT_PARAMETERS(1, m->units);
    layers[n++] = CRT_PARAMETERS(o->features, m->units);
    if (o->upper) {
        layers[n++] = CRT_PARAMETERS((int)m->move_count, o->hidden);
        layers[n++] = CRT_PARAMETERS(1, (int)m->move_count);
    }
    return crt_model_new(&input, layers, n, seed, &m->network);
}

static void find_places(crt_ner_model_t *m)
{
    const crti_array_t *last = m->network->arrays + m->network->array_count;

    if (m->options.upper) {
        m->places.upper = last[-2].at;
        m->places.upper_bias = last[-1].at;
        last -= 2;
    }
    m->places.lower = last[-3].at;
    m->places.bias = last[-2].at;
    m->places.padding = last[-1].at;
}

/* ---------------------------------------------------------------- first weights
 *
 * As spaCy draws them: states of random words are made, and the weights are scaled until the
 * states' variance is 1. Its states are no sums of one word for each place, though: a row of 1000
 * sums is filled from 5000 words at places drawn at random, and variance and mean are those of 5000
 * rows, most of them the bias alone. The scale that comes out is part of the model, so this does
 * the same. */

#define SAMPLES 5000
#define SUMS    1000

typedef struct calibration {
    float *words;    /* (SAMPLES - 1, hidden) */
    float *features; /* (SAMPLES, features x units): the first is the padding */
    uint32_t *to;    /* (SAMPLES, features): which sum */
    float *sums;     /* (SUMS, units) */
    float *zero;     /* (features x units) */
} calibration_t;

static void free_calibration(calibration_t *c)
{
    free(c->words);
    free(c->features);
    free(c->to);
    free(c->sums);
    free(c->zero);
}

static crt_status_t new_calibration(const crt_ner_model_t *m, crti_random_t *random,
                                    calibration_t *c)
{
    size_t features = (size_t)m->options.features, units = (size_t)m->units;
    size_t words = (SAMPLES - 1) * (size_t)m->options.hidden;

    *c = (calibration_t){.words = malloc(words * sizeof(float)),
                         .features = malloc(SAMPLES * features * units * sizeof(float)),
                         .to = malloc(SAMPLES * features * sizeof(uint32_t)),
                         .sums = malloc(SUMS * units * sizeof(float)),
                         .zero = calloc(features * units, sizeof(float))};
    if (!c->words || !c->features || !c->to || !c->sums || !c->zero) {
        free_calibration(c);
        return crt_raise(CRT_ERR_NO_MEMORY, "first weights of a parser");
    }
    for (size_t i = 0; i < SAMPLES * features; i++)
        c->to[i] = crti_random_below(random, SUMS);
    for (size_t i = 0; i < words; i++)
        c->words[i] = crti_random_normal(random);
    return CRT_OK;
}

/* The largest piece of each output of a sum. */
static void add_state(const crt_ner_model_t *m, const float *sum, const float *bias,
                      double times, double *total, double *square)
{
    int pieces = m->options.state_pieces;

    for (int o = 0; o < m->outs; o++) {
        double best = pieces == 1 ? 0 : -INFINITY;

        for (int p = 0; p < pieces; p++) {
            double value =
                (sum ? (double)sum[o * pieces + p] : 0) + (double)bias[o * pieces + p];

            best = value > best ? value : best;
        }
        *total += times * best;
        *square += times * best * best;
    }
}

static void measure(const crt_ner_model_t *m, const calibration_t *c, const float *flat,
                    double *mean_out, double *variance_out)
{
    size_t features = (size_t)m->options.features, units = (size_t)m->units;
    const float *bias = flat + m->places.bias;
    double total = 0, square = 0, count = (double)SAMPLES * m->outs;

    memcpy(c->features, flat + m->places.padding, features * units * sizeof(float));
    crti_matrix_affine(SAMPLES - 1, (int)(features * units), m->options.hidden, c->words,
                       flat + m->places.lower, c->zero, c->features + features * units);
    memset(c->sums, 0, SUMS * units * sizeof(float));
    for (size_t i = 0; i < SAMPLES * features; i++)
        cblas_saxpy((int)units, 1, c->features + i * units, 1, c->sums + c->to[i] * units,
                    1);
    for (size_t i = 0; i < SUMS; i++)
        add_state(m, c->sums + i * units, bias, 1, &total, &square);
    add_state(m, NULL, bias, SAMPLES - SUMS, &total, &square);
    *mean_out = total / count;
    *variance_out = square / count - *mean_out * *mean_out;
}

static void calibrate(const crt_ner_model_t *m, const calibration_t *c, float *flat)
{
    size_t lower =
        (size_t)m->options.features * (size_t)m->units * (size_t)m->options.hidden;

    for (int round = 0; round < 10; round++) {
        double mean, variance;

        measure(m, c, flat, &mean, &variance);
        if (fabs(variance - 1) >= 0.01)
            for (size_t i = 0; i < lower; i++)
                flat[m->places.lower + i] /= (float)sqrt(variance);
        else if (fabs(mean) >= 0.01)
            for (int i = 0; i < m->units; i++)
                flat[m->places.bias + (size_t)i] -= (float)mean;
        else
            break;
    }
}

static crt_status_t draw_parser(crt_ner_model_t *m, uint64_t seed)
{
    crti_random_t random = crti_random(seed, STREAM_PARSER);
    int features = m->options.features, hidden = m->options.hidden;
    float *flat = m->network->weights;
    float deviation = (float)sqrt(1.0 / features * hidden);
    calibration_t c;
    crt_status_t status;

    for (int i = 0; i < features * m->units * hidden; i++)
        flat[m->places.lower + (size_t)i] = deviation * crti_random_normal(&random);
    for (int i = 0; i < features * m->units; i++)
        flat[m->places.padding + (size_t)i] = crti_random_normal(&random);
    status = new_calibration(m, &random, &c);
    if (status != CRT_OK)
        return status;
    calibrate(m, &c, flat);
    free_calibration(&c);
    return CRT_OK;
}

/* ---------------------------------------------------------------- model */

static crt_status_t build(crt_ner_model_t *m, const char *const *labels, size_t count,
                          uint64_t seed, const void *weights)
{
    crt_status_t status;

    for (size_t i = 0; i < count; i++) {
        m->labels[i] = strdup(labels[i]);
        if (!m->labels[i])
            return crt_raise(CRT_ERR_NO_MEMORY, "a label");
        m->label_count++;
    }
    status = make_moves(m);
    m->outs = m->options.upper ? m->options.hidden : (int)m->move_count;
    m->units = m->outs * m->options.state_pieces;
    if (status == CRT_OK)
        status = make_network(m, seed);
    if (status != CRT_OK)
        return status;
    find_places(m);
    if (!weights)
        return draw_parser(m, seed);
    memcpy(m->network->weights, weights, m->network->parameter_count * sizeof(float));
    return CRT_OK;
}

crt_status_t crti_ner_model_of(const crt_ner_options_t *options,
                               const char *const *labels, size_t count, uint64_t seed,
                               const void *weights, crt_ner_model_t **model_out)
{
    crt_status_t status = check(options);
    crt_ner_model_t *m;

    if (status == CRT_OK && (count < 1 || count > CRTI_NER_LABELS_MAX))
        status = crt_raise(CRT_ERR_INVALID, "a model of %zu labels, not 1..%d", count,
                           CRTI_NER_LABELS_MAX);
    if (status != CRT_OK)
        return status;
    m = calloc(1, sizeof(*m));
    if (!m)
        return crt_raise(CRT_ERR_NO_MEMORY, "a NER model");
    m->options = *options;
    m->state_dropout = 0.1;
    status = build(m, labels, count, seed, weights);
    if (status != CRT_OK) {
        crt_ner_model_drop(&m);
        return status;
    }
    crt_ner_model_set_seed(m, seed);
    *model_out = m;
    return CRT_OK;
}

/* More words first; of as many, the later name: the order of spaCy's moves. */
static int by_words(const void *a, const void *b, void *corpus)
{
    const char *x, *y;
    size_t m, n;

    x = crt_ner_corpus_label(corpus, *(const size_t *)a, &m);
    y = crt_ner_corpus_label(corpus, *(const size_t *)b, &n);
    return m != n ? (m < n ? 1 : -1) : strcmp(y, x);
}

crt_status_t crt_ner_model_new(const crt_ner_options_t *options,
                               const crt_ner_corpus_t *corpus, uint64_t seed,
                               crt_ner_model_t **model_out)
{
    size_t order[CRTI_NER_LABELS_MAX];
    const char *labels[CRTI_NER_LABELS_MAX];
    crt_ner_options_t mine = crt_ner_options();
    crt_status_t status =
        options ? CRTI_COPY_STRUCT(&mine, options, "crt_ner_options") : CRT_OK;

    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i < corpus->label_count; i++)
        order[i] = i;
    qsort_r(order, corpus->label_count, sizeof(*order), by_words,
            (void *)(uintptr_t)corpus); /* only read */
    for (size_t i = 0; i < corpus->label_count; i++)
        labels[i] = corpus->labels[order[i]].name;
    return crti_ner_model_of(&mine, labels, corpus->label_count, seed, NULL, model_out);
}

crt_model_t *crt_ner_model_network(crt_ner_model_t *model)
{
    return model->network;
}

size_t crt_ner_model_labels(const crt_ner_model_t *model)
{
    return model->label_count;
}

const char *crt_ner_model_label(const crt_ner_model_t *model, size_t index)
{
    return index < model->label_count ? model->labels[index] : NULL;
}

void crt_ner_model_set_seed(crt_ner_model_t *model, uint64_t seed)
{
    model->random = crti_random(seed, STREAM_FOLLOW);
    crt_model_set_seed(model->network, seed);
}

void crt_ner_model_drop(crt_ner_model_t **dropped)
{
    crt_ner_model_t *m = *dropped;

    if (!m)
        return;
    for (size_t i = 0; i < m->label_count; i++)
        free(m->labels[i]);
    free(m->moves);
    crt_model_drop(&m->network);
    crti_ner_free_scratch(&m->scratch);
    free(m);
    *dropped = NULL;
}
