/* SPDX-License-Identifier: Apache-2.0 */
/* The shm backend: regions, opening a team, and which way an operation takes. See shm.h. */
#include "collective/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collective/shm_int.h"
#include "runtime/base/cleanup.h"
#include "runtime/store/file.h"
#include "runtime/store/futex.h"

#define MAGIC      UINT64_C(0x314e47524c4f4343)
#define VERSION    2
#define PAGE_BYTES ((size_t)4096)
#define HUGE_BYTES ((size_t)2 << 20) /* one page, where the kernel can */
#define MOST_SPINS 8192              /* some 100 us */
#define ENDING_MS  100 /* from the end of a process's descriptors to its own */

/* ---------------------------------------------------------------- regions */

static size_t channels_offset(void)
{
    return (sizeof(crti_shm_head_t) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static size_t stages_offset(int size)
{
    size_t bytes = channels_offset() + (size_t)size * sizeof(crti_shm_channel_t);

    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

#define COMMON_OFFSET (CRTI_SHM_STAGES * CRTI_SHM_STAGE) /* from the stages */

static size_t region_bytes(int size)
{
    size_t bytes = stages_offset(size) + COMMON_OFFSET + sizeof(crti_shm_common_t);

    return (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

crt_status_t crti_region_new(int size, uint64_t nonce, crti_region_t **region_out)
{
    CRTI_AUTO(free) crti_region_t *region = calloc(1, sizeof(*region));
    bool huge = false;
    char *base;
    crt_status_t status;

    if (!region)
        return crt_raise(CRT_ERR_NO_MEMORY, "a region of shared memory");
    region->bytes = region_bytes(size);
    status = crti_arena_file(region->bytes, &region->fd, &huge);
    if (status != CRT_OK)
        return status;
    base = crti_memory_map(region->fd, region->bytes, PROT_READ | PROT_WRITE);
    if (!base) {
        status = crt_raise(CRT_ERR_NO_MEMORY, "mapping a region of %zu bytes: %s",
                           region->bytes, strerror(errno));
        close(region->fd);
        return status;
    }
    region->head = (crti_shm_head_t *)(void *)base;
    region->channels = (crti_shm_channel_t *)(void *)(base + channels_offset());
    region->stages = (unsigned char *)base + stages_offset(size);
    region->head->nonce = nonce;
    region->head->bytes = region->bytes;
    region->head->size = size;
    region->head->version = VERSION;
    if (sched_getaffinity(0, sizeof(cpu_set_t), &region->head->cores) != 0)
        CPU_ZERO(&region->head->cores);
    region->head->magic = MAGIC;
    *region_out = CRTI_TAKE(region);
    return CRT_OK;
}

void crti_region_free(crti_region_t *region)
{
    if (!region)
        return;
    munmap(region->head, region->bytes);
    close(region->fd);
    free(region);
}

int crti_region_fd(const crti_region_t *region)
{
    return region->fd;
}

/* ---------------------------------------------------------------- opening */

static crt_status_t not_there(const crti_shm_t *team, int rank, const char *why)
{
    char who[160];

    return crt_raise(CRT_ERR_PROTOCOL, "shared memory of %s: %s",
                     crti_group_describe(team->group, rank, who, sizeof(who)), why);
}

static crt_status_t map_peer(crti_shm_t *team, crti_shm_peer_t *peer)
{
    const crti_member_t *member = &team->group->members[peer->rank];
    struct stat info;
    char *base;
    int fd, size;

    peer->pid = member->pid;
    peer->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)member->pid, 0);
    fd = crti_memory_open(member->pid, member->memory_fd, region_bytes(1), O_RDWR);
    if (peer->pidfd < 0 || fd < 0 || fstat(fd, &info) != 0 ||
        (size_t)info.st_size > region_bytes(CRTI_GROUP_SIZE)) {
        char why[120];

        snprintf(why, sizeof(why), "%s", strerror(errno));
        if (fd >= 0)
            close(fd);
        if (errno == ESRCH || errno == ENOENT)
            return crti_group_lost(team->group, peer->rank, crti_now_ns() + CRTI_S,
                                   "its process has ended");
        return not_there(team, peer->rank, why);
    }
    peer->bytes = (size_t)info.st_size;
    base = crti_memory_map(fd, peer->bytes, PROT_READ);
    close(fd);
    if (!base)
        return not_there(team, peer->rank, strerror(errno));
    peer->head = (const crti_shm_head_t *)(const void *)base;
    if (peer->head->magic != MAGIC || peer->head->version != VERSION ||
        peer->head->nonce != member->nonce)
        return not_there(team, peer->rank, "it is another's");
    size = peer->head->size; /* a rebuilt group may be smaller than its regions */
    if (size < team->group->size || size > CRTI_GROUP_SIZE ||
        region_bytes(size) != peer->bytes)
        return not_there(team, peer->rank, "it has another size");
    peer->channels = (const crti_shm_channel_t *)(const void *)(base + channels_offset());
    peer->stages = (unsigned char *)base + stages_offset(size);
    if (mprotect(peer->stages, peer->bytes - stages_offset(size),
                 PROT_READ | PROT_WRITE) != 0)
        return not_there(team, peer->rank, strerror(errno));
    peer->common = (crti_shm_common_t *)(void *)(peer->stages + COMMON_OFFSET);
    return CRT_OK;
}

static void close_team(void *state)
{
    crti_shm_t *team = state;

    crti_shm_say_left(team);
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
    for (int i = 0; i < of->size; i++) {
        team->peers[i].rank = of->ranks[i];
        team->peers[i].pidfd = -1;
    }
    team->peers[of->rank].head = region->head;
    team->peers[of->rank].channels = region->channels;
    team->peers[of->rank].stages = region->stages;
    team->peers[of->rank].common =
        (crti_shm_common_t *)(void *)(region->stages + COMMON_OFFSET);
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
            status = map_peer(team, &team->peers[i]);
    team->step = &opening;
    if (status == CRT_OK)
        status = crti_shm_barrier(team);
    team->step = NULL;
    if (status == CRT_OK)
        team->spins = team->most_spins = most_spins(team);
    if (status != CRT_OK) {
        crti_group_fail(group, status, -1, "%s", crt_error_detail());
        crti_shm_tell(team);
        close_team(team);
        return crti_group_failed(group);
    }
    *state_out = team;
    return CRT_OK;
}

/* ---------------------------------------------------------------- what the others mean */

crt_status_t crti_shm_mismatch(crti_shm_t *team, int who, const crti_asked_t *other)
{
    crti_asked_t own = crti_asked_of(team->step);
    char mine[160], theirs[160], them[160], me[160];

    return crti_group_fail(
        team->group, CRT_ERR_INVALID, -1,
        "the members' calls do not fit together: %s calls %s, but %s calls %s",
        crti_group_describe(team->group, team->peers[team->rank].rank, me, sizeof(me)),
        crti_asked_describe(&own, mine, sizeof(mine)),
        crti_group_describe(team->group, team->peers[who].rank, them, sizeof(them)),
        crti_asked_describe(other, theirs, sizeof(theirs)));
}

/* ---------------------------------------------------------------- reaching memory */

static crt_status_t bad_place(crti_shm_t *team, int who)
{
    char text[160];

    return crti_group_fail(
        team->group, CRT_ERR_PROTOCOL, team->peers[who].rank,
        "%s tells of memory that is not where it says",
        crti_group_describe(team->group, team->peers[who].rank, text, sizeof(text)));
}

/* Most often it has just ended: the kernel closes descriptors a moment before the pidfd tells. */
static crt_status_t no_view(crti_shm_t *team, int who, crt_status_t status)
{
    struct pollfd end = {.fd = team->peers[who].pidfd, .events = POLLIN};
    char seen[256];
    crt_status_t looked;

    snprintf(seen, sizeof(seen), "%s", crt_error_detail());
    if (status == CRT_ERR_CLOSED)
        while (poll(&end, 1, ENDING_MS) < 0 && errno == EINTR) {
        }
    looked = crti_shm_look_around(team);
    if (looked != CRT_OK)
        return looked;
    return crti_group_fail(team->group,
                           status == CRT_ERR_CLOSED ? CRT_ERR_PROTOCOL : status,
                           team->peers[who].rank, "%s", seen);
}

crt_status_t crti_shm_reach(crti_shm_t *team, int who, const crti_place_t *place,
                            const void *mine, void **at_out)
{
    crti_shm_peer_t *peer = &team->peers[who];
    int found = 0;
    crti_view_t *view;
    crt_status_t status;

    if (who == team->rank) {
        *at_out = (void *)(uintptr_t)mine;
        return CRT_OK;
    }
    while (found < CRTI_SHM_VIEWS && peer->views[found] &&
           crti_view_nonce(peer->views[found]) != place->nonce)
        found++;
    if (found == CRTI_SHM_VIEWS || !peer->views[found]) {
        status = crti_view_open(peer->pid, place, &view);
        if (status != CRT_OK)
            return no_view(team, who, status);
        if (found == CRTI_SHM_VIEWS)
            crti_view_release(peer->views[--found]);
        peer->views[found] = view;
    }
    view = peer->views[found];
    if (found) {
        memmove(&peer->views[1], &peer->views[0], (size_t)found * sizeof(view));
        peer->views[0] = view;
    }
    *at_out = crti_view_at(view, place);
    return *at_out && place->offset % crt_dtype_size(team->step->dtype) == 0
               ? CRT_OK
               : bad_place(team, who);
}

bool crti_shm_gives(const crti_step_t *step, int rank)
{
    return step->kind == CRT_COLLECTIVE_BROADCAST ? rank == step->peer
                                                  : step->kind != CRT_COLLECTIVE_BARRIER;
}

bool crti_shm_takes(const crti_step_t *step, int rank)
{
    switch (step->kind) {
    case CRT_COLLECTIVE_BARRIER: return false;
    case CRT_COLLECTIVE_REDUCE: return rank == step->peer;
    case CRT_COLLECTIVE_BROADCAST: return rank != step->peer;
    default: return true;
    }
}

size_t crti_shm_given(const crti_shm_t *team, const crti_step_t *step)
{
    bool parts = step->kind == CRT_COLLECTIVE_REDUCESCATTER ||
                 step->kind == CRT_COLLECTIVE_ALLTOALL;

    return step->count * (parts ? (size_t)team->size : 1);
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

/* Others work in it by elements: memory that is not aligned to them is as any other's. */
void crti_shm_offer(const crti_step_t *step, const void *memory, size_t bytes,
                    crti_place_t *place)
{
    if ((uintptr_t)memory % crt_dtype_size(step->dtype) == 0)
        crti_memory_find(memory, bytes, place);
}

static void describe(crti_shm_t *team, const crti_step_t *step, crti_shm_slot_t *slot,
                     size_t given_bytes, bool is_small)
{
    slot->call = crti_asked_of(step);
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
static crt_status_t read_others(crti_shm_t *team, const crti_asked_t *own)
{
    for (int i = 0; i < team->size; i++) {
        const crti_shm_slot_t *said = &team->peers[i].head->slots[team->count & 1];
        crti_shm_slot_t *slot = &team->slots[i];

        memcpy(&slot->call, &said->call, sizeof(slot->call));
        if (i != team->rank && memcmp(&slot->call, own, sizeof(*own)) != 0)
            return crti_shm_mismatch(team, i, &slot->call);
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
    if (step->kind == CRT_COLLECTIVE_SEND)
        status = crti_shm_send(team, step);
    else if (step->kind == CRT_COLLECTIVE_RECV)
        status = crti_shm_receive(team, step);
    else
        status = run_collective(team, step);
    team->step = NULL;
    if (status != CRT_OK)
        crti_shm_tell(team);
    return status;
}

static void tell(void *state)
{
    crti_shm_tell(state);
}

static crt_status_t look(void *state)
{
    return crti_shm_look_around(state);
}

const crti_backend_t crti_backend_shm = {.name = "shm",
                                         .open = open_team,
                                         .run = run,
                                         .tell = tell,
                                         .look = look,
                                         .close = close_team};
