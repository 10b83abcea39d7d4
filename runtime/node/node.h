/* SPDX-License-Identifier: Apache-2.0 */
/* Node daemon: the state that its parts share, and how they call each other.
 *
 * Where it sits
 *     main.c -> node.c (start, stop) -> one loop (net/loop.c) that serves
 *         local.c      connections of drivers, workers and the command (net/channel.c)
 *         head.c       the link to the head (net/stream.c): registration, questions, its orders
 *         peer.c       links to other node daemons; transfer.c object parts over them
 *         job.c        programs, zygotes; spawn.c worker processes; output.c what they print
 *         lease.c      carries out what lease_table.c and worker_table.c decide
 *         fence.c      what workers of fenced actors know of the head's acknowledgements
 *         actor.c      actors of this node; submission.c submitted jobs; logs.c readers of logs
 *         death.c      the end of a process: report, clean-up, who is told; watch.c who wants to
 * Threads
 *     One: everything here belongs to the loop's thread. program.c hashes and copies
 *     executables in a thread of its own that shares nothing and posts its result.
 * Ownership
 *     A process is made by spawn.c (workers) or local.c (drivers) and freed by death.c alone.
 * Invariants
 *     A table is never changed while its actions are being carried out: events that come up
 *     then are carried out by the same loop in lease.c or transfer.c.
 */
#ifndef CRTI_NODE_NODE_H
#define CRTI_NODE_NODE_H

#include <sys/types.h>

#include "runtime/base/blackboard.h"
#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/base/rundir.h"
#include "runtime/net/channel.h"
#include "runtime/net/key.h"
#include "runtime/net/loop.h"
#include "runtime/net/stream.h"
#include "runtime/node/host.h"
#include "runtime/node/lease_table.h"
#include "runtime/node/log_quota.h"
#include "runtime/node/memory_watch.h"
#include "runtime/node/offload.h"
#include "runtime/node/old_logs.h"
#include "runtime/node/options.h"
#include "runtime/node/output.h"
#include "runtime/node/pull_table.h"
#include "runtime/node/share_table.h"
#include "runtime/node/watchdog.h"
#include "runtime/node/worker_table.h"
#include "runtime/store/store.h"

#define CRTI_NODE_PATH  256
#define CRTI_NODE_SLOTS 16384 /* processes that the store serves at once */

typedef struct crti_node crti_node_t;
typedef struct crti_local crti_local_t;
typedef struct crti_process crti_process_t;
typedef struct crti_job crti_job_t;
typedef struct crti_actor crti_actor_t;

/* One connection on node.sock. Without a process until ATTACH, and for the command always. */
struct crti_local {
    crti_node_t *node;
    uint64_t number; /* names it in answers that come later */
    crti_channel_t *channel;
    crti_process_t *process;
    bool attaching; /* a driver whose job is being recorded by the head */
    crti_list_t link;
};

/* A driver or worker of this node, from fork or ATTACH to its death. */
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
    crti_local_t *local;        /* NULL before ATTACH */
    crti_job_t *job;
    unsigned slot; /* of the store, 0 none */
    char ipc[108], tcp[64];
    bool leaves; /* a driver that said so: its end is no death */
    uint64_t
        leave_request; /* of a driver that waits for the end of what ran for it, 0 none */
    bool awaited;      /* a worker that it waits for */

    /* Workers. */
    crti_worker_t *worker;
    crti_output_t output[2]; /* stdout, stderr */
    crti_log_file_t log;
    crti_blackboard_t *board;
    int board_fd;
    crti_list_t
        in_fenced;    /* in node->fence.workers: of a fenced actor that is not to end */
    crti_list_t link; /* in job->wanted or job->forking */
    uint64_t fork_request; /* while FORK is not answered */
    bool is_child;         /* executed by the node itself */
    bool reaped;           /* wait_status is known */
    int wait_status;
    bool told_to_end;   /* its end is expected */
    char end_text[448]; /* why it was told to end */
    crti_memory_record_t memory;
    crti_timer_t reap_timer;
    bool dying;      /* the pidfd said so */
    crti_id_t actor; /* zero: tasks */
};

/* Who asked the head something: what to do with its answer. `answer` is NULL when the daemon
 * stops. */
typedef void crti_head_answer_t(crti_node_t *node, crti_id_t id, uint64_t number,
                                const crti_message_t *answer);

