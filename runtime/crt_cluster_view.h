/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster as data: its nodes, what they have and what is free of it, its actors and jobs, as
 * structs. Each function asks the head once, and waits at most 30 s. Part of crt.h.
 *
 *     crt_node_info_t nodes[64];
 *     size_t count;
 *     CRT_TRY(crt_nodes(nodes, sizeof(nodes[0]), 64, &count));
 *     for (size_t i = 0; i < count && i < 64; i++)
 *         printf("%s: %g of %g CPUs free\n", nodes[i].ip, nodes[i].cpus_free, nodes[i].cpus);
 *
 * Lists are filled up to `room` elements, and `*count_out` is how many there are: more than
 * `room` means that some were left out. `element_size` is the size of one element as the caller
 * was compiled, so that structs may grow: a library that is older than the caller leaves members
 * that it does not know zero. `room` 0 only counts, the list may be NULL then.
 *
 * Errors of all: CRT_ERR_INVALID (no list, or an element that is smaller than the first
 * version's), CRT_ERR_NOT_INITIALIZED, CRT_ERR_HEAD_LOST and CRT_ERR_TIMED_OUT (no answer within
 * 30 s), CRT_ERR_NO_MEMORY.
 *
 * Functions may be called from any thread of a driver or worker.
 */
#ifndef CRT_CLUSTER_VIEW_H
#define CRT_CLUSTER_VIEW_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum crt_node_state {
    CRT_NODE_ALIVE = 1,
    CRT_NODE_DRAINING = 2, /* takes no new work, and ends soon */
    CRT_NODE_DEAD = 3
} crt_node_state_t;

/* One node. Texts that are longer than their member are cut. */
typedef struct crt_node_info {
    char id[33]; /* 32 hex digits, as crt_node_id gives it */
    char ip[64];
    char hostname[256];
    char labels[512]; /* "name=value,name=value" */
    crt_node_state_t state;
    bool is_head_host; /* the head runs on the same host */
    /* Those that its tasks, actors and placement groups may hold, and what nobody holds now. 0
     * for a dead node. */
    double cpus, cpus_free;
    double gpus, gpus_free;
    uint64_t store_bytes; /* size of the object store */
    uint64_t
        store_used_bytes; /* and of the objects in it, as of the last heartbeat: up to 1 s ago */
    int64_t start_ms; /* when it joined, in milliseconds since 1970 */
    int64_t end_ms;   /* when it died or left; 0: it lives */
} crt_node_info_t;

/* All nodes of the cluster, living ones first; nodes that have died are kept for some time. */
CRT_API crt_status_t crt_nodes(crt_node_info_t *nodes, size_t element_size, size_t room,
                               size_t *count_out);

/* An amount of one resource: "CPU", "GPU", or a name of crt start --resources. */
typedef struct crt_resource_info {
    char name[64];
    double total; /* of the living nodes that were asked for */
    double free;  /* and what no task, actor or placement group holds */
} crt_resource_info_t;

/* The resources of one node (32 hex digits), or of all living nodes together (NULL), in the order
 * of their names. CRT_ERR_NOT_FOUND: there is no such node. */
CRT_API crt_status_t crt_resources(const char *node_id, crt_resource_info_t *resources,
                                   size_t element_size, size_t room, size_t *count_out);

/* The amounts of one resource on all living nodes together; 0 when no node has it. Either pointer
 * may be NULL. */
CRT_API crt_status_t crt_resource_total(const char *name, double *total_out,
                                        double *free_out);

typedef enum crt_actor_state {
    CRT_ACTOR_PENDING = 1, /* waits for a node with room */
    CRT_ACTOR_STARTING = 2,
    CRT_ACTOR_ALIVE = 3,
    CRT_ACTOR_RESTARTING = 4,
    CRT_ACTOR_DEAD = 5
} crt_actor_state_t;

/* One actor. Texts that are longer than their member are cut. */
typedef struct crt_actor_info {
    char id[33];
    char name[256];       /* "": it has none */
    char name_space[128]; /* of the name */
    char class_name[204];
    char job_id[33];
    char node_id[33]; /* "": on none now */
    crt_actor_state_t state;
    bool is_detached;
    int64_t pid;      /* of its process, 0: it has none now */
    int64_t restarts; /* how often it was restarted */
} crt_actor_info_t;

/* Named actors that live, of one namespace, or of all (NULL), in the order of namespace and name.
 */
CRT_API crt_status_t crt_actors_named(const char *name_space, crt_actor_info_t *actors,
                                      size_t element_size, size_t room,
                                      size_t *count_out);

/* The state of the cluster as JSON text: what = "cluster", "nodes", "actors", "actors_detail" (with
 * their queues), "jobs", "workers", "placement_groups", "tasks", "objects", "refs", "events",
 * "stacks" (docs/design/state.md), of all nodes and processes, the caller's own too;
 * "placement-groups" and "cluster-events", as the state commands say, are taken. The caller frees
 * the text with free(). CRT_ERR_INVALID: there is no such state. */
CRT_API crt_status_t crt_cluster_state(const char *what, char **json_out);

#ifdef __cplusplus
}
#endif

#endif
