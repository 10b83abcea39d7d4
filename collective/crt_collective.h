/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: groups of actors that reduce and exchange tensors together.
 *
 *     crt_group_t *group;
 *     float *gradient;
 *
 *     CRT_TRY(crt_group_join(size, rank, NULL, &group));
 *     CRT_TRY(crt_group_alloc(count * sizeof(float), (void **)&gradient));
 *     crt_tensor_t view = crt_tensor_floats(gradient, count);
 *     ...
 *     CRT_TRY(crt_group_allreduce(group, &view, &view, CRT_REDUCE_AVERAGE));
 *
 * Every member of a group makes the same calls in the same order. Each call checks that all
 * members make the same call (operation, dtype, count, reduction, root). If two calls differ, the
 * operation fails on every member, and the error text names both sides. A failure belongs to one
 * operation: an earlier operation that was correct and complete succeeds on all members, even on
 * members that finish it later. If a member dies or does not call within the timeout, the call of
 * every other member fails with an error that names that member; crt_group_rebuild makes the
 * group usable again. Every call ends within the timeout, and no call returns a wrong sum.
 *
 * Tensors: dense (crt_tensor_is_dense), aligned to the element size, of floating point or integer
 * type (not bool). Tensors lie on the host, except with the backend "nccl" (see there). `input`
 * and `output` may be the same memory (in place) only as described at each operation; otherwise
 * they must not overlap. The caller owns both tensors and must not change them until the
 * operation has ended. After a failed operation the content of `output` is undefined.
 *
 * Threads: one thread at a time uses a group; different groups are independent. After fork() the
 * calls of the child return CRT_ERR_FORKED, and the membership of the parent continues. */
#ifndef CRT_COLLECTIVE_H
#define CRT_COLLECTIVE_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The membership of this process in a group. */
typedef struct crt_group crt_group_t;

/* How elements are combined. CRT_REDUCE_AVERAGE is the sum divided by the number of members. For
 * integers the average is rounded toward zero, and a sum that does not fit the dtype wraps
 * before the division. float16 and bfloat16 are summed in float32 and rounded once. The order
 * of the sum is the same on all members, so the results are identical bit for bit.
 *
 * CRT_REDUCE_MIN and CRT_REDUCE_MAX of floating point: where an element is NaN on some members,
 * or zeros of both signs are compared, the result is one of the values that were compared. Which
 * one depends on the ranks, the backend and the place of the element; all members get the same
 * one. So a NaN may be missing from the result. A program that looks for NaN uses
 * CRT_REDUCE_SUM. */
typedef enum crt_reduction {
    CRT_REDUCE_SUM = 1,
    CRT_REDUCE_PRODUCT = 2,
    CRT_REDUCE_MIN = 3,
    CRT_REDUCE_MAX = 4,
    CRT_REDUCE_AVERAGE = 5
} crt_reduction_t;

/* ---------------------------------------------------------------- groups */

/* Options of a group. A program makes this struct with CRT_GROUP_OPTIONS. A member that is not
 * given has its default. */
typedef struct crt_group_options {
    /* Set by CRT_GROUP_OPTIONS. */
    size_t struct_size;
    /* Name of the group: 1 to 63 characters of [A-Za-z0-9_.-], unique among the living groups
     * of a job. NULL: "default". */
    const char *name;
    /* "auto" (default), "shm", "ring", "two-level" or "nccl". */
    const char *backend;
    /* Timeout in milliseconds of joining and of each operation, at most 1000000000. 0: 60000. */
    int64_t limit_ms;
    /* Only for "nccl": the GPU of this member, in the numbering of CUDA. Default 0. */
    int device;
    /* Only for "nccl": the cudaStream_t that operations of this member follow. Default NULL. */
    void *stream;
} crt_group_options_t;
#define CRT_GROUP_OPTIONS(...)                                                           \
    CRTI_CONSTANT(crt_group_options_t, .struct_size = sizeof(crt_group_options_t),       \
                  __VA_ARGS__)

