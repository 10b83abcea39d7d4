/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of this host and user, as tools see them: which there are, what they say of themselves, and their
 * logs. None of them has to be joined. Part of crt.h.
 *
 * Structs that a function fills travel with their size, sizeof(info): a program that was compiled with other headers gets
 * the members that it knows.
 *
 * Functions may be called from any thread.
 */
#ifndef CRT_CLUSTER_H
#define CRT_CLUSTER_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What one running node of this user says of itself (its run directory's node.info). A head that
 * has no node on this host is listed too: then run_dir and node are "". */
typedef struct crt_cluster_info {
    char address[72];  /* of the head, host:port */
    char run_dir[96];  /* of the node */
    char head_dir[96]; /* run directory of the head, "" when it is on another host */
    char node[33];     /* node id */
    char node_ip[64];
    char http
        [288]; /* URL of the dashboard, "" while nobody serves it, or none can be reached */
    char http_pin[56];  /* of a certificate of the user's own; "": see crt_cluster_pin */
    char key_file[256]; /* the cluster key */
    char state_dir[256];
    int64_t pid;     /* of the node daemon, else of the head */
    bool is_private; /* belongs to one driver */
} crt_cluster_info_t;

/* Running nodes of this user on this host, private ones included. Fills up to `room` entries of `info_size` bytes
 * each, sizeof(infos[0]), and sets `*count_out` to how many nodes there are. CRT_ERR_INVALID: the size is none;
 * CRT_ERR_IO, CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_cluster_list(crt_cluster_info_t *infos, size_t info_size,
                                      size_t room, size_t *count_out);

/* The cluster that is meant: `address`, else CRT_ADDRESS, else the only one that is not private and,
 * with CRT_STATE_DIR set, of that state directory. CRT_ERR_NOT_FOUND: none; CRT_ERR_EXISTS: several,
 * the detail lists them; CRT_ERR_PERMISSION: CRT_KEY_FILE holds the key of another cluster;
 * CRT_ERR_INVALID: it holds none. */
CRT_API crt_status_t crt_cluster_find(const char *address, size_t info_size,
                                      crt_cluster_info_t *info_out);

/* True when both are one HOST:PORT, by whatever words: a host's name in any letters, its numeric address, IPv4
 * within IPv6. Asks the resolver where a host is no numeric address. */
CRT_API bool crt_cluster_same_address(const char *a, const char *b);

/* Asks a running cluster of this host without joining it. `what` and the JSON text are those of
 * crt_cluster_state; `filter` is an id or NULL. Caller frees it with free(). */
CRT_API crt_status_t crt_cluster_query(const crt_cluster_info_t *cluster,
                                       const char *what, const char *filter,
                                       char **json_out);

/* Begins to drain a node, `node` being its id: it takes no new work, actors that may restart move to other nodes, tasks, other actors and
 * drivers end, objects are copied to where their owners are; then it ends, `limit_ms` from now (at most 30 days) at the
 * latest. Again: another deadline. Returns when it has begun. CRT_ERR_NOT_FOUND: no such node. */
CRT_API crt_status_t crt_cluster_drain(const crt_cluster_info_t *cluster,
                                       const char *node, int64_t limit_ms);

/* A part of the log of a worker, of an actor (id or name) or of "job:SUBMISSION". */
typedef struct crt_cluster_log {
    char *data; /* caller frees it with free() */
    size_t size;
    uint64_t next; /* offset to go on from */
    bool ended;    /* the process is gone and all was read */
} crt_cluster_log_t;

/* Reads from `offset`; waits up to `wait_ms` for more. CRT_ERR_NOT_FOUND: no such log. */
CRT_API crt_status_t crt_cluster_log(const crt_cluster_info_t *cluster, const char *name,
                                     uint64_t offset, int64_t wait_ms, size_t log_size,
                                     crt_cluster_log_t *log_out);

#ifdef __cplusplus
}
#endif

#endif
