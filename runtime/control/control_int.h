/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of control share. */
#ifndef CRTI_CONTROL_CONTROL_INT_H
#define CRTI_CONTROL_CONTROL_INT_H

#include "runtime/base/clock.h"
#include "runtime/control/actor_table.h"
#include "runtime/control/control.h"
#include "runtime/control/job_levels.h"
#include "runtime/control/job_table.h"
#include "runtime/control/node_table.h"
#include "runtime/control/placement/placement.h"
#include "runtime/control/placement_group_table.h"

#define CRTI_VIEW_NS        (50 * CRTI_MS) /* changes of resources are gathered this long */
#define CRTI_DIRTY_RETRY_NS CRTI_S /* rows that could not be stored are tried again */
#define CRTI_LOG_QUEUE      ((size_t)8 << 20)
#define CRTI_DEATHS_MAX     4096 /* processes whose death is remembered */

/* A connection. */
typedef struct crti_control_link {
    uint64_t number;
    bool is_admin;
    crti_node_entry_t *node; /* NULL: not registered */
    crti_map_t watched;      /* ids of actors of whose changes it hears */
    crti_list_t in_links;
} crti_control_link_t;

/* What waits for rows to be durable: a message, or work to go on with. */
typedef struct crti_outgoing crti_outgoing_t;
typedef void crti_after_t(crti_control_t *c, const crti_outgoing_t *out);
struct crti_outgoing {
    crti_list_t in_outbox;
    uint64_t first, last; /* tickets; first > last: of no row, but in order */
    uint64_t link;
    /* of an answer that turns into ERROR; 0: sent as it is; of `after`: as given */
    uint64_t request;
    crti_buffer_t message;
    crti_after_t *after; /* or this */
    crti_id_t id;
    uint64_t number;
    crt_status_t status; /* the first of its rows that failed */
    char *text;
};

/* An operation on its way to the store. */
typedef struct crti_inflight {
    crti_list_t in_flight;
    uint64_t ticket;
    crti_store_verb_t verb;
    crti_store_table_t table;
    crti_id_t id;           /* of a row; CLEAR: of the job */
    uint64_t link, request; /* of a user's value */
} crti_inflight_t;

/* A request of the head to a node. */
typedef struct crti_request {
    crti_list_t in_requests;
    uint64_t number;
    crti_message_kind_t kind;
    uint64_t link; /* of the node */
    crti_id_t node;
    crti_id_t subject;                /* actor or job */
    uint64_t incarnation;             /* of the actor */
    uint64_t from_link, from_request; /* where the answer goes; 0: nowhere */
    uint64_t deadline_ns;
    char *name; /* LOG_READ: tried on one node after the other */
    uint64_t offset, limit, wait_ms;
    struct crti_gather *gather;
} crti_request_t;

/* A question to all nodes. */
typedef struct crti_gather {
    crti_control_work_t work;
    unsigned open; /* requests without an answer */
    uint64_t from_link, from_request;
    crti_buffer_t rows; /* JSON text of each answer, one list entry each */
    char *filter;
    unsigned silent; /* nodes that did not answer */
    char what[16];   /* "workers", "tasks", "metrics" */
    char *json;      /* the answer, once it is made */
    char *refusal;   /* without it: why */
} crti_gather_t;

typedef struct crti_death {
    crti_id_t process;
    uint64_t incarnation;
    crti_id_t node;
    crt_status_t status;
    int64_t pid;
    bool ran_no_call; /* as of PEER_DIED */
    char *text;
    crti_list_t in_deaths;
} crti_death_t;

/* A row that could not be stored. */
typedef struct crti_dirty {
    crti_list_t in_dirty;
    crti_store_table_t table;
    crti_id_t id;
    bool waiting; /* tried again, no answer yet */
} crti_dirty_t;

struct crti_control {
    crti_control_config_t config;
    char *address;
    crti_id_t cluster;
    uint64_t head_incarnation;
    int64_t start_ms;
    bool serving, joining; /* joining: nodes of before the restart are still expected */
    uint64_t random;
    uint64_t now_ns;    /* of the event that is handled */
    uint64_t ticked_ns; /* of the last tick: what came due since then was not looked at */
    /* control.c's; for the files below it that end a link. */
    void (*on_link_ended)(crti_control_t *control, uint64_t link, const char *text,
                          uint64_t now_ns);
    /* the head itself was suspended: nodes may reconnect until then */
    uint64_t grace_until_ns;

