/* SPDX-License-Identifier: Apache-2.0 */
/* The backend "two-level": shared memory within each node, a ring between one member of each.
 *
 * Where it sits
 *     operation.c -> [ two_level.c ] -> shm (the members of this node),
 *                                       ring.c (the leaders; and all members, for the rest)
 * What goes over the network
 *     Of allreduce, reduce, broadcast, barrier what one member of each node would send. Likewise
 *     of allgather and reducescatter where all nodes have as many members, with ranks in a
 *     row. Everything else goes from member to member: alltoall has nothing to save, and
 *     float16 and bfloat16 would be rounded twice.
 * The leader
 *     Of a node: its lowest rank. Whoever fails tells its node by shared memory and the leaders
 *     by their links, so that no level waits for the other.
 * Invariants
 *     An operation ends with a step in which all members of a node pass a barrier, after the
 *     leaders have: a difference between the calls of two members fails all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "collective/backends/ring_int.h"

typedef struct two_level {
    crt_group_t *group;
    int size, rank; /* of the team */
    int *ranks;
    int *node_of;               /* by member of the team: index of its node */
    int *place_of;              /* by member of the team: index on its node */
    int *local_ranks, *leaders; /* ranks of the group: of this node, of all leaders */
    int local_size, local_rank, nodes, node;
    bool is_regular;             /* node i has the ranks i * local_size and on */
    const crti_backend_t *inner; /* shm */
    void *local;                 /* NULL: alone on this node */
    crti_ring_t *between;        /* NULL: not a leader */
    crti_ring_t *all;
    uint64_t inner_sequence;
    void *scratch[2]; /* that the members of this node can reach */
    size_t scratch_size[2];
} two_level_t;

/* ---------------------------------------------------------------- the two levels */

static crt_status_t scratch(two_level_t *t, int which, size_t size, void **memory_out)
{
    crt_status_t status = CRT_OK;

    if (size > t->scratch_size[which]) {
        crt_group_free(t->scratch[which]);
        t->scratch[which] = NULL;
        t->scratch_size[which] = 0;
        status = crt_group_alloc(size, &t->scratch[which]);
        if (status != CRT_OK)
            return crti_group_fail(t->group, status, t->group->rank, "rank %d: %s",
                                   t->group->rank, crt_error_detail());
        t->scratch_size[which] = size;
    }
    *memory_out = t->scratch[which];
    return CRT_OK;
}

static bool is_leader(const two_level_t *t)
{
    return t->local_rank == 0;
}

/* A step of this node's members; `peer` an index of them. */
static crt_status_t within(two_level_t *t, const crti_step_t *step,
                           crt_collective_kind_t kind, size_t count, int peer,
                           const void *input, void *output)
{
    crti_step_t inner = *step;

    if (t->local == NULL)
        return CRT_OK;
    inner.kind = kind;
    inner.part_of = step->kind;
    inner.count = count;
    inner.peer = peer;
    inner.input = input;
    inner.output = output;
    inner.sequence = ++t->inner_sequence;
    if (kind != CRT_COLLECTIVE_REDUCE)
        inner.reduction = 0;
    else if (inner.reduction == CRT_REDUCE_AVERAGE) /* divided once, at the end */
        inner.reduction = CRT_REDUCE_SUM;
    return t->inner->run(t->local, &inner);
}

/* A step of the leaders; `peer` an index of nodes. All of them reduce by `reduction`, whatever
 * the members were asked for. */
static crt_status_t between_by(two_level_t *t, const crti_step_t *step,
                               crt_reduction_t reduction, size_t count, int peer,
                               const void *input, void *output)
{
    crti_exchange_call_t call = crti_ring_call(step, t->ranks);
    crti_step_t outer = *step;

    if (t->between == NULL)
        return CRT_OK;
    outer.reduction = reduction;
    outer.count = count;
    outer.peer = peer;
    outer.input = input;
    outer.output = output;
    return crti_ring_run(t->between, &outer, &call, t->size);
}

static crt_status_t between(two_level_t *t, const crti_step_t *step, size_t count,
                            int peer, const void *input, void *output)
{
    return between_by(t, step, step->reduction, count, peer, input, output);
}

