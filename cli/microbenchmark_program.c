/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and actors of the benchmark; the bodies are those of Ray's ray_perf.py. */
#include "cli/microbenchmark_program.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SERVERS_MAX 256

crt_status_t get_all(crt_ref_t **refs, size_t count)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < count; i++) {
        crt_status_t one = status == CRT_OK ? crt_get(refs[i], NULL) : CRT_OK;

        if (one != CRT_OK)
            status = one;
    }
    crt_refs_drop(refs, count);
    return status;
}

static crt_status_t small_value_run(crt_call_t *call)
{
    return crt_return(call, "ok");
}

static crt_status_t put_small_run(crt_call_t *call)
{
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    for (int64_t i = 0; i < count; i++) {
        crt_ref_t *ref = crt_put(0);
        crt_status_t status = crt_get(ref, NULL);

        crt_ref_drop(&ref);
        CRT_TRY(status);
    }
    return CRT_OK;
}

static crt_status_t put_large_run(crt_call_t *call)
{
    int64_t count, bytes;
    crt_status_t status = CRT_OK;
    crt_tensor_t zeros;
    void *data;

    CRT_TRY(crt_args(call, &count, &bytes));
    data = calloc(1, (size_t)bytes);
    if (data == NULL)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%lld bytes of zeros", (long long)bytes);
    bytes /= 8;
    zeros = crt_tensor_view(CRT_INT64, 1, &bytes, data);
    for (int64_t i = 0; i < count && status == CRT_OK; i++) {
        crt_ref_t *ref = crt_put(&zeros);

        status = crt_get(ref, NULL);
        crt_ref_drop(&ref);
    }
    free(data);
    return status;
}

static crt_status_t many_refs_run(crt_call_t *call)
{
    int64_t count;
    crt_status_t status;
    crt_arg_t *items;

    CRT_TRY(crt_args(call, &count));
    items = calloc((size_t)count, sizeof(*items));
    if (items == NULL)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%lld refs", (long long)count);
    for (int64_t i = 0; i < count; i++)
        items[i] = crt_arg_ref(crt_put(1));
    status = crt_return(call, crt_list(items, (size_t)count));
    for (int64_t i = 0; i < count; i++)
        crt_ref_drop(&items[i].as.ref);
    free(items);
    return status;
}

/* `total` calls, to servers[i % count] in turn or to one server after the other. */
static crt_status_t call_all(crt_actor_t *const *servers, size_t count, size_t total,
                             bool round_robin, crt_ref_t *argument)
{
    crt_ref_t **refs = calloc(total, sizeof(*refs));
    crt_status_t status;

    if (refs == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "%zu refs", total);
    for (size_t i = 0; i < total; i++) {
        crt_actor_t *server = servers[round_robin ? i % count : i / (total / count)];

        refs[i] = argument ? crt_call(server, &server_small_value_arg, argument)
                           : crt_call(server, &server_small_value);
    }
    status = get_all(refs, total);
    free(refs);
    return status;
}

static crt_status_t call_servers_run(crt_call_t *call)
{
    crt_actor_t *servers[SERVERS_MAX];
    size_t count = crt_arg_count(call) - 1;
    int64_t total;

    if (count > SERVERS_MAX)
        return crt_fail(call, CRT_ERR_INVALID, "%zu servers, at most %d", count,
                        SERVERS_MAX);
    CRT_TRY(crt_arg_at(call, 0, &total));
    for (size_t i = 0; i < count; i++)
        CRT_TRY(crt_arg_at(call, i + 1, &servers[i]));
    return call_all(servers, count, (size_t)total, true, NULL);
}

const crt_task_t small_value_task =
    CRT_TASK(.name = "small_value", .run = small_value_run, .signature = "");
const crt_task_t put_small_task =
    CRT_TASK(.name = "put_small", .run = put_small_run, .signature = "int");
const crt_task_t put_large_task =
    CRT_TASK(.name = "put_large", .run = put_large_run, .signature = "int, int");
const crt_task_t many_refs_task =
    CRT_TASK(.name = "many_refs", .run = many_refs_run, .signature = "int");
const crt_task_t call_servers_task =
    CRT_TASK(.name = "call_servers", .run = call_servers_run,
             .signature = "int, actor...");

/* ---------------------------------------------------------------- server */

static crt_status_t server_small_value_run(void *self, crt_call_t *call)
{
    return crt_return(call, "ok");
}

static crt_status_t server_pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)getpid());
}

const crt_method_t server_small_value = {"small_value", server_small_value_run, ""};
const crt_method_t server_small_value_arg = {"small_value_arg", server_small_value_run,
                                             "any"};
const crt_method_t server_pid = {"pid", server_pid_run, ""};
const crt_actor_class_t server_class =
    CRT_ACTOR_CLASS(.name = "Server", .size = 1,
                    .methods = CRT_METHODS(&server_small_value, &server_small_value_arg,
                                           &server_pid));

/* ---------------------------------------------------------------- client */

struct client {
    crt_actor_t *servers[SERVERS_MAX];
    size_t count;
};

static crt_status_t client_create(void *self, crt_call_t *call)
{
    struct client *client = self;

    if (crt_arg_count(call) > SERVERS_MAX)
        return crt_fail(call, CRT_ERR_INVALID, "at most %d servers", SERVERS_MAX);
    for (size_t i = 0; i < crt_arg_count(call); i++) {
        crt_actor_t *server;

        CRT_TRY(crt_arg_at(call, i, &server));
        client->servers[client->count++] = crt_actor_keep(server);
    }
    return CRT_OK;
}

static void client_destroy(void *self)
{
    struct client *client = self;

    for (size_t i = 0; i < client->count; i++)
        crt_actor_drop(&client->servers[i]);
}

static crt_status_t client_calls_run(void *self, crt_call_t *call)
{
    struct client *client = self;
    int64_t each;

    CRT_TRY(crt_args(call, &each));
    return call_all(client->servers, client->count, (size_t)each * client->count, false,
                    NULL);
}

static crt_status_t client_arg_calls_run(void *self, crt_call_t *call)
{
    struct client *client = self;
    crt_status_t status;
    crt_ref_t *x;
    int64_t each;

    CRT_TRY(crt_args(call, &each));
    x = crt_put(0);
    status =
        call_all(client->servers, client->count, (size_t)each * client->count, false, x);
    crt_ref_drop(&x);
    return status;
}

static crt_status_t client_tasks_run(void *self, crt_call_t *call)
{
    crt_status_t status;
    crt_ref_t **refs;
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    refs = calloc((size_t)count, sizeof(*refs));
    if (refs == NULL)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%lld refs", (long long)count);
    for (int64_t i = 0; i < count; i++)
        refs[i] = crt_submit(&small_value_task, NULL);
    status = get_all(refs, (size_t)count);
    free(refs);
    return status;
}

const crt_method_t client_calls = {"calls", client_calls_run, "int"};
const crt_method_t client_arg_calls = {"arg_calls", client_arg_calls_run, "int"};
const crt_method_t client_tasks = {"tasks", client_tasks_run, "int"};
const crt_actor_class_t client_class =
    CRT_ACTOR_CLASS(.name = "Client", .size = sizeof(struct client),
                    .create = client_create, .signature = "actor...",
                    .destroy = client_destroy,
                    .methods =
                        CRT_METHODS(&client_calls, &client_arg_calls, &client_tasks));
