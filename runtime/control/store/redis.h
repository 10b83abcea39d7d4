/* SPDX-License-Identifier: Apache-2.0 */
/* Redis: the durable store of the head. Only it and the redis_* files beside it know hiredis.
 *
 * Where it sits
 *     control.c's operations -> [ control/store/redis.c ] -> hiredis -> redis.sock -> redis-server
 *     with an external server: redis_endpoint.c (address), redis_prefix_lock.c (ownership), hiredis
 * Durability
 *     redis-server syncs its file before it answers (`appendfsync always`); all operations of
 *     one turn of the loop travel together, so that one sync covers them.
 * Failure
 *     When redis-server ends it is started again from its file, and what had no answer yet is
 *     sent again, in order: writing a row is idempotent. It ends on purpose when its disk is
 *     full. Operations during which it ended twice, or that waited GIVE_UP_NS, fail with its
 *     error. The next ones try again.
 *     An external server is never started or ended. While it is unreachable, operations wait up
 *     to GIVE_UP_AWAY_NS and then fail with the reason; reconnecting goes on for ever. Only a
 *     prefix lock that another head took ends this head (on_failed).
 * Ownership
 *     Operations are copied. on_done is called once for each, in the order of their tickets,
 *     from the loop, never inside crti_redis_store.
 */
#ifndef CRTI_CONTROL_REDIS_H
#define CRTI_CONTROL_REDIS_H

#include <sys/types.h>

#include "runtime/control/control.h"
#include "runtime/control/store/redis_endpoint.h"
#include "runtime/net/loop.h"

typedef struct crti_redis crti_redis_t;

typedef struct crti_redis_config {
    crti_loop_t *loop;
    const char *head_dir, *data_dir;
    /* of an external server; copied. NULL: the head runs its own */
    const crti_redis_endpoint_t *endpoint;
    bool fresh; /* its tables are deleted first */
    void *user;
    /* At the start: every row, table after table; then on_loaded. */
    void (*on_row)(void *user, crti_store_table_t table, crti_span_t key,
                   crti_span_t value);
    void (*on_loaded)(void *user);
    /* Of an external server, before on_loaded: what the user should know of it. */
    void (*on_warning)(void *user, const char *text);
    /* The start failed, or another head has taken the prefix lock. */
    void (*on_failed)(void *user, const char *text);
    /* Its process changed: started, or ended (pid 0). */
    void (*on_process)(void *user, pid_t pid);
    void (*on_done)(void *user, uint64_t ticket, crt_status_t status, const char *text,
                    bool found, crti_span_t value);
} crti_redis_config_t;

/* Starts redis-server, or connects to the external one. CRT_ERR_NOT_FOUND: it is not installed.
 * Caller owns the result and frees it with crti_redis_free. */
crt_status_t crti_redis_new(const crti_redis_config_t *config, crti_redis_t **redis_out);

/* Before the end: releases the prefix lock on an external server; `forget` also deletes the tables.
 * Waits some seconds at most. Does nothing to the head's own server, or with NULL. */
void crti_redis_end(crti_redis_t *redis, bool forget);

/* Ends redis-server; operations without an answer are dropped, on_done is not called. */
void crti_redis_free(crti_redis_t *redis);

/* No other head can have these tables. */
bool crti_redis_holds_prefix(const crti_redis_t *redis);

void crti_redis_store(crti_redis_t *redis, const crti_store_operation_t *operation);

#endif
