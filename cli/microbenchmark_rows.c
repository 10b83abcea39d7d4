/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of crt microbenchmark. See microbenchmark_rows.h. */
#include "cli/microbenchmark_rows.h"

#include "cli/bare_limits.h"
#include "cli/microbenchmark_program.h"

#include <crt_placement_group.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVERS_MAX 64
#define LARGE_BYTES ((size_t)100 * 1024 * 1024 * 8)
#define MANY_REFS   10000
#define LISTS       10000
#define RETURNS     3000
#define MILLION     1000000

/* What the rows work with. */
static struct {
    bare_echo_t echo;
    int cores;
    int server_count; /* C of Ray's bodies: half the cores, at least one */
    crt_actor_t *servers[SERVERS_MAX];
    crt_ref_t *small; /* put(0) */
    crt_ref_t *list;  /* list of 10,000 refs */
    void *zeros;      /* LARGE_BYTES */
    crt_actor_t *clients[SERVERS_MAX];
    int client_count;
    crt_actor_t *client;     /* knows all servers */
    crt_actor_t *concurrent; /* a server of 16 calls at a time */
    crt_actor_t *keeper;     /* has a list of MANY_REFS refs */
    crt_ref_t *lists[LISTS];
} bench;

/* ---------------------------------------------------------------- bodies */

static void must_be(int64_t sum, int64_t expected, const char *what)
{
    if (sum != expected)
        CRT_CHECK(crt_raise(CRT_ERR_CORRUPT, "%s add up to %lld, not %lld", what,
                            (long long)sum, (long long)expected));
}

static void submit_tasks(crt_ref_t **refs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        refs[i] = crt_submit(&small_value_task, NULL);
}

static void body_get_small(void)
{
    CRT_CHECK(crt_get(bench.small, NULL));
}

static void body_put_small(void)
{
    crt_ref_t *ref = crt_put(0);

    crt_ref_drop(&ref);
}

static void run_ten(const crt_task_t *task, int64_t count, int64_t bytes)
{
    crt_ref_t *refs[10];

    for (int i = 0; i < 10; i++)
        refs[i] =
            bytes ? crt_submit(task, NULL, count, bytes) : crt_submit(task, NULL, count);
    CRT_CHECK(get_all(refs, 10));
}

static void body_multi_put_small(void)
{
    run_ten(&put_small_task, 100, 0);
}

static void body_put_large(void)
{
    int64_t count = LARGE_BYTES / 8;
    crt_tensor_t zeros = crt_tensor_view(CRT_DTYPE_INT64, 1, &count, bench.zeros);
    crt_ref_t *ref = crt_put(&zeros);

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
}

static void body_multi_put_large(void)
{
    run_ten(&put_large_task, 10, (int64_t)LARGE_BYTES / 10);
}

static void body_tasks_batch(void)
{
    crt_ref_t *refs[1000];

    submit_tasks(refs, 1000);
    CRT_CHECK(get_all(refs, 1000));
}

static void body_get_many_refs(void)
{
    const crt_value_t *list;

    CRT_CHECK(crt_get(bench.list, &list));
    if (crt_value_count(list) != 10000)
        CRT_CHECK(
            crt_raise(CRT_ERR_CORRUPT, "the list has %zu refs", crt_value_count(list)));
}

/* The list is on another process, and so are its refs: each is asked of its owner, read and
 * forgotten. */
static void body_visit_many_refs(void)
{
    crt_ref_t *answer = crt_call(bench.keeper, &keeper_list), *list_ref, *ref;
    const crt_value_t *inner, *list;
    int64_t number, sum = 0;

    CRT_CHECK(crt_get(answer, &inner));
    CRT_CHECK(crt_value_read(crt_value_at(inner, 0), &list_ref));
    CRT_CHECK(crt_get(list_ref, &list));
    for (size_t i = 0; i < MANY_REFS; i++) {
        CRT_CHECK(crt_value_read(crt_value_at(list, i), &ref));
        CRT_CHECK(crt_get(ref, &number));
        sum += number;
    }
    must_be(sum, MANY_REFS, "the values of the list's refs");
    crt_ref_drop(&answer);
}

static void body_wait_refs(void)
{
    crt_ref_t *refs[1000], *waiting[1000];
    size_t left = 1000, ready[1000], ready_count;

    submit_tasks(refs, 1000);
    memcpy(waiting, refs, sizeof(refs));
    while (left > 0) {
        CRT_CHECK(crt_wait(waiting, left, 1, -1, ready, &ready_count));
        memmove(&waiting[ready[0]], &waiting[ready[0] + 1],
                (left - ready[0] - 1) * sizeof(waiting[0]));
        left--;
    }
    crt_refs_drop(refs, 1000);
}

