/* SPDX-License-Identifier: Apache-2.0 */
/* IDX: the file format of MNIST, plain or packed by gzip.
 *
 *     0 0 TYPE RANK, then RANK sizes (4 bytes, big endian), then the numbers, row major
 *
 * Bytes are untrusted. The sizes are checked against hard limits, and against what the
 * file could hold at all, before memory is asked for; a packed file must end exactly
 * where its array ends and carry gzip's own checksums.
 */
#ifndef CRTI_ML_IDX_H
#define CRTI_ML_IDX_H

#include <crt_base.h>

#define CRTI_IDX_RANK_MAX  4
#define CRTI_IDX_BYTES_MAX ((size_t)1 << 31) /* of an array and of a file */

/* An array of uint8; `data` is malloc'ed. */
typedef struct crti_idx {
    int rank;
    int64_t shape[CRTI_IDX_RANK_MAX];
    size_t size;
    unsigned char *data;
} crti_idx_t;

/* From a file's bytes. `name` is for the error text. Caller frees `data` with free. */
crt_status_t crti_idx_decode(const char *name, const unsigned char *bytes, size_t size,
                             crti_idx_t *idx_out);

crt_status_t crti_idx_read(const char *path, crti_idx_t *idx_out);

#endif
