/* SPDX-License-Identifier: Apache-2.0 */
/* Worker table: the worker processes of this node, from the request for one until its death was
 * told. Pure: events in, actions out.
 *
 * Where it sits
 *     node/leases/lease.c, node/actors/actor.c (who needs a worker), node/links/local.c (attach,
 *     ready, death)
 *         -> [ node/leases/worker_table.c ] -> actions (spawn, assign, shut down, kill, report)
 * Rules
 *     A worker is made for one task lease or one actor. After a lease it idles and takes the
 *     next lease of its job with the same number of CPUs (BLAS threads are fixed at its start) and
 *     the same environment (it was executed with that); so does one whose lease is cancelled while
 *     it is being made: programs whose tasks wait for their own tasks cancel thousands. One with
 *     GPUs ends with its lease: CUDA keeps memory of a GPU,
 *     and can't be told of another one. At most `keep` idle workers stay; more end after IDLE_NS,
 *     the oldest first. A worker that does not attach within START_NS, or does not end within
 *     END_NS, is killed. Where that does not end it, either (the zygote that is to fork it is
 *     stopped, it hangs in the kernel), it is given up END_NS later: a purpose that still waits for
 *     it fails. It stays in the table, and is killed again and again, until it is gone.
 * Ownership
 *     The table owns its workers; pointers are valid until the worker is DEAD and forgotten.
 *     `io` is the loop's.
 * Invariants
 *     Nothing follows DEAD. A purpose (lease or actor) is answered exactly once: ASSIGN or FAIL.
 */
#ifndef CRTI_NODE_WORKER_TABLE_H
#define CRTI_NODE_WORKER_TABLE_H

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/base/list.h"
#include "runtime/node/types.h"

/*              forked          attached         READY            lease
 *   WANTED ----------> FORKING --------> ATTACHED -----> IDLE <----------> LEASED
 *      |                  |                  |   |         |                  |
 *      |                  |                  |   +---------+-- actor --> ACTOR|
 *      |                  |                  |   |         |             |    |
 *      |                  |                  |   |         |   actor not needed, LEASED: max_calls
 *      |                  |                  |   |         |             v    |
 *      |                  |                  |   |         |         RETIRING |
 *      |                  v                  v   v         v             v    v
 *      |               ENDING <------- told to end: unused, job over, broken, killed
 *      v                  v
 *    DEAD <---------- process gone (from every state)
 */
typedef enum crti_worker_state {
    CRTI_WORKER_WANTED,   /* no process yet: its job's program is not ready */
    CRTI_WORKER_FORKING,  /* asked the zygote, or executed; nobody attached */
    CRTI_WORKER_ATTACHED, /* the local link is open, endpoints are not bound yet */
    CRTI_WORKER_IDLE,
    CRTI_WORKER_LEASED,
    CRTI_WORKER_ACTOR,    /* hosts its actor until it ends */
    CRTI_WORKER_RETIRING, /* was told to end when it has answered its calls */
    CRTI_WORKER_ENDING,   /* was told to end, or killed */
    CRTI_WORKER_DEAD,
    CRTI_WORKER_STATES
} crti_worker_state_t;

struct crti_worker {
    crti_id_t id; /* process id */
    crti_id_t job;
    double cpus;
    uint64_t gpus;                        /* bit i: GPU i of the node is given to it */
    struct crti_environment *environment; /* its own; NULL: the job's */
    bool is_actor;
    crti_id_t purpose; /* lease or actor id; zero when idle */
    crti_worker_state_t state;
    uint64_t deadline_ns; /* of FORKING, ATTACHED, RETIRING, ENDING; IDLE: since when */
    bool answered;        /* its purpose got ASSIGN or FAIL */
    bool was_killed;      /* KILL was said */
    bool is_given_up;     /* said END_NS ago, and it is still there */
    crti_list_t link;     /* by state */
    void *io;             /* the loop's; set when SPAWN was carried out */
};

typedef enum crti_worker_verb {
    CRTI_WORKER_SPAWN,    /* make a process for `worker` */
    CRTI_WORKER_ASSIGN,   /* `worker` serves `purpose` from now on */
    CRTI_WORKER_FAIL,     /* no worker for `purpose`: status, text */
    CRTI_WORKER_RETIRE,   /* tell it to end when it has answered its calls */
    CRTI_WORKER_SHUTDOWN, /* tell it to end */
    CRTI_WORKER_KILL,     /* SIGKILL to its process group */
    CRTI_WORKER_DISCARD,  /* it waits for its program: it need not, it is _died */
} crti_worker_verb_t;

