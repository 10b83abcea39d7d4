/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: samples of a data set in random order, gathered into one matrix at a time.
 *
 * Where it sits
 *     data set -> [ ml/batches.c ] -> crt_model_compute_gradients
 * Invariants
 *     In one pass every sample comes once. The order of pass k depends on the seed alone.
 */
#include <stdlib.h>

#include "ml/dataset.h"
#include "ml/model.h"
#include <crt_ml.h>

struct crt_batches {
    const crt_dataset_t *set;
    size_t size, next; /* next: place in `order` */
    uint64_t epoch;
    uint32_t *order;
    float *inputs;
    uint8_t *labels;
    crt_batch_t batch;
    crti_random_t random;
};

/* Fisher and Yates. */
static void shuffle(crt_batches_t *b)
{
    for (size_t i = b->set->count; i > 1; i--) {
        size_t j = crti_random_below(&b->random, (uint32_t)i);
        uint32_t kept = b->order[i - 1];

        b->order[i - 1] = b->order[j];
        b->order[j] = kept;
    }
    b->next = 0;
    b->epoch++;
}

crt_status_t crt_batches_new(const crt_dataset_t *set, int batch, uint64_t seed,
                             crt_batches_t **batches_out)
{
    crt_batches_t *b;
    size_t size;

    if (batch < 1 || set->count > UINT32_MAX)
        return crt_raise(CRT_ERR_INVALID, "batches of %d out of %zu samples", batch,
                         set->count);
    size = (size_t)batch < set->count ? (size_t)batch : set->count;
    b = calloc(1, sizeof(*b));
    if (!b)
        return crt_raise(CRT_ERR_NO_MEMORY, "batches");
    b->set = set;
    b->size = size;
    b->random = crti_random(seed, CRTI_STREAM_BATCHES);
    b->order = malloc(set->count * sizeof(*b->order));
    b->inputs = malloc(size * (size_t)set->width * sizeof(float));
    b->labels = malloc(size);
    if (!b->order || !b->inputs || !b->labels) {
        crt_batches_drop(&b);
        return crt_raise(CRT_ERR_NO_MEMORY, "batches of %d out of %zu samples", batch,
                         set->count);
    }
    for (size_t i = 0; i < set->count; i++)
        b->order[i] = (uint32_t)i;
    b->next = set->count;
    *batches_out = b;
    return CRT_OK;
}

const crt_batch_t *crt_batches_next(crt_batches_t *b)
{
    const uint8_t *labels = b->set->labels.data;
    size_t rows, width = (size_t)b->set->width;
    int64_t shape[2];

    if (b->next == b->set->count)
        shuffle(b);
    rows = b->set->count - b->next < b->size ? b->set->count - b->next : b->size;
    for (size_t i = 0; i < rows; i++) {
        size_t sample = b->order[b->next + i];

        crti_dataset_gather(b->set, sample, 1, b->inputs + i * width);
        b->labels[i] = labels[sample];
    }
    b->next += rows;
    shape[0] = (int64_t)rows;
    shape[1] = (int64_t)width;
    b->batch =
        CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, b->inputs),
                  .labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, b->labels));
    return &b->batch;
}

uint64_t crt_batches_epoch(const crt_batches_t *b)
{
    return b->epoch;
}

void crt_batches_drop(crt_batches_t **dropped)
{
    crt_batches_t *b = *dropped;

    if (!b)
        return;
    free(b->order);
    free(b->inputs);
    free(b->labels);
    free(b);
    *dropped = NULL;
}
