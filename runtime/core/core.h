/* SPDX-License-Identifier: Apache-2.0 */
/* Core: the library inside every driver and worker. Its structs, and what its files do for each
 * other.
 *
 * Where it sits
 *     crt.h -> outgoing.c (calls) -> actor.c, submit.c -> peers.c -> net
 *     net -> peers.c (records) -> incoming.c, execute.c -> user code -> call.c -> peers.c
 *     refs.c, value_of.c, value_retry.c: objects and their values; node_link.c: the node daemon
 * Threads
 *     The net's lock covers everything here (crti_enter takes it). Handlers of the net, the
 *     node link and timers run under it. User code, and copying of large values, do not.
 * Ownership
 *     A ref lives while anybody holds it (ownership.h, borrow.h); everything else says below.
 * Failure
 *     The link to the node daemon ends: a worker exits at once, a driver's calls and waits fail
 *     with core->broken.
 */
#ifndef CRTI_CORE_CORE_H
#define CRTI_CORE_CORE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "runtime/base/blackboard.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/base/resources.h"
#include "runtime/core/borrow.h"
#include "runtime/core/contained.h"
#include "runtime/core/handles.h"
#include "runtime/core/lease.h"
#include "runtime/core/numbers.h"
#include "runtime/core/ownership.h"
#include "runtime/core/pool.h"
#include "runtime/core/printed.h"
#include "runtime/core/private_cluster.h"
#include "runtime/core/program.h"
#include "runtime/core/record.h"
#include "runtime/core/result_wait.h"
#include "runtime/net/channel.h"
#include "runtime/net/key.h"
#include "runtime/net/net.h"
#include "runtime/store/store.h"

#define CRTI_INLINE_MAX  65536 /* larger results and arguments go to the store */
#define CRTI_PUT_INLINE  4096  /* larger puts go to the store */
#define CRTI_STORE_WAIT  (5 * CRTI_S)
#define CRTI_QUEUE_BYTES ((size_t)16 << 20)  /* calls that wait for one actor */
#define CRTI_TASK_BYTES  ((size_t)128 << 20) /* tasks of a shape that wait */
#define CRTI_SUSPECT_NS  (10 * CRTI_S) /* how long a lost session may stay unexplained */
#define CRTI_REPORT_NS   (500 * CRTI_MS) /* how long the head may take to explain a death */

typedef struct crti_core crti_core_t;
typedef struct crti_pending crti_pending_t;

/* ---------------------------------------------------------------- processes */

/* Another process that we call, borrow from or lend to. Lives while `uses` > 0. */
typedef struct crti_remote {
    crti_address_t address;
    crti_peer_t *peer;     /* the session that we made; NULL: none */
    crti_list_t in_flight; /* crti_pending_t.link: calls that it has to answer */
    crti_list_t
        owner_requests;   /* crti_owner_request_t: what it has to hear, and answer */
    crti_list_t watchers; /* crti_process_watch_t.link */
    uint32_t uses;
    int64_t pid;          /* when its death was told, 0 not known */
    uint64_t carried_out; /* the highest request about our objects, borrowers.c */
    uint64_t copy_query; /* the request of COPY_QUERY that it has not answered, 0: none */
    bool is_watched, is_borrower, is_dead, are_due; /* ... to be sent again */
} crti_remote_t;

/* Somebody who wants to know when a process ends. A member of the owner's struct. */
typedef struct crti_process_watch {
    crti_list_t link;      /* remote->watchers */
    crti_remote_t *remote; /* used; NULL: not watching, or it has ended */
    /* Called at most once, under the lock, not inside crti_process_watch. `status` is
     * CRT_ERR_ACTOR_DIED, or CRT_ERR_NODE_LOST when its whole node is gone. */
    void (*on_ended)(struct crti_process_watch *watch, crt_status_t status,
                     const char *text);
} crti_process_watch_t;

/* A session that another process made to us: it calls, we answer. */
typedef struct crti_client {
    crti_list_t link; /* core->clients */
    crti_core_t *core;
    crti_peer_t *peer;
    crti_list_t calls;   /* crt_call_t.of_client: not answered yet, in order */
    crti_list_t blocked; /* crt_call_t.link: behind one whose arguments are not here */
    crti_map_t asked;    /* number of an object -> its question, locating.c */
    crti_list_t answers; /* of these, those that wait for room in its window */
    uint64_t copy_query; /* as of a remote */
    uint32_t refs;
    bool is_lost;
} crti_client_t;

/* ---------------------------------------------------------------- refs */

