/* SPDX-License-Identifier: Apache-2.0 */
/* Actor table: every actor of the cluster, its name, and its life. Pure: time is passed in.
 *
 * Where it sits
 *     requests, node reports -> control/control_actor.c -> [ control/tables/actor_table.c ]
 *     changes -> on_change: row to the store, ACTOR_STATE to the watchers
 * Rules
 *     A name belongs to one actor of its namespace that is not dead. Each placement has an
 *     incarnation of its own, counted up, so that reports about an earlier one are known as such. A
 *     death while STARTING or ALIVE costs a restart; a node that refuses (no room, before anything
 *     of the user ran) does not. An actor whose create function failed is not restarted. The first
 *     restart comes at once. A process that dies young again (it could not start, or served less
 *     than YOUNG_NS) is followed after a pause that doubles with each such death; one that lived
 *     longer, was killed by its user, or went with its node is followed at once. Pauses are not
 *     stored: a head that comes back tries at once. A name that two living rows claim belongs to
 *     the later actor: it was made when the other one had died, and the row that said so was lost.
 * Ownership
 *     The table owns its entries. Dead ones lose their creation record at once, stay to be
 *     asked about (at most DEAD_MAX, for DEAD_KEEP_NS) and are then forgotten by the table's
 *     user.
 */
#ifndef CRTI_CONTROL_ACTOR_TABLE_H
#define CRTI_CONTROL_ACTOR_TABLE_H

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/base/scheduling.h"
#include "runtime/net/message.h"

#define CRTI_ACTOR_BACKOFF 5 /* so often: thousands that find no room ask seldom */
#define CRTI_ACTOR_PAUSES  8 /* so often: at most 12.8 s */
#define CRTI_ACTOR_STATES  5 /* the numbers are CRTI_ACTOR_* of protocol.h */

/*            placed              created
 *  PENDING -----------> STARTING ---------> ALIVE
 *     ^                  |  |  ^              |
 *     +--- refused ------+  |  | placed       | process or node died, restarts left
 *                           v  | again        |
 *                        RESTARTING <---------+
 *
 *  Every state may also go straight to DEAD: killed, its job or owner ended, create failed, no
 *  restarts left. Nothing follows DEAD.
 */
typedef struct crti_actor_entry {
    crti_id_t id;
    /* As its owner asked for it, in a block of its own. `lifetime`: the ref that says when it ends
     * (0: none), of which the owner is asked at `owner_tcp`. A dead one has no `creation` and no
     * `environment`. */
    crti_msg_actor_create_t *made;
    char *full_name; /* "namespace/name", by which it is found; "" without a name */
    uint64_t serial; /* in the order they were made */
    /* where it may run; crti_scheduling_default is not its own */
    const crti_scheduling_t *how;
    int64_t bundle;      /* of its placement group, in which it is; -1: not known */
    crti_buffer_t saved; /* what its next process begins with */

    unsigned state;
    uint64_t incarnation; /* of the latest placement; 0: never placed */
    uint64_t restarts;
    crti_id_t node; /* STARTING, ALIVE: where; else where it was last */
    crti_id_t process;
    int64_t pid; /* ALIVE: of the process, as its host numbers it; 0: not known yet */
    uint64_t process_incarnation;
    char *ipc, *tcp;
    /* DEAD: CRT_OK when it was meant to end, with its job or by its user */
    crt_status_t status;
    char *text; /* PENDING: what it waits for; DEAD: why */
    int64_t end_ms;

    bool unsaved;    /* its first row is on the way to the store */
    bool superseded; /* loaded; a later actor has its name, so its death was not stored */
    bool start_written; /* STARTING: the row is durable, ACTOR_START was sent */
    /* STARTING: number of the ACTOR_START that has no answer; else 0 */
    uint64_t start_request;
    uint64_t retry_ns; /* PENDING, RESTARTING: not placed before */
    uint64_t waits_ns; /* the same: when it found no room first; 0: it has not */
    /* fenced: until then its last process may take calls; 0: it has ended */
    uint64_t fence_ns;
    unsigned refusals;   /* since it lived last, at most CRTI_ACTOR_BACKOFF */
    unsigned deaths;     /* young ones in a row */
    uint64_t alive_ns;   /* when its process began to serve, 0: not yet */
    bool is_moved;       /* its process ends so that another node serves it */
    bool is_killed;      /* its user has its process killed, to be restarted */
    bool ran_no_call;    /* its last process, which died in create */
    uint64_t expires_ns; /* DEAD */
    uint64_t *watchers;  /* links */
    size_t watcher_count;
    crti_list_t in_state; /* waiting, placed or dead list */
    crti_list_t in_node;  /* of its node, while it is placed (control_actor.c) */
} crti_actor_entry_t;

#define CRTI_ACTOR_OF(item)      CRTI_CONTAINER(item, crti_actor_entry_t, in_state)
#define CRTI_ACTOR_OF_NODE(item) CRTI_CONTAINER(item, crti_actor_entry_t, in_node)

/* `stored`: the state changed, not only what is shown. */
typedef void crti_actor_changed_t(void *user, crti_actor_entry_t *actor, unsigned before,
                                  bool stored);

typedef struct crti_actor_table {
    crti_map_t by_id, by_name;
    crti_list_t waiting; /* PENDING, RESTARTING: the longest first */
    crti_list_t placed;  /* STARTING, ALIVE */
    crti_list_t dead;    /* oldest first */
    size_t counts[CRTI_ACTOR_STATES];
    uint64_t last_serial;
    uint64_t fenced_until_ns; /* the latest fence of a dead actor */
    crti_actor_changed_t *on_change;
    void *user;
} crti_actor_table_t;

