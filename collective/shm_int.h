/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a region, and a team as the files of the shm backend see it. See shm.h. */
#ifndef CRTI_COLLECTIVE_SHM_INT_H
#define CRTI_COLLECTIVE_SHM_INT_H

#include <sched.h>
#include <stdatomic.h>

#include "collective/group.h"
#include "collective/memory.h"
#include "collective/operation_signature.h"
#include "collective/shm.h"

#define CRTI_SHM_INLINE 1024 /* bytes of a slot: operations up to that take one barrier */
#define CRTI_SHM_STAGE  ((size_t)256 << 10) /* bytes of one staging buffer */
#define CRTI_SHM_LINE   _Alignas(64)

/* `call` is compared by the others before anything else. */
typedef struct crti_shm_slot {
    CRTI_SHM_LINE crti_operation_signature_t call;
    crti_memory_handle_t input, output;
    CRTI_SHM_LINE unsigned char data[CRTI_SHM_INLINE];
} crti_shm_slot_t;

/* From this member to one other. `sent` and `staged` are written by the sender, `received` and
 * `taken` count what came from the other and are written by the receiver, in its own region. */
typedef struct crti_shm_channel {
    CRTI_SHM_LINE _Atomic uint32_t sent;
    _Atomic uint32_t staged;   /* pieces of a message that went through staging */
    _Atomic uint32_t received; /* of the other's messages to this member */
    _Atomic uint32_t taken;    /* of the other's pieces */
    crti_shm_slot_t slot;
} crti_shm_channel_t;

typedef enum crti_shm_state {
    CRTI_SHM_ALIVE = 0,
    CRTI_SHM_FAILED = 1, /* its failure says why */
    CRTI_SHM_LEFT = 2
} crti_shm_state_t;

typedef struct crti_shm_failure {
    int32_t status, rank;
    uint32_t passed; /* the last barrier that it came out of */
    char text[768];
} crti_shm_failure_t;

typedef struct crti_shm_head {
    uint64_t magic, nonce, bytes;
    int32_t size, version;
    cpu_set_t cores; /* where its thread of operations may run */
    CRTI_SHM_LINE _Atomic uint32_t flag;
    CRTI_SHM_LINE _Atomic uint32_t sleepers; /* this member sleeps on another's word */
    CRTI_SHM_LINE _Atomic uint32_t state; /* crti_shm_state_t; released after `failure` */
    crti_shm_failure_t failure;           /* of one that has left: `passed` only */
    /* The message between two members that it is in: kind << 48 | (group rank + 1) << 32 |
     * number in the channel; 0: none. */
    CRTI_SHM_LINE _Atomic uint64_t in_pair;
    crti_shm_slot_t slots[2];
} crti_shm_head_t;

struct crti_region {
    crti_shm_head_t *head;
    crti_shm_channel_t *channels; /* by rank of the group */
    unsigned char *stages;        /* of pieces, then 2 of channels */
    size_t bytes;
    int fd;
};

/* One is filled while another is reduced and a third is copied out. */
#define CRTI_SHM_PIECES       3
#define CRTI_SHM_STAGE_PIECES 0
#define CRTI_SHM_STAGE_PAIR   CRTI_SHM_PIECES
#define CRTI_SHM_STAGES       (CRTI_SHM_PIECES + 2)
#define CRTI_SHM_COMMON                                                                  \
    (CRTI_SHM_STAGES * CRTI_SHM_STAGE) /* crti_shm_common_t, from the stages */

/* In the region of the team's first member, written to by all: how many blocks of reductions were
 * begun and ended, from the opening of the team on. */
typedef struct crti_shm_common {
    CRTI_SHM_LINE _Atomic uint32_t begun;
    CRTI_SHM_LINE _Atomic uint32_t ended;
} crti_shm_common_t;

#define CRTI_SHM_VIEWS 8 /* of one peer, kept by a team */

typedef struct crti_shm_peer {
    const crti_shm_head_t *head; /* our own for ourselves */
    const crti_shm_channel_t *channels;
    unsigned char
        *stages; /* may be written to: results of reductions; so may what follows */
    crti_shm_common_t *common;
    size_t bytes;
    int rank; /* of the group */
    int pidfd;
    int64_t pid;
    crti_view_t *views[CRTI_SHM_VIEWS]; /* used last first */
} crti_shm_peer_t;

