/* SPDX-License-Identifier: Apache-2.0 */
/* Redis endpoint: how to reach a redis-server that the head does not run (--redis-address). It
 * holds the address, the user and the password, whether to use TLS (redis_tls_proxy.h), the prefix
 * of this cluster's keys, and the identity of this head.
 *
 * Where it sits
 *     head_options.c -> [ control/store/redis_endpoint.c ] -> redis.c, redis_prefix_lock.c
 * Secrets
 *     The password is read from a file that only its owner may read, and stays in this struct. It
 *     is never an argument, a variable of the environment, or a line of a log.
 */
#ifndef CRTI_CONTROL_REDIS_ENDPOINT_H
#define CRTI_CONTROL_REDIS_ENDPOINT_H

#include "runtime/base/crt_base.h"
#include "runtime/net/stream.h"

#define CRTI_REDIS_PREFIX 64 /* bytes of a prefix, with its zero */

/* The options of the user; borrowed. */
typedef struct crti_redis_external {
    const char *address;       /* host:port; NULL: the head has its own redis-server */
    const char *password_file; /* NULL: none */
    const char *prefix;        /* NULL: "crt" */
    const char *user;          /* of the ACL; NULL: the default user */
    const char *ca_file;       /* certificate authorities; NULL: those of this host */
    bool tls;
    bool plaintext_ok; /* another host is allowed without TLS */
} crti_redis_external_t;

/* Checks the options by themselves, without the network. CRT_ERR_INVALID. */
crt_status_t crti_redis_external_check(const crti_redis_external_t *external);

typedef struct crti_redis_endpoint {
    char address[CRTI_STREAM_ADDRESS]; /* numeric, for messages */
    char ip[CRTI_STREAM_ADDRESS];
    int port;
    char prefix[CRTI_REDIS_PREFIX];
    char password_file[256]; /* for messages */
    char password[512];      /* "": none */
    char user[128];          /* "": the default user */
    bool tls;
    char host[256];    /* as the user gave it; the certificate must name it */
    char ca_file[256]; /* "": the authorities that this host knows */
    char socket[108];  /* of the TLS proxy; redis.c sets it */
    char owner[256];   /* "PLACE HEAD-ADDRESS INSTANCE" */
    size_t place_size; /* of "PLACE HEAD-ADDRESS ", which no two living heads share */
} crti_redis_endpoint_t;

/* Resolves the address, reads the password, and forms the identity of the head, which has bound
 * `head_address`. CRT_ERR_PERMISSION: other users can read the file, or the server is on another
 * host and the options do not allow that. */
crt_status_t crti_redis_endpoint_open(const crti_redis_external_t *external,
                                      const char *head_address,
                                      crti_redis_endpoint_t *endpoint_out);

/* The arguments of the AUTH command; their number. `argv` has room for 3. */
int crti_redis_endpoint_auth(const crti_redis_endpoint_t *endpoint, const char *argv[3]);

/* Releases the prefix lock, if this head holds it; `forget` also deletes the tables. Waits at most
 * some seconds. A failure is logged. Wipes the password. */
void crti_redis_endpoint_close(crti_redis_endpoint_t *endpoint, const char *const *tables,
                               size_t count, bool forget);

#endif