static crt_status_t local_barrier(two_level_t *t, const crti_step_t *step)
{
    return within(t, step, CRT_COLLECTIVE_BARRIER, 0, -1, NULL, NULL);
}

/* ---------------------------------------------------------------- operations */

static crt_status_t run_barrier(two_level_t *t, const crti_step_t *step)
{
    crt_status_t status = local_barrier(t, step);

    if (status == CRT_OK)
        status = between(t, step, 0, -1, NULL, NULL);
    return status == CRT_OK ? local_barrier(t, step) : status;
}

static crt_status_t run_allreduce(two_level_t *t, const crti_step_t *step)
{
    const void *partial = t->local ? step->output : step->input;
    crt_status_t status = within(t, step, CRT_COLLECTIVE_REDUCE, step->count, 0,
                                 step->input, is_leader(t) ? step->output : NULL);

    if (status == CRT_OK)
        status = between(t, step, step->count, -1, partial, step->output);
    if (status != CRT_OK)
        return status;
    return within(t, step, CRT_COLLECTIVE_BROADCAST, step->count, 0,
                  is_leader(t) ? step->output : NULL, step->output);
}

static int members_of(const two_level_t *t, int node)
{
    int count = 0;

    for (int i = 0; i < t->size; i++)
        count += t->node_of[i] == node;
    return count;
}

/* The root's node is the last: its leader adds what the others have to its own values. */
static crt_status_t run_reduce(two_level_t *t, const crti_step_t *step)
{
    bool is_root = t->rank == step->peer, is_here = t->node_of[step->peer] == t->node;
    int node = t->node_of[step->peer];
    const void *mine = step->input;
    crt_reduction_t reduction = step->reduction;
    void *sum = NULL;
    crt_status_t status = CRT_OK;

    if (reduction == CRT_REDUCE_AVERAGE && members_of(t, node) > 1)
        reduction = CRT_REDUCE_SUM; /* divided once, at the end */
    if (is_leader(t) && is_root)
        sum = step->output;
    else if (is_leader(t))
        status = scratch(t, 0, step->count * crt_dtype_size(step->dtype), &sum);
    if (status == CRT_OK && !is_here) {
        status = within(t, step, CRT_COLLECTIVE_REDUCE, step->count, 0, step->input, sum);
        mine = t->local ? sum : mine;
    }
    if (status == CRT_OK)
        status =
            between_by(t, step, reduction, step->count, node, mine, is_here ? sum : NULL);
    if (status != CRT_OK)
        return status;
    if (!is_here || t->local == NULL)
        return local_barrier(t, step);
    status = within(t, step, CRT_COLLECTIVE_REDUCE, step->count, t->place_of[step->peer],
                    is_leader(t) ? sum : mine, is_root ? step->output : NULL);
    if (status == CRT_OK && is_root && step->reduction == CRT_REDUCE_AVERAGE)
        crti_kernel_scale(step->dtype, step->output, t->size, step->count);
    return status;
}

static crt_status_t run_broadcast(two_level_t *t, const crti_step_t *step)
{
    bool is_root = t->rank == step->peer, is_here = t->node_of[step->peer] == t->node;
    void *tensor = step->output ? step->output : (void *)(uintptr_t)step->input;
    crt_status_t status = CRT_OK;

    if (is_here)
        status = within(t, step, CRT_COLLECTIVE_BROADCAST, step->count,
                        t->place_of[step->peer], is_root ? tensor : NULL, tensor);
    if (status == CRT_OK)
        status = between(t, step, step->count, t->node_of[step->peer],
                         is_here ? tensor : NULL, tensor);
    if (status != CRT_OK)
        return status;
    if (is_here)
        return local_barrier(t, step);
    return within(t, step, CRT_COLLECTIVE_BROADCAST, step->count, 0,
                  is_leader(t) ? tensor : NULL, tensor);
}