    crti_node_table_t nodes;
    crti_resource_names_t resource_names; /* that any node has ever had */
    crti_actor_table_t actors;
    crti_placement_group_table_t placement_groups;
    crti_job_levels_t job_levels; /* what each job has used of all nodes */
    crti_job_table_t jobs;
    crti_map_t owners; /* process -> number of living actors that end with it */

    crti_map_t links; /* number -> crti_control_link_t */
    crti_list_t link_list;

    uint64_t ticket, acked,
        event_first; /* last given, last acknowledged, first of this event */
    crti_list_t outbox, in_flight, dirty;
    crti_map_t revoked; /* id -> which of its rows are deleted */
    size_t outbox_count, dirty_count;
    uint64_t dirty_retry_ns;

    uint64_t last_request;
    crti_map_t request_map; /* number -> crti_request_t */
    crti_list_t requests;

    crti_map_t death_map; /* process -> crti_death_t */
    crti_list_t deaths;

    crti_list_t pending_watches; /* of actors that do not exist yet */

    crti_buffer_t placement_nodes; /* crti_placement_node_t, while actors are placed */

    crti_views_t views; /* what nodes hear of each other */
    bool tells_facts;   /* notices wait for no row of this event */
    bool starting_jobs; /* the same of crti_control_start_jobs */
    bool placing;       /* try_place_all runs: what it causes does not start it again */
    bool place_again;
    uint64_t rows_unreadable, messages_refused;
};

static inline int64_t crti_control_wall(const crti_control_t *c)
{
    return (int64_t)(c->now_ns / CRTI_MS) + c->config.wall_offset_ms;
}

/* ---------------------------------------------------------------- outbox.c */

/* At once. */
void crti_control_send(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                       uint64_t request, const void *body);
/* The same of an answer: ERROR instead when it is too large. */
void crti_control_reply(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                        uint64_t request, const void *body);
/* To every registered node but `except` (0: all). */
void crti_control_broadcast(crti_control_t *c, crti_message_kind_t kind, const void *body,
                            uint64_t except);
/* In order behind what waits for the store; `is_change`: as ERROR if this event's rows fail. */
void crti_control_answer(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                         uint64_t request, const void *body, bool is_change);
/* A notice of a fact: in order behind what waited before this event. */
void crti_control_notify(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                         const void *body);
/* ERROR with the raised detail, in order. */
void crti_control_refuse(crti_control_t *c, uint64_t link, uint64_t request,
                         crt_status_t status);
/* Goes on when the rows of this event are durable, or not. What `link` and `request` mean is the
 * caller's. */
void crti_control_after(crti_control_t *c, crti_after_t *after, crti_id_t id,
                        uint64_t number);
void crti_control_after_for(crti_control_t *c, crti_after_t *after, crti_id_t id,
                            uint64_t link, uint64_t request);

/* Rows. */
void crti_control_put(crti_control_t *c, crti_store_table_t table, crti_id_t id,
                      crti_message_kind_t kind, const void *row);
void crti_control_delete(crti_control_t *c, crti_store_table_t table, crti_id_t id);
/* Both rows. */
void crti_control_delete_actor(crti_control_t *c, crti_id_t id);
void crti_control_delete_job(crti_control_t *c, crti_id_t id);
/* The entry, its rows, and what it left on disk. */
void crti_control_forget_job(crti_control_t *c, crti_job_entry_t *job);
void crti_control_put_meta(crti_control_t *c);
/* A user's value. */
void crti_control_store_value(crti_control_t *c, const crti_store_operation_t *what,
                              uint64_t link, uint64_t request);

/* All values whose keys begin with `prefix` are deleted; tried again like a row, of `job`. */
void crti_control_clear_values(crti_control_t *c, crti_span_t prefix, crti_id_t job);

crti_control_link_t *crti_control_link(const crti_control_t *c, uint64_t number);

/* For control.c: the store's answer to a row; a failed row and its waiters; what may leave now; one
 * that never leaves. */
void crti_control_note_row(crti_control_t *c, const crti_inflight_t *operation,
                           crt_status_t status, const char *text);
void crti_control_note_failure(crti_control_t *c, uint64_t ticket, crt_status_t status,
                               const char *text);
