/* SPDX-License-Identifier: Apache-2.0 */
/* Redis server: the head's private redis-server process.
 *
 * Where it sits
 *     control/store/redis.c -> [ control/store/redis_server.c ] -> control/store/child.c ->
 *     redis-server
 * How
 *     It listens on RUN/head-PORT/redis.sock only, with a random password, and gets its
 *     configuration on standard input, so that nothing shows in the process list. Its log comes
 *     through a pipe: the line that says it is ready is the event that is waited for, its
 *     last line of error is the reason when it ends.
 */
#ifndef CRTI_CONTROL_REDIS_SERVER_H
#define CRTI_CONTROL_REDIS_SERVER_H

#include "runtime/control/store/child.h"

#define CRTI_REDIS_PASSWORD 65 /* 64 hex digits and a zero */

typedef struct crti_redis_server crti_redis_server_t;

typedef struct crti_redis_server_config {
    crti_loop_t *loop;
    const char *head_dir; /* RUN/head-PORT */
    const char *data_dir; /* for its files; exists */
    void (*on_ready)(void *user);
    /* It ended; `text` is its last complaint, or how it ended. */
    void (*on_exit)(void *user, const char *text);
    void *user;
} crti_redis_server_config_t;

/* Finds the program, makes the password; starts nothing. CRT_ERR_NOT_FOUND: not installed.
 * Caller owns the result and frees it with crti_redis_server_free. */
crt_status_t crti_redis_server_new(const crti_redis_server_config_t *config,
                                   crti_redis_server_t **server_out);
/* Kills the process. */
void crti_redis_server_free(crti_redis_server_t *server);

/* Ends one that still runs, without on_exit, and starts another: on_ready or on_exit follows. */
crt_status_t crti_redis_server_start(crti_redis_server_t *server);

const char *crti_redis_server_socket(const crti_redis_server_t *server);
const char *crti_redis_server_password(const crti_redis_server_t *server);
pid_t crti_redis_server_pid(const crti_redis_server_t *server); /* 0: does not run */

#endif
