/* SPDX-License-Identifier: Apache-2.0 */
/* Group: the state of one member, and the part of it that backends see.
 *
 * Where it sits
 *     crt_collective.h -> group (join, leave, rebuild), operation (check, order, post)
 *         -> backend.h -> the backends shm, ring, two-level, nccl
 *     rendezvous: membership, by the control store; runtime/core: deaths
 * Threads
 *     One operation runs at a time: in the caller's thread, or in the group's thread when
 *     operations are posted. Death notices come in the thread that makes progress; they only
 *     set `failure` and ring `wake_fd`.
 * Failure
 *     The first failure of an incarnation is kept, every later one is ignored. A backend that
 *     waits looks at crti_group_failed at least every CRTI_GROUP_LOOK_NS, or watches wake_fd.
 */
#ifndef CRTI_COLLECTIVE_GROUP_H
#define CRTI_COLLECTIVE_GROUP_H

#include <stdatomic.h>

#include "collective/backend.h"
#include "runtime/base/clock.h"
#include "runtime/base/id.h"
#include "runtime/net/stream.h"

#define CRTI_GROUP_NAME       64
#define CRTI_GROUP_SIZE       1024 /* most members */
#define CRTI_GROUP_KINDS      (CRT_COLLECTIVE_BARRIER + 1)
#define CRTI_GROUP_ALGORITHMS 256 /* bytes of CRT_COLLECTIVE_ALGORITHM */
#define CRTI_GROUP_LOOK_NS                                                               \
    (20 * CRTI_MS) /* the longest sleep without a look at the failure */

/* A member, as it described itself when it joined. */
typedef struct crti_member {
    crti_id_t actor, node, process;
    uint64_t process_incarnation, actor_incarnation;
    int64_t pid;
    uint64_t nonce; /* of this joining: names its shared memory, proves its links */
    int memory_fd;  /* of its shared memory, in its process; -1: none */
    /* where its links listen (links.h); "" when nowhere */
    char address[CRTI_STREAM_ADDRESS];
    char algorithms[CRTI_GROUP_ALGORITHMS]; /* that it was told to use; "" */
} crti_member_t;

typedef struct crti_group_failure {
    crt_status_t status;
    int rank; /* -1: no member in particular */
    char text[1024];
} crti_group_failure_t;

/* Messages between two that go one way: by shared memory, or by links. */
typedef struct crti_way {
    unsigned pending; /* that have not ended */
    /* Goes on with them without waiting. CRT_OK, or how the group has failed. */
    crt_status_t (*go_on)(void *state);
    void *state;
} crti_way_t;

/* How long who waits in one way sleeps at most while something is pending in the other. */
#define CRTI_GROUP_OTHER_WAY_NS (CRTI_MS / 5)

/* The number of the opening in crt_group.running and .done; the operation N has N more. */
#define CRTI_GROUP_OPENING 1

/* The part of a group that backends use. Constant from open to close, but for `has_failed`,
 * `has_waited` and what was told. */
struct crt_group {
    char name[CRTI_GROUP_NAME];
    uint64_t incarnation;
    int size, rank;
    crti_member_t *members; /* by rank */
    int wake_fd;            /* eventfd: readable once the group has failed */
    /* What the whole group does, the opening (CRTI_GROUP_OPENING) and then its operations: the
     * number of what runs here, 0 between two, and of the last that has succeeded. */
    uint64_t running, done;
    /* Messages that are waited for here, by the thread of operations. */
    crti_pair_t *const *awaits;
    int await_count;
    /* Messages go on in both ways of exchanging them, whichever waits: each tells the other what it
     * has. */
    crti_way_t shared, linked;
    atomic_bool has_failed;
    bool has_waited; /* the running operation, longer than a spin: shm says so */
    /* An operation that waits for longer says for whom; 0: it never does. When one said so last,
     * and how long then none does. */
    uint64_t tell_ns, told_ns, tell_pause_ns;
    int device;        /* whose memory tensors may lie in, too; -1: none. Set by open */
    int wanted_device; /* of backends with devices */
    void *gpu_stream;  /* cudaStream_t that operations follow; NULL: the default stream */
    struct crti_links *links; /* connections to members elsewhere, made when needed */
    /* That the environment tells to use (backends/algorithms.h), by kind; NULL: any. */
    const struct crti_algorithm *forced[CRTI_GROUP_KINDS];
    struct crti_group_private *private; /* of what carries the group out */
};

/* This member waits for a send, and nothing else: it takes in what others send, by either way. */
static inline bool crti_group_absorbs(const crt_group_t *group)
{
    return group->await_count == 1 && group->awaits[0]->is_send;
}

/* Ends the operation that runs and all later ones of this incarnation. `rank` -1: no member. Any
 * thread. Returns `status`, raised with the text. */
crt_status_t crti_group_fail(crt_group_t *group, crt_status_t status, int rank,
                             const char *format, ...) CRT_PRINTF(4, 5);

/* A message has ended: for those who wait for it while another thread is in the backend. */
void crti_group_message_ended(crt_group_t *group);

/* Whether what runs here needs a member that has failed, and had finished the opening or operation
 * `done` (crt_group.done) before. In the thread of operations. */
bool crti_group_needs(const crt_group_t *group, int rank, uint64_t done);
/* A member has failed that is not needed by what runs here: that goes on, all that is called after
 * it fails. In the thread of operations. */
void crti_group_fail_later(crt_group_t *group, crt_status_t status, int rank,
                           const char *text);

/* Raises the failure in this thread; CRT_OK when there is none. */
crt_status_t crti_group_failed(crt_group_t *group);

/* CRT_ERR_FORKED, raised, in a child of the process that joined: the links are the parent's, and
 * bytes of the child would be encrypted with the numbers that the parent uses next. */
crt_status_t crti_group_check_process(void);

/* A member's link or shared memory shows that its process is gone (end of file, pidfd): gives the
 * runtime a moment to report why (until `deadline_ns`), then fails the group with that, or with
 * what was seen. */
crt_status_t crti_group_lost(crt_group_t *group, int rank, uint64_t deadline_ns,
                             const char *seen);

/* The shared memory that this member shows others on its node; the group's. */
struct crti_region *crti_group_region(crt_group_t *group);

/* The backend that this group would have without devices; the same on all members. */
const crti_backend_t *crti_group_host_backend(const crt_group_t *group);

/* An operation `what` has waited for `waited_ns`, longer than tell_ns, and goes on waiting for
 * `who`: a warning in the log. One that comes soon after another is not told of. In the thread of
 * operations. */
void crti_group_tell_wait(crt_group_t *group, uint64_t waited_ns, const char *what,
                          const char *who);

/* "rank 2 (actor 3f..., node 9c...)". */
const char *crti_group_describe(const crt_group_t *group, int rank, char *text,
                                size_t text_bytes);

#endif
