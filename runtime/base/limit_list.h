/* SPDX-License-Identifier: Apache-2.0 */
/* The list of limits: numbers that are decisions (times, sizes, counts), which a configuration
 * file or the environment sets and the simulation draws. Each stands here once: `crt config`,
 * crt-limits(7) and the check of what is set follow. See limit.h.
 *
 * L(name, who obeys it, unit, default, least, most, meaning)
 *     The variable of the environment is CRT_ and the name in capitals. Real constants (formats,
 *     sizes of structures, what several limits must agree on) are no limits.
 * Who obeys
 *     CLUSTER: as the head was started; the head hands it to the nodes, a node to its processes.
 *     HEAD, NODE, HTTP: a daemon, as it was started. PROGRAM: drivers, and their workers with
 *     them. EACH: every process, as it was started.
 */
#ifndef CRTI_BASE_LIMIT_LIST_H
#define CRTI_BASE_LIMIT_LIST_H

#include "runtime/base/clock.h"

#define CRTI_KIB  1024ull
#define CRTI_MIB  (1024 * CRTI_KIB)
#define CRTI_GIB  (1024 * CRTI_MIB)
#define CRTI_TIB  (1024 * CRTI_GIB)
#define CRTI_HOUR (3600 * CRTI_S)
#define CRTI_DAY  (24 * CRTI_HOUR)

/* Between head, nodes and processes. The interval of heartbeats is short of what the fence of
 * actors needs (fence.h): it is a constant, because a new head must know it of an old one. */
#define CRTI_LIMITS_LINKS(L)                                                             \
    L(heartbeat_interval, CLUSTER, TIME, CRTI_S, 50 * CRTI_MS, 1500 * CRTI_MS,           \
      "time from one heartbeat of a node to the next")                                   \
    L(heartbeat_timeout, CLUSTER, TIME, 5 * CRTI_S, CRTI_S, CRTI_HOUR,                   \
      "silence after which the head takes a node for dead, and a node its link to the "  \
      "head")                                                                            \
    L(node_suspect_timeout, CLUSTER, TIME, 600 * CRTI_MS, 10 * CRTI_MS, CRTI_HOUR,       \
      "time for a node whose connection broke to connect again, before it counts "       \
      "as dead")                                                                         \
    L(report_delay, CLUSTER, TIME, 50 * CRTI_MS, CRTI_MS, 10 * CRTI_S,                   \
      "time for which a node gathers changes of its resources before it reports them")   \
    L(session_ack_delay, CLUSTER, TIME, 25 * CRTI_MS, CRTI_MS, CRTI_S,                   \
      "time for which an acknowledgement between two processes waits for company")       \
    L(session_probe, CLUSTER, TIME, 200 * CRTI_MS, 10 * CRTI_MS, 10 * CRTI_S,            \
      "time without an acknowledgement until a process asks for one; doubled "           \
      "each time")                                                                       \
    L(session_probe_max, CLUSTER, TIME, 2 * CRTI_S, 20 * CRTI_MS, 60 * CRTI_S,           \
      "longest time that session_probe grows to")                                        \
    L(session_timeout, CLUSTER, TIME, 30 * CRTI_S, CRTI_S, CRTI_HOUR,                    \
      "silence after which a process takes another one for unreachable")                 \
    L(session_window, EACH, BYTES, 16 * CRTI_MIB, 64 * CRTI_KIB, CRTI_TIB,               \
      "bytes of calls and answers on their way to one process, before the next "         \
      "one waits")                                                                       \
    L(record_limit, CLUSTER, BYTES, 64 * CRTI_MIB, 4 * CRTI_MIB, CRTI_GIB,               \
      "bytes of the largest call or answer, without what lies in stores")                \
    L(share_turn, CLUSTER, TIME, 100 * CRTI_MS, 10 * CRTI_MS, 10 * CRTI_S,               \
      "time that a task waits before a worker of another job is taken for it")           \
    L(handshake_timeout, EACH, TIME, 3 * CRTI_S, 100 * CRTI_MS, 60 * CRTI_S,             \
      "time for a connection to show that it knows the cluster's key")                   \
    L(link_queue, EACH, BYTES, 64 * CRTI_MIB, 16 * CRTI_MIB, 16 * CRTI_GIB,              \
      "bytes of messages that wait on one connection, before it is broken or its "       \
      "sender waits")                                                                    \
    L(tcp_reconnect, EACH, TIME, 10 * CRTI_MS, CRTI_MS, 60 * CRTI_S,                     \
      "time until a broken connection between processes of two hosts is made "           \
      "again; doubled each time")                                                        \
    L(tcp_reconnect_max, EACH, TIME, CRTI_S, CRTI_MS, CRTI_HOUR,                         \
      "longest time that tcp_reconnect grows to")                                        \
    L(tcp_heartbeat, EACH, TIME, 5 * CRTI_S, 100 * CRTI_MS, 1800 * CRTI_S,               \
      "time between two signs of life on such a connection; after three it is broken")   \
    L(wait_spin, EACH, TIME, 20 * CRTI_US, 0, 10 * CRTI_MS,                              \
      "time that a waiting thread looks before it sleeps; 0: it sleeps at once")         \
    L(wait_spin_long, EACH, TIME, 250 * CRTI_US, 0, 100 * CRTI_MS,                       \
      "the same, where a sleep would take longer to end than that")                      \
    L(follow_timeout, EACH, TIME, 600 * CRTI_S, CRTI_MS, 365 * CRTI_DAY,                 \
      "time for which who follows a log asks again when the head or a node does not "    \
      "answer")                                                                          \
    L(log_file, EACH, BYTES, 8 * CRTI_MIB, 64 * CRTI_KIB, CRTI_TIB,                      \
      "bytes of a daemon's log before it is renamed and another one begins")

