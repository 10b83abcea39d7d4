/* SPDX-License-Identifier: Apache-2.0 */
/* The shm backend: opening a team, and which way an operation takes. See shm.h. */
#include "collective/shm.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collective/shm_int.h"

#define MOST_SPINS 8192 /* some 100 us */

/* ---------------------------------------------------------------- opening */

static void close_team(void *state)
{
    crti_shm_t *team = state;

    crti_shm_say_left(team);
    crti_shm_pair_drop(team);
    team->group->shared = (crti_way_t){0};
    for (int i = 0; i < team->size; i++) {
        crti_shm_peer_t *peer = &team->peers[i];

        for (int v = 0; v < CRTI_SHM_VIEWS; v++)
            crti_view_release(peer->views[v]);
        if (i == team->rank)
            continue;
        if (peer->head)
            munmap((void *)(uintptr_t)peer->head, peer->bytes);
        if (peer->pidfd >= 0)
            close(peer->pidfd);
    }
    free(team->slots);
    free(team->sources);
    free(team->targets);
    free(team->polls);
    free(team);
}

static crt_status_t progress(void *state)
{
    crti_shm_t *team = state;
    crt_status_t status;

    if (crti_group_absorbs(team->group))
        crti_shm_pair_absorb(team);
    status = crti_shm_pair_progress(team);

    if (status != CRT_OK)
        crti_shm_report(state);
    return status;
}

static void init_peer(crti_shm_peer_t *peer, int rank)
{
    peer->rank = rank;
    peer->pidfd = -1;
    crti_list_init(&peer->active);
    crti_list_init(&peer->sends);
    crti_list_init(&peer->placed);
    crti_list_init(&peer->receives);
    crti_list_init(&peer->absorbed);
}

static crti_shm_t *new_team(crt_group_t *group, const crti_team_t *of,
                            crti_region_t *region)
{
    size_t size = (size_t)of->size;
    crti_shm_t *team = calloc(1, sizeof(*team) + size * sizeof(crti_shm_peer_t));

    if (!team)
        return NULL;
    *team = (crti_shm_t){.group = group,
                         .region = region,
                         .size = of->size,
                         .rank = of->rank,
                         .slots = aligned_alloc(64, size * sizeof(crti_shm_slot_t)),
                         .sources = calloc(size, sizeof(void *)),
                         .targets = calloc(size, sizeof(void *)),
                         .polls = calloc(size, sizeof(struct pollfd))};
    crti_list_init(&team->active);
    team->stages_for = -1;
    group->shared = (crti_way_t){.go_on = progress, .state = team};
    for (int i = 0; i < of->size; i++)
        init_peer(&team->peers[i], of->ranks[i]);
    team->peers[of->rank].head = region->head;
    team->peers[of->rank].channels = region->channels;
    team->peers[of->rank].stages = region->stages;
    team->peers[of->rank].common =
        (crti_shm_common_t *)(void *)(region->stages + CRTI_SHM_COMMON);
    if (team->slots && team->sources && team->targets && team->polls)
        return team;
    close_team(team);
    return NULL;
}

/* Spinning pays when every member has a core of its own. */
static uint32_t most_spins(const crti_shm_t *team)
{
    cpu_set_t all;

    CPU_ZERO(&all);
    for (int i = 0; i < team->size; i++) {
        cpu_set_t cores = team->peers[i].head->cores;

        CPU_OR(&all, &all, &cores);
    }
    return CPU_COUNT(&all) >= team->size ? MOST_SPINS : 0;
}

static crt_status_t open_team(crt_group_t *group, const crti_team_t *of,
                              uint64_t deadline_ns, void **state_out)
{
    const crti_step_t opening = {.kind = CRT_COLLECTIVE_BARRIER,
                                 .deadline_ns = deadline_ns};
    crti_region_t *region = crti_group_region(group);
    crti_shm_t *team = region ? new_team(group, of, region) : NULL;
    crt_status_t status = CRT_OK;

    if (!team)
        return crt_raise(CRT_ERR_NO_MEMORY, "a team of %d", of->size);
    for (int i = 0; i < of->size && status == CRT_OK; i++)
        if (i != of->rank)
            status = crti_shm_map(team, &team->peers[i]);
    team->step = &opening;
    if (status == CRT_OK)
        status = crti_shm_barrier(team);
    team->step = NULL;
    if (status == CRT_OK)
        team->spins = team->most_spins = most_spins(team);
    if (status != CRT_OK) {
        crti_group_fail(group, status, -1, "%s", crt_error_detail());
        crti_shm_report(team);
        close_team(team);
        return crti_group_failed(group);
    }
    *state_out = team;
    return CRT_OK;
}

/* ---------------------------------------------------------------- collective operations */

static bool is_reduced(const crti_step_t *step)
{
    return step->kind == CRT_COLLECTIVE_ALLREDUCE || step->kind == CRT_COLLECTIVE_REDUCE;
}

static size_t taken_bytes(const crti_shm_t *team, const crti_step_t *step)
{
    size_t each = step->count * crt_dtype_size(step->dtype);
    bool all =
        step->kind == CRT_COLLECTIVE_ALLGATHER || step->kind == CRT_COLLECTIVE_ALLTOALL;

    return each * (all ? (size_t)team->size : 1);
}