static void body_task_sync(void)
{
    crt_ref_t *ref = crt_submit(&small_value_task, NULL);

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
}

static void body_multi_tasks(void)
{
    crt_ref_t *refs[4];

    for (int i = 0; i < 4; i++)
        refs[i] = crt_call(bench.clients[i], &client_tasks, 10000);
    CRT_CHECK(get_all(refs, 4));
}

static void body_call_sync(void)
{
    crt_ref_t *ref = crt_call(bench.servers[0], &server_small_value);

    CRT_CHECK(crt_get(ref, NULL));
    crt_ref_drop(&ref);
}

static void body_call_async(void)
{
    crt_ref_t *refs[1000];

    for (int i = 0; i < 1000; i++)
        refs[i] = crt_call(bench.servers[0], &server_small_value);
    CRT_CHECK(get_all(refs, 1000));
}

static void body_call_concurrent(void)
{
    crt_ref_t *refs[1000];

    for (int i = 0; i < 1000; i++)
        refs[i] = crt_call(bench.concurrent, &server_small_value);
    CRT_CHECK(get_all(refs, 1000));
}

static void body_placement_groups(void)
{
    const crt_bundle_t bundle = CRT_BUNDLE(.resources = "custom=0.001");
    crt_placement_group_t *groups[100];

    for (int i = 0; i < 100; i++)
        groups[i] = crt_placement_group_new(&bundle, 1, NULL);
    for (int i = 0; i < 100; i++)
        CRT_CHECK(crt_placement_group_wait(groups[i], 30000));
    for (int i = 0; i < 100; i++) {
        CRT_CHECK(crt_placement_group_remove(groups[i]));
        crt_placement_group_drop(&groups[i]);
    }
}

static void body_one_to_n(void)
{
    crt_ref_t *ref = crt_call(bench.client, &client_calls, 5000);

    CRT_CHECK(get_all(&ref, 1));
}

static void body_n_to_n(void)
{
    crt_arg_t args[SERVERS_MAX + 1] = {crt_arg_int(5000)};
    crt_ref_t *refs[4];

    for (int i = 0; i < bench.server_count; i++)
        args[i + 1] = crt_arg_actor(bench.servers[i]);
    for (int i = 0; i < 4; i++)
        refs[i] =
            crt_submit_v(&call_servers_task, NULL, args, (size_t)bench.server_count + 1);
    CRT_CHECK(get_all(refs, 4));
}

static void body_n_to_n_with_arg(void)
{
    crt_ref_t *refs[SERVERS_MAX];

    for (int i = 0; i < bench.server_count; i++)
        refs[i] = crt_call(bench.clients[i], &client_arg_calls, 1000);
    CRT_CHECK(get_all(refs, (size_t)bench.server_count));
}

/* ---------------------------------------------------------------- Ray's single-node test */

/* What it calls lists of 10,000 ints are tensors. */
static void put_lists(crt_ref_t **refs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        crt_tensor_t list = list_of_ints((int64_t)i);

        refs[i] = crt_put(&list);
    }
}

static void body_many_args(void)
{
    crt_ref_t *result =
        crt_submit(&sum_lists_task, NULL, crt_arg_each(bench.lists, LISTS));
    int64_t sum;

    CRT_CHECK(crt_get(result, &sum));
    must_be(sum, sum_of_lists(LISTS), "10,000 arguments");
    crt_ref_drop(&result);
}

static int64_t get_lists(crt_ref_t *const *refs, size_t count)
{
    int64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        const crt_tensor_t *list;

        CRT_CHECK(crt_get(refs[i], &list));
        sum += sum_of_ints(list);
    }
    return sum;
}

static void body_many_returns(void)
{
    static crt_ref_t *refs[RETURNS];

    crt_submit_returns(refs, RETURNS, &return_lists_task, NULL, RETURNS);
    must_be(get_lists(refs, RETURNS), sum_of_lists(RETURNS), "3,000 results");
    crt_refs_drop(refs, RETURNS);
}

static void body_many_gets(void)
{
    static crt_ref_t *refs[LISTS];

    put_lists(refs, LISTS);
    must_be(get_lists(refs, LISTS), sum_of_lists(LISTS), "10,000 objects");
    crt_refs_drop(refs, LISTS);
}

