/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of this host and user, as tools see them: which there are, what they say of themselves, their
 * logs, keys and tokens. None of them has to be joined. Part of crt.h.
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

/* Running nodes of this user on this host, private ones included. Fills up to `room` entries and
 * sets `*count_out` to how many there are. */
CRT_API crt_status_t crt_cluster_list(crt_cluster_info_t *infos, size_t room,
                                      size_t *count_out);

/* The cluster that is meant: `address`, else CRT_ADDRESS, else the only one that is not private and,
 * with CRT_STATE_DIR set, of that state directory. CRT_ERR_NOT_FOUND: none; CRT_ERR_EXISTS: several,
 * the detail lists them; CRT_ERR_PERMISSION: CRT_KEY_FILE holds the key of another cluster;
 * CRT_ERR_INVALID: it holds none. */
CRT_API crt_status_t crt_cluster_find(const char *address, crt_cluster_info_t *info_out);

/* True when both are one HOST:PORT, by whatever words: a host's name in any letters, its numeric address, IPv4
 * within IPv6. Asks the resolver where a host is no numeric address. */
CRT_API bool crt_cluster_same_address(const char *a, const char *b);

/* The bearer token of the cluster whose key `key_file` holds; `token` has room for 65 bytes. It is good
 * until tokens are rotated: of the generation in KEY_FILE.generation, 0 where there is none. */
CRT_API crt_status_t crt_cluster_token(const char *key_file, char *token);

/* A token of that generation that is good until `end`, in seconds since 1970; 0: no end. */
CRT_API crt_status_t crt_cluster_token_until(const char *key_file, uint32_t generation,
                                             uint32_t end, char *token);

/* The same for those who may only read: its requests change nothing. */
CRT_API crt_status_t crt_cluster_reader_token(const char *key_file, uint32_t generation,
                                              uint32_t end, char *token);

/* The number in KEY_FILE.generation, 0 where there is none. CRT_ERR_CORRUPT: something else. */
CRT_API crt_status_t crt_cluster_token_generation(const char *key_file,
                                                  uint32_t *generation_out);

/* Every token and sign-in of that cluster from before is refused from now on. `key_file` is the
 * head's own, not a copy. */
CRT_API crt_status_t crt_cluster_rotate_tokens(const char *key_file);

/* What the dashboard's certificate must show over HTTPS, unless it has one of the user's own: the hash
 * "sha256//BASE64" of its public key, as curl --pinnedpubkey takes it. `pin` has room for 53 bytes. */
CRT_API crt_status_t crt_cluster_pin(const char *key_file, char *pin);

/* Asks a running cluster of this host without joining it. `what` and the JSON text are those of
 * crt_cluster_state; `filter` is an id or NULL. Caller frees it with free(). */
CRT_API crt_status_t crt_cluster_query(const crt_cluster_info_t *cluster,
                                       const char *what, const char *filter,
                                       char **json_out);

/* Begins to drain a node, `node` being its id: it takes no new work, actors that may restart move to other nodes, tasks, other actors and
 * drivers end, objects are copied to where their owners are; then it ends, `deadline_ms` from now (at most 30 days) at the
 * latest. Again: another deadline. Returns when it has begun. CRT_ERR_NOT_FOUND: no such node. */
CRT_API crt_status_t crt_cluster_drain(const crt_cluster_info_t *cluster,
                                       const char *node, uint64_t deadline_ms);

/* A part of the log of a worker, of an actor (id or name) or of "job:SUBMISSION". */
typedef struct crt_cluster_log {
    char *data; /* caller frees it with free() */
    size_t size;
    uint64_t next; /* offset to go on from */
    bool ended;    /* the process is gone and all was read */
} crt_cluster_log_t;

/* Reads from `offset`; waits up to `wait_ms` for more. CRT_ERR_NOT_FOUND: no such log. */
CRT_API crt_status_t crt_cluster_log(const crt_cluster_info_t *cluster, const char *name,
                                     uint64_t offset, uint64_t wait_ms,
                                     crt_cluster_log_t *log_out);

/* Where this installation or build tree has a daemon ("crt-head", "crt-node", "crt-http"): in
 * CRT_LIBEXEC if that is set, else beside libcrt or the program, else where it was installed. */
CRT_API crt_status_t crt_daemon_path(const char *name, char *path, size_t size);

#ifdef __cplusplus
}
#endif

#endif
