/* SPDX-License-Identifier: Apache-2.0 */
/* Staging: ordinary memory goes through two buffers of its member's region, piece by piece; one
 * barrier per piece. See shm.h.
 *
 * Taking (crti_shm_stage_pull): copy piece k in; barrier; everyone takes piece k.
 * Sharing (crti_shm_stage_share), for more than two: copy piece k in; reduce our share of piece
 * k - 1 into our out buffer; copy piece k - 2 out of all shares; barrier.
 * Buffers are chosen by a count of pieces that runs on from operation to operation, so that the
 * next operation never writes where a slow member still reads.
 */
#include <string.h>

#include "collective/kernel.h"
#include "collective/shm_int.h"

/* What others read of a member directly: never an input that the member itself overwrites in the
 * course of the operation. */
static bool is_reached(const crti_shm_t *team, int i)
{
    const crti_shm_slot_t *slot = &team->slots[i];
    bool overwrites = team->step->kind == CRT_COLLECTIVE_ALLREDUCE ||
                      team->step->kind == CRT_COLLECTIVE_REDUCE;

    return slot->input.nonce && !(slot->input.is_in_place && overwrites);
}

static const unsigned char *stage_of(const crti_shm_t *team, int who, unsigned stage,
                                     uint64_t piece)
{
    return team->peers[who].stages + (stage + (piece & 1)) * CRTI_SHM_STAGE;
}

static unsigned char *own_stage(const crti_shm_t *team, unsigned stage, uint64_t piece)
{
    return team->region->stages + (stage + (piece & 1)) * CRTI_SHM_STAGE;
}

static crt_status_t reach_inputs(crti_shm_t *team)
{
    const crti_step_t *step = team->step;

    for (int i = 0; i < team->size; i++) {
        void *at = NULL;
        crt_status_t status = CRT_OK;

        if (crti_shm_gives(step, i) && is_reached(team, i))
            status = crti_shm_reach(team, i, &team->slots[i].input, step->input, &at);
        if (status != CRT_OK)
            return status;
        team->targets[i] = at;
    }
    return CRT_OK;
}

/* Our elements `first`, `count` of each part, packed into the staging buffer. */
static void copy_in(crti_shm_t *team, unsigned char *stage, size_t first, size_t count)
{
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype);
    size_t parts = crti_shm_given(team, step) / (step->count ? step->count : 1);

    if (!crti_shm_gives(step, team->rank) || is_reached(team, team->rank))
        return;
    for (size_t i = 0; i < parts; i++)
        crti_kernel_copy(stage + i * count * size,
                         (const char *)step->input + (i * step->count + first) * size,
                         count * size);
}

static void take_piece(crti_shm_t *team, void *const *reached, size_t first, size_t count)
{
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype);
    size_t mine = (size_t)team->rank;
    bool parts = step->kind == CRT_COLLECTIVE_REDUCESCATTER ||
                 step->kind == CRT_COLLECTIVE_ALLTOALL;

    /* Reached inputs have parts step->count apart, staged ones `count`: both are brought to
     * begin at our part, with stride 0. */
    for (int i = 0; i < team->size; i++) {
        const char *at = reached[i];

        if (at)
            at += (first + (parts ? mine * step->count : 0)) * size;
        else
            at = (const char *)stage_of(team, i, CRTI_SHM_STAGE_IN, team->pieces) +
                 (parts ? mine * count * size : 0);
        team->sources[i] = at;
    }
    /* Between two, what is ours need not come from the staging buffer. */
    crti_shm_pull(team, team->sources, 0, first, count);
}

crt_status_t crti_shm_stage_pull(crti_shm_t *team)
{
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype);
    size_t parts = crti_shm_given(team, step) / (step->count ? step->count : 1);
    size_t piece = CRTI_SHM_STAGE / size / (parts ? parts : 1);
    void *reached[CRTI_GROUP_SIZE];
    bool any_reached = false;
    crt_status_t status = reach_inputs(team);

    for (int i = 0; i < team->size; i++) {
        reached[i] = team->targets[i];
        any_reached = any_reached || reached[i];
    }
    for (size_t first = 0; status == CRT_OK && first < step->count; first += piece) {
        size_t count = step->count - first < piece ? step->count - first : piece;

        copy_in(team, own_stage(team, CRTI_SHM_STAGE_IN, team->pieces), first, count);
        status = crti_shm_barrier(team);
        if (status == CRT_OK && crti_shm_takes(step, team->rank))
            take_piece(team, reached, first, count);
        team->pieces++;
    }
    return status == CRT_OK && any_reached ? crti_shm_barrier(team) : status;
}

/* ---------------------------------------------------------------- shares through buffers */

typedef struct sharing {
    crti_shm_t *team;
    void *reached[CRTI_GROUP_SIZE];
    size_t piece, pieces; /* elements of one, how many */
    uint64_t start;       /* number of the first */
} sharing_t;

static size_t piece_count(const sharing_t *s, size_t index)
{
    size_t first = index * s->piece, left = s->team->step->count - first;

    return left < s->piece ? left : s->piece;
}

static void reduce_share(sharing_t *s, size_t index)
{
    crti_shm_t *team = s->team;
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype), first, length;
    uint64_t number = s->start + index;

    crti_shm_share_of(piece_count(s, index), size, team->size, team->rank, &first,
                      &length);
    for (int i = 0; i < team->size; i++)
        team->sources[i] =
            (s->reached[i] ? (const char *)s->reached[i] + index * s->piece * size
                           : (const char *)stage_of(team, i, CRTI_SHM_STAGE_IN, number)) +
            first * size;
    crti_kernel_reduce_many(step->dtype, step->reduction,
                            own_stage(team, CRTI_SHM_STAGE_OUT, number) + first * size,
                            team->sources, team->size, team->size, length);
}

static void copy_out(sharing_t *s, size_t index)
{
    crti_shm_t *team = s->team;
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype), first, length;
    char *output = (char *)step->output + index * s->piece * size;

    for (int i = 0; i < team->size; i++) {
        crti_shm_share_of(piece_count(s, index), size, team->size, i, &first, &length);
        crti_kernel_copy(output + first * size,
                         stage_of(team, i, CRTI_SHM_STAGE_OUT, s->start + index) +
                             first * size,
                         length * size);
    }
}

crt_status_t crti_shm_stage_share(crti_shm_t *team)
{
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype);
    sharing_t s = {.team = team, .piece = CRTI_SHM_STAGE / size, .start = team->pieces};
    crt_status_t status = reach_inputs(team);

    memcpy(s.reached, team->targets, (size_t)team->size * sizeof(void *));
    s.pieces = (step->count + s.piece - 1) / s.piece;
    for (size_t k = 0; status == CRT_OK && k < s.pieces + 2; k++) {
        if (k < s.pieces)
            copy_in(team, own_stage(team, CRTI_SHM_STAGE_IN, s.start + k), k * s.piece,
                    piece_count(&s, k));
        if (k >= 1 && k - 1 < s.pieces)
            reduce_share(&s, k - 1);
        if (k >= 2 && crti_shm_takes(step, team->rank))
            copy_out(&s, k - 2);
        if (k < s.pieces + 1)
            status = crti_shm_barrier(team);
    }
    team->pieces += s.pieces;
    return status;
}
