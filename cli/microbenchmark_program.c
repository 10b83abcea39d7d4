/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and actors of the benchmark; the bodies are those of Ray's ray_perf.py. */
#include "cli/microbenchmark_program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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
    zeros = crt_tensor_view(CRT_DTYPE_INT64, 1, &bytes, data);
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

/* ---------------------------------------------------------------- lists of ints */

static int64_t ints[LIST_INTS];

crt_tensor_t list_of_ints(int64_t last)
{
    static const int64_t count = LIST_INTS;

    for (int i = 0; i < LIST_INTS; i++)
        ints[i] = i;
    ints[LIST_INTS - 1] = last;
    return crt_tensor_view(CRT_DTYPE_INT64, 1, &count, ints);
}

int64_t sum_of_ints(const crt_tensor_t *list)
{
    const int64_t *items = list->data;
    int64_t sum = 0;

    for (int i = 0; i < LIST_INTS; i++)
        sum += items[i];
    return sum;
}

int64_t sum_of_lists(int64_t count)
{
    return count * ((int64_t)(LIST_INTS - 1) * (LIST_INTS - 2) / 2) +
           count * (count - 1) / 2;
}

static crt_status_t sum_lists_run(crt_call_t *call)
{
    int64_t sum = 0;

    for (size_t i = 0; i < crt_arg_count(call); i++) {
        const crt_tensor_t *list;

        CRT_TRY(crt_arg_at(call, i, &list));
        sum += sum_of_ints(list);
    }
    return crt_return(call, sum);
}

static crt_status_t return_lists_run(crt_call_t *call)
{
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    for (int64_t i = 0; i < count; i++) {
        crt_tensor_t list = list_of_ints(i);

        CRT_TRY(crt_return_at(call, (size_t)i, &list));
    }
    return CRT_OK;
}

/* Waits until the pipe has a writer. */
static crt_status_t hold_run(crt_call_t *call)
{
    const char *path;
    int fd;

    CRT_TRY(crt_args(call, &path));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return crt_fail(call, CRT_ERR_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return CRT_OK;
}

const crt_task_t sum_lists_task =
    CRT_TASK(.name = "sum_lists", .run = sum_lists_run, .signature = "tensor...");
const crt_task_t return_lists_task =
    CRT_TASK(.name = "return_lists", .run = return_lists_run, .signature = "int");
const crt_task_t hold_task =
    CRT_TASK(.name = "hold", .run = hold_run, .signature = "string");
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

const crt_method_t server_small_value =
    CRT_METHOD(.name = "small_value", .run = server_small_value_run, .signature = "");
const crt_method_t server_small_value_arg =
    CRT_METHOD(.name = "small_value_arg", .run = server_small_value_run,
               .signature = "any");
const crt_method_t server_pid =
    CRT_METHOD(.name = "pid", .run = server_pid_run, .signature = "");
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

const crt_method_t client_calls =
    CRT_METHOD(.name = "calls", .run = client_calls_run, .signature = "int");
const crt_method_t client_arg_calls =
    CRT_METHOD(.name = "arg_calls", .run = client_arg_calls_run, .signature = "int");
const crt_method_t client_tasks =
    CRT_METHOD(.name = "tasks", .run = client_tasks_run, .signature = "int");
const crt_actor_class_t client_class =
    CRT_ACTOR_CLASS(.name = "Client", .size = sizeof(struct client),
                    .create = client_create, .signature = "actor...",
                    .destroy = client_destroy,
                    .methods =
                        CRT_METHODS(&client_calls, &client_arg_calls, &client_tasks));

/* ---------------------------------------------------------------- keeper */

struct keeper {
    crt_ref_t *list;
};

static crt_status_t keeper_create(void *self, crt_call_t *call)
{
    struct keeper *keeper = self;
    crt_arg_t *items;
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    items = calloc((size_t)count, sizeof(*items));
    if (items == NULL)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%lld refs", (long long)count);
    for (int64_t i = 0; i < count; i++)
        items[i] = crt_arg_ref(crt_put(1));
    keeper->list = crt_put(crt_list(items, (size_t)count));
    for (int64_t i = 0; i < count; i++)
        crt_ref_drop(&items[i].as.ref);
    free(items);
    return CRT_OK;
}

static void keeper_destroy(void *self)
{
    struct keeper *keeper = self;

    crt_ref_drop(&keeper->list);
}

/* The ref in a list, so that it is not read for who asks. */
static crt_status_t keeper_list_run(void *self, crt_call_t *call)
{
    const struct keeper *keeper = self;
    crt_arg_t items[] = {crt_arg_ref(keeper->list)};

    return crt_return(call, crt_list(items, 1));
}

const crt_method_t keeper_list =
    CRT_METHOD(.name = "list", .run = keeper_list_run, .signature = "");
const crt_actor_class_t keeper_class =
    CRT_ACTOR_CLASS(.name = "Keeper", .size = sizeof(struct keeper),
                    .create = keeper_create, .signature = "int",
                    .destroy = keeper_destroy, .methods = CRT_METHODS(&keeper_list));
