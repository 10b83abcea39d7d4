/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluate: what a model is worth on a part of a data set that lies in the store. */
#ifndef CRTI_ACTORS_EVALUATE_H
#define CRTI_ACTORS_EVALUATE_H

#include <crt_actors.h>

/* Where the samples are, and which part of them counts. The refs are borrowed. */
typedef struct crti_evaluation {
    crt_ref_t *features, *labels;
    int classes, part, parts;
    const char *format; /* as of crti_feed_spec_t */
} crti_evaluation_t;

/* Answers `call` with a list of the sum of the losses, the number of samples that are told right,
 * and the number of samples. `weights` NULL: those of the model. */
crt_status_t crti_evaluate(crt_call_t *call, crt_model_t *model,
                           const crt_tensor_t *weights, const crti_evaluation_t *e);

#endif