/* Rank of a member that takes the place of a dead member: see crt_group_join. */
#define CRT_RANK_ANY (-2)

/* The backend "nccl". Every member has one GPU: `device` of its options, or GPU 0 for members
 * that join a declared group. Two members must not have the same GPU. The libraries libcudart
 * and libnccl (2.14.3 or newer, the same version on all members) are opened when the first
 * group needs them. CRT_ERR_UNSUPPORTED names the member that has no GPU or no library.
 *
 * Tensors lie on that device or on the host. A host tensor is copied to device memory of the
 * group and back, which costs more than the operation. Input and output lie on the same side.
 * A tensor on another device is CRT_ERR_INVALID.
 *
 * Stream order: an operation on device tensors begins on the GPU after all work that was
 * submitted to `stream` before the call (to the default stream if `stream` is NULL; work on
 * other streams must have ended). The call, or crt_operation_wait, returns when the operation
 * has ended on the GPU, so every stream may then use the result. A posted operation follows
 * the content of the stream at the time when the operation begins. `stream` belongs to
 * `device` and must live as long as the membership.
 *
 * Posted sends and receives, and crt_group_sendrecv, are given to NCCL together when the
 * program waits for one of them. At that time their counterparts must be posted on the other
 * members, or be the next calls there.
 *
 * Arithmetic is that of NCCL: float16 and bfloat16 may be rounded more than once. Reductions
 * of int16 return CRT_ERR_UNSUPPORTED and leave the group as it was. */

/* Joins a group of `size` members (1 to 1024) as `rank` (0 to size - 1) and waits for the
 * other members. Only an actor can be a member. With `rank` CRT_RANK_ANY the caller takes the
 * place of a dead member of a group that the survivors rebuild with replacements
 * (crt_group_rebuild), and waits until a place is free. `options` may be NULL. Caller
 * owns the result and frees it with crt_group_drop.
 *
 * Errors: CRT_ERR_INVALID, when an argument is wrong, the caller is not an actor, or the
 * members give different sizes or backends; CRT_ERR_EXISTS, when the rank is taken or a living
 * group has the name; CRT_ERR_TIMED_OUT, when a member did not come within the limit (the text
 * names the missing ranks); CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member died or
 * lost its node while the group formed; CRT_ERR_CANCELLED, when the other members gave the
 * group up; CRT_ERR_UNSUPPORTED, when a member cannot use the backend; CRT_ERR_NO_MEMORY;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork(). */
CRT_API crt_status_t crt_group_join(int size, int rank,
                                    const crt_group_options_t *options,
                                    crt_group_t **group_out);

/* Declares a group, usually in the driver: actors[i] has rank ranks[i] (`ranks` NULL: rank i)
 * in a group of `size` members (1 to 1024). The call does not wait for the members. Each
 * member joins with crt_group_find. `options` may be NULL.
 *
 * Errors: CRT_ERR_INVALID, when an option is wrong, the ranks are not a permutation of 0 to
 * size - 1, an actor is listed twice, or an actor is not a handle; CRT_ERR_EXISTS, when a
 * living group has the name; CRT_ERR_NO_MEMORY; CRT_ERR_NOT_INITIALIZED, before crt_init;
 * CRT_ERR_FORKED, in a child process after fork(). */
CRT_API crt_status_t crt_group_declare(crt_actor_t *const *actors, const int *ranks,
                                       int size, const crt_group_options_t *options);

/* Joins the declared group `name` (see crt_group_declare) and waits for the other
 * members. The caller is one of the declared actors. Caller owns the result and frees it with
 * crt_group_drop.
 *
 * Errors: CRT_ERR_NOT_FOUND, when no such group was declared or this actor is not in the
 * group; CRT_ERR_INVALID, when the name is not valid or the caller is not an actor;
 * CRT_ERR_EXISTS, when another process has taken the rank; CRT_ERR_TIMED_OUT, when a member
 * did not come within the limit (the text names the missing ranks); CRT_ERR_ACTOR_DIED or
 * CRT_ERR_NODE_LOST, when a member died or lost its node while the group formed or before that
 * member joined; CRT_ERR_CANCELLED, when the other members gave the group up;
 * CRT_ERR_UNSUPPORTED, when a member cannot use the backend; CRT_ERR_NO_MEMORY;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork(). */
