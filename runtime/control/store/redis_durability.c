/* SPDX-License-Identifier: Apache-2.0 */
/* What a redis-server keeps when it ends. See redis_durability.h. */
#include "runtime/control/store/redis_durability.h"

#include <string.h>

static const char no_file[] = "keeps no append-only file (appendonly no): what it "
                              "acknowledged is lost when it ends";
static const char once_a_second[] =
    "syncs its file once a second (appendfsync everysec): a power failure may lose "
    "acknowledged changes";
static const char never[] = "leaves the syncing of its file to the system (appendfsync "
                            "no): a power failure may lose "
                            "acknowledged changes";
static const char not_told[] = "does not tell whether it syncs its file before it "
                               "answers (appendonly yes, appendfsync "
                               "always)";

static void on_info(redisAsyncContext *connection, void *data, void *user)
{
    crti_redis_durability_t *d = user;
    const redisReply *reply = data;
    const char *line;

    if (reply == NULL || reply->type != REDIS_REPLY_STRING)
        return;
    line = strstr(reply->str, "aof_enabled:");
    if (line)
        d->has_file = line[strlen("aof_enabled:")] == '1';
}

static void on_config(redisAsyncContext *connection, void *data, void *user)
{
    crti_redis_durability_t *d = user;
    const redisReply *reply = data;
    const char *warning = not_told, *value = "";

    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[1]->type == REDIS_REPLY_STRING)
        value = reply->element[1]->str;
    if (d->has_file == 0)
        warning = no_file;
    else if (d->has_file == 1 && strcmp(value, "always") == 0)
        warning = NULL;
    else if (d->has_file == 1 && strcmp(value, "everysec") == 0)
        warning = once_a_second;
    else if (d->has_file == 1 && strcmp(value, "no") == 0)
        warning = never;
    d->on_answer(d->user, warning);
}

void crti_redis_durability_ask(crti_redis_durability_t *d, redisAsyncContext *connection)
{
    d->has_file = -1;
    redisAsyncCommand(connection, on_info, d, "INFO persistence");
    redisAsyncCommand(connection, on_config, d, "CONFIG GET appendfsync");
}
