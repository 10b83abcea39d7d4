/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of this host and user, for tools: listing clusters, querying the state of a cluster,
 * draining nodes and reading logs. A tool does not have to join a cluster (crt_init) for this.
 * Part of crt.h.
 *
 * A function that fills a struct also takes the size of the struct, sizeof(info). A program that
 * was compiled with other headers gets the members that these headers have.
 *
 * Threads: every function here may be called from any thread.
 */
#ifndef CRT_CLUSTER_H
#define CRT_CLUSTER_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Description of one running node of this user, from node.info in the run directory of the node. A
 * head without a node on this host is listed too: then run_dir and node are "". */
typedef struct crt_cluster_info {
    /* Address of the head, HOST:PORT. */
    char address[72];
    /* Run directory of the node. */
    char run_dir[96];
    /* Run directory of the head; "" if the head is on another host. */
    char head_dir[96];
    /* Id of the node, 32 hex digits. */
    char node[33];
    /* IP address of the node. */
    char node_ip[64];
    /* URL of the dashboard; "" while no dashboard runs or can be reached. */
    char http[288];
    /* Pin of the dashboard's certificate if the user supplied the certificate; "" otherwise. */
    char http_pin[56];
    /* Path of the file that holds the cluster key. */
    char key_file[256];
    /* State directory of the node, or of the head. */
    char state_dir[256];
    /* Process id of the node daemon; of the head if there is no node. */
    int64_t pid;
    /* The cluster is private: the cluster belongs to one driver. */
    bool is_private;
    /* Keeps the place of padding, which older programs do not set to zero. */
    char crti_padding[7];
    /* Socket by which processes of the host get the object store of the node: a path; "" if there
     * is no node. */
    char object_store[112];
    /* Address of the tables of the cluster, a Redis server: the path of a socket, or HOST:PORT; ""
     * if the head is on another host. */
    char control_store[128];
} crt_cluster_info_t;

/* Lists the running nodes of this user on this host, including nodes of private clusters. Fills at
 * most `room` entries of `infos`, each of `info_size` bytes (sizeof(infos[0])), and sets
 * `*count_out` to the number of nodes, which may be larger than `room`. The caller owns `infos`.
 *
 * Errors: CRT_ERR_INVALID, when info_size is too small to be the size of a crt_cluster_info_t;
 * CRT_ERR_NO_MEMORY, when memory is out; CRT_ERR_IO or CRT_ERR_PERMISSION, when the run directory
 * can't be used. */
CRT_API crt_status_t crt_cluster_list(crt_cluster_info_t *infos, size_t info_size,
                                      size_t room, size_t *count_out);

/* Selects one running cluster of this user on this host and fills `*info_out`, which has
 * `info_size` bytes (sizeof(*info_out)). The cluster is the one at `address` (HOST:PORT); if
 * `address` is NULL or "", the one at the environment variable CRT_ADDRESS; if CRT_ADDRESS is not
 * set, the only cluster that is not private. If CRT_STATE_DIR is set, that last search considers
 * only clusters of this state directory.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such cluster; CRT_ERR_EXISTS, when there are several
 * (crt_error_detail lists them); CRT_ERR_PERMISSION, when the file in CRT_KEY_FILE holds the key
 * of another cluster; CRT_ERR_INVALID, when that file holds no key or can't be read, the address
 * is not HOST:PORT, or info_size is too small to be the size of a crt_cluster_info_t;
 * CRT_ERR_NO_MEMORY, when memory is out. */
CRT_API crt_status_t crt_cluster_find(const char *address, size_t info_size,
                                      crt_cluster_info_t *info_out);

/* Gives the addresses of the cluster of this program: its head, its dashboard, the object store,
 * the tables of the cluster, directories and the file of the key. Works after crt_context_start and
 * after crt_init, in workers too. `info_size` is sizeof(*info_out).
 *
 * Errors: CRT_ERR_NOT_FOUND, when the program has no cluster, or its node has ended;
 * CRT_ERR_INVALID, when info_size is too small to be the size of a crt_cluster_info_t;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_context_info(size_t info_size, crt_cluster_info_t *info_out);

/* Returns true when both texts are the same address HOST:PORT, also when they are written
 * differently: a host name in upper or lower case, a numeric address, an IPv4 address inside an
 * IPv6 address. May block: the function asks the resolver of the host if a host is not a numeric
 * address. */
CRT_API bool crt_cluster_same_address(const char *a, const char *b);