typedef struct crti_head {
    crti_stream_t *stream;
    bool registering; /* NODE_REGISTER went out on this stream */
    bool open;        /* NODE_REGISTERED came on it */
    bool ever;        /* ... on any */
    crti_timer_t retry;
    crti_timer_t beat;
    uint64_t attempts;
    uint64_t heard_ns;  /* last message */
    uint64_t lost_ns;   /* since when there is no link, 0 while there is one */
    uint64_t beat_sent; /* sequence */
    uint64_t beat_ns;
    bool changed; /* resources changed since the last heartbeat */
    uint64_t requests;
    crti_map_t pending; /* request number -> question */
    crti_list_t order;  /* the same, oldest first: sent again in this order */
    crti_list_t untold; /* deaths of processes while there was no link, oldest first */
    size_t untold_count;
    uint64_t headless_ns; /* how long to live without */
    char why[300];        /* why the last attempt failed, before the first success */
} crti_head_t;

#define CRTI_NODE_BEATS                                                                  \
    128 /* heartbeats whose acknowledgement may still count: over 6 s of them */

/* What fence.c knows. */
typedef struct crti_node_fence {
    uint64_t sent_ns[CRTI_NODE_BEATS]; /* heartbeats, by sequence */
    uint64_t last_sent;                /* sequence */
    uint64_t head_ns;    /* when the last acknowledged one was sent, 0: none was */
    crti_list_t workers; /* processes of fenced actors */
} crti_node_fence_t;

/* What memory.c knows. */
typedef struct crti_node_memory {
    crti_memory_watch_t watch;
    crti_timer_t timer;
    uint64_t used, total; /* at the last reading */
    uint64_t ended;       /* workers, for lack of memory */
    crti_id_t ending;     /* the last of them until it is gone */
    uint64_t kills;       /* of the kernel, when last looked at */
} crti_node_memory_t;

/* What transfer.c knows of a store that had no room. */
typedef struct crti_node_full {
    uint64_t size; /* for an object of so many bytes */
    uint64_t until_ns;
    char text[600];
} crti_node_full_t;

struct crti_node {
    crti_options_t options;
    crti_loop_t *loop;
    crti_id_t id;
    crti_id_t cluster;
    uint64_t incarnation;
    char hex[CRTI_ID_HEX];
    char run_dir[CRTI_NODE_PATH];
    /* The first directories that were missing: a start that fails takes them back. */
    char made_run[CRTI_NODE_PATH], made_state[CRTI_NODE_PATH];
    char state_dir[CRTI_NODE_PATH]; /* of all nodes */
    char own_state[CRTI_NODE_PATH]; /* state_dir/node-HEX8 */
    char head_address[CRTI_STREAM_ADDRESS];
    char http[288], http_pin[56]; /* of the dashboard, as the head says */
    char ip[64];
    char endpoint[CRTI_STREAM_ADDRESS];
    char hostname[64];
    int lock_fd, state_lock_fd; /* of run_dir, own_state */
    crti_watchdog_t watchdog;
    bool encrypt; /* streams that others make to this node */
    crti_key_t key;
    crti_stream_context_t *context;
    crti_stream_listener_t *listener;
    crti_store_t *store;
    size_t store_bytes;
    unsigned char *slots; /* 1: taken */
    unsigned slots_full;  /* 1 ... this one are taken, or were not free when looked at */

    int listen_fd;
    crti_watch_t listen_watch;
    crti_timer_t listen_pause; /* while there is no descriptor for those who connect */
    crti_watch_t lifeline_watch;
    crti_list_t looks; /* of program.c */
    crti_list_t locals;
    crti_map_t local_numbers; /* number -> crti_local_t */
    uint64_t last_local;
    uint64_t host_fresh_ns;  /* until when the host is known to have room for workers */
    crti_map_t processes;    /* id -> crti_process_t */
    crti_map_t by_pid;       /* pid_t -> crti_process_t, workers whose pid is known */
    crti_map_t jobs;         /* id -> crti_job_t */
    crti_map_t actors;       /* id -> crti_actor_t */
    crti_map_t ended_actors; /* id -> what ended last, actor.c */
    crti_list_t ended_order; /* the same, oldest first */
    crti_map_t submissions;  /* job id -> submission */
    uint64_t ended_submissions;
    crti_map_t peers;          /* node id -> peer */
    crti_list_t inbound_links; /* streams of other nodes */
    crti_map_t pulls_again;    /* object id -> a pull that is begun again, pull_retry.c */
    crti_map_t places;         /* object id -> memory of an object being pulled */
    crti_map_t watches;        /* process id -> watch */
    crti_map_t actor_watches;
    crti_buffer_t dead;       /* ring of the last deaths, for late watchers */
    crti_buffer_t dead_nodes; /* crti_id_t, oldest first */
    crti_map_t died_owners;   /* ids: their objects go with the next tick, owner.c */
    uint64_t died_owners_ns;  /* when such went last */
    uint64_t owners_ns;       /* when owners of objects were looked at, owner.c */
    uint64_t owner_sweep;     /* counts them */
    uint64_t watches_ns;      /* when watches were said again last, watch.c */
    size_t dead_next;
    crti_list_t log_readers;
    size_t log_reader_count;
    crti_log_quota_t log_quota;
    crti_old_logs_t old_logs;

