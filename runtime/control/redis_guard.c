/* SPDX-License-Identifier: Apache-2.0 */
/* Answers are looked at before they are made. See redis_guard.h. */
#include "runtime/control/redis_guard.h"

#include <stdbool.h>
#include <stddef.h>

#if HIREDIS_MAJOR >= 1
typedef size_t elements_t;
#else
typedef int elements_t;
#endif

/* NULL makes the reader fail, which ends the connection. An error that nobody asked for hiredis
 * knows: a server says so that it has too many connections. */
static bool refuses(crti_redis_guard_t *guard, const redisReadTask *task)
{
    if (guard->connection && guard->connection->replies.head == NULL &&
        task->parent == NULL && task->type != REDIS_REPLY_ERROR)
        guard->problem = "an answer came that nobody had asked for";
    return guard->problem != NULL;
}

static void *create_string(const redisReadTask *task, char *text, size_t size)
{
    crti_redis_guard_t *guard = task->privdata;

    return refuses(guard, task) ? NULL : guard->plain.createString(task, text, size);
}

static void *create_array(const redisReadTask *task, elements_t count)
{
    crti_redis_guard_t *guard = task->privdata;

    if (count > CRTI_REDIS_ELEMENTS)
        guard->problem = "an answer of too many elements came";
    return refuses(guard, task) ? NULL : guard->plain.createArray(task, count);
}

static void *create_integer(const redisReadTask *task, long long number)
{
    crti_redis_guard_t *guard = task->privdata;

    return refuses(guard, task) ? NULL : guard->plain.createInteger(task, number);
}

static void *create_nil(const redisReadTask *task)
{
    crti_redis_guard_t *guard = task->privdata;

    return refuses(guard, task) ? NULL : guard->plain.createNil(task);
}

void crti_redis_guard_set(crti_redis_guard_t *guard, redisContext *context,
                          const redisAsyncContext *connection)
{
    redisReader *reader = context->reader;

    *guard = (crti_redis_guard_t){.plain = *reader->fn, .connection = connection};
    guard->functions = guard->plain;
    guard->functions.createString = create_string;
    guard->functions.createArray = create_array;
    guard->functions.createInteger = create_integer;
    guard->functions.createNil = create_nil;
    reader->fn = &guard->functions;
    reader->privdata = guard;
}
