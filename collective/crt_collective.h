/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: groups of actors that reduce and exchange tensors together.
 *
 *     crt_group_t *group;
 *     float *gradient;
 *
 *     CRT_TRY(crt_collective_init_group(size, rank, NULL, &group));
 *     CRT_TRY(crt_collective_alloc(count * sizeof(float), (void **)&gradient));
 *     crt_tensor_t view = crt_tensor_floats(gradient, count);
 *     ...
 *     CRT_TRY(crt_collective_allreduce(group, &view, &view, CRT_AVERAGE));
 *
 * Every member of a group makes the same calls in the same order. Each call checks that the
 * others make the same one (operation, dtype, count, reduction, root) and fails on every member,
 * naming both sides, when they do not. A failure belongs to its operation: one before it that was right and
 * complete succeeds on all, also where it ends later. A member that dies, or does not come within the timeout,
 * ends the call of every other member with an error that names it; crt_collective_rebuild makes
 * the group usable again. Nothing hangs and no wrong sum is ever given.
 *
 * Tensors: dense (crt_tensor_is_dense), on the host except for the backend "nccl" (see
 * there).
 * Floating point, integers; not bool. `input` and `output` may be the same memory (in place, as
 * said at each operation) but must not overlap otherwise. They stay the caller's, unchanged by
 * the caller until the operation has ended. After a failed operation the output is undefined.
 *
 * Threads: a group is used by one thread at a time; different groups are independent. After fork()
 * the child's calls return CRT_ERR_FORKED, and the parent's membership goes on.
 */
#ifndef CRT_COLLECTIVE_H
#define CRT_COLLECTIVE_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This process's membership in a group. */
typedef struct crt_group crt_group_t;

/* How elements are joined. CRT_AVERAGE is the sum divided by the number of members; of integers
 * it is rounded toward zero, and a sum that does not fit the dtype wraps before the division.
 * float16 and bfloat16 are summed in float32 and rounded once. The order of the sum is the same on
 * all members, so that results are bit-identical. */
typedef enum crt_reduction {
    CRT_SUM = 1,
    CRT_PRODUCT = 2,
    CRT_MIN = 3,
    CRT_MAX = 4,
    CRT_AVERAGE = 5
} crt_reduction_t;

/* ---------------------------------------------------------------- groups */

typedef struct crt_group_options {
    size_t struct_size;
    const char
        *name; /* default "default"; unique among the living groups of a job; at most
                            63 of [A-Za-z0-9_.-] */
    const char *backend; /* "auto" (default), "shm", "ring", "two-level", "nccl" */
    int64_t limit_ms;    /* of joining and of each operation; default 60000 */
    int device;          /* "nccl": this member's GPU, counted as CUDA does; default 0 */
    void *stream; /* "nccl": the cudaStream_t that its operations follow; default NULL */
} crt_group_options_t;
#define CRT_GROUP_OPTIONS(...)                                                           \
    CRTI_CONSTANT(crt_group_options_t, .struct_size = sizeof(crt_group_options_t),       \
                  __VA_ARGS__)

#define CRT_RANK_ANY (-2)

/* The backend "nccl". Every member has one GPU, `device` of its options (0 in members that find a
 * declared group); no two may have the same. libcudart and libnccl (2.14.3 or newer, the same on
 * all members) are opened when the first group needs them; CRT_ERR_UNSUPPORTED names the member
 * where there is no GPU or no library.
 * Tensors lie on that device, or on the host: those are copied to device memory of the group and
 * back, which costs more than the operation. Input and output lie on the same side. A tensor of
 * another device is CRT_ERR_INVALID.
 * Stream order: an operation on device tensors begins on the GPU after all that was submitted to
 * `stream` before it (to the default stream when that is NULL; work on other streams must have
 * ended). The call, or crt_collective_wait, returns when it has ended on the GPU, so that every
 * stream may use the result then. Posted operations follow the stream as it is when they begin.
 * `stream` belongs to `device` and lives as long as the membership.
 * Sends and receives that are posted, sendrecv too, are given to NCCL together when one of them is waited for: then
 * their counterparts must have been posted on the other members, or be called there next.
 * Arithmetic is NCCL's: float16 and bfloat16 may be rounded more than once; CRT_ERR_UNSUPPORTED
 * for reductions of int16, which leaves the group as it was. */