    crti_head_t head;
    crti_node_fence_t fence;
    crti_lease_table_t *leases;
    crti_worker_table_t *workers;
    crti_pull_table_t *pulls;
    crti_share_table_t *shares;
    bool acting; /* lease.c carries out actions */
    bool pulling;
    crti_node_full_t full;
    crti_node_memory_t memory;
    crti_offload_t *offload; /* NULL: nothing was offloaded yet */
    bool cannot_offload;     /* was told */
    size_t offloaded_count;
    crti_timer_t tick;
    uint64_t orphans_ns;
    crti_timer_t stall_timer;
    crti_map_t lease_askers; /* lease id -> who asked */

    bool ready; /* told the parent */
    bool stopping;
    crti_timer_t stop_timer;
    uint64_t flush_until_ns; /* all are gone; the last words go out */
    bool
        is_clash; /* its id is another node's: the process begins anew with another one */
    int exit_status;
    char start_error[512];
    crti_timer_t start_timer;
};

/* ---------------------------------------------------------------- node.c */

/* Starts everything that does not need the head, and begins to connect. `run` the loop then. */
crt_status_t crti_node_new(const crti_options_t *options, crti_node_t **node_out);
/* Serves until it is stopped; the exit status of the process. */
int crti_node_run(crti_node_t *node);
void crti_node_free(crti_node_t *node);
/* After the run: is the process to make another node, with `options_out`, when this one is freed? */
bool crti_node_begins_anew(const crti_node_t *node, crti_options_t *options_out);

/* Begins the orderly end. */
void crti_node_stop(crti_node_t *node, const char *why);
/* The head can't tell its processes from another node's: it ends, and begins anew with another id. */
void crti_node_clash(crti_node_t *node, const char *why);
/* The end before `ready`: the parent hears why. */
void crti_node_fail_start(crti_node_t *node, const char *text);
/* NODE_REGISTERED came: node.info is written, and the first time the parent told. */
void crti_node_registered(crti_node_t *node, const crti_msg_node_registered_t *m);
/* A process, zygote or submission ended: while stopping, look whether all are gone. */
void crti_node_check_stopped(crti_node_t *node);
/* Processes that were left to this daemon and that nobody waits for. */
void crti_node_reap_orphans(crti_node_t *node);
/* True when a record of this daemon waits for that child's end. */
bool crti_node_has_child(crti_node_t *node, pid_t pid);

/* ---------------------------------------------------------------- tick.c */

uint64_t crti_node_now(const crti_node_t *node);
void crti_node_start_ticks(crti_node_t *node);
/* The tables' time moved or their deadlines may have. */
void crti_node_schedule_tick(crti_node_t *node, uint64_t at_ns);

/* ---------------------------------------------------------------- local.c */

crt_status_t crti_local_listen(crti_node_t *node);
void crti_local_listen_no_more(crti_node_t *node);
crti_local_t *crti_local_get(crti_node_t *node, uint64_t number);
/* Sends to a process if it is attached. */
void crti_local_send(crti_process_t *process, crti_message_kind_t kind, uint64_t request,
                     const void *body);
/* To all attached processes. */
void crti_local_broadcast(crti_node_t *node, crti_message_kind_t kind, const void *body);
void crti_local_close(crti_local_t *local);
crti_process_t *crti_process_get(crti_node_t *node, crti_id_t id);
/* A process that misbehaved, or whose link broke: a worker is killed, a driver's connection is
 * closed; its death follows. */