void crti_control_release(crti_control_t *c);
void crti_control_outgoing_free(crti_control_t *c, crti_outgoing_t *out);

/* ---------------------------------------------------------------- control_views.c */

/* The others hear of it at once, or as soon as that has its share of the head's time; only of what
 * it has free: gathered at least CRTI_VIEW_NS. */
void crti_control_view_changed(crti_control_t *c, crti_node_entry_t *node);
void crti_control_room_changed(crti_control_t *c, crti_node_entry_t *node);
/* It has a new link, and hears of all, as they of it. */
void crti_control_views_join(crti_control_t *c, crti_node_entry_t *node);
/* It has no link now. */
void crti_control_views_leave(crti_control_t *c, crti_node_entry_t *node);
/* It is dead: nobody hears of it any more. */
void crti_control_views_forget(crti_control_t *c, crti_node_entry_t *node);
/* The slice that is due. */
void crti_control_send_views(crti_control_t *c);
crti_msg_node_view_t crti_control_view_of(const crti_node_entry_t *node);

/* ---------------------------------------------------------------- control_node.c */

void crti_control_register(crti_control_t *c, crti_control_link_t *link,
                           const crti_msg_node_register_t *m, uint64_t request);
bool crti_control_heartbeat(crti_control_t *c, crti_control_link_t *link,
                            const crti_msg_heartbeat_t *m);
void crti_control_node_lost(crti_control_t *c, crti_node_entry_t *node);
void crti_control_node_died(crti_control_t *c, crti_node_entry_t *node, const char *text);
void crti_control_peer_died(crti_control_t *c, crti_control_link_t *link,
                            const crti_msg_peer_died_t *m);
void crti_control_node_find(crti_control_t *c, uint64_t link, uint64_t request,
                            crti_id_t id);
void crti_control_watch_peer(crti_control_t *c, crti_control_link_t *link,
                             const crti_msg_watch_t *m);
void crti_control_forget_deaths(crti_control_t *c);

/* ---------------------------------------------------------------- control_actor.c */

/* The living nodes as crti_placement_node_t, in a buffer that is reused; their number. */
size_t crti_control_placement_nodes(const crti_control_t *c, crti_buffer_t *places);
void crti_control_on_actor(void *user, crti_actor_entry_t *actor, unsigned before,
                           bool stored);
void crti_control_actor_create(crti_control_t *c, uint64_t link, uint64_t request,
                               const crti_msg_actor_create_t *m);
void crti_control_actor_kill(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_actor_kill_t *m);
/* Its process ends in an orderly way, and another one follows, which costs no restart. */
void crti_control_actor_move(crti_control_t *c, crti_actor_entry_t *actor,
                             const char *text);
/* control_drain.c: NODE_DRAIN, and what a node that registers says of itself. */
void crti_control_drain(crti_control_t *c, uint64_t link, uint64_t request,
                        const crti_msg_node_drain_t *m);
void crti_control_drain_told(crti_control_t *c, crti_node_entry_t *node,
                             uint64_t told_ms);
/* control_save.c: what an actor keeps for its next process. */
void crti_control_actor_save(crti_control_t *c, crti_control_link_t *link,
                             uint64_t request, const crti_msg_actor_save_t *m);
crt_status_t crti_control_load_save(crti_control_t *c, const crti_msg_actor_save_t *row);
/* It is dead. */
void crti_control_forget_save(crti_control_t *c, crti_actor_entry_t *actor);
void crti_control_actor_died(crti_control_t *c, crti_control_link_t *link,
                             uint64_t request, const crti_msg_actor_died_t *m);
/* A process of an actor is there; it ends unless it is the one that is wanted. */
void crti_control_actor_started(crti_control_t *c, const crti_node_entry_t *node,
                                const crti_msg_actor_started_t *m);
/* The answer to ACTOR_START. */
void crti_control_actor_answer(crti_control_t *c, const crti_request_t *request,
                               const crti_message_t *answer);
/* Actors, placement groups or submitted jobs wait for room. */
static inline bool crti_control_has_waiting(const crti_control_t *c)
{
    return !crti_list_is_empty(&c->actors.waiting) ||
           !crti_list_is_empty(&c->placement_groups.waiting) ||
           c->jobs.counts[CRTI_JOB_PENDING] > 0;
}
void crti_control_place_all(crti_control_t *c);
/* Sends every ACTOR_START again that a node which is back has not answered. */
void crti_control_start_again(crti_control_t *c, const crti_node_entry_t *node);
void crti_control_actors_of_node(crti_control_t *c, const crti_node_entry_t *node,
                                 const char *text);