/* What the modules above refs.c do for it; under the lock. */
typedef struct crti_ref_handlers {
    /* Somebody wants its content; its bytes in this process: true when they can be read, or it failed. */
    void (*locate)(crt_ref_t *ref);
    bool (*fetch)(crt_ref_t *ref);
    /* It has `forwards`, and its content or the places of its copies have changed. */
    void (*moved)(crt_ref_t *ref);
    /* Owned: no copy is known any more (CRTI_OWNED_MISSED); one is again (CRTI_OWNED_FOUND). */
    void (*missed)(crt_ref_t *ref);
    void (*found)(crt_ref_t *ref);
} crti_ref_handlers_t;

typedef enum crti_content {
    CRTI_CONTENT_NONE,   /* not known yet */
    CRTI_CONTENT_INLINE, /* bytes, size */
    CRTI_CONTENT_STORED, /* object, size; `view` when it is pinned here */
    CRTI_CONTENT_FAILED  /* error */
} crti_content_t;

/* Somebody waits for a ref. A member of the waiter's struct; called once, then unlinked. */
typedef struct crti_waiting {
    crti_list_t link;
    void (*on_ready)(struct crti_waiting *waiting, crt_ref_t *ref);
} crti_waiting_t;

typedef struct crti_error {
    crt_error_t user; /* texts lie behind the struct */
    crti_id_t actor, node;
    char actor_hex[CRTI_ID_HEX], node_hex[CRTI_ID_HEX];
} crti_error_t;

struct crt_ref {
    crti_object_id_t id; /* first: a pool writes there */
    crti_core_t
        *core; /* NULL after a shutdown, only dropping is left; and once it is free */
    uint32_t handles; /* the user's */
    bool is_free;     /* nobody has held it any more */
    bool is_owned;
    bool is_tell; /* nobody will ask: errors are logged */
    union {
        crti_owned_t owned;
        crti_borrow_t borrow;
    };
    crti_remote_t *owner;           /* borrowed: who has it */
    crti_pending_t *call;           /* the call that makes it, NULL: none or done */
    crt_ref_t *forward;             /* its value is that ref's, forward.c */
    crti_waiting_t forward_waiting; /* for that, then in its `forwards` */
    crti_list_t forwards;           /* stored ones whose value is this one's */
    crti_list_t waiters;            /* crti_waiting_t: for content */
    crti_list_t local_waiters;      /* crti_waiting_t: for bytes that can be read here */
    crti_list_t uncovering; /* crti_end_wait_t: covers that end when we are registered */
    crti_list_t turn;       /* core->to_tell */

    crti_content_t content;
    bool is_locating, is_pulling, is_decoded;
    bool is_searched;         /* by crti_check_result_wait, which is going on */
    bool is_unconfirmed;      /* borrowed: `nodes` are not its owner's word */
    unsigned char evictions;  /* copies that were gone before they could be read */
    struct crti_again *again; /* its pull is repeated, value_retry.c */
    unsigned char small[24];  /* `bytes` of short values */
    void *bytes;
    size_t size;
    crti_object_id_t object; /* name in the stores */
    crti_id_t *nodes;        /* borrowed: where the owner said copies are */
    uint32_t node_count;
    uint64_t missing_until_ns; /* owned, MISSING: not lost before */
    crti_store_view_t view;
    crti_contained_t inner;
    crt_value_t value; /* decoded from `bytes` or `view` */
    void *memory;
    crti_error_t *error;
};

/* ---------------------------------------------------------------- actors and calls */

typedef enum crti_actor_phase {
    CRTI_ACTOR_WAITING, /* not known, placed, started or restarted: calls queue */
    CRTI_ACTOR_CALLABLE,
    CRTI_ACTOR_SUSPECT, /* its process is gone, its state not told yet: calls queue */
    CRTI_ACTOR_GONE     /* nothing follows */
} crti_actor_phase_t;

struct crt_actor {
    crti_core_t *core; /* NULL after a shutdown */
    crti_id_t id;
    char hex[CRTI_ID_HEX];
    char *class_name;
    const crti_class_t *class_; /* NULL: not in this program */
    uint32_t handles;           /* the user's */
    uint32_t holds;             /* handles, values and calls */
    crti_actor_phase_t phase;
    uint64_t incarnation;
    uint64_t suspect_deadline;
    crti_remote_t *remote; /* CALLABLE, DOUBTFUL */
    crti_list_t queue;     /* crti_pending_t.link: not sent, in order */
    crti_list_t attention; /* core->attention: the tick looks at it */
    crti_list_t
        doubtful; /* crti_pending_t.link: their process is gone, nobody said why */
    size_t queue_bytes;
    int64_t
        max_task_retries; /* how often each call may be made again; -1: without limit */
    bool is_watched, is_creating;
    bool
        is_unconfirmed; /* CALLABLE, DOUBTFUL: its place came with the handle, the head has
                          * not confirmed it */
    bool is_final; /* GONE, and a head that is killed and started again can't forget it */
    bool is_none;  /* GONE: it could not be made */
    crt_status_t status; /* why it is GONE; */
    char *text;
    char *report; /* of its process's death, while DOUBTFUL */
    crt_ref_t *
        *creation_refs; /* pinned while create may run; then the actor is held, too */
    size_t creation_count;
    bool may_restart;        /* create may run again for as long as it is not GONE */
    crt_ref_t *create_ended; /* the answer to whether it has; held */
    void (*on_callable)(crt_actor_t *actor); /* of who made it; may be NULL */
    crti_waiting_t waits_for_create;
};

