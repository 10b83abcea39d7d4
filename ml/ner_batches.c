/* SPDX-License-Identifier: Apache-2.0 */
/* Batches as spaCy's batchers make them of a pass over the documents.
 *
 * Where it sits
 *     corpus -> [ an order for each pass -> its batches ] -> training
 * A pass is cut into batches when its first one is asked for. The schedule of sizes goes on from
 * pass to pass.
 */
#include <math.h>
#include <stdlib.h>

#include "ml/ner_corpus.h"
#include "ml/random.h"
#include "runtime/base/copy_struct.h"

#define STREAM_ORDER 8

typedef struct batch {
    size_t end, words; /* end: in `cut` */
} batch_t;

struct crt_ner_batches {
    const crt_ner_corpus_t *corpus;
    crt_ner_batching_t options;
    crti_random_t random;
    double target;   /* size of the next batch that will be cut */
    uint64_t passes; /* begun */

    size_t *order;  /* of all documents */
    size_t *places; /* padded: those in `order` that are sorted by length */
    size_t *cut;    /* this member's documents of the pass in the order of its batches */
    size_t cut_count;
    batch_t *made;
    size_t made_count, next;
    crt_ner_batch_t given;
};

void crt_ner_batching_init(crt_ner_batching_t *batching, size_t size, uint64_t seed)
{
    crt_ner_batching_t mine = {.struct_size = size,
                               .start = 100,
                               .stop = 1000,
                               .factor = 1.001,
                               .tolerance = 0.2,
                               .seed = seed,
                               .members = 1};

    crti_give_struct(batching, size, &mine, sizeof(mine));
}

static crt_status_t check(const crt_ner_corpus_t *corpus, const crt_ner_batching_t *o)
{
    if (!(o->start >= 1 && o->start < 1e9) || !(o->stop >= 1 && o->stop < 1e9) ||
        !(o->factor > 0 && o->factor < 1e9))
        return crt_raise(CRT_ERR_INVALID, "batches of %g, times %g, up to %g", o->start,
                         o->factor, o->stop);
    if (!(o->tolerance >= 0 && o->tolerance < 1e9))
        return crt_raise(CRT_ERR_INVALID, "a tolerance of %g", o->tolerance);
    if ((unsigned)o->kind > CRT_NER_BY_PADDED ||
        (o->kind == CRT_NER_BY_PADDED && o->buffer < 1))
        return crt_raise(CRT_ERR_INVALID, "batches of kind %d from a buffer of %d",
                         (int)o->kind, o->buffer);
    if (o->members < 1 || o->member < 0 || o->member >= o->members)
        return crt_raise(CRT_ERR_INVALID, "member %d of %d", o->member, o->members);
    if (corpus->documents < (size_t)o->members)
        return crt_raise(CRT_ERR_INVALID, "%zu documents for %d members",
                         corpus->documents, o->members);
    return CRT_OK;
}

crt_status_t crt_ner_batches_new(const crt_ner_corpus_t *corpus,
                                 const crt_ner_batching_t *batching,
                                 crt_ner_batches_t **batches_out)
{
    crt_ner_batching_t mine = crt_ner_batching(0);
    crt_status_t status =
        batching ? CRTI_COPY_STRUCT(&mine, batching, "crt_ner_batching") : CRT_OK;
    crt_ner_batches_t *b;

    if (status == CRT_OK)
        status = check(corpus, &mine);
    if (status != CRT_OK)
        return status;
    b = calloc(1, sizeof(*b));
    if (!b)
        return crt_raise(CRT_ERR_NO_MEMORY, "batches");
    b->corpus = corpus;
    b->options = mine;
    b->random = crti_random(mine.seed, STREAM_ORDER);
    b->target = mine.start;
    b->order = calloc(corpus->documents, sizeof(*b->order));
    b->cut = calloc(corpus->documents, sizeof(*b->cut));
    b->made = calloc(corpus->documents, sizeof(*b->made));
    b->places = calloc(corpus->documents, sizeof(*b->places));
    if (!b->order || !b->cut || !b->made || !b->places) {
        crt_ner_batches_drop(&b);
        return crt_raise(CRT_ERR_NO_MEMORY, "batches of %zu documents",
                         corpus->documents);
    }
    for (size_t i = 0; i < corpus->documents; i++)
        b->order[i] = i;
    *batches_out = b;
    return CRT_OK;
}