/* Joins a group of `size` members as `rank` (0 to size - 1) and waits for the others. Inside an
 * actor only (else CRT_ERR_INVALID). CRT_RANK_ANY: takes the place of a dead member of a group
 * that its survivors rebuild with a replacement; waits for that.
 * CRT_ERR_EXISTS: the rank is taken, or a living group has the name; CRT_ERR_INVALID: the members
 * say different sizes or backends; CRT_ERR_TIMED_OUT: names the ranks that did not come;
 * CRT_ERR_ACTOR_DIED: a member died meanwhile. Caller owns the result and frees it with
 * crt_collective_destroy_group. */
CRT_API crt_status_t crt_collective_init_group(int size, int rank,
                                               const crt_group_options_t *options,
                                               crt_group_t **group_out);

/* In the driver: declares that actors[i] is ranks[i] of a group (ranks NULL: i). The members join
 * with crt_collective_find_group. CRT_ERR_INVALID: ranks are no permutation, or an actor is there
 * twice; CRT_ERR_EXISTS. */
CRT_API crt_status_t crt_collective_create_group(crt_actor_t *const *actors,
                                                 const int *ranks, int size,
                                                 const crt_group_options_t *options);

/* In an actor: its membership in the group that a driver declared (joins and waits as
 * crt_collective_init_group does). Caller owns the result and frees it with
 * crt_collective_destroy_group. CRT_ERR_NOT_FOUND: no such group, or this actor is not in it;
 * CRT_ERR_ACTOR_DIED: also for a member that died before it came. */
CRT_API crt_status_t crt_collective_find_group(const char *name, crt_group_t **group_out);

/* Makes groups of the members of `group`, as MPI_Comm_split does: those that give the same `color`
 * become a group. Their ranks follow `key`, and where keys are the same the rank in `group`. Who
 * gives a negative color is a member of none: *group_out is NULL then. Every member of `group` calls it
 * at the same place among its operations, and waits for those of its color. Backend, timeout, device and
 * stream are those of `group`; the name is made from its name. Both groups are independent
 * afterwards, and end by themselves. Caller owns the result and frees it with
 * crt_collective_destroy_group.
 * Fails as an operation of `group` does. A death, or another failure of `group`, before all of a color have
 * come fails that color on all of its members; others may succeed. CRT_ERR_TIMED_OUT names the ranks that did
 * not come. */
CRT_API crt_status_t crt_collective_split(crt_group_t *group, int color, int key,
                                          crt_group_t **group_out);

/* In a process of crt run --ranks: the group of all ranks, crt_rank() of crt_size(), called "world". The
 * first call joins it and waits for the others, later ones give the same. Any thread. Borrowed: valid as
 * long as the process, not to be destroyed. CRT_ERR_INVALID: this process is no rank; else as
 * crt_collective_init_group. */
CRT_API crt_status_t crt_collective_world(crt_group_t **group_out);

/* After an operation failed: makes the group anew, with a new incarnation; what is still under
 * way in the old one is ignored. Every living member calls it. With `size` 0 the survivors go on
 * alone and keep their order; with another size that many members are waited for: survivors keep
 * their ranks, actors that call crt_collective_init_group(size, CRT_RANK_ANY, ...) fill the
 * places of the dead. Operations that were posted have ended before it returns.
 * CRT_ERR_TIMED_OUT names who did not come; CRT_ERR_EXISTS: the rebuild was called off, because a
 * member has settled the operation that failed on others (see crt_collective_settle).
 * On failure the group stays failed; call it again. */
CRT_API crt_status_t crt_collective_rebuild(crt_group_t *group, int size);

/* A death in an operation may let it succeed on some members and fail on others. When it was the last
 * one for a time, the first make no other call, and the rebuild of the others would wait for them
 * until the timeout. So after such an operation each member of which it succeeded settles it,
 * before it does anything else: it counts then, on all. A member of which it failed
 * rebuilds; if the operation was settled, crt_collective_settled is greater afterwards
 * than before the operation. Then the rebuild has given CRT_ERR_EXISTS, and the group
 * stays failed until all rebuild it; or CRT_OK, if the others had begun to rebuild already.
 * All members settle the same operations. It costs a few exchanges with the control store.
 * CRT_ERR_CLOSED: the others have rebuilt the group without this member. */
CRT_API crt_status_t crt_collective_settle(crt_group_t *group);
/* Operations that are settled, as far as this member was told. */
CRT_API uint64_t crt_collective_settled(const crt_group_t *group);

