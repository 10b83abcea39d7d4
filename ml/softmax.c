/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy, the end of every model.
 *
 * Shapes: logits and probabilities (rows, classes), labels (rows). The maximum is taken
 * off before exp, so that no logit overflows. The loss is summed in double.
 */
#include "ml/layer.h"

#include <float.h>
#include <math.h>

static void softmax_row(int classes, float *row)
{
    float top = row[0], sum = 0;

    for (int j = 1; j < classes; j++)
        top = row[j] > top ? row[j] : top;
    for (int j = 0; j < classes; j++) {
        row[j] = expf(row[j] - top);
        sum += row[j];
    }
    for (int j = 0; j < classes; j++)
        row[j] /= sum;
}

void crti_softmax(int rows, int classes, float *logits)
{
    for (int i = 0; i < rows; i++, logits += classes)
        softmax_row(classes, logits);
}

crt_status_t crti_softmax_check(int rows, int classes, const uint8_t *labels)
{
    for (int i = 0; i < rows; i++)
        if (labels[i] >= classes)
            return crt_raise(CRT_ERR_INVALID,
                             "label %d of sample %d, the model has %d classes", labels[i],
                             i, classes);
    return CRT_OK;
}

crt_status_t crti_softmax_gradients(int rows, int classes, float *probabilities,
                                    const uint8_t *labels, double *loss_out)
{
    float scale = 1.0f / (float)rows;
    double loss = 0;
    crt_status_t status = crti_softmax_check(rows, classes, labels);

    if (status != CRT_OK)
        return status;
    for (int i = 0; i < rows; i++, probabilities += classes) {
        float p = probabilities[labels[i]];

        loss -= log(p < FLT_MIN ? FLT_MIN : p); /* a NaN stays one */
        probabilities[labels[i]] -= 1;
        for (int j = 0; j < classes; j++)
            probabilities[j] *= scale;
    }
    *loss_out = loss / rows;
    return CRT_OK;
}