void crti_control_actors_of_job(crti_control_t *c, crti_id_t job, const char *text);
/* Detached ones, too. */
void crti_control_actors_of_placement_group(crti_control_t *c, crti_id_t group,
                                            const char *text);
void crti_control_actors_of_owner(crti_control_t *c, crti_id_t process,
                                  crt_status_t status, const char *text);
/* Its process is gone: a fact, of which those who wait for it hear before a disk that is slow. */
void crti_control_actor_process_died(crti_control_t *c, crti_actor_entry_t *actor,
                                     crt_status_t status, const char *text, bool created);
/* Dead for good; its process is ended. */
void crti_control_actor_end(crti_control_t *c, crti_actor_entry_t *actor,
                            crt_status_t status, const char *text);
/* A node reports that it runs this actor; false: it should not. */
bool crti_control_actor_running(crti_control_t *c, const crti_node_entry_t *node,
                                const crti_msg_actor_running_t *m);
/* The actor is about to be taken from a node that may still run it: base/fence.h says how long it,
 * and its name, are not placed. Nothing without `.fenced`. */
void crti_control_fence(crti_control_t *c, crti_actor_entry_t *actor);
/* The answer to ACTOR_STOP: that process is gone. */
void crti_control_actor_stopped(crti_control_t *c, const crti_request_t *request);
/* Counts an entry that was loaded. */
void crti_control_actor_loaded(crti_control_t *c, crti_actor_entry_t *actor);
/* A placed one whose node was not known then, and is now. */
void crti_control_actor_found_node(crti_control_t *c, crti_actor_entry_t *actor);

/* ---------------------------------------------------------------- control_placement_group.c */

void crti_control_placement_group_create(crti_control_t *c, uint64_t link,
                                         uint64_t request,
                                         const crti_msg_placement_group_create_t *m);
void crti_control_placement_group_get(crti_control_t *c, uint64_t link, uint64_t request,
                                      const crti_msg_placement_group_get_t *m);
void crti_control_placement_group_remove(crti_control_t *c, uint64_t link,
                                         uint64_t request, crti_id_t id);
/* Looks for room for those that wait. */
void crti_control_place_groups(crti_control_t *c);
/* The answer to BUNDLE_RESERVE, or its end without one. */
void crti_control_bundle_answered(crti_control_t *c, const crti_request_t *request,
                                  bool is_reserved, const char *text);
/* What a node reports to hold: what is not wanted is returned, what is missing is placed again. */
void crti_control_join_bundles(crti_control_t *c, const crti_node_entry_t *node,
                               crti_span_t reported);
void crti_control_placement_groups_of_node(crti_control_t *c,
                                           const crti_node_entry_t *node,
                                           const char *text);
void crti_control_placement_groups_of_job(crti_control_t *c, crti_id_t job);
/* After a restart: those whose job has ended; with `unknown` also those whose job nobody knows. */
void crti_control_placement_group_orphans(crti_control_t *c, bool unknown);
/* Who has waited for long is answered. */
void crti_control_placement_groups_overdue(crti_control_t *c);
void crti_control_put_placement_group(crti_control_t *c,
                                      const crti_placement_group_entry_t *group);

/* ---------------------------------------------------------------- view_rows.c */

void crti_control_view(crti_control_t *c, uint64_t link, uint64_t request,
                       const crti_msg_view_query_t *m);

/* ---------------------------------------------------------------- control_watch.c */

void crti_control_actor_watch(crti_control_t *c, uint64_t link, uint64_t request,
                              crti_id_t id);
void crti_control_actor_unwatch(crti_control_t *c, uint64_t link, crti_id_t id);
void crti_control_actor_find(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_actor_find_t *m);
/* The actor was created: pending watches of it become watches. */
void crti_control_watches_created(crti_control_t *c, crti_actor_entry_t *actor);
void crti_control_watches_closed(crti_control_t *c, crti_control_link_t *link);
/* The actor is about to be forgotten. */
void crti_control_watches_forget(crti_control_t *c, const crti_actor_entry_t *actor);
void crti_control_watches_overdue(crti_control_t *c);
uint64_t crti_control_watches_deadline(const crti_control_t *c);
void crti_control_watches_free(crti_control_t *c);