#define CRTI_LIMITS_HEAD(L)                                                              \
    L(view_delay, HEAD, TIME, 50 * CRTI_MS, CRTI_MS, 10 * CRTI_S,                        \
      "time for which the head gathers what nodes have free before it tells "            \
      "other nodes")                                                                     \
    L(actor_retry, HEAD, TIME, 100 * CRTI_MS, CRTI_MS, 10 * CRTI_S,                      \
      "time until an actor is placed again that a node refused; doubled five times")     \
    L(actor_young, HEAD, TIME, CRTI_S, CRTI_MS, CRTI_HOUR,                               \
      "age from which on an actor that dies is restarted at once, not after a pause")    \
    L(actor_restart_pause, HEAD, TIME, 100 * CRTI_MS, CRTI_MS, 60 * CRTI_S,              \
      "first pause before a young actor is restarted; doubled seven times")              \
    L(dead_actors, HEAD, COUNT, 1000, 1, 1000000, "dead actors that crt list shows")     \
    L(dead_actors_time, HEAD, TIME, 600 * CRTI_S, CRTI_S, 3650 * CRTI_DAY,               \
      "time for which dead actors are shown")                                            \
    L(dead_nodes, HEAD, COUNT, 64, 1, 100000, "dead nodes that crt list shows")          \
    L(dead_nodes_time, HEAD, TIME, 600 * CRTI_S, CRTI_S, 3650 * CRTI_DAY,                \
      "time for which dead nodes are shown")                                             \
    L(ended_jobs, HEAD, COUNT, 1000, 1, 1000000, "ended jobs that crt job list shows")   \
    L(ended_jobs_time, HEAD, TIME, CRTI_DAY, CRTI_S, 3650 * CRTI_DAY,                    \
      "time for which ended jobs are shown")                                             \
    L(group_retry, HEAD, TIME, 100 * CRTI_MS, CRTI_MS, 10 * CRTI_S,                      \
      "time until a placement group is tried again that a node refused; doubled "        \
      "each time")                                                                       \
    L(group_retry_max, HEAD, TIME, CRTI_S, CRTI_MS, 60 * CRTI_S,                         \
      "longest time that group_retry grows to")                                          \
    L(removed_groups, HEAD, COUNT, 1000, 1, 1000000,                                     \
      "removed placement groups whose end is remembered")                                \
    L(deadlock_delay, HEAD, TIME, 200 * CRTI_MS, CRTI_MS, CRTI_HOUR,                     \
      "time that requests wait before the head asks whether jobs keep resources "        \
      "from each other")                                                                 \
    L(deadlock_interval, HEAD, TIME, 300 * CRTI_MS, 10 * CRTI_MS, CRTI_HOUR,             \
      "time from one such question to the next")                                         \
    L(redis_timeout, HEAD, TIME, 3 * CRTI_S, 100 * CRTI_MS, CRTI_HOUR,                   \
      "time for the head's redis-server to take a row, before its request fails")        \
    L(redis_away_timeout, HEAD, TIME, 10 * CRTI_S, 100 * CRTI_MS, CRTI_HOUR,             \
      "the same, of a Redis that is not the head's own")                                 \
    L(redis_retry, HEAD, TIME, 50 * CRTI_MS, CRTI_MS, 60 * CRTI_S,                       \
      "time until Redis is connected again; doubled each time")                          \
    L(redis_retry_max, HEAD, TIME, 2 * CRTI_S, CRTI_MS, CRTI_HOUR,                       \
      "longest time that redis_retry grows to")                                          \
    L(redis_queue, HEAD, BYTES, 256 * CRTI_MIB, CRTI_MIB, CRTI_TIB,                      \
      "bytes of rows that wait while Redis is away, before requests fail")

