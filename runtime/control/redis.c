/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the control store over hiredis. See redis.h. */
#include "runtime/control/redis.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/async.h>

#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/control/redis_server.h"

#define BACKOFF_FIRST_NS (50 * CRTI_MS)
#define BACKOFF_MOST_NS  (2 * CRTI_S)
#define STRIKES          2 /* ends of redis-server that an operation survives */
#define SCAN_COUNT       "1000"

/* A value that an earlier try of the same operation may have put there counts as ours. */
#define PUT_NEW_AGAIN                                                                    \
    "if redis.call('HSETNX',KEYS[1],ARGV[1],ARGV[2])==1 then return 1 end "              \
    "if redis.call('HGET',KEYS[1],ARGV[1])==ARGV[2] then return 1 end return 0"

/* Again: that it is not as expected may be an earlier try's doing. */
#define SWAP                                                                             \
    "local v=redis.call('HGET',KEYS[1],ARGV[1]) local new=ARGV[3] "                      \
    "if v==ARGV[2] then if new=='' then redis.call('HDEL',KEYS[1],ARGV[1]) "             \
    "else redis.call('HSET',KEYS[1],ARGV[1],new) end return 1 end "                      \
    "if ARGV[4]=='1' and (v or '')==new then return 1 end return 0"

static const char *const tables[CRTI_STORE_TABLES] = {
    [CRTI_STORE_META] = "crt:meta",     [CRTI_STORE_NODES] = "crt:nodes",
    [CRTI_STORE_ACTORS] = "crt:actors", [CRTI_STORE_ACTOR_STATES] = "crt:actor-states",
    [CRTI_STORE_JOBS] = "crt:jobs",     [CRTI_STORE_JOB_STATES] = "crt:job-states",
    [CRTI_STORE_KV] = "crt:kv",
};

/*            ready            authenticated        all rows (first time only)
 *  STARTING --------> CONNECTING ----------> LOADING ----------> UP
 *     ^                   |   |                 |                ^ |
 *     |                   |   +--- not the first time -----------+ |
 *     |  backoff over     v                     v                  |
 *     +---------------- DOWN <------ process ended, link broke ----+
 */
typedef enum redis_state {
    REDIS_STARTING,
    REDIS_CONNECTING,
    REDIS_LOADING,
    REDIS_UP,
    REDIS_DOWN,
    REDIS_STATES
} redis_state_t;

#define TO(state) (1u << REDIS_##state)
static const struct {
    const char *name;
    unsigned next;
} states[REDIS_STATES] = {
    [REDIS_STARTING] = {"starting", TO(CONNECTING) | TO(DOWN)},
    [REDIS_CONNECTING] = {"connecting", TO(LOADING) | TO(UP) | TO(DOWN)},
    [REDIS_LOADING] = {"loading", TO(UP) | TO(DOWN)},
    [REDIS_UP] = {"up", TO(DOWN)},
    [REDIS_DOWN] = {"down", TO(STARTING)},
};

typedef struct operation {
    crti_list_t in_queue;
    crti_redis_t *redis;
    uint64_t ticket;
    crti_store_verb_t verb;
    crti_store_table_t table;
    bool sent, again;
    unsigned strikes;
    uint64_t since_ns;
    size_t key_size, value_size, expected_size;
    char bytes[]; /* key, value, expected */
} operation_t;

