/* SPDX-License-Identifier: Apache-2.0 */
/* Data set: samples and labels that lie somewhere in memory.
 *
 * Where it sits
 *     idx.c, digits.c, the object store -> [ ml/dataset.c ] -> batches.c, classify.c
 * Ownership
 *     `memory` (two blocks at most) is the set's own; a set over foreign memory or a
 *     shard has none.
 * Invariants
 *     Features and labels are dense, equally many, and each label is below `classes`.
 */
#ifndef CRTI_ML_DATASET_H
#define CRTI_ML_DATASET_H

#include <crt_ml.h>

struct crt_dataset {
    size_t count;
    int width, classes;
    crt_tensor_t features, labels;
    void *memory[2];
};

/* Takes over two malloc'ed blocks, on success only: uint8 samples (rank 3: count, height,
 * width) and their labels. */
crt_status_t crti_dataset_adopt(const crt_tensor_t *features, const crt_tensor_t *labels,
                                int classes, crt_dataset_t **set_out);

/* Keeps the first `count` samples (at least one), if there are more. */
void crti_dataset_shorten(crt_dataset_t *set, size_t count);

/* Copies `rows` samples from `first` on to `out` as the numbers a model reads. */
void crti_dataset_gather(const crt_dataset_t *set, size_t first, size_t rows, float *out);

#endif
