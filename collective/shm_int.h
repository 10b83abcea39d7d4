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
#define CRTI_SHM_CELLS  8                 /* messages that are on their way between two */
#define CRTI_SHM_EAGER  ((size_t)4 << 10) /* bytes of a message that a cell holds */
#define CRTI_SHM_MIDDLE                                                                  \
    ((size_t)64 << 10) /* that a buffer of a channel holds, where it is used */
#define CRTI_SHM_MIDDLES 2
#define CRTI_SHM_LINE    _Alignas(64)

/* `call` is compared by the others before anything else. */
typedef struct crti_shm_slot {
    CRTI_SHM_LINE crti_operation_signature_t call;
    crti_memory_handle_t input, output;
    CRTI_SHM_LINE unsigned char data[CRTI_SHM_INLINE];
} crti_shm_slot_t;

/* A message between two: its description, and its bytes or where they are. */
typedef struct crti_shm_cell {
    CRTI_SHM_LINE crti_operation_signature_t call;
    crti_memory_handle_t memory; /* in a segment */
    uint64_t address;            /* of the sender's process, when it is in none */
    int32_t middle;              /* the buffer that has the bytes; -1: none */
    CRTI_SHM_LINE unsigned char data[CRTI_SHM_EAGER];
} crti_shm_cell_t;

/* From this member to one other: message n is in cell n % CRTI_SHM_CELLS. `sent` and `staged` are
 * written by the sender; `received`, `taken` and `wanted` are about what comes from the other and
 * written by the receiver, in its own region. */
