/* SPDX-License-Identifier: Apache-2.0 */
/* Guard: what hiredis must not be given. It ends the process when an answer comes that nobody asked
 * for, and makes room for as many elements as an answer says it has: a redis-server that is none, or
 * has gone mad, must end its connection and nothing else.
 *
 * Where it sits
 *     redis.c, redis_door.c -> [ control/redis_guard.c ] -> the reader of hiredis, where it makes
 *     an answer's objects
 * Ownership
 *     The guard is a member of who has the connection, and lives as long as it.
 */
#ifndef CRTI_CONTROL_REDIS_GUARD_H
#define CRTI_CONTROL_REDIS_GUARD_H

#include <hiredis/async.h>

#define CRTI_REDIS_ELEMENTS (16 << 20) /* of one answer: the keys of KEYS */

typedef struct crti_redis_guard {
    redisReplyObjectFunctions functions; /* as the reader calls them */
    redisReplyObjectFunctions plain;     /* hiredis' own */
    const redisAsyncContext *connection; /* NULL: one that waits for each answer */
    const char *problem;                 /* why the connection had to end, or NULL */
} crti_redis_guard_t;

/* Before the first command. `connection` may be NULL, the context's then. */
void crti_redis_guard_set(crti_redis_guard_t *guard, redisContext *context,
                          const redisAsyncContext *connection);

#endif