CRT_API crt_status_t crt_group_find(const char *name, crt_group_t **group_out);

/* Splits `group` into smaller groups, as MPI_Comm_split does: members that give the same
 * `color` form one group. Ranks in the new group follow `key`; members with equal keys are
 * ordered by their rank in `group`. A member that gives a negative color is in no new group:
 * its *group_out is NULL.
 *
 * Every member of `group` makes this call at the same place among its operations, and waits
 * for the members of its color. The new group has the backend, timeout, device and stream of
 * `group`; its name is made from the name of `group`. Afterwards the groups are independent,
 * and each is dropped separately. Caller owns the result and frees it with
 * crt_group_drop.
 *
 * Errors: those of crt_group_allgather on `group`, CRT_ERR_INVALID, CRT_ERR_TIMED_OUT,
 * CRT_ERR_ACTOR_DIED, CRT_ERR_NODE_LOST, CRT_ERR_CLOSED and CRT_ERR_CANCELLED; and those of
 * crt_group_join for the new group. If a member dies or `group` fails before all
 * members of a color have come, the call fails on all members of that color and may succeed
 * for other colors. The text of CRT_ERR_TIMED_OUT names the ranks that did not come. */
CRT_API crt_status_t crt_group_split(crt_group_t *group, int color, int key,
                                     crt_group_t **group_out);

/* The group "world" of all ranks of crt run --ranks: this process has rank crt_world_rank() of
 * crt_world_size(). The first call joins the group and waits for the other ranks; later calls
 * return that group again. Any thread may call. Borrowed: valid until the process ends; the
 * program must not drop the group.
 *
 * Errors: CRT_ERR_INVALID, when this process is not a rank of crt run --ranks; otherwise those of
 * crt_group_join, such as CRT_ERR_TIMED_OUT, when a rank does not join, and CRT_ERR_ACTOR_DIED or
 * CRT_ERR_NODE_LOST, when a rank died. */
CRT_API crt_status_t crt_group_world(crt_group_t **group_out);

/* Makes the group usable again after an operation failed. Every living member makes this call.
 * The group gets a new incarnation; messages of the old incarnation are ignored. Posted
 * operations have ended before the call returns.
 *
 * `size` 0: the survivors continue alone, in their old order. `size` > 0: the group has `size`
 * members; survivors keep their ranks, the call waits for replacements, and actors that call
 * crt_group_join(size, CRT_RANK_ANY, ...) take the places of the dead members.
 *
 * An operation may have succeeded on some members and failed on others: a member reached its
 * timeout, or died, while the last data arrived elsewhere. A member that repeated the operation
 * would then meet the others in their next one. If all members live, the first call after that
 * returns CRT_ERR_CANCELLED on all of them, and the text names the operation and two members; the
 * next call rebuilds the group. If a member has died or left, the group is rebuilt with a warning
 * in the log, so the program either uses crt_group_settle, or agrees after each rebuild on where
 * to go on, for example with an allgather of its step.
 *
 * On failure the group stays failed, and the program may call the function again. Errors:
 * CRT_ERR_INVALID, when `group` is NULL, `size` is wrong, the members give different sizes, or
 * more than `size` members live; CRT_ERR_CANCELLED, when all members live and have completed
 * different operations (once); CRT_ERR_TIMED_OUT, when members did not come (the text names
 * them); CRT_ERR_EXISTS, when the rebuild was called off because another member has settled the
 * operation that failed here (see crt_group_settle); CRT_ERR_CLOSED, when the group has ended or
 * was rebuilt without this member; CRT_ERR_NO_MEMORY; CRT_ERR_FORKED, in a child process after
 * fork(). */