/* Tasks of one shape of resources. */
typedef struct crti_task_pool {
    crti_list_t link; /* core->task_pools */
    crti_core_t *core;
    crti_resources_t resources;
    crti_lease_pool_t leases;
    crti_list_t queue; /* crti_pending_t.link: ready to be sent */
    size_t queue_bytes;
    bool said_waiting;
    char told[160]; /* the last reason shown for waiting */
} crti_task_pool_t;

typedef struct crti_task_lease {
    crti_lease_t lease;
    crti_task_pool_t *pool;
    crti_id_t id;
    crti_id_t node;
    crti_remote_t *remote; /* HELD, STUCK */
} crti_task_lease_t;

typedef enum crti_call_state {
    CRTI_CALL_ARGUMENTS, /* waits for refs that we own */
    CRTI_CALL_QUEUED,    /* in its actor's or pool's queue */
    CRTI_CALL_SENT,
    CRTI_CALL_INLINE /* runs in this thread */
} crti_call_state_t;

/* An argument of a call that is not encoded into its record yet. */
typedef struct crti_slot {
    crt_ref_t *ref;         /* its value is passed; NULL: the bytes at `offset` */
    size_t offset, size;    /* in pending->values */
    crti_waiting_t waiting; /* linked while the ref is pending */
    crti_pending_t *pending;
} crti_slot_t;

/* A call of this process that was not answered. */
struct crti_pending {
    crti_list_t link; /* in a queue, or in remote->in_flight */
    crti_core_t *core;
    crti_call_state_t state;
    crt_ref_t *result; /* held */
    const crti_function_t *function;
    crt_actor_t *actor;     /* held; NULL: a task */
    crti_task_pool_t *pool; /* of a task */
    crti_task_lease_t *lease;
    crti_remote_t *remote; /* SENT */
    uint64_t sequence;     /* of its record in the session */
    uint64_t number;       /* of this try: its result's, or one in core->retried */
    int64_t retries;       /* how often it was made again, */
    int64_t max_retries;   /* and may be, if it is a task; -1: without limit */
    unsigned missing;      /* slots whose refs are pending */
    crti_slot_t *slots;    /* NULL once the record is built */
    unsigned slot_count;
    bool may_have_run;    /* of one that is in doubt */
    bool on_unconfirmed;  /* SENT to a place that the head had not confirmed */
    crti_buffer_t values; /* bytes of slots */
    /* while it is queued; of what may be made again until it is answered */
    crti_buffer_t record;
    crt_ref_t *few_pins[4];
    crt_ref_t **pins; /* refs it needs */
    uint32_t pin_count, pin_room;
};

#include "runtime/core/execution.h"
#include "runtime/core/object.h"

/* ---------------------------------------------------------------- the process */

/* An answer of the node daemon. `message` is NULL when the link broke. */
typedef void crti_answer_handler_t(void *user, const crti_message_t *message);

/* How this process makes and takes streams of its own (collectives). */
typedef struct crti_stream_place {
    crti_key_t key;
    bool encrypt;
    char ip[64];                  /* "": it can't be reached from other nodes */
    uint16_t port_low, port_high; /* 0, 0: any */
} crti_stream_place_t;

struct crti_core {
    /* set by init, then constant */
    crti_stream_place_t streams;
    bool is_worker, no_log_to_driver;
    crti_id_t process, node, job, cluster, actor_id;
    char node_hex[CRTI_ID_HEX], job_hex[CRTI_ID_HEX];
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
    double cpus;
    crti_private_cluster_t private_cluster;
    bool has_private_cluster;

