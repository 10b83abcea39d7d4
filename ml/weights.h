/* SPDX-License-Identifier: Apache-2.0 */
/* Weights file: the parameters of a model on disk, and its statistics, if it has some, as one more
 * array.
 *
 *     offset  bytes
 *          0      8  "crtmodel"
 *          8      4  version, 1
 *         12      4  arrays, n
 *         16      8  floats in all arrays
 *         24     8n  rows and columns of each array, 4 bytes each
 *             4each  the floats, IEEE 754
 *                 4  CRC-32 of everything before
 *
 * All numbers little endian. Bytes are untrusted: every length is checked before it is
 * used.
 */
#ifndef CRTI_ML_WEIGHTS_H
#define CRTI_ML_WEIGHTS_H

#include "ml/model.h"

/* Bytes of a file for `model`; the caller frees them with free. */
crt_status_t crti_weights_encode(const crt_model_t *model, unsigned char **data_out,
                                 size_t *size_out);

/* Fills the model's weights from a file's bytes; changes nothing on failure. `name` is
 * for the error text. */
crt_status_t crti_weights_decode(crt_model_t *model, const char *name,
                                 const unsigned char *data, size_t size);

#endif