CRT_API crt_status_t crt_group_rebuild(crt_group_t *group, int size);

/* Confirms that the last operation succeeded on this member. Each member on which an operation has
 * succeeded makes this call when a long pause follows: before that pause, and before any other call
 * on the group. All members settle the same operations.
 *
 * If a member dies during an operation, the operation may succeed on some members and fail on
 * others. Members on which it failed call crt_group_rebuild. Members on which it succeeded may
 * make no other call for a long time, and the rebuild would wait for them until the timeout.
 * Once one member has settled the operation, the operation counts as successful for the group.
 *
 * A member on which the operation failed compares crt_group_settled before the operation and
 * after the rebuild: the number is greater if another member settled the operation. The
 * result of the operation is then with that member. The rebuild has returned CRT_ERR_EXISTS, and
 * the group stays failed until all members rebuild it; or CRT_OK, if another member had already
 * begun to rebuild.
 *
 * Cost: a few exchanges with the control store. Errors: CRT_ERR_INVALID, when `group` is NULL;
 * CRT_ERR_CLOSED, when the group has ended or the others have rebuilt it without this member;
 * CRT_ERR_FORKED, in a child process after fork(); an error of the control store, when the
 * cluster cannot be reached. */
CRT_API crt_status_t crt_group_settle(crt_group_t *group);
/* Returns the number of settled operations that this member knows of (see crt_group_settle); 0
 * when `group` is NULL. */
CRT_API uint64_t crt_group_settled(const crt_group_t *group);

/* Leaves the group and sets *group_take to NULL. Pending operations fail with
 * CRT_ERR_CANCELLED on this member, and on the other members with an error that names this
 * rank. Posted operations that the program did not wait for are freed. The name is free when
 * all members have left or died. `group_take` and *group_take may be NULL. */
CRT_API void crt_group_drop(crt_group_t **group_take);

/* Return the rank of this member (0 <= rank < size), and the number of members of the group. */
CRT_API int crt_group_rank(const crt_group_t *group);
CRT_API int crt_group_size(const crt_group_t *group);
/* Returns the backend in use: "shm", "ring", "two-level" or "nccl". For a group with the option
 * "auto" this is the backend that the library chose. Static text. */
CRT_API const char *crt_group_backend(const crt_group_t *group);
/* Returns the incarnation of the group: 1 at first, one more after each rebuild. */
CRT_API uint64_t crt_group_incarnation(const crt_group_t *group);

/* The reason why the last operation of a group failed. */
typedef struct crt_group_error {
    crt_status_t status;
    /* Rank of the member that caused the failure; -1: no particular member. */
    int rank;
    /* Actor id of that member, 32 hexadecimal digits; "" if `rank` is -1. */
    const char *actor;
    /* Node of that member. */
    const char *node;
    /* The text that crt_error_detail() returned. */
    const char *text;
} crt_group_error_t;

/* Returns the failure of the last failed operation of the group. NULL: no operation has failed
 * since the group was built. Borrowed: valid until the next operation, crt_group_rebuild or
 * crt_group_drop. */
CRT_API const crt_group_error_t *crt_group_last_error(const crt_group_t *group);

/* ---------------------------------------------------------------- memory */

/* Allocates `bytes` of memory that members on the same node reduce in place, without a copy. The
 * memory is aligned to 64 bytes and zeroed. Any group may use the memory, at any offset, and the
 * program may use the memory as ordinary memory. Any thread may call. Caller owns the result and
 * frees it with crt_group_free.
 *
 * Errors: CRT_ERR_NO_MEMORY, when the memory cannot be allocated; CRT_ERR_INVALID, when
 * `memory_out` is NULL. */
CRT_API crt_status_t crt_group_alloc(size_t bytes, void **memory_out);

/* Frees memory of crt_group_alloc. No operation may be using the memory. NULL is allowed. */
CRT_API void crt_group_free(void *memory);

/* ---------------------------------------------------------------- operations */

