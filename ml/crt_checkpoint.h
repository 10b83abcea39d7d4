/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: a training as it was after a step, in a folder that other processes may watch.
 *
 *     crt_checkpoint_write(folder, ...) -> FOLDER/step-000000000250.checkpoint
 *     crt_checkpoint_latest -> crt_checkpoint_read     to go on; crt_checkpoint_after: an evaluator's next one
 *
 * A file holds the weights, the statistics of batch norms, all that the optimizer remembers, step and seed. With data
 * that are numbered by step (crt_images.h) a training that goes on makes the same weights, bit for bit. A file
 * appears whole or not at all, also when the disk is full or the power fails.
 */
#ifndef CRT_CHECKPOINT_H
#define CRT_CHECKPOINT_H

#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CRT_CHECKPOINT_NAME_MAX 64

typedef struct crt_checkpoint {
    char network
        [CRT_CHECKPOINT_NAME_MAX]; /* what the weights are of, such as "resnet18" */
    uint64_t step, seed;
    bool is_last; /* the training ends with it */
} crt_checkpoint_t;

/* Writes one, then removes all but the `keep` newest (0: none is removed). On failure the older ones stay.
 * CRT_ERR_IO tells why, such as a full disk. */
CRT_API crt_status_t crt_checkpoint_write(const char *folder,
                                          const crt_checkpoint_t *checkpoint,
                                          crt_model_t *model, crt_optimizer_t *optimizer,
                                          int keep);

/* Reads one into a model, and an optimizer of it (NULL: its part is passed over). `network` is what the weights
 * should be of. CRT_ERR_NOT_FOUND: there is no such file; CRT_ERR_CORRUPT: cut short or damaged; CRT_ERR_INVALID:
 * of another network, another optimizer, or another version of this file. Model and optimizer are unchanged on
 * failure. */
CRT_API crt_status_t crt_checkpoint_read(const char *path, const char *network,
                                         crt_model_t *model, crt_optimizer_t *optimizer,
                                         crt_checkpoint_t *checkpoint_out);

/* The path of the newest one in a folder, of the newest that is older than `step` (where a newer one is damaged), and of the
 * oldest that is newer than `step`, into `path_out`, which has room for `room` bytes. CRT_ERR_NOT_FOUND when there is
 * none, or no such folder. */
CRT_API crt_status_t crt_checkpoint_latest(const char *folder, char *path_out,
                                           size_t room);
CRT_API crt_status_t crt_checkpoint_before(const char *folder, uint64_t step,
                                           char *path_out, size_t room);
CRT_API crt_status_t crt_checkpoint_after(const char *folder, uint64_t step,
                                          char *path_out, size_t room);

#ifdef __cplusplus
}
#endif

#endif