typedef struct crti_shm_channel {
    CRTI_SHM_LINE _Atomic uint32_t sent;
    _Atomic uint32_t staged; /* pieces of messages that went through staging */
    CRTI_SHM_LINE _Atomic uint32_t received; /* of the other's messages to this member */
    _Atomic uint32_t taken;                  /* of the other's pieces */
    _Atomic uint32_t wanted; /* the message of the other that must go through staging */
    crti_shm_cell_t cells[CRTI_SHM_CELLS];
    CRTI_SHM_LINE unsigned char middles[CRTI_SHM_MIDDLES][CRTI_SHM_MIDDLE];
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
    uint64_t done;                        /* crt_group.done then */
    /* The message between two members that it waits for: kind << 48 | (group rank + 1) << 32 |
     * number in the channel; 0: none. */
    CRTI_SHM_LINE _Atomic uint64_t in_pair;
    CRTI_SHM_LINE _Atomic uint32_t listens; /* this member sleeps on its bell */
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

/* Written to by all. In the region of the team's first member: how many blocks of reductions were
 * begun and ended, from the opening of the team on. In each region: what its member sleeps on while
 * it waits for messages. */
typedef struct crti_shm_common {
    CRTI_SHM_LINE _Atomic uint32_t begun;
    CRTI_SHM_LINE _Atomic uint32_t ended;
    CRTI_SHM_LINE _Atomic uint32_t bell;
} crti_shm_common_t;

#define CRTI_SHM_VIEWS 8 /* of one peer, kept by a team */

typedef struct crti_shm_peer {
    const crti_shm_head_t *head; /* our own for ourselves */
    const crti_shm_channel_t *channels;
    /* may be written to: results of reductions; so may what follows */
    unsigned char *stages;
    crti_shm_common_t *common;
    size_t bytes;
    int rank; /* of the group */
    int pidfd;
    int64_t pid;
    crti_view_t *views[CRTI_SHM_VIEWS]; /* used last first */

    /* shm_pair.c: messages to and from it */
    crti_list_t active;   /* team->active, while there are any in these: */
    crti_list_t sends;    /* crti_pair_t that have no cell yet */
    crti_list_t placed;   /* crti_pair_t in a cell, whose bytes are not all received */
    crti_list_t receives; /* crti_pair_t */
    crti_list_t absorbed; /* crti_shm_absorbed_t: came before their receives */
    uint32_t sends_posted, receives_posted; /* numbers of the last */
    uint32_t received;                      /* of ours, when we looked last */
    uint32_t middles[CRTI_SHM_MIDDLES];     /* the messages that were in these buffers */
    uint64_t alive_ns;                      /* when its process was seen to live */
    bool unreadable; /* the kernel does not let us read its memory */
    bool is_blind;   /* nor it ours: it has asked for pieces */
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
    uint64_t waits_since_ns; /* the wait that goes on, which sleeps */
    bool is_told;            /* that it takes long */
    const crti_step_t *step;
    const _Atomic uint32_t *word; /* what we wait for: until it has reached `value` */
    uint32_t value;
    crti_shm_slot_t *slots; /* by rank: copies of the others' slots */
    const void **sources;   /* by rank */
    void **targets;         /* by rank */
    struct pollfd *polls;
    crti_list_t active;         /* crti_shm_peer_t with messages that have not ended */
    bool is_posting;            /* large messages are not received now */
    crti_pair_t *const *awaits; /* what we wait for the first of; NULL: for `word` */
    int await_count;
    uint64_t await_deadline_ns;
    crt_status_t status; /* of messages that went on during a wait */
    int stages_for;      /* the peer that uses our buffers for pairs; -1 */
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
/* Until one of the messages has ended. */
crt_status_t crti_shm_pair_await(crti_shm_t *team, crti_pair_t *const *pairs, int count,
                                 uint64_t deadline_ns);
/* Waits until a word of peer `who`'s region has reached `value`; who -1: until those have done
 * their part who have not arrived as often as we have. */
crt_status_t crti_shm_wait_word(crti_shm_t *team, int who, const _Atomic uint32_t *word,
                                uint32_t value);
/* After a word of our own region has changed. */
void crti_shm_wake(crti_shm_t *team, const _Atomic uint32_t *word);
/* Tells the others of the group's failure; that we leave. */
void crti_shm_report(crti_shm_t *team);
void crti_shm_say_left(crti_shm_t *team);

/* ------------------------------------------------------------------ shm_look.c */

/* CRT_OK: all others live and have not failed, by their flags and their processes. Between
 * operations. */
crt_status_t crti_shm_look_around(crti_shm_t *team);
/* The processes alone. */
crt_status_t crti_shm_look_at_processes(crti_shm_t *team);
/* Fails the group as that member's has. */
crt_status_t crti_shm_take_failure(crti_shm_t *team, int who);
/* Fails the group: two members did not mean the same. */
crt_status_t crti_shm_mismatch(crti_shm_t *team, int who,
                               const crti_operation_signature_t *own,
                               const crti_operation_signature_t *other);

/* ------------------------------------------------------------------ shm_region.c */

/* Maps the region of a member, and opens its process. */
crt_status_t crti_shm_map(crti_shm_t *team, crti_shm_peer_t *peer);

/* ------------------------------------------------------------------ shm_memory.c */

/* The bytes that another member's handle names. */
crt_status_t crti_shm_view(crti_shm_t *team, int who, const crti_memory_handle_t *handle,
                           void **at_out);
/* The same (our own: `mine`), aligned to elements of the operation that runs. */
crt_status_t crti_shm_reach(crti_shm_t *team, int who, const crti_memory_handle_t *handle,
                            const void *mine, void **at_out);
/* Fails the group: that member has told of memory that is not there. */
crt_status_t crti_shm_bad_place(crti_shm_t *team, int who);
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

/* ------------------------------------------------------------------ shm_pair.c */

/* Messages between two members: see crti_backend_t. */
crt_status_t crti_shm_pair_post(crti_shm_t *team, crti_pair_t *pair);
crt_status_t crti_shm_pair_progress(crti_shm_t *team);
/* Takes in, whole, what members have sent that wait for us to receive it: we, too, wait for ours to
 * be received. */
void crti_shm_pair_absorb(crti_shm_t *team);
/* For texts, and for the other member. */
crti_operation_signature_t crti_shm_pair_signature(const crti_pair_t *pair);
/* Forgets all messages. */
void crti_shm_pair_drop(crti_shm_t *team);
/* One of team->awaits has ended. */
static inline bool crti_shm_pair_has_come(const crti_shm_t *team)
{
    for (int i = 0; i < team->await_count; i++)
        if (team->awaits[i]->is_done)
            return true;
    return false;
}

#endif