#define CRTI_LIMITS_NODE(L)                                                              \
    L(head_connect_timeout, NODE, TIME, 5 * CRTI_S, 100 * CRTI_MS, 600 * CRTI_S,         \
      "time for a connection to the head")                                               \
    L(peer_connect_timeout, NODE, TIME, 2 * CRTI_S, 100 * CRTI_MS, 600 * CRTI_S,         \
      "time for a connection to another node")                                           \
    L(reconnect_pause, NODE, TIME, 200 * CRTI_MS, CRTI_MS, 60 * CRTI_S,                  \
      "time between two tries to connect to the head or to another node")                \
    L(worker_start_timeout, NODE, TIME, 30 * CRTI_S, CRTI_S, CRTI_DAY,                   \
      "time for a worker, and for its program before main, to be ready")                 \
    L(worker_idle_timeout, NODE, TIME, 30 * CRTI_S, 10 * CRTI_MS, 365 * CRTI_DAY,        \
      "time after which a worker without work ends")                                     \
    L(worker_end_timeout, NODE, TIME, CRTI_S, 10 * CRTI_MS, CRTI_HOUR,                   \
      "time for a worker that is told to end, before it is killed")                      \
    L(job_start_timeout, NODE, TIME, 10 * CRTI_S, 100 * CRTI_MS, CRTI_HOUR,              \
      "time until the program of a submitted job is executed")                           \
    L(job_stop_timeout, NODE, TIME, 3 * CRTI_S, 10 * CRTI_MS, CRTI_HOUR,                 \
      "time for a stopped job to end by SIGTERM, before it is killed")                   \
    L(job_setup_timeout, NODE, TIME, CRTI_HOUR, CRTI_S, 365 * CRTI_DAY,                  \
      "time for the folder of a job to be ready, its setup command included")            \
    L(job_folders, NODE, BYTES, 8 * CRTI_GIB, CRTI_MIB, 1024 * CRTI_TIB,                 \
      "bytes of the folders of jobs that a host keeps; those unused longest go first")   \
    L(job_folders_time, NODE, TIME, 7 * CRTI_DAY, CRTI_S, 3650 * CRTI_DAY,               \
      "time for which they are kept unused")                                             \
    L(job_folder_max, NODE, BYTES, 4 * CRTI_GIB, CRTI_MIB, 1024 * CRTI_TIB,              \
      "bytes of all files of the folder of one job")                                     \
    L(program_cache, NODE, BYTES, 4 * CRTI_GIB, CRTI_MIB, 1024 * CRTI_TIB,               \
      "bytes of programs that a host keeps; those unused longest go first")              \
    L(transfer_window, NODE, BYTES, 64 * CRTI_MIB, CRTI_MIB, CRTI_TIB,                   \
      "bytes of objects that a node asks other nodes for at once")                       \
    L(transfer_parts, NODE, COUNT, 8, 1, 1024,                                           \
      "parts of one object, of 1 MiB, that are asked for at once")                       \
    L(transfer_timeout, NODE, TIME, 15 * CRTI_S, 100 * CRTI_MS, CRTI_HOUR,               \
      "time without a part of an object until another node is asked")                    \
    L(transfer_retry_timeout, NODE, TIME, 30 * CRTI_S, 100 * CRTI_MS, CRTI_DAY,          \
      "time that a node whose connection broke is asked again for an object")            \
    L(spill_file, NODE, BYTES, 256 * CRTI_MIB, CRTI_MIB, CRTI_TIB,                       \
      "bytes of objects in one file on disk")                                            \
    L(spill_retry, NODE, TIME, 2 * CRTI_S, 10 * CRTI_MS, CRTI_DAY,                       \
      "time until a directory for objects is tried again whose disk failed")             \
    L(spill_disk_free, NODE, PERCENT, 5, 0, 99,                                          \
      "part of a file system with objects that is left to others")                       \
    L(spill_store_free, NODE, PERCENT, 20, 1, 90,                                        \
      "part of a store that is kept free by writing objects to disk")                    \
    L(memory_limit, NODE, PERCENT, 95, 0, 100,                                           \
      "part of a node's memory beyond which the worker that grew most is ended; "        \
      "0: never")                                                                        \
    L(log_limit, NODE, BYTES, 64 * CRTI_MIB, CRTI_KIB, 1024 * CRTI_TIB,                  \
      "bytes that a node keeps of the output of each worker and job")                    \
    L(log_total, NODE, BYTES, CRTI_GIB, CRTI_KIB, 1024 * CRTI_TIB,                       \
      "bytes that a node keeps of all logs of ended workers")