    /* under the lock */
    crti_channel_t *channel; /* to the node daemon */
    ino_t link_inode;        /* of its socket; 0: none yet */
    int channel_fd;          /* as added to the net; -1: not added */
    bool is_closing;
    bool is_leaving; /* only the end of what ran for this driver is waited for */
    crti_printed_t printed;
    bool head_is_away;   /* the node has no link to it */
    crt_status_t broken; /* not CRT_OK: the node daemon is gone */
    char *broken_text;
    uint64_t next_number, next_request;
    size_t next_sweep;      /* so many remotes are made before idle ones are looked for */
    uint64_t warned_ns;     /* when it was told last that an actor waits */
    crti_numbers_t owned;   /* number -> crt_ref_t */
    crti_numbers_t retried; /* number -> crti_pending_t, of calls that were made again */
    crti_map_t borrowed;    /* object id -> crt_ref_t */
    crti_map_t actors;      /* id -> crt_actor_t */
    crti_map_t remotes;     /* process id -> crti_remote_t */
    crti_numbers_t requests; /* request of the node link -> its handler */
    crti_numbers_t objects;  /* handles.h: those that are being written */
    crti_numbers_t handles;  /* the same: of actors */
    crti_list_t task_pools;
    crti_list_t clients;   /* crti_client_t.link */
    crti_list_t attention; /* crt_actor_t.attention */
    crti_list_t to_tell;   /* crt_ref_t.turn, held: while others are told */
    crti_list_t to_close;  /* of contained.c, while others are closed */
    bool is_telling, is_closing_inner;
    crti_id_t giver; /* whose result is being taken; zero: our own */
    crti_pool_t refs, pendings, calls;
    crti_buffer_t scratch; /* of records; taken while in use */
    crti_encoder_t encoder;
    crti_buffer_t frees; /* of FREE, sent by the tick */
    uint32_t free_count;
    int timer_fd;
    uint64_t timer_ns; /* when it fires; UINT64_MAX: not armed */
    /* Handlers of modules above those that call them; set by init. */
    crti_ref_handlers_t ref_handlers;
    void (*on_tick)(crti_core_t *core, uint64_t now_ns);
    void (*on_blocked)(crti_core_t *core); /* the main thread of a worker, by a wait */
    uint64_t tell_failures;
    uint64_t waits; /* of the main thread, counted: deadlock.c */
    char *
        deadlock; /* the cycle that the main thread's wait is part of, found by a chain */

    /* execution */
    crti_class_t const *class_; /* of the actor that lives here */
    void *self;
    bool is_created, is_ending, is_blocked;
    crti_list_t runnable, questions; /* crt_call_t.link; of crt_actor_ready */
    crti_result_waits_t result_waits;
    crti_list_t again;            /* refs whose pull is repeated, value_retry.c */
    uint64_t owner_requests_ns;   /* when owner_requests are sent again; 0: none */
    crti_list_t missing;          /* of ours that are wanted, missing.c; COPY_QUERY: */
    uint64_t copy_query_round;    /* the last one, */
    size_t copy_query_open;       /* of whose questions so many were not answered */
    crti_list_t copy_queries;     /* of others, not answered, copy_query.c */
    crt_call_t *running;          /* of the main thread */
    const crti_function_t *shown; /* whose name is on the blackboard */
    crt_ref_t *waits_for; /* what the main thread waits for, NULL: nothing, or several */
    unsigned inline_depth;
};

/* ------------------------------------------------------------------ entry.c */

/* The process's runtime with its lock taken; NULL with CRT_ERR_NOT_INITIALIZED or
 * CRT_ERR_FORKED raised. */
crti_core_t *crti_enter(void);
/* The same without an error: for what may be done after a shutdown, too. Not in a forked child. */
crti_core_t *crti_enter_quiet(void);
/* The same without taking the lock: it can't be shut down until crti_leave_unlocked. */
crti_core_t *crti_enter_unlocked(void);
void crti_leave(crti_core_t *core);
void crti_leave_unlocked(crti_core_t *core);
crt_status_t crti_entry_status(void); /* why crti_enter gave NULL */

/* Publishes the runtime to crti_enter, or takes it away: then waits until nobody is inside.
 * False: there is one already. */
bool crti_publish(crti_core_t *core);
void crti_unpublish(crti_core_t *core);
bool crti_is_forked(void);

/* crt_shutdown as the last act of a program that ends with `*exit_status`; NULL: it goes on. */
crt_status_t crti_shutdown(const int *exit_status);

/* A copy; the caller wipes the key. CRT_ERR_NOT_INITIALIZED, CRT_ERR_FORKED. */
crt_status_t crti_core_stream_place(crti_stream_place_t *place_out);

/* The call that this thread runs; NULL in a driver and in threads that a program made. */
crt_call_t *crti_running(void);
void crti_set_running(crt_call_t *call);

/* CRT_OK, or why nothing can be asked any more. */
crt_status_t crti_core_check(crti_core_t *core);

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

/* ------------------------------------------------------------------ timer.c */

/* core->on_tick is called at `at_ns` or before. */
void crti_core_wake_at(crti_core_t *core, uint64_t at_ns);

/* ------------------------------------------------------------------ dispatch.c */

