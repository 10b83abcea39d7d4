/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix lock: at most one living head uses a prefix on a redis-server that the head does not run.
 *
 * Where it sits
 *     redis.c -> [ control/store/redis_prefix_lock.c ] -> the key PREFIX:head
 * How
 *     The key names its head and expires LEASE_NS after its last renewal. A head renews it every
 *     RENEW_NS. A key of an earlier head at our address is taken over at once: we have bound that
 *     address, so that head is dead. Any other key is watched. When it is renewed, its head lives
 *     and we are refused. When it expires, the lock is ours. A server that does not answer within
 *     SILENCE_NS counts as unreachable.
 * Fencing
 *     A head that was stopped for long may have lost its lock without knowing it. So it writes only
 *     while its last renewal is younger than the lease (crti_redis_prefix_lock_is_fresh); later it
 *     renews first. With a stale lock it does not promise its nodes either that it places their
 *     fenced actors nowhere else.
 */
#ifndef CRTI_CONTROL_REDIS_PREFIX_LOCK_H
#define CRTI_CONTROL_REDIS_PREFIX_LOCK_H

#include <hiredis/async.h>

#include "runtime/base/clock.h"
#include "runtime/base/id.h"
#include "runtime/control/store/redis_endpoint.h"
#include "runtime/net/loop.h"

/*         acquire            ours
 *  IDLE --------> REQUESTED --------> HELD
 *   ^              ^ ^ |                |
 *   | connection   | | +----+           | time to renew
 *   | lost: from   | +------|-----------+
 *   | every state  |        v another head's
 *                  +---- WATCHING
 */
typedef enum crti_prefix_lock_state {
    CRTI_PREFIX_LOCK_IDLE,      /* no connection */
    CRTI_PREFIX_LOCK_REQUESTED, /* the request is in flight */
    CRTI_PREFIX_LOCK_WATCHING,  /* another head holds it, or did */
    CRTI_PREFIX_LOCK_HELD,
    CRTI_PREFIX_LOCK_STATES
} crti_prefix_lock_state_t;

typedef struct crti_redis_prefix_lock {
    const crti_redis_endpoint_t *endpoint;
    crti_loop_t *loop;
    void *user;
    /* Acquired; called once for each crti_redis_prefix_lock_acquire. */
    void (*on_held)(void *user);
    /* The server is unreachable or refuses the command; the caller may retry later. */
    void (*on_error)(void *user, const char *text);
    /* Another living head holds it. */
    void (*on_refused)(void *user, const char *text);
    /* Private. */
    crti_prefix_lock_state_t state;
    redisAsyncContext *connection;
    crti_timer_t timer;
    bool is_requested; /* on_held is due */
    bool was_held;     /* since the head started */
    /* What this head writes beside the lock with each request: its own mark, and a number that goes
     * up. */
    char mark[CRTI_ID_HEX + 1];
    uint64_t written, confirmed;
    uint64_t requested_ns;   /* when the last request left, by the boot clock */
    uint64_t fresh_until_ns; /* likewise */
    long long other_left_ms; /* of another head's lease when last seen; -2: none */
} crti_redis_prefix_lock_t;

/* Where that is written. */
void crti_redis_prefix_lock_epoch_key(const crti_redis_endpoint_t *endpoint,
                                      char key[CRTI_REDIS_PREFIX + 8]);
/* The caller has set the public fields. */
void crti_redis_prefix_lock_init(crti_redis_prefix_lock_t *lock);
/* Acquires the lock and renews it from then on. */
void crti_redis_prefix_lock_acquire(crti_redis_prefix_lock_t *lock,
                                    redisAsyncContext *connection);
/* The connection is lost, or is about to be closed. */
void crti_redis_prefix_lock_drop(crti_redis_prefix_lock_t *lock);
/* True: this head holds the lock for certain. */
bool crti_redis_prefix_lock_is_fresh(const crti_redis_prefix_lock_t *lock);

#endif
