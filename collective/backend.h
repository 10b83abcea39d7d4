/* SPDX-License-Identifier: Apache-2.0 */
/* Backend: one way to carry out operations, for some or all members of a group.
 *
 *     shm        members of one node, over shared memory
 *     ring       any members, over net/stream
 *     two-level  shm within each node, ring between one member of each
 *     nccl       GPUs
 *
 * A backend serves a team: a list of the group's ranks, this process among them. Every member of
 * a team opens it, runs the same operations in the same order, and closes it.
 */
#ifndef CRTI_COLLECTIVE_BACKEND_H
#define CRTI_COLLECTIVE_BACKEND_H

#include <stdatomic.h>

#include "collective/crt_collective.h"
#include "runtime/base/list.h"

/* Members of a team; `rank` and roots of its operations index `ranks`. */
typedef struct crti_team {
    int size, rank;
    const int *ranks; /* of the group, ascending; valid until close */
} crti_team_t;

/* An operation that was checked at this member: tensors are dense, counts fit, reduction and
 * dtype go together. In place where input == output (or lies at its place in it). */
typedef struct crti_step {
    crt_collective_kind_t kind;
    crt_dtype_t dtype;
    crt_reduction_t reduction;
    size_t count; /* elements of the operation's unit: allreduce, reduce, broadcast, send,
                          recv, allgather: of `input`; reducescatter: of `output`; alltoall: of
                          one part */
    const void *input; /* NULL where the operation has none here */
    void *output;
    int peer;          /* root or other member, a rank of the team; -1: none */
    uint64_t sequence; /* number of this operation in the group (of send and recv: among
                             those between the two); the same on all members */
    uint64_t deadline_ns; /* of crti_now_ns */
    bool is_on_device;    /* tensors lie on the group's device, not on the host */
    /* kind of the operation that this is a part of, for the signature; 0: of none */
    crt_collective_kind_t part_of;
} crti_step_t;

/* A send or receive between two members, from its post to its end. Those from one member to another
 * are matched in the order of their posts; apart from that they go on beside each other, and beside
 * operations of the team, whenever this process is in a function of the backend. */
typedef struct crti_pair {
    /* in a list of the backend, until it has ended or the group has failed */
    crti_list_t link;
    bool is_send;
    bool is_blocking; /* the caller does nothing else before it has ended */
    crt_dtype_t dtype;
    size_t count, bytes;
    const void *input; /* of a send */
    void *output;      /* of a receive */
    int peer, rank;    /* the other member: rank of the team, of the group */
    bool is_on_device; /* as in crti_step_t */
    /* Set by the backend. */
    atomic_bool is_done;
    uint64_t number; /* among those between the two in this direction */
    size_t at;       /* bytes that have come or gone, where that is counted */
} crti_pair_t;

typedef struct crti_backend {
    const char *name;
    /* Collective. Waits until all members of the team are connected, or the deadline. */
    crt_status_t (*open)(crt_group_t *group, const crti_team_t *team,
                         uint64_t deadline_ns, void **state_out);
    /* Carries out one operation. Compares it with the other members' (kind, dtype, reduction,
     * count, peer, sequence): a difference fails the group on all of them with
     * CRT_ERR_INVALID, naming both sides. Fails the group (crti_group_fail) on everything that
     * makes it unusable. */
    crt_status_t (*run)(void *state, const crti_step_t *step);
    /* Starts a send or receive and does what can be done of it without waiting. The memory is the
     * backend's until it has ended; `pair` is the caller's. A failure is one of the group. */
    crt_status_t (*post)(void *state, crti_pair_t *pair);
    /* Goes on with all that were posted, without waiting. */
    crt_status_t (*progress)(void *state);
    /* Waits until one of them has ended. */
    crt_status_t (*await)(void *state, crti_pair_t *const *pairs, int count,
                          uint64_t deadline_ns);
    /* The group has failed here (crti_group_failed): reports the reason to the other members, as
     * far as that is possible without waiting. In the thread of operations, between two of them.
     * May be NULL. */
    void (*report)(void *state);
    /* Checks without waiting whether other members have failed or died; then fails the group with
     * their reason. Between two operations, in their thread. May be NULL. */
    crt_status_t (*check)(void *state);
    /* Not collective, also after a failure; it must not disturb the other members. */
    void (*close)(void *state);
} crti_backend_t;

extern const crti_backend_t crti_backend_shm, crti_backend_ring, crti_backend_two_level,
    crti_backend_nccl;

/* Arithmetic: target[i] = target[i] (op) source[i], or out[i] = a[i] (op) b[i]. CRT_REDUCE_AVERAGE
 * sums; crti_kernel_scale divides at the end. float16 and bfloat16 are rounded at each call: where
 * more than two are summed use crti_kernel_reduce_many. */
void crti_kernel_reduce(crt_dtype_t dtype, crt_reduction_t reduction, void *out,
                        const void *a, const void *b, size_t count);
/* out[i] = sources[0][i] (op) ... (op) sources[n - 1][i], in this order; out may be one of them.
 * CRT_REDUCE_AVERAGE divides by `divisor`. */
void crti_kernel_reduce_many(crt_dtype_t dtype, crt_reduction_t reduction, void *out,
                             const void *const *sources, int n, int divisor,
                             size_t count);
/* The same into each of `outs`; each may be one of the sources. */
void crti_kernel_reduce_to(crt_dtype_t dtype, crt_reduction_t reduction,
                           void *const *outs, int out_count, const void *const *sources,
                           int n, int divisor, size_t count);
void crti_kernel_scale(crt_dtype_t dtype, void *values, int divisor, size_t count);

#endif
