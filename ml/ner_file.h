/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a NER model, taken apart. */
#ifndef CRTI_ML_NER_FILE_H
#define CRTI_ML_NER_FILE_H

#include "ml/ner_model.h"

/* What is in a file; everything points into its bytes. */
typedef struct crti_ner_file {
    crt_ner_options_t options; /* not checked */
    uint32_t label_count;
    struct {
        const char *text; /* no zero byte behind it */
        uint32_t size;
    } labels[CRTI_NER_LABELS_MAX];
    uint64_t parameters, steps;
    uint32_t states, note_size;
    const unsigned char *note, *floats; /* floats: weights, then the states */
} crti_ner_file_t;

/* CRT_ERR_CORRUPT, naming `name`, when it is no such file. */
crt_status_t crti_ner_file_decode(const char *name, const unsigned char *data,
                                  size_t size, crti_ner_file_t *file);

/* Bytes of a file; the caller frees them with free. `optimizer` may be NULL. */
crt_status_t crti_ner_file_encode(crt_ner_model_t *model, crt_optimizer_t *optimizer,
                                  const void *note, size_t note_size,
                                  unsigned char **data_out, size_t *size_out);

/* The model of a file. CRT_ERR_CORRUPT when its options mean none. */
crt_status_t crti_ner_file_make(const char *name, const crti_ner_file_t *file,
                                crt_ner_model_t **model_out);

#endif