/* The processors are taken by readers of a pipe that has no writer until all tasks are queued. */
static void body_million_tasks(void)
{
    char directory[] = "/tmp/crt-microbenchmark-XXXXXX", path[64];
    crt_ref_t **refs = calloc(MILLION, sizeof(*refs)), *holders[SERVERS_MAX];
    int holder_count = bench.cores < SERVERS_MAX ? bench.cores : SERVERS_MAX, fd;

    if (!refs || !mkdtemp(directory))
        CRT_CHECK(crt_raise(CRT_ERR_NO_MEMORY, "a million refs, and %s", directory));
    snprintf(path, sizeof(path), "%s/gate", directory);
    if (mkfifo(path, 0600) != 0)
        CRT_CHECK(crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno)));
    for (int i = 0; i < holder_count; i++)
        holders[i] = crt_submit(&hold_task, NULL, (const char *)path);
    submit_tasks(refs, MILLION);
    fd = open(path, O_RDWR | O_CLOEXEC); /* does not wait for a reader */
    CRT_CHECK(get_all(holders, (size_t)holder_count));
    for (size_t i = 0; i < MILLION; i++) {
        CRT_CHECK(crt_get(refs[i], NULL));
        crt_ref_drop(&refs[i]);
    }
    close(fd);
    unlink(path);
    rmdir(directory);
    free(refs);
}

/* ---------------------------------------------------------------- limits */

static void limit_copy_small(void)
{
    bare_copy(8);
}

static void limit_copy_large(void)
{
    bare_copy(LARGE_BYTES);
}

static void limit_echo_sync(void)
{
    bare_echo_sync(&bench.echo);
}

static void limit_echo_1000(void)
{
    bare_echo_pipelined(&bench.echo, 1000);
}

/* ---------------------------------------------------------------- rows */

static void make_clients(int count)
{
    for (; bench.client_count < count; bench.client_count++)
        bench.clients[bench.client_count] = crt_actor_new(
            &client_class, NULL, bench.servers[bench.client_count % bench.server_count]);
}

static void need_zeros(void)
{
    if (bench.zeros == NULL)
        bench.zeros = calloc(1, LARGE_BYTES);
    if (bench.zeros == NULL)
        CRT_CHECK(crt_raise(CRT_ERR_NO_MEMORY, "%zu bytes of zeros", LARGE_BYTES));
    memset(bench.zeros, 0,
           LARGE_BYTES); /* pages of their own, not the shared zero page */
}

static void need_small(void)
{
    if (bench.small == NULL)
        bench.small = crt_put(0);
}

static void need_list(void)
{
    if (bench.list == NULL)
        bench.list = crt_submit(&many_refs_task, NULL, 10000);
    CRT_CHECK(crt_get(bench.list, NULL));
}

static void need_four_clients(void)
{
    make_clients(4);
}

static void need_bound_clients(void)
{
    make_clients(bench.server_count);
}

static void need_keeper(void)
{
    if (bench.keeper == NULL)
        bench.keeper = crt_actor_new(&keeper_class, NULL, MANY_REFS);
}

static void need_concurrent(void)
{
    if (bench.concurrent == NULL)
        bench.concurrent =
            crt_actor_new(&server_class, CRT_ACTOR_OPTIONS(.max_concurrency = 16));
}

static void need_lists(void)
{
    if (bench.lists[0] == NULL)
        put_lists(bench.lists, LISTS);
}

static void need_client(void)
{
    crt_arg_t args[SERVERS_MAX];

    for (int i = 0; i < bench.server_count; i++)
        args[i] = crt_arg_actor(bench.servers[i]);
    if (bench.client == NULL)
        bench.client =
            crt_actor_new_v(&client_class, NULL, args, (size_t)bench.server_count);
}

