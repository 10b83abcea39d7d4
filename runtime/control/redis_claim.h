/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a prefix on a redis-server of others belongs to one living head.
 *
 * Where it sits
 *     redis.c -> [ control/redis_claim.c ] -> the key PREFIX:head
 * How
 *     The key names its head and expires LEASE_NS after it was last renewed, which is done every
 *     RENEW_NS. A key of a head that was at our address is taken over at once: we have bound that
 *     address, so that head is dead. Any other one is watched: it is renewed (a living head: we
 *     are refused) or it expires (it is ours). An answer that does not come within SILENCE_NS
 *     means that the server is away.
 * Fencing
 *     A head that was stopped for long may have lost its prefix without knowing. So it writes only
 *     while its last renewal is younger than the lease (crti_redis_claim_is_fresh), else it asks
 *     first. Nor does it promise nodes then that it places their fenced actors nowhere else.
 */
#ifndef CRTI_CONTROL_REDIS_CLAIM_H
#define CRTI_CONTROL_REDIS_CLAIM_H

#include <hiredis/async.h>

#include "runtime/base/clock.h"
#include "runtime/control/redis_door.h"
#include "runtime/net/loop.h"

/*         asked          ours
 *  IDLE --------> ASKED --------> HELD
 *   ^              ^ ^ |            |
 *   | connection   | | +----+       | time to renew
 *   | gone: from   | +------|-------+
 *   | every state  |        v another's
 *                  +---- WATCHING
 */
typedef enum crti_claim_state {
    CRTI_CLAIM_IDLE,     /* no connection */
    CRTI_CLAIM_ASKED,    /* a question is on its way */
    CRTI_CLAIM_WATCHING, /* another head has it, or had */
    CRTI_CLAIM_HELD,
    CRTI_CLAIM_STATES
} crti_claim_state_t;

typedef struct crti_redis_claim {
    const crti_redis_door_t *door;
    crti_loop_t *loop;
    void *user;
    /* It is ours; called once for each crti_redis_claim_ask. */
    void (*on_held)(void *user);
    /* The server is away, or does not do as asked; it may be asked again later. */
    void (*on_trouble)(void *user, const char *text);
    /* It belongs to another living head. */
    void (*on_refused)(void *user, const char *text);
    /* The rest is the claim's own. */
    crti_claim_state_t state;
    redisAsyncContext *connection;
    crti_timer_t timer;
    bool is_asked_for; /* on_held is due */
    bool was_held;     /* since the head started */
    uint64_t
        asked_ns; /* when the last question left, by the clock that sleep does not stop */
    uint64_t fresh_until_ns; /* likewise */
    long long other_left_ms; /* of another's lease at the last look; -2 none */
} crti_redis_claim_t;

/* The public fields are set before. */
void crti_redis_claim_init(crti_redis_claim_t *claim);
/* Asks for the prefix and keeps it from then on. */
void crti_redis_claim_ask(crti_redis_claim_t *claim, redisAsyncContext *connection);
/* The connection is gone, or will be. */
void crti_redis_claim_drop(crti_redis_claim_t *claim);
/* True when it is ours for certain. */
bool crti_redis_claim_is_fresh(const crti_redis_claim_t *claim);

#endif
