/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to redis-server. See redis.h. */
#include "runtime/control/store/redis_int.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#define SCAN_COUNT "1000"
#define REACH_NS   (5 * CRTI_S)  /* an external server must answer within */
#define LOAD_NS    (20 * CRTI_S) /* and have read its file when the head starts */

static const char *const tables[CRTI_STORE_TABLES] = {
    [CRTI_STORE_META] = "meta",
    [CRTI_STORE_NODES] = "nodes",
    [CRTI_STORE_PLACEMENT_GROUPS] = "placement-groups",
    [CRTI_STORE_ACTORS] = "actors",
    [CRTI_STORE_ACTOR_STATES] = "actor-states",
    [CRTI_STORE_ACTOR_SAVES] = "actor-saves",
    [CRTI_STORE_RESOURCE_REQUESTS] = "resource-requests",
    [CRTI_STORE_JOBS] = "jobs",
    [CRTI_STORE_JOB_STATES] = "job-states",
    [CRTI_STORE_KV] = "kv",
};

#define TO(state) (1u << REDIS_##state)
static const struct {
    const char *name;
    unsigned next;
} states[REDIS_STATES] = {
    [REDIS_STARTING] = {"starting", TO(CONNECTING) | TO(DOWN)},
    [REDIS_CONNECTING] = {"connecting", TO(LOCKING) | TO(LOADING) | TO(UP) | TO(DOWN)},
    [REDIS_LOCKING] = {"locking", TO(LOADING) | TO(UP) | TO(DOWN)},
    [REDIS_LOADING] = {"loading", TO(UP) | TO(DOWN)},
    [REDIS_UP] = {"up", TO(LOCKING) | TO(DOWN)},
    [REDIS_DOWN] = {"down", TO(STARTING)},
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

/* An external server that is reading its file when the head starts. */
static bool may_still_load(const crti_redis_t *r, const char *text)
{
    return !r->server && strstr(text, ": LOADING ") != NULL &&
           crti_now_ns() < r->started_ns + LOAD_NS;
}

/* The connection or the process is gone: what had no answer goes out again, after a restart. */
static void went_down(crti_redis_t *r, const char *text)
{
    if (r->stopping)
        return;
    /* A reason that stays the same while an external server is unreachable is logged once. */
    crti_log(strstr(r->reason, text) ? CRTI_LOG_DEBUG : CRTI_LOG_WARN, "redis", "%s",
             text);
    snprintf(r->reason, sizeof(r->reason), "the control store can't write: %s", text);
    if (r->state == REDIS_DOWN) /* the second sign of the same end says more */
        return;
    set_state(r, REDIS_DOWN);
    CRTI_LIST_FOREACH (item, &r->queue) {
        crti_redis_operation_t *operation =
            CRTI_CONTAINER(item, crti_redis_operation_t, in_queue);

        operation->strikes += operation->sent;
        operation->again = operation->again || operation->sent;
        operation->sent = false;
    }
    if (!r->loaded && !may_still_load(r, text)) {
        r->config.on_failed(r->config.user, text);
        return;
    }
    arm(r, crti_now_ns() + r->backoff_ns);
    r->backoff_ns = r->backoff_ns * 2 < CRTI_LIMIT(redis_retry_max)
                        ? r->backoff_ns * 2
                        : CRTI_LIMIT(redis_retry_max);
}

static void drop_connection(crti_redis_t *r)
{
    redisAsyncContext *connection = r->connection;

    crti_redis_prefix_lock_drop(&r->lock);
    r->connection = NULL;
    if (connection)
        redisAsyncFree(connection);
    crti_redis_tls_proxy_close(&r->proxy);
}

static void open_connection(crti_redis_t *r);

static void start_server(crti_redis_t *r)
{
    drop_connection(r);
    set_state(r, REDIS_STARTING);
    if (r->server == NULL) {
        open_connection(r);
        return;
    }
    if (crti_redis_server_start(r->server) != CRT_OK)
        went_down(r, crt_error_detail());
    r->config.on_process(r->config.user, crti_redis_server_pid(r->server));
}

/* Of an external server: the connection is of no use any more. */
static void went_away(crti_redis_t *r, const char *problem)
{
    char text[700];

    snprintf(text, sizeof(text), "redis-server at %s: %s", r->endpoint.address, problem);
    went_down(r, text);
    drop_connection(r);
}

static void on_timer(void *user)
{
    crti_redis_t *r = user;

    if (r->state == REDIS_DOWN) {
        crti_redis_give_up_hopeless(r);
        start_server(r);
    } else if (r->state == REDIS_CONNECTING && r->server == NULL) {
        went_away(r, r->proxy.state == CRTI_TLS_PROXY_SHAKING
                         ? "it does not answer by TLS for 5 s: is it a TLS port?"
                         : "it can't be reached: no answer for 5 s");
    }
}

static void on_server_exit(void *user, const char *text)
{
    crti_redis_t *r = user;

    r->config.on_process(r->config.user, 0);
    went_down(r, text);
    drop_connection(r);
    crti_redis_give_up_hopeless(r);
}

/* ---------------------------------------------------------------- operations */

bool crti_redis_holds_prefix(const crti_redis_t *r)
{
    return r->server || crti_redis_prefix_lock_is_fresh(&r->lock);
}

static void acquire_prefix(crti_redis_t *r)
{
    set_state(r, REDIS_LOCKING);
    crti_redis_prefix_lock_acquire(&r->lock, r->connection);
}

void crti_redis_store(crti_redis_t *r, const crti_store_operation_t *from)
{
    crti_redis_operation_t *operation = crti_redis_operation_add(r, from);

    if (r->state == REDIS_UP && !crti_redis_holds_prefix(r))
        acquire_prefix(r);
    if (r->state == REDIS_UP)
        crti_redis_operation_send(r, operation);
    else if (r->state == REDIS_DOWN && !crti_timer_is_started(&r->timer))
        arm(r, crti_now_ns() + r->backoff_ns);
}

static void go_up(crti_redis_t *r)
{
    set_state(r, REDIS_UP);
    if (r->reason[0])
        crti_log(CRTI_LOG_INFO, "redis", "the control store can write again");
    r->reason[0] = '\0';
    CRTI_LIST_FOREACH (item, &r->queue)
        crti_redis_operation_send(r,
                                  CRTI_CONTAINER(item, crti_redis_operation_t, in_queue));
}

/* ---------------------------------------------------------------- loading */

static void scan(crti_redis_t *r, const char *cursor);

static bool is_scan_reply(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[1]->type == REDIS_REPLY_ARRAY;
}

/* An error may have no words. */
static const char *complaint_of(const redisReply *reply, const char *otherwise)
{
    return reply->type == REDIS_REPLY_ERROR && reply->str[0] ? reply->str : otherwise;
}

static void on_scan(redisAsyncContext *connection, void *data, void *user)
{
    const redisReply *reply = data, *rows;
    crti_redis_t *r = user;

    if (reply == NULL || r->state != REDIS_LOADING)
        return;
    if (!is_scan_reply(reply)) {
        const char *problem = complaint_of(reply, "unexpected answer to HSCAN");

        if (r->server)
            went_down(r, problem);
        else
            went_away(r, problem);
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
                      r->names[r->load_table], cursor);
}

/* ---------------------------------------------------------------- connecting */

static void begin_loading(crti_redis_t *r)
{
    set_state(r, REDIS_LOADING);
    r->load_table = CRTI_STORE_META;
    scan(r, "0");
}

/* The password of a file of the user's is wrong, or too much. */
static void refused(crti_redis_t *r, const char *problem)
{
    char text[900];

    if (r->server) {
        went_down(r, problem);
        return;
    }
    snprintf(text, sizeof(text), "%s%s%sthe password in %s is refused: %s",
             r->endpoint.user[0] ? "user " : "", r->endpoint.user,
             r->endpoint.user[0] ? " with " : "", r->endpoint.password_file, problem);
    went_away(r, text);
}

static void on_authenticated(redisAsyncContext *connection, void *data, void *user)
{
    const redisReply *reply = data;
    crti_redis_t *r = user;

    if (reply == NULL || r->state != REDIS_CONNECTING)
        return;
    if (reply->type != REDIS_REPLY_STATUS)
        refused(r, complaint_of(reply, "unexpected answer to AUTH"));
    else if (r->server == NULL)
        acquire_prefix(r);
    else if (r->loaded)
        go_up(r);
    else
        begin_loading(r);
}

/* ---------------------------------------------------------------- an external server */

static void on_durability(void *user, const char *warning)
{
    crti_redis_t *r = user;
    char text[300];

    if (r->state != REDIS_LOCKING)
        return;
    if (warning) {
        snprintf(text, sizeof(text), "redis-server at %s %s", r->endpoint.address,
                 warning);
        crti_log(CRTI_LOG_WARN, "redis", "%s", text);
        r->config.on_warning(r->config.user, text);
    }
    begin_loading(r);
}

static void forget_tables(crti_redis_t *r)
{
    const char *argv[CRTI_STORE_TABLES + 1] = {"DEL"};

    for (int i = 0; i < CRTI_STORE_TABLES; i++)
        argv[i + 1] = r->names[i];
    redisAsyncCommandArgv(r->connection, NULL, NULL, CRTI_STORE_TABLES + 1, argv, NULL);
}

static void on_held(void *user)
{
    crti_redis_t *r = user;

    if (r->state != REDIS_LOCKING)
        return;
    crti_loop_cancel(r->config.loop, &r->timer);
    if (r->loaded) {
        go_up(r);
        return;
    }
    if (r->config.fresh)
        forget_tables(r);
    crti_redis_durability_ask(&r->durability, r->connection);
}

static void on_error(void *user, const char *text)
{
    crti_redis_t *r = user;

    went_down(r, text);
    drop_connection(r);
    crti_redis_give_up_hopeless(r);
}

static void on_refused(void *user, const char *text)
{
    crti_redis_t *r = user;

    r->stopping = true;
    drop_connection(r);
    r->config.on_failed(r->config.user, text);
}

/* hiredis does not know what the validator and the TLS proxy ended its connection for. */
static const char *problem_of(const crti_redis_t *r, const redisAsyncContext *connection)
{
    if (r->validator.problem)
        return r->validator.problem;
    if (r->proxy.problem[0])
        return r->proxy.problem;
    /* Version 0.14 copies the number later than the text. */
    return connection->c.errstr[0] ? connection->c.errstr : "it closed the connection";
}

/* hiredis frees the connection after this. */
static void on_disconnected(const redisAsyncContext *connection, int status)
{
    crti_redis_t *r = connection->data;

    if (r->connection != connection)
        return;
    crti_redis_prefix_lock_drop(&r->lock);
    r->connection = NULL;
    if (r->server)
        went_down(r, "the connection to redis-server broke");
    else
        went_away(r, problem_of(r, connection));
}

static void on_connected(const redisAsyncContext *connection, int status)
{
    crti_redis_t *r = connection->data;

    if (status == REDIS_OK)
        return;
    crti_redis_prefix_lock_drop(&r->lock);
    r->connection = NULL; /* hiredis frees it */
    if (r->server)
        went_down(r, connection->errstr);
    else
        went_away(r, problem_of(r, connection)); /* hiredis 1.1 connects once more */
}

static void authenticate(crti_redis_t *r)
{
    const char *argv[3] = {"AUTH", NULL, NULL};
    int argc = 2;

    if (r->server)
        argv[1] = crti_redis_server_password(r->server);
    else
        argc = crti_redis_endpoint_auth(&r->endpoint, argv);
    if (r->server == NULL)
        arm(r, crti_now_ns() + REACH_NS);
    if (r->server || r->endpoint.password[0])
        redisAsyncCommandArgv(r->connection, on_authenticated, r, argc, argv, NULL);
    else
        acquire_prefix(r); /* says that a password is wanted, too */
}

/* NULL: crt_error_detail() says why. */
static redisAsyncContext *connect_to(crti_redis_t *r)
{
    redisAsyncContext *c = NULL;
    crt_status_t status = CRT_OK;

    if (r->server) {
        c = redisAsyncConnectUnix(crti_redis_server_socket(r->server));
    } else if (!r->endpoint.tls) {
        c = redisAsyncConnect(r->endpoint.ip, r->endpoint.port);
    } else {
        status = crti_redis_tls_proxy_begin(&r->proxy, &r->endpoint);
        if (status == CRT_OK)
            c = redisAsyncConnectUnix(r->endpoint.socket);
        if (c && !c->err)
            status = crti_redis_tls_proxy_accept(&r->proxy, &r->endpoint);
    }
    if (status == CRT_OK && (c == NULL || c->err))
        status = crt_raise(CRT_ERR_IO, "%s", c ? c->errstr : "out of memory");
    if (status == CRT_OK)
        return c;
    if (c)
        redisAsyncFree(c);
    return NULL;
}

static void open_connection(crti_redis_t *r)
{
    redisAsyncContext *c = connect_to(r);

    set_state(r, REDIS_CONNECTING);
    if (c == NULL && r->server) {
        went_down(r, crt_error_detail());
        return;
    }
    if (c == NULL) {
        went_away(r, crt_error_detail());
        return;
    }
    r->connection = c;
    crti_redis_reply_validator_install(&r->validator, &c->c, c);
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
    authenticate(r);
}

static void on_server_ready(void *user)
{
    crti_redis_t *r = user;

    if (r->state == REDIS_STARTING)
        open_connection(r);
}

/* ---------------------------------------------------------------- life */

static void init(crti_redis_t *r, const crti_redis_config_t *config)
{
    const char *prefix = "crt";

    r->config = *config;
    r->backoff_ns = CRTI_LIMIT(redis_retry);
    r->state = REDIS_STARTING;
    r->started_ns = crti_now_ns();
    r->timer = (crti_timer_t){.on_expired = on_timer, .user = r};
    crti_list_init(&r->queue);
    if (config->endpoint) {
        r->endpoint = *config->endpoint;
        snprintf(r->endpoint.socket, sizeof(r->endpoint.socket), "%s/redis-tls.sock",
                 config->head_dir ? config->head_dir : "");
        prefix = r->endpoint.prefix;
    }
    for (int i = 0; i < CRTI_STORE_TABLES; i++)
        snprintf(r->names[i], sizeof(r->names[i]), "%s:%s", prefix, tables[i]);
    r->lock = (crti_redis_prefix_lock_t){.endpoint = &r->endpoint,
                                         .loop = config->loop,
                                         .user = r,
                                         .on_held = on_held,
                                         .on_error = on_error,
                                         .on_refused = on_refused};
    crti_redis_prefix_lock_init(&r->lock);
    crti_redis_tls_proxy_init(&r->proxy, config->loop);
    r->durability = (crti_redis_durability_t){.user = r, .on_answer = on_durability};
}

static crt_status_t start_own_server(crti_redis_t *r)
{
    crti_redis_server_config_t server = {.loop = r->config.loop,
                                         .head_dir = r->config.head_dir,
                                         .data_dir = r->config.data_dir,
                                         .on_ready = on_server_ready,
                                         .on_exit = on_server_exit,
                                         .user = r};
    crt_status_t status = crti_redis_server_new(&server, &r->server);

    if (status == CRT_OK)
        status = crti_redis_server_start(r->server);
    if (status == CRT_OK)
        r->config.on_process(r->config.user, crti_redis_server_pid(r->server));
    return status;
}

crt_status_t crti_redis_new(const crti_redis_config_t *config, crti_redis_t **redis_out)
{
    crti_redis_t *r = calloc(1, sizeof(*r));
    crt_status_t status = CRT_OK;

    if (r == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "redis");
    init(r, config);
    if (config->endpoint)
        open_connection(r);
    else
        status = start_own_server(r);
    if (status != CRT_OK) {
        crti_redis_free(r);
        return status;
    }
    *redis_out = r;
    return CRT_OK;
}

void crti_redis_end(crti_redis_t *r, bool forget)
{
    const char *names[CRTI_STORE_TABLES];

    if (r == NULL || r->server || !r->lock.was_held)
        return;
    r->stopping = true;
    drop_connection(r);
    for (int i = 0; i < CRTI_STORE_TABLES; i++)
        names[i] = r->names[i];
    crti_redis_endpoint_close(&r->endpoint, names, CRTI_STORE_TABLES, forget);
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
    sodium_memzero(r->endpoint.password, sizeof(r->endpoint.password));
    while ((item = crti_list_pop(&r->queue)))
        free(CRTI_CONTAINER(item, crti_redis_operation_t, in_queue));
    free(r);
}