extern const crti_net_handlers_t crti_core_handlers;
void crti_core_tick(crti_core_t *core, uint64_t now_ns);

/* ------------------------------------------------------------------ deaths.c */

/* The session that we made to it is lost. */
void crti_remote_lost(crti_core_t *core, crti_remote_t *remote,
                      const crti_net_loss_t *loss);
/* Deaths, as the node daemon tells them. */
void crti_process_died(crti_core_t *core, const crti_msg_peer_died_t *message);
void crti_node_died(crti_core_t *core, const crti_msg_node_died_t *message);
/* The node daemon is gone: everything that waits fails. */
void crti_core_break(crti_core_t *core, crt_status_t status, const char *text);

/* ------------------------------------------------------------------ remotes.c */

/* Finds or makes; gives a use. The address's ipc is derived when it is empty. */
crt_status_t crti_remote_use(crti_core_t *core, const crti_address_t *address,
                             crti_remote_t **remote_out);
/* PEER fields of a message as an address. */
crti_address_t crti_peer_address(crti_id_t process, uint64_t incarnation, crti_id_t node,
                                 crti_span_t ipc, crti_span_t tcp);
void crti_remote_unuse(crti_core_t *core, crti_remote_t *remote);
/* The session to it, made when there is none. */
crt_status_t crti_remote_connect(crti_core_t *core, crti_remote_t *remote);
/* Asks the node daemon to tell its death. */
void crti_remote_watch(crti_core_t *core, crti_remote_t *remote);
/* Sends a control record (never waits); a failure is the session's loss, told later. */
void crti_remote_send(crti_core_t *core, crti_remote_t *remote,
                      const crti_buffer_t *record);
/* CRT_ERR_BACKPRESSURE with CRTI_SEND_TRY; another failure is the session's loss, too. */
crt_status_t crti_peer_reply(crti_core_t *core, crti_peer_t *peer,
                             const crti_buffer_t *record, unsigned flags);
/* Calls watch->on_ended when the process ends, soon if it has ended already. */
crt_status_t crti_process_watch(crti_core_t *core, const crti_address_t *address,
                                crti_process_watch_t *watch);
void crti_process_unwatch(crti_core_t *core, crti_process_watch_t *watch);
/* It has ended: those that watch it are called. */
void crti_remote_ended(crti_core_t *core, crti_remote_t *remote, crt_status_t status,
                       const char *text);
/* Who made the session, made when it is not known yet. NULL: out of memory. */
crti_client_t *crti_client_of(crti_core_t *core, crti_peer_t *peer);
crti_client_t *crti_client_ref(crti_client_t *client);
void crti_client_unref(crti_client_t *client);

/* ------------------------------------------------------------------ refs.c */

/* A new object of this process, pending, held once by the caller. NULL: out of memory. */
crt_ref_t *crti_ref_new(crti_core_t *core);
/* The ref that a name stands for; found or made. It is not held: cover, hold or give it a token
 * at once. */
crt_status_t crti_ref_arrive(crti_core_t *core, const crti_ref_name_t *name,
                             crt_ref_t **ref_out);
crti_ref_name_t crti_ref_name(const crt_ref_t *ref);
extern const crti_naming_t crti_core_naming;

/* CRT_OK, or why a ref that the program gives can't be used: NULL, dropped, of before a shutdown. */
crt_status_t crti_ref_check(const crt_ref_t *ref);
void crti_ref_hold(crt_ref_t *ref);
void crti_ref_release(crt_ref_t *ref);
/* Holds of calls in flight. */
void crti_ref_pin(crt_ref_t *ref);
void crti_ref_unpin(crt_ref_t *ref);
/* Covers; when the end must wait, `ending` gets one more wait. */
void crti_ref_cover(crt_ref_t *ref);
void crti_ref_uncover(crt_ref_t *ref, crti_completion_t *ending);
void crti_ref_end_covers(crt_ref_t *ref); /* those that wait for our registration */
void crti_ref_add_token(crt_ref_t *ref);
void crti_completion_done(crti_completion_t *ending);

/* The content came. Bytes are copied. The first wins; later ones are ignored. */
void crti_ref_set_inline(crt_ref_t *ref, const void *bytes, size_t size);
void crti_ref_set_stored(crt_ref_t *ref, const crti_location_t *location,
                         crti_span_t table, bool has_tokens);