void crti_process_cut(crti_process_t *process, const char *why);
/* The lowest free slot of the store; CRT_ERR_BACKPRESSURE when all are taken. */
crt_status_t crti_slot_take(crti_node_t *node, unsigned *slot_out);
/* The process is gone: what it held in the store comes back at once. */
void crti_slot_give(crti_process_t *process);

/* ---------------------------------------------------------------- spawn.c */

crt_status_t crti_process_new(crti_node_t *node, crti_id_t id, unsigned role,
                              crti_process_t **process_out);
void crti_process_free(crti_process_t *process);
/* Makes the process of a worker that the worker table wants. */
void crti_spawn_worker(crti_node_t *node, crti_worker_t *worker);
/* LOG_FLUSH of a worker. */
void crti_spawn_flush(crti_process_t *process, uint64_t request);
/* Its job can make workers now. */
void crti_spawn_go(crti_process_t *process);
/* ATTACH of a worker was refused: its purpose fails with the reason. */
void crti_spawn_refused(crti_node_t *node, const crti_msg_attach_t *attach,
                        const char *text);
/* It can't be made, or the zygote said no. */
void crti_spawn_failed(crti_process_t *process, crt_status_t status, const char *text);
void crti_spawn_forked(crti_process_t *process, pid_t pid);
crt_status_t crti_process_watch(crti_process_t *process);

#define CRTI_EXEC_STRINGS 2048 /* most arguments, and variables, of a submitted job */

typedef struct crti_exec {
    int exec_fd; /* the executable, or -1: what is at `path` */
    const char *path;
    bool is_silent; /* the file server of `path`: nobody looks there */
    char *const *argv;
    char *const *environment;
    const char *directory; /* entered if it exists */
    int stdout_fd, stderr_fd;
    int keep_fd; /* inherited under its number, -1 none */
    bool
        is_worker; /* or will fork some: the first that the kernel takes without memory */
} crti_exec_t;

/* Executes a program in its own process group, with a parent-death signal, and does not wait for it: a
 * directory whose file server does not answer holds the new process up, not this one. `report_out` is for
 * crti_exec_result; NULL: why it can't be executed is written to its stderr. */
crt_status_t crti_exec_start(const crti_exec_t *exec, pid_t *pid_out, int *report_out);
/* Waits until the program is executed, or tells why it can't be. Of a process that has ended that is
 * known. Closes the report; -1 is one that has nothing to tell. */
crt_status_t crti_exec_result(int *report_take, const char *path);

/* ---------------------------------------------------------------- job.c */

/* The job's record, made when it is not known. NULL: out of memory. */
crti_job_t *crti_job_get(crti_node_t *node, crti_id_t id);
crti_job_t *crti_job_find(crti_node_t *node, crti_id_t id);
/* A driver of this node brings all that is to know. */
crt_status_t crti_job_of_driver(crti_job_t *job, crti_process_t *driver,
                                const crti_msg_attach_t *attach);
/* Puts the process in the queue of those who wait for the job's program. */
void crti_job_want(crti_job_t *job, crti_process_t *process);
/* Asks the zygote to fork it, or executes the program for it: `fds` are its stdout and stderr.
 * crti_spawn_forked or _failed follows. */
crt_status_t crti_job_start_worker(crti_job_t *job, crti_process_t *process,
                                   const int fds[2]);
/* The driver ended or the head said so. */
void crti_job_end(crti_node_t *node, crti_id_t id, const char *text);
void crti_job_stop_all(crti_node_t *node);
bool crti_job_any_zygote(crti_node_t *node);
bool crti_job_has_zygote(crti_node_t *node, pid_t pid);
/* A process of the job, and its end. */
void crti_job_join(crti_job_t *job, crti_process_t *process);
void crti_job_process_gone(crti_process_t *process);
crti_id_t crti_job_id(const crti_job_t *job);
crti_id_t crti_job_driver_node(const crti_job_t *job);
crti_id_t crti_job_driver(const crti_job_t *job);
const char *crti_job_directory(const crti_job_t *job);
/* What a worker of the job has at its birth, of memory; written by memory.c, 0 before. */
uint64_t *crti_job_newborn_bytes(crti_job_t *job);
/* Jobs whose driver was on that node end. */
void crti_job_node_died(crti_node_t *node, crti_id_t dead);
/* True when its workers' lines go to the driver. */
bool crti_job_logs(const crti_job_t *job);
/* JOB_ADD bodies of the drivers of this node, as a list. */
crt_status_t crti_job_list(crti_node_t *node, crti_buffer_t *list);
void crti_job_free_all(crti_node_t *node);
/* An executable that a driver of this node runs: descriptor to read it, -1 none. */
int crti_job_program_fd(crti_node_t *node, crti_span_t sha);
/* JOB_ADD to the head; `on_answer` gets its answer. */
crt_status_t crti_job_announce(crti_job_t *job, crti_head_answer_t *on_answer,
                               crti_id_t id, uint64_t number);