/* ---------------------------------------------------------------- control_job.c */

void crti_control_on_job(void *user, crti_job_entry_t *job);
/* Its groups have no values in the store any more. */
void crti_control_job_cleared(crti_control_t *c, crti_id_t id);
void crti_control_job_add(crti_control_t *c, uint64_t link, uint64_t request,
                          const crti_msg_job_add_t *m);
void crti_control_job_end(crti_control_t *c, crti_control_link_t *link,
                          const crti_msg_job_end_t *m);
void crti_control_job_get(crti_control_t *c, uint64_t link, uint64_t request,
                          crti_id_t id);
void crti_control_job_submit(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_submit_t *m);
/* job_holders.c: whether nothing but the programs of submitted jobs, while they run, keeps from it
 * what could have room; `text` says so and names them. */
bool crti_control_drivers_hold(const crti_control_t *c, const crti_resources_t *need,
                               char *text, size_t size);

void crti_control_job_stop(crti_control_t *c, uint64_t link, uint64_t request,
                           const crti_msg_job_stop_t *m);
void crti_control_job_delete(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_delete_t *m);
void crti_control_job_exited(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_exited_t *m);
void crti_control_job_answer(crti_control_t *c, const crti_request_t *request,
                             const crti_message_t *answer);
void crti_control_jobs_of_node(crti_control_t *c, const crti_node_entry_t *node,
                               const char *text);
/* control_job_queue.c: begins those that may. */
void crti_control_start_jobs(crti_control_t *c);
/* A node reports that it runs this job; false: it should not. */
bool crti_control_job_running(crti_control_t *c, const crti_msg_job_add_t *m);
/* A job whose driver is elsewhere, or not there yet; false: its end was not reported. */
bool crti_control_job_goes_on(const crti_control_t *c, crti_id_t id);
/* Drivers of a node that is back and does not have them any more. */
void crti_control_jobs_missing(crti_control_t *c, const crti_node_entry_t *node,
                               crti_span_t reported);

/* ---------------------------------------------------------------- control_request.c */

/* A request to a node; NULL when out of memory. The caller sends the message with
 * request->number. */
crti_request_t *crti_control_new_request(crti_control_t *c, const crti_node_entry_t *node,
                                         crti_message_kind_t kind, crti_id_t subject);
/* Its answer is not needed any more. */
void crti_control_cancel_request(crti_control_t *c, uint64_t number);
/* Takes it out of the map and the list. */
void crti_request_unlink(crti_control_t *c, crti_request_t *request);
void crti_request_free(crti_request_t *request);
/* Unlinks and frees it. */
void crti_request_forget(crti_control_t *c, crti_request_t *request);
/* Those with a deadline are in front of the others, which are many when actors are made. */
void crti_request_set_deadline(crti_control_t *c, crti_request_t *request,
                               uint64_t at_ns);
bool crti_request_has_deadline(const crti_request_t *request);

/* ---------------------------------------------------------------- control_forward.c */

/* An answer came; false: to no request of ours. */
bool crti_control_answered(crti_control_t *c, crti_control_link_t *link,
                           const crti_message_t *message);
/* A list was put together by another thread. */
void crti_control_rows_joined(crti_control_t *c, crti_control_work_t *work);
void crti_control_requests_lost(crti_control_t *c, uint64_t link, const char *text);
void crti_control_requests_of(crti_control_t *c, uint64_t from_link);
void crti_control_requests_overdue(crti_control_t *c);
void crti_control_requests_free(crti_control_t *c);
uint64_t crti_control_requests_deadline(const crti_control_t *c);
void crti_control_log_read(crti_control_t *c, uint64_t link, uint64_t request,
                           const crti_msg_log_read_t *m);
/* It is PENDING no more: pending reads of its log are forwarded. */
void crti_control_job_begun(crti_control_t *c, const crti_job_entry_t *job);
void crti_control_query(crti_control_t *c, uint64_t link, uint64_t request,
                        const crti_msg_state_query_t *m);

/* ---------------------------------------------------------------- control_load.c */

/* After a node came or died: perhaps it was the last one that was expected. */
void crti_control_joined(crti_control_t *c);
/* The row of an entry as it is now, or its deletion. */
void crti_control_rewrite(crti_control_t *c, crti_store_table_t table, crti_id_t id);

