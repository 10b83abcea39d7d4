/* SPDX-License-Identifier: Apache-2.0 */
/* Autoscaler: when the cluster gets another node, of which type, and when one ends. Pure: what the
 * cluster has, what a provider said and the time are passed in, orders come out.
 *
 * Where it sits
 *     control_autoscale.c (tables, time) -> [ control/autoscale/autoscaler.c ] -> pack.c
 *         orders -> head_scaler.c (carries them out elsewhere) -> events back
 * Rules (docs/design/autoscaler.md)
 *     Up: what waits and has no room, neither on nodes nor on those that were asked for, is packed
 *     into new nodes; those of the smallest number come first. Never more of a type than its max,
 *     which counts all that were asked for until their end is confirmed.
 *     Down: a node that nothing runs on for the idle time-out is drained, and ended when it has
 *     left; unless it is one of the min, something that waits goes there, users asked for its room,
 *     or its objects have no room elsewhere.
 *     A type whose node can't be started, does not come, or dies young is asked for again after a
 *     pause that doubles.
 *     What joins the cluster is there, whatever the provider says.
 *     Every decision is told with its reason.
 * Ownership
 *     The scaler owns its instances, by name. Orders are called inside of the functions here, and
 *     must not call back.
 */
#ifndef CRTI_CONTROL_AUTOSCALER_H
#define CRTI_CONTROL_AUTOSCALER_H

#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/control/autoscale/pack.h"

/* Labels by which a node says which instance it is. */
#define CRTI_LABEL_INSTANCE  "crt/instance"
#define CRTI_LABEL_NODE_TYPE "crt/node-type"

#define CRTI_INSTANCE_NAME 96
#define CRTI_INSTANCES_MAX 10000
#define CRTI_SCALE_TEXT    400
#define CRTI_SCALE_EVENTS  200             /* decisions that are kept */
#define CRTI_SCALE_SETTLE  (100 * CRTI_MS) /* what waits shorter may be going to run */
#define CRTI_SCALE_LIST_NS (30 * CRTI_S)   /* the provider is asked what there is */
#define CRTI_SCALE_YOUNG_NS                                                              \
    (10 * CRTI_S) /* a node that dies so early counts as a failure */
#define CRTI_SCALE_FIRST_NS (2 * CRTI_S)   /* pause after a failure, doubled */
#define CRTI_SCALE_MOST_NS  (300 * CRTI_S) /* up to here */
#define CRTI_SCALE_DRAIN_MS                                                              \
    UINT64_C(86400000)   /* for what begins while a node is drained */
#define CRTI_SCALE_FEW 5 /* nodes that may be on their way, or be ended, in any cluster */

typedef struct crti_scale_config {
    const crti_node_type_t *types; /* copied */
    size_t type_count;
    uint64_t idle_ns;  /* a node that is idle so long ends */
    uint64_t start_ns; /* from the order until a node has joined */
    double up,
        down; /* nodes on their way, or being ended, as a part of those that there are */
    const char
        *cluster; /* names of instances have it, so that clusters tell theirs apart */
    int64_t wall_offset_ms;
    uint64_t seed;
} crti_scale_config_t;

/*            started            joined             idle: drained
 *   ASKED ------------> STARTING ------> RUNNING ----------------> DRAINING
 *     | failed             | not in time    | died, left               | left
 *     v                    v                v                          v
 *   ENDING: its end is asked for until the provider says that it has ended. Then it is forgotten.
 */
typedef enum crti_instance_state {
    CRTI_INSTANCE_ASKED,
    CRTI_INSTANCE_STARTING,
    CRTI_INSTANCE_RUNNING,
    CRTI_INSTANCE_DRAINING,
    CRTI_INSTANCE_ENDING,
    CRTI_INSTANCE_STATES
} crti_instance_state_t;

typedef struct crti_instance {
    char name[CRTI_INSTANCE_NAME];
    size_t type;
    crti_instance_state_t state;
    bool is_stray; /* ENDING: the provider has it, and nobody asked for it */
    bool is_seen;  /* by the look that goes on */
    bool is_end_asked;
    crti_id_t node;             /* RUNNING, DRAINING */
    size_t node_at;             /* `is_seen`: which of the nodes of the look it is */
    uint64_t since_ns, idle_ns; /* idle_ns: since when; 0: it is not */
    uint64_t retry_ns;          /* ENDING: not asked before */
    unsigned end_failures;
    char text[CRTI_SCALE_TEXT]; /* why it is in that state */
    crti_list_t link;
} crti_instance_t;

#define CRTI_INSTANCE_OF(item) CRTI_CONTAINER(item, crti_instance_t, link)

