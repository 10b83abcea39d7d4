/* SPDX-License-Identifier: Apache-2.0 */
/* The parser on a GPU: what words give to states by cuBLAS, the moves by a kernel with a block for
 * each state, and back by a kernel with a block for each document. See ml/ner_device.h.
 *
 *     vectors -> features -> parse: steps -> gradients of scores -> of vectors
 *         -> parse_back: of features -> of words
 */
#include "ml/ner_device.h"

#include "ml/cuda/affine.h"

#define ALIGNED 256 /* bytes */
#define THREADS 256

/* What a batch needs of the GPU's memory: all in one piece. */
typedef struct batch {
    crti_cuda_parser_t parser;
    int words, states, documents, steps; /* steps: rows of what steps keep */
    int hidden, row;                     /* of a word: its vector, its features */
    crti_cuda_tag_t *tags;
    crti_cuda_state_t *states_there;
    crti_cuda_range_t *ranges; /* steps of each document */
    float *features, *vectors, *scores;
    uint16_t *found;
    /* training */
    float *d_features, *d_padding, *mask, *losses, *d_vectors, *d_words, *partials;
    unsigned char *winners;
    int *ids;
} batch_t;

static void *cut(char *base, size_t *at, size_t bytes)
{
    char *here = base ? base + *at : NULL;

    *at += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    return here;
}

