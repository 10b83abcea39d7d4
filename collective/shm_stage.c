/* SPDX-License-Identifier: Apache-2.0 */
/* Staging: ordinary memory goes through two buffers of its member's region, piece by piece; one
 * barrier per piece. See shm.h.
 *
 * Taking (crti_shm_stage_pull): copy piece k in; barrier; everyone takes piece k.
 * Sharing (crti_shm_stage_share), for sums that all or one take: copy piece k in; reduce our share
 * of piece k - 1; copy piece k - 2 out; barrier. The result of a share is written where its inputs
 * were, into everybody's stage: the lines that a member reads from another's cache are those that
 * it writes there, and those that their owner reads back and fills again. A member writes to no
 * line that others have only read, which takes a processor several times as long.
 * Buffers are chosen by a count of pieces that runs on from operation to operation, so that the
 * next operation never writes where a slow member still reads.
 */
#include <string.h>

#include "collective/kernel.h"
#include "collective/shm_int.h"

/* The buffer of a piece. Those of others are written to by shares only. */
static unsigned char *stage_of(const crti_shm_t *team, int who, uint64_t piece)
{
    return team->peers[who].stages +
           (CRTI_SHM_STAGE_PIECES + piece % CRTI_SHM_PIECES) * CRTI_SHM_STAGE;
}

static crt_status_t reach_inputs(crti_shm_t *team)
{
    const crti_step_t *step = team->step;

    for (int i = 0; i < team->size; i++) {
        void *at = NULL;
        crt_status_t status = CRT_OK;

        if (crti_shm_gives(step, i) && team->slots[i].input.nonce)
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

    if (!crti_shm_gives(step, team->rank) || team->slots[team->rank].input.nonce)
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
            at = (const char *)stage_of(team, i, team->pieces) +
                 (parts ? mine * count * size : 0);
        team->sources[i] = at;
    }
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

        copy_in(team, stage_of(team, team->rank, team->pieces), first, count);
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
    char *inputs[CRTI_GROUP_SIZE];  /* in a segment, or our own; NULL: it is staged */
    char *outputs[CRTI_GROUP_SIZE]; /* the same */
    bool takes[CRTI_GROUP_SIZE];
    bool in_is_staged, out_is_staged; /* of this member */
    size_t piece, pieces;             /* elements of one, how many */
    uint64_t start;                   /* number of the first */
} sharing_t;

static size_t piece_count(const sharing_t *s, size_t index)
{
    size_t first = index * s->piece, left = s->team->step->count - first;

    return left < s->piece ? left : s->piece;
}

static crt_status_t reach_both(sharing_t *s)
{
    crti_shm_t *team = s->team;
    const crti_step_t *step = team->step;

    for (int i = 0; i < team->size; i++) {
        const crti_shm_slot_t *slot = &team->slots[i];
        bool is_own = i == team->rank;
        void *in = NULL, *out = NULL;
        crt_status_t status = CRT_OK;

        s->takes[i] = crti_shm_takes(step, i);
        if (is_own || slot->input.nonce)
            status = crti_shm_reach(team, i, &slot->input, step->input, &in);
        if (status == CRT_OK && s->takes[i] && (is_own || slot->output.nonce))
            status = crti_shm_reach(team, i, &slot->output, step->output, &out);
        if (status != CRT_OK)
            return status;
        s->inputs[i] = in;
        s->outputs[i] = out;
    }
    s->in_is_staged = !team->slots[team->rank].input.nonce;
    s->out_is_staged = s->takes[team->rank] && !team->slots[team->rank].output.nonce;
    return CRT_OK;
}

/* All shares of a piece but our own, which nobody else needs: between our memory and our stage. */
static void copy_shares(sharing_t *s, size_t index, bool is_in)
{
    crti_shm_t *team = s->team;
    const crti_step_t *step = team->step;
    size_t size = crt_dtype_size(step->dtype), first, length;
    size_t offset = index * s->piece * size;
    char *stage = (char *)stage_of(team, team->rank, s->start + index);

    for (int i = 0; i < team->size; i++) {
        if (i == team->rank)
            continue;
        crti_shm_share_of(piece_count(s, index), size, team->size, i, &first, &length);
        if (is_in)
            crti_kernel_copy(stage + first * size,
                             (const char *)step->input + offset + first * size,
                             length * size);
        else
            crti_kernel_copy((char *)step->output + offset + first * size,
                             stage + first * size, length * size);
    }
}

/* Our share of all inputs, into all outputs: in a stage the result takes the place of the input. */
static void reduce_share(sharing_t *s, size_t index)
{
    crti_shm_t *team = s->team;
    const crti_step_t *step = team->step;
    const void *sources[CRTI_GROUP_SIZE];
    void *targets[CRTI_GROUP_SIZE];
    size_t size = crt_dtype_size(step->dtype), first, length, offset;
    int target_count = 0;

    crti_shm_share_of(piece_count(s, index), size, team->size, team->rank, &first,
                      &length);
    offset = (index * s->piece + first) * size;
    for (int i = 0; i < team->size; i++) {
        char *stage = (char *)stage_of(team, i, s->start + index) + first * size;

        sources[i] = s->inputs[i] ? s->inputs[i] + offset : stage;
        if (s->takes[i])
            targets[target_count++] = s->outputs[i] ? s->outputs[i] + offset : stage;
    }
    crti_kernel_reduce_to(step->dtype, step->reduction, targets, target_count, sources,
                          team->size, team->size, length);
}

crt_status_t crti_shm_stage_share(crti_shm_t *team)
{
    const crti_step_t *step = team->step;
    sharing_t s = {.team = team,
                   .piece = CRTI_SHM_STAGE / crt_dtype_size(step->dtype),
                   .start = team->pieces};
    crt_status_t status = reach_both(&s);

    s.pieces = (step->count + s.piece - 1) / s.piece;
    for (size_t k = 0; status == CRT_OK && k < s.pieces + 2; k++) {
        if (k < s.pieces && s.in_is_staged)
            copy_shares(&s, k, true);
        if (k >= 1 && k - 1 < s.pieces)
            reduce_share(&s, k - 1);
        if (k >= 2 && s.out_is_staged)
            copy_shares(&s, k - 2, false);
        if (k < s.pieces + 1)
            status = crti_shm_barrier(team);
    }
    team->pieces += s.pieces;
    return status;
}
