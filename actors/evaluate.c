/* SPDX-License-Identifier: Apache-2.0 */
#include "actors/evaluate.h"

#include <math.h>
#include <stdlib.h>

#define ROWS     256
#define PROB_MIN 1e-30f /* of a class that has no probability left in float32 */

typedef struct sums {
    double loss;
    int64_t right, count;
} sums_t;

static void add_rows(sums_t *s, const float *probabilities, const uint8_t *labels,
                     int64_t rows, int outputs)
{
    for (int64_t i = 0; i < rows; i++, probabilities += outputs) {
        int best = 0;
        float own = probabilities[labels[i]];

        for (int k = 1; k < outputs; k++)
            best = probabilities[k] > probabilities[best] ? k : best;
        s->right += best == labels[i];
        s->loss -= log(own > PROB_MIN ? own : PROB_MIN);
    }
    s->count += rows;
}

static crt_status_t add_all(sums_t *s, crt_model_t *model, const crt_tensor_t *weights,
                            const crt_dataset_t *set, crt_image_batches_t *batches)
{
    int outputs = crt_model_outputs(model);
    float *memory = malloc(ROWS * (size_t)outputs * sizeof(float));
    crt_status_t status =
        memory ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "%d outputs", outputs);

    while (status == CRT_OK && s->count < (int64_t)crt_dataset_count(set)) {
        const crt_batch_t *batch = crt_image_batches_next(batches);
        int64_t shape[2] = {batch->inputs.shape[0], outputs};
        crt_tensor_t out = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, memory);

        status = crt_model_predict(model, weights, &batch->inputs, &out);
        if (status == CRT_OK)
            add_rows(s, memory, batch->labels.data, shape[0], outputs);
    }
    free(memory);
    return status;
}

static crt_status_t evaluate(crt_model_t *model, const crt_tensor_t *weights,
                             const crti_evaluation_t *e, sums_t *sums)
{
    const crt_tensor_t *x, *y;
    crt_dataset_t *all = NULL, *part = NULL;
    crt_image_batches_t *batches = NULL;
    crt_status_t status = crt_get(e->features, &x);

    if (status == CRT_OK)
        status = crt_get(e->labels, &y);
    if (status == CRT_OK)
        status = crt_dataset_new(x, y, e->classes, &all);
    if (status == CRT_OK)
        status = crt_dataset_new_shard(all, e->part, e->parts, &part);
    if (status == CRT_OK)
        status = crt_image_batches_new(
            *e->format ? crt_image_format(e->format) : NULL, part,
            CRT_IMAGE_BATCHES_OPTIONS(.batch_size = ROWS), &batches);
    if (status == CRT_OK)
        status = add_all(sums, model, weights, part, batches);
    crt_image_batches_drop(&batches);
    crt_dataset_drop(&part);
    crt_dataset_drop(&all);
    return status;
}

crt_status_t crti_evaluate(crt_call_t *call, crt_model_t *model,
                           const crt_tensor_t *weights, const crti_evaluation_t *e)
{
    sums_t sums = {.count = 0};
    crt_status_t status = evaluate(model, weights, e, &sums);

    if (status != CRT_OK)
        return status;
    return crt_return(
        call, crt_list((crt_arg_t[]){crt_arg_float(sums.loss), crt_arg_int(sums.right),
                                     crt_arg_int(sums.count)},
                       3));
}