/* Answers the driver's leave_request when its job's workers on this node are gone, and those of its
 * actors that the head ends with the job. */
void crti_job_await_end(crti_process_t *driver);
/* Its driver, a process of this node, is gone: its workers end, the head hears it. */
void crti_job_driver_gone(crti_process_t *driver, const char *text);

/* So many FORKs of a job are under way at once; more workers wait without any file. */
#define CRTI_JOB_FORKING_MAX 64

/* ---------------------------------------------------------------- death.c, watch.c */

/* A driver said that it leaves; with a request it hears when what ran for it here has ended. */
void crti_death_driver_leaves(crti_process_t *process, uint64_t request,
                              const crti_msg_shutdown_t *message);
/* A driver closed its link: it left the cluster, whether its process lives on or not. */
void crti_death_driver_closed(crti_process_t *process);
/* The pidfd of a process is readable. */
void crti_death_noticed(crti_process_t *process);
/* The zygote told the wait status, or is gone itself. */
void crti_death_reaped(crti_process_t *process, int wait_status);
void crti_death_zygote_gone(crti_process_t *process);
/* SIGKILL to a process and its group. */
void crti_process_kill(crti_process_t *process);

/* A process somewhere in the cluster ended. */
void crti_process_died(crti_node_t *node, const crti_msg_peer_died_t *died);
void crti_node_died(crti_node_t *node, const crti_msg_node_died_t *died);

void crti_watch_add(crti_process_t *watcher, const crti_msg_watch_t *watch);
void crti_watch_add_node(crti_node_t *node, crti_id_t from,
                         const crti_msg_watch_t *watch);
/* The same for a worker that another node granted: that node tells without being asked. */
void crti_watch_note(crti_node_t *node, crti_id_t watcher, const crti_msg_watch_t *watch);
void crti_watch_remove(crti_process_t *watcher, crti_id_t target);
void crti_watch_remove_node(crti_node_t *node, crti_id_t from, crti_id_t target);
void crti_watch_drop(crti_node_t *node, crti_id_t watcher); /* it ended itself */
void crti_watch_fire(crti_node_t *node, const crti_msg_peer_died_t *died);
void crti_watch_node_died(crti_node_t *node, crti_id_t target_node);
/* The head does not know that node: whoever watches its processes hears that they are gone. */
void crti_watch_no_node(crti_node_t *node, crti_id_t target_node, const char *text);
/* What this node watches there, said again after a reconnect. */
void crti_watch_again(crti_node_t *node, crti_id_t target_node);
void crti_watch_tick(crti_node_t *node, uint64_t now_ns);
void crti_watch_free(crti_node_t *node);
/* Remembers deaths for those who ask late. */
void crti_dead_add(crti_node_t *node, const crti_msg_peer_died_t *died);

/* True when that process is among them. */
bool crti_dead_is(const crti_node_t *node, crti_id_t process);
/* This node itself wants to hear of the end of a process that owns objects here; the watch ends
 * when a sweep of owner.c has not asked for it. */
void crti_watch_owner(crti_node_t *node, const crti_msg_watch_t *watch);
void crti_watch_owners_seen(crti_node_t *node);

/* ---------------------------------------------------------------- owner.c */

/* Its objects go with a tick, soon. */
void crti_owner_died(crti_node_t *node, crti_id_t owner);
/* When the next tick is due; the sweep comes with the ticks that there are. */
uint64_t crti_owner_tick(crti_node_t *node, uint64_t now_ns);
void crti_owner_node_died(crti_node_t *node, crti_id_t dead);
void crti_owner_node_lives(crti_node_t *node, crti_id_t id);
void crti_owner_free(crti_node_t *node);

/* ---------------------------------------------------------------- stall.c */