/* Each call of the operations below blocks until the operation has ended on this member. n is the
 * number of elements of `input`, m the number of members. */

/* Reduces the inputs of all members and gives every member the whole result. (crt_group_reduce
 * gives the result to the root only, crt_group_reducescatter one part to each member.) `input`
 * and `output` have n elements of the same dtype. In place: `output` is the same memory as
 * `input`. Blocks until the operation has ended on this member.
 *
 * Errors: CRT_ERR_INVALID, when a tensor or `reduction` is wrong, or the members make different
 * calls; CRT_ERR_TIMED_OUT, when a member does not make the call within the limit of the group;
 * CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died; CRT_ERR_CLOSED, when a
 * member left the group; CRT_ERR_CANCELLED, when the group failed earlier and was not rebuilt;
 * CRT_ERR_UNSUPPORTED, when CRT_COLLECTIVE_ALGORITHM names an algorithm that cannot do the
 * operation (crt-collective(7)); CRT_ERR_FORKED, in a child process after fork(). Each failure
 * fails the group until crt_group_rebuild, except CRT_ERR_UNSUPPORTED for int16 with "nccl". */
CRT_API crt_status_t crt_group_allreduce(crt_group_t *group, const crt_tensor_t *input,
                                         const crt_tensor_t *output,
                                         crt_reduction_t reduction);
/* Reduces the inputs of all members and gives the whole result to the member with rank `root`
 * only. (crt_group_allreduce gives the result to every member, crt_group_reducescatter one part
 * to each.) `input` and `output` have n elements of the same dtype; `output` may be NULL on the
 * other members. In place, at the root only: `output` is the same memory as `input`. Blocks until
 * the operation has ended on this member.
 *
 * Errors: CRT_ERR_INVALID, when a tensor, `root` or `reduction` is wrong, or the members make
 * different calls; CRT_ERR_TIMED_OUT, when a member does not make the call within the limit of
 * the group; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died;
 * CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED, when the group failed earlier
 * and was not rebuilt; CRT_ERR_UNSUPPORTED, when CRT_COLLECTIVE_ALGORITHM names an algorithm that
 * cannot do the operation (crt-collective(7)); CRT_ERR_FORKED, in a child process after fork().
 * Each failure fails the group until crt_group_rebuild, except CRT_ERR_UNSUPPORTED for int16 with
 * "nccl". */
CRT_API crt_status_t crt_group_reduce(crt_group_t *group, const crt_tensor_t *input,
                                      const crt_tensor_t *output, int root,
                                      crt_reduction_t reduction);
/* Copies the tensor of the member with rank `root` into `tensor` of every other member. All
 * tensors have the same dtype and number of elements. Blocks until the operation has ended on
 * this member.
 *
 * Errors: CRT_ERR_INVALID, when `tensor` or `root` is wrong, or the members make different
 * calls; CRT_ERR_TIMED_OUT, when a member does not make the call within the limit of the
 * group; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died;
 * CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED, when the group failed
 * earlier and was not rebuilt; CRT_ERR_FORKED, in a child process after fork(). Each failure
 * fails the group until crt_group_rebuild. */
CRT_API crt_status_t crt_group_broadcast(crt_group_t *group, const crt_tensor_t *tensor,
                                         int root);
/* Gives every member the inputs of all members, in the order of the ranks. `input` has n
 * elements, `output` m * n, m being the number of members. In place: `input` lies at its own
 * place in `output` (at element rank * n). Blocks until the operation has ended on this
 * member.
 *
 * Errors: CRT_ERR_INVALID, when a tensor is wrong, or the members make different calls;
 * CRT_ERR_TIMED_OUT, when a member does not make the call within the limit of the group;
 * CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died; CRT_ERR_CLOSED,
 * when a member left the group; CRT_ERR_CANCELLED, when the group failed earlier and was not
 * rebuilt; CRT_ERR_FORKED, in a child process after fork(). Each failure fails the group until
 * crt_group_rebuild. */