/* A node of the cluster. */
typedef struct crti_scale_node {
    crti_id_t node;
    const char *labels;
    const crti_resources_t *total, *available;
    bool is_away;    /* its link is broken, or it is expected back: it has no room now */
    bool is_drained; /* it takes no new work */
    bool is_busy;    /* something runs there, or waits for it */
    uint64_t store_used, store_bytes;
} crti_scale_node_t;

typedef struct crti_scale_input {
    uint64_t now_ns;
    const crti_scale_node_t *nodes; /* that live */
    size_t node_count;
    const crti_demand_t *demand;
    bool is_joining; /* nodes may come back that nobody knows of yet */
} crti_scale_input_t;

typedef struct crti_scale_orders {
    void *user;
    void (*ask)(void *user, const char *instance, const crti_node_type_t *type);
    /* `node`: zero when none of that instance has joined. */
    void (*end)(void *user, const char *instance, const crti_node_type_t *type,
                crti_id_t node);
    void (*drain)(void *user, crti_id_t node);
    void (*list)(void *user);
} crti_scale_orders_t;

typedef enum crti_scale_severity {
    CRTI_SCALE_INFO,
    CRTI_SCALE_WARNING
} crti_scale_severity_t;

/* A decision, or what became of one. */
typedef struct crti_scale_event {
    uint64_t serial; /* 1, 2, 3, ... */
    int64_t wall_ms;
    crti_scale_severity_t severity;
    char text[CRTI_SCALE_TEXT];
} crti_scale_event_t;

/* What becomes of a type. */
typedef struct crti_scale_type_state {
    unsigned failures;          /* in a row */
    uint64_t retry_ns;          /* not asked for before; 0: at any time */
    bool knows_memory;          /* a node of it has joined */
    char text[CRTI_SCALE_TEXT]; /* of the last failure; "": the last one came */
} crti_scale_type_state_t;

typedef struct crti_autoscaler {
    crti_scale_config_t config;
    crti_scale_orders_t orders;
    crti_node_type_t types[CRTI_NODE_TYPES_MAX];
    crti_scale_type_state_t states[CRTI_NODE_TYPES_MAX];
    char cluster[16];
    crti_map_t by_name;
    crti_list_t instances; /* in the order they were asked for */
    size_t counts[CRTI_NODE_TYPES_MAX][CRTI_INSTANCE_STATES]; /* without strays */
    crti_scale_event_t events[CRTI_SCALE_EVENTS];             /* a ring */
    uint64_t event_count;
    char waits[CRTI_SCALE_TEXT]; /* what waits without hope, and why; "": nothing */
    char never[CRTI_SCALE_TEXT]; /* the first of it that no type will do for; "": none */
    char list_text[CRTI_SCALE_TEXT]; /* why the provider did not say what there is */
    uint64_t random;
    uint64_t now_ns;  /* of what is handled */
    uint64_t need_ns; /* since when something needs a new node; 0: nothing does */
    uint64_t list_ns; /* asked for what there is at that moment */
    bool is_listing, has_listed;
    uint64_t due_ns;
} crti_autoscaler_t;

/* Caller owns the result and frees it with crti_autoscaler_free. */
crt_status_t crti_autoscaler_new(const crti_scale_config_t *config,
                                 const crti_scale_orders_t *orders,
                                 crti_autoscaler_t **scaler_out);
void crti_autoscaler_free(crti_autoscaler_t *scaler);

/* Decides on the cluster as it is. */
void crti_autoscaler_look(crti_autoscaler_t *scaler, const crti_scale_input_t *input);

/* Answers to orders; `text` is why it failed. Those about instances that nobody knows are late. */
void crti_autoscaler_asked(crti_autoscaler_t *scaler, const char *instance, bool is_done,
                           const char *text, uint64_t now_ns);
void crti_autoscaler_ended(crti_autoscaler_t *scaler, const char *instance, bool is_done,
                           const char *text, uint64_t now_ns);
/* `names`: of instances that the provider has, those of others among them. */
void crti_autoscaler_listed(crti_autoscaler_t *scaler, bool is_done, const char *text,
                            const char *const *names, size_t count, uint64_t now_ns);

/* When the next look is due, unless something happens before. */
uint64_t crti_autoscaler_deadline(const crti_autoscaler_t *scaler);

/* Instances of the type that count towards its max. */
size_t crti_autoscaler_count(const crti_autoscaler_t *scaler, size_t type);
/* The same in one state. */
size_t crti_autoscaler_count_in(const crti_autoscaler_t *scaler, size_t type,
                                crti_instance_state_t state);
const char *crti_instance_state_name(crti_instance_state_t state);

#endif
