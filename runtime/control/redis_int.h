/* SPDX-License-Identifier: Apache-2.0 */
/* What redis.c (the way to the server) and redis_operation.c (what goes there) share. */
#ifndef CRTI_CONTROL_REDIS_INT_H
#define CRTI_CONTROL_REDIS_INT_H

#include <hiredis/async.h>

#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/control/redis.h"
#include "runtime/control/redis_claim.h"
#include "runtime/control/redis_durability.h"
#include "runtime/control/redis_guard.h"
#include "runtime/control/redis_server.h"
#include "runtime/control/redis_tunnel.h"

#define BACKOFF_FIRST_NS (50 * CRTI_MS)

/*            ready            authenticated        all rows (first time only)
 *  STARTING --------> CONNECTING ----------> LOADING ----------> UP
 *     ^                   |   |                 |                ^ |
 *     |                   |   +--- not the first time -----------+ |
 *     |  backoff over     v                     v                  |
 *     +---------------- DOWN <------ process ended, link broke ----+
 *
 *  With a server of others CLAIMING comes before LOADING or UP: the prefix is asked for. From UP,
 *  too, when it was not renewed for long.
 */
typedef enum redis_state {
    REDIS_STARTING,
    REDIS_CONNECTING,
    REDIS_CLAIMING,
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
    size_t key_size, value_size, expected_size;
    char bytes[]; /* key, value, expected */
} crti_redis_operation_t;

struct crti_redis {
    crti_redis_config_t config;
    crti_redis_server_t *server; /* NULL: it is others', behind the door */
    crti_redis_door_t door;
    crti_redis_claim_t claim;
    crti_redis_durability_t durability;
    char names[CRTI_STORE_TABLES][CRTI_REDIS_PREFIX + 16]; /* of the tables */
    uint64_t started_ns;
    redisAsyncContext *connection; /* NULL: none */
    crti_redis_guard_t guard;      /* of the connection */
    crti_redis_tunnel_t tunnel;    /* that it goes through, with a door and TLS */
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
