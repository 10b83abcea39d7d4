/* SPDX-License-Identifier: Apache-2.0 */
/* Control: everything the head decides. Messages and broken links go in; messages to send and rows
 * to store come out. Pure: no socket, no clock, no Redis; time is passed in.
 *
 * Where it sits
 *     nodes, command, http -> control/head.c -> [ control/control*.c, *_table.c ] -> head.c
 *                                                   rows -> control/store/redis.c -> redis-server
 * Durability (docs/design/recovery.md)
 *     Every row that is stored has a ticket, counted up; tickets are acknowledged in order. An
 *     answer waits in the outbox until the rows of its event are durable. When one of them
 *     can't be stored, the answer becomes an ERROR with the reason; a creation is taken back, a
 *     fact (something died) stays true and its row is tried again.
 *     What did not come from a request, but is so (NODE_DIED, PEER_DIED, JOB_END), does not wait:
 *     a head that forgets it learns it again from the nodes.
 * Files
 *     control.c dispatch and outbox, control_node.c, control_actor.c, control_save.c (what actors
 *     keep), control_watch.c, control_job.c, control_forward.c (requests passed on to nodes),
 *     control_load.c (recovery), control_revoke.c (creations that failed), kv.c, state_json.c
 * Ownership
 *     Links are numbers that the caller chooses, never used twice. Actions are called inside
 *     the event functions; they must not call back into control.
 */
#ifndef CRTI_CONTROL_CONTROL_H
#define CRTI_CONTROL_CONTROL_H

#include "runtime/base/cleanup.h"
#include "runtime/base/list.h"
#include "runtime/net/message.h"

typedef struct crti_control crti_control_t;
struct crti_scale_config;    /* autoscale/autoscaler.h */
struct crti_provider_order;  /* autoscale/provider.h */
struct crti_provider_answer; /* the same */

/* Tables of the store. */
typedef enum crti_store_table {
    CRTI_STORE_META,              /* ROW_META, one row */
    CRTI_STORE_NODES,             /* ROW_NODE by node id */
    CRTI_STORE_ACTORS,            /* ACTOR_CREATE by actor id */
    CRTI_STORE_ACTOR_STATES,      /* ROW_ACTOR by actor id */
    CRTI_STORE_JOBS,              /* ROW_JOB by job id */
    CRTI_STORE_JOB_STATES,        /* ROW_JOB_STATE by job id */
    CRTI_STORE_PLACEMENT_GROUPS,  /* ROW_PLACEMENT_GROUP by group id */
    CRTI_STORE_ACTOR_SAVES,       /* ACTOR_SAVE by actor id */
    CRTI_STORE_RESOURCE_REQUESTS, /* RESOURCE_REQUEST by job id; zero: by command */
    CRTI_STORE_KV,                /* the users' values by key */
    CRTI_STORE_TABLES
} crti_store_table_t;

typedef enum crti_store_verb {
    CRTI_STORE_PUT,
    CRTI_STORE_PUT_NEW, /* an existing value stays */
    CRTI_STORE_GET,
    CRTI_STORE_DELETE,
    CRTI_STORE_SWAP, /* changes what is as expected only */
    CRTI_STORE_KEYS, /* `key` is a prefix */
    CRTI_STORE_CLEAR /* deletes all whose key begins with `key` */
} crti_store_verb_t;

/* How a value is exchanged. Carried out once for each `id`, however often it is asked for: who asks
 * again hears that it was done. Zero: it may be carried out again. */
typedef struct crti_store_swap {
    crti_id_t id;
    bool is_new;      /* there must be no value, instead of `expected` */
    bool is_deletion; /* the value is deleted, not replaced */
} crti_store_swap_t;

typedef struct crti_store_operation {
    uint64_t ticket;
    crti_store_verb_t verb;
    crti_store_table_t table;
    crti_span_t key; /* without zero bytes */
    crti_span_t value;
    crti_span_t expected; /* of SWAP, as the next */
    crti_store_swap_t swap;
} crti_store_operation_t;

/* Something that takes long, and reads nothing of the control. */
typedef struct crti_control_work {
    crti_list_t link; /* of who runs it */
    void (*run)(struct crti_control_work *work);
} crti_control_work_t;

