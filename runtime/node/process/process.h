/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: the drivers and workers of this node, from fork or ATTACH to their death.
 *
 * Where it sits
 *     attach.c, spawn.c (make them) -> [ node/process/process.c ] -> death.c, by handlers
 * Ownership
 *     A record is made by spawn.c (workers) or attach.c (drivers) and freed by death.c, or by
 *     spawn.c where no process came of it.
 */
#ifndef CRTI_NODE_PROCESS_H
#define CRTI_NODE_PROCESS_H

#include <sys/types.h>

#include "runtime/base/board.h"
#include "runtime/node/host/offload.h"
#include "runtime/node/host/output.h"
#include "runtime/node/process/memory_watch.h"
#include "runtime/node/types.h"

#define CRTI_NODE_SLOTS 16384 /* processes that the store serves at once */
/* So many FORKs of a job are under way at once; more workers wait without any file. */
#define CRTI_JOB_FORKING_MAX 64

/* A driver or worker of this node, from fork or ATTACH to its death. Each group is written by the
 * module it names. */
struct crti_process {
    crti_node_t *node;
    crti_id_t id;
    uint64_t incarnation;
    unsigned role; /* CRTI_ROLE_DRIVER, CRTI_ROLE_WORKER */
    pid_t pid;     /* 0 before FORKED */
    int pidfd;     /* -1 also when it is offloaded */
    crti_watch_t pidfd_watch;
    bool is_watched;            /* a pidfd tells of its end */
    bool is_offloaded;          /* its pidfd and pipes go to the offload threads */
    crti_offloaded_t offloaded; /* they are there */
    unsigned slot;              /* of the store, 0 none */
    char ipc[108], tcp[64];
    crti_worker_t *worker;    /* NULL for drivers, and when it is to end */
    crti_id_t actor;          /* zero: tasks */
    crti_blackboard_t *board; /* base/board.h */
    size_t board_bytes;
    int board_fd;
    bool told_to_end;   /* its end is expected */
    char end_text[448]; /* why it was told to end */
    crti_memory_record_t memory;

    /* links */
    crti_local_t *local; /* NULL before ATTACH */

    /* actors */
    /* in node->fence->workers: of a fenced actor that is not to end */
    crti_list_t in_fenced;

    /* jobs */
    crti_job_t *job;
    crti_id_t job_id;        /* also when it has left the job; zero: never had one */
    crti_list_t link;        /* in job->wanted or job->forking */
    uint64_t fork_request;   /* while FORK is not answered */
    bool is_child;           /* executed by the node itself */
    crti_output_t output[2]; /* stdout, stderr */
    crti_log_file_t log;
    uint64_t log_flushed;   /* where it ended when LOG_FLUSH came last, or the process */
    uint64_t leave_request; /* of a driver that waits for what ran for it, 0 none */
    uint64_t not_shown;     /* bytes of lines for a driver that does not take them */
    bool awaited;           /* a worker that it waits for */
    size_t drained_by;      /* nodes whose last lines it waits for, before it leaves */
    void (*on_drained)(crti_process_t *driver); /* NULL: it does not */

    /* dispatch (death.c) */
    bool has_made_actors; /* the head has to hear of its end, and says that it has */
    bool leaves;          /* a driver that said so: its end is no death */
    bool dying;           /* the pidfd said so */
    bool reaped;          /* wait_status is known */
    int wait_status;
    crti_timer_t reap_timer; /* what is awaited of its end; crti_process_await */
};

/* What the end of a process leads to (death.c). */
typedef struct crti_process_handlers {
    void (*on_ended)(crti_process_t *process); /* its pidfd is readable */
    /* The zygote told the wait status, or is gone itself. */
    void (*on_reaped)(crti_process_t *process, int wait_status);
    void (*on_zygote_gone)(crti_process_t *process);
    void (*on_cut)(crti_process_t *process, const char *why);
    void (*on_driver_closed)(crti_process_t *driver);
} crti_process_handlers_t;

void crti_process_init(crti_node_t *node, const crti_process_handlers_t *handlers);
crt_status_t crti_process_new(crti_node_t *node, crti_id_t id, unsigned role,
                              crti_process_t **process_out);
