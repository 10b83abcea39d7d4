/* SPDX-License-Identifier: Apache-2.0 */
/* Replies are checked before their objects are created. See redis_reply_validator.h. */
#include "runtime/control/store/redis_reply_validator.h"

#include <stdbool.h>
#include <stddef.h>

#if HIREDIS_MAJOR >= 1
typedef size_t elements_t;
#else
typedef int elements_t;
#endif

/* NULL makes the reader fail, which ends the connection. hiredis itself handles an error without
 * a request: a server with too many connections sends one. */
static bool refuses(crti_redis_reply_validator_t *validator, const redisReadTask *task)
{
    if (validator->connection && validator->connection->replies.head == NULL &&
        task->parent == NULL && task->type != REDIS_REPLY_ERROR)
        validator->problem = "an answer came that nobody had asked for";
    return validator->problem != NULL;
}

static void *create_string(const redisReadTask *task, char *text, size_t size)
{
    crti_redis_reply_validator_t *validator = task->privdata;

    return refuses(validator, task) ? NULL
                                    : validator->plain.createString(task, text, size);
}

static void *create_array(const redisReadTask *task, elements_t count)
{
    crti_redis_reply_validator_t *validator = task->privdata;

    if (count > CRTI_REDIS_ELEMENTS)
        validator->problem = "an answer of too many elements came";
    return refuses(validator, task) ? NULL : validator->plain.createArray(task, count);
}

static void *create_integer(const redisReadTask *task, long long number)
{
    crti_redis_reply_validator_t *validator = task->privdata;

    return refuses(validator, task) ? NULL : validator->plain.createInteger(task, number);
}

static void *create_nil(const redisReadTask *task)
{
    crti_redis_reply_validator_t *validator = task->privdata;

    return refuses(validator, task) ? NULL : validator->plain.createNil(task);
}

void crti_redis_reply_validator_install(crti_redis_reply_validator_t *validator,
                                        redisContext *context,
                                        const redisAsyncContext *connection)
{
    redisReader *reader = context->reader;

    *validator =
        (crti_redis_reply_validator_t){.plain = *reader->fn, .connection = connection};
    validator->functions = validator->plain;
    validator->functions.createString = create_string;
    validator->functions.createArray = create_array;
    validator->functions.createInteger = create_integer;
    validator->functions.createNil = create_nil;
    reader->fn = &validator->functions;
    reader->privdata = validator;
}