static size_t floats(size_t a, size_t b)
{
    return a * b * sizeof(float);
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Where everything lies from `base` on (NULL: not known yet); returns its bytes. */
static size_t lay_out(batch_t *b, char *base)
{
    size_t words = (size_t)b->words, steps = (size_t)b->steps, row = (size_t)b->row,
           at = 0;
    size_t outs = (size_t)b->parser.outs, moves = (size_t)b->parser.moves;

    b->tags = cut(base, &at, words * sizeof(*b->tags));
    b->states_there = cut(base, &at, (size_t)b->states * sizeof(*b->states_there));
    b->features = cut(base, &at, floats(words, row));
    b->vectors = cut(base, &at, floats(steps, outs));
    b->scores = cut(base, &at, floats(steps, moves));
    b->found = cut(base, &at, words * sizeof(*b->found));
    if (!b->parser.trains)
        return at;
    b->ranges = cut(base, &at, (size_t)b->documents * sizeof(*b->ranges));
    b->d_features = cut(base, &at, floats(words, row));
    b->d_padding = cut(base, &at, floats((size_t)b->documents, row));
    b->mask = cut(base, &at, floats(steps, outs));
    b->losses = cut(base, &at, floats((size_t)b->states, 1));
    b->d_vectors = cut(base, &at, floats(steps, outs));
    b->d_words = cut(base, &at, floats(words, (size_t)b->hidden));
    b->winners = cut(base, &at, steps * outs);
    b->ids = cut(base, &at, steps * CRTI_NER_FEATURES_MAX * sizeof(*b->ids));
    b->partials = cut(base, &at,
                      floats(most(crti_cuda_partials(b->steps, moves),
                                  most(crti_cuda_partials(b->words, row),
                                       crti_cuda_partials(b->documents, row))),
                             1));
    return at;
}

static bool make_room(crti_cuda_t *c, batch_t *b)
{
    size_t bytes = lay_out(b, NULL);

    if (!crti_cuda_reserve(c, &c->parser_memory, &c->parser_bytes, bytes,
                           "the states of a parser"))
        return false;
    lay_out(b, c->parser_memory);
    return true;
}

static crti_cuda_parser_t parser_of(const crt_ner_model_t *m, const crti_ner_job_t *job,
                                    bool trains)
{
    bool drops = trains && m->options.upper && m->state_dropout > 0;

    return (crti_cuda_parser_t){.labels = (int)m->label_count,
                                .moves = (int)m->move_count,
                                .outs = m->outs,
                                .pieces = m->options.state_pieces,
                                .units = m->units,
                                .features = m->options.features,
                                .has_upper = m->options.upper,
                                .trains = trains,
                                .drops = drops,
                                .keep =
                                    drops ? (float)(1.0 / (1.0 - m->state_dropout)) : 1,
                                .seed = job->seed,
                                .limit = (unsigned long long)(m->state_dropout * 0x1p32),
                                .bias_at = m->places.bias,
                                .padding_at = m->places.padding,
                                .upper_at = m->places.upper,
                                .upper_bias_at = m->places.upper_bias};
}

/* ---------------------------------------------------------------- to the GPU */

/* States, and where the steps of each begin: of itself, or, where they are not kept, one place. */
static void fill_states(const crti_ner_job_t *job, bool trains, crti_cuda_state_t *states)
{
    int step = 0;

    for (size_t i = 0; i < job->count; i++) {
        const crti_ner_state_t *from = &job->states[i];

        states[i] =
            (crti_cuda_state_t){(int)from->first,  (int)from->length, (int)from->at,
                                from->start,       from->label,       step,
                                (int)job->steps[i]};
        step += trains ? (int)job->steps[i] : 1;
    }
}

/* The steps of each document's states; how many documents have some. */
static int fill_ranges(const crti_ner_job_t *job, crti_cuda_range_t *ranges)
{
    int documents = 0, step = 0;

    for (size_t i = 0; i < job->count; i++) {
        if (i == 0 || job->states[i].first != job->states[i - 1].first)
            ranges[documents++] = (crti_cuda_range_t){step, step};
        step += (int)job->steps[i];
        ranges[documents - 1].end = step;
    }
    return documents;
}

static bool send_states(crti_cuda_t *c, const crti_ner_job_t *job, batch_t *b)
{
    size_t bytes = job->count * sizeof(*b->states_there);
    void *room = crti_cuda_slot(c, bytes);

    if (!room)
        return false;
    fill_states(job, b->parser.trains, room);
    crti_cuda_send(c, b->states_there, bytes);
    if (!b->parser.trains)
        return true;
    bytes = (size_t)b->documents * sizeof(*b->ranges);
    room = crti_cuda_slot(c, bytes);
    if (!room)
        return false;
    b->documents = fill_ranges(job, room);
    crti_cuda_send(c, b->ranges, bytes);
    return true;
}

static bool begin(crti_cuda_t *c, const crt_ner_model_t *m, const crti_ner_job_t *job,
                  bool trains, batch_t *b)
{
    size_t steps = 0;

    _Static_assert(sizeof(crti_cuda_tag_t) == sizeof(crti_ner_tag_t),
                   "copied as they are");
    for (size_t i = 0; i < job->count; i++)
        steps += trains ? job->steps[i] : 1;
    *b = (batch_t){.parser = parser_of(m, job, trains),
                   .words = (int)m->words,
                   .states = (int)job->count,
                   .documents = (int)job->count,
                   .steps = (int)steps,
                   .hidden = m->options.hidden,
                   .row = m->options.features * m->units};
    if (!make_room(c, b))
        return false;
    crti_cuda_upload(c, b->tags, m->scratch.tags, m->words * sizeof(*b->tags));
    return send_states(c, job, b);
}

/* ---------------------------------------------------------------- steps */

/* to = op(a) op(b), of float32. */
static void multiply(crti_cuda_t *c, int rows, int cols, int inner, crti_cuda_matrix_t a,
                     crti_cuda_matrix_t b, float *to)
{
    crti_cuda_multiply(c, &(crti_cuda_product_t){.rows = rows,
                                                 .cols = cols,
                                                 .inner = inner,
                                                 .factor = 1,
                                                 .a = a,
                                                 .b = b,
                                                 .to = {.data = to, .stride = cols},
                                                 .from_type = CUDA_R_32F,
                                                 .to_type = CUDA_R_32F});
}

static crti_cuda_matrix_t plain(const float *data, int stride)
{
    return (crti_cuda_matrix_t){.data = data, .stride = stride};
}

static crti_cuda_matrix_t turned(const float *data, int stride)
{
    return (crti_cuda_matrix_t){.data = data, .stride = stride, .is_turned = true};
}

static void run_steps(crti_cuda_t *c, const crt_ner_model_t *m, const crti_ner_job_t *job,
                      batch_t *b)
{
    multiply(c, b->words, b->row, b->hidden, plain(job->vectors, b->hidden),
             turned(job->flat + m->places.lower, b->hidden), b->features);
    crti_cuda_run_blocks(c, CRTI_KERNEL_parse, (size_t)b->states, THREADS,
                         (void *[]){&b->vectors, &b->mask, &b->winners, &b->ids,
                                    &b->scores, &b->losses, &b->found, &b->features,
                                    (void *)&job->flat, &b->tags, &b->states_there,
                                    &b->parser});
}

static void send_loss(crti_cuda_t *c, batch_t *b)
{
    crti_cuda_run_blocks(c, CRTI_KERNEL_mean_loss, 1, THREADS,
                         (void *[]){&c->loss, &b->losses, &b->states});
    crti_cuda_copy(c, c->loss_on_host, c->loss, sizeof(double));
    crti_cuda_did(c, c->api->cudaEventRecord(c->loss_is_there, c->stream), "an event");
    c->loss_states = b->states;
}

static void sum_columns(crti_cuda_t *c, batch_t *b, float *sums, const float *x, int rows,
                        int cols, int stride)
{
    crti_cuda_sum_columns(c, sums, &(crti_cuda_columns_t){x, rows, cols, stride, 0}, true,
                          b->partials, 1);
}

/* From the gradients of scores to those of vectors, and of the weights between them. */
static const float *upper_back(crti_cuda_t *c, const crt_ner_model_t *m,
                               const crti_ner_job_t *job, batch_t *b, float *gradients)
{
    int outs = b->parser.outs, moves = b->parser.moves;

    if (!b->parser.has_upper)
        return b->scores;
    multiply(c, moves, outs, b->steps, turned(b->scores, moves), plain(b->vectors, outs),
             gradients + m->places.upper);
    sum_columns(c, b, gradients + m->places.upper_bias, b->scores, b->steps, moves,
                moves);
    multiply(c, b->steps, outs, moves, plain(b->scores, moves),
             plain(job->flat + m->places.upper, outs), b->d_vectors);
    return b->d_vectors;
}

static void lower_back(crti_cuda_t *c, const crt_ner_model_t *m,
                       const crti_ner_job_t *job, batch_t *b, const float *d_vectors,
                       float *gradients)
{
    size_t row = (size_t)b->row;

    c->device.ops->zero(&c->device, b->d_features, (size_t)b->words * row);
    c->device.ops->zero(&c->device, b->d_padding, (size_t)b->documents * row);
    crti_cuda_run_blocks(c, CRTI_KERNEL_parse_back, (size_t)b->documents, THREADS,
                         (void *[]){&b->d_features, &b->d_padding, &d_vectors, &b->mask,
                                    &b->winners, &b->ids, &b->ranges, &b->parser});
    sum_columns(c, b, gradients + m->places.padding, b->d_padding, b->documents, b->row,
                b->row);
    sum_columns(c, b, gradients + m->places.bias, b->d_features, b->words,
                b->parser.units, b->row);
    multiply(c, b->row, b->hidden, b->words, turned(b->d_features, b->row),
             plain(job->vectors, b->hidden), gradients + m->places.lower);
    multiply(c, b->words, b->hidden, b->row, plain(b->d_features, b->row),
             plain(job->flat + m->places.lower, b->hidden), b->d_words);
}

static crt_status_t train(crti_device_t *device, const crt_ner_model_t *m,
                          const crti_ner_job_t *job, float *gradients,
                          float **d_words_out)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    batch_t b;

    if (!begin(c, m, job, true, &b))
        return device->ops->failure(device);
    run_steps(c, m, job, &b);
    send_loss(c, &b);
    lower_back(c, m, job, &b, upper_back(c, m, job, &b, gradients), gradients);
    *d_words_out = b.d_words;
    return device->ops->failure(device);
}

static crt_status_t read_loss(crti_device_t *device, double *loss_out)
{
    crt_status_t status = crti_cuda_read_loss(device, loss_out);

    *loss_out *= ((crti_cuda_t *)device)->loss_states;
    return status;
}

static crt_status_t tag(crti_device_t *device, const crt_ner_model_t *m,
                        const crti_ner_job_t *job, uint16_t *moves_out)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    batch_t b;

    if (!begin(c, m, job, false, &b))
        return device->ops->failure(device);
    run_steps(c, m, job, &b);
    return device->ops->copy(device, moves_out, b.found, m->words * sizeof(*moves_out));
}

const crti_ner_device_ops_t crti_cuda_parser = {
    .train = train, .read_loss = read_loss, .tag = tag};