/* Queries the state of a running cluster of this host without joining the cluster. `what` and the
 * JSON text are those of crt_cluster_state; `what` must not be NULL. `filter` is an id, or NULL:
 * everything. Waits up to 10 s for the answer, up to 15 s for "stacks". The caller owns
 * `*json_out` and frees the text with crt_free.
 *
 * Errors: CRT_ERR_INVALID, when `what` is unknown; CRT_ERR_HEAD_LOST, when the head is down;
 * CRT_ERR_NOT_FOUND, when the node is down; CRT_ERR_TIMED_OUT, when there is no answer in time;
 * CRT_ERR_CLOSED, when the connection breaks; CRT_ERR_PERMISSION, when the daemon belongs to
 * another user; CRT_ERR_IO, when there is no socket left; CRT_ERR_NO_MEMORY, when memory is out. */
CRT_API crt_status_t crt_cluster_query(const crt_cluster_info_t *cluster,
                                       const char *what, const char *filter,
                                       char **json_out);

/* Begins to drain a node. `node` is the id of the node, 32 hex digits. `limit_ms` is the time
 * until the node ends at the latest, in milliseconds: 1 ms to 30 days. Returns when the drain has
 * begun.
 *
 * From then on the node accepts no new work. Actors that may restart move to other nodes. Tasks,
 * other actors and drivers of the node may finish their work. Objects are copied to the nodes of
 * their owners. Then the node ends. A second call for the same node sets a new deadline.
 *
 * Errors: CRT_ERR_NOT_FOUND, when the cluster has no such node; CRT_ERR_INVALID, when `node` is
 * not 32 hex digits or limit_ms is out of range; CRT_ERR_HEAD_LOST, when the head is down;
 * CRT_ERR_TIMED_OUT, when there is no answer within 10 s; CRT_ERR_CLOSED, when the connection
 * breaks; CRT_ERR_PERMISSION, when the daemon belongs to another user. */
CRT_API crt_status_t crt_cluster_drain(const crt_cluster_info_t *cluster,
                                       const char *node, int64_t limit_ms);

/* The tag of crt_bundle_t of crt_placement_group.h, which may include this header. */
struct crt_bundle;

/* Asks the cluster to have room for these bundles, as crt_request_resources does, until the next
 * call of this function. `count` 0: nothing is asked for any more.
 *
 * Errors: CRT_ERR_INVALID, when a bundle is invalid or there are more than 1000;
 * CRT_ERR_UNSUPPORTED, when the cluster has no autoscaler; CRT_ERR_IO, when the head can't write it
 * down; CRT_ERR_HEAD_LOST, when the head is down; CRT_ERR_TIMED_OUT, when
 * there is no answer within 10 s; CRT_ERR_CLOSED, when the connection breaks; CRT_ERR_PERMISSION,
 * when the daemon belongs to another user; CRT_ERR_NO_MEMORY, when memory is out. */
CRT_API crt_status_t crt_cluster_request_resources(const crt_cluster_info_t *cluster,
                                                   const struct crt_bundle *bundles,
                                                   size_t count);

/* A part of a log, filled by crt_cluster_log. */
typedef struct crt_cluster_log {
    /* The bytes of the log. The caller owns them and frees them with crt_free. */
    char *data;
    /* The number of bytes in data. */
    size_t size;
    /* The offset at which the next part begins: pass this number to the next crt_cluster_log. */
    uint64_t next;
    /* The process has ended, and the caller has read all of its log. */
    bool ended;
} crt_cluster_log_t;

/* Reads a part of the log of a worker, an actor or a submitted job, at most 1 MiB, without joining
 * the cluster. `name` is the id of a worker, the id or name of an actor, or "job:SUBMISSION". The
 * part begins at `offset`, in bytes; 0: the beginning. If there is nothing to read yet, waits up
 * to `wait_ms` milliseconds, 60000 at most; 0 or a negative number: no wait. Fills `*log_out`,
 * which has `log_size` bytes (sizeof(*log_out)).
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such log; CRT_ERR_UNREACHABLE, when the node that
 * has the log is not in the cluster at the moment; CRT_ERR_HEAD_LOST, when the head is down;
 * CRT_ERR_TIMED_OUT, when there is no answer 10 s after wait_ms; CRT_ERR_CLOSED, when the
 * connection breaks; CRT_ERR_PERMISSION, when the daemon belongs to another user; CRT_ERR_IO, when
 * the file can't be read; CRT_ERR_NO_MEMORY, when memory is out. */
CRT_API crt_status_t crt_cluster_log(const crt_cluster_info_t *cluster, const char *name,
                                     uint64_t offset, int64_t wait_ms, size_t log_size,
                                     crt_cluster_log_t *log_out);

#ifdef __cplusplus
}
#endif

#endif
