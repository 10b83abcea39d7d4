/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the control store: as commands, in their queue, and their answers. See redis.h. */
#include "runtime/control/store/redis_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#define STRIKES 2 /* ends of redis-server that an operation survives */

/* A value that an earlier try of the same operation may have put there counts as ours. */
#define PUT_NEW_AGAIN                                                                    \
    "if redis.call('HSETNX',KEYS[1],ARGV[1],ARGV[2])==1 then return 1 end "              \
    "if redis.call('HGET',KEYS[1],ARGV[1])==ARGV[2] then return 1 end return 0"

/* One that was carried out has left a receipt, under its id: asked for again, by a head or a node
 * whose link was lost, it is done, whatever became of the value since. KEYS: table, receipt; ARGV:
 * key, expected, value, "new", "delete", seconds that the receipt is kept. */
#define RECEIPT_S "600"
#define SWAP                                                                             \
    "if KEYS[2]~='' and redis.call('EXISTS',KEYS[2])==1 then return 1 end "              \
    "local v=redis.call('HGET',KEYS[1],ARGV[1]) "                                        \
    "if ARGV[4]=='new' then if v then return 0 end "                                     \
    "elseif v~=ARGV[2] then return 0 end "                                               \
    "if ARGV[5]=='delete' then redis.call('HDEL',KEYS[1],ARGV[1]) "                      \
    "else redis.call('HSET',KEYS[1],ARGV[1],ARGV[3]) end "                               \
    "if KEYS[2]~='' then redis.call('SET',KEYS[2],'','EX',ARGV[6]) end return 1"

#define CLEAR                                                                            \
    "local n=0 for _,k in ipairs(redis.call('HKEYS',KEYS[1])) do "                       \
    "if string.sub(k,1,#ARGV[1])==ARGV[1] then n=n+redis.call('HDEL',KEYS[1],k) end "    \
    "end return n"

/* ---------------------------------------------------------------- the queue */

static void done(crti_redis_t *r, crti_redis_operation_t *operation, crt_status_t status,
                 const char *text, bool found, crti_span_t value)
{
    crti_list_remove(&operation->in_queue);
    r->queued_bytes -=
        operation->key_size + operation->value_size + operation->expected_size;
    r->config.on_done(r->config.user, operation->ticket, status, text, found, value);
}

static bool is_hopeless(const crti_redis_t *r, const crti_redis_operation_t *operation,
                        uint64_t now)
{
    uint64_t patience =
        r->server ? CRTI_LIMIT(redis_timeout) : CRTI_LIMIT(redis_away_timeout);

    /* An external server may be restarted any number of times. */
    return operation->is_too_much || (r->server && operation->strikes >= STRIKES) ||
           (r->state != REDIS_UP && now >= operation->since_ns + patience);
}

void crti_redis_give_up_hopeless(crti_redis_t *r)
{
    uint64_t now = crti_now_ns();

    while (!crti_list_is_empty(&r->queue)) {
        crti_redis_operation_t *first =
            CRTI_CONTAINER(r->queue.next, crti_redis_operation_t, in_queue);

        if (!is_hopeless(r, first, now))
            return;
        done(r, first, CRT_ERR_IO, r->reason, false, crti_span(NULL, 0));
        free(first);
    }
}

crti_redis_operation_t *crti_redis_operation_add(crti_redis_t *r,
                                                 const crti_store_operation_t *from)
{
    crti_redis_operation_t *operation = malloc(
        sizeof(*operation) + from->key.size + from->value.size + from->expected.size + 1);

    if (operation == NULL) { /* without it tickets would come out of order */
        crti_log(CRTI_LOG_ERROR, "redis", "out of memory");
        abort();
    }
    *operation = (crti_redis_operation_t){.redis = r,
                                          .ticket = from->ticket,
                                          .verb = from->verb,
                                          .table = from->table,
                                          .swap = from->swap,
                                          .since_ns = crti_now_ns(),
                                          .key_size = from->key.size,
                                          .value_size = from->value.size,
                                          .expected_size = from->expected.size};
    if (from->key.size)
        memcpy(operation->bytes, from->key.data, from->key.size);
    if (from->value.size)
        memcpy(operation->bytes + from->key.size, from->value.data, from->value.size);
    if (from->expected.size)
        memcpy(operation->bytes + from->key.size + from->value.size, from->expected.data,
               from->expected.size);
    if (r->queued_bytes > CRTI_LIMIT(redis_queue) && r->state != REDIS_UP)
        operation->is_too_much = true;
    r->queued_bytes +=
        operation->key_size + operation->value_size + operation->expected_size;
    crti_list_append(&r->queue, &operation->in_queue);
    return operation;
}

/* ---------------------------------------------------------------- answers */

static const char *key_of(const crti_redis_operation_t *operation)
{
    return operation->bytes;
}

static const char *value_of(const crti_redis_operation_t *operation)
{
    return operation->bytes + operation->key_size;
}