CRT_API crt_status_t crt_group_allgather(crt_group_t *group, const crt_tensor_t *input,
                                         const crt_tensor_t *output);
/* Reduces the inputs of all members and gives part r of the result to the member with rank r.
 * (crt_group_allreduce gives the whole result to every member, crt_group_reduce to the root
 * only.) `input` has n elements, `output` n / m, m being the number of members; n is a multiple
 * of m. In place: `output` lies at its own place in `input` (at element rank * n / m). Blocks
 * until the operation has ended on this member.
 *
 * Errors: CRT_ERR_INVALID, when a tensor or `reduction` is wrong, or n is not a multiple of m, or
 * the members make different calls; CRT_ERR_TIMED_OUT, when a member does not make the call
 * within the limit of the group; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its
 * node died; CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED, when the group
 * failed earlier and was not rebuilt; CRT_ERR_UNSUPPORTED, when CRT_COLLECTIVE_ALGORITHM names an
 * algorithm that cannot do the operation (crt-collective(7)); CRT_ERR_FORKED, in a child process
 * after fork(). Each failure fails the group until crt_group_rebuild, except CRT_ERR_UNSUPPORTED
 * for int16 with "nccl". */
CRT_API crt_status_t crt_group_reducescatter(crt_group_t *group,
                                             const crt_tensor_t *input,
                                             const crt_tensor_t *output,
                                             crt_reduction_t reduction);
/* Sends part i of `input` to the member with rank i; part i of `output` comes from member i.
 * Both tensors have n elements, in m parts of the same size, m being the number of members; n
 * is a multiple of m. `input` and `output` must not overlap. Blocks until the operation has
 * ended on this member.
 *
 * Errors: CRT_ERR_INVALID, when a tensor is wrong, or n is not a multiple of m, or the members
 * make different calls; CRT_ERR_TIMED_OUT, when a member does not make the call within the
 * limit of the group; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died;
 * CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED, when the group failed
 * earlier and was not rebuilt; CRT_ERR_FORKED, in a child process after fork(). Each failure
 * fails the group until crt_group_rebuild. */
CRT_API crt_status_t crt_group_alltoall(crt_group_t *group, const crt_tensor_t *input,
                                        const crt_tensor_t *output);
/* Sends `tensor` to the member with rank `peer`. The call returns when the caller may use the
 * memory again. That may be before the peer has received the message; with a message of more
 * than a few KiB the call may wait for the receive. Messages from one member to another are
 * received in the order in which their sends were called or posted. Each message is received
 * by one receive of the same dtype and number of elements. `peer` is another member: a message to
 * oneself, which MPI has, is CRT_ERR_INVALID and fails the group.
 *
 * Members that all send first and then receive do not block each other: while a member waits
 * for the receive of its message, the library stores the messages that arrive for this member
 * in memory of its own, without a limit.
 *
 * Errors: CRT_ERR_INVALID, when `tensor` or `peer` is wrong, the receive and the send differ
 * in dtype or count, two members each wait to receive from the other, or `peer` waits for this
 * member in an operation of the whole group (the text names both members); CRT_ERR_TIMED_OUT,
 * when the limit of the group passes, also when more than two members wait for each other in a
 * circle; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died;
 * CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED, when the group failed
 * earlier and was not rebuilt; CRT_ERR_FORKED, in a child process after fork(). Each failure
 * fails the group until crt_group_rebuild. */
CRT_API crt_status_t crt_group_send(crt_group_t *group, const crt_tensor_t *tensor,
                                    int peer);
/* Receives a message of the member with rank `peer` into `tensor`. The call returns when the
 * message is there. Messages from one member to another are received in the order in which
 * their sends were called or posted. Each message is received by one receive of the same dtype
 * and number of elements.
 *
 * Errors: CRT_ERR_INVALID, when `tensor` or `peer` is wrong, the receive and the send differ
 * in dtype or count, two members each wait to receive from the other, or `peer` waits for this
 * member in an operation of the whole group (the text names both members); CRT_ERR_TIMED_OUT,
 * when the limit of the group passes, also when more than two members wait for each other in a
 * circle; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died;
 * CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED, when the group failed
 * earlier and was not rebuilt; CRT_ERR_FORKED, in a child process after fork(). Each failure
 * fails the group until crt_group_rebuild. */
