/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster as structs: nodes, their total and free resources, and named actors. Each function
 * asks the head once, and waits at most 30 s. Part of crt.h.
 *
 *     crt_node_info_t nodes[64];
 *     size_t count;
 *     CRT_TRY(crt_nodes(nodes, sizeof(nodes[0]), 64, &count));
 *     for (size_t i = 0; i < count && i < 64; i++)
 *         printf("%s: %g of %g CPUs free\n", nodes[i].ip, nodes[i].cpus_free, nodes[i].cpus);
 *
 * Lists are filled up to `room` elements. `*count_out` is the number of elements that exist: more
 * than `room` means that some were left out. `element_size` is the size of one element as the
 * caller was compiled, so that structs may grow: an older library leaves members that are unknown
 * to it zero. `room` 0 only counts; the list may then be NULL.
 *
 * Errors of all: CRT_ERR_INVALID (no list, or an element that is smaller than the first
 * version's), CRT_ERR_NOT_INITIALIZED, CRT_ERR_HEAD_LOST and CRT_ERR_TIMED_OUT (no answer within
 * 30 s), CRT_ERR_NO_MEMORY.
 *
 * Functions may be called from any thread of a driver or worker. */
#ifndef CRT_CLUSTER_VIEW_H
#define CRT_CLUSTER_VIEW_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum crt_node_state {
    CRT_NODE_ALIVE = 1,
    /* Takes no new work, and ends soon. */
    CRT_NODE_DRAINING = 2,
    CRT_NODE_DEAD = 3
} crt_node_state_t;

/* One node. Texts that are longer than their member are cut. */
typedef struct crt_node_info {
    /* 32 hex digits, as crt_node_id gives it. */
    char id[33];
    char ip[64];
    char hostname[256];
    /* "name=value,name=value". */
    char labels[512];
    crt_node_state_t state;
    /* The head runs on the same host. */
    bool is_head_host;
    /* The amounts that tasks, actors and placement groups of the node may hold, and the amounts
     * that are free now. 0 for a dead node. */
    double cpus, cpus_free;
    double gpus, gpus_free;
    /* Size of the object store. */
    uint64_t store_bytes;
    /* Size of the objects in the store, as of the last heartbeat: up to 1 s ago. */
    uint64_t store_used_bytes;
    /* Time at which the node joined, in milliseconds since 1970. */
    int64_t start_ms;
    /* Time at which the node died or left, in milliseconds since 1970. 0: the node lives. */
    int64_t end_ms;
} crt_node_info_t;

/* Lists the nodes of the cluster, living nodes first. Nodes that have died are kept for some
 * time.
 *
 * The list is filled up to `room` elements of `element_size` bytes each (sizeof of the struct).
 * `*count_out` is the number that exist, which may be more than `room`. With `room` 0 the list
 * may be NULL. Any thread may call.
 *
 * Errors: CRT_ERR_INVALID, when the list is NULL, or element_size is smaller than that of the
 * first version; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head
 * does not answer within 30 s; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_nodes(crt_node_info_t *nodes, size_t element_size, size_t room,
                               size_t *count_out);

/* An amount of one resource: "CPU", "GPU", or a name of crt start --resources. */
typedef struct crt_resource_info {
    char name[64];
    /* The amount of all living nodes that the call asked for. */
    double total;
    /* The amount that no task, actor or placement group holds. */
    double free;
} crt_resource_info_t;

/* Lists the resources of one node (`node_id`: 32 hex digits), or the sums of all living nodes
 * (NULL), ordered by name.
 *
 * The list is filled up to `room` elements of `element_size` bytes each (sizeof of the struct).
 * `*count_out` is the number that exist, which may be more than `room`. With `room` 0 the list
 * may be NULL. Any thread may call.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such node; CRT_ERR_INVALID, when the list is NULL,
 * or element_size is smaller than that of the first version; CRT_ERR_NOT_INITIALIZED;
 * CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head does not answer within 30 s;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_resources(const char *node_id, crt_resource_info_t *resources,
                                   size_t element_size, size_t room, size_t *count_out);

/* Reads the total and the free amount of one resource on all living nodes together; 0 when no
 * node has the resource. Either pointer may be NULL. Any thread may call.
 *
 * Errors: CRT_ERR_INVALID, when `name` is NULL or ""; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST
 * or CRT_ERR_TIMED_OUT, when the head does not answer within 30 s; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_resource_total(const char *name, double *total_out,
                                        double *free_out);

typedef enum crt_actor_state {
    /* Waits for a node with room. */
    CRT_ACTOR_PENDING = 1,
    CRT_ACTOR_STARTING = 2,
    CRT_ACTOR_ALIVE = 3,
    CRT_ACTOR_RESTARTING = 4,
    CRT_ACTOR_DEAD = 5
} crt_actor_state_t;

/* One actor. Texts that are longer than their member are cut. */
typedef struct crt_actor_info {
    char id[33];
    /* "": the actor has no name. */
    char name[256];
    /* The namespace of the name. */
    char name_space[128];
    char class_name[204];
    char job_id[33];
    /* "": the actor is on no node now. */
    char node_id[33];
    crt_actor_state_t state;
    bool is_detached;
    /* Of the actor's process. 0: no process now. */
    int64_t pid;
    /* How many times the actor was restarted. */
    int64_t restarts;
} crt_actor_info_t;

/* Lists the living actors that have a name, of one namespace or of all (NULL), ordered by
 * namespace and name.
 *
 * The list is filled up to `room` elements of `element_size` bytes each (sizeof of the struct).
 * `*count_out` is the number that exist, which may be more than `room`. With `room` 0 the list
 * may be NULL. Any thread may call.
 *
 * Errors: CRT_ERR_INVALID, when the list is NULL, or element_size is smaller than that of the
 * first version; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head
 * does not answer within 30 s; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_actors_named(const char *name_space, crt_actor_info_t *actors,
                                      size_t element_size, size_t room,
                                      size_t *count_out);

/* Gives the state of the cluster as JSON text. `what` names the state: "cluster", "nodes",
 * "actors", "actors_detail" (actors with their queues), "jobs", "workers", "placement_groups",
 * "tasks", "objects", "refs", "events" or "stacks" (docs/design/state.md). The state covers all
 * nodes and processes, the caller included. "placement-groups" and "cluster-events", as the state
 * commands say, are accepted too. Caller owns the text and frees it with crt_free. Any thread may
 * call.
 *
 * Errors: CRT_ERR_INVALID, when there is no such state, or `what` or `json_out` is NULL;
 * CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head does not answer
 * within 30 s; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_cluster_state(const char *what, char **json_out);

#ifdef __cplusplus
}
#endif

#endif