/* Leaves the group: operations that are under way fail with CRT_ERR_CANCELLED here, and on the
 * other members with an error that names this rank; the name is free once all have left or died.
 * Posted operations that were not waited for are freed. NULL inside is fine. */
CRT_API void crt_collective_destroy_group(crt_group_t **group_take);

/* This member's rank, 0 <= rank < size, and how many members there are. */
CRT_API int crt_collective_rank(const crt_group_t *group);
CRT_API int crt_collective_size(const crt_group_t *group);
/* "shm", "ring", "two-level" or "nccl": what "auto" chose. Static text. */
CRT_API const char *crt_collective_backend(const crt_group_t *group);
/* 1 at first, one more after each rebuild. */
CRT_API uint64_t crt_collective_incarnation(const crt_group_t *group);

/* Why the group's last operation failed. */
typedef struct crt_group_error {
    crt_status_t status;
    int rank;          /* who is to blame; -1: nobody in particular */
    const char *actor; /* 32 hex digits of that member, "" when rank is -1 */
    const char *node;
    const char *text; /* as crt_error_detail() was */
} crt_group_error_t;

/* NULL when no operation has failed since the group was built. Borrowed: valid until the next
 * operation, rebuild or destroy. */
CRT_API const crt_group_error_t *crt_collective_error(const crt_group_t *group);

/* ---------------------------------------------------------------- memory */

/* Memory that members on the same node reduce in place, without a copy in or out; aligned to 64
 * bytes, zeroed. May be used with any group, at any offset, and as ordinary memory. Any thread.
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_collective_alloc(size_t bytes, void **memory_out);

/* Frees memory of crt_collective_alloc, not while an operation uses it. NULL is fine. */
CRT_API void crt_collective_free(void *memory);

/* ---------------------------------------------------------------- operations */

/* Each blocks until the operation has ended here. n is the number of elements of `input`, m the
 * number of members. All fail with CRT_ERR_CANCELLED on a group that has failed and was not
 * rebuilt, with CRT_ERR_TIMED_OUT, CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST as told above, and
 * with CRT_ERR_INVALID when the members' calls do not fit together. */

/* output (n) = input of all members, reduced. In place: the same memory. */
CRT_API crt_status_t crt_collective_allreduce(crt_group_t *group,
                                              const crt_tensor_t *input,
                                              const crt_tensor_t *output,
                                              crt_reduction_t reduction);
/* output (n) = input of all members, reduced, on `root` only; `output` may be NULL elsewhere. In place at
 * the root. */
CRT_API crt_status_t crt_collective_reduce(crt_group_t *group, const crt_tensor_t *input,
                                           const crt_tensor_t *output, int root,
                                           crt_reduction_t reduction);
/* Every member's tensor becomes that of `root`. */
CRT_API crt_status_t crt_collective_broadcast(crt_group_t *group,
                                              const crt_tensor_t *tensor, int root);
/* output (m * n) = the inputs in the order of the ranks. In place: input lies at its place. */
CRT_API crt_status_t crt_collective_allgather(crt_group_t *group,
                                              const crt_tensor_t *input,
                                              const crt_tensor_t *output);
/* output (n / m) = part `rank` of the reduced inputs; n is a multiple of m. In place: output lies
 * at its place in input. */
CRT_API crt_status_t crt_collective_reducescatter(crt_group_t *group,
                                                  const crt_tensor_t *input,
                                                  const crt_tensor_t *output,
                                                  crt_reduction_t reduction);
/* output (n): its part i is part `rank` of member i's input; n is a multiple of m. */
CRT_API crt_status_t crt_collective_alltoall(crt_group_t *group,
                                             const crt_tensor_t *input,
                                             const crt_tensor_t *output);
/* To and from one other member. Messages from one member to another are received in the order in
 * which their sends were called or posted, each by one receive of the same dtype and count.
 * `recv` returns when the message is there. `send` returns when the memory may be used again: that
 * may be before the other has received, and for a message of more than a few KiB it may be only
 * then. Members that all send first and then receive do not wait for each other for ever: a member that waits
 * for its send to be received takes in what is sent to it meanwhile, in memory of the library, as much as that is.
 * Two that wait to receive from each other, or one that waits for a message of another that waits for it in an
 * operation of the whole group, do wait for ever: CRT_ERR_INVALID, naming both; CRT_ERR_TIMED_OUT where
 * the circle has more members. */
