/* SPDX-License-Identifier: Apache-2.0 */
/* Piece sender: gives a gradient to a ParameterServer piece by piece, while the rest is still
 * computed.
 *
 * Where it sits
 *     crt_model_compute_gradients tells how far it is -> [ actors/piece_sender.c ] ->
 *     crt_parameter_server_deposit
 * How
 *     A piece is the arrays of whole layers, at least `floats` of them; the statistics of batch
 *     norms, which are known first, are the last piece of the buffer and the first that goes. Each
 *     has a compressor of its own, as an error that is kept belongs to a range. Calls are in flight
 *     while the backward pass goes on.
 */
#ifndef CRTI_ACTORS_PIECE_SENDER_H
#define CRTI_ACTORS_PIECE_SENDER_H

#include <crt_actors.h>

typedef struct crti_piece_sender crti_piece_sender_t;

/* For the gradients of `model`, which must outlive it. Caller owns the result and frees it with
 * crti_piece_sender_free. */
crt_status_t crti_piece_sender_new(crt_model_t *model, crt_compression_t method,
                                   double keep, size_t floats,
                                   crti_piece_sender_t **sender_out);

/* From here on crti_piece_sender_seen sends to `server` (borrowed) what is final of worker
 * `number`'s gradient of `step`: it is a crt_gradients_seen_t. */
void crti_piece_sender_begin(crti_piece_sender_t *sender, crt_actor_t *server,
                             uint64_t step, int number);
void crti_piece_sender_seen(void *sender, size_t first);

/* Waits until the server has them all; how many bytes they were. CRT_ERR_OBJECT_LOST: it died, or
 * has been started again since. */
crt_status_t crti_piece_sender_finish(crti_piece_sender_t *sender, size_t *bytes_out);

void crti_piece_sender_free(crti_piece_sender_t *sender);

#endif