/* KEYS: those that begin with the operation's key. */
static crt_status_t list_keys(const crti_redis_operation_t *operation,
                              const redisReply *reply, crti_buffer_t *list)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < reply->elements && status == CRT_OK; i++) {
        const redisReply *key = reply->element[i];

        if (key->type == REDIS_REPLY_STRING && key->len >= operation->key_size &&
            memcmp(key->str, key_of(operation), operation->key_size) == 0)
            status = crti_list_pack(list, key->str, key->len);
    }
    return status;
}

static void answer(crti_redis_t *r, crti_redis_operation_t *operation,
                   const redisReply *reply)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_span_t value = {0};
    char text[1200] = "";
    crt_status_t status = CRT_OK;
    bool found = false;

    switch (reply->type) {
    case REDIS_REPLY_INTEGER: /* HSET, HSETNX: 1 is new; HDEL: how many there were */
        found =
            operation->verb >= CRTI_STORE_DELETE ? reply->integer > 0 : !reply->integer;
        break;
    case REDIS_REPLY_STRING:
        found = true;
        value = crti_span(reply->str, reply->len);
        break;
    case REDIS_REPLY_ARRAY:
        found = true;
        status = list_keys(operation, reply, &list);
        snprintf(text, sizeof(text), "%s", crt_error_detail());
        value = crti_span(list.data, list.size);
        break;
    case REDIS_REPLY_NIL: break;
    default:
        status = CRT_ERR_IO;
        snprintf(text, sizeof(text), "the control store can't do it: %s",
                 reply->type == REDIS_REPLY_ERROR ? reply->str : "unexpected answer");
    }
    done(r, operation, status, text, found, value);
}

static void on_reply(redisAsyncContext *connection, void *reply, void *user)
{
    crti_redis_operation_t *operation = user;
    crti_redis_t *r = operation->redis;

    if (reply == NULL) /* the connection broke: it stays in the queue */
        return;
    r->backoff_ns = CRTI_LIMIT(redis_retry);
    answer(r, operation, reply);
    free(operation);
}

/* Where the receipt of a swap is kept; "": nowhere. */
static const char *receipt_of(const crti_redis_t *r, const crti_redis_operation_t *o,
                              char text[256])
{
    char hex[CRTI_ID_HEX];

    text[0] = '\0';
    if (!crti_id_is_zero(o->swap.id))
        snprintf(text, 256, "%s:swap:%s", r->names[o->table],
                 crti_id_hex(o->swap.id, hex));
    return text;
}

static void send_swap(crti_redis_t *r, crti_redis_operation_t *o)
{
    char receipt[256];
    const char *table = r->names[o->table], *is_new = o->swap.is_new ? "new" : "",
               *is_deletion = o->swap.is_deletion ? "delete" : "";
    const char *argv[] = {"EVAL",
                          SWAP,
                          "2",
                          table,
                          receipt_of(r, o, receipt),
                          key_of(o),
                          value_of(o) + o->value_size,
                          value_of(o),
                          is_new,
                          is_deletion,
                          RECEIPT_S};
    const size_t sizes[] = {4,
                            sizeof(SWAP) - 1,
                            1,
                            strlen(table),
                            strlen(receipt),
                            o->key_size,
                            o->expected_size,
                            o->value_size,
                            strlen(is_new),
                            strlen(is_deletion),
                            sizeof(RECEIPT_S) - 1};

    o->sent =
        redisAsyncCommandArgv(r->connection, on_reply, o, 11, argv, sizes) == REDIS_OK;
}

/* NULL: a plain command does it. */
static const char *script_of(const crti_redis_operation_t *operation)
{
    if (operation->verb == CRTI_STORE_CLEAR)
        return CLEAR;
    return operation->verb == CRTI_STORE_PUT_NEW && operation->again ? PUT_NEW_AGAIN
                                                                     : NULL;
}

void crti_redis_operation_send(crti_redis_t *r, crti_redis_operation_t *operation)
{
    static const char *const verbs[] = {[CRTI_STORE_PUT] = "HSET",
                                        [CRTI_STORE_PUT_NEW] = "HSETNX",
                                        [CRTI_STORE_GET] = "HGET",
                                        [CRTI_STORE_DELETE] = "HDEL",
                                        [CRTI_STORE_KEYS] = "HKEYS"};
    bool puts = operation->verb <= CRTI_STORE_PUT_NEW;
    const char *script = script_of(operation);
    const char *argv[6] = {"EVAL", script, "1"};
    size_t sizes[6] = {4, script ? strlen(script) : 0, 1};
    int count = script ? 3 : 0;

    if (operation->verb == CRTI_STORE_SWAP) {
        send_swap(r, operation);
        return;
    }
    if (!script) {
        argv[count] = verbs[operation->verb];
        sizes[count++] = strlen(verbs[operation->verb]);
    }
    argv[count] = r->names[operation->table];
    sizes[count++] = strlen(r->names[operation->table]);
    if (operation->verb != CRTI_STORE_KEYS) {
        argv[count] = key_of(operation);
        sizes[count++] = operation->key_size;
    }
    if (puts) {
        argv[count] = value_of(operation);
        sizes[count++] = operation->value_size;
    }
    operation->sent = redisAsyncCommandArgv(r->connection, on_reply, operation, count,
                                            argv, sizes) == REDIS_OK;
}