/* All that is its own goes; crti_process_free (spawn.c) ends the rest, too. */
void crti_process_release(crti_process_t *process);
void crti_process_fini(crti_node_t *node);
crti_process_t *crti_process_get(crti_node_t *node, crti_id_t id);
/* The worker with that pid, NULL: none. */
crti_process_t *crti_process_of_pid(const crti_node_t *node, pid_t pid);
/* Walks all; `*cursor` starts at 0, NULL at the end. None comes or goes during the walk. */
crti_process_t *crti_process_next(const crti_node_t *node, size_t *cursor);
size_t crti_process_count(const crti_node_t *node);
/* The lowest free slot of the store; CRT_ERR_BACKPRESSURE when all are taken. */
crt_status_t crti_slot_take(crti_node_t *node, unsigned *slot_out);
/* The process is gone: what it held in the store comes back at once. */
void crti_slot_give(crti_process_t *process);
crt_status_t crti_process_make_board(crti_process_t *process);
/* ATTACHED has taken the blackboard's file along: the page stays mapped. */
void crti_process_close_board(crti_process_t *process);
/* It has ended, and was an actor's whose `create` had not: its calls may be made elsewhere. */
bool crti_process_ran_no_call(const crti_process_t *process);
/* It has ended: `caller` and `unbegun` of PEER_DIED. */
uint64_t crti_process_unbegun(const crti_process_t *process, crti_id_t *caller_out);
/* ATTACH, READY and FORKED say more of it. */
void crti_process_attached(crti_process_t *process, const crti_msg_attach_t *attach);
void crti_process_ready(crti_process_t *process, const crti_msg_ready_t *ready);
void crti_process_forked(crti_process_t *process, pid_t pid);
/* Its end is expected from now on; why it comes, for the report. */
void crti_process_expect_end(crti_process_t *process);
void crti_process_explain(crti_process_t *process, const char *format, ...)
    CRT_PRINTF(2, 3);
/* It serves the worker table; `actor` zero: for tasks. And no more. */
void crti_process_give_worker(crti_process_t *process, crti_worker_t *worker,
                              crti_id_t actor);
crti_worker_t *crti_process_take_worker(crti_process_t *process);
/* `on_late` is called unless it ends before, or is awaited anew. */
crt_status_t crti_process_await(crti_process_t *process, void (*on_late)(void *process),
                                uint64_t after_ns);
/* SIGKILL to a process and its group. */
void crti_process_kill(crti_process_t *process);
void crti_process_ended(crti_process_t *process);
/* The zygote told the wait status, or is gone itself. */
void crti_process_reaped(crti_process_t *process, int wait_status);
void crti_process_zygote_gone(crti_process_t *process);
/* A driver closed its link. */
void crti_process_driver_closed(crti_process_t *driver);
/* A process that misbehaved, or whose link broke: a worker is killed, a driver's connection is
 * closed; its death follows. */
void crti_process_cut(crti_process_t *process, const char *why);

/* Hears of its end. */
crt_status_t crti_process_watch(crti_process_t *process);
/* CRT_ERR_BACKPRESSURE when the host has no room for one more worker. */
crt_status_t crti_process_check_host(crti_node_t *node);
/* Before a worker is made: are its files to go to the offload threads? */
void crti_process_plan_offload(crti_process_t *process);
/* What workers of that job have printed is told to its driver. */
void crti_process_flush_job(crti_node_t *node, crti_id_t job);
/* Begins to read what it prints, here or there. */
crt_status_t crti_process_read_outputs(crti_process_t *process);

/* stall.c: begins to look for processes that hold the store up. */
crt_status_t crti_stall_start(crti_node_t *node);

/* ---------------------------------------------------------------- memory.c */

/* Begins to watch the node's memory. */
crt_status_t crti_memory_start(crti_node_t *node);
/* A worker begins a lease. */
void crti_memory_began(crti_process_t *process);
/* A worker that has done nothing yet begins an actor, with so many bytes (0: to be looked up),
 * which are returned. */
uint64_t crti_memory_born(crti_process_t *process, uint64_t bytes);
/* Its process is gone. */
void crti_memory_gone(const crti_process_t *process);
/* Bytes that the node's processes use, and may, at the last reading; workers ended for lack. */
void crti_memory_figures(const crti_node_t *node, uint64_t *used_out, uint64_t *total_out,
                         uint64_t *ended_out);
/* True when the kernel killed a process for lack of memory since this was asked last. */
bool crti_memory_kernel_killed(crti_node_t *node);

#endif