static crt_status_t run_allgather(two_level_t *t, const crti_step_t *step)
{
    size_t bytes = step->count * crt_dtype_size(step->dtype);
    size_t local = (size_t)t->local_size, all = (size_t)t->size;
    unsigned char *ours = (unsigned char *)step->output + (size_t)t->node * local * bytes;
    crt_status_t status =
        within(t, step, CRT_COLLECTIVE_ALLGATHER, step->count, -1, step->input, ours);

    if (status == CRT_OK)
        status = between(t, step, local * step->count, -1, t->local ? ours : step->input,
                         step->output);
    if (status != CRT_OK)
        return status;
    return within(t, step, CRT_COLLECTIVE_BROADCAST, all * step->count, 0,
                  is_leader(t) ? step->output : NULL, step->output);
}

static crt_status_t run_reducescatter(two_level_t *t, const crti_step_t *step)
{
    size_t bytes = step->count * crt_dtype_size(step->dtype);
    size_t local = (size_t)t->local_size, all = (size_t)t->size;
    void *sum = NULL, *part = step->output;
    crt_status_t status = CRT_OK;

    if (t->local == NULL)
        return between(t, step, step->count, -1, step->input, step->output);
    if (is_leader(t))
        status = scratch(t, 0, all * bytes, &sum);
    if (status == CRT_OK)
        status = scratch(t, 1, local * bytes, &part);
    if (status == CRT_OK)
        status = within(t, step, CRT_COLLECTIVE_REDUCE, all * step->count, 0, step->input,
                        sum);
    if (status == CRT_OK)
        status = between(t, step, local * step->count, -1, sum, part);
    if (status == CRT_OK)
        status = within(t, step, CRT_COLLECTIVE_BROADCAST, local * step->count, 0,
                        is_leader(t) ? part : NULL, part);
    if (status == CRT_OK && bytes)
        memcpy(step->output, (unsigned char *)part + (size_t)t->local_rank * bytes,
               bytes);
    return status;
}

/* NULL: from member to member. */
static crt_status_t (*algorithm_of(const two_level_t *t,
                                   const crti_step_t *step))(two_level_t *,
                                                             const crti_step_t *)
{
    bool is_short = step->dtype == CRT_DTYPE_FLOAT16 || step->dtype == CRT_DTYPE_BFLOAT16;

    switch (step->kind) {
    case CRT_COLLECTIVE_BARRIER: return run_barrier;
    case CRT_COLLECTIVE_BROADCAST: return run_broadcast;
    case CRT_COLLECTIVE_ALLREDUCE: return is_short ? NULL : run_allreduce;
    case CRT_COLLECTIVE_REDUCE: return is_short ? NULL : run_reduce;
    case CRT_COLLECTIVE_ALLGATHER: return t->is_regular ? run_allgather : NULL;
    case CRT_COLLECTIVE_REDUCESCATTER:
        return t->is_regular && !is_short ? run_reducescatter : NULL;
    default: return NULL;
    }
}

static void report(void *state)
{
    two_level_t *t = state;

    if (t->local && t->inner->report)
        t->inner->report(t->local);
    crti_exchange_report(t->all->exchange);
}

static bool is_here(const two_level_t *t, int member)
{
    return t->local && t->node_of[member] == t->node;
}

static crt_status_t run(void *state, const crti_step_t *step)
{
    two_level_t *t = state;
    crt_status_t (*algorithm)(two_level_t *, const crti_step_t *) = algorithm_of(t, step);
    crt_status_t status =
        algorithm ? algorithm(t, step) : crti_backend_ring.run(t->all, step);

    if (status != CRT_OK)
        report(t);
    return status;
}

/* ---------------------------------------------------------------- messages between two */

static crt_status_t post(void *state, crti_pair_t *pair)
{
    two_level_t *t = state;
    bool here = is_here(t, pair->peer);
    crt_status_t status;

    if (here)
        pair->peer = t->place_of[pair->peer];
    status = here ? t->inner->post(t->local, pair) : crti_backend_ring.post(t->all, pair);
    if (status != CRT_OK)
        report(t);
    return status;
}

static crt_status_t progress(void *state)
{
    two_level_t *t = state;
    crt_status_t status = t->local ? t->inner->progress(t->local) : CRT_OK;

    if (status == CRT_OK)
        status = crti_backend_ring.progress(t->all);
    if (status != CRT_OK)
        report(t);
    return status;
}

/* Who waits in one way goes on in the other too (crti_way_t): where one of the messages is on this
 * node, that is the quicker. */
