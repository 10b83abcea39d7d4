/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: the state of a training after a step, in a folder that other processes may watch.
 *
 *     crt_checkpoint_write(folder, ...) -> FOLDER/step-000000000250.checkpoint
 *     crt_checkpoint_latest -> crt_checkpoint_read     to continue a training
 *     crt_checkpoint_after  -> crt_checkpoint_read     the next one for an evaluator
 *
 * A file holds the weights, the statistics of batch norms, the whole state of the optimizer, the
 * step, the seed, and what was taken of the data. With data that are numbered by step
 * (crt_images.h) a training that continues from a checkpoint makes the same weights, bit for bit. A
 * file appears whole or not at all, also when the disk is full or the power fails.
 */
#ifndef CRT_CHECKPOINT_H
#define CRT_CHECKPOINT_H

#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The description of a checkpoint. Made with CRT_CHECKPOINT. crt_checkpoint_read fills one and
 * takes its size. */
typedef struct crt_checkpoint {
    /* Set by CRT_CHECKPOINT and crt_checkpoint_read. */
    size_t struct_size;
    /* Name of the network of the weights, such as "resnet18", at most 63 bytes. A checkpoint that
     * was read has the text that the program gave to crt_checkpoint_read. */
    const char *network;
    /* Number of steps that were made, and the seed of the training. */
    uint64_t step, seed;
    /* True if the training ends with this checkpoint. */
    bool is_last;
    /* Number of batches that all members of the training have taken together, where a training
     * counts them; else 0. */
    uint64_t batches;
    /* Samples of each of these batches, where a training tells; else 0. */
    uint64_t batch_size;
} crt_checkpoint_t;
#define CRT_CHECKPOINT(...)                                                              \
    CRTI_VALUE(crt_checkpoint_t, .struct_size = sizeof(crt_checkpoint_t), __VA_ARGS__)

/* Writes a checkpoint of `model` and `optimizer` into `folder`, then removes all but the
 * `keep` newest checkpoints (0: none is removed). On failure the older checkpoints stay.
 *
 * Errors: CRT_ERR_IO, when the file cannot be written, for example because the disk is full
 * (the text has the reason); CRT_ERR_NOT_FOUND or CRT_ERR_PERMISSION, when the folder cannot
 * be used; CRT_ERR_INVALID, when a name is too long or missing, or `checkpoint` was not made with
 * CRT_CHECKPOINT; CRT_ERR_UNSUPPORTED, when the program sets a member that only a newer version of
 * the library has; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_checkpoint_write(const char *folder,
                                          const crt_checkpoint_t *checkpoint,
                                          crt_model_t *model, crt_optimizer_t *optimizer,
                                          int keep);

/* Reads a checkpoint into `model` and `optimizer`, an optimizer of that model (NULL: the state
 * of the optimizer is not read; both NULL: only the description is read). `network` is the
 * expected name of the network. Fills `*checkpoint_out`, which has `checkpoint_size` bytes
 * (sizeof(*checkpoint_out)). Model and optimizer are unchanged on failure.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such file; CRT_ERR_CORRUPT, when the file is cut
 * short or damaged; CRT_ERR_INVALID, when the file is of another network, another optimizer,
 * or another version of the format, or `checkpoint_size` is too small to be the size of a
 * crt_checkpoint_t; CRT_ERR_IO; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_checkpoint_read(const char *path, const char *network,
                                         crt_model_t *model, crt_optimizer_t *optimizer,
                                         size_t checkpoint_size,
                                         crt_checkpoint_t *checkpoint_out);

/* Writes the path of a checkpoint in `folder` into `path_out`, which has room for `room`
 * bytes: crt_checkpoint_latest that of the newest checkpoint; crt_checkpoint_before that of
 * the newest checkpoint older than `step` (for example when a newer one is damaged);
 * crt_checkpoint_after that of the oldest checkpoint newer than `step`.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such checkpoint or folder; CRT_ERR_INVALID, when
 * `room` is too small; CRT_ERR_NO_MEMORY. */
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
