/* SPDX-License-Identifier: Apache-2.0 */
/* Durability: what an acknowledged write means on an external redis-server. Checked once, at the
 * start: it is the user's server and his choice, but he should know.
 *
 * Where it sits
 *     redis.c -> [ control/store/redis_durability.c ] -> INFO, CONFIG GET -> head.c -> crt start
 */
#ifndef CRTI_CONTROL_REDIS_DURABILITY_H
#define CRTI_CONTROL_REDIS_DURABILITY_H

#include <hiredis/async.h>

typedef struct crti_redis_durability {
    void *user;
    /* `warning` goes on after "redis-server at X "; NULL: what it acknowledged is on its disk. Not
     * called when the connection breaks. */
    void (*on_answer)(void *user, const char *warning);
    int has_file; /* 0, 1; -1 not known */
} crti_redis_durability_t;

void crti_redis_durability_ask(crti_redis_durability_t *durability,
                               redisAsyncContext *connection);

#endif