/* ---------------------------------------------------------------- control_revoke.c */

/* A creation with this id could not be stored: from now on it has failed, whatever the store has of
 * it. The raised detail, of CRT_ERR_IO, is the reason to report. */
void crti_control_revoke(crti_control_t *c, crti_id_t id, const char *text);
/* Its rows may still be there. */
bool crti_control_is_revoked(const crti_control_t *c, crti_id_t id);
/* All rows that it may have are deleted. */
void crti_control_delete_revoked_rows(crti_control_t *c, crti_id_t id);
/* That row is deleted, durably. */
void crti_control_row_deleted(crti_control_t *c, crti_store_table_t table, crti_id_t id);
/* What an earlier head could not delete. */
void crti_control_delete_revoked(crti_control_t *c);

/* ---------------------------------------------------------------- kv.c */

/* What the collective groups of a job agree on has keys that begin with this, the job's id and a
 * slash (collective/rendezvous.c): it ends with the job and its detached actors. */
#define CRTI_GROUPS "collective/"

/* KV_PUT, KV_GET, KV_DELETE, KV_KEYS: checked and handed to the store. */
void crti_control_kv(crti_control_t *c, uint64_t link, const crti_message_t *message);
/* When no process of an ended job is left: deletes the values of its groups. */
void crti_control_clear_groups(crti_control_t *c, const crti_job_entry_t *job);
void crti_control_clear_groups_of(crti_control_t *c, crti_id_t job);
void crti_control_kv_done(crti_control_t *c, const crti_inflight_t *operation,
                          crt_status_t status, const char *text, bool found,
                          crti_span_t value);

/* ---------------------------------------------------------------- state_json.c */

/* JSON text (docs/design/state.md) of what control_forward.c has found good; NULL with the detail
 * raised: it is too large. Caller frees it. */
char *crti_state_json(crti_control_t *c, crti_span_t what, crti_span_t filter);
/* Joins the lists that nodes answered. */
char *crti_state_join(crti_span_t answers, const char *key, const char *filter);
/* stack_rows.c: what processes said of their waits, with their stacks. */
char *crti_stack_rows_join(crti_span_t answers, unsigned silent);
/* object_rows.c: the objects of all nodes with who holds them, of an id, of a query, or all; NULL:
 * no memory. */
char *crti_object_rows_join(crti_span_t answers, crti_span_t filter);
/* CRT_ERR_INVALID: a query that can't be answered. */
crt_status_t crti_object_rows_check(crti_span_t filter);
/* ref_rows.c: the refs of all processes, of a query (the largest first), or all. */
char *crti_ref_rows_join(crti_span_t answers, crti_span_t filter, unsigned silent);
crt_status_t crti_ref_rows_check(crti_span_t filter);

/* actor_rows.c: "actors" of an id, of a query (row_query.h), or all; NULL with the detail
 * raised. */
char *crti_actor_rows(const crti_control_t *c, crti_span_t filter);
/* The same with what their nodes have answered of their queues. */
char *crti_actor_rows_join(const crti_control_t *c, crti_span_t answers,
                           crti_span_t filter);
/* CRT_ERR_INVALID: a query that can't be answered. */
crt_status_t crti_actor_rows_check(crti_span_t filter);

/* job_rows.c: "jobs" of an id or a submission, of a query, or all; NULL with the detail raised. */
char *crti_job_rows(const crti_control_t *c, crti_span_t filter);
crt_status_t crti_job_rows_check(crti_span_t filter);

/* state_events.c: what has happened, the newest first, of a query or all; NULL with the detail
 * raised. */
char *crti_state_events(const crti_control_t *c, crti_span_t filter);
crt_status_t crti_state_events_check(crti_span_t filter);
/* The same of "metrics", with what the head knows of the cluster; `silent` nodes have not
 * answered. */
char *crti_state_metrics(const crti_control_t *c, crti_span_t answers, unsigned silent);

/* ---------------------------------------------------------------- task_rows.c */

#define CRTI_TASK_ROWS 10000 /* most that are told at once */
/* The same of "tasks": of the id of one, of a query, or all; `silent` nodes have not answered. */
char *crti_task_rows_join(crti_span_t answers, crti_span_t filter, unsigned silent);
crt_status_t crti_task_rows_check(crti_span_t filter);

#endif