static void describe(crti_shm_t *team, const crti_step_t *step, crti_shm_slot_t *slot,
                     size_t given_bytes, bool is_small)
{
    slot->call = crti_operation_signature_of(step);
    slot->input.nonce = slot->output.nonce = 0;
    if (is_small) {
        if (crti_shm_gives(step, team->rank) && given_bytes)
            memcpy(slot->data, step->input, given_bytes);
        return;
    }
    if (crti_shm_gives(step, team->rank))
        crti_shm_offer(step, step->input, given_bytes, &slot->input);
    if (crti_shm_takes(step, team->rank))
        crti_shm_offer(step, step->output, taken_bytes(team, step), &slot->output);
}

/* Copies what the others described; they must mean the same as we do. */
static crt_status_t read_others(crti_shm_t *team, const crti_operation_signature_t *own)
{
    for (int i = 0; i < team->size; i++) {
        const crti_shm_slot_t *said = &team->peers[i].head->slots[team->count & 1];
        crti_shm_slot_t *slot = &team->slots[i];

        memcpy(&slot->call, &said->call, sizeof(slot->call));
        if (i != team->rank && memcmp(&slot->call, own, sizeof(*own)) != 0)
            return crti_shm_mismatch(team, i, own, &slot->call);
    }
    return CRT_OK;
}

static void read_places(crti_shm_t *team, size_t given_bytes)
{
    size_t taken = taken_bytes(team, team->step);

    for (int i = 0; i < team->size; i++) {
        const crti_shm_slot_t *said = &team->peers[i].head->slots[team->count & 1];
        crti_shm_slot_t *slot = &team->slots[i];

        memcpy(&slot->input, &said->input, sizeof(slot->input));
        memcpy(&slot->output, &said->output, sizeof(slot->output));
        slot->input.bytes = given_bytes; /* what we will touch, whatever it says */
        slot->output.bytes = taken;
    }
}

static crt_status_t run_small(crti_shm_t *team, const crti_step_t *step)
{
    for (int i = 0; i < team->size; i++)
        team->sources[i] = team->peers[i].head->slots[team->count & 1].data;
    if (crti_shm_takes(step, team->rank))
        crti_shm_pull(team, team->sources, step->count, 0, step->count);
    return CRT_OK;
}

/* All inputs lie in segments: everybody takes what it needs, then waits for the others. */
static crt_status_t run_direct(crti_shm_t *team, const crti_step_t *step)
{
    for (int i = 0; i < team->size; i++) {
        void *at = NULL;
        crt_status_t status =
            crti_shm_gives(step, i)
                ? crti_shm_reach(team, i, &team->slots[i].input, step->input, &at)
                : CRT_OK;

        if (status != CRT_OK)
            return status;
        team->sources[i] = at;
    }
    if (crti_shm_takes(step, team->rank))
        crti_shm_pull(team, team->sources, step->count, 0, step->count);
    return crti_shm_barrier(team);
}

static crt_status_t choose(crti_shm_t *team, const crti_step_t *step, size_t given_bytes)
{
    bool inputs = true, outputs = true;

    read_places(team, given_bytes);
    for (int i = 0; i < team->size; i++) {
        inputs = inputs && (!crti_shm_gives(step, i) || team->slots[i].input.nonce);
        outputs = outputs && (!crti_shm_takes(step, i) || team->slots[i].output.nonce);
    }
    if (is_reduced(step))
        return inputs && outputs ? crti_shm_share(team) : crti_shm_stage_share(team);
    return inputs ? run_direct(team, step) : crti_shm_stage_pull(team);
}

static crt_status_t run_collective(crti_shm_t *team, const crti_step_t *step)
{
    crti_shm_slot_t *slot = &team->region->head->slots[team->count & 1];
    size_t given_bytes = crti_shm_given(team, step) * crt_dtype_size(step->dtype);
    bool is_small = given_bytes <= CRTI_SHM_INLINE;
    crt_status_t status;

    describe(team, step, slot, given_bytes, is_small);
    status = crti_shm_barrier(team);
    if (status == CRT_OK)
        status = read_others(team, &slot->call);
    if (status == CRT_OK)
        status = is_small ? run_small(team, step) : choose(team, step, given_bytes);
    team->count++;
    return status;
}

static crt_status_t run(void *state, const crti_step_t *step)
{
    crti_shm_t *team = state;
    crt_status_t status;

    team->step = step;
    status = run_collective(team, step);
    team->step = NULL;
    if (status != CRT_OK)
        crti_shm_report(team);
    return status;
}

static crt_status_t post(void *state, crti_pair_t *pair)
{
    crt_status_t status = crti_shm_pair_post(state, pair);

    if (status != CRT_OK)
        crti_shm_report(state);
    return status;
}

static crt_status_t await(void *state, crti_pair_t *const *pairs, int count,
                          uint64_t deadline_ns)
{
    crt_status_t status = crti_shm_pair_await(state, pairs, count, deadline_ns);

    if (status != CRT_OK)
        crti_shm_report(state);
    return status;
}

static void report(void *state)
{
    crti_shm_report(state);
}

static crt_status_t check(void *state)
{
    return crti_shm_look_around(state);
}

const crti_backend_t crti_backend_shm = {.name = "shm",
                                         .open = open_team,
                                         .run = run,
                                         .post = post,
                                         .progress = progress,
                                         .await = await,
                                         .report = report,
                                         .check = check,
                                         .close = close_team};
