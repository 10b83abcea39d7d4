/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmark runs in its workers: the tasks and actors of Ray's ray_perf.py. */
#ifndef CRT_CLI_MICROBENCHMARK_PROGRAM_H
#define CRT_CLI_MICROBENCHMARK_PROGRAM_H

#include <crt.h>

/* Tasks. All servers answer the two bytes "ok", as Ray's do. */
extern const crt_task_t small_value_task; /* () -> "ok" */
extern const crt_task_t put_small_task;   /* (n): n times put(0) */
extern const crt_task_t put_large_task;   /* (n, bytes): n times put(zeros) */
extern const crt_task_t many_refs_task;   /* (n) -> list of n refs, each a put(1) */
extern const crt_task_t
    call_servers_task; /* (n, server...): n calls round robin, get all */

extern const crt_task_t sum_lists_task;    /* (list...) -> sum of all */
extern const crt_task_t return_lists_task; /* (n): list_of_ints(0), ..., n results */
extern const crt_task_t hold_task;         /* (path): until that pipe has a writer */

/* 0, 1, ..., of LIST_INTS, with another last one. Borrowed: valid until the next call. */
#define LIST_INTS 10000
crt_tensor_t list_of_ints(int64_t last);
int64_t sum_of_ints(const crt_tensor_t *list);
int64_t sum_of_lists(int64_t count); /* of list_of_ints(0), ... */

/* Server: small_value() -> "ok", small_value_arg(x) -> "ok", pid() -> its process id. */
extern const crt_method_t server_small_value, server_small_value_arg, server_pid;
extern const crt_actor_class_t server_class;

/* Client(server...): calls(n): n calls to each server, get all; arg_calls(n): x = put(0), n calls
 * of small_value_arg(x) to each server, get all; tasks(n): n small_value tasks, get all. */
extern const crt_method_t client_calls, client_arg_calls, client_tasks;
extern const crt_actor_class_t client_class;

/* Keeper(n): list() -> [a ref to a list of n refs, each a put(1)], the same each time. */
extern const crt_method_t keeper_list;
extern const crt_actor_class_t keeper_class;

#define BENCHMARK_CLASSES CRT_CLASSES(&server_class, &client_class, &keeper_class)
#define BENCHMARK_TASKS                                                                  \
    CRT_TASKS(&small_value_task, &put_small_task, &put_large_task, &many_refs_task,      \
              &call_servers_task, &sum_lists_task, &return_lists_task, &hold_task)

/* Gets all and drops all; the first failure is returned. */
crt_status_t get_all(crt_ref_t **refs, size_t count);

#endif
