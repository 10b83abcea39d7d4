/* SPDX-License-Identifier: Apache-2.0 */
/* One head for each prefix. See redis_claim.h. */
#include "runtime/control/redis_claim.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/log.h"

#define LEASE_MS   "10000"
#define LEASE_NS   (10 * CRTI_S)
#define MARGIN_NS  (2 * CRTI_S) /* of what is written, until it is there */
#define RENEW_NS   (2500 * CRTI_MS)
#define SILENCE_NS (5 * CRTI_S)
#define WATCH_NS   (250 * CRTI_MS)

/* 1: ours now. Else who has it, and for how many milliseconds. */
#define CLAIM                                                                            \
    "local v=redis.call('GET',KEYS[1]) "                                                 \
    "if v and v~=ARGV[1] and string.sub(v,1,string.len(ARGV[2]))~=ARGV[2] then "         \
    "return {v,redis.call('PTTL',KEYS[1])} end "                                         \
    "redis.call('SET',KEYS[1],ARGV[1],'PX',ARGV[3]) return 1"

#define TO(state) (1u << CRTI_CLAIM_##state)
static const struct {
    const char *name;
    unsigned next;
} states[CRTI_CLAIM_STATES] = {
    [CRTI_CLAIM_IDLE] = {"idle", TO(ASKED)},
    [CRTI_CLAIM_ASKED] = {"asked", TO(IDLE) | TO(WATCHING) | TO(HELD)},
    [CRTI_CLAIM_WATCHING] = {"watching", TO(IDLE) | TO(ASKED)},
    [CRTI_CLAIM_HELD] = {"held", TO(IDLE) | TO(ASKED)},
};

static void on_answer(redisAsyncContext *connection, void *data, void *user);

static void set_state(crti_redis_claim_t *claim, crti_claim_state_t state)
{
    assert(states[claim->state].next & (1u << state));
    crti_log(CRTI_LOG_TRACE, "redis", "claim %s -> %s", states[claim->state].name,
             states[state].name);
    claim->state = state;
}

static void arm(crti_redis_claim_t *claim, uint64_t after_ns)
{
    if (crti_loop_start(claim->loop, &claim->timer, crti_now_ns() + after_ns) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "redis", "%s", crt_error_detail());
}

static void ask(crti_redis_claim_t *claim)
{
    const crti_redis_door_t *door = claim->door;
    char key[CRTI_REDIS_PREFIX + 8], place[sizeof(door->owner)];
    const char *argv[] = {"EVAL", CLAIM, "1", key, door->owner, place, LEASE_MS};

    snprintf(key, sizeof(key), "%s:head", door->prefix);
    snprintf(place, sizeof(place), "%.*s", (int)door->place_size, door->owner);
    set_state(claim, CRTI_CLAIM_ASKED);
    claim->asked_ns = crti_boot_ns();
    arm(claim, SILENCE_NS);
    redisAsyncCommandArgv(claim->connection, on_answer, claim, 7, argv, NULL);
}

static void trouble(crti_redis_claim_t *claim, const char *problem)
{
    const crti_redis_door_t *door = claim->door;
    char text[600];

    if (strncmp(problem, "NOAUTH", 6) == 0)
        snprintf(text, sizeof(text),
                 "redis-server at %s wants a password: give --redis-password-file FILE",
                 door->address);
    else
        snprintf(text, sizeof(text), "redis-server at %s: %s", door->address, problem);
    crti_redis_claim_drop(claim);
    claim->on_trouble(claim->user, text);
}

/* "PLACE ADDRESS INSTANCE", written by anybody. */
static void address_of(const char *owner, char *address, size_t size)
{
    const char *blank = strchr(owner, ' ');
    size_t used = 0;

    for (const char *at = blank ? blank + 1 : ""; *at && *at != ' ' && used < size - 1;
         at++)
        if (isgraph((unsigned char)*at))
            address[used++] = *at;
    address[used] = '\0';
}

static void refuse(crti_redis_claim_t *claim, const char *owner)
{
    const crti_redis_door_t *door = claim->door;
    char text[600], address[80];

    address_of(owner, address, sizeof(address));
    snprintf(text, sizeof(text),
             claim->was_held
                 ? "the prefix \"%s\" of redis-server at %s was taken by the head at %s "
                   "while this one could not reach it: this one ends"
                 : "the prefix \"%s\" of redis-server at %s is in use by the head at %s: "
                   "choose another --redis-prefix, or end that head",
             door->prefix, door->address, *address ? address : "an unknown place");
    crti_redis_claim_drop(claim);
    claim->on_refused(claim->user, text);
}

/* Another one's: renewed since the last look, it lives. */
static void see_other(crti_redis_claim_t *claim, const redisReply *reply)
{
    const char *owner = reply->element[0]->str;
    long long left_ms = reply->element[1]->integer;
    bool lives =
        left_ms < 0 || (claim->other_left_ms >= 0 && left_ms > claim->other_left_ms);

    if (claim->was_held || lives) {
        refuse(claim, owner);
        return;
    }
    claim->other_left_ms = left_ms;
    set_state(claim, CRTI_CLAIM_WATCHING);
    arm(claim, WATCH_NS);
}

static void hold(crti_redis_claim_t *claim)
{
    bool tell = claim->is_asked_for;

    set_state(claim, CRTI_CLAIM_HELD);
    claim->was_held = true;
    claim->is_asked_for = false;
    claim->fresh_until_ns = claim->asked_ns + LEASE_NS - MARGIN_NS;
    arm(claim, RENEW_NS);
    if (tell)
        claim->on_held(claim->user);
}

static void on_answer(redisAsyncContext *connection, void *data, void *user)
{
    crti_redis_claim_t *claim = user;
    const redisReply *reply = data;

    /* NULL: the connection broke, which redis.c hears of. */
    if (reply == NULL || connection != claim->connection ||
        claim->state != CRTI_CLAIM_ASKED)
        return;
    if (reply->type == REDIS_REPLY_INTEGER)
        hold(claim);
    else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
             reply->element[0]->type == REDIS_REPLY_STRING &&
             reply->element[1]->type == REDIS_REPLY_INTEGER)
        see_other(claim, reply);
    else
        trouble(claim, reply->type == REDIS_REPLY_ERROR ? reply->str
                                                        : "unexpected answer to EVAL");
}

static void on_timer(void *user)
{
    crti_redis_claim_t *claim = user;

    if (claim->state == CRTI_CLAIM_ASKED)
        trouble(claim, "no answer for 5 s");
    else if (claim->state != CRTI_CLAIM_IDLE)
        ask(claim);
}

void crti_redis_claim_init(crti_redis_claim_t *claim)
{
    claim->timer = (crti_timer_t){.on_expired = on_timer, .user = claim};
    claim->other_left_ms = -2;
}

void crti_redis_claim_ask(crti_redis_claim_t *claim, redisAsyncContext *connection)
{
    claim->connection = connection;
    claim->is_asked_for = true;
    if (claim->state != CRTI_CLAIM_ASKED)
        ask(claim);
}

void crti_redis_claim_drop(crti_redis_claim_t *claim)
{
    crti_loop_cancel(claim->loop, &claim->timer);
    if (claim->state != CRTI_CLAIM_IDLE)
        set_state(claim, CRTI_CLAIM_IDLE);
    claim->connection = NULL;
    claim->is_asked_for = false;
}

bool crti_redis_claim_is_fresh(const crti_redis_claim_t *claim)
{
    return crti_boot_ns() < claim->fresh_until_ns;
}