/* The size of the next batch, as a whole number: what spaCy's loops compare with. */
static double next_size(crt_ner_batches_t *b)
{
    const crt_ner_batching_t *o = &b->options;
    double target = o->factor >= 1 ? fmin(b->target, o->stop) : fmax(b->target, o->stop);

    b->target = target * o->factor;
    return floor(target);
}

/* The batch that is being filled: documents that fit, and behind them some that are within the
 * tolerance. */
typedef struct filling {
    double size, tolerated;
    size_t words, over; /* of the two */
    size_t over_first;  /* where the second begin in `cut` */
} filling_t;

static void begin(crt_ner_batches_t *b, filling_t *f)
{
    f->size = next_size(b);
    f->tolerated = f->size + f->size * b->options.tolerance;
}

static void put(crt_ner_batches_t *b, size_t document)
{
    b->cut[b->cut_count++] = document;
}

static void close_batch(crt_ner_batches_t *b, size_t end, size_t words)
{
    if (end > (b->made_count ? b->made[b->made_count - 1].end : 0))
        b->made[b->made_count++] = (batch_t){end, words};
}

/* True when the document found a place in the batch that is being filled. */
static bool fits(crt_ner_batches_t *b, filling_t *f, size_t document, size_t words)
{
    if (f->over == 0 && (double)(f->words + words) <= f->size)
        f->words += words;
    else if ((double)(f->words + f->over + words) <= f->tolerated) {
        if (f->over == 0)
            f->over_first = b->cut_count;
        f->over += words;
    } else
        return false;
    put(b, document);
    return true;
}

/* A document that is a batch of its own goes before what is being filled. */
static void put_alone(crt_ner_batches_t *b, filling_t *f, size_t document, size_t words)
{
    size_t first = b->made_count ? b->made[b->made_count - 1].end : 0;

    for (size_t i = b->cut_count; i > first; i--)
        b->cut[i] = b->cut[i - 1];
    b->cut[first] = document;
    b->cut_count++;
    f->over_first++;
    close_batch(b, first + 1, words);
}

static void place(crt_ner_batches_t *b, filling_t *f, size_t document)
{
    size_t words = crt_ner_corpus_length(b->corpus, document);

    if ((double)words > f->tolerated) {
        if (!b->options.discard_oversize)
            put_alone(b, f, document, words);
        return;
    }
    if (fits(b, f, document, words))
        return;
    close_batch(b, f->over > 0 ? f->over_first : b->cut_count, f->words);
    f->words = f->over;
    f->over = 0;
    begin(b, f);
    if (fits(b, f, document, words))
        return;
    close_batch(b, b->cut_count, f->words);
    begin(b, f);
    f->words = words;
    put(b, document);
}

static void shuffle(crt_ner_batches_t *b)
{
    for (size_t i = b->corpus->documents; i > 1; i--) {
        size_t other = crti_random_below(&b->random, (uint32_t)i), kept = b->order[i - 1];

        b->order[i - 1] = b->order[other];
        b->order[other] = kept;
    }
}

static void cut_by_words(crt_ner_batches_t *b)
{
    filling_t f = {0};

    begin(b, &f);
    for (size_t i = (size_t)b->options.member; i < b->corpus->documents;
         i += (size_t)b->options.members)
        place(b, &f, b->order[i]);
    close_batch(b, b->cut_count, f.words + f.over);
}

/* The documents that are in `cut` behind the last batch become one. */
static void close_rest(crt_ner_batches_t *b)
{
    size_t first = b->made_count ? b->made[b->made_count - 1].end : 0, words = 0;

    for (size_t i = first; i < b->cut_count; i++)
        words += crt_ner_corpus_length(b->corpus, b->cut[i]);
    close_batch(b, b->cut_count, words);
}