struct crti_redis {
    crti_redis_config_t config;
    crti_redis_server_t *server;
    redisAsyncContext *connection; /* NULL: none */
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

static void set_state(crti_redis_t *r, redis_state_t state)
{
    assert(states[r->state].next & (1u << state));
    crti_log(CRTI_LOG_DEBUG, "redis", "%s -> %s", states[r->state].name,
             states[state].name);
    r->state = state;
}

/* ---------------------------------------------------------------- hiredis in the loop */

static void change_events(crti_redis_t *r, uint32_t add, uint32_t remove)
{
    uint32_t events = (r->watch.events | add) & ~remove;

    if (r->watch.added && events != r->watch.events)
        crti_loop_modify(r->config.loop, &r->watch, events);
}

static void add_read(void *user)
{
    change_events(user, EPOLLIN, 0);
}

static void delete_read(void *user)
{
    change_events(user, 0, EPOLLIN);
}

static void add_write(void *user)
{
    change_events(user, EPOLLOUT, 0);
}

static void delete_write(void *user)
{
    change_events(user, 0, EPOLLOUT);
}

static void clean_up(void *user)
{
    crti_redis_t *r = user;

    crti_loop_remove(r->config.loop, &r->watch);
}

static void on_ready(void *user, uint32_t events)
{
    crti_redis_t *r = user;

    if (r->connection && (events & EPOLLOUT))
        redisAsyncHandleWrite(r->connection);
    if (r->connection && (events & ~(uint32_t)EPOLLOUT))
        redisAsyncHandleRead(r->connection);
}

/* ---------------------------------------------------------------- down and up again */

static void arm(crti_redis_t *r, uint64_t deadline_ns)
{
    if (crti_loop_start(r->config.loop, &r->timer, deadline_ns) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "redis", "%s", crt_error_detail());
}

static void done(crti_redis_t *r, operation_t *operation, crt_status_t status,
                 const char *text, bool found, crti_span_t value)
{
    crti_list_remove(&operation->in_queue);
    r->queued_bytes -=
        operation->key_size + operation->value_size + operation->expected_size;
    r->config.on_done(r->config.user, operation->ticket, status, text, found, value);
}

static bool is_hopeless(const crti_redis_t *r, const operation_t *operation, uint64_t now)
{
    return operation->strikes >= STRIKES ||
           (r->state != REDIS_UP && now >= operation->since_ns + CRTI_REDIS_GIVE_UP_NS);
}

/* Fails operations from the front as long as they are hopeless. Only while there is no
 * connection: then no answer of one is on its way. */
static void give_up_hopeless(crti_redis_t *r)
{
    uint64_t now = crti_now_ns();

    while (!crti_list_is_empty(&r->queue)) {
        operation_t *first = CRTI_CONTAINER(r->queue.next, operation_t, in_queue);

        if (!is_hopeless(r, first, now))
            return;
        done(r, first, CRT_ERR_IO, r->reason, false, crti_span(NULL, 0));
        free(first);
    }
}

/* The connection or the process is gone: what had no answer goes out again, after a restart. */
static void went_down(crti_redis_t *r, const char *text)
{
    if (r->stopping)
        return;
    snprintf(r->reason, sizeof(r->reason), "the control store can't write: %s", text);
    crti_log(CRTI_LOG_WARN, "redis", "%s", text);
    if (r->state == REDIS_DOWN) /* the second sign of the same end says more */
        return;
    set_state(r, REDIS_DOWN);
    CRTI_LIST_FOREACH (item, &r->queue) {
        operation_t *operation = CRTI_CONTAINER(item, operation_t, in_queue);

        operation->strikes += operation->sent;
        operation->again = operation->again || operation->sent;
        operation->sent = false;
    }
    if (!r->loaded) {
        r->config.on_failed(r->config.user, text);
        return;
    }
    arm(r, crti_now_ns() + r->backoff_ns);
    r->backoff_ns =
        r->backoff_ns * 2 < BACKOFF_MOST_NS ? r->backoff_ns * 2 : BACKOFF_MOST_NS;
}

static void drop_connection(crti_redis_t *r)
{
    redisAsyncContext *connection = r->connection;

    r->connection = NULL;
    if (connection)
        redisAsyncFree(connection);
}

static void start_server(crti_redis_t *r)
{
    drop_connection(r);
    set_state(r, REDIS_STARTING);
    if (crti_redis_server_start(r->server) != CRT_OK)
        went_down(r, crt_error_detail());
    r->config.on_process(r->config.user, crti_redis_server_pid(r->server));
}

static void on_timer(void *user)
{
    crti_redis_t *r = user;

    if (r->state == REDIS_DOWN) {
        give_up_hopeless(r);
        start_server(r);
    }
}

static void on_server_exit(void *user, const char *text)
{
    crti_redis_t *r = user;

    r->config.on_process(r->config.user, 0);
    went_down(r, text);
    drop_connection(r);
    give_up_hopeless(r);
}

/* ---------------------------------------------------------------- operations */

static const char *key_of(const operation_t *operation)
{
    return operation->bytes;
}

static const char *value_of(const operation_t *operation)
{
    return operation->bytes + operation->key_size;
}

/* KEYS: those that begin with the operation's key. */
static crt_status_t list_keys(const operation_t *operation, const redisReply *reply,
                              crti_buffer_t *list)
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

static void answer(crti_redis_t *r, operation_t *operation, const redisReply *reply)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_span_t value = {0};
    char text[1200] = "";
    crt_status_t status = CRT_OK;
    bool found = false;

