/* SPDX-License-Identifier: Apache-2.0 */
/* One head for each prefix. See redis_prefix_lock.h. */
#include "runtime/control/store/redis_prefix_lock.h"

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

/* So many of the last renewals may be lost by a server that does not sync each write, which was
 * told at the start. */
#define MAY_BE_LOST 2

/* 1: ours now. 2: what this head wrote with its last renewals is not there: the tables are not what
 * it left (emptied, restored from another time or place). Else who has it, and for how many
 * milliseconds. */
#define ACQUIRE                                                                          \
    "local v=redis.call('GET',KEYS[1]) "                                                 \
    "if v and v~=ARGV[1] and string.sub(v,1,string.len(ARGV[2]))~=ARGV[2] then "         \
    "return {v,redis.call('PTTL',KEYS[1])} end "                                         \
    "local e,n=redis.call('GET',KEYS[2]) or '',string.len(ARGV[3]) "                     \
    "if ARGV[4]~='' and (string.sub(e,1,n)~=ARGV[3] or "                                 \
    "(tonumber(string.sub(e,n+1)) or 0)<tonumber(ARGV[4])) then return 2 end "           \
    "redis.call('SET',KEYS[1],ARGV[1],'PX'," LEASE_MS ") "                               \
    "redis.call('SET',KEYS[2],ARGV[3]..ARGV[5]) return 1"

#define TO(state) (1u << CRTI_PREFIX_LOCK_##state)
static const struct {
    const char *name;
    unsigned next;
} states[CRTI_PREFIX_LOCK_STATES] = {
    [CRTI_PREFIX_LOCK_IDLE] = {"idle", TO(REQUESTED)},
    [CRTI_PREFIX_LOCK_REQUESTED] = {"requested", TO(IDLE) | TO(WATCHING) | TO(HELD)},
    [CRTI_PREFIX_LOCK_WATCHING] = {"watching", TO(IDLE) | TO(REQUESTED)},
    [CRTI_PREFIX_LOCK_HELD] = {"held", TO(IDLE) | TO(REQUESTED)},
};

static void on_answer(redisAsyncContext *connection, void *data, void *user);

static void set_state(crti_redis_prefix_lock_t *lock, crti_prefix_lock_state_t state)
{
    assert(states[lock->state].next & (1u << state));
    crti_log(CRTI_LOG_TRACE, "redis", "prefix lock %s -> %s", states[lock->state].name,
             states[state].name);
    lock->state = state;
}

static void arm(crti_redis_prefix_lock_t *lock, uint64_t after_ns)
{
    if (crti_loop_start(lock->loop, &lock->timer, crti_now_ns() + after_ns) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "redis", "%s", crt_error_detail());
}

void crti_redis_prefix_lock_epoch_key(const crti_redis_endpoint_t *endpoint,
                                      char key[CRTI_REDIS_PREFIX + 8])
{
    snprintf(key, CRTI_REDIS_PREFIX + 8, "%s:epoch", endpoint->prefix);
}

static void request(crti_redis_prefix_lock_t *lock)
{
    const crti_redis_endpoint_t *endpoint = lock->endpoint;
    char key[CRTI_REDIS_PREFIX + 8], epoch[CRTI_REDIS_PREFIX + 8];
    char place[sizeof(endpoint->owner)], least[24] = "", next[24];
    /* Ten: of more, a server that wants a password does not say that it wants one. */
    const char *argv[] = {"EVAL",          ACQUIRE, "2",        key,   epoch,
                          endpoint->owner, place,   lock->mark, least, next};

    if (lock->was_held)
        snprintf(least, sizeof(least), "%llu",
                 (unsigned long long)(lock->confirmed > MAY_BE_LOST
                                          ? lock->confirmed - MAY_BE_LOST
                                          : 1));
    snprintf(next, sizeof(next), "%llu", (unsigned long long)++lock->written);
    crti_redis_prefix_lock_epoch_key(endpoint, epoch);
    snprintf(key, sizeof(key), "%s:head", endpoint->prefix);
    snprintf(place, sizeof(place), "%.*s", (int)endpoint->place_size, endpoint->owner);
    set_state(lock, CRTI_PREFIX_LOCK_REQUESTED);
    lock->requested_ns = crti_boot_ns();
    arm(lock, SILENCE_NS);
    redisAsyncCommandArgv(lock->connection, on_answer, lock,
                          sizeof(argv) / sizeof(argv[0]), argv, NULL);
}