typedef struct crti_control_actions {
    void *user;
    /* One encoded message. The link may be gone: then nothing happens. */
    void (*send)(void *user, uint64_t link, const void *message, size_t size);
    /* End that connection; crti_control_closed is not called for it. */
    void (*drop)(void *user, uint64_t link, const char *why);
    /* Bytes that wait to be sent on the link. */
    size_t (*queued)(void *user, uint64_t link);
    /* Do it and call crti_control_stored with the ticket, later, in order. */
    void (*store)(void *user, const crti_store_operation_t *operation);
    /* Records on disk, independent of the store, that the creation of this id was reported as
     * failed; `is_revoked` false deletes the record. Returns false when that is not possible. */
    bool (*revoke)(void *user, crti_id_t id, bool is_revoked);
    /* The record of that job is gone: what it left is not needed any more. May be NULL. */
    void (*forget_job)(void *user, crti_id_t job);
    /* True: no other head can be writing these tables. NULL: there is no other head. */
    bool (*is_leader)(void *user);
    /* Runs it in another thread; then crti_control_worked is called, in this one. False, and NULL:
     * it is run here. */
    bool (*work)(void *user, crti_control_work_t *work);
    /* The provider's; then crti_control_scaled is called, later. */
    void (*scale)(void *user, const struct crti_provider_order *order);
} crti_control_actions_t;

typedef struct crti_control_config {
    crti_id_t cluster;   /* of a new cluster; a stored one wins */
    const char *address; /* host:port of the head, to show */
    uint64_t headless_timeout_ms;
    size_t max_jobs; /* submitted ones that run at a time; 0: any number */
    bool encrypt_streams;
    /* what no node has the resources for, unless it says so itself */
    bool fail_if_infeasible;
    bool fail_youngest; /* request of a resource deadlock; else it is only told */
    const char *http, *http_pin; /* of the dashboard, sent to nodes; NULL: none */
    const struct crti_scale_config *autoscale; /* NULL: nodes come and go by hand */
    int64_t wall_offset_ms;                    /* wall clock = now_ns / 1e6 + this */
    uint64_t seed; /* for the ids of jobs; random outside of tests */
    crti_control_actions_t actions;
} crti_control_config_t;

/* Caller owns the result and frees it with crti_control_free. */
crt_status_t crti_control_new(const crti_control_config_t *config,
                              crti_control_t **control_out);
void crti_control_free(crti_control_t *control);
CRTI_DEFINE_AUTO(crti_control_t *, crti_control_free)

/* ---------------------------------------------------------------- recovery */

/* The cluster's id: that of the rows, once they are loaded. */
crti_id_t crti_control_cluster(const crti_control_t *control);

/* One row that the store holds, before anything else. Rows that can't be understood are counted,
 * logged and left alone. Tables are loaded in the order of their numbers. */
void crti_control_load(crti_control_t *control, crti_store_table_t table, crti_span_t key,
                       crti_span_t value, uint64_t now_ns);

/* An id that `revoke` remembers, before all rows: what has it does not exist. */
void crti_control_load_revoked(crti_control_t *control, crti_id_t id);

/* All rows were loaded: the head serves from now on. Writes the first rows. */
void crti_control_loaded(crti_control_t *control, uint64_t now_ns);

/* ---------------------------------------------------------------- events */

/* A connection was made. `is_admin`: on the unix socket, by this user; it may ask anything but
 * not register a node. */
void crti_control_opened(crti_control_t *control, uint64_t link, bool is_admin,
                         uint64_t now_ns);
/* It broke or was closed. */
void crti_control_closed(crti_control_t *control, uint64_t link, const char *text,
                         uint64_t now_ns);
void crti_control_message(crti_control_t *control, uint64_t link,
                          const crti_message_t *message, uint64_t now_ns);

/* What became of an order, `actions.scale`. */
void crti_control_scaled(crti_control_t *control,
                         const struct crti_provider_answer *answer, uint64_t now_ns);

/* `work` has run. */
void crti_control_worked(crti_control_t *control, crti_control_work_t *work,
                         uint64_t now_ns);

/* An operation is done: durable, or CRT_ERR_* with the reason. `found` and `value` as the verb
 * says: PUT, PUT_NEW: there was a value before; GET: the value; DELETE, CLEAR: there was one;
 * SWAP: it was the expected one; KEYS: a list of text. */
void crti_control_stored(crti_control_t *control, uint64_t ticket, crt_status_t status,
                         const char *text, bool found, crti_span_t value,
                         uint64_t now_ns);

/* Time passed. */
void crti_control_tick(crti_control_t *control, uint64_t now_ns);

bool crti_control_has_job(const crti_control_t *control, crti_id_t job);

/* The next moment at which crti_control_tick has something to do, or one that is over; UINT64_MAX:
 * none. */
uint64_t crti_control_deadline(const crti_control_t *control);

/* ---------------------------------------------------------------- for tests and metrics */

typedef struct crti_control_figures {
    size_t nodes_alive, actors_living, actors_dead, jobs_running;
    size_t placement_groups;               /* that are not removed */
    size_t links, outbox, requests, dirty; /* nothing of this may stay at rest */
    uint64_t rows_unreadable, messages_refused;
} crti_control_figures_t;
crti_control_figures_t crti_control_figures(const crti_control_t *control);

#endif