CRT_API crt_status_t crt_group_recv(crt_group_t *group, const crt_tensor_t *tensor,
                                    int peer);
/* Sends `input` to the member `to` and receives `output` from the member `from` at the same
 * time, for an exchange with neighbours. `to` and `from` may be the same member or different
 * ones; the other members may use sendrecv or single sends and receives. The tensors must not
 * overlap. With `input` NULL the call only receives, with `output` NULL the call only sends, as at
 * the end of a row of members. Messages from one member to another are received in the order
 * in which their sends were called or posted. Each message is received by one receive of the
 * same dtype and number of elements. `to` and `from` are other members than this one: in a group of
 * one there is no neighbour.
 *
 * Errors: CRT_ERR_INVALID, when a tensor, `to` or `from` is wrong, the receive and the send
 * differ in dtype or count, two members each wait to receive from the other, or the other
 * member waits for this member in an operation of the whole group (the text names both
 * members); CRT_ERR_TIMED_OUT, when the limit of the group passes, also when more than two
 * members wait for each other in a circle; CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a
 * member or its node died; CRT_ERR_CLOSED, when a member left the group; CRT_ERR_CANCELLED,
 * when the group failed earlier and was not rebuilt; CRT_ERR_FORKED, in a child process after
 * fork(). Each failure fails the group until crt_group_rebuild. */
CRT_API crt_status_t crt_group_sendrecv(crt_group_t *group, const crt_tensor_t *input,
                                        int to, const crt_tensor_t *output, int from);
/* Waits until all members have called the function.
 *
 * Errors: CRT_ERR_INVALID, when `group` is NULL, or the members make different calls;
 * CRT_ERR_TIMED_OUT, when a member does not make the call within the limit of the group;
 * CRT_ERR_ACTOR_DIED or CRT_ERR_NODE_LOST, when a member or its node died; CRT_ERR_CLOSED,
 * when a member left the group; CRT_ERR_CANCELLED, when the group failed earlier and was not
 * rebuilt; CRT_ERR_FORKED, in a child process after fork(). Each failure fails the group until
 * crt_group_rebuild. */
CRT_API crt_status_t crt_group_barrier(crt_group_t *group);

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

/* An operation for crt_group_post, with the arguments of the functions above. Members that an
 * operation does not have stay zero. The library copies the tensor views, but not the memory that
 * they point to. A program makes this struct with CRT_COLLECTIVE. */
typedef struct crt_collective {
    /* Set by CRT_COLLECTIVE. */
    size_t struct_size;
    crt_collective_kind_t kind;
    /* The input. Broadcast: the tensor, which the root sends and the other members receive. Send:
     * the tensor. Unused by receive and barrier. */
    const crt_tensor_t *input;
    /* The output. Receive: the tensor. Unused by broadcast, send and barrier; reduce uses
     * `output` at the root only. */
    const crt_tensor_t *output;
    /* Allreduce, reduce and reducescatter only. */
    crt_reduction_t reduction;
    /* The rank of the root (reduce, broadcast), or of the other member (send, receive). */
    int peer;
    /* Timeout of this operation in milliseconds. 0: the timeout of the group. */
    int64_t limit_ms;
} crt_collective_t;

#define CRT_COLLECTIVE(...)                                                              \
    CRTI_CONSTANT(crt_collective_t, .struct_size = sizeof(crt_collective_t), __VA_ARGS__)

/* A posted operation. */
typedef struct crt_operation crt_operation_t;

