/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint file.
 *
 *     offset  bytes
 *          0      8  "crtcheck"
 *          8      4  version, 3; without samples of a batch: 2; without batches, too: 1
 *         12      4  1: the last one of a training
 *         16     64  network, ended by zeros
 *         80      8  step
 *         88      8  seed
 *         96      8  steps of the optimizer
 *        104      4  kind of optimizer
 *        108      4  its flat states, n
 *        112      8  floats of each
 *        120      8  bytes of the weights, w
 *        128      8  batches that were taken
 *        136      8  samples of each
 *        144      w  a weights file (weights.h)
 *             each   n states, IEEE 754
 *                 4  CRC-32 of everything before
 *
 * All numbers little endian. Bytes are untrusted.
 */
#ifndef CRTI_ML_CHECKPOINT_H
#define CRTI_ML_CHECKPOINT_H

#include <crt_checkpoint.h>

/* Bytes of a file; the caller frees them with free. */
crt_status_t crti_checkpoint_encode(const crt_checkpoint_t *checkpoint,
                                    crt_model_t *model, crt_optimizer_t *optimizer,
                                    unsigned char **data_out, size_t *size_out);

/* crt_checkpoint_read of a file's bytes. `name` is for the error text. */
crt_status_t crti_checkpoint_decode(const char *name, const unsigned char *data,
                                    size_t size, const char *network, crt_model_t *model,
                                    crt_optimizer_t *optimizer,
                                    crt_checkpoint_t *checkpoint_out);

#endif