#define CRTI_LIMITS_PROGRAM(L)                                                           \
    L(attach_timeout, PROGRAM, TIME, 30 * CRTI_S, 100 * CRTI_MS, CRTI_DAY,               \
      "time for a node to take a process in")                                            \
    L(head_timeout, PROGRAM, TIME, 30 * CRTI_S, 100 * CRTI_MS, CRTI_DAY,                 \
      "time for the head to answer: keys, names, new actors, jobs")                      \
    L(print_timeout, PROGRAM, TIME, 200 * CRTI_MS, 0, 60 * CRTI_S,                       \
      "time that a result waits at most for what its call has printed to be shown")      \
    L(inline_limit, PROGRAM, BYTES, 64 * CRTI_KIB, 64, CRTI_MIB,                         \
      "bytes of an argument or result that goes in the message; larger ones go "         \
      "to the store")                                                                    \
    L(put_inline_limit, PROGRAM, BYTES, 4 * CRTI_KIB, 0, CRTI_MIB,                       \
      "bytes of a value of crt_put that stays with its owner; larger ones go to "        \
      "the store")                                                                       \
    L(actor_queue, PROGRAM, BYTES, 16 * CRTI_MIB, CRTI_KIB, CRTI_TIB,                    \
      "bytes of calls of one actor that wait in a process; the next one waits, "         \
      "or is refused")                                                                   \
    L(task_queue, PROGRAM, BYTES, 128 * CRTI_MIB, CRTI_KIB, CRTI_TIB,                    \
      "bytes of tasks of one shape that wait in a process; the next one waits, "         \
      "or is refused")                                                                   \
    L(task_queue_front, PROGRAM, COUNT, 8192, 1, 10000000,                               \
      "tasks of one shape that have all they need to run; those behind them are "        \
      "packed")                                                                          \
    L(lease_depth, PROGRAM, COUNT, 1000, 1, 100000,                                      \
      "tasks that are sent to one worker ahead")                                         \
    L(lease_work, PROGRAM, TIME, 2 * CRTI_MS, 0, 10 * CRTI_S,                            \
      "time of work that is sent to one worker ahead")                                   \
    L(lease_idle, PROGRAM, TIME, 20 * CRTI_MS, 0, CRTI_HOUR,                             \
      "time that a process keeps a worker that has nothing to do")                       \
    L(lease_requests, PROGRAM, COUNT, 10, 1, 1000,                                       \
      "workers for tasks of one shape that a process asks for at once")                  \
    L(stream_window, PROGRAM, COUNT, 1000, 1, 100000,                                    \
      "results of a stream that wait for its reader, where the call does not say")       \
    L(locality_limit, PROGRAM, BYTES, CRTI_MIB, 0, CRTI_TIB,                             \
      "bytes that another node must have more of than this one, to get the task "        \
      "that needs them")                                                                 \
    L(store_timeout, PROGRAM, TIME, 5 * CRTI_S, 10 * CRTI_MS, CRTI_DAY,                  \
      "time that a put or a result waits for room in a full store in which nothing is "  \
      "freed (a value from a disk or another node waits 10 s)")                          \
    L(store_timeout_max, PROGRAM, TIME, 300 * CRTI_S, 10 * CRTI_MS, CRTI_DAY,            \
      "the same, while others get what is freed")                                        \
    L(fetch_tries, PROGRAM, COUNT, 14, 1, 1000,                                          \
      "times that a value is asked for which no node that should have it gives")         \
    L(fetch_pause, PROGRAM, TIME, 10 * CRTI_MS, CRTI_MS, 10 * CRTI_S,                    \
      "time before the second of these tries; doubled each time")                        \
    L(fetch_pause_max, PROGRAM, TIME, 200 * CRTI_MS, CRTI_MS, 60 * CRTI_S,               \
      "longest time that fetch_pause grows to")                                          \
    L(bundle_pause, PROGRAM, TIME, 50 * CRTI_MS, CRTI_MS, 10 * CRTI_S,                   \
      "time before tasks ask again for a bundle that was not there; doubled each "       \
      "time")                                                                            \
    L(bundle_pause_max, PROGRAM, TIME, 1600 * CRTI_MS, CRTI_MS, 60 * CRTI_S,             \
      "longest time that bundle_pause grows to")                                         \
    L(lineage_limit, PROGRAM, BYTES, 64 * CRTI_MIB, 0, 1024 * CRTI_TIB,                  \
      "bytes that a process keeps to make lost objects again; 0: none")                  \
    L(tell_waits, PROGRAM, TIME, 10 * CRTI_S, 0, 1000000 * CRTI_S,                       \
      "time after which a driver says what it waits for; 0: never")                      \
    L(collective_timeout, PROGRAM, TIME, 60 * CRTI_S, 10 * CRTI_MS, 365 * CRTI_DAY,      \
      "time for an operation of a group, where its options do not say")                  \
    L(collective_window, PROGRAM, BYTES, CRTI_MIB, 4 * CRTI_KIB, CRTI_GIB,               \
      "bytes of a group's operation that a member gives to one connection at once")      \
    L(collective_memory, PROGRAM, BYTES, 256 * CRTI_MIB, 0, CRTI_TIB,                    \
      "bytes of shared memory that a member of a group keeps for its next operation")

