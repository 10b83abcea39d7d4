/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an optimizer on some parts of the weights.
 *
 * Where it sits
 *     summed gradients of all replicas -> [ measure, update ] -> the parts this process owns
 * Invariants
 *     Clipping needs norms of whole arrays, so it comes between the two halves, when the squares
 *     of all parts have been summed. With one part that is everything, the step is that of
 *     crt_optimizer_step.
 */
#include "ml/matrix.h"
#include "ml/optimizer.h"

/* Sums go through memory in pieces that stay in the first cache. */
#define PIECE 2048

/* Where `part` and `array` meet; count 0 when they don't. */
static crt_part_t meet(const crti_array_t *array, const crt_part_t *part)
{
    size_t array_end = array->at + array->count, part_end = part->first + part->count;
    size_t first = array->at > part->first ? array->at : part->first;
    size_t end = array_end < part_end ? array_end : part_end;

    return (crt_part_t){first, end > first ? end - first : 0};
}

static crt_status_t check(const crt_optimizer_t *o, const crt_model_t *model,
                          const crt_tensor_t *gradients, const crt_part_t *parts,
                          size_t count)
{
    if (o->model != model)
        return crt_raise(CRT_ERR_INVALID, "the optimizer belongs to another model");
    if (model->device)
        return crt_raise(CRT_ERR_UNSUPPORTED, "a step on parts of a model on a GPU");
    for (size_t i = 0; i < count; i++)
        if (parts[i].first > model->parameter_count ||
            parts[i].count > model->parameter_count - parts[i].first)
            return crt_raise(
                CRT_ERR_INVALID,
                "part %zu (%zu floats from %zu on) reaches beyond the model's "
                "%zu parameters",
                i, parts[i].count, parts[i].first, model->parameter_count);
    return crti_matrix_check_flat(gradients, model->parameter_count, "gradients");
}

static double measure(const crt_optimizer_t *o, const crt_model_t *model,
                      float *gradients, crt_part_t part)
{
    float penalty = o->options.l2_is_weight_decay ? 0 : (float)o->options.l2;
    double square = 0;

    for (size_t done = 0; done < part.count; done += PIECE) {
        size_t at = part.first + done;
        size_t size = part.count - done < PIECE ? part.count - done : PIECE;

        if (penalty > 0)
            for (size_t i = 0; i < size; i++)
                gradients[at + i] += penalty * model->weights[at + i];
        square += crti_optimizer_square(gradients + at, size);
    }
    return square;
}

crt_status_t crt_optimizer_measure(const crt_optimizer_t *o, const crt_model_t *model,
                                   const crt_tensor_t *gradients, const crt_part_t *parts,
                                   size_t count, double *squares)
{
    crt_status_t status = check(o, model, gradients, parts, count);

    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i < model->array_count; i++) {
        squares[i] = 0;
        for (size_t k = 0; k < count; k++)
            squares[i] +=
                measure(o, model, gradients->data, meet(&model->arrays[i], &parts[k]));
    }
    return CRT_OK;
}

crt_status_t crt_optimizer_update(crt_optimizer_t *o, crt_model_t *model,
                                  const crt_tensor_t *gradients, const crt_part_t *parts,
                                  size_t count, const double *squares, double clip)
{
    crt_status_t status = check(o, model, gradients, parts, count);
    double whole;

    if (status == CRT_OK)
        status = crti_optimizer_scale(o, squares, clip, &whole);
    if (status != CRT_OK)
        return status;
    o->steps++;
    for (size_t i = 0; i < model->array_count; i++) {
        float scale = crti_optimizer_array_scale(o, squares[i], whole);

        for (size_t k = 0; k < count; k++) {
            crt_part_t part = meet(&model->arrays[i], &parts[k]);

            if (part.count > 0)
                crti_optimizer_update(o, model, part.first, part.count, scale,
                                      gradients->data);
        }
    }
    return CRT_OK;
}
