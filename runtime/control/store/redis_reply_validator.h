/* SPDX-License-Identifier: Apache-2.0 */
/* Reply validator: keeps replies from hiredis that it can't handle. hiredis ends the process on a
 * reply without a request, and allocates as many elements as a reply announces. A server that is no
 * redis-server, or is faulty, must cost its connection and nothing else.
 *
 * Where it sits
 *     redis.c, redis_endpoint.c -> [ control/store/redis_reply_validator.c ] -> the reader of
 *     hiredis, which creates the objects of a reply
 * Ownership
 *     The validator is a member of the owner of the connection, and lives as long as the
 *     connection.
 */
#ifndef CRTI_CONTROL_REDIS_REPLY_VALIDATOR_H
#define CRTI_CONTROL_REDIS_REPLY_VALIDATOR_H

#include <hiredis/async.h>

#define CRTI_REDIS_ELEMENTS (16 << 20) /* of one reply: the keys of KEYS */

typedef struct crti_redis_reply_validator {
    redisReplyObjectFunctions functions; /* what the reader calls */
    redisReplyObjectFunctions plain;     /* hiredis' own */
    const redisAsyncContext *connection; /* NULL: a synchronous connection */
    const char *problem;                 /* why the connection ends, or NULL */
} crti_redis_reply_validator_t;

/* Before the first command. `connection` is NULL for a synchronous one. */
void crti_redis_reply_validator_install(crti_redis_reply_validator_t *validator,
                                        redisContext *context,
                                        const redisAsyncContext *connection);

#endif