#define CRTI_LIMITS_HTTP(L)                                                              \
    L(http_body, HTTP, BYTES, 64 * CRTI_MIB, CRTI_KIB, CRTI_TIB,                         \
      "bytes of the arguments of a call by HTTP")                                        \
    L(http_body_stranger, HTTP, BYTES, CRTI_MIB, CRTI_KIB, CRTI_GIB,                     \
      "the same, of a caller without a token")                                           \
    L(http_result, HTTP, BYTES, 256 * CRTI_MIB, CRTI_KIB, CRTI_TIB,                      \
      "bytes of the result of a call by HTTP")                                           \
    L(http_result_stranger, HTTP, BYTES, 16 * CRTI_MIB, CRTI_KIB, CRTI_GIB,              \
      "the same, for a caller without a token")                                          \
    L(http_call_timeout, HTTP, TIME, 60 * CRTI_S, 10 * CRTI_MS, CRTI_HOUR,               \
      "time for a call by HTTP, where the request does not say")                         \
    L(http_upload, HTTP, BYTES, CRTI_GIB, CRTI_KIB, CRTI_TIB,                            \
      "bytes of a program, or of the zip of a folder, that a job brings along")          \
    L(http_header_timeout, HTTP, TIME, 5 * CRTI_S, CRTI_S, CRTI_HOUR,                    \
      "time for the headers of a request to come, and for the next request")             \
    L(http_body_timeout, HTTP, TIME, 20 * CRTI_S, CRTI_S, CRTI_HOUR,                     \
      "time for a body, and so long as it takes at http_body_rate besides")              \
    L(http_body_rate, HTTP, BYTES, 64 * CRTI_KIB, CRTI_KIB, CRTI_GIB,                    \
      "bytes of a body that a client must send each second")                             \
    L(http_send_timeout, HTTP, TIME, 30 * CRTI_S, CRTI_S, CRTI_HOUR,                     \
      "time for a client to take a part of an answer")                                   \
    L(http_head_timeout, HTTP, TIME, 10 * CRTI_S, CRTI_S, CRTI_HOUR,                     \
      "time for the head to answer what a request needs")                                \
    L(http_session, HTTP, TIME, 30 * CRTI_DAY, 60 * CRTI_S, 3650 * CRTI_DAY,             \
      "time that a browser stays signed in")                                             \
    L(http_link_time, HTTP, TIME, 60 * CRTI_S, CRTI_S, CRTI_DAY,                         \
      "time for which a link of crt dashboard signs in")