void crti_actor_table_init(crti_actor_table_t *table, crti_actor_changed_t *on_change,
                           void *user);
void crti_actor_table_fini(crti_actor_table_t *table);

crti_actor_entry_t *crti_actor_table_get(const crti_actor_table_t *table, crti_id_t id);
/* DEAD, and nothing failed. */
bool crti_actor_entry_has_ended_well(const crti_actor_entry_t *actor);

/* The living actor of that name, NULL: none. */
/* "namespace/name", "" without a name: what names are compared by, of placement groups, too. A
 * namespace has no '/'. Caller frees it; NULL: out of memory. */
char *crti_full_name(crti_span_t name_space, crti_span_t name);
crti_actor_entry_t *crti_actor_table_find(const crti_actor_table_t *table,
                                          crti_span_t name_space, crti_span_t name);
/* Any of that name, whatever its namespace; when none lives, the one that died last. */
crti_actor_entry_t *crti_actor_table_find_any(const crti_actor_table_t *table,
                                              const char *name);
const char *crti_actor_state_name(unsigned state);

/* A new actor, PENDING and unsaved. CRT_ERR_EXISTS: the name is taken (the detail says by
 * which). The id must be new. */
crt_status_t crti_actor_table_create(crti_actor_table_t *table,
                                     const crti_msg_actor_create_t *message,
                                     crti_actor_entry_t **actor_out);
/* Takes back a creation that could not be stored: as if it had never been. */
void crti_actor_table_undo(crti_actor_table_t *table, crti_actor_entry_t *actor);

/* Rows of the store: first the creation, which stays unsaved and has no name until its second
 * row, what changed, is loaded. */
crt_status_t crti_actor_table_load_new(crti_actor_table_t *table,
                                       const crti_msg_actor_create_t *message);
crt_status_t crti_actor_table_load(crti_actor_table_t *table, crti_actor_entry_t *actor,
                                   const crti_msg_row_actor_t *row, uint64_t now_ns);

/* ---------------------------------------------------------------- events */

/* -> STARTING on `node`, with the next incarnation. */
void crti_actor_entry_placed(crti_actor_table_t *table, crti_actor_entry_t *actor,
                             crti_id_t node);

/* STARTING -> ALIVE. False: it is not that incarnation's turn (the process must end). */
bool crti_actor_entry_started(crti_actor_table_t *table, crti_actor_entry_t *actor,
                              uint64_t incarnation, crti_id_t process,
                              uint64_t process_incarnation, crti_span_t ipc,
                              crti_span_t tcp, uint64_t now_ns);

/* STARTING -> PENDING or RESTARTING: the node did not even begin. */
void crti_actor_entry_refused(crti_actor_table_t *table, crti_actor_entry_t *actor,
                              const char *text, uint64_t now_ns);

/* Its process, or (CRT_ERR_NODE_LOST) node, died. -> RESTARTING while there are restarts left and
 * `may_restart`, else DEAD. Ignored unless STARTING or ALIVE. */
void crti_actor_entry_died(crti_actor_table_t *table, crti_actor_entry_t *actor,
                           crt_status_t status, const char *text, bool may_restart,
                           uint64_t now_ns, int64_t wall_ms);

/* -> DEAD, from any state; ignored when it is. */
void crti_actor_entry_end(crti_actor_table_t *table, crti_actor_entry_t *actor,
                          crt_status_t status, const char *text, uint64_t now_ns,
                          int64_t wall_ms);

/* Its last process may take calls until then: neither this actor nor another one of its name is
 * placed before. Called before the event that ends it; of actors that are not fenced, nothing. */
void crti_actor_entry_fence(crti_actor_table_t *table, crti_actor_entry_t *actor,
                            uint64_t until_ns);
/* That process is known to have ended. */
void crti_actor_entry_unfence(crti_actor_table_t *table, crti_actor_entry_t *actor,
                              uint64_t incarnation);
/* A new actor, or one that was loaded, is placed behind the fences of dead ones of its name. */
void crti_actor_entry_wait_for_name(const crti_actor_table_t *table,
                                    crti_actor_entry_t *actor, uint64_t now_ns);

/* What a waiting actor waits for. */
void crti_actor_entry_waits(crti_actor_table_t *table, crti_actor_entry_t *actor,
                            const char *text);

bool crti_actor_entry_is_placed(const crti_actor_entry_t *actor); /* STARTING or ALIVE */

/* ---------------------------------------------------------------- watchers */

crt_status_t crti_actor_entry_watch(crti_actor_entry_t *actor, uint64_t link);
void crti_actor_entry_unwatch(crti_actor_entry_t *actor, uint64_t link);

/* ---------------------------------------------------------------- expiry */

/* The oldest dead one when there are too many or it is too old, else NULL. */
crti_actor_entry_t *crti_actor_table_expired(const crti_actor_table_t *table,
                                             uint64_t now_ns);
void crti_actor_table_forget(crti_actor_table_t *table, crti_actor_entry_t *actor);

/* The earliest moment after `done_ns` at which something is due, also one that is over; UINT64_MAX:
 * none. What was due until `done_ns` was looked at. */
uint64_t crti_actor_table_deadline(const crti_actor_table_t *table, uint64_t done_ns);

/* The row of its state, and the notice; they borrow from the entry. */
crti_msg_row_actor_t crti_actor_entry_row(const crti_actor_entry_t *actor);
crti_msg_actor_state_t crti_actor_entry_notice(const crti_actor_entry_t *actor);

#endif