static void fail(crti_redis_prefix_lock_t *lock, const char *problem)
{
    const crti_redis_endpoint_t *endpoint = lock->endpoint;
    char text[600];

    if (strncmp(problem, "NOAUTH", 6) == 0)
        snprintf(text, sizeof(text),
                 "redis-server at %s wants a password: give --redis-password-file FILE",
                 endpoint->address);
    else
        snprintf(text, sizeof(text), "redis-server at %s: %s", endpoint->address,
                 problem);
    crti_redis_prefix_lock_drop(lock);
    lock->on_error(lock->user, text);
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

static void refuse(crti_redis_prefix_lock_t *lock, const char *owner)
{
    const crti_redis_endpoint_t *endpoint = lock->endpoint;
    char text[600], address[80];

    address_of(owner, address, sizeof(address));
    snprintf(text, sizeof(text),
             lock->was_held
                 ? "the prefix \"%s\" of redis-server at %s was taken by the head at %s "
                   "while this one could not reach it: this one ends"
                 : "the prefix \"%s\" of redis-server at %s is in use by the head at %s: "
                   "choose another --redis-prefix, or end that head",
             endpoint->prefix, endpoint->address,
             *address ? address : "an unknown place");
    crti_redis_prefix_lock_drop(lock);
    lock->on_refused(lock->user, text);
}

/* Another one's: renewed since the last look, it lives. */
static void see_other(crti_redis_prefix_lock_t *lock, const redisReply *reply)
{
    const char *owner = reply->element[0]->str;
    long long left_ms = reply->element[1]->integer;
    bool lives =
        left_ms < 0 || (lock->other_left_ms >= 0 && left_ms > lock->other_left_ms);

    if (lock->was_held || lives) {
        refuse(lock, owner);
        return;
    }
    lock->other_left_ms = left_ms;
    set_state(lock, CRTI_PREFIX_LOCK_WATCHING);
    arm(lock, WATCH_NS);
}

static void hold(crti_redis_prefix_lock_t *lock)
{
    bool notify = lock->is_requested;

    set_state(lock, CRTI_PREFIX_LOCK_HELD);
    lock->was_held = true;
    lock->confirmed = lock->written;
    lock->is_requested = false;
    lock->fresh_until_ns = lock->requested_ns + LEASE_NS - MARGIN_NS;
    arm(lock, RENEW_NS);
    if (notify)
        lock->on_held(lock->user);
}

static void on_answer(redisAsyncContext *connection, void *data, void *user)
{
    crti_redis_prefix_lock_t *lock = user;
    const redisReply *reply = data;

    /* NULL: the connection broke, which redis.c hears of. */
    if (reply == NULL || connection != lock->connection ||
        lock->state != CRTI_PREFIX_LOCK_REQUESTED)
        return;
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 2)
        fail(lock, "the tables that this head wrote are gone: it was emptied, or has "
                   "data of another time or place. Nothing is written to it, and nothing "
                   "new begins, until they are back; without them, end this cluster with "
                   "crt stop and begin another");
    else if (reply->type == REDIS_REPLY_INTEGER)
        hold(lock);
    else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
             reply->element[0]->type == REDIS_REPLY_STRING &&
             reply->element[1]->type == REDIS_REPLY_INTEGER)
        see_other(lock, reply);
    else
        fail(lock,
             reply->type == REDIS_REPLY_ERROR ? reply->str : "unexpected answer to EVAL");
}

static void on_timer(void *user)
{
    crti_redis_prefix_lock_t *lock = user;

    if (lock->state == CRTI_PREFIX_LOCK_REQUESTED)
        fail(lock, "no answer for 5 s");
    else if (lock->state != CRTI_PREFIX_LOCK_IDLE)
        request(lock);
}

void crti_redis_prefix_lock_init(crti_redis_prefix_lock_t *lock)
{
    lock->timer = (crti_timer_t){.on_expired = on_timer, .user = lock};
    lock->other_left_ms = -2;
    crti_id_hex(crti_id_random(), lock->mark);
    strcat(lock->mark, " ");
}

void crti_redis_prefix_lock_acquire(crti_redis_prefix_lock_t *lock,
                                    redisAsyncContext *connection)
{
    lock->connection = connection;
    lock->is_requested = true;
    if (lock->state != CRTI_PREFIX_LOCK_REQUESTED)
        request(lock);
}

void crti_redis_prefix_lock_drop(crti_redis_prefix_lock_t *lock)
{
    crti_loop_cancel(lock->loop, &lock->timer);
    if (lock->state != CRTI_PREFIX_LOCK_IDLE)
        set_state(lock, CRTI_PREFIX_LOCK_IDLE);
    lock->connection = NULL;
    lock->is_requested = false;
}

bool crti_redis_prefix_lock_is_fresh(const crti_redis_prefix_lock_t *lock)
{
    return crti_boot_ns() < lock->fresh_until_ns;
}