/* Begins to look for processes that hold the store up. */
crt_status_t crti_stall_start(crti_node_t *node);

/* ---------------------------------------------------------------- memory.c */

/* Begins to watch the node's memory. */
crt_status_t crti_memory_start(crti_node_t *node);
/* A worker begins a lease. */
void crti_memory_began(crti_process_t *process);
/* A worker that has done nothing yet begins an actor. */
void crti_memory_born(crti_process_t *process);
/* Its process is gone. */
void crti_memory_gone(const crti_process_t *process);
/* True when the kernel killed a process for lack of memory since this was asked last. */
bool crti_memory_kernel_killed(crti_node_t *node);

/* ---------------------------------------------------------------- lease.c */

/* Carries out what the tables decided; safe to call from anywhere. */
void crti_lease_act(crti_node_t *node);
/* A request of a process of this node (`local`), or of another node (`stream` of an inbound link). */
void crti_lease_asked(crti_node_t *node, uint64_t local, crti_stream_t *stream,
                      uint64_t request, const crti_msg_lease_request_t *ask);
void crti_lease_returned(crti_node_t *node, const crti_msg_lease_return_t *back);
void crti_lease_cancelled(crti_node_t *node, crti_id_t lease);
/* Another node answered (GRANTED, or ERROR), or its link broke (NULL). */
void crti_lease_answered(crti_node_t *node, crti_id_t lease,
                         const crti_message_t *answer);
void crti_lease_waiting(crti_node_t *node, const crti_msg_lease_waiting_t *waiting);
/* An inbound link closed: what it asked for and was not granted is dropped. */
void crti_lease_stream_closed(crti_node_t *node, crti_stream_t *stream);
void crti_lease_local_closed(crti_node_t *node, uint64_t local);
/* Its owner is dead: leases end, their workers too. */
void crti_lease_owner_died(crti_node_t *node, crti_id_t owner, crti_id_t owner_node);
/* The demand that waits here, as a list of LEASE_REQUEST messages. */
crt_status_t crti_lease_demand(crti_node_t *node, crti_buffer_t *list);
void crti_lease_free(crti_node_t *node);
/* A worker's process is gone: its lease ends and its owner hears of it. */
void crti_lease_worker_died(crti_process_t *process, crt_status_t status,
                            const char *text);
/* The function that a worker runs, or "". */
const char *crti_lease_function(crti_node_t *node, const crti_worker_t *worker);

/* ---------------------------------------------------------------- actor.c */

void crti_actor_start(crti_node_t *node, uint64_t request,
                      const crti_msg_actor_start_t *start);
void crti_actor_stop(crti_node_t *node, uint64_t request,
                     const crti_msg_actor_stop_t *stop);
void crti_actor_end_id(crti_node_t *node, crti_id_t id, const char *text);
void crti_actor_assigned(crti_node_t *node, crti_worker_t *worker);
void crti_actor_failed(crti_node_t *node, crti_id_t actor, crt_status_t status,
                       const char *text);
void crti_actor_create_failed(crti_process_t *process,
                              const crti_msg_actor_failed_t *failed);
void crti_actor_process_died(crti_process_t *process, crt_status_t status,
                             const char *text);
/* What ATTACHED tells the worker of an actor. */
void crti_actor_fill(crti_node_t *node, crti_id_t actor, crti_msg_attached_t *attached);
const char *crti_actor_class(crti_node_t *node, crti_id_t actor, char *text, size_t size);
crt_status_t crti_actor_list(crti_node_t *node, crti_buffer_t *list);
void crti_actor_free_all(crti_node_t *node);

/* ---------------------------------------------------------------- fence.c */

void crti_fence_init(crti_node_t *node);
/* A heartbeat is about to be sent. */
void crti_fence_sent(crti_node_t *node, uint64_t sequence);
/* The head has answered it: workers of fenced actors may start calls for a while from its sending. */
void crti_fence_acknowledged(crti_node_t *node, uint64_t sequence);
/* The worker, which has a blackboard, will serve a fenced actor. */
void crti_fence_add(crti_process_t *process);
/* It is to end: it starts no call any more, whatever the head acknowledges. */
void crti_fence_shut(crti_process_t *process);

/* ---------------------------------------------------------------- submission.c */

void crti_submission_start(crti_node_t *node, uint64_t request,
                           const crti_msg_job_start_t *start);