    switch (reply->type) {
    case REDIS_REPLY_INTEGER: /* HSET, HSETNX: 1 is new; HDEL: how many there were */
        found = operation->verb == CRTI_STORE_DELETE || operation->verb == CRTI_STORE_SWAP
                    ? reply->integer > 0
                    : reply->integer == 0;
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
    operation_t *operation = user;
    crti_redis_t *r = operation->redis;

    if (reply == NULL) /* the connection broke: it stays in the queue */
        return;
    r->backoff_ns = BACKOFF_FIRST_NS;
    answer(r, operation, reply);
    free(operation);
}

static void send_swap(crti_redis_t *r, operation_t *o)
{
    const char *table = tables[o->table];
    const char *argv[] = {"EVAL",      SWAP,
                          "1",         table,
                          key_of(o),   value_of(o) + o->value_size,
                          value_of(o), o->again ? "1" : "0"};
    const size_t sizes[] = {4,
                            sizeof(SWAP) - 1,
                            1,
                            strlen(table),
                            o->key_size,
                            o->expected_size,
                            o->value_size,
                            1};

    o->sent =
        redisAsyncCommandArgv(r->connection, on_reply, o, 8, argv, sizes) == REDIS_OK;
}

static void send_operation(crti_redis_t *r, operation_t *operation)
{
    static const char *const verbs[] = {[CRTI_STORE_PUT] = "HSET",
                                        [CRTI_STORE_PUT_NEW] = "HSETNX",
                                        [CRTI_STORE_GET] = "HGET",
                                        [CRTI_STORE_DELETE] = "HDEL",
                                        [CRTI_STORE_KEYS] = "HKEYS"};
    bool puts = operation->verb <= CRTI_STORE_PUT_NEW;
    bool script = operation->verb == CRTI_STORE_PUT_NEW && operation->again;
    const char *argv[6] = {"EVAL", PUT_NEW_AGAIN, "1"};
    size_t sizes[6] = {4, sizeof(PUT_NEW_AGAIN) - 1, 1};
    int count = script ? 3 : 0;

    if (operation->verb == CRTI_STORE_SWAP) {
        send_swap(r, operation);
        return;
    }
    if (!script) {
        argv[count] = verbs[operation->verb];
        sizes[count++] = strlen(verbs[operation->verb]);
    }
    argv[count] = tables[operation->table];
    sizes[count++] = strlen(tables[operation->table]);
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

void crti_redis_store(crti_redis_t *r, const crti_store_operation_t *from)
{
    operation_t *operation = malloc(sizeof(*operation) + from->key.size +
                                    from->value.size + from->expected.size + 1);

    if (operation == NULL) { /* without it tickets would come out of order */
        crti_log(CRTI_LOG_ERROR, "redis", "out of memory");
        abort();
    }
    *operation = (operation_t){.redis = r,
                               .ticket = from->ticket,
                               .verb = from->verb,
                               .table = from->table,
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
    if (r->queued_bytes > CRTI_REDIS_QUEUE && r->state != REDIS_UP)
        operation->strikes = STRIKES; /* fails with the ones before it */
    r->queued_bytes +=
        operation->key_size + operation->value_size + operation->expected_size;
    crti_list_append(&r->queue, &operation->in_queue);
    if (r->state == REDIS_UP)
        send_operation(r, operation);
    else if (r->state == REDIS_DOWN && r->timer.place == 0)
        arm(r, crti_now_ns() + r->backoff_ns);
}

static void go_up(crti_redis_t *r)
{
    set_state(r, REDIS_UP);
    CRTI_LIST_FOREACH (item, &r->queue)
        send_operation(r, CRTI_CONTAINER(item, operation_t, in_queue));
}

/* ---------------------------------------------------------------- loading */

static void scan(crti_redis_t *r, const char *cursor);

static bool is_scan_reply(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static void on_scan(redisAsyncContext *connection, void *data, void *user)
{
    const redisReply *reply = data, *rows;
    crti_redis_t *r = user;

    if (reply == NULL || r->state != REDIS_LOADING)
        return;
    if (!is_scan_reply(reply)) {
        went_down(r, reply->type == REDIS_REPLY_ERROR ? reply->str
                                                      : "unexpected answer to HSCAN");
        return;
    }
    rows = reply->element[1];
    for (size_t i = 0; i + 1 < rows->elements; i += 2)
        r->config.on_row(r->config.user, r->load_table,
                         crti_span(rows->element[i]->str, rows->element[i]->len),
                         crti_span(rows->element[i + 1]->str, rows->element[i + 1]->len));
    if (strcmp(reply->element[0]->str, "0") != 0) {
        scan(r, reply->element[0]->str);
    } else if (++r->load_table < CRTI_STORE_KV) {
        scan(r, "0");
    } else {
        r->loaded = true;
        go_up(r);
        r->config.on_loaded(r->config.user);
    }
}

static void scan(crti_redis_t *r, const char *cursor)
{
    redisAsyncCommand(r->connection, on_scan, r, "HSCAN %s %s COUNT " SCAN_COUNT,
                      tables[r->load_table], cursor);
}

/* ---------------------------------------------------------------- connecting */

static void on_authenticated(redisAsyncContext *connection, void *data, void *user)
{
    const redisReply *reply = data;
    crti_redis_t *r = user;

    if (reply == NULL || r->state != REDIS_CONNECTING)
        return;
    if (reply->type != REDIS_REPLY_STATUS) {
        went_down(r, reply->type == REDIS_REPLY_ERROR ? reply->str
                                                      : "unexpected answer to AUTH");
    } else if (r->loaded) {
        go_up(r);
    } else {
        set_state(r, REDIS_LOADING);
        r->load_table = CRTI_STORE_META;
        scan(r, "0");
    }
}

/* hiredis frees the connection after this. */
static void on_disconnected(const redisAsyncContext *connection, int status)
{
    crti_redis_t *r = connection->data;

    if (r->connection != connection)
        return;
    r->connection = NULL;
    went_down(r, "the connection to redis-server broke");
}

static void on_connected(const redisAsyncContext *connection, int status)
{
    crti_redis_t *r = connection->data;

    if (status == REDIS_OK)
        return;
    r->connection = NULL; /* hiredis frees it */
    went_down(r, connection->errstr);
}

static void on_server_ready(void *user)
{
    crti_redis_t *r = user;
    redisAsyncContext *c;

    if (r->state != REDIS_STARTING)
        return;
    c = redisAsyncConnectUnix(crti_redis_server_socket(r->server));
    set_state(r, REDIS_CONNECTING);
    if (c == NULL || c->err) {
        went_down(r, c ? c->errstr : "out of memory");
        if (c)
            redisAsyncFree(c);
        return;
    }
    r->connection = c;
    c->data = r;
    c->ev.data = r;
    c->ev.addRead = add_read;
    c->ev.delRead = delete_read;
    c->ev.addWrite = add_write;
    c->ev.delWrite = delete_write;
    c->ev.cleanup = clean_up;
    r->watch = (crti_watch_t){.on_ready = on_ready, .user = r};
    if (crti_loop_add(r->config.loop, &r->watch, c->c.fd, EPOLLIN | EPOLLOUT) != CRT_OK) {
        went_down(r, crt_error_detail());
        drop_connection(r);
        return;
    }
    redisAsyncSetConnectCallback(c, on_connected);
    redisAsyncSetDisconnectCallback(c, on_disconnected);
    redisAsyncCommand(c, on_authenticated, r, "AUTH %s",
                      crti_redis_server_password(r->server));
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_redis_new(const crti_redis_config_t *config, crti_redis_t **redis_out)
{
    crti_redis_t *r = calloc(1, sizeof(*r));
    crti_redis_server_config_t server = {.loop = config->loop,
                                         .head_dir = config->head_dir,
                                         .data_dir = config->data_dir,
                                         .on_ready = on_server_ready,
                                         .on_exit = on_server_exit,
                                         .user = r};
    crt_status_t status;

    if (r == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "redis");
    r->config = *config;
    r->backoff_ns = BACKOFF_FIRST_NS;
    r->state = REDIS_STARTING;
    r->timer = (crti_timer_t){.on_expired = on_timer, .user = r};
    crti_list_init(&r->queue);
    status = crti_redis_server_new(&server, &r->server);
    if (status == CRT_OK)
        status = crti_redis_server_start(r->server);
    if (status != CRT_OK) {
        crti_redis_free(r);
        return status;
    }
    r->config.on_process(r->config.user, crti_redis_server_pid(r->server));
    *redis_out = r;
    return CRT_OK;
}

void crti_redis_free(crti_redis_t *r)
{
    crti_list_t *item;

    if (r == NULL)
        return;
    r->stopping = true;
    drop_connection(r);
    crti_redis_server_free(r->server);
    crti_loop_cancel(r->config.loop, &r->timer);
    while ((item = crti_list_pop(&r->queue)))
        free(CRTI_CONTAINER(item, operation_t, in_queue));
    free(r);
}
