/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of dispatch/, which its own files see. */
#ifndef CRTI_NODE_DISPATCH_INT_H
#define CRTI_NODE_DISPATCH_INT_H

#include "runtime/node/dispatch/dispatch.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/process/context.h"
#include "runtime/node/process/process.h"

/* Of the link to the head (head_link.c). */
struct crti_registration {
    crti_id_t cluster;
    bool ever; /* NODE_REGISTERED came on any link */
    crti_timer_t retry;
    crti_timer_t beat;
    crti_timer_t unanswered; /* NODE_REGISTER, for too long */
    uint64_t attempts;
    uint64_t heard_ns;  /* last message */
    uint64_t lost_ns;   /* since when there is no link, 0 while there is one */
    uint64_t beat_sent; /* sequence */
    uint64_t beat_ns;
    bool changed;         /* resources changed since the last heartbeat */
    bool hears_all;       /* the head tells of all nodes, and has not ended */
    uint64_t headless_ns; /* how long to live without */
    char why[300]; /* why the last attempt failed; "": since NODE_REGISTERED none did */
};

/* Questions that processes answer themselves (questions.c). */
typedef struct crti_question crti_question_t;
struct crti_questions {
    crti_list_t waiting;   /* for their turn, */
    size_t count;          /* so many */
    crti_question_t *open; /* NULL: none */
    uint64_t rounds;
};

/* What goes on for jobs (rest.c). */
typedef struct crti_rest_look crti_rest_look_t;
struct crti_rest {
    crti_rest_look_t *open; /* NULL: none */
    uint64_t rounds;
};

extern const crti_local_handlers_t crti_local_dispatch;
extern const crti_peer_handlers_t crti_peer_dispatch;
extern const crti_process_handlers_t crti_death_dispatch;

/* attach.c */
void crti_attach(crti_local_t *local, const crti_message_t *message);

/* head_dispatch.c: false when it is none that belongs here. */
bool crti_head_dispatch_order(crti_node_t *node, const crti_message_t *m);
bool crti_head_dispatch_news(crti_node_t *node, const crti_message_t *m);

/* node_news.c: the head shows a node that was sought; news of many. */
void crti_node_view(crti_node_t *node, const crti_msg_node_view_t *view);
void crti_node_views(crti_node_t *node, const crti_msg_node_views_t *views);

/* state.c: STATE_QUERY "workers", "tasks", "objects", "stacks" and "metrics" of the head. */
void crti_state_asked(crti_node_t *node, uint64_t request,
                      const crti_msg_state_query_t *query);
/* task_rows.c: appends what is known of the newest `limit` calls. */
crt_status_t crti_task_rows(crti_node_t *node, size_t limit, crti_buffer_t *out);
/* object_rows.c: appends the largest `limit` objects of the store (base/object_records.h). */
crt_status_t crti_object_rows(crti_node_t *node, size_t limit, crti_buffer_t *out);
/* metric_rows.c: appends the figures of this node and what its programs count; `with_recent`: of
 * gauges also the last values. */
crt_status_t crti_metric_rows(crti_node_t *node, bool with_recent, crti_buffer_t *json);

/* questions.c: STATE_QUERY "stacks" (of `filter`, the id of a node, a process or an actor; "" all)
 * and "objects" (the largest `limit` of the store), which is answered later. */
crt_status_t crti_question_asked(crti_node_t *node, uint64_t request, bool is_stacks,
                                 size_t limit, crti_span_t filter);
/* STATE_ANSWER of a process. */
void crti_question_said(crti_process_t *process, crti_span_t told);

/* rest.c: STATE_QUERY "rest" of the head, which is answered later; and what a process answers.
 * False: that is none of it. */
void crti_rest_asked(crti_node_t *node, uint64_t request, crti_span_t jobs);
bool crti_rest_said(crti_process_t *process, crti_span_t told);

/* death.c. A driver said that it leaves; with a request it hears when what ran for it here has
 * ended. */
void crti_death_driver_leaves(crti_process_t *process, uint64_t request,
                              const crti_msg_shutdown_t *message);
/* A driver closed its link: it left the cluster, whether its process lives on or not. */
void crti_death_driver_closed(crti_process_t *process);

#endif
