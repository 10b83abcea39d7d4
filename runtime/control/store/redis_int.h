/* SPDX-License-Identifier: Apache-2.0 */
/* What redis.c (the connection) and redis_operation.c (the operations) share. */
#ifndef CRTI_CONTROL_REDIS_INT_H
#define CRTI_CONTROL_REDIS_INT_H

#include <hiredis/async.h>

#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/control/store/redis.h"
#include "runtime/control/store/redis_durability.h"
#include "runtime/control/store/redis_prefix_lock.h"
#include "runtime/control/store/redis_reply_validator.h"
#include "runtime/control/store/redis_server.h"
#include "runtime/control/store/redis_tls_proxy.h"

/*            ready            authenticated        all rows (first time only)
 *  STARTING --------> CONNECTING ----------> LOADING ----------> UP
 *     ^                   |   |                 |                ^ |
 *     |                   |   +--- not the first time -----------+ |
 *     |  backoff over     v                     v                  |
 *     +---------------- DOWN <------ process ended, link broke ----+
 *
 *  With an external server LOCKING comes before LOADING or UP: it acquires the prefix lock. From
 *  UP, too, when the lock is stale.
 */
typedef enum redis_state {
    REDIS_STARTING,
    REDIS_CONNECTING,
    REDIS_LOCKING,
    REDIS_LOADING,
    REDIS_UP,
    REDIS_DOWN,
    REDIS_STATES
} redis_state_t;

typedef struct crti_redis_operation {
    crti_list_t in_queue;
    crti_redis_t *redis;
    uint64_t ticket;
    crti_store_verb_t verb;
    crti_store_table_t table;
    bool sent, again;
    bool is_too_much; /* more than the queue takes: fails with those before it */
    unsigned strikes;
    uint64_t since_ns;
    crti_store_swap_t swap;
    size_t key_size, value_size, expected_size;
    char bytes[]; /* key, value, expected */
} crti_redis_operation_t;

struct crti_redis {
    crti_redis_config_t config;
    crti_redis_server_t *server; /* NULL: an external server at the endpoint */
    crti_redis_endpoint_t endpoint;
    crti_redis_prefix_lock_t lock;
    crti_redis_durability_t durability;
    char names[CRTI_STORE_TABLES][CRTI_REDIS_PREFIX + 20]; /* of the tables */
    uint64_t started_ns;
    redisAsyncContext *connection;          /* NULL: none */
    crti_redis_reply_validator_t validator; /* of the connection */
    crti_redis_tls_proxy_t proxy;           /* of the connection, with TLS */
    crti_watch_t watch;
    crti_timer_t timer; /* backoff, or the oldest operation's end */
    redis_state_t state;
    bool loaded, stopping;
    crti_store_table_t load_table;
    uint64_t backoff_ns;
    char reason[1100]; /* why it is down */
    crti_list_t queue; /* operations without an answer, in order */
    size_t queued_bytes;
};

/* A copy at the end of the queue. */
crti_redis_operation_t *crti_redis_operation_add(crti_redis_t *redis,
                                                 const crti_store_operation_t *from);

/* Sends it; its answer ends it. */
void crti_redis_operation_send(crti_redis_t *redis, crti_redis_operation_t *operation);

/* Fails operations from the front as long as they are hopeless. Only while there is no
 * connection: then no answer of one is on its way. */
void crti_redis_give_up_hopeless(crti_redis_t *redis);

#endif