/* One open team. Used by the thread that runs operations. */
typedef struct crti_shm {
    crt_group_t *group;
    crti_region_t *region; /* ours; the group's */
    int size, rank;        /* of the team */
    uint32_t phase;        /* barriers that we have arrived at */
    uint32_t passed;       /* and come out of */
    uint64_t count;        /* collective operations: slot parity */
    uint64_t pieces;       /* through staging: buffer parity */
    uint32_t blocks;       /* of reductions that were shared out one by one */
    uint32_t spins, most_spins;
    uint32_t misses;          /* yields in vain, in a row */
    uint32_t no_yields, rest; /* waits that go to sleep at once; how many next time */
    uint64_t last_look_ns;
    const crti_step_t *step;
    const _Atomic uint32_t *word; /* what we wait for: until it has reached `value` */
    uint32_t value;
    crti_shm_slot_t *slots; /* by rank: copies of the others' slots */
    const void **sources;   /* by rank */
    void **targets;         /* by rank */
    struct pollfd *polls;
    crti_shm_peer_t peers[];
} crti_shm_t;

/* ------------------------------------------------------------------ shm_team.c */

/* Counts our flag up and wakes the sleepers on it. */
void crti_shm_arrive(crti_shm_t *team);
/* Waits until all have arrived as often as we have. */
crt_status_t crti_shm_await(crti_shm_t *team);
static inline crt_status_t crti_shm_barrier(crti_shm_t *team)
{
    crti_shm_arrive(team);
    return crti_shm_await(team);
}
/* Waits until a word of peer `who`'s region has reached `value`; who -1: until those have done
 * their part who have not arrived as often as we have. */
crt_status_t crti_shm_wait_word(crti_shm_t *team, int who, const _Atomic uint32_t *word,
                                uint32_t value);
/* Fails the group: two members did not mean the same. */
crt_status_t crti_shm_mismatch(crti_shm_t *team, int who,
                               const crti_operation_signature_t *other);
/* After a word of our own region has changed. */
void crti_shm_wake(crti_shm_t *team, const _Atomic uint32_t *word);
/* CRT_OK: all others live and have not failed, by their flags and their processes. Between
 * operations. */
crt_status_t crti_shm_look_around(crti_shm_t *team);
/* Tells the others of the group's failure; that we leave. */
void crti_shm_report(crti_shm_t *team);
void crti_shm_say_left(crti_shm_t *team);

/* ------------------------------------------------------------------ shm_region.c */

/* Maps the region of a member, and opens its process. */
crt_status_t crti_shm_map(crti_shm_t *team, crti_shm_peer_t *peer);

/* ------------------------------------------------------------------ shm_memory.c */

/* The bytes that a peer's handle names (our own: `mine`). */
crt_status_t crti_shm_reach(crti_shm_t *team, int who, const crti_memory_handle_t *handle,
                            const void *mine, void **at_out);
/* Fills the handle of memory that others may access; else leaves it as it is. */
void crti_shm_offer(const crti_step_t *step, const void *memory, size_t bytes,
                    crti_memory_handle_t *handle);

/* ------------------------------------------------------------------ shares of the work */

/* Whether this member gives an input to the operation, takes an output of it. */
static inline bool crti_shm_gives(const crti_step_t *step, int rank)
{
    return step->kind == CRT_COLLECTIVE_BROADCAST ? rank == step->peer
                                                  : step->kind != CRT_COLLECTIVE_BARRIER;
}

static inline bool crti_shm_takes(const crti_step_t *step, int rank)
{
    switch (step->kind) {
    case CRT_COLLECTIVE_BARRIER: return false;
    case CRT_COLLECTIVE_REDUCE: return rank == step->peer;
    case CRT_COLLECTIVE_BROADCAST: return rank != step->peer;
    default: return true;
    }
}

/* Elements that one member gives. */
static inline size_t crti_shm_given(const crti_shm_t *team, const crti_step_t *step)
{
    bool parts = step->kind == CRT_COLLECTIVE_REDUCESCATTER ||
                 step->kind == CRT_COLLECTIVE_ALLTOALL;

    return step->count * (parts ? (size_t)team->size : 1);
}

/* ------------------------------------------------------------------ the ways */

/* From `sources` (all that give) to our output: `first` and `count` elements of the unit
 * (crti_step_t.count); sources hold from `first` on. */
void crti_shm_pull(crti_shm_t *team, const void *const *sources, size_t stride,
                   size_t first, size_t count);
/* All inputs and outputs can be reached: each reduces its share into all outputs. */
crt_status_t crti_shm_share(crti_shm_t *team);
/* Elements of share `index`, in whole cache lines but for the last. */
void crti_shm_share_of(size_t count, size_t size, int shares, int index, size_t *first,
                       size_t *length);
/* Through staging buffers, whatever can't be reached. */
crt_status_t crti_shm_stage_pull(crti_shm_t *team);
crt_status_t crti_shm_stage_share(crti_shm_t *team);
crt_status_t crti_shm_send(crti_shm_t *team, const crti_step_t *step);
crt_status_t crti_shm_receive(crti_shm_t *team, const crti_step_t *step);

#endif