static void cut_by_documents(crt_ner_batches_t *b)
{
    double left = next_size(b);

    for (size_t i = (size_t)b->options.member; i < b->corpus->documents;
         i += (size_t)b->options.members) {
        put(b, b->order[i]);
        if (--left >= 1)
            continue;
        close_rest(b);
        left = next_size(b);
    }
    close_rest(b);
}

/* Shorter documents first; of the same length, in the order that was drawn. */
static int by_length(const void *x, const void *y, void *batches)
{
    const crt_ner_batches_t *b = batches;
    const size_t *i = x, *k = y;
    size_t m = crt_ner_corpus_length(b->corpus, b->order[*i]);
    size_t n = crt_ner_corpus_length(b->corpus, b->order[*k]);

    return m != n ? (m < n ? -1 : 1) : *i < *k ? -1 : *i > *k;
}

static int by_place(const void *x, const void *y)
{
    const size_t *i = x, *k = y;

    return *i < *k ? -1 : *i > *k;
}

static size_t length_at(const crt_ner_batches_t *b, size_t place)
{
    return crt_ner_corpus_length(b->corpus, b->order[place]);
}

/* Where the last of the groups begins that are filled from the shortest document on. */
static size_t last_group(const crt_ner_batches_t *b, size_t end, double size)
{
    size_t first = 0;

    for (size_t i = 1; i < end; i++)
        if ((double)length_at(b, b->places[i]) * (double)(i - first + 1) > size)
            first = i;
    return first;
}

/* The first `count` documents at `places` become batches, the longest first. */
static void cut_sorted(crt_ner_batches_t *b, size_t count)
{
    double size = next_size(b);

    for (size_t end = count, first; end > 0; end = first) {
        first = last_group(b, end, size);
        if (b->options.discard_oversize &&
            (double)(length_at(b, b->places[end - 1]) * (end - first)) >= size)
            continue;
        qsort(b->places + first, end - first, sizeof(*b->places), by_place);
        for (size_t i = first; i < end; i++)
            put(b, b->order[b->places[i]]);
        close_rest(b);
    }
}

static void cut_by_padded(crt_ner_batches_t *b)
{
    size_t step = (size_t)b->options.members, count = 0;

    for (size_t i = (size_t)b->options.member; i < b->corpus->documents; i += step) {
        b->places[count++] = i;
        if (count < (size_t)b->options.buffer && i + step < b->corpus->documents)
            continue;
        qsort_r(b->places, count, sizeof(*b->places), by_length, b);
        cut_sorted(b, count);
        count = 0;
    }
}

static void cut_pass(crt_ner_batches_t *b)
{
    shuffle(b);
    b->cut_count = b->made_count = b->next = 0;
    b->passes++;
    switch (b->options.kind) {
    case CRT_NER_BY_WORDS: cut_by_words(b); break;
    case CRT_NER_BY_DOCUMENTS: cut_by_documents(b); break;
    case CRT_NER_BY_PADDED: cut_by_padded(b); break;
    }
}

crt_status_t crt_ner_batches_next(crt_ner_batches_t *b, const crt_ner_batch_t **batch_out)
{
    size_t first;

    if (b->next == b->made_count)
        cut_pass(b);
    if (b->made_count == 0)
        return crt_raise(CRT_ERR_INVALID, "each of the documents has too many words");
    first = b->next ? b->made[b->next - 1].end : 0;
    b->given =
        CRT_NER_BATCH(.documents = b->cut + first, .count = b->made[b->next].end - first,
                      .words = b->made[b->next].words);
    b->next++;
    *batch_out = &b->given;
    return CRT_OK;
}

uint64_t crt_ner_batches_epoch(const crt_ner_batches_t *batches)
{
    return batches->passes > 0 ? batches->passes - 1 : 0;
}

void crt_ner_batches_drop(crt_ner_batches_t **dropped)
{
    crt_ner_batches_t *batches = *dropped;

    if (!batches)
        return;
    free(batches->order);
    free(batches->cut);
    free(batches->made);
    free(batches->places);
    free(batches);
    *dropped = NULL;
}