/* Starts the operation `what` and returns at once. Operations of a group begin in the order in
 * which they were posted or called. A thread of the library runs the operations of the whole
 * group, one at a time.
 *
 * Sends and receives run concurrently with each other, with different members and in both
 * directions, and with operations of the whole group that come later. They use no thread: they
 * advance while this process is in an operation of the group, crt_operation_test or
 * crt_operation_wait. The post itself moves at most a few KiB; larger data is moved by those
 * later calls. Thus two neighbours move their data at the same time, and a sender can wait until
 * the receiver makes such a call. The operations may be waited for in any order. A send or
 * receive that is posted while an operation of the whole group is pending begins after that
 * operation.
 *
 * The caller must not use the memory of the tensors until crt_operation_wait has returned.
 * Caller owns the result and frees it with crt_operation_wait, crt_operation_wait_all or
 * crt_operation_wait_any.
 *
 * Errors: CRT_ERR_INVALID, when `group`, `what` or `operation_out` is NULL, or `what` was not
 * made with CRT_COLLECTIVE; CRT_ERR_UNSUPPORTED, when `what` uses members that this version
 * does not know; CRT_ERR_NO_MEMORY, when memory or a thread is missing; CRT_ERR_FORKED, in a
 * child process after fork(). The errors of the operation itself are returned by
 * crt_operation_wait. */
CRT_API crt_status_t crt_group_post(crt_group_t *group, const crt_collective_t *what,
                                    crt_operation_t **operation_out);

/* Posts a send to, or a receive from, the member with rank `peer`. The caller must not use the
 * memory of `tensor` until the operation was waited for. Caller owns the result and frees
 * it with crt_operation_wait, crt_operation_wait_all or crt_operation_wait_any.
 *
 * Errors: CRT_ERR_INVALID, when `group` or `operation_out` is NULL; CRT_ERR_NO_MEMORY, when
 * memory or a thread is missing; CRT_ERR_FORKED, in a child process after fork(). The errors
 * of the operation itself are returned by crt_operation_wait. */
CRT_API crt_status_t crt_group_isend(crt_group_t *group, const crt_tensor_t *tensor,
                                     int peer, crt_operation_t **operation_out);
CRT_API crt_status_t crt_group_irecv(crt_group_t *group, const crt_tensor_t *tensor,
                                     int peer, crt_operation_t **operation_out);

/* Returns the state of a posted operation without waiting: CRT_IN_PROGRESS while it runs,
 * otherwise its result. The operation is not freed. Errors: the status of the operation, if it
 * failed; CRT_ERR_INVALID, when `operation` is NULL; CRT_ERR_FORKED, in a child process after
 * fork(). */
CRT_API crt_status_t crt_operation_test(crt_operation_t *operation);

/* Waits until a posted operation has ended, frees it, sets *operation_take to NULL and returns
 * the status of the operation. The timeout of a send or receive counts from this call.
 *
 * Errors: the status of the operation, if it failed; CRT_ERR_INVALID, when *operation_take is
 * NULL; CRT_ERR_FORKED, in a child process after fork(). */
CRT_API crt_status_t crt_operation_wait(crt_operation_t **operation_take);

/* Waits for `count` posted operations and frees all of them. NULL entries are skipped. All
 * entries are NULL afterwards.
 *
 * Errors: the status of the first operation in the array that failed; CRT_ERR_INVALID, when
 * `operations_take` is NULL and `count` is not 0; CRT_ERR_FORKED, in a child process after
 * fork(). */
CRT_API crt_status_t crt_operation_wait_all(crt_operation_t **operations_take,
                                            size_t count);

/* Waits until one of `count` posted operations has ended, frees that operation, sets its entry
 * to NULL, stores its index in *index_out and returns its status. NULL entries are skipped.
 *
 * Errors: the status of the operation, if it failed; CRT_ERR_INVALID, when all entries are
 * NULL, the operations belong to different groups, or an argument is NULL; CRT_ERR_NO_MEMORY;
 * CRT_ERR_FORKED, in a child process after fork(). */
CRT_API crt_status_t crt_operation_wait_any(crt_operation_t **operations_take,
                                            size_t count, size_t *index_out);

#ifdef __cplusplus
}
#endif

#endif
