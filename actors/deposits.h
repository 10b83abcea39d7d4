/* SPDX-License-Identifier: Apache-2.0 */
/* Deposits: the gradients that a ParameterServer gets in pieces, one for each worker.
 *
 * Where it sits
 *     pieces of piece_sender.c -> [ actors/deposits.c ] -> the average that parameter_server.c
 *     applies
 * Invariants
 *     Pieces of a worker come from the end of the buffer to its beginning; `low` of its slot is
 *     where those that are there begin. A worker that died and makes its step again sends the same
 *     pieces once more: they are written over.
 */
#ifndef CRTI_ACTORS_DEPOSITS_H
#define CRTI_ACTORS_DEPOSITS_H

#include <crt_actors.h>

#define CRTI_DEPOSITS_WORKERS_MAX 4096

typedef struct crti_deposit_slot {
    uint64_t step;
    size_t low;  /* floats from here on are there */
    float *data; /* NULL: this worker never sent one */
} crti_deposit_slot_t;

typedef struct crti_deposits {
    size_t floats; /* of a gradient with the statistics behind it */
    int count;
    crti_deposit_slot_t *slots;
} crti_deposits_t;

/* Floats [first, first + count) of worker `number`'s gradient of `step`, encoded. CRT_ERR_INVALID
 * when they are not those that come next. */
crt_status_t crti_deposits_add(crti_deposits_t *deposits, uint64_t step, int number,
                               size_t first, size_t count, const crt_tensor_t *bytes);

/* The whole gradient of worker `number` of `step`; CRT_ERR_OBJECT_LOST when it is not there.
 * Borrowed. */
crt_status_t crti_deposits_get(const crti_deposits_t *deposits, uint64_t step, int number,
                               const float **data_out);

void crti_deposits_fini(crti_deposits_t *deposits);

#endif