void crti_submission_stop(crti_node_t *node, uint64_t request, crti_id_t job);
void crti_submission_stop_all(crti_node_t *node);
/* Its requests have nobody any more to answer to; it makes them again. */
void crti_submission_head_lost(crti_node_t *node);
void crti_submission_kill_all(crti_node_t *node);
bool crti_submission_has(crti_node_t *node, pid_t pid);
bool crti_submission_any(crti_node_t *node);
/* The log file of a submission. CRT_ERR_NOT_FOUND. */
crt_status_t crti_submission_log(crti_node_t *node, const char *name, char *path,
                                 size_t size, bool *ended_out);
void crti_submission_free_all(crti_node_t *node);

/* ---------------------------------------------------------------- head.c */

#define CRTI_REGISTER_REQUEST 1 /* request number of NODE_REGISTER */

void crti_head_init(crti_node_t *node);
void crti_head_connect(crti_node_t *node);
/* The link is broken, or is to be given up: another is made. */
void crti_head_lost(crti_node_t *node, const char *why);
/* Asks the head; sent again after each reconnect until it is answered. */
crt_status_t crti_head_ask(crti_node_t *node, crti_message_kind_t kind, const void *body,
                           crti_head_answer_t *on_answer, crti_id_t id, uint64_t number);
/* The questions of that kind asked with that id are asked no more, and their answers not heard: whoever
 * asked them is gone, and would not end what they make. */
void crti_head_drop(crti_node_t *node, crti_message_kind_t kind, crti_id_t id);
/* A notice, or an answer to a request of the head. Lost without a link: what must not be lost
 * is part of NODE_REGISTER, a question, or a death. Notices go out as soon as NODE_REGISTER
 * went: what ends after it is still in that report. */
void crti_head_send(crti_node_t *node, crti_message_kind_t kind, uint64_t request,
                    const void *body);
void crti_head_send_error(crti_node_t *node, uint64_t request, crt_status_t status,
                          const char *text);
/* A process of this node ended: told when there is a link. */
void crti_head_tell_death(crti_node_t *node, const crti_msg_peer_died_t *died);
/* A request of a local connection that the head answers; dropped with the connection. */
void crti_head_forward(crti_local_t *local, const crti_message_t *message);
void crti_head_local_closed(const crti_local_t *local);
void crti_head_changed(crti_node_t *node); /* heartbeat soon */
void crti_head_leave(crti_node_t *node, const char *why);
void crti_head_free(crti_node_t *node);
/* STATE_QUERY "workers" of the head (state.c). */
void crti_state_asked(crti_node_t *node, uint64_t request,
                      const crti_msg_state_query_t *query);

/* ACTOR_WATCH of local processes. */
void crti_actor_watch(crti_local_t *local, const crti_message_t *message);
void crti_actor_unwatch(crti_node_t *node, crti_id_t process, crti_id_t actor);
void crti_actor_watch_drop(crti_node_t *node, crti_id_t process);
void crti_actor_watch_again(crti_node_t *node);
void crti_actor_state(crti_node_t *node, const crti_msg_actor_state_t *state);
void crti_actor_watch_free(crti_node_t *node);

/* ---------------------------------------------------------------- peer.c, transfer.c */

typedef enum crti_lane { CRTI_LANE_CONTROL, CRTI_LANE_BULK, CRTI_LANES } crti_lane_t;

crt_status_t crti_peer_listen(crti_node_t *node);
/* On the same port, with the streams of other nodes encrypted or not, as the cluster has it. */
crt_status_t crti_peer_listen_again(crti_node_t *node, bool encrypt);
void crti_node_view(crti_node_t *node, const crti_msg_node_view_t *view);
/* The node that a process id names, if it is one that this node has heard of. */
bool crti_peer_of_process(crti_node_t *node, crti_id_t process, crti_id_t *id_out);
/* As a notice, and said again on every new link until it was heard or the node is dead. To hear it
 * twice is to hear it once. */
void crti_node_send_reliable(crti_node_t *node, crti_id_t to, crti_message_kind_t kind,
                             const void *body);
/* A notice to another node. What is said to one that this node has not heard of waits until the
 * head has told who it is, and is dropped when there is no such node. */
void crti_node_send(crti_node_t *node, crti_id_t to, crti_message_kind_t kind,
                    const void *body);
/* A request; the answer goes to lease.c, transfer.c or program fetches by its kind. `token` and
 * `object` are given back. Waits like a notice; without such a node it fails by that answer. */
