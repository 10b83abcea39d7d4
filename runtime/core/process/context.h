/* SPDX-License-Identifier: Apache-2.0 */
/* Context: what each module sees of this process. Its parts are opaque: a part's inside is in the
 * header of its module (refs/refs_int.h, calls/calls_int.h, ...), and only client/parts.c, which
 * makes them, knows them all. What must go up goes by a handler that is set there.
 *
 * Threads
 *     The net's lock covers everything here (crti_enter takes it). Handlers of the net, the
 *     node link and timers run under it. User code, and copying of large values, do not.
 * Failure
 *     The link to the node daemon ends: a worker exits at once, a driver's calls and waits fail
 *     with core->broken.
 */
#ifndef CRTI_CORE_PROCESS_CONTEXT_H
#define CRTI_CORE_PROCESS_CONTEXT_H

#include <sys/types.h>

#include "runtime/base/board.h"
#include "runtime/base/buffer.h"
#include "runtime/base/task_events.h"
#include "runtime/core/types.h"
#include "runtime/net/key.h"
#include "runtime/net/net.h"
#include "runtime/net/protocol.h"
#include "runtime/store/store.h"

/* How this process makes and takes streams of its own (collectives). */
struct crti_stream_place {
    crti_key_t key;
    bool encrypt;
    char ip[64];                  /* "": it can't be reached from other nodes */
    uint16_t port_low, port_high; /* 0, 0: any */
};

struct crti_core {
    /* set by init, then constant */
    struct crti_stream_place streams;
    bool is_worker, no_log_to_driver;
    /* of a driver that wants lines of workers once; else NULL */
    struct crti_line_fold *line_fold;
    crti_id_t process, node, job, cluster, actor_id;
    char process_hex[CRTI_ID_HEX], node_hex[CRTI_ID_HEX], job_hex[CRTI_ID_HEX];
    char name_space[CRTI_NAMESPACE_SIZE]; /* of names of actors */
    uint64_t incarnation, actor_incarnation;
    crti_placement_t placement; /* of the actor that lives here */
    bool is_fenced; /* the actor takes no calls while its node has no word of the head */
    char run_dir[96];
    crti_program_t *program;
    crti_net_t *net;
    crti_store_t *store; /* NULL: not joined yet, see crti_core_join_store */
    int arena_fd;        /* until then; -1 */
    unsigned slot;
    crti_blackboard_t *board;      /* shared with the node */
    crti_blackboard_t *blackboard; /* the same, of a worker */
    size_t board_bytes;            /* base/board.h */
    bool has_metrics; /* handles of the program point into it: it stays mapped */
    int64_t copies;   /* of objects that ask for none; 0: one (refs/kept_copies.h) */
    double cpus;
    char *gpus; /* of this worker, as in CUDA_VISIBLE_DEVICES; "" none */
    struct crti_private_cluster *private_cluster; /* daemon/private_start.h; NULL: none */
    /* Handlers of modules above those that call them. */
    void (*on_tick)(crti_core_t *core, uint64_t now_ns);
    void (*on_blocked)(crti_core_t *core); /* the main thread of a worker, by a wait */
    void (*on_remote_freed)(crti_core_t *core, crti_remote_t *remote);
    void (*on_forwarded)(crt_ref_t *ref,
                         const crti_function_t *function);   /* its result */
    void (*on_long_wait)(crti_core_t *core, crt_ref_t *ref); /* ... for that ref */
    void (*cancel_call)(crti_pending_t *pending);            /* of ours */
    /* The call that runs in this thread, as its owner names it. */
    void (*name_running)(crti_core_t *core, crti_id_t *owner_out, uint64_t *number_out);
    /* Its next object, under the name of its caller; false: under our own. Where it runs. */
    bool (*name_object)(crti_object_id_t *id_out);
    crti_placement_t (*placement_running)(const crti_core_t *core);

    /* under the lock */
    bool is_closing;
    bool is_leaving;     /* only the end of what ran for this driver is waited for */
    crt_status_t broken; /* not CRT_OK: the node daemon is gone */
    char *broken_text;
    crti_buffer_t scratch; /* of records; taken while in use */
    crti_encoder_t *encoder;
    crti_task_writer_t task_events;
    crti_node_link_t *link;
    crti_core_timer_t *timer;
    crti_printed_t *printed;
    crti_seeds_t *seeds; /* of a driver */
    bool has_seeds;      /* they are set, or calls came that have some */
    crti_remotes_t *remotes;
    crti_blocked_t *blocked;
    crti_frees_t *frees;
    crti_refs_t *refs;
    crti_calls_t *calls;
    crti_execution_t *execution;
    crti_waits_t *waits;
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

#endif
