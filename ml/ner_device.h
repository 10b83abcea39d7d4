/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of a NER model whose network is on a device: all steps of a batch in a few calls.
 *
 * Where it sits
 *     ner_parse.c, ner_train.c, ner_predict.c -> [ ml/ner_device.h ] -> ml/cuda/parser.c
 * How
 *     A state takes one word with each move, so the host knows how many steps each will take before
 *     the first is made, and where each step's numbers lie; the rest is the device's.
 */
#ifndef CRTI_ML_NER_DEVICE_H
#define CRTI_ML_NER_DEVICE_H

#include "ml/ner_model.h"

/* States of a document are behind each other; `steps` are how many each takes. */
typedef struct crti_ner_job {
    const crti_ner_state_t *states;
    const uint32_t *steps;
    size_t count;
    const float *flat,
        *vectors;  /* the device's: weights, and vectors of the words (float32) */
    uint64_t seed; /* of the dropout of states */
} crti_ner_job_t;

typedef struct crti_ner_device_ops {
    /* All gradients of the parser's arrays, in the device's `gradients`; *d_words_out: those of the
     * words' vectors, valid until the next call. The loss is on its way: `read_loss`. */
    crt_status_t (*train)(crti_device_t *device, const crt_ner_model_t *model,
                          const crti_ner_job_t *job, float *gradients,
                          float **d_words_out);
    crt_status_t (*read_loss)(crti_device_t *device, double *loss_out);

    /* The number of the move that each word is taken with. */
    crt_status_t (*tag)(crti_device_t *device, const crt_ner_model_t *model,
                        const crti_ner_job_t *job, uint16_t *moves_out);
} crti_ner_device_ops_t;

#endif