/* Where the copies of a stored one are now. */
crt_status_t crti_ref_move(crt_ref_t *ref, const crti_location_t *location);
void crti_ref_set_failed(crt_ref_t *ref, const crti_failure_t *failure);
void crti_ref_fail(crt_ref_t *ref, crt_status_t status); /* with this thread's detail */
/* From REPLY or LOCATED. `has_tokens`: its refs were registered for us. */
void crti_ref_set_result(crt_ref_t *ref, const crti_result_t *result, bool has_tokens);
void crti_ref_tell(crt_ref_t *ref); /* its content is known: those who wait hear so */
/* An inline value; the refs in it are made first, so that they are held before anybody is told. */
void crti_ref_set_value(crt_ref_t *ref, crti_span_t value, bool has_tokens);

/* The content of a ref that has one, as a result that can be sent; borrowed from the ref. */
void crti_ref_describe(crt_ref_t *ref, crti_result_t *result_out, crti_buffer_t *nodes);

void crti_ref_owner_answered(crt_ref_t *ref, bool gone);
void crti_ref_owner_died(crt_ref_t *ref, const char *text);
void crti_owned_bits(crt_ref_t *ref, unsigned bits);
void crti_borrowed_bits(crt_ref_t *ref, unsigned bits);
/* At shutdown: the user may still drop it. */
void crti_ref_orphan(crt_ref_t *ref);
void crti_ref_free_orphan(crt_ref_t *ref);

/* ------------------------------------------------------------------ error.c */

crti_error_t *crti_error_new(const crti_failure_t *failure);
crti_failure_t crti_error_failure(const crti_error_t *error);

/* ------------------------------------------------------------------ value_of.c */

/* LOCATE to the owner of a borrowed ref; the answer moves it (peers.c). */
crt_status_t crti_ref_ask_owner(crt_ref_t *ref);
/* Makes what is needed happen, so that the ref's content comes (LOCATE at its owner). */
void crti_ref_locate(crt_ref_t *ref);
/* The content was known, and turned out not to be had: the ref fails. */
void crti_ref_lose(crt_ref_t *ref, crt_status_t status);
/* Has the node bring its bytes here, from where they are said to be. */
void crti_ref_pull(crt_ref_t *ref);
/* Tells the owner that this node has a copy, so that others may pull from here; that word comes. */
void crti_ref_tell_copy(crt_ref_t *ref);
crt_status_t crti_copy_arrived(crti_core_t *core, const void *data, size_t size);
/* ... and that it can be read here: pins it, or has it pulled. True: it can now, or has failed. */
bool crti_ref_fetch(crt_ref_t *ref);
extern const crti_ref_handlers_t crti_value_handlers;
/* The decoded value of a ref that is fetched; its error otherwise. */
crt_status_t crti_ref_value(crt_ref_t *ref, const crt_value_t **value_out);
/* Raises the ref's error in this thread. */
crt_status_t crti_ref_raise(const crt_ref_t *ref);
/* Calls back when the ref has content, or bytes that can be read (at once if so). */
void crti_ref_await(crt_ref_t *ref, crti_waiting_t *waiting, bool local);

/* ------------------------------------------------------------------ value_retry.c */

/* A pull failed with that status: true when it is not for good, and the pull will be repeated, or the
 * ref fail, later. */
bool crti_ref_ask_again(crt_ref_t *ref, crt_status_t status);
/* Whether that goes on: who waits for the value does not pull it itself. */
bool crti_ref_is_asked_again(const crt_ref_t *ref);
/* LOCATED came for a ref that was said to be stored before. */
void crti_ref_located_again(crt_ref_t *ref, const crti_result_t *result);
/* LOCATED will not come: the owner can't be asked any more. */
void crti_ref_unlocated(crt_ref_t *ref, const crti_net_loss_t *loss);
void crti_value_retry_tick(crti_core_t *core, uint64_t now_ns);
void crti_value_retry_end(crti_core_t *core, crt_status_t status, const char *text);

/* ------------------------------------------------------------------ outgoing.c */

typedef struct crti_target {
    crt_actor_t *actor; /* or */
    crti_task_pool_t *pool;
    const crti_function_t *function;
    int64_t max_retries; /* of a task */
    bool try_only, is_tell;
} crti_target_t;

/* Makes a pending call and sends or queues it. Gives its result, held for the caller; never NULL
 * while memory lasts. */
crt_ref_t *crti_call_out(crti_core_t *core, const crti_target_t *target,
                         const crti_given_t *given);
/* The same, without waiting for room: has create of the actor ended? Its error, or no value. */
crt_ref_t *crti_ready_out(crti_core_t *core, crt_actor_t *actor);
/* Its answer has come. */
void crti_pending_answer(crti_pending_t *pending, const crti_result_t *result);
/* Its process is lost. */
void crti_pending_lost(crti_pending_t *pending, const crti_net_loss_t *loss);

/* ------------------------------------------------------------------ pending.c */