#define CRTI_LIMITS(L)                                                                   \
    CRTI_LIMITS_LINKS(L)                                                                 \
    CRTI_LIMITS_HEAD(L)                                                                  \
    CRTI_LIMITS_NODE(L)                                                                  \
    CRTI_LIMITS_PROGRAM(L)                                                               \
    CRTI_LIMITS_HTTP(L)

/* O(less, times, more): `more` is at least so many times `less`. */
#define CRTI_LIMIT_ORDERS(O)                                                             \
    O(heartbeat_interval, 2, heartbeat_timeout)                                          \
    O(reconnect_pause, 2, node_suspect_timeout)                                          \
    O(report_delay, 1, heartbeat_interval)                                               \
    O(session_ack_delay, 2, session_probe)                                               \
    O(session_probe, 1, session_probe_max)                                               \
    O(session_probe_max, 3, session_timeout)                                             \
    O(tcp_reconnect, 1, tcp_reconnect_max)                                               \
    O(redis_retry, 1, redis_retry_max)                                                   \
    O(group_retry, 1, group_retry_max)                                                   \
    O(inline_limit, 16, record_limit)                                                    \
    O(store_timeout, 1, store_timeout_max)                                               \
    O(fetch_pause, 1, fetch_pause_max)                                                   \
    O(bundle_pause, 1, bundle_pause_max)

#endif