static crt_status_t await(void *state, crti_pair_t *const *pairs, int count,
                          uint64_t deadline_ns)
{
    two_level_t *t = state;
    bool here = false;
    crt_status_t status;

    for (int i = 0; i < count; i++)
        for (int k = 0; k < t->local_size; k++)
            here = here || (t->local && t->local_ranks[k] == pairs[i]->rank);
    status = here ? t->inner->await(t->local, pairs, count, deadline_ns)
                  : crti_backend_ring.await(t->all, pairs, count, deadline_ns);
    if (status != CRT_OK)
        report(t);
    return status;
}

/* ---------------------------------------------------------------- life */

/* Who is on which node, in the order of the ranks. */
static void split(two_level_t *t)
{
    const crti_member_t *members = t->group->members;

    t->is_regular = true;
    for (int i = 0; i < t->size; i++) {
        int first = 0, place = 0;

        while (!crti_id_equal(members[t->ranks[first]].node, members[t->ranks[i]].node))
            first++;
        for (int j = first; j < i; j++)
            place += crti_id_equal(members[t->ranks[j]].node, members[t->ranks[i]].node);
        if (first == i)
            t->leaders[t->nodes] = t->ranks[i];
        t->node_of[i] = first == i ? t->nodes++ : t->node_of[first];
        t->place_of[i] = place;
    }
    t->node = t->node_of[t->rank];
    t->local_rank = t->place_of[t->rank];
    for (int i = 0; i < t->size; i++)
        if (t->node_of[i] == t->node)
            t->local_ranks[t->local_size++] = t->ranks[i];
    for (int i = 0; i < t->size; i++)
        t->is_regular &=
            t->size == t->nodes * t->local_size && t->node_of[i] == i / t->local_size;
}

static void close_levels(void *state)
{
    two_level_t *t = state;

    if (t->local)
        t->inner->close(t->local);
    if (t->between)
        crti_backend_ring.close(t->between);
    if (t->all)
        crti_backend_ring.close(t->all);
    crt_group_free(t->scratch[0]);
    crt_group_free(t->scratch[1]);
    free(t->node_of);
    free(t);
}

static crt_status_t open_levels(two_level_t *t, const crti_team_t *team,
                                uint64_t deadline_ns)
{
    crti_team_t here = {t->local_size, t->local_rank, t->local_ranks};
    crti_team_t leaders = {t->nodes, t->node, t->leaders};
    void *state = NULL;
    crt_status_t status = crti_backend_ring.open(t->group, team, deadline_ns, &state);

    if (status != CRT_OK)
        return status;
    t->all = state;
    if (is_leader(t)) {
        status = crti_backend_ring.open(t->group, &leaders, deadline_ns, &state);
        if (status != CRT_OK)
            return status;
        t->between = state;
    }
    return t->local_size == 1 ? CRT_OK
                              : t->inner->open(t->group, &here, deadline_ns, &t->local);
}

static crt_status_t open_two_level(crt_group_t *group, const crti_team_t *team,
                                   uint64_t deadline_ns, void **state_out)
{
    two_level_t *t = calloc(1, sizeof(*t));
    int *memory = calloc((size_t)team->size * 5, sizeof(int));
    crt_status_t status;

    if (t == NULL || memory == NULL) {
        free(t);
        free(memory);
        return crt_raise(CRT_ERR_NO_MEMORY, "two-level");
    }
    *t = (two_level_t){.group = group,
                       .size = team->size,
                       .rank = team->rank,
                       .ranks = memory + 4 * team->size,
                       .node_of = memory,
                       .place_of = memory + team->size,
                       .local_ranks = memory + 2 * team->size,
                       .leaders = memory + 3 * team->size,
                       .inner = &crti_backend_shm};
    memcpy(t->ranks, team->ranks, (size_t)team->size * sizeof(int));
    split(t);
    status = open_levels(t, team, deadline_ns);
    if (status != CRT_OK) {
        close_levels(t);
        return status;
    }
    *state_out = t;
    return CRT_OK;
}

const crti_backend_t crti_backend_two_level = {.name = "two-level",
                                               .open = open_two_level,
                                               .run = run,
                                               .post = post,
                                               .progress = progress,
                                               .await = await,
                                               .report = report,
                                               .close = close_levels};