/* A call in no list, with a result that is held; NULL: out of memory. */
crti_pending_t *crti_pending_new(crti_core_t *core, const crti_target_t *target);
/* Out of whatever list it is in, with the counts of that list. */
void crti_pending_unlink(crti_pending_t *pending);
/* It ended: with a result (unlinked before), with an error, with the failure of an argument. The
 * pending is gone afterwards. */
void crti_pending_finish(crti_pending_t *pending, const crti_result_t *result);
void crti_pending_fail_by(crti_pending_t *pending, const crt_ref_t *failed);
void crti_pending_fail(crti_pending_t *pending, crt_status_t status, const char *text,
                       bool may_have_run);
/* Its process has died, and it may have run: may it be made again? If so it is as it was before it
 * was sent, in no list and under another number; else nothing has changed. */
bool crti_pending_again(crti_pending_t *pending, const char *text);
/* Of a call that has failed meanwhile: nobody wants it any more. */
void crti_result_late(crti_core_t *core, const crti_result_t *result);
/* What the answer `number` is about; NULL: nothing (any more). */
crti_pending_t *crti_pending_get(crti_core_t *core, uint64_t number);
/* It was sent, and its actor's process is gone: what that means is told later. */
void crti_pending_suspect(crti_pending_t *pending);
/* One that is in doubt uses its process until then. */
void crti_pending_forget_remote(crti_pending_t *pending);
/* What crti_core_t.pendings does with the buffers of one it drops. */
void crti_pending_fini(void *pending);

/* A ref of a call that can't even be made, with this thread's detail; `core` may be NULL. */
crt_ref_t *crti_ref_failed(crti_core_t *core, crt_status_t status);
/* What there is when not even that can be made; never freed. */
extern crt_ref_t crti_ref_out_of_memory;

/* ------------------------------------------------------------------ encode_call.c */

/* Appends the arguments to `record` (which begins at 0), checked against the signature, and pins
 * the refs they need. `*failed_out`: an argument that has failed, or NULL. */
crt_status_t crti_put_args(crti_pending_t *pending, crti_buffer_t *record,
                           const crt_arg_t *args, size_t count, crt_ref_t **failed_out);
/* The same into slots, when a ref that we own is pending. */
crt_status_t crti_slot_args(crti_pending_t *pending, const crt_arg_t *args, size_t count);
/* All slots are ready: into pending->record. */
crt_status_t crti_put_slots(crti_pending_t *pending, crt_ref_t **failed_out);
void crti_drop_slots(crti_pending_t *pending);
/* The number of arguments (a spread counts its refs), and whether one is a pending ref of ours. */
size_t crti_args_count(const crt_arg_t *args, size_t count, bool *is_pending_out);
crt_status_t crti_args_check(const crti_function_t *function, const crt_arg_t *args,
                             size_t count);

/* ------------------------------------------------------------------ actor_api.c */

/* CRT_OK, or why a handle that the program gives can't be used: NULL, none, of before a shutdown. */
crt_status_t crti_actor_check(const crti_core_t *core, const crt_actor_t *actor);

/* ------------------------------------------------------------------ actor_handle.c */

void crti_actor_set_phase(crt_actor_t *actor, crti_actor_phase_t phase);
/* The tick looks at it then. */
void crti_actor_check_at(crt_actor_t *actor, uint64_t at_ns);
/* The process where it lives; takes the caller's use of it. */
void crti_actor_set_remote(crt_actor_t *actor, crti_remote_t *remote);
crt_status_t
crti_actor_get(crti_core_t *core, crti_id_t id, crti_span_t class_name,
               crt_actor_t **actor_out); /* found or made; held; class "": not known */
void crti_actor_hold(crt_actor_t *actor);
void crti_actor_release(crt_actor_t *actor);
/* Where the actor lives, for a name that is given to another process, and as such a name says. */
void crti_actor_export_location(const crt_actor_t *actor, crti_actor_name_t *name);
void crti_actor_import_location(crt_actor_t *actor, const crti_actor_name_t *name);
/* What it was made with is needed no more. */
void crti_actor_drop_creation(crt_actor_t *actor);
/* A call that certainly did not run, in no list: it waits for the head, in its order. */
void crti_actor_take_back(crti_pending_t *pending);
/* Sends the record at once when nothing is before it, else queues. */
void crti_actor_submit(crti_pending_t *pending, const crti_buffer_t *record);
/* Its arguments are being waited for: keeps its place. */
void crti_actor_reserve(crti_pending_t *pending);
void crti_actor_drain(crt_actor_t *actor);
/* Waits until the queue has room; with try_only CRT_ERR_BACKPRESSURE. */
crt_status_t crti_actor_room(crt_actor_t *actor, bool try_only);
void crti_actor_lost(crt_actor_t *actor, crti_remote_t *remote,
                     const crti_net_loss_t *loss);
