/* SPDX-License-Identifier: Apache-2.0 */
/* Resume: what a group of replicas begins with, and leaves, in files.
 *
 * Where it sits
 *     crt_replica_new, crt_replica_save -> [ actors/resume.c ] -> ml/checkpoint.c
 * Invariants
 *     One member of a group reads a checkpoint, before the first agreement: it has made most steps,
 *     so that all begin as it does. Rank 0 writes one, when all members have the same weights.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/replica.h"
#include "runtime/base/copy_struct.h"

#define CHUNK ((size_t)1 << 18) /* floats that are exchanged at a time */

/* Sharded: this member then keeps the state of all parts, until parts are given out. */
static crt_status_t own_all(crt_replica_t *r)
{
    r->owned = malloc(sizeof(*r->owned));
    if (!r->owned)
        return crt_raise(CRT_ERR_NO_MEMORY, "parts of a replica");
    r->owned[0] = (crt_part_t){0, crt_model_parameters(r->model)};
    r->owned_count = 1;
    return CRT_OK;
}

crt_status_t crti_replica_resume(crt_replica_t *r, const char *path, const char *network)
{
    crt_checkpoint_t checkpoint;
    crt_status_t status = crt_checkpoint_read(path, network, r->model, r->optimizer,
                                              sizeof(checkpoint), &checkpoint);

    if (status != CRT_OK)
        return status;
    r->steps = checkpoint.step;
    r->batches =
        checkpoint.batches; /* a training that does not count them has none in it */
    if (r->batches == 0)
        r->batches = r->steps * (uint64_t)crt_group_size(r->group);
    return own_all(r);
}

/* The own parts of a state within [at, at + count), zeros elsewhere. */
static void fill(const crt_replica_t *r, const float *state, size_t at, size_t count,
                 float *chunk)
{
    memset(chunk, 0, count * sizeof(float));
    for (size_t i = 0; i < r->owned_count; i++) {
        size_t first = r->owned[i].first, end = first + r->owned[i].count;

        first = first > at ? first : at;
        end = end < at + count ? end : at + count;
        if (first < end)
            memcpy(chunk + first - at, state + first, (end - first) * sizeof(float));
    }
}

crt_status_t crti_replica_gather_state(crt_replica_t *r)
{
    size_t floats = crt_model_parameters(r->model);
    bool is_root = crt_group_rank(r->group) == 0;
    float *chunk = malloc(CHUNK * sizeof(float));
    crt_status_t status = chunk ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "state");

    for (int i = 0; i < crt_optimizer_states(r->optimizer); i++) {
        float *state = crt_optimizer_state(r->optimizer, i)->data;

        for (size_t at = 0; at < floats && status == CRT_OK; at += CHUNK) {
            size_t size = floats - at < CHUNK ? floats - at : CHUNK;
            crt_tensor_t view = crt_tensor_floats(chunk, size);

            fill(r, state, at, size, chunk);
            status = crt_group_reduce(r->group, &view, is_root ? &view : NULL, 0,
                                      CRT_REDUCE_SUM);
            if (status == CRT_OK && is_root)
                memcpy(state + at, chunk, size * sizeof(float));
        }
    }
    free(chunk);
    return status;
}

crt_status_t crt_replica_save(crt_replica_t *r, const char *folder,
                              const crt_checkpoint_t *checkpoint, int keep)
{
    crt_checkpoint_t mine;
    crt_status_t status = CRTI_COPY_STRUCT(&mine, checkpoint, "CRT_CHECKPOINT");

    if (status == CRT_OK && r->options.sharded)
        status = crti_replica_gather_state(r);
    if (status != CRT_OK || crt_group_rank(r->group) != 0)
        return status;
    mine.step = r->steps;
    mine.batches = r->batches;
    return crt_checkpoint_write(folder, &mine, r->model, r->optimizer, keep);
}
