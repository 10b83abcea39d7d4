/* SPDX-License-Identifier: Apache-2.0 */
/* What a training says: a row for each evaluation, the same as CSV, and scores by label at the
 * end. */
#ifndef TRAIN_NER_REPORT_H
#define TRAIN_NER_REPORT_H

#include <stdio.h>

#include "train_ner.h"

typedef struct row {
    double seconds;
    uint64_t epoch, step, words;
    double loss;
    crt_ner_count_t count;
    double score;
    double words_per_s;         /* of all members together, since the row before */
    uint64_t accepted, dropped; /* gradients, so far */
} row_t;

/* Columns of spaCy's console logger, or of spacy-ray's. */
void print_header(bool is_plain);
void print_row(bool is_plain, const row_t *row);

void write_csv_header(FILE *csv);
void write_csv_row(FILE *csv, const row_t *row);

/* A line for all entities, and one for each label that there is or was found. */
void print_labels(const char *const *labels, const crt_ner_count_t *counts, size_t count);

#endif