typedef struct crti_worker_action {
    crti_worker_verb_t verb;
    crti_worker_t *worker; /* borrowed: valid until the next event */
    crti_id_t purpose;
    bool is_actor;
    crt_status_t status;
    char text[1024];
} crti_worker_action_t;

typedef struct crti_worker_table crti_worker_table_t;

/* `keep`: idle workers that stay. Caller owns the result and frees it with
 * crti_worker_table_free. */
crt_status_t crti_worker_table_new(size_t keep, crti_worker_table_t **table_out);
void crti_worker_table_free(crti_worker_table_t *table);
CRTI_DEFINE_AUTO(crti_worker_table_t *, crti_worker_table_free)

bool crti_worker_table_action(crti_worker_table_t *table,
                              crti_worker_action_t *action_out);

crti_worker_t *crti_worker_table_get(const crti_worker_table_t *table, crti_id_t id);
/* The worker that serves, or is being made for, this lease or actor. */
crti_worker_t *crti_worker_table_of(const crti_worker_table_t *table, crti_id_t purpose);
/* Walks all workers; `*cursor` starts at 0, NULL at the end. No event during the walk. */
crti_worker_t *crti_worker_table_next(const crti_worker_table_t *table, size_t *cursor);
size_t crti_worker_table_count(const crti_worker_table_t *table);

/* ---------------------------------------------------------------- events */

/* A lease or an actor needs a worker: an idle one is assigned, or one is spawned. `id` is the
 * process id that a new one gets; `environment` NULL: that of the job. */
crt_status_t crti_worker_table_want(crti_worker_table_t *table, crti_id_t id,
                                    crti_id_t job, bool is_actor, crti_id_t purpose,
                                    double cpus, uint64_t gpus,
                                    struct crti_environment *environment,
                                    uint64_t now_ns);

/* The process exists (or will: the zygote was asked). */
void crti_worker_table_forking(crti_worker_table_t *table, crti_worker_t *worker,
                               uint64_t now_ns);
/* False: it was told to end meanwhile, or attaches twice. */
bool crti_worker_table_attached(crti_worker_table_t *table, crti_worker_t *worker,
                                uint64_t now_ns);
/* It can be called. False: out of order. */
bool crti_worker_table_ready(crti_worker_table_t *table, crti_worker_t *worker,
                             uint64_t now_ns);

/* Its lease ended. `broken`: it is not used again. */
void crti_worker_table_released(crti_worker_table_t *table, crti_worker_t *worker,
                                bool broken, uint64_t now_ns);

/* Its purpose is gone before it was assigned: it serves the next one when it is there, and is not
 * made when that has not begun; an actor's ends. */
void crti_worker_table_unwanted(crti_worker_table_t *table, crti_id_t purpose,
                                uint64_t now_ns);

/* End it: by SHUTDOWN (then KILL after END_NS), or at once. */
void crti_worker_table_end(crti_worker_table_t *table, crti_worker_t *worker,
                           bool at_once, uint64_t now_ns);

/* End it when it has answered the calls that it has, RETIRE_NS later whatever it does; one that
 * does not host an actor yet at once, by SHUTDOWN. */
void crti_worker_table_retire(crti_worker_table_t *table, crti_worker_t *worker,
                              uint64_t now_ns);

/* All workers of a job that serve tasks or idle (`actors`: those of actors too). */
void crti_worker_table_end_job(crti_worker_table_t *table, crti_id_t job, bool actors,
                               bool at_once, uint64_t now_ns);

/* The process is gone, or could never be made. A purpose that was not answered gets FAIL with
 * status and text. The worker is forgotten: `worker` is invalid afterwards. */
void crti_worker_table_died(crti_worker_table_t *table, crti_worker_t *worker,
                            crt_status_t status, const char *text);

/* Time passed. The moment of the next tick that is needed, UINT64_MAX for none. */
uint64_t crti_worker_table_tick(crti_worker_table_t *table, uint64_t now_ns);

#endif