void crti_actor_state(crti_core_t *core, const crti_msg_actor_state_t *message);
void crti_actor_process_died(crti_core_t *core, crti_remote_t *remote, const char *text);
void crti_actor_tick(crti_core_t *core, uint64_t now_ns);
void crti_actor_orphan(crt_actor_t *actor);
void crti_actor_observe(crt_actor_t *actor); /* its state is told from now on */
void crti_actors_end(crti_core_t *core, crt_status_t status, const char *text);
void crti_actor_end(crt_actor_t *actor, crt_status_t status, const char *text);

/* ------------------------------------------------------------------ submit.c */

/* The tasks of that shape; found or made. */
crt_status_t crti_task_pool(crti_core_t *core, const crti_resources_t *resources,
                            crti_task_pool_t **pool_out);
void crti_task_submit(crti_pending_t *pending);   /* its record is built */
void crti_task_unqueued(crti_pending_t *pending); /* it leaves the queue unsent */
crt_status_t crti_task_room(crti_task_pool_t *pool, bool try_only); /* as for actors */
void crti_task_pump(crti_task_pool_t *pool);
/* An answer came: `given_back` means run it elsewhere. */
void crti_task_answered(crti_pending_t *pending, bool given_back);
void crti_lease_message(crti_core_t *core, const crti_message_t *message);
void crti_leases_lost(crti_core_t *core, crti_remote_t *remote);
void crti_tasks_tick(crti_core_t *core, uint64_t now_ns);
void crti_tasks_end(crti_core_t *core);
void crti_tasks_fini(crti_core_t *core);
/* The task that makes this ref, if it can be run by the worker's own thread now. */
crti_pending_t *crti_task_steal(crti_core_t *core, crt_ref_t *ref);

/* ------------------------------------------------------------------ incoming.c */

crt_status_t crti_incoming_call(crti_client_t *client, const void *data, size_t size);
/* Tasks that were not started go back to their owners. */
void crti_incoming_give_back(crti_client_t *client);
void crti_incoming_give_back_all(crti_core_t *core);
void crti_client_lost(crti_client_t *client);
void crti_chain_arrived(crti_client_t *client, const void *data, size_t size);
/* The creation of the actor that lives here; our own task, run by the thread that waits for it.
 * They are not queued: wait until `missing` is 0, then crti_execute. */
crt_status_t crti_incoming_creation(crti_core_t *core, crti_span_t creation,
                                    crt_call_t **call_out);
crt_status_t crti_incoming_own(crti_pending_t *pending, crt_call_t **call_out);
/* It has run, or failed: its arguments are let go, the answer leaves, the call is freed.
 * `may_wait`: the caller is a thread that may give the lock up. */
void crti_call_finish(crt_call_t *call, bool may_wait);
void crti_call_set_error(crt_call_t *call, crt_status_t status, const char *text);
/* What crti_core_t.calls does with the buffers of one it drops. */
void crti_call_fini(void *call);

/* ------------------------------------------------------------------ execute.c */

/* Runs user code; lock held at entry and exit, not meanwhile. The call is gone afterwards. */
void crti_execute(crti_core_t *core, crt_call_t *call);
/* A worker's life; lock held. Does not come back. */
void crti_serve(crti_core_t *core, crti_span_t creation) __attribute__((noreturn));

/* ------------------------------------------------------------------ node_link.c */

crt_status_t crti_node_link_start(crti_core_t *core);
void crti_node_link_stop(crti_core_t *core);
/* A request; `on_answer` is called once. */
crt_status_t crti_node_request(crti_core_t *core, crti_message_kind_t kind,
                               const void *body, crti_answer_handler_t *on_answer,
                               void *user);
void crti_node_notice(crti_core_t *core, crti_message_kind_t kind, const void *body);
/* The answer to a request came; the link has ended, so that none comes any more. */
void crti_node_answered(crti_core_t *core, const crti_message_t *message);
void crti_node_requests_end(crti_core_t *core);

/* ------------------------------------------------------------------ node_ask.c */

/* A request and its answer, waited for. The answer's spans are copied to `storage`. */
crt_status_t crti_node_ask(crti_core_t *core, crti_message_kind_t kind, const void *body,
                           int64_t timeout_ms, crti_message_t *answer_out,
                           crti_buffer_t *storage);

/* ------------------------------------------------------------------ node_messages.c */

extern const crti_channel_handlers_t crti_node_link_handlers;

/* ------------------------------------------------------------------ blocking.c */

/* Waits until `done`; the worker's main thread reports that it is blocked. Lock held. */
crt_status_t crti_wait_for(crti_core_t *core, bool (*done)(void *user), void *user,
                           int64_t timeout_ms, crt_ref_t *ref);

#endif