CRT_API crt_status_t crt_collective_send(crt_group_t *group, const crt_tensor_t *tensor,
                                         int peer);
CRT_API crt_status_t crt_collective_recv(crt_group_t *group, const crt_tensor_t *tensor,
                                         int peer);
/* Sends `input` to one member and receives `output` from one, both at once: the exchange with neighbours.
 * `to` and `from` may be the same or different members; what the others do, sendrecv or single sends
 * and receives, is all the same. The two tensors do not overlap. `input` or `output` NULL: only the other, as at
 * the end of a row of members. */
CRT_API crt_status_t crt_collective_sendrecv(crt_group_t *group,
                                             const crt_tensor_t *input, int to,
                                             const crt_tensor_t *output, int from);
/* No member returns before all have called it. */
CRT_API crt_status_t crt_collective_barrier(crt_group_t *group);

/* ---------------------------------------------------------------- posting */

typedef enum crt_collective_kind {
    CRT_COLLECTIVE_ALLREDUCE = 1,
    CRT_COLLECTIVE_REDUCE = 2,
    CRT_COLLECTIVE_BROADCAST = 3,
    CRT_COLLECTIVE_ALLGATHER = 4,
    CRT_COLLECTIVE_REDUCESCATTER = 5,
    CRT_COLLECTIVE_ALLTOALL = 6,
    CRT_COLLECTIVE_SEND = 7,
    CRT_COLLECTIVE_RECV = 8,
    CRT_COLLECTIVE_BARRIER = 9
} crt_collective_kind_t;

/* An operation as the functions above take it; members that the operation does not have stay zero. The
 * tensor views are copied, the memory that they point at is not. */
typedef struct crt_collective {
    size_t struct_size; /* set by CRT_COLLECTIVE */
    crt_collective_kind_t kind;
    const crt_tensor_t *input;  /* broadcast, send: the tensor */
    const crt_tensor_t *output; /* broadcast, recv: the tensor */
    crt_reduction_t reduction;
    int peer;         /* root, or the other member */
    int64_t limit_ms; /* 0: that of the group */
} crt_collective_t;

#define CRT_COLLECTIVE(...)                                                              \
    CRTI_CONSTANT(crt_collective_t, .struct_size = sizeof(crt_collective_t), __VA_ARGS__)

/* A posted operation. */
typedef struct crt_operation crt_operation_t;

/* Starts an operation and returns at once. Operations of a group begin in the order in which they
 * were posted or called. Those of the whole group are carried out by a thread, one at a time.
 * Sends and receives go on beside each other, with different members and in both directions, and
 * beside operations of the whole group that come after them; they need no thread, and go on whenever this process is
 * in a call on the group (of any other operation; test, wait). One that is posted while an operation of the
 * whole group is pending begins after that.
 * Caller owns the result and frees it with crt_collective_wait, waitall or waitany. */
CRT_API crt_status_t crt_collective_post(crt_group_t *group, const crt_collective_t *what,
                                         crt_operation_t **operation_out);

/* Posts a send or a receive. The tensor's memory is not touched by the caller until it was waited for. */
CRT_API crt_status_t crt_collective_isend(crt_group_t *group, const crt_tensor_t *tensor,
                                          int peer, crt_operation_t **operation_out);
CRT_API crt_status_t crt_collective_irecv(crt_group_t *group, const crt_tensor_t *tensor,
                                          int peer, crt_operation_t **operation_out);

/* CRT_IN_PROGRESS, or how the operation ended. Does not free it. */
CRT_API crt_status_t crt_collective_test(crt_operation_t *operation);

/* Waits until the operation has ended, frees it and says how it ended. The timeout of a send or
 * receive counts from here. */
CRT_API crt_status_t crt_collective_wait(crt_operation_t **operation_take);

/* Waits for all of them and frees them; gives the first failure in their order. NULL among them is skipped. */
CRT_API crt_status_t crt_collective_waitall(crt_operation_t **operations_take,
                                            size_t count);

/* Waits until one of them has ended, frees that one, puts NULL in its place and its index in
 * `*index_out`, and says how it ended. NULL among them is skipped. CRT_ERR_INVALID: all are NULL, or they are of
 * different groups. */
CRT_API crt_status_t crt_collective_waitany(crt_operation_t **operations_take,
                                            size_t count, size_t *index_out);

#ifdef __cplusplus
}
#endif

#endif
