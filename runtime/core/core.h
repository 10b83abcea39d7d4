/* SPDX-License-Identifier: Apache-2.0 */
/* Core: the library inside every driver and worker. Here its modules' states are put together to
 * the runtime of a process; each is written by its own module only.
 *
 *     client/     joins and leaves the cluster; what comes from outside goes to the modules below;
 *                 functions of crt.h
 *     execution/  calls that this process was asked to run
 *     calls/      calls of this process, its actors' handles, its tasks and their leases
 *     refs/       objects: refs, who borrows them, where their copies are, their values
 *     process/    entry and lock, timer, links to the node daemon, to other processes and to the
 *     store
 *     values/     bytes: values, records, errors
 *
 * Calls and includes go downward. What must go up goes by a handler that client.c sets.
 *
 * Threads
 *     The net's lock covers everything here (crti_enter takes it). Handlers of the net, the
 *     node link and timers run under it. User code, and copying of large values, do not.
 * Failure
 *     The link to the node daemon ends: a worker exits at once, a driver's calls and waits fail
 *     with core->broken.
 */
#ifndef CRTI_CORE_CORE_H
#define CRTI_CORE_CORE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "runtime/base/board.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/client/private_cluster.h"
#include "runtime/core/client/waitset.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/process/program.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/seeds.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/refs.h"
#include "runtime/net/net.h"
#include "runtime/store/store.h"

#define CRTI_INLINE_MAX  65536 /* larger results and arguments go to the store */
#define CRTI_PUT_INLINE  4096  /* larger puts go to the store */
#define CRTI_STORE_WAIT  (5 * CRTI_S)
#define CRTI_QUEUE_BYTES ((size_t)16 << 20)  /* calls that wait for one actor */
#define CRTI_TASK_BYTES  ((size_t)128 << 20) /* tasks of a shape that wait */
#define CRTI_SUSPECT_NS  (10 * CRTI_S) /* how long a lost session may stay unexplained */
#define CRTI_REPORT_NS   (500 * CRTI_MS) /* how long the head may take to explain a death */

struct crti_core {
    /* set by init, then constant */
    crti_stream_place_t streams;
    bool is_worker, no_log_to_driver;
    /* of a driver that wants lines of workers once; else NULL */
    struct crti_line_fold *line_fold;
    crti_id_t process, node, job, cluster, actor_id;
    char process_hex[CRTI_ID_HEX], node_hex[CRTI_ID_HEX], job_hex[CRTI_ID_HEX];
    char name_space[CRTI_NAMESPACE_SIZE]; /* of names of actors */
    uint64_t incarnation, actor_incarnation;
    bool is_fenced; /* the actor takes no calls while its node has no word of the head */
    char run_dir[96];
    crti_program_t program;
    crti_net_t *net;
    crti_store_t *store; /* NULL: not joined yet, see crti_core_join_store */
    int arena_fd;        /* until then; -1 */
    unsigned slot;
    crti_blackboard_t *board;      /* shared with the node */
    crti_blackboard_t *blackboard; /* the same, of a worker */
    size_t board_bytes;            /* base/board.h */
    bool has_metrics; /* handles of the program point into it: it stays mapped */
    double cpus;
    char *gpus; /* of this worker, as in CUDA_VISIBLE_DEVICES; "" none */
    crti_private_cluster_t private_cluster;
    bool has_private_cluster;
    /* Handlers of modules above those that call them. */
    void (*on_tick)(crti_core_t *core, uint64_t now_ns);
    void (*on_blocked)(crti_core_t *core); /* the main thread of a worker, by a wait */
    void (*on_remote_freed)(crti_core_t *core, crti_remote_t *remote);
    void (*on_forwarded)(crt_ref_t *ref,
                         const crti_function_t *function);   /* its result */
    void (*on_long_wait)(crti_core_t *core, crt_ref_t *ref); /* ... for that ref */
    /* The call that runs in this thread, as its owner names it. */
    void (*name_running)(crti_core_t *core, crti_id_t *owner_out, uint64_t *number_out);

    /* under the lock */
    bool is_closing;
    bool is_leaving;     /* only the end of what ran for this driver is waited for */
    crt_status_t broken; /* not CRT_OK: the node daemon is gone */
    char *broken_text;
    crti_buffer_t scratch; /* of records; taken while in use */
    crti_encoder_t encoder;
    crti_task_writer_t task_events;
    crti_node_link_t link;
    crti_core_timer_t timer;
    crti_printed_t printed;
    crti_seeds_t seeds; /* of a driver */
    bool has_seeds;     /* they are set, or calls came that have some */
    crti_remotes_t remotes;
    crti_blocked_t blocked;
    crti_frees_t frees;
    crti_refs_t refs;
    crti_calls_t calls;
    crti_execution_t execution;
    crti_waits_t waits;
};

/* The scratch buffer for a record, empty: taken, so that a send that waits (and gives up the lock)
 * has its own. */
static inline crti_buffer_t crti_scratch_take(crti_core_t *core)
{
    crti_buffer_t taken = core->scratch;

    core->scratch = (crti_buffer_t){0};
    taken.size = 0;
    return taken;
}
static inline void crti_scratch_give(crti_core_t *core, crti_buffer_t *buffer)
{
    if (core->scratch.data || buffer->capacity > 1 << 20)
        crti_buffer_fini(buffer);
    else
        core->scratch = *buffer;
    *buffer = (crti_buffer_t){0};
}

/* ------------------------------------------------------------------ client/parts.c */

/* Of zeroed memory. */
void crti_core_init(crti_core_t *core);
/* At shutdown: what the user still holds stays as memory; everything else goes. */
void crti_core_orphan(crti_core_t *core);
void crti_core_free(crti_core_t *core);

#endif
