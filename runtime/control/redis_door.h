/* SPDX-License-Identifier: Apache-2.0 */
/* Door: the way to a redis-server that is not the head's own (--redis-address): where it is, by
 * which user and password it lets in, whether TLS leads there (redis_tunnel.h), under which prefix this cluster keeps its keys, and who we are.
 *
 * Where it sits
 *     head_options.c -> [ control/redis_door.c ] -> redis.c, redis_claim.c
 * Secrets
 *     The password is read from a file that only its owner may read, and stays in this struct: it
 *     is never an argument, a variable of the environment, or a line of a log.
 */
#ifndef CRTI_CONTROL_REDIS_DOOR_H
#define CRTI_CONTROL_REDIS_DOOR_H

#include "runtime/base/crt_base.h"
#include "runtime/net/stream.h"

#define CRTI_REDIS_PREFIX 64 /* bytes of a prefix, with its zero */

/* What the user gave; borrowed. */
typedef struct crti_redis_external {
    const char *address;       /* host:port; NULL: the head has its own redis-server */
    const char *password_file; /* NULL: it wants none */
    const char *prefix;        /* NULL: "crt" */
    const char *user;          /* of its ACL; NULL: the default one */
    const char *ca_file;       /* of the authorities that sign its certificate */
    bool tls;
    bool plaintext_ok; /* it may be on another host, without TLS */
} crti_redis_external_t;

/* Checks what can be checked without asking anybody. CRT_ERR_INVALID. */
crt_status_t crti_redis_external_check(const crti_redis_external_t *external);

typedef struct crti_redis_door {
    char address[CRTI_STREAM_ADDRESS]; /* numeric, as it is shown */
    char ip[CRTI_STREAM_ADDRESS];
    int port;
    char prefix[CRTI_REDIS_PREFIX];
    char password_file[256]; /* to name it */
    char password[512];      /* "" none */
    char user[128];          /* "" the default one */
    bool tls;
    char host[256];    /* as the user gave it: whose certificate is expected */
    char ca_file[256]; /* "" the authorities that this host knows */
    char socket[108];  /* where TLS is put between; set by who has a directory for it */
    char owner[256];   /* "PLACE HEAD-ADDRESS INSTANCE" */
    size_t place_size; /* of "PLACE HEAD-ADDRESS ", which no two living heads share */
} crti_redis_door_t;

/* Resolves the address, reads the password, and says who we are: the head at `head_address`, which
 * is bound. CRT_ERR_PERMISSION: the file can be used by others, or the server is on another host
 * and that was not allowed. */
crt_status_t crti_redis_door_open(const crti_redis_external_t *external,
                                  const char *head_address, crti_redis_door_t *door_out);

/* What redis-server is told first: "AUTH", the user, the password; how many. `argv` has room for 3. */
int crti_redis_door_auth(const crti_redis_door_t *door, const char *argv[3]);

/* Gives the prefix back, if it is ours, and with `forget` deletes the tables. Waits at most some
 * seconds; what can't be done is logged. Wipes the password. */
void crti_redis_door_close(crti_redis_door_t *door, const char *const *tables,
                           size_t count, bool forget);

#endif