typedef struct crti_peer_ask {
    crti_message_kind_t kind;
    crti_id_t id;            /* lease or job */
    crti_object_id_t object; /* OBJECT_GET */
    uint64_t offset, length;
    uint32_t attempt;
} crti_peer_ask_t;
crt_status_t crti_node_ask(crti_node_t *node, crti_id_t to, crti_lane_t lane,
                           const crti_peer_ask_t *ask, const void *body);
/* A notice that follows what was asked by that lane; dropped when there is no link. */
void crti_node_send_ordered(crti_node_t *node, crti_id_t to, crti_lane_t lane,
                            crti_message_kind_t kind, const void *body);
/* Tells the pulls of nodes that were asked for objects and of which nothing came for a while. */
void crti_peer_look_for_silence(crti_node_t *node);
/* What it sends is wrong from now on: the connection ends at once. */
void crti_inbound_cut(crti_node_t *node, crti_stream_t *stream);
/* The memory is given up: a payload on its way into it is thrown away. */
void crti_node_discard(crti_node_t *node, const void *memory, size_t size);
void crti_node_forget(crti_node_t *node, crti_id_t id);
void crti_node_answer_error(crti_stream_t *stream, uint64_t request, crt_status_t status,
                            const char *text);
void crti_peer_free_all(crti_node_t *node);
void crti_inbound_free_all(crti_node_t *node);

#define CRTI_FREE_ENTRY 40 /* bytes of an entry in FREE: object, node */

void crti_pull_asked(crti_node_t *node, uint64_t local, uint64_t request,
                     crti_id_t process, const crti_msg_pull_t *pull);
void crti_pull_act(crti_node_t *node);
/* Where the payload of an OBJECT_DATA goes: NULL when it is wanted no more, or `size`, the whole
 * object's, is not what was expected. */
void *crti_pull_place(crti_node_t *node, const crti_peer_ask_t *ask, uint64_t size);
/* The part is there, or (`text` not NULL) `from` could not give it. */
void crti_pull_part(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                    const char *text);
void crti_pull_elsewhere(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                         const crti_msg_object_elsewhere_t *elsewhere);
/* `from` asks by `stream` for a part. */
void crti_object_serve(crti_node_t *node, crti_id_t from, crti_stream_t *stream,
                       uint64_t request, const crti_msg_object_get_t *get);
void crti_object_left(crti_node_t *node, crti_id_t from,
                      const crti_msg_object_leave_t *left);
/* Before the stream of an inbound link is freed. */
void crti_object_stream_closed(crti_node_t *node, crti_stream_t *stream);
void crti_object_free(crti_node_t *node, crti_span_t objects);
void crti_pull_free(crti_node_t *node);
/* pull_retry.c: the link to `from` broke under a question for a part of the object. */
void crti_pull_unreachable(crti_node_t *node, crti_object_id_t object, crti_id_t from);
/* True: this ANSWER is not told, its requester waits for another attempt. */
bool crti_pull_begins_again(crti_node_t *node, crti_pull_action_t *answer);
void crti_pull_retry_node_died(crti_node_t *node, crti_id_t dead);
void crti_pull_retry_free(crti_node_t *node);

void crti_program_serve(crti_node_t *node, crti_stream_t *stream, uint64_t request,
                        const crti_msg_program_get_t *get);
/* Parts of a program that job `id` fetches. */
void *crti_program_place(crti_node_t *node, crti_id_t job, uint64_t offset,
                         uint64_t length, uint64_t size);
void crti_program_part(crti_node_t *node, crti_id_t job, uint64_t length,
                       const char *text);
/* The link broke under the question for a part, which comes next, without one: it is asked for again. */
void crti_program_unreachable(crti_node_t *node, crti_id_t job);

/* ---------------------------------------------------------------- logs.c */

void crti_logs_read(crti_node_t *node, uint64_t local, uint64_t request,
                    const crti_msg_log_read_t *read);
/* False: another node may have it. */
bool crti_logs_are_here(crti_node_t *node, crti_span_t name);
void crti_logs_local_closed(crti_node_t *node, uint64_t local);
/* Something was written to the log at `path`. */
void crti_logs_grown(crti_node_t *node, const char *path);
/* A process ended. */
void crti_logs_wake(crti_node_t *node);
void crti_logs_free(crti_node_t *node);

#endif