const row_t rows[] = {
    {"single_client_get_calls_Plasma_Store", "single client get calls (Plasma Store)",
     "1/s", need_small, body_get_small, 1, false, "memcpy 8 B, warm pages",
     limit_copy_small, 1},
    {"single_client_put_calls_Plasma_Store", "single client put calls (Plasma Store)",
     "1/s", NULL, body_put_small, 1, false, "memcpy 8 B, warm pages", limit_copy_small,
     1},
    {"multi_client_put_calls_Plasma_Store", "multi client put calls (Plasma Store)",
     "1/s", NULL, body_multi_put_small, 1000, false, "memcpy 8 B, warm pages",
     limit_copy_small, 1},
    {"single_client_put_gigabytes", "single client put gigabytes", "GB/s", need_zeros,
     body_put_large, 0.8, false, "memcpy 800 MiB, warm pages", limit_copy_large, 0.8},
    {"single_client_tasks_and_get_batch", "single client tasks and get batch", "1/s",
     NULL, body_tasks_batch, 1, false, "zmq ipc echo, 1000 in flight", limit_echo_1000,
     1},
    {"multi_client_put_gigabytes", "multi client put gigabytes", "GB/s", NULL,
     body_multi_put_large, 8, false, "memcpy 800 MiB, warm pages", limit_copy_large, 0.8},
    {"single_client_get_object_containing_10k_refs",
     "single client get object containing 10k refs", "1/s", need_keeper,
     body_visit_many_refs, 1, false, "memcpy 8 B, warm pages", limit_copy_small, 1},
    {"single_client_get_cached_object_containing_10k_refs", NULL, "1/s", need_list,
     body_get_many_refs, 1, false, "memcpy 8 B, warm pages", limit_copy_small, 1},
    {"single_client_wait_1k_refs", "single client wait 1k refs", "1/s", NULL,
     body_wait_refs, 1, false, "zmq ipc echo, 1000 in flight", limit_echo_1000, 1},
    {"single_client_tasks_sync", "single client tasks sync", "1/s", NULL, body_task_sync,
     1, false, "zmq ipc echo", limit_echo_sync, 1},
    {"single_client_tasks_async", "single client tasks async", "1/s", NULL,
     body_tasks_batch, 1000, false, "zmq ipc echo, 1000 in flight", limit_echo_1000,
     1000},
    {"multi_client_tasks_async", "multi client tasks async", "1/s", need_four_clients,
     body_multi_tasks, 40000, false, "zmq ipc echo, 1000 in flight", limit_echo_1000,
     1000},
    {"1_1_actor_calls_sync", "1:1 actor calls sync", "1/s", NULL, body_call_sync, 1,
     false, "zmq ipc echo", limit_echo_sync, 1},
    {"1_1_actor_calls_async", "1:1 actor calls async", "1/s", NULL, body_call_async, 1000,
     false, "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"1_1_actor_calls_concurrent", "1:1 actor calls concurrent", "1/s", need_concurrent,
     body_call_concurrent, 1000, false, "zmq ipc echo, 1000 in flight", limit_echo_1000,
     1000},
    {"1_n_actor_calls_async", "1:n actor calls async", "1/s", need_client, body_one_to_n,
     5000, true, "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"n_n_actor_calls_async", "n:n actor calls async", "1/s", NULL, body_n_to_n, 20000,
     false, "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"n_n_actor_calls_with_arg_async", "n:n actor calls with arg async", "1/s",
     need_bound_clients, body_n_to_n_with_arg, 1000, true, "zmq ipc echo, 1000 in flight",
     limit_echo_1000, 1000},
    {"placement_group_create/removal", "placement group create/removal", "1/s", NULL,
     body_placement_groups, 100, false, "zmq ipc echo", limit_echo_sync, 1},
    {"10000_args", NULL, "1/s", need_lists, body_many_args, 10000, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"3000_returns", NULL, "1/s", NULL, body_many_returns, 3000, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"10000_get", NULL, "1/s", NULL, body_many_gets, 10000, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
    {"1000000_queued", NULL, "1/s", NULL, body_million_tasks, 1000000, false,
     "zmq ipc echo, 1000 in flight", limit_echo_1000, 1000},
};
const size_t row_count = sizeof(rows) / sizeof(rows[0]);

/* ---------------------------------------------------------------- what they share */

int bench_server_count(void)
{
    return bench.server_count;
}

bool bench_start(void)
{
    if (!bare_echo_start(&bench.echo)) {
        bare_echo_stop(&bench.echo);
        return false;
    }
    bench.cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    bench.server_count = bench.cores / 2 < 1 ? 1 : bench.cores / 2;
    if (bench.server_count > SERVERS_MAX)
        bench.server_count = SERVERS_MAX;
    for (int i = 0; i < bench.server_count; i++) {
        bench.servers[i] = crt_actor_new(&server_class, NULL);
        CRT_CHECK(crt_actor_ready(bench.servers[i], 60000));
    }
    return true;
}

void bench_end(void)
{
    for (int i = 0; i < bench.client_count; i++)
        crt_actor_drop(&bench.clients[i]);
    for (int i = 0; i < bench.server_count; i++)
        crt_actor_drop(&bench.servers[i]);
    crt_actor_drop(&bench.client);
    crt_actor_drop(&bench.concurrent);
    crt_actor_drop(&bench.keeper);
    crt_refs_drop(bench.lists, LISTS);
    crt_ref_drop(&bench.small);
    crt_ref_drop(&bench.list);
    free(bench.zeros);
    bare_echo_stop(&bench.echo);
}

/* The driver on core 0, servers and the echo partner on core 1, where there are two. */
void bench_pin(bool pinned)
{
    if (bench.cores < 2)
        return;
    pin_process(getpid(), pinned ? 0 : -1);
    pin_process(bench.echo.partner, pinned ? 1 : -1);
    for (int i = 0; i < bench.server_count; i++) {
        crt_ref_t *ref = crt_call(bench.servers[i], &server_pid);
        int64_t pid = 0;

        CRT_CHECK(crt_get(ref, &pid));
        pin_process((pid_t)pid, pinned ? 1 : -1);
        crt_ref_drop(&ref);
    }
}
